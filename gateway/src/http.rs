//! What operators and their tools ask over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for whoever
//! restarts servers and sends clients to them, `/` for the [console].
//!
//! `/metrics` and what the console asks for name tenants, tables and keys, so that they want an operator's name and
//! password (Basic), or the bearer token of a file. The others tell nothing but whether the server runs and takes
//! statements; the console's page is the same for everybody. There is no encryption: it listens where the operator
//! says, on the loopback of the machine or behind a proxy.
//!
//! What the console asks for wants a header of its own ([`CONSOLE`]), which a page of another origin cannot send: a
//! password that a browser remembers is of no use to it.
//!
//! Connections, requests at a time, and the bytes and the time of a request's head are bounded; beyond, the answer is
//! 503.

use crate::{
    audit::Event,
    auth::{scram, throttle::Throttle},
    console,
    instance::Instance,
    metrics, pg_catalog,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
        RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    },
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use keyspan_catalog::MockNonce;
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{Semaphore, SemaphorePermit},
};
use tokio_util::sync::CancellationToken;

/// Connections that may be open at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Requests for the page of metrics that are answered at a time.
pub const REQUESTS_MAX: usize = 4;
/// The header of what the console asks for.
pub const CONSOLE: &str = "x-keyspan";
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection may live: keep-alive must not hold a place for ever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);

/// Where to listen, and who may ask.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address; port 0 for any free one.
    pub listen: SocketAddr,
    /// The token that stands for an operator's password; `None` for none.
    pub token: Option<String>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Http {
    instance: Arc<Instance>,
    token: Option<String>,
    connections_max: usize,
    mock_nonce: MockNonce,
    throttle: Throttle,
    draining: CancellationToken,
    requests: Semaphore,
}

impl Http {
    pub(crate) fn new(
        instance: Arc<Instance>,
        options: &HttpOptions,
        connections_max: usize,
        mock_nonce: MockNonce,
        draining: CancellationToken,
    ) -> Self {
        Self {
            instance,
            token: options.token.clone(),
            connections_max,
            mock_nonce,
            throttle: Throttle::default(),
            draining,
            requests: Semaphore::new(REQUESTS_MAX),
        }
    }

