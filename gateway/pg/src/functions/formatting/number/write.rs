//! A number as a template has it.

use super::{Anchored, Element, Layout};
use crate::error::{Result, SqlError, SqlState};

/// What is written: floats have as many digits as they are sure of.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// All digits count.
    Exact,
    /// Of so many decimal digits (C's `FLT_DIG`, `DBL_DIG`).
    Float(usize, f64),
}

impl Kind {
    /// `real`.
    pub fn single(value: f32) -> Self {
        Self::Float(6, f64::from(value))
    }

    /// `double precision`.
    pub fn double(value: f64) -> Self {
        Self::Float(15, value)
    }
}

/// A number by a template; `plain` is its decimal text.
///
/// # Errors
/// 42601 where the template contradicts itself; of roman numerals 0A000 for NaN and infinities, 22003 beyond integers.
pub fn written(plain: &str, kind: Kind, template: &str) -> Result<String> {
    let mut layout = Layout::of(template)?;
    let special = plain.contains(['N', 'I']);
    if layout.exponent {
        return Ok(scientific(plain, special, kind, &layout));
    }
    if layout.roman {
        let number = match kind {
            Kind::Float(_, value) => roman(value.round_ties_even()),
            Kind::Exact if special => {
                let name = if plain.contains('N') { "NaN" } else { "infinity" };
                let message = format!("cannot convert {name} to integer");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            Kind::Exact => {
                let (negative, whole, _) = rounded(plain, 0);
                let number = if whole.is_empty() { 0.0 } else { whole.parse().unwrap_or(f64::INFINITY) };
                if number > f64::from(i32::MAX) {
                    return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
                }
                roman(if negative { -number } else { number })
            }
        };
        return Ok(Writer::of_roman(&layout, &number).run(&layout));
    }
    let shift = layout.shift.unwrap_or(0);
    let (negative, digits) = match kind {
        _ if special => (plain.starts_with('-'), plain.trim_start_matches('-').to_owned()),
        Kind::Float(sure, value) => {
            let value = if shift > 0 { value * 10_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX)) } else { value };
            // Digits that a float is not sure of are not written.
            let whole = format!("{:.0}", value.abs()).len();
            layout.after = if whole >= sure { 0 } else { layout.after.min(sure - whole) };
            let text = format!("{value:.*}", layout.after);
            (text.starts_with('-'), text.trim_start_matches('-').to_owned())
        }
        Kind::Exact => {
            let shifted = format!("{plain}e{shift}");
            let (negative, whole, fraction) = rounded(if shift > 0 { &shifted } else { plain }, layout.after);
            let whole = if whole.is_empty() { "0".to_owned() } else { whole };
            (negative, if layout.after > 0 { format!("{whole}.{fraction}") } else { whole })
        }
    };
    layout.before += shift;
    let whole = digits.find('.').unwrap_or(digits.len());
    let (digits, blanks) = if whole > layout.before {
        (format!("{}.{}", "#".repeat(layout.before), "#".repeat(layout.after)), 0)
    } else {
        (digits, layout.before - whole)
    };
    Ok(Writer::new(&layout, &digits, negative, blanks).run(&layout))
}

/// `EEEE`: one digit before the point.
fn scientific(plain: &str, special: bool, kind: Kind, layout: &Layout) -> String {
    if special {
        // Sign, point, `e`, its sign and two digits.
        let mut fill = vec![b'#'; layout.before + layout.after + 6];
        fill[0] = b' ';
        fill[layout.before + 1] = b'.';
        return String::from_utf8(fill).unwrap_or_default();
    }
    let (negative, mantissa, exponent) = match kind {
        Kind::Float(_, value) => {
            let text = format!("{value:.*e}", layout.after);
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            (mantissa.starts_with('-'), mantissa.trim_start_matches('-').to_owned(), exponent.parse().unwrap_or(0))
        }
        Kind::Exact => {
            let unsigned = plain.trim_start_matches('-');
            let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
            let all = format!("{whole}{fraction}");
            let zeroes = all.len() - all.trim_start_matches('0').len();
            let exponent = if zeroes == all.len() {
                0
            } else {
                i64::try_from(whole.len()).unwrap_or(0) - i64::try_from(zeroes).unwrap_or(0) - 1
            };
            let (_, whole, fraction) = rounded(&format!("{unsigned}e{}", -exponent), layout.after);
            let whole = if whole.is_empty() { "0".to_owned() } else { whole };
            let mantissa = if layout.after > 0 { format!("{whole}.{fraction}") } else { whole };
            (plain.starts_with('-'), mantissa, exponent)
        }
    };
    let sign = if negative { '-' } else { ' ' };
    let of_exponent = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{of_exponent}{:02}", exponent.abs())
}

