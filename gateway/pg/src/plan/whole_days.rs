//! A date that is compared with a timestamp: `day <= date '1998-12-01' - interval '90 days'`.
//!
//! PostgreSQL compares both as timestamps. Once the timestamp is a constant, the comparison is one of dates too, which
//! ranges of keys and statistics of columns know: an optimizer rule, before filters are handed to scans.

use crate::types;
use arrow::datatypes::DataType;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    error::Result,
    logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, utils::merge_schema},
    optimizer::{OptimizerConfig, OptimizerRule, optimizer::ApplyOrder},
    scalar::ScalarValue,
};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;

/// The rule.
#[derive(Debug)]
pub struct WholeDays;

impl OptimizerRule for WholeDays {
    fn name(&self) -> &'static str {
        "whole_days"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_)) {
            return Ok(Transformed::no(plan));
        }
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| {
            expr.transform_up(|expr| {
                let Expr::BinaryExpr(comparison) = &expr else { return Ok(Transformed::no(expr)) };
                let is_date = |expr: &Expr| expr.get_type(&schema).is_ok_and(|data| data == DataType::Date32);
                Ok(match by_days(comparison, is_date) {
                    Some(compared) => Transformed::yes(compared),
                    None => Transformed::no(expr),
                })
            })
        })
    }
}

/// A comparison of dates for one of timestamps; `None` for any other, and where none says the same.
fn by_days(comparison: &BinaryExpr, is_date: impl Fn(&Expr) -> bool) -> Option<Expr> {
    let BinaryExpr { left, op, right } = comparison;
    let (cast, op, literal) = match (left.as_ref(), right.as_ref()) {
        (cast @ Expr::Cast(_), literal @ Expr::Literal(..)) => (cast, *op, literal),
        (literal @ Expr::Literal(..), cast @ Expr::Cast(_)) => (cast, op.swap()?, literal),
        _ => return None,
    };
    let Expr::Cast(Cast { expr: date, field }) = cast else { return None };
    let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) = literal else { return None };
    // Infinity is no day.
    if *field.data_type() != types::TIMESTAMP || matches!(*micros, i64::MIN | i64::MAX) || !is_date(date) {
        return None;
    }
    let (day, is_midnight) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY) == 0);
    let day = i32::try_from(day).ok()?;
    let op = match op {
        Operator::Lt if !is_midnight => Operator::LtEq,
        Operator::GtEq if !is_midnight => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        Operator::Eq | Operator::NotEq if is_midnight => op,
        _ => return None,
    };
    Some(binary_expr(date.as_ref().clone(), op, Expr::Literal(ScalarValue::Date32(Some(day)), None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};
    use expect_test::{Expect, expect};

    fn check(op: Operator, micros: i64, expected: Expect) {
        let cast = Expr::Cast(Cast::new(Box::new(col("day")), types::TIMESTAMP));
        let literal = lit(ScalarValue::TimestampMicrosecond(Some(micros), None));
        let shown = |left: &Expr, op, right: &Expr| {
            let comparison = BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone()));
            by_days(&comparison, |_| true).map_or_else(|| "none".to_owned(), |expr| expr.to_string())
        };
        let one = shown(&cast, op, &literal);
        assert_eq!(one, shown(&literal, op.swap().expect("a comparison"), &cast));
        expected.assert_eq(&one);
    }

    #[test]
    fn days_are_compared_as_their_midnights() {
        let (midnight, noon) = (3 * MICROS_PER_DAY, 3 * MICROS_PER_DAY + MICROS_PER_DAY / 2);
        check(Operator::Lt, midnight, expect![[r#"day < Date32("1970-01-04")"#]]);
        check(Operator::Lt, noon, expect![[r#"day <= Date32("1970-01-04")"#]]);
        check(Operator::LtEq, noon, expect![[r#"day <= Date32("1970-01-04")"#]]);
        check(Operator::Gt, noon, expect![[r#"day > Date32("1970-01-04")"#]]);
        check(Operator::GtEq, noon, expect![[r#"day > Date32("1970-01-04")"#]]);
        check(Operator::GtEq, midnight, expect![[r#"day >= Date32("1970-01-04")"#]]);
        check(Operator::Eq, midnight, expect![[r#"day = Date32("1970-01-04")"#]]);
        check(Operator::Eq, noon, expect!["none"]);
        check(Operator::Lt, i64::MAX, expect!["none"]);
        check(Operator::LtEq, -1, expect![[r#"day <= Date32("1969-12-31")"#]]);
    }
}
