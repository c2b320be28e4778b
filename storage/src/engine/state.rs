//! The tables of a store, as one value.
//!
//! A [`State`] is persistent: a copy is free and shares unchanged parts. The log thread changes its own copy and
//! publishes it when the log has the changes; a [`Pin`](crate::Pin) is the published state at its time. Readers take no
//! lock.
//!
//! A row has one live location: a slot of the active memtable, a slot of the frozen one (which is being flushed), or a
//! position of one segment. A write puts the whole row into the active memtable and marks its position in a segment
//! dead. So the rows of a table are the disjoint union of its parts, and nothing is merged cell by cell.

use super::{
    cells,
    deletion_vector::{DeletionVector, Position},
    descriptor::Descriptor,
    manifest::{PastRule, SegmentId},
    memtable::{Memtable, Slot},
    segment::Segment,
    tablet::Tablets,
};
use crate::{Cell, Error, FamilyName, Result, TableName, TableSchema, row};
use bytes::Bytes;
use imbl::{OrdMap, Vector};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    sync::Arc,
};

/// Number of flushes and loads whose changed rows are kept; a commit that relied on an older pin is refused.
pub(crate) const RECENT_CHANGES_MAX: usize = 4;

/// The tables at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// By name.
    pub(crate) tables: OrdMap<TableName, Table>,
    /// The name of each table, by its number.
    names: OrdMap<u32, TableName>,
    /// The number of the next table.
    pub(crate) next_table: u32,
    /// The greatest stamp so far, in microseconds.
    pub(crate) stamp: i64,
    /// Number of times that frozen memtables became segments, or segments were loaded.
    pub(crate) flushes: u64,
    /// Rows that the last of them changed, oldest first; at most [`RECENT_CHANGES_MAX`].
    pub(crate) recent_changes: Vector<Arc<ChangedRows>>,
}

/// One table at one time.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its families.
    pub(crate) descriptor: Arc<Descriptor>,
    /// The memtable that takes writes.
    pub(crate) active: Memtable,
    /// The memtable that is being flushed.
    pub(crate) frozen: Option<Arc<Frozen>>,
    /// The segments.
    pub(crate) tablets: Tablets<Segment>,
    /// The deletion vectors of segments.
    pub(crate) deletion_vectors: OrdMap<SegmentId, DeletionVector>,
    /// Replaced rules, whose condemned cells older segments may still have.
    pub(crate) past_rules: Vector<PastRule>,
    /// The stamp of the last deletion of a range since the start, in microseconds: it removes the history of its rows,
    /// too.
    pub(crate) range_deleted: Option<i64>,
}

/// A memtable that takes no more writes.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Its rows.
    pub(crate) memtable: Memtable,
    /// The last stamp before it was frozen, in microseconds.
    pub(crate) stamp: i64,
}

/// Rows that a flush or a load brought into segments, to decide whether a row changed since a pin. Rows are recorded as
/// hashes, since a false alarm only costs a retry.
#[derive(Debug)]
pub(crate) struct ChangedRows {
    /// By hash of table and key, ascending, with the stamp of the last change.
    rows: Vec<(u64, i64)>,
    /// Ranges that were deleted, or in which rows were loaded, by table, with the stamp.
    ranges: Vec<(u32, crate::KeyRange, i64)>,
}

impl ChangedRows {
    /// The changes of a state's frozen memtables.
    pub(crate) fn of(state: &State) -> Self {
        let (mut rows, mut ranges) = (Vec::new(), Vec::new());
        // No commit relies on history.
        for (_, table) in state.public_tables() {
            let (number, Some(frozen)) = (table.descriptor.number, &table.frozen) else { continue };
            rows.extend(frozen.memtable.slots.iter().map(|(key, slot)| (row_hash(number, key), slot.stamp)));
            ranges.extend(frozen.memtable.ranges.iter().map(|(range, stamp)| (number, range.clone(), *stamp)));
        }
        rows.sort_unstable();
        Self { rows, ranges }
    }

    /// Loaded rows, by [hash](row_hash), with the load's stamp.
    pub(crate) fn of_rows(mut rows: Vec<(u64, i64)>) -> Self {
        rows.sort_unstable();
        Self { rows, ranges: Vec::new() }
    }

    /// Ranges with loaded rows, by table, with the load's stamp.
    pub(crate) fn of_ranges(ranges: Vec<(u32, crate::KeyRange, i64)>) -> Self {
        Self { rows: Vec::new(), ranges }
    }

    fn changed_after(&self, table: u32, key: &[u8], stamp: i64) -> bool {
        let hash = row_hash(table, key);
        let from = self.rows.partition_point(|(of, _)| *of < hash);
        self.rows[from..].iter().take_while(|(of, _)| *of == hash).any(|(_, changed)| *changed > stamp)
            || self.ranges.iter().any(|(of, range, deleted)| *of == table && *deleted > stamp && range.contains(key))
    }
}

