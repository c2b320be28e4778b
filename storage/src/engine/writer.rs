//! The log's writer: whoever has it, and only who has it, changes tables. That is the log thread, or a caller whose
//! commit is the only one.
//!
//! 1. It waits for a request, and takes the queued ones behind it as one group, up to [`GROUP_REQUESTS_MAX`] and about
//!    [`GROUP_BYTES_TARGET`].
//! 2. In order, each is stamped, checked against the thread's own copy of the state (including earlier requests of the
//!    group), applied to that copy and added to the frame. A refused request leaves no trace and does not affect the
//!    others.
//! 3. The frame is written and synced, once for the whole group.
//! 4. The copy is published, and all requests are answered.
//!
//! If there is no space the copy is dropped, the group gets the error, and the next one tries again. After any other
//! error of the log the content of the disk is unknown. The engine then refuses every write and never retries; reads go
//! on from the last published state, all of which was synced.
//!
//! *Alone.* Handing a commit to the thread and the answer back takes two switches of threads, which on a fast disk is
//! as much as the sync. So where nothing else is under way, and syncs are short, the caller of a small commit takes the
//! writer from the idle thread and makes the group itself ([`write_alone`]). What may wait (a full memtable, a new file
//! of the log) is left to the thread.
//!
//! Between groups the thread *freezes* memtables that are full, for the flush thread to write to segments, and
//! *installs* the results of the flush and compaction threads ([`super::install`]), since it alone changes the state.
//! While one memtable is being flushed and the next is full as well, writers wait; if the flush fails, they get its
//! error.
//!
//! *The clock.* A commit's stamp is in its record, so that stamps never repeat across a restart. GC evaluates rules by
//! a clock that reads advance too; closing the store writes a record of it. After a crash it starts from the last stamp
//! or the wall clock, whichever is later: it can only go back if nothing was committed since the read, and the wall
//! clock was set back over the restart.

use super::{
    apply,
    coordination::Coordination,
    fetch::Fetched,
    frame,
    install::{Installable, Standstill, install, install_load},
    log::Log,
    pins::Pins,
    record,
    row_cache::RowCache,
    state::State,
    work::Work,
};
use crate::{Commit, Error, FamilyChange, Result, RowMutation, TableName, TableSchema, Write, clock::HybridClock};
use arc_swap::ArcSwap;
use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Requests in one group.
pub const GROUP_REQUESTS_MAX: usize = 1_024;
/// Upper limit of the bytes of log after which a group takes no more requests.
pub const GROUP_BYTES_TARGET: usize = 8 << 20;
/// Maximum bytes of keys and mutations in one request, of the previous rows of its keys, and of its part of the log;
/// with [`GROUP_BYTES_TARGET`] and the overhead of encoding far below the limit of a frame.
pub const REQUEST_BYTES_MAX: usize = 512 << 20;

/// Rows of a commit that its caller may write itself.
const ALONE_ROWS_MAX: usize = 128;
/// Bytes of such a commit, and of its rows before it.
pub(crate) const ALONE_BYTES_MAX: usize = 64 << 10;
/// Time that the last sync took, from which on callers leave writing to the log thread: longer ones would keep a thread
/// of the runtime from other work, and beside them two switches of threads (some 0.1 ms) are no matter.
pub const ALONE_SYNC_MAX: Duration = Duration::from_micros(500);

/// The state that the log thread shares with all others.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The state that readers see: synced.
    pub(crate) published: ArcSwap<State>,
    /// Stamps commits, and gives the time at which GC evaluates rules.
    pub(crate) clock: HybridClock,
    /// Why the store has stopped writing, once it has.
    pub(crate) stopped: OnceLock<String>,
    /// The cache of rows of segments.
    pub(crate) rows: RowCache,
    /// Pinned states.
    pub(crate) pins: Pins,
    /// Coordinates the background threads.
    pub(crate) coordination: Coordination,
    /// Whether commits with stamps may be unpublished.
    pub(crate) is_stamping: AtomicBool,
    /// Whether memtables should be flushed because scans keep reading them.
    pub(crate) is_often_scanned: AtomicBool,
    /// Bytes of the log's files, for inspection.
    pub(crate) log_bytes: AtomicU64,
    /// What was done, for inspection.
    pub(crate) work: Work,
}

