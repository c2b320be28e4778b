//! The engine over the machine's file system and over the simulated one.

mod cases;
mod clock;
mod compaction;
mod conforms;
mod crash;
mod differential;
mod faults;
mod history;
mod loads;
mod machine;
mod purges;
mod read_only;
mod scans;
mod simulation;
mod together;

use super::{ALONE_AFTER, Engine, EngineOptions, Granularity, writer::ALONE_BYTES_MAX};
use crate::{
    Commit, ErrorKind, Family, FamilyName, GcRule, Mutation, Result, Row, RowKey, RowMutation, Scan, Store, StoreExt,
    TableName, TableSchema, Validation, clock::ManualClock, testing::sim::SimFs,
};
use bytes::Bytes;
use futures::FutureExt;
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// The folder of a simulated store.
const PATH: &str = "/store";
/// Its first log file.
const FIRST_LOG: &str = "/store/wal/0000000001.log";

fn simulated(fs: &SimFs) -> EngineOptions {
    EngineOptions {
        fs: Arc::new(fs.clone()),
        clock: Box::new(ManualClock::new(1_000_000)),
        log_file_bytes: 2 << 10,
        ..EngineOptions::new(PATH)
    }
}

/// So small that an engine flushes and compacts all the time, with several pieces of everything.
fn tiny(fs: &SimFs) -> EngineOptions {
    EngineOptions {
        memtable_bytes: Some(2 << 10),
        base_bytes: 2 << 10,
        granularity: Granularity {
            memtable_bytes_min: 1,
            group_rows_max: 5,
            page_rows_max: 2,
            delta_bytes_min: 1,
            changed_bytes_min: 1,
            section_rows_min: 10,
            step_rows_max: 3,
            load_runs_max: 2,
            // The steps of a simulation must be deterministic.
            load_halves_bytes_min: u64::MAX,
            load_block_bytes: 1 << 10,
        },
        ..simulated(fs)
    }
}

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn key(key: &str) -> RowKey {
    RowKey::new(key.to_owned()).unwrap()
}

fn schema(gc: GcRule) -> TableSchema {
    TableSchema::of([(FamilyName::new("f").unwrap(), Family { gc, aggregate: None })])
}

fn set(value: impl Into<Bytes>) -> Mutation {
    Mutation::SetCell {
        family: FamilyName::new("f").unwrap(),
        qualifier: Bytes::from_static(b"q"),
        timestamp: None,
        value: value.into(),
    }
}

fn put(row: &str, value: impl Into<Bytes>) -> Commit {
    Commit::row(table(), key(row), vec![set(value)])
}

async fn rows(store: &dyn Store) -> Vec<Row> {
    store.read_rows(&table(), Scan::all()).await.unwrap()
}

/// Each row's key and newest value.
async fn values(store: &dyn Store) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    rows(store).await.iter().map(|row| (text(&row.key), text(&row.cells[0].value))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

async fn with_table(options: EngineOptions) -> Arc<Engine> {
    let engine = Engine::open(options).await.unwrap();
    engine.create_table(&table(), schema(GcRule::KeepAll)).await.unwrap();
    engine
}

#[tokio::test]
async fn commits_are_there_after_reopening_a_real_folder() {
    let folder = tempfile::tempdir().unwrap();
    let options = || EngineOptions { log_file_bytes: 4 << 10, ..EngineOptions::new(folder.path().join("store")) };
    let engine = with_table(options()).await;
    assert!(engine.sync_micros().is_some());
    for round in 0..100 {
        engine.commit(put(&format!("row {:02}", round % 10), format!("value {round}"))).await.unwrap();
    }
    // Larger than a log file.
    engine.commit(put("large", vec![b'x'; 10_000])).await.unwrap();
    engine.drop_row_range(&table(), Bytes::from_static(b"row 00")).await.unwrap();
    let before = rows(engine.as_ref()).await;
    assert_eq!((before.len(), before[0].cells[0].value.len()), (10, 10_000));
    engine.close().await.unwrap();
    assert_eq!(engine.commit(put("a", "b")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(engine.pin().await.unwrap_err().kind(), ErrorKind::Unavailable);

    let engine = Engine::open(options()).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await, before);
    engine.commit(put("row 00", "again")).await.unwrap();
    drop(engine);
    let engine = Engine::open(options()).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 11);
}

#[tokio::test]
async fn a_clock_set_back_over_a_restart_overwrites_no_segment() {
    // Whichever stamp names the second segment, the first one's is among them.
    for back_micros in 0..8 {
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(1_000_000));
        let options = || EngineOptions { clock: Box::new(clock.clone()), compacts: false, ..simulated(&fs) };
        let engine = with_table(options()).await;
        engine.commit(put("a", "1")).await.unwrap();
        clock.set(5_000_000);
        engine.flush().await.unwrap();
        fs.stop();
        drop(engine);
        fs.go_on();

        clock.set(5_000_000 - back_micros);
        let engine = Engine::open(options()).await.unwrap();
        engine.commit(put("b", "2")).await.unwrap();
        engine.flush().await.unwrap();
        engine.close().await.unwrap();
        let engine = Engine::open(options()).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "2")]), "{back_micros} µs back");
    }
}

