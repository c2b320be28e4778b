//! Commits over several rows, and commits that relied on rows read at a pin.

use crate::{
    Atomicity, Commit, ErrorKind, Mutation, Pin, TableName, Validation, Write,
    testing::notation::{Subject, delete, delete_range, key, schema, set, set_now, table, write},
};

async fn commit(s: &Subject, writes: Vec<Write>) -> crate::Result<i64> {
    s.store.commit(Commit { writes, validation: None }).await
}

fn by_row(s: &Subject) -> bool {
    s.store.promises().atomicity == Atomicity::Row
}

async fn two_rows(s: &Subject) -> Pin {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "k")]).await;
    s.write("l", vec![set("a:q", 1, "l")]).await;
    s.store.pin().await.unwrap()
}

const BOTH: [&str; 2] = ["k: a:q@1=k", "l: a:q@1=l"];

pub(super) async fn rows_are_visible_together(s: &Subject) {
    two_rows(s).await;
    let other = TableName::new("other").unwrap();
    s.store.create_table(&other, schema(&[("a", crate::GcRule::KeepAll)])).await.unwrap();
    let Write::Row { row, .. } = write("o", vec![set("a:q", 3, "o")]) else { return };
    let writes = vec![
        write("k", vec![set("a:q", 2, "k2")]),
        Write::Row { table: other.clone(), row },
        write("m", vec![set("b:q", 2, "m2")]),
        write("l", vec![Mutation::DeleteFromRow]),
    ];
    commit(s, writes).await.unwrap();
    s.check("one table", &["k: a:q@2=k2 a:q@1=k", "m: b:q@2=m2"]).await;
    let rows = crate::StoreExt::read_rows(s.store.as_ref(), &other, crate::Scan::all()).await.unwrap();
    assert_eq!(rows.len(), 1, "the other table");
    let at = commit(s, vec![]).await.unwrap();
    assert!(at >= 1, "a commit of nothing has a stamp too");
}

pub(super) async fn a_refused_commit_leaves_nothing(s: &Subject) {
    if by_row(s) {
        return;
    }
    two_rows(s).await;
    let good = || write("k", vec![set("a:q", 2, "not seen")]);
    let elsewhere = |write: Write| match write {
        Write::Row { row, .. } => Write::Row { table: TableName::new("none").unwrap(), row },
        Write::DeleteRange { range, .. } => Write::DeleteRange { table: TableName::new("none").unwrap(), range },
    };
    for (bad, kind) in [
        (write("l", vec![]), ErrorKind::Invalid),
        (write("l", vec![set("a:q", -5, "v")]), ErrorKind::Invalid),
        (write("l", vec![set("a:q", 5, "v"), set("none:q", 5, "v")]), ErrorKind::NotFound),
        (elsewhere(good()), ErrorKind::NotFound),
        (elsewhere(delete_range("a", "b")), ErrorKind::NotFound),
    ] {
        for writes in [vec![good(), bad.clone()], vec![bad.clone(), good()], vec![delete_range("a", "z"), bad.clone()]]
        {
            assert_eq!(commit(s, writes).await.unwrap_err().kind(), kind, "{bad:?}");
            s.check(&format!("after {bad:?}"), &BOTH).await;
        }
    }
}

pub(super) async fn writes_apply_in_order(s: &Subject) {
    two_rows(s).await;
    let writes = vec![
        write("k", vec![set("a:q", 5, "first")]),
        write("k", vec![set("a:q", 5, "second"), set("a:r", 1, "r")]),
        write("m", vec![set("a:q", 5, "m")]),
        delete_range("l", "z"),
        write("n", vec![set("a:q", 5, "after the range")]),
        write("k", vec![delete("a:r")]),
    ];
    commit(s, writes).await.unwrap();
    s.check("rows repeat, ranges take what came before", &["k: a:q@5=second a:q@1=k", "n: a:q@5=after the range"])
        .await;
}

async fn check_conflict(s: &Subject, pin: &Pin, relied_on: &[&str], want: &[&str]) {
    let refused = s.commit_after(pin, relied_on, "x", vec![set("a:q", 9, "x")]).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{relied_on:?}");
    s.check("a conflict leaves nothing", want).await;
}

