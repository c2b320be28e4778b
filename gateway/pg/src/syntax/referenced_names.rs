//! Names of columns beside `t.*`, in subqueries of FROM and queries of WITH.
//!
//! A column `u.a` beside `t.*` gets a name with a number ([`column_names`](super::column_names)), since `t` may have an
//! `a` as well. Where the query around it asks for `a`, there is one alone, or PostgreSQL would refuse: so it keeps its
//! name there.

use crate::{ident::fold, syntax::column_names::folded};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Visit, Visitor,
};
use std::{collections::BTreeSet, ops::ControlFlow};

/// Gives such columns their names as labels, where the query asks for them.
pub(super) fn keep(query: &mut Query) {
    let mut wild = false;
    each(query, &mut |_, inner| wild |= select_of(inner).is_some_and(|select| !wild_relations(select).is_empty()));
    if !wild {
        return;
    }
    let whole = query.clone();
    each(query, &mut |alias, inner| {
        let before = inner.clone();
        let Some(select) = select_of(inner) else { return };
        let relations = wild_relations(select);
        if relations.is_empty() {
            return;
        }
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let name = match expr {
                Expr::Identifier(name) => name,
                Expr::CompoundIdentifier(path) => {
                    let relation = path.iter().rev().nth(1).map(folded);
                    if relation.is_some_and(|relation| relations.contains(&relation)) {
                        continue;
                    }
                    let Some(name) = path.last() else { continue };
                    name
                }
                _ => continue,
            };
            let name = folded(name);
            if count(&whole, &name, alias) > count(&before, &name, alias) {
                let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
        }
    });
}

/// Calls a function with each subquery of FROM and each query of WITH, and its name.
fn each(query: &mut Query, run: &mut dyn FnMut(&str, &mut Query)) {
    for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        run(&fold(&cte.alias.name), &mut cte.query);
    }
    each_of_body(&mut query.body, run);
}

fn each_of_body(body: &mut SetExpr, run: &mut dyn FnMut(&str, &mut Query)) {
    match body {
        SetExpr::Select(select) => {
            for from in &mut select.from {
                let joined = from.joins.iter_mut().map(|join| &mut join.relation);
                for factor in std::iter::once(&mut from.relation).chain(joined) {
                    if let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor {
                        run(&fold(&alias.name), subquery);
                    }
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            each_of_body(left, run);
            each_of_body(right, run);
        }
        _ => {}
    }
}

fn select_of(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

/// The relations of which a select takes all columns; none if it takes those of every one.
fn wild_relations(select: &Select) -> BTreeSet<String> {
    let mut relations = BTreeSet::new();
    for item in &select.projection {
        match item {
            SelectItem::Wildcard(_) => return BTreeSet::new(),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                relations.extend(name.0.last().and_then(|part| part.as_ident()).map(folded));
            }
            _ => {}
        }
    }
    relations
}

/// How often a query asks for a column, by its name alone or behind that of the relation.
fn count(query: &Query, name: &str, relation: &str) -> usize {
    struct Asks<'a>(&'a str, &'a str, usize);
    impl Visitor for Asks<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let asks = match expr {
                Expr::Identifier(name) => folded(name) == self.0,
                Expr::CompoundIdentifier(path) => match path.as_slice() {
                    [.., relation, name] => folded(name) == self.0 && folded(relation) == self.1,
                    _ => false,
                },
                _ => false,
            };
            self.2 += usize::from(asks);
            ControlFlow::Continue(())
        }
    }
    let mut asks = Asks(name, relation, 0);
    let _: ControlFlow<()> = Visit::visit(query, &mut asks);
    asks.2
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        super::keep(&mut query);
        expected.assert_eq(&query.to_string());
    }

    #[test]
    fn columns_that_are_asked_for_keep_their_names() {
        check(
            "SELECT a FROM (SELECT t.*, u.a, u.b FROM t, u) s",
            expect![[r#"SELECT a FROM (SELECT t.*, u.a AS "a", u.b FROM t, u) s"#]],
        );
        check(
            "WITH s AS (SELECT t.*, B FROM t, u) SELECT * FROM s ORDER BY s.b",
            expect![[r#"WITH s AS (SELECT t.*, B AS "b" FROM t, u) SELECT * FROM s ORDER BY s.b"#]],
        );
        check("SELECT * FROM (SELECT t.*, u.a FROM t, u) s", expect!["SELECT * FROM (SELECT t.*, u.a FROM t, u) s"]);
        check("SELECT a FROM (SELECT t.*, t.a FROM t) s", expect!["SELECT a FROM (SELECT t.*, t.a FROM t) s"]);
        check("SELECT a FROM (SELECT *, t.a FROM t) s", expect!["SELECT a FROM (SELECT *, t.a FROM t) s"]);
    }
}
