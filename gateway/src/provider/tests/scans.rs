//! Scans over a memory store: answers with and without pushdown, order, limits, existence, policies, `cells`, `raw`,
//! EXPLAIN.

use crate::provider::{
    keys::Keys,
    pushdown::{Pushdown, RANGES_MAX, Shape},
    testing::{NOW, World, batches, flights, names, plan, rows, table, things, with},
};
use bytes::Bytes;
use datafusion::logical_expr::{Expr, col, lit};
use expect_test::{Expect, expect};
use keyspan_catalog::{
    KeyEncoding, KeyPart, PartOrder, SqlType, Value,
    table::{OnBadKey, OnBadValue},
};
use keyspan_storage::FamilyName;

const HOUR: i64 = 3_600_000_000;

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn flight(origin: &str, dest: &str, hour: i64, number: i64, delay: Option<f64>) -> Vec<Value> {
    let tail = if number % 2 == 0 { Value::Null } else { text(&format!("N{number}")) };
    vec![
        text(origin),
        text(dest),
        Value::Timestamp(NOW + hour * HOUR),
        Value::Int(number),
        delay.map_or(Value::Null, Value::Float),
        tail,
        Value::Null,
    ]
}

async fn world() -> World {
    let world = World::of(vec![flights(), things(), names()]).await;
    for (number, (origin, dest)) in
        [("JFK", "LAX"), ("JFK", "SFO"), ("LGA", "LAX"), ("EWR", "New York"), ("JFK", "L"), ("J", "KLAX"), ("JFK", "")]
            .into_iter()
            .enumerate()
    {
        for hour in -2..3 {
            let number = number as i64 * 10 + hour;
            world
                .insert("flights", "aa", &flight(origin, dest, hour, number, (hour > 0).then_some(number as f64)))
                .await;
        }
    }
    world.insert("flights", "ua", &flight("JFK", "LAX", 0, 1, Some(-1.0))).await;
    world.insert("flights", "aa-2", &flight("JFK", "LAX", 0, 2, None)).await;
    for kind in 0..3 {
        for price in [-150, 0, 150, 1_000] {
            for (weight, code) in [(-1.5, "a"), (0.0, ""), (f64::NAN, "\0"), (1e9, "\u{ff}")] {
                let price = Value::Numeric { unscaled: price, scale: 2 };
                let code = Value::Bytes(Bytes::copy_from_slice(code.as_bytes()));
                let row = [
                    Value::Int(kind),
                    Value::Bool(kind % 2 == 0),
                    price,
                    Value::Float(weight),
                    code,
                    Value::Date(15_706 + kind as i32),
                    text("n"),
                ];
                world.insert("things", "aa", &row).await;
            }
        }
    }
    for (n, name) in ["", "a", "ab", "abc", "b", "ba", "ä", "\u{10ffff}"].into_iter().enumerate() {
        world.insert("names", "aa", &[text(name), Value::Int(n as i64)]).await;
    }
    world
}

