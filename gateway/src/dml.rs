//! Writes: planned as a SELECT of keys and new values under the predicate, then mutations by row.
//!
//! A statement's life: `target` resolves the table; a tree of our own asks for keys and values (`tree`); rows stream out
//! of the [`Query`]; each becomes mutations in a [`Written`](crate::session::Written). A row whose reading mattered is relied on, and the commit is refused
//! when it changed since the pin. A statement of its own is then run again from the start, [`ATTEMPTS_MAX`] times at most; in
//! a transaction it fails. DataFusion's own hooks for writes are never used: they lose predicates.

pub(crate) mod assign;
pub(crate) mod defaults;
pub(crate) mod insert;
mod merge;
mod range;
pub(crate) mod returning;
pub(crate) mod select;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod update_delete;
pub(crate) mod upsert;

pub use crate::execute::locking::{locks, rows as locked_rows, without_locks};
pub use crate::execute::truncate::truncate;
pub use crate::load::{Failed, Load};
pub use crate::row_numbers::RowNumbers;
pub use defaults::{checked_columns, next_sql, settled};

use crate::{
    execute::locking::subqueries,
    pg::error::{Result, SqlError, SqlState},
    point,
    query::Query,
    session::{Outcome, Prepared, Session},
    sql::ast::Statement,
    view::View,
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::{
    logical_expr::LogicalPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Ident},
};
use returning::Returned;
use target::Target;

/// How often a statement of its own is run when others keep changing its rows. Each refusal means that another commit
/// went through, so that this bounds patience, not progress.
pub(crate) const ATTEMPTS_MAX: usize = 64;

/// The types of a write's parameters, and the columns that it returns, if it does.
///
/// # Errors
/// What is wrong with the statement.
pub async fn parameters(
    session: &mut Session,
    view: View,
    statement: &Statement,
    hints: &[Option<DataType>],
) -> Result<(Vec<DataType>, Option<SchemaRef>)> {
    if let Statement::Merge(merge) = statement {
        let query = Query::new(session, view)?;
        let planned = merge::planned(&query, merge, hints).await?;
        let plan = query.plan(&planned.select).await?;
        return Ok((query.parameters(&planned.select, &plan, &planned.hints).await?, None));
    }
    let statement = &*subqueries::without(statement);
    let (select, hints) = match statement {
        Statement::Insert(insert) => insert::source(&view, insert, hints)?,
        Statement::Update(update) => update_delete::update_select(&view, update, hints)?,
        Statement::Delete(delete) => (update_delete::delete_select(&view, delete)?, hints.to_vec()),
        _ => return Err(not_a_write()),
    };
    let query = Query::new(session, view)?;
    let plan = query.plan(&select).await?;
    let mut hints = hints;
    if let Statement::Insert(insert) = statement {
        // Parameters in ON CONFLICT are planned with the rows that conflict: their types are those of what they are set to.
        upsert::hint_parameters(&query.view, insert, &mut hints)?;
    }
    let columns = match returning::items(statement) {
        Some(items) => {
            let (target, name) = written(&query.view, statement)?;
            Some(returning::columns(&query, &target, &name, items, &mut hints).await?)
        }
        None => None,
    };
    Ok((query.parameters(&select, &plan, &hints).await?, columns))
}

/// The table that a statement writes, and the name by which it calls it.
fn written(view: &View, statement: &Statement) -> Result<(Target, Ident)> {
    match statement {
        Statement::Insert(insert) => {
            let (target, _) = insert::resolve(view, insert)?;
            let name = insert::called(insert, &target);
            Ok((target, name))
        }
        Statement::Update(update) => update_delete::resolve(view, &update.table),
        Statement::Delete(delete) => update_delete::resolve(view, update_delete::deleted_table(delete)),
        _ => Err(not_a_write()),
    }
}

/// The plan of the SELECT beneath a write: for EXPLAIN.
///
/// # Errors
/// What is wrong with the statement.
pub async fn plan(
    session: &mut Session,
    statement: &Statement,
    parameters: &[ScalarValue],
) -> Result<(Query, LogicalPlan)> {
    let view = session.view().await?;
    if let Statement::Merge(merge) = statement {
        let query = Query::new(session, view)?.with_parameters(parameters);
        let select = merge::planned(&query, merge, &[]).await?.select;
        let plan = query.plan(&select).await?;
        return Ok((query, plan));
    }
    let statement = &*subqueries::without(statement);
    let select = match statement {
        Statement::Insert(insert) => insert::source(&view, insert, &[])?.0,
        Statement::Update(update) => update_delete::update_select(&view, update, &[])?.0,
        Statement::Delete(delete) => update_delete::delete_select(&view, delete)?,
        _ => return Err(not_a_write()),
    };
    let query = Query::new(session, view)?.with_parameters(parameters);
    let plan = query.plan(&select).await?;
    Ok((query, plan))
}

