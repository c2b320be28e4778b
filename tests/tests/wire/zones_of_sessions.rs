//! Time zones and styles of a session: where they come from, that the client hears of them, what they change, and that
//! no plan outlives them.

use super::harness::{Harness, PASSWORD, Raw, error, rows, setting};
use anyhow::{Result, ensure};
use std::time::{Duration, SystemTime};
use tokio_postgres::Client;

async fn one(client: &Client, sql: &str) -> Result<String> {
    Ok(rows(client, sql).await?.join("\n"))
}

#[tokio::test]
async fn a_zone_comes_from_the_client_the_role_or_the_database_and_is_reported() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute("ALTER DATABASE alto SET timezone = 'europe/berlin'").await?;
    operator.batch_execute("ALTER DATABASE alto SET datestyle = 'SQL, DMY'").await?;
    let (_, _, reported) = Raw::begin(harness.address(), "user\0alto\0database\0alto\0\0", PASSWORD).await?;
    for expected in ["TimeZone=Europe/Berlin", "DateStyle=SQL, DMY", "IntervalStyle=postgres"] {
        ensure!(reported.iter().any(|one| one == expected), "{expected} in {reported:?}");
    }
    operator.batch_execute("ALTER ROLE alto SET timezone TO 'Asia/Tokyo'").await?;
    let session = harness.connect("alto", "alto").await?;
    ensure!(one(&session, "SELECT '2026-01-01 00:00Z'::timestamptz").await? == "01/01/2026 09:00:00 JST");
    // As JDBC sends it.
    let parameters = "user\0alto\0database\0alto\0TimeZone\0america/new_york\0DateStyle\0ISO\0\0";
    let (mut raw, _, reported) = Raw::begin(harness.address(), parameters, PASSWORD).await?;
    ensure!(reported.iter().any(|one| one == "TimeZone=America/New_York"), "{reported:?}");
    ensure!(reported.iter().any(|one| one == "DateStyle=ISO, DMY"), "{reported:?}");
    let mut change = async |sql: &str| -> Result<Vec<String>> {
        raw.message(b'Q', format!("{sql}\0").as_bytes()).await?;
        let mut changed = Vec::new();
        while let Some((kind, body)) = raw.next().await? {
            match kind {
                b'S' => changed.push(setting(&body)),
                b'Z' => break,
                _ => {}
            }
        }
        Ok(changed)
    };
    ensure!(change("SET TIME ZONE '+02'").await? == ["TimeZone=<+02>-02"]);
    ensure!(change("SET intervalstyle = iso_8601").await? == ["IntervalStyle=iso_8601"]);
    ensure!(change("BEGIN; SET LOCAL timezone = 'UTC'").await? == ["TimeZone=UTC"]);
    ensure!(change("COMMIT").await? == ["TimeZone=<+02>-02"]);
    ensure!(change("RESET ALL").await?.contains(&"TimeZone=America/New_York".to_owned()));
    let wrong = "user\0alto\0database\0alto\0TimeZone\0Nowhere\0\0";
    let refused = Raw::begin(harness.address(), wrong, PASSWORD).await;
    ensure!(refused.is_err_and(|error| error.to_string().contains("22023")), "a zone that there is not");
    ensure!(error(&session, "SET timezone = 'Nowhere'").await.starts_with("22023"));
    Ok(())
}

