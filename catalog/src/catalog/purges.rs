//! The purge of dropped tenants: removing rows that are already unreadable from the store's files.
//!
//! ```text
//! DROP DATABASE        BeginPurge              Store::purge            FinishPurge
//!   certificate  ───►  purging_micros  ───►  files are rewritten ───►  purged_micros
//! ```
//!
//! The certificate's row in the catalog holds the state: each step is an edit, and after a crash the interrupted step
//! is repeated. [`Store::purge`](keyspan_storage::Store::purge) can be repeated at any time and returns only when the
//! purge is complete. A tenant of the same id that was created meanwhile keeps its rows: only deleted rows are purged.

use super::{Catalog, rows};
use crate::{
    DropCertificate, Edit, Result,
    private::private_table,
    tenant_store::{heat_table, span},
};
use keyspan_storage::{Clock, KeyRange, PurgeReport};
use std::sync::Arc;

/// Drops that one purge handles together: the store reads and rewrites the files that they share once.
pub(super) const PURGE_BATCH_MAX: usize = 64;

impl Catalog {
    /// The drops that are not purged yet, oldest first.
    pub fn unpurged(&self) -> Vec<Arc<DropCertificate>> {
        self.snapshot().drops.iter().filter(|drop| drop.purged_micros.is_none()).cloned().collect()
    }

    /// Purges at most [`PURGE_BATCH_MAX`] drops that are not purged yet; `None` when there are none. May take long.
    ///
    /// # Errors
    /// The store's: [`Unsupported`](keyspan_storage::ErrorKind::Unsupported) if it cannot guarantee a purge. The purge
    /// is not complete then, and can be repeated.
    pub async fn purge(&self, clock: &dyn Clock) -> Result<Option<PurgeReport>> {
        let mut drops = self.unpurged();
        drops.truncate(PURGE_BATCH_MAX);
        if drops.is_empty() {
            return Ok(None);
        }
        let oids: Vec<u32> = drops.iter().map(move |drop| drop.oid).collect();
        if drops.iter().any(|drop| drop.purging_micros.is_none()) {
            let now_micros = clock.now_micros();
            self.commit(|_| Ok(Edit::BeginPurge(oids.clone(), now_micros))).await?;
        }
        let snapshot = self.snapshot();
        // A table created since has no rows of these tenants. A table dropped since is removed by the store, which
        // waits for that whichever tables it is given; the catalog's own table is always among them.
        // The bytes of rows on servers are left to these.
        let here = snapshot.tables.values().filter(|table| table.remote.is_none());
        let shared = here.map(|table| table.physical.clone());
        let tables = shared.chain([private_table(), heat_table(), rows::catalog_table()]);
        let ranges = tables
            .flat_map(|table| drops.iter().map(move |drop| (table.clone(), KeyRange::prefix(span(&drop.tenant)))));
        // The tenant's definitions too: names, defaults, queries of views.
        let defined = drops.iter().flat_map(|drop| rows::defined_by(&drop.tenant));
        let ranges = ranges.chain(defined.map(|prefix| (rows::catalog_table(), KeyRange::prefix(prefix))));
        let report = self.store().purge(&ranges.collect::<Vec<_>>()).await?;
        let now_micros = clock.now_micros();
        self.commit(|_| Ok(Edit::FinishPurge(oids.clone(), now_micros))).await?;
        Ok(Some(report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, PurgeState, Quotas, Snapshot, Tenant, TenantId, TenantState};
    use keyspan_storage::{Store, clock::ManualClock, memory::MemoryStore};

    async fn dropped(store: &Arc<dyn Store>, ids: &[&str]) -> Catalog {
        let catalog = Catalog::open(store.clone()).await.unwrap();
        for id in ids {
            let id = TenantId::new(id).unwrap();
            let create = |snapshot: &Snapshot| {
                let (id, state) = (id.clone(), TenantState::Active);
                Ok(Edit::CreateTenant(Tenant {
                    id,
                    oid: snapshot.next_oid,
                    state,
                    created_micros: 1,
                    quotas: Quotas::default(),
                    settings: Default::default(),
                    owner: None,
                    comment: None,
                }))
            };
            catalog.commit(create).await.unwrap();
            catalog.drop_tenant(&id, "keyspan", 5).await.unwrap();
        }
        catalog
    }

    fn store() -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))))
    }

    fn times(catalog: &Catalog) -> Vec<(Option<i64>, Option<i64>)> {
        catalog.snapshot().drops.iter().map(|drop| (drop.purging_micros, drop.purged_micros)).collect()
    }

    #[tokio::test]
    async fn what_was_dropped_is_purged_once_and_stays_so() {
        let store = store();
        let catalog = dropped(&store, &["alto", "bari"]).await;
        assert_eq!(catalog.unpurged().len(), 2);
        assert_eq!(catalog.purge(&ManualClock::new(7)).await.unwrap(), Some(PurgeReport::default()));
        assert_eq!(catalog.purge(&ManualClock::new(8)).await.unwrap(), None);
        assert_eq!(times(&catalog), [(Some(7), Some(7)); 2]);
        let again = Catalog::open(store).await.unwrap();
        assert_eq!(again.snapshot().drops, catalog.snapshot().drops);
        assert_eq!(again.snapshot().drops[0].purge_state(), PurgeState::Done);
    }

    #[tokio::test]
    async fn a_purge_that_was_interrupted_begins_again_and_keeps_its_time() {
        let store = store();
        let catalog = dropped(&store, &["alto"]).await;
        let oid = catalog.snapshot().drops[0].oid;
        catalog.commit(|_| Ok(Edit::BeginPurge(vec![oid], 6))).await.unwrap();
        let catalog = Catalog::open(store.clone()).await.unwrap();
        assert_eq!(catalog.unpurged()[0].purge_state(), PurgeState::Running);
        let catalog = dropped(&store, &["bari"]).await;
        catalog.purge(&ManualClock::new(9)).await.unwrap();
        assert_eq!(times(&catalog), [(Some(6), Some(9)), (Some(9), Some(9))]);
    }

    #[tokio::test]
    async fn a_store_that_fails_certifies_nothing() {
        let store = store();
        let catalog = dropped(&store, &["alto"]).await;
        let oid = catalog.snapshot().drops[0].oid;
        catalog.commit(|_| Ok(Edit::BeginPurge(vec![oid], 6))).await.unwrap();
        store.close().await.unwrap();
        let error = catalog.purge(&ManualClock::new(9)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Store);
        assert_eq!(times(&catalog), [(Some(6), None)]);
    }

    #[tokio::test]
    async fn no_more_than_some_go_together() {
        let ids: Vec<String> = (0..=PURGE_BATCH_MAX).map(|number| format!("t{number}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let catalog = dropped(&store(), &ids).await;
        for left in [1, 0] {
            assert!(catalog.purge(&ManualClock::new(7)).await.unwrap().is_some());
            assert_eq!(catalog.unpurged().len(), left);
        }
    }

    #[tokio::test]
    async fn a_certificate_is_final() {
        let catalog = dropped(&store(), &["alto"]).await;
        let oid = catalog.snapshot().drops[0].oid;
        catalog.purge(&ManualClock::new(7)).await.unwrap();
        for edit in [Edit::BeginPurge(vec![oid], 9), Edit::FinishPurge(vec![oid], 9), Edit::FinishPurge(vec![1], 9)] {
            let error = catalog.commit(|_| Ok(edit.clone())).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
        assert_eq!(times(&catalog), [(Some(7), Some(7))]);
    }
}
