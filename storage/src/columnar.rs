//! The fast path for scans of many rows: Parquet row groups that a query engine reads itself, and ordinary rows for the rest.
//!
//! A scan of typed columns asks a [`ColumnarScan`] for a [`Columnar`]. Its parts are files with row groups in which every wanted column
//! stands as it would be read (`clean`), each with the exact selection of positions: the living rows inside of the ranges. Rows that lie in
//! memory are read there ([`MemoryPart`]), without a copy between. Every other row (of row groups that are not clean) comes from the
//! [`Rest`]. Parts, memory and rest have no row in common, and together all rows of the scan: those of which any cell lives.
//!
//! A row group may hold rows of several owners. The selection is all that keeps them apart: nobody may widen it, nor draw
//! conclusions from statistics of a row group about the rows selected.

use crate::{ColumnKind, Error, FamilyName, Pin, Result, RowSet, RowStream, Scan, TableName};
use bytes::Bytes;
use futures::future::BoxFuture;
use parquet::{arrow::arrow_reader::RowSelection, file::metadata::ParquetMetaData};
use std::{
    fmt,
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// A store that gives row groups.
pub trait ColumnarScan: Send + Sync {
    /// Where the rows of the request are. May read files: called where blocking is allowed.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for the table, and what reading files finds.
    fn columnar(&self, table: &TableName, request: ColumnarRequest) -> Result<Columnar>;

    /// Whether the rows are so few that [`columnar`](Self::columnar) may be called for them where nobody should have to wait.
    fn runs_inline(&self, _table: &TableName, _request: &ColumnarRequest) -> bool {
        false
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct ColumnarRequest {
    /// Which rows.
    pub rows: RowSet,
    /// The newest cells of which columns.
    pub columns: Vec<RequestedColumn>,
    /// The [id](crate::KeyDecoder::id) of the decoder whose columns are wanted; with one, keys that it does not decode are in the rest.
    pub key: Option<String>,
    /// The state to read; `None` for the newest.
    pub pin: Option<Pin>,
}

/// A column and what it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedColumn {
    /// The family.
    pub family: FamilyName,
    /// The qualifier.
    pub qualifier: Bytes,
    /// What its values are; a row group in which the column is of another kind is not clean.
    pub kind: ColumnKind,
    /// The name of what its values are [held against](crate::Accepts); a row group whose values were not is not clean. `None` where any value
    /// of the kind will do.
    pub accepts: Option<&'static str>,
}

/// Where rows are.
#[derive(Clone, Debug)]
pub struct Columnar {
    /// Row groups, at most one part for each file.
    pub parts: Vec<ParquetPart>,
    /// Rows in memory, in pieces that may be read side by side.
    pub memory: Vec<MemoryPart>,
    /// All other rows.
    pub rest: Rest,
}

/// Row groups of one file.
#[derive(Clone, Debug)]
pub struct ParquetPart {
    /// The file.
    pub file: Arc<dyn PartFile>,
    /// What its footer says, with the page index.
    pub metadata: Arc<ParquetMetaData>,
    /// Row groups, ascending, and which of their rows; `None` for all. A selection is as long as its row group, and selects some row. One of
    /// many short runs is a [bitmap](RowSelection::as_mask).
    pub row_groups: Vec<(usize, Option<RowSelection>)>,
    /// Rows that are selected.
    pub rows: u64,
    /// Rows of these row groups that live no more; whoever wrote them.
    pub dead: u64,
    /// Each wanted column's name in the file; `None` when it is NULL in every selected row.
    pub columns: Vec<Option<String>>,
    /// The names of the decoder's columns in the file, in its order; empty when none were wanted.
    pub key_columns: Vec<String>,
    /// The name in the file of the column of row keys, as bytes.
    pub row_key: String,
    /// What the key of every selected row begins with, and is shown without.
    pub span: Bytes,
}

impl ParquetPart {
    /// The same rows, all of which lie in the span.
    #[must_use]
    pub fn in_span(self, span: Bytes) -> Self {
        Self { span, ..self }
    }
}

/// A file of a part. It stays readable for as long as the value lives, whatever happens to the store's files.
pub trait PartFile: fmt::Debug + Send + Sync + 'static {
    /// Its name, unique in the store.
    fn name(&self) -> String;
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// The bytes of the ranges, in their order.
    fn read(&self, ranges: &[Range<u64>]) -> BoxFuture<'static, Result<Vec<Bytes>>>;
}

/// Takes a row: its key, and the newest value of each wanted column, in the order of the request.
pub type TakeRow<'a> = dyn FnMut(&[u8], &[Option<&[u8]>]) -> ControlFlow<()> + 'a;

/// Rows in memory, at the pin of the request.
pub trait MemoryRows: fmt::Debug + Send + Sync + 'static {
    /// Gives the living rows behind the key `after`, ascending, until there are no more or `take` breaks. Computes, and reads no file.
    ///
    /// # Errors
    /// [`PinExpired`](crate::Error::PinExpired).
    fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()>;
}

