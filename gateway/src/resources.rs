//! What the server may take of the machine: memory, divided by a pure function, and room for temporary files.
//!
//! [`Memory::of`] divides what `--memory` says; the engine divides its part further ([`Budget`]). [`Resources`] is what running
//! queries share: DataFusion's pool of memory, which makes those that sort, group and join give way to each other and write to
//! temporary files what does not fit, and the bounded folder of these files.

mod age;
mod machine;
mod pool;
mod size;

pub use age::Age;
pub use machine::{machine_bytes, process_bytes, raise_open_files};
pub use size::Size;

use datafusion::{
    error::Result,
    execution::{
        SessionState, SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
};
use keyspan_storage::engine::Budget;
use pool::QueryPool;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio::sync::Semaphore;

/// The share of the machine's memory that a server takes unless it is told: one over this.
pub const MACHINE_SHARE: u64 = 4;
/// The least that `--memory` may say: below it not even a sort has room to write its rows to a file.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The memory of a server that is not told, in a program that embeds it.
pub const MEMORY_BYTES: u64 = 2 << 30;
/// Bytes of temporary files of all running queries, unless it is told otherwise.
pub const TEMP_BYTES: u64 = 16 << 30;
/// Bytes that a sort keeps aside, to merge what it wrote to files, at most.
const SORT_ASIDE_BYTES_MAX: u64 = 10 << 20;
/// Bytes of the memory of queries for each row of a batch: with less memory batches are smaller, of which every step of a query holds some.
const BYTES_PER_BATCH_ROW: u64 = 128 << 10;
/// Rows of a batch, at least.
const BATCH_ROWS_MIN: u64 = 128;
/// Files that are merged at once where memory is scarce, at most.
const SCARCE_MERGE_FILES: usize = 8;
/// Bytes of a row group that is exported, at most.
const EXPORT_GROUP_BYTES_MAX: u64 = 64 << 20;
/// The share of the memory that it takes, at most: one over this.
const EXPORT_GROUP_SHARE: u64 = 16;
/// Sorts that fit into the memory of queries at the same time, by what they keep aside.
const SORTS: u64 = 16;

/// What is done with the memory that the server may take, in bytes.
///
/// ```text
/// all   = 1/2 queries · 3/8 engine · 1/8 unplanned
/// ```
///
/// Unplanned is what nobody counts: batches on their way, messages of clients, writes that wait for the log, plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub all_bytes: u64,
    /// For running queries: sorting, grouping, joining.
    pub query_bytes: u64,
    /// For the store: memtables and caches.
    pub engine_bytes: u64,
    /// For a memtable, where it is not the engine that says.
    pub memtable_bytes: Option<u64>,
    /// What may wait for the log.
    pub queue_bytes: u64,
}

/// `--memory` asks for less than [`MEMORY_BYTES_MIN`].
#[derive(Debug, thiserror::Error)]
#[error("--memory {0} is less than {least}", least = Size(MEMORY_BYTES_MIN))]
pub struct MemoryTooSmall(pub Size);

impl Memory {
    /// Divides what `--memory` asks for; without it, one [`MACHINE_SHARE`]th of the machine's memory, or [`MEMORY_BYTES`] where the
    /// system does not say how much that is.
    ///
    /// # Errors
    /// If `--memory` asks for too little.
    pub fn of_machine(asked: Option<Size>, memtable: Option<Size>) -> Result<Self, MemoryTooSmall> {
        let all_bytes = match asked {
            Some(size) if size.0 < MEMORY_BYTES_MIN => return Err(MemoryTooSmall(size)),
            Some(size) => size.0,
            None => machine_bytes().map_or(MEMORY_BYTES, |bytes| bytes / MACHINE_SHARE),
        };
        Ok(Self::of(all_bytes, memtable.map(|size| size.0)))
    }

