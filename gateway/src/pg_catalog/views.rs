//! What the relations of the system show of views.

use super::{
    cluster,
    columns::{Cell, Row},
    objects::{is_visible, layout, namespace, persistence, schema_name},
    rights,
};
use crate::pg_catalog::columns::row;
use crate::{context::StatementContext, pg::types, view_binding};
use arrow::datatypes::Field;
use keyspan_catalog::{Relation, SqlView};
use std::sync::Arc;

/// Set in the OID of a view's rule.
const RULE: u32 = 1 << 30;
/// Set in the OID of a view's row type.
const ROW_TYPE: u32 = (1 << 30) | (1 << 31);
/// The OIDs of `pg_class` and `pg_rewrite`, which `pg_depend` names.
const CLASSES: (u32, u32) = (1259, 2618);

/// The OID and the modifier of a column's type.
pub fn type_of(field: &Field) -> (u32, i32) {
    let kind = types::sql_type(field);
    (types::pg_type(field).oid(), kind.map_or(-1, types::type_modifier))
}

/// The views of the database, and the session's temporary ones.
pub fn all(statement: &StatementContext) -> impl Iterator<Item = &Arc<SqlView>> + Clone {
    statement.snapshot.views_in(statement.tenant.as_ref()).chain(statement.snapshot.temporary.views.values())
}

/// The view of this OID, or of this OID's rule or row type.
pub fn of_oid(statement: &StatementContext, oid: u32) -> Option<&Arc<SqlView>> {
    all(statement).find(|view| view.id == oid || view.id | RULE == oid || view.id | ROW_TYPE == oid)
}

/// The text of its query.
pub fn definition(view: &SqlView, statement: &StatementContext) -> String {
    // What is stored was read when it was stored; a reader of the catalog is told what is wrong with it rather than
    // nothing at all.
    let shown =
        view_binding::text_of(view, |number| statement.numbered(number), |number| is_visible(statement, number));
    shown.map_or_else(|error| error.message, |text| statement.type_names().shown(text))
}

/// The rows of `pg_class`.
pub fn classes(statement: &StatementContext) -> Vec<Row> {
    all(statement).map(|view| class(view, statement)).collect()
}

/// The rows of `pg_attribute`.
pub fn attribute_rows(statement: &StatementContext) -> Vec<Row> {
    all(statement).flat_map(|view| attributes(view)).collect()
}

/// The rows of `pg_type`.
pub fn type_rows(statement: &StatementContext) -> Vec<Row> {
    all(statement).map(|view| row_type(view, statement)).collect()
}

/// The views that keep no rows: those that the standard knows, and `pg_views`.
fn plain(statement: &StatementContext) -> impl Iterator<Item = &Arc<SqlView>> {
    all(statement).filter(|view| view.materialized.is_none())
}

/// The rows of `pg_matviews`.
pub fn materialized(statement: &StatementContext) -> Vec<Row> {
    let one = |view: &Arc<SqlView>| {
        row! {
            "schemaname" => schema_name(statement, view.id), "matviewname" => view.name.clone(),
            "matviewowner" => cluster::role_name(statement, rights::owner_of(statement, view.id)),
            "tablespace" => Cell::Null, "hasindexes" => false, "ispopulated" => view.is_populated(),
            "definition" => definition(view, statement),
        }
    };
    all(statement).filter(|view| view.materialized.is_some()).map(one).collect()
}

/// The rows of `pg_views`.
pub fn definitions(statement: &StatementContext) -> Vec<Row> {
    let one = |view: &Arc<SqlView>| {
        row! {
            "schemaname" => schema_name(statement, view.id), "viewname" => view.name.clone(),
            "viewowner" => cluster::role_name(statement, rights::owner_of(statement, view.id)), "definition" => definition(view, statement),
        }
    };
    plain(statement).map(one).collect()
}

/// The rows of `pg_rewrite`.
pub fn rules(statement: &StatementContext) -> Vec<Row> {
    let one = |view: &Arc<SqlView>| {
        row! {
            "oid" => view.id | RULE, "rulename" => "_RETURN", "ev_class" => view.id, "ev_type" => "1",
            "ev_enabled" => "O", "is_instead" => true,
        }
    };
    all(statement).map(one).collect()
}

