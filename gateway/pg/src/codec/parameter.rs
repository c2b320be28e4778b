//! Values of parameters, text and binary, as DataFusion's scalars.

use crate::{
    codec::{
        format::{Format, utf8},
        numeric, parse, time,
    },
    datetime::Input,
    error::{Result, SqlError, SqlState},
    types,
};
use arrow::{
    array::{Array, ArrayRef, ListArray, new_empty_array},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, IntervalMonthDayNano},
};
use bytes::Buf;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{SqlType, Value, value::bits};
use pgwire::api::Type;
use std::sync::Arc;
use tokio_postgres::types::Kind;

/// Reads the value that a client sent for a parameter of type `kind`, as a scalar of type `target`. `None` is NULL.
///
/// # Errors
/// 22P02 or 22P03 for bytes that no value of the type has, 22003 or 22008 for one out of range, 0A000 for a type
/// unknown here in binary.
#[inline]
pub fn decode(
    bytes: Option<&[u8]>,
    kind: &Type,
    format: Format,
    target: &DataType,
    input: Input<'_>,
) -> Result<ScalarValue> {
    let Some(bytes) = bytes else { return null(target) };
    let value = match format {
        Format::Text => of_text(utf8(bytes)?, kind, target, input)?,
        Format::Binary => of_binary(bytes, kind, target, input)?,
    };
    if value.data_type() == *target || *target == DataType::Null {
        return Ok(value);
    }
    if crate::numeric::cast::converts(&value.data_type(), target) {
        return Ok(crate::numeric::cast::convert_scalar(&value, target)?);
    }
    let shown = || match format {
        Format::Text => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        Format::Binary => format!("a binary value of {} bytes", bytes.len()),
    };
    value.cast_to(target).map_err(|_| match kind_class(kind) {
        Class::Number => {
            let message = format!("value {} is out of range for type {}", shown(), name(kind));
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        }
        Class::Time => {
            let message = format!("invalid input syntax for type {}: {}", name(kind), shown());
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        }
        Class::Other => invalid_text(kind, &shown()),
    })
}

fn null(target: &DataType) -> Result<ScalarValue> {
    ScalarValue::try_from(target)
        .map_err(|error| SqlError::unsupported(format!("a parameter of type {target}: {error}")))
}

enum Class {
    Number,
    Time,
    Other,
}

fn kind_class(kind: &Type) -> Class {
    match *kind {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID | Type::NUMERIC | Type::FLOAT4 | Type::FLOAT8 => Class::Number,
        Type::DATE | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => Class::Time,
        _ => Class::Other,
    }
}

/// The name of a type in messages.
fn name(kind: &Type) -> &str {
    match *kind {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::TIMESTAMP => "timestamp",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        ref other => other.name(),
    }
}

fn invalid_text(kind: &Type, shown: &str) -> SqlError {
    let message = format!("invalid input syntax for type {}: {shown}", name(kind));
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
}

fn of_text(text: &str, kind: &Type, target: &DataType, input: Input<'_>) -> Result<ScalarValue> {
    let invalid = || invalid_text(kind, &format!("\"{text}\""));
    let trimmed = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    Ok(match *kind {
        Type::BOOL => ScalarValue::Boolean(Some(boolean(trimmed).ok_or_else(invalid)?)),
        Type::INT2 => ScalarValue::Int16(Some(integer(trimmed, kind)?)),
        Type::INT4 => ScalarValue::Int32(Some(integer(trimmed, kind)?)),
        Type::INT8 => ScalarValue::Int64(Some(integer(trimmed, kind)?)),
        Type::OID => ScalarValue::UInt32(Some(integer(trimmed, kind)?)),
        Type::FLOAT4 => ScalarValue::Float32(Some(float(trimmed, kind)? as f32)),
        Type::FLOAT8 => ScalarValue::Float64(Some(float(trimmed, kind)?)),
        Type::NUMERIC => match *target {
            DataType::Decimal128(precision, scale) => {
                let number = parse::numeric(trimmed, precision, scale)?;
                ScalarValue::Decimal128(Some(number), precision, scale)
            }
            _ => ScalarValue::LargeBinary(Some(parse::exact(text)?.as_bytes().to_vec())),
        },
        Type::BIT | Type::VARBIT => ScalarValue::LargeUtf8(Some(bits::parse(text)?.into_owned())),
        Type::BYTEA => ScalarValue::Binary(Some(bytea(text).ok_or_else(invalid)?)),
        Type::UUID => uuid_value(*uuid::Uuid::parse_str(trimmed).map_err(|_| invalid())?.as_bytes(), target),
        Type::TIMESTAMP => micros_value(parse::timestamp(trimmed, false, input)?, kind),
        Type::TIMESTAMPTZ => micros_value(parse::timestamp(trimmed, true, input)?, kind),
        Type::DATE => ScalarValue::Date32(Some(parse::date(trimmed, input)?)),
        Type::TIME => ScalarValue::Time64Microsecond(Some(parse::time(trimmed, input)?)),
        Type::INTERVAL => ScalarValue::IntervalMonthDayNano(Some(parse::interval(trimmed, input)?)),
        Type::JSON => {
            Value::parse(text, SqlType::Json)?;
            ScalarValue::Utf8(Some(text.to_owned()))
        }
        Type::JSONB => ScalarValue::Utf8(Some(parse::jsonb(text)?)),
        _ => match kind.kind() {
            Kind::Array(item) => array_of_text(text, item, target, input).ok_or_else(|| {
                let message = format!("malformed array literal: \"{text}\"");
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })??,
            _ => ScalarValue::Utf8(Some(text.to_owned())),
        },
    })
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let starts = |word: &str| !text.is_empty() && word.starts_with(&text);
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        "o" => None,
        _ if starts("true") || starts("yes") => Some(true),
        _ if starts("false") || starts("no") => Some(false),
        _ => None,
    }
}

