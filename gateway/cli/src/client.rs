//! A connection to a running server, for commands that have it do something: `keyspan restore --tenant`, `keyspan
//! proto`, `keyspan advise`.

use super::password::{FILE, VARIABLE};
use anyhow::{Context, Result};
use clap::Args;
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};
use tokio_postgres::{Client, Config, NoTls};

/// A server, and who asks it.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// Its address and port.
    pub address: &'a str,
    /// The role.
    pub user: &'a str,
    /// The database.
    pub database: &'a str,
    /// The folder with the file of the operator's password, if the environment has none.
    pub store: &'a Path,
}

/// Which server a command asks, and as whom.
#[derive(Clone, Debug, Args)]
pub struct ServerOptions {
    /// The server.
    #[arg(long = "server", value_name = "ADDR:PORT", default_value = "127.0.0.1:5433")]
    pub address: String,

    /// The role. Its password is that of KEYSPAN_PASSWORD, or of the file operator-password in the folder of --store.
    #[arg(long, value_name = "ROLE", default_value = "keyspan")]
    pub user: String,

    /// The database.
    #[arg(long, value_name = "NAME", default_value = "keyspan")]
    pub database: String,

    /// The store's folder, for the operator's password.
    #[arg(long, value_name = "DIR", default_value = "./keyspan-data")]
    pub store: PathBuf,
}

impl ServerOptions {
    /// Connects, without TLS.
    ///
    /// # Errors
    /// Those of [`Server::connect`].
    pub async fn connect(&self, application: &str) -> Result<Client> {
        let Self { address, user, database, store } = self;
        Server { address, user, database, store }.connect(application).await
    }
}

impl Server<'_> {
    /// Connects, without TLS.
    ///
    /// # Errors
    /// If the address is none, or the server cannot be reached or refuses.
    pub async fn connect(&self, application: &str) -> Result<Client> {
        let address = self.address;
        let (host, port) = address.rsplit_once(':').with_context(|| format!("--server {address} is no ADDR:PORT"))?;
        let port = port.parse().with_context(|| format!("--server {address} is no ADDR:PORT"))?;
        let mut config = Config::new();
        config.host(host.trim_matches(['[', ']'])).port(port).user(self.user).dbname(self.database);
        config.application_name(application);
        if let Some(password) = password(self.store)? {
            config.password(password);
        }
        let connected = config.connect(NoTls).await.map_err(|error| match error.as_db_error() {
            Some(_) => told(&error),
            None => error.into(),
        });
        let (client, connection) = connected.with_context(|| format!("cannot connect to {address}"))?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// A name in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The password: of the environment, or the operator's of the file in the store's folder.
fn password(store: &Path) -> Result<Option<String>> {
    if let Some(password) = std::env::var(VARIABLE).ok().filter(|password| !password.is_empty()) {
        return Ok(Some(password));
    }
    let file = store.join(FILE);
    match fs::read_to_string(&file) {
        Ok(text) => Ok(Some(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// The server's error with its detail and hint.
pub fn told(error: &tokio_postgres::Error) -> anyhow::Error {
    let Some(found) = error.as_db_error() else { return anyhow::anyhow!("{error}") };
    let more = [found.detail(), found.hint()].into_iter().flatten();
    let text = more.fold(found.message().to_owned(), |text, more| format!("{text}: {more}"));
    anyhow::anyhow!("{text}")
}
