//! Rows of PostgreSQL's relations about tables, their keys and conditions, sequences, types and functions, one function
//! for each kind.

use super::{
    Attribute, CONSTRAINT, INDEX, KEY_METHOD, KeyColumn, ROW_TYPE, TABLE_METHOD, attributes, check_oids, count,
    detail_oid, index_oid, key, key_name, namespace, owner, persistence, schema_oid, type_lines,
};
use crate::pg_catalog::columns::row;
use crate::{
    context::StatementContext, lookup::OwnType, pg::types, pg_catalog::columns::Row, pg_catalog::rights,
    pg_catalog::sizes, pg_catalog::tables, system_relations::Relation,
};
use keyspan_catalog::{
    Column, PartOrder, Sequence, Table,
    snapshot::FIRST_OID,
    table::{Check, DefaultValue, Identity},
};

/// The OIDs of `pg_class`, `pg_attrdef` and `pg_constraint`, which `pg_depend` names.
const PG_CLASS: u32 = 1259;
const PG_ATTRDEF: u32 = 2604;
const PG_CONSTRAINT: u32 = 2606;

pub(super) fn class(table: &Table, statement: &StatementContext) -> Row {
    // As PostgreSQL has it of a table that nothing has looked at yet.
    let (rows, blocks) = sizes::known(statement, table.id).map_or((-1.0, 0), |(rows, blocks)| (rows as f64, blocks));
    row! {
        "oid" => table.id.0, "relname" => table.name.clone(), "relnamespace" => namespace(statement, table.id.0),
        "reltype" => table.id.0 | ROW_TYPE, "relowner" => rights::owner_of(statement, table.id.0),
        "relacl" => rights::list_of(statement, table.id.0), "relam" => TABLE_METHOD,
        "relfilenode" => table.id.0, "reltuples" => rows, "relpages" => count(blocks),
        "relhasindex" => !table.has_hidden_key(), "relpersistence" => persistence(statement, table.id.0),
        "relkind" => "r",
        "relnatts" => i64::try_from(attributes(table, statement).len()).unwrap_or(0), "relispopulated" => true,
        "reloptions" => tables::table_options(table), "relreplident" => "d", "relchecks" => i64::try_from(table.checks.len()).unwrap_or(0),
    }
}

pub(super) fn sequence_class(sequence: &Sequence, statement: &StatementContext) -> Row {
    row! {
        "oid" => sequence.id, "relname" => sequence.name.clone(), "relnamespace" => namespace(statement, sequence.id),
        "relowner" => rights::owner_of(statement, sequence.id), "relacl" => rights::list_of(statement, sequence.id),
        "relfilenode" => sequence.id, "relpersistence" => persistence(statement, sequence.id), "relkind" => "S",
        "relnatts" => 3_i64, "relispopulated" => true, "relreplident" => "n",
    }
}

/// `a` or `d` of an identity.
fn identity(identity: Option<Identity>) -> &'static str {
    match identity {
        None => "",
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
    }
}

pub(super) fn checks(table: &Table, statement: &StatementContext) -> Vec<Row> {
    let columns = attributes(table, statement);
    let row = |(oid, check): (u32, &Check)| {
        let named = columns.iter().filter(|column| check.columns.contains(&column.name));
        let numbers: Vec<i64> = named.map(|column| i64::from(column.number)).collect();
        row! {
            "oid" => oid, "conname" => check.name.clone(), "connamespace" => namespace(statement, table.id.0), "contype" => "c",
            "convalidated" => true, "conrelid" => table.id.0, "conislocal" => true, "conkey" => numbers,
            "conbin" => statement.type_names().shown(check.sql.clone()),
        }
    };
    check_oids(table).map(row).collect()
}

/// The positions of parts that descend, and of those that are reversed, as options of the index: `pg_dump` writes it behind the primary key, which has
/// no directions in PostgreSQL.
fn index_options(table: &Table, statement: &StatementContext) -> Option<Vec<String>> {
    let parts = key(table, statement);
    let positions = |(name, order): (&str, PartOrder)| {
        let positions = parts.iter().zip(1_usize..).filter(|(part, _)| part.order == order);
        let positions: Vec<String> = positions.map(|(_, position)| position.to_string()).collect();
        (!positions.is_empty()).then(|| format!("{name}={}", positions.join(",")))
    };
    let orders = [("descending", PartOrder::Descending), ("reversed", PartOrder::Reversed)];
    let options: Vec<String> = orders.into_iter().filter_map(positions).collect();
    (!options.is_empty()).then_some(options)
}

