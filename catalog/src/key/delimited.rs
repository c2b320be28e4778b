//! The encoding `delimited`: human-readable keys, parts joined by `#`.
//!
//! ```text
//! key         part '#' part '#' … part              a key that would be empty (one empty text) is "#"
//! text, bytea bytes; one of 0x24 or less is '$' and the byte + 0x40      New York → New$`York
//! boolean     0 or 1
//! smallint    00042, 5 digits; negative: '-' and the digits of 99999 − magnitude     −1 → -99998
//! integer     the same with 10 digits; bigint with 19
//! date        2013-01-01                            infinity → infinity, -infinity → -infinity
//! timestamp   2013-01-01T05:15:00.000000            the same
//! timestamptz 2013-01-01T05:15:00.000000Z           the same
//! time        05:15:00.000000
//! uuid        01234567-89ab-cdef-0123-456789abcdef
//! ```
//!
//! Reversed: [`reversed`]. Descending: each digit d is 9 − d, each digit of a uuid 15 − d; the sign of a negative integer is `~` and its digits
//! are those of the magnitude; infinity is `+infinity`, -infinity is `~infinity`. Texts do not descend: they have no
//! fixed width.
//!
//! Why the order holds: in a text every byte is above `#`, so that a text sorts before those that it is a prefix of;
//! the first byte of a number or time tells negative from positive, and infinite from finite; the rest has a fixed
//! width.
//!
//! Dates and times lie in the years 1 to 9999, or are infinite: a larger domain would cost every key a digit and a
//! sign.

use super::{KeyPart, reversed};
use crate::{
    Error, ErrorKind, Result, SqlType, Value, ValueRef,
    value::{
        bits,
        calendar::{MICROS_PER_DAY, civil_from_days, days_from_civil},
        clock::is_time,
    },
};
use std::borrow::Cow;

/// Ends a part that is not the last.
pub(super) const DELIMITER: u8 = b'#';
const ESCAPE: u8 = b'$';
const ESCAPE_OFFSET: u8 = 0x40;
/// The days of 0001-01-01 and 9999-12-31.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;
const DATE_WIDTH: usize = 10;
const TIMESTAMP_WIDTH: usize = 26;
const TIME_WIDTH: usize = 15;
const UUID_WIDTH: usize = 36;

/// Appends the text, escaping bytes that would end a part or sort before its end.
pub(super) fn escape(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte <= ESCAPE {
            out.extend([ESCAPE, byte + ESCAPE_OFFSET]);
        } else {
            out.push(byte);
        }
    }
}

fn unescape(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    if bytes.iter().all(|&byte| byte > ESCAPE) {
        return Some(Cow::Borrowed(bytes));
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            ESCAPE => text.push(bytes.next()?.checked_sub(ESCAPE_OFFSET).filter(|&byte| byte <= ESCAPE)?),
            byte if byte > ESCAPE => text.push(byte),
            _ => return None,
        }
    }
    Some(Cow::Owned(text))
}

/// Whether a value of the part can have an empty encoding.
pub(super) fn may_be_empty(part: &KeyPart) -> bool {
    matches!(
        part.kind,
        SqlType::Text
            | SqlType::Name
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Bit(_)
            | SqlType::Varbit(_)
            | SqlType::Bytea
    )
}

/// Appends a value that fits the part's type; without the delimiter.
pub(super) fn encode(part: &KeyPart, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Bool(value) => {
            out.push(b'0' + u8::from(*value != part.descends()) + if part.descends() { 8 } else { 0 })
        }
        Value::Int(n) => {
            let from = out.len();
            encode_int(part, *n, out);
            if part.is_reversed() {
                reversed::turn_digits(&mut out[from..]);
            }
        }
        Value::Text(domain) if part.is_reversed() => escape(reversed::reversed_labels(domain).as_bytes(), out),
        Value::Text(text) => escape(text.as_bytes(), out),
        Value::Bytes(bytes) => escape(bytes, out),
        Value::Uuid(uuid) => encode_uuid(uuid, part.descends(), out),
        Value::Date(i32::MIN) | Value::Timestamp(i64::MIN) => {
            out.extend_from_slice(infinities(part.descends()).0);
        }
        Value::Date(i32::MAX) | Value::Timestamp(i64::MAX) => {
            out.extend_from_slice(infinities(part.descends()).1);
        }
        Value::Date(days) if DAYS.contains(&i64::from(*days)) => {
            let from = out.len();
            encode_days(i64::from(*days), out);
            flip_if_descending(part, &mut out[from..]);
        }
        Value::Timestamp(micros) if DAYS.contains(&micros.div_euclid(MICROS_PER_DAY)) => {
            let from = out.len();
            encode_micros(part, *micros, out);
            flip_if_descending(part, &mut out[from..]);
        }
        Value::Time(micros) => {
            let from = out.len();
            encode_clock(micros.unsigned_abs(), out);
            flip_if_descending(part, &mut out[from..]);
        }
        Value::Date(_) | Value::Timestamp(_) => {
            let message = format!("the key's column \"{}\" holds years 1 to 9999 and the infinities only", part.name);
            return Err(Error::new(ErrorKind::OutOfRange, message)
                .with_hint("Tables created WITH (key_encoding = 'ordered') hold every date and time."));
        }
        Value::Null
        | Value::Float(_)
        | Value::Numeric { .. }
        | Value::Exact(_)
        | Value::Interval(_)
        | Value::Array(_) => {
            let message = format!("the key's column \"{}\" cannot hold {value:?}", part.name);
            return Err(Error::new(ErrorKind::BadValue, message));
        }
    }
    Ok(())
}

