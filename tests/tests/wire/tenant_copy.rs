//! `CREATE DATABASE … TEMPLATE`: a tenant with the relations and rows of another, at one moment, beside the living one.

use super::{
    command::Serving,
    harness::{Harness, PASSWORD, connect, error, rows},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio_postgres::{Client, NoTls};

/// Shared tables: several versions of a cell, an aggregate, salted keys, a history.
const SHARED: &str = "
    CREATE TABLE metrics (k text, at timestamptz, v bigint, note text, PRIMARY KEY (k, at DESC),
        FAMILY m (v), FAMILY n (note)) WITH (m.max_versions = 3);
    CREATE TABLE sums (k text PRIMARY KEY, total bigint, FAMILY s (total)) WITH (s.aggregate = sum);
    CREATE TABLE salted (k text PRIMARY KEY, v text) WITH (salt = 4);
    CREATE TABLE remembered (k text PRIMARY KEY, v text) WITH (history = '1 day')";

/// What a tenant makes for itself.
const PRIVATE: &str = "
    CREATE TABLE notes (id bigserial PRIMARY KEY, body text DEFAULT 'none', CHECK (body <> 'bad'));
    CREATE TABLE bag (v text);
    CREATE SEQUENCE counter START 100 INCREMENT 10;
    CREATE VIEW busy AS SELECT k, max(v) AS v FROM metrics GROUP BY k;
    CREATE VIEW both_of AS SELECT b.k, n.body FROM busy b JOIN notes n ON n.id = b.v;
    CREATE MATERIALIZED VIEW kept AS SELECT n.id, n.body, b.v FROM notes n LEFT JOIN busy b ON b.v = n.id WITH NO DATA;
    CREATE MATERIALIZED VIEW empty AS SELECT count(*) FROM kept WITH NO DATA;
    COMMENT ON TABLE notes IS 'mine'";

const ROWS: &str = "
    INSERT INTO metrics VALUES ('a', '2026-01-01Z', 1, 'x'), ('a', '2026-01-02Z', 2, NULL), ('b', '2026-01-01Z', 3, 'y');
    UPDATE metrics SET v = v + 10;
    UPDATE metrics SET v = v - 10;
    INSERT INTO sums VALUES ('a', 5), ('b', 7);
    INSERT INTO sums VALUES ('a', 6) ON CONFLICT (k) DO UPDATE SET total = excluded.total;
    INSERT INTO salted SELECT 'k' || i, md5(i::text) FROM generate_series(1, 50) AS g(i);
    INSERT INTO remembered VALUES ('r', '1');
    UPDATE remembered SET v = '2';
    INSERT INTO notes (body) VALUES ('one'), ('two'), ('three');
    INSERT INTO notes DEFAULT VALUES;
    REFRESH MATERIALIZED VIEW kept;
    UPDATE notes SET body = 'after' WHERE id = 4;
    INSERT INTO bag VALUES ('b1'), ('b2'), ('b1');
    SELECT nextval('counter'), nextval('counter')";

/// Queries that give the same in a copy.
const SAME: &[&str] = &[
    "SELECT * FROM metrics ORDER BY k, at",
    "SELECT * FROM cells('metrics')",
    "SELECT * FROM sums ORDER BY k",
    "SELECT * FROM cells('sums')",
    "SELECT k, v FROM salted WHERE k > 'k2' ORDER BY k",
    "SELECT count(*) FROM salted",
    "SELECT * FROM remembered",
    "SELECT * FROM notes ORDER BY id",
    "SELECT * FROM cells('notes')",
    "SELECT v FROM bag ORDER BY v",
    "SELECT * FROM busy ORDER BY k",
    "SELECT * FROM both_of ORDER BY k",
    "SELECT * FROM kept ORDER BY id",
    "SELECT matviewname, ispopulated, definition FROM pg_matviews ORDER BY 1",
    "SELECT pg_get_viewdef('both_of'::regclass)",
    "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT column_name, column_default FROM information_schema.columns WHERE table_name = 'notes' ORDER BY 1",
    "SELECT obj_description('notes'::regclass)",
];

async fn seen(client: &Client) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for sql in SAME {
        all.push(rows(client, sql).await.with_context(|| (*sql).to_owned())?);
    }
    Ok(all)
}

