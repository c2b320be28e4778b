//! Tables on a server: SQL over Google's emulator of Bigtable, which `.ci/bigtable` starts.

mod network;

use super::{
    command::Serving,
    harness::{connect, error, rows},
};
use anyhow::{Context, Result};
use bytes::Bytes;
use expect_test::expect;
use futures::SinkExt;
use keyspan_storage::{Family, FamilyName, Mutation, RowKey, Store, StoreExt, SystemClock, TableName, TableSchema};
use rustix::process::Signal;
use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};
use tokio::process::Command;
use tokio_postgres::{Client, Config};

const PASSWORD: &str = "a password";

/// A gateway and the emulator's instance of its own.
struct World {
    serving: Serving,
    folder: tempfile::TempDir,
}

fn config(serving: &Serving, id: &str) -> Config {
    let mut config = serving.config(PASSWORD);
    config.user(id).dbname(id);
    config
}

/// The name of an instance that no other test has.
fn instance() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("sql{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}

impl World {
    async fn start(tables: &str) -> Result<Self> {
        Self::start_at(&instance(), tables).await
    }

    async fn start_at(instance: &str, tables: &str) -> Result<Self> {
        Self::start_behind(instance, tables, |_| {}).await
    }

    /// The same, with another environment.
    async fn start_behind(instance: &str, tables: &str, change: impl FnOnce(&mut Command)) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let serving = Serving::start_with(folder.path(), Some(PASSWORD), change).await?;
        let operator = connect(&serving.config(PASSWORD)).await?;
        let server = "CREATE SERVER bt FOREIGN DATA WRAPPER bigtable";
        operator.batch_execute(&format!("{server} OPTIONS (project 'secret', instance '{instance}')")).await?;
        operator.batch_execute(tables).await?;
        for tenant in ["alto", "bari"] {
            operator.batch_execute(&format!("CREATE ROLE {tenant} LOGIN PASSWORD '{PASSWORD}'")).await?;
            operator.batch_execute(&format!("CREATE DATABASE {tenant} OWNER {tenant}")).await?;
        }
        Ok(Self { serving, folder })
    }

    async fn operator(&self) -> Result<Client> {
        connect(&self.serving.config(PASSWORD)).await
    }

    async fn tenant(&self, id: &str) -> Result<Client> {
        connect(&config(&self.serving, id)).await
    }
}

const READINGS: &str = "CREATE TABLE readings (sensor text, at timestamptz, v float8, tags jsonb, note text,
    PRIMARY KEY (sensor, at DESC), FAMILY m (v), FAMILY i (tags, note))
    WITH (key_encoding = 'ordered', m.max_versions = 3, i.max_versions = 1) SERVER bt;
    CREATE TABLE counters (k text PRIMARY KEY, n bigint, who text) SERVER bt";

/// Runs statements, each by itself: together they would be one transaction.
async fn each(client: &Client, sql: &str) -> Result<()> {
    for statement in sql.split(';') {
        client.batch_execute(statement).await?;
    }
    Ok(())
}

