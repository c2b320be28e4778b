//! Key words, as `pg_get_keywords()` lists them: each of its columns is a list, from which
//! [`rows`](crate::pg::syntax::set_returning) makes rows.

use super::row_function::row_function;
use crate::pg::{
    functions::{RowFunction, scalar_function::text_list},
    ident::keywords,
};
use arrow::datatypes::{DataType, Field};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The functions that give the columns.
pub(super) fn functions() -> [RowFunction; 3] {
    let list = || DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
    [
        row_function("keyword_words", 0..=0, list(), |_, _| Ok(listed(|word, _| word))),
        row_function("keyword_classes", 0..=0, list(), |_, _| Ok(listed(|_, class| class))),
        row_function("keyword_descriptions", 0..=0, list(), |_, _| Ok(listed(|_, class| described(class)))),
    ]
}

fn listed(column: fn(&'static str, &'static str) -> &'static str) -> ScalarValue {
    text_list(keywords().map(|(word, class)| Some(column(word, class).to_owned())))
}

fn described(class: &str) -> &'static str {
    match class {
        "C" => "unreserved (cannot be function or type name)",
        "R" => "reserved",
        "T" => "reserved (can be function or type name)",
        _ => "unreserved",
    }
}
