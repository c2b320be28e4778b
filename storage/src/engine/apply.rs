//! What a commit or a change of tables does to a [`State`], and to the log's payload. No IO.
//!
//! Each function checks, changes the state and appends a record, or gives an error and leaves both as they were. Replay goes
//! through [`replay`], which does the same from the record.

use super::{
    memtable::{Descriptor, State, StoredRow, Table},
    record::{self, Record},
};
use crate::{
    Cell, Commit, Error, FamilyChange, FamilyName, KeyRange, Result, RowKey, RowMutation, TableName, TableSchema,
    Validation, Write, model::limits::TABLES_MAX, row,
};
use std::{collections::HashSet, ops::Bound};

/// Applies a commit with the given stamp.
///
/// # Errors
/// Those of [`Store::commit`](crate::Store::commit).
pub(crate) fn commit(state: &mut State, out: &mut Vec<u8>, stamp: i64, commit: Commit) -> Result<()> {
    if let Some(validation) = &commit.validation {
        validate(state, validation)?;
    }
    let rows = commit.writes.iter().map(|write| match write {
        Write::Row { row, .. } => row.mutations.len(),
        Write::DeleteRange { .. } => 1,
    });
    row::check_count(rows.sum())?;
    if commit.writes.is_empty() {
        return Ok(());
    }
    let relied_on: HashSet<(&TableName, &RowKey)> = match &commit.validation {
        Some(validation) => validation.rows.iter().map(|(table, key)| (table, key)).collect(),
        None => HashSet::new(),
    };
    let mut change = Change { state, undo: Vec::new() };
    let start = out.len();
    record::put_commit(out, stamp, commit.writes.len());
    let applied = commit.writes.into_iter().try_for_each(|write| match write {
        Write::Row { table, row } => {
            let after_read = relied_on.contains(&(&table, &row.key));
            change.check_and_mutate_row(out, stamp, after_read, &table, row)
        }
        Write::DeleteRange { table, range } => {
            record::put_delete_range(out, &change.state.table(&table)?.descriptor, &range);
            change.delete_range(&table, &range)
        }
    });
    if applied.is_err() {
        change.roll_back();
        out.truncate(start);
    } else {
        state.stamp = stamp;
    }
    applied
}

/// Whether every row that the commit relied on is the version that it saw.
fn validate(state: &State, validation: &Validation) -> Result<()> {
    let pinned = pinned(&validation.pin)?;
    for (table, key) in &validation.rows {
        let now = state.table(table)?.rows.get::<[u8]>(key);
        let unchanged = match (pinned.row(table, key), now) {
            (None, None) => true,
            (Some(then), Some(now)) => then.is_same(now),
            _ => false,
        };
        if !unchanged {
            return Err(Error::Conflict);
        }
    }
    Ok(())
}

/// The state that a pin holds.
///
/// # Errors
/// [`Error::Invalid`] for a pin of another store.
pub(crate) fn pinned(pin: &crate::Pin) -> Result<&State> {
    pin.state.downcast_ref().ok_or_else(|| Error::Invalid("the pin is one of another store".into()))
}

/// A commit under way, which can be taken back.
struct Change<'a> {
    state: &'a mut State,
    /// What was there before each change, in order.
    undo: Vec<(TableName, RowKey, Option<StoredRow>)>,
}

impl Change<'_> {
    fn check_and_mutate_row(
        &mut self,
        out: &mut Vec<u8>,
        stamp: i64,
        after_read: bool,
        name: &TableName,
        mut row: RowMutation,
    ) -> Result<()> {
        let table = self.state.table(name)?;
        row::check(name, &table.descriptor.schema, &row, stamp)?;
        let cells = table.rows.get::<[u8]>(&row.key).map(|row| table.cells(row)).unwrap_or_default();
        row::resolve(&mut row.mutations, row::stamp_for(stamp, after_read, &cells));
        record::put_row(out, &table.descriptor, &row.key, &row.mutations);
        self.mutate_row(stamp, name, row, cells)
    }

    fn mutate_row(&mut self, stamp: i64, name: &TableName, row: RowMutation, cells: Vec<Cell>) -> Result<()> {
        let table = self.state.tables.get_mut(name).ok_or_else(|| Error::NoTable(name.to_string()))?;
        let cells = row::fold(&table.descriptor.schema, cells, &row.mutations, stamp)?;
        let before = table.set(&row.key, table.encode(&cells));
        self.undo.push((name.clone(), row.key, before));
        Ok(())
    }

    fn delete_range(&mut self, name: &TableName, range: &KeyRange) -> Result<()> {
        let table = self.state.tables.get_mut(name).ok_or_else(|| Error::NoTable(name.to_string()))?;
        if range.is_empty() {
            return Ok(());
        }
        let keys: Vec<RowKey> = table.rows.range::<_, [u8]>(bounds(range)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let before = table.set(&key, None);
            self.undo.push((name.clone(), key, before));
        }
        Ok(())
    }

    fn roll_back(self) {
        for (name, key, before) in self.undo.into_iter().rev() {
            if let Some(table) = self.state.tables.get_mut(&name) {
                table.set(&key, before);
            }
        }
    }
}

/// The bounds of a range that is not empty.
pub(crate) fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(&range.start[..]), range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..])))
}

