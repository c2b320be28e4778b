//! The purge of erasures: removing cells and rows that are already invisible from the store's files.
//!
//! ```text
//! pending ─► Begin ─► Store::purge_cells, Store::purge ─► Clear ─► Store::purge of the catalog's rows ─► Finish
//! ```
//!
//! Each step is an edit, and after a crash the interrupted step is repeated. `Clear` takes columns off the list of
//! hidden ones, since no file has their cells any more, and key prefixes out of the catalog; what the catalog's table
//! held before goes with the second purge.

use super::{Catalog, purges::PURGE_BATCH_MAX, rows};
use crate::{
    Edit, Erasure, Result, TenantId,
    erasure::{ErasureStep, Target},
    private::{private_table, space_span},
};
use keyspan_storage::{Clock, ErrorKind, KeyRange, PurgeReport, TableName};
use std::{collections::BTreeSet, sync::Arc};

impl Catalog {
    /// Purges some erasures that are pending; `None` when there are none. May take long.
    ///
    /// # Errors
    /// The store's: [`Unsupported`](keyspan_storage::ErrorKind::Unsupported) if it cannot guarantee a purge. The purge
    /// is not complete then, and can be repeated.
    pub async fn purge_erasures(&self, clock: &dyn Clock) -> Result<Option<PurgeReport>> {
        let mut pending = self.snapshot().pending_erasures();
        pending.truncate(PURGE_BATCH_MAX);
        if pending.is_empty() {
            return Ok(None);
        }
        let numbers: Vec<(Option<TenantId>, u64)> =
            pending.iter().map(|(tenant, number, _)| (tenant.clone(), *number)).collect();
        let step = async |step| self.commit(|_| Ok(Edit::StepErasures(numbers.clone(), step))).await;
        if pending.iter().any(|(_, _, erasure)| erasure.purging_micros.is_none()) {
            step(ErasureStep::Begin(clock.now_micros())).await?;
        }
        let mut report = PurgeReport::default();
        let tables: BTreeSet<TableName> = pending.iter().filter_map(|(.., erasure)| cells_of(erasure)).collect();
        if !tables.is_empty() {
            add(&mut report, self.store().purge_cells(&tables.into_iter().collect::<Vec<_>>()).await?);
        }
        let mut ranges = Vec::new();
        for (tenant, _, erasure) in &pending {
            self.delete_space(tenant.as_ref(), erasure).await?;
            let of_rows = ranges_of(tenant.as_ref(), erasure);
            // The heat of a tenant's keys tells keys of its rows.
            if let Some(tenant) = tenant.as_ref().filter(|_| !of_rows.is_empty()) {
                ranges.push(self.drop_heat(tenant).await?);
            }
            ranges.extend(of_rows);
        }
        if !ranges.is_empty() {
            add(&mut report, self.store().purge(&ranges).await?);
        }
        step(ErasureStep::Clear).await?;
        let orders = rows::erasures().map(|prefix| (rows::catalog_table(), KeyRange::prefix(prefix)));
        add(&mut report, self.store().purge(&orders).await?);
        step(ErasureStep::Finish(clock.now_micros())).await?;
        Ok(Some(report))
    }

    /// Deletes the rows of a space, if the edit that took it from its table could not. No table gets the space again.
    async fn delete_space(&self, tenant: Option<&TenantId>, erasure: &Erasure) -> Result<()> {
        let (Some(tenant), Target::Space(space)) = (tenant, &erasure.target) else { return Ok(()) };
        match self.store().drop_row_range(&private_table(), space_span(tenant, *space)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => Ok(other?),
        }
    }
}

fn cells_of(erasure: &Arc<Erasure>) -> Option<TableName> {
    match &erasure.target {
        Target::Cells { physical, .. } => Some(physical.clone()),
        _ => None,
    }
}

fn ranges_of(tenant: Option<&TenantId>, erasure: &Erasure) -> Vec<(TableName, KeyRange)> {
    match (&erasure.target, tenant) {
        (Target::Rows { physical, prefixes }, _) => {
            prefixes.iter().map(|prefix| (physical.clone(), KeyRange::prefix(prefix.clone()))).collect()
        }
        (Target::Space(space), Some(tenant)) => {
            vec![(private_table(), KeyRange::prefix(space_span(tenant, *space)))]
        }
        _ => Vec::new(),
    }
}

fn add(report: &mut PurgeReport, more: PurgeReport) {
    report.files_deleted += more.files_deleted;
    report.bytes_deleted += more.bytes_deleted;
    report.bytes_written += more.bytes_written;
}
