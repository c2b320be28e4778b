//! `date_trunc` of timestamps, by integer arithmetic; of dates and intervals, which DataFusion lacks.
//!
//! DataFusion's, in 55.2, goes by way of a calendar's date with a time zone for each `timestamptz`, and writes the text
//! of an error that does not happen: most of the time of a query that groups by the hour. It knows neither infinities
//! nor years after 2262, nor decades, centuries and millennia. What is no timestamp in microseconds is left to it.

use crate::{
    datetime::{Style, Zone},
    error::{SqlError, SqlState},
    functions::scalar_function::{Call, external, nullable, strict},
    types,
};
use arrow::{
    array::{ArrayRef, AsArray, PrimitiveArray},
    datatypes::{
        DataType, Date32Type, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
        TimestampMicrosecondType,
    },
};
use chrono::{DateTime, Datelike, NaiveDate};
use datafusion::{
    error::Result,
    functions::datetime::date_trunc::DateTruncFunc,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        sort_properties::{ExprProperties, SortProperties},
    },
    scalar::ScalarValue,
};
use std::{cell::Cell, ops::Range, sync::Arc};

const MILLISECOND: i64 = 1_000;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// From the day of number 0, a Thursday, back to its Monday.
const DAYS_TO_MONDAY: i64 = 3;

/// What is left of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A length in microseconds, and an origin in microseconds before 1970.
    Micros(i64, i64),
    /// So many months, counted from the year 0.
    Months(i32),
    /// So many years, counted from the year 1.
    Years(i32),
}

impl Unit {
    /// PostgreSQL's names of units. Source: `deltatktbl` in its `datetime.c`.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Self::Micros(1, 0),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Self::Micros(MILLISECOND, 0),
            "second" | "seconds" | "sec" | "secs" | "s" => Self::Micros(SECOND, 0),
            "minute" | "minutes" | "min" | "mins" | "m" => Self::Micros(MINUTE, 0),
            "hour" | "hours" | "hr" | "hrs" | "h" => Self::Micros(HOUR, 0),
            "day" | "days" | "d" => Self::Micros(DAY, 0),
            "week" | "weeks" | "w" => Self::Micros(7 * DAY, DAYS_TO_MONDAY * DAY),
            "month" | "months" | "mon" | "mons" => Self::Months(1),
            "quarter" | "qtr" => Self::Months(3),
            "year" | "years" | "yr" | "yrs" | "y" => Self::Months(12),
            "decade" | "decades" | "dec" | "decs" => Self::Months(120),
            "century" | "centuries" | "cent" | "c" => Self::Years(100),
            "millennium" | "millennia" | "mil" | "mils" => Self::Years(1_000),
            _ => return None,
        })
    }

    /// The time without what is smaller; `None` out of range. Infinities stay.
    fn truncated(self, micros: i64) -> Option<i64> {
        Some(self.period(micros)?.start)
    }

    /// The times from which the same is left as from this one, which an infinity alone is not among. `None` out of
    /// range.
    fn period(self, micros: i64) -> Option<Range<i64>> {
        if matches!(micros, i64::MAX | i64::MIN) {
            return Some(micros..micros);
        }
        let of_months = |first: i32, unit: i32| {
            let start = first_day(first)?;
            // One that ends beyond all dates is known by its start alone.
            let next = first.checked_add(unit).and_then(first_day);
            Some(start..next.unwrap_or(start))
        };
        match self {
            Self::Micros(unit, before) => {
                let start = micros.checked_sub(micros.checked_add(before)?.rem_euclid(unit))?;
                Some(start..start.saturating_add(unit))
            }
            Self::Months(unit) => {
                let date = date(micros)?;
                let months = date.year().checked_mul(12)?.checked_add(i32::try_from(date.month0()).ok()?)?;
                of_months(months.checked_sub(months.rem_euclid(unit))?, unit)
            }
            Self::Years(unit) => {
                let year = date(micros)?.year() - 1;
                of_months((year.checked_sub(year.rem_euclid(unit))? + 1).checked_mul(12)?, unit * 12)
            }
        }
    }
}

