//! Which names of a subquery are columns of the query around it.
//!
//! A reference says a relation and a column, not how far outside it looks: the nearest query that has the column is
//! meant. Below an expression that is the node's own input; for LATERAL the left sides of the joins around it.

use super::{OUTER, node::Apply};
use arrow::datatypes::FieldRef;
use datafusion::{
    common::{
        Column, DFSchema, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Expr, LogicalPlan, Subquery,
        expr::{Exists, InSubquery, Placeholder},
        expr_rewriter::NamePreserver,
    },
};

/// The columns outside of it that a subquery names, each once.
pub(crate) fn free(plan: &LogicalPlan) -> Vec<(FieldRef, Column)> {
    let mut found = Vec::new();
    let looked = look(plan, &mut Vec::new(), &mut |field, column| {
        if !found.iter().any(|(_, known)| known == column) {
            found.push((FieldRef::clone(field), column.clone()));
        }
    });
    debug_assert!(looked.is_ok(), "looking does not fail");
    found
}

type Report<'a> = &'a mut dyn FnMut(&FieldRef, &Column);

fn look(plan: &LogicalPlan, lefts: &mut Vec<&LogicalPlan>, report: Report<'_>) -> Result<()> {
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            match expr {
                Expr::OuterReferenceColumn(field, column) => report(field, column),
                Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. }) => {
                    for (field, column) in free(&subquery.subquery) {
                        if !in_scope(plan, &column) {
                            report(&field, &column);
                        }
                    }
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    match plan {
        LogicalPlan::Join(join) => {
            look(&join.left, lefts, report)?;
            let mut lefts: Vec<&LogicalPlan> = lefts.iter().copied().chain([join.left.as_ref()]).collect();
            look(&join.right, &mut lefts, report)
        }
        LogicalPlan::Subquery(subquery) => {
            let lefts = std::mem::take(lefts);
            look(&subquery.subquery, &mut Vec::new(), &mut |field, column| {
                if !lefts.iter().any(|left| left.schema().has_column(column)) {
                    report(field, column);
                }
            })
        }
        other => other.inputs().into_iter().try_for_each(|input| look(input, &mut lefts.clone(), report)),
    }
}

/// Whether a column is one of what a node reads, for a subquery in its expressions.
fn in_scope(node: &LogicalPlan, column: &Column) -> bool {
    node.inputs().into_iter().any(|input| {
        let deeper = !matches!(input, LogicalPlan::SubqueryAlias(_) | LogicalPlan::Subquery(_));
        input.schema().has_column(column) || (deeper && in_scope(input, column))
    })
}

