//! Dates and times from texts by a template: `to_date('17 May 2013', 'DD Mon YYYY')`. Pure.

use super::time::{DAYS, MONTHS, Token, tokens};
use crate::{
    datetime::zone::OFFSET_SECONDS_MAX,
    error::{Result, SqlError, SqlState},
};
use chrono::{Datelike, NaiveDate};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;

/// What was read so far.
#[derive(Debug, Default)]
struct Read {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    day_of_year: Option<u32>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    afternoon: Option<bool>,
    before: bool,
    epoch_day: Option<i64>,
    /// The sign of an offset from UTC, and its hours and minutes.
    offset: Option<(i64, i64, i64)>,
}

fn invalid(name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value \"{text}\" for \"{name}\""))
}

fn no_such(text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
}

/// The microseconds since 1970 that a text stands for, in local time; an offset is read and dropped.
///
/// # Errors
/// As [`moment`].
pub fn micros(text: &str, template: &str) -> Result<i64> {
    moment(text, template).map(|(local, _)| local)
}

/// The microseconds since 1970 that a text stands for, in local time, and the seconds east of Greenwich, if it says
/// them.
///
/// # Errors
/// 22007 for text that does not match, 22008 for a field out of range, 0A000 for a pattern that only formats.
pub fn moment(text: &str, template: &str) -> Result<(i64, Option<i64>)> {
    let mut read = Read::default();
    let mut rest = text.trim_start();
    let tokens = tokens(template);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Text(text) => {
                for c in text.chars() {
                    if c.is_whitespace() {
                        rest = rest.trim_start();
                    } else if let Some(next) = rest.chars().next().filter(|next| !next.is_alphanumeric() || *next == c)
                    {
                        rest = &rest[next.len_utf8()..];
                    }
                }
            }
            Token::Pattern { name, .. } => {
                rest = rest.trim_start();
                // A number ends at its width only where another pattern follows at once.
                let follows = matches!(tokens.get(at + 1), Some(Token::Pattern { .. }));
                rest = read.pattern(name, rest, follows)?;
            }
        }
    }
    let offset = read.offset.map(|(sign, hours, minutes)| sign * (hours * 3_600 + minutes * 60));
    if offset.is_some_and(|offset| offset.abs() > OFFSET_SECONDS_MAX) {
        return Err(no_such(text));
    }
    Ok((read.micros(text)?, offset))
}

/// A number at the start of a text and what is after it.
fn number<'a>(name: &str, text: &'a str, width: usize, exact: bool) -> Result<(i64, usize, &'a str)> {
    let most = if exact { width } else { text.len() };
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let value = text[..end].parse().map_err(|_| invalid(name, text.get(..width.min(text.len())).unwrap_or(text)))?;
    Ok((value, end, &text[end..]))
}

