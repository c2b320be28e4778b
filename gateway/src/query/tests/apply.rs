//! What DataFusion makes joins of, and the same evaluated row by row: the answers are the same. Then what DataFusion
//! refuses.

use crate::{
    pg::plan::apply::{Correlated, Joins},
    query::testing::{session, shown},
};
use datafusion::{execution::SessionStateBuilder, optimizer::AnalyzerRule, prelude::SessionContext};
use expect_test::{Expect, expect};
use std::sync::Arc;

/// A session that makes other joins of correlated subqueries.
fn with_joins(context: &SessionContext, joins: Joins) -> SessionContext {
    let state = context.state();
    let rules = state.analyzer().rules.iter().map(|rule| match rule.name() {
        "correlated_subqueries" => Arc::new(Correlated { joins }) as Arc<dyn AnalyzerRule + Send + Sync>,
        _ => Arc::clone(rule),
    });
    let rules = rules.collect();
    SessionContext::new_with_state(SessionStateBuilder::new_from_existing(state).with_analyzer_rules(rules).build())
}

const T: &str = "(VALUES (1, 'a', 10), (2, 'b', NULL), (3, 'c', 30), (NULL, 'd', 40)) AS t(k, n, v)";
const U: &str = "(VALUES (1, 5), (1, 7), (2, NULL), (4, 9), (NULL, 11)) AS u(k, w)";

#[tokio::test]
async fn row_by_row_gives_what_joins_give() {
    let joined = session(false);
    let applied = with_joins(&joined, Joins::None);
    let unnested = with_joins(&joined, Joins::All);
    for query in [
        "SELECT n, (SELECT max(w) FROM @U WHERE u.k = t.k) FROM @T ORDER BY n",
        "SELECT n, (SELECT count(*) FROM @U WHERE u.k = t.k) FROM @T ORDER BY n",
        "SELECT n, (SELECT count(w) + 1 FROM @U WHERE u.k = t.k) FROM @T ORDER BY n",
        "SELECT n, (SELECT sum(w) FROM @U WHERE u.k = t.k HAVING count(*) > 1) FROM @T ORDER BY n",
        "SELECT n FROM @T WHERE EXISTS (SELECT 1 FROM @U WHERE u.k = t.k) ORDER BY n",
        "SELECT n FROM @T WHERE NOT EXISTS (SELECT 1 FROM @U WHERE u.k = t.k AND w > 5) ORDER BY n",
        "SELECT n FROM @T WHERE EXISTS (SELECT 1 FROM @U WHERE u.k < t.k) ORDER BY n",
        "SELECT n FROM @T WHERE k IN (SELECT k FROM @U) ORDER BY n",
        "SELECT n FROM @T WHERE k NOT IN (SELECT k FROM @U) ORDER BY n",
        "SELECT n FROM @T WHERE k NOT IN (SELECT k FROM @U WHERE k IS NOT NULL) ORDER BY n",
        "SELECT n FROM @T WHERE k IN (SELECT u.k FROM @U WHERE w < t.v) ORDER BY n",
        "SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w < t.v) ORDER BY n",
        "SELECT n FROM @T WHERE v > (SELECT max(w) FROM @U WHERE u.k = t.k) ORDER BY n",
        "SELECT n FROM @T WHERE 5 < ALL (SELECT w FROM @U WHERE u.k = t.k) ORDER BY n",
        "SELECT n, CASE WHEN EXISTS (SELECT 1 FROM @U WHERE u.k = t.k) THEN 1 ELSE 2 END FROM @T ORDER BY n",
        "SELECT t.n, x.w FROM @T, LATERAL (SELECT w FROM @U WHERE u.k = t.k) x ORDER BY 1, 2",
        "SELECT t.n, x.w FROM @T LEFT JOIN LATERAL (SELECT w FROM @U WHERE u.k = t.k) x ON true ORDER BY 1, 2",
        "SELECT t.n, x.c FROM @T LEFT JOIN LATERAL (SELECT count(*) AS c FROM @U WHERE u.k = t.k) x ON true ORDER BY 1, 2",
        "SELECT n FROM @T WHERE NOT (k IN (SELECT k FROM @U)) ORDER BY n",
        "SELECT n FROM @T WHERE (k IN (SELECT k FROM @U)) IS NULL ORDER BY n",
        "SELECT n FROM @T WHERE n = 'd' OR k IN (SELECT k FROM @U) ORDER BY n",
        "SELECT n FROM @T WHERE n = 'd' OR k NOT IN (SELECT k FROM @U WHERE k > 1) ORDER BY n",
        "SELECT count(*), sum((SELECT max(w) FROM @U WHERE u.k = t.k)) FROM @T",
        "SELECT n, (SELECT array_to_string(ARRAY(SELECT w::text FROM @U WHERE u.k = t.k ORDER BY w), ', ')) FROM @T ORDER BY n",
        "SELECT n FROM @T WHERE v > (SELECT min(w) FROM @U) AND NOT EXISTS (SELECT * FROM @U WHERE u.k = t.k) ORDER BY n",
        "SELECT n FROM @T WHERE v > (SELECT min(w) FROM @U) AND EXISTS (SELECT * FROM @U WHERE u.k = t.k) \
         AND 8 > (SELECT w FROM @U WHERE u.k = t.k AND u.w > 5) ORDER BY n",
        "SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w < t.v) AND k IN (SELECT k FROM @U) OR n = 'd' ORDER BY n",
        "SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w > t.v) AND k IN (SELECT k FROM @U) AND n <> 'd' ORDER BY n",
    ] {
        let query = query.replace("@U", U).replace("@T", T);
        let (left, right) = (shown(&joined, &query).await, shown(&applied, &query).await);
        assert!(!left.starts_with("0A000") && !left.starts_with("XX000"), "{query}: {left}");
        assert_eq!(left, right, "{query}");
        assert_eq!(shown(&unnested, &query).await, right, "{query}");
    }
}

