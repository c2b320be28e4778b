//! Time zones: those of the IANA database, fixed offsets, POSIX forms, and abbreviations.
//!
//! The database is the one that the program was built with (`jiff`), so that no answer depends on the machine. Its
//! tables end with rules that hold for all later years.

use super::abbreviations::{Meaning, meaning};
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use std::sync::{Arc, LazyLock};

const MICROS: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
/// Seconds of 400 years, after which the calendar and its weekdays begin anew.
const ERA_SECONDS: i64 = 146_097 * DAY_SECONDS;
/// A day is less than this away from UTC, in seconds: PostgreSQL's limit of offsets (`MAX_TZDISP_HOUR`).
pub const OFFSET_SECONDS_MAX: i64 = 167 * 3_600 + 59 * 60 + 59;
/// The rule of a POSIX form that names summer time without one.
const POSIX_RULE: &str = ",M3.2.0,M11.1.0";

/// A time zone. Clones share it.
#[derive(Clone, Debug)]
pub struct Zone(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Seconds east of Greenwich, and what the zone calls itself.
    Fixed(i64, String),
    Region(TimeZone),
    /// What a region calls so: its offset is the one that it had at the latest time with this name.
    Abbreviation(TimeZone, String),
}

/// What a zone says of a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds east of Greenwich.
    pub offset: i64,
    /// Whether it is summer time.
    pub is_summer: bool,
    /// What the zone calls this time: `CEST`.
    pub abbreviation: String,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.name == other.0.name
    }
}
impl Eq for Zone {}

fn database() -> &'static TimeZoneDatabase {
    static BUNDLED: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    &BUNDLED
}

/// The names of all zones of the database.
pub fn names() -> impl Iterator<Item = String> {
    database().available().map(|name| name.as_str().to_owned())
}

