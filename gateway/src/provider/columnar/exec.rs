//! The node above row groups, memory and rest: it gives their rows the columns of SQL, and has an equivalent scan by
//! rows.
//!
//! Row groups come in no order. Where the plan above needs key order,
//! [`try_pushdown_sort`](ExecutionPlan::try_pushdown_sort) replaces this node by the scan by rows, with the filters and
//! projections above it that were pushed into the row groups before. The scan by rows also takes over when the first
//! row is asked for and a join needs a few keys only.

use super::{
    super::{decode::record_batch, exec::ScanExec, node},
    ScanParts,
    decode_exec::DecodeExec,
    key_lookup::{self, DynamicFilter},
    split::Streams,
};
use crate::{pg::exec::compact::compact, resources::BATCH_ROWS};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{PhysicalExpr, PhysicalSortExpr, conjunction, expressions::Column},
    physical_plan::{
        DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        SortOrderPushdownResult,
        execution_plan::CardinalityEffect,
        filter::FilterExec,
        filter_pushdown::{
            ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use keyspan_storage::RowSet;
use std::{fmt, sync::Arc};
use tokio::sync::OnceCell;

/// How much of a scan is where, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct ColumnarStats {
    /// Files that are read.
    pub files: usize,
    /// Row groups that are read.
    pub row_groups: usize,
    /// Rows that are selected in these.
    pub rows: u64,
    /// Bytes of the columns that are read, in proportion to the rows selected in each row group.
    pub bytes: u64,
    /// An estimate of the rows in memory.
    pub memory: u64,
    /// An estimate of the other rows; `None` if there is certainly none.
    pub rest: Option<u64>,
}

impl ColumnarStats {
    /// An estimate of all rows.
    pub(crate) fn rows_estimate(&self) -> u64 {
        self.rows + self.memory + self.rest.unwrap_or_default()
    }
}

/// A plan in key order, and the scan beneath it, which counts what it reads.
pub(crate) struct ByRows {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) scan: Arc<dyn ExecutionPlan>,
}

/// A scan by row groups.
#[derive(Clone, Debug)]
pub struct ColumnarExec {
    /// Row groups, memory and rest, as far as there are any.
    child: Arc<dyn ExecutionPlan>,
    /// The plan that reads the same by rows, in key order.
    ordered: Arc<dyn ExecutionPlan>,
    /// The scan in it.
    scan: Arc<ScanExec>,
    rest: Option<Arc<ScanExec>>,
    /// What `child` was made of; `None` once it has filters or fewer columns.
    parts: Option<Arc<ScanParts>>,
    stats: ColumnarStats,
    /// The scans by rows that the child is made of, where it is made of nothing else.
    streams: Option<Streams>,
    /// Filters that the child evaluates.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters of joins, which are known when the first row is asked for.
    dynamic_filters: Vec<DynamicFilter>,
    /// The names of the columns in the scan.
    names: Arc<[String]>,
    /// Decided when the first row is asked for: the rows to read by rows in place of the child; inner `None` to read
    /// the child.
    looked_up: Arc<OnceCell<Option<RowSet>>>,
    /// Whether sorts above it stay: a node above looks for rows in order before this one runs.
    stays: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnarExec {
    /// A scan of `child`, which reads the parts.
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, parts: ScanParts, stats: ColumnarStats) -> Self {
        let scan = Arc::clone(&parts.scan);
        let ordered = Arc::clone(&scan) as Arc<dyn ExecutionPlan>;
        let properties = properties(&child, &ordered);
        let rest = parts.rest.as_ref().map(|(rest, _)| Arc::clone(rest));
        let (parts, metrics) = (Some(Arc::new(parts)), ExecutionPlanMetricsSet::new());
        let names = scan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let (filters, dynamic_filters) = (Vec::new(), Vec::new());
        let looked_up = Arc::default();
        Self {
            child,
            ordered,
            scan,
            rest,
            parts,
            stats,
            streams: None,
            filters,
            dynamic_filters,
            names,
            looked_up,
            stays: false,
            properties,
            metrics,
        }
    }

    /// `streams` scans of parts of the rows of `scan`, which `all` reads by rows.
    pub(super) fn of_streams(
        (child, streams): (Arc<dyn ExecutionPlan>, Streams),
        scan: &Arc<ScanExec>,
        all: ScanExec,
        stats: ColumnarStats,
    ) -> Self {
        let (parts, memory, rest) = (Vec::new(), Vec::new(), None);
        let (origins, untyped, maps) = (Vec::new(), Vec::new(), Vec::new());
        let (scan_of_parts, cut) = (Arc::clone(scan), Vec::new());
        let parts = ScanParts { parts, memory, rest, cut, origins, untyped, maps, scan: scan_of_parts, spread: (1, 1) };
        // No parts are known whose metadata had counts.
        Self { parts: None, streams: Some(streams), rest: Some(Arc::new(all)), ..Self::new(child, parts, stats) }
    }

