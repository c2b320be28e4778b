//! Which plans compute so little that they run on the thread of the connection: the way to the
//! [threads](super::runtime) of queries and back takes a tenth of a millisecond.
//!
//! A list of what is known to be short, not of what is long: one pipeline over one scan of a few rows, or over no
//! table, with expressions whose time and whose values do not outgrow what they are given.

use crate::{
    pg::{aggregates::FIXED_STATE, exec::compact::CompactExec},
    provider::ScanExec,
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{
            BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NegativeExpr,
            NotExpr,
        },
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        placeholder_row::PlaceholderRowExec,
        projection::ProjectionExec,
        sorts::sort::SortExec,
    },
};
use std::sync::Arc;

/// Rows that a short plan reads.
const ROWS_MAX: u64 = 1_024;
/// Functions that take little time for a row, and give no more than they are given.
const FUNCTIONS: [&str; 20] = [
    "abs",
    "ceil",
    "checked_add",
    "checked_divide",
    "checked_multiply",
    "checked_negate",
    "checked_remainder",
    "checked_subtract",
    "coalesce",
    "date_bin",
    "date_part",
    "date_trunc",
    "floor",
    "length",
    "lower",
    "round",
    "sqrt",
    "to_timestamp",
    "trunc",
    "upper",
];

/// Whether a plan is short.
pub(crate) fn is_short(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scan.rows_estimate().is_some_and(|rows| rows <= ROWS_MAX);
    }
    // The one row of a query without FROM.
    if plan.is::<PlaceholderRowExec>() {
        return true;
    }
    let computes_little = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr().iter().all(|one| is_simple(&one.expr))
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        is_simple(filter.predicate())
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        sort.expr().iter().all(|one| is_simple(&one.expr))
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let filters = aggregate.filter_expr().iter().flatten();
        groups.is_single()
            && groups.expr().iter().map(|(expr, _)| expr).chain(filters).all(is_simple)
            && aggregate.aggr_expr().iter().all(|one| {
                FIXED_STATE.contains(&one.fun().name()) && !one.is_distinct() && one.expressions().iter().all(is_simple)
            })
    } else {
        plan.is::<CoalescePartitionsExec>()
            || plan.is::<CompactExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<GlobalLimitExec>()
            || plan.is::<LocalLimitExec>()
    };
    let [child] = plan.children()[..] else { return false };
    computes_little && is_short(child)
}

/// Whether an expression computes little for each row.
fn is_simple(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut simple = true;
    let visited = expr.apply(|node| {
        simple &= node.is::<Column>()
            || node.is::<Literal>()
            || node.is::<CastExpr>()
            || node.is::<CaseExpr>()
            || node.is::<InListExpr>()
            || node.is::<IsNullExpr>()
            || node.is::<IsNotNullExpr>()
            || node.is::<NegativeExpr>()
            || node.is::<NotExpr>()
            || node.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_simple_operator(*binary.op()))
            || node.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| FUNCTIONS.contains(&call.fun().name()));
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && simple
}

fn is_simple_operator(operator: Operator) -> bool {
    use Operator::{
        And, Divide, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Or,
        Plus,
    };
    let compares = matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    compares || matches!(operator, And | Or | Plus | Minus | Multiply | Divide | Modulo)
}
