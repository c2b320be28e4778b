//! The bytes of a dropped tenant: in which files they are before, that they are in none when `keyspan.drops` says so,
//! and that nothing of others goes with them.
//!
//! Rows of the tenant have a mark in keys and values. It is looked for in every file of the store as it stands, and as
//! manifests write keys.

use super::{
    command::Serving,
    harness::{Harness, connect, rows, s3::S3},
    purge_reader::files,
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use tokio::process::Command;
use tokio_postgres::Client;

const PASSWORD: &str = "a password";
/// No two bytes of it repeat, so that no codec tears it.
const MARK: &str = "mQ7xZk2Wv9";
/// Bytes of a value that is kept in a file of its own.
const LARGE_BYTES: usize = 1_500_000;
/// How often it is looked for what a flush is to bring.
const LOOKS_MAX: usize = 2_000;

/// The files with the mark.
fn marked(folders: &[&Path]) -> Result<Vec<PathBuf>> {
    let digits: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut found = Vec::new();
    for path in folders.iter().map(|folder| files(folder)).collect::<Result<Vec<_>>>()?.concat() {
        // It may have gone since.
        let Ok(bytes) = std::fs::read(&path) else { continue };
        if [MARK, &digits].iter().any(|mark| bytes.windows(mark.len()).any(|part| part == mark.as_bytes())) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Looks until files of each kind have had the mark: flushes come when they come.
async fn are_marked(folders: &[&Path], parts: &[&str]) -> Result<()> {
    let mut missing = parts.to_vec();
    for _ in 0..LOOKS_MAX {
        let found = marked(folders)?;
        missing.retain(|part| !has(&found, part));
        if missing.is_empty() {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
    anyhow::bail!("the mark is not looked for where it is: {missing:?}")
}

async fn serve(store: &Path, change: impl FnOnce(&mut Command)) -> Result<Serving> {
    Serving::start_with(store, Some(PASSWORD), |command| change(command.args(["--memtable-size", "64KiB"]))).await
}

async fn operator(serving: &Serving) -> Result<Client> {
    connect(&serving.config(PASSWORD)).await
}

async fn tenant(serving: &Serving, id: &str) -> Result<Client> {
    connect(serving.config(PASSWORD).user(id).dbname(id)).await
}

async fn make(serving: &Serving, id: &str) -> Result<Client> {
    let operator = operator(serving).await?;
    operator.batch_execute(&format!("CREATE DATABASE {id}")).await?;
    // The role of a tenant that was dropped is still there.
    let _ = operator.batch_execute(&format!("CREATE ROLE {id} LOGIN PASSWORD '{PASSWORD}'")).await;
    operator.batch_execute(&format!("ALTER DATABASE {id} OWNER TO {id}")).await?;
    tenant(serving, id).await
}

/// Rows with a text in key and value: several memtables full, some of them dead, one in a side file, the last ones in
/// the log.
async fn fill(client: &Client, text: &str) -> Result<()> {
    for table in ["t", "u"] {
        for from in [0, 400, 800] {
            let to = from + 399;
            let values = format!(
                "'{text}-' || generate_series, generate_series || ' {text} ' || repeat(md5(generate_series::text), 8)"
            );
            let sql = format!("INSERT INTO {table} SELECT {values} FROM generate_series({from}, {to})");
            client.batch_execute(&sql).await?;
        }
        client.batch_execute(&format!("UPDATE {table} SET v = '{text} later' WHERE v LIKE '1%'")).await?;
        client.batch_execute(&format!("DELETE FROM {table} WHERE v LIKE '2%'")).await?;
    }
    let large = format!("INSERT INTO t VALUES ('{text}-large', '{text}' || repeat('x', {LARGE_BYTES}))");
    client.batch_execute(&large).await?;
    client.batch_execute(&format!("INSERT INTO u VALUES ('{text}-last', '{text}')")).await?;
    Ok(())
}

/// What a tenant has.
async fn held(client: &Client) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for table in ["t", "u"] {
        lines.extend(rows(client, &format!("SELECT k, md5(v) FROM {table} ORDER BY k")).await?);
    }
    Ok(lines)
}

/// Tables, neighbours on both sides with rows, and tenant `alto`, whose client is given.
async fn define(serving: &Serving) -> Result<Client> {
    let operator = operator(serving).await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v text)").await?;
    operator.batch_execute("CREATE TABLE u (k text PRIMARY KEY, v text)").await?;
    for neighbour in ["al", "altostrat"] {
        fill(&make(serving, neighbour).await?, "other").await?;
    }
    make(serving, "alto").await
}

/// Waits until every drop is purged. A failure is none of time.
async fn purged(operator: &Client) -> Result<()> {
    loop {
        let drops = rows(operator, "SELECT purge, purge_error FROM keyspan.drops").await?;
        if drops.iter().all(|drop| drop == "done|") {
            let told = "SELECT count(*) FROM keyspan.drops WHERE purged_at BETWEEN dropped_at AND now()";
            assert_eq!(rows(operator, told).await?, [drops.len().to_string()]);
            return Ok(());
        }
        assert!(drops.iter().all(|drop| ["done|", "waiting|", "running|"].contains(&drop.as_str())), "{drops:?}");
        tokio::task::yield_now().await;
    }
}

fn has(found: &[PathBuf], part: &str) -> bool {
    found.iter().any(|path| path.to_string_lossy().contains(part))
}

/// Drops and purges `alto`, whose rows are there, and looks at what is left.
async fn drop_and_look(serving: &Serving, folders: &[&Path]) -> Result<()> {
    let before = (held(&tenant(serving, "al").await?).await?, held(&tenant(serving, "altostrat").await?).await?);
    let operator = operator(serving).await?;
    // What a session keeps of statements that it ran holds no file.
    let kept = operator.prepare("SELECT count(*) FROM t WHERE v <> $1").await?;
    for _ in 0..3 {
        operator.query(&kept, &[&""]).await?;
        rows(&operator, "SELECT count(*) FROM u WHERE v <> ''").await?;
    }
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    purged(&operator).await?;
    assert_eq!(marked(folders)?, Vec::<PathBuf>::new());
    let after = (held(&tenant(serving, "al").await?).await?, held(&tenant(serving, "altostrat").await?).await?);
    assert!(before == after, "the purge has changed another tenant's rows");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_has_a_byte_of_a_purged_tenant() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let serving = serve(&store, |_| {}).await?;
    fill(&define(&serving).await?, MARK).await?;
    are_marked(&[&store], &["wal/", ".parquet", ".side", "manifest/"]).await?;
    drop_and_look(&serving, &[&store]).await?;
    serving.signal(Signal::TERM).await?;
    assert_eq!(marked(&[&store])?, Vec::<PathBuf>::new(), "after the stop");
    let serving = serve(&store, |_| {}).await?;
    assert_eq!(rows(&operator(&serving).await?, "SELECT tenant, purge FROM keyspan.drops").await?, ["alto|done"]);
    // A tenant of the same name begins anew.
    let again = make(&serving, "alto").await?;
    assert_eq!(held(&again).await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_object_of_a_bucket_has_one_either() -> Result<()> {
    let (s3, folder) = (S3::start().await?, tempfile::tempdir()?);
    let store = folder.path().join("store");
    let serving = serve(&store, |command| {
        command.arg("--segments").arg(s3.url("rows")).envs(s3.environment());
    })
    .await?;
    fill(&define(&serving).await?, MARK).await?;
    let bucket = s3.folder();
    are_marked(&[&store, bucket], &["wal/", "rows/", ".side"]).await?;
    drop_and_look(&serving, &[&store, bucket]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_purge_does_not_stop_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let mut serving = serve(&store, |_| {}).await?;
    define(&serving).await?;
    let before = held(&tenant(&serving, "altostrat").await?).await?;
    for (round, begun) in [false, true, true].into_iter().enumerate() {
        if round > 0 {
            make(&serving, "alto").await?;
        }
        fill(&tenant(&serving, "alto").await?, MARK).await?;
        let client = operator(&serving).await?;
        client.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
        // As soon as it is acknowledged, or has begun.
        let waits = "SELECT purge FROM keyspan.drops WHERE purge = 'waiting'";
        while begun && !rows(&client, waits).await?.is_empty() {
            tokio::task::yield_now().await;
        }
        serving.signal(Signal::KILL).await?;
        serving = serve(&store, |_| {}).await?;
        purged(&operator(&serving).await?).await?;
        assert_eq!(marked(&[&store])?, Vec::<PathBuf>::new(), "round {round}");
        assert!(held(&tenant(&serving, "altostrat").await?).await? == before, "round {round}: another tenant's rows");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_still_reads_the_rows_is_waited_for() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v text)").await?;
    let (alto, other) = (harness.tenant("alto").await?, harness.tenant("other").await?);
    other.batch_execute("INSERT INTO t VALUES ('stays', '1')").await?;
    alto.batch_execute(&format!("INSERT INTO t VALUES ('{MARK}', '{MARK}')")).await?;
    harness.engine().flush().await?;
    // The operator's view of before the drop.
    let reader = harness.operator().await?;
    let sql = "SELECT k FROM t ORDER BY k";
    reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
    assert_eq!(rows(&reader, sql).await?, [MARK, "stays"]);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let states = "SELECT purge, purged_at FROM keyspan.drops";
    while rows(&operator, states).await? != ["running|"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(rows(&reader, sql).await?, [MARK, "stays"], "it reads what it has begun with");
    let store = harness.store_folder();
    let held = marked(&[&store])?;
    assert!(held.iter().any(|path| path.extension().is_some_and(|end| end == "parquet")), "{held:?}");
    assert_eq!(rows(&operator, states).await?, ["running|"]);
    reader.batch_execute("COMMIT").await?;
    purged(&operator).await?;
    assert_eq!(marked(&[&store])?, Vec::<PathBuf>::new());
    assert_eq!(rows(&reader, sql).await?, ["stays"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_sees_of_tablets_forgets_the_keys() -> Result<()> {
    let harness = Harness::start_engine(|options| options.base_bytes = 1).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v text)").await?;
    for id in ["a", "b", "c"] {
        let text = if id == "b" { MARK } else { "other" };
        let values = format!("SELECT '{text}-' || generate_series, 'v' FROM generate_series(1, 6000)");
        harness.tenant(id).await?.batch_execute(&format!("INSERT INTO t {values}")).await?;
    }
    harness.engine().compact(None).await?;
    let seen = format!(
        "SELECT count(*) FROM keyspan.tablets WHERE table_name = 't' AND (tablet LIKE '%{MARK}%' OR until LIKE '%{MARK}%')"
    );
    let tablets: u64 = rows(&operator, &seen).await?.first().context("a number")?.parse()?;
    assert!(tablets > 1, "{tablets}");
    operator.batch_execute("DROP DATABASE b WITH (FORCE)").await?;
    purged(&operator).await?;
    assert_eq!(rows(&operator, &seen).await?, ["0"]);
    assert_eq!(marked(&[&harness.store_folder()])?, Vec::<PathBuf>::new());
    assert_eq!(rows(&operator, "SELECT tenant, count(*) FROM t GROUP BY 1 ORDER BY 1").await?, ["a|6000", "c|6000"]);
    Ok(())
}
