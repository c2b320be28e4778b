//! The rows of private tables that go, and the table of the store that has them.
//!
//! A space that no table uses any more is spare from the edit on that took it away. Its rows are deleted then, as a range, and another
//! edit forgets it. What a crash leaves spare, also what was being written there, is deleted when the catalog is opened: by then no
//! session is there that could still write to it.

use super::Catalog;
use crate::{
    Edit, PrivateEdit, Result, Snapshot, TenantId,
    private::{private_schema, private_table, space_span},
};
use keyspan_storage::StoreExt;
use std::{collections::BTreeSet, sync::Arc};

impl Catalog {
    /// Makes the store's table of all private tables, if it is not there.
    pub(super) async fn make_private_table(&self) -> Result<()> {
        if self.store.table(&private_table()).await.is_ok() {
            return Ok(());
        }
        match self.store.create_table(&private_table(), private_schema()).await {
            Err(error) if error.kind() != keyspan_storage::ErrorKind::AlreadyExists => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Deletes the rows of the spaces that an edit took from tables; gives the snapshot after. What fails is left for the next start.
    pub(super) async fn erase_freed(&self, edit: &Edit, before: &Snapshot, after: Arc<Snapshot>) -> Arc<Snapshot> {
        let Edit::ChangePrivate(tenant, oid, _) = edit else { return after };
        let used = |snapshot: &Snapshot| snapshot.private.get(tenant).map(|private| private.used()).unwrap_or_default();
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

    /// Reserves numbers for what a tenant is making: the first of `count` that follow each other. They are its spare spaces until an edit
    /// uses them, [`release`](Self::release) gives them up, or the catalog is opened again.
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

    /// Gives up what was [reserved](Self::reserve) and not used, and deletes what was written there. Of a tenant that is no more, nothing
    /// is left to give up.
    ///
    /// # Errors
    /// As [`commit`](Self::commit). The next start gives up what is left then.
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
            // What is being dropped goes whole.
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
