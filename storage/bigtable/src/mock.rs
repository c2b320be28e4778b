//! A server for tests: a table in memory, behind a real socket, that does everything a server may do to a client.
//!
//! It cuts rows and cells over messages at random, takes rows back, tells of keys that it has only scanned, fails
//! before, within and after an answer, and cuts connections, as a seed says. What it promises is what Bigtable
//! promises: a status of OK means that it is done, and a failure means nothing.

use crate::Settings;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use hyper::{body::Incoming, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyspan_bigtable_api::{
    data::{
        self, CheckAndMutateRowRequest, CheckAndMutateRowResponse, MutateRowRequest, MutateRowResponse,
        MutateRowsRequest, MutateRowsResponse, ReadRowsRequest, ReadRowsResponse, SampleRowKeysRequest,
        SampleRowKeysResponse,
        bigtable_server::{Bigtable, BigtableServer},
        mutate_rows_response::Entry,
        mutation,
        read_rows_response::{CellChunk, cell_chunk::RowStatus},
        row_range::{EndKey, StartKey},
    },
    rpc,
};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::Notify};
use tonic::{
    Code, Request, Response, Status,
    codegen::{Service, http},
};

/// Runs a test for each seed, many at a time, since most of each is pauses.
pub(crate) async fn with_seeds(count: u64, test: impl AsyncFn(u64)) {
    futures::stream::iter(0..count).for_each_concurrent(25, |seed| test(seed)).await;
}

/// The cells of a row: by column, one for each.
pub(crate) type Cells = BTreeMap<Bytes, Bytes>;

/// The state of the server.
pub(crate) struct Mock {
    pub(crate) rows: Mutex<BTreeMap<Bytes, Cells>>,
    random: Mutex<SmallRng>,
    /// One of so many chances is taken; 0 for none.
    odds: u32,
    cut: Notify,
    /// Requests of any kind.
    pub(crate) requests: AtomicUsize,
    /// The headers of the last request.
    pub(crate) headers: Mutex<tonic::metadata::MetadataMap>,
    /// Statuses to fail with, before anything else.
    pub(crate) failures: Mutex<Vec<Status>>,
    /// How often a row was written.
    pub(crate) writes: AtomicUsize,
    /// Keys of rows that are never taken.
    pub(crate) refused: Mutex<Vec<Bytes>>,
}

