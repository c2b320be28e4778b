//! What queries of documents spend their time in, of a column of documents and one key, path or part: `->`, `->>`,
//! `#>`, `#>>`, `?`, `?|`, `?&`, `@>`, lengths of arrays, and the lists of members that `jsonb_each` and its kin give.
//! A document is looked through where it lies, and for a key not at all if it is [the empty one](EMPTY): most rows have
//! that where few of many columns of an open family are read.

use super::{change, contains::Part, scan};
use crate::{
    cancel_flag::CancelFlag,
    error::{Result as SqlResult, SqlError},
    functions::scalar_function::RunOnColumns,
};
use arrow::{
    array::{
        Array, ArrayBuilder, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int32Builder, ListArray,
        StringViewArray, StringViewBuilder,
    },
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::DataType,
};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::ColumnarValue,
};
use keyspan_catalog::open_map::EMPTY;
use std::{borrow::Cow, sync::Arc};

/// The empty document in an array of views: its length, and its bytes.
const EMPTY_VIEW: u128 =
    EMPTY.len() as u128 | (EMPTY.as_bytes()[0] as u128) << 32 | (EMPTY.as_bytes()[1] as u128) << 40;

/// `->`
pub(super) const GET: RunOnColumns =
    |arguments, _, cancelled| texts(arguments, cancelled, |part| Ok(Some(Cow::Borrowed(part))));

/// `->>`
pub(super) const GET_TEXT: RunOnColumns = |arguments, _, cancelled| texts(arguments, cancelled, scan::content);

/// `#>`
pub(super) const GET_PATH: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, path)) = column_and_path(arguments)? else { return Ok(None) };
    texts_at(documents, &path, cancelled, |part| Ok(Some(Cow::Borrowed(part))))
};

/// `#>>`
pub(super) const GET_PATH_TEXT: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, path)) = column_and_path(arguments)? else { return Ok(None) };
    texts_at(documents, &path, cancelled, scan::content)
};

/// `jsonb_extract_path`
pub(super) const EXTRACT: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, path)) = column_and_steps(arguments) else { return Ok(None) };
    texts_at(documents, &path, cancelled, |part| Ok(Some(Cow::Borrowed(part))))
};

/// `jsonb_extract_path_text`
pub(super) const EXTRACT_TEXT: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, path)) = column_and_steps(arguments) else { return Ok(None) };
    texts_at(documents, &path, cancelled, scan::content)
};

/// `?`
pub(super) const EXISTS: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, key)) = column_and_key(arguments) else { return Ok(None) };
    of_objects(documents, cancelled, |object| Ok(scan::member(object, key)?.is_some()))
};

/// `?|`
pub(super) const EXISTS_ANY: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, keys)) = column_and_path(arguments)? else { return Ok(None) };
    of_objects(documents, cancelled, |object| any(&keys, |key| Ok(scan::member(object, key)?.is_some())))
};

/// `?&`
pub(super) const EXISTS_ALL: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, keys)) = column_and_path(arguments)? else { return Ok(None) };
    of_objects(documents, cancelled, |object| Ok(!any(&keys, |key| Ok(scan::member(object, key)?.is_none()))?))
};

