//! `keyspan bench tenants`: drops of tenants, queries across tenants, and wide sparse rows, beside PostgreSQL.
//!
//! Three tenants, each ten times as large as the one before, have their rows in one table. Keyspan has a database for
//! each; PostgreSQL has a column in the primary key, as is usual in multi-tenant schemas, so that a drop is a DELETE.
//! Then follows a table of 200 columns whose rows have five each.

use super::{
    copied::{copy, pieces},
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::ServerBenchOptions,
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::{
    fmt::{self, Write as _},
    path::Path,
    time::{Duration, Instant},
};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

/// After the help of `keyspan bench tenants`.
pub(super) const TENANTS_HELP: &str = "\
Three tenants, each ten times as large as the one before, get readings of devices, in a database each, and in PostgreSQL (where it is
installed) in one table whose primary key begins with the tenant. Aggregates over all tenants run on both sides in turn, their answers are
compared. Then each tenant is dropped: DROP DATABASE until another connection no longer sees it, and until it is acknowledged, with a certificate of the
rows and bytes that it had; in PostgreSQL, DELETE of its rows. Nothing of it may be seen afterwards. After that, a table of 200 columns, five of which each row has, is loaded and read on both sides.

A target stands beside each result that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer is
wrong or something fails.

Examples:
  keyspan bench tenants
  keyspan bench tenants --rows 10000000 --rounds 11
  keyspan bench tenants --without-postgres --json > run.json";

/// Tenants; each has the rows of the largest divided by this number.
const TENANTS: [(&str, u64); 3] = [("small", 100), ("medium", 10), ("large", 1)];
/// Devices of each tenant.
const DEVICES: u64 = 100;
/// 2026-01-01.
const BEGIN_SECONDS: u64 = 1_767_225_600;
/// Columns of the wide table besides its key, and the number of them that a row has.
pub(super) const WIDE: (usize, usize) = (200, 5);
/// Seconds after which a dropped tenant has to be invisible.
const DROP_SECONDS: f64 = 0.05;
/// How long the bench waits for the purge of dropped tenants, and how often it asks.
const PURGE: (Duration, Duration) = (Duration::from_secs(600), Duration::from_millis(100));

/// What `keyspan bench tenants` takes.
#[derive(Clone, Debug, Args)]
pub struct TenantsOptions {
    /// Rows of the largest tenant.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub rows: u64,

    /// How often each query runs on each side, after one run that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// What rows are made from: the same seed gives the same.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct TenantsReport {
    version: &'static str,
    rows: u64,
    rounds: u16,
    seed: u64,
    memory_bytes: u64,
    cores: usize,
    /// The version and settings of PostgreSQL.
    compared: Option<String>,
    lines: Vec<Line>,
}

impl fmt::Display for TenantsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, rounds, seed, cores, .. } = self;
        writeln!(
            f,
            "keyspan {version}: {rows} rows of the largest tenant, {rounds} rounds, seed {seed}, memory {memory}, {cores} cores"
        )?;
        writeln!(f, "{}\n", self.compared.as_deref().unwrap_or("without PostgreSQL"))?;
        table(&self.lines, f)
    }
}

/// Both sides of the run.
struct Sides {
    /// A connection to the operator's database.
    operator: Client,
    /// How to connect to databases of tenants.
    server: Config,
    postgres: Option<Client>,
    lines: Vec<Line>,
    rounds: u16,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If answers differ, rows are visible after a drop, or anything fails.
pub(super) async fn run(options: &TenantsOptions, folder: &Path) -> Result<TenantsReport> {
    let memory = options.server.memory()?;
    let mut progress = Progress::new();
    progress.phase("start", None);
    let (_server, server) = Server::start(Size(memory.all_bytes), &folder.join("store"))?;
    let cluster = options.server.postgres(&memory, &folder.join("postgres"))?;
    let operator = connect(&server).await?;
    let postgres = match &cluster {
        Some((_, config)) => Some(connect(config).await?),
        None => None,
    };
    let mut compared = None;
    if let (Some(client), Some((cluster, _))) = (&postgres, &cluster) {
        compared = Some(format!("compared to {}", cluster.description(client).await?));
    }
    let mut sides = Sides { operator, server, postgres, lines: Vec::new(), rounds: options.rounds };
    sides.load(options, &progress).await?;
    progress.phase("across tenants", None);
    sides.across().await?;
    progress.phase("drops", None);
    sides.drops(options).await?;
    progress.phase("wide rows", None);
    sides.wide(options).await?;
    progress.finish();
    Ok(TenantsReport {
        version: env!("CARGO_PKG_VERSION"),
        rows: options.rows,
        rounds: options.rounds,
        seed: options.seed,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        compared,
        lines: sides.lines,
    })
}

impl Sides {
    /// Loads all tenants.
    async fn load(&mut self, options: &TenantsOptions, progress: &Progress) -> Result<()> {
        let columns = "device text, at timestamptz, value double precision, status int, note text";
        self.operator.batch_execute(&format!("CREATE TABLE readings ({columns}, PRIMARY KEY (device, at))")).await?;
        if let Some(postgres) = &self.postgres {
            let create = format!("CREATE TABLE readings (tenant text, {columns}, PRIMARY KEY (tenant, device, at))");
            postgres.batch_execute(&create).await?;
        }
        for (tenant, share) in TENANTS {
            progress.at(0);
            let rows = options.rows / share;
            self.operator.batch_execute(&format!("CREATE DATABASE {tenant}")).await?;
            let client = connect(self.server.clone().dbname(tenant)).await?;
            let pieces = || readings(rows, options.seed, "");
            let ours = copy(&client, "COPY readings FROM STDIN", rows, pieces()).await?;
            if let Some(postgres) = &self.postgres {
                let pieces = readings(rows, options.seed, tenant);
                let theirs = copy(postgres, "COPY readings FROM STDIN", rows, pieces).await?;
                let per_second = |seconds: f64| Quantity::per_second(rows as f64 / seconds);
                let what = format!("COPY of {} rows", HumanCount(rows));
                self.lines.push(Line::ratio(what, per_second(ours), per_second(theirs)));
            }
        }
        if let Some(postgres) = &self.postgres {
            postgres.batch_execute("VACUUM ANALYZE readings").await?;
        }
        Ok(())
    }

