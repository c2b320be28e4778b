//! Reads values of PostgreSQL's types from text. Pure.

use crate::error::{Result, SqlError, SqlState};
use arrow::array::timezone::Tz;
use arrow::datatypes::IntervalMonthDayNano;
use chrono::{NaiveDateTime, TimeZone};
use keyspan_catalog::value::{
    array,
    calendar::{MICROS_PER_DAY, days_from_civil, is_date, is_timestamp},
    clock::{TimeError, parse_time},
    exact::Exact,
    interval::{Interval, IntervalError},
};
use std::{collections::BTreeMap, str::FromStr};

const MICROS: i64 = 1_000_000;

fn invalid(kind: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {kind}: \"{text}\""))
}

fn out_of_range(kind: &str, text: &str) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {kind}");
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// A boolean: `t`, `true`, `y`, `yes`, `on`, `1`, their opposites, and prefixes of them.
pub(crate) fn boolean(text: &str) -> Result<bool> {
    let lower = text.trim().to_lowercase();
    let is = |words: &[&str]| !lower.is_empty() && words.iter().any(|word| word.starts_with(&lower));
    if is(&["true", "yes", "1"]) || lower == "on" {
        return Ok(true);
    }
    if is(&["false", "no", "0", "off"]) && lower != "o" {
        return Ok(false);
    }
    Err(invalid("boolean", text))
}

/// A whole number of a type that holds it.
pub(crate) fn integer<T: TryFrom<i64>>(text: &str, kind: &str) -> Result<T> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(kind, text));
    }
    let whole = trimmed.parse::<i64>().ok().and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| out_of_range(kind, text))
}

/// A float, `NaN` and `Infinity` among them.
pub(crate) fn float<T: FromStr + Into<f64> + Copy>(text: &str, kind: &str) -> Result<T> {
    let trimmed = text.trim();
    // A NaN has no sign.
    let unsigned = trimmed.strip_prefix('-').filter(|rest| rest.eq_ignore_ascii_case("nan"));
    let trimmed = unsigned.unwrap_or(trimmed);
    let value: T = trimmed.parse().map_err(|_| invalid(kind, text))?;
    let spelled = trimmed.bytes().any(|byte| matches!(byte, b'i' | b'I'));
    if value.into().is_infinite() && !spelled { Err(out_of_range(kind, text)) } else { Ok(value) }
}

/// A numeric of any number of digits.
///
/// # Errors
/// 22P02, 22003
pub fn exact(text: &str) -> Result<Exact> {
    let exact = Exact::parse(text).ok_or_else(|| invalid("numeric", text))?;
    Ok(exact?)
}

/// A numeric of a precision and scale, unscaled; rounded half away from zero.
pub fn numeric(text: &str, precision: u8, scale: i8) -> Result<i128> {
    let trimmed = text.trim();
    let (mantissa, exponent) = match trimmed.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid("numeric", text))?),
        None => (trimmed, 0),
    };
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid("numeric", text));
    }
    let overflow = || {
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
            i16::from(precision) - i16::from(scale)
        ))
    };
    // Digits that stay: those before the point, moved by the exponent, and `scale` after it.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut unscaled: i128 = 0;
    for index in 0..kept.max(0) {
        let digit =
            usize::try_from(index).ok().and_then(|index| all.as_bytes().get(index)).map_or(0, |byte| byte - b'0');
        unscaled =
            unscaled.checked_mul(10).and_then(|value| value.checked_add(i128::from(digit))).ok_or_else(overflow)?;
    }
    let next = usize::try_from(kept).ok().and_then(|index| all.as_bytes().get(index));
    if next.is_some_and(|byte| *byte >= b'5') {
        unscaled += 1;
    }
    if unscaled >= 10_i128.pow(u32::from(precision)) {
        return Err(overflow());
    }
    Ok(if negative { -unscaled } else { unscaled })
}

/// Bytes, as `\x41` or with escapes `\101` and `\\`.
pub fn bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return hex_bytes(hex);
    }
    let malformed = || SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
            continue;
        }
        let octal = rest.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = octal.map(|digits| digits.iter().fold(0_u16, |value, digit| value * 8 + u16::from(digit - b'0')));
        bytes.push(value.and_then(|value| u8::try_from(value).ok()).ok_or_else(malformed)?);
        rest = &rest[3..];
    }
    Ok(bytes)
}

