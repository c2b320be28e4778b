//! Dates, times and intervals by a template: `YYYY-MM-DD HH24:MI:SS`. Pure.

use crate::datetime::zone::{Moment, Zone};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};

/// Names of months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of days, from Sunday on.
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// All patterns; a longer one stands before those that are its beginning. Patterns of letters that come in two cases
/// are listed in both.
const PATTERNS: [&str; 105] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM", "MONTH",
    "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW",
    "W", "Y,YYY", "YYYY", "YYY", "YY", "Y", "a.d.", "a.m.", "ad", "am", "b.c.", "bc", "cc", "day", "ddd", "dd", "dy",
    "d", "ff1", "ff2", "ff3", "ff4", "ff5", "ff6", "hh24", "hh12", "hh", "iddd", "id", "iw", "iyyy", "iyy", "iy", "i",
    "j", "mi", "mm", "month", "mon", "ms", "of", "p.m.", "pm", "q", "rm", "sssss", "ssss", "ss", "tzh", "tzm", "tz",
    "us", "ww", "w",
];
const YEARS: [&str; 5] = ["y,yyy", "yyyy", "yyy", "yy", "y"];

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A pattern; without blanks and zeroes after `FM`; with `th` or `TH` after it.
    Pattern {
        /// Its name as written.
        name: &'static str,
        /// After `FM`.
        bare: bool,
        /// `Some(true)` for `TH`, `Some(false)` for `th`.
        ordinal: Option<bool>,
    },
    /// What stands for itself.
    Text(String),
}

