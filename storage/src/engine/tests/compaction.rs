//! What compaction makes of a store, and that it comes to an end.

use super::*;
use crate::engine::{blocking, maintain::Asked, tablet::choose::GARBAGE_PAUSE_MICROS};

/// A clock that stands still, and the engine by it, which compacts when it is asked to.
async fn still(fs: &SimFs, now_micros: i64, gc: GcRule) -> (Arc<ManualClock>, Arc<Engine>) {
    let clock = Arc::new(ManualClock::new(now_micros));
    let options = EngineOptions { clock: Box::new(clock.clone()), compacts: false, ..simulated(fs) };
    let engine = Engine::open(options).await.unwrap();
    if engine.tables().await.unwrap().is_empty() {
        engine.create_table(&table(), schema(gc)).await.unwrap();
    }
    (clock, engine)
}

/// How many compactions follow each other, at most `most`.
async fn compactions(engine: &Arc<Engine>, most: usize) -> usize {
    let engine = engine.clone();
    let counted = blocking(move || {
        Ok((0..most).take_while(|_| engine.maintenance.compact_next(&Asked::default()).unwrap()).count())
    });
    counted.await.unwrap()
}

#[tokio::test]
async fn garbage_that_is_not_there_yet_is_looked_for_once() {
    const AGE_MICROS: i64 = 2 * GARBAGE_PAUSE_MICROS;
    let begun = 1_000_000;
    let (clock, engine) = still(&SimFs::new(), begun, GcRule::MaxAgeMicros(AGE_MICROS)).await;
    let cell = |timestamp| Mutation::SetCell {
        family: FamilyName::new("f").unwrap(),
        qualifier: Bytes::from_static(b"q"),
        timestamp: Some(timestamp),
        value: Bytes::new(),
    };
    engine.commit(Commit::row(table(), key("row"), vec![cell(begun)])).await.unwrap();
    engine.flush().await.unwrap();
    assert_eq!(compactions(&engine, 5).await, 0);
    // The very last moment of the cell's life.
    clock.set(begun + AGE_MICROS);
    assert_eq!(compactions(&engine, 5).await, 1);
    assert_eq!(engine.inspection().segments.iter().map(|segment| segment.rows).sum::<u64>(), 1);
    // Later it is garbage, and looked for again.
    clock.advance(GARBAGE_PAUSE_MICROS + 10);
    assert_eq!(compactions(&engine, 5).await, 1);
    assert!(engine.inspection().segments.is_empty());
}

#[tokio::test]
async fn what_is_asked_for_ends_though_nobody_writes() {
    let (_, engine) = still(&SimFs::new(), 1_000_000, GcRule::KeepAll).await;
    engine.commit(put("a", "1")).await.unwrap();
    for _ in 0..3 {
        engine.compact(None).await.unwrap();
    }
    assert_eq!(engine.inspection().compactions.len(), 1);
}
