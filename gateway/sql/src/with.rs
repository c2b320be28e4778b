//! `WITH … UPDATE`, `WITH … DELETE`, `WITH … INSERT`: inlines the queries of WITH, since the gateway builds the SELECT
//! that a write reads from. The WITH of an INSERT goes before its query instead.

use datafusion::sql::sqlparser::ast::{
    self, Cte, ObjectName, ObjectNamePart, Query, SetExpr, TableAlias, TableFactor, UpdateTableFromKind, VisitMut,
    VisitorMut, With,
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
    let volatile = materialized::volatile(with);
    let twice = |name: &&String| {
        let within = with.cte_tables.iter().map(|cte| materialized::count(&*cte.query, name));
        within.sum::<usize>() + materialized::count(&*write, name) > 1
    };
    if let Some(name) = volatile.iter().find(twice) {
        let what = format!(
            "\"{name}\" of WITH twice before UPDATE or DELETE, with a function that has another value each time,"
        );
        return Err(SqlError::unsupported(&what).with_hint("Put its rows into a temporary table."));
    }
    let mut ctes: Vec<Cte> = Vec::with_capacity(with.cte_tables.len());
    for cte in &with.cte_tables {
        let mut cte = cte.clone();
        replace(&mut cte.query, &ctes)?;
        ctes.push(cte);
    }
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
