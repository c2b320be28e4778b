//! History: rows as of a time.
//!
//! Mostly each commit has its own second: the clock is set to it, so that stamps are known.

use crate::{
    CheckAndMutate, Commit, ErrorKind, Family, FamilyChange, FamilyName, GcRule, History, KeyRange, Mutation,
    ReadModifyWrite, RowMutation, Scan, StoreExt, TableSchema,
    testing::notation::{
        Subject, add, aggregates, delete, delete_between, delete_range, family, key, range, schema, set, set_now,
        table, write,
    },
};

const SECOND: i64 = 1_000_000;
/// Long enough for most cases.
const KEEP: i64 = 1_000 * SECOND;

async fn create(s: &Subject, families: TableSchema, keep_micros: i64) {
    let history = Some(History { keep_micros, since_micros: 0 });
    s.store.create_table(&table(), TableSchema { history, ..families }).await.unwrap();
}

/// Families `a` and `b` that keep everything.
async fn create_plain(s: &Subject) {
    create(s, schema(&[("a", GcRule::KeepAll), ("b", GcRule::KeepAll)]), KEEP).await;
}

/// Writes a row at a second.
async fn at(s: &Subject, second: i64, row: &str, mutations: Vec<Mutation>) {
    s.clock.set(second * SECOND);
    s.write(row, mutations).await;
}

fn as_of(micros: i64) -> Scan {
    Scan { as_of: Some(micros), ..Scan::all() }
}

/// Checks the rows half a second after a second: after all commits while the clock was set to it.
async fn check(s: &Subject, second: i64, want: &[&str]) {
    s.check_scan(format!("after {second} s"), as_of(second * SECOND + SECOND / 2), want).await;
}

/// The error of a scan as of a time.
async fn refusal(s: &Subject, micros: i64) -> ErrorKind {
    s.store.read_rows(&table(), as_of(micros)).await.unwrap_err().kind()
}

async fn modify(s: &Subject, changes: Vec<FamilyChange>) {
    s.store.modify_families(&table(), changes).await.unwrap();
}

async fn since(s: &Subject) -> Option<i64> {
    s.store.table(&table()).await.unwrap().history.map(|history| history.since_micros)
}

fn name(family: &str) -> FamilyName {
    crate::testing::notation::family(family)
}

pub(super) async fn rows_as_they_were(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![set("a:q", 1, "one")]).await;
    at(s, 3, "l", vec![set("a:q", 1, "other")]).await;
    at(s, 4, "k", vec![set("a:q", 2, "two"), set("b:q", 1, "b")]).await;
    at(s, 5, "k", vec![delete("a:q")]).await;
    at(s, 6, "k", vec![Mutation::DeleteFromRow]).await;
    at(s, 7, "k", vec![set("a:q", 1, "again")]).await;
    s.clock.set(8 * SECOND);
    check(s, 1, &[]).await;
    check(s, 2, &["k: a:q@1=one"]).await;
    check(s, 3, &["k: a:q@1=one", "l: a:q@1=other"]).await;
    check(s, 4, &["k: a:q@2=two a:q@1=one b:q@1=b", "l: a:q@1=other"]).await;
    check(s, 5, &["k: b:q@1=b", "l: a:q@1=other"]).await;
    check(s, 6, &["l: a:q@1=other"]).await;
    check(s, 7, &["k: a:q@1=again", "l: a:q@1=other"]).await;
    s.check("now", &["k: a:q@1=again", "l: a:q@1=other"]).await;
}

