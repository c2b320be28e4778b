//! One tenant of a backup: written alone by `keyspan backup --tenant`, and copied into a running server by `keyspan
//! restore --tenant`, beside the living tenants.

use super::{
    command::{Serving, keyspan},
    harness::{connect, error, rows},
    purge_reader::{Marks, files, marked},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_postgres::Client;

const PASSWORD: &str = "a password";
const MARK: &str = "mQ7xZk2Wv9";
const OTHER: &str = "pL4sYg8Td3";

/// What a tenant sees of its rows and relations.
const SAME: &[&str] = &[
    "SELECT k, md5(v) FROM t ORDER BY k",
    "SELECT * FROM cells('m')",
    "SELECT id, body FROM own ORDER BY id",
    "SELECT * FROM seen ORDER BY 1",
    "SELECT pg_get_viewdef('seen'::regclass)",
];

async fn seen(client: &Client) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for sql in SAME {
        all.push(rows(client, sql).await.with_context(|| (*sql).to_owned())?);
    }
    Ok(all)
}

async fn serve(store: &Path) -> Result<Serving> {
    let small = |command: &mut tokio::process::Command| _ = command.args(["--memtable-size", "64KiB"]);
    Serving::start_with(store, Some(PASSWORD), small).await
}

async fn operator(serving: &Serving) -> Result<Client> {
    connect(&serving.config(PASSWORD)).await
}

async fn enter(serving: &Serving, database: &str) -> Result<Client> {
    let grant = format!("ALTER DATABASE {database} OWNER TO ana");
    let operator = operator(serving).await?;
    let _ = operator.batch_execute(&format!("CREATE ROLE ana LOGIN PASSWORD '{PASSWORD}'")).await;
    operator.batch_execute(&grant).await?;
    connect(serving.config(PASSWORD).user("ana").dbname(database)).await
}

const TABLES: &str = "
    CREATE TABLE t (k text PRIMARY KEY, v text);
    CREATE TABLE m (k text PRIMARY KEY, v bigint, FAMILY c (v)) WITH (c.max_versions = 5)";

async fn fill(client: &Client, mark: &str) -> Result<()> {
    client
        .batch_execute(&format!(
            "CREATE TABLE own (id bigserial PRIMARY KEY, body text);
             CREATE VIEW seen AS SELECT t.k, own.body FROM t JOIN own ON t.k = own.body;
             INSERT INTO t SELECT '{mark}-' || i, '{mark} ' || repeat(md5(i::text), 8) FROM generate_series(1, 2000) AS g(i);
             INSERT INTO m SELECT '{mark}-' || i, i FROM generate_series(1, 50) AS g(i);
             UPDATE m SET v = v + 1; UPDATE m SET v = v * 2;
             INSERT INTO own (body) SELECT '{mark}-' || i FROM generate_series(1, 20) AS g(i);
             DELETE FROM t WHERE k LIKE '%7'"
        ))
        .await?;
    Ok(())
}

/// A server with tenants `alto` and `altostrat`.
async fn two(store: &Path) -> Result<Serving> {
    let serving = serve(store).await?;
    let operator = operator(&serving).await?;
    operator.batch_execute(TABLES).await?;
    operator.batch_execute("CREATE TABLE unused (k text PRIMARY KEY)").await?;
    for (id, mark) in [("altostrat", OTHER), ("alto", MARK)] {
        operator.batch_execute(&format!("CREATE DATABASE {id}")).await?;
        fill(&enter(&serving, id).await?, mark).await?;
    }
    Ok(serving)
}

/// Runs the program. Gives whether it succeeded, and what it said on both outputs.
async fn run(arguments: &[&str]) -> Result<(bool, String)> {
    let output = keyspan().args(arguments).env("KEYSPAN_PASSWORD", PASSWORD).output().await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8(text)?))
}

async fn succeeds(arguments: &[&str]) -> Result<String> {
    let (done, told) = run(arguments).await?;
    anyhow::ensure!(done, "{arguments:?}: {told}");
    Ok(told)
}