/// A `timestamptz` without what is smaller in local time of a zone. What is a day or more begins at a midnight there; less
/// keeps the offset that the time has. `None` out of range.
fn truncated_in(unit: Unit, utc: i64, zone: &Zone) -> Option<i64> {
    let local = zone.to_local(utc)?;
    let start = unit.truncated(local)?;
    match unit {
        Unit::Micros(..DAY, _) => start.checked_sub(local.checked_sub(utc)?),
        _ => zone.to_utc(start),
    }
}

/// `date_trunc(unit, time, zone)`
fn in_zone(call: &Call) -> Result<ScalarValue> {
    let name = super::values::text_of(&call.values[0]).unwrap_or_default();
    let ScalarValue::TimestampMicrosecond(Some(micros), zone) = &call.values[1] else {
        return ScalarValue::try_from(call.returns.data_type());
    };
    let unit = Unit::of(&name.to_lowercase()).ok_or_else(|| external(unknown(&name, true)))?;
    let found = truncated_in(unit, *micros, &super::zone_of(&call.values[2])?);
    Ok(ScalarValue::TimestampMicrosecond(Some(found.ok_or_else(|| external(out_of_range()))?), zone.clone()))
}

/// An interval without what is smaller than the unit; each of its parts is cut toward zero, as in PostgreSQL's
/// `interval_trunc`. `None` for weeks: months have no whole number of them.
fn truncated_span(unit: Unit, span: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    let whole_months = |unit: i32| IntervalMonthDayNano::new(months - months % unit, 0, 0);
    Some(match unit {
        Unit::Micros(DAY, _) => IntervalMonthDayNano::new(months, days, 0),
        Unit::Micros(_, before) if before != 0 => return None,
        Unit::Micros(unit, _) => {
            let nanos = unit * 1_000;
            IntervalMonthDayNano::new(months, days, nanoseconds - nanoseconds % nanos)
        }
        Unit::Months(unit) => whole_months(unit),
        Unit::Years(unit) => whole_months(unit * 12),
    })
}

/// The midnight at which a day begins, infinities as such; `None` out of range.
fn midnight(days: i32) -> Option<i64> {
    match days {
        i32::MAX => Some(i64::MAX),
        i32::MIN => Some(i64::MIN),
        days => i64::from(days).checked_mul(DAY),
    }
}

fn date(micros: i64) -> Option<NaiveDate> {
    Some(DateTime::from_timestamp_micros(micros)?.date_naive())
}

/// When a month begins that is counted from the year 0.
fn first_day(months: i32) -> Option<i64> {
    let month = u32::try_from(months.rem_euclid(12)).ok()? + 1;
    let day = NaiveDate::from_ymd_opt(months.div_euclid(12), month, 1)?;
    Some(day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_micros())
}

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    of_times: DateTruncFunc,
    signature: Signature,
}

