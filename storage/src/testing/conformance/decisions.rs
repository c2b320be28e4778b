//! Check-and-mutate and read-modify-write.

use crate::{
    CheckAndMutate, ErrorKind, Filter, GcRule, Mutation, ReadModifyWrite, TableName,
    testing::notation::{Subject, aggregates, family, key, render, set, set_now, table},
};
use bytes::Bytes;

fn request(row: &str, predicate: Option<Filter>, then: Vec<Mutation>, otherwise: Vec<Mutation>) -> CheckAndMutate {
    CheckAndMutate { key: key(row), predicate, then, otherwise }
}

async fn decide(s: &Subject, request: CheckAndMutate) -> bool {
    s.store.check_and_mutate(&table(), request).await.unwrap()
}

pub(super) async fn check_and_mutate_decides(s: &Subject) {
    s.create_plain().await;
    let insert = || request("k", None, vec![], vec![set("a:q", 1, "first")]);
    assert!(!decide(s, insert()).await, "the row was absent");
    s.check("inserted", &["k: a:q@1=first"]).await;
    let second = request("k", None, vec![], vec![set("a:q", 2, "second")]);
    assert!(decide(s, second).await, "the row was there");
    s.check("left alone", &["k: a:q@1=first"]).await;
    let swap = |old: &str, new: &str| {
        let old = Filter::Chain(vec![Filter::CellsPerColumn(1), Filter::ValueRegex(old.into())]);
        request("k", Some(old), vec![set_now("a:q", new)], vec![set("b:q", 1, "no")])
    };
    assert!(decide(s, swap("first", "second")).await);
    assert!(!decide(s, swap("first", "third")).await);
    let rows = s.read(crate::Scan { versions_max: Some(1), ..crate::Scan::all() }).await;
    assert!(rows[0].contains("=second b:q@1=no"), "{rows:?}");
    assert!(decide(s, request("k", Some(Filter::PassAll), vec![Mutation::DeleteFromRow], vec![])).await);
    s.check("deleted", &[]).await;
}

pub(super) async fn check_and_mutate_looks_at_living_cells(s: &Subject) {
    s.create(&[("a", GcRule::MaxVersions(1)), ("b", GcRule::MaxAgeMicros(1_000_000))]).await;
    s.write("k", vec![set("a:q", 1, "old"), set("a:q", 2, "new")]).await;
    let old = Filter::ValueRegex("old".into());
    assert!(!decide(s, request("k", Some(old), vec![set("a:r", 1, "yes")], vec![set("a:r", 1, "no")])).await);
    s.write("l", vec![set("b:q", 1_000_000, "v")]).await;
    s.clock.set(2_500_000);
    assert!(!decide(s, request("l", None, vec![set("a:r", 1, "yes")], vec![set("a:r", 1, "no")])).await);
    s.check("condemned cells decide nothing", &["k: a:q@2=new a:r@1=no", "l: a:r@1=no"]).await;
    // A write after the read is newer than the cells that were read.
    s.write("m", vec![set("a:q", 70_000_000, "ahead")]).await;
    assert!(decide(s, request("m", None, vec![set_now("a:q", "seen")], vec![])).await);
    s.check_scan("newer", crate::Scan::of(crate::KeyRange::point(b"m")), &["m: a:q@70000001=seen"]).await;
}

pub(super) async fn check_and_mutate_is_checked(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v")]).await;
    let good = || vec![set("a:q", 2, "w")];
    for (bad, kind) in [
        (request("k", None, vec![], vec![]), ErrorKind::Invalid),
        (request("k", Some(Filter::ValueRegex("(".into())), good(), vec![]), ErrorKind::Invalid),
        (request("k", None, good(), vec![set("none:q", 1, "the branch not taken")]), ErrorKind::NotFound),
        (request("k", None, vec![set("a:q", -1, "v")], good()), ErrorKind::Invalid),
    ] {
        let refused = s.store.check_and_mutate(&table(), bad.clone()).await;
        assert_eq!(refused.unwrap_err().kind(), kind, "{bad:?}");
    }
    let none = TableName::new("none").unwrap();
    let refused = s.store.check_and_mutate(&none, request("k", None, good(), vec![])).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
}

