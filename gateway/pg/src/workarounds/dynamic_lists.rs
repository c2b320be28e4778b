//! Lists of IN with values that are computed of the row, as comparisons with each of them.
//!
//! DataFusion 55.2 takes a list for one of constants if its values can be computed of no rows as values, which a CASE
//! can: `a NOT IN ('x', CASE WHEN b THEN 'y' END)` was true where the CASE is NULL, and where it is `a`
//! (`try_evaluate_constant_list`). A comparison with one value by itself is not so taken. Columns by themselves are
//! not, either.
//!
//! Its simplification makes such lists too, of `a = ANY (ARRAY[…])`: so the rule runs when types are settled, and after
//! expressions are simplified.

use super::each_node::each_node;
use crate::plan::each_expr::{EachExpr, Order, under_its_name};
use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::{Expr, LogicalPlan, expr::InList, expr_rewriter::NamePreserver, utils::disjunction},
    optimizer::{AnalyzerRule, OptimizerRule},
};
use std::sync::Arc;

/// The rule; for after types are settled.
pub fn dynamic_lists() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr { name: "dynamic_lists", order: Order::LeavesFirst, rewrite: |expr, _, _| rewrite(expr) })
}

/// The rule; for between the simplification of expressions and the pushing of filters.
pub fn simplified_lists() -> Arc<dyn OptimizerRule + Send + Sync> {
    each_node("dynamic_lists", |node| {
        if matches!(node, LogicalPlan::TableScan(_)) || !has_dynamic_list(&node)? {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| under_its_name(expr, &names, |expr| expr.transform_up(rewrite)))
    })
}

fn has_dynamic_list(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|expr| Ok(matches!(expr, Expr::InList(list) if list.list.iter().any(is_computed))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr, list, negated }) = expr else { return Ok(Transformed::no(expr)) };
    // A value that is new for each comparison cannot be compared several times.
    if expr.is_volatile() || !list.iter().any(is_computed) {
        return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
    }
    let (computed, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_computed);
    let listed = (!others.is_empty()).then(|| expr.as_ref().clone().in_list(others, false));
    let compared = computed.into_iter().map(|value| expr.as_ref().clone().eq(value));
    let any = disjunction(listed.into_iter().chain(compared)).unwrap_or_default();
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(any)) } else { any }))
}

fn is_computed(value: &Expr) -> bool {
    !matches!(value, Expr::Column(_)) && value.any_column_refs()
}
