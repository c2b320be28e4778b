//! `date_trunc` of timestamps: computed with the numbers that they are, in place of DataFusion's.
//!
//! DataFusion's, in 55.2, goes by way of a calendar's date with a time zone for each `timestamptz`, and writes the text of an error that does not happen: most
//! of the time of a query that groups by the hour. It knows neither infinities nor years after 2262, nor decades, centuries and millennia. What is no
//! timestamp in microseconds is left to it.

use crate::{
    error::{SqlError, SqlState},
    query::functions::typed::told,
    types,
};
use arrow::{
    array::{AsArray, PrimitiveArray},
    datatypes::{DataType, FieldRef, TimeUnit, TimestampMicrosecondType},
};
use chrono::{DateTime, Datelike, NaiveDate};
use datafusion::{
    error::Result,
    functions::datetime::date_trunc::DateTruncFunc,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

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
    /// So many microseconds, counted from so many before 1970.
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
        if matches!(micros, i64::MAX | i64::MIN) {
            return Some(micros);
        }
        match self {
            Self::Micros(unit, before) => micros.checked_sub(micros.checked_add(before)?.rem_euclid(unit)),
            Self::Months(unit) => {
                let date = date(micros)?;
                let months = date.year().checked_mul(12)?.checked_add(i32::try_from(date.month0()).ok()?)?;
                first_day(months.checked_sub(months.rem_euclid(unit))?)
            }
            Self::Years(unit) => {
                let year = date(micros)?.year() - 1;
                first_day((year.checked_sub(year.rem_euclid(unit))? + 1).checked_mul(12)?)
            }
        }
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
struct DateTrunc(DateTruncFunc);

/// The function.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    std::iter::once(Arc::new(ScalarUDF::from(DateTrunc(DateTruncFunc::new()))))
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, kinds: &[DataType]) -> Result<DataType> {
        self.0.return_type(kinds)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), time] = args.args.as_slice() else { return self.0.invoke_with_args(args) };
        let kind = time.data_type();
        let DataType::Timestamp(TimeUnit::Microsecond, zone) = &kind else { return self.0.invoke_with_args(args) };
        let Some(Some(name)) = name.try_as_str() else { return self.0.invoke_with_args(args) };
        if zone.as_ref().is_some_and(|zone| &**zone != types::UTC) {
            return self.0.invoke_with_args(args);
        }
        let unit = Unit::of(&name.to_lowercase()).ok_or_else(|| told(unknown(name, zone.is_some())))?;
        let truncated = |micros| unit.truncated(micros).ok_or_else(|| told(out_of_range()));
        Ok(match time {
            ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, zone)) => {
                let micros = micros.map(truncated).transpose()?;
                ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, zone.clone()))
            }
            ColumnarValue::Array(times) => {
                let times = times.as_primitive::<TimestampMicrosecondType>();
                let truncated: PrimitiveArray<TimestampMicrosecondType> = times.try_unary(truncated)?;
                ColumnarValue::Array(Arc::new(truncated.with_timezone_opt(zone.clone())))
            }
            ColumnarValue::Scalar(_) => return self.0.invoke_with_args(args),
        })
    }
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
        /// Within the years that DataFusion knows.
        #[test]
        fn it_is_what_datafusion_says(times in proptest::collection::vec(proptest::option::of(-9_000_000_000_000_000i64..9_000_000_000_000_000), 1..20)) {
            for unit in ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"] {
                let own = called(&DateTrunc(DateTruncFunc::new()), unit, times.clone());
                prop_assert_eq!(own, called(&DateTruncFunc::new(), unit, times.clone()), "{}", unit);
            }
        }
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
