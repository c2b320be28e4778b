//! The effect of a commit or a change of tables on a [`State`] and on the log's payload.
//!
//! Each function checks, changes the state and appends a record, or returns an error and leaves both as they were.
//! Replay goes through [`replay`], which does the same from the record. Files are read only for rows that are in no
//! memtable and were not [fetched](super::fetch) before, and for the bounds of a deleted range in segments.
//!
//! The first write of a row to the active memtable logs the whole row, later writes log their mutations. So replay,
//! which begins with an empty memtable, needs no segment to fold a row.
//!
//! In a table that keeps history, each change also writes to its [history table](super::history), in a separate record
//! after that of the commit and in the same frame: replay treats it like any other table.

use super::{
    descriptor::Descriptor,
    fetch::{Fetched, PriorRow, needs_cells},
    history,
    manifest::{PastRule, SegmentId},
    memtable::Slot,
    pins::PinnedState,
    record::{self, LoggedRow, LoggedWrite, Record},
    row_cache::RowCache,
    state::{State, Table},
    writer::REQUEST_BYTES_MAX,
};
use crate::{
    Commit, Error, FamilyChange, FamilyName, GcRule, History, KeyRange, Result, RowKey, RowMutation, TableName,
    TableSchema, Validation, Write, model::limits::TABLES_MAX, row,
};
use bytes::Bytes;
use imbl::OrdMap;
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// Applies a commit with the given stamp.
///
/// # Errors
/// Errors of [`Store::commit`](crate::Store::commit).
pub(crate) fn commit(
    state: &mut State,
    out: &mut Vec<u8>,
    stamp: i64,
    commit: Commit,
    (fetched, rows): (&Fetched, &RowCache),
) -> Result<()> {
    if let Some(validation) = &commit.validation {
        validate(state, validation)?;
    }
    let mutations = commit.writes.iter().map(|write| match write {
        Write::Row { row, .. } => row.mutations.len(),
        Write::DeleteRange { .. } => 1,
    });
    row::check_count(mutations.sum())?;
    if commit.writes.is_empty() {
        return Ok(());
    }
    // By table first: most commits rely on rows of the catalog alone, and the keys that they write need no hash then.
    let mut relied_on: BTreeMap<&TableName, HashSet<&RowKey>> = BTreeMap::new();
    for (table, key) in commit.validation.iter().flat_map(|validation| &validation.rows) {
        relied_on.entry(table).or_default().insert(key);
    }
    let start = out.len();
    record::put_commit(out, stamp, commit.writes.len());
    let mut change = Change::new(state, stamp);
    let applied = commit.writes.into_iter().try_for_each(|write| match write {
        Write::Row { table, row } => {
            let after_read = relied_on.get(&table).is_some_and(|keys| keys.contains(&row.key));
            let found = change.state.table(&table)?;
            let wanted = (&row.key, needs_cells(found, &row));
            let before = fetched.prior_row(change.state.flushes, found, wanted, rows)?;
            change.check_and_mutate_row(out, after_read, &table, row, before)?;
            check_size(out.len() - start)
        }
        Write::DeleteRange { table, range } => {
            record::put_delete_range(out, &change.state.table(&table)?.descriptor, &range);
            change.delete_range(&table, &range)
        }
    });
    if applied.is_err() {
        change.roll_back();
        out.truncate(start);
        return applied;
    }
    let HistoryWrites { count, records } = change.history;
    if count > 0 {
        record::put_commit(out, stamp, count);
        out.extend_from_slice(&records);
    }
    state.stamp = stamp;
    Ok(())
}

/// Checks the size of a commit's part of the log, which includes every row that was in no memtable as a whole.
fn check_size(size: usize) -> Result<()> {
    match size > REQUEST_BYTES_MAX {
        true => Err(Error::TooLarge {
            what: "a commit with the former content of its rows",
            size,
            limit: REQUEST_BYTES_MAX,
        }),
        false => Ok(()),
    }
}

