//! Decoding many keys that are sorted, or nearly: parts that a key shares with the one before it are decoded once.
//!
//! Neighbours in a table differ mostly in their last part (the readings of a device, ordered by time). Each part but
//! the last is self-delimiting: a key that begins with the same bytes as the one before it, up to its last part, has
//! the same values for the leading parts. A salted key's bucket depends on all of its bytes, and is checked for every
//! key.

use super::{KeySchema, does_not_conform, ordered};
use crate::{Result, ValueRef};

/// Decodes keys one after the other, in any order; sorted keys are the fastest.
#[derive(Debug)]
pub struct SortedKeys<'a> {
    schema: &'a KeySchema,
    /// The prefix of every key, before the schema's first column.
    span: &'a [u8],
    /// The previous key, up to its last part; `None` before the first.
    leading: Option<&'a [u8]>,
}

impl<'a> SortedKeys<'a> {
    /// A decoder of keys that have `span` before the schema's columns.
    pub fn new(schema: &'a KeySchema, span: &'a [u8]) -> Self {
        Self { schema, span, leading: None }
    }

    /// Decodes the next key. If its leading parts equal those of the key before, calls `take` with the index and value
    /// of the last part only and returns `true`; else calls it for all parts and returns `false`.
    ///
    /// Every part is checked, as [`KeySchema::visit`] does. If the key does not conform, `take` may have been called
    /// for some parts before the error.
    ///
    /// # Errors
    /// [`BadValue`](crate::ErrorKind::BadValue) for a key that does not conform or does not begin with the span.
    pub fn next(&mut self, key: &'a [u8], mut take: impl FnMut(usize, ValueRef<'a>)) -> Result<bool> {
        let schema = self.schema;
        self.checked(key, |keys| {
            let (same, last) = keys.leading(key, &mut take)?;
            schema.visit_last(last, take)?;
            Some(same)
        })
    }

    /// [`next`](Self::next) for keys whose last part [is an integer](KeySchema::ends_with_integer), which is returned
    /// rather than passed to `take`: several times as fast.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_integer(&mut self, key: &'a [u8], take: impl FnMut(usize, ValueRef<'a>)) -> Result<(bool, i64)> {
        let schema = self.schema;
        self.checked(key, |keys| {
            let (same, last) = keys.leading(key, take)?;
            Some((same, ordered::integer(schema.parts.last()?, last)?))
        })
    }

    fn checked<T>(&mut self, key: &[u8], decode: impl FnOnce(&mut Self) -> Option<T>) -> Result<T> {
        match decode(self) {
            Some(decoded) => Ok(decoded),
            None => {
                self.leading = None;
                Err(does_not_conform(key))
            }
        }
    }

    /// Decodes the leading parts unless they equal those of the key before; returns whether they do, and the bytes of
    /// the last part.
    fn leading(&mut self, key: &'a [u8], take: impl FnMut(usize, ValueRef<'a>)) -> Option<(bool, &'a [u8])> {
        if let Some(leading) = self.leading
            && let Some(last) = key.strip_prefix(leading)
        {
            self.check_bucket(key)?;
            return Some((true, last));
        }
        let last = self.span.len() + self.schema.visit_leading(key.strip_prefix(self.span)?, take)?;
        let (leading, last) = key.split_at(last);
        self.leading = Some(leading);
        Some((false, last))
    }

    /// Checks the bucket of a salted key; `None` if it is wrong. The leading bytes are those of a key that conformed.
    fn check_bucket(&self, key: &[u8]) -> Option<()> {
        if self.schema.salt == 0 {
            return Some(());
        }
        let mut bucket = self.span.len();
        if self.schema.with_tenant {
            bucket += memchr::memchr(crate::tenant::TENANT_DELIMITER, &key[bucket..])? + 1;
        }
        self.schema.strip_bucket(&key[bucket..]).map(|_| ())
    }
}

