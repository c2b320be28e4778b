//! Who owns what and who may do what, as PostgreSQL's relations and functions tell it: owners and lists of relations,
//! of the schema and of the database; memberships; default privileges; `has_table_privilege` and its kin.

use super::{
    cluster,
    columns::{Row, row},
    objects,
    row_function::row_function,
    views,
};
use crate::pg::names::PUBLIC as PUBLIC_NAME;
use crate::{
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, int_of, text_of},
        ident::quote_ident,
    },
};
use arrow::datatypes::DataType;
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::Volatility,
    scalar::ScalarValue,
};
use keyspan_catalog::{
    AclItem, ObjectKind, ObjectRights, Privileges, Role, Tenant, TenantId,
    rights::{DATABASE_OWNER, DefaultList, OPERATORS, PREDEFINED, PUBLIC, PUBLIC_SCHEMA},
};
use std::sync::{Arc, LazyLock};

/// The OID of a role as a catalog shows it: the owner of the database by its own name, the operators by that of one.
fn shown(statement: &StatementContext, oid: u32) -> u32 {
    let owner = || statement.snapshot.tenant(statement.tenant.as_ref()?.as_str())?.owner;
    match oid {
        DATABASE_OWNER => owner().map_or(DATABASE_OWNER, |owner| shown_operators(statement, owner)),
        oid => shown_operators(statement, oid),
    }
}

fn shown_operators(statement: &StatementContext, oid: u32) -> u32 {
    if oid == OPERATORS { objects::owner(statement) } else { oid }
}

/// The owner of a relation: in the operator's database, and of what is of the system, an operator.
pub(super) fn owner_of(statement: &StatementContext, oid: u32) -> u32 {
    match &statement.tenant {
        Some(_) if statement.is_temporary(oid) => statement.role_oid.unwrap_or_else(|| objects::owner(statement)),
        Some(tenant) => shown(statement, statement.snapshot.owner_of(Some(tenant), oid)),
        None => objects::owner(statement),
    }
}

/// The owner of a database.
pub(super) fn database_owner(statement: &StatementContext, name: &str) -> u32 {
    let owner = statement.snapshot.tenant(name).and_then(|tenant| tenant.owner);
    owner.map_or_else(|| objects::owner(statement), |owner| shown_operators(statement, owner))
}

/// The owner of a schema.
pub(super) fn schema_owner(statement: &StatementContext, name: &str) -> u32 {
    match statement.snapshot.schema_in(statement.tenant.as_ref(), name) {
        Some(PUBLIC_SCHEMA) if statement.tenant.is_some() => DATABASE_OWNER,
        Some(oid) if statement.tenant.is_some() => owner_of(statement, oid),
        _ => objects::owner(statement),
    }
}

/// The list of a relation; `None` for that which all have at first.
pub(super) fn list_of(statement: &StatementContext, oid: u32) -> Option<Vec<String>> {
    let own = statement.snapshot.private_of(statement.tenant.as_ref())?;
    let items = own.rights.get(&oid)?.items.as_ref()?;
    Some(items.iter().map(|item| item_text(statement, item, true)).collect())
}

/// The list of a schema; `None` for that which all have at first.
pub(super) fn schema_list(statement: &StatementContext, name: &str) -> Option<Vec<String>> {
    let tenant = statement.tenant.as_ref()?;
    let own = statement.snapshot.private_of(Some(tenant));
    if name != PUBLIC_NAME {
        return list_of(statement, own?.schema(name)?);
    }
    let rights = own.map(|own| own.rights_on(PUBLIC_SCHEMA)).unwrap_or_default();
    Some(rights.items(ObjectKind::Schema).iter().map(|item| item_text(statement, item, false)).collect())
}

