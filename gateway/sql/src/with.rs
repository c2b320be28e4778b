//! `WITH … UPDATE`, `WITH … DELETE`, `WITH … INSERT`, `WITH … MERGE`: inlines the queries of WITH, since the gateway
//! builds the SELECT that a write reads from. The WITH of an INSERT goes before its query instead.

use crate::{ast::merge::MergeClause, merge::expressions};
use datafusion::sql::sqlparser::ast::{
    self, Cte, Expr, Insert, ObjectName, ObjectNamePart, Query, SetExpr, TableAlias, TableFactor, TableWithJoins,
    UpdateTableFromKind, VisitMut, VisitorMut, With,
};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    ident::fold,
    plan::materialized,
};
use std::ops::ControlFlow;

/// Turns what sqlparser read as a query, `WITH … UPDATE …`, into a write. Leaves other statements unchanged.
///
/// # Errors
/// 42712 for a name twice; 0A000 for `RECURSIVE`, for a statement in WITH that writes, for a name that a nested WITH
/// defines again, and for a query with a volatile function that would be inlined twice.
pub(crate) fn inline(parsed: &mut ast::Statement) -> Result<()> {
    let ast::Statement::Query(query) = parsed else { return Ok(()) };
    let (SetExpr::Insert(write) | SetExpr::Update(write) | SetExpr::Delete(write)) = query.body.as_ref() else {
        return Ok(());
    };
    let mut write = write.clone();
    if let Some(with) = &query.with {
        check(with)?;
        put(&mut write, with)?;
    }
    *parsed = write;
    Ok(())
}

fn check(with: &With) -> Result<()> {
    for (at, cte) in with.cte_tables.iter().enumerate() {
        if with.cte_tables[..at].iter().any(|other| fold(&other.alias.name) == fold(&cte.alias.name)) {
            let message = format!("WITH query name \"{}\" specified more than once", fold(&cte.alias.name));
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        // A query that no name refers to is not checked later.
        let body = cte.query.body.as_ref();
        if matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)) {
            return Err(SqlError::unsupported("a statement that writes inside of WITH"));
        }
    }
    Ok(())
}

fn put(write: &mut ast::Statement, with: &With) -> Result<()> {
    if let ast::Statement::Insert(insert) = write {
        into_conflict(insert, with)?;
        let Some(source) = &mut insert.source else { return Ok(()) };
        match &mut source.with {
            Some(own) => {
                own.recursive |= with.recursive;
                own.cte_tables.splice(0..0, with.cte_tables.iter().cloned());
            }
            none => *none = Some(with.clone()),
        }
        return Ok(());
    }
    if with.recursive {
        return Err(SqlError::unsupported("WITH RECURSIVE before UPDATE or DELETE")
            .with_hint("Put it into a subquery in FROM, USING or WHERE."));
    }
    let ctes = replacements(with, "UPDATE or DELETE", |name| materialized::count(&*write, name))?;
    // The target is a table even if a query of WITH has its name.
    match write {
        ast::Statement::Update(update) => {
            if let Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) =
                &mut update.from
            {
                replace(tables, &ctes)?;
            }
            replace(&mut update.assignments, &ctes)?;
            replace(&mut update.selection, &ctes)?;
            replace(&mut update.returning, &ctes)
        }
        ast::Statement::Delete(delete) => {
            replace(&mut delete.using, &ctes)?;
            replace(&mut delete.selection, &ctes)?;
            replace(&mut delete.returning, &ctes)
        }
        _ => Ok(()),
    }
}

