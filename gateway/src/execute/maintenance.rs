//! Statements about the upkeep of a database: most have nothing to do here.

use super::Outcome;
use crate::{
    ddl,
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    session::{Found, Session},
    sql::ast::Maintenance,
};

/// Statements of upkeep that have nothing to do here, but for what they name.
pub(super) fn maintain(session: &mut Session, upkeep: &Maintenance) -> Result<Outcome> {
    let (tag, why, tables) = match upkeep {
        Maintenance::Vacuum(_) if session.in_transaction() => {
            let message = "VACUUM cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        Maintenance::Vacuum(tables) => ("VACUUM", "the store compacts by itself", tables),
        Maintenance::Analyze(tables) => {
            ("ANALYZE", "statistics are read from the store when a query is planned", tables)
        }
        Maintenance::ConfirmClock => return ddl::confirm_clock(session).map(Outcome::Done),
        Maintenance::Schema(name) => {
            let message = format!("schema \"{name}\" already exists, skipping");
            session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
            return Ok(Outcome::Done("CREATE SCHEMA".into()));
        }
    };
    let is_table = |name: &RelationName| match session.find(name) {
        Some((_, Found::View(view))) => view.materialized.is_some(),
        found => found.is_some(),
    };
    if let Some(name) = tables.iter().find(|name| !is_table(name)) {
        return Err(name.missing("relation"));
    }
    session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("{tag} has nothing to do: {why}")));
    Ok(Outcome::Done(tag.into()))
}
