//! `ALTER TABLE … ALTER COLUMN … TYPE type [USING expression]`.
//!
//! What is stored stays where it reads as the new type, too. Otherwise the rows of a tenant's own table are written
//! anew ([`rewrite_rows`](super::rewrite_rows)), with the value of the expression, or what the column had, assigned to
//! the new type as an INSERT would. The default is that of before, settled for the new type.

use super::{column_defaults::check_identity, own_type::ColumnTypes, table::Settled, view::dependents_of_columns};
use crate::{
    dml::{
        assign::assign_scalar,
        parsed, returning,
        select::has_subquery,
        settled,
        target::{Target, TargetColumn},
    },
    pg::{
        error::{Result, SqlError, SqlState},
        functions::json,
        ident::quoted,
        names::RelationName,
        types,
    },
    query::Query,
    session::Session,
    view::View,
};
use arrow::{compute::concat_batches, datatypes::DataType};
use datafusion::{
    common::tree_node::TreeNode,
    logical_expr::LogicalPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{Expr, SelectItem},
};
use futures::TryStreamExt;
use keyspan_catalog::{
    EnumType, SqlType, Table, Value,
    table::{ColumnDefault, DefaultValue},
};
use std::{collections::BTreeSet, sync::Arc};

/// How the values of a column become those of its new type.
#[derive(Clone, Debug)]
pub(super) struct Conversion {
    /// The number of the column.
    pub(super) column: u16,
    /// The new value, by the names that columns have before the statement.
    expression: Expr,
}

/// A type that a column gets, with its default.
#[derive(Debug)]
pub(super) struct Retyped {
    column: String,
    kind: SqlType,
    default: Option<ColumnDefault>,
    /// The type, if it is one of the tenant's own.
    own: ColumnTypes,
    /// How the column's values become those of the type; none where what is stored stays, and for a column that the
    /// same statement adds.
    pub(super) conversion: Option<Conversion>,
    /// Whether what is stored reads as the type.
    stays: bool,
}

impl Retyped {
    /// The table with it.
    pub(super) fn apply(&self, table: &Table) -> keyspan_catalog::Result<Table> {
        let Self { column, kind, default, own, stays, .. } = self;
        let table = if *stays { table.alter_type(column, *kind)? } else { table.retyped(column, *kind)? };
        own.put(table).set_default(column, default.clone())
    }
}

/// What a change of a type comes to. `before` is the table before the statement, `table` as the actions before this one
/// leave it.
///
/// # Errors
/// Those of [`Table::retyped`]; 42804 for a default that has no value of the new type; 0A000 for a column that a view
/// shows, for USING with a subquery, and for a shared table whose rows would have to be written anew.
pub(super) async fn of(
    session: &mut Session,
    (before, table): (&Table, &Table),
    (name, (kind, own_type), using): (&str, (SqlType, Option<&RelationName>), Option<&Expr>),
) -> Result<Settled> {
    if using.is_some_and(has_subquery) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in transform expression"));
    }
    let (own, of_domain) = match own_type {
        Some(own_type) => ColumnTypes::of_column(session, name, own_type)?,
        None => (ColumnTypes::default(), None),
    };
    let kind = of_domain.unwrap_or(kind);
    let old = table.column(name).ok_or_else(|| SqlError::undefined_column_of(&table.name, name))?;
    let is_same = kind == old.kind && own.is_empty() && old.enumerated.is_none() && old.domain.is_none();
    if !is_same {
        refuse_below_view(session, table.id.0, (name, old.id))?;
    }
    old.identity.map_or(Ok(()), |_| check_identity(kind))?;
    // A type of the tenant's own takes some values only.
    let stays = using.is_none() && own.is_empty() && table.reads_as(name, kind)?;
    let shape = if stays { table.alter_type(name, kind)? } else { table.retyped(name, kind)? };
    let known = before.columns.iter().find(|column| column.id == old.id);
    let conversion = known.filter(|_| !stays).map(|known| Conversion {
        column: old.id,
        expression: using.cloned().unwrap_or_else(|| Expr::Identifier(quoted(&known.name))),
    });
    if let Some(conversion) = &conversion {
        check(session, before, (name, kind, own.enumerated()), conversion, using.is_some()).await?;
    }
    let default = match &old.default {
        Some(default) if !is_same => {
            let bare = own.put(shape.set_default(name, None)?);
            redefaulted(session, (&bare, old.kind), name, default).await?
        }
        default => default.clone(),
    };
    let retyped = Retyped { column: name.to_owned(), kind, default, own, conversion, stays };
    Ok(Settled::Retyped(Box::new(retyped)))
}

/// Refuses an expression that has no value for the type: no text becomes something else unless it is cast.
async fn check(
    session: &mut Session,
    before: &Table,
    (name, kind, enumerated): (&str, SqlType, Option<&EnumType>),
    conversion: &Conversion,
    given: bool,
) -> Result<()> {
    let query = session.query_now().await?;
    let target = Target::of_table(&query.view, Arc::new(before.clone()));
    let item = SelectItem::ExprWithAlias { expr: conversion.expression.clone(), alias: quoted("c0") };
    let (_, plan) = returning::written_rows(&query, &target, &quoted(&before.name), &[item], &[]).await?;
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::Aggregate(_))))? {
        let message = "aggregate functions are not allowed in transform expressions";
        return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
    }
    let Some(field) = plan.schema().fields().first() else { return Ok(()) };
    let to_document = matches!(kind, SqlType::Json | SqlType::Jsonb);
    let reads = match enumerated {
        Some(of) => types::enums::of(field).is_some_and(|from| from.id == of.id),
        None => is_text(kind) && (!to_document || json::kind(field).is_some()),
    };
    if reads || *field.data_type() != DataType::Utf8View {
        return Ok(());
    }
    let shown = enumerated.map_or_else(|| kind.to_string(), |of| of.name.clone());
    let of = if given { format!("result of USING clause for column \"{name}\"") } else { format!("column \"{name}\"") };
    let hint = match given {
        true => "You might need to add an explicit cast.".to_owned(),
        false => format!("You might need to specify \"USING {name}::{shown}\"."),
    };
    let message = format!("{of} cannot be cast automatically to type {shown}");
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint))
}

