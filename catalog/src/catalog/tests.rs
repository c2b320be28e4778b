//! The catalog in a memory store: persistence, conflicts, recovery after crashes.

use super::*;
use crate::rights::{AclItem, DATABASE_OWNER, ListChange, ListOf, ObjectKind, Privileges};
use crate::{
    ColumnDefinition, PartOrder, PrivateEdit, Quotas, Role, SqlType, TableDefinition, TableId, Tenant, TenantId,
    TenantState, TenantStore, snapshot::FIRST_OID, tenant_store::Writes,
};
use keyspan_storage::{
    FamilyName, GcRule, Mutation, RowKey, RowMutation,
    clock::ManualClock,
    engine::{Engine, EngineOptions},
    memory::MemoryStore,
    testing::sim::SimFs,
};
use std::sync::atomic::{AtomicUsize, Ordering};

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))))
}

fn new_tenant(id: &str) -> impl Fn(&Snapshot) -> Result<Edit> + Send + Sync + use<> {
    let id = TenantId::new(id).unwrap();
    move |snapshot| {
        let oid = snapshot.next_oid;
        Ok(Edit::CreateTenant(Tenant {
            id: id.clone(),
            oid,
            state: TenantState::Active,
            created_micros: 1,
            quotas: Quotas::default(),
            settings: Default::default(),
            owner: None,
            comment: None,
        }))
    }
}

fn text_table() -> TableDefinition {
    let column = |name: &str| ColumnDefinition {
        name: name.into(),
        kind: SqlType::Text,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    TableDefinition {
        columns: vec![column("id"), column("v")],
        primary_key: vec![("id".into(), false.into())],
        ..TableDefinition::default()
    }
}

fn new_table(name: &'static str) -> impl Fn(&Snapshot) -> Result<Edit> + Send + Sync {
    move |snapshot| {
        let definition = TableDefinition { name: name.into(), ..text_table() };
        Ok(Edit::CreateTable(Table::define(TableId(snapshot.next_oid), &definition)?))
    }
}

fn alter(
    name: &'static str,
    change: impl Fn(&Table) -> Result<Table> + Send + Sync,
) -> impl Fn(&Snapshot) -> Result<Edit> + Send + Sync {
    move |snapshot| Ok(Edit::AlterTable(change(snapshot.table(name).unwrap())?))
}

async fn physical(store: &Arc<dyn Store>) -> Vec<String> {
    store.tables().await.unwrap().into_iter().map(|(name, _)| name.to_string()).collect()
}

async fn put(catalog: &Catalog, table: &str, key: &str) -> Result<i64> {
    let rows = TenantStore::of_operator(catalog.store().clone());
    let family = FamilyName::new("cf").unwrap();
    let set = Mutation::SetCell { family, qualifier: "v".into(), timestamp: None, value: "1".into() };
    let row = RowMutation { key: RowKey::new(key.to_owned()).unwrap(), mutations: vec![set] };
    let table = catalog.snapshot().table(table).unwrap().clone();
    rows.commit(&rows.pin().await?, Writes { rows: vec![(table, row)], ..Writes::default() }).await
}

async fn keys(catalog: &Catalog, table: &str) -> Vec<String> {
    let table = catalog.snapshot().table(table).unwrap().physical.clone();
    let rows = catalog.store().read_rows(&table, Scan::all()).await.unwrap();
    rows.into_iter().map(|row| String::from_utf8_lossy(&row.key).into_owned()).collect()
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_tenant("alto")).await.unwrap();
    catalog.commit(new_tenant("bari")).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    let role = |oid| Role { name: "ana".into(), oid, login: true, operator: false, ..Role::default() };
    catalog.commit(|snapshot| Ok(Edit::CreateRole(role(snapshot.next_oid)))).await.unwrap();
    catalog.commit(|_| Ok(Edit::GrantConnect("ana".into(), TenantId::new("alto").unwrap()))).await.unwrap();
    let alto = TenantId::new("alto").unwrap();
    catalog.commit(|_| Ok(Edit::GiveOwners)).await.unwrap();
    let grant = |snapshot: &Snapshot| {
        let grantee = snapshot.role("ana").unwrap().oid;
        let (grantor, privileges) = (DATABASE_OWNER, Privileges::SELECT);
        let item = AclItem { grantee, grantor, privileges, grantable: privileges };
        let table = ListOf::Object(snapshot.table("t").unwrap().id.0);
        let tables = ListOf::Default {
            role: grantee,
            kind: ObjectKind::Relation,
            in_schema: Some(crate::rights::PUBLIC_SCHEMA),
        };
        let lists = [table, tables].map(|of| PrivateEdit::ChangeList(of, ListChange::Grant(item)));
        Ok(Edit::ChangePrivate(alto.clone(), snapshot.tenant("alto").unwrap().oid, lists.into()))
    };
    catalog.commit(grant).await.unwrap();
    catalog.drop_tenant(&TenantId::new("bari").unwrap(), "keyspan", 5).await.unwrap();
    catalog.commit(alter("t", |table| table.set_options(&[("cf.max_versions".into(), "2".into())]))).await.unwrap();
    let again = Catalog::open(store.clone()).await.unwrap();
    assert_eq!(*again.snapshot(), *catalog.snapshot());
    assert_eq!(again.snapshot().drops.len(), 1);
    assert_eq!(again.snapshot().next_oid, FIRST_OID + 6);
    assert_eq!(physical(&store).await, ["catalog", "private", "t-16386"]);
}