/// Whether every row that the commit relied on is unchanged since its pin.
pub(crate) fn validate(state: &State, validation: &Validation) -> Result<()> {
    let pinned = pinned(&validation.pin)?;
    for (table, key) in &validation.rows {
        if !state.is_unchanged(&pinned, table, key)? {
            return Err(Error::Conflict);
        }
    }
    Ok(())
}

/// The pinned state of a pin of this store.
///
/// # Errors
/// [`Error::Invalid`] for a pin of another store.
pub(crate) fn pinned_state(pin: &crate::Pin) -> Result<Arc<PinnedState>> {
    let held = Arc::clone(&pin.state).downcast();
    held.map_err(|_| Error::Invalid("the pin is one of another store".into()))
}

/// The state that a pin holds.
///
/// # Errors
/// [`Error::Invalid`] for a pin of another store; [`Error::PinExpired`].
pub(crate) fn pinned(pin: &crate::Pin) -> Result<Arc<State>> {
    pinned_state(pin)?.state()
}

/// A commit in progress, which can be rolled back.
struct Change<'a> {
    state: &'a mut State,
    stamp: i64,
    /// The previous content at each change, in order.
    undo: Vec<Undo>,
    /// Tables whose deletion vectors are saved in `undo`.
    saved: BTreeSet<TableName>,
    history: HistoryWrites,
}

/// A commit's writes to history tables, as the log stores them.
#[derive(Default)]
struct HistoryWrites {
    count: usize,
    records: Vec<u8>,
}

/// The previous content at a change.
enum Undo {
    Slot(TableName, RowKey, Option<Slot>),
    DeletionVectors(TableName, OrdMap<SegmentId, super::deletion_vector::DeletionVector>),
    /// With the stamp of the previous deletion of a range.
    Range(TableName, Option<i64>),
}

impl<'a> Change<'a> {
    fn new(state: &'a mut State, stamp: i64) -> Self {
        Self { state, stamp, undo: Vec::new(), saved: BTreeSet::new(), history: HistoryWrites::default() }
    }

    fn check_and_mutate_row(
        &mut self,
        out: &mut Vec<u8>,
        after_read: bool,
        name: &TableName,
        mut row: RowMutation,
        before: PriorRow,
    ) -> Result<()> {
        let table = self.state.table(name)?;
        row::check(name, &table.descriptor.schema, &row, self.stamp)?;
        row::resolve(&mut row.mutations, row::stamp_for(self.stamp, after_read, &before.cells));
        let is_known = before.in_active;
        let keeps_history = table.descriptor.schema.history.is_some();
        let held = if keeps_history { table.encode(&before.cells) } else { None };
        let cells = row::fold(&table.descriptor.schema, before.cells, &row.mutations, self.stamp)?;
        let encoded = table.encode(&cells);
        match is_known {
            true => record::put_row(out, &table.descriptor, &row.key, &row.mutations),
            false => record::put_whole_row(out, &table.descriptor, &row.key, before.existed, encoded.as_ref()),
        }
        if encoded.is_none() && !before.existed && !is_known {
            // A row that is not there was deleted: the record says so too, and neither leaves a trace.
            return Ok(());
        }
        if keeps_history && (held.is_some() || encoded.is_some()) {
            self.record_history(name, &row.key, held.as_deref())?;
        }
        if let Some((segment, position)) = before.location {
            self.save_deletion_vectors(name)?;
            self.state.table_mut(name)?.mark_dead(segment, position);
        }
        self.set(name, &row.key, Some(encoded))
    }

    /// Replaces a slot of the active memtable.
    fn set(&mut self, name: &TableName, key: &RowKey, row: Option<Option<Bytes>>) -> Result<()> {
        let stamp = self.stamp;
        let before = self.state.table_mut(name)?.active.set(key, row.map(|row| Slot { stamp, row }));
        self.undo.push(Undo::Slot(name.clone(), key.clone(), before));
        Ok(())
    }

    /// Saves the deletion vectors of a table as they were before the commit.
    fn save_deletion_vectors(&mut self, name: &TableName) -> Result<()> {
        if !self.saved.contains(name) {
            let dead = self.state.table(name)?.deletion_vectors.clone();
            self.undo.push(Undo::DeletionVectors(name.clone(), dead));
            self.saved.insert(name.clone());
        }
        Ok(())
    }

