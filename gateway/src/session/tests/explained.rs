//! `EXPLAIN EXECUTE`: the plan of a prepared statement with the values of its parameters.

use super::super::testing::{World, check, run};
use expect_test::expect;

#[tokio::test]
async fn explain_execute_plans_with_the_values() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    let sql =
        "INSERT INTO t (a, b, n) VALUES ('x', 1, 1), ('y', 2, 2); PREPARE q (text) AS SELECT n FROM t WHERE a = $1;
        PREPARE w AS UPDATE t SET n = $1 WHERE a = $2; PREPARE l AS SELECT n FROM t WHERE a = $1 FOR UPDATE";
    assert_eq!(run(&mut session, sql).await, "INSERT 0 2\nPREPARE\nPREPARE\nPREPARE");
    // As the query with the values written out; a write and a lock as well.
    for (execute, written) in [
        ("q('x')", "SELECT n FROM t WHERE a = 'x'"),
        ("q('y' || 'z')", "SELECT n FROM t WHERE a = 'yz'"),
        ("l('x')", "SELECT n FROM t WHERE a = 'x'"),
    ] {
        let explained = run(&mut session, &format!("EXPLAIN EXECUTE {execute}")).await;
        assert!(explained.contains("Ranges: ["), "{explained}");
        assert_eq!(explained, run(&mut session, &format!("EXPLAIN {written}")).await, "{execute}");
    }
    let explained = run(&mut session, "EXPLAIN EXECUTE w(7, 'x')").await;
    assert!(explained.contains("Ranges: [x#"), "{explained}");
    let analyzed = run(&mut session, "EXPLAIN ANALYZE EXECUTE q('x')").await;
    assert!(analyzed.contains("Ranges: [x#") && analyzed.contains("actual rows=1"), "{analyzed}");
    for (sql, expected) in [
        (
            "EXPLAIN EXECUTE q",
            expect!["42601 wrong number of parameters for prepared statement \"q\" (Expected 1 parameters but got 0.)"],
        ),
        ("EXPLAIN EXECUTE none(1)", expect![[r#"26000 prepared statement "none" does not exist"#]]),
        ("EXPLAIN (ANALYZE) EXECUTE w('a', 'x')", expect![[r#"22P02 invalid input syntax for type bigint: "a""#]]),
        (
            "EXPLAIN ANALYZE EXECUTE w(7, 'x')",
            expect!["0A000 EXPLAIN ANALYZE of a statement that writes is not supported"],
        ),
    ] {
        check(&mut session, sql, expected).await;
    }
    check(&mut session, "SELECT n FROM t ORDER BY a", expect!["1\n2"]).await;
}
