//! A client of one instance: what all requests have in common, and those about one row.

use crate::{
    Error, Result, Settings,
    credentials::Credentials,
    rate::RateLimit,
    retry::{Operation, timed_out},
    settings::{MESSAGE_BYTES_MAX, TIMEOUT_MARGIN},
    transport::Connections,
    write::BYTES_IN_FLIGHT_MAX,
};
use base64::{Engine, engine::general_purpose::URL_SAFE};
use bytes::Bytes;
use keyspan_bigtable_api::{
    admin::bigtable_table_admin_client::BigtableTableAdminClient,
    data::{self, FeatureFlags, MutateRowRequest, SampleRowKeysRequest, bigtable_client::BigtableClient},
};
use keyspan_storage::RowKey;
use prost::Message;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tonic::{Request, Response, Status, codegen::http::Uri, metadata::AsciiMetadataValue};

/// What requests say of their sender.
const SENDER: &str = concat!("gl-rust/", env!("CARGO_PKG_RUST_VERSION"), " gccl/", env!("CARGO_PKG_VERSION"));

/// What a round trip is taken for before there was one: it stays within a region.
const ROUND_TRIP_GUESS_MICROS: u64 = 4_000;
/// One that takes longer has waited for something else.
const ROUND_TRIP_MAX_MICROS: u64 = 1_000_000;
/// The part of the latest round trip in what is known, as `1 / ROUND_TRIP_PART`.
const ROUND_TRIP_PART: u64 = 8;

/// A client of one instance. Cheap to clone; clones share connections and bounds.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Shared>);

/// What the clones of a client share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) data: BigtableClient<Connections>,
    pub(crate) admin: BigtableTableAdminClient<Connections>,
    /// Bytes of bulk writes that may still be sent.
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) rate: RateLimit,
    credentials: Option<Credentials>,
    features: AsciiMetadataValue,
    operations: AtomicU64,
    /// See [`Client::round_trip_micros`].
    round_trip: AtomicU64,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.settings.instance_name()).finish()
    }
}

/// A key, and the approximate bytes of the table before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The key, which may never have had a row; empty for the end of the table.
    pub key: Bytes,
    /// Bytes of the rows before it.
    pub offset_bytes: u64,
}

impl Client {
    /// A client; it makes its connections when they are needed.
    ///
    /// # Errors
    /// [`Error::Config`] for names or URIs that cannot be; [`Error::Credentials`] if there are none.
    pub fn new(settings: Settings) -> Result<Self> {
        settings.check()?;
        let uri = |text: &str| text.parse::<Uri>().map_err(|error| Error::Config(format!("{text}: {error}")));
        let (data_uri, admin_uri) = (uri(&settings.data_uri)?, uri(&settings.admin_uri)?);
        let connections = Connections::new(&data_uri)?;
        let of_admin = if admin_uri == data_uri { connections.clone() } else { Connections::new(&admin_uri)? };
        let data = BigtableClient::with_origin(connections, data_uri)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let admin = BigtableTableAdminClient::with_origin(of_admin, admin_uri);
        let credentials = settings.authenticated.then(Credentials::application_default).transpose()?;
        Ok(Self(Arc::new(Shared {
            settings,
            data,
            admin,
            in_flight: Arc::new(Semaphore::new(BYTES_IN_FLIGHT_MAX)),
            rate: RateLimit::default(),
            credentials,
            features: features()?,
            operations: AtomicU64::new(0),
            round_trip: AtomicU64::new(ROUND_TRIP_GUESS_MICROS),
        })))
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Microseconds from a small request to its answer, smoothed over the latest ones; before the first a guess.
    pub fn round_trip_micros(&self) -> u64 {
        self.0.round_trip.load(Ordering::Relaxed)
    }

    /// Awaits the answer of a small request, and takes its time into account.
    async fn timed<T>(&self, answer: impl Future<Output = T>) -> T {
        let asked = Instant::now();
        let answer = answer.await;
        self.answered(asked);
        answer
    }

    /// Takes the time of a small request into account.
    pub(crate) fn answered(&self, asked: Instant) {
        let took = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX).min(ROUND_TRIP_MAX_MICROS);
        let smooth = |known: u64| Some(known - known / ROUND_TRIP_PART + took / ROUND_TRIP_PART);
        let _ = self.0.round_trip.fetch_update(Ordering::Relaxed, Ordering::Relaxed, smooth);
    }

