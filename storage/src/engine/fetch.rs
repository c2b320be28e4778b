//! Reads the previous rows of a commit from segments, before it reaches the log thread.
//!
//! A write puts the whole row into the memtable, so it needs the previous row. Rows that no memtable has are read here,
//! on the caller's side and many at a time, so that the single log thread seldom reads. Many rows of one segment are
//! read in one pass over it, which decodes no page twice. For a row that is only deleted, just its position is looked
//! up. A result stays valid as long as no memtable became segments ([`State::flushes`]) and the position is still live:
//! any other change of the row is in a memtable, and is found there first.

use super::{
    deletion_vector::{DeletionVector, Position},
    manifest::SegmentId,
    row_cache::RowCache,
    segment::DECODED_BYTES_TARGET,
    state::{Location, State, Table},
    writer::REQUEST_BYTES_MAX,
};
use crate::{Cell, Commit, Error, Mutation, Result, RowKey, RowMutation, TableName, Write};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};
use tokio::sync::OwnedSemaphorePermit;

/// Rows of one segment from which on they are read in one pass; fewer are read one by one, through the cache.
const TOGETHER_ROWS_MIN: usize = 16;
/// Maximum rows held for commits in progress, unless one commit alone has more.
pub(crate) const ROWS_MAX: u32 = 1_024;

/// Rows of segments in one state.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// [`State::flushes`] of that state.
    flushes: u64,
    /// By table number.
    rows: HashMap<u32, HashMap<RowKey, Option<FetchedRow>>>,
    /// Bytes of these rows.
    bytes: usize,
    /// The permits of [`ROWS_MAX`] that they take until the commit is done.
    _share: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Debug)]
struct FetchedRow {
    segment: SegmentId,
    position: Position,
    /// Its cells, if they were needed.
    row: Option<Bytes>,
    as_of: i64,
}

/// A row before a write.
#[derive(Debug, Default)]
pub(crate) struct PriorRow {
    /// Its cells.
    pub(crate) cells: Vec<Cell>,
    /// Its location, if it is in a segment.
    pub(crate) location: Option<(SegmentId, Position)>,
    /// Whether it existed, in a memtable or a segment.
    pub(crate) existed: bool,
    /// Whether the active memtable has a slot for it.
    pub(crate) in_active: bool,
}

/// The rows of a commit to look up in segments, each with whether its cells are needed.
#[derive(Debug, Default)]
pub(crate) struct Lookups(HashMap<TableName, BTreeMap<RowKey, bool>>);

/// Whether the result of a write depends on the row's previous cells: not for a row that is deleted.
pub(crate) fn needs_cells(table: &Table, row: &RowMutation) -> bool {
    table.descriptor.schema.history.is_some() || !matches!(row.mutations[..], [Mutation::DeleteFromRow])
}

impl Lookups {
    /// Rows of the commit that are not in memtables and may be in segments.
    pub(crate) fn of_commit(state: &State, commit: &Commit) -> Self {
        let rows = commit.writes.iter().filter_map(|write| match write {
            Write::Row { table, row } => Some((table, row)),
            Write::DeleteRange { .. } => None,
        });
        Self::of_rows(state, rows)
    }

