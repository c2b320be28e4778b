//! The table that a write goes to, as the session sees it: with a leading `tenant` column for the operator.

use super::{assign::assign_row, defaults::parsed};
use crate::{
    lookup,
    pg::{
        datetime::OwnedInput,
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    row_numbers::RowNumbers,
    view::View,
};
use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion::sql::sqlparser::{
    ast::{Expr, Value as Literal, ValueWithSpan},
    tokenizer::Span,
};
use keyspan_catalog::{
    Column, ColumnPlace, Domain, Encoding, EnumType, KeySchema, ProtoMessage, SqlType, Table, Value, mapping,
    table::{ColumnDefault, Identity, MARKER_QUALIFIER, TENANT_COLUMN, marker_family},
};
use keyspan_storage::{Aggregate, FamilyName, Mutation, RowKey, store::delete_column};
use std::{borrow::Cow, sync::Arc};

/// A table that is written.
pub(crate) struct Target {
    pub(crate) table: Arc<Table>,
    /// Its keys, as the session sees them.
    pub(crate) key: KeySchema,
    /// Its columns in the order of `SELECT *`.
    pub(crate) columns: Vec<TargetColumn>,
    /// Its key, when no column shows it.
    pub(crate) hidden_key: Option<TargetColumn>,
    /// Whether it is one of the session's temporary tables.
    pub(crate) temporary: bool,
    /// Its schema.
    schema: Schema,
    /// How texts are read as values of its columns.
    pub(crate) input: OwnedInput,
    /// Whether the operator sees it, with the tenant as the first part of its key.
    pub(crate) operator: bool,
}

/// Where keys come from that no column has.
#[derive(Clone)]
pub(crate) struct Numbers {
    pub(crate) given: Arc<RowNumbers>,
    pub(crate) now_micros: i64,
}

/// A column of it.
pub(crate) struct TargetColumn {
    pub(crate) name: String,
    pub(crate) kind: SqlType,
    pub(crate) not_null: bool,
    pub(crate) place: Place,
    pub(crate) default: Option<ColumnDefault>,
    pub(crate) identity: Option<Identity>,
    /// The enumerated type of its texts.
    pub(crate) enumerated: Option<Arc<EnumType>>,
    /// Its domain and those that this is based on, the last of them first; none for a column of a plain type.
    pub(crate) domains: Vec<Arc<Domain>>,
}

/// Where a column's values go.
pub(crate) enum Place {
    /// The part of the key with this number; the tenant is 0 for the operator.
    Key(usize),
    /// A cell.
    Cell { family: FamilyName, qualifier: Bytes, encoding: Encoding, aggregate: Option<Aggregate> },
    /// All cells of an open family but the hidden ones, sorted by qualifier, with the names of their columns.
    Open { family: FamilyName, encoding: Encoding, hidden: Vec<(Bytes, Option<String>)> },
}

/// How the detail of an error begins that shows a whole row.
pub(crate) const FAILING_ROW: &str = "Failing row contains";

/// Bytes of a value in the detail of an error, as PostgreSQL has it.
const SHOWN_BYTES_MAX: usize = 64;

/// A value for the detail of an error.
fn cut(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

impl Target {
    /// # Errors
    /// 42P01.
    pub(crate) fn of(view: &View, name: &RelationName) -> Result<Self> {
        Ok(Self::of_table(view, view.writable(name)?.clone()))
    }

    /// A table that may not be in the catalog yet.
    pub(crate) fn of_table(view: &View, table: Arc<Table>) -> Self {
        let operator = view.rows.tenant().is_none();
        let key = if operator { table.key.for_operator() } else { table.key.clone() };
        let tenant = operator.then(|| TargetColumn {
            name: TENANT_COLUMN.to_owned(),
            kind: SqlType::Text,
            not_null: true,
            place: Place::Key(0),
            default: None,
            identity: None,
            enumerated: None,
            domains: Vec::new(),
        });
        let columns = table.columns.iter().map(|column| {
            let place = match &column.place {
                ColumnPlace::Key(part) => Place::Key(part + usize::from(operator)),
                ColumnPlace::Cell { family, qualifier, encoding } => Place::Cell {
                    family: family.clone(),
                    qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
                    encoding: encoding.clone(),
                    aggregate: table.family(family.as_str()).and_then(|family| family.aggregate),
                },
                ColumnPlace::Open { family, encoding } => {
                    let hidden = table.hidden_qualifiers(family).into_iter();
                    let hidden = hidden.map(|(qualifier, name)| (qualifier, name.map(str::to_owned))).collect();
                    Place::Open { family: family.clone(), encoding: encoding.clone(), hidden }
                }
            };
            let in_key = matches!(place, Place::Key(_));
            let domains = domains_of(view, column);
            let of_domain = || domains.iter().rev().find_map(|domain| domain.default.clone());
            TargetColumn {
                name: column.name.clone(),
                kind: column.kind,
                not_null: column.not_null || in_key,
                place,
                default: column.default.clone().or_else(of_domain),
                identity: column.identity,
                enumerated: column.enumerated.clone(),
                domains,
            }
        });
        let columns = tenant.into_iter().chain(columns).collect();
        let hidden = table.has_hidden_key().then(|| &table.key.parts[0]);
        let hidden_key = hidden.map(|part| TargetColumn {
            name: part.name.clone(),
            kind: part.kind,
            not_null: true,
            place: Place::Key(0),
            default: None,
            identity: None,
            enumerated: None,
            domains: Vec::new(),
        });
        let temporary = view.snapshot.temporary.tables.contains_key(&table.id);
        let input = view.input.clone();
        let schema = lookup::schema_of(&view.snapshot, view.rows.tenant(), table.id.0);
        Self { table: table.clone(), key, columns, hidden_key, temporary, schema, input, operator }
    }

    /// Its name, with its schema.
    pub(crate) fn name(&self) -> RelationName {
        RelationName::within(self.schema.clone(), self.table.name.as_str())
    }

    /// The place of a column in [`columns`](Self::columns).
    ///
    /// # Errors
    /// 42703.
    pub(crate) fn position(&self, name: &str) -> Result<usize> {
        self.columns
            .iter()
            .position(|column| column.name == name)
            .ok_or_else(|| SqlError::undefined_column_of(&self.table.name, name))
    }

    /// The places of the columns of the key, in its order; none for a hidden key.
    pub(crate) fn key_places(&self) -> Result<Vec<usize>> {
        if self.hidden_key.is_some() {
            return Ok(Vec::new());
        }
        self.key_columns().iter().map(|column| self.position(&column.name)).collect()
    }

    /// The columns of the key, in its order.
    pub(crate) fn key_columns(&self) -> Vec<&TargetColumn> {
        let mut columns: Vec<(usize, &TargetColumn)> = self
            .columns
            .iter()
            .chain(&self.hidden_key)
            .filter_map(|column| match column.place {
                Place::Key(part) => Some((part, column)),
                Place::Cell { .. } | Place::Open { .. } => None,
            })
            .collect();
        columns.sort_by_key(|(part, _)| *part);
        columns.into_iter().map(|(_, column)| column).collect()
    }

    /// The parts of the key of a new row with these values.
    pub(crate) fn new_parts(&self, places: &[usize], values: &[Value], numbers: &Numbers) -> Vec<Value> {
        match self.hidden_key {
            Some(_) => vec![numbers.given.next(numbers.now_micros)],
            None => places.iter().map(|at| values[*at].clone()).collect(),
        }
    }

    /// A row that was read with all columns, which begin at a place of the batch.
    pub(crate) fn row(&self, batch: &RecordBatch, from: usize, row: usize) -> Result<Vec<Value>> {
        let all: Vec<&TargetColumn> = self.columns.iter().collect();
        assign_row(batch, from, row, &all, self.input.input())
    }

    /// The row key of values of its parts.
    ///
    /// # Errors
    /// 0A000 for NULL: the row's key does not conform to the schema; what [`KeySchema::encode`] finds.
    pub(crate) fn row_key(&self, parts: &[Value]) -> Result<RowKey> {
        if parts.contains(&Value::Null) {
            let message = format!("a row of \"{}\" whose key does not conform cannot be written", self.table.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Add a condition that leaves rows with NULL in the key out."));
        }
        Ok(self.key.encode(parts)?)
    }

    /// `Key (a, b)=(x, y)`
    pub(crate) fn shown_key(&self, parts: &[Value]) -> String {
        let columns = self.key_columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let values: Vec<String> = parts.iter().zip(&columns).map(|(value, of)| value.to_text(of.kind)).collect();
        format!("Key ({})=({})", names.join(", "), values.join(", "))
    }

    /// 23502 for NULL in a column that has none.
    pub(crate) fn check_null(&self, column: &TargetColumn, value: &Value) -> Result<()> {
        if *value != Value::Null || !column.not_null {
            return Ok(());
        }
        let (name, table) = (&column.name, &self.table.name);
        let message = format!("null value in column \"{name}\" of relation \"{table}\" violates not-null constraint");
        Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message))
    }

    /// 23502 for the first NULL of a whole row in a column that has none, if the column's place is one that is written.
    pub(crate) fn check_nulls(&self, values: &[Value], written: impl Fn(usize) -> bool) -> Result<()> {
        for (_, (column, value)) in self.columns.iter().zip(values).enumerate().filter(|(at, _)| written(*at)) {
            self.check_null(column, value).map_err(|error| error.with_detail(self.failing(values)))?;
        }
        Ok(())
    }

    /// `Failing row contains (1, null, …).`, with values cut after 64 bytes, as PostgreSQL cuts them.
    pub(crate) fn failing(&self, values: &[Value]) -> String {
        let shown = values.iter().zip(&self.columns).map(|(value, column)| match value {
            Value::Null => "null".to_owned(),
            value => cut(value.to_text(column.kind)),
        });
        format!("{FAILING_ROW} ({}).", shown.collect::<Vec<_>>().join(", "))
    }

    /// The name of the primary key's constraint.
    pub(crate) fn primary_key_name(&self) -> String {
        format!("{}_pkey", self.table.name)
    }

    /// 23505
    pub(crate) fn duplicate(&self, parts: &[Value]) -> SqlError {
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.primary_key_name());
        SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(format!("{} already exists.", self.shown_key(parts)))
    }

    /// 23505 for a key that existing rows have twice.
    pub(crate) fn not_unique(&self, parts: &[Value]) -> SqlError {
        let message = format!("could not create unique index \"{}\"", self.primary_key_name());
        SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(format!("{} is duplicated.", self.shown_key(parts)))
    }

    /// 23503 when the operator writes for a tenant that is not there.
    pub(crate) fn check_tenant(&self, view: &View, parts: &[Value]) -> Result<()> {
        if view.rows.tenant().is_some() {
            return Ok(());
        }
        let Some(Value::Text(tenant)) = parts.first() else { return Ok(()) };
        if view.snapshot.tenant(tenant).is_some() {
            return Ok(());
        }
        let table = &self.table.name;
        let message = format!("insert on table \"{table}\" violates foreign key constraint \"{table}_tenant_fkey\"");
        Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!("Key (tenant)=({tenant}) is not present in table \"tenants\"."))
            .with_hint("CREATE DATABASE makes a tenant."))
    }
}

