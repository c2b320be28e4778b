//! Intervals from text: PostgreSQL's `DecodeInterval` and `DecodeISO8601Interval`.
//!
//! A text's pieces are read from its end, so that a unit is known before its number.

use super::{
    fields::{Shape, fields, fraction, leading_int, leading_int4},
    moments::{Clock, Fault, clock},
    style::{IntervalStyle, Style},
};
use crate::error::{SqlError, SqlState};
use keyspan_catalog::value::{
    calendar::MICROS_PER_DAY,
    interval::{Interval, MICROS_MAX},
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const MONTH_DAYS: i64 = 30;
const YEAR_MONTHS: i64 = 12;

/// Fields of an interval that its type names: `INTERVAL DAY TO SECOND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Years.
    Year,
    /// Months.
    Month,
    /// Days.
    Day,
    /// Hours.
    Hour,
    /// Minutes.
    Minute,
    /// Seconds.
    Second,
}

impl Field {
    /// A field by its key word, whatever its case.
    pub fn named(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "year" | "years" => Self::Year,
            "month" | "months" => Self::Month,
            "day" | "days" => Self::Day,
            "hour" | "hours" => Self::Hour,
            "minute" | "minutes" => Self::Minute,
            "second" | "seconds" => Self::Second,
            _ => return None,
        })
    }
}

/// The first and the last field of an interval's type.
pub type Fields = (Field, Field);

/// An interval.
///
/// # Errors
/// 22007 for malformed text, 22008 and 22015 for an interval out of range.
pub fn parse(text: &str, style: &Style) -> Result<Interval, SqlError> {
    parse_fields(text, style, None)
}

/// An interval of a type with fields: a number without a unit counts the last of them, and what is smaller is dropped.
///
/// # Errors
/// As [`parse`].
pub fn parse_fields(text: &str, style: &Style, of: Option<Fields>) -> Result<Interval, SqlError> {
    let sum = match by_units(text, style, of) {
        Err(Fault::Format) => iso_8601(text),
        other => other,
    };
    let sum = sum.map_err(|fault| match fault {
        Fault::Field => {
            let message = format!("interval field value out of range: \"{text}\"");
            SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, message)
        }
        fault => fault.error("interval", text),
    })?;
    let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range");
    let months = sum.years.checked_mul(YEAR_MONTHS).and_then(|months| months.checked_add(sum.months));
    let months = months.and_then(|months| i32::try_from(months).ok()).ok_or_else(out_of_range)?;
    let days = i32::try_from(sum.days).map_err(|_| out_of_range())?;
    if !(-MICROS_MAX..=MICROS_MAX).contains(&sum.micros) {
        return Err(out_of_range());
    }
    let span = Interval { months, days, micros: sum.micros };
    Ok(of.map_or(span, |of| limited(span, of)))
}

/// An interval without what is smaller than the last field of its type; months and years of one whose first field is
/// smaller stay. PostgreSQL's `AdjustIntervalForTypmod`.
pub fn limited(span: Interval, (_, last): Fields) -> Interval {
    let to = |unit: i64| Interval { micros: span.micros / unit * unit, ..span };
    match last {
        Field::Year => Interval { months: span.months / 12 * 12, days: 0, micros: 0 },
        Field::Month => Interval { days: 0, micros: 0, ..span },
        Field::Day => Interval { micros: 0, ..span },
        Field::Hour => to(HOUR),
        Field::Minute => to(MINUTE),
        Field::Second => span,
    }
}

/// The sum of an interval's parts.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    years: i64,
    months: i64,
    days: i64,
    micros: i64,
}

/// A unit of intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
    /// One that no interval has: `quarter`.
    Other,
}

/// The unit of a word; PostgreSQL's `deltatktbl`, in which ten letters count.
fn unit(word: &str) -> Option<Unit> {
    Some(match word.get(..10).unwrap_or(word) {
        "us" | "usec" | "usecs" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        "qtr" | "quarter" | "timezone" | "timezone_h" | "timezone_m" => Unit::Other,
        _ => return None,
    })
}