/// The hash of a row in [`ChangedRows`]; compared within one process only.
pub(crate) fn row_hash(table: u32, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (table, key).hash(&mut hasher);
    hasher.finish()
}

/// The location of a row in a table's segments.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// The segment.
    pub(crate) segment: Arc<Segment>,
    /// The position in it.
    pub(crate) position: Position,
}

/// The result of a lookup in the memtables.
#[derive(Clone, Debug)]
pub(crate) enum MemtableLookup {
    /// The row, encoded, and the stamp up to which past rules were applied to it; `None` for a row that is up to date.
    Row(Bytes, Option<i64>),
    /// The row was deleted.
    Deleted,
    /// The memtables do not have the row; segments may.
    Absent,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(descriptor: Descriptor) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
            active: Memtable::default(),
            frozen: None,
            tablets: Tablets::default(),
            deletion_vectors: OrdMap::new(),
            past_rules: Vector::new(),
            range_deleted: None,
        }
    }

    /// Looks up a row in the memtables.
    pub(crate) fn look_up_memtables(&self, key: &[u8]) -> MemtableLookup {
        let Some((slot, as_of)) = self.slot(key) else { return MemtableLookup::Absent };
        slot.row.clone().map_or(MemtableLookup::Deleted, |row| MemtableLookup::Row(row, as_of))
    }

    /// The slot of a row in the memtables, and the stamp up to which past rules were applied to it; `None` for a slot
    /// of the active memtable, which is up to date.
    pub(crate) fn slot(&self, key: &[u8]) -> Option<(&Slot, Option<i64>)> {
        if let Some(slot) = self.active.slots.get(key) {
            return Some((slot, None));
        }
        let frozen = self.frozen.as_ref()?;
        Some((frozen.memtable.slots.get(key)?, Some(frozen.stamp)))
    }

    /// The live location of a row in segments. Reads files.
    ///
    /// # Errors
    /// Errors of reading files.
    pub(crate) fn locate(&self, key: &[u8]) -> Result<Option<Location>> {
        let Some(tablet) = self.tablets.of_key(key) else { return Ok(None) };
        // The newest is last, and the likeliest to have the row.
        for segment in tablet.segments.iter().rev() {
            let meta = segment.meta();
            if key < &meta.first[..] || key > &meta.last[..] {
                continue;
            }
            if let Some(position) = segment.find(key)?.filter(|&position| !self.is_dead(meta.id, position)) {
                return Ok(Some(Location { segment: Arc::clone(segment), position }));
            }
        }
        Ok(None)
    }

    /// Whether a segment's bounds include the key: if not, the row is in no segment, and no file need be read.
    pub(crate) fn may_be_in_segments(&self, key: &[u8]) -> bool {
        self.tablets.of_key(key).is_some_and(|tablet| {
            tablet.segments.iter().any(|segment| {
                let meta = segment.meta();
                key >= &meta.first[..] && key <= &meta.last[..]
            })
        })
    }

    /// Whether a position is dead.
    pub(crate) fn is_dead(&self, segment: SegmentId, position: Position) -> bool {
        self.deletion_vectors.get(&segment).is_some_and(|dead| dead.contains(position))
    }

    /// Marks a position dead.
    pub(crate) fn mark_dead(&mut self, segment: SegmentId, position: Position) {
        match self.deletion_vectors.get_mut(&segment) {
            Some(dead) => drop(dead.insert(position)),
            None => {
                let mut dead = DeletionVector::default();
                dead.insert(position);
                self.deletion_vectors.insert(segment, dead);
            }
        }
    }

    /// Marks positions dead.
    pub(crate) fn mark_range_dead(&mut self, segment: SegmentId, positions: Range<Position>) {
        let mut dead = self.deletion_vectors.get(&segment).cloned().unwrap_or_default();
        dead.insert_range(positions);
        self.deletion_vectors.insert(segment, dead);
    }

    /// The cells of an encoded row that is as of a stamp, without those that past rules had condemned since. Cells of
    /// dropped families are left out.
    pub(crate) fn cells(&self, row: &Bytes, as_of: Option<i64>) -> Vec<Cell> {
        let cells = cells::decode(row).filter_map(|cell| {
            Some(Cell {
                family: self.descriptor.family(cell.family)?.clone(),
                qualifier: row.slice_ref(cell.qualifier),
                timestamp: cell.timestamp,
                value: row.slice_ref(cell.value),
            })
        });
        self.without_condemned(cells.collect(), as_of)
    }

    /// The cells of a row that is as of a stamp, without those that past rules had condemned since.
    pub(crate) fn without_condemned(&self, mut cells: Vec<Cell>, as_of: Option<i64>) -> Vec<Cell> {
        let Some(as_of) = as_of.filter(|_| !self.past_rules.is_empty()) else { return cells };
        for past in self.past_rules.iter().filter(|past| past.at_micros > as_of) {
            let Some(family) = self.descriptor.family(past.family) else { continue };
            cells = row::without_condemned(cells, family, &past.rule, past.at_micros);
        }
        cells
    }

    /// Encodes cells; `None` if there are none.
    pub(crate) fn encode(&self, cells: &[Cell]) -> Option<Bytes> {
        let number_of = |family: &FamilyName| self.descriptor.number_of(family).expect("folding keeps to the schema");
        (!cells.is_empty()).then(|| cells::encode(cells, number_of))
    }
}

