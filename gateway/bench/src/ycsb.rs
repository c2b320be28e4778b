//! `keyspan bench ycsb`: mixes of reads and writes of a key-value table, as the Yahoo! Cloud Serving Benchmark has
//! them, beside PostgreSQL.
//!
//! Cooper et al., "Benchmarking Cloud Serving Systems with YCSB" (2010): rows of ten fields of 100 bytes, keys drawn
//! from a Zipfian distribution and scattered over the table. [`Mix`] names the workloads by their letters.

use super::{
    measure::percentile,
    progress::Progress,
    report::{Line, Quantity, table},
    server::{Server, connect},
    server_options::ServerBenchOptions,
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{SinkExt, future::try_join_all};
use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::{
    fmt,
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_postgres::{Client, Config, Statement};

/// After the help of `keyspan bench ycsb`.
pub(super) const YCSB_HELP: &str = "\
The table of the Yahoo! Cloud Serving Benchmark, rows of ten fields of 100 bytes, is loaded into a tenant's database of a server of this program
and into PostgreSQL, where it is installed. Then its workloads run on both, one after the other, by prepared statements on several connections:
A half reads, half updates; B 95 % reads; C reads alone; D reads of what was just inserted; E short scans; F reads with an update of the same row.
Keys are drawn from a Zipfian distribution. Rows that are read are checked. Both sync each commit.

Examples:
  keyspan bench ycsb
  keyspan bench ycsb --rows 1000000 --seconds 30 --connections 64
  keyspan bench ycsb --without-postgres --json > run.json";

/// Fields of a row, and the letters of each.
const FIELDS: (usize, usize) = (10, 100);
/// The exponent of the Zipfian distribution.
const ZIPFIAN: f64 = 0.99;
/// Rows of a scan, at most.
const SCAN_ROWS_MAX: i64 = 100;
/// Operations of a connection, at most.
const OPERATIONS_MAX: u64 = 1 << 20;
/// Bytes of a message of the load, roughly.
const PIECE_BYTES: usize = 256 << 10;

/// What `keyspan bench ycsb` takes.
#[derive(Clone, Debug, Args)]
pub struct YcsbOptions {
    /// Rows of the table.
    #[arg(long, value_name = "ROWS", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub rows: u64,

    /// How long each workload runs on each server.
    #[arg(long, value_name = "NUMBER", default_value_t = 10.0)]
    pub seconds: f64,

    /// Connections.
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=128))]
    pub connections: u64,

    /// Which rows are asked for: the same seed asks for the same.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// Keeps one version of a value, as PostgreSQL does; shared tables keep all versions by default.
pub(super) const ONE_VERSION: &str = "WITH (cf.max_versions = 1)";

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct YcsbReport {
    version: &'static str,
    rows: u64,
    seconds: f64,
    connections: u64,
    seed: u64,
    memory_bytes: u64,
    cores: usize,
    /// The version and settings of PostgreSQL.
    compared: Option<String>,
    lines: Vec<Line>,
}

impl fmt::Display for YcsbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, seconds, connections, seed, cores, .. } = self;
        writeln!(
            f,
            "keyspan {version}: {rows} rows, {connections} connections, {seconds} s each, seed {seed}, memory {memory}, {cores} cores"
        )?;
        writeln!(f, "{}\n", self.compared.as_deref().unwrap_or("without PostgreSQL"))?;
        table(&self.lines, f)
    }
}

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mix {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// One operation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadUpdate,
}

