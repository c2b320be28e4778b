//! Quotas: what a tenant's statements may read.

use super::super::testing::{World, check, run};
use expect_test::expect;

#[tokio::test]
async fn a_statement_reads_no_more_than_its_scan_budget() {
    let world = World::new().await;
    let (mut operator, mut alto, mut other) = (world.operator(), world.tenant("alto"), world.tenant("altostrat"));
    for session in [&mut alto, &mut other] {
        let rows: Vec<String> = (0..500).map(|n| format!("('a{}', {n}, {n})", n % 5)).collect();
        run(session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
    }
    check(
        &mut operator,
        "ALTER DATABASE alto SET (scan_budget = '8KiB'); SELECT tenant, scan_budget FROM keyspan.tenants ORDER BY 1",
        expect![[r#"
            ALTER DATABASE
            alto|8192
            altostrat|∅"#]],
    )
    .await;
    // All rows; some of them by their keys; so many that the end is not reached; with a filter that no key tells.
    check(
        &mut alto,
        "SELECT count(*) FROM t",
        expect!["53400 the statement reads more than the database's scan budget (A statement may read 8KiB.)"],
    )
    .await;
    check(&mut alto, "SELECT count(*) FROM t WHERE a = 'a1' AND b < 100", expect!["20"]).await;
    check(&mut alto, "SELECT a, b FROM t WHERE a = 'a3' AND b = 3", expect!["a3|3"]).await;
    check(&mut alto, "SELECT max(b) FROM t WHERE a = 'a3'", expect!["498"]).await;
    for sql in [
        "SELECT * FROM t WHERE b = 7",
        "SELECT * FROM cells('t') WHERE value = 'x'",
        "UPDATE t SET s = 'x' WHERE b = 7",
        "DELETE FROM t WHERE b = 7",
        "INSERT INTO t SELECT a, b + 1000, c FROM t",
        "SELECT x.b FROM t x JOIN t y ON x.a = y.a AND x.b = y.b",
    ] {
        let answer = run(&mut alto, sql).await;
        assert!(answer.starts_with("53400"), "{sql}: {answer}");
    }
    // A statement has it, not a session; other tenants and the operator have none.
    for _ in 0..20 {
        check(&mut alto, "SELECT count(*) FROM t WHERE a = 'a1' AND b < 100", expect!["20"]).await;
    }
    check(&mut other, "SELECT count(*) FROM t", expect!["500"]).await;
    check(&mut operator, "SELECT count(*) FROM t", expect!["1000"]).await;
    // A cursor has one too.
    check(
        &mut alto,
        "BEGIN; DECLARE k CURSOR FOR SELECT a, b FROM t; FETCH ALL FROM k",
        expect![[r#"
            BEGIN
            DECLARE CURSOR
            53400 the statement reads more than the database's scan budget (A statement may read 8KiB.)"#]],
    )
    .await;
    run(&mut alto, "ROLLBACK").await;
    check(
        &mut operator,
        "ALTER DATABASE alto RESET (scan_budget); SELECT scan_budget FROM keyspan.tenants WHERE tenant = 'alto'",
        expect![[r#"
            ALTER DATABASE
            ∅"#]],
    )
    .await;
    check(&mut alto, "SELECT count(*) FROM t", expect!["500"]).await;
}

#[tokio::test]
async fn quotas_are_the_operators() {
    let world = World::new().await;
    let mut operator = world.operator();
    for (sql, expected) in [
        ("ALTER DATABASE nix SET (scan_budget = '1GB')", expect![[r#"3D000 database "nix" does not exist"#]]),
        ("ALTER DATABASE alto SET (scan = '1GB')", expect![[r#"22023 unrecognized quota "scan""#]]),
        (
            "ALTER DATABASE alto SET (scan_budget = 'much')",
            expect![[
                r#"22023 invalid value for "scan_budget": "much" is no unit: use KiB, MiB, GiB, TiB or KB, MB, GB, TB"#
            ]],
        ),
        ("ALTER DATABASE alto SET (m.scan_budget = '1GB')", expect!["42601 a quota's name has no point"]),
        ("ALTER DATABASE alto RENAME TO x", expect!["0A000 ALTER DATABASE … RENAME is not supported"]),
        ("ALTER DATABASE keyspan SET (scan_budget = '1GB')", expect![[r#"42939 database name "keyspan" is reserved"#]]),
    ] {
        check(&mut operator, sql, expected).await;
    }
    check(
        &mut world.tenant("alto"),
        "ALTER DATABASE alto RESET (scan_budget)",
        expect![[r#"42501 permission denied for ALTER DATABASE (Databases and roles are defined by an operator in database "keyspan".)"#]],
    )
    .await;
}
