//! Times in zones and in the forms of the settings: random expressions beside PostgreSQL, and settings that change between two runs.

use super::{
    beside_postgres::{Words, compare},
    harness::{self, Harness},
};
use anyhow::{Result, ensure};
use std::time::{Duration, SystemTime};
use tokio_postgres::SimpleQueryMessage;

/// Zones with summer time, without, with offsets that are no whole hours, and with changes of their own.
const ZONES: [&str; 13] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Asia/Tehran",
    "America/St_Johns",
    "+05:30",
    "-3.5",
    "EST5EDT,M3.2.0,M11.1.0",
];

impl Words {
    /// A local time, often near a change of summer time.
    fn local(&mut self) -> String {
        let year = self.one(&[1880_u64, 1901, 1945, 1970, 1999, 2011, 2024, 2026, 2037, 2050, 2400]);
        let date = match self.below(3) {
            0 => format!("{year}-{:02}-{:02}", 1 + self.below(12), 1 + self.below(28)),
            1 => format!("{year}-03-{:02}", 8 + self.below(24)),
            _ => format!("{year}-{:02}-{:02}", 10 + self.below(2), 1 + self.below(30)),
        };
        let clock = match self.below(3) {
            0 => format!("{:02}:{:02}:{:02}", self.below(24), self.below(60), self.below(60)),
            1 => format!("0{}:{:02}", 1 + self.below(3), self.below(60)),
            _ => format!("{:02}:00:00.{}", self.below(24), {
                let count = 1 + self.below(6);
                self.digits(count)
            }),
        };
        format!("{date} {clock}")
    }

    /// A `timestamptz`.
    fn zoned(&mut self) -> String {
        let local = self.local();
        match self.below(4) {
            0 => format!("'{local}'::timestamptz"),
            1 => format!("'{local} {}'::timestamptz", self.one(&["Z", "+02", "-05:30", "PST", "CEST", "Asia/Tokyo"])),
            2 => format!("'{local}'::timestamp::timestamptz"),
            _ => format!("('{local}'::timestamp AT TIME ZONE '{}')", self.zone_name()),
        }
    }

    fn zone_name(&mut self) -> &'static str {
        self.one(&["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "PST", "msk", "+3"])
    }

    fn span(&mut self) -> String {
        let number = |words: &mut Self| words.below(400).cast_signed() - 200;
        match self.below(4) {
            0 => format!("interval '{} days'", number(self)),
            1 => format!("interval '{} hours {} minutes'", number(self), self.below(60)),
            2 => format!("interval '{} months {} days'", number(self), self.below(40)),
            _ => format!("interval '1 day {}:{:02}:00'", self.below(24), self.below(60)),
        }
    }

    fn time_expression(&mut self) -> String {
        let zoned = self.zoned();
        let unit = self.one(&["hour", "day", "week", "month", "quarter", "year", "decade"]);
        match self.below(16) {
            0..=2 => zoned,
            3 => format!("{zoned} + {}", self.span()),
            4 => format!("{zoned} - {}", self.span()),
            5 => format!("{zoned} - {}", self.zoned()),
            6 => format!("date_trunc('{unit}', {zoned})"),
            7 => format!("date_trunc('{unit}', {zoned}, '{}')", self.one(&["Asia/Tokyo", "America/New_York"])),
            8 => {
                let field = self.one(&["hour", "dow", "doy", "week", "timezone", "epoch", "day", "isoyear"]);
                format!("extract({field} from {zoned})")
            }
            9 => format!("({zoned})::{}", self.one(&["timestamp", "date", "time", "text"])),
            10 => format!("{zoned} AT TIME ZONE '{}'", self.zone_name()),
            11 => format!("to_char({zoned}, 'YYYY-MM-DD HH24:MI:SS.US TZ OF')"),
            12 => format!("age({zoned}, {})", self.zoned()),
            13 => format!("to_json({zoned})"),
            14 => format!(
                "{zoned} {} '{}'::{}",
                self.one(&["<", ">=", "="]),
                self.local(),
                self.one(&["timestamp", "date"])
            ),
            _ => format!("{}, {}", self.span(), zoned),
        }
    }

    fn time_statement(&mut self) -> String {
        let dates = self.one(&["ISO, MDY", "ISO, MDY", "SQL, DMY", "Postgres, MDY", "German, DMY"]);
        let spans = self.one(&["postgres", "postgres", "sql_standard", "iso_8601", "postgres_verbose"]);
        format!(
            "SET TimeZone = '{}'; SET DateStyle = '{dates}'; SET IntervalStyle = '{spans}'; SELECT {}",
            self.one(&ZONES),
            self.time_expression()
        )
    }
}

#[tokio::test]
async fn random_times_are_as_in_postgres() -> Result<()> {
    compare("TIMES", Words::time_statement).await
}

/// Settings of a connection's start count, and a prepared statement goes by those of the moment at which it runs.
#[tokio::test]
async fn statements_go_by_the_settings_of_their_moment() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let mut config = harness.config("alto", harness::PASSWORD, "alto");
    config.options("-c TimeZone=Asia/Kolkata -c DateStyle=German");
    let client = harness::connect(&config).await?;
    let row = |messages: Vec<SimpleQueryMessage>| {
        messages.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    };
    let shown = row(client.simple_query("SELECT '2026-01-01 00:00Z'::timestamptz").await?);
    ensure!(shown.as_deref() == Some("01.01.2026 05:30:00 IST"), "{shown:?}");
    let by_text =
        client.prepare("SELECT $1::text::timestamptz::text, date_trunc('day', $2::timestamptz)::text").await?;
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
    let expected = [
        ("Asia/Kolkata", "01.01.2026 02:00:00 IST|01.01.2026 00:00:00 IST"),
        ("America/New_York", "01.01.2026 02:00:00 EST|31.12.2025 00:00:00 EST"),
        ("UTC", "01.01.2026 02:00:00 UTC|01.01.2026 00:00:00 UTC"),
    ];
    for (zone, expected) in expected {
        client.batch_execute(&format!("SET TimeZone = '{zone}'")).await?;
        for _ in 0..6 {
            let row = client.query_one(&by_text, &[&"2026-01-01 02:00", &moment]).await?;
            let shown = format!("{}|{}", row.get::<_, &str>(0), row.get::<_, &str>(1));
            ensure!(shown == expected, "{shown} in {zone}");
        }
    }
    client.batch_execute("RESET TimeZone; SET LOCAL TimeZone = 'UTC'").await?;
    let zone = row(client.simple_query("SHOW TimeZone").await?);
    ensure!(zone.as_deref() == Some("Asia/Kolkata"), "{zone:?} is what the connection began with");
    Ok(())
}
