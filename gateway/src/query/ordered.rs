//! ORDER BY a column that an item of the select list hides: `SELECT -t.x AS x FROM t ORDER BY t.x`.
//!
//! PostgreSQL takes a qualified name for the column, whatever the items are called; DataFusion finds two and gives up. So the item has another
//! name in a subquery that is ordered, and its own around it.

use super::{labels, rows};
use crate::error::Result;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, TableFactor, Visit, Visitor,
};
use std::ops::ControlFlow;

/// What is added to an item's name.
const MARK: &str = "\u{1}ordered";

/// Rewrites a query.
///
/// # Errors
/// A fault of ours: a query that was written here and is none.
pub fn rewrite(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    if select.distinct.is_some() {
        return Ok(());
    }
    let mut qualified = Qualified(Vec::new());
    for order in &*orders {
        let _ = Visit::visit(&order.expr, &mut qualified);
    }
    let hidden = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => qualified.0.iter().any(|path| {
            let column = path.last().map(folded);
            column == Some(folded(alias)) && *expr != Expr::CompoundIdentifier(path.clone())
        }),
        _ => false,
    };
    if !select.projection.iter().any(hidden) {
        return Ok(());
    }
    labels::label(select);
    let mut names = Vec::new();
    for item in &mut select.projection {
        let hides = hidden(item);
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } | SelectItem::UnnamedExpr(Expr::Identifier(alias)) => alias.clone(),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) => match path.last() {
                Some(last) => last.clone(),
                None => return Ok(()),
            },
            // What all columns are is not known here.
            _ => return Ok(()),
        };
        names.push((name, hides));
    }
    for (item, (name, hides)) in select.projection.iter_mut().zip(&names) {
        if let (SelectItem::ExprWithAlias { alias, .. }, true) = (item, hides) {
            *alias = marked(name);
            for order in &mut *orders {
                if matches!(&order.expr, Expr::Identifier(ident) if folded(ident) == folded(name)) {
                    order.expr = Expr::Identifier(marked(name));
                }
            }
        }
    }
    let shown = names.iter().map(|(name, hides)| {
        let inner = if *hides { marked(name) } else { name.clone() };
        format!("{inner} AS {}", Ident::with_quote('"', folded(name)))
    });
    let outer = format!("SELECT {} FROM (SELECT 1) AS ordered", shown.collect::<Vec<_>>().join(", "));
    let mut outer = rows::parsed_query(&outer)?;
    let inner = std::mem::replace(query, *outer.clone());
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = inner;
        *query = *outer;
    }
    Ok(())
}

fn marked(name: &Ident) -> Ident {
    Ident::with_quote('"', format!("{}{MARK}", folded(name)))
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The qualified names of an expression.
struct Qualified(Vec<Vec<Ident>>);

impl Visitor for Qualified {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(path) = expr {
            self.0.push(path.clone());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        rewrite(&mut query).unwrap();
        expected.assert_eq(&query.to_string().replace('\u{1}', "'"));
    }

    #[test]
    fn hidden_columns_order() {
        check(
            "SELECT -t.x AS x, t.y FROM t ORDER BY t.x, x LIMIT 2",
            expect![[
                r#"SELECT "x'ordered" AS "x", y AS "y" FROM (SELECT -t.x AS "x'ordered", t.y FROM t ORDER BY t.x, "x'ordered" LIMIT 2) AS ordered"#
            ]],
        );
        check("SELECT t.x AS x FROM t ORDER BY t.x", expect!["SELECT t.x AS x FROM t ORDER BY t.x"]);
        check("SELECT -t.x AS x FROM t ORDER BY x", expect!["SELECT -t.x AS x FROM t ORDER BY x"]);
    }
}
