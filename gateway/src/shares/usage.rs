//! What a tenant has used, by minute: the rows of `keyspan.usage`.
//!
//! [`Counters`] only grow. When a minute is over their growth becomes a line of [`Minutes`]; the line of the running
//! minute is what they have grown since. So the sum of all lines is what the counters say, with what was
//! [remembered](Minutes::remember) of before the server's start, as long as no line was dropped for its age.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

/// Lines of a tenant: those of the last day.
pub(crate) const LINES_MAX: usize = 24 * 60;
/// A minute.
pub(crate) const MINUTE_MICROS: i64 = 60_000_000;

/// What was used since the server's start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) statements: AtomicU64,
    pub(crate) rows_read: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) rows_written: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) busy_nanos: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) dryrun_refusals: AtomicU64,
}

/// The counters at a moment, or their growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) statements: u64,
    pub(crate) rows_read: u64,
    pub(crate) bytes_read: u64,
    pub(crate) rows_written: u64,
    pub(crate) bytes_written: u64,
    pub(crate) busy_nanos: u64,
    pub(crate) refusals: u64,
    pub(crate) dryrun_refusals: u64,
}

impl Counters {
    pub(crate) fn amounts(&self) -> Amounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Amounts {
            statements: of(&self.statements),
            rows_read: of(&self.rows_read),
            bytes_read: of(&self.bytes_read),
            rows_written: of(&self.rows_written),
            bytes_written: of(&self.bytes_written),
            busy_nanos: of(&self.busy_nanos),
            refusals: of(&self.refusals),
            dryrun_refusals: of(&self.dryrun_refusals),
        }
    }
}

impl Amounts {
    /// The sum of both.
    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            statements: self.statements + more.statements,
            rows_read: self.rows_read + more.rows_read,
            bytes_read: self.bytes_read + more.bytes_read,
            rows_written: self.rows_written + more.rows_written,
            bytes_written: self.bytes_written + more.bytes_written,
            busy_nanos: self.busy_nanos + more.busy_nanos,
            refusals: self.refusals + more.refusals,
            dryrun_refusals: self.dryrun_refusals + more.dryrun_refusals,
        }
    }

    /// Each of them, in the order of the definition.
    pub(crate) fn array(self) -> [u64; 8] {
        let Self {
            statements,
            rows_read,
            bytes_read,
            rows_written,
            bytes_written,
            busy_nanos,
            refusals,
            dryrun_refusals,
        } = self;
        [statements, rows_read, bytes_read, rows_written, bytes_written, busy_nanos, refusals, dryrun_refusals]
    }

    /// The same back.
    pub(crate) fn of_array(all: [u64; 8]) -> Self {
        let [statements, rows_read, bytes_read, rows_written, bytes_written, busy_nanos, refusals, dryrun_refusals] =
            all;
        Self { statements, rows_read, bytes_read, rows_written, bytes_written, busy_nanos, refusals, dryrun_refusals }
    }

    fn since(self, before: Self) -> Self {
        Self {
            statements: self.statements - before.statements,
            rows_read: self.rows_read - before.rows_read,
            bytes_read: self.bytes_read - before.bytes_read,
            rows_written: self.rows_written - before.rows_written,
            bytes_written: self.bytes_written - before.bytes_written,
            busy_nanos: self.busy_nanos - before.busy_nanos,
            refusals: self.refusals - before.refusals,
            dryrun_refusals: self.dryrun_refusals - before.dryrun_refusals,
        }
    }
}

/// What was used in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// When the minute began, in microseconds since 1970.
    pub(crate) minute_micros: i64,
    pub(crate) amounts: Amounts,
    /// Bytes of stored rows as they were last measured, if they were.
    pub(crate) stored_bytes: Option<u64>,
}

/// The lines of a tenant, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Minutes {
    lines: VecDeque<Line>,
    /// The running minute, and the counters when it began; 0 before the first, which has all that was used until then.
    minute_micros: i64,
    before: Amounts,
    /// The last measure of stored bytes.
    pub(crate) stored_bytes: Option<u64>,
}

impl Minutes {
    /// Takes lines of before the server's start, in order: before anything is used.
    pub(crate) fn remember(&mut self, lines: Vec<Line>) {
        self.stored_bytes = self.stored_bytes.or(lines.last().and_then(|line| line.stored_bytes));
        self.lines = lines.into();
    }

    /// Ends the running minute if it is over. Minutes in which nothing was used have no line.
    pub(crate) fn roll(&mut self, now: Amounts, now_micros: i64) {
        let minute_micros = now_micros - now_micros.rem_euclid(MINUTE_MICROS);
        if minute_micros <= self.minute_micros {
            return;
        }
        if self.minute_micros == 0 {
            self.minute_micros = minute_micros;
            return;
        }
        if now != self.before {
            let line = self.running(now);
            if self.lines.back().is_some_and(|last| last.minute_micros >= line.minute_micros) {
                self.lines.pop_back();
            }
            self.lines.push_back(line);
        }
        let oldest = minute_micros - LINES_MAX as i64 * MINUTE_MICROS;
        while self.lines.front().is_some_and(|line| line.minute_micros < oldest) {
            self.lines.pop_front();
        }
        (self.minute_micros, self.before) = (minute_micros, now);
    }

