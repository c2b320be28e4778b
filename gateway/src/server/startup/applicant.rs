//! Who wants to log in, and the lines of the log about it. No line holds a password.

use crate::{
    audit::Event,
    instance::Instance,
    pg::error::{Result, SqlError, SqlState},
};
use std::net::SocketAddr;

/// Bytes of a name in the log: longer ones name nothing.
const LOGGED_NAME_BYTES_MAX: usize = 63;
/// Bytes of a reason in the log: names are part of it.
const LOGGED_REASON_BYTES_MAX: usize = 255;

/// Who wants to log in; nameless until the first packet has come.
pub(super) struct Applicant {
    pub(super) peer: SocketAddr,
    pub(super) role: String,
    pub(super) database: String,
}

impl Applicant {
    pub(super) fn new(peer: SocketAddr) -> Self {
        Self { peer, role: String::new(), database: String::new() }
    }

    /// Takes the names of a startup packet.
    ///
    /// # Errors
    /// 28000 if it names no role.
    pub(super) fn name(&mut self, parameters: &[(String, String)]) -> Result<()> {
        let named = |wanted: &str| parameters.iter().find(|(name, value)| name == wanted && !value.is_empty());
        let Some((_, role)) = named("user") else {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
        };
        role.clone_into(&mut self.role);
        named("database").map_or(role, |(_, database)| database).clone_into(&mut self.database);
        Ok(())
    }

    /// Logs the success.
    pub(super) fn logged_in(&self, instance: &Instance, process_id: i32) {
        let (peer, [role, database]) = (self.peer, self.logged_names());
        tracing::info!(%peer, role, database, "logged in");
        self.record(instance, Event::new("log_in").with("pid", process_id));
    }

    /// Writes an event to the audit log.
    fn record(&self, instance: &Instance, event: Event) {
        let event = event.text("role", &self.role).text("database", &self.database);
        instance.audit.record(instance.clock.now_micros(), event.text("peer", &self.peer.to_string()));
    }

    /// Logs what the client is told.
    pub(super) fn refused(&self, instance: &Instance, error: &SqlError) {
        instance.statistics.log_ins_refused.add(1);
        let (peer, [role, database]) = (self.peer, self.logged_names());
        let (state, reason) = (error.state.0, cut(&error.message, LOGGED_REASON_BYTES_MAX));
        tracing::warn!(%peer, role, database, state, reason, "log-in refused");
        self.record(instance, Event::new("log_in_refused").with("sqlstate", state).text("reason", reason));
    }

    /// Logs the end of the time to log in.
    pub(super) fn too_late(&self, instance: &Instance) {
        instance.statistics.log_ins_refused.add(1);
        let (peer, [role, database]) = (self.peer, self.logged_names());
        tracing::warn!(%peer, role, database, "log-in took too long: closed");
        self.record(instance, Event::new("log_in_refused").text("reason", "it took too long"));
    }

    fn logged_names(&self) -> [&str; 2] {
        [&self.role, &self.database].map(|name| cut(name, LOGGED_NAME_BYTES_MAX))
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
