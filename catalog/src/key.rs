//! Row-key schemas: ordered parts with type and direction, and their encodings. Pure.
//!
//! A row's values become a key with [`KeySchema::encode`], and a key becomes values with [`KeySchema::decode_refs`]. What a predicate
//! says of the leading parts becomes a range of keys with [`KeySchema::range`]. The order of keys, as bytes, is the order of the
//! tuples of values: that of the SQL types, texts in collation C, a descending part turned round.
//!
//! Two encodings stand beside each other, `delimited` and `ordered`. In both, what a part's value becomes is no prefix of what
//! another value becomes once the part's end is counted in; so all keys with the same first parts lie together, and nothing else
//! between them. A tenant's id, where the schema has one, stands first as text and ends with `#` in either encoding.
//!
//! [`KeyColumns`] makes typed columns of many keys at once.

mod columns;
mod delimited;
mod ordered;
#[cfg(test)]
pub(crate) mod tests;

pub use columns::KeyColumns;

use crate::{Error, ErrorKind, Result, SqlType, Value, ValueRef, ids, table, tenant::TENANT_DELIMITER};
use keyspan_storage::{
    KeyRange, RowKey,
    model::{limits::ROW_KEY_BYTES_MAX, prefix_end},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, ops::Bound};

/// Parts of a key: as many as an index of PostgreSQL may have columns.
pub const KEY_PARTS_MAX: usize = 32;

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

/// Where a value stands among the values that a part of a key can have.
enum Place {
    /// A key can hold it: its bytes, without the delimiter.
    At(Vec<u8>),
    /// No key holds it, but its place among the others is at these bytes.
    Gap(Vec<u8>),
    /// Below all of them.
    Below,
    /// Above all of them.
    Above,
    /// It is NULL, which no key holds and nothing compares with.
    Null,
    /// It is of a type that the part's values are not compared with here.
    Unknown,
}

/// One end of a range of values, as what it says of the encoded part.
enum End {
    /// No end.
    Open,
    /// The encoded value, whether a key can hold it, and whether it is in the range itself.
    Value { bytes: Vec<u8>, held: bool, included: bool },
}

