//! Functions of dates, times and intervals that DataFusion lacks or has otherwise.

use super::scalar_function::{self, Call, RowFunction, external, nullable, returns_text, strict};
use crate::{
    codec::parse,
    datetime::{Input, Style, Zone, arithmetic, moments, spans},
    error::{SqlError, SqlState},
    numeric,
    statement_time::StatementTime,
    types::{self, TIME, TIMESTAMP},
};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNano, IntervalUnit};
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, Timelike};
use datafusion::{
    error::Result,
    logical_expr::{ScalarUDF, Volatility},
    scalar::ScalarValue,
};
use keyspan_catalog::value::{calendar::MICROS_PER_DAY, interval::Interval};
use std::sync::Arc;

mod fields;

const HOUR_MICROS: i64 = 3_600_000_000;
/// Days of a month where an interval's months count as days.
const MONTH_DAYS: i64 = 30;

/// The Arrow type of intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Of a number of a transaction the age is a number of transactions.
fn an_age(arguments: &[FieldRef]) -> Result<FieldRef> {
    match arguments {
        [one] if *one.data_type() == DataType::UInt32 => nullable(DataType::Int32),
        _ => nullable(INTERVAL),
    }
}

fn an_interval(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(INTERVAL)
}

/// Months, days, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(i64, i64, i64);

impl Span {
    fn of(value: &ScalarValue) -> Option<Self> {
        match value.cast_to(&INTERVAL) {
            Ok(ScalarValue::IntervalMonthDayNano(Some(span))) => {
                Some(Self(span.months.into(), span.days.into(), span.nanoseconds / 1_000))
            }
            _ => None,
        }
    }

    fn value(self) -> Result<ScalarValue> {
        let (months, days) = (i32::try_from(self.0), i32::try_from(self.1));
        match (months, days, self.2.checked_mul(1_000)) {
            (Ok(months), Ok(days), Some(nanos)) => {
                Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos))))
            }
            _ => Err(external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))),
        }
    }

    /// The sum of intervals by their number: 1 for the sum itself.
    ///
    /// # Errors
    /// 22008.
    pub(crate) fn sum(months: i64, days: i64, micros: i128, count: i64) -> Result<ScalarValue> {
        let sum = i64::try_from(micros).map(|micros| Self(months, days, micros)).map_err(|_| out_of_range())?;
        if count == 1 {
            return sum.value();
        }
        sum.scaled(|part| part / count as f64).ok_or_else(out_of_range)?.value()
    }

    /// The interval at a share of the way from one to another.
    ///
    /// # Errors
    /// 22008.
    pub(crate) fn between(low: &ScalarValue, high: &ScalarValue, share: f64) -> Result<ScalarValue> {
        let Some((low, high)) = Self::of(low).zip(Self::of(high)) else { return ScalarValue::try_from(&INTERVAL) };
        let way = |low: i64, high: i64| high.checked_sub(low);
        let whole = way(low.0, high.0).zip(way(low.1, high.1)).zip(way(low.2, high.2));
        let part = whole.and_then(|((months, days), micros)| Self(months, days, micros).times(share));
        let Self(months, days, micros) = part.ok_or_else(out_of_range)?;
        let micros = low.2.checked_add(micros).ok_or_else(out_of_range)?;
        Self(low.0.saturating_add(months), low.1.saturating_add(days), micros).value()
    }

    /// A multiple of it.
    fn times(self, factor: f64) -> Option<Self> {
        self.scaled(|part| part * factor)
    }

    /// Each part multiplied or divided: what is no whole month becomes days of 30 to a month, what is no whole day
    /// time.
    fn scaled(self, by: impl Fn(f64) -> f64) -> Option<Self> {
        let whole = |value: f64| value.is_finite().then(|| value.trunc());
        let months = by(self.0 as f64);
        let days = by(self.1 as f64);
        let rounded = |value: f64| (value * 1e6).round() / 1e6;
        let month_days = rounded((months - whole(months)?) * MONTH_DAYS as f64);
        let whole_days = whole(days)? + whole(month_days)?;
        let seconds = rounded((days - whole(days)? + month_days - whole(month_days)?) * 86_400.0);
        let extra_days = if seconds.abs() >= 86_400.0 { (seconds / 86_400.0).trunc() } else { 0.0 };
        let micros = (by(self.2 as f64) + (seconds - extra_days * 86_400.0) * 1e6).round();
        #[expect(clippy::cast_possible_truncation, reason = "checked by what makes a value of it")]
        Some(Self(whole(months)? as i64, (whole_days + extra_days) as i64, micros as i64))
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range"))
}

