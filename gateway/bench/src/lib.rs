//! `keyspan bench`: what is promised of speed, space and memory, measured on this machine. Only the program imports
//! this crate, and a test [`tpch`].
//!
//! | command | module | measures |
//! |---|---|---|
//! | `scan` | [`phases`] | what a store costs over plain Parquet files, in ratios of one run on one machine |
//! | `memory` | [`memory`] | the memory of a server that works on many times its memory |
//! | `point` | [`point`] | short prepared statements through the wire, beside PostgreSQL |
//! | `queries` | [`queries`] | queries of benchmarks of time series, beside PostgreSQL, DuckDB and plain Parquet |
//! | `tpch` | [`tpch`] | the statements of TPC-H, beside PostgreSQL, DuckDB and plain Parquet |
//! | `tenants` | [`tenants`] | drops of tenants, and queries across them |
//! | `fair` | [`fair`] | what a tenant notices of its neighbours |
//! | `ycsb` | [`ycsb`] | mixes of reads and writes of a key-value table |
//! | `wide` | [`wide`] | rows of an open family beside jsonb in PostgreSQL |
//! | `bigtable` | [`bigtable`] | SQL over a table on a server of Bigtable, beside a bare client |
//! | `wire` | [`wire`] | many rows in text and in binary, and connections that wait |
//!
//! Those with servers share [`server`], [`postgres`], [`duckdb`] and [`server_options`]. The modules of `keyspan bench scan`:
//!
//! ```text
//! data      rows made from a seed: the expected content of the table after each change
//! store     the table in a store of its own: load, update, delete, flush, compact; sessions without a wire
//! plain     the same rows as plain Parquet files, read by DataFusion alone
//! rounds    one query on both sides in turn; the answers are compared to those of `data` before times count
//! phases    the steps of the run, in order
//! report    a table of ratios, each with its target
//! ```
//!
//! Everything lies in a temporary folder, which is removed at the end, also of a run that failed or was stopped.

mod bigtable;
mod copied;
mod data;
mod duckdb;
mod fair;
mod measure;
mod memory;
mod phases;
mod plain;
mod point;
mod postgres;
mod progress;
mod queries;
mod report;
mod rounds;
mod server;
mod server_options;
mod signals;
mod store;
mod tenants;
pub mod tpch;
mod wide;
mod wire;
mod ycsb;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use keyspan_gateway::resources::Size;
use serde::Serialize;
pub use signals::Signals;
use std::{
    env,
    fmt::Display,
    io::{Write, stdout},
    path::{Path, PathBuf},
};

