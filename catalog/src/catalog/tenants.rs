//! Dropping a tenant, from invisible to certified.
//!
//! 1. One edit makes the tenant invisible, whatever its size. From then on commits of its sessions are refused, since
//!    they validate its row in the catalog.
//! 2. Its rows are counted ([`Catalog::tenant_contents`]), and its span is deleted in every table.
//! 3. One edit deletes the tenant's row and adds the certificate.
//!
//! [`Catalog::finish_drops`] finishes a drop that a crash or an error (a full disk, for example) interrupted, and drops
//! what an interrupted creation ([`copy`](super::copy)) left.

use super::{Catalog, rows::catalog_table};
use crate::{
    Contents, Counted, DropCertificate, Edit, Error, ErrorKind, Result, SpanSize, Table, TableContents, TableKind,
    Tenant, TenantId, TenantStore,
    private::{private_table, space_span},
    tenant::CONTENTS_TABLES_MAX,
    tenant_store::{heat_table, span},
};
use futures::TryStreamExt;
use keyspan_storage::{KeyRange, Pin, Scan, SpanInfo, TableName};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The tenants that statements of this process are dropping or creating.
#[derive(Debug, Default)]
pub(super) struct ActiveTenants(Mutex<BTreeSet<TenantId>>);

/// Removes the tenant from the set when dropped.
#[derive(Debug)]
pub(super) struct ActiveTenant<'a>(&'a ActiveTenants, TenantId);

