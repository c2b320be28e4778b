//! Values as text, in the formats of PostgreSQL.
//!
//! [`Value::parse`] accepts what PostgreSQL's input functions accept (except for words that need a clock, such as
//! `now`); [`Value::to_text`] prints as its output functions do, with date style ISO, bytea in hex, and times in UTC.

use super::{
    SqlType, Value, array, bits,
    calendar::{FIRST_DAY, MICROS_PER_DAY, civil_from_days, days_from_civil, is_timestamp},
    clock::{TimeError, parse_time as parse_clock, write_time},
    exact::Exact,
    fit::{NUMERIC_DIGITS_MAX, fit_numeric},
    interval::{Interval, IntervalError},
    jsonb,
};
use crate::{Error, ErrorKind, Result};
use std::fmt::Write;

/// The last year of a `date`.
const LAST_YEAR: i64 = 5_874_897;
const SECONDS_PER_DAY: i64 = 86_400;

impl Value {
    /// Parses a value of the type; never NULL.
    ///
    /// # Errors
    /// [`BadValue`](ErrorKind::BadValue) for a text that is not a value of the type (22P02), and those of
    /// [`Value::fit`].
    pub fn parse(text: &str, kind: SqlType) -> Result<Value> {
        let read = match kind {
            SqlType::Bool => parse_bool(text).map(Value::Bool),
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => return parse_int(text, kind),
            SqlType::Float4 | SqlType::Float8 => return parse_float(text, kind),
            SqlType::Numeric { precision, scale } => return parse_numeric(text, kind, precision, scale),
            SqlType::Exact(_) => {
                let exact = Exact::parse(text).ok_or_else(|| bad_syntax(text, SqlType::Exact(None)))??;
                return Value::Exact(exact).into_fit(kind);
            }
            SqlType::Jsonb => return jsonb::normal(text).map(Value::Text),
            SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json => {
                return Value::Text(text.to_owned()).into_fit(kind);
            }
            SqlType::Bit(_) | SqlType::Varbit(_) => {
                return Value::Text(bits::parse(text)?.into_owned()).into_fit(kind);
            }
            SqlType::Bytea => parse_bytea(text).map(|bytes| Value::Bytes(bytes.into())),
            SqlType::Date => return parse_date(text, kind),
            SqlType::Timestamp(_) | SqlType::Timestamptz(_) => return parse_timestamp(text, kind),
            SqlType::Time(_) => return time_of_day(text, kind),
            SqlType::Interval(_) => return interval(text, kind),
            SqlType::Uuid => parse_uuid(text).map(Value::Uuid),
            SqlType::Array(item) => return array::parse(text, item).map(Value::Array),
        };
        read.ok_or_else(|| bad_syntax(text, kind))
    }

    /// The value as text; empty for NULL. A `real` needs its type to print its shortest form.
    pub fn to_text(&self, kind: SqlType) -> String {
        match self {
            Self::Null => String::new(),
            Self::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
            Self::Int(n) => n.to_string(),
            Self::Float(value) => float_text(*value, kind == SqlType::Float4),
            Self::Numeric { unscaled, scale } => numeric_text(*unscaled, *scale),
            Self::Exact(exact) => exact.to_text(),
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => bytes.iter().fold(String::from("\\x"), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            }),
            Self::Date(i32::MIN) | Self::Timestamp(i64::MIN) => "-infinity".to_owned(),
            Self::Date(i32::MAX) | Self::Timestamp(i64::MAX) => "infinity".to_owned(),
            Self::Date(days) => {
                let (date, era) = date_text(i64::from(*days));
                date + era
            }
            Self::Timestamp(micros) => timestamp_text(*micros, matches!(kind, SqlType::Timestamptz(_))),
            Self::Time(micros) => {
                let mut text = String::with_capacity(16);
                write_time(*micros, &mut text);
                text
            }
            Self::Interval(span) => {
                let mut text = String::new();
                span.write(&mut text);
                text
            }
            Self::Uuid(uuid) => uuid_text(uuid),
            Self::Array(items) => match kind {
                SqlType::Array(item) => array::to_text(items, item),
                _ => String::new(),
            },
        }
    }
}

fn bad_syntax(text: &str, kind: SqlType) -> Error {
    // PostgreSQL's input functions omit `without time zone` from the names of these types.
    let kind = match kind {
        SqlType::Time(_) => "time".to_owned(),
        SqlType::Timestamp(_) => "timestamp".to_owned(),
        kind => kind.to_string(),
    };
    Error::new(ErrorKind::BadValue, format!("invalid input syntax for type {kind}: \"{text}\""))
}

fn out_of_range(text: &str, kind: SqlType) -> Error {
    Error::new(ErrorKind::OutOfRange, format!("value \"{text}\" is out of range for type {kind}"))
}

