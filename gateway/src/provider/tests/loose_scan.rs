//! Loose scans give what scans of all rows give.

use super::random;
use crate::provider::{
    loose_scan::LooseScans,
    testing::{World, plan, rows, with_loose_scans},
};
use bytes::Bytes;
use expect_test::{Expect, expect};
use keyspan_catalog::{Table, Value};
use keyspan_storage::FamilyName;
use proptest::{prelude::*, sample::Index};
use std::sync::Arc;

/// A table's rows, and how a query asks for groups of them.
#[derive(Debug)]
struct Case {
    table: Arc<Table>,
    rows: Vec<Vec<Value>>,
    /// How many leading parts are compared with values, the row with these values, and how many more parts are grouped
    /// by.
    constants: usize,
    of_row: Index,
    grouped: usize,
    /// Whether the order within a group is key order, or the reverse.
    along: bool,
    operator: bool,
    /// Requests after which a walk from group to group becomes a scan, as of a table on a server.
    requests: u64,
    /// Rows whose keys do not conform: another row's key up to a byte, then other bytes.
    bad: Vec<(Index, Index)>,
}

fn case() -> impl Strategy<Value = Case> {
    let of_table = |table: Arc<Table>| {
        let bad = prop::collection::vec((any::<Index>(), any::<Index>()), 0..4);
        let parts = table.key.parts.len();
        let shape = (0..=parts, any::<Index>(), 0..=parts, any::<bool>(), any::<bool>(), 1..40_u64);
        (random::rows(&table), shape, bad, Just(table))
    };
    random::schema().prop_flat_map(of_table).prop_map(|(rows, shape, bad, table)| {
        let (constants, of_row, grouped, along, operator, requests) = shape;
        let grouped = grouped.min(table.key.parts.len() - constants);
        Case { table, rows, constants, of_row, grouped, along, operator, requests, bad }
    })
}

impl Case {
    /// Queries of the case's groups.
    fn queries(&self) -> Vec<String> {
        let parts = &self.table.key.parts;
        let row = self.of_row.get(&self.rows);
        let conditions = parts[..self.constants].iter().zip(row);
        let conditions: Vec<String> = conditions
            .map(|(part, value)| {
                format!("{} = '{}'::{}", part.name, value.to_text(part.kind).replace('\'', "''"), part.kind)
            })
            .collect();
        let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let first = self.constants + self.grouped;
        let tenant = self.operator.then_some("tenant");
        let groups: Vec<&str> = tenant.into_iter().chain(names[self.constants..first].iter().copied()).collect();
        let from = format!("FROM {}{filter}", self.table.name);
        let listed = groups.join(", ");
        let comma = if groups.is_empty() { "" } else { ", " };
        let by = if groups.is_empty() { String::new() } else { format!(" GROUP BY {listed}") };
        let mut queries = Vec::new();
        if !groups.is_empty() {
            queries.push(format!("SELECT DISTINCT {listed} {from}"));
            queries.push(format!("SELECT count(*) FROM (SELECT DISTINCT {listed} {from}) x"));
        }
        let Some(next) = names.get(first) else { return queries };
        queries.push(format!("SELECT {listed}{comma}min({next}) {from}{by}"));
        queries.push(format!("SELECT {listed}{comma}max({next}) {from}{by}"));
        queries.push(format!("SELECT min({next}) AS a, {listed}{comma}max({next}) AS b {from}{by}"));
        queries.push(format!("SELECT {listed}{comma}max({next}), max(v) {from}{by}"));
        let direction = |descending: bool| if descending == self.along { "" } else { " DESC" };
        let ordered = |part: &keyspan_catalog::KeyPart| format!("{}{}", part.name, direction(!part.descends()));
        let within: Vec<String> = parts[first..].iter().map(ordered).collect();
        let first_of = |column: &str| format!("first_value({column} ORDER BY {})", within.join(", "));
        let last_of = |column: &str| format!("last_value({column} ORDER BY {})", within.join(", "));
        queries.push(format!("SELECT {listed}{comma}{}, {} {from}{by}", first_of("v"), first_of(next)));
        queries.push(format!("SELECT {listed}{comma}{}, {} {from}{by}", first_of("v"), last_of(next)));
        if !groups.is_empty() {
            let order = format!("{listed}, {}", within.join(", "));
            queries.push(format!("SELECT DISTINCT ON ({listed}) * {from} ORDER BY {order}"));
            queries.push(format!("SELECT DISTINCT ON ({listed}) {listed}, {next} {from} ORDER BY {listed}, {next}"));
        }
        queries
    }

