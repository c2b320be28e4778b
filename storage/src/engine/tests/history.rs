//! Engine-specific bugs with history: files that keep too much, or too little.

use super::*;
use crate::{FamilyChange, History, KeyRange, Write, fs::Fs, model::limits::ROW_KEY_BYTES_MAX};
use std::sync::atomic::Ordering;

const SECOND: i64 = 1_000_000;
/// A value that no file has by chance.
const NEEDLE: &str = "a value of 7f3a, superseded";

/// An engine with a table that keeps history for `seconds`, and its clock.
async fn keeping(fs: &SimFs, gc: GcRule, seconds: i64) -> (Arc<Engine>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(SECOND));
    let engine = reopened(fs, &clock).await;
    let history = Some(History { keep_micros: seconds * SECOND, since_micros: 0 });
    engine.create_table(&table(), TableSchema { history, ..schema(gc) }).await.unwrap();
    (engine, clock)
}

async fn reopened(fs: &SimFs, clock: &Arc<ManualClock>) -> Arc<Engine> {
    // Tests hold the log thread up, not the callers of commits.
    let options = EngineOptions { alone_sync_max: Duration::ZERO, compacts: false, ..simulated(fs) };
    Engine::open(EngineOptions { clock: Box::new(clock.clone()), ..options }).await.unwrap()
}