fn parse_bool(text: &str) -> Option<bool> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    match () {
        () if word == "1" || starts("true", 1) || starts("yes", 1) || word == "on" => Some(true),
        () if word == "0" || starts("false", 1) || starts("no", 1) || starts("off", 2) => Some(false),
        () => None,
    }
}

fn parse_int(text: &str, kind: SqlType) -> Result<Value> {
    let trimmed = text.trim();
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad_syntax(text, kind));
    }
    // With valid syntax, parsing can only fail because of the size.
    let value = trimmed.parse().map(Value::Int).map_err(|_| out_of_range(text, kind))?;
    value.fit(kind).map(|value| value.into_owned()).map_err(|_| out_of_range(text, kind))
}

fn parse_float(text: &str, kind: SqlType) -> Result<Value> {
    let trimmed = text.trim();
    let value: f64 = trimmed.parse().map_err(|_| bad_syntax(text, kind))?;
    let written_digits = trimmed.bytes().any(|byte| byte.is_ascii_digit());
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let underflow = value == 0.0 && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let overflow = value.is_infinite() && written_digits;
    let too_small = kind == SqlType::Float4 && Value::Float(value).fit(kind).is_err();
    if underflow || overflow || too_small {
        return Err(Error::new(ErrorKind::OutOfRange, format!("\"{text}\" is out of range for type {kind}")));
    }
    // Parse again: rounding to a double and then to a real may differ from rounding once.
    let single = || trimmed.parse::<f32>().map_or(value, f64::from);
    let value = if kind == SqlType::Float4 { single() } else { value };
    // NaN has no sign.
    Ok(Value::Float(if value.is_nan() { f64::NAN } else { value }))
}

fn parse_numeric(text: &str, kind: SqlType, precision: u8, scale: u8) -> Result<Value> {
    let (mantissa, exponent) = match text.trim().split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| bad_syntax(text, kind))?),
        None => (text.trim(), 0),
    };
    let (negative, digits) = match mantissa.as_bytes() {
        [b'-', ..] => (true, &mantissa[1..]),
        [b'+', ..] => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
        return Err(bad_syntax(text, kind));
    }
    // The position of the point in the digits without leading zeros.
    let zeros = all.iter().take_while(|&&digit| digit == b'0').count();
    let significant = &all[zeros..];
    let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let point = length(whole.len()) - length(zeros) + i64::from(exponent);
    // The digits to keep; the next one decides the rounding.
    let kept = point.saturating_add(i64::from(scale));
    if significant.is_empty() || kept < 0 {
        return fit_numeric(0, 0, precision, scale);
    }
    if kept > i64::from(NUMERIC_DIGITS_MAX) {
        // More digits before the point than the type allows: refused with the error of the type's own check.
        return fit_numeric(i128::MAX, scale, precision, scale);
    }
    let mut digits = significant.iter().copied().chain(std::iter::repeat(b'0'));
    let whole = digits.by_ref().take(kept as usize).fold(0i128, |n, digit| n * 10 + i128::from(digit - b'0'));
    let rounded = whole + i128::from(digits.next().is_some_and(|digit| digit >= b'5'));
    fit_numeric(if negative { -rounded } else { rounded }, scale, precision, scale)
}

fn parse_bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        return from_hex(&digits);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let Some((&byte, rest)) = bytes.split_first() {
        bytes = rest;
        match (byte, rest) {
            (b'\\', [b'\\', rest @ ..]) => {
                out.push(b'\\');
                bytes = rest;
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                bytes = rest;
            }
            (b'\\', _) => return None,
            _ => out.push(byte),
        }
    }
    Some(out)
}

/// A date with its time of day and the offset of its zone from UTC.
#[derive(Debug, PartialEq)]
struct DateTime {
    days: i64,
    micros_of_day: i64,
    offset_seconds: i64,
}

/// Why a text is not a valid date or timestamp.
enum DateTimeError {
    Syntax,
    /// A field is out of range.
    Field,
}

fn infinity(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "infinity" | "+infinity" => Some(true),
        "-infinity" => Some(false),
        _ => None,
    }
}

fn parse_date(text: &str, kind: SqlType) -> Result<Value> {
    match infinity(text) {
        Some(plus) => return Ok(Value::Date(if plus { i32::MAX } else { i32::MIN })),
        None if text.trim().eq_ignore_ascii_case("epoch") => return Ok(Value::Date(0)),
        None => {}
    }
    let datetime = parse_datetime(text).map_err(|why| datetime_error(text, kind, &why))?;
    i32::try_from(datetime.days).map(Value::Date).map_err(|_| out_of_range(text, kind))
}

