//! What is in a database: schemas, tables, columns, primary keys, types.
//!
//! OIDs are the catalog's own numbers, so they stay the same for ever: a table has its id; its primary key's index, its
//! constraint and its row type have the id with a bit set. The functions here say which rows each relation has,
//! [`rows`] what is in them; [`names`] finds relations.

mod names;
mod rows;

pub use crate::pg::ident::unquoted;
pub use names::{is_visible, name_of_relation, oid_of_relation, usable_relation};
pub(super) use rows::layout;

use super::{
    columns::{Cell, Row},
    rights, tables,
};
use crate::pg_catalog::columns::row;
use crate::{
    context::StatementContext,
    lookup::OwnType,
    pg::{
        error::{Result, SqlError, SqlState},
        names::{KEYSPAN, PUBLIC, Schema},
        types,
    },
    system_relations::{self, Relation},
};
use keyspan_catalog::{
    Column, DropCertificate, EnumType, Erasure, PartOrder, Sequence, SqlType, Table, TenantId,
    table::{Check, ColumnDefault, DefaultValue, Identity, TENANT_COLUMN},
    tenant::VERIFICATION,
};
use rows::{
    attribute, checks, class, constraint, default_dependencies, index, index_class, key_dependencies, owned_dependency,
    row_type, sequence_class, system_attributes, system_class, system_type,
};
use std::sync::Arc;

/// Set in the OID of a primary key's index.
const INDEX: u32 = 1 << 30;
/// Set in the OID of a primary key's constraint.
const CONSTRAINT: u32 = 1 << 31;
/// Set in the OID of a table's row type.
const ROW_TYPE: u32 = INDEX | CONSTRAINT;
/// The OID of the schema `keyspan`.
const KEYSPAN_SCHEMA: u32 = 16_001;
/// The OID of the schema of what is temporary.
pub const TEMPORARY_SCHEMA: u32 = 16_004;
/// The OID of the access method `keyspan` of tables.
const TABLE_METHOD: u32 = 16_002;
/// The OID of the access method `keyspan` of keys.
pub const KEY_METHOD: u32 = 16_003;
/// The OID of the collation `default`, which is the order of bytes.
const DEFAULT_COLLATION: u32 = 100;
/// The OID of the owner when no role is an operator: PostgreSQL's first.
const FIRST_OWNER: u32 = 10;

/// PostgreSQL's functions that read and write types.
const PROCS: &str = include_str!("data/procs.txt");
const TYPES: &str = include_str!("data/types.txt");

/// A column as SQL shows it.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// Its number, from 1.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// Its default as an expression; `None` for identities, too.
    pub default: Option<String>,
    /// Whether it is an identity.
    pub identity: Option<Identity>,
    /// Its type, if that is one of the tenant's own.
    pub(crate) own_type: Option<OwnType>,
    /// The enumerated type of its values.
    pub enumerated: Option<Arc<EnumType>>,
}

/// A part of a primary key as SQL shows it.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    /// The number of its column.
    pub number: u16,
    /// The name of its column.
    pub name: String,
    /// How its values lie in the keys.
    pub order: PartOrder,
}

/// The columns of a table as the session sees them: the operator's begin with `tenant`.
pub fn attributes(table: &Table, statement: &StatementContext) -> Vec<Attribute> {
    let shift = u16::from(statement.operator);
    let tenant = statement.operator.then(|| Attribute {
        number: 1,
        name: TENANT_COLUMN.to_owned(),
        kind: SqlType::Text,
        not_null: true,
        default: None,
        identity: None,
        own_type: None,
        enumerated: None,
    });
    let own = table.columns.iter().map(|column| Attribute {
        number: column.id + shift,
        name: column.name.clone(),
        kind: column.kind,
        not_null: column.not_null || matches!(column.place, keyspan_catalog::ColumnPlace::Key(_)),
        default: default_text(column, statement),
        identity: column.identity,
        own_type: own_type(column, statement),
        enumerated: column.enumerated.clone(),
    });
    tenant.into_iter().chain(own).collect()
}

/// The default of a column as an expression, with the sequence as it is called now; `None` for an identity column.
pub fn default_text(column: &Column, statement: &StatementContext) -> Option<String> {
    let default = column.default.as_ref().filter(|_| column.identity.is_none())?;
    Some(shown_default(default, column.enumerated.as_ref(), statement))
}

