//! `FOR SYSTEM_TIME AS OF` over the wire, whatever the engine does with its files meanwhile.

use super::harness::{Harness, rows};
use anyhow::{Context, Result};
use tokio_postgres::Client;

const ALL: &str = "SELECT a, b, n, note FROM h";

/// A moment, and what a session saw then.
struct Seen {
    moment: String,
    rows: Vec<String>,
}

async fn see(client: &Client) -> Result<Seen> {
    let rows = rows(client, &format!("{ALL} ORDER BY a, b")).await?;
    let moment = self::rows(client, "SELECT now()").await?;
    Ok(Seen { moment: moment.into_iter().next().context("now() is a row")?, rows })
}

/// Everything is seen again, in several ways.
async fn check(what: &str, client: &Client, seen: &[Seen]) -> Result<()> {
    for Seen { moment, rows: expected } in seen {
        let then = format!("h FOR SYSTEM_TIME AS OF '{moment}'");
        let found = rows(client, &format!("SELECT a, b, n, note FROM {then} ORDER BY a, b")).await?;
        assert_eq!(&found, expected, "{what}, {moment}");
        let mut found = rows(client, &format!("SELECT a, b, n, note FROM {then} ORDER BY a DESC, b DESC")).await?;
        found.reverse();
        assert_eq!(&found, expected, "{what}, {moment}, backwards");
        let of_key = |key: &str| expected.iter().filter(|row| row.starts_with(key)).cloned().collect::<Vec<_>>();
        let found = rows(client, &format!("SELECT a, b, n, note FROM {then} WHERE a = 'k3' AND b = 7")).await?;
        assert_eq!(found, of_key("k3|7|"), "{what}, {moment}");
    }
    let now = seen.last().context("something was seen")?;
    assert_eq!(rows(client, &format!("{ALL} ORDER BY a, b")).await?, now.rows, "{what}, now");
    Ok(())
}

#[tokio::test]
async fn semantics_7_the_past_outlives_flushes_compactions_and_restarts() -> Result<()> {
    let mut harness = Harness::start().await?;
    let (mut alto, altostrat) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let made = "CREATE TABLE h (a text, b int, n int, note text, PRIMARY KEY (a, b), FAMILY m (n), FAMILY k (note))
        WITH (history = '1 day', m.max_versions = 1)";
    harness.operator().await?.batch_execute(made).await?;
    let mut seen = vec![see(&alto).await?];
    let steps = [
        "INSERT INTO h SELECT 'k' || (g % 5)::text, g, g, 'first' FROM generate_series(1, 60) AS t (g)",
        "UPDATE h SET n = n + 1000, note = NULL WHERE a = 'k1'",
        "DELETE FROM h WHERE a = 'k3'; INSERT INTO h VALUES ('k3', 7, 7, 'again'), ('z', 1, NULL, NULL)",
        "DELETE FROM h WHERE b > 30",
        "UPDATE h SET n = 0; DELETE FROM h WHERE a = 'k4'",
    ];
    altostrat.batch_execute("INSERT INTO h VALUES ('k1', 1, 100, 'a neighbour')").await?;
    for (step, sql) in steps.into_iter().enumerate() {
        alto.batch_execute(sql).await.with_context(|| sql.to_owned())?;
        seen.push(see(&alto).await?);
        match step % 3 {
            0 => harness.engine().flush().await?,
            1 => harness.engine().compact(None).await?,
            _ => {
                harness = harness.restart().await?;
                alto = harness.connect("alto", "alto").await?;
            }
        }
        check(sql, &alto, &seen).await?;
    }
    assert_eq!(seen.iter().map(|seen| seen.rows.len()).collect::<Vec<_>>(), [0, 60, 60, 50, 26, 20]);

    let operator = harness.operator().await?;
    let stored = rows(
        &operator,
        "SELECT DISTINCT table_name, stored_as LIKE '%@past' FROM keyspan.tablets WHERE table_name = 'h'",
    );
    assert_eq!(stored.await?.len(), 2, "the table, and its past");
    drop(alto);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    harness.engine().compact(None).await?;
    let then = &seen.last().context("something was seen")?.moment;
    let left = rows(&operator, &format!("SELECT tenant, a, b, n, note FROM h FOR SYSTEM_TIME AS OF '{then}'")).await?;
    assert_eq!(left, ["altostrat|k1|1|100|a neighbour"]);
    Ok(())
}