/// Runs a write.
///
/// # Errors
/// What is wrong with the statement or with its rows; 40001 when rows kept changing.
pub async fn execute(session: &mut Session, prepared: &Prepared, parameters: Vec<ScalarValue>) -> Result<Outcome> {
    let alone = !session.in_transaction();
    let attempts = if alone { ATTEMPTS_MAX } else { 1 };
    let holds = subqueries::are_in(&prepared.statement);
    let mut last = None;
    for _ in 0..attempts {
        let done = if alone && holds {
            Box::pin(holding(session, prepared, &parameters)).await
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

/// One attempt of a statement of its own that locks rows: a transaction.
async fn holding(session: &mut Session, prepared: &Prepared, parameters: &[ScalarValue]) -> Result<Outcome> {
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
async fn once(session: &mut Session, prepared: &Prepared, parameters: &[ScalarValue]) -> Result<Outcome> {
    let view = session.view().await?;
    if session.takes_fast_path()
        && let Some((changes, count)) = point::write(prepared, parameters, &view).await?
    {
        let (pin, word) = (view.pin.clone(), word(&prepared.statement)?);
        // The view goes first: it shares what the transaction has written so far.
        drop(view);
        session.write(&pin, changes).await?;
        return Ok(Outcome::Done(format!("{word} {count}")));
    }
    Box::pin(planned(session, view, &prepared.statement, parameters)).await
}

/// The word of a write's command tag.
fn word(statement: &Statement) -> Result<&'static str> {
    match statement {
        Statement::Insert(_) => Ok("INSERT 0"),
        Statement::Update(_) => Ok("UPDATE"),
        Statement::Delete(_) => Ok("DELETE"),
        Statement::Merge(_) => Ok("MERGE"),
        _ => Err(not_a_write()),
    }
}

/// One attempt with a plan of the optimizer's.
async fn planned(
    session: &mut Session,
    view: View,
    statement: &Statement,
    parameters: &[ScalarValue],
) -> Result<Outcome> {
    let pin = view.pin.clone();
    let autocommit = !session.in_transaction();
    let taken = match subqueries::are_in(statement) {
        true => Some(Box::pin(subqueries::take(session, &view, statement, parameters)).await?),
        false => None,
    };
    let statement = taken.as_ref().map_or(statement, |taken| &taken.statement);
    let query = Query::new(session, view)?.with_parameters(parameters);
    if let Some(taken) = &taken {
        taken.put(&query);
    }
    let mut returned = Returned::new(returning::items(statement));
    let (changes, count) = match statement {
        Statement::Insert(insert) => insert::run(&query, insert, parameters, &mut returned).await?,
        Statement::Update(update) => update_delete::update(&query, update, parameters, &mut returned).await?,
        Statement::Delete(delete) => {
            update_delete::delete(&query, delete, parameters, autocommit, &mut returned).await?
        }
        Statement::Merge(merge) => merge::run(&query, merge, parameters).await?,
        _ => return Err(not_a_write()),
    };
    let word = word(statement)?;
    let answer = if returned.wanted() {
        let (target, name) = written(&query.view, statement)?;
        returned.answer(&query, &target, &name, parameters).await?
    } else {
        None
    };
    // The view goes first: it shares what the transaction has written so far.
    drop(query);
    session.write(&pin, changes).await?;
    Ok(match answer {
        Some(answer) => Outcome::Rows { tag: word, rows: answer.into_stream() },
        None => Outcome::Done(format!("{word} {count}")),
    })
}

/// Plans a SELECT of ours with its parameters and runs it.
pub(crate) async fn rows(
    query: &Query,
    select: &ast::Statement,
    parameters: &[ScalarValue],
) -> Result<datafusion::execution::SendableRecordBatchStream> {
    let plan = query.plan(select).await?;
    let plan = if parameters.is_empty() { plan } else { plan.with_param_values(parameters.to_vec())? };
    query.run(plan).await
}

fn not_a_write() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a statement that writes was expected")
}
