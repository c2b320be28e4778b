//! Sessions side by side.

use super::{Sessions, check};
use anyhow::Result;
use expect_test::expect;
use futures::future::try_join_all;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semantics_3_no_increment_is_lost() -> Result<()> {
    const SESSIONS: usize = 6;
    const INCREMENTS: usize = 10;
    let mut sessions = Sessions::start().await?;
    sessions.get("op").await?.batch_execute("CREATE TABLE t (a text PRIMARY KEY, b int)").await?;
    sessions.get("a").await?.batch_execute("INSERT INTO t VALUES ('x', 0)").await?;
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(sessions.harness.connect("alto", "alto").await?);
    }
    let work = clients.iter().map(|client| async move {
        for _ in 0..INCREMENTS {
            client.simple_query("UPDATE t SET b = b + 1 WHERE a = 'x'").await?;
            let upsert = "INSERT INTO t VALUES ('y', 1) ON CONFLICT (a) DO UPDATE SET b = t.b + 1";
            client.simple_query(upsert).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(work).await?;
    sessions
        .check(expect![[r#"
            a> SELECT * FROM t ORDER BY a
            x | 60
            y | 60
        "#]])
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semantics_3_one_of_many_inserts_of_a_key_wins() -> Result<()> {
    const SESSIONS: usize = 6;
    let mut sessions = Sessions::start().await?;
    sessions.get("op").await?.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await?;
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        clients.push(sessions.harness.connect("alto", "alto").await?);
    }
    for key in 0..5 {
        let inserts = clients.iter().enumerate().map(|(at, client)| async move {
            let sql = format!("INSERT INTO t VALUES ({key}, {at})");
            match client.simple_query(&sql).await {
                Ok(_) => Ok(1),
                Err(error) if error.code().is_some_and(|code| code.code() == "23505") => Ok(0),
                Err(error) => Err(error),
            }
        });
        let won: u32 = try_join_all(inserts).await?.into_iter().sum();
        assert_eq!(won, 1, "key {key}");
    }
    Ok(())
}

#[tokio::test]
async fn semantics_3_a_transaction_that_lost_is_refused() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1), ('y', 1)
        (2)
        a> BEGIN
        (0)
        a> UPDATE t SET b = b + 10 WHERE a = 'x'
        (1)
        b> UPDATE t SET b = b + 100 WHERE a = 'x'
        (1)
        a> COMMIT
        40001: could not serialize access due to concurrent update
        HINT: Run the transaction again.
        a> SELECT * FROM t ORDER BY a
        x | 101
        y | 1
        a> BEGIN ISOLATION LEVEL REPEATABLE READ
        (0)
        a> SELECT b FROM t WHERE a = 'x'
        101
        b> UPDATE t SET b = 0 WHERE a = 'x'
        (1)
        a> SELECT b FROM t WHERE a = 'x'
        101
        a> UPDATE t SET b = b + 1 WHERE a = 'x'
        (1)
        a> COMMIT
        40001: could not serialize access due to concurrent update
        HINT: Run the transaction again.
        a> SELECT * FROM t ORDER BY a
        x | 0
        y | 1
        a> BEGIN ISOLATION LEVEL READ COMMITTED
        (0)
        a> SELECT b FROM t WHERE a = 'x'
        0
        b> UPDATE t SET b = 5 WHERE a = 'x'
        (1)
        a> SELECT b FROM t WHERE a = 'x'
        5
        a> UPDATE t SET b = b + 1 WHERE a = 'x'
        (1)
        b> UPDATE t SET b = 7 WHERE a = 'y'
        (1)
        a> COMMIT
        (0)
        a> SELECT * FROM t ORDER BY a
        x | 6
        y | 7
    "#]])
    .await
}

#[tokio::test]
async fn semantics_3_rows_that_were_relied_on_early_are_checked_too() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1), ('y', 1)
        (2)
        a> BEGIN
        (0)
        a> UPDATE t SET b = b + 10 WHERE a = 'x'
        (1)
        b> UPDATE t SET b = b + 100 WHERE a = 'x'
        (1)
        a> UPDATE t SET b = b + 10 WHERE a = 'y'
        (1)
        a> COMMIT
        40001: could not serialize access due to concurrent update
        HINT: Run the transaction again.
        a> SELECT * FROM t ORDER BY a
        x | 101
        y | 1
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES ('z', 1)
        (1)
        b> INSERT INTO t VALUES ('z', 2)
        (1)
        a> COMMIT
        40001: could not serialize access due to concurrent update
        HINT: Run the transaction again.
        a> BEGIN
        (0)
        a> DELETE FROM t WHERE a = 'z'
        (1)
        b> DELETE FROM t WHERE a = 'z'
        (1)
        a> COMMIT
        40001: could not serialize access due to concurrent update
        HINT: Run the transaction again.
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES ('z', 3) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b
        (1)
        b> INSERT INTO t VALUES ('z', 4)
        (1)
        a> COMMIT
        (0)
        a> SELECT * FROM t ORDER BY a
        x | 101
        y | 1
        z | 3
    "#]])
    .await
}

#[tokio::test]
async fn semantics_3_a_transaction_sees_what_it_wrote() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b int, c text)
        (0)
        a> INSERT INTO t VALUES (1, 1, 'one'), (2, 2, 'two'), (5, 5, 'five')
        (3)
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES (3, 3, 'three')
        (1)
        a> UPDATE t SET b = 20 WHERE a = 2
        (1)
        a> DELETE FROM t WHERE a = 1
        (1)
        a> SELECT * FROM t ORDER BY a
        2 | 20 | two
        3 | 3 | three
        5 | 5 | five
        a> SELECT a FROM t ORDER BY a DESC LIMIT 2
        5
        3
        a> SELECT a, c FROM t WHERE a BETWEEN 2 AND 3
        2 | two
        3 | three
        a> SELECT count(*), sum(b) FROM t
        3 | 28
        a> UPDATE t SET b = b + 1
        (3)
        a> INSERT INTO t VALUES (3, 0, 'again')
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(3) already exists.
        b> SELECT * FROM t ORDER BY a
        1 | 1 | one
        2 | 2 | two
        5 | 5 | five
        a> ROLLBACK
        (0)
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES (3, 3, 'three')
        (1)
        a> UPDATE t SET b = b + 1
        (4)
        a> DELETE FROM t WHERE c = 'one'
        (1)
        a> INSERT INTO t VALUES (1, 100, NULL)
        (1)
        a> UPDATE t SET c = NULL WHERE a = 5
        (1)
        a> SELECT * FROM t ORDER BY a
        1 | 100 | NULL
        2 | 3 | two
        3 | 4 | three
        5 | 6 | NULL
        b> SELECT count(*) FROM t
        3
        a> COMMIT
        (0)
        b> SELECT * FROM t ORDER BY a
        1 | 100 | NULL
        2 | 3 | two
        3 | 4 | three
        5 | 6 | NULL
    "#]])
    .await
}