fn float(value: &ScalarValue) -> Option<f64> {
    numeric::cast::float(value).ok().flatten()
}

/// Microseconds of a time: of a `timestamptz` in local time.
fn micros_of(value: &ScalarValue, input: Input<'_>) -> Option<i64> {
    match value {
        ScalarValue::TimestampMicrosecond(Some(micros), Some(_)) => input.style.zone.to_local(*micros),
        ScalarValue::TimestampMicrosecond(micros, _) => *micros,
        // The infinities, and days beyond the range of timestamps, are the ends of it.
        ScalarValue::Date32(Some(i32::MIN)) => Some(i64::MIN),
        ScalarValue::Date32(Some(i32::MAX)) => Some(i64::MAX),
        ScalarValue::Date32(Some(days)) => Some(i64::from(*days).saturating_mul(MICROS_PER_DAY)),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => parse::timestamp(text, false, input).ok(),
        _ => None,
    }
}

fn moment(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc())
}

/// The years, months, days and time between two timestamps, as a calendar counts them.
fn age(end: i64, start: i64) -> Option<Span> {
    let (negative, late, early) = if end >= start { (false, end, start) } else { (true, start, end) };
    let (late, early) = (moment(late)?, moment(early)?);
    let fields = |time: &NaiveDateTime| {
        let clock = i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond() / 1_000);
        (i64::from(time.year()) * 12 + i64::from(time.month0()), i64::from(time.day()), clock)
    };
    let (a, b) = (fields(&late), fields(&early));
    let (mut months, mut days, mut micros) = (a.0 - b.0, a.1 - b.1, a.2 - b.2);
    if micros < 0 {
        micros += MICROS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        // The length of the earlier timestamp's month is borrowed.
        let first = early.date().with_day(1)?;
        days += (first + Months::new(1)).signed_duration_since(first).num_days();
        months -= 1;
    }
    Some(if negative { Span(-months, -days, -micros) } else { Span(months, days, micros) })
}

