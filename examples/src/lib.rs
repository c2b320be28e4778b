//! What the examples share: a gateway to talk to, and statements that are shown when they run.

use anyhow::{Context, Result};
use keyspan_catalog::Catalog;
use keyspan_gateway::{
    auth::operator,
    instance::Instance,
    server::{Server, ServerOptions},
};
use keyspan_storage::engine::{Engine, EngineOptions};
use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, config::Host, error::SqlState};

/// The operator's role and database.
const OPERATOR: &str = "keyspan";
/// The operator's password of an embedded gateway, which lives as long as the program.
const PASSWORD: &str = "only for this example";

/// A gateway to talk to: the one that `KEYSPAN_URL` names, or one embedded in this program, on a temporary store.
pub struct Gateway {
    operator: Config,
    embedded: Option<Embedded>,
}

struct Embedded {
    server: Server,
    folder: TempDir,
}

impl Gateway {
    /// Finds or starts the gateway.
    ///
    /// # Errors
    /// A `KEYSPAN_URL` that cannot be read, or what the start says.
    pub async fn start() -> Result<Self> {
        if let Ok(url) = env::var("KEYSPAN_URL") {
            return Ok(Self { operator: url.parse().context("KEYSPAN_URL")?, embedded: None });
        }
        let folder = tempfile::tempdir()?;
        let server = embedded(folder.path(), PASSWORD).await?;
        let address = server.address();
        println!("-- a gateway of our own listens on {address}");
        let mut operator = Config::new();
        operator.host(address.ip().to_string()).port(address.port());
        operator.user(OPERATOR).password(PASSWORD).dbname(OPERATOR);
        Ok(Self { operator, embedded: Some(Embedded { server, folder }) })
    }

    /// Connects as the operator.
    ///
    /// # Errors
    /// What the connection says.
    pub async fn operator(&self) -> Result<Client> {
        connect(&self.operator).await
    }

    /// Connects a role to a database.
    ///
    /// # Errors
    /// What the connection says.
    pub async fn connect(&self, role: &str, password: &str, database: &str) -> Result<Client> {
        connect(self.operator.clone().user(role).password(password).dbname(database)).await
    }

    /// The folder below which the gateway may write files: `KEYSPAN_COPY_FOLDER` for one that was there already.
    ///
    /// # Errors
    /// When that is not set.
    pub fn copy_folder(&self) -> Result<PathBuf> {
        match &self.embedded {
            Some(embedded) => Ok(copy_folder_of(embedded.folder.path())),
            None => {
                Ok(env::var("KEYSPAN_COPY_FOLDER").context("KEYSPAN_COPY_FOLDER names the server's folder")?.into())
            }
        }
    }

    /// Stops the gateway, if it is ours.
    ///
    /// # Errors
    /// What the stop says.
    pub async fn stop(self) -> Result<()> {
        if let Some(Embedded { server, folder }) = self.embedded {
            server.shutdown().await?;
            folder.close()?;
        }
        Ok(())
    }
}

/// Starts a gateway on a store in `folder`: what `keyspan serve` does, in a program of one's own.
///
/// # Errors
/// What the store, the catalog or the socket says.
pub async fn embedded(folder: &Path, operator_password: &str) -> Result<Server> {
    // The store: its files are in the folder, and every acknowledged write is on the disk.
    let store = Engine::open(EngineOptions::new(folder.join("store"))).await?;
    // The catalog lives in the store.
    let catalog = Arc::new(Catalog::open(store).await?);
    operator::ensure(&catalog, operator_password).await?;
    // What all sessions share, among it the folder below which COPY may write.
    let copy_folder = copy_folder_of(folder);
    std::fs::create_dir_all(&copy_folder)?;
    let instance = Arc::new(Instance { copy_folder: Some(copy_folder), ..Instance::new(catalog) });
    Ok(Server::start(ServerOptions::new(instance)).await?)
}

fn copy_folder_of(folder: &Path) -> PathBuf {
    folder.join("export")
}

async fn connect(config: &Config) -> Result<Client> {
    let who = || format!("cannot connect as {} to {}", config.get_user().unwrap_or("?"), address_of(config));
    let (client, connection) = config.connect(NoTls).await.with_context(who)?;
    tokio::spawn(async move {
        // A gateway that stops says so to connections that are just being closed.
        let ended = connection.await;
        if let Err(error) = ended.as_ref()
            && error.code() != Some(&SqlState::ADMIN_SHUTDOWN)
        {
            eprintln!("-- the connection broke: {error}");
        }
    });
    Ok(client)
}

fn address_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        _ => "?".to_owned(),
    };
    format!("{host}:{}", config.get_ports().first().unwrap_or(&5433))
}

/// Shows a statement and runs it.
///
/// # Errors
/// What the server says.
pub async fn run(client: &Client, sql: &str) -> Result<()> {
    println!("{};", unindented(sql));
    client.batch_execute(sql).await.with_context(|| format!("this failed: {sql}"))
}

/// Shows a query and its rows.
///
/// # Errors
/// What the server says.
pub async fn show(client: &Client, sql: &str) -> Result<()> {
    println!("{};", unindented(sql));
    for message in client.simple_query(sql).await.with_context(|| format!("this failed: {sql}"))? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                println!("--   {}", columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(" | "));
            }
            SimpleQueryMessage::Row(row) => {
                let values: Vec<_> = (0..row.len()).map(|column| row.get(column).unwrap_or("NULL")).collect();
                println!("--   {}", values.join(" | "));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A statement without the indentation that its further lines have in common, which is that of the program around it.
fn unindented(sql: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let common = sql.lines().skip(1).map(indent).min().unwrap_or_default();
    sql.lines().map(|line| line.get(common.min(indent(line))..).unwrap_or(line)).collect::<Vec<_>>().join("\n")
}
