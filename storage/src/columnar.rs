//! The fast path for scans of many rows: Parquet row groups that a query engine reads itself, and ordinary rows for the
//! rest.
//!
//! A scan of typed columns asks a [`ColumnarScan`] for a [`Columnar`]. Its parts are files with *clean* row groups, in
//! which every requested column holds exactly what a scan would return, each with the exact selection of positions: the
//! live rows inside the ranges. Rows in memtables are read in memory without an intermediate copy ([`MemoryPart`]). All
//! other rows (those of row groups that are not clean) come from the [`Rest`]. Parts, memory and rest are disjoint, and
//! together they are all rows of the scan: those with at least one live cell.
//!
//! A request names the [span](ColumnarRequest::span) of keys that its caller may read. A row group may hold rows beyond
//! it, those of other owners: it is a *border row group*, and only the selection keeps the owners apart. Its statistics
//! (extremes, counts of NULLs, page index, bloom filters) tell about all rows, so that a predicate that is held against
//! them would tell the caller other owners' values. They are not handed out: a part of border row groups has metadata
//! without them ([`ParquetPart::is_border`]). A row group that lies in the span as a whole keeps its statistics, even
//! if the request reads some of its rows only, or some of them are dead: those are the caller's own too, since a
//! segment that holds live rows of a span holds none that was deleted with an earlier owner of the same span.
//!
//! Row groups are not cut at the borders of owners when they are written instead: a table of many small owners would
//! have many tiny row groups, and each column chunk has its own dictionary, pages and entry in the footer.

use crate::{ColumnKind, Error, FamilyName, KeyRange, Pin, Result, RowSet, RowStream, Scan, TableName};
use bytes::Bytes;
use futures::future::BoxFuture;
use parquet::{
    arrow::{ARROW_SCHEMA_META_KEY, arrow_reader::RowSelection},
    file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData},
};
use std::{
    fmt,
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// A store that serves row groups.
pub trait ColumnarScan: Send + Sync {
    /// Finds the rows of the request. May read files: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) for the table, and errors of reading files.
    fn columnar(&self, table: &TableName, request: ColumnarRequest) -> Result<Columnar>;

    /// Keys that cut the rows into about `parts` parts of about equal size, as far as they lie in segments, for scans
    /// by rows that run side by side. Reads metadata of files: call it where blocking is allowed.
    ///
    /// # Errors
    /// As [`columnar`](Self::columnar).
    fn cuts(&self, _table: &TableName, _rows: &RowSet, _pin: Option<&Pin>, _parts: usize) -> Result<Cuts> {
        Ok(Cuts::default())
    }

    /// Whether the rows are so few that [`columnar`](Self::columnar) may run on the caller's thread.
    fn runs_inline(&self, _table: &TableName, _request: &ColumnarRequest) -> bool {
        false
    }

    /// How many rows there are at most, if they are so few that [`scan`](crate::Store::scan) reads them on the caller's
    /// thread, in less time than [`columnar`](Self::columnar) takes to find them.
    fn few_rows(&self, _table: &TableName, _rows: &RowSet) -> Option<u64> {
        None
    }
}

/// Where a scan by rows may be cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Keys, ascending, each of which begins a part. None if the rows are too few, or are not known.
    pub keys: Vec<Bytes>,
    /// Rows of segments, dead ones too, that the scan reads at most.
    pub rows: u64,
}

/// The rows and columns of a columnar scan.
#[derive(Clone, Debug)]
pub struct ColumnarRequest {
    /// The rows.
    pub rows: RowSet,
    /// All keys that the caller may read, those of `rows` among them. It learns nothing of values beyond them.
    pub span: KeyRange,
    /// Columns whose newest cells are read.
    pub columns: Vec<RequestedColumn>,
    /// The [id](crate::KeyDecoder::id) of the decoder whose columns are requested; keys that it does not decode are
    /// then in the rest.
    pub key: Option<String>,
    /// Whether row groups without these columns will do too: their parts have no
    /// [`key_columns`](ParquetPart::key_columns), and the caller decodes the row keys.
    pub or_row_key: bool,
    /// The state to read; `None` for the newest.
    pub pin: Option<Pin>,
}

/// A column and the requirements on its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedColumn {
    /// The family.
    pub family: FamilyName,
    /// The qualifier.
    pub qualifier: Bytes,
    /// Kind of the values; a row group that stores the column with another kind is not clean.
    pub kind: ColumnKind,
    /// Name of the check that the values must have passed when they were written, see [`Accepts`](crate::Accepts); a
    /// row group without that check is not clean. `None` if any value of the kind will do.
    pub accepts: Option<&'static str>,
    /// Whether a file that has the column as bytes, unchecked, will do too: its part [says so](ParquetPart::bytes).
    /// Segments have columns of bytes that were written before the column had its kind, or that several owners share.
    pub or_bytes: bool,
}

