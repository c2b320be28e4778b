//! Casts and arithmetic that Arrow does otherwise than PostgreSQL, as functions ([`casts`], [`checked_arithmetic`]).
//!
//! The rule runs after DataFusion settled types, which is when it puts its own casts into the plan.
//!
//! `CASE WHEN x <> 0 THEN y / x > 1.5 ELSE false END` is how PostgreSQL's manual says that a division by zero is kept
//! away. DataFusion makes `x <> 0 AND y / x > 1.5` of it, whose sides it may both compute; `CASE true WHEN …` it
//! leaves.
//!
//! `sum(y / x) FILTER (WHERE x <> 0)` computes nothing for rows that the filter leaves out; DataFusion computes
//! arguments for all rows first. What may fail there stands in a CASE with the filter's condition.

use super::{
    casts, checked_arithmetic,
    each_expr::{EachExpr, Order},
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    error::Result,
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, Operator,
        expr::{ScalarFunction, Sort},
        lit,
    },
    optimizer::AnalyzerRule,
};
use std::sync::Arc;

/// The rule.
pub fn checked() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr {
        name: "checked_semantics",
        order: Order::RootFirst,
        rewrite: |expr, schema, _| rewrite(expr, schema),
    })
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Case(Case { expr: None, when_then_expr, else_expr }) => {
            let guards = guards(&when_then_expr, else_expr.as_deref(), schema)?;
            let expr = guards.then(|| Box::new(lit(true)));
            let transformed = expr.is_some();
            let case = Expr::Case(Case { expr, when_then_expr, else_expr });
            Ok(if transformed { Transformed::yes(case) } else { Transformed::no(case) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let sides = (left.get_type(schema), right.get_type(schema));
            let counted = match sides {
                (Ok(a), Ok(b)) if a == b && (a.is_signed_integer() || a.is_floating()) => {
                    checked_arithmetic::checked(op)
                }
                _ => None,
            };
            Ok(match counted {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*left, *right])))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(inner) => match inner.get_type(schema) {
            Ok(data) if data.is_signed_integer() || data.is_floating() => {
                let function = checked_arithmetic::negate();
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
            }
            _ => Ok(Transformed::no(Expr::Negative(inner))),
        },
        Expr::Cast(cast) => {
            let (_, from) = cast.expr.to_field(schema)?;
            casts::check(&from, &cast.field)?;
            let from = from.data_type().clone();
            Ok(match casts::function(&from, &cast.field) {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*cast.expr])))
                }
                None => Transformed::no(Expr::Cast(cast)),
            })
        }
        Expr::AggregateFunction(mut call) => {
            let params = &mut call.params;
            let is = filtered(params.filter.as_deref(), &mut params.args, &mut params.order_by, schema)?;
            let call = Expr::AggregateFunction(call);
            Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
        }
        Expr::WindowFunction(mut call) => {
            let params = &mut call.params;
            // What windows are ordered by has a value for every row.
            let is = filtered(params.filter.as_deref(), &mut params.args, &mut [], schema)?;
            let call = Expr::WindowFunction(call);
            Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Puts the arguments of an aggregate that may fail into a CASE with the condition of its FILTER; whether there were
/// any. A CASE has no name of a type, so that values whose type has one stay.
fn filtered(filter: Option<&Expr>, arguments: &mut [Expr], order_by: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let Some(filter) = filter.filter(|filter| !filter.is_volatile()) else { return Ok(false) };
    let mut any = false;
    for expr in arguments.iter_mut().chain(order_by.iter_mut().map(|order| &mut order.expr)) {
        if !expr.exists(|expr| Ok(may_fail(expr) && expr.any_column_refs()))?
            || !expr.to_field(schema)?.1.metadata().is_empty()
        {
            continue;
        }
        let when_then_expr = vec![(Box::new(filter.clone()), Box::new(std::mem::take(expr)))];
        *expr = Expr::Case(Case { expr: None, when_then_expr, else_expr: None });
        any = true;
    }
    Ok(any)
}

/// Whether a CASE gives booleans, and what it gives, or asks behind its first condition, might fail.
fn guards(whens: &[(Box<Expr>, Box<Expr>)], other: Option<&Expr>, schema: &DFSchema) -> Result<bool> {
    let later = whens.iter().skip(1).map(|(when, _)| when.as_ref());
    let given = whens.iter().map(|(_, then)| then.as_ref());
    let mut any = false;
    for expr in given.chain(later).chain(other) {
        // What is the same for all rows is computed before the first of them.
        any = any || expr.exists(|expr| Ok(may_fail(expr) && expr.any_column_refs()))?;
    }
    let is_boolean = |then: &Expr| then.get_type(schema).is_ok_and(|data| data == DataType::Boolean);
    Ok(any && whens.first().is_some_and(|(_, then)| is_boolean(then)))
}

fn may_fail(expr: &Expr) -> bool {
    match expr {
        // What DataFusion makes of ANY and ALL has these.
        Expr::ScalarFunction(call) => {
            !["array_has", "array_position", "cardinality", "make_array"].contains(&call.name())
        }
        Expr::Negative(_) => true,
        Expr::Cast(cast) => !matches!(cast.expr.as_ref(), Expr::Literal(..)),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo)
        }
        _ => false,
    }
}
