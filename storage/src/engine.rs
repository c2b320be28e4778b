//! The embedded engine: a [`Store`] in one process, on a local disk, whose acknowledged commits survive a crash.
//!
//! ```text
//! LOCK                      locked by the process that has the store open
//! wal/<number>.log          commits since the last flush, in order
//! CURRENT, manifest/<n>     the segments, and up to which frame of the log they hold everything
//! dead/<segment>-<n>        the deletion vector of a segment: positions that no longer hold a row
//! seg/<segment>.parquet     rows; in an object store, if one is configured
//! load/<number>.run         sorted rows of a load in progress
//! ```
//!
//! A row has exactly one live location: a memtable, or a position of one segment (`state`).
//!
//! *Writing.* The caller reads the previous rows of a commit (`fetch`), and the commit goes through a bounded queue to
//! the log thread (`writer`). The log thread checks it, folds its rows into the active memtable (`apply`, `memtable`),
//! and adds it to the current group. It writes and syncs the group to the log (`log`, `frame`, `record`), and only then
//! publishes the changed tables and answers. The caller of a small commit that is the only one does the thread's work
//! itself, where syncs are short.
//!
//! *Reading* takes the published tables and no lock (`read`, `columnar`).
//!
//! *Segments.* Background threads write a full, frozen memtable to deltas, and compact tablets with many deltas to new
//! bases (`maintain`, `flush`, `compact`, `segment`, `tablet`, `deletion_vector`). A manifest names the result
//! (`manifest`), and the log thread installs it (`install`). Opening a store reads the manifest and replays the log
//! after it (`open`, `recover`).
//!
//! *Loads* of many new rows bypass the log and write segments directly (`load`).
//!
//! *History.* A table with history has a second table with the previous versions of its rows (`history`), which is
//! written the same way.
//!
//! Check-and-mutate and read-modify-write read, decide, and commit on the condition that the row has not changed
//! meanwhile. They first take one of [`ROW_LOCKS`] locks, so that they wait for each other instead of failing each
//! other.
//!
//! A commit is atomic by the checksum of its frame, and durable by the sync before the answer. A flush or a compaction
//! is atomic by the rename of `CURRENT`.
//!
//! The modules below are declared in groups, in the order in which a mutation meets them: commit, segments, background
//! work, reads, start-up, operators' tools.

// A commit, on the caller's side: rows that it changes are read, and single-row decisions are made.
mod decide;

mod fetch;

// A commit, by whoever has the log's writer: applied to the state's memtables, then written and synced as a frame.
mod writer;

mod apply;

mod descriptor;
mod memtable;
mod state;

mod cells;
mod codec;
mod frame;
mod log;
mod record;

// The history of tables that keep one.
mod history;

// Segments: their files, their format, and which of their rows are deleted.
pub(crate) mod blobs;

mod segment;

mod deletion_vector;

mod row_cache;

mod tablet;

mod manifest;

// What other threads make of memtables and segments, and how the log thread installs it.
mod coordination;
mod maintain;

mod flush;

mod compact;
mod garbage;
mod sections;

mod install;

mod load;
mod purge;

mod priority;

// Reads.
mod pins;

mod scan;

mod read;

mod columnar;

mod inline;

mod ranges;
mod samples;

// Start-up and its sizes.
mod budget;
mod granularity;
mod open;
mod recover;
mod work;

// Stores that are only read.
mod read_only;

// For operators and tests.
pub mod files;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod inspect;
#[cfg(test)]
mod tests;

pub use budget::{Budget, MEMORY_BYTES, MEMTABLE_BYTES_MAX, MEMTABLE_BYTES_MIN};
pub use granularity::Granularity;
pub use load::loads_max;
pub use manifest::FORMAT_VERSION;
pub use read_only::ReadOnlyStore;
pub use segment::{DICTIONARY_BYTES_MAX, PAGE_BYTES_TARGET, PAGE_ROWS_MAX};
pub use writer::{ALONE_SYNC_MAX, GROUP_BYTES_TARGET, GROUP_REQUESTS_MAX, REQUEST_BYTES_MAX};