fn spans() -> [RowFunction; 7] {
    [
        strict("interval_times", 2..=2, an_interval, |call| {
            let (span, factor) = (Span::of(&call.values[0]), float(&call.values[1]));
            span.zip(factor).and_then(|(span, factor)| span.times(factor)).ok_or_else(out_of_range)?.value()
        }),
        strict("interval_over", 2..=2, an_interval, |call| {
            let (span, divisor) = (Span::of(&call.values[0]), float(&call.values[1]));
            if divisor == Some(0.0) {
                return Err(external(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")));
            }
            let result = span.zip(divisor).and_then(|(span, divisor)| span.times(1.0 / divisor));
            result.ok_or_else(out_of_range)?.value()
        }),
        strict("age", 1..=2, an_age, |call| {
            // No row keeps the number of a transaction, so none grows old.
            if let [ScalarValue::UInt32(_)] = call.values {
                return Ok(ScalarValue::Int32(Some(0)));
            }
            let input = Input::within(call.options);
            let now = StatementTime::within(call.options)?.transaction_micros;
            let today = input.style.zone.to_local(now).unwrap_or(now).div_euclid(MICROS_PER_DAY) * MICROS_PER_DAY;
            let first = micros_of(&call.values[0], input);
            let (end, start) = match call.values.get(1) {
                Some(second) => (first, micros_of(second, input)),
                None => (Some(today), first),
            };
            let infinite = |micros: Option<i64>| matches!(micros, Some(i64::MAX | i64::MIN));
            if infinite(end) || infinite(start) {
                return Err(external(SqlError::new(
                    SqlState::DATETIME_FIELD_OVERFLOW,
                    "cannot subtract infinite timestamps",
                )));
            }
            end.zip(start).and_then(|(end, start)| age(end, start)).ok_or_else(out_of_range)?.value()
        })
        .with_volatility(Volatility::Stable),
        strict("justify_days", 1..=1, an_interval, |call| {
            let Span(months, days, micros) = Span::of(&call.values[0]).ok_or_else(out_of_range)?;
            Span(months + days / MONTH_DAYS, days % MONTH_DAYS, micros).value()
        }),
        strict("justify_hours", 1..=1, an_interval, |call| {
            let Span(months, days, micros) = Span::of(&call.values[0]).ok_or_else(out_of_range)?;
            let (days, micros) = (days + micros / MICROS_PER_DAY, micros % MICROS_PER_DAY);
            match () {
                () if days > 0 && micros < 0 => Span(months, days - 1, micros + MICROS_PER_DAY),
                () if days < 0 && micros > 0 => Span(months, days + 1, micros - MICROS_PER_DAY),
                () => Span(months, days, micros),
            }
            .value()
        }),
        strict("justify_interval", 1..=1, an_interval, |call| {
            let span = Span::of(&call.values[0]).ok_or_else(out_of_range)?;
            justified(span).value()
        }),
        strict("make_interval", 0..=7, an_interval, make_interval),
    ]
}

/// An interval whose parts have one sign: time below a day, days below a month.
fn justified(Span(months, days, micros): Span) -> Span {
    let (mut days, mut micros) = (days + micros / MICROS_PER_DAY, micros % MICROS_PER_DAY);
    let mut months = months + days / MONTH_DAYS;
    days %= MONTH_DAYS;
    if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
        (days, months) = (days + MONTH_DAYS, months - 1);
    } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
        (days, months) = (days - MONTH_DAYS, months + 1);
    }
    if days > 0 && micros < 0 {
        (micros, days) = (micros + MICROS_PER_DAY, days - 1);
    } else if days < 0 && micros > 0 {
        (micros, days) = (micros - MICROS_PER_DAY, days + 1);
    }
    Span(months, days, micros)
}

/// Years, months, weeks, days, hours, minutes, seconds.
fn make_interval(call: &Call) -> Result<ScalarValue> {
    let part = |at: usize| call.values.get(at).and_then(super::values::int_of).unwrap_or(0);
    let seconds = call.values.get(6).and_then(float).unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit becomes the range's end, which is refused")]
    let micros = (seconds * 1e6).round() as i64;
    let clock = (part(4) * 60 + part(5)).checked_mul(60_000_000).and_then(|clock| clock.checked_add(micros));
    Span(part(0) * 12 + part(1), part(2) * 7 + part(3), clock.ok_or_else(out_of_range)?).value()
}

fn no_date(call: &Call, kind: &str) -> datafusion::error::DataFusionError {
    let shown: Vec<_> = call.values.iter().map(|value| super::values::text_of(value).unwrap_or_default()).collect();
    let message = format!("{kind} field value out of range: {}", shown.join("-"));
    external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message))
}

fn date_of(call: &Call) -> Option<NaiveDate> {
    let part = |at: usize| super::values::int_of(&call.values[at]);
    let (month, day) = (u32::try_from(part(1)?).ok()?, u32::try_from(part(2)?).ok()?);
    let year = i32::try_from(part(0)?).ok().filter(|year| *year != 0)?;
    NaiveDate::from_ymd_opt(if year < 0 { year + 1 } else { year }, month, day)
}

fn clock_of(call: &Call, first: usize) -> Option<i64> {
    let part = |at: usize| super::values::int_of(&call.values[first + at]);
    let seconds = float(&call.values[first + 2])?;
    let (hour, minute) = (part(0)?, part(1)?);
    if !(0..=24).contains(&hour) || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 60 seconds")]
    let clock = (hour * 60 + minute) * 60_000_000 + (seconds * 1e6).round() as i64;
    (clock <= MICROS_PER_DAY).then_some(clock)
}

fn stamp_of(call: &Call) -> Option<i64> {
    Some((i64::from(date_of(call)?.num_days_from_ce()) - 719_163) * MICROS_PER_DAY + clock_of(call, 3)?)
}

