//! `keyspan bench memory`: the memory of a server that works on many times as much data as it may take memory.
//!
//! The bench starts a server of this program on a store in a temporary folder; it loads, reads, sorts, groups, joins
//! and exports through the wire. Before each step the kernel resets the peak of resident memory
//! (`/proc/PID/clear_refs`), so that each step has its own. Rows hold text that does not compress. Answers are checked:
//! every row comes, once, in order.

use super::server::{self, Server, connect};
use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use keyspan_gateway::resources::{Memory, Size};
use serde::Serialize;
use std::{
    fmt, fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio_postgres::{Client, Config, Row, types::ToSql};

/// After the help of `keyspan bench memory`.
pub(super) const MEMORY_HELP: &str = "\
A server is started on a store in a temporary folder with --memory, and is given --times as many bytes of texts that do not compress. It
counts, scans, sorts, groups, joins, exports to Parquet and updates them; answers are checked. For each step stands the peak of the memory
that the process had for itself: all that is resident but pages of files, which are the program and its libraries.

The target is --memory and 96MiB: threads, plans, connections, and what the allocator has not given back. \"met\" or \"not met\" does not
change the exit code, which is 1 when an answer is wrong or something fails.

Examples:
  keyspan bench memory
  keyspan bench memory --memory 32MiB --times 20 --text-size 4KiB
  keyspan bench memory --path /mnt/fast --json > run.json";

/// Memory of the process beyond `--memory`, at most, without its program.
pub(super) const OVERHEAD_BYTES: u64 = 96 << 20;
/// Rows of one INSERT, at most; with large texts there are fewer.
const INSERT_ROWS_MAX: usize = 100;
/// Bytes of the texts of one INSERT, unless it has one row.
const INSERT_BYTES: usize = 128 << 10;
/// Connections that load at the same time.
const LOADERS: usize = 4;
/// The interval between two samples of the process's memory.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Rows of a group.
const GROUP_ROWS: i64 = 2;

/// What `keyspan bench memory` takes.
#[derive(Clone, Debug, Args)]
pub struct MemoryOptions {
    /// Memory that the server may take, as keyspan serve --memory.
    #[arg(long, value_name = "SIZE", default_value_t = Size(64 << 20))]
    pub memory: Size,

    /// How many times as much is loaded.
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub times: u64,

    /// The size of the text of a row.
    #[arg(long, value_name = "SIZE", default_value_t = Size(1 << 10))]
    pub text_size: Size,

    /// The folder in which the temporary folder is made [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct MemoryReport {
    version: &'static str,
    memory_bytes: u64,
    data_bytes: u64,
    text_bytes: u64,
    steps: Vec<Step>,
    /// The greatest of the steps' own peaks.
    own_peak_bytes: u64,
    target_bytes: u64,
    met: bool,
}

/// The memory and the time of a step.
#[derive(Clone, Debug, Serialize)]
struct Step {
    name: &'static str,
    /// The peak of resident memory during the step, the program included.
    peak_bytes: u64,
    /// The peak of anonymous memory, by sampling.
    own_peak_bytes: u64,
    /// The anonymous memory after the step.
    own_left_bytes: u64,
    seconds: f64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (peak, own, left) = (mib(self.peak_bytes), mib(self.own_peak_bytes), mib(self.own_left_bytes));
        write!(f, "{:30} {own:8} MiB {left:8} MiB {peak:8} MiB {:8.1} s", self.name, self.seconds)
    }
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory, data, text) = (Size(self.memory_bytes), Size(self.data_bytes), Size(self.text_bytes));
        writeln!(f, "keyspan {}: --memory {memory}, {data} of texts of {text}\n", self.version)?;
        writeln!(f, "{:30} {:>12} {:>12} {:>12} {:>10}", "", "peak", "left", "with files", "time")?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        let (peak, target) = (Size(self.own_peak_bytes), Size(self.target_bytes));
        write!(f, "\npeak {peak}, target {target}: {}", if self.met { "met" } else { "not met" })
    }
}

