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

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_counts_by_what_it_does() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    one.batch_execute("INSERT INTO t SELECT g, 'a' FROM generate_series(1, 10) g").await?;
    one.batch_execute(
        "MERGE INTO t USING generate_series(1, 14) AS s(k) ON t.k = s.k
            WHEN MATCHED AND s.k <= 3 THEN DELETE
            WHEN MATCHED AND s.k = 4 THEN DO NOTHING
            WHEN MATCHED THEN UPDATE SET v = 'b'
            WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'c')",
    )
    .await?;
    let counted = "SELECT n_tup_ins, n_tup_upd, n_tup_del, n_live_tup FROM pg_stat_user_tables WHERE relname = 't'";
    assert_eq!(rows(&one, counted).await?, ["14|6|3|11"]);
    // What the parts of WITH write counts, too.
    one.batch_execute("WITH gone AS (DELETE FROM t WHERE k = 5 RETURNING v) INSERT INTO t SELECT 20, v FROM gone")
        .await?;
    assert_eq!(rows(&one, counted).await?, ["15|6|4|11"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_those_of_the_tenant() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k bigint PRIMARY KEY, v text)").await?;
    one.batch_execute("CREATE TABLE own (k bigint PRIMARY KEY, v text)").await?;
    let live = "SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables ORDER BY 1";
    assert_eq!(rows(&one, live).await?, ["own|0|0", "shared|0|0"]);
    // Nothing was measured of the other's.
    let known = "SELECT relname, reltuples, relpages > 0 FROM pg_class WHERE relname IN ('own', 'shared') ORDER BY 1";
    assert_eq!(rows(&other, known).await?, ["shared|-1|f"]);
    let fill =
        |rows: u32| format!("INSERT INTO shared SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, {rows}) g");
    one.batch_execute(&fill(2_000)).await?;
    other.batch_execute(&fill(500)).await?;
    one.batch_execute("INSERT INTO own SELECT k, v FROM shared WHERE k <= 100").await?;
    for flushed in [false, true] {
        if flushed {
            harness.engine().flush().await?;
        }
        assert_eq!(rows(&one, live).await?, ["own|100|0", "shared|2000|0"], "{flushed}");
        assert_eq!(rows(&other, live).await?, ["shared|500|0"], "{flushed}");
        assert_eq!(rows(&operator, live).await?, ["shared|2500|0"], "{flushed}");
        // A row is about 130 bytes, in files less than half of that.
        let bounds = |table: &str| {
            format!("SELECT pg_relation_size('{table}') / greatest(count(*), 1) BETWEEN 10 AND 400 FROM {table}")
        };
        assert_eq!(rows(&one, &bounds("shared")).await?, ["t"], "{flushed}");
        assert_eq!(rows(&other, &bounds("shared")).await?, ["t"], "{flushed}");
        let sums = "SELECT pg_table_size('shared') = pg_relation_size('shared'),
                pg_total_relation_size('shared') = pg_relation_size('shared'), pg_indexes_size('shared'),
                pg_database_size(current_database()) >= pg_relation_size('shared'),
                pg_relation_size('shared', 'fsm'), pg_relation_size('shared_pkey'), pg_relation_size('pg_class')";
        assert_eq!(rows(&one, sums).await?, ["t|t|0|t|0|0|0"], "{flushed}");
    }
    let both =
        "SELECT (SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname IN ('own', 'shared'))
        = pg_database_size('alto')";
    assert_eq!(rows(&one, both).await?, ["t"]);
    assert_eq!(rows(&operator, "SELECT pg_database_size('alto') > 2 * pg_database_size('altostrat')").await?, ["t"]);
    assert_eq!(rows(&operator, "SELECT pg_database_size('keyspan') > 0").await?, ["t"]);
    assert_eq!(rows(&one, known).await?, ["own|100|t", "shared|2000|t"]);
    // What is dead in a file still takes its place there.
    let before: i64 = rows(&one, "SELECT pg_relation_size('shared')").await?[0].parse()?;
    one.batch_execute("DELETE FROM shared WHERE k <= 500; UPDATE shared SET v = 'x' WHERE k > 1990").await?;
    assert_eq!(rows(&one, live).await?, ["own|100|0", "shared|1500|510"]);
    let after: i64 = rows(&one, "SELECT pg_relation_size('shared')").await?[0].parse()?;
    assert!(before < after && after < before + 2_000, "{before} {after}");
    assert_eq!(rows(&other, live).await?, ["shared|500|0"]);
    assert!(error(&one, "SELECT pg_relation_size('shared', 'x')").await.starts_with("22023"));
    assert!(error(&one, "SELECT pg_relation_size('nowhere')").await.starts_with("42P01"));
    assert_eq!(rows(&one, "SELECT pg_relation_size(1), pg_total_relation_size(NULL)").await?, ["|"]);
    assert!(error(&one, "SELECT pg_database_size('altostrat')").await.starts_with("3D000"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_a_part_of_the_total_size() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    let table = "CREATE TABLE t (k bigint PRIMARY KEY, v text) WITH (history = '1 day')";
    harness.operator().await?.batch_execute(table).await?;
    one.batch_execute("INSERT INTO t SELECT g, 'a' FROM generate_series(1, 100) g; UPDATE t SET v = 'b'").await?;
    let grown = "SELECT n_live_tup, pg_total_relation_size('t') > pg_table_size('t') FROM pg_stat_user_tables";
    assert_eq!(rows(&one, grown).await?, ["100|t"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_statements_are_kept_with_their_plans() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'secret')").await?;
    let slow = "SELECT database, role, rows, statement, plan FROM keyspan.slow_statements ORDER BY ended_at";
    assert_eq!(rows(&operator, slow).await?, [""; 0]);
    operator.batch_execute("ALTER DATABASE alto SET log_min_duration_statement = 0").await?;
    let quick = harness.connect("alto", "alto").await?;
    rows(&quick, "SELECT v, count(*) FROM t WHERE v = 'secret' GROUP BY v").await?;
    quick.query("SELECT v FROM t WHERE k = $1", &[&1_i64]).await?;
    let kept = rows(&operator, slow).await?;
    assert_eq!(kept.len(), 2, "{kept:#?}");
    assert!(kept[0].starts_with("alto|alto|1|SELECT v, count(*) FROM t WHERE v = $1 GROUP BY v|"), "{kept:#?}");
    assert!(kept[0].contains("Seq Scan on t"), "{kept:#?}");
    // A read by key has no plan of its own, and not that of the statement before.
    assert_eq!(kept[1], "alto|alto|1|SELECT v FROM t WHERE k = $1|");
    assert!(error(&quick, "SELECT 1 / 0 AS no, k FROM t").await.starts_with("22012"));
    let failed = "SELECT error, statement FROM keyspan.slow_statements WHERE error IS NOT NULL";
    assert_eq!(rows(&operator, failed).await?, ["22012|SELECT $1 / $2 AS no, k FROM t"]);
    assert!(error(&one, slow).await.starts_with("42P01"));
    // A role does not choose by itself that its statements are logged.
    let refused = error(&quick, "ALTER ROLE alto SET log_min_duration_statement = 5").await;
    assert!(refused.starts_with("42501"), "{refused}");
    drop((one, quick));
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    while !rows(&operator, slow).await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}
