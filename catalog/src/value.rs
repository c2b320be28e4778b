//! SQL types that a column may have, and single values of them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

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
    /// `text`
    Text,
    /// `varchar(n)`, n in characters; `None` for `varchar`.
    Varchar(Option<u32>),
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `timestamp`, microseconds.
    Timestamp,
    /// `timestamptz`, microseconds, UTC.
    Timestamptz,
    /// `uuid`
    Uuid,
    /// `json`
    Json,
    /// `jsonb`
    Jsonb,
}

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
    /// `numeric`: the digits as an integer, and how many of them stand after the point.
    Numeric {
        /// The digits.
        unscaled: i128,
        /// Digits after the point.
        scale: u8,
    },
    /// `text`, `varchar`, `json`, `jsonb`
    Text(String),
    /// `bytea`
    Bytes(Bytes),
    /// `date`: days since 1970-01-01; `i32::MIN` and `i32::MAX` are the infinities.
    Date(i32),
    /// `timestamp`, `timestamptz`: microseconds since 1970-01-01; `i64::MIN` and `i64::MAX` are the infinities.
    Timestamp(i64),
    /// `uuid`
    Uuid([u8; 16]),
}