#[tokio::test]
async fn a_second_opening_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = || EngineOptions::new(folder.path());
    let engine = Engine::open(options()).await.unwrap();
    assert_eq!(Engine::open(options()).await.unwrap_err().kind(), ErrorKind::Locked);
    drop(engine);
    Engine::open(options()).await.unwrap();
}

#[tokio::test]
async fn tables_and_families_are_there_after_reopening() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    let other = TableName::new("other").unwrap();
    engine.create_table(&other, TableSchema::default()).await.unwrap();
    engine.drop_table(&other).await.unwrap();
    engine.commit(put("a", "1")).await.unwrap();
    let (f, g) = (FamilyName::new("f").unwrap(), FamilyName::new("g").unwrap());
    use crate::FamilyChange::{Create, Drop};
    engine.modify_families(&table(), vec![Create(g.clone(), Family::default())]).await.unwrap();
    // A recreated family shows nothing of the old cells.
    let again = vec![Drop(f.clone()), Create(f, Family::default())];
    engine.modify_families(&table(), again).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await, []);
    engine.commit(put("b", "2")).await.unwrap();
    let tables = engine.tables().await.unwrap();
    drop(engine);
    let engine = Engine::open(simulated(&fs)).await.unwrap();
    assert_eq!(engine.tables().await.unwrap(), tables);
    assert!(tables.len() == 1 && tables[0].1.families.contains_key(&g));
    assert_eq!(values(engine.as_ref()).await, pairs(&[("b", "2")]));
}

#[tokio::test]
async fn semantics_2_stamps_never_repeat_across_a_restart() {
    let fs = SimFs::new();
    let at = |now| EngineOptions { clock: Box::new(ManualClock::new(now)), ..simulated(&fs) };
    let engine = with_table(at(5_000_000)).await;
    let stamp = engine.commit(put("a", "1")).await.unwrap();
    drop(engine);
    // The wall clock was set back.
    let engine = Engine::open(at(1_000)).await.unwrap();
    let pin = engine.pin().await.unwrap();
    assert!(pin.now_micros >= stamp && pin.commit_micros >= stamp, "{pin:?}");
    assert!(engine.commit(put("a", "2")).await.unwrap() > stamp);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "2")]));
}

#[tokio::test]
async fn semantics_6_the_clock_of_reads_does_not_go_back_across_a_close() {
    let fs = SimFs::new();
    let wall = Arc::new(ManualClock::new(1_000_000));
    let engine = Engine::open(EngineOptions { clock: Box::new(wall.clone()), ..simulated(&fs) }).await.unwrap();
    engine.create_table(&table(), schema(GcRule::MaxAgeMicros(500_000))).await.unwrap();
    engine.commit(put("a", "1")).await.unwrap();
    wall.advance(600_000);
    assert_eq!(rows(engine.as_ref()).await, []);
    engine.close().await.unwrap();
    let engine = Engine::open(simulated(&fs)).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await, [], "what a read saw condemned has come back");
}

#[tokio::test]
async fn semantics_3_a_changed_row_refuses_the_commit_and_nothing_else() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    let pin = engine.pin().await.unwrap();
    engine.commit(put("b", "1")).await.unwrap();
    let relying = |on: &str| Commit {
        validation: Some(Validation { pin: pin.clone(), rows: vec![(table(), key(on))] }),
        writes: [put("a", "2"), put("c", "2")].into_iter().flat_map(|commit| commit.writes).collect(),
    };
    assert_eq!(engine.commit(relying("b")).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "1")]));
    engine.commit(relying("a")).await.unwrap();
    assert_eq!(engine.commit(relying("a")).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "2"), ("b", "1"), ("c", "2")]));
}

#[tokio::test]
async fn a_refused_commit_leaves_nothing_of_itself() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    let bad = Mutation::DeleteFromFamily { family: FamilyName::new("none").unwrap() };
    let mut commit = put("a", "2");
    commit.writes.extend(put("b", "2").writes);
    let range = crate::KeyRange::all();
    commit.writes.push(crate::Write::DeleteRange { table: table(), range });
    commit.writes.extend(put("c", "2").writes);
    commit.writes.extend(Commit::row(table(), key("d"), vec![bad]).writes);
    assert_eq!(engine.commit(commit).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1")]));
    drop(engine);
    let engine = Engine::open(simulated(&fs)).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1")]));
}

#[tokio::test]
async fn concurrent_commits_share_syncs() {
    let fs = SimFs::new();
    let options = EngineOptions { log_file_bytes: 64 << 10, alone_sync_max: Duration::ZERO, ..simulated(&fs) };
    let engine = with_table(options).await;
    let before = fs.count("sync");
    let held = fs.hold_syncs();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.commit(put(&format!("row {task:02}"), "1")).await })
        })
        .collect();
    // On this single-threaded runtime every task has queued its commit after a few yields.
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    drop(held);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(rows(engine.as_ref()).await.len(), 64);
    let syncs = fs.count("sync") - before;
    assert!(syncs <= 3, "{syncs} syncs for 64 commits");
}

