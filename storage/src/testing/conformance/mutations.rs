//! The effect of each mutation on a row.

use crate::{
    GcRule, Mutation, Scan, StoreExt,
    testing::notation::{Subject, delete, delete_between, delete_family, key, set, table},
};
use bytes::Bytes;

pub(super) async fn cells_are_read_back_in_order(s: &Subject) {
    s.create(&[("b", GcRule::KeepAll), ("B", GcRule::KeepAll), ("aa", GcRule::KeepAll)]).await;
    let mutations = vec![
        set("b:q", 1, "1"),
        set("aa:y", 5, "2"),
        set("aa:x", 5, "3"),
        set("aa:x", 7, "4"),
        set("aa:xx", 6, "5"),
        set("aa:x", 6, "6"),
        set("B:q", 0, "7"),
    ];
    s.write("k", mutations).await;
    s.write("j\u{1}", vec![set("b:q", 1, "1")]).await;
    s.write("j", vec![set("b:q", 1, "1")]).await;
    let want = ["j: b:q@1=1", r"j\x01: b:q@1=1", "k: B:q@0=7 aa:x@7=4 aa:x@6=6 aa:x@5=3 aa:xx@6=5 aa:y@5=2 b:q@1=1"];
    s.check("families and qualifiers as bytes, newest first", &want).await;
    let row = s.store.read_row(&table(), &key("k"), None).await.unwrap().unwrap();
    assert_eq!(row.newest("aa", b"x").unwrap().value, "4");
    assert_eq!(s.store.read_row(&table(), &key("ka"), None).await.unwrap(), None);
}

pub(super) async fn a_cell_is_replaced(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 5, "old"), set("a:q", 4, "older")]).await;
    s.write("k", vec![set("a:q", 5, "new")]).await;
    s.check("of the same timestamp", &["k: a:q@5=new a:q@4=older"]).await;
    s.write("k", vec![set("a:q", 5, "first"), set("a:q", 5, "last")]).await;
    s.check("the last one wins", &["k: a:q@5=last a:q@4=older"]).await;
    s.write("k", vec![set("a:q", 3, "late")]).await;
    s.check("an older timestamp does not become the newest", &["k: a:q@5=last a:q@4=older a:q@3=late"]).await;
}

pub(super) async fn odd_bytes_are_kept(s: &Subject) {
    s.create_plain().await;
    let raw: Vec<u8> = (0..=255).collect();
    let cell = |qualifier: &[u8], value: &[u8]| Mutation::SetCell {
        family: crate::testing::notation::family("a"),
        qualifier: Bytes::copy_from_slice(qualifier),
        timestamp: Some(0),
        value: Bytes::copy_from_slice(value),
    };
    let keys: [&[u8]; 6] = [&[0], &[0, 0], &[0, 1], &[1], &[0xff], &[0xff, 0xff]];
    for bytes in keys.iter().rev() {
        let key = crate::RowKey::new(bytes.to_vec()).unwrap();
        s.store.mutate_row(&table(), key, vec![cell(b"", b""), cell(&raw, &raw)]).await.unwrap();
    }
    let rows = s.store.read_rows(&table(), Scan::all()).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.key.to_vec()).collect::<Vec<_>>(), keys.map(<[u8]>::to_vec));
    for row in rows {
        assert_eq!((row.cells[0].qualifier.as_ref(), row.cells[0].value.as_ref()), (&b""[..], &b""[..]));
        assert_eq!((row.cells[1].qualifier.as_ref(), row.cells[1].value.as_ref()), (&raw[..], &raw[..]));
        assert_eq!(row.cells.len(), 2);
    }
}

