//! `keyspan bench fair`: what a tenant notices of its neighbours.
//!
//! Three tenants have as many rows in one table. The third reads rows by their keys, one after the other: alone, then
//! beside the scans and writers of the first, then the first and the second run the same together. All of it runs on a
//! server with the gate between tenants and on one without.

use super::{
    measure::percentile,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{SinkExt, future::try_join_all};
use indicatif::HumanCount;
use keyspan_gateway::resources::{Memory, Size};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_postgres::{Client, Config};

/// After the help of `keyspan bench fair`.
pub(super) const FAIR_HELP: &str = "\
Three tenants have as many rows in one table. The third reads rows by their keys with a prepared statement: alone, then beside eight
connections of the first that aggregate its whole table and four that write row by row, by clients of a low priority, as if they were on
machines of their own. Then the first and the second run aggregates
together: as many connections each, then four times as many of the first. All of it runs on a server with the gate between tenants and
on one without, as it was before there was one.

A target stands beside each result that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer is
wrong or something fails.

Examples:
  keyspan bench fair
  keyspan bench fair --rows 2000000 --seconds 30 --json > run.json";

/// Databases: the noisy tenant, its equal, the quiet one.
const TENANTS: [&str; 3] = ["noisy", "equal", "quiet"];
/// Connections of the noisy tenant that scan, and that write.
const NOISE: (usize, usize) = (8, 4);
/// Connections that scan of each of two equal tenants, and of the one that has more.
const EQUAL: (usize, usize) = (4, 16);
/// The most that the 99th percentile may grow beside a noisy neighbour.
const LATENCY_RATIO: f64 = 4.0;
/// How far apart equal tenants may be.
const EQUAL_RATIO: (f64, f64) = (0.7, 1.3);
/// The least throughput of the noisy tenant, over that without the gate.
const THROUGHPUT_RATIO: f64 = 0.9;
/// The most that short statements alone may take, over those without the gate.
const ALONE_RATIO: f64 = 1.05;
/// Rows of a message of the load.
const PIECE_ROWS: u64 = 5_000;

/// What `keyspan bench fair` takes.
#[derive(Clone, Debug, Args)]
pub struct FairOptions {
    /// Rows of each tenant.
    #[arg(long, value_name = "ROWS", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub rows: u64,

    /// How long each measurement takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,

    /// What rows and reads are made from.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Memory of the server [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,

    /// The folder in which the temporary folder is made [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct FairReport {
    version: &'static str,
    rows: u64,
    seconds: f64,
    seed: u64,
    memory_bytes: u64,
    cores: usize,
    lines: Vec<Line>,
}

impl fmt::Display for FairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, seconds, seed, cores, .. } = self;
        writeln!(
            f,
            "keyspan {version}: {rows} rows of each of three tenants, {seconds} s each, seed {seed}, memory {memory}, {cores} cores\n"
        )?;
        table(&self.lines, f)
    }
}

/// What was measured of one server.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    /// The median and the 99th percentile of point reads, in seconds.
    alone: (f64, f64),
    beside: (f64, f64),
    /// Scans and writes of the noisy tenant a second meanwhile.
    noise: (f64, f64),
    /// Scans a second of two tenants with as many connections, and with more of the first.
    equal: (f64, f64),
    unequal: (f64, f64),
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong or anything fails.
pub(super) async fn run(options: &FairOptions, folder: &Path) -> Result<FairReport> {
    let memory = Memory::of_machine(options.memory, None)?;
    let mut progress = Progress::new();
    let mut measured = Vec::new();
    for (name, more) in [("with the gate", &[][..]), ("without the gate", &["--without-gate"])] {
        progress.phase(&format!("{name}: load"), None);
        let (server, operator) = Server::start_with(Size(memory.all_bytes), &folder.join(name), more)?;
        load(options, &operator).await?;
        measured.push(Box::pin(measure(options, &operator, &mut progress, name)).await?);
        drop(server);
    }
    progress.finish();
    Ok(FairReport {
        version: env!("CARGO_PKG_VERSION"),
        rows: options.rows,
        seconds: options.seconds,
        seed: options.seed,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        lines: lines(measured[0], measured[1]),
    })
}

