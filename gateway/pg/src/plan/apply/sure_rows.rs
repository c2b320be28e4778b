//! Subqueries in which DataFusion would lose a row, or see one that is not there.
//!
//! Its join of EXISTS and IN asks for rows below an aggregation, in 55.2: without GROUP BY that gives a row of none,
//! so that `EXISTS (SELECT count(*) FROM b WHERE b.x = outer.x)` is true always, and `0 IN (SELECT count(*) …)` where
//! `b` has no such row. A LIMIT of EXISTS it takes away, `LIMIT 0` and OFFSET too.

use super::outer_columns;
use datafusion::{
    common::{
        Result,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Aggregate, Expr, FetchType, LogicalPlan, SkipType,
        expr::{Exists, InSubquery},
    },
};

/// Whether a subquery of a node is one of these.
pub(super) fn has_sure_rows(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) = expr {
                found = found || is_mistaken(&subquery.subquery)?;
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

fn is_mistaken(subquery: &LogicalPlan) -> Result<bool> {
    subquery.exists(|node| {
        let differs = match node {
            LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
            LogicalPlan::Limit(limit) => !matches!(
                (limit.get_skip_type()?, limit.get_fetch_type()?),
                (SkipType::Literal(0), FetchType::Literal(None | Some(1..)))
            ),
            _ => false,
        };
        Ok(differs && !outer_columns::free(node).is_empty())
    })
}
