//! Columns of private tables are typed in segments, numerics too, and so are the parts of their keys: no answer depends
//! on it, whatever is written, deleted and altered, and wherever the rows lie.

use super::harness::{Harness, rows};
use anyhow::Result;
use std::ops::Range;
use tokio_postgres::Client;

const SEEDS: Range<u64> = 0..2;
/// Rows of a table at first: enough to be scanned by row groups.
const ROWS: i64 = 7_000;

/// Numbers that follow from a seed (Knuth's MMIX generator).
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % end
    }
}

/// The second has columns of the same names and other types, in the same segments.
const TABLES: &str = "
    CREATE TABLE big (region text, at timestamptz, n int, q int, price numeric(12,2), wide numeric(38,4), free numeric,
                      name varchar(40), code char(4), day date, ok bool, f double precision, u uuid, j jsonb,
                      PRIMARY KEY (region, at, n));
    CREATE TABLE beside (n numeric(8,1) PRIMARY KEY, price text, q numeric(6,1), name int, day timestamp);
    CREATE TABLE small (n int PRIMARY KEY, price numeric(12,2), q int, at timestamptz)";

/// Changes of definitions, in this order, between the others.
const ALTERED: [&str; 10] = [
    "ALTER TABLE big ADD COLUMN extra numeric(9,3) DEFAULT 1.5",
    "ALTER TABLE big ALTER COLUMN price TYPE numeric(15,2)",
    "ALTER TABLE beside DROP COLUMN name; ALTER TABLE beside ADD COLUMN name text",
    "ALTER TABLE big ALTER COLUMN price TYPE numeric(16,3)",
    "ALTER TABLE big ALTER COLUMN name TYPE text",
    "ALTER TABLE big DROP COLUMN extra; ALTER TABLE big ADD COLUMN extra int",
    "ALTER TABLE small DROP COLUMN price; ALTER TABLE small ADD COLUMN price numeric(20,1)",
    "ALTER TABLE big ALTER COLUMN price TYPE numeric",
    "ALTER TABLE big ALTER COLUMN region TYPE varchar; ALTER TABLE big ALTER COLUMN code TYPE text",
    "ALTER TABLE big DROP COLUMN price; ALTER TABLE big ADD COLUMN price numeric(14,2)",
];

const QUERIES: [&str; 19] = [
    "SELECT count(*) FROM big",
    "SELECT count(*), count(q), min(q), max(q), sum(q) FROM big",
    "SELECT count(price), min(price), max(price), sum(price) FROM big",
    "SELECT min(wide), max(wide), sum(wide), count(free), max(free), min(free) FROM big",
    "SELECT min(region), max(region), min(at), max(at), min(n), max(n) FROM big",
    "SELECT count(*), sum(price) FROM big WHERE price > 500.5 AND q < 900",
    "SELECT count(*), min(n) FROM big WHERE wide >= 12345678901234567890123456789012.5",
    "SELECT count(*) FROM big WHERE price IS NULL",
    "SELECT region, count(*), sum(price), avg(q)::numeric(12,3), max(name) FROM big GROUP BY region ORDER BY region",
    "SELECT n, price, wide, free, name, code, day, ok, f, u, j FROM big WHERE n % 997 = 5 ORDER BY n, region",
    "SELECT count(*) FROM big WHERE name = 'name 7' OR code = 'c3'",
    "SELECT count(*), count(DISTINCT day) FROM big WHERE day BETWEEN '2020-02-01' AND '2020-03-01' AND ok",
    "SELECT region, at, n FROM big WHERE region > 'r3' AND n > 6000 ORDER BY price NULLS LAST, n, region LIMIT 20",
    "SELECT count(*), sum(f) FROM big WHERE at >= '2026-01-02' AND at < '2026-01-03'",
    "SELECT j->>'n', price FROM big WHERE j->>'n' LIKE '66%' ORDER BY n, region",
    "SELECT count(*), min(n), max(n), sum(n), min(q), max(q) FROM beside",
    "SELECT n, price, q, name, day FROM beside WHERE q > 90 AND n < 4000 ORDER BY n",
    "SELECT count(*), max(price), count(name), max(day) FROM beside WHERE n BETWEEN 100.5 AND 6000",
    "SELECT a.n, a.price, b.price, s.price FROM big a JOIN beside b ON a.n = b.n LEFT JOIN small s ON s.n = a.q \
     WHERE a.price > 990 ORDER BY 1, 2, 3, 4 LIMIT 40",
];

