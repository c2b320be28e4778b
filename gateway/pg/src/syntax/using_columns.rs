//! Columns that joins merge: `a JOIN b USING (k)` has one column `k`.
//!
//! DataFusion takes the left side's column for it. That is NULL where the right side alone has a row: for RIGHT and
//! FULL joins the column is written out here, as the right side's or `coalesce(a.k, b.k)`, `*` included. And in WHERE
//! DataFusion 55.2 finds it ambiguous whatever the join is, and in a subquery it takes the column of that name of the
//! query around for it: so the column is written out wherever the select names it. What cannot be written out is
//! refused where the join is RIGHT or FULL.

use super::{build::call, column_names::label_of_item, walk::finish};
use crate::error::{Result, SqlError};
use crate::ident::fold;
use datafusion::sql::sqlparser::{
    ast::{
        Distinct, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind,
        Query, Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
    },
    dialect::GenericDialect,
    parser::Parser,
};
use std::ops::ControlFlow;

/// A merged column.
struct Merged {
    name: Ident,
    /// The expression for it.
    expr: Expr,
    /// Whether the join is RIGHT or FULL, so that DataFusion takes another column for it.
    outer: bool,
}

/// Writes merged columns out in a select.
///
/// # Errors
/// 0A000 for what has no other form.
pub(crate) fn rewrite(select: &mut Select) -> Result<()> {
    let merged = merged(select)?;
    if merged.is_empty() {
        return Ok(());
    }
    if let Some(filter) = &mut select.selection {
        replace(filter, &merged)?;
    }
    let outer: Vec<&Merged> = merged.iter().filter(|column| column.outer).collect();
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(_) if !outer.is_empty() => items.extend(written_out(select, &outer)?),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                let found = merged.iter().find(|column| is_same(&column.name, &name));
                items.push(match found {
                    Some(column) => SelectItem::ExprWithAlias { expr: column.expr.clone(), alias: name },
                    None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                });
            }
            SelectItem::UnnamedExpr(mut expr) => {
                replace(&mut expr, &merged)?;
                items.push(SelectItem::UnnamedExpr(expr));
            }
            SelectItem::ExprWithAlias { mut expr, alias } => {
                replace(&mut expr, &merged)?;
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
            other => items.push(other),
        }
    }
    select.projection = items;
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        groups.iter_mut().try_for_each(|group| replace(group, &merged))?;
    }
    if let Some(Distinct::On(on)) = &mut select.distinct {
        on.iter_mut().try_for_each(|expr| replace(expr, &merged))?;
    }
    select.having.as_mut().map_or(Ok(()), |having| replace(having, &merged))
}

/// Writes merged columns out in the ORDER BY of a select. A name alone is that of an item of the list, if one has it.
///
/// # Errors
/// Those of [`rewrite`].
pub(crate) fn order_by(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return Ok(()) };
    let outer: Vec<Merged> = merged(select)?.into_iter().filter(|column| column.outer).collect();
    let shown = |name: &Ident| {
        select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } => label_of_item(item) == fold(name),
            SelectItem::Wildcard(_) => true,
            _ => false,
        })
    };
    for order in orders {
        match &order.expr {
            Expr::Identifier(name) if shown(name) => {}
            _ => replace(&mut order.expr, &outer)?,
        }
    }
    Ok(())
}

/// The columns that the joins of a select merge.
fn merged(select: &Select) -> Result<Vec<Merged>> {
    let mut all: Vec<Merged> = Vec::new();
    for from in &select.from {
        let mut left = vec![name_of(&from.relation)];
        for join in &from.joins {
            merge(join, &left, &mut all)?;
            left.push(name_of(&join.relation));
        }
    }
    Ok(all)
}

