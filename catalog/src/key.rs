//! Row-key schemas: ordered parts with type and direction, their encodings, and the key ranges of predicates. Pure.
//!
//! [`KeySchema::encode`] encodes a row's values as a key, and [`KeySchema::decode_refs`] decodes a key.
//! [`KeySchema::ranges`] turns a predicate on the leading parts into key ranges. The order of keys, as bytes, is the
//! order of the tuples of values: that of the SQL types, texts in collation C, reversed for a descending part.
//!
//! There are two encodings, `delimited` and `ordered`, and `plain` for keys of others, whose order is not that of the
//! tuples. All are prefix-free: the bytes of a part, with its end, are
//! never a prefix of those of another value. So all keys with the same first parts are adjacent, with no other key
//! between them. A tenant's id, if the schema has one, comes first, as text that ends with `#`, in either encoding.
//!
//! A schema may be *salted*: a bucket precedes the parts and follows the tenant's id, as two hexadecimal digits and `#`
//! in either encoding (`alto#0b#…`). It is the CRC-32C of all bytes of the key after it, modulo the number of buckets,
//! so that any client that writes keys can compute it. Keys that would all be added at one end of the table then spread
//! over it. Their order holds within a bucket only, and a range becomes one range in each bucket.
//!
//! A part may be *reversed* ([`reversed`]): the order of its keys is not that of its values.
//!
//! [`KeyColumns`] decodes many keys into typed columns; [`SortedKeys`] decodes many keys one by one, and of each only
//! what differs from the one before.

mod columns;
mod delimited;
mod ordered;
mod plain;
pub mod reversed;
mod sorted;
#[cfg(test)]
pub(crate) mod tests;
mod text;

pub use columns::KeyColumns;
pub use sorted::{CheckedKeys, SortedKeys};
pub use text::key_text;

use crate::{Error, ErrorKind, Result, SqlType, Value, ValueRef, ids, table, tenant::TENANT_DELIMITER};
use keyspan_storage::{
    KeyRange, RowKey,
    model::{limits::ROW_KEY_BYTES_MAX, prefix_end},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, ops::Bound};

/// Maximum number of parts of a key: PostgreSQL's limit of columns of an index.
pub const KEY_PARTS_MAX: usize = 32;

/// Maximum number of buckets of salted keys: two hexadecimal digits.
pub const SALT_MAX: u16 = 256;

/// Bytes of a bucket in a key.
const BUCKET_BYTES: usize = 3;

/// The encoding of a key's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyEncoding {
    /// Human-readable: parts joined by `#`.
    #[default]
    Delimited,
    /// Binary: any value, any direction.
    Ordered,
    /// As others write keys, parts joined by `#` and nothing escaped: of tables that were found on a server. Keys are
    /// not ordered as their parts.
    Plain,
}

/// A part of a row key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub kind: SqlType,
    /// How its values lie in the keys.
    #[serde(default, rename = "descending", with = "stored_order")]
    pub order: PartOrder,
}

impl KeyPart {
    /// Whether greater values come first.
    pub fn descends(&self) -> bool {
        self.order == PartOrder::Descending
    }

    /// Whether its keys are not in the order of its values.
    pub fn is_reversed(&self) -> bool {
        self.order == PartOrder::Reversed
    }
}

/// How the values of a key part lie in the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartOrder {
    /// Lesser values come first.
    #[default]
    Ascending,
    /// `DESC`: greater values come first.
    Descending,
    /// `REVERSED`: in no order of values ([`reversed`]).
    Reversed,
}

impl PartOrder {
    /// What stands behind the column in a primary key, with a space before it.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Ascending => "",
            Self::Descending => " DESC",
            Self::Reversed => " REVERSED",
        }
    }
}

impl From<bool> for PartOrder {
    fn from(descending: bool) -> Self {
        if descending { Self::Descending } else { Self::Ascending }
    }
}

