//! Rows as SQL writes them, with a marker in family `_`: commits that rely on what a pin has read.

use crate::{instance, proxy::Proxy};
use bytes::Bytes;
use futures::{StreamExt, stream};
use keyspan_bigtable::{BigtableStore, Settings};
use keyspan_storage::{
    Clock, Columns, Commit, Error, ErrorKind, Family, FamilyChange, FamilyName, GcRule, KeyRange, Mutation, Pin,
    Result, Row, RowKey, RowMutation, RowSet, Scan, Store, StoreExt, SystemClock, TableName, TableSchema, Validation,
    Write, scan::FamilyColumns,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Seeds of a test over a network that fails.
const SEEDS: u64 = 200;

fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn key(name: &str) -> RowKey {
    RowKey::new(Bytes::copy_from_slice(name.as_bytes())).unwrap()
}

fn store(settings: Settings) -> BigtableStore {
    BigtableStore::new(settings, Box::new(SystemClock)).unwrap()
}

async fn make(settings: &Settings) {
    let one = Family { gc: GcRule::MaxVersions(1), aggregate: None };
    let schema = TableSchema::of([(family("_"), one.clone()), (family("a"), one)]);
    store(settings.clone()).create_table(&table(), schema).await.unwrap();
}

fn set(name: &str, qualifier: &str, value: &[u8]) -> Mutation {
    let (family, qualifier) = (family(name), Bytes::copy_from_slice(qualifier.as_bytes()));
    Mutation::SetCell { family, qualifier, timestamp: None, value: Bytes::copy_from_slice(value) }
}

/// What SQL writes of a row with one column.
fn row(name: &str, value: &[u8]) -> Write {
    let mutations = vec![set("_", "", b""), set("a", "n", value)];
    Write::Row { table: table(), row: RowMutation { key: key(name), mutations } }
}

/// What DML reads of rows.
async fn read(store: &BigtableStore, pin: &Pin, rows: impl Into<RowSet>) -> Result<Vec<Row>> {
    let columns = vec![FamilyColumns { family: family("a"), qualifiers: Some(vec!["n".into()]) }];
    let (columns, pin) = (Columns::Of(columns), Some(pin.clone()));
    let scan = Scan { columns, versions_max: Some(1), keep_empty: true, relied: true, pin, ..Scan::of(rows) };
    store.read_rows(&table(), scan).await
}

fn relying(pin: &Pin, name: &str, write: Write) -> Commit {
    let validation = Validation { pin: pin.clone(), rows: vec![(table(), key(name))] };
    Commit { writes: vec![write], validation: Some(validation) }
}

fn number(row: &Row) -> u64 {
    u64::from_be_bytes(row.newest("a", b"n").unwrap().value.as_ref().try_into().unwrap())
}

/// Adds one to a row's number: once, or not at all. Returns whether it did, or `None` if no one knows.
async fn add_one(store: &BigtableStore) -> Option<bool> {
    let attempt = async {
        let pin = store.pin().await?;
        let found = read(store, &pin, KeyRange::point(b"counter")).await?;
        let next = found.first().map_or(0, number) + 1;
        store.commit(relying(&pin, "counter", row("counter", &next.to_be_bytes()))).await
    };
    match attempt.await {
        Ok(_) => Some(true),
        Err(Error::Conflict) => Some(false),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marker_is_read_as_it_was_written() {
    let settings = instance();
    make(&settings).await;
    let store = store(settings);
    store.commit(Commit { writes: vec![row("k", b"v")], validation: None }).await.unwrap();
    let found = store.read_row(&table(), &key("k"), None).await.unwrap().unwrap();
    let cells: Vec<_> = found.cells.iter().map(|cell| (cell.family.as_str(), cell.value.as_ref())).collect();
    assert_eq!(cells, [("_", &b""[..]), ("a", b"v")]);
    // A delete of the row takes the guard along.
    let deleted = RowMutation { key: key("k"), mutations: vec![Mutation::DeleteFromRow] };
    store.commit(Commit { writes: vec![Write::Row { table: table(), row: deleted }], validation: None }).await.unwrap();
    assert_eq!(store.read_row(&table(), &key("k"), None).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_relied_on() {
    let settings = instance();
    make(&settings).await;
    let (ours, theirs) = (store(settings.clone()), store(settings));
    let write = async |name: &str, value: &[u8]| {
        theirs.commit(Commit { writes: vec![row(name, value)], validation: None }).await.unwrap();
    };
    write("b", b"1").await;
    let pin = ours.pin().await.unwrap();
    let found = read(&ours, &pin, KeyRange::new("a", Some("d".into()))).await.unwrap();
    assert_eq!(found.len(), 1);
    // Rows that were there, and rows that were not, as they are now.
    ours.commit(relying(&pin, "b", row("b", b"2"))).await.unwrap();
    ours.commit(relying(&pin, "c", row("c", b"2"))).await.unwrap();
    // What the commit itself changed is another row than the one that the pin read.
    for name in ["b", "c"] {
        assert!(matches!(ours.commit(relying(&pin, name, row(name, b"3"))).await, Err(Error::Conflict)), "{name}");
    }
    // Others' writes, and deletes.
    let pin = ours.pin().await.unwrap();
    read(&ours, &pin, KeyRange::all()).await.unwrap();
    write("b", b"other").await;
    write("d", b"other").await;
    let gone = RowMutation { key: key("c"), mutations: vec![Mutation::DeleteFromRow] };
    theirs.commit(Commit { writes: vec![Write::Row { table: table(), row: gone }], validation: None }).await.unwrap();
    for name in ["b", "c", "d"] {
        assert!(matches!(ours.commit(relying(&pin, name, row(name, b"3"))).await, Err(Error::Conflict)), "{name}");
    }
    // A write that leaves the marker as it is counts as well.
    let (pin, other) = (ours.pin().await.unwrap(), theirs.pin().await.unwrap());
    read(&ours, &pin, KeyRange::point(b"d")).await.unwrap();
    read(&theirs, &other, KeyRange::point(b"d")).await.unwrap();
    let bare = || RowMutation { key: key("d"), mutations: vec![set("a", "m", b"bare")] };
    let bare = || Write::Row { table: table(), row: bare() };
    theirs.commit(relying(&other, "d", bare())).await.unwrap();
    assert!(matches!(ours.commit(relying(&pin, "d", bare())).await, Err(Error::Conflict)));
    // Rows that it does not write, or several, are not relied on.
    let pin = ours.pin().await.unwrap();
    let refused = ours.commit(relying(&pin, "d", row("b", b"4"))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let found = read(&ours, &pin, KeyRange::all()).await.unwrap();
    assert_eq!(found.iter().map(|row| row.key.escape_ascii().to_string()).collect::<Vec<_>>(), ["b", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_newer_than_what_it_read() {
    let settings = instance();
    make(&settings).await;
    let store = store(settings);
    let ahead = (SystemClock.now_micros() + 60_000_000) / 1_000 * 1_000;
    let mutations = vec![
        set("_", "", b""),
        Mutation::SetCell { family: family("a"), qualifier: "n".into(), timestamp: Some(ahead), value: "ahead".into() },
    ];
    let first = Write::Row { table: table(), row: RowMutation { key: key("k"), mutations } };
    store.commit(Commit { writes: vec![first], validation: None }).await.unwrap();
    let pin = store.pin().await.unwrap();
    read(&store, &pin, KeyRange::point(b"k")).await.unwrap();
    store.commit(relying(&pin, "k", row("k", b"after"))).await.unwrap();
    let found = store.read_row(&table(), &key("k"), None).await.unwrap().unwrap();
    assert_eq!(found.newest("a", b"n").unwrap().value, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn families_that_others_make_are_seen() {
    let settings = instance();
    make(&settings).await;
    let (ours, theirs) = (store(settings.clone()), store(settings));
    ours.commit(Commit { writes: vec![row("k", b"v")], validation: None }).await.unwrap();
    let create = FamilyChange::Create(family("new"), Family::default());
    theirs.modify_families(&table(), vec![create]).await.unwrap();
    let mutations = vec![set("_", "", b""), set("new", "n", b"w")];
    let other = Write::Row { table: table(), row: RowMutation { key: key("l"), mutations } };
    theirs.commit(Commit { writes: vec![other.clone()], validation: None }).await.unwrap();
    let columns = Columns::Of(vec![FamilyColumns { family: family("new"), qualifiers: None }]);
    let found = ours.read_rows(&table(), Scan { columns, ..Scan::all() }).await.unwrap();
    assert_eq!(found.len(), 1);
    // One that is gone is an error, and then known to be gone.
    theirs.modify_families(&table(), vec![FamilyChange::Drop(family("new"))]).await.unwrap();
    ours.commit(Commit { writes: vec![other.clone()], validation: None }).await.unwrap_err();
    // The table, too.
    theirs.drop_table(&table()).await.unwrap();
    let gone = ours.commit(Commit { writes: vec![row("k", b"v")], validation: None }).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    let gone = ours.read_rows(&table(), Scan::all()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

/// Any cell proves that a row is there, whatever its family, and the server is asked for one alone.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_families_that_others_make_are_there() {
    let settings = instance();
    make(&settings).await;
    let (ours, theirs) = (store(settings.clone()), store(settings));
    let writes = ["k", "m", "o"].map(|name| row(name, b"v")).to_vec();
    ours.commit(Commit { writes, validation: None }).await.unwrap();
    let keys = async |rows_max: Option<u64>, reversed: bool| {
        let columns = Columns::Of(vec![FamilyColumns { family: family("a"), qualifiers: Some(vec!["n".into()]) }]);
        let scan = Scan { columns, versions_max: Some(1), keep_empty: true, rows_max, reversed, ..Scan::all() };
        let found = ours.read_rows(&table(), scan).await.unwrap();
        found.iter().map(|row| String::from_utf8(row.key.to_vec()).unwrap()).collect::<String>()
    };
    assert_eq!(keys(None, false).await, "kmo");
    for (new, names, all) in [("0", ["l", "n"], "klmno"), ("1", ["j", "p"], "jklmnop")] {
        theirs.modify_families(&table(), vec![FamilyChange::Create(family(new), Family::default())]).await.unwrap();
        let row = |name| {
            // With a cell in a family that is known, behind that of the new one, and without.
            let mutations = vec![set(new, "n", b"w"), set(if name == "l" { "a" } else { new }, "other", b"w")];
            Write::Row { table: table(), row: RowMutation { key: key(name), mutations } }
        };
        theirs.commit(Commit { writes: names.map(row).to_vec(), validation: None }).await.unwrap();
        assert_eq!(keys(Some(3), new == "1").await, if new == "1" { "pon" } else { "klm" });
        assert_eq!(keys(None, false).await, all);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted() {
    let settings = instance();
    make(&settings).await;
    let (proxy, through) = Proxy::serve(&settings, 1, 0).await;
    let store = store(through);
    store.commit(Commit { writes: vec![row("k", b"1")], validation: None }).await.unwrap();
    let count = async |what: &str, want: usize, done: bool| {
        assert!(done);
        assert_eq!(proxy.requests.swap(0, Ordering::SeqCst), want, "{what}");
    };
    count("the first blind write, which asks whether the profile permits decisions", 2, true).await;
    store.commit(Commit { writes: vec![row("k", b"1")], validation: None }).await.unwrap();
    count("a blind write", 1, true).await;
    let found = store.read_row(&table(), &key("k"), None).await.unwrap();
    count("a point read", 1, found.is_some()).await;
    let pin = store.pin().await.unwrap();
    read(&store, &pin, KeyRange::point(b"k")).await.unwrap();
    store.commit(relying(&pin, "k", row("k", b"2"))).await.unwrap();
    count("an update by key", 2, true).await;
    let writes = (0..500).map(|number| row(&number.to_string(), b"v")).collect();
    store.commit(Commit { writes, validation: None }).await.unwrap();
    count("500 rows", 1, true).await;
    let nothing = store.read_rows(&table(), Scan::of(RowSet::none())).await.unwrap();
    count("no rows", 0, nothing.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_lose_no_addition() {
    let settings = instance();
    make(&settings).await;
    let stores = [store(settings.clone()), store(settings)];
    let adds = stream::iter(0..8).map(|writer| {
        let store = stores[writer % 2].clone();
        async move {
            let mut added = 0;
            while added < 25 {
                added += u64::from(add_one(&store).await.unwrap());
            }
        }
    });
    adds.buffer_unordered(8).collect::<Vec<_>>().await;
    let found = stores[0].read_row(&table(), &key("counter"), None).await.unwrap().unwrap();
    assert_eq!(number(&found), 200);
}

/// A seed's run: writers of one row, and inserts of rows that no one else writes.
async fn over_a_bad_network(seed: u64, unknown: &AtomicU64) {
    let settings = instance();
    make(&settings).await;
    let (_, through) = Proxy::serve(&settings, seed, 10).await;
    let stores = [store(through.clone()), store(through)];
    let (added, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    let (added, lost) = (&added, &lost);
    let adds = stream::iter(&stores).map(|store| async move {
        for _ in 0..8 {
            match add_one(store).await {
                Some(did) => added.fetch_add(u64::from(did), Ordering::SeqCst),
                None => lost.fetch_add(1, Ordering::SeqCst),
            };
        }
    });
    adds.buffer_unordered(2).collect::<Vec<_>>().await;
    let (added, lost) = (added.load(Ordering::SeqCst), lost.load(Ordering::SeqCst));
    let clean = store(settings);
    let found = clean.read_row(&table(), &key("counter"), None).await.unwrap();
    let found = found.as_ref().map_or(0, number);
    assert!((added..=added + lost).contains(&found), "seed {seed}: {found}, {added} added, {lost} unknown");
    unknown.fetch_add(lost, Ordering::SeqCst);

    for insert in 0..6 {
        let name = format!("row {insert}");
        let pin = stores[0].pin().await.unwrap();
        assert!(read(&stores[0], &pin, KeyRange::point(name.as_bytes())).await.unwrap().is_empty(), "seed {seed}");
        let inserted = stores[0].commit(relying(&pin, &name, row(&name, b"v"))).await;
        assert!(inserted.is_ok(), "seed {seed}: no one else writes the row: {inserted:?}");
    }
    let writes = (0..40).map(|bulk| row(&format!("bulk {bulk}"), b"v")).collect();
    stores[1].commit(Commit { writes, validation: None }).await.unwrap();
    let all = KeyRange::prefix("bulk ");
    let rows = stores[1].read_rows(&table(), Scan::of(all)).await.unwrap();
    assert_eq!(rows.len(), 40, "seed {seed}");
    assert!(rows.is_sorted_by(|a, b| a.key < b.key));
    let inserted = clean.read_rows(&table(), Scan::of(KeyRange::prefix("row "))).await.unwrap();
    assert_eq!(inserted.len(), 6, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_doubled_over_a_bad_network() {
    let unknown = Arc::new(AtomicU64::new(0));
    stream::iter(0..SEEDS).for_each_concurrent(20, |seed| over_a_bad_network(seed, &unknown)).await;
    // The guard finds out what became of a write, but for those that another writer has overwritten: how often one does
    // is chance. Some 310 of 3,200 are unknown with the guard and 615 without, and runs are within 50 of these; the
    // limit lies between. That no outcome of a row with one writer is unknown, the inserts of each seed assert.
    let unknown = unknown.load(Ordering::SeqCst);
    assert!(unknown < SEEDS * 16 / 7, "{unknown} of {} outcomes are unknown", SEEDS * 16);
}
