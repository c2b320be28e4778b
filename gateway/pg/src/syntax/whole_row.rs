//! A row of a relation in FROM as one value: `SELECT row_to_json(t) FROM t`, `to_jsonb(t.*)`, `SELECT t FROM t`.
//!
//! DataFusion has columns alone. So the name of a relation, where no column has that name, becomes a composite value
//! ([`RECORD`]) of its columns, whose names the relation is planned for ([`relation_columns`]). A relation that an outer
//! join may miss gets a column that is true in each of its rows: where that is NULL, the value is.

use super::{
    build::parsed_expr,
    counted_rows,
    relation_columns::{self, ColumnsOf, Rule},
};
use crate::{
    error::{Result, SqlError},
    functions::records::RECORD,
    ident::{fold, quoted},
};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, Select, SelectItem, Statement,
    Value, Visit, VisitMut, Visitor, VisitorMut,
};
use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
};

/// The column that is true: a name that no client's has.
const THERE: &str = "\u{1}row";

/// Writes rows out.
///
/// # Errors
/// 0A000 for the row of a relation that may be missing beside `*`, and behind LATERAL.
pub async fn resolve(statement: &mut Statement, columns_of: &ColumnsOf<'_>) -> Result<()> {
    relation_columns::rewrite(statement, columns_of, Rule { needs, rewrite }).await
}

/// Whether a select names one of its relations as a value.
fn needs(select: &Select) -> bool {
    let names: HashSet<String> = counted_rows::relations(select).into_iter().map(|relation| relation.name).collect();
    let mut found = Names { wanted: &names, depth: 0 };
    if names.is_empty() {
        return false;
    }
    select.projection.iter().any(|item| item.visit(&mut found).is_break())
        || select.selection.as_ref().is_some_and(|expr| expr.visit(&mut found).is_break())
        || select.group_by.visit(&mut found).is_break()
}

/// Breaks off at an expression that may be a row.
struct Names<'a> {
    wanted: &'a HashSet<String>,
    depth: usize,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is = self.depth == 0
            && match expr {
                Expr::Identifier(name) => self.wanted.contains(&fold(name)),
                Expr::Function(function) => {
                    let FunctionArguments::List(list) = &function.args else { return ControlFlow::Continue(()) };
                    let counts = is_count(&function.name);
                    !counts
                        && list
                            .args
                            .iter()
                            .any(|argument| star(argument).is_some_and(|name| self.wanted.contains(&name)))
                }
                _ => false,
            };
        if is { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// `count(t.*)` has a meaning of its own ([`counted_rows`]).
fn is_count(name: &datafusion::sql::sqlparser::ast::ObjectName) -> bool {
    name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value.eq_ignore_ascii_case("count"))
}

/// The relation of an argument `t.*`.
fn star(argument: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument else { return None };
    name.0.last().and_then(|part| part.as_ident()).map(fold)
}

fn rewrite(select: &mut Select, columns: VecDeque<Vec<String>>) -> Result<bool> {
    let relations = counted_rows::relations(select);
    // A relation without a name, or in parentheses, would shift the others.
    if relations.len() != columns.len() {
        return Ok(false);
    }
    let hidden: HashSet<&String> = columns.iter().flatten().collect();
    let rows: Vec<Row> = relations
        .iter()
        .zip(&columns)
        .map(|(relation, columns)| {
            let is_column = hidden.contains(&relation.name);
            Ok(Row {
                name: relation.name.clone(),
                columns: columns.clone(),
                value: record(&relation.name, columns, relation.may_miss)?,
                is_column,
            })
        })
        .collect::<Result<_>>()?;
    let mut items = Items { rows: &rows, depth: 0, used: HashSet::new(), wild: false };
    for item in &mut select.projection {
        items.wild |= matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let label = match &*item {
            // The item has the name of the row.
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            _ => None,
        };
        let _: ControlFlow<()> = VisitMut::visit(item, &mut items);
        if let (Some(alias), SelectItem::UnnamedExpr(expr)) = (label, &mut *item)
            && !matches!(expr, Expr::Identifier(_))
        {
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    if let Some(filter) = &mut select.selection {
        let _: ControlFlow<()> = VisitMut::visit(filter, &mut items);
    }
    let _: ControlFlow<()> = VisitMut::visit(&mut select.group_by, &mut items);
    let Items { used, wild, .. } = items;
    if used.is_empty() {
        return Ok(false);
    }
    let missing: Vec<String> =
        relations.into_iter().filter(|relation| relation.may_miss).map(|relation| relation.name).collect();
    let marked: Vec<String> = missing.into_iter().filter(|name| used.contains(name)).collect();
    if wild && !marked.is_empty() {
        return Err(SqlError::unsupported("the row of a relation of an outer join beside *"));
    }
    counted_rows::mark_all(select, &marked, THERE)?;
    Ok(true)
}

/// A relation of a select.
struct Row {
    name: String,
    columns: Vec<String>,
    value: Expr,
    /// Whether a column has this name, which comes first.
    is_column: bool,
}

/// The value of a row.
fn record(name: &str, columns: &[String], may_miss: bool) -> Result<Expr> {
    let relation = quoted(name);
    let members = columns.iter().flat_map(|column| {
        let name = Expr::Value(Value::SingleQuotedString(column.clone()).into());
        [name.to_string(), format!("{relation}.{}", quoted(column))]
    });
    let record = format!("{RECORD}({})", members.collect::<Vec<_>>().join(", "));
    if may_miss {
        return parsed_expr(&format!("CASE WHEN {relation}.\"{THERE}\" THEN {record} END"));
    }
    parsed_expr(&record)
}

struct Items<'a> {
    rows: &'a [Row],
    depth: usize,
    /// The relations whose rows are values somewhere.
    used: HashSet<String>,
    /// Whether there is a `*`.
    wild: bool,
}

impl Items<'_> {
    fn row(&mut self, name: &str, by_name: bool) -> Option<Expr> {
        let row = self.rows.iter().find(|row| row.name == name && !(by_name && row.is_column))?;
        self.used.insert(row.name.clone());
        Some(row.value.clone())
    }

    /// An argument of `ROW`: the columns of a relation for `t.*`.
    fn written_out(&mut self, argument: FunctionArg) -> Vec<FunctionArg> {
        let found = star(&argument).and_then(|name| self.rows.iter().find(|row| row.name == name));
        let Some(row) = found else { return vec![argument] };
        self.used.insert(row.name.clone());
        let column = |column: &String| {
            let names = vec![quoted(&row.name), quoted(column)];
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(names)))
        };
        row.columns.iter().map(column).collect()
    }
}

