//! The encoding `ordered`: binary keys, for any value and direction. Each part is self-delimiting, so parts follow each
//! other without a delimiter.
//!
//! ```text
//! boolean              00 or 01
//! smallint … bigint    2, 4 or 8 bytes big-endian, the sign bit turned over
//! real, double         8 bytes of the double, big-endian; positive: the sign bit turned over; negative: all bits.
//!                      −0 is 0; there is one NaN, the last
//! numeric              01 for zero; 02 exponent (2 bytes, + 8000) digits 00 for positive;
//!                      00 and the complement of what the magnitude has after its 02 for negative.
//!                      The value is 0.digits × 10^exponent; digits in pairs, each pair + 1 in a byte;
//!                      no zero at either end
//! numeric without digits, or with more than 38
//!                      as [`exact`](crate::value::exact) has it, without the scale
//! text, bytea          bytes, 00 as 00 FF; then 00 01
//! date                 4 bytes big-endian, the sign bit turned over; time, timestamp, timestamptz 8
//! uuid                 16 bytes
//! ```
//!
//! Descending: every byte complemented. Reversed: [`reversed`] before it is encoded.

use super::{KeyPart, reversed};
use crate::{
    SqlType, Value, ValueRef,
    value::{
        bits,
        calendar::{is_date, is_timestamp},
        clock::is_time,
        exact::Exact,
    },
};
use std::borrow::Cow;

const ZERO: u8 = 0;
const ZERO_ESCAPED: u8 = 0xff;
const TERMINATOR: u8 = 1;
const NUMERIC_NEGATIVE: u8 = 0;
const NUMERIC_ZERO: u8 = 1;
const NUMERIC_POSITIVE: u8 = 2;

/// Appends text as part of a key, without its terminator.
pub(super) fn escape(text: &[u8], descending: bool, out: &mut Vec<u8>) {
    let from = out.len();
    for &byte in text {
        out.push(byte);
        if byte == ZERO {
            out.push(ZERO_ESCAPED);
        }
    }
    complement_if(descending, &mut out[from..]);
}

/// Appends a value that fits the part's type.
pub(super) fn encode(part: &KeyPart, value: &Value, out: &mut Vec<u8>) {
    let from = out.len();
    let turned = part.is_reversed().then(|| reversed::turned(value, part.kind));
    match (turned.as_deref().unwrap_or(value), part.kind) {
        (Value::Bool(value), _) => out.push(u8::from(*value)),
        (Value::Int(n), SqlType::Int2) => out.extend(((*n as i16) ^ i16::MIN).to_be_bytes()),
        (Value::Int(n), SqlType::Int4) => out.extend(((*n as i32) ^ i32::MIN).to_be_bytes()),
        (Value::Int(n) | Value::Timestamp(n) | Value::Time(n), _) => out.extend((n ^ i64::MIN).to_be_bytes()),
        (Value::Date(days), _) => out.extend((days ^ i32::MIN).to_be_bytes()),
        (Value::Float(value), _) => out.extend(float_bits(*value).to_be_bytes()),
        (Value::Numeric { unscaled, scale }, _) => encode_numeric(*unscaled, *scale, out),
        (Value::Exact(exact), _) => out.extend(exact.key()),
        (Value::Text(text), _) => encode_bytes(text.as_bytes(), out),
        (Value::Bytes(bytes), _) => encode_bytes(bytes, out),
        (Value::Uuid(uuid), _) => out.extend(uuid),
        // No part holds NULL or has one of these types.
        (Value::Null | Value::Interval(_) | Value::Array(_), _) => {}
    }
    complement_if(part.descends(), &mut out[from..]);
}

/// Decodes a value from the front of a key and advances `key`; `None` if the key does not begin with one.
pub(super) fn decode<'a>(part: &KeyPart, key: &mut &'a [u8]) -> Option<ValueRef<'a>> {
    let value = decode_unturned(part, key)?;
    Some(if part.is_reversed() { reversed::turned_ref(value, part.kind) } else { value })
}

