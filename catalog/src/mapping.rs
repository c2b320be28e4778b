//! Column mappings: encoding the value of a SQL column as the value of a cell, and decoding it. Pure.
//!
//! [`Encoding::Binary`], by type:
//!
//! ```text
//! boolean                     1 byte, 00 or 01
//! smallint, integer, bigint   2, 4 or 8 bytes big-endian
//! real, double precision      4 or 8 bytes big-endian (IEEE 754)
//! numeric                     scale (4 bytes big-endian), digits (two's complement, big-endian, as few bytes as
//!                             hold them): HBase's form of a BigDecimal
//! date                        4 bytes big-endian, days since 1970-01-01
//! timestamp, timestamptz      8 bytes big-endian, microseconds since 1970-01-01
//! time                        8 bytes big-endian, microseconds since midnight
//! interval                    microseconds (8 bytes), days (4), months (4), each big-endian
//! uuid                        16 bytes
//! text, varchar, json, jsonb  UTF-8
//! bytea                       as it is
//! arrays                      for each item its length in bytes (4 bytes big-endian, ffffffff for NULL), then its
//!                             bytes as above
//! ```
//!
//! [`Encoding::Text`] is the text that PostgreSQL prints. [`Encoding::Json`]: numbers and booleans as in JSON, json as
//! itself, everything else (NaN and the infinities too) as a JSON string of the text that PostgreSQL prints; arrays as
//! arrays of these, with json as a string. [`Encoding::Protobuf`]: a jsonb as [`proto`](crate::proto) maps it; bytes
//! are taken for a message as they are.

#[cfg(test)]
mod tests;

use crate::{
    Error, ErrorKind, ProtoMessage, Result, SqlType, Value,
    value::{
        array::{ARRAY_ITEMS_MAX, ItemType},
        bits,
        calendar::{is_date, is_timestamp},
        clock::is_time,
        exact::{Exact, Parts},
        interval::Interval,
    },
};
use bytes::Bytes;
use num_bigint::BigInt;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;

/// The encoding of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Numbers big-endian, as HBase and Bigtable write them; text as UTF-8.
    #[default]
    Binary,
    /// As PostgreSQL prints it.
    Text,
    /// As JSON.
    Json,
    /// As a protobuf message. The column is a jsonb.
    Protobuf(ProtoMessage),
}

impl Encoding {
    /// The message of a column in protobuf.
    pub fn message(&self) -> Option<&ProtoMessage> {
        match self {
            Self::Protobuf(message) => Some(message),
            _ => None,
        }
    }
}

/// Encodes a value that is not NULL.
///
/// # Errors
/// Those of [`Value::fit`] for a value that does not fit the type; [`BadValue`](crate::ErrorKind::BadValue) for NULL.
pub fn encode(value: &Value, kind: SqlType, encoding: impl Borrow<Encoding>) -> Result<Bytes> {
    match (encoding.borrow(), value) {
        (Encoding::Protobuf(message), Value::Text(json)) => return message.encode(json),
        (Encoding::Protobuf(_), Value::Bytes(bytes)) => return Ok(bytes.clone()),
        _ => {}
    }
    let value = value.fit(kind)?;
    if *value == Value::Null {
        return Err(Error::new(ErrorKind::BadValue, "NULL has no bytes: it is an absent cell"));
    }
    Ok(match encoding.borrow() {
        Encoding::Binary | Encoding::Protobuf(_) => encode_binary(&value, kind),
        Encoding::Text => value.to_text(kind).into(),
        Encoding::Json => encode_json(&value, kind).into(),
    })
}

/// Appends the encoding of a value that is not NULL.
///
/// # Errors
/// As for [`encode`].
pub fn encode_into(value: &Value, kind: SqlType, encoding: impl Borrow<Encoding>, out: &mut Vec<u8>) -> Result<()> {
    let encoding = encoding.borrow();
    match (value, encoding) {
        // The most frequent types, without an intermediate copy.
        (Value::Text(text), Encoding::Binary) if kind == SqlType::Text => out.extend_from_slice(text.as_bytes()),
        (Value::Float(value), Encoding::Binary) if kind == SqlType::Float8 => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Value::Int(value), Encoding::Binary) if kind == SqlType::Int8 => out.extend_from_slice(&value.to_be_bytes()),
        _ => out.extend_from_slice(&encode(value, kind, encoding)?),
    }
    Ok(())
}