/// Refuses to change what a view shows.
fn refuse_below_view(session: &Session, table: u32, (name, column): (&str, u16)) -> Result<()> {
    let snapshot = session.catalog_snapshot();
    let own = snapshot.private_of(session.identity.rows.tenant());
    let views = own.map(|own| dependents_of_columns(own, table, &BTreeSet::from([column]))).unwrap_or_default();
    let Some(view) = views.first() else { return Ok(()) };
    let detail = format!("rule _RETURN on view {} depends on column \"{name}\"", view.name);
    let message = "cannot alter type of a column used by a view or rule";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail))
}

/// Whether values of a type are texts to Arrow.
fn is_text(kind: SqlType) -> bool {
    types::data_type(kind) == DataType::Utf8View
}

/// A default for the new type of its column.
async fn redefaulted(
    session: &mut Session,
    (table, from): (&Table, SqlType),
    name: &str,
    default: &ColumnDefault,
) -> Result<Option<ColumnDefault>> {
    let kind = table.column(name).map(|column| column.kind);
    let cannot = || {
        let shown = kind.map(|kind| kind.to_string()).unwrap_or_default();
        let message = format!("default for column \"{name}\" cannot be cast automatically to type {shown}");
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
    };
    if let DefaultValue::Next(_) = default.value {
        let is_integer = matches!(kind, Some(SqlType::Int2 | SqlType::Int4 | SqlType::Int8));
        return if is_integer { Ok(Some(default.clone())) } else { Err(cannot()) };
    }
    if is_text(from) && !kind.is_some_and(is_text) {
        return Err(cannot());
    }
    let query = session.query_now().await?;
    settled(&query, table, name, &parsed(&default.sql)?).await.map_err(|error| match error.state {
        SqlState::DATATYPE_MISMATCH => cannot(),
        _ => error,
    })
}

/// The conversions of a statement, on their way over the rows.
pub(super) struct Converter<'a> {
    query: Query,
    before: Target,
    after: Target,
    conversions: &'a [Conversion],
    /// The places of the columns in the table as it shall be, in the order of the conversions.
    places: Vec<usize>,
}

impl<'a> Converter<'a> {
    /// From a table to what it shall be; `draft` is a view with the latter.
    pub(super) fn new(
        session: &Session,
        (view, before): (&View, &Table),
        (draft, after): (&View, &Table),
        conversions: &'a [Conversion],
    ) -> Result<Self> {
        let place = |one: &Conversion| after.columns.iter().position(|column| column.id == one.column);
        let places = conversions.iter().filter_map(place).collect();
        let after = Target::of_table(draft, Arc::new(after.clone()));
        let before = Target::of_table(view, Arc::new(before.clone()));
        Ok(Self { query: session.query(view.clone())?, before, after, conversions, places })
    }

    /// The new values of rows, which have a value for each column of the table before: of each conversion those of all
    /// rows.
    ///
    /// # Errors
    /// What the expressions find, and assignment; 42804 with a hint for what no assignment casts.
    pub(super) async fn values(&self, rows: &[Vec<Value>]) -> Result<Vec<Vec<Value>>> {
        let named = |(at, conversion): (usize, &Conversion)| SelectItem::ExprWithAlias {
            expr: conversion.expression.clone(),
            alias: quoted(&format!("c{at}")),
        };
        let items: Vec<SelectItem> = self.conversions.iter().enumerate().map(named).collect();
        let rows: Vec<&[Value]> = rows.iter().map(Vec::as_slice).collect();
        let name = quoted(&self.before.table.name);
        let (_, plan) = returning::written_rows(&self.query, &self.before, &name, &items, &rows).await?;
        let stream = self.query.run(plan).await?;
        let schema = stream.schema();
        let batches: Vec<_> = stream.try_collect().await.map_err(SqlError::from)?;
        let batch = concat_batches(&schema, &batches)?;
        let of_column = |(array, column): (&arrow::array::ArrayRef, &TargetColumn)| {
            let value = |row| {
                let scalar = ScalarValue::try_from_array(array, row)?;
                assign_scalar(&scalar, array.data_type(), column, self.before.input.input())
                    .map_err(|error| unassignable(error, column))
            };
            (0..batch.num_rows()).map(value).collect::<Result<Vec<Value>>>()
        };
        let columns = self.places.iter().map(|place| &self.after.columns[*place]);
        batch.columns().iter().zip(columns).map(of_column).collect()
    }
}

fn unassignable(error: SqlError, column: &TargetColumn) -> SqlError {
    if error.state != SqlState::DATATYPE_MISMATCH {
        return error;
    }
    let (name, kind) = (&column.name, column.kind);
    SqlError::new(error.state, format!("column \"{name}\" cannot be cast automatically to type {kind}"))
        .with_hint(format!("You might need to specify \"USING {name}::{kind}\"."))
}
