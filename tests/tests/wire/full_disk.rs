//! A full disk: writes fail with 53100, reads go on, and writing resumes when there is room, without a restart; nothing
//! that was acknowledged is lost, nothing that was refused is there, also after a start on the full disk.
//!
//! The server may free room by itself (files of the log, inputs of compactions) and take a write again, so nothing here
//! relies on a disk that stays full: a ballast takes what is free before each statement, each statement is done or
//! refused with 53100, and a record of those that were done is what reads are held against. That a refusal comes is
//! certain, since what was acknowledged takes room for good.
//!
//! Once over a simulated disk, everywhere, and once over a tmpfs, where the machine lets the test mount one.

use super::{
    command::{Serving, keyspan},
    harness::{
        Harness, PASSWORD, connect,
        disk::{Disk, SmallDisk, Tmpfs},
        error, rows,
    },
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::{collections::BTreeMap, io::Write};
use tokio_postgres::Client;

/// Rows of a statement, each with a value of [`VALUE_BYTES`], every second byte of which is random.
const STATEMENT_ROWS: i64 = 100;
const VALUE_BYTES: i64 = 256;
const DISK_MEBIBYTES: u32 = 6;
/// Statements that no disk of these tests has room for: half of their bytes cannot be compressed.
const STATEMENTS_MAX: i64 = 2 * ((DISK_MEBIBYTES as i64) << 20) / (STATEMENT_ROWS * VALUE_BYTES);
const LOG_FILE_BYTES: u64 = 128 << 10;
const MEMTABLE_BYTES: u64 = 64 << 10;
/// Statements of each kind on a disk that is filled before each.
const STATEMENTS_WHEN_FULL: usize = 4;
/// Statements until one is done after room was made: what was begun on the full disk may end meanwhile.
const ATTEMPTS_MAX: usize = 10;

fn insert(statement: i64) -> String {
    format!("INSERT INTO t {}", values(statement))
}

fn values(statement: i64) -> String {
    let value: Vec<String> = (0..8).map(|at| format!("md5({statement} || ':' || k || ':{at}')")).collect();
    format!("SELECT {statement}, k, 0, {} FROM generate_series(1, {STATEMENT_ROWS}) AS g(k)", value.join(" || "))
}

/// What was acknowledged: the statements whose rows are there, and how often each was updated.
#[derive(Default)]
struct Record {
    updates: BTreeMap<i64, i64>,
    next: i64,
}

/// Whether it was done. Anything but done and refused for want of room is an error.
fn outcome(done: Result<(), tokio_postgres::Error>) -> Result<bool> {
    let Err(failed) = done else { return Ok(true) };
    let error = failed.as_db_error().with_context(|| format!("no error of the server: {failed:?}"))?;
    anyhow::ensure!(error.code().code() == "53100", "{error:?}");
    assert!(error.message().starts_with("no space left to write "), "{error:?}");
    assert_eq!(error.hint(), Some("Reads go on. Writes do again when there is room."));
    Ok(false)
}

impl Record {
    async fn insert(&mut self, client: &Client) -> Result<bool> {
        let done = outcome(client.batch_execute(&insert(self.next)).await)?;
        if done {
            self.updates.insert(self.next, 0);
        }
        self.next += 1;
        Ok(done)
    }

    /// Two statements in a transaction.
    async fn transaction(&mut self, client: &mut Client) -> Result<bool> {
        let transaction = client.transaction().await?;
        transaction.batch_execute(&insert(self.next)).await?;
        transaction.batch_execute(&insert(self.next + 1)).await?;
        let done = outcome(transaction.commit().await)?;
        if done {
            self.updates.extend([(self.next, 0), (self.next + 1, 0)]);
        }
        self.next += 2;
        Ok(done)
    }

    async fn update(&mut self, client: &Client) -> Result<bool> {
        let (&statement, _) = self.updates.iter().next().context("a statement")?;
        let done = outcome(client.batch_execute(&format!("UPDATE t SET n = n + 1 WHERE s = {statement}")).await)?;
        *self.updates.entry(statement).or_default() += i64::from(done);
        Ok(done)
    }

    async fn delete(&mut self, client: &Client) -> Result<bool> {
        let (&statement, _) = self.updates.iter().next().context("a statement")?;
        let done = outcome(client.batch_execute(&format!("DELETE FROM t WHERE s = {statement}")).await)?;
        if done {
            self.updates.remove(&statement);
        }
        Ok(done)
    }

    /// What was acknowledged is there, whole, by each way to read, and nothing else.
    async fn check(&self, client: &Client) -> Result<()> {
        let of = |(statement, updates): (&i64, &i64)| format!("{statement}|{STATEMENT_ROWS}|{updates}|{updates}");
        let expected: Vec<String> = self.updates.iter().map(of).collect();
        for columnar in ["on", "off"] {
            client.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
            let sql = format!(
                "SELECT s, count(*), min(n), max(n) FROM t WHERE length(v) = {VALUE_BYTES} GROUP BY s ORDER BY s"
            );
            assert_eq!(rows(client, &sql).await?, expected, "columnar {columnar}");
        }
        let (&last, _) = self.updates.iter().next_back().context("a statement")?;
        let point = format!("SELECT substr(v, 1, 32) = md5('{last}:7:0') FROM t WHERE s = {last} AND k = 7");
        assert_eq!(rows(client, &point).await?, ["t"]);
        Ok(())
    }

    /// Writes, the disk filled before each statement, until one is refused.
    async fn write_until_refused(&mut self, disk: &impl Disk, client: &Client) -> Result<()> {
        let last = self.next + STATEMENTS_MAX;
        while self.next < last {
            disk.fill()?;
            if !self.insert(client).await? {
                return Ok(());
            }
        }
        anyhow::bail!("{STATEMENTS_MAX} statements fit on a disk that has no room for them")
    }

    /// Writes until a statement is done.
    async fn write_until_done(&mut self, client: &Client) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            if self.insert(client).await? {
                return Ok(());
            }
        }
        anyhow::bail!("{ATTEMPTS_MAX} statements were refused though there is room")
    }

    /// Every kind of statement on a full disk; each is done or not, and whole. Definitions too.
    async fn write_when_full(&mut self, disk: &impl Disk, client: &mut Client) -> Result<()> {
        for _ in 0..STATEMENTS_WHEN_FULL {
            disk.fill()?;
            self.transaction(client).await?;
            disk.fill()?;
            self.update(client).await?;
            self.check(client).await?;
        }
        disk.fill()?;
        self.delete(client).await?;
        self.check(client).await
    }
}