/// Decodes a cell's bytes; never NULL.
///
/// # Errors
/// [`BadValue`](crate::ErrorKind::BadValue) for bytes that encode no value of the type.
pub fn decode(bytes: &Bytes, kind: SqlType, encoding: impl Borrow<Encoding>) -> Result<Value> {
    let encoding = encoding.borrow();
    let decoded = match encoding {
        Encoding::Binary => decode_binary(bytes, kind),
        Encoding::Text => std::str::from_utf8(bytes).ok().and_then(|text| Value::parse(text, kind).ok()),
        Encoding::Json => decode_json(bytes, kind),
        Encoding::Protobuf(message) => message.decode(bytes),
    };
    decoded.ok_or_else(|| {
        let shown = bytes[..bytes.len().min(SHOWN_BYTES_MAX)].escape_ascii();
        let message = match encoding.message() {
            Some(message) => format!("stored value is no protobuf message {}", message.name()),
            None => format!("stored value is not of type {kind}"),
        };
        Error::new(ErrorKind::BadValue, message)
            .with_detail(format!("It has {} bytes and begins with \"{shown}\".", bytes.len()))
            .with_hint("The table's option on_bad_value = 'null' reads such values as NULL; raw() shows them.")
    })
}

/// How many bytes of a value that does not decode an error shows.
const SHOWN_BYTES_MAX: usize = 32;

fn encode_binary(value: &Value, kind: SqlType) -> Bytes {
    match value {
        Value::Null => Bytes::new(),
        Value::Bool(value) => vec![u8::from(*value)].into(),
        // `fit` has checked the range.
        Value::Int(n) => match kind {
            SqlType::Int2 => Bytes::copy_from_slice(&(*n as i16).to_be_bytes()),
            SqlType::Int4 => Bytes::copy_from_slice(&(*n as i32).to_be_bytes()),
            _ => Bytes::copy_from_slice(&n.to_be_bytes()),
        },
        Value::Float(value) if kind == SqlType::Float4 => Bytes::copy_from_slice(&(*value as f32).to_be_bytes()),
        Value::Float(value) => Bytes::copy_from_slice(&value.to_be_bytes()),
        Value::Numeric { unscaled, scale } => encode_numeric(*unscaled, *scale),
        Value::Exact(exact) => encode_exact(exact),
        Value::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => bytes.clone(),
        Value::Date(days) => Bytes::copy_from_slice(&days.to_be_bytes()),
        Value::Timestamp(micros) | Value::Time(micros) => Bytes::copy_from_slice(&micros.to_be_bytes()),
        Value::Interval(Interval { months, days, micros }) => {
            [&micros.to_be_bytes()[..], &days.to_be_bytes(), &months.to_be_bytes()].concat().into()
        }
        Value::Uuid(uuid) => Bytes::copy_from_slice(uuid),
        Value::Array(items) => match kind {
            SqlType::Array(item) => encode_items(items, item.kind()),
            _ => Bytes::new(),
        },
    }
}

