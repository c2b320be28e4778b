//! The selection, order and batches of a scan.

use crate::{
    Columns, ErrorKind, GcRule, KeyRange, Mutation, RowKey, RowMutation, RowSet, Scan, ScanMetrics, TimestampRange,
    scan::FamilyColumns,
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX},
    testing::notation::{Subject, family, range, set, table},
};
use bytes::Bytes;
use futures::TryStreamExt;
use std::sync::{Arc, atomic::Ordering};

async fn letters(s: &Subject) {
    s.create_plain().await;
    for letter in ["a", "b", "b1", "b2", "c", "d"] {
        s.write(letter, vec![set("a:q", 1, letter)]).await;
    }
}

async fn check_keys(s: &Subject, what: &str, scan: Scan, want: &str) {
    let rows = s.read(scan).await;
    let keys: Vec<_> = rows.iter().filter_map(|row| row.split(':').next()).collect();
    assert_eq!(keys.join(" "), want, "{what}");
}

pub(super) async fn ranges_and_points(s: &Subject) {
    letters(s).await;
    for (rows, want) in [
        (RowSet::all(), "a b b1 b2 c d"),
        (range("b", "c").into(), "b b1 b2"),
        (range("b0", "b2").into(), "b1"),
        (KeyRange::new(&b"b1"[..], None).into(), "b1 b2 c d"),
        (KeyRange::point(b"b").into(), "b"),
        (KeyRange::point(b"none").into(), ""),
        (KeyRange::prefix(&b"b"[..]).into(), "b b1 b2"),
        (KeyRange::prefix(&b""[..]).into(), "a b b1 b2 c d"),
        (RowSet::new([KeyRange::point(b"d"), range("a", "b1"), KeyRange::point(b"a"), range("x", "z")]), "a b d"),
        (KeyRange::new(vec![b'b'; 5_000], None).into(), "c d"),
    ] {
        check_keys(s, &format!("{rows:?}"), Scan::of(rows.clone()), want).await;
        let reversed: Vec<_> = want.split(' ').rev().collect();
        let scan = Scan { reversed: true, ..Scan::of(rows.clone()) };
        check_keys(s, &format!("{rows:?}, reversed"), scan, &reversed.join(" ")).await;
    }
}

pub(super) async fn an_empty_set_reads_nothing(s: &Subject) {
    letters(s).await;
    check_keys(s, "no range is no row, never all of them", Scan::of(RowSet::none()), "").await;
    check_keys(s, "neither is an empty range", Scan::of(range("c", "b")), "").await;
    check_keys(s, "nor reversed", Scan { reversed: true, ..Scan::of(RowSet::none()) }, "").await;
}

pub(super) async fn limits_and_directions(s: &Subject) {
    letters(s).await;
    let both = || RowSet::new([range("a", "b1"), range("b2", "d")]);
    for (rows, rows_max, reversed, want) in [
        (RowSet::all(), Some(2), false, "a b"),
        (RowSet::all(), Some(2), true, "d c"),
        (RowSet::all(), Some(99), false, "a b b1 b2 c d"),
        (RowSet::all(), Some(0), false, ""),
        (both(), Some(3), false, "a b b2"),
        (both(), Some(3), true, "c b2 b"),
        (both(), None, true, "c b2 b a"),
    ] {
        let what = format!("{rows:?} {rows_max:?} {reversed}");
        check_keys(s, &what, Scan { rows_max, reversed, ..Scan::of(rows) }, want).await;
    }
    // Rows that the filter removes do not count towards the scan's limit.
    let filter = Some(crate::Filter::RowKeyRegex("[cd]|b.".into()));
    check_keys(s, "filtered", Scan { rows_max: Some(2), filter, ..Scan::all() }, "b1 b2").await;
}

fn columns(wanted: &[(&str, Option<&[&str]>)]) -> Columns {
    let qualifiers = |all: &&[&str]| all.iter().map(|one| Bytes::copy_from_slice(one.as_bytes())).collect();
    let of = |(name, all): &(&str, Option<&[&str]>)| FamilyColumns {
        family: family(name),
        qualifiers: all.as_ref().map(qualifiers),
    };
    Columns::Of(wanted.iter().map(of).collect())
}

pub(super) async fn columns_are_chosen(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:p", 1, "1"), set("a:q", 2, "2"), set("a:q", 1, "3"), set("b:p", 1, "4")]).await;
    s.write("l", vec![set("b:z", 1, "5")]).await;
    for (wanted, want) in [
        (Columns::All, &["k: a:p@1=1 a:q@2=2 a:q@1=3 b:p@1=4", "l: b:z@1=5"][..]),
        (columns(&[("a", None)]), &["k: a:p@1=1 a:q@2=2 a:q@1=3"]),
        (columns(&[("a", Some(&["q", "z"])), ("b", None)]), &["k: a:q@2=2 a:q@1=3 b:p@1=4", "l: b:z@1=5"]),
        (columns(&[("a", Some(&[])), ("b", Some(&["p"]))]), &["k: b:p@1=4"]),
        (columns(&[("none", None)]), &[]),
        (columns(&[]), &[]),
    ] {
        s.check_scan(&wanted, Scan { columns: wanted.clone(), ..Scan::all() }, want).await;
    }
}

