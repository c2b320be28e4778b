//! Dates, timestamps and times of day from text: PostgreSQL's `DecodeDateTime` and `DecodeTimeOnly`.
//!
//! The text is cut into [`fields`]; each fills parts of a date, a time or a zone, and no part twice. Numbers without
//! labels are year, month and day by what is there already and by the order of `DateStyle`. Then the year is completed,
//! the day is checked, and the zone's offset at that local time is found.

use super::{
    fields::{self, Field, Shape, Unit, Word, fields, fraction, fraction_micros, leading_int4, word},
    style::{DateOrder, Style},
    zone::Zone,
};
use crate::error::{SqlError, SqlState};
use keyspan_catalog::value::calendar::{MICROS_PER_DAY, civil_from_days, days_from_civil, is_date, is_timestamp};
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

/// What a text says.
enum Read {
    Infinity,
    MinusInfinity,
    Epoch,
    Time(LocalTime),
}

/// A local time and its offset.
struct LocalTime {
    days: i64,
    micros: i64,
    /// Seconds east of Greenwich.
    offset: i64,
}

fn read(text: &str, input: Input<'_>) -> Result<Read, Fault> {
    let fields = fields(text)?;
    let mut decoder = Decoder::new(input, false);
    decoder.read(&fields)?;
    decoder.finish()
}

/// Parts of a time, as bits.
mod part {
    pub(super) const YEAR: u32 = 1;
    pub(super) const MONTH: u32 = 1 << 1;
    pub(super) const DAY: u32 = 1 << 2;
    pub(super) const HOUR: u32 = 1 << 3;
    pub(super) const MINUTE: u32 = 1 << 4;
    pub(super) const SECOND: u32 = 1 << 5;
    /// A fraction of a second.
    pub(super) const FRACTION: u32 = 1 << 6;
    pub(super) const ZONE: u32 = 1 << 7;
    pub(super) const SUMMER: u32 = 1 << 8;
    pub(super) const SUMMER_WORD: u32 = 1 << 9;
    pub(super) const DAY_OF_YEAR: u32 = 1 << 10;
    pub(super) const WEEKDAY: u32 = 1 << 11;
    pub(super) const HALF: u32 = 1 << 12;
    pub(super) const ERA: u32 = 1 << 13;

    pub(super) const SECONDS: u32 = SECOND | FRACTION;
    pub(super) const DATE: u32 = YEAR | MONTH | DAY;
    pub(super) const TIME: u32 = HOUR | MINUTE | SECONDS;
}

/// A text whose pieces are taken in one by one.
struct Decoder<'a> {
    input: Input<'a>,
    /// Whether it is a time of day, which needs no date.
    of_day: bool,
    /// The parts that are there.
    parts: u32,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// What the next number is.
    label: Option<Unit>,
    afternoon: Option<bool>,
    before_christ: bool,
    has_month_word: bool,
    is_julian: bool,
    /// Whether the year has two digits.
    is_short_year: bool,
    /// Seconds east of Greenwich.
    offset: i64,
    /// A zone, whose offset depends on the time.
    zone: Option<Zone>,
    /// `infinity` and `epoch`.
    special: Option<Word>,
}

impl<'a> Decoder<'a> {
    fn new(input: Input<'a>, of_day: bool) -> Self {
        Self {
            input,
            of_day,
            parts: 0,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            hour: 0,
            minute: 0,
            second: 0,
            micros: 0,
            label: None,
            afternoon: None,
            before_christ: false,
            has_month_word: false,
            is_julian: false,
            is_short_year: false,
            offset: 0,
            zone: None,
            special: None,
        }
    }

    fn has(&self, parts: u32) -> bool {
        self.parts & parts == parts
    }

    /// The parts that numbers are judged by: of a time of day, the date counts as known.
    fn known(&self) -> u32 {
        if self.of_day { self.parts | part::DATE } else { self.parts }
    }

    fn read(&mut self, fields: &[Field]) -> Result<(), Fault> {
        for (at, field) in fields.iter().enumerate() {
            let Some(parts) = self.field(at, field, fields)? else { continue };
            if parts & self.parts != 0 {
                return Err(Fault::Format);
            }
            self.parts |= parts;
        }
        Ok(())
    }

