//! Intervals: months, days and microseconds, kept separately. Pure.
//!
//! They are parsed as in PostgreSQL (`1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`, `1-2`, `3 days ago`), printed
//! in its style `postgres`, and compared by length, with months of 30 days and days of 24 hours.

use super::{calendar::MICROS_PER_DAY, clock::write_fraction};
use std::{cmp::Ordering, fmt::Write};

/// Maximum of an interval's microseconds, in either direction: Arrow counts nanoseconds in 64 bits.
pub const MICROS_MAX: i64 = i64::MAX / 1_000;
/// Days of a month, for comparisons.
const MONTH_DAYS: i128 = 30;

/// An interval. Different intervals may have the same length: `1 mon` and `30 days`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds, [`MICROS_MAX`] at most in either direction.
    pub micros: i64,
}

/// Why a text is not a valid interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalError {
    /// The syntax is wrong.
    Syntax,
    /// The interval is out of range.
    Field,
}

impl Interval {
    /// Parses an interval.
    ///
    /// # Errors
    /// [`IntervalError`].
    pub fn parse(text: &str) -> Result<Self, IntervalError> {
        let sum = sum(text).ok_or(IntervalError::Syntax)?;
        let fits = |value: f64| (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value);
        if !fits(sum.months) || !fits(sum.days) || !(-9.2e15..=9.2e15).contains(&sum.micros) {
            return Err(IntervalError::Field);
        }
        let micros = (sum.micros.round() as i64).checked_add(sum.clock);
        let micros = micros.filter(|micros| (-MICROS_MAX..=MICROS_MAX).contains(micros)).ok_or(IntervalError::Field)?;
        Ok(Self { months: sum.months as i32, days: sum.days as i32, micros })
    }

    /// The length in microseconds.
    pub fn length(self) -> i128 {
        (i128::from(self.months) * MONTH_DAYS + i128::from(self.days)) * i128::from(MICROS_PER_DAY)
            + i128::from(self.micros)
    }

    /// Compares by length.
    pub fn compare(self, other: Self) -> Ordering {
        self.length().cmp(&other.length())
    }

    /// Writes the interval as PostgreSQL prints it.
    pub fn write(self, out: &mut String) {
        let (mut first, mut after_negative) = (true, false);
        let parts = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
            let (blank, plus) = (if first { "" } else { " " }, if after_negative && value > 0 { "+" } else { "" });
            // Writing to a String cannot fail.
            let _ = write!(out, "{blank}{plus}{value} {unit}{}", if value == 1 { "" } else { "s" });
            (first, after_negative) = (false, value < 0);
        }
        if first || self.micros != 0 {
            let sign = match self.micros {
                micros if micros < 0 => "-",
                _ if after_negative => "+",
                _ => "",
            };
            let micros = self.micros.unsigned_abs();
            let seconds = micros / 1_000_000;
            let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
            let _ = write!(out, "{}{sign}{hours:02}:{minutes:02}:{seconds:02}", if first { "" } else { " " });
            write_fraction(micros % 1_000_000, out);
        }
    }
}

const SECOND: f64 = 1e6;
const DAY_SECONDS: f64 = 86_400.0;

/// The sum of an interval's parts.
#[derive(Debug, Default)]
struct Sum {
    months: f64,
    days: f64,
    micros: f64,
    /// Microseconds that were written as a time of day: kept as an integer, so that none is lost.
    clock: i64,
}