pub(super) async fn timestamps_and_versions(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:p", 2, "p2"), set("a:q", 1, "q1"), set("a:q", 2, "q2"), set("a:q", 3, "q3")]).await;
    for (start, end, versions_max, want) in [
        (i64::MIN, None, Some(1), "k: a:p@2=p2 a:q@3=q3"),
        (i64::MIN, None, Some(2), "k: a:p@2=p2 a:q@3=q3 a:q@2=q2"),
        (2, None, None, "k: a:p@2=p2 a:q@3=q3 a:q@2=q2"),
        (1, Some(3), None, "k: a:p@2=p2 a:q@2=q2 a:q@1=q1"),
        // Versions are counted after the selection by timestamps.
        (1, Some(3), Some(1), "k: a:p@2=p2 a:q@2=q2"),
        (i64::MIN, Some(2), Some(1), "k: a:q@1=q1"),
    ] {
        let scan = Scan { timestamps: TimestampRange { start, end }, versions_max, ..Scan::all() };
        s.check_scan((start, end, versions_max), scan, &[want]).await;
    }
    let scan = Scan { timestamps: TimestampRange { start: 4, end: None }, ..Scan::all() };
    s.check_scan("nothing chosen, no row", scan, &[]).await;
}

pub(super) async fn rows_of_which_nothing_was_chosen(s: &Subject) {
    s.create(&[("a", GcRule::KeepAll), ("b", GcRule::MaxAgeMicros(2_000_000))]).await;
    s.write("k", vec![set("a:q", 1, "v")]).await;
    s.write("l", vec![set("b:q", 1_000_000, "w")]).await;
    let scan = |keep_empty| Scan { columns: columns(&[("a", None)]), keep_empty, ..Scan::all() };
    s.check_scan("left out", scan(false), &["k: a:q@1=v"]).await;
    s.check_scan("kept", scan(true), &["k: a:q@1=v", "l:"]).await;
    let blocked = |rows_max| Scan { filter: Some(crate::Filter::BlockAll), keep_empty: true, rows_max, ..Scan::all() };
    s.check_scan("kept whatever the filter", blocked(None), &["k:", "l:"]).await;
    s.check_scan("and counted", blocked(Some(1)), &["k:"]).await;
    s.clock.set(3_000_001);
    s.check_scan("but only while a cell lives", scan(true), &["k: a:q@1=v"]).await;
}

pub(super) async fn batches_are_bounded(s: &Subject) {
    s.create_plain().await;
    let count = 2 * BATCH_ROWS_MAX + 100;
    let row = |number: usize| RowMutation {
        key: RowKey::new(format!("{number:06}")).unwrap(),
        mutations: vec![set("a:q", 1, "v")],
    };
    let statuses = s.store.mutate_rows(&table(), (0..count).map(row).collect()).await.unwrap();
    assert!(statuses.iter().all(Result::is_ok));
    for reversed in [false, true] {
        // Two ranges that touch in the middle of a batch, and are read as one.
        let rows = RowSet::new([range("0", "000700"), range("000700x", "9")]);
        let batches: Vec<_> = s.store.scan(&table(), Scan { reversed, ..Scan::of(rows) }).try_collect().await.unwrap();
        assert!(batches.iter().all(|batch| !batch.is_empty() && batch.len() <= BATCH_ROWS_MAX));
        let keys: Vec<String> = batches.iter().flatten().map(|row| row.key.escape_ascii().to_string()).collect();
        let mut want: Vec<String> =
            (0..count).filter(|&number| number != 700).map(|number| format!("{number:06}")).collect();
        if reversed {
            want.reverse();
        }
        assert!(keys == want, "each row once and in order, reversed: {reversed}");
    }
}

pub(super) async fn batches_are_bounded_in_bytes(s: &Subject) {
    s.create_plain().await;
    let value = Bytes::from(vec![b'v'; BATCH_BYTES_TARGET / 2]);
    for number in 0..5 {
        let mutation = Mutation::SetCell {
            family: family("a"),
            qualifier: Bytes::from_static(b"q"),
            timestamp: Some(1),
            value: value.clone(),
        };
        s.write(&number.to_string(), vec![mutation]).await;
    }
    let batches: Vec<_> = s.store.scan(&table(), Scan::all()).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 5);
    for batch in &batches {
        let before_last: usize = batch[..batch.len() - 1].iter().map(crate::Row::size).sum();
        assert!(before_last < BATCH_BYTES_TARGET, "a batch went on after {before_last} bytes");
    }
}

pub(super) async fn metrics_count(s: &Subject) {
    letters(s).await;
    s.write("d", vec![set("a:r", 1, "r"), set("b:r", 1, "r")]).await;
    let metrics = Arc::new(ScanMetrics::default());
    let filter = Some(crate::Filter::QualifierRegex("r".into()));
    let scan = Scan { filter, metrics: Some(metrics.clone()), ..Scan::of(range("b", "z")) };
    s.check_scan("counted", scan, &["d: a:r@1=r b:r@1=r"]).await;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::SeqCst);
    assert_eq!((count(&metrics.rows_seen), count(&metrics.rows_returned)), (5, 1));
    assert_eq!((count(&metrics.cells_seen), count(&metrics.cells_returned)), (7, 2));
    assert!(
        count(&metrics.bytes_seen) >= 7 * 11,
        "seven cells have at least their timestamp, family, qualifier and value"
    );
}

pub(super) async fn bad_scans_are_refused(s: &Subject) {
    letters(s).await;
    for wanted in [
        columns(&[("b", None), ("a", None)]),
        columns(&[("a", None), ("a", None)]),
        columns(&[("a", Some(&["z", "y"]))]),
    ] {
        let scan = Scan { columns: wanted.clone(), ..Scan::all() };
        let error = s.store.scan(&table(), scan).try_concat().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{wanted:?}");
    }
}