/// Writes element after element.
struct Writer<'a> {
    digits: &'a [u8],
    /// The next digit.
    next: usize,
    negative: bool,
    /// Places before the first digit.
    blanks: usize,
    /// Of `FM` with a point: the last digit that is not a zero that only fills, or the point.
    last_relevant: Option<usize>,
    sign_written: bool,
    angles: bool,
    anchored: Option<Anchored>,
    /// The place in the template, of its digits and point.
    place: usize,
    /// How many there are, as the sign's end counts them.
    places: usize,
    /// Whether a digit was written last.
    begun: bool,
    out: String,
}

impl<'a> Writer<'a> {
    fn new(layout: &Layout, digits: &'a str, negative: bool, blanks: usize) -> Self {
        let mut angles = layout.angles;
        let mut anchored = layout.anchored;
        let sign_written = if layout.plus || layout.minus {
            layout.minus
        } else {
            angles &= negative || !layout.bare;
            if anchored == Some(Anchored::Before(layout.before)) {
                anchored = Some(Anchored::After);
            }
            !negative && layout.bare && layout.anchored.is_none()
        };
        let mut last_relevant = None;
        if layout.bare && layout.point {
            let bytes = digits.as_bytes();
            if let Some(point) = digits.find('.') {
                let last = bytes.iter().rposition(|digit| *digit != b'0').unwrap_or(point).max(point);
                let kept = match layout.last_zero.checked_sub(blanks) {
                    Some(kept) if kept > 0 => kept.min(bytes.len() - 1),
                    _ => 0,
                };
                last_relevant = Some(last.max(kept));
            }
        }
        let places = (layout.before + layout.after).saturating_sub(1) + usize::from(!sign_written && blanks == 0);
        Self {
            digits: digits.as_bytes(),
            next: 0,
            negative,
            blanks,
            last_relevant,
            sign_written,
            angles,
            anchored,
            place: 0,
            places,
            begun: false,
            out: String::new(),
        }
    }

    fn of_roman(layout: &Layout, number: &'a str) -> Self {
        Self {
            digits: number.as_bytes(),
            next: 0,
            negative: false,
            blanks: 0,
            last_relevant: None,
            sign_written: true,
            angles: false,
            anchored: None,
            place: 0,
            places: layout.elements.len(),
            begun: false,
            out: String::new(),
        }
    }

    fn at(&self, place: usize) -> Option<u8> {
        self.digits.get(place).copied()
    }

    /// The number begins with a zero under nines, which stays a blank.
    fn is_blank_zero(&self, layout: &Layout) -> bool {
        layout.first_zero.is_none() && self.next == 0 && self.at(0) == Some(b'0') && layout.after != 0
    }

    fn ends_in_point(&self) -> bool {
        self.last_relevant.is_some_and(|last| self.at(last) == Some(b'.'))
    }

    fn run(mut self, layout: &Layout) -> String {
        for element in &layout.elements {
            match element {
                Element::Nine | Element::Zero | Element::Point => self.digit(*element, layout),
                Element::Comma | Element::Group => {
                    if self.begun {
                        self.out.push(',');
                    } else if !layout.bare {
                        self.out.push(' ');
                    }
                }
                Element::Currency => self.out.push(' '),
                Element::Roman(capitals) => {
                    let number = String::from_utf8_lossy(self.digits).into_owned();
                    let number = if number.is_empty() { "#".repeat(15) } else { number };
                    let number = if *capitals { number } else { number.to_ascii_lowercase() };
                    self.out.push_str(&if layout.bare { number } else { format!("{number:>15}") });
                }
                Element::Ending(capitals) => {
                    if !layout.roman && self.at(0) != Some(b'#') && !self.negative && !layout.point {
                        let number = String::from_utf8_lossy(self.digits).into_owned();
                        self.out.push_str(super::super::time::ending(&number, *capitals));
                    }
                }
                // Numerals have no sign.
                Element::Minus | Element::Plus | Element::Sign if layout.roman => {}
                Element::Minus if self.negative => self.out.push('-'),
                Element::Plus if !self.negative => self.out.push('+'),
                Element::Minus | Element::Plus if layout.bare => {}
                Element::Minus | Element::Plus => self.out.push(' '),
                Element::Sign => self.out.push(if self.negative { '-' } else { '+' }),
                Element::Said => {}
                Element::Text(text) => self.out.push(*text),
            }
        }
        self.out
    }

    /// The sign, before the first digit.
    fn sign(&mut self) {
        match self.anchored {
            Some(Anchored::Before(_)) => self.out.push(if self.negative { '-' } else { '+' }),
            Some(Anchored::After) => return,
            None if self.angles => self.out.push(if self.negative { '<' } else { ' ' }),
            None if self.negative => self.out.push('-'),
            None => self.out.push(' '),
        }
        self.sign_written = true;
    }