    /// Writes the previous version of a row to the history of its table.
    fn record_history(&mut self, name: &TableName, key: &RowKey, held: Option<&[u8]>) -> Result<()> {
        let (history_name, key) = (name.history_table(), history::key(key, self.stamp));
        let table = self.state.table(&history_name)?;
        if table.active.slots.get(&key).is_some_and(|slot| slot.row.is_some()) {
            // If one commit changes a row several times, the first previous version counts.
            return Ok(());
        }
        let row = history::row(held, self.stamp);
        record::put_whole_row(&mut self.history.records, &table.descriptor, &key, false, Some(&row));
        self.history.count += 1;
        self.set(&history_name, &key, Some(Some(row)))
    }

    /// Deletes rows, and their history with them.
    fn delete_range(&mut self, name: &TableName, range: &KeyRange) -> Result<()> {
        self.delete_rows(name, range)?;
        if self.state.table(name)?.descriptor.schema.history.is_some() {
            let (history_name, range) = (name.history_table(), history::range(range));
            record::put_delete_range(&mut self.history.records, &self.state.table(&history_name)?.descriptor, &range);
            self.history.count += 1;
            self.delete_rows(&history_name, &range)?;
        }
        Ok(())
    }

    fn delete_rows(&mut self, name: &TableName, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let table = self.state.table(name)?;
        // Each row keeps a slot that marks it deleted: the frozen memtable may still have it, and replay must find the
        // same slots.
        let mut keys = table.active.keys(range);
        if let Some(frozen) = &table.frozen {
            keys.extend(frozen.memtable.keys(range));
        }
        let segments = super::ranges::positions_of(table, range)?;
        for key in keys {
            self.set(name, &key, Some(None))?;
        }
        self.save_deletion_vectors(name)?;
        let stamp = self.stamp;
        let table = self.state.table_mut(name)?;
        for (segment, positions) in segments {
            table.mark_range_dead(segment, positions);
        }
        table.active.push_range(range.clone(), stamp);
        let before = table.range_deleted.replace(stamp);
        self.undo.push(Undo::Range(name.clone(), before));
        Ok(())
    }

    fn roll_back(self) {
        for undo in self.undo.into_iter().rev() {
            let (Undo::Slot(name, ..) | Undo::DeletionVectors(name, _) | Undo::Range(name, _)) = &undo;
            let Some(table) = self.state.tables.get_mut(name) else { continue };
            match undo {
                Undo::Slot(_, key, before) => drop(table.active.set(&key, before)),
                Undo::DeletionVectors(_, dead) => table.deletion_vectors = dead,
                Undo::Range(_, before) => {
                    table.active.pop_range();
                    table.range_deleted = before;
                }
            }
        }
    }
}

/// Creates a table.
///
/// # Errors
/// Errors of [`Store::create_table`](crate::Store::create_table).
pub(crate) fn create_table(
    state: &mut State,
    out: &mut Vec<u8>,
    stamp: i64,
    name: TableName,
    schema: TableSchema,
) -> Result<()> {
    schema.check()?;
    if state.tables.contains_key(&name) {
        return Err(Error::TableExists(name.to_string()));
    }
    if state.public_tables().count() >= TABLES_MAX {
        return Err(Error::TooMany { what: "tables", count: TABLES_MAX + 1, limit: TABLES_MAX });
    }
    let history = make_table(state, out, stamp, name.clone(), schema.created(stamp));
    update_history_table(state, out, stamp, &name, history);
    state.stamp = stamp;
    Ok(())
}

/// Creates a table that was checked; returns its history settings.
fn make_table(
    state: &mut State,
    out: &mut Vec<u8>,
    stamp: i64,
    name: TableName,
    schema: TableSchema,
) -> Option<History> {
    let history = schema.history;
    let descriptor = state.describe(schema);
    record::put_create_table(out, stamp, &descriptor.to_logged(&name));
    state.set_table(name, Table::new(descriptor));
    history
}

