//! `SELECT DISTINCT ON (…)` whose items hold subqueries.
//!
//! DataFusion holds the items in the node of the DISTINCT, where none of its rules looks for subqueries: a projection
//! below computes the items and the expressions of ON and ORDER BY, and the node takes its columns.

use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Distinct, DistinctOn as Node, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr},
    optimizer::AnalyzerRule,
};
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub struct DistinctOn;

impl AnalyzerRule for DistinctOn {
    fn name(&self) -> &str {
        "distinct_on_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _options: &ConfigOptions) -> Result<LogicalPlan> {
        let found = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Distinct(Distinct::On(node)) if node.select_expr.iter().any(has_subquery) => {
                Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(projected(node)?))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(found.data)
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let is = |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)));
    expr.exists(is).unwrap_or(false)
}

fn projected(node: Node) -> Result<Node> {
    let items = node.select_expr.len();
    let by = |what: &str, at: usize| format!("\u{1}{what}{at}");
    let mut computed = node.select_expr;
    computed.extend(node.on_expr.iter().enumerate().map(|(at, expr)| expr.clone().alias(by("on", at))));
    let orders = node.sort_expr.unwrap_or_default();
    computed.extend(orders.iter().enumerate().map(|(at, order)| order.expr.clone().alias(by("order", at))));
    let input = LogicalPlanBuilder::from(node.input.as_ref().clone()).project(computed)?.build()?;
    let column = |name: String| Expr::Column(Column::new_unqualified(name));
    let select: Vec<Expr> = input.schema().columns().into_iter().take(items).map(Expr::Column).collect();
    let on: Vec<Expr> = (0..node.on_expr.len()).map(|at| column(by("on", at))).collect();
    // The expressions of ON come first in the order, and have to be the same there.
    let ordered = |(at, order): (usize, SortExpr)| {
        let position = node.on_expr.iter().position(|on| *on == order.expr);
        let expr = column(position.map_or_else(|| by("order", at), |at| by("on", at)));
        SortExpr { expr, ..order }
    };
    let orders: Vec<SortExpr> = orders.into_iter().enumerate().map(ordered).collect();
    Node::try_new(on, select, Some(orders).filter(|orders| !orders.is_empty()), Arc::new(input))
}