/// Whether an expression, its subqueries included, needs no column of others than a schema's.
pub(crate) fn needs_only(expr: &Expr, schema: &DFSchema) -> bool {
    let mut only = expr.column_refs().into_iter().all(|column| schema.has_column(column));
    let walked = expr.apply(|expr| {
        if let Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) = expr
        {
            only &= free(&subquery.subquery).iter().all(|(_, column)| schema.has_column(column));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    walked.is_ok() && only
}

type New<'a> = &'a dyn Fn(&Column) -> Option<Expr>;

/// An expression without subqueries with others for columns outside.
pub(crate) fn in_expression(expr: Expr, new: New<'_>) -> Result<Expr> {
    let replaced = expr.transform_up(|expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => match new(column) {
            Some(new) => Ok(Transformed::yes(new)),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    });
    Ok(replaced?.data)
}

/// A subquery with other expressions for columns outside of it.
pub(crate) fn replaced(plan: LogicalPlan, new: New<'_>) -> Result<LogicalPlan> {
    replace(plan, &[], new)
}

fn replace(plan: LogicalPlan, lefts: &[LogicalPlan], new: New<'_>) -> Result<LogicalPlan> {
    let scope = plan.clone();
    let names = NamePreserver::new(&plan);
    let plan = plan
        .map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| in_expr(expr, &scope, new, new))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?
        .data;
    let plan = match plan {
        LogicalPlan::Join(mut join) => {
            let below: Vec<LogicalPlan> = lefts.iter().cloned().chain([join.left.as_ref().clone()]).collect();
            join.left = replace(join.left.as_ref().clone(), lefts, new)?.into();
            join.right = replace(join.right.as_ref().clone(), &below, new)?.into();
            LogicalPlan::Join(join)
        }
        LogicalPlan::Subquery(subquery) => {
            let visible = |column: &Column| match lefts.iter().any(|left| left.schema().has_column(column)) {
                true => None,
                false => new(column),
            };
            LogicalPlan::Subquery(rebuilt(subquery, &visible)?)
        }
        other => other.map_children(|child| Ok(Transformed::yes(replace(child, lefts, new)?)))?.data,
    };
    plan.recompute_schema()
}

/// An expression of a node with others for columns outside: `direct` in itself, `nested` in its subqueries.
pub(crate) fn replaced_within(
    expr: Expr,
    scope: &LogicalPlan,
    direct: New<'_>,
    nested: New<'_>,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| in_expr(expr, scope, direct, nested))
}

fn in_expr(expr: Expr, scope: &LogicalPlan, direct: New<'_>, nested: New<'_>) -> Result<Transformed<Expr>> {
    let visible = |column: &Column| if in_scope(scope, column) { None } else { nested(column) };
    Ok(match expr {
        Expr::OuterReferenceColumn(field, column) => match direct(&column) {
            Some(found) => Transformed::yes(found),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(rebuilt(subquery, &visible)?)),
        Expr::Exists(Exists { subquery, negated }) => {
            Transformed::yes(Expr::Exists(Exists { subquery: rebuilt(subquery, &visible)?, negated }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery: rebuilt(subquery, &visible)?, negated }))
        }
        other => Transformed::no(other),
    })
}

fn rebuilt(subquery: Subquery, new: New<'_>) -> Result<Subquery> {
    let plan = replaced(subquery.subquery.as_ref().clone(), new)?;
    let outer = free(&plan).into_iter().map(|(field, column)| Expr::OuterReferenceColumn(field, column));
    Ok(Subquery { outer_ref_columns: outer.collect(), subquery: plan.into(), spans: subquery.spans })
}

/// A plan without the marks of what was LATERAL: nothing in it names what is outside any more.
pub(crate) fn unwrapped(plan: LogicalPlan) -> Result<LogicalPlan> {
    let unwrapped = plan.transform_up(|node| match node {
        LogicalPlan::Subquery(subquery) if free(&subquery.subquery).is_empty() => {
            Ok(Transformed::yes(subquery.subquery.as_ref().clone()))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(unwrapped.data)
}

/// The placeholders for values of rows outside that a plan has, each once.
pub(crate) fn placeholders(plan: &LogicalPlan) -> Result<Vec<Placeholder>> {
    let mut found: Vec<Placeholder> = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(placeholder) = expr
                    && placeholder.id.starts_with(OUTER)
                    && !found.iter().any(|known| known.id == placeholder.id)
                {
                    found.push(placeholder.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether a plan may give other rows each time it runs.
pub(crate) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if let LogicalPlan::Extension(extension) = node
            && let Some(apply) = extension.node.as_any().downcast_ref::<Apply>()
        {
            volatile |= is_volatile(&apply.plan)?;
        }
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(volatile)
}

/// What stands for a placeholder; `None` for itself.
type Value<'a> = &'a dyn Fn(&Placeholder) -> Option<Expr>;

/// A plan with values for placeholders.
pub fn bound(plan: &LogicalPlan, value: Value<'_>) -> Result<LogicalPlan> {
    Ok(plan.clone().transform_up_with_subqueries(|node| bound_node(node, value))?.data)
}

/// A node with values for placeholders, without its inputs.
pub fn bound_node(node: LogicalPlan, value: Value<'_>) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let bound = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(with_values(expr, value)?.update_data(|expr| name.restore(expr)))
    })?;
    if bound.transformed { bound.map_data(LogicalPlan::recompute_schema) } else { Ok(bound) }
}

/// An expression with values for placeholders, without its subqueries.
pub fn with_values(expr: Expr, value: Value<'_>) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match &expr {
        Expr::Placeholder(placeholder) => match value(placeholder) {
            Some(value) => Ok(Transformed::yes(value)),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    })
}