pub(super) async fn deletes_take_what_they_name(s: &Subject) {
    s.create_plain().await;
    let all =
        || vec![set("a:q", 1, "1"), set("a:q", 2, "2"), set("a:q", 3, "3"), set("a:r", 2, "r"), set("b:q", 2, "b")];
    for (mutation, want) in [
        (delete("a:q"), "k: a:r@2=r b:q@2=b"),
        (delete_between("a:q", 2, Some(3)), "k: a:q@3=3 a:q@1=1 a:r@2=r b:q@2=b"),
        (delete_between("a:q", 2, None), "k: a:q@1=1 a:r@2=r b:q@2=b"),
        (delete_between("a:q", i64::MIN, Some(2)), "k: a:q@3=3 a:q@2=2 a:r@2=r b:q@2=b"),
        (delete_between("a:q", 4, Some(9)), "k: a:q@3=3 a:q@2=2 a:q@1=1 a:r@2=r b:q@2=b"),
        (delete_between("a:q", 3, Some(2)), "k: a:q@3=3 a:q@2=2 a:q@1=1 a:r@2=r b:q@2=b"),
        (delete("a:none"), "k: a:q@3=3 a:q@2=2 a:q@1=1 a:r@2=r b:q@2=b"),
        (delete_family("a"), "k: b:q@2=b"),
        (delete_family("b"), "k: a:q@3=3 a:q@2=2 a:q@1=1 a:r@2=r"),
    ] {
        s.write("k", vec![Mutation::DeleteFromRow]).await;
        s.write("k", all()).await;
        s.write("k", vec![mutation.clone()]).await;
        s.check(&format!("after {mutation:?}"), &[want]).await;
    }
}

pub(super) async fn a_row_without_cells_is_gone(s: &Subject) {
    s.create_plain().await;
    let kept = "other: a:q@1=v";
    s.write("other", vec![set("a:q", 1, "v")]).await;
    for mutation in [Mutation::DeleteFromRow, delete_family("a"), delete("a:q"), delete_between("a:q", 1, Some(2))] {
        s.write("k", vec![set("a:q", 1, "v")]).await;
        s.check("written", &["k: a:q@1=v", kept]).await;
        s.write("k", vec![mutation.clone()]).await;
        s.check(&format!("after {mutation:?}"), &[kept]).await;
        s.check_scan("not even empty", Scan { keep_empty: true, ..Scan::all() }, &[kept]).await;
    }
    s.write("never", vec![Mutation::DeleteFromRow]).await;
    s.check("deleting a row that is not there makes none", &[kept]).await;
}

pub(super) async fn mutations_apply_in_order(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 9, "old"), set("b:q", 9, "old")]).await;
    s.write("k", vec![set("a:q", 5, "x"), delete("a:q"), set("a:q", 4, "y"), set("a:r", 4, "z"), delete("a:r")]).await;
    s.check("a delete takes what came before it in the row, not what comes after", &["k: a:q@4=y b:q@9=old"]).await;
    s.write("k", vec![Mutation::DeleteFromRow, set("a:q", 1, "only")]).await;
    s.check("replaced whole", &["k: a:q@1=only"]).await;
    s.write("k", vec![set("a:q", 2, "gone"), Mutation::DeleteFromRow]).await;
    s.check("gone", &[]).await;
}

pub(super) async fn deletes_take_newer_timestamps_too(s: &Subject) {
    s.create_plain().await;
    // A client's timestamp may be at most a day ahead.
    let ahead = 80_000_000_000;
    s.write("k", vec![set("a:q", ahead, "ahead"), set("b:q", ahead, "ahead")]).await;
    s.write("k", vec![delete("a:q")]).await;
    s.check("a delete takes cells whatever their timestamp", &["k: b:q@80000000000=ahead"]).await;
    s.write("k", vec![set("a:q", 3, "later, with an older timestamp")]).await;
    s.check("and what is written later is seen", &["k: a:q@3=later, with an older timestamp b:q@80000000000=ahead"])
        .await;
    s.write("k", vec![Mutation::DeleteFromRow]).await;
    s.write("k", vec![set("b:q", 2, "later")]).await;
    s.check("also after the row was deleted", &["k: b:q@2=later"]).await;
}
