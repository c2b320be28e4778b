//! Admission: what a statement waits for before it begins, and a commit before the log's queue.

use super::{
    Share, errors,
    rate::{PAUSE_MAX, Rate},
    schedule::{Flow, Schedule},
};
use crate::{lock::Mutex, pg::error::SqlError};
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

/// Statements of a tenant that may wait to run.
pub(crate) const QUEUE_MAX: usize = 64;
/// How long a statement waits for others of its tenant to end.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10);
/// Commits on their way to the log, of all tenants: beyond it they take turns.
const COMMITS_MAX: usize = 128;
/// What a commit costs beside its bytes, in bytes.
const COMMIT_BYTES: u64 = 4_096;
/// The time that a byte costs the log, roughly.
const NANOS_PER_BYTE: u64 = 10;

/// The statements of a tenant that run or wait.
#[derive(Debug, Default)]
pub(super) struct Running {
    count: u32,
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// A statement that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Share>);

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut running = self.0.running.lock();
        // The place goes to the first that still waits.
        while let Some(next) = running.waiting.pop_front() {
            if next.send(()).is_ok() {
                return;
            }
        }
        running.count -= 1;
    }
}

/// Connections of a tenant, until this is dropped.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Share>, Instant);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.work.session_micros.add(u64::try_from(self.1.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
}

/// A tenant's place of a large load.
#[derive(Debug)]
pub(crate) struct LoadPlace(Arc<Share>);

