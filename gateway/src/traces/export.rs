//! Sends spans to the collector.
//!
//! Spans are gathered for a second, or until there are [`BATCH_MAX`], and sent in one request. What fails is dropped,
//! not tried again, so that a collector that is down costs a request now and then, and no memory; the pause after it
//! doubles up to [`PAUSE_MAX`]. An outage is told in the log once, and its end too.

use super::{Span, Traces, message};
use prost::Message;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// Spans of a request.
const BATCH_MAX: usize = 512;
/// How long spans are gathered for a request.
const GATHER: Duration = Duration::from_secs(1);
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a request that failed: the first, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long the last spans may take when the server stops.
const LAST: Duration = Duration::from_secs(2);
/// Where collectors take traces, below their URL.
const PATH: &str = "v1/traces";

/// A URL that is of no collector.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUrl(String);

/// A collector that takes OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct Collector {
    client: reqwest::Client,
    url: reqwest::Url,
}

impl Collector {
    /// The collector at a URL, `http://127.0.0.1:4318` for example. A URL without a path means `/v1/traces`, as in
    /// OpenTelemetry's `OTEL_EXPORTER_OTLP_ENDPOINT`; one with a path is taken as it is.
    ///
    /// # Errors
    /// No URL, or one of another kind.
    pub fn at(url: &str) -> Result<Self, BadUrl> {
        let refused = |error: &dyn std::fmt::Display| BadUrl(format!("{url} is not the URL of a collector: {error}"));
        let mut parsed = reqwest::Url::parse(url).map_err(|error| refused(&error))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(refused(&"it has to begin with http:// or https://"));
        }
        if matches!(parsed.path(), "" | "/") {
            parsed.set_path(PATH);
        }
        let client = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("keyspan/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { client: client.map_err(|error| refused(&error))?, url: parsed })
    }

    async fn send(&self, spans: Vec<Span>) -> Result<(), String> {
        let body = message::request(spans).encode_to_vec();
        let request = self.client.post(self.url.clone()).header("Content-Type", "application/x-protobuf").body(body);
        let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("the answer is {}", answer.status())) }
    }
}

/// Sends spans until `stop`, and then those that are left.
pub(crate) async fn run(traces: Arc<Traces>, collector: Collector, stop: CancellationToken) {
    let Some(mut queue) = traces.begin() else { return };
    let mut pause = None;
    loop {
        let mut spans = Vec::new();
        let stops = stop.run_until_cancelled(gather(&mut queue, &mut spans)).await.is_none();
        if stops {
            while spans.len() < BATCH_MAX
                && let Ok(span) = queue.try_recv()
            {
                spans.push(span);
            }
        }
        let count = spans.len() as u64;
        let sent = match (count, stops) {
            (0, _) => Ok(()),
            (_, true) => {
                tokio::time::timeout(LAST, collector.send(spans)).await.unwrap_or_else(|late| Err(late.to_string()))
            }
            (_, false) => collector.send(spans).await,
        };
        pause = told(&traces, count, pause, sent);
        if stops {
            return;
        }
        if let Some(pause) = pause {
            // What comes meanwhile waits in the queue as far as there is room.
            stop.run_until_cancelled(tokio::time::sleep(pause)).await;
        }
    }
}

/// Counts what was sent, and logs the begin and the end of an outage; the pause that is due.
fn told(traces: &Traces, count: u64, before: Option<Duration>, sent: Result<(), String>) -> Option<Duration> {
    match sent {
        Ok(()) => {
            traces.sent.fetch_add(count, Ordering::Relaxed);
            if before.is_some() && count > 0 {
                tracing::info!("the collector takes traces again");
            }
            before.filter(|_| count == 0)
        }
        Err(error) => {
            traces.dropped.fetch_add(count, Ordering::Relaxed);
            if before.is_none() {
                tracing::warn!(error, "the collector takes no traces: they are dropped until it does");
            }
            Some(before.map_or(PAUSE, |before| (before * 2).min(PAUSE_MAX)))
        }
    }
}

/// Gathers the spans of a second from the first one on, at most [`BATCH_MAX`].
async fn gather(queue: &mut mpsc::Receiver<Span>, spans: &mut Vec<Span>) {
    let Some(first) = queue.recv().await else { return std::future::pending().await };
    spans.push(first);
    let until = Instant::now() + GATHER;
    while spans.len() < BATCH_MAX {
        match tokio::time::timeout_at(until, queue.recv()).await {
            Ok(Some(span)) => spans.push(span),
            Ok(None) | Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_collectors() {
        let url =
            |text| Collector::at(text).map(|collector| collector.url.to_string()).map_err(|error| error.to_string());
        assert_eq!(url("http://127.0.0.1:4318").as_deref(), Ok("http://127.0.0.1:4318/v1/traces"));
        assert_eq!(url("https://collector/").as_deref(), Ok("https://collector/v1/traces"));
        assert_eq!(url("http://collector/otlp/v1/traces").as_deref(), Ok("http://collector/otlp/v1/traces"));
        for bad in ["collector:4318", "grpc://collector", "", "/v1/traces"] {
            assert!(url(bad).is_err_and(|error| error.contains("is not the URL of a collector")), "{bad}");
        }
    }

    #[test]
    fn a_pause_doubles_until_something_was_sent() {
        let traces = Traces::default();
        let failed = || Err("refused".to_owned());
        let mut pause = told(&traces, 3, None, failed());
        assert_eq!(pause, Some(PAUSE));
        for _ in 0..10 {
            pause = told(&traces, 3, pause, failed());
        }
        assert_eq!((pause, traces.dropped(), traces.sent()), (Some(PAUSE_MAX), 33, 0));
        assert_eq!(told(&traces, 0, pause, Ok(())), Some(PAUSE_MAX));
        assert_eq!(told(&traces, 5, pause, Ok(())), None);
        assert_eq!(traces.sent(), 5);
    }
}
