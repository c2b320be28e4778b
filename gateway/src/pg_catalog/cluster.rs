//! What is around a database: databases, roles, settings, sessions.
//!
//! A tenant sees its own database; roles are its own, the owner's, and those that may connect to the same database.

use super::columns::{Cell, Row, Rows};
use super::objects::owner;
use crate::{query::Facts, row};
use keyspan_catalog::{Role, TenantState};

/// The OID of the operator's database.
const OPERATOR_DATABASE: u32 = 5;
/// The OID of the tablespace `pg_default`.
const TABLESPACE: u32 = 1663;
/// The number of the encoding UTF8.
const UTF8: i32 = 6;

/// The databases that a session sees, with their OIDs.
pub fn databases(facts: &Facts) -> Vec<(u32, String)> {
    let active = facts.snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
    let tenants = active.map(|tenant| (tenant.oid, tenant.id.to_string()));
    if facts.operator {
        return std::iter::once((OPERATOR_DATABASE, facts.database.clone())).chain(tenants).collect();
    }
    tenants.filter(|(_, name)| *name == facts.database).collect()
}

/// The roles that a session sees.
pub fn roles(facts: &Facts) -> impl Iterator<Item = &Role> {
    facts.snapshot.roles.values().map(AsRef::as_ref).filter(|role| {
        let shares = role.connect.iter().any(|tenant| tenant.as_str() == facts.database);
        facts.operator || role.name == facts.role || role.oid == owner(facts) || shares
    })
}

/// The name of a role, as `pg_get_userbyid` gives it.
pub fn role_name(facts: &Facts, oid: u32) -> String {
    let found = roles(facts).find(|role| role.oid == oid);
    found.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
}

/// Fills a relation that describes what is around a database.
pub fn fill(rows: &mut Rows, facts: &Facts) {
    match rows.relation.name {
        "pg_database" => rows.extend(databases(facts).into_iter().map(|(oid, name)| {
            row! {
                "oid" => oid, "datname" => name, "datdba" => owner(facts), "encoding" => UTF8, "datlocprovider" => "c",
                "datallowconn" => true, "datconnlimit" => -1, "dattablespace" => TABLESPACE, "datcollate" => "C.UTF-8",
                "datctype" => "C.UTF-8",
            }
        })),
        "pg_roles" | "pg_authid" => rows.extend(roles(facts).map(role)),
        "pg_user" | "pg_shadow" => rows.extend(roles(facts).filter(|role| role.login).map(|role| {
            row! {
                "usename" => role.name.clone(), "usesysid" => role.oid, "usecreatedb" => role.operator,
                "usesuper" => role.operator, "passwd" => "********",
            }
        })),
        "pg_tablespace" => rows.extend([(TABLESPACE, "pg_default"), (1664, "pg_global")].map(|(oid, name)| {
            row! { "oid" => oid, "spcname" => name, "spcowner" => owner(facts) }
        })),
        "pg_settings" => rows.extend(facts.settings.iter().map(|(name, value)| {
            row! {
                "name" => name.clone(), "setting" => value.clone(), "category" => "Keyspan", "short_desc" => "",
                "context" => "user", "vartype" => "string", "source" => "session", "boot_val" => value.clone(),
                "reset_val" => value.clone(),
            }
        })),
        "pg_stat_activity" => rows.push(activity(facts)),
        // What is not counted is NULL.
        "pg_stat_database" => rows.extend(databases(facts).into_iter().map(|(oid, name)| {
            row! { "datid" => oid, "datname" => name, "numbackends" => Cell::Null }
        })),
        "pg_stat_gssapi" => rows.push(row! { "pid" => facts.process_id }),
        "pg_language" => {
            rows.push(row! { "oid" => 14_u32, "lanname" => "sql", "lanowner" => owner(facts), "lanpltrusted" => true })
        }
        _ => {}
    }
}

fn role(role: &Role) -> Row {
    row! {
        "rolname" => role.name.clone(), "rolsuper" => role.operator, "rolinherit" => true,
        "rolcreaterole" => role.operator, "rolcreatedb" => role.operator, "rolcanlogin" => role.login,
        "rolconnlimit" => -1, "rolpassword" => "********", "oid" => role.oid,
    }
}

fn activity(facts: &Facts) -> Row {
    let database = databases(facts).into_iter().find(|(_, name)| *name == facts.database);
    let user = roles(facts).find(|role| role.name == facts.role).map(|role| role.oid);
    row! {
        "datid" => database.map(|(oid, _)| oid), "datname" => facts.database.clone(), "pid" => facts.process_id,
        "usesysid" => user, "usename" => facts.role.clone(),
        "application_name" => facts.settings.get("application_name").cloned().unwrap_or_default(),
        "query_start" => Cell::Micros(facts.now_micros), "state" => "active", "backend_type" => "client backend",
    }
}