/// Puts the queries of WITH into ON CONFLICT and RETURNING of an INSERT, if these read one.
fn into_conflict(insert: &mut Insert, with: &With) -> Result<()> {
    let behind = |insert: &Insert, name: &str| {
        materialized::count(&insert.on, name) + materialized::count(&insert.returning, name)
    };
    if with.cte_tables.iter().all(|cte| behind(insert, &fold(&cte.alias.name)) == 0) {
        return Ok(());
    }
    if with.recursive {
        return Err(SqlError::unsupported("WITH RECURSIVE in ON CONFLICT or RETURNING"));
    }
    let count = |name: &str| behind(insert, name) + materialized::count(&insert.source, name);
    let ctes = replacements(with, "INSERT", count)?;
    replace(&mut insert.on, &ctes)?;
    replace(&mut insert.returning, &ctes)
}

/// Puts the queries of WITH into what a MERGE reads: its source, its condition, and its clauses.
///
/// # Errors
/// 42712 for a name twice, 0A000 for recursive queries, and for those with a function that has another value each time
/// if they are read twice.
pub(crate) fn into_merge(
    (source, on, clauses): (&mut TableWithJoins, &mut Expr, &mut [MergeClause]),
    with: &With,
) -> Result<()> {
    check(with)?;
    if with.recursive {
        return Err(SqlError::unsupported("WITH RECURSIVE before MERGE").with_hint("Put it into a subquery in USING."));
    }
    let ctes = replacements(with, "MERGE", |name| {
        let read = clauses.iter_mut().flat_map(expressions);
        let within = read.map(|expr| materialized::count(&*expr, name)).sum::<usize>();
        within + materialized::count(&*source, name) + materialized::count(&*on, name)
    })?;
    replace(source, &ctes)?;
    replace(on, &ctes)?;
    clauses.iter_mut().flat_map(expressions).try_for_each(|expr| replace(expr, &ctes))
}

/// The queries of WITH, each with those before it in the place of their names. `count` says how often the statement
/// reads a name.
fn replacements(with: &With, before: &str, mut count: impl FnMut(&str) -> usize) -> Result<Vec<Cte>> {
    for name in &materialized::volatile(with) {
        let within = with.cte_tables.iter().map(|cte| materialized::count(&*cte.query, name));
        if within.sum::<usize>() + count(name) > 1 {
            let what =
                format!("\"{name}\" of WITH twice before {before}, with a function that has another value each time,");
            return Err(SqlError::unsupported(&what).with_hint("Put its rows into a temporary table."));
        }
    }
    let mut ctes: Vec<Cte> = Vec::with_capacity(with.cte_tables.len());
    for cte in &with.cte_tables {
        let mut cte = cte.clone();
        replace(&mut cte.query, &ctes)?;
        ctes.push(cte);
    }
    Ok(ctes)
}

/// Puts the queries in the place of their names.
fn replace<T: VisitMut>(tree: &mut T, ctes: &[Cte]) -> Result<()> {
    match VisitMut::visit(tree, &mut Inliner { ctes }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Inliner<'a> {
    ctes: &'a [Cte],
}

impl VisitorMut for Inliner<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let again = |cte: &Cte| self.ctes.iter().any(|other| fold(&other.alias.name) == fold(&cte.alias.name));
        if query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(again)) {
            let what = "a name of WITH that a WITH within it has as well";
            return ControlFlow::Break(Box::new(SqlError::unsupported(what)));
        }
        ControlFlow::Continue(())
    }

    /// After the factors within it: in a query of WITH its own name is that of a table.
    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Table { name, alias, args: None, version: None, .. } = factor
            && let Some(cte) = self.ctes.iter().find(|cte| is_called(name, cte))
        {
            let alias = match alias.take() {
                None => TableAlias { explicit: true, ..cte.alias.clone() },
                Some(alias) if alias.columns.is_empty() => TableAlias { columns: cte.alias.columns.clone(), ..alias },
                Some(alias) => alias,
            };
            let subquery = cte.query.clone();
            *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        }
        ControlFlow::Continue(())
    }
}

fn is_called(name: &ObjectName, cte: &Cte) -> bool {
    let [part] = name.0.as_slice() else { return false };
    ObjectNamePart::as_ident(part).is_some_and(|name| fold(name) == fold(&cte.alias.name))
}