    async fn world(&self) -> World {
        let world = World::of(vec![Arc::clone(&self.table)]).await;
        for tenant in ["aa", "aa-2"] {
            for row in &self.rows {
                world.insert("random", tenant, row).await;
            }
            for (of_row, length) in &self.bad {
                let row = of_row.get(&self.rows);
                let mut key = self.table.key.encode(&row[..self.table.key.parts.len()]).unwrap().to_vec();
                key.truncate(length.index(key.len()) + 1);
                key.extend(b"\xffbad");
                let cell = (FamilyName::new("m").unwrap(), Bytes::from_static(b"x"), Bytes::from_static(b"y"));
                world.write("random", &[tenant.as_bytes(), b"#", &key].concat(), vec![cell]).await;
            }
        }
        world
    }
}

/// The lines of an answer in no order, sorted. The last may be empty.
fn sorted(answer: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = answer.split('\n').collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn edges_of_groups_answer_for_them(case in case()) {
        prop_assume!(!case.rows.is_empty());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = case.world().await;
            let tenant = (!case.operator).then_some("aa");
            let (loose, all) = (world.session(tenant, true).await, world.session(tenant, false).await);
            let rule = LooseScans { group_rows_min: 64, requests_max: Some(case.requests) };
            let broken_off = with_loose_scans(world.session(tenant, true).await, rule);
            for sql in case.queries() {
                let left = rows(&broken_off, &sql).await;
                let right = rows(&all, &sql).await;
                prop_assert_eq!(sorted(&left), sorted(&right), "broken off: {}", sql);
                let (left, right) = (rows(&loose, &sql).await, rows(&all, &sql).await);
                prop_assert_eq!(sorted(&left), sorted(&right), "{}\n{}", sql, plan(&loose, &sql, false).await);
            }
            Ok(())
        })?;
    }
}

async fn explained(sql: &str, expected: Expect) {
    let world = World::of(vec![crate::provider::testing::flights()]).await;
    for n in 0..20 {
        let row = [
            Value::Text(["EWR", "JFK"][n % 2].into()),
            Value::Text(["LAX", "SFO"][n / 2 % 2].into()),
            Value::Timestamp(crate::provider::testing::NOW + n as i64),
            Value::Int(n as i64),
            Value::Float(1.0),
            Value::Null,
            Value::Null,
        ];
        world.insert("flights", "aa", &row).await;
    }
    let lines = plan(&world.session(Some("aa"), true).await, sql, true).await;
    let wanted = |line: &&str| line.contains("LooseScan") || line.contains("KeyspanScan") || line.contains("Rows:");
    let lines: Vec<&str> = lines.lines().filter(wanted).map(str::trim).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn explain_prints_what_is_sought() {
    explained(
        "SELECT max(at) FROM flights WHERE origin = 'EWR' AND dest = 'SFO'",
        expect![[r#"
        ->  KeyspanLooseScan: first row  (actual rows=1)
        ->  KeyspanScan: flights
        Rows: seen=1 returned=1"#]],
    )
    .await;
    explained(
        "SELECT DISTINCT ON (origin) * FROM flights ORDER BY origin, dest DESC, at, flight DESC",
        expect![[r#"
        ->  KeyspanLooseScan: last row of each origin  (actual rows=2)
        ->  KeyspanScan: flights
        Rows: seen=16 returned=16"#]],
    )
    .await;
    explained(
        "SELECT origin, min(dest), max(dest) FROM flights GROUP BY origin",
        expect![[r#"
        ->  KeyspanLooseScan: first and last row of each origin  (actual rows=4)
        ->  KeyspanScan: flights
        Rows: seen=18 returned=18"#]],
    )
    .await;
    explained(
        "SELECT count(DISTINCT origin) FROM flights",
        expect![[r#"
        ->  KeyspanLooseScan: first row of each origin  (actual rows=2)
        ->  KeyspanScan: flights
        Rows: seen=16 returned=16"#]],
    )
    .await;
}

#[tokio::test]
async fn queries_that_need_more_are_scanned_whole() {
    for sql in [
        "SELECT max(flight) FROM flights WHERE origin = 'EWR'",
        "SELECT max(at), count(*) FROM flights WHERE origin = 'EWR' AND dest = 'SFO'",
        "SELECT max(at) FILTER (WHERE delay > 1) FROM flights WHERE origin = 'EWR' AND dest = 'SFO'",
        "SELECT max(at) FROM flights WHERE origin = 'EWR' AND dest = 'SFO' AND delay > 1",
        "SELECT dest, max(at) FROM flights GROUP BY dest",
        "SELECT origin, max(dest || 'x') FROM flights GROUP BY origin",
        "SELECT origin, dest, max(at) FROM flights GROUP BY ROLLUP (origin, dest)",
        "SELECT DISTINCT ON (origin) * FROM flights ORDER BY origin, dest, at, flight",
        "SELECT DISTINCT ON (origin) origin, delay FROM flights ORDER BY origin, delay",
    ] {
        let world = World::of(vec![crate::provider::testing::flights()]).await;
        let lines = plan(&world.session(Some("aa"), true).await, sql, false).await;
        assert!(!lines.contains("LooseScan") && lines.contains("KeyspanScan"), "{sql}\n{lines}");
    }
}
