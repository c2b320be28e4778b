//! Transactions, settings, definitions and dropped tenants: statements of several sessions and the answer to each.

mod comments;
mod definitions;
mod explained;
mod filled;
mod listening;
mod locked;
mod merge;
mod past;
mod portals;
mod quotas;
mod servers;
mod skipped;
mod temporary;
mod views;

use super::testing::{World, check, run};
use crate::{dml::target::marker, write_set::CELLS_MAX, write_set::WriteSet};
use expect_test::expect;
use keyspan_storage::{FamilyName, Mutation, RowKey};

#[tokio::test]
async fn semantics_3_a_transaction_sees_its_writes_and_nobody_else_does() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    check(
        &mut one,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('x', 2, 2); BEGIN; INSERT INTO t (a, b, n) VALUES ('w', 0, 0);
         UPDATE t SET n = n + 10 WHERE b = 1; DELETE FROM t WHERE b = 2; SELECT a, b, n FROM t ORDER BY a, b;
         SELECT a, b FROM t ORDER BY a DESC LIMIT 1",
        expect![[r#"
            INSERT 0 2
            BEGIN
            INSERT 0 1
            UPDATE 1
            DELETE 1
            w|0|0
            x|1|11
            x|1"#]],
    )
    .await;
    check(
        &mut two,
        "SELECT a, b, n FROM t ORDER BY a, b",
        expect![[r#"
        x|1|1
        x|2|2"#]],
    )
    .await;
    check(&mut one, "COMMIT", expect!["COMMIT"]).await;
    check(
        &mut two,
        "SELECT a, b, n FROM t ORDER BY a, b",
        expect![[r#"
        w|0|0
        x|1|11"#]],
    )
    .await;
    check(
        &mut one,
        "BEGIN; DELETE FROM t; SELECT count(*) FROM t; ROLLBACK; SELECT count(*) FROM t",
        expect![[r#"
        BEGIN
        DELETE 2
        0
        ROLLBACK
        2"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_3_a_row_that_changed_is_a_conflict() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    check(&mut one, "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('x', 2, 2)", expect!["INSERT 0 2"]).await;
    check(
        &mut one,
        "BEGIN; UPDATE t SET n = n + 1 WHERE b = 1",
        expect![[r#"
        BEGIN
        UPDATE 1"#]],
    )
    .await;
    check(&mut two, "UPDATE t SET n = n + 100 WHERE b = 1", expect!["UPDATE 1"]).await;
    check(
        &mut one,
        "COMMIT; SELECT n FROM t WHERE b = 1",
        expect!["40001 could not serialize access due to concurrent update"],
    )
    .await;
    check(&mut one, "SELECT n FROM t WHERE b = 1", expect!["101"]).await;
    // A change between two statements of READ COMMITTED is no conflict for the second.
    check(
        &mut one,
        "BEGIN; UPDATE t SET n = 0 WHERE b = 2",
        expect![[r#"
        BEGIN
        UPDATE 1"#]],
    )
    .await;
    check(&mut two, "UPDATE t SET n = n + 100 WHERE b = 1", expect!["UPDATE 1"]).await;
    check(
        &mut one,
        "UPDATE t SET n = n + 1 WHERE b = 1; COMMIT; SELECT b, n FROM t ORDER BY b",
        expect![[r#"
        UPDATE 1
        COMMIT
        1|202
        2|0"#]],
    )
    .await;
    // One pin for all of a REPEATABLE READ transaction.
    check(
        &mut one,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM t WHERE b = 1",
        expect![[r#"
        BEGIN
        202"#]],
    )
    .await;
    check(&mut two, "UPDATE t SET n = 7 WHERE b = 1", expect!["UPDATE 1"]).await;
    check(
        &mut one,
        "SELECT n FROM t WHERE b = 1; UPDATE t SET n = n + 1 WHERE b = 1; COMMIT",
        expect![[r#"
        202
        UPDATE 1
        40001 could not serialize access due to concurrent update"#]],
    )
    .await;
    // Two transactions insert one key.
    check(
        &mut one,
        "BEGIN; INSERT INTO t (a, b) VALUES ('new', 1)",
        expect![[r#"
        BEGIN
        INSERT 0 1"#]],
    )
    .await;
    check(&mut two, "INSERT INTO t (a, b) VALUES ('new', 1)", expect!["INSERT 0 1"]).await;
    check(&mut one, "COMMIT", expect!["40001 could not serialize access due to concurrent update"]).await;
}

#[tokio::test]
async fn semantics_3_statements_of_their_own_are_tried_again() {
    const SESSIONS: usize = 6;
    const UPDATES: usize = 10;
    let world = World::new().await;
    run(&mut world.tenant("alto"), "INSERT INTO t (a, b, n) VALUES ('x', 1, 0)").await;
    let tasks = (0..SESSIONS).map(|_| {
        let mut session = world.tenant("alto");
        tokio::spawn(async move {
            for _ in 0..UPDATES {
                assert_eq!(run(&mut session, "UPDATE t SET n = n + 1 WHERE a = 'x' AND b = 1").await, "UPDATE 1");
            }
        })
    });
    futures::future::try_join_all(tasks).await.unwrap();
    assert_eq!(run(&mut world.tenant("alto"), "SELECT n FROM t").await, (SESSIONS * UPDATES).to_string());
}

#[tokio::test]
async fn a_dropped_tenant_is_gone_and_the_other_stays() {
    let world = World::new().await;
    let (mut alto, mut strat, mut operator) = (world.tenant("alto"), world.tenant("altostrat"), world.operator());
    run(&mut alto, "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('x', 2, 2)").await;
    run(&mut strat, "INSERT INTO t (a, b, n) VALUES ('x', 1, 3)").await;
    check(
        &mut operator,
        "EXPLAIN DROP DATABASE alto",
        expect![[r#"
            Drop Database alto (dry run: nothing is changed)
              t: 2 rows, 2 cells, 78 bytes
            Total: 1 tables, 2 rows, 2 cells, 78 bytes"#]],
    )
    .await;
    world.drop_tenant("alto").await;
    check(
        &mut alto,
        "SELECT * FROM t",
        expect![[r#"57P01 terminating connection due to administrator command (Database "alto" was dropped.)"#]],
    )
    .await;
    check(&mut strat, "SELECT a, b, n FROM t", expect!["x|1|3"]).await;
    // The same name again is another tenant, with none of the rows.
    check(
        &mut operator,
        "CREATE DATABASE alto; SELECT tenant, a FROM t",
        expect![[r#"
        CREATE DATABASE
        altostrat|x"#]],
    )
    .await;
    check(
        &mut alto,
        "SELECT * FROM t",
        expect![[r#"57P01 terminating connection due to administrator command (Database "alto" was dropped.)"#]],
    )
    .await;
    check(&mut world.tenant("alto"), "SELECT * FROM t", expect!["(no rows)"]).await;
}

#[tokio::test]
async fn settings_are_checked_shown_and_rolled_back() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "SHOW search_path; SET search_path = public; BEGIN; SET application_name = 'x'; SET LOCAL statement_timeout = '2s';
         SHOW statement_timeout; ROLLBACK; SHOW application_name; SHOW statement_timeout; SET statement_timeout = 1500;
         SHOW statement_timeout; SHOW transaction isolation level; SHOW TimeZone; RESET ALL; SHOW statement_timeout",
        expect![[r#"
            "$user", public
            SET
            BEGIN
            SET
            SET
            2s
            ROLLBACK

            0
            SET
            1500ms
            read committed
            UTC
            RESET
            0"#]],
    )
    .await;
    check(&mut alto, "SET nonsense = 1", expect![[r#"42704 unrecognized configuration parameter "nonsense""#]]).await;
    let nowhere = expect![[r#"22023 invalid value for parameter "TimeZone": "Europe/Nowhere""#]];
    check(&mut alto, "SET timezone = 'Europe/Nowhere'", nowhere).await;
    check(
        &mut alto,
        "SET statement_timeout = 'soon'",
        expect![[r#"22023 invalid value for parameter "statement_timeout": "soon""#]],
    )
    .await;
    check(&mut alto, "SET server_version = '1'", expect![[r#"55P02 parameter "server_version" cannot be changed"#]])
        .await;
    check(&mut alto, "SHOW nonsense", expect![[r#"42704 unrecognized configuration parameter "nonsense""#]]).await;
    check(
        &mut alto,
        "BEGIN READ ONLY; INSERT INTO t (a, b) VALUES ('x', 1)",
        expect![[r#"
        BEGIN
        25006 cannot execute INSERT in a read-only transaction"#]],
    )
    .await;
    run(&mut alto, "ROLLBACK").await;
    alto.set("application_name", "pool").unwrap();
    alto.started();
    check(
        &mut alto,
        "SET application_name = 'other'; SELECT current_setting('application_name'); RESET ALL; SHOW application_name",
        expect![[r#"
            SET
            other
            RESET
            pool"#]],
    )
    .await;
    assert!(alto.take_parameter_status().iter().any(|(name, value)| name == "TimeZone" && value == "UTC"));
}

#[tokio::test]
async fn a_commit_is_bounded() {
    let world = World::new().await;
    let table = world.instance.catalog.snapshot().table("t").unwrap().clone();
    let mut written = WriteSet::default();
    let key = RowKey::new("x#1").unwrap();
    // A marker is no cell, and a row without any counts as one.
    let delete = || vec![marker(), Mutation::DeleteFromFamily { family: FamilyName::new("m").unwrap() }];
    for _ in 0..CELLS_MAX - 2 {
        written.mutate(&table, key.clone(), delete()).unwrap();
    }
    written.mutate(&table, key.clone(), vec![marker()]).unwrap();
    written.mutate(&table, key.clone(), vec![Mutation::DeleteFromRow]).unwrap();
    let error = written.mutate(&table, key, vec![marker()]).unwrap_err();
    assert_eq!((error.state.0, error.message.as_str()), ("54000", "a commit of more than 100000 cells"));
}

/// What a session keeps of conditions holds no statement, which would hold the session's conditions in turn.
#[tokio::test]
async fn kept_conditions_go_with_their_session() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    let sql = "CREATE TABLE named (id int PRIMARY KEY, name text CHECK (length(name) > 1 AND id % 2 = 0));
        INSERT INTO named VALUES (2, 'ab'); INSERT INTO named VALUES (4, 'cd')";
    assert_eq!(run(&mut session, sql).await, "CREATE TABLE\nINSERT 0 1\nINSERT 0 1");
    let kept = std::sync::Arc::downgrade(&session.conditions);
    assert!(kept.upgrade().is_some_and(|kept| kept.tables() == 1));
    drop(session);
    assert!(kept.upgrade().is_none(), "a circle");
}
