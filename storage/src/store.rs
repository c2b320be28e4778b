//! The trait that every backend implements.
//!
//! A write is a [`Commit`]. Its rows become visible together, or row by row, depending on the backend's [`Promises`].
//! A commit may name rows that it relied on reading at a [`Pin`]; the store refuses it with
//! [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if one of them changed since.

use crate::{
    Cell, ClockInfo, ColumnarScan, Error, Family, FamilyName, Filter, History, Inspection, KeyRange, Layouts, Load,
    LoadColumn, Mutation, PurgeReport, Result, Row, RowKey, Scan, SpanInfo, TableName, TableSchema, TimestampRange,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use std::{any::Any, collections::BTreeSet, fmt, sync::Arc};

/// Maximum rows in a batch of a [`RowStream`].
pub const BATCH_ROWS_MAX: usize = 1_024;
/// Bytes of rows after which a batch of a [`RowStream`] ends.
pub const BATCH_BYTES_TARGET: usize = 1 << 20;

/// Batches of rows in the scan's order; none is empty. Batches are bounded by [`BATCH_ROWS_MAX`] and
/// [`BATCH_BYTES_TARGET`]. The stream ends after an error.
pub type RowStream = BoxStream<'static, Result<Vec<Row>>>;

/// One state of a store, readable for as long as the pin lives. Cheap to clone.
#[derive(Clone)]
pub struct Pin {
    /// The stamp of its last commit, in microseconds.
    pub commit_micros: i64,
    /// The time at which reads at this pin evaluate GC rules, in microseconds.
    pub now_micros: i64,
    /// The backend's own state.
    pub state: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("commit_micros", &self.commit_micros).field("now_micros", &self.now_micros).finish()
    }
}

/// The unit in which a [`Commit`] becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Each row separately.
    Row,
    /// The whole commit.
    Commit,
}

/// How long what a GC rule has condemned stays away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcPromise {
    /// For ever: a condemned cell is removed before newer cells are deleted and before its rule is loosened.
    ForEver,
    /// While the rule condemns it: reads leave it out. Without the newer cells, or with a looser rule, it may be read
    /// again until the server has collected it.
    AtReads,
}

/// What a store promises of what not every store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// The unit in which a commit becomes visible. With [`Atomicity::Row`], a commit that relies on rows is of one
    /// row, and relies on this row alone.
    pub atomicity: Atomicity,
    /// Whether a pin keeps a state. Without, reads at a pin see the newest rows, each as it was at some moment of the
    /// read, and rules are judged as of now.
    pub snapshots: bool,
    /// Timestamps are multiples of this number of microseconds.
    pub timestamp_micros: i64,
    /// What holds of condemned cells.
    pub gc: GcPromise,
    /// Whether tables can keep [`History`].
    pub history: bool,
    /// Whether [`Store::purge`] and erased columns are offered.
    pub purge: bool,
    /// Whether families that count distinct inputs take writes.
    pub distinct_counts: bool,
    /// Whether [`Store::sample_row_keys`] ends with the last key of the table, and names only keys of rows.
    pub exact_samples: bool,
    /// Microseconds that a request takes at least, as an estimate for planners; 0 for a store in this process.
    pub round_trip_micros: u64,
}

impl Promises {
    /// Those of a store in this process: everything.
    pub const fn local() -> Self {
        Self {
            atomicity: Atomicity::Commit,
            snapshots: true,
            timestamp_micros: 1,
            gc: GcPromise::ForEver,
            history: true,
            purge: true,
            distinct_counts: true,
            exact_samples: true,
            round_trip_micros: 0,
        }
    }
}

/// The mutations of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMutation {
    /// The row.
    pub key: RowKey,
    /// Applied in order.
    pub mutations: Vec<Mutation>,
}

/// One part of a [`Commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Mutations of a row.
    Row {
        /// The table.
        table: TableName,
        /// The row and its mutations.
        row: RowMutation,
    },
    /// Deletes every row in a range, and its history: a purge.
    DeleteRange {
        /// The table.
        table: TableName,
        /// The rows; [`Store::drop_row_range`] refuses an empty prefix, so that nobody deletes all rows by mistake.
        range: KeyRange,
    },
}

/// The rows that a commit relied on.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The state in which they were read.
    pub pin: Pin,
    /// The rows; absent rows count as well.
    pub rows: Vec<(TableName, RowKey)>,
}

/// Writes that are committed together.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Applied in order; rows may repeat.
    pub writes: Vec<Write>,
    /// The rows that must not have changed. Cells that the store stamps in such a row are at least a microsecond newer
    /// than the newest cell of the row, so that a write that depends on a read is visible.
    pub validation: Option<Validation>,
}

