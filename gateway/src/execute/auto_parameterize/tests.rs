use super::*;
use crate::{
    query::testing::parse,
    session::{
        plan_cache::{ONCE_MAX, TREES_MAX},
        testing::{World, run, run_prepared},
    },
};
use expect_test::{Expect, expect};
use keyspan_storage::{
    Store,
    clock::ManualClock,
    engine::{Engine, EngineOptions},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

fn check(sql: &str, expected: Expect) {
    let shown = lift(&parse(sql)).map(|(kind, values)| format!("{kind}\n{values:?}"));
    expected.assert_eq(&shown.unwrap_or_default());
}

#[test]
fn values_that_where_compares_with_columns_are_lifted() {
    check(
        "SELECT 'x', 7 FROM t WHERE a = 'x' AND (7 <= t.b OR NOT n <> 8) AND s > 'y' LIMIT 3",
        expect![[r#"
        SELECT 'x', 7 FROM t WHERE a = $1 AND ($2 <= t.b OR NOT n <> $3) AND s > $4 LIMIT 3
        [Quoted("x"), Whole("7"), Whole("8"), Quoted("y")]"#]],
    );
    check(
        "SELECT * FROM t WHERE a IN ('x', 'y', lower('Z')) AND b BETWEEN 1 AND 2 + n AND b NOT BETWEEN -1 AND 3",
        expect![[r#"
            SELECT * FROM t WHERE a IN ($1, $2, lower('Z')) AND b BETWEEN $3 AND 2 + n AND b NOT BETWEEN -1 AND $4
            [Quoted("x"), Quoted("y"), Whole("1"), Whole("3")]"#]],
    );
    // Not these: a pattern, what is computed, numbers with a point, a type that is named, and what is not compared with
    // a column.
    for sql in [
        "SELECT * FROM t WHERE a LIKE 'x%' OR a = 'x '",
        "SELECT * FROM t WHERE lower(a) = 'x' AND n + 1 = 5 AND 'x' = 'y'",
        "SELECT * FROM t WHERE n > 1.5 AND n < 1e3 AND c > -1",
        "SELECT * FROM t WHERE c = bigint '7'",
        "SELECT * FROM t WHERE a = NULL OR a IS NULL",
        "SELECT 'x' FROM t",
        "SELECT 1 FROM t WHERE a = 'x' UNION SELECT 2 FROM t WHERE a = 'y'",
        "SELECT * FROM t WHERE a = $1 AND b = 7",
        "SELECT * FROM t WHERE a = 'x' LIMIT $1",
    ] {
        check(sql, expect![""]);
    }
    let many = (0..=VALUES_MAX).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    check(&format!("SELECT * FROM t WHERE b IN ({many})"), expect![""]);
}

/// For each type: a table, values (some invalid for the type), and what may stand in their place.
const TYPES: &[(&str, &[&str])] = &[
    ("boolean", &["'t'", "'false'", "'off'", "1", "'maybe'"]),
    ("smallint", &["7", "'7'", "40000", "'40000'", "' -3 '", "'x'"]),
    ("int", &["7", "'-8'", "3000000000", "99999999999999999999", "'1.5'"]),
    ("bigint", &["7", "'9223372036854775807'", "9223372036854775808", "''"]),
    ("real", &["7", "'0.1'", "'NaN'", "'-infinity'", "16777217"]),
    ("double precision", &["7", "'0.1'", "'1e400'", "9007199254740993"]),
    (
        "numeric(9,2)",
        &["7", "'1.005'", "'1.00'", "'NaN'", "123456789012", "'12345678901.5'", "'1.00000000001'", "'1e-11'", "'0'"],
    ),
    ("text", &["'a'", "'A '", "7", "''"]),
    ("varchar(3)", &["'abc'", "'abcd'", "'a '", "7"]),
    ("char(3)", &["'a'", "'a  '", "'a    '", "'abcd'", "7"]),
    ("bytea", &["'\\x6100'", "'a'", "'\\x6'", "7"]),
    ("date", &["'2024-01-31'", "'infinity'", "'2024-02-30'", "'2024-01-31 10:00'", "7"]),
    ("timestamp", &["'2024-01-31 10:00'", "'-infinity'", "'2024-01-31'", "'x'", "7"]),
    ("timestamptz", &["'2024-01-31 10:00+02'", "'infinity'", "'2024-01-31'", "'2024-01-31 10:00 Nowhere/City'"]),
    ("time", &["'10:00'", "'9:05 PM'", "'24:00'", "'25:00'", "7"]),
    ("interval", &["'1 day'", "'24 hours'", "'1 month -1 day'", "'P1Y'", "'x'"]),
    ("int[]", &["'{1,2}'", "'{}'", "'{NULL}'", "'{{1}}'", "'1'"]),
    ("text[]", &["'{a,\"b c\"}'", "'{ a , b }'", "'{\"\"}'", "'{a'"]),
    ("uuid", &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}'", "'a0'", "7"]),
    ("jsonb", &["'{\"a\": 1}'", "'{\"a\":1}'", "'{'", "7"]),
    ("json", &["'{\"a\": 1}'", "'1'"]),
];

#[tokio::test]
async fn a_kind_answers_as_each_of_its_texts() {
    let world = World::empty().await;
    let mut operator = world.operator();
    assert_eq!(run(&mut operator, "CREATE DATABASE alto").await, "CREATE DATABASE");
    let mut wrong = Vec::new();
    for (number, (kind, values)) in TYPES.iter().enumerate() {
        let mut loading = world.tenant("alto");
        let created = run(&mut loading, &format!("CREATE TABLE t{number} (k int PRIMARY KEY, v {kind})")).await;
        assert_eq!(created, "CREATE TABLE");
        for (k, value) in values.iter().enumerate() {
            // Some are no value of the type: nothing is stored of these.
            run(&mut loading, &format!("INSERT INTO t{number} VALUES ({k}, {value})")).await;
        }
        for operator in ["v = {}", "v < {}", "{} <= v", "v <> {}", "v IN ({}, {})", "NOT (v BETWEEN {} AND {})"] {
            let (mut lifting, mut planning) = (world.tenant("alto"), world.tenant("alto"));
            assert_eq!(run(&mut planning, "SET plan_cache_mode = force_custom_plan").await, "SET");
            for value in values.iter().chain(values.iter()) {
                let condition = operator.replace("{}", value);
                let sql = format!("SELECT k, v, count(*) OVER () FROM t{number} WHERE {condition} ORDER BY k");
                let (lifted, planned) = (run(&mut lifting, &sql).await, run(&mut planning, &sql).await);
                if lifted != planned {
                    wrong.push(format!("{kind}: {condition}\n{lifted}\nas it stands\n{planned}"));
                }
            }
            assert!(planning.plan_cache.trees.entries.iter().all(|kind| kind.prepared.is_none()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What needs no plan takes the values of its columns' types out of the text at once, and answers as a plan does.
#[tokio::test]
async fn texts_that_compare_keys_answer_as_their_plans() {
    let world = World::in_files().await;
    assert_eq!(run(&mut world.operator(), "CREATE DATABASE alto").await, "CREATE DATABASE");
    let (mut wrong, mut lifted) = (Vec::new(), 0);
    for (number, (kind, values)) in TYPES.iter().enumerate() {
        let mut loading = world.tenant("alto");
        if run(&mut loading, &format!("CREATE TABLE t{number} (v {kind} PRIMARY KEY, n int)")).await != "CREATE TABLE" {
            continue;
        }
        for value in *values {
            run(&mut loading, &format!("INSERT INTO t{number} VALUES ({value}, 7) ON CONFLICT DO NOTHING")).await;
        }
        let (mut fast, mut planning) = (world.tenant("alto"), world.tenant("alto"));
        for session in [&mut fast, &mut planning] {
            assert_eq!(run(session, "SET timezone = 'Asia/Kolkata'").await, "SET");
        }
        assert_eq!(run(&mut planning, "SET keyspan.point = off").await, "SET");
        for condition in ["v = {}", "v >= {}", "v BETWEEN {} AND {}", "{} > v"] {
            for value in values.iter().chain(values.iter()) {
                let sql = format!("SELECT v, n FROM t{number} WHERE {} ORDER BY v", condition.replace("{}", value));
                let statement = Statement::parse(&sql).unwrap().swap_remove(0);
                let prepared = fast.prepare(statement, &[]).await;
                lifted +=
                    usize::from(prepared.is_ok_and(|prepared| {
                        prepared.parameterized.is_some_and(|one| one.prepared.kept.is_compiled())
                    }));
                let (found, planned) = (run(&mut fast, &sql).await, run(&mut planning, &sql).await);
                if found != planned {
                    wrong.push(format!("{kind}: {sql}\n{found}\nby a plan\n{planned}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(lifted > 100, "{lifted}");
    let mut session = world.tenant("alto");
    run(&mut session, "CREATE TABLE m (host text, at timestamptz, v int, PRIMARY KEY (host, at))").await;
    let first = "SELECT * FROM m WHERE host = 'a' AND at >= '2026-01-01 10:00' AND at < '2026-01-01 11:00' ORDER BY at";
    let prepared = session.prepare(Statement::parse(first).unwrap().swap_remove(0), &[]).await.unwrap();
    assert!(prepared.parameterized.is_some_and(|one| one.prepared.kept.is_compiled()), "the first of its kind");
}

const COUNT: &str = "SELECT count(*) OVER () FROM t WHERE s = ";

#[tokio::test]
async fn a_kind_that_comes_again_is_kept() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(&mut session, "INSERT INTO t (a, b, n, s) VALUES ('a', 1, 7, 'x'), ('a', 2, 8, 'y'), ('b', 1, 9, 'x')").await;
    let texts = ["'x'", "'y'", "'z'", "'x'"].map(|value| format!("{COUNT}{value}"));
    let mut answers = Vec::new();
    for text in &texts {
        answers.push((run(&mut session, text).await.lines().count(), session.plan_cache.trees.entries.len()));
    }
    assert_eq!(answers, [(2, 0), (1, 1), (1, 1), (2, 1)]);
    // A statement of a kind stays what it is when the catalog becomes another.
    let statement = Statement::parse(&texts[0]).unwrap().swap_remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    let lifted = prepared.parameterized.clone().expect("it is of a kind that is kept");
    assert!(lifted.valid(&session).is_some());
    let altered =
        run(&mut world.operator(), "CREATE TABLE other (z int PRIMARY KEY); ALTER TABLE t DROP COLUMN c").await;
    assert_eq!(altered, "CREATE TABLE\nALTER TABLE");
    assert!(lifted.valid(&session).is_none());
    assert_eq!(run_prepared(&mut session, &prepared, Vec::new()).await, "2\n2");
    // What was made of another state of the catalog is made anew.
    let asked = ["SELECT n, s FROM t WHERE s = 'x'", "SELECT n, s FROM t WHERE s = 'y'"];
    for sql in asked {
        run(&mut session, sql).await;
    }
    assert_eq!(run(&mut world.operator(), "ALTER TABLE t DROP COLUMN n").await, "ALTER TABLE");
    for sql in asked {
        let answer = run(&mut session, sql).await;
        assert!(answer.starts_with("42703"), "{answer}");
    }
    run(&mut session, "DISCARD PLANS").await;
    assert!(session.plan_cache.trees.entries.is_empty());
}

#[tokio::test]
async fn values_of_a_kind_have_the_types_that_columns_have_now() {
    let world = World::new().await;
    let (mut session, mut fresh) = (world.tenant("alto"), world.tenant("alto"));
    assert_eq!(run(&mut fresh, "SET plan_cache_mode = force_custom_plan").await, "SET");
    for (kind, values) in
        [("int", "(1), (10)"), ("text", "('1'), ('01')"), ("numeric(9,1)", "(1), (1.1)"), ("boolean", "(true)")]
    {
        assert_eq!(
            run(&mut fresh, &format!("CREATE TABLE kinds (v {kind}); INSERT INTO kinds VALUES {values}"))
                .await
                .lines()
                .count(),
            2
        );
        for value in ["'1'", "'01'", "'1.10'", "'1'", "'t'"] {
            let sql = format!("SELECT v, count(*) OVER () FROM kinds WHERE v = {value}");
            assert_eq!(run(&mut session, &sql).await, run(&mut fresh, &sql).await, "{kind}: {sql}");
        }
        assert_eq!(run(&mut fresh, "DROP TABLE kinds").await, "DROP TABLE");
    }
}

#[tokio::test]
async fn what_may_not_be_kept_is_planned_as_it_stands() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(&mut session, "INSERT INTO t (a, b, n, s) VALUES ('a', 1, 7, 'x'), ('a', 2, 8, 'y'), ('b', 1, 9, 'x')").await;
    for value in ["'x'", "'y'", "'x'", "'y'"] {
        let answer =
            run(&mut session, &format!("SELECT max(n), now() > '2020-01-01' AS now FROM t WHERE s = {value}")).await;
        assert!(answer.contains(if value == "'x'" { "9" } else { "8" }) && answer.contains("t"), "{answer}");
    }
    assert!(session.plan_cache.trees.entries.iter().all(|kind| kind.prepared.is_none()));
    assert_eq!(session.plan_cache.trees.entries.len(), 1);
}

#[tokio::test]
async fn kinds_are_bounded() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    for column in 0..TREES_MAX + ONCE_MAX {
        for value in ["'x'", "'y'"] {
            run(&mut session, &format!("SELECT count(*) OVER () AS c{column} FROM t WHERE s = {value}")).await;
        }
        run(&mut session, &format!("SELECT count(*) OVER () AS once{column} FROM t WHERE s = 'x'")).await;
    }
    assert_eq!((session.plan_cache.trees.entries.len(), session.plan_cache.trees.once.len()), (TREES_MAX, ONCE_MAX));
}

/// Queries of a dashboard: `{h}` and `{g}` are hosts, `{f}` and `{t}` the ends of a window.
const OF_WINDOWS: &[&str] = &[
    "SELECT date_trunc('hour', at) AS hour, max(v), count(*) FROM m WHERE host = {h} AND at >= {f} AND at < {t} GROUP BY 1 ORDER BY 1",
    "SELECT count(*), sum(v), min(at), max(at) FROM m WHERE host IN ({h}, {g}) AND at >= {f} AND at < {t}",
    "SELECT host, max(v) FROM m WHERE host >= {h} AND host <= {g} GROUP BY host ORDER BY host",
    "SELECT at, v FROM m WHERE host = {h} AND at > {f} ORDER BY v, at LIMIT 5",
    "SELECT v + 1, at FROM m WHERE host = {h} AND at BETWEEN {f} AND {t} ORDER BY at DESC",
    "SELECT upper(host), at FROM m WHERE host = {h} AND at > {f} AND at <= {t} ORDER BY at",
    "SELECT count(*) FROM m WHERE host = {h} AND at >= {f} AND at < {t} AND v > 5",
    "SELECT at, host, v FROM m WHERE host IN ({h}, {g}) AND at >= {f} AND at < {t} ORDER BY at, host",
    "SELECT avg(v) FROM m WHERE host = {h} AND {g} = host AND at >= {f}",
];

#[tokio::test]
async fn physical_plans_of_kinds_serve_other_windows() {
    const NOW: i64 = 1_700_000_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let clock = || ManualClock::new(NOW);
    let engine =
        Engine::open(EngineOptions { clock: Box::new(clock()), ..EngineOptions::new(folder.path()) }).await.unwrap();
    let world = World::in_store(engine.clone(), Arc::new(clock())).await;
    let definitions =
        "CREATE DATABASE alto; CREATE TABLE m (host text, at timestamptz, v bigint, PRIMARY KEY (host, at))";
    run(&mut world.operator(), definitions).await;
    let (mut lifting, mut planning) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut planning, "SET plan_cache_mode = force_custom_plan; SET keyspan.columnar = off").await;
    let time =
        |minute: i64| format!("'2023-01-{:02} {:02}:{:02}+00'", 1 + minute / 1_440, minute / 60 % 24, minute % 60);
    for host in 0..5 {
        let rows: Vec<_> = (0..2_000).map(|minute| format!("('h{host}', {}, {})", time(minute), minute % 13)).collect();
        for rows in rows.chunks(1_000) {
            run(&mut lifting, &format!("INSERT INTO m VALUES {}", rows.join(", "))).await;
        }
    }
    let mut random = StdRng::seed_from_u64(7);
    let mut kept = 0;
    for round in 0..60 {
        match round {
            20 => engine.flush().await.unwrap(),
            40 => assert_eq!(
                run(&mut lifting, "DELETE FROM m WHERE host = 'h1' AND at < '2023-01-01 12:00+00'").await,
                "DELETE 720"
            ),
            _ => {}
        }
        // Windows of all sizes, some of them empty, some of more rows than a short plan reads.
        let from = random.random_range(0..1_990);
        let to = from + [-5, 0, 1, 30, 300, 1_900][random.random_range(0..6)];
        let (host, other) = (random.random_range(0..6), random.random_range(0..6));
        // What is kept first is of one host and few rows.
        let (to, other) = if round < 4 { (from + 30, host) } else { (to, other) };
        for query in OF_WINDOWS {
            let sql = query.replace("{h}", &format!("'h{host}'")).replace("{g}", &format!("'h{other}'"));
            let sql = sql.replace("{f}", &time(from)).replace("{t}", &time(to.max(0)));
            let (found, planned) = (run(&mut lifting, &sql).await, run(&mut planning, &sql).await);
            assert_eq!(found, planned, "round {round}: {sql}");
        }
        kept = lifting
            .plan_cache
            .trees
            .entries
            .iter()
            .filter_map(|kind| kind.prepared.as_ref())
            .filter(|one| one.plans.has_physical())
            .count();
    }
    assert!(kept >= 4, "{kept} physical plans are kept");
    engine.close().await.unwrap();
}