/// Rows `from` to `to` of both tables. `seed` varies the values.
fn upserts(seed: i64, from: i64, to: i64, step: i64) -> [String; 3] {
    let mixed = format!("((i * 7919 + {seed} * 104729) % 1000)");
    let of = |every: i64, value: &str| format!("CASE WHEN (i + {seed}) % {every} = 0 THEN NULL ELSE {value} END");
    let series = format!("generate_series({from}::bigint, {to}::bigint, {step}::bigint) AS i");
    let big = [
        format!(
            "'r' || (i % 9), '2026-01-01'::timestamptz + (i / 100) * interval '1 minute' * 37, i::int, {}",
            of(5, &mixed)
        ),
        of(
            7,
            &format!(
                "(CASE {mixed} WHEN 3 THEN 9999999999 WHEN 4 THEN -9999999999 ELSE {mixed} END)::numeric(12,2) + 0.25"
            ),
        ),
        of(
            6,
            &format!(
                "CASE WHEN {mixed} % 10 = 1 THEN 9999999999999999999999999999999999.5 WHEN {mixed} % 10 = 2 \
             THEN -9999999999999999999999999999999999.25 ELSE {mixed} * 1234567.125 END"
            ),
        ),
        of(3, &format!("CASE WHEN {mixed} = 9 THEN 'NaN'::numeric ELSE {mixed}::numeric / 3 END")),
        of(4, &format!("'name ' || ({mixed} % 50)")),
        format!("'c' || (i % 11), {}", of(8, &format!("'2020-01-01'::date + ({mixed} % 400)::int"))),
        format!("i % 2 = 0, CASE WHEN {mixed} = 5 THEN 'NaN' ELSE {mixed}::double precision / 8 END"),
        format!("{}, jsonb_build_object('n', i)", of(9, "lpad(i::text, 32, '0')::uuid")),
    ];
    let columns = "region, at, n, q, price, wide, free, name, code, day, ok, f, u, j";
    let set = ["q", "price", "wide", "free", "name", "code", "day", "ok", "f", "u", "j"];
    let set = set.map(|column| format!("{column} = excluded.{column}")).join(", ");
    [
        format!(
            "INSERT INTO big ({columns}) SELECT {} FROM {series} ON CONFLICT (region, at, n) DO UPDATE SET {set}",
            big.join(", ")
        ),
        format!(
            "INSERT INTO beside (n, price, q, day) SELECT i, 'price ' || {mixed}, {}, '2026-01-01'::timestamp + i * interval '1 s' \
             FROM {series} ON CONFLICT (n) DO UPDATE SET price = excluded.price, q = excluded.q",
            of(4, &format!("{mixed}::numeric / 10"))
        ),
        format!(
            "INSERT INTO small (n, price, q, at) SELECT i, {mixed}, {mixed}, '2026-01-01' FROM {series} WHERE i < 300 \
             ON CONFLICT (n) DO UPDATE SET q = excluded.q"
        ),
    ]
}

/// A change of some rows.
fn change(random: &mut Random) -> Vec<String> {
    let (from, step) = (random.below(ROWS), [1, 1, 7, 50][random.below(4) as usize]);
    let to = (from + step * (1 + random.below(400))).min(ROWS + 200);
    let rows = format!("n BETWEEN {from} AND {to} AND n % {step} = 0");
    match random.below(4) {
        0 => vec![format!("DELETE FROM big WHERE {rows}"), format!("DELETE FROM beside WHERE {rows}")],
        1 => vec![
            format!("UPDATE big SET price = NULL, q = n, f = 'Infinity' WHERE {rows}"),
            format!("UPDATE beside SET q = -99999.9, price = NULL WHERE {rows}"),
        ],
        _ => upserts(1 + random.below(99), from, to, step).into(),
    }
}

/// The answers by row groups are those by rows, and without pushdown.
async fn check(client: &Client, sql: &str, told: &str) -> Result<()> {
    let fast = rows(client, sql).await?;
    for setting in ["keyspan.columnar", "keyspan.pushdown"] {
        client.batch_execute(&format!("SET {setting} = off")).await?;
        assert_eq!(rows(client, sql).await?, fast, "{told}: {sql} without {setting}");
        client.batch_execute(&format!("RESET {setting}")).await?;
    }
    Ok(())
}

async fn never_change_an_answer(seed: u64) -> Result<()> {
    let mut random = Random(seed);
    let harness = Harness::start().await?;
    let (one, two) = (harness.tenant("one").await?, harness.tenant("two").await?);
    for client in [&one, &two] {
        client.batch_execute(TABLES).await?;
        for sql in upserts(seed as i64, 0, ROWS - 1, 1) {
            client.batch_execute(&sql).await?;
        }
    }
    for (round, altered) in ALTERED.iter().enumerate() {
        let client = if random.below(10) < 7 { &one } else { &two };
        for sql in change(&mut random) {
            client.batch_execute(&sql).await?;
        }
        // One tenant's tables stay as they are.
        one.batch_execute(altered).await?;
        match random.below(4) {
            0 => harness.engine().flush().await?,
            1 | 2 => harness.engine().compact(None).await?,
            _ => {}
        }
        for sql in QUERIES.iter().skip(random.below(3) as usize).step_by(3) {
            let told = format!("seed {seed}, round {round}");
            check(&one, sql, &told).await?;
            check(&two, sql, &told).await?;
        }
    }
    harness.engine().compact(None).await?;
    for sql in QUERIES {
        check(&one, sql, "at last").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn typed_columns_never_change_an_answer() -> Result<()> {
    for seed in SEEDS {
        never_change_an_answer(seed).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_and_statistics_know_private_columns() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("one").await?;
    one.batch_execute(TABLES).await?;
    // Small tables that share a file are typed where they agree.
    one.batch_execute("DROP TABLE beside").await?;
    let [big, _, small] = upserts(1, 0, ROWS - 1, 1);
    for sql in [big, small] {
        one.batch_execute(&sql).await?;
    }
    harness.engine().compact(None).await?;
    let known = [
        "SELECT count(*), count(price), min(price), max(price) FROM big",
        "SELECT min(q), max(q), count(wide), max(wide) FROM big",
        "SELECT min(at), max(n), max(name) FROM big",
    ];
    for sql in known {
        let plan = rows(&one, &format!("EXPLAIN {sql}")).await?;
        assert!(plan.iter().any(|line| line.contains("KeyspanMetadata")), "{sql}: {plan:#?}");
        check(&one, sql, "known").await?;
    }
    for filter in ["price > 9999999999.5", "q > 1000", "name > 'namf'", "at < '2026-01-01'", "n > 7000", "wide > 1e34"]
    {
        let sql = format!("SELECT count(*), sum(f) FROM big WHERE {filter}");
        let plan = rows(&one, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let is_read = |line: &String| line.contains("Files:") && !line.contains("Files: row groups skipped=1 rows=0");
        assert!(!plan.iter().any(is_read), "{sql}: {plan:#?}");
        check(&one, &sql, "skipped").await?;
    }
    Ok(())
}
