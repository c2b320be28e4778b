//! `ORDER BY` beside functions that return sets, in the select list.
//!
//! DataFusion unnests above the projection of the list, where what the list does not have is gone. So
//! `SELECT unnest(a) FROM t ORDER BY t.b` orders a query that has `t.b` as well:
//! `SELECT a AS unnest FROM (SELECT unnest(a) AS a, t.b AS b FROM t) ORDER BY b`. The values of one row stay in their
//! order, as PostgreSQL sorts rows first: behind all else goes the number of each. A call in ORDER BY is one of the
//! list.

use super::{
    aggregate_calls::calls,
    build::parsed_query,
    column_names::{folded, label_of_item, numbered},
    set_returning::gives_rows,
};
use crate::{
    error::{Result, SqlError},
    ident::quoted,
};
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};
use std::collections::BTreeSet;

/// Rewrites the order of a query.
///
/// # Errors
/// 0A000 for a function that returns a set in ORDER BY and is no item of the select list: it would give more rows.
pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    by_places(query)?;
    with_hidden(query)
}

/// A function that returns a set in ORDER BY is an item of the select list, by whose number it is named.
fn by_places(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    for order in orders.iter_mut().filter(|order| calls(&order.expr, gives_rows)) {
        let at = select.projection.iter().position(|item| item_of(item) == Some(&order.expr));
        let Some(at) = at.filter(|_| !has_wildcard(select)) else {
            return Err(SqlError::unsupported(
                "a set-returning function in ORDER BY that is no item of the select list",
            ));
        };
        order.expr = place(at);
    }
    Ok(())
}

/// Orders by what the select list does not have.
fn with_hidden(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    let gives_sets = |item: &SelectItem| item_of(item).is_some_and(|expr| calls(expr, gives_rows));
    let is_plain = query.locks.is_empty() && select.distinct.is_none() && !has_wildcard(select);
    if !is_plain || !select.projection.iter().any(gives_sets) {
        return Ok(());
    }
    let places: Vec<Option<usize>> = orders.iter().map(|order| place_of(&order.expr, select)).collect();
    if places.iter().all(Option::is_some) {
        return Ok(());
    }
    let (mut inner, mut outer, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, item) in select.projection.iter().enumerate() {
        let Some(expr) = item_of(item) else { return Ok(()) };
        let label = label_of_item(item);
        let below = quoted(&numbered(&label, at));
        let shown = if taken.insert(label.clone()) { quoted(&label) } else { below.clone() };
        inner.push(SelectItem::ExprWithAlias { expr: expr.clone(), alias: below.clone() });
        outer.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(below), alias: shown });
    }
    for (order, at) in orders.iter_mut().zip(places) {
        let at = at.unwrap_or_else(|| {
            inner.push(SelectItem::ExprWithAlias {
                expr: order.expr.clone(),
                alias: quoted(&numbered("", inner.len())),
            });
            inner.len() - 1
        });
        let SelectItem::ExprWithAlias { alias, .. } = &inner[at] else { continue };
        order.expr = Expr::Identifier(alias.clone());
    }
    let number = quoted(&numbered("number", 0));
    let sets = quoted(&numbered("sets", 0));
    let numbering = format!("SELECT *, row_number() OVER () AS {number} FROM (SELECT 1) AS {sets}");
    let around = parsed_query(&format!("SELECT 1 FROM ({numbering}) AS {sets} ORDER BY {number}"))?;
    if let Some(OrderBy { kind: OrderByKind::Expressions(last), .. }) = around.order_by {
        orders.extend(last);
    }
    let mut body = around.body;
    let numbering = derived(body.as_mut());
    if let Some(subquery) = numbering.and_then(|query| derived(query.body.as_mut())) {
        select.projection = inner;
        std::mem::swap(&mut subquery.body, &mut query.body);
        if let SetExpr::Select(around) = body.as_mut() {
            around.projection = outer;
        }
        query.body = body;
    }
    Ok(())
}

/// The query that a select reads.
fn derived(body: &mut SetExpr) -> Option<&mut Query> {
    let SetExpr::Select(select) = body else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

fn item_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn has_wildcard(select: &Select) -> bool {
    select.projection.iter().any(|item| item_of(item).is_none())
}

fn place(at: usize) -> Expr {
    Expr::Value(Value::Number((at + 1).to_string(), false).into())
}

/// The item of the list that an expression of ORDER BY is: by its number, its name, or what it says.
fn place_of(order: &Expr, select: &Select) -> Option<usize> {
    let named = match order {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok().and_then(|number: usize| number.checked_sub(1)),
            _ => None,
        },
        Expr::Identifier(name) => {
            let name = folded(name);
            select.projection.iter().position(|item| label_of_item(item) == name)
        }
        _ => None,
    };
    named
        .or_else(|| select.projection.iter().position(|item| item_of(item) == Some(order)))
        .filter(|at| *at < select.projection.len())
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        let done = super::rewrite(&mut query);
        let shown = done.map_or_else(|error| error.message, |()| query.to_string());
        expected.assert_eq(&shown.replace('\u{1}', "~"));
    }

    #[test]
    fn what_is_not_in_the_list_is_read_below() {
        check(
            "SELECT a, unnest(b) FROM t ORDER BY c DESC, a LIMIT 2",
            expect![[
                r#"SELECT "a~0" AS "a", "unnest~1" AS "unnest" FROM (SELECT *, row_number() OVER () AS "number~0" FROM (SELECT a AS "a~0", unnest(b) AS "unnest~1", c AS "~2" FROM t) AS "sets~0") AS "sets~0" ORDER BY "~2" DESC, "a~0", "number~0" LIMIT 2"#
            ]],
        );
        check(
            "SELECT t.a, t.a, generate_series(1, 2) AS n FROM t GROUP BY t.a ORDER BY n, count(*)",
            expect![[
                r#"SELECT "a~0" AS "a", "a~1" AS "a~1", "n~2" AS "n" FROM (SELECT *, row_number() OVER () AS "number~0" FROM (SELECT t.a AS "a~0", t.a AS "a~1", generate_series(1, 2) AS "n~2", count(*) AS "~3" FROM t GROUP BY t.a) AS "sets~0") AS "sets~0" ORDER BY "n~2", "~3", "number~0""#
            ]],
        );
    }

    #[test]
    fn what_is_in_the_list_stays() {
        for sql in [
            "SELECT a, unnest(b) AS c FROM t ORDER BY c, 1, a",
            "SELECT a FROM t ORDER BY b",
            "SELECT *, unnest(b) FROM t ORDER BY a",
        ] {
            let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
            super::rewrite(&mut query).unwrap();
            assert_eq!(query.to_string(), sql);
        }
        check("SELECT a, unnest(b) FROM t ORDER BY unnest(b)", expect!["SELECT a, unnest(b) FROM t ORDER BY 2"]);
        check(
            "SELECT a FROM t ORDER BY unnest(b)",
            expect!["a set-returning function in ORDER BY that is no item of the select list is not supported"],
        );
    }
}
