//! Writes: planned as a SELECT of keys and new values under the predicate, then mutations by row.
//!
//! A statement's life: `target` resolves the table; a tree of our own asks for keys and values (`tree`); rows stream out
//! of the [`Query`]; each becomes mutations in a [`Written`](crate::session::Written). A row whose reading mattered is relied on, and the commit is refused
//! when it changed since the pin. A statement of its own is then run again from the start, [`ATTEMPTS_MAX`] times at most; in
//! a transaction it fails. DataFusion's own hooks for writes are never used: they lose predicates.

mod assign;
mod change;
mod insert;
mod load;
mod range;
mod target;
#[cfg(test)]
mod tests;
mod tree;
mod upsert;

pub use load::{Failed, Load};

use crate::{
    error::{Result, SqlError, SqlState},
    query::Query,
    session::Session,
    statement::Statement,
};
use arrow::datatypes::DataType;
use datafusion::{logical_expr::LogicalPlan, scalar::ScalarValue, sql::sqlparser::ast};

/// How often a statement of its own is run when others keep changing its rows. Each refusal means that another commit
/// went through, so that this bounds patience, not progress.
const ATTEMPTS_MAX: usize = 64;

/// The types of a write's parameters.
///
/// # Errors
/// What is wrong with the statement.
pub async fn parameters(
    session: &mut Session,
    statement: &Statement,
    hints: &[Option<DataType>],
) -> Result<Vec<DataType>> {
    let view = session.view().await?;
    let (select, hints) = match statement {
        Statement::Insert(insert) => insert::source(&view, insert, hints)?,
        Statement::Update(update) => change::update_select(&view, update, hints)?,
        Statement::Delete(delete) => (change::delete_select(&view, delete)?, hints.to_vec()),
        _ => return Err(not_a_write()),
    };
    let query = Query::new(session, view)?;
    let plan = query.plan(&select).await?;
    let mut hints = hints;
    if let Statement::Insert(insert) = statement {
        // Parameters in ON CONFLICT are planned with the rows that conflict: their types are those of what they are set to.
        upsert::hint_parameters(&query.view, insert, &mut hints)?;
    }
    query.parameters(&select, &plan, &hints).await
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
    let select = match statement {
        Statement::Insert(insert) => insert::source(&view, insert, &[])?.0,
        Statement::Update(update) => change::update_select(&view, update, &[])?.0,
        Statement::Delete(delete) => change::delete_select(&view, delete)?,
        _ => return Err(not_a_write()),
    };
    let query = Query::new(session, view)?.with_parameters(parameters);
    let plan = query.plan(&select).await?;
    Ok((query, plan))
}

/// Runs a write and gives its command tag.
///
/// # Errors
/// What is wrong with the statement or with its rows; 40001 when rows kept changing.
pub async fn execute(session: &mut Session, statement: &Statement, parameters: Vec<ScalarValue>) -> Result<String> {
    let attempts = if session.in_transaction() { 1 } else { ATTEMPTS_MAX };
    let mut last = None;
    for _ in 0..attempts {
        match Box::pin(once(session, statement, &parameters)).await {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => last = Some(error),
            other => return other,
        }
        tokio::task::yield_now().await;
    }
    Err(last.unwrap_or_else(not_a_write))
}

/// One attempt: read at one pin, then write.
async fn once(session: &mut Session, statement: &Statement, parameters: &[ScalarValue]) -> Result<String> {
    let view = session.view().await?;
    let pin = view.pin.clone();
    let autocommit = !session.in_transaction();
    let (written, tag) = match statement {
        Statement::Insert(insert) => {
            let (written, count) = insert::run(session, view, insert, parameters).await?;
            (written, format!("INSERT 0 {count}"))
        }
        Statement::Update(update) => {
            let (written, count) = change::update(session, view, update, parameters).await?;
            (written, format!("UPDATE {count}"))
        }
        Statement::Delete(delete) => {
            let (written, count) = change::delete(session, view, delete, parameters, autocommit).await?;
            (written, format!("DELETE {count}"))
        }
        _ => return Err(not_a_write()),
    };
    session.write(&pin, written).await?;
    Ok(tag)
}

/// Plans a SELECT of ours with its parameters and runs it.
async fn rows(
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