/// The results: those with the gate beside those without, and what the gate is there for.
fn lines(with: Measured, without: Measured) -> Vec<Line> {
    let (seconds, per_second) = (Quantity::seconds, Quantity::per_second);
    let busy = |measured: Measured| measured.noise.0 / without.noise.0 / 2.0 + measured.noise.1 / without.noise.1 / 2.0;
    vec![
        Line::ratio("point read alone, median (gate over none)", seconds(with.alone.0), seconds(without.alone.0))
            .with(Target::AtMost(ALONE_RATIO)),
        Line::ratio("point read alone, p99 (gate over none)", seconds(with.alone.1), seconds(without.alone.1)),
        Line::ratio("point read p99, beside noise over alone", seconds(with.beside.1), seconds(with.alone.1))
            .with(Target::AtMost(LATENCY_RATIO)),
        Line::ratio("  the same without the gate", seconds(without.beside.1), seconds(without.alone.1)),
        Line::ratio("point read median, beside noise over alone", seconds(with.beside.0), seconds(with.alone.0)),
        Line::ratio("noisy tenant's scans (gate over none)", per_second(with.noise.0), per_second(without.noise.0)),
        Line::ratio("noisy tenant's writes (gate over none)", per_second(with.noise.1), per_second(without.noise.1)),
        Line::single("noisy tenant's scans and writes, mean ratio", Quantity::times(busy(with)))
            .with(Target::AtLeast(THROUGHPUT_RATIO)),
        Line::ratio("equal tenants, 4 and 4 connections", per_second(with.equal.0), per_second(with.equal.1))
            .with(Target::AtMost(EQUAL_RATIO.1)),
        Line::ratio("equal tenants, 16 and 4 connections", per_second(with.unequal.0), per_second(with.unequal.1))
            .with(Target::AtMost(EQUAL_RATIO.1)),
        Line::ratio("  the same without the gate", per_second(without.unequal.0), per_second(without.unequal.1)),
        Line::ratio(
            "both together, 16 and 4 (gate over none)",
            per_second(with.unequal.0 + with.unequal.1),
            per_second(without.unequal.0 + without.unequal.1),
        )
        .with(Target::AtLeast(THROUGHPUT_RATIO)),
    ]
}

/// Makes the tenants, with their rows.
async fn load(options: &FairOptions, operator: &Config) -> Result<()> {
    let client = connect(operator).await?;
    client.batch_execute("CREATE TABLE readings (id bigint PRIMARY KEY, device text, value double precision)").await?;
    client.batch_execute("CREATE TABLE written (id bigint PRIMARY KEY, note text)").await?;
    for tenant in TENANTS {
        client.batch_execute(&format!("CREATE DATABASE {tenant}")).await?;
        let client = connect(operator.clone().dbname(tenant)).await?;
        let mut sink = pin!(client.copy_in("COPY readings FROM STDIN").await?);
        let mut random = StdRng::seed_from_u64(options.seed);
        for first in (0..options.rows).step_by(usize::try_from(PIECE_ROWS)?) {
            let mut piece = String::new();
            for id in first..(first + PIECE_ROWS).min(options.rows) {
                let value = f64::from(random.random_range(0..10_000_u32)) / 100.0;
                writeln!(piece, "{id}\tdevice-{}\t{value}", id % 1_000)?;
            }
            sink.send(bytes::Bytes::from(piece)).await?;
        }
        ensure!(sink.finish().await? == options.rows, "rows are missing");
    }
    Ok(())
}

/// Measures one server.
async fn measure(options: &FairOptions, operator: &Config, progress: &mut Progress, server: &str) -> Result<Measured> {
    let of = |tenant: &str| operator.clone().dbname(tenant).clone();
    let mut phase = |name: &str| progress.phase(&format!("{server}: {name}"), None);
    let [noisy, equal, quiet] = TENANTS.map(of);
    let mut measured = Measured::default();
    phase("point reads alone");
    point_reads(options, &quiet).await?;
    measured.alone = point_reads(options, &quiet).await?;
    phase("point reads beside noise");
    let noise = Noise::start(options, &noisy, NOISE).await?;
    measured.beside = point_reads(options, &quiet).await?;
    measured.noise = noise.stop().await?;
    for (connections, into) in [(EQUAL.0, &mut measured.equal), (EQUAL.1, &mut measured.unequal)] {
        phase(&format!("equal tenants, {connections} and {}", EQUAL.0));
        let first = Noise::start(options, &noisy, (connections, 0)).await?;
        let second = Noise::start(options, &equal, (EQUAL.0, 0)).await?;
        tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
        let (first, second) = tokio::try_join!(first.stop(), second.stop())?;
        *into = (first.0, second.0);
    }
    Ok(measured)
}