/// Each row's key and newest value at a second.
async fn values_at(engine: &Engine, second: i64) -> Vec<(String, String)> {
    let scan = Scan { as_of: Some(second * SECOND + SECOND / 2), ..Scan::all() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows = engine.read_rows(&table(), scan).await.unwrap();
    rows.iter().map(|row| (text(&row.key), text(&row.cells[0].value))).collect()
}

/// Files below the folder that contain the bytes.
fn files_with(fs: &SimFs, folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for name in fs.list(folder).unwrap() {
        let path = folder.join(name);
        match fs.read(&path) {
            Some(file) if file.windows(bytes.len()).any(|window| window == bytes) => {
                found.push(path.display().to_string());
            }
            Some(_) => {}
            None => found.extend(files_with(fs, &path, bytes)),
        }
    }
    found
}

/// The history of deleted ranges goes at once, but not for a pin of an earlier state: even if a commit was in progress
/// then, so that the scan reads a later state.
#[tokio::test]
async fn a_pin_taken_during_a_commit_keeps_the_past_of_deleted_ranges() {
    let (engine, clock) = keeping(&SimFs::new(), GcRule::KeepAll, 1_000).await;
    engine.commit(put("alto#1", "first")).await.unwrap();
    clock.set(3 * SECOND);
    let pin_during_a_commit = || {
        engine.shared.is_stamping.store(true, Ordering::SeqCst);
        let pin = engine.pin_now();
        engine.shared.is_stamping.store(false, Ordering::SeqCst);
        pin
    };
    let (before, also_before) = (pin_during_a_commit(), pin_during_a_commit());
    let seen = async |pin: &crate::Pin| {
        let scan = Scan { as_of: Some(pin.now_micros), pin: Some(pin.clone()), ..Scan::all() };
        engine.read_rows(&table(), scan).await.unwrap().len()
    };
    assert_eq!(seen(&before).await, 1);
    clock.set(4 * SECOND);
    let write = Write::DeleteRange { table: table(), range: KeyRange::prefix(&b"alto#"[..]) };
    engine.commit(Commit { writes: vec![write], validation: None }).await.unwrap();
    engine.compact(None).await.unwrap();
    assert_eq!((seen(&before).await, seen(&also_before).await), (1, 1));
    clock.set(5 * SECOND);
    // Ranges deleted before the pin stay deleted for it.
    assert_eq!(seen(&pin_during_a_commit()).await, 0);
}

#[tokio::test]
async fn semantics_7_no_file_holds_the_past_after_a_purge() {
    let fs = SimFs::new();
    let (engine, clock) = keeping(&fs, GcRule::KeepAll, 1_000).await;
    engine.commit(put("alto#1", NEEDLE)).await.unwrap();
    engine.commit(put("altostrat#1", "first")).await.unwrap();
    engine.flush().await.unwrap();
    clock.set(3 * SECOND);
    let replace = |row: &str| Commit::row(table(), key(row), vec![Mutation::DeleteFromRow, set("now")]);
    engine.commit(replace("alto#1")).await.unwrap();
    engine.commit(replace("altostrat#1")).await.unwrap();
    engine.compact(None).await.unwrap();
    assert_eq!(values_at(&engine, 2).await, pairs(&[("alto#1", NEEDLE), ("altostrat#1", "first")]));
    assert!(!files_with(&fs, Path::new(PATH), NEEDLE.as_bytes()).is_empty(), "it is there to be found");

    let range = KeyRange::prefix(&b"alto#"[..]);
    engine.drop_row_range(&table(), range.start.clone()).await.unwrap();
    engine.purge(&[(table(), range)]).await.unwrap();
    assert_eq!(files_with(&fs, Path::new(PATH), NEEDLE.as_bytes()), Vec::<String>::new());
    assert_eq!(files_with(&fs, Path::new(PATH), b"alto#1"), Vec::<String>::new());
    assert_eq!(values_at(&engine, 2).await, pairs(&[("altostrat#1", "first")]));
    let engine = {
        engine.close().await.unwrap();
        drop(engine);
        reopened(&fs, &clock).await
    };
    assert_eq!(values_at(&engine, 2).await, pairs(&[("altostrat#1", "first")]));
}

#[tokio::test]
async fn compactions_forget_what_is_too_old() {
    let fs = SimFs::new();
    let (engine, clock) = keeping(&fs, GcRule::MaxVersions(1), 1_000).await;
    engine.commit(put("a", NEEDLE)).await.unwrap();
    clock.set(3 * SECOND);
    engine.commit(put("a", "second")).await.unwrap();
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    assert!(!files_with(&fs, Path::new(PATH), NEEDLE.as_bytes()).is_empty(), "it is there to be found");
    assert_eq!(values_at(&engine, 2).await, pairs(&[("a", NEEDLE)]));
    clock.set(2_000 * SECOND);
    engine.commit(put("a", "third")).await.unwrap();
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    assert_eq!(files_with(&fs, Path::new(PATH), NEEDLE.as_bytes()), Vec::<String>::new());
    assert_eq!(values_at(&engine, 1_500).await, pairs(&[("a", "second")]));
    assert_eq!(values_at(&engine, 1_999).await, pairs(&[("a", "second")]));
}

#[tokio::test]
async fn a_table_and_its_past_are_one_to_clients() {
    let fs = SimFs::new();
    let (engine, clock) = keeping(&fs, GcRule::KeepAll, 1_000).await;
    engine.commit(put("a", "first")).await.unwrap();
    engine.commit(put("a", "second")).await.unwrap();
    engine.flush().await.unwrap();
    let names: Vec<TableName> = engine.tables().await.unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [table()]);
    let inside: Vec<String> = engine.inspect().unwrap().tablets.iter().map(|info| info.table.to_string()).collect();
    assert_eq!(inside, ["t", "t@past"]);
    assert!(TableName::new("t@past").is_err());
    assert_eq!(engine.sample_row_keys(&table()).await.unwrap().len(), 1);
    // The history table exists as long as history is kept and the table exists.
    let rest = |engine: &Engine| engine.inspect().unwrap().tablets.len();
    engine.modify_families(&table(), vec![FamilyChange::SetHistory(None)]).await.unwrap();
    assert_eq!(rest(&engine), 1);
    engine.modify_families(&table(), vec![FamilyChange::SetHistory(Some(SECOND))]).await.unwrap();
    engine.commit(put("a", "third")).await.unwrap();
    engine.flush().await.unwrap();
    assert_eq!(rest(&engine), 2);
    engine.drop_table(&table()).await.unwrap();
    assert_eq!(rest(&engine), 0);
    drop(engine);
    assert_eq!(reopened(&fs, &clock).await.inspect().unwrap().tablets.len(), 0);
}

