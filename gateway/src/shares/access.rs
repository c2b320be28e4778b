//! How a table is used, as far as advice on its schema is made of it ([`advice`](crate::advice)): what scans of all of
//! its rows compared, which families are read together, whether writes go to an end of the keys, how large rows and
//! cells become.
//!
//! Counted for each tenant by itself, in bounded memory: names of columns and families are kept, and the beginnings of
//! at most four keys of a table, but no values. The counts are of the last [`DAYS`] days, which
//! [`days`](super::days) keeps over restarts.

use super::days::DAYS;
use crate::lock::Mutex;
use keyspan_storage::{Columns, FamilyName, Mutation, Row, RowKey};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Sets of columns that scans of all rows compared: of more the first are counted.
const CONDITIONS_MAX: usize = 32;
/// Sets of families that scans read: of more the first are counted.
const FAMILIES_MAX: usize = 32;
/// After so many rows the least and the greatest key so far are those that later ones are held against.
const SETTLE_ROWS: u64 = 1_024;
/// Bytes of a key that are kept.
const KEY_BYTES_KEPT: usize = 64;
/// A row with fewer cells is not measured: it is not on its way to a limit.
const CELLS_MEASURED_MIN: usize = 256;

/// A scan of all rows that has ended, though conditions asked for some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeScan {
    /// The columns that its conditions name, and those of them that have to be one of some values.
    pub(crate) columns: BTreeSet<String>,
    pub(crate) equal: BTreeSet<String>,
    /// Rows that it read, and those for which the conditions held.
    pub(crate) rows: u64,
    pub(crate) selected: u64,
    pub(crate) bytes: u64,
}

/// Such scans, added up by their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WholeScans {
    pub(crate) columns: BTreeSet<String>,
    pub(crate) equal: BTreeSet<String>,
    pub(crate) scans: u64,
    pub(crate) bytes: u64,
    /// Of these the bytes of rows for which the conditions did not hold.
    pub(crate) in_vain: u64,
}

/// Scans that read these families: all that the table has, if `families` is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FamilyReads {
    pub(crate) families: Option<Vec<FamilyName>>,
    pub(crate) scans: u64,
}

/// Where rows were written: held against the keys that were there when they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// All, but for the first, for which nothing was known.
    pub(crate) rows: u64,
    /// Those above all keys before, and those below.
    pub(crate) above: u64,
    pub(crate) below: u64,
}

/// A cell's column and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargestCell {
    pub(crate) family: FamilyName,
    pub(crate) qualifier: Vec<u8>,
    pub(crate) bytes: u64,
}

/// What is known of a table at a time; that of several tenants adds up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) whole_scans: Vec<WholeScans>,
    pub(crate) families: Vec<FamilyReads>,
    pub(crate) ends: Ends,
    /// Of the row with most cells that was read its cells, and of the largest of those with many its bytes.
    pub(crate) row_cells: u64,
    pub(crate) row_bytes: u64,
    pub(crate) cell: Option<LargestCell>,
}

/// Where it is counted: of the running day, as far as the server runs.
#[derive(Debug, Default)]
pub(crate) struct Access {
    whole_scans: Mutex<Vec<WholeScans>>,
    families: Mutex<Vec<FamilyReads>>,
    ends: Mutex<Watch>,
    row_cells: AtomicU64,
    row_bytes: AtomicU64,
    /// The size of `cell`, so that smaller ones need not look.
    cell_bytes: AtomicU64,
    cell: Mutex<Option<LargestCell>>,
    /// What is known beside that, by the day since 1970.
    before: Mutex<(i64, BTreeMap<i64, Seen>)>,
}

#[derive(Debug, Default)]
struct Watch {
    counted: Ends,
    /// The least and the greatest key that later ones are held against.
    settled: Option<(Vec<u8>, Vec<u8>)>,
    /// Those of all rows, and how many came since `settled` was taken.
    seen: Option<(Vec<u8>, Vec<u8>)>,
    since: u64,
}

fn kept(key: &RowKey) -> &[u8] {
    &key[..key.len().min(KEY_BYTES_KEPT)]
}

impl Watch {
    /// Counts rows with these ascending keys.
    fn wrote(&mut self, keys: &[&RowKey]) {
        let (Some(first), Some(last)) = (keys.first().map(|key| kept(key)), keys.last().map(|key| kept(key))) else {
            return;
        };
        if let Some((least, greatest)) = &self.settled {
            let below = keys.partition_point(|key| kept(key) < least.as_slice());
            let upto = keys.partition_point(|key| kept(key) <= greatest.as_slice());
            self.counted.rows += keys.len() as u64;
            self.counted.below += below as u64;
            self.counted.above += (keys.len() - upto) as u64;
        }
        match &mut self.seen {
            None => self.seen = Some((first.to_vec(), last.to_vec())),
            Some((least, greatest)) => {
                if first < least.as_slice() {
                    *least = first.to_vec();
                }
                if last > greatest.as_slice() {
                    *greatest = last.to_vec();
                }
            }
        }
        self.since += keys.len() as u64;
        if self.since >= SETTLE_ROWS {
            (self.since, self.settled) = (0, self.seen.clone());
        }
    }
}

