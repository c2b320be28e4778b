//! The conformance suite over the memory store.

use super::MemoryStore;
use crate::{
    clock::ManualClock,
    testing::{
        Subject,
        arbitrary::{Operation, operations_with_history},
        conformance::{conformance, conformance_of_history},
        differential::differential,
    },
};
use proptest::prelude::*;
use std::sync::Arc;

fn subject() -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    Subject::new(Arc::new(MemoryStore::new(Box::new(clock.clone()))), clock)
}

#[tokio::test]
async fn the_memory_store_conforms() {
    conformance(|| async { subject() }).await;
}

#[tokio::test]
async fn the_memory_store_keeps_history() {
    conformance_of_history(|| async { subject() }).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tests not the store, but that the operations run, and that the differential test is deterministic.
    #[test]
    fn two_memory_stores_agree(mut operations in operations_with_history()) {
        operations.retain(|operation| !matches!(operation, Operation::Maintain(_)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(differential(subject(), subject(), operations, async |_, _| {
            unreachable!("a memory store keeps no files")
        }));
    }
}
