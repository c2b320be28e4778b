//! The scan as a node of DataFusion's plan.
//!
//! A [`ScanExec`] is a [`View`] and plain data: which keys, which columns, how many, in which direction, laid out how. Its stream
//! asks the store for rows, hands them to the [layout](super::decode::Layout), and gives batches bounded in rows and bytes. The store
//! gives rows in the order of keys, so that order is declared, and a reversed read is another scan of the same.
//!
//! Salted keys have an order in each bucket only. A scan of them declares none, until a sort above asks for it: it is a scan then that
//! reads all buckets at a time and merges them.

use super::{
    decode::{BatchBuilder, Layout, RowLayout},
    pushdown::Shape,
};
use crate::{
    pg::{error::SqlError, exec::node},
    view::View,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer},
    physical_expr::{ConstExpr, EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult,
        common::spawn_buffered,
        coop::make_cooperative,
        execution_plan::{Boundedness, EmissionType, SchedulingType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        sorts::streaming_merge::StreamingMergeBuilder,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;
use keyspan_catalog::{Table, Value};
use keyspan_storage::{Columns, KeyRange, Rest, Row, RowKey, RowSet, RowStream, Scan, ScanMetrics, TimestampRange};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

/// Rows of a batch, unless the session's are smaller.
pub const BATCH_ROWS_MAX: usize = 8_192;
/// Bytes of values after which a batch of so many rows ends; a smaller one ends with as much less.
pub const BATCH_BYTES_TARGET: usize = 8 << 20;

/// Rows of a batch of one of many buckets that are merged, at least.
const BATCH_ROWS_OF_BUCKET_MIN: usize = 64;

/// What is read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Which keys.
    pub rows: RowSet,
    /// Which columns.
    pub columns: Columns,
    /// Which cells by timestamp.
    pub timestamps: TimestampRange,
    /// How many of the newest cells of each column; `None` for all.
    pub versions_max: Option<u32>,
    /// Whether a row without any wanted cell counts.
    pub keep_empty: bool,
    /// Whether keys descend.
    pub reversed: bool,
    /// Rows of the result, at most.
    pub limit: Option<usize>,
}

/// What EXPLAIN says of a scan beyond [`Read`].
#[derive(Clone, Debug)]
pub struct About {
    /// The table, or the call of the function, as the query names it.
    pub name: String,
    /// How rows are reached.
    pub shape: Shape,
    /// Whether ranges were coalesced.
    pub coalesced: bool,
    /// Filters that became ranges.
    pub pushed: Vec<String>,
    /// Columns of the batches.
    pub columns: Vec<String>,
    /// Parts of the key, by their numbers, that have one value in all rows.
    pub constants: Vec<(usize, Value)>,
    /// Rows that it reads, roughly, where that is known.
    pub rows: Option<u64>,
}

impl About {
    /// The numbers of the parts of the key that have one value.
    pub fn constant_parts(&self) -> impl Iterator<Item = usize> {
        self.constants.iter().map(|(part, _)| *part)
    }
}

/// What is known of the order of rows.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// That of keys, ascending, over the columns of the batches; empty when none is known. Of salted keys that in each bucket.
    pub by: Vec<PhysicalSortExpr>,
    /// Columns that have one value.
    pub constants: Vec<ConstExpr>,
    /// The buckets of salted keys; none of others.
    pub buckets: Vec<KeyRange>,
}

/// A scan: of all rows, or of the rest beside row groups.
#[derive(Debug)]
pub struct ScanExec {
    view: View,
    table: Arc<Table>,
    /// Set when only these of the rows are read.
    rest: Option<Rest>,
    read: Read,
    about: About,
    layout: Arc<dyn Layout>,
    order: Order,
    /// Whether the buckets of salted keys are merged, so that rows come in the order of keys.
    merged: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    counts: Arc<ScanMetrics>,
}

impl ScanExec {
    /// A scan.
    ///
    /// # Errors
    /// What DataFusion says of the order.
    pub fn new(door: (View, Arc<Table>), what: (Read, About), layout: Arc<dyn Layout>, order: Order) -> Result<Self> {
        Self::of(door, what, layout, (order, false))
    }

    fn of(
        (view, table): (View, Arc<Table>),
        (read, about): (Read, About),
        layout: Arc<dyn Layout>,
        (order, merged): (Order, bool),
    ) -> Result<Self> {
        let properties = properties(layout.schema(), (&order, merged), read.reversed)?;
        Ok(Self {
            view,
            table,
            rest: None,
            read,
            about,
            layout,
            order,
            merged,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            counts: Arc::default(),
        })
    }

    /// The same scan of something else.
    fn reading(&self, read: Read) -> Result<Self> {
        self.reading_in(read, self.merged)
    }