/// The byte at which a finite date or time outside of the domain sorts: between the finite ones and an infinity.
pub(super) fn gap(part: &KeyPart, value: &Value) -> Option<u8> {
    let days = match value {
        Value::Date(i32::MIN | i32::MAX) | Value::Timestamp(i64::MIN | i64::MAX) => return None,
        Value::Date(days) => i64::from(*days),
        Value::Timestamp(micros) => micros.div_euclid(MICROS_PER_DAY),
        _ => return None,
    };
    // Every finite value begins with a digit; the byte before '0' and the byte after '9' are above '-' and '+', and
    // below 'i' and '~'.
    let (before, after) = if part.descends() { (b':', b'/') } else { (b'/', b':') };
    (!DAYS.contains(&days)).then_some(if days < *DAYS.start() { before } else { after })
}

/// Decodes a part's bytes; `None` if they are not the encoding of a value.
pub(super) fn decode<'a>(part: &KeyPart, bytes: &'a [u8]) -> Option<ValueRef<'a>> {
    if part.is_reversed() && !reversed::is_text(part.kind) {
        let mut digits = bytes.to_vec();
        reversed::turn_digits(&mut digits);
        return decode_int(part, &digits).map(ValueRef::Int);
    }
    let value = decode_unturned(part, bytes)?;
    Some(if part.is_reversed() { reversed::turned_ref(value, part.kind) } else { value })
}

fn decode_unturned<'a>(part: &KeyPart, bytes: &'a [u8]) -> Option<ValueRef<'a>> {
    Some(match part.kind {
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) => {
            ValueRef::Text(match unescape(bytes)? {
                Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
            })
        }
        kind @ (SqlType::Bit(_) | SqlType::Varbit(_)) => {
            let text = String::from_utf8(unescape(bytes)?.into_owned()).ok()?;
            ValueRef::Text(Cow::Owned(Some(text).filter(|text| bits::is_value(text, kind))?))
        }
        SqlType::Bytea => ValueRef::Bytes(unescape(bytes)?),
        SqlType::Bool => match (bytes, part.descends()) {
            (b"0", false) | (b"9", true) => ValueRef::Bool(false),
            (b"1", false) | (b"8", true) => ValueRef::Bool(true),
            _ => return None,
        },
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => ValueRef::Int(decode_int(part, bytes)?),
        SqlType::Date => ValueRef::Date(match infinity(part, bytes) {
            Some(true) => i32::MAX,
            Some(false) => i32::MIN,
            None => i32::try_from(decode_days(&unflip::<DATE_WIDTH>(part, bytes)?)?).ok()?,
        }),
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) => ValueRef::Timestamp(match infinity(part, bytes) {
            Some(true) => i64::MAX,
            Some(false) => i64::MIN,
            None => decode_micros(part, bytes)?,
        }),
        SqlType::Uuid => ValueRef::Uuid(decode_uuid(part, bytes)?),
        SqlType::Time(_) => {
            let micros = decode_clock(&unflip::<TIME_WIDTH>(part, bytes)?)?;
            ValueRef::Time(Some(micros).filter(|micros| is_time(*micros))?)
        }
        SqlType::Float4
        | SqlType::Float8
        | SqlType::Numeric { .. }
        | SqlType::Exact(_)
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Interval(_)
        | SqlType::Array(_) => return None,
    })
}

fn infinities(descending: bool) -> (&'static [u8], &'static [u8]) {
    if descending { (b"~infinity", b"+infinity") } else { (b"-infinity", b"infinity") }
}

/// Whether the bytes are plus (`true`) or minus infinity; `None` for finite ones.
fn infinity(part: &KeyPart, bytes: &[u8]) -> Option<bool> {
    let (minus, plus) = infinities(part.descends());
    if bytes == plus { Some(true) } else { (bytes == minus).then_some(false) }
}

fn flip_digits(bytes: &mut [u8]) {
    for byte in bytes {
        if byte.is_ascii_digit() {
            *byte = b'0' + b'9' - *byte;
        }
    }
}

fn flip_if_descending(part: &KeyPart, bytes: &mut [u8]) {
    if part.descends() {
        flip_digits(bytes);
    }
}

/// The bytes with the digits of a descending part restored; `None` for another width.
fn unflip<const WIDTH: usize>(part: &KeyPart, bytes: &[u8]) -> Option<[u8; WIDTH]> {
    let mut bytes: [u8; WIDTH] = bytes.try_into().ok()?;
    flip_if_descending(part, &mut bytes);
    Some(bytes)
}

fn int_width(kind: SqlType) -> usize {
    match kind {
        SqlType::Int2 => 5,
        SqlType::Int4 => 10,
        _ => 19,
    }
}