/// A default of values that may be of an enumerated type.
pub(super) fn shown_default(
    default: &ColumnDefault,
    enumerated: Option<&Arc<EnumType>>,
    statement: &StatementContext,
) -> String {
    if let (Some(of), DefaultValue::Constant(text)) = (enumerated, &default.value) {
        let name = statement.type_names().type_name(&OwnType::Enum(Arc::clone(of)));
        return format!("'{}'::{name}", text.replace('\'', "''"));
    }
    let DefaultValue::Next(oid) = default.value else { return default.sql.clone() };
    let name = name_of_relation(statement, oid);
    name.map_or_else(|| default.sql.clone(), |name| format!("nextval('{}'::regclass)", name.replace('\'', "''")))
}

/// The type of a column, if that is one of the tenant's own.
pub(super) fn own_type(column: &Column, statement: &StatementContext) -> Option<OwnType> {
    let domain = column.domain.and_then(|of| statement.type_names().of_oid(of.id));
    domain.or_else(|| column.enumerated.clone().map(OwnType::Enum))
}

/// The parts of a table's primary key as the session sees them.
pub fn key(table: &Table, statement: &StatementContext) -> Vec<KeyColumn> {
    let columns = attributes(table, statement);
    let number = |name: &str| columns.iter().find(|column| column.name == name).map_or(0, |column| column.number);
    let tenant = statement.operator.then_some((TENANT_COLUMN, PartOrder::Ascending));
    let parts = table.key.parts.iter().filter(|_| !table.has_hidden_key());
    let parts = parts.map(|part| (part.name.as_str(), part.order));
    let parts = tenant.into_iter().chain(parts);
    parts.map(|(name, order)| KeyColumn { number: number(name), name: name.to_owned(), order }).collect()
}

/// The name of a table's primary key.
pub fn key_name(table: &Table) -> String {
    format!("{}_pkey", table.name)
}

/// The OID of a table's primary key's index.
pub fn index_oid(table: &Table) -> u32 {
    table.id.0 | INDEX
}

/// The table with this OID, or whose index or constraint has it.
pub fn table_of_oid(statement: &StatementContext, oid: u32) -> Option<&Arc<Table>> {
    let id = if oid < INDEX { oid } else { oid & (INDEX - 1) };
    let of_key = matches!(oid & ROW_TYPE, INDEX | CONSTRAINT);
    statement.table_of(keyspan_catalog::TableId(id)).filter(|table| !of_key || !table.has_hidden_key())
}

/// Whether an OID that is a table's is the table's own, and not that of its key's index or constraint or of its rows.
pub(super) fn own_table(oid: u32) -> bool {
    oid & ROW_TYPE == 0
}

/// Whether an OID is that of a primary key's index.
pub fn is_index(oid: u32) -> bool {
    oid & ROW_TYPE == INDEX
}

/// `(origin, dest, at DESC)`
pub fn key_list(table: &Table, statement: &StatementContext, directions: bool) -> String {
    let parts = key(table, statement);
    let shown = parts.iter().map(|part| {
        let order = if directions { part.order.clause() } else { "" };
        format!("{}{order}", crate::pg::ident::quote_ident(&part.name))
    });
    format!("({})", shown.collect::<Vec<_>>().join(", "))
}

/// The index's definition.
pub fn index_definition(table: &Table, statement: &StatementContext) -> String {
    let (index, list) = (crate::pg::ident::quote_ident(&key_name(table)), key_list(table, statement, true));
    let schema = crate::pg::ident::quote_ident(&schema_name(statement, table.id.0));
    format!(
        "CREATE UNIQUE INDEX {index} ON {schema}.{} USING keyspan {list}",
        crate::pg::ident::quote_ident(&table.name)
    )
}

/// The OID of a schema that the database has.
pub fn schema_oid_in(statement: &StatementContext, name: &str) -> u32 {
    match Schema::named(name) {
        Schema::Own(own) => statement.snapshot.schema_in(statement.tenant.as_ref(), &own).unwrap_or_default(),
        _ => schema_oid(name),
    }
}

/// The OID of a schema that every database has.
pub fn schema_oid(name: &str) -> u32 {
    match name {
        "pg_catalog" => 11,
        PUBLIC => 2200,
        "information_schema" => 13_194,
        _ => KEYSPAN_SCHEMA,
    }
}

/// The name of the schema of a table, sequence or view.
pub fn schema_name(statement: &StatementContext, number: u32) -> String {
    match statement.schema_of(number) {
        Schema::Temporary => statement.temporary_schema(),
        schema => schema.name().to_owned(),
    }
}

