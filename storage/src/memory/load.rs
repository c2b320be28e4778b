//! Loads: kept in memory until they are finished, and then one change of the state.

use super::{Current, state_of};
use crate::{Error, Load, LoadColumn, NewRows, Result, RowMutation, TableName, TableSchema, Validation};
use async_trait::async_trait;
use std::{collections::HashSet, sync::Arc};

/// See the module.
#[derive(Debug)]
pub(super) struct MemoryLoad {
    pub(super) current: Arc<Current>,
    pub(super) table: TableName,
    /// The families when it was begun.
    pub(super) schema: Arc<TableSchema>,
    pub(super) columns: Vec<LoadColumn>,
    pub(super) rows: Vec<(u64, RowMutation)>,
}

#[async_trait]
impl Load for MemoryLoad {
    async fn add(&mut self, rows: NewRows) -> Result<()> {
        self.rows.extend(rows.mutations(&self.columns)?);
        Ok(())
    }

    async fn seal(&mut self) -> Result<()> {
        Ok(())
    }

    async fn finish(&mut self, validation: Option<Validation>) -> Result<i64> {
        let Self { current, table, schema, rows, .. } = self;
        let pinned = validation.as_ref().map(|validation| state_of(&validation.pin)).transpose()?;
        current.change(|state, stamp_micros| {
            if state.table(table)?.schema != *schema {
                return Err(Error::Conflict);
            }
            if let (Some(pinned), Some(validation)) = (pinned, &validation) {
                state.validate(&pinned, &validation.rows)?;
            }
            let mut seen = HashSet::with_capacity(rows.len());
            for (number, row) in rows.drain(..) {
                let is_there = !state.table(table)?.living(&row.key, stamp_micros).is_empty();
                if is_there || !seen.insert(row.key.clone()) {
                    return Err(Error::RowExists { key: row.key, number: Some(number) });
                }
                state.mutate(table, row, stamp_micros, false)?;
            }
            Ok(stamp_micros)
        })
    }
}
