//! The history of a table that keeps [history](crate::History): what its rows held until they changed. Pure.
//!
//! The history of table `t` is a table of its own, `t@history`, which no client can name. For every change of a row it has a row: under the
//! row's key and the stamp of the change what the row held until then. These are written in the frame of the change, and from there on they
//! go the way of all rows, through memtables, segments and compactions. Nothing that reads the table itself meets them, and a table
//! without history has no such table.
//!
//! ```text
//! key     of the row, escaped, so that pasts are in the order of rows: byte 0 is 00 ff
//!         00 01
//!         the stamp of the change, 8 bytes, big-endian, the sign turned
//! cell    family `p`, no qualifier, the stamp as timestamp; value: the row as module `cells` has it, by the numbers of the table's
//!         own families; empty where the row was absent
//! ```
//!
//! The family's rule condemns cells by their age, which is for how long history is kept: so compactions forget them. What a row
//! held at a moment stands under the least stamp after it; where there is none, the row itself is as it was then.

use super::cells::{self, Encoder};
use crate::{Family, FamilyName, GcRule, History, KeyRange, RowKey, TableSchema};
use bytes::Bytes;

/// The number of the only family.
const FAMILY: u32 = 0;
/// Its name.
const FAMILY_NAME: &str = "p";
/// Ends the row's key.
const END: [u8; 2] = [0, 1];
/// What stands for a byte 0 in it.
const ZERO: [u8; 2] = [0, 0xff];

/// The families of the history of a table with this history.
pub(crate) fn schema(history: History) -> TableSchema {
    let family = FamilyName::new(FAMILY_NAME).expect("it is short and of letters");
    let gc = GcRule::MaxAgeMicros(history.keep_micros);
    TableSchema::of([(family, Family { gc, aggregate: None })])
}

/// The key of what a row held until the change with the stamp.
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

/// The row and the stamp of a [`key`]; `None` for what is none.
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

/// Where the history of a range's rows stands.
pub(crate) fn range(rows: &KeyRange) -> KeyRange {
    KeyRange::new(escaped(&rows.start), rows.end.as_ref().map(|end| Bytes::from(escaped(end))))
}

/// Where the changes of a row after a moment stand.
pub(crate) fn after(row: &[u8], as_of_micros: i64) -> KeyRange {
    let end = KeyRange::point(&bytes_of(row, i64::MAX)).end;
    match as_of_micros.checked_add(1) {
        Some(first) => KeyRange::new(bytes_of(row, first), end),
        None => KeyRange::new(Bytes::new(), Some(Bytes::new())),
    }
}

/// The row that keeps what another held, encoded; `None` for one that was absent.
pub(crate) fn row(held: Option<&[u8]>, stamp: i64) -> Bytes {
    let held = held.unwrap_or_default();
    let mut encoder = Encoder::with_capacity(held.len() + 2 * size_of::<i64>());
    encoder.push(FAMILY, &[], stamp, held);
    encoder.finish()
}

/// What the other row held, out of a cell of such a [`row`]: `Some(None)` for one that was absent, `None` for what is no row.
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

    /// Row keys with the bytes that escaping is about.
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
        fn changes_after_a_moment(row in row_key(), other in row_key(), moment in stamp(), at in stamp()) {
            prop_assert_eq!(after(&row, moment).contains(&key(&row, at)), at > moment);
            prop_assert!(other == row || !after(&row, moment).contains(&key(&other, at)));
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
