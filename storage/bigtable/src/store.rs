//! [`BigtableStore`]: the store over a Bigtable instance.
//!
//! Reads send the server a superset of what is asked for (`superset`), and [`RowReader`](row::RowReader) makes it
//! exact: rules of garbage collection hold at reads, whatever the server has collected.
//!
//! Each row that this store writes has a *guard*: one cell with a token that no other write has (`guard`). A commit of
//! one row that relied on it is one CheckAndMutateRow on that token. What a read saw is remembered at its pin (`pin`).
//! In a table that has the family [`GUARD_FAMILY`], the guard is the cell of the empty column there, which SQL's writes
//! set as the sign that a row exists; it is read as an empty value. Other tables that this store makes have a family of
//! their own for it, which no one sees.
//!
//! Timestamps are milliseconds. Cells always bring theirs, so that a write that is repeated writes the same cells.

mod convert;
mod guard;
mod pin;
mod rows;
mod schema;
mod superset;
mod tables;
mod writes;

use self::{guard::Tokens, pin::Relied, schema::Known};
use crate::{Client, Settings};
use async_trait::async_trait;
use bytes::Bytes;
use keyspan_storage::{
    Atomicity, CheckAndMutate, Clock, ClockInfo, Commit, Error, FamilyChange, GcPromise, Pin, Promises,
    ReadModifyWrite, Result, Row, RowKey, RowMutation, RowSample, RowStream, Scan, Store, TableName, TableSchema,
    clock::HybridClock, row,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

/// The family of the guard in tables that declare it.
pub const GUARD_FAMILY: &str = "_";
/// The family of the guard in tables that do not; it is not shown.
pub const HIDDEN_GUARD_FAMILY: &str = "_guard";
/// The granularity of timestamps, in microseconds.
const MILLI: i64 = 1_000;
/// How far stamps may run ahead of the clock, in microseconds, for being unique. Beyond, commits share a stamp.
const STAMP_AHEAD_MAX_MICROS: i64 = 1_000_000;
/// How long what is known of a table is used: others may change its families and rules.
const KNOWN_AGE_MAX: Duration = Duration::from_secs(60);

/// A Bigtable instance as a store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BigtableStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: Client,
    clock: HybridClock,
    /// The last stamp, in microseconds.
    stamped: AtomicI64,
    tokens: Tokens,
    /// Whether the application profile is known to permit single-row transactions.
    is_writable: AtomicBool,
    /// What is known of tables: at most as many as an instance has.
    known: Mutex<HashMap<TableName, Arc<Known>>>,
    closed: AtomicBool,
}

impl BigtableStore {
    /// A store over an instance. Nothing is asked of the server yet: one that is down fails the requests that need it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for settings that name no server; [`Error::Forbidden`] without credentials.
    pub fn new(settings: Settings, clock: Box<dyn Clock>) -> Result<Self> {
        // Not of the seed: two stores with the same would take each other's tokens for their own.
        let tokens = Tokens::new(rand::random());
        let client = Client::new(settings).map_err(convert::error)?;
        Ok(Self(Arc::new(Inner {
            client,
            clock: HybridClock::new(clock, 0),
            stamped: AtomicI64::new(0),
            tokens,
            is_writable: AtomicBool::new(false),
            known: Mutex::default(),
            closed: AtomicBool::new(false),
        })))
    }
}