impl Access {
    /// Counts a scan of all rows.
    pub(crate) fn scanned_whole(&self, scan: &WholeScan) {
        let mut all = self.whole_scans.lock();
        let at = all.iter().position(|known| (&known.columns, &known.equal) == (&scan.columns, &scan.equal));
        let at = match at {
            Some(at) => at,
            None if all.len() < CONDITIONS_MAX => {
                let (columns, equal) = (scan.columns.clone(), scan.equal.clone());
                all.push(WholeScans { columns, equal, ..WholeScans::default() });
                all.len() - 1
            }
            None => return,
        };
        let of = &mut all[at];
        of.scans += 1;
        of.bytes = of.bytes.saturating_add(scan.bytes);
        // In proportion: rows are taken to have one size.
        let others = scan.rows.saturating_sub(scan.selected);
        let in_vain = u128::from(scan.bytes) * u128::from(others) / u128::from(scan.rows.max(1));
        of.in_vain = of.in_vain.saturating_add(u64::try_from(in_vain).unwrap_or(u64::MAX));
    }

    /// Counts the families that a scan reads.
    pub(crate) fn read_families(&self, columns: &Columns) {
        let is = |known: &FamilyReads| match (&known.families, columns) {
            (None, Columns::All) => true,
            (Some(families), Columns::Of(read)) => families.iter().eq(read.iter().map(|of| &of.family)),
            _ => false,
        };
        let mut all = self.families.lock();
        if let Some(known) = all.iter_mut().find(|known| is(known)) {
            known.scans += 1;
        } else if all.len() < FAMILIES_MAX {
            let families = match columns {
                Columns::All => None,
                Columns::Of(read) => Some(read.iter().map(|of| of.family.clone()).collect()),
            };
            all.push(FamilyReads { families, scans: 1 });
        }
    }

    /// Looks at rows that are read.
    pub(crate) fn read(&self, rows: &[Row]) {
        let Some(most) = rows.iter().map(|row| row.cells.len()).max() else { return };
        if most < CELLS_MEASURED_MIN {
            return;
        }
        self.row_cells.fetch_max(most as u64, Relaxed);
        let large = rows.iter().filter(|row| row.cells.len() >= CELLS_MEASURED_MIN);
        let bytes = large.map(|row| row.size() as u64).max().unwrap_or_default();
        self.row_bytes.fetch_max(bytes, Relaxed);
    }

    /// Looks at rows that are written, with their ascending keys.
    pub(crate) fn wrote(&self, keys: &[&RowKey]) {
        self.ends.lock().wrote(keys);
    }

