//! Deleting rows of private tables, and creating the table of the store that holds them all.
//!
//! A space is *spare* from the edit on that takes it away from its table. Then its rows are deleted as a range, and
//! another edit forgets the space. Spare spaces that a crash leaves behind, also those that were being written, are
//! deleted when the catalog is opened: by then no session can still write to them.

use super::Catalog;
use crate::{
    Edit, PrivateEdit, Result, Snapshot, TenantId,
    private::{private_schema, private_table, space_span},
};
use std::{collections::BTreeSet, sync::Arc};

impl Catalog {
    /// Creates the store's table of all private tables, if it does not exist.
    pub(super) async fn make_private_table(&self) -> Result<()> {
        if self.store.table(&private_table()).await.is_ok() {
            return Ok(());
        }
        match self.store.create_table(&private_table(), private_schema()).await {
            Err(error) if error.kind() != keyspan_storage::ErrorKind::AlreadyExists => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Deletes the rows of the spaces that an edit took from tables; returns the snapshot after that. If the deletion
    /// fails, the next start repeats it.
    pub(super) async fn erase_freed(&self, edit: &Edit, before: &Snapshot, after: Arc<Snapshot>) -> Arc<Snapshot> {
        let Edit::ChangePrivate(tenant, oid, _) = edit else { return after };
        let used =
            |snapshot: &Snapshot| snapshot.private.get(tenant).map(|private| private.used_spaces()).unwrap_or_default();
        let freed: BTreeSet<u32> = used(before).difference(&used(&after)).copied().collect();
        if freed.is_empty() {
            return after;
        }
        match self.erase_spaces(tenant, *oid, freed).await {
            Ok(after) => after,
            Err(error) => {
                tracing::warn!(%tenant, %error, "rows of a private table that was dropped are still in the store");
                after
            }
        }
    }

    /// Reserves `count` consecutive OIDs for relations that a tenant is creating, and returns the first. They are spare
    /// spaces of the tenant until an edit uses them, [`release`](Self::release) gives them up, or the catalog is opened
    /// again.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn reserve(&self, tenant: &TenantId, oid: u32, count: u32) -> Result<u32> {
        let edit = |snapshot: &Snapshot| {
            let first = snapshot.next_oid;
            let edits = (0..count).map(|number| PrivateEdit::Reserve(first.saturating_add(number))).collect();
            Ok(Edit::ChangePrivate(tenant.clone(), oid, edits))
        };
        Ok(self.commit(edit).await?.next_oid - count)
    }

    /// Gives up [reserved](Self::reserve) spaces that were not used, and deletes what was written there. Does nothing
    /// if the tenant no longer exists.
    ///
    /// # Errors
    /// As [`commit`](Self::commit). Then the next start gives up what is left.
    pub async fn release(&self, tenant: &TenantId, oid: u32, spaces: BTreeSet<u32>) -> Result<()> {
        let _editing = self.editing.lock().await;
        let snapshot = self.refresh_at(&self.store.pin().await?).await?;
        let is_there = snapshot.tenant(tenant.as_str()).is_some_and(|found| found.oid == oid);
        let Some(private) = snapshot.private.get(tenant).filter(|_| is_there) else { return Ok(()) };
        let spaces: BTreeSet<u32> = spaces.intersection(&private.spare).copied().collect();
        if !spaces.is_empty() {
            self.erase_spaces(tenant, oid, spaces).await?;
        }
        Ok(())
    }

    /// Deletes the rows of every spare space.
    pub(super) async fn erase_spare(&self) -> Result<()> {
        let snapshot = self.snapshot();
        for (id, private) in snapshot.private.iter().filter(|(_, private)| !private.spare.is_empty()) {
            // A tenant that is being dropped is deleted as a whole.
            if let Some(tenant) = snapshot.tenant(id.as_str()) {
                self.erase_spaces(id, tenant.oid, private.spare.clone()).await?;
            }
        }
        Ok(())
    }

    async fn erase_spaces(&self, tenant: &TenantId, oid: u32, spaces: BTreeSet<u32>) -> Result<Arc<Snapshot>> {
        for space in &spaces {
            self.store.drop_row_range(&private_table(), space_span(tenant, *space)).await?;
        }
        let edit = Edit::ChangePrivate(tenant.clone(), oid, vec![PrivateEdit::Forget(spaces)]);
        let pin = self.store.pin().await?;
        let before = self.refresh_at(&pin).await?;
        let after = before.apply(&edit)?;
        self.commit_at(&pin, &edit, &before, after).await
    }
}
