//! `keyspan bench tpch`: the 22 statements of TPC-H on the same rows in a tenant's own tables, in shared ones, in
//! PostgreSQL, in DuckDB, and in plain Parquet files under DataFusion.
//!
//! [`data`] has the tables, their rows and the statements, [`sides`] runs them. The files are what Keyspan exports. The
//! answers of all are compared before times count; then all run each statement in turn, round for round.

mod data;
mod sides;

use super::{
    duckdb::DuckDb,
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::{ServerBenchOptions, left_out},
};
use anyhow::{Context, Result, ensure};
use clap::Args;
pub use data::{Statement, TABLES, Table, statements};
use indicatif::HumanCount;
use keyspan_gateway::resources::{Memory, Size};
use serde::Serialize;
use sides::Side;
use std::{
    fmt,
    path::{Path, PathBuf},
};
use tokio_postgres::{Client, Config};

/// After the help of `keyspan bench tpch`.
pub(super) const TPCH_HELP: &str = "\
The eight tables of TPC-H are copied into a tenant's own tables and into shared tables, on two servers of this program, and into PostgreSQL
with the same primary keys, where it is installed (as keyspan bench queries says). Keyspan exports its tables to Parquet files, which
DataFusion reads as they are, and from which DuckDB makes tables of its own, where --python has the package duckdb. The answers of all to the
22 statements are compared, up to the fifth digit of what they compute; then all answer each statement in turn, --rounds times after one that
does not count. Times are medians, until the last row is there: servers are asked by this process through the wire, DuckDB inside of Python.

A target stands beside each ratio that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when answers differ,
when a statement of Keyspan takes longer than --timeout, or when something fails. A competitor's statement that does not end in time counts as
one that takes the time-out. Rows and statements are those of the benchmark; the run is none of its audited ones.

Scale 1 is some 1 GB of text, 8.7 million rows.

Examples:
  keyspan bench tpch
  keyspan bench tpch --scale 1 --rounds 3 --only 1,3,22
  keyspan bench tpch --python venv/bin/python --json > run.json";

/// The tenant's database.
const DATABASE: &str = "bench";
/// The smallest scale.
pub const SCALE_MIN: f64 = 0.01;
/// From here on all scales have keys that are unique.
const SCALE_ANY: f64 = 0.03;
/// The greatest ratio of a statement's time to that of DataFusion over plain Parquet.
const PARQUET_RATIO: f64 = 1.3;
/// The greatest geometric mean of these ratios.
const PARQUET_MEAN: f64 = 1.0;
/// The greatest geometric mean of the ratios to PostgreSQL's times.
const POSTGRES_MEAN: f64 = 0.4;

/// What `keyspan bench tpch` takes.
#[derive(Clone, Debug, Args)]
pub struct TpchOptions {
    /// The scale: 1 is 6 million rows of lineitem.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.3, value_parser = scale)]
    pub scale: f64,

    /// How often each statement runs on each side, after one run that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// The numbers of the statements to run [default: all 22]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=22))]
    pub only: Vec<u16>,

    /// Seconds that a statement may take on a server.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub timeout: u32,

    /// The Python that has DuckDB.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// A scale that can be loaded. With few suppliers the benchmark's formula gives a part the same supplier twice: a
/// third of them may be a step of the formula, up to 228 suppliers; not so of 100.
fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale == SCALE_MIN || (SCALE_ANY..=100.0).contains(&scale) => Ok(scale),
        _ => Err("0.01, or a number from 0.03 to 100".to_owned()),
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct TpchReport {
    version: &'static str,
    scale: f64,
    rows: u64,
    rounds: u16,
    memory_bytes: u64,
    cores: usize,
    /// The competitors: names, versions and settings.
    compared: Vec<String>,
    lines: Vec<Line>,
}

impl fmt::Display for TpchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, scale, rounds, cores, .. } = self;
        writeln!(f, "keyspan {version}: scale {scale}, {rows} rows, {rounds} rounds, memory {memory}, {cores} cores")?;
        for compared in &self.compared {
            writeln!(f, "compared to {compared}")?;
        }
        writeln!(f)?;
        table(&self.lines, f)
    }
}

