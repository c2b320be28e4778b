//! `ALTER SYSTEM CONFIRM CLOCK`: an operator says that the wall clock is right, however far it is ahead of the store's
//! ([`HybridClock`](keyspan_storage::clock::HybridClock)).

use crate::{
    audit::Event,
    pg::error::{Result, SqlError, SqlState},
    session::Session,
};

/// # Errors
/// 42501 for a tenant's session; 0A000 for a store without a clock.
pub(crate) fn confirm_clock(session: &mut Session) -> Result<String> {
    if !session.identity.operator {
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for ALTER SYSTEM"));
    }
    let before = session.instance.catalog.store().clock();
    let info = session.instance.catalog.store().confirm_clock();
    session.audit(Event::new("definition").text("statement", "ALTER SYSTEM CONFIRM CLOCK"), None);
    if info.is_none() {
        return Err(SqlError::unsupported("ALTER SYSTEM CONFIRM CLOCK of this store"));
    }
    if before.is_some_and(|before| !before.is_held) {
        let message = "the clock was not held: there was nothing to confirm";
        session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    Ok("ALTER SYSTEM".into())
}
