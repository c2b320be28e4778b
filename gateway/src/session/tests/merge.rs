//! MERGE beside other sessions, and the rows that it holds.

use super::super::testing::{World, check, run};
use expect_test::expect;

#[tokio::test]
async fn rows_that_a_merge_relied_on_are_as_it_read_them() {
    let world = World::new().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('y', 1, 1), ('z', 1, 1)").await;
    let merge = "MERGE INTO t USING (VALUES ('x', 1), ('w', 1)) s (a, b) ON t.a = s.a AND t.b = s.b
        WHEN MATCHED THEN UPDATE SET n = n + 10 WHEN NOT MATCHED THEN INSERT (a, b, n) VALUES (a, b, 100)";
    for (between, end) in [
        ("UPDATE t SET n = 5 WHERE a = 'x'", "40001 could not serialize access due to concurrent update"),
        (
            "DELETE FROM t WHERE a = 'x'; INSERT INTO t (a, b, n) VALUES ('x', 1, 5)",
            "40001 could not serialize access due to concurrent update",
        ),
        ("INSERT INTO t (a, b, n) VALUES ('w', 1, 7)", "40001 could not serialize access due to concurrent update"),
        ("DELETE FROM t WHERE a = 'w'; UPDATE t SET n = 9 WHERE a = 'y'", "COMMIT"),
    ] {
        assert_eq!(run(&mut one, &format!("BEGIN; {merge}")).await, "BEGIN\nMERGE 2", "{between}");
        run(&mut two, between).await;
        assert_eq!(run(&mut one, "COMMIT").await, end, "{between}");
        run(&mut two, "DELETE FROM t WHERE a = 'w'").await;
    }
    check(&mut two, "SELECT a, n FROM t ORDER BY a", expect!["x|15\ny|9\nz|1"]).await;
    // What cannot be set, and what is merged into cells.
    for (sql, expected) in [
        (
            "MERGE INTO t USING t s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = 'q'",
            expect![[
                r#"23505 duplicate key value violates unique constraint "t_pkey" (Key (a, b)=(q, 1) already exists.)"#
            ]],
        ),
        (
            "MERGE INTO t USING (VALUES ('x')) s (a) ON t.a = s.a WHEN MATCHED THEN UPDATE SET c = 1",
            expect![[r#"0A000 setting column "c" of an aggregate family is not supported"#]],
        ),
        (
            "MERGE INTO t USING (VALUES ('v')) s (a) ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, n) VALUES (a, 1)",
            expect![[
                r#"23502 null value in column "b" of relation "t" violates not-null constraint (Failing row contains (v, null, 1, null, null).)"#
            ]],
        ),
        (
            "MERGE INTO t USING (VALUES ('v', 2)) s (a, b) ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (a, b, 3)",
            expect!["MERGE 1"],
        ),
        ("SELECT c FROM t WHERE a = 'v'", expect!["3"]),
    ] {
        check(&mut one, sql, expected).await;
    }
}
