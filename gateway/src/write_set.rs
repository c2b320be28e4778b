//! What a statement writes and what it relied on, before it is a commit: the write set and the read set.
//!
//! `dml` and `point` fill a [`WriteSet`]; the session appends it to its transaction or commits it by itself.

use crate::{
    pg::error::{Result, SqlError, SqlState},
    resources::Held,
};
use bytes::Bytes;
use datafusion::execution::memory_pool::MemoryPool;
use keyspan_catalog::{Table, TableId, Value, table::MARKER_FAMILY, tenant_store::Writes};
use keyspan_storage::{
    FamilyName, KeyRange, Mutation, Pin, RowKey, RowMutation, TimestampRange, model::limits::TIMESTAMP_AHEAD_MAX_MICROS,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Mutations of rows, by row; a row's are applied in order.
pub type Changes = BTreeMap<RowKey, Vec<Mutation>>;

/// What a statement writes.
#[derive(Debug, Default)]
pub struct WriteSet {
    /// Mutations by table.
    pub rows: BTreeMap<TableId, (Arc<Table>, Changes)>,
    /// Ranges to delete whole: never in a transaction.
    pub ranges: Vec<(Arc<Table>, KeyRange)>,
    /// The rows that it relied on.
    pub reads: BTreeMap<TableId, (Arc<Table>, BTreeSet<RowKey>)>,
    /// Rows whose messages in a column, by its place in the target, are given as jsonb: what their descriptors do not
    /// know is to be kept.
    pub(crate) messages: Vec<(RowKey, usize)>,
    /// Rows that are to be written under another key.
    pub(crate) moved: Vec<MovedRow>,
    /// Whether rows get another key: one is deleted, and one written.
    pub(crate) moves: bool,
    /// Rows that an INSERT has looked for, and that were not there.
    pub(crate) inserted: usize,
    pub(crate) bytes: usize,
    /// Cells, as [`CELLS_MAX`] counts them.
    pub(crate) cells: usize,
    /// What a MERGE did to rows; `None` for other statements.
    pub(crate) merged: Option<Box<Merged>>,
    /// What of it is counted.
    pub(crate) held: Held,
}

/// How many rows a MERGE has inserted, updated and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) inserted: u64,
    pub(crate) updated: u64,
    pub(crate) deleted: u64,
}

/// A row that gets another key: it is deleted, and will be written anew.
#[derive(Debug)]
pub(crate) struct MovedRow {
    /// Its key before.
    pub(crate) from: RowKey,
    /// Its key after.
    pub(crate) to: RowKey,
    /// The values of the parts of its new key.
    pub(crate) parts: Vec<Value>,
    /// What else changes in it.
    pub(crate) mutations: Vec<Mutation>,
    /// Its columns, by their places in the target, that are messages as in [`WriteSet::messages`].
    pub(crate) messages: Vec<usize>,
}

impl MovedRow {
    /// Bytes that are counted for it.
    fn bytes(&self) -> usize {
        let mutations = self.mutations.iter().map(Mutation::size).sum::<usize>();
        size_of::<Self>() + self.from.len() + 2 * self.to.len() + mutations
    }
}

impl WriteSet {
    /// What a MERGE did to rows; all 0 for other statements.
    pub(crate) fn merged(&self) -> Merged {
        self.merged.as_deref().copied().unwrap_or_default()
    }

    /// Nothing yet, counted as memory of queries if that is given.
    pub(crate) fn counted(memory: Option<Arc<dyn MemoryPool>>) -> Self {
        Self { held: Held::of(memory), ..Self::default() }
    }

    /// A range that is deleted whole.
    pub fn of_range(table: Arc<Table>, range: KeyRange) -> Self {
        Self { ranges: vec![(table, range)], ..Self::default() }
    }

    /// Adds mutations of a row.
    ///
    /// # Errors
    /// 54000 above [`COMMIT_BYTES_MAX`] and above [`CELLS_MAX`], 53200.
    pub fn mutate(&mut self, table: &Arc<Table>, key: RowKey, mutations: Vec<Mutation>) -> Result<()> {
        self.bytes += ROW_OVERHEAD_BYTES + key.len() + mutations.iter().map(Mutation::size).sum::<usize>();
        self.cells += cells_of(&mutations);
        let (_, rows) = self.rows.entry(table.id).or_insert_with(|| (table.clone(), BTreeMap::new()));
        rows.entry(key).or_default().extend(mutations);
        check_cells(self.cells)?;
        self.check_bytes()
    }

    /// Adds a row that is to be written under another key.
    ///
    /// # Errors
    /// 54000 above [`COMMIT_BYTES_MAX`], 53200.
    pub(crate) fn move_row(&mut self, row: MovedRow) -> Result<()> {
        self.bytes += row.bytes();
        self.moved.push(row);
        self.check_bytes()
    }

