//! OpenTelemetry traces, if the operator asks for them: a span for each statement, sent to a collector by OTLP over
//! HTTP.
//!
//! ```text
//! a statement ends ──► Traces::record ──► bounded queue ──► export: batches in protobuf ──► POST URL/v1/traces
//!                        full: counted, dropped              fails: counted, dropped, and a pause that doubles
//! ```
//!
//! No span has a value of a row: of a statement's text it has what `pg_stat_statements` shows. Statements never wait
//! for the collector.

mod export;
mod message;

pub(crate) use export::run;
pub use export::{BadUrl, Collector};

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// Spans that may wait for the collector; further ones are dropped. A span is some 500 bytes.
const QUEUE_MAX: usize = 8_192;

/// A statement that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    /// When it ended, in microseconds since 1970.
    pub(crate) ended_micros: i64,
    pub(crate) took: Duration,
    /// The tenant, or the operator's database.
    pub(crate) database: String,
    pub(crate) role: String,
    pub(crate) process_id: i32,
    /// The kind of the statement, as metrics name it.
    pub(crate) operation: &'static str,
    /// Without constants; empty if it is not known.
    pub(crate) text: String,
    /// Rows of its command tag.
    pub(crate) rows: u64,
    /// The SQLSTATE of its error.
    pub(crate) error: Option<&'static str>,
}

/// Where spans go.
#[derive(Debug, Default)]
pub struct Traces {
    queue: OnceLock<mpsc::Sender<Span>>,
    /// Spans that the collector has taken.
    sent: AtomicU64,
    /// Spans that found no place in the queue, or that the collector did not take.
    dropped: AtomicU64,
}

impl Traces {
    /// Whether spans are wanted.
    pub(crate) fn are_on(&self) -> bool {
        self.queue.get().is_some()
    }

    /// Takes spans from now on; what it returns gives them to the exporter. `None` if it does already.
    fn begin(&self) -> Option<mpsc::Receiver<Span>> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        self.queue.set(sender).ok().map(|()| receiver)
    }

    /// Queues a span, or drops it.
    pub(crate) fn record(&self, span: Span) {
        let Some(queue) = self.queue.get() else { return };
        if queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Spans that the collector has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Spans that found no place in the queue, or that the collector did not take.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
