//! json and jsonb: what the operators `->`, `->>`, `#>`, `#>>`, `@>`, `<@`, `?`, `||`, `-` stand for, and PostgreSQL's
//! functions.
//!
//! Both types are text whose field says what it is; jsonb is in its one form ([`parse::json`](crate::codec::parse)), so
//! that a part of its text is the part's one form. Reading a part therefore cuts it out of the text ([`scan`]) and
//! parses nothing else. What changes a value parses it whole ([`change`]); [`make`] writes values of SQL as JSON.

pub mod change;
mod columns;
mod contains;
pub(crate) mod key;
pub mod make;
pub(crate) mod record;
pub mod scan;

use super::scalar_function::{
    self, Call, RowFunction, external, items, nullable, nullable_named, returns_boolean, returns_integer, returns_text,
    returns_texts, strict, text_output,
};
use crate::{
    codec::parse,
    error::{SqlError, SqlState},
    types::TYPE_KEY,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use change::Change;
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use scan::Part;
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// Whether a field is json or jsonb, and which.
pub fn kind(field: &Field) -> Option<&str> {
    field.metadata().get(TYPE_KEY).map(String::as_str).filter(|name| matches!(*name, "json" | "jsonb"))
}

/// The same type as the first argument: jsonb where it is only text.
fn like_first(fields: &[FieldRef]) -> Result<FieldRef> {
    nullable_named(DataType::Utf8View, fields.first().and_then(|field| kind(field)).unwrap_or("jsonb"))
}

pub(crate) fn a_json(_: &[FieldRef]) -> Result<FieldRef> {
    nullable_named(DataType::Utf8View, "json")
}

pub(crate) fn a_jsonb(_: &[FieldRef]) -> Result<FieldRef> {
    nullable_named(DataType::Utf8View, "jsonb")
}

fn list_of(name: &str) -> Result<FieldRef> {
    let item = crate::types::named(Field::new_list_field(DataType::Utf8View, true), name);
    nullable(DataType::List(Arc::new(item)))
}

pub(crate) fn text(value: Option<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::Utf8View(value))
}

/// The text of an argument that is not NULL.
pub(crate) fn argument(call: &Call, index: usize) -> Result<String> {
    Ok(text_output(&call.values[index], &call.fields[index], call.options)?.unwrap_or_default())
}

/// The texts of an array of texts, or of its text.
pub fn path(value: &ScalarValue) -> Result<Vec<String>> {
    Ok(optional_path(value)?.into_iter().map(Option::unwrap_or_default).collect())
}

/// The texts of an array of texts, or of its text, as far as they are not NULL.
fn optional_path(value: &ScalarValue) -> Result<Vec<Option<String>>> {
    match items(value) {
        Some(items) => Ok(items.iter().map(super::values::text_of).collect()),
        None => parse::list(&super::values::text_of(value).unwrap_or_default()).map_err(external),
    }
}

fn found(call: &Call) -> Result<Option<String>> {
    let document = argument(call, 0)?;
    let part = match super::values::text_of(&call.values[1]) {
        Some(_) if call.fields[1].data_type().is_integer() => {
            scan::item(&document, super::values::int_of(&call.values[1]).unwrap_or(i64::MAX)).map_err(external)?
        }
        key => scan::member(&document, &key.unwrap_or_default()).map_err(external)?,
    };
    Ok(part.map(str::to_owned))
}

fn found_at(call: &Call, path: &[String]) -> Result<Option<String>> {
    let document = argument(call, 0)?;
    Ok(scan::at(&document, path).map_err(external)?.map(str::to_owned))
}

/// A part as text: a string's content, NULL for null.
fn as_text(part: Option<String>) -> Result<ScalarValue> {
    match part {
        None => text(None),
        Some(part) => text(scan::content(&part).map_err(external)?.map(Cow::into_owned)),
    }
}

/// `whole @> part`. The texts may be parameters', which nothing has read.
fn contains(whole: &str, part: &str) -> Result<ScalarValue> {
    change::parsed(whole)?;
    let is = contains::Part::from(change::parsed(part)?).is_in(whole).map_err(external)?;
    Ok(ScalarValue::Boolean(Some(is)))
}