/// The zone of `make_timestamptz`: an offset, which is east of Greenwich, or as of `AT TIME ZONE`.
fn offset_or_zone(zone: &str) -> Result<Zone> {
    if zone.starts_with(|c: char| c.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric time zone: \"{zone}\"");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
        return Err(external(error.with_hint(hint)));
    }
    match moments::offset(zone) {
        Some(offset) => offset.map_err(external),
        None => super::parse_zone(zone),
    }
}

fn makers() -> [RowFunction; 4] {
    [
        strict(
            "make_date",
            3..=3,
            |_| nullable(DataType::Date32),
            |call| {
                let date = date_of(call).ok_or_else(|| no_date(call, "date"))?;
                Ok(ScalarValue::Date32(Some(date.num_days_from_ce() - 719_163)))
            },
        ),
        strict(
            "make_time",
            3..=3,
            |_| nullable(TIME),
            |call| Ok(ScalarValue::Time64Microsecond(Some(clock_of(call, 0).ok_or_else(|| no_date(call, "time"))?))),
        ),
        strict(
            "make_timestamp",
            6..=6,
            |_| nullable(TIMESTAMP),
            |call| {
                let stamp = stamp_of(call).ok_or_else(|| no_date(call, "date"))?;
                Ok(ScalarValue::TimestampMicrosecond(Some(stamp), None))
            },
        ),
        strict(
            "make_timestamptz",
            6..=7,
            |_| nullable(types::timestamptz()),
            |call| {
                let stamp = stamp_of(call).ok_or_else(|| no_date(call, "date"))?;
                let utc = match call.values.get(6).and_then(super::values::text_of) {
                    None => Style::within(call.options).zone.to_utc(stamp),
                    Some(zone) => offset_or_zone(&zone)?.to_utc(stamp),
                };
                Ok(ScalarValue::TimestampMicrosecond(
                    Some(utc.ok_or_else(|| no_date(call, "date"))?),
                    Some(types::UTC.into()),
                ))
            },
        ),
    ]
}

