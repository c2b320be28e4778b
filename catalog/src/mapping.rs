//! Column mappings: how the value of a SQL column becomes the value of a cell, and back. Pure.

use crate::{Result, SqlType, Value};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How a value becomes bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Numbers big-endian, as HBase and Bigtable write them; text as UTF-8.
    #[default]
    Binary,
    /// As PostgreSQL prints it.
    Text,
    /// As JSON.
    Json,
}

/// The bytes of a value that is not NULL.
///
/// # Errors
/// [`BadValue`](crate::ErrorKind::BadValue) or [`OutOfRange`](crate::ErrorKind::OutOfRange) for a value that does not fit the type.
pub fn encode(value: &Value, kind: SqlType, encoding: Encoding) -> Result<Bytes> {
    let _ = (value, kind, encoding);
    todo!()
}

/// The value of a cell's bytes; never NULL.
///
/// # Errors
/// [`BadValue`](crate::ErrorKind::BadValue) for bytes that no value of the type has.
pub fn decode(bytes: &Bytes, kind: SqlType, encoding: Encoding) -> Result<Value> {
    let _ = (bytes, kind, encoding);
    todo!()
}