impl Commit {
    /// A commit of one row, without validation.
    pub fn row(table: TableName, key: RowKey, mutations: Vec<Mutation>) -> Self {
        Self { writes: vec![Write::Row { table, row: RowMutation { key, mutations } }], validation: None }
    }
}

/// A change of a table's families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// Adds a family.
    Create(FamilyName, Family),
    /// Replaces the GC rule. What the old rule condemned stays condemned.
    SetGc(FamilyName, crate::GcRule),
    /// Removes a family and its cells.
    Drop(FamilyName),
    /// The columns of a family that are erased: [`TableSchema::erased`]. Their cells are gone from every read at once.
    SetErased(FamilyName, BTreeSet<Vec<u8>>),
    /// Keeps history for this number of microseconds, or drops it: see [`History`].
    SetHistory(Option<i64>),
}

/// A decision and the resulting mutations of a row, as one step.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckAndMutate {
    /// The row.
    pub key: RowKey,
    /// Holds if it returns a cell of the row; `None` holds if the row has any.
    pub predicate: Option<Filter>,
    /// Applied when it holds.
    pub then: Vec<Mutation>,
    /// Applied when it does not.
    pub otherwise: Vec<Mutation>,
}

/// A change of a column that depends on its newest cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadModifyWrite {
    /// Appends to the value; an absent cell counts as empty.
    Append {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// The bytes to append.
        value: Bytes,
    },
    /// Adds to the value, 8 bytes big-endian; an absent cell counts as zero. It wraps on overflow, as Bigtable's does.
    Increment {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// The summand.
        by: i64,
    },
}

/// The versions of rows that a table's history keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistorySize {
    /// Versions: one for each change of a row.
    pub versions: u64,
    /// Bytes of their keys and cells.
    pub bytes: u64,
}

/// A key, and the approximate bytes of the table before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSample {
    /// The key.
    pub key: RowKey,
    /// Bytes of the rows up to it.
    pub offset_bytes: u64,
}

