//! The SQL types of columns, and single values of them.
//!
//! A value comes from SQL or from text ([`Value::parse`]), is cast to its column's type ([`Value::fit`]), and is
//! encoded in a row key ([`key`](crate::key)) or a cell ([`mapping`](crate::mapping)); [`Value::to_text`] prints it.
//! This room knows PostgreSQL's types and their text, but no table.

pub mod array;
pub mod bits;
pub mod calendar;
pub mod clock;
pub mod exact;
mod fit;
pub mod interval;
pub mod jsonb;
pub mod seconds;
mod text;

use array::ItemType;
use bytes::Bytes;
use exact::{Digits, Exact};
pub use fit::cut_name;
use interval::Interval;
use seconds::SecondDigits;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cmp::Ordering, fmt};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlType {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(precision, scale)`, at most 38 digits.
    Numeric {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `numeric`, whose values have any number of digits, and `numeric(precision, scale)` with more than 38 or with a
    /// scale that is not within the precision.
    Exact(Option<Digits>),
    /// `text`
    Text,
    /// `name`: text of at most [`NAME_BYTES_MAX`] bytes, in private tables only. What is longer is cut.
    Name,
    /// `varchar(n)`, n in characters; `None` for `varchar`.
    Varchar(Option<u32>),
    /// `char(n)`, n in characters, in private tables only. Trailing blanks are insignificant and not stored.
    Char(u32),
    /// `bit(n)`, which has n bits; `None` for what operators give, of any length. A value is the text of its `0` and
    /// `1`, whose order is that of bit strings. In private tables only.
    Bit(Option<u32>),
    /// `bit varying(n)`; `None` without a bound. As [`Bit`](Self::Bit) else.
    Varbit(Option<u32>),
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `uuid`
    Uuid,
    /// `json`
    Json,
    /// `jsonb`
    Jsonb,
    /// An array of one dimension. Not allowed in keys.
    Array(ItemType),
    /// `time(p)`, microseconds.
    #[serde(untagged)]
    Time(#[serde(with = "seconds::time")] SecondDigits),
    /// `timestamp(p)`, microseconds.
    #[serde(untagged)]
    Timestamp(#[serde(with = "seconds::timestamp")] SecondDigits),
    /// `timestamptz(p)`, microseconds, UTC.
    #[serde(untagged)]
    Timestamptz(#[serde(with = "seconds::timestamptz")] SecondDigits),
    /// `interval(p)`, microseconds. Not allowed in keys.
    #[serde(untagged)]
    Interval(#[serde(with = "seconds::interval")] SecondDigits),
}

/// Maximum bytes of a `name`: PostgreSQL's NAMEDATALEN without the zero at its end.
pub const NAME_BYTES_MAX: usize = 63;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`, `integer`, `bigint`
    Int(i64),
    /// `real`, `double precision`
    Float(f64),
    /// `numeric`: the digits as an integer, and the number of digits after the point.
    Numeric {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// `numeric` of any number of digits.
    Exact(Exact),
    /// `text`, `varchar`, `json`, `jsonb`
    Text(String),
    /// `bytea`
    Bytes(Bytes),
    /// `date`: days since 1970-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// `time`: microseconds since midnight, 24 hours at most.
    Time(i64),
    /// `timestamp`, `timestamptz`: microseconds since 1970-01-01; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array: its items, which may be NULL.
    Array(Vec<Value>),
}

/// One value that is not NULL, with its text or bytes borrowed if they are stored unescaped.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// `boolean`
    Bool(bool),
    /// `smallint`, `integer`, `bigint`
    Int(i64),
    /// `real`, `double precision`
    Float(f64),
    /// `numeric`, as [`Value::Numeric`].
    Numeric {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// `numeric` of any number of digits, as [`Value::Exact`].
    Exact(Exact),
    /// `text`, `varchar`, `json`, `jsonb`
    Text(Cow<'a, str>),
    /// `bytea`
    Bytes(Cow<'a, [u8]>),
    /// `date`, as [`Value::Date`].
    Date(i32),
    /// `time`, as [`Value::Time`].
    Time(i64),
    /// `timestamp`, `timestamptz`, as [`Value::Timestamp`].
    Timestamp(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array, as [`Value::Array`].
    Array(Cow<'a, [Value]>),
}

impl Value {
    /// The value, borrowed; `None` for NULL.
    pub fn borrowed(&self) -> Option<ValueRef<'_>> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int(value) => ValueRef::Int(*value),
            Self::Float(value) => ValueRef::Float(*value),
            Self::Numeric { unscaled, scale } => ValueRef::Numeric { unscaled: *unscaled, scale: *scale },
            Self::Exact(exact) => ValueRef::Exact(exact.clone()),
            Self::Text(text) => ValueRef::Text(text.into()),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes.as_ref().into()),
            Self::Date(days) => ValueRef::Date(*days),
            Self::Timestamp(micros) => ValueRef::Timestamp(*micros),
            Self::Time(micros) => ValueRef::Time(*micros),
            Self::Interval(span) => ValueRef::Interval(*span),
            Self::Uuid(bytes) => ValueRef::Uuid(*bytes),
            Self::Array(items) => ValueRef::Array(items.into()),
        })
    }
}

impl ValueRef<'_> {
    /// The owned value; borrowed text or bytes are copied.
    pub fn into_value(self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::Int(value),
            Self::Float(value) => Value::Float(value),
            Self::Numeric { unscaled, scale } => Value::Numeric { unscaled, scale },
            Self::Exact(exact) => Value::Exact(exact),
            Self::Text(text) => Value::Text(text.into_owned()),
            Self::Bytes(bytes) => Value::Bytes(bytes.into_owned().into()),
            Self::Date(value) => Value::Date(value),
            Self::Time(value) => Value::Time(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Interval(value) => Value::Interval(value),
            Self::Uuid(value) => Value::Uuid(value),
            Self::Array(items) => Value::Array(items.into_owned()),
        }
    }
}

