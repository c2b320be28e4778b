//! Reads intervals as PostgreSQL does: `1 year 2 mons 3 days 04:05:06`, `P1Y2M3DT4H5M6S`, `1-2`, `3 days ago`. Pure.

use crate::error::{Result, SqlError, SqlState};
use arrow::datatypes::IntervalMonthDayNano;

const SECOND: f64 = 1e6;
const DAY_SECONDS: f64 = 86_400.0;

/// Months, days and microseconds while they are added up.
#[derive(Debug, Default)]
struct Sum {
    months: f64,
    days: f64,
    micros: f64,
}

impl Sum {
    /// Adds an amount of a unit: what is no whole month becomes days of 30 to a month, what is no whole day time.
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
                // A part of a year is rounded to whole months.
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

/// `[-]HH:MM[:SS[.f]]` in microseconds.
fn clock(text: &str) -> Option<f64> {
    let (sign, text) = signed(text);
    let mut parts = text.split(':');
    let (hours, minutes) = (number(parts.next()?)?, number(parts.next()?)?);
    let seconds = parts.next().map_or(Some(0.0), number)?;
    if parts.next().is_some() || minutes >= 60.0 || seconds > 60.0 {
        return None;
    }
    Some(sign * ((hours * 60.0 + minutes) * 60.0 + seconds) * SECOND)
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

/// `P1Y2M3DT4H5M6S`
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

/// Words with their signs beside them: `- 1 day` is `-1 day`, `3days` is `3 days`.
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
            sum.micros += clock(word)?;
            continue;
        }
        let (sign, digits) = signed(word);
        if let Some((years, months)) = digits.split_once('-') {
            sum.months += sign * (number(years)? * 12.0 + number(months)?);
            continue;
        }
        let amount = sign * number(digits)?;
        // A number alone at the end counts seconds.
        match words.get(at).filter(|next| !next.contains(':')) {
            Some(unit) => {
                sum.add(amount, unit)?;
                at += 1;
            }
            None if at == words.len() => sum.add(amount, "second")?,
            // `1 04:05:06` is a day and a time.
            None => sum.add(amount, "day")?,
        }
    }
    if ago {
        sum = Sum { months: -sum.months, days: -sum.days, micros: -sum.micros };
    }
    Some(sum)
}

/// An interval.
///
/// # Errors
/// 22007 for what is none, 22015 for one that does not fit.
pub fn interval(text: &str) -> Result<IntervalMonthDayNano> {
    let sum = sum(text).ok_or_else(|| {
        let message = format!("invalid input syntax for type interval: \"{text}\"");
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
    })?;
    let fits = |value: f64, most: f64| (-most..=most).contains(&value);
    if !fits(sum.months, f64::from(i32::MAX)) || !fits(sum.days, f64::from(i32::MAX)) || !fits(sum.micros, 9.2e15) {
        let message = format!("interval field value out of range: \"{text}\"");
        return Err(SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, message));
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let (months, days, micros) = (sum.months as i32, sum.days as i32, sum.micros.round() as i64);
    Ok(IntervalMonthDayNano::new(months, days, micros * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_postgres_reads_them() {
        const HOUR: i64 = 3_600_000_000_000;
        for (text, expected) in [
            ("1 year 2 mons 3 days 04:05:06", Some((14, 3, 4 * HOUR + 306_000_000_000))),
            ("P1Y2M3DT4H5M6S", Some((14, 3, 4 * HOUR + 306_000_000_000))),
            ("PT36H", Some((0, 0, 36 * HOUR))),
            ("1 day ago", Some((0, -1, 0))),
            ("@ 1 minute", Some((0, 0, HOUR / 60))),
            ("-00:00:01.5", Some((0, 0, -1_500_000_000))),
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
            let read = interval(text).ok().map(|span| (span.months, span.days, span.nanoseconds));
            assert_eq!(read, expected, "{text}");
        }
    }
}