/// The domains of a column.
fn domains_of(view: &View, column: &Column) -> Vec<Arc<Domain>> {
    let own = || view.snapshot.private_of(view.rows.tenant());
    let chain = column.domain.and_then(|of| Some(own()?.domain_chain(of.id)));
    chain.into_iter().flatten().cloned().collect()
}

/// The cell that says that the row exists.
pub(crate) fn marker() -> Mutation {
    let qualifier = Bytes::from_static(MARKER_QUALIFIER);
    Mutation::SetCell { family: marker_family(), qualifier, timestamp: None, value: Bytes::new() }
}

impl TargetColumn {
    /// A value of it, if it may be one: text that is to be a label of its type.
    ///
    /// # Errors
    /// 22P02.
    pub(crate) fn check_label(&self, value: Value) -> Result<Value> {
        if let (Some(of), Value::Text(text)) = (&self.enumerated, &value) {
            of.check(text)?;
        }
        Ok(value)
    }

    /// Its default as an expression.
    ///
    /// # Errors
    /// For one that cannot be read: a fault of ours.
    pub(super) fn default_expression(&self) -> Result<Expr> {
        match &self.default {
            Some(default) => parsed(&default.sql),
            None => Ok(Expr::Value(ValueWithSpan { value: Literal::Null, span: Span::empty() })),
        }
    }

