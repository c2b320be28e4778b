//! The drop of a tenant: nothing of it stays, nothing of another goes, and its sessions end, and neither read nor write
//! any more, not even when another tenant gets its name.

use super::harness::{Harness, error, rows, told};
use anyhow::Result;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tokio_postgres::Client;

const GONE: &str = "3D000 database \"alto\" does not exist";

/// Whether an error is the end of the session: its FATAL, or a connection that is closed.
fn is_ended(told: &str) -> bool {
    told.starts_with("57P01 ") || told.starts_with("not from the server: ")
}

const NEIGHBOURS: [&str; 4] = ["al", "alto-x", "alto_x", "altostrat"];

/// An operator's client, a table, and tenant `alto`, whose client is given too.
async fn define(harness: &Harness) -> Result<(Client, Client)> {
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v bigint)").await?;
    operator.batch_execute("CREATE TABLE u (k text PRIMARY KEY, v bigint)").await?;
    operator.batch_execute("CREATE TABLE never_used (k text PRIMARY KEY)").await?;
    let alto = harness.tenant("alto").await?;
    Ok((operator, alto))
}

async fn make_again(operator: &Client) -> Result<()> {
    operator.batch_execute("CREATE DATABASE alto").await?;
    Ok(operator.batch_execute("ALTER DATABASE alto OWNER TO alto").await?)
}

#[tokio::test]
async fn a_drop_leaves_the_others_as_they_were_and_a_certificate() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, alto) = define(&harness).await?;
    for id in NEIGHBOURS {
        let other = harness.tenant(id).await?;
        other.batch_execute("INSERT INTO t VALUES ('', 1), ('#', 2), ('x', 3); INSERT INTO u VALUES ('x', 4)").await?;
    }
    let cells = async |table: &str| rows(&operator, &format!("SELECT * FROM cells('{table}')")).await;
    let (t, u) = (cells("t").await?, cells("u").await?);
    assert_eq!((t.len(), u.len()), (12, 4));
    alto.batch_execute("INSERT INTO t SELECT generate_series::text, generate_series FROM generate_series(1, 250)")
        .await?;
    alto.batch_execute("INSERT INTO u VALUES ('only', 1)").await?;
    alto.batch_execute("DELETE FROM t WHERE v > 240; UPDATE t SET v = NULL WHERE v > 230").await?;

    let dry = rows(&operator, "EXPLAIN DROP DATABASE alto").await?.join("\n");
    assert!(dry.contains("t: 240 rows") && dry.contains("u: 1 rows"), "{dry}");
    assert_eq!(rows(&operator, "SELECT count(*) FROM t WHERE tenant = 'alto'").await?, ["240"]);
    assert_eq!(rows(&operator, "SELECT * FROM keyspan.drops").await?, [""; 0]);

    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    assert!(cells("t").await? == t && cells("u").await? == u, "the drop has changed another tenant's cells");
    let certificate = "SELECT tenant, dropped_by, tables, rows, bytes > 0, dropped_at <= now() FROM keyspan.drops";
    assert_eq!(rows(&operator, certificate).await?, ["alto|keyspan|2|241|t|t"]);
    assert_eq!(rows(&operator, "SELECT tenant FROM keyspan.tenants WHERE tenant = 'alto'").await?, [""; 0]);
    assert_eq!(error(&operator, "DROP DATABASE alto").await, GONE);
    assert_eq!(error(&operator, "INSERT INTO t VALUES ('alto', 'x', 1)").await.split(' ').next(), Some("23503"));
    let refused = harness.connect("alto", "alto").await.err().map(|error| error.to_string());
    assert!(refused.is_some(), "a dropped tenant's role has connected");
    Ok(())
}