/// A query whose answer must not depend on what is pushed down.
async fn both(client: &Client, sql: &str) -> Result<Vec<String>> {
    let pushed = rows(client, sql).await?;
    client.batch_execute("SET keyspan.pushdown = off; SET keyspan.point = off").await?;
    let plain = rows(client, sql).await?;
    client.batch_execute("RESET keyspan.pushdown; RESET keyspan.point").await?;
    assert_eq!(pushed, plain, "{sql}");
    Ok(pushed)
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_reads_what_sql_wrote() -> Result<()> {
    let world = World::start(READINGS).await?;
    let alto = world.tenant("alto").await?;
    each(
        &alto,
        "INSERT INTO readings (sensor, at, v) SELECT 's' || n % 7, '2026-01-01'::timestamptz + n * interval '1 minute', n
         FROM generate_series(1, 500) n;
         UPDATE readings SET tags = '{\"hot\": true}', note = 'x' WHERE sensor = 's3' AND at = '2026-01-01 00:03:00+00';
         DELETE FROM readings WHERE v > 490;
         INSERT INTO readings (sensor, at, v) VALUES ('s1', '2026-01-01 00:01:00+00', -1)
         ON CONFLICT (sensor, at) DO UPDATE SET v = excluded.v;
         CREATE TABLE sensors (sensor text PRIMARY KEY, place text);
         INSERT INTO sensors VALUES ('s1', 'roof'), ('s3', 'cellar'), ('s9', 'nowhere')",
    )
    .await?;
    for (sql, answer) in [
        ("SELECT count(*), sum(v) FROM readings", &["490|120293"][..]),
        ("SELECT v FROM readings WHERE sensor = 's1' AND at < '2026-01-01 00:10:00+00' ORDER BY at", &["-1", "8"]),
        ("SELECT at, v FROM readings WHERE sensor = 's3' ORDER BY at DESC LIMIT 1", &["2026-01-01 08:06:00+00|486"]),
        ("SELECT note, tags FROM readings WHERE tags IS NOT NULL", &["x|{\"hot\": true}"]),
        ("SELECT count(*) FROM readings WHERE note IS NULL", &["489"]),
        (
            "SELECT place, count(*), min(v) FROM sensors LEFT JOIN readings USING (sensor) GROUP BY place ORDER BY place",
            &["cellar|70|3", "nowhere|1|", "roof|70|-1"],
        ),
        ("SELECT DISTINCT sensor FROM readings ORDER BY sensor DESC LIMIT 2", &["s6", "s5"]),
        ("SELECT family, count(*) FROM cells('readings') GROUP BY family ORDER BY family", &["i|2", "m|491"]),
    ] {
        assert_eq!(both(&alto, sql).await?, answer, "{sql}");
    }
    let bari = world.tenant("bari").await?;
    assert!(both(&bari, "SELECT * FROM readings").await?.is_empty());
    bari.batch_execute("INSERT INTO readings (sensor, at, v) VALUES ('s1', '2026-01-01 00:01:00+00', 7)").await?;
    let operator = world.operator().await?;
    let all = both(&operator, "SELECT tenant, count(*) FROM readings GROUP BY tenant ORDER BY tenant").await?;
    assert_eq!(all, ["alto|490", "bari|1"]);

    // Another start knows the tables, and what is in them.
    assert_eq!(world.serving.signal(Signal::TERM).await?.status.code(), Some(0));
    let again = Serving::start(world.folder.path(), Some(PASSWORD)).await?;
    let alto = connect(&config(&again, "alto")).await?;
    assert_eq!(both(&alto, "SELECT count(*), sum(v) FROM readings").await?, ["490|120293"]);
    let operator = connect(&again.config(PASSWORD)).await?;
    operator.batch_execute("ALTER TABLE readings ADD COLUMN unit text FAMILY i").await?;
    alto.batch_execute("UPDATE readings SET unit = 'K' WHERE sensor = 's1' AND at = '2026-01-01 00:01:00+00'").await?;
    assert_eq!(both(&alto, "SELECT unit, v FROM readings WHERE unit = 'K'").await?, ["K|-1"]);
    operator.batch_execute("DROP DATABASE bari").await?;
    assert_eq!(rows(&operator, "SELECT rows FROM keyspan.drops").await?, ["1"]);
    assert_eq!(rows(&operator, "SELECT DISTINCT tenant FROM readings").await?, ["alto"]);
    operator.batch_execute("DROP TABLE readings; DROP TABLE counters; DROP SERVER bt").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_tenant_is_dropped_without_being_read() -> Result<()> {
    let world = World::start(READINGS).await?;
    for (tenant, many) in [("alto", 2_000), ("bari", 3)] {
        let tenant = world.tenant(tenant).await?;
        tenant.batch_execute("SET keyspan.transactions = 'row'").await?;
        // Of 40,000 bytes each: more than the 64 MiB that are counted.
        let fill = "INSERT INTO counters SELECT 'k' || lpad(n::text, 6, '0'), n, repeat('x', 40000)";
        tenant.batch_execute(&format!("{fill} FROM generate_series(1, {many}) n")).await?;
    }
    let operator = world.operator().await?;
    let dry = rows(&operator, "EXPLAIN DROP DATABASE alto").await?.join("\n");
    let of_table = dry.lines().find(|line| line.contains("counters: ")).context(dry.clone())?;
    assert!(of_table.starts_with("  counters: about ") && of_table.ends_with(" bytes, on server bt"), "{dry}");
    assert!(dry.contains("Left to Bigtable: "), "{dry}");
    let dry = rows(&operator, "EXPLAIN DROP DATABASE bari").await?.join("\n");
    assert!(dry.contains("  counters: 3 rows, 6 cells, "), "{dry}");
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let certified = "SELECT contents::jsonb ->> 'counted', rows, left_to_bigtable <> '' FROM keyspan.drops";
    let certified = rows(&operator, certified).await?.join("\n");
    let estimated = certified.strip_prefix("about|").and_then(|rest| rest.strip_suffix("|t"));
    // Samples of the emulator are random.
    let estimated: u64 = estimated.context(certified.clone())?.parse()?;
    assert!((1_678..3_000).contains(&estimated), "{certified}");
    assert_eq!(rows(&operator, "SELECT tenant, count(*) FROM counters GROUP BY tenant").await?, ["bari|3"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_without_an_order_are_cut_at_sampled_keys() -> Result<()> {
    let world = World::start(READINGS).await?;
    let (alto, bari) = (world.tenant("alto").await?, world.tenant("bari").await?);
    let fill =
        "INSERT INTO counters SELECT 'k' || lpad(n::text, 6, '0'), n, repeat('x', 200) FROM generate_series(1, 3000) n";
    for tenant in [&alto, &bari] {
        tenant.batch_execute("SET keyspan.transactions = 'row'").await?;
        tenant.batch_execute(fill).await?;
    }
    bari.batch_execute("UPDATE counters SET n = n + 1000000").await?;
    // Samples are kept for a minute: of an empty table there were none.
    assert_eq!(world.serving.signal(Signal::TERM).await?.status.code(), Some(0));
    let serving = Serving::start(world.folder.path(), Some(PASSWORD)).await?;
    let alto = connect(&config(&serving, "alto")).await?;
    let sum = "SELECT count(*), count(DISTINCT k), sum(n) FROM counters WHERE n % 3 > 0 AND k > 'k000010'";
    let plan = async |sql: &str| anyhow::Ok(rows(&alto, &format!("EXPLAIN ANALYZE {sql}")).await?.join("\n"));
    let cut = plan(sum).await?;
    let streams = cut.split_once("Streams: ").and_then(|(_, rest)| rest.split_once(", cut")).context(cut.clone())?.0;
    assert!((2..=8).contains(&streams.parse::<u32>()?), "{cut}");
    assert!(cut.contains("Rows: seen=2990 returned=2990"), "{cut}");
    assert_eq!(both(&alto, sum).await?, ["1993|1993|2999963"]);
    alto.batch_execute("SET keyspan.columnar = off").await?;
    assert_eq!(rows(&alto, sum).await?, ["1993|1993|2999963"]);
    assert!(!plan(sum).await?.contains("Streams"));
    alto.batch_execute("RESET keyspan.columnar").await?;
    // Each row is counted once.
    alto.batch_execute("SELECT pg_stat_reset()").await?;
    rows(&alto, "SELECT sum(n) FROM counters").await?;
    let counted = "SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'counters'";
    assert_eq!(rows(&alto, counted).await?, ["1|3000"]);
    // In the order of keys it is one scan, and one row needs no more.
    for ordered in ["SELECT k FROM counters ORDER BY k", "SELECT k FROM counters ORDER BY k DESC LIMIT 5000"] {
        let plan = plan(ordered).await?;
        assert!(!plan.contains("Streams") && !plan.contains("SortExec"), "{plan}");
    }
    let keys = rows(&alto, "SELECT k FROM counters ORDER BY k DESC LIMIT 2").await?;
    assert_eq!(keys, ["k003000", "k002999"]);
    // A few keys of a join are looked up.
    alto.batch_execute(
        "CREATE TABLE some (k text PRIMARY KEY); INSERT INTO some VALUES ('k000007'), ('k002000'), ('x')",
    )
    .await?;
    let joined = "SELECT sum(n) FROM some JOIN counters USING (k)";
    assert_eq!(both(&alto, joined).await?, ["2007"]);
    let looked_up = plan(joined).await?;
    assert!(looked_up.contains("Looked up: point lookup on 3 keys"), "{looked_up}");
    // What the operator reads is of all, and what a write relies on is one scan.
    let operator = connect(&serving.config(PASSWORD)).await?;
    assert_eq!(
        both(&operator, "SELECT tenant, sum(n) FROM counters GROUP BY 1 ORDER BY 1").await?,
        ["alto|4501500", "bari|3004501500"]
    );
    alto.batch_execute("SET keyspan.transactions = 'row'; UPDATE counters SET n = n + 1 WHERE n % 2 = 0").await?;
    assert_eq!(both(&alto, "SELECT sum(n) FROM counters").await?, ["4503000"]);
    // Samples tell that a statement would read more than its budget: it reads nothing.
    operator.batch_execute("ALTER DATABASE alto SET (scan_budget = '100kB')").await?;
    alto.batch_execute("SELECT pg_stat_reset()").await?;
    assert!(error(&alto, "SELECT sum(n) FROM counters").await.starts_with("53400"));
    assert_eq!(rows(&alto, counted).await?, ["0|0"]);
    operator.batch_execute("ALTER DATABASE alto RESET (scan_budget)").await?;
    assert_eq!(rows(&alto, "SELECT sum(n) FROM counters").await?, ["4503000"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn edges_of_groups_are_those_of_all_rows() -> Result<()> {
    let tables = "CREATE TABLE samples (host text, at bigint, v text, PRIMARY KEY (host, at)) SERVER bt";
    let world = World::start(tables).await?;
    let alto = world.tenant("alto").await?;
    alto.batch_execute("SET keyspan.transactions = 'row'").await?;
    let fill = "INSERT INTO samples SELECT 'h' || n / 500, n, repeat('x', 500) FROM generate_series(1, 5000) n";
    alto.batch_execute(fill).await?;
    // Samples are kept for a minute: of an empty table there were none.
    assert_eq!(world.serving.signal(Signal::TERM).await?.status.code(), Some(0));
    let serving = Serving::start(world.folder.path(), Some(PASSWORD)).await?;
    let alto = connect(&config(&serving, "alto")).await?;
    // Whether groups are sought depends on how long a request takes: the rows do not.
    assert_eq!(both(&alto, "SELECT count(DISTINCT host) FROM samples").await?, ["11"]);
    let edges = both(&alto, "SELECT host, min(at), max(at) FROM samples GROUP BY host ORDER BY min(at)").await?;
    let expected = (0..=10).map(|n| format!("h{n}|{}|{}", (n * 500).max(1), (n * 500 + 499).min(5000)));
    assert_eq!(edges, expected.collect::<Vec<_>>());
    let last = "SELECT DISTINCT ON (host) host, at FROM samples ORDER BY host, at DESC";
    assert_eq!(both(&alto, last).await?.len(), 11);
    assert_eq!(both(&alto, "SELECT max(at) FROM samples WHERE host = 'h3'").await?, ["1999"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_copied_in_and_out() -> Result<()> {
    let world = World::start(READINGS).await?;
    let alto = world.tenant("alto").await?;
    let text: String = (0..3_000).map(|n| format!("k{n:05}\t{n}\n")).collect();
    let sink = alto.copy_in::<_, Bytes>("COPY counters (k, n) FROM STDIN").await?;
    futures::pin_mut!(sink);
    sink.send(Bytes::from(text)).await?;
    assert_eq!(sink.finish().await?, 3_000);
    assert_eq!(
        both(&alto, "SELECT count(*), sum(n), min(k), max(k) FROM counters").await?,
        ["3000|4498500|k00000|k02999"]
    );
    assert_eq!(
        both(&alto, "SELECT n FROM counters WHERE k BETWEEN 'k00007' AND 'k00009' ORDER BY k DESC").await?,
        ["9", "8", "7"]
    );
    let sink = alto.copy_in::<_, Bytes>("COPY counters (k, n) FROM STDIN").await?;
    futures::pin_mut!(sink);
    sink.send(Bytes::from_static(b"k00001\t1\n")).await?;
    let taken = sink.finish().await.expect_err("the key is there");
    assert_eq!(taken.as_db_error().context("an error of the server")?.code().code(), "23505");
    alto.batch_execute("DELETE FROM counters WHERE k >= 'k00010'").await?;
    assert_eq!(both(&alto, "SELECT count(*) FROM counters").await?, ["10"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_addition_is_lost_and_no_key_is_given_twice() -> Result<()> {
    const WRITERS: usize = 8;
    const ADDITIONS: usize = 25;
    let world = World::start(READINGS).await?;
    let alto = world.tenant("alto").await?;
    alto.batch_execute("INSERT INTO counters VALUES ('a', 0, '')").await?;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let client = world.tenant("alto").await?;
        writers.spawn(async move {
            let mut made = 0;
            for n in 0..ADDITIONS {
                let add = match n % 3 {
                    0 => "UPDATE counters SET n = n + 1 WHERE k = 'a'",
                    1 => {
                        "INSERT INTO counters VALUES ('a', 1) ON CONFLICT (k) DO UPDATE SET n = counters.n + excluded.n"
                    }
                    _ => {
                        client.batch_execute("SET keyspan.point = off").await?;
                        "UPDATE counters SET n = n + 1 WHERE k = 'a' AND n >= 0"
                    }
                };
                let insert = format!("INSERT INTO counters VALUES ('new {n}', 0, 'writer {writer}')");
                for (statement, taken) in [(add, None), (insert.as_str(), Some("23505"))] {
                    // A row that others keep changing is given up after some attempts: nothing was done then.
                    let done = loop {
                        match client.batch_execute(statement).await {
                            Ok(()) => break true,
                            Err(error) => match error.as_db_error().map(|error| error.code().code()) {
                                Some("40001") => {}
                                code if code.is_some() && code == taken => break false,
                                _ => return Err(error.into()),
                            },
                        }
                    };
                    made += usize::from(done && taken.is_some());
                }
            }
            anyhow::Ok(made)
        });
    }
    let mut made = 0;
    while let Some(writer) = writers.join_next().await {
        made += writer??;
    }
    assert_eq!(made, ADDITIONS, "each key is made once");
    let sum = (WRITERS * ADDITIONS).to_string();
    assert_eq!(both(&alto, "SELECT n FROM counters WHERE k = 'a'").await?, [sum]);
    assert_eq!(both(&alto, "SELECT count(*) FROM counters").await?, [(ADDITIONS + 1).to_string()]);
    Ok(())
}

/// Another gateway, with a catalog of its own, finds the tables of the first and writes them.
#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_lose_no_addition() -> Result<()> {
    const ADDITIONS: usize = 20;
    let instance = instance();
    let one = World::start_at(&instance, READINGS).await?;
    let options = rows(
        &one.operator().await?,
        "SELECT ftoptions FROM pg_foreign_table JOIN pg_class c ON c.oid = ftrelid WHERE relname = 'counters'",
    )
    .await?;
    let name = options[0].trim_matches(['{', '}', '"']).trim_start_matches("table=").to_owned();
    let found = format!(
        "CREATE FOREIGN TABLE c (k text, n bigint OPTIONS (family 'cf'), author text OPTIONS (family 'cf', qualifier 'who'),
         PRIMARY KEY (k)) SERVER bt OPTIONS (table '{name}', writable 'true')"
    );
    let two = World::start_at(&instance, &found).await?;
    one.tenant("alto").await?.batch_execute("INSERT INTO counters VALUES ('a', 0, 'one')").await?;
    assert_eq!(rows(&two.tenant("alto").await?, "SELECT * FROM c").await?, ["a|0|one"]);
    let mut writers = tokio::task::JoinSet::new();
    for (world, table) in [(&one, "counters"), (&two, "c")] {
        for _ in 0..4 {
            let (client, add) = (world.tenant("alto").await?, format!("UPDATE {table} SET n = n + 1 WHERE k = 'a'"));
            writers.spawn(async move {
                for _ in 0..ADDITIONS {
                    client.batch_execute(&add).await?;
                }
                anyhow::Ok(())
            });
        }
    }
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    let sum = (8 * ADDITIONS).to_string();
    assert_eq!(both(&one.tenant("alto").await?, "SELECT n FROM counters").await?, std::slice::from_ref(&sum));
    assert_eq!(both(&two.tenant("alto").await?, "SELECT n FROM c").await?, [sum]);
    let two = two.operator().await?;
    two.batch_execute("DROP DATABASE alto; DROP TABLE c; DROP SERVER bt").await?;
    assert_eq!(
        both(&one.tenant("alto").await?, "SELECT count(*) FROM counters").await?,
        ["1"],
        "it is not the other's"
    );
    Ok(())
}

/// Tables that others made in an instance: readings of hosts with binary numbers and documents, and friends by
/// qualifier.
async fn others(instance: &str) -> Result<()> {
    let host = std::env::var("BIGTABLE_EMULATOR_HOST").context("BIGTABLE_EMULATOR_HOST: run .ci/bigtable")?;
    let settings = keyspan_bigtable::Settings::emulator(&host, "secret", instance);
    let store = keyspan_bigtable::BigtableStore::new(settings, Box::new(SystemClock))?;
    let family = |name: &str| FamilyName::new(name);
    for (table, families) in [("metrics", &["m", "meta", "none"][..]), ("people", &["friends"]), ("other", &["f"])] {
        let families = families.iter().map(|name| Ok((family(name)?, Family::default()))).collect::<Result<_>>()?;
        store.create_table(&TableName::new(table)?, TableSchema { families, ..TableSchema::default() }).await?;
    }
    let set = |of: &str, qualifier: &str, value: &[u8]| {
        anyhow::Ok(Mutation::SetCell {
            family: family(of)?,
            qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
            timestamp: None,
            value: Bytes::copy_from_slice(value),
        })
    };
    for n in 0..250_u8 {
        let (tenant, host) = (["alto", "bari"][usize::from(n % 5 / 4)], n % 7);
        let cells = vec![
            set("m", "cpu", &(f64::from(n) / 4.0).to_be_bytes())?,
            set("m", "requests", &i64::from(n).to_be_bytes())?,
            set("m", "load", format!("{n}.50").as_bytes())?,
            set("meta", "tags", format!("{{\"n\": {n}}}").as_bytes())?,
            set("meta", "key_1", b"a note")?,
        ];
        let key = RowKey::new(format!("{tenant}#host-{host}#{n:03}"))?;
        store.mutate_row(&TableName::new("metrics")?, key, cells).await?;
        let friend = vec![set("friends", &format!("friend {n}"), b"since")?];
        store.mutate_row(&TableName::new("people")?, RowKey::new("alto#Jose")?, friend).await?;
    }
    store.close().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_made_is_found() -> Result<()> {
    let instance = instance();
    others(&instance).await?;
    let world = World::start_at(
        &instance,
        "IMPORT FOREIGN SCHEMA bigtable LIMIT TO (metrics, people) FROM SERVER bt INTO public",
    )
    .await?;
    let operator = world.operator().await?;
    let made = rows(&operator, "SHOW CREATE TABLE metrics").await?.join("\n");
    expect![[r#"
        metrics|CREATE FOREIGN TABLE metrics (
            key_1 text,
            key_2 text,
            cpu double precision OPTIONS (family 'm', qualifier 'cpu', encoding 'binary'),
            load numeric OPTIONS (family 'm', qualifier 'load', encoding 'text'),
            requests bigint OPTIONS (family 'm', qualifier 'requests', encoding 'binary'),
            key_1_2 text OPTIONS (family 'meta', qualifier 'key_1', encoding 'text'),
            tags jsonb OPTIONS (family 'meta', qualifier 'tags', encoding 'text'),
            PRIMARY KEY (key_1, key_2)
        ) SERVER bt OPTIONS (table 'metrics', key_encoding 'plain')"#]]
    .assert_eq(&made);
    expect![[r#"
        people|CREATE FOREIGN TABLE people (
            row_key text,
            PRIMARY KEY (row_key),
            FAMILY friends OPEN
        ) SERVER bt OPTIONS (table 'people', key_encoding 'plain', "friends.encoding" 'text')"#]]
    .assert_eq(&rows(&operator, "SHOW CREATE TABLE people").await?.join("\n"));
    let alto = world.tenant("alto").await?;
    assert_eq!(
        both(&alto, "SELECT * FROM metrics WHERE key_1 = 'host-3' ORDER BY key_2 LIMIT 2").await?,
        ["host-3|003|0.75|3.50|3|a note|{\"n\": 3}", "host-3|010|2.5|10.50|10|a note|{\"n\": 10}"]
    );
    assert_eq!(both(&alto, "SELECT count(*), sum(requests), sum(load) FROM metrics").await?, ["200|24800|24900.00"]);
    assert_eq!(both(&alto, "SELECT friends->>'friend 7' FROM people").await?, ["since"]);
    assert_eq!(both(&alto, "SELECT count(*) FROM people, jsonb_each_text(friends)").await?, ["250"]);
    alto.batch_execute(
        "CREATE TABLE hosts (host text PRIMARY KEY, place text); INSERT INTO hosts VALUES ('host-3', 'Ulm')",
    )
    .await?;
    let joined = "SELECT place, max(cpu) FROM metrics JOIN hosts ON host = key_1 GROUP BY place";
    assert_eq!(both(&alto, joined).await?, ["Ulm|62"]);
    assert!(error(&alto, "DELETE FROM metrics").await.starts_with("0A000"), "it is only read");

    // What was made can be made again, and is the same.
    operator
        .batch_execute(&format!("DROP FOREIGN TABLE metrics; {}", made.split_once('|').context("a name")?.1))
        .await?;
    assert_eq!(rows(&operator, "SHOW CREATE TABLE metrics").await?.join("\n"), made);
    let import = |what: &str| format!("IMPORT FOREIGN SCHEMA {what}");
    for (what, refused) in [
        ("bigtable FROM SERVER none INTO public", "42704 server \"none\" does not exist"),
        ("public FROM SERVER bt INTO public", "3F000 schema \"public\" does not exist"),
        ("bigtable FROM SERVER bt INTO mine", "3F000 schema \"mine\" does not exist"),
        ("bigtable LIMIT TO (nothing) FROM SERVER bt INTO public", "42P01 server \"bt\" has no table \"nothing\""),
        ("bigtable FROM SERVER bt INTO public", "42P07 relation \"metrics\" already exists"),
        ("bigtable FROM SERVER bt INTO public OPTIONS (escape 'dollar')", "HV00D invalid option \"escape\""),
    ] {
        assert_eq!(error(&operator, &import(what)).await, refused, "{what}");
    }
    assert!(error(&alto, &import("bigtable FROM SERVER bt INTO public")).await.starts_with("42501"));
    let rest = "bigtable EXCEPT (metrics, people) FROM SERVER bt INTO public OPTIONS (writable 'true')";
    operator.batch_execute(&import(rest)).await?;
    let tables = "SELECT relname FROM pg_class JOIN pg_foreign_table ON ftrelid = pg_class.oid ORDER BY 1";
    assert_eq!(rows(&operator, tables).await?, ["metrics", "other", "people"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_of_one_row() -> Result<()> {
    let world = World::start(READINGS).await?;
    let (one, two) = (world.tenant("alto").await?, world.tenant("alto").await?);
    one.batch_execute("INSERT INTO counters VALUES ('a', 1), ('b', 2)").await?;
    // What another writes in between is seen, whichever statement of the transaction read the row.
    one.batch_execute("BEGIN; UPDATE counters SET n = n + 1 WHERE k = 'a'").await?;
    two.batch_execute("UPDATE counters SET n = n + 10 WHERE k = 'a'").await?;
    one.batch_execute("UPDATE counters SET who = 'one' WHERE k = 'a'").await?;
    assert_eq!(rows(&one, "SHOW keyspan.transactions").await?, ["row"]);
    assert!(error(&one, "COMMIT").await.starts_with("40001"));
    assert_eq!(rows(&one, "SHOW keyspan.transactions").await?, ["commit"]);
    one.batch_execute(
        "BEGIN; UPDATE counters SET n = n + 1 WHERE k = 'a'; UPDATE counters SET who = 'one' WHERE k = 'a'; COMMIT",
    )
    .await?;
    assert_eq!(both(&one, "SELECT * FROM counters ORDER BY k").await?, ["a|12|one", "b|2|"]);
    // A row that appears in between.
    one.batch_execute("BEGIN; INSERT INTO counters VALUES ('c', 1)").await?;
    two.batch_execute("INSERT INTO counters VALUES ('c', 2)").await?;
    assert!(error(&one, "COMMIT").await.starts_with("40001"));
    assert!(error(&one, "UPDATE counters SET n = n + 1").await.starts_with("0A000"));
    one.batch_execute("SET keyspan.transactions = 'row'; UPDATE counters SET n = n + 1").await?;
    assert_eq!(both(&one, "SELECT k, n FROM counters ORDER BY k").await?, ["a|13", "b|3", "c|3"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_fails_its_statements_only() -> Result<()> {
    let world = World::start(READINGS).await?;
    let alto = world.tenant("alto").await?;
    alto.batch_execute("CREATE TABLE own (a int); INSERT INTO own VALUES (1)").await?;
    assert_eq!(world.serving.signal(Signal::TERM).await?.status.code(), Some(0));
    let down = |store: &Path| {
        let store = store.to_owned();
        async move {
            // Nobody listens on port 1.
            let nowhere = |command: &mut Command| {
                command.env("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1");
            };
            Serving::start_with(&store, Some(PASSWORD), nowhere).await
        }
    };
    let serving = down(world.folder.path()).await?;
    let alto = connect(&config(&serving, "alto")).await?;
    assert_eq!(rows(&alto, "SELECT * FROM own").await?, ["1"]);
    let read = error(&alto, "SELECT * FROM counters").await;
    assert_eq!(read, "08006 the server of a table cannot be reached, or does not answer");
    assert_eq!(rows(&alto, "SELECT * FROM own").await?, ["1"]);
    Ok(())
}
