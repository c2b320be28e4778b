//! The value of a subquery beside what it failed with, which is raised where the value is used.

use crate::error::{SqlError, SqlState};
use arrow::{
    array::AsArray,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::internal_err,
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use std::sync::{Arc, LazyLock};

/// Parts the fields of an error.
const SEPARATOR: char = '\u{1f}';
/// Classes of SQLSTATEs that end a query wherever they come up: too few resources, the outside, a conflict, faults of
/// ours.
const AT_ONCE: [&str; 6] = ["53", "57", "58", "40", "XX", "25"];

/// `value`, or the error where there is one.
pub(crate) fn checked(value: Expr, error: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        Arc::new(ScalarUDF::from(SubqueryValue { signature: Signature::any(2, Volatility::Immutable) }))
    });
    FUNCTION.call(vec![value, error])
}

/// An error as text; the error itself when it ends the query.
pub(crate) fn kept(error: DataFusionError) -> Result<String> {
    let told = SqlError::from(error);
    if AT_ONCE.iter().any(|class| told.state.0.starts_with(class)) {
        return Err(DataFusionError::External(Box::new(told)));
    }
    let parts = [told.state.0, &told.message, told.detail.as_deref().unwrap_or(""), told.hint.as_deref().unwrap_or("")];
    Ok(parts.join(&SEPARATOR.to_string()))
}

fn raised(text: &str) -> DataFusionError {
    let mut parts = text.splitn(4, SEPARATOR);
    let mut next = || parts.next().unwrap_or("").to_owned();
    let (state, message, detail, hint) = (next(), next(), next(), next());
    let mut error = SqlError::new(SqlState::of(&state), message);
    error.detail = Some(detail).filter(|text| !text.is_empty());
    error.hint = Some(hint).filter(|text| !text.is_empty());
    DataFusionError::External(Box::new(error))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SubqueryValue {
    signature: Signature,
}

impl ScalarUDFImpl for SubqueryValue {
    fn name(&self) -> &str {
        "subquery_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("its field is asked for")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&arguments.arg_fields[0]))
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let errors = arguments.args[1].to_array(arguments.number_rows)?;
        match errors.as_string::<i32>().iter().flatten().next() {
            Some(error) => Err(raised(error)),
            None => Ok(arguments.args.swap_remove(0)),
        }
    }
}
