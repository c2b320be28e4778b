//! The process as crashes meet it: `kill -9` and SIGTERM while clients write and the store flushes and compacts, a log
//! that was damaged or cut, a drop cut short.
//!
//! Every test keeps its own record of what the server acknowledged, and compares it with what the next start serves.

mod migrations;
mod writers;

use self::writers::Record;
use super::{
    command::{Serving, keyspan},
    harness::{connect, rows},
};
use anyhow::{Context, Result};
use keyspan_catalog::{Catalog, Edit, TenantId};
use keyspan_storage::engine::{Engine, EngineOptions};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use tokio_postgres::Config;

const PASSWORD: &str = "a password";

async fn start(store: &Path) -> Result<Serving> {
    Serving::start(store, Some(PASSWORD)).await
}

/// Tenants `alto` and `altostrat`, each with a role of its name, and a table.
async fn define(serving: &Serving) -> Result<()> {
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator
        .batch_execute("CREATE TABLE t (writer bigint, statement bigint, part bigint, v text, PRIMARY KEY (writer, statement, part))")
        .await?;
    operator.batch_execute("CREATE TABLE counters (writer bigint PRIMARY KEY, n bigint)").await?;
    for tenant in ["alto", "altostrat"] {
        operator.batch_execute(&format!("CREATE ROLE {tenant} LOGIN PASSWORD '{PASSWORD}'")).await?;
        operator.batch_execute(&format!("CREATE DATABASE {tenant} OWNER {tenant}")).await?;
    }
    Ok(())
}

fn tenant(serving: &Serving, id: &str) -> Config {
    let mut config = serving.config(PASSWORD);
    config.user(id).dbname(id);
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_loses_no_acknowledged_row_and_leaves_no_half_statement() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut serving = start(folder.path()).await?;
    define(&serving).await?;
    let mut record = Record::default();
    for round in 0..4 {
        // Not always at the same moment of the writers' statements.
        record.write_until(serving, 24 + 7 * round, Signal::KILL).await?;
        serving = start(folder.path()).await?;
        record.check(&serving).await?;
    }
    Ok(())
}

