//! The embedded engine: a [`Store`] in one process, on a local disk, whose acknowledged commits survive a crash.
//!
//! ```text
//! LOCK              held by the process that has the store open
//! wal/<number>.log  what was committed, in order
//! ```
//!
//! A commit goes through a bounded queue to the log thread (module `writer`), which checks it, adds it to the group of its
//! moment, writes and syncs the group to the log (`log`, `frame`, `record`), and only then publishes the changed tables
//! (`memtable`, `apply`) and answers. Reads (`read`) take the published tables and no lock. Opening a store replays its log (`recover`).
//!
//! Check-and-mutate and read-modify-write read, decide, and commit on the condition that the row did not change meanwhile; they take
//! one of [`ROW_LOCKS`] locks first, so that they wait for each other rather than fail each other.
//!
//! What makes a commit atomic is the checksum of its frame; what makes it last is the sync before the answer.

mod apply;
mod cells;
mod codec;
mod decide;
mod frame;
mod log;
mod memtable;
mod read;
mod record;
mod recover;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{GROUP_BYTES_TARGET, GROUP_REQUESTS_MAX, REQUEST_BYTES_MAX};

use crate::{
    CheckAndMutate, Clock, Commit, Error, FamilyChange, KeyRange, Mutation, Pin, ReadModifyWrite, Result, Row, RowKey,
    RowMutation, RowSample, RowStream, Scan, Store, SystemClock, TableName, TableSchema, Write,
    clock::HybridClock,
    fs::{Fs, LocalFs},
    row,
    store::{Atomicity, failed},
};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use decide::Decided;
use memtable::State;
use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::{Semaphore, mpsc, oneshot};
use writer::{Queued, Reply, Request, Shared, Writer};

/// Bytes of a log file, unless a single group needs more.
pub const LOG_FILE_BYTES: u64 = 64 << 20;
/// Requests that wait for the log thread; further ones wait to be queued.
pub const QUEUE_REQUESTS_MAX: usize = 4_096;
/// Bytes of keys and mutations that wait for the log thread; a larger request waits until it is alone.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Locks among which the rows of check-and-mutate and read-modify-write are divided.
pub const ROW_LOCKS: usize = 256;
/// How often a check-and-mutate or read-modify-write reads again because others changed the row in between.
pub const ROW_ATTEMPTS_MAX: usize = 64;
/// Keys that [`Store::sample_row_keys`] gives, at most.
pub const ROW_SAMPLES_MAX: u64 = 100;

/// The file whose lock stands for the store.
const LOCK: &str = "LOCK";
/// Bytes that one permit of the queue stands for.
const ROOM_BYTES: usize = 1 << 10;

/// Where a store is, and what it works with.
#[derive(Debug)]
pub struct EngineOptions {
    /// The store's folder; made if it is not there.
    pub path: PathBuf,
    /// The file system.
    pub fs: Arc<dyn Fs>,
    /// The wall clock.
    pub clock: Box<dyn Clock>,
    /// See [`LOG_FILE_BYTES`].
    pub log_file_bytes: u64,
    /// See [`QUEUE_REQUESTS_MAX`]; at least 1.
    pub queue_requests_max: usize,
    /// See [`QUEUE_BYTES_MAX`].
    pub queue_bytes_max: usize,
}

impl EngineOptions {
    /// A store on the machine's file system and clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            fs: Arc::new(LocalFs),
            clock: Box::new(SystemClock),
            log_file_bytes: LOG_FILE_BYTES,
            queue_requests_max: QUEUE_REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
        }
    }
}

