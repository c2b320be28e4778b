//! Numerics of any number of digits: those without digits of their own in their type, and those of more than 38.
//!
//! A value knows how many digits it shows after the point: `1.10` and `1.1` are equal, and differ in their scale. Its
//! bytes are an order-preserving encoding of the value, and the scale behind it:
//!
//! ```text
//! −Infinity  00
//! negative   01, and the complement of what the magnitude has after its 03
//! zero       02
//! positive   03 exponent (3 bytes, + 800000) digits 00
//!            The value is 0.digits × 10^exponent; digits in pairs, each pair + 1 in a byte; no zero at either end
//! Infinity   04
//! NaN        05
//! and        scale (2 bytes)
//! ```
//!
//! No value's bytes begin with those of another, so that bytes compare as values do, and equal ones by their scale.
//! Without the scale ([`Exact::key`]) they are equal if and only if the values are, which is also the form in row keys.

use super::fit::NUMERIC_DIGITS_MAX;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use num_bigint::{BigInt, BigUint, Sign};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Digits before the point, at most: PostgreSQL's bound.
pub const WHOLE_DIGITS_MAX: i32 = 131_072;
/// Digits after the point, at most.
pub const SCALE_MAX: u32 = 16_383;
/// The precision of a type, at most.
pub const PRECISION_MAX: u16 = 1_000;

const MINUS_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;
/// What is added to an exponent, so that it is not negative.
const BIAS: i32 = 0x0080_0000;
const SCALE_BYTES: usize = 2;

/// The digits of a type with more than 38 of them, or with a scale that is negative or above its precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Digits {
    /// Digits in all, at most [`PRECISION_MAX`].
    pub precision: u16,
    /// Digits after the point; negative: zeros before it.
    pub scale: i16,
}

/// A numeric of any number of digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exact(Bytes);

/// What a value is, read from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// `NaN`, above all others and equal to itself.
    NaN,
    /// `Infinity`
    Infinity,
    /// `-Infinity`
    MinusInfinity,
    /// A number: 0.digits × 10^exponent.
    Finite {
        /// Below zero.
        negative: bool,
        /// From 0 to 9 each, without a zero at either end; none for zero.
        digits: Vec<u8>,
        /// The power of ten of the place before the first digit.
        exponent: i32,
        /// Digits shown after the point.
        scale: u16,
    },
}

impl Exact {
    /// Not a number.
    pub fn nan() -> Self {
        Self::special(NAN)
    }

    /// Infinity, or its opposite.
    pub fn infinity(negative: bool) -> Self {
        Self::special(if negative { MINUS_INFINITY } else { INFINITY })
    }

    fn special(tag: u8) -> Self {
        Self(Bytes::copy_from_slice(&[tag, 0, 0]))
    }

    /// A number of an unscaled integer's digits, from 0 to 9 each, with `scale` of them after the point.
    ///
    /// # Errors
    /// 22003 for more digits than a numeric has.
    pub fn of_digits(negative: bool, digits: &[u8], scale: u32) -> Result<Self> {
        let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
        let digits = &digits[first..];
        let whole = i32::try_from(digits.len()).ok().zip(i32::try_from(scale).ok());
        let exponent = whole.and_then(|(count, scale)| count.checked_sub(scale));
        let exponent = exponent.filter(|exponent| *exponent <= WHOLE_DIGITS_MAX && scale <= SCALE_MAX);
        let exponent = exponent.ok_or_else(overflow)?;
        let end = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        Ok(Self(encoded(negative, &digits[..end], exponent, scale as u16).into()))
    }

    /// A number of an unscaled integer and its scale.
    pub fn of_i128(unscaled: i128, scale: u8) -> Self {
        let text = itoa::Buffer::new().format(unscaled.unsigned_abs()).to_owned();
        let digits: Vec<u8> = text.bytes().map(|digit| digit - b'0').collect();
        let digits = if unscaled == 0 { &[][..] } else { &digits };
        let end = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        // At most 39 digits, and a scale of at most 255.
        let exponent = digits.len() as i32 - i32::from(scale);
        Self(encoded(unscaled < 0, &digits[..end], exponent, scale.into()).into())
    }

    /// The value of its bytes; `None` for others.
    pub fn of_bytes(bytes: Bytes) -> Option<Self> {
        let exact = Self(bytes);
        exact.try_parts()?;
        Some(exact)
    }

