//! Temporary tables, as others see what they leave: nothing. What the session itself sees, PostgreSQL says
//! (`tests/slt/postgres/temporary_tables.slt`).

use super::{
    super::testing::{World, check, run, run_prepared},
    definitions::spare,
};
use crate::{session::Session, sql::ast::Statement};
use expect_test::expect;
use keyspan_catalog::{Catalog, private::PRIVATE_TABLE};
use keyspan_storage::{Scan, TableName};

/// Rows that the store has of private tables, whoever can see them.
async fn stored(world: &World) -> usize {
    use futures::TryStreamExt;
    let name = TableName::new(PRIVATE_TABLE).unwrap();
    let rows: Vec<_> = world.instance.catalog.store().scan(&name, Scan::all()).try_concat().await.unwrap();
    rows.len()
}

/// Waits until nothing temporary is in the store any more.
async fn until_gone(world: &World) {
    assert_eq!((spare(world).await, stored(world).await), (0, 0));
}

#[tokio::test]
async fn nothing_is_left_of_a_session_that_ends() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "CREATE TEMP TABLE w (a int PRIMARY KEY, b serial); INSERT INTO w SELECT g FROM generate_series(1, 100) g;
         SELECT * INTO TEMP x FROM w; SELECT count(*), max(b) FROM w JOIN x USING (a, b)",
        expect![[r#"
            CREATE TABLE
            INSERT 0 100
            SELECT 100
            100|100"#]],
    )
    .await;
    // The sequence is a row, too.
    assert_eq!(stored(&world).await, 201);
    check(&mut world.tenant("alto"), "SELECT * FROM w", expect![[r#"42P01 relation "w" does not exist"#]]).await;
    drop(session);
    until_gone(&world).await;
}

#[tokio::test]
async fn nothing_is_left_after_a_crash() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(&mut session, "CREATE TEMP TABLE w AS SELECT g FROM generate_series(1, 10) g; CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)")
        .await;
    assert_eq!(stored(&world).await, 11);
    // Another start over what the store has; the session is not asked.
    let again = Catalog::open(world.instance.catalog.store().clone()).await.unwrap();
    assert_eq!(stored(&world).await, 1);
    assert!(again.snapshot().private.values().all(|private| private.spare.is_empty()));
}

#[tokio::test]
async fn what_is_dropped_is_gone_when_its_transaction_is_over() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(
        &mut session,
        "CREATE TEMP TABLE w AS SELECT 1 AS a; BEGIN; DROP TABLE w; CREATE TEMP TABLE x AS SELECT 2 AS a",
    )
    .await;
    assert_eq!(stored(&world).await, 2);
    check(
        &mut session,
        "ROLLBACK; SELECT * FROM w; SELECT * FROM x",
        expect![[r#"
        ROLLBACK
        1
        42P01 relation "x" does not exist"#]],
    )
    .await;
    run(&mut session, "BEGIN; TRUNCATE w; INSERT INTO w VALUES (5); INSERT INTO w VALUES (6); COMMIT").await;
    check(
        &mut session,
        "SELECT * FROM w ORDER BY a; DISCARD ALL; SELECT * FROM w",
        expect![[r#"
        5
        6
        DISCARD ALL
        42P01 relation "w" does not exist"#]],
    )
    .await;
    until_gone(&world).await;
}

#[tokio::test]
async fn rows_that_outlive_no_transaction_are_never_stored() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "CREATE TEMP TABLE w (a int) ON COMMIT DELETE ROWS; INSERT INTO w VALUES (1); SELECT count(*) FROM w;
         BEGIN; INSERT INTO w VALUES (2); INSERT INTO t VALUES ('x', 1, 5); SELECT count(*) FROM w; COMMIT;
         SELECT count(*) FROM w; SELECT count(*) FROM t",
        expect![[r#"
            CREATE TABLE
            INSERT 0 1
            0
            BEGIN
            INSERT 0 1
            INSERT 0 1
            1
            COMMIT
            0
            1"#]],
    )
    .await;
    assert_eq!(stored(&world).await, 0);
}

#[tokio::test]
async fn what_cannot_be_temporary_is_refused() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    for (sql, expected) in [
        (
            "CREATE TEMP MATERIALIZED VIEW s AS SELECT 1",
            expect!["0A000 CREATE TEMPORARY MATERIALIZED is not supported"],
        ),
        ("CREATE TEMP RECURSIVE VIEW v (n) AS SELECT 1", expect!["0A000 CREATE RECURSIVE VIEW is not supported"]),
        ("CREATE TEMP TABLE w (a int)", expect!["CREATE TABLE"]),
        (
            "ALTER TABLE w ADD PRIMARY KEY (a)",
            expect!["0A000 a change of a temporary table that asks something of its rows is not supported"],
        ),
        ("SELECT * FROM pg_temp_1.w", expect![[r#"42P01 relation "pg_temp_1.w" does not exist"#]]),
        (
            "SELECT * FROM w FOR SYSTEM_TIME AS OF now()",
            expect!["0A000 FOR SYSTEM_TIME AS OF of a temporary table is not supported"],
        ),
        ("SELECT count(*) FROM pg_temp_2.w", expect!["0"]),
    ] {
        check(&mut session, sql, expected).await;
    }
    check(
        &mut world.operator(),
        "CREATE TEMP TABLE w (a int)",
        expect!["0A000 a temporary table in the operator's database is not supported"],
    )
    .await;
}

/// What statements say one after the other, each with its notices.
async fn said(session: &mut Session, statements: &[&str]) -> String {
    let mut lines = Vec::new();
    for sql in statements {
        lines.push(format!("> {sql}\n{}", run(session, sql).await));
        lines.extend(told(session).into_iter().map(|notice| format!("NOTICE {notice}")));
    }
    lines.join("\n")
}

#[tokio::test]
async fn views_say_what_becomes_of_them() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    let statements = [
        "CREATE TEMP TABLE w (a int)",
        "CREATE VIEW v AS SELECT * FROM pg_temp_2.w",
        "CREATE VIEW public.v AS SELECT * FROM w",
        "CREATE VIEW x AS SELECT t.n FROM t, v",
        "DROP TABLE w",
        "DROP TABLE w CASCADE",
        "SELECT * FROM x",
        "CREATE TABLE p (a int, b int)",
        "CREATE VIEW v AS SELECT a FROM p",
        "CREATE TEMP VIEW v AS SELECT b FROM p",
        "CREATE TEMP VIEW x AS SELECT * FROM public.v",
        "DROP TABLE p",
        "ALTER TABLE p DROP COLUMN a CASCADE",
        "SELECT count(*) FROM v",
        "UPDATE v SET b = 1",
        "DROP TABLE p CASCADE",
        "SELECT * FROM v",
    ];
    expect![[r#"
        > CREATE TEMP TABLE w (a int)
        CREATE TABLE
        > CREATE VIEW v AS SELECT * FROM pg_temp_2.w
        CREATE VIEW
        NOTICE view "v" will be a temporary view
        > CREATE VIEW public.v AS SELECT * FROM w
        42P16 cannot create temporary relation in non-temporary schema
        NOTICE view "v" will be a temporary view
        > CREATE VIEW x AS SELECT t.n FROM t, v
        CREATE VIEW
        NOTICE view "x" will be a temporary view
        > DROP TABLE w
        2BP01 cannot drop table w because other objects depend on it (view v depends on table w
        view x depends on view v)
        > DROP TABLE w CASCADE
        DROP TABLE
        NOTICE drop cascades to 2 other objects: drop cascades to view v, drop cascades to view x
        > SELECT * FROM x
        42P01 relation "x" does not exist
        > CREATE TABLE p (a int, b int)
        CREATE TABLE
        > CREATE VIEW v AS SELECT a FROM p
        CREATE VIEW
        > CREATE TEMP VIEW v AS SELECT b FROM p
        CREATE VIEW
        > CREATE TEMP VIEW x AS SELECT * FROM public.v
        CREATE VIEW
        > DROP TABLE p
        2BP01 cannot drop table p because other objects depend on it (view v depends on table p
        view v depends on table p
        view x depends on view v)
        > ALTER TABLE p DROP COLUMN a CASCADE
        ALTER TABLE
        NOTICE drop cascades to 2 other objects: drop cascades to view public.v, drop cascades to view x
        > SELECT count(*) FROM v
        0
        > UPDATE v SET b = 1
        0A000 cannot change what view "v" shows
        > DROP TABLE p CASCADE
        DROP TABLE
        NOTICE drop cascades to view v
        > SELECT * FROM v
        42P01 relation "v" does not exist"#]]
    .assert_eq(&said(&mut session, &statements).await);
}

#[tokio::test]
async fn a_view_may_outlive_what_others_drop() {
    let world = World::new().await;
    let (mut session, mut other) = (world.tenant("alto"), world.tenant("alto"));
    run(
        &mut session,
        "CREATE TABLE p (a int, b int); CREATE TEMP VIEW v AS SELECT a FROM p; CREATE TEMP VIEW x AS SELECT * FROM v",
    )
    .await;
    let others = ["ALTER TABLE p DROP COLUMN b", "ALTER TABLE p RENAME TO q", "SELECT * FROM pg_temp.v"];
    expect![[r#"
        > ALTER TABLE p DROP COLUMN b
        ALTER TABLE
        > ALTER TABLE p RENAME TO q
        ALTER TABLE
        > SELECT * FROM pg_temp.v
        42P01 relation "pg_temp.v" does not exist"#]]
    .assert_eq(&said(&mut other, &others).await);
    check(&mut session, "SELECT count(*) FROM x", expect!["0"]).await;
    let gone = run(&mut other, "ALTER TABLE q DROP COLUMN a; ALTER TABLE q ADD COLUMN c int").await;
    assert_eq!(gone, "ALTER TABLE\nALTER TABLE");
    let statements = [
        "SELECT count(*) FROM x",
        "SELECT pg_get_viewdef('v')",
        "CREATE TEMP VIEW y AS SELECT c FROM q",
        "ALTER TABLE q DROP COLUMN c",
        "DROP VIEW v",
        "DROP VIEW v CASCADE",
        "SELECT count(*) FROM y",
    ];
    expect![[r#"
        > SELECT count(*) FROM x
        55000 temporary view "v" reads what another session has dropped or changed
        > SELECT pg_get_viewdef('v')
        a view reads a relation or a column that is no more
        > CREATE TEMP VIEW y AS SELECT c FROM q
        CREATE VIEW
        > ALTER TABLE q DROP COLUMN c
        2BP01 cannot drop column c of table q because other objects depend on it (view y depends on column c of table q)
        > DROP VIEW v
        2BP01 cannot drop view v because other objects depend on it (view x depends on view v)
        > DROP VIEW v CASCADE
        DROP VIEW
        NOTICE drop cascades to view x
        > SELECT count(*) FROM y
        0"#]]
    .assert_eq(&said(&mut session, &statements).await);
}

#[tokio::test]
async fn views_of_many_are_bounded() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    session.temporary.relations_max = 20;
    run(&mut session, "BEGIN").await;
    for number in 0..20 {
        run(&mut session, &format!("CREATE TEMP VIEW v{number} AS SELECT {number} AS n")).await;
    }
    check(
        &mut session,
        "CREATE TEMP VIEW more AS SELECT 1 AS n",
        expect!["54000 a session has at most 20 temporary tables, views and sequences"],
    )
    .await;
    run(&mut session, "ROLLBACK").await;
    until_gone(&world).await;
}

#[tokio::test]
async fn a_prepared_statement_follows_its_names() {
    let world = World::new().await;
    let mut session: Session = world.tenant("alto");
    run(&mut session, "INSERT INTO t VALUES ('x', 1, 5)").await;
    // By the key, which goes around the optimizer, and by a plan.
    for sql in ["SELECT n FROM t WHERE a = 'x' AND b = 1", "SELECT sum(n) FROM t"] {
        let statement = Statement::parse(sql).unwrap().swap_remove(0);
        let prepared = session.prepare(statement, &[]).await.unwrap();
        assert_eq!(run_prepared(&mut session, &prepared, vec![]).await, "5");
        run(
            &mut session,
            "CREATE TEMP TABLE t (a text, b int, n bigint, PRIMARY KEY (a, b)); INSERT INTO t VALUES ('x', 1, 7)",
        )
        .await;
        assert_eq!(run_prepared(&mut session, &prepared, vec![]).await, "7");
        run(&mut session, "SET search_path = public, pg_temp").await;
        assert_eq!(run_prepared(&mut session, &prepared, vec![]).await, "5");
        run(&mut session, "RESET search_path; DROP TABLE t").await;
        assert_eq!(run_prepared(&mut session, &prepared, vec![]).await, "5");
        run(&mut session, "SET search_path = ''").await;
        assert_eq!(run_prepared(&mut session, &prepared, vec![]).await, r#"42P01 relation "t" does not exist"#);
        run(&mut session, "RESET search_path").await;
    }
}

/// The notices since the last time.
fn told(session: &mut Session) -> Vec<String> {
    let shown = |notice: crate::pg::error::SqlError| match notice.detail {
        Some(detail) => format!("{}: {}", notice.message, detail.replace('\n', ", ")),
        None => notice.message,
    };
    session.take_notices().into_iter().map(shown).collect()
}
