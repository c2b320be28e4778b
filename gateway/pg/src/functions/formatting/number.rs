//! Numbers by a template: `FM9,999.00`. Pure; numbers come and go as decimal texts, so that no digit is lost.
//!
//! A template becomes a [`Layout`]: its elements, and what they ask for together. [`mod@write`] writes a number by it,
//! [`mod@read`] reads one. What elements mean, also where their combination is odd, is that of PostgreSQL 15
//! (`src/backend/utils/adt/formatting.c`, in the C locale).

use crate::error::{Result, SqlError, SqlState};

mod read;
mod write;

pub use read::{check_room, read, shifted_back};
pub use write::{Kind, written};

/// A template.
#[derive(Debug, Default)]
struct Layout {
    elements: Vec<Element>,
    /// `9` and `0` before the point, and after it.
    before: usize,
    after: usize,
    /// The place of the first `0` before the point, counted from 0.
    first_zero: Option<usize>,
    /// Places up to the last `0`.
    last_zero: usize,
    /// Digits behind `V`: the number is multiplied by ten for each.
    shift: Option<usize>,
    point: bool,
    /// `FM`: without blanks and zeroes that only fill.
    bare: bool,
    /// `S`, and where it stands.
    anchored: Option<Anchored>,
    /// `MI`, `PL`; `SG` is both.
    minus: bool,
    plus: bool,
    /// `PR`.
    angles: bool,
    roman: bool,
    exponent: bool,
    blank: bool,
}

/// Where `S` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchored {
    /// Behind so many digits before the point.
    Before(usize),
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Nine,
    Zero,
    Point,
    Comma,
    /// `G`: a comma, too.
    Group,
    /// `L`: the C locale has a blank for it.
    Currency,
    /// Whether in capitals.
    Roman(bool),
    Ending(bool),
    Minus,
    Plus,
    Sign,
    /// An element that only tells something of the whole.
    Said,
    Text(char),
}

impl Layout {
    /// # Errors
    /// 42601 where elements contradict each other.
    fn of(template: &str) -> Result<Self> {
        let mut layout = Self::default();
        let mut rest = template;
        while let Some(first) = rest.chars().next() {
            if let Some((word, element)) = KEYWORDS.iter().find(|(word, _)| rest.starts_with(word)) {
                layout.add(word, *element)?;
                rest = &rest[word.len()..];
            } else if first == '"' {
                rest = layout.quoted(&rest[1..]);
            } else {
                // A backslash means something before a quote alone.
                let text = if rest.starts_with("\\\"") { '"' } else { first };
                layout.elements.push(Element::Text(text));
                rest = &rest[if text == first { first.len_utf8() } else { 2 }..];
            }
        }
        Ok(layout)
    }

    /// A quoted text up to its end; gives what follows.
    fn quoted<'a>(&mut self, text: &'a str) -> &'a str {
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return &text[at + 1..],
                '\\' => {
                    let next = chars.next().map_or('\\', |(_, next)| next);
                    self.elements.push(Element::Text(next));
                }
                c => self.elements.push(Element::Text(c)),
            }
        }
        ""
    }

    fn add(&mut self, word: &str, element: Element) -> Result<()> {
        let refuse = |refused: bool, message: &str| if refused { Err(SqlError::syntax(message)) } else { Ok(()) };
        refuse(self.exponent, "\"EEEE\" must be the last pattern used")?;
        let signs = self.plus || self.minus || self.angles;
        match word {
            "9" => {
                refuse(self.angles, "\"9\" must be ahead of \"PR\"")?;
                match &mut self.shift {
                    Some(shift) => *shift += 1,
                    None if self.point => self.after += 1,
                    None => self.before += 1,
                }
            }
            "0" => {
                refuse(self.angles, "\"0\" must be ahead of \"PR\"")?;
                if self.point {
                    self.after += 1;
                } else {
                    self.first_zero.get_or_insert(self.before);
                    self.before += 1;
                }
                self.last_zero = self.before + self.after;
            }
            "B" | "b" => self.blank |= self.before == 0 && self.after == 0 && self.first_zero.is_none(),
            "." | "D" | "d" => {
                refuse(self.point, "multiple decimal points")?;
                refuse(self.shift.is_some(), "cannot use \"V\" and decimal point together")?;
                self.point = true;
            }
            "FM" | "fm" => self.bare = true,
            "S" | "s" => {
                refuse(self.anchored.is_some(), "cannot use \"S\" twice")?;
                refuse(signs, "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together")?;
                self.anchored = Some(if self.point { Anchored::After } else { Anchored::Before(self.before) });
            }
            "MI" | "mi" => {
                refuse(self.anchored.is_some(), "cannot use \"S\" and \"MI\" together")?;
                self.minus = true;
            }
            "PL" | "pl" => {
                refuse(self.anchored.is_some(), "cannot use \"S\" and \"PL\" together")?;
                self.plus = true;
            }
            "SG" | "sg" => {
                refuse(self.anchored.is_some(), "cannot use \"S\" and \"SG\" together")?;
                (self.minus, self.plus) = (true, true);
            }
            "PR" | "pr" => {
                let others = self.anchored.is_some() || self.plus || self.minus;
                refuse(others, "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together")?;
                self.angles = true;
            }
            "RN" | "rn" => self.roman = true,
            "V" | "v" => {
                refuse(self.point, "cannot use \"V\" and decimal point together")?;
                self.shift.get_or_insert(0);
            }
            "EEEE" | "eeee" => {
                let others = self.blank || self.bare || self.anchored.is_some() || signs || self.roman;
                if others || self.shift.is_some() {
                    let error = SqlError::syntax("\"EEEE\" is incompatible with other formats");
                    let detail = "\"EEEE\" may only be used together with digit and decimal point patterns.";
                    return Err(error.with_detail(detail));
                }
                self.exponent = true;
            }
            _ => {}
        }
        self.elements.push(element);
        Ok(())
    }
}

/// Elements, each in capitals or in small letters and never in both, those first that begin like a shorter one.
const KEYWORDS: [(&str, Element); 34] = [
    (",", Element::Comma),
    (".", Element::Point),
    ("0", Element::Zero),
    ("9", Element::Nine),
    ("B", Element::Said),
    ("b", Element::Said),
    ("D", Element::Point),
    ("d", Element::Point),
    ("EEEE", Element::Said),
    ("eeee", Element::Said),
    ("FM", Element::Said),
    ("fm", Element::Said),
    ("G", Element::Group),
    ("g", Element::Group),
    ("L", Element::Currency),
    ("l", Element::Currency),
    ("MI", Element::Minus),
    ("mi", Element::Minus),
    ("PL", Element::Plus),
    ("pl", Element::Plus),
    ("PR", Element::Said),
    ("pr", Element::Said),
    ("RN", Element::Roman(true)),
    ("rn", Element::Roman(false)),
    ("SG", Element::Sign),
    ("sg", Element::Sign),
    ("SP", Element::Said),
    ("sp", Element::Said),
    ("S", Element::Said),
    ("s", Element::Said),
    ("TH", Element::Ending(true)),
    ("th", Element::Ending(false)),
    ("V", Element::Said),
    ("v", Element::Said),
];

/// A value that is no number by a template.
fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type numeric: \"{text}\""))
}