    /// The value of bytes that [`as_bytes`](Self::as_bytes) gave.
    pub fn trusted(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// All bytes: the value and its scale.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes of the value, by which it is compared.
    pub fn key(&self) -> &[u8] {
        &self.0[..self.0.len().saturating_sub(SCALE_BYTES)]
    }

    /// Reads a value from the front of a row key, as [`key`](Self::key) wrote it; with the least scale that shows all
    /// of its digits.
    pub(crate) fn take_key(key: &mut &[u8], descending: bool) -> Option<Self> {
        let turn = |byte: u8| if descending { !byte } else { byte };
        let tag = turn(*key.first()?);
        let length = match tag {
            NEGATIVE | POSITIVE => {
                let end = if tag == NEGATIVE { !0 } else { 0 };
                5 + key.get(4..)?.iter().position(|byte| turn(*byte) == end)?
            }
            MINUS_INFINITY | ZERO | INFINITY | NAN => 1,
            _ => return None,
        };
        let (bytes, rest) = key.split_at_checked(length)?;
        let mut bytes: Vec<u8> = bytes.iter().map(|byte| turn(*byte)).collect();
        bytes.extend([0; SCALE_BYTES]);
        let exact = match Self(bytes.into()).try_parts()? {
            Parts::Finite { negative, digits, exponent, .. } => {
                let scale = i32::try_from(digits.len()).ok()?.checked_sub(exponent)?.max(0);
                Self(encoded(negative, &digits, exponent, u16::try_from(scale).ok()?).into())
            }
            _ => Self::special(tag),
        };
        *key = rest;
        Some(exact)
    }

    /// The value of the bytes that [`key`](Self::key) gave, with the least scale that shows all of its digits.
    pub fn of_key(key: &[u8]) -> Option<Self> {
        let mut rest = key;
        Self::take_key(&mut rest, false).filter(|_| rest.is_empty())
    }

    fn try_parts(&self) -> Option<Parts> {
        let (value, scale) = self.0.split_at_checked(self.0.len().checked_sub(SCALE_BYTES)?)?;
        let scale = u16::from_be_bytes(scale.try_into().ok()?);
        let (tag, rest) = value.split_first()?;
        let negative = match (*tag, rest) {
            (NAN, []) => return Some(Parts::NaN),
            (INFINITY, []) => return Some(Parts::Infinity),
            (MINUS_INFINITY, []) => return Some(Parts::MinusInfinity),
            (ZERO, []) => return Some(Parts::Finite { negative: false, digits: Vec::new(), exponent: 0, scale }),
            (NEGATIVE, _) => true,
            (POSITIVE, _) => false,
            _ => return None,
        };
        let turn = |byte: u8| if negative { !byte } else { byte };
        let (exponent, pairs) = rest.split_first_chunk::<3>()?;
        let exponent = i32::from_be_bytes([0, turn(exponent[0]), turn(exponent[1]), turn(exponent[2])]) - BIAS;
        let (end, pairs) = pairs.split_last()?;
        if turn(*end) != 0 || exponent > WHOLE_DIGITS_MAX || u32::from(scale) > SCALE_MAX {
            return None;
        }
        let mut digits = Vec::with_capacity(2 * pairs.len());
        for byte in pairs {
            let pair = turn(*byte).checked_sub(1).filter(|pair| *pair < 100)?;
            digits.extend([pair / 10, pair % 10]);
        }
        if digits.last() == Some(&0) {
            digits.pop();
        }
        let is_plain = digits.first().is_some_and(|digit| *digit != 0) && digits.last() != Some(&0);
        is_plain.then_some(Parts::Finite { negative, digits, exponent, scale })
    }

    /// What the value is.
    pub fn parts(&self) -> Parts {
        // The bytes were checked, or written here.
        self.try_parts().unwrap_or(Parts::NaN)
    }

    /// Compares two values, whatever their scales.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }

    /// Parses what PostgreSQL's `numeric_in` accepts; `None` for other texts.
    ///
    /// # Errors
    /// 22003 for more digits than a numeric has.
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        match rest.to_ascii_lowercase().as_str() {
            "nan" if rest.len() == text.len() => return Some(Ok(Self::nan())),
            "inf" | "infinity" => return Some(Ok(Self::infinity(negative))),
            _ => {}
        }
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                // What does not fit here is out of range.
                (mantissa, exponent.parse().unwrap_or(if exponent.starts_with('-') { i32::MIN } else { i32::MAX }))
            }
            None => (rest, 0_i32),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if whole.is_empty() && fraction.is_empty() || !all().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut digits: Vec<u8> = all().map(|byte| byte - b'0').collect();
        let scale = i64::try_from(fraction.len()).unwrap_or(i64::MAX).saturating_sub(exponent.into());
        if scale < 0 {
            let zeros = usize::try_from(-scale).ok().filter(|zeros| *zeros <= WHOLE_DIGITS_MAX as usize);
            match zeros {
                Some(zeros) => digits.resize(digits.len() + zeros, 0),
                None if digits.iter().all(|digit| *digit == 0) => {}
                None => return Some(Err(overflow())),
            }
        }
        let scale = u32::try_from(scale.max(0)).unwrap_or(u32::MAX);
        Some(Self::of_digits(negative, &digits, scale))
    }

    /// The value as PostgreSQL prints it.
    pub fn to_text(&self) -> String {
        let (negative, digits, exponent, scale) = match self.parts() {
            Parts::NaN => return "NaN".to_owned(),
            Parts::Infinity => return "Infinity".to_owned(),
            Parts::MinusInfinity => return "-Infinity".to_owned(),
            Parts::Finite { negative, digits, exponent, scale } => (negative, digits, exponent, scale),
        };
        let mut text = String::with_capacity(digits.len() + usize::from(scale) + 3);
        if negative {
            text.push('-');
        }
        let digit = |place: i32| {
            let at = usize::try_from(exponent - place).ok();
            char::from(b'0' + at.and_then(|at| digits.get(at)).copied().unwrap_or(0))
        };
        if exponent <= 0 {
            text.push('0');
        }
        text.extend((1..=exponent).rev().map(digit));
        if scale > 0 {
            text.push('.');
            text.extend((0..i32::from(scale)).map(|after| digit(-after)));
        }
        text
    }

    /// The value rounded to the digits of a type, half away from zero.
    ///
    /// # Errors
    /// 22003 for more digits before the point, and for infinities.
    pub fn fit(&self, digits: Digits) -> Result<Self> {
        let Digits { precision, scale } = digits;
        let refused = |detail: String| {
            Error::new(ErrorKind::OutOfRange, "numeric field overflow")
                .with_detail(format!("A field with precision {precision}, scale {scale} {detail}"))
        };
        let (negative, held, exponent) = match self.parts() {
            Parts::NaN => return Ok(self.clone()),
            Parts::Infinity | Parts::MinusInfinity => return Err(refused("cannot hold an infinite value.".into())),
            Parts::Finite { negative, digits, exponent, .. } => (negative, digits, exponent),
        };
        // Digits that stay: those up to the last place of the type.
        let keep = exponent + i32::from(scale);
        let mut held = held;
        let mut exponent = exponent;
        let count = i32::try_from(held.len()).unwrap_or(i32::MAX);
        if keep < 0 {
            held.clear();
        } else if keep < count {
            let kept = usize::try_from(keep).unwrap_or(0);
            held = rounded(held, kept);
            if held.len() > kept {
                exponent += 1;
            }
        }
        let whole = i32::from(precision) - i32::from(scale);
        let is_zero = held.iter().all(|digit| *digit == 0);
        if !is_zero && exponent > whole {
            let bound = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
            return Err(refused(format!("must round to an absolute value less than {bound}.")));
        }
        let end = held.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
        let shown = u16::try_from(scale.max(0)).unwrap_or(0);
        Ok(Self(encoded(negative, &held[..end], exponent, shown).into()))
    }

    /// The unscaled integer and the scale of a number; `None` for NaN and infinities.
    pub fn to_integer(&self) -> Option<(BigInt, u16)> {
        let Parts::Finite { negative, digits, exponent, scale } = self.parts() else { return None };
        let zeros = exponent + i32::from(scale) - i32::try_from(digits.len()).ok()?;
        // A value has no digits beyond its scale.
        let zeros = u32::try_from(zeros).unwrap_or(0);
        if digits.len() + zeros as usize <= 37 {
            let small = digits.iter().fold(0_i128, |number, digit| number * 10 + i128::from(*digit));
            let small = small * 10_i128.pow(zeros);
            return Some((BigInt::from(if negative { -small } else { small }), scale));
        }
        let magnitude = BigUint::from_radix_be(&digits, 10)? * BigUint::from(10_u8).pow(zeros);
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Some((BigInt::from_biguint(sign, magnitude), scale))
    }

    /// A number of an unscaled integer and its scale.
    ///
    /// # Errors
    /// As [`of_digits`](Self::of_digits).
    pub fn of_integer(unscaled: &BigInt, scale: u32) -> Result<Self> {
        if let (Ok(small), Ok(scale)) = (i128::try_from(unscaled), u8::try_from(scale)) {
            return Ok(Self::of_i128(small, scale));
        }
        Self::of_digits(unscaled.sign() == Sign::Minus, &unscaled.magnitude().to_radix_be(10), scale)
    }

    /// The unscaled integer and scale as `numeric(p, s)` has them; `None` if it has more digits than fit.
    pub fn to_i128(&self) -> Option<(i128, u8)> {
        let (unscaled, scale) = self.to_integer()?;
        let unscaled = i128::try_from(unscaled).ok()?;
        let fits = unscaled.unsigned_abs() < 10_u128.pow(NUMERIC_DIGITS_MAX);
        fits.then_some(())?;
        Some((unscaled, u8::try_from(scale).ok()?))
    }
}

