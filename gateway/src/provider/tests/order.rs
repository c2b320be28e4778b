//! Rows come in key order, in both directions, whether a scan is one stream or a merge of the buckets of salted keys.

use super::random;
use crate::{
    provider::testing::{NOW, World, flights, part, plan, rows, table, with},
    query,
};
use arrow::util::pretty::pretty_format_batches;
use bytes::Bytes;
use datafusion::physical_plan::{collect, displayable};
use expect_test::{Expect, expect};
use keyspan_catalog::{KeyEncoding, KeyPart, SqlType, Table, Value, table::OnBadKey};
use keyspan_storage::FamilyName;
use proptest::{prelude::*, sample::Index};
use std::sync::Arc;

/// A table's rows, and how a query asks for them in order.
#[derive(Debug)]
struct Case {
    table: Arc<Table>,
    rows: Vec<Vec<Value>>,
    /// How many leading parts are compared with values, and the row with these values.
    constants: usize,
    of_row: Index,
    /// Whether the order is key order, or the reverse.
    along: bool,
    limit: usize,
    /// `None` for a tenant's own session, else whether the operator names the tenant.
    operator: Option<bool>,
}

fn case() -> impl Strategy<Value = Case> {
    let of_table = |table: Arc<Table>| {
        let parts = table.key.parts.len();
        let shape = (0..parts, any::<Index>(), any::<bool>(), 1..12_usize, prop::option::of(any::<bool>()));
        (random::rows(&table), shape, Just(table))
    };
    random::schema().prop_flat_map(of_table).prop_map(|(rows, shape, table)| {
        let (constants, of_row, along, limit, operator) = shape;
        Case { table, rows, constants, of_row, along, limit, operator }
    })
}

impl Case {
    fn queries(&self) -> Vec<String> {
        let parts = &self.table.key.parts;
        let row = self.of_row.get(&self.rows);
        let tenant = (self.operator == Some(true)).then(|| "tenant = 'aa'".to_owned());
        let given = parts[..self.constants].iter().zip(row).map(|(part, value)| {
            format!("{} = '{}'::{}", part.name, value.to_text(part.kind).replace('\'', "''"), part.kind)
        });
        let given: Vec<String> = tenant.into_iter().chain(given).collect();
        let filter = if given.is_empty() { String::new() } else { format!(" WHERE {}", given.join(" AND ")) };
        let direction = |descending: bool| if descending == self.along { " DESC" } else { "" };
        let tenant = (self.operator == Some(false)).then(|| format!("tenant{}", direction(false)));
        // Parts that are compared with values may be in ORDER BY, or not.
        let from = if self.limit.is_multiple_of(2) { self.constants } else { 0 };
        let behind = parts[from..].iter().map(|part| format!("{}{}", part.name, direction(part.descends())));
        let order = tenant.into_iter().chain(behind).collect::<Vec<_>>().join(", ");
        let (table, limit) = (&self.table.name, self.limit);
        let first = &parts[self.constants].name;
        vec![
            format!("SELECT * FROM {table}{filter} ORDER BY {order}"),
            format!("SELECT v FROM {table}{filter} ORDER BY {order} LIMIT {limit}"),
            format!("SELECT v, {first} FROM {table}{filter} ORDER BY {order} LIMIT {limit} OFFSET 2"),
            format!("SELECT {first} FROM {table}{filter} ORDER BY {order}"),
            format!(
                "SELECT * FROM {table}{filter}{} v <> 2 ORDER BY {order} LIMIT {limit}",
                if filter.is_empty() { " WHERE" } else { " AND" }
            ),
            format!("SELECT v, row_number() OVER (ORDER BY {order}) AS r FROM {table}{filter} ORDER BY {order}"),
        ]
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn rows_come_in_the_order_that_is_asked_for(case in case()) {
        prop_assume!(!case.rows.is_empty());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::of(vec![Arc::clone(&case.table)]).await;
            for tenant in ["aa", "aa-2"] {
                world.insert_all("random", tenant, case.rows.iter().cloned()).await;
            }
            let tenant = case.operator.is_none().then_some("aa");
            let (ordered, sorted) = (world.session(tenant, true).await, world.session(tenant, false).await);
            for sql in case.queries() {
                let explained = plan(&ordered, &sql, false).await;
                prop_assert_eq!(rows(&ordered, &sql).await, rows(&sorted, &sql).await, "{}\n{}", sql, explained);
                // Of salted keys several tenants have no order together, reversed parts have none of their values, and
                // DataFusion tells no scan below a filter what is sorted above it.
                let reversed = case.table.key.parts[case.constants..].iter().any(KeyPart::is_reversed);
                if !reversed && !explained.contains("FilterExec") {
                    let sorts = case.table.key.salt > 0 && case.operator == Some(false);
                    prop_assert_eq!(explained.contains("SortExec"), sorts, "{}\n{}", sql, explained);
                }
            }
            Ok(())
        })?;
    }
}

