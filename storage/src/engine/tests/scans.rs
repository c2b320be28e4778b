//! Scans that begin inline and continue on another thread, and flushes triggered by scans of memtables.

use super::*;
use crate::{
    ColumnarRequest, Filter, KeyRange, RowSet,
    engine::{blocking, budget::MEMTABLE_BYTES_MIN},
};

/// A scan for few rows finds them after many others, in segments and in memory.
#[tokio::test]
async fn few_rows_are_found_behind_many_others() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    let name = |row: usize| format!("row {row:03}");
    for row in 0..400 {
        let value = if (250..260).contains(&row) { "late" } else { "other" };
        engine.commit(put(&name(row), value)).await.unwrap();
        if row == 300 {
            engine.flush().await.unwrap();
        }
    }
    let found = async |scan: Scan| -> Vec<String> {
        let scan = Scan { filter: Some(Filter::ValueRegex("late".into())), ..scan };
        let rows = engine.read_rows(&table(), scan).await.unwrap();
        rows.iter().map(|row| String::from_utf8_lossy(&row.key).into_owned()).collect()
    };
    let names = |rows: &[usize]| -> Vec<String> { rows.iter().map(|&row| name(row)).collect() };
    for (rows_max, forward, backward) in [
        (Some(3), &[250, 251, 252][..], &[259, 258, 257][..]),
        (
            Some(64),
            &[250, 251, 252, 253, 254, 255, 256, 257, 258, 259],
            &[259, 258, 257, 256, 255, 254, 253, 252, 251, 250],
        ),
    ] {
        let scan = Scan { rows_max, ..Scan::all() };
        assert_eq!(found(scan.clone()).await, names(forward));
        assert_eq!(found(Scan { reversed: true, ..scan }).await, names(backward));
    }
    let range = |from: usize, to: usize| KeyRange::new(name(from), Some(name(to).into()));
    let rows = RowSet::new([range(0, 100), range(110, 252), range(258, 400)]);
    assert_eq!(found(Scan { rows, rows_max: Some(4), ..Scan::all() }).await, names(&[250, 251, 258, 259]));
}

/// Which ranges have few rows is known whether these are in memory, in segments or in both.
#[tokio::test]
async fn few_rows_of_a_range_are_known_as_such() {
    let engine = with_table(simulated(&SimFs::new())).await;
    let name = |row: usize| format!("row {row:04}");
    let commit = async |rows: std::ops::Range<usize>| {
        let rows = rows.map(|row| crate::RowMutation { key: key(&name(row)), mutations: vec![set("v")] });
        engine.mutate_rows(&table(), rows.collect()).await.unwrap();
    };
    let are_few = |ranges: &[(usize, usize)]| {
        let ranges = ranges.iter().map(|(from, to)| KeyRange::new(name(*from), Some(name(*to).into())));
        Store::columnar(engine.as_ref()).unwrap().few_rows(&table(), &RowSet::new(ranges)).is_some()
    };
    commit(0..3_000).await;
    assert!(are_few(&[(0, 1_000)]) && !are_few(&[(0, 1_100)]), "in memory");
    assert!(!are_few(&[(0, 600), (700, 1_300)]), "in memory, all ranges together");
    engine.flush().await.unwrap();
    assert!(are_few(&[(0, 1_000)]) && !are_few(&[(0, 1_100)]), "in a segment");
    assert!(are_few(&[(0, 100), (700, 800)]) && !are_few(&[(0, 600), (700, 1_300)]), "in a segment, several ranges");
    commit(500..3_000).await;
    assert!(are_few(&[(0, 500)]) && !are_few(&[(0, 1_100)]) && !are_few(&[(500, 3_000)]), "in both");
    assert!(!are_few(&[(0, 3_000)]));
    let in_memory = RowSet::new([KeyRange::new(name(100), Some(name(200).into())), KeyRange::point(&key(&name(700)))]);
    assert_eq!(Store::columnar(engine.as_ref()).unwrap().few_rows(&table(), &in_memory), Some(102));
}

