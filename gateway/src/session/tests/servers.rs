//! Tables on a server: what is read and written there, and what is refused.

use super::super::testing::{World, check, run};
use expect_test::expect;

#[tokio::test]
async fn a_table_there_reads_and_writes_as_one_here() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1, 'x');
         INSERT INTO r VALUES ('b', 2, 'y'), ('c', 3, 'z');
         INSERT INTO r VALUES ('a', 5, 'x') ON CONFLICT (k) DO NOTHING;
         INSERT INTO r VALUES ('a', 5, 'x') ON CONFLICT (k) DO UPDATE SET n = r.n + excluded.n;
         INSERT INTO r (k, n) VALUES ('b', 7), ('d', 8) ON CONFLICT (k) DO UPDATE SET n = excluded.n;
         UPDATE r SET n = n + 10 WHERE k = 'c';
         SELECT * FROM r ORDER BY k;
         SET keyspan.pushdown = off; SELECT * FROM r WHERE k >= 'c' ORDER BY k; RESET keyspan.pushdown;
         DELETE FROM r WHERE k = 'd';
         DELETE FROM r WHERE n > 6;
         SELECT count(*) FROM r;
         INSERT INTO t VALUES ('a', 1); SELECT r.k, r.s, t.n FROM r JOIN t USING (k)",
        expect![[r#"
            INSERT 0 1
            INSERT 0 2
            INSERT 0 0
            INSERT 0 1
            INSERT 0 2
            UPDATE 1
            a|6|x
            b|7|y
            c|13|z
            d|8|∅
            SET
            c|13|z
            d|8|∅
            RESET
            DELETE 1
            DELETE 2
            1
            INSERT 0 1
            a|x|1"#]],
    )
    .await;
    check(&mut world.tenant("altostrat"), "SELECT * FROM r", expect![""]).await;
    check(&mut world.operator(), "SELECT * FROM r", expect!["alto|a|6|x"]).await;
}

