//! `GRANT` and `REVOKE` of privileges, `ALTER DEFAULT PRIVILEGES`, `ALTER … OWNER TO`, `REASSIGN OWNED`.
//!
//! Rights on relations belong to a tenant's database, and are changed there, by owners and who has grant options; they
//! are part of the transaction that they stand in, as other definitions of a tenant are. A role can be named if the
//! tenant's database knows it ([`Snapshot::roles_in`]), so that a tenant learns nothing of the roles of others.

use super::{membership, private};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    rights::{self, described},
    session::{Found, Session},
    sql::{
        ast::grant::{Granted, GrantedOn, Owned, RightsChange, RoleSpec},
        grant::check_schema,
    },
};
use keyspan_catalog::{
    AclItem, Edit, Error, ErrorKind, ObjectKind, PrivateEdit, Privileges, Relation, Snapshot, TableId, TenantId,
    rights::{DATABASE_OWNER, ListChange, ListOf, OPERATORS, PREDEFINED, PUBLIC, best_grantor},
};
use std::collections::BTreeSet;

/// Makes a change of rights.
///
/// # Errors
/// 42501 for what the session's role may not give away; 42704 for roles that are not there; 42P01 and 42809 for
/// relations; 0LP01 for a grant that makes no sense.
pub(super) async fn change(session: &mut Session, change: &RightsChange) -> Result<()> {
    match change {
        RightsChange::Privileges(granted, on) => on_objects(session, granted, on).await,
        RightsChange::Defaults { roles, schemas, kind, granted } => {
            defaults(session, roles, (schemas, *kind), granted).await
        }
        RightsChange::Membership { grant, roles, members, admin } => {
            membership::change(session, *grant, (roles, members), *admin).await
        }
        RightsChange::Owner(Owned::Database(name), to) => database_owner(session, name, to).await,
        RightsChange::Owner(Owned::Schema(name), to) => schema_owner(session, name, to).await,
        RightsChange::Owner(Owned::Table(name, if_exists), to) => {
            relation_owner(session, name, *if_exists, to, "table").await
        }
        RightsChange::Owner(Owned::View(name, if_exists), to) => {
            relation_owner(session, name, *if_exists, to, "view").await
        }
        RightsChange::Owner(Owned::Materialized(name, if_exists), to) => {
            relation_owner(session, name, *if_exists, to, "materialized view").await
        }
        RightsChange::Owner(Owned::Sequence(name, if_exists), to) => {
            relation_owner(session, name, *if_exists, to, "sequence").await
        }
        RightsChange::Owner(Owned::Type(name) | Owned::Domain(name), to) => type_owner(session, name, to).await,
        RightsChange::Reassign(roles, to) => reassign(session, roles, to).await,
    }
}

/// The command tag.
pub(super) fn tag(change: &RightsChange) -> &'static str {
    match change {
        RightsChange::Privileges(granted, _) if granted.grant => "GRANT",
        RightsChange::Privileges(..) => "REVOKE",
        RightsChange::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
        RightsChange::Membership { grant: true, .. } => "GRANT ROLE",
        RightsChange::Membership { .. } => "REVOKE ROLE",
        RightsChange::Owner(Owned::Table(..), _) => "ALTER TABLE",
        RightsChange::Owner(Owned::View(..), _) => "ALTER VIEW",
        RightsChange::Owner(Owned::Materialized(..), _) => "ALTER MATERIALIZED VIEW",
        RightsChange::Owner(Owned::Sequence(..), _) => "ALTER SEQUENCE",
        RightsChange::Owner(Owned::Database(_), _) => "ALTER DATABASE",
        RightsChange::Owner(Owned::Schema(_), _) => "ALTER SCHEMA",
        RightsChange::Owner(Owned::Type(_), _) => "ALTER TYPE",
        RightsChange::Owner(Owned::Domain(_), _) => "ALTER DOMAIN",
        RightsChange::Reassign(..) => "REASSIGN OWNED",
    }
}

