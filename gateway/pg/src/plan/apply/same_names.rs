//! Subqueries in which DataFusion would take one column for another.
//!
//! Its rules lift conditions that name columns outside of a subquery into a join with it, and give all columns that
//! these conditions read the alias of that join. Two columns of one name are one afterwards:
//!
//! ```text
//! EXISTS (SELECT * FROM a JOIN b ON … WHERE a.id = outer.x AND b.id = outer.y)
//!         → both conditions are of a.id
//! ```
//!
//! (`replace_qualified_name` of DataFusion 55, in `decorrelate_predicate_subquery` and `scalar_subquery_to_join`, and
//! `requalify_filter` in `decorrelate_lateral_join`.)

use super::is_lateral;
use datafusion::{
    common::{
        Column, Result,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Subquery,
        expr::{Exists, InSubquery},
        lit,
        utils::split_conjunction,
    },
};
use std::{collections::HashMap, sync::Arc};

/// Whether a subquery of a node, or one within it, has two columns that would become one. LATERAL is one.
pub(super) fn has_same_names(node: &LogicalPlan) -> Result<bool> {
    let mut found = match node {
        LogicalPlan::Join(join) if is_lateral(join) => is_mistaken(&join.right)?,
        _ => false,
    };
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. }) = expr
            {
                found = found || is_mistaken(&subquery.subquery)?;
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

fn is_mistaken(subquery: &LogicalPlan) -> Result<bool> {
    let mut lifted: HashMap<String, Column> = HashMap::new();
    let mut found = false;
    subquery.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let conditions = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
            for column in conditions.flat_map(Expr::column_refs) {
                let known = lifted.entry(column.name.clone()).or_insert_with(|| column.clone());
                found |= known != column;
            }
        }
        found = found || has_same_names(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    // What the subquery shows, and what a query in its FROM hands on.
    subquery.apply(|node| {
        let shown: Vec<&Expr> = match node {
            LogicalPlan::Projection(projection) => projection.expr.iter().collect(),
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect(),
            _ => Vec::new(),
        };
        for expr in shown {
            let is_other = |column: &Column| !matches!(expr, Expr::Column(same) if same == column);
            found |= lifted.get(&expr.qualified_name().1).is_some_and(is_other);
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The subquery of EXISTS without its select list, DISTINCT and order, which say nothing of whether there is a row: what
/// stands in the list may have the name of another column, or fail.
///
/// # Errors
/// DataFusion's.
pub(super) fn without_list(subquery: Subquery) -> Result<Subquery> {
    let mut plan = subquery.subquery.as_ref();
    loop {
        plan = match plan {
            LogicalPlan::Distinct(Distinct::All(input)) => input,
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => &sort.input,
            LogicalPlan::Projection(projection) => {
                let listed = LogicalPlanBuilder::from(Arc::clone(&projection.input)).project([lit(1)])?.build()?;
                return Ok(Subquery {
                    outer_ref_columns: listed.all_out_ref_exprs(),
                    subquery: listed.into(),
                    ..subquery
                });
            }
            _ => return Ok(subquery),
        };
    }
}
