//! The conformance suite over the memory store.

use super::MemoryStore;
use crate::{
    clock::ManualClock,
    testing::{Subject, conformance::conformance},
};
use std::sync::Arc;

fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    Subject::new(Arc::new(MemoryStore::new(Box::new(clock.clone()))), clock)
}

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance(|| async { subject() }).await;
}
