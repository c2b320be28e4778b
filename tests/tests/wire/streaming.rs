//! Rows are made as they are read: a large result is never held, and a statement that nobody wants any more ends.

use super::{
    command::Serving,
    harness::{Harness, Raw, connect, error, rows, told},
};
use anyhow::{Context, Result};
use std::pin::pin;
use tokio_postgres::{Client, NoTls};

const PASSWORD: &str = "a password";
/// A million rows of 300 bytes each, from a table joined with numbers.
const MILLION: &str = "SELECT t.k, s, repeat('x', 290) FROM generate_series(1, 10000) s CROSS JOIN t";
/// Statements that give no row, or no end, for as long as nobody stops them.
const ENDLESS: [&str; 3] = [
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 10000000) b",
    "SELECT sum(t.k + b) FROM t, generate_series(1, 1000000000000) b",
    "EXPLAIN ANALYZE SELECT a FROM generate_series(1, 1000000) a, generate_series(1, 10000000) b",
];

/// A join by an inequality, in which the operator computes for minutes before it gives way.
const STUBBORN: &str = "SELECT a FROM generate_series(1, 1000000) a, generate_series(1, 10000000) b WHERE a + b < 0";

/// A line of `/proc/PID/status`, in KiB.
fn memory(serving: &Serving, line: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id().context("a process")?))?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)).context("the line")?;
    Ok(found.split_whitespace().next().context("a number")?.parse()?)
}

/// The rows that are still to come, up to the end of a query.
async fn count_rows(raw: &mut Raw) -> Result<u64> {
    let mut count = 0;
    while let Some((kind, body)) = raw.next().await? {
        match kind {
            b'D' => count += 1,
            b'E' => anyhow::bail!("{}", String::from_utf8_lossy(&body)),
            b'Z' => return Ok(count),
            _ => {}
        }
    }
    anyhow::bail!("the connection has ended")
}

/// Four clients ask for 300 MB each; three read the first row and then nothing, one reads all. Each query runs for
/// itself: had the server no bound, it would hold what the three do not take while the fourth reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_rows_hold_a_bounded_number_of_batches() -> Result<()> {
    const BOUND_KIB: u64 = 300 << 10;
    let folder = tempfile::tempdir()?;
    let serving = Serving::start(folder.path(), Some(PASSWORD)).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute("CREATE DATABASE alto; CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    operator.batch_execute("INSERT INTO t SELECT 'alto', g FROM generate_series(1, 100) g").await?;
    let before = memory(&serving, "VmRSS:")?;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let (mut raw, _) = Raw::log_in(serving.address, "keyspan", PASSWORD, "alto").await?;
        raw.message(b'Q', format!("{MILLION}\0").as_bytes()).await?;
        while raw.next().await?.context("a first row")?.0 != b'D' {}
        clients.push(raw);
    }
    let mut reader = clients.pop().context("a client")?;
    assert_eq!(count_rows(&mut reader).await?, 999_999);
    let peak = memory(&serving, "VmHWM:")?;
    assert!(peak < before + BOUND_KIB, "{peak} KiB at the peak, {before} KiB before");
    // Those that did not read have lost nothing by it.
    let mut reader = clients.pop().context("a client")?;
    assert_eq!(count_rows(&mut reader).await?, 999_999);
    Ok(())
}

async fn define(harness: &Harness) -> Result<Client> {
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("INSERT INTO t SELECT g FROM generate_series(1, 100) g").await?;
    Ok(alto)
}

