//! Garbage collection: a condemned cell is never read, and never reappears.

use crate::{
    Cell, Columns, ErrorKind, FamilyChange, GcRule, Mutation, Scan, StoreExt,
    testing::notation::{Subject, delete_between, family, set, table},
};

/// Three cells, five seconds apart, written at the time of the newest.
async fn aged(s: &Subject, rule: GcRule) {
    s.create(&[("f", rule)]).await;
    s.clock.set(20_000_000);
    s.write("k", vec![set("f:q", 10_000_000, "old"), set("f:q", 15_000_000, "mid"), set("f:q", 20_000_000, "new")])
        .await;
}

async fn set_gc(s: &Subject, rule: GcRule) {
    s.store.modify_families(&table(), vec![FamilyChange::SetGc(family("f"), rule)]).await.unwrap();
}

const OLD: &str = "f:q@10000000=old";
const MID: &str = "f:q@15000000=mid";
const NEW: &str = "f:q@20000000=new";

async fn check(s: &Subject, what: &str, want: &[&str]) {
    let row = format!("k: {}", want.join(" "));
    let want: &[&str] = if want.is_empty() { &[] } else { &[&row] };
    s.check(what, want).await;
}

pub(super) async fn reads_agree_with_each_rule(s: &Subject) {
    use GcRule::*;
    let second = 1_000_000;
    for (rule, now, want) in [
        (KeepAll, 99, &[NEW, MID, OLD][..]),
        (MaxVersions(1), 20, &[NEW]),
        (MaxVersions(2), 99, &[NEW, MID]),
        (MaxAgeMicros(10 * second), 20, &[NEW, MID, OLD]),
        (MaxAgeMicros(10 * second), 25, &[NEW, MID]),
        (MaxAgeMicros(10 * second), 26, &[NEW]),
        (MaxAgeMicros(10 * second), 31, &[]),
        (Union(vec![MaxVersions(2), MaxAgeMicros(8 * second)]), 20, &[NEW, MID]),
        (Union(vec![MaxVersions(2), MaxAgeMicros(8 * second)]), 24, &[NEW]),
        (Union(vec![MaxVersions(2), MaxAgeMicros(8 * second)]), 29, &[]),
        (Intersection(vec![MaxVersions(1), MaxAgeMicros(8 * second)]), 20, &[NEW, MID]),
        (Intersection(vec![MaxVersions(1), MaxAgeMicros(8 * second)]), 24, &[NEW]),
        (Intersection(vec![MaxVersions(1), MaxAgeMicros(8 * second)]), 99, &[NEW]),
        (
            Union(vec![Intersection(vec![MaxVersions(2), MaxAgeMicros(second)]), MaxAgeMicros(30 * second)]),
            29,
            &[NEW, MID],
        ),
        (Union(vec![Intersection(vec![MaxVersions(2), MaxAgeMicros(second)]), MaxAgeMicros(30 * second)]), 46, &[NEW]),
    ] {
        // A table for each case. The store's time does not go back: everything is relative to its current time.
        let base = (s.store.pin().await.unwrap().now_micros / (100 * second) + 1) * 100 * second;
        s.create(&[("f", rule.clone())]).await;
        s.clock.set(base + 20 * second);
        let cells = [(10, "old"), (15, "mid"), (20, "new")];
        s.write("k", cells.map(|(at, value)| set("f:q", base + at * second, value)).to_vec()).await;
        s.clock.set(base + now * second);
        assert_eq!(cells_since(s, base).await, want, "{rule:?} at {now} s");
        s.store.drop_table(&table()).await.unwrap();
    }
}

/// The cells of every row, with their timestamps counted from `base`.
async fn cells_since(s: &Subject, base: i64) -> Vec<String> {
    let rows = s.store.read_rows(&table(), Scan::all()).await.unwrap();
    let text = |cell: &Cell| format!("f:q@{}={}", cell.timestamp - base, cell.value.escape_ascii());
    rows.iter().flat_map(|row| &row.cells).map(text).collect()
}

