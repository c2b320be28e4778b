//! All that a memory store holds, and what writes do to it. Pure: time comes in as an argument.

use super::Resolved;
use crate::{
    Cell, Error, Family, FamilyChange, KeyRange, Result, RowKey, RowMutation, RowSample, TableName, TableSchema,
    model::limits::TABLES_MAX, row,
};
use imbl::OrdMap;
use std::{ops::Bound, sync::Arc};

/// Parts into which a table is cut by its samples, at most.
const SAMPLES_MAX: u64 = 64;

/// Rows by key; a row's cells are in [order](Cell::order), and never none.
pub(super) type Rows = OrdMap<RowKey, Arc<Vec<Cell>>>;

/// The tables at one moment. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) tables: OrdMap<TableName, Table>,
    /// The stamp of the last change.
    pub(super) commit_micros: i64,
}

/// A table at one moment. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    pub(super) rows: Rows,
}

impl State {
    pub(super) fn table(&self, table: &TableName) -> Result<&Table> {
        self.tables.get(table).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    fn table_mut(&mut self, table: &TableName) -> Result<&mut Table> {
        self.tables.get_mut(table).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    pub(super) fn create_table(&mut self, table: &TableName, schema: TableSchema) -> Result<()> {
        if self.tables.contains_key(table) {
            return Err(Error::TableExists(table.to_string()));
        }
        if self.tables.len() == TABLES_MAX {
            return Err(Error::TooMany { what: "tables", count: TABLES_MAX + 1, limit: TABLES_MAX });
        }
        schema.check()?;
        self.tables.insert(table.clone(), Table { schema: Arc::new(schema), rows: Rows::new() });
        Ok(())
    }

    pub(super) fn drop_table(&mut self, table: &TableName) -> Result<()> {
        self.tables.remove(table).map(drop).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    pub(super) fn modify_families(
        &mut self,
        name: &TableName,
        changes: Vec<FamilyChange>,
        now_micros: i64,
    ) -> Result<()> {
        let table = self.table_mut(name)?;
        for change in changes {
            table.modify_family(name, change, now_micros)?;
        }
        table.schema.check()
    }

    /// Refuses when one of the rows is not the one that it was at the pinned state.
    pub(super) fn validate(&self, pinned: &Self, rows: &[(TableName, RowKey)]) -> Result<()> {
        for (table, key) in rows {
            let then = pinned.tables.get(table).and_then(|table| table.rows.get(key));
            let now = self.table(table)?.rows.get(key);
            let same = match (then, now) {
                // A row is replaced whole by each write, and the pinned one cannot have been freed.
                (Some(then), Some(now)) => Arc::ptr_eq(then, now),
                (None, None) => true,
                _ => false,
            };
            if !same {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// Applies the mutations of one row; they are given back as they were applied.
    pub(super) fn mutate(
        &mut self,
        name: &TableName,
        mut row: RowMutation,
        stamp_micros: i64,
        after_read: bool,
    ) -> Result<Resolved> {
        let table = self.table_mut(name)?;
        row::check(name, &table.schema, &row, stamp_micros)?;
        let cells = table.rows.get(&row.key).map(|cells| cells.as_ref().clone()).unwrap_or_default();
        row::resolve(&mut row.mutations, row::stamp_for(stamp_micros, after_read, &cells));
        let cells = row::fold(&table.schema, cells, &row.mutations, stamp_micros)?;
        table.put(row.key, cells);
        Ok(row.mutations)
    }

    pub(super) fn delete_range(&mut self, table: &TableName, range: &KeyRange) -> Result<()> {
        let table = self.table_mut(table)?;
        let keys: Vec<RowKey> = within(&table.rows, range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            table.rows.remove(&key);
        }
        Ok(())
    }
}

impl Table {
    /// The cells of a row that no rule has condemned.
    pub(super) fn living(&self, key: &RowKey, now_micros: i64) -> Vec<Cell> {
        self.rows.get(key).map(|cells| row::live(&self.schema, cells.as_ref().clone(), now_micros)).unwrap_or_default()
    }

    fn put(&mut self, key: RowKey, cells: Vec<Cell>) {
        if cells.is_empty() {
            self.rows.remove(&key);
        } else {
            self.rows.insert(key, Arc::new(cells));
        }
    }

    fn modify_family(&mut self, name: &TableName, change: FamilyChange, now_micros: i64) -> Result<()> {
        let absent = |family: &_| Error::NoFamily { table: name.to_string(), family: String::from(family) };
        let mut schema = self.schema.as_ref().clone();
        match change {
            FamilyChange::Create(family, definition) => {
                if schema.families.contains_key(&family) {
                    return Err(Error::FamilyExists { table: name.to_string(), family: family.to_string() });
                }
                schema.families.insert(family, definition);
            }
            FamilyChange::SetGc(family, gc) => {
                let changed: &mut Family = schema.families.get_mut(&family).ok_or_else(|| absent(family.as_str()))?;
                changed.gc = gc;
                // What the old rule condemned must not come back under the new one.
                self.prune(now_micros);
            }
            FamilyChange::Drop(family) => {
                schema.families.remove(&family).ok_or_else(|| absent(family.as_str()))?;
            }
        }
        self.schema = Arc::new(schema);
        // The cells of a family that is gone; one of the same name that comes later begins empty.
        self.prune(now_micros);
        Ok(())
    }

    /// Removes what is condemned from every row.
    fn prune(&mut self, now_micros: i64) {
        for (key, cells) in self.rows.clone() {
            let living = row::live(&self.schema, cells.as_ref().clone(), now_micros);
            if living.len() < cells.len() {
                self.put(key, living);
            }
        }
    }

    pub(super) fn samples(&self, now_micros: i64) -> Vec<RowSample> {
        let size = |key: &RowKey, cells: &[Cell]| (key.len() + cells.iter().map(Cell::size).sum::<usize>()) as u64;
        let part = self.rows.iter().map(|(key, cells)| size(key, cells)).sum::<u64>() / SAMPLES_MAX;
        let (mut samples, mut offset_bytes, mut next) = (Vec::new(), 0, part);
        let mut last = None;
        for (key, cells) in &self.rows {
            let living = self.living(key, now_micros);
            if living.is_empty() {
                continue;
            }
            offset_bytes += size(key, cells);
            let sample = RowSample { key: key.clone(), offset_bytes };
            if offset_bytes >= next && next > 0 {
                samples.push(sample);
                next = offset_bytes + part;
                last = None;
            } else {
                last = Some(sample);
            }
        }
        samples.extend(last);
        samples
    }
}

/// The rows in a range, which may be [empty](KeyRange::is_empty).
pub(super) fn within<'a>(
    rows: &'a Rows,
    range: &'a KeyRange,
) -> impl DoubleEndedIterator<Item = (&'a RowKey, &'a Arc<Vec<Cell>>)> + 'a {
    let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_ref()));
    let range = (!range.is_empty()).then_some((Bound::Included(range.start.as_ref()), end));
    range.into_iter().flat_map(|range| rows.range::<_, [u8]>(range))
}