impl Sum {
    fn add_micros(&mut self, whole: i64, fraction: f64, unit: i64) -> Result<(), Fault> {
        let micros = whole.checked_mul(unit).and_then(|micros| self.micros.checked_add(micros));
        self.micros = micros.ok_or(Fault::Field)?;
        self.add_fraction_of(fraction, unit)
    }

    fn add_fraction_of(&mut self, fraction: f64, unit: i64) -> Result<(), Fault> {
        let exact = fraction * unit as f64;
        #[expect(clippy::cast_possible_truncation, reason = "less than the unit")]
        let whole = exact as i64;
        let rest = exact - whole as f64;
        let rounded = match rest {
            rest if rest > 0.5 => whole + 1,
            rest if rest < -0.5 => whole - 1,
            _ => whole,
        };
        self.micros = self.micros.checked_add(rounded).ok_or(Fault::Field)?;
        Ok(())
    }

    fn add_days(&mut self, whole: i64, fraction: f64, unit: i64) -> Result<(), Fault> {
        add(&mut self.days, whole, unit)?;
        self.add_fraction_of_days(fraction, unit)
    }

    fn add_fraction_of_days(&mut self, fraction: f64, unit: i64) -> Result<(), Fault> {
        let exact = fraction * unit as f64;
        #[expect(clippy::cast_possible_truncation, reason = "less than the unit")]
        let whole = exact as i64;
        add(&mut self.days, whole, 1)?;
        self.add_fraction_of(exact - whole as f64, MICROS_PER_DAY)
    }

    fn add_months(&mut self, whole: i64, fraction: f64) -> Result<(), Fault> {
        add(&mut self.months, whole, 1)?;
        self.add_fraction_of_days(fraction, MONTH_DAYS)
    }

    fn add_years(&mut self, whole: i64, fraction: f64, unit: i64) -> Result<(), Fault> {
        add(&mut self.years, whole, unit)?;
        #[expect(clippy::cast_possible_truncation, reason = "less than the unit")]
        let months = (fraction * unit as f64 * YEAR_MONTHS as f64).round_ties_even() as i64;
        add(&mut self.months, months, 1)
    }

    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Result<(), Fault> {
        match unit {
            Unit::Microsecond => self.add_micros(whole, fraction, 1),
            Unit::Millisecond => self.add_micros(whole, fraction, 1_000),
            Unit::Second => self.add_micros(whole, fraction, SECOND),
            Unit::Minute => self.add_micros(whole, fraction, MINUTE),
            Unit::Hour => self.add_micros(whole, fraction, HOUR),
            Unit::Day => {
                add(&mut self.days, whole, 1)?;
                self.add_fraction_of(fraction, MICROS_PER_DAY)
            }
            Unit::Week => self.add_days(whole, fraction, 7),
            Unit::Month => self.add_months(whole, fraction),
            Unit::Year => self.add_years(whole, fraction, 1),
            Unit::Decade => self.add_years(whole, fraction, 10),
            Unit::Century => self.add_years(whole, fraction, 100),
            Unit::Millennium => self.add_years(whole, fraction, 1_000),
            Unit::Other => Err(Fault::Format),
        }
    }

    fn negated(self) -> Result<Self, Fault> {
        let micros = self.micros.checked_neg().ok_or(Fault::Field)?;
        Ok(Self { years: -self.years, months: -self.months, days: -self.days, micros })
    }
}

/// Adds to a part of 32 bits.
fn add(part: &mut i64, whole: i64, unit: i64) -> Result<(), Fault> {
    i32::try_from(whole).map_err(|_| Fault::Field)?;
    let sum = whole.checked_mul(unit).and_then(|whole| part.checked_add(whole));
    *part = sum.filter(|sum| i32::try_from(*sum).is_ok()).ok_or(Fault::Field)?;
    Ok(())
}

/// Parts that are there, as bits: none is there twice.
fn bit(unit: Unit) -> u32 {
    1 << unit as u32
}

const CLOCK: u32 = 1 << Unit::Hour as u32
    | 1 << Unit::Minute as u32
    | 1 << Unit::Second as u32
    | 1 << Unit::Millisecond as u32
    | 1 << Unit::Microsecond as u32;
const SECONDS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;