/// Plans `count` scans of everything by row groups.
async fn scans(engine: &Arc<Engine>, count: usize) {
    for _ in 0..count {
        let request = ColumnarRequest {
            rows: RowSet::all(),
            span: KeyRange::all(),
            columns: Vec::new(),
            key: None,
            or_row_key: false,
            pin: None,
        };
        assert!(!Store::columnar(engine.as_ref()).unwrap().columnar(&table(), request).unwrap().memory.is_empty());
    }
    // The log thread freezes after it has installed, so the freeze is done once it installs again.
    let engine = engine.clone();
    blocking(move || engine.maintenance.settle().and_then(|()| engine.maintenance.settle())).await.unwrap();
}

#[tokio::test]
async fn a_memtable_that_scans_keep_reading_is_flushed() {
    let options = EngineOptions { memtable_bytes: Some(MEMTABLE_BYTES_MIN), ..simulated(&SimFs::new()) };
    let engine = Engine::open(options).await.unwrap();
    engine.create_table(&table(), schema(GcRule::KeepAll)).await.unwrap();
    let rows = |from: usize, to: usize| (from..to).map(|row| put(&format!("{row:03}"), vec![b'v'; 100]));
    // A small memtable is left alone, however often it is read.
    for row in rows(0, 10) {
        engine.commit(row).await.unwrap();
    }
    scans(&engine, 100).await;
    assert!(engine.inspection().memory.memtable_bytes > 0);
    for row in rows(10, 200) {
        engine.commit(row).await.unwrap();
    }
    scans(&engine, 10).await;
    assert!(engine.inspection().memory.memtable_bytes > 0);
    scans(&engine, 6).await;
    assert_eq!(engine.inspection().memory.memtable_bytes, 0);
    engine.flush().await.unwrap();
    assert_eq!(values(engine.as_ref()).await.len(), 200);
}

/// With such wide columns a page has a few rows.
const PAGE_ROWS: usize = 8;

#[tokio::test]
async fn a_scan_of_keys_far_apart_reads_no_other_pages() {
    const ROWS: usize = 16_000;
    const APART: usize = 160;
    let fs = SimFs::new();
    let options = || EngineOptions {
        log_file_bytes: 8 << 20,
        granularity: Granularity { page_rows_max: PAGE_ROWS, ..Granularity::default() },
        ..simulated(&fs)
    };
    let engine = with_table(options()).await;
    let name = |row: usize| format!("row {row:05}");
    for first in (0..ROWS).step_by(2_000) {
        let rows = (first..first + 2_000).map(|row| crate::RowMutation {
            key: key(&name(row)),
            mutations: vec![set(format!("{:x}", (row as u128 + 1).pow(9)))],
        });
        engine.mutate_rows(&table(), rows.collect()).await.unwrap();
    }
    engine.flush().await.unwrap();
    engine.close().await.unwrap();
    // Each range begins and ends between rows, so that it needs a search, and is not a single key.
    let range = |row: usize| KeyRange::new(name(row), Some(format!("{}!", name(row)).into()));
    let far_apart = RowSet::new((0..ROWS).step_by(APART).map(range));
    for reversed in [false, true] {
        // With empty caches.
        let engine = Engine::open(options()).await.unwrap();
        let reads = async |rows: RowSet| {
            let before = fs.count("read");
            let found = engine.read_rows(&table(), Scan { rows, reversed, ..Scan::all() }).await.unwrap();
            (found.len(), fs.count("read") - before)
        };
        // The segment's tail first.
        reads(RowSet::new([range(7)])).await;
        let (found, pages) = reads(far_apart.clone()).await;
        assert_eq!(found, ROWS / APART);
        // For each range a page of keys for the search, and for each column the page with the row: keys again, and
        // values.
        assert!(pages <= 3 * ROWS / APART, "{pages}");
        let (found, of_all) = reads(RowSet::all()).await;
        assert!(found == ROWS && of_all > 10 * pages, "{of_all}");
        engine.close().await.unwrap();
    }
}
