//! `SELECT … FOR UPDATE` and its kin: the answers to two transactions that lock the same rows.

use super::super::testing::{World, check, run, run_with};
use crate::session::transaction::LOCKED_ROWS_MAX;
use datafusion::scalar::ScalarValue;
use expect_test::expect;

const CONFLICT: &str = "40001 could not serialize access due to concurrent update";

async fn accounts() -> World {
    let world = World::new().await;
    let sql = "CREATE TABLE accounts (id int PRIMARY KEY, name text); CREATE TABLE entries (id serial PRIMARY KEY, account int, n int);
        CREATE TABLE plain (a int, b text);
        INSERT INTO accounts VALUES (1, 'a'), (2, 'b'), (3, 'c'); INSERT INTO plain VALUES (1, 'x'), (2, 'y')";
    assert!(run(&mut world.tenant("alto"), sql).await.ends_with("INSERT 0 2"));
    world
}

/// The answer to COMMIT of a transaction that ran `one`, when another has run `two` meanwhile.
async fn end_of(world: &World, one: &str, two: &str, then: &str) -> String {
    let (mut first, mut second) = (world.tenant("alto"), world.tenant("alto"));
    let begun = run(&mut first, &format!("BEGIN; {one}")).await;
    assert!(begun.starts_with("BEGIN\n"), "{begun}");
    let other = run(&mut second, two).await;
    assert!(!other.contains("40001"), "{two}: {other}");
    let end = run(&mut first, &format!("{then}COMMIT")).await;
    end.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_locked_row_that_another_changes_is_found_at_commit() {
    let world = accounts().await;
    let insert = "INSERT INTO entries (account, n) VALUES (1, 1); ";
    for lock in ["FOR UPDATE", "FOR NO KEY UPDATE NOWAIT", "FOR SHARE OF a SKIP LOCKED", "FOR KEY SHARE"] {
        let read = format!("SELECT name FROM accounts a WHERE id = 1 {lock}");
        for then in ["", insert] {
            let change = "UPDATE accounts SET name = name || '!' WHERE id = 1";
            assert_eq!(end_of(&world, &read, change, then).await, CONFLICT, "{read}; {then}");
            let other = "UPDATE accounts SET name = name || '!' WHERE id = 2";
            assert_eq!(end_of(&world, &read, other, then).await, "COMMIT", "{read}; {then}");
        }
    }
    // The transaction that failed has written nothing.
    check(&mut world.tenant("alto"), "SELECT count(*) FROM entries", expect!["4"]).await;
    // Without a lock it goes through.
    let read = "SELECT name FROM accounts WHERE id = 1";
    assert_eq!(end_of(&world, read, "UPDATE accounts SET name = 'z' WHERE id = 1", insert).await, "COMMIT");
    // A row that is gone has changed, and one that was not read has not.
    let read = "SELECT * FROM accounts WHERE id >= 2 ORDER BY id DESC LIMIT 1 FOR UPDATE";
    assert_eq!(end_of(&world, read, "DELETE FROM accounts WHERE id = 2", "").await, "COMMIT");
    assert_eq!(end_of(&world, read, "DELETE FROM accounts WHERE id = 3", "").await, CONFLICT);
}

#[tokio::test]
async fn of_two_that_lock_a_row_and_write_one_fails() {
    let world = accounts().await;
    let write = "INSERT INTO entries (account, n) SELECT 1, count(*) FROM entries";
    let both = |lock: &str| format!("SELECT id FROM accounts WHERE id = 1 {lock}; {write}");
    let other = |lock: &str| format!("BEGIN; {}; COMMIT", both(lock));
    assert_eq!(end_of(&world, &both("FOR UPDATE"), &other("FOR UPDATE"), "").await, CONFLICT);
    // The lock alone, and the write only when the other is through: the row is not what it was.
    let read = "SELECT id FROM accounts WHERE id = 1 FOR UPDATE";
    assert_eq!(end_of(&world, read, &other("FOR UPDATE"), &format!("{write}; ")).await, CONFLICT);
    // Several may share a row, and who writes nothing is in nobody's way.
    assert_eq!(end_of(&world, &both("FOR SHARE"), &other("FOR SHARE"), "").await, "COMMIT");
    assert_eq!(end_of(&world, &both("FOR SHARE"), &other("FOR UPDATE"), "").await, CONFLICT);
    assert_eq!(end_of(&world, &both("FOR UPDATE"), &format!("BEGIN; {read}; COMMIT"), "").await, "COMMIT");
    // What a savepoint took back is not held.
    let undone = format!("SAVEPOINT s; {read}; ROLLBACK TO s; {write}");
    assert_eq!(end_of(&world, &undone, &other("FOR UPDATE"), "").await, "COMMIT");
    // Locked rows are what they were.
    check(
        &mut world.tenant("alto"),
        "BEGIN; SELECT * FROM accounts FOR UPDATE; DELETE FROM accounts WHERE id = 3; UPDATE accounts SET name = 'bb' WHERE id = 2;
         INSERT INTO entries (account, n) VALUES (9, 9); COMMIT; SELECT * FROM accounts ORDER BY id",
        expect![[r#"
            BEGIN
            1|a
            2|b
            3|c
            DELETE 1
            UPDATE 1
            INSERT 0 1
            COMMIT
            1|a
            2|bb"#]],
    )
    .await;
}

#[tokio::test]
async fn rows_come_as_without_a_lock() {
    let world = accounts().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "SELECT 1 FOR UPDATE; SELECT * FROM plain ORDER BY a FOR UPDATE; BEGIN; SELECT * FROM plain ORDER BY b DESC FOR UPDATE;
         SELECT plain.*, a + 1 FROM plain WHERE a = 1 FOR SHARE LIMIT 1; SELECT p.b, x.name FROM accounts x JOIN plain p ON p.a = x.id
            ORDER BY x.id FOR UPDATE OF p, x; SELECT x.*, p.b FROM accounts x LEFT JOIN plain p ON p.a = x.id WHERE x.id > 1 ORDER BY 1
            FOR UPDATE OF x; SELECT FROM plain FOR UPDATE; WITH w AS (SELECT 7 AS w) SELECT w.*, id FROM w, accounts WHERE id = 1 FOR UPDATE;
         INSERT INTO plain VALUES (3, 'z'); SELECT a FROM plain WHERE a = 3 FOR UPDATE; COMMIT;
         SELECT count(*) FROM plain; EXPLAIN SELECT 1 FOR UPDATE; PREPARE q AS SELECT name FROM accounts WHERE id = $1 FOR UPDATE; EXECUTE q(2)",
        expect![[r#"
            1
            1|x
            2|y
            BEGIN
            2|y
            1|x
            1|x|2
            x|a
            y|b
            2|b|y
            3|c|∅


            7|1
            INSERT 0 1
            3
            COMMIT
            3
            ProjectionExec: expr=[1 as ?column?]
              ->  PlaceholderRowExec
            PREPARE
            b"#]],
    )
    .await;
    let told =
        run_with(&mut session, "SELECT name FROM accounts WHERE id = $1 FOR UPDATE", vec![ScalarValue::Int32(Some(3))]);
    assert_eq!(told.await, "(Int32)\nc");
    check(
        &mut session,
        "BEGIN; DECLARE c CURSOR FOR SELECT id FROM accounts ORDER BY id FOR UPDATE; FETCH 2 FROM c; COMMIT",
        expect![[r#"
            BEGIN
            DECLARE CURSOR
            1
            2
            COMMIT"#]],
    )
    .await;
    // A queue: the row that the subquery locks is the one that the statement changes.
    check(
        &mut session,
        "DELETE FROM accounts WHERE id = (SELECT id FROM accounts ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING name;
         UPDATE accounts SET name = 'x' WHERE id IN (SELECT a.id FROM accounts a WHERE name = 'b' FOR NO KEY UPDATE) RETURNING id",
        expect![[r#"
            a
            2"#]],
    )
    .await;
}

#[tokio::test]
async fn what_leaves_no_rows_to_lock_is_refused() {
    let world = accounts().await;
    let refused = [
        ("SELECT DISTINCT id FROM accounts FOR UPDATE", "0A000 FOR UPDATE is not allowed with DISTINCT clause"),
        ("SELECT id FROM accounts GROUP BY id FOR SHARE", "0A000 FOR SHARE is not allowed with GROUP BY clause"),
        ("SELECT 1 FROM accounts HAVING true FOR UPDATE", "0A000 FOR UPDATE is not allowed with HAVING clause"),
        ("SELECT count(*) FROM accounts FOR UPDATE", "0A000 FOR UPDATE is not allowed with aggregate functions"),
        (
            "SELECT 1 FROM accounts ORDER BY max(id) FOR UPDATE",
            "0A000 FOR UPDATE is not allowed with aggregate functions",
        ),
        (
            "SELECT sum(id) OVER () FROM accounts FOR KEY SHARE",
            "0A000 FOR KEY SHARE is not allowed with window functions",
        ),
        (
            "SELECT unnest(ARRAY[1]) FROM accounts FOR UPDATE",
            "0A000 FOR UPDATE is not allowed with set-returning functions in the target list",
        ),
        ("SELECT 1 UNION SELECT 2 FOR UPDATE", "0A000 FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT"),
        ("VALUES (1) FOR UPDATE", "0A000 FOR UPDATE cannot be applied to VALUES"),
        (
            "SELECT 1 FROM accounts a LEFT JOIN plain b ON a.id = b.a FOR NO KEY UPDATE",
            "0A000 FOR NO KEY UPDATE cannot be applied to the nullable side of an outer join",
        ),
        (
            "SELECT 1 FROM accounts a RIGHT JOIN plain b ON a.id = b.a FOR UPDATE OF a",
            "0A000 FOR UPDATE cannot be applied to the nullable side of an outer join",
        ),
        ("WITH w AS (SELECT 1) SELECT 1 FROM w FOR UPDATE OF w", "0A000 FOR UPDATE cannot be applied to a WITH query"),
        ("SELECT 1 FROM unnest(ARRAY[1]) u FOR UPDATE OF u", "0A000 FOR UPDATE cannot be applied to a function"),
        (
            "SELECT 1 FROM accounts a FOR UPDATE OF accounts",
            "42P01 relation \"accounts\" in FOR UPDATE clause not found in FROM clause",
        ),
        (
            "SELECT 1 FROM accounts FOR UPDATE OF public.accounts",
            "42601 FOR UPDATE must specify unqualified relation names",
        ),
        (
            "SELECT * FROM (SELECT * FROM accounts FOR UPDATE) x",
            "0A000 FOR UPDATE or FOR SHARE in or of a subquery is not supported",
        ),
        (
            "SELECT * FROM (SELECT * FROM accounts) x FOR UPDATE",
            "0A000 FOR UPDATE or FOR SHARE in or of a subquery is not supported",
        ),
        (
            "UPDATE plain SET b = '' WHERE a IN (SELECT id FROM accounts WHERE name = b FOR UPDATE)",
            "0A000 FOR UPDATE or FOR SHARE in or of a subquery is not supported",
        ),
        (
            "DELETE FROM plain WHERE a IN (SELECT id FROM accounts WHERE id IN (SELECT a FROM plain FOR SHARE) FOR UPDATE)",
            "0A000 FOR UPDATE or FOR SHARE in or of a subquery is not supported",
        ),
        (
            "DELETE FROM plain WHERE a IN (SELECT DISTINCT id FROM accounts FOR UPDATE)",
            "0A000 FOR UPDATE is not allowed with DISTINCT clause",
        ),
        (
            "WITH j AS (SELECT max(id) AS id FROM accounts FOR UPDATE) UPDATE plain SET b = '' FROM j WHERE a = j.id",
            "0A000 FOR UPDATE is not allowed with aggregate functions",
        ),
        (
            "WITH j AS (SELECT id FROM accounts FOR UPDATE OF x) DELETE FROM plain USING j WHERE a = j.id",
            "42P01 relation \"x\" in FOR UPDATE clause not found in FROM clause",
        ),
        (
            "WITH j AS (SELECT 1), j AS (SELECT 2) DELETE FROM plain",
            "42712 WITH query name \"j\" specified more than once",
        ),
        (
            "WITH RECURSIVE j AS (SELECT 1) DELETE FROM plain",
            "0A000 WITH RECURSIVE before UPDATE or DELETE is not supported",
        ),
        (
            "WITH j AS (DELETE FROM plain RETURNING a) SELECT * FROM accounts FOR UPDATE",
            "0A000 a query that locks beside one that writes inside of WITH is not supported",
        ),
        (
            "WITH j AS (SELECT 1 AS a) DELETE FROM plain WHERE a IN (WITH j AS (SELECT 2 AS a) SELECT a FROM j)",
            "0A000 a name of WITH that a WITH within it has as well is not supported",
        ),
        (
            "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM accounts FOR UPDATE",
            "0A000 DECLARE CURSOR WITH HOLD ... FOR UPDATE is not supported",
        ),
    ];
    for (sql, expected) in refused {
        assert_eq!(run(&mut world.tenant("alto"), sql).await, expected, "{sql}");
    }
    let mut session = world.tenant("alto");
    run(&mut session, "CREATE VIEW v AS SELECT * FROM accounts").await;
    check(
        &mut session,
        "BEGIN; SELECT * FROM v FOR UPDATE",
        expect![[r#"
            BEGIN
            0A000 FOR UPDATE of a view is not supported"#]],
    )
    .await;
    check(
        &mut session,
        "ROLLBACK; BEGIN READ ONLY; SELECT * FROM accounts FOR SHARE",
        expect![[r#"
            ROLLBACK
            BEGIN
            25006 cannot execute SELECT FOR SHARE in a read-only transaction"#]],
    )
    .await;
}

#[tokio::test]
async fn a_transaction_locks_so_many_rows_and_no_more() {
    let world = accounts().await;
    let mut session = world.tenant("alto");
    let fill = format!("INSERT INTO plain (a) SELECT g FROM generate_series(3, {LOCKED_ROWS_MAX}) g");
    assert_eq!(run(&mut session, &fill).await, format!("INSERT 0 {}", LOCKED_ROWS_MAX - 2));
    // A row counts for each statement that locks it.
    let twice = "BEGIN; SELECT a FROM plain FOR UPDATE; SELECT a FROM plain WHERE a < 9 FOR UPDATE; COMMIT";
    let told = run(&mut session, twice).await;
    assert_eq!(told.lines().last(), Some("54000 a transaction locks at most 50000 rows by FOR UPDATE and FOR SHARE"));
    let told = run(
        &mut session,
        "ROLLBACK; BEGIN; SELECT a FROM plain FOR UPDATE; INSERT INTO entries (n) VALUES (1); COMMIT",
    )
    .await;
    assert_eq!(told.lines().last(), Some("COMMIT"));
}
