//! What the columns and conditions of a new table come to, before it is made: defaults are evaluated, conditions
//! planned.

use super::own_type::ColumnTypes;
use crate::{
    dml,
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    sql::ast::definition::{CheckClause, ColumnClause, CreateTable, DefaultClause, OwnSequence},
};
use datafusion::sql::sqlparser::ast::Expr;
use keyspan_catalog::{
    ColumnPlace, PrivateEdit, Sequence, SequenceOptions, Snapshot, SqlType, Table, TenantId,
    rights::PUBLIC_SCHEMA,
    table::{ColumnDefault, DefaultValue, Identity},
};

/// A column with a sequence of its own.
#[derive(Clone, Debug)]
pub(super) struct WithSequence {
    /// The column.
    pub(super) column: String,
    /// What kind of identity the column is, if it is one.
    identity: Option<Identity>,
    /// The name of the sequence; `None` for the one that PostgreSQL would choose.
    name: Option<String>,
    /// The options of the sequence.
    options: SequenceOptions,
}

/// What is settled of a table's columns and conditions.
#[derive(Debug, Default)]
pub(super) struct ColumnClauses {
    defaults: Vec<(String, ColumnDefault)>,
    own: Vec<WithSequence>,
    checks: Vec<(Option<String>, String, Vec<String>)>,
    types: ColumnTypes,
}

impl ColumnClauses {
    /// Settles what the statement says; `draft` is the table without it.
    pub(super) async fn of(session: &mut Session, create: &CreateTable, draft: &Table) -> Result<Self> {
        let mut given = Self::default();
        given.settle(session, &create.columns, &create.checks, draft).await?;
        Ok(given)
    }

    /// Settles what is said of a column that is added; `draft` is the table with it, but for what this gives.
    pub(super) async fn of_added(
        session: &mut Session,
        column: &ColumnClause,
        checks: &[CheckClause],
        draft: &Table,
    ) -> Result<Self> {
        let mut given = Self::default();
        given.settle(session, std::slice::from_ref(column), checks, draft).await?;
        Ok(given)
    }

    async fn settle(
        &mut self,
        session: &mut Session,
        columns: &[ColumnClause],
        checks: &[CheckClause],
        draft: &Table,
    ) -> Result<()> {
        self.types = ColumnTypes::of(session, columns)?;
        let draft = &self.types.put(draft.clone());
        for column in columns {
            match &column.default {
                None => {}
                Some(DefaultClause::Expression(expression)) => {
                    let default = dml::settled(&session.query_now().await?, draft, &column.name, expression).await?;
                    self.defaults.extend(default.map(|default| (column.name.clone(), default)));
                }
                Some(DefaultClause::Serial) => {
                    self.own.push(with_sequence(column, None, &OwnSequence::default()));
                }
                Some(DefaultClause::Identity(identity, sequence)) => {
                    self.own.push(with_sequence(column, Some(*identity), sequence));
                }
            }
        }
        for check in checks {
            let (sql, columns) = settled_check(session, draft, &check.condition).await?;
            self.checks.push((check.name.clone(), sql, columns));
        }
        Ok(())
    }

