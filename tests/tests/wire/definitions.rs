//! Changes of definitions over rows that are in segments already: what was written before reads as it should
//! afterwards.
//!
//! A script of statements, each with what an operator or a tenant may do to a table, is run four times: over the memory
//! store, which has no segments, and over embedded stores that do something with theirs after each statement
//! ([`Upkeep`]). After each statement all of them are asked the same questions, by row groups and by rows, and have to
//! give the same answers; at some statements these are told here, too.

use super::harness::{Harness, connect, rows};
use anyhow::Result;
use tokio_postgres::Client;

/// What happens to segments between statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upkeep {
    /// There are none.
    Memory,
    /// Each statement's rows in deltas of their own, and never a compaction.
    Flush,
    /// One base after each statement.
    Compact,
    /// One or the other, and a restart.
    Restart,
}

/// Rows that the script begins with: enough for a scan to go by row groups.
const ROWS: i64 = 4_500;

/// A server with a tenant, and what is done to its segments.
struct Side {
    upkeep: Upkeep,
    harness: Harness,
    operator: Client,
    tenant: Client,
    statements: usize,
}

impl Side {
    async fn start(upkeep: Upkeep) -> Result<Self> {
        let harness = match upkeep {
            Upkeep::Memory => Harness::in_memory().await?,
            _ => Harness::start_engine(|options| options.compacts = false).await?,
        };
        let tenant = harness.tenant("one").await?;
        Ok(Self { operator: harness.operator().await?, upkeep, harness, tenant, statements: 0 })
    }

    async fn run(mut self, who: Who, sql: &str) -> Result<Self> {
        let client = if who == Who::Operator { &self.operator } else { &self.tenant };
        let done = client.batch_execute(sql).await;
        done.map_err(|error| anyhow::anyhow!("{:?}: {sql}: {}", self.upkeep, super::harness::told(&error)))?;
        self.statements += 1;
        match self.upkeep {
            Upkeep::Memory => {}
            Upkeep::Flush => self.harness.engine().flush().await?,
            Upkeep::Compact => self.harness.engine().compact(None).await?,
            Upkeep::Restart => {
                match self.statements % 3 {
                    0 => self.harness.engine().compact(None).await?,
                    1 => self.harness.engine().flush().await?,
                    // The log has it.
                    _ => {}
                }
                self.harness = self.harness.restart_engine(|options| options.compacts = false).await?;
                self.operator = self.harness.operator().await?;
                self.tenant = self.harness.connect("one", "one").await?;
            }
        }
        Ok(self)
    }

    /// The answers of both ways to scan, which must be the same.
    async fn ask(&self, sql: &str) -> Result<Vec<String>> {
        let found = rows(&self.tenant, sql).await?;
        self.tenant.batch_execute("SET keyspan.columnar = off").await?;
        let by_rows = rows(&self.tenant, sql).await;
        self.tenant.batch_execute("SET keyspan.columnar = on").await?;
        assert_eq!(found, by_rows?, "{:?}: by row groups, and by rows: {sql}", self.upkeep);
        Ok(found)
    }

    /// Everything about the table, in a few lines.
    async fn look(&self, table: &str) -> Result<Vec<String>> {
        let names = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name =";
        let columns = rows(&self.tenant, &format!("{names} '{table}' ORDER BY ordinal_position")).await?;
        let mut lines = vec![columns.join(", ")];
        let summary = |(name, kind): (&str, &str)| {
            let value = if kind.starts_with("json") { format!("{name}::text") } else { name.to_owned() };
            format!("count({name}), min({value}), max({value})")
        };
        let summaries: Vec<_> = columns.iter().filter_map(|column| column.split_once('|')).map(summary).collect();
        lines.extend(self.ask(&format!("SELECT count(*), {} FROM {table}", summaries.join(", "))).await?);
        // Some rows with all columns, which never go by row groups; the cells, which tell what no column shows.
        let some = format!("SELECT * FROM {table} WHERE k BETWEEN 97 AND 101 OR k IN (0, {ROWS}) ORDER BY k");
        lines.extend(rows(&self.tenant, &some).await?);
        let cells = "SELECT family, qualifier, count(*), min(bytes), max(bytes) FROM cells(";
        lines.extend(rows(&self.tenant, &format!("{cells}'{table}') GROUP BY 1, 2 ORDER BY 1, 2")).await?);
        Ok(lines)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Operator,
    Tenant,
}
use Who::{Operator, Tenant};

/// The sides of a comparison.
struct Sides(Vec<Side>);

impl Sides {
    async fn start() -> Result<Self> {
        let mut sides = Vec::new();
        for upkeep in [Upkeep::Memory, Upkeep::Flush, Upkeep::Compact, Upkeep::Restart] {
            sides.push(Side::start(upkeep).await?);
        }
        Ok(Self(sides))
    }

