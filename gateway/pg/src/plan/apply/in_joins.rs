//! Joins with correlated subqueries: in their conditions, and LATERAL.

use super::{
    below::{Below, Made, closed},
    node::{Apply, Kind},
    outer_columns, unnest,
};
use datafusion::{
    common::{
        DFSchema, ExprSchema, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
        expr::{Exists, InSubquery},
        lit,
        utils::{conjunction, split_conjunction},
    },
};
use std::sync::Arc;

/// A join whose right side is evaluated for each row of its left side. Conditions of an outer join are the right side's
/// own.
pub(super) fn lateral(join: &Join, made: &mut Made) -> Result<LogicalPlan> {
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(keys.chain(join.filter.clone()));
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        other => return datafusion::common::not_impl_err!("LATERAL on the right of a {other} join"),
    };
    let schema = join.left.schema();
    let mut right = join.right.as_ref().clone();
    if outer && let Some(condition) = &condition {
        let theirs = condition.clone().transform_up(|expr| match expr {
            Expr::Column(column) if schema.has_column(&column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        right = LogicalPlan::Filter(Filter::new(theirs.data, Arc::new(right)));
    }
    let joined = match made.unnesting(&join.left, &right)? {
        Some(unnesting) => unnest::rows(&join.left, &unnesting, &right, outer)?,
        None => None,
    };
    made.joined |= joined.is_some();
    let rows = match joined {
        Some(rows) => rows,
        None => {
            let (plan, bindings) = closed(right, schema)?;
            Apply::new(join.left.as_ref().clone(), Kind::Rows { outer }, 0, plan, bindings)?.into_plan()
        }
    };
    match condition {
        Some(condition) if !outer => LogicalPlanBuilder::from(rows).filter(condition)?.build(),
        _ => Ok(rows),
    }
}

/// A join's conditions with subqueries, where they are a filter as well: above an inner join, and on the right side
/// alone of a left join.
pub(super) fn above_or_right(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(filter) = &join.filter else { return Ok(None) };
    let has_subquery = |expr: &Expr| {
        let mut found = false;
        let walked = expr.apply(|expr| {
            found |= matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
            Ok(TreeNodeRecursion::Continue)
        });
        walked.is_ok() && found
    };
    let (moved, kept): (Vec<_>, Vec<_>) = split_conjunction(filter).into_iter().cloned().partition(has_subquery);
    let (mut left, mut right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
    match join.join_type {
        JoinType::Inner => {}
        JoinType::Left if moved.iter().all(|expr| outer_columns::needs_only(expr, right.schema())) => {
            right = LogicalPlan::Filter(Filter::new(conjunction(moved.clone()).unwrap_or(lit(true)), Arc::new(right)));
        }
        JoinType::Right if moved.iter().all(|expr| outer_columns::needs_only(expr, left.schema())) => {
            left = LogicalPlan::Filter(Filter::new(conjunction(moved.clone()).unwrap_or(lit(true)), Arc::new(left)));
        }
        _ => return Ok(None),
    }
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        conjunction(kept),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = LogicalPlan::Join(joined);
    Ok(Some(match (join.join_type, conjunction(moved)) {
        (JoinType::Inner, Some(moved)) => LogicalPlan::Filter(Filter::new(moved, Arc::new(joined))),
        _ => joined,
    }))
}

/// A join whose conditions have subqueries that name columns of one side only: their values become columns of that
/// side. `None` where one names columns of both.
pub(super) fn in_sides(join: &Join, made: &mut Made) -> Result<Option<LogicalPlan>> {
    let Some(mut filter) = join.filter.clone() else { return Ok(None) };
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
        return Ok(None);
    }
    let names_only = |expr: &Expr, schema: &DFSchema| {
        let of = |plan: &LogicalPlan| outer_columns::free(plan).iter().all(|(_, column)| schema.has_column(column));
        match expr {
            Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => of(&subquery.subquery),
            Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
                of(&subquery.subquery) && outer_columns::needs_only(expr, schema)
            }
            _ => false,
        }
    };
    let mut both = false;
    filter.apply(|expr| {
        both |= matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
            && ![&join.left, &join.right].iter().any(|side| names_only(expr, side.schema()));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if both {
        return Ok(None);
    }
    let mut sides = Vec::with_capacity(2);
    for side in [&join.left, &join.right] {
        let mut below = Below::over(side.as_ref().clone(), made);
        filter = below.rewritten(filter, |expr| names_only(expr, side.schema()))?;
        sides.push(Arc::new(below.input));
    }
    let [left, right] = <[Arc<LogicalPlan>; 2]>::try_from(sides)
        .map_err(|_| datafusion::common::internal_datafusion_err!("a join has two sides"))?;
    let joined = Join::try_new(
        left,
        right,
        join.on.clone(),
        Some(filter),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let shown = join.schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(shown)?.build().map(Some)
}

/// A left or right join with a condition whose subqueries name columns of both sides: the pairs of each row of the side
/// that is kept are those of a LATERAL subquery. `None` for other joins: above an inner join the condition is a filter,
/// and a full join would evaluate it twice.
pub(super) fn of_pairs(join: &Join, made: &mut Made) -> Result<Option<LogicalPlan>> {
    match join.join_type {
        JoinType::Left => lateral(join, made).map(Some),
        JoinType::Right => {
            let on = join.on.iter().map(|(left, right)| (right.clone(), left.clone())).collect();
            let (left, right) = (Arc::clone(&join.right), Arc::clone(&join.left));
            let turned = Join::try_new(
                left,
                right,
                on,
                join.filter.clone(),
                JoinType::Left,
                join.join_constraint,
                join.null_equality,
                false,
            )?;
            let shown = join.schema.columns().into_iter().map(Expr::Column);
            LogicalPlanBuilder::from(lateral(&turned, made)?).project(shown)?.build().map(Some)
        }
        _ => Ok(None),
    }
}