/// The order as the catalog keeps it: whether the part descends, as before there was another order, or `"reversed"`.
mod stored_order {
    use super::PartOrder;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Descends(bool),
        Named(String),
    }

    const REVERSED: &str = "reversed";

    // Serde passes a reference.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(order: &PartOrder, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = match order {
            PartOrder::Reversed => Stored::Named(REVERSED.to_owned()),
            order => Stored::Descends(*order == PartOrder::Descending),
        };
        stored.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PartOrder, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::Descends(descends) => Ok(descends.into()),
            Stored::Named(name) if name == REVERSED => Ok(PartOrder::Reversed),
            Stored::Named(name) => Err(D::Error::custom(format!("a key part of order {name}"))),
        }
    }
}

/// The parts of a table's row keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySchema {
    /// The encoding of the parts.
    pub encoding: KeyEncoding,
    /// The parts, in order; at least one.
    pub parts: Vec<KeyPart>,
    /// The number of buckets over which keys are spread, at most [`SALT_MAX`]; 0 if keys are not salted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub salt: u16,
    /// Whether a tenant's id precedes the parts (`id#…`), as the operator sees keys. It is then the first of the values
    /// that the functions below take and return, and the first of [`columns`](Self::columns).
    #[serde(skip)]
    pub with_tenant: bool,
}

/// A predicate on one part of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum PartBounds {
    /// The value lies between two bounds, in the type's own order, whatever the part's direction.
    Between(Bound<Value>, Bound<Value>),
    /// The value is text with this prefix.
    TextPrefix(String),
}

/// The position of a value among the values that a key part can have.
enum Position {
    /// A key can hold the value: its bytes, without the delimiter.
    At(Vec<u8>),
    /// No key holds the value, but it sorts at these bytes among the others.
    Gap(Vec<u8>),
    /// Below all values of the part.
    Below,
    /// Above all values of the part.
    Above,
    /// NULL, which no key holds and no value compares with.
    Null,
    /// A value of a type that is not compared with the part's type here.
    Unknown,
}

/// One end of a range of values of an encoded part.
enum End {
    /// Unbounded.
    Open,
    /// The encoded value, whether a key can hold it, and whether it is included in the range.
    Value { bytes: Vec<u8>, held: bool, included: bool },
}