/// A subquery that only a run for each row can answer does not take the others of its WHERE along, and one that names
/// nothing outside does not either.
#[tokio::test]
async fn each_condition_is_a_join_if_it_can() {
    let context = session(false);
    for (query, applied) in [
        ("SELECT n FROM @T WHERE v > (SELECT min(w) FROM @U) AND NOT EXISTS (SELECT * FROM @U WHERE u.k = t.k)", 0),
        ("SELECT n FROM @T WHERE EXISTS (SELECT * FROM @U WHERE u.k = t.k) AND k IN (SELECT k FROM @U)", 0),
        (
            "SELECT n FROM @T WHERE n > 'a' AND (SELECT w FROM @U WHERE u.k = t.k) > 5 AND NOT EXISTS (SELECT * FROM @U WHERE u.k = t.k)",
            1,
        ),
    ] {
        let query = query.replace("@U", U).replace("@T", T);
        let plan = context.sql(&query).await.and_then(|query| query.into_optimized_plan()).unwrap();
        let plan = plan.display_indent().to_string();
        assert_eq!(plan.matches("Apply").count(), applied, "{query}: {plan}");
    }
}

/// What becomes a join of general form, and the same evaluated row by row; the number is that of the subqueries that
/// stay.
#[tokio::test]
async fn unnested_is_what_row_by_row_gives() {
    let context = session(false);
    let applied = with_joins(&context, Joins::None);
    let unnested = with_joins(&context, Joins::All);
    for (query, left) in [
        ("SELECT n, (SELECT w FROM @U WHERE u.k = t.k AND w > 5) FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT w FROM @U WHERE u.k = t.k) FROM @T ORDER BY n", 0),
        ("SELECT n, CASE WHEN k > 1 THEN (SELECT w FROM @U WHERE u.k = t.k) ELSE 0 END FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT w FROM @U WHERE u.k = t.k ORDER BY w DESC LIMIT 1) FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT w + 1 FROM @U WHERE u.k = t.k ORDER BY u.k, w DESC LIMIT 1) FROM @T ORDER BY n", 0),
        ("SELECT n FROM @T WHERE 7 IN (SELECT w FROM @U WHERE u.k = t.k ORDER BY u.k + w) IS NOT TRUE ORDER BY n", 0),
        ("SELECT n, (SELECT w FROM @U WHERE u.k < t.k ORDER BY w NULLS FIRST OFFSET 1 LIMIT 1) FROM @T ORDER BY n", 0),
        (
            "SELECT n, (SELECT w FROM @U WHERE u.k = t.k UNION SELECT -1 WHERE t.k = 3 LIMIT 1) FROM @T WHERE k > 1 ORDER BY n",
            0,
        ),
        ("SELECT n, (SELECT count(*) FROM @U WHERE u.k < t.k) FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT count(w) + 1 FROM @U WHERE u.k <= t.k AND w IS DISTINCT FROM t.v) FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT sum(w) FROM @U WHERE u.k <= t.k HAVING count(*) > 1) FROM @T ORDER BY n", 0),
        ("SELECT n, (SELECT max(w) FROM @U WHERE u.k = t.k GROUP BY u.k HAVING max(w) > 5) FROM @T ORDER BY n", 0),
        (
            "SELECT n, EXISTS (SELECT 1 FROM @U WHERE u.k = t.k) AS a, NOT EXISTS (SELECT 1 FROM @U WHERE u.k >= t.k LIMIT 1) AS b FROM @T ORDER BY n",
            0,
        ),
        (
            "SELECT n, EXISTS (SELECT max(w) FROM @U WHERE u.k = t.k) AS a, EXISTS (SELECT 1 FROM @U WHERE u.k = t.k LIMIT 0) AS b FROM @T ORDER BY n",
            0,
        ),
        ("SELECT n, EXISTS (SELECT 1 FROM @U WHERE u.k = t.k OFFSET 1) FROM @T ORDER BY n", 0),
        ("SELECT n, k IN (SELECT k FROM @U) FROM @T ORDER BY n", 0),
        (
            "SELECT n, k NOT IN (SELECT k FROM @U) AS a, k NOT IN (SELECT k FROM @U WHERE k IS NOT NULL) AS b, k IN (SELECT k FROM @U WHERE false) AS c FROM @T ORDER BY n",
            0,
        ),
        ("SELECT n, k IN (SELECT u.k FROM @U WHERE w < t.v) FROM @T ORDER BY n", 0),
        (
            "SELECT n, 7 IN (SELECT w FROM @U WHERE u.k = t.k), v NOT IN (SELECT w FROM @U WHERE u.k = t.k) FROM @T ORDER BY n",
            0,
        ),
        ("SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w < t.v) ORDER BY n", 0),
        ("SELECT n FROM @T WHERE (k IN (SELECT k FROM @U)) IS NULL ORDER BY n", 0),
        ("SELECT n FROM @T WHERE n = 'd' OR k NOT IN (SELECT k FROM @U WHERE k > 1) ORDER BY n", 0),
        ("SELECT n FROM @T WHERE 5 < ALL (SELECT w FROM @U WHERE u.k = t.k) ORDER BY n", 0),
        ("SELECT n FROM @T WHERE v > ANY (SELECT w FROM @U WHERE u.k <= t.k) IS NOT FALSE ORDER BY n", 0),
        ("SELECT count(*), sum((SELECT max(w) FROM @U WHERE u.k = t.k)) FROM @T", 0),
        (
            "SELECT (SELECT count(*) FROM @U WHERE u.k < t.k) AS c, count(*) FROM @T GROUP BY (SELECT count(*) FROM @U WHERE u.k < t.k) ORDER BY 1",
            0,
        ),
        ("SELECT n FROM @T ORDER BY (SELECT max(-w) FROM @U WHERE u.k = t.k) NULLS LAST, n", 0),
        (
            "SELECT n, (SELECT sum((SELECT count(*) FROM @U WHERE u.k < o.k AND u.k <= t.k)) FROM (VALUES (2), (5)) AS o(k)) FROM @T ORDER BY n",
            0,
        ),
        ("SELECT n, (SELECT t.n || max(u.w)::text FROM @U WHERE u.k = (SELECT t.k)) FROM @T ORDER BY n", 0),
        (
            "SELECT n FROM @T WHERE EXISTS (SELECT 1 FROM @U WHERE u.k = t.k AND NOT EXISTS (SELECT 1 FROM (VALUES (1, 7), (2, 0)) AS x(k, w) WHERE x.k = t.k AND x.w > u.w)) ORDER BY n",
            0,
        ),
        (
            "SELECT t.n, x.w FROM @T LEFT JOIN LATERAL (SELECT w FROM @U WHERE u.k = t.k ORDER BY w LIMIT 1) x ON x.w > 5 ORDER BY n",
            0,
        ),
        (
            "SELECT t.n, x.w FROM @T, LATERAL (SELECT w FROM @U WHERE u.k <= t.k ORDER BY w DESC NULLS LAST LIMIT 2) x ORDER BY 1, 2",
            0,
        ),
        (
            "SELECT t.n, x.w, x.c FROM @T, LATERAL (SELECT w, count(*) OVER () AS c FROM @U WHERE u.k <= t.k) x ORDER BY 1, 2, 3",
            0,
        ),
        (
            "SELECT t.n, x.a, x.b FROM @T, LATERAL (SELECT u.w AS a, y.k AS b FROM @U LEFT JOIN (VALUES (1), (3)) AS y(k) ON y.k = t.k WHERE u.k = t.k) x ORDER BY 1, 2, 3",
            0,
        ),
        (
            "SELECT t.n, x.a FROM @T LEFT JOIN LATERAL (SELECT DISTINCT u.k + t.k AS a FROM @U WHERE u.k <= t.k UNION ALL SELECT t.v) x ON true ORDER BY 1, 2",
            0,
        ),
        (
            "SELECT t.n, x.w, y.s FROM @T, LATERAL (SELECT w FROM @U WHERE u.k = t.k) x, LATERAL (SELECT sum(x.w + t.k) AS s FROM @U WHERE u.w > x.w) y ORDER BY 1, 2",
            0,
        ),
        (
            "SELECT t.n, u.w FROM @T JOIN @U ON (SELECT max(k) FROM (VALUES (1), (2)) AS m(k) WHERE m.k <= t.k) = u.k ORDER BY 1, 2",
            0,
        ),
        (
            "SELECT t.n, u.w FROM @T LEFT JOIN @U ON u.k = t.k AND (SELECT count(*) FROM (VALUES (5)) AS m(k) WHERE m.k < u.w) > 0 ORDER BY 1, 2",
            0,
        ),
        ("SELECT n, (SELECT count(*) FROM @U WHERE u.k < t.k) FROM @T ORDER BY n LIMIT 2", 0),
        ("SELECT n, (SELECT 10 / (u.k - 1) FROM @U WHERE u.k = t.k AND w <> 5) FROM @T ORDER BY n", 0),
        ("SELECT n, CASE WHEN k <> 1 THEN EXISTS (SELECT 1 FROM @U WHERE u.k = t.k) END FROM @T ORDER BY n", 0),
        // What may fail, where it may not be asked for.
        (
            "SELECT n, CASE WHEN k <> 1 THEN (SELECT 10 / (u.k - 1) FROM @U WHERE u.k = t.k AND w <> 5) END FROM @T ORDER BY n",
            1,
        ),
        ("SELECT n, coalesce(k, (SELECT 10 / (u.k - 1) FROM @U WHERE u.k = t.k AND w <> 5)) FROM @T ORDER BY n", 1),
        // A few rows of a select list, rows that may be others the second time, one to a row.
        ("SELECT n, (SELECT count(*) FROM @U WHERE u.k < t.k) FROM @T LIMIT 10", 1),
        (
            "SELECT n, (SELECT count(*) FROM @U WHERE u.k < t.k) FROM (SELECT * FROM @T ORDER BY n LIMIT 3) AS t ORDER BY n",
            1,
        ),
        ("SELECT count(*) FROM (SELECT (SELECT random() + max(w) FROM @U WHERE u.k < t.k) FROM @T) AS x", 1),
    ] {
        let query = query.replace("@U", U).replace("@T", T);
        let (rows, joins) = (shown(&applied, &query).await, shown(&unnested, &query).await);
        assert!(!rows.starts_with("0A000") && !rows.starts_with("XX000"), "{query}: {rows}");
        if !query.contains("random") {
            assert_eq!(joins, rows, "{query}");
        }
        let plan = unnested.sql(&query).await.and_then(|query| query.into_optimized_plan());
        let plan = plan.unwrap_or_else(|error| panic!("{query}: {error}")).display_indent().to_string();
        assert_eq!(plan.matches("Apply").count(), left, "{query}: {plan}");
    }
}

