//! One tenant in a backup: `keyspan backup --tenant` writes a store that holds the one tenant, and `keyspan restore
//! --tenant` has a running server copy a tenant out of a backup.
//!
//! A backup of a tenant is a store of its own, filled by the same code as a database that is a copy of another. So it
//! is checked, served and restored as any backup, and no byte of another tenant is in it. It is made beside its place,
//! in a folder `NAME.part`, and gets its name when it is complete and verified.

use super::{
    client::{Server, quoted, told},
    files::StoreLocation,
};
use anyhow::{Context, Result, bail, ensure};
use keyspan_catalog::{
    Catalog, Edit, Tenant,
    catalog::{Copied, TenantSource},
};
use keyspan_gateway::{resources::Size, view_binding::renumbered};
use keyspan_storage::{
    Store, SystemClock,
    engine::{Engine, EngineOptions, ReadOnlyStore, files::StoreFiles},
};
use std::{
    fs,
    io::{ErrorKind, Write, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Bytes of a log file of a backup: its rows are in segments.
const LOG_FILE_BYTES: u64 = 1 << 20;
/// What follows the name of a backup while it is made.
const PART: &str = ".part";

/// Makes a backup of one tenant.
///
/// # Errors
/// If it cannot be made; then no backup is left behind.
pub async fn backup(from: &StoreLocation, tenant: &str, to: &Path) -> Result<()> {
    let (store, shown) = (from.store.display(), to.display());
    let context = || format!("cannot back up database {tenant} of {store} to {shown}");
    let source = source(from, tenant).await.with_context(context)?;
    let part = part_of(to).with_context(context)?;
    let made = match write(source, tenant, &part).await {
        Ok(copied) => fs::rename(&part, to).context("cannot give it its name").map(|()| copied),
        failed => failed,
    };
    let Copied { rows, bytes } = match made {
        Ok(copied) => copied,
        Err(error) => {
            // The error that is told is the first one.
            let _ = fs::remove_dir_all(&part);
            return Err(error).with_context(context);
        }
    };
    sync_above(to).with_context(context)?;
    writeln!(stdout(), "backed up database {tenant} to {shown}: {rows} rows of {}", Size(bytes))
        .context("cannot write to standard output")
}

/// The tenant in the store, which may be in use.
async fn source(from: &StoreLocation, tenant: &str) -> Result<TenantSource> {
    let (path, segments) = (from.store.clone(), from.segments.clone());
    let opened = tokio::task::spawn_blocking(move || ReadOnlyStore::open(path, segments, Box::new(SystemClock)));
    let store: Arc<dyn Store> = opened.await??;
    TenantSource::open(store, tenant, None).await?.with_context(|| format!("database \"{tenant}\" does not exist"))
}

/// The folder in which the backup is made. The folder of the backup itself must be empty, or not there.
fn part_of(to: &Path) -> Result<PathBuf> {
    match fs::read_dir(to) {
        Ok(mut entries) => ensure!(entries.next().is_none(), "the folder {} is not empty", to.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read the folder {}", to.display())),
    }
    let absolute = std::path::absolute(to)?;
    let mut name = absolute.file_name().with_context(|| format!("{} names no folder", to.display()))?.to_owned();
    name.push(PART);
    let part = absolute.with_file_name(name);
    if part.symlink_metadata().is_ok() {
        bail!("{} is there, perhaps of a backup that was stopped: remove it first", part.display());
    }
    Ok(part)
}

/// Fills a new store with the tenant, and verifies it.
async fn write(source: TenantSource, tenant: &str, part: &Path) -> Result<Copied> {
    let options = EngineOptions { log_file_bytes: LOG_FILE_BYTES, ..EngineOptions::new(part) };
    let engine = Engine::open(options).await?;
    let filled = fill(&engine, source, tenant).await;
    let closed = engine.close().await;
    let copied = filled?;
    closed?;
    // The log and the segments are verified as they are on the disk.
    drop(engine);
    let files = StoreFiles::new(part, None);
    let mut first = None;
    let mut watch = |step: keyspan_storage::engine::files::Step<'_>| {
        if let keyspan_storage::engine::files::Step::Found(error) = step {
            first.get_or_insert_with(|| error.to_string());
        }
    };
    files.check(&mut watch)?;
    match first {
        None => Ok(copied),
        Some(damage) => bail!("the backup is damaged: {damage}"),
    }
}

async fn fill(engine: &Arc<Engine>, source: TenantSource, tenant: &str) -> Result<Copied> {
    let catalog = Catalog::open(engine.clone()).await?;
    // By OID, which rises from edit to edit.
    // Rows on servers are no part of a backup.
    for table in source.snapshot().tables.values().filter(|table| table.remote.is_none()) {
        catalog.commit(|_| Ok(Edit::CreateTable(table.as_ref().clone()))).await?;
    }
    let source_tenant = source.tenant().cloned().with_context(|| format!("database \"{tenant}\" does not exist"))?;
    let copy = catalog.begin_copy(source, &source_tenant.id, |oid| tenant_of(&source_tenant, oid)).await?;
    let copied = copy.fill(renumbered).await?;
    copy.finish().await?;
    engine.flush().await?;
    Ok(copied)
}

/// The tenant in its backup. Rights and owners are roles', of which a backup of a tenant has none.
fn tenant_of(source: &Tenant, oid: u32) -> Tenant {
    Tenant {
        id: source.id.clone(),
        oid,
        state: source.state,
        created_micros: source.created_micros,
        quotas: source.quotas,
        settings: source.settings.clone(),
        owner: None,
        comment: source.comment.clone(),
    }
}

fn sync_above(path: &Path) -> Result<()> {
    let absolute = std::path::absolute(path)?;
    let above = absolute.parent().unwrap_or(Path::new("/"));
    fs::File::open(above)
        .and_then(|folder| folder.sync_all())
        .with_context(|| format!("cannot sync {}", above.display()))
}

/// Has a server copy a tenant out of a backup.
///
/// # Errors
/// If the server cannot be reached, or refuses.
pub async fn restore(from: &Path, store: &Path, request: &Request<'_>) -> Result<()> {
    let Request { tenant, name, server, user } = *request;
    let context = || format!("cannot restore database {tenant} of {} as {name}", from.display());
    let folder = fs::canonicalize(from).with_context(context)?;
    let folder = folder.to_str().context("the path of the backup is not UTF-8").with_context(context)?;
    let asked = Server { address: server, user, database: "keyspan", store };
    let client = asked.connect("keyspan restore").await.with_context(context)?;
    let sql = statement(folder, tenant, name);
    match client.batch_execute(&sql).await {
        Ok(()) => {}
        Err(error) => return Err(told(&error)).with_context(context),
    }
    writeln!(stdout(), "restored database {tenant} of {} as {name}", from.display())
        .context("cannot write to standard output")
}

/// What a server is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The tenant in the backup.
    pub tenant: &'a str,
    /// Its new name.
    pub name: &'a str,
    /// The server's address and port.
    pub server: &'a str,
    /// The operator's role.
    pub user: &'a str,
}

fn statement(folder: &str, tenant: &str, name: &str) -> String {
    let folder = folder.replace('\'', "''");
    format!("CREATE DATABASE {} FROM BACKUP '{folder}' TENANT {}", quoted(name), quoted(tenant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_quoted() {
        let sql = statement("/back'up", "a\"b", "c");
        assert_eq!(sql, "CREATE DATABASE \"c\" FROM BACKUP '/back''up' TENANT \"a\"\"b\"");
    }
}