#[tokio::test]
async fn the_dry_run_of_a_drop_counts_what_the_certificate_does() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, alto) = define(&harness).await?;
    let other = harness.tenant("altostrat").await?;
    other.batch_execute("INSERT INTO never_used VALUES ('x')").await?;
    // Of the shared tables one has rows of the tenant, one had some, one never; the same of its private tables. A view
    // has none.
    for sql in [
        "INSERT INTO t VALUES ('a', 1), ('b', 2)",
        "INSERT INTO u VALUES ('a', 1)",
        "DELETE FROM u",
        "CREATE TABLE own (a int)",
        "INSERT INTO own VALUES (1), (2), (3)",
        "CREATE TABLE own_emptied (a int)",
        "INSERT INTO own_emptied VALUES (1)",
        "DELETE FROM own_emptied",
        "CREATE TABLE own_never_used (a int)",
        "CREATE VIEW seen AS SELECT a FROM own",
    ] {
        alto.batch_execute(sql).await?;
    }

    let mut dry = rows(&operator, "EXPLAIN DROP DATABASE alto").await?;
    let total = dry.pop().unwrap_or_default();
    for table in ["t", "u", "never_used", "own", "own_emptied", "own_never_used"] {
        assert!(dry.iter().any(|line| line.trim().starts_with(&format!("{table}: "))), "{table}: {dry:?}");
    }
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let certificate = rows(&operator, "SELECT tables, rows, bytes FROM keyspan.drops").await?.concat();
    let cells = rows(&operator, "SELECT cells FROM keyspan.drops").await?.concat();
    assert!(certificate.starts_with("2|5|"), "{certificate}");
    let [tables, rows, bytes] = certificate.split('|').collect::<Vec<_>>()[..] else { anyhow::bail!(certificate) };
    assert_eq!(total, format!("Total: {tables} tables, {rows} rows, {cells} cells, {bytes} bytes"));
    Ok(())
}

#[tokio::test]
async fn a_session_of_a_dropped_tenant_is_told_so_and_stays_out() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, alto) = define(&harness).await?;
    alto.batch_execute("INSERT INTO t VALUES ('old', 1)").await?;
    let prepared = alto.prepare("SELECT v FROM t").await?;
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let statements = [
        "SELECT * FROM t",
        "SELECT 1",
        "SELECT * FROM cells('t')",
        "EXPLAIN ANALYZE SELECT * FROM t",
        "SELECT * FROM pg_database",
        "INSERT INTO t VALUES ('new', 1)",
        "INSERT INTO t VALUES ('new', 1) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v",
        "UPDATE t SET v = 2",
        "DELETE FROM t",
        "COPY (SELECT * FROM t) TO 'x.parquet' (FORMAT parquet)",
    ];
    for made_again in [false, true] {
        if made_again {
            make_again(&operator).await?;
            harness.connect("alto", "alto").await?.batch_execute("INSERT INTO t VALUES ('of the new one', 7)").await?;
        }
        for sql in statements {
            let told = error(&alto, sql).await;
            assert!(is_ended(&told), "made again: {made_again}: {sql}: {told}");
        }
        let error = alto.query(&prepared, &[]).await.unwrap_err();
        assert!(is_ended(&told(&error)), "made again: {made_again}: {error}");
    }
    assert_eq!(rows(&operator, "SELECT tenant, k, v FROM t").await?, ["alto|of the new one|7"]);
    Ok(())
}

#[tokio::test]
async fn files_of_a_dropped_tenant_do_not_fall_to_the_next_of_its_name() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, alto) = define(&harness).await?;
    let export = "COPY (SELECT * FROM t) TO 'x/y.parquet' (FORMAT parquet)";
    alto.batch_execute(export).await?;
    let first = harness.copy_folder_of("alto")?;
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    std::fs::write(first.join("x/y.parquet"), "as it was")?;
    make_again(&operator).await?;
    harness.connect("alto", "alto").await?.batch_execute(export).await?;
    assert_eq!(std::fs::read(first.join("x/y.parquet"))?, b"as it was");
    assert_eq!(std::fs::read_dir(harness.copy_folder())?.count(), 2);
    Ok(())
}