pub(super) async fn a_row_of_condemned_cells_is_gone(s: &Subject) {
    aged(s, GcRule::MaxAgeMicros(1_000_000)).await;
    check(s, "young", &[NEW]).await;
    s.clock.set(22_000_000);
    check(s, "gone", &[]).await;
    s.check_scan("not even empty", Scan { keep_empty: true, ..Scan::all() }, &[]).await;
    let point = Scan { keep_empty: true, ..Scan::of(crate::KeyRange::point(b"k")) };
    s.check_scan("nor by its key", point, &[]).await;
    s.write("k", vec![set("f:q", 22_000_000, "again")]).await;
    s.check("written again", &["k: f:q@22000000=again"]).await;
}

pub(super) async fn semantics_6_deleting_newer_cells_brings_none_back(s: &Subject) {
    aged(s, GcRule::MaxVersions(2)).await;
    check(s, "two versions", &[NEW, MID]).await;
    s.write("k", vec![delete_between("f:q", 20_000_000, None)]).await;
    check(s, "the third does not return", &[MID]).await;
    s.write("k", vec![delete_between("f:q", 15_000_000, Some(15_000_001))]).await;
    check(s, "nor when none is left", &[]).await;
    // Nor a cell that exceeded the number of versions after a later write.
    for at in 1..=3 {
        s.write("l", vec![set("f:q", at, "v")]).await;
    }
    s.write("l", vec![delete_between("f:q", 2, None)]).await;
    s.check("pushed out", &[]).await;
    // Nor a cell that a later rule condemned.
    s.write("n", vec![set("f:q", 3, "3")]).await;
    set_gc(s, GcRule::KeepAll).await;
    s.write("n", vec![set("f:q", 2, "2"), set("f:q", 1, "1")]).await;
    set_gc(s, GcRule::MaxVersions(1)).await;
    s.write("n", vec![delete_between("f:q", 3, None)]).await;
    s.check("condemned without a write", &[]).await;
    set_gc(s, GcRule::MaxVersions(2)).await;
    // A delete and a write, as mutations of one row.
    s.write("m", vec![set("f:q", 1, "1"), set("f:q", 2, "2"), set("f:q", 3, "3")]).await;
    s.write("m", vec![delete_between("f:q", 3, None), set("f:r", 1, "r")]).await;
    s.check("in one row", &["m: f:q@2=2 f:r@1=r"]).await;
}

pub(super) async fn semantics_6_loosening_a_rule_brings_none_back(s: &Subject) {
    aged(s, GcRule::MaxVersions(1)).await;
    set_gc(s, GcRule::MaxVersions(3)).await;
    check(s, "what the old rule condemned stays away", &[NEW]).await;
    s.write("k", vec![set("f:q", 14_000_000, "a"), set("f:q", 13_000_000, "b"), set("f:q", 12_000_000, "c")]).await;
    check(s, "the new rule holds for new cells", &[NEW, "f:q@14000000=a", "f:q@13000000=b"]).await;
    set_gc(s, GcRule::KeepAll).await;
    check(s, "and for what it condemned", &[NEW, "f:q@14000000=a", "f:q@13000000=b"]).await;
    // A strict rule that was in force for a while without any write.
    set_gc(s, GcRule::MaxVersions(1)).await;
    set_gc(s, GcRule::KeepAll).await;
    check(s, "in between", &[NEW]).await;
}