    /// Takes a piece in; gives the parts that it is, `None` for a word without a meaning.
    fn field(&mut self, at: usize, field: &Field, all: &[Field]) -> Result<Option<u32>, Fault> {
        let text = field.text.as_str();
        Ok(Some(match field.shape {
            Shape::Date => self.date_field(at, text, all)?,
            Shape::Time => {
                match self.label.take() {
                    None | Some(Unit::Time) => {}
                    Some(label) if self.of_day => self.label = Some(label),
                    Some(_) => return Err(Fault::Format),
                }
                self.clock(text)?;
                if !self.of_day && self.overflows() {
                    return Err(Fault::Field);
                }
                part::TIME
            }
            Shape::Signed => {
                self.offset = offset_seconds(text)?;
                part::ZONE
            }
            Shape::Number => match self.label.take() {
                Some(label) => self.labelled(label, text)?,
                None => self.bare_number(at, text, all)?,
            },
            Shape::Word | Shape::SignedWord => return self.word_field(at, text, all),
        }))
    }

    /// A piece with delimiters in it: a date, the name of a zone, a time that an offset follows, a Julian day with one.
    fn date_field(&mut self, at: usize, text: &str, all: &[Field]) -> Result<u32, Fault> {
        let starts_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
        if self.of_day {
            let last_is_date = all.last().is_some_and(|last| last.shape == Shape::Date);
            let then_time = all.get(1).is_some_and(|next| next.shape == Shape::Time);
            if at == 0 && all.len() >= 2 && (last_is_date || then_time) {
                return self.date(text);
            }
            if !starts_with_digit {
                return self.named_zone(text);
            }
            if self.has(part::TIME) {
                return Err(Fault::Format);
            }
            return self.time_with_offset(text);
        }
        if self.label == Some(Unit::Julian) {
            let (julian, rest) = leading_int4(text)?;
            if julian < 0 {
                return Err(Fault::Field);
            }
            self.julian(julian);
            self.offset = offset_seconds(rest)?;
            self.label = None;
            return Ok(part::DATE | part::TIME | part::ZONE);
        }
        if self.label.is_none() && !self.has(part::MONTH | part::DAY) {
            return self.date(text);
        }
        if !starts_with_digit && self.label.is_none() {
            return self.named_zone(text);
        }
        if self.label.take().is_some_and(|label| label != Unit::Time) || self.has(part::TIME) {
            return Err(Fault::Format);
        }
        self.time_with_offset(text)
    }

    /// `hhmmss-zz`
    fn time_with_offset(&mut self, text: &str) -> Result<u32, Fault> {
        let dash = text.find('-').ok_or(Fault::Format)?;
        self.offset = offset_seconds(&text[dash..])?;
        let known = self.known();
        Ok(self.run_together(&text[..dash], known)? | part::ZONE)
    }

    fn named_zone(&mut self, name: &str) -> Result<u32, Fault> {
        self.zone = Some(Zone::named(name).ok_or_else(|| Fault::Zone(name.to_owned()))?);
        Ok(part::ZONE)
    }

    /// A number whose label stood before it: `y2001`.
    fn labelled(&mut self, label: Unit, text: &str) -> Result<u32, Fault> {
        let (number, rest) = leading_int4(text)?;
        if rest.starts_with('.') {
            if !matches!(label, Unit::Julian | Unit::Time | Unit::Second) {
                return Err(Fault::Format);
            }
        } else if !rest.is_empty() {
            return Err(Fault::Format);
        }
        Ok(match label {
            Unit::Year => {
                self.year = number;
                part::YEAR
            }
            // After a month and an hour, `m` is for minutes.
            Unit::Month if self.has(part::MONTH | part::HOUR) || (self.of_day && self.has(part::HOUR)) => {
                self.minute = number;
                part::MINUTE
            }
            Unit::Month => {
                self.month = number;
                part::MONTH
            }
            Unit::Day => {
                self.day = number;
                part::DAY
            }
            Unit::Hour => {
                self.hour = number;
                part::HOUR
            }
            Unit::Minute => {
                self.minute = number;
                part::MINUTE
            }
            Unit::Second => {
                self.second = number;
                if rest.is_empty() {
                    part::SECOND
                } else {
                    self.micros = fraction_micros(rest)?;
                    part::SECONDS
                }
            }
            Unit::Julian => {
                if number < 0 {
                    return Err(Fault::Field);
                }
                self.julian(number);
                if rest.is_empty() {
                    part::DATE
                } else {
                    #[expect(clippy::cast_possible_truncation, reason = "at most a day")]
                    let micros = (fraction(rest)? * MICROS_PER_DAY as f64) as i64;
                    self.set_clock(micros);
                    part::DATE | part::TIME
                }
            }
            Unit::Time => {
                let known = self.parts | part::DATE;
                let parts = self.run_together(text, known)?;
                if parts != part::TIME {
                    return Err(Fault::Format);
                }
                parts
            }
            Unit::Other => return Err(Fault::Format),
        })
    }

