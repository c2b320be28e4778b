//! Fields of dates, times and intervals: `extract(field FROM value)` and `date_part`.

use super::{HOUR_MICROS, Span, micros_of, moment};
use crate::{
    datetime::{Input, style::Style},
    error::{SqlError, SqlState},
    functions::scalar_function::{Call, RowFunction, external, nullable, returns_float, strict},
};
use arrow::datatypes::{DataType, FieldRef};
use chrono::Datelike;
use datafusion::{error::Result, scalar::ScalarValue};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;

/// A field of a date, a time or an interval, in microseconds where it has a fraction: the number and its digits after
/// the point.
fn field(call: &Call) -> Result<(i128, u32)> {
    let name = crate::functions::values::text_of(&call.values[0]).unwrap_or_default().to_lowercase();
    let value = &call.values[1];
    let found = match value {
        ScalarValue::IntervalMonthDayNano(_) => Span::of(value).and_then(|span| span_field(&name, span)),
        ScalarValue::Time64Microsecond(Some(micros)) => {
            clock_field(&name, *micros).or_else(|| (name == "epoch").then_some((i128::from(*micros), 6)))
        }
        ScalarValue::Date32(Some(_)) if clock_field(&name, 0).is_some() || name.starts_with("timezone") => None,
        ScalarValue::Date32(_) | ScalarValue::TimestampMicrosecond(..) => {
            let zoned = matches!(value, ScalarValue::TimestampMicrosecond(_, Some(_)));
            let places = if matches!(value, ScalarValue::Date32(_)) { 0 } else { 6 };
            let zone = &Style::within(call.options).zone;
            match value {
                ScalarValue::TimestampMicrosecond(Some(utc), Some(_)) if name == "epoch" => {
                    Some((i128::from(*utc), places))
                }
                ScalarValue::TimestampMicrosecond(Some(utc), Some(_)) if name.starts_with("timezone") => {
                    let offset = zone.offset_at(utc.div_euclid(1_000_000));
                    offset_field(&name, offset).map(|part| (i128::from(part), 0))
                }
                _ => micros_of(value, Input::within(call.options))
                    .and_then(|micros| moment_field(&name, micros, zoned, places)),
            }
        }
        other => {
            return Err(external(crate::functions::values::undefined(
                "date_part",
                &[DataType::Utf8View, other.data_type()],
            )));
        }
    };
    found.ok_or_else(|| {
        let kind = crate::functions::values::shown_type(&value.data_type());
        let known = moment_field(&name, 0, true, 0).is_some();
        let message = if known {
            format!("unit \"{name}\" not supported for type {kind}")
        } else {
            format!("unit \"{name}\" not recognized for type {kind}")
        };
        let state = if known { SqlState::FEATURE_NOT_SUPPORTED } else { SqlState::INVALID_PARAMETER_VALUE };
        external(SqlError::new(state, message))
    })
}

/// A part of an offset east of Greenwich, in seconds.
fn offset_field(name: &str, offset: i64) -> Option<i64> {
    match name {
        "timezone" => Some(offset),
        "timezone_hour" | "timezone_h" => Some(offset / 3_600),
        "timezone_minute" | "timezone_m" => Some(offset / 60 % 60),
        _ => None,
    }
}

fn clock_field(name: &str, micros: i64) -> Option<(i128, u32)> {
    let within = i128::from(micros % 60_000_000);
    Some(match name {
        "hour" | "hours" | "h" => (i128::from(micros / HOUR_MICROS), 0),
        "minute" | "minutes" | "min" | "m" => (i128::from(micros / 60_000_000 % 60), 0),
        "second" | "seconds" | "sec" | "s" => (within, 6),
        "millisecond" | "milliseconds" | "ms" => (within, 3),
        "microsecond" | "microseconds" | "us" => (within, 0),
        _ => return None,
    })
}

fn moment_field(name: &str, micros: i64, zoned: bool, places: u32) -> Option<(i128, u32)> {
    let time = moment(micros)?;
    let whole = |number: i64| Some((i128::from(number), 0));
    let year = i64::from(time.year());
    // There is no year 0.
    let counted = |year: i64| if year > 0 { year } else { year - 1 };
    let ages = |years: i64| if year > 0 { (year + years - 1) / years } else { -((years - year) / years) };
    match name {
        "year" | "years" | "y" => whole(counted(year)),
        "isoyear" => whole(counted(time.iso_week().year().into())),
        "month" | "months" | "mon" => whole(time.month().into()),
        "day" | "days" | "d" => whole(time.day().into()),
        "dow" => whole(time.weekday().num_days_from_sunday().into()),
        "isodow" => whole(time.weekday().number_from_monday().into()),
        "doy" => whole(time.ordinal().into()),
        "week" | "weeks" => whole(time.iso_week().week().into()),
        "quarter" | "qtr" => whole((time.month0() / 3 + 1).into()),
        "decade" | "decades" => whole(year.div_euclid(10)),
        "century" | "centuries" => whole(ages(100)),
        "millennium" | "millennia" => whole(ages(1_000)),
        "julian" if micros.rem_euclid(MICROS_PER_DAY) == 0 => whole(micros.div_euclid(MICROS_PER_DAY) + 2_440_588),
        "epoch" if places == 0 => whole(micros.div_euclid(1_000_000)),
        "epoch" => Some((i128::from(micros), places)),
        "timezone" | "timezone_hour" | "timezone_minute" if zoned => whole(0),
        name => clock_field(name, micros.rem_euclid(MICROS_PER_DAY)),
    }
}

