//! `SKIP LOCKED` and `NOWAIT`: the rows and errors of a transaction when another one holds rows.

use super::super::testing::{World, check, run, run_with};
use crate::{row_locks::RowLocks, wire::transaction_status::TransactionStatus};
use datafusion::scalar::ScalarValue;
use expect_test::expect;
use std::sync::Arc;

async fn jobs(count: usize) -> World {
    let world = World::new().await;
    let sql = format!(
        "CREATE TABLE jobs (id int PRIMARY KEY, state text, rank int); CREATE TABLE plain (a int);
         INSERT INTO jobs SELECT g, 'new', -g FROM generate_series(1, {count}) g; INSERT INTO plain VALUES (1), (2), (3)"
    );
    assert!(run(&mut world.tenant("alto"), &sql).await.ends_with("INSERT 0 3"));
    world
}

/// The answer of a session's transaction, which is then forgotten.
async fn given(world: &World, sql: &str) -> String {
    let mut session = world.tenant("alto");
    let given = run(&mut session, &format!("BEGIN; {sql}")).await;
    session.rollback();
    given.strip_prefix("BEGIN\n").unwrap_or(&given).replace('\n', " ")
}

#[tokio::test]
async fn rows_that_another_holds_are_passed_over_below_limit() {
    let world = jobs(6).await;
    let mut holder = world.tenant("alto");
    let skip = "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED";
    assert_eq!(
        run(&mut holder, "BEGIN; SELECT id FROM jobs WHERE id IN (1, 3) ORDER BY id FOR UPDATE").await,
        "BEGIN\n1\n3"
    );
    for (sql, expected) in [
        (skip.to_owned(), "2 4 5 6"),
        (format!("{skip} LIMIT 1"), "2"),
        (format!("{skip} LIMIT 2 OFFSET 1"), "4 5"),
        (format!("{skip} OFFSET 3"), "6"),
        (format!("{skip} LIMIT 0"), "(no rows)"),
        ("SELECT id FROM jobs ORDER BY rank FETCH FIRST 4 ROWS ONLY FOR UPDATE SKIP LOCKED".to_owned(), "6 5 4 2"),
        ("SELECT id FROM jobs WHERE id = 1 FOR SHARE SKIP LOCKED".to_owned(), "(no rows)"),
        // Of a join only what is named is looked at.
        (
            "SELECT j.id, a FROM jobs j JOIN plain p ON p.a = j.id ORDER BY 1 FOR UPDATE OF p SKIP LOCKED".to_owned(),
            "1|1 2|2 3|3",
        ),
        (
            "SELECT j.id, a FROM jobs j JOIN plain p ON p.a = j.id ORDER BY 1 FOR UPDATE OF j SKIP LOCKED LIMIT 1"
                .to_owned(),
            "2|2",
        ),
        // One that waits for nobody prevails.
        (
            "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED FOR SHARE NOWAIT".to_owned(),
            "55P03 could not obtain lock on row in relation \"jobs\"",
        ),
        (
            "SELECT id FROM jobs ORDER BY id FOR UPDATE NOWAIT".to_owned(),
            "55P03 could not obtain lock on row in relation \"jobs\"",
        ),
        ("SELECT id FROM jobs WHERE id = 2 FOR UPDATE NOWAIT".to_owned(), "2"),
        ("SELECT id FROM jobs ORDER BY id FOR UPDATE LIMIT 1".to_owned(), "1"),
        (format!("{skip} LIMIT -1"), "2201W LIMIT must not be negative"),
        (format!("{skip} OFFSET -1"), "2201X OFFSET must not be negative"),
    ] {
        assert_eq!(given(&world, &sql).await, expected, "{sql}");
    }
    // The holder itself is given what it holds; outside of a transaction others' rows are passed over as well, and
    // nothing is held after.
    assert_eq!(run(&mut holder, &format!("{skip} LIMIT 2")).await, "1\n2");
    let mut other = world.tenant("alto");
    assert_eq!(run(&mut other, &format!("{skip} LIMIT 2; {skip} LIMIT 2")).await, "4\n5\n4\n5");
    let limits = vec![ScalarValue::Int64(Some(1)), ScalarValue::Int64(Some(2))];
    assert_eq!(run_with(&mut other, &format!("{skip} LIMIT $1 OFFSET $2"), limits).await, "(Int64, Int64)\n6");
    // Another database has rows of its own.
    let same = "CREATE TABLE jobs (id int PRIMARY KEY, state text, rank int); INSERT INTO jobs VALUES (1, 'new', 1)";
    run(&mut world.tenant("altostrat"), same).await;
    check(&mut world.tenant("altostrat"), &format!("BEGIN; {skip}"), expect!["BEGIN\n1"]).await;
}

