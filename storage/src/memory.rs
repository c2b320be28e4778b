//! The memory store: the oracle that defines the behaviour of a [`Store`]. Nothing is persistent.
//!
//! All of it is one `State` behind one lock, made of maps that share structure when they are cloned. A [`Pin`] is a
//! clone of the state. A write changes a clone, and replaces the state by it, or drops it after an error.

mod cursor;
mod load;
mod state;

use self::{cursor::Cursor, load::MemoryLoad, state::State};
use crate::{
    Cell, CheckAndMutate, Clock, ClockInfo, Commit, Error, FamilyChange, History, HistorySize, KeyRange, Load,
    LoadColumn, Mutation, Pin, Promises, PurgeReport, ReadModifyWrite, Result, Row, RowKey, RowMutation, RowSample,
    RowStream, Scan, SpanInfo, Store, TableName, TableSchema, Write,
    clock::HybridClock,
    row::{self, RowReader},
    store::failed,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore(Arc<Current>);

/// Its content, shared with loads in progress.
#[derive(Debug)]
struct Current {
    clock: HybridClock,
    state: Mutex<Arc<State>>,
    closed: AtomicBool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Box<dyn Clock>) -> Self {
        let (clock, state, closed) = (HybridClock::new(clock, 0), Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Current { clock, state, closed }))
    }
}

impl Current {
    fn lock(&self) -> Result<MutexGuard<'_, Arc<State>>> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("it was closed".into()));
        }
        // The state is only ever replaced as a whole: a panic leaves it consistent.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes a clone of the state, given a new stamp, and replaces the state unless there was an error.
    fn change<T>(&self, change: impl FnOnce(&mut State, i64) -> Result<T>) -> Result<T> {
        let mut current = self.lock()?;
        let stamp_micros = self.clock.stamp();
        let mut next = State::clone(&current);
        let given = change(&mut next, stamp_micros)?;
        next.commit_micros = stamp_micros;
        *current = Arc::new(next);
        Ok(given)
    }

    /// The state that a scan reads, and the time at which it evaluates rules.
    fn pinned(&self, pin: Option<&Pin>) -> Result<(Arc<State>, i64)> {
        let current = self.lock()?;
        match pin {
            Some(pin) => Ok((state_of(pin)?, pin.now_micros)),
            None => Ok((current.clone(), self.clock.now())),
        }
    }

    fn cursor(&self, table: &TableName, scan: &Scan) -> Result<Cursor> {
        scan.check()?;
        let (state, now_micros) = self.pinned(scan.pin.as_ref())?;
        let table = state.table(table)?;
        let reader = RowReader::new(&table.schema, scan, now_micros)?;
        let rows = scan.as_of.map_or_else(|| table.rows.clone(), |as_of_micros| table.rows_as_of(as_of_micros));
        Ok(Cursor::new(rows, reader, scan))
    }
}