/// Checks whether keys conform, one after the other: [`SortedKeys`] for keys that are not kept, without their values.
#[derive(Debug, Default)]
pub struct CheckedKeys {
    /// The previous key, up to its last part; `None` before the first key and after one that did not conform.
    leading: Option<Vec<u8>>,
}

impl CheckedKeys {
    /// Checks the next key.
    ///
    /// # Errors
    /// [`BadValue`](crate::ErrorKind::BadValue) for a key that does not conform.
    pub fn next(&mut self, schema: &KeySchema, key: &[u8]) -> Result<()> {
        let mut leading = self.leading.take().unwrap_or_default();
        let before = Some(leading.as_slice()).filter(|leading| !leading.is_empty());
        let mut keys = SortedKeys { schema, span: b"", leading: before };
        let (same, last) = keys.checked(key, |keys| {
            let (same, last) = keys.leading(key, |_, _| {})?;
            schema.visit_last(last, |_, _| {})?;
            Some((same, key.len() - last.len()))
        })?;
        if !same {
            leading.clear();
            leading.extend_from_slice(&key[..last]);
        }
        self.leading = Some(leading);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        KeyEncoding, KeyPart, PartOrder, SqlType, Value,
        key::tests::{schema_and_tuples, text},
    };
    use proptest::prelude::*;

    /// The values of keys, decoded one after the other; checks which parts were visited.
    fn decoded(schema: &KeySchema, span: &[u8], keys: &[Vec<u8>]) -> Vec<Option<Vec<Value>>> {
        let mut sorted = SortedKeys::new(schema, span);
        let mut values = vec![Value::Null; schema.column_count()];
        let last = values.len() - 1;
        let one = |key| {
            let mut visited = Vec::new();
            let same = sorted.next(key, |part, value| {
                values[part] = value.into_value();
                visited.push(part);
            });
            let same = same.ok()?;
            assert_eq!(visited, if same { vec![last] } else { (0..=last).collect() });
            Some(values.clone())
        };
        keys.iter().map(|key| key.as_slice()).map(one).collect()
    }

    /// The same with [`SortedKeys::next_integer`], for keys that end with an integer.
    fn decoded_integers(schema: &KeySchema, span: &[u8], keys: &[Vec<u8>]) -> Vec<Option<Vec<Value>>> {
        let mut sorted = SortedKeys::new(schema, span);
        let mut values = vec![Value::Null; schema.column_count()];
        let last = values.len() - 1;
        let one = |key| {
            let (_, number) = sorted.next_integer(key, |part, value| values[part] = value.into_value()).ok()?;
            values[last] = match schema.parts.last()?.kind {
                SqlType::Date => Value::Date(i32::try_from(number).unwrap()),
                SqlType::Time(_) => Value::Time(number),
                SqlType::Timestamp(_) | SqlType::Timestamptz(_) => Value::Timestamp(number),
                _ => Value::Int(number),
            };
            Some(values.clone())
        };
        keys.iter().map(|key| key.as_slice()).map(one).collect()
    }