/// The whole run, in `folder`.
///
/// # Errors
/// If answers differ, or anything fails.
pub(super) async fn run(options: &TpchOptions, folder: &Path) -> Result<TpchReport> {
    let memory = options.server.memory()?;
    let mut run = Run { options, progress: Progress::new(), rows: 0, lines: Vec::new(), compared: Vec::new() };
    let mut servers = Vec::new();
    let mut ours = Vec::new();
    for kind in ["own", "shared"] {
        let (server, config) = Server::start(Size(memory.all_bytes), &folder.join(kind))?;
        let operator = connect(&config).await?;
        operator.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
        let client = connect(Config::dbname(&mut config.clone(), DATABASE)).await?;
        let definer = if kind == "own" { &client } else { &operator };
        let seconds = run.load(&format!("{kind} tables"), definer, &client).await?;
        ours.push((kind, Side::Server { client }, seconds));
        servers.push(server);
    }
    let mut others = Vec::new();
    let postgres = run.postgres(&memory, &folder.join("postgres"), &ours).await?;
    let mut cluster = None;
    if let Some((started, client)) = postgres {
        others.push(("PostgreSQL", Side::Server { client }));
        cluster = Some(started);
    }
    let files = run.export(&ours[0].1, &folder.join("own")).await?;
    others.push(("Parquet", sides::parquet(&files).await?));
    run.compared.push("Parquet: those files, read by DataFusion in the bench's process".to_owned());
    if let Some(duckdb) = run.duckdb(&files, &folder.join("duckdb"))? {
        others.push(("DuckDB", Side::DuckDb { duckdb }));
    }
    let mut ours = ours.into_iter().map(|(kind, side, _)| (kind, side)).collect::<Vec<_>>();
    run.measure(&mut ours, &mut others).await?;
    drop((servers, cluster));
    let Run { progress, rows, lines, compared, .. } = run;
    progress.finish();
    Ok(TpchReport {
        version: env!("CARGO_PKG_VERSION"),
        scale: options.scale,
        rows,
        rounds: options.rounds,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        compared,
        lines,
    })
}

/// A side and its name.
type Named = (&'static str, Side);

/// The results so far.
struct Run<'a> {
    options: &'a TpchOptions,
    progress: Progress,
    /// Of all tables.
    rows: u64,
    lines: Vec<Line>,
    compared: Vec<String>,
}

