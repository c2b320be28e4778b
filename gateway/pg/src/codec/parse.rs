//! Reads values of PostgreSQL's types from text. Pure.

use crate::{
    datetime::{Input, moments, spans},
    error::{Result, SqlError, SqlState},
};
use arrow::datatypes::IntervalMonthDayNano;
use keyspan_catalog::value::{array, exact::Exact, jsonb};
use std::str::FromStr;

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
    // What is too small for a float is no 0.
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let vanished = || value.into() == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if value.into().is_infinite() && !spelled || vanished() {
        let message = format!("\"{text}\" is out of range for type {kind}");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    Ok(value)
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
///
/// # Errors
/// 22P02 for what is no JSON; 22P05 for the character of number 0.
pub fn jsonb(text: &str) -> Result<String> {
    Ok(jsonb::normal(text)?)
}

/// A date: days since 1970; the infinities are the ends of the range.
///
/// # Errors
/// Those of [`moments::date`].
pub fn date(text: &str, input: Input<'_>) -> Result<i32> {
    moments::date(text, input)
}

/// A time of day in microseconds.
///
/// # Errors
/// Those of [`moments::time`].
pub fn time(text: &str, input: Input<'_>) -> Result<i64> {
    moments::time(text, input)
}

/// A `timestamp`, or a `timestamptz` when `zoned`: microseconds since 1970, the infinities at the ends.
///
/// # Errors
/// Those of [`moments::timestamp`].
pub fn timestamp(text: &str, zoned: bool, input: Input<'_>) -> Result<i64> {
    moments::timestamp(text, zoned, input)
}

/// An interval.
///
/// # Errors
/// Those of [`spans::parse`].
pub fn interval(text: &str, input: Input<'_>) -> Result<IntervalMonthDayNano> {
    let read = spans::parse(text, input.style)?;
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
                timestamp("1970-01-01 00:00:01Z", true, Input::initial()),
                timestamp("1970-01-01T02:00:00.5+02", true, Input::initial()),
                timestamp("1970-01-01 00:00-03:30", true, Input::initial()),
                timestamp("2013-07-01 00:00:00 America/New_York", true, Input::initial()),
                timestamp("1970-01-01 05:00+05", false, Input::initial()),
                timestamp("1970-01-02", false, Input::initial()),
                timestamp("1970-01-02Z", true, Input::initial()),
                timestamp("infinity", true, Input::initial()),
                timestamp("-infinity", false, Input::initial()),
                timestamp("2013-02-30", true, Input::initial()),
                timestamp("2013-02-03 25:00", true, Input::initial()),
                timestamp("soon", true, Input::initial()),
                timestamp("2013-02-03 10:00 Nowhere/Land", true, Input::initial()),
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
                22023 time zone "nowhere/land" not recognized"#]],
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
                22003 "1e999" is out of range for type double precision"#]],
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
            &[jsonb(r#"{"bb": 1, "a": [1.50, null], "bb": 2}"#), jsonb("{")],
            expect![[r#"
                "{\"a\": [1.50, null], \"bb\": 2}"
                22P02 invalid input syntax for type json"#]],
        );
        check(
            &[
                date("2013-01-02", Input::initial()),
                date("1969-12-31", Input::initial()),
                date("2013-13-01", Input::initial()),
            ],
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
