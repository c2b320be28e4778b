//! Those who are compared: two servers through the wire, DataFusion on a plain Parquet file in this process, DuckDB in a process of Python.
//!
//! Each can be made [cold](Side::chill): started again, with none of its files in the system's cache.

use super::{
    super::{
        postgres::Postgres,
        server::{Server, connect},
    },
    set::Query,
};
use crate::{
    query::{
        runtime,
        state::{BATCH_ROWS, STREAMS},
    },
    resources::Size,
};
use anyhow::{Context, Result, bail, ensure};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Float64Type},
};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
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

/// Tells, of one query each line of its input has, how long it took and the numbers of its first row.
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

/// One of those who are compared.
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
    /// Runs a query and takes all of its rows. Gives the seconds.
    ///
    /// # Errors
    /// The query's.
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

    /// The numbers that say what the query's answer is.
    ///
    /// # Errors
    /// The query's.
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

    /// Starts it again, and takes its files out of the system's cache. It has answered a query that reads no row by then, so that what comes
    /// next does not make what every first query makes.
    ///
    /// # Errors
    /// When it does not start, or files cannot be read.
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

/// Takes a file, or all files of a folder, out of the system's cache.
fn forget(path: &Path) -> Result<()> {
    if path.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| forget(&entry?.path()));
    }
    match File::open(path) {
        Ok(file) => {
            // What is not written yet would stay.
            file.sync_all()?;
            forget_pages(&file)
        }
        // One of a server that runs, which is gone by now, or a socket.
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

/// DataFusion on a file, with as many streams and batches as large as Keyspan's.
///
/// # Errors
/// DataFusion's.
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

/// DuckDB, which ends with the run.
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

/// What it says, of itself and of queries.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    version: String,
    /// Until the last row was taken.
    pub(super) seconds: f64,
    first: Vec<f64>,
    error: Option<String>,
}

impl DuckDb {
    /// Starts it on a file of its own, with its version; `None` where this Python has no DuckDB.
    ///
    /// # Errors
    /// When it says what nobody understands.
    pub(super) fn start(python: &Path, file: &Path) -> Result<Option<(Self, String)>> {
        let mut command = Command::new(python);
        command.args(["-c", DUCKDB]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut process) = command.spawn() else { return Ok(None) };
        let (input, output) = (process.stdin.take().context("a pipe")?, process.stdout.take().context("a pipe")?);
        let mut started = Self { process, input, output: BufReader::new(output).lines() };
        let Some(line) = started.output.next().transpose()? else { return Ok(None) };
        let told: Told = serde_json::from_str(&line)?;
        started.run("SET TimeZone = 'UTC'")?;
        Ok(Some((started, told.version)))
    }

    /// Ends it. It may have ended by itself.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// DuckDB's.
    pub(super) fn run(&mut self, sql: &str) -> Result<Told> {
        writeln!(self.input, "{}", json!(sql))?;
        let line = self.output.next().context("DuckDB ended")??;
        let told: Told = serde_json::from_str(&line)?;
        match told.error {
            Some(error) => bail!("DuckDB: {error}"),
            None => Ok(told),
        }
    }
}

/// Whether two answers are the same, but for how floating-point sums are rounded.
///
/// # Errors
/// They are not.
pub(super) fn compare(name: &str, query: &Query, found: &[f64], expected: &[f64]) -> Result<()> {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
    let same = found.len() == expected.len() && found.iter().zip(expected).all(close);
    ensure!(same, "{name} answers {} with {found:?}, Keyspan with {expected:?}", query.name);
    Ok(())
}
