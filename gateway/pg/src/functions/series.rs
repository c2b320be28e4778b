//! `generate_series` as a list, of whole numbers, of numerics and of timestamps.

use super::scalar_function::{Call, external, nullable};
use crate::{
    datetime::{Input, arithmetic},
    error::{SqlError, SqlState},
    numeric::{self, column::number_of_scalar, number::Number},
    types::{TIMESTAMP, list_of, timestamptz},
};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{error::Result, scalar::ScalarValue};
use keyspan_catalog::value::{calendar::MICROS_PER_DAY, interval::Interval};

/// The most items of a series that is held as a list.
const SERIES_ITEMS_MAX: usize = 1_000_000;

/// The type of a series: what both ends have in common.
pub(super) fn series_type(fields: &[FieldRef]) -> Result<FieldRef> {
    let ends = [fields[0].data_type(), fields[1].data_type()];
    let has = |wanted: fn(&DataType) -> bool| ends.iter().any(|data| wanted(data));
    nullable(list_of(match () {
        () if has(|data| matches!(data, DataType::Timestamp(_, Some(_)) | DataType::Date32)) => timestamptz(),
        () if has(|data| matches!(data, DataType::Timestamp(..))) => TIMESTAMP,
        () if fields.iter().any(|field| numeric::is_numeric(field.data_type())) => numeric::EXACT,
        () if has(|data| matches!(data, DataType::Int64 | DataType::UInt64)) => DataType::Int64,
        () if has(DataType::is_integer) => DataType::Int32,
        () => {
            let names: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
            return Err(external(super::values::undefined("generate_series", &names)));
        }
    }))
}

fn too_long() -> datafusion::error::DataFusionError {
    let message = format!("a series of more than {SERIES_ITEMS_MAX} items is not supported here");
    external(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

fn out_of_range() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

fn no_step() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"))
}

/// The items of a series.
pub(super) fn series(call: &Call) -> Result<ScalarValue> {
    let DataType::List(item) = call.returns.data_type() else { return Ok(ScalarValue::Null) };
    let item = item.data_type();
    let values = if item.is_integer() {
        let end = |at: usize| super::values::int_of(&call.values[at]).unwrap_or(0);
        let (start, stop, step) =
            (end(0), end(1), call.values.get(2).map_or(Some(1), super::values::int_of).unwrap_or(1));
        whole(start, stop, step)?.into_iter().map(|int| ScalarValue::Int64(Some(int)).cast_to(item)).collect()
    } else if numeric::is_exact(item) {
        numbers(call)
    } else {
        timestamps(call, item)
    };
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values?, item)))
}

fn whole(start: i64, stop: i64, step: i64) -> Result<Vec<i64>> {
    if step == 0 {
        return Err(no_step());
    }
    let mut all = Vec::new();
    let mut next = Some(start);
    while let Some(int) = next.filter(|int| if step > 0 { *int <= stop } else { *int >= stop }) {
        if all.len() == SERIES_ITEMS_MAX {
            return Err(too_long());
        }
        all.push(int);
        next = int.checked_add(step);
    }
    Ok(all)
}

fn numbers(call: &Call) -> Result<Vec<ScalarValue>> {
    let number = |at: usize| call.values.get(at).map_or(Ok(None), number_of_scalar);
    let (Some(start), Some(stop)) = (number(0)?, number(1)?) else { return Ok(Vec::new()) };
    let step = number(2)?.unwrap_or_else(|| Number::integer(1));
    for (value, name) in [(&start, "start"), (&stop, "stop"), (&step, "step size")] {
        let wrong = match value {
            Number::NaN => "NaN",
            Number::Infinity { .. } => "infinity",
            Number::Finite(_) => continue,
        };
        let message = format!("{name} value cannot be {wrong}").replace("size value", "size");
        return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
    }
    let direction = match step.signum() {
        0 => return Err(no_step()),
        sign => sign,
    };
    let mut all = Vec::new();
    let mut next = start;
    while next.compare(&stop) as i32 * direction <= 0 {
        if all.len() == SERIES_ITEMS_MAX {
            return Err(too_long());
        }
        all.push(numeric::column::scalar(&next).map_err(external)?);
        next = next.plus(&step);
    }
    Ok(all)
}

fn timestamps(call: &Call, item: &DataType) -> Result<Vec<ScalarValue>> {
    let zoned = matches!(item, DataType::Timestamp(_, Some(_)));
    let input = Input::within(call.options);
    let end = |at: usize| -> Result<i64> {
        let value =
            match super::values::text_of(&call.values[at]).filter(|_| !call.fields[at].data_type().is_temporal()) {
                Some(text) => return crate::codec::parse::timestamp(&text, zoned, input).map_err(external),
                // The midnight at which a day begins in the session's zone.
                None if zoned && !matches!(call.fields[at].data_type(), DataType::Timestamp(_, Some(_))) => {
                    let ScalarValue::TimestampMicrosecond(Some(local), _) = call.values[at].cast_to(&TIMESTAMP)? else {
                        return Ok(0);
                    };
                    return input.style.zone.to_utc(local).ok_or_else(out_of_range);
                }
                None => call.values[at].cast_to(&TIMESTAMP)?,
            };
        let ScalarValue::TimestampMicrosecond(Some(micros), _) = value else { return Ok(0) };
        Ok(micros)
    };
    let step = match call.values.get(2) {
        Some(ScalarValue::IntervalMonthDayNano(Some(span))) => *span,
        Some(value) => {
            let text = super::values::text_of(value).unwrap_or_default();
            crate::codec::parse::interval(&text, input).map_err(external)?
        }
        None => return Err(external(super::values::undefined("generate_series", &[item.clone(), item.clone()]))),
    };
    let (start, stop) = (end(0)?, end(1)?);
    let micros = step.nanoseconds / 1_000 + i64::from(step.days) * MICROS_PER_DAY;
    let forward = i64::from(step.months) * 30 * MICROS_PER_DAY + micros;
    if forward == 0 {
        return Err(no_step());
    }
    let span = Interval { months: step.months, days: step.days, micros: step.nanoseconds / 1_000 };
    let mut all = Vec::new();
    let mut next = Some(start);
    while let Some(at) = next.filter(|at| if forward > 0 { *at <= stop } else { *at >= stop }) {
        if all.len() == SERIES_ITEMS_MAX {
            return Err(too_long());
        }
        all.push(ScalarValue::TimestampMicrosecond(Some(at), zoned.then(|| crate::types::UTC.into())));
        next = if zoned { arithmetic::plus(at, span, &input.style.zone) } else { arithmetic::plus_local(at, span) };
    }
    Ok(all)
}
