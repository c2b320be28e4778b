//! Time zones and styles of a session: where they come from, what they change, that no plan outlives them, and random
//! times beside PostgreSQL.
//!
//! Where `KEYSPAN_TESTS_POSTGRES` names no server, as `tests/record` does, the last test says so and ends.
//! `KEYSPAN_TIMES` says how many queries, by `KEYSPAN_TIMES_SEED`.

use super::harness::{self, Harness, PASSWORD, Raw, error, rows, setting};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, SystemTime};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Queries in a run of all tests.
const QUERIES: usize = 600;

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

/// Random queries: SplitMix64 chooses.
struct Words(u64);

impl Words {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }

    /// A zone whose rules have not changed of late.
    fn zone(&mut self) -> &'static str {
        self.one(&[
            "UTC",
            "Europe/Berlin",
            "America/New_York",
            "Asia/Kolkata",
            "Australia/Lord_Howe",
            "America/St_Johns",
            "Asia/Tokyo",
            "Pacific/Apia",
            "Europe/London",
            "America/Los_Angeles",
            "Asia/Kathmandu",
            "Europe/Moscow",
            "EST5EDT",
            "+05",
            "-3.5",
            "<-02>+2",
            "Pacific/Chatham",
            "America/Sao_Paulo",
            "Africa/Johannesburg",
        ])
    }

    fn year(&mut self) -> u64 {
        match self.below(8) {
            0 => 1800 + self.below(170),
            1 => 2038 + self.below(500),
            _ => 1970 + self.below(67),
        }
    }

    /// A day; often one on which clocks change.
    fn day(&mut self) -> (u64, u64, u64) {
        match self.below(4) {
            0 => (2026, 3, self.one(&[8, 28, 29, 30])),
            1 => (2026, self.one(&[10, 11]), self.one(&[1, 24, 25, 26])),
            _ => (self.year(), 1 + self.below(12), 1 + self.below(31)),
        }
    }

    fn clock(&mut self) -> String {
        let (hour, minute, second) = (self.one(&[0, 1, 2, 3, 12, 23]), self.one(&[0, 15, 30, 59]), self.below(60));
        match self.below(6) {
            0 => format!("{hour:02}:{minute:02}"),
            1 => format!("{hour:02}:{minute:02}:{second:02}"),
            2 => format!("{hour}:{minute:02}:{second:02}.{}", self.below(1_000_000)),
            3 => format!("{hour:02}{minute:02}{second:02}"),
            4 => format!("{}:{minute:02} {}", 1 + self.below(12), self.one(&["am", "PM"])),
            _ => format!("{hour:02}:{minute:02}:{second:02}"),
        }
    }

    fn date(&mut self) -> String {
        let (year, month, day) = self.day();
        let name = ["Jan", "february", "Mar", "April", "may", "JUN", "July", "aug", "Sept", "Oct", "November", "Dec"]
            [usize::try_from(month - 1).expect("a month")];
        match self.below(14) {
            0 => format!("{name} {day}, {year}"),
            1 => format!("{day}-{name}-{year}"),
            2 => format!("{month}/{day}/{year}"),
            3 => format!("{day}/{month}/{year}"),
            4 => format!("{year:04}{month:02}{day:02}"),
            5 => format!("{day}.{month}.{year}"),
            6 => format!("J{}", 2_400_000 + self.below(100_000)),
            7 => format!("{year}.{:03}", self.below(400)),
            8 => format!("{month}-{day}-{:02}", year % 100),
            9 => format!("{year:04}-{month:02}-{day:02} BC"),
            _ => format!("{year:04}-{month:02}-{day:02}"),
        }
    }

    /// A date and a time, as text.
    fn moment(&mut self) -> String {
        let (date, clock) = (self.date(), self.clock());
        let zone = match self.below(8) {
            0 => self.one(&["Z", "+02", "-03:30", "+05:45", "-0800", "+13:00:30"]).to_owned(),
            1 => format!(" {}", self.one(&["PST", "CEST", "msk", "UTC", "est", "BST", "IST", "nzdt"])),
            2 => format!(" {}", self.one(&["Europe/Paris", "america/new_york", "Asia/Tokyo", "EST5EDT"])),
            _ => String::new(),
        };
        if date.ends_with("BC") {
            return format!("{} {clock}{zone} BC", date.trim_end_matches(" BC"));
        }
        format!("{date}{}{clock}{zone}", self.one(&[" ", " ", "  ", "T"]))
    }

    fn zoned(&mut self) -> String {
        match self.below(6) {
            0 => format!("timestamp '{}'::timestamptz", self.moment()),
            1 => format!("date '{}'::timestamptz", self.date()),
            2 => format!("(timestamp '{}' AT TIME ZONE '{}')", self.moment(), self.zone()),
            _ => format!("timestamptz '{}'", self.moment()),
        }
    }

    fn span(&mut self) -> String {
        let number = |words: &mut Self| format!("{}{}", words.one(&["", "", "-"]), words.below(40));
        match self.below(7) {
            0 => format!("interval '{} days'", number(self)),
            1 => format!("interval '{} months {} hours'", number(self), number(self)),
            2 => format!("interval '{} {}:{:02}'", number(self), number(self), self.below(60)),
            3 => format!("interval 'P{}Y{}DT{}M'", number(self), number(self), number(self)),
            4 => format!("interval '{}.{} weeks'", number(self), self.below(100)),
            5 => format!("interval '{}-{}'", number(self), self.below(12)),
            _ => format!("interval '{} h {}.{} s'", number(self), number(self), self.below(1000)),
        }
    }

    fn unit(&mut self) -> &'static str {
        self.one(&["hour", "day", "week", "month", "quarter", "year", "minute", "decade", "century"])
    }

    fn query(&mut self) -> String {
        let at = self.zoned();
        match self.below(20) {
            0 => format!("SELECT {at}, ({at})::text, ({at})::timestamp, ({at})::date, ({at})::time"),
            1 => format!("SELECT {at} + {}, {at} - {}", self.span(), self.span()),
            2 => format!("SELECT {at} - {}", self.zoned()),
            3 => format!(
                "SELECT date_trunc('{}', {at}), date_trunc('{}', {at}, '{}')",
                self.unit(),
                self.unit(),
                self.zone()
            ),
            4 => format!(
                "SELECT extract({} FROM {at}), date_part('epoch', {at}), extract(timezone FROM {at})",
                self.unit()
            ),
            5 => format!("SELECT {at} AT TIME ZONE '{}'", self.zone()),
            6 => format!("SELECT to_char({at}, 'YYYY-MM-DD HH24:MI:SS.US TZ OF TZH:TZM Day Mon DDD IYYY-IW')"),
            7 => format!(
                "SELECT {at} < {}, {at} = timestamp '{}', {at} >= date '{}'",
                self.zoned(),
                self.moment(),
                self.date()
            ),
            8 => format!("SELECT age({at}, {}), age({at})", self.zoned()),
            9 => format!(
                "SELECT count(*), min(g), max(g) FROM generate_series({at}, {at} + interval '{} days', interval '{} hours') g",
                self.below(9),
                1 + self.below(40)
            ),
            10 => format!("SELECT date '{}', timestamp '{}'", self.date(), self.moment()),
            11 => format!("SELECT time '{}'", self.clock()),
            12 => format!("SELECT {}, {} + {}", self.span(), self.span(), self.span()),
            13 => format!("SELECT to_json({at}), array[{at}], ROW({at})"),
            14 => {
                format!("SELECT least({at}, date '{}'), greatest({at}, timestamp '{}')", self.date(), self.moment())
            }
            15 => {
                let (year, month, day) = self.day();
                format!(
                    "SELECT make_timestamptz({year}, {month}, {day}, {}, 30, 0.5), make_timestamptz({year}, {month}, {day}, {}, 30, 0, '{}')",
                    self.below(24),
                    self.below(24),
                    self.zone()
                )
            }
            16 => {
                // DataFusion counts nanoseconds, which have an end.
                let at = format!(
                    "{}-{:02}-{:02} {}",
                    1900 + self.below(300),
                    1 + self.below(12),
                    1 + self.below(28),
                    self.clock()
                );
                format!(
                    "SELECT date_bin('{} minutes', timestamptz '{at}', timestamptz '2020-02-11')",
                    1 + self.below(90)
                )
            }
            17 => format!("SELECT '{}'::timestamptz", self.moment()),
            18 => format!(
                "SELECT to_timestamp('{}', 'YYYY-MM-DD HH24:MI'), to_timestamp({})",
                "2026-03-29 02:30",
                self.below(2_000_000_000)
            ),
            _ => format!(
                "SELECT {at}::date - date '{}', date '{}' + 3, timestamp '{}' + {}",
                self.date(),
                self.date(),
                self.moment(),
                self.span()
            ),
        }
    }

    fn setting(&mut self) -> String {
        match self.below(3) {
            0 => format!("SET timezone = '{}'", self.zone()),
            1 => {
                let (style, order) =
                    (self.one(&["ISO", "SQL", "Postgres", "German"]), self.one(&["MDY", "DMY", "YMD"]));
                format!("SET datestyle = '{style}, {order}'")
            }
            _ => format!(
                "SET intervalstyle = {}",
                self.one(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"])
            ),
        }
    }
}

