//! The machine's resources that a server may use: memory, and disk space for temporary files.
//!
//! [`Memory::of`] is a pure function that divides `--memory`; the engine divides its part further ([`Budget`]).
//! [`Resources`] is what running queries share: DataFusion's memory pool, which makes queries that sort, group and join
//! spill to temporary files what does not fit, and the bounded folder of these files.

mod age;
mod areas;
mod held;
mod machine;
mod messages;
mod pool;
mod size;
mod spill;

pub use age::Age;
pub(crate) use areas::Area;
pub(crate) use held::Held;
pub use machine::{machine_bytes, process_bytes, raise_open_files};
pub(crate) use messages::{MessagePermit, MessageRoom, TenantMessages};
pub use size::Size;

use crate::{
    pg::functions::bounded::ResultBytes,
    shares::{Share, parts::Parts},
};
use datafusion::{
    error::Result,
    execution::{
        SessionState, SessionStateBuilder,
        disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode},
        memory_pool::MemoryPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
};
use keyspan_storage::engine::Budget;
use pool::QueryPool;
use spill::CountedFiles;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tokio::sync::Semaphore;

/// Without `--memory` a server uses one over this of the machine's memory.
pub const MACHINE_SHARE: u64 = 4;
/// The least value of `--memory`: below it a sort lacks the memory even to spill.
pub const MEMORY_BYTES_MIN: u64 = 32 << 20;
/// The default in a program that embeds the server, and where the system does not tell how much memory there is.
pub const MEMORY_BYTES: u64 = 2 << 30;
/// The default bound of the temporary files of all running queries.
pub const TEMP_BYTES: u64 = 16 << 30;
/// The most that a sort reserves for merging its spilled runs.
const SORT_ASIDE_BYTES_MAX: u64 = 10 << 20;
/// Query memory for each row of a batch: with less memory batches are smaller, since each operator of a query holds
/// some batches.
const BYTES_PER_BATCH_ROW: u64 = 128 << 10;
/// The fewest rows of a full batch.
const BATCH_ROWS_MIN: u64 = 128;
/// The most spilled runs that are merged at once where memory is scarce.
const SCARCE_MERGE_FILES: usize = 8;
/// The largest row group of an exported Parquet file.
const EXPORT_GROUP_BYTES_MAX: u64 = 64 << 20;
/// A row group that is exported takes at most one over this of the memory.
const EXPORT_GROUP_SHARE: u64 = 16;
/// Sorts whose reservations for merging fit into the query memory together.
const SORTS: u64 = 16;

/// How the server's memory is divided, in bytes.
///
/// ```text
/// all   = 1/2 queries · 3/8 engine · 1/8 unplanned
/// ```
///
/// Unplanned memory is not accounted for: batches in flight, writes that wait for the log, plans, and messages of
/// clients, whose long ones have a [bound](Memory::message_bytes), and what sessions keep, which has
/// [one](Memory::session_bytes) too. What open transactions and statements are about to write is memory of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The sum.
    pub all_bytes: u64,
    /// For running queries: sorting, grouping, joining.
    pub query_bytes: u64,
    /// For the store: memtables and caches.
    pub engine_bytes: u64,
    /// For one memtable; `None` lets the engine choose.
    pub memtable_bytes: Option<u64>,
    /// For writes that wait for the log.
    pub queue_bytes: u64,
}

/// `--memory` is less than [`MEMORY_BYTES_MIN`].
#[derive(Debug, thiserror::Error)]
#[error("--memory {0} is less than {least}", least = Size(MEMORY_BYTES_MIN))]
pub struct MemoryTooSmall(pub Size);

