//! Rows of memtables for the fast path: the newest values of the requested columns, as slices of the encoded rows.
//!
//! The slots of a range are divided into [pieces] of some thousand, which may be read in parallel. Reading one walks
//! its slots and the cells of each, without building rows or counting references. Only the newest cell of a column is
//! examined, since a rule that condemns it condemns the older ones too. Rows are scattered over the memory: the rows of
//! some slots are prefetched before any is read, so that their cache misses overlap.

use super::rules;
use crate::{
    GcRule, KeyRange, MemoryPart, MemoryRows, Result, RowKey, RowSet, TakeRow,
    engine::{
        cells,
        memtable::{Memtable, PIECE_SLOTS, Slot, bounds},
        pins::PinnedState,
        segment::CleanColumn,
        state::Table,
    },
};
use bytes::Bytes;
use imbl::OrdMap;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// Slots whose rows are prefetched together.
const TOUCHED_SLOTS: usize = 32;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes of a row that are prefetched; the processor's own prefetcher takes over for longer ones.
const TOUCHED_BYTES: usize = 512;
/// Up to this number of requested columns in a family, a linear search is used.
const FEW_COLUMNS: usize = 8;

/// The requested rows that are in memtables, with the newest values of the columns.
pub(super) fn parts(
    held: &Arc<PinnedState>,
    table: &Table,
    rows: &RowSet,
    columns: &[CleanColumn],
    now_micros: i64,
) -> Vec<MemoryPart> {
    let mut parts = Vec::new();
    let mut add = |memtable: &Memtable, hidden: &OrdMap<RowKey, Slot>, as_of: i64| {
        if memtable.slots.is_empty() {
            return;
        }
        let wanted = Arc::new(RequestedColumns::new(table, columns, as_of, now_micros));
        let ranges = rows.ranges().iter().filter(|range| !range.is_empty());
        for (range, count) in ranges.flat_map(|range| pieces(memtable, range)) {
            let (held, wanted) = (Arc::clone(held), Arc::clone(&wanted));
            let piece = Piece { held, slots: memtable.slots.clone(), hidden: hidden.clone(), range, wanted };
            parts.push(MemoryPart::new(count, Arc::new(piece)));
        }
    };
    // No past rule applies to the active memtable.
    add(&table.active, &OrdMap::new(), i64::MAX);
    if let Some(frozen) = &table.frozen {
        add(&frozen.memtable, &table.active.slots, frozen.stamp);
    }
    parts
}

/// Divides the range into pieces, each with an estimate of its slots; empty if there are no slots.
fn pieces(memtable: &Memtable, range: &KeyRange) -> Vec<(KeyRange, u64)> {
    let boundaries = memtable.boundaries();
    let first = boundaries.partition_point(|key| key[..] <= range.start[..]);
    let last = range.end.as_ref().map_or(boundaries.len(), |end| boundaries.partition_point(|key| key[..] < end[..]));
    let Some(boundaries) = boundaries.get(first..last).filter(|boundaries| !boundaries.is_empty()) else {
        let count = memtable.slots.range::<_, [u8]>(bounds(range)).count() as u64;
        return (count > 0).then(|| (range.clone(), count)).into_iter().collect();
    };
    let starts = std::iter::once(&range.start).chain(boundaries.iter().map(RowKey::bytes));
    let ends = boundaries.iter().map(|key| Some(key.bytes())).chain([range.end.as_ref()]);
    let pieces = starts.zip(ends).map(|(start, end)| KeyRange::new(start.clone(), end.cloned()));
    pieces.map(|piece| (piece, PIECE_SLOTS as u64)).collect()
}

/// Requested columns of each family, by number; `None` if the table has no family of that number.
#[derive(Debug)]
struct RequestedColumns {
    families: Vec<Option<RequestedFamily>>,
    /// Number of columns.
    columns: usize,
}

#[derive(Debug)]
struct RequestedFamily {
    /// Qualifiers, ascending, with their indexes in the request: several if a column is requested twice.
    columns: Vec<(Bytes, Vec<usize>)>,
    /// Rules that may condemn a newest cell, each with the time at which it is evaluated.
    rules: Vec<(GcRule, i64)>,
    /// Erased qualifiers, whose cells a frozen memtable may still have.
    erased: BTreeSet<Vec<u8>>,
}