    fn bare_number(&mut self, at: usize, text: &str, all: &[Field]) -> Result<u32, Fault> {
        let point = text.find('.');
        let known = self.known();
        if self.of_day {
            return match point {
                Some(_) if at == 0 && all.len() >= 2 && all.last().is_some_and(|last| last.shape == Shape::Date) => {
                    self.date(text)
                }
                Some(point) if point > 2 => self.run_together(text, known),
                Some(_) => Err(Fault::Format),
                None if text.len() > 4 => self.run_together(text, known),
                None => self.number(text, known, false),
            };
        }
        match point {
            Some(_) if self.parts & part::DATE == 0 => self.date(text),
            Some(point) if point > 2 => self.run_together(text, known),
            _ if text.len() >= 6 && (self.parts & part::DATE == 0 || self.parts & part::TIME == 0) => {
                self.run_together(text, known)
            }
            _ => self.number(text, known, self.has_month_word),
        }
    }

    fn word_field(&mut self, at: usize, text: &str, all: &[Field]) -> Result<Option<u32>, Fault> {
        use super::abbreviations::{Meaning, meaning};
        match meaning(text) {
            Some(Meaning::Standard(offset)) => {
                self.offset = i64::from(offset);
                return Ok(Some(part::ZONE));
            }
            Some(Meaning::Summer(offset)) => {
                self.offset = i64::from(offset);
                return Ok(Some(part::ZONE | part::SUMMER));
            }
            Some(Meaning::Of(_)) => {
                self.zone = Zone::abbreviated(text);
                return Ok(Some(part::ZONE));
            }
            None => {}
        }
        let Some(word) = word(text) else {
            self.zone = Some(Zone::named(text).ok_or(Fault::Format)?);
            return Ok(Some(part::ZONE));
        };
        Ok(Some(match word {
            Word::Ignored => return Ok(None),
            Word::Now => {
                let local = self.input.style.zone.to_local(self.input.now_micros).ok_or(Fault::Field)?;
                self.set_clock(local.rem_euclid(MICROS_PER_DAY));
                if self.of_day {
                    part::TIME
                } else {
                    self.set_days(local.div_euclid(MICROS_PER_DAY));
                    self.offset = (local - self.input.now_micros) / MICROS;
                    part::DATE | part::TIME | part::ZONE
                }
            }
            Word::AllBalls => {
                self.set_clock(0);
                self.offset = 0;
                part::TIME | part::ZONE
            }
            Word::Yesterday | Word::Today | Word::Tomorrow | Word::Epoch | Word::Infinity | Word::MinusInfinity
                if self.of_day =>
            {
                return Err(Fault::Format);
            }
            Word::Yesterday | Word::Today | Word::Tomorrow => {
                let local = self.input.style.zone.to_local(self.input.now_micros).ok_or(Fault::Field)?;
                let moved = match word {
                    Word::Yesterday => -1,
                    Word::Tomorrow => 1,
                    _ => 0,
                };
                self.set_days(local.div_euclid(MICROS_PER_DAY) + moved);
                part::DATE
            }
            Word::Epoch | Word::Infinity | Word::MinusInfinity => {
                self.special = Some(word);
                part::DATE | part::TIME | part::ZONE
            }
            Word::Month(month) if !self.of_day => {
                // A number that was taken for the month may be the day.
                let was_day = self.has(part::MONTH)
                    && !self.has_month_word
                    && !self.has(part::DAY)
                    && (1..=31).contains(&self.month);
                if was_day {
                    self.day = self.month;
                }
                self.has_month_word = true;
                self.month = month;
                if was_day { part::DAY } else { part::MONTH }
            }
            Word::Month(_) => return Err(Fault::Format),
            Word::Weekday if !self.of_day => part::WEEKDAY,
            Word::Weekday => return Err(Fault::Format),
            Word::Afternoon(afternoon) => {
                self.afternoon = Some(afternoon);
                part::HALF
            }
            Word::BeforeChrist(before) => {
                self.before_christ = before;
                part::ERA
            }
            Word::Summer => {
                self.offset += 3_600;
                part::SUMMER | part::SUMMER_WORD
            }
            Word::Unit(unit) => {
                self.label = Some(unit);
                0
            }
            Word::Time => {
                if !self.of_day && !self.has(part::DATE) {
                    return Err(Fault::Format);
                }
                let then = all.get(at + 1).map(|next| next.shape);
                if !matches!(then, Some(Shape::Number | Shape::Time | Shape::Date)) {
                    return Err(Fault::Format);
                }
                self.label = Some(Unit::Time);
                0
            }
        }))
    }

