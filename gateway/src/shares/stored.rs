//! Rows of the store with what is known of tenants over restarts: among those of the heat of keys, in the span of the
//! tenant, with which they go.

use bytes::Bytes;
use futures::StreamExt;
use keyspan_catalog::{Catalog, Snapshot, tenant_store::HeatRow};
use std::collections::{BTreeMap, HashMap};

/// Commits of tenants under way at a time.
const COMMITS_MAX: usize = 8;

/// What is stored, by the tenant's OID (0 for the operator's own statements) and a key within it.
pub(super) type Rows<K, V> = BTreeMap<(u32, K), V>;

/// What a row is to become: what is remembered of it, and its value; `None` if it is to go.
pub(super) type Wanted<V> = Option<(V, Bytes)>;

/// Rows that were read, with the OIDs of their tenants; those of tenants that are not there are left out.
pub(super) fn with_oids<'a>(rows: &'a [HeatRow], snapshot: &'a Snapshot) -> impl Iterator<Item = (u32, &'a HeatRow)> {
    rows.iter().filter_map(|row| match &row.tenant {
        Some(id) => snapshot.tenant(id.as_str()).map(|tenant| (tenant.oid, row)),
        None => Some((0, row)),
    })
}

/// Makes changes, those of a tenant in one commit. What fails stays as it was, so that it is tried again.
pub(super) async fn store<K, V>(
    catalog: &Catalog,
    rows: &mut Rows<K, V>,
    changes: Vec<((u32, K), Wanted<V>)>,
    name: impl Fn(&K) -> Bytes,
) where
    K: Ord,
{
    let mut by_tenant: HashMap<u32, Vec<(K, Wanted<V>)>> = HashMap::new();
    for ((oid, key), wanted) in changes {
        by_tenant.entry(oid).or_default().push((key, wanted));
    }
    let snapshot = catalog.snapshot();
    let commits = by_tenant.into_iter().map(|(oid, changes)| {
        let values = changes.iter().map(|(key, wanted)| (name(key), wanted.as_ref().map(|(_, value)| value.clone())));
        let values: Vec<_> = values.collect();
        let snapshot = &snapshot;
        async move { is_stored(catalog, snapshot, oid, values).await.then_some((oid, changes)) }
    });
    let done: Vec<_> = futures::stream::iter(commits).buffer_unordered(COMMITS_MAX).collect().await;
    let is_there = |oid: u32| oid == 0 || snapshot.tenant_by_oid(oid).is_some();
    for (oid, changes) in done.into_iter().flatten() {
        for (key, wanted) in changes {
            match wanted.filter(|_| is_there(oid)) {
                Some((value, _)) => drop(rows.insert((oid, key), value)),
                None => drop(rows.remove(&(oid, key))),
            }
        }
    }
}

async fn is_stored(catalog: &Catalog, snapshot: &Snapshot, oid: u32, values: Vec<(Bytes, Option<Bytes>)>) -> bool {
    let tenant = snapshot.tenant_by_oid(oid);
    if oid != 0 && tenant.is_none() {
        // Its rows have gone with it.
        return true;
    }
    let stored = catalog.put_heat(tenant, values).await;
    stored.inspect_err(|error| tracing::debug!(%error, oid, "what is known of a tenant was not stored")).is_ok()
}