impl Zone {
    fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self(Arc::new(Inner { name: name.into(), kind }))
    }

    /// UTC.
    pub fn utc() -> Self {
        static UTC: LazyLock<Zone> = LazyLock::new(|| Zone::new("UTC", Kind::Fixed(0, "UTC".to_owned())));
        UTC.clone()
    }

    /// A zone so many seconds east of Greenwich, named as PostgreSQL does: `<+02>-02`. `None` beyond a week.
    pub fn fixed(east: i64) -> Option<Self> {
        if east.abs() > OFFSET_SECONDS_MAX {
            return None;
        }
        let seconds = east.abs();
        let mut offset = format!("{:02}", seconds / 3_600);
        if seconds % 3_600 != 0 {
            offset += &format!(":{:02}", seconds / 60 % 60);
        }
        if seconds % 60 != 0 {
            offset += &format!(":{:02}", seconds % 60);
        }
        let (sign, opposite) = if east < 0 { ('-', '+') } else { ('+', '-') };
        let abbreviation = format!("{sign}{offset}");
        Some(Self::new(format!("<{abbreviation}>{opposite}{offset}"), Kind::Fixed(east, abbreviation)))
    }

    /// A zone by its name, whatever its case, or by a POSIX form (`EST5EDT,M3.2.0,M11.1.0`; offsets are west of
    /// Greenwich). PostgreSQL's `pg_tzset`.
    pub fn named(name: &str) -> Option<Self> {
        /// Bytes of a name, at most: PostgreSQL's `TZ_STRLEN_MAX`.
        const NAME_BYTES_MAX: usize = 255;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        if ["utc", "etc/utc", "gmt", "etc/gmt"].contains(&name.to_ascii_lowercase().as_str()) {
            let known = if name.len() == 3 {
                name.to_ascii_uppercase()
            } else {
                format!("Etc/{}", &name[4..].to_ascii_uppercase())
            };
            let abbreviation = if known.ends_with("GMT") { "GMT" } else { "UTC" };
            return Some(Self::new(known, Kind::Fixed(0, abbreviation.to_owned())));
        }
        match database().get(name) {
            Ok(zone) => {
                let known = zone.iana_name().unwrap_or(name).to_owned();
                Some(Self::new(known, Kind::Region(zone)))
            }
            Err(_) => Self::posix(&name.to_ascii_uppercase()),
        }
    }

    /// A POSIX form. PostgreSQL takes abbreviations of any length, even none.
    fn posix(form: &str) -> Option<Self> {
        let (abbreviation, after_name) = posix_name(form)?;
        let (west, rest) = posix_offset(after_name)?;
        if rest.is_empty() {
            return Some(Self::new(form, Kind::Fixed(-west, abbreviation.to_owned())));
        }
        let offset = &after_name[..after_name.len() - rest.len()];
        let (summer, rule) = posix_name(rest)?;
        if summer.is_empty() {
            return None;
        }
        let quoted = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-".contains(&byte);
            // The library wants three letters at least.
            if name.len() >= 3 && name.bytes().all(is_plain) { format!("<{name}>") } else { "<XXX>".to_owned() }
        };
        let default = if rule.contains(',') { "" } else { POSIX_RULE };
        let known = format!("{}{offset}{}{rule}{default}", quoted(abbreviation), quoted(summer));
        Some(Self::new(form, Kind::Region(TimeZone::posix(&known).ok()?)))
    }

    /// A zone of `AT TIME ZONE`: an abbreviation, else as [`named`](Self::named).
    pub fn of_expression(name: &str) -> Option<Self> {
        Self::abbreviated(&name.to_lowercase()).or_else(|| Self::named(name))
    }

    /// The zone of an abbreviation in lower case.
    pub fn abbreviated(abbreviation: &str) -> Option<Self> {
        let upper = || abbreviation.to_ascii_uppercase();
        Some(match meaning(abbreviation)? {
            Meaning::Standard(offset) | Meaning::Summer(offset) => {
                Self::new(upper(), Kind::Fixed(i64::from(offset), upper()))
            }
            Meaning::Of(region) => Self::new(upper(), Kind::Abbreviation(database().get(region).ok()?, upper())),
        })
    }

    /// The name as SHOW says it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether local time is UTC at all times.
    pub fn is_utc(&self) -> bool {
        matches!(self.0.kind, Kind::Fixed(0, _))
    }

    /// The offset in seconds, if it is the same at all times.
    pub fn fixed_offset(&self) -> Option<i64> {
        match &self.0.kind {
            Kind::Fixed(offset, _) => Some(*offset),
            Kind::Region(zone) => zone.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds())),
            Kind::Abbreviation(..) => None,
        }
    }

    /// Seconds east of Greenwich at a moment in seconds since 1970.
    pub fn offset_at(&self, seconds: i64) -> i64 {
        match &self.0.kind {
            Kind::Fixed(offset, _) => *offset,
            Kind::Region(zone) => region_offset(zone, seconds),
            Kind::Abbreviation(zone, name) => {
                named_offset(zone, name, seconds).map_or_else(|| region_offset(zone, seconds), |(offset, _)| offset)
            }
        }
    }

    /// What the zone says of a moment in seconds since 1970.
    pub fn moment(&self, seconds: i64) -> Moment {
        match &self.0.kind {
            Kind::Fixed(offset, name) => Moment { offset: *offset, is_summer: false, abbreviation: name.clone() },
            Kind::Region(zone) => region_moment(zone, seconds),
            Kind::Abbreviation(zone, name) => match named_offset(zone, name, seconds) {
                Some((offset, is_summer)) => Moment { offset, is_summer, abbreviation: name.clone() },
                None => region_moment(zone, seconds),
            },
        }
    }

    /// Seconds east of Greenwich of a local time, in seconds as if it were UTC. In a gap the offset before it, in an
    /// overlap the one after it. PostgreSQL's `DetermineTimeZoneOffset`.
    pub fn offset_of_local(&self, local: i64) -> i64 {
        match &self.0.kind {
            Kind::Fixed(offset, _) => *offset,
            Kind::Region(zone) => local_offset(zone, local),
            Kind::Abbreviation(zone, name) => {
                let offset = local_offset(zone, local);
                named_offset(zone, name, local - offset).map_or(offset, |(offset, _)| offset)
            }
        }
    }

    /// Local time of UTC, both in microseconds. Infinities stay. `None` out of range.
    pub fn to_local(&self, utc: i64) -> Option<i64> {
        if matches!(utc, i64::MAX | i64::MIN) || self.is_utc() {
            return Some(utc);
        }
        utc.checked_add(self.offset_at(utc.div_euclid(MICROS)) * MICROS)
    }

    /// UTC of a local time, both in microseconds. Infinities stay. `None` out of range.
    pub fn to_utc(&self, local: i64) -> Option<i64> {
        if matches!(local, i64::MAX | i64::MIN) || self.is_utc() {
            return Some(local);
        }
        local.checked_sub(self.offset_of_local(local.div_euclid(MICROS)) * MICROS)
    }
}

