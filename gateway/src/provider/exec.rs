//! The scan by rows, as a node of DataFusion's physical plan.
//!
//! A [`ScanExec`] is a [`View`] and plain data: the ranges of keys, the columns, the limit, the direction, the layout
//! of batches. A [`BatchReader`] reads its rows. The store returns rows in key order, so the node declares that order;
//! a reversed scan is another node.
//!
//! Salted keys are in order within each bucket only. A scan of them declares no order, until a sort above asks for it:
//! then it reads all buckets at once and merges them.

use super::{
    batches::{BATCH_ROWS_MAX, BatchReader, Read, batches},
    decode::{Layout, RowLayout},
    node,
    pushdown::Shape,
};
use crate::{shares::work::TableWork, view::View};
use arrow::datatypes::SchemaRef;
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext, memory_pool::MemoryConsumer},
    physical_expr::{ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult,
        common::spawn_buffered,
        coop::make_cooperative,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        sorts::streaming_merge::StreamingMergeBuilder,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;
use keyspan_catalog::{Table, Value};
use keyspan_storage::{KeyRange, Rest, RowSet, ScanMetrics};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

/// The fewest rows of a batch of one bucket, where buckets are merged.
const BATCH_ROWS_OF_BUCKET_MIN: usize = 64;

/// What EXPLAIN prints about a scan beside [`Read`].
#[derive(Clone, Debug)]
pub struct Description {
    /// The table's name, or the call of the table function.
    pub name: String,
    /// How the scan reaches its rows.
    pub shape: Shape,
    /// Whether ranges were coalesced to bound their number.
    pub coalesced: bool,
    /// Filters that became ranges.
    pub pushed: Vec<String>,
    /// Names of the columns of the batches.
    pub columns: Vec<String>,
    /// Of each column of an open family, its name and the qualifiers that are read.
    pub qualifiers: Vec<String>,
    /// Of each column of protobuf messages, its name and the fields that are decoded.
    pub fields: Vec<String>,
    /// Key parts, by index, that have one value in all rows.
    pub constants: Vec<(usize, Value)>,
    /// An estimate of the rows that it reads, if there is one.
    pub rows: Option<u64>,
}

impl Description {
    /// The indexes of the key parts that have one value in all rows.
    pub fn constant_parts(&self) -> impl Iterator<Item = usize> {
        self.constants.iter().map(|(part, _)| *part)
    }
}

/// The order of a scan's rows.
#[derive(Clone, Debug, Default)]
pub struct Order {
    /// Ascending key order, over the columns of the batches; empty if it is unknown. For salted keys, the order within
    /// each bucket.
    pub by: Vec<PhysicalSortExpr>,
    /// Columns that have one value in all rows.
    pub constants: Vec<ConstExpr>,
    /// The buckets of salted keys; empty for other keys.
    pub buckets: Vec<KeyRange>,
}

/// A scan by rows: of all rows, or of the rows that are in no row group.
#[derive(Debug)]
pub struct ScanExec {
    view: View,
    table: Arc<Table>,
    /// Set to read only the rows that are in no row group.
    rest: Option<Rest>,
    /// Whether it reads a part of what a node above it reads, which counts the rows.
    part: bool,
    read: Read,
    description: Description,
    layout: Arc<dyn Layout>,
    order: Order,
    /// Whether the buckets of salted keys are merged, so that rows come in key order.
    merged: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    store_metrics: Arc<ScanMetrics>,
    /// The bytes of these that were charged: several streams count into one.
    charged: Arc<AtomicU64>,
}

impl ScanExec {
    /// A scan of all rows of `read`, which does not merge buckets.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub fn new(
        source: (View, Arc<Table>),
        read: (Read, Description),
        layout: Arc<dyn Layout>,
        order: Order,
    ) -> Result<Self> {
        Self::build(source, read, layout, (order, false))
    }

    fn build(
        (view, table): (View, Arc<Table>),
        (read, description): (Read, Description),
        layout: Arc<dyn Layout>,
        (order, merged): (Order, bool),
    ) -> Result<Self> {
        let properties = properties(layout.schema(), (&order, merged), read.reversed)?;
        Ok(Self {
            view,
            table,
            rest: None,
            part: false,
            read,
            description,
            layout,
            order,
            merged,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            store_metrics: Arc::default(),
            charged: Arc::default(),
        })
    }

    /// This scan with another `read`, and metrics of its own.
    fn with_read(&self, read: Read) -> Result<Self> {
        self.with_read_merged(read, self.merged)
    }

    /// [`with_read`](Self::with_read), with or without a merge of buckets.
    fn with_read_merged(&self, read: Read, merged: bool) -> Result<Self> {
        let source = (self.view.clone(), Arc::clone(&self.table));
        let order = (self.order.clone(), merged);
        let scan = Self::build(source, (read, self.description.clone()), Arc::clone(&self.layout), order)?;
        Ok(Self { rest: self.rest.clone(), part: self.part, ..scan })
    }

    /// This scan with its rows in the order of the key, in its direction or `backwards`. `None` where it has a limit:
    /// the first rows in one direction are not the first in the other.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub(super) fn in_key_order(&self, backwards: bool) -> Result<Option<Self>> {
        if self.read.limit.is_some() {
            return Ok(None);
        }
        let read = Read { reversed: self.read.reversed != backwards, ..self.read.clone() };
        self.with_read_merged(read, !self.order.buckets.is_empty()).map(Some)
    }

    /// This scan with an estimate of the rows that it reads.
    pub(super) fn with_rows_estimate(&self, rows: u64) -> Result<Self> {
        let scan = self.with_read(self.read.clone())?;
        Ok(Self { description: Description { rows: Some(rows), ..scan.description }, ..scan })
    }

    /// This scan of some of its rows, which counts into the same store metrics.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub(super) fn narrowed(&self, rows: RowSet) -> Result<Self> {
        let scan = self.with_read(Read { rows, ..self.read.clone() })?;
        let (store_metrics, charged) = (Arc::clone(&self.store_metrics), Arc::clone(&self.charged));
        Ok(Self { store_metrics, charged, ..scan })
    }

    /// This scan of no rows, without a pin, so that it holds no resource of the store.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub(crate) fn released(&self) -> Result<Self> {
        let scan = self.with_read(Read { rows: RowSet::none(), ..self.read.clone() })?;
        Ok(Self { view: self.view.released(), ..scan })
    }

    /// This scan in the direction of another, if it can replace that one below a plan: it must have the same columns of
    /// the same table, the same key parts with one value, and the same limit.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub(crate) fn in_form_of(&self, other: &Self) -> Result<Option<Self>> {
        let can_replace = Arc::ptr_eq(&self.table, &other.table)
            && self.rest.is_none()
            && other.rest.is_none()
            && self.read.limit == other.read.limit
            && self.description.constant_parts().eq(other.description.constant_parts())
            && self.order.by == other.order.by
            && self.layout.schema() == other.layout.schema();
        if !can_replace {
            return Ok(None);
        }
        let scan = self.with_read_merged(Read { reversed: other.read.reversed, ..self.read.clone() }, other.merged)?;
        Ok(Some(scan))
    }

    /// An estimate of the rows that it returns, if there is one.
    pub fn rows_estimate(&self) -> Option<u64> {
        let limit = self.read.limit.map(|limit| limit as u64);
        self.description.rows.into_iter().chain(limit).min()
    }

    /// This scan of those rows that are in no row group.
    pub(super) fn of_rest(&self, rest: Rest) -> Result<Self> {
        Ok(Self { rest: Some(rest), ..self.as_part()? })
    }

    /// This scan beneath a node that counts its rows.
    ///
    /// # Errors
    /// DataFusion refuses the order.
    pub(super) fn as_part(&self) -> Result<Self> {
        Ok(Self { part: true, ..self.with_read(self.read.clone())? })
    }

    /// The timestamp as of which rows are read, in microseconds; `None` for the newest.
    pub fn as_of(&self) -> Option<i64> {
        self.view.as_of
    }

    /// Which rows and cells it reads.
    pub fn read(&self) -> &Read {
        &self.read
    }

    /// What EXPLAIN prints about it.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// For salted keys, how many buckets are merged; inner `None` if they are read one after the other. `None` for
    /// other keys.
    pub(crate) fn buckets_merged(&self) -> Option<Option<usize>> {
        (self.table.key.salt > 0).then(|| self.merged.then_some(self.order.buckets.len()))
    }

    /// Whether it reads all rows, not only those that are in no row group.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// The view and the table that it reads.
    pub(crate) fn view_and_table(&self) -> (&View, &Arc<Table>) {
        (&self.view, &self.table)
    }

    /// Rows, cells and bytes that the store has read for it so far. A node that reads in its place counts into the
    /// same.
    pub fn store_metrics(&self) -> &Arc<ScanMetrics> {
        &self.store_metrics
    }

    /// The layout of its batches, if they are rows of the table.
    pub(super) fn row_layout(&self) -> Option<&Arc<RowLayout>> {
        self.layout.of_rows()
    }

    /// The hint for a query that exceeds the scan budget without a condition on the key.
    pub(super) fn hint(&self) -> Option<String> {
        (self.description.shape == Shape::FullScan).then(|| {
            let (table, part) = (&self.table.name, &self.table.key.parts[0].name);
            format!("A condition on \"{part}\", the first part of the key of \"{table}\", makes the query read a range of it.")
        })
    }

    /// Whether it reads a tenant's span; the operator reads the whole table.
    pub fn in_span(&self) -> bool {
        self.view.rows.tenant().is_some()
    }

    /// What conditions have to name for a scan to have a range: the column of the key's first part, which is the tenant
    /// for who sees several. `None` if it has no name.
    pub(crate) fn first_part(&self) -> Option<&str> {
        match self.in_span() {
            false => Some("tenant"),
            true => (!self.table.has_hidden_key()).then(|| self.table.key.parts[0].name.as_str()),
        }
    }
}

