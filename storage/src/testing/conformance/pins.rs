//! States that stay readable while writes continue.

use crate::{
    Family, FamilyChange, GcRule, Mutation, Scan, StoreExt,
    store::BATCH_ROWS_MAX,
    testing::notation::{Subject, delete_range, family, key, set, table, write},
};
use futures::TryStreamExt;

pub(super) async fn a_pin_keeps_its_state(s: &Subject) {
    s.create_plain().await;
    let empty = s.store.pin().await.unwrap();
    s.write("k", vec![set("a:q", 1, "k")]).await;
    s.write("l", vec![set("a:q", 1, "l")]).await;
    let first = s.store.pin().await.unwrap();
    s.write("k", vec![set("a:q", 1, "replaced"), set("a:r", 1, "added")]).await;
    s.write("m", vec![set("a:q", 1, "m")]).await;
    let second = s.store.pin().await.unwrap();
    s.write("k", vec![Mutation::DeleteFromRow]).await;
    s.store.commit(crate::Commit { writes: vec![delete_range("l", "m")], validation: None }).await.unwrap();
    s.store.drop_row_range(&table(), "m".into()).await.unwrap();
    s.check("now", &[]).await;
    let at = |pin: &crate::Pin| Scan { pin: Some(pin.clone()), ..Scan::all() };
    s.check_scan("at the first pin", at(&first), &["k: a:q@1=k", "l: a:q@1=l"]).await;
    s.check_scan("at the second", at(&second), &["k: a:q@1=replaced a:r@1=added", "l: a:q@1=l", "m: a:q@1=m"]).await;
    s.check_scan("before all", at(&empty), &[]).await;
    let row = s.store.read_row(&table(), &key("k"), Some(first.clone())).await.unwrap().unwrap();
    assert_eq!(row.cells[0].value, "k", "a point read at a pin");
    let reversed = Scan { reversed: true, rows_max: Some(1), ..at(&first) };
    s.check_scan("reversed", reversed, &["l: a:q@1=l"]).await;
    assert!(empty.commit_micros < first.commit_micros && first.commit_micros < second.commit_micros);
}

pub(super) async fn a_pin_keeps_its_time(s: &Subject) {
    s.create(&[("f", GcRule::MaxAgeMicros(5_000_000))]).await;
    s.write("k", vec![set("f:q", 1_000_000, "v")]).await;
    let pin = s.store.pin().await.unwrap();
    s.clock.set(20_000_000);
    s.check("now it is too old", &[]).await;
    let at = |pin: &crate::Pin| Scan { pin: Some(pin.clone()), ..Scan::all() };
    s.check_scan("but not then", at(&pin), &["k: f:q@1000000=v"]).await;
    s.write("k", vec![set("f:q", 20_000_000, "w")]).await;
    s.check_scan("nor after a write of the row", at(&pin), &["k: f:q@1000000=v"]).await;
}

pub(super) async fn a_pin_keeps_its_table(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v"), set("a:q", 2, "w"), set("b:q", 1, "b")]).await;
    let pin = s.store.pin().await.unwrap();
    let changes = vec![
        FamilyChange::SetGc(family("a"), GcRule::MaxVersions(1)),
        FamilyChange::Drop(family("b")),
        FamilyChange::Create(family("c"), Family::default()),
    ];
    s.store.modify_families(&table(), changes).await.unwrap();
    s.check("now", &["k: a:q@2=w"]).await;
    let then = || Scan { pin: Some(pin.clone()), ..Scan::all() };
    s.check_scan("then", then(), &["k: a:q@2=w a:q@1=v b:q@1=b"]).await;
    s.store.drop_table(&table()).await.unwrap();
    s.check_scan("even without the table", then(), &["k: a:q@2=w a:q@1=v b:q@1=b"]).await;
}

pub(super) async fn a_stream_keeps_its_state(s: &Subject) {
    s.create_plain().await;
    let count = 2 * BATCH_ROWS_MAX;
    let writes = |value: &str| (0..count).map(|n| write(&format!("{n:06}"), vec![set("a:q", 1, value)])).collect();
    s.store.commit(crate::Commit { writes: writes("old"), validation: None }).await.unwrap();
    let mut stream = s.store.scan(&table(), Scan::all());
    let mut rows = stream.try_next().await.unwrap().unwrap();
    s.store.commit(crate::Commit { writes: writes("new"), validation: None }).await.unwrap();
    s.write("000000x", vec![set("a:q", 1, "between")]).await;
    s.store.drop_row_range(&table(), "001".into()).await.unwrap();
    while let Some(batch) = stream.try_next().await.unwrap() {
        rows.extend(batch);
    }
    assert_eq!(rows.len(), count);
    assert!(rows.iter().all(|row| row.cells[0].value == "old"), "a scan reads one state");
}
