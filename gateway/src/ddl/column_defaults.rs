//! What the columns and conditions of a new table come to, before it is made: defaults are evaluated, conditions
//! planned.

use crate::{
    dml,
    pg::error::Result,
    session::Session,
    sql::ast::definition::{CheckClause, ColumnClause, CreateTable, DefaultClause},
};
use keyspan_catalog::{
    PrivateEdit, Sequence, SequenceOptions, Snapshot, Table, TenantId,
    table::{ColumnDefault, DefaultValue, Identity},
};

/// Bytes of a name, as PostgreSQL cuts it.
const NAME_BYTES_MAX: usize = 63;

/// A column with a sequence of its own, the sequence's options, and what of an identity the column is.
pub(super) type OwnSequence = (String, SequenceOptions, Option<Identity>);

/// What is settled of a table's columns and conditions.
#[derive(Debug, Default)]
pub(super) struct ColumnClauses {
    defaults: Vec<(String, ColumnDefault)>,
    own: Vec<OwnSequence>,
    checks: Vec<(Option<String>, String, Vec<String>)>,
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
        for column in columns {
            match &column.default {
                None => {}
                Some(DefaultClause::Expression(expression)) => {
                    let default = dml::settled(&session.query_now().await?, draft, &column.name, expression).await?;
                    self.defaults.extend(default.map(|default| (column.name.clone(), default)));
                }
                Some(DefaultClause::Serial) => {
                    self.own.push((column.name.clone(), of_column(column, SequenceOptions::default()), None));
                }
                Some(DefaultClause::Identity(identity, options)) => {
                    self.own.push((column.name.clone(), of_column(column, options.clone()), Some(*identity)));
                }
            }
        }
        for check in checks {
            let columns = dml::checked_columns(&session.query_now().await?, draft, &check.condition).await?;
            self.checks.push((check.name.clone(), check.condition.to_string(), columns));
        }
        Ok(())
    }

    /// The columns with sequences of their own.
    pub(super) fn own(&self) -> &[OwnSequence] {
        &self.own
    }

    /// The table with all of it but for sequences.
    pub(super) fn put_values(&self, mut table: Table) -> keyspan_catalog::Result<Table> {
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

/// The table with columns that have a sequence of their own, and the sequences, whose numbers follow each other from
/// `first` on.
pub(super) fn with_sequences(
    mut table: Table,
    own: &[OwnSequence],
    first: u32,
    snapshot: &Snapshot,
    tenant: Option<&TenantId>,
) -> keyspan_catalog::Result<(Table, Vec<PrivateEdit>)> {
    let mut sequences: Vec<Sequence> = Vec::with_capacity(own.len());
    for ((column, options, identity), number) in own.iter().zip(first..) {
        let taken = |name: &str| {
            let private = snapshot.private_of(tenant).is_some_and(|private| private.has(name));
            private
                || snapshot.table(name).is_some()
                || sequences.iter().any(|other| other.name == name)
                || name == table.name
        };
        let base = sequence_name(&table.name, column);
        let mut names = std::iter::once(base.clone()).chain((1_u32..).map(|number| format!("{base}{number}")));
        let name = names.find(|name| !taken(name)).unwrap_or(base);
        let mut sequence = Sequence::define(number, &name, options)?;
        let id = table.column(column).map(|column| column.id).unwrap_or_default();
        sequence.owner = Some((table.id, id));
        let default = ColumnDefault { sql: dml::next_sql(&name), value: DefaultValue::Next(sequence.id) };
        table = table.set_default(column, Some(default))?.set_identity(column, *identity)?;
        sequences.push(sequence);
    }
    Ok((table, sequences.into_iter().map(PrivateEdit::CreateSequence).collect()))
}

/// The options of a column's own sequence, which has the column's type.
fn of_column(column: &ColumnClause, options: SequenceOptions) -> SequenceOptions {
    // One that is no sequence's is refused when the sequence is made.
    SequenceOptions { kind: Some(column.kind), ..options }
}

/// `table_column_seq`, cut as PostgreSQL cuts it: the longer of both names first.
fn sequence_name(table: &str, column: &str) -> String {
    let (mut table, mut column) = (table.to_owned(), column.to_owned());
    while table.len() + column.len() + "__seq".len() > NAME_BYTES_MAX {
        if table.len() >= column.len() {
            table.pop()
        } else {
            column.pop()
        };
    }
    format!("{table}_{column}_seq")
}
