//! What a transaction has changed of a tenant's own relations, and the rows that it has written, in one commit.
//!
//! [`Catalog::begin_edit`] keeps other edits of this process away and pins the newest state; who commits looks at what it relies on as of
//! that pin; [`Editing::commit`] applies the edits to the newest snapshot and writes them with the rows. Everything is held against that pin.

use super::{Catalog, rows};
use crate::{Edit, Result, Snapshot, TenantStore, tenant_store::Writes};
use keyspan_storage::{Pin, Validation};
use std::sync::Arc;
use tokio::sync::MutexGuard;

/// A change of the catalog that is being prepared: no other is made by this process until it is dropped or committed.
#[derive(Debug)]
pub struct Editing<'a> {
    catalog: &'a Catalog,
    _editing: MutexGuard<'a, ()>,
    pin: Pin,
    before: Arc<Snapshot>,
}

impl Catalog {
    /// Begins a change of what a tenant has made for itself.
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
    /// The state that the change is held against.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.before
    }

    /// Commits an [`Edit::ChangePrivate`] together with writes of the tenant's door, whose tables are those of the snapshot after it: with
    /// both or with neither. Gives the time of the commit, in microseconds.
    ///
    /// # Errors
    /// What the edit contradicts; [`Conflict`](crate::ErrorKind::Conflict) when a validated row changed; the store's, after which both
    /// may be in force.
    pub async fn commit(self, door: &TenantStore, edit: &Edit, writes: Writes) -> Result<i64> {
        let catalog = self.catalog;
        let after = self.before.apply(edit)?;
        catalog.make_private_table().await?;
        let mut commit = door.prepare(&self.pin, writes, Some(&after)).await?;
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
