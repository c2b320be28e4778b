//! Lists of rights: what a grant adds, and what a revoke takes.

use super::{PUBLIC_SCHEMA, *};

const OWNER: u32 = 100;
const ANA: u32 = 101;
const BOB: u32 = 102;

fn item(grantee: u32, grantor: u32, privileges: Privileges, grantable: Privileges) -> AclItem {
    AclItem { grantee, grantor, privileges, grantable }
}

fn table(items: Option<Vec<AclItem>>) -> ObjectRights {
    ObjectRights { owner: Some(OWNER), items }
}

fn granted(items: Vec<AclItem>, item: AclItem) -> Vec<AclItem> {
    changed(items, OWNER, &ListChange::Grant(item)).unwrap()
}

fn of(rights: &ObjectRights, roles: &[u32]) -> Privileges {
    rights.of_roles(ObjectKind::Relation, &roles.iter().copied().collect()).0
}

#[test]
fn the_owner_has_all_until_it_revokes_them_from_itself() {
    assert_eq!(of(&table(None), &[OWNER]), ObjectKind::Relation.all());
    assert_eq!(of(&table(None), &[ANA]), Privileges::NONE);
    let own = item(OWNER, OWNER, Privileges::SELECT, Privileges::NONE);
    let items =
        changed(ObjectKind::Relation.default_items(OWNER), OWNER, &ListChange::Revoke { item: own, cascade: false });
    let rights = table(Some(items.unwrap()));
    assert!(!of(&rights, &[OWNER]).has(Privileges::SELECT) && of(&rights, &[OWNER]).has(Privileges::INSERT));
    let (_, grantable) = rights.of_roles(ObjectKind::Relation, &[OWNER].into());
    assert_eq!(grantable, ObjectKind::Relation.all());
}

#[test]
fn predefined_roles_read_or_write_everything() {
    let write = Privileges::INSERT | Privileges::UPDATE | Privileges::DELETE;
    assert_eq!(of(&table(None), &[ANA, READ_ALL_DATA]), Privileges::SELECT);
    assert_eq!(of(&table(None), &[ANA, WRITE_ALL_DATA]), write);
    let sequence = table(None).of_roles(ObjectKind::Sequence, &[WRITE_ALL_DATA].into()).0;
    assert_eq!(sequence, Privileges::UPDATE);
}

#[test]
fn what_was_granted_on_goes_with_cascade_only() {
    let select = Privileges::SELECT;
    let items = granted(ObjectKind::Relation.default_items(OWNER), item(ANA, OWNER, select, select));
    let items = granted(items, item(BOB, ANA, select, Privileges::NONE));
    let gone = item(ANA, OWNER, select, Privileges::NONE);
    let refused = changed(items.clone(), OWNER, &ListChange::Revoke { item: gone, cascade: false });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InUse);
    let option = item(ANA, OWNER, Privileges::NONE, select);
    let without_option = changed(items.clone(), OWNER, &ListChange::Revoke { item: option, cascade: true }).unwrap();
    assert_eq!((of(&table(Some(without_option.clone())), &[ANA]), without_option.len()), (select, 2));
    let left = changed(items, OWNER, &ListChange::Revoke { item: gone, cascade: true }).unwrap();
    assert_eq!(left, ObjectKind::Relation.default_items(OWNER));
}

#[test]
fn grants_are_in_the_name_of_who_may_grant_the_most() {
    let (select, insert) = (Privileges::SELECT, Privileges::INSERT);
    let items = granted(ObjectKind::Relation.default_items(OWNER), item(ANA, OWNER, select | insert, select));
    let rights = table(Some(items));
    let grantor = |me: u32, roles: &[u32]| {
        best_grantor((&rights, ObjectKind::Relation), (me, &roles.iter().copied().collect()), select | insert)
    };
    assert_eq!(grantor(OWNER, &[OWNER]), (OWNER, select | insert));
    assert_eq!(grantor(BOB, &[BOB, ANA]), (ANA, select));
    assert_eq!(grantor(BOB, &[BOB]), (BOB, Privileges::NONE));
    let public = item(PUBLIC, OWNER, select, select);
    let refused = changed(rights.items(ObjectKind::Relation), OWNER, &ListChange::Grant(public));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidGrant);
}

#[test]
fn defaults_of_a_role_and_of_its_schema_add_up() {
    let (select, insert) = (Privileges::SELECT, Privileges::INSERT);
    let mut defaults = DefaultRights::default();
    let grant = |privileges| ListChange::Grant(item(ANA, OWNER, privileges, Privileges::NONE));
    defaults.change(OWNER, ObjectKind::Relation, None, &grant(select)).unwrap();
    defaults.change(OWNER, ObjectKind::Relation, Some(PUBLIC_SCHEMA), &grant(insert)).unwrap();
    let items = defaults.items(OWNER, ObjectKind::Relation, PUBLIC_SCHEMA);
    assert_eq!(of(&table(items), &[ANA]), select | insert);
    assert_eq!(defaults.items(OWNER, ObjectKind::Sequence, PUBLIC_SCHEMA), None);
    let gone = ListChange::Revoke { item: item(ANA, OWNER, insert | select, Privileges::NONE), cascade: false };
    defaults.change(OWNER, ObjectKind::Relation, None, &gone).unwrap();
    defaults.change(OWNER, ObjectKind::Relation, Some(PUBLIC_SCHEMA), &gone).unwrap();
    assert_eq!(defaults, DefaultRights::default());
}

#[test]
fn a_new_owner_takes_the_place_of_the_old_one() {
    let items =
        granted(ObjectKind::Relation.default_items(OWNER), item(ANA, OWNER, Privileges::SELECT, Privileges::NONE));
    let mut rights = table(Some(items));
    rights.set_owner(ANA);
    assert_eq!(rights.items, Some(ObjectKind::Relation.default_items(ANA)));
}