impl DateTrunc {
    fn new() -> Self {
        let of_times = DateTruncFunc::new();
        let own = [DataType::Date32, types::INTERVAL].into_iter().flat_map(|data| {
            [DataType::Utf8, DataType::Utf8View].map(|text| TypeSignature::Exact(vec![text, data.clone()]))
        });
        let theirs = of_times.signature();
        let all = std::iter::once(theirs.type_signature.clone()).chain(own).collect();
        let signature = Signature::new(TypeSignature::OneOf(all), theirs.volatility);
        Self { of_times, signature }
    }
}

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let in_zone = strict("date_trunc_in", 3..=3, |_| nullable(types::timestamptz()), in_zone);
    [Arc::new(ScalarUDF::from(DateTrunc::new())), Arc::new(ScalarUDF::from(in_zone))].into_iter()
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.of_times.name()
    }

    fn aliases(&self) -> &[String] {
        self.of_times.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        match kinds {
            [_, DataType::Interval(_)] => Ok(types::INTERVAL),
            // As in PostgreSQL, which takes a date for a timestamptz sooner than for a timestamp.
            [_, DataType::Date32] => Ok(types::timestamptz()),
            kinds => self.of_times.return_type(kinds),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = args.arg_fields.get(1).map(|field| field.data_type().clone());
        match of {
            Some(data @ (DataType::Interval(_) | DataType::Date32)) => {
                let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
                let data = self.return_type(&[DataType::Utf8View, data])?;
                Ok(Arc::new(Field::new(self.name(), data, nullable)))
            }
            _ => {
                let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
                let field = self.of_times.return_field_from_args(args)?;
                Ok(Arc::new(Arc::unwrap_or_clone(field).with_nullable(nullable)))
            }
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match inputs.get(1).map(|time| time.range.data_type()) {
            Some(DataType::Interval(_)) => Ok(SortProperties::Unordered),
            _ => self.of_times.output_ordering(inputs),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [name, time] = args.args.as_slice() else { return self.of_times.invoke_with_args(args) };
        let kind = time.data_type();
        if matches!(kind, DataType::Interval(_) | DataType::Date32) {
            return truncated_rows(name, time, rows, &Style::within(&args.config_options).zone);
        }
        let DataType::Timestamp(TimeUnit::Microsecond, zone) = &kind else {
            return self.of_times.invoke_with_args(args);
        };
        if zone.as_ref().is_some_and(|zone| &**zone != types::UTC) {
            return self.of_times.invoke_with_args(args);
        }
        let own_zone = &Style::within(&args.config_options).zone;
        let unit = match name {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten(),
            ColumnarValue::Array(_) => None,
        };
        let Some(unit) = unit else { return truncated_rows(name, time, rows, own_zone) };
        let unit = Unit::of(&unit.to_lowercase()).ok_or_else(|| external(unknown(unit, zone.is_some())))?;
        if zone.is_some() && !own_zone.is_utc() {
            let truncated = |micros| truncated_in(unit, micros, own_zone).ok_or_else(|| external(out_of_range()));
            return match time {
                ColumnarValue::Scalar(time) => {
                    let array = time.to_array()?;
                    let micros = array.as_primitive::<TimestampMicrosecondType>().iter().next().flatten();
                    let micros = micros.map(truncated).transpose()?;
                    Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, zone.clone())))
                }
                ColumnarValue::Array(times) => {
                    let times = times.as_primitive::<TimestampMicrosecondType>();
                    let times: PrimitiveArray<TimestampMicrosecondType> = times.try_unary(truncated)?;
                    Ok(ColumnarValue::Array(Arc::new(times.with_timezone_opt(zone.clone()))))
                }
            };
        }
        Ok(match time {
            ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, zone)) => {
                let truncated = |micros| unit.truncated(micros).ok_or_else(|| external(out_of_range()));
                let micros = micros.map(truncated).transpose()?;
                ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, zone.clone()))
            }
            ColumnarValue::Array(times) => {
                let times = times.as_primitive::<TimestampMicrosecondType>();
                // Times of neighbours are most often in one period: to see that is faster than to divide.
                let last = Cell::new((0, 0));
                let truncated = |micros| -> Result<i64> {
                    let (start, end) = last.get();
                    if start <= micros && micros < end {
                        return Ok(start);
                    }
                    let Range { start, end } = unit.period(micros).ok_or_else(|| external(out_of_range()))?;
                    last.set((start, end));
                    Ok(start)
                };
                let truncated: PrimitiveArray<TimestampMicrosecondType> = times.try_unary(truncated)?;
                ColumnarValue::Array(Arc::new(truncated.with_timezone_opt(zone.clone())))
            }
            ColumnarValue::Scalar(_) => return self.of_times.invoke_with_args(args),
        })
    }
}

