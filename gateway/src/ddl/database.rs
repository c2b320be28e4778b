//! `CREATE DATABASE`, `ALTER DATABASE` and `DROP DATABASE`: tenants.
//!
//! The catalog drops a tenant, from invisible to certified
//! ([`Catalog::drop_tenant`](keyspan_catalog::Catalog::drop_tenant)). The background task ([`purge`])
//! finishes interrupted drops and purges the tenant's bytes from files.

use super::{quota::Change, rights::named_owner};
use crate::{
    pg::error::{Result, SqlError, SqlState},
    purge,
    query::explain,
    session::Session,
    sql::ast::grant::RoleSpec,
};
use datafusion::execution::SendableRecordBatchStream;
use keyspan_catalog::{
    Contents, Edit, ErrorKind, Exports, Quotas, Snapshot, SpanSize, TableContents, TableId, Tenant, TenantId,
    TenantState, snapshot::FIRST_OID,
};
use std::collections::BTreeMap;

/// The tenant id for a database name.
///
/// # Errors
/// 42602 for an invalid tenant id, 42939 for a reserved name.
pub(super) fn tenant_id(name: &str) -> Result<TenantId> {
    TenantId::new(name).map_err(|error| {
        let invalid = error.kind() == ErrorKind::Invalid;
        let error = SqlError::from(error);
        if invalid { SqlError { state: SqlState::INVALID_NAME, ..error } } else { error }
    })
}