impl Shared {
    /// # Errors
    /// [`Error::Unavailable`] once the store has stopped writing.
    pub(crate) fn check_writing(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |reason| Err(Error::Unavailable(reason.clone())))
    }
}

/// The receiver of an answer.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// A copy of the error.
pub(crate) fn same(error: &Error) -> Error {
    match error {
        Error::NoSpace { path } => Error::NoSpace { path: path.clone() },
        Error::Corrupt { path, offset, detail } => {
            Error::Corrupt { path: path.clone(), offset: *offset, detail: detail.clone() }
        }
        error => {
            let cause = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
            Error::Unavailable(format!("its memory is full, and cannot be written to segments: {error}{cause}"))
        }
    }
}

/// A request to the log thread.
#[derive(Debug)]
pub(crate) enum Request {
    /// One commit, and its fetched rows; answers with its stamp.
    Commit(Commit, Fetched, Reply<i64>),
    /// Independent rows, and their fetched rows.
    Rows(TableName, Vec<RowMutation>, Fetched, Reply<Vec<Result<()>>>),
    /// Creates a table.
    CreateTable(TableName, TableSchema, Reply<()>),
    /// Drops a table.
    DropTable(TableName, Reply<()>),
    /// Changes a table's families.
    ModifyFamilies(TableName, Vec<FamilyChange>, Reply<()>),
    /// Writes everything so far to segments.
    Flush(Reply<()>),
    /// Wakes the thread: there is something to install.
    Wake,
    /// Ends the thread.
    Close(Reply<()>),
}

/// A request, and its permits of the queue until it is done.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The request.
    pub(crate) request: Request,
    /// Returned when the request is answered; the engine's own threads take none.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl Queued {
    /// Whether its caller may write it: few rows, and nothing but rows.
    fn is_small(&self) -> bool {
        match &self.request {
            Request::Commit(commit, _, _) => {
                commit.writes.len() <= ALONE_ROWS_MAX
                    && commit.writes.iter().all(|write| matches!(write, Write::Row { .. }))
            }
            Request::Rows(_, rows, _, _) => rows.len() <= ALONE_ROWS_MAX,
            _ => false,
        }
    }
}

/// An answer that waits for the sync.
enum Answer {
    Stamp(Reply<i64>, Result<i64>),
    Rows(Reply<Vec<Result<()>>>, Result<Vec<Result<()>>>),
    Done(Reply<()>, Result<()>),
    Flush(Reply<()>),
    None,
}

impl Answer {
    /// The error answer of a store that takes no writes for now.
    fn refused(request: Request, error: &Error) -> Self {
        let error = || same(error);
        match request {
            Request::Commit(_, _, reply) => Self::Stamp(reply, Err(error())),
            Request::Rows(_, _, _, reply) => Self::Rows(reply, Err(error())),
            Request::CreateTable(_, _, reply) | Request::DropTable(_, reply) | Request::ModifyFamilies(_, _, reply) => {
                Self::Done(reply, Err(error()))
            }
            Request::Flush(reply) | Request::Close(reply) => Self::Done(reply, Err(error())),
            Request::Wake => Self::None,
        }
    }

    /// Sends the answer; `failure` makes the error if the log did not take the group.
    fn send(self, failure: Option<&dyn Fn() -> Error>) {
        fn outcome<T>(result: Result<T>, failure: Option<&dyn Fn() -> Error>) -> Result<T> {
            match failure {
                Some(failure) if result.is_ok() => Err(failure()),
                _ => result,
            }
        }
        // The receiver may be gone.
        match self {
            Self::Stamp(reply, result) => drop(reply.send(outcome(result, failure))),
            Self::Rows(reply, result) => drop(reply.send(outcome(result, failure))),
            Self::Done(reply, result) => drop(reply.send(outcome(result, failure))),
            Self::Flush(reply) => drop(reply.send(outcome(Ok(()), failure))),
            Self::None => {}
        }
    }
}

/// Sizes that trigger flushes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    /// Bytes of active memtables above which they are frozen.
    pub(crate) memtable_bytes: u64,
    /// Bytes of active memtables above which writers wait for the flush of the frozen ones.
    pub(crate) stall_bytes: u64,
    /// Bytes of log after which a group takes no more requests.
    pub(crate) group_bytes: usize,
}