fn integer<T: TryFrom<i128>>(text: &str, kind: &Type) -> Result<T> {
    let number: i128 = text.parse().map_err(|_| invalid_text(kind, &format!("\"{text}\"")))?;
    T::try_from(number).map_err(|_| {
        let message = format!("value \"{text}\" is out of range for type {}", name(kind));
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

fn float(text: &str, kind: &Type) -> Result<f64> {
    let number: f64 = text.parse().map_err(|_| invalid_text(kind, &format!("\"{text}\"")))?;
    let bounded = *kind != Type::FLOAT4 || !number.is_finite() || (number as f32).is_finite();
    let named = text.bytes().any(|byte| matches!(byte, b'i' | b'I' | b'n' | b'N'));
    if bounded && (number.is_finite() || named) {
        // One with a minus, too.
        return Ok(if number.is_nan() { f64::NAN } else { number });
    }
    let message = format!("\"{text}\" is out of range for type {}", name(kind));
    Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

/// `\x` and hexadecimal digits, or text with `\\` and `\ooo`.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let pair = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
        let all_hex = digits.iter().all(u8::is_ascii_hexdigit) && digits.len().is_multiple_of(2);
        return if all_hex { digits.chunks(2).map(pair).collect() } else { None };
    }
    let (mut bytes, mut out) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let Some((first, rest)) = bytes.split_first() {
        bytes = match (first, rest) {
            (b'\\', [b'\\', rest @ ..]) => {
                out.push(b'\\');
                rest
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..]) => {
                out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest
            }
            (b'\\', _) => return None,
            (byte, rest) => {
                out.push(*byte);
                rest
            }
        };
    }
    Some(out)
}

fn micros_value(micros: i64, kind: &Type) -> ScalarValue {
    let zone = (*kind == Type::TIMESTAMPTZ).then(|| types::UTC.into());
    ScalarValue::TimestampMicrosecond(Some(micros), zone)
}

fn uuid_value(bytes: [u8; 16], target: &DataType) -> ScalarValue {
    if *target == types::UUID {
        return ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec()));
    }
    ScalarValue::Utf8(Some(uuid::Uuid::from_bytes(bytes).to_string()))
}

fn of_binary(bytes: &[u8], kind: &Type, target: &DataType, input: Input<'_>) -> Result<ScalarValue> {
    let invalid = || {
        let message = format!("incorrect binary data format for a parameter of type {}", name(kind));
        SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
    };
    let text = || utf8(bytes).map(|text| ScalarValue::Utf8(Some(text.to_owned())));
    macro_rules! number {
        ($scalar:ident, $number:ty) => {
            ScalarValue::$scalar(Some(<$number>::from_be_bytes(bytes.try_into().map_err(|_| invalid())?)))
        };
    }
    Ok(match *kind {
        Type::BOOL => match bytes {
            [byte] => ScalarValue::Boolean(Some(*byte != 0)),
            _ => return Err(invalid()),
        },
        Type::INT2 => number!(Int16, i16),
        Type::INT4 => number!(Int32, i32),
        Type::INT8 => number!(Int64, i64),
        Type::OID | Type::REGCLASS | Type::REGTYPE => number!(UInt32, u32),
        // A NaN with a sign is that of `'NaN'`, as arithmetic has it.
        Type::FLOAT4 => match number!(Float32, f32) {
            ScalarValue::Float32(Some(number)) if number.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
            number => number,
        },
        Type::FLOAT8 => match number!(Float64, f64) {
            ScalarValue::Float64(Some(number)) if number.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
            number => number,
        },
        Type::NUMERIC => of_text(&numeric::text_of_binary(bytes).ok_or_else(invalid)?, kind, target, input)?,
        Type::BIT | Type::VARBIT => ScalarValue::LargeUtf8(Some(unpacked(bytes).ok_or_else(invalid)?)),
        Type::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        Type::UUID => uuid_value(bytes.try_into().map_err(|_| invalid())?, target),
        Type::DATE => {
            let days = i32::from_be_bytes(bytes.try_into().map_err(|_| invalid())?);
            let infinite = days == i32::MAX || days == i32::MIN;
            let days = if infinite { Some(days) } else { days.checked_add(time::EPOCH_DAYS) };
            ScalarValue::Date32(Some(days.ok_or_else(invalid)?))
        }
        Type::TIME => number!(Time64Microsecond, i64),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(bytes.try_into().map_err(|_| invalid())?);
            let infinite = micros == i64::MAX || micros == i64::MIN;
            let micros = if infinite { Some(micros) } else { micros.checked_add(time::EPOCH_MICROS) };
            micros_value(micros.ok_or_else(invalid)?, kind)
        }
        Type::INTERVAL => interval(bytes).ok_or_else(invalid)?,
        Type::JSONB => match bytes {
            [1, rest @ ..] => of_text(utf8(rest)?, kind, target, input)?,
            _ => return Err(invalid()),
        },
        Type::JSON => of_text(utf8(bytes)?, kind, target, input)?,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::CHAR => text()?,
        _ => match kind.kind() {
            Kind::Array(item) => array_of_binary(bytes, item, target, input).ok_or_else(invalid)??,
            _ => return Err(SqlError::unsupported(format!("a binary parameter of type {}", name(kind)))),
        },
    })
}

