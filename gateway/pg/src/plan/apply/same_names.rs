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
    let mut found = false;
    lifted(subquery, &mut found)?;
    Ok(found)
}

/// The columns of a node's input that conditions below it read which are lifted over it, by name; `found` where one
/// meets another column of its name.
fn lifted(node: &LogicalPlan, found: &mut bool) -> Result<HashMap<String, Column>> {
    let mut columns: HashMap<String, Column> = HashMap::new();
    let mut add = |column: Column, found: &mut bool| {
        let known = columns.entry(column.name.clone()).or_insert_with(|| column.clone());
        *found |= *known != column;
    };
    for input in node.inputs() {
        lifted(input, found)?.into_values().for_each(|column| add(column, found));
    }
    if let LogicalPlan::Filter(filter) = node {
        let conditions = split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer());
        conditions.flat_map(Expr::column_refs).for_each(|column| add(column.clone(), found));
    }
    *found = *found || has_same_names(node)?;
    // What the subquery shows, and what a query in its FROM hands on.
    let shown: Vec<&Expr> = match node {
        LogicalPlan::Projection(projection) => projection.expr.iter().collect(),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().chain(&aggregate.aggr_expr).collect(),
        _ => Vec::new(),
    };
    for expr in shown {
        let is_other = |column: &Column| !matches!(expr, Expr::Column(same) if same == column);
        *found |= columns.get(&expr.qualified_name().1).is_some_and(is_other);
    }
    if let LogicalPlan::SubqueryAlias(alias) = node {
        columns.values_mut().for_each(|column| column.relation = Some(alias.alias.clone()));
    }
    Ok(columns)
}

/// The subquery of EXISTS without its select list, DISTINCT and order, which say nothing of whether there is a row:
/// what stands in the list may have the name of another column, or fail.
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
