//! `LOCK … IN ACCESS SHARE MODE`: in PostgreSQL it keeps others from changing a relation's definition.
//!
//! A REPEATABLE READ transaction reads one snapshot and one pin, so it sees the relations as they are whatever others
//! do meanwhile, and there is nothing to lock. In READ COMMITTED the next statement would see a change, so LOCK is
//! refused there rather than promise what does not hold.

use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    rights,
    session::Session,
    sql::{ast::session::Isolation, maintenance::refuse_lock},
};

/// # Errors
/// 25P01 outside of a transaction block, 0A000 unless it is REPEATABLE READ, 42P01, 42501 without the right to read.
pub(super) async fn lock(session: &mut Session, relations: &[RelationName]) -> Result<()> {
    if !session.in_transaction() {
        let message = "LOCK TABLE can only be used in transaction blocks";
        return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
    }
    if session.isolation() != Isolation::RepeatableRead {
        return Err(refuse_lock().with_detail("In REPEATABLE READ a transaction reads one state: LOCK works there."));
    }
    let view = session.view().await?;
    let statement = session.statement_context(&view);
    for name in relations {
        let oid = view.find(name).ok_or_else(|| name.missing("relation"))?.1.oid();
        if let (Some(tenant), false) = (&statement.tenant, statement.may_read(oid)) {
            return Err(rights::denied(&statement.snapshot, tenant, oid));
        }
    }
    Ok(())
}