use crate::{
    CheckAndMutate, Clock, ClockInfo, ColumnarScan, Commit, Error, FamilyChange, History, HistorySize, Inspection,
    KeyRange, Layouts, Load, LoadColumn, Mutation, Pin, PurgeReport, ReadModifyWrite, Result, Row, RowKey, RowMutation,
    RowSample, RowStream, Scan, SpanInfo, Store, SystemClock, TableName, TableSchema, Write,
    fs::{Fs, LocalFs},
    row,
    store::Promises,
};
use async_trait::async_trait;
use bytes::Bytes;
use decide::Decision;
use fetch::{Fetched, Lookups};
use maintain::{LayoutsOf, Maintenance};
use state::State;
use std::{
    any::Any,
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use url::Url;
use writer::{ALONE_BYTES_MAX, Queued, Reply, Request, Shared, SharedWriter};

/// Bytes of a log file, unless a single group needs more.
pub const LOG_FILE_BYTES: u64 = 64 << 20;
/// Approximate bytes of a base segment; a larger tablet is split in two.
pub const BASE_BYTES: u64 = 256 << 20;
/// Requests that wait for the log thread; further callers wait to enqueue.
pub const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Bytes of keys and mutations that wait for the log thread; a larger request waits until the queue is empty.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Locks that the rows of check-and-mutate and read-modify-write share by hash.
pub const ROW_LOCKS: usize = 256;
/// How often a check-and-mutate or read-modify-write retries because the row changed after it was read.
pub const ROW_ATTEMPTS_MAX: usize = 64;
/// Maximum number of keys that [`Store::sample_row_keys`] returns.
pub const ROW_SAMPLES_MAX: u64 = 100;

/// Maximum age of a pin, in microseconds: an hour.
pub const PIN_AGE_MAX_MICROS: i64 = 3_600_000_000;

/// Requests that have to come one by one, after others that came side by side, before their callers write themselves.
const ALONE_AFTER: u32 = 16;

/// The lock file of the store.
const LOCK: &str = "LOCK";
/// Bytes that one permit of the queue stands for.
const ROOM_BYTES: usize = 1 << 10;

/// Compression of base segments. Deltas are always LZ4, since they are read once more before they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Fast to read: the default.
    #[default]
    Lz4,
    /// Smaller by about a third, and two to three times slower to read.
    Zstd,
}

/// Location and settings of a store.
#[derive(Debug)]
pub struct EngineOptions {
    /// The store's folder; created if it is missing.
    pub path: PathBuf,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The wall clock.
    pub clock: Box<dyn Clock>,
    /// Location of segments: an object store (`s3://`, `gs://`, `az://`) or `file://`; `None` for the store's folder.
    pub segments: Option<Url>,
    /// Overrides the location of segments.
    #[cfg(test)]
    pub(crate) blobs: Option<Arc<dyn blobs::Blobs>>,
    /// Memory budget of the engine, in bytes; see [`Budget`].
    pub memory_bytes: u64,
    /// Bytes after which a memtable is flushed; `None` to derive it from the memory, see [`Budget`].
    pub memtable_bytes: Option<u64>,
    /// How base segments are compressed.
    pub base_codec: Codec,
    /// See [`PIN_AGE_MAX_MICROS`].
    pub pin_age_max_micros: i64,
    /// Bytes after which a base segment ends and another begins.
    pub base_bytes: u64,
    /// Whether tablets are compacted automatically.
    pub compacts: bool,
    /// Sizes of the pieces into which data is divided: for tests.
    pub granularity: Granularity,
    /// See [`LOG_FILE_BYTES`].
    pub log_file_bytes: u64,
    /// See [`QUEUE_REQUESTS_MAX`]; at least 1.
    pub queue_requests_max: usize,
    /// See [`QUEUE_BYTES_MAX`].
    pub queue_bytes_max: usize,
    /// See [`ALONE_SYNC_MAX`].
    pub alone_sync_max: Duration,
}

impl EngineOptions {
    /// A store on the machine's file system and clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            fs: Arc::new(LocalFs),
            clock: Box::new(SystemClock),
            segments: None,
            #[cfg(test)]
            blobs: None,
            memory_bytes: MEMORY_BYTES,
            memtable_bytes: None,
            base_codec: Codec::default(),
            pin_age_max_micros: PIN_AGE_MAX_MICROS,
            base_bytes: BASE_BYTES,
            compacts: true,
            granularity: Granularity::default(),
            log_file_bytes: LOG_FILE_BYTES,
            queue_requests_max: QUEUE_REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            alone_sync_max: ALONE_SYNC_MAX,
        }
    }
}

