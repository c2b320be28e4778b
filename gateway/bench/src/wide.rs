//! `keyspan bench wide`: rows of an open family, beside rows with a jsonb column in PostgreSQL.
//!
//! Each row has five of 200 columns, which nobody declared. The same text is copied into both from a file: an id and a
//! JSON object. Then both answer the same queries in turn, from one column of all rows to a whole row; answers are
//! compared before times count.

use super::{
    copied::{copy, pieces},
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::ServerBenchOptions,
    tenants::{WIDE, answer},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::Path,
    time::Instant,
};
use tokio_postgres::Client;

/// After the help of `keyspan bench wide`.
pub(super) const WIDE_HELP: &str = "\
Rows with five of 200 possible columns each are copied into a table with an open family, and into PostgreSQL (where it is installed) into one
with a jsonb column. Queries of one column of all rows, of several, of qualifiers as rows, of whole rows and of changes of one column run on
both sides in turn; their answers are compared.

A target stands beside each result that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer is
wrong or something fails.

Examples:
  keyspan bench wide
  keyspan bench wide --rows 10000000 --rounds 11
  keyspan bench wide --without-postgres --json > run.json";

/// The least ratio of rows that are copied in a second.
const COPY_RATIO: f64 = 1.0;
/// The greatest ratio of the times for one column of all rows.
const ONE_COLUMN_RATIO: f64 = 0.2;
/// Changes of one column that are timed.
const CHANGES: u64 = 200;

/// What `keyspan bench wide` takes.
#[derive(Clone, Debug, Args)]
pub struct WideOptions {
    /// Rows of the table.
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
pub(super) struct WideReport {
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

impl fmt::Display for WideReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, rounds, seed, cores, .. } = self;
        writeln!(f, "keyspan {version}: {rows} rows, {rounds} rounds, seed {seed}, memory {memory}, {cores} cores")?;
        writeln!(f, "{}\n", self.compared.as_deref().unwrap_or("without PostgreSQL"))?;
        table(&self.lines, f)
    }
}

