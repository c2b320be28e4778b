//! What statements have cost, by database, role and [text without constants](crate::sql::normal): the rows of
//! `pg_stat_statements`.
//!
//! Bounded by database and in all: where there is no place, those go that were used least recently, of the database
//! itself, or of the one that has most. So no tenant pushes out another's.

use crate::{lock::Mutex, sql::normal::Normal};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Statements of a database, at most.
pub(crate) const DATABASE_STATEMENTS_MAX: usize = 1_000;
/// Statements of all databases, at most: with [`TEXT_BYTES_MAX`] some 40 MB.
pub(crate) const STATEMENTS_MAX: usize = 10_000;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// A database: the OID of its tenant, or the operator's.
type Database = Option<u32>;

/// The statements of a server.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    kept: Mutex<Kept>,
    /// Grows with each use, so that what was used least recently is found.
    uses: AtomicU64,
    /// Statements that had to go.
    deallocated: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    databases: HashMap<Database, HashMap<(String, i64), Arc<Entry>>>,
    count: usize,
}

/// A statement without constants of a role in a database.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) database: Database,
    pub(crate) role: String,
    /// The number of its text.
    pub(crate) id: i64,
    /// Without constants.
    pub(crate) text: String,
    costs: Mutex<Costs>,
    used: AtomicU64,
    gone: AtomicBool,
}

/// What executions have cost; times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    pub(crate) calls: u64,
    pub(crate) total: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) mean: f64,
    /// The sum of squared distances from the mean (Welford, 1962).
    squares: f64,
    pub(crate) rows: u64,
}

impl Costs {
    fn add(&mut self, took: Duration, rows: u64) {
        let millis = took.as_secs_f64() * 1e3;
        self.min = if self.calls == 0 { millis } else { self.min.min(millis) };
        self.max = self.max.max(millis);
        self.calls += 1;
        self.total += millis;
        let before = millis - self.mean;
        self.mean += before / self.calls as f64;
        self.squares += before * (millis - self.mean);
        self.rows += rows;
    }

    /// The standard deviation of the whole, as PostgreSQL shows it.
    pub(crate) fn deviation(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { (self.squares / self.calls as f64).sqrt() }
    }
}

impl Entry {
    pub(crate) fn costs(&self) -> Costs {
        *self.costs.lock()
    }

    /// Whether it is counted no longer, since it had to go.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl Statements {
    /// The entry of a statement; a new one if there is none.
    pub(crate) fn entry(&self, database: Database, role: &str, normal: &Normal) -> Arc<Entry> {
        let mut kept = self.kept.lock();
        let key = (role.to_owned(), normal.id);
        if let Some(entry) = kept.databases.get(&database).and_then(|entries| entries.get(&key)) {
            return Arc::clone(entry);
        }
        self.make_place(&mut kept, database);
        let text = &normal.text[..normal.text.floor_char_boundary(TEXT_BYTES_MAX)];
        let entry = Arc::new(Entry {
            database,
            role: role.to_owned(),
            id: normal.id,
            text: text.to_owned(),
            costs: Mutex::default(),
            used: AtomicU64::new(self.uses.fetch_add(1, Ordering::Relaxed)),
            gone: AtomicBool::default(),
        });
        kept.databases.entry(database).or_default().insert(key, Arc::clone(&entry));
        kept.count += 1;
        entry
    }

    /// Counts an execution.
    pub(crate) fn executed(&self, entry: &Entry, took: Duration, rows: u64) {
        entry.costs.lock().add(took, rows);
        entry.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// All that are kept.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.kept.lock().databases.values().flat_map(HashMap::values).cloned().collect()
    }

    /// How many had to go.
    pub(crate) fn deallocated(&self) -> u64 {
        self.deallocated.load(Ordering::Relaxed)
    }

    /// Forgets those that are meant.
    pub(crate) fn forget(&self, is_meant: impl Fn(&Entry) -> bool) {
        let mut kept = self.kept.lock();
        let mut gone = 0;
        for entries in kept.databases.values_mut() {
            for (_, entry) in entries.extract_if(|_, entry| is_meant(entry)) {
                entry.gone.store(true, Ordering::Relaxed);
                gone += 1;
            }
        }
        kept.count -= gone;
        kept.databases.retain(|_, entries| !entries.is_empty());
    }

    fn make_place(&self, kept: &mut Kept, database: Database) {
        let own = kept.databases.get(&database).map_or(0, HashMap::len);
        let from = if own >= DATABASE_STATEMENTS_MAX {
            database
        } else if kept.count >= STATEMENTS_MAX {
            let most = kept.databases.iter().max_by_key(|(_, entries)| entries.len());
            most.map_or(database, |(of, _)| *of)
        } else {
            return;
        };
        let Some(entries) = kept.databases.get_mut(&from) else { return };
        // A twentieth at once, so that not each new one looks through all.
        let mut used: Vec<u64> = entries.values().map(|entry| entry.used.load(Ordering::Relaxed)).collect();
        let nth = used.len() / 20;
        let (_, bound, _) = used.select_nth_unstable(nth);
        let bound = *bound;
        let mut gone = 0;
        for (_, entry) in entries.extract_if(|_, entry| entry.used.load(Ordering::Relaxed) <= bound) {
            entry.gone.store(true, Ordering::Relaxed);
            gone += 1;
        }
        kept.count -= gone;
        self.deallocated.fetch_add(gone as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(id: i64) -> Normal {
        Normal { text: format!("SELECT c{id}"), id }
    }

    #[test]
    fn costs_are_those_of_all_executions() {
        let statements = Statements::default();
        let entry = statements.entry(Some(1), "r", &normal(1));
        for millis in [2, 4, 4, 4, 5, 5, 7, 9] {
            let entry = statements.entry(Some(1), "r", &normal(1));
            statements.executed(&entry, Duration::from_millis(millis), 3);
        }
        let costs = entry.costs();
        assert_eq!((costs.calls, costs.rows, costs.min, costs.max), (8, 24, 2.0, 9.0));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(costs.mean, 5.0) && near(costs.total, 40.0) && near(costs.deviation(), 2.0), "{costs:?}");
    }

    #[test]
    fn databases_push_out_their_own() {
        let statements = Statements::default();
        let kept = statements.entry(Some(1), "r", &normal(-1));
        let used = statements.entry(Some(2), "r", &normal(-1));
        for id in 0..3 * DATABASE_STATEMENTS_MAX as i64 {
            statements.entry(Some(2), "r", &normal(id));
            statements.executed(&used, Duration::ZERO, 0);
        }
        assert!(!kept.is_gone() && !used.is_gone());
        let of_two = statements.all().iter().filter(|entry| entry.database == Some(2)).count();
        assert!((900..=DATABASE_STATEMENTS_MAX).contains(&of_two), "{of_two}");
        assert_eq!(statements.deallocated() as usize + of_two, 3 * DATABASE_STATEMENTS_MAX + 1);
    }

    #[test]
    fn all_together_have_a_bound() {
        let statements = Statements::default();
        let first = statements.entry(Some(0), "r", &normal(0));
        for database in 1..=30 {
            for id in 0..DATABASE_STATEMENTS_MAX as i64 / 2 {
                statements.entry(Some(database), "r", &normal(id));
            }
        }
        assert!(statements.all().len() <= STATEMENTS_MAX && !first.is_gone());
        statements.forget(|entry| entry.database == Some(0));
        assert!(first.is_gone());
        assert!(!statements.entry(Some(0), "r", &normal(0)).is_gone());
    }
}
