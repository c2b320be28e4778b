//! `normalize` and `IS NORMALIZED`: the normal forms of Unicode, by the crate unicode-normalization.

use super::scalar_function::{self, Call, external, nullable, returns_text, strict};
use crate::error::{SqlError, SqlState};
use arrow::datatypes::DataType;
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;
use unicode_normalization::UnicodeNormalization;

/// A text in the form of the second argument, NFC without one.
///
/// # Errors
/// 22023 for a form that is none.
fn normal(call: &Call) -> Result<(String, String)> {
    let argument = |at: usize| call.values.get(at).and_then(super::values::text_of).unwrap_or_default();
    let (text, form) = (argument(0), argument(1));
    let normal = match form.to_uppercase().as_str() {
        "" | "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => {
            let message = format!("invalid normalization form: {form}");
            return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
        }
    };
    Ok((text, normal))
}

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions([
        strict("normalize", 1..=2, returns_text, |call| Ok(ScalarValue::Utf8View(Some(normal(call)?.1)))),
        strict(
            "is_normalized",
            1..=2,
            |_| nullable(DataType::Boolean),
            |call| {
                let (text, normal) = normal(call)?;
                Ok(ScalarValue::Boolean(Some(text == normal)))
            },
        ),
    ])
}
