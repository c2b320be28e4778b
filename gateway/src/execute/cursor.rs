//! `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.

use super::{Outcome, locking, plan_query};
use crate::{
    context::introspection::CursorInfo,
    pg::error::{Result, SqlError, SqlState},
    query::parameter_values::ParameterValues,
    session::Session,
    sql::ast::{SelectQuery, session::CursorStatement},
};
use futures::TryStreamExt;

/// Runs a statement about a cursor.
///
/// # Errors
/// What is wrong with the cursor or its query; 25P01 outside of transactions.
pub(super) async fn run(
    session: &mut Session,
    cursor: &CursorStatement,
    parameters: ParameterValues,
) -> Result<Outcome> {
    let tag = match cursor {
        CursorStatement::Declare(declare) => {
            session.cursors.check_free(&declare.name)?;
            if !session.in_transaction() && !declare.hold {
                let message = "DECLARE CURSOR can only be used in transaction blocks";
                return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            }
            let (rows, needs) = match &declare.query {
                SelectQuery::Locking(query) => locking::rows(session, query, parameters).await?,
                SelectQuery::Plain(query) => {
                    let (query, plan) = plan_query(session, query, &parameters).await?;
                    let rows = query.run(parameters.put(plan)?).await?;
                    (rows, query.statement_context().needs.clone())
                }
            };
            let depth = session.savepoint_depth();
            let at_micros = session.instance.clock.now_micros();
            let (scroll, hold) = (declare.scroll, declare.hold);
            let told = CursorInfo { name: declare.name.clone(), text: declare.text.clone(), at_micros, scroll, hold };
            session.cursors.declare(declare.name.clone(), (rows, needs), told, depth)?;
            if !session.in_transaction() {
                session.cursors.commit();
            }
            "DECLARE CURSOR".to_owned()
        }
        CursorStatement::Fetch(fetch) => {
            let needs = session.cursors.needs(&fetch.name)?;
            session.authorize(&needs)?;
            let rows = session.cursors.fetch(&fetch.name, fetch.direction).await?;
            return Ok(Outcome::Rows { tag: "FETCH", rows, needs });
        }
        CursorStatement::Move(fetch) => {
            session.authorize(session.cursors.needs(&fetch.name)?.as_ref())?;
            let mut rows = session.cursors.fetch(&fetch.name, fetch.direction).await?;
            let mut count = 0;
            while let Some(batch) = rows.try_next().await.map_err(SqlError::from)? {
                count += batch.num_rows();
            }
            format!("MOVE {count}")
        }
        CursorStatement::Close(name) => {
            session.cursors.close(name.as_deref())?;
            if name.is_none() { "CLOSE CURSOR ALL" } else { "CLOSE CURSOR" }.to_owned()
        }
    };
    Ok(Outcome::Done(tag))
}