pub(super) async fn semantics_3_a_changed_row_conflicts(s: &Subject) {
    let pin = two_rows(s).await;
    s.write("l", vec![set("b:r", 1, "another column counts")]).await;
    check_conflict(s, &pin, &["l"], &["k: a:q@1=k", "l: a:q@1=l b:r@1=another column counts"]).await;
    check_conflict(s, &pin, &["k", "l"], &["k: a:q@1=k", "l: a:q@1=l b:r@1=another column counts"]).await;
    // After another read, it succeeds.
    let pin = s.store.pin().await.unwrap();
    s.commit_after(&pin, &["k", "l"], "x", vec![set("a:q", 9, "x")]).await.unwrap();
    s.check("retried", &["k: a:q@1=k", "l: a:q@1=l b:r@1=another column counts", "x: a:q@9=x"]).await;
}

pub(super) async fn semantics_3_a_new_row_conflicts(s: &Subject) {
    let pin = two_rows(s).await;
    s.commit_after(&pin, &["new"], "new", vec![set("a:q", 1, "first")]).await.unwrap();
    let want = ["k: a:q@1=k", "l: a:q@1=l", "new: a:q@1=first"];
    let second = s.commit_after(&pin, &["new"], "new", vec![set("a:q", 2, "second")]).await;
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Conflict, "it was absent at the pin");
    s.check("a conflict leaves nothing", &want).await;
}

pub(super) async fn semantics_3_a_deleted_row_conflicts(s: &Subject) {
    let pin = two_rows(s).await;
    s.write("l", vec![Mutation::DeleteFromRow]).await;
    check_conflict(s, &pin, &["l"], &["k: a:q@1=k"]).await;
    s.write("l", vec![set("a:q", 1, "l")]).await;
    check_conflict(s, &pin, &["l"], &BOTH).await;
}

pub(super) async fn semantics_3_other_rows_do_not_conflict(s: &Subject) {
    let pin = two_rows(s).await;
    s.write("l", vec![set("a:q", 2, "l2")]).await;
    s.write("ka", vec![set("a:q", 2, "a longer key")]).await;
    s.commit_after(&pin, &["k", "none"], "k", vec![set("a:q", 3, "k3")]).await.unwrap();
    let want = ["k: a:q@3=k3 a:q@1=k", "ka: a:q@2=a longer key", "l: a:q@2=l2 a:q@1=l"];
    s.check("only rows that were relied on count", &want).await;
}

pub(super) async fn semantics_3_the_second_of_two_conflicts(s: &Subject) {
    let pin = two_rows(s).await;
    let first = s.commit_after(&pin, &["k"], "k", vec![set_now("a:n", "1")]);
    let second = s.commit_after(&pin, &["k"], "k", vec![set_now("a:n", "2")]);
    // Concurrently, if the store permits it: in one group if there are groups.
    let (first, second) = futures::join!(first, second);
    let kinds = [first, second].map(|result| result.err().map(|error| error.kind()));
    assert!(
        matches!(kinds, [None, Some(ErrorKind::Conflict)] | [Some(ErrorKind::Conflict), None]),
        "exactly one goes through: {kinds:?}"
    );
}

pub(super) async fn semantics_3_a_refused_commit_does_not_conflict_later(s: &Subject) {
    let pin = two_rows(s).await;
    let bad = s.commit_after(&pin, &["k"], "k", vec![set("a:q", -1, "v")]).await;
    assert_eq!(bad.unwrap_err().kind(), ErrorKind::Invalid);
    s.commit_after(&pin, &["k"], "k", vec![set("a:q", 2, "good")]).await.unwrap();
    s.check("nothing had changed", &["k: a:q@2=good a:q@1=k", "l: a:q@1=l"]).await;
}

pub(super) async fn semantics_3_ranges_conflict(s: &Subject) {
    let pin = two_rows(s).await;
    let validation = Validation { pin: pin.clone(), rows: vec![(table(), key("k"))] };
    let relying = Commit { writes: vec![delete_range("l", "m")], validation: Some(validation) };
    s.store.commit(relying.clone()).await.unwrap();
    s.check("a range goes with a validation", &["k: a:q@1=k"]).await;
    check_conflict(s, &pin, &["l"], &["k: a:q@1=k"]).await;
    s.store.drop_row_range(&table(), "k".into()).await.unwrap();
    assert_eq!(s.store.commit(relying).await.unwrap_err().kind(), ErrorKind::Conflict, "the row went with a range");
}
