//! The heat of keys: how many rows, and of how many bytes, statements have read and written in which ranges of keys of
//! which table, and when.
//!
//! The running minute is counted in a [`Sketch`] for each table; all sketches together have at most
//! [`RANGES_MAX`] ranges. [`Heat::adapt`] splits what is hot, [`Heat::end_minute`] moves the counts into the
//! [`History`], which keeps a month in coarser and coarser periods, and merges what is cold.
//!
//! Keys are those of the store, so that the ranges of a tenant are those within its span. What lies in a range that
//! several tenants share, because there are more of them than ranges, is shown to none of them.

pub(crate) mod cells;
pub(crate) mod counter;
pub(crate) mod history;
pub(crate) mod sketch;
mod stored;

use crate::lock::Mutex;
use cells::Cell;
use history::{History, Period};
use keyspan_storage::KeyRange;
use sketch::Sketch;
use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Ranges of all tables together.
pub(crate) const RANGES_MAX: usize = 1_024;
/// Ranges up to which hot ones are split: the others are for tables and tenants that come.
const RANGES_SPLIT_MAX: usize = RANGES_MAX / 8 * 7;
/// Ranges that the end of a minute leaves.
const RANGES_LEFT: usize = RANGES_MAX / 8 * 6;
/// A range is hot with this part of all rows, as `1 / HOT_PART`.
const HOT_PART: u64 = 64;
/// Two neighbours are cold with this part of all rows together.
const COLD_PART: u64 = 1_024;
/// Fewer rows make nothing hot.
const HOT_ROWS_MIN: u64 = 64;

/// What is counted, and what was.
#[derive(Debug, Default)]
pub struct Heat {
    sketches: RwLock<Sketches>,
    /// Whether there was no place for a range in the running minute: then nobody looks for one before its end.
    full: AtomicBool,
    history: Mutex<History>,
    /// What is in the store; held while it is written.
    stored: tokio::sync::Mutex<stored::Stored>,
}

#[derive(Debug, Default)]
struct Sketches {
    by_table: HashMap<u32, Arc<Sketch>>,
}

impl Sketches {
    fn ranges(&self) -> usize {
        self.by_table.values().map(|sketch| sketch.len()).sum()
    }
}

impl Heat {
    /// The sketch of a table, given by its number; `None` if there is no place for another one in this minute.
    pub(crate) fn table(&self, id: u32) -> Option<Arc<Sketch>> {
        let known = self.sketches.read().unwrap_or_else(PoisonError::into_inner).by_table.get(&id).cloned();
        if known.is_some() || self.is_full() {
            return known;
        }
        let mut sketches = self.sketches.write().unwrap_or_else(PoisonError::into_inner);
        if sketches.ranges() >= RANGES_MAX && !sketches.by_table.contains_key(&id) {
            self.full.store(true, Relaxed);
            return None;
        }
        Some(Arc::clone(sketches.by_table.entry(id).or_insert_with(|| Arc::new(Sketch::new(id)))))
    }

    /// Whether there is no place for another range in this minute.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Gives a tenant's span ranges of its own in a sketch, if there is a place for them.
    pub(crate) fn cut(&self, sketch: &Sketch, span: &KeyRange, tenant: u32) {
        // Whoever adds ranges holds this lock, so that no two take the same place.
        let sketches = self.sketches.write().unwrap_or_else(PoisonError::into_inner);
        if sketches.ranges() + 2 > RANGES_MAX {
            self.full.store(true, Relaxed);
            return;
        }
        sketch.cut(span, tenant);
    }

    /// Splits what has become hot.
    pub(crate) fn adapt(&self) {
        let sketches = self.sketches.write().unwrap_or_else(PoisonError::into_inner);
        let all = sketches.by_table.values().map(|sketch| sketch.heat()).fold(0, u64::saturating_add);
        let hot = (all / HOT_PART).max(HOT_ROWS_MIN);
        let mut left = RANGES_SPLIT_MAX.saturating_sub(sketches.ranges());
        for sketch in sketches.by_table.values() {
            left -= sketch.split(hot, left).min(left);
        }
    }

