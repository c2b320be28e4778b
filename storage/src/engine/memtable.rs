//! Rows in memory that no segment holds yet.
//!
//! A [`Memtable`] is persistent: a copy costs nothing and shares all that does not change afterwards. Each key that was written
//! since the memtable began has a [`Slot`]: the whole row as it is now, or that it is gone, and the stamp of the commit that made
//! it so. A memtable never holds a part of a row, so that whoever finds a slot need not look any further.

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

/// Slots between two boundaries, when they were found.
pub(crate) const PIECE_SLOTS: usize = 4_096;

/// Bytes that a slot takes beside its key and row, roughly: the tree's share, two reference counts, the stamp.
const SLOT_BYTES: u64 = 120;

/// How often scans may read what a memtable has before it is flushed for them. To read a row here takes a scan 0.2 µs more than from a row group, to write
/// it to a delta some 4 µs.
const READS_PER_FLUSH: u64 = 16;

/// What a commit made of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The stamp of that commit, in microseconds.
    pub(crate) stamp: i64,
    /// The row, [encoded](super::cells); `None` when it is gone.
    pub(crate) row: Option<Bytes>,
}

/// The slots of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memtable {
    /// By key.
    pub(crate) slots: OrdMap<RowKey, Slot>,
    /// Ranges that were deleted, with the stamps of the commits, ascending. What they deleted has no slot, if it was in a segment: they
    /// are kept for whoever asks whether a row changed.
    pub(crate) ranges: Vector<(KeyRange, i64)>,
    /// Bytes of keys and rows, with what the slots take.
    pub(crate) bytes: u64,
    /// Where it may be cut into pieces. To find that takes a walk over all slots, so that it is kept, by all copies, until there are a
    /// quarter more.
    boundaries: Arc<Mutex<Boundaries>>,
    /// Rows that scans of many rows have read here, of all copies.
    scanned: Arc<AtomicU64>,
}

/// Keys that cut a memtable into pieces of about as many slots.
#[derive(Clone, Debug, Default)]
struct Boundaries {
    /// How many slots there were.
    slots: usize,
    keys: Arc<[RowKey]>,
}

impl Memtable {
    /// Whether nothing was written since it began.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.ranges.is_empty()
    }

    /// Puts a slot, or none, in the place of what is there, and gives that.
    pub(crate) fn set(&mut self, key: &[u8], slot: Option<Slot>) -> Option<Slot> {
        let size = |slot: &Slot| (key.len() + slot.row.as_ref().map_or(0, Bytes::len)) as u64 + SLOT_BYTES;
        let added = slot.as_ref().map_or(0, size);
        let removed = match slot {
            Some(slot) => {
                // The caller's key is a slice of a request or of a log file, which it must not keep alive.
                let own = RowKey::stored(Bytes::copy_from_slice(key)).expect("the key was one before");
                self.slots.insert(own, slot)
            }
            None => self.slots.remove::<[u8]>(key),
        };
        self.bytes = self.bytes + added - removed.as_ref().map_or(0, size);
        removed
    }

    /// Keys, ascending, between which there were [`PIECE_SLOTS`] slots, when there were fewer by a quarter at most.
    pub(crate) fn boundaries(&self) -> Arc<[RowKey]> {
        let mut boundaries = self.boundaries.lock().unwrap_or_else(PoisonError::into_inner);
        if self.slots.len() > boundaries.slots + boundaries.slots / 4 {
            let keys = self.slots.keys().step_by(PIECE_SLOTS).skip(1).cloned();
            *boundaries = Boundaries { slots: self.slots.len(), keys: keys.collect() };
        }
        Arc::clone(&boundaries.keys)
    }

    /// Counts rows that a scan reads here. Whether scans have read it so often that it had been cheaper to flush it first.
    pub(crate) fn count_scanned(&self, rows: u64) -> bool {
        let scanned = self.scanned.fetch_add(rows, Ordering::Relaxed) + rows;
        scanned >= READS_PER_FLUSH * self.slots.len() as u64
    }

    /// The keys in a range that have a slot.
    pub(crate) fn keys(&self, range: &KeyRange) -> Vec<RowKey> {
        self.slots.range::<_, [u8]>(bounds(range)).map(|(key, _)| key.clone()).collect()
    }

    /// Remembers a deleted range.
    pub(crate) fn push_range(&mut self, range: KeyRange, stamp: i64) {
        self.bytes += range_bytes(&range);
        self.ranges.push_back((range, stamp));
    }

    /// Forgets the last deleted range.
    pub(crate) fn pop_range(&mut self) {
        if let Some((range, _)) = self.ranges.pop_back() {
            self.bytes -= range_bytes(&range);
        }
    }

    /// The stamp of the last commit that touched the row; `None` when none did since the memtable began.
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
