//! INSERT, UPDATE, DELETE and MERGE: one attempt reads at one pin and writes; a statement that commits by itself is
//! tried again when rows that it read have changed meanwhile.

use super::locking::subqueries;
use crate::{
    dml::{
        ATTEMPTS_MAX,
        bound_write::{BoundWrite, command_tag, not_a_write},
    },
    execute::Outcome,
    load::{self, insert::Inserted},
    pg::{
        error::{Result, SqlState},
        types::ParameterType,
    },
    query::{Query, parameter_values::ParameterValues},
    session::{Prepared, Session},
    shares::work::Written,
    sql::ast::Statement,
    view::View,
    write_set::Merged,
};
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use keyspan_catalog::TableId;

/// The types of a write's parameters, and the columns that it returns, if it does.
///
/// # Errors
/// Those of [`BoundWrite`].
pub(super) async fn parameters(
    session: &mut Session,
    view: View,
    statement: &Statement,
    hints: &[Option<ParameterType>],
) -> Result<(Vec<ParameterType>, Option<SchemaRef>)> {
    let statement = &*subqueries::without(statement);
    let query = session.query(view)?.with_types(hints);
    BoundWrite::new(&query, statement, hints).await?.parameters(&query).await
}

/// The plan of the SELECT beneath a write: for EXPLAIN.
///
/// # Errors
/// Those of [`BoundWrite`].
pub(super) async fn plan(
    session: &mut Session,
    statement: &Statement,
    parameters: &ParameterValues,
) -> Result<(Query, LogicalPlan)> {
    let view = session.view().await?;
    let statement = &*subqueries::without(statement);
    let query = session.query(view)?.with_parameters(parameters);
    let plan = BoundWrite::new(&query, statement, &[]).await?.plan(&query).await?;
    Ok((query, plan))
}

/// Runs a write.
///
/// # Errors
/// Those of [`BoundWrite::run`]; 40001 when the rows that it read kept changing.
pub(super) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    parameters: ParameterValues,
) -> Result<Outcome> {
    let autocommit = !session.in_transaction();
    let attempts = if autocommit { ATTEMPTS_MAX } else { 1 };
    let locks = subqueries::are_in(&prepared.statement);
    let mut last = None;
    for _ in 0..attempts {
        let done = if autocommit && locks {
            Box::pin(in_own_transaction(session, prepared, &parameters)).await
        } else {
            once(session, prepared, &parameters).await
        };
        match done {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => last = Some(error),
            other => return other,
        }
        tokio::task::yield_now().await;
    }
    Err(last.unwrap_or_else(not_a_write))
}

/// One attempt of a statement that commits by itself and whose subqueries lock rows: what they lock is held until the
/// commit.
async fn in_own_transaction(
    session: &mut Session,
    prepared: &Prepared,
    parameters: &ParameterValues,
) -> Result<Outcome> {
    session.begin_statement();
    match once(session, prepared, parameters).await {
        Ok(outcome) => {
            session.commit().await?;
            Ok(outcome)
        }
        Err(error) => {
            session.rollback();
            Err(error)
        }
    }
}

/// One attempt: read at one pin, then write.
async fn once(session: &mut Session, prepared: &Prepared, parameters: &ParameterValues) -> Result<Outcome> {
    let view = session.view().await?.relied_of_target();
    if session.takes_fast_path()
        && let Some(crate::point::Written { writes, count, rows, needs }) =
            prepared.point_write(session, parameters, &view).await?
    {
        let (pin, tag) = (view.pin.clone(), command_tag(&prepared.statement)?);
        // The view goes first: it shares what the transaction has written so far.
        drop(view);
        let (table, merged) = (writes.table(), writes.merged());
        session.write(&pin, writes).await?;
        count_rows(session, table, &prepared.statement, (count, merged));
        return Ok(match rows {
            Some(rows) => Outcome::Rows { tag, rows, needs },
            None => Outcome::Done(format!("{tag} {count}")),
        });
    }
    Box::pin(planned(session, view, prepared, parameters)).await
}

/// One attempt with a plan of the optimizer's.
async fn planned(
    session: &mut Session,
    view: View,
    prepared: &Prepared,
    parameters: &ParameterValues,
) -> Result<Outcome> {
    let statement = &*prepared.statement;
    let pin = view.pin.clone();
    let autocommit = !session.in_transaction();
    let taken = match subqueries::are_in(statement) {
        true => Some(Box::pin(subqueries::take(session, &view, statement, parameters)).await?),
        false => None,
    };
    let statement = taken.as_ref().map_or(statement, |taken| &taken.statement);
    let query = session.query(view)?.with_parameters(parameters);
    if let Some(taken) = &taken {
        taken.put(&query);
    }
    let write = BoundWrite::new(&query, statement, &[]).await?;
    let needs = query.statement_context().needs.clone();
    let done = async {
        let Some(source) = write.new_rows(&query, parameters).await? else {
            let (writes, count, rows) = write.run(&query, parameters, autocommit).await?;
            return Ok((Inserted::Rows(writes, count), rows));
        };
        let inserted = Box::pin(load::insert::run(session, (&query, write.target()), source)).await?;
        Ok((inserted, None))
    };
    let done: Result<_> = done.await;
    let (done, rows) = done.map_err(|error| write.without_row(&query, error))?;
    let table = write.target().table.id;
    // The view goes first: it shares what the transaction has written so far.
    drop((write, query));
    let tag = command_tag(statement)?;
    let count = match done {
        Inserted::Stored(count) => count,
        Inserted::Rows(writes, count) => {
            let merged = writes.merged();
            session.write(&pin, writes).await?;
            count_rows(session, Some(table), statement, (count, merged));
            count
        }
    };
    Ok(match rows {
        Some(rows) => Outcome::Rows { tag, rows, needs },
        None => Outcome::Done(format!("{tag} {count}")),
    })
}

/// Counts rows that a statement has written, those of a MERGE by what it did to each.
pub(super) fn count_rows(
    session: &Session,
    table: Option<TableId>,
    statement: &Statement,
    (count, merged): (u64, Merged),
) {
    let Some(table) = table.filter(|_| count > 0) else { return };
    let work = session.share().work.table(table.0);
    match statement {
        Statement::Insert(_) => work.wrote(Written::Inserted, count),
        Statement::Delete(_) | Statement::Erase(_) => work.wrote(Written::Deleted, count),
        Statement::Merge(_) => {
            work.wrote(Written::Inserted, merged.inserted);
            work.wrote(Written::Updated, merged.updated);
            work.wrote(Written::Deleted, merged.deleted);
        }
        _ => work.wrote(Written::Updated, count),
    }
}
