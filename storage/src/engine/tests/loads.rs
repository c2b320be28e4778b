//! Loads: their rows, their refusals, and their files; alone, [concurrent] with other writers, and after a [crash].

mod concurrent;
mod crash;

use super::*;
use crate::{Error, KeyRange, Load, LoadColumn, NewRows, engine::LOCK, fs::Fs};
use std::collections::BTreeSet;

fn columns() -> Vec<LoadColumn> {
    vec![LoadColumn { family: FamilyName::new("f").unwrap(), qualifier: Some(Bytes::from_static(b"q")) }]
}

fn batch<'a>(rows: impl IntoIterator<Item = (u64, &'a str, &'a str)>) -> NewRows {
    let mut batch = NewRows::new(1);
    for (number, key, value) in rows {
        let append = |text: &str, out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        let key = |out: &mut Vec<u8>| {
            append(key, out);
            Ok::<(), Error>(())
        };
        batch
            .push(number, key, |_, out| {
                append(value, out);
                Ok(true)
            })
            .unwrap();
    }
    batch
}

async fn begin(engine: &Engine) -> Box<dyn Load> {
    engine.load(&table(), &columns()).await.unwrap().expect("there is room for a load")
}

/// Loads rows in small batches.
async fn load(engine: &Engine, rows: &[(String, String)]) -> Result<i64> {
    let mut load = begin(engine).await;
    for (at, part) in rows.chunks(7).enumerate() {
        let rows = part.iter().zip(7 * at as u64..).map(|((key, value), number)| (number, &key[..], &value[..]));
        load.add(batch(rows)).await?;
    }
    load.finish(None).await
}

fn numbered(numbers: impl IntoIterator<Item = usize>) -> Vec<(String, String)> {
    numbers.into_iter().map(|number| (format!("row {number:04}"), format!("value {number}"))).collect()
}

fn sorted(mut rows: Vec<(String, String)>) -> Vec<(String, String)> {
    rows.sort();
    rows
}

/// The names of the files in a folder of the store.
fn files(fs: &SimFs, folder: &str) -> Vec<String> {
    fs.list(&Path::new(PATH).join(folder)).unwrap()
}

/// Files of segments.
fn count_segments(fs: &SimFs) -> usize {
    files(fs, "seg").len()
}

/// Two threads merge every load.
fn halves(fs: &SimFs) -> EngineOptions {
    let tiny = tiny(fs);
    EngineOptions { granularity: Granularity { load_halves_bytes_min: 0, ..tiny.granularity }, ..tiny }
}

#[tokio::test]
async fn two_threads_merge_halves_and_leave_nothing_after_a_failure() {
    // Large enough that one thread writes one segment.
    let large = |options: EngineOptions| EngineOptions { base_bytes: 1 << 20, compacts: false, ..options };
    // The last key comes first: nothing is written before the end.
    let order = |at: usize| (at * 7 + 299) % 300;
    let turned = || numbered((0..300).map(order));
    for (options, files_of_half) in [(tiny as fn(&SimFs) -> EngineOptions, 0), (halves, 1)] {
        let fs = SimFs::new();
        let engine = with_table(large(options(&fs))).await;
        load(&engine, &turned()).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, sorted(turned()));
        assert_eq!(count_segments(&fs), 1 + files_of_half);
    }
    // A key that occurs twice, in the first half and in the second: neither leaves rows or files.
    for twice in [3, 290] {
        let fs = SimFs::new();
        let engine = with_table(large(halves(&fs))).await;
        let rows = numbered((0..300).map(order).chain([twice]));
        let error = load(&engine, &rows).await.unwrap_err();
        let Error::RowExists { key, number } = error else { panic!("{error:?}") };
        assert_eq!((&key[..], number), (format!("row {twice:04}").as_bytes(), Some(300)));
        assert_eq!(values(engine.as_ref()).await, []);
        assert_eq!((files(&fs, "load"), count_segments(&fs)), (vec![], 0));
        load(&engine, &turned()).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, sorted(turned()));
    }
}

