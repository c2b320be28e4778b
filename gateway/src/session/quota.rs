//! What a commit waits for, and whether its database may store more.
//!
//! How much a tenant stores is measured by reading its rows, and only for a tenant with a quota. Between two
//! measurements what it writes is added, deletions are not taken off: so a measurement is due when the sum has reached
//! the quota, and not before [`MEASURE_PAUSE`] is over since the last one.

use super::Session;
use crate::{
    pg::error::Result,
    resources::Held,
    shares::{CommitTurn, Share, Stored, errors},
    write_set::WriteSet,
};
use std::{sync::Arc, time::Duration};

/// The least time between two measurements of a tenant.
const MEASURE_PAUSE: Duration = Duration::from_secs(1);

/// The commit of a statement by itself, under way: what it holds, and what is counted when it is done.
#[derive(Debug)]
pub(crate) struct OwnCommit {
    turn: CommitTurn,
    held: Held,
    share: Arc<Share>,
    /// The rows that it writes.
    pub(crate) rows: usize,
    bytes: u64,
}

impl OwnCommit {
    /// Gives up what it holds, and counts what was written.
    pub(crate) fn done(self) {
        drop((self.turn, self.held));
        self.share.count_written(self.rows as u64, self.bytes);
    }
}

impl Session {
    /// Waits for the turn of a commit. Rows that are not `new` take the place of others: neither they nor their keys
    /// are counted as stored.
    ///
    /// # Errors
    /// Those of quotas.
    pub(crate) async fn own_commit(&self, written: &mut WriteSet, new: bool) -> Result<OwnCommit> {
        let held = std::mem::take(&mut written.held);
        let rows = written.row_count();
        let (bytes, added) = written.written_bytes();
        let turn = self.commit_turn(bytes, if new { added } else { 0 }).await?;
        if new {
            for (table, rows) in written.rows.values() {
                self.count_keys(table, rows.iter().map(|(key, mutations)| (key, mutations.as_slice())));
            }
        }
        Ok(OwnCommit { turn, held, share: self.share.clone(), rows, bytes })
    }

    /// Waits for the turn of a commit of this many bytes, of which some are added to what is stored.
    ///
    /// # Errors
    /// 53100 when the database would store more than it may, 53400 when it writes more than its rate.
    pub(crate) async fn commit_turn(&self, bytes: u64, added: u64) -> Result<CommitTurn> {
        if added > 0 {
            self.check_stored(added).await?;
        }
        self.share.commit_turn(bytes).await
    }

    async fn check_stored(&self, added: u64) -> Result<()> {
        let quotas = self.share.quotas();
        let Some(most) = quotas.stored_bytes_max else { return Ok(()) };
        let known = self.share.stored();
        let fits = |stored: Stored| stored.bytes.saturating_add(added) <= most;
        if known.is_some_and(fits) {
            self.share.add_stored(added);
            return Ok(());
        }
        let stored = match known {
            Some(stored) if stored.measured.elapsed() < MEASURE_PAUSE => stored,
            _ => self.measure().await?,
        };
        if fits(stored) {
            self.share.add_stored(added);
            return Ok(());
        }
        self.share.refuse(&quotas, || errors::stored(most, stored.bytes))
    }

    async fn measure(&self) -> Result<Stored> {
        let bytes = match self.identity.rows.tenant() {
            Some(tenant) => self.instance.catalog.tenant_size(tenant).await?.total().bytes,
            None => 0,
        };
        Ok(self.share.set_stored(bytes))
    }
}