/// Makes a table.
///
/// # Errors
/// Those of [`Store::create_table`](crate::Store::create_table).
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
    if state.tables.len() >= TABLES_MAX {
        return Err(Error::TooMany { what: "tables", count: TABLES_MAX + 1, limit: TABLES_MAX });
    }
    let descriptor = state.describe(schema);
    record::put_create_table(out, stamp, &descriptor.to_logged(&name));
    state.set_table(name, Table::new(descriptor));
    state.stamp = stamp;
    Ok(())
}

/// Drops a table.
///
/// # Errors
/// Those of [`Store::drop_table`](crate::Store::drop_table).
pub(crate) fn drop_table(state: &mut State, out: &mut Vec<u8>, stamp: i64, name: &TableName) -> Result<()> {
    record::put_drop_table(out, stamp, state.table(name)?.descriptor.number);
    state.remove_table(name);
    state.stamp = stamp;
    Ok(())
}

/// Changes families.
///
/// # Errors
/// Those of [`Store::modify_families`](crate::Store::modify_families).
pub(crate) fn modify_families(
    state: &mut State,
    out: &mut Vec<u8>,
    stamp: i64,
    name: &TableName,
    changes: Vec<FamilyChange>,
) -> Result<()> {
    let mut table = state.table(name)?.clone();
    let start = out.len();
    // One record for each change: what a rule condemns that holds for one of them only stays condemned too.
    for change in changes {
        let descriptor = changed(name, &table.descriptor, change).inspect_err(|_| out.truncate(start))?;
        record::put_modify_families(out, stamp, &descriptor.to_logged(name));
        table = with_descriptor(&table, descriptor, stamp);
    }
    let checked = table.descriptor.schema.check().and_then(|()| table.descriptor.check_numbers());
    checked.inspect_err(|_| out.truncate(start))?;
    state.set_table(name.clone(), table);
    state.stamp = stamp;
    Ok(())
}

/// The families after one change.
fn changed(table: &TableName, descriptor: &Descriptor, change: FamilyChange) -> Result<Descriptor> {
    let mut schema = descriptor.schema.clone();
    let missing = |family: &FamilyName| Error::NoFamily { table: table.to_string(), family: family.to_string() };
    match change {
        FamilyChange::Create(name, family) => {
            if schema.families.contains_key(&name) {
                return Err(Error::FamilyExists { table: table.to_string(), family: name.to_string() });
            }
            schema.families.insert(name, family);
        }
        FamilyChange::SetGc(name, gc) => {
            schema.families.get_mut(&name).ok_or_else(|| missing(&name))?.gc = gc;
        }
        FamilyChange::Drop(name) => {
            schema.families.remove(&name).ok_or_else(|| missing(&name))?;
        }
    }
    Ok(descriptor.with_schema(schema))
}

/// The table with other families. Cells of families that are no more go, and what the rules condemned until now: a looser rule
/// must not bring it back. Rows that lose nothing stay the versions that they are.
fn with_descriptor(table: &Table, descriptor: Descriptor, now_micros: i64) -> Table {
    let old = &table.descriptor;
    let keeps = |name: &FamilyName| descriptor.number_of(name) == old.number_of(name);
    let only_adds = old.schema.families.iter().all(|(name, family)| {
        keeps(name) && descriptor.schema.families.get(name).is_some_and(|now| now.gc == family.gc)
    });
    let mut changed = Table { descriptor: descriptor.clone().into(), ..table.clone() };
    if only_adds {
        return changed;
    }
    for (key, row) in &table.rows {
        let cells = table.cells(row);
        let count = cells.len();
        let mut left = row::live(&old.schema, cells, now_micros);
        left.retain(|cell| keeps(&cell.family));
        if left.len() < count {
            changed.set(key, changed.encode(&left));
        }
    }
    changed
}

/// Does what a record says; `None` when it contradicts the state.
pub(crate) fn replay(state: &mut State, record: Record) -> Option<()> {
    let stamp = match record {
        Record::Commit { stamp, writes } => {
            let mut change = Change { state, undo: Vec::new() };
            for write in writes {
                match write {
                    Write::Row { table, row } => {
                        let found = change.state.tables.get(&table)?;
                        let cells = found.rows.get::<[u8]>(&row.key).map(|row| found.cells(row)).unwrap_or_default();
                        change.mutate_row(stamp, &table, row, cells).ok()?;
                    }
                    Write::DeleteRange { table, range } => change.delete_range(&table, &range).ok()?,
                }
            }
            stamp
        }
        Record::CreateTable { stamp, descriptor } => {
            let (name, descriptor) = descriptor.into_descriptor()?;
            state.set_table(name, Table::new(descriptor));
            stamp
        }
        Record::DropTable { stamp, table } => {
            state.remove_table(&table);
            stamp
        }
        Record::ModifyFamilies { stamp, descriptor } => {
            let (name, descriptor) = descriptor.into_descriptor()?;
            let table = state.tables.get(&name).filter(|table| table.descriptor.number == descriptor.number)?;
            let changed = with_descriptor(table, descriptor, stamp);
            state.set_table(name, changed);
            stamp
        }
        Record::Clock { stamp } => stamp,
    };
    state.stamp = state.stamp.max(stamp);
    Some(())
}
