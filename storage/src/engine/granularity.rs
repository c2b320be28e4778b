//! Sizes of the pieces into which the engine divides its data.
//!
//! The defaults suit data of any size, and operators need not change them. Tests make all of them small: then a few
//! dozen rows fill memtables, row groups, pages and tablets, and exercise what large stores do continuously.

use super::{
    budget::MEMTABLE_BYTES_MIN,
    compact::STEP_ROWS_MAX,
    flush::DELTA_BYTES_MIN,
    load::BLOCK_BYTES,
    sections::SECTION_ROWS_MIN,
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
    /// Minimum bytes of a memtable, whatever is configured.
    pub memtable_bytes_min: u64,
    /// Maximum rows of a row group.
    pub group_rows_max: u32,
    /// Maximum rows of a page.
    pub page_rows_max: usize,
    /// Bytes from which on a delta ends at the end of its tablet.
    pub delta_bytes_min: u64,
    /// Bytes below which neither dead rows nor the size of deltas trigger a compaction.
    pub changed_bytes_min: u64,
    /// Rows from which on a section has bases of its own.
    pub section_rows_min: u64,
    /// Rows of a step of a compaction or a load; a base can only end between two steps.
    pub step_rows_max: usize,
    /// Runs of a load that are merged at a time; at least 2.
    pub load_runs_max: usize,
    /// Bytes of a load's rows, in runs and in memory, from which on two threads merge them.
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
            section_rows_min: SECTION_ROWS_MIN,
            step_rows_max: STEP_ROWS_MAX,
            load_runs_max: LOAD_RUNS_MAX,
            load_halves_bytes_min: LOAD_HALVES_BYTES_MIN,
            load_block_bytes: BLOCK_BYTES,
        }
    }
}

impl Granularity {
    /// Limits of row groups and pages.
    pub(crate) fn segments(&self) -> Limits {
        Limits { group_rows_max: self.group_rows_max, page_rows_max: self.page_rows_max, ..Limits::default() }
    }

    /// Limits that trigger compactions.
    pub(crate) fn compactions(&self) -> CompactionLimits {
        CompactionLimits { changed_bytes_min: self.changed_bytes_min, ..CompactionLimits::default() }
    }
}
