//! Private tables of tenants stay separate, whatever is created and dropped in whatever order.

use super::*;
use crate::{
    Catalog, ColumnDefinition, Edit, PrivateEdit, Quotas, SqlType, TableDefinition, TableId, Value,
    private::PRIVATE_TABLE,
    table::{HIDDEN_KEY, TENANT_COLUMN},
};
use keyspan_storage::{clock::ManualClock, memory::MemoryStore};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The second id begins with the first, and continues like one of its spaces.
const TENANTS: [&str; 3] = ["a", "a-1", "b"];
const NAMES: [&str; 2] = ["t", "u"];

fn id(tenant: &str) -> TenantId {
    TenantId::new(tenant).unwrap()
}

fn definition(name: &str, key: bool) -> TableDefinition {
    let column = |name: &str, kind| ColumnDefinition {
        name: name.into(),
        kind,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    TableDefinition {
        name: name.into(),
        columns: vec![column("id", SqlType::Float8), column("v", SqlType::Text)],
        primary_key: if key { vec![("id".into(), false.into())] } else { Vec::new() },
        ..TableDefinition::default()
    }
}

async fn open(store: &Arc<dyn Store>) -> Catalog {
    Catalog::open(store.clone()).await.unwrap()
}

async fn make_tenant(catalog: &Catalog, tenant: &str) {
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

async fn change(
    catalog: &Catalog,
    tenant: &str,
    edits: impl Fn(&crate::Snapshot) -> Vec<PrivateEdit> + Send + Sync,
) -> Result<()> {
    let oid = catalog.snapshot().tenant(tenant).map_or(0, |tenant| tenant.oid);
    catalog.commit(|snapshot| Ok(Edit::ChangePrivate(id(tenant), oid, edits(snapshot)))).await.map(drop)
}

fn create(name: &str) -> impl Fn(&crate::Snapshot) -> Vec<PrivateEdit> + Send + Sync {
    move |snapshot| {
        let table = Table::define_private(TableId(snapshot.next_oid), &definition(name, true)).unwrap();
        vec![PrivateEdit::CreateTable(Box::new(table))]
    }
}

fn tenant_store(catalog: &Catalog, tenant: &str) -> TenantStore {
    TenantStore::of_session(catalog.store().clone(), catalog.snapshot().tenant(tenant).unwrap())
}

fn table(catalog: &Catalog, tenant: &str, name: &str) -> Option<Arc<Table>> {
    catalog.snapshot().table_in(Some(&id(tenant)), name).cloned()
}

fn row(table: &Table, key: u8) -> RowMutation {
    let family = FamilyName::new("cf").unwrap();
    let set = Mutation::SetCell { family, qualifier: "v".into(), timestamp: None, value: "1".into() };
    RowMutation { key: table.key.encode(&[Value::Float(f64::from(key))]).unwrap(), mutations: vec![set] }
}

async fn write(tenant_store: &TenantStore, table: &Arc<Table>, key: u8) -> Result<i64> {
    let writes = Writes { rows: vec![(table.clone(), row(table, key))], ..Writes::default() };
    tenant_store.commit(&tenant_store.pin().await.unwrap(), writes).await
}

async fn keys(tenant_store: &TenantStore, table: &Table) -> Vec<u8> {
    let rows: Vec<Row> = tenant_store.scan(table, Scan::all()).try_concat().await.unwrap();
    let number = |row: Row| match table.key.decode(&row.key).unwrap()[..] {
        [Value::Float(number)] => number as u8,
        ref other => panic!("{other:?}"),
    };
    rows.into_iter().map(number).collect()
}

/// The number of rows of private tables in the store.
async fn stored(store: &Arc<dyn Store>) -> usize {
    match store.scan(&private_table(), Scan::all()).try_concat().await {
        Ok(rows) => rows.len(),
        Err(_) => 0,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize),
    Drop(usize, usize),
    Write(usize, usize, u8),
    Truncate(usize, usize),
    Rewrite(usize, usize),
    DropTenant(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let of = || (0..TENANTS.len(), 0..NAMES.len());
    prop_oneof![
        4 => of().prop_map(|(tenant, name)| Step::Create(tenant, name)),
        1 => of().prop_map(|(tenant, name)| Step::Drop(tenant, name)),
        8 => (of(), any::<u8>()).prop_map(|((tenant, name), key)| Step::Write(tenant, name, key)),
        1 => of().prop_map(|(tenant, name)| Step::Truncate(tenant, name)),
        1 => of().prop_map(|(tenant, name)| Step::Rewrite(tenant, name)),
        1 => (0..TENANTS.len()).prop_map(Step::DropTenant),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn every_tenant_sees_its_own_tables_and_nothing_else(steps in prop::collection::vec(step(), 1..40)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(check(steps))?;
    }
}

/// The keys of rows, by tenant and table.
type Model = BTreeMap<(usize, usize), BTreeSet<u8>>;

async fn check(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let mut catalog = open(&store).await;
    for tenant in TENANTS {
        make_tenant(&catalog, tenant).await;
    }
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Create(tenant, name) => {
                let made = change(&catalog, TENANTS[tenant], create(NAMES[name])).await;
                let there = model.contains_key(&(tenant, name));
                prop_assert_eq!(made.err().map(|error| error.kind()), there.then_some(ErrorKind::TableExists));
                model.entry((tenant, name)).or_default();
            }
            Step::Drop(tenant, name) => {
                if let Some(table) = table(&catalog, TENANTS[tenant], NAMES[name]) {
                    change(&catalog, TENANTS[tenant], |_| vec![PrivateEdit::DropTable(table.id)]).await.unwrap();
                    // A writer with the dropped definition writes nothing.
                    let late = write(&tenant_store(&catalog, TENANTS[tenant]), &table, 1).await;
                    prop_assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
                }
                model.remove(&(tenant, name));
            }
            Step::Write(tenant, name, key) => {
                if let Some(table) = table(&catalog, TENANTS[tenant], NAMES[name]) {
                    write(&tenant_store(&catalog, TENANTS[tenant]), &table, key).await.unwrap();
                    // Another tenant's store reads nothing of the table, and writes nothing there.
                    let other = tenant_store(&catalog, TENANTS[(tenant + 1) % TENANTS.len()]);
                    prop_assert_eq!(keys(&other, &table).await, Vec::<u8>::new());
                    prop_assert_eq!(write(&other, &table, key).await.unwrap_err().kind(), ErrorKind::Conflict);
                    model.entry((tenant, name)).or_default().insert(key);
                }
            }
            Step::Truncate(tenant, name) => {
                if let Some(table) = table(&catalog, TENANTS[tenant], NAMES[name]) {
                    let tenant_store = tenant_store(&catalog, TENANTS[tenant]);
                    let writes = Writes { ranges: vec![(table, KeyRange::all())], ..Writes::default() };
                    tenant_store.commit(&tenant_store.pin().await.unwrap(), writes).await.unwrap();
                    model.entry((tenant, name)).or_default().clear();
                }
            }
            Step::Rewrite(tenant, name) => {
                if let Some(before) = table(&catalog, TENANTS[tenant], NAMES[name]) {
                    let space = catalog.snapshot().next_oid;
                    change(&catalog, TENANTS[tenant], |_| vec![PrivateEdit::Reserve(space)]).await.unwrap();
                    let after = Table { space: Some(space), ..before.as_ref().clone() };
                    let edit = || PrivateEdit::AlterTable(Box::new((before.as_ref().clone(), after.clone())));
                    change(&catalog, TENANTS[tenant], |_| vec![edit()]).await.unwrap();
                    model.entry((tenant, name)).or_default().clear();
                }
            }
            Step::DropTenant(tenant) => {
                let oid = catalog.snapshot().tenant(TENANTS[tenant]).unwrap().oid;
                let of = |(other, _): &(usize, usize)| *other == tenant;
                let rows: usize = model.iter().filter(|(table, _)| of(table)).map(|(_, rows)| rows.len()).sum();
                let certificate = catalog.drop_tenant(&id(TENANTS[tenant]), "keyspan", 5).await.unwrap();
                prop_assert_eq!(certificate.rows, rows as u64);
                make_tenant(&catalog, TENANTS[tenant]).await;
                // A session of the dropped tenant creates nothing for the new one.
                let late = catalog
                    .commit(|snapshot| Ok(Edit::ChangePrivate(id(TENANTS[tenant]), oid, create("late")(snapshot))));
                prop_assert_eq!(late.await.unwrap_err().kind(), ErrorKind::NoTenant);
                model.retain(|table, _| !of(table));
            }
            Step::Reopen => catalog = open(&store).await,
        }
        for (tenant, id) in TENANTS.iter().enumerate() {
            let tenant_store = tenant_store(&catalog, id);
            let mut seen = Vec::new();
            for table in catalog.snapshot().tables_in(tenant_store.tenant()) {
                seen.push((table.name.clone(), keys(&tenant_store, table).await));
            }
            let expected = model.iter().filter(|((of, _), _)| *of == tenant);
            let mut expected: Vec<_> =
                expected.map(|((_, name), rows)| (NAMES[*name].to_owned(), rows.iter().copied().collect())).collect();
            seen.sort();
            expected.sort();
            prop_assert_eq!(seen, expected);
        }
        // No dropped or overwritten row is left.
        prop_assert_eq!(stored(&store).await, model.values().map(BTreeSet::len).sum::<usize>());
        prop_assert!(catalog.snapshot().private.values().all(|private| private.spare.is_empty()));
    }
    Ok(())
}

#[tokio::test]
async fn what_a_crash_leaves_spare_is_deleted_at_the_start() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let catalog = open(&store).await;
    make_tenant(&catalog, "a").await;
    change(&catalog, "a", create("t")).await.unwrap();
    let kept = table(&catalog, "a", "t").unwrap();
    write(&tenant_store(&catalog, "a"), &kept, 1).await.unwrap();
    let space = catalog.snapshot().next_oid;
    change(&catalog, "a", |_| vec![PrivateEdit::Reserve(space)]).await.unwrap();
    let written = Write::Row {
        table: private_table(),
        row: RowMutation { key: RowKey::new(format!("a#{space}#x")).unwrap(), ..row(&kept, 1) },
    };
    store.commit(Commit { writes: vec![written], validation: None }).await.unwrap();
    assert_eq!(stored(&store).await, 2);
    let catalog = open(&store).await;
    assert_eq!(stored(&store).await, 1);
    assert_eq!(catalog.snapshot().private[&id("a")].spare, BTreeSet::new());
    assert_eq!(keys(&tenant_store(&catalog, "a"), &kept).await, [1]);
}

#[tokio::test]
async fn names_are_the_tenants_and_the_operators_together() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let catalog = open(&store).await;
    make_tenant(&catalog, "a").await;
    let shared = |name: &'static str| {
        move |snapshot: &crate::Snapshot| {
            Ok(Edit::CreateTable(Table::define(TableId(snapshot.next_oid), &definition(name, true))?))
        }
    };
    let ordered = |name: &'static str| {
        move |snapshot: &crate::Snapshot| {
            let options = vec![("key_encoding".to_owned(), "ordered".to_owned())];
            let definition = TableDefinition { options, ..definition(name, true) };
            Ok(Edit::CreateTable(Table::define(TableId(snapshot.next_oid), &definition)?))
        }
    };
    // Only ordered keys support floats, and private tables have ordered keys by default.
    assert_eq!(catalog.commit(shared("t")).await.unwrap_err().kind(), ErrorKind::Unsupported);
    catalog.commit(ordered("t")).await.unwrap();
    assert_eq!(change(&catalog, "a", create("t")).await.unwrap_err().kind(), ErrorKind::TableExists);
    change(&catalog, "a", create("u")).await.unwrap();
    assert_eq!(catalog.commit(ordered("u")).await.unwrap_err().kind(), ErrorKind::TableExists);
    assert!(catalog.snapshot().table("u").is_none());
    // The operator's store refuses it: the store's table holds the rows of all tenants.
    let table = table(&catalog, "a", "u").unwrap();
    let operator = TenantStore::of_operator(catalog.store().clone());
    assert!(operator.scan(&table, Scan::all()).try_concat().await.is_err());
    assert_eq!(write(&operator, &table, 1).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// A tenant store caches the catalog rows that its commits read.
#[tokio::test]
async fn a_door_that_has_committed_notices_what_changes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let catalog = open(&store).await;
    make_tenant(&catalog, "a").await;
    change(&catalog, "a", create("t")).await.unwrap();
    let (tenant_store, before) = (tenant_store(&catalog, "a"), table(&catalog, "a", "t").unwrap());
    for key in 1..=2 {
        write(&tenant_store, &before, key).await.unwrap();
    }
    let renamed = |_: &crate::Snapshot| {
        vec![PrivateEdit::AlterTable(Box::new((before.as_ref().clone(), before.rename("u").unwrap())))]
    };
    change(&catalog, "a", renamed).await.unwrap();
    assert_eq!(write(&tenant_store, &before, 3).await.unwrap_err().kind(), ErrorKind::Conflict);
    let after = table(&catalog, "a", "u").unwrap();
    write(&tenant_store, &after, 4).await.unwrap();
    // The cached tenant too is read again when it is dropped.
    catalog.commit(|_| Ok(Edit::BeginDropTenant(id("a")))).await.unwrap();
    assert_eq!(write(&tenant_store, &after, 5).await.unwrap_err().kind(), ErrorKind::NoTenant);
}