/// After the help of `keyspan bench scan`.
pub const SCAN_HELP: &str = "\
A table of readings (8 tenants, up to 10,000 devices, 10 columns) is loaded in order of time into a store in a temporary folder, then
scanned, updated, compacted, deleted from. Queries go the way of those of clients, without the wire: session, DataFusion, store. They are
compared to DataFusion alone on plain Parquet files: of the same layout (rows, row groups, pages, codec as in the store's segments) and of
DataFusion's own. Both sides run in turn, on the same threads and with the same number of streams, and their answers are checked against what
was written. Ratios are medians over rounds, so that what else the machine does concerns both sides.

A target stands beside each ratio that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer
is wrong or something fails.

Ten million rows take some 5 GB of disk and a quarter of an hour on two cores. The folder is removed at the end.

Examples:
  keyspan bench scan
  keyspan bench scan --rows 1000000 --path /mnt/fast
  keyspan bench scan --memory 512MiB --json > run.json";

/// The measurements, one subcommand each.
#[derive(Clone, Debug, Subcommand)]
pub enum Bench {
    /// Measure scans, space, start-up, writes and memory against plain Parquet files.
    #[command(after_help = SCAN_HELP)]
    Scan {
        /// What to measure.
        #[command(flatten)]
        scan: ScanOptions,
    },
    /// Measure the memory of a server that works on many times its memory.
    #[command(after_help = memory::MEMORY_HELP)]
    Memory {
        /// What to measure.
        #[command(flatten)]
        memory: memory::MemoryOptions,
    },
    /// Measure short prepared statements through the wire, beside PostgreSQL where it is installed.
    #[command(after_help = point::POINT_HELP)]
    Point {
        /// What to measure.
        #[command(flatten)]
        point: point::PointOptions,
    },
    /// Measure the queries of benchmarks of time series beside PostgreSQL, DuckDB and a plain Parquet file.
    #[command(after_help = queries::QUERIES_HELP)]
    Queries {
        /// What to measure.
        #[command(flatten)]
        queries: queries::QueriesOptions,
    },
    /// Measure the statements of TPC-H beside PostgreSQL, DuckDB and plain Parquet files.
    #[command(after_help = tpch::TPCH_HELP)]
    Tpch {
        /// What to measure.
        #[command(flatten)]
        tpch: tpch::TpchOptions,
    },
    /// Measure drops of tenants, queries across them and wide sparse rows beside PostgreSQL.
    #[command(after_help = tenants::TENANTS_HELP)]
    Tenants {
        /// What to measure.
        #[command(flatten)]
        tenants: tenants::TenantsOptions,
    },
    /// Measure what a tenant notices of its neighbours.
    #[command(after_help = fair::FAIR_HELP)]
    Fair {
        /// What to measure.
        #[command(flatten)]
        fair: fair::FairOptions,
    },
    /// Measure the mixes of reads and writes of YCSB beside PostgreSQL.
    #[command(after_help = ycsb::YCSB_HELP)]
    Ycsb {
        /// What to measure.
        #[command(flatten)]
        ycsb: ycsb::YcsbOptions,
    },
    /// Measure rows of an open family beside jsonb in PostgreSQL.
    #[command(after_help = wide::WIDE_HELP)]
    Wide {
        /// What to measure.
        #[command(flatten)]
        wide: wide::WideOptions,
    },
    /// Measure SQL over a table on a server of Bigtable beside a bare client.
    #[command(after_help = bigtable::BIGTABLE_HELP)]
    Bigtable {
        /// What to measure.
        #[command(flatten)]
        bigtable: bigtable::BigtableOptions,
    },
    /// Measure many rows through the wire beside PostgreSQL, and the memory of idle connections.
    #[command(after_help = wire::WIRE_HELP)]
    Wire {
        /// What to measure.
        #[command(flatten)]
        wire: wire::WireOptions,
    },
}

/// What `keyspan bench scan` takes.
#[derive(Clone, Debug, Args)]
pub struct ScanOptions {
    /// Rows of the table.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    pub rows: u64,

    /// How often each query runs on each side, after one run that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// The folder in which the temporary folder is made [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// Memory that the store and its queries may take, as keyspan serve --memory [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,

    /// What the rows are made from: the same seed gives the same rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Print JSON instead of a table: seconds, bytes and ratios as numbers.
    #[arg(long)]
    pub json: bool,
}

/// Runs a measurement and prints its report.
///
/// # Errors
/// When an answer is wrong, something fails, or a signal came.
pub async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Scan { scan } => {
            let run = async |folder: &Path| Box::pin(phases::run(&scan, folder)).await;
            in_folder(scan.path.as_ref(), scan.json, run).await
        }
        Bench::Memory { memory } => {
            let run = async |folder: &Path| Box::pin(memory::run(&memory, folder)).await;
            in_folder(memory.path.as_ref(), memory.json, run).await
        }
        Bench::Point { point } => {
            let run = async |folder: &Path| Box::pin(point::run(&point, folder)).await;
            in_folder(point.server.path.as_ref(), point.server.json, run).await
        }
        Bench::Queries { queries } => {
            let run = async |folder: &Path| Box::pin(queries::run(&queries, folder)).await;
            in_folder(queries.server.path.as_ref(), queries.server.json, run).await
        }
        Bench::Tpch { tpch } => {
            let run = async |folder: &Path| Box::pin(tpch::run(&tpch, folder)).await;
            in_folder(tpch.server.path.as_ref(), tpch.server.json, run).await
        }
        Bench::Tenants { tenants } => {
            let run = async |folder: &Path| Box::pin(tenants::run(&tenants, folder)).await;
            in_folder(tenants.server.path.as_ref(), tenants.server.json, run).await
        }
        Bench::Fair { fair } => {
            let run = async |folder: &Path| Box::pin(fair::run(&fair, folder)).await;
            in_folder(fair.path.as_ref(), fair.json, run).await
        }
        Bench::Ycsb { ycsb } => {
            let run = async |folder: &Path| Box::pin(ycsb::run(&ycsb, folder)).await;
            in_folder(ycsb.server.path.as_ref(), ycsb.server.json, run).await
        }
        Bench::Wide { wide } => {
            let run = async |folder: &Path| Box::pin(wide::run(&wide, folder)).await;
            in_folder(wide.server.path.as_ref(), wide.server.json, run).await
        }
        Bench::Bigtable { bigtable } => {
            let run = async |folder: &Path| Box::pin(bigtable::run(&bigtable, folder)).await;
            in_folder(bigtable.path.as_ref(), bigtable.json, run).await
        }
        Bench::Wire { wire } => {
            let run = async |folder: &Path| Box::pin(wire::run(&wire, folder)).await;
            in_folder(wire.server.path.as_ref(), wire.server.json, run).await
        }
    }
}

/// Runs in a temporary folder, and prints the report.
async fn in_folder<R: Display + Serialize>(
    path: Option<&PathBuf>,
    json: bool,
    run: impl AsyncFnOnce(&Path) -> Result<R>,
) -> Result<()> {
    let path = path.cloned().unwrap_or_else(env::temp_dir);
    let failed = || format!("cannot make a folder in {}", path.display());
    let folder = tempfile::Builder::new().prefix("keyspan-bench-").tempdir_in(&path).with_context(failed)?;
    let mut signals = Signals::new()?;
    let done = tokio::select! {
        done = run(folder.path()) => done,
        () = signals.next() => Err(anyhow!("stopped by a signal")),
    };
    let path = folder.path().to_owned();
    let removed = folder.close().with_context(|| format!("cannot remove {}", path.display()));
    let report = done.and_then(|report| removed.map(|()| report))?;
    let text = if json { serde_json::to_string_pretty(&report)? } else { report.to_string() };
    writeln!(stdout(), "{text}").context("cannot write to standard output")
}
