//! What is tried again, when, and until when.
//!
//! An [`Operation`] counts the attempts of one call. [`again`](Operation::again) says after a failure how long to pause
//! before the next attempt, or gives the error back. The bound of the attempts is the operation's deadline.

use crate::Result;
use keyspan_bigtable_api::rpc;
use prost::Message;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{
    Code, Status,
    metadata::{KeyAndValueRef, MetadataMap},
};

/// The pause after the first failure, at most.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The pause after many, at most. What a server asks for may be longer.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Headers that a server gives back with a failure, for the next attempt to bring to the same place.
const COOKIE_PREFIX: &str = "x-goog-cbt-cookie";
/// Such headers that are kept; a server sends one.
const COOKIES_MAX: usize = 8;

/// The attempts of one call.
#[derive(Debug)]
pub struct Operation {
    timeout: Duration,
    attempt_timeout: Duration,
    deadline: Instant,
    failures: u32,
    random: SmallRng,
    cookies: MetadataMap,
}

impl Operation {
    /// An operation that begins at `now`.
    pub fn new(now: Instant, timeout: Duration, attempt_timeout: Duration, seed: u64) -> Self {
        let deadline = now + timeout;
        let random = SmallRng::seed_from_u64(seed);
        Self { timeout, attempt_timeout, deadline, failures: 0, random, cookies: MetadataMap::new() }
    }

    /// The attempts so far that failed since the last [progress](Self::progressed).
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long the next attempt may take.
    pub fn attempt_timeout(&self, now: Instant) -> Duration {
        self.attempt_timeout.min(self.deadline.saturating_duration_since(now))
    }

    /// Adds what the server wants back to the headers of an attempt.
    pub fn add_cookies(&self, headers: &mut MetadataMap) {
        for cookie in self.cookies.iter() {
            if let KeyAndValueRef::Ascii(key, value) = cookie {
                headers.insert(key.clone(), value.clone());
            }
        }
    }

    /// Notes that the operation went on: the deadline is as far away as at the beginning.
    pub fn progressed(&mut self, now: Instant) {
        self.failures = 0;
        self.deadline = now + self.timeout;
    }

    /// The pause before the next attempt.
    ///
    /// # Errors
    /// The `failure` if it is final, or would be tried again past the deadline.
    pub fn again(&mut self, failure: Status, now: Instant) -> Result<Duration> {
        let asked = asked_pause(&failure);
        if asked.is_none() && !is_transient(&failure) {
            return Err(failure.into());
        }
        let most = PAUSE_MIN.saturating_mul(1 << self.failures.min(20)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        let pause = asked.unwrap_or_else(|| most.mul_f64(self.random.random_range(0.5..1.0)));
        if now + pause >= self.deadline {
            return Err(failure.into());
        }
        self.keep_cookies(failure.metadata());
        tracing::debug!(code = ?failure.code(), message = failure.message(), ?pause, "Bigtable is asked again");
        Ok(pause)
    }

    fn keep_cookies(&mut self, from: &MetadataMap) {
        for entry in from.iter() {
            if let KeyAndValueRef::Ascii(key, value) = entry
                && key.as_str().starts_with(COOKIE_PREFIX)
                && (self.cookies.len() < COOKIES_MAX || self.cookies.contains_key(key))
            {
                self.cookies.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The failure of an attempt that has taken too long.
pub fn timed_out() -> Status {
    Status::deadline_exceeded("the server has not answered in time")
}

/// Whether another attempt may succeed, for a request that may be repeated without harm.
pub fn is_transient(failure: &Status) -> bool {
    // Proxies on the way give INTERNAL for streams that they lost; these are the words in Google's clients.
    const LOST: [&str; 4] = ["rst_stream", "rst stream", "received unexpected eos", "stream terminated"];
    match failure.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Aborted => true,
        Code::Internal => {
            let message = failure.message().to_ascii_lowercase();
            LOST.iter().any(|lost| message.contains(lost))
        }
        _ => false,
    }
}

/// The pause that the server asks for, in the details of its status.
pub fn asked_pause(failure: &Status) -> Option<Duration> {
    let details = rpc::Status::decode(failure.details()).ok()?.details;
    let info = details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let pause = rpc::RetryInfo::decode(info.value.as_ref()).ok()?.retry_delay.unwrap_or_default();
    Duration::try_from(pause).ok()
}

/// The status of one entry of an answer.
pub fn status_of(entry: &rpc::Status) -> Status {
    let details = entry.encode_to_vec();
    Status::with_details(Code::from_i32(entry.code), entry.message.clone(), details.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(now: Instant) -> Operation {
        Operation::new(now, Duration::from_secs(60), Duration::from_secs(20), 7)
    }

    fn asking(code: Code, seconds: i64) -> Status {
        let info = rpc::RetryInfo { retry_delay: Some(prost_types::Duration { seconds, nanos: 0 }) };
        let any = prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
            value: info.encode_to_vec(),
        };
        status_of(&rpc::Status { code: code as i32, message: "wait".into(), details: vec![any] })
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let began = Instant::now();
        let (mut operation, mut now, mut pauses) = (operation(began), began, Vec::new());
        while let Ok(pause) = operation.again(Status::unavailable(""), now) {
            now += pause;
            pauses.push(pause);
        }
        assert!(pauses[0] <= PAUSE_MIN && pauses[0] >= PAUSE_MIN / 2, "{pauses:?}");
        assert!(pauses[9] >= PAUSE_MIN * 256, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= PAUSE_MAX), "{pauses:?}");
        let all = now - began;
        assert!(all < Duration::from_secs(60) && all > Duration::from_secs(45), "{all:?}");
    }

    #[test]
    fn a_server_says_how_long_and_whether() {
        let now = Instant::now();
        let again = |failure| operation(now).again(failure, now).ok();
        assert_eq!(again(asking(Code::Unavailable, 3)), Some(Duration::from_secs(3)));
        assert_eq!(again(asking(Code::ResourceExhausted, 3)), Some(Duration::from_secs(3)));
        assert_eq!(again(asking(Code::Unavailable, 61)), None, "past the deadline");
        assert_eq!(again(Status::resource_exhausted("")), None);
        assert_eq!(again(Status::internal("a bug")), None);
        assert!(again(Status::internal("Received RST_STREAM with code 2")).is_some());
    }

    #[test]
    fn progress_moves_the_deadline() {
        let now = Instant::now();
        let (mut operation, later) = (operation(now), now + Duration::from_secs(59));
        assert_eq!(operation.attempt_timeout(later), Duration::from_secs(1));
        operation.progressed(later);
        assert_eq!(operation.attempt_timeout(later), Duration::from_secs(20));
    }

    #[test]
    fn cookies_go_back() {
        let now = Instant::now();
        let mut operation = operation(now);
        let mut failure = Status::unavailable("");
        failure.metadata_mut().insert("x-goog-cbt-cookie-routing", "there".parse().unwrap());
        failure.metadata_mut().insert("x-other", "no".parse().unwrap());
        operation.again(failure, now).unwrap();
        let mut headers = MetadataMap::new();
        operation.add_cookies(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers.get("x-goog-cbt-cookie-routing").unwrap(), "there");
    }
}