    /// Serves until the server drains.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                () = self.draining.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                    Ok(place) => {
                        let http = Arc::clone(&self);
                        tokio::spawn(async move {
                            let _place = place;
                            let draining = http.draining.clone();
                            let served = tokio::time::timeout(CONNECTION_TIMEOUT, http.serve(stream, peer));
                            // What is asked as the server drains is not waited for.
                            draining.run_until_cancelled(served).await;
                        });
                    }
                    Err(_) => refuse(stream),
                },
                Err(error) => {
                    // Out of file descriptors, most of the time: others must end first.
                    tracing::warn!(%error, "cannot accept a connection for HTTP");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let service = service_fn(move |request| {
            let http = Arc::clone(&self);
            async move { Ok::<_, Infallible>(http.answer(&request, peer).await) }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::debug!(%peer, %error, "a connection for HTTP was lost");
        }
    }

    async fn answer(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if path == "/console/cancel" {
            return match *request.method() {
                Method::POST => self.console(request, peer, |query| self.cancel(query, peer)).await,
                _ => not_allowed("only POST\n", "POST"),
            };
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("only GET and HEAD\n", "GET, HEAD");
        }
        match path {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics(request, peer).await,
            "/console/state" => {
                let state = |_: &str| json(&console::state(&self.instance, self.connections_max));
                self.console(request, peer, state).await
            }
            "/console/heat" => self.console(request, peer, |query| self.heat(query)).await,
            "/console/statements" => self.console(request, peer, |_| json(&console::statements(&self.instance))).await,
            "/console/advice" => {
                self.console(request, peer, |_| json(&pg_catalog::advice::shown(&self.instance))).await
            }
            "/console/store" => self.console(request, peer, |_| json(&console::store(&self.instance))).await,
            "/console/drops" => self.console(request, peer, |_| json(&console::drops(&self.instance))).await,
            "/console/tenants" => self.tenants(request, peer).await,
            path => match console::file(path) {
                Some(file) => page(file),
                None => text(StatusCode::NOT_FOUND, "there are /, /metrics, /healthz and /readyz\n"),
            },
        }
    }

    /// Whether writes are taken. A server that stops has closed its door before.
    fn ready(&self) -> Response<Full<Bytes>> {
        match self.instance.catalog.store().inspect().and_then(|inside| inside.stopped) {
            // The cause names files of the server: it is in the log.
            Some(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store takes no writes: see the server's log\n"),
            None => text(StatusCode::OK, "ok\n"),
        }
    }

    async fn metrics(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let Ok(_place) = self.requests.try_acquire() else { return busy() };
        if let Err(mut refused) = self.admit(request, peer).await {
            let asked = HeaderValue::from_static("Basic realm=\"keyspan\", charset=\"UTF-8\"");
            refused.headers_mut().insert(WWW_AUTHENTICATE, asked);
            return refused;
        }
        let page = metrics::page(&self.instance, self.connections_max);
        let mut answer = Response::new(Full::from(page));
        let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(CONTENT_TYPE, form);
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    /// Answers the console, by what stands behind the path.
    async fn console(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        answer: impl FnOnce(&str) -> Response<Full<Bytes>>,
    ) -> Response<Full<Bytes>> {
        match self.allow_console(request, peer).await {
            Ok(_place) => answer(request.uri().query().unwrap_or_default()),
            Err(refused) => refused,
        }
    }

    /// The place of a request of the console's that may be answered. Its page asks for the password itself, so that a
    /// refusal names no scheme, and no browser asks for it in its own way.
    async fn allow_console(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<SemaphorePermit<'_>, Response<Full<Bytes>>> {
        if !request.headers().contains_key(CONSOLE) {
            return Err(text(StatusCode::FORBIDDEN, "this is for the console's page\n"));
        }
        let Ok(place) = self.requests.try_acquire() else { return Err(busy()) };
        self.admit(request, peer).await.map(|()| place)
    }

    fn heat(&self, query: &str) -> Response<Full<Bytes>> {
        let table = parameter(query, "table").map(str::parse).transpose();
        match (console::Span::of(parameter(query, "span")), table) {
            (Some(span), Ok(table)) => json(&console::heat(&self.instance, span, table)),
            _ => text(StatusCode::BAD_REQUEST, "no such span or table\n"),
        }
    }

    /// The tenants, of which some files may be read.
    async fn tenants(&self, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let _place = match self.allow_console(request, peer).await {
            Ok(place) => place,
            Err(refused) => return refused,
        };
        let find = parameter(request.uri().query().unwrap_or_default(), "find").unwrap_or_default().to_owned();
        // What names of tenants are made of.
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !find.bytes().all(is_part) {
            return text(StatusCode::BAD_REQUEST, "names of tenants have letters, digits, - and _\n");
        }
        let instance = Arc::clone(&self.instance);
        match tokio::task::spawn_blocking(move || console::tenants(&instance, &find)).await {
            Ok(found) => json(&found),
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "this failed: see the server's log\n"),
        }
    }

    fn cancel(&self, query: &str, peer: SocketAddr) -> Response<Full<Bytes>> {
        let Some(Ok(process_id)) = parameter(query, "pid").map(str::parse) else {
            return text(StatusCode::BAD_REQUEST, "pid is a number\n");
        };
        let done = console::cancel(&self.instance, &peer.to_string(), process_id);
        json(&serde_json::json!({ "cancelled": done }))
    }

    /// Refuses who may not ask; counted, slowed down and in the audit log.
    async fn admit(&self, request: &Request<Incoming>, peer: SocketAddr) -> Result<(), Response<Full<Bytes>>> {
        let Err(delay) = self.check(request, peer) else { return Ok(()) };
        self.instance.statistics.http_refused.add(1);
        let event = Event::new("http_refused").text("peer", &peer.to_string());
        self.instance.audit.record(self.instance.clock.now_micros(), event);
        tokio::time::sleep(delay).await;
        Err(text(StatusCode::UNAUTHORIZED, "an operator's name and password, or the token\n"))
    }

    /// Whether a request may see metrics; else for how long its refusal is held back.
    fn check(&self, request: &Request<Incoming>, peer: SocketAddr) -> Result<(), Duration> {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, given)) = given.and_then(|given| given.split_once(' ')) else { return Err(Duration::ZERO) };
        let given = given.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            let is_token = self.token.as_ref().is_some_and(|token| same(token.as_bytes(), given.as_bytes()));
            return if is_token { Ok(()) } else { Err(self.throttle.failed("", peer.ip(), Instant::now())) };
        }
        let decoded = STANDARD.decode(given).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let is_basic = scheme.eq_ignore_ascii_case("basic");
        let Some(decoded) = decoded.filter(|_| is_basic) else { return Err(Duration::ZERO) };
        let (role, password) = decoded.split_once(':').unwrap_or((&decoded, ""));
        let snapshot = self.instance.catalog.snapshot();
        let secret = scram::secret_for(&snapshot, &self.mock_nonce, role, self.instance.clock.now_micros());
        // The password is hashed for every name alike, so that the time tells nothing of names.
        let is_password = scram::is_password_of(password, &secret);
        let may = snapshot.role(role).is_some_and(|role| role.operator && role.login);
        if is_password && may { Ok(()) } else { Err(self.throttle.failed(role, peer.ip(), Instant::now())) }
    }
}

/// Whether two texts are the same, in a time that depends on their length alone.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

fn busy() -> Response<Full<Bytes>> {
    let mut refused = text(StatusCode::SERVICE_UNAVAILABLE, "too many requests at a time\n");
    refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    refused
}

fn not_allowed(told: &'static str, methods: &'static str) -> Response<Full<Bytes>> {
    let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, told);
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    refused
}

fn json(value: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(value.to_string()));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// A file of the console's page. It is asked for anew each time: the next version of the program has another.
fn page(file: &'static console::File) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(file.text));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(console::CONTENT_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}

/// A parameter of a query. Those of the console have no character that would be escaped.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Tells a connection that there is no place for it, without waiting for it.
fn refuse(mut stream: TcpStream) {
    /// How long the client may take to take it.
    const GOODBYE: Duration = Duration::from_secs(1);
    const ANSWER: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    tokio::spawn(async move {
        let told = async {
            stream.write_all(ANSWER).await?;
            stream.shutdown().await
        };
        let _: Result<io::Result<()>, _> = tokio::time::timeout(GOODBYE, told).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_their_names() {
        let query = "span=hour&table=7&x";
        assert_eq!((parameter(query, "span"), parameter(query, "table")), (Some("hour"), Some("7")));
        assert_eq!((parameter(query, "tab"), parameter(query, "x"), parameter("", "span")), (None, None, None));
    }

    #[test]
    fn a_token_is_the_same_or_not() {
        assert!(same(b"abc", b"abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!same(b"abc", other.as_bytes()), "{other}");
        }
    }
}