fn state_of(pin: &Pin) -> Result<Arc<State>> {
    let state = pin.state.clone().downcast::<State>();
    state.map_err(|_| Error::Invalid("the pin is one of another store".into()))
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        self.0.change(|state, stamp_micros| state.create_table(table, schema, stamp_micros))
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.0.change(|state, _| state.drop_table(table))
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        let state = self.0.lock()?.clone();
        Ok(state.tables.iter().map(|(name, table)| (name.clone(), table.schema.as_ref().clone())).collect())
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        self.0.change(|state, now_micros| state.modify_families(table, changes, now_micros))
    }

    async fn pin(&self) -> Result<Pin> {
        let current = self.0.lock()?;
        Ok(Pin { commit_micros: current.commit_micros, now_micros: self.0.clock.now(), state: current.clone() })
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        match self.0.cursor(table, &scan) {
            Ok(cursor) => futures::stream::iter(cursor.map(Ok)).boxed(),
            Err(error) => failed(error),
        }
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        let (state, now_micros) = self.0.pinned(None)?;
        Ok(state.table(table)?.samples(now_micros))
    }

    async fn commit(&self, commit: Commit) -> Result<i64> {
        row::check_count(commit.writes.iter().map(mutations_in).sum())?;
        let pinned = commit.validation.as_ref().map(|validation| state_of(&validation.pin)).transpose()?;
        self.0.change(|state, stamp_micros| {
            if let (Some(pinned), Some(validation)) = (pinned, &commit.validation) {
                state.validate(&pinned, &validation.rows)?;
            }
            let read: HashSet<_> = commit.validation.into_iter().flat_map(|validation| validation.rows).collect();
            for write in commit.writes {
                match write {
                    Write::Row { table, row } => {
                        let target = (table, row.key.clone());
                        state.mutate(&target.0, row, stamp_micros, read.contains(&target))?;
                    }
                    Write::DeleteRange { table, range } => state.delete_range(&table, &range)?,
                }
            }
            Ok(stamp_micros)
        })
    }

    async fn load(&self, table: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        let schema = self.0.lock()?.table(table)?.schema.clone();
        row::check_load(table, &schema, columns)?;
        if schema.history.is_some() {
            return Ok(None);
        }
        let (table, columns, current) = (table.clone(), columns.to_vec(), self.0.clone());
        let begun_micros = current.clock.stamp();
        Ok(Some(Box::new(MemoryLoad { current, table, schema, columns, begun_micros, rows: Vec::new() })))
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        row::check_count(rows.iter().map(|row| row.mutations.len()).sum())?;
        self.0.lock()?.table(table)?;
        let mutate = |row| self.0.change(|state, stamp_micros| state.mutate(table, row, stamp_micros, false).map(drop));
        Ok(rows.into_iter().map(mutate).collect())
    }

    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        self.0.change(|state, stamp_micros| {
            let held = state.table(table)?;
            row::check_decision(table, &held.schema, &request, stamp_micros)?;
            let cells = held.live_cells(&request.key, stamp_micros);
            let holds = row::holds(request.predicate.as_ref(), &request.key, cells)?;
            let mutations = if holds { request.then } else { request.otherwise };
            if !mutations.is_empty() {
                state.mutate(table, RowMutation { key: request.key, mutations }, stamp_micros, true)?;
            }
            Ok(holds)
        })
    }

    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        self.0.change(|state, stamp_micros| {
            let held = state.table(table)?;
            let mutations = row::modify(table, &held.schema, &held.live_cells(&key, stamp_micros), &rules)?;
            let row = RowMutation { key: key.clone(), mutations };
            let resolved = state.mutate(table, row, stamp_micros, true)?;
            Ok(Row { key, cells: row::written(resolved) })
        })
    }

    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        if prefix.is_empty() {
            return Err(Error::Invalid("a prefix to drop is empty: that would be every row".into()));
        }
        self.0.change(|state, _| state.delete_range(table, &KeyRange::prefix(prefix)))
    }

    /// There are no files; deleted rows that a pin holds go with the pin.
    async fn purge(&self, _ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        self.0.lock().map(|_| PurgeReport::default())
    }

    /// There are no files.
    async fn purge_cells(&self, _tables: &[TableName]) -> Result<PurgeReport> {
        self.0.lock().map(|_| PurgeReport::default())
    }

    async fn history_size(&self, table: &TableName, rows: &KeyRange, pin: Option<Pin>) -> Result<HistorySize> {
        let (state, now_micros) = self.0.pinned(pin.as_ref())?;
        Ok(state.table(table)?.history_size(rows, now_micros))
    }

    fn clock(&self) -> Option<ClockInfo> {
        Some(self.0.clock.info())
    }

    fn confirm_clock(&self) -> Option<ClockInfo> {
        Some(self.0.clock.confirm())
    }

    fn span(&self, table: &TableName, rows: &KeyRange) -> Result<Option<SpanInfo>> {
        let (state, now_micros) = self.0.pinned(None)?;
        let table = state.table(table)?;
        let history_bytes = table.history_size(rows, now_micros).bytes;
        let found = table.rows.iter().filter(|(key, _)| rows.contains(key));
        Ok(Some(found.fold(SpanInfo { history_bytes, ..SpanInfo::default() }, |span, (key, cells)| {
            let bytes = key.len() + cells.iter().map(Cell::size).sum::<usize>();
            SpanInfo { rows: span.rows + 1, bytes: span.bytes + bytes as u64, ..span }
        })))
    }

    fn history(&self, table: &TableName) -> Option<History> {
        self.0.lock().ok()?.tables.get(table)?.schema.history
    }

    fn promises(&self) -> Promises {
        Promises::local()
    }

    async fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

fn mutations_in(write: &Write) -> usize {
    match write {
        Write::Row { row, .. } => row.mutations.len(),
        Write::DeleteRange { .. } => 1,
    }
}

/// Mutations with their timestamps resolved.
type Resolved = Vec<Mutation>;

#[cfg(test)]
mod tests;