fn span_field(name: &str, Span(months, days, micros): Span) -> Option<(i128, u32)> {
    let whole = |number: i64| Some((i128::from(number), 0));
    match name {
        "year" | "years" | "y" => whole(months / 12),
        "month" | "months" | "mon" => whole(months % 12),
        "day" | "days" | "d" => whole(days),
        "quarter" => whole(months % 12 / 3 + 1),
        "decade" => whole(months / 120),
        "century" => whole(months / 1_200),
        "millennium" => whole(months / 12_000),
        "epoch" => {
            // A year has 365.25 days, a month of what is left 30.
            let seconds =
                i128::from(months / 12) * 31_557_600 + i128::from(months % 12) * 2_592_000 + i128::from(days) * 86_400;
            Some((seconds * 1_000_000 + i128::from(micros), 6))
        }
        name => clock_field(name, micros),
    }
}

/// `extract` with a number of digits after the point. Of a date, an epoch has none.
fn extract<const SCALE: i8>(fields: &[FieldRef]) -> Result<FieldRef> {
    let whole = matches!(fields[1].data_type(), DataType::Date32);
    nullable(DataType::Decimal128(20 + SCALE.unsigned_abs(), if whole { 0 } else { SCALE }))
}

/// What a field of an infinite date or timestamp is; `None` of a finite one, and for a field that it does not have.
enum Endless {
    /// A field that comes again, as the month.
    Null,
    /// One that only grows, as the year.
    Infinite(f64),
}

fn endless(call: &Call) -> Option<Endless> {
    let positive = match &call.values[1] {
        ScalarValue::Date32(Some(i32::MAX)) | ScalarValue::TimestampMicrosecond(Some(i64::MAX), _) => true,
        ScalarValue::Date32(Some(i32::MIN)) | ScalarValue::TimestampMicrosecond(Some(i64::MIN), _) => false,
        _ => return None,
    };
    let name = crate::functions::values::text_of(&call.values[0]).unwrap_or_default().to_lowercase();
    let of_day = matches!(call.values[1], ScalarValue::Date32(_));
    match name.as_str() {
        "year" | "years" | "y" | "decade" | "decades" | "century" | "centuries" | "millennium" | "millennia"
        | "isoyear" | "julian" | "epoch" => {
            Some(Endless::Infinite(if positive { f64::INFINITY } else { f64::NEG_INFINITY }))
        }
        name if of_day && (clock_field(name, 0).is_some() || name.starts_with("timezone")) => None,
        name => moment_field(name, 0, true, 0).map(|_| Endless::Null),
    }
}

fn extracted(call: &Call) -> Result<ScalarValue> {
    if let Some(Endless::Null) = endless(call) {
        return ScalarValue::try_from(call.returns.data_type());
    }
    let (number, places) = field(call)?;
    let DataType::Decimal128(precision, scale) = call.returns.data_type() else {
        return ScalarValue::try_from(call.returns.data_type());
    };
    let moved = number * 10_i128.pow(u32::from(scale.unsigned_abs()).saturating_sub(places));
    Ok(ScalarValue::Decimal128(Some(moved), *precision, *scale))
}

/// `extract` and `date_part`.
pub(super) fn functions() -> [RowFunction; 4] {
    [
        strict("pg_extract_0", 2..=2, extract::<0>, extracted),
        strict("pg_extract_3", 2..=2, extract::<3>, extracted),
        strict("pg_extract_6", 2..=2, extract::<6>, extracted),
        strict("date_part", 2..=2, returns_float, |call| {
            match endless(call) {
                Some(Endless::Null) => return Ok(ScalarValue::Float64(None)),
                Some(Endless::Infinite(value)) => return Ok(ScalarValue::Float64(Some(value))),
                None => {}
            }
            let (number, places) = field(call)?;
            Ok(ScalarValue::Float64(Some(number as f64 / 10_f64.powi(i32::try_from(places).unwrap_or(0)))))
        }),
    ]
}