/// The location of the rows of a scan.
#[derive(Clone, Debug)]
pub struct Columnar {
    /// Row groups: for each file at most one part of those in the request's span, and one of border row groups; twice
    /// if only some have the requested columns of the key.
    pub parts: Vec<ParquetPart>,
    /// Rows in memory, in pieces that may be read in parallel.
    pub memory: Vec<MemoryPart>,
    /// All other rows.
    pub rest: Rest,
}

/// Row groups of one file.
#[derive(Clone, Debug)]
pub struct ParquetPart {
    /// The file.
    pub file: Arc<dyn PartFile>,
    /// The metadata of its footer, with the page index. Of border row groups: of these only, without statistics.
    pub metadata: Arc<ParquetMetaData>,
    /// Whether these are border row groups: each holds rows beyond the request's span. Their sizes, in the metadata and
    /// as bytes that are read, depend on the values of these rows: they must not be shown to the caller.
    pub is_border: bool,
    /// Row groups by their index in the metadata, ascending, and which of their rows; `None` for all. A selection is as
    /// long as its row group, and selects at least one row. A selection of many short runs is a
    /// [bitmap](RowSelection::as_mask).
    pub row_groups: Vec<(usize, Option<RowSelection>)>,
    /// Number of selected rows.
    pub rows: u64,
    /// Each requested column's name in the file; `None` if it is NULL in every selected row.
    pub columns: Vec<Option<String>>,
    /// By requested column: whether the file has it as bytes, in place of the requested kind.
    pub bytes: Vec<bool>,
    /// The names of the decoder's columns in the file, in its order; empty if none were requested, or the row groups do
    /// not have them.
    pub key_columns: Vec<String>,
    /// The name in the file of the column of row keys, as bytes.
    pub row_key: String,
    /// Prefix of the key of every selected row, which readers strip.
    pub span: Bytes,
}

impl ParquetPart {
    /// The same rows, all of which lie in the span.
    #[must_use]
    pub fn in_span(self, span: Bytes) -> Self {
        Self { span, ..self }
    }

    /// Divides the row groups into those that have the columns of the key, which `has_key` tells by their index, and
    /// the others.
    #[must_use]
    pub(crate) fn with_key(self, key_columns: Vec<String>, has_key: impl Fn(usize) -> bool) -> Vec<Self> {
        let (with, without): (Vec<_>, Vec<_>) = self.row_groups.iter().cloned().partition(|(at, _)| has_key(*at));
        let parts = [(with, key_columns), (without, Vec::new())].into_iter();
        let parts = parts.filter(|(row_groups, _)| !row_groups.is_empty());
        let part = |(row_groups, key_columns): (Vec<_>, _)| {
            let rows = row_groups.iter().map(|group| self.selected_rows(group)).sum();
            Self { row_groups, key_columns, rows, ..self.clone() }
        };
        parts.map(part).collect()
    }

    /// Number of selected rows of a row group.
    fn selected_rows(&self, (at, selection): &(usize, Option<RowSelection>)) -> u64 {
        match selection {
            Some(selection) => selection.row_count() as u64,
            None => u64::try_from(self.metadata.row_group(*at).num_rows()).unwrap_or_default(),
        }
    }

    /// Divides the row groups into those in the request's span, which `is_own` tells by their index, and border row
    /// groups, whose statistics are removed.
    #[must_use]
    pub fn divided(self, is_own: impl Fn(usize) -> bool) -> Vec<Self> {
        let (own, border): (Vec<_>, Vec<_>) = self.row_groups.iter().cloned().partition(|(at, _)| is_own(*at));
        let rows = |groups: &[_]| groups.iter().map(|group| self.selected_rows(group)).sum();
        let mut parts = Vec::new();
        if !border.is_empty() {
            let indexes: Vec<usize> = border.iter().map(|(at, _)| *at).collect();
            let metadata = Arc::new(without_statistics(&self.metadata, &indexes));
            let rows = rows(&border);
            let row_groups = border.into_iter().map(|(_, selection)| selection).enumerate().collect();
            parts.push(Self { metadata, is_border: true, row_groups, rows, ..self.clone() });
        }
        if !own.is_empty() {
            let rows = rows(&own);
            parts.push(Self { row_groups: own, rows, ..self });
        }
        parts
    }
}

