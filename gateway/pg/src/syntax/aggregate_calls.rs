//! Calls of aggregates in a select of their own, and HAVING without GROUP BY.

use super::build::call;
use crate::{aggregates::is_aggregate, ident::fold};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, Value, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Whether an expression calls an aggregate, outside of subqueries and not over a window.
pub(super) fn calls_aggregate(expr: &Expr) -> bool {
    calls(expr, is_aggregate)
}

/// Whether an expression calls one of some functions, outside of subqueries and not over a window.
pub(super) fn calls(expr: &Expr, is_sought: fn(&str) -> bool) -> bool {
    expr.visit(&mut Calls { is_sought, queries: 0 }).is_break()
}

struct Calls {
    is_sought: fn(&str) -> bool,
    /// Subqueries around.
    queries: usize,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
        if self.queries == 0 && function.over.is_none() && name.is_some_and(|name| (self.is_sought)(&name)) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// HAVING without GROUP BY makes one group of all rows, even if it names no aggregate. DataFusion sees a group in an
/// aggregate alone, so that it gets one that says nothing.
pub(super) fn having_of_all(select: &mut Select) {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    if grouped || items.chain(&select.having).any(calls_aggregate) {
        return;
    }
    let Some(having) = &mut select.having else { return };
    let condition = std::mem::replace(having, Expr::Identifier(Ident::new("")));
    let rows = call("count", [Expr::Value(Value::Number("1".to_owned(), false).into())]);
    *having = Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(condition))),
        op: BinaryOperator::And,
        right: Box::new(Expr::IsNotNull(Box::new(rows))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::build::parsed_expr;

    #[test]
    fn aggregates_are_found_where_they_are_ones_own() {
        let calls = |sql: &str| calls_aggregate(&parsed_expr(sql).expect("an expression"));
        assert!(calls("1 + pg_catalog.Sum(a)"));
        assert!(calls("count(*) FILTER (WHERE a > 1)"));
        assert!(!calls("sum(a) OVER (ORDER BY b)"));
        assert!(!calls("a > (SELECT max(b) FROM t)"));
        assert!(!calls("abs(a)"));
    }
}
