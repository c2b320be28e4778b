//! A plan that is kept gives what a new one gives: for any values, after writes, in transactions, after changes of the
//! catalog.

use super::{Entry, PreparedPlan};
use crate::{
    query::{inline, parameter_values::ParameterValues},
    session::{
        Prepared, Session,
        testing::{World, run, run_prepared},
    },
    sql::ast::Statement,
};
use arrow::datatypes::DataType;
use datafusion::{
    physical_plan::{ExecutionPlan, displayable},
    scalar::ScalarValue,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use std::sync::Arc;

/// Times that each query runs.
const ROUNDS: usize = 24;

/// Queries whose plans are kept.
const KEPT: &[&str] = &[
    "SELECT a, b, n, s FROM t WHERE a = $1 ORDER BY a, b",
    "SELECT count(*), sum(n) FROM t WHERE a = $1 AND b > $2",
    "SELECT a, sum(n) FROM t WHERE a IN ($1, $2) GROUP BY a ORDER BY a",
    "SELECT a, b FROM t WHERE a >= $1 AND a < $2 AND n <> $3 ORDER BY a DESC, b DESC",
    "SELECT a, b FROM t WHERE (a, b) > ($1, $2) ORDER BY a, b LIMIT 3",
    "SELECT a, b FROM t WHERE a LIKE $1 ORDER BY a, b",
    "SELECT a, b FROM t WHERE b = $1 + 1 ORDER BY a, b",
    "SELECT a, b FROM t WHERE b BETWEEN $1 AND $2 OR a = $3 ORDER BY a, b",
    "SELECT a, b FROM t WHERE NOT (b = $1) ORDER BY a, b",
    "SELECT a, b, n FROM t WHERE n = $1 OR ($1 IS NULL AND n IS NULL) ORDER BY a, b",
    "SELECT a, n + $1, s || $2 FROM t WHERE a = $3 ORDER BY a, b",
    "SELECT a, b FROM t ORDER BY n, a, b LIMIT $1",
    "SELECT a, b FROM t ORDER BY a DESC, b LIMIT $1 OFFSET $2",
    "SELECT a, b FROM t WHERE s = $1 ORDER BY a, b",
    "SELECT a, b FROM t WHERE b::text = $1 ORDER BY a, b",
    "SELECT a, max(b) FROM t GROUP BY a HAVING max(n) > $1 ORDER BY a",
    "SELECT t.a, t.b, u.m FROM t JOIN u ON u.b = t.b WHERE u.b = $1 ORDER BY t.a",
    "SELECT t.a, t.b, u.m FROM t LEFT JOIN u ON u.b = t.b AND u.m > $1 WHERE t.a = $2 ORDER BY t.a, t.b",
    "SELECT a FROM t WHERE b = $1 UNION ALL SELECT m FROM u WHERE b = $1 ORDER BY 1",
    "SELECT a, b FROM t WHERE b IN (SELECT b FROM u WHERE m > $1) ORDER BY a, b",
    "SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b = t.b AND u.m = $1) ORDER BY a, b",
    "SELECT a, b, (SELECT max(m) FROM u WHERE u.b > $1) FROM t WHERE a = $2 ORDER BY a, b",
    "WITH x AS (SELECT a, b FROM t WHERE a > $1) SELECT x.a, count(*) FROM x GROUP BY x.a ORDER BY x.a",
    "SELECT DISTINCT ON (a) a, b, n FROM t WHERE a > $1 ORDER BY a, b DESC",
    "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY n) FROM t WHERE b < $1 ORDER BY a, b",
    "SELECT CASE WHEN n > $1 THEN 'more' ELSE $2 END, count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT coalesce(n, $1) FROM t WHERE a = $2 ORDER BY a, b",
    "SELECT a, b FROM t WHERE b = ANY($1) ORDER BY a, b",
    "SELECT a, b, family, qualifier FROM cells('t') WHERE family = $1 ORDER BY a, b, qualifier LIMIT 5",
    "SELECT count(*) FROM t WHERE timestamptz '2026-01-01 00:00:00+00' + $1 * interval '1 day' > '2026-01-02 00:00:00+00'",
    "SELECT a FROM t WHERE n / $1 > 1 ORDER BY a, b",
    "SELECT a, b, (SELECT m FROM u WHERE u.b = t.b AND u.m > $1) FROM t WHERE a = 'x' ORDER BY a, b",
    "SELECT a, b, (SELECT u.b FROM u WHERE u.m = t.s AND u.b > $1) FROM t WHERE a = 'x' ORDER BY a, b",
    "SELECT a FROM t WHERE a = 'x' ORDER BY b",
    "SELECT count(*), sum(n), max(s) FROM t WHERE a = $1 AND b = $2",
    "SELECT upper(s), count(*) FROM t WHERE a = $1 AND b IN ($2, $3) GROUP BY 1 ORDER BY 1",
    "SELECT n, s FROM t WHERE a IN ($1, $2) AND b = $3 ORDER BY n, s",
    "SELECT max(n), count(*) FROM t WHERE a = $1 AND a = $2 AND b IN (1, 2, $3)",
    "SELECT n + $1, s || $2 FROM t WHERE a = $3 AND b IN (1, 2, 3) ORDER BY 1, 2",
    "SELECT sum(n + $1) FROM t WHERE a = $2 AND b = 2",
    "SELECT count(*) FROM t",
    "SELECT b, p FROM v WHERE p = $1 OR p >= $2 ORDER BY b",
    "SELECT b, p + $1 FROM v WHERE p IN ($2, $3) OR b = $4 ORDER BY b",
];

/// Queries that are planned each time.
const NEVER: &[&str] = &[
    "SELECT a, b FROM t WHERE a = $1 AND now() > '2020-01-01' ORDER BY a, b",
    "SELECT relname FROM pg_class WHERE relname = $1",
    "SELECT a, b FROM t WHERE $1 ORDER BY a, b",
    "SELECT a, b, (SELECT m FROM u WHERE u.b = t.b AND u.m > $1 ORDER BY m LIMIT 1) FROM t WHERE a = 'x' ORDER BY a, b",
    "SELECT m FROM u FOR SYSTEM_TIME AS OF now() WHERE b = $1",
    "SELECT * FROM (VALUES ($1), (2)) AS v(x)",
    "SELECT current_setting('application_name'), a FROM t WHERE a = $1 ORDER BY a, b",
];

fn value(random: &mut StdRng, kind: &DataType) -> ScalarValue {
    let whole = *[-1, 0, 1, 2, 3, 100].choose(random).unwrap();
    let text = *["", "x", "w", "x%", "%", "abc", "y", "1", "m"].choose(random).unwrap();
    let value = match kind {
        _ if random.random_bool(0.12) => ScalarValue::Null,
        DataType::Boolean => ScalarValue::Boolean(Some(random.random_bool(0.5))),
        DataType::List(item) => {
            let items: Vec<_> = (0..random.random_range(0..4)).map(|_| value(random, item.data_type())).collect();
            let items: Vec<_> = items.iter().map(|value| value.cast_to(item.data_type()).unwrap()).collect();
            ScalarValue::List(ScalarValue::new_list(&items, item.data_type(), true))
        }
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => ScalarValue::Utf8View(Some(text.to_owned())),
        // One digit more than the column has.
        DataType::Decimal128(..) => {
            let hundredths = *[0, 100, 105, 110, -104, -110, 9_000].choose(random).unwrap();
            ScalarValue::Decimal128(Some(hundredths), 10, 2)
        }
        _ => ScalarValue::Int64(Some(whole)),
    };
    value.cast_to(kind).unwrap_or(value)
}

async fn prepared(session: &mut Session, sql: &str) -> Prepared {
    let statement = Statement::parse(sql).unwrap().swap_remove(0);
    session.prepare(statement, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

impl PreparedPlan {
    /// Whether a physical plan is kept.
    pub(crate) fn has_physical(&self) -> bool {
        match &*self.0.lock() {
            Entry::Optimized(plan, _) => plan.physical.get().is_some(),
            _ => false,
        }
    }

    /// What is kept, in a word.
    fn word(&self) -> &'static str {
        match &*self.0.lock() {
            Entry::None => "nothing",
            Entry::Ready(_) => "ready",
            Entry::Planned(_) => "planned",
            Entry::Optimized(..) => "optimized",
            Entry::Never(_) => "never",
        }
    }
}

async fn world() -> World {
    let world = World::new().await;
    let table = "CREATE TABLE u (b int, m text, PRIMARY KEY (b), FAMILY f (m)) WITH (history = '1 day')";
    assert_eq!(run(&mut world.operator(), table).await, "CREATE TABLE");
    let table = "CREATE TABLE v (b int, p numeric(6,1), PRIMARY KEY (b), FAMILY f (p)) WITH (history = '1 day')";
    assert_eq!(run(&mut world.operator(), table).await, "CREATE TABLE");
    let mut alto = world.tenant("alto");
    let rows = "INSERT INTO t (a, b, n, s) VALUES ('', 0, 0, 'abc'), ('w', 1, NULL, ''), ('x', 0, 5, 'abc'), ('x', 1, 3, NULL),
        ('x', 2, 100, 'x'), ('x', 3, -1, 'y'), ('y', 1, 2, 'm'), ('y', 100, 7, 'abc');
        INSERT INTO u (b, m) VALUES (0, 'm'), (1, 'x'), (2, 'abc'), (100, NULL);
        INSERT INTO v (b, p) VALUES (0, 0), (1, 1.0), (2, 1.1), (3, -1.0), (4, -1.1), (5, NULL)";
    assert_eq!(run(&mut alto, rows).await, "INSERT 0 8\nINSERT 0 4\nINSERT 0 6");
    world
}

#[tokio::test]
async fn a_kept_plan_gives_what_a_new_one_gives() {
    let world = world().await;
    let (mut keeps, mut plans) = (world.tenant("alto"), world.tenant("alto"));
    // The fast path would hide what is tried here.
    assert_eq!(run(&mut keeps, "SET keyspan.point = off").await, "SET");
    assert_eq!(run(&mut plans, "SET keyspan.point = off; SET plan_cache_mode = force_custom_plan").await, "SET\nSET");
    let mut random = StdRng::seed_from_u64(7);
    let mut others = Vec::new();
    for sql in KEPT.iter().chain(NEVER) {
        let (kept, new) = (prepared(&mut keeps, sql).await, prepared(&mut plans, sql).await);
        assert_eq!(kept.parameters, new.parameters, "{sql}");
        for round in 0..ROUNDS {
            let values: Vec<_> = kept.parameters.iter().map(|kind| value(&mut random, &kind.data)).collect();
            let expected = run_prepared(&mut plans, &new, values.clone()).await;
            let found = run_prepared(&mut keeps, &kept, values.clone()).await;
            assert_eq!(found, expected, "{sql} with {values:?}");
            if round % 8 == 7 {
                let write = format!("INSERT INTO t (a, b, n) VALUES ('x', {}, {round})", random.random_range(0..9_999));
                run(&mut world.tenant("alto"), &write).await;
            }
        }
        let wanted = if NEVER.contains(sql) { "never" } else { "optimized" };
        if (kept.plans.word(), new.plans.word()) != (wanted, "never") {
            others.push(format!("{sql}: {}, {}", kept.plans.word(), new.plans.word()));
        }
    }
    assert_eq!(others, Vec::<String>::new());
}

#[tokio::test]
async fn a_kept_plan_sees_what_its_statement_sees() {
    let world = world().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    let count = prepared(&mut one, "SELECT count(*), max(n) FROM t WHERE a = $1").await;
    let x = || vec![ScalarValue::Utf8View(Some("x".to_owned()))];
    assert_eq!(run_prepared(&mut one, &count, x()).await, "4|100");
    assert_eq!(count.plans.word(), "optimized");
    run(&mut two, "INSERT INTO t (a, b, n) VALUES ('x', 7, 7)").await;
    assert_eq!(run_prepared(&mut one, &count, x()).await, "5|100");
    // Own writes that are not committed, and none of others.
    assert_eq!(run(&mut one, "BEGIN; INSERT INTO t (a, b, n) VALUES ('x', 8, 800)").await, "BEGIN\nINSERT 0 1");
    assert_eq!(run_prepared(&mut one, &count, x()).await, "6|800");
    assert_eq!(run(&mut one, "ROLLBACK").await, "ROLLBACK");
    assert_eq!(run_prepared(&mut one, &count, x()).await, "5|100");
    assert_eq!(run(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ").await, "BEGIN");
    assert_eq!(run_prepared(&mut one, &count, x()).await, "5|100");
    run(&mut two, "DELETE FROM t WHERE a = 'x' AND b = 2").await;
    assert_eq!(run_prepared(&mut one, &count, x()).await, "5|100");
    assert_eq!(run(&mut one, "COMMIT").await, "COMMIT");
    assert_eq!(run_prepared(&mut one, &count, x()).await, "4|7");
}

#[tokio::test]
async fn a_change_of_the_catalog_or_a_setting_makes_a_new_plan() {
    let world = world().await;
    let mut one = world.tenant("alto");
    let all = prepared(&mut one, "SELECT * FROM u WHERE b < $1 ORDER BY b").await;
    let two = || vec![ScalarValue::Int32(Some(2))];
    assert_eq!(run_prepared(&mut one, &all, two()).await, "0|m\n1|x");
    assert_eq!(all.plans.word(), "optimized");
    assert_eq!(
        run(&mut world.operator(), "ALTER TABLE u DROP COLUMN m; ALTER TABLE u ADD COLUMN o int").await,
        "ALTER TABLE\nALTER TABLE"
    );
    assert_eq!(run_prepared(&mut one, &all, two()).await, "0|∅\n1|∅");
    assert_eq!(run(&mut world.operator(), "DROP TABLE u").await, "DROP TABLE");
    assert_eq!(run_prepared(&mut one, &all, two()).await, "42P01 relation \"u\" does not exist");
    let some = prepared(&mut one, "SELECT count(*) FROM t WHERE b < $1").await;
    assert_eq!(run_prepared(&mut one, &some, two()).await, "5");
    assert_eq!(some.plans.word(), "optimized");
    assert_eq!(run(&mut one, "SET keyspan.pushdown = off").await, "SET");
    assert_eq!(run_prepared(&mut one, &some, two()).await, "5");
    assert_eq!(run(&mut one, "SET plan_cache_mode = force_custom_plan").await, "SET");
    assert_eq!(run_prepared(&mut one, &some, two()).await, "5");
    assert_eq!(some.plans.word(), "never");
}

#[tokio::test]
async fn plans_beyond_the_bound_are_not_kept() {
    let world = world().await;
    let mut one = world.tenant("alto");
    let room = world.instance.resources.plans.clone();
    let all = u32::try_from(room.available_permits()).unwrap();
    let taken = room.acquire_many(all - 1).await.unwrap();
    let first = prepared(&mut one, "SELECT count(*) FROM t WHERE b < $1").await;
    let second = prepared(&mut one, "SELECT count(*) FROM t WHERE b > $1").await;
    let two = || vec![ScalarValue::Int32(Some(2))];
    assert_eq!(run_prepared(&mut one, &first, two()).await, "5");
    assert_eq!(run_prepared(&mut one, &second, two()).await, "2");
    assert_eq!((first.plans.word(), second.plans.word()), ("optimized", "nothing"));
    drop((taken, first));
    assert_eq!(run_prepared(&mut one, &second, two()).await, "2");
    assert_eq!(second.plans.word(), "optimized");
}

/// The physical plan that a kept one gives for values.
async fn physical(session: &mut Session, sql: &str, values: &[ScalarValue]) -> Arc<dyn ExecutionPlan> {
    let prepared = prepared(session, sql).await;
    run_prepared(session, &prepared, values.to_vec()).await;
    assert_eq!(prepared.plans.word(), "optimized", "{sql}");
    let Statement::Query(statement) = prepared.statement.as_ref() else { panic!("{sql} is no query") };
    let view = session.view().await.unwrap();
    let query = session.query_of_cached(view).unwrap();
    let values = ParameterValues::new(values.to_vec(), &prepared.parameters);
    let planned = prepared.plans.optimized(query, statement, &values).await;
    let (query, plan) = planned.unwrap();
    let state = query.context.state();
    state.query_planner().create_physical_plan(&plan, &state).await.unwrap()
}

#[tokio::test]
async fn what_is_a_range_of_keys_is_no_filter_of_a_kept_plan() {
    let world = world().await;
    let mut one = world.tenant("alto");
    let (x, two) = (ScalarValue::Utf8View(Some("x".to_owned())), ScalarValue::Int32(Some(2)));
    for sql in [
        "SELECT count(*) FROM t WHERE a = $1 AND b < $2",
        "SELECT count(*) FROM t WHERE a = $1 AND b >= 0 AND b < $2",
        "SELECT count(*) FROM t WHERE b >= 0 AND a = $1 AND $2 > b",
        "SELECT max(n) FROM t WHERE a = $1 AND b >= '0' AND b < '7' AND $2 = 2",
    ] {
        let plan = physical(&mut one, sql, &[x.clone(), two.clone()]).await;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert!(!shown.contains("FilterExec"), "{sql}\n{shown}");
    }
}

#[tokio::test]
async fn a_query_of_no_table_is_kept_whole() {
    let world = world().await;
    let mut one = world.tenant("alto");
    for (sql, parameters, kept, expected) in [
        ("SELECT 1", vec![], true, "1"),
        ("SELECT 1 + 2, upper('x') WHERE 2 > 1", vec![], true, "3|X"),
        ("SELECT 1 WHERE 2 < 1", vec![], false, "(no rows)"),
        ("SELECT $1 + 1", vec![ScalarValue::Int32(Some(2))], false, "3"),
        ("SELECT random() < 2", vec![], false, "true"),
        // It reads a table, if only to count.
        ("SELECT count(*) FROM t", vec![], false, "8"),
    ] {
        let query = prepared(&mut one, sql).await;
        for time in 1..=3 {
            assert_eq!(run_prepared(&mut one, &query, parameters.clone()).await, expected, "{sql}: {time}");
        }
        assert_eq!(query.plans.has_physical(), kept, "{sql}");
    }
}

#[tokio::test]
async fn short_plans_are_pipelines_over_few_rows() {
    let world = world().await;
    let mut one = world.tenant("alto");
    assert_eq!(run(&mut one, "SET keyspan.point = off").await, "SET");
    for (sql, expected) in [
        ("SELECT count(*), sum(n) FROM t WHERE a = 'x' AND b = 1", true),
        ("SELECT upper(s), n + 1 FROM t WHERE a = 'x' AND b IN (1, 2) ORDER BY n", true),
        (
            "SELECT n, max(s) FROM t WHERE a = 'x' AND b IN (1, 2) GROUP BY n HAVING max(s) > 'a' ORDER BY n LIMIT 1",
            true,
        ),
        ("SELECT a, b FROM t ORDER BY a, b LIMIT 3", true),
        // No table.
        ("SELECT 1, upper('x')", true),
        ("SELECT random()", false),
        // Nobody knows how many rows there are.
        ("SELECT n FROM t WHERE a = 'x'", false),
        ("SELECT a, b FROM t ORDER BY a, b LIMIT 3000", false),
        // Values may become large, or take long.
        ("SELECT repeat(s, 1000000) FROM t WHERE a = 'x' AND b = 1", false),
        ("SELECT n FROM t WHERE a = 'x' AND b = 1 AND s ~ '(a|b)*'", false),
        ("SELECT string_agg(s, ',') FROM t WHERE a = 'x' AND b = 1", false),
        ("SELECT count(DISTINCT n) FROM t WHERE a = 'x' AND b = 1", true),
        ("SELECT t.n, u.m FROM t JOIN u ON u.b = t.b WHERE t.a = 'x' AND t.b = 1", false),
        ("SELECT generate_series(1, n) FROM t WHERE a = 'x' AND b = 1", false),
    ] {
        let plan = physical(&mut one, sql, &[]).await;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(inline::is_short(&plan), expected, "{sql}\n{shown}");
    }
}