fn hex_bytes(hex: &str) -> Result<Vec<u8>> {
    let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut half = None;
    for c in hex.chars().filter(|c| !c.is_whitespace()) {
        let digit = c.to_digit(16).ok_or_else(|| bad(format!("invalid hexadecimal digit: \"{c}\"")))?;
        let digit = u8::try_from(digit).map_err(|_| bad(format!("invalid hexadecimal digit: \"{c}\"")))?;
        half = match half {
            None => Some(digit),
            Some(high) => {
                bytes.push(high << 4 | digit);
                None
            }
        };
    }
    if half.is_some() { Err(bad("invalid hexadecimal data: odd number of digits".into())) } else { Ok(bytes) }
}

/// A uuid.
pub(crate) fn uuid(text: &str) -> Result<[u8; 16]> {
    let plain = text.trim().trim_start_matches('{').trim_end_matches('}');
    if plain.starts_with("urn") {
        return Err(invalid("uuid", text));
    }
    uuid::Uuid::parse_str(plain).map(uuid::Uuid::into_bytes).map_err(|_| invalid("uuid", text))
}

/// JSON in jsonb's form: keys by length and bytes, the last of two alike, one blank after `:` and `,`.
pub fn json(text: &str, kind: &str) -> Result<String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {kind}"))
            .with_detail(format!("{error}."))
    })?;
    let mut out = String::with_capacity(text.len());
    write_json(&value, &mut out);
    Ok(out)
}

/// Writes a value in jsonb's form.
pub fn write_json(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_json(item, out);
            }
            out.push(']');
        }
        serde_json::Value::Object(members) => {
            let sorted: BTreeMap<_, _> =
                members.iter().map(|(key, value)| ((key.len(), key.as_bytes()), (key, value))).collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_values().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&serde_json::Value::String(key.clone()).to_string());
                out.push_str(": ");
                write_json(value, out);
            }
            out.push('}');
        }
        serde_json::Value::Number(number) => out.push_str(&plain(&number.to_string())),
        other => out.push_str(&other.to_string()),
    }
}

/// A number without exponent, as numeric prints it; one of a thousand digits and more stays as it is.
fn plain(number: &str) -> String {
    const DIGITS_MAX: i64 = 1_000;
    let Some((mantissa, exponent)) = number.split_once(['e', 'E']) else { return number.to_owned() };
    let Some(exponent) = exponent.parse::<i64>().ok().filter(|exponent| exponent.abs() < DIGITS_MAX) else {
        return number.to_owned();
    };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len()).unwrap_or(0) + exponent;
    let length = i64::try_from(digits.len()).unwrap_or(0);
    let zeroes = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let text = match point {
        point if point <= 0 => format!("0.{}{digits}", zeroes(-point)),
        point if point >= length => format!("{digits}{}", zeroes(point - length)),
        point => {
            let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
            format!("{whole}.{fraction}")
        }
    };
    let bare = text.trim_start_matches('0');
    let lead = if bare.is_empty() || bare.starts_with('.') { "0" } else { "" };
    format!("{sign}{lead}{bare}")
}

fn bad_time(kind: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid input syntax for type {kind}: \"{text}\""))
}

fn no_such_time(text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
}

/// A date: days since 1970; the infinities are the ends of the range.
pub fn date(text: &str) -> Result<i32> {
    let trimmed = text.trim();
    match trimmed.to_lowercase().as_str() {
        "infinity" => return Ok(i32::MAX),
        "-infinity" => return Ok(i32::MIN),
        "epoch" => return Ok(0),
        _ => {}
    }
    let (plain, before_christ) = era(trimmed);
    let days = match worded(plain) {
        Some(fields) => day_of(fields, before_christ, text)?,
        None => {
            let day = plain.split(['T', ' ']).next().unwrap_or(plain);
            if day.len() != plain.len() {
                timestamp(trimmed, false)?;
            }
            calendar(day, before_christ, "date", text)?
        }
    };
    let held = i32::try_from(days).ok().filter(|days| is_date(*days));
    held.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\"")))
}

/// The text without `BC` or `AD` at its end, and whether it was the first.
fn era(text: &str) -> (&str, bool) {
    let split = text.len().checked_sub(2).and_then(|at| text.split_at_checked(at));
    let is_word = |rest: &str| rest.ends_with(|c: char| c == ' ' || c.is_ascii_digit());
    match split {
        Some((rest, era)) if era.eq_ignore_ascii_case("bc") && is_word(rest) => (rest.trim_end(), true),
        Some((rest, era)) if era.eq_ignore_ascii_case("ad") && is_word(rest) => (rest.trim_end(), false),
        _ => (text, false),
    }
}

