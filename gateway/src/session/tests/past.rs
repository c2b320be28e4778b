//! `FOR SYSTEM_TIME AS OF`, on a clock that the tests turn.

use super::super::{
    Session,
    testing::{World, check, run, run_with},
};
use datafusion::scalar::ScalarValue;
use expect_test::expect;
use keyspan_storage::clock::ManualClock;
use std::sync::Arc;

/// 2026-11-01 00:00:00 UTC, in microseconds.
const START: i64 = 1_793_491_200_000_000;
const HOUR: i64 = 3_600_000_000;

/// Table `h (a, n)`, which keeps a day. At one o'clock `x` and `y` came, at two `x` changed, at three `y` went and `z`
/// came; now it is four.
async fn world() -> (World, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START));
    let world = World::at(clock.clone()).await;
    let mut op = world.operator();
    let made = run(
        &mut op,
        "CREATE DATABASE alto; CREATE DATABASE altostrat;
         CREATE TABLE h (a text PRIMARY KEY, n int) WITH (history = '1 day');
         CREATE TABLE plain (a text PRIMARY KEY, n int)",
    );
    assert_eq!(made.await, "CREATE DATABASE\nCREATE DATABASE\nCREATE TABLE\nCREATE TABLE");
    let mut alto = world.tenant("alto");
    clock.set(START + HOUR);
    run(&mut alto, "INSERT INTO h VALUES ('x', 1), ('y', 1)").await;
    run(&mut world.tenant("altostrat"), "INSERT INTO h VALUES ('x', 100)").await;
    clock.set(START + 2 * HOUR);
    run(&mut alto, "UPDATE h SET n = 2 WHERE a = 'x'").await;
    clock.set(START + 3 * HOUR);
    run(&mut alto, "DELETE FROM h WHERE a = 'y'; INSERT INTO h VALUES ('z', 3); INSERT INTO plain VALUES ('x', 3)")
        .await;
    clock.set(START + 4 * HOUR);
    (world, clock)
}

async fn alto() -> (World, Session) {
    let (world, _) = world().await;
    let session = world.tenant("alto");
    (world, session)
}