impl Sum {
    /// Adds an amount of a unit. A fraction of a month becomes days (30 to a month), a fraction of a day becomes time.
    fn add(&mut self, amount: f64, unit: &str) -> Option<()> {
        let months = |sum: &mut Self, months: f64| {
            let rounded = (months * 1e9).round() / 1e9;
            sum.months += rounded.trunc();
            sum.add_days((rounded - rounded.trunc()) * 30.0);
        };
        match unit {
            "millennium" | "millennia" | "millenniums" | "mil" => months(self, amount * 12_000.0),
            "century" | "centuries" | "cent" | "c" => months(self, amount * 1_200.0),
            "decade" | "decades" | "dec" | "decs" => months(self, amount * 120.0),
            "year" | "years" | "yr" | "yrs" | "y" => {
                // A fraction of a year is rounded to whole months.
                self.months += (amount * 12.0).round();
            }
            "month" | "months" | "mon" | "mons" => months(self, amount),
            "week" | "weeks" | "w" => self.add_days(amount * 7.0),
            "day" | "days" | "d" => self.add_days(amount),
            "hour" | "hours" | "hr" | "hrs" | "h" => self.micros += amount * 3600.0 * SECOND,
            "minute" | "minutes" | "min" | "mins" | "m" => self.micros += amount * 60.0 * SECOND,
            "second" | "seconds" | "sec" | "secs" | "s" => self.micros += amount * SECOND,
            "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => self.micros += amount * 1_000.0,
            "microsecond" | "microseconds" | "usec" | "usecs" | "us" => self.micros += amount,
            _ => return None,
        }
        Some(())
    }

    fn add_days(&mut self, days: f64) {
        let rounded = (days * 1e9).round() / 1e9;
        self.days += rounded.trunc();
        self.micros += (rounded - rounded.trunc()) * DAY_SECONDS * SECOND;
    }
}

/// Parses `[-]HH:MM[:SS[.f]]` into microseconds, exactly, so that printed intervals round-trip.
fn clock(text: &str) -> Option<i64> {
    let (sign, text) = signed(text);
    let (main, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok()).flatten();
    let fields: Vec<i64> = main.split(':').map(whole).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match *fields.as_slice() {
        [hours, minutes] if fraction.is_empty() => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if minutes >= 60 || seconds > 60 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Six digits are kept; the seventh rounds.
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).map(|byte| i64::from(byte - b'0'));
    let tenths = digits.take(7).fold(0, |sum, digit| sum * 10 + digit);
    let seconds = hours.checked_mul(3_600)?.checked_add(minutes * 60 + seconds)?;
    let micros = seconds.checked_mul(1_000_000)?.checked_add((tenths + 5) / 10)?;
    Some(if sign < 0.0 { -micros } else { micros })
}

fn signed(text: &str) -> (f64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok()).flatten()
}

/// Parses the ISO 8601 form after its `P`: `1Y2M3DT4H5M6S`.
fn iso(text: &str, sum: &mut Sum) -> Option<()> {
    let mut of_day = false;
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            of_day = true;
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (sign, digits) = signed(&rest[..end]);
        let amount = sign * number(digits)?;
        let unit = match (rest.as_bytes()[end].to_ascii_uppercase(), of_day) {
            (b'Y', false) => "year",
            (b'M', false) => "month",
            (b'W', false) => "week",
            (b'D', false) => "day",
            (b'H', true) => "hour",
            (b'M', true) => "minute",
            (b'S', true) => "second",
            _ => return None,
        };
        sum.add(amount, unit)?;
        rest = &rest[end + 1..];
    }
    Some(())
}

/// Splits into words and attaches signs: `- 1 day` becomes `-1 day`, `3days` becomes `3 days`.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split_whitespace() {
        let split = part.char_indices().skip(1).find(|(at, c)| {
            c.is_ascii_alphabetic() && part[..*at].bytes().all(|byte| byte.is_ascii_digit() || b"+-.".contains(&byte))
        });
        let glued = words.last().is_some_and(|word| word == "-" || word == "+");
        let (first, second) = split.map_or((part, ""), |(at, _)| part.split_at(at));
        match words.last_mut() {
            Some(sign) if glued => sign.push_str(first),
            _ => words.push(first.to_owned()),
        }
        if !second.is_empty() {
            words.push(second.to_owned());
        }
    }
    words
}

