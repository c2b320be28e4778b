//! What the log thread, the flush thread and the compaction thread tell each other: one lock, one condition.
//!
//! ```text
//! log thread ── frozen memtables ──► flush thread ───────┐
//!      ▲                                                 ▼
//!      └── installs ◄── compaction thread ◄── "look" ── segments
//! ```
//!
//! One flush is under way at most. When it fails its memtables stay here, and the next attempt is made when somebody needs it:
//! a writer that finds both memtables full, or a flush that is asked for.

use super::{install::Made, state::State, writer::same};
use crate::{Error, Result};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    time::Duration,
};

/// Frozen memtables, to be written to segments.
#[derive(Clone, Debug)]
pub(crate) struct FlushJob {
    /// The state just after they were frozen, with what compactions have changed since.
    pub(crate) state: Arc<State>,
    /// The last frame before they were frozen.
    pub(crate) sequence: u64,
}

/// What is to be installed, and a sender that is dropped when it is.
#[derive(Debug)]
pub(crate) struct Install {
    /// What was made.
    pub(crate) made: Made,
    /// Dropped afterwards.
    pub(crate) told: Sender<()>,
}

/// Why the last flush failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    error: Arc<Error>,
    /// Which attempt it was, from 1.
    pub(crate) attempt: u64,
}

impl Failure {
    /// The error, for one more.
    pub(crate) fn error(&self) -> Error {
        same(&self.error)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Board {
    notes: Mutex<Notes>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Notes {
    job: Option<FlushJob>,
    /// Whether the flush thread is to try.
    attempt: bool,
    /// Attempts begun.
    attempts: u64,
    /// Why it failed; none as long as an attempt may succeed.
    failure: Option<Failure>,
    installs: VecDeque<Install>,
    /// Whether tablets may want compaction.
    look: bool,
    /// Whether the compaction thread found nothing more to do.
    rests: bool,
    /// Whether writers wait for a flush.
    stalled: bool,
    /// How often they began to.
    stalls: u64,
    closed: bool,
}

impl Board {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut Notes) -> bool) -> MutexGuard<'_, Notes> {
        self.changed.wait_while(self.notes(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands memtables to the flush thread.
    pub(crate) fn flush(&self, state: Arc<State>, sequence: u64) {
        let mut notes = self.notes();
        debug_assert!(notes.job.is_none(), "one flush at a time");
        notes.job = Some(FlushJob { state, sequence });
        notes.attempt = true;
        notes.failure = None;
        self.changed.notify_all();
    }

    /// Attempts begun so far.
    pub(crate) fn attempts(&self) -> u64 {
        self.notes().attempts
    }

    /// Whether memtables wait for segments.
    pub(crate) fn is_flushing(&self) -> bool {
        self.notes().job.is_some()
    }

    /// Lets a flush that failed be tried once more.
    pub(crate) fn retry(&self) {
        let mut notes = self.notes();
        if notes.failure.take().is_some() {
            notes.attempt = true;
            self.changed.notify_all();
        }
    }

    /// Waits until there is something to install; when the last flush failed, for another attempt.
    ///
    /// # Errors
    /// Why that failed too.
    pub(crate) fn await_flush(&self) -> Result<()> {
        self.retry();
        let mut notes = self.notes();
        (notes.stalled, notes.stalls) = (true, notes.stalls + 1);
        self.changed.notify_all();
        let waits = |notes: &mut Notes| notes.installs.is_empty() && notes.failure.is_none() && !notes.closed;
        let mut notes = self.changed.wait_while(notes, waits).unwrap_or_else(PoisonError::into_inner);
        notes.stalled = false;
        match &notes.failure {
            Some(failure) if notes.installs.is_empty() => Err(failure.error()),
            _ if notes.closed => Err(Error::Unavailable("it was closed".into())),
            _ => Ok(()),
        }
    }

    /// Whether writers wait for a flush.
    #[cfg(test)]
    pub(crate) fn is_stalled(&self) -> bool {
        self.notes().stalled
    }

    /// Waits until writers have begun to wait more often than `stalls` times; how often by now, `None` when the store is closed.
    #[cfg(test)]
    pub(crate) fn await_stall(&self, stalls: u64) -> Option<u64> {
        let notes = self.wait_while(|notes| notes.stalls <= stalls && !notes.closed);
        (!notes.closed).then_some(notes.stalls)
    }

    /// What is to be installed.
    pub(crate) fn take_installs(&self) -> VecDeque<Install> {
        std::mem::take(&mut self.notes().installs)
    }

    /// Why the last flush failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.notes().failure.clone()
    }

    /// The memtables were written, and are installed now.
    pub(crate) fn flushed(&self) {
        self.notes().job = None;
    }

    /// The state that is being flushed.
    pub(crate) fn job(&self) -> Option<FlushJob> {
        self.notes().job.clone()
    }

    /// Changes the state that is being flushed.
    pub(crate) fn change_job(&self, change: impl FnOnce(&mut State)) {
        if let Some(job) = &mut self.notes().job {
            change(Arc::make_mut(&mut job.state));
        }
    }

    /// For the flush thread: waits for something to do; `false` when the store is closed.
    pub(crate) fn await_job(&self) -> bool {
        let mut notes = self.wait_while(|notes| !(notes.attempt && notes.job.is_some() || notes.closed));
        notes.attempt = false;
        notes.attempts += 1;
        !notes.closed
    }

    /// For the flush thread: it did not work.
    pub(crate) fn failed(&self, error: Error) {
        let mut notes = self.notes();
        notes.failure = Some(Failure { error: Arc::new(error), attempt: notes.attempts });
        self.changed.notify_all();
    }

    /// Leaves something to be installed; `false` when the store is closed.
    pub(crate) fn push(&self, install: Install) -> bool {
        let mut notes = self.notes();
        if notes.closed {
            return false;
        }
        notes.installs.push_back(install);
        self.changed.notify_all();
        true
    }

    /// Whether something waits to be installed.
    #[cfg(test)]
    pub(crate) fn has_installs(&self) -> bool {
        !self.notes().installs.is_empty()
    }

    /// Lets the compaction thread look for work.
    pub(crate) fn look(&self) {
        let mut notes = self.notes();
        (notes.look, notes.rests) = (true, false);
        self.changed.notify_all();
    }

    /// For the compaction thread: waits until there may be work, at most so long; `false` when the store is closed.
    pub(crate) fn await_look(&self, at_most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.notes(), at_most, |notes| !notes.look && !notes.closed);
        let (mut notes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        notes.look = false;
        !notes.closed
    }

    /// The compaction thread has done what there was to do, or failed.
    pub(crate) fn compacted(&self) {
        self.notes().rests = true;
        self.changed.notify_all();
    }

    /// For the flush thread: waits a while for compactions; `false` when there is nothing to wait for.
    pub(crate) fn await_compacted(&self, at_most: Duration) -> bool {
        let rests = |notes: &mut Notes| !notes.rests && !notes.closed;
        let waited = self.changed.wait_timeout_while(self.notes(), at_most, rests);
        let (notes, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !notes.rests && !notes.closed
    }

    /// Whether the store is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.notes().closed
    }

    /// Lets everybody end.
    pub(crate) fn close(&self) {
        let mut notes = self.notes();
        notes.closed = true;
        notes.installs.clear();
        self.changed.notify_all();
    }
}
