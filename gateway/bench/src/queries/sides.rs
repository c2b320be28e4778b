//! The systems that are compared: two servers through the wire, DataFusion on a plain Parquet file in this process,
//! DuckDB in a process of Python.
//!
//! Each can be made [cold](Side::chill): started again, with none of its files in the page cache.

use super::set::Query;
use crate::{
    postgres::Postgres,
    server::{Server, connect},
};
use anyhow::{Context, Result, bail, ensure};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type},
};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use keyspan_gateway::{
    query::runtime,
    resources::STREAMS,
    resources::{BATCH_ROWS, Size},
};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Lines, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

/// The Python program that runs DuckDB: for each query, one per line of input, it prints its seconds and the numbers of
/// its first row.
const DUCKDB: &str = "
import json, sys, time
import duckdb
table = duckdb.connect(sys.argv[1])
print(json.dumps({'version': duckdb.__version__}), flush=True)
for line in sys.stdin:
    begun = time.perf_counter()
    try:
        rows = table.execute(json.loads(line)).fetchall()
        seconds = time.perf_counter() - begun
        try:
            first = [float(value or 0) for value in rows[0]]
        except Exception:
            first = []
        print(json.dumps({'seconds': seconds, 'first': first}), flush=True)
    except Exception as error:
        print(json.dumps({'error': str(error)}), flush=True)
";

/// A system that is compared.
pub(super) enum Side {
    Keyspan {
        client: Client,
        server: Server,
        memory: Size,
        store: PathBuf,
    },
    Postgres {
        client: Client,
        server: Postgres,
    },
    /// DataFusion on a file.
    Parquet {
        context: SessionContext,
        file: PathBuf,
    },
    DuckDb {
        duckdb: DuckDb,
        python: PathBuf,
        file: PathBuf,
    },
}

/// The tenant's database in Keyspan.
pub(super) const DATABASE: &str = "bench";

impl Side {
    /// Runs a query and reads all of its rows; returns the seconds.
    ///
    /// # Errors
    /// If the query fails.
    pub(super) async fn time(&mut self, query: &Query) -> Result<f64> {
        let begun = Instant::now();
        match self {
            Self::Keyspan { client, .. } | Self::Postgres { client, .. } => {
                client.query(&query.sql, &[]).await.with_context(|| query.name)?;
            }
            Self::Parquet { context, .. } => {
                rows(context, &query.sql).await.with_context(|| query.name)?;
            }
            Self::DuckDb { duckdb, .. } => return Ok(duckdb.run(&query.sql).with_context(|| query.name)?.seconds),
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// The checksums of the query's answer.
    ///
    /// # Errors
    /// If the query fails.
    pub(super) async fn answer(&mut self, query: &Query) -> Result<Vec<f64>> {
        let sql = query.check();
        match self {
            Self::Keyspan { client, .. } | Self::Postgres { client, .. } => {
                let messages = client.simple_query(&sql).await.with_context(|| query.name)?;
                let row = messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                });
                let row = row.context("no row")?;
                (0..row.len()).map(|at| Ok(row.get(at).unwrap_or("0").parse()?)).collect()
            }
            Self::Parquet { context, .. } => {
                let batches = rows(context, &sql).await.with_context(|| query.name)?;
                let batch = batches.iter().find(|batch| batch.num_rows() > 0).context("no row")?;
                let first =
                    |column: &ArrayRef| Ok(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().value(0));
                batch.columns().iter().map(first).collect()
            }
            Self::DuckDb { duckdb, .. } => Ok(duckdb.run(&sql).with_context(|| query.name)?.first),
        }
    }