/// Dates and intervals, and times whose units differ from row to row.
fn truncated_rows(names: &ColumnarValue, times: &ColumnarValue, rows: usize, zone: &Zone) -> Result<ColumnarValue> {
    let scalar = matches!((names, times), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if scalar { 1 } else { rows };
    let names = arrow::compute::cast(&names.to_array(rows)?, &DataType::Utf8View)?;
    let names = names.as_string_view().iter();
    let times = times.to_array(rows)?;
    let done: ArrayRef = if *times.data_type() == DataType::Date32 {
        let each = names.zip(times.as_primitive::<Date32Type>()).map(|(name, days)| {
            let (Some(name), Some(days)) = (name, days) else { return Ok(None) };
            let unit = Unit::of(&name.to_lowercase()).ok_or_else(|| external(unknown(name, true)))?;
            let start = midnight(days).and_then(|local| unit.truncated(local)).and_then(|local| zone.to_utc(local));
            start.map(Some).ok_or_else(|| external(out_of_range()))
        });
        let micros = each.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?;
        Arc::new(micros.with_timezone(types::UTC))
    } else if let DataType::Timestamp(_, in_zone) = times.data_type() {
        let each = names.zip(times.as_primitive::<TimestampMicrosecondType>()).map(|(name, micros)| {
            let (Some(name), Some(micros)) = (name, micros) else { return Ok(None) };
            let unit = Unit::of(&name.to_lowercase()).ok_or_else(|| external(unknown(name, in_zone.is_some())))?;
            let start = if in_zone.is_some() { truncated_in(unit, micros, zone) } else { unit.truncated(micros) };
            start.map(Some).ok_or_else(|| external(out_of_range()))
        });
        let micros = each.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?;
        Arc::new(micros.with_timezone_opt(in_zone.clone()))
    } else {
        let each = names.zip(times.as_primitive::<IntervalMonthDayNanoType>()).map(|(name, span)| {
            let (Some(name), Some(span)) = (name, span) else { return Ok(None) };
            let unit = Unit::of(&name.to_lowercase()).ok_or_else(|| external(unknown_of_span(name)))?;
            truncated_span(unit, span).map(Some).ok_or_else(|| external(weeks(name)))
        });
        Arc::new(each.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?)
    };
    Ok(if scalar { ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?) } else { ColumnarValue::Array(done) })
}

fn unknown_of_span(unit: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unit \"{unit}\" not recognized for type interval"))
}

fn weeks(unit: &str) -> SqlError {
    let message = format!("unit \"{unit}\" not supported for type interval");
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail("Months usually have fractional weeks.")
}