    /// Divides the memory; less than [`MEMORY_BYTES_MIN`] is taken as that.
    pub fn of(all_bytes: u64, memtable_bytes: Option<u64>) -> Self {
        let all_bytes = all_bytes.max(MEMORY_BYTES_MIN);
        let engine_bytes = all_bytes / 8 * 3;
        Self { all_bytes, query_bytes: all_bytes / 2, engine_bytes, memtable_bytes, queue_bytes: all_bytes / 32 }
    }

    /// What the engine makes of its part.
    pub fn budget(&self) -> Budget {
        Budget::of(self.engine_bytes, self.memtable_bytes)
    }

    /// Rows of a batch of a query.
    pub fn batch_rows(&self) -> usize {
        let rows = (self.query_bytes / BYTES_PER_BATCH_ROW).max(BATCH_ROWS_MIN);
        usize::try_from(rows).unwrap_or(usize::MAX).min(BATCH_ROWS)
    }

    /// Whether there is so little of it that queries do with smaller batches and without what takes memory for speed.
    pub fn is_scarce(&self) -> bool {
        self.batch_rows() < BATCH_ROWS
    }

    /// Files that are merged at once, at most; 0 for as many as fit. Of each there is more in memory than is counted.
    pub fn merge_files(&self) -> usize {
        if self.is_scarce() { SCARCE_MERGE_FILES } else { 0 }
    }

    /// Bytes of a row group that is exported: it is in memory until it is full.
    pub fn export_group_bytes(&self) -> usize {
        let bytes = (self.all_bytes / EXPORT_GROUP_SHARE).min(EXPORT_GROUP_BYTES_MAX);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// What a sort keeps aside to merge with.
    pub fn sort_aside_bytes(&self) -> usize {
        usize::try_from((self.query_bytes / SORTS).min(SORT_ASIDE_BYTES_MAX)).unwrap_or(usize::MAX)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::of(MEMORY_BYTES, None)
    }
}

/// What running queries share.
#[derive(Clone, Debug)]
pub struct Resources {
    /// How the memory is divided.
    pub memory: Memory,
    /// DataFusion's: the pool and the temporary files.
    pub runtime: Arc<RuntimeEnv>,
    /// What every statement's session starts from, made at the first: to register some hundred functions takes longer than to plan a
    /// short query.
    pub(crate) sessions: Arc<OnceLock<Sessions>>,
    /// Room for plans of prepared statements.
    pub(crate) plans: Arc<Semaphore>,
}

impl Resources {
    /// Temporary files go into `folder`, which is made if it is not there; `None` for the system's. They take `temp_bytes` together,
    /// and end with their query.
    ///
    /// # Errors
    /// When the folder cannot be made or used.
    pub fn new(memory: Memory, folder: Option<PathBuf>, temp_bytes: u64) -> Result<Self> {
        let mode = match folder {
            Some(folder) => DiskManagerMode::Directories(vec![folder]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(temp_bytes);
        let disk = disk.with_max_spill_merge_fan_in(memory.merge_files());
        let pool = QueryPool::new(usize::try_from(memory.query_bytes).unwrap_or(usize::MAX), memory.sort_aside_bytes());
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_disk_manager_builder(disk);
        let plans = Arc::new(Semaphore::new(plans_max(memory.all_bytes)));
        Ok(Self { memory, runtime: Arc::new(runtime.build()?), sessions: Arc::default(), plans })
    }

    /// Bytes that running queries have reserved.
    pub fn query_bytes(&self) -> u64 {
        self.runtime.memory_pool.reserved() as u64
    }

    /// Bytes of their temporary files, and what these may take.
    pub fn temp_bytes(&self) -> (u64, u64) {
        let disk = &self.runtime.disk_manager;
        (disk.used_disk_space(), disk.max_temp_directory_size())
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::new(Memory::default(), None, TEMP_BYTES).expect("the system's temporary folder is made when it is needed")
    }
}

/// Empties the folder of temporary files, and makes it: a server that was killed left some behind. Whoever calls it holds the store,
/// to which the folder belongs.
///
/// # Errors
/// The system's.
pub fn clear_folder(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir_all(folder)
}

/// The most partitions of a query, unless its session says otherwise.
pub const STREAMS: usize = 2;
/// Rows in a batch, unless memory is scarce.
pub const BATCH_ROWS: usize = 8192;

/// States that all statements of a server start from.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) of_texts: SessionState,
    pub(crate) of_kept: SessionState,
}

impl Sessions {
    pub(crate) fn of(of_texts: SessionState) -> Self {
        let of_kept = SessionStateBuilder::new_from_existing(of_texts.clone())
            .with_scalar_functions(Vec::new())
            .with_higher_order_functions(Vec::new())
            .with_aggregate_functions(Vec::new())
            .with_window_functions(Vec::new())
            .with_table_functions(HashMap::new())
            .build();
        Self { of_texts, of_kept }
    }
}

/// How many plans a server keeps that may take so much memory.
pub(crate) fn plans_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / BYTES_PER_PLAN).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Bytes of the server's memory for each plan that may be kept: a plan takes some ten thousand.
const BYTES_PER_PLAN: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(all_bytes: u64, memtable_bytes: Option<u64>, expected: Expect) {
        let memory = Memory::of(all_bytes, memtable_bytes);
        let budget = memory.budget();
        let parts = [
            ("queries", memory.query_bytes),
            ("a sort's aside", memory.sort_aside_bytes() as u64),
            ("a memtable", budget.memtable_bytes),
            ("rows", budget.row_cache_bytes),
            ("pages", budget.page_cache_bytes),
            ("footers", budget.footer_cache_bytes),
            ("queue", memory.queue_bytes),
            ("an export's row group", memory.export_group_bytes() as u64),
        ];
        let shown: Vec<_> = parts.iter().map(|(name, bytes)| format!("{name} {}", Size(*bytes))).collect();
        expected.assert_eq(&format!("{}, batches of {}", shown.join(", "), memory.batch_rows()));
        assert!(memory.query_bytes + memory.engine_bytes + memory.queue_bytes <= memory.all_bytes);
        assert!(memtable_bytes.is_some() || budget.total_bytes() == memory.engine_bytes);
    }

