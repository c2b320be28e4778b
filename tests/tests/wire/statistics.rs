//! `pg_stat_database`, `pg_stat_user_tables`, `pg_stat_statements`, `pg_stat_progress_copy`: what was done is counted
//! once, and a tenant sees its own.

use super::harness::{Harness, PASSWORD, error, rows};
use anyhow::Result;
use bytes::Bytes;
use futures::SinkExt;
use std::pin::pin;
use tokio_postgres::Client;

const STATEMENTS: &str = "SELECT calls, rows, query FROM pg_stat_statements ORDER BY query";

/// The rows of statements that say a word.
async fn about(client: &Client, word: &str) -> Result<Vec<String>> {
    Ok(rows(client, STATEMENTS).await?.into_iter().filter(|row| row.contains(word)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_counted() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k bigint PRIMARY KEY, v text)").await?;
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    one.batch_execute("INSERT INTO t SELECT g, 'a' FROM generate_series(1, 100) g").await?;
    one.batch_execute("INSERT INTO t VALUES (101, 'b'); INSERT INTO shared VALUES (1, 'x')").await?;
    one.batch_execute("UPDATE t SET v = 'c' WHERE k <= 10; DELETE FROM t WHERE k = 5").await?;
    let counted = "SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY 1";
    assert_eq!(rows(&one, counted).await?, ["shared|1|0|0", "t|101|10|1"]);
    assert_eq!(rows(&other, counted).await?, ["shared|0|0|0"]);
    // Reads: those of writes are among them, so only their growth is looked at.
    let reads = "SELECT seq_scan, seq_tup_read, idx_scan, idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 't'";
    let numbers = |row: &[String]| row[0].split('|').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let before = numbers(&rows(&one, reads).await?);
    rows(&one, "SELECT v, count(*) FROM t GROUP BY v").await?;
    one.query("SELECT v FROM t WHERE k = $1", &[&7_i64]).await?;
    rows(&one, "SELECT v FROM t WHERE k BETWEEN 20 AND 29 ORDER BY v").await?;
    let after = numbers(&rows(&one, reads).await?);
    let grown: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
    assert_eq!(grown, [1, 100, 2, 11]);
    // A table that is dropped is listed no more, and its rows stay in the sum.
    one.batch_execute("DROP TABLE t").await?;
    let sum = "SELECT tup_inserted, tup_updated, tup_deleted FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(rows(&one, sum).await?, ["102|10|1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_counted() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let asked = "SELECT xact_commit, xact_rollback, sessions, numbackends FROM pg_stat_database";
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    one.batch_execute("SELECT pg_stat_reset()").await?;
    // The one that sets back is counted behind it.
    one.batch_execute("BEGIN; INSERT INTO t VALUES (1); COMMIT").await?;
    one.batch_execute("BEGIN; INSERT INTO t VALUES (2); ROLLBACK").await?;
    one.batch_execute("INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)").await?;
    assert!(one.batch_execute("INSERT INTO t VALUES (5); SELECT 1 / 0").await.is_err());
    assert!(one.batch_execute("SELECT 1 / 0").await.is_err());
    one.query("SELECT $1::int8", &[&1_i64]).await?;
    one.batch_execute("BEGIN").await?;
    assert!(one.batch_execute("SELECT 1 / 0").await.is_err());
    one.batch_execute("COMMIT").await?;
    assert_eq!(rows(&one, asked).await?, ["4|4|0|1"]);
    let _more = harness.connect("alto", "alto").await?;
    assert_eq!(rows(&one, "SELECT sessions, numbackends, stats_reset < now() FROM pg_stat_database").await?, ["1|2|t"]);
    assert_eq!(rows(&other, "SELECT datname, stats_reset FROM pg_stat_database").await?, ["altostrat|"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_counted_without_their_constants() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    for k in 0..5_i64 {
        one.batch_execute(&format!("INSERT INTO t VALUES ({k}, 'secret {k}')")).await?;
        one.batch_execute(&format!("SELECT v FROM t  WHERE k >= {k} -- {k}")).await?;
        one.query("select v from t where k >= $1", &[&k]).await?;
    }
    one.batch_execute("SELECT 1 AS together; SELECT 'two' AS together, 3").await?;
    assert!(one.batch_execute("SELECT 1 / 0 AS failed").await.is_err());
    // Text and parameters are the same statement, in the words of the first.
    assert_eq!(about(&one, "FROM t").await?, ["10|10|SELECT v FROM t WHERE k >= $1"]);
    assert_eq!(about(&one, "INSERT").await?, ["5|5|INSERT INTO t VALUES ($1 /*, ... */)"]);
    assert_eq!(about(&one, "together").await?, ["1|1|SELECT $1 AS together", "1|1|SELECT $1 AS together, $2"]);
    assert_eq!(about(&one, "failed").await?, [""; 0]);
    assert_eq!(about(&one, "secret").await?, [""; 0]);
    assert_eq!(about(&other, "FROM t").await?, [""; 0]);
    // Another role sees that there are statements, not which.
    let operator = harness.operator().await?;
    operator
        .batch_execute(&format!(
            "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE alto TO guest"
        ))
        .await?;
    let guest = harness.connect("guest", "alto").await?;
    let hidden = "SELECT DISTINCT query, queryid FROM pg_stat_statements";
    assert_eq!(rows(&guest, hidden).await?, ["<insufficient privilege>|"]);
    assert!(error(&guest, "SELECT pg_stat_statements_reset()").await.starts_with("42501"));
    assert!(error(&guest, "SELECT pg_stat_reset()").await.starts_with("42501"));
    assert_eq!(about(&operator, "INSERT INTO t").await?.len(), 1);
    // A statement that goes on is counted anew.
    let prepared = one.prepare("SELECT v AS again FROM t WHERE k = $1").await?;
    one.query(&prepared, &[&1_i64]).await?;
    one.batch_execute("SELECT pg_stat_statements_reset()").await?;
    assert_eq!(about(&one, "again").await?, [""; 0]);
    one.query(&prepared, &[&1_i64]).await?;
    assert_eq!(about(&one, "again").await?, ["1|1|SELECT v AS again FROM t WHERE k = $1"]);
    let sane = "SELECT bool_and(min_exec_time <= mean_exec_time AND mean_exec_time <= max_exec_time AND calls > 0
        AND total_exec_time >= max_exec_time AND stddev_exec_time >= 0) FROM pg_stat_statements";
    assert_eq!(rows(&one, sane).await?, ["t"]);
    // Those of a dropped tenant go with it.
    drop((one, guest));
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    while !about(&operator, "again").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_says_how_far_it_is() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    let (same, other) = (harness.connect("alto", "alto").await?, harness.tenant("altostrat").await?);
    client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    let asked = "SELECT c.relname, p.command, p.type, p.bytes_processed, p.tuples_processed, p.datname
        FROM pg_stat_progress_copy p JOIN pg_class c ON c.oid = p.relid";
    {
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await?;
        let mut sink = pin!(sink);
        sink.send(Bytes::from_static(b"1\n2\n3\n")).await?;
        sink.flush().await?;
        while rows(&same, asked).await? != ["t|COPY FROM|PIPE|6|3|alto"] {
            tokio::task::yield_now().await;
        }
        assert_eq!(rows(&other, "SELECT * FROM pg_stat_progress_copy").await?, [""; 0]);
        sink.as_mut().finish().await?;
    }
    client.batch_execute("SELECT 1").await?;
    assert_eq!(rows(&same, asked).await?, [""; 0]);
    Ok(())
}