const TABLE: &str = "CREATE TABLE t (s bigint, k bigint, n bigint, v text, PRIMARY KEY (s, k))";

/// Fills the disk, tries every kind of statement, makes room, goes on; a second time, after which the disk is full.
async fn fill_and_resume(record: &mut Record, disk: &impl Disk, operator: &Client, client: &mut Client) -> Result<()> {
    for _ in 0..3 {
        record.write_until_done(client).await?;
    }
    for _ in 0..2 {
        record.write_until_refused(disk, client).await?;
        record.check(client).await?;
        let all = record.updates.len() as i64 * STATEMENT_ROWS;
        assert_eq!(rows(operator, "SELECT count(*) FROM t").await?, [all.to_string()]);
        record.write_when_full(disk, client).await?;
        disk.empty()?;
        record.write_until_done(client).await?;
        record.check(client).await?;
    }
    record.write_until_refused(disk, client).await?;
    record.check(client).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_until_there_is_room() -> Result<()> {
    let disk = SmallDisk::new(u64::from(DISK_MEBIBYTES) << 20);
    let options = |options: &mut keyspan_storage::engine::EngineOptions| {
        options.fs = std::sync::Arc::new(disk.clone());
        options.log_file_bytes = LOG_FILE_BYTES;
        options.memtable_bytes = Some(MEMTABLE_BYTES);
    };
    let harness = Harness::start_engine(options).await?;
    let operator = harness.operator().await?;
    operator.batch_execute(TABLE).await?;
    let mut client = harness.tenant("one").await?;
    let mut record = Record::default();
    fill_and_resume(&mut record, &disk, &operator, &mut client).await?;

    // It starts on a full disk, for reading.
    let harness = harness.restart_engine(options).await?;
    let client = harness.connect("one", "one").await?;
    record.check(&client).await?;
    disk.empty()?;
    record.write_until_done(&client).await?;
    record.check(&client).await
}

/// A server whose store is on the disk.
async fn serve(disk: &Tmpfs) -> Result<Serving> {
    let mut command = keyspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB", "--store"]).arg(disk.folder().join("store"));
    let (log, memtable) = (LOG_FILE_BYTES.to_string(), MEMTABLE_BYTES.to_string());
    command.args(["--log-file-size", &log, "--memtable-size", &memtable]).env("KEYSPAN_PASSWORD", PASSWORD);
    Serving::spawn(disk.inside(&command)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_is_full_refuses_writes_until_there_is_room() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = match Tmpfs::mount(folder.path(), DISK_MEBIBYTES).await {
        Ok(disk) => disk,
        Err(error) => {
            // Past the capture of the test's output: whoever runs the tests has to know.
            let told = "NOT RUN: a full tmpfs (this machine lets the test mount none); the simulated full disk is";
            writeln!(std::io::stderr(), "\n{told}: {error:#}\n")?;
            return Ok(());
        }
    };
    let serving = serve(&disk).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute(TABLE).await?;
    operator.batch_execute("CREATE DATABASE one").await?;
    operator.batch_execute(&format!("CREATE ROLE one LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("ALTER DATABASE one OWNER TO one").await?;
    let tenant = |serving: &Serving| {
        let mut config = serving.config(PASSWORD);
        config.user("one").dbname("one");
        config
    };
    let mut client = connect(&tenant(&serving)).await?;
    let mut record = Record::default();
    if let Err(failed) = fill_and_resume(&mut record, &disk, &operator, &mut client).await {
        let output = serving.signal(Signal::KILL).await?;
        anyhow::bail!("{failed:?}; {:?}, {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    // What queries write to files is on this disk as well; other queries go on.
    disk.fill()?;
    let spills = "SELECT count(*) FROM (SELECT repeat(md5(k::text), 20) AS v FROM generate_series(1, 100000) AS g(k) ORDER BY v OFFSET 1)";
    assert!(error(&client, spills).await.starts_with("53100 "), "{}", error(&client, spills).await);
    let export = error(&operator, "COPY t TO 't.parquet' (FORMAT parquet)").await;
    assert!(export.starts_with("53100 "), "{export}");
    record.check(&client).await?;

    // Killed and stopped on the full disk, it starts on it, for reading.
    let mut serving = serving;
    for signal in [Signal::KILL, Signal::TERM] {
        serving.signal(signal).await?;
        disk.fill()?;
        serving = serve(&disk).await?;
        client = connect(&tenant(&serving)).await?;
        record.check(&client).await?;
    }
    disk.empty()?;
    record.write_until_done(&client).await?;
    record.check(&client).await?;
    assert_eq!(serving.signal(Signal::TERM).await?.status.code(), Some(0));
    Ok(())
}
