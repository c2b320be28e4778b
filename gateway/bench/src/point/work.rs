//! The work of clients: prepared statements, one after the other on each connection, with checked answers.

use crate::server::connect;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use futures::{SinkExt, future::try_join_all, pin_mut};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    borrow::Cow,
    fmt::Write,
    time::{Duration, Instant, SystemTime},
};
use tokio_postgres::{Client, Config, Statement, types::ToSql};

/// Readings of a device.
pub(super) const READINGS: u64 = 100;
/// Rows of an ordered range.
const RANGE_ROWS: u64 = 20;
/// Rows of a device in an hour.
const HOUR_ROWS: u64 = 60;
/// Operations of a connection to warm up, which do not count.
const WARM_UP: u64 = 20;
/// Operations of a connection, at most.
const OPERATIONS_MAX: u64 = 1 << 20;
/// Rows of a message of the load.
const LOAD_ROWS: u64 = 1_000;
/// The first reading: 2026-01-01.
const BEGIN_SECONDS: u64 = 1_767_225_600;

/// The table, on both sides.
pub(super) const TABLE: &str = "CREATE TABLE readings (device text, at timestamptz, temperature double precision, \
    humidity double precision, status text, note text, PRIMARY KEY (device, at))";

/// A table as applications have them, on both sides: of a tenant's own here.
pub(super) const ORDERS: &str = "CREATE TABLE orders (id bigserial PRIMARY KEY, \
    placed timestamptz NOT NULL DEFAULT now(), state text NOT NULL DEFAULT 'new', price numeric(8, 2), weight double precision)";

/// Sums that applications keep, on both sides: of a tenant's own here.
pub(super) const COUNTERS: &str =
    "CREATE TABLE counters (device text PRIMARY KEY, total numeric(12, 2) NOT NULL DEFAULT 0, changes bigint NOT NULL)";

/// Rows of a statement that writes many.
const BATCH_ROWS: usize = 100;

/// The kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// A row by its key.
    Point,
    /// A device's last row.
    LastPoint,
    /// 20 rows in order.
    Range,
    /// A device's rows of an hour.
    Hour,
    /// An update by key.
    Update,
    /// An upsert of one row.
    Upsert,
    /// An upsert of 100 rows.
    UpsertBatch,
    /// An insert of one row.
    Insert,
    /// An insert with a number of a sequence, defaults and RETURNING.
    Order,
    /// An upsert that adds to what is there, with RETURNING.
    Counter,
    /// An update that adds to what is there, with RETURNING.
    Balance,
    /// A delete by key.
    Delete,
}

impl Work {
    /// In the order of a run: statements that change what others read come last.
    pub(super) const ALL: [Self; 12] = [
        Self::Point,
        Self::LastPoint,
        Self::Range,
        Self::Hour,
        Self::Update,
        Self::Upsert,
        Self::UpsertBatch,
        Self::Insert,
        Self::Order,
        Self::Counter,
        Self::Balance,
        Self::Delete,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Point => "point read",
            Self::LastPoint => "last point",
            Self::Range => "ordered range of 20",
            Self::Hour => "an hour's rows",
            Self::Update => "update by key",
            Self::Upsert => "upsert",
            Self::UpsertBatch => "upsert of 100 rows",
            Self::Insert => "insert",
            Self::Order => "insert with defaults",
            Self::Counter => "upsert that counts, returning",
            Self::Balance => "update of sums, returning",
            Self::Delete => "delete by key",
        }
    }

    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Point | Self::LastPoint | Self::Range | Self::Hour)
    }

    fn sql(self) -> Cow<'static, str> {
        let sql = match self {
            Self::Point => "SELECT temperature, humidity, status FROM readings WHERE device = $1 AND at = $2",
            Self::LastPoint => "SELECT at, temperature FROM readings WHERE device = $1 ORDER BY at DESC LIMIT 1",
            Self::Range => "SELECT at, temperature FROM readings WHERE device = $1 AND at >= $2 ORDER BY at LIMIT 20",
            Self::Hour => "SELECT at, temperature FROM readings WHERE device = $1 AND at >= $2 AND at < $3 ORDER BY at",
            Self::Update => "UPDATE readings SET humidity = $3, status = $4 WHERE device = $1 AND at = $2",
            Self::Upsert => {
                "INSERT INTO readings (device, at, humidity, status) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (device, at) DO UPDATE SET humidity = EXCLUDED.humidity, status = EXCLUDED.status"
            }
            Self::UpsertBatch => {
                let row = |at: usize| format!("(${}, ${}, ${}, ${})", at * 4 + 1, at * 4 + 2, at * 4 + 3, at * 4 + 4);
                let rows: Vec<String> = (0..BATCH_ROWS).map(row).collect();
                return Cow::Owned(format!(
                    "INSERT INTO readings (device, at, humidity, status) VALUES {} ON CONFLICT (device, at) \
                     DO UPDATE SET humidity = EXCLUDED.humidity, status = EXCLUDED.status",
                    rows.join(", ")
                ));
            }
            Self::Insert => {
                "INSERT INTO readings (device, at, temperature, humidity, status, note) VALUES ($1, $2, $3, $4, $5, $6)"
            }
            Self::Order => "INSERT INTO orders (price, weight) VALUES (19.99, $1) RETURNING id",
            Self::Counter => {
                "INSERT INTO counters (device, changes) VALUES ($1, 1) \
                 ON CONFLICT (device) DO UPDATE SET changes = counters.changes + EXCLUDED.changes RETURNING changes"
            }
            Self::Balance => {
                "UPDATE counters SET total = total + 0.05, changes = changes + 1 WHERE device = $1 RETURNING changes"
            }
            Self::Delete => "DELETE FROM readings WHERE device = $1 AND at = $2",
        };
        Cow::Borrowed(sql)
    }
}