#[tokio::test]
async fn no_plan_keeps_a_zone_of_another_moment() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE r (at timestamptz PRIMARY KEY, n int)").await?;
    client
        .batch_execute(
            "INSERT INTO r VALUES ('2026-03-29 00:30Z', 1), ('2026-03-29 01:30Z', 2), ('2026-03-29 06:30Z', 3)",
        )
        .await?;
    let queries = [
        "SELECT n FROM r WHERE at = '2026-03-29 03:30'",
        "SELECT at FROM r WHERE at >= '2026-03-29 02:30' ORDER BY at",
        "SELECT at::date, at::text, extract(hour FROM at) FROM r ORDER BY at",
        "SELECT date_trunc('day', at), count(*) FROM r GROUP BY 1 ORDER BY 1",
        "SELECT at + interval '1 day' FROM r WHERE at < date '2026-03-30' ORDER BY at",
        "SELECT n FROM r WHERE at::time > '03:00' ORDER BY n",
    ];
    let mut prepared = Vec::new();
    for sql in queries {
        prepared.push(client.prepare(sql).await?);
    }
    let equal = client.prepare("SELECT n FROM r WHERE at = $1::text::timestamptz").await?;
    let days = client.prepare("SELECT n FROM r WHERE at::date = $1::text::date").await?;
    let mut answers = Vec::new();
    for _ in 0..2 {
        for zone in ["UTC", "Europe/Berlin", "Asia/Tokyo", "America/New_York"] {
            client.batch_execute(&format!("SET timezone = '{zone}'")).await?;
            // A fresh session has nothing to keep.
            let fresh = harness.connect("alto", "alto").await?;
            fresh.batch_execute(&format!("SET timezone = '{zone}'")).await?;
            for (sql, statement) in queries.iter().zip(&prepared) {
                let expected = one(&fresh, sql).await?;
                for time in 1..=3 {
                    ensure!(one(&client, sql).await? == expected, "{sql} in {zone}, time {time}");
                    let count = client.query(statement, &[]).await?.len();
                    ensure!(count == expected.lines().count(), "{sql} in {zone}, prepared, time {time}");
                }
                answers.push(expected);
            }
            let at = one(&fresh, "SELECT to_char(max(at), 'YYYY-MM-DD HH24:MI') FROM r").await?;
            for _ in 0..3 {
                ensure!(client.query_one(&equal, &[&at]).await?.get::<_, i32>(0) == 3, "{at} in {zone}");
                let found = client.query(&days, &[&&at[..10]]).await?;
                ensure!(found.iter().any(|row| row.get::<_, i32>(0) == 3), "the day of {at} in {zone}");
            }
        }
    }
    answers.sort();
    answers.dedup();
    ensure!(answers.len() > 16, "zones give different answers: {answers:?}");
    Ok(())
}

#[tokio::test]
async fn times_of_a_zone_are_ranges_of_keys() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE r (at timestamptz PRIMARY KEY, n int); SET timezone = 'Europe/Berlin'").await?;
    for (zone, condition, start) in [
        ("Europe/Berlin", "at >= '2026-03-29 02:30'", "2026-03-29 01:30Z"),
        ("Europe/Berlin", "at >= timestamp '2026-10-25 02:30'", "2026-10-25 01:30Z"),
        ("Europe/Berlin", "at >= date '2026-07-01'", "2026-06-30 22:00Z"),
        ("Asia/Tokyo", "at >= '2026-07-01'", "2026-06-30 15:00Z"),
        ("UTC", "at >= date '2026-07-01'", "2026-07-01 00:00Z"),
    ] {
        client.batch_execute(&format!("SET timezone = '{zone}'")).await?;
        let plan = one(&client, &format!("EXPLAIN SELECT n FROM r WHERE {condition}")).await?;
        let micros =
            one(&client, &format!("SELECT (extract(epoch FROM '{start}'::timestamptz) * 1000000)::bigint")).await?;
        for line in ["Access: range scan", &format!("Pushed: at >= {micros}"), "Residual: none"] {
            ensure!(plan.contains(line), "{condition}: {line}\n{plan}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn copies_are_in_the_zone_and_binary_is_not() -> Result<()> {
    use bytes::Bytes;
    use futures::{SinkExt, TryStreamExt};
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE r (id int PRIMARY KEY, at timestamptz, span interval, raw bytea)").await?;
    client.batch_execute("SET timezone = 'Europe/Berlin'; SET datestyle = 'German'").await?;
    let sink = client.copy_in("COPY r FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from_static(
        b"1\t29.03.2026 03:30\t1 day\t\\\\x00ff\n2\t25.10.2026 02:30:00 CEST\t-1-2\t\\\\x41\n",
    ))
    .await?;
    ensure!(sink.finish().await? == 2);
    client.batch_execute("SET intervalstyle = 'iso_8601'; SET bytea_output = 'escape'").await?;
    let out: Vec<Bytes> = client.copy_out("COPY (SELECT * FROM r ORDER BY id) TO STDOUT").await?.try_collect().await?;
    ensure!(
        out.concat() == b"1\t29.03.2026 03:30:00 CEST\tP1D\t\\\\000\\\\377\n2\t25.10.2026 02:30:00 CEST\tP-1Y-2M\tA\n",
        "{}",
        String::from_utf8_lossy(&out.concat())
    );
    // Binary says moments, whatever the zone.
    let at = client.query_one("SELECT at, $1::timestamptz FROM r WHERE id = 1", &[&SystemTime::UNIX_EPOCH]).await?;
    ensure!(at.get::<_, SystemTime>(0) == SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_747_800));
    ensure!(at.get::<_, SystemTime>(1) == SystemTime::UNIX_EPOCH);
    Ok(())
}
