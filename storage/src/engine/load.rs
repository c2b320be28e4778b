//! Loads: many new rows that bypass the log, go straight into segments, and become visible with one manifest.
//!
//! ```text
//! batches ─► buffer ─► sorted ─┬─ while keys ascend ────────► segments ─► manifest
//!                              └─ else ─► runs ─► merge ─┘
//! ```
//!
//! *The work* (`loader`, `buffer`, `runs`, `merge`, `output`) runs on a blocking thread, a batch at a time, while the
//! client prepares the next one. It holds two buffers of rows, a row group, and a block of each run, whatever the size
//! of the load. Two threads merge many rows, each one half of the keys; then there are two row groups and two blocks of
//! each run.
//!
//! *New rows* (`probe`): a key that occurs twice, or is in the table, ends the load with [`Error::RowExists`]. So a
//! load makes no position dead, and folds nothing.
//!
//! *The end* (`finish`): under the manifest's lock, so that no flush and no compaction is installed, the log thread is
//! [paused](super::maintain::StandstillGuard). Then the rows that the load relied on are validated for the last time,
//! the manifest that names the segments is put in force, and the log thread installs them in the state. Frames of the
//! log before that are replayed on top of the new manifest, as if they were later than the load: so no memtable may
//! have a row of the load. If one has, because the row was deleted, it is flushed first.
//!
//! *Bases.* A segment that qualifies as a base becomes the base of its tablet, or splits the tablet. A compaction of
//! that tablet that is in progress is discarded, and begins anew: a tablet with two bases would be split at their first
//! keys, between rows of both.
//!
//! A crash before the manifest is in force leaves runs, and segments that no manifest names; the next start removes
//! both.
//!
//! *A purge* ends loads with rows in its ranges: their files hold rows that nobody will see. *Closing the store* ends
//! all of them before its lock is released: a load that is dropped later has no files left that could belong to the
//! next start.

mod buffer;
mod finish;
mod loader;
mod merge;
mod output;
mod probe;
mod runs;

pub(crate) use runs::{BLOCK_BYTES, Scratch};

use self::{finish::Step, loader::Loader};
use super::{
    Engine,
    descriptor::Descriptor,
    maintain::Maintenance,
    state::State,
    writer::{Queued, Request},
};
use crate::{Error, KeyRange, Load, LoadColumn, NewRows, Result, TableName, Validation, row};
use async_trait::async_trait;
use bytes::Bytes;
use std::{
    any::Any,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    task::JoinHandle,
};

/// Maximum number of concurrent loads.
const LOADS_MAX: usize = 4;
/// Bytes of the store's memory for each load after the first.
const LOAD_MEMORY_BYTES: u64 = 256 << 20;
/// A load's buffer takes this part of a memtable's bytes.
const MEMTABLE_PARTS: u64 = 4;
/// Maximum bytes of rows that a load buffers before it sorts them.
const BUFFER_BYTES_MAX: u64 = 32 << 20;
/// Attempts to finish while others write to the table.
const FINISH_ATTEMPTS_MAX: usize = 64;

/// Maximum number of concurrent loads with this memory budget.
pub fn loads_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / LOAD_MEMORY_BYTES).unwrap_or(usize::MAX).clamp(1, LOADS_MAX)
}

/// The loads in progress, for purges.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<Vec<Weak<Shared>>>);