    /// The rows that are to be written under another key; they are counted no longer.
    pub(crate) fn take_moved(&mut self) -> Vec<MovedRow> {
        let moved = std::mem::take(&mut self.moved);
        self.moves |= !moved.is_empty();
        self.bytes -= moved.iter().map(MovedRow::bytes).sum::<usize>();
        moved
    }

    /// Adds a row that was relied on.
    ///
    /// # Errors
    /// 54000 above [`COMMIT_BYTES_MAX`], 53200.
    pub fn add_read(&mut self, table: &Arc<Table>, key: RowKey) -> Result<()> {
        self.bytes += ROW_OVERHEAD_BYTES + key.len();
        let (_, rows) = self.reads.entry(table.id).or_insert_with(|| (table.clone(), BTreeSet::new()));
        rows.insert(key);
        self.check_bytes()
    }

    /// The same with cells of this timestamp, in microseconds: what would remove a column's cells removes that one.
    ///
    /// # Errors
    /// 22008 for more than [`TIMESTAMP_AHEAD_MAX_MICROS`] ahead of `now_micros`; 0A000 for private tables.
    pub(crate) fn at_timestamp(mut self, micros: i64, now_micros: i64) -> Result<Self> {
        if micros > now_micros.saturating_add(TIMESTAMP_AHEAD_MAX_MICROS) {
            let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "keyspan.cell_time is too far ahead");
            return Err(error.with_detail("Timestamps of cells may be a day ahead of the server's clock, at most."));
        }
        for (table, rows) in self.rows.values_mut() {
            if table.is_private() {
                let error = SqlError::unsupported(format!("keyspan.cell_time for private table \"{}\"", table.name));
                return Err(error.with_hint("Private tables keep one version: an older one would not be seen."));
            }
            for mutation in rows.values_mut().flatten() {
                match mutation {
                    Mutation::SetCell { timestamp: timestamp @ None, .. } => *timestamp = Some(micros),
                    Mutation::DeleteFromColumn { timestamps, .. } => {
                        *timestamps = TimestampRange { start: micros, end: micros.checked_add(1) };
                    }
                    _ => {}
                }
            }
        }
        Ok(self)
    }

    /// Gives a cell that is written another value.
    ///
    /// # Errors
    /// 54000 above [`COMMIT_BYTES_MAX`].
    pub(crate) fn set_value(
        &mut self,
        table: &Table,
        key: &RowKey,
        cell: (&FamilyName, &Bytes),
        to: Bytes,
    ) -> Result<()> {
        let mutations = self.rows.get_mut(&table.id).and_then(|(_, rows)| rows.get_mut(key));
        for mutation in mutations.into_iter().flatten() {
            if let Mutation::SetCell { family, qualifier, value, .. } = mutation
                && (&*family, &*qualifier) == cell
            {
                self.bytes = self.bytes.saturating_sub(value.len()) + to.len();
                *value = to.clone();
            }
        }
        self.check_bytes()
    }

    /// The value that a cell of a row gets; `None` if it gets none.
    pub(crate) fn value(&self, table: &Table, key: &RowKey, cell: (&FamilyName, &Bytes)) -> Option<&Bytes> {
        let (_, rows) = self.rows.get(&table.id)?;
        rows.get(key)?.iter().rev().find_map(|mutation| match mutation {
            Mutation::SetCell { family, qualifier, value, .. } if (family, qualifier) == cell => Some(value),
            _ => None,
        })
    }

    /// The table of its rows, if all are of one.
    pub(crate) fn table(&self) -> Option<TableId> {
        let tables = self.rows.keys().chain(self.ranges.iter().map(|(table, _)| &table.id));
        let mut tables = tables.copied();
        let first = tables.next()?;
        tables.all(|table| table == first).then_some(first)
    }

    /// Whether the row is written already.
    pub fn has(&self, table: &Table, key: &RowKey) -> bool {
        self.mutations(table, key).is_some()
    }

    /// The mutations of a row; `None` if it is not written.
    pub(crate) fn mutations(&self, table: &Table, key: &RowKey) -> Option<&[Mutation]> {
        self.rows.get(&table.id)?.1.get(key).map(Vec::as_slice)
    }

    /// Bytes of the mutations and their keys: of all, and of those that add something.
    pub(crate) fn written_bytes(&self) -> (u64, u64) {
        let rows = self.rows.values().flat_map(|(_, rows)| rows);
        written_bytes(rows.map(|(key, mutations)| (key, mutations.as_slice())))
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ranges.is_empty()
    }

    fn check_bytes(&mut self) -> Result<()> {
        if self.bytes <= COMMIT_BYTES_MAX { self.held.resize(self.bytes) } else { Err(too_large()) }
    }

    /// The same without what is written to some tables.
    pub(crate) fn without(mut self, is: impl Fn(TableId) -> bool) -> Self {
        self.rows.retain(|id, _| !is(*id));
        self.ranges.retain(|(table, _)| !is(table.id));
        self.reads.retain(|id, _| !is(*id));
        self
    }

    /// The private tables that are written.
    pub(crate) fn private_tables(&self) -> Vec<TableId> {
        let tables = self.rows.values().map(|(table, _)| table).chain(self.ranges.iter().map(|(table, _)| table));
        tables.filter(|table| table.is_private()).map(|table| table.id).collect()
    }

    /// Whether something of it is on a server.
    pub(crate) fn is_remote(&self) -> bool {
        let mut tables = self.rows.values().map(|(table, _)| table).chain(self.ranges.iter().map(|(table, _)| table));
        tables.any(|table| table.remote.is_some())
    }

    pub(crate) fn row_count(&self) -> usize {
        self.rows.values().map(|(_, rows)| rows.len()).sum()
    }

    /// As the store takes it.
    pub(crate) fn into_writes(self) -> Writes {
        let rows = self.rows.into_values().flat_map(|(table, rows)| {
            let mutation = move |(key, mutations)| (table.clone(), RowMutation { key, mutations });
            rows.into_iter().map(mutation)
        });
        let validated = self.reads.into_values().flat_map(|(table, keys)| {
            let pair = move |key| (table.clone(), key);
            keys.into_iter().map(pair)
        });
        let (rows, validated) = (rows.collect(), validated.collect());
        Writes { rows, ranges: self.ranges, validated, ..Writes::default() }
    }
}

