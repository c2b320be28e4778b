//! Dates, timestamps and times of day from text: PostgreSQL's `DecodeDateTime` and `DecodeTimeOnly`.
//!
//! The text is cut into [`fields`]; each fills parts of a date, a time or a zone, and no part twice. Numbers without
//! labels are year, month and day by what is there already and by the order of `DateStyle`. Then the year is completed,
//! the day is checked, and the zone's offset at that local time is found.

mod clock;
mod decode;

pub use clock::offset;
pub(super) use clock::{Clock, clock};

use super::{fields::fields, style::Style};
use crate::error::{SqlError, SqlState};
use decode::{Decoder, Read};
use keyspan_catalog::value::calendar::{MICROS_PER_DAY, days_from_civil, is_date, is_timestamp};
use std::sync::Arc;

const MICROS: i64 = 1_000_000;
/// The number of 1970-01-01 among Julian days.
const EPOCH_JULIAN: i64 = 2_440_588;

/// What values are read with: the style of the session, and what `now` is.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The style.
    pub style: &'a Style,
    /// When the transaction began, in microseconds since 1970.
    pub now_micros: i64,
}

/// An [`Input`] that owns its style.
#[derive(Clone, Debug, Default)]
pub struct OwnedInput {
    /// The style.
    pub style: Arc<Style>,
    /// When the transaction began, in microseconds since 1970.
    pub now_micros: i64,
}

impl OwnedInput {
    /// As those that read take it.
    pub fn input(&self) -> Input<'_> {
        Input { style: &self.style, now_micros: self.now_micros }
    }
}

impl Input<'static> {
    /// That of a session which has set nothing, where no text depends on the time.
    pub fn initial() -> Self {
        Self { style: Style::initial(), now_micros: 0 }
    }
}

impl<'a> Input<'a> {
    /// What a statement's configuration carries.
    pub fn within(options: &'a datafusion::config::ConfigOptions) -> Self {
        let time = crate::statement_time::StatementTime::within(options);
        Self { style: Style::within(options), now_micros: time.map_or(0, |time| time.transaction_micros) }
    }
}

/// Why a text is not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its form.
    Format,
    /// A field is out of range.
    Field,
    /// A month or a day is, which another order of fields might mend.
    MonthOrDay,
    /// An offset from UTC is.
    Offset,
    /// There is no zone of this name.
    Zone(String),
}

impl Fault {
    /// The error of PostgreSQL's `DateTimeParseError`.
    pub(super) fn error(self, kind: &str, text: &str) -> SqlError {
        let beyond = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        };
        match self {
            Self::Format => SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {kind}: \"{text}\""),
            ),
            Self::Field => beyond(),
            Self::MonthOrDay => beyond().with_hint("Perhaps you need a different \"datestyle\" setting."),
            Self::Offset => SqlError::new(
                SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
                format!("time zone displacement out of range: \"{text}\""),
            ),
            Self::Zone(name) => {
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"))
            }
        }
    }
}

/// Whether a text may name a time by the moment at which it is read: `now`, `today`.
pub fn depends_on_now(text: &str) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    let is_one = |word: &str| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known));
    text.split(|c: char| !c.is_ascii_alphabetic()).any(is_one)
}

/// A date: days since 1970, the infinities at the ends.
///
/// # Errors
/// 22007, 22008, 22009, 22023.
pub fn date(text: &str, input: Input<'_>) -> Result<i32, SqlError> {
    if let Some(days) = plain_date(text.as_bytes()) {
        return Ok(days);
    }
    let read = read(text, input).map_err(|fault| fault.error("date", text))?;
    let days = match read {
        Read::Infinity => return Ok(i32::MAX),
        Read::MinusInfinity => return Ok(i32::MIN),
        Read::Epoch => 0,
        Read::Time(time) => time.days,
    };
    let held = i32::try_from(days).ok().filter(|days| is_date(*days));
    held.ok_or_else(|| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\"")))
}