    proptest! {
        #[test]
        fn keys_in_any_order_are_what_each_is_alone(
            (schema, mut tuples) in schema_and_tuples(6),
            shared in prop::collection::vec(any::<bool>(), 6),
            sorted: bool,
            span in prop::sample::select(vec!["", "alto#"]),
            damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let last = schema.column_count() - 1;
            for row in (1..tuples.len()).filter(|row| shared[*row]) {
                let (before, rest) = tuples.split_at_mut(row);
                rest[0][..last].clone_from_slice(&before[row - 1][..last]);
            }
            let mut keys: Vec<Vec<u8>> = tuples
                .iter()
                .map(|tuple| [span.as_bytes(), &schema.encode(tuple).unwrap()[..]].concat())
                .collect();
            for (key, byte, value) in &damaged {
                let key = key.get_mut(&mut keys[..]);
                match byte.index(key.len() + 1) {
                    at if at < key.len() => key[at] = *value,
                    _ => key.push(*value),
                }
            }
            if sorted {
                keys.sort();
            }
            let alone = |key: &Vec<u8>| schema.decode(key.strip_prefix(span.as_bytes())?).ok();
            let expected: Vec<_> = keys.iter().map(alone).collect();
            // Compare as text, since NaN equals nothing.
            prop_assert_eq!(format!("{:?}", decoded(&schema, span.as_bytes(), &keys)), format!("{expected:?}"));
            if span.is_empty() {
                let mut checked = CheckedKeys::default();
                let conforms: Vec<_> = keys.iter().map(|key| checked.next(&schema, key).is_ok()).collect();
                prop_assert_eq!(conforms, expected.iter().map(Option::is_some).collect::<Vec<_>>());
            }
            if schema.ends_with_integer() {
                let numbers = decoded_integers(&schema, span.as_bytes(), &keys);
                prop_assert_eq!(format!("{numbers:?}"), format!("{expected:?}"));
            }
        }
    }

    fn readings(encoding: KeyEncoding, salt: u16) -> KeySchema {
        let part = |name: &str, kind| KeyPart { name: name.into(), kind, order: PartOrder::Ascending };
        let parts = vec![part("device", SqlType::Text), part("n", SqlType::Int4)];
        KeySchema { encoding, parts, salt, with_tenant: false }
    }

    #[test]
    fn parts_that_neighbours_share_are_visited_once() {
        for encoding in [KeyEncoding::Delimited, KeyEncoding::Ordered] {
            let schema = readings(encoding, 0);
            let key = |device: &str, n| schema.encode(&[text(device), Value::Int(n)]).unwrap().to_vec();
            let keys = [key("a", 1), key("a", 2), key("a", 2), key("ab", 2), key("ab", 3), key("b", 3)];
            let mut sorted = SortedKeys::new(&schema, b"");
            let same: Vec<bool> = keys.iter().map(|key| sorted.next(key, |_, _| {}).unwrap()).collect();
            assert_eq!(same, [false, true, true, false, true, false]);
        }
    }

    #[test]
    fn after_a_key_that_does_not_conform_all_parts_are_visited() {
        let parts = [("a", SqlType::Text), ("b", SqlType::Bool), ("n", SqlType::Int4)];
        let part = |(name, kind): (&str, SqlType)| KeyPart { name: name.into(), kind, order: PartOrder::Ascending };
        let schema = KeySchema { parts: parts.into_iter().map(part).collect(), ..readings(KeyEncoding::Ordered, 0) };
        let good = schema.encode(&[text("x"), Value::Bool(true), Value::Int(1)]).unwrap().to_vec();
        // The first part differs, and the second is invalid.
        let bad = [b"y\0\x01\x07", &good[4..]].concat();
        let visited = decoded(&schema, b"", &[good.clone(), bad, good]);
        assert_eq!(visited[0], visited[2]);
        assert!(visited[0].is_some() && visited[1].is_none());
    }

    #[test]
    fn a_neighbour_in_a_wrong_bucket_does_not_conform() {
        for (encoding, with_tenant) in [(KeyEncoding::Delimited, false), (KeyEncoding::Ordered, true)] {
            let schema = KeySchema { with_tenant, ..readings(encoding, 8) };
            let key = |n| {
                let tenant = with_tenant.then(|| text("alto"));
                let tuple: Vec<Value> = tenant.into_iter().chain([text("a"), Value::Int(n)]).collect();
                schema.encode(&tuple).unwrap().to_vec()
            };
            let first = key(1);
            // Another row of the same device, with the bucket of the first.
            let mut moved = first.clone();
            *moved.last_mut().unwrap() ^= 1;
            assert!(schema.decode(&moved).is_err());
            let conform =
                decoded(&schema, b"", &[first.clone(), moved, first]).iter().map(Option::is_some).collect::<Vec<_>>();
            assert_eq!(conform, [true, false, true]);
        }
    }
}
