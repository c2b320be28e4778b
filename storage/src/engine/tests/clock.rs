//! A wall clock that is wrong: what it must not do to rows with an age.

use super::*;
use crate::clock::{Clock, WrongClock};
use rand::{Rng, SeedableRng, rngs::StdRng};

const DAY: i64 = 86_400_000_000;
/// The rule of the family.
const AGE_MAX: i64 = 50 * DAY;
/// Rows younger than this must be there: less than the rule, by what a store may lag that was closed while its clock
/// was held.
const YOUNG: i64 = 40 * DAY;

async fn opened(fs: &SimFs, clock: &Arc<WrongClock>) -> Arc<Engine> {
    Engine::open(EngineOptions { clock: Box::new(clock.clone()), ..tiny(fs) }).await.unwrap()
}

fn keys(rows: &[Row]) -> Vec<RowKey> {
    rows.iter().map(|row| row.key.clone()).collect()
}

#[tokio::test]
async fn a_wall_clock_that_is_ahead_for_a_moment_condemns_nothing() {
    let (fs, clock) = (SimFs::new(), Arc::new(WrongClock::default()));
    clock.true_time.set(1_000 * DAY);
    let engine = opened(&fs, &clock).await;
    engine.create_table(&table(), schema(GcRule::MaxAgeMicros(AGE_MAX))).await.unwrap();
    engine.commit(put("before", "v")).await.unwrap();
    clock.ahead.set(400 * DAY);
    let stamp = engine.commit(put("during", "v")).await.unwrap();
    assert!(stamp < 1_001 * DAY && engine.clock().unwrap().is_held);
    engine.compact(None).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 2);
    engine.close().await.unwrap();
    // It is ahead still, and then right.
    let engine = opened(&fs, &clock).await;
    assert_eq!(rows(engine.as_ref()).await.len(), 2);
    clock.ahead.set(0);
    engine.commit(put("after", "v")).await.unwrap();
    engine.compact(None).await.unwrap();
    assert_eq!((rows(engine.as_ref()).await.len(), engine.clock().unwrap().is_held), (3, false));
    // It is what an operator confirms that makes them old.
    clock.ahead.set(400 * DAY);
    assert_eq!(rows(engine.as_ref()).await.len(), 3);
    assert_eq!(engine.confirm_clock().unwrap().store_micros, 1_400 * DAY);
    assert!(rows(engine.as_ref()).await.is_empty());
}

/// Seeds of random lives of a store: its wall clock is right, far ahead or behind, it is closed and opened, written,
/// compacted and read. No row that is young by the true time is ever missing.
#[tokio::test]
async fn no_life_with_a_wrong_clock_loses_a_young_row() {
    for seed in 0..8 {
        let mut random = StdRng::seed_from_u64(seed);
        let (fs, clock) = (SimFs::new(), Arc::new(WrongClock::default()));
        clock.true_time.set(1_000 * DAY);
        let mut engine = opened(&fs, &clock).await;
        engine.create_table(&table(), schema(GcRule::MaxAgeMicros(AGE_MAX))).await.unwrap();
        let mut written: Vec<(i64, RowKey)> = Vec::new();
        // Time that passes while the store is closed and its clock is wrong is lost to it.
        let mut closed = 0;
        for step in 0..80 {
            clock.true_time.advance(random.random_range(1..DAY));
            match random.random_range(0..12) {
                0 => clock.ahead.set(random.random_range(100 * DAY..2_000 * DAY)),
                1 => clock.ahead.set(-random.random_range(1..500 * DAY)),
                2 | 3 => clock.ahead.set(0),
                4 if closed < YOUNG / 5 => {
                    engine.close().await.unwrap();
                    let pause = random.random_range(1..DAY);
                    clock.true_time.advance(pause);
                    closed += pause;
                    engine = opened(&fs, &clock).await;
                }
                5 => engine.compact(None).await.unwrap(),
                6 => drop(engine.pin().await.unwrap()),
                _ => {
                    let row = format!("row {step:03}");
                    engine.commit(put(&row, "v")).await.unwrap();
                    written.push((clock.true_time.now_micros(), key(&row)));
                }
            }
            let now = clock.true_time.now_micros();
            let there = keys(&rows(engine.as_ref()).await);
            for (at, key) in written.iter().filter(|(at, _)| now - at < YOUNG) {
                assert!(there.contains(key), "seed {seed}, step {step}: {key:?} of {} days ago", (now - at) / DAY);
            }
        }
    }
}
