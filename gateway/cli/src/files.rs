//! `keyspan check`, `backup` and `restore`: a store as files, without serving it.
//!
//! Results go to standard output, progress to standard error. The exit code is 1 if a check finds damage, or anything
//! fails.

mod progress;

use super::tenant_files;
use anyhow::{Context, Result, bail};
use clap::Args;
use keyspan_gateway::resources::Size;
use keyspan_storage::{
    Error,
    engine::files::{Checked, Copied, Step, StoreFiles},
};
use progress::Progress;
use std::{
    io::{Write, stdout},
    path::PathBuf,
};
use url::Url;

/// Where a store is.
#[derive(Clone, Debug, Args)]
pub struct StoreLocation {
    /// The store's folder.
    #[arg(long, value_name = "DIR", default_value = "./keyspan-data")]
    pub store: PathBuf,

    /// Where the store's segments are, as it is served with: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR [default:
    /// in the store's folder]
    #[arg(long, value_name = "URL", env = "KEYSPAN_SEGMENTS")]
    pub segments: Option<Url>,
}

/// What `keyspan backup` takes.
#[derive(Clone, Debug, Args)]
pub struct BackupOptions {
    #[command(flatten)]
    from: StoreLocation,

    /// The folder for the backup; made if it is not there, and empty.
    #[arg(value_name = "BACKUP")]
    to: PathBuf,

    /// Back up this tenant only: the backup is a store with its rows, its own tables, views and sequences, and the
    /// definitions of shared tables.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

/// What `keyspan restore` takes.
#[derive(Clone, Debug, Args)]
pub struct RestoreOptions {
    /// The folder with the backup.
    #[arg(value_name = "BACKUP")]
    from: PathBuf,

    #[command(flatten)]
    to: StoreLocation,

    /// Copy this tenant of the backup into a running server, beside the tenants that it has.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,

    /// The name that the tenant gets there [default: the one that it has]
    #[arg(long = "as", value_name = "NAME", requires = "tenant")]
    name: Option<String>,

    /// The server. It reads the backup itself: the backup's folder is on its machine.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5433", requires = "tenant")]
    server: String,