#[tokio::test]
async fn rows_in_any_order_are_there_at_once_and_after_a_restart() {
    let orders: [fn(usize) -> usize; 5] = [
        |at| at,
        |at| (at * 7 + 299) % 300,
        |at| 299 - at,
        |at| (at * 7) % 300,
        // Ascending up to a point.
        |at| if at < 150 { at } else { 150 + (at * 7) % 150 },
    ];
    for (which, order) in orders.into_iter().chain(orders).enumerate() {
        let fs = SimFs::new();
        let options = || if which < orders.len() { tiny(&fs) } else { halves(&fs) };
        let engine = with_table(options()).await;
        let rows = numbered((0..300).map(order));
        let pin = engine.pin().await.unwrap();
        let log_bytes = engine.shared.log_bytes.load(std::sync::atomic::Ordering::Relaxed);
        let stamp = load(&engine, &rows).await.unwrap();
        assert!(stamp > pin.commit_micros);
        assert_eq!(values(engine.as_ref()).await, sorted(rows.clone()), "order {which}");
        let before = engine.read_rows(&table(), Scan { pin: Some(pin), ..Scan::all() }).await.unwrap();
        assert_eq!(before, [], "a pin sees what came after it");
        assert!(engine.shared.log_bytes.load(std::sync::atomic::Ordering::Relaxed) <= log_bytes, "it is in the log");
        assert_eq!(files(&fs, "load"), [] as [String; 0]);
        engine.commit(put("row 0007", "changed")).await.unwrap();
        engine.close().await.unwrap();
        drop(engine);
        let engine = Engine::open(options()).await.unwrap();
        let mut expected = sorted(rows);
        expected[7].1 = "changed".into();
        assert_eq!(values(engine.as_ref()).await, expected, "order {which}");
    }
}

#[tokio::test]
async fn a_large_load_into_an_empty_table_leaves_bases_that_need_no_compaction() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { compacts: false, ..tiny(&fs) }).await;
    load(&engine, &numbered((0..300).map(|at| (at * 7) % 300))).await.unwrap();
    let shape = |engine: &Engine| {
        let state = engine.shared.published.load();
        let tablets = &state.table(&table()).unwrap().tablets;
        let shape = |segments: &[Arc<crate::engine::segment::Segment>]| {
            segments.iter().map(|segment| segment.meta().base).collect::<Vec<_>>()
        };
        tablets.iter().map(|tablet| shape(&tablet.segments)).collect::<Vec<_>>()
    };
    let tablets = shape(&engine);
    assert!(tablets.len() > 3 && tablets[..tablets.len() - 1].iter().all(|tablet| tablet[..] == [true]), "{tablets:?}");
    // Later keys get tablets of their own, keys in between do not.
    load(&engine, &numbered(400..700)).await.unwrap();
    let more = shape(&engine);
    assert!(more.len() > tablets.len() + 3 && more.iter().filter(|tablet| tablet[0]).count() > 6, "{more:?}");
    let between: Vec<_> = (0..300).map(|number| (format!("row {number:04} a"), "b".to_owned())).collect();
    load(&engine, &between).await.unwrap();
    let mixed = shape(&engine);
    assert!(mixed.iter().any(|tablet| tablet.contains(&false)), "{mixed:?}");
    assert_eq!(rows(engine.as_ref()).await.len(), 900);
    engine.compact(None).await.unwrap();
    assert_eq!(rows(engine.as_ref()).await.len(), 900);
}

#[tokio::test]
async fn a_key_that_is_there_or_comes_twice_ends_a_load_and_leaves_nothing() {
    let fs = SimFs::new();
    let engine = with_table(tiny(&fs)).await;
    load(&engine, &numbered(0..100)).await.unwrap();
    engine.commit(put("in memory", "1")).await.unwrap();
    engine.commit(put("flushed", "1")).await.unwrap();
    engine.flush().await.unwrap();
    engine.commit(put("in memory", "2")).await.unwrap();
    let (before, segments) = (values(engine.as_ref()).await, count_segments(&fs));
    for taken in ["row 0050", "in memory", "flushed", "row 0230"] {
        for order in [|at: usize| at, |at: usize| 529 - at] {
            let mut rows = numbered((200..330).map(order));
            rows.push((taken.to_owned(), "3".to_owned()));
            rows.extend(numbered(330..400));
            let error = load(&engine, &rows).await.unwrap_err();
            let Error::RowExists { key, number } = error else { panic!("{error:?}") };
            assert_eq!((&key[..], number), (taken.as_bytes(), Some(130)));
            assert_eq!(values(engine.as_ref()).await, before);
        }
    }
    engine.maintenance.collect();
    assert_eq!(files(&fs, "load"), [] as [String; 0], "runs of loads that failed are left");
    assert!(count_segments(&fs) <= segments, "segments of loads that failed are left");
}

