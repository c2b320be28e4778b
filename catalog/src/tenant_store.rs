//! The only door to rows.
//!
//! A [`TenantStore`] is made once for a connection, at authentication. It adds the tenant's span to every key that goes down and
//! strips it from every key that comes up; no key that a session can name lies outside of it. The operator's has no span: its
//! keys begin with the tenant's id.

use crate::{Result, Table, TenantId};
use keyspan_storage::{Pin, RowKey, RowMutation, RowStream, Scan, Store};
use std::sync::Arc;

/// Rows of one tenant in every table, or of all tenants for the operator.
#[derive(Clone, Debug)]
pub struct TenantStore {
    store: Arc<dyn Store>,
    tenant: Option<TenantId>,
}

/// What a statement writes: keys without the span.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Mutations of rows.
    pub rows: Vec<(Arc<Table>, RowMutation)>,
    /// Ranges to delete whole.
    pub ranges: Vec<(Arc<Table>, keyspan_storage::KeyRange)>,
    /// Rows that were relied on when they were read.
    pub validated: Vec<(Arc<Table>, RowKey)>,
}

impl TenantStore {
    /// The door of a tenant.
    pub fn of_tenant(store: Arc<dyn Store>, tenant: TenantId) -> Self {
        Self { store, tenant: Some(tenant) }
    }

    /// The door of the operator.
    pub fn of_operator(store: Arc<dyn Store>) -> Self {
        Self { store, tenant: None }
    }

    /// The tenant; `None` for the operator.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Holds on to the newest state.
    ///
    /// # Errors
    /// The store's.
    pub async fn pin(&self) -> Result<Pin> {
        Ok(self.store.pin().await?)
    }

    /// Reads rows of the span; keys of the scan and of the rows are without it.
    pub fn scan(&self, table: &Table, scan: Scan) -> RowStream {
        let _ = (table, scan);
        todo!()
    }

    /// Commits what a statement or transaction writes, read at `pin`. Refused when a validated row changed, and when a tenant that it
    /// writes for is no longer active: its row in the catalog is validated too.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) and the store's.
    pub async fn commit(&self, pin: &Pin, writes: Writes) -> Result<i64> {
        let _ = (pin, writes);
        todo!()
    }
}
