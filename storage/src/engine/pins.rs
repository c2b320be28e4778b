//! Pins: states that stay readable for a bounded time.
//!
//! A pin keeps the files of its state. [`Pins::expire`] takes the state away from pins older than the maximum age, so
//! that a forgotten pin does not keep files for good; later reads return [`Error::PinExpired`].

use super::state::State;
use crate::{Error, Result};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

/// Number of pins after which dropped ones are removed from the list.
const SWEEP_PINS: usize = 1_024;
/// Microseconds in a second.
const SECOND_MICROS: i64 = 1_000_000;

/// A state that a pin holds until it expires.
#[derive(Debug)]
pub(crate) struct PinnedState {
    state: Mutex<Option<Arc<State>>>,
    taken_micros: i64,
    /// Whether commits with stamps up to the pin's time may have been in progress.
    unsettled: bool,
    /// Whether it never expires.
    lasting: bool,
    /// A state that includes them, once it was needed.
    settled: Mutex<Option<Arc<State>>>,
    expired: OnceLock<Expired>,
}

#[derive(Clone, Copy, Debug)]
struct Expired {
    age_seconds: u64,
    age_seconds_max: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that panics runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PinnedState {
    /// Whether commits with stamps up to the pin's time may be missing in the state.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled
    }

    /// The state that includes these commits: the one set by the first call.
    ///
    /// # Errors
    /// [`Error::PinExpired`].
    pub(crate) fn settled(&self, state: Arc<State>) -> Result<Arc<State>> {
        let mut settled = locked(&self.settled);
        self.state()?;
        Ok(Arc::clone(settled.get_or_insert(state)))
    }

    /// The state.
    ///
    /// # Errors
    /// [`Error::PinExpired`].
    pub(crate) fn state(&self) -> Result<Arc<State>> {
        locked(&self.state).clone().ok_or_else(|| {
            let Expired { age_seconds, age_seconds_max } =
                *self.expired.get().expect("it is set before the state goes");
            Error::PinExpired { age_seconds, age_seconds_max }
        })
    }
}

/// The pins that may be in use, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pins(Mutex<VecDeque<Weak<PinnedState>>>);

impl Pins {
    /// Those that are in use.
    pub(crate) fn count(&self) -> u64 {
        self.pins().iter().filter(|pin| pin.strong_count() > 0).count() as u64
    }

    fn pins(&self) -> MutexGuard<'_, VecDeque<Weak<PinnedState>>> {
        locked(&self.0)
    }

    /// Pins a state; `unsettled` if commits with stamps up to now may be in progress.
    pub(crate) fn hold(&self, state: Arc<State>, now_micros: i64, unsettled: bool) -> Arc<PinnedState> {
        let (state, settled, expired) = (Mutex::new(Some(state)), Mutex::default(), OnceLock::new());
        let lasting = false;
        self.add(PinnedState { state, taken_micros: now_micros, unsettled, lasting, settled, expired })
    }

    /// As [`hold`](Self::hold), for a pin that does not expire.
    pub(crate) fn hold_for_good(&self, state: Arc<State>, now_micros: i64, unsettled: bool) -> Arc<PinnedState> {
        let (state, settled, expired) = (Mutex::new(Some(state)), Mutex::default(), OnceLock::new());
        let lasting = true;
        self.add(PinnedState { state, taken_micros: now_micros, unsettled, lasting, settled, expired })
    }

    fn add(&self, held: PinnedState) -> Arc<PinnedState> {
        let held = Arc::new(held);
        let mut pins = self.pins();
        while pins.front().is_some_and(|pin| pin.strong_count() == 0) {
            pins.pop_front();
        }
        if pins.len() % SWEEP_PINS == SWEEP_PINS - 1 {
            pins.retain(|pin| pin.strong_count() > 0);
        }
        pins.push_back(Arc::downgrade(&held));
        held
    }

    /// Takes the state from every pin older than the maximum age; returns their number.
    pub(crate) fn expire(&self, now_micros: i64, age_max_micros: i64) -> usize {
        let seconds = |micros: i64| u64::try_from(micros / SECOND_MICROS).unwrap_or_default();
        let pins = self.pins();
        let is_old = |held: &Arc<PinnedState>| !held.lasting && now_micros - held.taken_micros > age_max_micros;
        let old = pins.iter().filter_map(Weak::upgrade).filter(is_old);
        let expired = old.filter(|held| {
            let age_seconds = seconds(now_micros - held.taken_micros);
            held.expired.get_or_init(|| Expired { age_seconds, age_seconds_max: seconds(age_max_micros) });
            let was_held = locked(&held.state).take().is_some();
            locked(&held.settled).take();
            was_held
        });
        expired.count()
    }
}
