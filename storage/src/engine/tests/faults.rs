//! Full disks, failing syncs and damaged logs.

use super::*;
use crate::{KeyRange, RowSet, testing::blobs::FaultyBlobs};
use std::path::PathBuf;

async fn reopened(fs: &SimFs) -> Result<Arc<Engine>> {
    Engine::open(simulated(fs)).await
}

#[tokio::test]
async fn a_failed_sync_stops_writing_for_good_and_reads_go_on() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    fs.fail_syncs(true);
    assert_eq!(engine.commit(put("b", "1")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    fs.fail_syncs(false);
    let writes = fs.count("write");
    assert_eq!(engine.commit(put("c", "1")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(fs.count("write"), writes, "a write after the failed sync");
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1")]));
    engine.close().await.unwrap();
    let crashed = fs.crashed(1);
    let engine = reopened(&crashed).await.unwrap();
    engine.commit(put("d", "1")).await.unwrap();
    assert!(values(engine.as_ref()).await.contains(&("a".into(), "1".into())));
}

#[tokio::test]
async fn what_a_failed_sync_left_in_memory_alone_is_written_by_the_next_start() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    fs.fail_syncs(true);
    engine.commit(put("b", "1")).await.unwrap_err();
    drop(engine);
    fs.fail_syncs(false);
    let engine = reopened(&fs).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "1")]), "it is still in the machine's memory");
    engine.commit(put("c", "1")).await.unwrap();
    for seed in 0..20 {
        let engine = reopened(&fs.crashed(seed)).await.unwrap();
        assert_eq!(rows(engine.as_ref()).await.len(), 3, "seed {seed}");
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    fs.fill_disk(true);
    let mut acknowledged = 0;
    let error = loop {
        match engine.commit(put(&format!("row {acknowledged:03}"), "1")).await {
            Ok(_) if acknowledged < 1_000 => acknowledged += 1,
            Ok(_) => panic!("a thousand commits fit on a full disk"),
            Err(error) => break error,
        }
    };
    assert!(error.kind() == ErrorKind::NoSpace && acknowledged > 10, "{error} after {acknowledged}");
    assert_eq!(engine.commit(put("x", "1")).await.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(rows(engine.as_ref()).await.len(), acknowledged);
    fs.fill_disk(false);
    engine.commit(put("x", "2")).await.unwrap();
    drop(engine);
    let engine = reopened(&fs).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), acknowledged + 1);
}

#[tokio::test]
async fn a_store_opens_for_reading_on_a_full_disk() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("a", "1")).await.unwrap();
    drop(engine);
    fs.fill_disk(true);
    let engine = reopened(&fs).await.unwrap();
    assert_eq!((engine.sync_micros(), values(engine.as_ref()).await), (None, pairs(&[("a", "1")])));
}

/// A closed store of some commits, and its rows.
async fn filled(commits: usize) -> (SimFs, Vec<Row>) {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    for round in 0..commits {
        engine.commit(put(&format!("row {round:03}"), "some value")).await.unwrap();
    }
    let all = rows(engine.as_ref()).await;
    drop(engine);
    (fs, all)
}

#[tokio::test]
async fn a_bad_frame_in_the_middle_is_named_and_nothing_is_lost() {
    let (fs, all) = filled(8).await;
    let whole = fs.read(Path::new(FIRST_LOG)).unwrap();
    let at = whole.windows(7).position(|bytes| bytes == b"row 003").unwrap();
    fs.damage(Path::new(FIRST_LOG), |bytes| bytes[at] ^= 1);
    let damaged = fs.read(Path::new(FIRST_LOG)).unwrap();
    let error = reopened(&fs).await.unwrap_err();
    let text = error.to_string();
    assert!(
        error.kind() == ErrorKind::Corrupt && text.starts_with(&format!("{FIRST_LOG} is damaged at byte ")),
        "{text}"
    );
    assert_eq!(fs.read(Path::new(FIRST_LOG)).unwrap(), damaged, "nothing was changed");
    fs.damage(Path::new(FIRST_LOG), |bytes| *bytes = whole);
    assert_eq!(rows(reopened(&fs).await.unwrap().as_ref()).await, all);
}

#[tokio::test]
async fn a_torn_last_frame_is_cut() {
    let (fs, all) = filled(8).await;
    // The last frame holds the clock; the one before it is the last commit.
    let whole = fs.read(Path::new(FIRST_LOG)).unwrap();
    let at = whole.windows(7).rposition(|bytes| bytes == b"row 007").unwrap();
    fs.damage(Path::new(FIRST_LOG), |bytes| bytes[at..].fill(0));
    let engine = reopened(&fs).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await, all[..7]);
    engine.commit(put("row 008", "other")).await.unwrap();
    drop(engine);
    let engine = reopened(&fs).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 8);
}

#[tokio::test]
async fn what_was_cut_does_not_come_back_as_damage() {
    let (fs, all) = filled(8).await;
    fs.damage(Path::new(FIRST_LOG), |bytes| {
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 8;
        bytes[end..end + 500].fill(0xaa);
    });
    let engine = reopened(&fs).await.unwrap();
    // It goes to the next file, and the torn frame would be in the middle of the log, unless it was zeroed.
    engine.commit(put("x", vec![b'x'; 3_000])).await.unwrap();
    drop(engine);
    let engine = reopened(&fs).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), all.len() + 1);
}