/// Gives the role of one tenant the database of another, and connects.
async fn enter(harness: &Harness, role: &str, database: &str) -> Result<Client> {
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("ALTER DATABASE {database} OWNER TO {role}")).await?;
    harness.connect(role, database).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_everything_of_its_template() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute(SHARED).await?;
    let (a, neighbour) = (harness.tenant("a").await?, harness.tenant("ab").await?);
    a.batch_execute(PRIVATE).await?;
    // Each by itself, so that cells have several versions.
    for sql in ROWS.split(';') {
        a.batch_execute(sql).await?;
    }
    neighbour.batch_execute("INSERT INTO salted VALUES ('other', 'x')").await?;
    operator.batch_execute("ALTER DATABASE a SET (scan_budget = '1GB'); COMMENT ON DATABASE a IS 'first'").await?;
    // Some rows in segments, some in memory.
    harness.engine().flush().await?;
    a.batch_execute("INSERT INTO metrics VALUES ('late', now(), 1, 'l')").await?;
    let before = seen(&a).await?;
    assert!(before[1].len() > before[0].len() * 2, "several versions: {:?}", before[1]);

    operator.batch_execute("CREATE DATABASE b TEMPLATE a").await?;
    let not_granted = harness.connect("a", "b").await.err().context("rights were copied")?;
    assert_eq!(
        not_granted.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code()).map(|code| code.code()),
        Some("3D000")
    );
    let b = enter(&harness, "a", "b").await?;
    for (at, (was, is)) in before.iter().zip(seen(&b).await?).enumerate() {
        assert_eq!(*was, is, "{}", SAME[at]);
    }
    assert_eq!(
        rows(&operator, "SELECT state, scan_budget FROM keyspan.tenants WHERE tenant = 'b'").await?,
        rows(&operator, "SELECT state, scan_budget FROM keyspan.tenants WHERE tenant = 'a'").await?,
    );
    let oids = "SELECT oid FROM pg_class WHERE relname IN ('notes', 'bag', 'counter', 'busy', 'both_of') ORDER BY oid";
    let (of_a, of_b) = (rows(&a, oids).await?, rows(&b, oids).await?);
    assert!(of_a.len() == 5 && of_b.len() == 5 && of_a.iter().all(|oid| !of_b.contains(oid)), "{of_a:?} {of_b:?}");

    // From now on each is its own.
    b.batch_execute("INSERT INTO notes (body) VALUES ('of b'); UPDATE metrics SET v = 0; DELETE FROM salted").await?;
    assert_eq!(error(&b, "INSERT INTO notes (body) VALUES ('bad')").await.split(' ').next(), Some("23514"));
    assert_eq!(error(&b, "DROP TABLE notes").await.split(' ').next(), Some("2BP01"));
    b.batch_execute(
        "ALTER TABLE bag RENAME COLUMN v TO w; DROP VIEW both_of;
                     DROP MATERIALIZED VIEW empty, kept; DROP TABLE notes",
    )
    .await?;
    assert_eq!(seen(&a).await?, before);
    assert_eq!(rows(&neighbour, "SELECT k FROM salted").await?, ["other"]);
    // What is written to the copy later merges with what came along.
    b.batch_execute("INSERT INTO sums VALUES ('b', 1) ON CONFLICT (k) DO UPDATE SET total = excluded.total").await?;
    assert_eq!(rows(&b, "SELECT total FROM sums WHERE k = 'b'").await?, ["8"]);
    let harness = harness.restart().await?;
    let a = harness.connect("a", "a").await?;
    assert_eq!(seen(&a).await?, before);
    let b = harness.connect("a", "b").await?;
    assert_eq!(rows(&b, "SELECT w FROM bag ORDER BY w").await?, ["b1", "b1", "b2"]);
    let next: i64 = rows(&b, "SELECT nextval('counter')").await?.pop().context("a number")?.parse()?;
    assert!(next > 110 && next % 10 == 0, "{next}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_copied_is_told() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE h (k text PRIMARY KEY) WITH (history = '1 day')").await?;
    let a = harness.tenant("a").await?;
    a.batch_execute("INSERT INTO h VALUES ('then')").await?;
    let then = rows(&operator, "SELECT now()").await?.pop().context("a time")?;
    a.batch_execute("INSERT INTO h VALUES ('later')").await?;
    for (sql, told) in [
        ("CREATE DATABASE b TEMPLATE c", "3D000 template database \"c\" does not exist"),
        ("CREATE DATABASE a TEMPLATE a", "42P04 database \"a\" already exists"),
        ("CREATE DATABASE keyspan TEMPLATE a", "42939 database name \"keyspan\" is reserved"),
        (
            "CREATE DATABASE b TEMPLATE a AS OF 'then'",
            "22007 invalid input syntax for type timestamp with time zone: \"then\"",
        ),
        ("CREATE DATABASE b TEMPLATE a AS OF '2999-01-01Z'", "22023 the timestamp in AS OF is in the future"),
        ("CREATE DATABASE b FROM BACKUP 'here' TENANT a", "42602 the path of a backup is absolute: \"here\" is not"),
    ] {
        assert_eq!(error(&operator, sql).await, told);
    }
    let old = error(&operator, "CREATE DATABASE b TEMPLATE a AS OF '2020-01-01Z'").await;
    assert_eq!(old, error(&a, "SELECT * FROM h FOR SYSTEM_TIME AS OF '2020-01-01Z'").await);
    let nowhere = error(&operator, "CREATE DATABASE b FROM BACKUP '/nowhere' TENANT a").await;
    assert!(nowhere.contains("there is no store in /nowhere"), "{nowhere}");
    assert_eq!(error(&a, "CREATE DATABASE b TEMPLATE a").await, "42501 permission denied for CREATE DATABASE");
    assert_eq!(
        error(&a, "CREATE DATABASE b FROM BACKUP '/x' TENANT a").await,
        "42501 permission denied for CREATE DATABASE"
    );
    operator.batch_execute("BEGIN").await?;
    assert_eq!(error(&operator, "CREATE DATABASE b TEMPLATE a").await.split(' ').next(), Some("25001"));
    operator.batch_execute("ROLLBACK").await?;
    assert_eq!(rows(&operator, "SELECT tenant FROM keyspan.tenants").await?, ["a"]);

    operator.batch_execute(&format!("CREATE DATABASE b TEMPLATE = a AS OF '{then}'")).await?;
    assert_eq!(rows(&enter(&harness, "a", "b").await?, "SELECT k FROM h").await?, ["then"]);
    operator.batch_execute("CREATE TABLE plain (k text PRIMARY KEY)").await?;
    let without = error(&operator, &format!("CREATE DATABASE c TEMPLATE a AS OF '{then}'")).await;
    assert_eq!(without, "0A000 relation \"plain\" keeps no history");
    operator.batch_execute("CREATE DATABASE empty TEMPLATE template0").await?;
    assert_eq!(rows(&operator, "SELECT count(*) FROM h WHERE tenant = 'empty'").await?, ["0"]);
    Ok(())
}

