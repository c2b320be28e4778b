//! Erasures that a session asks for: certificates of what a statement takes out of every view, made in the commit that
//! does it ([`Erasure`]). The background task ([`purge`](crate::purge)) makes the bytes go.

use super::Session;
use crate::{pg::error::Result, shield::shielded, write_set::WriteSet};
use keyspan_catalog::{
    Edit, Erasure, ErasureKind, PrivateEdit, SpanSize, Table, TenantId,
    erasure::{ERASURE_DEADLINE_MICROS, Target},
    tenant_store::Writes,
};

impl Session {
    /// The order to erase something of a table, about to be committed. `requested_micros` is when the statement began.
    pub(crate) fn erasure(
        &self,
        (kind, target): (ErasureKind, Target),
        table: &Table,
        what: impl Into<String>,
        size: SpanSize,
        requested_micros: i64,
    ) -> Erasure {
        Erasure {
            kind,
            table: table.id,
            table_name: table.name.clone(),
            what: what.into(),
            requested_by: self.identity.role.clone(),
            requested_micros,
            invisible_micros: self.instance.clock.now_micros(),
            size,
            deadline_micros: requested_micros.saturating_add(ERASURE_DEADLINE_MICROS),
            purging_micros: None,
            purged_micros: None,
            target,
        }
    }

    /// Deletes ranges of a tenant's rows, with their history, and records the erasures: one commit.
    ///
    /// # Errors
    /// 40001 when a table was changed meanwhile; 54000 when too many erasures wait; the store's.
    pub(crate) async fn erase(
        &mut self,
        (tenant, oid): (&TenantId, u32),
        written: WriteSet,
        erasures: Vec<Erasure>,
    ) -> Result<()> {
        let instance = self.instance.clone();
        let held = instance.table_locks.lock(written.private_tables(), []).await;
        let writes = Writes { reserved: self.temporary.spaces(), ..written.into_writes() };
        let edits = erasures.into_iter().map(|erasure| PrivateEdit::Erase(Box::new(erasure))).collect();
        let edit = Edit::ChangePrivate(tenant.clone(), oid, edits);
        let rows = &self.identity.rows;
        let committed = shielded(Box::pin(async {
            let editing = instance.catalog.begin_edit().await?;
            editing.commit(rows, &edit, writes).await
        }));
        held.committed(committed.await?);
        // Before the purge, which deletes what is stored of it.
        instance.heat.forget_tenant(&instance.catalog, oid).await;
        instance.days.forget(&instance.catalog, &instance.shares, oid).await;
        instance.purges.wake();
        Ok(())
    }
}