#[tokio::test]
async fn semantics_3_rollback_forgets() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES (1, 1)
        (1)
        a> BEGIN
        (0)
        a> DELETE FROM t
        (1)
        a> INSERT INTO t VALUES (2, 2)
        (1)
        a> ROLLBACK
        (0)
        a> SELECT * FROM t
        1 | 1
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES (2, 2)
        (1)
        a> SELECT 1 / 0
        22012: division by zero
        a> SELECT 1
        25P02: current transaction is aborted, commands ignored until end of transaction block
        a> INSERT INTO t VALUES (3, 3)
        25P02: current transaction is aborted, commands ignored until end of transaction block
        a> COMMIT
        (0)
        a> SELECT * FROM t
        1 | 1
        a> SELECT 1
        1
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES (1, 1)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(1) already exists.
        a> ROLLBACK
        (0)
        a> INSERT INTO t VALUES (2, 2); SELECT 1 / 0
        22012: division by zero
        a> SELECT * FROM t
        1 | 1
        a> COMMIT
        (0)
        a> ROLLBACK
        (0)
        a> BEGIN READ ONLY
        (0)
        a> INSERT INTO t VALUES (4, 4)
        25006: cannot execute INSERT in a read-only transaction
        a> ROLLBACK
        (0)
        a> BEGIN ISOLATION LEVEL SERIALIZABLE
        0A000: ISOLATION LEVEL SERIALIZABLE is not supported
        HINT: REPEATABLE READ reads one state; what a transaction writes is checked against it at COMMIT.
    "#]])
    .await
}

