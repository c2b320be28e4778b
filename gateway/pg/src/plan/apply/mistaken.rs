//! Subqueries in which DataFusion would lose a row, see one that is not there, or panic.
//!
//! Its join of EXISTS and IN asks for rows below an aggregation, in 55.2: without GROUP BY that gives a row of none,
//! so that `EXISTS (SELECT count(*) FROM b WHERE b.x = outer.x)` is true always, and `0 IN (SELECT count(*) …)` where
//! `b` has no such row. A LIMIT of EXISTS it takes away, `LIMIT 0` and OFFSET too.
//!
//! What a condition on the row outside needs of a relation beneath an alias, as in
//! `EXISTS (SELECT … FROM (SELECT c AS d FROM b WHERE b.x <> outer.x) y …)`, it adds to the columns of the relation and
//! not to those of the alias: an index is out of bounds once a filter is pushed there.

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
pub(super) fn has_mistaken(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            match expr {
                Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => {
                    found = found || has_row(&subquery.subquery)? || is_named_below(&subquery.subquery)?;
                }
                Expr::ScalarSubquery(subquery) => found = found || is_named_below(&subquery.subquery)?,
                _ => {}
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// Whether the row outside is named beneath an alias.
fn is_named_below(subquery: &LogicalPlan) -> Result<bool> {
    subquery.exists(|node| {
        Ok(matches!(node, LogicalPlan::SubqueryAlias(alias) if !outer_columns::free(&alias.input).is_empty()))
    })
}

/// Whether it has a row where its relations have none, or none where they have.
fn has_row(subquery: &LogicalPlan) -> Result<bool> {
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