/// A requester that waits until segments hold everything written before.
struct Waiting {
    /// The last frame of that.
    until: u64,
    /// Flush attempts begun before the request, whose failure does not count.
    attempts: u64,
    reply: Reply<()>,
}

/// The writer, for the log thread and for callers that are alone; `None` once the thread has ended.
pub(crate) type SharedWriter = Mutex<Option<Writer>>;

/// The state of who changes tables.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    log: Log,
    thresholds: Thresholds,
    /// The frame under construction: room for its head, then the records.
    frame: Vec<u8>,
    /// The last frame that segments hold.
    flushed: u64,
    waiting: Vec<Waiting>,
    /// How long the last sync took.
    synced_in: Duration,
}

/// The log thread: serves requests until the store is closed, or all senders are gone.
pub(crate) fn run(writer: &SharedWriter, shared: &Shared, mut queue: mpsc::Receiver<Queued>) {
    // Who panicked with the writer has poisoned it, and left it in a state that nobody knows: no more is written.
    let serve = |first: Option<Queued>, queue: &mut mpsc::Receiver<Queued>| {
        let mut writer = writer.lock().ok()?;
        let writer = writer.as_mut()?;
        let closing = first.and_then(|first| writer.group(first, Some(queue)));
        writer.maintain();
        Some(closing)
    };
    let mut closing = serve(None, &mut queue);
    while matches!(closing, Some(None)) {
        let Some(first) = queue.blocking_recv() else { break };
        closing = serve(Some(first), &mut queue);
    }
    // Nothing is installed any more: the flush and compaction threads end.
    shared.coordination.close();
    if let Some(writer) = writer.lock().ok().and_then(|mut writer| writer.take()) {
        writer.end(closing.flatten());
    }
}

/// Lets the caller of a small request write and answer it, if the log thread is idle, has nothing to do first, and the
/// last sync took less than `sync_max`; calls `wake` if the thread has something to do then. Blocks for a sync. Gives
/// the request back if the log thread has to take it.
pub(crate) fn write_alone(
    writer: &SharedWriter,
    queued: Queued,
    sync_max: Duration,
    wake: impl FnOnce(),
) -> Option<Queued> {
    if !queued.is_small() {
        return Some(queued);
    }
    let Ok(mut writer) = writer.try_lock() else { return Some(queued) };
    let Some(writer) = writer.as_mut().filter(|writer| writer.synced_in < sync_max && !writer.has_work()) else {
        return Some(queued);
    };
    writer.group(queued, None);
    if writer.has_work() {
        wake();
    }
    None
}

impl Writer {
    /// Creates the writer; segments hold the frames up to `flushed`, and a sync took `synced_in` at the start.
    pub(crate) fn new(
        shared: Arc<Shared>,
        log: Log,
        thresholds: Thresholds,
        flushed: u64,
        synced_in: Duration,
    ) -> Self {
        Self { shared, log, thresholds, frame: Vec::new(), flushed, waiting: Vec::new(), synced_in }
    }

    /// Whether the log thread should come before the next commit: memtables to freeze, or a file of the log to make.
    fn has_work(&self) -> bool {
        self.shared.is_often_scanned.load(Ordering::Relaxed)
            || !self.log.is_prepared()
            || self.shared.published.load().active_bytes() >= self.thresholds.memtable_bytes
    }

    /// Ends writing, and answers who asked for it.
    fn end(mut self, closing: Option<Reply<()>>) {
        let closed = self.finish();
        let ended = || Error::Unavailable("it was closed".into());
        self.waiting.drain(..).for_each(|waiting| drop(waiting.reply.send(Err(ended()))));
        if let Some(reply) = closing {
            drop(reply.send(closed));
        }
    }

