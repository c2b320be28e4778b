//! The node above row groups and rest: it gives their rows the columns of SQL, and knows the scan by rows that gives the same.
//!
//! Row groups come in no order. Where the plan above wants that of the keys, [`try_pushdown_sort`](ExecutionPlan::try_pushdown_sort)
//! gives the scan by rows in place of this node. Filters that have gone into the row groups by then go above that scan, and so do
//! columns that were left out. So it is where a join asks for a few keys only, when the first row is asked for.

use super::{
    super::exec::ScanExec,
    Found,
    key_lookup::{self, LateFilter},
};
use crate::pg::exec::node;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{PhysicalExpr, PhysicalSortExpr, conjunction, expressions::Column},
    physical_plan::{
        DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        SortOrderPushdownResult,
        execution_plan::{Boundedness, CardinalityEffect, EmissionType},
        filter::FilterExec,
        filter_pushdown::{
            ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use keyspan_storage::RowSet;
use std::{fmt, sync::Arc};
use tokio::sync::OnceCell;

/// How much is where.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Files with row groups that are read.
    pub files: usize,
    /// These row groups.
    pub row_groups: usize,
    /// The rows selected of them.
    pub rows: u64,
    /// Bytes of the columns that are read, by the share of the rows in each row group.
    pub bytes: u64,
    /// Rows in memory, roughly.
    pub memory: u64,
    /// Other rows, roughly; `None` when there are none for certain.
    pub rest: Option<u64>,
}

/// A scan by row groups and rest.
#[derive(Clone, Debug)]
pub struct ColumnarExec {
    /// Row groups, rest, or both.
    child: Arc<dyn ExecutionPlan>,
    /// The same rows by the scan by rows, in the order of keys.
    ordered: Arc<dyn ExecutionPlan>,
    /// That scan.
    scan: Arc<ScanExec>,
    rest: Option<Arc<ScanExec>>,
    /// What `child` was made of, while it is as it was made.
    found: Option<Arc<Found>>,
    counts: Counts,
    /// Filters that the child applies.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters that say more when rows are asked for.
    late: Vec<LateFilter>,
    /// What the scan calls the columns.
    names: Arc<[String]>,
    /// The rows that are read in place of the child's, inner `None` for those; known when the first row is asked for.
    looked_up: Arc<OnceCell<Option<RowSet>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnarExec {
    /// A scan of `child`, which reads what was found.
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, found: Found, counts: Counts) -> Self {
        let scan = Arc::clone(&found.scan);
        let ordered = Arc::clone(&scan) as Arc<dyn ExecutionPlan>;
        let properties = properties(&child, &ordered);
        let rest = found.rest.as_ref().map(|(rest, _)| Arc::clone(rest));
        let (found, metrics) = (Some(Arc::new(found)), ExecutionPlanMetricsSet::new());
        let names = scan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let (filters, late) = (Vec::new(), Vec::new());
        let looked_up = Arc::default();
        Self { child, ordered, scan, rest, found, counts, filters, late, names, looked_up, properties, metrics }
    }

    fn with(&self, child: Arc<dyn ExecutionPlan>, ordered: Arc<dyn ExecutionPlan>) -> Self {
        let (properties, looked_up) = (properties(&child, &ordered), Arc::default());
        Self { properties, child, ordered, found: None, looked_up, ..self.clone() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        self.with(child, Arc::clone(&self.ordered))
    }

    /// The scan by rows, which says what is read.
    pub fn scan(&self) -> &ScanExec {
        &self.scan
    }

    /// The scan of the rest.
    pub fn rest(&self) -> Option<&ScanExec> {
        self.rest.as_deref()
    }

    /// What is read, all of it and in full; `None` when filters or other columns are in force already.
    pub(super) fn found(&self) -> Option<&Found> {
        self.found.as_deref()
    }

    /// How much is where.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The rows that were read in place of row groups, if a join asked for a few only.
    pub fn looked_up(&self) -> Option<&RowSet> {
        self.looked_up.get()?.as_ref()
    }

    /// The plan that gives the same of these rows, by rows.
    fn by_rows(&self, rows: RowSet) -> Result<Arc<dyn ExecutionPlan>> {
        node::over_leaf(&self.ordered, Arc::new(self.scan.narrowed(rows)?))
    }

    /// Filters that row groups and rest have taken over.
    pub fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }
}

/// Those of the child's partitions, with what is known of the ordered rows but for their order.
fn properties(child: &Arc<dyn ExecutionPlan>, ordered: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
    let mut equivalence = ordered.properties().eq_properties.clone();
    equivalence.clear_orderings();
    let partitioning = child.properties().partitioning.clone();
    let properties = PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
    Arc::new(properties.with_scheduling_type(child.properties().scheduling_type))
}

impl DisplayAs for ColumnarExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanColumnarScan: {} {}", self.scan.about().name, self.scan.about().shape)
    }
}

