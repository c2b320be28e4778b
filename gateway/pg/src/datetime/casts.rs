//! Casts between `timestamptz` and local time, of arrays.

use super::Style;
use crate::{
    error::{SqlError, SqlState},
    types::{self, TIME, TIMESTAMP},
};
use arrow::{
    array::{ArrayRef, AsArray, PrimitiveArray},
    datatypes::{DataType, Date32Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType},
};
use datafusion::error::{DataFusionError, Result};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;
use std::sync::Arc;

/// Whether a cast is one between local time and a `timestamptz`.
pub(crate) fn crosses(from: &DataType, to: &DataType) -> bool {
    let is_local = |data: &DataType| matches!(data, DataType::Timestamp(_, None) | DataType::Date32);
    let is_zoned = |data: &DataType| matches!(data, DataType::Timestamp(_, Some(_)));
    (is_local(from) && is_zoned(to)) || (is_zoned(from) && (is_local(to) || matches!(to, DataType::Time64(_))))
}

/// Casts an array of one of `timestamptz`, `timestamp`, `date` to another, or to `time`, by the session's zone.
///
/// # Errors
/// 22008.
pub fn in_zone(array: &ArrayRef, to: &DataType, style: &Style) -> Result<ArrayRef> {
    let out_of_range = || {
        let message = "timestamp out of range";
        DataFusionError::External(Box::new(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)))
    };
    let is_zoned = matches!(array.data_type(), DataType::Timestamp(_, Some(_)));
    let unit = if is_zoned { types::timestamptz() } else { TIMESTAMP };
    let micros: PrimitiveArray<TimestampMicrosecondType> = if *array.data_type() == DataType::Date32 {
        array.as_primitive::<Date32Type>().try_unary(|days| match days {
            i32::MAX => Ok(i64::MAX),
            i32::MIN => Ok(i64::MIN),
            days => i64::from(days).checked_mul(MICROS_PER_DAY).ok_or_else(out_of_range),
        })?
    } else {
        arrow::compute::cast(array, &unit)?.as_primitive::<TimestampMicrosecondType>().clone()
    };
    let zone = &style.zone;
    let moved: PrimitiveArray<TimestampMicrosecondType> = micros.try_unary(|micros| {
        let moved = if is_zoned { zone.to_local(micros) } else { zone.to_utc(micros) };
        moved.ok_or_else(out_of_range)
    })?;
    match to {
        DataType::Date32 => {
            let days: PrimitiveArray<Date32Type> = moved.try_unary(|micros| match micros {
                i64::MAX => Ok(i32::MAX),
                i64::MIN => Ok(i32::MIN),
                micros => i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| out_of_range()),
            })?;
            Ok(Arc::new(days))
        }
        DataType::Time64(_) => {
            let clocks = moved.iter().map(|micros| {
                micros
                    .filter(|micros| !matches!(*micros, i64::MAX | i64::MIN))
                    .map(|micros| micros.rem_euclid(MICROS_PER_DAY))
            });
            let clocks: ArrayRef = Arc::new(clocks.collect::<PrimitiveArray<Time64MicrosecondType>>());
            debug_assert_eq!(*clocks.data_type(), TIME);
            Ok(clocks)
        }
        to => {
            let zone = if let DataType::Timestamp(_, zone) = to { zone.clone() } else { None };
            let stamps: ArrayRef = Arc::new(moved.with_timezone_opt(zone));
            // DataFusion's own casts may ask for another unit.
            if matches!(to, DataType::Timestamp(TimeUnit::Microsecond, _)) {
                Ok(stamps)
            } else {
                Ok(arrow::compute::cast(&stamps, to)?)
            }
        }
    }
}