/// Rows and the pin at which they were read.
#[derive(Debug)]
pub struct ReadSet {
    /// The pin.
    pub pin: Pin,
    /// The rows.
    pub rows: BTreeMap<TableId, (Arc<Table>, BTreeSet<RowKey>)>,
}

/// The cells that the mutations of a row write, as a user counts them: each value that is set or removed, at least one.
/// The marker, which is in every row, is none.
fn cells_of(mutations: &[Mutation]) -> usize {
    let is_marker = |one: &Mutation| one.family().is_some_and(|family| family.as_str() == MARKER_FAMILY);
    mutations.iter().filter(|one| !is_marker(one)).count().max(1)
}

/// 54000 above [`CELLS_MAX`].
pub(crate) fn check_cells(count: usize) -> Result<()> {
    if count <= CELLS_MAX {
        return Ok(());
    }
    let message = format!("a commit of more than {CELLS_MAX} cells");
    let detail = "Each value that is set outside of the key is a cell. A row without one counts as one, and so does a \
                  row that is deleted.";
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_detail(detail).with_hint(SMALLER_HINT))
}

/// 54000 above [`COMMIT_BYTES_MAX`].
pub(crate) fn too_large() -> SqlError {
    let message = format!("a commit of more than {} MiB", COMMIT_BYTES_MAX >> 20);
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_detail("Keys and values that are written count, and the keys of the rows that they depend on.")
        .with_hint(SMALLER_HINT)
}

/// What to do about a commit that is too large.
const SMALLER_HINT: &str = "Write fewer rows at a time. Outside of a transaction block COPY and INSERT … SELECT, \
                            without ON CONFLICT and RETURNING, take any number of new rows.";

pub(crate) fn conflict() -> SqlError {
    SqlError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
        .with_hint("Run the transaction again.")
}

/// Cells that one commit may write: Bigtable's bound on a request.
pub(crate) const CELLS_MAX: usize = 100_000;

/// Bytes of mutations and keys that one commit may hold: they are in memory and become one record of the log.
pub(crate) const COMMIT_BYTES_MAX: usize = 256 << 20;

/// Bytes that are counted for a row beside those of its key and mutations.
pub(crate) const ROW_OVERHEAD_BYTES: usize = 64;

/// Bytes of mutations and their keys: of all, and of those that add something.
pub(crate) fn written_bytes<'a>(rows: impl Iterator<Item = (&'a RowKey, &'a [Mutation])>) -> (u64, u64) {
    let adds = |one: &Mutation| {
        matches!(one, Mutation::SetCell { .. } | Mutation::AddToCell { .. } | Mutation::MergeToCell { .. })
    };
    rows.fold((0, 0), |(all, added), (key, mutations)| {
        let bytes = (key.len() + mutations.iter().map(Mutation::size).sum::<usize>()) as u64;
        (all + bytes, added + if mutations.iter().any(adds) { bytes } else { 0 })
    })
}