    /// The same scan of something else, in the order of keys where buckets are `merged`.
    fn reading_in(&self, read: Read, merged: bool) -> Result<Self> {
        let door = (self.view.clone(), Arc::clone(&self.table));
        let order = (self.order.clone(), merged);
        let scan = Self::of(door, (read, self.about.clone()), Arc::clone(&self.layout), order)?;
        Ok(Self { rest: self.rest.clone(), ..scan })
    }

    /// The same scan, of which it is known roughly how many rows it reads.
    pub(super) fn of_rows(&self, rows: u64) -> Result<Self> {
        let scan = self.reading(self.read.clone())?;
        Ok(Self { about: About { rows: Some(rows), ..scan.about }, ..scan })
    }

    /// The same scan of some of its rows, whose counts are this one's.
    ///
    /// # Errors
    /// What DataFusion says of the order.
    pub(super) fn narrowed(&self, rows: RowSet) -> Result<Self> {
        let scan = self.reading(Read { rows, ..self.read.clone() })?;
        Ok(Self { counts: Arc::clone(&self.counts), ..scan })
    }

    /// The same scan of nothing, which holds nothing of the store.
    ///
    /// # Errors
    /// What DataFusion says of the order.
    pub(crate) fn released(&self) -> Result<Self> {
        let scan = self.reading(Read { rows: RowSet::none(), ..self.read.clone() })?;
        Ok(Self { view: self.view.released(), ..scan })
    }

    /// The scan in the direction of another, if a plan over that is one over this too: the same columns of the same table, the same parts
    /// of the key with one value, the same number of rows at most.
    ///
    /// # Errors
    /// What DataFusion says of the order.
    pub(crate) fn in_form_of(&self, other: &Self) -> Result<Option<Self>> {
        let is_alike = Arc::ptr_eq(&self.table, &other.table)
            && self.rest.is_none()
            && other.rest.is_none()
            && self.read.limit == other.read.limit
            && self.about.constant_parts().eq(other.about.constant_parts())
            && self.order.by == other.order.by
            && self.layout.schema() == other.layout.schema();
        if !is_alike {
            return Ok(None);
        }
        let scan = self.reading_in(Read { reversed: other.read.reversed, ..self.read.clone() }, other.merged)?;
        Ok(Some(scan))
    }

    /// How many rows it reads, about, where that is known.
    pub fn rows_estimate(&self) -> Option<u64> {
        let limit = self.read.limit.map(|limit| limit as u64);
        self.about.rows.into_iter().chain(limit).min()
    }

    /// The same scan of those rows that are in no row group.
    pub(super) fn of_rest(&self, rest: Rest) -> Result<Self> {
        Ok(Self { rest: Some(rest), ..self.reading(self.read.clone())? })
    }

    /// The moment as of which rows are read, in microseconds; `None` for as they are.
    pub fn as_of(&self) -> Option<i64> {
        self.view.as_of
    }

    /// What is read.
    pub fn read(&self) -> &Read {
        &self.read
    }

    /// What EXPLAIN says of it.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The buckets of salted keys: how many are merged, inner `None` when they are read one after the other; `None` for others.
    pub(crate) fn buckets_merged(&self) -> Option<Option<usize>> {
        (self.table.key.salt > 0).then(|| self.merged.then_some(self.order.buckets.len()))
    }

    /// Whether it reads all rows, not the rest beside row groups.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// Whose rows are read, and of which table.
    pub(super) fn door(&self) -> (&View, &Arc<Table>) {
        (&self.view, &self.table)
    }

    /// [`counts`](Self::counts), for others that read in its place.
    pub(super) fn shared_counts(&self) -> &Arc<ScanMetrics> {
        &self.counts
    }

    /// What the store saw and gave so far.
    pub fn counts(&self) -> &ScanMetrics {
        &self.counts
    }

    /// How its batches are laid out, if they are rows of the table.
    pub(super) fn row_layout(&self) -> Option<&Arc<RowLayout>> {
        self.layout.of_rows()
    }

    /// What a query that reads so much is told to do, if it says nothing of the key.
    pub(super) fn hint(&self) -> Option<String> {
        (self.about.shape == Shape::FullScan).then(|| {
            let (table, part) = (&self.table.name, &self.table.key.parts[0].name);
            format!("A condition on \"{part}\", the first part of the key of \"{table}\", makes the query read a range of it.")
        })
    }

    /// Whether the door has a tenant's span.
    pub fn in_span(&self) -> bool {
        self.view.rows.tenant().is_some()
    }
}

