//! `pg_options_to_table()`: options that are kept as `name=value`, as lists of names and of values, from which
//! [`rows`](crate::pg::syntax::set_returning) makes rows.

use super::row_function::row_function;
use crate::pg::functions::{RowFunction, scalar_function::text_list, text_of};
use arrow::{
    array::Array,
    datatypes::{DataType, Field},
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The functions that give the columns.
pub(super) fn functions() -> [RowFunction; 2] {
    let list = || DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
    [
        row_function("option_names", 1..=1, list(), |values, _| Ok(listed(&values[0], |name, _| Some(name)))),
        row_function("option_values", 1..=1, list(), |values, _| Ok(listed(&values[0], |_, value| value))),
    ]
}

/// A part of each option; an option without a value has only a name.
fn listed(options: &ScalarValue, part: fn(String, Option<String>) -> Option<String>) -> ScalarValue {
    let ScalarValue::List(list) = options else { return text_list(std::iter::empty()) };
    let items = list.is_valid(0).then(|| list.value(0));
    let texts = items.into_iter().flat_map(|items| {
        (0..items.len()).filter_map(|at| text_of(&ScalarValue::try_from_array(&items, at).ok()?)).collect::<Vec<_>>()
    });
    text_list(texts.map(|option| match option.split_once('=') {
        Some((name, value)) => part(name.to_owned(), Some(value.to_owned())),
        None => part(option, None),
    }))
}