/// Queries whose answers may come in any order are ordered here.
const QUERIES: &[&str] = &[
    "SELECT * FROM flights ORDER BY 1, 2, 3, 4",
    "SELECT count(*) FROM flights",
    "SELECT count(tail), sum(delay), max(seats) FROM flights",
    "SELECT * FROM flights WHERE origin = 'JFK' AND dest >= 'L' AND dest < 'M' ORDER BY dest, at, flight",
    "SELECT flight FROM flights WHERE origin = 'JFK' AND dest = 'LAX' ORDER BY at DESC",
    "SELECT flight FROM flights WHERE origin = 'JFK' AND dest = 'LAX' ORDER BY at",
    "SELECT flight, at FROM flights ORDER BY origin DESC, dest DESC, at, flight DESC LIMIT 7",
    "SELECT flight, at FROM flights ORDER BY origin, dest, at DESC, flight LIMIT 7",
    "SELECT flight FROM flights WHERE delay > 5 ORDER BY origin, dest, at DESC LIMIT 3",
    "SELECT count(*) FROM flights WHERE origin IN ('JFK', 'LGA') AND dest IN ('LAX', 'SFO')",
    "SELECT count(*) FROM flights WHERE origin NOT IN ('JFK', 'LGA')",
    "SELECT count(*) FROM flights WHERE origin NOT IN ('JFK', NULL)",
    "SELECT count(*) FROM flights WHERE origin = 'JFK' OR flight < 10",
    "SELECT count(*) FROM flights WHERE origin LIKE 'J%' AND dest NOT LIKE 'L%'",
    "SELECT count(*) FROM flights WHERE (origin, dest) > ('JFK', 'L')",
    "SELECT count(*) FROM flights WHERE (origin, dest) <= ('JFK', 'L')",
    "SELECT count(*) FROM flights WHERE (origin, dest, flight) IN (('JFK', 'LAX', 1), ('J', 'KLAX', 50))",
    "SELECT count(*) FROM flights WHERE origin = 'JFK' AND origin = 'LGA'",
    "SELECT count(*) FROM flights WHERE dest = ''",
    "SELECT count(*) FROM flights WHERE origin = 'EWR' AND dest = 'New York'",
    "SELECT count(*) FROM flights WHERE origin = 'EWR' AND dest LIKE 'New %'",
    "SELECT count(*) FROM flights WHERE at >= '2013-01-02 03:00Z' AND origin = 'JFK' AND dest = 'LAX'",
    "SELECT count(*) FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND at::date = '2013-01-02'",
    "SELECT count(*) FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND at > now() - interval '1 hour'",
    "SELECT tail FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-02 03:04:05Z' AND flight = 0",
    "SELECT a.flight, b.flight FROM flights a JOIN flights b ON a.origin = b.dest OR a.dest = b.dest WHERE a.origin = 'LGA' AND b.origin = 'JFK' ORDER BY 1, 2",
    "SELECT a.origin, count(*) FROM flights a JOIN flights b USING (origin, dest) WHERE a.origin > 'J' GROUP BY 1 ORDER BY 1",
    "SELECT DISTINCT origin FROM flights WHERE dest > 'A' ORDER BY 1",
    "SELECT origin, max(at) FROM flights GROUP BY origin ORDER BY origin",
    "SELECT DISTINCT ON (origin) origin, at FROM flights ORDER BY origin, at DESC",
    "SELECT flight FROM flights WHERE origin = (SELECT min(origin) FROM flights) ORDER BY 1",
    "SELECT count(*) FROM flights WHERE EXISTS (SELECT 1 FROM names WHERE name = lower(origin))",
    "SELECT count(*) FROM flights WHERE origin = ANY(ARRAY['JFK', 'EWR'])",
    "SELECT count(*) FROM things WHERE kind > 0 AND on_sale",
    "SELECT count(*) FROM things WHERE kind = 2 AND on_sale AND price BETWEEN -2 AND 1.505",
    "SELECT count(*) FROM things WHERE kind = 2 AND on_sale AND price = 1.5 AND weight > 0",
    "SELECT count(*) FROM things WHERE kind = 2 AND on_sale AND price = 1.5 AND weight = 0",
    "SELECT count(*) FROM things WHERE kind = 2 AND on_sale AND price = 1.5 AND weight <= 0",
    "SELECT count(*) FROM things WHERE kind = 2 AND on_sale AND price = 1.5 AND weight = 'NaN'",
    "SELECT count(*) FROM things WHERE kind < 40000 AND day > '2013-01-01'",
    "SELECT kind, price, weight FROM things ORDER BY kind DESC, on_sale, price, weight DESC, code, day",
    "SELECT kind, price, weight FROM things ORDER BY kind, on_sale DESC, price DESC, weight, code DESC, day DESC LIMIT 9",
    "SELECT name FROM names ORDER BY name",
    "SELECT name FROM names ORDER BY name DESC LIMIT 3",
    "SELECT name FROM names WHERE name LIKE 'a%' ORDER BY name",
    "SELECT name FROM names WHERE name > 'a' AND name <= 'b' ORDER BY name",
    "SELECT name FROM names WHERE name <> 'a' ORDER BY name LIMIT 2 OFFSET 1",
    "SELECT count(*) FROM cells('flights') WHERE origin = 'JFK' AND family = 'delays'",
    "SELECT count(*) FROM cells('flights') WHERE qualifier IN ('delay', 'tail') AND family > 'e'",
    "SELECT count(*) FROM cells('flights') WHERE family = 'delays' OR qualifier = 'tail'",
    "SELECT count(*) FROM cells('flights') WHERE timestamp > '2013-01-01 00:00Z' AND timestamp < '2013-01-02 03:04:05.00001Z'",
    "SELECT count(*) FROM cells('flights') WHERE family = 'none' AND family = 'delays'",
    "SELECT count(*) FROM raw('flights') WHERE origin = 'JFK' AND dest < 'M'",
    "SELECT count(*) FROM raw('flights') WHERE _key >= '\\x4a464b' AND _key < '\\x4a464c'",
];