/// The embedded store.
pub struct Engine {
    path: PathBuf,
    shared: Arc<Shared>,
    /// Taken when the engine is dropped, and at no other time.
    queue: Option<mpsc::Sender<Queued>>,
    room: Arc<Semaphore>,
    room_permits: usize,
    row_locks: Vec<tokio::sync::Mutex<()>>,
    closed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    sync_micros: Option<u64>,
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
    /// Opens a store, or makes one.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process, or this one, has it open; [`Error::Corrupt`] when the log is damaged: nothing was
    /// changed then; [`Error::Unsupported`] for a newer format; [`Error::Io`].
    pub async fn open(options: EngineOptions) -> Result<Arc<Self>> {
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(options));
        opened.await.map_err(|error| Error::Unavailable(format!("opening it failed: {error}")))?
    }

    fn open_blocking(options: EngineOptions) -> Result<Arc<Self>> {
        let EngineOptions { path, fs, clock, log_file_bytes, queue_requests_max, queue_bytes_max } = options;
        let wal = path.join(log::FOLDER);
        fs.create_folder(&path).map_err(|source| log::failed("create", &path, source))?;
        let lock = fs.lock(&path.join(LOCK)).map_err(|source| log::failed("lock", &path.join(LOCK), source))?;
        let lock = lock.ok_or_else(|| Error::Locked { path: path.clone() })?;
        fs.create_folder(&wal).map_err(|source| log::failed("create", &wal, source))?;
        let recovered = recover::recover(fs.as_ref(), &wal, State::default(), 0)?;
        let sync_micros = log::measure_sync(fs.as_ref(), &wal)?;
        let clock = HybridClock::new(clock, recovered.state.stamp);
        let mut log = log::Log::new(fs, wal, log_file_bytes, recovered.current, recovered.sequence);
        log.prepare(clock.now())?;

        let shared =
            Arc::new(Shared { published: ArcSwap::from_pointee(recovered.state), clock, stopped: OnceLock::new() });
        let (queue, requests) = mpsc::channel(queue_requests_max.max(1));
        let writer = Writer::new(shared.clone(), log, requests, lock);
        let thread = std::thread::Builder::new().name("keyspan-log".into()).spawn(move || writer.run());
        let thread = thread.map_err(|source| log::failed("start the log thread of", &path, source))?;
        let room_permits = (queue_bytes_max / ROOM_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Ok(Arc::new(Self {
            path,
            shared,
            queue: Some(queue),
            room: Arc::new(Semaphore::new(room_permits)),
            room_permits,
            row_locks: (0..ROW_LOCKS).map(|_| tokio::sync::Mutex::default()).collect(),
            closed: AtomicBool::new(false),
            thread: Mutex::new(Some(thread)),
            sync_micros,
        }))
    }

    /// What one sync of the log took at start-up, in microseconds: the least that a commit takes. `None` on a full disk, where it
    /// could not be measured.
    pub fn sync_micros(&self) -> Option<u64> {
        self.sync_micros
    }

    /// Bytes of keys and rows in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.shared.published.load().tables.values().map(|table| table.bytes).sum()
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

    async fn send<T>(&self, bytes: usize, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let ended = || Error::Unavailable(self.shared.stopped.get().cloned().unwrap_or("its log thread ended".into()));
        let permits = (bytes / ROOM_BYTES + 1).min(self.room_permits);
        let permits = u32::try_from(permits).expect("a request is below REQUEST_BYTES_MAX");
        let room = self.room.clone().acquire_many_owned(permits).await.map_err(|_| ended())?;
        let (reply, answer) = oneshot::channel();
        let queued = Queued { request: request(reply), room };
        let queue = self.queue.as_ref().expect("it is taken by drop alone");
        queue.send(queued).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    fn pin_now(&self) -> Pin {
        let state = self.shared.published.load_full();
        Pin { commit_micros: state.stamp, now_micros: self.shared.clock.now(), state }
    }

    fn reading(&self, table: &TableName, scan: Scan) -> Result<read::Reading> {
        scan.check()?;
        self.check_open()?;
        let pin = scan.pin.clone().unwrap_or_else(|| self.pin_now());
        let table = apply::pinned(&pin)?.table(table)?.clone();
        read::Reading::new(table, scan, pin.now_micros)
    }

    fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
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
        let tables = state.tables.iter().map(|(name, table)| (name.clone(), table.descriptor.schema.clone()));
        Ok(tables.collect())
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        self.ask(0, |reply| Request::ModifyFamilies(table.clone(), changes, reply)).await
    }

    async fn pin(&self) -> Result<Pin> {
        self.check_open()?;
        Ok(self.pin_now())
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        self.reading(table, scan).map_or_else(failed, read::Reading::stream)
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.check_open()?;
        let state = self.shared.published.load_full();
        Ok(state.table(table)?.samples(ROW_SAMPLES_MAX, self.shared.clock.now()))
    }

    async fn commit(&self, commit: Commit) -> Result<i64> {
        let bytes = commit.writes.iter().map(|write| match write {
            Write::Row { row, .. } => request_bytes(row),
            Write::DeleteRange { range, .. } => range.start.len() + range.end.as_ref().map_or(0, Bytes::len),
        });
        self.ask(bytes.sum(), |reply| Request::Commit(commit, reply)).await
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        row::check_count(rows.iter().map(|row| row.mutations.len()).sum())?;
        let bytes = rows.iter().map(request_bytes).sum();
        self.ask(bytes, |reply| Request::Rows(table.clone(), rows, reply)).await
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
        let Decided { mut mutations, stamp, .. } = decided.await?;
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

    fn atomicity(&self) -> Atomicity {
        Atomicity::Commit
    }

    /// Writes what is queued, stops the log thread and gives the store free for others.
    async fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let closed = self.send(0, Request::Close).await;
        if let Some(thread) = self.take_thread() {
            // The thread has answered and only has its files to close; should it have panicked, it said so.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        closed
    }
}

impl Drop for Engine {
    /// Writes what is queued and waits for it: whoever opens the store next finds it free. Call
    /// [`close`](Store::close) to wait without blocking, and to learn of errors.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.take_thread() {
            let _ = thread.join();
        }
    }
}