fn encode_int(part: &KeyPart, n: i64, out: &mut Vec<u8>) {
    if n < 0 {
        out.push(if part.descends() { b'~' } else { b'-' });
    }
    let from = out.len();
    push_digits(n.unsigned_abs(), int_width(part.kind), out);
    if (n < 0) != part.descends() {
        flip_digits(&mut out[from..]);
    }
}

fn decode_int(part: &KeyPart, bytes: &[u8]) -> Option<i64> {
    let sign = if part.descends() { b'~' } else { b'-' };
    let (negative, digits) = match bytes.strip_prefix(&[sign]) {
        Some(digits) => (true, digits),
        None => (false, bytes),
    };
    if digits.len() != int_width(part.kind) {
        return None;
    }
    let flipped = negative != part.descends();
    let mut magnitude = 0u64;
    for &digit in digits {
        let digit = u64::from(digit.checked_sub(b'0').filter(|&digit| digit <= 9)?);
        // Nineteen digits fit into 64 bits.
        magnitude = magnitude * 10 + if flipped { 9 - digit } else { digit };
    }
    if negative && magnitude == 0 {
        return None;
    }
    let n = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    let least = match part.kind {
        SqlType::Int2 => i128::from(i16::MIN),
        SqlType::Int4 => i128::from(i32::MIN),
        _ => i128::from(i64::MIN),
    };
    i64::try_from(n).ok().filter(|_| (least..-least).contains(&n))
}

/// Appends a number with leading zeros.
fn push_digits(mut n: u64, width: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.resize(from + width, b'0');
    for digit in out[from..].iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |n, byte| byte.is_ascii_digit().then(|| n * 10 + i64::from(byte - b'0')))
}

fn encode_days(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    push_digits(year.unsigned_abs(), 4, out);
    out.push(b'-');
    push_digits(month.into(), 2, out);
    out.push(b'-');
    push_digits(day.into(), 2, out);
}

fn decode_days(bytes: &[u8]) -> Option<i64> {
    let [y @ .., b'-', m0, m1, b'-', d0, d1] = bytes else { return None };
    let (year, month, day) = (digits(y)?, digits(&[*m0, *m1])?, digits(&[*d0, *d1])?);
    days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?).filter(|_| year >= 1)
}

fn encode_micros(part: &KeyPart, micros: i64, out: &mut Vec<u8>) {
    encode_days(micros.div_euclid(MICROS_PER_DAY), out);
    out.push(b'T');
    encode_clock(micros.rem_euclid(MICROS_PER_DAY).unsigned_abs(), out);
    if matches!(part.kind, SqlType::Timestamptz(_)) {
        out.push(b'Z');
    }
}

fn encode_clock(micros: u64, out: &mut Vec<u8>) {
    let seconds = micros / 1_000_000;
    for (n, behind) in [(seconds / 3_600, b':'), (seconds / 60 % 60, b':'), (seconds % 60, b'.')] {
        push_digits(n, 2, out);
        out.push(behind);
    }
    push_digits(micros % 1_000_000, 6, out);
}

/// Microseconds since midnight; the hour is not checked.
fn decode_clock(bytes: &[u8]) -> Option<i64> {
    let [h0, h1, b':', m0, m1, b':', s0, s1, b'.', fraction @ ..] = bytes else { return None };
    let (hour, minute, second) = (digits(&[*h0, *h1])?, digits(&[*m0, *m1])?, digits(&[*s0, *s1])?);
    let of_day = ((hour * 60 + minute) * 60 + second) * 1_000_000 + digits(fraction)?;
    (minute < 60 && second < 60).then_some(of_day)
}

fn decode_micros(part: &KeyPart, bytes: &[u8]) -> Option<i64> {
    let bytes = if matches!(part.kind, SqlType::Timestamptz(_)) { bytes.strip_suffix(b"Z")? } else { bytes };
    let bytes = unflip::<TIMESTAMP_WIDTH>(part, bytes)?;
    let days = decode_days(&bytes[..DATE_WIDTH])?;
    let of_day = decode_clock(bytes[DATE_WIDTH..].strip_prefix(b"T")?)?;
    (of_day < MICROS_PER_DAY).then_some(days * MICROS_PER_DAY + of_day)
}

fn encode_uuid(uuid: &[u8; 16], descending: bool, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            out.push(b'-');
        }
        let byte = if descending { !byte } else { *byte };
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn decode_uuid(part: &KeyPart, bytes: &[u8]) -> Option<[u8; 16]> {
    if bytes.len() != UUID_WIDTH {
        return None;
    }
    let mut uuid = [0; 16];
    let mut nibbles = 0;
    for (index, &byte) in bytes.iter().enumerate() {
        let nibble = match byte {
            b'-' if [8, 13, 18, 23].contains(&index) => continue,
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        // A missing hyphen leaves more digits than a uuid has.
        *uuid.get_mut(nibbles / 2)? |= if nibbles % 2 == 0 { nibble << 4 } else { nibble };
        nibbles += 1;
    }
    if part.descends() {
        uuid = uuid.map(|byte| !byte);
    }
    Some(uuid)
}