/// Moves one from a row to another, in a transaction, until it is told to stop; other writers make it try again.
async fn transfers(client: Client, stop: Arc<AtomicBool>) -> Result<u64> {
    let mut done = 0;
    while !stop.load(Ordering::SeqCst) {
        let (from, to) = (done % 40, (done * 7 + 3) % 40);
        let sql = format!(
            "BEGIN; UPDATE accounts SET v = v - 1 WHERE k = {from}; UPDATE own SET v = v + 1 WHERE k = {to}; COMMIT"
        );
        if client.batch_execute(&sql).await.is_err() {
            client.batch_execute("ROLLBACK").await?;
        }
        done += 1;
    }
    Ok(done)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_of_one_moment_while_the_template_is_written() -> Result<()> {
    let harness = Harness::start_engine(|options| options.memtable_bytes = Some(64 << 10)).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE accounts (k int PRIMARY KEY, v bigint, pad text)").await?;
    let a = harness.tenant("a").await?;
    a.batch_execute(
        "CREATE TABLE own (k int PRIMARY KEY, v bigint);
         INSERT INTO accounts SELECT i, 100, repeat(md5(i::text), 20) FROM generate_series(0, 2999) AS g(i);
         INSERT INTO own SELECT i, 0 FROM generate_series(0, 39) AS g(i)",
    )
    .await?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for _ in 0..2 {
        writers.push(tokio::spawn(transfers(harness.connect("a", "a").await?, stop.clone())));
    }
    let sum = "SELECT (SELECT sum(v) FROM accounts) + (SELECT sum(v) FROM own), (SELECT count(*) FROM accounts)";
    for copy in ["b", "c", "d"] {
        operator.batch_execute(&format!("CREATE DATABASE {copy} TEMPLATE a")).await?;
        assert_eq!(rows(&enter(&harness, "a", copy).await?, sum).await?, ["300000|3000"], "{copy}");
    }
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await?? > 0, "the template was locked");
    }
    assert_eq!(rows(&a, sum).await?, ["300000|3000"]);
    Ok(())
}