pub(super) fn index_class(table: &Table, statement: &StatementContext) -> Row {
    row! {
        "oid" => index_oid(table), "relname" => key_name(table), "relnamespace" => namespace(statement, table.id.0),
        "relowner" => rights::owner_of(statement, table.id.0), "relam" => KEY_METHOD, "relfilenode" => index_oid(table), "relpersistence" => persistence(statement, table.id.0),
        "relkind" => "i", "relnatts" => i64::try_from(key(table, statement).len()).unwrap_or(0), "relispopulated" => true,
        "relreplident" => "n", "reloptions" => index_options(table, statement),
    }
}

pub(super) fn system_class(relation: &Relation, statement: &StatementContext) -> Row {
    row! {
        "oid" => relation.oid, "relname" => relation.name, "relnamespace" => schema_oid(relation.schema),
        "relowner" => owner(statement), "relam" => if relation.kind == "r" { 2_u32 } else { 0 }, "relpersistence" => "p",
        "relkind" => relation.kind, "relnatts" => i64::try_from(relation.columns.fields().len()).unwrap_or(0),
        "relispopulated" => true, "relreplident" => "n", "reltuples" => -1,
    }
}

/// What PostgreSQL knows of a type's storage: length, by value, alignment, storage, collation.
pub(crate) fn layout(oid: u32) -> (i64, bool, &'static str, &'static str, i64) {
    // Of types that users make columns have enumerated ones.
    let other = if oid >= FIRST_OID { (4, true, "i", "p", 0) } else { (-1, false, "i", "x", 0) };
    let found = type_lines().find(|words| words[0].parse() == Ok(oid));
    found.map_or(other, |words| {
        (words[2].parse().unwrap_or(-1), words[3] == "t", words[13], words[14], words[15].parse().unwrap_or(0))
    })
}

pub(super) fn attribute(relation: u32, column: &Attribute) -> Row {
    let value = column.enumerated.as_ref().map_or_else(|| types::pg_type_of(column.kind).oid(), |of| of.id);
    let oid = column.own_type.as_ref().map_or(value, OwnType::id);
    // That of a domain says the rest.
    let modifier = if oid == value { types::type_modifier(column.kind) } else { -1 };
    let (length, by_value, align, storage, collation) = layout(value);
    row! {
        "attrelid" => relation, "attname" => column.name.clone(), "atttypid" => oid, "attstattarget" => -1,
        "atthasdef" => column.default.is_some(), "attidentity" => identity(column.identity),
        "attlen" => length, "attnum" => column.number, "attcacheoff" => -1, "atttypmod" => modifier,
        "attbyval" => by_value, "attalign" => align, "attstorage" => storage, "attnotnull" => column.not_null,
        "attislocal" => true, "attcollation" => collation,
        "attndims" => i64::from(matches!(column.kind, keyspan_catalog::SqlType::Array(_))),
    }
}

pub(super) fn system_attributes(relation: &'static Relation) -> impl Iterator<Item = Row> {
    relation.columns.fields().iter().zip(1_u16..).map(|(field, number)| {
        let oid = types::pg_type(field).oid();
        row! {
            "attrelid" => relation.oid, "attname" => field.name().clone(), "atttypid" => oid, "attstattarget" => -1,
            "attlen" => -1, "attnum" => number, "attcacheoff" => -1, "atttypmod" => -1, "attalign" => "i",
            "attstorage" => "x", "attislocal" => true,
        }
    })
}

pub(super) fn index(table: &Table, statement: &StatementContext) -> Row {
    let parts = key(table, statement);
    let numbers: Vec<i64> = parts.iter().map(|part| i64::from(part.number)).collect();
    let each = |value: fn(&KeyColumn) -> i64| parts.iter().map(value).collect::<Vec<_>>();
    row! {
        "indexrelid" => index_oid(table), "indrelid" => table.id.0, "indnatts" => i64::try_from(parts.len()).unwrap_or(0),
        "indnkeyatts" => i64::try_from(parts.len()).unwrap_or(0), "indisunique" => true, "indisprimary" => true,
        "indimmediate" => true, "indisvalid" => true, "indisready" => true, "indislive" => true, "indkey" => numbers,
        "indcollation" => each(|_| 0), "indclass" => each(|_| 0),
        // As PostgreSQL packs it: 1 for DESC, 2 for NULLS FIRST, which goes with it.
        "indoption" => each(|part| if part.order == PartOrder::Descending { 3 } else { 0 }),
    }
}

