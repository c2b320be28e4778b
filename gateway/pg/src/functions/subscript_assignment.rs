//! `SET a[1] = x` and `SET a[2:3] = …`: an array with some of its items replaced, as PostgreSQL assigns to subscripts;
//! `SET j['a'][0] = …`: jsonb with a part replaced, and what is missing on the way to it made.
//!
//! Arrays count from 1. Where PostgreSQL would let an array begin elsewhere, it is 0A000.

use super::{
    json::{self, change},
    scalar_function::{self, Call, RowFunction, external, item_of, items, strict, variadic},
};
use crate::{
    datetime::Input,
    error::{SqlError, SqlState},
    plan::casts,
    types,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use keyspan_catalog::value::array::ARRAY_ITEMS_MAX;
use std::sync::Arc;

/// `a[1] = x`: the array, the subscript, the item.
pub const ELEMENT: &str = "array_with_item";
/// `a[2:3] = b`: the array, the bounds, the items.
pub const SLICE: &str = "array_with_slice";
/// `j['a'][0] = x`: the document, the value, the keys.
pub const AT_PATH: &str = "jsonb_with_part";
/// Bounds that are not written: beyond those of arrays.
pub const OPEN: (i64, i64) = (-9_999_999_999, 9_999_999_999);

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all: [RowFunction; 3] = [
        strict(ELEMENT, 3..=3, |fields| assigned(fields, false), with_item).with_nulls(),
        variadic(
            AT_PATH,
            4,
            |fields| of_documents(&fields[0], &fields[1], &fields[2..]),
            |call| with_part(call, &call.values[1], 2..call.values.len()),
        ),
        strict(SLICE, 4..=4, |fields| assigned(fields, true), with_slice).with_nulls(),
    ];
    scalar_function::functions(all)
}

fn type_name(field: &Field) -> String {
    types::sql_type(field).map_or_else(|| types::pg_type(field).name().to_owned(), types::type_name)
}

/// The type of the array, where the last argument can be assigned to its items.
fn assigned(fields: &[FieldRef], slice: bool) -> Result<FieldRef> {
    let (array, value) = (&fields[0], &fields[fields.len() - 1]);
    let Some(item) = types::item_field(array).filter(|_| !types::is_vector(array)) else {
        if array.data_type().is_null() {
            return Ok(Arc::clone(array));
        }
        if json::kind(array) == Some("jsonb") && !slice {
            return of_documents(array, value, &fields[1..2]);
        }
        if json::kind(array) == Some("jsonb") {
            let message = "jsonb subscript does not support slices";
            return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        let message = format!("cannot subscript type {} because it does not support subscripting", type_name(array));
        return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
    };
    let (wanted, given) =
        if slice { (array.data_type(), value.data_type()) } else { (item.data_type(), value.data_type()) };
    let of_items = |data: &DataType| match data {
        DataType::List(item) if slice => item.data_type().clone(),
        other => other.clone(),
    };
    let (to, from) = (of_items(wanted), of_items(given));
    let text = |data: &DataType| matches!(data, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let stamps = |data: &DataType| matches!(data, DataType::Timestamp(..) | DataType::Date32);
    // A quoted text is read; what else there is has to be of a type that PostgreSQL assigns.
    let open = matches!(given, DataType::Utf8 | DataType::Null) || matches!(from, DataType::Null);
    let same_form = matches!(given, DataType::List(_)) == slice;
    let casts = to == from || to.is_numeric() && from.is_numeric() || text(&to) || stamps(&to) && stamps(&from);
    let fits = open || same_form && casts;
    if !fits {
        let of = if slice { type_name(array) } else { type_name(&item) };
        let message = format!(
            "subscripted assignment to \"{}\" requires type {of} but expression is of type {}",
            array.name(),
            type_name(value)
        );
        return Err(external(
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("You will need to rewrite or cast the expression."),
        ));
    }
    Ok(Arc::new(array.as_ref().clone().with_nullable(true)))
}

fn wrong(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message.into())
}

/// A subscript, which may not be NULL.
fn place(value: &ScalarValue) -> Result<i64> {
    let data = if matches!(value, ScalarValue::Int64(_)) { DataType::Int64 } else { DataType::Int32 };
    let read = casts::convert(&value.to_array()?, &Field::new("", data, true), Input::initial())?;
    super::values::int_of(&ScalarValue::try_from_array(&read, 0)?).ok_or_else(|| {
        let message = "array subscript in assignment must not be null";
        external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
    })
}

/// A value as one of a type.
fn cast(value: &ScalarValue, to: &Field, input: Input<'_>) -> Result<ScalarValue> {
    if value.is_null() || value.data_type() == *to.data_type() {
        return if value.is_null() { ScalarValue::try_from(to.data_type()) } else { Ok(value.clone()) };
    }
    let array = value.to_array()?;
    if array.data_type().is_integer() && to.data_type().is_integer() {
        let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
        let cast = arrow::compute::cast_with_options(&array, to.data_type(), &options);
        let cast = cast.map_err(|_| external(crate::plan::checked_arithmetic::out_of_range(to.data_type())))?;
        return ScalarValue::try_from_array(&cast, 0);
    }
    ScalarValue::try_from_array(&casts::convert(&array, to, input)?, 0)
}

/// A type to cast to: a cast would cut what is too long for a `varchar(n)`, which is refused when the column takes it.
fn uncut(field: &Field) -> Field {
    let cuts = field.metadata().get(types::TYPE_KEY).is_some_and(|name| name.starts_with("character"));
    if cuts { Field::new("", field.data_type().clone(), true) } else { field.clone() }
}

fn array(call: &Call, items: &[ScalarValue]) -> ScalarValue {
    let item = item_of(&call.fields[0]).map_or(DataType::Null, |item| item.data_type().clone());
    ScalarValue::List(ScalarValue::new_list_nullable(items, &item))
}

/// Items, overwritten by others from a position on; NULLs fill the gap between the end and that position.
fn put(call: &Call, mut all: Vec<ScalarValue>, from: i64, new: Vec<ScalarValue>) -> Result<ScalarValue> {
    let begins = usize::try_from(from - 1).ok().filter(|begin| *begin == 0 || !all.is_empty());
    let Some(begin) = begins else {
        let what = "an array whose first item is not at place 1";
        return Err(external(SqlError::unsupported(what)));
    };
    let end = begin.saturating_add(new.len());
    if end > ARRAY_ITEMS_MAX {
        let message = format!("array size exceeds the maximum allowed ({ARRAY_ITEMS_MAX})");
        return Err(external(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
    }
    let item = item_of(&call.fields[0]).map_or(DataType::Null, |item| item.data_type().clone());
    while all.len() < end {
        all.push(ScalarValue::try_from(&item)?);
    }
    for (at, value) in (begin..).zip(new) {
        all[at] = value;
    }
    Ok(array(call, &all))
}

/// The type of jsonb with a part replaced.
///
/// # Errors
/// 0A000 for an array, 42804 for a value that is no jsonb, and for a key that is neither a text nor an integer.
fn of_documents(document: &FieldRef, value: &Field, keys: &[FieldRef]) -> Result<FieldRef> {
    if json::kind(document) != Some("jsonb") {
        let what = "an assignment to an item of an array of several dimensions";
        return Err(external(SqlError::unsupported(what)));
    }
    let wrong = |message: String, hint: &str| {
        Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint)))
    };
    if let Some(key) = keys.iter().find(|key| {
        let data = key.data_type();
        !(data.is_integer() || types::is_text(data) || data.is_null())
    }) {
        let message = format!("subscript type {} is not supported", type_name(key));
        return wrong(message, "jsonb subscript must be coercible to either integer or text.");
    }
    // A quoted text is read.
    let fits = json::kind(value) == Some("jsonb") || matches!(value.data_type(), DataType::Utf8 | DataType::Null);
    if !fits {
        let message = format!(
            "subscripted assignment to \"{}\" requires type jsonb but expression is of type {}",
            document.name(),
            type_name(value)
        );
        return wrong(message, "You will need to rewrite or cast the expression.");
    }
    Ok(Arc::new(document.as_ref().clone().with_nullable(true)))
}

