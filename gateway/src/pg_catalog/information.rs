//! `information_schema`: the SQL standard's view of a database.

use super::{
    cluster,
    columns::{Cell, Row},
    objects::{self, Attribute, KeyColumn},
    rights,
};
use crate::pg_catalog::columns::row;
use crate::{context::StatementContext, lookup::OwnType, pg::types};
use keyspan_catalog::{
    Sequence, SqlType, Table,
    table::{Check, Identity},
};
use std::sync::Arc;

pub(super) fn schema_of(table: &Table, statement: &StatementContext) -> String {
    objects::schema_name(statement, table.id.0)
}

/// The row of `information_schema_catalog_name`.
pub fn catalog_name(statement: &StatementContext) -> Vec<Row> {
    vec![row! { "catalog_name" => statement.database.clone() }]
}

/// The rows of `schemata`.
pub fn schemata(statement: &StatementContext) -> Vec<Row> {
    let temporary = (!statement.snapshot.temporary.is_empty()).then(|| statement.temporary_schema());
    let names = statement.schemas().map(str::to_owned).chain(temporary);
    let one = |name: String| {
        let owner = cluster::role_name(statement, rights::schema_owner(statement, &name));
        row! { "catalog_name" => statement.database.clone(), "schema_name" => name, "schema_owner" => owner }
    };
    names.map(one).collect()
}

/// The rows of `tables` but those of views.
pub fn tables(statement: &StatementContext) -> Vec<Row> {
    let database = &statement.database;
    let usable = statement.tables().filter(|table| rights::is_usable(statement, table.id.0));
    let own = usable.map(|table| {
        let kind = if statement.is_temporary(table.id.0) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        listed(database, &schema_of(table, statement), &table.name, kind, "YES")
    });
    let system = objects::system_relations(statement).map(|relation| {
        let kind = if relation.kind == "r" { "BASE TABLE" } else { "VIEW" };
        listed(database, relation.schema, relation.name, kind, "NO")
    });
    own.chain(system).collect()
}

/// The rows of `columns` but those of views.
pub fn columns(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let place = (statement.database.as_str(), schema_of(table, statement));
        let columns = objects::attributes(table, statement).into_iter().zip(1_i32..);
        columns
            .map(|(column, number)| described(statement, (place.0, &place.1), table, &column, number))
            .collect::<Vec<_>>()
    };
    let usable = statement.tables().filter(|table| rights::is_usable(statement, table.id.0));
    usable.flat_map(of_table).collect()
}

/// The rows of `table_constraints`.
pub fn table_constraints(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &Arc<Table>| {
        let (database, schema) = (&statement.database, schema_of(table, statement));
        row! {
            "constraint_catalog" => database.clone(), "constraint_schema" => schema.clone(),
            "constraint_name" => objects::key_name(table), "table_catalog" => database.clone(),
            "table_schema" => schema, "table_name" => table.name.clone(), "constraint_type" => "PRIMARY KEY",
            "is_deferrable" => "NO", "initially_deferred" => "NO", "enforced" => "YES",
        }
    };
    statement.tables().filter(|table| !table.has_hidden_key()).map(one).collect()
}

/// The rows of `sequences`. As in PostgreSQL, those of identity columns are not listed.
pub fn sequences(statement: &StatementContext) -> Vec<Row> {
    let one = |sequence: &Arc<Sequence>| {
        let bits = match sequence.kind {
            SqlType::Int2 => 16,
            SqlType::Int4 => 32,
            _ => 64,
        };
        row! {
            "sequence_catalog" => statement.database.clone(),
            "sequence_schema" => objects::schema_name(statement, sequence.id),
            "sequence_name" => sequence.name.clone(), "data_type" => types::type_name(sequence.kind),
            "numeric_precision" => bits, "numeric_precision_radix" => 2, "numeric_scale" => 0,
            "start_value" => sequence.start.to_string(), "minimum_value" => sequence.min.to_string(),
            "maximum_value" => sequence.max.to_string(), "increment" => sequence.increment.to_string(),
            "cycle_option" => if sequence.cycle { "YES" } else { "NO" },
        }
    };
    let shown =
        |sequence: &&Arc<Sequence>| !is_identity(sequence, statement) && rights::is_usable(statement, sequence.id);
    objects::sequences(statement).filter(shown).map(one).collect()
}

/// The rows of `check_constraints`.
pub fn check_constraints(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let schema = schema_of(table, statement);
        let one = |check: &Check| {
            let sql = statement.type_names().shown(check.sql.clone());
            row! {
                "constraint_catalog" => statement.database.clone(), "constraint_schema" => schema.clone(),
                "constraint_name" => check.name.clone(), "check_clause" => format!("(({sql}))"),
            }
        };
        table.checks.iter().map(one).collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table).collect()
}

/// The columns of primary keys, each with its number in the key.
fn key_columns(statement: &StatementContext) -> impl Iterator<Item = (Row, i32)> {
    let of_table = |table: &Arc<Table>| {
        let (database, schema) = (&statement.database, schema_of(table, statement));
        let one = |(part, number): (KeyColumn, i32)| {
            let row = row! {
                "constraint_catalog" => database.clone(), "constraint_schema" => schema.clone(),
                "constraint_name" => objects::key_name(table), "table_catalog" => database.clone(),
                "table_schema" => schema.clone(), "table_name" => table.name.clone(), "column_name" => part.name,
            };
            (row, number)
        };
        objects::key(table, statement).into_iter().zip(1_i32..).map(one).collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table)
}