/// `value -> key`, and as text `value ->> key`; with a path `#>` and `#>>`.
fn operators() -> [RowFunction; 14] {
    [
        strict("json_get", 2..=2, like_first, |call| text(found(call)?)).with_columns(columns::GET),
        strict("json_get_text", 2..=2, returns_text, |call| as_text(found(call)?)).with_columns(columns::GET_TEXT),
        strict("json_get_path", 2..=2, like_first, |call| text(found_at(call, &path(&call.values[1])?)?))
            .with_columns(columns::GET_PATH),
        strict("json_get_path_text", 2..=2, returns_text, |call| as_text(found_at(call, &path(&call.values[1])?)?))
            .with_columns(columns::GET_PATH_TEXT),
        strict("jsonb_contains", 2..=2, returns_boolean, |call| contains(&argument(call, 0)?, &argument(call, 1)?))
            .with_columns(columns::CONTAINS),
        strict("jsonb_contained", 2..=2, returns_boolean, |call| contains(&argument(call, 1)?, &argument(call, 0)?)),
        strict("jsonb_exists", 2..=2, returns_boolean, |call| {
            let keys = [argument(call, 1)?];
            Ok(ScalarValue::Boolean(Some(change::exists(&argument(call, 0)?, &keys)?.iter().all(|found| *found))))
        })
        .with_columns(columns::EXISTS),
        strict("jsonb_exists_any", 2..=2, returns_boolean, |call| {
            let found = change::exists(&argument(call, 0)?, &path(&call.values[1])?)?;
            Ok(ScalarValue::Boolean(Some(found.iter().any(|found| *found))))
        })
        .with_columns(columns::EXISTS_ANY),
        strict("jsonb_exists_all", 2..=2, returns_boolean, |call| {
            let found = change::exists(&argument(call, 0)?, &path(&call.values[1])?)?;
            Ok(ScalarValue::Boolean(Some(found.iter().all(|found| *found))))
        })
        .with_columns(columns::EXISTS_ALL),
        strict("jsonb_concat", 2..=2, a_jsonb, |call| {
            let (left, right) = (change::parsed(&argument(call, 0)?)?, change::parsed(&argument(call, 1)?)?);
            text(Some(change::written(&change::joined(left, right))?))
        }),
        strict("jsonb_delete", 2..=2, a_jsonb, |call| {
            let document = change::parsed(&argument(call, 0)?)?;
            let left = if call.fields[1].data_type().is_integer() {
                change::without_item(document, super::values::int_of(&call.values[1]).unwrap_or(i64::MAX))
            } else if items(&call.values[1]).is_some() {
                let keys = path(&call.values[1])?;
                keys.iter().try_fold(document, |document, key| change::without_key(document, key))
            } else {
                change::without_key(document, &argument(call, 1)?)
            };
            text(Some(change::written(&left?)?))
        }),
        strict("jsonb_delete_path", 2..=2, a_jsonb, |call| changed(call, Value::Null, Change::Delete)),
        strict(
            "json_array_items",
            1..=1,
            |fields| list_of(kind(&fields[0]).unwrap_or("jsonb")),
            |call| Ok(typed_list(call, array_items(call)?.into_iter().map(Some))),
        ),
        strict("json_array_texts", 1..=1, returns_texts, |call| {
            let items = array_items(call)?;
            let texts = items.iter().map(|item| scan::content(item).map_err(external)).collect::<Result<Vec<_>>>()?;
            Ok(scalar_function::text_list(texts.into_iter().map(|text| text.map(Cow::into_owned))))
        }),
    ]
}

