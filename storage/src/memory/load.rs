//! Loads: kept in memory until they are finished, and then applied as one change of the state.

use super::{Current, state::State, state_of};
use crate::{Error, Load, LoadColumn, NewRows, Result, RowMutation, TableName, TableSchema, Validation, row};
use async_trait::async_trait;
use std::{collections::HashSet, sync::Arc};

/// See the module.
#[derive(Debug)]
pub(super) struct MemoryLoad {
    pub(super) current: Arc<Current>,
    pub(super) table: TableName,
    /// The families at its beginning.
    pub(super) schema: Arc<TableSchema>,
    pub(super) columns: Vec<LoadColumn>,
    /// The stamp of the cells.
    pub(super) begun_micros: i64,
    pub(super) rows: Vec<(u64, RowMutation)>,
}

impl MemoryLoad {
    /// Whether all rows are new.
    fn check(&self, state: &State, now_micros: i64) -> Result<()> {
        let table = state.table(&self.table)?;
        // A table that was changed and changed back counts as changed.
        if !Arc::ptr_eq(&table.schema, &self.schema) {
            return Err(Error::Conflict);
        }
        let mut seen = HashSet::with_capacity(self.rows.len());
        for (number, RowMutation { key, .. }) in &self.rows {
            if !table.live_cells(key, now_micros).is_empty() || !seen.insert(key) {
                return Err(Error::RowExists { key: key.clone(), number: Some(*number) });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Load for MemoryLoad {
    async fn add(&mut self, rows: NewRows) -> Result<()> {
        let mut rows = rows.mutations(&self.columns)?;
        rows.iter_mut().for_each(|(_, row)| row::resolve(&mut row.mutations, self.begun_micros));
        self.rows.extend(rows);
        Ok(())
    }

    async fn seal(&mut self) -> Result<()> {
        let state = self.current.lock()?.clone();
        self.check(&state, self.current.clock.now())
    }

    async fn finish(&mut self, validation: Option<Validation>) -> Result<i64> {
        let pinned = validation.as_ref().map(|validation| state_of(&validation.pin)).transpose()?;
        let current = Arc::clone(&self.current);
        current.change(|state, stamp_micros| {
            if let (Some(pinned), Some(validation)) = (pinned, &validation) {
                state.validate(&pinned, &validation.rows)?;
            }
            self.check(state, stamp_micros)?;
            for (_, row) in self.rows.drain(..) {
                state.mutate(&self.table, row, stamp_micros, false)?;
            }
            Ok(stamp_micros)
        })
    }
}