async fn salted(salt: u16) -> World {
    let world = World::of(vec![with(&flights(), |table| table.key.salt = salt)]).await;
    for n in 0..40 {
        let row = [
            Value::Text(["EWR", "JFK"][n % 2].into()),
            Value::Text(["LAX", "SFO"][n / 2 % 2].into()),
            Value::Timestamp(NOW + n as i64),
            Value::Int(n as i64),
            Value::Float(1.0),
            Value::Null,
            Value::Null,
        ];
        world.insert("flights", "aa", &row).await;
    }
    world
}

/// The lines of EXPLAIN about buckets.
async fn explained(tenant: Option<&str>, sql: &str, expected: Expect) {
    let lines = plan(&salted(4).await.session(tenant, true).await, sql, true).await;
    let wanted = ["Sort", "LooseScan", "Access", "Ranges", "Order", "Rows:"];
    let lines: Vec<&str> =
        lines.lines().map(str::trim).filter(|line| wanted.iter().any(|word| line.contains(word))).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn explain_tells_what_becomes_of_buckets() {
    explained(
        Some("aa"),
        "SELECT * FROM flights",
        expect![[r#"
        Access: full scan
        Ranges: tenant span
        Order: none (salted keys, read bucket after bucket)
        Rows: seen=40 returned=40"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT * FROM flights WHERE origin = 'JFK'",
        expect![[r#"
        Access: skip scan on 4 ranges
        Ranges: [00#JFK#, 00#JFK$), [01#JFK#, 01#JFK$), [02#JFK#, 02#JFK$), [03#JFK#, 03#JFK$)
        Order: none (salted keys, read bucket after bucket)
        Rows: seen=20 returned=20"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT * FROM flights WHERE origin = 'JFK' ORDER BY dest, at DESC LIMIT 3",
        expect![[r#"
        Access: skip scan on 4 ranges
        Ranges: [00#JFK#, 00#JFK$), [01#JFK#, 01#JFK$), [02#JFK#, 02#JFK$), [03#JFK#, 03#JFK$)
        Order: key, of 4 buckets that are merged
        Rows: seen=12 returned=12"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT * FROM flights ORDER BY origin DESC, dest DESC, at LIMIT 3",
        expect![[r#"
        Access: full scan
        Ranges: tenant span
        Order: key descending, of 4 buckets that are merged
        Rows: seen=12 returned=12"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT * FROM flights WHERE origin = 'JFK' AND dest = 'SFO' AND flight = 3 AND at = '2013-01-02 03:04:05.000003+00' ORDER BY flight",
        expect![[r#"
            Access: point lookup on 1 key
            Ranges: [01#JFK#SFO#7986-98-97T96:95:94.999996Z#0000000003]
            Order: none (salted keys, read bucket after bucket)
            Rows: seen=1 returned=1"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT origin, max(dest) FROM flights GROUP BY origin",
        expect![[r#"
        ->  KeyspanLooseScan: last row of each origin  (actual rows=8)
        Access: full scan
        Ranges: tenant span
        Order: none (salted keys, read bucket after bucket)
        Rows: seen=32 returned=32"#]],
    )
    .await;
    explained(
        Some("aa"),
        "SELECT max(origin) FROM flights",
        expect![[r#"
        Access: full scan
        Ranges: tenant span
        Order: none (salted keys, read bucket after bucket)
        Rows: seen=40 returned=40"#]],
    )
    .await;
    explained(None, "SELECT * FROM flights ORDER BY tenant, origin, dest, at DESC, flight", expect![[r#"
        SortExec: expr=[tenant@0 ASC NULLS LAST, origin@1 ASC NULLS LAST, dest@2 ASC NULLS LAST, at@3 DESC, flight@4 ASC NULLS LAST], preserve_partitioning=[false]  (actual rows=40)
        Access: full scan
        Ranges: whole table
        Order: none (salted keys, read bucket after bucket)
        Rows: seen=40 returned=40"#]]).await;
    explained(
        None,
        "SELECT * FROM flights WHERE tenant = 'aa' ORDER BY origin, dest, at DESC, flight",
        expect![[r#"
        Access: range scan
        Ranges: [aa#, aa$)
        Order: key, of 4 buckets that are merged
        Rows: seen=40 returned=40"#]],
    )
    .await;
}

#[tokio::test]
async fn a_key_part_that_is_nan_is_constant() {
    let key = vec![part("weight", SqlType::Float8, false), part("at", SqlType::Timestamptz(None), true)];
    let salted = table("weights", KeyEncoding::Ordered, key, &[("v", SqlType::Int8, "m")]);
    let world = World::of(vec![with(&salted, |table| table.key.salt = 16)]).await;
    for (n, weight) in [f64::NAN, f64::NEG_INFINITY, f64::NAN].into_iter().enumerate() {
        let row = [Value::Float(weight), Value::Timestamp(NOW + n as i64), Value::Int(n as i64)];
        world.insert("weights", "aa", &row).await;
    }
    let session = world.session(Some("aa"), true).await;
    let sql = "SELECT v FROM weights WHERE weight = 'NaN' ORDER BY at DESC";
    let explained = plan(&session, sql, false).await;
    assert!(!explained.contains("SortExec"), "{explained}");
    assert_eq!(rows(&session, sql).await, "2\n0");
}

#[tokio::test]
async fn merge_joins_of_keys_sort_nothing() {
    let world = World::with_files(vec![flights()]).await;
    let row = |n: i64| {
        let (origin, dest) = (Value::Text(format!("o{}", n % 50)), Value::Text(format!("d{}", n % 7)));
        let at = Value::Timestamp(NOW + n);
        vec![origin, dest, at, Value::Int(n), Value::Float(n as f64), Value::Null, Value::Null]
    };
    world.insert_all("flights", "aa", (0..6_000).map(row)).await;
    let context = world.session(Some("aa"), true).await;
    for (on, sorts) in [
        ("a.origin = b.origin AND a.dest = b.dest", false),
        // Merge joins ascend, and this part of the key does not.
        ("a.origin = b.origin AND a.dest = b.dest AND a.at = b.at", true),
        ("a.dest = b.dest AND a.flight = b.flight", true),
    ] {
        let sql =
            format!("SELECT count(*), sum(a.delay) FROM flights a JOIN flights b ON {on} AND a.flight < b.flight + 1");
        let plan = query::plan(&context, query::testing::parse(&sql)).await.unwrap();
        let merged = query::joins::sorted(&context, &plan).await.unwrap();
        let lines = displayable(merged.as_ref()).indent(false).to_string();
        assert!(lines.contains("SortMergeJoinExec"), "{lines}");
        assert_eq!(lines.contains("SortExec"), sorts, "{lines}");
        // If a sort is needed anyway, row groups are faster.
        assert_eq!(lines.contains("KeyspanColumnarScan"), sorts, "{lines}");
        let hashed = context.state().create_physical_plan(&plan).await.unwrap();
        assert!(!displayable(hashed.as_ref()).indent(false).to_string().contains("SortMergeJoinExec"));
        let answer = async |plan| {
            let batches = collect(plan, context.task_ctx()).await.unwrap();
            pretty_format_batches(&batches).unwrap().to_string()
        };
        let found = answer(merged).await;
        assert!(!found.contains(" 0 "), "{found}");
        assert_eq!(found, answer(hashed).await, "{sql}");
    }
}

#[tokio::test]
async fn a_row_in_no_bucket_follows_the_policy_whatever_the_order() {
    let fails = "22P02 a row key does not conform to the table's key";
    let policies = [
        (OnBadKey::Skip, ["EWR, JFK", "EWR, JFK", "1"]),
        (OnBadKey::Null, ["EWR, JFK, NULL", "EWR, JFK", "1"]),
        (OnBadKey::Error, [fails, fails, "1"]),
    ];
    for (policy, expected) in policies {
        for bad in [&b"aa#JFK"[..], b"aa#99#JFK#LAX", b"aa#00#JFK", b"aa##", b"aa#~"] {
            let world = World::of(vec![with(&flights(), |table| {
                table.key.salt = 4;
                table.on_bad_key = policy;
            })])
            .await;
            for origin in ["JFK", "EWR"] {
                let key = [Value::Text(origin.into()), Value::Text("LAX".into()), Value::Timestamp(NOW), Value::Int(1)];
                let row = [&key[..], &[Value::Float(1.0), Value::Null, Value::Null]].concat();
                world.insert("flights", "aa", &row).await;
            }
            let cell = (FamilyName::new("plane").unwrap(), Bytes::from_static(b"tail"), Bytes::from_static(b"bad"));
            world.write("flights", bad, vec![cell]).await;
            for pushdown in [true, false] {
                let session = world.session(Some("aa"), pushdown).await;
                let by_key = "ORDER BY origin, dest, at DESC, flight";
                let queries = [
                    format!("SELECT origin FROM flights {by_key}"),
                    format!("SELECT origin FROM flights {by_key} LIMIT 2"),
                    format!("SELECT count(*) FROM raw('flights') WHERE _key = '\\x{}'", hex(&bad[3..])),
                ];
                for (sql, expected) in queries.iter().zip(expected) {
                    let found = rows(&session, sql).await.replace('\n', ", ");
                    assert_eq!(found, expected, "{sql}, {policy:?}, {bad:?}, {pushdown}");
                }
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