    /// Runs a statement everywhere, and compares what a table is then.
    async fn run(&mut self, who: Who, table: &str, sql: &str) -> Result<()> {
        let mut sides = Vec::new();
        for side in self.0.drain(..) {
            sides.push(side.run(who, sql).await?);
        }
        self.0 = sides;
        let expected = self.0[0].look(table).await?;
        for side in &self.0[1..] {
            assert_eq!(side.look(table).await?, expected, "{:?}, after: {sql}", side.upkeep);
        }
        Ok(())
    }

    /// What a query gives, everywhere.
    async fn gives(&self, sql: &str, expected: &[&str]) -> Result<()> {
        for side in &self.0 {
            assert_eq!(side.ask(sql).await?, expected, "{:?}: {sql}", side.upkeep);
        }
        Ok(())
    }
}

fn insert(from: i64, to: i64, values: &str) -> String {
    format!("INSERT INTO t SELECT k, {values} FROM generate_series({from}, {to}) AS g(k)")
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_come_and_go_leave_old_rows_readable() -> Result<()> {
    let mut sides = Sides::start().await?;
    let table =
        "CREATE TABLE t (k bigint PRIMARY KEY, n integer, s varchar(10), e text, FAMILY m (n, s), FAMILY x (e))";
    sides.run(Operator, "t", table).await?;
    sides.run(Tenant, "t", &insert(0, ROWS - 1, "k % 1000, 's' || k, 'e' || k")).await?;
    sides.run(Operator, "t", "ALTER TABLE t ADD COLUMN d double precision FAMILY m").await?;
    sides.gives("SELECT count(*), count(n), count(d) FROM t", &["4500|4500|0"]).await?;
    sides.run(Tenant, "t", "UPDATE t SET d = k / 4.0 WHERE k % 3 = 0").await?;
    sides.gives("SELECT count(d), sum(d) FROM t", &["1500|843187.5"]).await?;

    // Gone, and back with another type: what is in old segments under its name is not its.
    sides.run(Operator, "t", "ALTER TABLE t DROP COLUMN n").await?;
    sides.run(Tenant, "t", &insert(ROWS, ROWS + 99, "'late', NULL, 1.5")).await?;
    sides.run(Operator, "t", "ALTER TABLE t ADD COLUMN n text FAMILY m").await?;
    sides.gives("SELECT count(*), count(n) FROM t", &["4600|0"]).await?;
    sides.run(Tenant, "t", "UPDATE t SET n = 'new ' || k WHERE k < 100").await?;
    sides.gives("SELECT count(n), min(n), max(n) FROM t", &["100|new 0|new 99"]).await?;
    sides.gives("SELECT n FROM t WHERE k IN (99, 100)", &["new 99", ""]).await?;
    sides.run(Operator, "t", "ALTER TABLE t DROP COLUMN n, ADD COLUMN n integer FAMILY m").await?;
    sides.gives("SELECT count(n) FROM t", &["0"]).await?;
    sides.run(Operator, "t", "ALTER TABLE t RENAME COLUMN s TO label, RENAME COLUMN d TO s").await?;
    sides.gives("SELECT label, s FROM t WHERE k = 3", &["s3|0.75"]).await?;

    // A family, and one of its name.
    sides.run(Operator, "t", "ALTER TABLE t DROP COLUMN e, DROP FAMILY x").await?;
    sides.gives("SELECT count(*) FROM cells('t') WHERE family = 'x'", &["0"]).await?;
    sides.run(Operator, "t", "ALTER TABLE t ADD FAMILY x").await?;
    sides.run(Operator, "t", "ALTER TABLE t ADD COLUMN e text FAMILY x").await?;
    sides.gives("SELECT count(e) FROM t", &["0"]).await?;
    sides.run(Tenant, "t", "UPDATE t SET e = 'again' WHERE k % 9 = 0").await?;
    sides.gives("SELECT count(e) FROM t", &["512"]).await?;

    // A table, and one of its name.
    sides.run(Operator, "u", "ALTER TABLE t RENAME TO u").await?;
    sides.gives("SELECT count(*), count(label) FROM u", &["4600|4600"]).await?;
    sides.run(Operator, "t", "CREATE TABLE t (k bigint PRIMARY KEY, n text, label bigint)").await?;
    sides.gives("SELECT count(*) FROM t", &["0"]).await?;
    sides.run(Tenant, "t", &insert(0, 9, "'other', 1")).await?;
    sides.run(Operator, "t", "DROP TABLE u").await?;
    sides.run(Operator, "u", "ALTER TABLE t RENAME TO u").await?;
    sides.gives("SELECT count(*), min(n), max(label) FROM u", &["10|other|1"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn types_that_change_read_what_is_stored_as_before() -> Result<()> {
    let mut sides = Sides::start().await?;
    let table = "CREATE TABLE t (k bigint, kk varchar(5), s varchar(6), j jsonb, c jsonb, d numeric(6, 2), i smallint,
        PRIMARY KEY (k, kk), FAMILY m (s, j, d), FAMILY w (i, c)) WITH (w.encoding = 'text', m.max_versions = 2)";
    sides.run(Operator, "t", table).await?;
    let row = "'k' || k % 100, 's' || k, '{\"n\": ' || k || '}', '[' || k || ']', k / 4.0, k % 30000";
    sides.run(Tenant, "t", &insert(0, ROWS - 1, row)).await?;
    for action in [
        "ALTER COLUMN s TYPE text",
        "ALTER COLUMN kk TYPE varchar(8)",
        "ALTER COLUMN j TYPE json",
        "ALTER COLUMN c TYPE text",
        "ALTER COLUMN d TYPE numeric(12, 4)",
        "ALTER COLUMN i TYPE bigint",
        "ALTER COLUMN kk TYPE text",
    ] {
        sides.run(Operator, "t", &format!("ALTER TABLE t {action}")).await?;
        sides.gives("SELECT count(s), count(j), count(c), count(i) FROM t", &["4500|4500|4500|4500"]).await?;
    }
    sides.gives("SELECT k, kk, s, j, c, d, i FROM t WHERE k = 7", &["7|k7|s7|{\"n\": 7}|[7]|1.7500|7"]).await?;
    let wide = "UPDATE t SET s = 'longer than it was ' || k, i = 5000000000 + k, d = 12345678.1234, c = 'no json' WHERE k % 50 = 0";
    sides.run(Tenant, "t", wide).await?;
    let late = "'a key of more than five', 'a value of more than six', '{ }', 'text', 0.0001, 1";
    sides.run(Tenant, "t", &insert(ROWS, ROWS + 9, late)).await?;
    sides.gives("SELECT count(*), max(i), max(d), max(length(kk)) FROM t", &["4510|5000004450|12345678.1234|23"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_change_condemn_in_segments_as_in_memory() -> Result<()> {
    let mut sides = Sides::start().await?;
    let table = "CREATE TABLE t (k bigint PRIMARY KEY, n integer, h bigint, FAMILY m (n), FAMILY a (h)) WITH (a.aggregate = sum)";
    sides.run(Operator, "t", table).await?;
    sides.run(Tenant, "t", &insert(0, ROWS - 1, "k, 1")).await?;
    let cells = "SELECT count(*) FROM cells('t') WHERE family = 'm'";
    let more = "INSERT INTO t (k, h) SELECT k, 10 FROM generate_series(0, 99) AS g(k) ON CONFLICT (k) DO UPDATE SET h = EXCLUDED.h";
    for add in [1000, 2000, 3000] {
        sides.run(Tenant, "t", &format!("UPDATE t SET n = k + {add} WHERE k < 200")).await?;
        sides.run(Tenant, "t", more).await?;
    }
    sides.gives(cells, &["5100"]).await?;
    sides.gives("SELECT sum(h), max(h) FROM t", &["7500|31"]).await?;
    sides.run(Operator, "t", "ALTER TABLE t SET (m.max_versions = 3)").await?;
    sides.gives(cells, &["4900"]).await?;
    // Tighter and looser at once: what the tighter one condemned stays away.
    sides.run(Operator, "t", "ALTER TABLE t SET (m.max_versions = 2)").await?;
    sides.run(Operator, "t", "ALTER TABLE t SET (m.max_versions = 9)").await?;
    sides.gives(cells, &["4700"]).await?;
    sides.run(Tenant, "t", "UPDATE t SET n = NULL WHERE k BETWEEN 100 AND 149").await?;
    sides.gives(cells, &["4600"]).await?;
    sides.gives("SELECT count(n), sum(n) FROM t", &["4450|10566525"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_compared_goes_by_row_groups_indeed() -> Result<()> {
    let mut side = Side::start(Upkeep::Compact).await?;
    side = side.run(Operator, "CREATE TABLE t (k bigint PRIMARY KEY, n integer, s varchar(10))").await?;
    side = side.run(Tenant, &insert(0, ROWS, "1, 's'")).await?;
    let reads = async |side: &Side, setting: &str| {
        let client = connect(&side.harness.config("one", super::harness::PASSWORD, "one")).await?;
        client.batch_execute(&format!("SET keyspan.columnar = {setting}")).await?;
        anyhow::Ok(rows(&client, "EXPLAIN SELECT sum(n), min(s) FROM t").await?.join("\n"))
    };
    for action in ["ADD COLUMN d bigint", "ALTER COLUMN s TYPE text", "DROP COLUMN d"] {
        side = side.run(Operator, &format!("ALTER TABLE t {action}")).await?;
        // While cells of a dropped column may be in a file, its rows are read one by one.
        let purge = "SELECT purge FROM keyspan.erasures WHERE purge <> 'done'";
        while !rows(&side.operator, purge).await?.is_empty() {
            tokio::task::yield_now().await;
        }
        let plan = reads(&side, "on").await?;
        assert!(plan.contains("Row groups"), "after {action}: {plan}");
    }
    assert!(!reads(&side, "off").await?.contains("Row groups"));
    Ok(())
}
