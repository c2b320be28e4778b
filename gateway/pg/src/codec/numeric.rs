//! `numeric`, from and to decimal digits.
//!
//! The binary form (`numeric_send`) is groups of four decimal digits: their number, the weight of the first as a power
//! of 10,000, the sign, the display scale, and the groups.

use bytes::{Buf, BufMut, BytesMut};

/// Sign of a binary numeric below zero.
const NEGATIVE: u16 = 0x4000;
/// Sign of the binary numeric NaN.
const NAN: u16 = 0xC000;
/// Sign of infinity.
const INFINITY: u16 = 0xD000;
/// Sign of its opposite.
const MINUS_INFINITY: u16 = 0xF000;
/// Groups of four digits in 64 bits.
const GROUPS_MAX: usize = 5;
/// Digits that a numeric in a parameter may have before the point.
const WHOLE_DIGITS_MAX: usize = 131_072;
/// Digits after it.
const SCALE_MAX: usize = 16_383;

/// Writes an unscaled integer as text with `scale` digits after the point.
#[inline]
pub fn write_text(unscaled: i128, scale: i8, out: &mut BytesMut) {
    match i64::try_from(unscaled) {
        Ok(unscaled) => write_digits_text(itoa::Buffer::new().format(unscaled), scale, out),
        Err(_) => write_digits_text(itoa::Buffer::new().format(unscaled), scale, out),
    }
}

/// Writes the same in the binary form.
#[inline]
pub fn write_binary(unscaled: i128, scale: i8, out: &mut BytesMut) {
    let shown = usize::try_from(scale);
    // So that the groups of four begin at the point.
    let aligned = |shown: usize| {
        let factor = 10_u64.pow((4 - shown as u32 % 4) % 4);
        u64::try_from(unscaled.unsigned_abs()).ok()?.checked_mul(factor)
    };
    let Some((shown, mut left)) = shown.ok().and_then(|shown| Some((shown, aligned(shown)?))) else {
        return write_digits_binary(itoa::Buffer::new().format(unscaled), scale, out);
    };
    let (mut groups, mut count) = ([0_u16; GROUPS_MAX], 0);
    while left > 0 {
        groups[count] = (left % 10_000) as u16;
        left /= 10_000;
        count += 1;
    }
    let weight = count as i16 - shown.div_ceil(4) as i16 - 1;
    let zeros = groups[..count].iter().take_while(|group| **group == 0).count();
    out.reserve(8 + 2 * count);
    out.put_u16((count - zeros) as u16);
    out.put_i16(if count == 0 { 0 } else { weight });
    out.put_u16(if unscaled < 0 { NEGATIVE } else { 0 });
    out.put_u16(shown as u16);
    for group in groups[zeros..count].iter().rev() {
        out.put_u16(*group);
    }
}

/// Writes an unscaled integer, as decimal digits with an optional minus, as text with `scale` digits after the point.
pub fn write_digits_text(unscaled: &str, scale: i8, out: &mut BytesMut) {
    let (negative, digits) = unscaled.strip_prefix('-').map_or((false, unscaled), |digits| (true, digits));
    if negative {
        out.put_u8(b'-');
    }
    out.reserve(digits.len() + scale.unsigned_abs() as usize + 2);
    let Ok(scale) = usize::try_from(scale) else {
        out.put_slice(digits.as_bytes());
        return if digits != "0" {
            out.put_bytes(b'0', scale.unsigned_abs() as usize)
        };
    };
    if scale == 0 {
        return out.put_slice(digits.as_bytes());
    }
    let whole = digits.len().saturating_sub(scale);
    out.put_slice(if whole == 0 { b"0" } else { &digits.as_bytes()[..whole] });
    out.put_u8(b'.');
    out.put_bytes(b'0', scale - (digits.len() - whole));
    out.put_slice(&digits.as_bytes()[whole..]);
}

/// Writes the same in the binary form.
pub fn write_digits_binary(unscaled: &str, scale: i8, out: &mut BytesMut) {
    let mut text = BytesMut::new();
    write_digits_text(unscaled.strip_prefix('-').unwrap_or(unscaled), scale, &mut text);
    write_text_binary(&text, unscaled.starts_with('-'), out);
}

/// Writes a value of the exact form as text.
pub fn write_exact_text(bytes: &[u8], out: &mut BytesMut) {
    out.put_slice(crate::numeric::text(bytes).as_bytes());
}

/// Writes the same in the binary form.
pub fn write_exact_binary(bytes: &[u8], out: &mut BytesMut) {
    let text = crate::numeric::text(bytes);
    let special = match text.as_str() {
        "NaN" => NAN,
        "Infinity" => INFINITY,
        "-Infinity" => MINUS_INFINITY,
        _ => {
            let digits = text.strip_prefix('-').unwrap_or(&text);
            return write_text_binary(digits.as_bytes(), digits.len() < text.len(), out);
        }
    };
    out.put_u32(0);
    out.put_u16(special);
    out.put_u16(0);
}