#[test]
fn a_private_table_has_one_family_and_ordered_keys() {
    let table = Table::define_private(TableId(16_400), &definition("t", false)).unwrap();
    assert_eq!((table.physical.as_str(), table.space), (PRIVATE_TABLE, Some(16_400)));
    assert_eq!((table.has_hidden_key(), table.key.parts[0].name.as_str()), (true, HIDDEN_KEY));
    assert_eq!(table.storage_schema(), crate::private::private_schema());
    let json = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&json).unwrap(), table);
    for name in [HIDDEN_KEY, TENANT_COLUMN] {
        assert_eq!(table.rename_column("v", name).unwrap_err().kind(), ErrorKind::Reserved);
    }
    assert_eq!(table.add_family("m", false, &[]).unwrap_err().kind(), ErrorKind::Unsupported);
    let options = [("history".to_owned(), "1 day".to_owned())];
    assert_eq!(table.set_options(&options).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_sequence_gives_each_number_once_and_goes_with_its_tenant() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
    let catalog = open(&store).await;
    make_tenant(&catalog, "a").await;
    make_tenant(&catalog, "b").await;
    let create = |snapshot: &crate::Snapshot| {
        vec![PrivateEdit::CreateSequence(Sequence::define(snapshot.next_oid, "s", &Default::default()).unwrap())]
    };
    for tenant in ["a", "b"] {
        change(&catalog, tenant, create).await.unwrap();
    }
    assert_eq!(change(&catalog, "a", create).await.unwrap_err().kind(), ErrorKind::TableExists);
    let sequence = |catalog: &Catalog| catalog.snapshot().private[&id("a")].sequence("s").unwrap().clone();
    let next = async |catalog: &Catalog, tenant: &str, sequence: &Sequence| {
        let tenant_store = tenant_store(catalog, tenant);
        tenant_store.advance(sequence, |state| sequence.next(state, 2)).await.map(|numbers| numbers.first)
    };
    let of_a = sequence(&catalog);
    assert_eq!(next(&catalog, "a", &of_a).await.unwrap(), 1);
    // It does not exist for another tenant, nor for one created again under the same name.
    assert_eq!(next(&catalog, "b", &of_a).await.unwrap_err().kind(), ErrorKind::NoTable);
    let catalog = open(&store).await;
    assert_eq!(next(&catalog, "a", &sequence(&catalog)).await.unwrap(), 3);
    catalog.drop_tenant(&id("a"), "keyspan", 5).await.unwrap();
    make_tenant(&catalog, "a").await;
    assert_eq!(next(&catalog, "a", &of_a).await.unwrap_err().kind(), ErrorKind::NoTable);
    assert_eq!(stored(&store).await, 0);
}
