//! Floating-point numbers as PostgreSQL prints them: the shortest digits that give the number back, with an exponent
//! from 10^15 (10^6 for `real`) and below 10^-4.

use bytes::{BufMut, BytesMut};

/// The least number but zero that is written without an exponent.
const PLAIN_MIN: f64 = 1e-4;

/// Writes a `double precision`.
#[inline]
pub fn write_f64(value: f64, out: &mut BytesMut) {
    if (PLAIN_MIN..1e15).contains(&value.abs()) {
        return write_plain(value, value, out);
    }
    match special(value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        Some(text) => out.put_slice(text),
        None => reformat(ryu::Buffer::new().format_finite(value), 15, out),
    }
}

/// Writes a `real`.
#[inline]
pub fn write_f32(value: f32, out: &mut BytesMut) {
    if (PLAIN_MIN as f32..1e6).contains(&value.abs()) {
        return write_plain(value, value.into(), out);
    }
    match special(value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        Some(text) => out.put_slice(text),
        None => reformat(ryu::Buffer::new().format_finite(value), 6, out),
    }
}

/// Writes a number that has no exponent, `wide` as a `double precision`: a whole one without a point, others as the
/// library does, which is as PostgreSQL does.
#[inline]
fn write_plain(value: impl ryu::Float, wide: f64, out: &mut BytesMut) {
    match wide.trunc() == wide {
        true => out.put_slice(itoa::Buffer::new().format(wide as i64).as_bytes()),
        false => out.put_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
    }
}

/// Digits of a `double precision` that are always right.
pub const F64_DIGITS: i8 = 15;
/// Digits of a `real` that are always right.
pub const F32_DIGITS: i8 = 6;

/// How many digits a float has by `extra_float_digits`, where that is 0 or less.
pub fn digits(always: i8, extra: i8) -> usize {
    usize::try_from(always.saturating_add(extra)).map_or(1, |digits| digits.max(1))
}

/// Writes a float rounded to a number of digits, as C's `%.*g` does.
pub fn write_rounded(value: f64, digits: usize, out: &mut BytesMut) {
    match special(value.is_nan(), value.is_infinite(), value.is_sign_negative()) {
        Some(text) => out.put_slice(text),
        None => {
            let text = format!("{value:.*e}", digits.saturating_sub(1));
            reformat(&text, i32::try_from(digits).unwrap_or(i32::MAX), out);
        }
    }
}

fn special(nan: bool, infinite: bool, negative: bool) -> Option<&'static [u8]> {
    match (nan, infinite, negative) {
        (true, ..) => Some(b"NaN"),
        (_, true, true) => Some(b"-Infinity"),
        (_, true, false) => Some(b"Infinity"),
        _ => None,
    }
}

/// From the library's form (`1.5`, `1e16`, `1.5e-7`) to PostgreSQL's. `plain_max` is the first exponent that is written
/// as one.
fn reformat(text: &str, plain_max: i32, out: &mut BytesMut) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    if negative {
        out.put_u8(b'-');
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let joined: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let leading = joined.iter().take_while(|digit| **digit == b'0').count();
    let mut digits = &joined[leading..];
    while let [rest @ .., b'0'] = digits {
        digits = rest;
    }
    if digits.is_empty() {
        return out.put_u8(b'0');
    }
    // The number is 0.digits × 10^point, and `exponent` that of its first digit.
    let point = exponent.parse::<i32>().unwrap_or(0) + whole.len() as i32 - leading as i32;
    let exponent = point - 1;
    if exponent < -4 || exponent >= plain_max {
        out.put_u8(digits[0]);
        if digits.len() > 1 {
            out.put_u8(b'.');
            out.put_slice(&digits[1..]);
        }
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        if exponent.abs() < 10 {
            out.put_u8(b'0');
        }
        out.put_slice(itoa::Buffer::new().format(exponent.abs()).as_bytes());
    } else if point <= 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', point.unsigned_abs() as usize);
        out.put_slice(digits);
    } else {
        let point = point as usize;
        let whole = &digits[..point.min(digits.len())];
        out.put_slice(whole);
        out.put_bytes(b'0', point - whole.len());
        if digits.len() > point {
            out.put_u8(b'.');
            out.put_slice(&digits[point..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn double(value: f64) -> String {
        let mut out = BytesMut::new();
        write_f64(value, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn single(value: f32) -> String {
        let mut out = BytesMut::new();
        write_f32(value, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    // What PostgreSQL 15 prints.
    #[test]
    fn doubles_are_printed_as_postgres_does() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (-100.0, "-100"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (-0.00009999, "-9.999e-05"),
            (0.00001, "1e-05"),
            (0.000015, "1.5e-05"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e+15"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1e22, "1e+22"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (1e-100, "1e-100"),
            (2.414213562373095, "2.414213562373095"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn reals_are_printed_as_postgres_does() {
        for (value, text) in [
            (0.1f32, "0.1"),
            (123456.0, "123456"),
            (999999.0, "999999"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (16777216.0, "1.6777216e+07"),
            (1.1754944e-38, "1.1754944e-38"),
        ] {
            assert_eq!(single(value), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_the_number(value: f64) {
            prop_assume!(value.is_finite());
            prop_assert_eq!(double(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }

        // What is short is written as what is not.
        #[test]
        fn plain_numbers_are_printed_as_others_are(
            whole in -2_000_000i64..2_000_000,
            below in 0u32..8,
            far in any::<f64>(),
        ) {
            let near = whole as f64 / 10f64.powi(below as i32);
            for value in [near, near * 1e9, far] {
                prop_assume!(value.is_finite());
                let (mut by_parts, mut by_parts_single) = (BytesMut::new(), BytesMut::new());
                reformat(ryu::Buffer::new().format_finite(value), 15, &mut by_parts);
                prop_assert_eq!(double(value).into_bytes(), &by_parts[..]);
                let value = value as f32;
                if value.is_finite() {
                    reformat(ryu::Buffer::new().format_finite(value), 6, &mut by_parts_single);
                    prop_assert_eq!(single(value).into_bytes(), &by_parts_single[..]);
                }
            }
        }
    }
}
