//! `keyspan.tables`, `keyspan.families` and `keyspan.columns`: what PostgreSQL's relations have no columns for. And the
//! same in the form of PostgreSQL's options of tables and columns (`reloptions`, `attoptions`), which `\d+` shows.
//!
//! The operator sees the shared tables with the column `tenant`, and the private tables of all tenants. A tenant sees
//! the shared tables as its statements do, its own private tables, and the session's temporary ones.

use super::{
    columns::{Cell, Row},
    create, objects,
};
use crate::pg_catalog::columns::row;
use crate::{context::StatementContext, pg::ident::quote_ident};
use keyspan_catalog::{
    Column, ColumnPlace, PartOrder, Table, TableFamily, TenantId,
    table::{
        TENANT_COLUMN,
        describe::{age_text, aggregate_name},
    },
};
use std::sync::Arc;

/// A table, and the tenant whose private table it is.
type Listed<'a> = (&'a Arc<Table>, Option<&'a TenantId>);

/// The tables that a statement's session sees.
fn listed(statement: &StatementContext) -> Vec<Listed<'_>> {
    let tenant = statement.tenant.as_ref();
    let mut all: Vec<Listed<'_>> =
        statement.tables().map(|table| (table, tenant.filter(|_| table.is_private()))).collect();
    if statement.operator {
        let private = statement.snapshot.private.iter();
        all.extend(private.flat_map(|(tenant, own)| own.tables.values().map(move |table| (table, Some(tenant)))));
    }
    all
}

/// Whether a table is shown with the tenant as the first part of its key.
fn shows_tenant(table: &Table, statement: &StatementContext) -> bool {
    statement.operator && !table.is_private()
}

/// `shared`, `private` or `temporary`.
pub fn kind(table: &Table, statement: &StatementContext) -> &'static str {
    match table.is_private() {
        _ if statement.is_temporary(table.id.0) => "temporary",
        true => "private",
        false => "shared",
    }
}

/// The rows of `keyspan.tables`.
pub fn tables(statement: &StatementContext) -> Vec<Row> {
    let one = |(table, tenant): Listed<'_>| {
        let parts = table.key.parts.iter().filter(|_| !table.has_hidden_key());
        let parts = parts.map(|part| part_text(&part.name, part.order));
        let tenant_part = shows_tenant(table, statement).then(|| TENANT_COLUMN.to_owned());
        row! {
            "oid" => table.id.0, "tenant" => tenant.map(|tenant| tenant.as_str().to_owned()),
            "table_name" => table.name.clone(), "kind" => kind(table, statement),
            "primary_key" => tenant_part.into_iter().chain(parts).collect::<Vec<String>>(),
            "key_encoding" => table.key.encoding.name(),
            "salt" => (table.key.salt > 0).then_some(table.key.salt),
            "history" => table.history_micros.map(age_text), "history_since" => history_since(table, statement),
            "on_bad_value" => table.on_bad_value.name(), "on_bad_key" => table.on_bad_key.name(),
            "options" => options(table),
        }
    };
    listed(statement).into_iter().map(one).collect()
}

/// The earliest time that `FOR SYSTEM_TIME AS OF` reaches.
fn history_since(table: &Table, statement: &StatementContext) -> Cell {
    let instance = statement.instance.as_ref().filter(|_| table.history_micros.is_some());
    let history = instance.and_then(|instance| instance.catalog.store().history(&table.physical));
    history.map_or(Cell::Null, |history| Cell::Micros(history.oldest_micros(statement.now_micros)))
}

/// The rows of `keyspan.families`.
pub fn families(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &Table, tenant: Option<&TenantId>, family: &TableFamily| {
        let versions = family.rule_option("max_versions").and_then(|versions| versions.parse::<i64>().ok());
        row! {
            "oid" => table.id.0, "tenant" => tenant.map(|tenant| tenant.as_str().to_owned()),
            "table_name" => table.name.clone(), "family" => family.name.as_str(),
            "columns" => table.columns_of(family).map(|column| column.name.clone()).collect::<Vec<_>>(),
            "rule" => family.condition(), "max_versions" => versions, "max_age" => family.rule_option("max_age"),
            "aggregate" => family.aggregate.map(aggregate_name),
            "encoding" => table.encoding_of(family).map(keyspan_catalog::Encoding::name),
        }
    };
    let of_table = |(table, tenant): Listed<'_>| {
        table.families.iter().map(|family| one(table, tenant, family)).collect::<Vec<_>>()
    };
    listed(statement).into_iter().flat_map(of_table).collect()
}