#[tokio::test]
async fn semantics_7_rows_as_they_were() {
    let (world, mut alto) = alto().await;
    check(
        &mut alto,
        "SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 00:30Z';
         SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z';
         SELECT * FROM h FOR SYSTEM_TIME AS OF TIMESTAMPTZ '2026-11-01 02:30+00';
         SELECT * FROM public.h FOR SYSTEM_TIME AS OF now() - interval '30 minutes' AS old WHERE old.a = 'z';
         SELECT h.n FROM h FOR SYSTEM_TIME AS OF (now() - interval '150 minutes') WHERE h.a >= 'x' ORDER BY h.a DESC LIMIT 1;
         SELECT * FROM h FOR SYSTEM_TIME AS OF now();
         SELECT * FROM h",
        expect![[r#"
            (no rows)
            x|1
            y|1
            x|2
            y|1
            z|3
            1
            x|2
            z|3
            x|2
            z|3"#]],
    )
    .await;
    check(
        &mut world.operator(),
        "SELECT tenant, a, n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' ORDER BY 1, 2;
         SELECT tenant, a, n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 02:30Z' WHERE tenant = 'alto' AND a = 'x'",
        expect![[r#"
            alto|x|1
            alto|y|1
            altostrat|x|100
            alto|x|2"#]],
    )
    .await;
}

#[tokio::test]
async fn each_table_has_a_moment_of_its_own() {
    let (_world, mut alto) = alto().await;
    check(
        &mut alto,
        "SELECT new.a, old.n, new.n FROM h AS new LEFT JOIN h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' AS old ON new.a = old.a
         ORDER BY new.a;
         SELECT a FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' EXCEPT SELECT a FROM h;
         WITH gone AS (SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 02:30Z')
         SELECT * FROM gone WHERE a NOT IN (SELECT a FROM h);
         SELECT count(*) FROM h FOR SYSTEM_TIME AS OF '2026-11-01 00:30Z', h AS now;
         SELECT (SELECT n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' WHERE a = now.a) FROM h now ORDER BY a",
        expect![[r#"
            x|1|2
            z|∅|3
            y
            y|1
            0
            1
            ∅"#]],
    )
    .await;
}

#[tokio::test]
async fn what_was_can_be_written_again() {
    let (_world, mut alto) = alto().await;
    check(
        &mut alto,
        "INSERT INTO h SELECT a, n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' WHERE a = 'y';
         UPDATE h SET n = old.n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' AS old WHERE old.a = h.a;
         DELETE FROM h WHERE a NOT IN (SELECT a FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z');
         SELECT * FROM h;
         BEGIN; INSERT INTO h VALUES ('own', 1); SELECT count(*) FROM h;
         SELECT count(*) FROM h FOR SYSTEM_TIME AS OF '2026-11-01 02:30Z'; SELECT count(*) FROM h FOR SYSTEM_TIME AS OF now(); ROLLBACK",
        expect![[r#"
            INSERT 0 1
            UPDATE 2
            DELETE 1
            x|1
            y|1
            BEGIN
            INSERT 0 1
            3
            2
            2
            ROLLBACK"#]],
    )
    .await;
}

#[tokio::test]
async fn moments_may_be_parameters() {
    let (_world, mut alto) = alto().await;
    let at = |hours: i64| ScalarValue::TimestampMicrosecond(Some(START + hours * HOUR + HOUR / 2), Some("UTC".into()));
    let sql = "SELECT a, n, $2 FROM h FOR SYSTEM_TIME AS OF $1 WHERE a = $2";
    let x = || ScalarValue::Utf8View(Some("x".into()));
    let mut shown = Vec::new();
    for hours in [1, 2] {
        shown.push(run_with(&mut alto, sql, vec![at(hours), x()]).await);
    }
    let ago = "SELECT n FROM h FOR SYSTEM_TIME AS OF now() - $1::interval WHERE a = 'x'";
    let interval = ScalarValue::new_interval_mdn(0, 0, 9_000_000_000_000);
    shown.push(run_with(&mut alto, ago, vec![interval]).await);
    let insert = "INSERT INTO h SELECT a || $2, n FROM h FOR SYSTEM_TIME AS OF $1 WHERE a = 'y'";
    shown.push(run_with(&mut alto, insert, vec![at(1), x()]).await);
    let delete = "DELETE FROM h WHERE a IN (SELECT a || 'x' FROM h FOR SYSTEM_TIME AS OF $1)";
    shown.push(run_with(&mut alto, delete, vec![at(1)]).await);
    shown.push(run_with(&mut alto, sql, vec![ScalarValue::TimestampMicrosecond(None, Some("UTC".into())), x()]).await);
    expect![[r#"
        (Timestamp(µs, "+00:00"), Utf8View)
        x|1|x
        (Timestamp(µs, "+00:00"), Utf8View)
        x|2|x
        (Interval(MonthDayNano))
        1
        (Timestamp(µs, "+00:00"), Utf8View)
        INSERT 0 1
        (Timestamp(µs, "+00:00"))
        DELETE 1
        (Timestamp(µs, "+00:00"), Utf8View)
        22023 the timestamp in FOR SYSTEM_TIME AS OF is NULL"#]]
    .assert_eq(&shown.join("\n"));
}

#[tokio::test]
async fn semantics_7_what_cannot_be_asked() {
    let (world, clock) = world().await;
    let mut alto = world.tenant("alto");
    let mut shown = Vec::new();
    for sql in [
        "SELECT * FROM plain FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM nothing FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF now() + interval '1 second'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF 'infinity'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-10-31 23:59Z'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF '-infinity'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF NULL",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF 'yesterday or so'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF 1",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF h.a",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF (SELECT now())",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF",
        "SELECT * FROM h FOR SYSTEM_TIME BETWEEN now() AND now()",
        "SELECT * FROM h AS old FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM (SELECT * FROM h) FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM cells('h') FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM raw('h') FOR SYSTEM_TIME AS OF now()",
        "WITH h AS (SELECT 1) SELECT * FROM h FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM pg_class FOR SYSTEM_TIME AS OF now()",
        "SELECT * FROM pg_catalog.pg_class FOR SYSTEM_TIME AS OF now()",
        "SELECT 1 FOR SYSTEM_TIME AS OF now()",
        "INSERT INTO h FOR SYSTEM_TIME AS OF now() VALUES ('a', 1)",
        "UPDATE h FOR SYSTEM_TIME AS OF now() SET n = 1",
        "DELETE FROM h FOR SYSTEM_TIME AS OF now()",
    ] {
        shown.push(format!("{sql}\n  {}", run(&mut alto, sql).await.replace('\n', " ")));
    }
    clock.set(START + 30 * HOUR);
    for sql in [
        "SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 05:59Z'",
        "SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 06:01Z'",
    ] {
        shown.push(format!("{sql}\n  {}", run(&mut alto, sql).await.replace('\n', " ")));
    }
    expect![[r#"
        SELECT * FROM plain FOR SYSTEM_TIME AS OF now()
          0A000 relation "plain" keeps no history
        SELECT * FROM nothing FOR SYSTEM_TIME AS OF now()
          42P01 relation "nothing" does not exist
        SELECT * FROM h FOR SYSTEM_TIME AS OF now() + interval '1 second'
          22023 the timestamp in FOR SYSTEM_TIME AS OF is in the future
        SELECT * FROM h FOR SYSTEM_TIME AS OF 'infinity'
          22023 the timestamp in FOR SYSTEM_TIME AS OF is in the future
        SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-10-31 23:59Z'
          72000 the table's history does not reach back to the moment asked for
        SELECT * FROM h FOR SYSTEM_TIME AS OF '-infinity'
          72000 the table's history does not reach back to the moment asked for
        SELECT * FROM h FOR SYSTEM_TIME AS OF NULL
          22023 the timestamp in FOR SYSTEM_TIME AS OF is NULL
        SELECT * FROM h FOR SYSTEM_TIME AS OF 'yesterday or so'
          22007 invalid input syntax for type timestamp with time zone: "yesterday or so"
        SELECT * FROM h FOR SYSTEM_TIME AS OF 1
          72000 the table's history does not reach back to the moment asked for
        SELECT * FROM h FOR SYSTEM_TIME AS OF h.a
          42P01 missing FROM-clause entry for table "h"
        SELECT * FROM h FOR SYSTEM_TIME AS OF (SELECT now())
          0A000 a subquery in FOR SYSTEM_TIME AS OF is not supported
        SELECT * FROM h FOR SYSTEM_TIME AS OF
          42601 syntax error at end of input
        SELECT * FROM h FOR SYSTEM_TIME BETWEEN now() AND now()
          42601 syntax error at or near "SYSTEM_TIME" (Expected: one of UPDATE or SHARE.)
        SELECT * FROM h AS old FOR SYSTEM_TIME AS OF now()
          42601 syntax error at or near "FOR"
        SELECT * FROM (SELECT * FROM h) FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a function or a subquery is not supported
        SELECT * FROM cells('h') FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a function or a subquery is not supported
        SELECT * FROM raw('h') FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a function or a subquery is not supported
        WITH h AS (SELECT 1) SELECT * FROM h FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a query of WITH is not supported
        SELECT * FROM pg_class FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a relation of the system is not supported
        SELECT * FROM pg_catalog.pg_class FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of a relation that is not in a schema of users is not supported
        SELECT 1 FOR SYSTEM_TIME AS OF now()
          42601 syntax error at or near "FOR"
        INSERT INTO h FOR SYSTEM_TIME AS OF now() VALUES ('a', 1)
          42601 syntax error at or near "FOR"
        UPDATE h FOR SYSTEM_TIME AS OF now() SET n = 1
          0A000 FOR SYSTEM_TIME AS OF of the table that is written is not supported
        DELETE FROM h FOR SYSTEM_TIME AS OF now()
          0A000 FOR SYSTEM_TIME AS OF of the table that is written is not supported
        SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 05:59Z'
          72000 the table's history does not reach back to the moment asked for
        SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 06:01Z'
          x|2 z|3"#]]
    .assert_eq(&shown.join("\n"));
}

#[tokio::test]
async fn explain_shows_the_moment() {
    let (_world, mut alto) = alto().await;
    check(
        &mut alto,
        "EXPLAIN SELECT n FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z' WHERE a = 'x'",
        expect![[r#"
            KeyspanScan: h
                As of: 2026-11-01 01:30:00+00
                Access: point lookup on 1 key
                Ranges: [x]
                Families: cf(n)
                Columns: n
                Pushed: a = x
                Residual: none
                Versions: 1
                Order: key"#]],
    )
    .await;
}

#[tokio::test]
async fn history_is_switched_on_and_off() {
    let (world, clock) = world().await;
    let (mut op, mut alto) = (world.operator(), world.tenant("alto"));
    check(&mut op, "ALTER TABLE plain SET (history = '2 hours')", expect!["ALTER TABLE"]).await;
    clock.set(START + 5 * HOUR);
    check(
        &mut alto,
        "UPDATE plain SET n = 5; SELECT n FROM plain FOR SYSTEM_TIME AS OF '2026-11-01 04:30Z'",
        expect![[r#"
            UPDATE 1
            3"#]],
    )
    .await;
    check(
        &mut alto,
        "SELECT n FROM plain FOR SYSTEM_TIME AS OF '2026-11-01 03:30Z'",
        expect!["72000 the table's history does not reach back to the moment asked for"],
    )
    .await;
    check(&mut op, "ALTER TABLE plain SET (history = none)", expect!["ALTER TABLE"]).await;
    check(
        &mut alto,
        "SELECT n FROM plain FOR SYSTEM_TIME AS OF '2026-11-01 04:30Z'",
        expect![[r#"0A000 relation "plain" keeps no history"#]],
    )
    .await;
    check(
        &mut op,
        "ALTER TABLE plain SET (history = '1 month')",
        expect![[r#"42P16 invalid value for parameter "history": "1 month""#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_7_a_dropped_tenant_leaves_no_history() {
    let (world, clock) = world().await;
    world.drop_tenant("alto").await;
    clock.set(START + 5 * HOUR);
    run(&mut world.operator(), "CREATE DATABASE alto").await;
    let past = "SELECT * FROM h FOR SYSTEM_TIME AS OF '2026-11-01 01:30Z'";
    check(&mut world.tenant("alto"), past, expect!["(no rows)"]).await;
    check(&mut world.operator(), past, expect!["altostrat|x|100"]).await;
}

#[tokio::test]
async fn semantics_5_a_whole_prefix_goes_row_by_row_and_stays_in_history() {
    let (world, clock) = world().await;
    let mut alto = world.tenant("alto");
    let table = "CREATE TABLE p (a text, b int, PRIMARY KEY (a, b)) WITH (history = '1 day')";
    run(&mut world.operator(), table).await;
    run(&mut alto, "INSERT INTO p SELECT 'big', generate_series FROM generate_series(1, 10001)").await;
    clock.set(START + 5 * HOUR);
    check(
        &mut alto,
        "DELETE FROM p WHERE a = 'big'; SELECT count(*) FROM p;
         SELECT count(*) FROM p FOR SYSTEM_TIME AS OF '2026-11-01 04:30Z'",
        expect![[r#"
            DELETE 10001
            0
            10001"#]],
    )
    .await;
}