    /// Installs results of other threads, and freezes memtables if needed.
    fn maintain(&mut self) {
        for request in self.shared.coordination.take_installs() {
            if let Installable::Loading(standstill) = &request.installable {
                self.stand_still(standstill);
                continue;
            }
            let mut state = State::clone(&self.shared.published.load());
            let flushed = install(&mut state, &self.shared.coordination, &request.installable);
            self.shared.published.store(Arc::new(state));
            drop(request.done);
            if let Some(sequence) = flushed {
                self.flushed = sequence;
                self.shared.work.flushes.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = self.log.release(sequence) {
                    tracing::warn!(%error, "a file of the log that is no longer needed was not removed");
                }
                for over in self.waiting.extract_if(.., |waiting| waiting.until <= sequence) {
                    drop(over.reply.send(Ok(())));
                }
            }
        }
        if let Some(failure) = self.shared.coordination.failure() {
            for over in self.waiting.extract_if(.., |waiting| waiting.attempts < failure.attempt) {
                drop(over.reply.send(Err(failure.error())));
            }
            if !self.waiting.is_empty() {
                self.shared.coordination.retry();
            }
        }
        if self.shared.coordination.is_closed() {
            let reason = || self.shared.stopped.get().cloned().unwrap_or_else(|| "it was closed".into());
            self.waiting.drain(..).for_each(|waiting| drop(waiting.reply.send(Err(Error::Unavailable(reason())))));
            return;
        }
        self.freeze();
        self.shared.log_bytes.store(self.log.bytes(), Ordering::Relaxed);
    }

    /// Pauses until a load is in the manifest, and installs it; or until it is aborted.
    fn stand_still(&self, standstill: &Standstill) {
        self.shared.is_stamping.store(true, Ordering::SeqCst);
        // If the receiver is gone, the sender of the load is gone too.
        let _ = standstill.reached.send(());
        if let Ok(loaded) = standstill.loaded.recv() {
            let mut state = State::clone(&self.shared.published.load());
            install_load(&mut state, &self.shared.coordination, &loaded);
            self.shared.published.store(Arc::new(state));
        }
        self.shared.is_stamping.store(false, Ordering::SeqCst);
    }

    /// Hands memtables to the flush thread that are full, requested or often scanned, unless a flush is in progress.
    fn freeze(&mut self) {
        let published = self.shared.published.load();
        let is_full = published.active_bytes() >= self.thresholds.memtable_bytes;
        let is_wanted = self.waiting.iter().any(|waiting| waiting.until > self.flushed);
        let is_often_scanned = self.shared.is_often_scanned.load(Ordering::Relaxed);
        if !(is_full || is_wanted || is_often_scanned) || self.shared.coordination.is_flushing() {
            return;
        }
        self.shared.is_often_scanned.store(false, Ordering::Relaxed);
        let mut state = State::clone(&published);
        drop(published);
        state.freeze();
        let state = Arc::new(state);
        self.shared.published.store(Arc::clone(&state));
        if is_wanted {
            // The requester may want the log's bytes gone.
            self.log.roll();
        }
        self.shared.coordination.flush(state, self.log.sequence());
    }

