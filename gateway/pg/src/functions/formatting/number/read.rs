//! A number that was written by a template.

use super::{Element, Layout, invalid};
use crate::{
    error::{SqlError, SqlState},
    numeric::{number::Number, power},
};
use keyspan_catalog::value::exact::Exact;

/// The number that a text has under a template.
#[derive(Debug)]
pub struct Read {
    /// Its decimal text.
    pub plain: String,
    /// Digits before the point that the template has room for, and after it.
    pub before: usize,
    pub after: usize,
    /// Digits by which `V` had moved the point.
    pub shift: usize,
}

/// Reads a text.
///
/// # Errors
/// 42601 where the template contradicts itself, 0A000 for `RN` and `EEEE`, 22P02 where there is no digit.
pub fn read(text: &str, template: &str) -> crate::error::Result<Read> {
    let layout = Layout::of(template)?;
    if layout.exponent || layout.roman {
        let name = if layout.exponent { "EEEE" } else { "RN" };
        return Err(SqlError::unsupported(format!("\"{name}\" not supported for input")));
    }
    let mut reader = Reader { text, at: 0, sign: None, digits: String::new(), before: 0, after: 0, point: false };
    for element in &layout.elements {
        if reader.rest().is_empty() {
            break;
        }
        reader.element(*element, &layout);
    }
    let digits = reader.digits.trim_end_matches('.');
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        // PostgreSQL hands a blank to its reader of numerics.
        return Err(invalid(&format!("{}{digits}", reader.sign.unwrap_or(' '))));
    }
    let sign = if reader.sign == Some('-') { "-" } else { "" };
    let shift = layout.shift.unwrap_or(0);
    Ok(Read { plain: format!("{sign}{digits}"), before: layout.before + shift, after: reader.after, shift })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    sign: Option<char>,
    digits: String,
    before: usize,
    after: usize,
    point: bool,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        self.at += self.next().map_or(0, char::len_utf8);
    }

    /// Skips so many characters that belong to no number.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            if self.next().is_none_or(|next| "0123456789.,+-".contains(next)) {
                break;
            }
            self.skip();
        }
    }

    fn element(&mut self, element: Element, layout: &Layout) {
        match element {
            Element::Nine | Element::Zero | Element::Point => {
                self.digit(element, layout);
                self.skip();
            }
            Element::Comma | Element::Group => {
                if self.next() == Some(',') {
                    self.skip();
                }
            }
            Element::Currency => self.skip_others(1),
            Element::Ending(_) => self.skip_others(2),
            Element::Minus | Element::Plus | Element::Sign => {
                let taken = match (element, self.next()) {
                    (Element::Minus | Element::Sign, Some('-')) => Some('-'),
                    (Element::Plus | Element::Sign, Some('+')) => Some('+'),
                    _ => None,
                };
                if taken.is_some() {
                    self.sign = taken;
                    self.skip();
                } else {
                    self.skip_others(1);
                }
            }
            Element::Roman(_) | Element::Said => {}
            // Any one character, whichever it is.
            Element::Text(_) => self.skip(),
        }
    }

    /// A digit or the point, with a sign before or behind; the last character that was read is left for the caller.
    fn digit(&mut self, element: Element, layout: &Layout) {
        if self.next() == Some(' ') {
            self.skip();
        }
        let Some(next) = self.next() else { return };
        let mut next = next;
        if self.sign.is_none() && element != Element::Point && self.before + self.after == 0 {
            // A sign that stands behind is read before, too.
            let sign = match next {
                '-' | '+' => Some(next),
                '<' if layout.angles => Some('-'),
                _ => None,
            };
            if sign.is_some() {
                self.sign = sign;
                self.skip();
                let Some(following) = self.next() else { return };
                next = following;
            }
        }
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.point && self.after == layout.after {
                return;
            }
            self.digits.push(next);
            *(if self.point { &mut self.after } else { &mut self.before }) += 1;
            is_read = true;
        } else if layout.point && !self.point && next == '.' {
            self.digits.push('.');
            (self.point, is_read) = (true, true);
        }
        if self.sign.is_some() || self.before + self.after == 0 {
            return;
        }
        // Where a sign stands behind the last digit is not known before it is there.
        let mut following = self.rest().chars();
        let current = following.next();
        if layout.anchored.is_some() && is_read {
            if let Some(sign @ ('-' | '+')) = following.next() {
                self.skip();
                self.sign = Some(sign);
            }
        } else if !is_read
            && layout.anchored.is_none()
            && (layout.plus || layout.minus)
            && let Some(sign @ ('-' | '+')) = current
        {
            self.sign = Some(sign);
        }
    }
}

/// # Errors
/// 22003 where a number has more digits before its point than its template.
pub fn check_room(read: &Read) -> crate::error::Result<()> {
    let whole = read.plain.trim_start_matches('-').split('.').next().unwrap_or("");
    if whole.trim_start_matches('0').len() <= read.before {
        return Ok(());
    }
    let (precision, scale) = (read.before + read.after, read.after);
    let detail = format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
        read.before
    );
    Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail))
}

/// A number whose point `V` had moved, with the digits that PostgreSQL's product with a power of ten has.
///
/// # Errors
/// 22003 where it has too many digits.
pub fn shifted_back(exact: Exact, shift: usize) -> crate::error::Result<Exact> {
    if shift == 0 {
        return Ok(exact);
    }
    let places = i64::try_from(shift).unwrap_or(i64::MAX);
    let factor = power::power(&Number::integer(10), &Number::integer(-places))?;
    Number::of(&exact).times(&factor).to_exact()
}
