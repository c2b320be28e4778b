//! Rows that open transactions lock, so that `SKIP LOCKED` can skip them and `NOWAIT` can refuse them.
//!
//! The locks are in memory, since one process has the store, and they serve these two clauses only: whether a locked
//! row has changed is checked by COMMIT, without them. So nobody waits here, and several transactions may lock the same
//! row. A database does not see the locks of another; nor does the operator's database, where the same rows have other
//! keys. While several databases have locks, each may have an equal part of [`ROWS_MAX`].

use crate::{
    lock::Mutex,
    pg::error::{Result, SqlError, SqlState},
};
use keyspan_catalog::TableId;
use keyspan_storage::RowKey;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The most rows that all transactions of a server lock together; each takes about a hundred bytes.
const ROWS_MAX: usize = 1_000_000;

/// The row locks of a server.
#[derive(Debug)]
pub struct RowLocks {
    locks: Mutex<LockTable>,
    next_transaction: AtomicU64,
    rows_max: usize,
}

impl Default for RowLocks {
    fn default() -> Self {
        Self::of(ROWS_MAX)
    }
}

#[derive(Debug, Default)]
struct LockTable {
    /// Locks in `tables`.
    count: usize,
    /// The same by database; those that have some.
    by_database: HashMap<Option<u32>, usize>,
    /// By database (`None` for the operator's) and table.
    tables: HashMap<(Option<u32>, TableId), HashMap<RowKey, Vec<RowLock>>>,
}

#[derive(Clone, Copy, Debug)]
struct RowLock {
    transaction: u64,
    /// FOR UPDATE, or a write; otherwise FOR SHARE.
    exclusive: bool,
}

/// The locks of one transaction, until this is dropped or they are [released](TransactionLocks::release).
#[derive(Debug)]
pub(crate) struct TransactionLocks {
    locks: Arc<RowLocks>,
    database: Option<u32>,
    transaction: u64,
    /// `None` after the release.
    rows: Mutex<Option<HashSet<(TableId, RowKey)>>>,
}

impl RowLocks {
    /// Room for `rows_max` locks.
    pub(crate) fn of(rows_max: usize) -> Self {
        Self { locks: Mutex::default(), next_transaction: AtomicU64::default(), rows_max }
    }

    /// The locks of a new transaction: none yet.
    pub(crate) fn begin(self: &Arc<Self>, database: Option<u32>) -> TransactionLocks {
        let transaction = self.next_transaction.fetch_add(1, Ordering::Relaxed);
        TransactionLocks { locks: Arc::clone(self), database, transaction, rows: Mutex::new(Some(HashSet::new())) }
    }
}

impl TransactionLocks {
    /// Locks a row and returns true. With `if_free`, returns false and does nothing if another transaction has a lock
    /// that conflicts: two locks conflict if one of them is exclusive. After the release it does nothing.
    ///
    /// # Errors
    /// 53200 beyond [`ROWS_MAX`].
    pub(crate) fn lock(&self, table: TableId, key: &RowKey, exclusive: bool, if_free: bool) -> Result<bool> {
        let mut own = self.rows.lock();
        let Some(own) = own.as_mut() else { return Ok(true) };
        let mut all = self.locks.locks.lock();
        let rows_max = self.locks.rows_max;
        let part = all.part(self.database, rows_max);
        let full = all.count >= rows_max || all.count_of(self.database) >= part;
        let locks = all.tables.entry((self.database, table)).or_default().entry(key.clone()).or_default();
        let conflicts = |lock: &RowLock| lock.transaction != self.transaction && (lock.exclusive || exclusive);
        if if_free && locks.iter().any(conflicts) {
            return Ok(false);
        }
        if let Some(lock) = locks.iter_mut().find(|lock| lock.transaction == self.transaction) {
            lock.exclusive |= exclusive;
            return Ok(true);
        }
        if full {
            all.remove(self, table, key);
            let message = match part {
                part if part < rows_max => {
                    format!("transactions of this database hold more than {part} rows while others hold some")
                }
                _ => format!("transactions hold more than {rows_max} rows together"),
            };
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("Lock fewer rows, or try again when other transactions have ended."));
        }
        locks.push(RowLock { transaction: self.transaction, exclusive });
        all.count += 1;
        *all.by_database.entry(self.database).or_default() += 1;
        own.insert((table, key.clone()));
        Ok(true)
    }

    /// Unlocks a row.
    pub(crate) fn unlock(&self, table: TableId, key: &RowKey) {
        if let Some(own) = self.rows.lock().as_mut()
            && own.remove(&(table, key.clone()))
        {
            self.locks.locks.lock().remove(self, table, key);
        }
    }

    /// Unlocks all rows; later calls of [`lock`](Self::lock) do nothing.
    pub(crate) fn release(&self) {
        let rows = self.rows.lock().take().unwrap_or_default();
        let mut all = self.locks.locks.lock();
        rows.iter().for_each(|(table, key)| all.remove(self, *table, key));
    }
}

