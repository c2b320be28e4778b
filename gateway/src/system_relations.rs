//! The system relations: names and columns of `pg_catalog`, `information_schema` and `keyspan`, read from
//! `system_relations/relations.txt`. What their rows are is the room [`pg_catalog`](crate::pg_catalog)'s.

use crate::pg::{fields, names::KEYSPAN, types};
use arrow::datatypes::{DataType, Field, IntervalUnit, SchemaRef};
use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

/// The relations of the schema `keyspan` in which a tenant sees its own rows.
const OF_TENANTS: &[&str] = &["advice", "columns", "erasures", "families", "heat", "proto_messages", "tables", "usage"];

const RELATIONS: &str = include_str!("system_relations/relations.txt");

/// A system relation.
#[derive(Debug)]
pub struct Relation {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its OID, PostgreSQL's own.
    pub oid: u32,
    /// `r` for a table, `v` for a view.
    pub kind: &'static str,
    /// Its columns.
    pub columns: SchemaRef,
}

/// All system relations.
pub fn all() -> impl Iterator<Item = &'static Relation> {
    static ALL: LazyLock<Vec<Relation>> = LazyLock::new(|| {
        RELATIONS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).filter_map(read).collect()
    });
    ALL.iter()
}

/// Whether a session sees a relation: those of the schema `keyspan` are the operator's, but for what a tenant may see
/// of itself.
pub fn is_visible(relation: &Relation, operator: bool) -> bool {
    operator || relation.schema != KEYSPAN || OF_TENANTS.contains(&relation.name)
}

/// The system relation of this name.
pub fn find(schema: &str, name: &str) -> Option<&'static Relation> {
    all().find(|relation| (relation.schema, relation.name) == (schema, name))
}

/// Whether a system relation has a column of this name that names functions, in any case: one of `regproc`.
pub fn names_functions(column: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let words = RELATIONS.lines().flat_map(|line| line.split(' '));
        words.filter_map(|word| word.strip_suffix(":regproc")).collect()
    });
    ALL.contains(column) || ALL.contains(column.to_ascii_lowercase().as_str())
}

fn read(line: &'static str) -> Option<Relation> {
    let mut words = line.split(' ');
    let (schema, name, oid, kind) = (words.next()?, words.next()?, words.next()?.parse().ok()?, words.next()?);
    let columns = words.filter_map(|word| word.split_once(':')).map(|(name, written)| {
        let (data, type_name) = arrow_type(written);
        fields::field(name, data, type_name)
    });
    Some(Relation { schema, name, oid, kind, columns: fields::schema(columns.collect()) })
}

fn arrow_type(written: &str) -> (DataType, Option<&str>) {
    let list = |item| (DataType::List(Arc::new(Field::new_list_field(item, true))), None);
    match written {
        "oid" | "xid" => (DataType::UInt32, Some("oid")),
        "name" | "sql_identifier" => (DataType::Utf8View, Some("name")),
        "\"char\"" => (DataType::Utf8View, Some("\"char\"")),
        "boolean" => (DataType::Boolean, None),
        "smallint" => (DataType::Int16, None),
        "integer" => (DataType::Int32, None),
        "cardinal_number" => (DataType::Int32, Some("cardinal_number")),
        "bigint" => (DataType::Int64, None),
        "real" => (DataType::Float32, None),
        "float8" => (DataType::Float64, None),
        "timestamptz" | "time_stamp" => (types::timestamptz(), None),
        "interval" => (DataType::Interval(IntervalUnit::MonthDayNano), None),
        "bytea" => (DataType::Binary, None),
        "yes_or_no" | "character_data" => (DataType::Utf8View, Some("character varying")),
        "oidvector" => (list(DataType::UInt32).0, Some("oidvector")),
        "int2vector" => (list(DataType::Int16).0, Some("int2vector")),
        "oid[]" => list(DataType::UInt32),
        "smallint[]" => list(DataType::Int16),
        other if other.ends_with("[]") => list(DataType::Utf8View),
        _ => (DataType::Utf8View, None),
    }
}

/// The names of the relations of a schema that a session sees.
pub fn names(schema: &str, operator: bool) -> impl Iterator<Item = &'static str> {
    let seen = move |relation: &&Relation| relation.schema == schema && is_visible(relation, operator);
    all().filter(seen).map(|relation| relation.name)
}
