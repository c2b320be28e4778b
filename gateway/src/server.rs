//! The server: accepts connections and serves each in a task of its own.
//!
//! A connection's way: `startup` (TLS, the first packet, authentication) gives a session; `connection` reads message
//! after message and hands them to `simple` or `extended`; rows go out by `rows`, those of a COPY come in by `copy`.
//! Whatever a statement waits for, it waits for in an [`interrupt`] guard: a cancel request, its timeout, a client that
//! goes away or the server's end stop it.
//!
//! [`Server::shutdown`] drains: nothing new is accepted, idle connections are closed, running statements get
//! [`ServerOptions::drain`] to finish, then are stopped with 57P01; the store is closed last.

mod cancel;
mod connection;
mod copy;
mod counting;
mod extended;
pub mod interrupt;
mod log_limit;
mod minutes;
mod rows;
mod simple;
mod socket;
mod startup;
mod tls;
mod write_batching;

pub use tls::TlsOptions;

use crate::{
    auth::{access::AccessRules, operator, scram, throttle::Throttle},
    http::{Http, HttpOptions},
    instance::Instance,
    lock::Mutex,
    purge,
    traces::{self, Collector},
};
use cancel::Cancels;
use futures::future::BoxFuture;
use keyspan_catalog::MockNonce;
use log_limit::LogLimit;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tls::Tls;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use write_batching::Answers;

/// Connections that may be open, those that log in included.
pub const CONNECTIONS_MAX: usize = 200;
/// Connections out of those that are kept for operators, as PostgreSQL's `superuser_reserved_connections`.
pub const CONNECTIONS_RESERVED: usize = 3;
/// Connections beyond the bound that still receive 53300 (or are cancel requests); further ones are closed at once.
pub const REFUSALS_MAX: usize = 64;
/// How long running statements may go on when the server stops.
pub const DRAIN: Duration = Duration::from_secs(10);
/// How long a client may take from its first byte until it has logged in, as PostgreSQL's `authentication_timeout`.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a stopped connection may take to say goodbye before it is left alone.
const GOODBYE: Duration = Duration::from_secs(2);
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The catalog, the clock and what else sessions share.
    pub instance: Arc<Instance>,
    /// Where to listen; port 0 for any free one.
    pub listen: SocketAddr,
    /// The certificate for TLS; `None` to refuse TLS.
    pub tls: Option<TlsOptions>,
    /// Who may try to log in from where; `None` for everybody.
    pub access: Option<AccessRules>,
    /// See [`CONNECTIONS_MAX`].
    pub connections_max: usize,
    /// See [`CONNECTIONS_RESERVED`]; one connection is left to others in any case.
    pub connections_reserved: usize,
    /// See [`LOGIN_TIMEOUT`].
    pub login_timeout: Duration,
    /// See [`DRAIN`].
    pub drain: Duration,
    /// Where metrics are told over HTTP; `None` for nowhere.
    pub http: Option<HttpOptions>,
    /// Where a span of each statement is sent; `None` for nowhere.
    pub traces: Option<Collector>,
    /// The store's folder, which operators see as `data_directory`.
    pub data_directory: Option<PathBuf>,
}

impl ServerOptions {
    /// On a free port of the loopback, without TLS.
    pub fn new(instance: Arc<Instance>) -> Self {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            instance,
            listen,
            tls: None,
            access: None,
            connections_max: CONNECTIONS_MAX,
            connections_reserved: CONNECTIONS_RESERVED,
            login_timeout: LOGIN_TIMEOUT,
            drain: DRAIN,
            http: None,
            traces: None,
            data_directory: None,
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The files for TLS are of no use.
    #[error("cannot use {path} for TLS: {detail}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) instance: Arc<Instance>,
    pub(crate) tls: Option<Tls>,
    pub(crate) access: Mutex<Option<Arc<AccessRules>>>,
    pub(crate) cancels: Arc<Cancels>,
    pub(crate) answers: Answers,
    pub(crate) mock_nonce: MockNonce,
    pub(crate) throttle: Throttle,
    /// Cancelled when the server begins to stop: idle connections end.
    pub(crate) draining: CancellationToken,
    /// Cancelled when it waits no longer: statements end.
    pub(crate) stopping: CancellationToken,
    login_timeout: Duration,
    places: Arc<Semaphore>,
    /// How many places there are.
    connections_max: usize,
    /// Places that operators alone may take.
    reserved: usize,
    refusals: Arc<Semaphore>,
    refused: LogLimit,
}

impl Hub {
    /// Logs that there was no place for a connection.
    fn log_refused(&self, peer: SocketAddr) {
        self.instance.statistics.refused.add(1);
        if let Some(connections) = self.refused.count(Instant::now()) {
            tracing::warn!(%peer, connections, "too many connections: refused");
        }
    }
}

/// A running server. Dropped, it stops accepting and stops its statements, without waiting; the store stays open.
#[derive(Debug)]
pub struct Server {
    hub: Arc<Hub>,
    address: SocketAddr,
    http: Option<SocketAddr>,
    tasks: TaskTracker,
    /// Sends traces, until `exporting` is cancelled: behind the last statement.
    exporter: Option<JoinHandle<()>>,
    exporting: CancellationToken,
    drain: Duration,
}

impl Server {
    /// Starts listening, and serving in the background.
    ///
    /// Boxed, so that this crate compiles what serves a connection: an `async fn` is compiled by the crate that polls
    /// it, which would be each program anew.
    ///
    /// # Errors
    /// An address that cannot be listened on, files for TLS that are of no use.
    pub fn start(options: ServerOptions) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(Self::started(options))
    }