pub(super) async fn a_timestamp_lies_between_commits(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![set("a:q", 1, "v")]).await;
    let first = s.store.commit(Commit { writes: vec![write("k", vec![set("a:q", 1, "w")])], validation: None });
    let first = first.await.unwrap();
    let second = s.store.commit(Commit { writes: vec![write("k", vec![set("a:q", 1, "x")])], validation: None });
    let second = second.await.unwrap();
    s.clock.set(3 * SECOND);
    s.check_scan("before the first", as_of(first - 1), &["k: a:q@1=v"]).await;
    s.check_scan("with the first", as_of(first), &["k: a:q@1=w"]).await;
    s.check_scan("before the second", as_of(second - 1), &["k: a:q@1=w"]).await;
    s.check_scan("with the second", as_of(second), &["k: a:q@1=x"]).await;
    // A client's timestamp is not the time of a commit: a cell with an old or a future timestamp exists since it was
    // written.
    at(s, 4, "m", vec![set("a:q", 0, "old"), set("a:q", 99 * SECOND, "ahead")]).await;
    s.clock.set(5 * SECOND);
    s.check_scan("not yet written", as_of(3 * SECOND), &["k: a:q@1=x"]).await;
    check(s, 4, &["k: a:q@1=x", "m: a:q@99000000=ahead a:q@0=old"]).await;
}

pub(super) async fn absent_rows_are_absent(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![delete("a:q")]).await;
    at(s, 3, "k", vec![set("a:q", 1, "v"), Mutation::DeleteFromRow]).await;
    at(s, 4, "k", vec![set("a:q", 1, "w")]).await;
    at(s, 5, "k", vec![Mutation::DeleteFromRow]).await;
    at(s, 6, "k", vec![Mutation::DeleteFromRow]).await;
    s.clock.set(7 * SECOND);
    for (second, want) in [(2, &[][..]), (3, &[]), (4, &["k: a:q@1=w"]), (5, &[]), (6, &[])] {
        check(s, second, want).await;
    }
}

pub(super) async fn the_past_is_read_as_the_present_is(s: &Subject) {
    create_plain(s).await;
    for row in ["a", "a\0", "ab", "b", "c"] {
        at(s, 2, row, vec![set("a:p", 1, row), set("a:q", 2, "2"), set("a:q", 1, "1"), set("b:q", 3, "b")]).await;
    }
    s.clock.set(3 * SECOND);
    let scans = [
        Scan { rows_max: Some(2), reversed: true, ..Scan::all() },
        Scan { rows_max: Some(3), ..Scan::of(range("a\0", "c")) },
        Scan::of(KeyRange::point(b"ab")),
        Scan::of(crate::RowSet::new([KeyRange::point(b"a"), KeyRange::prefix(&b"b"[..]), KeyRange::point(b"none")])),
        Scan { versions_max: Some(1), ..Scan::all() },
        Scan { timestamps: crate::TimestampRange { start: 2, end: Some(3) }, ..Scan::all() },
        Scan { filter: Some(crate::Filter::QualifierRegex("p".into())), ..Scan::all() },
        Scan {
            columns: crate::Columns::Of(vec![crate::scan::FamilyColumns { family: family("b"), qualifiers: None }]),
            ..Scan::all()
        },
        Scan { columns: crate::Columns::Of(vec![]), keep_empty: true, ..Scan::all() },
    ];
    let mut before = Vec::new();
    for scan in &scans {
        before.push(s.read(scan.clone()).await);
        assert!(!before.last().unwrap().is_empty(), "{scan:?} reads something");
    }
    at(s, 4, "a", vec![Mutation::DeleteFromRow]).await;
    at(s, 4, "ab", vec![set("a:q", 9, "9"), delete("b:q")]).await;
    at(s, 4, "bb", vec![set("a:q", 9, "new")]).await;
    at(s, 5, "ab", vec![delete("a:q")]).await;
    for (scan, before) in scans.into_iter().zip(before) {
        assert_ne!(s.read(scan.clone()).await, before, "the rows have changed: {scan:?}");
        let then = Scan { as_of: Some(3 * SECOND), ..scan };
        assert_eq!(s.read(then.clone()).await, before, "{then:?}");
    }
}