    #[test]
    fn memory_is_divided() {
        check(
            8 << 30,
            None,
            expect![
                "queries 4GiB, a sort's aside 10MiB, a memtable 64MiB, rows 736MiB, pages 1.7GiB, footers 368MiB, queue 256MiB, an export's row group 64MiB, batches of 8192"
            ],
        );
        check(
            512 << 20,
            None,
            expect![
                "queries 256MiB, a sort's aside 10MiB, a memtable 32MiB, rows 32MiB, pages 80MiB, footers 16MiB, queue 16MiB, an export's row group 32MiB, batches of 2048"
            ],
        );
        check(
            32 << 20,
            None,
            expect![
                "queries 16MiB, a sort's aside 1MiB, a memtable 2MiB, rows 2MiB, pages 5MiB, footers 1MiB, queue 1MiB, an export's row group 2MiB, batches of 128"
            ],
        );
        check(
            32 << 20,
            Some(1 << 20),
            expect![
                "queries 16MiB, a sort's aside 1MiB, a memtable 1MiB, rows 2.5MiB, pages 6.2MiB, footers 1.2MiB, queue 1MiB, an export's row group 2MiB, batches of 128"
            ],
        );
        check(
            0,
            None,
            expect![
                "queries 16MiB, a sort's aside 1MiB, a memtable 2MiB, rows 2MiB, pages 5MiB, footers 1MiB, queue 1MiB, an export's row group 2MiB, batches of 128"
            ],
        );
    }

    #[test]
    fn what_a_killed_server_left_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let temp = folder.path().join("temp");
        clear_folder(&temp).unwrap();
        std::fs::create_dir(temp.join("datafusion-x")).unwrap();
        std::fs::write(temp.join("datafusion-x/rows"), "rows").unwrap();
        clear_folder(&temp).unwrap();
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    }
}
