//! Futures that a stop of the statement does not give up: commits, whose outcome would be unknown.
//!
//! A connection counts them for its running statement ([`SHIELDS`]); cancel requests, timeouts and shutdowns wait until
//! none is left. Below every room that commits, so that none of them imports the server.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

tokio::task_local! {
    /// How many shielded futures of the running statement are under way.
    pub(crate) static SHIELDS: Arc<AtomicUsize>;
}

/// Runs a future that a stop of the statement does not give up: a commit. Outside of a connection it just runs.
pub async fn shielded<F: Future>(future: F) -> F::Output {
    struct Shield(Option<Arc<AtomicUsize>>);
    impl Drop for Shield {
        fn drop(&mut self) {
            if let Some(count) = &self.0 {
                count.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
    let shields = SHIELDS.try_with(Arc::clone).ok();
    if let Some(count) = &shields {
        count.fetch_add(1, Ordering::SeqCst);
    }
    let _shield = Shield(shields);
    future.await
}
