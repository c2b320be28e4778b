//! Rows of memtables for the fast path: of each the newest values of the wanted columns, as slices of where they lie.
//!
//! The slots of a range are cut into [pieces](pieces) of some thousand, which may be read side by side. To read one is to walk its slots and
//! the cells of each: no row is made, no reference counted. Only the newest cell of a column is looked at, since a rule that condemns it
//! condemns the older ones too.

use super::rules;
use crate::{
    GcRule, KeyRange, MemoryPart, MemoryRows, Result, RowKey, RowSet, TakeRow,
    engine::{
        cells,
        memtable::{Slot, bounds},
        pins::Held,
        segment::CleanColumn,
        state::Table,
    },
};
use bytes::Bytes;
use imbl::OrdMap;
use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
};

/// Slots of a piece.
const PIECE_SLOTS: u64 = 4_096;

/// The rows that memtables have of the asked ones, with the newest values of the columns.
pub(super) fn parts(
    held: &Arc<Held>,
    table: &Table,
    rows: &RowSet,
    columns: &[CleanColumn],
    now_micros: i64,
) -> Vec<MemoryPart> {
    let mut parts = Vec::new();
    let mut add = |slots: &OrdMap<RowKey, Slot>, hidden: &OrdMap<RowKey, Slot>, as_of: i64| {
        if slots.is_empty() {
            return;
        }
        let wanted = Arc::new(Wanted::new(table, columns, as_of, now_micros));
        let ranges = rows.ranges().iter().filter(|range| !range.is_empty());
        for (range, count) in ranges.flat_map(|range| pieces(slots, range)) {
            let (held, wanted) = (Arc::clone(held), Arc::clone(&wanted));
            let piece = Piece { held, slots: slots.clone(), hidden: hidden.clone(), range, wanted };
            parts.push(MemoryPart::new(count, Arc::new(piece)));
        }
    };
    // No past rule concerns what the active memtable has.
    add(&table.active.slots, &OrdMap::new(), i64::MAX);
    if let Some(frozen) = &table.frozen {
        add(&frozen.memtable.slots, &table.active.slots, frozen.stamp);
    }
    parts
}

/// The range in pieces of [`PIECE_SLOTS`], the last of fewer, and how many slots each has; none without slots.
fn pieces(slots: &OrdMap<RowKey, Slot>, range: &KeyRange) -> Vec<(KeyRange, u64)> {
    let (mut pieces, mut start, mut count) = (Vec::new(), range.start.clone(), 0);
    for (key, _) in slots.range::<_, [u8]>(bounds(range)) {
        if count == PIECE_SLOTS {
            let end = key.bytes().clone();
            pieces.push((KeyRange::new(std::mem::replace(&mut start, end.clone()), Some(end)), count));
            count = 0;
        }
        count += 1;
    }
    if count > 0 {
        pieces.push((KeyRange::new(start, range.end.clone()), count));
    }
    pieces
}

/// What is wanted of each family, by number; `None` where the table has no family of the number.
#[derive(Debug)]
struct Wanted {
    families: Vec<Option<WantedFamily>>,
    /// How many columns.
    columns: usize,
}

#[derive(Debug)]
struct WantedFamily {
    /// Qualifiers, ascending, and their places in the request.
    columns: Vec<(Bytes, usize)>,
    /// What may condemn a newest cell, and the time by which it judges.
    rules: Vec<(GcRule, i64)>,
}

impl Wanted {
    /// Of cells that are as of a stamp.
    fn new(table: &Table, columns: &[CleanColumn], as_of: i64, now_micros: i64) -> Self {
        let mut rules = rules(table, as_of, now_micros);
        let mut of_family = |number: u32| {
            let of_family = columns.iter().enumerate().filter(|(_, column)| column.family == number);
            let mut columns: Vec<_> = of_family.map(|(place, column)| (column.qualifier.clone(), place)).collect();
            columns.sort_unstable();
            let mut rules = rules.remove(&number).unwrap_or_default();
            rules.retain(|(rule, _)| rule.condemns(0, i64::MIN, i64::MAX));
            WantedFamily { columns, rules }
        };
        let names = table.descriptor.names().zip(0..);
        let families = names.map(|(name, number)| name.map(|_| of_family(number))).collect();
        Self { families, columns: columns.len() }
    }

    /// Puts the newest living value of each wanted column of an encoded row into `values`. Whether any cell of the row lives.
    fn newest<'a>(&self, row: &'a [u8], values: &mut [Option<&'a [u8]>]) -> bool {
        values.fill(None);
        let (mut exists, mut missing) = (false, self.columns);
        // Columns come in order, wanted ones too: a step forward in the one list is never a step back in the other.
        let (mut family, mut passed) = (u32::MAX, 0);
        for cell in cells::decode(row).filter(|cell| cell.new_column) {
            let Some(Some(wanted)) = self.families.get(cell.family as usize) else { continue };
            if family != cell.family {
                (family, passed) = (cell.family, 0);
            }
            while wanted.columns.get(passed).is_some_and(|(qualifier, _)| **qualifier < *cell.qualifier) {
                passed += 1;
            }
            let places = wanted.columns[passed..].iter().take_while(|(qualifier, _)| **qualifier == *cell.qualifier);
            let mut places = places.map(|(_, place)| *place).peekable();
            if exists && places.peek().is_none() {
                continue;
            }
            if wanted.rules.iter().any(|(rule, at)| rule.condemns(0, cell.timestamp, *at)) {
                continue;
            }
            exists = true;
            for place in places {
                values[place] = Some(cell.value);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        exists
    }
}

/// Slots of a memtable that follow each other.
struct Piece {
    held: Arc<Held>,
    slots: OrdMap<RowKey, Slot>,
    /// Keys that are not to be given.
    hidden: OrdMap<RowKey, Slot>,
    range: KeyRange,
    wanted: Arc<Wanted>,
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("range", &self.range).finish_non_exhaustive()
    }
}

impl MemoryRows for Piece {
    fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()> {
        // A pin that was taken away ends the scans that read by it.
        self.held.state()?;
        let (start, end) = bounds(&self.range);
        let bounds = (after.map_or(start, Bound::Excluded), end);
        let mut hidden = self.hidden.range::<_, [u8]>(bounds).map(|(key, _)| key).peekable();
        let mut values = vec![None; self.wanted.columns];
        for (key, slot) in self.slots.range::<_, [u8]>(bounds) {
            while hidden.next_if(|hidden| *hidden < key).is_some() {}
            let Some(row) = slot.row.as_ref().filter(|_| hidden.peek() != Some(&key)) else { continue };
            if self.wanted.newest(row, &mut values) && take(key, &values) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}