impl Drop for TransactionLocks {
    fn drop(&mut self) {
        self.release();
    }
}

impl LockTable {
    fn count_of(&self, database: Option<u32>) -> usize {
        self.by_database.get(&database).copied().unwrap_or_default()
    }

    /// How many rows transactions of a database may lock: an equal part beside others that have locks.
    fn part(&self, database: Option<u32>, rows_max: usize) -> usize {
        let others = self.by_database.keys().filter(|other| **other != database).count();
        rows_max / (others + 1)
    }

    /// Removes a transaction's lock of a row, and the entries that are empty then.
    fn remove(&mut self, owner: &TransactionLocks, table: TableId, key: &RowKey) {
        let table = (owner.database, table);
        let Some(rows) = self.tables.get_mut(&table) else { return };
        if let Some(locks) = rows.get_mut(key) {
            let before = locks.len();
            locks.retain(|lock| lock.transaction != owner.transaction);
            let removed = before - locks.len();
            self.count -= removed;
            if let Some(count) = self.by_database.get_mut(&owner.database) {
                *count -= removed;
                if *count == 0 {
                    self.by_database.remove(&owner.database);
                }
            }
            if locks.is_empty() {
                rows.remove(key);
            }
        }
        if rows.is_empty() {
            self.tables.remove(&table);
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
    fn an_exclusive_lock_excludes_all_others_of_its_database() {
        let locks = Arc::new(RowLocks::default());
        let (one, two, elsewhere) = (locks.begin(Some(1)), locks.begin(Some(1)), locks.begin(Some(2)));
        let (table, a, b) = (TableId(7), key("a"), key("b"));
        assert!(one.lock(table, &a, true, true).unwrap() && one.lock(table, &a, true, true).unwrap());
        assert!(!two.lock(table, &a, true, true).unwrap() && !two.lock(table, &a, false, true).unwrap());
        assert!(two.lock(TableId(8), &a, true, true).unwrap() && elsewhere.lock(table, &a, true, true).unwrap());
        // A shared lock conflicts with an exclusive one of another transaction.
        assert!(one.lock(table, &b, false, true).unwrap() && two.lock(table, &b, false, true).unwrap());
        assert!(!one.lock(table, &b, true, true).unwrap());
        // Without `if_free` a conflict does not matter.
        assert!(two.lock(table, &a, true, false).unwrap());
        one.release();
        // After the release nothing is locked, and nothing refused.
        assert!(one.lock(table, &a, true, true).unwrap());
        assert!(!locks.begin(Some(1)).lock(table, &a, false, true).unwrap());
        two.unlock(table, &a);
        assert!(
            elsewhere.lock(table, &b, true, true).unwrap() && locks.begin(Some(1)).lock(table, &a, true, true).unwrap()
        );
        drop((two, elsewhere));
        let left = locks.locks.lock();
        assert!(left.count == 0 && left.tables.is_empty(), "{left:?}");
    }

    #[test]
    fn databases_share_the_room() {
        let locks = Arc::new(RowLocks::of(10));
        let (one, two, table) = (locks.begin(Some(1)), locks.begin(Some(2)), TableId(7));
        let lock = |of: &TransactionLocks, row: usize| of.lock(table, &key(&row.to_string()), true, false);
        (0..6).for_each(|row| assert!(lock(&one, row).unwrap()));
        assert!(lock(&two, 0).unwrap());
        // One keeps what it has beyond its part, and gets no more.
        assert_eq!(lock(&one, 6).unwrap_err().state, SqlState::OUT_OF_MEMORY);
        (1..4).for_each(|row| assert!(lock(&two, row).unwrap()));
        lock(&two, 4).unwrap_err();
        two.release();
        (6..10).for_each(|row| assert!(lock(&one, row).unwrap()));
        one.release();
        assert!(locks.locks.lock().by_database.is_empty());
    }
}