    /// Mutates one row.
    ///
    /// # Errors
    /// Those of the server. The request is repeated if `repeatable`: if it has no cell that the server stamps, and
    /// adds nothing.
    pub async fn mutate_row(
        &self,
        table: &str,
        key: &RowKey,
        mutations: Vec<data::Mutation>,
        repeatable: bool,
    ) -> Result<()> {
        let message = MutateRowRequest {
            table_name: self.0.settings.table_name(table),
            app_profile_id: self.0.settings.app_profile.clone(),
            row_key: key.bytes().clone(),
            mutations,
            ..MutateRowRequest::default()
        };
        let mut operation = self.operation();
        self.unary(&mut operation, table, message, repeatable, |request| {
            let mut client = self.0.data.clone();
            self.timed(async move { client.mutate_row(request).await })
        })
        .await
        .map(drop)
    }

    /// Applies one of two lists of mutations to a row, depending on whether the predicate returns a cell of it, or the
    /// row has any; returns whether it did. It is never repeated: a second attempt would see what the first did.
    ///
    /// # Errors
    /// Those of the server; the outcome may be [unknown](Error::is_outcome_unknown).
    pub async fn check_and_mutate(
        &self,
        table: &str,
        key: &RowKey,
        predicate: Option<data::RowFilter>,
        then: Vec<data::Mutation>,
        otherwise: Vec<data::Mutation>,
    ) -> Result<bool> {
        let message = data::CheckAndMutateRowRequest {
            table_name: self.0.settings.table_name(table),
            app_profile_id: self.0.settings.app_profile.clone(),
            row_key: key.bytes().clone(),
            predicate_filter: predicate,
            true_mutations: then,
            false_mutations: otherwise,
            ..data::CheckAndMutateRowRequest::default()
        };
        let mut operation = self.operation();
        let answer = self.unary(&mut operation, table, message, false, |request| {
            let mut client = self.0.data.clone();
            self.timed(async move { client.check_and_mutate_row(request).await })
        });
        Ok(answer.await?.predicate_matched)
    }

    /// Appends to values and adds to them; returns the new cells. It is never repeated.
    ///
    /// # Errors
    /// Those of the server; the outcome may be [unknown](Error::is_outcome_unknown).
    pub async fn read_modify_write(
        &self,
        table: &str,
        key: &RowKey,
        rules: Vec<data::ReadModifyWriteRule>,
    ) -> Result<Option<data::Row>> {
        let message = data::ReadModifyWriteRowRequest {
            table_name: self.0.settings.table_name(table),
            app_profile_id: self.0.settings.app_profile.clone(),
            row_key: key.bytes().clone(),
            rules,
            ..data::ReadModifyWriteRowRequest::default()
        };
        let mut operation = self.operation();
        let answer = self.unary(&mut operation, table, message, false, |request| {
            let mut client = self.0.data.clone();
            self.timed(async move { client.read_modify_write_row(request).await })
        });
        Ok(answer.await?.row)
    }

    /// Keys that cut the table into parts of about equal size.
    ///
    /// # Errors
    /// Those of the server; [`Error::Protocol`] for keys out of order.
    pub async fn sample_row_keys(&self, table: &str) -> Result<Vec<Sample>> {
        let message = SampleRowKeysRequest {
            table_name: self.0.settings.table_name(table),
            app_profile_id: self.0.settings.app_profile.clone(),
            ..SampleRowKeysRequest::default()
        };
        let mut operation = self.operation();
        loop {
            let attempt = async {
                let request = self.request(table, message.clone(), &operation).await?;
                let mut stream = self.0.data.clone().sample_row_keys(request).await.map_err(Error::from)?.into_inner();
                let mut samples = Vec::new();
                while let Some(sample) = stream.message().await? {
                    let offset_bytes = u64::try_from(sample.offset_bytes).unwrap_or(0);
                    samples.push(Sample { key: sample.row_key, offset_bytes });
                }
                Ok(samples)
            };
            let attempted = timeout(operation.attempt_timeout(Instant::now()), attempt).await;
            match attempted.unwrap_or_else(|_| Err(timed_out().into())) {
                Ok(samples) => return checked(samples),
                Err(Error::Status(failure)) => sleep(operation.again(*failure, Instant::now())?).await,
                Err(other) => return Err(other),
            }
        }
    }

