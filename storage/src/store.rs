//! The trait that every backend implements.
//!
//! A write is a [`Commit`]: the rows of one commit become visible together where the backend's [`Atomicity`] says so, and row by
//! row elsewhere. A commit may name rows that it relied on reading at a [`Pin`]; the store refuses it with
//! [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) when one of them changed since.

use crate::{
    Cell, ColumnarScan, Error, Family, FamilyName, Filter, Inspection, KeyRange, Layouts, Load, LoadColumn, Mutation,
    PurgeReport, Result, Row, RowKey, Scan, TableName, TableSchema, TimestampRange,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use std::{any::Any, fmt, sync::Arc};

/// Rows in a batch of a [`RowStream`], at most.
pub const BATCH_ROWS_MAX: usize = 1_024;
/// Bytes of rows after which a batch of a [`RowStream`] ends.
pub const BATCH_BYTES_TARGET: usize = 1 << 20;

/// Batches of rows in the scan's order; none is empty. Batches are bounded by [`BATCH_ROWS_MAX`] and [`BATCH_BYTES_TARGET`].
/// After an error there is nothing more.
pub type RowStream = BoxStream<'static, Result<Vec<Row>>>;

/// One state of a store, readable for as long as the pin lives. Cheap to clone.
#[derive(Clone)]
pub struct Pin {
    /// The stamp of the last commit in it, in microseconds.
    pub commit_micros: i64,
    /// The time by which reads at this pin judge what is condemned, in microseconds.
    pub now_micros: i64,
    /// The backend's own.
    pub state: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("commit_micros", &self.commit_micros).field("now_micros", &self.now_micros).finish()
    }
}

/// What a [`Commit`] makes visible together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Each row by itself.
    Row,
    /// All that is in it.
    Commit,
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
        /// The row and what is done to it.
        row: RowMutation,
    },
    /// Deletes every row in a range, and what the table's history keeps of them: a purge.
    DeleteRange {
        /// The table.
        table: TableName,
        /// The rows; never all of them by mistake: [`Store::drop_row_range`] refuses an empty prefix.
        range: KeyRange,
    },
}

/// The rows that a commit relied on.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The state in which they were read.
    pub pin: Pin,
    /// The rows; one that was absent counts as well.
    pub rows: Vec<(TableName, RowKey)>,
}

/// Writes that belong together.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Applied in order; rows may repeat.
    pub writes: Vec<Write>,
    /// What must not have changed. Cells that the store stamps in such a row are newer by a microsecond at least than the
    /// newest cell of the row, so that what was written on the strength of a read is seen.
    pub validation: Option<Validation>,
}

impl Commit {
    /// One row, blindly.
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
    /// Keeps what rows held for so many microseconds, or forgets it: see [`History`](crate::History).
    SetHistory(Option<i64>),
}

/// A decision and the mutations of a row that follow from it, as one step.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckAndMutate {
    /// The row.
    pub key: RowKey,
    /// Holds when it leaves a cell of the row; `None` when the row has any.
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
        /// What is appended.
        value: Bytes,
    },
    /// Adds to the value, 8 bytes big-endian; an absent cell counts as zero. It wraps on overflow, as Bigtable's does.
    Increment {
        /// The family.
        family: FamilyName,
        /// The column.
        qualifier: Bytes,
        /// What is added.
        by: i64,
    },
}

/// A key and how many bytes of the table lie before it, roughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSample {
    /// The key.
    pub key: RowKey,
    /// Bytes of the rows up to it.
    pub offset_bytes: u64,
}

