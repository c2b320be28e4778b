//! Access privileges as PostgreSQL shows them: `grantee=letters/grantor`.
//!
//! The lists of relations are [`rights`](super::rights)'s; `acldefault` is what holds of what has none, and `aclexplode`
//! takes lists apart.

use super::cluster;
use crate::{
    context::StatementContext,
    pg::functions::{RowFunction, int_of, text, text_of},
    pg_catalog::row_function::row_function,
};
use arrow::{
    array::StructArray,
    datatypes::{DataType, Field, Fields},
};
use datafusion::{error::Result, scalar::ScalarValue};
use keyspan_catalog::rights::PRIVILEGES;
use std::sync::Arc;

/// Letters of privileges on objects that there are none of here, and their names.
const OTHERS: [(char, &str); 2] = [('s', "SET"), ('A', "ALTER SYSTEM")];

/// A privilege of one role.
struct Privilege {
    grantor: u32,
    grantee: u32,
    name: &'static str,
    grantable: bool,
}

/// The privileges of a list's item; none for what is no such item.
fn privileges(item: &str, statement: &StatementContext) -> Vec<Privilege> {
    let Some((grantee, (letters, grantor))) =
        item.split_once('=').and_then(|(grantee, rest)| Some((grantee, rest.split_once('/')?)))
    else {
        return Vec::new();
    };
    // The role that is no name is PUBLIC.
    let oid = |name: &str| {
        cluster::roles(statement).find(|role| role.name == name.trim_matches('"')).map_or(0, |role| role.oid)
    };
    let (grantee, grantor) = (oid(grantee), oid(grantor));
    let mut found: Vec<Privilege> = Vec::new();
    for letter in letters.chars() {
        match (letter, PRIVILEGES.iter().chain(&OTHERS).find(|(known, _)| *known == letter)) {
            ('*', _) => found.iter_mut().next_back().into_iter().for_each(|last| last.grantable = true),
            (_, Some((_, name))) => found.push(Privilege { grantor, grantee, name, grantable: false }),
            _ => {}
        }
    }
    found
}

fn fields() -> Fields {
    Fields::from(vec![
        crate::pg::fields::field("grantor", DataType::UInt32, Some("oid")),
        crate::pg::fields::field("grantee", DataType::UInt32, Some("oid")),
        Field::new("privilege_type", DataType::Utf8View, true),
        Field::new("is_grantable", DataType::Boolean, true),
    ])
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn all(value: &ScalarValue, statement: &StatementContext) -> Vec<Privilege> {
    let ScalarValue::List(list) = value else { return Vec::new() };
    let items = (arrow::array::Array::is_valid(list.as_ref(), 0)).then(|| list.value(0));
    let texts = items.into_iter().flat_map(|items| {
        (0..items.len()).filter_map(|at| text_of(&ScalarValue::try_from_array(&items, at).ok()?)).collect::<Vec<_>>()
    });
    texts.flat_map(|text| privileges(&text, statement)).collect()
}

/// What an owner may do, and everybody, with an object that nobody was granted anything of.
fn default(kind: &str, owner: &str) -> Vec<String> {
    let (public, own) = match kind {
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "n" => ("", "UC"),
        "L" => ("", "rw"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        _ => ("", ""),
    };
    let items =
        [(String::new(), public), (owner.to_owned(), own)].into_iter().filter(|(_, letters)| !letters.is_empty());
    items.map(|(role, letters)| format!("{role}={letters}/{owner}")).collect()
}

/// The functions; those of `aclexplode` give its rows as a list, and its columns as lists.
pub fn functions() -> Vec<RowFunction> {
    let texts = || list_of(DataType::Utf8View);
    vec![
        row_function("acldefault", 2..=2, texts(), |values, statement| {
            let (Some(kind), Some(owner)) = (text_of(&values[0]), int_of(&values[1])) else {
                return ScalarValue::try_from(list_of(DataType::Utf8View));
            };
            let owner = cluster::role_name(statement, u32::try_from(owner).unwrap_or(0));
            let items: Vec<_> = default(&kind, &crate::pg::ident::quote_ident(&owner)).into_iter().map(text).collect();
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Utf8View)))
        }),
        row_function("acl_rows", 1..=1, list_of(DataType::Struct(fields())), |values, statement| {
            let rows = all(&values[0], statement).into_iter().map(|privilege| {
                let columns = values_of(&privilege).into_iter().map(|value| value.to_array()).collect::<Result<_>>()?;
                Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(fields(), columns, None)?)))
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&rows, &DataType::Struct(fields()))))
        }),
        row_function("acl_grantors", 1..=1, list_of(DataType::UInt32), |values, statement| {
            column(&values[0], statement, 0)
        }),
        row_function("acl_grantees", 1..=1, list_of(DataType::UInt32), |values, statement| {
            column(&values[0], statement, 1)
        }),
        row_function("acl_privileges", 1..=1, texts(), |values, statement| column(&values[0], statement, 2)),
        row_function("acl_grantables", 1..=1, list_of(DataType::Boolean), |values, statement| {
            column(&values[0], statement, 3)
        }),
    ]
}

fn values_of(privilege: &Privilege) -> [ScalarValue; 4] {
    [
        ScalarValue::UInt32(Some(privilege.grantor)),
        ScalarValue::UInt32(Some(privilege.grantee)),
        text(privilege.name),
        ScalarValue::Boolean(Some(privilege.grantable)),
    ]
}

fn column(list: &ScalarValue, statement: &StatementContext, at: usize) -> Result<ScalarValue> {
    let items: Vec<_> = all(list, statement).iter().map(|privilege| values_of(privilege)[at].clone()).collect();
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&items, fields()[at].data_type())))
}