/// The times of one kind of statement.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) times: Vec<Duration>,
    pub(super) operations_per_second: f64,
}

/// Fills the table: `devices` with [`READINGS`] each.
pub(super) async fn load(client: &Client, devices: u64) -> Result<()> {
    let sink = client.copy_in::<_, bytes::Bytes>("COPY readings FROM STDIN").await?;
    pin_mut!(sink);
    let mut text = String::new();
    // In order of time, as devices send them.
    for row in 0..devices * READINGS {
        let (device, reading) = (row % devices, row / devices);
        let at = BEGIN_SECONDS + reading * 60;
        let (name, temperature) = (device_name(device), temperature(device, reading));
        let at = chrono::DateTime::from_timestamp(at.cast_signed(), 0).context("a time")?.to_rfc3339();
        writeln!(text, "{name}\t{at}\t{temperature}\t{}\tok\treading {reading} of device {device}", row % 100)?;
        if (row + 1).is_multiple_of(LOAD_ROWS) {
            sink.send(std::mem::take(&mut text).into()).await?;
        }
    }
    sink.send(text.into()).await?;
    let count = sink.finish().await?;
    ensure!(count == devices * READINGS, "{count} rows were loaded");
    Ok(())
}

/// Makes the counters of all devices.
pub(super) async fn load_counters(client: &Client, devices: u64) -> Result<()> {
    client.batch_execute(COUNTERS).await?;
    let last = devices - 1;
    let rows = format!(
        "INSERT INTO counters SELECT 'device-' || lpad(n::text, 6, '0'), 0, 0 FROM generate_series(0, {last}) AS n"
    );
    let count = client.execute(&rows, &[]).await?;
    ensure!(count == devices, "{count} counters were made");
    Ok(())
}

/// Runs one kind of statement on `connections` connections for `duration`.
pub(super) async fn run(
    config: &Config,
    work: Work,
    connections: u64,
    devices: u64,
    seed: u64,
    duration: Duration,
) -> Result<Done> {
    let open = (0..connections).map(|number| async move {
        let client = connect(config).await?;
        let statement = client.prepare(&work.sql()).await?;
        let random = StdRng::seed_from_u64(seed ^ (number << 32) ^ connections);
        let mut worker = Worker { client, statement, work, random, devices, number, connections, count: 0 };
        if work != Work::Delete {
            for _ in 0..WARM_UP {
                worker.one().await?;
            }
        }
        anyhow::Ok(worker)
    });
    let workers = try_join_all(open).await?;
    let begun = Instant::now();
    let tasks = workers.into_iter().map(|mut worker| {
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..OPERATIONS_MAX {
                let from = Instant::now();
                if from.duration_since(begun) >= duration || !worker.one().await? {
                    break;
                }
                times.push(from.elapsed());
            }
            anyhow::Ok(times)
        })
    });
    let mut times = Vec::new();
    for task in try_join_all(tasks).await? {
        times.extend(task.with_context(|| work.name())?);
    }
    let operations_per_second = times.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Done { times, operations_per_second })
}

/// One connection.
struct Worker {
    client: Client,
    statement: Statement,
    work: Work,
    random: StdRng,
    devices: u64,
    number: u64,
    connections: u64,
    /// Operations so far.
    count: u64,
}

