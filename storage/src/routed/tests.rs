//! Tables here and on two servers, all of them in memory.

use super::*;
use crate::{
    ErrorKind, Family, FamilyName, Mutation, StoreExt,
    clock::ManualClock,
    memory::MemoryStore,
    testing::{
        Subject,
        conformance::{conformance, conformance_of_history, conformance_without},
    },
};
use futures::FutureExt;

fn name(name: &str) -> TableName {
    TableName::new(name).unwrap()
}

fn memory(clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Box::new(clock.clone())))
}

fn subject(routed: &[&str]) -> Subject {
    let clock = Arc::new(ManualClock::new(0));
    let store = RoutedStore::new(memory(&clock), [name("catalog")]);
    store.add_server("there", memory(&clock)).unwrap();
    routed.iter().for_each(|table| store.route(&name(table), "there", &name(table)).unwrap());
    Subject::new(Arc::new(store), clock)
}

#[tokio::test]
async fn it_conforms_where_all_tables_are_here() {
    conformance(async || subject(&[])).await;
    conformance_of_history(async || subject(&[])).await;
}

#[tokio::test]
async fn it_conforms_where_the_table_is_on_a_server() {
    // They list or count tables, which are those here; write tables of both stores at once; purge; or compare stamps of
    // pins, which are those here.
    let elsewhere = [
        "commits::a_refused_commit_leaves_nothing",
        "commits::rows_are_visible_together",
        "gc::erased_columns_are_gone_at_once",
        "limits::families_and_tables",
        "pins::a_pin_keeps_its_state",
        "tables::bad_tables_are_refused",
        "tables::created_listed_and_dropped",
        "time::semantics_2_stamps_grow",
    ];
    let left_out = conformance_without(&elsewhere, async || subject(&["t"])).await;
    assert_eq!(left_out, elsewhere);
}

/// A store with table `c` (the catalog's) and `h` here, and `a` and `b` on two servers.
async fn apart() -> (Arc<RoutedStore>, Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let (store, one) = (RoutedStore::new(memory(&clock), [name("c")]), memory(&clock));
    store.add_server("one", one.clone()).unwrap();
    store.add_server("two", memory(&clock)).unwrap();
    store.route(&name("a"), "one", &name("a-there")).unwrap();
    store.route(&name("b"), "two", &name("b")).unwrap();
    for table in ["c", "h", "a", "b"] {
        let schema = TableSchema::of([(FamilyName::new("f").unwrap(), Family::default())]);
        store.create_table(&name(table), schema).await.unwrap();
    }
    (Arc::new(store), one)
}

