//! What sessions do, for `pg_stat_activity`.
//!
//! Each session has a line here from its login to its end; the connection says when a statement comes and when it is answered. A text is kept up
//! to [`QUERY_BYTES_MAX`], and there are as many lines as sessions.

use super::{Session, TransactionStatus};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Bytes of a text that are kept: PostgreSQL's `track_activity_query_size`, without the byte at its end.
const QUERY_BYTES_MAX: usize = 1_023;

/// The sessions of a server.
#[derive(Debug, Default)]
pub struct Activities {
    lines: Mutex<BTreeMap<u64, Arc<Mutex<Activity>>>>,
    last: Mutex<u64>,
}

/// What a session does.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// The number of its connection.
    pub(crate) process_id: i32,
    /// Its role.
    pub(crate) role: String,
    /// The name of its database.
    pub(crate) database: String,
    /// The number of its tenant; `None` in the operator's database.
    pub(crate) tenant: Option<u32>,
    /// The setting.
    pub(crate) application_name: String,
    /// When it logged in, in microseconds.
    pub(crate) started_micros: i64,
    /// When its transaction began, if it is in one.
    pub(crate) transaction_micros: Option<i64>,
    /// When its last statement came.
    pub(crate) query_micros: Option<i64>,
    /// When it began to do what it does.
    pub(crate) changed_micros: i64,
    /// `active`, `idle`, …
    pub(crate) state: &'static str,
    /// The last statement.
    pub(crate) query: String,
    /// The text of the statement without a name.
    unnamed: String,
}

/// A session's line, for as long as it lives.
#[derive(Debug)]
pub(super) struct Listed {
    number: u64,
    line: Arc<Mutex<Activity>>,
    all: Arc<Activities>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that panics runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Activities {
    /// Adds a session.
    pub(super) fn list(self: &Arc<Self>, activity: Activity) -> Listed {
        let mut last = locked(&self.last);
        *last += 1;
        let (number, line) = (*last, Arc::new(Mutex::new(activity)));
        locked(&self.lines).insert(number, line.clone());
        Listed { number, line, all: self.clone() }
    }

    /// What all sessions do, the oldest first.
    pub(crate) fn all(&self) -> Vec<Activity> {
        let lines: Vec<_> = locked(&self.lines).values().cloned().collect();
        lines.iter().map(|line| locked(line).clone()).collect()
    }
}

impl Activity {
    /// Of a session that has just logged in.
    pub(super) fn new(identity: &super::Identity, process_id: i32, now_micros: i64) -> Self {
        Self {
            process_id,
            role: identity.role.clone(),
            database: identity.database.clone(),
            tenant: identity.rows.oid(),
            application_name: String::new(),
            started_micros: now_micros,
            transaction_micros: None,
            query_micros: None,
            changed_micros: now_micros,
            state: "idle",
            query: String::new(),
            unnamed: String::new(),
        }
    }

    fn begin(&mut self, now_micros: i64) {
        self.state = "active";
        self.query_micros = Some(now_micros);
        self.changed_micros = now_micros;
        self.transaction_micros.get_or_insert(now_micros);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&self.all.lines).remove(&self.number);
    }
}

/// The beginning of a text, up to a whole character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(QUERY_BYTES_MAX)]
}

fn put(into: &mut String, text: &str) {
    into.clear();
    into.push_str(cut(text));
}

impl Session {
    /// A text of statements has come, or one to be prepared without a name.
    pub(crate) fn received(&self, text: &str, unnamed: bool) {
        let now = self.shared.clock.now_micros();
        let mut activity = locked(&self.activity.line);
        put(&mut activity.query, text);
        if unnamed {
            put(&mut activity.unnamed, text);
        }
        activity.begin(now);
    }

    /// A statement that was prepared runs; its text, which is empty for the one without a name.
    pub(crate) fn received_again(&self, text: &str) {
        let now = self.shared.clock.now_micros();
        let mut activity = locked(&self.activity.line);
        let Activity { query, unnamed, .. } = &mut *activity;
        put(query, if text.is_empty() { unnamed } else { text });
        activity.begin(now);
    }

    /// All that came is answered.
    pub(crate) fn answered(&self) {
        let now = self.shared.clock.now_micros();
        let status = self.transaction_status();
        let mut activity = locked(&self.activity.line);
        activity.state = match status {
            TransactionStatus::Idle => "idle",
            TransactionStatus::Open => "idle in transaction",
            TransactionStatus::Failed => "idle in transaction (aborted)",
        };
        activity.changed_micros = now;
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
    use crate::session::testing::{World, run};

    #[tokio::test]
    async fn a_line_says_what_its_session_does() {
        let world = World::new().await;
        let mut session = world.tenant("alto");
        let line = || {
            let all = world.shared.activities.all();
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
        let began = world.shared.activities.all()[0].transaction_micros;
        session.received("SELECT 1", true);
        session.received("SELECT 2", false);
        session.received_again("");
        assert_eq!(line(), ["active SELECT 1 true"]);
        session.received_again("SELECT 3");
        run(&mut session, "SELECT 1 / 0").await;
        session.answered();
        assert_eq!(line(), ["idle in transaction (aborted) SELECT 3 true"]);
        let activity = world.shared.activities.all().remove(0);
        assert_eq!((activity.transaction_micros, activity.application_name.as_str()), (began, "me"));
        session.received(&format!("{}é", "x".repeat(QUERY_BYTES_MAX - 1)), false);
        assert_eq!(world.shared.activities.all()[0].query, "x".repeat(QUERY_BYTES_MAX - 1));
        drop(session);
        assert!(line().is_empty());
    }
}