/// The rows of `pg_depend`.
pub fn dependency_rows(statement: &StatementContext) -> Vec<Row> {
    all(statement).flat_map(|view| dependencies(view)).collect()
}

/// The views of the standard that the statement's role may do anything with.
fn usable(statement: &StatementContext) -> impl Iterator<Item = &Arc<SqlView>> {
    plain(statement).filter(|view| rights::is_usable(statement, view.id))
}

/// The rows of `information_schema.views`.
pub fn standard_views(statement: &StatementContext) -> Vec<Row> {
    let one = |view: &Arc<SqlView>| {
        row! {
            "table_catalog" => statement.database.clone(), "table_schema" => schema_name(statement, view.id),
            "table_name" => view.name.clone(), "view_definition" => definition(view, statement),
            "check_option" => "NONE", "is_updatable" => "NO", "is_insertable_into" => "NO",
            "is_trigger_updatable" => "NO", "is_trigger_deletable" => "NO", "is_trigger_insertable_into" => "NO",
        }
    };
    usable(statement).map(one).collect()
}

/// The rows of `information_schema.tables`.
pub fn standard_tables(statement: &StatementContext) -> Vec<Row> {
    let one = |view: &Arc<SqlView>| {
        let kind = if statement.is_temporary(view.id) { "LOCAL TEMPORARY" } else { "VIEW" };
        row! {
            "table_catalog" => statement.database.clone(), "table_schema" => schema_name(statement, view.id),
            "table_name" => view.name.clone(), "table_type" => kind, "is_insertable_into" => "NO", "is_typed" => "NO",
        }
    };
    usable(statement).map(one).collect()
}

/// The rows of `information_schema.columns`.
pub fn standard_columns(statement: &StatementContext) -> Vec<Row> {
    usable(statement).flat_map(|view| described(view, statement)).collect()
}

/// The rows of `information_schema.view_table_usage`.
pub fn table_usage(statement: &StatementContext) -> Vec<Row> {
    let of_view = |view: &Arc<SqlView>| {
        let used = view.uses.keys().filter_map(|number| statement.readable(*number));
        used.map(|relation| usage(view, statement, &relation, None)).collect::<Vec<_>>()
    };
    plain(statement).flat_map(of_view).collect()
}

/// The rows of `information_schema.view_column_usage`.
pub fn column_usage(statement: &StatementContext) -> Vec<Row> {
    let of_view = |view: &Arc<SqlView>| {
        let used = view.uses.iter().filter_map(|(number, columns)| Some((statement.readable(*number)?, columns)));
        let rows = used.flat_map(|(relation, columns): (Relation<'_>, _)| {
            let names = columns.iter().filter_map(|number| relation.column(*number));
            names.map(|column| usage(view, statement, &relation, Some(column.to_owned()))).collect::<Vec<_>>()
        });
        rows.collect::<Vec<_>>()
    };
    plain(statement).flat_map(of_view).collect()
}

fn usage(view: &SqlView, statement: &StatementContext, used: &Relation<'_>, column: Option<String>) -> Row {
    let database = || statement.database.clone();
    let mut row = row! {
        "view_catalog" => database(), "view_schema" => schema_name(statement, view.id), "view_name" => view.name.clone(),
        "table_catalog" => database(), "table_schema" => schema_name(statement, used.oid()),
        "table_name" => used.name().to_owned(),
    };
    if let Some(column) = column {
        row.insert("column_name", Cell::from(column));
    }
    row
}

fn class(view: &SqlView, statement: &StatementContext) -> Row {
    row! {
        "oid" => view.id, "relname" => view.name.clone(), "relnamespace" => namespace(statement, view.id),
        "reltype" => view.id | ROW_TYPE, "relowner" => rights::owner_of(statement, view.id),
        "relacl" => rights::list_of(statement, view.id), "reltuples" => -1,
        "relpersistence" => persistence(statement, view.id),
        "relkind" => if view.materialized.is_some() { "m" } else { "v" },
        "relnatts" => i64::try_from(view.columns.len()).unwrap_or(0), "relhasrules" => true,
        "relispopulated" => view.is_populated(),
        "relreplident" => if view.materialized.is_some() { "d" } else { "n" },
    }
}

