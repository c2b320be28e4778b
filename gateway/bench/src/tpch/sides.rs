//! The systems that are compared, and how their answers are.

use crate::{duckdb::DuckDb, tenants::answer};
use anyhow::{Context, Result};
use arrow::{
    array::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::TryStreamExt;
use keyspan_gateway::{
    query::runtime,
    resources::{BATCH_ROWS, STREAMS},
};
use std::{path::PathBuf, time::Instant};
use tokio_postgres::{Client, error::SqlState};

/// A system that is compared.
pub(super) enum Side {
    /// Keyspan or PostgreSQL.
    Server { client: Client },
    /// DataFusion on files.
    Parquet { context: SessionContext },
    /// DuckDB on tables of its own.
    DuckDb { duckdb: DuckDb },
}

impl Side {
    /// Runs a statement and reads all of its rows; returns the seconds.
    ///
    /// # Errors
    /// If the statement fails.
    pub(super) async fn time(&mut self, sql: &str) -> Result<f64> {
        let begun = Instant::now();
        match self {
            Self::Server { client } => drop(client.query(sql, &[]).await?),
            Self::Parquet { context } => drop(batches(context, sql).await?),
            Self::DuckDb { duckdb } => return Ok(duckdb.run(sql)?.seconds),
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// The rows of a statement as texts.
    ///
    /// # Errors
    /// If the statement fails.
    pub(super) async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        match self {
            Self::Server { client } => answer(client, sql).await,
            Self::Parquet { context } => {
                let mut rows = Vec::new();
                for batch in batches(context, sql).await? {
                    texts(&batch, &mut rows)?;
                }
                Ok(rows)
            }
            Self::DuckDb { duckdb } => duckdb.rows(sql),
        }
    }
}

/// DataFusion on files, with Keyspan's number of streams and size of batches.
///
/// # Errors
/// Those of DataFusion.
pub(super) async fn parquet(files: &[(&str, PathBuf)]) -> Result<Side> {
    let config = SessionConfig::new().with_target_partitions(STREAMS).with_batch_size(BATCH_ROWS);
    let context = SessionContext::new_with_config(config);
    for (name, file) in files {
        let file = file.to_str().context("the file's name is no text")?;
        context.register_parquet(*name, file, ParquetReadOptions::default()).await?;
    }
    Ok(Side::Parquet { context })
}

async fn batches(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    Ok(runtime::run(plan, context.task_ctx())?.try_collect().await?)
}

fn texts(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> Result<()> {
    let options = FormatOptions::new().with_null("NULL");
    let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()));
    Ok(())
}

/// Whether a server gave a statement up after the time-out.
pub(super) fn is_too_slow(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tokio_postgres::Error>();
    error.and_then(tokio_postgres::Error::code) == Some(&SqlState::QUERY_CANCELED)
}

/// Whether two answers are the same: numbers up to the fifth digit, since systems divide to different scales.
pub(super) fn same(a: &[Vec<String>], b: &[Vec<String>]) -> bool {
    let alike = |a: &String, b: &String| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1.0),
        _ => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_by_value() {
        let rows = |cells: &[&str]| vec![cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
        assert!(same(&rows(&["a", "0.0499852", "100.00"]), &rows(&["a", "0.04998529583840", "100"])));
        assert!(!same(&rows(&["a"]), &rows(&["b"])));
        assert!(!same(&rows(&["123456.1"]), &rows(&["123459.1"])));
        assert!(!same(&rows(&["1", "2"]), &rows(&["1"])));
        assert!(!same(&rows(&["1"]), &[]));
    }
}
