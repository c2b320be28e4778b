//! What is around a database: databases, roles, settings, sessions.
//!
//! A tenant sees its own database, and the roles that this knows ([`Snapshot::roles_in`](keyspan_catalog::Snapshot)):
//! those that may connect to it, those that these are members of, and those that have rights in it.

use super::{
    columns::{Cell, Row},
    functions::format_type,
    objects::owner,
    rights,
};
use crate::pg_catalog::columns::row;
use crate::settings::{
    Settings,
    postgres::{self, Parameter},
};
use crate::{
    activity::Activity,
    context::{
        StatementContext,
        introspection::{CursorInfo, PreparedInfo},
    },
    pg::types,
};
use keyspan_catalog::{Role, SettingDefaults, TenantState};

/// The OID of the operator's database.
pub(super) const OPERATOR_DATABASE: u32 = 5;
/// The OID of the tablespace `pg_default`.
const TABLESPACE: u32 = 1663;
/// The language of the server's own functions.
pub(super) const INTERNAL: u32 = 12;
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
    let own = statement.snapshot.roles.values().map(AsRef::as_ref).filter(|role| {
        statement.operator
            || role.name == statement.role
            || role.oid == owner(statement)
            || statement.known_roles().contains(&role.oid)
    });
    own.chain(rights::predefined().iter())
}

/// The name of a role, as `pg_get_userbyid` gives it.
pub fn role_name(statement: &StatementContext, oid: u32) -> String {
    let found = roles(statement).find(|role| role.oid == oid);
    found.map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
}

/// The rows of `pg_database`.
pub fn databases_rows(statement: &StatementContext) -> Vec<Row> {
    let limit = |name: &str| {
        let quotas = statement.snapshot.tenant(name).map(|tenant| tenant.quotas);
        quotas.and_then(|quotas| quotas.connections_max).map_or(-1, i64::from)
    };
    let one = |(oid, name): (u32, String)| {
        row! {
            "datconnlimit" => limit(&name),
            "oid" => oid, "datdba" => rights::database_owner(statement, &name), "datacl" => rights::database_list(statement, &name),
            "datname" => name, "encoding" => UTF8, "datlocprovider" => "c",
            "datallowconn" => true, "dattablespace" => TABLESPACE, "datcollate" => "C.UTF-8",
            "datctype" => "C.UTF-8",
        }
    };
    databases(statement).into_iter().map(one).collect()
}

/// The rows of `pg_roles`.
pub fn roles_rows(statement: &StatementContext) -> Vec<Row> {
    let with_settings = |(mut row, role): (Row, &Role)| {
        row.insert("rolconfig", config(&role.settings).into());
        row
    };
    authid_rows(statement).into_iter().zip(roles(statement)).map(with_settings).collect()
}

/// The rows of `pg_authid`.
pub fn authid_rows(statement: &StatementContext) -> Vec<Row> {
    let one = |role: &Role| {
        row! {
            "rolname" => role.name.clone(), "rolsuper" => role.operator, "rolinherit" => !role.noinherit,
            "rolcreaterole" => role.operator, "rolcreatedb" => role.operator, "rolcanlogin" => role.login,
            "rolconnlimit" => connection_limit(role), "rolpassword" => "********", "oid" => role.oid,
            "rolvaliduntil" => valid_until(role),
        }
    };
    roles(statement).map(one).collect()
}

fn connection_limit(role: &Role) -> i64 {
    role.connection_limit.map_or(-1, i64::from)
}

fn valid_until(role: &Role) -> Cell {
    role.valid_until_micros.map_or(Cell::Null, Cell::Micros)
}

/// Settings as PostgreSQL lists them, `name=value`; `None` for none.
fn config(settings: &SettingDefaults) -> Option<Vec<String>> {
    let listed: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!listed.is_empty()).then_some(listed)
}

/// The rows of `pg_db_role_setting`: what sessions begin with, by database and role; 0 for any.
pub fn setting_defaults(statement: &StatementContext) -> Vec<Row> {
    let one = |database: u32, role: u32, settings: &SettingDefaults| {
        config(settings).map(|config| row! { "setdatabase" => database, "setrole" => role, "setconfig" => config })
    };
    let databases = databases(statement);
    let oid = |name: &str| databases.iter().find(|(_, known)| known == name).map(|(oid, _)| *oid);
    let of_databases =
        databases.iter().filter_map(|(oid, name)| one(*oid, 0, &statement.snapshot.tenant(name)?.settings));
    let of_roles = roles(statement).flat_map(|role| {
        let within = role.settings_in.iter();
        let within = within.filter_map(|(tenant, settings)| one(oid(tenant.as_str())?, role.oid, settings));
        one(0, role.oid, &role.settings).into_iter().chain(within).collect::<Vec<_>>()
    });
    of_databases.chain(of_roles).collect()
}