/// The day of a year, month and day. The year before the first is 1 BC.
fn day_of((year, month, day): (u32, u32, u32), before_christ: bool, whole: &str) -> Result<i64> {
    let counted = i64::from(year);
    let days = match (year, before_christ) {
        (0, _) => None,
        (_, true) => days_from_civil(1 - counted, month, day),
        (_, false) => days_from_civil(counted, month, day),
    };
    days.ok_or_else(|| no_such_time(whole))
}

fn calendar(day: &str, before_christ: bool, kind: &str, whole: &str) -> Result<i64> {
    let parts: Vec<_> = day.split('-').collect();
    let numbers: Option<Vec<u32>> = parts.iter().map(|part| digits(part)).collect();
    let fields = match (numbers.as_deref(), day.len()) {
        (Some(&[year, month, day]), _) if parts[0].len() >= 4 => (year, month, day),
        (Some(&[packed]), 8) => (packed / 10_000, packed / 100 % 100, packed % 100),
        _ => worded(day).ok_or_else(|| bad_time(kind, whole))?,
    };
    day_of(fields, before_christ, whole)
}

/// Year, month and day of `1/8/1999`, `1999-Jan-08`, `08-Jan-1999` and `January 8, 1999`: month before day, as in the
/// ISO, MDY style.
fn worded(day: &str) -> Option<(u32, u32, u32)> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let words: Vec<&str> = day.split(['/', '-', ',', ' ']).filter(|word| !word.is_empty()).collect();
    let [a, b, c] = words.as_slice() else { return None };
    let month = |word: &str| {
        let prefix = word.get(..3)?.to_lowercase();
        let known = MONTHS.iter().position(|month| *month == prefix)?;
        word.bytes().all(|byte| byte.is_ascii_alphabetic()).then(|| u32::try_from(known + 1).ok()).flatten()
    };
    let year = |word: &str| digits(word).filter(|_| word.len() >= 4);
    let small = |word: &str| digits(word).filter(|_| !word.is_empty() && word.len() <= 2);
    if day.contains('/') {
        return Some((year(c)?, small(a)?, small(b)?));
    }
    if let Some(month) = month(a) {
        return Some((year(c)?, month, small(b)?));
    }
    let month = month(b)?;
    year(a).zip(small(c)).or_else(|| year(c).zip(small(a))).map(|(year, day)| (year, month, day))
}

fn digits(text: &str) -> Option<u32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A time of day in microseconds.
///
/// # Errors
/// 22007 for malformed text, 22008 for a field out of range.
pub fn time(text: &str) -> Result<i64> {
    parse_time(text).map_err(|why| match why {
        TimeError::Syntax => bad_time("time", text),
        TimeError::Field => no_such_time(text),
    })
}

fn clock(part: &str, kind: &str, whole: &str) -> Result<i64> {
    let (main, fraction) = part.split_once('.').unwrap_or((part, ""));
    let fields: Option<Vec<u32>> = main.split(':').map(digits).collect();
    let (hour, minute, second) = match fields.as_deref() {
        Some(&[hour, minute]) if fraction.is_empty() => (hour, minute, 0),
        Some(&[hour, minute, second]) => (hour, minute, second),
        _ => return Err(bad_time(kind, whole)),
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad_time(kind, whole));
    }
    let fits = (hour < 24 && minute < 60 && second <= 60) || (hour == 24 && minute == 0 && second == 0);
    if !fits {
        return Err(no_such_time(whole));
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    // Six digits count; the seventh rounds.
    let micros =
        fraction.bytes().chain(std::iter::repeat(b'0')).take(6).fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    let up = fraction.as_bytes().get(6).is_some_and(|byte| *byte >= b'5');
    Ok(seconds * MICROS + micros + i64::from(up))
}

