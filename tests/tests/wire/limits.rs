//! What a statement may write: the bounds of a commit, and `INSERT` of any number of new rows, whole or not at all.

use super::{
    command::Serving,
    harness::{Harness, connect, error, rows},
};
use anyhow::{Result, ensure};
use rustix::process::Signal;
use std::path::Path;
use tokio_postgres::Client;

/// Rows that no commit holds, and no part of a load.
const MANY: u64 = 100_001;

/// SQLSTATE, message, detail and hint of the error that a statement has to end with.
async fn whole_error(client: &Client, sql: &str) -> String {
    let Err(told) = client.batch_execute(sql).await else { return format!("no error from {sql}") };
    let Some(told) = told.as_db_error() else { return format!("{told:?}") };
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    [told.code().code(), told.message(), &part(told.detail()), &part(told.hint())].join("\n")
}

const TOO_MANY: &str = "54000
a commit of more than 100000 cells
Each value that is set outside of the key is a cell. A row without one counts as one, and so does a row that is deleted.
Write fewer rows at a time. Outside of a transaction block COPY and INSERT … SELECT, without ON CONFLICT and RETURNING, take any number of new rows.";

#[tokio::test]
async fn a_commit_holds_a_hundred_thousand_cells_as_a_user_counts_them() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    let rows_of = |count: u64| format!("INSERT INTO t SELECT g, 'v' FROM generate_series(1, {count}) g");
    // In a transaction there is one commit.
    alto.batch_execute(&format!("BEGIN; {}; COMMIT", rows_of(MANY - 1))).await?;
    assert_eq!(rows(&alto, "SELECT count(*), max(k) FROM t").await?, ["100000|100000"]);
    alto.batch_execute("BEGIN; UPDATE t SET v = 'w'; COMMIT; BEGIN; DELETE FROM t; COMMIT").await?;
    alto.batch_execute("BEGIN").await?;
    assert_eq!(whole_error(&alto, &rows_of(MANY)).await, TOO_MANY);
    alto.batch_execute("ROLLBACK; BEGIN").await?;
    alto.batch_execute(&rows_of(MANY - 1)).await?;
    assert_eq!(whole_error(&alto, "INSERT INTO t VALUES (0)").await, TOO_MANY, "a row without a cell counts, too");
    alto.batch_execute("ROLLBACK").await?;
    // Statements that are one commit wherever they are.
    for more in ["RETURNING k", "ON CONFLICT DO NOTHING"] {
        assert_eq!(whole_error(&alto, &format!("{} {more}", rows_of(MANY))).await, TOO_MANY, "{more}");
    }
    alto.batch_execute(&rows_of(MANY)).await?;
    assert_eq!(whole_error(&alto, "UPDATE t SET v = 'w'").await, TOO_MANY);
    assert_eq!(whole_error(&alto, "DELETE FROM t WHERE v = 'v'").await, TOO_MANY);
    assert_eq!(rows(&alto, "SELECT count(*), min(v), max(v) FROM t").await?, ["100001|v|v"]);
    Ok(())
}