/// A list of the function's own type of items.
pub(crate) fn typed_list(call: &Call, items: impl Iterator<Item = Option<String>>) -> ScalarValue {
    use arrow::array::{ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    let values: StringViewArray = items.collect();
    let DataType::List(item) = call.returns.data_type() else { return ScalarValue::Null };
    let offsets = OffsetBuffer::from_lengths([arrow::array::Array::len(&values)]);
    ScalarValue::List(Arc::new(ListArray::new(item.clone(), offsets, Arc::new(values), None)))
}

fn array_items(call: &Call) -> Result<Vec<String>> {
    let document = argument(call, 0)?;
    match scan::parts(&document).map_err(external)? {
        Part::Array(items) => Ok(items.into_iter().map(str::to_owned).collect()),
        Part::Object(_) => Err(external(not("cannot extract elements from an object"))),
        Part::Scalar(_) => Err(external(not("cannot extract elements from a scalar"))),
    }
}

fn members(call: &Call) -> Result<Vec<(String, String)>> {
    let document = argument(call, 0)?;
    match scan::parts(&document).map_err(external)? {
        Part::Object(members) => {
            Ok(members.into_iter().map(|(key, value)| (key.into_owned(), value.to_owned())).collect())
        }
        Part::Array(_) => Err(external(not("cannot deconstruct an array as an object"))),
        Part::Scalar(_) => Err(external(not("cannot deconstruct a scalar"))),
    }
}

fn not(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The lists of keys and of values that `json_each` and `json_object_keys` give row by row.
fn lists() -> [RowFunction; 3] {
    [
        strict("json_member_keys", 1..=1, returns_texts, |call| {
            Ok(scalar_function::text_list(members(call)?.into_iter().map(|(key, _)| Some(key))))
        })
        .with_columns(columns::MEMBER_KEYS),
        strict(
            "json_member_values",
            1..=1,
            |fields| list_of(kind(&fields[0]).unwrap_or("jsonb")),
            |call| Ok(typed_list(call, members(call)?.into_iter().map(|(_, value)| Some(value)))),
        )
        .with_columns(columns::MEMBER_VALUES),
        strict("json_member_texts", 1..=1, returns_texts, |call| {
            let members = members(call)?;
            let texts =
                members.iter().map(|(_, value)| Ok(scan::content(value).map_err(external)?.map(Cow::into_owned)));
            Ok(scalar_function::text_list(texts.collect::<Result<Vec<_>>>()?))
        })
        .with_columns(columns::MEMBER_TEXTS),
    ]
}

fn readers() -> [RowFunction; 7] {
    [
        strict("jsonb_typeof", 1..=1, returns_text, |call| text(Some(scan::kind(&argument(call, 0)?).to_owned())))
            .with_aliases(&["json_typeof"]),
        strict("jsonb_array_length", 1..=1, returns_integer, |call| {
            match scan::parts(&argument(call, 0)?).map_err(external)? {
                Part::Array(items) => Ok(ScalarValue::Int32(i32::try_from(items.len()).ok())),
                Part::Object(_) => Err(external(not("cannot get array length of a non-array"))),
                Part::Scalar(_) => Err(external(not("cannot get array length of a scalar"))),
            }
        })
        .with_columns(columns::LENGTH)
        .with_aliases(&["json_array_length"]),
        strict("jsonb_extract_path", 1..=20, like_first, |call| {
            let path = (1..call.values.len()).map(|at| argument(call, at)).collect::<Result<Vec<_>>>()?;
            text(found_at(call, &path)?)
        })
        .with_columns(columns::EXTRACT)
        .with_aliases(&["json_extract_path"]),
        strict("jsonb_extract_path_text", 1..=20, returns_text, |call| {
            let path = (1..call.values.len()).map(|at| argument(call, at)).collect::<Result<Vec<_>>>()?;
            as_text(found_at(call, &path)?)
        })
        .with_columns(columns::EXTRACT_TEXT)
        .with_aliases(&["json_extract_path_text"]),
        strict("jsonb_strip_nulls", 1..=1, a_jsonb, |call| {
            let mut document = change::parsed(&argument(call, 0)?)?;
            change::strip_nulls(&mut document);
            text(Some(change::written(&document)?))
        }),
        strict("json_strip_nulls", 1..=1, a_json, |call| {
            text(Some(scan::without_nulls(&argument(call, 0)?).map_err(external)?))
        }),
        strict("jsonb_pretty", 1..=1, returns_text, |call| {
            text(Some(change::pretty(&change::parsed(&argument(call, 0)?)?)))
        }),
    ]
}

fn changers() -> [RowFunction; 3] {
    [
        strict("jsonb_set", 3..=4, a_jsonb, |call| {
            let create = call.values.get(3).and_then(super::values::bool_of) != Some(false);
            changed(call, change::parsed(&argument(call, 2)?)?, Change::Set(create))
        }),
        strict("jsonb_set_lax", 3..=5, a_jsonb, set_lax).with_nulls(),
        strict("jsonb_insert", 3..=4, a_jsonb, |call| {
            let after = call.values.get(3).and_then(super::values::bool_of) == Some(true);
            changed(call, change::parsed(&argument(call, 2)?)?, Change::Insert(after))
        }),
    ]
}

/// `jsonb_set_lax`: as `jsonb_set`, and with NULL as the new value what the last argument says.
fn set_lax(call: &Call) -> Result<ScalarValue> {
    let is_null = |at: usize| call.values.get(at).is_some_and(ScalarValue::is_null);
    if is_null(0) || is_null(1) || is_null(3) {
        return text(None);
    }
    let refused = |message: &str| SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message);
    let treatment = match call.values.get(4) {
        None => Some("use_json_null".to_owned()),
        Some(value) => super::values::text_of(value),
    };
    let create = call.values.get(3).and_then(super::values::bool_of) != Some(false);
    match (treatment.as_deref(), is_null(2)) {
        (Some("use_json_null" | "delete_key" | "return_target" | "raise_exception"), false) => {
            changed(call, change::parsed(&argument(call, 2)?)?, Change::Set(create))
        }
        (Some("use_json_null"), true) => changed(call, Value::Null, Change::Set(create)),
        (Some("delete_key"), true) => changed(call, Value::Null, Change::Delete),
        (Some("return_target"), true) => text(Some(change::written(&change::parsed(&argument(call, 0)?)?)?)),
        (Some("raise_exception"), true) => {
            let detail = "Exception was raised because null_value_treatment is \"raise_exception\".";
            let hint =
                "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is not passed.";
            Err(external(refused("JSON value must not be null").with_detail(detail).with_hint(hint)))
        }
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", or \
                           \"raise_exception\"";
            Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        }
    }
}

/// The first argument, changed at the path that is the second.
fn changed(call: &Call, new: Value, change: Change) -> Result<ScalarValue> {
    let mut document = change::parsed(&argument(call, 0)?)?;
    change::change_at(&mut document, &optional_path(&call.values[1])?, new, change).map_err(external)?;
    text(Some(change::written(&document)?))
}

/// All functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all = operators().into_iter().chain(lists()).chain(readers()).chain(changers());
    let all = all.chain(record::functions()).chain(make::functions());
    scalar_function::functions(all)
}