/// Whether the change is of the server, not of a tenant's database: it commits at once.
pub(super) fn is_global(change: &RightsChange) -> bool {
    matches!(change, RightsChange::Membership { .. } | RightsChange::Owner(Owned::Database(_), _))
}

/// The OID of a role that a statement names.
///
/// # Errors
/// 42704 for one that is not there, or that a tenant's database does not know.
pub(super) fn role_oid(session: &Session, snapshot: &Snapshot, role: &RoleSpec) -> Result<u32> {
    let name = match role {
        RoleSpec::Public => return Ok(PUBLIC),
        RoleSpec::Current => return Ok(session.identity.role_oid.unwrap_or(OPERATORS)),
        RoleSpec::Named(name) => name,
    };
    let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
    if let Some((oid, _)) = PREDEFINED.iter().find(|(_, known)| known == name) {
        return Ok(*oid);
    }
    let oid = snapshot.role(name).map(|role| role.oid).ok_or_else(missing)?;
    let known = match session.limited() {
        Some((own, tenant)) if !snapshot.is_operator(own) => {
            oid == own
                || snapshot.memberships(Some(tenant), own).contains(&oid)
                || snapshot.roles_in(tenant).contains(&oid)
        }
        _ => true,
    };
    if known { Ok(oid) } else { Err(missing()) }
}

fn role_oids(session: &Session, snapshot: &Snapshot, roles: &[RoleSpec]) -> Result<Vec<u32>> {
    roles.iter().map(|role| role_oid(session, snapshot, role)).collect()
}

/// The tenant of a session in whose database there are rights on relations.
fn tenant_of(session: &Session, what: &str) -> Result<TenantId> {
    session.identity.rows.tenant().cloned().ok_or_else(|| {
        SqlError::unsupported(format!("{what} in the operator's database"))
            .with_hint("Rights on relations belong to a tenant's database: connect to it.")
    })
}

async fn on_objects(session: &mut Session, granted: &Granted, on: &GrantedOn) -> Result<()> {
    let verb = if granted.grant { "GRANT" } else { "REVOKE" };
    let tenant = tenant_of(session, verb)?;
    let snapshot = session.catalog_snapshot();
    let objects = objects(session, &snapshot, &tenant, on)?;
    let grantees = role_oids(session, &snapshot, &granted.roles)?;
    let mut changes = Vec::new();
    for object in objects {
        let catalog = session.deciding(&tenant, object);
        let kind = snapshot.kind_of(&tenant, object);
        let Some((grantor, privileges)) = grantable(session, (&catalog, &tenant, object), (kind, on), granted)? else {
            continue;
        };
        let item = |grantee| item(grantee, grantor, privileges, granted);
        let change = |grantee| PrivateEdit::ChangeList(ListOf::Object(object), list_change(granted, item(grantee)));
        changes.extend(grantees.iter().copied().map(change));
    }
    if changes.is_empty() {
        return Ok(());
    }
    private::change(session, |_| Ok(changes.clone())).await
}

fn item(grantee: u32, grantor: u32, privileges: Privileges, granted: &Granted) -> AclItem {
    let option = if granted.option { privileges } else { Privileges::NONE };
    // REVOKE GRANT OPTION FOR leaves the privilege.
    let all = if granted.option && !granted.grant { Privileges::NONE } else { privileges };
    AclItem { grantee, grantor, privileges: all, grantable: option }
}

fn list_change(granted: &Granted, item: AclItem) -> ListChange {
    if granted.grant { ListChange::Grant(item) } else { ListChange::Revoke { item, cascade: granted.cascade } }
}