#[tokio::test]
async fn a_transaction_over_a_drop_does_not_reach_the_next_tenant_of_the_name() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, first) = define(&harness).await?;
    let checked = "INSERT INTO t VALUES ('checked', 1)";
    let blind = "INSERT INTO t VALUES ('blind', 1) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v";
    let mut alto = first;
    for isolation in ["READ COMMITTED", "REPEATABLE READ"] {
        for (writes, made_again) in [(checked, false), (blind, false), (checked, true), (blind, true)] {
            alto.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}; {writes}")).await?;
            operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
            if made_again {
                make_again(&operator).await?;
            }
            let told = error(&alto, "COMMIT").await;
            assert!(
                is_ended(&told) || told.starts_with("40001 "),
                "{isolation}, {writes}, made again {made_again}: {told}"
            );
            if !made_again {
                make_again(&operator).await?;
            }
            assert_eq!(
                rows(&operator, "SELECT * FROM t").await?,
                [""; 0],
                "{isolation}, {writes}, made again {made_again}"
            );
            alto = harness.connect("alto", "alto").await?;
        }
    }
    alto.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await?;
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    make_again(&operator).await?;
    harness.connect("alto", "alto").await?.batch_execute(checked).await?;
    assert!(is_ended(&error(&alto, "SELECT * FROM t").await));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_racing_a_drop_leave_nothing_in_the_next_tenant_of_the_name() -> Result<()> {
    const ROUNDS: usize = 4;
    let harness = Harness::start().await?;
    let (operator, _alto) = define(&harness).await?;
    let neighbour = harness.tenant("altostrat").await?;
    neighbour.batch_execute("INSERT INTO t VALUES ('stays', 1)").await?;
    for round in 0..ROUNDS {
        let (written, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut writers = Vec::new();
        for kind in 0..4 {
            let client = harness.connect("alto", "alto").await?;
            let (written, stop) = (written.clone(), stop.clone());
            writers.push(tokio::spawn(async move {
                for n in 0u64.. {
                    let sql = match kind {
                        0 => format!("INSERT INTO t VALUES ('{kind}-{n}', {n})"),
                        1 => {
                            format!("INSERT INTO t VALUES ('{kind}', {n}) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v")
                        }
                        2 => "INSERT INTO t VALUES ('2', 1) ON CONFLICT (k) DO UPDATE SET v = t.v + 1".to_owned(),
                        _ => format!("BEGIN; INSERT INTO t VALUES ('{kind}-{n}', {n}); COMMIT"),
                    };
                    match client.batch_execute(&sql).await {
                        Ok(()) => {
                            written.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            let told = told(&error);
                            assert!(is_ended(&told) || told.starts_with("40001 "), "{told}");
                            if is_ended(&told) {
                                return;
                            }
                            // A transaction that failed waits for its end.
                            let _ = client.batch_execute("ROLLBACK").await;
                        }
                    }
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                }
                unreachable!("there is no last number")
            }));
        }
        while written.load(Ordering::SeqCst) < 20 {
            assert!(!writers.iter().any(|writer| writer.is_finished()), "a writer has failed");
            tokio::task::yield_now().await;
        }
        operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
        assert_eq!(rows(&operator, "SELECT tenant, k FROM t").await?, ["altostrat|stays"], "round {round}");
        make_again(&operator).await?;
        assert_eq!(rows(&operator, "SELECT tenant, k FROM t").await?, ["altostrat|stays"], "round {round}");
        stop.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await?;
        }
        assert_eq!(rows(&operator, "SELECT tenant, k FROM t").await?, ["altostrat|stays"], "round {round}");
        assert_eq!(rows(&harness.connect("alto", "alto").await?, "SELECT count(*) FROM t").await?, ["0"]);
    }
    assert_eq!(rows(&operator, "SELECT count(*) FROM keyspan.drops").await?, [ROUNDS.to_string()]);
    Ok(())
}
