//! `… WHERE status = 'new' ORDER BY id LIMIT 10`: a page of rows in key order that pass a filter.
//!
//! A scan by row groups comes in no order, so that each of its partitions reads a whole row group before ten rows are
//! known to be the first. Most pages fill from the first few hundred rows of the table. So the rule [`FirstRows`] puts
//! a node above such a plan, which first looks for its rows in a scan by rows, in key order, of a bounded number of
//! rows. If these do not fill the page, the number of those that pass tells how many have to be read. Where that are
//! more than 2,048, the plan beneath runs as if nothing had been:
//!
//! ```text
//! FirstRowsExec                 10 rows, among the first 128 in key order, or some more; else:
//!   SortPreservingMergeExec       fetch=10
//!     SortExec                      TopK
//!       FilterExec                    status = 'new'
//!         ColumnarExec
//! ```
//!
//! The rule runs before DataFusion's that takes a sort away where a scan may come in its order: that would read all of
//! the table row by row, where few rows pass. The plan that reads in key order is made of the other when it runs
//! ([`Pipeline::by_rows`]): whatever happens to that plan happens to both. A LIMIT without ORDER BY goes the same way.

use super::{
    columnar::{ByRows, ColumnarExec},
    node,
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{PhysicalExpr, PhysicalSortExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
        PlanProperties, ReplaceChildrenOptions,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use std::{fmt, sync::Arc};

/// The most rows of a page that are looked for so.
const PAGE_ROWS_MAX: usize = 256;
/// The fewest rows that the first try reads.
const FIRST_TRY_MIN: usize = 128;
/// Rows that the first try reads for each row of the page.
const FIRST_TRY_OF_ROW: usize = 8;
/// Tries after each of which the next is known to be among few more rows.
const TRIES_MAX: usize = 3;
/// The most rows that a try reads; fewer of many columns ([`VALUES_MAX`]).
const ROWS_MAX: usize = 2_048;
/// The most values that a try reads: about three milliseconds.
const VALUES_MAX: usize = 8_192;
/// A table of fewer than so many times the rows of a try is read as fast by row groups.
const ROWS_OF_TABLE_MIN: u64 = 8;

/// The rule.
#[derive(Debug)]
pub struct FirstRows;

impl PhysicalOptimizerRule for FirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_down(|node| {
            let page = match Pipeline::of(&node) {
                Some(pipeline) if pipeline.by_rows(first_try(pipeline.page))?.is_some() => pipeline.page,
                _ => return Ok(Transformed::no(node)),
            };
            let staying = node.transform_down(|node| match node.downcast_ref::<ColumnarExec>() {
                Some(columnar) => {
                    let staying = Arc::new(columnar.staying()) as Arc<dyn ExecutionPlan>;
                    Ok(Transformed::new(staying, true, TreeNodeRecursion::Jump))
                }
                None => Ok(Transformed::no(node)),
            });
            let wrapped = Arc::new(FirstRowsExec::new(staying?.data, page));
            Ok(Transformed::new(wrapped as Arc<dyn ExecutionPlan>, true, TreeNodeRecursion::Jump))
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rows among which a page is, after some were read of which too few pass; `None` for too many.
fn next_try(page: usize, found: usize, read: usize) -> Option<usize> {
    let rows = (read * page).checked_div(found)?;
    Some(rows + rows / 2).filter(|rows| *rows <= ROWS_MAX)
}

fn first_try(page: usize) -> usize {
    (page * FIRST_TRY_OF_ROW).clamp(FIRST_TRY_MIN, ROWS_MAX)
}

/// A plan that gives the first rows of a scan that pass filters.
struct Pipeline<'a> {
    /// Filters, projections and a sort above a scan by row groups.
    rows: &'a Arc<dyn ExecutionPlan>,
    order: Vec<PhysicalSortExpr>,
    /// How many rows are wanted.
    page: usize,
}

impl<'a> Pipeline<'a> {
    /// The parts of a plan of one partition that has this form.
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if plan.output_partitioning().partition_count() != 1 {
            return None;
        }
        let (rows, order) = if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            (merge.input(), merge.expr().to_vec())
        } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
            (plan, sort.expr().to_vec())
        } else if let Some(all) = plan.downcast_ref::<CoalescePartitionsExec>() {
            (all.input(), Vec::new())
        } else if plan.is::<FilterExec>() {
            (plan, Vec::new())
        } else {
            return None;
        };
        let page = plan.fetch().filter(|page| (1..=PAGE_ROWS_MAX).contains(page))?;
        Some(Self { rows, order, page })
    }

    /// The pipeline over the first `rows` rows in the order, and the scan of these; `None` where it cannot be made, or
    /// gains nothing.
    fn by_rows(&self, rows: usize) -> Result<Option<ByRows>> {
        by_rows(self.rows, Passed { order: self.order.clone(), page: Some(self.page), filtered: false }, rows)
    }
}

/// What has been passed on the way down a pipeline.
struct Passed {
    /// The order that is wanted of what is beneath.
    order: Vec<PhysicalSortExpr>,
    /// The rows of the page, while nothing but projections has been passed: a sort is the one that makes it.
    page: Option<usize>,
    /// Whether a filter was passed. Without one the first rows are the page, of a scan that is told so.
    filtered: bool,
}

