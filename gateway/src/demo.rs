//! The demo's data: flights from New York in 2013, each airline a tenant, and sensor readings made from a seed.
//!
//! [`load`] fills an empty store. It runs `demo/schema.sql` and makes the tenants as an operator's session would, by
//! statements; rows then take the short way, as commits through each tenant's door: the Parquet files beside the schema
//! are part of the program (`files`), readings are made up one by one (`readings`), and the `loader` turns both into
//! keys and cells by the names of the table's columns. The roles of the demo come last: a store that lacks them was not
//! loaded to its end, and [`state`] says so.

mod files;
pub mod loader;
mod readings;

use crate::{
    auth::{login::identify, operator::OPERATOR_ROLE, scram::is_password_of},
    execute::Outcome,
    instance::Instance,
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    sql::ast::Statement,
};
use files::File;
use futures::{
    TryStreamExt,
    future::{BoxFuture, LocalBoxFuture},
};
use keyspan_catalog::{Snapshot, Table, TenantId, ids::OPERATOR_DATABASE};
use loader::Loader;
use std::sync::Arc;

/// The statements that make the demo's tables.
pub const SCHEMA: &str = include_str!("../demo/schema.sql");
/// The tables that [`SCHEMA`] makes.
pub const TABLES: [&str; 4] = ["flights", "airports", "weather", "readings"];
/// The tenants that get a role of the same name: Virgin America and Southwest.
pub const ROLES: [&str; 2] = ["vx", "wn"];

/// How much is loaded, of what can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Rows of `readings`.
    pub readings: u64,
    /// The seed that they are made from: the same one gives the same rows.
    pub seed: u64,
}

/// How far a load is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The table that is being loaded.
    pub table: &'static str,
    /// Its rows that are durable.
    pub rows: u64,
    /// Its rows in all.
    pub rows_total: u64,
}

/// What a store holds of the demo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No table and no tenant: it can be loaded.
    Empty,
    /// All of it.
    Whole,
    /// Something else, or a part; the text names what is missing.
    Other(String),
}

/// What the store holds of the demo.
pub fn state(snapshot: &Snapshot) -> State {
    if let Some(name) = TABLES.iter().find(|name| snapshot.table(name).is_none()) {
        let empty = snapshot.tables.is_empty() && snapshot.tenants.is_empty();
        return if empty { State::Empty } else { State::Other(format!("table \"{name}\" is not there")) };
    }
    for name in ROLES {
        let Some(tenant) = snapshot.tenant(name) else {
            return State::Other(format!("database \"{name}\" is not there"));
        };
        if !snapshot.role(name).is_some_and(|role| role.login && snapshot.may_connect(role, tenant)) {
            return State::Other(format!("role \"{name}\", which is made last, is not there"));
        }
    }
    State::Whole
}

/// Loads the demo into an empty store, and makes the roles of [`ROLES`] with these passwords. Writes with the speed of
/// the log; holds a few commits in memory, whatever the size.
///
/// # Errors
/// What a statement or the store says. The store is then [`State::Other`], or [`State::Empty`] still.
pub fn load<'a>(
    instance: &'a Arc<Instance>,
    size: Size,
    passwords: &'a [String; ROLES.len()],
    progress: &'a mut dyn FnMut(Progress),
) -> LocalBoxFuture<'a, Result<()>> {
    // Boxed, so that this crate compiles it, as `Server::start` says.
    Box::pin(load_all(instance, size, passwords, progress))
}

async fn load_all(
    instance: &Arc<Instance>,
    size: Size,
    passwords: &[String; ROLES.len()],
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut operator = Session::new(instance.clone(), identify(instance, OPERATOR_ROLE, OPERATOR_DATABASE)?, 0);
    define(&mut operator).await?;
    for file in files::FILES {
        load_file(instance, &file, progress).await?;
    }
    make_readings(instance, size, progress).await?;
    make_roles(&mut operator, passwords).await
}

async fn define(operator: &mut Session) -> Result<()> {
    run(operator, SCHEMA).await?;
    for tenant in files::tenants()? {
        run(operator, &format!("CREATE DATABASE \"{tenant}\"")).await?;
    }
    Ok(())
}

