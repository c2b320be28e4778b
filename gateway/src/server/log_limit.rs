//! One line of the log a second for what may happen thousands of times a second.

use crate::lock::Mutex;
use std::time::{Duration, Instant};

/// How long after a line the next one may follow.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Counts what happens between two lines of the log.
#[derive(Debug, Default)]
pub(super) struct LogLimit(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// When the last line was.
    line: Option<Instant>,
    /// What has happened since, in no line yet.
    since: u64,
}

impl LogLimit {
    /// Counts one; gives the number for a line, when it is time for one.
    pub(super) fn count(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock();
        counted.since += 1;
        if counted.line.is_some_and(|line| now.saturating_duration_since(line) < LINE_EVERY) {
            return None;
        }
        counted.line = Some(now);
        Some(std::mem::take(&mut counted.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_second_and_all_are_counted() {
        let (limit, now) = (LogLimit::default(), Instant::now());
        let at = |millis| limit.count(now + Duration::from_millis(millis));
        assert_eq!(at(0), Some(1));
        assert_eq!([at(1), at(500), at(999)], [None; 3]);
        assert_eq!([at(1_000), at(1_001), at(9_000)], [Some(4), None, Some(2)]);
    }
}