/// A piece of the rows in memory.
#[derive(Clone, Debug)]
pub struct MemoryPart {
    rows_estimate: u64,
    /// What every key begins with, and is given without.
    span: Bytes,
    rows: Arc<dyn MemoryRows>,
}

impl MemoryPart {
    /// A piece of about so many rows.
    pub fn new(rows_estimate: u64, rows: Arc<dyn MemoryRows>) -> Self {
        Self { rows_estimate, span: Bytes::new(), rows }
    }

    /// The same rows, all of which lie in the span, with keys without it. A key that is nothing but the span has no row here.
    #[must_use]
    pub fn in_span(self, span: Bytes) -> Self {
        Self { span, ..self }
    }

    /// Rows, roughly.
    pub fn rows_estimate(&self) -> u64 {
        self.rows_estimate
    }

    /// See [`MemoryRows::read`].
    ///
    /// # Errors
    /// Those of [`MemoryRows::read`]; [`Error::Invalid`] for a row outside of the span.
    pub fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()> {
        if self.span.is_empty() {
            return self.rows.read(after, take);
        }
        let after = after.map(|after| [&self.span[..], after].concat());
        let mut is_outside = false;
        self.rows.read(after.as_deref(), &mut |key, values| match key.strip_prefix(&self.span[..]) {
            Some([]) => ControlFlow::Continue(()),
            Some(key) => take(key, values),
            None => {
                is_outside = true;
                ControlFlow::Break(())
            }
        })?;
        match is_outside {
            true => Err(Error::Invalid("a row outside of the span".into())),
            false => Ok(()),
        }
    }
}

type ReadRest = dyn Fn(Scan) -> RowStream + Send + Sync;

/// Rows that no part holds, at the pin of the request.
#[derive(Clone)]
pub struct Rest {
    rows_estimate: u64,
    /// `None` when there is no row for certain.
    read: Option<Arc<ReadRest>>,
}

impl Rest {
    /// Rows that `read` gives. It is asked for rows of the request only, of which it gives those that no part holds.
    pub fn new(rows_estimate: u64, read: impl Fn(Scan) -> RowStream + Send + Sync + 'static) -> Self {
        Self { rows_estimate, read: Some(Arc::new(read)) }
    }

    /// No row.
    pub const fn none() -> Self {
        Self { rows_estimate: 0, read: None }
    }

    /// Reads rows in the scan's order. The scan's own pin does not count; its rows lie in those of the request.
    pub fn scan(&self, scan: Scan) -> RowStream {
        match &self.read {
            Some(read) => read(scan),
            None => Box::pin(futures::stream::empty()),
        }
    }

    /// Whether there is no row for certain.
    pub fn is_empty(&self) -> bool {
        self.read.is_none()
    }

    /// Rows, roughly.
    pub fn rows_estimate(&self) -> u64 {
        self.rows_estimate
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("rows_estimate", &self.rows_estimate).field("empty", &self.is_empty()).finish()
    }
}
