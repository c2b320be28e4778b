//! Bulk loads of new rows through the tenant store: the span is prepended to every key, and the tenants are validated
//! at the end.

use super::{TenantStore, span_of, tenant_of};
use crate::{Error, ErrorKind, Result, Table, TenantId};
use bytes::Bytes;
use keyspan_storage::{Error as StoreError, Load, LoadColumn, NewRows, RowKey, Validation};
use std::{collections::BTreeSet, sync::Arc};

/// Attempts to finish a load while the catalog rows that it validates change.
const FINISH_ATTEMPTS_MAX: usize = 64;

/// A load of new rows into a table. If it is dropped before it is finished, it leaves nothing.
#[derive(Debug)]
pub struct TenantLoad {
    load: Box<dyn Load>,
    tenant_store: TenantStore,
    table: Arc<Table>,
    /// The prefix of every key; empty for the operator.
    span: Bytes,
    tenants: BTreeSet<TenantId>,
    /// How many columns there are, and how many of these are whole families.
    columns: (usize, usize),
    batch: NewRows,
}

impl TenantStore {
    /// Begins a load of rows with cells in these columns; `None` if the store cannot load them and they must be
    /// committed instead: see [`Store::load`](keyspan_storage::Store::load).
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a private table in the operator's store; the store's.
    pub async fn load(&self, table: &Arc<Table>, columns: &[LoadColumn]) -> Result<Option<TenantLoad>> {
        if self.tenant.is_none() && table.is_private() {
            return Err(Error::new(ErrorKind::Invalid, "a private table is written in the database of its tenant"));
        }
        let Some(load) = self.store.load(&table.physical, columns).await? else { return Ok(None) };
        let span = self.tenant.as_ref().map_or_else(Bytes::new, |tenant| span_of(tenant, table));
        let tenants = self.tenant.iter().cloned().collect();
        let (tenant_store, table) = (self.clone(), table.clone());
        let columns = (columns.len(), columns.iter().filter(|column| column.qualifier.is_none()).count());
        let batch = NewRows::with_families(columns.0, columns.1);
        Ok(Some(TenantLoad { load, tenant_store, table, span, tenants, columns, batch }))
    }
}

impl TenantLoad {
    /// Adds a row: its key without the span, and its values, as [`NewRows::push`] takes them. Rows are collected until
    /// they are [sent](Self::send).
    ///
    /// # Errors
    /// Those of [`NewRows::push`] and of `value`; for the operator, a key that does not begin with a tenant's id.
    pub fn push<E: From<Error>>(
        &mut self,
        number: u64,
        key: &[u8],
        mut value: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        if self.span.is_empty() && !self.tenants.iter().any(|tenant| is_key_of(key, tenant)) {
            self.tenants.insert(tenant_of(key)?);
        }
        let span = &self.span;
        let put_key = |out: &mut Vec<u8>| {
            out.extend_from_slice(span);
            out.extend_from_slice(key);
            Ok::<(), Refused<E>>(())
        };
        let pushed =
            self.batch.push::<Refused<E>>(number, put_key, |at, out| value(at, out).map_err(Refused::ByCaller));
        pushed.map_err(|refused| match refused {
            Refused::ByCaller(error) => error,
            Refused::ByStore(error @ StoreError::TooLarge { what: "a row key", .. }) if !span.is_empty() => {
                let detail = format!("Of these, {} bytes are the tenant's id and its delimiter.", span.len());
                Error::from(error).with_detail(detail).into()
            }
            Refused::ByStore(error) => Error::from(error).into(),
        })
    }

    /// Whether enough rows are collected to be sent.
    pub fn is_full(&self) -> bool {
        self.batch.is_full()
    }

    /// Sends the collected rows. The store processes them while more are added.
    ///
    /// # Errors
    /// Those of [`Load::add`].
    pub async fn send(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, NewRows::with_families(self.columns.0, self.columns.1));
        if batch.is_empty() { Ok(()) } else { Ok(self.load.add(batch).await?) }
    }

    /// Does all remaining work except making the rows visible. Can be cancelled.
    ///
    /// # Errors
    /// Those of [`Load::seal`].
    pub async fn seal(&mut self) -> Result<()> {
        self.send().await?;
        Ok(self.load.seal().await?)
    }

    /// Makes all rows visible; returns their timestamp. Refused when a tenant is no longer active, or when the
    /// definition of a private table has changed.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict); [`NoTenant`](ErrorKind::NoTenant); those of [`Load::finish`].
    pub async fn finish(mut self) -> Result<i64> {
        self.seal().await?;
        for _ in 0..FINISH_ATTEMPTS_MAX {
            let pin = self.tenant_store.pin().await?;
            let mut rows = Vec::with_capacity(self.tenants.len() + 1);
            if self.table.is_private() {
                rows.push(self.tenant_store.unchanged_table_row(&self.table, &pin).await?);
            }
            for tenant in &self.tenants {
                rows.push(self.tenant_store.active_tenant_row(tenant, &pin).await?);
            }
            match self.load.finish(Some(Validation { pin, rows })).await {
                // One of these rows changed, or too many commits followed for the store to tell: read the rows again.
                Err(StoreError::Conflict) => {}
                done => return Ok(done?),
            }
        }
        Err(StoreError::Conflict.into())
    }

    /// The prefix of every key of the load in the store.
    pub fn span(&self) -> Bytes {
        self.span.clone()
    }
}

/// The row that already exists, according to a load's error: its key without the [span](TenantLoad::span), and the
/// number with which it was added.
pub fn existing_row(error: &Error, span: &[u8]) -> Option<(RowKey, Option<u64>)> {
    let Some(StoreError::RowExists { key, number }) = error.store() else { return None };
    let key = RowKey::new(Bytes::copy_from_slice(key.strip_prefix(span)?)).ok()?;
    Some((key, *number))
}

/// Whether the key begins with the tenant's id and the delimiter.
fn is_key_of(key: &[u8], tenant: &TenantId) -> bool {
    key.strip_prefix(tenant.as_str().as_bytes()).is_some_and(|rest| rest.first() == Some(&super::TENANT_DELIMITER))
}

/// The source of an error that refused a row.
enum Refused<E> {
    ByStore(StoreError),
    ByCaller(E),
}

impl<E> From<StoreError> for Refused<E> {
    fn from(error: StoreError) -> Self {
        Self::ByStore(error)
    }
}