/// A run under way.
struct Run {
    process_id: u32,
    steps: Vec<Step>,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong, or anything fails.
pub(super) async fn run(options: &MemoryOptions, folder: &Path) -> Result<MemoryReport> {
    let data_bytes = options.memory.0.saturating_mul(options.times);
    let text_bytes = usize::try_from(options.text_size.0)?.max(1);
    let rows = i64::try_from(data_bytes / text_bytes as u64)? / GROUP_ROWS * GROUP_ROWS;
    ensure!(rows > 0, "texts of {} are more than all data", options.text_size);
    let memory = Memory::of_machine(Some(options.memory), None)?;
    let (server, operator) = Server::start(options.memory, &folder.join("store"))?;
    let mut run = Run { process_id: server.process_id(), steps: Vec::new() };
    run.all(&operator, rows, text_bytes).await?;
    let own_peak_bytes = run.steps.iter().map(|step| step.own_peak_bytes).max().unwrap_or(0);
    let target_bytes = memory.all_bytes + OVERHEAD_BYTES;
    Ok(MemoryReport {
        version: env!("CARGO_PKG_VERSION"),
        memory_bytes: memory.all_bytes,
        data_bytes,
        text_bytes: text_bytes as u64,
        steps: run.steps,
        own_peak_bytes,
        target_bytes,
        met: own_peak_bytes <= target_bytes,
    })
}

impl Run {
    async fn all(&mut self, operator: &Config, rows: i64, text_bytes: usize) -> Result<()> {
        self.step("started", async { Ok(()) }).await?;
        let mut config = operator.clone();
        config.dbname("alto");
        let operator = connect(operator).await?;
        operator
            .batch_execute("CREATE DATABASE alto; CREATE TABLE big (k bigint PRIMARY KEY, g bigint, v text)")
            .await?;
        self.step("load", load(&config, rows, text_bytes)).await?;
        let client = connect(&config).await?;
        self.step("count", one(&client, "SELECT count(*) FROM big", rows)).await?;
        let scan = each(&client, "SELECT k, v FROM big ORDER BY k", |row, at| row.get::<_, i64>(0) == at);
        self.step("scan", async { is(scan.await?, rows) }).await?;
        let mut last = String::new();
        let sort = each(&client, "SELECT v FROM big ORDER BY v", |row, _| {
            let next: String = row.get(0);
            let sorted = last < next;
            last = next;
            sorted
        });
        self.step("sort by text", async { is(sort.await?, rows) }).await?;
        let groups = each(&client, "SELECT g, count(*), min(v), max(v) FROM big GROUP BY g", |row, _| {
            row.get::<_, i64>(1) == GROUP_ROWS && row.get::<_, &str>(2) < row.get::<_, &str>(3)
        });
        self.step("GROUP BY, half as many groups", async { is(groups.await?, rows / GROUP_ROWS) }).await?;
        let join = "SELECT count(*) FROM big a JOIN big b ON a.k = b.g WHERE a.v <> b.v || 'x'";
        self.step("join with itself", one(&client, join, rows)).await?;
        // As the operator: with one tenant COPY exports the same rows.
        let copy = operator.execute("COPY (SELECT * FROM big) TO 'big.parquet' (FORMAT parquet)", &[]);
        self.step("COPY TO Parquet", async { is(i64::try_from(copy.await?)?, rows) }).await?;
        let changed = async {
            for part in 0..10 {
                client.batch_execute(&format!("UPDATE big SET g = g WHERE k % 1000 = {part}")).await?;
            }
            Ok(())
        };
        self.step("UPDATE of 1 %", changed).await?;
        self.step("count again", one(&client, "SELECT count(*) FROM big", rows)).await
    }

    async fn step(&mut self, name: &'static str, work: impl Future<Output = Result<()>>) -> Result<()> {
        // 5 resets the peak of resident memory.
        fs::write(format!("/proc/{}/clear_refs", self.process_id), "5").context("cannot reset the peak")?;
        let begun = Instant::now();
        let mut own_peak_bytes = 0;
        pin_mut!(work);
        loop {
            let look = tokio::time::timeout(LOOK_EVERY, &mut work).await;
            own_peak_bytes = own_peak_bytes.max(self.memory("RssAnon:")?);
            if let Ok(done) = look {
                done.context(name)?;
                break;
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (peak_bytes, own_left_bytes) = (self.memory("VmHWM:")?, self.memory("RssAnon:")?);
        let step = Step { name, peak_bytes, own_peak_bytes, own_left_bytes, seconds };
        // Nobody may be listening.
        let _ = writeln!(stderr(), "{step}");
        self.steps.push(step);
        Ok(())
    }

    /// A line of the process's status, in bytes.
    fn memory(&self, line: &str) -> Result<u64> {
        server::memory(self.process_id, line)
    }
}

/// Loads rows 0 to `rows`; a group's rows are neighbours.
async fn load(config: &Config, rows: i64, text_bytes: usize) -> Result<()> {
    let insert_rows = (INSERT_BYTES / text_bytes).clamp(1, INSERT_ROWS_MAX);
    let starts = tokio::sync::Mutex::new((0..rows).step_by(insert_rows));
    let clients = stream::iter(0..LOADERS).then(|_| connect(config)).try_collect::<Vec<_>>().await?;
    let loaders = clients.iter().map(|client| async {
        let insert = |rows: usize| {
            let values = |at: usize| format!("(${}, ${}, ${})", 3 * at + 1, 3 * at + 2, 3 * at + 3);
            format!("INSERT INTO big VALUES {}", (0..rows).map(values).collect::<Vec<_>>().join(", "))
        };
        let whole = client.prepare(&insert(insert_rows)).await?;
        loop {
            let Some(first) = starts.lock().await.next() else { return Ok::<(), anyhow::Error>(()) };
            let last = rows.min(first + i64::try_from(insert_rows)?);
            let cells: Vec<_> = (first..last).map(|k| (k, k / GROUP_ROWS, text(k, text_bytes))).collect();
            let values: Vec<&(dyn ToSql + Sync)> =
                cells.iter().flat_map(|(k, g, v)| [k as &(dyn ToSql + Sync), g, v]).collect();
            if cells.len() == insert_rows {
                client.execute(&whole, &values).await?;
            } else {
                client.execute(&insert(cells.len()), &values).await?;
            }
        }
    });
    futures::future::try_join_all(loaders).await.map(drop)
}

/// Text that does not compress: random numbers (xorshift), written as letters.
fn text(seed: i64, bytes: usize) -> String {
    let mut state = seed.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        let number = next();
        text.extend((0..8).map(|at| char::from(b'0' + ((number >> (8 * at)) & 0x3f) as u8)));
    }
    text.truncate(bytes);
    text
}

/// Reads rows one after the other and counts them; `holds` checks each row and its index.
async fn each(client: &Client, sql: &str, mut holds: impl FnMut(&Row, i64) -> bool) -> Result<i64> {
    let rows = client.query_raw::<_, &str, _>(sql, []).await?;
    pin_mut!(rows);
    let mut count = 0;
    while let Some(row) = rows.try_next().await? {
        ensure!(holds(&row, count), "row {count} is not as it should be: {sql}");
        count += 1;
    }
    Ok(count)
}

async fn one(client: &Client, sql: &str, expected: i64) -> Result<()> {
    is(client.query_one(sql, &[]).await?.get(0), expected)
}

fn is(found: i64, expected: i64) -> Result<()> {
    ensure!(found == expected, "{found} rows, {expected} are there");
    Ok(())
}