/// The list of a tenant's database: everybody who is let in may have temporary tables.
pub(super) fn database_list(statement: &StatementContext, name: &str) -> Option<Vec<String>> {
    let tenant = statement.snapshot.tenant(name)?;
    let owner = database_owner(statement, name);
    let item = |grantee, privileges| {
        let item = AclItem { grantee, grantor: owner, privileges, grantable: Privileges::NONE };
        item_text(statement, &item, false)
    };
    let all = Privileges::CREATE | Privileges::TEMPORARY | Privileges::CONNECT;
    let roles = statement.snapshot.roles.values().filter(|role| role.connect.contains(&tenant.id));
    let connect = roles.filter(|role| role.oid != owner).map(|role| item(role.oid, Privileges::CONNECT));
    Some([item(PUBLIC, Privileges::TEMPORARY), item(owner, all)].into_iter().chain(connect).collect())
}

/// An item as `grantee=letters/grantor`; the owner of the database by its own name where an owner is told so.
pub(super) fn item_text(statement: &StatementContext, item: &AclItem, by_name: bool) -> String {
    let name = |oid: u32| {
        let oid = if by_name { shown(statement, oid) } else { shown_operators(statement, oid) };
        quote_ident(&cluster::role_name(statement, oid))
    };
    let letters: String = item
        .privileges
        .each()
        .flat_map(|(one, letter, _)| [Some(letter), item.grantable.has(one).then_some('*')].into_iter().flatten())
        .collect();
    let grantee = if item.grantee == PUBLIC { String::new() } else { name(item.grantee) };
    format!("{grantee}={letters}/{}", name(item.grantor))
}

/// The rows of `pg_auth_members`.
pub fn members(statement: &StatementContext) -> Vec<Row> {
    let grantor = objects::owner(statement);
    let mut rows = Vec::new();
    for role in cluster::roles(statement) {
        for (of, membership) in
            role.member_of.iter().filter(|(of, _)| cluster::roles(statement).any(|role| role.oid == **of))
        {
            rows.push(row! {
                "roleid" => *of, "member" => role.oid, "grantor" => grantor, "admin_option" => membership.admin,
                "inherit_option" => !role.noinherit, "set_option" => true,
            });
        }
    }
    rows
}

/// The rows of `pg_default_acl`.
pub fn defaults(statement: &StatementContext) -> Vec<Row> {
    let own = statement.snapshot.private_of(statement.tenant.as_ref());
    let lists = own.into_iter().flat_map(|own| &own.defaults);
    let one = |role: u32, list: &DefaultList| {
        let items: Vec<String> = list.items.iter().map(|item| item_text(statement, item, false)).collect();
        let kind = if list.kind == ObjectKind::Sequence { "S" } else { "r" };
        row! {
            "oid" => role, "defaclrole" => role, "defaclobjtype" => kind, "defaclacl" => items,
            "defaclnamespace" => list.in_schema.unwrap_or(0),
        }
    };
    lists.flat_map(|(role, defaults)| defaults.lists.iter().map(|list| one(*role, list)).collect::<Vec<_>>()).collect()
}

/// The rows of `table_privileges`, and of `role_table_grants`, which leaves out what everybody has.
fn grants(statement: &StatementContext, to_public: bool) -> Vec<Row> {
    let Some(tenant) = &statement.tenant else { return Vec::new() };
    let mine = |oid: u32| me(statement).is_none_or(|me| statement.snapshot.has_rights_of(Some(tenant), me, oid));
    let mut rows = Vec::new();
    for (oid, name) in relations(statement) {
        if statement.is_temporary(oid) {
            continue;
        }
        let rights = rights_on(statement, tenant, oid);
        for item in rights.items(ObjectKind::Relation) {
            let (grantee, grantor) = (shown(statement, item.grantee), shown(statement, item.grantor));
            let public = item.grantee == PUBLIC;
            if (public && !to_public) || !(public || mine(item.grantee) || mine(item.grantor)) {
                continue;
            }
            for (privilege, _, privilege_name) in item.privileges.each() {
                let grantable = item.grantable.has(privilege) || item.grantee == rights.owner();
                rows.push(row! {
                    "grantor" => cluster::role_name(statement, grantor),
                    "grantee" => if public { "PUBLIC".to_owned() } else { cluster::role_name(statement, grantee) },
                    "table_catalog" => statement.database.clone(), "table_schema" => objects::schema_name(statement, oid),
                    "table_name" => name.clone(), "privilege_type" => privilege_name,
                    "is_grantable" => yes_or_no(grantable), "with_hierarchy" => yes_or_no(privilege_name == "SELECT"),
                });
            }
        }
    }
    rows
}

