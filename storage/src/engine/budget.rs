//! The division of the engine's memory budget: a pure function.
//!
//! ```text
//! memory = 2 memtables (the one written into, the one on its way into segments) + caches
//! caches = 1/4 rows · 5/8 pages · 1/8 footers
//! ```
//!
//! A memtable takes a sixth of the memory, but at most [`MEMTABLE_BYTES_MAX`], so that a flush is short and a start
//! replays little; the caches take the remainder.
//!
//! The sizes of temporary data follow from the memory as well: a row group, which a flush and a compaction hold encoded
//! until it is full, and which a scan decodes; a base, whose tail grows with its row groups; a log file, which a start
//! reads; a group of commits.

use super::segment::{GROUP_BYTES_TARGET, PAGE_BYTES_TARGET};

/// Default memory budget, in bytes.
pub const MEMORY_BYTES: u64 = 512 << 20;
/// Default upper limit of the bytes after which a memtable is flushed.
pub const MEMTABLE_BYTES_MAX: u64 = 64 << 20;
/// Minimum bytes of a memtable: below this, segments would be more footer than rows.
pub const MEMTABLE_BYTES_MIN: u64 = 64 << 10;

/// Minimum bytes of rows of a row group: with less, tails would be a large part of segments.
const ROW_GROUP_BYTES_MIN: u64 = 1 << 20;
/// Approximate minimum of pages of one column in a row group.
const ROW_GROUP_PAGES: usize = 32;
/// Approximate number of row groups of a base, by bytes of rows: it bounds the size of a tail.
const BASE_ROW_GROUPS: u64 = 8;

/// The engine's memory budget, in bytes by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes after which a memtable is flushed. Up to two are in memory.
    pub memtable_bytes: u64,
    /// Cache of decoded rows.
    pub row_cache_bytes: u64,
    /// Cache of decoded pages of segments.
    pub page_cache_bytes: u64,
    /// Cache of segments' footers.
    pub footer_cache_bytes: u64,
    /// Bytes of rows after which a row group ends.
    pub row_group_bytes: usize,
}

impl Budget {
    /// Divides `memory_bytes`. `memtable_bytes` overrides a memtable's size; it is at least [`MEMTABLE_BYTES_MIN`],
    /// even if the memory is less.
    pub fn of(memory_bytes: u64, memtable_bytes: Option<u64>) -> Self {
        Self::with_least(memory_bytes, memtable_bytes, MEMTABLE_BYTES_MIN)
    }

    /// Same as [`of`](Self::of), with another minimum of a memtable's size.
    pub(crate) fn with_least(memory_bytes: u64, memtable_bytes: Option<u64>, memtable_bytes_min: u64) -> Self {
        let memtable_bytes = memtable_bytes.unwrap_or_else(|| (memory_bytes / 6).min(MEMTABLE_BYTES_MAX));
        let memtable_bytes = memtable_bytes.max(memtable_bytes_min);
        let caches = memory_bytes.saturating_sub(2 * memtable_bytes);
        let (row_cache_bytes, footer_cache_bytes) = (caches / 4, caches / 8);
        let page_cache_bytes = caches - row_cache_bytes - footer_cache_bytes;
        let row_group_bytes = (memory_bytes / 6).clamp(ROW_GROUP_BYTES_MIN, GROUP_BYTES_TARGET as u64);
        let row_group_bytes = usize::try_from(row_group_bytes).expect("it is at most GROUP_BYTES_TARGET");
        Self { memtable_bytes, row_cache_bytes, page_cache_bytes, footer_cache_bytes, row_group_bytes }
    }

    /// Bytes of a page: a query engine that reads a part of a page holds all of it.
    pub fn page_bytes(&self) -> usize {
        (self.row_group_bytes / ROW_GROUP_PAGES).min(PAGE_BYTES_TARGET)
    }

    /// Maximum bytes of a base.
    pub fn base_bytes(&self) -> u64 {
        BASE_ROW_GROUPS * self.row_group_bytes as u64
    }

    /// Maximum bytes of a log file: a start reads one at a time.
    pub fn log_file_bytes(&self) -> u64 {
        2 * self.row_group_bytes as u64
    }

    /// Bytes of the log after which a group of commits is full.
    pub fn log_group_bytes(&self) -> usize {
        usize::try_from(self.memtable_bytes.max(MEMTABLE_BYTES_MIN))
            .unwrap_or(usize::MAX)
            .min(super::GROUP_BYTES_TARGET)
    }

    /// The sum, in bytes.
    pub fn total_bytes(&self) -> u64 {
        2 * self.memtable_bytes + self.row_cache_bytes + self.page_cache_bytes + self.footer_cache_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(memory_mib: u64, memtable_bytes: Option<u64>, expected: Expect) {
        let budget = Budget::of(memory_mib << 20, memtable_bytes);
        let kib = |bytes: u64| bytes >> 10;
        expected.assert_eq(&format!(
            "memtables 2 x {}, rows {}, pages {}, footers {}, row groups {} KiB",
            kib(budget.memtable_bytes),
            kib(budget.row_cache_bytes),
            kib(budget.page_cache_bytes),
            kib(budget.footer_cache_bytes),
            kib(budget.row_group_bytes as u64),
        ));
    }

    #[test]
    fn memory_is_divided() {
        check(
            4096,
            None,
            expect!["memtables 2 x 65536, rows 1015808, pages 2539520, footers 507904, row groups 65536 KiB"],
        );
        check(512, None, expect!["memtables 2 x 65536, rows 98304, pages 245760, footers 49152, row groups 65536 KiB"]);
        check(24, None, expect!["memtables 2 x 4096, rows 4096, pages 10240, footers 2048, row groups 4096 KiB"]);
        check(24, Some(1), expect!["memtables 2 x 64, rows 6112, pages 15280, footers 3056, row groups 4096 KiB"]);
        check(8, Some(64 << 20), expect!["memtables 2 x 65536, rows 0, pages 0, footers 0, row groups 1365 KiB"]);
        check(0, None, expect!["memtables 2 x 64, rows 0, pages 0, footers 0, row groups 1024 KiB"]);
    }

    proptest! {
        #[test]
        fn all_of_it_is_used_and_no_more(memory in 2 * MEMTABLE_BYTES_MIN..1 << 45, memtable in prop::option::of(0u64..1 << 40)) {
            let budget = Budget::of(memory, memtable);
            let least = 2 * memtable.unwrap_or(0).max(MEMTABLE_BYTES_MIN);
            prop_assert_eq!(budget.total_bytes(), memory.max(least));
        }
    }
}