    /// Settles that a column of a table becomes an identity column.
    ///
    /// # Errors
    /// 42703; 55000 for a column that has a default, is an identity column, or takes NULL.
    pub(super) fn of_identity(table: &Table, column: &str, identity: Identity, sequence: &OwnSequence) -> Result<Self> {
        let found = table.column(column).ok_or_else(|| SqlError::undefined_column_of(&table.name, column))?;
        let of = format!("column \"{column}\" of relation \"{}\"", table.name);
        let wrong = if found.identity.is_some() {
            Some(format!("{of} is already an identity column"))
        } else if found.default.is_some() {
            Some(format!("{of} already has a default value"))
        } else if !found.not_null && !matches!(found.place, ColumnPlace::Key(_)) {
            Some(format!("{of} must be declared NOT NULL before identity can be added"))
        } else {
            None
        };
        if let Some(message) = wrong {
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        check_identity(found.kind)?;
        let clause = ColumnClause {
            name: column.to_owned(),
            kind: found.kind,
            not_null: true,
            default: None,
            protobuf: None,
            cells: None,
            own_type: None,
        };
        Ok(Self { own: vec![with_sequence(&clause, Some(identity), sequence)], ..Self::default() })
    }

    /// The columns with sequences of their own.
    pub(super) fn own(&self) -> &[WithSequence] {
        &self.own
    }

    /// The table with all of it but for sequences.
    pub(super) fn put_values(&self, table: Table) -> keyspan_catalog::Result<Table> {
        let mut table = self.types.put(table);
        for (column, default) in &self.defaults {
            table = table.set_default(column, Some(default.clone()))?;
        }
        for (name, sql, columns) in &self.checks {
            table = table.add_check(name.as_deref(), sql.clone(), columns.clone())?;
        }
        Ok(table)
    }

    /// Whether it needs sequences.
    pub(super) fn has_sequences(&self) -> bool {
        !self.own.is_empty()
    }

    /// The table with all of it, and the sequences that are made after it.
    pub(super) fn put(
        &self,
        table: Table,
        snapshot: &Snapshot,
        tenant: Option<&TenantId>,
    ) -> keyspan_catalog::Result<(Table, Vec<PrivateEdit>)> {
        let table = self.put_values(table)?;
        let first = table.id.0 + 1;
        with_sequences(table, &self.own, first, snapshot, tenant)
    }
}

/// Refuses an identity column that is no integer.
///
/// # Errors
/// 22023.
pub(super) fn check_identity(kind: SqlType) -> Result<()> {
    if matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// The text of a condition as it is stored, and the columns that it names.
///
/// # Errors
/// Those of [`dml::checked_columns`].
pub(super) async fn settled_check(
    session: &mut Session,
    table: &Table,
    condition: &Expr,
) -> Result<(String, Vec<String>)> {
    let query = session.query_now().await?;
    let columns = dml::checked_columns(&query, table, condition).await?;
    let mut bound = condition.clone();
    query.statement_context().type_names().bind(&mut bound);
    Ok((condition_text(&bound), columns))
}

/// A condition as SQL, without brackets around all of it: dumps write `CHECK ((a > 0))`, and would add a pair each
/// time.
fn condition_text(condition: &Expr) -> String {
    match condition {
        Expr::Nested(inner) => condition_text(inner),
        condition => condition.to_string(),
    }
}

/// The table with columns that have a sequence of their own, and the sequences, whose numbers follow each other from
/// `first` on.
pub(super) fn with_sequences(
    mut table: Table,
    own: &[WithSequence],
    first: u32,
    snapshot: &Snapshot,
    tenant: Option<&TenantId>,
) -> keyspan_catalog::Result<(Table, Vec<PrivateEdit>)> {
    let mut sequences: Vec<Sequence> = Vec::with_capacity(own.len());
    for (WithSequence { column, identity, name, options }, number) in own.iter().zip(first..) {
        let taken = |name: &str| {
            let private = snapshot.private_of(tenant).is_some_and(|private| private.has_within(table.schema, name));
            private
                || (table.schema == PUBLIC_SCHEMA && snapshot.table(name).is_some())
                || sequences.iter().any(|other| other.name == name)
                || name == table.name
        };
        let base = Sequence::name_for_column(&table.name, column);
        let mut names = std::iter::once(base.clone()).chain((1_u32..).map(|number| format!("{base}{number}")));
        // A name that is given and taken is refused when the sequence is made.
        let name = name.clone().or_else(|| names.find(|name| !taken(name))).unwrap_or(base);
        let mut sequence = Sequence::define(number, &name, options)?;
        let id = table.column(column).map(|column| column.id).unwrap_or_default();
        (sequence.owner, sequence.schema) = (Some((table.id, id)), table.schema);
        let default = ColumnDefault { sql: dml::next_sql(&name), value: DefaultValue::Next(sequence.id) };
        table = table.set_default(column, Some(default))?.set_identity(column, *identity)?;
        sequences.push(sequence);
    }
    Ok((table, sequences.into_iter().map(PrivateEdit::CreateSequence).collect()))
}

/// A column with a sequence of its own, which has the column's type.
fn with_sequence(column: &ColumnClause, identity: Option<Identity>, sequence: &OwnSequence) -> WithSequence {
    // A type that is no sequence's is refused when the sequence is made.
    let options = SequenceOptions { kind: Some(column.kind), ..sequence.options.clone() };
    let name = sequence.name.as_ref().map(|name| name.name.clone());
    WithSequence { column: column.name.clone(), identity, name, options }
}
