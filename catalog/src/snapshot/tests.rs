//! Which edits succeed and which are refused.

use super::*;
use crate::{ColumnDefinition, SqlType, TableDefinition};

fn tenant(id: &str, oid: u32) -> Tenant {
    Tenant {
        id: TenantId::new(id).unwrap(),
        oid,
        state: TenantState::Active,
        created_micros: 1,
        quotas: Quotas::default(),
        settings: Default::default(),
        comment: None,
    }
}

fn role(name: &str, oid: u32) -> Role {
    Role { name: name.into(), oid, login: true, operator: false, secret: None, ..Role::default() }
}

fn table(name: &str, oid: u32) -> Table {
    let column =
        ColumnDefinition { name: "id".into(), kind: SqlType::Text, not_null: true, family: None, encoding: None };
    let definition = TableDefinition {
        name: name.into(),
        columns: vec![column],
        primary_key: vec![("id".into(), false)],
        ..TableDefinition::default()
    };
    Table::define(TableId(oid), &definition).unwrap()
}

fn certificate(id: &str, oid: u32) -> DropCertificate {
    DropCertificate {
        oid,
        tenant: TenantId::new(id).unwrap(),
        dropped_by: "keyspan".into(),
        tables: 0,
        rows: 0,
        bytes: 0,
        dropped_micros: 2,
        purging_micros: None,
        purged_micros: None,
    }
}

fn apply(edits: &[Edit]) -> Snapshot {
    edits.iter().fold(Snapshot::default(), |snapshot, edit| snapshot.apply(edit).unwrap())
}

#[track_caller]
fn refused(snapshot: &Snapshot, edit: Edit, kind: ErrorKind) {
    assert_eq!(snapshot.apply(&edit).unwrap_err().kind(), kind, "{edit:?}");
}

#[test]
fn a_tenant_comes_and_goes() {
    let (alto, ana) = (TenantId::new("alto").unwrap(), "ana".to_owned());
    let made = apply(&[
        Edit::CreateTenant(tenant("alto", FIRST_OID)),
        Edit::CreateRole(role("ana", FIRST_OID + 1)),
        Edit::GrantConnect(ana.clone(), alto.clone()),
    ]);
    assert!(made.tenant("alto").is_some() && made.role("ana").unwrap().connect.contains(&alto));
    assert_eq!((made.version, made.next_oid), (3, FIRST_OID + 2));
    refused(&made, Edit::CreateTenant(tenant("alto", FIRST_OID + 2)), ErrorKind::TenantExists);
    refused(&made, Edit::FinishDropTenant(certificate("alto", FIRST_OID)), ErrorKind::Invalid);

    let dropping = made.apply(&Edit::BeginDropTenant(alto.clone())).unwrap();
    assert!(dropping.tenant("alto").is_none() && dropping.dropping().count() == 1);
    assert!(dropping.role("ana").unwrap().connect.is_empty());
    refused(&dropping, Edit::BeginDropTenant(alto.clone()), ErrorKind::NoTenant);
    refused(&dropping, Edit::CreateTenant(tenant("alto", FIRST_OID + 2)), ErrorKind::TenantExists);
    refused(&dropping, Edit::GrantConnect(ana, alto), ErrorKind::NoTenant);
    refused(&dropping, Edit::FinishDropTenant(certificate("alto", 1)), ErrorKind::Invalid);

    let gone = dropping.apply(&Edit::FinishDropTenant(certificate("alto", FIRST_OID))).unwrap();
    assert!(gone.tenants.is_empty() && gone.drops.len() == 1);
    refused(&gone, Edit::CreateTenant(tenant("alto", FIRST_OID)), ErrorKind::Invalid);
    assert!(gone.apply(&Edit::CreateTenant(tenant("alto", FIRST_OID + 2))).is_ok());
    assert!(made.tenant("alto").is_some(), "a snapshot never changes");
}

#[test]
fn tables_have_names_and_numbers_of_their_own() {
    let made = apply(&[Edit::CreateTable(table("a", FIRST_OID)), Edit::CreateTable(table("b", FIRST_OID + 1))]);
    refused(&made, Edit::CreateTable(table("a", FIRST_OID + 2)), ErrorKind::TableExists);
    refused(&made, Edit::CreateTable(table("c", FIRST_OID)), ErrorKind::Invalid);
    refused(&made, Edit::AlterTable(made.table("a").unwrap().rename("b").unwrap()), ErrorKind::TableExists);
    let moved = Table { physical: made.table("b").unwrap().physical.clone(), ..table("a", FIRST_OID) };
    refused(&made, Edit::AlterTable(moved), ErrorKind::Invalid);
    let renamed = made.apply(&Edit::AlterTable(made.table("a").unwrap().rename("c").unwrap())).unwrap();
    assert_eq!(renamed.table("c").unwrap().physical.as_str(), "a-16384");
    let dropped = renamed.apply(&Edit::DropTable(TableId(FIRST_OID))).unwrap();
    refused(&dropped, Edit::DropTable(TableId(FIRST_OID)), ErrorKind::NoTable);
    refused(&dropped, Edit::AlterTable(table("a", FIRST_OID)), ErrorKind::NoTable);
}

#[test]
fn roles_that_are_needed_stay() {
    let operator = Role { operator: true, ..role("keyspan", FIRST_OID + 2) };
    let made = apply(&[
        Edit::CreateTenant(tenant("alto", FIRST_OID)),
        Edit::CreateRole(role("ana", FIRST_OID + 1)),
        Edit::CreateRole(operator.clone()),
        Edit::GrantConnect("ana".into(), TenantId::new("alto").unwrap()),
    ]);
    refused(&made, Edit::DropRole("ana".into()), ErrorKind::InUse);
    refused(&made, Edit::DropRole("keyspan".into()), ErrorKind::InUse);
    refused(&made, Edit::AlterRole(Role { login: false, ..operator.clone() }), ErrorKind::InUse);
    refused(&made, Edit::CreateRole(role("ana", FIRST_OID + 3)), ErrorKind::RoleExists);
    refused(&made, Edit::CreateRole(role("pg_read", FIRST_OID + 3)), ErrorKind::Reserved);
    refused(&made, Edit::DropRole("eve".into()), ErrorKind::NoRole);
    refused(&made, Edit::AlterRole(Role { oid: 1, ..operator }), ErrorKind::Invalid);
    let revoked = made.apply(&Edit::RevokeConnect("ana".into(), TenantId::new("alto").unwrap())).unwrap();
    assert!(revoked.apply(&Edit::DropRole("ana".into())).unwrap().role("ana").is_none());
}
