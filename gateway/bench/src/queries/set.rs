//! The queries: those of TSBS over hosts, with its names (`single-groupby`: metrics, hosts, hours), and some over
//! ranges of keys.
//!
//! All systems get the same text. Numeric columns are named `v1`, `v2`, …; answers are compared by their sums.

use super::{
    QueriesOptions,
    data::{DAY_SECONDS, METRICS, literal},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::index};

const HOUR: u64 = 3_600;

/// A query of the set.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// The number of its numeric columns.
    pub(super) values: usize,
    /// Whether it reads one range of keys of some hosts.
    pub(super) is_key_range: bool,
}

impl Query {
    /// A query for one row of checksums over all rows: their number, and the sum of each numeric column.
    pub(super) fn check(&self) -> String {
        let sums = (1..=self.values).map(|value| format!("sum(v{value})")).collect::<Vec<_>>().join(", ");
        format!("SELECT count(*), {sums} FROM ({}) AS q", self.sql)
    }
}

/// The set of queries; the seed determines their hosts and times.
pub(super) fn queries(options: &QueriesOptions) -> Vec<Query> {
    let mut random = StdRng::seed_from_u64(options.seed);
    let total = options.days * DAY_SECONDS;
    let mut window = |hours: u64| {
        let from = random.random_range(0..=(total - hours * HOUR) / HOUR) * HOUR;
        format!("ts >= '{}' AND ts < '{}'", literal(from), literal(from + hours * HOUR))
    };
    let windows = [1, 1, 12, 12, 1, 1, 12, 12, 8, 8, 12, 12, 12].map(&mut window);
    let [w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13] = windows;
    let mut hosts = |count: usize| {
        let hosts = usize::try_from(options.hosts).unwrap_or(usize::MAX);
        let some = index::sample(&mut random, hosts, count.min(hosts));
        format!("host IN ({})", some.iter().map(|host| format!("'host_{host}'")).collect::<Vec<_>>().join(", "))
    };
    let query = |name, sql, values, is_key_range| Query { name, sql, values, is_key_range };
    vec![
        query("single-groupby-1-1-1", single(&hosts(1), &w1, 1), 1, true),
        query("single-groupby-5-8-1", single(&hosts(8), &w2, 5), 5, true),
        query("single-groupby-1-1-12", single(&hosts(1), &w3, 1), 1, true),
        query("single-groupby-5-1-12", single(&hosts(1), &w4, 5), 5, true),
        query("single-groupby-1-8-1", single(&hosts(8), &w5, 1), 1, true),
        query("single-groupby-5-1-1", single(&hosts(1), &w6, 5), 5, true),
        query("double-groupby-1", double(&w7, 1), 1, false),
        query("double-groupby-5", double(&w8, 5), 5, false),
        query("double-groupby-all", double(&w11, METRICS.len()), METRICS.len(), false),
        query("cpu-max-all-1", max_all(&hosts(1), &w9), METRICS.len(), true),
        query("cpu-max-all-8", max_all(&hosts(8), &w10), METRICS.len(), true),
        query("high-cpu-1", high_cpu(&format!("{} AND {w12}", hosts(1))), METRICS.len(), true),
        query("high-cpu-all", high_cpu(&w13), METRICS.len(), false),
        query(
            "groupby-orderby-limit",
            format!(
                "SELECT date_trunc('minute', ts) AS bucket, max(usage_user) AS v1 FROM cpu WHERE ts < '{}' \
                 GROUP BY 1 ORDER BY 1 DESC LIMIT 5",
                literal(total / 2)
            ),
            1,
            false,
        ),
        query(
            "lastpoint",
            "SELECT c.host, c.ts, c.usage_user AS v1 FROM cpu AS c JOIN \
             (SELECT host, max(ts) AS last FROM cpu GROUP BY host) AS l ON c.host = l.host AND c.ts = l.last"
                .to_owned(),
            1,
            false,
        ),
        query(
            "top-hosts",
            "SELECT host, avg(usage_user) AS v1 FROM cpu GROUP BY host ORDER BY v1 DESC, host LIMIT 10".to_owned(),
            1,
            false,
        ),
        query(
            "ordered-limit-of-host",
            format!("SELECT ts, usage_user AS v1 FROM cpu WHERE {} ORDER BY ts DESC LIMIT 100", hosts(1)),
            1,
            true,
        ),
        query(
            "count-of-hosts",
            "SELECT count(*) AS v1 FROM cpu WHERE host >= 'host_2' AND host < 'host_4'".to_owned(),
            1,
            true,
        ),
    ]
}

/// The first `count` metrics, aggregated, as `v1`, `v2`, ….
fn aggregates(function: &str, count: usize) -> String {
    let columns = METRICS[..count].iter().zip(1..).map(|(metric, at)| format!("{function}({metric}) AS v{at}"));
    columns.collect::<Vec<_>>().join(", ")
}

fn single(hosts: &str, window: &str, metrics: usize) -> String {
    let values = aggregates("max", metrics);
    format!("SELECT date_trunc('minute', ts) AS bucket, {values} FROM cpu WHERE {hosts} AND {window} GROUP BY 1")
}

fn double(window: &str, metrics: usize) -> String {
    let values = aggregates("avg", metrics);
    format!("SELECT host, date_trunc('hour', ts) AS bucket, {values} FROM cpu WHERE {window} GROUP BY 1, 2")
}

fn max_all(hosts: &str, window: &str) -> String {
    let values = aggregates("max", METRICS.len());
    format!("SELECT date_trunc('hour', ts) AS bucket, {values} FROM cpu WHERE {hosts} AND {window} GROUP BY 1")
}

fn high_cpu(condition: &str) -> String {
    let all: Vec<_> = METRICS.iter().zip(1..).map(|(metric, at)| format!("{metric} AS v{at}")).collect();
    format!("SELECT host, ts, {} FROM cpu WHERE {condition} AND usage_user > 90", all.join(", "))
}