/// The metadata of some row groups of a file, by their index, with only what a reader needs to decode their columns.
/// What is not listed here is not passed on.
fn without_statistics(whole: &ParquetMetaData, row_groups: &[usize]) -> ParquetMetaData {
    let file = whole.file_metadata();
    let types = file.key_value_metadata().map(|pairs| {
        let types = pairs.iter().filter(|pair| pair.key == ARROW_SCHEMA_META_KEY);
        types.cloned().collect()
    });
    let rows = row_groups.iter().map(|at| whole.row_group(*at).num_rows()).sum();
    let described = file.schema_descr_ptr();
    let orders = file.column_orders().cloned();
    let file = FileMetaData::new(file.version(), rows, None, types, described, orders);
    let offsets = whole.offset_index().map(|index| row_groups.iter().map(|at| index[*at].clone()).collect());
    ParquetMetaDataBuilder::new(file)
        .set_row_groups(row_groups.iter().map(|at| bare_row_group(whole.row_group(*at))).collect())
        .set_offset_index(offsets)
        .build()
}

fn bare_row_group(group: &RowGroupMetaData) -> RowGroupMetaData {
    let mut bare = RowGroupMetaData::builder(group.schema_descr_ptr())
        .set_num_rows(group.num_rows())
        .set_total_byte_size(group.total_byte_size())
        .set_column_metadata(group.columns().iter().map(bare_column).collect());
    if let Some(ordinal) = group.ordinal() {
        bare = bare.set_ordinal(ordinal);
    }
    bare.build().expect("it has the columns of the schema, as the row group that was read")
}

fn bare_column(column: &ColumnChunkMetaData) -> ColumnChunkMetaData {
    let bare = ColumnChunkMetaData::builder(column.column_descr_ptr())
        .set_encodings_mask(*column.encodings_mask())
        .set_num_values(column.num_values())
        .set_compression_codec(column.compression_codec())
        .set_total_compressed_size(column.compressed_size())
        .set_total_uncompressed_size(column.uncompressed_size())
        .set_data_page_offset(column.data_page_offset())
        .set_dictionary_page_offset(column.dictionary_page_offset())
        .set_unencoded_byte_array_data_bytes(column.unencoded_byte_array_data_bytes())
        .build();
    bare.expect("a chunk with all that was read of another")
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

/// Receives a row: its key, and the newest value of each requested column, in the order of the request.
pub type TakeRow<'a> = dyn FnMut(&[u8], &[Option<&[u8]>]) -> ControlFlow<()> + 'a;

/// Rows in memory, at the pin of the request.
pub trait MemoryRows: fmt::Debug + Send + Sync + 'static {
    /// Passes the live rows after the key `after` to `take`, ascending, until there are no more or `take` breaks.
    /// Computes only, and reads no file.
    ///
    /// # Errors
    /// [`PinExpired`](crate::Error::PinExpired).
    fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()>;
}

/// A piece of the rows in memory.
#[derive(Clone, Debug)]
pub struct MemoryPart {
    rows_estimate: u64,
    /// Prefix of every key, which readers strip.
    span: Bytes,
    rows: Arc<dyn MemoryRows>,
}

impl MemoryPart {
    /// A piece of about `rows_estimate` rows.
    pub fn new(rows_estimate: u64, rows: Arc<dyn MemoryRows>) -> Self {
        Self { rows_estimate, span: Bytes::new(), rows }
    }

    /// The same rows, all of which lie in the span, with keys without it. A key equal to the span is skipped.
    #[must_use]
    pub fn in_span(self, span: Bytes) -> Self {
        Self { span, ..self }
    }

    /// Estimated number of rows.
    pub fn rows_estimate(&self) -> u64 {
        self.rows_estimate
    }

    /// See [`MemoryRows::read`].
    ///
    /// # Errors
    /// Errors of [`MemoryRows::read`]; [`Error::Invalid`] for a row outside the span.
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
    /// `None` if it certainly has no rows.
    read: Option<Arc<ReadRest>>,
}

impl Rest {
    /// Rows that `read` returns. `read` is only asked for rows of the request, and returns those that no part holds.
    pub fn new(rows_estimate: u64, read: impl Fn(Scan) -> RowStream + Send + Sync + 'static) -> Self {
        Self { rows_estimate, read: Some(Arc::new(read)) }
    }

    /// No row.
    pub const fn none() -> Self {
        Self { rows_estimate: 0, read: None }
    }

    /// Reads rows in the scan's order. The scan's own pin is ignored; its rows must lie in those of the request.
    pub fn scan(&self, scan: Scan) -> RowStream {
        match &self.read {
            Some(read) => read(scan),
            None => Box::pin(futures::stream::empty()),
        }
    }

    /// Whether it certainly has no rows.
    pub fn is_empty(&self) -> bool {
        self.read.is_none()
    }

    /// Estimated number of rows.
    pub fn rows_estimate(&self) -> u64 {
        self.rows_estimate
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("rows_estimate", &self.rows_estimate).field("empty", &self.is_empty()).finish()
    }
}
