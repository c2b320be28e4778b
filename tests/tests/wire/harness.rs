//! A server over a fresh store, with tenants and roles made by SQL.

pub mod disk;
pub mod s3;

use anyhow::{Context, Result};
use bytes::{Buf, BufMut, BytesMut};
use keyspan_catalog::Catalog;
use keyspan_gateway::{
    auth::operator,
    instance::Instance,
    server::{Server, ServerOptions},
};
use keyspan_storage::{
    Store, SystemClock,
    engine::{Engine, EngineOptions},
    memory::MemoryStore,
};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// The operator's password.
pub const OPERATOR_PASSWORD: &str = "operator's password";
/// The password of every role that [`Harness::tenant`] makes.
pub const PASSWORD: &str = "pass word";

/// A server, and the store in a folder of its own.
pub struct Harness {
    server: Option<Server>,
    folder: TempDir,
    instance: Arc<Instance>,
    address: SocketAddr,
    engine: Option<Arc<Engine>>,
}

impl Harness {
    /// A server over an embedded store.
    pub async fn start() -> Result<Self> {
        Self::start_with(|_| {}).await
    }

    /// The same, with options of one's own.
    pub async fn start_with(change: impl FnOnce(&mut ServerOptions)) -> Result<Self> {
        Self::open_engine(tempfile::tempdir()?, |_| {}, change).await
    }

    /// A server over an embedded store with options of one's own.
    pub async fn start_engine(change: impl FnOnce(&mut EngineOptions)) -> Result<Self> {
        Self::open_engine(tempfile::tempdir()?, change, |_| {}).await
    }

    /// A server over the embedded store that is in `store` of a folder.
    pub async fn over(folder: TempDir) -> Result<Self> {
        Self::open_engine(folder, |_| {}, |_| {}).await
    }

    /// The same, with options of the server as well.
    pub async fn start_on(
        change_engine: impl FnOnce(&mut EngineOptions),
        change: impl FnOnce(&mut ServerOptions),
    ) -> Result<Self> {
        Self::open_engine(tempfile::tempdir()?, change_engine, change).await
    }

    /// A server over the memory store, which has neither files nor segments.
    pub async fn in_memory() -> Result<Self> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(SystemClock)));
        Self::open_store(tempfile::tempdir()?, store, |_| {}).await
    }

    async fn open_engine(
        folder: TempDir,
        change_engine: impl FnOnce(&mut EngineOptions),
        change: impl FnOnce(&mut ServerOptions),
    ) -> Result<Self> {
        let mut options = EngineOptions::new(folder.path().join("store"));
        change_engine(&mut options);
        let engine = Engine::open(options).await?;
        let harness = Self::open_store(folder, engine.clone(), change).await?;
        Ok(Self { engine: Some(engine), ..harness })
    }

    async fn open_store(
        folder: TempDir,
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Result<Self> {
        let catalog = Arc::new(Catalog::open(store).await?);
        operator::ensure(&catalog, OPERATOR_PASSWORD).await?;
        let copy_folder = folder.path().join("exports");
        std::fs::create_dir_all(&copy_folder)?;
        let instance = Arc::new(Instance { copy_folder: Some(copy_folder), ..Instance::new(catalog) });
        let mut options = ServerOptions::new(instance.clone());
        change(&mut options);
        let server = Server::start(options).await?;
        let address = server.address();
        Ok(Self { server: Some(server), folder, instance, address, engine: None })
    }

    /// Stops the server and starts another over the same embedded store.
    pub async fn restart(self) -> Result<Self> {
        self.restart_engine(|_| {}).await
    }

    /// The same, with options of the store; the server may have stopped before.
    pub async fn restart_engine(mut self, change: impl FnOnce(&mut EngineOptions)) -> Result<Self> {
        if self.server.is_some() {
            self.stop().await?;
        }
        let Self { folder, .. } = self;
        Self::open_engine(folder, change, |_| {}).await
    }

    /// The embedded store, whose flushes and compactions have no statement.
    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the harness has an embedded store")
    }

    /// The embedded store's folder.
    pub fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Stops the server as SIGTERM does.
    pub async fn stop(&mut self) -> Result<()> {
        let server = self.server.take().context("the server has stopped before")?;
        Ok(server.shutdown().await?)
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the server tells metrics.
    pub fn http(&self) -> Option<SocketAddr> {
        self.server.as_ref()?.http_address()
    }

    /// The folder that operators may copy into.
    #[allow(dead_code, reason = "for tests of other parts")]
    pub fn copy_folder(&self) -> &Path {
        self.instance.copy_folder.as_deref().expect("the harness sets one")
    }

    /// The folder of a tenant's files of `COPY`, if there is one for this name.
    pub fn copy_folder_of(&self, tenant: &str) -> Result<PathBuf> {
        let folders =
            std::fs::read_dir(self.copy_folder())?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        let is_of = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.strip_prefix(tenant)
                .and_then(|rest| rest.strip_prefix('-'))
                .is_some_and(|oid| oid.parse::<u32>().is_ok())
        };
        folders.into_iter().find(is_of).context("no folder of the tenant")
    }

    /// The catalog, the clock and what else the sessions share.
    #[allow(dead_code, reason = "for tests of other parts")]
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// How to connect as a role to a database.
    pub fn config(&self, role: &str, password: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host(self.address.ip().to_string()).port(self.address.port());
        config.user(role).password(password).dbname(database);
        config
    }

    /// A client as the operator.
    pub async fn operator(&self) -> Result<Client> {
        connect(&self.config(operator::OPERATOR_ROLE, OPERATOR_PASSWORD, "keyspan")).await
    }

    /// A client as a role in a database.
    pub async fn connect(&self, role: &str, database: &str) -> Result<Client> {
        connect(&self.config(role, PASSWORD, database)).await
    }

    /// Makes a role and a tenant of the same name, whose database it owns; gives a client of that role.
    pub async fn tenant(&self, id: &str) -> Result<Client> {
        let operator = self.operator().await?;
        operator.batch_execute(&format!("CREATE ROLE \"{id}\" LOGIN PASSWORD '{PASSWORD}'")).await?;
        operator.batch_execute(&format!("CREATE DATABASE \"{id}\" OWNER \"{id}\"")).await?;
        self.connect(id, id).await
    }
}

