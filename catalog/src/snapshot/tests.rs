//! Which edits succeed and which are refused.

use super::*;
use crate::{
    AclItem, ColumnDefinition, ObjectKind, Privileges, SqlType, TableDefinition,
    rights::{DATABASE_OWNER, ListChange, ListOf, PUBLIC_SCHEMA},
};
use std::collections::BTreeSet;

fn tenant(id: &str, oid: u32) -> Tenant {
    Tenant {
        id: TenantId::new(id).unwrap(),
        oid,
        state: TenantState::Active,
        created_micros: 1,
        quotas: Quotas::default(),
        settings: Default::default(),
        owner: None,
        comment: None,
    }
}

fn role(name: &str, oid: u32) -> Role {
    Role { name: name.into(), oid, login: true, operator: false, ..Role::default() }
}

fn table(name: &str, oid: u32) -> Table {
    let column = ColumnDefinition {
        name: "id".into(),
        kind: SqlType::Text,
        not_null: true,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let definition = TableDefinition {
        name: name.into(),
        columns: vec![column],
        primary_key: vec![("id".into(), false.into())],
        ..TableDefinition::default()
    };
    Table::define(TableId(oid), &definition).unwrap()
}

fn certificate(id: &str, oid: u32) -> DropCertificate {
    DropCertificate {
        contents: crate::Contents::default(),
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

/// A store of before there were owners: `ana` and `bob` may connect to `alto`, and nobody to `bari`.
fn old_store() -> Snapshot {
    let alto = TenantId::new("alto").unwrap();
    apply(&[
        Edit::CreateTenant(tenant("alto", FIRST_OID)),
        Edit::CreateTenant(tenant("bari", FIRST_OID + 1)),
        Edit::CreateRole(role("ana", FIRST_OID + 2)),
        Edit::CreateRole(role("bob", FIRST_OID + 3)),
        Edit::CreateRole(role("alto_owner", FIRST_OID + 4)),
        Edit::GrantConnect("ana".into(), alto.clone()),
        Edit::GrantConnect("bob".into(), alto),
    ])
}

#[test]
fn who_may_connect_in_an_old_store_becomes_the_owner_s_member() {
    let old = old_store();
    let made = old.apply(&Edit::GiveOwners).unwrap();
    let alto = TenantId::new("alto").unwrap();
    let owner = made.tenant("alto").unwrap().owner.unwrap();
    assert_eq!((made.role_name(owner), made.role_of(owner).unwrap().login), ("alto_owner_2".to_owned(), false));
    for name in ["ana", "bob"] {
        let role = made.role(name).unwrap().oid;
        assert_eq!(made.rights_of(&alto, role, FIRST_OID + 99).0, ObjectKind::Relation.all(), "{name}");
        assert!(made.rights_of(&alto, role, PUBLIC_SCHEMA).0.has(Privileges::CREATE));
    }
    let other = made.role("alto_owner").unwrap().oid;
    assert_eq!(made.rights_of(&alto, other, FIRST_OID + 99).0, Privileges::NONE);
    assert!(made.tenant("bari").unwrap().owner.is_some());
    let again = made.apply(&Edit::GiveOwners).unwrap();
    assert_eq!(again, Snapshot { version: made.version + 1, ..made });
}

#[test]
fn memberships_pass_on_rights_and_go_in_no_circle() {
    let (alto, old) = (TenantId::new("alto").unwrap(), old_store());
    let (ana, bob) = (old.role("ana").unwrap().oid, old.role("bob").unwrap().oid);
    let made = old.apply(&Edit::GrantRole(bob, "ana".into(), false)).unwrap();
    let made = made.apply(&Edit::SetTenantOwner(alto.clone(), bob)).unwrap();
    assert!(made.rights_of(&alto, ana, PUBLIC_SCHEMA).0.has(Privileges::CREATE));
    refused(&made, Edit::GrantRole(ana, "bob".into(), false), ErrorKind::InvalidGrant);
    refused(&made, Edit::GrantRole(ana, "ana".into(), false), ErrorKind::InvalidGrant);
    refused(&made, Edit::GrantRole(DATABASE_OWNER, "ana".into(), false), ErrorKind::Invalid);
    refused(&made, Edit::DropRole("bob".into()), ErrorKind::InUse);
    let alone = Role { noinherit: true, ..made.role("ana").unwrap().as_ref().clone() };
    let without = made.apply(&Edit::AlterRole(alone)).unwrap();
    assert!(!without.rights_of(&alto, ana, PUBLIC_SCHEMA).0.has(Privileges::CREATE));
    let left = made.apply(&Edit::RevokeRole(bob, "ana".into(), false)).unwrap();
    assert!(!left.rights_of(&alto, ana, PUBLIC_SCHEMA).0.has(Privileges::CREATE));
}

#[test]
fn membership_lets_a_role_connect() {
    let (alto, old) = (TenantId::new("alto").unwrap(), old_store());
    let made = old.apply(&Edit::CreateRole(role("eve", old.next_oid))).unwrap();
    let may = |snapshot: &Snapshot| {
        snapshot.may_connect(snapshot.role("eve").unwrap(), snapshot.tenant(alto.as_str()).unwrap())
    };
    assert!(!may(&made));
    let ana = made.role("ana").unwrap().oid;
    let member = made.apply(&Edit::GrantRole(ana, "eve".into(), false)).unwrap();
    assert!(may(&member));
    let eve = member.role("eve").unwrap().oid;
    assert!(may(&made.apply(&Edit::SetTenantOwner(alto.clone(), eve)).unwrap()));
    assert_eq!(member.roles_in(&alto), BTreeSet::from([ana, eve, made.role("bob").unwrap().oid]));
}

#[test]
fn a_role_that_owns_or_was_granted_something_stays() {
    let (alto, old) = (TenantId::new("alto").unwrap(), old_store());
    let (ana, spare) = (old.role("ana").unwrap().oid, old.role("alto_owner").unwrap().oid);
    let change = |edit| Edit::ChangePrivate(alto.clone(), FIRST_OID, vec![edit]);
    let item = AclItem { grantee: spare, grantor: ana, privileges: Privileges::SELECT, grantable: Privileges::NONE };
    let list = ListOf::Object(PUBLIC_SCHEMA);
    let granted = old.apply(&change(PrivateEdit::ChangeList(list, ListChange::Grant(item)))).unwrap();
    let error = granted.apply(&Edit::DropRole("alto_owner".into())).unwrap_err();
    assert_eq!((error.kind(), error.detail.as_deref()), (ErrorKind::InUse, Some("1 object in database alto")));
    let gone = PrivateEdit::ChangeList(list, ListChange::Revoke { item, cascade: false });
    granted.apply(&change(gone)).unwrap().apply(&Edit::DropRole("alto_owner".into())).unwrap();
    let unknown = AclItem { grantee: 99, ..item };
    refused(&old, change(PrivateEdit::ChangeList(list, ListChange::Grant(unknown))), ErrorKind::NoRole);
    let ghost = ListOf::Object(FIRST_OID + 99);
    refused(&old, change(PrivateEdit::ChangeList(ghost, ListChange::Grant(item))), ErrorKind::NoTable);
}