/// Adjusts the history table of a table to its settings after a commit with this stamp: drops it, recreates it if
/// history begins with the commit, or changes how long it keeps.
fn update_history_table(state: &mut State, out: &mut Vec<u8>, stamp: i64, name: &TableName, history: Option<History>) {
    let history_name = name.history_table();
    let begins = history.is_none_or(|history| history.since_micros == stamp);
    match (state.tables.get(&history_name), history) {
        (Some(table), Some(history)) if !begins => {
            let schema = history::schema(history);
            if table.descriptor.schema != schema {
                let descriptor = table.descriptor.with_schema(schema);
                record::put_modify_families(out, stamp, &descriptor.to_logged(&history_name));
                let table = with_descriptor(table, descriptor, stamp);
                state.set_table(history_name, table);
            }
            return;
        }
        (Some(table), _) => {
            record::put_drop_table(out, stamp, table.descriptor.number);
            state.remove_table(&history_name);
        }
        (None, _) => {}
    }
    if let Some(history) = history {
        make_table(state, out, stamp, history_name, history::schema(history));
    }
}

/// Drops a table.
///
/// # Errors
/// Errors of [`Store::drop_table`](crate::Store::drop_table).
pub(crate) fn drop_table(state: &mut State, out: &mut Vec<u8>, stamp: i64, name: &TableName) -> Result<()> {
    record::put_drop_table(out, stamp, state.table(name)?.descriptor.number);
    state.remove_table(name);
    update_history_table(state, out, stamp, name, None);
    state.stamp = stamp;
    Ok(())
}

/// Changes families.
///
/// # Errors
/// Errors of [`Store::modify_families`](crate::Store::modify_families).
pub(crate) fn modify_families(
    state: &mut State,
    out: &mut Vec<u8>,
    stamp: i64,
    name: &TableName,
    changes: Vec<FamilyChange>,
) -> Result<()> {
    let mut table = state.table(name)?.clone();
    let start = out.len();
    // One record for each change: cells that are condemned by a rule that holds only between two of the changes stay
    // condemned too.
    for change in changes {
        let schema = table.descriptor.schema.changed(name, change, stamp).inspect_err(|_| out.truncate(start))?;
        let descriptor = table.descriptor.with_schema(schema);
        record::put_modify_families(out, stamp, &descriptor.to_logged(name));
        table = with_descriptor(&table, descriptor, stamp);
    }
    let checked = table.descriptor.schema.check().and_then(|()| table.descriptor.check_numbers());
    checked.inspect_err(|_| out.truncate(start))?;
    let history = table.descriptor.schema.history;
    state.set_table(name.clone(), table);
    update_history_table(state, out, stamp, name, history);
    state.stamp = stamp;
    Ok(())
}

/// The table with other families. Removes cells of dropped families and erased columns, and cells that the rules have
/// condemned until now: a looser rule must not bring them back. In the active memtable they are removed here; for older
/// data the rule is kept as a past rule.
fn with_descriptor(table: &Table, descriptor: Descriptor, now_micros: i64) -> Table {
    let old = &table.descriptor;
    let keeps = |name: &FamilyName| descriptor.number_of(name) == old.number_of(name);
    let changes = |name: &FamilyName, gc: &GcRule| {
        descriptor.schema.families.get(name).is_some_and(|now| keeps(name) && now.gc != *gc)
    };
    let mut changed = Table { descriptor: descriptor.clone().into(), ..table.clone() };
    for (name, family) in &old.schema.families {
        if changes(name, &family.gc) && family.gc != GcRule::KeepAll {
            let family_number = old.number_of(name).expect("a family of the schema has a number");
            let rule = family.gc.clone();
            changed.past_rules.push_back(PastRule { family: family_number, rule, at_micros: now_micros });
        }
    }
    let only_adds = old.schema.families.iter().all(|(name, family)| keeps(name) && !changes(name, &family.gc));
    if only_adds && !old.schema.loses_cells_in(&descriptor.schema) {
        return changed;
    }
    for (key, slot) in &table.active.slots {
        let Some(row) = &slot.row else { continue };
        let cells = table.cells(row, None);
        let count = cells.len();
        let mut left = row::live(&old.schema, cells, now_micros);
        left.retain(|cell| keeps(&cell.family) && !descriptor.schema.is_erased(&cell.family, &cell.qualifier));
        if left.len() < count {
            changed.active.set(key, Some(Slot { stamp: slot.stamp, row: changed.encode(&left) }));
        }
    }
    changed
}