#[tokio::test]
async fn the_longest_row_keys_have_a_past() {
    let fs = SimFs::new();
    let (engine, clock) = keeping(&fs, GcRule::KeepAll, 1_000).await;
    let longest = RowKey::new(vec![0; ROW_KEY_BYTES_MAX]).unwrap();
    let commit = |value: &str| Commit::row(table(), longest.clone(), vec![set(value.to_owned())]);
    engine.commit(commit("first")).await.unwrap();
    engine.flush().await.unwrap();
    clock.set(3 * SECOND);
    engine.commit(commit("second")).await.unwrap();
    drop(engine);
    let engine = reopened(&fs, &clock).await;
    let first = vec![(String::from_utf8(longest.to_vec()).unwrap(), "first".to_owned())];
    assert_eq!(values_at(&engine, 2).await, first, "from the log");
    engine.compact(None).await.unwrap();
    drop(engine);
    let engine = reopened(&fs, &clock).await;
    assert_eq!(values_at(&engine, 2).await, first, "from a segment");
}

/// A compaction that begins while the commit that begins history is being synced evaluates rules at a later time than
/// that commit's, and does not know of it. Cells that it would remove are needed.
#[tokio::test]
async fn history_that_begins_during_a_compaction_is_whole() {
    let fs = SimFs::new();
    let clock = Arc::new(ManualClock::new(SECOND));
    let engine = reopened(&fs, &clock).await;
    engine.create_table(&table(), schema(GcRule::MaxAgeMicros(10 * SECOND))).await.unwrap();
    engine.commit(put("a", "aging")).await.unwrap();
    engine.flush().await.unwrap();
    clock.set(5 * SECOND);
    let held = fs.hold_syncs_in(Path::new("/store/wal"));
    let beginning = {
        let engine = engine.clone();
        let change = FamilyChange::SetHistory(Some(1_000 * SECOND));
        tokio::spawn(async move { engine.modify_families(&table(), vec![change]).await })
    };
    while !held.has_met() {
        tokio::task::yield_now().await;
    }
    clock.set(20 * SECOND);
    let maintenance = engine.maintenance.clone();
    let compacting = tokio::task::spawn_blocking(move || maintenance.compact_table(None));
    // It waits for the log thread: with nothing to install, or with its result.
    while !engine.shared.coordination.has_installs() {
        tokio::task::yield_now().await;
    }
    drop(held);
    beginning.await.unwrap().unwrap();
    compacting.await.unwrap().unwrap();
    assert_eq!(rows(engine.as_ref()).await, []);
    assert_eq!(values_at(&engine, 9).await, pairs(&[("a", "aging")]));
}

/// A commit that has its stamp and is being synced belongs to the time of a later pin: a scan as of then waits for it.
#[tokio::test]
async fn rows_as_of_a_timestamp_do_not_change() {
    let fs = SimFs::new();
    let (engine, clock) = keeping(&fs, GcRule::KeepAll, 1_000).await;
    let first = engine.commit(put("a", "first")).await.unwrap();
    clock.set(3 * SECOND);
    let held = fs.hold_syncs_in(Path::new("/store/wal"));
    let committing = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.commit(put("a", "second")).await })
    };
    while !held.has_met() {
        tokio::task::yield_now().await;
    }
    clock.set(5 * SECOND);
    let pin = engine.pin().await.unwrap();
    let reading = {
        let engine = engine.clone();
        let scan = Scan { pin: Some(pin.clone()), as_of: Some(pin.now_micros), ..Scan::all() };
        tokio::spawn(async move { engine.read_rows(&table(), scan).await })
    };
    while !engine.shared.coordination.has_installs() {
        assert!(!reading.is_finished(), "it waits");
        tokio::task::yield_now().await;
    }
    let then = engine.read_rows(&table(), Scan { as_of: Some(first), ..Scan::all() }).await.unwrap();
    assert_eq!(then[0].cells[0].value, "first", "nothing that is under way can be so old");
    drop(held);
    assert!(committing.await.unwrap().unwrap() < pin.now_micros);
    let read = reading.await.unwrap().unwrap();
    assert_eq!(read[0].cells[0].value, "second");
    let again = Scan { as_of: Some(pin.now_micros), ..Scan::all() };
    assert_eq!(engine.read_rows(&table(), again).await.unwrap(), read);
    // The pin's own state is unchanged.
    let pinned = engine.read_rows(&table(), Scan { pin: Some(pin), ..Scan::all() }).await.unwrap();
    assert_eq!(pinned[0].cells[0].value, "first");
}