impl ExecutionPlan for ColumnarExec {
    fn name(&self) -> &'static str {
        "KeyspanColumnarScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    // A join makes filters for nodes that show them here.
    node::over_child!(|node| node.late.iter().map(LateFilter::filter));
    node::about_rows!(|scan| {
        let Counts { rows, memory, rest, .. } = scan.counts;
        Some(rows + memory + rest.unwrap_or_default())
    });

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let taken = result.parent_filters.iter().filter(|filter| matches!(filter.all(), PushedDown::Yes));
        let taken: Vec<_> = taken.map(|filter| Arc::clone(&filter.filter)).collect();
        let late = result.parent_filters.iter().filter_map(|filter| LateFilter::of(&filter.filter, &self.names));
        let late: Vec<LateFilter> = late.collect();
        let answer = FilterPushdownPropagation::if_all(result);
        // Dynamic filters, which come later, only leave out what somebody above would drop.
        if phase != FilterPushdownPhase::Pre || taken.is_empty() {
            if late.is_empty() {
                return Ok(answer);
            }
            let node = Self { late: [self.late.as_slice(), &late].concat(), ..self.over(Arc::clone(&self.child)) };
            return Ok(answer.with_updated_node(Arc::new(node)));
        }
        let filtered = FilterExec::try_new(conjunction(taken.clone()), Arc::clone(&self.ordered))?;
        let mut node = self.with(Arc::clone(&self.child), Arc::new(filtered));
        node.filters.extend(taken);
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

    fn try_pushdown_sort(
        &self,
        wanted: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        if self.ordered.properties().eq_properties.ordering_satisfy(wanted.to_vec())? {
            return Ok(SortOrderPushdownResult::Exact { inner: Arc::clone(&self.ordered) });
        }
        self.ordered.try_pushdown_sort(wanted)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = if self.late.is_empty() {
            self.child.execute(partition, context)?
        } else {
            self.looked_up_or_all(partition, context)
        };
        let schema = self.schema();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let shown = Arc::clone(&schema);
        let rows = rows.map(move |batch| {
            let batch = as_schema(batch?, &shown)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl ColumnarExec {
    /// A partition's rows, once the filters say which they are: looked up in the first partition, or all of the child's.
    fn looked_up_or_all(&self, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (node, schema) = (self.clone(), self.schema());
        let rows = async move {
            let Counts { rows, memory, rest, .. } = node.counts;
            let about = rows + memory + rest.unwrap_or_default();
            let few = node.looked_up.get_or_try_init(|| key_lookup::few_rows(&node.scan, &node.late, about)).await?;
            match few {
                None => node.child.execute(partition, context),
                Some(rows) if partition == 0 => node.by_rows(rows.clone())?.execute(0, context),
                Some(_) => Ok(Box::pin(EmptyRecordBatchStream::new(node.schema())) as SendableRecordBatchStream),
            }
        };
        Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(rows).try_flatten()))
    }
}

/// The batch with the fields of SQL: the file's say less of names and NULLs.
fn as_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let (_, columns, _) = batch.into_parts();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
