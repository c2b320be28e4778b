//! What numbers mean: by their label, by their digits, and by the parts that are there already.

use super::{Decoder, part};
use crate::datetime::{
    fields::{Field, Shape, Unit, Word, fraction, fraction_micros, leading_int4, word},
    moments::Fault,
    style::DateOrder,
};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;

impl Decoder<'_> {
    /// A number whose label stood before it: `y2001`.
    pub(super) fn labelled(&mut self, label: Unit, text: &str) -> Result<u32, Fault> {
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

    pub(super) fn bare_number(&mut self, at: usize, text: &str, all: &[Field]) -> Result<u32, Fault> {
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

    /// A date of three parts.
    pub(super) fn date(&mut self, text: &str) -> Result<u32, Fault> {
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
    pub(super) fn number(&mut self, text: &str, known: u32, has_month_word: bool) -> Result<u32, Fault> {
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
    pub(super) fn run_together(&mut self, text: &str, known: u32) -> Result<u32, Fault> {
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
}
