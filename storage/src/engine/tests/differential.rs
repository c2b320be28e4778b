//! Random operations on the engine and on the memory store, with flushes, compactions, kills and crashes in between;
//! rows are read one by one and by the fast path.

use super::{machine::Machine, *};
use crate::{
    memory::MemoryStore,
    testing::{
        Subject,
        arbitrary::{Maintenance, NewRow, Operation, operations, operations_with_history},
        differential::differential,
    },
};
use proptest::prelude::*;

pub(super) fn oracle() -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    Subject::new(Arc::new(MemoryStore::new(Box::new(clock.clone()))), clock)
}

pub(super) fn agree(options: fn(&SimFs) -> EngineOptions, operations: Vec<Operation>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut machine = Machine::new(options);
        let subject = machine.subject().await;
        differential(oracle(), subject, operations, async |subject, maintenance| {
            machine.maintain(subject, maintenance).await
        })
        .await;
    });
}

/// `PROPTEST_CASES` cases, by default 96.
fn config() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(96),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_engine_agrees_with_the_memory_store(operations in operations()) {
        agree(simulated, operations);
    }

    #[test]
    fn the_engine_agrees_when_all_is_tiny(operations in operations()) {
        agree(tiny, operations);
    }

    #[test]
    fn the_engine_agrees_on_what_was(operations in operations_with_history()) {
        agree(tiny, operations);
    }
}

/// A load that skips existing rows counts only the new ones: a purge of a range with one that it skipped does not end
/// it.
#[test]
fn a_purge_of_rows_that_a_load_was_not_given_does_not_end_it() {
    let row = |key: &'static str| -> NewRow { (RowKey::new(key).unwrap(), vec![None, None, None, Some(Bytes::new())]) };
    for others in [vec![], vec![row("k00")], vec![row("Z"), row("k00")]] {
        let again = [row("a\0")].into_iter().chain(others).collect();
        let operations = vec![
            Operation::BeginLoad(vec![row("a\0")], false),
            Operation::FinishLoad,
            Operation::BeginLoad(again, true),
            Operation::Maintain(Maintenance::Purge("a")),
            Operation::FinishLoad,
            Operation::Read(Scan::all(), None),
        ];
        agree(simulated, operations.clone());
        agree(tiny, operations);
    }
}