impl Drop for LoadPlace {
    fn drop(&mut self) {
        self.0.loads.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Share {
    /// Counts a connection.
    ///
    /// # Errors
    /// 53300.
    pub(crate) fn connect(self: &Arc<Self>, database: &str) -> Result<Connected, SqlError> {
        let quotas = self.quotas();
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        self.work.sessions.add(1);
        let connected = Connected(Arc::clone(self), Instant::now());
        if let Some(most) = quotas.connections_max.filter(|most| before >= *most) {
            self.refuse(&quotas, || errors::connections(database, most))?;
        }
        Ok(connected)
    }

    /// Takes a place of a large load, if the tenant has fewer than `most`.
    pub(crate) fn begin_load(self: &Arc<Self>, most: usize) -> Option<LoadPlace> {
        let more = |loads: usize| (loads < most).then_some(loads + 1);
        self.loads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(LoadPlace(Arc::clone(self)))
    }

    /// Begins a statement, if it need not wait.
    pub(crate) fn try_admit(self: &Arc<Self>) -> Option<Admitted> {
        let quotas = self.quotas();
        let mut running = self.running.lock();
        if quotas.read_bytes_per_second.is_some() || quotas.statements_max.is_some_and(|most| running.count >= most) {
            return None;
        }
        running.count += 1;
        drop(running);
        self.counters.statements.fetch_add(1, Ordering::Relaxed);
        Some(Admitted(Arc::clone(self)))
    }

    /// Waits until a statement may begin.
    ///
    /// # Errors
    /// 53400 when the wait would be, or was, too long.
    pub(crate) async fn admit(self: &Arc<Self>) -> Result<Admitted, SqlError> {
        let quotas = self.quotas();
        if let Some(per_second) = quotas.read_bytes_per_second {
            self.pause_for(errors::READ_RATE, per_second, &self.read).await?;
        }
        let place = self.place(quotas.statements_max, quotas.dryrun);
        let refused = match place {
            Ok(admitted) => return Ok(admitted),
            Err(None) => None,
            Err(Some(place)) => {
                let began = Instant::now();
                if let Ok(Ok(())) = timeout(WAIT_MAX, place).await {
                    self.counters.statements.fetch_add(1, Ordering::Relaxed);
                    return Ok(Admitted(Arc::clone(self)));
                }
                Some(began.elapsed())
            }
        };
        self.refuse(&quotas, || errors::statements(quotas.statements_max.unwrap_or_default(), refused))?;
        let mut running = self.running.lock();
        running.count += 1;
        drop(running);
        self.counters.statements.fetch_add(1, Ordering::Relaxed);
        Ok(Admitted(Arc::clone(self)))
    }

    /// A place to run, or to wait for one; `Err(None)` if the queue is full.
    fn place(self: &Arc<Self>, most: Option<u32>, dryrun: bool) -> Result<Admitted, Option<Place>> {
        let mut running = self.running.lock();
        if most.is_none_or(|most| running.count < most) {
            running.count += 1;
            drop(running);
            self.counters.statements.fetch_add(1, Ordering::Relaxed);
            return Ok(Admitted(Arc::clone(self)));
        }
        running.waiting.retain(|waiting| !waiting.is_closed());
        if running.waiting.len() >= QUEUE_MAX || dryrun {
            return Err(None);
        }
        let (sender, receiver) = oneshot::channel();
        running.waiting.push_back(sender);
        Err(Some(Place { receiver, share: Arc::clone(self) }))
    }

    /// Pauses until the tenant is within its rate.
    async fn pause_for(&self, quota: &str, per_second: u64, rate: &Mutex<Rate>) -> Result<(), SqlError> {
        let quotas = self.quotas();
        let pause = rate.lock().pause(per_second, self.began.elapsed());
        if pause > PAUSE_MAX {
            return self.refuse(&quotas, || errors::rate(quota, per_second, pause));
        }
        if !pause.is_zero() && !quotas.dryrun {
            sleep(pause).await;
        }
        Ok(())
    }

    /// Waits for the turn of a commit of this many bytes.
    ///
    /// # Errors
    /// 53400 when the tenant has written more than its rate.
    pub(crate) async fn commit_turn(self: &Arc<Self>, bytes: u64) -> Result<CommitTurn, SqlError> {
        let quotas = self.quotas();
        if let Some(per_second) = quotas.written_bytes_per_second {
            self.pause_for(errors::WRITE_RATE, per_second, &self.written).await?;
        }
        if !self.gate.is_open() {
            return Ok(CommitTurn { share: Arc::clone(self), cost: 0 });
        }
        let turn = CommitTurn { share: Arc::clone(self), cost: (bytes + COMMIT_BYTES) * NANOS_PER_BYTE };
        let waits = self.commits.enter(self.flow, self.weight(), self.began);
        match waits {
            None => Ok(turn),
            Some((receiver, number)) => {
                let mut waiting = CommitWaiting { turn: Some(turn), number, receiver };
                // The sender lives as long as the turn waits.
                let _ = (&mut waiting.receiver).await;
                Ok(waiting.turn.take().unwrap_or_else(|| CommitTurn { share: Arc::clone(self), cost: 0 }))
            }
        }
    }
}

/// A place in the queue. One that was given and not taken goes to the next.
struct Place {
    receiver: oneshot::Receiver<()>,
    share: Arc<Share>,
}

impl Future for Place {
    type Output = Result<(), oneshot::error::RecvError>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.receiver).poll(context)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.receiver.close();
        if self.receiver.try_recv().is_ok() {
            drop(Admitted(Arc::clone(&self.share)));
        }
    }
}

/// The order of commits before the log's queue.
#[derive(Debug)]
pub(super) struct CommitGate(Mutex<Commits>);

#[derive(Debug)]
struct Commits {
    schedule: Schedule<u64>,
    waiting: std::collections::HashMap<u64, oneshot::Sender<()>>,
    last: u64,
}

impl Default for CommitGate {
    fn default() -> Self {
        let schedule = Schedule::new(COMMITS_MAX, usize::MAX);
        Self(Mutex::new(Commits { schedule, waiting: std::collections::HashMap::new(), last: 0 }))
    }
}

impl CommitGate {
    fn enter(&self, flow: Flow, weight: u32, began: Instant) -> Option<(oneshot::Receiver<()>, u64)> {
        let mut commits = self.0.lock();
        let number = commits.last + 1;
        if commits.schedule.enter(flow, weight, nanos(began), || number) {
            return None;
        }
        commits.last = number;
        let (sender, receiver) = oneshot::channel();
        commits.waiting.insert(number, sender);
        Some((receiver, number))
    }