/// The rows of `key_column_usage`.
pub fn key_column_usage(statement: &StatementContext) -> Vec<Row> {
    let numbered = |(mut row, number): (Row, i32)| {
        row.insert("ordinal_position", Cell::from(number));
        row
    };
    key_columns(statement).map(numbered).collect()
}

/// The rows of `constraint_column_usage`.
pub fn constraint_column_usage(statement: &StatementContext) -> Vec<Row> {
    key_columns(statement).map(|(row, _)| row).collect()
}

/// The row of `character_sets`.
pub fn character_sets(statement: &StatementContext) -> Vec<Row> {
    vec![row! {
        "character_set_name" => "UTF8", "character_repertoire" => "UCS", "form_of_use" => "UTF8",
        "default_collate_catalog" => statement.database.clone(),
    }]
}

/// Whether a sequence is an identity column's.
fn is_identity(sequence: &Sequence, statement: &StatementContext) -> bool {
    let owner = sequence.owner.and_then(|(table, column)| Some((statement.table_of(table)?, column)));
    let column = owner.and_then(|(table, id)| table.columns.iter().find(|column| column.id == id));
    column.is_some_and(|column| column.identity.is_some())
}

fn listed(database: &str, schema: &str, name: &str, kind: &str, insertable: &str) -> Row {
    row! {
        "table_catalog" => database, "table_schema" => schema, "table_name" => name, "table_type" => kind,
        "is_insertable_into" => insertable, "is_typed" => "NO",
    }
}

fn described(
    statement: &StatementContext,
    (database, schema): (&str, &str),
    table: &Table,
    column: &Attribute,
    place: i32,
) -> Row {
    let generation = column.identity.map(|identity| match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    });
    // As there, what a domain is based on, if that is another domain.
    let of = match &column.own_type {
        Some(OwnType::Domain(domain)) => {
            domain.over.or(domain.enumerated).and_then(|of| statement.type_names().of_oid(of))
        }
        of => of.clone(),
    };
    let mut row = of_type(statement, column.kind, of.as_ref());
    if let Some(OwnType::Domain(domain)) = &column.own_type {
        let of = statement.snapshot.schema_name(statement.tenant.as_ref(), domain.schema);
        row.extend(row! {
            "domain_catalog" => database, "domain_schema" => of.unwrap_or_default(),
            "domain_name" => domain.name.clone(),
        });
    }
    row.extend(row! {
        "table_catalog" => database, "table_schema" => schema, "table_name" => table.name.clone(),
        "column_name" => column.name.clone(), "ordinal_position" => place,
        "column_default" => column.default.clone(), "identity_generation" => generation,
        "is_nullable" => if column.not_null { "NO" } else { "YES" }, "dtd_identifier" => place.to_string(),
        "is_self_referencing" => "NO", "is_identity" => if column.identity.is_some() { "YES" } else { "NO" },
        "is_generated" => "NEVER", "is_updatable" => "YES",
    });
    row
}

/// What `columns` and `domains` say of a type. `of` is one of the tenant's own.
pub(super) fn of_type(statement: &StatementContext, kind: SqlType, of: Option<&OwnType>) -> Row {
    let shown = types::type_name(kind.without_second_digits());
    let data_type = match kind {
        _ if of.is_some() => "USER-DEFINED".to_owned(),
        SqlType::Array(_) => "ARRAY".to_owned(),
        _ => shown.split('(').next().unwrap_or(&shown).to_owned(),
    };
    let (precision, radix, scale) = match kind {
        SqlType::Int2 => (Some(16), Some(2), Some(0)),
        SqlType::Int4 => (Some(32), Some(2), Some(0)),
        SqlType::Int8 => (Some(64), Some(2), Some(0)),
        SqlType::Float4 => (Some(24), Some(2), None),
        SqlType::Float8 => (Some(53), Some(2), None),
        SqlType::Numeric { precision, scale } => (Some(i32::from(precision)), Some(10), Some(i32::from(scale))),
        SqlType::Exact(Some(digits)) => (Some(digits.precision.into()), Some(10), Some(digits.scale.into())),
        SqlType::Exact(None) => (None, Some(10), None),
        _ => (None, None, None),
    };
    let length = match kind {
        SqlType::Varchar(Some(length))
        | SqlType::Char(length)
        | SqlType::Bit(Some(length))
        | SqlType::Varbit(Some(length)) => Some(i64::from(length)),
        _ => None,
    };
    let (udt_schema, udt_name) = match of {
        Some(of) => {
            let schema = statement.snapshot.schema_name(statement.tenant.as_ref(), of.schema());
            (schema.unwrap_or_default().to_owned(), of.name().to_owned())
        }
        None => ("pg_catalog".to_owned(), types::pg_type_of(kind).name().to_owned()),
    };
    row! {
        "data_type" => data_type, "character_maximum_length" => length, "character_octet_length" => Cell::Null,
        "numeric_precision" => precision, "numeric_precision_radix" => radix, "numeric_scale" => scale,
        "datetime_precision" => kind.second_digits().map(i32::from), "interval_precision" => Cell::Null,
        "udt_catalog" => statement.database.clone(), "udt_schema" => udt_schema, "udt_name" => udt_name,
        "maximum_cardinality" => Cell::Null,
    }
}