    /// All lines, that of the running minute last.
    pub(crate) fn lines(&mut self, now: Amounts, now_micros: i64) -> Vec<Line> {
        self.roll(now, now_micros);
        let running = (now != self.before).then(|| self.running(now));
        let before = self.lines.iter().filter(|line| running.is_none_or(|of| line.minute_micros < of.minute_micros));
        before.copied().chain(running).collect()
    }

    /// The line of the running minute. A server that was started again in a minute goes on with it, and so does one
    /// whose clock was set back.
    fn running(&self, now: Amounts) -> Line {
        let (stored_bytes, amounts) = (self.stored_bytes, now.since(self.before));
        match self.lines.back().filter(|last| last.minute_micros >= self.minute_micros) {
            Some(last) => Line { amounts: last.amounts.and(amounts), stored_bytes, ..*last },
            None => Line { minute_micros: self.minute_micros, amounts, stored_bytes },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_have_a_bound_by_age() {
        let (mut minutes, mut now) = (Minutes::default(), Amounts::default());
        for minute in 1..=2 * LINES_MAX as i64 {
            minutes.roll(now, minute * MINUTE_MICROS + 1);
            now.statements += 1;
        }
        let lines = minutes.lines(now, 2 * LINES_MAX as i64 * MINUTE_MICROS + 2);
        assert_eq!((lines.len(), lines[0].minute_micros), (LINES_MAX + 1, LINES_MAX as i64 * MINUTE_MICROS));
        // Long after nothing is left.
        assert_eq!(minutes.lines(now, 9 * LINES_MAX as i64 * MINUTE_MICROS), []);
    }

    #[test]
    fn what_was_used_before_the_first_look_counts() {
        let (mut minutes, now) = (Minutes::default(), Amounts { statements: 3, ..Amounts::default() });
        assert_eq!(minutes.lines(now, 77 * MINUTE_MICROS + 5)[0].amounts.statements, 3);
        let later = minutes.lines(now, 78 * MINUTE_MICROS);
        assert_eq!((later.len(), later[0].minute_micros), (1, 77 * MINUTE_MICROS));
    }

    #[test]
    fn what_was_used_before_the_start_is_remembered() {
        let line = |minute: i64, statements| Line {
            minute_micros: minute * MINUTE_MICROS,
            amounts: Amounts { statements, ..Amounts::default() },
            stored_bytes: Some(7),
        };
        let mut minutes = Minutes::default();
        minutes.remember(vec![line(70, 1), line(77, 2)]);
        let now = Amounts { statements: 3, ..Amounts::default() };
        // The minute of the restart goes on.
        assert_eq!(minutes.lines(now, 77 * MINUTE_MICROS + 5), [line(70, 1), line(77, 5)]);
        assert_eq!(minutes.lines(now, 78 * MINUTE_MICROS), [line(70, 1), line(77, 5)]);
        let later = Amounts { statements: 4, ..Amounts::default() };
        assert_eq!(minutes.lines(later, 79 * MINUTE_MICROS), [line(70, 1), line(77, 5), line(78, 1)]);
        // A clock that was set back.
        let mut minutes = Minutes::default();
        minutes.remember(vec![line(90, 1)]);
        assert_eq!(minutes.lines(now, 80 * MINUTE_MICROS), [line(90, 4)]);
        assert_eq!(minutes.lines(later, 81 * MINUTE_MICROS), [line(90, 5)]);
        assert_eq!(minutes.lines(later, 91 * MINUTE_MICROS), [line(90, 5)]);
    }

    proptest! {
        /// The sum of lines is what the counters say, each line has a minute of its own, and all are in order.
        #[test]
        fn lines_add_up(steps in prop::collection::vec((0_i64..100, 0_u64..50, 0_u64..9_000), 1..200)) {
            let (mut minutes, mut now, mut micros) = (Minutes::default(), Amounts::default(), 77 * MINUTE_MICROS);
            for (seconds, rows, bytes) in steps {
                micros += seconds * 1_000_000;
                minutes.roll(now, micros);
                now.rows_read += rows;
                now.bytes_read += bytes;
            }
            let lines = minutes.lines(now, micros);
            let sum = |of: fn(&Amounts) -> u64| lines.iter().map(|line| of(&line.amounts)).sum::<u64>();
            prop_assert_eq!((sum(|line| line.rows_read), sum(|line| line.bytes_read)), (now.rows_read, now.bytes_read));
            prop_assert!(lines.is_sorted_by(|a, b| a.minute_micros < b.minute_micros));
            prop_assert!(lines.iter().all(|line| line.minute_micros % MINUTE_MICROS == 0));
        }
    }
}