    /// A date of three parts.
    fn date(&mut self, text: &str) -> Result<u32, Fault> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let start = rest.find(|c: char| c.is_ascii_alphanumeric()).ok_or(Fault::Format)?;
            rest = &rest[start..];
            let is_digit = rest.starts_with(|c: char| c.is_ascii_digit());
            let same = |c: char| if is_digit { c.is_ascii_digit() } else { c.is_ascii_alphabetic() };
            let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
            pieces.push((&rest[..end], is_digit));
            // The delimiter, or what else follows, is dropped.
            let next = rest[end..].chars().next().map_or(0, char::len_utf8);
            rest = &rest[end + next..];
        }
        let (mut known, mut found, mut has_month_word) = (self.parts, 0, false);
        for (piece, _) in pieces.iter().filter(|(_, is_digit)| !is_digit) {
            match word(piece) {
                Some(Word::Ignored) => {}
                Some(Word::Month(month)) if known & part::MONTH == 0 => {
                    self.month = month;
                    has_month_word = true;
                    known |= part::MONTH;
                    found |= part::MONTH;
                }
                _ => return Err(Fault::Format),
            }
        }
        for (piece, _) in pieces.iter().filter(|(_, is_digit)| *is_digit) {
            let parts = self.number(piece, known, has_month_word)?;
            if known & parts != 0 {
                return Err(Fault::Format);
            }
            known |= parts;
            found |= parts;
        }
        if known & !(part::DAY_OF_YEAR | part::ZONE) != part::DATE {
            return Err(Fault::Format);
        }
        Ok(found)
    }

    /// A number that is a part of a date, or a time. PostgreSQL's `DecodeNumber`.
    fn number(&mut self, text: &str, known: u32, has_month_word: bool) -> Result<u32, Fault> {
        let (number, rest) = leading_int4(text)?;
        if rest.starts_with('.') {
            if text.len() - rest.len() > 2 {
                return self.run_together(text, known | part::DATE);
            }
            self.micros = fraction_micros(rest)?;
        } else if !rest.is_empty() || text.is_empty() {
            return Err(Fault::Format);
        }
        let order = self.input.style.order;
        let dates = known & part::DATE;
        if text.len() == 3 && dates == part::YEAR && (1..=366).contains(&number) {
            self.day_of_year = number;
            return Ok(part::DAY_OF_YEAR | part::MONTH | part::DAY);
        }
        const YEAR_MONTH: u32 = part::YEAR | part::MONTH;
        const MONTH_DAY: u32 = part::MONTH | part::DAY;
        let is_year = text.len() >= 3 || order == DateOrder::Ymd;
        let parts = match dates {
            0 if is_year => part::YEAR,
            0 if order == DateOrder::Dmy => part::DAY,
            0 => part::MONTH,
            part::YEAR => part::MONTH,
            part::MONTH if has_month_word && is_year => part::YEAR,
            part::MONTH => part::DAY,
            YEAR_MONTH if has_month_word && text.len() >= 3 && self.is_short_year => {
                // The number that was taken for the year was the day.
                self.day = self.year;
                self.year = number;
                self.is_short_year = false;
                return Ok(part::DAY);
            }
            YEAR_MONTH => part::DAY,
            part::DAY => part::MONTH,
            MONTH_DAY => part::YEAR,
            part::DATE => return self.run_together(text, known),
            _ => return Err(Fault::Format),
        };
        match parts {
            part::YEAR => {
                self.year = number;
                self.is_short_year = text.len() <= 2;
            }
            part::MONTH => self.month = number,
            _ => self.day = number,
        }
        Ok(parts)
    }

    /// `20011225` and `040506.789`. PostgreSQL's `DecodeNumberField`.
    fn run_together(&mut self, text: &str, known: u32) -> Result<u32, Fault> {
        let number = |text: &str| leading_int4(text).map_or(0, |(number, _)| number);
        let mut digits = text;
        if let Some(point) = text.find('.') {
            let behind = &text[point + 1..];
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            self.micros = fraction_micros(&text[point..point + 1 + end])?;
            digits = &text[..point];
        } else if known & part::DATE != part::DATE && text.len() >= 6 {
            let (year, month_day) = text.split_at(text.len() - 4);
            (self.year, self.month, self.day) = (number(year), number(&month_day[..2]), number(&month_day[2..]));
            self.is_short_year |= year.len() == 2;
            return Ok(part::DATE);
        }
        if known & part::TIME == part::TIME {
            return Err(Fault::Format);
        }
        let two = |at: usize| number(&digits[at..at + 2]);
        (self.hour, self.minute, self.second) = match digits.len() {
            6 => (two(0), two(2), two(4)),
            4 => (two(0), two(2), 0),
            _ => return Err(Fault::Format),
        };
        Ok(part::TIME)
    }

    /// `04:05:06.789`
    fn clock(&mut self, text: &str) -> Result<(), Fault> {
        let clock = clock(text, false)?;
        if i32::try_from(clock.hour).is_err() {
            return Err(Fault::Field);
        }
        (self.hour, self.minute, self.second, self.micros) = (clock.hour, clock.minute, clock.second, clock.micros);
        Ok(())
    }

    fn set_clock(&mut self, micros: i64) {
        self.hour = micros / (3_600 * MICROS);
        self.minute = micros / (60 * MICROS) % 60;
        self.second = micros / MICROS % 60;
        self.micros = micros % MICROS;
    }

    fn set_days(&mut self, days: i64) {
        let (year, month, day) = civil_from_days(days);
        (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        // As a Julian day: the year is that of the calendar, also before the first.
        self.is_julian = true;
    }

    fn julian(&mut self, julian: i64) {
        self.set_days(julian - EPOCH_JULIAN);
    }

    fn of_day_micros(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * MICROS + self.micros
    }

    fn overflows(&self) -> bool {
        !(0..=24).contains(&self.hour)
            || !(0..60).contains(&self.minute)
            || !(0..=60).contains(&self.second)
            || !(0..=MICROS).contains(&self.micros)
            || self.of_day_micros() > MICROS_PER_DAY
    }

    /// Completes the year and checks the day. PostgreSQL's `ValidateDate`.
    fn validate(&mut self) -> Result<(), Fault> {
        if self.has(part::YEAR) && !self.is_julian {
            match () {
                () if self.before_christ => {
                    if self.year <= 0 {
                        return Err(Fault::Field);
                    }
                    self.year = 1 - self.year;
                }
                () if self.is_short_year => match self.year {
                    ..0 => return Err(Fault::Field),
                    0..70 => self.year += 2_000,
                    70..100 => self.year += 1_900,
                    _ => {}
                },
                () if self.year <= 0 => return Err(Fault::Field),
                () => {}
            }
        }
        if self.has(part::DAY_OF_YEAR) {
            let first = days_from_civil(self.year, 1, 1).ok_or(Fault::Field)?;
            let (year, month, day) = civil_from_days(first + self.day_of_year - 1);
            (self.year, self.month, self.day) = (year, i64::from(month), i64::from(day));
        }
        if (self.has(part::MONTH) && !(1..=12).contains(&self.month))
            || (self.has(part::DAY) && !(1..=31).contains(&self.day))
        {
            return Err(Fault::MonthOrDay);
        }
        if self.has(part::DATE) { self.days().map(drop) } else { Ok(()) }
    }

    fn days(&self) -> Result<i64, Fault> {
        let (month, day) = (u32::try_from(self.month), u32::try_from(self.day));
        let (Ok(month), Ok(day)) = (month, day) else { return Err(Fault::Field) };
        days_from_civil(self.year, month, day).ok_or(Fault::Field)
    }

    fn half_of_day(&mut self) -> Result<(), Fault> {
        let Some(afternoon) = self.afternoon else { return Ok(()) };
        match (afternoon, self.hour) {
            (_, 13..) => return Err(Fault::Field),
            (false, 12) => self.hour = 0,
            (true, hour) if hour != 12 => self.hour += 12,
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Read, Fault> {
        self.validate_unless_special()?;
        match self.special {
            Some(Word::Infinity) => return Ok(Read::Infinity),
            Some(Word::MinusInfinity) => return Ok(Read::MinusInfinity),
            Some(_) => return Ok(Read::Epoch),
            None => {}
        }
        if !self.has(part::DATE) {
            return Err(Fault::Format);
        }
        let (days, micros) = (self.days()?, self.of_day_micros());
        let zone = match &self.zone {
            Some(zone) => Some(zone),
            None if self.has(part::ZONE) => None,
            None => Some(&self.input.style.zone),
        };
        let offset = match zone {
            // Summer time is a zone's own business.
            Some(_) if self.has(part::SUMMER_WORD) => return Err(Fault::Format),
            Some(zone) => zone.offset_of_local(days * (MICROS_PER_DAY / MICROS) + micros.div_euclid(MICROS)),
            None => self.offset,
        };
        Ok(Read::Time(LocalTime { days, micros, offset }))
    }

    fn validate_unless_special(&mut self) -> Result<(), Fault> {
        if self.special.is_some() {
            return Ok(());
        }
        self.validate()?;
        self.half_of_day()
    }

    fn time_of_day(mut self) -> Result<i64, Fault> {
        self.validate()?;
        self.half_of_day()?;
        if self.overflows() {
            return Err(Fault::Field);
        }
        if !self.has(part::TIME) {
            return Err(Fault::Format);
        }
        if let Some(zone) = &self.zone {
            let needs_date = zone.fixed_offset().is_none() && meaning_of(zone);
            if self.has(part::SUMMER_WORD) || (needs_date && !self.has(part::DATE)) {
                return Err(Fault::Format);
            }
        } else if self.has(part::SUMMER_WORD) && !self.has(part::ZONE) {
            return Err(Fault::Format);
        }
        Ok(self.of_day_micros())
    }
}

/// Whether a zone's name is none of an abbreviation, whose offset is that of today.
fn meaning_of(zone: &Zone) -> bool {
    super::abbreviations::meaning(&zone.name().to_ascii_lowercase()).is_none()
}

/// The zone of an offset such as `+02:30`, which is east of Greenwich; `None` for another text.
pub fn offset(text: &str) -> Option<Result<Zone, SqlError>> {
    match offset_seconds(text) {
        Ok(seconds) => Zone::fixed(seconds).map(Ok),
        Err(Fault::Offset) => {
            let message = format!("numeric time zone \"{text}\" out of range");
            Some(Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        }
        Err(_) => None,
    }
}

/// A zone's offset, in seconds east of Greenwich. PostgreSQL's `DecodeTimezone`.
fn offset_seconds(text: &str) -> Result<i64, Fault> {
    let sign = match text.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(Fault::Format),
    };
    let beyond = |_| Fault::Offset;
    let digits = &text[1..];
    let (mut hours, mut rest) = leading_int4(digits).map_err(beyond)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minutes, rest) = leading_int4(after).map_err(beyond)?;
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = leading_int4(after).map_err(beyond)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Fault::Offset);
    }
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds))
}

