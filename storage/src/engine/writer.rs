//! The log thread: the only one that changes tables.
//!
//! 1. It waits for a request, and takes those that wait behind it as one group, up to [`GROUP_REQUESTS_MAX`] and about
//!    [`GROUP_BYTES_TARGET`].
//! 2. In order, each is stamped, checked against its own copy of the state (what came before it in the group included), applied
//!    to that copy and added to the frame. One that is refused leaves no trace and harms no other.
//! 3. The frame is written and synced, once for the whole group.
//! 4. The copy is published, and everybody is answered.
//!
//! When there is no space the copy is dropped, the group is told so, and the next one tries again. Any other error of the
//! log is final: nobody knows what the disk holds. The engine then refuses every write and never retries; reads go on from
//! what was published last, all of which was synced.
//!
//! *The clock.* A commit's stamp is in its record, so that stamps never repeat across a restart. GC judges by a clock that reads
//! advance too; closing the store leaves a record of it. After a crash it starts from the last stamp or the wall clock, whichever is
//! later: it could only go back if nothing was committed since the read, and the wall clock was set back over the restart.

use super::{apply, frame, log::Log, memtable::State, record};
use crate::{Commit, Error, FamilyChange, Result, RowMutation, TableName, TableSchema, Write, clock::HybridClock};
use arc_swap::ArcSwap;
use std::{
    any::Any,
    sync::{Arc, OnceLock},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Requests in one group.
pub const GROUP_REQUESTS_MAX: usize = 1_024;
/// Bytes of log after which a group takes no more requests.
pub const GROUP_BYTES_TARGET: usize = 8 << 20;
/// Bytes of keys and mutations in one request; with [`GROUP_BYTES_TARGET`] and what encoding adds far below what a frame takes.
pub const REQUEST_BYTES_MAX: usize = 512 << 20;

/// What the log thread shares with everybody else.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What readers see: synced.
    pub(crate) published: ArcSwap<State>,
    /// Stamps commits, and tells the time by which GC judges.
    pub(crate) clock: HybridClock,
    /// Why the store has stopped writing, once it has.
    pub(crate) stopped: OnceLock<String>,
}

impl Shared {
    /// # Errors
    /// [`Error::Unavailable`] once the store has stopped writing.
    pub(crate) fn check_writing(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |reason| Err(Error::Unavailable(reason.clone())))
    }
}

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// What the log thread is asked.
#[derive(Debug)]
pub(crate) enum Request {
    /// One commit; its stamp.
    Commit(Commit, Reply<i64>),
    /// Rows, each for itself.
    Rows(TableName, Vec<RowMutation>, Reply<Vec<Result<()>>>),
    /// A new table.
    CreateTable(TableName, TableSchema, Reply<()>),
    /// A table to be forgotten.
    DropTable(TableName, Reply<()>),
    /// A table with other families.
    ModifyFamilies(TableName, Vec<FamilyChange>, Reply<()>),
    /// The end.
    Close(Reply<()>),
}

/// A request, and the room that it takes in the queue until it is done.
#[derive(Debug)]
pub(crate) struct Queued {
    /// What is asked.
    pub(crate) request: Request,
    /// Given back when the request is answered.
    pub(crate) room: OwnedSemaphorePermit,
}

/// An answer that waits for the sync.
enum Answer {
    Stamp(Reply<i64>, Result<i64>),
    Rows(Reply<Vec<Result<()>>>, Result<Vec<Result<()>>>),
    Done(Reply<()>, Result<()>),
}

impl Answer {
    /// Answers; `failure` makes the error of a log that did not take the group.
    fn send(self, failure: Option<&dyn Fn() -> Error>) {
        fn outcome<T>(result: Result<T>, failure: Option<&dyn Fn() -> Error>) -> Result<T> {
            match failure {
                Some(failure) if result.is_ok() => Err(failure()),
                _ => result,
            }
        }
        // Whoever asked may have stopped waiting.
        match self {
            Self::Stamp(reply, result) => drop(reply.send(outcome(result, failure))),
            Self::Rows(reply, result) => drop(reply.send(outcome(result, failure))),
            Self::Done(reply, result) => drop(reply.send(outcome(result, failure))),
        }
    }
}

/// The log thread's own.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    log: Log,
    queue: mpsc::Receiver<Queued>,
    /// The frame under construction: room for its head, then the records.
    frame: Vec<u8>,
    /// Held until the thread ends.
    lock: Option<Box<dyn Any + Send + Sync>>,
}

impl Writer {
    /// Takes what the thread needs.
    pub(crate) fn new(
        shared: Arc<Shared>,
        log: Log,
        queue: mpsc::Receiver<Queued>,
        lock: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { shared, log, queue, frame: Vec::new(), lock: Some(lock) }
    }

