//! DuckDB, in a process of Python.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// The Python program that runs DuckDB: for each line of input, a query and whether its rows are wanted, it prints the
/// query's seconds, the numbers of its first row, and its rows as texts if they are wanted.
const DUCKDB: &str = "
import json, sys, time
import duckdb
table = duckdb.connect(sys.argv[1])
table.execute('SET enable_progress_bar = false')
print(json.dumps({'version': duckdb.__version__}), flush=True)
for line in sys.stdin:
    sql, wanted = json.loads(line)
    begun = time.perf_counter()
    try:
        rows = table.execute(sql).fetchall()
        seconds = time.perf_counter() - begun
        try:
            first = [float(value or 0) for value in rows[0]]
        except Exception:
            first = []
        texts = [['NULL' if value is None else str(value) for value in row] for row in rows] if wanted else []
        print(json.dumps({'seconds': seconds, 'first': first, 'rows': texts}), flush=True)
    except Exception as error:
        print(json.dumps({'error': str(error)}), flush=True)
";

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
    /// The numbers of the first row; none if one of its values is no number.
    pub(super) first: Vec<f64>,
    /// All rows, as texts, where they were asked for.
    rows: Vec<Vec<String>>,
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
    pub(super) fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// If DuckDB fails.
    pub(super) fn run(&mut self, sql: &str) -> Result<DuckDbResult> {
        self.ask(&json!([sql, false]))
    }

    /// The rows of a query as texts, NULL as `NULL`.
    ///
    /// # Errors
    /// If DuckDB fails.
    pub(super) fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        Ok(self.ask(&json!([sql, true]))?.rows)
    }

    fn ask(&mut self, request: &Value) -> Result<DuckDbResult> {
        writeln!(self.input, "{request}")?;
        let line = self.output.next().context("DuckDB ended")??;
        let result: DuckDbResult = serde_json::from_str(&line)?;
        match result.error {
            Some(error) => bail!("DuckDB: {error}"),
            None => Ok(result),
        }
    }
}