#[tokio::test]
async fn damage_in_a_file_before_the_last_is_never_taken_for_a_torn_tail() {
    let (fs, _) = filled(60).await;
    let folder = Path::new("/store/wal");
    assert!(fs.read(&folder.join("0000000002.log")).is_some());
    let whole = fs.read(Path::new(FIRST_LOG)).unwrap();
    let last = whole.iter().rposition(|&byte| byte != 0).unwrap();
    fs.damage(Path::new(FIRST_LOG), |bytes| bytes[last] ^= 1);
    assert_eq!(reopened(&fs).await.unwrap_err().kind(), ErrorKind::Corrupt);
    fs.damage(Path::new(FIRST_LOG), |bytes| *bytes = whole);
    reopened(&fs).await.unwrap();
}

#[tokio::test]
async fn a_missing_file_is_noticed() {
    let (fs, _) = filled(120).await;
    let second = Path::new("/store/wal/0000000002.log");
    assert!(fs.read(Path::new("/store/wal/0000000003.log")).is_some());
    crate::fs::Fs::unlink(&fs, second).unwrap();
    assert_eq!(reopened(&fs).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn no_flipped_bit_of_the_log_yields_a_wrong_row() {
    let (fs, all) = filled(12).await;
    let whole = fs.read(Path::new(FIRST_LOG)).unwrap();
    let used = whole.iter().rposition(|&byte| byte != 0).unwrap() + 16;
    let mut refused = 0;
    for at in 0..used {
        let bit = at * 5 % 8;
        fs.damage(Path::new(FIRST_LOG), |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 1 << bit;
        });
        match reopened(&fs.crashed(0)).await {
            // Only the last frame, that of the clock, can look like one that was never acknowledged.
            Ok(engine) => assert_eq!(rows(engine.as_ref()).await, all, "byte {at}, bit {bit}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}, bit {bit}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > used / 2, "{refused} of {used}");
}

/// Panics when it is asked for a table's layout.
#[derive(Debug)]
struct Panicking;

impl crate::Layouts for Panicking {
    fn layout(&self, _: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<crate::Layout>> {
        panic!("a layout that cannot be had")
    }
}

#[tokio::test]
async fn a_panic_of_a_flush_stops_writing_and_nobody_waits_for_it() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.set_layouts(Arc::new(Panicking));
    engine.commit(put("a", "1")).await.unwrap();
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(engine.commit(put("b", "1")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1")]));
    drop(engine);
    let engine = reopened(&fs).await.unwrap();
    engine.flush().await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1")]));
}

#[tokio::test]
async fn a_slow_read_of_a_segment_keeps_nobody_else_waiting() {
    let (fs, blobs) = (SimFs::new(), FaultyBlobs::new(1));
    // Without caches every read is a request.
    let engine = with_table(EngineOptions { blobs: Some(Arc::new(blobs.clone())), memory_bytes: 0, ..tiny(&fs) }).await;
    for row in ["a", "b", "c", "d"] {
        engine.commit(put(row, "1")).await.unwrap();
    }
    engine.compact(None).await.unwrap();
    let held = blobs.hold("read");
    let slow = tokio::spawn({
        let engine = engine.clone();
        async move { values(engine.as_ref()).await }
    });
    while !held.has_met() {
        tokio::task::yield_now().await;
    }
    // New rows need no slow read.
    engine.commit(put("e", "2")).await.unwrap();
    let found = engine.read_row(&table(), &key("e"), None).await.unwrap();
    assert!(found.is_some() && !slow.is_finished());
    drop(held);
    assert_eq!(
        slow.await.unwrap(),
        pairs(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]),
        "as it was when it began"
    );
    assert_eq!(rows(engine.as_ref()).await.len(), 5);
}

#[tokio::test]
async fn a_damaged_segment_that_the_log_has_changed_is_not_served_and_comes_back_whole() {
    let fs = SimFs::new();
    let options = || EngineOptions { compacts: false, ..simulated(&fs) };
    let engine = with_table(options()).await;
    for row in ["a", "b", "c"] {
        engine.commit(put(row, "1")).await.unwrap();
    }
    engine.flush().await.unwrap();
    let damaged = engine.inspect().unwrap().segments[0].id;
    engine.commit(put("x", "1")).await.unwrap();
    engine.flush().await.unwrap();
    engine.commit(put("a", "2")).await.unwrap();
    engine.drop_row_range(&table(), Bytes::from_static(b"b")).await.unwrap();
    drop(engine);

    let path = PathBuf::from(format!("{PATH}/seg/{damaged:016x}.parquet"));
    let whole = fs.read(&path).unwrap();
    fs.damage(&path, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let engine = reopened_with(options()).await;
    let read = async |row: &str| {
        let point = RowSet::new([KeyRange::point(row.as_bytes())]);
        engine.read_rows(&table(), Scan::of(point)).await
    };
    assert_eq!(read("x").await.unwrap().len(), 1);
    assert_eq!(read("a").await.unwrap()[0].cells[0].value, "2");
    assert_eq!(read("c").await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(engine.read_rows(&table(), Scan::all()).await.unwrap_err().kind(), ErrorKind::Corrupt);
    let refused = engine.commit(put("x", "2")).await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Unavailable && refused.to_string().contains("is damaged at byte"),
        "{refused}"
    );
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(engine);

    fs.damage(&path, |bytes| *bytes = whole);
    let engine = reopened_with(options()).await;
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "2"), ("c", "1"), ("x", "1")]));
    engine.commit(put("x", "2")).await.unwrap();
    engine.flush().await.unwrap();
}

async fn reopened_with(options: EngineOptions) -> Arc<Engine> {
    Engine::open(options).await.unwrap()
}