/// The OID of the schema of a table, sequence or view.
pub(super) fn namespace(statement: &StatementContext, number: u32) -> u32 {
    if statement.is_temporary(number) {
        return TEMPORARY_SCHEMA;
    }
    statement.snapshot.schema_of(statement.tenant.as_ref(), number)
}

/// `t` of what is temporary.
pub(super) fn persistence(statement: &StatementContext, number: u32) -> &'static str {
    if statement.is_temporary(number) { "t" } else { "p" }
}

/// The OID of the role that owns everything.
pub fn owner(statement: &StatementContext) -> u32 {
    statement.snapshot.roles.values().find(|role| role.operator).map_or(FIRST_OWNER, |role| role.oid)
}

/// The relations of the system that a session sees.
pub fn system_relations(statement: &StatementContext) -> impl Iterator<Item = &'static Relation> {
    let operator = statement.operator;
    system_relations::all().filter(move |relation| operator || relation.schema != KEYSPAN)
}

/// The lines of `data/types.txt`, by word.
pub fn type_lines() -> impl Iterator<Item = Vec<&'static str>> {
    TYPES.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

/// The lines of `data/procs.txt`, by word.
pub fn proc_lines() -> impl Iterator<Item = Vec<&'static str>> {
    PROCS.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

/// The OID of one of the functions that read and write types.
pub fn oid_of_function(name: &str) -> Option<u32> {
    proc_lines().find(|words| words[1] == name).and_then(|words| words[0].parse().ok())
}

/// The tables that have a primary key which SQL shows.
pub(super) fn keyed_tables(statement: &StatementContext) -> impl Iterator<Item = &Arc<Table>> {
    statement.tables().filter(|table| !table.has_hidden_key())
}

/// The rows of `pg_namespace`.
pub fn schemas(statement: &StatementContext) -> Vec<Row> {
    let permanent = statement.schemas().map(|name| {
        row! {
            "oid" => schema_oid_in(statement, name), "nspname" => name.to_owned(), "nspowner" => rights::schema_owner(statement, name),
            "nspacl" => rights::schema_list(statement, name),
        }
    });
    let temporary = (!statement.snapshot.temporary.is_empty()).then(|| {
        row! { "oid" => TEMPORARY_SCHEMA, "nspname" => statement.temporary_schema(), "nspowner" => owner(statement) }
    });
    permanent.chain(temporary).collect()
}

/// The rows of `pg_class` but those of views.
pub fn classes(statement: &StatementContext) -> Vec<Row> {
    let tables = statement.tables().map(|table| class(table, statement));
    let indexes = keyed_tables(statement).map(|table| index_class(table, statement));
    let sequences = sequences(statement).map(|sequence| sequence_class(sequence, statement));
    let system = system_relations(statement).map(|relation| system_class(relation, statement));
    tables.chain(indexes).chain(sequences).chain(system).collect()
}

/// The rows of `pg_attribute` but those of views: the columns of tables, of their primary keys' indexes, and of system
/// relations.
pub fn attribute_rows(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let columns = attributes(table, statement);
        let of_key = key(table, statement).into_iter().zip(1_u16..).filter_map(|(part, number)| {
            let column = columns.iter().find(|column| column.number == part.number)?;
            let plain = Attribute { number, not_null: false, default: None, identity: None, ..column.clone() };
            Some(attribute(index_oid(table), &plain))
        });
        let own = columns.iter().map(|column| {
            let mut row = attribute(table.id.0, column);
            let shift = u16::from(statement.operator);
            if let Some(options) = column.number.checked_sub(shift).and_then(|at| tables::column_options(table, at)) {
                row.insert("attoptions", options.into());
            }
            row
        });
        own.chain(of_key).collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table).chain(system_relations(statement).flat_map(system_attributes)).collect()
}

/// The rows of `pg_index`.
pub fn indexes(statement: &StatementContext) -> Vec<Row> {
    keyed_tables(statement).map(|table| index(table, statement)).collect()
}

/// The rows of `pg_constraint`.
pub fn constraints(statement: &StatementContext) -> Vec<Row> {
    let keys = keyed_tables(statement).map(|table| constraint(table, statement));
    keys.chain(statement.tables().flat_map(|table| checks(table, statement))).collect()
}

/// The rows of `pg_depend` but those of views.
pub fn dependencies(statement: &StatementContext) -> Vec<Row> {
    let keys = keyed_tables(statement).flat_map(|table| key_dependencies(table, statement));
    let defaults = statement.tables().flat_map(|table| default_dependencies(table, statement));
    keys.chain(defaults).chain(sequences(statement).filter_map(|one| owned_dependency(one, statement))).collect()
}

