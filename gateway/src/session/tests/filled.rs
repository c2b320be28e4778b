//! Tables that begin with the rows of a query.

use super::{
    super::testing::{World, check, run},
    definitions::spare,
};
use expect_test::expect;
use keyspan_catalog::private::PRIVATE_TABLE;
use keyspan_storage::{Scan, TableName};

/// Rows that the store has of private tables, whoever can see them.
async fn stored(world: &World) -> usize {
    use futures::TryStreamExt;
    let name = TableName::new(PRIVATE_TABLE).unwrap();
    let rows: Vec<_> = world.instance.catalog.store().scan(&name, Scan::all()).try_concat().await.unwrap();
    rows.len()
}

#[tokio::test]
async fn a_table_begins_with_the_rows_of_a_query() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "INSERT INTO t VALUES ('x', 1, 5), ('y', 2, 7); SELECT a, n INTO made FROM t WHERE b < 2 UNION ALL SELECT 'z', 3;
         SELECT * FROM made ORDER BY a; CREATE TABLE IF NOT EXISTS made AS SELECT 1; CREATE TABLE hollow (p) AS TABLE made WITH NO DATA;
         SELECT count(p) FROM hollow; DROP TABLE made, hollow",
        expect![[r#"
            INSERT 0 2
            SELECT 2
            x|5
            z|3
            CREATE TABLE AS
            CREATE TABLE AS
            0
            DROP TABLE"#]],
    )
    .await;
    check(
        &mut session,
        "CREATE TABLE p AS SELECT ARRAY[ARRAY[1]] AS i",
        expect!["0A000 a column of type _text is not supported (Column \"i\" has it.)"],
    )
    .await;
    check(
        &mut world.operator(),
        "CREATE TABLE p AS SELECT 1",
        expect!["0A000 CREATE TABLE AS in the operator's database is not supported"],
    )
    .await;
    check(&mut session, "EXPLAIN SELECT 1 INTO p", expect!["0A000 EXPLAIN of this statement is not supported"]).await;
    check(&mut session, "SELECT * FROM (SELECT 1 INTO p) s", expect!["0A000 SELECT INTO is not supported"]).await;
}

#[tokio::test]
async fn what_fails_leaves_neither_table_nor_rows() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    // The first rows are written before the one that fails is read: a part holds some ten thousand of them.
    let told =
        run(&mut session, "CREATE TABLE made AS SELECT g, 1 / (60000 - g) AS x FROM generate_series(1, 60001) g").await;
    assert_eq!(told, "22012 division by zero");
    check(&mut session, "SELECT * FROM made", expect![[r#"42P01 relation "made" does not exist"#]]).await;
    assert_eq!(stored(&world).await, 0);
    assert!(world.instance.catalog.snapshot().private.values().all(|own| own.spare.is_empty()));
    check(
        &mut session,
        "CREATE TABLE made AS SELECT 1 AS a; SELECT * FROM made",
        expect![[r#"
        SELECT 1
        1"#]],
    )
    .await;
    assert_eq!(stored(&world).await, 1);
}

#[tokio::test]
async fn in_a_transaction_it_is_part_of_it() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "BEGIN; CREATE TABLE made AS SELECT g AS a FROM generate_series(1, 1000) g").await;
    check(&mut one, "SELECT count(*) FROM made", expect!["1000"]).await;
    check(&mut two, "SELECT count(*) FROM made", expect![[r#"42P01 relation "made" does not exist"#]]).await;
    assert_eq!(stored(&world).await, 1000, "rows are not kept in memory until COMMIT");
    check(
        &mut one,
        "ROLLBACK; SELECT count(*) FROM made",
        expect![[r#"
        ROLLBACK
        42P01 relation "made" does not exist"#]],
    )
    .await;
    // Another makes it first.
    run(&mut one, "BEGIN; CREATE TABLE made AS SELECT 1 AS a").await;
    check(&mut two, "CREATE TABLE made AS SELECT 2 AS b", expect!["SELECT 1"]).await;
    check(
        &mut one,
        "COMMIT",
        expect![[r#"40001 could not serialize access due to concurrent update (What the transaction has defined contradicts another: relation "made" already exists.)"#]],
    )
    .await;
    check(&mut one, "SELECT * FROM made", expect!["2"]).await;
    // Who reads one state keeps the rows with the other writes.
    check(
        &mut one,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE TABLE kept AS SELECT b FROM made; SELECT * FROM kept; COMMIT; SELECT * FROM kept",
        expect![[r#"
            BEGIN
            SELECT 1
            2
            COMMIT
            2"#]],
    )
    .await;
    assert_eq!(spare(&world).await, 0);
    assert_eq!(stored(&world).await, 2, "what was taken back is gone from the store");
}

#[tokio::test]
async fn names_begin_with_the_database() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    check(
        &mut session,
        "CREATE TABLE alto.public.p AS SELECT 1 AS a; INSERT INTO alto.public.p VALUES (2); UPDATE \"alto\".public.p SET a = 3 WHERE a = 2;
         SELECT a FROM alto.public.p ORDER BY a; DELETE FROM alto.public.p; DROP TABLE alto.public.p;
         SELECT relname FROM alto.pg_catalog.pg_class WHERE relname = 'pg_class'",
        expect![[r#"
            SELECT 1
            INSERT 0 1
            UPDATE 1
            1
            3
            DELETE 2
            DROP TABLE
            pg_class"#]],
    )
    .await;
    check(
        &mut session,
        "DROP TABLE other.public.t",
        expect![[r#"0A000 cross-database references are not implemented: "other.public.t""#]],
    )
    .await;
}