fn any(keys: &[String], is: impl Fn(&str) -> SqlResult<bool>) -> SqlResult<bool> {
    for key in keys {
        if is(key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What holds of each document, if all are objects: keys are strings and items of arrays, too, which is looked at row
/// by row.
fn of_objects(
    documents: &StringViewArray,
    cancelled: Option<&CancelFlag>,
    holds: impl Fn(&str) -> SqlResult<bool>,
) -> Result<Option<ArrayRef>> {
    let of_empty = holds(EMPTY).map_err(raised)?;
    let mut is = BooleanBufferBuilder::new(documents.len());
    is.append_n(documents.len(), of_empty);
    for (row, view) in documents.views().iter().enumerate() {
        if *view == EMPTY_VIEW || documents.is_null(row) {
            continue;
        }
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        let object = documents.value(row);
        if !object.trim_ascii_start().starts_with('{') {
            return Ok(None);
        }
        is.set_bit(row, holds(object).map_err(raised)?);
    }
    Ok(Some(Arc::new(BooleanArray::new(is.finish(), documents.nulls().cloned()))))
}

/// `@>`
pub(super) const CONTAINS: RunOnColumns = |arguments, _, cancelled| {
    let Some((documents, part)) = column_and_key(arguments) else { return Ok(None) };
    let part = Part::from(change::parsed(part)?);
    let mut is = BooleanBufferBuilder::new(documents.len());
    for document in documents {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        is.append(document.map_or(Ok(false), |document| part.is_in(document)).map_err(raised)?);
    }
    Ok(Some(Arc::new(BooleanArray::new(is.finish(), documents.nulls().cloned()))))
};

/// `jsonb_array_length`
pub(super) const LENGTH: RunOnColumns = |arguments, _, cancelled| {
    let Some(documents) = column(arguments) else { return Ok(None) };
    let mut lengths = Int32Builder::with_capacity(documents.len());
    for document in documents {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        match document.map(str::trim_ascii) {
            None => lengths.append_null(),
            Some(array) if array.starts_with('[') => {
                let length = scan::items(array).map_err(raised)?.len();
                lengths.append_option(i32::try_from(length).ok());
            }
            // What is wrong with others is said row by row.
            Some(_) => return Ok(None),
        }
    }
    Ok(Some(Arc::new(lengths.finish())))
};

/// The keys of an object.
pub(super) const MEMBER_KEYS: RunOnColumns = |arguments, returns, cancelled| {
    members(arguments, returns, cancelled, |key, _, items| {
        items.append_value(scan::string(key)?);
        Ok(())
    })
};

/// The values of an object's members.
pub(super) const MEMBER_VALUES: RunOnColumns = |arguments, returns, cancelled| {
    members(arguments, returns, cancelled, |_, value, items| {
        items.append_value(value);
        Ok(())
    })
};

/// The same as texts.
pub(super) const MEMBER_TEXTS: RunOnColumns = |arguments, returns, cancelled| {
    members(arguments, returns, cancelled, |_, value, items| {
        items.append_option(scan::content(value)?);
        Ok(())
    })
};

/// A list for each document, with an item of each member.
fn members(
    arguments: &[ColumnarValue],
    returns: &DataType,
    cancelled: Option<&CancelFlag>,
    push: impl Fn(&str, &str, &mut StringViewBuilder) -> SqlResult<()>,
) -> Result<Option<ArrayRef>> {
    let ([ColumnarValue::Array(documents)], DataType::List(item)) = (arguments, returns) else { return Ok(None) };
    let Some(documents) = documents.as_string_view_opt() else { return Ok(None) };
    let (mut items, mut lengths) = (StringViewBuilder::new(), Vec::with_capacity(documents.len()));
    for document in documents {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        let before = items.len();
        match document.map(str::trim_ascii) {
            None => {}
            Some(object) if object.starts_with('{') => {
                scan::each_member(object, |key, value| push(key, value, &mut items)).map_err(raised)?;
            }
            // What is wrong with others is said row by row.
            Some(_) => return Ok(None),
        }
        lengths.push(items.len() - before);
    }
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(item.clone(), offsets, Arc::new(items.finish()), documents.nulls().cloned())?;
    Ok(Some(Arc::new(lists)))
}

/// A text or NULL for each document, of the member of the key; NULL where there is none.
fn texts(
    arguments: &[ColumnarValue],
    cancelled: Option<&CancelFlag>,
    shown: impl Fn(&str) -> SqlResult<Option<Cow<'_, str>>>,
) -> Result<Option<ArrayRef>> {
    let Some((documents, key)) = column_and_key(arguments) else { return Ok(None) };
    found(documents, cancelled, |document| scan::member(document, key)?.map_or(Ok(None), &shown)).map(Some)
}

/// The same of a path.
fn texts_at(
    documents: &StringViewArray,
    path: &[String],
    cancelled: Option<&CancelFlag>,
    shown: impl Fn(&str) -> SqlResult<Option<Cow<'_, str>>>,
) -> Result<Option<ArrayRef>> {
    // The part that an empty path leads to is the document, also the empty one.
    if path.is_empty() {
        return Ok(None);
    }
    found(documents, cancelled, |document| scan::at(document, path)?.map_or(Ok(None), &shown)).map(Some)
}

/// The documents and the path that an array says.
fn column_and_path(arguments: &[ColumnarValue]) -> Result<Option<(&StringViewArray, Vec<String>)>> {
    Ok(match (column(arguments), arguments) {
        (Some(documents), [_, ColumnarValue::Scalar(path)]) if !path.is_null() => Some((documents, super::path(path)?)),
        _ => None,
    })
}

/// The documents and the path that single texts say.
fn column_and_steps(arguments: &[ColumnarValue]) -> Option<(&StringViewArray, Vec<String>)> {
    let step = |argument: &ColumnarValue| match argument {
        ColumnarValue::Scalar(step) => step.try_as_str().flatten().map(str::to_owned),
        ColumnarValue::Array(_) => None,
    };
    Some((column(arguments)?, arguments[1..].iter().map(step).collect::<Option<_>>()?))
}

/// A text or NULL for each document that is not [`EMPTY`].
fn found<'a>(
    documents: &'a StringViewArray,
    cancelled: Option<&CancelFlag>,
    find: impl Fn(&'a str) -> SqlResult<Option<Cow<'a, str>>>,
) -> Result<ArrayRef> {
    let (mut found, mut rows) = (StringViewBuilder::new(), Vec::new());
    for (row, view) in documents.views().iter().enumerate() {
        if *view == EMPTY_VIEW || documents.is_null(row) {
            continue;
        }
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        if let Some(text) = find(documents.value(row)).map_err(raised)? {
            found.append_value(text);
            rows.push(row);
        }
    }
    // Most rows may have none: each would cost as much as one that has.
    let found = found.finish();
    let (mut views, mut is_valid) = (vec![0; documents.len()], BooleanBufferBuilder::new(documents.len()));
    is_valid.append_n(documents.len(), false);
    for (row, view) in rows.into_iter().zip(found.views()) {
        views[row] = *view;
        is_valid.set_bit(row, true);
    }
    let nulls = NullBuffer::new(is_valid.finish());
    Ok(Arc::new(StringViewArray::try_new(views.into(), found.data_buffers().to_vec(), Some(nulls))?))
}

fn raised(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The documents, if the first argument is a column of them.
fn column(arguments: &[ColumnarValue]) -> Option<&StringViewArray> {
    match arguments.first()? {
        ColumnarValue::Array(documents) => documents.as_string_view_opt(),
        ColumnarValue::Scalar(_) => None,
    }
}

/// The documents and the key, if the arguments are these.
fn column_and_key(arguments: &[ColumnarValue]) -> Option<(&StringViewArray, &str)> {
    let [_, ColumnarValue::Scalar(key)] = arguments else { return None };
    Some((column(arguments)?, key.try_as_str()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::scalar::ScalarValue;

    fn shown(found: Result<Option<ArrayRef>>) -> Vec<String> {
        let found = found.unwrap().unwrap();
        let shown = |row| arrow::util::display::array_value_to_string(&found, row).unwrap();
        (0..found.len()).map(|row| if found.is_null(row) { "-".into() } else { shown(row) }).collect()
    }

    #[test]
    fn members_are_listed_of_a_column_of_documents() {
        let lists = DataType::new_list(DataType::Utf8View, true);
        let call = |run: RunOnColumns, documents: &[Option<&str>]| {
            let column: ArrayRef = Arc::new(documents.iter().collect::<StringViewArray>());
            run(&[ColumnarValue::Array(column)], &lists, None)
        };
        let documents =
            [Some(r#"{"a": 1, "\u0062": "x\ny"}"#), None, Some("{}"), Some(r#" {"c" : null , "d":{"a": [1, 2]}} "#)];
        assert_eq!(shown(call(MEMBER_KEYS, &documents)), ["[a, b]", "-", "[]", "[c, d]"]);
        let object = r#"{"a": [1, 2]}"#;
        let values = [r#"[1, "x\ny"]"#, "-", "[]", &format!("[null, {object}]")];
        assert_eq!(shown(call(MEMBER_VALUES, &documents)), values);
        assert_eq!(shown(call(MEMBER_TEXTS, &documents)), ["[1, x\ny]", "-", "[]", &format!("[, {object}]")]);
        assert!(call(MEMBER_KEYS, &[Some("[1]")]).unwrap().is_none());
        assert!(call(MEMBER_KEYS, &[Some(r#"{"a"}"#)]).is_err());
    }

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
        let text = DataType::Utf8View;
        assert_eq!(shown(GET(&arguments, &text, None)), ["1", "-", "-", "\"last\"", "-", "-", r#"[1, {"a": 2}]"#, "-"]);
        assert_eq!(
            shown(GET_TEXT(&arguments, &text, None)),
            ["1", "-", "-", "last", "-", "-", r#"[1, {"a": 2}]"#, "-"]
        );
        assert!(EXISTS(&arguments, &text, None).unwrap().is_none(), "not all are objects");
        let [ColumnarValue::Array(documents), key] = &arguments else { panic!("a column and a key") };
        let objects = [ColumnarValue::Array(documents.slice(0, 4)), key.clone()];
        assert_eq!(shown(EXISTS(&objects, &text, None)), ["true", "-", "false", "true"]);
        let broken: ArrayRef = Arc::new(StringViewArray::from(vec![r#"{"a" 1}"#]));
        let [_, key] = arguments;
        assert!(GET(&[ColumnarValue::Array(broken), key], &text, None).is_err());
    }
}