    /// Ends a minute: its counts become a period of the past, and what is cold is merged. `now_micros` is the time to
    /// which the past is aged.
    pub(crate) fn end_minute(&self, minute: Period, now_micros: i64) {
        let mut sketches = self.sketches.write().unwrap_or_else(PoisonError::into_inner);
        let mut history = self.history.lock();
        let ended = sketches.by_table.values().flat_map(|sketch| sketch.take()).collect();
        history.add(minute, ended);
        history.age(now_micros);
        drop(history);
        merge_cold(&mut sketches);
        self.full.store(false, Relaxed);
    }

    /// Forgets tables and tenants that are gone.
    pub(crate) fn retain(&self, is_table: impl Fn(u32) -> bool, is_tenant: impl Fn(u32) -> bool) {
        let mut sketches = self.sketches.write().unwrap_or_else(PoisonError::into_inner);
        sketches.by_table.retain(|id, _| is_table(*id));
        for sketch in sketches.by_table.values() {
            sketch.forget_tenants(&is_tenant);
        }
        let is_gone = |cell: &Cell| !is_table(cell.table) || cell.tenant.is_some_and(|tenant| !is_tenant(tenant));
        self.history.lock().forget(is_gone);
    }

    /// Cells of all periods, the running minute's last, for which `wanted`.
    pub(crate) fn cells(&self, now: Period, wanted: impl Fn(Period, &Cell) -> bool) -> Vec<(Period, Cell)> {
        let running: Vec<Cell> = {
            let sketches = self.sketches.read().unwrap_or_else(PoisonError::into_inner);
            sketches.by_table.values().flat_map(|sketch| sketch.cells()).collect()
        };
        let history = self.history.lock();
        let mut found = Vec::new();
        let mut before_in_minute = Vec::new();
        for (period, cells) in history.periods() {
            // A server that was started again in a minute goes on with it.
            if period == now {
                before_in_minute.extend(cells.iter().cloned());
                continue;
            }
            found.extend(cells.iter().filter(|cell| wanted(period, cell)).map(|cell| (period, cell.clone())));
        }
        let running = cells::fold(before_in_minute.into_iter().chain(running));
        found.extend(running.into_iter().filter(|cell| wanted(now, cell)).map(|cell| (now, cell)));
        found
    }
}

/// Merges neighbours that are cold together, and more until [`RANGES_LEFT`] ranges are left, those of one tenant first.
fn merge_cold(sketches: &mut Sketches) {
    let all = sketches.by_table.values().map(|sketch| sketch.heat()).fold(0, u64::saturating_add);
    let mut ranges = sketches.ranges();
    loop {
        let of = |(id, sketch): (&u32, &Arc<Sketch>)| {
            let id = *id;
            sketch.pairs().into_iter().map(move |(joins, heat, border)| (joins, heat, id, border)).collect::<Vec<_>>()
        };
        let mut pairs: Vec<_> = sketches.by_table.iter().flat_map(of).collect();
        pairs.sort();
        let mut merged = 0;
        // A merge changes the heat of its neighbours: a quarter of all at a time, then they are looked at again.
        for (joins, heat, id, border) in pairs.iter().take(pairs.len() / 4 + 1) {
            let is_cold = !joins && *heat <= all / COLD_PART;
            if (is_cold || ranges > RANGES_LEFT) && sketches.by_table[id].merge(border) {
                (merged, ranges) = (merged + 1, ranges - 1);
            }
        }
        if merged == 0 {
            break;
        }
    }
    // More tables than ranges: the coldest begin anew when they are used again.
    while ranges > RANGES_LEFT {
        let coldest = sketches.by_table.iter().min_by_key(|(_, sketch)| sketch.heat()).map(|(id, _)| *id);
        let Some(gone) = coldest.and_then(|id| sketches.by_table.remove(&id)) else { break };
        ranges -= gone.len();
    }
}

#[cfg(test)]
mod tests {
    use super::{cells::Counts, cells::tests::total, sketch::Keys, *};
    use bytes::Bytes;
    use std::cmp::Ordering;

