//! A proxy before the emulator that behaves as networks do: it fails before a request arrives, loses answers, sends
//! requests twice, and cuts streams in the middle. It also counts the requests. All others go through as they are.
//!
//! Tests of the gateway use it, too.

use futures::{StreamExt, stream::BoxStream};
use hyper::{body::Incoming, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyspan_bigtable::{Settings, transport::Connections};
use keyspan_bigtable_api::data::{
    CheckAndMutateRowRequest, CheckAndMutateRowResponse, MutateRowRequest, MutateRowResponse, MutateRowsRequest,
    MutateRowsResponse, ReadRowsRequest, ReadRowsResponse,
    bigtable_client::BigtableClient,
    bigtable_server::{Bigtable, BigtableServer},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
};

/// What fails, and is counted.
const ABOUT_ROWS: [&str; 4] =
    ["Bigtable/ReadRows", "Bigtable/MutateRow", "Bigtable/MutateRows", "Bigtable/CheckAndMutateRow"];

pub(crate) struct Proxy {
    client: BigtableClient<Connections>,
    random: Mutex<SmallRng>,
    /// One of so many chances is taken; 0 for none.
    odds: AtomicU32,
    /// Whether the application profile permits single-row transactions, as the emulator's always does.
    pub(crate) is_transactional: AtomicBool,
    /// Requests about rows.
    pub(crate) requests: AtomicUsize,
    /// Chances that were taken.
    pub(crate) failures: AtomicUsize,
}

impl Proxy {
    /// A proxy before an instance, and the settings for going through it; administration goes past it.
    pub(crate) async fn serve(instance: &Settings, seed: u64, odds: u32) -> (Arc<Self>, Settings) {
        let uri: http::Uri = instance.data_uri.parse().unwrap();
        let client = BigtableClient::with_origin(Connections::new(&uri).unwrap(), uri.clone());
        let random = Mutex::new(SmallRng::seed_from_u64(seed));
        let admin = Connections::new(&uri).unwrap();
        let odds = AtomicU32::new(odds);
        let (requests, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_transactional = AtomicBool::new(true);
        let proxy = Arc::new(Self { client, random, odds, is_transactional, requests, failures });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let data_uri = format!("http://{}", listener.local_addr().unwrap());
        let service = BigtableServer::new(Handle(proxy.clone()));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (service, admin) = (service.clone(), admin.clone());
                let answer = service_fn(move |request: http::Request<Incoming>| {
                    let (mut service, mut admin) = (service.clone(), admin.clone());
                    async move {
                        let path = request.uri().path();
                        if ABOUT_ROWS.iter().any(|method| path.ends_with(method)) {
                            return Ok(service.call(request).await.unwrap());
                        }
                        admin.call(request.map(Body::new)).await
                    }
                });
                tokio::spawn(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), answer));
            }
        });
        (proxy, Settings { data_uri, seed, ..instance.clone() })
    }

    /// Begins a run of chances of its own.
    pub(crate) fn begin(&self, seed: u64, odds: u32) {
        *self.random.lock().unwrap() = SmallRng::seed_from_u64(seed);
        self.odds.store(odds, Ordering::SeqCst);
    }

    fn chance(&self) -> bool {
        let odds = self.odds.load(Ordering::SeqCst);
        let is_taken = odds > 0 && self.random.lock().unwrap().random_ratio(1, odds);
        self.failures.fetch_add(usize::from(is_taken), Ordering::SeqCst);
        is_taken
    }

    fn lost(&self) -> Result<(), Status> {
        if self.chance() { Err(Status::unavailable("lost on the way")) } else { Ok(()) }
    }

    /// A request that may be lost on the way there, sent twice, and lost on the way back.
    async fn pass<Q, A, F>(&self, request: Request<Q>, send: impl Fn(BigtableClient<Connections>, Q) -> F) -> Answer<A>
    where
        Q: Clone,
        F: Future<Output = Answer<A>>,
    {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.lost()?;
        let message = request.into_inner();
        if self.chance() {
            // The answer of the one that is passed on is that of the second.
            drop(send(self.client.clone(), message.clone()).await);
        }
        let answer = send(self.client.clone(), message).await?;
        self.lost()?;
        Ok(Response::new(answer.into_inner()))
    }

    /// A stream that may be cut.
    fn cut<A: Send + 'static>(self: &Arc<Self>, stream: tonic::Streaming<A>) -> Messages<A> {
        let proxy = self.clone();
        let messages = stream.map(move |message| proxy.lost().and(message));
        // The client stops at the first error, as at a cut.
        Box::pin(messages)
    }
}

struct Handle(Arc<Proxy>);

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl Bigtable for Handle {
    async fn read_rows(&self, request: Request<ReadRowsRequest>) -> Answer<Messages<ReadRowsResponse>> {
        let read = async |mut client: BigtableClient<Connections>, message| client.read_rows(message).await;
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        self.0.lost()?;
        let stream = read(self.0.client.clone(), request.into_inner()).await?.into_inner();
        Ok(Response::new(self.0.cut(stream)))
    }

    async fn mutate_row(&self, request: Request<MutateRowRequest>) -> Answer<MutateRowResponse> {
        self.0.pass(request, |mut client, message| async move { client.mutate_row(message).await }).await
    }

    async fn mutate_rows(&self, request: Request<MutateRowsRequest>) -> Answer<Messages<MutateRowsResponse>> {
        let sent = self.0.pass(request, |mut client, message| async move { client.mutate_rows(message).await });
        Ok(Response::new(self.0.cut(sent.await?.into_inner())))
    }

    async fn check_and_mutate_row(
        &self,
        request: Request<CheckAndMutateRowRequest>,
    ) -> Answer<CheckAndMutateRowResponse> {
        if !self.0.is_transactional.load(Ordering::SeqCst) {
            // The words of Google's service (github.com/googleapis/google-cloud-python, pull request 10021).
            let words = "Single-row transactions are not allowed by this app profile";
            return Err(Status::failed_precondition(words));
        }
        // Networks do not send twice what an HTTP/2 stream carries; a client that did so would have to know why.
        self.0.requests.fetch_add(1, Ordering::SeqCst);
        self.0.lost()?;
        let answer = self.0.client.clone().check_and_mutate_row(request.into_inner()).await?;
        self.0.lost()?;
        Ok(Response::new(answer.into_inner()))
    }
}
