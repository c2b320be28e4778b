//! The session's own line of [`Activities`](crate::activity::Activities): it changes as statements come and are
//! answered.

use super::Session;
use crate::{
    activity::{Activity, Controls, CopyProgress, locked, put},
    audit::Event,
    pg::error::SqlError,
    wire::transaction_status::TransactionStatus,
};
use std::sync::Arc;

impl Session {
    /// Others may stop the session by these from now on.
    pub(crate) fn controlled_by(&self, controls: Controls) {
        locked(&self.activity.line).controls = controls;
    }

    /// The number of sessions of its role that began before it.
    pub(crate) fn earlier_of_role(&self) -> usize {
        self.instance.activities.earlier_of_role(&self.activity, &self.identity.role)
    }

    /// Records what the session has done, or tried to do, in the audit log.
    pub(crate) fn audit(&self, event: Event, refused: Option<&SqlError>) {
        let event = event.by(&self.identity.role, &self.identity.database, self.process_id);
        let event = if self.in_transaction() { event.with("in_transaction", true) } else { event };
        let event = refused.map_or_else(|| event.clone(), |error| event.clone().with("sqlstate", error.state.0));
        self.instance.audit.record(self.instance.clock.now_micros(), event);
    }

    /// A text of statements has come, or one to be prepared without a name.
    pub(crate) fn received(&self, text: &str, unnamed: bool) {
        let now = self.instance.clock.now_micros();
        let mut activity = locked(&self.activity.line);
        put(&mut activity.query, text);
        if unnamed {
            put(&mut activity.unnamed, text);
        }
        activity.begin(now);
    }

    /// A statement that was prepared runs; its text, which is empty for the one without a name.
    pub(crate) fn received_again(&self, text: &str) {
        let now = self.instance.clock.now_micros();
        let mut activity = locked(&self.activity.line);
        let Activity { query, unnamed, .. } = &mut *activity;
        put(query, if text.is_empty() { unnamed } else { text });
        activity.begin(now);
    }

    /// A COPY begins; it is shown until all that came is answered.
    pub(crate) fn copying(&self, relation: u32, command: &'static str) -> Arc<CopyProgress> {
        let progress = Arc::new(CopyProgress::new(relation, command));
        locked(&self.activity.line).copy = Some(progress.clone());
        progress
    }

    /// All that came is answered.
    pub(crate) fn answered(&self) {
        let now = self.instance.clock.now_micros();
        let status = self.transaction_status();
        let mut activity = locked(&self.activity.line);
        activity.state = match status {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "idle in transaction",
            TransactionStatus::Failed => "idle in transaction (aborted)",
        };
        activity.changed_micros = now;
        activity.copy = None;
        if status == TransactionStatus::Idle {
            activity.transaction_micros = None;
        }
        let name = self.settings.get("application_name").unwrap_or_default();
        if activity.application_name != name {
            name.clone_into(&mut activity.application_name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::QUERY_BYTES_MAX;
    use crate::session::testing::{World, run};

    #[tokio::test]
    async fn a_line_says_what_its_session_does() {
        let world = World::new().await;
        let mut session = world.tenant("alto");
        let line = || {
            let all = world.instance.activities.all();
            let of = |line: &Activity| format!("{} {} {}", line.state, line.query, line.transaction_micros.is_some());
            all.iter().map(of).collect::<Vec<_>>()
        };
        session.answered();
        assert_eq!(line(), ["idle  false"]);
        session.received("BEGIN", false);
        assert_eq!(line(), ["active BEGIN true"]);
        run(&mut session, "BEGIN; SET application_name = 'me'").await;
        session.answered();
        assert_eq!(line(), ["idle in transaction BEGIN true"]);
        let began = world.instance.activities.all()[0].transaction_micros;
        session.received("SELECT 1", true);
        session.received("SELECT 2", false);
        session.received_again("");
        assert_eq!(line(), ["active SELECT 1 true"]);
        session.received_again("SELECT 3");
        run(&mut session, "SELECT 1 / 0").await;
        session.answered();
        assert_eq!(line(), ["idle in transaction (aborted) SELECT 3 true"]);
        let activity = world.instance.activities.all().remove(0);
        assert_eq!((activity.transaction_micros, activity.application_name.as_str()), (began, "me"));
        session.received(&format!("{}é", "x".repeat(QUERY_BYTES_MAX - 1)), false);
        assert_eq!(world.instance.activities.all()[0].query, "x".repeat(QUERY_BYTES_MAX - 1));
        drop(session);
        assert!(line().is_empty());
    }
}