/// The constructor of rows.
fn is_row(name: &datafusion::sql::sqlparser::ast::ObjectName) -> bool {
    match name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| name.quote_style.is_none() && fold(name) == "row"),
        _ => false,
    }
}

impl VisitorMut for Items<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    /// `t.a[1]` is an item of what `t.a` names: the parser takes it for a field `a` of something called `t`.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { root, access_chain } = expr
            && let Expr::Identifier(relation) = root.as_ref()
            && let Some(AccessExpr::Dot(Expr::Identifier(column))) = access_chain.first()
        {
            **root = Expr::CompoundIdentifier(vec![relation.clone(), column.clone()]);
            access_chain.remove(0);
        }
        // The name of a field is no row, if a relation has the same name: `(f(x)).n FROM t n`.
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for field in access_chain {
                if let AccessExpr::Dot(Expr::Identifier(name)) = field {
                    *field = AccessExpr::Dot(Expr::CompoundIdentifier(vec![name.clone()]));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundFieldAccess { access_chain, .. } = expr {
            for field in access_chain {
                if let AccessExpr::Dot(Expr::CompoundIdentifier(names)) = field
                    && let [name] = names.as_slice()
                {
                    *field = AccessExpr::Dot(Expr::Identifier(name.clone()));
                }
            }
        }
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Identifier(name) => {
                if let Some(row) = self.row(&fold(name), true) {
                    *expr = row;
                }
            }
            Expr::Function(function) if !is_count(&function.name) => {
                let FunctionArguments::List(list) = &mut function.args else { return ControlFlow::Continue(()) };
                // `ROW(t.*)` has the columns of `t`, not its row.
                if is_row(&function.name) {
                    let given = std::mem::take(&mut list.args).into_iter();
                    list.args = given.flat_map(|argument| self.written_out(argument)).collect();
                    return ControlFlow::Continue(());
                }
                for argument in &mut list.args {
                    if let Some(row) = star(argument).and_then(|name| self.row(&name, false)) {
                        *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(row));
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::SetExpr;
    use expect_test::{Expect, expect};

    /// Each relation has the columns `k` and `v`.
    fn check(sql: &str, expected: Expect) {
        let Statement::Query(query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        let names = || vec!["k".to_owned(), "v".to_owned()];
        let columns = select.from.iter().flat_map(relation_columns::relations).map(|_| names()).collect();
        let outcome = match needs(&select).then(|| rewrite(&mut select, columns)) {
            Some(Ok(_)) => select.to_string(),
            Some(Err(error)) => error.message,
            None => "no row".to_owned(),
        };
        expected.assert_eq(&outcome.replace('\u{1}', "~"));
    }

    #[test]
    fn names_of_relations_are_rows() {
        check(
            "SELECT row_to_json(t), t, count(t.*) FROM t",
            expect![[
                r#"SELECT row_to_json(keyspan_record('k', "t"."k", 'v', "t"."v")), keyspan_record('k', "t"."k", 'v', "t"."v") AS t, count(t.*) FROM t"#
            ]],
        );
        check(
            "SELECT to_jsonb(u.*) FROM t LEFT JOIN u ON true WHERE u IS NULL",
            expect![[
                r#"SELECT to_jsonb(CASE WHEN "u"."~row" THEN keyspan_record('k', "u"."k", 'v', "u"."v") END) FROM t LEFT JOIN (SELECT *, true AS "~row" FROM u) AS u ON true WHERE CASE WHEN "u"."~row" THEN keyspan_record('k', "u"."k", 'v', "u"."v") END IS NULL"#
            ]],
        );
        // A column of that name comes first, and inner queries have names of their own.
        check("SELECT v FROM v", expect!["SELECT v FROM v"]);
        check("SELECT (SELECT t FROM s) FROM t", expect!["no row"]);
        // Nor is the name of a field.
        check("SELECT (f(t.k)).t FROM t", expect!["SELECT (f(t.k)).t FROM t"]);
        check(
            "SELECT *, u FROM t LEFT JOIN u ON true",
            expect!["the row of a relation of an outer join beside * is not supported"],
        );
    }
}
