//! Values of SQL as JSON: `to_json`, `json_build_object`, `json_build_array`, `row_to_json`, `json_object`.
//!
//! json is written as PostgreSQL's functions write it, each with blanks of its own; jsonb always in its one form.

use super::{RowFunction, a_json, a_jsonb, argument, kind, optional_path, strict, text};
use crate::{
    codec::parse,
    datetime::Style,
    error::{SqlError, SqlState},
    functions::scalar_function::{Call, external, items, styled_output, text_output, variadic},
};
use arrow::datatypes::{DataType, Field};
use datafusion::{error::Result, scalar::ScalarValue};

/// A string of JSON.
pub fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// A value as JSON, `null` for NULL.
///
/// # Errors
/// 0A000 for a type that the protocol has no form for.
pub fn json_of(value: &ScalarValue, field: &Field, style: &Style) -> Result<String> {
    if value.is_null() {
        return Ok("null".to_owned());
    }
    if let Some(items) = items(value) {
        let item = crate::types::item_field(field).unwrap_or_else(|| Field::new("", DataType::Null, true));
        let written = items.iter().map(|value| json_of(value, &item, style)).collect::<Result<Vec<_>>>()?;
        return Ok(format!("[{}]", written.join(",")));
    }
    if let ScalarValue::Struct(row) = value {
        let members = row.columns().iter().zip(row.fields()).map(|(column, field)| {
            let value = ScalarValue::try_from_array(column, 0)?;
            Ok(format!(
                "{}:{}",
                quoted(field.name().split('\u{1}').next().unwrap_or_default()),
                json_of(&value, field, style)?
            ))
        });
        return Ok(format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(",")));
    }
    let shown = styled_output(value, field, &style.for_json())?.unwrap_or_default();
    Ok(match field.data_type() {
        DataType::Boolean => if shown == "t" { "true" } else { "false" }.to_owned(),
        DataType::Float32 | DataType::Float64 if shown.contains(['N', 'I']) => quoted(&shown),
        // NaN and infinities have letters.
        data if crate::numeric::is_number(data) && !shown.contains(['N', 'I']) => shown,
        _ if kind(field).is_some() => shown,
        _ => quoted(&shown),
    })
}

fn all(call: &Call) -> Result<Vec<String>> {
    call.values
        .iter()
        .zip(call.fields)
        .map(|(value, field)| json_of(value, field, Style::within(call.options)))
        .collect()
}

fn object(call: &Call) -> Result<String> {
    if call.values.len() % 2 == 1 {
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "argument list must have even number of elements");
        let hint = "The arguments of json_build_object() must consist of alternating keys and values.";
        return Err(external(error.with_hint(hint)));
    }
    let written = all(call)?;
    let mut members = Vec::with_capacity(written.len() / 2);
    for (at, pair) in written.chunks(2).enumerate() {
        let field = &call.fields[at * 2];
        if kind(field).is_some() || field.data_type().is_nested() {
            let message = "key value must be scalar, not array, composite, or json";
            return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
        }
        let key = text_output(&call.values[at * 2], field, call.options)?.ok_or_else(|| {
            let message = format!("argument {} cannot be null", at * 2 + 1);
            external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        })?;
        members.push(format!("{} : {}", quoted(&key), pair[1]));
    }
    Ok(format!("{{{}}}", members.join(", ")))
}

/// json as jsonb.
fn binary(json: &str) -> Result<ScalarValue> {
    text(Some(parse::jsonb(json).map_err(external)?))
}

fn of_pairs(keys: &[Option<String>], values: &[Option<String>]) -> Result<String> {
    if keys.len() != values.len() {
        return Err(external(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "mismatched array dimensions")));
    }
    let value = |value: &Option<String>| value.as_ref().map_or("null".to_owned(), |value| quoted(value));
    let members = keys.iter().zip(values).map(|(key, item)| match key {
        Some(key) => Ok(format!("{} : {}", quoted(key), value(item))),
        None => {
            let message = "null value not allowed for object key";
            Err(external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)))
        }
    });
    Ok(format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(", ")))
}