#[tokio::test]
async fn a_deleted_row_can_be_loaded_wherever_it_was() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { compacts: false, ..tiny(&fs) }).await;
    let delete = |row: &str| Commit::row(table(), key(row), vec![Mutation::DeleteFromRow]);
    load(&engine, &numbered(0..100)).await.unwrap();
    engine.commit(put("x", "1")).await.unwrap();
    engine.flush().await.unwrap();
    // In a segment; in a memtable; in a segment and dead there; in a range.
    for row in ["row 0003", "x", "row 0004"] {
        engine.commit(delete(row)).await.unwrap();
    }
    engine.flush().await.unwrap();
    engine.commit(put("y", "1")).await.unwrap();
    engine.commit(delete("y")).await.unwrap();
    engine.flush().await.unwrap();
    engine.drop_row_range(&table(), Bytes::from_static(b"row 008")).await.unwrap();
    engine.commit(delete("row 0005")).await.unwrap();
    let mut rows = numbered([3, 4, 5, 80, 85]);
    rows.extend(pairs(&[("x", "2"), ("y", "2")]));
    load(&engine, &rows).await.unwrap();
    let mut expected = numbered((0..80).chain([80, 85]).chain(90..100));
    expected.extend(pairs(&[("x", "2"), ("y", "2")]));
    assert_eq!(values(engine.as_ref()).await, expected);
    check_after_kill(engine, &fs, &expected).await;
    // One kind of deletion at a time, so that nothing else has them flushed.
    for way in 0..2 {
        let fs = SimFs::new();
        let engine = with_table(EngineOptions { compacts: false, ..simulated(&fs) }).await;
        load(&engine, &numbered(0..10)).await.unwrap();
        match way {
            0 => engine.drop_row_range(&table(), Bytes::from_static(b"row 0005")).await.unwrap(),
            _ => drop(engine.commit(delete("row 0005")).await.unwrap()),
        }
        load(&engine, &numbered([5])).await.unwrap();
        check_after_kill(engine, &fs, &numbered(0..10)).await;
    }
}

/// The log holds deletions, which replay must not apply again.
async fn check_after_kill(engine: Arc<Engine>, fs: &SimFs, expected: &[(String, String)]) {
    assert_eq!(values(engine.as_ref()).await, expected);
    fs.stop();
    drop(engine);
    fs.go_on();
    let engine = Engine::open(simulated(fs)).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, expected);
}

#[tokio::test]
async fn a_row_of_which_the_rules_left_nothing_is_loaded_anew() {
    for flush in [false, true] {
        let fs = SimFs::new();
        let wall = Arc::new(ManualClock::new(1_000_000));
        let options = || EngineOptions { clock: Box::new(wall.clone()), compacts: false, ..simulated(&fs) };
        let engine = Engine::open(options()).await.unwrap();
        engine.create_table(&table(), schema(GcRule::MaxAgeMicros(500_000))).await.unwrap();
        engine.commit(put("a", "1")).await.unwrap();
        if flush {
            engine.flush().await.unwrap();
        }
        assert!(load(&engine, &pairs(&[("a", "2")])).await.is_err());
        wall.advance(600_000);
        load(&engine, &pairs(&[("a", "2"), ("b", "2")])).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "2"), ("b", "2")]));
        engine.compact(None).await.unwrap();
        drop(engine);
        let engine = Engine::open(options()).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "2"), ("b", "2")]));
    }
}