    /// The operator's role at the server. Its password is that of KEYSPAN_PASSWORD, or of the file operator-password in
    /// the folder of --store.
    #[arg(long, value_name = "ROLE", default_value = "keyspan", requires = "tenant")]
    user: String,
}

/// After the help of `keyspan check`.
pub const CHECK_HELP: &str = "\
Every frame of the log, the manifest, the dead positions and every segment are read and held against their checksums, and the rows
of segments are decoded. What is wrong is named by file and byte, one line each, and the check goes on behind it. The exit code is
1 when something is wrong. Nothing is repaired: bring a backup back. A frame at the very end of the log that was not written whole
is no damage: no client was done that it was.

The store must not be in use.

Examples:
  keyspan check --store /srv/keyspan
  keyspan check --store /srv/keyspan --segments s3://bucket/prefix";

/// After the help of `keyspan backup`.
pub const BACKUP_HELP: &str = "\
The store may be served meanwhile, and need not be. The backup is the store as it was at one moment while the command ran: it has
all that was acknowledged before. Every segment is read back and verified, so that a damage is not backed up but told. Segments of an
object store come along: the backup stands by itself, and can be served as it is.

Of a tenant that is dropped later the backup keeps the rows: it is up to you to remove it when they have to be gone. The file
operator-password is not copied; the password itself stays what it was.

With --tenant the backup is a store with one tenant, which no byte of another is in, and no roles: an operator is made when it is
first served. It has every version of each cell, but not the history of tables. It can be checked, served and restored as others.

Examples:
  keyspan backup --store /srv/keyspan /backup/2026-11-21
  keyspan backup --store /srv/keyspan /backup/alto --tenant alto
  keyspan backup --segments s3://bucket/prefix /backup/2026-11-21";

/// After the help of `keyspan restore`.
pub const RESTORE_HELP: &str = "\
The store's folder must be empty or not there, and so must be the place of its segments. Every segment is read back and verified. When
it fails, or is stopped, what it has left behind is no store, and no server starts on it: remove it and begin anew.

With --tenant a running server copies one tenant out of the backup, of all tenants or of one, while it goes on to serve the others:
the command connects as an operator, without TLS, and says CREATE DATABASE name FROM BACKUP 'folder' TENANT name. Its rows are there
all at once at the end, or not at all. To restore into a server that is stopped, start it first.

Examples:
  keyspan restore /backup/2026-11-21 --store /srv/keyspan
  keyspan restore /backup/2026-11-21 --tenant alto --as alto-old --server 127.0.0.1:5433
  keyspan restore /backup/2026-11-21 --store /srv/keyspan --segments s3://bucket/new-prefix";

impl StoreLocation {
    fn files(&self) -> StoreFiles {
        StoreFiles::new(&self.store, self.segments.clone())
    }
}

/// Checks a store.
///
/// # Errors
/// If it is damaged, or cannot be read.
pub async fn check(location: StoreLocation) -> Result<()> {
    let store = location.store.display().to_string();
    let checked = blocking(move || {
        let mut progress = Progress::new();
        let checked = location.files().check(&mut |step| match step {
            // A closed standard output is no reason to stop.
            Step::Found(error) => progress.hidden(|| _ = writeln!(stdout(), "{}", with_causes(error))),
            step => progress.step(&step),
        });
        progress.finish();
        checked
    });
    let checked = checked.await.with_context(|| format!("cannot check the store {store}"))?;
    writeln!(stdout(), "{}", summary(&checked)).context("cannot write to standard output")?;
    match checked.found {
        0 => Ok(()),
        1 => bail!("the store {store} has one damage"),
        found => bail!("the store {store} has {found} damages"),
    }
}

/// Makes a backup.
///
/// # Errors
/// If it cannot be made; then no backup is left behind.
pub async fn backup(options: BackupOptions) -> Result<()> {
    if let Some(tenant) = &options.tenant {
        return Box::pin(tenant_files::backup(&options.from, tenant, &options.to)).await;
    }
    let (from, to) = (options.from.files(), StoreFiles::new(options.to, None));
    let context = format!("cannot back up {} to {}", from.path.display(), to.path.display());
    let done = format!("backed up to {}", to.path.display());
    copy(from, to, &done).await.context(context)
}

/// Restores a backup.
///
/// # Errors
/// If it cannot be restored; then what is left behind is no store.
pub async fn restore(options: RestoreOptions) -> Result<()> {
    if let Some(tenant) = &options.tenant {
        let name = options.name.as_ref().unwrap_or(tenant);
        let request = tenant_files::Request { tenant, name, server: &options.server, user: &options.user };
        return Box::pin(tenant_files::restore(&options.from, &options.to.store, &request)).await;
    }
    let (from, to) = (StoreFiles::new(options.from, None), options.to.files());
    let context = format!("cannot restore {} to {}", from.path.display(), to.path.display());
    let done = format!("restored to {}", to.path.display());
    copy(from, to, &done).await.context(context)
}

async fn copy(from: StoreFiles, to: StoreFiles, done: &str) -> Result<()> {
    let copied = blocking(move || {
        let mut progress = Progress::new();
        let copied = from.copy_to(&to, &mut |step| progress.step(&step));
        progress.finish();
        copied
    });
    let Copied { segments, segment_bytes, frames, log_bytes } = copied.await?;
    let (segment_bytes, log_bytes) = (Size(segment_bytes), Size(log_bytes));
    let text = format!("{done}: {segments} segments of {segment_bytes}, {frames} frames of the log of {log_bytes}");
    writeln!(stdout(), "{text}").context("cannot write to standard output")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> keyspan_storage::Result<T> + Send + 'static) -> Result<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

fn summary(checked: &Checked) -> String {
    let Checked { files, bytes, segment_rows, frames, unnamed, found } = *checked;
    let bytes = Size(bytes);
    let mut text = format!("{files} files of {bytes}: {segment_rows} rows in segments, {frames} frames of the log");
    if unnamed > 0 {
        text.push_str(&format!("; {unnamed} files are left over, the next start removes them"));
    }
    text.push_str(if found == 0 { "; no damage" } else { "; damaged" });
    text
}

/// An error with its causes.
fn with_causes(error: &Error) -> String {
    let causes: Vec<String> = anyhow::Chain::new(error).map(ToString::to_string).collect();
    causes.join(": ")
}