/// See [`Pipeline::by_rows`].
fn by_rows(node: &Arc<dyn ExecutionPlan>, passed: Passed, rows: usize) -> Result<Option<ByRows>> {
    let Passed { order, page, filtered } = passed;
    if let Some(columnar) = node.downcast_ref::<ColumnarExec>() {
        let columns = columnar.scan().schema().fields().len().max(1);
        let rows = rows.min(VALUES_MAX / columns);
        let filtered = filtered || !columnar.filters().is_empty();
        if !filtered || rows == 0 || columnar.stats().rows_estimate() < rows as u64 * ROWS_OF_TABLE_MIN {
            return Ok(None);
        }
        return columnar.first_rows(&order, rows);
    }
    // The sort beneath a merge, which rows in order do not need.
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let is_its = page.is_some_and(|page| sort.fetch() == Some(page)) && !order.is_empty();
        let passed = Passed { order: sort.expr().to_vec(), page: None, filtered };
        return if is_its { by_rows(sort.input(), passed, rows) } else { Ok(None) };
    }
    let [child] = node.children()[..] else { return Ok(None) };
    let dealt = node.downcast_ref::<RepartitionExec>();
    let in_turn = dealt.is_some_and(|dealt| matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)));
    if in_turn || node.is::<CooperativeExec>() {
        return by_rows(child, Passed { order, page: None, filtered }, rows);
    }
    let below = if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let places: Option<Vec<usize>> = filter.projection().as_ref().map(|places| places.to_vec());
        mapped(order, |at| match &places {
            Some(places) => places.get(at).copied(),
            None => Some(at),
        })
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        mapped(order, |at| Some(projection.expr().get(at)?.expr.downcast_ref::<Column>()?.index()))
    } else {
        None
    };
    let Some(order) = below else { return Ok(None) };
    let schema = child.schema();
    let named = |mut by: PhysicalSortExpr| {
        if let Some(column) = by.expr.downcast_ref::<Column>() {
            by.expr = Arc::new(Column::new(schema.field(column.index()).name(), column.index()));
        }
        by
    };
    let is_filter = node.is::<FilterExec>();
    let order = order.into_iter().map(named).collect();
    let passed = Passed { order, page: page.filter(|_| !is_filter), filtered: filtered || is_filter };
    let Some(tried) = by_rows(child, passed, rows)? else { return Ok(None) };
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some(ByRows { plan: Arc::clone(node).replace_children(vec![tried.plan], options)?, ..tried }))
}

/// The order over the columns beneath a node; `None` where it is not one of columns of these.
fn mapped(order: Vec<PhysicalSortExpr>, place: impl Fn(usize) -> Option<usize>) -> Option<Vec<PhysicalSortExpr>> {
    let below = |by: PhysicalSortExpr| {
        let column = by.expr.downcast_ref::<Column>()?;
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), place(column.index())?));
        Some(PhysicalSortExpr { expr, options: by.options })
    };
    order.into_iter().map(below).collect()
}

/// A page of rows: see the module.
#[derive(Debug)]
pub(crate) struct FirstRowsExec {
    child: Arc<dyn ExecutionPlan>,
    page: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsExec {
    fn new(child: Arc<dyn ExecutionPlan>, page: usize) -> Self {
        let properties = Arc::clone(child.properties());
        Self { child, page, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, self.page)
    }

    /// How many rows were read in key order, so far.
    pub(crate) fn rows_tried(&self) -> usize {
        self.metrics.clone_inner().sum_by_name(TRIED).map_or(0, |rows| rows.as_usize())
    }
}

/// The metric of [`FirstRowsExec::rows_tried`].
const TRIED: &str = "rows_tried";

impl DisplayAs for FirstRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FirstRowsExec: fetch={}, looked for in key order first", self.page)
    }
}

impl ExecutionPlan for FirstRowsExec {
    node::fields!("FirstRowsExec");
    node::over_child!();

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn fetch(&self) -> Option<usize> {
        Some(self.page)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (child, page) = (Arc::clone(&self.child), self.page);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let counted = MetricBuilder::new(&self.metrics).counter(TRIED, partition);
        let schema = self.schema();
        let rows = async move {
            match page_of(&child, page, &counted, &context).await? {
                Some(rows) => Ok(rows),
                None => child.execute(partition, context),
            }
        };
        let rows = futures::stream::once(rows).try_flatten();
        let rows = rows.inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The page, if a few rows in key order fill it or are all that there are.
async fn page_of(
    plan: &Arc<dyn ExecutionPlan>,
    page: usize,
    counted: &Count,
    context: &Arc<TaskContext>,
) -> Result<Option<SendableRecordBatchStream>> {
    let Some(pipeline) = Pipeline::of(plan) else { return Ok(None) };
    let mut rows = first_try(page);
    for _ in 0..TRIES_MAX {
        let Some(ByRows { plan: tried, scan }) = pipeline.by_rows(rows)? else { return Ok(None) };
        let asked = scan.fetch().unwrap_or(rows);
        let (mut batches, mut found) = (Vec::new(), 0);
        let mut stream = tried.execute(0, Arc::clone(context))?;
        while found < page
            && let Some(batch) = stream.try_next().await?
        {
            let batch = batch.slice(0, batch.num_rows().min(page - found));
            found += batch.num_rows();
            batches.push(batch);
        }
        drop(stream);
        let read = scan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(asked);
        counted.add(read);
        if found == page || read < asked {
            let rows = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
            return Ok(Some(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), rows))));
        }
        // Of many columns no try reads more.
        match next_try(page, found, asked).filter(|_| asked == rows) {
            Some(next) => rows = next,
            None => break,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_try_reads_what_the_page_is_expected_in() {
        assert_eq!(first_try(1), FIRST_TRY_MIN);
        assert_eq!(first_try(PAGE_ROWS_MAX), ROWS_MAX);
        assert_eq!(next_try(10, 5, 128), Some(384));
        assert_eq!(next_try(10, 1, 128), Some(1_920));
        assert_eq!(next_try(20, 1, 128), None, "too many");
        assert_eq!(next_try(10, 0, 128), None, "nobody knows");
    }
}
