//! Comparisons of rows, `(a, b) < ($1, $2)`, as comparisons of their columns.
//!
//! DataFusion makes structs of the rows, in which it takes nothing but names and literals, and compares NULLs inside of
//! them as values. PostgreSQL compares from left to right up to the first pair that differs, and the result is NULL
//! where that needs a NULL:
//!
//! ```text
//! (a, b) =  (x, y)      a = x AND b = y
//! (a, b) <> (x, y)      a <> x OR b <> y
//! (a, b) <= (x, y)      a < x OR (a = x AND b <= y)
//! (a, b) IN ((x, y), …) (a = x AND b = y) OR …
//! (a, b) IS DISTINCT FROM (x, y)    a IS DISTINCT FROM x OR b IS DISTINCT FROM y
//! ```
//!
//! They become key ranges as any comparison does.

use super::records::fields;
use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Rows of an IN list that are compared one by one; a longer list is left to DataFusion, where it may hold literals
/// only.
const ROWS_MAX: usize = 256;

/// Another form of a comparison of rows; `None` for other expressions.
///
/// # Errors
/// 42601 for rows of different lengths.
pub(crate) fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::BinaryOp { left, op, right } => match (fields(left), fields(right)) {
            (Some(left), Some(right)) if is_comparison(op) => {
                compared(&left, op, &right).map(|compared| Some(Expr::Nested(Box::new(compared))))
            }
            _ => Ok(None),
        },
        Expr::InList { expr, list, negated } => {
            let (Some(left), false) = (fields(expr), list.len() > ROWS_MAX) else { return Ok(None) };
            let Some(rows) = list.iter().map(fields).collect::<Option<Vec<_>>>() else { return Ok(None) };
            let equal = rows.iter().map(|right| compared(&left, &BinaryOperator::Eq, right));
            let equal = equal.collect::<Result<Vec<_>>>()?;
            let any = equal.into_iter().map(|one| Expr::Nested(Box::new(one)));
            let Some(any) = any.reduce(|left, right| binary(left, BinaryOperator::Or, right)) else { return Ok(None) };
            let any = Expr::Nested(Box::new(any));
            Ok(Some(if *negated { negation(any) } else { any }))
        }
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            let (Some(left), Some(right)) = (fields(left), fields(right)) else { return Ok(None) };
            if left.len() != right.len() {
                return Err(unequal());
            }
            let pairs = left.into_iter().zip(right);
            let distinct = pairs.map(|(left, right)| Expr::IsDistinctFrom(Box::new(left), Box::new(right)));
            let Some(any) = distinct.reduce(|left, right| binary(left, BinaryOperator::Or, right)) else {
                return Ok(None);
            };
            let any = Expr::Nested(Box::new(any));
            Ok(Some(if matches!(expr, Expr::IsNotDistinctFrom(..)) { negation(any) } else { any }))
        }
        _ => Ok(None),
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// # Errors
/// 42601 for rows of different lengths.
pub(crate) fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Expr> {
    if left.len() != right.len() {
        return Err(unequal());
    }
    // What pairs before the last are compared by, and what follows where they are equal.
    let (strict, decided) = match op {
        BinaryOperator::LtEq | BinaryOperator::Lt => (BinaryOperator::Lt, None),
        BinaryOperator::GtEq | BinaryOperator::Gt => (BinaryOperator::Gt, None),
        BinaryOperator::Eq => (BinaryOperator::Eq, Some(BinaryOperator::And)),
        _ => (BinaryOperator::NotEq, Some(BinaryOperator::Or)),
    };
    let mut pairs = left.iter().zip(right).rev();
    let pair = |(left, right): (&Expr, &Expr), op: &BinaryOperator| binary(left.clone(), op.clone(), right.clone());
    let Some(last) = pairs.next() else { return Err(SqlError::syntax("a row without columns")) };
    let mut whole = pair(last, op);
    for one in pairs {
        let first = pair(one, &strict);
        whole = match &decided {
            Some(both) => binary(first, both.clone(), whole),
            None => {
                let rest = match &whole {
                    Expr::BinaryOp { op: BinaryOperator::Or, .. } => Expr::Nested(Box::new(whole)),
                    _ => whole,
                };
                let rest = binary(pair(one, &BinaryOperator::Eq), BinaryOperator::And, rest);
                binary(first, BinaryOperator::Or, Expr::Nested(Box::new(rest)))
            }
        };
    }
    Ok(whole)
}

fn unequal() -> SqlError {
    SqlError::syntax("unequal number of entries in row expressions")
}

fn negation(of: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(of) }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::build::parsed_expr;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let shown = match rewritten(&parsed_expr(sql).unwrap()) {
            Ok(Some(expr)) => expr.to_string(),
            Ok(None) => "as it is".to_owned(),
            Err(error) => format!("{} {}", error.state.0, error.message),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn rows_are_compared_column_by_column() {
        check("(a, b) = (1, $1)", expect!["(a = 1 AND b = $1)"]);
        check("(a, b, c) <> (1, 2, 3)", expect!["(a <> 1 OR b <> 2 OR c <> 3)"]);
        check("(a, b) < (1, 2)", expect!["(a < 1 OR (a = 1 AND b < 2))"]);
        check("(a, b, c) >= ($1, $2, $3)", expect!["(a > $1 OR (a = $1 AND (b > $2 OR (b = $2 AND c >= $3))))"]);
        check("((a, b)) <= (1, 2)", expect!["(a < 1 OR (a = 1 AND b <= 2))"]);
        check("(a, b) IN ((1, 2), (3, $1))", expect!["((a = 1 AND b = 2) OR (a = 3 AND b = $1))"]);
        check("(a, b) NOT IN ((1, 2))", expect!["NOT ((a = 1 AND b = 2))"]);
        check("(a, b) < (1, 2, 3)", expect!["42601 unequal number of entries in row expressions"]);
        check("(a, b) IS DISTINCT FROM (1, c)", expect!["(a IS DISTINCT FROM 1 OR b IS DISTINCT FROM c)"]);
        check(
            "(a, b) IS NOT DISTINCT FROM (1, NULL)",
            expect!["NOT (a IS DISTINCT FROM 1 OR b IS DISTINCT FROM NULL)"],
        );
        check("(a, b) IS DISTINCT FROM (1, 2, 3)", expect!["42601 unequal number of entries in row expressions"]);
        check("(a, b) = ANY (SELECT 1, 2)", expect!["as it is"]);
        check("(a) < (1)", expect!["as it is"]);
        check("a IN (1, 2)", expect!["as it is"]);
    }
}
