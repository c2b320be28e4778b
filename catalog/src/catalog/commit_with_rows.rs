//! One commit for a transaction that has changed private relations of a tenant and written rows.
//!
//! [`Catalog::begin_edit`] locks out other edits of this process and pins the newest state; the caller validates its
//! read set as of that pin; [`Editing::commit`] applies the edits to the newest snapshot and writes them together with
//! the rows. All validation is done against that pin.

use super::{Catalog, rows};
use crate::{Edit, Result, Snapshot, TenantStore, tenant_store::Writes};
use keyspan_storage::{Pin, Validation};
use std::sync::Arc;
use tokio::sync::MutexGuard;

/// A change of the catalog in preparation. This process makes no other until it is committed or dropped.
#[derive(Debug)]
pub struct Editing<'a> {
    catalog: &'a Catalog,
    _editing: MutexGuard<'a, ()>,
    pin: Pin,
    before: Arc<Snapshot>,
}

impl Catalog {
    /// Begins a change of a tenant's private relations.
    ///
    /// # Errors
    /// The store's.
    pub async fn begin_edit(&self) -> Result<Editing<'_>> {
        let editing = self.editing.lock().await;
        self.finish_before_edit().await?;
        let pin = self.store.pin().await?;
        let before = self.refresh_at(&pin).await?;
        Ok(Editing { catalog: self, _editing: editing, pin, before })
    }
}

impl Editing<'_> {
    /// The state that the change is validated against.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.before
    }

    /// Commits an [`Edit::ChangePrivate`] together with writes of the tenant's store, both or neither. The tables of
    /// `writes` are those of the snapshot after the edit. Returns the commit timestamp in microseconds.
    ///
    /// # Errors
    /// Those of [`Snapshot::apply`]; [`Conflict`](crate::ErrorKind::Conflict) when a validated row changed; the
    /// store's, after which both may be committed.
    pub async fn commit(self, tenant_store: &TenantStore, edit: &Edit, writes: Writes) -> Result<i64> {
        let catalog = self.catalog;
        let after = self.before.apply(edit)?;
        catalog.make_private_table().await?;
        let mut commit = tenant_store.prepare(&self.pin, writes, Some(&after)).await?;
        commit.writes.extend(rows::difference(&self.before, &after));
        let validated = commit.validation.take().map(|validation| validation.rows).unwrap_or_default();
        let version = (rows::catalog_table(), rows::version_key());
        let rows = validated.into_iter().chain([version]).collect();
        commit.validation = Some(Validation { pin: self.pin.clone(), rows });
        let micros = catalog.store.commit(commit).await?;
        let after = Arc::new(after);
        catalog.newest.store(after.clone());
        catalog.erase_freed(edit, &self.before, after).await;
        Ok(micros)
    }
}
