//! What is around a database: databases, roles, settings, sessions.
//!
//! A tenant sees its own database; roles are its own, the owner's, and those that may connect to the same database.

use super::{
    columns::{Cell, Row, Rows},
    functions::format_type,
    objects::owner,
};
use crate::pg_catalog::columns::row;
use crate::{
    activity::Activity,
    context::{
        StatementContext,
        introspection::{CursorInfo, PreparedInfo},
    },
    pg::types,
};
use keyspan_catalog::{Role, TenantState};

/// The OID of the operator's database.
const OPERATOR_DATABASE: u32 = 5;
/// The OID of the tablespace `pg_default`.
const TABLESPACE: u32 = 1663;
/// The number of the encoding UTF8.
const UTF8: i32 = 6;

/// The databases that a session sees, with their OIDs.
pub fn databases(statement: &StatementContext) -> Vec<(u32, String)> {
    let active = statement.snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
    let tenants = active.map(|tenant| (tenant.oid, tenant.id.to_string()));
    if statement.operator {
        return std::iter::once((OPERATOR_DATABASE, statement.database.clone())).chain(tenants).collect();
    }
    tenants.filter(|(_, name)| *name == statement.database).collect()
}

/// The roles that a session sees.
pub fn roles(statement: &StatementContext) -> impl Iterator<Item = &Role> {
    statement.snapshot.roles.values().map(AsRef::as_ref).filter(|role| {
        let shares = role.connect.iter().any(|tenant| tenant.as_str() == statement.database);
        statement.operator || role.name == statement.role || role.oid == owner(statement) || shares
    })
}

/// The name of a role, as `pg_get_userbyid` gives it.
pub fn role_name(statement: &StatementContext, oid: u32) -> String {
    let found = roles(statement).find(|role| role.oid == oid);
    found.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
}

/// Fills a relation that describes what is around a database.
pub fn fill(rows: &mut Rows, statement: &StatementContext) {
    match rows.relation.name {
        "pg_database" => rows.extend(databases(statement).into_iter().map(|(oid, name)| {
            row! {
                "oid" => oid, "datname" => name, "datdba" => owner(statement), "encoding" => UTF8, "datlocprovider" => "c",
                "datallowconn" => true, "datconnlimit" => -1, "dattablespace" => TABLESPACE, "datcollate" => "C.UTF-8",
                "datctype" => "C.UTF-8",
            }
        })),
        "pg_roles" | "pg_authid" => rows.extend(roles(statement).map(role)),
        "pg_user" | "pg_shadow" => rows.extend(roles(statement).filter(|role| role.login).map(|role| {
            row! {
                "usename" => role.name.clone(), "usesysid" => role.oid, "usecreatedb" => role.operator,
                "usesuper" => role.operator, "passwd" => "********",
            }
        })),
        "pg_tablespace" => rows.extend([(TABLESPACE, "pg_default"), (1664, "pg_global")].map(|(oid, name)| {
            row! { "oid" => oid, "spcname" => name, "spcowner" => owner(statement) }
        })),
        "pg_settings" => rows.extend(statement.settings.iter().map(|(name, value)| {
            row! {
                "name" => name.clone(), "setting" => value.clone(), "category" => "Keyspan", "short_desc" => "",
                "context" => "user", "vartype" => "string", "source" => "session", "boot_val" => value.clone(),
                "reset_val" => value.clone(),
            }
        })),
        "pg_prepared_statements" => rows.extend(prepared_statements(statement)),
        "pg_cursors" => rows.extend(cursors(statement)),
        "pg_stat_activity" => rows.extend(activities(statement)),
        // What is not counted is NULL.
        "pg_stat_database" => rows.extend(databases(statement).into_iter().map(|(oid, name)| {
            row! { "datid" => oid, "datname" => name, "numbackends" => Cell::Null }
        })),
        "pg_stat_gssapi" => rows.push(row! { "pid" => statement.process_id }),
        "pg_language" => {
            rows.push(row! { "oid" => 14_u32, "lanname" => "sql", "lanowner" => owner(statement), "lanpltrusted" => true })
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
fn activities(statement: &StatementContext) -> Vec<Row> {
    let Some((shared, rows)) = statement.shared.as_ref().zip(statement.rows.as_ref()) else { return Vec::new() };
    let told_all = statement.snapshot.role(&statement.role).is_some_and(|role| role.operator);
    let seen = |activity: &Activity| statement.operator || activity.tenant == rows.oid();
    let all = shared.activities.all().into_iter().filter(seen);
    all.map(|activity| doing(&activity, told_all || activity.role == statement.role, statement)).collect()
}

fn doing(activity: &Activity, told: bool, statement: &StatementContext) -> Row {
    let at = |micros: Option<i64>| micros.map_or(Cell::Null, Cell::Micros);
    let mut row = row! {
        "datid" => activity.tenant.unwrap_or(OPERATOR_DATABASE), "datname" => activity.database.clone(),
        "pid" => activity.process_id, "usesysid" => statement.snapshot.role(&activity.role).map(|role| role.oid),
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
fn prepared_statements(statement: &StatementContext) -> Vec<Row> {
    let names = |types: Vec<u32>| types.into_iter().map(|oid| format_type(statement, oid, -1)).collect::<Vec<String>>();
    let one = |prepared: PreparedInfo| {
        let results = prepared
            .columns
            .map(|columns| names(columns.fields().iter().map(|field| types::pg_type(field).oid()).collect()));
        row! {
            "name" => prepared.name, "statement" => prepared.text,
            "prepare_time" => Cell::Micros(prepared.at_micros),
            "parameter_types" => names(prepared.parameters.iter().map(|kind| kind.oid()).collect()),
            "result_types" => results, "from_sql" => prepared.by_statement,
            "generic_plans" => 0_i64, "custom_plans" => 0_i64,
        }
    };
    statement.objects.prepared_statements().into_iter().map(one).collect()
}

/// The session's cursors.
fn cursors(statement: &StatementContext) -> Vec<Row> {
    let one = |cursor: CursorInfo| {
        row! {
            "name" => cursor.name, "statement" => cursor.text, "is_holdable" => cursor.hold,
            "is_binary" => false, "is_scrollable" => cursor.scroll, "creation_time" => Cell::Micros(cursor.at_micros),
        }
    };
    statement.objects.cursors().into_iter().map(one).collect()
}
