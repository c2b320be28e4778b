//! Scans by row groups give what scans by rows give, over a store whose files are as adverse as they may be.

mod dirty;
mod filters;
mod first_rows;
mod key_lookup;
mod metadata_aggregates;
mod neighbours;
mod written_before;

use crate::{
    provider::testing::{NOW, World, plan, rows, table},
    query,
    shares::Shares,
    view::{View, budget::ScanBudget},
};
use bytes::Bytes;
use datafusion::prelude::SessionContext;
use expect_test::{Expect, expect};
use keyspan_catalog::{
    Encoding, KeyEncoding, KeyPart, PartOrder, SqlType, Table, Value, mapping,
    table::{OnBadKey, OnBadValue},
};
use keyspan_storage::{
    FamilyName, RowKey, RowMutation, Store, TableName,
    clock::ManualClock,
    engine::{Engine, EngineOptions},
};
use std::{collections::BTreeMap, sync::Arc};

/// Rows of each tenant.
const ROWS: i64 = 6_000;
const MINUTE: i64 = 60_000_000;

fn metrics(change: impl FnOnce(&mut Table)) -> Arc<Table> {
    let part = |name: &str, kind, descending: bool| KeyPart { name: name.into(), kind, order: descending.into() };
    let key = vec![
        part("host", SqlType::Text, false),
        part("at", SqlType::Timestamptz(None), true),
        part("n", SqlType::Int4, false),
    ];
    let cells = [
        ("cpu", SqlType::Float8, "m"),
        ("load", SqlType::Float4, "m"),
        ("mem", SqlType::Int8, "m"),
        ("procs", SqlType::Int4, "m"),
        ("small", SqlType::Int2, "m"),
        ("ok", SqlType::Bool, "m"),
        ("note", SqlType::Text, "logs"),
        ("tag", SqlType::Varchar(Some(8)), "logs"),
        ("raw", SqlType::Bytea, "logs"),
        ("day", SqlType::Date, "m"),
        ("seen", SqlType::Timestamp(None), "m"),
        ("id", SqlType::Uuid, "m"),
        ("doc", SqlType::Jsonb, "logs"),
        ("price", SqlType::Numeric { precision: 9, scale: 2 }, "m"),
    ];
    let mut made = Table::clone(&table("metrics", KeyEncoding::Delimited, key, &cells));
    change(&mut made);
    Arc::new(made)
}

fn text(text: String) -> Value {
    Value::Text(text)
}

/// A row: one value in three is NULL, and `small` is NULL in all rows of most files.
fn row(n: i64) -> Vec<Value> {
    let of = |every: i64, value: Value| if (n + every) % 3 == 0 { Value::Null } else { value };
    vec![
        text(format!("host {}", n % 40)),
        Value::Timestamp(NOW + n * MINUTE),
        Value::Int(n),
        of(0, Value::Float((n % 100) as f64 / 4.0)),
        of(1, Value::Float(f64::from(n as f32 / 8.0))),
        of(2, Value::Int(n * 1_000_000_007)),
        of(3, Value::Int(n % 17 - 8)),
        if n % 40 == 9 { Value::Int(n % 5) } else { Value::Null },
        of(4, Value::Bool(n % 2 == 0)),
        of(5, text(format!("note {}", n % 1_000))),
        of(6, text(format!("t{}", n % 7))),
        of(7, Value::Bytes(Bytes::from(vec![0, n as u8]))),
        of(8, Value::Date((n % 500) as i32)),
        of(9, Value::Timestamp(if n % 50 == 0 { i64::MAX } else { n * MINUTE })),
        of(10, Value::Uuid([n as u8; 16])),
        of(11, text(format!("{{\"n\": {n}}}"))),
        of(12, Value::Numeric { unscaled: i128::from(n), scale: 2 }),
    ]
}

async fn world(change: impl FnOnce(&mut Table)) -> World {
    let world = World::with_files(vec![metrics(change)]).await;
    for tenant in ["aa", "aa-2"] {
        world.insert_all("metrics", tenant, (0..ROWS).map(row)).await;
    }
    world.insert_all("metrics", "few", (0..50).map(row)).await;
    world
}

