//! `a BETWEEN SYMMETRIC b AND c`, which sqlparser does not know: its tokens are read as `a BETWEEN mark * b AND c`,
//! since nothing that may stand in a bound without brackets binds more tightly than `*` and is not within its right
//! side.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

/// The text that marks the bound. No user can write it by accident: a control character begins it.
pub const SYMMETRIC: &str = "\u{1}symmetric";

/// The comparison with both orders of its bounds; `None` for other expressions.
pub(crate) fn symmetric(expr: &Expr) -> Option<Expr> {
    let Expr::Between { expr, negated, low, high } = expr else { return None };
    let low = Box::new(without_mark(low)?);
    let one = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: expr.clone(),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    let both = Expr::BinaryOp { left: one(&low, high), op: BinaryOperator::Or, right: one(high, &low) };
    let both = Expr::Nested(Box::new(both));
    Some(if *negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(both) } } else { both })
}

/// The expression without the mark at its left end.
fn without_mark(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op, right } = expr else { return None };
    if let (Expr::Value(value), BinaryOperator::Multiply) = (left.as_ref(), op)
        && matches!(&value.value, Value::SingleQuotedString(text) if text == SYMMETRIC)
    {
        return Some(right.as_ref().clone());
    }
    let left = Box::new(without_mark(left)?);
    Some(Expr::BinaryOp { left, op: op.clone(), right: right.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::build::parsed_expr;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let sql = sql.replace("SYMMETRIC", &format!("'{SYMMETRIC}' *"));
        let shown = symmetric(&parsed_expr(&sql).unwrap()).map_or("as it is".to_owned(), |expr| expr.to_string());
        expected.assert_eq(&shown);
    }

    #[test]
    fn bounds_stand_in_either_order() {
        check("a BETWEEN SYMMETRIC b AND c", expect!["(a BETWEEN b AND c OR a BETWEEN c AND b)"]);
        check(
            "a NOT BETWEEN SYMMETRIC -b + 1 AND (c)",
            expect!["NOT (a BETWEEN -b + 1 AND (c) OR a BETWEEN (c) AND -b + 1)"],
        );
        check(
            "a BETWEEN SYMMETRIC b * c || d AND 1",
            expect!["(a BETWEEN b * c || d AND 1 OR a BETWEEN 1 AND b * c || d)"],
        );
        check(
            "a BETWEEN SYMMETRIC b::int ^ 2 -> 'x' AND 1",
            expect!["(a BETWEEN b::INT ^ 2 -> 'x' AND 1 OR a BETWEEN 1 AND b::INT ^ 2 -> 'x')"],
        );
        check("a BETWEEN b AND c", expect!["as it is"]);
    }
}