pub(super) async fn semantics_6_age_condemns_for_ever(s: &Subject) {
    aged(s, GcRule::MaxAgeMicros(7_000_000)).await;
    check(s, "young enough", &[NEW, MID]).await;
    s.clock.set(23_000_000);
    set_gc(s, GcRule::KeepAll).await;
    check(s, "what was too old at the change stays away", &[NEW]).await;
    // Condemned by number and age together: without newer cells, the number would no longer condemn it.
    set_gc(s, GcRule::Intersection(vec![GcRule::MaxVersions(1), GcRule::MaxAgeMicros(5_000_000)])).await;
    s.write("l", vec![set("f:q", 22_000_000, "younger"), set("f:q", 21_000_000, "older")]).await;
    s.clock.set(26_500_000);
    s.check("by age and number", &["k: f:q@20000000=new", "l: f:q@22000000=younger"]).await;
    s.write("l", vec![delete_between("f:q", 22_000_000, None)]).await;
    s.check("for ever", &["k: f:q@20000000=new"]).await;
}

pub(super) async fn semantics_6_the_clock_never_goes_back(s: &Subject) {
    aged(s, GcRule::MaxAgeMicros(7_000_000)).await;
    s.clock.set(24_000_000);
    check(s, "too old", &[NEW]).await;
    s.clock.set(18_000_000);
    check(s, "the wall clock was set back", &[NEW]).await;
    s.write("k", vec![delete_between("f:q", 20_000_000, None)]).await;
    check(s, "and the rest deleted", &[]).await;
}

pub(super) async fn a_stricter_rule_holds_at_once(s: &Subject) {
    aged(s, GcRule::KeepAll).await;
    set_gc(s, GcRule::MaxVersions(2)).await;
    check(s, "versions", &[NEW, MID]).await;
    set_gc(s, GcRule::MaxAgeMicros(4_000_000)).await;
    check(s, "age", &[NEW]).await;
}

pub(super) async fn a_write_may_be_condemned_at_once(s: &Subject) {
    aged(s, GcRule::Union(vec![GcRule::MaxVersions(2), GcRule::MaxAgeMicros(15_000_000)])).await;
    s.write("k", vec![set("f:q", 12_000_000, "a third")]).await;
    check(s, "one more than the rule keeps", &[NEW, MID]).await;
    s.write("l", vec![set("f:q", 1, "too old")]).await;
    check(s, "older than the rule keeps", &[NEW, MID]).await;
    s.write("k", vec![Mutation::DeleteFromRow, set("f:q", 12_000_000, "now the first")]).await;
    check(s, "in the same row", &["f:q@12000000=now the first"]).await;
}

/// Erases columns of family `a`.
pub(super) async fn erase(s: &Subject, qualifiers: &[&str]) {
    let qualifiers = qualifiers.iter().map(|qualifier| qualifier.as_bytes().to_vec()).collect();
    s.store.modify_families(&table(), vec![FamilyChange::SetErased(family("a"), qualifiers)]).await.unwrap();
}

pub(super) async fn erased_columns_are_gone_at_once(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:p", 1, "x"), set("a:p", 2, "y"), set("a:q", 1, "stays"), set("b:p", 1, "stays")]).await;
    s.write("only", vec![set("a:p", 1, "x")]).await;
    erase(s, &["p"]).await;
    let want = &["k: a:q@1=stays b:p@1=stays"];
    s.check("other columns stay", want).await;
    let empty = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::all() };
    s.check_scan("a row of erased cells is gone", empty, &["k:"]).await;
    for refused in [set("a:p", 3, "z"), set("a:p", 1, "x")] {
        assert_eq!(s.refuse("k", vec![refused]).await.kind(), ErrorKind::Erasing);
    }
    s.write("k", vec![delete_between("a:p", 0, Some(9)), set("a:pp", 1, "new")]).await;
    s.check("and a write keeps it so", &["k: a:pp@1=new a:q@1=stays b:p@1=stays"]).await;
    // After a purge the column may be used again, and is empty.
    s.store.purge_cells(&[table()]).await.unwrap();
    erase(s, &[]).await;
    s.check("no cell is back", &["k: a:pp@1=new a:q@1=stays b:p@1=stays"]).await;
    s.write("k", vec![set("a:p", 1, "again")]).await;
    s.check("it takes new ones", &["k: a:p@1=again a:pp@1=new a:q@1=stays b:p@1=stays"]).await;
}
