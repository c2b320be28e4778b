//! Conditions without columns stay above aggregations that have a row where there is none: those without GROUP BY, and
//! those with grouping sets.
//!
//! DataFusion 55.2 takes a condition whose columns are all grouped by below the aggregation, and one that has none, too
//! (`PushDownFilter`): `SELECT c FROM (SELECT count(*) AS c FROM t) q WHERE (SELECT false)` had a row. It takes nothing
//! below a LIMIT. So there is [one](Guard) that leaves out nothing above these aggregations while that rule runs, and
//! [none](Unguard) after it.

use datafusion::{
    common::{Result, ScalarValue, tree_node::Transformed},
    logical_expr::{Aggregate, Expr, Limit, LogicalPlan, lit},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};
use std::sync::Arc;

/// As many rows as there may be.
const ALL: i64 = i64::MAX;

/// Puts a LIMIT above such aggregations.
#[derive(Debug)]
pub struct Guard;

/// Takes it away.
#[derive(Debug)]
pub struct Unguard;

impl OptimizerRule for Guard {
    fn name(&self) -> &str {
        "constant_filters_guard"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        Ok(match plan {
            LogicalPlan::Aggregate(aggregate) if has_row_of_none(&aggregate) => {
                let input = Arc::new(LogicalPlan::Aggregate(aggregate));
                Transformed::yes(LogicalPlan::Limit(Limit { skip: None, fetch: Some(Box::new(lit(ALL))), input }))
            }
            plan => Transformed::no(plan),
        })
    }
}

impl OptimizerRule for Unguard {
    fn name(&self) -> &str {
        "constant_filters_unguard"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        Ok(match plan {
            LogicalPlan::Limit(Limit { skip: None, fetch: Some(fetch), input })
                if matches!(*fetch, Expr::Literal(ScalarValue::Int64(Some(ALL)), _))
                    && matches!(input.as_ref(), LogicalPlan::Aggregate(_)) =>
            {
                Transformed::yes(Arc::unwrap_or_clone(input))
            }
            plan => Transformed::no(plan),
        })
    }
}

/// Whether an aggregation of no rows has a row.
fn has_row_of_none(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.is_empty() || matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}
