//! Time, passed in as an argument.
//!
//! A [`Clock`] only reads the wall time. Commits are stamped by the [`HybridClock`] over it, which never repeats and
//! never goes back, whatever the wall clock does.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Reads the wall time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Microseconds since 1970-01-01 UTC.
    fn now_micros(&self) -> i64;

    /// Microseconds since some moment, by a clock that no one sets; it may stand still while the machine sleeps. A
    /// clock that has no other gives the wall time: it is trusted whatever it says.
    fn elapsed_micros(&self) -> i64 {
        self.now_micros()
    }

    /// Microseconds that the machine has slept since some moment, as far as the system tells. May read a file.
    fn slept_micros(&self) -> i64 {
        0
    }
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

    fn elapsed_micros(&self) -> i64 {
        elapsed_since(&start().0)
    }

    fn slept_micros(&self) -> i64 {
        let (started, up_then) = start();
        let up = uptime_micros().zip(*up_then).map(|(now, then)| now - then);
        up.map_or(0, |up| (up - elapsed_since(started)).max(0))
    }
}

/// When the process first asked, and for how long the machine had been up then, its sleep included.
fn start() -> &'static (Instant, Option<i64>) {
    static START: OnceLock<(Instant, Option<i64>)> = OnceLock::new();
    START.get_or_init(|| (Instant::now(), uptime_micros()))
}

fn elapsed_since(start: &Instant) -> i64 {
    i64::try_from(start.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// How long the machine has been up, in microseconds: Linux counts sleep. `None` elsewhere.
fn uptime_micros() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e6) as i64)
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

    fn elapsed_micros(&self) -> i64 {
        self.as_ref().elapsed_micros()
    }

    fn slept_micros(&self) -> i64 {
        self.as_ref().slept_micros()
    }
}

/// A clock for tests, whose wall time can be wrong: what has passed is that of another clock.
#[cfg(feature = "testing")]
#[derive(Debug, Default)]
pub struct WrongClock {
    /// What has passed.
    pub true_time: ManualClock,
    /// How far the wall time is ahead of that, in microseconds.
    pub ahead: ManualClock,
    /// How long the machine has slept, in microseconds.
    pub slept: ManualClock,
}

#[cfg(feature = "testing")]
impl Clock for WrongClock {
    fn now_micros(&self) -> i64 {
        self.true_time.now_micros() + self.ahead.now_micros()
    }

    fn elapsed_micros(&self) -> i64 {
        self.true_time.now_micros()
    }

    fn slept_micros(&self) -> i64 {
        self.slept.now_micros()
    }
}

/// How far the wall clock may run ahead of the time that has passed by [`Clock::elapsed_micros`] while the store is
/// open, in microseconds: an hour. Time services correct seconds, not hours.
pub const CLOCK_JUMP_MAX_MICROS: i64 = 3_600_000_000;
/// How far the wall clock may be ahead of the last stamp when a store is opened, in microseconds: 30 days. Nothing
/// tells how long a store was closed, so this is as long as servers are usually off.
pub const CLOCK_GAP_MAX_MICROS: i64 = 30 * 86_400_000_000;

/// Stamps commits: the wall time, but at least a microsecond later than every earlier stamp.
///
/// A backend that persists stamps passes the last one at start-up, so that a wall clock set back across a restart does
/// no harm.
///
/// # A wall clock that is ahead
///
/// A stamp moves this clock for good, and rules by age judge by it. So a wall clock that is years ahead for a moment
/// would condemn every row with an age, for ever. The clock therefore compares the wall time with a *reckoning*: the
/// last wall time that it trusted, plus what has passed since by a clock that no one sets and what the machine slept. A
/// wall time beyond the reckoning by more than [`CLOCK_JUMP_MAX_MICROS`] is *held*: stamps and rules go on by the
/// reckoning, until the wall time is within the bound again, or [`confirm`](Self::confirm) says that it is right.
///
/// A store that is opened has no reckoning, but its last stamp. A gap of up to [`CLOCK_GAP_MAX_MICROS`] is taken for
/// the time that the store was closed; a longer one is held. A new store has no stamp, and takes any wall time. A wall
/// clock that is behind is waited for, as before: stamps stand still but for their microsecond.
///
/// Why not wait for a while and then trust: a machine whose clock is wrong may stay so for longer than any pause, and
/// what a rule has condemned does not come back. The price of holding is that new stamps are too early until someone
/// looks; nothing is lost by that.
#[derive(Debug)]
pub struct HybridClock {
    wall: Box<dyn Clock>,
    last: AtomicI64,
    /// The greatest trusted wall time minus the elapsed time at that moment: with the elapsed time, the reckoning.
    offset: AtomicI64,
    /// How long the machine had slept at that moment.
    slept: AtomicI64,
    /// How far the wall time may be beyond the reckoning: [`CLOCK_GAP_MAX_MICROS`] until the first trusted wall time.
    bound: AtomicI64,
    is_held: AtomicBool,
}