/// The embedded store.
pub struct Engine {
    path: PathBuf,
    shared: Arc<Shared>,
    maintenance: Arc<Maintenance>,
    /// Taken only when the engine is dropped.
    queue: Option<mpsc::Sender<Queued>>,
    /// For commits that their caller writes.
    writer: Arc<SharedWriter>,
    alone_sync_max: Duration,
    /// Requests that wait or are being served.
    under_way: AtomicUsize,
    /// Requests without another one beside them, after which callers write again.
    alone_after: AtomicU32,
    room: Arc<Semaphore>,
    room_permits: usize,
    /// [`fetch::ROWS_MAX`] permits.
    fetching: Arc<Semaphore>,
    /// A permit for each load that may run at the same time.
    loading: Arc<Semaphore>,
    row_locks: Vec<tokio::sync::Mutex<()>>,
    closed: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The store's lock, held as long as one of its threads runs.
    lock: Weak<Box<dyn Any + Send + Sync>>,
    sync_micros: Option<u64>,
    budget: Budget,
    memory_bytes: u64,
    pin_age_max_micros: i64,
    /// Whether segments are local, so that reading a few rows takes less time than handing it to another thread.
    is_local: bool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("path", &self.path)
            .field("stopped", &self.shared.stopped)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens a store, or creates one.
    ///
    /// # Errors
    /// [`Error::Locked`] if this or another process has it open; [`Error::Corrupt`] if the log is damaged, in which
    /// case nothing was changed; [`Error::Unsupported`] for a newer format; [`Error::Io`].
    pub async fn open(options: EngineOptions) -> Result<Arc<Self>> {
        let opened = tokio::task::spawn_blocking(move || open::open(options));
        opened.await.map_err(|error| Error::Unavailable(format!("opening it failed: {error}")))?
    }

    /// Duration of one sync of the log, measured at start-up, in microseconds: the minimum latency of a commit. `None`
    /// on a full disk, where it could not be measured.
    pub fn sync_micros(&self) -> Option<u64> {
        self.sync_micros
    }

    /// Bytes of keys and rows in memtables.
    pub fn memory_bytes(&self) -> u64 {
        let state = self.shared.published.load();
        state.active_bytes() + state.frozen_bytes()
    }

    /// Writes everything that was acknowledged before the call to segments.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no room for them, and errors of writing; nothing is lost then.
    pub async fn flush(&self) -> Result<()> {
        self.ask(0, Request::Flush).await
    }

