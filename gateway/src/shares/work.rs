//! What a tenant's sessions have done, in all and to each table: the rows of `pg_stat_database` and of
//! `pg_stat_user_tables`.
//!
//! Unlike [`Counters`](super::usage::Counters) these can be set back, by `pg_stat_reset`. A shared table is counted for
//! each tenant by itself: none sees what others do.

use super::access::Access;
use crate::lock::Mutex;
use keyspan_storage::Columns;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

/// Tables of a tenant that are counted each by itself; more are counted in the sum only.
pub(crate) const TABLES_MAX: usize = 10_000;

/// A number that can be set back.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// What was done to a table.
#[derive(Debug, Default)]
pub(crate) struct TableWork {
    /// Scans of the whole table, or of the tenant's whole span of it, and the rows that they gave.
    pub(crate) scans: Tally,
    pub(crate) scanned_rows: Tally,
    /// Reads of ranges of its keys, and the rows that they gave.
    pub(crate) key_scans: Tally,
    pub(crate) key_rows: Tally,
    /// Rows that statements have written, whether their transactions were committed or not, as PostgreSQL counts them.
    pub(crate) inserted: Tally,
    pub(crate) updated: Tally,
    pub(crate) deleted: Tally,
    /// What advice is made of.
    pub(crate) access: Access,
    /// Rows that are alive and their bytes, as they were measured last.
    size: Mutex<Option<(u64, u64)>>,
}

/// How rows were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Inserted,
    Updated,
    Deleted,
}

impl TableWork {
    /// Counts rows that a scan gave.
    pub(crate) fn read(&self, whole: bool, rows: u64) {
        if whole { &self.scanned_rows } else { &self.key_rows }.add(rows);
    }

    /// Counts the begin of a scan, which reads these columns.
    pub(crate) fn scan(&self, whole: bool, columns: &Columns) {
        if whole { &self.scans } else { &self.key_scans }.add(1);
        self.access.read_families(columns);
    }

    /// Counts rows that a statement has written.
    pub(crate) fn wrote(&self, how: Written, rows: u64) {
        match how {
            Written::Inserted => &self.inserted,
            Written::Updated => &self.updated,
            Written::Deleted => &self.deleted,
        }
        .add(rows);
    }

    /// Takes a measurement of the rows that are alive and of their bytes.
    pub(crate) fn measured(&self, rows: u64, bytes: u64) {
        *self.size.lock() = Some((rows, bytes));
    }

    /// Rows that are alive and their bytes, as they were measured last.
    pub(crate) fn last_measured(&self) -> Option<(u64, u64)> {
        *self.size.lock()
    }

    fn tallies(&self) -> [&Tally; 7] {
        let Self { scans, scanned_rows, key_scans, key_rows, inserted, updated, deleted, access: _, size: _ } = self;
        [scans, scanned_rows, key_scans, key_rows, inserted, updated, deleted]
    }

    fn take_from(&self, other: &Self) {
        for (own, more) in self.tallies().into_iter().zip(other.tallies()) {
            own.add(more.get());
        }
    }
}

/// What a tenant's sessions have done.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) commits: Tally,
    pub(crate) rollbacks: Tally,
    pub(crate) deadlocks: Tally,
    /// Sessions that began, and the time of those that have ended.
    pub(crate) sessions: Tally,
    pub(crate) session_micros: Tally,
    /// Time within statements.
    pub(crate) active_micros: Tally,
    tables: Mutex<HashMap<u32, Arc<TableWork>>>,
    /// Of tables that are gone, and of those beyond [`TABLES_MAX`].
    others: Arc<TableWork>,
    /// When all was set back, in microseconds since 1970; 0 if it never was.
    reset_micros: AtomicI64,
    /// Whether it was set back since somebody looked.
    is_reset: AtomicBool,
}

impl Work {
    /// What is done to a table, given by its number.
    pub(crate) fn table(&self, id: u32) -> Arc<TableWork> {
        let mut tables = self.tables.lock();
        if let Some(table) = tables.get(&id) {
            return Arc::clone(table);
        }
        if tables.len() >= TABLES_MAX {
            return Arc::clone(&self.others);
        }
        Arc::clone(tables.entry(id).or_default())
    }

    /// All tables that something was done to.
    pub(crate) fn tables(&self) -> Vec<(u32, Arc<TableWork>)> {
        self.tables.lock().iter().map(|(id, table)| (*id, Arc::clone(table))).collect()
    }

    /// What was done to a table, if anything was.
    pub(crate) fn of_table(&self, id: u32) -> Option<Arc<TableWork>> {
        self.tables.lock().get(&id).cloned()
    }

    /// What was done to all tables.
    pub(crate) fn all_tables(&self) -> TableWork {
        let sum = TableWork::default();
        sum.take_from(&self.others);
        self.tables.lock().values().for_each(|table| sum.take_from(table));
        sum
    }

    /// Forgets tables that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(u32) -> bool) {
        for (_, table) in self.tables.lock().extract_if(|id, _| !is_there(*id)) {
            self.others.take_from(&table);
        }
    }

    /// Sets all back to nothing.
    pub(crate) fn reset(&self, now_micros: i64) {
        let Self { commits, rollbacks, deadlocks, sessions, session_micros, active_micros, tables, others, .. } = self;
        tables.lock().clear();
        let own = [commits, rollbacks, deadlocks, sessions, session_micros, active_micros];
        for tally in own.into_iter().chain(others.tallies()) {
            tally.take();
        }
        self.reset_micros.store(now_micros, Ordering::Relaxed);
        self.is_reset.store(true, Ordering::Relaxed);
    }

    /// Whether all was set back since the last call.
    pub(crate) fn take_reset(&self) -> bool {
        self.is_reset.swap(false, Ordering::Relaxed)
    }

    /// When all was set back, in microseconds since 1970.
    pub(crate) fn reset_micros(&self) -> Option<i64> {
        Some(self.reset_micros.load(Ordering::Relaxed)).filter(|micros| *micros != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_outlive_tables() {
        let work = Work::default();
        work.table(1).wrote(Written::Inserted, 3);
        work.table(2).wrote(Written::Inserted, 4);
        work.table(2).scan(false, &Columns::All);
        work.retain(|id| id == 1);
        assert!(work.of_table(2).is_none() && work.of_table(1).is_some());
        let all = work.all_tables();
        assert_eq!((all.inserted.get(), all.key_scans.get(), all.scans.get()), (7, 1, 0));
        work.reset(5);
        assert_eq!((work.all_tables().inserted.get(), work.reset_micros()), (0, Some(5)));
    }

    #[test]
    fn tables_beyond_the_bound_are_counted_in_the_sum() {
        let work = Work::default();
        for id in 0..TABLES_MAX as u32 + 5 {
            work.table(id).wrote(Written::Deleted, 1);
        }
        assert_eq!(work.all_tables().deleted.get(), TABLES_MAX as u64 + 5);
        assert!(work.of_table(TABLES_MAX as u32).is_none());
    }
}