/// A `timestamp`, or a `timestamptz` when `zoned`: microseconds since 1970, the infinities at the ends. Without a zone
/// a `timestamptz` is in UTC; a `timestamp` pays no heed to a zone.
pub fn timestamp(text: &str, zoned: bool) -> Result<i64> {
    let kind = if zoned { "timestamp with time zone" } else { "timestamp" };
    let trimmed = text.trim();
    match trimmed.to_lowercase().as_str() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        "epoch" => return Ok(0),
        _ => {}
    }
    let (trimmed, before_christ) = era(trimmed);
    let (day, rest) = match trimmed.find(['T', 't', ' ']) {
        Some(index) => (&trimmed[..index], trimmed[index + 1..].trim_start()),
        // A date with a zone and no time; a date has at least eight characters.
        None => match trimmed.char_indices().skip(8).find(|(_, c)| matches!(c, 'Z' | 'z' | '+')) {
            Some((index, _)) => trimmed.split_at(index),
            None => (trimmed, ""),
        },
    };
    let (hours, zone) = match rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')) {
        Some(index) => (&rest[..index], rest[index..].trim()),
        None => (rest, ""),
    };
    let days = calendar(day, before_christ, kind, text)?;
    let of_day = if hours.is_empty() { 0 } else { clock(hours, kind, text)? };
    let out_of_range =
        || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""));
    let local = days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(of_day));
    let held = |micros: &i64| is_timestamp(*micros) && !matches!(*micros, i64::MIN | i64::MAX);
    let local = local.filter(held).ok_or_else(out_of_range)?;
    if zone.is_empty() {
        return Ok(local);
    }
    let parsed = Zone::parse(zone).ok_or_else(|| match zone.chars().next() {
        Some(first) if first.is_alphabetic() && zone.len() > 1 => {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{zone}\" not recognized"))
        }
        _ => bad_time(kind, text),
    })?;
    if zoned { parsed.to_utc(local).filter(held).ok_or_else(out_of_range) } else { Ok(local) }
}

/// A time zone: an offset, or a region of the tz database.
#[derive(Clone, Copy, Debug)]
pub enum Zone {
    /// Microseconds east of Greenwich.
    Offset(i64),
    /// A region.
    Region(Tz),
}

impl Zone {
    /// Reads `Z`, `UTC`, `+02`, `-03:30`, `+0530`, `Europe/Berlin`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if ["z", "utc", "gmt", "zulu"].contains(&text.to_lowercase().as_str()) {
            return Some(Self::Offset(0));
        }
        let (east, rest) = match text.as_bytes().first()? {
            b'+' => (1, &text[1..]),
            b'-' => (-1, &text[1..]),
            _ => return Tz::from_str(text).ok().map(Self::Region),
        };
        let fields: Vec<u32> = if rest.contains(':') {
            rest.split(':').map(digits).collect::<Option<_>>()?
        } else {
            let packed = digits(rest)?;
            if rest.len() > 2 { vec![packed / 100, packed % 100] } else { vec![packed] }
        };
        let [hours, minutes, seconds] = match fields[..] {
            [hours] => [hours, 0, 0],
            [hours, minutes] => [hours, minutes, 0],
            [hours, minutes, seconds] => [hours, minutes, seconds],
            _ => return None,
        };
        let fits = hours < 16 && minutes < 60 && seconds < 60;
        fits.then(|| {
            Self::Offset(east * (i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds)) * MICROS)
        })
    }

    /// UTC of a local time, both in microseconds. In a gap or an overlap of a region, its standard time.
    pub fn to_utc(self, local: i64) -> Option<i64> {
        match self {
            Self::Offset(offset) => local.checked_sub(offset),
            Self::Region(region) => {
                let naive: NaiveDateTime = chrono::DateTime::from_timestamp_micros(local)?.naive_utc();
                let found = region.from_local_datetime(&naive);
                match found.latest() {
                    Some(time) => Some(time.timestamp_micros()),
                    // A gap: as PostgreSQL, with the offset that held before it.
                    None => {
                        let before = region.from_local_datetime(&(naive - chrono::TimeDelta::hours(3))).latest()?;
                        Some(before.timestamp_micros() + 3 * 3600 * MICROS)
                    }
                }
            }
        }
    }

    /// Local time of UTC, both in microseconds.
    pub fn to_local(self, utc: i64) -> Option<i64> {
        match self {
            Self::Offset(offset) => utc.checked_add(offset),
            Self::Region(region) => {
                let time = chrono::DateTime::from_timestamp_micros(utc)?.with_timezone(&region);
                Some(time.naive_local().and_utc().timestamp_micros())
            }
        }
    }
}

/// An interval.
///
/// # Errors
/// 22007 for malformed text, 22015 for an interval out of range.
pub fn interval(text: &str) -> Result<IntervalMonthDayNano> {
    let read = Interval::parse(text).map_err(|why| match why {
        IntervalError::Syntax => bad_time("interval", text),
        IntervalError::Field => {
            let message = format!("interval field value out of range: \"{text}\"");
            SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, message)
        }
    })?;
    Ok(IntervalMonthDayNano::new(read.months, read.days, read.micros * 1_000))
}

