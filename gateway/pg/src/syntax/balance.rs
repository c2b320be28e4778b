//! Balances chains of AND and of OR.
//!
//! sqlparser reads `a OR b OR c OR d` as `((a OR b) OR c) OR d`, a tree as deep as the chain is long. Everything that
//! walks, clones, compares or drops a tree is recursive. AND and OR are associative, NULL included, so their chains
//! become trees whose depth is the logarithm of their length: programs send thousands of them.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Chains that are at most this deep stay as they are written.
const DEPTH_MAX: usize = 32;

/// Balances the chains in a tree.
pub fn balance<T: VisitMut>(tree: &mut T) {
    let _: ControlFlow<()> = tree.visit(&mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    // Before the children, so that the walk never descends into a long chain.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let op = match expr {
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => op.clone(),
            _ => return ControlFlow::Continue(()),
        };
        if depth(expr, &op) > DEPTH_MAX {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = balanced(operands(whole, &op), &op);
        }
        ControlFlow::Continue(())
    }
}

/// How far a chain of an operator goes down on its left side.
fn depth(mut expr: &Expr, of: &BinaryOperator) -> usize {
    let mut depth = 0;
    while let Expr::BinaryOp { left, op, .. } = expr
        && op == of
    {
        (expr, depth) = (left, depth + 1);
    }
    depth
}

/// The operands of a chain, from the left.
fn operands(mut expr: Expr, of: &BinaryOperator) -> Vec<Expr> {
    let mut operands = Vec::new();
    loop {
        match expr {
            Expr::BinaryOp { left, op, right } if op == *of => {
                operands.push(*right);
                expr = *left;
            }
            first => {
                operands.push(first);
                operands.reverse();
                return operands;
            }
        }
    }
}

/// A tree of operands in their order. There is at least one.
fn balanced(mut operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop().unwrap_or_else(|| Expr::value(Value::Null))
}

#[cfg(test)]
mod tests {
    use crate::syntax::dialect::parse_text;
    use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

    fn deepest(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, op: BinaryOperator::And | BinaryOperator::Or } => {
                1 + deepest(left).max(deepest(right))
            }
            _ => 0,
        }
    }

    #[test]
    fn long_chains_are_shallow_and_print_as_before() {
        for count in [2, 33, 34, 100, 4_097] {
            let items = (0..count).map(|n| format!("a = {n} AND b = {n}")).collect::<Vec<_>>();
            let text = items.join(" OR ");
            let expr = parse_text(&text, |parser| parser.parse_expr()).unwrap();
            assert_eq!(expr.to_string(), text);
            assert!(deepest(&expr) <= 33, "{count}: {}", deepest(&expr));
        }
    }
}