/// The row of a query as text, or the SQLSTATE.
async fn answer(client: &Client, sql: &str) -> Result<String> {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return Ok(error.as_db_error().context("an answer")?.code().code().to_owned()),
    };
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Ok(String::new()) };
    Ok((0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>().join("|"))
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "says that nothing was tested")]
async fn random_times_are_as_in_postgres() -> Result<()> {
    let Ok(address) = std::env::var("KEYSPAN_TESTS_POSTGRES") else {
        println!("KEYSPAN_TESTS_POSTGRES names no PostgreSQL: nothing is compared");
        return Ok(());
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let count = number("KEYSPAN_TIMES").map_or(QUERIES, |count| usize::try_from(count).unwrap_or(QUERIES));
    let mut words = Words(number("KEYSPAN_TIMES_SEED").unwrap_or(1));
    let theirs = harness::connect(&format!("{address} dbname=postgres").parse()?).await?;
    let harness = Harness::start().await?;
    let ours = harness.tenant("alto").await?;
    let (mut differ, mut settings) = (Vec::new(), [const { String::new() }; 3]);
    for at in 0..count {
        if at % 10 == 0 {
            let set = words.setting();
            for client in [&theirs, &ours] {
                client.batch_execute(&set).await?;
            }
            settings.rotate_left(1);
            settings[2] = set;
        }
        let sql = words.query();
        let (expected, found) = (answer(&theirs, &sql).await?, answer(&ours, &sql).await?);
        if expected != found {
            differ.push(format!("{settings:?}\n{sql}\n  PostgreSQL: {expected}\n  here:       {found}"));
        }
    }
    ensure!(differ.is_empty(), "{} of {count} differ:\n{}", differ.len(), differ.join("\n"));
    Ok(())
}
