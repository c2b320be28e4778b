//! The text by which documents are compared: equal documents have one key, however many zeros their numbers show, and
//! keys have the order of PostgreSQL's `compareJsonbContainers`.
//!
//! Objects stand above arrays, these above booleans, numbers, strings and null; arrays and objects go by their length
//! first. The one exception is PostgreSQL's too: an array without items comes before all where it is the whole
//! document.

use crate::{
    codec::parse,
    error::Result as SqlResult,
    functions::scalar_function::{RowFunction, external, nullable, strict},
};
use arrow::datatypes::DataType;
use datafusion::{error::DataFusionError, logical_expr::ScalarUDF, scalar::ScalarValue};
use keyspan_catalog::value::exact::Exact;
use serde_json::Value;
use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

/// Ends a string or a number: no text of a jsonb has this character.
const END: char = '\0';

/// The function of plans: a jsonb's key.
pub(crate) fn jsonb_key() -> Arc<ScalarUDF> {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(key())));
    Arc::clone(&KEY)
}

fn key() -> RowFunction {
    strict(
        "jsonb_key",
        1..=1,
        |_| nullable(DataType::Utf8View),
        |call| {
            let text = super::argument(call, 0)?;
            Ok(ScalarValue::Utf8View(Some(of_text(&text)?)))
        },
    )
}

/// The key of a document. A parameter's text, which nothing has read, is read.
fn of_text(text: &str) -> Result<String, DataFusionError> {
    let text = parse::jsonb(text).map_err(external)?;
    let document: Value = serde_json::from_str(&text).map_err(|error| DataFusionError::Internal(error.to_string()))?;
    let mut key = String::with_capacity(text.len() + 8);
    match &document {
        Value::Array(items) if items.is_empty() => key.push('0'),
        document => append(document, &mut key).map_err(external)?,
    }
    Ok(key)
}

fn append(value: &Value, key: &mut String) -> SqlResult<()> {
    let length = |key: &mut String, tag: char, items: usize| {
        key.push(tag);
        // The bound of a value is far below 2³².
        let _ = write!(key, "{items:08x}");
    };
    match value {
        Value::Null => key.push('1'),
        Value::String(text) => {
            key.push('2');
            key.push_str(text);
            key.push(END);
        }
        Value::Number(number) => {
            key.push('3');
            if let Some(exact) = Exact::parse(&number.to_string()) {
                // Digits of sixteen keep the order of bytes.
                exact?.key().iter().for_each(|byte| {
                    let _ = write!(key, "{byte:02x}");
                });
            }
            key.push(END);
        }
        Value::Bool(value) => key.push_str(if *value { "41" } else { "40" }),
        Value::Array(items) => {
            length(key, '5', items.len());
            items.iter().try_for_each(|item| append(item, key))?;
        }
        Value::Object(members) => {
            length(key, '6', members.len());
            // Members stand by the length of their names, then by their bytes.
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            for (name, value) in members {
                key.push_str(name);
                key.push(END);
                append(value, key)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_documents() {
        // As PostgreSQL 15 sorts them.
        let sorted = [
            "[]",
            "null",
            r#""""#,
            r#""a""#,
            r#""a b""#,
            r#""b""#,
            "-1e3",
            "-1",
            "0",
            "0.5",
            "1",
            "2",
            "10",
            "false",
            "true",
            r#"["z"]"#,
            "[1]",
            "[[]]",
            "[1, 2]",
            "[1, 3]",
            "{}",
            r#"{"aa": 0}"#,
            r#"{"b": 1}"#,
            r#"{"b": 2}"#,
            r#"{"b": 0, "aa": 0}"#,
        ];
        let keys: Vec<String> = sorted.iter().map(|text| of_text(text).unwrap()).collect();
        for (at, pair) in keys.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "{} and {}", sorted[at], sorted[at + 1]);
        }
    }

    #[test]
    fn equal_documents_have_one_key() {
        for (a, b) in [("1", "1.00"), (r#"{"a": [1.0, 20]}"#, r#"{"a":[1,2e1]}"#), ("0", "-0.0")] {
            assert_eq!(of_text(a).unwrap(), of_text(b).unwrap());
        }
        assert_ne!(of_text(r#"["a", "b"]"#).unwrap(), of_text(r#"["a\u0001", "b"]"#).unwrap());
    }
}