/// The rows of `pg_attrdef`.
pub fn defaults(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let columns = attributes(table, statement).into_iter();
        let rows = columns.filter_map(|column| {
            let (default, number) = (column.default?, column.number);
            Some(row! {
                "oid" => detail_oid(table, INDEX, number), "adrelid" => table.id.0, "adnum" => number,
                "adbin" => default,
            })
        });
        rows.collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table).collect()
}

/// The rows of `pg_sequence`.
pub fn sequence_rows(statement: &StatementContext) -> Vec<Row> {
    let one = |sequence: &Arc<Sequence>| {
        row! {
            "seqrelid" => sequence.id, "seqtypid" => types::pg_type_of(sequence.kind).oid(),
            "seqstart" => sequence.start, "seqincrement" => sequence.increment, "seqmax" => sequence.max,
            "seqmin" => sequence.min, "seqcache" => 1_i64, "seqcycle" => sequence.cycle,
        }
    };
    sequences(statement).map(one).collect()
}

/// The rows of the view `pg_indexes`.
pub fn index_definitions(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &Arc<Table>| {
        row! {
            "schemaname" => schema_name(statement, table.id.0), "tablename" => table.name.clone(),
            "indexname" => key_name(table), "indexdef" => index_definition(table, statement),
        }
    };
    keyed_tables(statement).map(one).collect()
}

/// The rows of the view `pg_tables`.
pub fn table_names(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &Arc<Table>| {
        row! {
            "schemaname" => schema_name(statement, table.id.0), "tablename" => table.name.clone(),
            "hasindexes" => !table.has_hidden_key(),
            "tableowner" => super::cluster::role_name(statement, rights::owner_of(statement, table.id.0)),
        }
    };
    statement.tables().map(one).collect()
}

/// The rows of `pg_type` but those of views.
pub fn type_rows(statement: &StatementContext) -> Vec<Row> {
    let system = type_lines().map(|words| system_type(&words, statement));
    system.chain(statement.tables().map(|table| row_type(table, statement))).collect()
}

/// The rows of `pg_am`.
pub fn access_methods(_: &StatementContext) -> Vec<Row> {
    vec![
        row! { "oid" => 2_u32, "amname" => "heap", "amtype" => "t" },
        row! { "oid" => 403_u32, "amname" => "btree", "amtype" => "i" },
        row! { "oid" => TABLE_METHOD, "amname" => "keyspan", "amtype" => "t" },
        row! { "oid" => KEY_METHOD, "amname" => "keyspan_key", "amtype" => "i" },
    ]
}