/// A store of wide-column tables.
///
/// Reads see every commit that was acknowledged before they began. In a durable store, writes are durable when they
/// return.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Creates a table.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists); [`TooLarge`](crate::ErrorKind::TooLarge) above
    /// [`TABLES_MAX`](crate::model::limits::TABLES_MAX); errors of [`TableSchema::check`].
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()>;

    /// Drops a table and its rows.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    async fn drop_table(&self, table: &TableName) -> Result<()>;

    /// The tables, by name.
    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>>;

    /// The families of a table.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    async fn table(&self, table: &TableName) -> Result<TableSchema> {
        let tables = self.tables().await?;
        let found = tables.into_iter().find(|(name, _)| name == table);
        found.map(|(_, schema)| schema).ok_or_else(|| Error::NoTable(table.to_string()))
    }

    /// Changes families, all of the changes or none.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and errors of
    /// [`TableSchema::check`] for the result.
    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()>;

    /// Pins the newest state.
    async fn pin(&self) -> Result<Pin>;

    /// Pins the newest state for as long as the pin lives: it does not expire, so that purges wait for it. For
    /// statements of an operator that read everything of a tenant.
    async fn lasting_pin(&self) -> Result<Pin> {
        self.pin().await
    }

    /// Reads rows. Errors come from the stream, those of [`Scan::check`] first.
    fn scan(&self, table: &TableName, scan: Scan) -> RowStream;

    /// Keys that divide the table into parts of about equal size, ascending. The last is the last key of the table if
    /// the store promises [exact samples](Promises::exact_samples); else the keys may be those of no row.
    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>>;

    /// The same for estimates, which may be of a minute ago, and fewer.
    ///
    /// # Errors
    /// As above; a store may say so for a minute.
    async fn recent_samples(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.sample_row_keys(table).await
    }

    /// Applies the commit and returns its stamp in microseconds.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) if a validated row changed; violations of the data model or its limits.
    /// With [`Atomicity::Commit`] a refused commit has no effect.
    async fn commit(&self, commit: Commit) -> Result<i64>;

    /// Mutates many rows, each separately: returns a result for every row, in order.
    ///
    /// # Errors
    /// Only errors of the request as a whole: its size, the table, the store.
    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>>;

    /// Begins a load of new rows with cells in these columns. `None` if the client has to use commits: the store has no
    /// loads, the table keeps history, or as many loads are in progress as the store's memory permits.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); [`Invalid`](crate::ErrorKind::Invalid) for a column that is named
    /// twice or of an aggregate family.
    async fn load(&self, table: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        let _ = (table, columns);
        Ok(None)
    }

    /// Decides and mutates a row in one step; returns whether the predicate held.
    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool>;

    /// Changes columns of a row in one step; returns the written cells, in order.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an increment of a value that is not 8 bytes long, or in an aggregate
    /// family.
    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row>;

    /// Deletes every row whose key starts with `prefix`, and its history.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an empty prefix.
    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()>;

    /// Removes the bytes of deleted rows: when it returns, no file of the store holds a row of these ranges that was
    /// deleted before the call, and no manifest holds a key of one. Live rows stay. It may take as long as rewriting
    /// everything that overlaps the ranges, and waits for pins, or until they expire. Missing tables are ignored.
    /// Called again after an error or a crash, it begins anew with the rest.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) from a store that cannot promise it, which is the default; errors
    /// of the store.
    async fn purge(&self, ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        let _ = ranges;
        Err(Error::Unsupported("this store cannot promise that the bytes of deleted rows are gone".into()))
    }

    /// Removes the bytes of cells that are gone as [erased columns](TableSchema::erased) or with dropped families of
    /// these tables: when it returns, no file of the store holds such a cell that was gone before the call. It rewrites
    /// the tables, and waits for pins, or until they expire. Missing tables are ignored. Called again after an error or
    /// a crash, it begins anew.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    async fn purge_cells(&self, tables: &[TableName]) -> Result<PurgeReport> {
        let _ = tables;
        Err(Error::Unsupported("this store cannot promise that the bytes of deleted cells are gone".into()))
    }

    /// Counts the history of the rows in a range, at a pin or now: the versions that a table keeps. Nothing for a table
    /// without history.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); errors of the store.
    async fn history_size(&self, table: &TableName, rows: &KeyRange, pin: Option<Pin>) -> Result<HistorySize> {
        let _ = (table, rows, pin);
        Ok(HistorySize::default())
    }

    /// What the store's clock goes by; `None` for a store without one.
    fn clock(&self) -> Option<ClockInfo> {
        None
    }

    /// Trusts the wall clock as it is now: see [`HybridClock`](crate::clock::HybridClock). `None` for a store without a
    /// clock.
    fn confirm_clock(&self) -> Option<ClockInfo> {
        None
    }

    /// The size of the rows of a range, as they are now, without reading them; `None` for a store that cannot tell.
    /// May block to read the places of the range's ends in segments.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); errors of the store.
    fn span(&self, table: &TableName, rows: &KeyRange) -> Result<Option<SpanInfo>> {
        let _ = (table, rows);
        Ok(None)
    }

    /// The internals of the store, for operators; `None` if it shows none.
    fn inspect(&self) -> Option<Inspection> {
        None
    }

    /// What a table keeps of the past, as the store's next read would see it; `None` for a table without history.
    fn history(&self, table: &TableName) -> Option<History> {
        let _ = table;
        None
    }

    /// What the store promises.
    fn promises(&self) -> Promises;

    /// What the store promises of a table; it may keep tables in several places.
    fn promises_of(&self, table: &TableName) -> Promises {
        let _ = table;
        self.promises()
    }

    /// Sets the layouts of the store's tables, for future writes. A store without typed files ignores them.
    fn set_layouts(&self, layouts: Arc<dyn Layouts>) {
        drop(layouts);
    }

    /// The fast path for scans of many rows, if the store has one.
    fn columnar(&self) -> Option<&dyn ColumnarScan> {
        None
    }

    /// Finishes work in progress and stops. Later operations fail with [`Unavailable`](crate::ErrorKind::Unavailable).
    async fn close(&self) -> Result<()>;
}

/// Convenience methods of a [`Store`].
#[async_trait]
pub trait StoreExt: Store {
    /// Mutates one row.
    async fn mutate_row(&self, table: &TableName, key: RowKey, mutations: Vec<Mutation>) -> Result<()> {
        self.commit(Commit::row(table.clone(), key, mutations)).await.map(drop)
    }

    /// Reads one row; `None` when it is absent.
    async fn read_row(&self, table: &TableName, key: &RowKey, pin: Option<Pin>) -> Result<Option<Row>> {
        let scan = Scan { pin, ..Scan::of(KeyRange::point(key)) };
        Ok(self.scan(table, scan).try_next().await?.and_then(|mut rows| rows.pop()))
    }

    /// Reads all rows of a scan into memory: only for scans that are known to be small.
    async fn read_rows(&self, table: &TableName, scan: Scan) -> Result<Vec<Row>> {
        self.scan(table, scan).try_concat().await
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A stream of one error.
pub fn failed(error: Error) -> RowStream {
    futures::stream::once(async { Err(error) }).boxed()
}

/// A mutation that deletes the whole column.
pub fn delete_column(family: FamilyName, qualifier: Bytes) -> Mutation {
    Mutation::DeleteFromColumn { family, qualifier, timestamps: TimestampRange::all() }
}

/// Whether the cells are in [order](Cell::order), each column and timestamp once.
pub fn is_ordered(cells: &[Cell]) -> bool {
    cells.is_sorted_by(|a, b| a.order(b).is_lt())
}