impl State {
    /// The table.
    ///
    /// # Errors
    /// [`Error::NoTable`].
    pub(crate) fn table(&self, name: &TableName) -> Result<&Table> {
        self.tables.get(name).ok_or_else(|| Error::NoTable(name.to_string()))
    }

    /// The tables that clients see: those that are not the [history](super::history) of another.
    pub(crate) fn public_tables(&self) -> impl Iterator<Item = (&TableName, &Table)> {
        self.tables.iter().filter(|(name, _)| name.of_history().is_none())
    }

    /// The table, for changes.
    ///
    /// # Errors
    /// [`Error::NoTable`].
    pub(crate) fn table_mut(&mut self, name: &TableName) -> Result<&mut Table> {
        self.tables.get_mut(name).ok_or_else(|| Error::NoTable(name.to_string()))
    }

    /// The table with a number.
    pub(crate) fn table_by_number(&self, number: u32) -> Option<(&TableName, &Table)> {
        let name = self.names.get(&number)?;
        Some((name, self.tables.get(name)?))
    }

    /// A descriptor for a new table.
    pub(crate) fn describe(&self, schema: TableSchema) -> Descriptor {
        Descriptor::empty(self.next_table).with_schema(schema)
    }

    /// Adds or replaces a table.
    pub(crate) fn set_table(&mut self, name: TableName, table: Table) {
        self.next_table = self.next_table.max(table.descriptor.number + 1);
        self.names.insert(table.descriptor.number, name.clone());
        self.tables.insert(name, table);
    }

    /// Removes a table.
    pub(crate) fn remove_table(&mut self, name: &TableName) {
        if let Some(table) = self.tables.remove(name) {
            self.names.remove(&table.descriptor.number);
        }
    }

    /// Whether no commit changed the row since the `then` state; `false` if that is too long ago to know.
    pub(crate) fn is_unchanged(&self, then: &Self, name: &TableName, key: &[u8]) -> Result<bool> {
        let table = self.table(name)?;
        let number = table.descriptor.number;
        if then.tables.get(name).is_none_or(|before| before.descriptor.number != number) {
            return Ok(false);
        }
        let after = |stamp: Option<i64>| stamp.is_some_and(|stamp| stamp > then.stamp);
        let frozen = table.frozen.as_ref().and_then(|frozen| frozen.memtable.changed(key));
        if after(table.active.changed(key)) || after(frozen) {
            return Ok(false);
        }
        let since = usize::try_from(self.flushes - then.flushes).unwrap_or(usize::MAX);
        let Some(skip) = self.recent_changes.len().checked_sub(since) else { return Ok(false) };
        Ok(!self.recent_changes.iter().skip(skip).any(|flushed| flushed.changed_after(number, key, then.stamp)))
    }

    /// Records the rows that a flush or a load brought into segments, and drops the oldest record.
    pub(crate) fn push_changes(&mut self, flushed: Arc<ChangedRows>) {
        self.recent_changes.push_back(flushed);
        if self.recent_changes.len() > RECENT_CHANGES_MAX {
            self.recent_changes.pop_front();
        }
    }

    /// Bytes in active memtables.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.tables.values().map(|table| table.active.bytes).sum()
    }

    /// Bytes in frozen memtables.
    pub(crate) fn frozen_bytes(&self) -> u64 {
        self.tables.values().filter_map(|table| table.frozen.as_ref()).map(|frozen| frozen.memtable.bytes).sum()
    }

    /// Freezes the active memtables, and begins new ones.
    pub(crate) fn freeze(&mut self) {
        let stamp = self.stamp;
        let names: Vec<TableName> =
            self.tables.iter().filter(|(_, table)| !table.active.is_empty()).map(|(name, _)| name.clone()).collect();
        for name in names {
            let table = self.tables.get_mut(&name).expect("it was just there");
            debug_assert!(table.frozen.is_none(), "one flush at a time");
            table.frozen = Some(Arc::new(Frozen { memtable: std::mem::take(&mut table.active), stamp }));
        }
    }
}
