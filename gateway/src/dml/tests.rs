//! Writes in process: what each changes, and what it refuses.

use super::{range::whole_prefix, target::Target};
use crate::{
    execute::Outcome,
    session::{
        Session,
        testing::{World, check, run},
    },
    sql::ast::Statement,
};
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use expect_test::expect;

#[tokio::test]
async fn rows_go_in_and_out() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO t (a, b, n, s) VALUES ('x', 1, 10, 'abc'), ('y', 2, NULL, NULL); SELECT * FROM t;
         UPDATE t SET n = n + 1, s = 'z' WHERE a = 'x'; SELECT * FROM t; DELETE FROM t WHERE b = 2; SELECT count(*) FROM t",
        expect![[r#"
            INSERT 0 2
            x|1|10|abc|∅
            y|2|∅|∅|∅
            UPDATE 1
            x|1|11|z|∅
            y|2|∅|∅|∅
            DELETE 1
            1"#]],
    )
    .await;
    check(&mut world.tenant("altostrat"), "SELECT * FROM t", expect!["(no rows)"]).await;
    check(&mut world.operator(), "SELECT tenant, a, b FROM t", expect!["alto|x|1"]).await;
}

#[tokio::test]
async fn semantics_1_a_row_of_nulls_exists() {
    let world = World::new().await;
    check(
        &mut world.tenant("alto"),
        "INSERT INTO t (a, b) VALUES ('x', 1); SELECT count(*), count(n) FROM t; SELECT n FROM t;
         INSERT INTO t (a, b, n) VALUES ('y', 1, 5); UPDATE t SET n = NULL WHERE a = 'y'; SELECT a, n FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 1
            1|0
            ∅
            INSERT 0 1
            UPDATE 1
            x|∅
            y|∅"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_4_inserts_and_upserts() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO t (a, b, n, s) VALUES ('x', 1, 1, 'old'); INSERT INTO t (a, b) VALUES ('y', 1), ('x', 1)",
        expect![[r#"
            INSERT 0 1
            23505 duplicate key value violates unique constraint "t_pkey" (Key (a, b)=(x, 1) already exists.)"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b) VALUES ('z', 1), ('z', 1)",
        expect![[
            r#"23505 duplicate key value violates unique constraint "t_pkey" (Key (a, b)=(z, 1) already exists.)"#
        ]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 2), ('y', 1, 2) ON CONFLICT (a, b) DO UPDATE SET n = EXCLUDED.n;
         SELECT a, n, s FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 2
            x|2|old
            y|2|∅"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 5), ('q', 1, 5) ON CONFLICT (b, a) DO UPDATE SET n = t.n + EXCLUDED.n, s = 'up'
            WHERE t.n < 100; SELECT a, n, s FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 2
            q|5|∅
            x|7|up
            y|2|∅"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t AS o (a, b, n) VALUES ('x', 1, 5), ('q', 1, 7) ON CONFLICT (a, b) DO UPDATE SET n = n * 2 WHERE o.a = 'q';
         SELECT a, n, s FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 1
            q|10|∅
            x|7|up
            y|2|∅"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 0), ('p', 1, 0) ON CONFLICT DO NOTHING; SELECT a, n FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 1
            p|0
            q|10
            x|7
            y|2"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 0), ('x', 1, 1) ON CONFLICT (a, b) DO UPDATE SET n = EXCLUDED.n",
        expect!["21000 ON CONFLICT DO UPDATE command cannot affect row a second time"],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 0), ('x', 1, 1) ON CONFLICT (a, b) DO UPDATE SET n = t.n + 1",
        expect!["21000 ON CONFLICT DO UPDATE command cannot affect row a second time"],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b) VALUES ('x', 1) ON CONFLICT (a) DO NOTHING",
        expect!["42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification"],
    )
    .await;
    check(
        &mut alto,
        "UPDATE t SET b = 2; UPDATE t SET b = b - 1",
        expect![[r#"
            UPDATE 4
            UPDATE 4"#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, n) VALUES ('x', 1)",
        expect![[
            r#"23502 null value in column "b" of relation "t" violates not-null constraint (Failing row contains (x, null, 1, null, null).)"#
        ]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, b, s) VALUES ('x', 9, 'long')",
        expect!["22001 value too long for type character varying(3)"],
    )
    .await;
    check(&mut alto, "INSERT INTO t (a, b) VALUES ('x', 3000000000)", expect!["22003 integer out of range"]).await;
    check(
        &mut alto,
        "INSERT INTO t (a, b) VALUES ('x', 'one')",
        expect![[r#"22P02 invalid input syntax for type integer: "one""#]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO t (a, nope) VALUES ('x', 1)",
        expect![[r#"42703 column "nope" of relation "t" does not exist"#]],
    )
    .await;
    check(&mut alto, "INSERT INTO nope VALUES (1)", expect![[r#"42P01 relation "nope" does not exist"#]]).await;
    check(
        &mut world.operator(),
        "UPDATE t SET tenant = 'altostrat'",
        expect![[r#"0A000 changing column "tenant", a part of the primary key is not supported"#]],
    )
    .await;
    check(&mut world.operator(), "INSERT INTO t (tenant, a, b) VALUES ('nobody', 'x', 1)", expect![[r#"23503 insert on table "t" violates foreign key constraint "t_tenant_fkey" (Key (tenant)=(nobody) is not present in table "tenants".)"#]]).await;
    check(
        &mut world.operator(),
        "INSERT INTO t (tenant, a, b) VALUES ('altostrat', 'x', 1); SELECT tenant, a, b FROM t ORDER BY tenant, a",
        expect![[r#"
            INSERT 0 1
            alto|p|1
            alto|q|1
            alto|x|1
            alto|y|1
            altostrat|x|1"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_5_predicates_that_are_never_true_touch_nothing() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('x', 2, 2), ('y', 1, 3);
         DELETE FROM t WHERE n = NULL; DELETE FROM t WHERE false; DELETE FROM t WHERE n > 1 AND n < 1;
         DELETE FROM t WHERE a IN (SELECT a FROM t WHERE false); DELETE FROM t WHERE NOT EXISTS (SELECT 1);
         UPDATE t SET n = 0 WHERE NULL; SELECT a, b, n FROM t ORDER BY a, b;
         DELETE FROM t WHERE n IN (SELECT max(n) FROM t); UPDATE t SET n = 9 FROM (VALUES (2)) v (k) WHERE t.b = v.k;
         DELETE FROM t USING (VALUES (1)) v (k) WHERE t.b = v.k; SELECT a, b, n FROM t ORDER BY a, b",
        expect![[r#"
            INSERT 0 3
            DELETE 0
            DELETE 0
            DELETE 0
            DELETE 0
            DELETE 0
            UPDATE 0
            x|1|1
            x|2|2
            y|1|3
            DELETE 1
            UPDATE 1
            DELETE 1
            x|2|9"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_5_a_large_prefix_is_deleted_as_a_range() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO t (a, b) SELECT 'big', generate_series FROM generate_series(1, 10001);
         INSERT INTO t (a, b) VALUES ('small', 1); INSERT INTO t (a, b) VALUES ('bigger', 1);
         DELETE FROM t WHERE a = 'big'; SELECT a, b FROM t ORDER BY a",
        expect![[r#"
            INSERT 0 10001
            INSERT 0 1
            INSERT 0 1
            DELETE 10001
            bigger|1
            small|1"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_8_aggregate_families_merge() {
    let world = World::new().await;
    check(
        &mut world.tenant("alto"),
        "INSERT INTO t (a, b, c) VALUES ('x', 1, 5); INSERT INTO t (a, b, c) VALUES ('x', 1, 7)
            ON CONFLICT (a, b) DO UPDATE SET c = EXCLUDED.c; SELECT c FROM t; UPDATE t SET c = 1",
        expect![[r#"
            INSERT 0 1
            INSERT 0 1
            12
            0A000 setting column "c" of an aggregate family is not supported"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_10_definitions_are_ours_and_the_operators() {
    let world = World::new().await;
    check(&mut world.tenant("alto"), "DROP DATABASE altostrat", expect![[r#"42501 permission denied for DROP DATABASE (Databases and roles are defined by an operator in database "keyspan".)"#]]).await;
    let mut operator = world.operator();
    check(
        &mut operator,
        "BEGIN; CREATE TABLE x (a int PRIMARY KEY)",
        expect![[r#"
        BEGIN
        25001 CREATE TABLE cannot run inside a transaction block"#]],
    )
    .await;
    check(
        &mut operator,
        "SELECT 1",
        expect!["25P02 current transaction is aborted, commands ignored until end of transaction block"],
    )
    .await;
    check(
        &mut operator,
        "ROLLBACK; SELECT 1; CREATE DATABASE \"a#b\"",
        expect![[r#"
        ROLLBACK
        1
        42602 invalid tenant id "a#b""#]],
    )
    .await;
    check(&mut operator, "DROP DATABASE nobody", expect![[r#"3D000 database "nobody" does not exist"#]]).await;
}

/// The range that a DELETE of these rows would delete whole.
async fn range_of(session: &mut Session, condition: &str) -> String {
    let sql = format!("SELECT a, b FROM t WHERE {condition}");
    let Statement::Query(select) = Statement::parse(&sql).unwrap().swap_remove(0) else { panic!("{sql}") };
    let view = session.view().await.unwrap();
    let target = Target::of(&view, &crate::pg::names::RelationName::bare("t")).unwrap();
    let query = session.query(view).unwrap();
    let plan = query.plan(&select).await.unwrap();
    match whole_prefix(&query, &plan, &target).await.unwrap() {
        Some((range, count)) => format!("{range:?} {count}"),
        None => "rows".into(),
    }
}

#[tokio::test]
async fn semantics_5_only_a_whole_and_large_prefix_is_a_range() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    run(&mut alto, "INSERT INTO t (a, b, n) SELECT 'big', generate_series, 1 FROM generate_series(1, 10001)").await;
    run(&mut alto, "INSERT INTO t (a, b, n) SELECT 'few', generate_series, 1 FROM generate_series(1, 10)").await;
    let expected = expect![[r#"
        a = 'big': [big#, big$) 10001
        a = 'few': rows
        a = 'big' AND n = 1: rows
        a = 'big' AND b > 0: rows
        a > 'a': rows
        a = 'big' AND false: rows"#]];
    let mut shown = Vec::new();
    for condition in
        ["a = 'big'", "a = 'few'", "a = 'big' AND n = 1", "a = 'big' AND b > 0", "a > 'a'", "a = 'big' AND false"]
    {
        shown.push(format!("{condition}: {}", range_of(&mut alto, condition).await));
    }
    expected.assert_eq(&shown.join("\n"));
}

/// Prepares a statement, checks the types of its parameters, and runs it.
async fn prepared(session: &mut Session, sql: &str, types: &[DataType], values: Vec<ScalarValue>) -> String {
    let statement = Statement::parse(sql).unwrap().swap_remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    let found: Vec<DataType> = prepared.parameters.iter().map(|kind| kind.data.clone()).collect();
    assert_eq!(found, types, "{sql}");
    match session.execute(&prepared, values).await {
        Ok(Outcome::Done(tag)) => tag,
        Ok(_) => panic!("{sql} gave rows"),
        Err(error) => format!("{} {error}", error.state.0),
    }
}

#[tokio::test]
async fn parameters_have_the_types_of_their_columns() {
    use DataType::{Int32, Int64, Utf8View};
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
    let insert = "INSERT INTO t (a, b, n) VALUES ($1, $2, $3)";
    let row = |n: Option<i64>| vec![text("x"), ScalarValue::Int32(Some(1)), ScalarValue::Int64(n)];
    let types = [Utf8View, Int32, Int64];
    assert_eq!(prepared(&mut alto, insert, &types, row(Some(5))).await, "INSERT 0 1");
    let blind = format!("{insert} ON CONFLICT (a, b) DO UPDATE SET n = EXCLUDED.n");
    assert_eq!(prepared(&mut alto, &blind, &types, row(None)).await, "INSERT 0 1");
    check(&mut alto, "SELECT a, b, n FROM t", expect!["x|1|∅"]).await;
    let checked = format!("{insert} ON CONFLICT (a, b) DO UPDATE SET n = EXCLUDED.n + $4");
    let values = [row(Some(2)), vec![ScalarValue::Int64(Some(40))]].concat();
    let with_added = [Utf8View, Int32, Int64, Int64];
    assert_eq!(prepared(&mut alto, &checked, &with_added, values).await, "INSERT 0 1");
    check(&mut alto, "SELECT a, b, n FROM t", expect!["x|1|42"]).await;
    let update = vec![text("ab"), ScalarValue::Int32(Some(1))];
    assert_eq!(prepared(&mut alto, "UPDATE t SET s = $1 WHERE b = $2", &[Utf8View, Int32], update).await, "UPDATE 1");
    check(&mut alto, "SELECT a, b, n, s FROM t", expect!["x|1|42|ab"]).await;
    let delete = vec![ScalarValue::Int32(Some(1))];
    assert_eq!(prepared(&mut alto, "DELETE FROM t WHERE b = $1", &[Int32], delete).await, "DELETE 1");
}

#[tokio::test]
async fn semantics_5_a_range_ends_with_the_tenants_span() {
    let world = World::new().await;
    let (mut alto, mut strat) = (world.tenant("alto"), world.tenant("altostrat"));
    run(&mut alto, "INSERT INTO t (a, b) SELECT 'big', generate_series FROM generate_series(1, 10001)").await;
    run(&mut strat, "INSERT INTO t (a, b) VALUES ('big', 1)").await;
    assert_eq!(range_of(&mut alto, "true").await, "[, ∞) 10001");
    check(
        &mut alto,
        "DELETE FROM t; SELECT count(*) FROM t",
        expect![[r#"
        DELETE 10001
        0"#]],
    )
    .await;
    check(&mut strat, "SELECT a, b FROM t", expect!["big|1"]).await;
}