impl KeySchema {
    /// Checks that the schema is valid.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no parts, too many, or a duplicate column;
    /// [`Unsupported`](ErrorKind::Unsupported) for a type or direction that the encoding does not support.
    pub fn check(&self) -> Result<()> {
        if self.parts.is_empty() || self.parts.len() > KEY_PARTS_MAX {
            let message = format!("a primary key has 1 to {KEY_PARTS_MAX} columns, not {}", self.parts.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.salt == 1 || self.salt > SALT_MAX {
            let message = format!("keys are salted with 2 to {SALT_MAX} buckets, not {}", self.salt);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.encoding == KeyEncoding::Plain && self.salt > 0 {
            return Err(Error::new(ErrorKind::Unsupported, "keys that others write are not salted"));
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
        if part.is_reversed() && !reversed::holds(part.kind) {
            return unsupported(
                "values of its type are not reversed",
                "REVERSED takes whole numbers, whose digits it turns around, and texts, as domains.",
            );
        }
        if self.encoding == KeyEncoding::Plain && (part.descends() || !plain::holds(part.kind)) {
            let what = if part.descends() {
                "keys of others have no order"
            } else {
                "its type has no place in keys of others"
            };
            return unsupported(what, "Take the part as a text.");
        }
        match part.kind {
            SqlType::Json | SqlType::Jsonb => {
                unsupported("its type has no order", "Take a column of another type into the key.")
            }
            SqlType::Interval(_) => unsupported(
                "two intervals may be of one length and not the same",
                "Take the length of it into the key, in microseconds as a bigint.",
            ),
            SqlType::Array(_) => {
                unsupported("an array has no place in keys", "Take columns for its items into the key.")
            }
            SqlType::Float4 | SqlType::Float8 | SqlType::Numeric { .. } | SqlType::Exact(_) if delimited => {
                unsupported(
                    "its type has no place in delimited keys",
                    "Create the table WITH (key_encoding = 'ordered'), or take an integer type.",
                )
            }
            SqlType::Text
            | SqlType::Name
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Bit(_)
            | SqlType::Varbit(_)
            | SqlType::Bytea
                if delimited && part.descends() =>
            {
                unsupported(
                    "texts do not descend in delimited keys",
                    "Create the table WITH (key_encoding = 'ordered'), or leave out DESC.",
                )
            }
            _ => Ok(()),
        }
    }

    /// The parts, preceded by the tenant's id if the schema has it.
    pub fn columns(&self) -> Vec<KeyPart> {
        let tenant =
            KeyPart { name: table::TENANT_COLUMN.to_owned(), kind: SqlType::Text, order: PartOrder::Ascending };
        self.with_tenant.then_some(tenant).into_iter().chain(self.parts.iter().cloned()).collect()
    }

    /// The number of values that the functions below take and return.
    pub fn column_count(&self) -> usize {
        self.parts.len() + usize::from(self.with_tenant)
    }

    /// The schema of the same keys as the operator sees them.
    #[must_use]
    pub fn for_operator(&self) -> Self {
        Self { with_tenant: true, ..self.clone() }
    }

    /// Encodes the key of a row, from one value for each part.
    ///
    /// # Errors
    /// [`NullValue`](crate::ErrorKind::NullValue), [`BadValue`](crate::ErrorKind::BadValue), or a key over the store's
    /// limit.
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
        let bucket = key.len();
        if self.salt > 0 {
            key.extend_from_slice(&[0; BUCKET_BYTES]);
        }
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
                KeyEncoding::Plain => {
                    let last = index + 1 == self.parts.len();
                    plain::encode(part, &value, last, &mut key)?;
                    if !last {
                        key.push(delimited::DELIMITER);
                    }
                }
            }
        }
        if key.len() == body && self.encoding == KeyEncoding::Plain {
            let message = format!("the key's column \"{}\" cannot be empty", self.parts[0].name);
            return Err(Error::new(ErrorKind::BadValue, message));
        }
        if key.len() == body {
            key.push(delimited::DELIMITER);
        }
        if self.salt > 0 {
            let bytes = bucket_bytes(self.bucket_of(&key[body..]));
            key[bucket..body].copy_from_slice(&bytes);
        }
        Ok(RowKey::new(key)?)
    }

    /// The bucket of a key, from its bytes after the bucket.
    fn bucket_of(&self, body: &[u8]) -> u16 {
        // The remainder is below the number of buckets.
        (crc32c::crc32c(body) % u32::from(self.salt)) as u16
    }

    /// The range of a bucket's keys, in the span of `tenant` if one is given; `bucket` is below [`salt`](Self::salt).
    pub fn bucket_range(&self, tenant: Option<&str>, bucket: u16) -> KeyRange {
        let tenant = tenant.map(|tenant| [tenant.as_bytes(), &[TENANT_DELIMITER]].concat());
        KeyRange::prefix([tenant.unwrap_or_default().as_slice(), &bucket_bytes(bucket)].concat())
    }

    /// Decodes the values of a key's parts.
    ///
    /// # Errors
    /// [`BadValue`](crate::ErrorKind::BadValue) for a key that does not conform.
    pub fn decode(&self, key: &[u8]) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(self.column_count());
        self.decode_into(key, &mut values)?;
        Ok(values)
    }

