//! State of the purge of dropped tenants, shared by sessions and the background task ([`purge`](crate::purge)).

use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// What sessions and the background share of the purge.
#[derive(Debug, Default)]
pub struct Purges {
    pub(crate) wanted: Notify,
    error: Mutex<Option<String>>,
}

impl Purges {
    /// Tells the background that something was dropped.
    pub fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Why the last try failed; `None` when it did not, or nothing was to be purged.
    pub fn error(&self) -> Option<String> {
        self.lock().clone()
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        // A text that is replaced whole is whole.
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
