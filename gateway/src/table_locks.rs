//! Locks of private tables, and when each was last written.
//!
//! A change of a table that depends on its rows (it checks them, or rewrites them) must not miss a row that another
//! session adds meanwhile. So every commit of rows of a private table [locks](TableLocks::lock) the table shared. Such
//! a change locks it exclusively, from before it reads until after its edit of the catalog; in a transaction only
//! during COMMIT, which then checks whether the table was [written](TableLocks::last_write_micros) since it was read. A
//! commit of rows that was prepared before the edit and waited for it fails and is tried again, since the table's row
//! in the catalog has changed.
//!
//! Tables share [`SLOTS`] locks by their OIDs: two tables of one slot wait for each other without need. A commit takes
//! all its locks at once, in the order of slots, so that there is no deadlock.

use keyspan_catalog::TableId;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks that all tables share.
const SLOTS: usize = 1_024;

/// The table locks of a server.
#[derive(Debug)]
pub struct TableLocks(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    lock: RwLock<()>,
    /// When a table of the slot was last written.
    last_write_micros: AtomicI64,
}

impl Default for TableLocks {
    fn default() -> Self {
        let slot = || Slot { lock: RwLock::new(()), last_write_micros: AtomicI64::new(i64::MIN) };
        Self(std::iter::repeat_with(slot).take(SLOTS).collect())
    }
}

/// Locked tables, until this is dropped.
#[derive(Debug)]
pub(crate) struct TableLockGuard<'a> {
    shared: Vec<(&'a Slot, RwLockReadGuard<'a, ()>)>,
    exclusive: Vec<(&'a Slot, RwLockWriteGuard<'a, ()>)>,
}

impl TableLocks {
    /// Locks tables, some shared with others who write them, some exclusively.
    pub(crate) async fn lock(
        &self,
        shared: impl IntoIterator<Item = TableId>,
        exclusive: impl IntoIterator<Item = TableId>,
    ) -> TableLockGuard<'_> {
        let mut slots: BTreeMap<usize, bool> = shared.into_iter().map(|table| (slot_of(table), false)).collect();
        slots.extend(exclusive.into_iter().map(|table| (slot_of(table), true)));
        let mut guard = TableLockGuard { shared: Vec::new(), exclusive: Vec::new() };
        for (index, exclusive) in slots {
            let slot = &self.0[index];
            if exclusive {
                guard.exclusive.push((slot, slot.lock.write().await));
            } else {
                guard.shared.push((slot, slot.lock.read().await));
            }
        }
        guard
    }

    /// When a table, or another of its slot, was last written; `i64::MIN` for never since the start.
    pub(crate) fn last_write_micros(&self, table: TableId) -> i64 {
        self.0[slot_of(table)].last_write_micros.load(Ordering::SeqCst)
    }
}

impl TableLockGuard<'_> {
    /// Records the time of a commit to the tables, in microseconds.
    pub(crate) fn committed(&self, micros: i64) {
        let slots = self.shared.iter().map(|(slot, _)| slot).chain(self.exclusive.iter().map(|(slot, _)| slot));
        for slot in slots {
            slot.last_write_micros.fetch_max(micros, Ordering::SeqCst);
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
}
