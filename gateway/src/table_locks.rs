//! Who writes private tables just now, and when they were last written.
//!
//! A change of a table that depends on its rows (they are checked, or written anew) must not miss one that another session adds meanwhile.
//! Every commit of rows of a private table therefore [holds](Writers::hold) the table together with other writers; such a change holds it
//! alone from before it reads to after its edit, or, in a transaction, during its COMMIT, and looks then whether the table
//! was [written](Writers::newest) since it was read. A commit that was prepared before the edit and waited for it fails then, since
//! the table's row in the catalog has changed, and is tried again.
//!
//! Tables share [`PLACES`] places by their numbers: two that meet in one wait for each other without need. Places are held in order, all
//! of a commit at once, so that nobody waits for who waits for him.

use keyspan_catalog::TableId;
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicI64, Ordering},
};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Places that tables share.
const PLACES: usize = 1_024;

/// The places of a server.
#[derive(Debug)]
pub struct Writers(Vec<Place>);

#[derive(Debug)]
struct Place {
    lock: RwLock<()>,
    /// When the newest commit to a table of the place was made, in microseconds.
    newest: AtomicI64,
}

impl Default for Writers {
    fn default() -> Self {
        let place = || Place { lock: RwLock::new(()), newest: AtomicI64::new(i64::MIN) };
        Self(std::iter::repeat_with(place).take(PLACES).collect())
    }
}

/// Tables that are held, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    together: Vec<(&'a Place, RwLockReadGuard<'a, ()>)>,
    alone: Vec<(&'a Place, RwLockWriteGuard<'a, ()>)>,
}

impl Writers {
    /// Holds tables: some together with others who write them, some alone.
    pub(crate) async fn hold(
        &self,
        together: impl IntoIterator<Item = TableId>,
        alone: impl IntoIterator<Item = TableId>,
    ) -> Held<'_> {
        let mut wanted: BTreeMap<usize, bool> = together.into_iter().map(|table| (place(table), false)).collect();
        wanted.extend(alone.into_iter().map(|table| (place(table), true)));
        let mut held = Held { together: Vec::new(), alone: Vec::new() };
        for (at, alone) in wanted {
            let place = &self.0[at];
            if alone {
                held.alone.push((place, place.lock.write().await));
            } else {
                held.together.push((place, place.lock.read().await));
            }
        }
        held
    }

    /// When a table was last written, in microseconds; it may be another table of its place that was.
    pub(crate) fn newest(&self, table: TableId) -> i64 {
        self.0[place(table)].newest.load(Ordering::SeqCst)
    }
}

impl Held<'_> {
    /// A commit to the tables was made, at a time in microseconds.
    pub(crate) fn committed(&self, micros: i64) {
        let places = self.together.iter().map(|(place, _)| place).chain(self.alone.iter().map(|(place, _)| place));
        for place in places {
            place.newest.fetch_max(micros, Ordering::SeqCst);
        }
    }
}

fn place(table: TableId) -> usize {
    table.0 as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn who_changes_a_table_waits_for_those_who_write_it_and_they_for_him() {
        let writers = Writers::default();
        let (one, other) = (TableId(20_000), TableId(20_001));
        let first = writers.hold([one, other], []).await;
        assert!(writers.hold([one], []).now_or_never().is_some());
        assert!(writers.hold([], [one]).now_or_never().is_none());
        first.committed(7);
        drop(first);
        assert_eq!((writers.newest(one), writers.newest(TableId(20_002))), (7, i64::MIN));
        let alone = writers.hold([other], [one]).await;
        assert!(writers.hold([one], []).now_or_never().is_none());
        assert!(writers.hold([other], []).now_or_never().is_some());
        alone.committed(5);
        assert_eq!(writers.newest(one), 7);
    }
}
