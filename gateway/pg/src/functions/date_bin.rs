//! `date_bin`, which is DataFusion's: with strides that PostgreSQL refuses, of months or backwards, refused.

use super::scalar_function::external;
use crate::error::{SqlError, SqlState};
use arrow::{
    array::{Array, AsArray},
    datatypes::{DataType, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType},
};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// Nanoseconds of a day.
const DAY: i128 = 86_400_000_000_000;

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    inner: Arc<ScalarUDF>,
}

/// # Errors
/// 0A000 for months, 22008 for a stride that does not go forwards.
fn check(stride: IntervalMonthDayNano) -> Result<()> {
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(external(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)));
    }
    if i128::from(stride.days) * DAY + i128::from(stride.nanoseconds) <= 0 {
        let message = "stride must be greater than zero";
        return Err(external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)));
    }
    Ok(())
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }
    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(stride)))) => check(*stride)?,
            Some(ColumnarValue::Array(strides)) if matches!(strides.data_type(), DataType::Interval(_)) => {
                let strides = strides.as_primitive_opt::<IntervalMonthDayNanoType>();
                strides.into_iter().flat_map(|strides| strides.iter().flatten()).try_for_each(check)?;
            }
            _ => {}
        }
        self.inner.invoke_with_args(arguments)
    }
}

/// The function, around that which is registered.
pub(super) fn function(state: &SessionState) -> Option<Arc<ScalarUDF>> {
    Some(Arc::new(ScalarUDF::from(DateBin { inner: state.udf("date_bin").ok()? })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_go_forwards_and_have_no_months() {
        let state = |months, days, nanos| {
            let refused = check(IntervalMonthDayNano::new(months, days, nanos)).err()?;
            Some(refused.to_string())
        };
        assert_eq!(state(0, 1, 0), None);
        assert_eq!(state(0, 1, -1), None);
        assert!(state(0, 0, 0).is_some_and(|message| message.contains("greater than zero")));
        assert!(state(0, -1, 1).is_some_and(|message| message.contains("greater than zero")));
        assert!(state(12, 0, 0).is_some_and(|message| message.contains("months or years")));
    }
}
