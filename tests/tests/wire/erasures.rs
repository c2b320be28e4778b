//! What is erased: invisible at once in every view, its bytes gone from every file when `keyspan.erasures` says so, and
//! certified as it was counted. A drop certifies all that there was, history included.
//!
//! Each way to erase has a mark of its own in values, and keys where keys go. It is looked for in every file of the
//! store, as it stands and in digits, as manifests write keys.

use super::{
    command::Serving,
    harness::{Harness, connect, error, rows},
    purge_reader::files,
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use tokio_postgres::Client;

const PASSWORD: &str = "a password";
/// No two bytes of one repeat, so that no codec tears it.
const MARKS: [(&str, &str); 6] = [
    ("column", "mQ7xZk2Wv9"),
    ("family", "pL4sYg8Td3"),
    ("own column", "bN6rHj5Xc1"),
    ("prefix", "kV3tFw0Ez7"),
    ("truncate", "dG9uSq4Oy2"),
    ("own truncate", "hB8iMa6Rl5"),
];
/// In what stays.
const KEPT: &str = "zT1oCe5Pn8";

fn mark(of: &str) -> &'static str {
    MARKS.iter().find(|(name, _)| *name == of).expect("it is one of them").1
}

/// The files with a mark.
fn marked(store: &Path, mark: &str) -> Result<Vec<PathBuf>> {
    let digits: String = mark.bytes().map(|byte| format!("{byte:02x}")).collect();
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    let mut found = files(store)?;
    // One may have gone since.
    found.retain(|path| std::fs::read(path).is_ok_and(|bytes| has(&bytes, mark) || has(&bytes, &digits)));
    Ok(found)
}

async fn serve(store: &Path) -> Result<Serving> {
    let small = |command: &mut tokio::process::Command| _ = command.args(["--memtable-size", "64KiB"]);
    Serving::start_with(store, Some(PASSWORD), small).await
}

async fn tenant(serving: &Serving, operator: &Client, id: &str) -> Result<Client> {
    operator.batch_execute(&format!("CREATE DATABASE {id}")).await?;
    let role = format!("CREATE ROLE {id} LOGIN PASSWORD '{PASSWORD}'; ALTER DATABASE {id} OWNER TO {id}");
    operator.batch_execute(&role).await?;
    connect(serving.config(PASSWORD).user(id).dbname(id)).await
}

/// Waits until every erasure is purged, and says how many there are.
async fn purged(operator: &Client) -> Result<usize> {
    loop {
        let states = rows(operator, "SELECT purge, purge_error FROM keyspan.erasures").await?;
        if states.iter().all(|state| state == "done|") {
            return Ok(states.len());
        }
        assert!(states.iter().all(|state| ["done|", "waiting|", "running|"].contains(&state.as_str())), "{states:?}");
        tokio::task::yield_now().await;
    }
}

/// Shared tables, one for each way, that keep history.
async fn define(operator: &Client) -> Result<()> {
    let history = "WITH (history = '1 day')";
    for sql in [
        &format!("CREATE TABLE c (k text PRIMARY KEY, kept text, gone text) {history}"),
        &format!(
            "CREATE TABLE f (k text PRIMARY KEY, kept text, gone text, FAMILY m (kept), FAMILY n (gone)) {history}"
        ),
        &format!("CREATE TABLE p (who text, number int, v text, PRIMARY KEY (who, number)) {history}"),
        &format!("CREATE TABLE t (k text PRIMARY KEY, v text) {history}"),
    ] {
        operator.batch_execute(sql).await?;
    }
    Ok(())
}