/// A program that knows no reversed parts would look for rows where none are: it refuses the format.
#[tokio::test]
async fn reversed_keys_are_of_a_later_format() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    let stored = || async {
        let row = store.read_row(&rows::catalog_table(), &rows::version_key(), None).await.unwrap().unwrap();
        String::from_utf8_lossy(&row.newest("c", b"").unwrap().value).into_owned()
    };
    catalog.commit(new_table("plain")).await.unwrap();
    assert!(stored().await.starts_with(r#"{"format":1,"#));
    let reversed = |snapshot: &Snapshot| {
        let primary_key = vec![("id".into(), PartOrder::Reversed)];
        let definition = TableDefinition { name: "reversed".into(), primary_key, ..text_table() };
        Ok(Edit::CreateTable(Table::define(TableId(snapshot.next_oid), &definition)?))
    };
    catalog.commit(reversed).await.unwrap();
    assert!(stored().await.starts_with(r#"{"format":2,"#));
    let again = Catalog::open(store.clone()).await.unwrap();
    assert_eq!(again.snapshot(), catalog.snapshot());
    assert!(again.snapshot().table("reversed").unwrap().key.parts[0].is_reversed());
    // Its rows stay in the history, and in files.
    let id = again.snapshot().table("reversed").unwrap().id;
    again.commit(|_| Ok(Edit::DropTable(id))).await.unwrap();
    assert!(stored().await.starts_with(r#"{"format":2,"#));
}

#[tokio::test]
async fn the_mock_nonce_comes_to_an_old_store_and_stays() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_tenant("alto")).await.unwrap();
    // The row as an earlier version wrote it.
    let row = store.read_row(&rows::catalog_table(), &rows::version_key(), None).await.unwrap().unwrap();
    assert_eq!(row.newest("c", b"").unwrap().value, r#"{"format":1,"version":1,"next_oid":16385}"#);
    let (first, second) = (crate::MockNonce([1; 32]), crate::MockNonce([2; 32]));
    catalog.commit(|_| Ok(Edit::SetMockNonce(first))).await.unwrap();
    catalog.commit(|_| Ok(Edit::SetMockNonce(second))).await.unwrap();
    catalog.commit(new_tenant("altostrat")).await.unwrap();
    let again = Catalog::open(store).await.unwrap();
    assert_eq!(again.snapshot().mock_nonce, Some(first));
    assert_eq!(again.snapshot(), catalog.snapshot());
}

#[tokio::test]
async fn an_edit_writes_only_what_it_touches() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    for number in 0..50 {
        catalog.commit(new_tenant(&format!("t{number}"))).await.unwrap();
    }
    let before = catalog.snapshot();
    let after = catalog.commit(new_tenant("one")).await.unwrap();
    assert_eq!(rows::difference(&before, &after).len(), 2);
    let dropping = catalog.commit(|_| Ok(Edit::BeginDropTenant(TenantId::new("t7").unwrap()))).await.unwrap();
    assert_eq!(rows::difference(&after, &dropping).len(), 2);
}

#[tokio::test]
async fn an_edit_that_lost_is_derived_anew() {
    let store = store();
    let (one, other) = (Catalog::open(store.clone()).await.unwrap(), Catalog::open(store.clone()).await.unwrap());
    one.commit(new_tenant("alto")).await.unwrap();
    assert!(other.snapshot().tenant("alto").is_none());
    // The other catalog has not seen the edit, and takes the next OID nevertheless.
    let seen = other.commit(new_tenant("bari")).await.unwrap();
    assert_eq!(seen.tenant("alto").unwrap().oid + 1, seen.tenant("bari").unwrap().oid);
    assert_eq!(one.commit(new_tenant("bari")).await.unwrap_err().kind(), ErrorKind::TenantExists);
    assert_eq!(*one.refresh().await.unwrap(), *seen);
}

#[test]
fn an_edit_that_meets_another_tries_again_and_not_for_ever() {
    use futures::executor::block_on;
    let store = store();
    let (one, other) = (block_on(Catalog::open(store.clone())).unwrap(), block_on(Catalog::open(store)).unwrap());
    let meets = |count: usize| {
        let (create, attempts, other) = (new_tenant(&format!("met-{count}")), AtomicUsize::new(0), &other);
        block_on(one.commit(move |snapshot: &Snapshot| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst);
            if attempt < count {
                // After this edit has received its snapshot, and before it is written.
                let first = new_tenant(&format!("first-{count}-{attempt}"));
                let committed = std::thread::scope(|scope| scope.spawn(|| block_on(other.commit(first))).join());
                committed.unwrap().unwrap();
            }
            create(snapshot)
        }))
    };
    let after = meets(2).unwrap();
    assert_eq!((after.tenants.len(), after.version), (3, 3));
    assert_eq!(meets(COMMIT_ATTEMPTS_MAX).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(block_on(one.refresh()).unwrap().tenants.len(), 3 + COMMIT_ATTEMPTS_MAX);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_two_gateways_at_once_all_happen() {
    let store = store();
    let gateways = [Catalog::open(store.clone()).await.unwrap(), Catalog::open(store.clone()).await.unwrap()];
    let attempts = Arc::new(AtomicUsize::new(0));
    let mut edits = tokio::task::JoinSet::new();
    for (gateway, catalog) in gateways.into_iter().map(Arc::new).enumerate() {
        for number in 0..4 {
            let (catalog, attempts) = (catalog.clone(), attempts.clone());
            edits.spawn(async move {
                let create = new_tenant(&format!("g{gateway}-{number}"));
                let count = |snapshot: &Snapshot| {
                    attempts.fetch_add(1, Ordering::SeqCst);
                    create(snapshot)
                };
                catalog.commit(count).await.map(drop)
            });
        }
    }
    for result in edits.join_all().await {
        result.unwrap();
    }
    let catalog = Catalog::open(store).await.unwrap();
    let oids: std::collections::BTreeSet<u32> = catalog.snapshot().tenants.values().map(|tenant| tenant.oid).collect();
    assert_eq!((catalog.snapshot().version, oids.len()), (8, 8));
    assert!(attempts.load(Ordering::SeqCst) >= 8);
}

#[tokio::test]
async fn a_table_that_was_made_and_not_shown_is_dropped_at_the_next_start() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    let Edit::CreateTable(table) = new_table("t")(&catalog.snapshot()).unwrap() else { panic!() };
    catalog.make_table(&table).await.unwrap();
    assert_eq!(physical(&store).await, ["catalog", "t-16384"]);
    // Or the next attempt reuses it.
    catalog.make_table(&table).await.unwrap();
    let again = Catalog::open(store.clone()).await.unwrap();
    assert_eq!(physical(&store).await, ["catalog"]);
    again.commit(new_table("t")).await.unwrap();
    assert!(Catalog::open(store.clone()).await.unwrap().snapshot().table("t").is_some());
    assert_eq!(physical(&store).await, ["catalog", "t-16384"]);
}

#[tokio::test]
async fn a_foreign_table_of_the_store_is_not_touched() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    store.create_table(&TableName::new("t-16384").unwrap(), TableSchema::default()).await.unwrap();
    let error = catalog.commit(new_table("t")).await.unwrap_err();
    assert_eq!(error.store().map(keyspan_storage::Error::kind), Some(keyspan_storage::ErrorKind::AlreadyExists));
    Catalog::open(store.clone()).await.unwrap();
    assert_eq!(physical(&store).await, ["catalog", "t-16384"]);
}

#[tokio::test]
async fn a_table_that_was_hidden_and_not_dropped_is_dropped_at_the_next_start() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    let made = catalog.commit(new_table("t")).await.unwrap();
    let table = made.table("t").unwrap().clone();
    // The state after a crash right after the edit.
    let after = made.apply(&Edit::DropTable(table.id)).unwrap();
    let mut writes = rows::difference(&made, &after);
    writes.push(rows::put(rows::pending_key(&table.physical), &true));
    store.commit(Commit { writes, validation: None }).await.unwrap();
    assert_eq!(physical(&store).await, ["catalog", "t-16384"]);
    let again = Catalog::open(store.clone()).await.unwrap();
    assert_eq!((physical(&store).await.len(), again.snapshot().tables.len()), (1, 0));
    assert!(load(&store, &store.pin().await.unwrap()).await.unwrap().pending.is_empty());
}

