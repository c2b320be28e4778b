//! Rows that open transactions hold, so that `SKIP LOCKED` can pass over them and `NOWAIT` refuse them.
//!
//! In memory, since one process has the store, and only for these two: that what a transaction holds is as it was, its COMMIT finds by
//! itself. So several may hold a row here: nobody waits. Databases do not see each other's: the operator's knows the same rows by other keys.

use crate::pg::error::{Result, SqlError, SqlState};
use keyspan_catalog::TableId;
use keyspan_storage::RowKey;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Rows that all transactions of a server hold, at most; a key takes some hundred bytes.
const ROWS_MAX: usize = 1_000_000;

/// The rows that are held on a server.
#[derive(Debug)]
pub struct RowLocks {
    held: Mutex<Held>,
    last: AtomicU64,
    rows_max: usize,
}

impl Default for RowLocks {
    fn default() -> Self {
        Self::of(ROWS_MAX)
    }
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    /// By database (`None` is the operator's) and table.
    tables: HashMap<(Option<u32>, TableId), HashMap<RowKey, Vec<Hold>>>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    transaction: u64,
    changes: bool,
}

/// What one transaction holds, until this is dropped or [released](Holder::release).
#[derive(Debug)]
pub(crate) struct Holder {
    locks: Arc<RowLocks>,
    database: Option<u32>,
    transaction: u64,
    /// `None` once it is released.
    rows: Mutex<Option<HashSet<(TableId, RowKey)>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RowLocks {
    /// With room for so many rows.
    pub(crate) fn of(rows_max: usize) -> Self {
        Self { held: Mutex::default(), last: AtomicU64::default(), rows_max }
    }

    /// One that holds nothing yet.
    pub(crate) fn holder(self: &Arc<Self>, database: Option<u32>) -> Holder {
        let transaction = self.last.fetch_add(1, Ordering::Relaxed);
        Holder { locks: Arc::clone(self), database, transaction, rows: Mutex::new(Some(HashSet::new())) }
    }
}

impl Holder {
    /// Holds a row. With `alone` only if no other transaction holds it so that the two exclude each other; whether it does.
    ///
    /// # Errors
    /// 53200 beyond [`ROWS_MAX`].
    pub(crate) fn hold(&self, table: TableId, key: &RowKey, changes: bool, alone: bool) -> Result<bool> {
        let mut own = locked(&self.rows);
        let Some(own) = own.as_mut() else { return Ok(true) };
        let mut held = locked(&self.locks.held);
        let rows_max = self.locks.rows_max;
        let full = held.count >= rows_max;
        let holds = held.tables.entry((self.database, table)).or_default().entry(key.clone()).or_default();
        let excludes = |hold: &Hold| hold.transaction != self.transaction && (hold.changes || changes);
        if alone && holds.iter().any(excludes) {
            return Ok(false);
        }
        if let Some(hold) = holds.iter_mut().find(|hold| hold.transaction == self.transaction) {
            hold.changes |= changes;
            return Ok(true);
        }
        if full {
            held.forget(self, table, key);
            let message = format!("transactions hold more than {rows_max} rows together");
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("Lock fewer rows, or try again when other transactions have ended."));
        }
        holds.push(Hold { transaction: self.transaction, changes });
        held.count += 1;
        own.insert((table, key.clone()));
        Ok(true)
    }

    /// Lets a row go.
    pub(crate) fn let_go(&self, table: TableId, key: &RowKey) {
        if let Some(own) = locked(&self.rows).as_mut()
            && own.remove(&(table, key.clone()))
        {
            locked(&self.locks.held).forget(self, table, key);
        }
    }

    /// Lets all rows go, and holds none from now on.
    pub(crate) fn release(&self) {
        let rows = locked(&self.rows).take().unwrap_or_default();
        let mut held = locked(&self.locks.held);
        rows.iter().for_each(|(table, key)| held.forget(self, *table, key));
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.release();
    }
}

impl Held {
    /// Takes a holder, and what is empty, from a row.
    fn forget(&mut self, holder: &Holder, table: TableId, key: &RowKey) {
        let place = (holder.database, table);
        let Some(rows) = self.tables.get_mut(&place) else { return };
        if let Some(holds) = rows.get_mut(key) {
            let before = holds.len();
            holds.retain(|hold| hold.transaction != holder.transaction);
            self.count -= before - holds.len();
            if holds.is_empty() {
                rows.remove(key);
            }
        }
        if rows.is_empty() {
            self.tables.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RowKey {
        RowKey::new(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn who_changes_a_row_excludes_all_others_of_its_database() {
        let locks = Arc::new(RowLocks::default());
        let (one, two, elsewhere) = (locks.holder(Some(1)), locks.holder(Some(1)), locks.holder(Some(2)));
        let (table, a, b) = (TableId(7), key("a"), key("b"));
        assert!(one.hold(table, &a, true, true).unwrap() && one.hold(table, &a, true, true).unwrap());
        assert!(!two.hold(table, &a, true, true).unwrap() && !two.hold(table, &a, false, true).unwrap());
        assert!(two.hold(TableId(8), &a, true, true).unwrap() && elsewhere.hold(table, &a, true, true).unwrap());
        // Who shares a row excludes who changes it.
        assert!(one.hold(table, &b, false, true).unwrap() && two.hold(table, &b, false, true).unwrap());
        assert!(!one.hold(table, &b, true, true).unwrap());
        // Who does not ask holds it all the same.
        assert!(two.hold(table, &a, true, false).unwrap());
        one.release();
        // What is released holds nothing, and is refused nothing.
        assert!(one.hold(table, &a, true, true).unwrap());
        assert!(!locks.holder(Some(1)).hold(table, &a, false, true).unwrap());
        two.let_go(table, &a);
        assert!(
            elsewhere.hold(table, &b, true, true).unwrap()
                && locks.holder(Some(1)).hold(table, &a, true, true).unwrap()
        );
        drop((two, elsewhere));
        let held = locked(&locks.held);
        assert!(held.count == 0 && held.tables.is_empty(), "{held:?}");
    }
}