/// A server whose memtables are full after a few statements.
async fn start_small(store: &Path) -> Result<Serving> {
    Serving::start_with(store, Some(PASSWORD), |command| {
        command.args(["--memtable-size", "64KiB"]);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_in_the_middle_of_flushes_and_compactions_lose_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut serving = start_small(folder.path()).await?;
    define(&serving).await?;
    let mut record = Record::default();
    for round in 0..10 {
        record.write_until(serving, 25 + 5 * (round % 4), Signal::KILL).await?;
        let checked = keyspan().args(["check", "--store"]).arg(folder.path()).output().await?;
        assert_eq!(
            checked.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat())
        );
        serving = start_small(folder.path()).await?;
        record.check(&serving).await?;
    }
    // It did flush and compact.
    let operator = connect(&serving.config(PASSWORD)).await?;
    let kinds = "SELECT DISTINCT kind FROM keyspan.segments ORDER BY 1";
    assert_eq!(rows(&operator, kinds).await?.first().map(String::as_str), Some("base"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_in_the_middle_of_migrations_leave_the_old_or_the_new() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut serving = start(folder.path()).await?;
    define(&serving).await?;
    migrations::begin(&connect(&tenant(&serving, "alto")).await?).await?;
    let mut next = 1;
    for round in 0..6 {
        let (acknowledged, mut listen) = tokio::sync::mpsc::unbounded_channel();
        let steps = tokio::spawn(migrations::go_on(tenant(&serving, "alto"), next, acknowledged));
        for _ in 0..2 + round % 3 {
            listen.recv().await.context("the steps have ended before the signal")?;
        }
        serving.signal(Signal::KILL).await?;
        let unanswered = steps.await?;
        serving = start(folder.path()).await?;
        let made = migrations::check(&connect(&tenant(&serving, "alto")).await?).await?;
        assert!(made == unanswered || made + 1 == unanswered, "{made} steps where {unanswered} had no answer");
        next = made + 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_statements_finish_and_answers_them() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = start(folder.path()).await?;
    define(&serving).await?;
    let mut record = Record::default();
    assert_eq!(record.write_until(serving, 24, Signal::TERM).await?, Some(0));
    let there = record.check(&start(folder.path()).await?).await?;
    assert_eq!(there, record.acknowledged, "what a drained server wrote, it has acknowledged");
    Ok(())
}

/// A store with one row of each of the texts, each written by a statement of its own.
async fn store_of(folder: &Path, texts: &[&str]) -> Result<()> {
    let serving = start(folder).await?;
    define(&serving).await?;
    let client = connect(&tenant(&serving, "alto")).await?;
    for (at, text) in texts.iter().enumerate() {
        client.batch_execute(&format!("INSERT INTO t VALUES (0, 0, {at}, '{text}')")).await?;
    }
    // No goodbye: the last frame is that of the last statement.
    serving.signal(Signal::KILL).await?;
    Ok(())
}

async fn texts(serving: &Serving) -> Result<Vec<String>> {
    rows(&connect(&tenant(serving, "alto")).await?, "SELECT v FROM t ORDER BY part").await
}

/// The first log file, and its beginning, which holds all that these tests write.
fn log_file(store: &Path) -> Result<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(store.join("wal"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let file = files.into_iter().next().context("a log file")?;
    let mut bytes = Vec::new();
    fs::File::open(&file)?.take(1 << 20).read_to_end(&mut bytes)?;
    Ok((file, bytes))
}

fn overwrite(file: &Path, offset: usize, bytes: &[u8]) -> Result<()> {
    Ok(OpenOptions::new().write(true).open(file)?.write_all_at(bytes, offset as u64)?)
}

/// Every file of a folder with its bytes.
fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(contents(&path)?),
            false => drop(all.insert(path.clone(), fs::read(&path)?)),
        }
    }
    Ok(all)
}

#[tokio::test]
async fn a_damaged_frame_in_the_middle_is_refused_and_nothing_changed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let all = ["the first", "the needle", "the last"];
    store_of(folder.path(), &all).await?;
    let (file, bytes) = log_file(folder.path())?;
    let at = bytes.windows(10).position(|window| window == b"the needle").context("the text is in the log")?;
    overwrite(&file, at, &[bytes[at] ^ 1])?;
    let damaged = contents(folder.path())?;
    // A second try must not find it mended either.
    for _ in 0..2 {
        let output =
            keyspan().args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(folder.path()).output().await?;
        let told = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(file.to_str().context("a path")?), "{told}");
        let byte = told.split("byte ").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let byte: usize = byte.context("it names a byte")?.parse()?;
        assert!(byte <= at && at - byte < 1_000, "byte {byte} is where the frame of byte {at} begins: {told}");
        assert!(contents(folder.path())? == damaged, "a start that was refused has changed the store");
    }
    overwrite(&file, at, &bytes[at..=at])?;
    assert_eq!(texts(&start(folder.path()).await?).await?, all);
    Ok(())
}

/// Where the bytes of the last frame end: after them the file is zeroes.
fn end_of_log(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[tokio::test]
async fn what_a_crash_left_behind_the_log_does_not_hinder_a_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    store_of(folder.path(), &["the first", "the last"]).await?;
    let (file, bytes) = log_file(folder.path())?;
    // The beginning of a frame that was never written whole.
    overwrite(&file, end_of_log(&bytes).next_multiple_of(8), &bytes[40..77])?;
    let serving = start(folder.path()).await?;
    assert_eq!(texts(&serving).await?, ["the first", "the last"]);
    let client = connect(&tenant(&serving, "alto")).await?;
    client.batch_execute("INSERT INTO t VALUES (0, 0, 2, 'one more')").await?;
    serving.signal(Signal::KILL).await?;
    assert_eq!(texts(&start(folder.path()).await?).await?, ["the first", "the last", "one more"]);
    Ok(())
}

