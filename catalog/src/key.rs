//! Row-key schemas: ordered parts with type and direction, and their encodings. Pure.

use crate::{Result, SqlType, Value};
use keyspan_storage::{KeyRange, RowKey};
use serde::{Deserialize, Serialize};
use std::ops::Bound;

/// How the parts of a key become bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyEncoding {
    /// Human-readable: parts joined by `#`.
    #[default]
    Delimited,
    /// Binary: any value, any direction.
    Ordered,
}

/// A part of a row key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub kind: SqlType,
    /// Whether greater values come first.
    #[serde(default)]
    pub descending: bool,
}

/// The parts of a table's row keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySchema {
    /// How parts become bytes.
    pub encoding: KeyEncoding,
    /// The parts, in order; at least one.
    pub parts: Vec<KeyPart>,
    /// Whether a tenant's id stands before the parts (`id#…`), as the operator sees keys. It is then the first of the values
    /// that the functions below take and give, and the first of [`columns`](Self::columns).
    #[serde(skip)]
    pub with_tenant: bool,
}

/// What is known of one part of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBounds {
    /// It lies between two values, by the type's own order, whatever the part's direction.
    Between(Bound<Value>, Bound<Value>),
    /// It is text that starts so.
    TextPrefix(String),
}

impl KeySchema {
    /// The key of a row: one value for each part.
    ///
    /// # Errors
    /// [`NullValue`](crate::ErrorKind::NullValue), [`BadValue`](crate::ErrorKind::BadValue), or a key over the store's limit.
    pub fn encode(&self, values: &[Value]) -> Result<RowKey> {
        let _ = values;
        todo!()
    }

    /// The values of a key's parts.
    ///
    /// # Errors
    /// [`BadValue`](crate::ErrorKind::BadValue) for a key that does not conform.
    pub fn decode(&self, key: &[u8]) -> Result<Vec<Value>> {
        let _ = key;
        todo!()
    }

    /// The range of the keys whose first parts equal `equal` and whose next part, if `next` is given, lies in its bounds.
    ///
    /// It may hold other keys, never lacks one. With a value for every part it is a [point](KeyRange::as_point). `None` when no key
    /// can be in it (a NULL, a value that no key can hold).
    pub fn range(&self, equal: &[Value], next: Option<&PartBounds>) -> Option<KeyRange> {
        let _ = (equal, next);
        todo!()
    }

    /// Whether [`range`](Self::range) of these arguments holds no other key, so that the predicate need not be looked at again.
    pub fn range_is_exact(&self, equal: &[Value], next: Option<&PartBounds>) -> bool {
        let _ = (equal, next);
        todo!()
    }
}
