//! The store over Google's emulator of Bigtable, which `.ci/bigtable` installs and starts: the conformance suite, and
//! what the suite does not know of: guards, and a network that fails.
//!
//! Cases of the suite that are left out are named or counted here, so that none is lost unseen.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod differential;
mod guards;
#[allow(dead_code, reason = "the tests of the gateway use all of it")]
mod proxy;

use keyspan_bigtable::{BigtableStore, Settings};
use keyspan_storage::{
    Clock, SystemClock,
    clock::ManualClock,
    testing::{
        Subject,
        coarse::{Coarse, CoarseClock},
        conformance::{cases, conformance_without},
    },
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// What fails for other reasons than the store's.
const FAULTS: [&str; 3] = [
    // The emulator replaces the cells of families of minima and maxima, where Bigtable merges.
    "aggregates::numbers_merge",
    // A case's day is a thousand days of the store, and the store's bound is a day.
    "mutations::deletes_take_newer_timestamps_too",
    "time::semantics_2_client_timestamps_are_bounded",
];

/// The settings of an instance of its own.
fn instance() -> Settings {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let host = std::env::var("BIGTABLE_EMULATOR_HOST").expect("BIGTABLE_EMULATOR_HOST: run .ci/bigtable");
    let name = format!("i{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
    Settings::emulator(&host, "p", &name)
}

/// A store for a case of the suite, on the suite's clock.
async fn subject() -> Subject {
    let zero_micros = SystemClock.now_micros() / 1_000 * 1_000;
    let case = Arc::new(ManualClock::new(0));
    let clock = CoarseClock { case: case.clone(), zero_micros };
    let store = BigtableStore::new(instance(), Box::new(clock)).unwrap();
    Subject::new(Arc::new(Coarse::new(Arc::new(store), zero_micros)), case)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_conforms() {
    let left_out = conformance_without(&FAULTS, subject).await;
    let ran = cases() - left_out.len();
    assert_eq!((ran, left_out.len()), (59, 18), "{left_out:?}");
}
