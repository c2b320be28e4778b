//! `first_value(a ORDER BY b, 1, b)`, which `DISTINCT ON` is too.
//!
//! DataFusion's aggregates count on as many values of an order as they asked for; the physical order leaves out those
//! that come a second time, as two constants that are one once they are folded, and the assertion ends the statement.
//! A constant orders nothing, and neither does a value behind itself: both go.

use super::each_node::each_node;
use datafusion::{
    common::tree_node::Transformed,
    logical_expr::{Aggregate, Expr, LogicalPlan, SortExpr},
    optimizer::OptimizerRule,
};
use std::sync::Arc;

/// The rule by which they go.
pub fn aggregate_orders() -> Arc<dyn OptimizerRule + Send + Sync> {
    each_node("aggregate_orders", |node| match node {
        LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(is_needless) => {
            let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
            let aggr_expr = aggr_expr.into_iter().map(without_needless).collect();
            let aggregate = Aggregate::try_new_with_schema(input, group_expr, aggr_expr, schema)?;
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        node => Ok(Transformed::no(node)),
    })
}

/// The values of an order that order something.
fn needed(orders: &[SortExpr]) -> Vec<SortExpr> {
    let mut needed: Vec<SortExpr> = Vec::with_capacity(orders.len());
    for order in orders {
        if !matches!(order.expr, Expr::Literal(..)) && needed.iter().all(|before| before.expr != order.expr) {
            needed.push(order.clone());
        }
    }
    needed
}

fn is_needless(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_needless(&alias.expr),
        Expr::AggregateFunction(call) => needed(&call.params.order_by).len() < call.params.order_by.len(),
        _ => false,
    }
}

/// The aggregate, under the name that it had.
fn without_needless(expr: Expr) -> Expr {
    if !is_needless(&expr) {
        return expr;
    }
    let name = expr.schema_name().to_string();
    let mut bare = expr.unalias_nested().data;
    if let Expr::AggregateFunction(call) = &mut bare {
        call.params.order_by = needed(&call.params.order_by);
    }
    bare.alias(name)
}