/// The unit of a number without one, at the end of a text.
fn last_unit(of: Option<Fields>) -> Unit {
    match of.map(|(_, last)| last) {
        Some(Field::Year) => Unit::Year,
        Some(Field::Month) => Unit::Month,
        Some(Field::Day) => Unit::Day,
        Some(Field::Hour) => Unit::Hour,
        Some(Field::Minute) => Unit::Minute,
        Some(Field::Second) | None => Unit::Second,
    }
}

fn clock_micros(clock: Clock) -> Result<i64, Fault> {
    let hours = clock.hour.checked_mul(HOUR);
    let rest = clock.minute * MINUTE + clock.second * SECOND + clock.micros;
    hours.and_then(|hours| hours.checked_add(rest)).ok_or(Fault::Field)
}

/// `1 year 2 mons 3 days 04:05:06`, `1-2 3 4:05:06`, `@ 1 day ago`
fn by_units(text: &str, style: &Style, of: Option<Fields>) -> Result<Sum, Fault> {
    let fields = fields(text)?;
    let signed = |text: &str| text.starts_with(['-', '+']);
    // In SQL's standard, a sign before all is one of all, if there are no others.
    let all_negative = style.intervals == IntervalStyle::SqlStandard
        && fields.first().is_some_and(|first| first.text.starts_with('-'))
        && !fields[1..].iter().any(|field| signed(&field.text));
    let minutes_first = of == Some((Field::Minute, Field::Second));
    let mut sum = Sum::default();
    let mut parts = 0;
    let mut next: Option<Unit> = None;
    // A unit waits for its number.
    let mut waits = false;
    let mut ago = false;
    for field in fields.iter().rev() {
        let text = field.text.as_str();
        let mut negative = false;
        let of_clock = match field.shape {
            Shape::Time => Some(clock(text, minutes_first)?),
            Shape::Signed if text.contains(':') => {
                negative = text.starts_with('-');
                clock(&text[1..], minutes_first).ok()
            }
            _ => None,
        };
        let found = if let Some(clock) = of_clock {
            let micros = clock_micros(clock)?;
            sum.micros =
                sum.micros.checked_add(if negative || all_negative { -micros } else { micros }).ok_or(Fault::Field)?;
            next = Some(Unit::Day);
            waits = false;
            CLOCK
        } else {
            match field.shape {
                Shape::Word | Shape::SignedWord => {
                    if waits {
                        return Err(Fault::Format);
                    }
                    if text == "ago" {
                        ago = true;
                        continue;
                    }
                    next = Some(unit(text).ok_or(Fault::Format)?);
                    waits = true;
                    continue;
                }
                _ => {
                    let mut unit = next.unwrap_or_else(|| last_unit(of));
                    let (mut whole, mut part) = number(text, &mut unit)?;
                    if all_negative {
                        (whole, part) = (-whole.abs(), -part.abs());
                    }
                    sum.add(whole, part, unit)?;
                    // Before hours there are days.
                    next = Some(if unit == Unit::Hour { Unit::Day } else { unit });
                    waits = false;
                    if unit == Unit::Second && part != 0.0 { SECONDS } else { bit(unit) }
                }
            }
        };
        if found & parts != 0 {
            return Err(Fault::Format);
        }
        parts |= found;
    }
    if parts == 0 || waits {
        return Err(Fault::Format);
    }
    if ago { sum.negated() } else { Ok(sum) }
}

/// A number with its fraction; `1-2` is years and months.
fn number(text: &str, unit: &mut Unit) -> Result<(i64, f64), Fault> {
    let (whole, rest) = leading_int(text)?;
    let is_negative = text.starts_with('-');
    if let Some(months) = rest.strip_prefix('-') {
        let (months, rest) = leading_int4(months)?;
        if !(0..YEAR_MONTHS).contains(&months) {
            return Err(Fault::Field);
        }
        if !rest.is_empty() {
            return Err(Fault::Format);
        }
        *unit = Unit::Month;
        let months = if is_negative { -months } else { months };
        let all = whole.checked_mul(YEAR_MONTHS).and_then(|whole| whole.checked_add(months));
        return Ok((all.ok_or(Fault::Field)?, 0.0));
    }
    if rest.is_empty() {
        return Ok((whole, 0.0));
    }
    let part = fraction(rest)?;
    Ok((whole, if is_negative { -part } else { part }))
}