fn sum(text: &str) -> Option<Sum> {
    let mut sum = Sum::default();
    let lower = text.trim().to_lowercase();
    if let Some(rest) = text.trim().strip_prefix(['P', 'p']) {
        if rest.is_empty() {
            return None;
        }
        iso(rest, &mut sum)?;
        return Some(sum);
    }
    let mut words = words(lower.strip_prefix('@').unwrap_or(&lower));
    let ago = words.last().is_some_and(|word| word == "ago");
    if ago {
        words.pop();
    }
    if words.is_empty() {
        return None;
    }
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word.contains(':') {
            sum.clock = sum.clock.checked_add(clock(word)?)?;
            continue;
        }
        let (sign, digits) = signed(word);
        if let Some((years, months)) = digits.split_once('-') {
            sum.months += sign * (number(years)? * 12.0 + number(months)?);
            continue;
        }
        let amount = sign * number(digits)?;
        // A number without a unit at the end counts seconds.
        match words.get(at).filter(|next| !next.contains(':')) {
            Some(unit) => {
                sum.add(amount, unit)?;
                at += 1;
            }
            None if at == words.len() => sum.add(amount, "second")?,
            // `1 04:05:06` is one day and a time.
            None => sum.add(amount, "day")?,
        }
    }
    if ago {
        sum = Sum { months: -sum.months, days: -sum.days, micros: -sum.micros, clock: -sum.clock };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_postgres_reads_them() {
        const HOUR: i64 = 3_600_000_000;
        for (text, expected) in [
            ("1 year 2 mons 3 days 04:05:06", Some((14, 3, 4 * HOUR + 306_000_000))),
            ("P1Y2M3DT4H5M6S", Some((14, 3, 4 * HOUR + 306_000_000))),
            ("PT36H", Some((0, 0, 36 * HOUR))),
            ("1 day ago", Some((0, -1, 0))),
            ("@ 1 minute", Some((0, 0, HOUR / 60))),
            ("-00:00:01.5", Some((0, 0, -1_500_000))),
            ("1 month - 1 day", Some((1, -1, 0))),
            ("-1 year -2 months +3 days", Some((-14, 3, 0))),
            ("1.5 days", Some((0, 1, 12 * HOUR))),
            ("0.5 month", Some((0, 15, 0))),
            ("1-2", Some((14, 0, 0))),
            ("1 04:05", Some((0, 1, 4 * HOUR + HOUR / 12))),
            ("3h", Some((0, 0, 3 * HOUR))),
            ("30", Some((0, 0, HOUR / 120))),
            ("1 fortnight", None),
            ("", None),
            ("day", None),
        ] {
            let read = Interval::parse(text).ok().map(|span| (span.months, span.days, span.micros));
            assert_eq!(read, expected, "{text}");
        }
        assert_eq!(Interval::parse("9999999999 years"), Err(IntervalError::Field));
    }

    #[test]
    fn intervals_are_printed_as_postgres_prints_them() {
        let second = 1_000_000;
        for (months, days, micros, expected) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706 * second, "1 year 2 mons 3 days 04:05:06"),
            (0, -1, 0, "-1 days"),
            (-1, 3, 0, "-1 mons +3 days"),
            (-1, 0, second, "-1 mons +00:00:01"),
            (0, 1, -second / 2, "1 day -00:00:00.5"),
            (0, 0, 360_000 * second, "100:00:00"),
        ] {
            let mut text = String::new();
            Interval { months, days, micros }.write(&mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn lengths_do_not_overflow() {
        let most = Interval { months: i32::MAX, days: i32::MAX, micros: MICROS_MAX };
        let more = Interval { micros: MICROS_MAX - 1, ..most };
        assert_eq!(most.compare(more), Ordering::Greater);
        let month = Interval { months: 1, days: 0, micros: 0 };
        assert_eq!(month.compare(Interval { months: 0, days: 29, micros: MICROS_PER_DAY }), Ordering::Equal);
    }
}