/// Connects, and serves the connection in the background.
pub async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A ParameterStatus message as `name=value`.
pub fn setting(body: &[u8]) -> String {
    String::from_utf8_lossy(body).trim_end_matches('\0').replace('\0', "=")
}

/// The rows of a query by the simple protocol: a line for each, values apart by `|`, NULL as nothing.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<String>> {
    let messages = client.simple_query(sql).await?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<_> = (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect();
            Some(values.join("|"))
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

/// SQLSTATE and primary message of the error that a statement has to end with.
pub async fn error(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => format!("no error from {sql}"),
        Err(error) => told(&error),
    }
}

/// SQLSTATE and primary message of an error, or what else went wrong.
pub fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => format!("{} {}", told.code().code(), told.message()),
        None => format!("not from the server: {error:?}"),
    }
}

/// A client that writes and reads messages byte by byte, for what no driver does.
pub struct Raw {
    stream: TcpStream,
    input: BytesMut,
}

impl Raw {
    /// Connects without a word.
    pub async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self { stream: TcpStream::connect(address).await?, input: BytesMut::new() })
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Says that nothing more comes.
    pub async fn end(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    /// Sends a message of a type.
    pub async fn message(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let mut message = BytesMut::new();
        message.put_u8(kind);
        message.put_u32(body.len() as u32 + 4);
        message.put_slice(body);
        self.send(&message).await
    }

    /// Sends a startup packet of a version with its body.
    pub async fn startup(&mut self, version: u32, body: &[u8]) -> Result<()> {
        let mut packet = BytesMut::new();
        packet.put_u32(body.len() as u32 + 8);
        packet.put_u32(version);
        packet.put_slice(body);
        self.send(&packet).await
    }

    /// The next byte, which is no part of a message: the answer to a request for TLS.
    pub async fn byte(&mut self) -> Result<u8> {
        if self.input.is_empty() {
            self.stream.read_buf(&mut self.input).await?;
        }
        self.input.try_get_u8().context("the server has closed the connection")
    }

    /// The next message; `None` when the server has closed the connection.
    pub async fn next(&mut self) -> Result<Option<(u8, BytesMut)>> {
        loop {
            if self.input.len() >= 5 {
                let length = (&self.input[1..5]).get_u32() as usize;
                if self.input.len() > length {
                    let mut message = self.input.split_to(length + 1);
                    let kind = message.get_u8();
                    message.advance(4);
                    return Ok(Some((kind, message)));
                }
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The types of the messages up to and with ReadyForQuery, or up to the end of the connection; an error as its
    /// SQLSTATE.
    pub async fn replies(&mut self) -> Result<String> {
        let mut replies = String::new();
        while let Some((kind, body)) = self.next().await? {
            match kind {
                b'E' => {
                    let code = body[..].split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"));
                    replies.push_str(&format!("[{}]", String::from_utf8_lossy(code.unwrap_or_default())));
                }
                b'Z' => {
                    replies.push('Z');
                    return Ok(replies);
                }
                kind => replies.push(char::from(kind)),
            }
        }
        replies.push('.');
        Ok(replies)
    }

    /// Logs in; the secret of the connection is given.
    pub async fn log_in(address: SocketAddr, role: &str, password: &str, database: &str) -> Result<(Self, BytesMut)> {
        let parameters = format!("user\0{role}\0database\0{database}\0\0");
        let (raw, key, _) = Self::begin(address, &parameters, password).await?;
        Ok((raw, key))
    }

    /// Logs in with startup parameters; gives the secret of the connection, and what the server reports of settings.
    pub async fn begin(address: SocketAddr, parameters: &str, password: &str) -> Result<(Self, BytesMut, Vec<String>)> {
        use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
        let mut raw = Self::connect(address).await?;
        raw.startup(196_608, parameters.as_bytes()).await?;
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        raw.next().await?.context("authentication")?;
        let first = scram.message().to_vec();
        let mut body = BytesMut::from(&b"SCRAM-SHA-256\0"[..]);
        body.put_u32(first.len() as u32);
        body.put_slice(&first);
        raw.message(b'p', &body).await?;
        let (_, mut server_first) = raw.next().await?.context("the server's first message")?;
        server_first.advance(4);
        scram.update(&server_first)?;
        raw.message(b'p', scram.message()).await?;
        let (mut key, mut settings) = (BytesMut::new(), Vec::new());
        while let Some((kind, body)) = raw.next().await? {
            match kind {
                b'K' => key = body,
                b'S' => settings.push(setting(&body)),
                b'Z' => return Ok((raw, key, settings)),
                b'E' => anyhow::bail!("{}", String::from_utf8_lossy(&body)),
                _ => {}
            }
        }
        anyhow::bail!("the server has closed the connection")
    }
}