    /// 428C9 for an identity column that no value may be given to.
    pub(super) fn check_given(&self) -> Result<()> {
        if self.identity != Some(Identity::Always) {
            return Ok(());
        }
        let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", self.name);
        Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
            .with_detail(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", self.name))
            .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
    }

    /// The message that its cells hold, if they hold protobuf.
    pub(crate) fn message(&self) -> Option<&ProtoMessage> {
        match &self.place {
            Place::Cell { encoding, .. } => encoding.message(),
            Place::Key(_) | Place::Open { .. } => None,
        }
    }

    /// A value on its way to the column, as the column shows it: a message that came as bytes is a jsonb.
    ///
    /// # Errors
    /// For bytes that are no message: they were checked before.
    pub(super) fn shown<'a>(&self, value: &'a Value) -> Result<Cow<'a, Value>> {
        let (Some(message), Value::Bytes(bytes)) = (self.message(), value) else { return Ok(Cow::Borrowed(value)) };
        message.check(bytes)?;
        Ok(message.decode(bytes).map_or(Cow::Borrowed(value), Cow::Owned))
    }

    /// Whether values are merged into its cells.
    pub(crate) fn is_aggregate(&self) -> bool {
        matches!(self.place, Place::Cell { aggregate: Some(_), .. })
    }

    /// Whether it shows an open family.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.place, Place::Open { .. })
    }

    /// Adds the mutations that a new row needs for the value: none for NULL and for a part of the key.
    ///
    /// # Errors
    /// For a value that has no bytes, and what an open family does not take.
    pub(crate) fn insert(&self, value: &Value, mutations: &mut Vec<Mutation>) -> Result<()> {
        let (family, qualifier, encoding, aggregate) = match &self.place {
            Place::Key(_) => return Ok(()),
            Place::Cell { family, qualifier, encoding, aggregate } => (family, qualifier, encoding, aggregate),
            Place::Open { family, .. } => {
                mutations.extend(self.cells(value)?.0.into_iter().map(|(qualifier, value)| Mutation::SetCell {
                    family: family.clone(),
                    qualifier,
                    timestamp: None,
                    value,
                }));
                return Ok(());
            }
        };
        let (family, qualifier) = (family.clone(), qualifier.clone());
        match (value, aggregate) {
            (Value::Null, _) => {}
            // The cell at timestamp 0 takes every input: one cell, one aggregate.
            (Value::Int(input), Some(_)) => {
                mutations.push(Mutation::AddToCell { family, qualifier, timestamp: Some(0), input: *input });
            }
            (_, Some(_)) => {
                let message = format!("column \"{}\" merges integers only", self.name);
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
            (value, None) => {
                let value = mapping::encode(value, self.kind, encoding)?;
                mutations.push(Mutation::SetCell { family, qualifier, timestamp: None, value });
            }
        }
        Ok(())
    }

    /// Adds the mutations that give the cell of a row this value; NULL deletes the column's cells. Of an open family
    /// the cells of the map are written, and others stay.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub(crate) fn set(&self, value: &Value, mutations: &mut Vec<Mutation>) -> Result<()> {
        match (&self.place, value) {
            (Place::Cell { family, qualifier, aggregate: None, .. }, Value::Null) => {
                mutations.push(delete_column(family.clone(), qualifier.clone()));
                Ok(())
            }
            _ => self.insert(value, mutations),
        }
    }
}