impl Mix {
    /// In the order of a run: workloads that insert come last, since they change the number of rows.
    const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::F, Self::D, Self::E];

    fn name(self) -> &'static str {
        match self {
            Self::A => "A, half reads, half updates",
            Self::B => "B, 95 % reads, 5 % updates",
            Self::C => "C, reads",
            Self::D => "D, 95 % reads of the latest, 5 % inserts",
            Self::E => "E, 95 % scans, 5 % inserts",
            Self::F => "F, half reads, half reads with updates",
        }
    }

    /// The operation for a random number below 100.
    fn operation(self, percent: u32) -> Operation {
        match self {
            Self::A if percent < 50 => Operation::Update,
            Self::B if percent < 5 => Operation::Update,
            Self::D | Self::E if percent < 5 => Operation::Insert,
            Self::E => Operation::Scan,
            Self::F if percent < 50 => Operation::ReadUpdate,
            _ => Operation::Read,
        }
    }
}

/// The Zipfian distribution: rank `n` is drawn with a probability proportional to `1 / n^0.99`. The algorithm of Gray
/// et al., "Quickly Generating Billion-Record Synthetic Databases" (1994), as in YCSB.
struct Zipfian {
    zeta_two: f64,
    count: u64,
    zeta: f64,
}

impl Zipfian {
    fn new(count: u64) -> Self {
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-ZIPFIAN)).sum();
        Self { zeta_two: zeta(2), count, zeta: zeta(count) }
    }

    fn draw(&self, random: &mut StdRng) -> u64 {
        let u: f64 = random.random();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.zeta_two {
            return 1;
        }
        let eta = (1.0 - (2.0 / self.count as f64).powf(1.0 - ZIPFIAN)) / (1.0 - self.zeta_two / self.zeta);
        let rank = self.count as f64 * (eta * u - eta + 1.0).powf(1.0 / (1.0 - ZIPFIAN));
        (rank as u64).min(self.count - 1)
    }
}