fn parse_timestamp(text: &str, kind: SqlType) -> Result<Value> {
    let datetime = match parse_plain_datetime(text.as_bytes()) {
        Some(datetime) => datetime,
        None => match infinity(text) {
            Some(plus) => return Ok(Value::Timestamp(if plus { i64::MAX } else { i64::MIN })),
            None if text.trim().eq_ignore_ascii_case("epoch") => return Ok(Value::Timestamp(0)),
            None => parse_datetime(text).map_err(|why| datetime_error(text, kind, &why))?,
        },
    };
    let offset = if matches!(kind, SqlType::Timestamptz(_)) { datetime.offset_seconds * 1_000_000 } else { 0 };
    let micros = datetime
        .days
        .checked_mul(MICROS_PER_DAY)
        .and_then(|micros| micros.checked_add(datetime.micros_of_day - offset))
        .filter(|micros| is_timestamp(*micros) && *micros != i64::MIN && *micros != i64::MAX);
    micros.map(Value::Timestamp).ok_or_else(|| out_of_range(text, kind))
}

fn time_of_day(text: &str, kind: SqlType) -> Result<Value> {
    parse_clock(text).map(Value::Time).map_err(|why| match why {
        TimeError::Syntax => bad_syntax(text, kind),
        TimeError::Field => datetime_error(text, kind, &DateTimeError::Field),
    })
}

fn interval(text: &str, kind: SqlType) -> Result<Value> {
    Interval::parse(text).map(Value::Interval).map_err(|why| match why {
        IntervalError::Syntax => bad_syntax(text, kind),
        IntervalError::Field => {
            Error::new(ErrorKind::OutOfRange, format!("interval field value out of range: \"{text}\""))
        }
    })
}

fn datetime_error(text: &str, kind: SqlType, why: &DateTimeError) -> Error {
    match why {
        DateTimeError::Syntax => bad_syntax(text, kind),
        DateTimeError::Field => {
            Error::new(ErrorKind::OutOfRange, format!("date/time field value out of range: \"{text}\""))
        }
    }
}

/// A fast path of [`parse_datetime`] for the most frequent form, `2024-01-31 23:59:59.5+00`, in UTC or without a zone.
/// `None` for every other form and for fields that may be out of range.
fn parse_plain_datetime(text: &[u8]) -> Option<DateTime> {
    let (head, rest) = text.split_first_chunk::<19>()?;
    let digit = |byte: u8| Some(i64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    let two = |at: usize| Some(digit(head[at])? * 10 + digit(head[at + 1])?);
    if [head[4], head[7], head[13], head[16]] != *b"--::" || !matches!(head[10], b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (two(0)? * 100 + two(2)?, two(5)?, two(8)?);
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if year == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())),
        None => (&[][..], rest),
    };
    if fraction.len() > 6 || !matches!(zone, b"" | b"Z" | b"+00" | b"+00:00") {
        return None;
    }
    let digits = fraction.iter().map(|byte| i64::from(byte - b'0')).chain(std::iter::repeat(0)).take(6);
    let micros = digits.fold(0, |n, digit| n * 10 + digit);
    let days = days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    let micros_of_day = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    Some(DateTime { days, micros_of_day, offset_seconds: 0 })
}

fn parse_datetime(text: &str) -> Result<DateTime, DateTimeError> {
    let text = text.trim();
    let (text, before_christ) = match text.len().checked_sub(3).and_then(|at| text.split_at_checked(at)) {
        Some((rest, era)) if era.eq_ignore_ascii_case(" BC") => (rest, true),
        Some((rest, era)) if era.eq_ignore_ascii_case(" AD") => (rest, false),
        _ => (text, false),
    };
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, ""),
    };
    // A date with a zone and no time; a date has at least eight characters.
    let zone =
        if time.is_empty() { date.char_indices().skip(8).find(|(_, c)| matches!(c, 'Z' | 'z' | '+')) } else { None };
    let (date, zone) = zone.map_or((date, ""), |(at, _)| date.split_at(at));
    let days = parse_days(date, before_christ)?;
    let (micros_of_day, offset_seconds) = if time.is_empty() { (0, parse_zone(zone)?) } else { parse_time(time)? };
    Ok(DateTime { days, micros_of_day, offset_seconds })
}

fn parse_days(date: &str, before_christ: bool) -> Result<i64, DateTimeError> {
    let fields: Vec<&str> = date.split('-').collect();
    let (year, month, day) = match fields.as_slice() {
        [year, month, day] => (*year, *month, *day),
        [all] if all.len() == 8 && all.is_ascii() => (&all[..4], &all[4..6], &all[6..]),
        _ => return Err(DateTimeError::Syntax),
    };
    if year.len() < 3 || month.len() > 2 || day.len() > 2 {
        return Err(DateTimeError::Syntax);
    }
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    if !(1..=LAST_YEAR).contains(&year) {
        return Err(DateTimeError::Field);
    }
    let year = if before_christ { 1 - year } else { year };
    let days = days_from_civil(year, u32::try_from(month).unwrap_or(0), u32::try_from(day).unwrap_or(0));
    days.filter(|days| *days >= FIRST_DAY).ok_or(DateTimeError::Field)
}