    /// The scans by rows side by side, where there is nothing else.
    pub(crate) fn streams(&self) -> Option<Streams> {
        self.streams
    }

    fn with(&self, child: Arc<dyn ExecutionPlan>, ordered: Arc<dyn ExecutionPlan>) -> Self {
        let (properties, looked_up) = (properties(&child, &ordered), Arc::default());
        Self { properties, child, ordered, parts: None, looked_up, ..self.clone() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        self.with(child, Arc::clone(&self.ordered))
    }

    /// The equivalent scan by rows.
    pub fn scan(&self) -> &ScanExec {
        &self.scan
    }

    /// The scan of the rest.
    pub fn rest(&self) -> Option<&ScanExec> {
        self.rest.as_deref()
    }

    /// The parts that are read; `None` if filters or projections were pushed into them already.
    pub(super) fn whole_parts(&self) -> Option<&ScanParts> {
        self.parts.as_deref()
    }

    /// How much of it is where.
    pub fn stats(&self) -> &ColumnarStats {
        &self.stats
    }

    /// The rows that were read by rows in place of row groups, since a join asked for a few only.
    pub fn looked_up(&self) -> Option<&RowSet> {
        self.looked_up.get()?.as_ref()
    }

    /// The plan that reads these of the rows, by rows.
    fn by_rows(&self, rows: RowSet) -> Result<Arc<dyn ExecutionPlan>> {
        node::over_leaf(&self.ordered, Arc::new(self.scan.narrowed(rows)?))
    }

    /// The same below sorts that stay.
    pub(crate) fn staying(&self) -> Self {
        Self { stays: true, ..self.clone() }
    }

    /// The same plan by rows over its first `rows` rows in an order, and the scan in it; `None` where rows are in no
    /// such order, and where all come by rows: a sort above then gets the scan in order, which ends early, too.
    pub(crate) fn first_rows(&self, order: &[PhysicalSortExpr], rows: usize) -> Result<Option<ByRows>> {
        if self.streams.is_some() {
            return Ok(None);
        }
        for backwards in [false, true] {
            let Some(scan) = self.scan.in_key_order(backwards)? else { break };
            let Some(scan) = scan.with_fetch(Some(rows)) else { break };
            let plan = node::over_leaf(&self.ordered, Arc::clone(&scan))?;
            if plan.properties().eq_properties.ordering_satisfy(order.to_vec())? {
                return Ok(Some(ByRows { plan, scan }));
            }
        }
        Ok(None)
    }

    /// Whether rows without a member of a map that a filter above needs are left out before maps are made.
    pub(crate) fn leaves_out(&self) -> bool {
        let mut found = false;
        let visited = self.child.apply(|node| {
            found |= node.downcast_ref::<DecodeExec>().is_some_and(DecodeExec::leaves_out);
            Ok(TreeNodeRecursion::Continue)
        });
        visited.is_ok() && found
    }

    /// Filters that the nodes below evaluate.
    pub fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }
}

/// The partitions of the child, and the equivalences of the ordered plan without its order.
fn properties(child: &Arc<dyn ExecutionPlan>, ordered: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    let mut equivalence = ordered.properties().eq_properties.clone();
    equivalence.clear_orderings();
    node::properties_over(child, equivalence)
}

impl DisplayAs for ColumnarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanColumnarScan: {} {}", self.scan.description().name, self.scan.description().shape)
    }
}