async fn load_file(instance: &Arc<Instance>, file: &File, progress: &mut dyn FnMut(Progress)) -> Result<()> {
    let mut loader = Loader::new(instance, table(instance, file.table)?, &file.columns()?)?;
    let rows_total = file.rows()?;
    let mut step = |rows| progress(Progress { table: file.table, rows, rows_total });
    for row in file.read()? {
        let (tenant, values) = row?;
        loader.put(&tenant, &values, &mut step).await?;
    }
    loader.finish(&mut step).await
}

async fn make_readings(instance: &Arc<Instance>, size: Size, progress: &mut dyn FnMut(Progress)) -> Result<()> {
    let mut loader = Loader::new(instance, table(instance, "readings")?, &readings::COLUMNS)?;
    let mut step = |rows| progress(Progress { table: "readings", rows, rows_total: size.readings });
    for number in 0..size.readings {
        let (tenant, values) = readings::reading(size.seed, number);
        loader.put(tenant, &values, &mut step).await?;
    }
    loader.finish(&mut step).await
}

async fn make_roles(operator: &mut Session, passwords: &[String; ROLES.len()]) -> Result<()> {
    for (role, password) in ROLES.iter().zip(passwords) {
        let password = password.replace('\'', "''");
        run(operator, &format!("CREATE ROLE \"{role}\" LOGIN PASSWORD '{password}'")).await?;
        run(operator, &format!("ALTER DATABASE \"{role}\" OWNER TO \"{role}\"")).await?;
    }
    Ok(())
}

/// Gives the roles of [`ROLES`] these passwords where they have others.
///
/// # Errors
/// What the statement says.
pub fn set_passwords<'a>(
    instance: &'a Arc<Instance>,
    passwords: &'a [String; ROLES.len()],
) -> BoxFuture<'a, Result<()>> {
    Box::pin(change_passwords(instance, passwords))
}

async fn change_passwords(instance: &Arc<Instance>, passwords: &[String; ROLES.len()]) -> Result<()> {
    let snapshot = instance.catalog.snapshot();
    let mut operator = Session::new(instance.clone(), identify(instance, OPERATOR_ROLE, OPERATOR_DATABASE)?, 0);
    for (role, password) in ROLES.iter().zip(passwords) {
        let secret = snapshot.role(role).and_then(|role| role.secret.as_ref());
        if !secret.is_some_and(|secret| is_password_of(password, secret)) {
            run(&mut operator, &format!("ALTER ROLE \"{role}\" PASSWORD '{}'", password.replace('\'', "''"))).await?;
        }
    }
    Ok(())
}

/// Runs statements to their ends; rows that they give are dropped.
async fn run(session: &mut Session, sql: &str) -> Result<()> {
    for statement in Statement::parse(sql)? {
        let prepared = session.prepare(statement, &[]).await?;
        if let Outcome::Rows { rows, .. } = session.execute(&prepared, Vec::new()).await?.in_batches() {
            let rows = rows.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()));
            rows.try_for_each(|_| std::future::ready(Ok(()))).await?;
        }
    }
    Ok(())
}

fn table(instance: &Instance, name: &str) -> Result<Arc<Table>> {
    let missing = || SqlError::undefined_relation(name);
    instance.catalog.snapshot().table(name).cloned().ok_or_else(missing)
}