impl Mock {
    /// A server that takes one of `odds` chances, and its settings for a client.
    pub(crate) async fn serve(seed: u64, odds: u32) -> (Arc<Self>, Settings) {
        let mock = Arc::new(Self {
            rows: Mutex::default(),
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            odds,
            cut: Notify::new(),
            requests: AtomicUsize::new(0),
            headers: Mutex::default(),
            failures: Mutex::default(),
            writes: AtomicUsize::new(0),
            refused: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = BigtableServer::from_arc(Arc::new(Handle(mock.clone())));
        let served = mock.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (service, mock) = (service.clone(), served.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request: http::Request<Incoming>| service.clone().call(request));
                    let connection = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), answer);
                    tokio::select! {
                        _ = connection => {}
                        () = mock.cut.notified() => {}
                    }
                });
            }
        });
        let settings = Settings {
            seed,
            attempt_timeout: Duration::from_secs(5),
            operation_timeout: Duration::from_secs(30),
            ..Settings::emulator(&address, "p", "i")
        };
        (mock, settings)
    }

    /// Puts a row with a cell in each of these columns.
    pub(crate) fn put(&self, key: &[u8], columns: &[(&str, Vec<u8>)]) {
        let cells = columns.iter().map(|(column, value)| (Bytes::copy_from_slice(column.as_bytes()), value.clone()));
        let cells = cells.map(|(column, value)| (column, value.into())).collect();
        self.rows.lock().unwrap().insert(Bytes::copy_from_slice(key), cells);
    }

    fn chance(&self) -> bool {
        self.odds > 0 && self.random.lock().unwrap().random_ratio(1, self.odds)
    }

    fn below(&self, end: usize) -> usize {
        self.random.lock().unwrap().random_range(0..end.max(1))
    }

    /// A failure that is worth another attempt; connections may be cut as well.
    fn failure(&self) -> Status {
        match self.below(4) {
            0 => Status::aborted("mock"),
            1 => Status::internal("Received RST_STREAM from the mock"),
            2 => {
                self.cut.notify_waiters();
                Status::unavailable("cut")
            }
            _ => Status::unavailable("mock"),
        }
    }

    fn begin<T>(&self, request: &Request<T>) -> Result<(), Status> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        *self.headers.lock().unwrap() = request.metadata().clone();
        if let Some(status) = self.failures.lock().unwrap().pop() {
            return Err(status);
        }
        if self.chance() { Err(self.failure()) } else { Ok(()) }
    }

    fn wanted(&self, request: &ReadRowsRequest) -> Vec<(Bytes, Cells)> {
        let wanted = |key: &Bytes| {
            let Some(rows) = request.rows.as_ref().filter(|rows| **rows != data::RowSet::default()) else {
                return true;
            };
            rows.row_keys.contains(key)
                || rows.row_ranges.iter().any(|range| {
                    let after = match &range.start_key {
                        Some(StartKey::StartKeyClosed(start)) => key >= start,
                        Some(StartKey::StartKeyOpen(start)) => key > start,
                        None => true,
                    };
                    let before = match &range.end_key {
                        Some(EndKey::EndKeyClosed(end)) => key <= end,
                        Some(EndKey::EndKeyOpen(end)) => key < end,
                        None => true,
                    };
                    after && before
                })
        };
        let rows = self.rows.lock().unwrap();
        let mut found: Vec<_> = rows.iter().filter(|(key, _)| wanted(key)).collect();
        if request.reversed {
            found.reverse();
        }
        if request.rows_limit > 0 {
            found.truncate(usize::try_from(request.rows_limit).unwrap());
        }
        found.into_iter().map(|(key, cells)| (key.clone(), cells.clone())).collect()
    }

    /// The chunks of a row, cut at random.
    fn chunks(&self, key: &Bytes, cells: &Cells) -> Vec<CellChunk> {
        let mut chunks = Vec::new();
        for (column, value) in cells {
            let first = CellChunk {
                row_key: if chunks.is_empty() || self.chance() { key.clone() } else { Bytes::new() },
                family_name: Some("a".into()),
                qualifier: Some(column.to_vec()),
                timestamp_micros: 1_000,
                ..CellChunk::default()
            };
            let cut = if self.chance() { self.below(value.len()) } else { 0 };
            if cut > 0 {
                let value_size = i32::try_from(value.len()).unwrap();
                chunks.push(CellChunk { value: value.slice(..cut), value_size, ..first });
                chunks.push(CellChunk { value: value.slice(cut..), ..CellChunk::default() });
            } else {
                chunks.push(CellChunk { value: value.clone(), ..first });
            }
        }
        if let Some(last) = chunks.last_mut() {
            last.row_status = Some(RowStatus::CommitRow(true));
        }
        if self.chance() && chunks.len() > 1 {
            // The row begins, is taken back, and comes again.
            let mut begun = chunks[..chunks.len() - 1].to_vec();
            begun.push(CellChunk { row_status: Some(RowStatus::ResetRow(true)), ..CellChunk::default() });
            chunks.splice(0..0, begun);
        }
        chunks
    }

    fn write(&self, key: &Bytes, mutations: &[data::Mutation]) -> Status {
        if self.refused.lock().unwrap().contains(key) {
            return Status::failed_precondition("refused");
        }
        let mut rows = self.rows.lock().unwrap();
        let row = rows.entry(key.clone()).or_default();
        for mutation in mutations {
            match mutation.mutation.as_ref().unwrap() {
                mutation::Mutation::SetCell(cell) => {
                    row.insert(cell.column_qualifier.clone(), cell.value.clone());
                }
                _ => row.clear(),
            }
        }
        rows.retain(|_, cells| !cells.is_empty());
        self.writes.fetch_add(1, Ordering::SeqCst);
        Status::ok("")
    }
}