fn decode_unturned<'a>(part: &KeyPart, key: &mut &'a [u8]) -> Option<ValueRef<'a>> {
    let descending = part.descends();
    Some(match part.kind {
        SqlType::Bool => match take::<1>(key, descending)? {
            [0] => ValueRef::Bool(false),
            [1] => ValueRef::Bool(true),
            _ => return None,
        },
        SqlType::Int2 => ValueRef::Int((i16::from_be_bytes(take(key, descending)?) ^ i16::MIN).into()),
        SqlType::Int4 => ValueRef::Int((i32::from_be_bytes(take(key, descending)?) ^ i32::MIN).into()),
        SqlType::Int8 => ValueRef::Int(i64::from_be_bytes(take(key, descending)?) ^ i64::MIN),
        SqlType::Date => {
            let days = i32::from_be_bytes(take(key, descending)?) ^ i32::MIN;
            ValueRef::Date(Some(days).filter(|days| is_date(*days))?)
        }
        SqlType::Time(_) => {
            let micros = i64::from_be_bytes(take(key, descending)?) ^ i64::MIN;
            ValueRef::Time(Some(micros).filter(|micros| is_time(*micros))?)
        }
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
            let micros = i64::from_be_bytes(take(key, descending)?) ^ i64::MIN;
            ValueRef::Timestamp(Some(micros).filter(|micros| is_timestamp(*micros))?)
        }
        SqlType::Float8 => ValueRef::Float(decode_float(take(key, descending)?)?),
        SqlType::Float4 => {
            let value = decode_float(take(key, descending)?)?;
            ValueRef::Float(Some(value).filter(|value| value.is_nan() || f64::from(*value as f32) == *value)?)
        }
        SqlType::Numeric { precision, scale } => {
            let limit = 10u128.checked_pow(precision.into())?;
            let unscaled = decode_numeric(key, descending, scale)?;
            ValueRef::Numeric { unscaled: Some(unscaled).filter(|digits| digits.unsigned_abs() < limit)?, scale }
        }
        SqlType::Exact(digits) => {
            let exact = Exact::take_key(key, descending)?;
            ValueRef::Exact(match digits {
                // With the scale of the type.
                Some(digits) => exact.fit(digits).ok().filter(|fitted| fitted.key() == exact.key())?,
                None => exact,
            })
        }
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) => {
            ValueRef::Text(match decode_bytes(key, descending)? {
                Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
            })
        }
        kind @ (SqlType::Bit(_) | SqlType::Varbit(_)) => {
            let text = String::from_utf8(decode_bytes(key, descending)?.into_owned()).ok()?;
            ValueRef::Text(Cow::Owned(Some(text).filter(|text| bits::is_value(text, kind))?))
        }
        SqlType::Bytea => ValueRef::Bytes(decode_bytes(key, descending)?),
        SqlType::Uuid => ValueRef::Uuid(take(key, descending)?),
        SqlType::Json | SqlType::Jsonb | SqlType::Interval(_) | SqlType::Array(_) => return None,
    })
}

/// Whether [`integer`] decodes the part: an integer, date, time or timestamp, in order.
pub(super) fn is_integer(part: &KeyPart) -> bool {
    use SqlType::{Date, Int2, Int4, Int8, Time, Timestamp, Timestamptz};
    !part.is_reversed() && matches!(part.kind, Int2 | Int4 | Int8 | Date | Time(_) | Timestamp(_) | Timestamptz(_))
}

/// Decodes all bytes as an integer, days or microseconds: the same value as [`decode`] returns.
pub(super) fn integer(part: &KeyPart, mut bytes: &[u8]) -> Option<i64> {
    let descending = part.descends();
    let key = &mut bytes;
    let number = match part.kind {
        SqlType::Int2 => (i16::from_be_bytes(take(key, descending)?) ^ i16::MIN).into(),
        SqlType::Int4 => (i32::from_be_bytes(take(key, descending)?) ^ i32::MIN).into(),
        SqlType::Date => {
            let days = i32::from_be_bytes(take(key, descending)?) ^ i32::MIN;
            Some(days).filter(|days| is_date(*days))?.into()
        }
        kind => {
            let number = i64::from_be_bytes(take(key, descending)?) ^ i64::MIN;
            let is_one = match kind {
                SqlType::Int8 => true,
                SqlType::Time(_) => is_time(number),
                SqlType::Timestamp(_) | SqlType::Timestamptz(_) => is_timestamp(number),
                _ => false,
            };
            is_one.then_some(number)?
        }
    };
    bytes.is_empty().then_some(number)
}