    /// Decodes the values of a key's parts into `values`, replacing its content.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_into(&self, key: &[u8], values: &mut Vec<Value>) -> Result<()> {
        values.clear();
        self.visit(key, |_, value| values.push(value.into_value()))
    }

    /// Decodes the values of a key's parts into `values`, replacing its content; texts that are not escaped are
    /// borrowed from the key.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_refs<'a>(&self, key: &'a [u8], values: &mut Vec<ValueRef<'a>>) -> Result<()> {
        values.clear();
        self.visit(key, |_, value| values.push(value))
    }

    /// Calls `take` with the index of each part, from 0, and its value. Every part is checked, needed or not: whether a
    /// key conforms does not depend on what a statement selects. If it does not conform, `take` may have been called
    /// for some parts before the error.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn visit<'a>(&self, key: &'a [u8], take: impl FnMut(usize, ValueRef<'a>)) -> Result<()> {
        self.try_visit(key, take).ok_or_else(|| does_not_conform(key))
    }

    fn try_visit<'a>(&self, key: &'a [u8], mut take: impl FnMut(usize, ValueRef<'a>)) -> Option<()> {
        let last = self.visit_leading(key, &mut take)?;
        self.visit_last(&key[last..], take)
    }

    /// Decodes all parts but the last; returns the offset of the last.
    fn visit_leading<'a>(&self, key: &'a [u8], mut take: impl FnMut(usize, ValueRef<'a>)) -> Option<usize> {
        let (mut rest, mut first) = (key, 0);
        if self.with_tenant {
            let end = memchr::memchr(TENANT_DELIMITER, key)?;
            let tenant = std::str::from_utf8(&key[..end]).ok().filter(|id| ids::is_tenant_id(id))?;
            take(0, ValueRef::Text(Cow::Borrowed(tenant)));
            (rest, first) = (&key[end + 1..], 1);
        }
        if self.salt > 0 {
            rest = self.strip_bucket(rest)?;
        }
        let (_, leading) = self.parts.split_last()?;
        for (index, part) in leading.iter().enumerate() {
            let value = match self.encoding {
                KeyEncoding::Delimited => {
                    let end = memchr::memchr(delimited::DELIMITER, rest)?;
                    let bytes = &rest[..end];
                    rest = &rest[end + 1..];
                    delimited::decode(part, bytes)?
                }
                KeyEncoding::Plain => {
                    let end = memchr::memchr(delimited::DELIMITER, rest)?;
                    let bytes = &rest[..end];
                    rest = &rest[end + 1..];
                    plain::decode(part, bytes)?
                }
                KeyEncoding::Ordered => ordered::decode(part, &mut rest)?,
            };
            take(first + index, value);
        }
        Some(key.len() - rest.len())
    }

    /// Decodes the last part from its bytes.
    fn visit_last<'a>(&self, mut bytes: &'a [u8], mut take: impl FnMut(usize, ValueRef<'a>)) -> Option<()> {
        let part = self.parts.last()?;
        let value = match self.encoding {
            KeyEncoding::Delimited => {
                if self.parts.len() == 1 {
                    if bytes == [delimited::DELIMITER] && delimited::may_be_empty(part) {
                        bytes = &[];
                    } else if bytes.is_empty() {
                        return None;
                    }
                }
                delimited::decode(part, bytes)?
            }
            KeyEncoding::Plain => {
                if self.parts.len() == 1 && bytes.is_empty() {
                    return None;
                }
                plain::decode(part, bytes)?
            }
            KeyEncoding::Ordered => {
                let value = ordered::decode(part, &mut bytes)?;
                bytes.is_empty().then_some(value)?
            }
        };
        take(self.column_count() - 1, value);
        Some(())
    }

    /// Whether keys end with a binary integer or time, which [`SortedKeys::next_integer`] decodes.
    pub fn ends_with_integer(&self) -> bool {
        self.encoding == KeyEncoding::Ordered && self.parts.last().is_some_and(ordered::is_integer)
    }

    /// Strips the bucket from a key's bytes, which begin with it; `None` if the bucket is wrong.
    fn strip_bucket<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (bucket, body) = bytes.split_at_checked(BUCKET_BYTES)?;
        (bucket == bucket_bytes(self.bucket_of(body))).then_some(body)
    }

    /// The ranges of the keys whose first parts equal `equal` and whose next part, if `next` is given, lies in its
    /// bounds: one range, or one in each bucket of salted keys, in order.
    ///
    /// The ranges may contain other keys, but lack none. With a value for every part, the result is one
    /// [point](KeyRange::as_point). It is empty if no key can match (a NULL, a value that no key can hold).
    pub fn ranges(&self, equal: &[Value], next: Option<&PartBounds>) -> Vec<KeyRange> {
        self.exact_ranges(equal, next).0
    }

    /// [`ranges`](Self::ranges), and whether they are exact, as [`range_is_exact`](Self::range_is_exact) tells.
    pub fn exact_ranges(&self, equal: &[Value], next: Option<&PartBounds>) -> (Vec<KeyRange>, bool) {
        self.find(equal, next).unwrap_or_else(|| (Vec::new(), true))
    }

    /// Whether [`ranges`](Self::ranges) of these arguments contain no other key, so that rows need not be filtered
    /// again.
    ///
    /// This holds for keys that conform to the schema: others may lie in any range.
    pub fn range_is_exact(&self, equal: &[Value], next: Option<&PartBounds>) -> bool {
        self.exact_ranges(equal, next).1
    }

    fn find(&self, equal: &[Value], next: Option<&PartBounds>) -> Option<(Vec<KeyRange>, bool)> {
        let count = self.column_count();
        let mut prefix = Vec::with_capacity(64);
        // The offset of the parts, where a bucket is inserted.
        let mut body = 0;
        for (column, value) in equal.iter().take(count).enumerate() {
            match self.position(column, value) {
                Position::At(_) if self.is_tenant(column) && !names_tenant(value) => return None,
                Position::At(bytes) => prefix = self.first_key_with(column, prefix, &bytes),
                Position::Unknown => {
                    let of_parts = column > usize::from(self.with_tenant);
                    let ranges = self.key_prefixes(prefix, body, of_parts).into_iter().map(KeyRange::prefix);
                    return Some((ranges.collect(), false));
                }
                Position::Gap(_) | Position::Below | Position::Above | Position::Null => return None,
            }
            if self.is_tenant(column) {
                body = prefix.len();
            }
        }
        if equal.len() >= count {
            let exact = equal.len() == count && next.is_none();
            if self.salt > 0 {
                let bucket = self.bucket_of(&prefix[body..]);
                prefix.splice(body..body, bucket_bytes(bucket));
            }
            return (prefix.len() <= ROW_KEY_BYTES_MAX).then(|| (vec![KeyRange::point(&prefix)], exact));
        }
        let of_parts = equal.len() + usize::from(next.is_some()) > usize::from(self.with_tenant);
        let (mut ranges, mut exact) = (Vec::new(), true);
        for start in self.key_prefixes(prefix, body, of_parts) {
            let (range, is_exact) = match next.filter(|_| self.is_ordered(equal.len())) {
                None if next.is_some() => (KeyRange::prefix(start), false),
                None => (KeyRange::prefix(start), true),
                Some(PartBounds::TextPrefix(text)) => self.find_text_prefix(equal.len(), start, text),
                Some(PartBounds::Between(lower, upper)) => self.find_between(equal.len(), start, lower, upper)?,
            };
            ranges.push(range);
            exact &= is_exact;
        }
        Some((ranges, exact))
    }

    /// The key prefixes for `prefix`, which has no bucket yet: with each bucket inserted at `body`, or `prefix` itself
    /// if keys are not salted or the predicate does not restrict the parts (`of_parts`).
    fn key_prefixes(&self, prefix: Vec<u8>, body: usize, of_parts: bool) -> Vec<Vec<u8>> {
        if self.salt == 0 || !of_parts {
            return vec![prefix];
        }
        let (tenant, parts) = prefix.split_at(body);
        (0..self.salt).map(|bucket| [tenant, &bucket_bytes(bucket), parts].concat()).collect()
    }

    fn find_text_prefix(&self, column: usize, mut prefix: Vec<u8>, text: &str) -> (KeyRange, bool) {
        let is_text = |kind| {
            matches!(kind, SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_))
                || matches!(kind, SqlType::Bit(_) | SqlType::Varbit(_))
        };
        if !is_text(self.kind(column)) {
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
        let lower = self.end(column, lower, &Position::Below, &mut exact)?;
        let upper = self.end(column, upper, &Position::Above, &mut exact)?;
        let (from, to) = if self.descends(column) { (upper, lower) } else { (lower, upper) };
        let start = match from {
            End::Open => prefix.clone(),
            End::Value { bytes, held: false, .. } => [prefix.as_slice(), &bytes].concat(),
            End::Value { bytes, included, .. } => {
                let first = self.first_key_with(column, prefix.clone(), &bytes);
                if included { first } else { self.after(column, first)? }
            }
        };
        let end = match to {
            End::Open => prefix_end(&prefix).map(Vec::from),
            End::Value { bytes, held: false, .. } => Some([prefix.as_slice(), &bytes].concat()),
            End::Value { bytes, included, .. } => {
                let first = self.first_key_with(column, prefix, &bytes);
                if included { self.after(column, first) } else { Some(first) }
            }
        };
        let range = KeyRange::new(start, end.map(Into::into));
        (!range.is_empty()).then_some((range, exact))
    }

    /// Encodes one end of a range of values. `outside` is the side on which a value beyond the part's domain leaves the
    /// range unbounded; beyond the other side the range is empty: `None`.
    fn end(&self, column: usize, bound: &Bound<Value>, outside: &Position, exact: &mut bool) -> Option<End> {
        let (value, included) = match bound {
            Bound::Unbounded => return Some(End::Open),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        match (self.position(column, value), outside) {
            (Position::At(bytes), _) => Some(End::Value { bytes, held: true, included }),
            (Position::Gap(bytes), _) => Some(End::Value { bytes, held: false, included }),
            (Position::Below, Position::Below) | (Position::Above, Position::Above) => Some(End::Open),
            (Position::Unknown, _) => {
                *exact = false;
                Some(End::Open)
            }
            (Position::Below | Position::Above | Position::Null, _) => None,
        }
    }

    fn position(&self, column: usize, value: &Value) -> Position {
        if *value == Value::Null {
            return Position::Null;
        }
        let Some(part) = self.part(column) else {
            let Value::Text(text) = value else { return Position::Unknown };
            let mut bytes = Vec::with_capacity(text.len());
            delimited::escape(text.as_bytes(), &mut bytes);
            return Position::At(bytes);
        };
        let value = match comparable(value, part.kind) {
            Ok(value) => value,
            Err(position) => return position,
        };
        let mut bytes = Vec::new();
        match self.encoding {
            KeyEncoding::Ordered => ordered::encode(part, &value, &mut bytes),
            KeyEncoding::Plain => {
                let last = column + 1 == self.column_count();
                let held = plain::encode(part, &value, last, &mut bytes);
                // A date beyond those that keys hold, a text with a delimiter, and an empty key: no row has them.
                if held.is_err() || self.parts.len() == 1 && bytes.is_empty() {
                    return Position::Null;
                }
            }
            KeyEncoding::Delimited => match delimited::gap(part, &value) {
                Some(gap) => return Position::Gap(vec![gap]),
                None if delimited::encode(part, &value, &mut bytes).is_err() => return Position::Unknown,
                None => {}
            },
        }
        Position::At(bytes)
    }

    /// The least key that starts with `prefix` followed by a part with these bytes.
    fn first_key_with(&self, column: usize, mut prefix: Vec<u8>, bytes: &[u8]) -> Vec<u8> {
        prefix.extend_from_slice(bytes);
        let last = column + 1 == self.column_count();
        // The delimiter ends the part. It also stands for the single empty text, whose key would be empty.
        if self.is_delimited(column) && (!last || (self.parts.len() == 1 && bytes.is_empty())) {
            prefix.push(delimited::DELIMITER);
        }
        prefix
    }

    /// The least bytes above every key with the part whose [first key](Self::first_key_with) is given; `None` if there
    /// are none.
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
        self.part(column).is_some_and(|part| part.descends())
    }

    /// Whether keys with the same values before this one are in the order of its values, or against it where it descends.
    pub fn is_ordered(&self, column: usize) -> bool {
        let ordered = self.encoding != KeyEncoding::Plain;
        self.is_tenant(column) || ordered && self.part(column).is_none_or(|part| !part.is_reversed())
    }

    fn is_delimited(&self, column: usize) -> bool {
        self.is_tenant(column) || self.encoding != KeyEncoding::Ordered
    }
}