pub(super) async fn history_begins_and_ends(s: &Subject) {
    s.create_plain().await;
    at(s, 2, "k", vec![set("a:q", 1, "before")]).await;
    assert_eq!(since(s).await, None);
    assert_eq!(refusal(s, 2 * SECOND).await, ErrorKind::NoHistory);
    s.clock.set(3 * SECOND);
    modify(s, vec![FamilyChange::SetHistory(Some(KEEP))]).await;
    let begun = since(s).await.unwrap();
    assert!((3 * SECOND..4 * SECOND).contains(&begun), "since its commit: {begun}");
    at(s, 4, "k", vec![set("a:q", 1, "after")]).await;
    s.clock.set(5 * SECOND);
    assert_eq!(refusal(s, begun - 1).await, ErrorKind::TooOld);
    s.check_scan("what was there when it began", as_of(begun), &["k: a:q@1=before"]).await;
    check(s, 4, &["k: a:q@1=after"]).await;
    // Additions leave history as it is.
    modify(s, vec![FamilyChange::Create(name("c"), Family::default()), FamilyChange::SetHistory(Some(KEEP))]).await;
    assert_eq!(since(s).await, Some(begun));
    s.check_scan("still", as_of(begun), &["k: a:q@1=before"]).await;
    modify(s, vec![FamilyChange::SetHistory(None)]).await;
    assert_eq!(refusal(s, 4 * SECOND).await, ErrorKind::NoHistory);
    at(s, 6, "k", vec![set("a:q", 1, "between")]).await;
    // Switched on again, it begins empty.
    s.clock.set(7 * SECOND);
    modify(s, vec![FamilyChange::SetHistory(Some(KEEP))]).await;
    s.clock.set(8 * SECOND);
    assert_eq!(refusal(s, 5 * SECOND).await, ErrorKind::TooOld);
    assert_eq!(refusal(s, 6 * SECOND).await, ErrorKind::TooOld);
    s.check_scan("begun again", as_of(8 * SECOND), &["k: a:q@1=between"]).await;
}

pub(super) async fn semantics_7_what_cannot_be_asked(s: &Subject) {
    create(s, schema(&[("a", GcRule::KeepAll)]), 10 * SECOND).await;
    let begun = since(s).await.unwrap();
    for second in 2..=30 {
        at(s, second, "k", vec![set("a:q", 1, &second.to_string())]).await;
    }
    let now = s.store.pin().await.unwrap().now_micros;
    assert_eq!(refusal(s, now + 1).await, ErrorKind::Future);
    assert_eq!(refusal(s, i64::MAX).await, ErrorKind::Future);
    assert_eq!(refusal(s, now - 10 * SECOND - 1).await, ErrorKind::TooOld);
    assert_eq!(refusal(s, begun).await, ErrorKind::TooOld);
    assert_eq!(refusal(s, i64::MIN).await, ErrorKind::TooOld);
    s.check_scan("the oldest", as_of(now - 10 * SECOND), &["k: a:q@1=20"]).await;
    s.check_scan("the newest", as_of(now), &["k: a:q@1=30"]).await;
    let short = TableSchema { history: Some(History { keep_micros: 999, since_micros: 0 }), ..schema(&[]) };
    let other = crate::TableName::new("other").unwrap();
    assert_eq!(s.store.create_table(&other, short).await.unwrap_err().kind(), ErrorKind::Invalid);
    let short = s.store.modify_families(&table(), vec![FamilyChange::SetHistory(Some(999))]).await;
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Invalid);
    // The schema includes the duration.
    assert_eq!(s.store.table(&table()).await.unwrap().history.unwrap().keep_micros, 10 * SECOND);
}

pub(super) async fn keeping_longer_brings_nothing_back(s: &Subject) {
    create(s, schema(&[("a", GcRule::KeepAll)]), 10 * SECOND).await;
    for second in [2, 20, 40] {
        at(s, second, "k", vec![set("a:q", 1, &second.to_string())]).await;
    }
    modify(s, vec![FamilyChange::SetHistory(Some(KEEP))]).await;
    s.clock.set(50 * SECOND);
    assert_eq!(refusal(s, 29 * SECOND).await, ErrorKind::TooOld);
    check(s, 31, &["k: a:q@1=20"]).await;
    modify(s, vec![FamilyChange::SetHistory(Some(5 * SECOND))]).await;
    assert_eq!(refusal(s, 44 * SECOND).await, ErrorKind::TooOld);
    check(s, 46, &["k: a:q@1=40"]).await;
}

