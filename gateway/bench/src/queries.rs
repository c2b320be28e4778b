//! `keyspan bench queries`: the queries that benchmarks of time series ask, on the same rows in Keyspan, PostgreSQL,
//! DuckDB, and a plain Parquet file under DataFusion.
//!
//! [`data`] makes the rows, [`set`] the queries, [`sides`] runs them. The file is what Keyspan exports. Before times
//! count, the answers of all are compared; then all run each query in turn, round for round.

mod data;
mod set;
mod sides;

use super::{
    copied::copy,
    duckdb::DuckDb,
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::{ServerBenchOptions, left_out},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::HumanCount;
use keyspan_gateway::resources::{Memory, Size};
use serde::Serialize;
use set::Query;
use sides::{DATABASE, Side};
use std::{
    fmt,
    path::{Path, PathBuf},
};
use tokio_postgres::{Client, Config};

/// After the help of `keyspan bench queries`.
pub(super) const QUERIES_HELP: &str = "\
Hosts report ten metrics every ten seconds, as in the data of TSBS (\"cpu-only\"). The rows are copied into a tenant's database of a server of
this program, and into PostgreSQL with the same primary key, where it is installed (initdb and postgres in /usr/lib/postgresql/15/bin or in
PATH; as the user postgres or nobody when this is run by root). Keyspan exports them to a Parquet file, which DataFusion reads as it is, and
from which DuckDB makes a table of its own, where --python has the package duckdb. Then all answer the queries of TSBS and some more, in
turn, --rounds times after one that does not count; the answers are compared before. Times are medians, until the last row is there: servers
are asked by this process through the wire, DuckDB inside of Python. PostgreSQL's settings are printed. With --cold each side is started again
before each of its queries, and its files leave the system's cache: what a query takes then is what it takes the first time.

A target stands beside each ratio that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when answers differ or
something fails.

Examples:
  keyspan bench queries
  keyspan bench queries --hosts 1000 --days 1 --rounds 11
  keyspan bench queries --cold --rounds 3
  keyspan bench queries --python venv/bin/python --json > run.json";

/// A query that takes PostgreSQL longer than this many seconds must not be slower in Keyspan.
const NOTICEABLE_SECONDS: f64 = 5e-3;
/// The factor by which the median query has to be faster than in PostgreSQL.
const FASTER: f64 = 10.0;

/// What `keyspan bench queries` takes.
#[derive(Clone, Debug, Args)]
pub struct QueriesOptions {
    /// Hosts.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub hosts: u64,

    /// Days of their rows, 8,640 for each.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=365))]
    pub days: u64,

    /// How often each query runs on each side, after one run that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// What rows and queries are made from: the same seed gives the same.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// The Python that has DuckDB.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,

    /// Before each query, start each side again and take its files out of the system's cache.
    #[arg(long)]
    pub cold: bool,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct QueriesReport {
    version: &'static str,
    rows: u64,
    hosts: u64,
    rounds: u16,
    cold: bool,
    seed: u64,
    memory_bytes: u64,
    cores: usize,
    /// The competitors: names, versions and settings.
    compared: Vec<String>,
    lines: Vec<Line>,
}

impl fmt::Display for QueriesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, hosts, rounds, seed, cores, .. } = self;
        let rounds = if self.cold { format!("{rounds} cold rounds") } else { format!("{rounds} rounds") };
        writeln!(
            f,
            "keyspan {version}: {rows} rows of {hosts} hosts, {rounds}, seed {seed}, memory {memory}, {cores} cores"
        )?;
        for compared in &self.compared {
            writeln!(f, "compared to {compared}")?;
        }
        writeln!(f)?;
        table(&self.lines, f)
    }
}

/// A competitor of Keyspan.
struct Other {
    name: &'static str,
    side: Side,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If answers differ, or anything fails.
pub(super) async fn run(options: &QueriesOptions, folder: &Path) -> Result<QueriesReport> {
    let memory = options.server.memory()?;
    let (rows, progress) = (data::rows(options), Progress::new());
    let mut run = Run { options, rows, progress, lines: Vec::new(), others: Vec::new(), compared: Vec::new() };
    let store = folder.join("store");
    let (mut keyspan, operator, loaded) = run.load_keyspan(Size(memory.all_bytes), &store).await?;
    run.load_postgres(&memory, &folder.join("postgres"), loaded).await?;
    let file = run.export(&operator, &store).await?;
    run.load_duckdb(&file, folder.join("duckdb"))?;
    run.measure(&mut keyspan).await?;
    let Run { progress, lines, compared, .. } = run;
    progress.finish();
    Ok(QueriesReport {
        version: env!("CARGO_PKG_VERSION"),
        rows,
        hosts: options.hosts,
        rounds: options.rounds,
        cold: options.cold,
        seed: options.seed,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        compared,
        lines,
    })
}

/// The competitors, and the results so far.
struct Run<'a> {
    options: &'a QueriesOptions,
    rows: u64,
    progress: Progress,
    lines: Vec<Line>,
    others: Vec<Other>,
    compared: Vec<String>,
}