/// The whole run, in `folder`.
///
/// # Errors
/// If answers differ, or anything fails.
pub(super) async fn run(options: &WideOptions, folder: &Path) -> Result<WideReport> {
    let memory = options.server.memory()?;
    let mut progress = Progress::new();
    progress.phase("start", None);
    let (_server, server) = Server::start(Size(memory.all_bytes), &folder.join("store"))?;
    let cluster = options.server.postgres(&memory, &folder.join("postgres"))?;
    let operator = connect(&server).await?;
    operator.batch_execute("CREATE DATABASE wide").await?;
    operator.batch_execute("CREATE TABLE wide (id bigint PRIMARY KEY, FAMILY props OPEN)").await?;
    let keyspan = connect(server.clone().dbname("wide")).await?;
    let (mut postgres, mut compared) = (None, None);
    if let Some((cluster, config)) = &cluster {
        let client = connect(config).await?;
        compared = Some(format!("compared to {}", cluster.description(&client).await?));
        client.batch_execute("CREATE TABLE wide (id bigint PRIMARY KEY, props jsonb)").await?;
        postgres = Some(client);
    }
    let mut sides = Sides { keyspan, postgres, lines: Vec::new(), rounds: options.rounds };
    progress.phase("load", None);
    sides.load(options).await?;
    progress.phase("queries", None);
    sides.queries().await?;
    progress.phase("changes", None);
    sides.changes(options.rows).await?;
    progress.finish();
    Ok(WideReport {
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

/// Both sides of the run.
struct Sides {
    keyspan: Client,
    postgres: Option<Client>,
    lines: Vec<Line>,
    rounds: u16,
}

impl Sides {
    async fn load(&mut self, options: &WideOptions) -> Result<()> {
        let rows = options.rows;
        let statement = "COPY wide FROM STDIN";
        let per_second = |seconds: f64| Quantity::per_second(rows as f64 / seconds);
        let ours = per_second(copy(&self.keyspan, statement, rows, maps(rows, options.seed)).await?);
        let Some(postgres) = &self.postgres else {
            self.lines.push(Line::single("COPY", ours));
            return Ok(());
        };
        let theirs = per_second(copy(postgres, statement, rows, maps(rows, options.seed)).await?);
        postgres.batch_execute("VACUUM ANALYZE wide").await?;
        self.lines.push(Line::ratio("COPY", ours, theirs).with(Target::AtLeast(COPY_RATIO)));
        Ok(())
    }

    async fn queries(&mut self) -> Result<()> {
        let one = Some(Target::AtMost(ONE_COLUMN_RATIO));
        for (name, target, sql) in [
            ("one column", one, "SELECT count(props->>'c7'), max(props->>'c7') FROM wide"),
            ("rows with a column", one, "SELECT count(*) FROM wide WHERE props ? 'c7'"),
            ("a value", one, "SELECT count(*) FROM wide WHERE (props->>'c7')::numeric > 99"),
            ("three columns", None, "SELECT count(props->'c0'), count(props->'c20'), count(props->'c40') FROM wide"),
            (
                "columns with a prefix, as rows",
                None,
                "SELECT key, count(*) FROM wide, jsonb_each(props) WHERE key LIKE 'c11%' GROUP BY key ORDER BY key",
            ),
            ("columns of all rows, counted", None, "SELECT count(*) FROM wide, jsonb_object_keys(props)"),
            ("a whole row", None, "SELECT props FROM wide WHERE id = 77"),
        ] {
            self.ask(name, target, sql).await?;
        }
        Ok(())
    }

    /// Asks both sides in turn.
    async fn ask(&mut self, name: &str, target: Option<Target>, sql: &str) -> Result<()> {
        let expected = answer(&self.keyspan, sql).await.with_context(|| name.to_owned())?;
        ensure!(!expected.is_empty(), "{name}: no rows");
        if let Some(postgres) = &self.postgres {
            let found = answer(postgres, sql).await?;
            ensure!(found == expected, "{name}: PostgreSQL answers {found:?}, Keyspan {expected:?}");
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=self.rounds {
            let sides = [(Some(&self.keyspan), &mut ours), (self.postgres.as_ref(), &mut theirs)];
            for (client, times) in sides {
                let Some(client) = client else { continue };
                let begun = Instant::now();
                client.query(sql, &[]).await.with_context(|| name.to_owned())?;
                if round > 0 {
                    times.push(begun.elapsed().as_secs_f64());
                }
            }
        }
        self.push(name, ours, theirs, target);
        Ok(())
    }

    /// Changes one column of single rows.
    async fn changes(&mut self, rows: u64) -> Result<()> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for at in 0..CHANGES {
            let sql = format!("UPDATE wide SET props['changed'] = '{at}' WHERE id = {}", at * 7_919 % rows);
            for (client, times) in [(Some(&self.keyspan), &mut ours), (self.postgres.as_ref(), &mut theirs)] {
                let Some(client) = client else { continue };
                let begun = Instant::now();
                client.execute(&sql, &[]).await?;
                times.push(begun.elapsed().as_secs_f64());
            }
        }
        self.push("a change of one column", ours, theirs, None);
        Ok(())
    }

    fn push(&mut self, name: &str, ours: Vec<f64>, theirs: Vec<f64>, target: Option<Target>) {
        let ours = Quantity::seconds(median(ours));
        if theirs.is_empty() {
            self.lines.push(Line::single(name, ours));
            return;
        }
        let line = Line::ratio(name, ours, Quantity::seconds(median(theirs)));
        self.lines.push(match target {
            Some(target) => line.with(target),
            None => line,
        });
    }
}

/// Rows of an id and a map, in the text format of COPY.
fn maps(rows: u64, seed: u64) -> impl Iterator<Item = String> {
    let mut random = StdRng::seed_from_u64(seed);
    pieces(rows, move |row, piece| {
        let mut members = BTreeMap::new();
        while members.len() < WIDE.1 {
            let value = f64::from(random.random_range(0..10_000_u32)) / 100.0;
            members.insert(random.random_range(0..WIDE.0), value);
        }
        let members: Vec<String> = members.iter().map(|(at, value)| format!("\"c{at}\": {value}")).collect();
        // Writing to a String does not fail.
        let _ = writeln!(piece, "{row}\t{{{}}}", members.join(", "));
    })
}