/// The time of day in microseconds, and the offset of the zone in seconds east of UTC.
fn parse_time(time: &str) -> Result<(i64, i64), DateTimeError> {
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(time.len());
    let (clock, zone) = (&time[..end], time[end..].trim());
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut fields = whole.split(':');
    let mut field = |needed: bool| match fields.next() {
        Some(text) if (1..=2).contains(&text.len()) => number(text),
        None if !needed => Ok(0),
        _ => Err(DateTimeError::Syntax),
    };
    let (hour, minute, second) = (field(true)?, field(true)?, field(false)?);
    if fields.next().is_some() {
        return Err(DateTimeError::Syntax);
    }
    let micros = parse_fraction(fraction)?;
    let seconds = (hour * 60 + minute) * 60 + second;
    let of_day = seconds * 1_000_000 + micros;
    if minute > 59 || second > 60 || of_day > MICROS_PER_DAY {
        return Err(DateTimeError::Field);
    }
    Ok((of_day, parse_zone(zone)?))
}

/// Parses the digits after the point as microseconds, rounded.
fn parse_fraction(fraction: &str) -> Result<i64, DateTimeError> {
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DateTimeError::Syntax);
    }
    let digits = fraction.bytes().map(|byte| i64::from(byte - b'0')).chain(std::iter::repeat(0)).take(7);
    let tenths = digits.fold(0, |n, digit| n * 10 + digit);
    Ok((tenths + 5) / 10)
}

fn parse_zone(zone: &str) -> Result<i64, DateTimeError> {
    if zone.is_empty() || ["z", "utc", "gmt"].iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    let (sign, digits) = match zone.as_bytes() {
        [b'+', ..] => (1, &zone[1..]),
        [b'-', ..] => (-1, &zone[1..]),
        _ => return Err(DateTimeError::Syntax),
    };
    let (hours, minutes, seconds) = match digits.split(':').collect::<Vec<_>>().as_slice() {
        [hours, minutes, seconds] => (number(hours)?, number(minutes)?, number(seconds)?),
        [hours, minutes] => (number(hours)?, number(minutes)?, 0),
        [hours] if hours.len() <= 2 => (number(hours)?, 0, 0),
        [both] if both.len() == 4 && both.is_ascii() => (number(&both[..2])?, number(&both[2..])?, 0),
        _ => return Err(DateTimeError::Syntax),
    };
    let offset = (hours * 60 + minutes) * 60 + seconds;
    if hours > 15 || minutes > 59 || seconds > 59 || offset > SECONDS_PER_DAY {
        return Err(DateTimeError::Field);
    }
    Ok(sign * offset)
}

/// Parses a number of at most nine digits.
fn number(text: &str) -> Result<i64, DateTimeError> {
    if text.is_empty() || text.len() > 9 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DateTimeError::Syntax);
    }
    text.parse().map_err(|_| DateTimeError::Syntax)
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let text = text.strip_prefix('{').map_or(Some(text), |text| text.strip_suffix('}'))?;
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            // PostgreSQL accepts a hyphen after each group of four.
            b'-' if !digits.is_empty() && digits.len() % 4 == 0 && digits.len() < 32 => {}
            byte => digits.push(byte),
        }
    }
    from_hex(&digits)?.try_into().ok()
}

/// Decodes pairs of hexadecimal digits.
fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
    digits.chunks(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(*pair.get(1)?)?)).collect()
}

/// The shortest digits that parse back to the same number, with an exponent where PostgreSQL's `float8out` prints one.
fn float_text(value: f64, single: bool) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = if single { format!("{:e}", value as f32) } else { format!("{value:e}") };
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..if single { 6 } else { 15 }).contains(&exponent) {
        return if single { (value as f32).to_string() } else { value.to_string() };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn numeric_text(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// The date, and the suffix ` BC` if it lies before year 1.
fn date_text(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year < 1 { (1 - year, " BC") } else { (year, "") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn timestamp_text(micros: i64, zone: bool) -> String {
    let (mut text, era) = date_text(micros.div_euclid(MICROS_PER_DAY));
    let of_day = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let _ = write!(text, " {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        text.push('.');
        text.push_str(digits.trim_end_matches('0'));
    }
    if zone {
        text.push_str("+00");
    }
    text + era
}

fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The error for a text that is no JSON: PostgreSQL names the type json for jsonb, too.
pub(super) fn bad_json(error: &serde_json::Error) -> Error {
    Error::new(ErrorKind::BadValue, "invalid input syntax for type json").with_detail(format!("{error}."))
}

/// Checks that the text is valid JSON.
pub(super) fn check_json(text: &str) -> Result<()> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|error| bad_json(&error))
}

#[cfg(test)]
mod tests;
