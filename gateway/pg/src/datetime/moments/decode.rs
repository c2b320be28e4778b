//! The pieces of a text, taken in one by one: each fills parts of a date, a time or a zone. What numbers without colons
//! mean is in [`numbers`].

mod numbers;

use super::{
    super::{
        fields::{Field, Shape, Unit, Word, leading_int4, word},
        zone::Zone,
    },
    EPOCH_JULIAN, Fault, Input, MICROS, clock,
    clock::offset_seconds,
};
use keyspan_catalog::value::calendar::{MICROS_PER_DAY, civil_from_days, days_from_civil};

/// What a text says.
pub(super) enum Read {
    Infinity,
    MinusInfinity,
    Epoch,
    Time(LocalTime),
}

/// A local time and its offset.
pub(super) struct LocalTime {
    pub(super) days: i64,
    pub(super) micros: i64,
    /// Seconds east of Greenwich.
    pub(super) offset: i64,
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
pub(super) struct Decoder<'a> {
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
    pub(super) fn new(input: Input<'a>, of_day: bool) -> Self {
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

    pub(super) fn read(&mut self, fields: &[Field]) -> Result<(), Fault> {
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

    fn word_field(&mut self, at: usize, text: &str, all: &[Field]) -> Result<Option<u32>, Fault> {
        use crate::datetime::abbreviations::{Meaning, meaning};
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

    pub(super) fn finish(mut self) -> Result<Read, Fault> {
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

    pub(super) fn time_of_day(mut self) -> Result<i64, Fault> {
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
    crate::datetime::abbreviations::meaning(&zone.name().to_ascii_lowercase()).is_none()
}