pub(super) fn constraint(table: &Table, statement: &StatementContext) -> Row {
    let numbers: Vec<i64> = key(table, statement).iter().map(|part| i64::from(part.number)).collect();
    row! {
        "oid" => table.id.0 | CONSTRAINT, "conname" => key_name(table), "connamespace" => namespace(statement, table.id.0),
        "contype" => "p", "convalidated" => true, "conrelid" => table.id.0, "conindid" => index_oid(table),
        "conislocal" => true, "connoinherit" => true, "conkey" => numbers,
    }
}

/// A primary key needs its columns, and its index is a part of it.
pub(super) fn key_dependencies(table: &Table, statement: &StatementContext) -> Vec<Row> {
    let constraint = table.id.0 | CONSTRAINT;
    let columns = key(table, statement).into_iter().map(|part| {
        row! {
            "classid" => PG_CONSTRAINT, "objid" => constraint, "objsubid" => 0_u16, "refclassid" => PG_CLASS,
            "refobjid" => table.id.0, "refobjsubid" => part.number, "deptype" => "a",
        }
    });
    let index = row! {
        "classid" => PG_CLASS, "objid" => index_oid(table), "objsubid" => 0_u16, "refclassid" => PG_CONSTRAINT,
        "refobjid" => constraint, "refobjsubid" => 0_u16, "deptype" => "i",
    };
    columns.chain([index]).collect()
}

/// A default belongs to its column, and needs the sequence that it takes its values from.
pub(super) fn default_dependencies(table: &Table, statement: &StatementContext) -> Vec<Row> {
    let shift = u16::from(statement.operator);
    let columns = table.columns.iter().filter(|column| column.identity.is_none());
    let of = |column: &Column| {
        let default = column.default.as_ref()?;
        let row = |oid: u32, number: u16, kind: &str| {
            row! {
                "classid" => PG_ATTRDEF, "objid" => detail_oid(table, INDEX, column.id + shift), "objsubid" => 0_u16,
                "refclassid" => PG_CLASS, "refobjid" => oid, "refobjsubid" => number, "deptype" => kind,
            }
        };
        let sequence = match default.value {
            DefaultValue::Next(oid) => Some(row(oid, 0, "n")),
            _ => None,
        };
        Some([row(table.id.0, column.id + shift, "a")].into_iter().chain(sequence))
    };
    columns.filter_map(of).flatten().collect()
}

/// A sequence goes with the column that owns it; that of an identity column is a part of it.
pub(super) fn owned_dependency(sequence: &Sequence, statement: &StatementContext) -> Option<Row> {
    let (table, number) = sequence.owner?;
    let table = statement.table_of(table)?;
    let column = table.columns.iter().find(|column| column.id == number)?;
    Some(row! {
        "classid" => PG_CLASS, "objid" => sequence.id, "objsubid" => 0_u16, "refclassid" => PG_CLASS,
        "refobjid" => table.id.0, "refobjsubid" => number + u16::from(statement.operator),
        "deptype" => if column.identity.is_some() { "i" } else { "a" },
    })
}

pub(super) fn system_type(words: &[&'static str], statement: &StatementContext) -> Row {
    let number = |index: usize| words[index].parse::<i64>().unwrap_or(0);
    row! {
        "oid" => number(0), "typname" => words[1], "typnamespace" => 11_u32, "typowner" => owner(statement),
        "typlen" => number(2), "typbyval" => words[3] == "t", "typtype" => words[4], "typcategory" => words[5],
        "typispreferred" => words[6] == "t", "typisdefined" => true, "typdelim" => ",", "typelem" => number(7),
        "typarray" => number(8), "typinput" => words[9], "typoutput" => words[10], "typreceive" => words[11],
        "typsend" => words[12], "typalign" => words[13], "typstorage" => words[14], "typtypmod" => -1,
        "typcollation" => number(15),
    }
}

pub(super) fn row_type(table: &Table, statement: &StatementContext) -> Row {
    row! {
        "oid" => table.id.0 | ROW_TYPE, "typname" => table.name.clone(), "typnamespace" => namespace(statement, table.id.0),
        "typowner" => rights::owner_of(statement, table.id.0), "typlen" => -1, "typtype" => "c", "typcategory" => "C", "typisdefined" => true,
        "typdelim" => ",", "typrelid" => table.id.0, "typinput" => "record_in", "typoutput" => "record_out",
        "typreceive" => "record_recv", "typsend" => "record_send", "typalign" => "d", "typstorage" => "x",
        "typtypmod" => -1,
    }
}