/// A moment that the library can represent, at which the zone is the same: beyond year 9999 one of an earlier era.
fn timestamp(seconds: i64) -> Timestamp {
    let last = Timestamp::MAX.as_second() - DAY_SECONDS;
    let seconds = match seconds - last {
        beyond if beyond > 0 => seconds - (beyond / ERA_SECONDS + 1) * ERA_SECONDS,
        _ => seconds.max(Timestamp::MIN.as_second()),
    };
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn region_offset(zone: &TimeZone, seconds: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(seconds)).seconds())
}

fn region_moment(zone: &TimeZone, seconds: i64) -> Moment {
    let info = zone.to_offset_info(timestamp(seconds));
    Moment {
        offset: i64::from(info.offset().seconds()),
        is_summer: info.dst().is_dst(),
        abbreviation: info.abbreviation().to_owned(),
    }
}

fn local_offset(zone: &TimeZone, local: i64) -> i64 {
    // Offsets are less than a day, and no two changes are that close.
    let before = region_offset(zone, local - DAY_SECONDS);
    let after = region_offset(zone, local + DAY_SECONDS);
    if before == after {
        return before;
    }
    let holds = |offset: i64| region_offset(zone, local - offset) == offset;
    match (holds(before), holds(after)) {
        (_, true) => after,
        (true, false) => before,
        // A gap; or an overlap whose end no zone has.
        (false, false) => before,
    }
}

/// The offset that an abbreviation in upper case had in a zone: at the latest time before a moment when it was in use,
/// else at the first after it; and whether that is summer time. PostgreSQL's `pg_interpret_timezone_abbrev`.
fn named_offset(zone: &TimeZone, name: &str, seconds: i64) -> Option<(i64, bool)> {
    let at = timestamp(seconds);
    let now = zone.to_offset_info(at);
    if now.abbreviation() == name {
        return Some((i64::from(now.offset().seconds()), now.dst().is_dst()));
    }
    let before = zone.preceding(at).find(|change| change.abbreviation() == name);
    // Rules go on for ever: a name that comes no more is not among the changes of some years.
    const CHANGES_MAX: usize = 400;
    let found = before.or_else(|| zone.following(at).take(CHANGES_MAX).find(|change| change.abbreviation() == name));
    found.map(|change| (i64::from(change.offset().seconds()), change.dst().is_dst()))
}

/// A name at the beginning of a POSIX form, without its angle brackets, and what follows.
fn posix_name(form: &str) -> Option<(&str, &str)> {
    match form.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>'),
        None => {
            let end = form.find(|c: char| c.is_ascii_digit() || matches!(c, ',' | '-' | '+')).unwrap_or(form.len());
            Some(form.split_at(end))
        }
    }
}