#[tokio::test]
async fn a_frame_cut_at_the_end_takes_its_own_statement_only() -> Result<()> {
    let folder = tempfile::tempdir()?;
    store_of(folder.path(), &["the first", "the second", "the last"]).await?;
    let (file, bytes) = log_file(folder.path())?;
    let at = bytes.windows(8).position(|window| window == b"the last").context("the text is in the log")?;
    overwrite(&file, at, &vec![0; end_of_log(&bytes) - at])?;
    let serving = start(folder.path()).await?;
    assert_eq!(texts(&serving).await?, ["the first", "the second"]);
    let client = connect(&tenant(&serving, "alto")).await?;
    client.batch_execute("INSERT INTO t VALUES (0, 0, 2, 'instead')").await?;
    serving.signal(Signal::TERM).await?;
    assert_eq!(texts(&start(folder.path()).await?).await?, ["the first", "the second", "instead"]);
    Ok(())
}

/// Rows for the tenants: 30 of `alto`, 1 of `altostrat`.
async fn fill(serving: &Serving) -> Result<()> {
    let (alto, other) = (tenant(serving, "alto"), tenant(serving, "altostrat"));
    let insert = "INSERT INTO t SELECT 0, 0, generate_series, 'text' FROM generate_series(1, 30)";
    connect(&alto).await?.batch_execute(insert).await?;
    connect(&other).await?.batch_execute("INSERT INTO t VALUES (0, 0, 0, 'stays')").await?;
    Ok(())
}

/// The drop of `alto` is complete: a certificate, no row, and the name can be given again.
async fn check_dropped(serving: &Serving, rows_of_certificate: &[&str]) -> Result<()> {
    let operator = connect(&serving.config(PASSWORD)).await?;
    let certificates = rows(&operator, "SELECT tenant, rows FROM keyspan.drops").await?;
    assert_eq!(certificates.len(), 1, "{certificates:?}");
    assert!(rows_of_certificate.contains(&certificates[0].as_str()), "{certificates:?}");
    assert_eq!(rows(&operator, "SELECT tenant, v FROM t").await?, ["altostrat|stays"]);
    operator.batch_execute("CREATE DATABASE alto").await?;
    operator.batch_execute("ALTER DATABASE alto OWNER TO alto").await?;
    let again = connect(&tenant(serving, "alto")).await?;
    assert_eq!(rows(&again, "SELECT count(*) FROM t").await?, ["0"]);
    again.batch_execute("INSERT INTO t VALUES (0, 0, 0, 'new')").await?;
    assert_eq!(rows(&operator, "SELECT tenant, v FROM t").await?, ["alto|new", "altostrat|stays"]);
    Ok(())
}

#[tokio::test]
async fn a_drop_that_was_begun_is_finished_by_the_next_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = start(folder.path()).await?;
    define(&serving).await?;
    fill(&serving).await?;
    serving.signal(Signal::TERM).await?;
    // As DROP DATABASE leaves the store when it is killed after its first edit.
    let engine = Engine::open(EngineOptions::new(folder.path())).await?;
    let catalog = Catalog::open(engine).await?;
    catalog.commit(|_| Ok(Edit::BeginDropTenant(TenantId::new("alto")?))).await?;
    catalog.store().close().await?;
    drop(catalog);

    let serving = start(folder.path()).await?;
    check_dropped(&serving, &["alto|30"]).await?;
    serving.signal(Signal::TERM).await?;
    let operator = start(folder.path()).await?;
    let operator = connect(&operator.config(PASSWORD)).await?;
    assert_eq!(rows(&operator, "SELECT tenant, rows FROM keyspan.drops").await?, ["alto|30"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_drop_does_not_stop_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = start(folder.path()).await?;
    define(&serving).await?;
    fill(&serving).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    let dropping = connect(&serving.config(PASSWORD)).await?;
    let dropping = tokio::spawn(async move { dropping.batch_execute("DROP DATABASE alto WITH (FORCE)").await });
    while !rows(&operator, "SELECT datname FROM pg_database WHERE datname = 'alto'").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    // It is invisible: from now on it is gone, whatever happens.
    serving.signal(Signal::KILL).await?;
    // The answer may have come before the signal.
    let _ = dropping.await?;
    // Counted before the rows went, or, by a kill between, after.
    check_dropped(&start(folder.path()).await?, &["alto|30", "alto|0"]).await
}
