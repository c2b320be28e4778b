//! Values as text, as PostgreSQL prints them where Arrow prints otherwise. Pure.

use arrow::{
    array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder},
    compute::cast,
    datatypes::{DataType, Date32Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType},
};
use datafusion::error::Result;
use keyspan_catalog::{SqlType, Value};
use std::fmt::Write;

/// The texts of an array's values.
///
/// # Errors
/// For a type that has no text.
pub fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    let mut out = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().for_each(|value| {
            out.append_option(value.map(|value| float(f64::from(value), &format!("{value:e}"))));
        }),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().for_each(|value| {
            out.append_option(value.map(|value| float(value, &format!("{value:e}"))));
        }),
        DataType::Timestamp(_, zone) => {
            let zoned = zone.is_some();
            let micros = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            micros.as_primitive::<TimestampMicrosecondType>().iter().for_each(|value| {
                out.append_option(value.map(|value| timestamp(value, zoned)));
            });
        }
        DataType::Date32 => {
            array.as_primitive::<Date32Type>().iter().for_each(|value| out.append_option(value.map(date)))
        }
        DataType::Binary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::Binary)?;
            bytes.as_binary::<i32>().iter().for_each(|value| out.append_option(value.map(bytea)));
        }
        DataType::FixedSizeBinary(16) => array.as_fixed_size_binary().iter().for_each(|value| {
            out.append_option(
                value.map(|value| uuid::Uuid::from_slice(value).map(|uuid| uuid.to_string()).unwrap_or_default()),
            );
        }),
        DataType::Time64(_)
        | DataType::Interval(_)
        | DataType::List(_)
        | DataType::Struct(_)
        | DataType::LargeBinary
        | DataType::Decimal256(..)
        | DataType::Decimal128(..) => {
            return shown(array);
        }
        _ => return Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
    }
    Ok(out.finish())
}

/// Values as a client is sent them in text.
fn shown(array: &ArrayRef) -> Result<StringViewArray> {
    let told = |error| datafusion::error::DataFusionError::External(Box::new(error));
    let kind = crate::types::pg_type(&arrow::datatypes::Field::new("", array.data_type().clone(), true));
    let column = crate::codec::column::Column::new(array, &kind, crate::codec::format::Format::Text).map_err(told)?;
    let mut out = StringViewBuilder::with_capacity(array.len());
    let mut text = bytes::BytesMut::new();
    for row in 0..array.len() {
        if column.is_null(row) {
            out.append_null();
            continue;
        }
        text.clear();
        column.write(row, &mut text).map_err(told)?;
        out.append_value(String::from_utf8_lossy(&text));
    }
    Ok(out.finish())
}

/// A float with the fewest digits that tell it apart; `scientific` is the same in scientific notation.
fn float(value: f64, scientific: &str) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..15).contains(&exponent) {
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let sign = if mantissa.starts_with('-') { "-" } else { "" };
        return format!("{sign}{}", plain(&digits, exponent));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Digits with the point after the first, moved by an exponent.
fn plain(digits: &str, exponent: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if exponent < 0 {
        let zeroes = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("0.{}{digits}", "0".repeat(zeroes));
    }
    if exponent + 1 >= count {
        let zeroes = usize::try_from(exponent + 1 - count).unwrap_or(0);
        return format!("{digits}{}", "0".repeat(zeroes));
    }
    let (whole, fraction) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(0));
    format!("{whole}.{fraction}")
}

/// A date: `2013-01-02`.
fn date(days: i32) -> String {
    Value::Date(days).to_text(SqlType::Date)
}

/// A timestamp: `2013-01-02 03:04:05.6`, with `+00` if `zoned`.
fn timestamp(micros: i64, zoned: bool) -> String {
    Value::Timestamp(micros).to_text(if zoned { SqlType::Timestamptz } else { SqlType::Timestamp })
}

/// Bytes: `\x4142`.
fn bytea(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + bytes.len() * 2);
    out.push_str("\\x");
    for byte in bytes {
        let written = write!(out, "{byte:02x}");
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_postgres_prints_them() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.789, "123456.789"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expected) in cases {
            assert_eq!(float(value, &format!("{value:e}")), expected);
        }
    }

    #[test]
    fn semantics_9_times_are_as_postgres_prints_them() {
        assert_eq!(timestamp(1_357_095_845_600_000, false), "2013-01-02 03:04:05.6");
        assert_eq!(timestamp(0, true), "1970-01-01 00:00:00+00");
        assert_eq!(timestamp(-1, true), "1969-12-31 23:59:59.999999+00");
        assert_eq!(timestamp(i64::MAX, true), "infinity");
        assert_eq!(date(15_707), "2013-01-02");
        assert_eq!(bytea(b"AB\xff"), "\\x4142ff");
    }
}