/// Reads rows by their keys for some time: the median and the 99th percentile. On a thread of its own: what is measured
/// is the server, not how long the rows of the scans keep the threads of this process.
async fn point_reads(options: &FairOptions, config: &Config) -> Result<(f64, f64)> {
    let (options, config) = (options.clone(), config.clone());
    let reads = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(timed_reads(&options, &config))
    };
    tokio::task::spawn_blocking(reads).await?
}

/// Reads rows for some time, one after the other.
async fn timed_reads(options: &FairOptions, config: &Config) -> Result<(f64, f64)> {
    let client = connect(config).await?;
    let read = client.prepare("SELECT value FROM readings WHERE id = $1").await?;
    let mut random = StdRng::seed_from_u64(options.seed);
    let (until, mut times) = (Instant::now() + Duration::from_secs_f64(options.seconds), Vec::new());
    while Instant::now() < until {
        let id = i64::try_from(random.random_range(0..options.rows))?;
        let began = Instant::now();
        client.query_one(&read, &[&id]).await.context("a row is missing")?;
        times.push(began.elapsed());
    }
    Ok((percentile(&mut times, 50), percentile(&mut times, 99)))
}

/// How much nicer the threads of the neighbours' clients are than the reader's: they would be on machines of their own,
/// and are not to take the cores of this one from it.
#[cfg(target_os = "linux")]
const CLIENTS_NICENESS: i32 = 10;

/// The threads of the neighbours' clients; always there until it is dropped, which waits for nothing.
struct ClientThreads(Option<Runtime>);

impl ClientThreads {
    fn start() -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all();
        // A thread that keeps its priority makes the figures worse, not better.
        #[cfg(target_os = "linux")]
        builder.on_thread_start(|| {
            let _ = rustix::process::setpriority_process(None, CLIENTS_NICENESS);
        });
        Ok(Self(Some(builder.build()?)))
    }

    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<JoinHandle<T>> {
        Ok(self.0.as_ref().context("the threads have ended")?.spawn(task))
    }
}

impl Drop for ClientThreads {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

/// Connections of a tenant that scan and write until they are stopped.
struct Noise {
    threads: ClientThreads,
    began: Instant,
    stop: Arc<AtomicBool>,
    scans: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Noise {
    async fn start(options: &FairOptions, config: &Config, (scans, writes): (usize, usize)) -> Result<Self> {
        let threads = ClientThreads::start()?;
        let config = config.clone();
        let connected = async move { try_join_all((0..scans + writes).map(|_| connect(&config))).await };
        let clients = threads.spawn(connected)?.await??;
        let mut noise = Self {
            threads,
            began: Instant::now(),
            stop: Arc::default(),
            scans: Arc::default(),
            writes: Arc::default(),
            tasks: Vec::new(),
        };
        for (at, client) in clients.into_iter().enumerate() {
            let (stop, rows) = (Arc::clone(&noise.stop), options.rows);
            let task = if at < scans {
                noise.threads.spawn(scan(client, stop, Arc::clone(&noise.scans), rows))?
            } else {
                noise.threads.spawn(write(client, stop, Arc::clone(&noise.writes), at))?
            };
            noise.tasks.push(task);
        }
        Ok(noise)
    }

    /// Scans and writes a second.
    async fn stop(self) -> Result<(f64, f64)> {
        let seconds = self.began.elapsed().as_secs_f64();
        let per_second = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
        let rates = (per_second(&self.scans), per_second(&self.writes));
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await??;
        }
        Ok(rates)
    }
}

async fn scan(client: Client, stop: Arc<AtomicBool>, count: Arc<AtomicU64>, rows: u64) -> Result<()> {
    let sql = "SELECT device, count(*), avg(value), max(value) FROM readings GROUP BY device";
    let statement = client.prepare(sql).await?;
    while !stop.load(Ordering::Relaxed) {
        let groups = client.query(&statement, &[]).await?;
        let counted: i64 = groups.iter().map(|row| row.get::<_, i64>(1)).sum();
        ensure!(u64::try_from(counted)? == rows, "a scan counts {counted} rows of {rows}");
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn write(client: Client, stop: Arc<AtomicBool>, count: Arc<AtomicU64>, writer: usize) -> Result<()> {
    let statement = client.prepare("INSERT INTO written VALUES ($1, $2)").await?;
    let mut id = i64::try_from(writer)? << 32;
    while !stop.load(Ordering::Relaxed) {
        client.execute(&statement, &[&id, &"written beside scans"]).await?;
        id += 1;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
