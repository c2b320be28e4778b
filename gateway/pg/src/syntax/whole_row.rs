//! A row of a subquery in FROM as one value: `SELECT row_to_json(t) FROM (SELECT …) t`.
//!
//! DataFusion has columns alone. So the name of the subquery, as the argument of a function that makes JSON, becomes a
//! struct of its columns, under the names of the subquery's select list. The columns of a table are not known here: its
//! name stays, and planning reports a missing column.

use super::{
    build::{call, parsed_expr},
    column_names,
};
use crate::ident::fold;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, SetExpr, TableFactor, Value,
    VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The functions that take a row.
const FUNCTIONS: [&str; 5] = ["row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"];

/// Rewrites the items of a select.
pub fn rewrite(select: &mut Select) {
    let factors = select
        .from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    let rows: Vec<(Ident, Expr)> = factors.filter_map(row).collect();
    if rows.is_empty() {
        return;
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let flow = VisitMut::visit(expr, &mut Items(&rows));
            debug_assert!(flow.is_continue(), "nothing breaks off");
        }
    }
}

/// The alias of a subquery in FROM, and its row as a struct.
fn row(factor: &TableFactor) -> Option<(Ident, Expr)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let mut body = subquery.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else { return None };
    let mut select = select.clone();
    column_names::label(&mut select);
    let names = select.projection.iter().enumerate().map(|(at, item)| match (alias.columns.get(at), item) {
        (Some(column), _) => Some(column.name.clone()),
        (None, SelectItem::ExprWithAlias { alias, .. } | SelectItem::UnnamedExpr(Expr::Identifier(alias))) => {
            Some(alias.clone())
        }
        (None, SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path))) => path.last().cloned(),
        _ => None,
    });
    let names = names.collect::<Option<Vec<_>>>()?;
    let mut members = Vec::new();
    for name in names {
        let shown = fold(&name);
        members.push(Expr::Value(Value::SingleQuotedString(shown).into()));
        members.push(parsed_expr(&format!("{}.{name}", alias.name)).ok()?);
    }
    Some((alias.name.clone(), call("named_struct", members)))
}

struct Items<'a>(&'a [(Ident, Expr)]);

impl VisitorMut for Items<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident());
        if !name.is_some_and(|name| FUNCTIONS.iter().any(|known| name.value.eq_ignore_ascii_case(known))) {
            return ControlFlow::Continue(());
        }
        let FunctionArguments::List(list) = &mut function.args else { return ControlFlow::Continue(()) };
        if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice()
            && let Expr::Identifier(written) = argument
            && let Some((_, row)) = self.0.iter().find(|(alias, _)| alias.value.eq_ignore_ascii_case(&written.value))
        {
            *argument = row.clone();
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
        let Statement::Query(query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        rewrite(&mut select);
        expected.assert_eq(&select.projection[0].to_string());
    }

    #[test]
    fn rows_of_subqueries_are_structs() {
        check(
            "SELECT row_to_json(t) FROM (SELECT a AS \"A\", b.c FROM b) t",
            expect![[r#"row_to_json(named_struct('A', t."A", 'c', t.c))"#]],
        );
        check("SELECT json_agg(t) FROM (SELECT 1) t(x)", expect!["json_agg(named_struct('x', t.x))"]);
        // A column of another name, and what is not known.
        check("SELECT row_to_json(x) FROM (SELECT a AS x FROM b) t", expect!["row_to_json(x)"]);
        check("SELECT row_to_json(t) FROM (SELECT * FROM b) t", expect!["row_to_json(t)"]);
    }
}
