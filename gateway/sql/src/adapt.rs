//! Checks sqlparser's trees for clauses that are not supported, and rewrites what DataFusion knows in another form
//! only.
//!
//! DataFusion's planner ignores clauses that it does not know (`FOR UPDATE`, versions of tables): they are 0A000 here.

use crate::locking::{check_nested, nested};
use datafusion::sql::sqlparser::{
    ast::{
        self, Expr, LimitClause, Query, Select, SetExpr, TableFactor, TableVersion, Value, ValueWithSpan, Visit,
        VisitMut, Visitor, VisitorMut,
    },
    tokenizer::Span,
};
use keyspan_pg::{
    error::{Result, SqlError},
    ident::fold,
    plan::with_ties::WITH_TIES,
    syntax::{build::call, rows_of_sets},
};
use std::ops::ControlFlow;

/// Removes the session's database from the names of relations that begin with it.
pub(crate) fn without_database<T: VisitMut>(tree: &mut T, database: &str) {
    let _: ControlFlow<()> = ast::visit_relations_mut(tree, |name| {
        let first = name.0.first().and_then(|part| part.as_ident()).map(fold);
        if name.0.len() > 2 && first.as_deref() == Some(database) {
            name.0.remove(0);
        }
        ControlFlow::Continue(())
    });
}

/// Refuses unsupported clauses, locks included, and rewrites the others to DataFusion's forms.
pub(crate) fn adapt<T: Visit + VisitMut>(tree: &mut T) -> Result<()> {
    refuse_and_rewrite(tree, Refusal { locks: false })
}

/// As [`adapt`], for a write, whose subqueries may lock rows.
pub(crate) fn adapt_locking(parsed: &mut ast::Statement) -> Result<()> {
    refuse_and_rewrite(parsed, Refusal { locks: true })?;
    check_nested(parsed)
}

fn refuse_and_rewrite<T: Visit + VisitMut>(tree: &mut T, mut refusal: Refusal) -> Result<()> {
    if let ControlFlow::Break(error) = Visit::visit(tree, &mut refusal) {
        return Err(error);
    }
    match VisitMut::visit(tree, &mut Rewrite) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn step(result: Result<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

struct Refusal {
    /// Whether subqueries may lock rows.
    locks: bool,
}

impl Visitor for Refusal {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let writes =
            matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_));
        if !query.locks.is_empty() && !self.locks {
            return ControlFlow::Break(nested());
        }
        step(refuse(&[
            (writes, "a statement that writes inside of WITH"),
            (query.for_clause.is_some(), "FOR XML or FOR JSON"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "a pipe operator"),
        ]))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        step(refuse(&[
            (select.into.is_some(), "SELECT INTO"),
            (select.top.is_some(), "TOP"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.value_table_mode.is_some(), "SELECT AS VALUE"),
            (select.select_modifiers.is_some(), "a modifier of SELECT"),
        ]))
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<SqlError> {
        step(match table {
            TableFactor::Table { with_hints, version, partitions, json_path, index_hints, .. } => refuse(&[
                (version.as_ref().is_some_and(|of| !matches!(of, TableVersion::ForSystemTimeAsOf(_))), "AS OF"),
                (!with_hints.is_empty() || !index_hints.is_empty(), "a hint"),
                (!partitions.is_empty() || json_path.is_some(), "a part of a table"),
            ]),
            TableFactor::Derived { sample, .. } => refuse(&[(sample.is_some(), "TABLESAMPLE")]),
            _ => Ok(()),
        })
    }
}

struct Rewrite;

impl VisitorMut for Rewrite {
    type Break = SqlError;

    /// `FETCH FIRST n ROWS ONLY` is `LIMIT n`; with ties the number is marked.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
        if fetch.percent {
            return ControlFlow::Break(SqlError::unsupported("FETCH … PERCENT"));
        }
        if fetch.with_ties && query.order_by.is_none() {
            let message = "WITH TIES cannot be specified without ORDER BY clause";
            return ControlFlow::Break(SqlError::syntax(message));
        }
        let one = || Expr::Value(ValueWithSpan { value: Value::Number("1".into(), false), span: Span::empty() });
        let count = fetch.quantity.unwrap_or_else(one);
        let count = Some(if fetch.with_ties { call(WITH_TIES, [count]) } else { count });
        match &mut query.limit_clause {
            None => {
                query.limit_clause = Some(LimitClause::LimitOffset { limit: count, offset: None, limit_by: vec![] })
            }
            Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = count,
            Some(_) => return ControlFlow::Break(SqlError::syntax("multiple LIMIT clauses not allowed")),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        step(rows_of_sets::rewrite(select))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        step(rows_of_sets::refuse(expr))
    }
}

pub(crate) fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(found, _)| *found) {
        None => Ok(()),
        Some((_, what)) => Err(SqlError::unsupported(what)),
    }
}