impl KeySchema {
    /// Checks what a schema may be.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no part, too many, or one column twice; [`Unsupported`](ErrorKind::Unsupported) for a
    /// type or direction that the encoding does not have.
    pub fn check(&self) -> Result<()> {
        if self.parts.is_empty() || self.parts.len() > KEY_PARTS_MAX {
            let message = format!("a primary key has 1 to {KEY_PARTS_MAX} columns, not {}", self.parts.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        for (index, part) in self.parts.iter().enumerate() {
            if self.parts[..index].iter().any(|other| other.name == part.name) {
                let message = format!("column \"{}\" appears twice in primary key constraint", part.name);
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            self.check_part(part)?;
        }
        Ok(())
    }

    fn check_part(&self, part: &KeyPart) -> Result<()> {
        let unsupported = |what: &str, hint: &str| {
            let message = format!("column \"{}\" cannot be part of the primary key: {what}", part.name);
            Err(Error::new(ErrorKind::Unsupported, message).with_hint(hint))
        };
        let delimited = self.encoding == KeyEncoding::Delimited;
        match part.kind {
            SqlType::Json | SqlType::Jsonb => {
                unsupported("its type has no order", "Take a column of another type into the key.")
            }
            SqlType::Interval => unsupported(
                "two intervals may be of one length and not the same",
                "Take the length of it into the key, in microseconds as a bigint.",
            ),
            SqlType::Array(_) => {
                unsupported("an array has no place in keys", "Take columns for its items into the key.")
            }
            SqlType::Float4 | SqlType::Float8 | SqlType::Numeric { .. } if delimited => unsupported(
                "its type has no place in delimited keys",
                "Create the table WITH (key_encoding = 'ordered'), or take an integer type.",
            ),
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Bytea if delimited && part.descending => {
                unsupported(
                    "texts do not descend in delimited keys",
                    "Create the table WITH (key_encoding = 'ordered'), or leave out DESC.",
                )
            }
            _ => Ok(()),
        }
    }

    /// The parts with the tenant's id as the first, if the schema has it.
    pub fn columns(&self) -> Vec<KeyPart> {
        let tenant = KeyPart { name: table::TENANT_COLUMN.to_owned(), kind: SqlType::Text, descending: false };
        self.with_tenant.then_some(tenant).into_iter().chain(self.parts.iter().cloned()).collect()
    }

    /// How many values the functions below take and give.
    pub fn column_count(&self) -> usize {
        self.parts.len() + usize::from(self.with_tenant)
    }

    /// The same keys, as the operator sees them.
    #[must_use]
    pub fn for_operator(&self) -> Self {
        Self { with_tenant: true, ..self.clone() }
    }

    /// The key of a row: one value for each part.
    ///
    /// # Errors
    /// [`NullValue`](crate::ErrorKind::NullValue), [`BadValue`](crate::ErrorKind::BadValue), or a key over the store's limit.
    pub fn encode(&self, values: &[Value]) -> Result<RowKey> {
        if values.len() != self.column_count() {
            let message = format!("a key of {} columns cannot hold {} values", self.column_count(), values.len());
            return Err(Error::new(ErrorKind::BadValue, message));
        }
        let mut key = Vec::with_capacity(64);
        let values = match values {
            [Value::Text(tenant), rest @ ..] if self.with_tenant && ids::is_tenant_id(tenant) => {
                key.extend_from_slice(tenant.as_bytes());
                key.push(TENANT_DELIMITER);
                rest
            }
            [Value::Null, ..] if self.with_tenant => return Err(null_part(table::TENANT_COLUMN)),
            [value, ..] if self.with_tenant => {
                let message = format!("{value:?} is not the id of a tenant");
                return Err(Error::new(ErrorKind::BadValue, message));
            }
            all => all,
        };
        let body = key.len();
        for (index, (part, value)) in self.parts.iter().zip(values).enumerate() {
            if *value == Value::Null {
                return Err(null_part(&part.name));
            }
            let value = value.fit(part.kind)?;
            match self.encoding {
                KeyEncoding::Delimited => {
                    delimited::encode(part, &value, &mut key)?;
                    if index + 1 < self.parts.len() {
                        key.push(delimited::DELIMITER);
                    }
                }
                KeyEncoding::Ordered => ordered::encode(part, &value, &mut key),
            }
        }
        if key.len() == body {
            key.push(delimited::DELIMITER);
        }
        Ok(RowKey::new(key)?)
    }

    /// The values of a key's parts.
    ///
    /// # Errors
    /// [`BadValue`](crate::ErrorKind::BadValue) for a key that does not conform.
    pub fn decode(&self, key: &[u8]) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(self.column_count());
        self.decode_into(key, &mut values)?;
        Ok(values)
    }

    /// Puts the values of a key's parts into `values`, in place of what it held.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_into(&self, key: &[u8], values: &mut Vec<Value>) -> Result<()> {
        values.clear();
        self.visit(key, |_, value| values.push(value.into_value()))
    }

    /// Puts the values of a key's parts into `values`, in place of what it held; texts are borrowed from the key where it holds
    /// them as they are.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_refs<'a>(&self, key: &'a [u8], values: &mut Vec<ValueRef<'a>>) -> Result<()> {
        values.clear();
        self.visit(key, |_, value| values.push(value))
    }