    /// The attempts of a call.
    pub(crate) fn operation(&self) -> Operation {
        self.operation_within(self.0.settings.operation_timeout, self.0.settings.attempt_timeout)
    }

    /// The attempts of a call that may take this long, and each of them that long.
    pub(crate) fn operation_within(&self, most: Duration, attempt: Duration) -> Operation {
        let number = self.0.operations.fetch_add(1, Ordering::Relaxed);
        Operation::new(Instant::now(), most, attempt, self.0.settings.seed.wrapping_add(number))
    }

    /// One request with one answer, repeated if it may be.
    pub(crate) async fn unary<Q, A, F>(
        &self,
        operation: &mut Operation,
        table: &str,
        message: Q,
        repeatable: bool,
        send: impl Fn(Request<Q>) -> F,
    ) -> Result<A>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        loop {
            let most = operation.attempt_timeout(Instant::now());
            let mut request = self.request(table, message.clone(), operation).await?;
            request.set_timeout(most + TIMEOUT_MARGIN);
            let answer = timeout(most, send(request)).await.unwrap_or_else(|_| Err(timed_out()));
            match answer {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(failure) if repeatable => sleep(operation.again(failure, Instant::now())?).await,
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// A request with the headers that route it, say what this client understands, and who sends it.
    pub(crate) async fn request<Q>(&self, table: &str, message: Q, operation: &Operation) -> Result<Request<Q>> {
        let settings = &self.0.settings;
        let mut request = Request::new(message);
        let headers = request.metadata_mut();
        // Administration has no profile; a parameter that a service does not know is ignored.
        let (name, profile) = (settings.table_name(table), &settings.app_profile);
        let route = format!("table_name={}&app_profile_id={}", percent(&name), percent(profile));
        headers.insert("x-goog-request-params", header(&route)?);
        headers.insert("google-cloud-resource-prefix", header(&settings.instance_name())?);
        headers.insert("x-goog-api-client", AsciiMetadataValue::from_static(SENDER));
        headers.insert("bigtable-features", self.0.features.clone());
        headers.insert("bigtable-attempt", AsciiMetadataValue::from(operation.failures()));
        operation.add_cookies(headers);
        if let Some(credentials) = &self.0.credentials {
            let mut token = header(&credentials.header().await?)?;
            token.set_sensitive(true);
            headers.insert("authorization", token);
        }
        Ok(request)
    }
}

fn features() -> Result<AsciiMetadataValue> {
    let flags = FeatureFlags {
        reverse_scans: true,
        mutate_rows_rate_limit: true,
        mutate_rows_rate_limit2: true,
        last_scanned_row_responses: true,
        routing_cookie: true,
        retry_info: true,
        ..FeatureFlags::default()
    };
    header(&URL_SAFE.encode(flags.encode_to_vec()))
}

fn header(text: &str) -> Result<AsciiMetadataValue> {
    AsciiMetadataValue::try_from(text).map_err(|_| Error::Config("a header has a character that none can have".into()))
}

/// The text as a value of `x-goog-request-params`.
fn percent(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn checked(samples: Vec<Sample>) -> Result<Vec<Sample>> {
    let keys = samples.iter().map(|sample| &sample.key);
    // The end of the table, an empty key, comes last.
    let keys: Vec<_> = keys.rev().skip_while(|key| key.is_empty()).collect();
    if !keys.is_sorted_by(|later, earlier| later >= earlier) {
        return Err(Error::Protocol("sampled keys do not ascend"));
    }
    Ok(samples)
}