/// The part of a load that is shared with those who may end it.
struct Shared {
    name: TableName,
    /// The table's at the beginning of the load.
    descriptor: Arc<Descriptor>,
    maintenance: Arc<Maintenance>,
    /// The store's lock. It is only upgraded under the loader's lock, and released first: a caller that ends the load
    /// has waited for both.
    store: Weak<Box<dyn Any + Send + Sync>>,
    cancelled: Arc<AtomicBool>,
    /// The least and the greatest key so far.
    hull: Mutex<Option<(Bytes, Bytes)>>,
    /// `None` once the load is over.
    loader: Mutex<Option<Loader>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

impl Shared {
    fn loader(&self) -> MutexGuard<'_, Option<Loader>> {
        self.loader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues the work. After an error, and once its rows are visible, the load is over. After an error it leaves
    /// nothing.
    fn work<T>(&self, work: impl FnOnce(&mut Loader) -> Result<T>) -> Result<T> {
        let mut loader = self.loader();
        let closed = || Error::Unavailable("it was closed".into());
        let store = self.store.upgrade().ok_or_else(closed)?;
        let Some(at_work) = loader.as_mut() else {
            // The load was ended by a purge or by the end of the store.
            return Err(if self.maintenance.shared.coordination.is_closed() { closed() } else { Error::Conflict });
        };
        let worked = work(at_work);
        if worked.is_err() || at_work.done {
            *loader = None;
        }
        drop(store);
        worked
    }

    /// Ends the load, if it is not over, after waiting for work in progress. Its files are removed.
    fn end(&self) {
        let mut loader = self.loader();
        let store = self.store.upgrade();
        *loader = None;
        drop(store);
    }

    fn hull(&self) -> MutexGuard<'_, Option<(Bytes, Bytes)>> {
        self.hull.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn widen(&self, rows: &NewRows) {
        let mut hull = self.hull();
        for row in rows.iter() {
            match &mut *hull {
                Some((first, _)) if *row.key() < first[..] => *first = Bytes::copy_from_slice(row.key()),
                Some((_, last)) if *row.key() > last[..] => *last = Bytes::copy_from_slice(row.key()),
                Some(_) => {}
                none => *none = Some((Bytes::copy_from_slice(row.key()), Bytes::copy_from_slice(row.key()))),
            }
        }
    }

    fn reaches_into(&self, range: &KeyRange) -> bool {
        let hull = self.hull();
        let hull = hull.as_ref().map(|(first, last)| KeyRange::new(first.clone(), KeyRange::point(last).end));
        hull.is_some_and(|hull| !hull.intersect(range).is_empty())
    }
}

impl Loads {
    fn loads(&self) -> MutexGuard<'_, Vec<Weak<Shared>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, load: &Arc<Shared>) {
        let mut loads = self.loads();
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Arc::downgrade(load));
    }

    /// Ends the loads that have rows in these ranges; their files are removed.
    pub(crate) fn end(&self, ranges: &[(TableName, KeyRange)]) {
        let loads: Vec<Arc<Shared>> = self.loads().iter().filter_map(Weak::upgrade).collect();
        for load in loads {
            if ranges.iter().any(|(name, range)| *name == load.name && load.reaches_into(range)) {
                // Work in progress checks this soon.
                load.cancelled.store(true, Ordering::SeqCst);
                load.end();
            }
        }
    }

    /// Ends the loads into a table that began before its families changed: they cannot be committed any more, and their
    /// files may have cells that are gone.
    pub(crate) fn end_outdated(&self, state: &State) {
        let loads: Vec<Arc<Shared>> = self.loads().iter().filter_map(Weak::upgrade).collect();
        for load in loads {
            let now = state.tables.get(&load.name).map(|table| &table.descriptor);
            if now.is_none_or(|now| !Arc::ptr_eq(now, &load.descriptor)) {
                load.cancelled.store(true, Ordering::SeqCst);
                load.end();
            }
        }
    }

    /// Ends all loads of a store that is closed; their files are removed.
    pub(crate) fn end_all(&self) {
        let loads: Vec<Arc<Shared>> = self.loads().iter().filter_map(Weak::upgrade).collect();
        loads.iter().for_each(|load| load.end());
    }
}

/// A load of the engine.
struct EngineLoad {
    shared: Arc<Shared>,
    /// The batch in progress.
    at_work: Option<JoinHandle<Result<()>>>,
    sealed: bool,
    /// Held until the load is over.
    slot: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for EngineLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineLoad").field("table", &self.shared.name).finish_non_exhaustive()
    }
}