fn attributes(view: &SqlView) -> Vec<Row> {
    let one = |column: &keyspan_catalog::ViewColumn| {
        let (length, by_value, align, storage, collation) = layout(column.type_oid);
        row! {
            "attrelid" => view.id, "attname" => column.name.clone(), "atttypid" => column.type_oid, "attstattarget" => -1,
            "attlen" => length, "attnum" => column.number, "attcacheoff" => -1, "atttypmod" => column.modifier,
            "attbyval" => by_value, "attalign" => align, "attstorage" => storage, "attislocal" => true,
            "attcollation" => collation,
        }
    };
    view.columns.iter().map(one).collect()
}

fn row_type(view: &SqlView, statement: &StatementContext) -> Row {
    row! {
        "oid" => view.id | ROW_TYPE, "typname" => view.name.clone(), "typnamespace" => namespace(statement, view.id),
        "typowner" => rights::owner_of(statement, view.id), "typlen" => -1, "typtype" => "c", "typcategory" => "C", "typisdefined" => true,
        "typdelim" => ",", "typrelid" => view.id, "typinput" => "record_in", "typoutput" => "record_out",
        "typreceive" => "record_recv", "typsend" => "record_send", "typalign" => "d", "typstorage" => "x",
        "typtypmod" => -1,
    }
}

/// The rule depends on what the view reads, column by column, and belongs to the view.
fn dependencies(view: &SqlView) -> Vec<Row> {
    let of = |number: u32, column: u16, kind: &str| {
        row! {
            "classid" => CLASSES.1, "objid" => view.id | RULE, "objsubid" => 0, "refclassid" => CLASSES.0,
            "refobjid" => number, "refobjsubid" => column, "deptype" => kind,
        }
    };
    let used = view.uses.iter().flat_map(|(number, columns)| {
        let whole = columns.is_empty().then_some(0_u16);
        columns.iter().copied().chain(whole).map(move |column| of(*number, column, "n"))
    });
    [of(view.id, 0, "i"), of(view.id, 0, "n")].into_iter().chain(used).collect()
}

/// The columns as `information_schema` tells them.
fn described(view: &SqlView, statement: &StatementContext) -> Vec<Row> {
    let one = |column: &keyspan_catalog::ViewColumn| {
        let full = super::functions::format_type(statement, column.type_oid, i64::from(column.modifier));
        let array = full.ends_with("[]");
        let name = if array { "ARRAY" } else { full.split('(').next().unwrap_or(&full) };
        let (precision, radix, scale) = match name {
            "smallint" => (Some(16), Some(2), Some(0)),
            "integer" => (Some(32), Some(2), Some(0)),
            "bigint" => (Some(64), Some(2), Some(0)),
            "real" => (Some(24), Some(2), None),
            "double precision" => (Some(53), Some(2), None),
            "numeric" if column.modifier > 4 => {
                let packed = column.modifier - 4;
                (Some(packed >> 16), Some(10), Some(packed & 0xFFFF))
            }
            _ => (None, None, None),
        };
        let length = (name == "character varying" && column.modifier > 4).then(|| i64::from(column.modifier - 4));
        let udt = super::objects::type_lines().find(|words| words[0].parse() == Ok(column.type_oid));
        row! {
            "table_catalog" => statement.database.clone(), "table_schema" => schema_name(statement, view.id),
            "table_name" => view.name.clone(), "column_name" => column.name.clone(),
            "ordinal_position" => i32::from(column.number),
            "is_nullable" => "YES", "data_type" => name, "character_maximum_length" => length,
            "numeric_precision" => precision, "numeric_precision_radix" => radix, "numeric_scale" => scale,
            "datetime_precision" => name.starts_with("timestamp").then_some(6), "udt_catalog" => statement.database.clone(),
            "udt_schema" => "pg_catalog", "udt_name" => udt.map_or("text", |words| words[1]),
            "dtd_identifier" => column.number.to_string(), "is_self_referencing" => "NO", "is_identity" => "NO",
            "is_generated" => "NEVER", "is_updatable" => "NO", "character_octet_length" => Cell::Null,
            "interval_precision" => Cell::Null, "maximum_cardinality" => Cell::Null,
        }
    };
    view.columns.iter().map(one).collect()
}
