//! Stores that are read while their engine writes them.

use crate::{
    Commit, Error, Family, FamilyName, Mutation, RowKey, Scan, Store, StoreExt, SystemClock, TableName, TableSchema,
    engine::{Engine, EngineOptions, ReadOnlyStore},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn key(row: usize) -> String {
    format!("{:02}-{row:06}", row * 7 % 100)
}

fn options(path: &Path) -> EngineOptions {
    EngineOptions { memtable_bytes: Some(64 << 10), log_file_bytes: 16 << 10, ..EngineOptions::new(path) }
}

async fn write(engine: &Engine, rows: std::ops::Range<usize>, acknowledged: &AtomicUsize) {
    for row in rows {
        let (family, value) = (FamilyName::new("f").unwrap(), vec![b'v'; 1_000].into());
        let cell = Mutation::SetCell { family, qualifier: "q".into(), timestamp: None, value };
        engine.commit(Commit::row(table(), RowKey::new(key(row)).unwrap(), vec![cell])).await.unwrap();
        acknowledged.store(row + 1, Ordering::SeqCst);
    }
}

async fn opened(path: &Path) -> Arc<ReadOnlyStore> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(|| ReadOnlyStore::open(path, None, Box::new(SystemClock)));
    opened.await.unwrap().unwrap()
}

async fn keys(store: &dyn Store) -> BTreeSet<String> {
    let rows = store.read_rows(&table(), Scan::all()).await.unwrap();
    rows.iter().map(|row| String::from_utf8(row.key.to_vec()).unwrap()).collect()
}

/// Names and bytes of all files.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(content(&path)),
            false => _ = all.insert(path.display().to_string(), std::fs::read(&path).unwrap()),
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_read_while_it_is_written_and_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(options(folder.path())).await.unwrap();
    let families = [(FamilyName::new("f").unwrap(), Family::default())];
    engine.create_table(&table(), TableSchema::of(families)).await.unwrap();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    write(&engine, 0..400, &acknowledged).await;
    let mut stores = Vec::new();
    for _ in 0..3 {
        let before = acknowledged.load(Ordering::SeqCst);
        let path = folder.path().to_owned();
        let opening = tokio::spawn(async move { opened(&path).await });
        write(&engine, before..before + 300, &acknowledged).await;
        let store = opening.await.unwrap();
        let found = keys(store.as_ref()).await;
        // A prefix of the rows, which includes those that were there before.
        assert!(found.len() >= before, "{} of {before}", found.len());
        assert_eq!(found, (0..found.len()).map(key).collect());
        stores.push((store, found));
    }
    // Its files go, what was opened stays.
    engine.compact(None).await.unwrap();
    engine.flush().await.unwrap();
    for (store, found) in &stores {
        assert_eq!(keys(store.as_ref()).await, *found);
    }
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_store_that_is_only_read_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(options(folder.path())).await.unwrap();
    let families = [(FamilyName::new("f").unwrap(), Family::default())];
    engine.create_table(&table(), TableSchema::of(families)).await.unwrap();
    write(&engine, 0..200, &AtomicUsize::new(0)).await;
    engine.close().await.unwrap();
    let before = content(folder.path());
    let store = opened(folder.path()).await;
    assert_eq!(keys(store.as_ref()).await.len(), 200);
    let refused = [
        store.commit(Commit::default()).await.map(drop),
        store.drop_table(&table()).await,
        store.drop_row_range(&table(), "0".into()).await,
    ];
    assert!(refused.iter().all(|refused| matches!(refused, Err(Error::Unsupported(_)))), "{refused:?}");
    store.close().await.unwrap();
    assert!(content(folder.path()) == before, "a file was changed");
}

#[test]
fn a_folder_without_a_store_is_told_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("nothing")] {
        let error = ReadOnlyStore::open(&path, None, Box::new(SystemClock)).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
