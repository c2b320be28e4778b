//! What is around a database: databases, roles, settings, sessions.
//!
//! A tenant sees its own database; roles are its own, the owner's, and those that may connect to the same database.

use super::{
    columns::{Cell, Row, Rows},
    functions::format_type,
    objects::owner,
};
use crate::activity::Activity;
use crate::{
    context::Facts,
    pg::types,
    row,
    session::{HeldCursor, NamedStatement},
};
use keyspan_catalog::{Role, TenantState};
use std::sync::{Arc, PoisonError};

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
        "pg_prepared_statements" => rows.extend(prepared_statements(facts)),
        "pg_cursors" => rows.extend(cursors(facts)),
        "pg_stat_activity" => rows.extend(activities(facts)),
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

/// The sessions of the database: what those of the own role do, and of others only that they are there. An operator is told of all that do anything
/// in the database, and in its own database of those of all databases.
fn activities(facts: &Facts) -> Vec<Row> {
    let Some((shared, rows)) = facts.shared.as_ref().zip(facts.rows.as_ref()) else { return Vec::new() };
    let told_all = facts.snapshot.role(&facts.role).is_some_and(|role| role.operator);
    let seen = |activity: &Activity| facts.operator || activity.tenant == rows.oid();
    let all = shared.activities.all().into_iter().filter(seen);
    all.map(|activity| doing(&activity, told_all || activity.role == facts.role, facts)).collect()
}

fn doing(activity: &Activity, told: bool, facts: &Facts) -> Row {
    let at = |micros: Option<i64>| micros.map_or(Cell::Null, Cell::Micros);
    let mut row = row! {
        "datid" => activity.tenant.unwrap_or(OPERATOR_DATABASE), "datname" => activity.database.clone(),
        "pid" => activity.process_id, "usesysid" => facts.snapshot.role(&activity.role).map(|role| role.oid),
        "usename" => activity.role.clone(), "application_name" => activity.application_name.clone(),
        "query" => "<insufficient privilege>",
    };
    if told {
        let waits = activity.state != "active";
        row.extend(row! {
            "backend_start" => Cell::Micros(activity.started_micros), "xact_start" => at(activity.transaction_micros),
            "query_start" => at(activity.query_micros), "state_change" => Cell::Micros(activity.changed_micros),
            "wait_event_type" => waits.then_some("Client"), "wait_event" => waits.then_some("ClientRead"),
            "state" => activity.state, "query" => activity.query.clone(), "backend_type" => "client backend",
        });
    }
    row
}

/// The session's prepared statements. Plans are counted by none.
fn prepared_statements(facts: &Facts) -> Vec<Row> {
    let statements = facts.statements.lock().unwrap_or_else(PoisonError::into_inner);
    let mut named: Vec<_> = statements.iter().filter(|(name, _)| !name.is_empty()).collect();
    named.sort_by_key(|(name, _)| *name);
    let names = |types: Vec<u32>| types.into_iter().map(|oid| format_type(facts, oid, -1)).collect::<Vec<String>>();
    let one = |(name, statement): (&String, &Arc<NamedStatement>)| {
        let results = statement
            .prepared
            .as_ref()
            .and_then(|prepared| prepared.columns.as_ref())
            .map(|columns| names(columns.fields().iter().map(|field| types::pg_type(field).oid()).collect()));
        row! {
            "name" => name.clone(), "statement" => statement.source.text.clone(),
            "prepare_time" => Cell::Micros(statement.source.at_micros),
            "parameter_types" => names(statement.types.iter().map(|kind| kind.oid()).collect()),
            "result_types" => results, "from_sql" => statement.source.by_statement,
            "generic_plans" => 0_i64, "custom_plans" => 0_i64,
        }
    };
    named.into_iter().map(one).collect()
}

/// The session's cursors.
fn cursors(facts: &Facts) -> Vec<Row> {
    let cursors = facts.cursors.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |(name, cursor): (&String, &HeldCursor)| {
        row! {
            "name" => name.clone(), "statement" => cursor.text.clone(), "is_holdable" => cursor.hold,
            "is_binary" => false, "is_scrollable" => cursor.scroll, "creation_time" => Cell::Micros(cursor.at_micros),
        }
    };
    cursors.iter().map(one).collect()
}