    /// A `9`, `0` or point: the next place of the number.
    fn digit(&mut self, element: Element, layout: &Layout) {
        if layout.roman {
            return;
        }
        self.begun = false;
        let from_zero = layout.first_zero.is_some_and(|zero| zero <= self.place);
        let begins = self.place >= self.blanks || layout.first_zero == Some(self.place);
        if !self.sign_written && begins && (!self.is_blank_zero(layout) || self.ends_in_point()) {
            if self.negative || self.angles || self.anchored.is_some() || !layout.bare {
                self.sign();
            } else {
                self.sign_written = true;
            }
        }
        if self.place < self.blanks && !from_zero {
            if !layout.bare {
                self.out.push(' ');
            }
        } else if self.place < self.blanks {
            self.out.push('0');
            self.begun = true;
        } else {
            match self.at(self.next) {
                Some(b'.') => self.out.push('.'),
                None => {}
                Some(_) if element != Element::Zero && self.last_relevant.is_some_and(|last| self.next > last) => {}
                Some(_) if self.is_blank_zero(layout) => {
                    if !layout.bare {
                        self.out.push(' ');
                    } else if self.ends_in_point() {
                        self.out.push('0');
                    }
                }
                Some(digit) => {
                    self.out.push(char::from(digit));
                    self.begun = true;
                }
            }
            if self.next < self.digits.len() {
                self.next += 1;
            }
        }
        let mut end = self.places + usize::from(self.blanks > 0) + usize::from(layout.point);
        if self.last_relevant == Some(self.next) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.sign_written && self.angles {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.anchored == Some(Anchored::After) {
                self.out.push(if self.negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }
}

/// A decimal text rounded half away from zero to a number of digits after the point: sign, digits before, digits after.
fn rounded(plain: &str, places: usize) -> (bool, String, String) {
    let (negative, digits) = plain.strip_prefix('-').map_or((false, plain), |rest| (true, rest));
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let point = i64::try_from(whole.len()).unwrap_or(0) + exponent;
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|byte| byte - b'0').collect();
    if let Ok(missing) = usize::try_from(1 - point) {
        all.splice(0..0, std::iter::repeat_n(0, missing));
    }
    let mut point = usize::try_from(point.max(1)).unwrap_or(1);
    if all.len() < point + places + 1 {
        all.resize(point + places + 1, 0);
    }
    let up = all[point + places] >= 5;
    all.truncate(point + places);
    if up {
        let mut at = all.len();
        loop {
            if at == 0 {
                all.insert(0, 1);
                point += 1;
                break;
            }
            at -= 1;
            if all[at] == 9 {
                all[at] = 0;
            } else {
                all[at] += 1;
                break;
            }
        }
    }
    let text = |digits: &[u8]| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
    let whole = text(&all[..point]);
    let whole = whole.trim_start_matches('0').to_owned();
    let fraction = text(&all[point..]);
    let zero = whole.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    (negative && !zero, whole, fraction)
}

/// A roman numeral, of 1 to 3999; empty for others.
fn roman(number: f64) -> String {
    const STEPS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    if !(1.0..4000.0).contains(&number) {
        return out;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small and whole")]
    let mut left = number as u32;
    for (value, letters) in STEPS {
        while left >= value {
            out.push_str(letters);
            left -= value;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_by_templates() {
        // As PostgreSQL 15 writes them.
        for (number, template, expected) in [
            ("123", "999", " 123"),
            ("-123", "999", "-123"),
            ("123", "09999", " 00123"),
            ("5", "000", " 005"),
            ("1234.5", "9,999.99", " 1,234.50"),
            ("1234.567", "FM9,999.99", "1,234.57"),
            ("0.5", "0.99", " 0.50"),
            ("0.5", "9.99", "  .50"),
            ("-0.5", "9.99", " -.50"),
            ("12.3", "FM999.00", "12.30"),
            ("99999", "999", " ###"),
            ("12", "FM00000", "00012"),
            ("485", "RN", "        CDLXXXV"),
            ("12", "S99", "+12"),
            ("-12", "99MI", "12-"),
            ("-12", "99PR", "<12>"),
            ("1", "FM9th", "1st"),
            ("12345", "9G999G999", "    12,345"),
            ("999.996", "FM9999.99", "1000."),
            ("0", "FM99.99", "0."),
            ("100", "FM999.", "100"),
            ("4.31", "FM99.99TH", "4.31"),
            ("100", "f\"ool\\\"999", "fool\"999"),
            ("100", "f\\\"oo999", "f\"oo 100"),
            ("12", "99V99", " 1200"),
            ("4200000000", "9.99EEEE", " 4.20e+09"),
            ("-0.000012", "9.9EEEE", "-1.2e-05"),
            ("Infinity", "MI99.99", " ##.##"),
            ("NaN", "9999.99", "  NaN"),
        ] {
            let written = written(number, Kind::Exact, template).expect("a template without fault");
            assert_eq!(written, expected, "{number} {template}");
        }
    }

    #[test]
    fn a_float_has_the_digits_that_it_is_sure_of() {
        let text = written("12345678901", Kind::double(12_345_678_901.0), "FM9999999999D9999900000000000000000");
        assert_eq!(text.expect("written"), "##########.####");
        let text = written("4.2e9", Kind::single(4.2e9), "MI9999999999.99").expect("written");
        assert_eq!(text, " 4200000000");
    }
}