    /// Flushes, and compacts every tablet of the table, or of all tables, that is more than one base.
    ///
    /// # Errors
    /// Errors of [`flush`](Self::flush) and of reading segments.
    pub async fn compact(&self, table: Option<&TableName>) -> Result<()> {
        self.flush().await?;
        let (maintenance, table) = (Arc::clone(&self.maintenance), table.cloned());
        self.run_low_priority(move || maintenance.compact_table(table.as_ref())).await
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("it was closed".into()));
        }
        Ok(())
    }

    /// Queues a request of about `bytes` bytes and waits for its answer.
    async fn ask<T>(&self, bytes: usize, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        self.check_open()?;
        self.shared.check_writing()?;
        if bytes > REQUEST_BYTES_MAX {
            return Err(Error::TooLarge { what: "a request", size: bytes, limit: REQUEST_BYTES_MAX });
        }
        self.send(bytes, request).await
    }

    /// Whether a request that begins has no other beside it, nor had the last ones: many clients at a time are served
    /// faster by the log thread, which makes groups of their commits while other threads go on.
    fn is_alone(&self, others: usize) -> bool {
        if others > 0 {
            self.alone_after.store(ALONE_AFTER, Ordering::Relaxed);
            return false;
        }
        let fewer = |left: u32| left.checked_sub(1);
        self.alone_after.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_err()
    }

    async fn send<T>(&self, bytes: usize, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let ended = || Error::Unavailable(self.shared.stopped.get().cloned().unwrap_or("its log thread ended".into()));
        let permits = (bytes / ROOM_BYTES + 1).min(self.room_permits);
        let permits = u32::try_from(permits).expect("a request is below REQUEST_BYTES_MAX");
        let others = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.under_way);
        // What reads an object store may not run on a thread of the runtime.
        let is_alone = self.is_alone(others) && self.is_local && bytes <= ALONE_BYTES_MAX;
        let room = self.room.clone().acquire_many_owned(permits).await.map_err(|_| ended())?;
        let (reply, answer) = oneshot::channel();
        let queued = Queued { request: request(reply), room: Some(room) };
        let queue = self.queue.as_ref().expect("it is taken by drop alone");
        let wake = || drop(queue.try_send(Queued { request: Request::Wake, room: None }));
        let queued =
            if is_alone { writer::write_alone(&self.writer, queued, self.alone_sync_max, wake) } else { Some(queued) };
        if let Some(queued) = queued {
            queue.send(queued).await.map_err(|_| ended())?;
        }
        answer.await.map_err(|_| ended())?
    }

    fn pin_now(&self) -> Pin {
        let state = self.shared.published.load_full();
        let now_micros = self.shared.clock.now();
        // A commit with an earlier stamp that is not in the state is in progress or has been published since.
        let is_under_way = self.shared.is_stamping.load(Ordering::SeqCst);
        let unsettled = is_under_way || !Arc::ptr_eq(&state, &self.shared.published.load());
        let commit_micros = state.stamp;
        Pin { commit_micros, now_micros, state: self.shared.pins.hold(state, now_micros, unsettled) }
    }

    /// The pin, held for good.
    fn lasting(&self, pin: &Pin) -> Result<Pin> {
        let held = apply::pinned_state(pin)?;
        let lasting = self.shared.pins.hold_for_good(held.state()?, pin.now_micros, held.is_unsettled());
        Ok(Pin { state: lasting, ..pin.clone() })
    }

    /// Looks up rows in segments; on this thread if there is nothing to read, or little of local files.
    async fn fetch(&self, state: &Arc<State>, wanted: Lookups) -> Result<Fetched> {
        if wanted.is_empty() {
            return Ok(Fetched::none(state));
        }
        let rows = wanted.share();
        let share = Arc::clone(&self.fetching).acquire_many_owned(rows).await;
        let share = share.expect("nobody closes it");
        if self.is_local && rows <= inline::FETCHED_ROWS_MAX {
            return Ok(wanted.fetch(state, &self.shared.rows)?.with_share(share));
        }
        let (state, shared) = (Arc::clone(state), Arc::clone(&self.shared));
        let fetched = blocking(move || wanted.fetch(&state, &shared.rows)).await?;
        Ok(fetched.with_share(share))
    }

    /// Runs long work that may change the manifest on its own low-priority thread. The store stays locked until it
    /// ends.
    async fn run_low_priority<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let lock = self.lock.upgrade().ok_or_else(|| Error::Unavailable("it was closed".into()))?;
        let (done, ended) = oneshot::channel();
        let work = move || {
            priority::give_way();
            // The work is done even if the caller stopped waiting.
            let _ = done.send(work());
            drop(lock);
        };
        let started = std::thread::Builder::new().name("keyspan-asked".into()).spawn(work);
        let started = started.map_err(|error| Error::Unavailable(format!("no thread can be started: {error}")))?;
        {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            threads.retain(|thread| !thread.is_finished());
            threads.push(started);
        }
        ended.await.map_err(|_| Error::Unavailable("what was under way ended early".into()))?
    }

    /// The rest of a shutdown, after the log thread was asked to end: waits for the threads, ends loads, and releases
    /// the store.
    fn shutdown(&self) -> impl FnOnce() + Send + 'static {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        let (lock, maintenance) = (self.lock.upgrade(), Arc::clone(&self.maintenance));
        move || {
            threads.into_iter().for_each(|thread| drop(thread.join()));
            maintenance.loads.end_all();
            drop(lock);
        }
    }
}

/// A request that is counted until it is answered, or its caller no longer waits.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs blocking work on one of tokio's blocking threads.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| Error::Unavailable(format!("what was under way ended early: {error}")))?
}

/// Bytes that a row adds to a request.
fn request_bytes(row: &RowMutation) -> usize {
    row.key.len() + row.mutations.iter().map(Mutation::size).sum::<usize>()
}