struct Handle(Arc<Mock>);

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Bigtable for Handle {
    async fn read_rows(
        &self,
        request: Request<ReadRowsRequest>,
    ) -> Answer<BoxStream<'static, Result<ReadRowsResponse, Status>>> {
        let mock = &self.0;
        mock.begin(&request)?;
        let mut messages = vec![Ok(ReadRowsResponse::default())];
        for (key, cells) in mock.wanted(request.get_ref()) {
            if mock.chance() {
                // A key before the row, which is no row.
                let mut scanned = key.to_vec();
                if request.get_ref().reversed {
                    scanned.push(0);
                } else if let Some(last) = scanned.last_mut().filter(|last| **last > 0) {
                    *last -= 1;
                    scanned.push(0xff);
                }
                if scanned != key {
                    messages.push(Ok(ReadRowsResponse { last_scanned_row_key: scanned.into(), ..Default::default() }));
                }
            }
            for chunk in mock.chunks(&key, &cells) {
                match messages.last_mut() {
                    Some(Ok(message)) if !mock.chance() && message.last_scanned_row_key.is_empty() => {
                        message.chunks.push(chunk);
                    }
                    _ => messages.push(Ok(ReadRowsResponse { chunks: vec![chunk], ..Default::default() })),
                }
                if mock.chance() {
                    messages.push(Err(mock.failure()));
                    return Ok(Response::new(Box::pin(futures::stream::iter(messages))));
                }
            }
        }
        if mock.chance() {
            // Everything has come, but the end.
            messages.push(Err(mock.failure()));
        }
        Ok(Response::new(Box::pin(futures::stream::iter(messages))))
    }

    async fn sample_row_keys(
        &self,
        request: Request<SampleRowKeysRequest>,
    ) -> Answer<BoxStream<'static, Result<SampleRowKeysResponse, Status>>> {
        self.0.begin(&request)?;
        let keys: Vec<Bytes> = self.0.rows.lock().unwrap().keys().cloned().collect();
        let sample = |row_key| Ok(SampleRowKeysResponse { row_key, offset_bytes: 10 });
        let mut samples: Vec<_> = keys.into_iter().map(sample).collect();
        if self.0.chance() {
            samples.push(Err(self.0.failure()));
        }
        samples.push(Ok(SampleRowKeysResponse { row_key: Bytes::new(), offset_bytes: 20 }));
        Ok(Response::new(Box::pin(futures::stream::iter(samples))))
    }

    async fn mutate_row(&self, request: Request<MutateRowRequest>) -> Answer<MutateRowResponse> {
        self.0.begin(&request)?;
        let message = request.get_ref();
        match self.0.write(&message.row_key, &message.mutations) {
            status if status.code() != Code::Ok => Err(status),
            _ if self.0.chance() => Err(self.0.failure()),
            _ => Ok(Response::new(MutateRowResponse {})),
        }
    }

    async fn mutate_rows(
        &self,
        request: Request<MutateRowsRequest>,
    ) -> Answer<BoxStream<'static, Result<MutateRowsResponse, Status>>> {
        let mock = &self.0;
        mock.begin(&request)?;
        let mut messages = Vec::new();
        for (index, entry) in (0..).zip(&request.get_ref().entries) {
            let mut status = mock.write(&entry.row_key, &entry.mutations);
            if mock.chance() {
                // It was done, and it is told that it was not.
                status = Status::unavailable("mock");
            }
            if mock.chance() {
                messages.push(Err(mock.failure()));
                break;
            }
            let status = rpc::Status { code: status.code().into(), message: status.message().into(), details: vec![] };
            let entries = vec![Entry { index, status: Some(status) }];
            messages.push(Ok(MutateRowsResponse { entries, rate_limit_info: None }));
        }
        Ok(Response::new(Box::pin(futures::stream::iter(messages))))
    }

    async fn check_and_mutate_row(
        &self,
        request: Request<CheckAndMutateRowRequest>,
    ) -> Answer<CheckAndMutateRowResponse> {
        self.0.begin(&request)?;
        let message = request.get_ref();
        let predicate_matched = self.0.rows.lock().unwrap().contains_key(&message.row_key);
        let mutations = if predicate_matched { &message.true_mutations } else { &message.false_mutations };
        self.0.write(&message.row_key, mutations);
        Ok(Response::new(CheckAndMutateRowResponse { predicate_matched }))
    }
}
