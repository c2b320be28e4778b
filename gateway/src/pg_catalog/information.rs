//! `information_schema`: the SQL standard's view of a database.

use super::{
    cluster,
    columns::{Cell, Row, Rows},
    objects::{self, Attribute},
};
use crate::pg_catalog::columns::row;
use crate::{context::StatementContext, pg::types};
use keyspan_catalog::{Sequence, SqlType, Table, table::Identity};

/// Fills a relation.
pub fn fill(rows: &mut Rows, statement: &StatementContext) {
    let database = statement.database.clone();
    let known = statement.tables();
    let schema_of = |table: &Table| objects::schema_name(statement, table.id.0);
    let owner = cluster::role_name(statement, objects::owner(statement));
    match rows.relation.name {
        "information_schema_catalog_name" => rows.push(row! { "catalog_name" => database }),
        "schemata" => rows.extend(statement.schemas().map(|name| {
            row! { "catalog_name" => database.clone(), "schema_name" => name, "schema_owner" => owner.clone() }
        }).chain((!statement.snapshot.temporary.is_empty()).then(|| {
            row! {
                "catalog_name" => database.clone(), "schema_name" => statement.temporary_schema(), "schema_owner" => owner.clone(),
            }
        }))),
        "tables" => {
            rows.extend(known.map(|table| {
                let kind = if statement.is_temporary(table.id.0) { "LOCAL TEMPORARY" } else { "BASE TABLE" };
                listed(&database, &schema_of(table), &table.name, kind, "YES")
            }));
            rows.extend(objects::system_relations(statement).map(|relation| {
                let kind = if relation.kind == "r" { "BASE TABLE" } else { "VIEW" };
                listed(&database, relation.schema, relation.name, kind, "NO")
            }));
        }
        "columns" => rows.extend(known.flat_map(|table| {
            let columns = objects::attributes(table, statement);
            columns.iter().zip(1_i32..).map(|(column, place)| described((&database, &schema_of(table)), table, column, place)).collect::<Vec<_>>()
        })),
        "table_constraints" => rows.extend(known.filter(|table| !table.has_hidden_key()).map(|table| {
            row! {
                "constraint_catalog" => database.clone(), "constraint_schema" => schema_of(table),
                "constraint_name" => objects::key_name(table), "table_catalog" => database.clone(),
                "table_schema" => schema_of(table), "table_name" => table.name.clone(), "constraint_type" => "PRIMARY KEY",
                "is_deferrable" => "NO", "initially_deferred" => "NO", "enforced" => "YES",
            }
        })),
        // As in PostgreSQL, those of identity columns are no sequences of their own.
        "sequences" => rows.extend(objects::sequences(statement).filter(|sequence| !is_identity(sequence, statement)).map(|sequence| {
            let bits = match sequence.kind {
                SqlType::Int2 => 16,
                SqlType::Int4 => 32,
                _ => 64,
            };
            row! {
                "sequence_catalog" => database.clone(), "sequence_schema" => objects::schema_name(statement, sequence.id),
                "sequence_name" => sequence.name.clone(), "data_type" => types::type_name(sequence.kind),
                "numeric_precision" => bits, "numeric_precision_radix" => 2, "numeric_scale" => 0,
                "start_value" => sequence.start.to_string(), "minimum_value" => sequence.min.to_string(),
                "maximum_value" => sequence.max.to_string(), "increment" => sequence.increment.to_string(),
                "cycle_option" => if sequence.cycle { "YES" } else { "NO" },
            }
        })),
        "check_constraints" => rows.extend(known.flat_map(|table| table.checks.iter().map(move |check| (table, check))).map(|(table, check)| {
            row! {
                "constraint_catalog" => database.clone(), "constraint_schema" => schema_of(table),
                "constraint_name" => check.name.clone(), "check_clause" => format!("(({}))", check.sql),
            }
        })),
        "key_column_usage" | "constraint_column_usage" => {
            let ordered = rows.relation.name == "key_column_usage";
            for table in known {
                for (part, place) in objects::key(table, statement).into_iter().zip(1_i32..) {
                    let mut usage: Row = row! {
                        "constraint_catalog" => database.clone(), "constraint_schema" => schema_of(table),
                        "constraint_name" => objects::key_name(table), "table_catalog" => database.clone(),
                        "table_schema" => schema_of(table), "table_name" => table.name.clone(), "column_name" => part.name,
                    };
                    if ordered {
                        usage.insert("ordinal_position", Cell::from(place));
                    }
                    rows.push(usage);
                }
            }
        }
        "enabled_roles" => rows.push(row! { "role_name" => statement.role.clone() }),
        "character_sets" => rows.push(row! {
            "character_set_name" => "UTF8", "character_repertoire" => "UCS", "form_of_use" => "UTF8",
            "default_collate_catalog" => database,
        }),
        _ => {}
    }
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

fn described((database, schema): (&str, &str), table: &Table, column: &Attribute, place: i32) -> Row {
    let shown = types::type_name(column.kind);
    let data_type = match column.kind {
        SqlType::Array(_) => "ARRAY".to_owned(),
        _ => shown.split('(').next().unwrap_or(&shown).to_owned(),
    };
    let (precision, radix, scale) = match column.kind {
        SqlType::Int2 => (Some(16), Some(2), Some(0)),
        SqlType::Int4 => (Some(32), Some(2), Some(0)),
        SqlType::Int8 => (Some(64), Some(2), Some(0)),
        SqlType::Float4 => (Some(24), Some(2), None),
        SqlType::Float8 => (Some(53), Some(2), None),
        SqlType::Numeric { precision, scale } => (Some(i32::from(precision)), Some(10), Some(i32::from(scale))),
        _ => (None, None, None),
    };
    let length = match column.kind {
        SqlType::Varchar(Some(length)) | SqlType::Char(length) => Some(i64::from(length)),
        _ => None,
    };
    let generation = column.identity.map(|identity| match identity {
        Identity::Always => "ALWAYS",
        Identity::ByDefault => "BY DEFAULT",
    });
    let fraction = matches!(column.kind, SqlType::Time | SqlType::Timestamp | SqlType::Timestamptz | SqlType::Interval)
        .then_some(6);
    row! {
        "table_catalog" => database, "table_schema" => schema, "table_name" => table.name.clone(),
        "column_name" => column.name.clone(), "ordinal_position" => place,
        "column_default" => column.default.clone(), "identity_generation" => generation,
        "is_nullable" => if column.not_null { "NO" } else { "YES" }, "data_type" => data_type,
        "character_maximum_length" => length, "numeric_precision" => precision, "numeric_precision_radix" => radix,
        "numeric_scale" => scale, "datetime_precision" => fraction, "udt_catalog" => database,
        "udt_schema" => "pg_catalog", "udt_name" => types::pg_type_of(column.kind).name(), "dtd_identifier" => place.to_string(),
        "is_self_referencing" => "NO", "is_identity" => if column.identity.is_some() { "YES" } else { "NO" }, "is_generated" => "NEVER", "is_updatable" => "YES",
        "character_octet_length" => Cell::Null, "interval_precision" => Cell::Null, "maximum_cardinality" => Cell::Null,
    }
}