fn overflow() -> Error {
    Error::new(ErrorKind::OutOfRange, "value overflows numeric format")
}

/// Digits cut to the first `keep`, rounded half up; one more, if the carry reaches beyond the first.
fn rounded(mut digits: Vec<u8>, keep: usize) -> Vec<u8> {
    let up = digits.get(keep).is_some_and(|digit| *digit >= 5);
    digits.truncate(keep);
    if !up {
        return digits;
    }
    for digit in digits.iter_mut().rev() {
        if *digit < 9 {
            *digit += 1;
            return digits;
        }
        *digit = 0;
    }
    digits.insert(0, 1);
    digits
}

fn encoded(negative: bool, digits: &[u8], exponent: i32, scale: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(digits.len() / 2 + 8);
    if digits.is_empty() {
        out.push(ZERO);
    } else {
        out.push(if negative { NEGATIVE } else { POSITIVE });
        out.extend(&(exponent + BIAS).to_be_bytes()[1..]);
        out.extend(digits.chunks(2).map(|pair| pair[0] * 10 + pair.get(1).copied().unwrap_or(0) + 1));
        out.push(0);
        if negative {
            out[1..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    out.extend(scale.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn exact(text: &str) -> Exact {
        Exact::parse(text).unwrap().unwrap()
    }

    #[test]
    fn texts_come_back() {
        for text in
            ["0", "0.00", "1.10", "-1.10", "100", "0.001", "-12345678901234567890123456789012345678901.5", "NaN"]
        {
            assert_eq!(exact(text).to_text(), text);
            assert_eq!(Exact::of_bytes(exact(text).0.clone()), Some(exact(text)));
        }
        let check = |text: &str, expected: Expect| expected.assert_eq(&exact(text).to_text());
        check(" 1e3 ", expect!["1000"]);
        check("1.5e-3", expect!["0.0015"]);
        check("+.5", expect!["0.5"]);
        check("5.", expect!["5"]);
        check("-inf", expect!["-Infinity"]);
        check("0e100000000", expect!["0"]);
        assert!(Exact::parse("1e-16384").unwrap().is_err());
        for text in ["", "-", ".", "1e", "1 2", "-NaN", "1.2.3", "0x10"] {
            assert!(Exact::parse(text).is_none(), "{text}");
        }
        assert!(Exact::parse("1e131072").unwrap().is_err());
        assert_eq!(exact("1e131071").to_text().len(), 131_072);
    }

    #[test]
    fn types_round() {
        let check = |text: &str, precision, scale, expected: Expect| {
            let fitted = exact(text).fit(Digits { precision, scale });
            expected.assert_eq(&fitted.map_or_else(|error| error.to_string(), |fitted| fitted.to_text()));
        };
        check("1.005", 5, 2, expect!["1.01"]);
        check("9.995", 5, 2, expect!["10.00"]);
        check("999.995", 5, 2, expect!["numeric field overflow"]);
        check("12345", 3, -2, expect!["12300"]);
        check("0.0012345", 3, 5, expect!["0.00123"]);
        check("49", 3, -2, expect!["0"]);
        check("50", 3, -2, expect!["100"]);
        check("NaN", 3, 2, expect!["NaN"]);
        check("inf", 3, 2, expect!["numeric field overflow"]);
        check("0.004", 3, 2, expect!["0.00"]);
    }

    #[test]
    fn keys_come_back_without_their_scale() {
        for text in ["0", "1.5", "-1.5", "100", "-0.001", "NaN", "Infinity", "-Infinity"] {
            for descending in [false, true] {
                let mut key = exact(text).key().to_vec();
                key.extend([7, 7]);
                key[..exact(text).key().len()].iter_mut().filter(|_| descending).for_each(|byte| *byte = !*byte);
                let mut rest = &key[..];
                assert_eq!(Exact::take_key(&mut rest, descending), Some(exact(text)), "{text}");
                assert_eq!(rest, [7, 7]);
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_compare_as_values(a in -10_000_i128..10_000, b in -10_000_i128..10_000, x in 0_u8..6, y in 0_u8..6) {
            let (one, other) = (Exact::of_i128(a, x), Exact::of_i128(b, y));
            let order = (a * 10_i128.pow(y.into())).cmp(&(b * 10_i128.pow(x.into())));
            prop_assert_eq!(one.compare(&other), order);
            prop_assert_eq!(one.to_i128(), Some((a, x)));
            prop_assert!(one.compare(&Exact::nan()).is_lt() && one.compare(&Exact::infinity(true)).is_gt());
        }
    }
}
