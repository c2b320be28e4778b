//! Values that grouping sets compute, as columns of a projection below the aggregation.
//!
//! When DataFusion 55.2 settles the types in `ROLLUP (n > 1, …)`, it gives the whole set the name that it had, as an
//! alias behind which nobody finds a set any more: "aggregate schema has wrong number of fields". And a value in the
//! place of a parameter changes the names of what is in a set, which nodes above go by. Sets of columns have neither
//! types to settle nor parameters. A projection above gives the columns the names that they had.

use datafusion::{
    common::{
        Column, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder},
};
use std::sync::Arc;

/// The plan with a projection below each aggregation whose grouping sets compute values; for before types are settled,
/// and before parameters have values.
///
/// # Errors
/// What DataFusion finds.
pub fn as_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => rewrite(aggregate),
        node => Ok(Transformed::no(node)),
    });
    Ok(rewritten?.data)
}

fn rewrite(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let is_grouping = |call: &Expr| matches!(call, Expr::AggregateFunction(call) if call.func.name() == "grouping");
    let asks = |call: &Expr| call.exists(|call| Ok(is_grouping(call)));
    // `grouping(a > 1)` names the value as it is written.
    let mut asked = false;
    for call in &aggregate.aggr_expr {
        asked |= asks(call)?;
    }
    let values: Vec<Expr> = match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(set)] if !asked => {
            set.distinct_expr().into_iter().filter(|by| !matches!(by, Expr::Column(_))).cloned().collect()
        }
        _ => Vec::new(),
    };
    if values.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Aggregate { input, mut group_expr, aggr_expr, schema, .. } = aggregate;
    // Names that no column has: that of a cast is the name of what it casts.
    let name = |at: usize| format!("\u{1}set{at}");
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let named = values.iter().enumerate().map(|(at, value)| value.clone().alias(name(at)));
    let below: Vec<Expr> = columns.chain(named).collect();
    let below = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(below)?.build()?;
    let column = |by: &mut Expr| {
        if let Some(at) = values.iter().position(|value| value == by) {
            *by = Expr::Column(Column::new_unqualified(name(at)));
        }
    };
    for by in &mut group_expr {
        match by {
            Expr::GroupingSet(GroupingSet::Rollup(all) | GroupingSet::Cube(all)) => all.iter_mut().for_each(column),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().for_each(column),
            _ => {}
        }
    }
    let aggregate = Aggregate::try_new(Arc::new(below), group_expr, aggr_expr)?;
    let shown = aggregate.schema.columns().into_iter().zip(schema.iter()).map(|(column, (qualifier, field))| {
        let same = column.relation.as_ref() == qualifier && column.name == *field.name();
        let column = Expr::Column(column);
        if same { column } else { column.alias_qualified(qualifier.cloned(), field.name()) }
    });
    let shown: Vec<Expr> = shown.collect();
    let shown = LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate)).project(shown)?.build()?;
    Ok(Transformed::yes(shown))
}