    struct One(Bytes);

    impl Keys for One {
        fn len(&self) -> usize {
            1
        }

        fn compare(&self, _: usize, stored: &[u8]) -> Ordering {
            self.0.as_ref().cmp(stored)
        }

        fn stored(&self, _: usize) -> Bytes {
            self.0.clone()
        }
    }

    fn read(heat: &Heat, table: u32, key: String) {
        let counts = Counts { reads: 1, bytes_read: 10, ..Counts::default() };
        let Some(sketch) = heat.table(table) else { return };
        let key = One(key.into());
        if let Some((tenant, _)) = std::str::from_utf8(&key.0).unwrap().split_once('#')
            && sketch.is_of_nobody(&key)
        {
            heat.cut(&sketch, &KeyRange::prefix(format!("{tenant}#")), tenant[1..].parse().unwrap());
        }
        sketch.count(&key, counts);
    }

    fn minute(minute: i64) -> (Period, i64) {
        (Period { layer: 0, minute }, (minute + 1) * history::MINUTE_MICROS)
    }

    #[test]
    fn ranges_stay_bounded_and_hot_ones_are_narrow() {
        let heat = Heat::default();
        for tenant in 0..600_u32 {
            read(&heat, 1, format!("t{tenant:03}#k"));
        }
        assert!(heat.is_full() && heat.sketches.read().unwrap().ranges() <= RANGES_MAX);
        // What is hot is split while there are places: at the end of a minute there are.
        heat.end_minute(minute(0).0, minute(0).1);
        assert!(!heat.is_full() && heat.sketches.read().unwrap().ranges() <= RANGES_LEFT);
        for _ in 0..8 {
            for key in 0..1_000 {
                read(&heat, 1, format!("t007#{key:04}"));
            }
            heat.adapt();
        }
        let hot = heat.cells(minute(1).0, |period, cell| period.minute == 1 && cell.tenant == Some(7));
        assert!(hot.len() >= 16, "{}", hot.len());
        assert_eq!(hot.iter().map(|(_, cell)| cell.counts.reads).sum::<u64>(), 8_000);
        heat.end_minute(minute(1).0, minute(1).1);
        // Idle minutes cool them down.
        for idle in 2..20 {
            heat.end_minute(minute(idle).0, minute(idle).1);
        }
        let left = heat.sketches.read().unwrap().by_table[&1].pairs();
        assert!(left.iter().all(|(joins, ..)| *joins), "{}", left.len());
        let all = heat.cells(minute(20).0, |_, _| true);
        let all: Vec<Cell> = all.into_iter().map(|(_, cell)| cell).collect();
        assert_eq!(total(&all).reads, 8_600);
    }

    #[test]
    fn more_tables_than_ranges_are_counted_in_turns() {
        let heat = Heat::default();
        for table in 0..2_000 {
            read(&heat, table, "k".into());
        }
        assert_eq!(heat.sketches.read().unwrap().ranges(), RANGES_MAX);
        heat.end_minute(minute(0).0, minute(0).1);
        assert_eq!(heat.sketches.read().unwrap().ranges(), RANGES_LEFT);
        read(&heat, 1_999, "k".into());
        assert_eq!(heat.cells(minute(1).0, |_, cell| cell.table == 1_999).len(), 1);
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let heat = Heat::default();
        for (table, tenant) in [(1, 7), (1, 8), (2, 7)] {
            read(&heat, table, format!("t{tenant}#k"));
        }
        heat.end_minute(minute(0).0, minute(0).1);
        read(&heat, 1, "t7#k".into());
        read(&heat, 1, "t8#k".into());
        heat.retain(|table| table != 2, |tenant| tenant != 7);
        let left = heat.cells(minute(1).0, |_, _| true);
        let left: Vec<_> = left.iter().map(|(period, cell)| (period.minute, cell.table, cell.tenant)).collect();
        assert_eq!(left, [(0, 1, Some(8)), (1, 1, Some(8))]);
    }
}