impl Engine {
    /// See [`Store::load`](crate::Store::load).
    pub(super) fn begin_load(&self, name: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        self.check_open()?;
        self.shared.check_writing()?;
        let state = self.shared.published.load_full();
        let descriptor = Arc::clone(&state.table(name)?.descriptor);
        row::check_load(name, &descriptor.schema, columns)?;
        if descriptor.schema.history.is_some() {
            return Ok(None);
        }
        let Ok(slot) = Arc::clone(&self.loading).try_acquire_owned() else { return Ok(None) };
        let cancelled = Arc::new(AtomicBool::new(false));
        let buffer_bytes = (self.budget.memtable_bytes / MEMTABLE_PARTS).min(BUFFER_BYTES_MAX);
        let buffer_bytes = usize::try_from(buffer_bytes).unwrap_or_default();
        let maintenance = Arc::clone(&self.maintenance);
        let how = (buffer_bytes.max(1), Arc::clone(&cancelled));
        let loader = Loader::new(Arc::clone(&maintenance), name.clone(), Arc::clone(&descriptor), columns, how);
        let shared = Arc::new(Shared {
            name: name.clone(),
            descriptor,
            maintenance,
            store: self.lock.clone(),
            cancelled,
            hull: Mutex::default(),
            loader: Mutex::new(Some(loader)),
        });
        self.maintenance.loads.add(&shared);
        Ok(Some(Box::new(EngineLoad { shared, at_work: None, sealed: false, slot: Some(slot) })))
    }
}

impl EngineLoad {
    /// Continues the work on a blocking thread.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Loader) -> Result<T> + Send + 'static,
    ) -> JoinHandle<Result<T>> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.work(work))
    }

    /// Waits for the batch in progress.
    async fn settled(&mut self) -> Result<()> {
        match self.at_work.take() {
            Some(at_work) => ended(at_work).await,
            None => Ok(()),
        }
    }

    /// Flushes memtables to segments.
    async fn flush(&self) -> Result<()> {
        let closed = || Error::Unavailable("it was closed".into());
        let (reply, answer) = oneshot::channel();
        let queue = self.shared.maintenance.queue().ok_or_else(closed)?;
        queue.send(Queued { request: Request::Flush(reply), room: None }).await.map_err(|_| closed())?;
        drop(queue);
        answer.await.map_err(|_| closed())?
    }
}

async fn ended<T>(at_work: JoinHandle<Result<T>>) -> Result<T> {
    at_work.await.map_err(|error| Error::Unavailable(format!("a load ended early: {error}")))?
}

#[async_trait]
impl Load for EngineLoad {
    async fn add(&mut self, rows: NewRows) -> Result<()> {
        self.settled().await?;
        self.shared.widen(&rows);
        self.at_work = Some(self.work(move |loader| loader.add(&rows)));
        Ok(())
    }

    async fn seal(&mut self) -> Result<()> {
        self.settled().await?;
        if !self.sealed {
            ended(self.work(Loader::seal)).await?;
            self.sealed = true;
        }
        Ok(())
    }

    async fn finish(&mut self, validation: Option<Validation>) -> Result<i64> {
        self.seal().await?;
        for _ in 0..FINISH_ATTEMPTS_MAX {
            let validation = validation.clone();
            match ended(self.work(move |loader| loader.finish(validation.as_ref()))).await? {
                Step::Done(stamp) => {
                    self.slot = None;
                    return Ok(stamp);
                }
                Step::Flush => self.flush().await?,
                Step::Again => {}
                Step::Refused => return Err(Error::Conflict),
            }
        }
        Err(Error::Conflict)
    }
}

impl Drop for EngineLoad {
    /// Removes what was written, on another thread: the dropping thread may not be allowed to block.
    fn drop(&mut self) {
        self.shared.cancelled.store(true, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        let is_over = shared.loader.try_lock().is_ok_and(|loader| loader.is_none());
        if is_over {
            return;
        }
        if let Err(error) = std::thread::Builder::new().name("keyspan-load".into()).spawn(move || shared.end()) {
            tracing::warn!(%error, "no thread can be started to remove what a load has written");
        }
    }
}