fn object_of_texts(call: &Call) -> Result<String> {
    let first = optional_path(&call.values[0])?;
    if let Some(values) = call.values.get(1) {
        return of_pairs(&first, &optional_path(values)?);
    }
    if first.len() % 2 == 1 {
        return Err(external(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "array must have even number of elements",
        )));
    }
    let keys: Vec<_> = first.iter().step_by(2).cloned().collect();
    let values: Vec<_> = first.into_iter().skip(1).step_by(2).collect();
    of_pairs(&keys, &values)
}

/// The functions.
pub fn functions() -> [RowFunction; 12] {
    [
        strict("to_json", 1..=1, a_json, |call| {
            text(Some(json_of(&call.values[0], &call.fields[0], Style::within(call.options))?))
        })
        .with_aliases(&["row_to_json", "array_to_json"]),
        strict("to_jsonb", 1..=1, a_jsonb, |call| {
            binary(&json_of(&call.values[0], &call.fields[0], Style::within(call.options))?)
        }),
        // As an item of an aggregate, where NULL is null.
        strict("json_item", 1..=1, a_json, |call| {
            text(Some(json_of(&call.values[0], &call.fields[0], Style::within(call.options))?))
        })
        .with_nulls(),
        strict("json_line_item", 1..=1, a_json, |call| {
            let item = json_of(&call.values[0], &call.fields[0], Style::within(call.options))?;
            let begins = matches!(call.values[0], ScalarValue::Struct(_) | ScalarValue::List(_)) && item != "null";
            text(Some(if begins { format!("\n {item}") } else { item }))
        })
        .with_nulls(),
        strict("json_key", 1..=1, a_json, |call| match text_output(&call.values[0], &call.fields[0], call.options)? {
            Some(key) => text(Some(quoted(&key))),
            None => Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"))),
        })
        .with_nulls(),
        strict("json_to_jsonb", 1..=1, a_jsonb, |call| binary(&argument(call, 0)?)),
        variadic("json_build_object", 0, a_json, |call| text(Some(object(call)?))),
        variadic("jsonb_build_object", 0, a_jsonb, |call| binary(&object(call)?)),
        variadic("json_build_array", 0, a_json, |call| text(Some(format!("[{}]", all(call)?.join(", "))))),
        variadic("jsonb_build_array", 0, a_jsonb, |call| binary(&format!("[{}]", all(call)?.join(",")))),
        strict("json_object", 1..=2, a_json, |call| text(Some(object_of_texts(call)?))),
        strict("jsonb_object", 1..=2, a_jsonb, |call| binary(&object_of_texts(call)?)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::json::scan;

    #[test]
    fn parts_are_cut_out_of_the_text() {
        let text = r#" {"a": {"b": [1, "x,]", {"c": null}]}, "d\n": 2} "#;
        let at = |path: &[&str]| {
            let path: Vec<_> = path.iter().map(|step| (*step).to_owned()).collect();
            scan::at(text, &path).map(|part| part.map(str::to_owned)).map_err(|error| error.message)
        };
        assert_eq!(at(&["a", "b", "1"]), Ok(Some("\"x,]\"".to_owned())));
        assert_eq!(at(&["a", "b", "-1", "c"]), Ok(Some("null".to_owned())));
        assert_eq!(at(&["d\n"]), Ok(Some("2".to_owned())));
        assert_eq!(at(&["a", "x"]), Ok(None));
        for broken in ["{", "{\"a\"", "[1", "\"", "{\"a\":}", "", "[,]", "\"\\"] {
            assert!(scan::parts(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn values_become_json() {
        let field = |data: DataType| Field::new("", data, true);
        let of = |value: ScalarValue| {
            json_of(&value, &field(value.data_type()), Style::initial()).expect("a type that clients know")
        };
        assert_eq!(of(ScalarValue::Utf8View(Some("a\"b".into()))), "\"a\\\"b\"");
        assert_eq!(of(ScalarValue::Boolean(Some(true))), "true");
        assert_eq!(of(ScalarValue::Float64(Some(f64::NAN))), "\"NaN\"");
        assert_eq!(of(ScalarValue::Int32(None)), "null");
    }
}
