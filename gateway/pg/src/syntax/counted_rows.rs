//! `count(t.*)`: how many rows of `t` there are, without those that an outer join has made of NULLs.
//!
//! A relation that may be missing gets a column that is true in each of its rows, which is counted; of others all rows
//! count.

use super::build::{parsed_expr, parsed_query};
use crate::{
    error::{Result, SqlError},
    ident::fold,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinOperator, Query, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The column that is true: a name that no client's has.
const THERE: &str = "\u{1}there";

/// Rewrites the items of a select, and its HAVING.
///
/// # Errors
/// 0A000 beside `*`, with DISTINCT, and of a relation behind LATERAL.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let relations = relations(select);
    let mut calls = Calls { relations: &relations, depth: 0, counted: Vec::new(), distinct: false };
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    for expr in items.chain(&mut select.having) {
        let _: ControlFlow<()> = VisitMut::visit(expr, &mut calls);
    }
    let Calls { counted, distinct, .. } = calls;
    if distinct {
        return Err(SqlError::unsupported("count(DISTINCT …) of whole rows"));
    }
    let wild = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if !counted.is_empty() && select.projection.iter().any(wild) {
        return Err(SqlError::unsupported("count of whole rows of an outer join beside *"));
    }
    mark_all(select, &counted, THERE)
}

/// Gives relations of a select a column that is true.
///
/// # Errors
/// 0A000 of a relation behind LATERAL.
pub(super) fn mark_all(select: &mut Select, names: &[String], there: &str) -> Result<()> {
    for from in &mut select.from {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            if let Some(name) = name_of(factor).filter(|name| names.contains(&fold(name))) {
                mark(factor, name, there)?;
            }
        }
    }
    Ok(())
}

/// The relations of a select by name: whether each may be missing, and whether its name is no column of its own.
pub(super) fn relations(select: &Select) -> Vec<Relation> {
    let mut all = Vec::new();
    for from in &select.from {
        let first = all.len();
        all.extend(Relation::of(&from.relation, false));
        for join in &from.joins {
            let (left, right) = match join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            all[first..].iter_mut().for_each(|relation| relation.may_miss |= left);
            all.extend(Relation::of(&join.relation, right));
        }
    }
    all
}

/// A relation of a select.
pub(super) struct Relation {
    /// Its name or alias, folded.
    pub(super) name: String,
    /// Whether an outer join may make NULLs of it.
    pub(super) may_miss: bool,
    /// Whether its columns are known, and none has its name.
    is_no_column: bool,
}

impl Relation {
    fn of(factor: &TableFactor, may_miss: bool) -> Option<Self> {
        let name = fold(&name_of(factor)?);
        let is_no_column = columns_of(factor).is_some_and(|columns| !columns.contains(&name));
        Some(Self { name, may_miss, is_no_column })
    }
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
        _ => None,
    }
}

/// The names of a subquery's columns, as far as they are written.
fn columns_of(factor: &TableFactor) -> Option<Vec<String>> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    if !alias.columns.is_empty() {
        return Some(alias.columns.iter().map(|column| fold(&column.name)).collect());
    }
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(path)) => path.last().map(fold),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

/// Puts the column into a relation.
fn mark(factor: &mut TableFactor, name: Ident, there: &str) -> Result<()> {
    if matches!(factor, TableFactor::Derived { lateral: true, .. } | TableFactor::Table { args: Some(_), .. }) {
        return Err(SqlError::unsupported("the whole row of a relation behind LATERAL"));
    }
    let subquery = parsed_query(&format!("SELECT *, true AS \"{there}\" FROM {factor}"))?;
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    *factor = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}

struct Calls<'a> {
    relations: &'a [Relation],
    depth: usize,
    /// The relations that get a column.
    counted: Vec<String>,
    distinct: bool,
}

impl VisitorMut for Calls<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Function(function) = expr
        {
            self.count(function);
        }
        ControlFlow::Continue(())
    }
}

impl Calls<'_> {
    fn count(&mut self, function: &mut Function) {
        let last = function.name.0.last().and_then(|part| part.as_ident());
        if !last.is_some_and(|name| name.value.eq_ignore_ascii_case("count")) {
            return;
        }
        let FunctionArguments::List(list) = &mut function.args else { return };
        let [FunctionArg::Unnamed(argument)] = list.args.as_mut_slice() else { return };
        let name = match &*argument {
            FunctionArgExpr::QualifiedWildcard(name) => name.0.last().and_then(|part| part.as_ident()).map(fold),
            FunctionArgExpr::Expr(Expr::Identifier(name)) => Some(fold(name)),
            _ => None,
        };
        let by_name = matches!(argument, FunctionArgExpr::Expr(_));
        let known = self.relations.iter().find(|relation| Some(&relation.name) == name.as_ref());
        let Some(relation) = known.filter(|relation| !by_name || relation.is_no_column) else { return };
        if list.duplicate_treatment.is_some() {
            self.distinct = true;
            return;
        }
        if !relation.may_miss {
            *argument = FunctionArgExpr::Wildcard;
        } else if let Ok(there) = parsed_expr(&format!("\"{}\".\"{THERE}\"", relation.name)) {
            *argument = FunctionArgExpr::Expr(there);
            self.counted.push(relation.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        let outcome = super::rewrite(&mut select).map_or_else(|error| error.message, |()| select.to_string());
        expected.assert_eq(&outcome.replace('\u{1}', "~"));
    }

    #[test]
    fn rows_that_are_missing_do_not_count() {
        check("SELECT count(t.*), count(t) FROM t", expect!["SELECT count(*), count(t) FROM t"]);
        check(
            "SELECT count(t.*), count(u.*) FROM t LEFT JOIN u ON true",
            expect![[
                r#"SELECT count(*), count("u"."~there") FROM t LEFT JOIN (SELECT *, true AS "~there" FROM u) AS u ON true"#
            ]],
        );
        check(
            "SELECT count(v) FROM t LEFT JOIN (VALUES (1)) v(x) ON true",
            expect![[
                r#"SELECT count("v"."~there") FROM t LEFT JOIN (SELECT *, true AS "~there" FROM (VALUES (1)) v (x)) AS v ON true"#
            ]],
        );
        check(
            "SELECT *, count(u.*) FROM t FULL JOIN u ON true",
            expect!["count of whole rows of an outer join beside * is not supported"],
        );
    }
}