    /// Waits while both memtables are full; returns an error if waiting is futile for now.
    fn stall(&mut self) -> Option<Error> {
        let is_full = |writer: &Self| writer.shared.published.load().active_bytes() >= writer.thresholds.stall_bytes;
        if is_full(self) {
            // Who wrote alone has left it full, and froze nothing.
            self.maintain();
        }
        while is_full(self) {
            match self.shared.coordination.await_flush() {
                Ok(()) => self.maintain(),
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// Processes one group, with what waits in the queue; returns where to answer if the store was asked to close.
    fn group(&mut self, first: Queued, mut queue: Option<&mut mpsc::Receiver<Queued>>) -> Option<Reply<()>> {
        let stalled = self.stall();
        self.shared.is_stamping.store(true, Ordering::SeqCst);
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
                request => answers.push(self.apply(&mut state, request, stalled.as_ref())),
            }
            let full = answers.len() >= GROUP_REQUESTS_MAX || self.frame.len() >= self.thresholds.group_bytes;
            next = queue.as_mut().filter(|_| !full).and_then(|queue| queue.try_recv().ok());
        }
        let is_written = self.settle(state, answers);
        if is_written && queue.is_some() {
            self.prepare();
        }
        self.shared.is_stamping.store(false, Ordering::SeqCst);
        // Frees the room of one large request.
        self.frame.shrink_to(2 * self.thresholds.group_bytes);
        closing
    }

    /// Applies one request to the group's state and frame.
    fn apply(&mut self, state: &mut State, request: Request, stalled: Option<&Error>) -> Answer {
        if let Some(error) = stalled {
            return Answer::refused(request, error);
        }
        let rows = &self.shared.rows;
        let out = &mut self.frame;
        let stamp = || self.shared.clock.stamp();
        match request {
            Request::Commit(commit, fetched, reply) => {
                let stamp = stamp();
                Answer::Stamp(reply, apply::commit(state, out, stamp, commit, (&fetched, rows)).map(|()| stamp))
            }
            Request::Rows(table, mutations, fetched, reply) => {
                let result = state.table(&table).map(drop).map(|()| {
                    let results = mutations.into_iter().map(|row| {
                        let write = Write::Row { table: table.clone(), row };
                        let commit = Commit { writes: vec![write], validation: None };
                        apply::commit(state, out, stamp(), commit, (&fetched, rows))
                    });
                    results.collect()
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
            Request::Flush(reply) => Answer::Flush(reply),
            Request::Wake => Answer::None,
            Request::Close(reply) => Answer::Done(reply, Ok(())),
        }
    }

    /// Makes a group durable, publishes it and answers: whether the log took it.
    fn settle(&mut self, state: State, answers: Vec<Answer>) -> bool {
        match self.append(answers.len()) {
            Ok(()) => {
                self.shared.published.store(Arc::new(state));
                for answer in answers {
                    match answer {
                        Answer::Flush(reply) if self.log.sequence() > self.flushed => {
                            let attempts = self.shared.coordination.attempts();
                            self.shared.coordination.retry();
                            self.waiting.push(Waiting { until: self.log.sequence(), attempts, reply });
                        }
                        Answer::Flush(reply) => {
                            // Segments hold it, but so may the current log file.
                            self.log.roll();
                            drop(reply.send(self.log.release(self.flushed)));
                        }
                        answer => answer.send(None),
                    }
                }
                true
            }
            Err(Error::NoSpace { path }) => {
                let failure = || Error::NoSpace { path: path.clone() };
                answers.into_iter().for_each(|answer| answer.send(Some(&failure)));
                false
            }
            Err(error) => {
                let reason = self.stop(error);
                let failure = || Error::Unavailable(reason.clone());
                answers.into_iter().for_each(|answer| answer.send(Some(&failure)));
                false
            }
        }
    }

    /// Allocates the next file of the log early.
    fn prepare(&mut self) {
        if self.shared.stopped.get().is_none()
            && let Err(error) = self.log.prepare(self.shared.published.load().stamp)
        {
            self.stop(error);
        }
    }

    /// Writes and syncs the frame, unless it is empty.
    fn append(&mut self, requests: usize) -> Result<()> {
        if self.frame.len() == frame::FRAME_BYTES {
            return Ok(());
        }
        self.shared.check_writing()?;
        // Not the clock's time: only commits and reads advance the clock.
        let (began, bytes) = (Instant::now(), self.frame.len() as u64);
        self.log.append(&mut self.frame, self.shared.published.load().stamp)?;
        self.synced_in = began.elapsed();
        self.shared.work.logged(requests as u64, bytes, self.synced_in);
        Ok(())
    }

    /// Stops writing for good.
    fn stop(&self, error: Error) -> String {
        if let Error::Unavailable(reason) = error {
            return reason;
        }
        let cause = std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
        let reason = format!("{error}{cause}; what was acknowledged is safe and can be read, writing needs a restart");
        tracing::error!(%reason, "the log failed: the store takes no more writes");
        self.shared.stopped.get_or_init(|| reason).clone()
    }

    /// Writes the clock to the log and releases the store.
    fn finish(&mut self) -> Result<()> {
        self.frame.clear();
        self.frame.resize(frame::FRAME_BYTES, 0);
        record::put_clock(&mut self.frame, self.shared.clock.now());
        let result = match self.append(0) {
            // The acknowledged commits are durable, and the clock is only a precaution.
            Err(Error::NoSpace { .. } | Error::Unavailable(_)) => Ok(()),
            result => result,
        };
        let _ = self.shared.stopped.set("it was closed".to_owned());
        result
    }
}
