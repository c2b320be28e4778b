//! A bound of bytes a second, as a debt that time pays off.
//!
//! Whoever reads learns afterwards how much it was. So bytes are counted when they were read, and who has read more
//! than a second's worth pauses before it goes on: a token bucket that may go below zero. A pure value; time is an
//! argument.

use std::time::Duration;

/// A statement that would pause longer than this fails; so a debt is bounded, too.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    /// Bytes that are not paid off, as of `at`.
    debt: f64,
    /// Since some moment.
    at: Duration,
}

impl Rate {
    /// Counts bytes at a moment.
    pub(crate) fn count(&mut self, bytes: u64, per_second: u64, at: Duration) {
        self.pay(per_second, at);
        self.debt += bytes as f64;
    }

    /// How long to pause at a moment until the next may be read.
    pub(crate) fn pause(&mut self, per_second: u64, at: Duration) -> Duration {
        self.pay(per_second, at);
        let over = self.debt - per_second as f64;
        if over <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(over / per_second.max(1) as f64).unwrap_or(Duration::MAX)
    }

    fn pay(&mut self, per_second: u64, at: Duration) {
        let paid = at.saturating_sub(self.at).as_secs_f64() * per_second as f64;
        self.debt = (self.debt - paid).max(0.0);
        self.at = self.at.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_debt_is_paid_off_by_time() {
        let (mut rate, second) = (Rate::default(), Duration::from_secs(1));
        rate.count(100, 100, second);
        assert_eq!(rate.pause(100, second), Duration::ZERO);
        rate.count(250, 100, second);
        assert_eq!(rate.pause(100, second), Duration::from_millis(2_500));
        assert_eq!(rate.pause(100, 2 * second), Duration::from_millis(1_500));
        assert_eq!(rate.pause(1_000, 2 * second), Duration::ZERO);
        assert_eq!(rate.pause(100, 5 * second), Duration::ZERO);
        // The clock of the caller does not go back.
        assert_eq!(rate.pause(100, second), Duration::ZERO);
    }

    proptest! {
        /// Who pauses as asked reads no more than the rate, the first second's and the last piece aside.
        #[test]
        fn a_rate_holds(pieces in prop::collection::vec(1_u64..5_000, 1..200), per_second in 100_u64..10_000) {
            let (mut rate, mut at, mut read) = (Rate::default(), Duration::ZERO, 0);
            for piece in pieces {
                at += rate.pause(per_second, at);
                let most = at.as_secs_f64() * per_second as f64 + per_second as f64;
                prop_assert!(read as f64 <= most + 1.0, "{read} after {at:?}");
                rate.count(piece, per_second, at);
                read += piece;
            }
        }
    }
}
