//! The effect of compaction on a store, and its termination.

use super::*;
use crate::{
    ColumnKind, KeyRange, RowSet,
    columnar::{ColumnarRequest, RequestedColumn},
    engine::{blocking, maintain::CompactionRequest, tablet::choose::GARBAGE_PAUSE_MICROS},
    store::{RowMutation, Write},
};

/// A clock that stands still, and an engine on it, which compacts only on request.
async fn still(fs: &SimFs, now_micros: i64, gc: GcRule) -> (Arc<ManualClock>, Arc<Engine>) {
    let clock = Arc::new(ManualClock::new(now_micros));
    let options = EngineOptions { clock: Box::new(clock.clone()), compacts: false, ..simulated(fs) };
    let engine = Engine::open(options).await.unwrap();
    if engine.tables().await.unwrap().is_empty() {
        engine.create_table(&table(), schema(gc)).await.unwrap();
    }
    (clock, engine)
}

/// Runs compactions until none is needed, at most `most`; returns their number.
async fn compactions(engine: &Arc<Engine>, most: usize) -> usize {
    let engine = engine.clone();
    let counted = blocking(move || {
        Ok((0..most).take_while(|_| engine.maintenance.compact_next(&CompactionRequest::default()).unwrap()).count())
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
    // The last microsecond of the cell's life.
    clock.set(begun + AGE_MICROS);
    assert_eq!(compactions(&engine, 5).await, 1);
    assert_eq!(engine.inspection().segments.iter().map(|segment| segment.rows).sum::<u64>(), 1);
    // Later it is garbage, and found again.
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

/// A flush has put its segments in force, and the store is closed before they are installed: a later compaction must
/// not put a manifest in force without them.
#[tokio::test]
async fn a_compaction_while_the_store_is_closed_keeps_what_the_last_flush_wrote() {
    let fs = SimFs::new();
    let (_, engine) = still(&fs, 1_000_000, GcRule::KeepAll).await;
    for row in ["a", "b"] {
        engine.commit(put(row, "1")).await.unwrap();
        engine.flush().await.unwrap();
    }
    let segments = fs.hold_syncs_in(&Path::new(PATH).join("seg"));
    let compaction = {
        let engine = engine.clone();
        std::thread::spawn(move || {
            let before = engine.maintenance.segments_from_now_on();
            engine.maintenance.compact_next(&CompactionRequest { before: Some((None, before)), purges: &[] })
        })
    };
    while !segments.has_met() {
        tokio::task::yield_now().await;
    }
    engine.commit(put("c", "1")).await.unwrap();
    let flush = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.flush().await })
    };
    // The flush holds the manifest as soon as it runs.
    while !engine.shared.coordination.is_flushing() {
        tokio::task::yield_now().await;
    }
    let manifest = fs.hold_syncs_in(&Path::new(PATH).join("manifest"));
    let is_written = || engine.inspection().compactions.last().is_some_and(|compaction| compaction.bytes_written > 0);
    while !(manifest.has_met() && is_written()) {
        tokio::task::yield_now().await;
    }
    let closing = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.close().await })
    };
    while !engine.shared.coordination.is_closed() {
        tokio::task::yield_now().await;
    }
    drop(manifest);
    closing.await.unwrap().unwrap();
    let _ = (compaction.join().unwrap(), flush.await.unwrap());
    drop((engine, segments));
    let engine = Engine::open(simulated(&fs)).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, ["a", "b", "c"].map(|row| (row.to_owned(), "1".to_owned())));
}

/// Many SQL tables in one table of the store, each with its own column: none is frequent among all rows, and the first
/// rows have only one of them.
#[tokio::test]
async fn flushes_and_compactions_have_columns_for_every_stretch_of_keys() {
    const STRETCHES: usize = 24;
    // More than the sample of a flush.
    const ROWS: usize = 400;
    let (_, engine) = still(&SimFs::new(), 1_000_000, GcRule::KeepAll).await;
    let family = FamilyName::new("f").unwrap();
    let qualifier = |stretch: usize| Bytes::from(format!("q{stretch:02}"));
    let part_rows = |stretch: usize| {
        let column = RequestedColumn {
            family: family.clone(),
            qualifier: qualifier(stretch),
            kind: ColumnKind::Binary,
            accepts: None,
            or_bytes: false,
        };
        let rows = RowSet::new([KeyRange::prefix(format!("{stretch:02}"))]);
        let request = ColumnarRequest {
            rows,
            span: KeyRange::all(),
            columns: vec![column],
            key: None,
            or_row_key: false,
            pin: None,
        };
        let found = Store::columnar(engine.as_ref()).unwrap().columnar(&table(), request).unwrap();
        assert!(found.memory.is_empty());
        found.parts.iter().map(|part| part.rows).sum::<u64>()
    };
    let all = |rows: usize| vec![rows as u64; STRETCHES];
    for half in 0..2 {
        for stretch in 0..STRETCHES {
            let rows = (half * ROWS / 2..(half + 1) * ROWS / 2).map(|row| {
                let value = Mutation::SetCell {
                    family: family.clone(),
                    qualifier: qualifier(stretch),
                    timestamp: None,
                    value: vec![b'v'; 8].into(),
                };
                let row = RowMutation { key: key(&format!("{stretch:02}{row:04}")), mutations: vec![value] };
                Write::Row { table: table(), row }
            });
            engine.commit(Commit { writes: rows.collect(), validation: None }).await.unwrap();
        }
        engine.flush().await.unwrap();
        assert_eq!((0..STRETCHES).map(part_rows).collect::<Vec<_>>(), all((half + 1) * ROWS / 2));
    }
    engine.compact(None).await.unwrap();
    assert_eq!(engine.inspection().segments.len(), 1);
    assert_eq!((0..STRETCHES).map(part_rows).collect::<Vec<_>>(), all(ROWS));
}
