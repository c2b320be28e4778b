//! The content of a memory store, and the effect of writes on it. Pure: time comes in as an argument.

use super::Resolved;
use crate::{
    Cell, Error, FamilyChange, HistorySize, KeyRange, Result, RowKey, RowMutation, RowSample, TableName, TableSchema,
    model::limits::TABLES_MAX, row,
};
use imbl::OrdMap;
use std::{ops::Bound, sync::Arc};

/// Maximum parts into which samples divide a table.
const SAMPLES_MAX: u64 = 64;

/// Rows by key; a row's cells are in [order](Cell::order), and never empty.
pub(super) type Rows = OrdMap<RowKey, Arc<Vec<Cell>>>;

/// Previous versions of rows, by key and the stamp of the change; `None` if the row was absent.
type History = OrdMap<(RowKey, i64), Option<Arc<Vec<Cell>>>>;

/// The tables at one time. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) tables: OrdMap<TableName, Table>,
    /// The stamp of the last change.
    pub(super) commit_micros: i64,
}

/// A table at one time. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    pub(super) rows: Rows,
    history: History,
}

impl State {
    pub(super) fn table(&self, table: &TableName) -> Result<&Table> {
        self.tables.get(table).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    fn table_mut(&mut self, table: &TableName) -> Result<&mut Table> {
        self.tables.get_mut(table).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    pub(super) fn create_table(&mut self, table: &TableName, schema: TableSchema, stamp_micros: i64) -> Result<()> {
        if self.tables.contains_key(table) {
            return Err(Error::TableExists(table.to_string()));
        }
        if self.tables.len() == TABLES_MAX {
            return Err(Error::TooMany { what: "tables", count: TABLES_MAX + 1, limit: TABLES_MAX });
        }
        schema.check()?;
        let schema = Arc::new(schema.created(stamp_micros));
        self.tables.insert(table.clone(), Table { schema, rows: Rows::new(), history: History::new() });
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

    /// Checks that the rows are unchanged since the pinned state.
    pub(super) fn validate(&self, pinned: &Self, rows: &[(TableName, RowKey)]) -> Result<()> {
        for (table, key) in rows {
            let then = pinned.tables.get(table).and_then(|table| table.rows.get(key));
            let now = self.table(table)?.rows.get(key);
            let same = match (then, now) {
                // Each write replaces a row as a whole, and the pinned one cannot have been freed.
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

    /// Applies the mutations of one row; returns them with their timestamps.
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
        table.record_history(&row.key, cells.is_empty(), stamp_micros);
        table.put(row.key, cells);
        Ok(row.mutations)
    }

    pub(super) fn delete_range(&mut self, table: &TableName, range: &KeyRange) -> Result<()> {
        let table = self.table_mut(table)?;
        let keys: Vec<RowKey> = within(&table.rows, range).map(|(key, _)| key.clone()).collect();
        for key in keys {
            table.rows.remove(&key);
        }
        let purged = table.history.keys().filter(|(key, _)| range.contains(key)).cloned().collect::<Vec<_>>();
        for row in purged {
            table.history.remove(&row);
        }
        Ok(())
    }
}

impl Table {
    /// The cells of a row that no rule has condemned.
    pub(super) fn live_cells(&self, key: &RowKey, now_micros: i64) -> Vec<Cell> {
        self.rows.get(key).map(|cells| row::live(&self.schema, cells.as_ref().clone(), now_micros)).unwrap_or_default()
    }

    fn put(&mut self, key: RowKey, cells: Vec<Cell>) {
        if cells.is_empty() {
            self.rows.remove(&key);
        } else {
            self.rows.insert(key, Arc::new(cells));
        }
    }

    /// Records the current version of a row before it changes, if the table keeps history. If one commit changes it
    /// several times, the first version counts.
    fn record_history(&mut self, key: &RowKey, becomes_absent: bool, stamp_micros: i64) {
        let Some(history) = self.schema.history else { return };
        let before = self.rows.get(key).cloned();
        if before.is_none() && becomes_absent {
            return;
        }
        self.history.entry((key.clone(), stamp_micros)).or_insert(before);
        let forgotten = (key.clone(), i64::MIN)..=(key.clone(), history.forgotten_micros(stamp_micros));
        for row in self.history.range(forgotten).map(|(row, _)| row.clone()).collect::<Vec<_>>() {
            self.history.remove(&row);
        }
    }

    /// The rows after the last commit with this stamp or an earlier one. History must reach that far back.
    pub(super) fn rows_as_of(&self, as_of_micros: i64) -> Rows {
        let mut rows = self.rows.clone();
        let mut last = None;
        for ((key, stamp_micros), before) in &self.history {
            if *stamp_micros <= as_of_micros || last == Some(key) {
                continue;
            }
            last = Some(key);
            match before {
                Some(cells) => rows.insert(key.clone(), cells.clone()),
                None => rows.remove(key),
            };
        }
        rows
    }

    /// The versions that history keeps of rows in a range.
    pub(super) fn history_size(&self, range: &KeyRange, now_micros: i64) -> HistorySize {
        let forgotten = self.schema.history.map_or(i64::MAX, |history| history.forgotten_micros(now_micros));
        let kept = self.history.iter().filter(|((key, stamp), _)| range.contains(key) && *stamp >= forgotten);
        kept.fold(HistorySize::default(), |size, ((key, _), before)| {
            let cells = before.as_ref().map_or(0, |cells| cells.iter().map(Cell::size).sum::<usize>());
            HistorySize { versions: size.versions + 1, bytes: size.bytes + (key.len() + cells) as u64 }
        })
    }

    fn modify_family(&mut self, name: &TableName, change: FamilyChange, now_micros: i64) -> Result<()> {
        let changed = self.schema.changed(name, change, now_micros)?;
        if changed.history.is_none_or(|history| history.since_micros == now_micros) {
            self.history.clear();
        }
        let loses = self.schema.loses_cells_in(&changed);
        if loses {
            // Cells that the old rules condemned must not reappear under the new ones.
            self.prune(now_micros);
        }
        self.schema = Arc::new(changed);
        if loses {
            // Removes the cells of a dropped family; a later one of the same name begins empty.
            self.prune(now_micros);
        }
        Ok(())
    }

    /// Removes condemned cells from every row.
    fn prune(&mut self, now_micros: i64) {
        for (key, cells) in self.rows.clone() {
            let live = row::live(&self.schema, cells.as_ref().clone(), now_micros);
            if live.len() < cells.len() {
                self.put(key, live);
            }
        }
    }

    pub(super) fn samples(&self, now_micros: i64) -> Vec<RowSample> {
        let size = |key: &RowKey, cells: &[Cell]| (key.len() + cells.iter().map(Cell::size).sum::<usize>()) as u64;
        let part = self.rows.iter().map(|(key, cells)| size(key, cells)).sum::<u64>() / SAMPLES_MAX;
        let (mut samples, mut offset_bytes, mut next) = (Vec::new(), 0, part);
        let mut last = None;
        for (key, cells) in &self.rows {
            let live = self.live_cells(key, now_micros);
            if live.is_empty() {
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