/// A tenant of the demo.
fn tenant_id(id: &str) -> Result<TenantId> {
    Ok(TenantId::new(id)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::{World, check};
    use expect_test::expect;
    use keyspan_catalog::TenantStore;
    use keyspan_storage::{Row, Scan};
    use std::collections::BTreeMap;

    const PASSWORDS: [&str; 2] = ["it's one", "another"];

    async fn world() -> World {
        let world = World::empty().await;
        crate::auth::operator::ensure(&world.instance.catalog, "operator").await.unwrap();
        world
    }

    #[tokio::test]
    async fn a_load_that_was_cut_short_does_not_look_whole() {
        let world = world().await;
        let state = || state(&world.instance.catalog.snapshot());
        assert_eq!(state(), State::Empty);
        let mut operator = world.operator();
        define(&mut operator).await.unwrap();
        assert_eq!(state(), State::Other("role \"vx\", which is made last, is not there".into()));
        make_roles(&mut operator, &PASSWORDS.map(str::to_owned)).await.unwrap();
        assert_eq!(state(), State::Whole);
        run(&mut operator, "ALTER DATABASE wn OWNER TO keyspan").await.unwrap();
        assert_eq!(state(), State::Other("role \"wn\", which is made last, is not there".into()));
        run(&mut operator, "DROP DATABASE vx").await.unwrap();
        assert_eq!(state(), State::Other("database \"vx\" is not there".into()));
    }

    #[tokio::test]
    async fn passwords_are_set_where_they_differ() {
        let world = world().await;
        let mut operator = world.operator();
        define(&mut operator).await.unwrap();
        make_roles(&mut operator, &PASSWORDS.map(str::to_owned)).await.unwrap();
        let secret = |role| world.instance.catalog.snapshot().role(role).unwrap().secret.clone().unwrap();
        let before = ROLES.map(secret);
        assert!(is_password_of(PASSWORDS[0], &before[0]) && is_password_of(PASSWORDS[1], &before[1]));
        set_passwords(&world.instance, &["new".into(), PASSWORDS[1].into()]).await.unwrap();
        assert!(is_password_of("new", &secret("vx")));
        assert_eq!(secret("wn"), before[1]);
    }

    #[tokio::test]
    async fn rows_arrive_whole_and_where_they_belong() {
        let world = world().await;
        define(&mut world.operator()).await.unwrap();
        let mut durable = BTreeMap::new();
        let mut progress = |progress: Progress| {
            let rows = durable.insert(progress.table, progress.rows).unwrap_or_default();
            assert!(rows < progress.rows && progress.rows <= progress.rows_total);
        };
        load_file(&world.instance, &files::FILES[0], &mut progress).await.unwrap();
        make_readings(&world.instance, Size { readings: 10_001, seed: 1 }, &mut progress).await.unwrap();
        assert_eq!(durable, BTreeMap::from([("airports", 338), ("readings", 10_001)]));
        check(
            &mut world.operator(),
            "SELECT count(*), count(DISTINCT tenant) FROM airports; SELECT tenant, count(*) FROM readings GROUP BY 1 ORDER BY 1",
            expect![[r#"
                338|16
                f9|1250
                ha|1250
                vx|5001
                wn|2500"#]],
        )
        .await;
        check(
            &mut world.tenant("vx"),
            "SELECT * FROM airports WHERE faa = 'SFO'; SELECT * FROM readings WHERE device_id = 'gate-000' LIMIT 2",
            expect![[r#"
                SFO|San Francisco Intl|37.618972|-122.374889|13|America/Los_Angeles
                gate|gate-000|2013-01-01T00:25:00Z|18.97|0.54|∅
                gate|gate-000|2013-01-01T00:24:00Z|19.61|0.56|∅"#]],
        )
        .await;
    }

    #[tokio::test]
    async fn semantics_1_a_loaded_row_has_the_cells_of_an_inserted_one() {
        let world = world().await;
        define(&mut world.operator()).await.unwrap();
        make_readings(&world.instance, Size { readings: 100, seed: 1 }, &mut |_| {}).await.unwrap();
        let mut session = world.tenant("vx");
        let door = TenantStore::of_tenant(world.instance.catalog.store().clone(), tenant_id("vx").unwrap());
        let readings = table(&world.instance, "readings").unwrap();
        let loaded: Vec<Row> = door.scan(&readings, Scan::all()).try_concat().await.unwrap();
        run(&mut session, "INSERT INTO readings SELECT device_type, device_id || '+', at, temperature, humidity, system_log FROM readings")
            .await
            .unwrap();
        let all: Vec<Row> = door.scan(&readings, Scan::all()).try_concat().await.unwrap();
        assert_eq!((loaded.len(), all.len()), (100, 200));
        let cells = |row: &Row| -> Vec<_> {
            row.cells.iter().map(|cell| (cell.family.clone(), cell.qualifier.clone(), cell.value.clone())).collect()
        };
        let mut of_loaded: Vec<_> = loaded.iter().map(cells).collect();
        let mut of_inserted: Vec<_> = all.iter().filter(|row| !loaded.contains(row)).map(cells).collect();
        of_loaded.sort();
        of_inserted.sort();
        assert_eq!(of_loaded, of_inserted);
    }
}
