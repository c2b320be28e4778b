//! `ORDER BY` of expressions that stand in the select list, and of columns that an item of the list hides.
//!
//! Labels ([`column_names`]) give an item a name by which DataFusion finds it, and no longer by its expression.

use super::column_names;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Statement, visit_expressions,
};
use std::ops::ControlFlow;

/// `SELECT DISTINCT f(a) … ORDER BY f(a)` orders by the item of the list, which DataFusion does not see once it has a
/// name.
pub(crate) fn order_by_labels(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    // Of DISTINCT ON, both are expressions over what is read, and have to be the same.
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let written = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) => expr.to_string(),
        _ => String::new(),
    });
    let written: Vec<_> = written.collect();
    column_names::label(select);
    // A number in ORDER BY is the place of an item, also where an item is that number.
    for order in orders.iter_mut().filter(|order| !matches!(order.expr, Expr::Value(_))) {
        let text = order.expr.to_string();
        let position = written.iter().position(|written| *written == text);
        if let Some(SelectItem::ExprWithAlias { alias, .. }) = position.and_then(|index| select.projection.get(index)) {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// Whether an expression reads a column of that name.
fn reads(expr: &Expr, name: &str) -> bool {
    let is = |ident: &Ident| column_names::folded(ident) == name;
    let search = |one: &Expr| match one {
        Expr::Identifier(ident) if is(ident) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(path) if path.last().is_some_and(is) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, search).is_break()
}

/// [`hidden_in`] for the outermost query of a statement, whose columns the client sees.
pub fn hidden_of_result(statement: &mut Statement) {
    if let Statement::Query(query) = statement {
        hidden_in(query, true);
    }
}

/// `SELECT f(t.a) AS a … ORDER BY t.a`, `SELECT t.a::text … ORDER BY t.a`, or `SELECT f(a) AS a … ORDER BY g(a)` orders
/// by the column that the item hides, which DataFusion cannot tell from it.
///
/// The item of a query whose columns the client sees gets another name, which the client sees as it was. In a subquery,
/// whose columns others may name, the order goes, unless it decides which rows there are.
pub(crate) fn hidden_in(query: &mut Query, is_result: bool) {
    if let SetExpr::Query(inner) = query.body.as_mut() {
        if is_result {
            hidden_in(inner, true);
        }
        return;
    }
    let is_cut = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    let mut hides = false;
    for item in &mut select.projection {
        let name = column_names::label_of_item(item);
        let expr = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => continue,
            // `t.a::text` is called `a`, too.
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => expr,
            _ => continue,
        };
        // Inside of an expression a name is that of a column that is read.
        let is_read = reads(expr, &name);
        let hides_here = |one: &Expr| match one {
            Expr::CompoundIdentifier(path) => {
                path.last().is_some_and(|last| column_names::folded(last) == name) && *one != *expr
            }
            Expr::Identifier(one) => is_read && column_names::folded(one) == name,
            _ => false,
        };
        let search = |one: &Expr| if hides_here(one) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let hides_in = |order: &OrderByExpr| match &order.expr {
            Expr::Identifier(_) => false,
            expr => visit_expressions(expr, search).is_break(),
        };
        if !orders.iter().any(hides_in) {
            continue;
        }
        hides = true;
        if is_result {
            let alias = column_names::other(&name);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
            let by_name = |order: &&mut OrderByExpr| match &order.expr {
                Expr::Identifier(one) => column_names::folded(one) == name,
                _ => false,
            };
            orders.iter_mut().filter(by_name).for_each(|order| order.expr = Expr::Identifier(alias.clone()));
        }
    }
    if hides && !is_result && !is_cut {
        query.order_by = None;
    }
}
