//! Rows of a load in memory: collected in any order, then sorted.
//!
//! Keys and encoded rows are stored one after the other. Sorting permutes small entries, each with the first bytes of
//! its key after the common prefix, which decide most comparisons.

use super::merge::Item;
use crate::{Error, Result, RowKey};
use bytes::Bytes;
use std::ops::Range;

/// Bytes of a row besides its key and cells.
const ENTRY_BYTES: usize = size_of::<Entry>();

/// Rows in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    rows: Vec<Entry>,
    /// Expected bytes of keys and cells.
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first bytes of the key after the common prefix; set when the rows are sorted.
    head: u64,
    number: u64,
    key: u32,
    row: u32,
    end: u32,
}

/// Rows in the order of their keys, each key once.
#[derive(Debug)]
pub(super) struct Sorted {
    bytes: Bytes,
    rows: Vec<Entry>,
}

impl Buffer {
    /// A buffer that expects about `room` bytes.
    pub(super) fn with_room(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    /// The bytes that are expected.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Expects so many bytes from the next row on that is the first one.
    pub(super) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Adds a row; `encode` appends its cells.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the buffer is full: it holds at most 4 GiB.
    pub(super) fn push(&mut self, number: u64, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let start = self.bytes.len();
        if start == 0 {
            // Growing the vector later would hold it twice while it is copied.
            self.bytes.reserve(self.room);
        }
        self.bytes.extend_from_slice(key);
        let row = self.bytes.len();
        encode(&mut self.bytes);
        let (size, limit) = (self.bytes.len(), u32::MAX as usize);
        if size > limit {
            self.bytes.truncate(start);
            return Err(Error::TooLarge { what: "rows of a load", size, limit });
        }
        self.rows.push(Entry { head: 0, number, key: start as u32, row: row as u32, end: size as u32 });
        Ok(())
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.rows.len() * ENTRY_BYTES
    }

    /// Sorts the rows; `None` if there are none. The buffer is empty afterwards.
    ///
    /// # Errors
    /// [`Error::RowExists`] for a key that occurs twice.
    pub(super) fn sort(&mut self) -> Result<Option<Sorted>> {
        let (bytes, mut rows) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.rows));
        let key = |entry: &Entry| &bytes[entry.key as usize..entry.row as usize];
        let Some(first) = rows.first().map(key) else { return Ok(None) };
        if !rows.is_sorted_by(|a, b| key(a) < key(b)) {
            let common = rows.iter().fold(first.len(), |common, entry| common_prefix(&first[..common], key(entry)));
            for entry in &mut rows {
                entry.head = head(&bytes[entry.key as usize + common..entry.row as usize]);
            }
            let order = |entry: &Entry| (entry.head, key(entry), entry.number);
            rows.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| order(a).cmp(&order(b))));
        }
        if let Some(pair) = rows.windows(2).find(|pair| key(&pair[0]) == key(&pair[1])) {
            let row = RowKey::new(Bytes::copy_from_slice(key(&pair[1])))?;
            return Err(Error::RowExists { key: row, number: Some(pair[1].number) });
        }
        Ok(Some(Sorted { bytes: bytes.into(), rows }))
    }
}

/// Length of the common prefix of two keys.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first 8 bytes as a number of the same order, padded with zeroes.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let taken = bytes.len().min(8);
    head[..taken].copy_from_slice(&bytes[..taken]);
    u64::from_be_bytes(head)
}

impl Sorted {
    /// Number of rows, at least one.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The key of a row.
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let Entry { key, row, .. } = self.rows[at];
        &self.bytes[key as usize..row as usize]
    }

    /// A row's cells.
    pub(super) fn row(&self, at: usize) -> &[u8] {
        let Entry { row, end, .. } = self.rows[at];
        &self.bytes[row as usize..end as usize]
    }

    /// The number of a row, for errors.
    pub(super) fn number(&self, at: usize) -> u64 {
        self.rows[at].number
    }

    /// The least key.
    pub(super) fn first(&self) -> &[u8] {
        self.key(0)
    }

    /// The greatest key.
    pub(super) fn last(&self) -> &[u8] {
        self.key(self.len() - 1)
    }

    /// Bytes of keys and cells.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// How many rows of this range come before a key.
    pub(super) fn count_before(&self, range: Range<usize>, key: &[u8]) -> usize {
        self.rows[range].partition_point(|row| self.bytes[row.key as usize..row.row as usize] < *key)
    }

    /// A row, shared.
    pub(super) fn item(&self, at: usize) -> Item {
        let Entry { key, row, end, number, .. } = self.rows[at];
        let slice = |from: u32, to: u32| self.bytes.slice(from as usize..to as usize);
        Item { key: slice(key, row), row: slice(row, end), number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn rows_are_sorted_and_twins_found(prefix in vec(any::<u8>(), 0..4), keys in vec(vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 1..12), 0..40)) {
            let mut buffer = Buffer::default();
            let mut expected = BTreeMap::new();
            let mut twins = false;
            for (number, key) in keys.iter().enumerate() {
                let key = [&prefix[..], key].concat();
                let row = format!("row {number}").into_bytes();
                buffer.push(number as u64, &key, |out| out.extend_from_slice(&row)).unwrap();
                twins |= expected.insert(key, (row, number as u64)).is_some();
            }
            match buffer.sort() {
                Err(error) => {
                    let Error::RowExists { key, number } = error else { panic!("{error:?}") };
                    let same = |at: usize| [&prefix[..], &keys[at]].concat() == key[..];
                    let number = number.unwrap() as usize;
                    prop_assert!(twins && same(number) && (0..number).any(same));
                }
                Ok(sorted) => {
                    prop_assert!(!twins);
                    let sorted = sorted.iter().flat_map(|sorted| (0..sorted.len()).map(|at| {
                        let item = sorted.item(at);
                        assert_eq!((sorted.key(at), sorted.row(at), sorted.number(at)), (&item.key[..], &item.row[..], item.number));
                        (item.key.to_vec(), (item.row.to_vec(), item.number))
                    }));
                    prop_assert_eq!(sorted.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(buffer.bytes(), 0);
        }
    }
}