pub(super) async fn semantics_7_a_purge_takes_history_along(s: &Subject) {
    create_plain(s).await;
    for row in ["a1", "a2", "b1", "c1", "d1"] {
        at(s, 2, row, vec![set("a:q", 1, "v")]).await;
    }
    at(s, 3, "a1", vec![set("a:q", 1, "w")]).await;
    at(s, 3, "a2", vec![Mutation::DeleteFromRow]).await;
    at(s, 3, "c1", vec![set("a:q", 1, "w")]).await;
    s.clock.set(4 * SECOND);
    s.store.drop_row_range(&table(), "a".into()).await.unwrap();
    s.store.commit(Commit { writes: vec![delete_range("c", "d")], validation: None }).await.unwrap();
    at(s, 5, "a1", vec![set("a:q", 1, "anew")]).await;
    s.clock.set(6 * SECOND);
    let left: &[&str] = &["b1: a:q@1=v", "d1: a:q@1=v"];
    check(s, 2, left).await;
    check(s, 3, left).await;
    check(s, 4, left).await;
    check(s, 5, &["a1: a:q@1=anew", "b1: a:q@1=v", "d1: a:q@1=v"]).await;
    // Dropping a table drops its history.
    s.store.drop_table(&table()).await.unwrap();
    create_plain(s).await;
    assert_eq!(refusal(s, 3 * SECOND).await, ErrorKind::TooOld);
    s.clock.set(7 * SECOND);
    check(s, 6, &[]).await;
}

pub(super) async fn semantics_6_what_was_condemned_then_is_not_shown(s: &Subject) {
    let age = GcRule::MaxAgeMicros(5 * SECOND);
    create(s, schema(&[("a", GcRule::MaxVersions(2)), ("b", age)]), KEEP).await;
    at(s, 10, "k", vec![set("a:q", 1, "1"), set("b:q", 10 * SECOND, "young"), set("b:r", 7 * SECOND, "old")]).await;
    at(s, 11, "k", vec![set("a:q", 2, "2")]).await;
    at(s, 13, "k", vec![set("a:q", 3, "3")]).await;
    at(s, 20, "k", vec![set("a:q", 4, "4")]).await;
    s.clock.set(30 * SECOND);
    s.check("now", &["k: a:q@4=4 a:q@3=3"]).await;
    check(s, 20, &["k: a:q@4=4 a:q@3=3"]).await;
    // As a reader saw it then: without cells that were too old by then, though the row was not written.
    check(s, 14, &["k: a:q@3=3 a:q@2=2 b:q@10000000=young"]).await;
    check(s, 16, &["k: a:q@3=3 a:q@2=2"]).await;
    check(s, 11, &["k: a:q@2=2 a:q@1=1 b:q@10000000=young b:r@7000000=old"]).await;
    s.check_scan("on the edge", as_of(12 * SECOND), &["k: a:q@2=2 a:q@1=1 b:q@10000000=young b:r@7000000=old"]).await;
    s.check_scan("past it", as_of(12 * SECOND + 1), &["k: a:q@2=2 a:q@1=1 b:q@10000000=young"]).await;
    // A row that no commit has touched since, and whose cells have all expired.
    at(s, 31, "l", vec![set("b:q", 31 * SECOND, "alone")]).await;
    s.clock.set(40 * SECOND);
    s.check("gone", &["k: a:q@4=4 a:q@3=3"]).await;
    check(s, 35, &["k: a:q@4=4 a:q@3=3", "l: b:q@31000000=alone"]).await;
    check(s, 37, &["k: a:q@4=4 a:q@3=3"]).await;
}

