//! Locks of private tables, and when each was last written.
//!
//! A change of a table that depends on its rows (it checks them, or rewrites them) must not miss a row that another
//! session adds meanwhile. So every commit of rows of a private table [locks](TableLocks::lock) the table shared. Such
//! a change locks it exclusively, from before it reads until after its edit of the catalog; in a transaction only
//! during COMMIT, which then checks whether the table was [written](TableLocks::last_write_micros) since it was read. A
//! commit of rows that was prepared before the edit and waited for it fails and is tried again, since the table's row
//! in the catalog has changed.
//!
//! There is a lock for each table that somebody locks, so that no table waits for another. A commit takes all its locks
//! at once, in the order of tables, so that there is no deadlock. The times of writes are kept in [`SLOTS`] by the
//! tables' OIDs: where two share one, a transaction may be tried again without need.

use crate::lock::Mutex;
use keyspan_catalog::TableId;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Times of writes that all tables share.
const SLOTS: usize = 1_024;
/// Entries of locks that nobody holds any more, before they are removed.
const FREE_MAX: usize = 256;

/// The table locks of a server.
#[derive(Debug)]
pub struct TableLocks {
    /// The locks that somebody holds or waits for, and some that nobody does.
    locks: Mutex<HashMap<TableId, Weak<RwLock<()>>>>,
    /// When a table of the slot was last written.
    last_write_micros: Vec<AtomicI64>,
}

impl Default for TableLocks {
    fn default() -> Self {
        let last_write_micros = std::iter::repeat_with(|| AtomicI64::new(i64::MIN)).take(SLOTS).collect();
        Self { locks: Mutex::default(), last_write_micros }
    }
}

/// Locked tables, until this is dropped.
#[derive(Debug)]
pub(crate) struct TableLockGuard<'a> {
    locks: &'a TableLocks,
    tables: Vec<TableId>,
    _shared: Vec<OwnedRwLockReadGuard<()>>,
    _exclusive: Vec<OwnedRwLockWriteGuard<()>>,
}

impl TableLocks {
    /// Locks tables, some shared with others who write them, some exclusively.
    pub(crate) async fn lock(
        &self,
        shared: impl IntoIterator<Item = TableId>,
        exclusive: impl IntoIterator<Item = TableId>,
    ) -> TableLockGuard<'_> {
        let mut tables: BTreeMap<TableId, bool> = shared.into_iter().map(|table| (table, false)).collect();
        tables.extend(exclusive.into_iter().map(|table| (table, true)));
        let (mut shared, mut exclusive) = (Vec::new(), Vec::new());
        for (table, alone) in &tables {
            let lock = self.lock_of(*table);
            if *alone {
                exclusive.push(lock.write_owned().await);
            } else {
                shared.push(lock.read_owned().await);
            }
        }
        let tables = tables.into_keys().collect();
        TableLockGuard { locks: self, tables, _shared: shared, _exclusive: exclusive }
    }

    /// The lock of a table.
    fn lock_of(&self, table: TableId) -> Arc<RwLock<()>> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(&table).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= FREE_MAX && locks.len().is_power_of_two() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(RwLock::new(()));
        locks.insert(table, Arc::downgrade(&lock));
        lock
    }

    /// When a table, or another of its slot, was last written; `i64::MIN` for never since the start.
    pub(crate) fn last_write_micros(&self, table: TableId) -> i64 {
        self.last_write_micros[slot_of(table)].load(Ordering::SeqCst)
    }
}

impl TableLockGuard<'_> {
    /// Records the time of a commit to the tables, in microseconds.
    pub(crate) fn committed(&self, micros: i64) {
        for table in &self.tables {
            self.locks.last_write_micros[slot_of(*table)].fetch_max(micros, Ordering::SeqCst);
        }
    }
}

fn slot_of(table: TableId) -> usize {
    table.0 as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn exclusive_locks_wait_for_shared_ones_and_the_reverse() {
        let locks = TableLocks::default();
        let (one, other) = (TableId(20_000), TableId(20_001));
        let first = locks.lock([one, other], []).await;
        assert!(locks.lock([one], []).now_or_never().is_some());
        assert!(locks.lock([], [one]).now_or_never().is_none());
        first.committed(7);
        drop(first);
        assert_eq!((locks.last_write_micros(one), locks.last_write_micros(TableId(20_002))), (7, i64::MIN));
        let alone = locks.lock([other], [one]).await;
        assert!(locks.lock([one], []).now_or_never().is_none());
        assert!(locks.lock([other], []).now_or_never().is_some());
        alone.committed(5);
        assert_eq!(locks.last_write_micros(one), 7);
    }

    #[tokio::test]
    async fn tables_of_one_slot_do_not_wait_for_each_other() {
        let locks = TableLocks::default();
        let (one, other) = (TableId(20_000), TableId(20_000 + SLOTS as u32));
        let alone = locks.lock([], [one]).await;
        assert!(locks.lock([], [other]).now_or_never().is_some());
        assert!(locks.lock([one], []).now_or_never().is_none());
        drop(alone);
        assert!(locks.lock([one], []).now_or_never().is_some());
        // Entries that nobody holds are removed.
        for table in 0..10 * FREE_MAX as u32 {
            drop(locks.lock([TableId(table)], []).await);
        }
        assert!(locks.locks.lock().len() <= FREE_MAX);
    }
}