/// Cuts a template into its pieces.
pub fn tokens(template: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut text = String::new();
            let mut chars = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    '\\' => text.extend(chars.next().map(|(_, c)| c)),
                    c => text.push(c),
                }
            }
            tokens.push(Token::Text(text));
            rest = &quoted[end..];
            continue;
        }
        if let Some(after) = rest.strip_prefix("\\\"") {
            tokens.push(Token::Text("\"".to_owned()));
            rest = after;
            continue;
        }
        let (bare, after) = match rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm")) {
            Some(after) => (true, after),
            None => (false, rest.strip_prefix("TM").or_else(|| rest.strip_prefix("FX")).unwrap_or(rest)),
        };
        let known = PATTERNS.iter().chain(&YEARS).find(|name| after.starts_with(**name));
        match known {
            Some(name) => {
                rest = &after[name.len()..];
                let ordinal = match rest.get(..2) {
                    Some("TH") => Some(true),
                    Some("th") => Some(false),
                    _ => None,
                };
                if ordinal.is_some() {
                    rest = &rest[2..];
                }
                tokens.push(Token::Pattern { name, bare, ordinal });
            }
            None => {
                match tokens.last_mut() {
                    Some(Token::Text(text)) => text.push(first),
                    _ => tokens.push(Token::Text(first.to_string())),
                }
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    tokens
}

/// A number with at least `width` digits, unless `bare`.
fn padded(number: i64, width: usize, bare: bool) -> String {
    if bare { number.to_string() } else { format!("{number:0width$}") }
}

/// A word, with blanks up to nine characters unless `bare`.
fn word(name: &str, pattern: &str, bare: bool) -> String {
    let cased = if pattern.chars().all(|c| c.is_uppercase()) {
        name.to_uppercase()
    } else if pattern.chars().all(|c| c.is_lowercase()) {
        name.to_lowercase()
    } else {
        name.to_owned()
    };
    if bare { cased } else { format!("{cased:<9}") }
}

/// A number's ending: `st`, `nd`, `rd`, `th`.
pub fn ending(number: &str, upper: bool) -> &'static str {
    let digits = number.trim_end_matches(|c: char| !c.is_ascii_digit());
    let found = match (digits.as_bytes().iter().rev().nth(1), digits.as_bytes().last()) {
        (Some(b'1'), _) => ("TH", "th"),
        (_, Some(b'1')) => ("ST", "st"),
        (_, Some(b'2')) => ("ND", "nd"),
        (_, Some(b'3')) => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    if upper { found.0 } else { found.1 }
}

/// A time by a template: one of UTC in local time of a zone, or one without a zone.
pub fn written(micros: i64, zone: Option<&Zone>, template: &str) -> String {
    let local = zone.map_or(Some(micros), |zone| zone.to_local(micros));
    let zone = zone.map(|zone| zone.moment(micros.div_euclid(1_000_000)));
    let Some(time) = local.and_then(DateTime::from_timestamp_micros).map(|time| time.naive_utc()) else {
        return String::new();
    };
    let mut out = String::new();
    for token in tokens(template) {
        match token {
            Token::Text(text) => out.push_str(&text),
            Token::Pattern { name, bare, ordinal } => {
                let text = field(&time, zone.as_ref(), name, bare);
                let ending = ordinal.map_or("", |upper| ending(&text, upper));
                out.push_str(&text);
                out.push_str(ending);
            }
        }
    }
    out
}

fn field(time: &NaiveDateTime, zone: Option<&Moment>, name: &str, bare: bool) -> String {
    let number = |number: u32, width| padded(i64::from(number), width, bare);
    let hour12 = match time.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    // Years before the first are counted from it.
    let year = |year: i32| i64::from(if year > 0 { year } else { 1 - year });
    let month = MONTHS[time.month0() as usize];
    let weekday = DAYS[time.weekday().num_days_from_sunday() as usize];
    let micros = time.nanosecond() / 1_000;
    let half = |early: &str, late: &str| if time.hour() < 12 { early.to_owned() } else { late.to_owned() };
    let era = |before: &str, after: &str| if time.year() > 0 { after.to_owned() } else { before.to_owned() };
    let seconds = time.num_seconds_from_midnight();
    match name {
        "Month" | "MONTH" | "month" => word(month, name, bare),
        "Day" | "DAY" | "day" => word(weekday, name, bare),
        "Mon" | "MON" | "mon" => word(&month[..3], name, true),
        "Dy" | "DY" | "dy" => word(&weekday[..3], name, true),
        "AM" | "PM" => half("AM", "PM"),
        "am" | "pm" => half("am", "pm"),
        "A.M." | "P.M." => half("A.M.", "P.M."),
        "a.m." | "p.m." => half("a.m.", "p.m."),
        "AD" | "BC" => era("BC", "AD"),
        "ad" | "bc" => era("bc", "ad"),
        "A.D." | "B.C." => era("B.C.", "A.D."),
        "a.d." | "b.c." => era("b.c.", "a.d."),
        "RM" | "rm" => {
            let roman = ROMAN[time.month0() as usize];
            let cased = if name == "RM" { roman.to_owned() } else { roman.to_lowercase() };
            if bare { cased } else { format!("{cased:<4}") }
        }
        "TZ" | "tz" | "OF" | "of" | "TZH" | "tzh" | "TZM" | "tzm" => match zone {
            Some(zone) => of_zone(zone, name),
            None => match name.to_ascii_uppercase().as_str() {
                "TZ" => String::new(),
                "TZM" => "00".to_owned(),
                _ => "+00".to_owned(),
            },
        },
        _ => match name.to_ascii_uppercase().as_str() {
            "HH24" => number(time.hour(), 2),
            "HH12" | "HH" => number(hour12, 2),
            "MI" => number(time.minute(), 2),
            "SS" => number(time.second(), 2),
            "SSSS" | "SSSSS" => seconds.to_string(),
            "MS" => number(micros / 1_000, 3),
            "US" => number(micros, 6),
            "FF1" => format!("{:01}", micros / 100_000),
            "FF2" => format!("{:02}", micros / 10_000),
            "FF3" => format!("{:03}", micros / 1_000),
            "FF4" => format!("{:04}", micros / 100),
            "FF5" => format!("{:05}", micros / 10),
            "FF6" => format!("{micros:06}"),
            "YYYY" => padded(year(time.year()), 4, bare),
            "YYY" => padded(year(time.year()) % 1_000, 3, bare),
            "YY" => padded(year(time.year()) % 100, 2, bare),
            "Y" => padded(year(time.year()) % 10, 1, bare),
            "Y,YYY" => format!("{},{:03}", year(time.year()) / 1_000, year(time.year()) % 1_000),
            "IYYY" => padded(year(time.iso_week().year()), 4, bare),
            "IYY" => padded(year(time.iso_week().year()) % 1_000, 3, bare),
            "IY" => padded(year(time.iso_week().year()) % 100, 2, bare),
            "I" => padded(year(time.iso_week().year()) % 10, 1, bare),
            "MM" => number(time.month(), 2),
            "DD" => number(time.day(), 2),
            "DDD" => number(time.ordinal(), 3),
            "IDDD" => {
                let days = (time.iso_week().week() - 1) * 7 + time.weekday().number_from_monday();
                number(days, 3)
            }
            "D" => (time.weekday().num_days_from_sunday() + 1).to_string(),
            "ID" => time.weekday().number_from_monday().to_string(),
            "W" => ((time.day() - 1) / 7 + 1).to_string(),
            "WW" => number((time.ordinal() - 1) / 7 + 1, 2),
            "IW" => number(time.iso_week().week(), 2),
            "Q" => (time.month0() / 3 + 1).to_string(),
            "CC" if time.year() <= 0 => format!("-{}", padded((year(time.year()) + 99) / 100, 2, bare)),
            "CC" => padded((year(time.year()) + 99) / 100, 2, bare),
            "J" => (i64::from(time.num_days_from_ce()) + 1_721_425).to_string(),
            _ => name.to_owned(),
        },
    }
}

/// What a zone says of a time, by a pattern.
fn of_zone(zone: &Moment, name: &str) -> String {
    let minutes = zone.offset.abs() / 60;
    let hours = format!("{}{:02}", if zone.offset < 0 { '-' } else { '+' }, minutes / 60);
    match name {
        "TZ" => zone.abbreviation.clone(),
        "tz" => zone.abbreviation.to_lowercase(),
        "TZH" | "tzh" => hours,
        "TZM" | "tzm" => format!("{:02}", minutes % 60),
        _ if minutes % 60 != 0 => format!("{hours}:{:02}", minutes % 60),
        _ => hours,
    }
}

/// The month of an interval in Roman digits; a negative one counts from the year's end.
fn roman_of_span(months: i32, upper: bool, bare: bool) -> String {
    let at = match months % 12 {
        0 if months == 0 => return String::new(),
        0 if months > 0 => 11,
        0 => 0,
        month if month > 0 => month - 1,
        month => 12 + month,
    };
    let roman = ROMAN[usize::try_from(at).unwrap_or(0)];
    let cased = if upper { roman.to_owned() } else { roman.to_lowercase() };
    if bare { cased } else { format!("{cased:<4}") }
}

/// An interval by a template: hours are not limited to a day's.
pub fn written_span(months: i32, days: i32, micros: i64, template: &str) -> String {
    let mut out = String::new();
    for token in tokens(template) {
        let (name, bare, ordinal) = match token {
            Token::Text(text) => {
                out.push_str(&text);
                continue;
            }
            Token::Pattern { name, bare, ordinal } => (name, bare, ordinal),
        };
        let hours = micros / 3_600_000_000;
        let rest = micros % 60_000_000;
        let text = match name.to_ascii_uppercase().as_str() {
            "HH24" => padded(hours, 2, bare),
            "HH12" | "HH" => padded(if hours % 12 == 0 { 12 } else { hours % 12 }, 2, bare),
            "MI" => padded(micros / 60_000_000 % 60, 2, bare),
            "SS" => padded(rest / 1_000_000, 2, bare),
            "SSSS" | "SSSSS" => (micros / 1_000_000).to_string(),
            "MS" => padded(rest % 1_000_000 / 1_000, 3, bare),
            "US" => padded(rest % 1_000_000, 6, bare),
            "DD" => padded(i64::from(days), 2, bare),
            "DDD" => padded(i64::from(months) * 30 + i64::from(days), 3, bare),
            "MM" => padded(i64::from(months % 12), 2, bare),
            "YYYY" => padded(i64::from(months / 12), 4, bare),
            "YY" => padded(i64::from(months / 12 % 100), 2, bare),
            "RM" => roman_of_span(months, name == "RM", bare),
            _ => String::new(),
        };
        out.push_str(&text);
        out.push_str(ordinal.map_or("", |upper| ending(&text, upper)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(template: &str, expected: Expect) {
        // Tuesday, 2013-05-07 14:05:06.789
        expected.assert_eq(&written(1_367_935_506_789_000, Some(&Zone::utc()), template));
    }

    #[test]
    fn times_are_written_by_templates() {
        check("YYYY-MM-DD\"T\"HH24:MI:SS.MS", expect!["2013-05-07T14:05:06.789"]);
        check("FMDay, FMDDth FMMonth YY|Day|Dy", expect!["Tuesday, 7th May 13|Tuesday  |Tue"]);
        check("HH12:MI AM Q WW IW DDD D ID J", expect!["02:05 PM 2 19 19 127 3 2 2456420"]);
        check("Y,YYY CC RM TZ OF US", expect!["2,013 21 V    UTC +00 789000"]);
        check("text \\\" \"YYYY\"", expect!["text \" YYYY"]);
    }
}