    /// Calls `take` with the number of each part, from 0, and its value. Every part is checked, whether it is of use or not: a key
    /// conforms or does not, whatever a statement selects. When it does not, some parts may have been given before the error.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn visit<'a>(&self, key: &'a [u8], take: impl FnMut(usize, ValueRef<'a>)) -> Result<()> {
        self.try_visit(key, take).ok_or_else(|| {
            let message = format!("row key \"{}\" does not conform to the table's key", key.escape_ascii());
            Error::new(ErrorKind::BadValue, message)
                .with_hint("The table's option on_bad_key says what is done with such rows; raw() shows them.")
        })
    }

    fn try_visit<'a>(&self, key: &'a [u8], mut take: impl FnMut(usize, ValueRef<'a>)) -> Option<()> {
        let mut rest = key;
        let mut first = 0;
        if self.with_tenant {
            let end = memchr::memchr(TENANT_DELIMITER, key)?;
            let tenant = std::str::from_utf8(&key[..end]).ok().filter(|id| ids::is_tenant_id(id))?;
            take(0, ValueRef::Text(Cow::Borrowed(tenant)));
            (rest, first) = (&key[end + 1..], 1);
        }
        match self.encoding {
            KeyEncoding::Delimited => {
                if self.parts.len() == 1 && rest == [delimited::DELIMITER] && delimited::may_be_empty(&self.parts[0]) {
                    rest = &[];
                } else if rest.is_empty() {
                    return None;
                }
                for (index, part) in self.parts.iter().enumerate() {
                    let bytes = if index + 1 < self.parts.len() {
                        let end = memchr::memchr(delimited::DELIMITER, rest)?;
                        let bytes = &rest[..end];
                        rest = &rest[end + 1..];
                        bytes
                    } else {
                        rest
                    };
                    take(first + index, delimited::decode(part, bytes)?);
                }
                Some(())
            }
            KeyEncoding::Ordered => {
                for (index, part) in self.parts.iter().enumerate() {
                    take(first + index, ordered::decode(part, &mut rest)?);
                }
                rest.is_empty().then_some(())
            }
        }
    }

    /// The range of the keys whose first parts equal `equal` and whose next part, if `next` is given, lies in its bounds.
    ///
    /// It may hold other keys, never lacks one. With a value for every part it is a [point](KeyRange::as_point). `None` when no key
    /// can be in it (a NULL, a value that no key can hold).
    pub fn range(&self, equal: &[Value], next: Option<&PartBounds>) -> Option<KeyRange> {
        self.find(equal, next).map(|(range, _)| range)
    }

    /// Whether [`range`](Self::range) of these arguments holds no other key, so that the predicate need not be looked at again.
    ///
    /// Of keys that conform to the schema: one that does not may lie in any range.
    pub fn range_is_exact(&self, equal: &[Value], next: Option<&PartBounds>) -> bool {
        self.find(equal, next).is_none_or(|(_, exact)| exact)
    }

    fn find(&self, equal: &[Value], next: Option<&PartBounds>) -> Option<(KeyRange, bool)> {
        let count = self.column_count();
        let mut prefix = Vec::with_capacity(64);
        for (column, value) in equal.iter().take(count).enumerate() {
            match self.place(column, value) {
                Place::At(_) if self.is_tenant(column) && !names_tenant(value) => return None,
                Place::At(bytes) => prefix = self.first_with(column, prefix, &bytes),
                Place::Unknown => return Some((KeyRange::prefix(prefix), false)),
                Place::Gap(_) | Place::Below | Place::Above | Place::Null => return None,
            }
        }
        if equal.len() >= count {
            let exact = equal.len() == count && next.is_none();
            return (prefix.len() <= ROW_KEY_BYTES_MAX).then(|| (KeyRange::point(&prefix), exact));
        }
        match next {
            None => Some((KeyRange::prefix(prefix), true)),
            Some(PartBounds::TextPrefix(text)) => Some(self.find_text_prefix(equal.len(), prefix, text)),
            Some(PartBounds::Between(lower, upper)) => self.find_between(equal.len(), prefix, lower, upper),
        }
    }

    fn find_text_prefix(&self, column: usize, mut prefix: Vec<u8>, text: &str) -> (KeyRange, bool) {
        if !matches!(self.kind(column), SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_)) {
            return (KeyRange::prefix(prefix), false);
        }
        if self.is_delimited(column) {
            delimited::escape(text.as_bytes(), &mut prefix);
        } else {
            ordered::escape(text.as_bytes(), self.descends(column), &mut prefix);
        }
        (KeyRange::prefix(prefix), true)
    }

    fn find_between(
        &self,
        column: usize,
        prefix: Vec<u8>,
        lower: &Bound<Value>,
        upper: &Bound<Value>,
    ) -> Option<(KeyRange, bool)> {
        let mut exact = true;
        let lower = self.end(column, lower, &Place::Below, &mut exact)?;
        let upper = self.end(column, upper, &Place::Above, &mut exact)?;
        let (from, to) = if self.descends(column) { (upper, lower) } else { (lower, upper) };
        let start = match from {
            End::Open => prefix.clone(),
            End::Value { bytes, held: false, .. } => [prefix.as_slice(), &bytes].concat(),
            End::Value { bytes, included, .. } => {
                let first = self.first_with(column, prefix.clone(), &bytes);
                if included { first } else { self.after(column, first)? }
            }
        };
        let end = match to {
            End::Open => prefix_end(&prefix).map(Vec::from),
            End::Value { bytes, held: false, .. } => Some([prefix.as_slice(), &bytes].concat()),
            End::Value { bytes, included, .. } => {
                let first = self.first_with(column, prefix, &bytes);
                if included { self.after(column, first) } else { Some(first) }
            }
        };
        let range = KeyRange::new(start, end.map(Into::into));
        (!range.is_empty()).then_some((range, exact))
    }

    /// One end of a range of values. `outside` is the side on which a value beyond the part's domain leaves the range open; beyond
    /// the other side nothing is left of it: `None`.
    fn end(&self, column: usize, bound: &Bound<Value>, outside: &Place, exact: &mut bool) -> Option<End> {
        let (value, included) = match bound {
            Bound::Unbounded => return Some(End::Open),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        match (self.place(column, value), outside) {
            (Place::At(bytes), _) => Some(End::Value { bytes, held: true, included }),
            (Place::Gap(bytes), _) => Some(End::Value { bytes, held: false, included }),
            (Place::Below, Place::Below) | (Place::Above, Place::Above) => Some(End::Open),
            (Place::Unknown, _) => {
                *exact = false;
                Some(End::Open)
            }
            (Place::Below | Place::Above | Place::Null, _) => None,
        }
    }

    fn place(&self, column: usize, value: &Value) -> Place {
        if *value == Value::Null {
            return Place::Null;
        }
        let Some(part) = self.part(column) else {
            let Value::Text(text) = value else { return Place::Unknown };
            let mut bytes = Vec::with_capacity(text.len());
            delimited::escape(text.as_bytes(), &mut bytes);
            return Place::At(bytes);
        };
        let value = match comparable(value, part.kind) {
            Ok(value) => value,
            Err(place) => return place,
        };
        let mut bytes = Vec::new();
        match self.encoding {
            KeyEncoding::Ordered => ordered::encode(part, &value, &mut bytes),
            KeyEncoding::Delimited => match delimited::gap(part, &value) {
                Some(gap) => return Place::Gap(vec![gap]),
                None if delimited::encode(part, &value, &mut bytes).is_err() => return Place::Unknown,
                None => {}
            },
        }
        Place::At(bytes)
    }

    /// The least key that starts with `prefix` and has these bytes as its part.
    fn first_with(&self, column: usize, mut prefix: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
        prefix.extend_from_slice(bytes);
        let last = column + 1 == self.column_count();
        // The delimiter ends the part; and it stands for the one empty text that would leave nothing of the key.
        if self.is_delimited(column) && (!last || (self.parts.len() == 1 && bytes.is_empty())) {
            prefix.push(delimited::DELIMITER);
        }
        prefix
    }

    /// The least bytes above every key with the part whose [first key](Self::first_with) is given; `None` when there are none.
    fn after(&self, column: usize, mut first: Vec<u8>) -> Option<Vec<u8>> {
        if column + 1 == self.column_count() {
            first.push(0);
            return Some(first);
        }
        prefix_end(&first).map(Vec::from)
    }

    fn is_tenant(&self, column: usize) -> bool {
        self.with_tenant && column == 0
    }

    fn part(&self, column: usize) -> Option<&KeyPart> {
        let index = if self.with_tenant { column.checked_sub(1)? } else { column };
        self.parts.get(index)
    }

    fn kind(&self, column: usize) -> SqlType {
        self.part(column).map_or(SqlType::Text, |part| part.kind)
    }

    fn descends(&self, column: usize) -> bool {
        self.part(column).is_some_and(|part| part.descending)
    }

    fn is_delimited(&self, column: usize) -> bool {
        self.is_tenant(column) || self.encoding == KeyEncoding::Delimited
    }
}

