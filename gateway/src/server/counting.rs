//! What a statement counts for once it has ended: the statistics of the server, of its database and of its text, the
//! slow statements that are shown, their log, and traces.

use super::connection::Connection;
use crate::{
    pg::error::SqlState,
    query::{explain::outline, whole_scans::whole_scans},
    session::Prepared,
    sql::normal,
    statistics::{
        Kind,
        slow::{SLOW_LEAST, Slow},
    },
    traces::Span,
    wire::transaction_status::TransactionStatus::{self, Idle},
};
use datafusion::physical_plan::ExecutionPlan;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A statement that runs.
pub(super) struct Begun {
    at: Instant,
    kind: Kind,
    status: TransactionStatus,
}

/// How a statement has ended.
pub(super) enum End<'a> {
    /// With its command tag, if it has one.
    Done(&'a Prepared, &'a str),
    /// With an error; `None` if the connection was lost. What ran, if that is known.
    Failed(Option<&'a Prepared>, Option<SqlState>),
}

/// What is told of a statement that has ended.
#[derive(Clone)]
struct Ended {
    at_micros: i64,
    took: Duration,
    rows: u64,
    error: Option<&'static str>,
    /// Without constants; empty if it is not known.
    text: String,
}

impl Ended {
    fn new(at_micros: i64, took: Duration, end: &End<'_>, (text, nth): (&str, usize)) -> Self {
        let (prepared, rows, error) = match *end {
            End::Done(prepared, tag) => (Some(prepared), rows_of(tag), None),
            End::Failed(prepared, state) => (prepared, 0, Some(state.unwrap_or(SqlState::CONNECTION_FAILURE).0)),
        };
        let known = prepared.and_then(Prepared::normal).map(|normal| normal.text.clone());
        let text = known.or_else(|| Some(normal::statement(text, nth)?.text)).unwrap_or_default();
        Self { at_micros, took, rows, error, text }
    }
}

impl Connection {
    /// Begins to count a statement.
    pub(super) fn begun(&self, kind: Kind) -> Begun {
        Begun { at: Instant::now(), kind, status: self.session.transaction_status() }
    }

    /// Counts a statement that has ended. `text` is the text that it stands in, and the how many of it it is.
    pub(super) fn ended(&self, begun: &Begun, end: &End<'_>, text: (&str, usize)) {
        let took = begun.at.elapsed();
        let (session, instance) = (&self.session, &self.hub.instance);
        let plan = session.take_plan();
        let is_done = matches!(end, End::Done(..));
        instance.statistics.ended(begun.kind, took, !is_done);
        let work = &session.share().work;
        work.active_micros.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if session.transaction_status() == Idle {
            match end {
                // BEGIN and what follows it are counted by what ends them.
                End::Done(_, tag) if begun.status == Idle || *tag == "COMMIT" => work.commits.add(1),
                _ => work.rollbacks.add(1),
            }
        }
        if let End::Done(prepared, tag) = end
            && let Some(entry) = session.entry_of(prepared, text)
        {
            instance.statistics.texts.executed(&entry, took, rows_of(tag));
        }
        for (table, scan) in plan.iter().flat_map(whole_scans) {
            work.table(table).access.scanned_whole(&scan);
        }
        let log_min = session.log_min_duration();
        let is_slow = took >= log_min.unwrap_or(SLOW_LEAST);
        if is_slow || instance.traces.are_on() {
            let ended = Ended::new(instance.clock.now_micros(), took, end, text);
            if instance.traces.are_on() {
                instance.traces.record(self.span(begun.kind, &ended));
            }
            if is_slow {
                self.note_slow(ended, plan.as_ref(), log_min.is_some());
            }
        }
    }

    fn span(&self, kind: Kind, ended: &Ended) -> Span {
        let (session, ended) = (&self.session, ended.clone());
        Span {
            ended_micros: ended.at_micros,
            took: ended.took,
            database: session.identity.database.clone(),
            role: session.identity.role.clone(),
            process_id: session.process_id,
            operation: kind.name(),
            text: ended.text,
            rows: ended.rows,
            error: ended.error,
        }
    }

    /// Keeps a statement that took long, and writes it to the log if that is asked for: without its constants, and with
    /// the outline of its plan.
    fn note_slow(&self, ended: Ended, plan: Option<&Arc<dyn ExecutionPlan>>, logged: bool) {
        let session = &self.session;
        let slow = Slow {
            ended_micros: ended.at_micros,
            tenant: session.identity.rows.oid(),
            database: session.identity.database.clone(),
            role: session.identity.role.clone(),
            process_id: session.process_id,
            took: ended.took,
            rows: ended.rows,
            error: ended.error,
            text: ended.text,
            plan: plan.map(outline).unwrap_or_default(),
        };
        if logged {
            tracing::info!(
                target: "keyspan::slow",
                user = slow.role,
                database = slow.database,
                pid = slow.process_id,
                duration_ms = slow.took.as_secs_f64() * 1e3,
                rows = slow.rows,
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
