//! Rows of values → keys and cells → commits, a few at a time.
//!
//! The loader finds each column of the source in the table by its name, encodes a row as an INSERT would (a marker
//! cell, then a cell for each value that is not NULL), collects rows by tenant, and commits [`COMMIT_ROWS`] of them
//! together through the tenant's door. At most [`COMMITS_MAX`] commits are under way: the log thread writes them as one
//! group while the next rows are encoded.

use crate::{
    instance::Instance,
    pg::error::{Result, SqlError, SqlState},
};
use bytes::Bytes;
use keyspan_catalog::{
    ColumnPlace, Encoding, SqlType, Table, TenantId, TenantStore, Value, mapping,
    table::{MARKER_FAMILY, MARKER_QUALIFIER},
    tenant_store::Writes,
};
use keyspan_storage::{FamilyName, Mutation, RowMutation, Store};
use std::{collections::BTreeMap, sync::Arc};
use tokio::task::JoinSet;

/// Rows of a commit; with up to 32 columns each they stay below the store's limit of mutations.
pub(crate) const COMMIT_ROWS: usize = 2_000;
/// Commits under way at a time.
pub(crate) const COMMITS_MAX: usize = 4;

/// A column of the source that becomes a cell.
struct CellColumn {
    /// Its position among the source's values.
    position: usize,
    family: FamilyName,
    qualifier: Bytes,
    kind: SqlType,
    encoding: Encoding,
}

/// Loads one table.
pub struct Loader {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    /// For each part of the key, its position among the source's values.
    key: Vec<usize>,
    cells: Vec<CellColumn>,
    marker: FamilyName,
    waiting: BTreeMap<TenantId, Vec<RowMutation>>,
    commits: JoinSet<Result<u64>>,
    /// Rows that are durable.
    rows: u64,
}

impl Loader {
    /// A loader of rows whose values come in the order of `columns`.
    ///
    /// # Errors
    /// 42703 for a column that the table does not have, 23502 when a part of the key is not among them.
    pub fn new(instance: &Instance, table: Arc<Table>, columns: &[impl AsRef<str>]) -> Result<Self> {
        let mut key = vec![None; table.key.parts.len()];
        let mut cells = Vec::new();
        for (position, name) in columns.iter().enumerate() {
            let name = name.as_ref();
            let column = table.column(name).ok_or_else(|| SqlError::undefined_column_of(&table.name, name))?;
            match &column.place {
                ColumnPlace::Key(part) => key[*part] = Some(position),
                ColumnPlace::Cell { family, qualifier, encoding } => cells.push(CellColumn {
                    position,
                    family: family.clone(),
                    qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
                    kind: column.kind,
                    encoding: encoding.clone(),
                }),
                ColumnPlace::Open { .. } => return Err(SqlError::unsupported("a load into an open family")),
            }
        }
        let key = key.into_iter().collect::<Option<_>>().ok_or_else(|| {
            SqlError::new(SqlState::NOT_NULL_VIOLATION, format!("a key column of \"{}\" has no values", table.name))
        })?;
        let marker = FamilyName::new(MARKER_FAMILY)?;
        let (store, waiting, commits) = (instance.catalog.store().clone(), BTreeMap::new(), JoinSet::new());
        Ok(Self { store, table, key, cells, marker, waiting, commits, rows: 0 })
    }

    /// Takes a row; waits while too many commits are under way. Tells `step` how many rows are durable, when it learns
    /// of it.
    ///
    /// # Errors
    /// A value that does not fit, and what a commit before it said.
    pub async fn put(&mut self, tenant: &TenantId, row: &[Value], step: &mut impl FnMut(u64)) -> Result<()> {
        let row = self.encode(row)?;
        let full = match self.waiting.get_mut(tenant) {
            Some(rows) => {
                rows.push(row);
                rows.len() >= COMMIT_ROWS
            }
            None => {
                let mut rows = Vec::with_capacity(COMMIT_ROWS);
                rows.push(row);
                self.waiting.insert(tenant.clone(), rows);
                false
            }
        };
        if full && let Some((tenant, rows)) = self.waiting.remove_entry(tenant) {
            self.commit(tenant, rows, step).await?;
        }
        Ok(())
    }

    /// Commits what is left and waits for everything.
    ///
    /// # Errors
    /// What a commit said.
    pub async fn finish(mut self, step: &mut impl FnMut(u64)) -> Result<()> {
        for (tenant, rows) in std::mem::take(&mut self.waiting) {
            self.commit(tenant, rows, step).await?;
        }
        while !self.commits.is_empty() {
            self.acknowledge(step).await?;
        }
        Ok(())
    }

    fn encode(&self, row: &[Value]) -> Result<RowMutation> {
        let parts: Vec<_> = self.key.iter().map(|position| row[*position].clone()).collect();
        let key = self.table.key.encode(&parts)?;
        let cell = |family: &FamilyName, qualifier, value| Mutation::SetCell {
            family: family.clone(),
            qualifier,
            timestamp: None,
            value,
        };
        let mut mutations = Vec::with_capacity(1 + self.cells.len());
        mutations.push(cell(&self.marker, Bytes::from_static(MARKER_QUALIFIER), Bytes::new()));
        for column in &self.cells {
            let value = &row[column.position];
            if *value != Value::Null {
                let bytes = mapping::encode(value, column.kind, &column.encoding)?;
                mutations.push(cell(&column.family, column.qualifier.clone(), bytes));
            }
        }
        Ok(RowMutation { key, mutations })
    }

    async fn commit(&mut self, tenant: TenantId, rows: Vec<RowMutation>, step: &mut impl FnMut(u64)) -> Result<()> {
        while self.commits.len() >= COMMITS_MAX {
            self.acknowledge(step).await?;
        }
        let (door, table) = (TenantStore::of_tenant(self.store.clone(), tenant), self.table.clone());
        self.commits.spawn(async move {
            let count = rows.len() as u64;
            let rows = rows.into_iter().map(|row| (table.clone(), row)).collect();
            door.commit(&door.pin().await?, Writes { rows, ..Writes::default() }).await?;
            Ok(count)
        });
        Ok(())
    }

    /// Waits for one commit, if any is under way.
    async fn acknowledge(&mut self, step: &mut impl FnMut(u64)) -> Result<()> {
        if let Some(done) = self.commits.join_next().await {
            let stopped =
                |error| SqlError::new(SqlState::INTERNAL_ERROR, format!("a commit of the load ended: {error}"));
            self.rows += done.map_err(stopped)??;
            step(self.rows);
        }
        Ok(())
    }
}