impl Inner {
    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("it was closed".into()));
        }
        Ok(())
    }

    /// The time by which rules judge, in microseconds.
    fn now(&self) -> i64 {
        self.clock.now().max(self.stamped.load(Ordering::SeqCst))
    }

    /// The stamp of the next commit, in microseconds: a millisecond, later than every one before.
    fn stamp(&self) -> i64 {
        let now = self.clock.now() / MILLI * MILLI;
        let next = |last: i64| {
            let after = last + MILLI;
            if after > now + STAMP_AHEAD_MAX_MICROS { last } else { now.max(after) }
        };
        let last = self.stamped.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    /// What is known of a table, asked for if nothing is.
    async fn known(&self, table: &TableName) -> Result<Arc<Known>> {
        self.check_open()?;
        let held = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned();
        match held.filter(|known| known.learned.elapsed() < KNOWN_AGE_MAX) {
            Some(known) => Ok(known),
            None => self.refreshed(table).await,
        }
    }

    /// What the server says of a table now.
    async fn refreshed(&self, table: &TableName) -> Result<Arc<Known>> {
        self.check_open()?;
        let found = self.client.get_table(table.as_str()).await.map_err(|error| self.error(table, error))?;
        let known = Arc::new(Known::new(&found)?);
        let mut held = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= keyspan_storage::model::limits::TABLES_MAX {
            held.clear();
        }
        held.insert(table.clone(), known.clone());
        Ok(known)
    }

    fn forget(&self, table: &TableName) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(table);
    }

    /// The error of a request about a table. What was known of the table may be why.
    fn error(&self, table: &TableName, error: crate::Error) -> Error {
        use tonic::Code;
        if matches!(error.code(), Some(Code::NotFound | Code::FailedPrecondition | Code::InvalidArgument)) {
            self.forget(table);
        }
        match error.code() {
            Some(Code::NotFound) => Error::NoTable(table.to_string()),
            Some(Code::AlreadyExists) => Error::TableExists(table.to_string()),
            _ => convert::error(error),
        }
    }
}

#[async_trait]
impl Store for BigtableStore {
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        self.0.create_table(table, schema).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.0.check_open()?;
        self.0.forget(table);
        self.0.client.delete_table(table.as_str()).await.map_err(|error| self.0.error(table, error))
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        self.0.tables().await
    }

    async fn table(&self, table: &TableName) -> Result<TableSchema> {
        Ok(self.0.refreshed(table).await?.schema.clone())
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        self.0.modify_families(table, changes).await
    }

    async fn pin(&self) -> Result<Pin> {
        self.0.check_open()?;
        let now_micros = self.0.now();
        let commit_micros = self.0.stamped.load(Ordering::SeqCst);
        Ok(Pin { commit_micros, now_micros, state: Arc::new(Relied::default()) })
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        rows::scan(self.0.clone(), table.clone(), scan)
    }

    /// Keys of the server: they may be those of no row. The end of the table is left out.
    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.0.check_open()?;
        let samples = self.0.client.sample_row_keys(table.as_str()).await;
        let samples = samples.map_err(|error| self.0.error(table, error))?;
        let sample = |sample: crate::client::Sample| {
            RowKey::new(sample.key).ok().map(|key| RowSample { key, offset_bytes: sample.offset_bytes })
        };
        Ok(samples.into_iter().filter_map(sample).collect())
    }

    /// A commit that relies on rows is of one row, and relies on no other. Without, each row is written by itself:
    /// after an error, some may have been.
    async fn commit(&self, commit: Commit) -> Result<i64> {
        self.0.commit(commit).await
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        row::check_count(rows.iter().map(|row| row.mutations.len()).sum())?;
        self.0.mutate_rows(table, rows).await
    }

    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        self.0.check_and_mutate(table, request).await
    }

    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        self.0.read_modify_write(table, key, rules).await
    }

    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        self.0.check_open()?;
        if prefix.is_empty() {
            return Err(Error::Invalid("a prefix to drop is empty: that would be every row".into()));
        }
        let dropped = self.0.client.drop_row_range(table.as_str(), prefix).await;
        dropped.map_err(|error| self.0.error(table, error))
    }

    fn clock(&self) -> Option<ClockInfo> {
        Some(self.0.clock.info())
    }

    fn confirm_clock(&self) -> Option<ClockInfo> {
        Some(self.0.clock.confirm())
    }

    fn promises(&self) -> Promises {
        Promises {
            atomicity: Atomicity::Row,
            snapshots: false,
            timestamp_micros: MILLI,
            gc: GcPromise::AtReads,
            history: false,
            purge: false,
            distinct_counts: false,
            exact_samples: false,
            round_trip_micros: self.0.client.round_trip_micros(),
        }
    }

    /// Requests in progress end within their deadlines; connections go with the last of them.
    async fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