/// `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506`
fn iso_8601(text: &str) -> Result<Sum, Fault> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Fault::Format)?;
    let mut sum = Sum::default();
    let (mut of_date, mut has_field) = (true, false);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (of_date, has_field) = (false, false);
            rest = after;
            continue;
        }
        let start = rest;
        let (whole, part, after) = iso_number(rest)?;
        let designator = after.chars().next();
        rest = &after[designator.map_or(0, char::len_utf8)..];
        let digits = start.strip_prefix('-').unwrap_or(start).bytes().take_while(u8::is_ascii_digit).count();
        match (of_date, designator) {
            (true, Some('Y')) => sum.add_years(whole, part, 1)?,
            (true, Some('M')) => sum.add_months(whole, part)?,
            (true, Some('W')) => sum.add_days(whole, part, 7)?,
            (true, Some('D')) => sum.add(whole, part, Unit::Day)?,
            (true, Some('T') | None) if digits == 8 && !has_field => {
                sum.add_years(whole / 10_000, 0.0, 1)?;
                sum.add_months(whole / 100 % 100, 0.0)?;
                sum.add(whole % 100, part, Unit::Day)?;
                (of_date, has_field) = (false, false);
                continue;
            }
            (true, Some('T' | '-') | None) if !has_field => {
                rest = iso_date(&mut sum, (whole, part), designator, rest)?;
                (of_date, has_field) = (false, false);
                continue;
            }
            (false, Some('H')) => sum.add(whole, part, Unit::Hour)?,
            (false, Some('M')) => sum.add(whole, part, Unit::Minute)?,
            (false, Some('S')) => sum.add(whole, part, Unit::Second)?,
            (false, None) if digits == 6 && !has_field => {
                sum.add(whole / 10_000, 0.0, Unit::Hour)?;
                sum.add(whole / 100 % 100, 0.0, Unit::Minute)?;
                sum.add(whole % 100, 0.0, Unit::Second)?;
                sum.add_fraction_of(part, 1)?;
                return Ok(sum);
            }
            (false, Some(':') | None) if !has_field => {
                sum.add(whole, part, Unit::Hour)?;
                let mut behind = designator.map(|_| rest);
                for unit in [Unit::Minute, Unit::Second] {
                    let Some(text) = behind else { return Ok(sum) };
                    let (whole, part, after) = iso_number(text)?;
                    sum.add(whole, part, unit)?;
                    behind = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or(Fault::Format)?) };
                }
                return if behind.is_none() { Ok(sum) } else { Err(Fault::Format) };
            }
            _ => return Err(Fault::Format),
        }
        has_field = true;
    }
    Ok(sum)
}

/// `0001-02-03` after its first number; gives what follows the `T` behind it.
fn iso_date<'a>(
    sum: &mut Sum,
    (years, part): (i64, f64),
    designator: Option<char>,
    rest: &'a str,
) -> Result<&'a str, Fault> {
    sum.add_years(years, part, 1)?;
    if designator != Some('-') {
        return Ok(rest);
    }
    let mut rest = rest;
    for is_month in [true, false] {
        let (whole, part, after) = iso_number(rest)?;
        if is_month {
            sum.add_months(whole, part)?;
        } else {
            sum.add(whole, part, Unit::Day)?;
        }
        rest = match after.as_bytes().first() {
            None => return Ok(after),
            Some(b'T') => return Ok(&after[1..]),
            Some(b'-') if is_month => &after[1..],
            Some(_) => return Err(Fault::Format),
        };
    }
    Ok(rest)
}

/// A number of the ISO form, whole and fraction, and what follows.
fn iso_number(text: &str) -> Result<(i64, f64, &str), Fault> {
    const MOST: f64 = 1e15;
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.')) {
        return Err(Fault::Format);
    }
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(bytes[0] == b'-');
    let mut end = sign + digits(sign);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(end + 1 + sign..).map_or(0, |_| digits(end + 1 + sign));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let value: f64 = text[..end].parse().map_err(|_| Fault::Format)?;
    if !(-MOST..=MOST).contains(&value) {
        return Err(Fault::Field);
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    Ok((value.trunc() as i64, value - value.trunc(), &text[end..]))
}
