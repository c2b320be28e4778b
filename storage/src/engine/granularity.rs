//! How finely the engine divides what it keeps.
//!
//! The defaults suit data of any size, and nobody who runs a store need change them. Tests make all of them small: then a few dozen rows fill
//! memtables, row groups, pages and tablets, and what the engine does with many of them, all the time and by itself, it does with theirs.

use super::{
    budget::MEMTABLE_BYTES_MIN,
    compact::STEP_ROWS_MAX,
    flush::DELTA_BYTES_MIN,
    load::BLOCK_BYTES,
    segment::{GROUP_ROWS_MAX, Limits, PAGE_ROWS_MAX},
    tablet::choose::{CHANGED_BYTES_MIN, CompactionLimits},
};

/// Runs of a load that are merged at a time: a block of each is in memory.
const LOAD_RUNS_MAX: usize = 32;
/// Bytes of a load's rows from which on two threads merge them: a second of work.
const LOAD_HALVES_BYTES_MIN: u64 = 64 << 20;

/// See the module. Each is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granularity {
    /// Bytes of a memtable, at least, whatever it is set to.
    pub memtable_bytes_min: u64,
    /// Rows of a row group, at most.
    pub group_rows_max: u32,
    /// Rows of a page, at most.
    pub page_rows_max: usize,
    /// Bytes from which on a delta ends with its tablet.
    pub delta_bytes_min: u64,
    /// Bytes below which neither dead rows nor the size of deltas are reason enough for a compaction.
    pub changed_bytes_min: u64,
    /// Rows that a compaction, or a load, takes at a time; between two such steps it may begin another base.
    pub step_rows_max: usize,
    /// Runs of a load that are merged at a time; 2 at least.
    pub load_runs_max: usize,
    /// Bytes of a load's rows, in runs and in memory, from which on two threads merge them at its end.
    pub load_halves_bytes_min: u64,
    /// Bytes of a block of a load's run, plus at most one row.
    pub load_block_bytes: usize,
}

impl Default for Granularity {
    fn default() -> Self {
        Self {
            memtable_bytes_min: MEMTABLE_BYTES_MIN,
            group_rows_max: GROUP_ROWS_MAX,
            page_rows_max: PAGE_ROWS_MAX,
            delta_bytes_min: DELTA_BYTES_MIN,
            changed_bytes_min: CHANGED_BYTES_MIN,
            step_rows_max: STEP_ROWS_MAX,
            load_runs_max: LOAD_RUNS_MAX,
            load_halves_bytes_min: LOAD_HALVES_BYTES_MIN,
            load_block_bytes: BLOCK_BYTES,
        }
    }
}

impl Granularity {
    /// Where row groups and pages end.
    pub(crate) fn segments(&self) -> Limits {
        Limits { group_rows_max: self.group_rows_max, page_rows_max: self.page_rows_max, ..Limits::default() }
    }

    /// When tablets are compacted.
    pub(crate) fn compactions(&self) -> CompactionLimits {
        CompactionLimits { changed_bytes_min: self.changed_bytes_min, ..CompactionLimits::default() }
    }
}