    async fn started(options: ServerOptions) -> Result<Self, StartError> {
        let tls = options.tls.as_ref().map(Tls::load).transpose()?;
        let refused = |source| StartError::Listen { address: options.listen, source };
        let listener = listen(options.listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        if tls.is_none() && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(%address, "clients come over the network without encryption: no certificate for TLS");
        }
        let http = match &options.http {
            Some(http) => {
                let refused = |source| StartError::Listen { address: http.listen, source };
                let listener = listen(http.listen).map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                if !address.ip().to_canonical().is_loopback() {
                    tracing::warn!(%address, "passwords of HTTP come over the network without encryption");
                }
                Some((http, listener, address))
            }
            None => None,
        };
        operator::give_owners(&options.instance.catalog).await;
        let mock_nonce = scram::mock_nonce(&options.instance.catalog).await;
        let reserved = options.connections_reserved.min(options.connections_max.saturating_sub(1));
        let folder = options.data_directory.and_then(|folder| std::path::absolute(folder).ok());
        // A second server of an instance, which only tests start, leaves them as they are.
        let _ = options.instance.settings.set(vec![
            ("data_directory", folder.map_or_else(String::new, |folder| folder.display().to_string())),
            ("max_connections", options.connections_max.to_string()),
            ("superuser_reserved_connections", reserved.to_string()),
        ]);
        let (catalog, now_micros) = (&options.instance.catalog, options.instance.clock.now_micros());
        // What cannot be read is no reason not to start.
        let known = catalog.heat().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "heat, usage and what advice is made of cannot be read");
            Vec::new()
        });
        options.instance.heat.load(catalog, &known, now_micros).await;
        options.instance.days.load(catalog, &known, &options.instance.shares, now_micros).await;
        options.instance.hours.load(catalog, &known, &options.instance.shares, now_micros).await;
        let hub = Arc::new(Hub {
            instance: options.instance,
            tls,
            access: Mutex::new(options.access.map(Arc::new)),
            cancels: Arc::default(),
            answers: Answers::default(),
            mock_nonce,
            throttle: Throttle::default(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            login_timeout: options.login_timeout,
            places: Arc::new(Semaphore::new(options.connections_max)),
            connections_max: options.connections_max,
            reserved,
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            refused: LogLimit::default(),
        });
        let tasks = TaskTracker::new();
        tasks.spawn(accept(listener, hub.clone(), tasks.clone()));
        let http = http.map(|(http, listener, address)| {
            let nonce = hub.mock_nonce;
            let http = Http::new(hub.instance.clone(), http, options.connections_max, nonce, hub.draining.clone());
            tasks.spawn(Arc::new(http).run(listener));
            address
        });
        let exporting = CancellationToken::new();
        let export = |collector| tokio::spawn(traces::run(hub.instance.traces.clone(), collector, exporting.clone()));
        let exporter = options.traces.map(export);
        tasks.spawn(purge::run(hub.instance.clone(), hub.draining.clone()));
        tasks.spawn(minutes::run(hub.instance.clone(), hub.draining.clone()));
        Ok(Self { hub, address, http, tasks, exporter, exporting, drain: options.drain })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address at which it tells metrics.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Other rules for those who log in from now on; `None` for everybody. Who has logged in stays.
    pub fn set_access(&self, rules: Option<AccessRules>) {
        *self.hub.access.lock() = rules.map(Arc::new);
    }

    /// Drains and stops, and closes the store.
    ///
    /// # Errors
    /// The store's.
    pub async fn shutdown(mut self) -> keyspan_storage::Result<()> {
        self.hub.draining.cancel();
        self.tasks.close();
        if tokio::time::timeout(self.drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "statements still run: they are stopped");
            self.hub.stopping.cancel();
            if tokio::time::timeout(GOODBYE, self.tasks.wait()).await.is_err() {
                tracing::warn!(connections = self.tasks.len(), "connections do not end: they are left alone");
            }
        }
        self.exporting.cancel();
        if let Some(exporter) = self.exporter.take() {
            // It bounds what it takes for the last spans.
            let _ = exporter.await;
        }
        self.hub.instance.catalog.store().close().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hub.draining.cancel();
        self.hub.stopping.cancel();
        self.exporting.cancel();
    }
}

/// A listener whose connections notice peers that vanished (keepalive) and send small messages at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, hub: Arc<Hub>, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            () = hub.draining.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                hub.instance.statistics.accepted.add(1);
                tasks.spawn(serve(stream, peer, hub.clone()));
            }
            Err(error) => {
                // Out of file descriptors, most of the time: others must end first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, hub: Arc<Hub>) {
    let place = hub.places.clone().try_acquire_owned();
    let refusal = if place.is_ok() { None } else { hub.refusals.clone().try_acquire_owned().ok() };
    if place.is_err() && refusal.is_none() {
        hub.log_refused(peer);
        return;
    }
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "no TCP_NODELAY");
    }
    // Boxed: the future of a connection is large.
    if let Err(error) = Box::pin(connection::serve(stream, peer, hub, place.is_ok())).await {
        tracing::debug!(%peer, %error, "connection lost");
    }
}
