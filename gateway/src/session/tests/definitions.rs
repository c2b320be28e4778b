//! Definitions of private tables: what they tell, inside of transactions, and against those of other sessions.

use super::super::{
    Session,
    testing::{World, check, run},
};
use crate::execute::Outcome;
use crate::sql::ast::Statement;
use crate::write_set::CELLS_MAX;
use expect_test::expect;

#[tokio::test]
async fn what_rows_contradict_is_told_as_postgres_tells_it() {
    let world = World::new().await;
    let mut one = world.tenant("alto");
    run(&mut one, "CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, NULL), (1, 2)").await;
    check(
        &mut one,
        "ALTER TABLE p ALTER COLUMN b SET NOT NULL",
        expect![[r#"23502 column "b" of relation "p" contains null values"#]],
    )
    .await;
    check(
        &mut one,
        "ALTER TABLE p ADD PRIMARY KEY (a)",
        expect![[r#"23505 could not create unique index "p_pkey" (Key (a)=(1) is duplicated.)"#]],
    )
    .await;
    check(
        &mut one,
        "ALTER TABLE p ADD CONSTRAINT small CHECK (b < 2)",
        expect![[r#"23514 check constraint "small" of relation "p" is violated by some row"#]],
    )
    .await;
    check(
        &mut one,
        "BEGIN; CREATE ROLE never",
        expect![[r#"
            BEGIN
            25001 CREATE ROLE cannot run inside a transaction block"#]],
    )
    .await;
    let mut operator = world.operator();
    check(
        &mut operator,
        "BEGIN; CREATE TABLE never (a int PRIMARY KEY)",
        expect![[r#"
            BEGIN
            25001 CREATE TABLE cannot run inside a transaction block"#]],
    )
    .await;
    assert_eq!(spare(&world).await, 0, "what was reserved is given up");
}

#[tokio::test]
async fn who_defines_first_wins() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "CREATE TABLE p (a int PRIMARY KEY); INSERT INTO p VALUES (1)").await;
    run(&mut one, "BEGIN; ALTER TABLE p ADD COLUMN of_one int DEFAULT 1").await;
    check(&mut two, "ALTER TABLE p ADD COLUMN of_two int DEFAULT 2", expect!["ALTER TABLE"]).await;
    check(
        &mut one,
        "COMMIT",
        expect![[r#"40001 could not serialize access due to concurrent update (What the transaction has defined contradicts another: relation "p" was changed by another at the same moment.)"#]],
    )
    .await;
    check(&mut two, "SELECT * FROM p", expect!["1|2"]).await;
    // Seen by the next statement already.
    run(&mut one, "BEGIN; CREATE TABLE q (a int)").await;
    check(&mut two, "CREATE TABLE q (b text)", expect!["CREATE TABLE"]).await;
    check(
        &mut one,
        "SELECT * FROM q",
        expect![[r#"40001 could not serialize access due to concurrent update (What the transaction has defined contradicts another: relation "q" already exists.)"#]],
    )
    .await;
    check(&mut one, "ROLLBACK; SELECT b FROM q", expect!["ROLLBACK\n(no rows)"]).await;
    // Of other relations both stand.
    run(&mut one, "BEGIN; CREATE TABLE r (a int); INSERT INTO p VALUES (2, 2)").await;
    check(&mut two, "CREATE TABLE s (a int); INSERT INTO p VALUES (3, 3)", expect!["CREATE TABLE\nINSERT 0 1"]).await;
    check(&mut one, "COMMIT; SELECT * FROM p ORDER BY a", expect!["COMMIT\n1|2\n2|2\n3|3"]).await;
    assert_eq!(spare(&world).await, 0);
}

#[tokio::test]
async fn a_row_that_another_adds_to_a_table_that_is_altered_is_not_missed() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, 1); CREATE TABLE q (a int)").await;
    for alter in
        ["ALTER COLUMN b SET NOT NULL", "ADD PRIMARY KEY (a)", "ADD CHECK (b > 0)", "ADD COLUMN c int DEFAULT 3"]
    {
        run(&mut one, &format!("BEGIN; ALTER TABLE p {alter}")).await;
        run(&mut two, "INSERT INTO p VALUES (1, NULL)").await;
        let told = run(&mut one, "COMMIT").await;
        assert!(told.starts_with("40001"), "{alter}: {told}");
        check(&mut one, "SELECT * FROM p ORDER BY b", expect!["1|1\n1|∅"]).await;
        run(&mut two, "DELETE FROM p WHERE b IS NULL").await;
    }
    // What is written to another table meanwhile is of no matter.
    run(&mut one, "BEGIN; ALTER TABLE p ALTER COLUMN b SET NOT NULL").await;
    run(&mut two, "INSERT INTO q VALUES (1)").await;
    check(&mut one, "COMMIT", expect!["COMMIT"]).await;
    // A row that was made before the change and comes after it is made for another table.
    run(&mut two, "BEGIN; INSERT INTO p VALUES (2, 2)").await;
    check(&mut one, "ALTER TABLE p ADD COLUMN c int DEFAULT 3", expect!["ALTER TABLE"]).await;
    let told = run(&mut two, "COMMIT").await;
    assert!(told.starts_with("40001"), "{told}");
    check(&mut one, "SELECT * FROM p", expect!["1|1|3"]).await;
}

/// How many numbers are reserved, once those of ended transactions were given up.
pub(super) async fn spare(world: &World) -> usize {
    for _ in 0..100_000 {
        let snapshot = world.instance.catalog.snapshot();
        let count: usize = snapshot.private.values().map(|private| private.spare.len()).sum();
        if count == 0 {
            return 0;
        }
        tokio::task::yield_now().await;
    }
    1
}

/// A COPY of `rows` rows `n`, `n`, …; its answer.
async fn copy(session: &mut Session, table: &str, rows: usize) -> String {
    let statement = Statement::parse(&format!("COPY {table} FROM STDIN WITH (FREEZE)")).unwrap().swap_remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    let Outcome::CopyIn(mut copy) = session.execute(&prepared, Vec::new()).await.unwrap() else { panic!("no COPY") };
    for first in (0..rows).step_by(1_000) {
        let lines: String = (first..rows.min(first + 1_000)).map(|row| format!("{row}\t{row}\t{row}\n")).collect();
        if let Err(error) = copy.take(session, lines.as_bytes()).await {
            session.failed();
            return format!("{} {}", error.state.0, error.message);
        }
    }
    match copy.finish(session).await {
        Ok(tag) => tag,
        Err(error) => {
            session.failed();
            format!("{} {}", error.state.0, error.message)
        }
    }
}

#[tokio::test]
async fn more_rows_than_a_commit_holds_go_into_a_table_that_nobody_else_sees() {
    let rows = CELLS_MAX / 2 + 1;
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "CREATE TABLE p (a int PRIMARY KEY, b int, c int); INSERT INTO p VALUES (5, 5, 5)").await;
    run(&mut one, "BEGIN; TRUNCATE p").await;
    assert_eq!(copy(&mut one, "p", rows).await, format!("COPY {rows}"));
    check(&mut one, "UPDATE p SET b = -1 WHERE a = 7; DELETE FROM p WHERE a < 3", expect!["UPDATE 1\nDELETE 3"]).await;
    check(&mut two, "SELECT * FROM p", expect!["5|5|5"]).await;
    check(&mut one, "COMMIT", expect!["COMMIT"]).await;
    let counted = run(&mut two, "SELECT count(*), count(DISTINCT c), min(a), min(b) FROM p").await;
    assert_eq!(counted, format!("{0}|{0}|3|-1", rows - 3));
    // Taken back.
    run(&mut one, "BEGIN; CREATE TABLE q (a int, b int, c int)").await;
    assert_eq!(copy(&mut one, "q", rows).await, format!("COPY {rows}"));
    check(&mut one, "ROLLBACK", expect!["ROLLBACK"]).await;
    assert_eq!(spare(&world).await, 0);
    // Once it was written to, or a savepoint could take it back alone, the bounds of a commit hold.
    run(&mut one, "BEGIN; TRUNCATE p; INSERT INTO p VALUES (-1, 1, 1)").await;
    assert!(copy(&mut one, "p", rows).await.starts_with("54000"));
    run(&mut one, "ROLLBACK; BEGIN; TRUNCATE p; SAVEPOINT s").await;
    assert!(copy(&mut one, "p", rows).await.starts_with("54000"));
    run(&mut one, "ROLLBACK TO s; RELEASE s; INSERT INTO p VALUES (1, 1, 1)").await;
    check(&mut one, "COMMIT; SELECT * FROM p", expect!["COMMIT\n1|1|1"]).await;
    assert_eq!(spare(&world).await, 0);
}

#[tokio::test]
async fn a_prepared_statement_is_compiled_for_the_catalog_that_its_transaction_sees() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "CREATE TABLE p (a int PRIMARY KEY, b text); INSERT INTO p VALUES (1, 'x')").await;
    run(&mut one, "PREPARE get AS SELECT b FROM p WHERE a = 1").await;
    run(&mut one, "BEGIN; ALTER TABLE p DROP COLUMN b; ALTER TABLE p ADD COLUMN b text DEFAULT 'y'").await;
    check(&mut one, "EXECUTE get", expect!["y"]).await;
    // As many edits of others as the transaction has made.
    run(&mut two, "CREATE TABLE q (a int); CREATE TABLE r (a int); CREATE TABLE s (a int)").await;
    check(&mut one, "ROLLBACK; EXECUTE get", expect!["ROLLBACK\nx"]).await;
}

#[tokio::test]
async fn an_alter_waits_for_nobody_who_is_done_and_others_go_on_after_it() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "CREATE TABLE p (a int PRIMARY KEY)").await;
    let writes = async {
        for row in 0..200 {
            assert_eq!(run(&mut two, &format!("INSERT INTO p (a) VALUES ({row})")).await, "INSERT 0 1");
        }
    };
    let alters = async {
        for column in 0..10 {
            let sql = format!("ALTER TABLE p ADD COLUMN c{column} int NOT NULL DEFAULT {column}");
            assert_eq!(run(&mut one, &sql).await, "ALTER TABLE");
        }
    };
    tokio::join!(writes, alters);
    check(
        &mut one,
        "SELECT count(*), count(DISTINCT a), min(c0), max(c0), min(c9), max(c9) FROM p",
        expect!["200|200|0|0|9|9"],
    )
    .await;
    assert_eq!(spare(&world).await, 0);
}

#[tokio::test]
async fn shared_tables_have_no_char() {
    let world = World::new().await;
    let told = "0A000 column \"a\" of type character(3) in a shared table is not supported (What others have written to the store may end with blanks, which the type does not keep.)";
    let mut operator = world.operator();
    assert_eq!(run(&mut operator, "CREATE TABLE never (a char(3) PRIMARY KEY)").await, told);
}