fn decode_binary(bytes: &Bytes, kind: SqlType) -> Option<Value> {
    let all = bytes.as_ref();
    Some(match kind {
        SqlType::Bool => match all {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            _ => return None,
        },
        SqlType::Int2 => Value::Int(i16::from_be_bytes(all.try_into().ok()?).into()),
        SqlType::Int4 => Value::Int(i32::from_be_bytes(all.try_into().ok()?).into()),
        SqlType::Int8 => Value::Int(i64::from_be_bytes(all.try_into().ok()?)),
        SqlType::Float4 => Value::Float(f32::from_be_bytes(all.try_into().ok()?).into()),
        SqlType::Float8 => Value::Float(f64::from_be_bytes(all.try_into().ok()?)),
        SqlType::Numeric { .. } => {
            let (unscaled, scale) = numeric_parts(all)?;
            Value::Numeric { unscaled, scale }.fit(kind).ok()?.into_owned()
        }
        SqlType::Exact(_) => Value::Exact(exact_of(all)?).fit(kind).ok()?.into_owned(),
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) => {
            Value::Text(std::str::from_utf8(all).ok()?.to_owned())
        }
        SqlType::Bit(_) | SqlType::Varbit(_) => {
            let text = std::str::from_utf8(all).ok().filter(|text| bits::is_value(text, kind))?;
            Value::Text(text.to_owned())
        }
        SqlType::Json | SqlType::Jsonb => Value::parse(std::str::from_utf8(all).ok()?, kind).ok()?,
        SqlType::Bytea => Value::Bytes(bytes.clone()),
        SqlType::Date => Value::Date(Some(i32::from_be_bytes(all.try_into().ok()?)).filter(|days| is_date(*days))?),
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
            let micros = i64::from_be_bytes(all.try_into().ok()?);
            Value::Timestamp(Some(micros).filter(|micros| is_timestamp(*micros))?)
        }
        SqlType::Time(_) => {
            Value::Time(Some(i64::from_be_bytes(all.try_into().ok()?)).filter(|micros| is_time(*micros))?)
        }
        SqlType::Interval(_) => {
            let (micros, rest) = all.split_first_chunk::<8>()?;
            let (days, rest) = rest.split_first_chunk::<4>()?;
            let (micros, days) = (i64::from_be_bytes(*micros), i32::from_be_bytes(*days));
            let months = i32::from_be_bytes(rest.try_into().ok()?);
            Value::Interval(Interval { months, days, micros }).fit(kind).ok()?.into_owned()
        }
        SqlType::Uuid => Value::Uuid(all.try_into().ok()?),
        SqlType::Array(item) => Value::Array(decode_items(bytes, item)?),
    })
}

/// The length that marks an item as NULL.
const NULL_ITEM: u32 = u32::MAX;