/// A `timestamp`, or a `timestamptz` when `zoned`: microseconds since 1970, the infinities at the ends. Without a zone
/// a `timestamptz` is in the session's; a `timestamp` pays no heed to a zone.
///
/// # Errors
/// 22007, 22008, 22009, 22023.
pub fn timestamp(text: &str, zoned: bool, input: Input<'_>) -> Result<i64, SqlError> {
    if let Some(local) = plain(text.as_bytes()) {
        return match (zoned, local) {
            (false, (local, _)) | (true, (local, true)) => Ok(local),
            (true, (local, false)) => input.style.zone.to_utc(local).ok_or_else(|| out_of_range(text)),
        };
    }
    let kind = if zoned { "timestamp with time zone" } else { "timestamp" };
    let read = read(text, input).map_err(|fault| fault.error(kind, text))?;
    let time = match read {
        Read::Infinity => return Ok(i64::MAX),
        Read::MinusInfinity => return Ok(i64::MIN),
        Read::Epoch => return Ok(0),
        Read::Time(time) => time,
    };
    let held = |micros: &i64| is_timestamp(*micros) && !matches!(*micros, i64::MIN | i64::MAX);
    let local = time.days.checked_mul(MICROS_PER_DAY).and_then(|micros| micros.checked_add(time.micros));
    let utc = |local: i64| if zoned { local.checked_sub(time.offset * MICROS) } else { Some(local) };
    local.and_then(utc).filter(held).ok_or_else(|| out_of_range(text))
}

fn out_of_range(text: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""))
}

/// The most frequent form of a date, `2024-01-31`.
fn plain_date(text: &[u8]) -> Option<i32> {
    let digits: &[u8; 10] = text.try_into().ok()?;
    let number = |range: std::ops::Range<usize>| {
        digits[range]
            .iter()
            .try_fold(0_u32, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let is_plain = digits[4] == b'-' && digits[7] == b'-' && year > 0;
    days_from_civil(year.into(), month, day).filter(|_| is_plain).and_then(|days| i32::try_from(days).ok())
}

/// The most frequent form, `2024-01-31 23:59:59.5+00`, in microseconds, and whether it says that it is in UTC. `None`
/// for every other form, and for fields that may be out of range.
fn plain(text: &[u8]) -> Option<(i64, bool)> {
    let (head, rest) = text.split_first_chunk::<19>()?;
    let digit = |byte: u8| Some(i64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    let two = |at: usize| Some(digit(head[at])? * 10 + digit(head[at + 1])?);
    if [head[4], head[7], head[13], head[16]] != *b"--::" || !matches!(head[10], b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (two(0)? * 100 + two(2)?, two(5)?, two(8)?);
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if year == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())),
        None => (&[][..], rest),
    };
    if fraction.len() > 6 || !matches!(zone, b"" | b"Z" | b"+00" | b"+00:00") {
        return None;
    }
    let digits = fraction.iter().map(|byte| i64::from(byte - b'0')).chain(std::iter::repeat(0)).take(6);
    let micros = digits.fold(0, |n, digit| n * 10 + digit);
    let days = days_from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)?;
    let of_day = ((hour * 60 + minute) * 60 + second) * MICROS + micros;
    Some((days * MICROS_PER_DAY + of_day, !zone.is_empty()))
}

/// A time of day in microseconds; a zone is read and dropped.
///
/// # Errors
/// 22007, 22008, 22009, 22023.
pub fn time(text: &str, input: Input<'_>) -> Result<i64, SqlError> {
    let of_day = || {
        let fields = fields(text)?;
        if fields.is_empty() {
            return Err(Fault::Format);
        }
        let mut decoder = Decoder::new(input, true);
        decoder.read(&fields)?;
        decoder.time_of_day()
    };
    of_day().map_err(|fault| fault.error("time", text))
}

fn read(text: &str, input: Input<'_>) -> Result<Read, Fault> {
    let fields = fields(text)?;
    let mut decoder = Decoder::new(input, false);
    decoder.read(&fields)?;
    decoder.finish()
}
