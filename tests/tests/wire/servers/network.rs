//! Between the gateway and the server is a network: how many requests a statement sends, and what SQL says when
//! requests and answers are lost, doubled and cut.

use super::{READINGS, World, both, instance};
use crate::wire::harness::{error, rows, told};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::SinkExt;
use keyspan_bigtable::Settings;
use proxy::Proxy;
use std::sync::{Arc, atomic::Ordering};
use tokio_postgres::Client;

#[path = "../../../../storage/bigtable/tests/emulator/proxy.rs"]
#[expect(clippy::unwrap_used, reason = "it is a test's")]
mod proxy;

/// Runs over a network that fails.
const SEEDS: u64 = 200;
/// The same of runs that take longer.
const CUT_SEEDS: u64 = 8;
/// One of so many chances of the network to fail is taken.
const ODDS: u32 = 12;

/// A gateway that has a network before its server.
async fn world() -> Result<(World, Arc<Proxy>)> {
    let host = std::env::var("BIGTABLE_EMULATOR_HOST").context("BIGTABLE_EMULATOR_HOST: run .ci/bigtable")?;
    let (proxy, through) = Proxy::serve(&Settings::emulator(&host, "secret", "any"), 0, 0).await;
    let through = through.data_uri.trim_start_matches("http://").to_owned();
    let instance = instance();
    let world = World::start_behind(&instance, READINGS, |command| {
        command.env("BIGTABLE_EMULATOR_HOST", through);
    });
    Ok((world.await?, proxy))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted() -> Result<()> {
    let (world, proxy) = world().await?;
    let alto = world.tenant("alto").await?;
    alto.batch_execute("INSERT INTO counters VALUES ('a', 1, 'x')").await?;
    let mut counted = Vec::new();
    for (sql, requests) in [
        // One read.
        ("SELECT n FROM counters WHERE k = 'a'", 1),
        ("SELECT n, who FROM counters WHERE k IN ('a', 'b', 'c')", 1),
        ("SELECT k FROM counters WHERE k >= 'a' ORDER BY k LIMIT 3", 1),
        ("SELECT count(*) FROM counters WHERE k < 'b' AND n > 0", 1),
        // A read, and a write on the condition that the row is the one that was read.
        ("UPDATE counters SET n = n + 1 WHERE k = 'a'", 2),
        ("UPDATE counters SET who = 'y' WHERE k = 'a'", 2),
        ("DELETE FROM counters WHERE k = 'a'", 2),
        ("INSERT INTO counters VALUES ('a', 1, 'x') ON CONFLICT (k) DO UPDATE SET n = counters.n + 1", 2),
        // The key is looked up, then the row that is there; on the condition that there is none.
        ("INSERT INTO counters VALUES ('b', 1, 'x')", 2),
    ] {
        // The first time asks for the schema, and plans.
        for time in ["first", "second"] {
            alto.batch_execute("DELETE FROM counters WHERE k = 'b'").await?;
            let again = "INSERT INTO counters VALUES ('a', 1, 'x') ON CONFLICT (k) DO UPDATE SET n = 1";
            alto.batch_execute(again).await?;
            let before = proxy.requests.load(Ordering::SeqCst);
            alto.batch_execute(sql).await?;
            let sent = proxy.requests.load(Ordering::SeqCst) - before;
            counted
                .extend((sent != requests).then(|| format!("{sent} requests, not {requests}, the {time} time: {sql}")));
        }
    }
    ensure!(counted.is_empty(), "{counted:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_without_decisions_about_rows_is_for_reading() -> Result<()> {
    let (world, proxy) = world().await?;
    let alto = world.tenant("alto").await?;
    let permit = |is: bool| proxy.is_transactional.store(is, Ordering::SeqCst);
    let refused = "25006 tables on this server can only be read: \
        its application profile permits no single-row transactions";
    permit(false);
    let copied = async || {
        let sink = alto.copy_in::<_, Bytes>("COPY counters (k, n) FROM STDIN").await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from_static(b"c\t3\n")).await?;
        sink.finish().await
    };
    for sql in [
        "INSERT INTO counters VALUES ('a', 1, 'x')",
        "INSERT INTO counters VALUES ('a', 1, 'x') ON CONFLICT (k) DO UPDATE SET n = 2",
        "INSERT INTO counters SELECT 'a' || n, n FROM generate_series(1, 100) n",
    ] {
        assert_eq!(error(&alto, sql).await, refused, "{sql}");
    }
    assert_eq!(copied().await.map_err(|error| told(&error)), Err(refused.to_owned()));
    assert_eq!(both(&alto, "SELECT count(*) FROM counters").await?, ["0"]);
    permit(true);
    alto.batch_execute("INSERT INTO counters VALUES ('a', 1, 'x'), ('b', 2, 'y')").await?;
    assert_eq!(copied().await?, 1);
    permit(false);
    for sql in ["UPDATE counters SET n = n + 1 WHERE k = 'a'", "DELETE FROM counters WHERE k = 'a' AND n = 1"] {
        assert_eq!(error(&alto, sql).await, refused, "{sql}");
    }
    assert_eq!(both(&alto, "SELECT k, n FROM counters ORDER BY k").await?, ["a|1", "b|2", "c|3"]);
    Ok(())
}

/// What the row of a run may hold.
#[derive(Debug, Default)]
struct Expected {
    /// Whether it was inserted; `None` if no one knows.
    there: Option<bool>,
    /// What was certainly added, and what may have been.
    added: i64,
    perhaps: i64,
}

/// What a statement says in the end: done, not done, or that no one knows.
async fn outcome(client: &Client, sql: &str) -> Result<Option<bool>> {
    match client.execute(sql, &[]).await {
        Ok(_) => Ok(Some(true)),
        Err(error) => {
            let told = error.as_db_error().with_context(|| format!("{sql}: {error}"))?;
            match told.code().code() {
                // A connection that is lost before the write; the row has changed.
                "40001" => Ok(Some(false)),
                "40003" | "08006" => Ok(None),
                other => anyhow::bail!("{sql}: {other} {}", told.message()),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_fails_loses_and_doubles_nothing() -> Result<()> {
    let (world, proxy) = world().await?;
    let alto = world.tenant("alto").await?;
    for seed in 0..SEEDS {
        let mut expected = Expected::default();
        let key = format!("run{seed:03}");
        proxy.begin(seed, ODDS);
        // Never 23505: nobody else writes this key.
        expected.there = outcome(&alto, &format!("INSERT INTO counters VALUES ('{key}', 100, 'made')")).await?;
        for way in 0..6 {
            let add = match way % 3 {
                0 => format!("UPDATE counters SET n = n + 1 WHERE k = '{key}'"),
                1 => format!("UPDATE counters SET n = n + 1 WHERE k BETWEEN '{key}' AND '{key}' AND n >= 0"),
                _ => format!(
                    "INSERT INTO counters VALUES ('{key}', 101) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1"
                ),
            };
            match outcome(&alto, &add).await? {
                Some(true) if expected.there == Some(true) => expected.added += 1,
                Some(false) => {}
                // Of a row that may not be there more cannot be said.
                _ => expected.perhaps += 1,
            }
            if way % 3 == 2 && expected.there != Some(true) {
                break;
            }
        }
        proxy.begin(seed, 0);
        let found = rows(&alto, &format!("SELECT n FROM counters WHERE k = '{key}'")).await?;
        match (expected.there, found.as_slice()) {
            (Some(true), [n]) => {
                let (n, least) = (n.parse::<i64>()?, 100 + expected.added);
                ensure!((least..=least + expected.perhaps).contains(&n), "seed {seed}: {n} of {expected:?}");
            }
            (Some(true), []) => anyhow::bail!("seed {seed}: the row is lost, of {expected:?}"),
            (_, [] | [_]) => {}
            (_, more) => anyhow::bail!("seed {seed}: {more:?}"),
        }
    }
    let all = both(&alto, "SELECT count(*), count(DISTINCT k) FROM counters").await?;
    let (rows, keys) = all[0].split_once('|').context("two numbers")?;
    assert_eq!(rows, keys);
    let failures = proxy.failures.load(Ordering::SeqCst);
    ensure!(failures as u64 > SEEDS, "the network failed {failures} times only");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_cut_go_on() -> Result<()> {
    let (world, proxy) = world().await?;
    let alto = world.tenant("alto").await?;
    alto.batch_execute("SET keyspan.transactions = 'row'").await?;
    for seed in 0..CUT_SEEDS {
        proxy.begin(seed, ODDS);
        let (from, to) = (seed * 100, seed * 100 + 99);
        // Blind upserts, of which each is done again until it is done.
        let fill = format!(
            "INSERT INTO counters SELECT 'k' || lpad(n::text, 6, '0'), n FROM generate_series({from}, {to}) n
             ON CONFLICT (k) DO UPDATE SET n = excluded.n"
        );
        while outcome(&alto, &fill).await? != Some(true) {}
        // Reads are tried again by the client; one that it gives up is an error, and no wrong answer.
        for sql in [
            "SELECT count(*), count(DISTINCT k), sum(n) FROM counters",
            "SELECT count(*), count(DISTINCT k), sum(n) FROM (SELECT * FROM counters ORDER BY k DESC) c",
        ] {
            let found = loop {
                match rows(&alto, sql).await {
                    Ok(found) => break found,
                    Err(error) => {
                        let state = error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.code());
                        ensure!(state.is_some_and(|state| state.code() == "08006"), "{error:#}");
                    }
                }
            };
            let all = to + 1;
            assert_eq!(found, [format!("{all}|{all}|{}", all * (all - 1) / 2)], "seed {seed}");
        }
    }
    Ok(())
}