/// The rows of `pg_user`: the roles that may log in.
pub fn users(statement: &StatementContext) -> Vec<Row> {
    let one = |role: &Role| {
        row! {
            "usename" => role.name.clone(), "usesysid" => role.oid, "usecreatedb" => role.operator,
            "usesuper" => role.operator, "passwd" => "********", "valuntil" => valid_until(role),
            "useconfig" => config(&role.settings),
        }
    };
    roles(statement).filter(|role| role.login).map(one).collect()
}

/// The rows of `pg_tablespace`.
pub fn tablespaces(statement: &StatementContext) -> Vec<Row> {
    let one = |(oid, name): (u32, &str)| row! { "oid" => oid, "spcname" => name, "spcowner" => owner(statement) };
    [(TABLESPACE, "pg_default"), (1664, "pg_global")].map(one).into()
}

/// The rows of `pg_settings`.
pub fn settings(statement: &StatementContext) -> Vec<Row> {
    let set = |name: &str| statement.settings.get(name).cloned();
    let kind = |value: &str| match value {
        "on" | "off" => "bool",
        value if value.parse::<i64>().is_ok() => "integer",
        _ => "string",
    };
    let own = |(name, value): (&String, &String)| {
        row! {
            "name" => name.clone(), "setting" => value.clone(), "category" => "Keyspan",
            "short_desc" => Settings::describe(name).map_or("", |(_, text)| text), "context" => "user",
            "vartype" => kind(value), "source" => "session", "boot_val" => value.clone(), "reset_val" => value.clone(),
        }
    };
    let of_postgres = |parameter: &'static Parameter| {
        let (value, start) = (set(parameter.name), parameter.shown_start());
        let optional = |text: &'static str| if text.is_empty() { Cell::Null } else { text.into() };
        row! {
            "name" => parameter.name, "setting" => parameter.in_unit(value.as_ref().unwrap_or(&start)),
            "unit" => optional(parameter.unit), "category" => "PostgreSQL", "short_desc" => postgres::ABOUT,
            "context" => parameter.context, "vartype" => parameter.kind,
            "source" => if value.is_some() { "session" } else { "default" }, "min_val" => optional(parameter.from),
            "max_val" => optional(parameter.to), "boot_val" => parameter.start, "reset_val" => parameter.start,
        }
    };
    let others = statement.settings.iter().filter(|(name, _)| Settings::at_start(name).is_none());
    others.map(own).chain(postgres::all().map(of_postgres)).collect()
}

/// The row of `pg_stat_gssapi`: this connection.
pub fn gssapi(statement: &StatementContext) -> Vec<Row> {
    vec![row! { "pid" => statement.process_id }]
}

/// The rows of `pg_language`.
pub fn languages(statement: &StatementContext) -> Vec<Row> {
    // Functions of the server's own are of the first; views are the only texts of the second.
    let one = |oid: u32, name: &str, trusted: bool| {
        row! { "oid" => oid, "lanname" => name.to_owned(), "lanowner" => owner(statement), "lanpltrusted" => trusted }
    };
    vec![one(INTERNAL, "internal", false), one(14, "sql", true)]
}

/// The rows of `pg_stat_activity`: the sessions of the database. A role sees what its own sessions do, and only the
/// presence of those of other roles. An operator sees all sessions of the database, and in the operator's database
/// those of all databases.
pub fn activities(statement: &StatementContext) -> Vec<Row> {
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else { return Vec::new() };
    let sees_all = statement.snapshot.role(&statement.role).is_some_and(|role| role.operator);
    let seen = |activity: &Activity| statement.operator || activity.tenant == rows.oid();
    let all = instance.activities.all().into_iter().filter(seen);
    all.map(|activity| activity_row(&activity, sees_all || activity.role == statement.role, statement)).collect()
}

fn activity_row(activity: &Activity, sees_query: bool, statement: &StatementContext) -> Row {
    let at = |micros: Option<i64>| micros.map_or(Cell::Null, Cell::Micros);
    let mut row = row! {
        "datid" => activity.tenant.unwrap_or(OPERATOR_DATABASE), "datname" => activity.database.clone(),
        "pid" => activity.process_id, "usesysid" => statement.snapshot.role(&activity.role).map(|role| role.oid),
        "usename" => activity.role.clone(), "application_name" => activity.application_name.clone(),
        "query" => "<insufficient privilege>",
    };
    if sees_query {
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

/// The rows of `pg_prepared_statements`. Plans are not counted.
pub fn prepared_statements(statement: &StatementContext) -> Vec<Row> {
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

/// The rows of `pg_cursors`.
pub fn cursors(statement: &StatementContext) -> Vec<Row> {
    let one = |cursor: CursorInfo| {
        row! {
            "name" => cursor.name, "statement" => cursor.text, "is_holdable" => cursor.hold,
            "is_binary" => false, "is_scrollable" => cursor.scroll, "creation_time" => Cell::Micros(cursor.at_micros),
        }
    };
    statement.objects.cursors().into_iter().map(one).collect()
}