    /// Serves until the store is closed, or nobody is left to ask.
    pub(crate) fn run(mut self) {
        let mut closing = None;
        while closing.is_none() {
            let Some(first) = self.queue.blocking_recv() else { break };
            closing = self.group(first);
        }
        let closed = self.finish();
        if let Some(reply) = closing {
            drop(reply.send(closed));
        }
    }

    /// Does one group; gives whom to tell when the store was asked to close.
    fn group(&mut self, first: Queued) -> Option<Reply<()>> {
        let mut state = State::clone(&self.shared.published.load());
        let (mut answers, mut rooms, mut closing) = (Vec::new(), Vec::new(), None);
        self.frame.clear();
        self.frame.resize(frame::FRAME_BYTES, 0);
        let mut next = Some(first);
        while let Some(Queued { request, room }) = next {
            rooms.push(room);
            match request {
                Request::Close(reply) => {
                    closing = Some(reply);
                    break;
                }
                request => answers.push(self.apply(&mut state, request)),
            }
            let full = answers.len() >= GROUP_REQUESTS_MAX || self.frame.len() >= GROUP_BYTES_TARGET;
            next = if full { None } else { self.queue.try_recv().ok() };
        }
        self.settle(state, answers);
        // One large request does not keep its room for ever.
        self.frame.shrink_to(2 * GROUP_BYTES_TARGET);
        closing
    }

    /// Applies one request to the group's state and frame.
    fn apply(&mut self, state: &mut State, request: Request) -> Answer {
        let out = &mut self.frame;
        let stamp = || self.shared.clock.stamp();
        match request {
            Request::Commit(commit, reply) => {
                let stamp = stamp();
                Answer::Stamp(reply, apply::commit(state, out, stamp, commit).map(|()| stamp))
            }
            Request::Rows(table, rows, reply) => {
                let result = state.table(&table).map(drop).map(|()| {
                    let rows = rows.into_iter().map(|row| {
                        let write = Write::Row { table: table.clone(), row };
                        apply::commit(state, out, stamp(), Commit { writes: vec![write], validation: None })
                    });
                    rows.collect()
                });
                Answer::Rows(reply, result)
            }
            Request::CreateTable(name, schema, reply) => {
                Answer::Done(reply, apply::create_table(state, out, stamp(), name, schema))
            }
            Request::DropTable(name, reply) => Answer::Done(reply, apply::drop_table(state, out, stamp(), &name)),
            Request::ModifyFamilies(name, changes, reply) => {
                Answer::Done(reply, apply::modify_families(state, out, stamp(), &name, changes))
            }
            Request::Close(reply) => Answer::Done(reply, Ok(())),
        }
    }

    /// Makes a group last, publishes it and answers.
    fn settle(&mut self, state: State, answers: Vec<Answer>) {
        match self.append() {
            Ok(()) => {
                self.shared.published.store(Arc::new(state));
                answers.into_iter().for_each(|answer| answer.send(None));
                if self.shared.stopped.get().is_none()
                    && let Err(error) = self.log.prepare(self.shared.published.load().stamp)
                {
                    self.stop(error);
                }
            }
            Err(Error::NoSpace { path }) => {
                let failure = || Error::NoSpace { path: path.clone() };
                answers.into_iter().for_each(|answer| answer.send(Some(&failure)));
            }
            Err(error) => {
                let reason = self.stop(error);
                let failure = || Error::Unavailable(reason.clone());
                answers.into_iter().for_each(|answer| answer.send(Some(&failure)));
            }
        }
    }

    /// Writes and syncs the frame, unless there is nothing in it.
    fn append(&mut self) -> Result<()> {
        if self.frame.len() == frame::FRAME_BYTES {
            return Ok(());
        }
        self.shared.check_writing()?;
        // Not by the clock: only commits and reads move it on.
        self.log.append(&mut self.frame, self.shared.published.load().stamp)
    }

    /// Writes nothing any more.
    fn stop(&self, error: Error) -> String {
        if let Error::Unavailable(reason) = error {
            return reason;
        }
        let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let reason = format!("{error}{cause}; what was acknowledged is safe and can be read, writing needs a restart");
        tracing::error!(%reason, "the log failed: the store takes no more writes");
        self.shared.stopped.get_or_init(|| reason).clone()
    }

    /// Leaves the clock in the log and gives the store free.
    fn finish(&mut self) -> Result<()> {
        self.frame.clear();
        self.frame.resize(frame::FRAME_BYTES, 0);
        record::put_clock(&mut self.frame, self.shared.clock.now());
        let result = match self.append() {
            // The acknowledged commits are safe, and the clock is no more than a precaution.
            Err(Error::NoSpace { .. } | Error::Unavailable(_)) => Ok(()),
            result => result,
        };
        let _ = self.shared.stopped.set("it was closed".to_owned());
        self.lock = None;
        result
    }
}
