//! How fast bulk writes may go, as the server says.
//!
//! A server that is near its limit sends a factor with the answers of MutateRows: the requests of the next period
//! should be that many times as many. Until then there is no limit.

use keyspan_bigtable_api::data::RateLimitInfo;
use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// Requests per second when a server asks for the first time.
const RATE_FIRST: f64 = 10.0;
/// Requests per second, at least.
const RATE_MIN: f64 = 0.1;
/// Requests per second, at most: as if there were no limit.
const RATE_MAX: f64 = 100_000.0;
/// How much one answer may change the rate, as Google's clients bound it.
const FACTORS: (f64, f64) = (0.7, 1.3);

/// The rate of the requests for bulk writes of one client.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Mutex<Option<Limit>>);

#[derive(Debug)]
struct Limit {
    per_second: f64,
    /// When the next request may go.
    next: Instant,
    /// Until when the rate stays.
    settled: Instant,
}

impl RateLimit {
    /// Waits until a request may go.
    pub(crate) async fn wait(&self) {
        if let Some(turn) = self.turn(Instant::now()) {
            sleep_until(turn).await;
        }
    }

    /// When the next request may go; `None` without a limit.
    fn turn(&self, now: Instant) -> Option<Instant> {
        let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = limit.as_mut()?;
        let turn = limit.next.max(now);
        limit.next = turn + Duration::from_secs_f64(1.0 / limit.per_second);
        Some(turn)
    }

    /// Takes what came with an answer.
    pub(crate) fn heed(&self, info: &RateLimitInfo, now: Instant) {
        let period = info.period.and_then(|period| Duration::try_from(period).ok());
        if !info.factor.is_finite() || info.factor <= 0.0 {
            return;
        }
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = held.get_or_insert(Limit { per_second: RATE_FIRST, next: now, settled: now });
        if now >= limit.settled {
            let rate = limit.per_second * info.factor.clamp(FACTORS.0, FACTORS.1);
            limit.per_second = rate.clamp(RATE_MIN, RATE_MAX);
            limit.settled = now + period.unwrap_or(Duration::from_secs(10)).min(Duration::from_secs(3_600));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(factor: f64) -> RateLimitInfo {
        RateLimitInfo { period: Some(prost_types::Duration { seconds: 10, nanos: 0 }), factor }
    }

    #[test]
    fn requests_are_spread() {
        let (rate, now) = (RateLimit::default(), Instant::now());
        assert_eq!(rate.turn(now), None, "nobody asked for less");
        rate.heed(&info(f64::NAN), now);
        rate.heed(&info(-1.0), now);
        assert_eq!(rate.turn(now), None, "no factor at all");
        // Ten a second become seven; the second factor comes too early.
        rate.heed(&info(0.1), now);
        rate.heed(&info(0.7), now);
        let last = (0..8).filter_map(|_| rate.turn(now)).last().unwrap();
        assert!(((last - now).as_secs_f64() - 1.0).abs() < 0.01, "7 pauses of 1/7 s: {:?}", last - now);
        let later = now + Duration::from_secs(10);
        rate.heed(&info(1.3), later);
        let last = (0..11).filter_map(|_| rate.turn(later)).last().unwrap();
        assert!(((last - later).as_secs_f64() - 10.0 / 9.1).abs() < 0.01, "{:?}", last - later);
    }
}