/// The key of a row: hashed, so that the neighbours of a popular key are not popular, too.
fn key(row: u64) -> String {
    format!("user{:020}", row.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The initial value of a field.
fn field(row: u64, field: usize) -> String {
    let mut text = format!("{row}-{field}-");
    while text.len() < FIELDS.1 {
        text.push(char::from(b'a' + ((row as usize + field + text.len()) % 26) as u8));
    }
    text.truncate(FIELDS.1);
    text
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong, or anything fails.
pub(super) async fn run(options: &YcsbOptions, folder: &Path) -> Result<YcsbReport> {
    let memory = options.server.memory()?;
    let mut progress = Progress::new();
    progress.phase("start and load", None);
    let (_server, operator) = Server::start(Size(memory.all_bytes), &folder.join("store"))?;
    let fields: Vec<String> = (0..FIELDS.0).map(|field| format!("field{field} text")).collect();
    let create = format!("CREATE TABLE usertable (ycsb_key text PRIMARY KEY, {})", fields.join(", "));
    let client = connect(&operator).await?;
    client.batch_execute(&format!("CREATE DATABASE bench; {create} {ONE_VERSION}")).await?;
    let keyspan = Config::dbname(&mut operator.clone(), "bench").clone();
    let other = options.server.postgres(&memory, &folder.join("postgres"))?;
    let ours = load(&connect(&keyspan).await?, options.rows).await?;
    let per_second = |seconds: f64| Quantity::per_second(options.rows as f64 / seconds);
    let (mut lines, mut compared) = (Vec::new(), None);
    match &other {
        Some((cluster, config)) => {
            let client = connect(config).await?;
            client.batch_execute(&create).await?;
            let theirs = load(&client, options.rows).await?;
            client.batch_execute("VACUUM ANALYZE usertable").await?;
            compared = Some(format!("compared to {}", cluster.description(&client).await?));
            lines.push(Line::ratio("load", per_second(ours), per_second(theirs)));
        }
        None => lines.push(Line::single("load", per_second(ours))),
    }
    let mut rows = options.rows;
    for mix in Mix::ALL {
        progress.phase(mix.name(), None);
        let (mut ours, after) = work(&keyspan, mix, options, rows).await?;
        let mut theirs = None;
        let mut least = after;
        if let Some((_, config)) = &other {
            let (done, after) = work(config, mix, options, rows).await?;
            theirs = Some(done);
            least = least.min(after);
        }
        // The rows that both sides have.
        rows = least;
        type Of<'a> = &'a dyn Fn(&mut Done) -> Quantity;
        let of: [(&str, Of<'_>); 3] = [
            ("operations", &|done| Quantity::per_second(done.per_second)),
            ("p50", &|done| Quantity::seconds(percentile(&mut done.times, 50))),
            ("p99", &|done| Quantity::seconds(percentile(&mut done.times, 99))),
        ];
        for (what, of) in of {
            let name = format!("{}: {what}", mix.name());
            lines.push(match &mut theirs {
                Some(theirs) => Line::ratio(name, of(&mut ours), of(theirs)),
                None => Line::single(name, of(&mut ours)),
            });
        }
    }
    progress.finish();
    Ok(YcsbReport {
        version: env!("CARGO_PKG_VERSION"),
        rows: options.rows,
        seconds: options.seconds,
        connections: options.connections,
        seed: options.seed,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        compared,
        lines,
    })
}

/// Fills the table; returns the seconds.
async fn load(client: &Client, rows: u64) -> Result<f64> {
    let begun = Instant::now();
    let mut sink = pin!(client.copy_in("COPY usertable FROM STDIN").await?);
    let mut text = String::new();
    for row in 0..rows {
        text.push_str(&key(row));
        for number in 0..FIELDS.0 {
            text.push('\t');
            text.push_str(&field(row, number));
        }
        text.push('\n');
        if text.len() >= PIECE_BYTES {
            sink.send(bytes::Bytes::from(std::mem::take(&mut text))).await?;
        }
    }
    sink.send(bytes::Bytes::from(text)).await?;
    let copied = sink.finish().await?;
    ensure!(copied == rows, "{copied} rows of {rows} were copied");
    Ok(begun.elapsed().as_secs_f64())
}

/// The times of one workload.
struct Done {
    times: Vec<Duration>,
    per_second: f64,
}

/// Runs a workload; returns the number of rows after it, too.
async fn work(config: &Config, mix: Mix, options: &YcsbOptions, rows: u64) -> Result<(Done, u64)> {
    let zipfian = Arc::new(Zipfian::new(rows));
    let inserted = Arc::new(AtomicU64::new(rows));
    let open = (0..options.connections).map(|number| {
        let (zipfian, inserted) = (Arc::clone(&zipfian), Arc::clone(&inserted));
        async move {
            let client = connect(config).await?;
            let all: Vec<String> = (0..FIELDS.0).map(|field| format!("field{field}")).collect();
            let all = all.join(", ");
            let parameters: Vec<String> = (1..=FIELDS.0 + 1).map(|at| format!("${at}")).collect();
            let parameters = parameters.join(", ");
            let read = format!("SELECT ycsb_key, {all} FROM usertable WHERE ycsb_key = $1");
            let scan = format!("SELECT ycsb_key, {all} FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2");
            let insert = format!("INSERT INTO usertable VALUES ({parameters}) ON CONFLICT (ycsb_key) DO NOTHING");
            let mut updates = Vec::new();
            for field in 0..FIELDS.0 {
                let update = format!("UPDATE usertable SET field{field} = $2 WHERE ycsb_key = $1");
                updates.push(client.prepare(&update).await?);
            }
            anyhow::Ok(Worker {
                read: client.prepare(&read).await?,
                scan: client.prepare(&scan).await?,
                insert: client.prepare(&insert).await?,
                updates,
                client,
                mix,
                random: StdRng::seed_from_u64(options.seed ^ (number << 32)),
                zipfian,
                rows,
                inserted,
            })
        }
    });
    let workers = try_join_all(open).await?;
    let begun = Instant::now();
    let duration = Duration::from_secs_f64(options.seconds);
    let tasks = workers.into_iter().map(|mut worker| {
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..OPERATIONS_MAX {
                let from = Instant::now();
                if from.duration_since(begun) >= duration {
                    break;
                }
                worker.one().await?;
                times.push(from.elapsed());
            }
            anyhow::Ok(times)
        })
    });
    let mut times = Vec::new();
    for task in try_join_all(tasks).await? {
        times.extend(task.with_context(|| mix.name())?);
    }
    let per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
    Ok((Done { times, per_second }, inserted.load(Ordering::Relaxed)))
}

/// One connection.
struct Worker {
    client: Client,
    read: Statement,
    scan: Statement,
    insert: Statement,
    updates: Vec<Statement>,
    mix: Mix,
    random: StdRng,
    zipfian: Arc<Zipfian>,
    /// Rows at the start of the workload.
    rows: u64,
    /// Rows that exist or are being inserted.
    inserted: Arc<AtomicU64>,
}

impl Worker {
    /// Runs one operation.
    async fn one(&mut self) -> Result<()> {
        let operation = self.mix.operation(self.random.random_range(0..100));
        let drawn = self.zipfian.draw(&mut self.random);
        // In workload D the latest rows are the popular ones; in the others the popular rows are scattered.
        let row = if self.mix == Mix::D { self.rows - 1 - drawn } else { drawn };
        let name = key(row);
        match operation {
            Operation::Read => self.read(&name).await?,
            Operation::Update => self.update(&name).await?,
            Operation::ReadUpdate => {
                self.read(&name).await?;
                self.update(&name).await?;
            }
            Operation::Insert => {
                let row = self.inserted.fetch_add(1, Ordering::Relaxed);
                let values: Vec<String> =
                    std::iter::once(key(row)).chain((0..FIELDS.0).map(|at| field(row, at))).collect();
                let values: Vec<_> =
                    values.iter().map(|value| value as &(dyn tokio_postgres::types::ToSql + Sync)).collect();
                self.client.execute(&self.insert, &values).await?;
            }
            Operation::Scan => {
                let count = self.random.random_range(1..=SCAN_ROWS_MAX);
                let rows = self.client.query(&self.scan, &[&name, &count]).await?;
                let first: Option<&str> = rows.first().map(|row| row.get(0));
                ensure!(
                    first == Some(name.as_str()) && rows.len() as i64 <= count,
                    "{} rows from {name} on",
                    rows.len()
                );
            }
        }
        Ok(())
    }

    async fn read(&self, name: &str) -> Result<()> {
        let row = self.client.query_one(&self.read, &[&name]).await?;
        let (found, value): (&str, &str) = (row.get(0), row.get(1 + FIELDS.0 / 2));
        ensure!(found == name && value.len() == FIELDS.1, "{found} with {value} for {name}");
        Ok(())
    }

    async fn update(&mut self, name: &str) -> Result<()> {
        let number = self.random.random_range(0..FIELDS.0);
        let value = field(self.random.random(), number);
        let changed = self.client.execute(&self.updates[number], &[&name, &value]).await?;
        ensure!(changed == 1, "{changed} rows of {name} were updated");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_drawn_often() {
        let (zipfian, mut random) = (Zipfian::new(1_000), StdRng::seed_from_u64(1));
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..100_000 {
            counts[usize::try_from(zipfian.draw(&mut random)).unwrap()] += 1;
        }
        // 1 / zeta(1000) is 0.13 for the exponent 0.99.
        assert!((12_000..15_000).contains(&counts[0]), "{}", counts[0]);
        assert!(counts[1] > counts[10] && counts[10] > counts[500] && counts[999] > 0);
    }

    #[test]
    fn keys_and_fields_are_those_of_their_rows() {
        assert_eq!(key(0), "user00000000000000000000");
        assert_ne!(key(1), key(2));
        assert_eq!(field(123, 4).len(), FIELDS.1);
        assert_ne!(field(123, 4), field(124, 4));
    }
}