impl Read {
    fn pattern<'a>(&mut self, name: &str, text: &'a str, exact: bool) -> Result<&'a str> {
        let upper = name.to_ascii_uppercase();
        let small = |value: i64| u32::try_from(value).map_err(|_| no_such(text));
        let year = |value: i64| i32::try_from(value).map_err(|_| no_such(text));
        let word = |words: &[&str], length: Option<usize>| {
            let lower = text.to_lowercase();
            words.iter().position(|word| {
                let word = word[..length.unwrap_or(word.len())].to_lowercase();
                lower.starts_with(&word)
            })
        };
        Ok(match upper.as_str() {
            "YYYY" => {
                let (value, _, rest) = number(name, text, 4, exact)?;
                self.year = Some(year(value)?);
                rest
            }
            "YYY" | "YY" | "Y" => {
                let (value, digits, rest) = number(name, text, upper.len(), exact)?;
                // The year nearest to 2020, as PostgreSQL takes it.
                let value = match digits {
                    1 | 2 if value < 70 => value + 2000,
                    1 | 2 => value + 1900,
                    3 if value < 520 => value + 2000,
                    3 => value + 1000,
                    _ => value,
                };
                self.year = Some(year(value)?);
                rest
            }
            "MM" => {
                let (value, _, rest) = number(name, text, 2, exact)?;
                self.month = Some(small(value)?);
                rest
            }
            "MONTH" | "MON" => {
                let length = (upper == "MON").then_some(3);
                let index = word(&MONTHS, length).ok_or_else(|| invalid(name, text))?;
                self.month = u32::try_from(index + 1).ok();
                text.get(length.unwrap_or(MONTHS[index].len())..).unwrap_or_default()
            }
            "DAY" | "DY" => {
                let length = (upper == "DY").then_some(3);
                let index = word(&DAYS, length).ok_or_else(|| invalid(name, text))?;
                text.get(length.unwrap_or(DAYS[index].len())..).unwrap_or_default()
            }
            "DD" => {
                let (value, _, rest) = number(name, text, 2, exact)?;
                self.day = Some(small(value)?);
                rest
            }
            "DDD" => {
                let (value, _, rest) = number(name, text, 3, exact)?;
                self.day_of_year = Some(small(value)?);
                rest
            }
            "J" => {
                let (value, _, rest) = number(name, text, 7, exact)?;
                self.epoch_day = Some(value - 2_440_588);
                rest
            }
            "HH24" | "HH12" | "HH" => {
                let (value, _, rest) = number(name, text, 2, exact)?;
                if upper != "HH24" && !(1..=12).contains(&value) {
                    let message = format!("hour \"{value}\" is invalid for the 12-hour clock");
                    return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message));
                }
                self.hour = value;
                rest
            }
            "MI" => {
                let (value, _, rest) = number(name, text, 2, exact)?;
                self.minute = value;
                rest
            }
            "SS" => {
                let (value, _, rest) = number(name, text, 2, exact)?;
                self.second = value;
                rest
            }
            "SSSS" | "SSSSS" => {
                let (value, _, rest) = number(name, text, 5, exact)?;
                if value >= 86_400 {
                    return Err(no_such(text));
                }
                (self.hour, self.minute, self.second) = (value / 3_600, value / 60 % 60, value % 60);
                rest
            }
            "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let places: u32 = match upper.as_str() {
                    "MS" => 3,
                    "US" => 6,
                    of => of[2..].parse().unwrap_or(6),
                };
                let (value, digits, rest) = number(name, text, places as usize, exact)?;
                let digits = u32::try_from(digits).unwrap_or(places).min(6);
                self.micros = value * 10_i64.pow(6 - digits);
                if upper.starts_with("FF") {
                    let unit = 10_i64.pow(6 - places.min(6));
                    self.micros = (self.micros + unit / 2) / unit * unit;
                }
                rest
            }
            "AM" | "PM" | "A.M." | "P.M." => {
                let lower = text.to_lowercase();
                let known = ["a.m.", "p.m.", "am", "pm"].into_iter().find(|word| lower.starts_with(word));
                let known = known.ok_or_else(|| invalid(name, text))?;
                self.afternoon = Some(known.starts_with('p'));
                &text[known.len()..]
            }
            "AD" | "BC" | "A.D." | "B.C." => {
                let lower = text.to_lowercase();
                let known = ["a.d.", "b.c.", "ad", "bc"].into_iter().find(|word| lower.starts_with(word));
                let known = known.ok_or_else(|| invalid(name, text))?;
                self.before = known.starts_with('b');
                &text[known.len()..]
            }
            "TZH" => {
                let (sign, digits) = match text.strip_prefix('-') {
                    Some(digits) => (-1, digits),
                    None => (1, text.strip_prefix('+').unwrap_or(text)),
                };
                let (hours, _, rest) = number(name, digits, 2, exact)?;
                self.offset = Some((sign, hours, self.offset.map_or(0, |(_, _, minutes)| minutes)));
                rest
            }
            "TZM" => {
                let (minutes, _, rest) = number(name, text, 2, exact)?;
                let (sign, hours, _) = self.offset.unwrap_or((1, 0, 0));
                self.offset = Some((sign, hours, minutes));
                rest
            }
            _ => return Err(SqlError::unsupported(format!("reading by the pattern {name}"))),
        })
    }

    fn micros(&self, text: &str) -> Result<i64> {
        let year = self.year.unwrap_or(1);
        // A year that was not said is the one before the first.
        let year = if self.year.is_none() {
            0
        } else if self.before {
            1 - year
        } else {
            year
        };
        let date = match self.day_of_year {
            Some(day) => NaiveDate::from_yo_opt(year, day),
            None => NaiveDate::from_ymd_opt(year, self.month.unwrap_or(1), self.day.unwrap_or(1)),
        };
        let day = match self.epoch_day {
            Some(day) => day,
            None => i64::from(date.ok_or_else(|| no_such(text))?.num_days_from_ce()) - 719_163,
        };
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        if hour > 24 || self.minute > 59 || self.second > 60 {
            return Err(no_such(text));
        }
        let clock = ((hour * 60 + self.minute) * 60 + self.second) * 1_000_000 + self.micros;
        day.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(clock)).ok_or_else(|| no_such(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_templates() {
        let day = |text, template| micros(text, template).map(|micros| micros.div_euclid(MICROS_PER_DAY));
        assert_eq!(day("20130517", "YYYYMMDD").map_err(|error| error.message), Ok(15_842));
        assert_eq!(day("17 May 2013", "DD Mon YYYY").map_err(|error| error.message), Ok(15_842));
        assert_eq!(day("17/05/13", "DD/MM/YY").map_err(|error| error.message), Ok(15_842));
        assert_eq!(
            micros("2013-05-17 02:25:36.5 PM", "YYYY-MM-DD HH12:MI:SS.MS AM").map_err(|error| error.message),
            Ok(1_368_800_736_500_000)
        );
        let zoned = |text, template| moment(text, template).map_err(|error| error.message);
        assert_eq!(zoned("1970-01-01 02 -03:30", "YYYY-MM-DD HH24 TZH:TZM"), Ok((7_200_000_000, Some(-12_600))));
        assert_eq!(zoned("1970-01-01 +05", "YYYY-MM-DD TZH"), Ok((0, Some(18_000))));
        assert!(day("2013-02-30", "YYYY-MM-DD").is_err());
        assert!(day("x", "YYYY").is_err());
    }
}