#[tokio::test]
async fn families_follow_the_definition() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    let with_family = |table: &Table| table.add_family("m", false, &[("m.max_versions".into(), "3".into())]);
    catalog.commit(alter("t", with_family)).await.unwrap();
    catalog.commit(alter("t", |table| table.set_options(&[("m.max_versions".into(), "1".into())]))).await.unwrap();
    let expected = catalog.snapshot().table("t").unwrap().storage_schema();
    let name = TableName::new("t-16384").unwrap();
    assert_eq!(store.table(&name).await.unwrap(), expected);
    // A crash before the families were changed: the next start changes them.
    store.modify_families(&name, vec![FamilyChange::Drop(FamilyName::new("m").unwrap())]).await.unwrap();
    Catalog::open(store.clone()).await.unwrap();
    assert_eq!(store.table(&name).await.unwrap(), expected);
    catalog.commit(alter("t", |table| table.drop_family("m"))).await.unwrap();
    assert_eq!(store.table(&name).await.unwrap().families.len(), 2);
    // The cells of a family left over from a failed edit do not appear in the next family of its name.
    let leftover = FamilyChange::Create(FamilyName::new("m").unwrap(), Default::default());
    store.modify_families(&name, vec![leftover]).await.unwrap();
    catalog.commit(alter("t", with_family)).await.unwrap();
    assert_eq!(store.table(&name).await.unwrap(), catalog.snapshot().table("t").unwrap().storage_schema());
}