async fn check(queries: &[&str], expected: Expect) {
    let context = session(false);
    let mut answers = Vec::new();
    for query in queries {
        let whole = query.replace("@U", U).replace("@T", T);
        answers.push(format!("> {query}\n{}", shown(&context, &whole).await));
    }
    expected.assert_eq(&answers.join("\n"));
}

#[tokio::test]
async fn what_is_no_join_runs_for_each_row() {
    check(
        &[
            "SELECT n, (SELECT w FROM @U WHERE u.k = t.k) FROM @T ORDER BY n",
            "SELECT n, (SELECT w FROM @U WHERE u.k = t.k) FROM @T WHERE t.k > 1 ORDER BY n",
            "SELECT n, CASE WHEN k > 1 THEN (SELECT w FROM @U WHERE u.k = t.k) ELSE 0 END FROM @T ORDER BY n",
            "SELECT n, (SELECT w FROM @U WHERE u.k = t.k ORDER BY w DESC LIMIT 1) FROM @T ORDER BY n",
            "SELECT n, (SELECT w FROM @U WHERE u.k = t.k UNION SELECT -1 WHERE t.k = 3 LIMIT 1) FROM @T WHERE k > 1 ORDER BY n",
            "SELECT n, ARRAY(SELECT w FROM @U WHERE u.k = t.k ORDER BY w DESC) FROM @T ORDER BY n",
            "SELECT n, EXISTS (SELECT 1 FROM @U WHERE u.k = t.k), t.k IN (SELECT k FROM @U) FROM @T ORDER BY n",
            "SELECT n FROM @T ORDER BY (SELECT max(-w) FROM @U WHERE u.k = t.k) NULLS LAST, n",
            "SELECT n, (SELECT sum((SELECT count(*) FROM @U WHERE u.k < o.k AND u.k <= t.k)) FROM (VALUES (2), (5)) AS o(k)) FROM @T ORDER BY n",
            "SELECT n, (SELECT t.n || max(u.w)::text FROM @U WHERE u.k = (SELECT t.k)) FROM @T ORDER BY n",
            "SELECT t.n, x.w FROM @T LEFT JOIN LATERAL (SELECT w FROM @U WHERE u.k = t.k ORDER BY w LIMIT 1) x ON x.w > 5 ORDER BY n",
            "SELECT t.n, x.w, y.s FROM @T, LATERAL (SELECT w FROM @U WHERE u.k = t.k LIMIT 2) x, LATERAL (SELECT x.w + t.k AS s) y ORDER BY 1, 2",
            "SELECT t.n, u.w FROM @T JOIN @U ON (SELECT max(k) FROM (VALUES (1), (2)) AS m(k) WHERE m.k <= t.k) = u.k ORDER BY 1, 2",
            "SELECT t.n, u.w FROM @T LEFT JOIN @U ON u.k = t.k AND (SELECT count(*) FROM (VALUES (5)) AS m(k) WHERE m.k < u.w) > 0 ORDER BY 1, 2",
            "SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w < t.v) ORDER BY n",
            "SELECT n FROM @T WHERE (k IN (SELECT k FROM @U)) IS NULL ORDER BY n",
            "SELECT ARRAY(SELECT 1), ARRAY(SELECT 1 WHERE false)",
            "SELECT (SELECT t.nix) FROM @T",
            "SELECT (SELECT w / (u.k - u.k) FROM @U WHERE u.k = t.k AND w = 9), k FROM @T WHERE k = 1",
            "SELECT (SELECT w / (u.k - u.k) FROM @U WHERE u.k = t.k + 3), k FROM @T WHERE k = 1",
        ],
        expect![[r#"
            > SELECT n, (SELECT w FROM @U WHERE u.k = t.k) FROM @T ORDER BY n
            21000 more than one row returned by a subquery used as an expression
            > SELECT n, (SELECT w FROM @U WHERE u.k = t.k) FROM @T WHERE t.k > 1 ORDER BY n
            n:text | w:int4
            b | NULL
            c | NULL
            > SELECT n, CASE WHEN k > 1 THEN (SELECT w FROM @U WHERE u.k = t.k) ELSE 0 END FROM @T ORDER BY n
            n:text | case:int4
            a | 0
            b | NULL
            c | NULL
            d | 0
            > SELECT n, (SELECT w FROM @U WHERE u.k = t.k ORDER BY w DESC LIMIT 1) FROM @T ORDER BY n
            n:text | w:int4
            a | 7
            b | NULL
            c | NULL
            d | NULL
            > SELECT n, (SELECT w FROM @U WHERE u.k = t.k UNION SELECT -1 WHERE t.k = 3 LIMIT 1) FROM @T WHERE k > 1 ORDER BY n
            n:text | w:int4
            b | NULL
            c | -1
            > SELECT n, ARRAY(SELECT w FROM @U WHERE u.k = t.k ORDER BY w DESC) FROM @T ORDER BY n
            n:text | array:_int4
            a | {7,5}
            b | {NULL}
            c | {}
            d | {}
            > SELECT n, EXISTS (SELECT 1 FROM @U WHERE u.k = t.k), t.k IN (SELECT k FROM @U) FROM @T ORDER BY n
            n:text | exists:bool | ?column?:bool
            a | true | true
            b | true | true
            c | false | NULL
            d | false | NULL
            > SELECT n FROM @T ORDER BY (SELECT max(-w) FROM @U WHERE u.k = t.k) NULLS LAST, n
            n:text
            a
            b
            c
            d
            > SELECT n, (SELECT sum((SELECT count(*) FROM @U WHERE u.k < o.k AND u.k <= t.k)) FROM (VALUES (2), (5)) AS o(k)) FROM @T ORDER BY n
            n:text | sum:numeric
            a | 4
            b | 5
            c | 5
            d | 0
            > SELECT n, (SELECT t.n || max(u.w)::text FROM @U WHERE u.k = (SELECT t.k)) FROM @T ORDER BY n
            n:text | ?column?:text
            a | a7
            b | NULL
            c | NULL
            d | NULL
            > SELECT t.n, x.w FROM @T LEFT JOIN LATERAL (SELECT w FROM @U WHERE u.k = t.k ORDER BY w LIMIT 1) x ON x.w > 5 ORDER BY n
            n:text | w:int4
            a | NULL
            b | NULL
            c | NULL
            d | NULL
            > SELECT t.n, x.w, y.s FROM @T, LATERAL (SELECT w FROM @U WHERE u.k = t.k LIMIT 2) x, LATERAL (SELECT x.w + t.k AS s) y ORDER BY 1, 2
            n:text | w:int4 | s:int4
            a | 5 | 6
            a | 7 | 8
            b | NULL | NULL
            > SELECT t.n, u.w FROM @T JOIN @U ON (SELECT max(k) FROM (VALUES (1), (2)) AS m(k) WHERE m.k <= t.k) = u.k ORDER BY 1, 2
            n:text | w:int4
            a | 5
            a | 7
            b | NULL
            c | NULL
            > SELECT t.n, u.w FROM @T LEFT JOIN @U ON u.k = t.k AND (SELECT count(*) FROM (VALUES (5)) AS m(k) WHERE m.k < u.w) > 0 ORDER BY 1, 2
            n:text | w:int4
            a | 7
            b | NULL
            c | NULL
            d | NULL
            > SELECT n FROM @T WHERE k NOT IN (SELECT u.k FROM @U WHERE w < t.v) ORDER BY n
            n:text
            b
            > SELECT n FROM @T WHERE (k IN (SELECT k FROM @U)) IS NULL ORDER BY n
            n:text
            c
            d
            > SELECT ARRAY(SELECT 1), ARRAY(SELECT 1 WHERE false)
            array:_int4 | array:_int4
            {1} | {}
            > SELECT (SELECT t.nix) FROM @T
            42703 column t.nix does not exist
            > SELECT (SELECT w / (u.k - u.k) FROM @U WHERE u.k = t.k AND w = 9), k FROM @T WHERE k = 1
            ?column?:int4 | k:int4
            NULL | 1
            > SELECT (SELECT w / (u.k - u.k) FROM @U WHERE u.k = t.k + 3), k FROM @T WHERE k = 1
            22012 division by zero"#]],
    )
    .await;
}

#[tokio::test]
async fn names_mean_the_nearest_query() {
    check(
        &[
            "SELECT (SELECT (SELECT t.n) FROM (VALUES (9, 'inner')) AS t(k, n)) FROM @T LIMIT 1",
            "SELECT n, (SELECT (SELECT string_agg(x.n, ',') FROM (SELECT t.n) x) FROM (VALUES (1)) AS o(k)) FROM @T ORDER BY n",
            "SELECT n, (SELECT max(q.k) FROM (SELECT t.k FROM @U WHERE u.k = t.k) q) FROM @T ORDER BY n",
        ],
        expect![[r#"
            > SELECT (SELECT (SELECT t.n) FROM (VALUES (9, 'inner')) AS t(k, n)) FROM @T LIMIT 1
            n:text
            inner
            > SELECT n, (SELECT (SELECT string_agg(x.n, ',') FROM (SELECT t.n) x) FROM (VALUES (1)) AS o(k)) FROM @T ORDER BY n
            n:text | string_agg:text
            a | a
            b | b
            c | c
            d | d
            > SELECT n, (SELECT max(q.k) FROM (SELECT t.k FROM @U WHERE u.k = t.k) q) FROM @T ORDER BY n
            n:text | max:int4
            a | 1
            b | 2
            c | NULL
            d | NULL"#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_drawn_is_drawn_for_each_row() {
    const ONES: &str = "(VALUES (1), (1), (1)) AS x(a)";
    let context = session(false);
    for (query, values) in [
        ("SELECT count(DISTINCT v) FROM (SELECT (SELECT random() WHERE x.a = x.a) AS v FROM @ONES) AS y", 3),
        (
            "SELECT count(DISTINCT v) FROM (SELECT (SELECT max(r + x.a) FROM (SELECT random() AS r) z) AS v FROM @ONES) AS y",
            3,
        ),
        ("SELECT count(DISTINCT v) FROM @ONES, LATERAL (SELECT random() + x.a AS v) AS y", 3),
        ("SELECT count(DISTINCT v) FROM @ONES, LATERAL (SELECT max(random() + x.a) AS v) AS y", 3),
        ("SELECT count(DISTINCT v) FROM (SELECT (SELECT random()) AS v FROM @ONES) AS y", 1),
        (
            "SELECT count(*) FROM (SELECT (SELECT random() + a) AS v, (SELECT random() + a) AS w FROM @ONES) AS y WHERE v = w",
            0,
        ),
        ("SELECT count(DISTINCT v) FROM (SELECT (SELECT a + 0.5) AS v FROM @ONES) AS y", 1),
    ] {
        let shown = shown(&context, &query.replace("@ONES", ONES)).await;
        assert_eq!(shown, format!("count:int8\n{values}"), "{query}");
    }
}
