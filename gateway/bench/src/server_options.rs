//! The options of every bench that starts a server of this program and, where it is installed, PostgreSQL beside it.

use super::postgres::Postgres;
use anyhow::Result;
use clap::Args;
use keyspan_gateway::resources::{Memory, Size};
use std::{
    io::{Write, stderr},
    path::{Path, PathBuf},
};
use tokio_postgres::Config;

/// How the servers are started, and how the report is printed.
#[derive(Clone, Debug, Args)]
pub struct ServerBenchOptions {
    /// Memory that each server may take [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,

    /// The folder in which the temporary folder is made [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// Leave PostgreSQL out.
    #[arg(long)]
    pub without_postgres: bool,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl ServerBenchOptions {
    /// The memory of each server.
    ///
    /// # Errors
    /// If `--memory` is too small.
    pub(super) fn memory(&self) -> Result<Memory> {
        Ok(Memory::of_machine(self.memory, None)?)
    }

    /// Starts PostgreSQL in `folder`, with the memory of a server. Gives `None`, and says so on standard error, if it
    /// is not installed; `None` too if `--without-postgres` leaves it out.
    ///
    /// # Errors
    /// If the cluster cannot be made or started.
    pub(super) fn postgres(&self, memory: &Memory, folder: &Path) -> Result<Option<(Postgres, Config)>> {
        if self.without_postgres {
            return Ok(None);
        }
        let started = Postgres::start(Size(memory.all_bytes), folder)?;
        if started.is_none() {
            left_out("PostgreSQL is not installed (no initdb and postgres)");
        }
        Ok(started)
    }
}

/// Says on standard error why the bench leaves a competitor out.
pub(super) fn left_out(why: &str) {
    // Nobody may be listening.
    let _ = writeln!(stderr(), "left out: {why}");
}