#[tokio::test]
async fn rows_are_let_go_with_what_held_them() {
    let world = jobs(3).await;
    let free = "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED";
    let mut holder = world.tenant("alto");
    for (sql, expected) in [
        ("BEGIN; SELECT id FROM jobs WHERE id = 1 FOR UPDATE", "2 3"),
        ("SAVEPOINT s; SELECT id FROM jobs WHERE id < 3 ORDER BY id FOR UPDATE", "3"),
        ("ROLLBACK TO s", "2 3"),
        ("COMMIT", "1 2 3"),
        ("BEGIN; SELECT id FROM jobs WHERE id = 1 FOR UPDATE", "2 3"),
        ("ROLLBACK", "1 2 3"),
        // A statement that writes holds what it writes.
        ("BEGIN; UPDATE jobs SET state = 'x' WHERE id = 2", "1 3"),
        ("SAVEPOINT s; DELETE FROM jobs WHERE id = 3", "1"),
        ("ROLLBACK TO s", "1 3"),
        // What has failed holds nothing, unless it may go back to a savepoint.
        ("SELECT 1 / 0", "1 3"),
        ("ROLLBACK; BEGIN; SELECT id FROM jobs WHERE id = 1 FOR UPDATE; SELECT 1 / 0", "1 2 3"),
        ("ROLLBACK; BEGIN; SELECT id FROM jobs FOR SHARE", "(no rows)"),
    ] {
        run(&mut holder, sql).await;
        assert_eq!(given(&world, free).await, expected, "{sql}");
    }
    assert_eq!(given(&world, "SELECT id FROM jobs ORDER BY id FOR SHARE SKIP LOCKED").await, "1 2 3");
    // A session that ends.
    drop(holder);
    assert_eq!(given(&world, free).await, "1 2 3");
}

