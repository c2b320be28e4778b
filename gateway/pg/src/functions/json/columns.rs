//! `json -> key`, `json ->> key` and `jsonb ? key` of a column of documents and one key: what queries of maps spend
//! their time in. A document is looked through where it lies.

use super::scan;
use crate::{
    cancel_flag::CancelFlag,
    error::{Result as SqlResult, SqlError},
};
use arrow::array::{Array, ArrayRef, AsArray, BooleanBuilder, StringViewArray, StringViewBuilder};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::ColumnarValue,
};
use std::sync::Arc;

/// `->`
pub(super) fn get(arguments: &[ColumnarValue], cancelled: Option<&CancelFlag>) -> Result<Option<ArrayRef>> {
    texts(arguments, cancelled, |part, values| {
        values.append_option(part);
        Ok(())
    })
}

/// `->>`
pub(super) fn get_text(arguments: &[ColumnarValue], cancelled: Option<&CancelFlag>) -> Result<Option<ArrayRef>> {
    texts(arguments, cancelled, |part, values| {
        values.append_option(part.map(scan::content).transpose()?.flatten());
        Ok(())
    })
}

/// `?`
pub(super) fn exists(arguments: &[ColumnarValue], cancelled: Option<&CancelFlag>) -> Result<Option<ArrayRef>> {
    let Some((documents, key)) = column_and_key(arguments) else { return Ok(None) };
    let mut values = BooleanBuilder::with_capacity(documents.len());
    for document in documents {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        values.append_option(match document {
            None => None,
            Some(object) if object.trim_ascii_start().starts_with('{') => {
                Some(scan::member(object, key).map_err(raised)?.is_some())
            }
            // Strings and items of arrays are looked at row by row.
            Some(_) => return Ok(None),
        });
    }
    Ok(Some(Arc::new(values.finish())))
}

fn texts(
    arguments: &[ColumnarValue],
    cancelled: Option<&CancelFlag>,
    push: impl Fn(Option<&str>, &mut StringViewBuilder) -> SqlResult<()>,
) -> Result<Option<ArrayRef>> {
    let Some((documents, key)) = column_and_key(arguments) else { return Ok(None) };
    let mut values = StringViewBuilder::with_capacity(documents.len());
    for document in documents {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        let part = document.map(|document| scan::member(document, key)).transpose().map_err(raised)?.flatten();
        push(part, &mut values).map_err(raised)?;
    }
    Ok(Some(Arc::new(values.finish())))
}

fn raised(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The documents and the key, if the arguments are these.
fn column_and_key(arguments: &[ColumnarValue]) -> Option<(&StringViewArray, &str)> {
    let [ColumnarValue::Array(documents), ColumnarValue::Scalar(key)] = arguments else { return None };
    Some((documents.as_string_view_opt()?, key.try_as_str()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::scalar::ScalarValue;

    /// As the functions of a row give them.
    #[test]
    fn a_key_is_found_in_a_column_of_documents() {
        let documents = [
            Some(r#"{"a": 1, "b": "x"}"#),
            None,
            Some("{}"),
            Some(r#" {"b" : null , "a":"q\"\u00e9", "a": "last"} "#),
            Some(r#"["a", 2]"#),
            Some("\"a\""),
            Some(r#"{"\u0061": [1, {"a": 2}]}"#),
            Some("7"),
        ];
        let column: ArrayRef = Arc::new(StringViewArray::from_iter(documents));
        let arguments = [ColumnarValue::Array(column), ColumnarValue::Scalar(ScalarValue::Utf8View(Some("a".into())))];
        let shown = |found: Result<Option<ArrayRef>>| {
            let found = found.unwrap().unwrap();
            let shown = |row| arrow::util::display::array_value_to_string(&found, row).unwrap();
            (0..found.len()).map(|row| if found.is_null(row) { "-".into() } else { shown(row) }).collect::<Vec<_>>()
        };
        assert_eq!(shown(get(&arguments, None)), ["1", "-", "-", "\"last\"", "-", "-", r#"[1, {"a": 2}]"#, "-"]);
        assert_eq!(shown(get_text(&arguments, None)), ["1", "-", "-", "last", "-", "-", r#"[1, {"a": 2}]"#, "-"]);
        assert!(exists(&arguments, None).unwrap().is_none(), "not all are objects");
        let [ColumnarValue::Array(documents), key] = &arguments else { panic!("a column and a key") };
        let objects = [ColumnarValue::Array(documents.slice(0, 4)), key.clone()];
        assert_eq!(shown(exists(&objects, None)), ["true", "-", "false", "true"]);
        let broken: ArrayRef = Arc::new(StringViewArray::from(vec![r#"{"a" 1}"#]));
        let [_, key] = arguments;
        assert!(get(&[ColumnarValue::Array(broken), key], None).is_err());
    }
}
