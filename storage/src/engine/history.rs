//! The history of a table: its rows' previous versions, see [`History`]. Pure.
//!
//! The history of table `t` is a table of its own, `t@past`, which no client can name. It has a row for every change of
//! a row: the key is the row's key and the stamp of the change, the value is the row before the change. History rows
//! are written in the frame of the change, and from there on they are ordinary rows, in memtables, segments and
//! compactions. Reads of the table itself never see them, and a table without history has no such table.
//!
//! ```text
//! key     key of the row, escaped, so that history is in the order of rows: byte 0 is 00 ff
//!         00 01
//!         the stamp of the change, 8 bytes, big-endian, with the sign bit flipped
//! cell    family `p`, empty qualifier, the stamp as timestamp; value: the row as encoded by module `cells`, with the
//!         numbers of the table's own families; empty if the row was absent
//! ```
//!
//! The family's GC rule condemns cells by their age, which is how long history is kept: so compactions remove them. The
//! version of a row at a time is in the history row with the least later stamp; if there is none, the current row is
//! that version.

use super::cells::{self, Encoder};
use crate::{Family, FamilyName, GcRule, History, KeyRange, RowKey, TableSchema};
use bytes::Bytes;

/// The number of the only family.
const FAMILY: u32 = 0;
/// Its name.
const FAMILY_NAME: &str = "p";
/// Terminates the row's key.
const END: [u8; 2] = [0, 1];
/// The escape of a byte 0 in the row's key.
const ZERO: [u8; 2] = [0, 0xff];

/// The families of the history table for these settings.
pub(crate) fn schema(history: History) -> TableSchema {
    let family = FamilyName::new(FAMILY_NAME).expect("it is short and of letters");
    let gc = GcRule::MaxAgeMicros(history.keep_micros);
    TableSchema::of([(family, Family { gc, aggregate: None })])
}

/// The key of a row's version before the change with this stamp.
pub(crate) fn key(row: &[u8], stamp: i64) -> RowKey {
    RowKey::stored(bytes_of(row, stamp)).expect("a row key has room for its bytes twice")
}

fn bytes_of(row: &[u8], stamp: i64) -> Vec<u8> {
    let mut key = escaped(row);
    key.extend_from_slice(&END);
    key.extend_from_slice(&(stamp ^ i64::MIN).to_be_bytes());
    key
}

fn escaped(row: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(row.len() + END.len() + size_of::<i64>());
    for &byte in row {
        match byte {
            0 => escaped.extend_from_slice(&ZERO),
            byte => escaped.push(byte),
        }
    }
    escaped
}

/// Decodes a [`key`] into row key and stamp; `None` if it is malformed.
pub(crate) fn of_key(key: &[u8]) -> Option<(RowKey, i64)> {
    let (rest, stamp) = key.split_last_chunk::<8>()?;
    let rest = rest.strip_suffix(&END)?;
    let mut row = Vec::with_capacity(rest.len());
    let mut bytes = rest.iter();
    while let Some(&byte) = bytes.next() {
        if byte == ZERO[0] && bytes.next() != Some(&ZERO[1]) {
            return None;
        }
        row.push(byte);
    }
    Some((RowKey::new(row).ok()?, i64::from_be_bytes(*stamp) ^ i64::MIN))
}

/// The range of history rows of these rows.
pub(crate) fn range(rows: &KeyRange) -> KeyRange {
    KeyRange::new(escaped(&rows.start), rows.end.as_ref().map(|end| Bytes::from(escaped(end))))
}

/// The range of history rows for changes of a row after a time.
pub(crate) fn after(row: &[u8], as_of_micros: i64) -> KeyRange {
    let end = KeyRange::point(&bytes_of(row, i64::MAX)).end;
    match as_of_micros.checked_add(1) {
        Some(first) => KeyRange::new(bytes_of(row, first), end),
        None => KeyRange::new(Bytes::new(), Some(Bytes::new())),
    }
}

/// The history row for a previous version, encoded; `None` for an absent row.
pub(crate) fn row(held: Option<&[u8]>, stamp: i64) -> Bytes {
    let held = held.unwrap_or_default();
    let mut encoder = Encoder::with_capacity(held.len() + 2 * size_of::<i64>());
    encoder.push(FAMILY, &[], stamp, held);
    encoder.finish()
}

/// Decodes the value of a history [`row`]: `Some(None)` for an absent row, `None` if it is malformed.
pub(crate) fn held(value: Bytes) -> Option<Option<Bytes>> {
    match value.is_empty() {
        true => Some(None),
        false => cells::is_sound(&value).then_some(Some(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    /// Row keys with many bytes that need escaping.
    fn row_key() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(2), Just(0xfe), Just(0xff), any::<u8>()], 1..6)
    }

    fn stamp() -> impl Strategy<Value = i64> {
        prop_oneof![any::<i64>(), -2i64..3, Just(i64::MIN), Just(i64::MAX)]
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_rows_and_stamps(a in row_key(), b in row_key(), x in stamp(), y in stamp()) {
            prop_assert_eq!(key(&a, x).cmp(&key(&b, y)), (&a, x).cmp(&(&b, y)));
            prop_assert_eq!(of_key(&key(&a, x)), Some((RowKey::new(a).unwrap(), x)));
        }

        #[test]
        fn ranges_hold_the_past_of_their_rows(start in vec(0u8..3, 0..4), end in prop::option::of(vec(0u8..3, 0..4)), row in vec(0u8..3, 1..5), at in stamp()) {
            let rows = KeyRange::new(start, end.map(Bytes::from));
            prop_assert_eq!(range(&rows).contains(&key(&row, at)), rows.contains(&row));
        }

        #[test]
        fn changes_after_a_timestamp(row in row_key(), other in row_key(), timestamp in stamp(), at in stamp()) {
            prop_assert_eq!(after(&row, timestamp).contains(&key(&row, at)), at > timestamp);
            prop_assert!(other == row || !after(&row, timestamp).contains(&key(&other, at)));
        }

        #[test]
        fn other_keys_are_refused_without_a_panic(garbage in vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 0..16)) {
            if let Some((row, stamp)) = of_key(&garbage) {
                prop_assert_eq!(&key(&row, stamp)[..], &garbage[..]);
            }
        }
    }

    #[test]
    fn the_longest_row_has_a_past() {
        let row = vec![0; crate::model::limits::ROW_KEY_BYTES_MAX];
        assert_eq!(of_key(&key(&row, 7)), Some((RowKey::new(row).unwrap(), 7)));
    }
}