/// A `timestamptz` and an interval, by the calendar of the session's zone.
fn moved(call: &Call, by: fn(Interval) -> Option<Interval>) -> Result<ScalarValue> {
    let (ScalarValue::TimestampMicrosecond(Some(utc), zone), ScalarValue::IntervalMonthDayNano(Some(span))) =
        (&call.values[0], &call.values[1])
    else {
        return ScalarValue::try_from(call.returns.data_type());
    };
    let span = Interval { months: span.months, days: span.days, micros: span.nanoseconds / 1_000 };
    let end = by(span).and_then(|span| arithmetic::plus(*utc, span, &Style::within(call.options).zone));
    let out_of_range = || external(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"));
    Ok(ScalarValue::TimestampMicrosecond(Some(end.ok_or_else(out_of_range)?), zone.clone()))
}

/// An interval with so many digits of its seconds, rounded away from zero.
fn rounded_span(span: Interval, digits: &ScalarValue) -> Result<ScalarValue> {
    let digits = super::values::int_of(digits).and_then(|digits| u32::try_from(digits).ok()).unwrap_or(6);
    let unit = 10_i64.pow(6_u32.saturating_sub(digits));
    let half = if span.micros < 0 { -unit / 2 } else { unit / 2 };
    let micros = span.micros.saturating_add(half) / unit * unit;
    Span(span.months.into(), span.days.into(), micros).value()
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let others = [
        strict("timestamptz_plus", 2..=2, |_| nullable(types::timestamptz()), |call| moved(call, Some)),
        strict(
            "timestamptz_minus",
            2..=2,
            |_| nullable(types::timestamptz()),
            |call| moved(call, arithmetic::opposite),
        ),
        // What a cast to `timestamp(digits)` is.
        strict(
            "time_rounded",
            2..=2,
            |fields| Ok(fields[0].clone()),
            |call| {
                let digits =
                    super::values::int_of(&call.values[1]).and_then(|digits| u32::try_from(digits).ok()).unwrap_or(6);
                let unit = 10_i64.pow(6_u32.saturating_sub(digits));
                let rounded = |micros: i64| match micros {
                    i64::MAX | i64::MIN => micros,
                    micros => micros.saturating_add(unit / 2).div_euclid(unit) * unit,
                };
                Ok(match &call.values[0] {
                    ScalarValue::TimestampMicrosecond(micros, zone) => {
                        ScalarValue::TimestampMicrosecond(micros.map(rounded), zone.clone())
                    }
                    ScalarValue::Time64Microsecond(micros) => ScalarValue::Time64Microsecond(micros.map(rounded)),
                    other => other.clone(),
                })
            },
        ),
        // What an interval in quotes with fields is: `INTERVAL '1 2:03' DAY TO MINUTE`.
        strict("interval_of_fields", 4..=4, an_interval, |call| {
            let word = |at: usize| super::values::text_of(&call.values[at]).unwrap_or_default();
            let unknown = || external(SqlError::unsupported("an interval of these fields"));
            let field = |at: usize| spans::Field::named(&word(at)).ok_or_else(unknown);
            let fields = (field(1)?, field(2)?);
            let style = Style::within(call.options);
            let span = spans::parse_fields(&word(0), style, Some(fields)).map_err(external)?;
            rounded_span(span, &call.values[3])
        }),
        // What a cast of an interval to one with fields is.
        strict("interval_limited", 4..=4, an_interval, |call| {
            let ScalarValue::IntervalMonthDayNano(Some(span)) = call.values[0].cast_to(&INTERVAL)? else {
                return ScalarValue::try_from(&INTERVAL);
            };
            let word = |at: usize| super::values::text_of(&call.values[at]).unwrap_or_default();
            let unknown = || external(SqlError::unsupported("an interval of these fields"));
            let field = |at: usize| spans::Field::named(&word(at)).ok_or_else(unknown);
            let span = Interval { months: span.months, days: span.days, micros: span.nanoseconds / 1_000 };
            rounded_span(spans::limited(span, (field(1)?, field(2)?)), &call.values[3])
        }),
        strict("isfinite", 1..=1, scalar_function::returns_boolean, |call| {
            let infinite = match &call.values[0] {
                ScalarValue::Date32(days) => matches!(days, Some(i32::MAX | i32::MIN)),
                ScalarValue::TimestampMicrosecond(micros, _) => matches!(micros, Some(i64::MAX | i64::MIN)),
                _ => false,
            };
            Ok(ScalarValue::Boolean(Some(!infinite)))
        }),
        strict("timeofday", 0..=0, returns_text, |call| {
            let text = super::formatting::time::written(
                StatementTime::within(call.options)?.now_micros,
                Some(&Style::within(call.options).zone),
                "Dy Mon DD HH24:MI:SS.US YYYY TZ",
            );
            Ok(ScalarValue::Utf8View(Some(text)))
        })
        .with_volatility(Volatility::Stable),
    ];
    scalar_function::functions(spans().into_iter().chain(makers()).chain(fields::functions()).chain(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_by_the_calendar() {
        let at = |text: &str| parse::timestamp(text, false, Input::initial()).expect("a timestamp");
        let between = |a, b| age(at(a), at(b)).expect("in range");
        assert_eq!(between("2013-05-17", "2010-02-28"), Span(38, 17, 0));
        assert_eq!(between("2001-04-10", "1957-06-13"), Span(525, 27, 0));
        assert_eq!(between("2013-03-31", "2013-02-28"), Span(1, 3, 0));
        assert_eq!(between("2010-02-28", "2013-05-17"), Span(-38, -17, 0));
    }

    #[test]
    fn intervals_are_multiplied_by_parts() {
        assert_eq!(Span(1, 0, 0).times(0.5), Some(Span(0, 15, 0)));
        assert_eq!(Span(0, 1, 0).times(0.5), Some(Span(0, 0, 12 * HOUR_MICROS)));
        assert_eq!(Span(12, 0, 0).times(0.5), Some(Span(6, 0, 0)));
        assert_eq!(Span(0, 0, HOUR_MICROS).times(1.5), Some(Span(0, 0, HOUR_MICROS * 3 / 2)));
    }
}