pub(super) async fn create(session: &mut Session, name: &str, owner: Option<&RoleSpec>) -> Result<()> {
    let id = tenant_id(name)?;
    let created_micros = session.instance.clock.now_micros();
    let me = session.identity.role_oid;
    let edit = |snapshot: &Snapshot| {
        let oid = snapshot.next_oid.max(FIRST_OID);
        let owner = Some(named_owner(snapshot, me, owner.unwrap_or(&RoleSpec::Current))?);
        let (state, quotas) = (TenantState::Active, Quotas::default());
        Ok(Edit::CreateTenant(Tenant {
            id: id.clone(),
            oid,
            state,
            created_micros,
            quotas,
            settings: BTreeMap::new(),
            owner,
            comment: None,
        }))
    };
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

/// Sets or resets quotas, given by name; the others stay.
pub(super) async fn alter(session: &mut Session, name: &str, quotas: &[(String, Option<String>)]) -> Result<()> {
    let id = tenant_id(name)?;
    let changes =
        quotas.iter().map(|(quota, value)| Change::new(quota, value.as_deref())).collect::<Result<Vec<_>>>()?;
    let edit = |snapshot: &Snapshot| {
        let mut changed = snapshot.tenant(name).map(|tenant| tenant.quotas).unwrap_or_default();
        // If a name is repeated, the last value applies.
        changes.iter().for_each(|change| change.apply(&mut changed));
        Ok(Edit::SetQuotas(id.clone(), changed))
    };
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

/// Drops a tenant. With `force` its sessions are ended; without it there may be none.
pub(super) async fn drop(session: &mut Session, name: &str, if_exists: bool, force: bool) -> Result<()> {
    let instance = session.instance.clone();
    let id = tenant_id(name)?;
    let oid = match instance.catalog.snapshot().tenant(name) {
        Some(tenant) => Some(tenant.oid),
        None if if_exists => {
            session.skipped(&format!("database \"{name}\" does not exist"));
            return Ok(());
        }
        None => None,
    };
    if let Some(oid) = oid
        && !instance.activities.ended(oid, force).await
    {
        return Err(in_use(name, instance.activities.of_tenant(oid).len()));
    }
    let dropped = instance.catalog.drop_tenant(&id, &session.identity.role, instance.clock.now_micros()).await;
    // Wake it even after an error: the drop may be half done.
    instance.purges.wake();
    if dropped.is_ok() {
        purge::write_certificates(&instance).await;
    }
    dropped?;
    // Those that have logged in meanwhile: they end at their next statement, but an idle one would wait for it.
    if let Some(oid) = oid {
        instance.activities.of_tenant(oid).iter().for_each(|activity| activity.controls.ending.cancel());
    }
    Ok(())
}

/// 55006, as PostgreSQL says it.
fn in_use(name: &str, sessions: usize) -> SqlError {
    let message = format!("database \"{name}\" is being accessed by other users");
    let detail = match sessions {
        1 => "There is 1 other session using the database.".to_owned(),
        count => format!("There are {count} other sessions using the database."),
    };
    SqlError::new(SqlState::OBJECT_IN_USE, message)
        .with_detail(detail)
        .with_hint("DROP DATABASE ... WITH (FORCE) ends them.")
}

/// `EXPLAIN DROP DATABASE`: what the drop would delete, table by table, and what it would leave. Nothing changes. It
/// says what the certificate of the drop will say, by the same count.
///
/// # Errors
/// 42501 outside of the operator's database, 3D000, the store's.
pub async fn explain_drop_database(session: &Session, name: &str) -> Result<SendableRecordBatchStream> {
    if !session.identity.operator {
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for EXPLAIN DROP DATABASE"));
    }
    let catalog = &session.instance.catalog;
    let id = tenant_id(name)?;
    let snapshot = catalog.snapshot();
    let tenant = snapshot.tenant(name).ok_or_else(|| no_database(name))?;
    let contents = catalog.tenant_contents(tenant).await?;
    let mut lines = vec![format!("Drop Database {id} (dry run: nothing is changed)")];
    let held = |oid: TableId| contents.by_table.iter().find(|of| of.oid == oid);
    // Those of which there is nothing too, which the certificate leaves out.
    for table in snapshot.tables_in(Some(&id)) {
        if !table.is_dropped_with_tenant() {
            lines.push(format!("  {}: found on a server, where its rows stay", table.name));
            continue;
        }
        let held = held(table.id);
        if contents.by_table.len() as u64 == contents.tables || held.is_some() {
            let size = held.map_or_else(|| sized(&SpanSize::default()), counted);
            let server = snapshot.server_of(table);
            let server = server.map(|server| format!(", on server {}", server.name)).unwrap_or_default();
            lines.push(format!("  {}: {size}{server}", table.name));
        }
    }
    lines.extend(snapshot.views_in(Some(&id)).map(|view| {
        let rows = held(TableId(view.id)).map(|of| format!(", {}", counted(of))).unwrap_or_default();
        format!("  {}: a {}{rows}", view.name, view.kind())
    }));
    lines.extend(besides_tables(&contents));
    lines.push(format!("Total: {} tables, {}{}", contents.tables, contents.counted.prefix(), sized(&contents.total)));
    lines.extend(contents.left_to_bigtable().map(|left| format!("Left to Bigtable: {left}")));
    explain::lines(&lines)
}

/// What there is beside tables, as far as there is any.
fn besides_tables(contents: &Contents) -> impl Iterator<Item = String> {
    let more = contents.tables - contents.by_table.len() as u64;
    let (temporary, rows, bytes) = (contents.temporary_tables, contents.temporary_rows, contents.temporary_bytes);
    let Exports { files, bytes: exported } = contents.exports;
    let lines = [
        (more > 0, format!("  {more} more tables")),
        (contents.sequences > 0, format!("  {} sequences", contents.sequences)),
        (temporary > 0, format!("  {temporary} temporary tables: {rows} rows, {bytes} bytes")),
        (files > 0, format!("  {files} exported files, {exported} bytes: they are left")),
    ];
    lines.into_iter().filter(|(is_any, _)| *is_any).map(|(_, line)| line)
}

/// The size of a table's rows, and how it is known.
fn counted(of: &TableContents) -> String {
    format!("{}{}", of.counted.prefix(), sized(&of.size))
}

/// Rows, cells and bytes, and history if there is any.
pub(super) fn sized(size: &SpanSize) -> String {
    let SpanSize { rows, cells, bytes, history_rows, history_bytes } = size;
    let now = format!("{rows} rows, {cells} cells, {bytes} bytes");
    match history_rows {
        0 => now,
        versions => format!("{now}; history: {versions} rows, {history_bytes} bytes"),
    }
}

pub(super) fn no_database(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}
