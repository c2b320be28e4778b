//! `CREATE DATABASE … TEMPLATE …` and `CREATE DATABASE … FROM BACKUP …`: a tenant with the relations and rows of
//! another, as they were at one moment.
//!
//! The catalog copies ([`TenantCopy`]); the source goes on meanwhile. What a
//! cancelled statement leaves, the background task ([`purge`](crate::purge)) drops.

use super::{
    database::{no_database, tenant_id},
    rights::named_owner,
};
use crate::{
    instance::Instance,
    pg::{
        datetime::{Input, values},
        error::{Result, SqlError, SqlState},
    },
    session::Session,
    shield::shielded,
    sql::ast::{definition::DatabaseSource, grant::RoleSpec},
    view_binding::renumbered,
};
use keyspan_catalog::{
    SqlType, Tenant, TenantId, TenantState, Value,
    catalog::{Copied, TenantCopy, TenantSource},
};
use keyspan_storage::{Clock, engine::ReadOnlyStore};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// Wakes the background task when dropped.
struct WakeOnDrop(Arc<Instance>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.purges.wake();
    }
}

/// The server's clock, for a store that is opened beside it.
#[derive(Debug)]
struct ServerClock(Arc<dyn Clock>);

impl Clock for ServerClock {
    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }
}

pub(super) async fn create(
    session: &mut Session,
    name: &str,
    owner: Option<&RoleSpec>,
    source: &DatabaseSource,
) -> Result<()> {
    let instance = session.instance.clone();
    let id = tenant_id(name)?;
    if instance.catalog.snapshot().tenant(name).is_some() {
        // Before a backup is opened.
        let message = format!("database \"{name}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_DATABASE, message));
    }
    let source = match source {
        DatabaseSource::Template { name, as_of } => template(&instance, name, as_of.as_deref()).await?,
        DatabaseSource::Backup { path, tenant } => backup(&instance, path, tenant).await?,
    };
    let source_tenant = source.tenant().cloned().ok_or_else(|| no_database(name))?;
    // Dropped after the copy.
    let _wake = WakeOnDrop(instance.clone());
    let created_micros = instance.clock.now_micros();
    let me = session.identity.role_oid;
    let owner = named_owner(&instance.catalog.snapshot(), me, owner.unwrap_or(&RoleSpec::Current))?;
    let make = |oid| copied_tenant(&source_tenant, &id, (oid, owner), created_micros);
    let copy = shielded(instance.catalog.begin_copy(source, &id, make)).await?;
    let Copied { rows, bytes } = match copy.fill(renumbered).await {
        Ok(copied) => copied,
        Err(error) => {
            abandon(session, copy).await;
            return Err(error.into());
        }
    };
    shielded(copy.finish()).await?;
    tracing::info!(%id, rows, bytes, "a database was created as a copy");
    Ok(())
}

/// The new tenant: its quotas are those of the other; settings, the comment and who may connect are not copied, as in
/// PostgreSQL.
fn copied_tenant(source: &Tenant, id: &TenantId, (oid, owner): (u32, u32), created_micros: i64) -> Tenant {
    let (state, quotas, settings) = (TenantState::Creating, source.quotas, BTreeMap::new());
    Tenant { id: id.clone(), oid, state, created_micros, quotas, settings, owner: Some(owner), comment: None }
}

async fn template(instance: &Instance, name: &str, as_of: Option<&str>) -> Result<TenantSource> {
    let as_of = as_of.map(|text| timestamp(text, instance.clock.now_micros())).transpose()?;
    let source = TenantSource::open(instance.catalog.store().clone(), name, as_of).await?;
    source.ok_or_else(|| {
        let message = format!("template database \"{name}\" does not exist");
        SqlError::new(SqlState::INVALID_CATALOG_NAME, message)
    })
}

/// The microseconds of a timestamp in the past. A text without a zone is in UTC.
fn timestamp(text: &str, now_micros: i64) -> Result<i64> {
    match values::read(text, SqlType::Timestamptz(None), Input::initial())? {
        Value::Timestamp(micros) if micros <= now_micros => Ok(micros),
        _ => {
            let message = "the timestamp in AS OF is in the future";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

async fn backup(instance: &Instance, path: &str, tenant: &str) -> Result<TenantSource> {
    if !Path::new(path).is_absolute() {
        let message = format!("the path of a backup is absolute: \"{path}\" is not");
        return Err(
            SqlError::new(SqlState::INVALID_NAME, message).with_hint("It names a folder on the server's machine.")
        );
    }
    let (folder, clock) = (path.to_owned(), Box::new(ServerClock(instance.clock.clone())));
    let opened = tokio::task::spawn_blocking(move || ReadOnlyStore::open(folder, None, clock));
    let store = opened.await.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))??;
    let source = TenantSource::open(store, tenant, None).await?;
    source.ok_or_else(|| {
        let message = format!("database \"{tenant}\" does not exist");
        SqlError::new(SqlState::INVALID_CATALOG_NAME, message).with_detail("The backup has no database of this name.")
    })
}

/// Drops what was copied. The background task tries again if that fails.
async fn abandon(session: &Session, copy: TenantCopy<'_>) {
    let now_micros = session.instance.clock.now_micros();
    if let Err(error) = shielded(copy.abandon(&session.identity.role, now_micros)).await {
        tracing::warn!(%error, "a database whose creation failed could not be dropped yet");
    }
}