/// Writes decimal digits with a point among them in the binary form.
fn write_text_binary(text: &[u8], negative: bool, out: &mut BytesMut) {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    let mut padded = vec![b'0'; (4 - whole.len() % 4) % 4];
    padded.extend_from_slice(whole);
    let whole_groups = padded.len() / 4;
    padded.extend_from_slice(fraction);
    padded.resize(padded.len().next_multiple_of(4), b'0');
    let groups: Vec<u16> =
        padded.chunks(4).map(|four| four.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))).collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let end = groups.iter().rposition(|group| *group != 0).map_or(leading, |last| last + 1);
    let groups = &groups[leading.min(end)..end];
    // At most 32,768 groups stand before the point.
    let weight = if groups.is_empty() { 0 } else { (whole_groups as i32 - leading as i32 - 1) as i16 };
    out.put_u16(groups.len() as u16);
    out.put_i16(weight);
    out.put_u16(if negative && !groups.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(fraction.len() as u16);
    for group in groups {
        out.put_u16(*group);
    }
}

/// The text of a binary numeric; `None` for malformed bytes.
pub fn text_of_binary(mut bytes: &[u8]) -> Option<String> {
    if bytes.len() < 8 {
        return None;
    }
    let (count, weight) = (usize::from(bytes.get_u16()), i32::from(bytes.get_i16()));
    let (sign, scale) = (bytes.get_u16(), usize::from(bytes.get_u16()));
    let in_bounds = scale <= SCALE_MAX && weight.unsigned_abs() as usize <= WHOLE_DIGITS_MAX / 4;
    if bytes.len() != 2 * count || !in_bounds {
        return None;
    }
    match sign {
        0 | NEGATIVE => {}
        NAN => return Some("NaN".to_owned()),
        INFINITY => return Some("Infinity".to_owned()),
        MINUS_INFINITY => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    let groups: Vec<u16> = (0..count).map(|_| bytes.get_u16()).collect();
    if groups.iter().any(|group| *group > 9_999) {
        return None;
    }
    let group = |power: i32| usize::try_from(weight - power).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut text = if sign == NEGATIVE { "-".to_owned() } else { String::new() };
    let whole: String = (0..=weight.max(0)).rev().map(|power| format!("{:04}", group(power))).collect();
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let powers = scale.div_ceil(4) as i32;
        let fraction: String = (1..=powers).map(|power| format!("{:04}", group(-power))).collect();
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(unscaled: &str, scale: i8) -> String {
        let mut out = BytesMut::new();
        write_digits_text(unscaled, scale, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn binary(unscaled: &str, scale: i8) -> Vec<u16> {
        let mut out = BytesMut::new();
        write_digits_binary(unscaled, scale, &mut out);
        out.chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn text_has_the_digits_of_its_scale() {
        for (unscaled, scale, expected) in [
            ("0", 0, "0"),
            ("0", 2, "0.00"),
            ("5", 2, "0.05"),
            ("-5", 2, "-0.05"),
            ("12345", 2, "123.45"),
            ("-12345", 5, "-0.12345"),
            ("12", -3, "12000"),
            ("0", -3, "0"),
        ] {
            assert_eq!(text(unscaled, scale), expected);
        }
    }

    // What numeric_send of PostgreSQL 15 writes.
    #[test]
    fn binary_is_groups_of_four_digits() {
        for (unscaled, scale, expected) in [
            ("0", 0, vec![0, 0, 0, 0]),
            ("0", 2, vec![0, 0, 0, 2]),
            ("1", 0, vec![1, 0, 0, 0, 1]),
            ("10000", 0, vec![1, 1, 0, 0, 1]),
            ("-12345678", 2, vec![3, 1, 0x4000, 2, 12, 3456, 7800]),
            ("1", 4, vec![1, 0xffff, 0, 4, 1]),
            ("1", 5, vec![1, 0xfffe, 0, 5, 1000]),
            ("12", -3, vec![2, 1, 0, 0, 1, 2000]),
        ] {
            assert_eq!(binary(unscaled, scale), expected, "{unscaled} {scale}");
        }
    }

    proptest! {
        #[test]
        fn binary_comes_back_as_its_text(unscaled: i128, scale in 0i8..39) {
            let unscaled = unscaled.to_string();
            let mut out = BytesMut::new();
            write_digits_binary(&unscaled, scale, &mut out);
            prop_assert_eq!(text_of_binary(&out), Some(text(&unscaled, scale)));
        }

        #[test]
        fn integers_are_written_as_their_digits(unscaled: i128, shift in 0u32..127, scale in -3i8..39) {
            // Of all lengths, and with zeros at the end.
            for unscaled in [unscaled >> shift, (unscaled >> 64 >> (shift / 2)) / 10_000 * 10_000] {
                let digits = unscaled.to_string();
                let (mut of_integer, mut of_digits) = (BytesMut::new(), BytesMut::new());
                write_binary(unscaled, scale, &mut of_integer);
                write_digits_binary(&digits, scale, &mut of_digits);
                prop_assert_eq!(&of_integer, &of_digits, "{} {}", digits, scale);
                of_integer.clear();
                write_text(unscaled, scale, &mut of_integer);
                prop_assert_eq!(String::from_utf8(of_integer.to_vec()).unwrap(), text(&digits, scale));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = text_of_binary(&bytes);
        }
    }
}