impl Run<'_> {
    /// Makes the tables with one connection and copies their rows with another; returns the seconds of copying.
    async fn load(&mut self, into: &str, definer: &Client, client: &Client) -> Result<f64> {
        let (mut rows, mut seconds) = (0, 0.0);
        for table in &TABLES {
            self.progress.phase(&format!("{into}: load {}", table.name), None);
            definer.batch_execute(&table.definition()).await?;
            let (copied, took) = table.copy(client, self.options.scale).await?;
            rows += copied;
            seconds += took;
        }
        self.rows = rows;
        client.batch_execute(&format!("SET statement_timeout = '{}s'", self.options.timeout)).await?;
        Ok(seconds)
    }

    /// Starts PostgreSQL, if it is installed, and loads it; compares the seconds of COPY.
    async fn postgres(
        &mut self,
        memory: &Memory,
        folder: &Path,
        ours: &[(&str, Side, f64)],
    ) -> Result<Option<(super::postgres::Postgres, Client)>> {
        let started = self.options.server.postgres(memory, folder)?;
        let mut theirs = None;
        let mut loaded = None;
        if let Some((server, config)) = started {
            let client = connect(&config).await?;
            theirs = Some(self.load("PostgreSQL", &client, &client).await?);
            client.batch_execute("VACUUM ANALYZE").await?;
            self.compared.push(server.description(&client).await?);
            loaded = Some((server, client));
        }
        let rate = |seconds: f64| Quantity::per_second(self.rows as f64 / seconds);
        let lines = ours.iter().map(|(kind, _, seconds)| match theirs {
            Some(theirs) => Line::ratio(format!("COPY, {kind}: PostgreSQL"), rate(*seconds), rate(theirs)),
            None => Line::single(format!("COPY, {kind}"), rate(*seconds)),
        });
        self.lines.extend(lines);
        Ok(loaded)
    }

    /// Exports each table to a file; returns their names and paths.
    async fn export(&mut self, from: &Side, store: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
        let Side::Server { client } = from else { return Ok(Vec::new()) };
        for table in &TABLES {
            self.progress.phase(&format!("export {}", table.name), None);
            let name = table.name;
            client.execute(&format!("COPY (SELECT * FROM {name}) TO '{name}.parquet' (FORMAT parquet)"), &[]).await?;
        }
        let folders = std::fs::read_dir(store.join("exports"))?.collect::<Result<Vec<_>, _>>()?;
        let folder = folders.iter().map(std::fs::DirEntry::path).find(|path| path.is_dir()).context("no exports")?;
        Ok(TABLES.iter().map(|table| (table.name, folder.join(format!("{}.parquet", table.name)))).collect())
    }

    /// Starts DuckDB, if Python has it, on tables of its own in `own`, made of the files.
    fn duckdb(&mut self, files: &[(&str, PathBuf)], own: &Path) -> Result<Option<DuckDb>> {
        let Some((mut duckdb, version)) = DuckDb::start(&self.options.python, own)? else {
            left_out("--python has no package duckdb");
            return Ok(None);
        };
        self.progress.phase("load into DuckDB", None);
        for (name, file) in files {
            let file = file.to_str().context("the file's name is no text")?;
            duckdb.run(&format!("CREATE TABLE {name} AS SELECT * FROM '{file}'"))?;
        }
        duckdb.run("CHECKPOINT")?;
        self.compared.push(format!("DuckDB {version}, on tables of its own in the order of the keys"));
        Ok(Some(duckdb))
    }

    /// Runs the statements on all sides.
    async fn measure(&mut self, ours: &mut [Named], others: &mut [Named]) -> Result<()> {
        let only = &self.options.only;
        let statements = statements(self.options.scale)?.into_iter().zip(1_u16..);
        let wanted = statements.filter(|(_, number)| only.is_empty() || only.contains(number));
        let mut ratios = vec![vec![Vec::new(); others.len()]; ours.len()];
        for (statement, _) in wanted {
            self.progress.phase(&statement.name, None);
            let too_slow = self.compare(&statement, ours, others).await?;
            let times = self.times(&statement, ours, others, &too_slow).await?;
            let (mine, theirs) = times.split_at(ours.len());
            for ((kind, seconds), ratios) in ours.iter().map(|(kind, _)| kind).zip(mine).zip(&mut ratios) {
                for (((name, _), other), ratios) in others.iter().zip(theirs).zip(ratios) {
                    ratios.push(seconds / other);
                    let over = if too_slow.contains(name) { " (did not end in time)" } else { "" };
                    let what = format!("{}, {kind}: {name}{over}", statement.name);
                    let line = Line::ratio(what, Quantity::seconds(*seconds), Quantity::seconds(*other));
                    let is_bound = *name == "Parquet";
                    self.lines.push(if is_bound { line.with(Target::AtMost(PARQUET_RATIO)) } else { line });
                }
            }
        }
        for ((kind, _), ratios) in ours.iter().zip(ratios) {
            for ((name, _), ratios) in others.iter().zip(ratios) {
                let what = format!("geometric mean, {kind}: {name}");
                let line = Line::single(what, Quantity::times(geometric_mean(&ratios)));
                self.lines.push(match *name {
                    "Parquet" => line.with(Target::AtMost(PARQUET_MEAN)),
                    "PostgreSQL" => line.with(Target::AtMost(POSTGRES_MEAN)),
                    _ => line,
                });
            }
        }
        Ok(())
    }

    /// Compares the answers of all sides to that of the first; returns those of the others that did not end in time.
    async fn compare(
        &self,
        statement: &Statement,
        ours: &mut [Named],
        others: &mut [Named],
    ) -> Result<Vec<&'static str>> {
        let (mut expected, mut too_slow) = (None, Vec::new());
        let count = ours.len();
        for (at, (name, side)) in ours.iter_mut().chain(others).enumerate() {
            let rows = match side.rows(&statement.sql).await {
                Err(error) if at >= count && sides::is_too_slow(&error) => {
                    too_slow.push(*name);
                    continue;
                }
                rows => rows.with_context(|| format!("{}, {name}", statement.name))?,
            };
            let expected = expected.get_or_insert_with(|| rows.clone());
            ensure!(
                sides::same(&rows, expected),
                "{name} answers {} with {rows:?}, Keyspan's own tables with {expected:?}",
                statement.name
            );
        }
        Ok(too_slow)
    }

    /// The median seconds of a statement on each side; the time-out, which is too short a time, for those too slow.
    async fn times(
        &self,
        statement: &Statement,
        ours: &mut [Named],
        others: &mut [Named],
        too_slow: &[&str],
    ) -> Result<Vec<f64>> {
        let mut times = vec![Vec::new(); ours.len() + others.len()];
        for round in 0..=self.options.rounds {
            for ((name, side), times) in ours.iter_mut().chain(others.iter_mut()).zip(&mut times) {
                if too_slow.contains(name) {
                    times.push(f64::from(self.options.timeout));
                    continue;
                }
                let seconds = side.time(&statement.sql).await.with_context(|| format!("{}, {name}", statement.name))?;
                if round > 0 {
                    times.push(seconds);
                }
            }
        }
        Ok(times.into_iter().map(median).collect())
    }
}

/// The geometric mean; 1 if there are none.
fn geometric_mean(of: &[f64]) -> f64 {
    if of.is_empty() { 1.0 } else { (of.iter().map(|ratio| ratio.ln()).sum::<f64>() / of.len() as f64).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_scales_are_checked() {
        assert!((geometric_mean(&[0.5, 2.0, 8.0]) - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 1.0);
        assert_eq!(scale("0.3"), Ok(0.3));
        assert_eq!(scale("0.01"), Ok(SCALE_MIN));
        assert!(scale("0").is_err() && scale("0.012").is_err() && scale("NaN").is_err() && scale("x").is_err());
    }
}