impl Value {
    /// Compares two values of one type in PostgreSQL's order, texts in collation C. `None` for NULL and for values of
    /// different types.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b))
            | (Self::Timestamp(a), Self::Timestamp(b))
            | (Self::Time(a), Self::Time(b)) => a.cmp(b),
            // NaN equals itself and is above all other values.
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
            (Self::Numeric { unscaled: a, scale: x }, Self::Numeric { unscaled: b, scale: y }) => {
                compare_numeric((*a, *x), (*b, *y))
            }
            (Self::Exact(a), Self::Exact(b)) => a.compare(b),
            (Self::Exact(a), Self::Numeric { unscaled, scale }) => a.compare(&Exact::of_i128(*unscaled, *scale)),
            (Self::Numeric { unscaled, scale }, Self::Exact(b)) => Exact::of_i128(*unscaled, *scale).compare(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::Date(a), Self::Date(b)) => a.cmp(b),
            (Self::Interval(a), Self::Interval(b)) => a.compare(*b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => return array::compare(a, b),
            _ => return None,
        })
    }
}

/// Compares two numbers, given as unscaled integer and scale.
fn compare_numeric((a, a_scale): (i128, u8), (b, b_scale): (i128, u8)) -> Ordering {
    if a_scale > b_scale {
        return compare_numeric((b, b_scale), (a, a_scale)).reverse();
    }
    let raised = 10i128.checked_pow(u32::from(b_scale - a_scale)).and_then(|factor| a.checked_mul(factor));
    match raised {
        Some(a) => a.cmp(&b),
        // `a`, rescaled, exceeds 128 bits and is therefore beyond `b`, except for zero.
        None if a == 0 => 0.cmp(&b),
        None => a.cmp(&0),
    }
}

impl SqlType {
    /// The type without digits of a second: of arrays, without those of their items. Others stay as they are.
    #[must_use]
    pub fn without_second_digits(self) -> Self {
        match self {
            Self::Time(_) => Self::Time(None),
            Self::Timestamp(_) => Self::Timestamp(None),
            Self::Timestamptz(_) => Self::Timestamptz(None),
            Self::Interval(_) => Self::Interval(None),
            Self::Array(item) => item.kind().without_second_digits().array().unwrap_or(self),
            other => other,
        }
    }

    /// Digits of a second that a type of times keeps; `None` for other types.
    pub fn second_digits(self) -> Option<u8> {
        match self {
            Self::Time(digits) | Self::Timestamp(digits) | Self::Timestamptz(digits) | Self::Interval(digits) => {
                Some(digits.unwrap_or(seconds::SECOND_DIGITS_MAX))
            }
            _ => None,
        }
    }
}

impl fmt::Display for SqlType {
    /// Prints the type as PostgreSQL's `format_type` does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("boolean"),
            Self::Int2 => f.write_str("smallint"),
            Self::Int4 => f.write_str("integer"),
            Self::Int8 => f.write_str("bigint"),
            Self::Float4 => f.write_str("real"),
            Self::Float8 => f.write_str("double precision"),
            Self::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::Exact(None) => f.write_str("numeric"),
            Self::Exact(Some(Digits { precision, scale })) => write!(f, "numeric({precision},{scale})"),
            Self::Text => f.write_str("text"),
            Self::Name => f.write_str("name"),
            Self::Varchar(None) => f.write_str("character varying"),
            Self::Varchar(Some(length)) => write!(f, "character varying({length})"),
            Self::Char(length) => write!(f, "character({length})"),
            // Without its quotes the name means one bit.
            Self::Bit(None) => f.write_str("\"bit\""),
            Self::Bit(Some(length)) => write!(f, "bit({length})"),
            Self::Varbit(None) => f.write_str("bit varying"),
            Self::Varbit(Some(length)) => write!(f, "bit varying({length})"),
            Self::Bytea => f.write_str("bytea"),
            Self::Date => f.write_str("date"),
            Self::Time(digits) => write!(f, "time{} without time zone", seconds::suffix(*digits)),
            Self::Timestamp(digits) => write!(f, "timestamp{} without time zone", seconds::suffix(*digits)),
            Self::Timestamptz(digits) => write!(f, "timestamp{} with time zone", seconds::suffix(*digits)),
            Self::Interval(digits) => write!(f, "interval{}", seconds::suffix(*digits)),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::Array(item) => write!(f, "{}[]", item.kind()),
        }
    }
}