/// A tenant whose copy takes several commits.
const LARGE: &str = "INSERT INTO t SELECT i, repeat(md5(i::text), 60) FROM generate_series(1, 40000) AS g(i)";

/// Waits until the copy has rows, though nobody sees it.
async fn has_begun(operator: &Client) -> Result<()> {
    loop {
        match rows(operator, "SELECT state FROM keyspan.tenants WHERE tenant = 'b'").await?.concat().as_str() {
            "" => tokio::task::yield_now().await,
            "creating" => break,
            other => anyhow::bail!("it was faster than the test: {other}"),
        }
    }
    while rows(operator, "SELECT 1 FROM t WHERE tenant = 'b' LIMIT 1").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits until nothing of the creation is left but its certificate.
async fn is_gone(operator: &Client) -> Result<()> {
    while rows(operator, "SELECT tenant FROM keyspan.drops WHERE tenant = 'b'").await? != ["b"] {
        tokio::task::yield_now().await;
    }
    assert_eq!(rows(operator, "SELECT tenant FROM keyspan.tenants").await?, ["a"]);
    assert_eq!(rows(operator, "SELECT count(*) FROM t WHERE tenant = 'b'").await?, ["0"]);
    assert_eq!(rows(operator, "SELECT count(*) FROM t").await?, ["40000"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_copy_leaves_nothing() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, other) = (harness.operator().await?, harness.operator().await?);
    operator.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v text)").await?;
    let a = harness.tenant("a").await?;
    a.batch_execute(LARGE).await?;
    a.batch_execute("CREATE TABLE own (v text); CREATE VIEW seen AS SELECT k FROM t").await?;
    let (begun, cancel) = (has_begun(&other), operator.cancel_token());
    let cancelled = async {
        begun.await?;
        assert!(error(&other, "DROP DATABASE b").await.starts_with("3D000"), "it shows before its end");
        let again = error(&other, "CREATE DATABASE b").await;
        assert_eq!(again, "42P04 database \"b\" already exists");
        cancel.cancel_query(NoTls).await?;
        anyhow::Ok(())
    };
    let (told, cancelled) = tokio::join!(error(&operator, "CREATE DATABASE b TEMPLATE a"), cancelled);
    cancelled?;
    assert_eq!(told, "57014 canceling statement due to user request");
    is_gone(&other).await?;
    operator.batch_execute("CREATE DATABASE b TEMPLATE a").await?;
    assert_eq!(rows(&enter(&harness, "a", "b").await?, "SELECT count(*) FROM seen").await?, ["40000"]);
    Ok(())
}

async fn serve(store: &Path) -> Result<Serving> {
    let small = |command: &mut tokio::process::Command| _ = command.args(["--memtable-size", "1MiB"]);
    Serving::start_with(store, Some(PASSWORD), small).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_copy_leaves_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v text); CREATE DATABASE a").await?;
    operator.batch_execute("CREATE ROLE a LOGIN PASSWORD 'a'; ALTER DATABASE a OWNER TO a").await?;
    let tenant = serving.config("a").user("a").dbname("a").clone();
    connect(&tenant).await?.batch_execute(LARGE).await?;
    let copies = connect(&serving.config(PASSWORD)).await?;
    let copying = tokio::spawn(async move { error(&copies, "CREATE DATABASE b TEMPLATE a").await });
    has_begun(&operator).await?;
    serving.signal(Signal::KILL).await?;
    assert!(copying.await?.starts_with("not from the server"), "it was faster than the test");
    let serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    is_gone(&operator).await?;
    operator.batch_execute("CREATE DATABASE b TEMPLATE a").await?;
    assert_eq!(rows(&operator, "SELECT tenant, count(*) FROM t GROUP BY 1 ORDER BY 1").await?, ["a|40000", "b|40000"]);
    Ok(())
}