#[tokio::test]
async fn semantics_3_definitions_stand_by_themselves() -> Result<()> {
    check(expect![[r#"
        op> BEGIN
        (0)
        op> CREATE TABLE t (a int PRIMARY KEY)
        25001: CREATE TABLE cannot run inside a transaction block
        HINT: Only what a tenant defines in its own database can be part of a transaction.
        op> ROLLBACK
        (0)
        op> SELECT * FROM t
        42P01: relation "t" does not exist
        POSITION: 15
        op> BEGIN
        (0)
        op> DROP DATABASE alto
        25001: DROP DATABASE cannot run inside a transaction block
        HINT: Only what a tenant defines in its own database can be part of a transaction.
        op> COMMIT
        (0)
        op> BEGIN
        (0)
        op> CREATE ROLE x LOGIN PASSWORD 'x'
        25001: CREATE ROLE cannot run inside a transaction block
        HINT: Only what a tenant defines in its own database can be part of a transaction.
        op> ROLLBACK
        (0)
        op> CREATE TABLE t (a int PRIMARY KEY)
        (0)
        op> SELECT * FROM t
        (no rows)
    "#]])
    .await
}

#[tokio::test]
async fn semantics_3_statements_of_one_text_are_one_transaction() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES (1, 1); UPDATE t SET b = b + 1; SELECT * FROM t
        (1)
        (1)
        1 | 2
        a> INSERT INTO t VALUES (2, 2); INSERT INTO t VALUES (1, 2); INSERT INTO t VALUES (3, 3)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(1) already exists.
        a> DELETE FROM t; SET application_name = 'x'; SELECT nix FROM t
        42703: column "nix" does not exist
        POSITION: 51
        a> SHOW application_name

        (no rows)
        a> SELECT * FROM t
        1 | 2
        a> INSERT INTO t VALUES (4, 4); BEGIN; INSERT INTO t VALUES (5, 5); ROLLBACK; INSERT INTO t VALUES (6, 6)
        (1)
        (0)
        (1)
        (0)
        (1)
        a> SELECT * FROM t ORDER BY a
        1 | 2
        4 | 4
        6 | 6
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES (7, 7); INSERT INTO t VALUES (8, 8)
        (1)
        (1)
        a> ROLLBACK
        (0)
        a> SELECT count(*) FROM t
        3
    "#]])
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn semantics_3_workers_take_each_job_of_a_queue_once() -> Result<()> {
    const JOBS: i32 = 90;
    let mut sessions = Sessions::start().await?;
    let a = sessions.get("a").await?;
    a.batch_execute("CREATE TABLE jobs (id int PRIMARY KEY, state text, worker int, rank int)").await?;
    a.batch_execute(&format!("INSERT INTO jobs SELECT g, 'new', NULL, g % 7 FROM generate_series(1, {JOBS}) g"))
        .await?;
    let next = "SELECT id FROM jobs WHERE state = 'new' ORDER BY rank, id";
    // As libraries for jobs write it.
    let takes = [
        format!(
            "UPDATE jobs SET state = 'taken', worker = $1 WHERE id = ({next} LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
        ),
        format!(
            "UPDATE jobs SET state = 'taken', worker = $1 WHERE id IN ({next} FOR UPDATE SKIP LOCKED LIMIT 3) RETURNING id"
        ),
        format!(
            "WITH j AS ({next} LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE jobs SET state = 'taken', worker = $1 FROM j WHERE jobs.id = j.id RETURNING jobs.id"
        ),
        format!(
            "WITH j AS MATERIALIZED ({next} LIMIT 2 FOR NO KEY UPDATE OF jobs SKIP LOCKED) DELETE FROM jobs USING j WHERE jobs.id = j.id AND $1::int > 0 RETURNING jobs.id"
        ),
    ];
    let mut workers = Vec::new();
    for (worker, take) in takes.iter().chain(&takes).enumerate() {
        let client = sessions.harness.connect("alto", "alto").await?;
        let (take, worker) = (take.clone(), i32::try_from(worker)? + 1);
        workers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                // Half of them within a transaction.
                let block = worker % 2 == 0;
                if block {
                    client.batch_execute("BEGIN").await?;
                }
                let rows = client.query(&take, &[&worker]).await?;
                if block {
                    client.batch_execute("COMMIT").await?;
                }
                if rows.is_empty() {
                    return anyhow::Ok(taken);
                }
                taken.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
            }
        }));
    }
    let mut taken = Vec::new();
    for worker in workers {
        taken.extend(worker.await??);
    }
    taken.sort_unstable();
    assert_eq!(taken, (1..=JOBS).collect::<Vec<_>>());
    sessions
        .check(expect![[r#"
            a> SELECT count(*) FROM jobs WHERE state = 'new'
            0
        "#]])
        .await
}
