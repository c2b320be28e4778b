//! No operation of a tenant's store touches another tenant's rows.

use super::*;
use crate::{Catalog, ColumnDefinition, Edit, Quotas, SqlType, TableDefinition, TableId, snapshot::FIRST_OID};
use keyspan_storage::{Columns, FamilyName, Mutation, clock::ManualClock, memory::MemoryStore};
use proptest::prelude::*;

const TENANTS: [&str; 4] = ["alto", "alto-2", "altostrat", "b"];

fn id(tenant: &str) -> TenantId {
    TenantId::new(tenant).unwrap()
}

fn key(key: &[u8]) -> RowKey {
    RowKey::new(key.to_vec()).unwrap()
}

/// A catalog with the tenants and one table.
async fn catalog() -> (Catalog, Arc<Table>) {
    let store = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let catalog = Catalog::open(store).await.unwrap();
    for tenant in TENANTS {
        let create = |oid| Tenant {
            id: id(tenant),
            oid,
            state: TenantState::Active,
            created_micros: 1,
            quotas: Quotas::default(),
            settings: Default::default(),
            owner: None,
            comment: None,
        };
        catalog.commit(|snapshot| Ok(Edit::CreateTenant(create(snapshot.next_oid)))).await.unwrap();
    }
    let column = |name: &str| ColumnDefinition {
        name: name.into(),
        kind: SqlType::Text,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let definition = TableDefinition {
        name: "t".into(),
        columns: vec![column("id"), column("v")],
        primary_key: vec![("id".into(), false.into())],
        ..TableDefinition::default()
    };
    let oid = FIRST_OID + TENANTS.len() as u32;
    let table = Table::define(TableId(oid), &definition).unwrap();
    catalog.commit(|_| Ok(Edit::CreateTable(table.clone()))).await.unwrap();
    (catalog, Arc::new(table))
}

fn tenant_store(catalog: &Catalog, tenant: &str) -> TenantStore {
    TenantStore::of_tenant(catalog.store().clone(), id(tenant))
}

fn operator(catalog: &Catalog) -> TenantStore {
    TenantStore::of_operator(catalog.store().clone())
}

fn set(at: &[u8]) -> RowMutation {
    let family = FamilyName::new("cf").unwrap();
    let set = Mutation::SetCell { family, qualifier: "v".into(), timestamp: None, value: "1".into() };
    RowMutation { key: key(at), mutations: vec![set] }
}

async fn write(tenant_store: &TenantStore, table: &Arc<Table>, keys: &[&[u8]]) -> Result<i64> {
    let rows = keys.iter().map(|key| (table.clone(), set(key))).collect();
    tenant_store.commit(&tenant_store.pin().await.unwrap(), Writes { rows, ..Writes::default() }).await
}

async fn delete(tenant_store: &TenantStore, table: &Arc<Table>, range: KeyRange) -> Result<i64> {
    let writes = Writes { ranges: vec![(table.clone(), range)], ..Writes::default() };
    tenant_store.commit(&tenant_store.pin().await.unwrap(), writes).await
}

async fn read(tenant_store: &TenantStore, table: &Table, scan: Scan) -> Vec<Vec<u8>> {
    let rows = tenant_store.scan(table, scan).try_concat().await.unwrap();
    rows.into_iter().map(|row| row.key.to_vec()).collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[tokio::test]
async fn a_tenant_never_sees_one_whose_id_begins_with_its_own() {
    let (catalog, table) = catalog().await;
    let keys: [&[u8]; 5] = [b"alto#1", b"alto#2", b"alto-2#1", b"altostrat#1", b"b#\xff\xff"];
    write(&operator(&catalog), &table, &keys).await.unwrap();
    let alto = tenant_store(&catalog, "alto");
    assert_eq!(read(&alto, &table, Scan::all()).await, [b"1", b"2"]);
    assert_eq!(read(&alto, &table, Scan { reversed: true, ..Scan::all() }).await, [b"2", b"1"]);
    assert_eq!(read(&alto, &table, Scan::of(RowSet::none())).await, Vec::<Vec<u8>>::new());
    assert_eq!(read(&alto, &table, Scan::of(KeyRange::point(b"2"))).await, [b"2"]);
    assert_eq!(
        read(&tenant_store(&catalog, "b"), &table, Scan::of(KeyRange::new(&b"\xff"[..], None))).await,
        [b"\xff\xff"]
    );
    assert_eq!(read(&operator(&catalog), &table, Scan::all()).await, keys);
    assert_eq!(alto.size(&table, None).await.unwrap().rows, 2);
}

#[tokio::test]
async fn patterns_for_row_keys_match_what_a_tenant_sees() {
    let (catalog, table) = catalog().await;
    write(&operator(&catalog), &table, &[b"alto#1", b"alto#21", b"altostrat#1"]).await.unwrap();
    let scan = |pattern: &str| {
        let filter = Filter::Chain(vec![Filter::PassAll, Filter::RowKeyRegex(pattern.into())]);
        Scan { filter: Some(filter), ..Scan::all() }
    };
    let alto = tenant_store(&catalog, "alto");
    assert_eq!(read(&alto, &table, scan("1|x")).await, [b"1"]);
    assert_eq!(read(&alto, &table, scan(".*1")).await, [&b"1"[..], b"21"]);
    assert_eq!(read(&alto, &table, scan("y)|(?:.*")).await, [&b"1"[..], b"21"]);
}

#[tokio::test]
async fn a_drop_lets_no_write_slip_in() {
    let (catalog, table) = catalog().await;
    let alto = tenant_store(&catalog, "alto");
    let pin = alto.pin().await.unwrap();
    catalog.commit(|_| Ok(Edit::BeginDropTenant(id("alto")))).await.unwrap();
    let writes = || Writes { rows: vec![(table.clone(), set(b"1"))], ..Writes::default() };
    // Read before the drop, written after it.
    assert_eq!(alto.commit(&pin, writes()).await.unwrap_err().kind(), ErrorKind::Conflict);
    let pin = alto.pin().await.unwrap();
    assert_eq!(alto.commit(&pin, writes()).await.unwrap_err().kind(), ErrorKind::NoTenant);
    let operators = write(&operator(&catalog), &table, &[b"b#1", b"alto#1"]).await;
    assert_eq!(operators.unwrap_err().kind(), ErrorKind::NoTenant);
    assert!(read(&operator(&catalog), &table, Scan::all()).await.is_empty());
}

#[tokio::test]
async fn semantics_3_a_row_that_changed_after_the_pin_is_a_conflict() {
    let (catalog, table) = catalog().await;
    let alto = tenant_store(&catalog, "alto");
    let pin = alto.pin().await.unwrap();
    write(&tenant_store(&catalog, "altostrat"), &table, &[b"1"]).await.unwrap();
    let writes = || Writes {
        rows: vec![(table.clone(), set(b"1"))],
        validated: vec![(table.clone(), key(b"1"))],
        ..Writes::default()
    };
    // The row with the same key of another tenant is a different row.
    alto.commit(&pin, writes()).await.unwrap();
    assert_eq!(alto.commit(&pin, writes()).await.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn the_operator_names_a_tenant_in_every_key() {
    let (catalog, table) = catalog().await;
    let tenant_store = operator(&catalog);
    for bad in [&b"nobody#1"[..], b"1", b"Alto#1", b"#1", b"keyspan#1", b"\xff#1"] {
        assert_eq!(write(&tenant_store, &table, &[bad]).await.unwrap_err().kind(), ErrorKind::NoTenant, "{bad:?}");
    }
    assert_eq!(delete(&tenant_store, &table, KeyRange::all()).await.unwrap_err().kind(), ErrorKind::Invalid);
    write(&tenant_store, &table, &[b"alto#1", b"altostrat#1"]).await.unwrap();
    delete(&tenant_store, &table, KeyRange::prefix(&b"alto#"[..])).await.unwrap();
    assert_eq!(read(&tenant_store, &table, Scan::all()).await, [b"altostrat#1"]);
}

#[tokio::test]
async fn a_key_that_the_tenants_id_makes_too_long_is_told() {
    let (catalog, table) = catalog().await;
    let longest = vec![b'x'; 4096 - 5];
    let too_long = vec![b'x'; 4096 - 4];
    write(&tenant_store(&catalog, "alto"), &table, &[&longest]).await.unwrap();
    let error = write(&tenant_store(&catalog, "alto"), &table, &[&too_long]).await.unwrap_err();
    assert_eq!(error.store().map(keyspan_storage::Error::kind), Some(keyspan_storage::ErrorKind::TooLarge));
    assert_eq!(error.to_string(), "a row key of 4097 bytes is over the limit of 4096");
    assert!(error.detail.unwrap().contains("5 bytes"));
}

#[tokio::test]
async fn nothing_to_write_is_no_commit() {
    let (catalog, table) = catalog().await;
    let alto = tenant_store(&catalog, "alto");
    let pin = alto.pin().await.unwrap();
    let writes = Writes { validated: vec![(table, key(b"1"))], ..Writes::default() };
    assert_eq!(alto.commit(&pin, writes).await.unwrap(), pin.commit_micros);
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let bytes = vec![0u8, b'#', b'$', b'-', b'1', b'a', b's', 0xff];
    prop_oneof![
        prop::collection::vec(prop::sample::select(bytes), 1..4),
        prop::sample::select(vec![&b"altostrat#1"[..], b"alto#1", b"#", b"b#"]).prop_map(<[u8]>::to_vec),
    ]
}

fn any_range() -> impl Strategy<Value = KeyRange> {
    let start = prop_oneof![Just(vec![]), any_key()];
    (start, prop::option::of(any_key())).prop_map(|(start, end)| KeyRange::new(start, end.map(Bytes::from)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_tenants_door_opens_on_its_own_rows_only(
        all in prop::collection::vec((prop::sample::select(TENANTS.to_vec()), any_key()), 1..20),
        tenant in prop::sample::select(TENANTS.to_vec()),
        ranges in prop::collection::vec(any_range(), 0..3),
        deleted in any_range(),
        written in any_key(),
        reversed in any::<bool>(),
    ) {
        block_on(async {
            let (catalog, table) = catalog().await;
            for (tenant, key) in &all {
                write(&tenant_store(&catalog, tenant), &table, &[key]).await.unwrap();
            }
            let others = |rows: Vec<Vec<u8>>| {
                rows.into_iter().filter(|row| !row.starts_with(&span(&id(tenant)))).collect::<Vec<_>>()
            };
            let before = others(read(&operator(&catalog), &table, Scan::all()).await);
            let own = tenant_store(&catalog, tenant);
            let mut expected: Vec<Vec<u8>> =
                all.iter().filter(|(of, _)| *of == tenant).map(|(_, key)| key.clone()).collect();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(&read(&own, &table, Scan::all()).await, &expected);

            let chosen = |keys: &[Vec<u8>], set: &RowSet| -> Vec<Vec<u8>> {
                let inside = |key: &&Vec<u8>| set.ranges().iter().any(|range| range.contains(key));
                keys.iter().filter(inside).cloned().collect()
            };
            let set = RowSet::new(ranges);
            let mut some = chosen(&expected, &set);
            if reversed {
                some.reverse();
            }
            let scan = Scan { reversed, columns: Columns::All, ..Scan::of(set) };
            prop_assert_eq!(read(&own, &table, scan).await, some);

            delete(&own, &table, deleted.clone()).await.unwrap();
            write(&own, &table, &[&written]).await.unwrap();
            expected.retain(|key| !deleted.contains(key));
            expected.push(written.clone());
            expected.sort();
            expected.dedup();
            prop_assert_eq!(read(&own, &table, Scan::all()).await, expected);
            prop_assert_eq!(others(read(&operator(&catalog), &table, Scan::all()).await), before);
            Ok(())
        })?;
    }
}

/// Rows in memory, with keys only.
#[derive(Debug)]
struct Keys(Vec<&'static [u8]>);

impl keyspan_storage::MemoryRows for Keys {
    fn read(&self, after: Option<&[u8]>, take: &mut keyspan_storage::TakeRow<'_>) -> keyspan_storage::Result<()> {
        let behind = self.0.iter().filter(|key| after.is_none_or(|after| **key > after));
        let _ = behind.map(|key| take(key, &[])).find(|flow| flow.is_break());
        Ok(())
    }
}

#[test]
fn rows_in_memory_are_given_without_the_span() {
    let found = |keys: Vec<&'static [u8]>| {
        let memory = vec![keyspan_storage::MemoryPart::new(keys.len() as u64, Arc::new(Keys(keys)))];
        without_span(&span(&id("alto")), Columnar { parts: Vec::new(), memory, rest: Rest::none() }).memory.remove(0)
    };
    let read = |part: &keyspan_storage::MemoryPart, after: Option<&[u8]>| {
        let mut keys = Vec::new();
        part.read(after, &mut |key, _| {
            keys.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        })
        .map(|()| keys)
    };
    let part = found(vec![b"alto#", b"alto#a", b"alto#b", b"alto#c"]);
    assert_eq!(read(&part, None).unwrap(), [b"a", b"b", b"c"]);
    assert_eq!(read(&part, Some(b"a")).unwrap(), [b"b", b"c"]);
    // If a store wrongly returned another tenant's row, no session would see it.
    for other in [&b"alto-2#a"[..], b"altostrat#a", b"alt"] {
        assert!(read(&found(vec![b"alto#a", other]), None).is_err(), "{}", other.escape_ascii());
    }
}

/// A store whose columnar scan has no files: all rows are in the rest. It records requests.
#[derive(Debug)]
struct RestOnly {
    store: Arc<dyn Store>,
    asked: std::sync::Mutex<Vec<RowSet>>,
}

impl keyspan_storage::ColumnarScan for RestOnly {
    fn columnar(&self, table: &TableName, request: ColumnarRequest) -> keyspan_storage::Result<Columnar> {
        self.asked.lock().unwrap().push(request.rows);
        let (store, table, pin) = (Arc::clone(&self.store), table.clone(), request.pin);
        let read = move |scan: Scan| store.scan(&table, Scan { pin: pin.clone(), ..scan });
        Ok(Columnar { parts: Vec::new(), memory: Vec::new(), rest: Rest::new(1, read) })
    }
}

#[tokio::test]
async fn the_rest_of_a_fast_scan_lies_in_the_span() {
    let (catalog, table) = catalog().await;
    for tenant in ["alto", "alto-2", "altostrat"] {
        write(&tenant_store(&catalog, tenant), &table, &[b"a", b"b", b"c"]).await.unwrap();
    }
    let fast = RestOnly { store: catalog.store().clone(), asked: std::sync::Mutex::default() };
    let pin = catalog.store().pin().await.unwrap();
    let rows = RowSet::from(KeyRange::new(&b"b"[..], None));
    let moved = rows_within(&span(&id("alto")), &rows);
    let request = ColumnarRequest {
        rows: moved.clone(),
        span: KeyRange::all(),
        columns: Vec::new(),
        key: None,
        or_row_key: false,
        pin: Some(pin),
    };
    let found = keyspan_storage::ColumnarScan::columnar(&fast, &table.physical, request).unwrap();
    let found = without_span(&span(&id("alto")), found);
    assert_eq!(*fast.asked.lock().unwrap(), [moved]);
    let keys = |scan: Scan| {
        let rows = found.rest.scan(scan);
        async move {
            let rows: Vec<Row> = rows.try_concat().await.unwrap();
            rows.into_iter().map(|row| row.key.to_vec()).collect::<Vec<_>>()
        }
    };
    assert_eq!(keys(Scan::of(rows.clone())).await, [b"b", b"c"]);
    assert_eq!(keys(Scan { reversed: true, ..Scan::all() }).await, [b"c", b"b", b"a"]);
    let filter = Some(Filter::RowKeyRegex("[ac]".into()));
    assert_eq!(keys(Scan { filter, ..Scan::of(rows) }).await, [b"c"]);
}
