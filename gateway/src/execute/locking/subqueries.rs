//! Subqueries of UPDATE and DELETE that lock rows, as those of job queues do:
//!
//! ```text
//! UPDATE jobs SET … WHERE id = (SELECT id FROM jobs … LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING …
//! ```
//!
//! They run first, each once, at the statement's pin, and the statement then reads what they gave in their place. In
//! PostgreSQL they may run at any moment of the statement; what is locked is the same. A statement of its own is a
//! transaction for that, so that what it holds, it holds until it is committed. One that names something of the
//! statement around it is 0A000.

use super::rows_at;
use crate::pg::syntax::dialect::parse_text;
use crate::{
    dml::returning::PreparedTable,
    pg::error::{Result, SqlError, SqlState},
    query::{Query, parameter_values::ParameterValues},
    session::Session,
    sql::{
        ast::{LockingQuery, Statement},
        locking::nested,
    },
    view::View,
};
use datafusion::{
    datasource::MemTable,
    sql::sqlparser::ast::{self, Visit, VisitMut, Visitor, VisitorMut},
};
use futures::TryStreamExt;
use std::{borrow::Cow, ops::ControlFlow, sync::Arc};

/// Bytes of rows that subqueries of a statement may give: they are in memory while it runs.
const TAKEN_BYTES_MAX: usize = 64 << 20;
/// What functions that give these rows are called, with a number behind it.
const TAKEN_ROWS: &str = "keyspan_taken_rows";

/// A statement with functions in the place of subqueries that lock, and the rows that these give.
pub(crate) struct Taken {
    pub(crate) statement: Statement,
    rows: Vec<Arc<MemTable>>,
}

impl Taken {
    /// Lets a query find the rows.
    pub(crate) fn put(&self, query: &Query) {
        for (at, rows) in self.rows.iter().enumerate() {
            query.context.register_udtf(&format!("{TAKEN_ROWS}_{at}"), Arc::new(PreparedTable(rows.clone())));
        }
    }
}

/// Whether a statement has subqueries that lock.
pub(crate) fn are_in(statement: &Statement) -> bool {
    !found(statement).is_empty()
}

/// The statement without their clauses, to be analysed.
pub(crate) fn without(statement: &Statement) -> Cow<'_, Statement> {
    if !are_in(statement) {
        return Cow::Borrowed(statement);
    }
    let mut statement = statement.clone();
    change(&mut statement, |query| query.locks.clear());
    Cow::Owned(statement)
}

/// Runs the subqueries that lock. The session is in a transaction.
///
/// # Errors
/// Those of [`rows`](super::rows); 0A000 for one that names something around it; 54000 above [`TAKEN_BYTES_MAX`].
pub(crate) async fn take(
    session: &mut Session,
    view: &View,
    statement: &Statement,
    parameters: &ParameterValues,
) -> Result<Taken> {
    let queries = found(statement);
    let (mut rows, mut bytes) = (Vec::with_capacity(queries.len()), 0);
    for query in &queries {
        let query = LockingQuery::from(Box::new(query.clone()));
        let given = rows_at(session, view.clone(), &query, parameters.clone()).await;
        // The statement was analysed: what is not there by itself is there around it.
        let (mut given, _) = given.map_err(|error| match error.state {
            SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_TABLE => nested(),
            _ => error,
        })?;
        let (schema, mut batches) = (given.schema(), Vec::new());
        while let Some(batch) = given.try_next().await.map_err(SqlError::from)? {
            bytes += batch.get_array_memory_size();
            if bytes > TAKEN_BYTES_MAX {
                let message = format!("subqueries that lock give more than {} MiB of rows", TAKEN_BYTES_MAX >> 20);
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("Lock fewer rows."));
            }
            batches.push(batch);
        }
        rows.push(Arc::new(MemTable::try_new(schema, vec![batches])?));
    }
    let mut places = Vec::with_capacity(queries.len());
    for at in 0..queries.len() {
        let sql = format!("SELECT * FROM {TAKEN_ROWS}_{at}() AS taken");
        let parsed = parse_text(&sql, |parser| parser.parse_query());
        places.push(parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?);
    }
    let mut statement = statement.clone();
    change(&mut statement, |query| {
        if let Some(at) = queries.iter().position(|found| found == query) {
            *query = places[at].as_ref().clone();
        }
    });
    Ok(Taken { statement, rows })
}

/// The subqueries that lock; those that say the same are one.
fn found(statement: &Statement) -> Vec<ast::Query> {
    struct Find(Vec<ast::Query>);
    impl Visitor for Find {
        type Break = ();
        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            if !query.locks.is_empty() && !self.0.contains(query) {
                self.0.push(query.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut find = Find(Vec::new());
    let _: ControlFlow<()> = match statement {
        Statement::Update(update) => update.visit(&mut find),
        Statement::Delete(delete) => delete.visit(&mut find),
        _ => ControlFlow::Continue(()),
    };
    find.0
}

/// Changes the subqueries that lock.
fn change(statement: &mut Statement, how: impl FnMut(&mut ast::Query)) {
    struct Change<F>(F);
    impl<F: FnMut(&mut ast::Query)> VisitorMut for Change<F> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
            if !query.locks.is_empty() {
                (self.0)(query);
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = match statement {
        Statement::Update(update) => VisitMut::visit(update, &mut Change(how)),
        Statement::Delete(delete) => VisitMut::visit(delete, &mut Change(how)),
        _ => ControlFlow::Continue(()),
    };
}