#[tokio::test]
async fn several_rows_are_changed_one_by_one_or_not_at_all() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1), ('b', 2), ('c', 3); SHOW keyspan.transactions; UPDATE r SET n = n + 1",
        expect![[r#"
            INSERT 0 3
            commit
            0A000 changing several rows of table "r" as one is not supported (Its rows are on a server, which is atomic by row.)"#]],
    )
    .await;
    check(
        &mut alto,
        "MERGE INTO r USING (VALUES ('a', 5), ('z', 6)) v (k, n) ON r.k = v.k
         WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT (k, n) VALUES (v.k, v.n)",
        expect![[r#"0A000 changing several rows of table "r" as one is not supported (Its rows are on a server, which is atomic by row.)"#]],
    )
    .await;
    check(
        &mut alto,
        "SET keyspan.transactions = 'row'; UPDATE r SET n = n + 1; RESET keyspan.transactions;
         UPDATE r SET n = n + 1 WHERE n = 2; SELECT k, n FROM r ORDER BY k",
        expect![[r#"
            SET
            UPDATE 3
            RESET
            UPDATE 1
            a|3
            b|3
            c|4"#]],
    )
    .await;
    assert_eq!(run(&mut alto, "SET keyspan.transactions = 'both'").await.split(' ').next(), Some("22023"));
}

#[tokio::test]
async fn a_transaction_writes_one_row_there() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1), ('b', 2);
         BEGIN; UPDATE r SET n = n + 1 WHERE k = 'a'; UPDATE r SET n = n * 10 WHERE k = 'a'; SELECT n FROM r ORDER BY k; COMMIT;
         SELECT n FROM r ORDER BY k; BEGIN; UPDATE r SET n = 0 WHERE k = 'a'; ROLLBACK; SELECT n FROM r WHERE k = 'a'",
        expect![[r#"
            INSERT 0 2
            BEGIN
            UPDATE 1
            UPDATE 1
            20
            2
            COMMIT
            20
            2
            BEGIN
            UPDATE 1
            ROLLBACK
            20"#]],
    )
    .await;
    for (sql, refused) in [
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'a'; UPDATE r SET n = 7 WHERE k = 'b'", "changing several rows"),
        ("BEGIN; INSERT INTO t VALUES ('a', 1); UPDATE r SET n = 7 WHERE k = 'b'", "writing here and on a server"),
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'b'; INSERT INTO t VALUES ('a', 1)", "writing here and on a server"),
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'b'; CREATE TABLE own (a int); COMMIT", "rows of several servers"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM r", "a state of table"),
        ("BEGIN; SELECT * FROM r FOR UPDATE", "FOR UPDATE of table"),
        ("BEGIN; ROLLBACK; TRUNCATE r", "TRUNCATE of table"),
        ("BEGIN; ROLLBACK; DELETE FROM r WHERE k = 'a' ERASE", "DELETE … ERASE of table"),
    ] {
        let told = run(&mut alto, sql).await;
        let last = told.lines().last().unwrap_or_default();
        assert!(last.starts_with("0A000") && last.contains(refused), "{sql}: {told}");
        run(&mut alto, "ROLLBACK").await;
    }
    check(
        &mut alto,
        "SELECT n FROM r ORDER BY k; SET keyspan.transactions = 'row';
         BEGIN; UPDATE r SET n = n + 1 WHERE k = 'a'; UPDATE r SET n = n + 1 WHERE k = 'b'; COMMIT; SELECT n FROM r ORDER BY k",
        expect![[r#"
            20
            2
            SET
            BEGIN
            UPDATE 1
            UPDATE 1
            COMMIT
            21
            3"#]],
    )
    .await;
}

#[tokio::test]
async fn servers_are_the_operators() {
    let world = World::with_server().await;
    let (mut alto, mut operator) = (world.tenant("alto"), world.operator());
    let create = "CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')";
    assert_eq!(run(&mut alto, create).await.split(' ').next(), Some("42501"));
    assert_eq!(run(&mut alto, "DROP SERVER bt").await.split(' ').next(), Some("42501"));
    assert_eq!(
        run(&mut alto, "CREATE TABLE own (k text PRIMARY KEY) SERVER bt").await.split(' ').next(),
        Some("0A000")
    );
    for (sql, told) in [
        ("CREATE SERVER bt FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')", "42710"),
        ("CREATE SERVER IF NOT EXISTS bt FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')", "CREATE"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p')", "42P16"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i/../j')", "42P16"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER other", "42704"),
        ("CREATE TABLE u (k text PRIMARY KEY) SERVER other", "42704"),
        ("CREATE TABLE u (k text PRIMARY KEY, n bigint) WITH (history = '7 days') SERVER bt", "0A000"),
        ("CREATE TABLE u (k text PRIMARY KEY, n bigint, FAMILY m (n)) WITH (m.aggregate = hll) SERVER bt", "0A000"),
        ("ALTER TABLE r DROP COLUMN n", "0A000"),
        ("ALTER TABLE r SET (history = '7 days')", "0A000"),
        ("DROP SERVER bt", "2BP01"),
        ("DROP SERVER IF EXISTS other", "DROP"),
        ("DROP SERVER other", "42704"),
        ("ALTER TABLE r ADD COLUMN more text", "ALTER"),
        ("DROP TABLE r; DROP SERVER bt", "DROP"),
    ] {
        let answer = run(&mut operator, sql).await;
        assert_eq!(answer.split(' ').next(), Some(told), "{sql}: {answer}");
    }
    assert_eq!(run(&mut alto, "SELECT * FROM r").await.split(' ').next(), Some("42P01"));
}

#[tokio::test]
async fn a_dropped_tenant_leaves_nothing_there() {
    let world = World::with_server().await;
    run(&mut world.tenant("alto"), "INSERT INTO r VALUES ('a', 1)").await;
    run(&mut world.tenant("altostrat"), "INSERT INTO r VALUES ('a', 2)").await;
    check(
        &mut world.operator(),
        "DROP DATABASE alto; SELECT tenant, rows FROM keyspan.drops; SELECT tenant, n FROM r",
        expect![[r#"
            DROP DATABASE
            alto|1
            altostrat|2"#]],
    )
    .await;
    assert!(world.instance.catalog.purge(&keyspan_storage::SystemClock).await.is_ok(), "the rest is purged here");
}