#[tokio::test]
async fn who_relied_on_the_absence_of_a_row_is_refused_after_a_load() {
    for rows in [1, 300] {
        let fs = SimFs::new();
        let engine = with_table(tiny(&fs)).await;
        let pin = engine.pin().await.unwrap();
        load(&engine, &numbered(0..rows)).await.unwrap();
        let relying = |on: &str, row: &str| Commit {
            validation: Some(Validation { pin: pin.clone(), rows: vec![(table(), key(on))] }),
            ..put(row, "mine")
        };
        assert_eq!(engine.commit(relying("row 0000", "row 0000")).await.unwrap_err().kind(), ErrorKind::Conflict);
        engine.commit(relying("z", "z")).await.unwrap();
        assert_eq!(values(engine.as_ref()).await.len(), rows + 1);
    }
}

#[tokio::test]
async fn a_load_is_refused_when_what_it_relied_on_changed() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    engine.commit(put("tenant", "active")).await.unwrap();
    let pin = engine.pin().await.unwrap();
    let relying = || Some(Validation { pin: pin.clone(), rows: vec![(table(), key("tenant"))] });
    let mut first = begin(&engine).await;
    first.add(batch([(1, "a", "1")])).await.unwrap();
    first.finish(relying()).await.unwrap();
    let mut second = begin(&engine).await;
    second.add(batch([(1, "b", "1")])).await.unwrap();
    engine.commit(put("tenant", "active still")).await.unwrap();
    assert_eq!(second.finish(relying()).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(engine.read_row(&table(), &key("b"), None).await.unwrap(), None);
    // A commit that relies on the current state may retry.
    let newer = Validation { pin: engine.pin().await.unwrap(), rows: vec![(table(), key("tenant"))] };
    second.finish(Some(newer)).await.unwrap();
    assert!(engine.read_row(&table(), &key("b"), None).await.unwrap().is_some());
    // So does a load without rows, and one whose table has other families by now.
    let mut empty = begin(&engine).await;
    assert_eq!(empty.finish(relying()).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(empty);
    let mut third = begin(&engine).await;
    third.add(batch([(1, "c", "1")])).await.unwrap();
    let family = FamilyName::new("g").unwrap();
    engine.modify_families(&table(), vec![crate::FamilyChange::Create(family, Family::default())]).await.unwrap();
    assert_eq!(third.finish(None).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(third);
    // Even if they are changed back: cells that a rule condemned meanwhile stay condemned.
    let f = FamilyName::new("f").unwrap();
    let mut there_and_back = begin(&engine).await;
    there_and_back.add(batch([(1, "c", "1")])).await.unwrap();
    for rule in [GcRule::MaxVersions(1), GcRule::KeepAll] {
        engine.modify_families(&table(), vec![crate::FamilyChange::SetGc(f.clone(), rule)]).await.unwrap();
    }
    assert_eq!(there_and_back.finish(None).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(there_and_back);
    let mut fourth = begin(&engine).await;
    fourth.add(batch([(1, "c", "1")])).await.unwrap();
    engine.drop_table(&table()).await.unwrap();
    assert_eq!(fourth.finish(None).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn columns_and_tables_that_cannot_be_loaded_are_refused() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    let kind = |loaded: Result<Option<Box<dyn Load>>>| loaded.map(|load| load.is_some()).map_err(|error| error.kind());
    let twice = [columns(), columns()].concat();
    assert_eq!(kind(engine.load(&table(), &twice).await), Err(ErrorKind::Invalid));
    let none = TableName::new("none").unwrap();
    assert_eq!(kind(engine.load(&none, &columns()).await), Err(ErrorKind::NotFound));
    let (f, g) = (FamilyName::new("f").unwrap(), FamilyName::new("g").unwrap());
    let other = [LoadColumn { family: g.clone(), qualifier: Some(Bytes::new()) }];
    assert_eq!(kind(engine.load(&table(), &other).await), Err(ErrorKind::NotFound));
    let sum = Family { gc: GcRule::KeepAll, aggregate: Some(crate::Aggregate::Sum) };
    engine.modify_families(&table(), vec![crate::FamilyChange::Create(g, sum)]).await.unwrap();
    assert_eq!(kind(engine.load(&table(), &other).await), Err(ErrorKind::Invalid));
    engine.modify_families(&table(), vec![crate::FamilyChange::SetHistory(Some(1_000_000))]).await.unwrap();
    assert_eq!(kind(engine.load(&table(), &columns()).await), Ok(false), "{f:?}");
}