impl RequestedColumns {
    /// For cells that are as of the stamp `as_of`.
    fn new(table: &Table, columns: &[CleanColumn], as_of: i64, now_micros: i64) -> Self {
        let mut rules = rules(table, as_of, now_micros);
        let mut of_family = |number: u32| {
            let mut of_family: BTreeMap<Bytes, Vec<usize>> = BTreeMap::new();
            for (index, column) in columns.iter().enumerate().filter(|(_, column)| column.family == number) {
                of_family.entry(column.qualifier.clone()).or_default().push(index);
            }
            let columns = of_family.into_iter().collect();
            let mut rules = rules.remove(&number).unwrap_or_default();
            rules.retain(|(rule, _)| rule.condemns(0, i64::MIN, i64::MAX));
            let schema = &table.descriptor.schema;
            let erased = table.descriptor.family(number).and_then(|family| schema.erased_in(family));
            RequestedFamily { columns, rules, erased: erased.cloned().unwrap_or_default() }
        };
        let names = table.descriptor.names().zip(0..);
        let families = names.map(|(name, number)| name.map(|_| of_family(number))).collect();
        Self { families, columns: columns.len() }
    }

    /// Puts the newest live value of each requested column of an encoded row into `values`; returns whether any cell of
    /// the row is live.
    fn newest<'a>(&self, row: &'a [u8], values: &mut [Option<&'a [u8]>]) -> bool {
        values.fill(None);
        let (mut exists, mut missing) = (false, self.columns);
        // Columns are in order, requested ones too: both lists are only walked forward.
        let (mut family, mut passed) = (u32::MAX, 0);
        for cell in cells::decode(row).filter(|cell| cell.new_column) {
            let Some(Some(wanted)) = self.families.get(cell.family as usize) else { continue };
            if wanted.erased.contains(cell.qualifier) {
                continue;
            }
            if family != cell.family {
                (family, passed) = (cell.family, 0);
            }
            let found = wanted.find(&mut passed, cell.qualifier);
            if exists && found.is_none() {
                continue;
            }
            if wanted.rules.iter().any(|(rule, at)| rule.condemns(0, cell.timestamp, *at)) {
                continue;
            }
            exists = true;
            if let Some(indexes) = found {
                indexes.iter().for_each(|index| values[*index] = Some(cell.value));
                missing -= indexes.len();
            }
            if missing == 0 {
                break;
            }
        }
        exists
    }
}

impl RequestedFamily {
    /// The indexes of a column in the request. Columns before `passed` do not occur any more.
    fn find(&self, passed: &mut usize, qualifier: &[u8]) -> Option<&[usize]> {
        let left = &self.columns[*passed..];
        // Qualifiers that differ mostly differ in length, so comparing for equality is cheap.
        let found = match left.len() <= FEW_COLUMNS {
            true => left.iter().position(|(wanted, _)| **wanted == *qualifier)?,
            false => {
                let before = left.iter().take_while(|(wanted, _)| **wanted < *qualifier).count();
                *passed += before;
                left.get(before).filter(|(wanted, _)| **wanted == *qualifier).map(|_| before)?
            }
        };
        *passed = self.columns.len() - left.len() + found + 1;
        Some(&left[found].1)
    }
}

/// Consecutive slots of a memtable.
struct Piece {
    held: Arc<PinnedState>,
    slots: OrdMap<RowKey, Slot>,
    /// Keys to skip.
    hidden: OrdMap<RowKey, Slot>,
    range: KeyRange,
    wanted: Arc<RequestedColumns>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("range", &self.range).finish_non_exhaustive()
    }
}

impl MemoryRows for Piece {
    fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()> {
        // An expired pin ends the scans that read by it.
        self.held.state()?;
        let (start, end) = bounds(&self.range);
        let bounds = (after.map_or(start, Bound::Excluded), end);
        let mut hidden = self.hidden.range::<_, [u8]>(bounds).map(|(key, _)| key).peekable();
        let mut values = vec![None; self.wanted.columns];
        let mut slots = self.slots.range::<_, [u8]>(bounds);
        let mut some = Vec::with_capacity(TOUCHED_SLOTS);
        loop {
            let mut count = 0;
            let next = slots.by_ref().take(TOUCHED_SLOTS).inspect(|_| count += 1);
            some.extend(next.filter_map(|(key, slot)| Some((key, slot.row.as_ref()?))));
            if count == 0 {
                return Ok(());
            }
            std::hint::black_box(some.iter().fold(0, |touched, (key, row)| touched ^ lines(key) ^ lines(row)));
            for (key, row) in some.drain(..) {
                while hidden.next_if(|hidden| *hidden < key).is_some() {}
                if hidden.peek() == Some(&key) {
                    continue;
                }
                if self.wanted.newest(row, &mut values) && take(key, &values).is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// Reads a byte of every cache line, so that all of them are fetched.
fn lines(bytes: &[u8]) -> u8 {
    let touched = &bytes[..bytes.len().min(TOUCHED_BYTES)];
    let lines = touched.iter().step_by(LINE_BYTES).fold(0, |lines, byte| lines ^ byte);
    lines ^ touched.last().copied().unwrap_or_default()
}
