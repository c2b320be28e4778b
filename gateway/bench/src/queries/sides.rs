//! The systems that are compared: two servers through the wire, DataFusion on a plain Parquet file in this process,
//! DuckDB in a process of Python.
//!
//! Each can be made [cold](Side::chill): started again, with none of its files in the page cache.

use super::set::Query;
use crate::{
    duckdb::DuckDb,
    postgres::Postgres,
    server::{Server, connect},
};
#[cfg(not(target_os = "linux"))]
use anyhow::bail;
use anyhow::{Context, Result, ensure};
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
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

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
