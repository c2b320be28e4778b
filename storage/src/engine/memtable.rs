//! Memtables: rows in memory that are not in a segment yet.
//!
//! A [`Memtable`] is persistent: a copy is free and shares unchanged parts. Each key that was written since the
//! memtable began has a [`Slot`]: the whole current row, or a mark that it was deleted, and the stamp of the commit
//! that wrote it. A memtable never holds a part of a row, so a reader that finds a slot need not look further.

use crate::{KeyRange, RowKey};
use bytes::Bytes;
use imbl::{OrdMap, Vector};
use std::{
    ops::Bound,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Slots between two boundaries when they were computed.
pub(crate) const PIECE_SLOTS: usize = 4_096;

/// Approximate bytes of a slot besides its key and row: the tree's share, two reference counts, the stamp.
const SLOT_BYTES: u64 = 120;

/// How often scans may read a memtable's content before it is flushed for them. Reading a row here takes a scan 0.2 µs
/// more than from a row group; writing it to a delta takes about 4 µs.
const READS_PER_FLUSH: u64 = 16;

/// The result of a commit for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The stamp of that commit, in microseconds.
    pub(crate) stamp: i64,
    /// The row, [encoded](super::cells); `None` if it was deleted.
    pub(crate) row: Option<Bytes>,
}

/// The slots of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memtable {
    /// By key.
    pub(crate) slots: OrdMap<RowKey, Slot>,
    /// Deleted ranges, with the stamps of the commits, ascending. Rows that were only in segments have no slot: the
    /// ranges are kept to find out whether a row changed.
    pub(crate) ranges: Vector<(KeyRange, i64)>,
    /// Bytes of keys and rows, with the overhead of slots.
    pub(crate) bytes: u64,
    /// Keys that split it into pieces. Computing them takes a walk over all slots, so the result is shared by all
    /// copies until there are a quarter more slots.
    boundaries: Arc<Mutex<Boundaries>>,
    /// Rows that scans of many rows have read here, summed over all copies.
    scanned: Arc<AtomicU64>,
}

/// Keys that split a memtable into pieces of about equal numbers of slots.
#[derive(Clone, Debug, Default)]
struct Boundaries {
    /// Number of slots when they were computed.
    slots: usize,
    keys: Arc<[RowKey]>,
}

impl Memtable {
    /// Whether it has no slots and no deleted ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.ranges.is_empty()
    }

    /// Replaces or removes a slot; returns the old one.
    pub(crate) fn set(&mut self, key: &[u8], slot: Option<Slot>) -> Option<Slot> {
        let size = |slot: &Slot| (key.len() + slot.row.as_ref().map_or(0, Bytes::len)) as u64 + SLOT_BYTES;
        let added = slot.as_ref().map_or(0, size);
        let removed = match slot {
            Some(slot) => {
                // Copied: the caller's key is a slice of a request or a log file, which must not stay in memory.
                let own = RowKey::stored(Bytes::copy_from_slice(key)).expect("the key was one before");
                self.slots.insert(own, slot)
            }
            None => self.slots.remove::<[u8]>(key),
        };
        self.bytes = self.bytes + added - removed.as_ref().map_or(0, size);
        removed
    }

    /// Keys, ascending, that are [`PIECE_SLOTS`] slots apart; computed when there were at most a quarter fewer slots.
    pub(crate) fn boundaries(&self) -> Arc<[RowKey]> {
        let mut boundaries = self.boundaries.lock().unwrap_or_else(PoisonError::into_inner);
        if self.slots.len() > boundaries.slots + boundaries.slots / 4 {
            let keys = self.slots.keys().step_by(PIECE_SLOTS).skip(1).cloned();
            *boundaries = Boundaries { slots: self.slots.len(), keys: keys.collect() };
        }
        Arc::clone(&boundaries.keys)
    }

    /// Counts rows that a scan reads here; returns whether scans have read so much that a flush would have been
    /// cheaper.
    pub(crate) fn count_scanned(&self, rows: u64) -> bool {
        let scanned = self.scanned.fetch_add(rows, Ordering::Relaxed) + rows;
        scanned >= READS_PER_FLUSH * self.slots.len() as u64
    }

    /// The keys in a range that have a slot.
    pub(crate) fn keys(&self, range: &KeyRange) -> Vec<RowKey> {
        self.slots.range::<_, [u8]>(bounds(range)).map(|(key, _)| key.clone()).collect()
    }

    /// Adds a deleted range.
    pub(crate) fn push_range(&mut self, range: KeyRange, stamp: i64) {
        self.bytes += range_bytes(&range);
        self.ranges.push_back((range, stamp));
    }

    /// Removes the last deleted range.
    pub(crate) fn pop_range(&mut self) {
        if let Some((range, _)) = self.ranges.pop_back() {
            self.bytes -= range_bytes(&range);
        }
    }

    /// The stamp of the last commit that touched the row; `None` if none did since the memtable began.
    pub(crate) fn changed(&self, key: &[u8]) -> Option<i64> {
        let slot = self.slots.get(key).map(|slot| slot.stamp);
        // The newest is last.
        let range = self.ranges.iter().rev().find(|(range, _)| range.contains(key)).map(|(_, stamp)| *stamp);
        slot.max(range)
    }
}

fn range_bytes(range: &KeyRange) -> u64 {
    (range.start.len() + range.end.as_ref().map_or(0, Bytes::len)) as u64 + SLOT_BYTES
}

/// The bounds of a range that is not empty.
pub(crate) fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&range.start[..]), range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..])))
}
