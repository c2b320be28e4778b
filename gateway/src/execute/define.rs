//! Statements that define: those that are a change of the catalog alone, and those that fill what they make. What is
//! filled is told to the audit log here, the others by `ddl`.

use super::{Outcome, create_table_as::create_table_as, materialized_view};
use crate::{
    audit::Event,
    ddl,
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    query::parameter_values::ParameterValues,
    session::Session,
    sql::ast::{
        definition::{CreateTableAs, Definition},
        view::{CreateMaterialized, RefreshMaterialized},
    },
};

/// Makes a change of the catalog.
///
/// # Errors
/// 25001, 25006; the definition's.
pub(super) async fn define(session: &mut Session, definition: &Definition) -> Result<Outcome> {
    if session.in_transaction() && ddl::stands_alone(session, definition) {
        let message = format!("{} cannot run inside a transaction block", ddl::tag(definition));
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message)
            .with_hint("Only what a tenant defines in its own database can be part of a transaction."));
    }
    check_definable(session, ddl::tag(definition))?;
    ddl::execute(session, definition).await?;
    Ok(Outcome::Done(ddl::tag(definition).into()))
}

/// Whether the transaction lets anything be defined.
fn check_definable(session: &Session, tag: &str) -> Result<()> {
    if session.is_read_only() {
        let message = format!("cannot execute {tag} in a read-only transaction");
        return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
    }
    Ok(())
}

/// `CREATE TABLE … AS`
///
/// # Errors
/// 25006; what is wrong with the query or its rows.
pub(super) async fn table_as(
    session: &mut Session,
    create: &CreateTableAs,
    parameters: ParameterValues,
) -> Result<Outcome> {
    const STATEMENT: &str = "CREATE TABLE AS";
    check_definable(session, STATEMENT)?;
    let made = create_table_as(session, create, parameters).await;
    told(session, (STATEMENT, &create.name), made)
}

/// `CREATE MATERIALIZED VIEW`
///
/// # Errors
/// 25006; what is wrong with the query or its rows.
pub(super) async fn materialized(session: &mut Session, create: &CreateMaterialized) -> Result<Outcome> {
    const STATEMENT: &str = "CREATE MATERIALIZED VIEW";
    check_definable(session, STATEMENT)?;
    let made = materialized_view::create(session, create).await;
    told(session, (STATEMENT, &create.view.name), made)
}

/// `REFRESH MATERIALIZED VIEW`
///
/// # Errors
/// 25006; what is wrong with the view, its query or its rows.
pub(super) async fn refreshed(session: &mut Session, refresh: &RefreshMaterialized) -> Result<Outcome> {
    const STATEMENT: &str = "REFRESH MATERIALIZED VIEW";
    check_definable(session, STATEMENT)?;
    let made = materialized_view::refresh(session, refresh).await.map(|()| STATEMENT.to_owned());
    told(session, (STATEMENT, &refresh.name), made)
}

/// Tells the audit log of a statement and the object that it fills; gives its outcome, of the command tag.
fn told(session: &Session, (statement, object): (&str, &RelationName), made: Result<String>) -> Result<Outcome> {
    let event = Event::new("definition").text("statement", statement);
    session.audit(event.names("objects", [object.to_string()]), made.as_ref().err());
    made.map(Outcome::Done)
}