impl Worker {
    /// Runs one operation; returns false if nothing is left to do.
    async fn one(&mut self) -> Result<bool> {
        let (device, reading) = (self.random.random_range(0..self.devices), self.random.random_range(0..READINGS));
        let (name, at) = (device_name(device), time(reading * 60));
        let (client, statement, count) = (&self.client, &self.statement, self.count);
        self.count += 1;
        let changed = match self.work {
            Work::Point => {
                let row = client.query_one(statement, &[&name, &at]).await?;
                let found: f64 = row.get(0);
                ensure!(found == temperature(device, reading) && row.len() == 3, "{found} of {name} at {at:?}");
                return Ok(true);
            }
            Work::LastPoint => {
                let row = client.query_one(statement, &[&name]).await?;
                let (last, found): (SystemTime, f64) = (row.get(0), row.get(1));
                let expected = (time((READINGS - 1) * 60), temperature(device, READINGS - 1));
                ensure!((last, found) == expected, "{found} at {last:?} of {name}");
                return Ok(true);
            }
            Work::Range => {
                let rows = client.query(statement, &[&name, &at]).await?;
                let expected = (reading..READINGS.min(reading + RANGE_ROWS))
                    .map(|reading| (time(reading * 60), temperature(device, reading)));
                let found = rows.iter().map(|row| (row.get::<_, SystemTime>(0), row.get::<_, f64>(1)));
                ensure!(found.eq(expected), "{} rows of {name} from {at:?}", rows.len());
                return Ok(true);
            }
            Work::Hour => {
                let first = reading % (READINGS - HOUR_ROWS);
                let (from, to) = (time(first * 60), time((first + HOUR_ROWS) * 60));
                let rows = client.query(statement, &[&name, &from, &to]).await?;
                let expected =
                    (first..first + HOUR_ROWS).map(|reading| (time(reading * 60), temperature(device, reading)));
                let found = rows.iter().map(|row| (row.get::<_, SystemTime>(0), row.get::<_, f64>(1)));
                ensure!(found.eq(expected), "{} rows of {name} from {from:?}", rows.len());
                return Ok(true);
            }
            Work::Update | Work::Upsert => {
                client.execute(statement, &[&name, &at, &(count as f64), &"changed"]).await?
            }
            Work::UpsertBatch => {
                // In the order of the load: all devices have a minute, then the next.
                let (first, all) = (reading * self.devices + device, self.devices * READINGS);
                let of = |row: u64| (device_name(row % self.devices), time(row % all / self.devices * 60));
                let keys: Vec<(String, SystemTime)> = (first..first + BATCH_ROWS as u64).map(of).collect();
                let value = count as f64;
                let row = |(name, at)| [name as &(dyn ToSql + Sync), at, &value, &"changed"];
                let values: Vec<_> = keys.iter().flat_map(|(name, at)| row((name, at))).collect();
                let changed = client.execute(statement, &values).await?;
                ensure!(changed == BATCH_ROWS as u64, "{changed} rows were written");
                return Ok(true);
            }
            Work::Insert => {
                // Later than all loaded readings, and on a device of this connection alone.
                let at = time((self.connections << 32) + (self.number << 24) + count);
                let (value, status) = (count as f64, "new");
                client.execute(statement, &[&name, &at, &value, &value, &status, &"inserted"]).await?
            }
            Work::Order => {
                let row = client.query_one(statement, &[&(count as f64)]).await?;
                let id: i64 = row.get(0);
                ensure!(id > 0 && row.len() == 1, "order {id}");
                return Ok(true);
            }
            Work::Counter | Work::Balance => {
                let row = client.query_one(statement, &[&name]).await?;
                let changes: i64 = row.get(0);
                ensure!(changes > 0 && row.len() == 1, "{changes} changes of {name}");
                return Ok(true);
            }
            Work::Delete => {
                // Each connection has its own devices; the run with one connection takes the even readings, that with
                // several the odd ones.
                let share = self.devices.saturating_sub(self.number).div_ceil(self.connections);
                if share == 0 || count / share >= READINGS / 2 {
                    return Ok(false);
                }
                let device = (count % share) * self.connections + self.number;
                let reading = count / share * 2 + u64::from(self.connections > 1);
                client.execute(statement, &[&device_name(device), &time(reading * 60)]).await?
            }
        };
        ensure!(changed == 1, "{changed} rows were written");
        Ok(true)
    }
}

fn device_name(device: u64) -> String {
    format!("device-{device:06}")
}

/// The timestamp this many seconds after the first reading.
fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN_SECONDS + seconds)
}

fn temperature(device: u64, reading: u64) -> f64 {
    ((device * 31 + reading * 7) % 1_000) as f64 / 10.0
}