    /// Starts the system again, and drops its files from the page cache. It has run a query that reads no row by then,
    /// so that the next query does not pay the cost of every first query.
    ///
    /// # Errors
    /// If it does not start, or its files cannot be read.
    pub(super) async fn chill(&mut self) -> Result<()> {
        match self {
            Self::Keyspan { client, server, memory, store } => {
                let operator = server.restart(*memory, store)?;
                *client = connect(Config::dbname(&mut operator.clone(), DATABASE)).await?;
                client.query("SELECT 1", &[]).await?;
                forget(store)
            }
            Self::Postgres { client, server } => {
                *client = connect(&server.restart()?).await?;
                client.query("SELECT 1", &[]).await?;
                forget(server.folder())
            }
            Self::Parquet { context, file } => {
                *context = over(file).await?;
                forget(file)
            }
            Self::DuckDb { duckdb, python, file } => {
                duckdb.end();
                (*duckdb, _) = DuckDb::start(python, file)?.context("DuckDB does not start again")?;
                duckdb.run("SELECT 1")?;
                forget(file)
            }
        }
    }
}

/// Drops a file, or all files of a folder, from the page cache.
fn forget(path: &Path) -> Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| forget(&entry?.path()));
    }
    match File::open(path) {
        Ok(file) => {
            // Dirty pages would stay in the cache.
            file.sync_all()?;
            forget_pages(&file)
        }
        // A file that a running server has removed meanwhile, or a socket.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NXIO)) => Ok(()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(target_os = "linux")]
fn forget_pages(file: &File) -> Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn forget_pages(_: &File) -> Result<()> {
    bail!("this system does not take single files out of its cache")
}

/// DataFusion on a file, with Keyspan's number of streams and size of batches.
///
/// # Errors
/// Those of DataFusion.
pub(super) async fn parquet(file: &Path) -> Result<Side> {
    Ok(Side::Parquet { context: over(file).await?, file: file.to_owned() })
}

async fn over(file: &Path) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(STREAMS).with_batch_size(BATCH_ROWS);
    let context = SessionContext::new_with_config(config);
    let file = file.to_str().context("the file's name is no text")?;
    context.register_parquet("cpu", file, ParquetReadOptions::default()).await?;
    Ok(context)
}

async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    Ok(runtime::run(plan, context.task_ctx())?.try_collect().await?)
}

/// A process of DuckDB that ends with the run.
pub(super) struct DuckDb {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        self.end();
    }
}

/// A line of its output: its version, or the result of a query.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DuckDbResult {
    version: String,
    /// Seconds until the last row was read.
    pub(super) seconds: f64,
    first: Vec<f64>,
    error: Option<String>,
}

impl DuckDb {
    /// Starts DuckDB on a file of its own; returns its version, too, or `None` if this Python has no DuckDB.
    ///
    /// # Errors
    /// If its output cannot be parsed.
    pub(super) fn start(python: &Path, file: &Path) -> Result<Option<(Self, String)>> {
        let mut command = Command::new(python);
        command.args(["-c", DUCKDB]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut process) = command.spawn() else { return Ok(None) };
        let (input, output) = (process.stdin.take().context("a pipe")?, process.stdout.take().context("a pipe")?);
        let mut started = Self { process, input, output: BufReader::new(output).lines() };
        let Some(line) = started.output.next().transpose()? else { return Ok(None) };
        let result: DuckDbResult = serde_json::from_str(&line)?;
        started.run("SET TimeZone = 'UTC'")?;
        Ok(Some((started, result.version)))
    }

    /// Kills the process, which may have ended by itself.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// If DuckDB fails.
    pub(super) fn run(&mut self, sql: &str) -> Result<DuckDbResult> {
        writeln!(self.input, "{}", json!(sql))?;
        let line = self.output.next().context("DuckDB ended")??;
        let result: DuckDbResult = serde_json::from_str(&line)?;
        match result.error {
            Some(error) => bail!("DuckDB: {error}"),
            None => Ok(result),
        }
    }
}

/// Compares two answers, up to the rounding of floating-point sums.
///
/// # Errors
/// If they differ.
pub(super) fn compare(name: &str, query: &Query, found: &[f64], expected: &[f64]) -> Result<()> {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    let same = found.len() == expected.len() && found.iter().zip(expected).all(close);
    ensure!(same, "{name} answers {} with {found:?}, Keyspan with {expected:?}", query.name);
    Ok(())
}
