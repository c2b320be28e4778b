//! The rows: processor metrics of hosts, as in the data set "cpu-only" of TSBS, which benchmarks of time series use.
//!
//! Each metric of each host is a random walk between 0 and 100, by one at a time; rows are a function of the seed. They
//! come in order of time.

use super::QueriesOptions;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::fmt::Write;

/// The columns besides the key.
pub(super) const METRICS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];
/// Seconds between two rows of a host.
pub(super) const EVERY_SECONDS: u64 = 10;
pub(super) const DAY_SECONDS: u64 = 86_400;
/// 2026-01-01 00:00 UTC.
const START_SECONDS: i64 = 1_767_225_600;
/// Rows of a piece of text, roughly.
const PIECE_BYTES: usize = 256 << 10;

/// The statement that makes the table, in Keyspan and in PostgreSQL.
pub(super) fn table() -> String {
    let metrics = METRICS.map(|metric| format!("{metric} double precision")).join(", ");
    format!("CREATE TABLE cpu (host text, ts timestamptz, {metrics}, PRIMARY KEY (host, ts))")
}

/// The number of rows.
pub(super) fn rows(options: &QueriesOptions) -> u64 {
    options.hosts * options.days * (DAY_SECONDS / EVERY_SECONDS)
}

/// The timestamp this many seconds after the first, as text.
pub(super) fn literal(seconds: u64) -> String {
    let moment = chrono::DateTime::from_timestamp(START_SECONDS + seconds.cast_signed(), 0).unwrap_or_default();
    moment.format("%Y-%m-%d %H:%M:%S+00").to_string()
}

/// All rows in the text format of COPY, in pieces.
pub(super) fn pieces(options: &QueriesOptions) -> impl Iterator<Item = String> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let hosts = options.hosts;
    let mut now: Vec<[i8; METRICS.len()]> =
        (0..hosts).map(|_| std::array::from_fn(|_| random.random_range(0..=100))).collect();
    let mut seconds = (0..options.days * DAY_SECONDS).step_by(usize::try_from(EVERY_SECONDS).unwrap_or(1));
    std::iter::from_fn(move || {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES
            && let Some(at) = seconds.next()
        {
            let at = literal(at);
            for (host, metrics) in now.iter_mut().enumerate() {
                // Writing to a String does not fail.
                let _ = write!(piece, "host_{host}\t{at}");
                for metric in metrics {
                    *metric = (*metric + random.random_range(-1..=1)).clamp(0, 100);
                    let _ = write!(piece, "\t{metric}");
                }
                piece.push('\n');
            }
        }
        (!piece.is_empty()).then_some(piece)
    })
}