fn properties(schema: &SchemaRef, (order, merged): (&Order, bool), reversed: bool) -> Result<PlanProperties> {
    let by: &[PhysicalSortExpr] = if merged || order.buckets.is_empty() { &order.by } else { &[] };
    let ordering = LexOrdering::new(turned(by, reversed));
    let mut equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(schema), ordering);
    equivalence.add_constants(order.constants.iter().cloned())?;
    let one = Partitioning::UnknownPartitioning(1);
    Ok(PlanProperties::new(equivalence, one, EmissionType::Incremental, Boundedness::Bounded)
        .with_scheduling_type(SchedulingType::Cooperative))
}

/// The order, turned round where keys are read `reversed`.
fn turned(order: &[PhysicalSortExpr], reversed: bool) -> impl Iterator<Item = PhysicalSortExpr> {
    order.iter().map(move |by| if reversed { by.reverse() } else { by.clone() })
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanScan: {} {}", self.about.name, self.about.shape)
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "KeyspanScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::leaf!();
    node::about_rows!(|scan| {
        let limit = scan.read.limit.map(|limit| limit as u64);
        scan.about.rows.map(|rows| limit.map_or(rows, |limit| rows.min(limit))).or(limit)
    });

    fn fetch(&self) -> Option<usize> {
        self.read.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = self.reading(Read { limit, ..self.read.clone() }).ok()?;
        Some(Arc::new(scan))
    }

    fn try_pushdown_sort(
        &self,
        wanted: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if self.read.limit.is_some() {
            // The first rows in one direction are not the first in the other.
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let merged = !self.order.buckets.is_empty();
        for reversed in [self.read.reversed, !self.read.reversed] {
            let other = self.reading_in(Read { reversed, ..self.read.clone() }, merged)?;
            if other.properties.eq_properties.ordering_satisfy(wanted.to_vec())? {
                return Ok(SortOrderPushdownResult::Exact { inner: Arc::new(other) });
            }
        }
        Ok(SortOrderPushdownResult::Unsupported)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX);
        let merged = if self.merged { self.order.buckets.as_slice() } else { &[] };
        let rows = merged.iter().map(|bucket| self.read.rows.intersect(&RowSet::from(bucket.clone())));
        let rows: Vec<RowSet> = rows.filter(|rows| !rows.is_empty()).collect();
        let order = (rows.len() > 1).then(|| LexOrdering::new(turned(&self.order.by, self.read.reversed)));
        let Some(order) = order.flatten() else {
            let batches = self.stream(self.read.rows.clone(), batch_rows).inspect_ok(move |batch| {
                metrics.record_output(batch.num_rows());
            });
            let schema = Arc::clone(self.layout.schema());
            return Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches))));
        };
        // All buckets together hold as much as one batch of a scan that is not merged.
        let of_bucket = (batch_rows / rows.len()).max(BATCH_ROWS_OF_BUCKET_MIN).min(batch_rows);
        let streams = rows.into_iter().map(|rows| {
            let batches = self.stream(rows, of_bucket);
            // A few rows are read sooner than threads are changed.
            if self.read.limit.is_some() { batches } else { spawn_buffered(batches, 1) }
        });
        let reservation = MemoryConsumer::new("buckets of a scan").register(context.memory_pool());
        StreamingMergeBuilder::new()
            .with_streams(streams.collect())
            .with_schema(Arc::clone(self.layout.schema()))
            .with_expressions(&order)
            .with_metrics(metrics)
            .with_batch_size(batch_rows)
            .with_fetch(self.read.limit)
            .with_reservation(reservation)
            .build()
    }
}

impl ScanExec {
    /// The rows of these that the scan reads, in batches of so many rows at most.
    fn stream(&self, rows: RowSet, batch_rows: usize) -> SendableRecordBatchStream {
        batches(Reading {
            view: self.view.clone(),
            table: Arc::clone(&self.table),
            rest: self.rest.clone(),
            remaining: self.read.limit.unwrap_or(usize::MAX),
            batch_rows,
            read: Read { rows, ..self.read.clone() },
            layout: Arc::clone(&self.layout),
            counts: Arc::clone(&self.counts),
            incoming: None,
            asked: None,
            given: 0,
            seen: 0,
            hint: self.view.budget.as_ref().and_then(|_| self.hint()),
            last: None,
            queue: Vec::new().into_iter(),
        })
    }
}

/// Reads rows without a plan around it: batches as [`ScanExec`] gives them.
pub fn rows(view: &View, table: &Arc<Table>, read: Read, layout: Arc<dyn Layout>) -> SendableRecordBatchStream {
    batches(Reading {
        view: view.clone(),
        table: Arc::clone(table),
        rest: None,
        remaining: read.limit.unwrap_or(usize::MAX),
        batch_rows: BATCH_ROWS_MAX,
        read,
        layout,
        counts: Arc::default(),
        incoming: None,
        asked: None,
        given: 0,
        seen: 0,
        hint: None,
        last: None,
        queue: Vec::new().into_iter(),
    })
}