/// The OIDs of the objects of a GRANT.
fn objects(session: &Session, snapshot: &Snapshot, tenant: &TenantId, on: &GrantedOn) -> Result<Vec<u32>> {
    let own = snapshot.private_of(Some(tenant));
    Ok(match on {
        GrantedOn::Nothing => Vec::new(),
        GrantedOn::Schemas(names) => schema_oids(snapshot, tenant, names)?,
        GrantedOn::All(kind, schemas) => {
            let schemas = schema_oids(snapshot, tenant, schemas)?;
            let all: Vec<u32> = match kind {
                ObjectKind::Sequence => own.into_iter().flat_map(|own| own.sequences.keys().copied()).collect(),
                _ => {
                    let tables = snapshot.tables_in(Some(tenant)).map(|table| table.id.0);
                    tables.chain(snapshot.views_in(Some(tenant)).map(|view| view.id)).collect()
                }
            };
            all.into_iter().filter(|oid| schemas.contains(&snapshot.schema_of(Some(tenant), *oid))).collect()
        }
        GrantedOn::Relations(names) => names.iter().map(|name| relation(session, name)).collect::<Result<_>>()?,
        GrantedOn::Sequences(names) => names
            .iter()
            .map(|name| {
                let oid = relation(session, name)?;
                if snapshot.kind_of(tenant, oid) == ObjectKind::Sequence {
                    return Ok(oid);
                }
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")))
            })
            .collect::<Result<_>>()?,
    })
}

/// The OIDs of schemas with rights.
///
/// # Errors
/// 3F000 for one that does not exist; 0A000 for one of the system.
fn schema_oids(snapshot: &Snapshot, tenant: &TenantId, names: &[String]) -> Result<Vec<u32>> {
    let one = |name: &String| {
        check_schema(name)?;
        snapshot.schema_in(Some(tenant), name).ok_or_else(|| Schema::named(name).missing())
    };
    names.iter().map(one).collect()
}

/// The OID of a relation that is not temporary.
fn relation(session: &Session, name: &RelationName) -> Result<u32> {
    match session.find(name) {
        Some((Schema::Temporary, _)) => Err(SqlError::unsupported("rights on what is temporary")),
        Some((_, Found::Table(table))) => Ok(table.id.0),
        Some((_, Found::View(view))) => Ok(view.id),
        None => {
            let sequence = session.find_sequence(name);
            sequence.map(|sequence| sequence.id).ok_or_else(|| session.missing(name, "relation"))
        }
    }
}