impl Memory {
    /// Divides `--memory`; without it, one [`MACHINE_SHARE`]th of the machine's memory, or [`MEMORY_BYTES`] where the
    /// system does not tell how much memory there is.
    ///
    /// # Errors
    /// If `--memory` is too small.
    pub fn of_machine(asked: Option<Size>, memtable: Option<Size>) -> Result<Self, MemoryTooSmall> {
        let all_bytes = match asked {
            Some(size) if size.0 < MEMORY_BYTES_MIN => return Err(MemoryTooSmall(size)),
            Some(size) => size.0,
            None => machine_bytes().map_or(MEMORY_BYTES, |bytes| bytes / MACHINE_SHARE),
        };
        Ok(Self::of(all_bytes, memtable.map(|size| size.0)))
    }

    /// Divides the memory, which is raised to [`MEMORY_BYTES_MIN`].
    pub fn of(all_bytes: u64, memtable_bytes: Option<u64>) -> Self {
        let all_bytes = all_bytes.max(MEMORY_BYTES_MIN);
        let engine_bytes = all_bytes / 8 * 3;
        Self { all_bytes, query_bytes: all_bytes / 2, engine_bytes, memtable_bytes, queue_bytes: all_bytes / 32 }
    }

    /// How the engine divides its part.
    pub fn budget(&self) -> Budget {
        Budget::of(self.engine_bytes, self.memtable_bytes)
    }

    /// What one call of a function may give for a batch of rows: a gigabyte, or a quarter of the memory of queries.
    pub fn result_bytes(&self) -> u64 {
        (self.query_bytes / 4).min(ResultBytes::MAX)
    }

    /// For long messages of clients: half of what is unplanned.
    pub fn message_bytes(&self) -> u64 {
        self.all_bytes / 16
    }

    /// For what sessions keep: prepared statements, values of portals, rows of cursors. It comes to the rest, and is
    /// not memory of queries, since one sort may take all of that, beside which others still prepare statements.
    pub fn session_bytes(&self) -> u64 {
        self.all_bytes / 4
    }

    /// Rows of a full batch.
    pub fn batch_rows(&self) -> usize {
        let rows = (self.query_bytes / BYTES_PER_BATCH_ROW).max(BATCH_ROWS_MIN);
        usize::try_from(rows).unwrap_or(usize::MAX).min(BATCH_ROWS)
    }

    /// Whether memory is so small that queries use smaller batches and avoid plans that trade memory for speed.
    pub fn is_scarce(&self) -> bool {
        self.batch_rows() < BATCH_ROWS
    }

    /// The most spilled runs that a sort merges at once; 0 for as many as fit. Each takes more memory than DataFusion
    /// accounts for.
    pub fn merge_files(&self) -> usize {
        if self.is_scarce() { SCARCE_MERGE_FILES } else { 0 }
    }