fn merge(join: &Join, left: &[Option<Ident>], all: &mut Vec<Merged>) -> Result<()> {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let (Inner(by) | Join(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by)) =
        &join.join_operator
    else {
        return Ok(());
    };
    let is_outer = matches!(join.join_operator, Right(_) | RightOuter(_) | FullOuter(_));
    let names = match by {
        JoinConstraint::Using(names) => names,
        JoinConstraint::Natural if is_outer => {
            return Err(SqlError::unsupported("a NATURAL RIGHT or FULL JOIN").with_hint("Name the columns: USING (…)."));
        }
        _ => return Ok(()),
    };
    for name in names.iter().filter_map(column_of) {
        let before = all.iter().position(|column| is_same(&column.name, name));
        let of = |relation: &Ident| Expr::CompoundIdentifier(vec![relation.clone(), name.clone()]);
        let of_left = match (before, left) {
            (Some(at), _) => Some(all[at].expr.clone()),
            (None, [Some(only)]) => Some(of(only)),
            _ => None,
        };
        let of_right = name_of(&join.relation).as_ref().map(of);
        let was_outer = before.is_some_and(|at| all[at].outer);
        if was_outer {
            // DataFusion would join by the wrong column.
            return Err(SqlError::unsupported(format!("another JOIN USING ({name}) after a RIGHT or FULL one"))
                .with_hint("Join with ON, and name the tables of the columns."));
        }
        let expr = match &join.join_operator {
            Right(_) | RightOuter(_) => of_right,
            FullOuter(_) => of_left.zip(of_right).map(|(left, right)| call("coalesce", [left, right])),
            Left(_) | LeftOuter(_) => of_left,
            // Both are the same.
            _ => of_right.or(of_left),
        };
        match (expr, before) {
            (Some(expr), Some(at)) => (all[at].expr, all[at].outer) = (expr, is_outer),
            (Some(expr), None) => all.push(Merged { name: name.clone(), expr, outer: is_outer }),
            (None, _) if is_outer => {
                return Err(SqlError::unsupported(format!("a RIGHT or FULL JOIN USING ({name}) of these tables"))
                    .with_hint("Join with ON, and name the tables of the columns."));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// The items of `*`.
fn written_out(select: &Select, outer: &[&Merged]) -> Result<Vec<SelectItem>> {
    let unknown =
        || SqlError::unsupported("* over a RIGHT or FULL JOIN USING and another table").with_hint("Name the columns.");
    let [from] = &select.from[..] else { return Err(unknown()) };
    let [join] = &from.joins[..] else { return Err(unknown()) };
    let names: Vec<String> = outer.iter().map(|column| column.name.to_string()).collect();
    let column = |column: &&Merged| SelectItem::ExprWithAlias { expr: column.expr.clone(), alias: column.name.clone() };
    let mut items: Vec<SelectItem> = outer.iter().map(column).collect();
    for relation in [&from.relation, &join.relation] {
        let relation = name_of(relation).ok_or_else(unknown)?;
        let text = format!("{relation}.* EXCLUDE ({})", names.join(", "));
        let parsed =
            Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_select_item());
        items.push(parsed.map_err(|error| SqlError::new(crate::error::SqlState::INTERNAL_ERROR, error.to_string()))?);
    }
    Ok(items)
}

/// The qualifier of the columns of a relation.
pub(super) fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn column_of(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
}

fn is_same(a: &Ident, b: &Ident) -> bool {
    fold(a) == fold(b)
}

/// Replaces the names of merged columns by their expressions.
fn replace(expr: &mut Expr, merged: &[Merged]) -> Result<()> {
    finish(VisitMut::visit(expr, &mut Replace { merged, depth: 0 }))
}

struct Replace<'a> {
    merged: &'a [Merged],
    /// Depth in subqueries, which may have columns of these names.
    depth: usize,
}

impl VisitorMut for Replace<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        let Some(column) = self.merged.iter().find(|column| is_same(&column.name, name)) else {
            return ControlFlow::Continue(());
        };
        if self.depth == 0 {
            *expr = column.expr.clone();
        } else if column.outer {
            let what = format!("column {name} of a subquery beside a RIGHT or FULL JOIN USING ({name})");
            return ControlFlow::Break(Box::new(
                SqlError::unsupported(what).with_hint("Name the table of the column in the subquery."),
            ));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        let done = order_by(&mut query).and_then(|()| match query.body.as_mut() {
            SetExpr::Select(select) => rewrite(select),
            _ => panic!("no select: {sql}"),
        });
        expected.assert_eq(&done.map_or_else(|error| error.message.to_string(), |()| query.to_string()));
    }

    #[test]
    fn what_joins_merge_is_written_out() {
        check(
            "SELECT k FROM a JOIN b USING (k) WHERE k = 1 ORDER BY k",
            expect!["SELECT b.k AS k FROM a JOIN b USING(k) WHERE b.k = 1 ORDER BY k"],
        );
        check(
            "SELECT k FROM a LEFT JOIN b USING (k) WHERE K = 1",
            expect!["SELECT a.k AS k FROM a LEFT JOIN b USING(k) WHERE a.k = 1"],
        );
        check(
            "SELECT k FROM a x LEFT JOIN b USING (k) JOIN c USING (k) WHERE k = 1",
            expect!["SELECT c.k AS k FROM a x LEFT JOIN b USING(k) JOIN c USING(k) WHERE c.k = 1"],
        );
        check(
            "SELECT *, k + 1 FROM a RIGHT JOIN b AS y USING (k, l) WHERE l = 1 ORDER BY k",
            expect![
                "SELECT y.k AS k, y.l AS l, a.* EXCLUDE (k, l), y.* EXCLUDE (k, l), y.k + 1 FROM a RIGHT JOIN b AS y USING(k, l) WHERE y.l = 1 ORDER BY k"
            ],
        );
        check(
            "SELECT a.k, b.k AS l FROM a FULL JOIN b USING (k) ORDER BY k, k + 1",
            expect!["SELECT a.k, b.k AS l FROM a FULL JOIN b USING(k) ORDER BY k, coalesce(a.k, b.k) + 1"],
        );
        check(
            "SELECT max(v) FROM a FULL JOIN b USING (k) GROUP BY k HAVING k > 1 ORDER BY k DESC",
            expect![
                "SELECT max(v) FROM a FULL JOIN b USING(k) GROUP BY coalesce(a.k, b.k) HAVING coalesce(a.k, b.k) > 1 ORDER BY coalesce(a.k, b.k) DESC"
            ],
        );
        check(
            "SELECT k FROM a FULL JOIN b USING (k) WHERE x IN (SELECT c.k FROM c)",
            expect!["SELECT coalesce(a.k, b.k) AS k FROM a FULL JOIN b USING(k) WHERE x IN (SELECT c.k FROM c)"],
        );
    }

    #[test]
    fn what_cannot_be_written_out_is_refused() {
        check(
            "SELECT k FROM a FULL JOIN b USING (k) WHERE x IN (SELECT k FROM c)",
            expect!["column k of a subquery beside a RIGHT or FULL JOIN USING (k) is not supported"],
        );
        check("SELECT * FROM a NATURAL FULL JOIN b", expect!["a NATURAL RIGHT or FULL JOIN is not supported"]);
        check(
            "SELECT 1 FROM a FULL JOIN b USING (k) JOIN c USING (k)",
            expect!["another JOIN USING (k) after a RIGHT or FULL one is not supported"],
        );
        check(
            "SELECT 1 FROM a JOIN b ON true FULL JOIN c USING (k)",
            expect!["a RIGHT or FULL JOIN USING (k) of these tables is not supported"],
        );
        check(
            "SELECT * FROM a RIGHT JOIN b USING (k), c",
            expect!["* over a RIGHT or FULL JOIN USING and another table is not supported"],
        );
    }
}
