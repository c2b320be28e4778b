//! What a statement counts for once it has ended: the statistics of the server, of its database and of its text, and
//! the log of slow statements.

use super::connection::Connection;
use crate::{
    session::Prepared,
    statistics::Kind,
    wire::transaction_status::TransactionStatus::{self, Idle},
};
use std::time::{Duration, Instant};

/// A statement that runs.
pub(super) struct Begun {
    at: Instant,
    kind: Kind,
    status: TransactionStatus,
}

impl Connection {
    /// Begins to count a statement.
    pub(super) fn begun(&self, kind: Kind) -> Begun {
        Begun { at: Instant::now(), kind, status: self.session.transaction_status() }
    }

    /// Counts a statement that has ended, with its command tag, if it has one and did not fail. `text` is the text that
    /// it stands in, and the how many of it it is.
    pub(super) fn ended(&self, begun: &Begun, done: Option<(&Prepared, &str)>, text: (&str, usize)) {
        let took = begun.at.elapsed();
        let (session, instance) = (&self.session, &self.hub.instance);
        instance.statistics.ended(begun.kind, took, done.is_none());
        let work = &session.share().work;
        work.active_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if session.transaction_status() == Idle {
            match done {
                // BEGIN and what follows it are counted by what ends them.
                Some((_, tag)) if begun.status == Idle || tag == "COMMIT" => work.commits.add(1),
                _ => work.rollbacks.add(1),
            }
        }
        if let Some((prepared, tag)) = done {
            let rows = rows_of(tag);
            if let Some(entry) = session.entry_of(prepared, text) {
                instance.statistics.texts.executed(&entry, took, rows);
            }
            self.log_slow(prepared, took, rows);
        }
    }

    /// Writes a statement that took long to the log: without its constants, and with the outline of its plan.
    fn log_slow(&self, prepared: &Prepared, took: Duration, rows: u64) {
        let session = &self.session;
        if session.log_min_duration().is_none_or(|least| took < least) {
            return;
        }
        let text = prepared.normal();
        let plan = session.take_outline();
        tracing::info!(
            target: "keyspan::slow",
            user = session.identity.role,
            database = session.identity.database,
            pid = session.process_id,
            duration_ms = took.as_secs_f64() * 1e3,
            rows,
            statement = text.map_or("", |text| text.text.as_str()),
            plan,
            "slow statement"
        );
    }

    /// Counts several statements that were one transaction without BEGIN.
    pub(super) fn together(&self, committed: bool) {
        let work = &self.session.share().work;
        if committed { &work.commits } else { &work.rollbacks }.add(1);
    }
}

/// The rows of a command tag: `INSERT 0 5`, `SELECT 5`.
fn rows_of(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}
