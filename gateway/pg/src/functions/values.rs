//! Single values as functions take and give them, and what is said of calls that there are none of.

use crate::{error::SqlError, types};
use arrow::datatypes::{DataType, Field};
use datafusion::scalar::ScalarValue;

/// The text of a value; `None` for NULL.
pub fn text_of(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => text.clone(),
        other if other.is_null() => None,
        ScalarValue::LargeBinary(Some(bytes)) => Some(crate::numeric::text(bytes)),
        other => Some(other.to_string()),
    }
}

/// The whole number of a value, or of its text; `None` for NULL and for other values.
pub fn int_of(value: &ScalarValue) -> Option<i64> {
    if crate::numeric::is_exact(&value.data_type()) {
        let whole = crate::numeric::cast::convert_scalar(value, &DataType::Int64).ok()?;
        return int_of(&whole);
    }
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(int)) => int,
        _ => None,
    }
}

/// The truth of a value; `None` for NULL.
pub fn bool_of(value: &ScalarValue) -> Option<bool> {
    match value.cast_to(&DataType::Boolean) {
        Ok(ScalarValue::Boolean(is)) => is,
        _ => None,
    }
}

/// Text as a result.
pub fn text(value: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8View(Some(value.into()))
}

/// 42883 for a function.
pub fn undefined(name: &str, arguments: &[DataType]) -> SqlError {
    let names: Vec<_> = arguments.iter().map(shown_type).collect();
    SqlError::undefined_function(name, &format!("{name}({})", names.join(", ")))
        .with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// A type as messages name it.
pub fn shown_type(data: &DataType) -> String {
    match types::sql_type(&Field::new("", data.clone(), true)) {
        Some(keyspan_catalog::SqlType::Numeric { .. } | keyspan_catalog::SqlType::Exact(_)) => "numeric".into(),
        Some(kind) => types::type_name(kind),
        None if data.is_null() => "unknown".into(),
        None => types::pg_type(&Field::new("", data.clone(), true)).name().to_owned(),
    }
}
