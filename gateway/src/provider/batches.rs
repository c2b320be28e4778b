//! Rows of the store as batches.
//!
//! A [`BatchReader`] asks the store for rows, passes them to the [layout](super::decode::Layout), and yields batches
//! bounded in rows and bytes. What it reads is charged to the scan budget and counted for its table on the way: once,
//! where several streams read parts of one scan.

use super::{
    decode::{BatchBuilder, FEW_ROWS, Layout, RowLayout},
    pushdown::Shape,
};
use crate::{heat::counter::Counter, pg::error::SqlError, shares::work::TableWork, view::View};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    error::DataFusionError, execution::SendableRecordBatchStream, physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::TryStreamExt;
use keyspan_catalog::Table;
use keyspan_storage::{Columns, KeyRange, Rest, Row, RowKey, RowSet, RowStream, Scan, ScanMetrics, TimestampRange};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The most rows of a batch; a session's batch size may be smaller.
pub const BATCH_ROWS_MAX: usize = 8_192;
/// A batch ends with the row that reaches this many bytes of values; smaller batches have a share of it
/// ([`batch_bytes_max`]).
pub const BATCH_BYTES_TARGET: usize = 8 << 20;

/// Which rows and cells a scan reads.
#[derive(Clone, Debug)]
pub struct Read {
    /// The ranges of keys.
    pub rows: RowSet,
    /// The families and qualifiers.
    pub columns: Columns,
    /// The timestamps of cells.
    pub timestamps: TimestampRange,
    /// The most versions of each column, newest first; `None` for all.
    pub versions_max: Option<u32>,
    /// Whether a row without a cell in these columns is returned.
    pub keep_empty: bool,
    /// Whether rows come in descending key order.
    pub reversed: bool,
    /// The most rows of the result.
    pub limit: Option<usize>,
}

/// Reads rows without a plan.
pub fn rows(view: &View, table: &Arc<Table>, read: Read, layout: Arc<dyn Layout>) -> FoundRows {
    let reader = BatchReader::new(view, table, read, layout);
    if let Some(work) = &reader.work {
        work.scan(reader.whole, &reader.read.columns);
    }
    FoundRows(Box::new(reader))
}

/// Rows that are read without a plan: one by one, or in the batches that a [`ScanExec`](super::ScanExec) would yield.
pub struct FoundRows(Box<BatchReader>);

impl FoundRows {
    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        self.0.layout.schema()
    }

    /// Their layout, for who takes them one by one; `None` for rows that come in batches only.
    pub(crate) fn layout(&self) -> Option<&Arc<RowLayout>> {
        self.0.layout.of_rows()
    }

    /// The next row of the store that was received; `None` if others must be [received](Self::receive) first. A row
    /// that belongs to the result has to be [counted](Self::count).
    pub(crate) fn next_received(&mut self) -> Option<Row> {
        if self.0.remaining == 0 { None } else { self.0.queue.next() }
    }

    /// Whether it is known that no more rows come.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Receives rows of the store; returns false at the end.
    ///
    /// # Errors
    /// The store's; 54000 beyond the budget of a scan.
    pub(crate) async fn receive(&mut self) -> Result<bool, SqlError> {
        Ok(!self.0.is_done() && self.0.fill(0).await?)
    }

    /// Counts a row of the result.
    pub(crate) fn count(&mut self) {
        self.0.remaining -= 1;
    }

    /// The rows in batches.
    pub fn into_batches(self) -> SendableRecordBatchStream {
        batches(*self.0)
    }
}

impl std::fmt::Debug for FoundRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundRows").field("read", &self.0.read).finish_non_exhaustive()
    }
}

