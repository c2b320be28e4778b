//! The gate: turns on the threads of queries.
//!
//! A task of a query asks before each of its polls, which computes for about a batch, and says afterwards how long it
//! took (`Turns` in [`turns`](super::turns)). [`Schedule`] says who goes next.

use super::schedule::{Flow, Schedule};
use crate::lock::Mutex;
use futures::task::AtomicWaker;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

/// After this long a turn is overdue: others no longer wait for it.
pub(crate) const OVERDUE: Duration = Duration::from_millis(20);
/// Threads of queries beyond the slots: for turns that are overdue.
const THREADS_SPARE: usize = 2;
/// Slots on a machine of few cores.
const SLOTS_MIN: usize = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Gate {
    turns: Mutex<Turns>,
    began: Instant,
    /// Whether turns are taken at all: off for comparison only.
    open: AtomicBool,
}

#[derive(Debug)]
struct Turns {
    schedule: Schedule<Waiter>,
    /// The turns under way, as many as threads.
    held: Vec<Held>,
    last: u64,
}

#[derive(Debug)]
struct Held {
    number: u64,
    since: Instant,
    lent: bool,
}

/// Who waits for a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiter(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    granted: AtomicBool,
    waker: AtomicWaker,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Waiter {
    /// Whether the turn may begin; if not, the waker is woken when it may.
    pub(crate) fn is_granted(&self, waker: &Waker) -> bool {
        self.0.waker.register(waker);
        self.0.granted.load(Ordering::Acquire)
    }
}

/// A turn under way: ended by [`Gate::leave`].
#[derive(Debug)]
pub(crate) struct Turn {
    number: u64,
    since: Instant,
}

/// How many turns of all tenants run at a time while several want some: the cores.
pub(crate) fn slots() -> usize {
    std::thread::available_parallelism().map_or(SLOTS_MIN, usize::from).max(SLOTS_MIN)
}

/// How many threads of queries there are.
pub(crate) fn threads() -> usize {
    slots() + THREADS_SPARE
}

impl Default for Gate {
    fn default() -> Self {
        let schedule = Schedule::new(slots(), threads() - 1);
        Self {
            turns: Mutex::new(Turns { schedule, held: Vec::new(), last: 0 }),
            began: Instant::now(),
            open: AtomicBool::new(true),
        }
    }
}

impl Gate {
    /// Whether turns are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// No turns any more: queries run as they come.
    pub(crate) fn remove(&self) {
        self.open.store(false, Ordering::Relaxed);
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks for a turn: begins it, or gives whom to [wait](Waiter::is_granted) as.
    pub(crate) fn enter(&self, flow: Flow, weight: u32) -> Result<Turn, Waiter> {
        let now = Instant::now();
        let mut turns = self.turns.lock();
        let mut waiter = None;
        let make = || waiter.insert(Waiter::default()).clone();
        if turns.schedule.enter(flow, weight, self.nanos(now), make) {
            return Ok(turns.begin(now));
        }
        Err(waiter.unwrap_or_default())
    }

    /// Begins a turn that was granted.
    pub(crate) fn begin(&self) -> Turn {
        self.turns.lock().begin(Instant::now())
    }

    /// Ends a turn; gives how long it took.
    pub(crate) fn leave(&self, flow: Flow, turn: &Turn) -> Duration {
        let now = Instant::now();
        let took = now.saturating_duration_since(turn.since);
        let mut turns = self.turns.lock();
        let at = turns.held.iter().position(|held| held.number == turn.number);
        let lent = at.is_some_and(|at| turns.held.swap_remove(at).lent);
        let cost = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        turns.schedule.leave(flow, cost, lent, self.nanos(now));
        turns.grant();
        took
    }

    /// Gives up a wait.
    pub(crate) fn withdraw(&self, flow: Flow, waiter: &Waiter) {
        let now = self.nanos(Instant::now());
        let mut turns = self.turns.lock();
        // It was granted meanwhile: the turn ends before it began.
        if !turns.schedule.withdraw(flow, waiter) {
            turns.schedule.leave(flow, 0, false, now);
        }
        turns.grant();
    }

    /// Lends the slots of turns that are overdue.
    pub(crate) fn lend(&self) {
        let now = Instant::now();
        let mut turns = self.turns.lock();
        let Turns { schedule, held, .. } = &mut *turns;
        for held in held.iter_mut().filter(|held| !held.lent) {
            if now.saturating_duration_since(held.since) >= OVERDUE {
                held.lent = true;
                schedule.lend();
            }
        }
        turns.grant();
    }
}

impl Turns {
    fn begin(&mut self, now: Instant) -> Turn {
        self.last += 1;
        self.held.push(Held { number: self.last, since: now, lent: false });
        Turn { number: self.last, since: now }
    }

    fn grant(&mut self) {
        while let Some((_, waiter)) = self.schedule.next() {
            waiter.0.granted.store(true, Ordering::Release);
            waiter.0.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_on_and_none_is_lost() {
        let (gate, waker) = (Gate::default(), Waker::noop());
        let first: Vec<Turn> = (0..slots()).map(|_| gate.enter(1, 100).unwrap()).collect();
        let (second, third) = (gate.enter(2, 100).unwrap_err(), gate.enter(2, 100).unwrap_err());
        assert!(!second.is_granted(waker) && !third.is_granted(waker));
        gate.leave(1, &first[0]);
        assert!(second.is_granted(waker) && !third.is_granted(waker));
        // It goes before it has begun: the next has its turn.
        gate.withdraw(2, &second);
        assert!(third.is_granted(waker));
        let turn = gate.begin();
        gate.leave(2, &turn);
        for turn in &first[1..] {
            gate.leave(1, turn);
        }
        assert!(gate.turns.lock().held.is_empty());
        assert!(gate.enter(3, 100).is_ok());
    }
}
