//! The demo's data: flights from New York in 2013, each airline a tenant, and sensor readings made from a seed.
//!
//! [`load`] fills an empty store. It runs `demo/schema.sql` and makes the tenants as an operator's session would, by statements;
//! rows then take the short way, as commits through each tenant's door: the Parquet files beside the schema are part of the
//! program (`files`), readings are made up one by one (`readings`), and the `loader` turns both into keys and cells by the names of
//! the table's columns. The roles of the demo come last: a store that lacks them was not loaded to its end, and [`state`] says so.

mod files;
mod loader;
mod readings;

use crate::{
    auth::{login::identify, operator::OPERATOR_ROLE, scram::is_password_of},
    error::{Result, SqlError, SqlState},
    session::{Outcome, Session, Shared},
    statement::Statement,
};
use futures::TryStreamExt;
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
    let table = |name: &&&str| snapshot.table(name).is_none();
    if let Some(name) = TABLES.iter().find(table) {
        let empty = snapshot.tables.is_empty() && snapshot.tenants.is_empty();
        return if empty { State::Empty } else { State::Other(format!("table \"{name}\" is not there")) };
    }
    for name in ROLES {
        let Some(tenant) = snapshot.tenant(name) else {
            return State::Other(format!("database \"{name}\" is not there"));
        };
        if !snapshot.role(name).is_some_and(|role| role.login && role.connect.contains(&tenant.id)) {
            return State::Other(format!("role \"{name}\", which is made last, is not there"));
        }
    }
    State::Whole
}

/// Loads the demo into an empty store, and makes the roles of [`ROLES`] with these passwords. Writes with the speed of the log;
/// holds a few commits in memory, whatever the size.
///
/// # Errors
/// What a statement or the store says. The store is then [`State::Other`], or [`State::Empty`] still.
pub async fn load(
    shared: &Arc<Shared>,
    size: Size,
    passwords: &[String; ROLES.len()],
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut operator = Session::new(shared.clone(), identify(shared, OPERATOR_ROLE, OPERATOR_DATABASE)?, 0);
    run(&mut operator, SCHEMA).await?;
    for tenant in files::tenants()? {
        run(&mut operator, &format!("CREATE DATABASE \"{tenant}\"")).await?;
    }
    for file in files::FILES {
        let mut loader = Loader::new(shared, table(shared, file.table)?, &file.columns()?)?;
        let rows_total = file.rows()?;
        let mut step = |rows| progress(Progress { table: file.table, rows, rows_total });
        for row in file.read()? {
            let (tenant, values) = row?;
            loader.put(&tenant, &values, &mut step).await?;
        }
        loader.finish(&mut step).await?;
    }
    let mut loader = Loader::new(shared, table(shared, "readings")?, &readings::COLUMNS)?;
    let mut step = |rows| progress(Progress { table: "readings", rows, rows_total: size.readings });
    for number in 0..size.readings {
        let (tenant, values) = readings::reading(size.seed, number);
        loader.put(tenant, &values, &mut step).await?;
    }
    loader.finish(&mut step).await?;
    for (role, password) in ROLES.iter().zip(passwords) {
        run(&mut operator, &format!("CREATE ROLE \"{role}\" LOGIN PASSWORD '{}'", password.replace('\'', "''")))
            .await?;
        run(&mut operator, &format!("GRANT CONNECT ON DATABASE \"{role}\" TO \"{role}\"")).await?;
    }
    Ok(())
}

/// Gives the roles of [`ROLES`] these passwords where they have others.
///
/// # Errors
/// What the statement says.
pub async fn set_passwords(shared: &Arc<Shared>, passwords: &[String; ROLES.len()]) -> Result<()> {
    let snapshot = shared.catalog.snapshot();
    let mut operator = Session::new(shared.clone(), identify(shared, OPERATOR_ROLE, OPERATOR_DATABASE)?, 0);
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
        if let Outcome::Rows { rows, .. } = session.execute(&prepared, Vec::new()).await? {
            let rows = rows.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()));
            rows.try_for_each(|_| std::future::ready(Ok(()))).await?;
        }
    }
    Ok(())
}

fn table(shared: &Shared, name: &str) -> Result<Arc<Table>> {
    let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"));
    shared.catalog.snapshot().table(name).cloned().ok_or_else(missing)
}

/// A tenant of the demo: its ids are fit to be ones.
fn tenant_id(id: &str) -> Result<TenantId> {
    Ok(TenantId::new(id)?)
}