/// jsonb with another value at a path of keys.
fn with_part(call: &Call, value: &ScalarValue, keys: std::ops::Range<usize>) -> Result<ScalarValue> {
    let first_key = call.fields[keys.start].data_type();
    let keys = call.values[keys].iter().map(|key| match super::values::text_of(key) {
        Some(key) => Ok(Some(key)),
        None => {
            let message = "jsonb subscript in assignment must not be null";
            Err(external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)))
        }
    });
    let path = keys.collect::<Result<Vec<_>>>()?;
    let new = super::values::text_of(value).map_or(Ok(serde_json::Value::Null), |text| change::parsed(&text))?;
    let mut document = match super::values::text_of(&call.values[0]) {
        Some(text) => change::parsed(&text)?,
        // NULL becomes an array where the first key is an integer.
        None if first_key.is_integer() => serde_json::json!([]),
        None => serde_json::json!({}),
    };
    change::change_at(&mut document, &path, new, change::Change::Assign).map_err(external)?;
    Ok(ScalarValue::Utf8View(Some(change::written(&document)?)))
}

fn with_item(call: &Call) -> Result<ScalarValue> {
    if json::kind(&call.fields[0]) == Some("jsonb") {
        return with_part(call, &call.values[2], 1..2);
    }
    let at = place(&call.values[1])?;
    let Some(item) = types::item_field(&call.fields[0]) else { return Ok(call.values[0].clone()) };
    let new = cast(&call.values[2], &uncut(&item), Input::within(call.options))?;
    put(call, items(&call.values[0]).unwrap_or_default(), at, vec![new])
}

fn with_slice(call: &Call) -> Result<ScalarValue> {
    let (lower, upper) = (place(&call.values[1])?, place(&call.values[2])?);
    if call.values[3].is_null() {
        return Ok(call.values[0].clone());
    }
    let all = items(&call.values[0]).unwrap_or_default();
    if all.is_empty() && (lower == OPEN.0 || upper == OPEN.1) {
        let error = wrong("array slice subscript must provide both boundaries");
        let detail = "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
        return Err(external(error.with_detail(detail)));
    }
    let lower = if lower == OPEN.0 { 1 } else { lower };
    let upper = if upper == OPEN.1 { i64::try_from(all.len()).unwrap_or(i64::MAX) } else { upper };
    if upper < lower {
        return Err(external(wrong("upper bound cannot be less than lower bound")));
    }
    let new = cast(&call.values[3], &uncut(&call.fields[0]), Input::within(call.options))?;
    let mut new = items(&new).unwrap_or_default();
    let Some(count) = usize::try_from(upper - lower + 1).ok().filter(|count| *count <= new.len()) else {
        return Err(external(wrong("source array too small")));
    };
    new.truncate(count);
    put(call, all, lower, new)
}
