//! The conformance suite over the engine.

use super::*;
use crate::testing::{
    Subject,
    conformance::{conformance, conformance_of_history},
};

/// An engine on a clock that the suite controls, with a guard of the same lifetime.
async fn subject(options: EngineOptions, guard: Box<dyn std::any::Any + Send + Sync>) -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    let store = Engine::open(EngineOptions { clock: Box::new(clock.clone()), ..options }).await.unwrap();
    Subject { guard, ..Subject::new(store, clock) }
}

#[tokio::test]
async fn the_engine_conforms_on_a_real_folder() {
    conformance(|| async {
        let folder = tempfile::tempdir().unwrap();
        subject(EngineOptions::new(folder.path()), Box::new(folder)).await
    })
    .await;
}

#[tokio::test]
async fn the_engine_conforms_on_the_simulated_file_system() {
    conformance(|| async { subject(simulated(&SimFs::new()), Box::new(())).await }).await;
}

#[tokio::test]
async fn the_engine_keeps_history() {
    conformance_of_history(|| async { subject(simulated(&SimFs::new()), Box::new(())).await }).await;
}