impl Run<'_> {
    fn per_second(&self, seconds: f64) -> Quantity {
        Quantity::per_second(self.rows as f64 / seconds)
    }

    /// Starts Keyspan and copies the rows into a tenant's database; returns a connection of the operator, and the rows
    /// per second, too.
    async fn load_keyspan(&mut self, memory: Size, store: &Path) -> Result<(Side, Client, Quantity)> {
        self.progress.phase("load into Keyspan", Some(self.rows));
        let (server, config) = Server::start(memory, store)?;
        let operator = connect(&config).await?;
        operator.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
        operator.batch_execute(&data::table()).await?;
        let client = connect(Config::dbname(&mut config.clone(), DATABASE)).await?;
        let seconds = load(&client, self.options, &self.progress).await?;
        let side = Side::Keyspan { client, server, memory, store: store.to_owned() };
        Ok((side, operator, self.per_second(seconds)))
    }

    /// Starts PostgreSQL, if it is installed, and copies the rows into it.
    async fn load_postgres(&mut self, memory: &Memory, folder: &Path, keyspan: Quantity) -> Result<()> {
        if !self.options.server.without_postgres {
            self.progress.phase("load into PostgreSQL", Some(self.rows));
        }
        let Some((server, config)) = self.options.server.postgres(memory, folder)? else {
            self.lines.push(Line::single("COPY", keyspan));
            return Ok(());
        };
        let client = connect(&config).await?;
        client.batch_execute(&data::table()).await?;
        let seconds = load(&client, self.options, &self.progress).await?;
        let line = Line::ratio("COPY: PostgreSQL", keyspan, self.per_second(seconds));
        self.lines.push(line.with(Target::AtLeast(1.0)));
        client.batch_execute("VACUUM ANALYZE cpu").await?;
        self.compared.push(server.description(&client).await?);
        self.others.push(Other { name: "PostgreSQL", side: Side::Postgres { client, server } });
        Ok(())
    }

    /// Exports the rows from Keyspan to a file, which is a competitor; returns its path.
    async fn export(&mut self, operator: &Client, store: &Path) -> Result<PathBuf> {
        self.progress.phase("export", None);
        let columns = ["host", "ts"].into_iter().chain(data::METRICS).collect::<Vec<_>>().join(", ");
        let export = format!("COPY (SELECT {columns} FROM cpu) TO 'cpu.parquet' (FORMAT parquet)");
        let (copied, rows) = (operator.execute(&export, &[]).await?, self.rows);
        ensure!(copied == rows, "{copied} rows were exported, {rows} are there");
        let file = store.join("exports/cpu.parquet");
        self.others.push(Other { name: "Parquet", side: sides::parquet(&file).await? });
        self.compared.push("Parquet: that file, read by DataFusion in the bench's process".to_owned());
        Ok(file)
    }

    /// Starts DuckDB, if Python has it, on a table of its own in `own`, made of the file.
    fn load_duckdb(&mut self, file: &Path, own: PathBuf) -> Result<()> {
        let Some((mut duckdb, version)) = DuckDb::start(&self.options.python, &own)? else {
            left_out("--python has no package duckdb");
            return Ok(());
        };
        let file = file.to_str().context("the file's name is no text")?;
        // Times without a zone: DuckDB is slower with one, and Python needs one more package.
        let columns = "* REPLACE (ts AT TIME ZONE 'UTC' AS ts)";
        duckdb.run(&format!("CREATE TABLE cpu AS SELECT {columns} FROM '{file}'"))?;
        duckdb.run("CHECKPOINT")?;
        self.compared.push(format!("DuckDB {version}, on a table of its own in the order of the key"));
        let side = Side::DuckDb { duckdb, python: self.options.python.clone(), file: own };
        self.others.push(Other { name: "DuckDB", side });
        Ok(())
    }

    /// Runs all queries on all sides.
    async fn measure(&mut self, keyspan: &mut Side) -> Result<()> {
        let mut ratios = Vec::new();
        for query in set::queries(self.options) {
            self.progress.phase(query.name, None);
            let (ours, theirs) = compare(keyspan, &mut self.others, &query, self.options).await?;
            for (other, theirs) in self.others.iter().zip(theirs) {
                let what = format!("{}: {}", query.name, other.name);
                let line = Line::ratio(what, Quantity::seconds(ours), Quantity::seconds(theirs));
                let is_bound = match other.name {
                    "PostgreSQL" => {
                        ratios.push(ours / theirs);
                        theirs > NOTICEABLE_SECONDS
                    }
                    "DuckDB" => query.is_key_range,
                    _ => false,
                };
                self.lines.push(if is_bound { line.with(Target::AtMost(1.0)) } else { line });
            }
        }
        if !ratios.is_empty() {
            let line = Line::single("median of all queries: PostgreSQL", Quantity::times(median(ratios)));
            self.lines.push(line.with(Target::AtMost(1.0 / FASTER)));
        }
        Ok(())
    }
}

/// Copies all rows; returns the seconds.
async fn load(client: &Client, options: &QueriesOptions, progress: &Progress) -> Result<f64> {
    let mut made = 0;
    let pieces = data::pieces(options).inspect(|piece| {
        made += piece.lines().count() as u64;
        progress.at(made);
    });
    copy(client, "COPY cpu FROM STDIN", data::rows(options), pieces).await
}

/// The median seconds of a query: in Keyspan, and in each competitor.
async fn compare(
    keyspan: &mut Side,
    others: &mut [Other],
    query: &Query,
    options: &QueriesOptions,
) -> Result<(f64, Vec<f64>)> {
    let expected = keyspan.answer(query).await?;
    for other in others.iter_mut() {
        let found = other.side.answer(query).await.with_context(|| other.name)?;
        sides::compare(other.name, query, &found, &expected)?;
    }
    let mut times = vec![Vec::new(); others.len() + 1];
    for round in 0..=options.rounds {
        let sides = std::iter::once(&mut *keyspan).chain(others.iter_mut().map(|other| &mut other.side));
        for (side, times) in sides.zip(&mut times) {
            if options.cold {
                side.chill().await?;
            }
            let seconds = side.time(query).await?;
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    let mut medians = times.into_iter().map(median);
    Ok((medians.next().unwrap_or_default(), medians.collect()))
}
