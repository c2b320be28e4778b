//! Loads: many new rows that go past the log, straight into segments, and become visible with one manifest.
//!
//! ```text
//! batches ─► buffer ─► sorted ─┬─ as long as keys ascend ─────────────► segments ─► one manifest
//!                              └─ else ─► runs (load/*.run) ─► merge ─┘
//! ```
//!
//! *The work* (`loader`, `buffer`, `runs`, `merge`, `output`) is done on a blocking thread, a batch at a time, while whoever loads makes the next
//! one. It holds two buffers of rows, a row group, and a block of each run, whatever is loaded. The merge of many rows is done on two threads, each of
//! which has one half of the keys, and then there are two row groups and two blocks of each run.
//!
//! *New rows* (`probe`): a key that is there twice, or in the table, ends the load with [`Error::RowExists`]. So no position dies by a load, and
//! nothing is folded.
//!
//! *The end* (`finish`): with the manifest's lock, so that no flush and no compaction is installed, the log thread is made to [stand
//! still](super::maintain::StandstillGuard). Then what the load relied on is looked at for the last time, the manifest that names the segments is put in force,
//! and the log thread puts them into the state. What the log holds before is replayed on top of that manifest, and would
//! be taken for later than the load: so no memtable may know a row of it. If one does, of rows that are gone, it becomes segments first.
//!
//! *Bases.* A segment that can be a base gives its tablet one, or divides it. A compaction of that tablet that is under way was in vain then, and is
//! begun anew: a tablet with two bases would be divided by their first keys, between rows of both.
//!
//! A crash before the manifest is in force leaves segments that no manifest names and runs, which the next start removes.
//!
//! *A purge* ends loads whose rows reach into its ranges: their files hold rows that nobody will see. *The end of the store* ends all of them, before
//! its lock is free: a load that is dropped later has no files any more that it could take from those of the next start.

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
    maintain::Maintenance,
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

/// Loads at a time, at most.
const LOADS_MAX: usize = 4;
/// Bytes of the store's memory for each load after the first.
const LOAD_MEMORY_BYTES: u64 = 256 << 20;
/// The part of a memtable's bytes that a buffer of a load has.
const MEMTABLE_PARTS: u64 = 4;
/// Bytes of rows that a load gathers before it sorts them, at most.
const BUFFER_BYTES_MAX: u64 = 32 << 20;
/// How often the end is tried while others write to the table.
const FINISH_ATTEMPTS_MAX: usize = 64;

/// How many loads there may be at a time in a store of so much memory.
pub(super) fn loads_max(memory_bytes: u64) -> usize {
    usize::try_from(memory_bytes / LOAD_MEMORY_BYTES).unwrap_or(usize::MAX).clamp(1, LOADS_MAX)
}

/// The loads that are under way, for purges.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<Vec<Weak<Shared>>>);

/// What a load shares with those who may end it.
struct Shared {
    name: TableName,
    maintenance: Arc<Maintenance>,
    /// The lock that stands for the store. Whoever takes it has the loader's lock, and gives the store's back first: so whoever ends the
    /// load has waited for both.
    store: Weak<Box<dyn Any + Send + Sync>>,
    cancelled: Arc<AtomicBool>,
    /// The least and the greatest key so far.
    hull: Mutex<Option<(Bytes, Bytes)>>,
    /// `None` once it is over.
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

    /// Goes on with the work. After an error the load is over, and has left nothing; it is over, too, when its rows are visible.
    fn work<T>(&self, work: impl FnOnce(&mut Loader) -> Result<T>) -> Result<T> {
        let mut loader = self.loader();
        let closed = || Error::Unavailable("it was closed".into());
        let store = self.store.upgrade().ok_or_else(closed)?;
        let Some(at_work) = loader.as_mut() else {
            // Whoever ended it has said why.
            return Err(if self.maintenance.shared.coordination.is_closed() { closed() } else { Error::Conflict });
        };
        let worked = work(at_work);
        if worked.is_err() || at_work.done {
            *loader = None;
        }
        drop(store);
        worked
    }

    /// Ends it, if it is not over; waits for what is at work. Its files are gone afterwards.
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

    /// Ends the loads that have rows in these ranges; their files are gone afterwards.
    pub(crate) fn end(&self, ranges: &[(TableName, KeyRange)]) {
        let loads: Vec<Arc<Shared>> = self.loads().iter().filter_map(Weak::upgrade).collect();
        for load in loads {
            if ranges.iter().any(|(name, range)| *name == load.name && load.reaches_into(range)) {
                // What is at work sees it soon.
                load.cancelled.store(true, Ordering::SeqCst);
                load.end();
            }
        }
    }

    /// Ends all loads of a store that is closed; their files are gone afterwards.
    pub(crate) fn end_all(&self) {
        let loads: Vec<Arc<Shared>> = self.loads().iter().filter_map(Weak::upgrade).collect();
        loads.iter().for_each(|load| load.end());
    }
}

/// A load of the engine.
struct EngineLoad {
    shared: Arc<Shared>,
    /// The batch that is being worked on.
    at_work: Option<JoinHandle<Result<()>>>,
    sealed: bool,
    /// Until it is over.
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
        let loader = Loader::new(Arc::clone(&maintenance), name.clone(), descriptor, columns, how);
        let shared = Arc::new(Shared {
            name: name.clone(),
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
    /// Has a blocking thread go on with the work.
    fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Loader) -> Result<T> + Send + 'static,
    ) -> JoinHandle<Result<T>> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.work(work))
    }

    /// Waits for the batch that is being worked on.
    async fn settled(&mut self) -> Result<()> {
        match self.at_work.take() {
            Some(at_work) => ended(at_work).await,
            None => Ok(()),
        }
    }

    /// Has memtables become segments.
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
    /// Removes what was written, on a thread for it: whoever drops it may not be one that blocks.
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