/// Asks for a cancel, again and again: one that comes before the statement began has no effect.
async fn cancel_until_done<T>(client: &Client, statement: impl Future<Output = T>) -> Result<T> {
    let token = client.cancel_token();
    let mut statement = pin!(statement);
    loop {
        tokio::select! {
            done = &mut statement => return Ok(done),
            cancelled = token.cancel_query(NoTls) => cancelled?,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_stops_a_statement_before_its_first_row() -> Result<()> {
    let harness = Harness::start().await?;
    let client = define(&harness).await?;
    let cancelled = "57014 canceling statement due to user request";
    for sql in ENDLESS {
        assert_eq!(cancel_until_done(&client, error(&client, sql)).await?, cancelled, "simple: {sql}");
        let done = cancel_until_done(&client, client.query(sql, &[])).await?;
        assert_eq!(told(&done.unwrap_err()), cancelled, "extended: {sql}");
        // The last requests may still be on their way: they must not hit what comes next for good.
        loop {
            match rows(&client, "SELECT 7").await {
                Ok(one) => break assert_eq!(one, ["7"]),
                Err(error) => {
                    assert!(format!("{error:?}").contains("canceling statement due to user request"), "{error:?}")
                }
            }
        }
    }
    let insert = "INSERT INTO t SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 10000000) b";
    assert_eq!(cancel_until_done(&client, error(&client, insert)).await?, cancelled);
    let after = harness.connect("alto", "alto").await?;
    assert_eq!(rows(&after, "SELECT count(*), max(k) FROM t").await?, ["100|100"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_statement_fails_its_transaction() -> Result<()> {
    let harness = Harness::start().await?;
    let client = define(&harness).await?;
    client.batch_execute("BEGIN; INSERT INTO t VALUES (0)").await?;
    client.batch_execute("SET LOCAL statement_timeout = '50ms'").await?;
    assert_eq!(error(&client, ENDLESS[0]).await, "57014 canceling statement due to statement timeout");
    assert!(error(&client, "SELECT 1").await.starts_with("25P02 "));
    client.batch_execute("COMMIT").await?;
    assert_eq!(rows(&client, "SHOW statement_timeout; SELECT count(*) FROM t").await?, ["0", "100"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_stops_a_statement_before_its_first_row() -> Result<()> {
    let harness = Harness::start().await?;
    let client = define(&harness).await?;
    client.batch_execute("SET statement_timeout = '50ms'").await?;
    let timed_out = "57014 canceling statement due to statement timeout";
    for sql in ENDLESS {
        assert_eq!(error(&client, sql).await, timed_out, "simple: {sql}");
        assert_eq!(told(&client.query(sql, &[]).await.unwrap_err()), timed_out, "extended: {sql}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_ends_a_statement_that_gives_no_rows() -> Result<()> {
    let harness =
        Harness::start_with(|options| (options.connections_max, options.connections_reserved) = (3, 0)).await?;
    let alto = define(&harness).await?;
    drop(alto);
    for sql in ENDLESS.into_iter().chain(ENDLESS) {
        let (mut raw, _) = loop {
            match Raw::log_in(harness.address(), "alto", super::harness::PASSWORD, "alto").await {
                Ok(raw) => break raw,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        raw.message(b'Q', format!("{sql}\0").as_bytes()).await?;
        drop(raw);
    }
    // Three places, six statements that would run for days: the fourth and those after it, and this one, get in only
    // when others have ended.
    let client = loop {
        match harness.connect("alto", "alto").await {
            Ok(client) => break client,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await?, ["100"]);
    Ok(())
}

/// In a process of its own: what computes there ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_does_not_give_way_holds_up_no_connection() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start(folder.path(), Some(PASSWORD)).await?;
    let client = connect(&serving.config(PASSWORD)).await?;
    let stopped = cancel_until_done(&client, error(&client, STUBBORN)).await?;
    assert_eq!(stopped, "57014 canceling statement due to user request");
    // On another connection: the last cancel requests may still be on their way.
    let client = connect(&serving.config(PASSWORD)).await?;
    client.batch_execute("SET statement_timeout = '200ms'").await?;
    assert_eq!(error(&client, STUBBORN).await, "57014 canceling statement due to statement timeout");
    assert_eq!(rows(&connect(&serving.config(PASSWORD)).await?, "SELECT 7").await?, ["7"]);
    serving.signal(rustix::process::Signal::KILL).await?;
    Ok(())
}