#[tokio::test]
async fn an_insert_of_any_size_is_stored_whole() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    let series = "FROM generate_series(1, 200000) g";
    assert_eq!(alto.execute(&format!("INSERT INTO t SELECT g, 'v' || g {series}"), &[]).await?, 200_000);
    let seen = "SELECT count(*), min(k), max(k), count(DISTINCT v) FROM t";
    assert_eq!(rows(&alto, seen).await?, ["200000|1|200000|200000"]);
    // The source may be the table: it is read as it was.
    assert_eq!(alto.execute("INSERT INTO t (v, k) SELECT v, -k FROM t WHERE k <= $1", &[&150_000i64]).await?, 150_000);
    assert_eq!(rows(&alto, seen).await?, ["350000|-150000|200000|200000"]);
    // Rows of a VALUES; defaults, identity, and an expression of the time.
    alto.batch_execute(
        "CREATE TABLE d (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, b text DEFAULT 'b', at timestamptz DEFAULT now())",
    )
    .await?;
    let values: Vec<String> = (0..40_000).map(|a| format!("({a})")).collect();
    let insert = format!("INSERT INTO d (a) VALUES {}", values.join(","));
    assert_eq!(alto.execute(&insert, &[]).await?, 40_000);
    let seen = "SELECT count(*), count(DISTINCT id), count(DISTINCT a), min(b), count(DISTINCT at) FROM d";
    assert_eq!(rows(&alto, seen).await?, ["40000|40000|40000|b|1"]);
    // A table without a key, and keys that meet again and again.
    alto.batch_execute("CREATE TABLE n (a int); CREATE TABLE e (a int, b text, PRIMARY KEY (b, a))").await?;
    let many = format!("SELECT g % 7, 'b' || g % 3 FROM generate_series(1, {MANY}) g");
    assert_eq!(alto.execute(&format!("INSERT INTO n SELECT a FROM ({many}) s (a, b)"), &[]).await?, MANY);
    assert_eq!(rows(&alto, "SELECT count(*), count(DISTINCT a) FROM n").await?, ["100001|7"]);
    let refused = error(&alto, &format!("INSERT INTO e {many}")).await;
    assert!(refused.starts_with("23505 "), "{refused}");
    // The operator writes rows of several tenants.
    harness.tenant("altostrat").await?;
    let of_both = "INSERT INTO t SELECT CASE WHEN g % 2 = 0 THEN 'alto' ELSE 'altostrat' END, g + 1000000, 'x'";
    assert_eq!(operator.execute(&format!("{of_both} {series}"), &[]).await?, 200_000);
    assert_eq!(rows(&alto, "SELECT count(*) FROM t WHERE v = 'x'").await?, ["100000"]);
    let nobody = "INSERT INTO t SELECT CASE WHEN g = 200000 THEN 'nobody' ELSE 'alto' END, g + 5000000, 'x'";
    let refused = error(&operator, &format!("{nobody} {series}")).await;
    assert!(refused.starts_with("23503 "), "{refused}");
    assert_eq!(rows(&alto, "SELECT count(*) FROM t WHERE k > 5000000").await?, ["0"]);
    Ok(())
}

#[tokio::test]
async fn a_large_insert_that_fails_leaves_nothing() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(
        "CREATE TABLE t (k bigint PRIMARY KEY, v int NOT NULL CHECK (v <> 13)); INSERT INTO t VALUES (-7, 7)",
    )
    .await?;
    let duplicate = "23505 duplicate key value violates unique constraint \"t_pkey\"";
    for (select, expected) in [
        ("g, 1 / (g - 100001)::int", "22012 division by zero"),
        ("CASE WHEN g = 100001 THEN 5 ELSE g END, 1", duplicate),
        ("CASE WHEN g = 3 THEN 5 ELSE g END, 1", duplicate),
        ("CASE WHEN g = 100001 THEN -7 ELSE g END, 1", duplicate),
        ("CASE WHEN g = 1 THEN -7 ELSE g END, 1", duplicate),
        (
            "g, CASE WHEN g = 100001 THEN 13 ELSE 1 END",
            "23514 new row for relation \"t\" violates check constraint \"t_v_check\"",
        ),
        ("g, nullif(g, 100001)", "23502 null value in column \"v\" of relation \"t\" violates not-null constraint"),
        ("g, g * 100000", "22003 integer out of range"),
    ] {
        let sql = format!("INSERT INTO t SELECT {select} FROM generate_series(1, {MANY}) g ORDER BY g");
        assert_eq!(error(&alto, &sql).await, expected, "{sql}");
        assert_eq!(rows(&alto, "SELECT k, v FROM t").await?, ["-7|7"], "{sql}");
    }
    // The detail names the key, as for a small INSERT.
    let sql =
        format!("INSERT INTO t SELECT CASE WHEN g = {MANY} THEN -7 ELSE g END, 1 FROM generate_series(1, {MANY}) g");
    let told = whole_error(&alto, &sql).await;
    assert!(told.contains("Key (k)=(-7) already exists."), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_large_insert_in_a_transaction_goes_where_nobody_else_sees_the_table() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let other = harness.connect("alto", "alto").await?;
    let fill = format!("INSERT INTO t SELECT g, 1 FROM generate_series(1, {MANY}) g");
    alto.batch_execute("BEGIN; CREATE TABLE t (k bigint PRIMARY KEY, v int)").await?;
    assert_eq!(alto.execute(&fill, &[]).await?, MANY);
    assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, [MANY.to_string()]);
    assert!(error(&other, "SELECT 1 FROM t").await.starts_with("42P01 "));
    // Duplicates of earlier parts are found.
    let twice = format!("INSERT INTO t SELECT g, 1 FROM generate_series({MANY}, {MANY} + 100001) g");
    alto.batch_execute("SAVEPOINT s").await?;
    assert!(error(&alto, &twice).await.starts_with("23505 "));
    alto.batch_execute("ROLLBACK").await?;
    assert!(error(&alto, "SELECT 1 FROM t").await.starts_with("42P01 "));
    alto.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v int); INSERT INTO t VALUES (0, 0); BEGIN; TRUNCATE t")
        .await?;
    let twice =
        format!("INSERT INTO t SELECT CASE WHEN g = {MANY} THEN 5 ELSE g END, 1 FROM generate_series(1, {MANY}) g");
    assert!(error(&alto, &twice).await.starts_with("23505 "));
    alto.batch_execute("ROLLBACK; BEGIN; TRUNCATE t").await?;
    alto.batch_execute(&fill).await?;
    alto.batch_execute("COMMIT").await?;
    assert_eq!(rows(&other, "SELECT count(*), min(k) FROM t").await?, ["100001|1"]);
    Ok(())
}