#[tokio::test]
async fn a_row_that_was_changed_after_it_was_read_is_passed_over() {
    let world = jobs(3).await;
    let mut session = world.tenant("alto");
    // The state of the first statement is read in all of them: 1 is free by then, and is no more what it was.
    run(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs").await;
    run(&mut world.tenant("alto"), "UPDATE jobs SET state = 'done' WHERE id = 1").await;
    let sql = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1; UPDATE jobs SET state = 'x' WHERE id = 2; COMMIT";
    assert_eq!(run(&mut session, sql).await, "2\nUPDATE 1\nCOMMIT");
    run(&mut session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs").await;
    run(&mut world.tenant("alto"), "DELETE FROM jobs WHERE id = 3").await;
    check(
        &mut session,
        "SELECT id FROM jobs WHERE id = 3 FOR UPDATE NOWAIT",
        expect!["40001 could not serialize access due to concurrent update"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_share_a_queue_and_each_job_is_done_once() {
    const JOBS: usize = 40;
    let world = jobs(JOBS).await;
    let workers = (0..4).map(|_| {
        let mut session = world.tenant("alto");
        tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                let job = "BEGIN; SELECT id FROM jobs WHERE state = 'new' ORDER BY rank FOR UPDATE SKIP LOCKED LIMIT 1";
                let got = run(&mut session, job).await;
                let id = got.lines().last().unwrap_or_default().to_owned();
                if id == "(no rows)" {
                    session.rollback();
                    return done;
                }
                let end = run(&mut session, &format!("UPDATE jobs SET state = 'done' WHERE id = {id}; COMMIT")).await;
                assert_eq!(end, "UPDATE 1\nCOMMIT", "{got}");
                done.push(id.parse::<usize>().unwrap());
            }
        })
    });
    let mut done = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        done.extend(worker.await.unwrap());
    }
    done.sort_unstable();
    assert_eq!(done, (1..=JOBS).collect::<Vec<_>>());
}

#[tokio::test]
async fn subqueries_of_writes_pass_over_what_others_hold() {
    let world = jobs(9).await;
    let mut holder = world.tenant("alto");
    run(&mut holder, "BEGIN; SELECT id FROM jobs WHERE id IN (1, 3) FOR UPDATE").await;
    let mut session = world.tenant("alto");
    let first = "SELECT id FROM jobs WHERE state = 'new' ORDER BY id";
    for (sql, expected) in [
        (format!("UPDATE jobs SET state = 'a' WHERE id = ({first} LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"), "2"),
        (format!("UPDATE jobs SET state = 'b' WHERE id IN ({first} FOR UPDATE SKIP LOCKED LIMIT 2) RETURNING id"), "4\n5"),
        (
            format!(
                "WITH j AS ({first} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) UPDATE jobs SET state = 'c', rank = j.id FROM j
                 WHERE jobs.id = j.id RETURNING jobs.id, jobs.rank"
            ),
            "6|6",
        ),
        (
            format!(
                "WITH n AS (SELECT 1 AS n), j (which) AS ({first} LIMIT (SELECT n FROM n) FOR UPDATE SKIP LOCKED)
                 DELETE FROM jobs USING j AS k WHERE id = k.which AND k.which IN (SELECT which FROM j) RETURNING id"
            ),
            "7",
        ),
        (
            "DELETE FROM jobs WHERE id IN (SELECT j.id FROM jobs j JOIN plain p ON p.a = j.id FOR UPDATE OF j SKIP LOCKED) RETURNING id"
                .to_owned(),
            "2",
        ),
        // Nothing is left: no row, and no error.
        ("UPDATE jobs SET state = 'd' WHERE id = (SELECT id FROM jobs WHERE id = 1 FOR UPDATE SKIP LOCKED)".to_owned(), "UPDATE 0"),
        (
            "UPDATE jobs SET state = 'd' WHERE id = (SELECT id FROM jobs WHERE id = 1 FOR UPDATE NOWAIT)".to_owned(),
            "55P03 could not obtain lock on row in relation \"jobs\"",
        ),
        (
            "UPDATE jobs SET state = 'd' WHERE id = (SELECT id FROM jobs WHERE id > 7 FOR UPDATE SKIP LOCKED)".to_owned(),
            "21000 more than one row returned by a subquery used as an expression",
        ),
        // The table that is written is the table, whatever WITH calls so.
        ("WITH plain AS (SELECT a + 0 AS a FROM plain) DELETE FROM plain WHERE a IN (SELECT a FROM plain WHERE a = 3) RETURNING a".to_owned(), "3"),
        ("WITH v AS (SELECT 7 AS a) INSERT INTO plain WITH w AS (SELECT a + 1 AS a FROM v) SELECT a FROM v UNION ALL SELECT a FROM w".to_owned(), "INSERT 0 2"),
        ("SELECT id, state FROM jobs WHERE state <> 'new' ORDER BY id".to_owned(), "4|b\n5|b\n6|c"),
    ] {
        assert_eq!(run(&mut session, &sql).await, expected, "{sql}");
        assert_eq!(session.transaction_status(), TransactionStatus::Idle, "{sql}");
    }
    // Nothing is held behind the statement; in a transaction it is.
    assert_eq!(given(&world, &format!("{first} FOR UPDATE SKIP LOCKED")).await, "8 9");
    let held = format!("BEGIN; UPDATE plain SET a = a WHERE a IN ({first} FOR UPDATE SKIP LOCKED)");
    assert_eq!(run(&mut session, &held).await, "BEGIN\nUPDATE 1");
    assert_eq!(given(&world, &format!("{first} FOR UPDATE SKIP LOCKED")).await, "(no rows)");
    session.rollback();
    assert_eq!(given(&world, &format!("{first} FOR UPDATE SKIP LOCKED")).await, "8 9");
    let sql = format!("UPDATE jobs SET state = $1 WHERE id IN ({first} LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id");
    let values = vec![ScalarValue::Utf8View(Some("e".into())), ScalarValue::Int64(Some(1))];
    assert_eq!(run_with(&mut session, &sql, values).await, "(Utf8View, Int64)\n8");
}

#[tokio::test]
async fn a_statement_that_is_given_up_leaves_no_transaction() {
    let world = jobs(2).await;
    let mut session = world.tenant("alto");
    let sql = "UPDATE jobs SET state = (SELECT pg_sleep(100)::text) WHERE id = (SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED)";
    // It holds its row when it begins to wait, which is seen by another.
    let holds = async {
        while given(&world, "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED").await != "2" {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        done = run(&mut session, sql) => panic!("{done}"),
        () = holds => {}
    }
    session.failed();
    assert_eq!(session.transaction_status(), TransactionStatus::Idle);
    assert_eq!(given(&world, "SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED").await, "1 2");
}

#[tokio::test]
async fn what_a_statement_locks_elsewhere_is_as_it_was_at_its_end() {
    let world = jobs(2).await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "BEGIN; DELETE FROM plain WHERE a IN (SELECT id FROM jobs WHERE id = 1 FOR UPDATE)").await;
    run(&mut two, "UPDATE jobs SET state = 'x' WHERE id = 1").await;
    assert!(run(&mut one, "COMMIT").await.starts_with("40001"));
    assert_eq!(run(&mut two, "SELECT count(*) FROM plain").await, "3");
}

#[tokio::test]
async fn writes_go_on_where_there_is_no_room_for_what_is_held() {
    let world = jobs(4).await;
    let mut instance = Arc::try_unwrap(world.instance).unwrap();
    instance.row_locks = Arc::new(RowLocks::of(2));
    let world = World::of(instance);
    let mut writer = world.tenant("alto");
    // Two rows are seen by others, and the third statement's are not.
    let told =
        run(&mut writer, "BEGIN; UPDATE jobs SET state = 'a' WHERE id < 3; UPDATE jobs SET state = 'b' WHERE id > 2")
            .await;
    assert_eq!(told, "BEGIN\nUPDATE 2\nUPDATE 2");
    let mut other = world.tenant("alto");
    let full = "53200 transactions hold more than 2 rows together";
    assert_eq!(
        run(&mut other, "BEGIN; SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED").await,
        format!("BEGIN\n{full}")
    );
    other.rollback();
    assert_eq!(run(&mut writer, "COMMIT").await, "COMMIT");
    // One of those that others do not see: who takes it learns so at COMMIT.
    run(&mut writer, "BEGIN; UPDATE jobs SET state = 'c'").await;
    assert_eq!(
        run(
            &mut other,
            "BEGIN; SELECT id FROM jobs WHERE id = 4 FOR UPDATE SKIP LOCKED; UPDATE jobs SET state = 'd' WHERE id = 4"
        )
        .await,
        "BEGIN\n4\nUPDATE 1"
    );
    assert_eq!(run(&mut writer, "COMMIT").await, "COMMIT");
    assert!(run(&mut other, "COMMIT").await.starts_with("40001"));
}