/// The rows of `role_table_grants`.
pub fn role_table_grants(statement: &StatementContext) -> Vec<Row> {
    grants(statement, false)
}

/// The rows of `table_privileges`.
pub fn table_privileges(statement: &StatementContext) -> Vec<Row> {
    grants(statement, true)
}

/// The rows of `enabled_roles`.
pub fn enabled_roles(statement: &StatementContext) -> Vec<Row> {
    let Some(me) = me(statement) else { return vec![row! { "role_name" => statement.role.clone() }] };
    let enabled = statement.snapshot.roles_with(statement.tenant.as_ref(), me);
    enabled.into_iter().map(|oid| row! { "role_name" => statement.snapshot.role_name(oid) }).collect()
}

/// The rows of `applicable_roles`.
pub fn applicable_roles(statement: &StatementContext) -> Vec<Row> {
    let enabled = me(statement).map(|me| statement.snapshot.roles_with(statement.tenant.as_ref(), me));
    let roles = enabled.into_iter().flatten().filter_map(|oid| statement.snapshot.role_of(oid));
    let of = roles.flat_map(|role| role.member_of.iter().map(move |(of, membership)| (role, *of, membership.admin)));
    let one = |(role, of, admin): (&Arc<Role>, u32, bool)| {
        row! {
            "grantee" => role.name.clone(), "role_name" => statement.snapshot.role_name(of),
            "is_grantable" => yes_or_no(admin),
        }
    };
    of.map(one).collect()
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

/// Tables and views of the database: OIDs and names.
fn relations(statement: &StatementContext) -> Vec<(u32, String)> {
    let tables = statement.tables().map(|table| (table.id.0, table.name.clone()));
    tables.chain(views::all(statement).map(|view| (view.id, view.name.clone()))).collect()
}

fn rights_on(statement: &StatementContext, tenant: &TenantId, oid: u32) -> ObjectRights {
    statement.snapshot.private_of(Some(tenant)).map(|own| own.rights_on(oid)).unwrap_or_default()
}

/// The OID of the statement's role; `None` in a session without a log-in, which may do everything.
fn me(statement: &StatementContext) -> Option<u32> {
    statement.role_oid.or_else(|| statement.snapshot.role(&statement.role).map(|role| role.oid))
}

/// Whether the statement's role may do anything with a relation or a sequence: `information_schema` shows no others.
pub(super) fn is_usable(statement: &StatementContext, oid: u32) -> bool {
    let (Some(tenant), Some(me)) = (&statement.tenant, me(statement)) else { return true };
    statement.is_temporary(oid)
        || statement.snapshot.has_rights_of(Some(tenant), me, statement.snapshot.owner_of(Some(tenant), oid))
        || !statement.snapshot.rights_of(tenant, me, oid).0.is_empty()
}

/// What a role may do, and what of it grant.
fn rights_of(statement: &StatementContext, role: Option<u32>, object: u32) -> (Privileges, Privileges) {
    let all = (Privileges(u16::MAX), Privileges(u16::MAX));
    let (Some(tenant), Some(role)) = (&statement.tenant, role) else { return all };
    if statement.is_temporary(object) || statement.snapshot.is_operator(role) {
        return all;
    }
    let known = object == PUBLIC_SCHEMA
        || statement.snapshot.tables.contains_key(&keyspan_catalog::TableId(object))
        || statement.snapshot.private_of(Some(tenant)).is_some_and(|own| own.has_oid(object));
    if known {
        return statement.snapshot.rights_of(tenant, role, object);
    }
    // What is of the system everybody may read.
    (Privileges::SELECT | Privileges::USAGE, Privileges::NONE)
}

/// Privileges as the functions take them: any of `SELECT, INSERT WITH GRANT OPTION`.
fn wanted(text: &str) -> Result<Vec<(Privileges, bool)>> {
    let one = |word: &str| {
        let word = word.trim().to_uppercase();
        let (name, option) = match word.strip_suffix("WITH GRANT OPTION") {
            Some(name) => (name.trim().to_owned(), true),
            None => (word, false),
        };
        let known = Privileges::named(&name).map(|privilege| (privilege, option));
        known.ok_or_else(|| {
            let message = format!("unrecognized privilege type: \"{}\"", name.to_lowercase());
            DataFusionError::External(Box::new(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        })
    };
    text.split(',').map(one).collect()
}

fn has_one(rights: (Privileges, Privileges), wanted: &[(Privileges, bool)]) -> bool {
    wanted.iter().any(|(privilege, option)| if *option { rights.1 } else { rights.0 }.has(*privilege))
}

/// The role that a function is asked about: named or by OID.
fn role_named(statement: &StatementContext, value: &ScalarValue) -> Result<Option<u32>> {
    if let Some(oid) = int_of(value) {
        return Ok(u32::try_from(oid).ok());
    }
    let name = text_of(value).unwrap_or_default();
    if name == "public" {
        return Ok(Some(PUBLIC));
    }
    let found = cluster::roles(statement).find(|role| role.name == name).map(|role| role.oid);
    found.map(Some).ok_or_else(|| missing_role(&name))
}

fn missing_role(name: &str) -> DataFusionError {
    let message = format!("role \"{name}\" does not exist");
    DataFusionError::External(Box::new(SqlError::new(SqlState::UNDEFINED_OBJECT, message)))
}

/// The role of a call: its first argument, if there are more than `least`, else the statement's.
fn role_of(statement: &StatementContext, values: &[ScalarValue], least: usize) -> Result<Option<u32>> {
    if values.len() > least { role_named(statement, &values[0]) } else { Ok(me(statement)) }
}

/// The relation of an argument.
pub(super) fn relation_of(statement: &StatementContext, value: &ScalarValue) -> Result<Option<u32>> {
    let Some(name) = text_of(value) else { return Ok(None) };
    let wrapped = |error| DataFusionError::External(Box::new(error));
    let found = match name.parse::<u32>() {
        Ok(oid) => Some(oid),
        Err(_) => objects::usable_relation(statement, &name).map_err(wrapped)?,
    };
    found.map(Some).ok_or_else(|| DataFusionError::External(Box::new(SqlError::undefined_relation(&name))))
}

fn answer(has: Option<bool>) -> Result<ScalarValue> {
    Ok(ScalarValue::Boolean(has))
}

/// `has_table_privilege` and those of columns: a right on a table is one on each of its columns.
fn has_relation_privilege(
    statement: &StatementContext,
    values: &[ScalarValue],
    (least, relation): (usize, usize),
) -> Result<ScalarValue> {
    let first = usize::from(values.len() > least);
    let role = role_of(statement, values, least)?;
    let Some(oid) = relation_of(statement, &values[first + relation])? else { return answer(None) };
    let Some(text) = text_of(&values[values.len() - 1]) else { return answer(None) };
    answer(Some(has_one(rights_of(statement, role, oid), &wanted(&text)?)))
}

fn has_database_privilege(statement: &StatementContext, values: &[ScalarValue]) -> Result<ScalarValue> {
    let role = role_of(statement, values, 2)?;
    let asked = &values[values.len() - 2];
    let known = cluster::databases(statement);
    let found = known.into_iter().find(|(oid, name)| {
        text_of(asked).as_ref() == Some(name) || int_of(asked).is_some_and(|asked| asked == i64::from(*oid))
    });
    let (Some((_, name)), Some(text)) = (found, text_of(&values[values.len() - 1])) else { return answer(Some(false)) };
    let all = Privileges::CREATE | Privileges::TEMPORARY | Privileges::CONNECT;
    let operator = role.is_none_or(|role| statement.snapshot.is_operator(role));
    let of_tenant = |tenant: &Tenant| {
        let Some(role) = role.and_then(|role| statement.snapshot.role_of(role)) else { return Privileges::NONE };
        let owns = statement.snapshot.roles_with(Some(&tenant.id), role.oid).contains(&DATABASE_OWNER);
        let connects = statement.snapshot.may_connect(role, tenant);
        match (owns, connects) {
            (true, _) => all,
            (false, true) => Privileges::CONNECT | Privileges::TEMPORARY,
            (false, false) => Privileges::TEMPORARY,
        }
    };
    let tenant = statement.snapshot.tenant(&name);
    let has = if operator { all } else { tenant.map_or(Privileges::NONE, |tenant| of_tenant(tenant)) };
    let grantable = if has == all { all } else { Privileges::NONE };
    answer(Some(has_one((has, grantable), &wanted(&text)?)))
}

fn pg_has_role(statement: &StatementContext, values: &[ScalarValue]) -> Result<ScalarValue> {
    let member = role_of(statement, values, 2)?;
    let Some(role) = role_named(statement, &values[values.len() - 2])? else { return answer(None) };
    let Some(text) = text_of(&values[values.len() - 1]) else { return answer(None) };
    let Some(member) = member else { return answer(Some(true)) };
    let (snapshot, tenant) = (&statement.snapshot, statement.tenant.as_ref());
    let one = |word: &str| match word.trim().to_uppercase().as_str() {
        "USAGE" => Ok(snapshot.roles_with(tenant, member).contains(&role)),
        "MEMBER" | "SET" => Ok(snapshot.memberships(tenant, member).contains(&role)),
        "USAGE WITH ADMIN OPTION"
        | "USAGE WITH GRANT OPTION"
        | "MEMBER WITH ADMIN OPTION"
        | "MEMBER WITH GRANT OPTION" => {
            let of = |oid: u32| snapshot.role_of(oid).and_then(|of| of.member_of.get(&role).copied());
            Ok(snapshot.roles_with(tenant, member).into_iter().filter_map(of).any(|membership| membership.admin))
        }
        _ => Err(wanted(word).err().unwrap_or_else(|| missing_role(word))),
    };
    let held = text.split(',').map(one).collect::<Result<Vec<_>>>()?;
    answer(Some(snapshot.is_operator(member) || held.contains(&true)))
}

/// The functions.
pub(super) fn functions() -> Vec<RowFunction> {
    let yes_no = |name, arity, run| row_function(name, arity, DataType::Boolean, run);
    vec![
        yes_no("has_table_privilege", 2..=3, |values, statement| has_relation_privilege(statement, values, (2, 0)))
            // Not before it is known that there are rows to ask it for: tools guard the question by EXISTS.
            .with_volatility(Volatility::Volatile),
        yes_no("has_any_column_privilege", 2..=3, |values, statement| {
            has_relation_privilege(statement, values, (2, 0))
        }),
        yes_no("has_column_privilege", 3..=4, |values, statement| has_relation_privilege(statement, values, (3, 0))),
        yes_no("has_sequence_privilege", 2..=3, |values, statement| has_relation_privilege(statement, values, (2, 0))),
        yes_no("has_schema_privilege", 2..=3, |values, statement| {
            let role = role_of(statement, values, 2)?;
            let (asked, wish) = (&values[values.len() - 2], text_of(&values[values.len() - 1]));
            let Some(wish) = wish else { return answer(None) };
            let name = text_of(asked).unwrap_or_default();
            let oid = name.parse().ok().or_else(|| {
                statement.schemas().find(|schema| *schema == name).map(|_| objects::schema_oid_in(statement, &name))
            });
            let Some(oid) = oid else {
                let message = format!("schema \"{name}\" does not exist");
                let error = SqlError::new(SqlState::INVALID_SCHEMA_NAME, message);
                return Err(DataFusionError::External(Box::new(error)));
            };
            answer(Some(has_one(rights_of(statement, role, oid), &wanted(&wish)?)))
        }),
        yes_no("has_database_privilege", 2..=3, |values, statement| has_database_privilege(statement, values)),
        yes_no("pg_has_role", 2..=3, |values, statement| pg_has_role(statement, values)),
    ]
}

/// The predefined roles: they own nothing and cannot log in.
pub(super) fn predefined() -> &'static [Role] {
    static ROLES: LazyLock<Vec<Role>> = LazyLock::new(|| {
        let one = |(oid, name): &(u32, &str)| Role { name: (*name).to_owned(), oid: *oid, ..Role::default() };
        PREDEFINED.iter().map(one).collect()
    });
    &ROLES
}