/// Who grants what of an object; `None`, with a warning, for nothing.
///
/// # Errors
/// 42501 for a role without any right on the object; 0LP01 for privileges that such objects do not have.
fn grantable(
    session: &mut Session,
    (snapshot, tenant, object): (&Snapshot, &TenantId, u32),
    (kind, on): (ObjectKind, &GrantedOn),
    granted: &Granted,
) -> Result<Option<(u32, Privileges)>> {
    let wanted = granted.privileges.unwrap_or_else(|| kind.all());
    // A sequence that is named as a table: what tables have and sequences do not is passed over, as in PostgreSQL.
    let lenient = kind == ObjectKind::Sequence && matches!(on, GrantedOn::Relations(_));
    if let Some((_, _, name)) = (wanted & !kind.all()).each().next().filter(|_| !lenient) {
        let of = match kind {
            ObjectKind::Relation => "table",
            ObjectKind::Sequence => "sequence",
            ObjectKind::Schema | ObjectKind::OwnSchema => "schema",
        };
        let message = format!("invalid privilege type {name} for {of}");
        return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    let wanted = wanted & kind.all();
    let rights = snapshot.private_of(Some(tenant)).map(|own| own.rights_on(object)).unwrap_or_default();
    let (grantor, may) = match session.limited() {
        None => (rights.owner(), wanted),
        Some((me, _)) if snapshot.is_operator(me) => (rights.owner(), wanted),
        Some((me, _)) => best_grantor((&rights, kind), (me, &snapshot.roles_with(Some(tenant), me)), wanted),
    };
    if may.is_empty() && !wanted.is_empty() {
        let role = session.identity.role_oid.unwrap_or(OPERATORS);
        let (has, _) = snapshot.rights_of(tenant, role, object);
        if has.is_empty() {
            return Err(rights::denied(snapshot, tenant, object));
        }
    }
    if may != wanted {
        warn(session, granted.grant, may.is_empty(), &described(snapshot, tenant, object));
    }
    Ok((!may.is_empty()).then_some((grantor, may)))
}

/// Warns, as PostgreSQL does, that not all was granted or revoked.
fn warn(session: &mut Session, grant: bool, nothing: bool, object: &str) {
    let name = object.split_once(' ').map_or(object, |(_, name)| name);
    let (state, message) = match (grant, nothing) {
        (true, true) => (SqlState::PRIVILEGE_NOT_GRANTED, format!("no privileges were granted for \"{name}\"")),
        (true, false) => (SqlState::PRIVILEGE_NOT_GRANTED, format!("not all privileges were granted for \"{name}\"")),
        (false, true) => (SqlState::PRIVILEGE_NOT_REVOKED, format!("no privileges could be revoked for \"{name}\"")),
        (false, false) => {
            (SqlState::PRIVILEGE_NOT_REVOKED, format!("not all privileges could be revoked for \"{name}\""))
        }
    };
    session.notice(SqlError::new(state, message));
}

async fn defaults(
    session: &mut Session,
    roles: &[RoleSpec],
    (schemas, kind): (&[String], ObjectKind),
    granted: &Granted,
) -> Result<()> {
    let tenant = tenant_of(session, "ALTER DEFAULT PRIVILEGES")?;
    let snapshot = session.catalog_snapshot();
    let privileges = granted.privileges.unwrap_or_else(|| kind.all());
    if let Some((_, _, name)) = (privileges & !kind.all()).each().next() {
        let of = if kind == ObjectKind::Sequence { "sequence" } else { "relation" };
        let message = format!("invalid privilege type {name} for {of}");
        return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    let own = [RoleSpec::Current];
    let makers = role_oids(session, &snapshot, if roles.is_empty() { &own } else { roles })?;
    for (oid, spec) in makers.iter().zip(roles) {
        let may = session.limited().is_none_or(|(me, _)| snapshot.has_rights_of(Some(&tenant), me, *oid));
        if !may || *oid == PUBLIC {
            let RoleSpec::Named(name) = spec else { return Err(permission_denied()) };
            let message = format!("must be member of role \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
    }
    let grantees = role_oids(session, &snapshot, &granted.roles)?;
    let schemas: Vec<Option<u32>> = match schemas {
        [] => vec![None],
        schemas => schema_oids(&snapshot, &tenant, schemas)?.into_iter().map(Some).collect(),
    };
    let changes: Vec<PrivateEdit> = makers
        .iter()
        .flat_map(|role| grantees.iter().map(move |grantee| (*role, *grantee)))
        .flat_map(|(role, grantee)| {
            let change = list_change(granted, item(grantee, role, privileges, granted));
            let of = schemas.iter().map(move |in_schema| ListOf::Default { role, kind, in_schema: *in_schema });
            of.map(move |of| PrivateEdit::ChangeList(of, change))
        })
        .collect();
    private::change(session, |_| Ok(changes.clone())).await
}

fn permission_denied() -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to change default privileges")
}

/// `ALTER TABLE … OWNER TO`: the owner may give it to a role of which it is a member, and which may make relations.
async fn relation_owner(
    session: &mut Session,
    name: &RelationName,
    if_exists: bool,
    to: &RoleSpec,
    wanted: &str,
) -> Result<()> {
    let tenant = tenant_of(session, "OWNER TO")?;
    let snapshot = session.catalog_snapshot();
    let oid = match relation(session, name) {
        Err(error)
            if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(&error.state) && if_exists =>
        {
            session.skipped(&format!("relation \"{name}\" does not exist"));
            return Ok(());
        }
        found => found?,
    };
    check_kind(session, (&snapshot, &tenant), (oid, name), wanted)?;
    let owner = role_oid(session, &snapshot, to)?;
    check_role(&snapshot, owner)?;
    if snapshot.owner_of(Some(&tenant), oid) == owner {
        return Ok(());
    }
    session.check_owner(oid, false)?;
    check_new_owner(session, &tenant, owner, snapshot.schema_of(Some(&tenant), oid))?;
    let edit = |snapshot: &Snapshot| {
        let own = snapshot.private_of(Some(&tenant));
        if !own.is_some_and(|own| own.has_oid(oid)) {
            return Err(Error::new(ErrorKind::NoTable, format!("relation \"{name}\" does not exist")));
        }
        Ok(vec![PrivateEdit::SetOwner(with_sequences(snapshot, &tenant, oid), owner)])
    };
    private::change(session, edit).await
}

async fn type_owner(session: &mut Session, name: &RelationName, to: &RoleSpec) -> Result<()> {
    let tenant = tenant_of(session, "OWNER TO")?;
    let snapshot = session.catalog_snapshot();
    let of = super::own_type::found(session, name)?;
    let owner = role_oid(session, &snapshot, to)?;
    check_role(&snapshot, owner)?;
    if snapshot.owner_of(Some(&tenant), of.id()) == owner {
        return Ok(());
    }
    session.check_owner(of.id(), false)?;
    check_new_owner(session, &tenant, owner, of.schema())?;
    let edit = |_: &Snapshot| Ok(vec![PrivateEdit::SetOwner(BTreeSet::from([of.id()]), owner)]);
    private::change(session, edit).await
}

/// A relation, and the sequences of its columns.
fn with_sequences(snapshot: &Snapshot, tenant: &TenantId, oid: u32) -> BTreeSet<u32> {
    let own = snapshot.private_of(Some(tenant)).into_iter().flat_map(|own| own.sequences.values());
    let sequences = own.filter(|sequence| sequence.owner.is_some_and(|(table, _)| table == TableId(oid)));
    sequences.map(|sequence| sequence.id).chain([oid]).collect()
}

fn check_kind(
    session: &Session,
    (snapshot, tenant): (&Snapshot, &TenantId),
    (oid, name): (u32, &RelationName),
    wanted: &str,
) -> Result<()> {
    let kind = snapshot.kind_of(tenant, oid);
    let fits = match wanted {
        "view" | "materialized view" => {
            matches!(snapshot.relation(Some(tenant), oid), Some(Relation::View(view)) if view.kind() == wanted)
        }
        "sequence" => kind == ObjectKind::Sequence,
        // As in PostgreSQL, ALTER TABLE does it for all of them.
        _ => true,
    };
    if !fits {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a {wanted}")));
    }
    if let Some(Relation::Table(table)) = snapshot.relation(Some(tenant), oid) {
        private::check_owner(session, table, false)?;
    }
    let sequence = snapshot.sequence_of(Some(tenant), oid);
    if sequence.is_some_and(|sequence| sequence.owner.is_some()) {
        let message = format!("cannot change owner of sequence \"{name}\"");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_detail(format!("Sequence \"{name}\" is linked to a table.")));
    }
    Ok(())
}

/// # Errors
/// 42704 for what owns nothing: PUBLIC.
fn check_role(snapshot: &Snapshot, oid: u32) -> Result<()> {
    if oid != PUBLIC && oid != DATABASE_OWNER && (oid == OPERATORS || snapshot.role_of(oid).is_some()) {
        return Ok(());
    }
    let name = if oid == PUBLIC { "public".to_owned() } else { snapshot.role_name(oid) };
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("role \"{name}\" cannot own objects")))
}