/// The items of an array of one dimension; `None` for NULL.
///
/// # Errors
/// 22P02 for what is no array, 0A000 for one of several dimensions.
pub fn list(text: &str) -> Result<Vec<Option<String>>> {
    Ok(array::items(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check<T: std::fmt::Debug>(values: &[Result<T>], expected: Expect) {
        let lines = values.iter().map(|value| match value {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{} {}", error.state.0, error.message),
        });
        expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn semantics_9_bytea_in_both_forms() {
        check(
            &[bytea("\\x4142"), bytea("\\x"), bytea("a\\\\b\\101"), bytea("\\x4"), bytea("\\xzz"), bytea("\\9")],
            expect![[r#"
                [65, 66]
                []
                [97, 92, 98, 65]
                22023 invalid hexadecimal data: odd number of digits
                22023 invalid hexadecimal digit: "z"
                22P02 invalid input syntax for type bytea"#]],
        );
    }

    #[test]
    fn semantics_9_timestamps_with_zones_and_infinities() {
        check(
            &[
                timestamp("1970-01-01 00:00:01Z", true),
                timestamp("1970-01-01T02:00:00.5+02", true),
                timestamp("1970-01-01 00:00-03:30", true),
                timestamp("2013-07-01 00:00:00 America/New_York", true),
                timestamp("1970-01-01 05:00+05", false),
                timestamp("1970-01-02", false),
                timestamp("1970-01-02Z", true),
                timestamp("infinity", true),
                timestamp("-infinity", false),
                timestamp("2013-02-30", true),
                timestamp("2013-02-03 25:00", true),
                timestamp("soon", true),
                timestamp("2013-02-03 10:00 Nowhere/Land", true),
            ],
            expect![[r#"
                1000000
                500000
                12600000000
                1372651200000000
                18000000000
                86400000000
                86400000000
                9223372036854775807
                -9223372036854775808
                22008 date/time field value out of range: "2013-02-30"
                22008 date/time field value out of range: "2013-02-03 25:00"
                22007 invalid input syntax for type timestamp with time zone: "soon"
                22023 time zone "Nowhere/Land" not recognized"#]],
        );
    }

    #[test]
    fn numbers() {
        check(
            &[
                integer::<i16>(" 12 ", "smallint"),
                integer("40000", "smallint"),
                integer("1.5", "smallint"),
                integer("", "smallint"),
            ],
            expect![[r#"
                12
                22003 value "40000" is out of range for type smallint
                22P02 invalid input syntax for type smallint: "1.5"
                22P02 invalid input syntax for type smallint: """#]],
        );
        check(
            &[
                numeric("1.005", 10, 2),
                numeric("-2.5e1", 10, 0),
                numeric("1e10", 10, 2),
                numeric("1e-3", 5, 2),
                numeric("x", 5, 2),
            ],
            expect![[r#"
                101
                -25
                22003 numeric field overflow
                0
                22P02 invalid input syntax for type numeric: "x""#]],
        );
        check(
            &[
                float::<f64>("1e3", "double precision"),
                float("-Infinity", "double precision"),
                float("1e999", "double precision"),
            ],
            expect![[r#"
                1000.0
                -inf
                22003 value "1e999" is out of range for type double precision"#]],
        );
    }

    #[test]
    fn other_types() {
        check(
            &[boolean("t"), boolean(" YES "), boolean("off"), boolean("o"), boolean("2")],
            expect![[r#"
                true
                true
                false
                22P02 invalid input syntax for type boolean: "o"
                22P02 invalid input syntax for type boolean: "2""#]],
        );
        check(
            &[json(r#"{"bb": 1, "a": [1.50, null], "bb": 2}"#, "jsonb"), json("{", "jsonb")],
            expect![[r#"
                "{\"a\": [1.50, null], \"bb\": 2}"
                22P02 invalid input syntax for type jsonb"#]],
        );
        check(
            &[date("2013-01-02"), date("1969-12-31"), date("2013-13-01")],
            expect![[r#"
            15707
            -1
            22008 date/time field value out of range: "2013-13-01""#]],
        );
        check(
            &[list("{}"), list(r#"{a,"b c",NULL}"#), list("a")],
            expect![[r#"
            []
            [Some("a"), Some("b c"), None]
            22P02 malformed array literal: "a""#]],
        );
        assert!(uuid("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").is_ok());
        assert!(uuid("a0eebc99").is_err());
    }
}
