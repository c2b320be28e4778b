//! Serves Google's test proxy over our client, for their tests of client libraries
//! (<https://github.com/googleapis/cloud-bigtable-clients-test>): `testproxy PORT`, 0 for one that is free.
//!
//! It translates and decides nothing: what a test sees is what the client does. `.ci/bigtable` runs the tests.

use bytes::Bytes;
use futures::{StreamExt, pin_mut};
use hyper::{body::Incoming, server::conn::http2::Builder, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyspan_bigtable::{ApiRow, Client, Entry, Error, ReadRows, Settings};
use keyspan_bigtable_api::{
    data::{
        self, mutate_rows_response, mutation,
        row_range::{EndKey, StartKey},
    },
    rpc,
    testproxy::{
        CheckAndMutateRowRequest, CheckAndMutateRowResult, CloseClientRequest, CloseClientResponse,
        CreateClientRequest, CreateClientResponse, MutateRowRequest, MutateRowResult, MutateRowsRequest,
        MutateRowsResult, ReadModifyWriteRowRequest, ReadRowRequest, ReadRowsRequest, RemoveClientRequest,
        RemoveClientResponse, RowResult, RowsResult, SampleRowKeysRequest, SampleRowKeysResult,
        cloud_bigtable_v2_test_proxy_server::{CloudBigtableV2TestProxy, CloudBigtableV2TestProxyServer},
    },
};
use keyspan_storage::{KeyRange, RowKey, RowSet};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::net::TcpListener;
use tonic::{
    Code, Request, Response, Status,
    codegen::{Service, http},
};

type Answer<T> = Result<Response<T>, Status>;

/// The clients, by the name that a test gave; `None` for one that is closed.
#[derive(Default)]
struct Proxy(Mutex<HashMap<String, Option<Client>>>);

impl Proxy {
    fn client(&self, id: &str) -> Result<Client, rpc::Status> {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = clients.get(id).cloned().flatten();
        found.ok_or_else(|| status(&Status::cancelled("the client is closed").into()))
    }
}

fn status(error: &Error) -> rpc::Status {
    let code = error.code().unwrap_or(Code::Internal);
    rpc::Status { code: code.into(), message: error.to_string(), details: Vec::new() }
}

/// The status of a result, and what it has.
fn told<T>(result: Result<T, Error>) -> (Option<rpc::Status>, Option<T>) {
    match result {
        Ok(value) => (Some(rpc::Status::default()), Some(value)),
        Err(error) => (Some(status(&error)), None),
    }
}

/// The id of a table in its resource name.
fn table(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

fn key(key: Bytes) -> Result<RowKey, Status> {
    RowKey::new(key).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn is_repeatable(mutations: &[data::Mutation]) -> bool {
    mutations.iter().all(|mutation| match &mutation.mutation {
        Some(mutation::Mutation::SetCell(cell)) => cell.timestamp_micros >= 0,
        Some(mutation::Mutation::AddToCell(_) | mutation::Mutation::MergeToCell(_)) => false,
        _ => true,
    })
}

fn rows(rows: Option<data::RowSet>) -> RowSet {
    let Some(rows) = rows.filter(|rows| *rows != data::RowSet::default()) else { return RowSet::all() };
    let behind = |key: &Bytes| Bytes::from([&key[..], &[0]].concat());
    let range = |range: data::RowRange| {
        let start = match range.start_key {
            Some(StartKey::StartKeyClosed(key)) => key,
            Some(StartKey::StartKeyOpen(key)) => behind(&key),
            None => Bytes::new(),
        };
        let end = match range.end_key {
            Some(EndKey::EndKeyOpen(key)) => Some(key),
            Some(EndKey::EndKeyClosed(key)) => Some(behind(&key)),
            None => None,
        };
        KeyRange::new(start, end.filter(|end| !end.is_empty()))
    };
    let points = rows.row_keys.iter().map(|key| KeyRange::point(key));
    RowSet::new(points.chain(rows.row_ranges.into_iter().map(range)))
}

/// A row as the API nests it.
fn nested(row: ApiRow) -> data::Row {
    let mut families: Vec<data::Family> = Vec::new();
    for cell in row.cells {
        let name = cell.family.as_str();
        let family = match families.iter_mut().position(|family| family.name == name) {
            Some(at) => &mut families[at],
            None => {
                families.push(data::Family { name: name.to_owned(), columns: Vec::new() });
                let last = families.len() - 1;
                &mut families[last]
            }
        };
        let value =
            data::Cell { timestamp_micros: cell.timestamp_micros, value: cell.value.clone(), labels: cell.labels };
        match family.columns.last_mut().filter(|column| column.qualifier == cell.qualifier) {
            Some(column) => column.cells.push(value),
            None => family.columns.push(data::Column { qualifier: cell.qualifier, cells: vec![value] }),
        }
    }
    data::Row { key: row.key.into_bytes(), families }
}

/// Reads rows until there are as many as are wanted; 0 for all.
async fn read(client: &Client, name: &str, read: ReadRows, most: usize) -> (Vec<data::Row>, rpc::Status) {
    let stream = client.read_rows(table(name), read);
    pin_mut!(stream);
    let mut rows = Vec::new();
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(batch) => rows.extend(batch.into_iter().map(nested)),
            Err(error) => return (rows, status(&error)),
        }
        if most > 0 && rows.len() >= most {
            rows.truncate(most);
            break;
        }
    }
    (rows, rpc::Status::default())
}

#[tonic::async_trait]
impl CloudBigtableV2TestProxy for Proxy {
    async fn create_client(&self, request: Request<CreateClientRequest>) -> Answer<CreateClientResponse> {
        let request = request.into_inner();
        let mut settings = Settings::emulator(&request.data_target, &request.project_id, &request.instance_id);
        settings.app_profile = request.app_profile_id;
        if let Some(timeout) = request.per_operation_timeout.and_then(|timeout| Duration::try_from(timeout).ok()) {
            settings.operation_timeout = timeout;
        }
        let client = Client::new(settings).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.client_id, Some(client));
        Ok(Response::new(CreateClientResponse {}))
    }

    async fn close_client(&self, request: Request<CloseClientRequest>) -> Answer<CloseClientResponse> {
        // Requests in progress hold their client.
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.insert(request.into_inner().client_id, None);
        Ok(Response::new(CloseClientResponse {}))
    }

    async fn remove_client(&self, request: Request<RemoveClientRequest>) -> Answer<RemoveClientResponse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.into_inner().client_id);
        Ok(Response::new(RemoveClientResponse {}))
    }

    async fn read_row(&self, request: Request<ReadRowRequest>) -> Answer<RowResult> {
        let request = request.into_inner();
        let client = match self.client(&request.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(RowResult { status: Some(status), row: None })),
        };
        let rows = RowSet::from(KeyRange::point(request.row_key.as_bytes()));
        let one = ReadRows { rows, filter: request.filter, rows_max: Some(1), reversed: false };
        let (rows, status) = read(&client, &request.table_name, one, 1).await;
        Ok(Response::new(RowResult { status: Some(status), row: rows.into_iter().next() }))
    }

    async fn read_rows(&self, request: Request<ReadRowsRequest>) -> Answer<RowsResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(RowsResult { status: Some(status), rows: Vec::new() })),
        };
        let most = usize::try_from(outer.cancel_after_rows).unwrap_or(0);
        let wanted = ReadRows {
            rows: rows(request.rows),
            filter: request.filter,
            rows_max: u64::try_from(request.rows_limit).ok().filter(|limit| *limit > 0),
            reversed: request.reversed,
        };
        let (rows, status) = read(&client, &request.table_name, wanted, most).await;
        Ok(Response::new(RowsResult { status: Some(status), rows }))
    }

    async fn mutate_row(&self, request: Request<MutateRowRequest>) -> Answer<MutateRowResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(MutateRowResult { status: Some(status) })),
        };
        let repeatable = is_repeatable(&request.mutations);
        let key = key(request.row_key)?;
        let done = client.mutate_row(table(&request.table_name), &key, request.mutations, repeatable).await;
        Ok(Response::new(MutateRowResult { status: told(done).0 }))
    }

    async fn bulk_mutate_rows(&self, request: Request<MutateRowsRequest>) -> Answer<MutateRowsResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(MutateRowsResult { status: Some(status), entries: Vec::new() })),
        };
        let mut entries = Vec::new();
        for entry in request.entries {
            let repeatable = is_repeatable(&entry.mutations);
            entries.push(Entry { key: key(entry.row_key)?, mutations: entry.mutations, repeatable });
        }
        let done = client.mutate_rows(table(&request.table_name), entries).await;
        let (mut status, results) = told(done);
        let failed = |(index, result): (i64, Result<(), Error>)| {
            result.err().map(|error| mutate_rows_response::Entry { index, status: Some(self::status(&error)) })
        };
        let entries: Vec<_> = (0..).zip(results.unwrap_or_default()).filter_map(failed).collect();
        // This client has a result for each row only: that of the whole is the first.
        if let Some(first) = entries.first() {
            status = first.status.clone();
        }
        Ok(Response::new(MutateRowsResult { status, entries }))
    }

    async fn check_and_mutate_row(
        &self,
        request: Request<CheckAndMutateRowRequest>,
    ) -> Answer<CheckAndMutateRowResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(CheckAndMutateRowResult { status: Some(status), result: None })),
        };
        let (key, name) = (key(request.row_key)?, table(&request.table_name));
        let (then, otherwise) = (request.true_mutations, request.false_mutations);
        let (status, held) = told(client.check_and_mutate(name, &key, request.predicate_filter, then, otherwise).await);
        let result = held.map(|predicate_matched| data::CheckAndMutateRowResponse { predicate_matched });
        Ok(Response::new(CheckAndMutateRowResult { status, result }))
    }

    async fn sample_row_keys(&self, request: Request<SampleRowKeysRequest>) -> Answer<SampleRowKeysResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => {
                return Ok(Response::new(SampleRowKeysResult { status: Some(status), samples: Vec::new() }));
            }
        };
        let (status, samples) = told(client.sample_row_keys(table(&request.table_name)).await);
        let sample = |sample: keyspan_bigtable::client::Sample| data::SampleRowKeysResponse {
            row_key: sample.key,
            offset_bytes: i64::try_from(sample.offset_bytes).unwrap_or(i64::MAX),
        };
        let samples = samples.unwrap_or_default().into_iter().map(sample).collect();
        Ok(Response::new(SampleRowKeysResult { status, samples }))
    }

    async fn read_modify_write_row(&self, request: Request<ReadModifyWriteRowRequest>) -> Answer<RowResult> {
        let outer = request.into_inner();
        let request = outer.request.unwrap_or_default();
        let client = match self.client(&outer.client_id) {
            Ok(client) => client,
            Err(status) => return Ok(Response::new(RowResult { status: Some(status), row: None })),
        };
        let key = key(request.row_key)?;
        let (status, row) = told(client.read_modify_write(table(&request.table_name), &key, request.rules).await);
        Ok(Response::new(RowResult { status, row: row.flatten() }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("a port is missing")?.parse()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    #[expect(clippy::print_stdout, reason = "for who started it")]
    {
        println!("running on {}", listener.local_addr()?);
    }
    let service = CloudBigtableV2TestProxyServer::from_arc(Arc::new(Proxy::default()));
    loop {
        let (tcp, _) = listener.accept().await?;
        let service = service.clone();
        let answer = service_fn(move |request: http::Request<Incoming>| service.clone().call(request));
        tokio::spawn(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), answer));
    }
}
