//! Casts and arithmetic that Arrow does otherwise than PostgreSQL, as functions ([`casts`], [`checked_arithmetic`]).
//!
//! The rule runs after DataFusion settled types, which is when it puts its own casts into the plan.

use super::{
    casts, checked_arithmetic,
    each_expr::{EachExpr, Order},
};
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    error::Result,
    logical_expr::{BinaryExpr, Expr, ExprSchemable, expr::ScalarFunction},
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
            let from = cast.expr.get_type(schema)?;
            Ok(match casts::function(&from, &cast.field) {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*cast.expr])))
                }
                None => Transformed::no(Expr::Cast(cast)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}