    /// Those of the rows that are not in memtables and may be in segments.
    pub(crate) fn of_rows<'a>(state: &State, rows: impl Iterator<Item = (&'a TableName, &'a RowMutation)>) -> Self {
        let mut wanted = Self::default();
        for (name, row) in rows {
            let Some(table) = state.tables.get(name) else { continue };
            wanted.add(table, name, &row.key, needs_cells(table, row));
        }
        wanted
    }

    /// A row whose cells are needed, if it is not in memtables and may be in segments.
    pub(crate) fn of_row(state: &State, name: &TableName, key: &RowKey) -> Self {
        let mut wanted = Self::default();
        if let Some(table) = state.tables.get(name) {
            wanted.add(table, name, key, true);
        }
        wanted
    }

    fn add(&mut self, table: &Table, name: &TableName, key: &RowKey, cells: bool) {
        if !table.may_be_in_segments(key) || table.slot(key).is_some() {
            return;
        }
        match self.0.get_mut(name) {
            Some(keys) => *keys.entry(key.clone()).or_default() |= cells,
            None => drop(self.0.insert(name.clone(), BTreeMap::from([(key.clone(), cells)]))),
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many permits of [`ROWS_MAX`] they take.
    pub(crate) fn share(&self) -> u32 {
        let rows = self.0.values().map(BTreeMap::len).sum::<usize>();
        u32::try_from(rows).unwrap_or(u32::MAX).min(ROWS_MAX)
    }

    /// Looks them up. Reads files.
    ///
    /// # Errors
    /// Errors of reading files; [`Error::TooLarge`] if they have more than [`REQUEST_BYTES_MAX`] in total.
    pub(crate) fn fetch(self, state: &State, rows: &RowCache) -> Result<Fetched> {
        let mut fetched = Fetched::none(state);
        for (name, keys) in self.0 {
            let table = state.table(&name)?;
            let of_table = fetched.rows.entry(table.descriptor.number).or_default();
            let mut locations: BTreeMap<SegmentId, Vec<(RowKey, Location)>> = BTreeMap::new();
            for (key, cells) in keys {
                match table.locate(&key)? {
                    Some(location) if !cells => drop(of_table.insert(key, Some(FetchedRow::at(&location)))),
                    Some(location) => locations.entry(location.segment.meta().id).or_default().push((key, location)),
                    None => drop(of_table.insert(key, None)),
                }
            }
            let mut keep = |key: RowKey, row: FetchedRow| {
                fetched.bytes += row.row.as_ref().map_or(0, Bytes::len);
                if fetched.bytes > REQUEST_BYTES_MAX {
                    let what = "the former content of a commit's rows";
                    return Err(Error::TooLarge { what, size: fetched.bytes, limit: REQUEST_BYTES_MAX });
                }
                of_table.insert(key, Some(row));
                Ok(())
            };
            for found in locations.into_values() {
                if found.len() < TOGETHER_ROWS_MIN {
                    for (key, location) in found {
                        keep(key, FetchedRow::of(&location, rows)?)?;
                    }
                } else {
                    together(found, &mut keep)?;
                }
            }
        }
        Ok(fetched)
    }
}

/// Reads rows of one segment in the order of keys, which is that of positions. They bypass the cache: a caller that
/// changes so many rows reads none of them soon, or reads them from a memtable.
fn together(found: Vec<(RowKey, Location)>, mut give: impl FnMut(RowKey, FetchedRow) -> Result<()>) -> Result<()> {
    let Some((_, location)) = found.first() else { return Ok(()) };
    let (segment, as_of) = (Arc::clone(&location.segment), location.segment.meta().stamp);
    let mut runs: Vec<Range<Position>> = Vec::new();
    for (_, location) in &found {
        match runs.last_mut() {
            Some(last) if last.end == location.position => last.end += 1,
            _ => runs.push(location.position..location.position + 1),
        }
    }
    let mut wanted = found.into_iter();
    for batch in segment.encoded(runs, DeletionVector::default(), DECODED_BYTES_TARGET)? {
        for read in batch? {
            let (key, location) = wanted.next().expect("no more rows come than were asked for");
            debug_assert_eq!((&key, location.position), (&read.key, read.position));
            let (segment, row) = (segment.meta().id, Some(read.row.read()?));
            give(key, FetchedRow { segment, position: location.position, row, as_of })?;
        }
    }
    // Missing rows would count as absent: the log thread reads the file once more, and reports the error.
    Ok(())
}

impl FetchedRow {
    fn of(location: &Location, rows: &RowCache) -> Result<Self> {
        Ok(Self { row: Some(rows.read(location)?), ..Self::at(location) })
    }

    /// Without its cells.
    fn at(location: &Location) -> Self {
        let meta = location.segment.meta();
        Self { segment: meta.id, position: location.position, row: None, as_of: meta.stamp }
    }
}

impl Fetched {
    /// Nothing to look up.
    pub(crate) fn none(state: &State) -> Self {
        Self { flushes: state.flushes, ..Self::default() }
    }

    /// Keeps the permits that the rows take.
    pub(crate) fn with_share(self, share: OwnedSemaphorePermit) -> Self {
        Self { _share: Some(share), ..self }
    }

    /// Bytes of the rows that were read.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The row as of the table's current state, without its cells if they are not needed. Reads files if it was not
    /// fetched, or the result is no longer valid.
    ///
    /// # Errors
    /// Errors of reading files.
    pub(crate) fn prior_row(
        &self,
        flushes: u64,
        table: &Table,
        (key, needs_cells): (&RowKey, bool),
        rows: &RowCache,
    ) -> Result<PriorRow> {
        let cells = |row: &Bytes, as_of| if needs_cells { table.cells(row, as_of) } else { Vec::new() };
        if let Some((slot, as_of)) = table.slot(key) {
            let in_active = as_of.is_none();
            return Ok(match &slot.row {
                Some(row) => PriorRow { cells: cells(row, as_of), location: None, existed: true, in_active },
                None => PriorRow { in_active, ..PriorRow::default() },
            });
        }
        let is_enough = |found: &Option<FetchedRow>| !needs_cells || found.as_ref().is_none_or(|row| row.row.is_some());
        let found = match self.current(flushes, table, key).filter(is_enough) {
            Some(found) => found,
            None if table.may_be_in_segments(key) => match table.locate(key)? {
                Some(location) if needs_cells => Some(FetchedRow::of(&location, rows)?),
                location => location.as_ref().map(FetchedRow::at),
            },
            None => None,
        };
        Ok(found.map_or_else(PriorRow::default, |found| PriorRow {
            cells: found.row.map_or_else(Vec::new, |row| cells(&row, Some(found.as_of))),
            location: Some((found.segment, found.position)),
            existed: true,
            in_active: false,
        }))
    }

    fn current(&self, flushes: u64, table: &Table, key: &RowKey) -> Option<Option<FetchedRow>> {
        let fetched = self.rows.get(&table.descriptor.number).filter(|_| self.flushes == flushes)?.get(key)?;
        match fetched {
            // No memtable has written it meanwhile.
            None => Some(None),
            Some(row) if !table.tablets.has_segment(key, row.segment) => None,
            // A range was deleted.
            Some(row) if table.is_dead(row.segment, row.position) => Some(None),
            Some(row) => Some(Some(row.clone())),
        }
    }
}