pub(super) fn batches(reader: BatchReader) -> SendableRecordBatchStream {
    let schema = Arc::clone(reader.layout.schema());
    let batches = futures::stream::try_unfold(reader, |mut reader| async move {
        let batch = reader.next().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(batch.map(|batch| (batch, reader)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Turns rows of the store into batches.
pub(super) struct BatchReader {
    view: View,
    table: Arc<Table>,
    pub(super) rest: Option<Rest>,
    /// Whether a node above counts the rows.
    pub(super) part: bool,
    read: Read,
    layout: Arc<dyn Layout>,
    pub(super) store_metrics: Arc<ScanMetrics>,
    /// Where its rows are counted, and whether as those of a scan of all.
    work: Option<Arc<TableWork>>,
    pub(super) whole: bool,
    /// Where its keys are counted.
    counter: Option<Counter>,
    /// The rows of the current request to the store.
    incoming: Option<RowStream>,
    /// The limit of that request, and the rows received for it.
    requested: Option<u64>,
    received: u64,
    /// Bytes that the store had read when the budget was last charged, for all streams that count into these metrics.
    pub(super) charged: Arc<AtomicU64>,
    /// The hint of the error if the budget is exceeded.
    pub(super) hint: Option<String>,
    /// The last key received.
    last: Option<RowKey>,
    /// Rows that are received and not yet in a batch.
    queue: std::vec::IntoIter<Row>,
    /// Rows of the result that are still to come, at most.
    remaining: usize,
    /// The most rows of a batch.
    pub(super) batch_rows: usize,
}

impl BatchReader {
    pub(super) fn new(view: &View, table: &Arc<Table>, read: Read, layout: Arc<dyn Layout>) -> Self {
        Self {
            view: view.clone(),
            table: Arc::clone(table),
            rest: None,
            part: false,
            remaining: read.limit.unwrap_or(usize::MAX),
            batch_rows: BATCH_ROWS_MAX,
            work: view.budget.as_ref().map(|budget| budget.table(table.id.0)),
            whole: Shape::of(&read.rows) == Shape::FullScan,
            counter: view.counter(table),
            read,
            layout,
            store_metrics: Arc::default(),
            incoming: None,
            requested: None,
            received: 0,
            charged: Arc::default(),
            hint: None,
            last: None,
            queue: Vec::new().into_iter(),
        }
    }

    /// The next batch; `None` at the end.
    async fn next(&mut self) -> crate::pg::error::Result<Option<RecordBatch>> {
        if self.is_done() {
            return Ok(None);
        }
        let mut batch = self.layout.start(self.rows_max().filter(|rows| *rows <= FEW_ROWS).unwrap_or_default());
        while self.remaining > batch.size().rows && !self.is_full(batch.as_ref()) {
            if let Some(row) = self.queue.next() {
                batch.push(&row)?;
            } else if !self.fill(batch.size().rows).await? {
                break;
            }
        }
        let rows = batch.size().rows.min(self.remaining);
        if rows == 0 {
            return Ok(None);
        }
        self.remaining -= rows;
        let batch = batch.finish()?;
        Ok(Some(if rows < batch.num_rows() { batch.slice(0, rows) } else { batch }))
    }

    /// The most rows that are still to come, if that is known.
    fn rows_max(&self) -> Option<usize> {
        if is_point(&self.read.rows) { Some(1) } else { self.read.limit.map(|_| self.remaining) }
    }

    /// Whether no more rows come.
    fn is_done(&self) -> bool {
        let has_received = self.queue.len() > 0 || self.incoming.is_some();
        self.remaining == 0 || (!has_received && self.read.rows.is_empty())
    }

    fn is_full(&self, batch: &dyn BatchBuilder) -> bool {
        batch.size().rows >= self.batch_rows || batch.size().bytes >= batch_bytes_max(self.batch_rows)
    }

    /// Receives the next rows from the store; returns false at the end. A request has the limit of rows that are still
    /// to come; if some of its rows were skipped for their keys, another request follows after the last key.
    async fn fill(&mut self, in_batch: usize) -> Result<bool, SqlError> {
        let mut incoming = match self.incoming.take() {
            Some(incoming) => incoming,
            None if self.read.rows.is_empty() => return Ok(false),
            None => self.request(in_batch),
        };
        while let Some(rows) = incoming.try_next().await? {
            if let Some(budget) = &self.view.budget {
                let seen = self.store_metrics.bytes_seen.load(Ordering::Relaxed);
                let bytes = seen.saturating_sub(self.charged.fetch_max(seen, Ordering::Relaxed));
                match &self.counter {
                    Some(counter) if self.part => counter.read_bytes(&rows, bytes),
                    Some(counter) => counter.read(&rows, bytes),
                    None => {}
                }
                let count = if self.part { 0 } else { rows.len() as u64 };
                budget.charge(count, bytes, self.hint.as_deref())?;
                if let Some(work) = &self.work {
                    work.read(self.whole, count);
                    work.access.read(&rows);
                }
            }
            self.received += rows.len() as u64;
            self.last = rows.last().map(|row| row.key.clone());
            if !rows.is_empty() {
                self.queue = rows.into_iter();
                if is_point(&self.read.rows) {
                    // One key has one row: the store need not be asked once more.
                    self.read.rows = RowSet::none();
                } else {
                    self.incoming = Some(incoming);
                }
                return Ok(true);
            }
        }
        let cut_short = self.requested.is_some_and(|requested| self.received >= requested);
        self.read.rows = match self.last.take().filter(|_| cut_short) {
            Some(last) => self.read.rows.intersect(&RowSet::from(range_after(&last, self.read.reversed))),
            None => RowSet::none(),
        };
        Ok(!self.read.rows.is_empty())
    }

    /// Starts a request for the rows that are still to come, beside those in the batch.
    fn request(&mut self, in_batch: usize) -> RowStream {
        self.requested = self.read.limit.map(|_| (self.remaining - in_batch) as u64);
        self.received = 0;
        let scan = Scan {
            columns: self.read.columns.clone(),
            timestamps: self.read.timestamps,
            versions_max: self.read.versions_max,
            keep_empty: self.read.keep_empty,
            rows_max: self.requested,
            reversed: self.read.reversed,
            metrics: Some(Arc::clone(&self.store_metrics)),
            ..Scan::of(self.read.rows.clone())
        };
        match &self.rest {
            Some(rest) => rest.scan(Scan { pin: Some(self.view.pin.clone()), ..scan }),
            None => self.view.scan(&self.table, scan),
        }
    }
}

/// Whether these are one key.
fn is_point(rows: &RowSet) -> bool {
    matches!(rows.ranges(), [only] if only.as_point().is_some())
}

/// The share of [`BATCH_BYTES_TARGET`] of a batch of at most `rows` rows.
pub(super) fn batch_bytes_max(rows: usize) -> usize {
    BATCH_BYTES_TARGET / BATCH_ROWS_MAX * rows
}

/// The keys that a scan reads after `last`.
fn range_after(last: &RowKey, reversed: bool) -> KeyRange {
    if reversed {
        return KeyRange::new(bytes::Bytes::new(), Some(last.bytes().clone()));
    }
    KeyRange::new([last, &[0][..]].concat(), None)
}