async fn sessions(world: &World, tenant: Option<&str>) -> [SessionContext; 2] {
    let view = world.view(tenant, true).await;
    let by_rows = View { columnar: false, ..view.clone() };
    [world.session_of(view), world.session_of(by_rows)]
}

/// Queries whose scans go by row groups.
const BY_ROW_GROUPS: &[&str] = &[
    "SELECT count(*) FROM metrics",
    "SELECT count(*), count(cpu), count(small), count(note), sum(mem), max(seen), min(day) FROM metrics",
    "SELECT host, count(*), sum(procs), max(at) FROM metrics GROUP BY host ORDER BY host",
    "SELECT ok, count(*), max(small) FROM metrics GROUP BY ok ORDER BY ok",
    "SELECT n, cpu, load, mem, procs, small, ok FROM metrics WHERE cpu > 23 ORDER BY n, host",
    "SELECT n, note, tag, raw, day, seen, id, doc FROM metrics WHERE n % 97 = 5 ORDER BY n",
    "SELECT count(*) FROM metrics WHERE small IS NULL",
    "SELECT count(*), sum(small) FROM metrics WHERE small >= 3",
    "SELECT n FROM metrics WHERE note = 'note 77' ORDER BY n",
    "SELECT n FROM metrics WHERE note LIKE '%77' AND ok ORDER BY n",
    "SELECT n, tag FROM metrics WHERE tag IN ('t1', 't6') AND n < 100 ORDER BY n",
    "SELECT count(*) FROM metrics WHERE id = '07070707-0707-0707-0707-070707070707'",
    "SELECT count(*) FROM metrics WHERE raw = '\\x0007' OR doc = '{\"n\": 42}'",
    "SELECT count(*) FROM metrics WHERE seen = 'infinity'",
    "SELECT count(*) FROM metrics WHERE day BETWEEN '1970-02-01' AND '1970-03-01' AND mem IS NOT NULL",
    "SELECT count(*), min(n) FROM metrics WHERE host >= 'host 1' AND at > '2013-01-04'",
    "SELECT count(*), min(n) FROM metrics WHERE host > 'host 1' AND n > 5000",
    "SELECT n, cpu FROM metrics ORDER BY cpu DESC NULLS LAST, n LIMIT 5",
    "SELECT n, note FROM metrics WHERE small IS NOT NULL ORDER BY note, n LIMIT 5",
    "SELECT count(*) FROM (SELECT n FROM metrics LIMIT 5000) x",
    "SELECT count(*) FROM (SELECT n FROM metrics WHERE mem > 0 LIMIT 5000) x",
    "SELECT a.n, b.n FROM metrics a JOIN metrics b ON a.n = b.n + 1 AND a.host > b.host WHERE a.mem > b.mem ORDER BY 1, 2 LIMIT 20",
    "SELECT count(*) FROM metrics a WHERE EXISTS (SELECT 1 FROM metrics b WHERE b.n = a.n + 4990)",
    "SELECT n, row_number() OVER (PARTITION BY host ORDER BY n) r FROM metrics WHERE cpu = 1.25 ORDER BY 2, 1",
    "SELECT 10 / (n + 1) q, count(*) FROM metrics WHERE n > 100 GROUP BY 1 ORDER BY 1",
    "SELECT n, cpu FROM metrics WHERE cpu > 20 ORDER BY host DESC, at, n DESC LIMIT 5",
    "SELECT count(*) FROM metrics WHERE small <> 0 AND 12 / small > 3",
    "SELECT host, min(at), max(at) FROM metrics GROUP BY host ORDER BY host",
    "SELECT DISTINCT ON (host) host, at, n, cpu, note, small FROM metrics ORDER BY host DESC, at, n DESC",
    "SELECT host, at, max(n) FROM metrics GROUP BY host, at ORDER BY host, at",
    "SELECT min(host), max(host) FROM metrics",
    "SELECT sum(price), count(price), min(price), max(price) FROM metrics",
    "SELECT n, price, cpu, doc FROM metrics WHERE price > 55.5 AND cpu > 23 ORDER BY n, host",
    "SELECT host, n, price FROM metrics WHERE price IS NULL AND n % 50 = 7 ORDER BY host, n",
];