#[tokio::test]
async fn a_lone_commit_is_written_by_its_caller() {
    let fs = SimFs::new();
    let options = EngineOptions { log_file_bytes: 64 << 10, alone_sync_max: Duration::MAX, ..simulated(&fs) };
    let engine = with_table(options).await;
    // The log thread has answered, and gives the writer back.
    drop(engine.writer.lock().unwrap());
    // A commit is done when it was polled once, without the thread.
    assert!(engine.commit(put("a", "1")).now_or_never().expect("nothing to wait for").is_ok());
    let rows = vec![RowMutation { key: key("b"), mutations: vec![set("2")] }];
    assert!(engine.mutate_rows(&table(), rows).now_or_never().expect("nothing to wait for").is_ok());
    // One that finds the writer taken waits for the log thread.
    let mut waits = engine.commit(put("c", "3"));
    let taken = engine.writer.lock().unwrap();
    assert!(waits.as_mut().now_or_never().is_none());
    drop(taken);
    waits.await.unwrap();
    // So do those that come side by side, and the next ones, until some have come one by one.
    {
        let (mut d, mut e) = (engine.commit(put("c", "4")), engine.commit(put("c", "5")));
        let taken = engine.writer.lock().unwrap();
        assert!(d.as_mut().now_or_never().is_none() && e.as_mut().now_or_never().is_none());
        drop(taken);
        d.await.unwrap();
        e.await.unwrap();
    }
    for left in (0..ALONE_AFTER).rev() {
        assert_eq!(engine.alone_after.load(Ordering::Relaxed), left + 1);
        engine.commit(put("c", "3")).await.unwrap();
    }
    drop(engine.writer.lock().unwrap());
    assert!(engine.commit(put("c", "3")).now_or_never().expect("nothing to wait for").is_ok());
    // As does what is not small, and what deletes ranges.
    let syncs = fs.count("sync");
    engine.commit(put("d", vec![b'x'; 2 * ALONE_BYTES_MAX])).await.unwrap();
    engine.drop_row_range(&table(), Bytes::from_static(b"d")).await.unwrap();
    assert!(fs.count("sync") >= syncs + 2);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "2"), ("c", "3")]));
    drop(engine);
    let engine = Engine::open(simulated(&fs)).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "2"), ("c", "3")]));
}

/// Full memtables are frozen and files of the log made by the log thread, which whoever writes alone wakes.
#[tokio::test]
async fn lone_commits_fill_memtables_and_files_of_the_log() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { alone_sync_max: Duration::MAX, compacts: false, ..tiny(&fs) }).await;
    for at in 0..300 {
        engine.commit(put(&format!("row {at:03}"), vec![b'x'; 50])).await.unwrap();
    }
    engine.flush().await.unwrap();
    let flushes = engine.shared.work.flushes.load(Ordering::Relaxed);
    assert!(flushes > 2, "{flushes} flushes");
    drop(engine);
    let engine = Engine::open(tiny(&fs)).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 300);
}

#[tokio::test]
async fn a_closed_store_takes_no_lone_commit() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    engine.close().await.unwrap();
    assert_eq!(engine.commit(put("b", "1")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(engine.writer.lock().unwrap().is_none(), "its files are closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_wait_for_a_full_queue() {
    let fs = SimFs::new();
    let options = EngineOptions { queue_requests_max: 1, queue_bytes_max: 2 << 10, ..simulated(&fs) };
    let engine = with_table(options).await;
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let engine = engine.clone();
            // Some requests alone exceed the queue.
            let value = vec![b'x'; if task % 8 == 0 { 5_000 } else { 500 }];
            tokio::spawn(async move { engine.commit(put(&format!("row {task:02}"), value)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(rows(engine.as_ref()).await.len(), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_on_one_row_wait_for_each_other() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let (family, qualifier) = (FamilyName::new("f").unwrap(), Bytes::from_static(b"q"));
                    let rule = crate::ReadModifyWrite::Increment { family, qualifier, by: 1 };
                    engine.read_modify_write(&table(), key("a"), vec![rule]).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let row = engine.read_row(&table(), &key("a"), None).await.unwrap().unwrap();
    assert_eq!(row.cells[0].value, 160i64.to_be_bytes()[..]);
    assert_eq!(row.cells.len(), 160, "each has a timestamp of its own");
}

#[tokio::test]
async fn a_pin_keeps_its_state() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    let pin = engine.pin().await.unwrap();
    engine.commit(put("a", "2")).await.unwrap();
    engine.drop_table(&table()).await.unwrap();
    let then = engine.read_rows(&table(), Scan { pin: Some(pin), ..Scan::all() }).await.unwrap();
    assert_eq!(then[0].cells[0].value, "1");
    assert_eq!(engine.read_rows(&table(), Scan::all()).await.unwrap_err().kind(), ErrorKind::NotFound);
}