/// Bits of bytes behind their number, the first of a byte being its greatest.
fn unpacked(mut bytes: &[u8]) -> Option<String> {
    let count = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    if bytes.len() != count.div_ceil(8) {
        return None;
    }
    let bit = |at: usize| if bytes[at / 8] >> (7 - at % 8) & 1 == 1 { '1' } else { '0' };
    Some((0..count).map(bit).collect())
}

fn interval(mut bytes: &[u8]) -> Option<ScalarValue> {
    if bytes.len() != 16 {
        return None;
    }
    let (micros, days, months) = (bytes.get_i64(), bytes.get_i32(), bytes.get_i32());
    let nanoseconds = micros.checked_mul(1_000)?;
    Some(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months, days, nanoseconds })))
}

/// The type of the items of a target; text for a target that is no list.
fn item_type(target: &DataType, item: &Type) -> DataType {
    match target {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type().clone()
        }
        _ => types::parameter_type(item).unwrap_or(DataType::Utf8),
    }
}

fn list(items: Vec<ScalarValue>, data: DataType) -> Result<ScalarValue> {
    let internal = |error: String| SqlError::new(SqlState::INTERNAL_ERROR, error);
    let count = items.len();
    let values: ArrayRef = if items.is_empty() {
        new_empty_array(&data)
    } else {
        ScalarValue::iter_to_array(items).map_err(|error| internal(error.to_string()))?
    };
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let list = ListArray::try_new(field, OffsetBuffer::from_lengths([count]), values, None);
    Ok(ScalarValue::List(Arc::new(list.map_err(|error| internal(error.to_string()))?)))
}

/// `None` for bytes that are no array of one dimension.
fn array_of_binary(mut bytes: &[u8], item: &Type, target: &DataType, input: Input<'_>) -> Option<Result<ScalarValue>> {
    let data = item_type(target, item);
    let dimensions = bytes.try_get_i32().ok()?;
    bytes.try_get_i32().ok()?;
    bytes.try_get_u32().ok()?;
    if dimensions == 0 {
        return bytes.is_empty().then(|| list(Vec::new(), data));
    }
    let count = bytes.try_get_i32().ok()?;
    bytes.try_get_i32().ok()?;
    if dimensions != 1 || count < 0 {
        return None;
    }
    let mut items = Vec::new();
    for _ in 0..count {
        let length = bytes.try_get_i32().ok()?;
        let value = match usize::try_from(length) {
            Ok(length) => Some(bytes.split_off(..length)?),
            Err(_) => None,
        };
        match decode(value, item, Format::Binary, &data, input) {
            Ok(value) => items.push(value),
            Err(error) => return Some(Err(error)),
        }
    }
    bytes.is_empty().then(|| list(items, data))
}

/// `None` for text that is no array of one dimension.
fn array_of_text(text: &str, item: &Type, target: &DataType, input: Input<'_>) -> Option<Result<ScalarValue>> {
    let data = item_type(target, item);
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.chars().peekable();
    let mut items = Vec::new();
    while rest.peek().is_some() {
        let (mut value, mut quoted, mut inside) = (String::new(), false, false);
        loop {
            match rest.next() {
                None if inside => return None,
                None => break,
                Some(',') if !inside => {
                    // A comma at the end announces an item that is not there.
                    rest.peek()?;
                    break;
                }
                Some('"') => (quoted, inside) = (true, !inside),
                Some('\\') => value.push(rest.next()?),
                Some('{' | '}') if !inside => return None,
                Some(char) => value.push(char),
            }
        }
        let value = if quoted { value } else { value.trim().to_owned() };
        if value.is_empty() && !quoted {
            return None;
        }
        let is_null = !quoted && value.eq_ignore_ascii_case("null");
        match decode((!is_null).then_some(value.as_bytes()), item, Format::Text, &data, input) {
            Ok(value) => items.push(value),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(list(items, data))
}

#[cfg(test)]
mod tests;