fn append(at: &str, qualifier: &'static str, value: &'static str) -> ReadModifyWrite {
    ReadModifyWrite::Append { family: family(at), qualifier: qualifier.into(), value: value.into() }
}

fn increment(at: &str, qualifier: &'static str, by: i64) -> ReadModifyWrite {
    ReadModifyWrite::Increment { family: family(at), qualifier: qualifier.into(), by }
}

/// The written cells, without timestamps.
async fn modify(s: &Subject, row: &str, rules: Vec<ReadModifyWrite>) -> Vec<(String, Bytes)> {
    let row = s.store.read_modify_write(&table(), key(row), rules).await.unwrap();
    let named = |cell: &crate::Cell| format!("{}:{}", cell.family, cell.qualifier.escape_ascii());
    row.cells.iter().map(|cell| (named(cell), cell.value.clone())).collect()
}

fn number(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) async fn appends_and_increments(s: &Subject) {
    s.create_plain().await;
    let cell = |name: &str, value: Bytes| (name.to_owned(), value);
    let wrote = modify(s, "k", vec![increment("b", "n", 5), append("a", "t", "ab")]).await;
    assert_eq!(wrote, [cell("a:t", "ab".into()), cell("b:n", number(5))], "absent counts as zero and as nothing");
    let wrote = modify(s, "k", vec![increment("b", "n", -7)]).await;
    assert_eq!(wrote, [cell("b:n", number(-2))]);
    let rules = vec![append("a", "t", "c"), append("a", "t", "d"), append("a", "u", ""), increment("b", "n", 3)];
    let wrote = modify(s, "k", rules).await;
    let want = [cell("a:t", "abcd".into()), cell("a:u", "".into()), cell("b:n", number(1))];
    assert_eq!(wrote, want, "rules see each other, one cell for each column");
    modify(s, "k", vec![increment("b", "max", i64::MAX)]).await;
    assert_eq!(modify(s, "k", vec![increment("b", "max", 1)]).await, [cell("b:max", number(i64::MIN))], "it wraps");
    // The existing cells, written by any mutation, newest first.
    s.write("l", vec![set("a:t", 3, "old"), set("a:t", 5, "new")]).await;
    assert_eq!(modify(s, "l", vec![append("a", "t", "er")]).await, [cell("a:t", "newer".into())]);
}

pub(super) async fn read_modify_write_is_newest(s: &Subject) {
    s.create(&[("a", GcRule::KeepAll), ("b", GcRule::MaxAgeMicros(1_000_000))]).await;
    s.write("k", vec![set("a:t", 60_000_000, "ahead")]).await;
    let row = s.store.read_modify_write(&table(), key("k"), vec![append("a", "t", "!")]).await.unwrap();
    assert_eq!(render(&row), "k: a:t@60000001=ahead!");
    s.check("kept beside the old one", &["k: a:t@60000001=ahead! a:t@60000000=ahead"]).await;
    s.write("l", vec![set("b:t", 1_000_000, "too old")]).await;
    s.clock.set(3_000_000);
    let row = s.store.read_modify_write(&table(), key("l"), vec![append("b", "t", "new")]).await.unwrap();
    assert_eq!(row.cells[0].value, "new", "a condemned cell counts as absent");
}

pub(super) async fn bad_read_modify_writes_are_refused(s: &Subject) {
    s.store.create_table(&table(), aggregates()).await.unwrap();
    s.write("k", vec![set("plain:t", 1, "text")]).await;
    for (rules, kind) in [
        (vec![], ErrorKind::Invalid),
        (vec![append("plain", "u", "not applied"), increment("plain", "t", 1)], ErrorKind::Invalid),
        (vec![increment("sum", "n", 1)], ErrorKind::Invalid),
        (vec![append("hll", "n", "")], ErrorKind::Invalid),
        (vec![append("none", "n", "")], ErrorKind::NotFound),
    ] {
        let refused = s.store.read_modify_write(&table(), key("k"), rules.clone()).await;
        assert_eq!(refused.unwrap_err().kind(), kind, "{rules:?}");
    }
    s.check("nothing was lost", &["k: plain:t@1=text"]).await;
}
