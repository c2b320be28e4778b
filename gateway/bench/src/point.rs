//! `keyspan bench point`: short prepared statements through the wire, beside PostgreSQL on the same rows.
//!
//! A server of this program and one of PostgreSQL ([`postgres`](super::postgres)), if it is installed, get the same
//! table and the same rows; then clients run each kind of statement ([`work`]) on one and on several connections, on
//! one server after the other.

mod work;

use super::{
    measure::percentile,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::ServerBenchOptions,
    ycsb::ONE_VERSION,
};
use anyhow::Result;
use clap::Args;
use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use serde::Serialize;
use std::{fmt, path::Path, time::Duration};
use tokio_postgres::Config;
use work::{Done, ORDERS, READINGS, TABLE, Work};

/// After the help of `keyspan bench point`.
pub(super) const POINT_HELP: &str = "\
A server is started on a store in a temporary folder, and PostgreSQL beside it where it is installed (initdb and postgres in
/usr/lib/postgresql/15/bin or in PATH; as the user postgres or nobody when this is run by root). Both get the same table of readings (key:
device and time; 100 readings a device). Clients of this process then run prepared statements, each connection one after the other: reads
of a row, of a device's last row, of 20 rows in order, updates, upserts (of one row and of 100), inserts and deletes by key, and what
applications send: inserts with numbers of a sequence, defaults and RETURNING, upserts and updates that add to what is there, on one
connection and on several. Answers are checked. PostgreSQL's settings are printed; it syncs each commit, as Keyspan does.

A target stands beside each ratio that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer is
wrong or something fails.

Examples:
  keyspan bench point
  keyspan bench point --rows 1000000 --seconds 10 --connections 32
  keyspan bench point --only upsert,upsert-batch --seconds 2
  keyspan bench point --without-postgres --json > run.json";

/// Targets for the latency of a prepared point query on several connections: seconds at p50 and p99.
const FIRST_ROW: (f64, f64) = (1e-3, 5e-3);

/// What `keyspan bench point` takes.
#[derive(Clone, Debug, Args)]
pub struct PointOptions {
    /// Rows of the table, rounded up to whole devices.
    #[arg(long, value_name = "ROWS", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub rows: u64,

    /// How long each kind of statement runs on each server and number of connections.
    #[arg(long, value_name = "NUMBER", default_value_t = 5.0)]
    pub seconds: f64,

    /// Connections, beside a run with one.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u64).range(2..=128))]
    pub connections: u64,

    /// Kinds of statements, instead of all.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub only: Vec<Work>,

    /// Which rows are asked for: the same seed asks for the same.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct PointReport {
    version: &'static str,
    rows: u64,
    seconds: f64,
    seed: u64,
    memory_bytes: u64,
    cores: usize,
    /// The version and settings of PostgreSQL; `None` without it.
    postgres: Option<About>,
    lines: Vec<Line>,
}

/// The PostgreSQL that Keyspan was compared to.
#[derive(Debug, Serialize)]
struct About {
    version: String,
    settings: Vec<String>,
}

impl fmt::Display for PointReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, seconds, seed, cores, .. } = self;
        writeln!(f, "keyspan {version}: {rows} rows, {seconds} s each, seed {seed}, memory {memory}, {cores} cores")?;
        match &self.postgres {
            Some(About { version, settings }) => {
                writeln!(f, "compared to PostgreSQL {version}: {}\n", settings.join(", "))?
            }
            None => writeln!(f, "without PostgreSQL\n")?,
        }
        table(&self.lines, f)
    }
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong, or anything fails.
pub(super) async fn run(options: &PointOptions, folder: &Path) -> Result<PointReport> {
    let memory = options.server.memory()?;
    let devices = options.rows.div_ceil(READINGS);
    let mut progress = Progress::new();
    progress.phase("start and load", None);
    let (_server, operator) = Server::start(Size(memory.all_bytes), &folder.join("store"))?;
    let keyspan = Config::dbname(&mut operator.clone(), "bench").clone();
    let client = connect(&operator).await?;
    client.batch_execute(&format!("CREATE DATABASE bench; {TABLE} {ONE_VERSION}")).await?;
    let client = connect(&keyspan).await?;
    client.batch_execute(ORDERS).await?;
    work::load_counters(&client, devices).await?;
    work::load(&client, devices).await?;
    let other = options.server.postgres(&memory, &folder.join("postgres"))?;
    let mut postgres = None;
    if let Some((server, config)) = &other {
        let client = connect(config).await?;
        client.batch_execute(&format!("{TABLE}; {ORDERS}")).await?;
        work::load_counters(&client, devices).await?;
        work::load(&client, devices).await?;
        client.batch_execute("VACUUM ANALYZE readings, counters").await?;
        let version = client.query_one("SHOW server_version", &[]).await?.get(0);
        postgres = Some(About { version, settings: server.settings.clone() });
    }
    let mut lines = Vec::new();
    let is_chosen = |work: &Work| options.only.is_empty() || options.only.contains(work);
    for work in Work::ALL.into_iter().filter(is_chosen) {
        for connections in [1, options.connections] {
            progress.phase(&format!("{}, {}", work.name(), counted(connections)), None);
            let duration = Duration::from_secs_f64(options.seconds);
            let run = async |config: &Config| {
                Box::pin(work::run(config, work, connections, devices, options.seed, duration)).await
            };
            let ours = run(&keyspan).await?;
            let theirs = match &other {
                Some((_, config)) => Some(run(config).await?),
                None => None,
            };
            lines.extend(compared(work, connections, ours, theirs));
        }
    }
    progress.finish();
    Ok(PointReport {
        version: env!("CARGO_PKG_VERSION"),
        rows: devices * READINGS,
        seconds: options.seconds,
        seed: options.seed,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        postgres,
        lines,
    })
}

fn counted(connections: u64) -> String {
    if connections == 1 { "1 connection".into() } else { format!("{connections} connections") }
}

/// The lines of the report for one kind of statement.
fn compared(work: Work, connections: u64, mut ours: Done, mut theirs: Option<Done>) -> Vec<Line> {
    let name = |what: &str| format!("{}, {}: {what}", work.name(), counted(connections));
    let mut line = |what: &str, target: Option<Target>, of: &dyn Fn(&mut Done) -> Quantity| {
        let ours = of(&mut ours);
        let line = match &mut theirs {
            Some(theirs) => Line::ratio(name(what), ours, of(theirs)),
            None => return Line::single(name(what), ours),
        };
        target.map_or(line.clone(), |target| line.with(target))
    };
    let p50 = |done: &mut Done| Quantity::seconds(percentile(&mut done.times, 50));
    let p99 = |done: &mut Done| Quantity::seconds(percentile(&mut done.times, 99));
    let rate = |done: &mut Done| Quantity::per_second(done.operations_per_second);
    let (latency, throughput) = match work {
        Work::Point => (Some(Target::AtMost(1.0)), Some(Target::AtLeast(1.0))),
        work if work.reads() => (Some(Target::AtMost(1.0)), None),
        Work::Upsert => (None, Some(Target::AtLeast(2.0))),
        Work::UpsertBatch => (None, Some(Target::AtLeast(1.0))),
        _ => (None, None),
    };
    let mut lines = vec![line("p50", latency, &p50), line("p99", None, &p99), line("operations", throughput, &rate)];
    if work == Work::Point && connections > 1 {
        let (half, most) = FIRST_ROW;
        for (what, quantity, target) in [("p50 itself", p50(&mut ours), half), ("p99 itself", p99(&mut ours), most)] {
            lines.push(Line::single(name(what), quantity).with(Target::AtMost(target)));
        }
    }
    lines
}