fn complement_if(descending: bool, bytes: &mut [u8]) {
    if descending {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn take<const WIDTH: usize>(key: &mut &[u8], descending: bool) -> Option<[u8; WIDTH]> {
    let (mut bytes, rest) = key.split_first_chunk::<WIDTH>().map(|(bytes, rest)| (*bytes, rest))?;
    *key = rest;
    complement_if(descending, &mut bytes);
    Some(bytes)
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    escape(bytes, false, out);
    out.extend([ZERO, TERMINATOR]);
}

fn decode_bytes<'a>(key: &mut &'a [u8], descending: bool) -> Option<Cow<'a, [u8]>> {
    let turn = |byte: u8| if descending { !byte } else { byte };
    let (all, mut from) = (*key, 0);
    let mut owned: Option<Vec<u8>> = None;
    loop {
        let zero = from + memchr::memchr(turn(ZERO), &all[from..])?;
        let piece = &all[from..zero];
        let escaped = match turn(*all.get(zero + 1)?) {
            ZERO_ESCAPED => true,
            TERMINATOR => false,
            _ => return None,
        };
        if owned.is_none() && !escaped && !descending {
            *key = &all[zero + 2..];
            return Some(Cow::Borrowed(piece));
        }
        let text = owned.get_or_insert_default();
        text.extend(piece.iter().map(|&byte| turn(byte)));
        from = zero + 2;
        if !escaped {
            *key = &all[from..];
            return owned.map(Cow::Owned);
        }
        text.push(ZERO);
    }
}

/// Bits whose order as unsigned integers is that of the floats, NaN last.
fn float_bits(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    if value.is_sign_negative() && !value.is_nan() { !bits } else { bits | 1 << 63 }
}

fn decode_float(bytes: [u8; 8]) -> Option<f64> {
    let bits = u64::from_be_bytes(bytes);
    let value = f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits });
    (float_bits(value) == bits).then_some(value)
}

fn encode_numeric(unscaled: i128, scale: u8, out: &mut Vec<u8>) {
    if unscaled == 0 {
        out.push(NUMERIC_ZERO);
        return;
    }
    let negative = unscaled < 0;
    out.push(if negative { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE });
    let from = out.len();
    let text = unscaled.unsigned_abs().to_string();
    // At most 39 digits less a scale of at most 255: far from the ends of 16 bits.
    let exponent = text.len() as i16 - i16::from(scale);
    out.extend((exponent ^ i16::MIN).to_be_bytes());
    for pair in text.trim_end_matches('0').as_bytes().chunks(2) {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + low + 1);
    }
    out.push(0);
    complement_if(negative, &mut out[from..]);
}

fn decode_numeric(key: &mut &[u8], descending: bool, scale: u8) -> Option<i128> {
    let [sign] = take(key, descending)?;
    let negative = match sign {
        NUMERIC_ZERO => return Some(0),
        NUMERIC_NEGATIVE => true,
        NUMERIC_POSITIVE => false,
        _ => return None,
    };
    let turned = descending != negative;
    let exponent = i32::from(i16::from_be_bytes(take(key, turned)?) ^ i16::MIN);
    let (mut unscaled, mut count, mut last) = (0i128, 0, 0);
    loop {
        let [byte] = take(key, turned)?;
        let Some(pair) = byte.checked_sub(1) else { break };
        if pair > 99 || (count == 0 && pair < 10) {
            return None;
        }
        unscaled = unscaled.checked_mul(100)?.checked_add(pair.into())?;
        (count, last) = (count + 2, pair);
    }
    if last == 0 {
        return None;
    }
    let shift = exponent - count + i32::from(scale);
    let unscaled = match u32::try_from(shift) {
        Ok(shift) => unscaled.checked_mul(10i128.checked_pow(shift)?)?,
        // The last pair may end with a zero that is not a digit of the value.
        Err(_) if shift == -1 && unscaled % 10 == 0 => unscaled / 10,
        Err(_) => return None,
    };
    Some(if negative { -unscaled } else { unscaled })
}
