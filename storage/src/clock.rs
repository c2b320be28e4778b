//! Time, passed in as an argument.
//!
//! A [`Clock`] only reads the wall time. Commits are stamped by the [`HybridClock`] over it, which never repeats and
//! never goes back, whatever the wall clock does.

use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

/// Reads the wall time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Microseconds since 1970-01-01 UTC.
    fn now_micros(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

/// A clock for tests, which moves only when it is set.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at the given microseconds.
    pub fn new(now_micros: i64) -> Self {
        Self(AtomicI64::new(now_micros))
    }

    /// Sets the time, backwards too.
    pub fn set(&self, now_micros: i64) {
        self.0.store(now_micros, Ordering::SeqCst);
    }

    /// Moves the time on.
    pub fn advance(&self, by_micros: i64) {
        self.0.fetch_add(by_micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl<C: Clock> Clock for std::sync::Arc<C> {
    fn now_micros(&self) -> i64 {
        self.as_ref().now_micros()
    }
}

/// Stamps commits: the wall time, but at least a microsecond later than every earlier stamp.
///
/// A backend that persists stamps passes the last one at start-up, so that a wall clock set back across a restart does
/// no harm.
#[derive(Debug)]
pub struct HybridClock {
    wall: Box<dyn Clock>,
    last: AtomicI64,
}

impl HybridClock {
    /// A clock whose stamps come after `last_micros`, the greatest stamp ever given.
    pub fn new(wall: Box<dyn Clock>, last_micros: i64) -> Self {
        Self { wall, last: AtomicI64::new(last_micros) }
    }

    /// The stamp for the next commit: max(now, last + 1 µs).
    pub fn stamp(&self) -> i64 {
        let now = self.wall.now_micros();
        let next = |last: i64| now.max(last + 1);
        let last = self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    /// The time by which GC judges: never before the last stamp, and never going back.
    pub fn now(&self) -> i64 {
        self.last.fetch_max(self.wall.now_micros(), Ordering::SeqCst);
        self.last.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn stamps_grow_when_the_wall_clock_does_not() {
        let wall = Arc::new(ManualClock::new(100));
        let clock = HybridClock::new(Box::new(wall.clone()), 0);
        assert_eq!((clock.stamp(), clock.stamp()), (100, 101));
        wall.set(50);
        assert_eq!((clock.stamp(), clock.now()), (102, 102));
        wall.set(200);
        assert_eq!((clock.now(), clock.stamp()), (200, 201));
    }
}
