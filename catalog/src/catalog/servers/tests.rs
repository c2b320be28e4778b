//! Servers that are stores in memory.

use super::*;
use crate::{ColumnDefinition, SqlType, TableDefinition, TableId};
use keyspan_storage::{
    ErrorKind as StoreKind, Family, FamilyName, TableSchema, clock::ManualClock, memory::MemoryStore,
};

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))))
}

async fn open(here: &Arc<dyn Store>, there: &Arc<dyn Store>) -> Catalog {
    let there = Arc::clone(there);
    let connect = move |server: &Server| match server.project.as_str() {
        "none" => Err(keyspan_storage::Error::Forbidden("no credentials".into())),
        _ => Ok(Arc::clone(&there)),
    };
    Catalog::open_with_servers(here.clone(), connect).await.unwrap()
}

fn server(snapshot: &Snapshot, project: &str) -> Result<Edit> {
    let options = [("project", project), ("instance", "i")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Edit::CreateServer(Server::define(snapshot.next_oid, "bt", &options)?))
}

fn table(snapshot: &Snapshot, name: &str, remote: bool) -> Result<Edit> {
    let column = |name: &str| ColumnDefinition {
        name: name.into(),
        kind: SqlType::Text,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let definition = TableDefinition {
        name: name.into(),
        columns: vec![column("k"), column("v")],
        primary_key: vec![("k".into(), false.into())],
        remote: snapshot
            .server("bt")
            .filter(|_| remote)
            .map(|server| crate::RemoteDefinition { server: server.id, found: None }),
        ..TableDefinition::default()
    };
    Ok(Edit::CreateTable(Table::define(TableId(snapshot.next_oid), &definition)?))
}

fn drop_server(snapshot: &Snapshot) -> Result<Edit> {
    Ok(Edit::DropServer(snapshot.server("bt").map_or(0, |server| server.id)))
}

fn drop_table(snapshot: &Snapshot, name: &str) -> Result<Edit> {
    Ok(Edit::DropTable(snapshot.table(name).unwrap().id))
}

async fn names(store: &Arc<dyn Store>) -> Vec<String> {
    store.tables().await.unwrap().into_iter().map(|(name, _)| name.to_string()).collect()
}

#[tokio::test]
async fn a_table_is_made_and_dropped_on_its_server() {
    let (here, there) = (memory(), memory());
    let catalog = open(&here, &there).await;
    catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap();
    catalog.commit(|snapshot| table(snapshot, "readings", true)).await.unwrap();
    catalog.commit(|snapshot| table(snapshot, "flights", false)).await.unwrap();
    assert_eq!(names(&there).await, ["readings-16385"]);
    assert_eq!(names(&here).await, ["catalog", "flights-16386"]);
    // A second start asks no server, and knows the same.
    there.close().await.unwrap();
    let again = open(&here, &there).await;
    assert_eq!(again.snapshot(), catalog.snapshot());
    let physical = again.snapshot().table("readings").unwrap().physical.clone();
    let error = again.store().table(&physical).await.unwrap_err();
    assert_eq!(error.kind(), StoreKind::Unavailable, "the server is asked");
    let error = again.commit(drop_server).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert_eq!(error.detail.as_deref(), Some("table \"readings\" depends on server \"bt\""));
}

#[tokio::test]
async fn what_a_server_could_not_do_is_done_later() {
    let (here, there) = (memory(), memory());
    let catalog = open(&here, &there).await;
    catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap();
    catalog.commit(|snapshot| table(snapshot, "readings", true)).await.unwrap();
    // The server is away while the table is dropped.
    let away = memory();
    away.close().await.unwrap();
    let meanwhile = open(&here, &away).await;
    meanwhile.commit(|snapshot| drop_table(snapshot, "readings")).await.unwrap();
    assert!(meanwhile.snapshot().table("readings").is_none());
    assert!(meanwhile.finish_servers().await.is_err(), "still away");
    assert!(meanwhile.commit(drop_server).await.is_err(), "something is left there");
    assert_eq!(names(&there).await, ["readings-16385"]);
    let back = open(&here, &there).await;
    back.finish_servers().await.unwrap();
    assert!(names(&there).await.is_empty());
    back.commit(drop_server).await.unwrap();
    assert!(back.snapshot().servers.is_empty());
    assert!(open(&here, &away).await.finish_servers().await.is_ok(), "nothing is left");
}

#[tokio::test]
async fn what_is_there_already_is_not_ours() {
    let (here, there) = (memory(), memory());
    let catalog = open(&here, &there).await;
    catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap();
    let schema = TableSchema::of([(FamilyName::new("f").unwrap(), Family::default())]);
    there.create_table(&TableName::new("readings-16385").unwrap(), schema).await.unwrap();
    let error = catalog.commit(|snapshot| table(snapshot, "readings", true)).await.unwrap_err();
    assert_eq!(error.store().map(keyspan_storage::Error::kind), Some(StoreKind::AlreadyExists));
    let again = open(&here, &there).await;
    again.finish_servers().await.unwrap();
    assert_eq!(names(&there).await, ["readings-16385"], "neither of them drops it");
}

#[tokio::test]
async fn servers_that_cannot_be() {
    let (here, there) = (memory(), memory());
    let catalog = open(&here, &there).await;
    let error = catalog.commit(|snapshot| server(snapshot, "none")).await.unwrap_err();
    assert_eq!(error.store().map(keyspan_storage::Error::kind), Some(StoreKind::Forbidden));
    assert!(catalog.snapshot().servers.is_empty());
    catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap();
    let twice = catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Duplicate);
    let alone = Catalog::open(memory()).await.unwrap();
    let error = alone.commit(|snapshot| server(snapshot, "p")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_table_there_keeps_what_it_has() {
    let (here, there) = (memory(), memory());
    let catalog = open(&here, &there).await;
    catalog.commit(|snapshot| server(snapshot, "p")).await.unwrap();
    catalog.commit(|snapshot| table(snapshot, "readings", true)).await.unwrap();
    let options = [("history".to_owned(), "7 days".to_owned())];
    let readings = catalog.snapshot().table("readings").unwrap().clone();
    for altered in [readings.drop_column("v").unwrap(), readings.set_options(&options).unwrap()] {
        let error = catalog.commit(|_| Ok(Edit::AlterTable(altered.clone()))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let rule = [("cf.max_versions".to_owned(), "3".to_owned())];
    let altered = readings.set_options(&rule).unwrap();
    catalog.commit(|_| Ok(Edit::AlterTable(altered.clone()))).await.unwrap();
    let remote = readings.remote.as_ref().unwrap();
    let rule = there.table(&remote.name).await.unwrap().families[&FamilyName::new("cf").unwrap()].gc.clone();
    assert_eq!(rule, keyspan_storage::GcRule::MaxVersions(3));
}