    fn leave(&self, flow: Flow, cost: u64, began: Instant) {
        let mut commits = self.0.lock();
        commits.schedule.leave(flow, cost, false, nanos(began));
        commits.grant();
    }
}

impl Commits {
    fn grant(&mut self) {
        while let Some((_, number)) = self.schedule.next() {
            // Whoever gives up withdraws its turn, or ends it: the receiver is there.
            if let Some(waiting) = self.waiting.remove(&number) {
                let _ = waiting.send(());
            }
        }
    }
}

fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A commit under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct CommitTurn {
    share: Arc<Share>,
    /// 0 for one that has taken no turn.
    cost: u64,
}

impl Drop for CommitTurn {
    fn drop(&mut self) {
        if self.cost > 0 {
            self.share.commits.leave(self.share.flow, self.cost, self.share.began);
        }
    }
}

/// A commit that waits for its turn.
struct CommitWaiting {
    turn: Option<CommitTurn>,
    number: u64,
    receiver: oneshot::Receiver<()>,
}

impl Drop for CommitWaiting {
    fn drop(&mut self) {
        let Some(mut turn) = self.turn.take() else { return };
        let share = Arc::clone(&turn.share);
        let mut commits = share.commits.0.lock();
        commits.waiting.remove(&self.number);
        // One that was granted meanwhile ends by the drop of its turn; another has none to end.
        if commits.schedule.withdraw(share.flow, &self.number) {
            turn.cost = 0;
        }
        drop(commits);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shares;
    use super::*;
    use futures::FutureExt;
    use keyspan_catalog::Quotas;

    fn limited(quotas: Quotas) -> Arc<Share> {
        let share = Shares::default().of(Some(20_000));
        share.set_quotas(quotas);
        share
    }

    #[tokio::test]
    async fn a_statement_waits_for_a_place_and_whoever_gives_up_gives_it_on() {
        let share = limited(Quotas { statements_max: Some(1), ..Quotas::default() });
        let first = share.try_admit().unwrap();
        assert!(share.try_admit().is_none());
        let (mut second, mut third) = (Box::pin(share.admit()), Box::pin(share.admit()));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        drop(second);
        let third = third.await.unwrap();
        assert_eq!(share.running.lock().count, 1);
        drop(third);
        assert_eq!(share.running.lock().count, 0);
        assert_eq!(share.counters.statements.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let share = limited(Quotas { statements_max: Some(0), ..Quotas::default() });
        let mut waiting: Vec<_> = (0..QUEUE_MAX).map(|_| Box::pin(share.admit())).collect();
        waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        let error = share.admit().await.unwrap_err();
        assert_eq!(error.state.0, "53400");
        waiting.pop();
        assert!(share.admit().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_dry_run_counts_what_it_would_refuse() {
        let share = limited(Quotas { statements_max: Some(0), dryrun: true, ..Quotas::default() });
        let admitted = share.admit().await.unwrap();
        assert_eq!(share.counters.dryrun_refusals.load(Ordering::Relaxed), 1);
        drop(admitted);
        assert_eq!(share.running.lock().count, 0);
    }

    #[tokio::test]
    async fn commits_beyond_the_bound_take_turns() {
        let shares = Shares::default();
        let (busy, quiet) = (shares.of(Some(1)), shares.of(Some(2)));
        let first = quiet.commit_turn(1).await.unwrap();
        let mut running = Vec::new();
        for _ in 1..COMMITS_MAX {
            running.push(busy.commit_turn(1).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(busy.commit_turn(1))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(quiet.commit_turn(1));
        assert!(other.as_mut().now_or_never().is_none());
        // The busy one's time goes on with the first that end: the quiet one is next.
        running.truncate(COMMITS_MAX / 2);
        assert!(other.as_mut().now_or_never().is_some());
        // One that gives up leaves its turn to others.
        drop(waiting);
        drop((first, running, other));
        let commits = busy.commits.0.lock();
        assert!(commits.waiting.is_empty() && commits.schedule.waiting() == 0);
    }
}
