//! Casts to and from types of numbers of objects: `'t'::regclass`, `atttypid::regtype`, `1::regrole`.

use super::{
    cluster,
    functions::{format_type, list_of, list_of_names, null_list, oid, optional, sql_error, undefined_relation},
    objects,
    row_function::row_function,
};
use crate::{
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, text_of},
        ident::quote_ident,
    },
};
use arrow::{array::Array, datatypes::DataType};
use datafusion::{
    error::{DataFusionError, Result},
    scalar::ScalarValue,
};
use keyspan_catalog::{SqlType, Value, value::array::ItemType};

/// What [`rewrite`](super::rewrite) puts in the place of casts to and from OID types.
pub(super) fn functions() -> Vec<RowFunction> {
    let texts = |name, run| row_function(name, 1..=1, DataType::Utf8View, run);
    let oids = |name, run| row_function(name, 1..=1, DataType::UInt32, run).returning("oid");
    vec![
        oids("regclass_oid", |values, statement| {
            let Some(name) = text_of(&values[0]) else { return Ok(ScalarValue::UInt32(None)) };
            let wrapped = |error| DataFusionError::External(Box::new(error));
            let found = match name.parse() {
                Ok(oid) => Some(oid),
                Err(_) => objects::usable_relation(statement, &name).map_err(wrapped)?,
            };
            let missing = || undefined_relation(&name);
            Ok(ScalarValue::UInt32(Some(found.ok_or_else(missing)?)))
        }),
        texts("regclass_text", |values, statement| {
            let name = |number| objects::name_of_relation(statement, number).unwrap_or_else(|| unnamed(number));
            Ok(optional(oid(&values[0]).map(name)))
        }),
        texts("to_regclass", |values, statement| {
            let found = text_of(&values[0]).and_then(|name| objects::oid_of_relation(statement, &name));
            Ok(optional(found.and_then(|number| objects::name_of_relation(statement, number))))
        }),
        // Of a column of `pg_type` that names a function.
        oids("regproc_oid", |values, _| {
            let name = text_of(&values[0]).unwrap_or_default();
            let found = name.parse().ok().or_else(|| objects::oid_of_function(&name));
            Ok(ScalarValue::UInt32(Some(found.unwrap_or(0))))
        }),
        // Of a name that was written, with a list of arguments or without.
        oids("regproc_named", |values, _| {
            let Some(name) = text_of(&values[0]) else { return Ok(ScalarValue::UInt32(None)) };
            let bare = name.split('(').next().unwrap_or_default().trim();
            let bare = bare.strip_prefix("pg_catalog.").unwrap_or(bare);
            let found = bare.parse().ok().or_else(|| objects::oid_of_function(bare));
            let missing = || sql_error(SqlState::UNDEFINED_FUNCTION, format!("function \"{name}\" does not exist"));
            Ok(ScalarValue::UInt32(Some(found.ok_or_else(missing)?)))
        }),
        oids("regtype_oid", |values, statement| {
            let Some(name) = text_of(&values[0]) else { return Ok(ScalarValue::UInt32(None)) };
            let missing = || sql_error(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
            Ok(ScalarValue::UInt32(Some(type_oid(&name, statement).ok_or_else(missing)?)))
        }),
        texts("regtype_text", |values, statement| {
            Ok(optional(
                oid(&values[0]).map(|number| if number == 0 { "-".into() } else { format_type(statement, number, -1) }),
            ))
        }),
        row_function("regtype_oids", 1..=1, list_of(DataType::UInt32), |values, statement| {
            let Some(names) = text_of(&values[0]) else { return Ok(null_list(&DataType::UInt32)) };
            let names = match Value::parse(&names, SqlType::Array(ItemType::Text)) {
                Ok(Value::Array(names)) => names,
                Ok(_) => Vec::new(),
                Err(error) => return Err(DataFusionError::External(Box::new(SqlError::from(error)))),
            };
            let missing = |name: &str| sql_error(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
            let number = |name: &Value| match name {
                Value::Text(name) => type_oid(name, statement).map(Some).ok_or_else(|| missing(name)),
                _ => Ok(None),
            };
            let numbers =
                names.iter().map(|name| Ok(ScalarValue::UInt32(number(name)?))).collect::<Result<Vec<_>>>()?;
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &DataType::UInt32)))
        }),
        row_function("regtype_texts", 1..=1, list_of_names(), |values, statement| {
            let ScalarValue::List(list) = &values[0] else { return Ok(null_list(&DataType::Utf8View)) };
            if list.is_null(0) {
                return Ok(null_list(&DataType::Utf8View));
            }
            let items = list.value(0);
            let name = |at: usize| -> Result<ScalarValue> {
                let number = oid(&ScalarValue::try_from_array(&items, at)?);
                Ok(optional(number.map(|number| format_type(statement, number, -1))))
            };
            let names = (0..items.len()).map(name).collect::<Result<Vec<_>>>()?;
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8View)))
        }),
        texts("to_regtype", |values, statement| {
            let found = text_of(&values[0]).and_then(|name| type_oid(&name, statement));
            Ok(optional(found.map(|number| format_type(statement, number, -1))))
        }),
        oids("regnamespace_oid", |values, statement| {
            let Some(name) = text_of(&values[0]).map(|name| objects::unquoted(&name)) else {
                return Ok(ScalarValue::UInt32(None));
            };
            if name == statement.temporary_schema() && !statement.snapshot.temporary.is_empty() {
                return Ok(ScalarValue::UInt32(Some(objects::TEMPORARY_SCHEMA)));
            }
            let known = statement.schemas().any(|schema| schema == name);
            let missing = || sql_error(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            known.then(|| ScalarValue::UInt32(Some(objects::schema_oid_in(statement, &name)))).ok_or_else(missing)
        }),
        texts("regnamespace_text", |values, statement| {
            let known = |number: u32| match number {
                objects::TEMPORARY_SCHEMA => Some(statement.temporary_schema()),
                number => {
                    let found = statement.schemas().find(|schema| objects::schema_oid_in(statement, schema) == number);
                    found.map(quote_ident)
                }
            };
            Ok(optional(oid(&values[0]).map(|number| known(number).unwrap_or_else(|| unnamed(number)))))
        }),
        texts("to_regnamespace", |values, statement| {
            let name = text_of(&values[0]).map(|name| objects::unquoted(&name)).unwrap_or_default();
            Ok(optional(statement.schemas().find(|schema| *schema == name).map(quote_ident)))
        }),
        oids("regrole_oid", |values, statement| {
            let name = text_of(&values[0]).unwrap_or_default();
            let found = cluster::roles(statement).find(|role| role.name == name).map(|role| role.oid);
            let missing = || sql_error(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
            Ok(ScalarValue::UInt32(Some(found.ok_or_else(missing)?)))
        }),
        texts("regrole_text", |values, statement| {
            Ok(optional(oid(&values[0]).map(|number| cluster::role_name(statement, number))))
        }),
    ]
}

fn unnamed(number: u32) -> String {
    if number == 0 { "-".to_owned() } else { number.to_string() }
}

fn type_oid(name: &str, statement: &StatementContext) -> Option<u32> {
    let bare = name.trim().trim_matches('"').to_lowercase();
    let bare = bare.strip_prefix("pg_catalog.").unwrap_or(&bare);
    let internal = match bare {
        "boolean" => "bool",
        "smallint" => "int2",
        "integer" | "int" => "int4",
        "bigint" => "int8",
        "real" => "float4",
        "double precision" => "float8",
        "character varying" => "varchar",
        "decimal" => "numeric",
        "character" => "bpchar",
        "time without time zone" => "time",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        other => other,
    };
    if let Some(item) = internal.strip_suffix("[]") {
        let item = type_oid(item, statement)?.to_string();
        return objects::type_lines().find(|words| words[0] == item).and_then(|words| words[8].parse().ok());
    }
    let known = objects::type_lines().find(|words| words[1] == internal).and_then(|words| words[0].parse().ok());
    known.or_else(|| statement.type_names().oid_of(name.trim()))
}
