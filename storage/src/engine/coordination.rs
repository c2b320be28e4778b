//! What the log thread, the flush thread and the compaction thread tell each other: one lock, one condition.
//!
//! ```text
//! log thread ── frozen memtables ──► flush thread ───────┐
//!      ▲                                                 ▼
//!      └── installs ◄── compaction thread ◄── "look" ── segments
//! ```
//!
//! One flush is under way at most. When it fails its memtables stay here, and the next attempt is installable when somebody needs it:
//! a writer that finds both memtables full, or a flush that is asked for.

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
    /// The state just after they were frozen, with what compactions have changed since.
    pub(crate) state: Arc<State>,
    /// The last frame before they were frozen.
    pub(crate) sequence: u64,
}

/// What is to be installed, and a sender that is dropped when it is.
#[derive(Debug)]
pub(crate) struct Install {
    /// What was installable.
    pub(crate) installable: Installable,
    /// Dropped afterwards.
    pub(crate) done: Sender<()>,
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
pub(crate) struct Coordination {
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Signals {
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

    /// Lets a flush that failed be tried once more.
    pub(crate) fn retry(&self) {
        let mut signals = self.signals();
        if signals.failure.take().is_some() {
            signals.attempt = true;
            self.changed.notify_all();
        }
    }

    /// Waits until there is something to install; when the last flush failed, for another attempt.
    ///
    /// # Errors
    /// Why that failed too.
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

    /// Waits until writers have begun to wait more often than `stalls` times; how often by now, `None` when the store is closed.
    #[cfg(test)]
    pub(crate) fn await_stall(&self, stalls: u64) -> Option<u64> {
        let signals = self.wait_while(|signals| signals.stalls <= stalls && !signals.closed);
        (!signals.closed).then_some(signals.stalls)
    }

    /// What is to be installed.
    pub(crate) fn take_installs(&self) -> VecDeque<Install> {
        std::mem::take(&mut self.signals().installs)
    }

    /// Why the last flush failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.signals().failure.clone()
    }

    /// The memtables were written, and are installed now.
    pub(crate) fn flushed(&self) {
        self.signals().job = None;
    }

    /// The state that is being flushed.
    pub(crate) fn job(&self) -> Option<FlushJob> {
        self.signals().job.clone()
    }

    /// Changes the state that is being flushed.
    pub(crate) fn change_job(&self, change: impl FnOnce(&mut State)) {
        if let Some(job) = &mut self.signals().job {
            change(Arc::make_mut(&mut job.state));
        }
    }

    /// For the flush thread: waits for something to do; `false` when the store is closed.
    pub(crate) fn await_job(&self) -> bool {
        let mut signals = self.wait_while(|signals| !(signals.attempt && signals.job.is_some() || signals.closed));
        signals.attempt = false;
        signals.attempts += 1;
        !signals.closed
    }

    /// For the flush thread: it did not work.
    pub(crate) fn failed(&self, error: Error) {
        let mut signals = self.signals();
        signals.failure = Some(Failure { error: Arc::new(error), attempt: signals.attempts });
        self.changed.notify_all();
    }

    /// Leaves something to be installed; `false` when the store is closed.
    pub(crate) fn push(&self, install: Install) -> bool {
        let mut signals = self.signals();
        if signals.closed {
            return false;
        }
        signals.installs.push_back(install);
        self.changed.notify_all();
        true
    }

    /// Whether something waits to be installed.
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

    /// For the compaction thread: waits until there may be work, at most so long; `false` when the store is closed.
    pub(crate) fn await_look(&self, at_most: Duration) -> bool {
        let waited =
            self.changed.wait_timeout_while(self.signals(), at_most, |signals| !signals.look && !signals.closed);
        let (mut signals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        signals.look = false;
        !signals.closed
    }

    /// The compaction thread has done what there was to do, or failed.
    pub(crate) fn compacted(&self) {
        self.signals().rests = true;
        self.changed.notify_all();
    }

    /// For the flush thread: waits a while for compactions; `false` when there is nothing to wait for.
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

    /// Lets everybody end.
    pub(crate) fn close(&self) {
        let mut signals = self.signals();
        signals.closed = true;
        signals.installs.clear();
        self.changed.notify_all();
    }
}