fn properties(schema: &SchemaRef, (order, merged): (&Order, bool), reversed: bool) -> Result<Arc<PlanProperties>> {
    let by: &[PhysicalSortExpr] = if merged || order.buckets.is_empty() { &order.by } else { &[] };
    let ordering = LexOrdering::new(directed(by, reversed));
    let mut equivalence = EquivalenceProperties::new_with_orderings(Arc::clone(schema), ordering);
    equivalence.add_constants(order.constants.iter().cloned())?;
    Ok(node::leaf_properties(equivalence, 1))
}

/// The order in the direction of the scan.
fn directed(order: &[PhysicalSortExpr], reversed: bool) -> impl Iterator<Item = PhysicalSortExpr> {
    order.iter().map(move |by| if reversed { by.reverse() } else { by.clone() })
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanScan: {} {}", self.description.name, self.description.shape)
    }
}

impl ExecutionPlan for ScanExec {
    node::fields!("KeyspanScan");
    node::leaf!();
    node::about_rows!(|scan| scan.rows_estimate());

    fn fetch(&self) -> Option<usize> {
        self.read.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = self.with_read(Read { limit, ..self.read.clone() }).ok()?;
        Some(Arc::new(scan))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        for backwards in [false, true] {
            let Some(other) = self.in_key_order(backwards)? else { break };
            if other.properties.eq_properties.ordering_satisfy(order.to_vec())? {
                return Ok(SortOrderPushdownResult::Exact { inner: Arc::new(other) });
            }
        }
        Ok(SortOrderPushdownResult::Unsupported)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !self.part
            && let Some((work, all)) = self.work()
        {
            work.scan(all, &self.read.columns);
        }
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_rows = context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX);
        let merged = if self.merged { self.order.buckets.as_slice() } else { &[] };
        let rows = merged.iter().map(|bucket| self.read.rows.intersect(&RowSet::from(bucket.clone())));
        let rows: Vec<RowSet> = rows.filter(|rows| !rows.is_empty()).collect();
        let order = (rows.len() > 1).then(|| LexOrdering::new(directed(&self.order.by, self.read.reversed)));
        let Some(order) = order.flatten() else {
            let batches = self.stream(self.read.rows.clone(), batch_rows).inspect_ok(move |batch| {
                metrics.record_output(batch.num_rows());
            });
            let schema = Arc::clone(self.layout.schema());
            return Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches))));
        };
        // Together the batches of all buckets have the size of one batch of a scan that is not merged.
        let bucket_batch_rows = (batch_rows / rows.len()).max(BATCH_ROWS_OF_BUCKET_MIN).min(batch_rows);
        let streams = rows.into_iter().map(|rows| {
            let batches = self.stream(rows, bucket_batch_rows);
            // For a few rows, to change threads takes longer than to read them.
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
    /// Where what it reads of the table is counted, and whether as a scan of all rows.
    pub(super) fn work(&self) -> Option<(Arc<TableWork>, bool)> {
        let budget = self.view.budget.as_ref()?;
        Some((budget.table(self.table.id.0), self.description.shape == Shape::FullScan))
    }

    /// Reads `rows` in place of the scan's, in batches of at most `batch_rows`.
    fn stream(&self, rows: RowSet, batch_rows: usize) -> SendableRecordBatchStream {
        let read = Read { rows, ..self.read.clone() };
        let mut reader = BatchReader::new(&self.view, &self.table, read, Arc::clone(&self.layout));
        reader.rest = self.rest.clone();
        reader.part = self.part;
        reader.batch_rows = batch_rows;
        reader.store_metrics = Arc::clone(&self.store_metrics);
        reader.charged = Arc::clone(&self.charged);
        reader.hint = self.view.budget.as_ref().filter(|budget| budget.is_bounded()).and_then(|_| self.hint());
        reader.whole = self.description.shape == Shape::FullScan;
        batches(reader)
    }
}