/// The value in the form in which the type's values are encoded, unrounded: a bound need not fit the type to have a place.
fn comparable(value: &Value, kind: SqlType) -> Result<Cow<'_, Value>, Place> {
    match (kind, value) {
        (SqlType::Int2, Value::Int(n)) => int_within(value, *n, i16::MIN.into(), i16::MAX.into()),
        (SqlType::Int4, Value::Int(n)) => int_within(value, *n, i32::MIN.into(), i32::MAX.into()),
        (SqlType::Numeric { .. }, Value::Int(n)) => {
            Ok(Cow::Owned(Value::Numeric { unscaled: i128::from(*n), scale: 0 }))
        }
        (SqlType::Bool, Value::Bool(_))
        | (SqlType::Int8, Value::Int(_))
        | (SqlType::Float4 | SqlType::Float8, Value::Float(_))
        | (SqlType::Numeric { .. }, Value::Numeric { .. })
        | (SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_), Value::Text(_))
        | (SqlType::Bytea, Value::Bytes(_))
        | (SqlType::Date, Value::Date(_))
        | (SqlType::Time, Value::Time(_))
        | (SqlType::Timestamp | SqlType::Timestamptz, Value::Timestamp(_))
        | (SqlType::Uuid, Value::Uuid(_)) => Ok(Cow::Borrowed(value)),
        _ => Err(Place::Unknown),
    }
}

fn int_within(value: &Value, n: i64, least: i64, greatest: i64) -> Result<Cow<'_, Value>, Place> {
    match n {
        n if n < least => Err(Place::Below),
        n if n > greatest => Err(Place::Above),
        _ => Ok(Cow::Borrowed(value)),
    }
}

fn names_tenant(value: &Value) -> bool {
    matches!(value, Value::Text(id) if ids::is_tenant_id(id))
}

fn null_part(name: &str) -> Error {
    Error::new(ErrorKind::NullValue, format!("null value in column \"{name}\" violates not-null constraint"))
}