fn key(text: &str) -> RowKey {
    RowKey::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn write(table: &str, row: &str) -> Write {
    let family = FamilyName::new("f").unwrap();
    let cell = Mutation::SetCell { family, qualifier: "q".into(), timestamp: None, value: "v".into() };
    Write::Row { table: name(table), row: RowMutation { key: key(row), mutations: vec![cell] } }
}

fn blind(writes: Vec<Write>) -> Commit {
    Commit { writes, validation: None }
}

fn relying(pin: &Pin, rows: &[(&str, &str)], writes: Vec<Write>) -> Commit {
    let rows = rows.iter().map(|(table, row)| (name(table), key(row))).collect();
    Commit { writes, validation: Some(Validation { pin: pin.clone(), rows }) }
}

#[tokio::test]
async fn recent_samples_of_a_server_are_kept() {
    let (store, _) = apart().await;
    for table in ["a", "h"] {
        store.commit(blind(vec![write(table, "k1")])).await.unwrap();
        let before = store.recent_samples(&name(table)).await.unwrap();
        assert_eq!(before, store.sample_row_keys(&name(table)).await.unwrap());
        store.commit(blind(vec![write(table, "k2")])).await.unwrap();
        let now = store.sample_row_keys(&name(table)).await.unwrap();
        assert_ne!(before, now);
        // Those of a store in this process cost nothing.
        assert_eq!(store.recent_samples(&name(table)).await.unwrap(), if table == "a" { before } else { now });
    }
    // A server that gave none is not asked again at once.
    store.add_server("one", Arc::new(Down::new(&Error::Unavailable("nobody listens".into())))).unwrap();
    store.route(&name("x"), "one", &name("x")).unwrap();
    for _ in 0..2 {
        assert!(store.recent_samples(&name("x")).await.is_err());
    }
}

#[tokio::test]
async fn rows_go_where_their_table_is() {
    let (store, one) = apart().await;
    for table in ["h", "a", "b"] {
        store.commit(blind(vec![write(table, "k")])).await.unwrap();
        assert!(store.read_row(&name(table), &key("k"), None).await.unwrap().is_some(), "{table}");
    }
    assert!(one.read_row(&name("a-there"), &key("k"), None).await.unwrap().is_some());
    let tables: Vec<_> = store.tables().await.unwrap().into_iter().map(|(table, _)| table).collect();
    assert_eq!(tables, [name("c"), name("h")], "servers are not asked");
    assert_eq!(store.table(&name("a")).await.unwrap().families.len(), 1);
    // A state of all of them.
    let pin = store.pin().await.unwrap();
    for table in ["h", "a"] {
        store.commit(blind(vec![write(table, "later")])).await.unwrap();
        let then = Scan { pin: Some(pin.clone()), ..Scan::all() };
        assert_eq!(store.read_rows(&name(table), then).await.unwrap().len(), 1, "{table}");
        assert_eq!(store.read_rows(&name(table), Scan::all()).await.unwrap().len(), 2, "{table}");
    }
    store.forget(&name("a"));
    assert_eq!(store.read_rows(&name("a"), Scan::all()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(one.read_row(&name("a-there"), &key("k"), None).await.unwrap().is_some(), "forgotten, not dropped");
}

#[tokio::test]
async fn a_commit_is_of_one_place() {
    let (store, _) = apart().await;
    let pin = store.pin().await.unwrap();
    for (what, commit) in [
        ("here and there", blind(vec![write("h", "k"), write("a", "k")])),
        ("two servers", blind(vec![write("a", "k"), write("b", "k")])),
        ("here, relying on there", relying(&pin, &[("a", "k")], vec![write("h", "k")])),
        ("there, relying on another", relying(&pin, &[("b", "k")], vec![write("a", "k")])),
    ] {
        assert_eq!(store.commit(commit).await.unwrap_err().kind(), ErrorKind::Unsupported, "{what}");
    }
    for table in ["h", "a", "b"] {
        assert!(store.read_rows(&name(table), Scan::all()).await.unwrap().is_empty(), "{table}");
    }
    assert_eq!(store.purge(&[(name("a"), KeyRange::all())]).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn writes_there_rely_on_rows_here() {
    let (store, _) = apart().await;
    store.commit(blind(vec![write("c", "tenant")])).await.unwrap();
    let pin = store.pin().await.unwrap();
    let both = [("c", "tenant"), ("a", "k")];
    store.commit(relying(&pin, &both, vec![write("a", "k")])).await.unwrap();
    let again = store.commit(relying(&pin, &both, vec![write("a", "k")])).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict, "the row there changed");
    store.commit(blind(vec![write("c", "tenant")])).await.unwrap();
    let late = store.commit(relying(&pin, &[("c", "tenant")], vec![write("a", "l")])).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict, "the row here changed");
    assert_eq!(store.read_rows(&name("a"), Scan::all()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_edit_waits_for_writes_there() {
    let (store, _) = apart().await;
    let place = store.places.read().await;
    // Other rows here are written meanwhile.
    store.commit(blind(vec![write("h", "k")])).await.unwrap();
    let mut edit = Box::pin(store.commit(blind(vec![write("c", "tenant")])));
    assert!((&mut edit).now_or_never().is_none(), "a write there is in progress");
    assert!(store.read_rows(&name("c"), Scan::all()).await.unwrap().is_empty());
    // A later write there waits behind the edit, so that edits get through.
    let mut behind = Box::pin(store.commit(blind(vec![write("a", "k")])));
    assert!((&mut behind).now_or_never().is_none());
    drop(place);
    edit.await.unwrap();
    behind.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_down_fails_its_own_tables() {
    let (store, one) = apart().await;
    one.close().await.unwrap();
    let pin = store.pin().await.unwrap();
    store.commit(relying(&pin, &[("h", "k")], vec![write("h", "k")])).await.unwrap();
    store.commit(blind(vec![write("b", "k")])).await.unwrap();
    assert_eq!(store.commit(blind(vec![write("a", "k")])).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let pinned = Scan { pin: Some(pin), ..Scan::all() };
    assert_eq!(store.read_rows(&name("a"), pinned).await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(store.route(&name("c"), "one", &name("x")).is_err(), "a watched table stays");
    assert!(store.route(&name("x"), "none", &name("x")).is_err());
}
