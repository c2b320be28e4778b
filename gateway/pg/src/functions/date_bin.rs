//! `date_bin(stride, time, origin)` of timestamps in microseconds, by integer arithmetic as PostgreSQL's
//! `timestamp_bin`.
//!
//! DataFusion's, in 55.2, counts nanoseconds: it refuses times beyond 2262, and functions of PostgreSQL's timestamps
//! refuse what it gives.

use super::scalar_function::external;
use crate::{
    error::{SqlError, SqlState},
    types,
};
use arrow::{
    array::{AsArray, PrimitiveArray},
    datatypes::{
        DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
    },
};
use datafusion::{
    error::Result,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility,
        sort_properties::{ExprProperties, SortProperties},
    },
    scalar::ScalarValue,
};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;
use std::sync::Arc;

/// What infinities are stored as.
const INFINITIES: [i64; 2] = [i64::MIN, i64::MAX];

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    signature: Signature,
}

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    let of = |time: DataType| TypeSignature::Exact(vec![types::INTERVAL, time.clone(), time]);
    let signature = TypeSignature::OneOf(vec![of(types::TIMESTAMP), of(types::timestamptz())]);
    Arc::new(ScalarUDF::from(DateBin { signature: Signature::new(signature, Volatility::Immutable) }))
}

/// A stride in microseconds.
///
/// # Errors
/// 0A000 for months, 22008 for one that does not go forwards or is too long.
fn micros(stride: IntervalMonthDayNano) -> Result<i64, SqlError> {
    if stride.months != 0 {
        let message = "timestamps cannot be binned into intervals containing months or years";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let out_of_range = |message| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message);
    let micros = i64::from(stride.days).checked_mul(MICROS_PER_DAY);
    let micros = micros.and_then(|micros| micros.checked_add(stride.nanoseconds / 1_000));
    match micros {
        Some(micros @ 1..) => Ok(micros),
        Some(_) => Err(out_of_range("stride must be greater than zero")),
        None => Err(out_of_range("interval out of range")),
    }
}

/// The start of the bin in which a time is; infinities are their own.
///
/// # Errors
/// 22008 for an origin that is infinite, and for what no timestamp can hold.
fn binned(stride: i64, time: i64, origin: i64) -> Result<i64, SqlError> {
    let out_of_range = |what: &str| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"));
    if INFINITIES.contains(&time) {
        return Ok(time);
    }
    if INFINITIES.contains(&origin) {
        return Err(out_of_range("origin"));
    }
    let since = time.checked_sub(origin).ok_or_else(|| out_of_range("interval"))?;
    time.checked_sub(since.rem_euclid(stride)).ok_or_else(|| out_of_range("timestamp"))
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &'static str {
        "date_bin"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        Ok(match kinds {
            [_, time @ DataType::Timestamp(TimeUnit::Microsecond, _), ..] => time.clone(),
            _ => types::timestamptz(),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let kinds: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&kinds)?, nullable)))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match inputs {
            [stride, time, origin]
                if [stride, origin].iter().all(|input| input.sort_properties == SortProperties::Singleton) =>
            {
                time.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { arguments.number_rows };
        let kind = arguments.return_field.data_type();
        let DataType::Timestamp(_, zone) = kind else { return Ok(ColumnarValue::Scalar(ScalarValue::Null)) };
        let of_one = |stride: IntervalMonthDayNano, times: &PrimitiveArray<TimestampMicrosecondType>, origin: i64| {
            let stride = micros(stride).map_err(external)?;
            times.try_unary(|time| binned(stride, time, origin).map_err(external))
        };
        let bins: PrimitiveArray<TimestampMicrosecondType> = match arguments.args.as_slice() {
            [
                ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(stride))),
                ColumnarValue::Array(times),
                ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(Some(origin), _)),
            ] => of_one(*stride, times.as_primitive(), *origin)?,
            [strides, times, origins] => {
                let (strides, times, origins) =
                    (strides.to_array(rows)?, times.to_array(rows)?, origins.to_array(rows)?);
                let strides = strides.as_primitive::<IntervalMonthDayNanoType>().iter();
                let times = times.as_primitive::<TimestampMicrosecondType>().iter();
                let origins = origins.as_primitive::<TimestampMicrosecondType>().iter();
                let each = strides.zip(times.zip(origins)).map(|(stride, (time, origin))| {
                    let (Some(stride), Some(time), Some(origin)) = (stride, time, origin) else { return Ok(None) };
                    micros(stride).and_then(|stride| binned(stride, time, origin)).map(Some).map_err(external)
                });
                each.collect::<Result<_>>()?
            }
            _ => return datafusion::common::exec_err!("date_bin takes three arguments"),
        };
        let bins = bins.with_timezone_opt(zone.clone());
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&bins, 0)?));
        }
        Ok(ColumnarValue::Array(Arc::new(bins)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_go_forwards_and_have_no_months() {
        let state = |months, days, nanos| {
            let refused = micros(IntervalMonthDayNano::new(months, days, nanos)).err()?;
            Some(refused.to_string())
        };
        assert_eq!(state(0, 1, 0), None);
        assert_eq!(state(0, 1, -1_000), None);
        assert!(state(0, 0, 0).is_some_and(|message| message.contains("greater than zero")));
        assert!(state(0, -1, 1).is_some_and(|message| message.contains("greater than zero")));
        assert!(state(12, 0, 0).is_some_and(|message| message.contains("months or years")));
    }

    #[test]
    fn times_before_the_origin_begin_before_it() {
        assert_eq!(binned(10, 25, 3).unwrap(), 23);
        assert_eq!(binned(10, 3, 3).unwrap(), 3);
        assert_eq!(binned(10, 2, 3).unwrap(), -7);
        assert_eq!(binned(10, -7, 3).unwrap(), -7);
        assert_eq!(binned(10, i64::MAX, 3).unwrap(), i64::MAX);
        assert!(binned(10, 3, i64::MIN).unwrap_err().to_string().contains("origin out of range"));
        assert!(binned(10, i64::MAX - 1, -5).unwrap_err().to_string().contains("interval out of range"));
        assert!(binned(1 << 62, i64::MIN + 1, -5).unwrap_err().to_string().contains("timestamp out of range"));
    }
}