    /// Runs the queries over all tenants.
    async fn across(&mut self) -> Result<()> {
        for (name, sql) in [
            ("rows of each tenant", "SELECT tenant, count(*) FROM readings GROUP BY tenant ORDER BY tenant"),
            (
                "two aggregates of each tenant",
                "SELECT tenant, max(value), count(note) FROM readings GROUP BY tenant ORDER BY tenant",
            ),
            (
                "one status over all tenants",
                "SELECT tenant, count(*), max(value) FROM readings WHERE status = 7 GROUP BY tenant ORDER BY tenant",
            ),
            (
                "one device of each tenant",
                "SELECT tenant, count(*), max(value) FROM readings WHERE device = 'device-7' GROUP BY tenant ORDER BY tenant",
            ),
            ("last reading of each tenant", "SELECT tenant, max(at) FROM readings GROUP BY tenant ORDER BY tenant"),
            (
                "one tenant's devices",
                "SELECT device, max(value) FROM readings WHERE tenant = 'medium' GROUP BY device ORDER BY device",
            ),
        ] {
            self.ask(name, sql).await?;
        }
        Ok(())
    }

    /// Asks both sides in turn.
    async fn ask(&mut self, name: &str, sql: &str) -> Result<()> {
        let expected = answer(&self.operator, sql).await?;
        ensure!(!expected.is_empty(), "{name}: no rows");
        if let Some(postgres) = &self.postgres {
            let found = answer(postgres, sql).await?;
            ensure!(found == expected, "{name}: PostgreSQL answers {found:?}, Keyspan {expected:?}");
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=self.rounds {
            let sides = [(Some(&self.operator), &mut ours), (self.postgres.as_ref(), &mut theirs)];
            for (client, times) in sides {
                let Some(client) = client else { continue };
                let begun = Instant::now();
                client.query(sql, &[]).await.with_context(|| name.to_owned())?;
                if round > 0 {
                    times.push(begun.elapsed().as_secs_f64());
                }
            }
        }
        let ours = Quantity::seconds(median(ours));
        let line = match theirs.is_empty() {
            true => Line::single(name, ours),
            false => Line::ratio(name, ours, Quantity::seconds(median(theirs))),
        };
        self.lines.push(line);
        Ok(())
    }

    /// Drops the tenants, the smallest first.
    async fn drops(&mut self, options: &TenantsOptions) -> Result<()> {
        for (tenant, share) in TENANTS {
            let what = format!("drop of {} rows", HumanCount(options.rows / share));
            let watching = connect(&self.server).await?;
            let (begun, drop) = (Instant::now(), format!("DROP DATABASE {tenant}"));
            let dropped = async { anyhow::Ok(self.operator.batch_execute(&drop).await.map(|()| begun.elapsed())?) };
            let gone = async {
                let there = format!("SELECT count(*) FROM pg_database WHERE datname = '{tenant}'");
                while answer(&watching, &there).await? != [["0"]] {}
                anyhow::Ok(begun.elapsed())
            };
            let (ours, gone) = tokio::try_join!(dropped, gone)?;
            let (ours, gone) = (ours.as_secs_f64(), gone.as_secs_f64());
            let left = format!("SELECT count(*) FROM readings WHERE tenant = '{tenant}'");
            ensure!(answer(&self.operator, &left).await? == [["0"]], "rows of {tenant} are seen after its drop");
            let gone = Line::single(format!("{what}: invisible"), Quantity::seconds(gone));
            self.lines.push(gone.with(Target::AtMost(DROP_SECONDS)));
            let what = format!("{what}: certified");
            if let Some(postgres) = &self.postgres {
                let begun = Instant::now();
                postgres.execute("DELETE FROM readings WHERE tenant = $1", &[&tenant]).await?;
                let theirs = begun.elapsed().as_secs_f64();
                self.lines.push(Line::ratio(what, Quantity::seconds(ours), Quantity::seconds(theirs)));
            } else {
                self.lines.push(Line::single(what, Quantity::seconds(ours)));
            }
        }
        // Both sides free the bytes in the background.
        let begun = Instant::now();
        let waiting = "SELECT count(*) FROM keyspan.drops WHERE purged_at IS NULL";
        while answer(&self.operator, waiting).await? != [["0"]] {
            ensure!(begun.elapsed() < PURGE.0, "the bytes of dropped tenants are still there");
            tokio::time::sleep(PURGE.1).await;
        }
        let purged = Quantity::seconds(begun.elapsed().as_secs_f64());
        match &self.postgres {
            Some(postgres) => {
                let begun = Instant::now();
                postgres.batch_execute("VACUUM readings").await?;
                let vacuumed = Quantity::seconds(begun.elapsed().as_secs_f64());
                self.lines.push(Line::ratio("until their bytes are gone (VACUUM)", purged, vacuumed));
            }
            None => self.lines.push(Line::single("until their bytes are gone", purged)),
        }
        Ok(())
    }

    /// Loads and reads the wide table.
    async fn wide(&mut self, options: &TenantsOptions) -> Result<()> {
        let names: Vec<String> = (0..WIDE.0).map(|at| format!("c{at}")).collect();
        let columns: Vec<String> = names.iter().map(|name| format!("{name} double precision")).collect();
        let create = format!("CREATE TABLE wide (id bigint PRIMARY KEY, {})", columns.join(", "));
        self.operator.batch_execute("CREATE DATABASE wide").await?;
        self.operator.batch_execute(&create).await?;
        let tenant = connect(self.server.clone().dbname("wide")).await?;
        let rows = options.rows / 10;
        let ours = copy(&tenant, "COPY wide FROM STDIN", rows, wide(rows, options.seed)).await?;
        let mut theirs = None;
        if let Some(postgres) = &self.postgres {
            postgres.batch_execute(&create).await?;
            theirs = Some(copy(postgres, "COPY wide FROM STDIN", rows, wide(rows, options.seed)).await?);
            postgres.batch_execute("VACUUM ANALYZE wide").await?;
        }
        let per_second = |seconds: f64| Quantity::per_second(rows as f64 / seconds);
        let what = format!("wide rows: COPY of {}", HumanCount(rows));
        self.lines.push(match theirs {
            Some(theirs) => Line::ratio(what, per_second(ours), per_second(theirs)),
            None => Line::single(what, per_second(ours)),
        });
        self.operator = tenant;
        for (name, sql) in [
            ("wide rows: one column", "SELECT count(c7), max(c7) FROM wide"),
            (
                "wide rows: ten columns",
                "SELECT count(c0), count(c20), count(c40), count(c60), count(c80), count(c100), count(c120), count(c140), count(c160), count(c180) FROM wide",
            ),
            ("wide rows: a value", "SELECT count(*) FROM wide WHERE c7 > 99"),
            ("wide rows: a whole row", "SELECT * FROM wide WHERE id = 77"),
        ] {
            self.ask(name, sql).await?;
        }
        Ok(())
    }
}

/// The rows of an answer, as text.
pub(super) async fn answer(client: &Client, sql: &str) -> Result<Vec<Vec<String>>> {
    let messages = client.simple_query(sql).await?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect()).collect())
}