fn encode_items(items: &[Value], kind: SqlType) -> Bytes {
    let mut out = Vec::with_capacity(items.len() * 8);
    for item in items {
        if *item == Value::Null {
            out.extend(NULL_ITEM.to_be_bytes());
            continue;
        }
        let bytes = encode_binary(item, kind);
        // A cell holds less than 2^32 bytes; a larger one is refused later because of its size.
        out.extend(u32::try_from(bytes.len()).unwrap_or(NULL_ITEM - 1).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
    out.into()
}

/// The items of an array; `None` for bytes that encode no array, or for too many items.
fn decode_items(bytes: &Bytes, item: ItemType) -> Option<Vec<Value>> {
    let mut items = Vec::new();
    let mut from = 0;
    while from < bytes.len() {
        if items.len() == ARRAY_ITEMS_MAX {
            return None;
        }
        let length = u32::from_be_bytes(*bytes[from..].first_chunk::<4>()?);
        from += size_of::<u32>();
        if length == NULL_ITEM {
            items.push(Value::Null);
            continue;
        }
        let end = from.checked_add(usize::try_from(length).ok()?).filter(|end| *end <= bytes.len())?;
        items.push(decode_binary(&bytes.slice(from..end), item.kind())?);
        from = end;
    }
    Some(items)
}

fn encode_numeric(unscaled: i128, scale: u8) -> Bytes {
    let digits = unscaled.to_be_bytes();
    // A leading byte that only repeats the sign is redundant.
    let sign = if unscaled < 0 { 0xff } else { 0 };
    let repeats = |at: usize| digits[at] == sign && (digits[at + 1] ^ sign) & 0x80 == 0;
    let from = (0..digits.len() - 1).find(|&at| !repeats(at)).unwrap_or(digits.len() - 1);
    [&u32::from(scale).to_be_bytes(), &digits[from..]].concat().into()
}

/// The unscaled integer and the scale of a `numeric` in [`Encoding::Binary`]; `None` for bytes that encode none.
pub fn numeric_parts(bytes: &[u8]) -> Option<(i128, u8)> {
    let (scale, digits) = bytes.split_first_chunk::<4>()?;
    let scale = u8::try_from(u32::from_be_bytes(*scale)).ok()?;
    let fill = if *digits.first()? & 0x80 == 0 { 0 } else { 0xff };
    let mut whole = [fill; size_of::<i128>()];
    let from = whole.len().checked_sub(digits.len())?;
    whole[from..].copy_from_slice(digits);
    Some((i128::from_be_bytes(whole), scale))
}

/// The scale of a NaN or an infinity, whose unscaled integer is one of the following.
const SPECIAL_SCALE: u32 = 0x7fff_ffff;
const SPECIAL: [u8; 3] = [0xff, 0, 1];

fn encode_exact(exact: &Exact) -> Bytes {
    if let Some((unscaled, scale)) = exact.to_i128() {
        return encode_numeric(unscaled, scale);
    }
    let (scale, digits) = match exact.to_integer() {
        Some((unscaled, scale)) => (u32::from(scale), unscaled.to_signed_bytes_be()),
        None => {
            let special = match exact.parts() {
                Parts::MinusInfinity => SPECIAL[0],
                Parts::Infinity => SPECIAL[2],
                _ => SPECIAL[1],
            };
            (SPECIAL_SCALE, vec![special])
        }
    };
    [&scale.to_be_bytes(), &digits[..]].concat().into()
}

fn exact_of(bytes: &[u8]) -> Option<Exact> {
    if let Some((unscaled, scale)) = numeric_parts(bytes) {
        return Some(Exact::of_i128(unscaled, scale));
    }
    let (scale, digits) = bytes.split_first_chunk::<4>()?;
    match (u32::from_be_bytes(*scale), digits) {
        (_, []) => None,
        (SPECIAL_SCALE, [special]) => Some(match SPECIAL.iter().position(|one| one == special)? {
            0 => Exact::infinity(true),
            1 => Exact::nan(),
            _ => Exact::infinity(false),
        }),
        (scale, digits) => Exact::of_integer(&BigInt::from_signed_bytes_be(digits), scale).ok(),
    }
}

fn encode_json(value: &Value, kind: SqlType) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Text(json) if matches!(kind, SqlType::Json | SqlType::Jsonb) => json.clone(),
        Value::Int(_) | Value::Numeric { .. } => value.to_text(kind),
        Value::Exact(exact) if exact.to_integer().is_some() => exact.to_text(),
        Value::Array(items) => {
            let SqlType::Array(item) = kind else { return "[]".to_owned() };
            let item = |value: &Value| match (value, item) {
                (Value::Null, _) => "null".to_owned(),
                // As a string: json keeps its text, and its null differs from NULL.
                (Value::Text(text), ItemType::Json | ItemType::Jsonb) => {
                    serde_json::Value::String(text.clone()).to_string()
                }
                (value, item) => encode_json(value, item.kind()),
            };
            format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(","))
        }
        Value::Float(float) if float.is_finite() => value.to_text(kind),
        _ => serde_json::Value::String(value.to_text(kind)).to_string(),
    }
}

fn decode_json(bytes: &[u8], kind: SqlType) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    if matches!(kind, SqlType::Json | SqlType::Jsonb) {
        return Value::parse(text, kind).ok();
    }
    if let SqlType::Array(item) = kind {
        let items: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
        if items.len() > ARRAY_ITEMS_MAX {
            return None;
        }
        let read = |value: serde_json::Value| match (value, item) {
            (serde_json::Value::Null, _) => Some(Value::Null),
            (serde_json::Value::String(text), ItemType::Json | ItemType::Jsonb) => {
                Value::parse(&text, item.kind()).ok()
            }
            (_, ItemType::Json | ItemType::Jsonb) => None,
            (json, item) => decode_json(json.to_string().as_bytes(), item.kind()),
        };
        return items.into_iter().map(read).collect::<Option<_>>().map(Value::Array);
    }
    match serde_json::from_str(text).ok()? {
        serde_json::Value::Bool(value) if kind == SqlType::Bool => Some(Value::Bool(value)),
        serde_json::Value::Number(number) => match kind {
            SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => Value::parse(&number.to_string(), kind).ok(),
            SqlType::Float4 | SqlType::Float8 | SqlType::Numeric { .. } | SqlType::Exact(_) => {
                Value::parse(&number.to_string(), kind).ok()
            }
            _ => None,
        },
        serde_json::Value::String(text) if kind != SqlType::Bool => Value::parse(&text, kind).ok(),
        _ => None,
    }
}