impl ActiveTenants {
    /// Adds a tenant; `None` if another statement has added it.
    pub(super) fn begin(&self, id: &TenantId) -> Option<ActiveTenant<'_>> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        is_new.then(|| ActiveTenant(self, id.clone()))
    }

    fn contains(&self, id: &TenantId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

impl Drop for ActiveTenant<'_> {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// Rows and bytes of a tenant in each table of its database, without history. Those on servers may be estimates.
#[derive(Clone, Debug, Default)]
pub struct TenantSize {
    /// The shared tables and its own, in the order of [`Snapshot::tables_in`](crate::Snapshot::tables_in), those
    /// without rows as well.
    pub tables: Vec<(Arc<Table>, SpanSize)>,
}

impl TenantSize {
    /// Rows and bytes of all tables together.
    pub fn total(&self) -> SpanSize {
        self.tables.iter().map(|(_, size)| *size).sum()
    }
}

impl Catalog {
    /// Drops a tenant and its rows. `now_micros` is the time of the statement.
    ///
    /// # Errors
    /// [`NoTenant`](ErrorKind::NoTenant), and the store's; after an error of the store the tenant is unchanged, or
    /// invisible and left to [`finish_drops`](Self::finish_drops).
    pub async fn drop_tenant(&self, id: &TenantId, dropped_by: &str, now_micros: i64) -> Result<Arc<DropCertificate>> {
        let no_tenant = || Error::new(ErrorKind::NoTenant, format!("database \"{id}\" does not exist"));
        let _active = self.active_tenants.begin(id).ok_or_else(no_tenant)?;
        let hidden = self.commit(|_| Ok(Edit::BeginDropTenant(id.clone()))).await?;
        let tenant = hidden.tenants.get(id).cloned();
        let tenant = tenant.ok_or_else(no_tenant)?;
        self.finish_drop(&tenant, dropped_by, now_micros).await
    }

    /// Finishes interrupted drops, except those of statements that still run, and drops what interrupted creations
    /// left. The catalog does not record who began them, so the certificates name `dropped_by`.
    ///
    /// # Errors
    /// The store's, the first of several; the call can be repeated.
    pub async fn finish_drops(&self, dropped_by: &str, now_micros: i64) -> Result<Vec<Arc<DropCertificate>>> {
        let mut failed = None;
        let creating: Vec<Arc<Tenant>> = self.snapshot().creating().cloned().collect();
        for tenant in creating.iter().filter(|tenant| !self.active_tenants.contains(&tenant.id)) {
            let abandoned = self.commit(|_| Ok(Edit::AbandonTenant(tenant.id.clone(), tenant.oid))).await;
            failed = failed.or(abandoned.err());
        }
        let mut begun: Vec<Arc<Tenant>> = self.snapshot().dropping().cloned().collect();
        begun.retain(|tenant| !self.active_tenants.contains(&tenant.id));
        let mut certificates = Vec::with_capacity(begun.len());
        for tenant in begun {
            tracing::info!(tenant = %tenant.id, "finishing an interrupted drop");
            match self.finish_drop(&tenant, dropped_by, now_micros).await {
                Ok(certificate) => certificates.push(certificate),
                // The other drops may still succeed.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(certificates), Err)
    }

    /// Counts all that a drop of the tenant deletes, and what it leaves. `EXPLAIN DROP DATABASE` shows it, and a drop
    /// certifies it: both come from here, so that they count the same.
    ///
    /// # Errors
    /// The store's.
    pub async fn tenant_contents(&self, tenant: &Tenant) -> Result<Contents> {
        let rows = TenantStore::of_tenant(self.store().clone(), tenant.id.clone());
        let (pin, snapshot) = (rows.pin().await?, self.snapshot());
        let mut contents = Contents { exports: self.exports(tenant), ..Contents::default() };
        let own = snapshot.private_of(Some(&tenant.id));
        let kept = own.into_iter().flat_map(|own| own.views.values()).filter(|view| view.space().is_some());
        let kept: Vec<Arc<Table>> = kept.filter_map(|view| view.table()).map(Arc::new).collect();
        let all = snapshot.tables_in(Some(&tenant.id));
        let stays = all.clone().filter(|table| !table.is_dropped_with_tenant());
        contents.stays_in = stays.take(CONTENTS_TABLES_MAX).map(|table| table.name.clone()).collect();
        let tables = all.filter(|table| table.is_dropped_with_tenant());
        contents.private_tables = tables.clone().filter(|table| table.is_private()).count() as u64;
        contents.is_on_servers = tables.clone().any(|table| table.remote.is_some());
        for table in tables.chain(&kept) {
            let (size, counted) = size_anywhere(&rows, table, &pin).await?;
            if size.is_empty() {
                continue;
            }
            let server = snapshot.server_of(table).map(|server| server.name.clone());
            contents.total = contents.total + size;
            contents.counted = contents.counted.max(counted);
            contents.tables += 1;
            if contents.by_table.len() < CONTENTS_TABLES_MAX {
                let (kind, name) = match table.is_private() {
                    true => (TableKind::Private, None),
                    false => (TableKind::Shared, Some(table.name.clone())),
                };
                contents.by_table.push(TableContents { oid: table.id, table: name, kind, server, counted, size });
            }
        }
        if let Some(private) = snapshot.private_of(Some(&tenant.id)) {
            (contents.sequences, contents.views) = (private.sequences.len() as u64, private.views.len() as u64);
            for space in &private.spare {
                let scan =
                    Scan { pin: Some(pin.clone()), ..Scan::of(KeyRange::prefix(space_span(&tenant.id, *space))) };
                let mut size = SpanSize::default();
                let mut batches = self.store().scan(&private_table(), scan);
                while let Some(batch) = batches.try_next().await? {
                    batch.iter().for_each(|row| size.add_row(row));
                }
                contents.temporary_tables += u64::from(size.rows > 0);
                contents.temporary_rows += size.rows;
                contents.temporary_bytes += size.bytes;
            }
        }
        Ok(contents)
    }

    /// Rows and bytes of a tenant, by table.
    ///
    /// # Errors
    /// The store's.
    pub async fn tenant_size(&self, id: &TenantId) -> Result<TenantSize> {
        let rows = TenantStore::of_tenant(self.store().clone(), id.clone());
        let pin = rows.pin().await?;
        let mut tables = Vec::new();
        for table in self.snapshot().tables_in(Some(id)) {
            let size = match table.remote {
                Some(_) => size_anywhere(&rows, table, &pin).await?.0,
                None => rows.size(table, Some(pin.clone())).await?,
            };
            tables.push((table.clone(), size));
        }
        Ok(TenantSize { tables })
    }

    /// The size of a tenant's rows in all tables and of their history, as the store knows it without reading them;
    /// nothing for a store that cannot tell. May block for a few reads of files.
    ///
    /// # Errors
    /// The store's.
    pub fn tenant_span(&self, id: &TenantId) -> Result<SpanInfo> {
        let snapshot = self.snapshot();
        let shared = snapshot.tables.values().filter(|table| table.is_dropped_with_tenant());
        let tables: BTreeSet<_> = shared.map(|table| table.physical.clone()).chain([private_table()]).collect();
        self.span_in(&tables, &KeyRange::prefix(span(id)))
    }

    /// The same of what is no tenant's: the catalog, and the heat of keys.
    ///
    /// # Errors
    /// The store's.
    pub fn operator_span(&self) -> Result<SpanInfo> {
        self.span_in(&BTreeSet::from([catalog_table(), heat_table()]), &KeyRange::all())
    }

    fn span_in(&self, tables: &BTreeSet<TableName>, rows: &KeyRange) -> Result<SpanInfo> {
        let mut sum = SpanInfo::default();
        for table in tables {
            match self.store().span(table, rows) {
                Ok(found) => sum = sum.and(found.unwrap_or_default()),
                // It was dropped meanwhile, or is not made yet.
                Err(error) if error.kind() == keyspan_storage::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(sum)
    }

    pub(super) async fn finish_drop(
        &self,
        tenant: &Tenant,
        dropped_by: &str,
        now_micros: i64,
    ) -> Result<Arc<DropCertificate>> {
        let contents = self.tenant_contents(tenant).await?;
        // All private tables and spare spaces are in one table of the store.
        let snapshot = self.snapshot();
        let dropped = snapshot.tables.values().filter(|table| table.is_dropped_with_tenant());
        let shared = dropped.map(|table| table.physical.clone()).collect::<Vec<_>>();
        for table in shared.into_iter().chain([private_table()]) {
            match self.store().drop_row_range(&table, span(&tenant.id)).await {
                // Another statement dropped the table meanwhile, and its rows with it; or no private table exists yet.
                Err(error) if error.kind() == keyspan_storage::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        self.drop_heat(&tenant.id).await?;
        let certificate = DropCertificate {
            oid: tenant.oid,
            tenant: tenant.id.clone(),
            dropped_by: dropped_by.to_owned(),
            tables: contents.tables,
            rows: contents.total.rows,
            bytes: contents.total.bytes,
            contents,
            dropped_micros: now_micros,
            purging_micros: None,
            purged_micros: None,
        };
        self.commit(|_| Ok(Edit::FinishDropTenant(certificate.clone()))).await?;
        Ok(Arc::new(certificate))
    }
}

/// The size of a table's rows and of their history, here or on its server.
async fn size_anywhere(rows: &TenantStore, table: &Table, pin: &Pin) -> Result<(SpanSize, Counted)> {
    if table.remote.is_none() {
        return Ok((rows.size_with_history(table, &KeyRange::all(), pin).await?, Counted::Exactly));
    }
    match rows.size_there(table, pin).await {
        // Others may have dropped it on its server, with all of its rows.
        Err(error) if is_gone(&error) => Ok(Default::default()),
        size => size,
    }
}

fn is_gone(error: &Error) -> bool {
    error.store().is_some_and(|error| error.kind() == keyspan_storage::ErrorKind::NotFound)
}
