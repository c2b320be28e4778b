//! Values of the catalog's types from text and as text, by the session's settings: what depends on none of them is the
//! catalog's own.

use super::{
    Input, encode,
    moments::{date, time, timestamp},
    spans,
    style::Style,
};
use crate::{
    codec::float,
    error::{Result, SqlError, SqlState},
};
use bytes::BytesMut;
use keyspan_catalog::{SqlType, Value, value::array};

/// A text as a value of a type, which it fits.
///
/// # Errors
/// 22P02, and of dates and times 22007, 22008 and others, as PostgreSQL has it; those of [`Value::fit`].
pub fn read(text: &str, kind: SqlType, input: Input<'_>) -> Result<Value> {
    let value = match kind {
        SqlType::Date => Value::Date(date(text, input)?),
        SqlType::Time(_) => Value::Time(time(text, input)?),
        SqlType::Timestamp(_) => Value::Timestamp(timestamp(text, false, input)?),
        SqlType::Timestamptz(_) => Value::Timestamp(timestamp(text, true, input)?),
        SqlType::Interval(_) => Value::Interval(spans::parse(text, input.style)?),
        SqlType::Array(item) if is_styled(item.kind()) => {
            let items = array::items(text)?;
            if items.len() > array::ARRAY_ITEMS_MAX {
                let message = format!("array size exceeds the maximum allowed ({})", array::ARRAY_ITEMS_MAX);
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            let value = |text: Option<String>| text.map_or(Ok(Value::Null), |text| read(&text, item.kind(), input));
            Value::Array(items.into_iter().map(value).collect::<Result<_>>()?)
        }
        kind => return Ok(Value::parse(text, kind)?),
    };
    Ok(value.into_fit(kind)?)
}

/// Whether settings say how values of a type are read.
fn is_styled(kind: SqlType) -> bool {
    use SqlType::{Date, Interval, Time, Timestamp, Timestamptz};
    matches!(kind, Date | Time(_) | Timestamp(_) | Timestamptz(_) | Interval(_))
}

/// A value as text; empty for NULL. A `real` needs its type to print its shortest form.
pub fn text(value: &Value, kind: SqlType, style: &Style) -> String {
    let mut out = BytesMut::new();
    match value {
        Value::Date(days) => encode::date(*days, style, &mut out),
        Value::Timestamp(micros) => {
            encode::timestamp(*micros, matches!(kind, SqlType::Timestamptz(_)), style, &mut out)
        }
        Value::Interval(span) => encode::interval(span.months, span.days, span.micros, style, &mut out),
        Value::Bytes(bytes) if style.bytea_escape => encode::escaped(bytes, &mut out),
        Value::Float(float) if style.extra_float_digits <= 0 => {
            let always = if kind == SqlType::Float4 { float::F32_DIGITS } else { float::F64_DIGITS };
            float::write_rounded(*float, float::digits(always, style.extra_float_digits), &mut out);
        }
        Value::Array(items) => {
            let SqlType::Array(item) = kind else { return String::new() };
            return array::text_of(items, |value| text(value, item.kind(), style));
        }
        other => return other.to_text(kind),
    }
    String::from_utf8_lossy(&out).into_owned()
}
