//! What the server has done since its start, counted where it is done: connections, statements by kind with their time,
//! errors, bytes of clients. `metrics` prints it.
//!
//! Counters only grow and are relaxed: each is exact, but no two are of the same moment.

pub(crate) mod slow;
pub(crate) mod statements;

use crate::{
    lock::Mutex,
    pg::error::SqlState,
    sql::ast::{Statement, session::CursorStatement},
};
use slow::SlowStatements;
use statements::Statements;
use std::{
    array,
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the times that a [`Histogram`] tells apart, in microseconds.
pub(crate) const BOUNDS_MICROS: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 60_000_000,
];

/// Kinds of statements, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    CopyFrom,
    CopyTo,
    Definition,
    Transaction,
    Explain,
    Utility,
}

impl Kind {
    /// All of them, each at the place of its number.
    pub(crate) const ALL: [Self; 11] = [
        Self::Select,
        Self::Insert,
        Self::Update,
        Self::Delete,
        Self::Merge,
        Self::CopyFrom,
        Self::CopyTo,
        Self::Definition,
        Self::Transaction,
        Self::Explain,
        Self::Utility,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Merge => "merge",
            Self::CopyFrom => "copy_from",
            Self::CopyTo => "copy_to",
            Self::Definition => "definition",
            Self::Transaction => "transaction",
            Self::Explain => "explain",
            Self::Utility => "utility",
        }
    }

    /// The kind of a statement. One with writes in its WITH is of the kind of the statement behind it.
    pub(crate) fn of(statement: &Statement) -> Self {
        match statement {
            Statement::Query(_) | Statement::LockingQuery(_) => Self::Select,
            Statement::Cursor(CursorStatement::Fetch(_)) => Self::Select,
            Statement::Insert(_) => Self::Insert,
            Statement::Update(_) => Self::Update,
            Statement::Delete(_) | Statement::Erase(_) | Statement::Truncate { .. } => Self::Delete,
            Statement::Merge(_) => Self::Merge,
            Statement::WritingWith(parts) => parts.last().map_or(Self::Utility, |part| Self::of(&part.statement)),
            Statement::CopyFrom(_) => Self::CopyFrom,
            Statement::CopyTo(_) | Statement::CopyOut(_) => Self::CopyTo,
            Statement::Definition(_)
            | Statement::CreateTableAs(_)
            | Statement::CreateMaterialized(_)
            | Statement::RefreshMaterialized(_) => Self::Definition,
            Statement::Transaction(_) => Self::Transaction,
            Statement::Explain(_) | Statement::ExplainDropDatabase(_) | Statement::ExplainAlterTable(_) => {
                Self::Explain
            }
            Statement::Empty
            | Statement::Setting(_)
            | Statement::Prepare(_)
            | Statement::Execute(_)
            | Statement::Deallocate(_)
            | Statement::Cursor(_)
            | Statement::Lock(_)
            | Statement::Listen(_)
            | Statement::Notify { .. }
            | Statement::Maintenance(_)
            | Statement::Describe(_) => Self::Utility,
        }
    }
}

/// How long something took, by [`BOUNDS_MICROS`].
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// Not cumulative; the last is of all that took longer than every bound.
    counts: [AtomicU64; BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts that are not cumulative, and the sum of all times in microseconds.
    pub(crate) fn read(&self) -> ([u64; BOUNDS_MICROS.len() + 1], u64) {
        (array::from_fn(|at| self.counts[at].load(Ordering::Relaxed)), self.micros.load(Ordering::Relaxed))
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a server has done since its start.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Connections that were accepted.
    pub(crate) accepted: Counter,
    /// Connections that found no place.
    pub(crate) refused: Counter,
    /// Log-ins that were refused.
    pub(crate) log_ins_refused: Counter,
    /// Bytes that clients have sent.
    pub(crate) bytes_received: Counter,
    /// Bytes that clients were sent.
    pub(crate) bytes_sent: Counter,
    /// Rows that clients were sent.
    pub(crate) rows_sent: Counter,
    /// Requests by HTTP whose password or token was wrong.
    pub(crate) http_refused: Counter,
    /// By their texts.
    pub(crate) texts: Statements,
    /// The latest that took long.
    pub(crate) slow: SlowStatements,
    statements: [Histogram; Kind::ALL.len()],
    failed: [Counter; Kind::ALL.len()],
    /// By the class of the SQLSTATE: some forty.
    errors: Mutex<BTreeMap<&'static str, u64>>,
}

impl Statistics {
    /// Counts a statement that has ended.
    pub(crate) fn ended(&self, kind: Kind, took: Duration, failed: bool) {
        self.statements[kind as usize].observe(took);
        if failed {
            self.failed[kind as usize].add(1);
        }
    }

    /// Counts an error that a client is told.
    pub(crate) fn error(&self, state: SqlState) {
        let class = state.0.get(..2).unwrap_or("XX");
        *self.errors.lock().entry(class).or_default() += 1;
    }

    /// The times of the statements of a kind, and how many failed.
    pub(crate) fn statements(&self, kind: Kind) -> (&Histogram, u64) {
        (&self.statements[kind as usize], self.failed[kind as usize].get())
    }

    /// Errors by the class of their SQLSTATE.
    pub(crate) fn errors(&self) -> Vec<(&'static str, u64)> {
        self.errors.lock().iter().map(|(class, count)| (*class, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_numbers() {
        assert!(Kind::ALL.iter().enumerate().all(|(at, kind)| *kind as usize == at));
    }

    #[test]
    fn times_fall_into_the_first_bound_that_they_do_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 250, 251, 60_000_000, 60_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let (counts, micros) = histogram.read();
        assert_eq!((counts[0], counts[1], counts[15], counts[16]), (2, 1, 1, 1));
        assert_eq!(micros, 120_000_502);
    }

    #[test]
    fn errors_are_counted_by_class() {
        let statistics = Statistics::default();
        for state in [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_COLUMN, SqlState::UNIQUE_VIOLATION] {
            statistics.error(state);
        }
        assert_eq!(statistics.errors(), [("23", 1), ("42", 2)]);
    }
}