#[tokio::test]
async fn history_follows_the_definition() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    let name = TableName::new("t-16384").unwrap();
    let set = |value: &'static str| alter("t", move |table| table.set_options(&[("history".into(), value.into())]));
    let kept = async || store.table(&name).await.unwrap().history;
    catalog.commit(set("1 day")).await.unwrap();
    let day = kept().await.unwrap();
    assert_eq!(day.keep_micros, 86_400_000_000);
    // Without a change, the history that is kept stays.
    catalog.commit(set("24 hours")).await.unwrap();
    assert_eq!(kept().await, Some(day));
    catalog.commit(set("2 days")).await.unwrap();
    assert_eq!(kept().await.unwrap().keep_micros, 172_800_000_000);
    // A crash before the store was changed: the next start changes it.
    store.modify_families(&name, vec![FamilyChange::SetHistory(None)]).await.unwrap();
    Catalog::open(store.clone()).await.unwrap();
    assert_eq!(kept().await.unwrap().keep_micros, 172_800_000_000);
    catalog.commit(set("none")).await.unwrap();
    assert_eq!(kept().await, None);
}

#[tokio::test]
async fn a_dropped_tenant_leaves_the_others_rows() {
    let catalog = Catalog::open(store()).await.unwrap();
    for id in ["alto", "altostrat"] {
        catalog.commit(new_tenant(id)).await.unwrap();
    }
    catalog.commit(new_table("t")).await.unwrap();
    catalog.commit(new_table("u")).await.unwrap();
    for key in ["alto#1", "alto#2", "altostrat#1"] {
        put(&catalog, "t", key).await.unwrap();
    }
    let alto = TenantId::new("alto").unwrap();
    let size = catalog.tenant_size(&alto).await.unwrap();
    let by_table: Vec<_> = size.tables.iter().map(|(table, size)| (table.name.as_str(), size.rows)).collect();
    assert_eq!(by_table, [("t", 2), ("u", 0)]);
    let contents = catalog.tenant_contents(catalog.snapshot().tenant("alto").unwrap()).await.unwrap();
    let certificate = catalog.drop_tenant(&alto, "keyspan", 7).await.unwrap();
    assert_eq!((certificate.tables, certificate.bytes), (1, size.total().bytes));
    assert_eq!(certificate.contents, contents);
    assert_eq!((certificate.tables, certificate.rows, certificate.dropped_micros), (1, 2, 7));
    assert_eq!(keys(&catalog, "t").await, ["altostrat#1"]);
    assert_eq!(put(&catalog, "t", "alto#3").await.unwrap_err().kind(), ErrorKind::NoTenant);
    assert_eq!(catalog.drop_tenant(&alto, "keyspan", 8).await.unwrap_err().kind(), ErrorKind::NoTenant);
    // A tenant created again under this name begins empty.
    catalog.commit(new_tenant("alto")).await.unwrap();
    put(&catalog, "t", "alto#4").await.unwrap();
    assert_eq!(keys(&catalog, "t").await, ["alto#4", "altostrat#1"]);
}