fn batches(reading: Reading) -> SendableRecordBatchStream {
    let schema = Arc::clone(reading.layout.schema());
    let batches = futures::stream::try_unfold(reading, |mut reading| async move {
        let batch = reading.next().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(batch.map(|batch| (batch, reading)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// A scan under way.
struct Reading {
    view: View,
    table: Arc<Table>,
    rest: Option<Rest>,
    read: Read,
    layout: Arc<dyn Layout>,
    counts: Arc<ScanMetrics>,
    incoming: Option<RowStream>,
    /// Rows asked for at most, of the store, and given by it since.
    asked: Option<u64>,
    given: u64,
    /// Bytes that the store had looked at when that was last taken of the budget.
    seen: u64,
    /// What a query that reads too much is told.
    hint: Option<String>,
    last: Option<RowKey>,
    queue: std::vec::IntoIter<Row>,
    /// Rows of the result still wanted.
    remaining: usize,
    /// Rows of a batch.
    batch_rows: usize,
}

impl Reading {
    /// The next batch.
    async fn next(&mut self) -> crate::pg::error::Result<Option<RecordBatch>> {
        let mut batch = self.layout.start();
        while self.remaining > batch.rows() && !self.is_full(batch.as_ref()) {
            if let Some(row) = self.queue.next() {
                batch.push(&row)?;
            } else if !self.fill(batch.rows()).await? {
                break;
            }
        }
        let rows = batch.rows().min(self.remaining);
        if rows == 0 {
            return Ok(None);
        }
        self.remaining -= rows;
        Ok(Some(batch.finish()?.slice(0, rows)))
    }

    fn is_full(&self, batch: &dyn BatchBuilder) -> bool {
        batch.rows() >= self.batch_rows || batch.bytes() >= bytes_of(self.batch_rows)
    }

    /// Takes the next rows from the store; false when there are no more. The store is asked for no more rows than are wanted; when
    /// some of them were skipped for their keys, it is asked again from behind the last.
    async fn fill(&mut self, in_batch: usize) -> Result<bool, SqlError> {
        let mut incoming = match self.incoming.take() {
            Some(incoming) => incoming,
            None if self.read.rows.is_empty() => return Ok(false),
            None => self.ask(in_batch),
        };
        while let Some(rows) = incoming.try_next().await? {
            if let Some(budget) = &self.view.budget {
                let seen = self.counts.bytes_seen.load(Ordering::Relaxed);
                budget.take(seen.saturating_sub(self.seen), self.hint.as_deref())?;
                self.seen = seen;
            }
            self.given += rows.len() as u64;
            self.last = rows.last().map(|row| row.key.clone());
            if !rows.is_empty() {
                self.queue = rows.into_iter();
                self.incoming = Some(incoming);
                return Ok(true);
            }
        }
        let cut_short = self.asked.is_some_and(|asked| self.given >= asked);
        self.read.rows = match self.last.take().filter(|_| cut_short) {
            Some(last) => self.read.rows.intersect(&RowSet::from(behind(&last, self.read.reversed))),
            None => RowSet::none(),
        };
        Ok(!self.read.rows.is_empty())
    }

    fn ask(&mut self, in_batch: usize) -> RowStream {
        self.asked = self.read.limit.map(|_| (self.remaining - in_batch) as u64);
        self.given = 0;
        let scan = Scan {
            columns: self.read.columns.clone(),
            timestamps: self.read.timestamps,
            versions_max: self.read.versions_max,
            keep_empty: self.read.keep_empty,
            rows_max: self.asked,
            reversed: self.read.reversed,
            metrics: Some(Arc::clone(&self.counts)),
            ..Scan::of(self.read.rows.clone())
        };
        match &self.rest {
            Some(rest) => rest.scan(Scan { pin: Some(self.view.pin.clone()), ..scan }),
            None => self.view.scan(&self.table, scan),
        }
    }
}

/// Bytes after which a batch of at most so many rows ends.
pub(super) fn bytes_of(rows: usize) -> usize {
    BATCH_BYTES_TARGET / BATCH_ROWS_MAX * rows
}

/// The keys that a scan meets after `last`.
fn behind(last: &RowKey, reversed: bool) -> KeyRange {
    if reversed {
        return KeyRange::new(bytes::Bytes::new(), Some(last.bytes().clone()));
    }
    KeyRange::new([last, &[0][..]].concat(), None)
}