    /// Looks at cells that are written.
    pub(crate) fn wrote_cells<'a>(&self, mutations: impl Iterator<Item = &'a Mutation>) {
        let most = self.cell_bytes.load(Relaxed);
        let size = |mutation: &Mutation| match mutation {
            Mutation::SetCell { value, .. } => value.len() as u64,
            _ => 0,
        };
        let Some(largest) = mutations.max_by_key(|mutation| size(mutation)).filter(|largest| size(largest) > most)
        else {
            return;
        };
        if let Mutation::SetCell { family, qualifier, .. } = largest {
            self.wrote_cell(family, qualifier, size(largest));
        }
    }

    /// Looks at a cell that is written.
    pub(crate) fn wrote_cell(&self, family: &FamilyName, qualifier: &[u8], bytes: u64) {
        if self.cell_bytes.fetch_max(bytes, Relaxed) < bytes {
            let mut cell = self.cell.lock();
            if cell.as_ref().is_none_or(|cell| cell.bytes < bytes) {
                *cell = Some(LargestCell { family: family.clone(), qualifier: qualifier.to_vec(), bytes });
            }
        }
    }

    /// What is known of the last days.
    pub(crate) fn seen(&self) -> Seen {
        let before = self.before.lock();
        before.1.values().cloned().fold(self.counted(), Seen::and)
    }

    /// What is known of each day, if what is counted is of `day`.
    pub(crate) fn by_day(&self, day: i64) -> BTreeMap<i64, Seen> {
        let mut days = self.before.lock().1.clone();
        let known = days.remove(&day).unwrap_or_default();
        days.insert(day, self.counted().and(known));
        days
    }

    /// Adds what is known of a day.
    pub(crate) fn remember(&self, day: i64, seen: Seen) {
        let mut before = self.before.lock();
        let known = before.1.remove(&day).unwrap_or_default();
        before.1.insert(day, known.and(seen));
    }

    /// Lets a day begin, if it is another one: what was counted is of the one before. Days that are too long ago are
    /// forgotten.
    pub(crate) fn turn(&self, day: i64) {
        let ended = std::mem::replace(&mut self.before.lock().0, day);
        if ended != day && ended != 0 {
            let counted = self.take();
            self.remember(ended, counted);
        }
        self.before.lock().1.retain(|of, seen| *of > day - DAYS && *seen != Seen::default());
    }

    /// Forgets all.
    pub(crate) fn forget(&self) {
        self.take();
        *self.ends.lock() = Watch::default();
        self.before.lock().1.clear();
    }

    /// What was counted: the counts begin anew.
    fn take(&self) -> Seen {
        let whole_scans = std::mem::take(&mut *self.whole_scans.lock());
        let families = std::mem::take(&mut *self.families.lock());
        let ends = std::mem::take(&mut self.ends.lock().counted);
        let (row_cells, row_bytes) = (self.row_cells.swap(0, Relaxed), self.row_bytes.swap(0, Relaxed));
        self.cell_bytes.store(0, Relaxed);
        let cell = self.cell.lock().take();
        Seen { whole_scans, families, ends, row_cells, row_bytes, cell }
    }

    fn counted(&self) -> Seen {
        Seen {
            whole_scans: self.whole_scans.lock().clone(),
            families: self.families.lock().clone(),
            ends: self.ends.lock().counted,
            row_cells: self.row_cells.load(Relaxed),
            row_bytes: self.row_bytes.load(Relaxed),
            cell: self.cell.lock().clone(),
        }
    }
}

