//! What a statement counts for once it has ended: the statistics of the server, of its database and of its text, the
//! slow statements that are shown, and their log.

use super::connection::Connection;
use crate::{
    session::Prepared,
    statistics::{
        Kind,
        slow::{SLOW_LEAST, Slow},
    },
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
        // The plan of the statement before, if that did not say it itself.
        self.session.take_outline();
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
            self.note_slow(prepared, took, rows);
        }
    }

    /// Keeps a statement that took long, and writes it to the log if that is asked for: without its constants, and with
    /// the outline of its plan.
    fn note_slow(&self, prepared: &Prepared, took: Duration, rows: u64) {
        let session = &self.session;
        let log_min = session.log_min_duration();
        if took < log_min.unwrap_or(SLOW_LEAST) {
            return;
        }
        let slow = Slow {
            ended_micros: self.hub.instance.clock.now_micros(),
            tenant: session.identity.rows.oid(),
            database: session.identity.database.clone(),
            role: session.identity.role.clone(),
            process_id: session.process_id,
            took,
            rows,
            text: prepared.normal().map_or_else(String::new, |normal| normal.text.clone()),
            plan: session.take_outline(),
        };
        if log_min.is_some() {
            tracing::info!(
                target: "keyspan::slow",
                user = slow.role,
                database = slow.database,
                pid = slow.process_id,
                duration_ms = took.as_secs_f64() * 1e3,
                rows,
                statement = slow.text,
                plan = slow.plan,
                "slow statement"
            );
        }
        self.hub.instance.statistics.slow.add(slow);
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
