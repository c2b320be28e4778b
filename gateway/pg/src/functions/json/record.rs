//! The columns of `json_to_record`, `json_to_recordset` and their kin of jsonb: lists of what the objects have at a key.
//!
//! `jsonb_to_recordset(d) AS x(a integer, b text[], c jsonb)` has a column for each of these functions' lists, cast to
//! the column's type ([`set_returning`](crate::syntax::set_returning)): `json_record_texts` gives a value's text,
//! `json_record_arrays` that of an array for a column of arrays, `json_record_values` the value itself. Arguments are the
//! document, the key, and the function as it was called, which says whether it takes one object or a list of them;
//! behind them for texts, the type and the length that they must not exceed.

use super::{
    super::scalar_function::{Call, RowFunction, external, returns_texts, text_list, variadic},
    argument, kind, list_of, not,
    scan::{self, Part},
    typed_list,
};
use crate::error::SqlError;
use datafusion::error::Result;
use keyspan_catalog::{SqlType, Value};
use std::fmt::Write;

/// The type of texts of a length that blanks fill.
pub(crate) const CHARACTER: &str = "character";

/// The values at the key: of the one object, or of each in the list. None without a list; NULL is one object without
/// members.
fn values(call: &Call) -> Result<Vec<Option<String>>> {
    let (key, function) = (argument(call, 1)?, argument(call, 2)?);
    let is_set = function.ends_with("set");
    if call.values[0].is_null() {
        return Ok(if is_set { Vec::new() } else { vec![None] });
    }
    let document = argument(call, 0)?;
    let not_on = |what: &str| Err(external(not(&format!("cannot call {function} on {what}"))));
    let objects = match scan::parts(&document).map_err(external)? {
        Part::Object(_) if !is_set => vec![document.as_str()],
        Part::Array(items) if is_set => items,
        Part::Scalar(_) => return not_on("a scalar"),
        Part::Object(_) => return not_on("an object"),
        Part::Array(_) => return not_on("an array"),
    };
    let value = |object: &str| {
        if scan::kind(object) != "object" {
            return Err(external(not(&format!("argument of {function} must be an array of objects"))));
        }
        let found = scan::member(object, &key).map_err(external)?;
        Ok(found.filter(|value| scan::kind(value) != "null").map(str::to_owned))
    };
    objects.into_iter().map(value).collect()
}

fn texts(call: &Call) -> Result<Vec<Option<String>>> {
    let bound = bound(call)?;
    let text = |value: Option<String>| {
        let Some(value) = value else { return Ok(None) };
        let text = scan::content(&value).map_err(external)?.map(std::borrow::Cow::into_owned);
        Ok(match (text, bound) {
            (Some(text), Some(kind)) => {
                match Value::parse(&text, kind).map_err(|error| external(SqlError::from(error)))? {
                    Value::Text(text) => Some(text),
                    _ => Some(text),
                }
            }
            (text, _) => text,
        })
    };
    values(call)?.into_iter().map(text).collect()
}

/// The type of texts that have a length, if the call says one: [`CHARACTER`] or another, and the length.
fn bound(call: &Call) -> Result<Option<SqlType>> {
    if call.values.len() < 5 {
        return Ok(None);
    }
    let length: u32 = argument(call, 4)?.parse().unwrap_or(u32::MAX);
    Ok(Some(if argument(call, 3)? == CHARACTER { SqlType::Char(length) } else { SqlType::Varchar(Some(length)) }))
}

/// A JSON array as PostgreSQL's text of an array; another value as its text.
fn array_text(value: &str) -> Result<Option<String>> {
    let Part::Array(items) = scan::parts(value).map_err(external)? else {
        return Ok(scan::content(value).map_err(external)?.map(std::borrow::Cow::into_owned));
    };
    let mut text = String::from("{");
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        match scan::kind(item) {
            "null" => text.push_str("NULL"),
            "array" => text.push_str(&array_text(item)?.unwrap_or_default()),
            _ => {
                let content = scan::content(item).map_err(external)?.unwrap_or_default();
                let _ = write!(text, "\"{}\"", content.replace('\\', "\\\\").replace('"', "\\\""));
            }
        }
    }
    text.push('}');
    Ok(Some(text))
}

pub(super) fn functions() -> [RowFunction; 3] {
    [
        variadic("json_record_texts", 3, returns_texts, |call| Ok(text_list(texts(call)?))),
        variadic("json_record_arrays", 3, returns_texts, |call| {
            let text = |value: Option<String>| value.map_or(Ok(None), |value| array_text(&value));
            Ok(text_list(values(call)?.into_iter().map(text).collect::<Result<Vec<_>>>()?))
        }),
        variadic(
            "json_record_values",
            3,
            |fields| list_of(kind(&fields[0]).unwrap_or("jsonb")),
            |call| Ok(typed_list(call, values(call)?.into_iter())),
        ),
    ]
}