#[tokio::test]
async fn a_table_that_keeps_history_has_the_bounds_of_a_commit() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let table = "CREATE TABLE t (k bigint PRIMARY KEY, v text) WITH (history = '1 day')";
    harness.operator().await?.batch_execute(table).await?;
    let fill = |count: u64| format!("INSERT INTO t SELECT g, 'v' FROM generate_series(1, {count}) g");
    assert_eq!(whole_error(&alto, &fill(MANY)).await, TOO_MANY);
    assert_eq!(alto.execute(&fill(MANY - 1), &[]).await?, MANY - 1);
    Ok(())
}

/// Rows without end: a thousand million, of a kilobyte.
const ENDLESS: &str = "INSERT INTO t SELECT a * 1000000 + b, repeat('x', 1000)
    FROM generate_series(1, 1000) a, generate_series(1, 1000000) b";

/// Bytes of the files in a folder and those below.
fn bytes_in(folder: &Path) -> u64 {
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(of).sum()
}

/// Waits until files of a load are there.
async fn until_files_grow(folder: &Path) -> Result<()> {
    let before = bytes_in(folder);
    while bytes_in(folder) < before + (4 << 20) {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_insert_that_is_stopped_leaves_nothing() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    for stop in ["pg_cancel_backend", "pg_terminate_backend"] {
        let writer = harness.connect("alto", "alto").await?;
        let pid = rows(&writer, "SELECT pg_backend_pid()").await?.remove(0);
        let writing = tokio::spawn(async move { error(&writer, ENDLESS).await });
        until_files_grow(&harness.store_folder()).await?;
        rows(&alto, &format!("SELECT {stop}({pid})")).await?;
        let told = writing.await?;
        ensure!(told.starts_with("57014 ") || told.starts_with("57P01 "), "{told}");
        assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, ["0"], "{stop}");
    }
    assert_eq!(
        alto.execute(&ENDLESS.replace("1, 1000)", "1, 1)").replace("1000000) b", "200000) b"), &[]).await?,
        200_000
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_large_insert_leaves_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let password = "a password";
    let serving = Serving::start(folder.path(), Some(password)).await?;
    let operator = connect(&serving.config(password)).await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    operator.batch_execute("CREATE ROLE alto; CREATE DATABASE alto OWNER alto").await?;
    let mut config = serving.config(password);
    config.dbname("alto");
    let alto = connect(&config).await?;
    alto.batch_execute("INSERT INTO t VALUES (0, 'there')").await?;
    let writing = tokio::spawn(async move { alto.batch_execute(ENDLESS).await.is_err() });
    until_files_grow(folder.path()).await?;
    serving.signal(Signal::KILL).await?;
    assert!(writing.await?, "it had no answer");
    let serving = Serving::start(folder.path(), Some(password)).await?;
    let operator = connect(&serving.config(password)).await?;
    assert_eq!(rows(&operator, "SELECT * FROM t").await?, ["alto|0|there"]);
    Ok(())
}