#[tokio::test]
async fn a_copy_has_the_rights_of_its_template() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k text PRIMARY KEY); CREATE TABLE other (k text PRIMARY KEY)").await?;
    let a = harness.tenant("a").await?;
    let role =
        |name: &str| format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE a TO {name}");
    operator.batch_execute(&role("reader")).await?;
    operator.batch_execute(&role("maker")).await?;
    a.batch_execute("CREATE TABLE own (k text PRIMARY KEY); GRANT SELECT ON own, shared TO reader").await?;
    a.batch_execute("GRANT CREATE ON SCHEMA public TO maker").await?;
    let maker = harness.connect("maker", "a").await?;
    maker.batch_execute("CREATE TABLE made (k text PRIMARY KEY)").await?;

    operator.batch_execute("CREATE DATABASE b WITH OWNER = a TEMPLATE = a").await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE b TO reader, maker").await?;
    let (reader, maker) = (harness.connect("reader", "b").await?, harness.connect("maker", "b").await?);
    for (client, statement, expected) in [
        (&reader, "SELECT * FROM own", ""),
        (&reader, "SELECT * FROM shared", ""),
        (&reader, "SELECT * FROM other", "42501"),
        (&reader, "INSERT INTO own VALUES ('x')", "42501"),
        (&reader, "SELECT * FROM made", "42501"),
        (&reader, "CREATE TABLE t (k text PRIMARY KEY)", "42501"),
        (&maker, "INSERT INTO made VALUES ('x')", ""),
        (&maker, "ALTER TABLE made ADD COLUMN v text", ""),
        (&maker, "SELECT * FROM own", "42501"),
        (&maker, "CREATE TABLE t (k text PRIMARY KEY)", ""),
    ] {
        match expected {
            "" => drop(rows(client, statement).await.with_context(|| statement.to_owned())?),
            state => assert!(error(client, statement).await.starts_with(state), "{statement}"),
        }
    }
    // What is revoked in the one still holds in the other.
    a.batch_execute("REVOKE SELECT ON own FROM reader").await?;
    assert!(rows(&reader, "SELECT * FROM own").await?.is_empty());
    Ok(())
}