/// What a [`HybridClock`] goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockInfo {
    /// The time by which commits are stamped and rules judge, in microseconds.
    pub store_micros: i64,
    /// The wall time, in microseconds.
    pub wall_micros: i64,
    /// Whether the wall time is held: too far ahead to be trusted.
    pub is_held: bool,
}

impl HybridClock {
    /// A clock whose stamps come after `last_micros`, the greatest stamp ever given; 0 for a new store.
    pub fn new(wall: Box<dyn Clock>, last_micros: i64) -> Self {
        let is_new = last_micros <= 0;
        let offset = if is_new { i64::MIN / 2 } else { last_micros.saturating_sub(wall.elapsed_micros()) };
        Self {
            wall,
            last: AtomicI64::new(last_micros),
            offset: AtomicI64::new(offset),
            slept: AtomicI64::new(0),
            bound: AtomicI64::new(if is_new { i64::MAX } else { CLOCK_GAP_MAX_MICROS }),
            is_held: AtomicBool::new(false),
        }
    }

    /// The stamp for the next commit: max(now, last + 1 µs).
    pub fn stamp(&self) -> i64 {
        let now = self.trusted();
        let next = |last: i64| now.max(last + 1);
        let last = self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    /// The time by which GC judges: never before the last stamp, and never going back.
    pub fn now(&self) -> i64 {
        self.last.fetch_max(self.trusted(), Ordering::SeqCst);
        self.last.load(Ordering::SeqCst)
    }

    /// Trusts the wall time as it is now, however far it is ahead. For operators who have looked at it.
    pub fn confirm(&self) -> ClockInfo {
        let (wall, elapsed) = (self.wall.now_micros(), self.wall.elapsed_micros());
        self.slept.fetch_max(self.wall.slept_micros(), Ordering::SeqCst);
        self.trust(wall, elapsed);
        self.info()
    }

    /// What the clock goes by.
    pub fn info(&self) -> ClockInfo {
        let store_micros = self.now();
        let is_held = self.is_held.load(Ordering::SeqCst);
        ClockInfo { store_micros, wall_micros: self.wall.now_micros(), is_held }
    }

    /// The wall time, or the reckoning if the wall time is too far ahead of it.
    fn trusted(&self) -> i64 {
        let (wall, elapsed) = (self.wall.now_micros(), self.wall.elapsed_micros());
        let reckoning = self.offset.load(Ordering::SeqCst).saturating_add(elapsed);
        // A stamp may be ahead of the reckoning: each is a microsecond more at least.
        let base = reckoning.max(self.last.load(Ordering::SeqCst));
        if wall <= base.saturating_add(self.bound.load(Ordering::SeqCst)) {
            if wall >= reckoning {
                self.trust(wall, elapsed);
            } else if self.is_held.swap(false, Ordering::SeqCst) {
                tracing::info!("the wall clock is right again");
            }
            return wall;
        }
        // The machine may have slept: the system knows for how long.
        let slept = self.wall.slept_micros();
        let since = slept.saturating_sub(self.slept.load(Ordering::SeqCst));
        if wall <= base.saturating_add(since).saturating_add(CLOCK_JUMP_MAX_MICROS) {
            self.slept.fetch_max(slept, Ordering::SeqCst);
            self.trust(wall, elapsed);
            return wall;
        }
        if !self.is_held.swap(true, Ordering::SeqCst) {
            let ahead_seconds = wall.saturating_sub(base) / 1_000_000;
            tracing::error!(
                ahead_seconds,
                "the wall clock is further ahead than time has passed: the store goes on by its own reckoning until \
                 the wall clock is right, or an operator confirms it with ALTER SYSTEM CONFIRM CLOCK"
            );
        }
        reckoning
    }

    fn trust(&self, wall: i64, elapsed: i64) {
        self.offset.fetch_max(wall.saturating_sub(elapsed), Ordering::SeqCst);
        self.bound.store(CLOCK_JUMP_MAX_MICROS, Ordering::SeqCst);
        if self.is_held.swap(false, Ordering::SeqCst) {
            tracing::info!("the wall clock is trusted again");
        }
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

    const HOUR: i64 = 3_600_000_000;
    const DAY: i64 = 24 * HOUR;

    fn wrong(last_micros: i64, now_micros: i64) -> (Arc<WrongClock>, HybridClock) {
        let wall = Arc::new(WrongClock::default());
        wall.true_time.set(now_micros);
        (wall.clone(), HybridClock::new(Box::new(wall), last_micros))
    }

    #[test]
    fn a_jump_is_held_until_the_wall_clock_is_right() {
        let (wall, clock) = wrong(0, 1_000 * DAY);
        assert_eq!(clock.now(), 1_000 * DAY);
        wall.ahead.set(400 * DAY);
        wall.true_time.advance(HOUR);
        assert_eq!(clock.now(), 1_000 * DAY + HOUR);
        assert_eq!(clock.stamp(), 1_000 * DAY + HOUR + 1);
        assert!(clock.info().is_held);
        wall.ahead.set(0);
        wall.true_time.advance(HOUR);
        assert_eq!(clock.stamp(), 1_000 * DAY + 2 * HOUR);
        assert!(!clock.info().is_held);
    }

    #[test]
    fn time_without_commits_is_no_jump() {
        let (wall, clock) = wrong(0, 1_000 * DAY);
        clock.stamp();
        wall.true_time.advance(300 * DAY);
        assert_eq!(clock.stamp(), 1_300 * DAY);
        // Small corrections are followed.
        wall.ahead.set(CLOCK_JUMP_MAX_MICROS);
        assert_eq!(clock.now(), 1_300 * DAY + CLOCK_JUMP_MAX_MICROS);
    }

    #[test]
    fn an_operator_confirms_a_jump() {
        let (wall, clock) = wrong(0, 1_000 * DAY);
        clock.stamp();
        wall.ahead.set(400 * DAY);
        assert_eq!(clock.info(), ClockInfo { store_micros: 1_000 * DAY, wall_micros: 1_400 * DAY, is_held: true });
        assert_eq!(clock.confirm(), ClockInfo { store_micros: 1_400 * DAY, wall_micros: 1_400 * DAY, is_held: false });
        wall.true_time.advance(HOUR);
        assert_eq!(clock.stamp(), 1_400 * DAY + HOUR);
    }

    #[test]
    fn a_store_that_was_closed_for_weeks_takes_the_time_that_it_finds() {
        let (_, clock) = wrong(1_000 * DAY, 1_000 * DAY + CLOCK_GAP_MAX_MICROS);
        assert_eq!(clock.now(), 1_000 * DAY + CLOCK_GAP_MAX_MICROS);
        let (wall, clock) = wrong(1_000 * DAY, 1_000 * DAY + CLOCK_GAP_MAX_MICROS + 1);
        assert_eq!((clock.now(), clock.info().is_held), (1_000 * DAY, true));
        wall.true_time.advance(HOUR);
        assert_eq!(clock.stamp(), 1_000 * DAY + HOUR);
    }

    #[test]
    fn a_machine_that_slept_is_believed_once() {
        let (wall, clock) = wrong(0, 1_000 * DAY);
        clock.stamp();
        wall.ahead.set(3 * DAY);
        wall.slept.set(3 * DAY);
        assert_eq!((clock.now(), clock.info().is_held), (1_003 * DAY, false));
        wall.ahead.set(6 * DAY);
        assert_eq!((clock.now(), clock.info().is_held), (1_003 * DAY, true));
    }

    #[test]
    fn a_clock_that_starts_in_1970_may_be_set_once() {
        let (wall, clock) = wrong(1_000 * DAY, 0);
        assert_eq!(clock.now(), 1_000 * DAY);
        wall.ahead.set(1_003 * DAY);
        assert_eq!((clock.now(), clock.info().is_held), (1_003 * DAY, false));
    }
}