/// The new owner of a relation has to be one that may make it in its schema.
fn check_new_owner(session: &Session, tenant: &TenantId, owner: u32, schema: u32) -> Result<()> {
    let Some((me, _)) = session.limited() else { return Ok(()) };
    let newest = session.deciding(tenant, schema);
    if newest.is_operator(me) {
        return Ok(());
    }
    if !newest.has_rights_of(Some(tenant), me, owner) {
        let message = format!("must be member of role \"{}\"", newest.role_name(owner));
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    if newest.rights_of(tenant, owner, schema).0.has(Privileges::CREATE) {
        return Ok(());
    }
    Err(rights::denied(&newest, tenant, schema))
}

/// `ALTER SCHEMA … OWNER TO`
async fn schema_owner(session: &mut Session, name: &str, to: &RoleSpec) -> Result<()> {
    let tenant = tenant_of(session, "OWNER TO")?;
    let (oid, snapshot) = (super::schema::own(session, name, "ALTER SCHEMA")?, session.catalog_snapshot());
    let owner = role_oid(session, &snapshot, to)?;
    check_role(&snapshot, owner)?;
    if snapshot.owner_of(Some(&tenant), oid) == owner {
        return Ok(());
    }
    session.check_owner(oid, false)?;
    if let Some((me, _)) = session.limited()
        && !snapshot.has_rights_of(Some(&tenant), me, owner)
    {
        let message = format!("must be member of role \"{}\"", snapshot.role_name(owner));
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    super::schema::check_may_create(session)?;
    private::change(session, |_| Ok(vec![PrivateEdit::SetOwner(BTreeSet::from([oid]), owner)])).await
}

async fn database_owner(session: &mut Session, name: &str, to: &RoleSpec) -> Result<()> {
    if !session.identity.operator {
        let message = format!("must be owner of database {name}");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_detail("An operator gives databases to roles, in database \"keyspan\"."));
    }
    let id = super::database::tenant_id(name)?;
    let me = session.identity.role_oid;
    let edit = |snapshot: &Snapshot| {
        let owner = named_owner(snapshot, me, to)?;
        Ok(Edit::SetTenantOwner(id.clone(), owner))
    };
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

/// The OID of a role that is to own a database; `me` is the session's.
pub(super) fn named_owner(snapshot: &Snapshot, me: Option<u32>, to: &RoleSpec) -> keyspan_catalog::Result<u32> {
    match to {
        RoleSpec::Current => Ok(me.unwrap_or(OPERATORS)),
        RoleSpec::Named(name) => {
            let missing = || Error::new(ErrorKind::NoRole, format!("role \"{name}\" does not exist"));
            snapshot.role(name).map(|role| role.oid).ok_or_else(missing)
        }
        RoleSpec::Public => Err(Error::new(ErrorKind::NoRole, "role \"public\" does not exist")),
    }
}

/// `REASSIGN OWNED`: what some roles own in the tenant's database.
async fn reassign(session: &mut Session, roles: &[RoleSpec], to: &RoleSpec) -> Result<()> {
    let tenant = tenant_of(session, "REASSIGN OWNED")?;
    let snapshot = session.catalog_snapshot();
    let (from, to) = (role_oids(session, &snapshot, roles)?, role_oid(session, &snapshot, to)?);
    check_role(&snapshot, to)?;
    if let Some((me, _)) = session.limited() {
        let lacks = |role: &&u32| !snapshot.has_rights_of(Some(&tenant), me, **role);
        if from.iter().chain([&to]).any(|role| lacks(&role)) {
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to reassign objects"));
        }
    }
    let edit = |snapshot: &Snapshot| {
        let owned = snapshot.private_of(Some(&tenant)).into_iter().flat_map(|own| own.rights.iter());
        let owned = owned.filter(|(_, rights)| from.contains(&rights.owner())).map(|(oid, _)| *oid).collect();
        Ok(vec![PrivateEdit::SetOwner(owned, to)])
    };
    private::change(session, edit).await
}
