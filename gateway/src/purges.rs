//! What sessions and the background task share about the purge of dropped tenants ([`purge`](crate::purge)).

use crate::lock::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Wakes the background task, and keeps its last error.
#[derive(Debug, Default)]
pub struct Purges {
    pub(crate) requested: Notify,
    error: Mutex<Option<String>>,
}

impl Purges {
    /// Wakes the background task, since a tenant was dropped.
    pub fn wake(&self) {
        self.requested.notify_one();
    }

    /// The error of the last attempt; `None` if it succeeded or there was nothing to purge.
    pub fn error(&self) -> Option<String> {
        self.lock().clone()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock()
    }
}