async fn fails(arguments: &[&str]) -> Result<String> {
    let (done, told) = run(arguments).await?;
    anyhow::ensure!(!done, "{arguments:?}: {told}");
    Ok(told)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path")
}

/// Writes and counts until it is told to stop.
async fn writes(client: Client, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut written = 0;
    while !stop.load(Ordering::SeqCst) {
        client.batch_execute(&format!("INSERT INTO t VALUES ('load-{written}', 'v')")).await?;
        written += 1;
    }
    Ok(written)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_restored_beside_the_living_one_under_load() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, whole, one) = (folder.path().join("store"), folder.path().join("whole"), folder.path().join("one"));
    let serving = two(&store).await?;
    let before = seen(&enter(&serving, "alto").await?).await?;
    // Both backups are made while the store is served.
    succeeds(&["backup", text(&whole)?, "--store", text(&store)?]).await?;
    let told = succeeds(&["backup", text(&one)?, "--store", text(&store)?, "--tenant", "alto"]).await?;
    assert!(told.starts_with("backed up database alto to "), "{told}");

    // Since then alto has lost rows, and has gained others.
    let alto = enter(&serving, "alto").await?;
    alto.batch_execute("DELETE FROM t WHERE k LIKE '%1'; DROP VIEW seen; DROP TABLE own; UPDATE m SET v = 0").await?;
    let (stop, mut writers) = (Arc::new(AtomicBool::new(false)), Vec::new());
    for id in ["alto", "altostrat"] {
        writers.push(tokio::spawn(writes(enter(&serving, id).await?, stop.clone())));
    }
    let count = "SELECT count(*) FROM t WHERE k NOT LIKE 'load-%'";
    let neighbour = enter(&serving, "altostrat").await?;
    let (of_alto, of_neighbour) = (rows(&alto, count).await?, rows(&neighbour, count).await?);
    let address = serving.address.to_string();
    for (backup, name) in [(&whole, "back"), (&one, "again")] {
        let told =
            succeeds(&["restore", text(backup)?, "--tenant", "alto", "--as", name, "--server", &address]).await?;
        assert!(told.contains(&format!("as {name}")), "{told}");
        let restored = enter(&serving, name).await?;
        for (at, (was, is)) in before.iter().zip(seen(&restored).await?).enumerate() {
            assert_eq!(*was, is, "{name}: {}", SAME[at]);
        }
        restored.batch_execute("INSERT INTO own (body) VALUES ('new')").await?;
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await?? > 0, "others waited");
    }
    assert_eq!((rows(&alto, count).await?, rows(&neighbour, count).await?), (of_alto, of_neighbour));
    assert_eq!(rows(&alto, "SELECT DISTINCT v FROM m").await?, ["0"]);

    let again = fails(&["restore", text(&one)?, "--tenant", "alto", "--server", &address]).await?;
    assert!(again.contains("database \"alto\" already exists"), "{again}");
    let none = fails(&["restore", text(&one)?, "--tenant", "altostrat", "--as", "x", "--server", &address]).await?;
    assert!(none.contains("database \"altostrat\" does not exist: The backup has no database"), "{none}");
    serving.signal(Signal::TERM).await?;
    assert!(succeeds(&["check", "--store", text(&store)?]).await?.contains("no damage"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_tenant_is_a_store_without_a_byte_of_another() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, one) = (folder.path().join("store"), folder.path().join("one"));
    let serving = two(&store).await?;
    let before = seen(&enter(&serving, "alto").await?).await?;
    serving.signal(Signal::TERM).await?;
    succeeds(&["backup", text(&one)?, "--store", text(&store)?, "--tenant", "alto"]).await?;
    let other = Marks { mark: OTHER, span: "altostrat" };
    assert!(!marked(&[&store], &other)?.0.is_empty(), "the reader does not find what is there");
    let (found, read) = marked(&[&one], &other)?;
    assert!(found.is_empty() && read > 1000, "{read} rows, {found:?}");
    assert!(!marked(&[&one], &Marks { mark: MARK, span: "alto#" })?.0.is_empty());
    for role in ["ana", "keyspan\""] {
        let has = |path: &std::path::PathBuf| {
            std::fs::read(path).is_ok_and(|bytes| bytes.windows(role.len()).any(|part| part == role.as_bytes()))
        };
        assert_eq!(files(&one)?.into_iter().filter(has).count(), 0, "{role}");
    }
    assert!(succeeds(&["check", "--store", text(&one)?]).await?.contains("no damage"));

    let serving = serve(&one).await?;
    assert_eq!(rows(&operator(&serving).await?, "SELECT tenant FROM keyspan.tenants").await?, ["alto"]);
    let alto = enter(&serving, "alto").await?;
    assert_eq!(seen(&alto).await?, before);
    alto.batch_execute("INSERT INTO unused VALUES ('x'); INSERT INTO own (body) VALUES ('new')").await?;
    serving.signal(Signal::TERM).await?;

    let told = fails(&["backup", text(&one)?, "--store", text(&store)?, "--tenant", "alto"]).await?;
    assert!(told.contains("is not empty"), "{told}");
    let new = folder.path().join("new");
    let told = fails(&["backup", text(&new)?, "--store", text(&store)?, "--tenant", "alto2"]).await?;
    assert!(told.contains("database \"alto2\" does not exist"), "{told}");
    assert!(!new.exists() && !folder.path().join("new.part").exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_differ_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, one) = (folder.path().join("store"), folder.path().join("one"));
    let serving = two(&store).await?;
    let before = seen(&enter(&serving, "alto").await?).await?;
    succeeds(&["backup", text(&one)?, "--store", text(&store)?, "--tenant", "alto"]).await?;
    drop(serving);
    // Another store, whose tables have other OIDs and column numbers.
    let serving = serve(&folder.path().join("other")).await?;
    let client = operator(&serving).await?;
    let restore = format!("CREATE DATABASE alto FROM BACKUP '{}' TENANT alto", text(&one)?);
    assert_eq!(error(&client, &restore).await, "42P01 relation \"t\" does not exist");
    let differs = "the backup differs from the table of this store";
    for (table, m) in [
        ("CREATE TABLE t (k text PRIMARY KEY, v bigint)", ""),
        ("CREATE TABLE t (k text PRIMARY KEY, w text)", ""),
        ("CREATE TABLE t (k text PRIMARY KEY, v text) WITH (salt = 4)", ""),
        ("CREATE TABLE t (k text, l text, v text, PRIMARY KEY (k, l))", ""),
        ("CREATE TABLE t (k text PRIMARY KEY, v text NOT NULL)", ""),
        ("CREATE TABLE t (k text PRIMARY KEY, v text, CHECK (v <> ''))", ""),
        ("CREATE TABLE t (k text PRIMARY KEY, v text)", "CREATE TABLE m (k text PRIMARY KEY, v bigint)"),
    ] {
        client.batch_execute(&format!("{table}; {m}")).await?;
        let told = error(&client, &restore).await;
        let which = if m.is_empty() { "t" } else { "m" };
        assert!(told.ends_with(&format!("table \"{which}\" of {differs}")), "{table} {m}: {told}");
        client.batch_execute(if m.is_empty() { "DROP TABLE t" } else { "DROP TABLE t; DROP TABLE m" }).await?;
        assert_eq!(rows(&client, "SELECT tenant FROM keyspan.tenants").await?, [""; 0], "{table}");
    }
    // More columns, in another order, are no difference.
    client
        .batch_execute(
            "CREATE TABLE t (extra int, v text, k text PRIMARY KEY);
             CREATE TABLE m (k text PRIMARY KEY, v bigint, FAMILY c (v)) WITH (c.max_versions = 5)",
        )
        .await?;
    client.batch_execute(&restore).await?;
    assert_eq!(seen(&enter(&serving, "alto").await?).await?, before);
    Ok(())
}