/// Queries whose scans go by rows, or both ways.
const BY_ROWS: &[&str] = &[
    "SELECT n FROM metrics WHERE host = 'host 3' ORDER BY at LIMIT 5",
    "SELECT n FROM metrics ORDER BY host, at DESC, n LIMIT 5",
    "SELECT host, n FROM metrics ORDER BY host, at DESC",
    "SELECT n, cpu FROM metrics ORDER BY host DESC, at, n DESC LIMIT 5",
    "SELECT count(*) FROM (SELECT n FROM metrics LIMIT 100) x",
    "SELECT cpu FROM metrics WHERE host = 'host 3' AND at = '2013-01-02 03:07:05Z' AND n = 3",
    "SELECT count(*) FROM metrics WHERE host = 'host 3'",
];

/// Whether the answer is a SQLSTATE and a message.
fn is_error(answer: &str) -> bool {
    let bytes = answer.as_bytes();
    let state = bytes.iter().take(5).all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    state && bytes.get(5) == Some(&b' ') && bytes.get(6).is_some_and(u8::is_ascii_alphabetic)
}

#[tokio::test]
async fn row_groups_never_change_an_answer() {
    let world = world(|_| {}).await;
    let mut wrong: Vec<String> = Vec::new();
    for tenant in [Some("aa-2"), None] {
        let [fast, by_rows] = sessions(&world, tenant).await;
        // The operator's scans are twice as long: one query in three is enough.
        let every = if tenant.is_none() { 3 } else { 1 };
        for (sql, goes) in
            BY_ROW_GROUPS.iter().map(|sql| (sql, true)).chain(BY_ROWS.iter().map(|sql| (sql, false))).step_by(every)
        {
            let (a, b) = (rows(&fast, sql).await, rows(&by_rows, sql).await);
            let failed = is_error(&a);
            if a != b || failed {
                wrong.push(format!("{tenant:?}: {sql}\n{a}\nby rows\n{b}"));
            }
            // The operator's scans of one host span all tenants.
            if tenant.is_some() {
                let explained = plan(&fast, sql, false).await;
                if explained.contains("Row groups:") != goes {
                    wrong.push(format!("{sql}\n{explained}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let [operator, _] = sessions(&world, None).await;
    expect![[r#"
        aa | host 0 | host 9
        aa-2 | host 0 | host 9
        few | host 0 | host 9"#]]
    .assert_eq(
        &rows(&operator, "SELECT tenant, min(host), max(host) FROM metrics GROUP BY tenant ORDER BY tenant").await,
    );
    expect![[r#"
        aa | 6000
        aa-2 | 6000
        few | 50"#]]
    .assert_eq(&rows(&operator, "SELECT tenant, count(*) FROM metrics GROUP BY tenant ORDER BY tenant").await);
}

#[tokio::test]
async fn salted_keys_never_change_an_answer() {
    let (plain, salted) = (world(|_| {}).await, world(|table| table.key.salt = 5).await);
    let [_, by_rows] = sessions(&plain, Some("aa-2")).await;
    let mut wrong: Vec<String> = Vec::new();
    for salted in sessions(&salted, Some("aa-2")).await {
        for sql in BY_ROW_GROUPS.iter().chain(BY_ROWS) {
            let (a, b) = (rows(&salted, sql).await, rows(&by_rows, sql).await);
            if a != b || is_error(&a) {
                wrong.push(format!("{sql}\n{a}\nwithout salt\n{b}\n{}", plan(&salted, sql, false).await));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test]
async fn small_scans_and_those_that_are_told_to_go_by_rows() {
    let world = world(|_| {}).await;
    let [few, _] = sessions(&world, Some("few")).await;
    let sql = "SELECT host, sum(mem) FROM metrics GROUP BY host";
    let [fast, by_rows] = sessions(&world, Some("aa")).await;
    assert!(plan(&fast, sql, false).await.contains("Row groups:"));
    assert!(!plan(&by_rows, sql, false).await.contains("Row groups:"));
    assert!(!plan(&few, sql, false).await.contains("Row groups:"));
    let without = world.session(Some("aa"), false).await;
    assert!(!plan(&without, sql, false).await.contains("Row groups:"));
}

#[tokio::test]
async fn fewer_rows_go_by_row_groups_where_their_values_are_many() {
    let world = world(|_| {}).await;
    let [fast, by_rows] = sessions(&world, Some("aa")).await;
    for (columns, values, goes) in
        [("max(cpu)", 1, false), ("max(cpu), max(load), max(mem), max(procs), max(note)", 5, true)]
    {
        let sql = format!("SELECT {columns} FROM metrics WHERE host >= 'host 3' AND host < 'host 9'");
        let explained = plan(&fast, &sql, false).await;
        assert_eq!(explained.contains("Row groups:"), goes, "{values} columns\n{explained}");
        assert_eq!(rows(&fast, &sql).await, rows(&by_rows, &sql).await);
    }
}

#[tokio::test]
async fn own_writes_go_by_rows() {
    let world = world(|_| {}).await;
    let mut view = world.view(Some("aa"), true).await;
    let table = world.table("metrics");
    let key = RowKey::new(table.key.encode(&row(5)[..3]).unwrap().to_vec()).unwrap();
    let delete = RowMutation { key: key.clone(), mutations: vec![keyspan_storage::Mutation::DeleteFromRow] };
    view.buffered = Arc::new(BTreeMap::from([(table.id, imbl::OrdMap::unit(key, delete))]));
    let session = world.session_of(view);
    expect!["5999"].assert_eq(&rows(&session, "SELECT count(*) FROM metrics").await);
}

#[tokio::test]
async fn keys_that_do_not_conform_follow_the_policy() {
    for (policy, expected) in [
        (OnBadKey::Skip, expect!["6000, 4000, 150"]),
        (OnBadKey::Null, expect!["6001, 4001, 150"]),
        (
            OnBadKey::Error,
            expect![[
                r#"22P02 a row key does not conform to the table's key, 22P02 a row key does not conform to the table's key, 150"#
            ]],
        ),
    ] {
        let world = world(|table| table.on_bad_key = policy).await;
        let note = (FamilyName::new("logs").unwrap(), Bytes::from_static(b"note"), Bytes::from_static(b"bad"));
        world.write("metrics", b"aa#host 3", vec![note]).await;
        let [fast, by_rows] = sessions(&world, Some("aa")).await;
        let mut lines = [Vec::new(), Vec::new()];
        for sql in [
            "SELECT count(*) FROM metrics",
            "SELECT count(note) FROM metrics",
            "SELECT count(*) FROM metrics WHERE host = 'host 3'",
        ] {
            lines[0].push(rows(&fast, sql).await);
            lines[1].push(rows(&by_rows, sql).await);
        }
        assert_eq!(lines[0], lines[1], "{policy:?}");
        expected.assert_eq(&lines[0].join(", "));
    }
}

#[tokio::test]
async fn values_that_do_not_decode_follow_the_policy() {
    for (policy, expected) in [
        (
            OnBadValue::Error,
            expect![[
                r#"22P02 invalid stored value in column "cpu", 22P02 invalid stored value in column "seen", 22P02 invalid stored value in column "price", 6001"#
            ]],
        ),
        (OnBadValue::Null, expect!["4000, 4000, 4000, 6001"]),
    ] {
        let world = world(|table| table.on_bad_value = policy).await;
        let cpu = (FamilyName::new("m").unwrap(), Bytes::from_static(b"cpu"), Bytes::from_static(b"bad"));
        let key = world.table("metrics").key.encode(&row(ROWS)[..3]).unwrap();
        // As many bytes as a time has, but before the calendar.
        let seen = (FamilyName::new("m").unwrap(), "seen".into(), Bytes::from_static(b"\x80\0\0\0\0\0\0\x01"));
        let price = (FamilyName::new("m").unwrap(), "price".into(), Bytes::from_static(b"bad"));
        world.write("metrics", &[b"aa#", &key[..]].concat(), vec![cpu, seen, price]).await;
        let [fast, by_rows] = sessions(&world, Some("aa")).await;
        let mut lines = [Vec::new(), Vec::new()];
        for sql in [
            "SELECT count(cpu) FROM metrics",
            "SELECT count(seen) FROM metrics",
            "SELECT count(price) FROM metrics",
            "SELECT count(*) FROM metrics",
        ] {
            lines[0].push(rows(&fast, sql).await);
            lines[1].push(rows(&by_rows, sql).await);
        }
        assert_eq!(lines[0], lines[1], "{policy:?}");
        expected.assert_eq(&lines[0].join(", "));
    }
}

#[tokio::test]
async fn budgets_count_row_groups_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        EngineOptions { clock: Box::new(ManualClock::new(NOW)), compacts: false, ..EngineOptions::new(folder.path()) };
    let engine = Engine::open(options).await.unwrap();
    let world = World::in_engine(engine.clone(), vec![metrics(|_| {})]).await;
    let answer = async |sql: &str, bytes_max| {
        let view = world.view(Some("aa"), true).await;
        let budget = Some(Arc::new(ScanBudget::new(Some(bytes_max), Shares::default().of(Some(1)))));
        let context = world.session_of(View { budget, ..view });
        let plan = plan(&context, sql, false).await;
        assert!(plan.contains("Row groups:"), "{plan}");
        rows(&context, sql).await
    };
    world.insert_all("metrics", "aa", (0..ROWS).map(row)).await;
    for place in ["in memory", "in row groups"] {
        let sql = "SELECT count(DISTINCT note) FROM metrics";
        let (mut least, mut most) = (0, 1 << 30);
        while most - least > 1 {
            let middle = least + (most - least) / 2;
            let found = answer(sql, middle).await;
            let enough = found == "1000";
            assert!(enough || found.starts_with("53400"), "{place}: {found}");
            if enough { most = middle } else { least = middle }
        }
        // Texts of 8 bytes, two of three rows: more than half of that, as they are in memory; a tenth, compressed.
        assert!((ROWS as u64..20 * ROWS as u64).contains(&most), "{place}: {most}");
        // A statement that may end early is not checked against the bytes of all rows.
        let first = answer("SELECT count(*) FROM (SELECT cpu, note, doc FROM metrics LIMIT 5000) x", most).await;
        assert!(first == "5000" || first.starts_with("53400"), "{place}: {first}");
        engine.flush().await.unwrap();
    }
    // Row groups that statistics exclude are not read.
    let narrow = "SELECT n FROM metrics WHERE mem > 9000000000000";
    assert_eq!(answer(narrow, 1_000).await, "");
    engine.close().await.unwrap();
}

async fn explained(sql: &str, analyze: bool, expected: Expect) {
    let world = world(|_| {}).await;
    let [fast, _] = sessions(&world, Some("aa")).await;
    expected.assert_eq(&plan(&fast, sql, analyze).await);
}

#[tokio::test]
async fn explain_tells_row_groups() {
    explained(
        "SELECT host, sum(mem) FROM metrics WHERE cpu > 20 GROUP BY host",
        false,
        expect![[r#"
            ProjectionExec: expr=[host@0 as host, sum(metrics.mem)@1 as sum]
              ->  AggregateExec: mode=FinalPartitioned, gby=[host@0 as host], aggr=[sum(metrics.mem)]
                    ->  RepartitionExec: partitioning=Hash([host@0], 2), input_partitions=8
                          ->  AdjacentAggregateExec: mode=Partial, gby=[host@0 as host], aggr=[sum(metrics.mem)]
                                ->  KeyspanScan: metrics
                                        Access: full scan
                                        Ranges: tenant span
                                        Whole span: no condition became a range of host, the first part of the key
                                        Families: m(cpu, mem)
                                        Columns: host, cpu, mem
                                        Pushed: none
                                        Residual: cpu > 20
                                        Versions: 1
                                        Order: none
                                        Row groups: clean=6 files=2 rows=4,800, memory=about 600 rows, rest=about 600 rows"#]],
    )
    .await;
    let sql = "SELECT cpu FROM metrics WHERE note = 'note 7' AND host > 'host 1' AND day > '1970-01-01'";
    explained(
        sql,
        true,
        expect![[r#"
            KeyspanScan: metrics  (actual rows=4)
                Access: range scan
                Ranges: [host$`1$, end of tenant span)
                Families: logs(note), m(cpu, day)
                Columns: cpu, note, day
                Pushed: host > host 1
                Residual: note = note 7 AND day > 1970-01-01
                Versions: 1
                Order: none
                Row groups: clean=6 files=2 rows=4,560, memory=about 570 rows, rest=about 570 rows
                Files: row groups skipped=0 rows=4870 bytes=53378, memory rows=570
                Rows: seen=570 returned=570
                Cells: seen=5525 returned=1140
                Bytes: seen=130523"#]],
    )
    .await;
    let sql = "SELECT n FROM metrics WHERE cpu > 20 ORDER BY host, at DESC LIMIT 5";
    explained(
        sql,
        false,
        expect![[r#"
            ProjectionExec: expr=[n@0 as n]
              ->  FirstRowsExec: fetch=5, looked for in key order first
                    ->  SortPreservingMergeExec: [host@1 ASC NULLS LAST, at@2 DESC], fetch=5
                          ->  SortExec: TopK(fetch=5), expr=[host@1 ASC NULLS LAST, at@2 DESC], preserve_partitioning=[true]
                                ->  KeyspanScan: metrics
                                        Access: full scan
                                        Ranges: tenant span
                                        Whole span: no condition became a range of host, the first part of the key
                                        Families: m(cpu)
                                        Columns: host, at, n, cpu
                                        Pushed: none
                                        Residual: cpu > 20
                                        Versions: 1
                                        Order: none
                                        Row groups: clean=6 files=2 rows=4,800, memory=about 600 rows, rest=about 600 rows"#]],
    )
    .await;
}

/// The tables of a world: a shared one, or a private one beside another whose columns have the same names and other
/// types.
fn tables(private: bool) -> Vec<Arc<Table>> {
    if !private {
        return vec![metrics(|_| {})];
    }
    let key = vec![KeyPart { name: "n".into(), kind: SqlType::Int4, order: PartOrder::Ascending }];
    let cells = [("cpu", SqlType::Text, "m"), ("note", SqlType::Int8, "logs"), ("price", SqlType::Bool, "m")];
    let mut other = Table::clone(&table("other", KeyEncoding::Ordered, key, &cells));
    let of_space = |space, table: &mut Table| {
        (table.space, table.physical) = (Some(space), TableName::new("private").unwrap());
    };
    of_space(16_391, &mut other);
    vec![metrics(|table| of_space(16_390, table)), Arc::new(other)]
}

/// Rows of the other table.
async fn insert_others(world: &World) {
    for tenant in ["aa", "aa-2"] {
        let row =
            |n: i64| vec![Value::Int(n), text(format!("{n} is no number")), Value::Int(n), Value::Bool(n % 2 == 0)];
        world.insert_all("other", tenant, (0..ROWS).map(row)).await;
    }
}

/// Loads an engine's table and changes it, so that rows are in files, in memory, and dead in files.
async fn states(private: bool, check: impl AsyncFn(&str, &World)) {
    states_of(tables(private), check).await;
}

/// [`states`] with these tables.
async fn states_of(tables: Vec<Arc<Table>>, check: impl AsyncFn(&str, &World)) {
    let private = tables.len() > 1;
    let folder = tempfile::tempdir().unwrap();
    let options =
        EngineOptions { clock: Box::new(ManualClock::new(NOW)), compacts: false, ..EngineOptions::new(folder.path()) };
    let engine = Engine::open(options).await.unwrap();
    let world = World::in_engine(engine.clone(), tables).await;
    for tenant in ["aa", "aa-2"] {
        world.insert_all("metrics", tenant, (0..ROWS).map(row)).await;
    }
    if private {
        insert_others(&world).await;
    }
    check("loaded into memory", &world).await;
    engine.flush().await.unwrap();
    check("flushed", &world).await;
    // Every seventh row gets the values of another.
    let changed = (0..ROWS).step_by(7).map(|n| [&row(n)[..3], &row(n + 1)[3..]].concat());
    world.insert_all("metrics", "aa-2", changed).await;
    check("updated in memory", &world).await;
    engine.flush().await.unwrap();
    check("updated in deltas", &world).await;
    let key = |n| world.key("metrics", "aa-2", &row(n));
    let (logs, m) = (FamilyName::new("logs").unwrap(), FamilyName::new("m").unwrap());
    let bad = (m, Bytes::from_static(b"extra"), Bytes::from_static(b"undeclared"));
    world
        .write("metrics", &key(3), vec![bad, (logs, Bytes::from_static(b"note"), Bytes::from_static(b"\xc3\xa9"))])
        .await;
    world.delete("metrics", (0..ROWS).step_by(11).map(key)).await;
    engine.flush().await.unwrap();
    check("deleted", &world).await;
    engine.compact(None).await.unwrap();
    check("compacted", &world).await;
    engine.close().await.unwrap();
}

async fn never_changes_an_answer(private: bool) {
    states(private, async |state, world| {
        let [fast, by_rows] = sessions(world, Some("aa-2")).await;
        for sql in BY_ROW_GROUPS.iter().step_by(2).chain(BY_ROWS.iter().step_by(3)) {
            let (a, b) = (rows(&fast, sql).await, rows(&by_rows, sql).await);
            assert!(a == b && !is_error(&a), "{state}: {sql}\n{a}\nby rows\n{b}");
        }
        let explained = plan(&fast, "SELECT sum(cpu) FROM metrics", false).await;
        assert!(explained.contains("Row groups:"), "{state}\n{explained}");
        let in_memory = !explained.contains("memory=none");
        assert_eq!(in_memory, state.contains("memory"), "{state}\n{explained}");
        assert!(explained.contains("rest=none"), "{state}\n{explained}");
    })
    .await;
}

#[tokio::test]
async fn row_groups_of_the_engine_never_change_an_answer() {
    never_changes_an_answer(false).await;
}

#[tokio::test]
async fn row_groups_of_private_tables_never_change_an_answer() {
    never_changes_an_answer(true).await;
}

#[tokio::test]
async fn what_does_not_decode_is_told_with_its_row() {
    let world = world(|_| {}).await;
    let price = (FamilyName::new("m").unwrap(), "price".into(), Bytes::from_static(b"bad"));
    world.write("metrics", &world.key("metrics", "aa", &row(77)), vec![price]).await;
    let [fast, _] = sessions(&world, Some("aa")).await;
    let sql = "SELECT count(price) FROM metrics";
    assert!(plan(&fast, sql, false).await.contains("Row groups:"));
    let error = query::testing::answer(&fast, sql).await.unwrap_err();
    expect![[r#"Row "host$`37#7986-98-97T95:78:94.999999Z#0000000077", cell m:price: stored value is not of type numeric(9,2)."#]].assert_eq(&error.detail.unwrap());
}

#[tokio::test]
async fn a_numeric_that_was_stored_with_another_scale_is_fitted() {
    let world = world(|_| {}).await;
    let stored = |unscaled, scale| {
        let kind = SqlType::Numeric { precision: 12, scale };
        mapping::encode(&Value::Numeric { unscaled, scale }, kind, Encoding::Binary).unwrap()
    };
    for (n, bytes) in [(0, stored(55, 1)), (1, stored(-12_345, 3)), (2, stored(7, 0))] {
        let price = (FamilyName::new("m").unwrap(), "price".into(), bytes);
        world.write("metrics", &world.key("metrics", "aa", &row(n)), vec![price]).await;
    }
    let [fast, by_rows] = sessions(&world, Some("aa")).await;
    let expected = expect![[r#"
        0 | 5.50
        1 | -12.35
        2 | 7.00"#]];
    let sql = "SELECT n, price FROM metrics WHERE n < 3 ORDER BY n";
    expected.assert_eq(&rows(&by_rows, sql).await);
    expected.assert_eq(&rows(&fast, sql).await);
}