/// The value in the form in which the type's values are encoded, but unrounded: a bound has a position even if it does
/// not fit the type.
fn comparable(value: &Value, kind: SqlType) -> Result<Cow<'_, Value>, Position> {
    match (kind, value) {
        (SqlType::Int2, Value::Int(n)) => int_within(value, *n, i16::MIN.into(), i16::MAX.into()),
        (SqlType::Int4, Value::Int(n)) => int_within(value, *n, i32::MIN.into(), i32::MAX.into()),
        (SqlType::Numeric { .. }, Value::Int(n)) => {
            Ok(Cow::Owned(Value::Numeric { unscaled: i128::from(*n), scale: 0 }))
        }
        (SqlType::Numeric { .. }, Value::Exact(exact)) => {
            let (unscaled, scale) = exact.to_i128().ok_or(Position::Unknown)?;
            Ok(Cow::Owned(Value::Numeric { unscaled, scale }))
        }
        (SqlType::Exact(_), Value::Numeric { .. } | Value::Int(_)) => {
            value.fit(SqlType::Exact(None)).map_err(|_| Position::Unknown)
        }
        (SqlType::Bool, Value::Bool(_))
        | (SqlType::Int8, Value::Int(_))
        | (SqlType::Float4 | SqlType::Float8, Value::Float(_))
        | (SqlType::Numeric { .. }, Value::Numeric { .. })
        | (SqlType::Exact(_), Value::Exact(_))
        | (
            SqlType::Text
            | SqlType::Name
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Bit(_)
            | SqlType::Varbit(_),
            Value::Text(_),
        )
        | (SqlType::Bytea, Value::Bytes(_))
        | (SqlType::Date, Value::Date(_))
        | (SqlType::Time(_), Value::Time(_))
        | (SqlType::Timestamp(_) | SqlType::Timestamptz(_), Value::Timestamp(_))
        | (SqlType::Uuid, Value::Uuid(_)) => Ok(Cow::Borrowed(value)),
        _ => Err(Position::Unknown),
    }
}

fn int_within(value: &Value, n: i64, least: i64, greatest: i64) -> Result<Cow<'_, Value>, Position> {
    match n {
        n if n < least => Err(Position::Below),
        n if n > greatest => Err(Position::Above),
        _ => Ok(Cow::Borrowed(value)),
    }
}

/// The bytes of a bucket in a key.
fn bucket_bytes(bucket: u16) -> [u8; BUCKET_BYTES] {
    let digit = |value: u16| b"0123456789abcdef"[usize::from(value & 15)];
    [digit(bucket >> 4), digit(bucket), delimited::DELIMITER]
}

// Serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(salt: &u16) -> bool {
    *salt == 0
}

fn names_tenant(value: &Value) -> bool {
    matches!(value, Value::Text(id) if ids::is_tenant_id(id))
}

fn does_not_conform(key: &[u8]) -> Error {
    let message = format!("row key \"{}\" does not conform to the table's key", key.escape_ascii());
    Error::new(ErrorKind::BadValue, message)
        .with_hint("The table's option on_bad_key says what is done with such rows; raw() shows them.")
}

fn null_part(name: &str) -> Error {
    Error::new(ErrorKind::NullValue, format!("null value in column \"{name}\" violates not-null constraint"))
}
