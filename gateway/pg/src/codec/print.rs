//! Values as text, as PostgreSQL prints them where Arrow prints otherwise. Pure.

use crate::datetime::Style;
use arrow::{
    array::{Array, ArrayRef, AsArray, StringViewArray, StringViewBuilder},
    compute::cast,
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion::error::Result;

/// The texts of an array's values.
///
/// # Errors
/// For a type that has no text.
pub fn texts(array: &ArrayRef, style: &Style) -> Result<StringViewArray> {
    let mut out = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Float32 if style.extra_float_digits > 0 => {
            array.as_primitive::<Float32Type>().iter().for_each(|value| {
                out.append_option(value.map(|value| float(f64::from(value), &format!("{value:e}"))));
            });
        }
        DataType::Float64 if style.extra_float_digits > 0 => {
            array.as_primitive::<Float64Type>().iter().for_each(|value| {
                out.append_option(value.map(|value| float(value, &format!("{value:e}"))));
            });
        }
        DataType::FixedSizeBinary(16) => array.as_fixed_size_binary().iter().for_each(|value| {
            out.append_option(
                value.map(|value| uuid::Uuid::from_slice(value).map(|uuid| uuid.to_string()).unwrap_or_default()),
            );
        }),
        DataType::Float32
        | DataType::Float64
        | DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Binary
        | DataType::BinaryView
        | DataType::Time64(_)
        | DataType::Interval(_)
        | DataType::List(_)
        | DataType::Struct(_)
        | DataType::LargeBinary
        | DataType::Decimal256(..)
        | DataType::Decimal128(..) => {
            return shown(array, style);
        }
        _ => return Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
    }
    Ok(out.finish())
}

/// Values as a client is sent them in text.
fn shown(array: &ArrayRef, style: &Style) -> Result<StringViewArray> {
    let told = |error| datafusion::error::DataFusionError::External(Box::new(error));
    let kind = crate::types::pg_type(&arrow::datatypes::Field::new("", array.data_type().clone(), true));
    let column =
        crate::codec::column::Column::new(array, &kind, crate::codec::format::Format::Text, style).map_err(told)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Date32Array, TimestampMicrosecondArray};
    use std::sync::Arc;

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
        let check = |array: ArrayRef, expected: &str| {
            let texts = texts(&array, Style::initial()).unwrap();
            assert_eq!(texts.value(0), expected);
        };
        let stamp = |micros, zone: Option<&str>| -> ArrayRef {
            Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone_opt(zone.map(str::to_owned)))
        };
        check(stamp(1_357_095_845_600_000, None), "2013-01-02 03:04:05.6");
        check(stamp(0, Some("+00:00")), "1970-01-01 00:00:00+00");
        check(stamp(-1, Some("+00:00")), "1969-12-31 23:59:59.999999+00");
        check(stamp(i64::MAX, Some("+00:00")), "infinity");
        check(Arc::new(Date32Array::from(vec![15_707])), "2013-01-02");
        check(Arc::new(BinaryArray::from(vec![b"AB\xff".as_slice()])), "\\x4142ff");
    }
}