/// Hours, minutes, seconds and microseconds of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
}

/// `04:05`, `04:05:06.7`; `05:06.7` is minutes and seconds, and so are two numbers if `minutes_first`. The hours may be
/// any number. PostgreSQL's `DecodeTimeCommon`.
pub(super) fn clock(text: &str, minutes_first: bool) -> Result<Clock, Fault> {
    let (hour, rest) = fields::leading_int(text)?;
    let rest = rest.strip_prefix(':').ok_or(Fault::Format)?;
    let (minute, rest) = leading_int4(rest)?;
    let clock = match rest.as_bytes().first() {
        None if minutes_first => {
            if i32::try_from(hour).is_err() {
                return Err(Fault::Field);
            }
            Clock { hour: 0, minute: hour, second: minute, micros: 0 }
        }
        None => Clock { hour, minute, second: 0, micros: 0 },
        Some(b'.') => {
            if i32::try_from(hour).is_err() {
                return Err(Fault::Field);
            }
            Clock { hour: 0, minute: hour, second: minute, micros: fraction_micros(rest)? }
        }
        Some(b':') => {
            let (second, rest) = leading_int4(&rest[1..])?;
            let micros = if rest.is_empty() { 0 } else { fraction_micros(rest)? };
            Clock { hour, minute, second, micros }
        }
        Some(_) => return Err(Fault::Format),
    };
    let fits = clock.hour >= 0
        && (0..60).contains(&clock.minute)
        && (0..=60).contains(&clock.second)
        && (0..=MICROS).contains(&clock.micros);
    if fits { Ok(clock) } else { Err(Fault::Field) }
}