    /// Bytes of a row group in an export, which is in memory until it is full.
    pub fn export_group_bytes(&self) -> usize {
        let bytes = (self.all_bytes / EXPORT_GROUP_SHARE).min(EXPORT_GROUP_BYTES_MAX);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// What a sort reserves for merging its spilled runs.
    pub fn sort_aside_bytes(&self) -> usize {
        usize::try_from((self.query_bytes / SORTS).min(SORT_ASIDE_BYTES_MAX)).unwrap_or(usize::MAX)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::of(MEMORY_BYTES, None)
    }
}

/// What the queries of a server share.
#[derive(Clone, Debug)]
pub struct Resources {
    /// How the memory is divided.
    pub memory: Memory,
    /// DataFusion's memory pool and temporary files.
    pub runtime: Arc<RuntimeEnv>,
    /// The states that statements clone, made by the first statement: to register some hundred functions takes longer
    /// than to plan a short query.
    pub(crate) states: Arc<OnceLock<QueryStates>>,
    /// A permit for each plan that a prepared statement may keep.
    pub(crate) plans: Arc<Semaphore>,
    /// Room for long messages of clients.
    pub(crate) messages: MessageRoom,
    /// Where what sessions keep is counted.
    pub(crate) sessions: Arc<dyn MemoryPool>,
    /// The temporary files of running queries.
    files: Arc<DiskManager>,
}

impl Resources {
    /// Temporary files go into `folder`, which is created if it does not exist; `None` for the system's. They take at
    /// most `temp_bytes` together, and are deleted with their query.
    ///
    /// # Errors
    /// The folder cannot be created or used.
    pub fn new(memory: Memory, folder: Option<PathBuf>, temp_bytes: u64) -> Result<Self> {
        let mode = match folder {
            Some(folder) => DiskManagerMode::Directories(vec![folder]),
            None => DiskManagerMode::OsTmpDirectory,
        };
        let disk = DiskManagerBuilder::default().with_mode(mode).with_max_temp_directory_size(temp_bytes);
        let files = Arc::new(disk.build()?);
        let parts = Arc::new(Parts::new(temp_bytes, Share::temporary_max));
        let factory = Arc::new(CountedFiles { files: Arc::clone(&files), parts });
        let disk = DiskManagerBuilder::default().with_temp_file_factory(factory);
        let disk = disk.with_max_spill_merge_fan_in(memory.merge_files());
        let pool = QueryPool::new(usize::try_from(memory.query_bytes).unwrap_or(usize::MAX), memory.sort_aside_bytes());
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool)).with_disk_manager_builder(disk);
        let plans = Arc::new(Semaphore::new(plans_max(memory.all_bytes)));
        let messages = MessageRoom::new(memory.message_bytes());
        let sessions = Arc::new(QueryPool::new(usize::try_from(memory.session_bytes()).unwrap_or(usize::MAX), 0));
        Ok(Self {
            memory,
            runtime: Arc::new(runtime.build()?),
            states: Arc::default(),
            plans,
            messages,
            sessions,
            files,
        })
    }

    /// Bytes that running queries have reserved.
    pub fn query_bytes(&self) -> u64 {
        self.runtime.memory_pool.reserved() as u64
    }

    /// Bytes of the temporary files of running queries, and their bound.
    pub fn temp_bytes(&self) -> (u64, u64) {
        let disk = &self.files;
        (disk.used_disk_space(), disk.max_temp_directory_size())
    }
}

impl Default for Resources {
    fn default() -> Self {
        Self::new(Memory::default(), None, TEMP_BYTES).expect("the system's temporary folder is made when it is needed")
    }
}

/// Creates the folder of temporary files, or empties it of what a killed server has left. The caller must have locked
/// the store that the folder belongs to.
///
/// # Errors
/// The folder cannot be emptied or created.
pub fn clear_folder(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    std::fs::create_dir_all(folder)
}

/// The most partitions of a query, unless its session says otherwise.
pub const STREAMS: usize = 2;
/// Rows of a full batch, unless memory is scarce.
pub const BATCH_ROWS: usize = 8192;

/// The DataFusion states that all statements of a server clone.
#[derive(Debug)]
pub(crate) struct QueryStates {
    /// For statements that are planned from their text.
    pub(crate) with_functions: SessionState,
    /// For plans that exist already: without functions by name, so that it is cheap to clone.
    pub(crate) without_functions: SessionState,
}

impl QueryStates {
    pub(crate) fn of(with_functions: SessionState) -> Self {
        let without_functions = SessionStateBuilder::new_from_existing(with_functions.clone())
            .with_scalar_functions(Vec::new())
            .with_higher_order_functions(Vec::new())
            .with_aggregate_functions(Vec::new())
            .with_window_functions(Vec::new())
            .with_table_functions(HashMap::new())
            .build();
        Self { with_functions, without_functions }
    }
}

/// How many plans of prepared statements a server with this memory keeps.
pub(crate) fn plans_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / BYTES_PER_PLAN).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

/// Server memory for each plan that may be kept. A plan takes some ten thousand bytes.
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
    fn temporary_files_of_a_killed_server_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let temp = folder.path().join("temp");
        clear_folder(&temp).unwrap();
        std::fs::create_dir(temp.join("datafusion-x")).unwrap();
        std::fs::write(temp.join("datafusion-x/rows"), "rows").unwrap();
        clear_folder(&temp).unwrap();
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    }
}
