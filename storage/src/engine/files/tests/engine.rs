//! Copies of a store that an engine has open.

use super::{SOURCE, TARGET, check, files};
use crate::{
    Commit, Family, FamilyName, Mutation, RowKey, Scan, Store, StoreExt, TableName, TableSchema,
    clock::ManualClock,
    engine::{Engine, EngineOptions},
    testing::sim::SimFs,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Small sizes, for many flushes and log files.
fn options(fs: &SimFs, path: &str) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        clock: Box::new(ManualClock::new(1_000_000)),
        memtable_bytes: Some(64 << 10),
        log_file_bytes: 16 << 10,
        ..EngineOptions::new(path)
    }
}

fn table() -> TableName {
    TableName::new("t").unwrap()
}

/// The key of a row: rows that follow each other in time are not neighbours in the table.
fn key(row: usize) -> String {
    format!("{:02}-{row:06}", row * 7 % 100)
}

/// Writes rows of about a kilobyte, one commit after the other, and counts acknowledged ones.
async fn write(engine: &Engine, rows: std::ops::Range<usize>, acknowledged: &AtomicUsize) {
    for row in rows {
        let cell = Mutation::SetCell {
            family: FamilyName::new("f").unwrap(),
            qualifier: "q".into(),
            timestamp: None,
            value: vec![b'v'; 1_000].into(),
        };
        let commit = Commit::row(table(), RowKey::new(key(row)).unwrap(), vec![cell]);
        engine.commit(commit).await.unwrap();
        acknowledged.store(row + 1, Ordering::SeqCst);
    }
}

/// The rows of a store, which is checked, opened and closed again.
async fn rows(fs: &SimFs, path: &str) -> BTreeSet<String> {
    let (checked, found) = check(&files(fs, path));
    assert_eq!(found, [""; 0]);
    assert!(checked.segment_rows > 0, "there are segments");
    let engine = Engine::open(options(fs, path)).await.unwrap();
    let rows = engine.read_rows(&table(), Scan::all()).await.unwrap();
    engine.close().await.unwrap();
    rows.iter().map(|row| String::from_utf8(row.key.to_vec()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_copied_while_it_is_written() {
    let fs = SimFs::new();
    let engine = Engine::open(options(&fs, SOURCE)).await.unwrap();
    let families = [(FamilyName::new("f").unwrap(), Family::default())];
    engine.create_table(&table(), TableSchema::of(families)).await.unwrap();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    write(&engine, 0..600, &acknowledged).await;
    for copy in 0..3 {
        let target = format!("{TARGET}{copy}");
        let before = acknowledged.load(Ordering::SeqCst);
        let (source, copied) = (files(&fs, SOURCE), files(&fs, &target));
        let copying = tokio::task::spawn_blocking(move || source.copy_to(&copied, &mut |_| {}));
        write(&engine, before..before + 400, &acknowledged).await;
        copying.await.unwrap().unwrap();
        // A prefix of the rows, which includes those that were there before.
        let found = rows(&fs, &target).await;
        assert!(found.len() >= before, "{} of {before}", found.len());
        assert_eq!(found, (0..found.len()).map(key).collect());
    }
    engine.close().await.unwrap();
    assert_eq!(rows(&fs, SOURCE).await, (0..1_800).map(key).collect());
}
