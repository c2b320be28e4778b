//! Conditions without columns stay above aggregations that have a row where there is none: those without GROUP BY, and
//! those with grouping sets.
//!
//! DataFusion 55.2 takes a condition whose columns are all grouped by below the aggregation, and one that has none, too
//! (`PushDownFilter`): `SELECT c FROM (SELECT count(*) AS c FROM t) q WHERE (SELECT false)` had a row. It takes nothing
//! below a LIMIT. So there is one that leaves out nothing above these aggregations while that rule runs, and none after
//! it ([`guarded`]).

use super::each_node::each_node;
use datafusion::{
    common::{ScalarValue, tree_node::Transformed},
    logical_expr::{Aggregate, Expr, Limit, LogicalPlan, lit},
    optimizer::OptimizerRule,
};
use std::sync::Arc;

/// As many rows as there may be.
const ALL: i64 = i64::MAX;

/// The rule that pushes filters down, between one that puts LIMITs and one that takes them away.
pub fn guarded(push_down: Arc<dyn OptimizerRule + Send + Sync>) -> [Arc<dyn OptimizerRule + Send + Sync>; 3] {
    let guard = each_node("constant_filters_guard", |node| Ok(with_limit(node)));
    let unguard = each_node("constant_filters_unguard", |node| Ok(without_limit(node)));
    [guard, push_down, unguard]
}

fn with_limit(node: LogicalPlan) -> Transformed<LogicalPlan> {
    match node {
        LogicalPlan::Aggregate(aggregate) if has_row_of_none(&aggregate) => {
            let input = Arc::new(LogicalPlan::Aggregate(aggregate));
            Transformed::yes(LogicalPlan::Limit(Limit { skip: None, fetch: Some(Box::new(lit(ALL))), input }))
        }
        node => Transformed::no(node),
    }
}

fn without_limit(node: LogicalPlan) -> Transformed<LogicalPlan> {
    match node {
        LogicalPlan::Limit(Limit { skip: None, fetch: Some(fetch), input })
            if matches!(*fetch, Expr::Literal(ScalarValue::Int64(Some(ALL)), _))
                && matches!(input.as_ref(), LogicalPlan::Aggregate(_)) =>
        {
            Transformed::yes(Arc::unwrap_or_clone(input))
        }
        node => Transformed::no(node),
    }
}

/// Whether an aggregation of no rows has a row.
fn has_row_of_none(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.is_empty() || matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}
