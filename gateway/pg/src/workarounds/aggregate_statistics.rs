//! Aggregations of all rows whose values statistics know, as a row of these values.
//!
//! DataFusion's rule of this name looks, from the end of an aggregation on, for where its rows come in, and passes over
//! what has a FILTER: it found another aggregation below, and put that one's values in the place of both
//! (`count(c) FILTER (WHERE c > 5)` of `(SELECT count(*) AS c FROM (VALUES (1), (2)) v)`: an internal error). This one
//! looks no further than the aggregation's own beginning.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    physical_expr::expressions::lit,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode},
        placeholder_row::PlaceholderRowExec,
        projection::{ProjectionExec, ProjectionExpr},
        statistics::{StatisticsArgs, StatisticsContext},
        udaf::StatisticsArgs as OfRows,
    },
};
use std::sync::Arc;

/// Replaces such aggregations.
#[derive(Debug)]
pub struct AggregateStatistics;

impl PhysicalOptimizerRule for AggregateStatistics {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let known = plan.transform_down(|node| match known(&node)? {
            Some(row) => Ok(Transformed::yes(row)),
            None => Ok(Transformed::no(node)),
        });
        Ok(known?.data)
    }

    fn name(&self) -> &str {
        "aggregate_statistics"
    }

    /// A value that is known is not NULL.
    fn schema_check(&self) -> bool {
        false
    }
}

/// The row of an aggregation, if statistics know all of its values.
fn known(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(beginning) = beginning(node.as_ref()) else { return Ok(None) };
    let statistics = StatisticsContext::new().compute(beginning.input().as_ref(), &StatisticsArgs::new())?;
    let values = beginning.aggr_expr().iter().map(|call| {
        let field = call.field();
        let of_rows = OfRows {
            statistics: &statistics,
            return_type: field.data_type(),
            is_distinct: call.is_distinct(),
            exprs: &call.expressions(),
        };
        let value = call.fun().value_from_stats(&of_rows)?;
        Some(ProjectionExpr { expr: lit(value), alias: call.name().to_owned() })
    });
    let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let row = Arc::new(PlaceholderRowExec::new(node.schema()));
    Ok(Some(Arc::new(ProjectionExec::try_new(values, row)?)))
}

/// Where the rows of an aggregation come in that ends with this node, if it has neither GROUP BY nor FILTER.
fn beginning(end: &dyn ExecutionPlan) -> Option<&AggregateExec> {
    let mut at: &AggregateExec = end.downcast_ref()?;
    if at.mode().output_mode() != AggregateOutputMode::Final {
        return None;
    }
    while at.mode().input_mode() == AggregateInputMode::Partial {
        // States come from below, by way of nodes that change nothing of them.
        let mut below = at.input();
        at = loop {
            if let Some(aggregate) = below.downcast_ref() {
                break aggregate;
            }
            let [only] = below.children()[..] else { return None };
            below = only;
        };
    }
    let is_plain = at.group_expr().is_empty() && at.filter_expr().iter().all(Option::is_none);
    is_plain.then_some(at)
}
