//! Random operations on the engine and on the memory store, with reopenings between.

use super::*;
use crate::{
    memory::MemoryStore,
    testing::{Subject, arbitrary::operations, differential::differential},
};
use proptest::prelude::*;

async fn open(fs: &SimFs, clock: Arc<ManualClock>) -> Subject {
    let options = EngineOptions { clock: Box::new(clock.clone()), ..simulated(fs) };
    Subject::new(Engine::open(options).await.unwrap(), clock)
}

fn oracle() -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    Subject::new(Arc::new(MemoryStore::new(Box::new(clock.clone()))), clock)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_engine_agrees_with_the_memory_store(operations in operations()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fs = SimFs::new();
            let subject = open(&fs, Arc::new(ManualClock::new(0))).await;
            let reopen = async |closed: Subject| {
                let clock = closed.clock.clone();
                drop(closed);
                open(&fs, clock).await
            };
            differential(oracle(), subject, operations, reopen).await;
        });
    }
}