#[tokio::test]
async fn an_interrupted_drop_is_finished() {
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_tenant("alto")).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    put(&catalog, "t", "alto#1").await.unwrap();
    catalog.commit(|_| Ok(Edit::BeginDropTenant(TenantId::new("alto").unwrap()))).await.unwrap();
    let again = Catalog::open(store).await.unwrap();
    let finished = again.finish_drops("keyspan", 9).await.unwrap();
    assert_eq!((finished.len(), finished[0].rows), (1, 1));
    assert!(again.snapshot().tenants.is_empty() && keys(&again, "t").await.is_empty());
    assert!(again.finish_drops("keyspan", 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_damaged_catalog_is_told() {
    for (key, value) in
        [("tenant#alto", "{"), ("version", r#"{"format": 7, "version": 1, "next_oid": 1}"#), ("x#y", "1")]
    {
        let store = store();
        Catalog::open(store.clone()).await.unwrap();
        let set = Mutation::SetCell {
            family: FamilyName::new("c").unwrap(),
            qualifier: "".into(),
            timestamp: None,
            value: value.into(),
        };
        store.mutate_row(&rows::catalog_table(), RowKey::new(key.to_owned()).unwrap(), vec![set]).await.unwrap();
        assert_eq!(Catalog::open(store).await.unwrap_err().kind(), ErrorKind::Corrupt, "{key}");
    }
    let store = store();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    store.drop_table(&TableName::new("t-16384").unwrap()).await.unwrap();
    assert_eq!(Catalog::open(store.clone()).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// The state that an interrupted edit leaves: an invisible table, and GC rules that differ from the definition.
async fn interrupted(catalog: &Catalog) {
    let leftover = Table::define(TableId(20_000), &TableDefinition { name: "left".into(), ..text_table() }).unwrap();
    catalog.make_table(&leftover).await.unwrap();
    let rule = FamilyChange::SetGc(FamilyName::new("cf").unwrap(), GcRule::MaxVersions(7));
    let name = catalog.snapshot().table("t").unwrap().physical.clone();
    catalog.store().modify_families(&name, vec![rule]).await.unwrap();
}

fn is_finished(tables: &[(TableName, TableSchema)], catalog: &Catalog) -> bool {
    let table = catalog.snapshot().table("t").unwrap().clone();
    let mended =
        |(name, schema): &(TableName, TableSchema)| *name == table.physical && *schema == table.storage_schema();
    tables.iter().any(mended) && !tables.iter().any(|(name, _)| name.to_string() == "left-20000")
}

#[tokio::test]
async fn a_full_disk_is_no_reason_not_to_open() {
    let fs = SimFs::new();
    let options = EngineOptions { fs: Arc::new(fs.clone()), log_file_bytes: 4 << 10, ..EngineOptions::new("/store") };
    let store: Arc<dyn Store> = Engine::open(options).await.unwrap();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    catalog.commit(new_tenant("alto")).await.unwrap();
    catalog.commit(new_table("t")).await.unwrap();
    put(&catalog, "t", "alto#1").await.unwrap();
    interrupted(&catalog).await;
    assert!(!is_finished(&store.tables().await.unwrap(), &catalog));
    fs.fill_disk(true);
    let refused = loop {
        if let Err(error) = put(&catalog, "t", "alto#2").await {
            break error;
        }
    };
    assert!(takes_no_writes(&refused), "{refused:?}");

    let catalog = Catalog::open(store.clone()).await.unwrap();
    assert_eq!(keys(&catalog, "t").await, ["alto#1", "alto#2"]);
    assert!(takes_no_writes(&catalog.finish_interrupted().await.unwrap_err()));
    assert!(takes_no_writes(&catalog.commit(new_table("u")).await.unwrap_err()));
    assert!(!is_finished(&store.tables().await.unwrap(), &catalog));
    // With free space, the next edit or a call of `finish_interrupted` finishes it.
    fs.fill_disk(false);
    catalog.commit(new_table("u")).await.unwrap();
    assert!(is_finished(&store.tables().await.unwrap(), &catalog));
    catalog.finish_interrupted().await.unwrap();
    interrupted(&catalog).await;
    let catalog = Catalog::open(store.clone()).await.unwrap();
    assert!(is_finished(&store.tables().await.unwrap(), &catalog));
    assert_eq!(keys(&catalog, "t").await, ["alto#1", "alto#2"]);
}
