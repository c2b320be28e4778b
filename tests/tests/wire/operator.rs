//! What the operator sees of the store: that `keyspan.segments`, `tablets`, `compactions` and `memory` tell of the rows
//! that are there and of the files that hold them, and that nobody else sees them.

use super::harness::{Harness, PASSWORD, error, rows};
use anyhow::{Context, Result};
use tokio_postgres::Client;

const RELATIONS: [&str; 6] = ["segments", "tablets", "compactions", "memory", "tenants", "drops"];

async fn one(client: &Client, sql: &str) -> Result<String> {
    let mut found = rows(client, sql).await?;
    assert_eq!(found.len(), 1, "{sql}: {found:?}");
    found.pop().context("a row")
}

/// Tenants `a` and `b` with 300 and 200 rows of table `t`, and no segment yet.
async fn define() -> Result<(Harness, Client)> {
    let harness = Harness::start_engine(|options| options.compacts = false).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    for (id, count) in [("a", 300), ("b", 200)] {
        let insert = format!("INSERT INTO t SELECT k, md5(k::text) FROM generate_series(1, {count}) AS g(k)");
        harness.tenant(id).await?.batch_execute(&insert).await?;
    }
    Ok((harness, operator))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_relations_tell_what_the_files_hold() -> Result<()> {
    let (harness, operator) = define().await?;
    let segments = "SELECT kind, rows, dead_rows, first_key, last_key FROM keyspan.segments WHERE table_name = 't' ORDER BY segment";
    let tablets = "SELECT tablet, until, segments, deltas, rows, dead_rows FROM keyspan.tablets WHERE table_name = 't'";
    assert_eq!(rows(&operator, segments).await?, [""; 0]);
    let memtable = "SELECT bytes > 20000 AND bytes <= limit_bytes FROM keyspan.memory WHERE area = 'store: memtable'";
    assert_eq!(one(&operator, memtable).await?, "t");

    harness.engine().flush().await?;
    let found = rows(&operator, segments).await?;
    assert!(found.len() == 1 && found[0].starts_with("delta|500|0|a#") && found[0].contains("|b#"), "{found:?}");
    assert_eq!(one(&operator, tablets).await?, "||1|1|500|0");
    assert_eq!(one(&operator, memtable).await?, "f");

    // What is changed or deleted is dead there, and in the next delta where it has a new version.
    let a = harness.connect("a", "a").await?;
    a.batch_execute("DELETE FROM t WHERE k <= 10; UPDATE t SET v = 'new' WHERE k BETWEEN 11 AND 15").await?;
    assert_eq!(one(&operator, tablets).await?, "||1|1|500|15");
    harness.engine().flush().await?;
    assert_eq!(one(&operator, tablets).await?, "||2|2|505|15");
    harness.engine().compact(None).await?;
    assert_eq!(one(&operator, tablets).await?, "||1|0|490|0");
    let done = "SELECT state, reason, rows_read, rows_written, bytes_read > 0, bytes_written > 0, error, finished_at >= started_at
        FROM keyspan.compactions WHERE table_name = 't'";
    assert_eq!(one(&operator, done).await?, "done|asked|490|490|t|t||t");

    // The file of the segment is there, as large as it says.
    let of = "SELECT segment, bytes, side_bytes, written_at <= now() FROM keyspan.segments WHERE table_name = 't'";
    let found = one(&operator, of).await?;
    let [segment, bytes, side, written] = found.split('|').collect::<Vec<_>>()[..] else { panic!("{found}") };
    let file = harness.store_folder().join(format!("seg/{segment}.parquet"));
    assert_eq!((std::fs::metadata(file)?.len().to_string().as_str(), side, written), (bytes, "0", "t"));

    // A renamed table is found by its new name, and still stored as before.
    let stored = one(&operator, "SELECT stored_as FROM keyspan.tablets WHERE table_name = 't'").await?;
    operator.batch_execute("ALTER TABLE t RENAME TO renamed").await?;
    assert_eq!(one(&operator, "SELECT stored_as FROM keyspan.tablets WHERE table_name = 'renamed'").await?, stored);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_within_what_it_says_are_its_limits() -> Result<()> {
    let (harness, operator) = define().await?;
    harness.engine().compact(None).await?;
    for sql in ["SELECT count(*) FROM t WHERE v LIKE '%a%'", "SELECT * FROM t WHERE tenant = 'a' AND k = 7"] {
        rows(&operator, sql).await?;
    }
    let over = "SELECT area FROM keyspan.memory WHERE bytes > limit_bytes";
    assert_eq!(rows(&operator, over).await?, [""; 0]);
    let areas = "SELECT area FROM keyspan.memory WHERE area LIKE 'store%' ORDER BY 1";
    let expected = [
        "store: footer cache",
        "store: memtable",
        "store: memtable being flushed",
        "store: page cache",
        "store: row cache",
    ];
    assert_eq!(rows(&operator, areas).await?, expected);
    let used =
        "SELECT bool_and(bytes > 0) FROM keyspan.memory WHERE area IN ('process', 'store: footer cache', 'disk: log')";
    assert_eq!(one(&operator, used).await?, "t");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_sees_them() -> Result<()> {
    let (harness, operator) = define().await?;
    harness.engine().flush().await?;
    operator.batch_execute(&format!("CREATE ROLE max LOGIN SUPERUSER PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE a TO max").await?;
    // An operator in a tenant's database is no operator there.
    let sessions = [harness.connect("a", "a").await?, harness.connect("max", "a").await?];
    for client in &sessions {
        for relation in RELATIONS {
            let told = error(client, &format!("SELECT * FROM keyspan.{relation}")).await;
            assert!(told.starts_with("42P01 "), "{relation}: {told}");
            let told = error(client, &format!("EXPLAIN SELECT * FROM keyspan.{relation}")).await;
            assert!(told.starts_with("42P01 "), "{relation}: {told}");
        }
        let listed = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'keyspan'";
        assert_eq!(one(client, listed).await?, "0");
    }
    let max = harness.connect("max", "keyspan").await?;
    for relation in RELATIONS {
        rows(&max, &format!("SELECT * FROM keyspan.{relation}")).await?;
        let told = error(&max, &format!("DELETE FROM keyspan.{relation}")).await;
        assert!(told.starts_with("42"), "{relation}: {told}");
    }
    Ok(())
}