/// The rows of `pg_collation`.
pub fn collations(statement: &StatementContext) -> Vec<Row> {
    let one = |(oid, name, provider): (u32, &str, &str)| {
        row! {
            "oid" => oid, "collname" => name, "collnamespace" => 11_u32, "collowner" => owner(statement),
            "collprovider" => provider, "collisdeterministic" => true, "collencoding" => -1,
            "collcollate" => "C", "collctype" => "C",
        }
    };
    [(DEFAULT_COLLATION, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")].map(one).into()
}

/// The rows of `keyspan.drops`.
pub fn drops(statement: &StatementContext) -> Vec<Row> {
    let one = |drop: &Arc<DropCertificate>| {
        let purged = drop.purged_micros.map_or(Cell::Null, Cell::Micros);
        let error = statement.instance.as_ref().filter(|_| drop.purged_micros.is_none());
        let error = error.and_then(|instance| instance.purges.error());
        row! {
            "oid" => drop.oid, "tenant" => drop.tenant.as_str(), "dropped_by" => drop.dropped_by.clone(),
            "tables" => count(drop.tables), "rows" => count(drop.rows), "bytes" => count(drop.bytes),
            "dropped_at" => Cell::Micros(drop.dropped_micros), "purged_at" => purged,
            "purge" => drop.purge_state().name(), "purge_error" => error,
            "cells" => count(drop.contents.total.cells),
            "history_rows" => count(drop.contents.total.history_rows),
            "history_bytes" => count(drop.contents.total.history_bytes),
            "private_tables" => count(drop.contents.private_tables),
            "temporary_tables" => count(drop.contents.temporary_tables),
            "sequences" => count(drop.contents.sequences), "views" => count(drop.contents.views),
            "exports" => count(drop.contents.exports.files),
            "verified_by" => drop.purged_micros.map(|_| VERIFICATION.to_owned()),
            "contents" => serde_json::to_string(&drop.contents).ok(),
            "left_to_bigtable" => drop.contents.left_to_bigtable(),
        }
    };
    statement.snapshot.drops.iter().map(one).collect()
}

/// The rows of `keyspan.erasures`: all for the operator, its own for a tenant.
pub fn erasures(statement: &StatementContext) -> Vec<Row> {
    let purge_error = statement.instance.as_ref().and_then(|instance| instance.purges.error());
    let one = |tenant: Option<&TenantId>, (number, erasure): (&u64, &Arc<Erasure>)| {
        let size = &erasure.size;
        row! {
            "tenant" => tenant.map(ToString::to_string), "number" => count(*number), "kind" => erasure.kind.name(),
            "table_name" => erasure.table_name.clone(),
            "what" => Some(erasure.what.clone()).filter(|what| !what.is_empty()),
            "requested_by" => erasure.requested_by.clone(),
            "requested_at" => Cell::Micros(erasure.requested_micros),
            "rows" => count(size.rows), "cells" => count(size.cells), "bytes" => count(size.bytes),
            "history_rows" => count(size.history_rows), "history_bytes" => count(size.history_bytes),
            "invisible_at" => Cell::Micros(erasure.invisible_micros),
            "deadline" => Cell::Micros(erasure.deadline_micros), "purge" => erasure.state(),
            "purge_error" => purge_error.clone().filter(|_| erasure.is_pending() && statement.operator),
            "purged_at" => erasure.purged_micros.map_or(Cell::Null, Cell::Micros),
            "verified_by" => erasure.purged_micros.map(|_| VERIFICATION.to_owned()),
        }
    };
    let snapshot = &statement.snapshot;
    let own = |tenant: &TenantId| {
        let erasures = snapshot.private_of(Some(tenant)).into_iter().flat_map(|private| &private.erasures);
        erasures.map(|erasure| one(Some(tenant), erasure)).collect::<Vec<_>>()
    };
    match statement.rows.as_ref().and_then(|rows| rows.tenant()) {
        Some(tenant) => own(tenant),
        None if statement.operator => {
            let shared = snapshot.erasures.iter().map(|erasure| one(None, erasure));
            shared.chain(snapshot.private.keys().flat_map(own)).collect()
        }
        None => Vec::new(),
    }
}

/// A count as a `bigint`.
pub(super) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The sequences of the database.
pub fn sequences(statement: &StatementContext) -> impl Iterator<Item = &Arc<Sequence>> {
    let private = statement.snapshot.private_of(statement.tenant.as_ref());
    private
        .into_iter()
        .flat_map(|private| private.sequences.values())
        .chain(statement.snapshot.temporary.sequences.values())
}

/// The sequence of a name, with or without schema, or of the OID that a cast to `regclass` gave.
///
/// # Errors
/// 42P01, 42809, 42501.
pub fn sequence<'a>(statement: &'a StatementContext, name: &str) -> Result<&'a Arc<Sequence>> {
    let oid = match name.parse::<u32>() {
        Ok(oid) => Some(oid),
        Err(_) => usable_relation(statement, name)?,
    };
    let found = oid.and_then(|oid| statement.snapshot.sequence_of(statement.tenant.as_ref(), oid));
    found.ok_or_else(|| match oid {
        Some(_) => SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")),
        None => SqlError::undefined_relation(name),
    })
}

/// Set in the OID of what a table has several of, which lie behind each other.
const DETAIL: u32 = 1 << 29;
/// How many of them a table has numbers for.
const DETAILS: u32 = 1 << 8;

/// The OID of a table's constraint or default with a number.
fn detail_oid(table: &Table, kind: u32, number: u16) -> u32 {
    detail_oid_of(table.id.0, kind, number)
}

/// The OID of a domain's constraint with a number.
pub(super) fn constraint_oid(domain: u32, number: u16) -> u32 {
    detail_oid_of(domain, CONSTRAINT, number)
}

fn detail_oid_of(of: u32, kind: u32, number: u16) -> u32 {
    let place = of.wrapping_mul(DETAILS).wrapping_add(u32::from(number));
    kind | DETAIL | (place & (DETAIL - 1))
}

fn check_oids(table: &Table) -> impl Iterator<Item = (u32, &Check)> {
    table.checks.iter().zip(0_u16..).map(|(check, number)| (detail_oid(table, CONSTRAINT, number), check))
}

/// The check constraint with this OID.
pub fn check_of_oid(statement: &StatementContext, oid: u32) -> Option<&Check> {
    statement.tables().flat_map(|table| check_oids(table)).find(|(number, _)| *number == oid).map(|(_, check)| check)
}
