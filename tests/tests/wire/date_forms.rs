//! Random dates, times and intervals in all forms of input and styles of output, beside PostgreSQL. `KEYSPAN_DATES`
//! says how many, by `KEYSPAN_DATES_SEED`.

use super::beside_postgres::{Words, compare};
use anyhow::Result;

/// What is chosen of.
struct Forms<'a>(&'a mut Words);

impl Forms<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        self.0.one(of)
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

/// A statement after its settings.
fn statement(words: &mut Words) -> String {
    let mut forms = Forms(words);
    let settings = [forms.setting(), forms.setting(), forms.setting()];
    format!("RESET timezone; RESET datestyle; RESET intervalstyle; {}; {}", settings.join("; "), forms.query())
}

#[tokio::test]
async fn random_forms_are_as_in_postgres() -> Result<()> {
    compare("DATES", statement).await
}