#[async_trait]
impl Store for Engine {
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        self.ask(0, |reply| Request::CreateTable(table.clone(), schema, reply)).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.ask(0, |reply| Request::DropTable(table.clone(), reply)).await
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        self.check_open()?;
        let state = self.shared.published.load_full();
        let tables = state.public_tables().map(|(name, table)| (name.clone(), table.descriptor.schema.clone()));
        Ok(tables.collect())
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        self.ask(0, |reply| Request::ModifyFamilies(table.clone(), changes, reply)).await
    }

    async fn pin(&self) -> Result<Pin> {
        self.check_open()?;
        Ok(self.pin_now())
    }

    async fn lasting_pin(&self) -> Result<Pin> {
        self.check_open()?;
        self.lasting(&self.pin_now())
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        self.scan_stream(table, scan)
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.check_open()?;
        let state = self.shared.published.load_full();
        let weights = state.table(table)?.clone();
        let cuts = blocking(move || samples::cuts(&weights, ROW_SAMPLES_MAX)).await?;
        samples::at_live_rows(self, table, cuts).await
    }

    async fn commit(&self, commit: Commit) -> Result<i64> {
        let bytes = commit.writes.iter().map(|write| match write {
            Write::Row { row, .. } => request_bytes(row),
            Write::DeleteRange { range, .. } => range.start.len() + range.end.as_ref().map_or(0, Bytes::len),
        });
        let bytes: usize = bytes.sum();
        let state = self.shared.published.load_full();
        let fetched = self.fetch(&state, Lookups::of_commit(&state, &commit)).await?;
        drop(state);
        self.ask(bytes + fetched.bytes(), |reply| Request::Commit(commit, fetched, reply)).await
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        row::check_count(rows.iter().map(|row| row.mutations.len()).sum())?;
        let bytes: usize = rows.iter().map(request_bytes).sum();
        let state = self.shared.published.load_full();
        let wanted = Lookups::of_rows(&state, rows.iter().map(|row| (table, row)));
        let fetched = self.fetch(&state, wanted).await?;
        drop(state);
        self.ask(bytes + fetched.bytes(), |reply| Request::Rows(table.clone(), rows, fetched, reply)).await
    }

    async fn load(&self, table: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        self.begin_load(table, columns)
    }

    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        let decided = self.decide(table, &request.key, |found, cells, now_micros| {
            row::check_decision(table, &found.descriptor.schema, &request, now_micros)?;
            let held = row::holds(request.predicate.as_ref(), &request.key, cells)?;
            Ok((held, if held { &request.then } else { &request.otherwise }.clone()))
        });
        Ok(decided.await?.decision)
    }

    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        let decided = self.decide(table, &key, |found, cells, _| {
            Ok(((), row::modify(table, &found.descriptor.schema, &cells, &rules)?))
        });
        let Decision { mut mutations, stamp, .. } = decided.await?;
        row::resolve(&mut mutations, stamp);
        Ok(Row { key, cells: row::written(mutations) })
    }

    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        if prefix.is_empty() {
            return Err(Error::Invalid("the prefix of the rows to drop is empty".into()));
        }
        let range = KeyRange::prefix(prefix);
        self.commit(Commit { writes: vec![Write::DeleteRange { table: table.clone(), range }], validation: None })
            .await
            .map(drop)
    }

    async fn purge(&self, ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        self.check_open()?;
        self.purge_ranges(ranges).await
    }

    async fn purge_cells(&self, tables: &[TableName]) -> Result<PurgeReport> {
        self.check_open()?;
        self.purge_cells_of(tables).await
    }

    async fn history_size(&self, table: &TableName, rows: &KeyRange, pin: Option<Pin>) -> Result<HistorySize> {
        self.check_open()?;
        self.size_of_history(table, rows, pin).await
    }

    fn clock(&self) -> Option<ClockInfo> {
        Some(self.shared.clock.info())
    }

    fn confirm_clock(&self) -> Option<ClockInfo> {
        Some(self.shared.clock.confirm())
    }

    fn span(&self, table: &TableName, rows: &KeyRange) -> Result<Option<SpanInfo>> {
        self.check_open()?;
        self.span_info(table, rows).map(Some)
    }

    fn inspect(&self) -> Option<Inspection> {
        Some(self.inspection())
    }

    fn history(&self, table: &TableName) -> Option<History> {
        self.shared.published.load().tables.get(table)?.descriptor.schema.history
    }

    fn set_layouts(&self, layouts: Arc<dyn Layouts>) {
        self.maintenance.layouts.store(Some(Arc::new(LayoutsOf(layouts))));
    }

    fn columnar(&self) -> Option<&dyn ColumnarScan> {
        Some(self)
    }

    fn promises(&self) -> Promises {
        Promises::local()
    }

    /// Writes what is queued, stops the log thread and releases the store.
    async fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let closed = self.send(0, Request::Close).await;
        // The log thread has answered; the others stop at the next row group. A panic of one was already logged.
        let _ = tokio::task::spawn_blocking(self.shutdown()).await;
        closed
    }
}

impl Drop for Engine {
    /// Writes what is queued and waits for it, so that the store is free afterwards. Call [`close`](Store::close) to
    /// wait without blocking, and to learn of errors.
    fn drop(&mut self) {
        self.queue = None;
        self.shutdown()();
    }
}
