//! What memory and disk are used for: the rows of `keyspan.memory`, and the console's.

use super::{Resources, process_bytes};
use keyspan_storage::inspect::Inspection;

/// A use of memory or of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) name: &'static str,
    pub(crate) bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
}

impl Resources {
    /// All uses; those of the store if it tells them.
    pub(crate) fn areas(&self, inside: Option<&Inspection>) -> Vec<Area> {
        let of = |name, bytes, limit_bytes| Area { name, bytes, limit_bytes };
        let mut areas = Vec::new();
        if let Some((now, peak)) = process_bytes() {
            areas.push(of("process", now, None));
            areas.push(of("process, at most so far", peak, None));
        }
        areas.push(of("queries", self.query_bytes(), Some(self.memory.query_bytes)));
        areas.push(of("sessions", self.sessions.reserved() as u64, Some(self.memory.session_bytes())));
        if let Some(inside) = inside {
            let (memory, budget) = (&inside.memory, self.memory.budget());
            areas.push(of("store: memtable", memory.memtable_bytes, Some(budget.memtable_bytes)));
            areas.push(of("store: memtable being flushed", memory.frozen_bytes, Some(budget.memtable_bytes)));
            areas.push(of("store: row cache", memory.row_cache_bytes, Some(budget.row_cache_bytes)));
            areas.push(of("store: page cache", memory.page_cache_bytes, Some(budget.page_cache_bytes)));
            areas.push(of("store: footer cache", memory.footer_cache_bytes, Some(budget.footer_cache_bytes)));
            areas.push(of("disk: log", memory.log_bytes, None));
        }
        let (temporary, limit) = self.temp_bytes();
        areas.push(of("disk: temporary files", temporary, Some(limit)));
        areas
    }
}