impl ExecutionPlan for ColumnarExec {
    node::passes_filters!();
    node::fields!("KeyspanColumnarScan");
    // A join updates its dynamic filters only while some node lists them here.
    node::over_child!(|node| node.dynamic_filters.iter().map(DynamicFilter::filter));
    node::about_rows!(|scan| Some(scan.stats.rows_estimate()));

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let pushed = result.parent_filters.iter().filter(|filter| matches!(filter.all(), PushedDown::Yes));
        let pushed: Vec<_> = pushed.map(|filter| Arc::clone(&filter.filter)).collect();
        let dynamic = result.parent_filters.iter().filter_map(|filter| DynamicFilter::of(&filter.filter, &self.names));
        let dynamic: Vec<DynamicFilter> = dynamic.collect();
        let answer = FilterPushdownPropagation::if_all(result);
        // Dynamic filters, which come in a later phase, only drop rows that a node above would drop.
        if phase != FilterPushdownPhase::Pre || pushed.is_empty() {
            if dynamic.is_empty() {
                return Ok(answer);
            }
            let dynamic_filters = [self.dynamic_filters.as_slice(), &dynamic].concat();
            let node = Self { dynamic_filters, ..self.over(Arc::clone(&self.child)) };
            return Ok(answer.with_updated_node(Arc::new(node)));
        }
        let filtered = FilterExec::try_new(conjunction(pushed.clone()), Arc::clone(&self.ordered))?;
        let mut node = self.with(Arc::clone(&self.child), Arc::new(filtered));
        node.filters.extend(pushed);
        Ok(answer.with_updated_node(Arc::new(node)))
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let narrows = projection.expr().len() < self.schema().fields().len();
        if !narrows || !projection.expr().iter().all(|one| one.expr.is::<Column>()) {
            return Ok(None);
        }
        let narrowed = |plan: &Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
            Ok(Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), Arc::clone(plan))?))
        };
        let names = projection.expr().iter().filter_map(|one| one.expr.downcast_ref::<Column>());
        let names = names.map(|column| self.names[column.index()].clone()).collect();
        Ok(Some(Arc::new(Self { names, ..self.with(narrowed(&self.child)?, narrowed(&self.ordered)?) })))
    }

    fn try_pushdown_sort(&self, order: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if self.stays {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        if self.ordered.properties().eq_properties.ordering_satisfy(order.to_vec())? {
            return Ok(SortOrderPushdownResult::Exact { inner: Arc::clone(&self.ordered) });
        }
        self.ordered.try_pushdown_sort(order)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // A server has so little memory that its batches are smaller than usual.
        let is_compact = context.session_config().batch_size() < BATCH_ROWS;
        let rows = if self.dynamic_filters.is_empty() {
            self.child_rows(partition, context)?
        } else {
            self.looked_up_or_all(partition, context)
        };
        let schema = self.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batch_schema = Arc::clone(&schema);
        let rows = rows.map(move |batch| {
            let batch = as_schema(batch?, &batch_schema, is_compact)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl ColumnarExec {
    /// The rows of a partition of the child, counted for the tenant.
    fn child_rows(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.child.execute(partition, context)?;
        let Some(budget) = self.scan.view_and_table().0.budget.clone() else { return Ok(rows) };
        let schema = rows.schema();
        let work = self.scan.work();
        if let Some((work, all)) = work.as_ref().filter(|_| partition == 0) {
            work.scan(*all, &self.scan.read().columns);
        }
        let (view, table) = self.scan.view_and_table();
        // Rows do not tell their keys here, and files are read ahead of them: the bytes are those that were planned.
        // Scans by rows count theirs.
        let bytes = if partition == 0 && self.streams.is_none() { self.stats.bytes } else { 0 };
        let counter = view.counter(table);
        let mut reading = counter.map(|counter| counter.reading_within(&self.scan.read().rows, bytes));
        let rows = rows.inspect_ok(move |batch| {
            budget.count_rows(batch.num_rows());
            if let Some(reading) = &mut reading {
                reading.add(batch.num_rows());
            }
            if let Some((work, all)) = &work {
                work.read(*all, batch.num_rows() as u64);
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The rows of a partition. Evaluates the dynamic filters first: if few rows are left, the first partition reads
    /// them by rows and the others are empty; else each reads the child.
    fn looked_up_or_all(&self, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (node, schema) = (self.clone(), self.schema());
        let rows = async move {
            let all = node.stats.rows_estimate();
            let few = || key_lookup::few_rows(&node.scan, &node.dynamic_filters, all);
            match node.looked_up.get_or_try_init(few).await? {
                None => node.child_rows(partition, context),
                Some(rows) if partition == 0 => node.by_rows(rows.clone())?.execute(0, context),
                Some(_) => Ok(Box::pin(EmptyRecordBatchStream::new(node.schema())) as SendableRecordBatchStream),
            }
        };
        Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(rows).try_flatten()))
    }
}

/// The batch with SQL's fields in place of the file's, whose names and nullability may differ. If asked for,
/// its texts have buffers of their own.
fn as_schema(rows: RecordBatch, schema: &SchemaRef, is_compact: bool) -> Result<RecordBatch> {
    let (_, mut columns, row_count) = rows.into_parts();
    if is_compact {
        columns = columns.into_iter().map(compact).collect();
    }
    Ok(record_batch(schema, columns, row_count)?)
}