/// An offset west of Greenwich at the beginning of a POSIX form, in seconds, and what follows.
fn posix_offset(form: &str) -> Option<(i64, &str)> {
    let (sign, mut rest) = match form.as_bytes().first()? {
        b'-' => (-1, &form[1..]),
        b'+' => (1, &form[1..]),
        _ => (1, form),
    };
    let mut seconds = 0;
    for (unit, most) in [(3_600, 167), (60, 59), (1, 60)] {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..end].parse().ok().filter(|number| (0..=most).contains(number))?;
        seconds += number * unit;
        match rest[end..].strip_prefix(':') {
            Some(after) if unit > 1 => rest = after,
            _ => return Some((sign * seconds, &rest[end..])),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(names: &[&str], expected: Expect) {
        // 2026-01-01 and 2026-07-01 UTC
        let line = |name: &&str| match Zone::named(name) {
            None => format!("{name}: none"),
            Some(zone) => {
                let [winter, summer] = [1_767_225_600, 1_782_864_000].map(|at| zone.moment(at));
                let one = |at: &Moment| format!("{} {}", at.offset, at.abbreviation);
                format!("{name}: {} {}, {}", zone.name(), one(&winter), one(&summer))
            }
        };
        expected.assert_eq(&names.iter().map(line).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn zones_are_named_as_postgres_names_them() {
        check(
            &[
                "europe/berlin",
                "utc",
                "Etc/Gmt",
                "zulu",
                "EST5EDT",
                "foo+3",
                "<+05>-5",
                "PST8PDT7,M3.2.0,M11.1.0",
                "nope",
                "",
                "PST",
            ],
            expect![[r#"
                europe/berlin: Europe/Berlin 3600 CET, 7200 CEST
                utc: UTC 0 UTC, 0 UTC
                Etc/Gmt: Etc/GMT 0 GMT, 0 GMT
                zulu: Zulu 0 UTC, 0 UTC
                EST5EDT: EST5EDT -18000 EST, -14400 EDT
                foo+3: FOO+3 -10800 FOO, -10800 FOO
                <+05>-5: <+05>-5 18000 +05, 18000 +05
                PST8PDT7,M3.2.0,M11.1.0: PST8PDT7,M3.2.0,M11.1.0 -28800 PST, -25200 PDT
                nope: none
                : none
                PST: none"#]],
        );
        assert_eq!(Zone::fixed(-9_010).map(|zone| zone.name().to_owned()), Some("<-02:30:10>+02:30:10".into()));
        assert!(names().count() > 500);
    }

    #[test]
    fn gaps_and_overlaps_are_resolved_as_postgres_does() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let at = |text: &str| {
            text.parse::<jiff::civil::DateTime>().unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
        };
        assert_eq!(berlin.offset_of_local(at("2026-03-29T01:59:59")), 3_600);
        assert_eq!(berlin.offset_of_local(at("2026-03-29T02:30:00")), 3_600, "in the gap");
        assert_eq!(berlin.offset_of_local(at("2026-03-29T03:00:00")), 7_200);
        assert_eq!(berlin.offset_of_local(at("2026-10-25T01:59:59")), 7_200);
        assert_eq!(berlin.offset_of_local(at("2026-10-25T02:30:00")), 3_600, "in the overlap");
        // The 400 years' cycle, and a time beyond the library's years.
        let far = at("2026-07-01T00:00:00") + 700 * ERA_SECONDS;
        assert_eq!(berlin.offset_at(far), 7_200);
        assert_eq!(berlin.offset_at(-400_000_000_000), 3_208);
    }

    #[test]
    fn abbreviations_mean_what_they_meant() {
        let msk = Zone::abbreviated("msk").unwrap();
        // 2013, when Moscow kept summer time, and 2020.
        assert_eq!(msk.offset_at(1_370_000_000), 14_400);
        assert_eq!(msk.offset_at(1_590_000_000), 10_800);
        assert_eq!(Zone::of_expression("CEST").map(|zone| zone.offset_at(0)), Some(7_200));
    }
}
