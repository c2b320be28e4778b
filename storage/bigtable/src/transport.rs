//! HTTP/2 connections to one server: the service that the generated clients send their requests through.
//!
//! A [`Connections`] has a fixed number of connections and takes them in turns. Each is made when a request needs it,
//! and again after it broke; requests that wait for it share the attempt. A broken connection, and a stream that ends
//! without a status, are [`Code::Unavailable`](tonic::Code::Unavailable): the server may have had the request.

use crate::{Error, Result, settings::CONNECTIONS};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
};
use tonic::{
    Status,
    body::Body,
    codegen::{Bytes, Service, http},
};

/// The header, or trailer, with the status of a call.
const GRPC_STATUS: &str = "grpc-status";
/// How long a connection may take to be made, encryption included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection is tried whether it still works. Load balancers forget silent ones after some minutes.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long the answer to that may take.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that a server may send of one stream before the client has taken them.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// Bytes that a server may send of all streams of a connection before the client has taken them.
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;

/// Connections to one server. Cheap to clone.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    server: Server,
    slots: Vec<Mutex<Option<SendRequest<Body>>>>,
    next: AtomicUsize,
}

struct Server {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connections").field(&self.0.server.host).field(&self.0.server.port).finish()
    }
}

impl Connections {
    /// Connections to the server of a URI; none is made yet.
    ///
    /// # Errors
    /// [`Error::Config`] for a URI that is not `http` or `https` with a host, or without certificates on this machine.
    pub fn new(uri: &http::Uri) -> Result<Self> {
        let wrong = |why: &str| Error::Config(format!("{uri} {why}"));
        let host = uri.host().ok_or_else(|| wrong("has no host"))?.to_owned();
        let (default_port, encrypted) = match uri.scheme_str() {
            Some("http") => (80, false),
            Some("https") => (443, true),
            _ => return Err(wrong("is neither http nor https")),
        };
        let tls = if encrypted {
            let name = ServerName::try_from(host.clone()).map_err(|_| wrong("has no host with a certificate"))?;
            Some((connector()?, name))
        } else {
            None
        };
        let server = Server { host, port: uri.port_u16().unwrap_or(default_port), tls };
        let slots = (0..CONNECTIONS).map(|_| Mutex::new(None)).collect();
        Ok(Self(Arc::new(Shared { server, slots, next: AtomicUsize::new(0) })))
    }

    async fn send(self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let at = self.0.next.fetch_add(1, Ordering::Relaxed) % self.0.slots.len();
        let mut sender = {
            let mut slot = self.0.slots[at].lock().await;
            match slot.as_ref().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender.clone(),
                None => slot.insert(self.0.server.connect().await?).clone(),
            }
        };
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        // A status without messages comes in the headers.
        let ended = response.headers().contains_key(GRPC_STATUS);
        Ok(response.map(|body| Body::new(Ending { body, ended })))
    }
}

fn connector() -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::Config("this machine has no certificates of authorities".into()));
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Server {
    async fn connect(&self) -> Result<SendRequest<Body>, Status> {
        let connected = timeout(CONNECT_TIMEOUT, self.handshake()).await;
        connected.unwrap_or_else(|_| Err(Status::unavailable("the server does not answer")))
    }

    async fn handshake(&self) -> Result<SendRequest<Body>, Status> {
        // A host in brackets is an IPv6 address.
        let host = self.host.trim_matches(['[', ']']);
        let tcp = TcpStream::connect((host, self.port)).await.map_err(|error| broken(&error))?;
        tcp.set_nodelay(true).map_err(|error| broken(&error))?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some((connector, name)) => {
                Box::new(connector.connect(name.clone(), tcp).await.map_err(|error| broken(&error))?)
            }
            None => Box::new(tcp),
        };
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(&error))?;
        // It ends with the last sender, or when it breaks: requests are told then.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to Bigtable ended");
            }
        });
        Ok(sender)
    }
}

fn broken(error: &dyn std::error::Error) -> Status {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    Status::unavailable(text)
}

impl Service<http::Request<Body>> for Connections {
    type Response = http::Response<Body>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// A body that must not end without a status: that of a stream that was cut would look like its end.
struct Ending {
    body: Incoming,
    ended: bool,
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                self.ended |= frame.is_trailers();
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                self.ended = true;
                Some(Err(broken(&error)))
            }
            None if self.ended => None,
            None => {
                self.ended = true;
                Some(Err(Status::unavailable("the stream ended without a status")))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