impl Seen {
    /// What is known of the same table with what another tenant does.
    #[must_use]
    pub(crate) fn and(mut self, more: Self) -> Self {
        for scans in more.whole_scans {
            match self
                .whole_scans
                .iter_mut()
                .find(|known| (&known.columns, &known.equal) == (&scans.columns, &scans.equal))
            {
                Some(known) => {
                    known.scans += scans.scans;
                    known.bytes = known.bytes.saturating_add(scans.bytes);
                    known.in_vain = known.in_vain.saturating_add(scans.in_vain);
                }
                None => self.whole_scans.push(scans),
            }
        }
        for reads in more.families {
            match self.families.iter_mut().find(|known| known.families == reads.families) {
                Some(known) => known.scans += reads.scans,
                None => self.families.push(reads),
            }
        }
        let (ends, other) = (&mut self.ends, more.ends);
        ends.rows += other.rows;
        ends.above += other.above;
        ends.below += other.below;
        self.row_cells = self.row_cells.max(more.row_cells);
        self.row_bytes = self.row_bytes.max(more.row_bytes);
        let size = |cell: &Option<LargestCell>| cell.as_ref().map_or(0, |cell| cell.bytes);
        if size(&more.cell).cmp(&size(&self.cell)) == Ordering::Greater {
            self.cell = more.cell;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use keyspan_storage::{Cell, scan::FamilyColumns};

    fn keys(numbers: impl Iterator<Item = u64>) -> Vec<RowKey> {
        let mut keys: Vec<RowKey> =
            numbers.map(|number| RowKey::new(format!("{number:08}").into_bytes()).unwrap()).collect();
        keys.sort();
        keys
    }

    fn wrote(access: &Access, numbers: impl Iterator<Item = u64>) {
        let keys = keys(numbers);
        access.wrote(&keys.iter().collect::<Vec<_>>());
    }

    #[test]
    fn ends_are_told_from_the_middle() {
        let ascending = Access::default();
        for batch in 0..100 {
            wrote(&ascending, batch * 100..batch * 100 + 100);
        }
        let Ends { rows, above, below } = ascending.seen().ends;
        // The first 1,100 rows are held against nothing.
        assert_eq!((rows, above, below), (8_900, 8_900, 0));
        let descending = Access::default();
        for batch in (0..100).rev() {
            wrote(&descending, batch * 100..batch * 100 + 100);
        }
        assert_eq!(descending.seen().ends, Ends { rows: 8_900, above: 0, below: 8_900 });
        let mixed = Access::default();
        for batch in 0..100_u64 {
            wrote(&mixed, (0..100).map(|at| (batch * 100 + at) * 7_919 % 10_007));
        }
        let Ends { rows, above, below } = mixed.seen().ends;
        assert!(rows == 8_900 && above + below < rows / 50, "{above} {below}");
        // Rows that are written again lie within.
        let again = Access::default();
        for _ in 0..100 {
            wrote(&again, 0..100);
        }
        assert_eq!(again.seen().ends, Ends { rows: 8_900, above: 0, below: 0 });
    }

    fn family(name: &str) -> FamilyName {
        FamilyName::new(name).unwrap()
    }

    fn columns(families: &[&str]) -> Columns {
        Columns::Of(families.iter().map(|name| FamilyColumns { family: family(name), qualifiers: None }).collect())
    }

    #[test]
    fn days_end_and_are_forgotten() {
        let access = Access::default();
        let scan = |rows| WholeScan { columns: ["a".to_owned()].into(), rows, bytes: rows, ..WholeScan::default() };
        let scans = |access: &Access| access.seen().whole_scans.first().map_or((0, 0), |of| (of.scans, of.bytes));
        access.turn(100);
        access.scanned_whole(&scan(10));
        access.turn(100);
        assert_eq!(scans(&access), (1, 10));
        access.turn(101);
        access.scanned_whole(&scan(20));
        assert_eq!(scans(&access), (2, 30));
        // What a start finds is of its day.
        access.remember(101, access.by_day(101)[&101].clone());
        assert_eq!(scans(&access), (3, 50));
        let days: Vec<_> = access.by_day(101).into_iter().map(|(day, seen)| (day, seen.whole_scans[0].scans)).collect();
        assert_eq!(days, [(100, 1), (101, 2)]);
        access.turn(106);
        assert_eq!(scans(&access), (3, 50));
        access.turn(107);
        assert_eq!(scans(&access), (2, 40));
        access.turn(120);
        assert_eq!(access.seen(), Seen::default());
        access.scanned_whole(&scan(1));
        access.remember(119, access.seen());
        access.forget();
        assert_eq!(access.seen(), Seen::default());
    }

    #[test]
    fn scans_are_added_up_by_their_columns_and_families() {
        let access = Access::default();
        let scan = |column: &str, selected| WholeScan {
            columns: [column.to_owned()].into(),
            equal: BTreeSet::new(),
            rows: 100,
            selected,
            bytes: 1_000,
        };
        for (column, selected) in [("a", 10), ("a", 0), ("b", 100)] {
            access.scanned_whole(&scan(column, selected));
        }
        for read in [columns(&["f"]), columns(&["f", "g"]), columns(&["f"]), Columns::All, columns(&[])] {
            access.read_families(&read);
        }
        let seen = access.seen();
        let scans: Vec<_> = seen.whole_scans.iter().map(|of| (of.scans, of.bytes, of.in_vain)).collect();
        assert_eq!(scans, [(2, 2_000, 1_900), (1, 1_000, 0)]);
        assert_eq!(seen.families.iter().map(|of| of.scans).collect::<Vec<_>>(), [2, 1, 1, 1]);
        for other in 0..CONDITIONS_MAX as u64 * 2 {
            access.scanned_whole(&scan(&other.to_string(), 0));
            access.read_families(&columns(&[&format!("f{other}")]));
        }
        let bounded = access.seen();
        assert_eq!((bounded.whole_scans.len(), bounded.families.len()), (CONDITIONS_MAX, FAMILIES_MAX));
        let both = seen.clone().and(seen);
        assert_eq!((both.whole_scans[0].scans, both.families[0].scans, both.whole_scans.len()), (4, 4, 2));
    }

    #[test]
    fn the_largest_row_and_cell_are_kept() {
        let access = Access::default();
        let cell = |at: usize| Cell {
            family: family("f"),
            qualifier: Bytes::from(format!("{at:04}")),
            timestamp: 1,
            value: Bytes::from_static(b"12345678"),
        };
        let row = |cells: usize| Row { key: keys(0..1).remove(0), cells: (0..cells).map(cell).collect() };
        access.read(&[row(3)]);
        assert_eq!(access.seen(), Seen::default());
        access.read(&[row(300), row(3)]);
        access.read(&[row(299)]);
        let seen = access.seen();
        assert_eq!((seen.row_cells, seen.row_bytes), (300, row(300).size() as u64));
        let set = |qualifier: &'static str, bytes: usize| Mutation::SetCell {
            family: family("f"),
            qualifier: qualifier.into(),
            timestamp: None,
            value: vec![0; bytes].into(),
        };
        access.wrote_cells([set("a", 10), set("b", 30), set("c", 20), Mutation::DeleteFromRow].iter());
        access.wrote_cells([set("d", 25)].iter());
        let largest = LargestCell { family: family("f"), qualifier: b"b".to_vec(), bytes: 30 };
        assert_eq!(access.seen().cell, Some(largest));
    }
}