pub(super) async fn a_change_of_rules_begins_anew(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![set("a:q", 1, "1"), set("b:q", 1, "b")]).await;
    at(s, 3, "k", vec![set("a:q", 2, "2")]).await;
    s.clock.set(4 * SECOND);
    modify(s, vec![FamilyChange::SetGc(name("a"), GcRule::KeepAll)]).await;
    check(s, 2, &["k: a:q@1=1 b:q@1=b"]).await;
    modify(s, vec![FamilyChange::SetGc(name("a"), GcRule::MaxVersions(1))]).await;
    let begun = since(s).await.unwrap();
    assert!((4 * SECOND..5 * SECOND).contains(&begun), "since the change: {begun}");
    at(s, 5, "k", vec![delete_between("a:q", 2, None)]).await;
    s.clock.set(6 * SECOND);
    assert_eq!(refusal(s, 3 * SECOND).await, ErrorKind::TooOld);
    s.check_scan("after it", as_of(begun), &["k: a:q@2=2 b:q@1=b"]).await;
    modify(s, vec![FamilyChange::Drop(name("b")), FamilyChange::Create(name("b"), Family::default())]).await;
    assert_eq!(refusal(s, 5 * SECOND).await, ErrorKind::TooOld);
    at(s, 7, "k", vec![set("b:q", 2, "new")]).await;
    s.clock.set(8 * SECOND);
    check(s, 6, &[]).await;
    check(s, 7, &["k: b:q@2=new"]).await;
}

pub(super) async fn several_changes_in_one_commit(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![set("a:q", 1, "v")]).await;
    s.clock.set(3 * SECOND);
    let writes = vec![
        write("k", vec![Mutation::DeleteFromRow]),
        write("k", vec![set("a:q", 1, "w")]),
        write("l", vec![set("a:q", 1, "l")]),
        write("k", vec![set("b:q", 1, "x")]),
        write("l", vec![Mutation::DeleteFromRow]),
    ];
    s.store.commit(Commit { writes, validation: None }).await.unwrap();
    s.clock.set(4 * SECOND);
    check(s, 2, &["k: a:q@1=v"]).await;
    check(s, 3, &["k: a:q@1=w b:q@1=x"]).await;
    // A refused commit leaves nothing.
    let writes = vec![write("k", vec![set("a:q", 1, "refused")]), write("k", vec![set("none:q", 1, "v")])];
    assert_eq!(s.store.commit(Commit { writes, validation: None }).await.unwrap_err().kind(), ErrorKind::NotFound);
    at(s, 5, "k", vec![delete("b:q")]).await;
    s.clock.set(6 * SECOND);
    check(s, 4, &["k: a:q@1=w b:q@1=x"]).await;
    check(s, 5, &["k: a:q@1=w"]).await;
}

pub(super) async fn every_kind_of_write_is_kept(s: &Subject) {
    create(s, aggregates(), KEEP).await;
    at(s, 2, "k", vec![add("sum:q", 1, 2), set("plain:q", 1, "v")]).await;
    at(s, 3, "k", vec![add("sum:q", 1, 3)]).await;
    s.clock.set(4 * SECOND);
    let mutations = vec![set("plain:q", 1, "bulk")];
    let statuses = s.store.mutate_rows(&table(), vec![RowMutation { key: key("k"), mutations }]).await.unwrap();
    assert!(statuses[0].is_ok());
    s.clock.set(5 * SECOND);
    let check_and_mutate =
        CheckAndMutate { key: key("k"), predicate: None, then: vec![set("plain:q", 1, "checked")], otherwise: vec![] };
    assert!(s.store.check_and_mutate(&table(), check_and_mutate).await.unwrap());
    s.clock.set(6 * SECOND);
    let append = ReadModifyWrite::Append { family: name("plain"), qualifier: "r".into(), value: "appended".into() };
    s.store.read_modify_write(&table(), key("k"), vec![append]).await.unwrap();
    at(s, 7, "k", vec![delete("plain:r"), set_now("plain:s", "now")]).await;
    s.clock.set(8 * SECOND);
    check(s, 2, &["k: plain:q@1=v sum:q@1=2"]).await;
    check(s, 3, &["k: plain:q@1=v sum:q@1=5"]).await;
    check(s, 4, &["k: plain:q@1=bulk sum:q@1=5"]).await;
    check(s, 5, &["k: plain:q@1=checked sum:q@1=5"]).await;
    let appended = s.read(as_of(6 * SECOND + SECOND / 2)).await;
    assert!(appended[0].contains("plain:r@6") && appended[0].ends_with("=appended sum:q@1=5"), "{appended:?}");
    let last = s.read(as_of(7 * SECOND + SECOND / 2)).await;
    assert!(!last[0].contains("plain:r") && last[0].contains("plain:s@7"), "{last:?}");
}