#[tokio::test]
async fn pushdown_never_changes_an_answer() {
    let world = world().await;
    for tenant in [Some("aa"), Some("ua"), None] {
        let (with, without) = (world.session(tenant, true).await, world.session(tenant, false).await);
        for sql in QUERIES {
            let (a, b) = (rows(&with, sql).await, rows(&without, sql).await);
            assert_eq!(a, b, "{tenant:?}: {sql}");
            let failed =
                a.len() > 6 && a.as_bytes()[5] == b' ' && a.bytes().take(5).all(|byte| byte.is_ascii_alphanumeric());
            assert!(!failed, "{sql}: {a}");
        }
    }
}

async fn check(sql: &str, expected: Expect) {
    let session = world().await.session(Some("aa"), true).await;
    expected.assert_eq(&rows(&session, sql).await);
}

#[tokio::test]
async fn answers() {
    check("SELECT count(*) FROM flights", expect!["35"]).await;
    check(
        "SELECT flight FROM flights WHERE origin = 'JFK' AND dest = 'LAX' ORDER BY at LIMIT 3",
        expect![[r#"
        -2
        -1
        0"#]],
    )
    .await;
    check(
        "SELECT name FROM names WHERE name LIKE 'a%' ORDER BY name DESC",
        expect![[r#"
        abc
        ab
        a"#]],
    )
    .await;
    check("SELECT m['note']['bytes'] FROM raw('things') LIMIT 1", expect![[r#"\x6e"#]]).await;
    check("SELECT count(*) FROM cells('flights')", expect!["28"]).await;
    check(
        "SELECT * FROM cells('names') WHERE name = 'ab'",
        expect![[r#"ab | \x9e9dfffe | m | n | 2013-01-02 03:04:05.00009+00 | 2 | \x0000000000000002"#]],
    )
    .await;
    check("SELECT * FROM raw('names') WHERE name = 'ab'", expect![[r#"22P02 casting from Map("entries": non-null Struct("key": non-null Utf8, "value": Struct("value": Utf8, "bytes": Binary, "timestamp": Timestamp(µs, "+00:00"))), unsorted) to Utf8View not supported"#]]).await;
    check("SELECT * FROM raw('nothing')", expect![[r#"42P01 relation "nothing" does not exist"#]]).await;
    check("SELECT * FROM raw(1)", expect!["42883 the function takes one argument: the name of a table, as text"]).await;
}

#[tokio::test]
async fn semantics_1_a_row_of_nulls_exists() {
    let world = World::of(vec![flights()]).await;
    world.insert("flights", "aa", &flight("JFK", "LAX", 0, 2, None)).await;
    let session = world.session(Some("aa"), true).await;
    expect!["JFK | NULL | NULL | NULL"]
        .assert_eq(&rows(&session, "SELECT origin, delay, tail, seats FROM flights").await);
    expect!["1"].assert_eq(&rows(&session, "SELECT count(*) FROM flights WHERE delay IS NULL").await);
}

#[tokio::test]
async fn semantics_1_a_row_of_undeclared_cells_exists() {
    let world = World::of(vec![names()]).await;
    let cell = (FamilyName::new("m").unwrap(), Bytes::from_static(b"fan\xff"), Bytes::from_static(b"9"));
    let key = world.table("names").key.encode(&[text("x")]).unwrap();
    world.write("names", &[b"aa#", &key[..]].concat(), vec![cell]).await;
    let session = world.session(Some("aa"), true).await;
    expect!["x | NULL"].assert_eq(&rows(&session, "SELECT * FROM names").await);
    expect![[r#"x | m | \x66616eff | 9 | \x39"#]]
        .assert_eq(&rows(&session, "SELECT name, family, qualifier, value, bytes FROM cells('names')").await);
}

#[tokio::test]
async fn a_tenant_sees_its_span_alone() {
    let world = world().await;
    for (tenant, count) in [("aa", "35"), ("ua", "1"), ("aa-2", "1"), ("zz", "0")] {
        for pushdown in [true, false] {
            let session = world.session(Some(tenant), pushdown).await;
            for relation in ["flights", "raw('flights')"] {
                let counted = rows(&session, &format!("SELECT count(*) FROM {relation}")).await;
                assert_eq!(counted, count, "{tenant} {relation}");
            }
        }
    }
    let operator = world.session(None, true).await;
    let sql = "SELECT tenant, count(*) FROM flights GROUP BY tenant ORDER BY tenant";
    expect![[r"
        aa | 35
        aa-2 | 1
        ua | 1"]]
    .assert_eq(&rows(&operator, sql).await);
}

#[tokio::test]
async fn keys_that_do_not_conform_follow_the_policy() {
    for (policy, expected) in [
        (
            OnBadKey::Skip,
            expect![[r#"
            JFK | N1
            1
            0
            N1
            3
            2
            \x4a464b"#]],
        ),
        (
            OnBadKey::Null,
            expect![[r#"
            JFK | N1, NULL | bad, NULL | bad2
            1
            2
            N1
            3
            2
            \x4a464b"#]],
        ),
        (
            OnBadKey::Error,
            expect![[r#"
            22P02 a row key does not conform to the table's key
            22P02 a row key does not conform to the table's key
            0
            N1
            3
            2
            \x4a464b"#]],
        ),
    ] {
        let world = World::of(vec![with(&flights(), |table| table.on_bad_key = policy)]).await;
        world.insert("flights", "aa", &flight("JFK", "LAX", 0, 1, None)).await;
        let cell = |value| (FamilyName::new("plane").unwrap(), Bytes::from_static(b"tail"), Bytes::from_static(value));
        world.write("flights", b"aa#JFK", vec![cell(b"bad")]).await;
        world.write("flights", b"aa#JFK#LAX#yesterday#1", vec![cell(b"bad2")]).await;
        let mut lines = Vec::new();
        for pushdown in [true, false] {
            let session = world.session(Some("aa"), pushdown).await;
            for sql in [
                "SELECT origin, tail FROM flights ORDER BY origin, tail",
                "SELECT count(*) FROM flights WHERE origin = 'JFK'",
                "SELECT count(*) FROM flights WHERE origin IS NULL",
                "SELECT tail FROM flights WHERE origin = 'JFK' LIMIT 1",
                "SELECT count(*) FROM raw('flights')",
                "SELECT count(*) FROM raw('flights') WHERE origin IS NULL",
                "SELECT _key FROM cells('flights') WHERE bytes = 'bad'",
            ] {
                lines.push(rows(&session, sql).await.replace('\n', ", "));
            }
        }
        if policy == OnBadKey::Error {
            // With a range fewer rows are read, and so fewer bad ones.
            lines[10] = lines[3].clone();
        }
        assert_eq!(lines[..7], lines[7..], "{policy:?}");
        expected.assert_eq(&lines[..7].join("\n"));
    }
}

#[tokio::test]
async fn values_that_do_not_decode_follow_the_policy() {
    for (policy, expected) in [
        (OnBadValue::Error, expect![[r#"22P02 invalid stored value in column "n""#]]),
        (
            OnBadValue::Null,
            expect![[r#"
        a | 1
        b | NULL"#]],
        ),
    ] {
        let world = World::of(vec![with(&names(), |table| table.on_bad_value = policy)]).await;
        world.insert("names", "aa", &[text("a"), Value::Int(1)]).await;
        let key = world.table("names").key.encode(&[text("b")]).unwrap();
        let cell = (FamilyName::new("m").unwrap(), Bytes::from_static(b"n"), Bytes::from_static(b"12"));
        world.write("names", &[b"aa#", &key[..]].concat(), vec![cell]).await;
        let session = world.session(Some("aa"), true).await;
        expected.assert_eq(&rows(&session, "SELECT * FROM names ORDER BY name").await);
    }
}

#[tokio::test]
async fn batches_are_bounded() {
    let key = vec![KeyPart { name: "id".into(), kind: SqlType::Int4, order: PartOrder::Ascending }];
    let world = World::of(vec![table("many", KeyEncoding::Delimited, key, &[("v", SqlType::Int4, "m")])]).await;
    for id in 0..9_000 {
        world.insert("many", "aa", &[Value::Int(id), Value::Int(id)]).await;
    }
    let session = world.session(Some("aa"), true).await;
    let (count, largest) = batches(&session, "SELECT * FROM many").await;
    assert!(count >= 2 && largest <= crate::provider::batches::BATCH_ROWS_MAX, "{count} batches, {largest} rows");
    assert_eq!(rows(&session, "SELECT count(*), sum(v) FROM many").await, "9000 | 40495500");
    // More ranges than the bound: coalesced, and still right.
    let list = |step: usize| (0..40_000).step_by(step).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    let sql = format!("SELECT count(*) FROM many WHERE id IN ({})", list(3));
    assert_eq!(rows(&session, &sql).await, "3000");
    let told = plan(&session, &sql, false).await;
    assert!(told.contains("coalesced") && !told.contains("Residual: none"), "{told}");
}

/// The plan of a filter over salted keys of two numbers, or one.
fn pushdown_of(salt: u16, parts: usize, filter: Expr) -> Pushdown {
    let part = |name: &&str| KeyPart { name: (*name).into(), kind: SqlType::Int4, order: PartOrder::Ascending };
    let key = ["a", "b"][..parts].iter().map(part).collect();
    let table = with(&table("many", KeyEncoding::Delimited, key, &[]), |table| table.key.salt = salt);
    Pushdown::plan(&[filter], &Keys::of_table(&table, false))
}

#[test]
fn ranges_of_buckets_are_bounded() {
    let list = |count: i32| col("a").in_list((0..count).map(lit).collect(), false);
    // A value for every part names its bucket.
    let plan = pushdown_of(16, 1, list(9_000));
    assert_eq!((plan.shape, plan.coalesced), (Shape::PointLookup(9_000), false));
    let plan = pushdown_of(16, 2, list(600));
    assert_eq!((plan.shape, plan.coalesced), (Shape::SkipScan(9_600), false));
    let plan = pushdown_of(16, 2, list(700));
    assert!(plan.coalesced && (5_000..=RANGES_MAX).contains(&plan.rows.ranges().len()), "{}", plan.shape);
    // Many boxes leave no room for a range in each bucket.
    let one = |at: i32| col("a").eq(lit(at)).and(col("b").lt(lit(at)));
    let any = |count: i32| (1..count).map(one).fold(one(0), Expr::or);
    let plan = pushdown_of(256, 2, any(39));
    assert_eq!((plan.shape, plan.coalesced), (Shape::SkipScan(39 * 256), false));
    let plan = pushdown_of(256, 2, any(40));
    assert_eq!((plan.shape, plan.coalesced), (Shape::FullScan, true));
}

async fn check_plan(tenant: Option<&str>, sql: &str, analyze: bool, expected: Expect) {
    let session = world().await.session(tenant, true).await;
    expected.assert_eq(&plan(&session, sql, analyze).await);
}

#[tokio::test]
async fn explain_tells_what_is_read() {
    check_plan(
        Some("aa"),
        "SELECT * FROM flights",
        false,
        expect![[r#"
        KeyspanScan: flights
            Access: full scan
            Ranges: tenant span
            Families: delays(delay), plane(seats, tail)
            Columns: origin, dest, at, flight, delay, tail, seats
            Pushed: none
            Residual: none
            Versions: 1
            Order: key"#]],
    )
    .await;
    check_plan(
        Some("aa"),
        "SELECT tail FROM flights WHERE origin = 'JFK' AND dest = 'LAX' AND delay > 3 ORDER BY at DESC",
        false,
        expect![[r#"
            ProjectionExec: expr=[tail@0 as tail]
              ->  SortPreservingMergeExec: [at@1 DESC]
                    ->  FilterExec: delay@1 > 3, projection=[tail@2, at@0]
                          ->  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1, maintains_sort_order=true
                                ->  KeyspanScan: flights
                                        Access: range scan
                                        Ranges: [JFK#LAX#, JFK#LAX$)
                                        Families: delays(delay), plane(tail)
                                        Columns: at, delay, tail
                                        Pushed: origin = JFK AND dest = LAX
                                        Residual: delay > 3
                                        Versions: 1
                                        Order: key"#]],
    )
    .await;
    check_plan(
        Some("aa"),
        "SELECT flight FROM flights ORDER BY origin DESC, dest DESC, at LIMIT 2",
        true,
        expect![[r#"
        ProjectionExec: expr=[flight@3 as flight]  (actual rows=2)
          ->  KeyspanScan: flights  (actual rows=2)
                  Access: full scan
                  Ranges: tenant span
                  Families: none (existence only)
                  Columns: origin, dest, at, flight
                  Pushed: none
                  Residual: none
                  Versions: 1
                  Limit: 2
                  Order: key descending
                  Rows: seen=2 returned=2
                  Cells: seen=3 returned=0
                  Bytes: seen=136"#]],
    )
    .await;
    check_plan(
        Some("aa"),
        "SELECT count(*) FROM flights WHERE origin = 'JFK'",
        true,
        expect![[r#"
        ProjectionExec: expr=[count(Int64(1))@0 as count]  (actual rows=1)
          ->  AggregateExec: mode=Final, gby=[], aggr=[count(Int64(1))]  (actual rows=1)
                ->  CoalescePartitionsExec  (actual rows=2)
                      ->  AggregateExec: mode=Partial, gby=[], aggr=[count(Int64(1))]  (actual rows=2)
                            ->  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1  (actual rows=20)
                                  ->  KeyspanScan: flights  (actual rows=20)
                                          Access: range scan
                                          Ranges: [JFK#, JFK$)
                                          Families: none (existence only)
                                          Columns: none
                                          Pushed: origin = JFK
                                          Residual: none
                                          Versions: 1
                                          Order: key
                                          Rows: seen=20 returned=20
                                          Cells: seen=36 returned=0
                                          Bytes: seen=1511"#]],
    )
    .await;
    check_plan(
        None,
        "SELECT count(*) FROM flights",
        false,
        expect![[r#"
        ProjectionExec: expr=[count(Int64(1))@0 as count]
          ->  AggregateExec: mode=Final, gby=[], aggr=[count(Int64(1))]
                ->  CoalescePartitionsExec
                      ->  AggregateExec: mode=Partial, gby=[], aggr=[count(Int64(1))]
                            ->  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
                                  ->  KeyspanScan: flights
                                          Access: full scan
                                          Ranges: whole table
                                          Families: none (existence only)
                                          Columns: none
                                          Pushed: none
                                          Residual: none
                                          Versions: 1
                                          Order: key"#]],
    )
    .await;
    check_plan(
        Some("aa"),
        "SELECT value FROM cells('flights') WHERE family = 'plane' AND timestamp >= '2013-01-01 00:00Z'",
        false,
        expect![[r#"
            FilterExec: family@0 = plane AND timestamp@1 >= 1356998400000000, projection=[value@2]
              ->  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
                    ->  KeyspanScan: cells('flights')
                            Access: full scan
                            Ranges: tenant span
                            Whole span: no condition became a range of origin, the first part of the key
                            Families: plane(*)
                            Columns: family, timestamp, value
                            Pushed: family = plane AND timestamp >= 1356998400000000
                            Residual: family = plane AND timestamp >= 1356998400000000
                            Versions: all
                            Timestamps: [1356998400000000, ∞)
                            Order: key"#]],
    )
    .await;
    check_plan(
        Some("aa"),
        "SELECT plane FROM raw('flights') WHERE dest = 'LAX'",
        false,
        expect![[r#"
            FilterExec: dest@0 = LAX, projection=[plane@1]
              ->  RepartitionExec: partitioning=RoundRobinBatch(2), input_partitions=1
                    ->  KeyspanScan: raw('flights')
                            Access: full scan
                            Ranges: tenant span
                            Whole span: no condition became a range of origin, the first part of the key
                            Families: plane(*)
                            Columns: dest, plane
                            Pushed: none
                            Residual: dest = LAX
                            Versions: 1
                            Order: key"#]],
    )
    .await;
}