/// A store of wide-column tables.
///
/// Reads see every commit that was acknowledged before they began. Writes are durable when they return, in a store that is.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Creates a table.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists); [`TooLarge`](crate::ErrorKind::TooLarge) above
    /// [`TABLES_MAX`](crate::model::limits::TABLES_MAX); what [`TableSchema::check`] finds.
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()>;

    /// Drops a table and its rows.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    async fn drop_table(&self, table: &TableName) -> Result<()>;

    /// The tables, by name.
    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>>;

    /// Changes families, all of the changes or none.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound), [`AlreadyExists`](crate::ErrorKind::AlreadyExists), and what
    /// [`TableSchema::check`] finds in the result.
    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()>;

    /// Holds on to the newest state.
    async fn pin(&self) -> Result<Pin>;

    /// Reads rows. Errors come from the stream, those of [`Scan::check`] first.
    fn scan(&self, table: &TableName, scan: Scan) -> RowStream;

    /// Keys that cut the table into parts of about equal size, ascending; the last is the last key.
    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>>;

    /// Applies the commit and gives its stamp in microseconds.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when a validated row changed; what breaks the data model or its limits. With
    /// [`Atomicity::Commit`] nothing of a refused commit is seen.
    async fn commit(&self, commit: Commit) -> Result<i64>;

    /// Mutates many rows, each by itself: a result for every row, in order.
    ///
    /// # Errors
    /// Only what concerns the request as a whole: its size, the table, the store.
    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>>;

    /// Begins a load of new rows with cells in these columns. `None` where commits must do: by a store that knows no other way, for a table
    /// that keeps history, and while as many loads are under way as the store's memory has room for.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound); [`Invalid`](crate::ErrorKind::Invalid) for a column that is named twice or of an aggregate
    /// family.
    async fn load(&self, table: &TableName, columns: &[LoadColumn]) -> Result<Option<Box<dyn Load>>> {
        let _ = (table, columns);
        Ok(None)
    }

    /// Decides and mutates a row in one step; whether the predicate held.
    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool>;

    /// Changes columns of a row in one step; the cells written, in order.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) when an increment meets a value that is not 8 bytes long, or in an aggregate
    /// family.
    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row>;

    /// Deletes every row whose key starts with `prefix`, and what the table's history keeps of them.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for an empty prefix.
    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()>;

    /// Makes the bytes of deleted rows go: when it returns, no file of the store holds a row of these ranges that was deleted before
    /// the call, and no manifest a key of one. Rows that live stay. It may take as long as rewriting all that the ranges touch, and
    /// waits for pins, or lets them expire. A table that is not there has nothing to go. Called again after an error or a crash, it
    /// begins anew with what is left.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) by a store that cannot promise it, which is what the trait says for those that
    /// do not say otherwise; the store's.
    async fn purge(&self, ranges: &[(TableName, KeyRange)]) -> Result<PurgeReport> {
        let _ = ranges;
        Err(Error::Unsupported("this store cannot promise that the bytes of deleted rows are gone".into()))
    }

    /// The inside of the store, for those who operate it; `None` for a store that shows nothing of it.
    fn inspect(&self) -> Option<Inspection> {
        None
    }

    /// What a commit makes visible together.
    fn atomicity(&self) -> Atomicity;

    /// Tells the store how its tables are laid out, for what it writes from now on. A store without typed files does not care.
    fn set_layouts(&self, layouts: Arc<dyn Layouts>) {
        drop(layouts);
    }

    /// The fast path for scans of many rows, in a store that has one.
    fn columnar(&self) -> Option<&dyn ColumnarScan> {
        None
    }

    /// Finishes what is under way and stops. Later operations fail with
    /// [`Unavailable`](crate::ErrorKind::Unavailable).
    async fn close(&self) -> Result<()>;
}

/// Comforts over [`Store`].
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

    /// Reads all rows of a scan into memory: for scans that are known to be small.
    async fn read_rows(&self, table: &TableName, scan: Scan) -> Result<Vec<Row>> {
        self.scan(table, scan).try_concat().await
    }

    /// The families of a table.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound).
    async fn table(&self, table: &TableName) -> Result<TableSchema> {
        let tables = self.tables().await?;
        let found = tables.into_iter().find(|(name, _)| name == table);
        found.map(|(_, schema)| schema).ok_or_else(|| Error::NoTable(table.to_string()))
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A stream that gives one error.
pub fn failed(error: Error) -> RowStream {
    futures::stream::once(async { Err(error) }).boxed()
}

/// Deletes the whole column: a comfort for writers.
pub fn delete_column(family: FamilyName, qualifier: Bytes) -> Mutation {
    Mutation::DeleteFromColumn { family, qualifier, timestamps: TimestampRange::all() }
}

/// Whether the cells are in [order](Cell::order), each column and timestamp once.
pub fn is_ordered(cells: &[Cell]) -> bool {
    cells.is_sorted_by(|a, b| a.order(b).is_lt())
}
