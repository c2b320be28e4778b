//! Purge: removes the bytes of deleted rows.
//!
//! 0. End loads with rows in the ranges: their files hold rows that nobody will see.
//! 1. Flush: from then on the rows are dead in the manifest, and the log files, all of them begun before, are removed.
//! 2. Compact every tablet with a segment that is older than the purge and reaches into a range: dead rows are not
//!    rewritten. Then move tablet boundaries out of the ranges: they were keys of rows.
//! 3. Wait until no pin holds a segment that reaches into a range; pins that are too old expire. Then remove its files.
//! 4. Clear rows from caches, and check that only named files are left.
//!
//! A purge is not recorded: called again, it begins anew and finds less to do.

use super::{
    Engine, blocking, history,
    maintain::{CompactionRequest, Maintenance},
    manifest::Manifest,
    tablet::choose::Purge,
};
use crate::{KeyRange, PurgeReport, Result, TableName};
use std::{sync::Arc, time::Duration};

/// How often dropped pins are checked for.
const PINS_LOOK_EVERY: Duration = Duration::from_millis(100);

impl Engine {
    /// See [`Store::purge`](crate::Store::purge).
    pub(super) async fn purge_ranges(&self, ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        // A table's history goes along with it, even if the table was dropped while a pin holds its segments.
        let histories = ranges.iter().map(|(table, rows)| (table.history_table(), history::range(rows)));
        let ranges: Vec<(TableName, KeyRange)> = ranges.iter().cloned().chain(histories).collect();
        let keys: Arc<[KeyRange]> = ranges.iter().map(|(_, range)| range.clone()).collect();
        let before = self.removed_and_written();
        let (maintenance, of_loads) = (Arc::clone(&self.maintenance), ranges.clone());
        blocking(move || {
            maintenance.loads.end(&of_loads);
            Ok(())
        })
        .await?;
        self.flush().await?;
        let (maintenance, ranges) = (Arc::clone(&self.maintenance), ranges.to_vec());
        self.run_low_priority(move || {
            // Segments written by flushes and compactions from here on have none of the rows.
            let before = maintenance.segments_from_now_on();
            let purge =
                |(table, range): &(TableName, KeyRange)| (table.clone(), Purge { range: range.clone(), before });
            let purges: Vec<(TableName, Purge)> = ranges.iter().map(purge).collect();
            while maintenance.compact_next(&CompactionRequest { before: None, purges: &purges })? {}
            maintenance.move_boundaries(&ranges)
        })
        .await?;
        self.shared.rows.clear();
        self.while_held(move |maintenance, manifest| maintenance.files.are_held(manifest, &keys)).await?;
        // Reads in progress may have put rows back.
        self.shared.rows.clear();
        let after = self.removed_and_written();
        Ok(after.since(before))
    }

    /// See [`Store::purge_cells`](crate::Store::purge_cells). As [`purge_ranges`](Self::purge_ranges), but for cells of
    /// all rows of the tables: every older segment is rewritten, boundaries stay, and so do loads that know the tables
    /// as they are.
    pub(super) async fn purge_cells_of(&self, tables: &[TableName]) -> Result<PurgeReport> {
        let totals = self.removed_and_written();
        let maintenance = Arc::clone(&self.maintenance);
        blocking(move || {
            maintenance.loads.end_outdated(&maintenance.shared.published.load());
            Ok(())
        })
        .await?;
        self.flush().await?;
        let (maintenance, tables) = (Arc::clone(&self.maintenance), tables.to_vec());
        let before = self.run_low_priority(move || {
            let before = maintenance.segments_from_now_on();
            let purges: Vec<(TableName, Purge)> =
                tables.into_iter().map(|table| (table, Purge { range: KeyRange::all(), before })).collect();
            while maintenance.compact_next(&CompactionRequest { before: None, purges: &purges })? {}
            Ok(before)
        });
        let before = before.await?;
        self.shared.rows.clear();
        // Replaced segments of other tables are waited for too: there are ever fewer of them that are that old.
        self.while_held(move |maintenance, manifest| maintenance.files.has_unnamed_before(manifest, before)).await?;
        self.shared.rows.clear();
        Ok(self.removed_and_written().since(totals))
    }

    /// Waits while pins hold files; those that are too old expire.
    async fn while_held(
        &self,
        is_held: impl Fn(&Maintenance, &Manifest) -> bool + Send + Sync + 'static,
    ) -> Result<()> {
        let is_held = Arc::new(is_held);
        loop {
            let (maintenance, is_held) = (Arc::clone(&self.maintenance), Arc::clone(&is_held));
            let age_max_micros = self.pin_age_max_micros;
            let held = blocking(move || {
                let shared = &maintenance.shared;
                shared.pins.expire(shared.clock.now(), age_max_micros);
                maintenance.collect();
                Ok(is_held(&maintenance, &maintenance.manifest().manifest))
            });
            if !held.await? {
                return Ok(());
            }
            self.check_open()?;
            tokio::time::sleep(PINS_LOOK_EVERY).await;
        }
    }

    /// Totals of removed and written files since the store was opened.
    fn removed_and_written(&self) -> PurgeReport {
        let (files_deleted, bytes_deleted) = self.maintenance.files.removed();
        PurgeReport { files_deleted, bytes_deleted, bytes_written: self.maintenance.compactions.bytes_written() }
    }
}