/// Rows of a tenant in all of them, with the marks, of several memtables, changed and deleted.
async fn fill(client: &Client, mark: impl Fn(&str) -> &'static str) -> Result<()> {
    for table in ["own_c", "own_t"] {
        client.batch_execute(&format!("CREATE TABLE {table} (k text PRIMARY KEY, kept text, gone text)")).await?;
    }
    let series = "generate_series(0, 399) AS g(i)";
    let (filler, kept) = ("repeat(md5(i::text), 4)", format!("'{KEPT} ' || i"));
    for (table, of) in [("c", "column"), ("f", "family"), ("own_c", "own column"), ("own_t", "own truncate")] {
        let values = format!("'k' || i, {kept}, '{} ' || {filler}", mark(of));
        client.batch_execute(&format!("INSERT INTO {table} SELECT {values} FROM {series}")).await?;
        client.batch_execute(&format!("UPDATE {table} SET gone = '{} later' WHERE k LIKE 'k1%'", mark(of))).await?;
        client.batch_execute(&format!("DELETE FROM {table} WHERE k LIKE 'k2%'")).await?;
    }
    let of = mark("prefix");
    for (who, text) in [(of, of), ("other", KEPT)] {
        let values = format!("'{who}', i, '{text} ' || {filler}");
        client.batch_execute(&format!("INSERT INTO p SELECT {values} FROM {series}")).await?;
        client.batch_execute(&format!("UPDATE p SET v = '{text} later' WHERE who = '{who}' AND number < 9")).await?;
    }
    let of = mark("truncate");
    client.batch_execute(&format!("INSERT INTO t SELECT '{of}' || i, '{of} ' || {filler} FROM {series}")).await?;
    client.batch_execute(&format!("UPDATE t SET v = '{of} later' WHERE k LIKE '%1'")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_has_a_byte_of_what_was_erased() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    define(&operator).await?;
    let alto = tenant(&serving, &operator, "alto").await?;
    fill(&alto, mark).await?;
    let other = tenant(&serving, &operator, "altostrat").await?;
    fill(&other, |of| if ["column", "family"].contains(&of) { mark(of) } else { KEPT }).await?;
    for (of, mark) in MARKS {
        assert!(!marked(&store, mark)?.is_empty(), "the mark is not looked for where it is: {of}");
    }

    operator.batch_execute("ALTER TABLE c DROP COLUMN gone").await?;
    operator.batch_execute("ALTER TABLE f DROP COLUMN gone, DROP FAMILY n").await?;
    alto.batch_execute("ALTER TABLE own_c DROP COLUMN gone").await?;
    let erased = alto.execute("DELETE FROM p WHERE who = $1 ERASE", &[&mark("prefix")]).await?;
    alto.batch_execute("TRUNCATE t").await?;
    alto.batch_execute("TRUNCATE own_t").await?;
    assert_eq!(erased, 400);
    // At once, in every view.
    for (client, sql) in [
        (&operator, "SELECT count(*) FROM cells('c') WHERE qualifier = 'gone'"),
        (&operator, "SELECT count(*) FROM cells('f') WHERE qualifier = 'gone' OR family = 'n'"),
        (&alto, "SELECT count(*) FROM cells('c') WHERE qualifier = 'gone'"),
        (&alto, "SELECT count(*) FROM cells('own_c') WHERE qualifier = 'gone'"),
        (&alto, "SELECT count(*) FROM p WHERE who <> 'other'"),
        (&alto, "SELECT count(*) FROM p FOR SYSTEM_TIME AS OF now() - interval '1 millisecond' WHERE who <> 'other'"),
        (&alto, "SELECT count(*) FROM t"),
        (&alto, "SELECT count(*) FROM cells('t')"),
        (&alto, "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF now() - interval '1 millisecond'"),
        (&alto, "SELECT count(*) FROM cells('own_t')"),
    ] {
        assert_eq!(rows(client, sql).await?, ["0"], "{sql}");
    }
    assert_eq!(
        error(&alto, "SELECT * FROM c FOR SYSTEM_TIME AS OF now() - interval '1 hour'").await.get(..5),
        Some("72000")
    );
    assert_eq!(purged(&operator).await?, 7);
    for (of, mark) in MARKS {
        assert_eq!(marked(&store, mark)?, Vec::<PathBuf>::new(), "{of}");
    }
    let times = "SELECT count(*) FROM keyspan.erasures WHERE requested_at <= invisible_at AND invisible_at <= purged_at \
                 AND purged_at <= now() AND deadline = requested_at + interval '1 day' AND verified_by <> ''";
    assert_eq!(rows(&operator, times).await?, ["7"]);
    let kept = "SELECT (SELECT count(*) FROM c), (SELECT count(kept) FROM f), (SELECT count(kept) FROM own_c), \
                (SELECT count(*) FROM p), (SELECT count(*) FROM t), (SELECT count(*) FROM own_t)";
    let left = rows(&alto, kept).await?;
    assert_eq!(left, ["289|289|289|400|0|0"]);
    assert_eq!(rows(&other, kept).await?, ["289|289|289|800|400|289"]);
    serving.signal(Signal::TERM).await?;
    for (of, mark) in MARKS {
        assert_eq!(marked(&store, mark)?, Vec::<PathBuf>::new(), "after the stop: {of}");
    }
    let serving = serve(&store).await?;
    let alto = connect(serving.config(PASSWORD).user("alto").dbname("alto")).await?;
    assert_eq!(rows(&alto, kept).await?, left);
    alto.batch_execute("INSERT INTO t VALUES ('again', 'v')").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_moment_leaves_nothing_to_see_and_is_made_good() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let mut serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    define(&operator).await?;
    let alto = tenant(&serving, &operator, "alto").await?;
    fill(&alto, mark).await?;
    operator.batch_execute("ALTER TABLE c DROP COLUMN gone").await?;
    alto.batch_execute("TRUNCATE t").await?;
    alto.batch_execute("ALTER TABLE own_c DROP COLUMN gone").await?;
    serving.signal(Signal::KILL).await?;
    serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    let seen = "SELECT count(*) FROM cells('c') WHERE qualifier = 'gone'";
    assert_eq!(rows(&operator, seen).await?, ["0"]);
    assert_eq!(purged(&operator).await?, 3);
    for of in ["column", "truncate", "own column"] {
        assert_eq!(marked(&store, mark(of))?, Vec::<PathBuf>::new(), "{of}");
    }
    // The name is free again, and what it had is not back.
    operator.batch_execute("ALTER TABLE c ADD COLUMN gone text").await?;
    let alto = connect(serving.config(PASSWORD).user("alto").dbname("alto")).await?;
    assert_eq!(rows(&alto, "SELECT count(*), count(gone) FROM c").await?, ["289|0"]);
    Ok(())
}

#[tokio::test]
async fn the_certificate_of_a_drop_says_all_that_there_was() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v int) WITH (history = '1 day')").await?;
    operator.batch_execute("CREATE TABLE untouched (k text PRIMARY KEY)").await?;
    let (alto, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    for client in [&alto, &other] {
        for sql in [
            "INSERT INTO t VALUES ('a', 1), ('b', 2)",
            "UPDATE t SET v = 3",
            "DELETE FROM t WHERE k = 'b'",
            "CREATE TABLE own (id serial PRIMARY KEY, v text)",
            "INSERT INTO own (v) VALUES ('x'), ('y'), (NULL)",
            "CREATE VIEW seen AS SELECT v FROM own",
            "CREATE TEMP TABLE passing (a int)",
            "INSERT INTO passing VALUES (1), (2)",
        ] {
            client.batch_execute(sql).await?;
        }
    }
    let dry = rows(&operator, "EXPLAIN DROP DATABASE alto").await?;
    let contents = harness.instance().catalog.snapshot().tenant("alto").context("a tenant")?.clone();
    let contents = harness.instance().catalog.tenant_contents(&contents).await?;
    // Two inserts, two updates and a delete; a row with two versions is left.
    let of_t = contents.by_table.iter().find(|of| of.table.as_deref() == Some("t")).context("the table")?;
    assert_eq!((of_t.size.rows, of_t.size.cells, of_t.size.history_rows), (1, 2, 5));
    let counted = (contents.tables, contents.private_tables, contents.sequences, contents.views);
    assert_eq!(counted, (2, 1, 1, 1));
    assert_eq!((contents.temporary_tables, contents.temporary_rows), (1, 2));
    assert_eq!((contents.total.rows, contents.total.cells), (4, 2 + 2));
    let line = |name: &str| dry.iter().find(|line| line.trim().starts_with(name)).cloned().unwrap_or_default();
    assert!(line("t:").starts_with("  t: 1 rows, 2 cells, ") && line("t:").contains("; history: 5 rows, "), "{dry:?}");
    assert_eq!(line("untouched:"), "  untouched: 0 rows, 0 cells, 0 bytes");

    drop(alto);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let drops = harness.instance().catalog.snapshot().drops.clone();
    let certified = &drops.first().context("a certificate")?.contents;
    // The session's temporary table has ended with it, or is among what is deleted.
    assert_eq!(
        (&certified.by_table, certified.total, certified.sequences, certified.views),
        (&contents.by_table, contents.total, contents.sequences, contents.views)
    );
    let told = "SELECT tables, rows, cells, history_rows, private_tables, sequences, views, exports FROM keyspan.drops";
    assert_eq!(rows(&operator, told).await?, ["2|4|4|5|1|1|1|0"]);
    while rows(&operator, "SELECT purge FROM keyspan.drops").await? != ["done"] {
        tokio::task::yield_now().await;
    }
    for sql in [
        "SELECT count(*) FROM t WHERE tenant = 'alto'",
        "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF now() - interval '1 millisecond' WHERE tenant = 'alto'",
        "SELECT count(*) FROM cells('t') WHERE tenant = 'alto'",
    ] {
        assert_eq!(rows(&operator, sql).await?, ["0"], "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn who_may_erase() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v int)").await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("INSERT INTO t VALUES ('a', 1), ('b', 2)").await?;
    operator.batch_execute(&format!("CREATE ROLE nell LOGIN PASSWORD '{}'", super::harness::PASSWORD)).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE alto TO nell").await?;
    let nell = harness.connect("nell", "alto").await?;
    let (erase, truncate) = ("DELETE FROM t WHERE k = 'a' ERASE", "TRUNCATE t");
    let denied = async |sql: &str| error(&nell, sql).await.starts_with("42501");
    assert!(denied(erase).await && denied(truncate).await);
    alto.batch_execute("GRANT SELECT ON t TO nell").await?;
    assert!(denied(erase).await && denied(truncate).await);
    alto.batch_execute("GRANT DELETE ON t TO nell").await?;
    assert!(denied(truncate).await);
    nell.batch_execute(erase).await?;
    assert!(denied("ALTER TABLE t DROP COLUMN v").await || rows(&nell, "SELECT k FROM t").await? == ["b"]);
    alto.batch_execute("GRANT TRUNCATE ON t TO nell").await?;
    nell.batch_execute(truncate).await?;
    let told = "SELECT kind, requested_by, rows FROM keyspan.erasures ORDER BY number";
    assert_eq!(rows(&alto, told).await?, ["prefix|nell|1", "truncate|nell|1"]);
    Ok(())
}
