//! How the log, flush and compaction threads coordinate: one lock, one condition variable.
//!
//! ```text
//! log thread ── frozen memtables ──► flush thread ───────┐
//!      ▲                                                 ▼
//!      └── installs ◄── compaction thread ◄── "look" ── segments
//! ```
//!
//! At most one flush is in progress. If it fails, its memtables stay here, and it is retried when somebody needs it: a
//! writer that finds both memtables full, or a requested flush.

use super::{install::Installable, state::State, writer::same};
use crate::{Error, Result};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::Sender},
    time::Duration,
};

/// Frozen memtables, to be written to segments.
#[derive(Clone, Debug)]
pub(crate) struct FlushJob {
    /// The state just after they were frozen, with later changes by compactions.
    pub(crate) state: Arc<State>,
    /// The last frame before they were frozen.
    pub(crate) sequence: u64,
}

/// A change to be installed, and a sender that is dropped once it is.
#[derive(Debug)]
pub(crate) struct Install {
    /// The change.
    pub(crate) installable: Installable,
    /// Dropped after the installation.
    pub(crate) done: Sender<()>,
}

/// Why the last flush failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    error: Arc<Error>,
    /// Number of the attempt, from 1.
    pub(crate) attempt: u64,
}

impl Failure {
    /// A copy of the error.
    pub(crate) fn error(&self) -> Error {
        same(&self.error)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Coordination {
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Signals {
    job: Option<FlushJob>,
    /// Whether the flush thread should try.
    attempt: bool,
    /// Attempts begun.
    attempts: u64,
    /// Why it failed; `None` while an attempt may succeed.
    failure: Option<Failure>,
    installs: VecDeque<Install>,
    /// Whether tablets may need compaction.
    look: bool,
    /// Whether the compaction thread found nothing more to do.
    rests: bool,
    /// Whether writers wait for a flush.
    stalled: bool,
    /// How often writers began to wait.
    stalls: u64,
    closed: bool,
}

impl Coordination {
    fn signals(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut Signals) -> bool) -> MutexGuard<'_, Signals> {
        self.changed.wait_while(self.signals(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands memtables to the flush thread.
    pub(crate) fn flush(&self, state: Arc<State>, sequence: u64) {
        let mut signals = self.signals();
        debug_assert!(signals.job.is_none(), "one flush at a time");
        signals.job = Some(FlushJob { state, sequence });
        signals.attempt = true;
        signals.failure = None;
        self.changed.notify_all();
    }

    /// Attempts begun so far.
    pub(crate) fn attempts(&self) -> u64 {
        self.signals().attempts
    }

    /// Whether memtables wait for segments.
    pub(crate) fn is_flushing(&self) -> bool {
        self.signals().job.is_some()
    }

    /// Lets the flush thread retry a failed flush.
    pub(crate) fn retry(&self) {
        let mut signals = self.signals();
        if signals.failure.take().is_some() {
            signals.attempt = true;
            self.changed.notify_all();
        }
    }

    /// Waits until there is something to install; retries the flush if the last one failed.
    ///
    /// # Errors
    /// The error of the retry.
    pub(crate) fn await_flush(&self) -> Result<()> {
        self.retry();
        let mut signals = self.signals();
        (signals.stalled, signals.stalls) = (true, signals.stalls + 1);
        self.changed.notify_all();
        let waits = |signals: &mut Signals| signals.installs.is_empty() && signals.failure.is_none() && !signals.closed;
        let mut signals = self.changed.wait_while(signals, waits).unwrap_or_else(PoisonError::into_inner);
        signals.stalled = false;
        match &signals.failure {
            Some(failure) if signals.installs.is_empty() => Err(failure.error()),
            _ if signals.closed => Err(Error::Unavailable("it was closed".into())),
            _ => Ok(()),
        }
    }

    /// Whether writers wait for a flush.
    #[cfg(test)]
    pub(crate) fn is_stalled(&self) -> bool {
        self.signals().stalled
    }

    /// Waits until writers have begun to wait more often than `stalls` times; returns how often they have, `None` if
    /// the store is closed.
    #[cfg(test)]
    pub(crate) fn await_stall(&self, stalls: u64) -> Option<u64> {
        let signals = self.wait_while(|signals| signals.stalls <= stalls && !signals.closed);
        (!signals.closed).then_some(signals.stalls)
    }

    /// Takes the changes to be installed.
    pub(crate) fn take_installs(&self) -> VecDeque<Install> {
        std::mem::take(&mut self.signals().installs)
    }

    /// Why the last flush failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.signals().failure.clone()
    }

    /// Called when the memtables are written and installed.
    pub(crate) fn flushed(&self) {
        self.signals().job = None;
    }

    /// The flush in progress.
    pub(crate) fn job(&self) -> Option<FlushJob> {
        self.signals().job.clone()
    }

    /// Changes the state that is being flushed.
    pub(crate) fn change_job(&self, change: impl FnOnce(&mut State)) {
        if let Some(job) = &mut self.signals().job {
            change(Arc::make_mut(&mut job.state));
        }
    }

    /// For the flush thread: waits for work; `false` if the store is closed.
    pub(crate) fn await_job(&self) -> bool {
        let mut signals = self.wait_while(|signals| !(signals.attempt && signals.job.is_some() || signals.closed));
        signals.attempt = false;
        signals.attempts += 1;
        !signals.closed
    }

    /// For the flush thread: the attempt failed.
    pub(crate) fn failed(&self, error: Error) {
        let mut signals = self.signals();
        signals.failure = Some(Failure { error: Arc::new(error), attempt: signals.attempts });
        self.changed.notify_all();
    }

    /// Queues a change for installation; `false` if the store is closed.
    pub(crate) fn push(&self, install: Install) -> bool {
        let mut signals = self.signals();
        if signals.closed {
            return false;
        }
        signals.installs.push_back(install);
        self.changed.notify_all();
        true
    }

    /// Whether changes wait for installation.
    #[cfg(test)]
    pub(crate) fn has_installs(&self) -> bool {
        !self.signals().installs.is_empty()
    }

    /// Lets the compaction thread look for work.
    pub(crate) fn look(&self) {
        let mut signals = self.signals();
        (signals.look, signals.rests) = (true, false);
        self.changed.notify_all();
    }

    /// For the compaction thread: waits until there may be work, for at most `at_most`; `false` if the store is closed.
    pub(crate) fn await_look(&self, at_most: Duration) -> bool {
        let waited =
            self.changed.wait_timeout_while(self.signals(), at_most, |signals| !signals.look && !signals.closed);
        let (mut signals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        signals.look = false;
        !signals.closed
    }

    /// For the compaction thread: it has nothing more to do, or failed.
    pub(crate) fn compacted(&self) {
        self.signals().rests = true;
        self.changed.notify_all();
    }

    /// For the flush thread: waits at most `at_most` for compactions; `false` if there is nothing to wait for.
    pub(crate) fn await_compacted(&self, at_most: Duration) -> bool {
        let rests = |signals: &mut Signals| !signals.rests && !signals.closed;
        let waited = self.changed.wait_timeout_while(self.signals(), at_most, rests);
        let (signals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !signals.rests && !signals.closed
    }

    /// Whether the store is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.signals().closed
    }

    /// Lets all threads end.
    pub(crate) fn close(&self) {
        let mut signals = self.signals();
        signals.closed = true;
        signals.installs.clear();
        self.changed.notify_all();
    }
}