fn unknown(unit: &str, with_zone: bool) -> SqlError {
    let zone = if with_zone { "with" } else { "without" };
    let message = format!("unit \"{unit}\" not recognized for type timestamp {zone} time zone");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{array::TimestampMicrosecondArray, datatypes::Field};
    use datafusion::config::ConfigOptions;
    use proptest::prelude::*;

    fn called(function: &dyn ScalarUDFImpl, unit: &str, times: Vec<Option<i64>>) -> Vec<Option<i64>> {
        let times = TimestampMicrosecondArray::from(times).with_timezone(types::UTC);
        let field = Arc::new(Field::new("", types::timestamptz(), true));
        let args = ScalarFunctionArgs {
            number_rows: times.len(),
            args: vec![
                ColumnarValue::Scalar(ScalarValue::Utf8(Some(unit.to_owned()))),
                ColumnarValue::Array(Arc::new(times)),
            ],
            arg_fields: vec![Arc::new(Field::new("", DataType::Utf8, false)), field.clone()],
            return_field: field,
            config_options: Arc::new(ConfigOptions::default()),
        };
        let ColumnarValue::Array(found) = function.invoke_with_args(args).unwrap() else { panic!("not an array") };
        assert_eq!(*found.data_type(), types::timestamptz());
        found.as_primitive::<TimestampMicrosecondType>().iter().collect()
    }

    proptest! {
        /// Whatever period the time before was in.
        #[test]
        fn times_do_not_change_what_their_neighbours_become(
            times in proptest::collection::vec(prop_oneof![
                -9_000_000_000_000_000i64..9_000_000_000_000_000,
                -2 * DAY..2 * DAY,
                -3_000_000..3_000_000i64,
                // Days of the first and the last years.
                8_210_200_000_000_000_000..8_210_266_876_800_000_000i64,
                -8_334_601_228_800_000_000..-8_334_500_000_000_000_000i64,
                Just(i64::MAX),
                Just(i64::MIN),
            ], 1..40),
        ) {
            for unit in ["microsecond", "second", "minute", "day", "week", "month", "quarter", "year", "decade", "century", "millennium"] {
                let of = Unit::of(unit).unwrap();
                let alone: Option<Vec<_>> = times.iter().map(|time| of.truncated(*time).map(Some)).collect();
                if let Some(alone) = alone {
                    let times = times.iter().copied().map(Some).collect();
                    prop_assert_eq!(called(&DateTrunc::new(), unit, times), alone, "{}", unit);
                }
            }
        }

        /// Within the years that DataFusion knows.
        #[test]
        fn it_is_what_datafusion_says(times in proptest::collection::vec(proptest::option::of(-9_000_000_000_000_000i64..9_000_000_000_000_000), 1..20)) {
            for unit in ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"] {
                let own = called(&DateTrunc::new(), unit, times.clone());
                prop_assert_eq!(own, called(&DateTruncFunc::new(), unit, times.clone()), "{}", unit);
            }
        }
    }

    #[test]
    fn the_first_microsecond_of_a_period_is_not_of_the_one_before() {
        let march = 59 * DAY;
        for (unit, second) in [("second", SECOND), ("hour", HOUR), ("day", DAY), ("week", 4 * DAY), ("month", 31 * DAY)]
        {
            let times = vec![Some(second - 1), Some(second), Some(second - 1)];
            let found = called(&DateTrunc::new(), unit, times);
            assert_eq!(found[1], Some(second), "{unit}");
            assert_eq!((found[0], found[2]), (Unit::of(unit).unwrap().truncated(second - 1), found[0]), "{unit}");
        }
        let times = vec![Some(march - 1), Some(march), None, Some(march)];
        assert_eq!(called(&DateTrunc::new(), "mon", times), [Some(31 * DAY), Some(march), None, Some(march)]);
    }

    /// As PostgreSQL 15 has them; the year 0 is 1 BC.
    #[test]
    fn years_beyond_those_that_datafusion_knows() {
        let day = |year, month, day| {
            NaiveDate::from_ymd_opt(year, month, day)
                .unwrap()
                .and_hms_opt(0, 0, 0)
                .unwrap()
                .and_utc()
                .timestamp_micros()
        };
        for (unit, time, expected) in [
            ("hours", i64::MAX, i64::MAX),
            ("millennium", i64::MIN, i64::MIN),
            ("mon", day(9_999, 12, 31) + DAY - 1, day(9_999, 12, 1)),
            ("week", day(1969, 12, 31) + HOUR, day(1969, 12, 29)),
            ("qtr", day(-43, 3, 15), day(-43, 1, 1)),
            ("decade", day(2019, 12, 31), day(2010, 1, 1)),
            ("decade", day(4, 12, 25), day(0, 1, 1)),
            ("decade", day(-1, 12, 31), day(-10, 1, 1)),
            ("century", day(2000, 12, 31), day(1901, 1, 1)),
            ("century", day(-54, 8, 10), day(-99, 1, 1)),
            ("millennium", day(2001, 1, 1), day(2001, 1, 1)),
            ("millennium", day(1999, 5, 5), day(1001, 1, 1)),
        ] {
            assert_eq!(Unit::of(unit).unwrap().truncated(time), Some(expected), "{unit} of {time}");
        }
        assert_eq!(Unit::Micros(HOUR, 0).truncated(i64::MIN + 1), None);
        assert_eq!(Unit::of("fortnight"), None);
    }
}
