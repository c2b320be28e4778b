//! A server with little memory and much data: what it takes while it loads, scans, sorts, groups, joins and exports ten times its memory.
//!
//! Between two steps the kernel is told to count the peak anew (`/proc/PID/clear_refs`), so that each step has its own. Rows are of
//! text that does not compress. What is asked is checked: every row comes, once, in order.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use std::{fmt, fs, time::Duration};
use tokio_postgres::{Client, Config, NoTls, Row, types::ToSql};

/// Rows of one INSERT.
const INSERT_ROWS: usize = 100;
/// Connections that load at the same time.
const LOADERS: usize = 4;
/// How often the process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Rows of a group.
const GROUP_ROWS: i64 = 2;

/// What is run, and against what.
#[derive(Clone, Debug)]
pub struct MemoryRun {
    /// How to connect as the operator.
    pub operator: Config,
    /// The server's process.
    pub process_id: u32,
    /// Bytes of text to be loaded.
    pub data_bytes: u64,
    /// Bytes of the text of a row.
    pub text_bytes: usize,
}

/// What a step took.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was done.
    pub name: &'static str,
    /// The most that the process had in memory meanwhile, in bytes, its program included.
    pub peak_bytes: u64,
    /// The most without the program and its libraries, which are pages of files: seen by looking again and again.
    pub own_peak_bytes: u64,
    /// What it has of that after the step.
    pub own_left_bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        let (peak, own, left) = (mib(self.peak_bytes), mib(self.own_peak_bytes), mib(self.own_left_bytes));
        let (name, seconds) = (self.name, self.seconds);
        write!(
            f,
            "{name:28} {peak:5} MiB at the peak; without the program {own:5} MiB, {left:5} MiB after it {seconds:7.1} s"
        )
    }
}

impl MemoryRun {
    /// Does all steps. `told` hears of each.
    ///
    /// # Errors
    /// Those of the server, a wrong answer, and a process whose memory cannot be read.
    pub async fn run(&self, mut told: impl FnMut(&Step)) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        let mut told = |step: Step| {
            told(&step);
            steps.push(step);
        };
        told(self.step("started", async { Ok(()) }).await?);
        let operator = connect(&self.operator).await?;
        operator
            .batch_execute("CREATE DATABASE alto; CREATE TABLE big (k bigint PRIMARY KEY, g bigint, v text)")
            .await?;
        let mut config = self.operator.clone();
        config.dbname("alto");
        let rows = i64::try_from(self.data_bytes / self.text_bytes as u64)?;
        told(self.step("load", load(&config, rows, self.text_bytes)).await?);
        let client = connect(&config).await?;
        told(self.step("count", one(&client, "SELECT count(*) FROM big", rows)).await?);
        let scan = each(&client, "SELECT k, v FROM big ORDER BY k", |row, at| row.get::<_, i64>(0) == at);
        told(self.step("scan of all", async { is(scan.await?, rows) }).await?);
        let mut last = String::new();
        let sort = each(&client, "SELECT v FROM big ORDER BY v", |row, _| {
            let next: String = row.get(0);
            let sorted = last < next;
            last = next;
            sorted
        });
        told(self.step("sort of all by text", async { is(sort.await?, rows) }).await?);
        let groups = each(&client, "SELECT g, count(*), min(v), max(v) FROM big GROUP BY g", |row, _| {
            row.get::<_, i64>(1) == GROUP_ROWS && row.get::<_, &str>(2) < row.get::<_, &str>(3)
        });
        told(self.step("GROUP BY, half as many groups", async { is(groups.await?, rows / GROUP_ROWS) }).await?);
        let join = "SELECT count(*) FROM big a JOIN big b ON a.k = b.g WHERE a.v <> b.v || 'x'";
        told(self.step("join with itself", one(&client, join, rows)).await?);
        let copy = "COPY (SELECT * FROM big) TO 'big.parquet' (FORMAT parquet)";
        // The operator's: of one tenant it copies the same rows.
        told(self.step("COPY TO Parquet", async { Ok(operator.batch_execute(copy).await?) }).await?);
        let changed = async {
            for part in 0..10 {
                client.batch_execute(&format!("UPDATE big SET g = g WHERE k % 1000 = {part}")).await?;
            }
            Ok(())
        };
        told(self.step("UPDATE of 1 % of all", changed).await?);
        told(self.step("count again", one(&client, "SELECT count(*) FROM big", rows)).await?);
        Ok(steps)
    }

    async fn step(&self, name: &'static str, work: impl Future<Output = Result<()>>) -> Result<Step> {
        // 5: the peak of what is resident begins anew.
        fs::write(format!("/proc/{}/clear_refs", self.process_id), "5").context("cannot reset the peak")?;
        let begun = std::time::Instant::now();
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
        Ok(Step { name, peak_bytes, own_peak_bytes, own_left_bytes, seconds })
    }

    /// A line of the process's status, in bytes.
    fn memory(&self, line: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process_id))?;
        let found = status.lines().find_map(|text| text.strip_prefix(line)).context("the kernel does not tell")?;
        let kib: u64 = found.split_whitespace().next().context("no number")?.parse()?;
        Ok(kib << 10)
    }
}

async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Loads rows 0 to `rows`, whose groups are of neighbours.
async fn load(config: &Config, rows: i64, text_bytes: usize) -> Result<()> {
    let starts = stream::iter((0..rows).step_by(INSERT_ROWS));
    let clients = stream::iter(0..LOADERS).then(|_| connect(config)).try_collect::<Vec<_>>().await?;
    let starts = tokio::sync::Mutex::new(starts);
    let loaders = clients.iter().map(|client| async {
        let insert = |rows: usize| {
            let values: Vec<_> =
                (0..rows).map(|at| format!("(${}, ${}, ${})", 3 * at + 1, 3 * at + 2, 3 * at + 3)).collect();
            format!("INSERT INTO big VALUES {}", values.join(", "))
        };
        let whole = client.prepare(&insert(INSERT_ROWS)).await?;
        loop {
            let Some(first) = starts.lock().await.next().await else { return Ok::<(), anyhow::Error>(()) };
            let cells: Vec<(i64, i64, String)> = (first..rows.min(first + INSERT_ROWS as i64))
                .map(|k| (k, k / GROUP_ROWS, text(k, text_bytes)))
                .collect();
            let values: Vec<&(dyn ToSql + Sync)> =
                cells.iter().flat_map(|(k, g, v)| [k as &(dyn ToSql + Sync), g, v]).collect();
            if cells.len() == INSERT_ROWS {
                client.execute(&whole, &values).await?;
            } else {
                client.execute(&insert(cells.len()), &values).await?;
            }
        }
    });
    futures::future::try_join_all(loaders).await.map(drop)
}

/// Text that does not compress: numbers of a generator, in letters.
fn text(seed: i64, bytes: usize) -> String {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
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
    text
}

/// Reads rows one after the other. Gives how many there are; every one must be as `holds` says, which is told its number.
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