/// Readings in order of time, in the text format of COPY; `tenant` is the first column unless it is empty.
fn readings(rows: u64, seed: u64, tenant: &str) -> impl Iterator<Item = String> {
    let first = if tenant.is_empty() { String::new() } else { format!("{tenant}\t") };
    let mut random = StdRng::seed_from_u64(seed);
    pieces(rows, move |row, piece| {
        let at = BEGIN_SECONDS + row / DEVICES * 10;
        let at = chrono::DateTime::from_timestamp(at.cast_signed(), 0).unwrap_or_default();
        let (device, value) = (row % DEVICES, f64::from(random.random_range(0..10_000_u32)) / 100.0);
        let at = at.format("%Y-%m-%d %H:%M:%S+00");
        // Writing to a String does not fail.
        let _ = writeln!(piece, "{first}device-{device}\t{at}\t{value}\t{}\treading {row}", row % 13);
    })
}

/// Wide rows, in the text format of COPY.
fn wide(rows: u64, seed: u64) -> impl Iterator<Item = String> {
    let mut random = StdRng::seed_from_u64(seed);
    pieces(rows, move |row, piece| {
        let mut values = vec![None; WIDE.0];
        for _ in 0..WIDE.1 {
            let at = random.random_range(0..WIDE.0);
            values[at] = Some(f64::from(random.random_range(0..10_000_u32)) / 100.0);
        }
        let _ = write!(piece, "{row}");
        for value in values {
            let _ = match value {
                Some(value) => write!(piece, "\t{value}"),
                None => write!(piece, "\t\\N"),
            };
        }
        piece.push('\n');
    })
}
