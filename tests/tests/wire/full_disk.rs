//! A full disk: writes fail with 53100, reads go on, and writing resumes when there is room, without a restart.
//!
//! Once over a small disk of the harness, and once over a real one: a tmpfs that the process mounts in a namespace of its own. Where
//! the machine lets nobody do that, the first has to do.

use super::{
    command::{Serving, keyspan},
    harness::{Harness, PASSWORD, connect, disk::SmallDisk, error, rows},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::{path::Path, process::Stdio};
use tokio::process::Command;
use tokio_postgres::Client;

/// Rows of a statement, of some 300 bytes each that hardly compress.
const STATEMENT_ROWS: i64 = 100;
/// Statements that no disk of these tests has room for.
const STATEMENTS_MAX: i64 = 1_000;
const LOG_FILE_BYTES: u64 = 128 << 10;
const MEMTABLE_BYTES: u64 = 64 << 10;
/// Room on a disk that soon is full.
const ROOM_BYTES: i64 = 1 << 20;

fn insert(statement: i64) -> String {
    let value: Vec<String> = (0..8).map(|at| format!("md5(k || ':{at}')")).collect();
    let value = value.join(" || ");
    format!("INSERT INTO t SELECT {statement}, k, {value} FROM generate_series(1, {STATEMENT_ROWS}) AS g(k)")
}

/// Writes until there is no room. Gives the statements that were acknowledged.
async fn fill(client: &Client) -> Result<i64> {
    for statement in 0..STATEMENTS_MAX {
        if let Err(failed) = client.batch_execute(&insert(statement)).await {
            let told = failed.as_db_error().context("an error of the server")?;
            assert_eq!(told.code().code(), "53100", "{told:?}");
            assert!(told.message().starts_with("no space left to write "), "{told:?}");
            assert_eq!(told.hint(), Some("Reads go on. Writes do again when there is room."));
            return Ok(statement);
        }
    }
    anyhow::bail!("the disk did not become full")
}

/// What was acknowledged is there, whole, by each way to read.
async fn check(client: &Client, statements: i64) -> Result<()> {
    let all = format!("{}|{statements}", statements * STATEMENT_ROWS);
    for columnar in ["on", "off"] {
        client.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
        let found = rows(client, "SELECT count(*), count(DISTINCT s) FROM t WHERE length(v) = 256").await?;
        assert_eq!(found, [all.as_str()], "columnar {columnar}");
    }
    let point = format!("SELECT v = md5('7:0') || substr(v, 33) FROM t WHERE s = {} AND k = 7", statements - 1);
    assert_eq!(rows(client, &point).await?, ["t"]);
    assert_eq!(rows(client, "SELECT v FROM t WHERE s < 0").await?, [""; 0]);
    Ok(())
}

const TABLE: &str = "CREATE TABLE t (s bigint, k bigint, v text, PRIMARY KEY (s, k))";

/// Fills the disk, looks, makes room, looks. Gives how many statements are there.
async fn fill_and_resume(operator: &Client, client: &Client, make_room: impl FnOnce() -> Result<()>) -> Result<i64> {
    let statements = fill(client).await?;
    assert!(statements > 2, "{statements}");
    check(client, statements).await?;
    // Still full, whatever is tried; a failed statement leaves nothing.
    for _ in 0..2 {
        assert!(error(client, &insert(STATEMENTS_MAX)).await.starts_with("53100 "));
        let large = "UPDATE t SET v = v || v WHERE s = 0";
        assert!(error(client, large).await.starts_with("53100 "));
        check(client, statements).await?;
    }
    assert_eq!(rows(operator, "SELECT count(*) FROM t").await?, [(statements * STATEMENT_ROWS).to_string()]);
    make_room()?;
    client.batch_execute(&insert(statements)).await?;
    client.batch_execute("DELETE FROM t WHERE s = 0 AND k = 1").await?;
    client.batch_execute("INSERT INTO t SELECT 0, 1, v FROM t WHERE s = 1 AND k = 1").await?;
    check(client, statements + 1).await?;
    Ok(statements + 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_until_there_is_room() -> Result<()> {
    let disk = SmallDisk::new(ROOM_BYTES);
    let options = |options: &mut keyspan_storage::engine::EngineOptions| {
        options.fs = std::sync::Arc::new(disk.clone());
        options.log_file_bytes = LOG_FILE_BYTES;
        options.memtable_bytes = Some(MEMTABLE_BYTES);
    };
    let harness = Harness::start_engine(options).await?;
    let operator = harness.operator().await?;
    operator.batch_execute(TABLE).await?;
    let client = harness.tenant("one").await?;
    let make_room = || {
        disk.add(ROOM_BYTES);
        Ok(())
    };
    let statements = fill_and_resume(&operator, &client, make_room).await?;
    check(&client, statements).await?;

    // Full again, and started like that: for reading.
    client.batch_execute("DELETE FROM t WHERE s >= 3").await?;
    check(&client, 3).await?;
    let mut more = 3;
    while client.batch_execute(&insert(more)).await.is_ok() {
        more += 1;
    }
    let harness = harness.restart_engine(options).await?;
    let client = harness.connect("one", "one").await?;
    check(&client, more).await?;
    disk.add(ROOM_BYTES);
    client.batch_execute(&insert(more)).await?;
    check(&client, more + 1).await
}

/// A server over a real file system of so many megabytes, with a file of which `filler` says how large it is; `None` where nobody may
/// mount one.
async fn serve_on_tmpfs(folder: &Path, megabytes: u32, filler: u32) -> Result<Option<Serving>> {
    let script = format!(
        "mount -t tmpfs -o size={megabytes}m tmpfs \"$0\" && head -c {filler}m /dev/zero > \"$0/filler\" && exec \"$@\""
    );
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(folder).kill_on_drop(true);
        command
    };
    let may = unshare("mount -t tmpfs tmpfs \"$0\"").stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    if !may.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    let program = keyspan().as_std().get_program().to_owned();
    let mut command = unshare(&script);
    command.arg(program).args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(folder.join("store"));
    command.args(["--log-file-size", "128KiB", "--memtable-size", "64KiB"]).env("KEYSPAN_PASSWORD", PASSWORD);
    Serving::spawn(command).await.map(Some)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_system_that_is_full_refuses_writes_until_there_is_room() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let Some(serving) = serve_on_tmpfs(folder.path(), 3, 2).await? else {
        // Not on this machine; the small disk above tells the same.
        return Ok(());
    };
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute(TABLE).await?;
    operator.batch_execute("CREATE DATABASE one").await?;
    operator.batch_execute(&format!("CREATE ROLE one LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE one TO one").await?;
    let client = connect(serving.config(PASSWORD).user("one").dbname("one")).await?;
    // As the process sees it: nobody else does.
    let root = format!("/proc/{}/root", serving.child.id().context("a process")?);
    let filler = Path::new(&root).join(folder.path().strip_prefix("/")?).join("filler");
    let make_room = || std::fs::remove_file(&filler).with_context(|| filler.display().to_string());
    fill_and_resume(&operator, &client, make_room).await?;
    assert_eq!(serving.signal(Signal::TERM).await?.status.code(), Some(0));
    Ok(())
}