pub(super) async fn a_pin_keeps_its_past(s: &Subject) {
    create(s, schema(&[("a", GcRule::KeepAll)]), 10 * SECOND).await;
    at(s, 2, "k", vec![set("a:q", 1, "v")]).await;
    at(s, 4, "k", vec![set("a:q", 1, "w")]).await;
    s.clock.set(5 * SECOND);
    let pin = s.store.pin().await.unwrap();
    for second in [6, 30, 40] {
        at(s, second, "k", vec![set("a:q", 1, "later")]).await;
    }
    s.store.drop_row_range(&table(), "k".into()).await.unwrap();
    let then = |micros| Scan { pin: Some(pin.clone()), ..as_of(micros) };
    s.check_scan("at the pin's past", then(3 * SECOND), &["k: a:q@1=v"]).await;
    s.check_scan("at its newest", then(5 * SECOND), &["k: a:q@1=w"]).await;
    let future = s.store.read_rows(&table(), then(7 * SECOND)).await.unwrap_err();
    assert_eq!(future.kind(), ErrorKind::Future, "the pin's time counts, not the store's");
    modify(s, vec![FamilyChange::SetHistory(None)]).await;
    s.check_scan("whatever becomes of the table", then(3 * SECOND), &["k: a:q@1=v"]).await;
}

pub(super) async fn an_erased_column_has_no_past(s: &Subject) {
    create_plain(s).await;
    at(s, 2, "k", vec![set("a:p", 1, "gone"), set("a:q", 1, "one")]).await;
    at(s, 3, "k", vec![set("a:p", 2, "gone too"), set("a:q", 1, "two")]).await;
    s.clock.set(4 * SECOND);
    super::gc::erase(s, &["p"]).await;
    assert_eq!(since(s).await, Some(4 * SECOND));
    assert_eq!(refusal(s, 3 * SECOND).await, ErrorKind::TooOld);
    s.clock.set(5 * SECOND);
    check(s, 4, &["k: a:q@1=two"]).await;
    at(s, 6, "k", vec![set("a:q", 1, "three")]).await;
    s.clock.set(7 * SECOND);
    check(s, 5, &["k: a:q@1=two"]).await;
    // That the column may be used again takes nothing from history.
    s.store.purge_cells(&[table()]).await.unwrap();
    super::gc::erase(s, &[]).await;
    assert_eq!(since(s).await, Some(4 * SECOND));
    check(s, 5, &["k: a:q@1=two"]).await;
}

pub(super) async fn sizes_of_history(s: &Subject) {
    create_plain(s).await;
    let versions = async |rows: &KeyRange| s.store.history_size(&table(), rows, None).await.unwrap().versions;
    assert_eq!(versions(&KeyRange::all()).await, 0);
    at(s, 2, "k", vec![set("a:q", 1, "one")]).await;
    at(s, 3, "k", vec![set("a:q", 1, "two")]).await;
    at(s, 4, "l", vec![set("a:q", 1, "one")]).await;
    at(s, 5, "k", vec![Mutation::DeleteFromRow]).await;
    let before = s.store.pin().await.unwrap();
    assert_eq!((versions(&KeyRange::all()).await, versions(&KeyRange::prefix("k")).await), (4, 3));
    assert!(s.store.history_size(&table(), &KeyRange::all(), None).await.unwrap().bytes > 0);
    s.store.drop_row_range(&table(), "k".into()).await.unwrap();
    assert_eq!(versions(&KeyRange::all()).await, 1);
    let then = s.store.history_size(&table(), &KeyRange::all(), Some(before)).await.unwrap();
    assert_eq!(then.versions, 4);
}