/// Rows of the log whose older versions in segments are dead, by table number.
pub(crate) type Superseded = BTreeMap<u32, BTreeSet<RowKey>>;

/// Applies a record; `None` if it contradicts the state. Marks the segment positions of deleted ranges dead at once;
/// rows whose older versions are still to be marked are added to `superseded`.
///
/// # Errors
/// Errors of reading the bounds of deleted ranges.
pub(crate) fn replay(state: &mut State, superseded: &mut Superseded, record: Record) -> Result<Option<()>> {
    let stamp = match record {
        Record::Commit { stamp, writes } => {
            let mut change = Change::new(state, stamp);
            for write in writes {
                if replay_write(&mut change, superseded, write)?.is_none() {
                    return Ok(None);
                }
                change.undo.clear();
            }
            Some(stamp)
        }
        Record::CreateTable { stamp, descriptor } => descriptor.into_descriptor().map(|(name, descriptor)| {
            state.set_table(name, Table::new(descriptor));
            stamp
        }),
        Record::DropTable { stamp, table } => {
            state.remove_table(&table);
            Some(stamp)
        }
        Record::ModifyFamilies { stamp, descriptor } => descriptor.into_descriptor().and_then(|(name, descriptor)| {
            let table = state.tables.get(&name).filter(|table| table.descriptor.number == descriptor.number)?;
            let changed = with_descriptor(table, descriptor, stamp);
            state.set_table(name, changed);
            Some(stamp)
        }),
        Record::Clock { stamp } => Some(stamp),
    };
    Ok(stamp.map(|stamp| state.stamp = state.stamp.max(stamp)))
}

fn replay_write(change: &mut Change<'_>, superseded: &mut Superseded, write: LoggedWrite) -> Result<Option<()>> {
    match write {
        LoggedWrite::Row { table: name, row: LoggedRow { key, mutations } } => {
            let table = change.state.table(&name)?;
            let cells = match table.active.slots.get::<[u8]>(&key) {
                Some(slot) => slot.row.as_ref().map_or_else(Vec::new, |row| table.cells(row, None)),
                // The row was in the frozen memtable, and the deletion of a range left a slot for it; segments hold
                // that memtable by now.
                None if table.active.ranges.iter().any(|(range, _)| range.contains(&key)) => Vec::new(),
                None => return Ok(None),
            };
            let Ok(cells) = row::fold(&table.descriptor.schema, cells, &mutations, change.stamp) else {
                return Ok(None);
            };
            let encoded = table.encode(&cells);
            change.set(&name, &key, Some(encoded))?;
        }
        LoggedWrite::Whole { table: name, key, existed, row } => {
            if row.is_none() && !existed {
                return Ok(Some(()));
            }
            if existed {
                let number = change.state.table(&name)?.descriptor.number;
                superseded.entry(number).or_default().insert(own(&key));
            }
            // Copied: a slice would keep the whole log file in memory.
            change.set(&name, &key, Some(row.map(|row| Bytes::copy_from_slice(&row))))?;
        }
        LoggedWrite::DeleteRange { table, range } => change.delete_rows(&table, &range)?,
    }
    Ok(Some(()))
}

fn own(key: &RowKey) -> RowKey {
    RowKey::stored(Bytes::copy_from_slice(key)).expect("the key was one before")
}

/// Marks the older versions of replayed rows dead, in whichever segments they are.
///
/// # Errors
/// Errors of reading files.
pub(crate) fn settle(state: &mut State, superseded: Superseded) -> Result<()> {
    for (number, keys) in superseded {
        let Some((name, table)) = state.table_by_number(number) else { continue };
        let name = name.clone();
        let found = super::ranges::locate_all(table, &keys)?;
        let table = state.table_mut(&name)?;
        found.into_iter().for_each(|(segment, position)| table.mark_dead(segment, position));
    }
    Ok(())
}
