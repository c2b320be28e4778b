//! Savepoints, cursors, prepared statements, TRUNCATE, and the timeouts of idle sessions.

use crate::session::testing::{World, check, run, run_with};
use datafusion::scalar::ScalarValue;
use expect_test::expect;
use std::time::Duration;

#[tokio::test]
async fn semantics_3_a_savepoint_takes_back_what_came_after_it() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    check(
        &mut one,
        "BEGIN; INSERT INTO t (a, b, n) VALUES ('x', 1, 1); SAVEPOINT s; UPDATE t SET n = 2 WHERE b = 1;
         INSERT INTO t (a, b, n) VALUES ('x', 2, 2); SELECT b, n FROM t ORDER BY b; ROLLBACK TO SAVEPOINT s; SELECT b, n FROM t;
         DELETE FROM t; SELECT count(*) FROM t; ROLLBACK TO s; SELECT b, n FROM t; INSERT INTO t (a, b) VALUES ('x', 3);
         RELEASE s; COMMIT; SELECT b, n FROM t ORDER BY b",
        expect![[r#"
            BEGIN
            INSERT 0 1
            SAVEPOINT
            UPDATE 1
            INSERT 0 1
            1|2
            2|2
            ROLLBACK
            1|1
            DELETE 1
            0
            ROLLBACK
            1|1
            INSERT 0 1
            RELEASE
            COMMIT
            1|1
            3|∅"#]],
    )
    .await;
    // What was read only to be taken back is relied on no more.
    check(
        &mut one,
        "BEGIN; SAVEPOINT s; UPDATE t SET n = 7 WHERE b = 1; ROLLBACK TO s",
        expect![[r#"
            BEGIN
            SAVEPOINT
            UPDATE 1
            ROLLBACK"#]],
    )
    .await;
    check(&mut two, "UPDATE t SET n = 9 WHERE b = 1", expect!["UPDATE 1"]).await;
    check(
        &mut one,
        "UPDATE t SET n = 5 WHERE b = 3; COMMIT; SELECT b, n FROM t ORDER BY b",
        expect![[r#"
            UPDATE 1
            COMMIT
            1|9
            3|5"#]],
    )
    .await;
}

#[tokio::test]
async fn a_savepoint_takes_a_failed_transaction_back() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "BEGIN; INSERT INTO t (a, b) VALUES ('x', 1); SAVEPOINT s; SET statement_timeout = 5; INSERT INTO t (a, b) VALUES ('x', 1)",
        expect![[r#"
            BEGIN
            INSERT 0 1
            SAVEPOINT
            SET
            23505 duplicate key value violates unique constraint "t_pkey" (Key (a, b)=(x, 1) already exists.)"#]],
    )
    .await;
    for refused in ["SAVEPOINT r", "RELEASE s", "SELECT 1"] {
        let aborted = "25P02 current transaction is aborted, commands ignored until end of transaction block";
        assert_eq!(run(&mut session, refused).await, aborted, "{refused}");
    }
    check(&mut session, "ROLLBACK TO nope", expect![[r#"3B001 savepoint "nope" does not exist"#]]).await;
    check(
        &mut session,
        "ROLLBACK TO s; SHOW statement_timeout; INSERT INTO t (a, b) VALUES ('x', 2); COMMIT; SELECT count(*) FROM t",
        expect![[r#"
            ROLLBACK
            0
            INSERT 0 1
            COMMIT
            2"#]],
    )
    .await;
    check(&mut session, "SAVEPOINT s", expect!["25P01 SAVEPOINT can only be used in transaction blocks"]).await;
    check(&mut session, "ROLLBACK TO s", expect!["25P01 ROLLBACK TO SAVEPOINT can only be used in transaction blocks"])
        .await;
    // The newest of a name counts; what lies behind goes with it.
    check(
        &mut session,
        "BEGIN; SAVEPOINT a; DELETE FROM t WHERE b = 1; SAVEPOINT b; SAVEPOINT a; DELETE FROM t; ROLLBACK TO a;
         SELECT count(*) FROM t; RELEASE a; ROLLBACK TO a; SELECT count(*) FROM t; RELEASE b",
        expect![[r#"
            BEGIN
            SAVEPOINT
            DELETE 1
            SAVEPOINT
            SAVEPOINT
            DELETE 1
            ROLLBACK
            1
            RELEASE
            ROLLBACK
            2
            3B001 savepoint "b" does not exist"#]],
    )
    .await;
}

#[tokio::test]
async fn a_cursor_goes_forward() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT value FROM generate_series(1, 7) AS g(value); FETCH c; FETCH NEXT FROM c; FETCH 2 IN c;
         FETCH RELATIVE 0 FROM c; FETCH ABSOLUTE 6 FROM c; FETCH FORWARD ALL FROM c; FETCH c",
        expect![[r#"
            BEGIN
            DECLARE CURSOR
            1
            2
            3
            4
            4
            6
            7
            (no rows)"#]],
    )
    .await;
    check(&mut session, "FETCH PRIOR FROM c", expect!["55000 cursor can only scan forward"]).await;
    check(
        &mut session,
        "ROLLBACK; FETCH c",
        expect![[r#"
        ROLLBACK
        34000 cursor "c" does not exist"#]],
    )
    .await;
    check(
        &mut session,
        "DECLARE c CURSOR FOR SELECT 1",
        expect!["25P01 DECLARE CURSOR can only be used in transaction blocks"],
    )
    .await;
}

#[tokio::test]
async fn a_cursor_with_scroll_goes_both_ways() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT value FROM generate_series(1, 5) AS g(value); FETCH PRIOR FROM c; FETCH 3 FROM c;
         FETCH BACKWARD 1 FROM c; FETCH RELATIVE 2 FROM c; FETCH LAST FROM c; FETCH c; FETCH PRIOR FROM c; FETCH -2 FROM c;
         FETCH FIRST FROM c; FETCH ABSOLUTE -2 FROM c; FETCH ABSOLUTE 9 FROM c; FETCH BACKWARD ALL FROM c; FETCH c;
         MOVE ALL IN c; MOVE BACKWARD 2 IN c; FETCH RELATIVE 0 FROM c; CLOSE c",
        expect![[r#"
            BEGIN
            DECLARE CURSOR
            (no rows)
            1
            2
            3
            2
            4
            5
            (no rows)
            5
            4
            3
            1
            4
            (no rows)
            5
            4
            3
            2
            1
            1
            MOVE 4
            MOVE 2
            4
            CLOSE CURSOR"#]],
    )
    .await;
    check(&mut session, "CLOSE c", expect![[r#"34000 cursor "c" does not exist"#]]).await;
}

#[tokio::test]
async fn a_cursor_reads_the_state_in_which_it_was_declared_and_may_outlive_its_transaction() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "BEGIN; INSERT INTO t (a, b) VALUES ('x', 1), ('x', 2); DECLARE h CURSOR WITH HOLD FOR SELECT b FROM t ORDER BY b;
         DECLARE c CURSOR FOR SELECT 1; DECLARE h CURSOR FOR SELECT 1",
        expect![[r#"
            BEGIN
            INSERT 0 2
            DECLARE CURSOR
            DECLARE CURSOR
            42P03 cursor "h" already exists"#]],
    )
    .await;
    check(
        &mut session,
        "ROLLBACK; FETCH h",
        expect![[r#"
        ROLLBACK
        34000 cursor "h" does not exist"#]],
    )
    .await;
    check(
        &mut session,
        "BEGIN; INSERT INTO t (a, b) VALUES ('x', 1), ('x', 2); DECLARE h CURSOR WITH HOLD FOR SELECT b FROM t ORDER BY b;
         SAVEPOINT s; DECLARE c CURSOR FOR SELECT 1; ROLLBACK TO s; DELETE FROM t; FETCH h; COMMIT; FETCH ALL FROM h; CLOSE ALL",
        expect![[r#"
            BEGIN
            INSERT 0 2
            DECLARE CURSOR
            SAVEPOINT
            DECLARE CURSOR
            ROLLBACK
            DELETE 2
            1
            COMMIT
            2
            CLOSE CURSOR ALL"#]],
    )
    .await;
    check(&mut session, "FETCH h", expect![[r#"34000 cursor "h" does not exist"#]]).await;
}

#[tokio::test]
async fn prepared_statements_are_run_by_name() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "PREPARE i (text, int, bigint) AS INSERT INTO t (a, b, n) VALUES ($1, $2, $3); EXECUTE i ('x', 1, 10);
         EXECUTE i ('x', '2', 5 + 6); EXECUTE i('y', 3, NULL); PREPARE q AS SELECT b, n FROM t WHERE a = $1 AND b > $2 ORDER BY b;
         EXECUTE q ('x', 0); EXECUTE q ('x', 1); DEALLOCATE q; EXECUTE q ('x', 1)",
        expect![[r#"
            PREPARE
            INSERT 0 1
            INSERT 0 1
            INSERT 0 1
            PREPARE
            1|10
            2|11
            2|11
            DEALLOCATE
            26000 prepared statement "q" does not exist"#]],
    )
    .await;
    check(
        &mut session,
        "EXECUTE i ('x')",
        expect![[r#"42601 wrong number of parameters for prepared statement "i" (Expected 3 parameters but got 1.)"#]],
    )
    .await;
    check(
        &mut session,
        "EXECUTE i ('x', 'one', 1)",
        expect![[r#"22P02 invalid input syntax for type integer: "one""#]],
    )
    .await;
    check(&mut session, "PREPARE i AS SELECT 1", expect![[r#"42P05 prepared statement "i" already exists"#]]).await;
    check(&mut session, "PREPARE d AS CREATE DATABASE x", expect!["0A000 PREPARE of this statement is not supported"])
        .await;
    check(
        &mut session,
        "DISCARD ALL; EXECUTE i ('x', 9, 9)",
        expect![[r#"
        DISCARD ALL
        26000 prepared statement "i" does not exist"#]],
    )
    .await;
}

#[tokio::test]
async fn truncate_takes_every_row_of_the_tenant_and_of_no_other() {
    let world = World::new().await;
    let (mut one, mut other) = (world.tenant("alto"), world.tenant("altostrat"));
    for session in [&mut one, &mut other] {
        check(session, "INSERT INTO t (a, b) VALUES ('x', 1), ('y', 2)", expect!["INSERT 0 2"]).await;
    }
    check(
        &mut one,
        "BEGIN; TRUNCATE TABLE ONLY t RESTART IDENTITY CASCADE; INSERT INTO t (a, b) VALUES ('x', 1); SELECT count(*) FROM t;
         ROLLBACK; SELECT count(*) FROM t; TRUNCATE t, public.t; SELECT count(*) FROM t",
        expect![[r#"
            BEGIN
            TRUNCATE TABLE
            INSERT 0 1
            1
            ROLLBACK
            2
            TRUNCATE TABLE
            0"#]],
    )
    .await;
    check(&mut other, "SELECT count(*) FROM t", expect!["2"]).await;
    check(&mut one, "TRUNCATE nope", expect![[r#"42P01 relation "nope" does not exist"#]]).await;
    check(&mut world.operator(), "TRUNCATE t", expect!["0A000 TRUNCATE of every tenant's rows is not supported"]).await;
}

#[tokio::test]
async fn upkeep_has_nothing_to_do_and_says_so() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "VACUUM; VACUUM (FULL, VERBOSE off) t; VACUUM ANALYZE public.t (a); ANALYZE VERBOSE t; UNLISTEN *",
        expect![[r#"
            VACUUM
            VACUUM
            VACUUM
            ANALYZE
            UNLISTEN"#]],
    )
    .await;
    let notices = session.take_notices();
    assert_eq!((notices.len(), notices[0].state.0), (4, "00000"));
    check(
        &mut session,
        "SET client_min_messages = error; VACUUM",
        expect![[r#"
        SET
        VACUUM"#]],
    )
    .await;
    assert!(session.take_notices().is_empty());
    check(&mut session, "VACUUM nope", expect![[r#"42P01 relation "nope" does not exist"#]]).await;
    check(
        &mut session,
        "BEGIN; VACUUM",
        expect![[r#"
        BEGIN
        25001 VACUUM cannot run inside a transaction block"#]],
    )
    .await;
    for sql in ["LOCK TABLE t", "COMMENT ON INDEX t_pkey IS 'x'"] {
        assert!(run(&mut world.tenant("alto"), sql).await.starts_with("0A000 "), "{sql}");
    }
}

#[tokio::test]
async fn writes_return_what_they_have_written() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    world_with_plain_table(&world).await;
    check(
        &mut session,
        "INSERT INTO p (b, n, a) VALUES (1, 10, 'x'), (2, NULL, 'y') RETURNING *;
         INSERT INTO p VALUES ('z', 3, 30, 'abc') RETURNING p.b AS number, n * 2, upper(s);
         INSERT INTO p (a, b, n) VALUES ('w', 4, 1), ('x', 1, 5), ('v', 5, 2) ON CONFLICT (a, b) DO UPDATE SET n = p.n + EXCLUDED.n
            RETURNING a, n;
         INSERT INTO p (a, b) VALUES ('x', 1), ('u', 6) ON CONFLICT DO NOTHING RETURNING a;
         INSERT INTO p AS q (a, b, n) VALUES ('x', 1, 8) ON CONFLICT (a, b) DO UPDATE SET n = EXCLUDED.n RETURNING q.n;
         UPDATE p AS q SET n = n + 1, s = 'new' WHERE b < 3 RETURNING q.a, n, s;
         UPDATE p SET n = o.value FROM generate_series(3, 3) AS o(value) WHERE p.b = o.value RETURNING p.a, p.n;
         UPDATE p SET n = 0 WHERE b = 99 RETURNING n;
         DELETE FROM p WHERE a IN ('x', 'z') RETURNING a, n, (SELECT count(*) FROM p);
         SELECT count(*) FROM p",
        expect![[r#"
            x|1|10|∅
            y|2|∅|∅
            3|60|ABC
            w|1
            x|15
            v|2
            u
            8
            x|9|new
            y|∅|new
            z|3
            (no rows)
            x|9|6
            z|3|6
            4"#]],
    )
    .await;
    // An item that fails takes the write along.
    check(
        &mut session,
        "INSERT INTO p (a, b) VALUES ('t', 7) RETURNING 1 / (b - 7)",
        expect!["22012 division by zero"],
    )
    .await;
    check(
        &mut session,
        "INSERT INTO p (a, b) VALUES ('t', 7) RETURNING nope",
        expect![[r#"42703 column "nope" does not exist"#]],
    )
    .await;
    check(&mut session, "SELECT count(*) FROM p WHERE b = 7", expect!["0"]).await;
    check(
        &mut session,
        "INSERT INTO t (a, b) VALUES ('t', 7) RETURNING a",
        expect!["0A000 RETURNING of a table with an aggregate family is not supported"],
    )
    .await;
    check(
        &mut session,
        "UPDATE p SET n = 1 FROM generate_series(1, 2) o RETURNING *",
        expect![[r#"
            u|6|1|∅|1
            v|5|1|∅|1
            w|4|1|∅|1
            y|2|1|new|1"#]],
    )
    .await;
    let parameters = vec![ScalarValue::Utf8View(Some("s".into())), ScalarValue::Int64(Some(5))];
    let returned = run_with(&mut session, "INSERT INTO p (a, b) VALUES ($1, 8) RETURNING b + $2", parameters).await;
    assert!(returned.ends_with("\n13"), "{returned}");
    check(
        &mut session,
        "BEGIN; DELETE FROM p RETURNING a; ROLLBACK; SELECT count(*) FROM p",
        expect![[r#"
            BEGIN
            s
            u
            v
            w
            y
            ROLLBACK
            5"#]],
    )
    .await;
    // The operator's rows begin with the tenant.
    check(
        &mut world.operator(),
        "INSERT INTO p (tenant, a, b) VALUES ('altostrat', 'x', 1) RETURNING *",
        expect!["altostrat|x|1|∅|∅"],
    )
    .await;
}

async fn world_with_plain_table(world: &World) {
    let sql = "CREATE TABLE p (a text, b int, n bigint, s varchar(3), PRIMARY KEY (a, b))";
    assert_eq!(run(&mut world.operator(), sql).await, "CREATE TABLE");
}

#[tokio::test]
async fn an_idle_session_has_the_timeout_of_its_state() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    assert!(session.idle_timeout().is_none());
    run(&mut session, "SET idle_session_timeout = '2s'; SET idle_in_transaction_session_timeout = '3s'").await;
    let told = |session: &crate::session::Session| session.idle_timeout().map(|(time, error)| (time, error.state.0));
    assert_eq!(told(&session), Some((Duration::from_secs(2), "57P05")));
    run(&mut session, "BEGIN; SELECT nope").await;
    assert_eq!(told(&session), Some((Duration::from_secs(3), "25P03")));
}

#[tokio::test]
async fn a_declared_parameter_is_of_its_type_wherever_it_stands() {
    let world = World::new().await;
    check(
        &mut world.tenant("alto"),
        "PREPARE p (smallint, numeric, text, uuid) AS SELECT $1, $2, upper($3), $4, abs($1), pg_typeof($1);
         EXECUTE p (-7, 1.5, 'a', '5f0c8b39-6a0f-4c5b-9e1d-0f7c9a4a3d2e'); EXECUTE p (NULL, NULL, NULL, NULL);
         PREPARE q (smallint) AS SELECT count(*) FROM t WHERE b = $1 LIMIT $1; EXECUTE q (1)",
        expect![[r#"
            PREPARE
            -7|1.5|A|5f0c8b396a0f4c5b9e1d0f7c9a4a3d2e|7|smallint
            ∅|∅|∅|∅|∅|smallint
            PREPARE
            0"#]],
    )
    .await;
}