/// The rows of `keyspan.columns`.
pub fn columns(statement: &StatementContext) -> Vec<Row> {
    let of_table = |(table, tenant): Listed<'_>| {
        let shift = usize::from(shows_tenant(table, statement));
        let name = || tenant.map(|tenant| tenant.as_str().to_owned());
        let first = (shift > 0).then(|| {
            row! {
                "oid" => table.id.0, "tenant" => name(), "table_name" => table.name.clone(), "column_number" => 1,
                "column_name" => TENANT_COLUMN, "data_type" => "text", "not_null" => true, "key_part" => 1,
                "direction" => "asc",
            }
        });
        let own = table.columns.iter().map(|column| {
            let mut row = column_row(table, column, shift);
            row.insert("tenant", Cell::from(name()));
            row.insert("column_default", Cell::from(default_or_identity(column, statement)));
            row
        });
        first.into_iter().chain(own).collect::<Vec<_>>()
    };
    listed(statement).into_iter().flat_map(of_table).collect()
}

fn column_row(table: &Table, column: &Column, shift: usize) -> Row {
    let mut row = row! {
        "oid" => table.id.0, "table_name" => table.name.clone(), "column_name" => column.name.clone(),
        "column_number" => number(usize::from(column.id) + shift), "data_type" => column.kind.to_string(),
        "not_null" => column.not_null || matches!(column.place, ColumnPlace::Key(_)),
    };
    match &column.place {
        ColumnPlace::Key(part) => {
            let order = table.key.parts.get(*part).map(|part| part.order).unwrap_or_default();
            row.insert("key_part", Cell::from(number(part + 1 + shift)));
            let direction = match order {
                PartOrder::Ascending => "asc",
                PartOrder::Descending => "desc",
                PartOrder::Reversed => "reversed",
            };
            row.insert("direction", Cell::from(direction));
        }
        ColumnPlace::Cell { family, qualifier, encoding } => {
            row.insert("key_part", Cell::Null);
            row.insert("family", Cell::from(family.as_str()));
            row.insert("qualifier", Cell::from(qualifier.clone()));
            row.insert("encoding", Cell::from(encoding.name()));
            let rule = table.family(family.as_str()).and_then(|family| family.condition());
            row.insert("rule", Cell::from(rule));
        }
        ColumnPlace::Open { family, encoding } => {
            row.insert("key_part", Cell::Null);
            row.insert("family", Cell::from(family.as_str()));
            row.insert("encoding", Cell::from(encoding.name()));
            let rule = table.family(family.as_str()).and_then(|family| family.condition());
            row.insert("rule", Cell::from(rule));
        }
    }
    row
}

fn number(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

/// The default of a column as an expression, or what an identity column says in its place.
pub(super) fn default_or_identity(column: &Column, statement: &StatementContext) -> Option<String> {
    match column.identity {
        Some(identity) => Some(create::identity_clause(identity).to_owned()),
        None => objects::default_text(column, statement),
    }
}

/// `at`, `at DESC` or `at REVERSED`
fn part_text(name: &str, order: PartOrder) -> String {
    format!("{}{}", quote_ident(name), order.clause())
}

/// The options of a table as PostgreSQL keeps them, `name=value`: those of `WITH`, and the columns of each family as
/// `m.columns=(a, b)`. Empty for a private table.
fn options(table: &Table) -> Vec<String> {
    let families = table.families.iter().filter(|_| !table.is_private()).map(|family| {
        let columns: Vec<String> = table.columns_of(family).map(|column| quote_ident(&column.name)).collect();
        (format!("{}.columns", family.name), format!("({})", columns.join(", ")))
    });
    table.options().into_iter().chain(families).map(|(name, value)| format!("{name}={value}")).collect()
}

/// `reloptions` of `pg_class`; `None` for a private table, which has none.
pub(super) fn table_options(table: &Table) -> Option<Vec<String>> {
    Some(options(table)).filter(|options| !options.is_empty())
}

/// `attoptions` of `pg_attribute`: where a column of a shared table has its cells; `None` for all other columns.
pub(super) fn column_options(table: &Table, number: u16) -> Option<Vec<String>> {
    let column = table.columns.iter().find(|column| column.id == number).filter(|_| !table.is_private())?;
    match &column.place {
        ColumnPlace::Key(_) => None,
        ColumnPlace::Cell { family, qualifier, encoding } => Some(vec![
            format!("family={family}"),
            format!("qualifier={qualifier}"),
            format!("encoding={}", encoding.name()),
        ]),
        ColumnPlace::Open { family, encoding } => {
            Some(vec![format!("family={family}"), format!("encoding={}", encoding.name())])
        }
    }
}
