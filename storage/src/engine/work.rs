//! What an engine has done since its start, counted where it is done.
//!
//! Relaxed counters: each is exact, but no two are of the same moment.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) commits: AtomicU64,
    pub(crate) log_writes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) log_nanos: AtomicU64,
    pub(crate) flushes: AtomicU64,
}

impl Work {
    /// Counts a group of commits that the log has taken.
    pub(crate) fn logged(&self, commits: u64, bytes: u64, took: Duration) {
        self.commits.fetch_add(commits, Ordering::Relaxed);
        self.log_writes.fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log_nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}
