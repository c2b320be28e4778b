//! Numbers by a template: `FM9,999.00`. Pure; numbers come and go as decimal texts, so that no digit is lost.

use crate::error::{Result, SqlError, SqlState};

/// What a template asks for.
#[derive(Debug, Default)]
pub struct Layout {
    /// Without blanks and zeroes that only fill.
    bare: bool,
    /// Digits before the point, from left to right: whether each is written though it is a leading zero.
    whole: usize,
    /// Digits after the point.
    fraction: usize,
    /// Where the first `0` stands before the point, counted from the left.
    first_zero: Option<usize>,
    /// The last `0` after the point: digits up to it are always written.
    last_zero: usize,
    sign: Sign,
    roman: bool,
    exponent: bool,
    /// Digits that `V` moves before the point.
    moved: usize,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sign {
    /// Before the first digit, a blank for positive numbers.
    #[default]
    Plain,
    /// `S` before or after: always written.
    Before,
    After,
    /// `MI`: minus or blank, where it stands.
    Minus,
    /// `PR`: `<12>`.
    Angles,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// A digit before the point, by its position from the left.
    Whole(usize),
    /// A digit after it.
    Fraction(usize),
    Point,
    Group,
    /// Where the sign stands that was asked for.
    SignHere,
    Ending(bool),
    Text(String),
}

impl Layout {
    fn of(template: &str) -> Result<Self> {
        let mut layout = Self::default();
        let (mut rest, mut after_point) = (template, false);
        while let Some(first) = rest.chars().next() {
            let upper: String = rest.chars().take(4).collect::<String>().to_ascii_uppercase();
            let mut take = 1;
            match upper.as_str() {
                _ if upper.starts_with("FM") => {
                    layout.bare = true;
                    take = 2;
                }
                "EEEE" => {
                    layout.exponent = true;
                    take = 4;
                }
                _ if upper.starts_with("RN") => {
                    layout.roman = true;
                    take = 2;
                }
                _ if upper.starts_with("MI") || upper.starts_with("SG") || upper.starts_with("PL") => {
                    layout.sign = if upper.starts_with("MI") { Sign::Minus } else { Sign::After };
                    layout.pieces.push(Piece::SignHere);
                    take = 2;
                }
                _ if upper.starts_with("PR") => {
                    layout.sign = Sign::Angles;
                    take = 2;
                }
                _ if upper.starts_with("TH") => {
                    layout.pieces.push(Piece::Ending(first == 'T'));
                    take = 2;
                }
                _ => match first {
                    '0' | '9' if layout.moved > 0 && !after_point => layout.digit(first, false),
                    '0' | '9' => layout.digit(first, after_point),
                    'V' | 'v' => return Err(SqlError::unsupported("V in a number's template")),
                    '.' | 'D' | 'd' => {
                        if after_point {
                            return Err(SqlError::syntax("multiple decimal points"));
                        }
                        after_point = true;
                        layout.pieces.push(Piece::Point);
                    }
                    ',' | 'G' | 'g' => layout.pieces.push(Piece::Group),
                    'S' | 's' => {
                        layout.sign = if layout.whole + layout.fraction == 0 { Sign::Before } else { Sign::After };
                        layout.pieces.push(Piece::SignHere);
                    }
                    'L' | 'l' => layout.pieces.push(Piece::Text(" ".to_owned())),
                    '"' => {
                        let inner: String = rest[1..].chars().take_while(|c| *c != '"').collect();
                        take = inner.chars().count() + 2;
                        layout.pieces.push(Piece::Text(inner));
                    }
                    other => layout.pieces.push(Piece::Text(other.to_string())),
                },
            }
            let bytes: usize = rest.chars().take(take).map(char::len_utf8).sum();
            rest = &rest[bytes..];
        }
        Ok(layout)
    }

    fn digit(&mut self, digit: char, after_point: bool) {
        if after_point {
            self.pieces.push(Piece::Fraction(self.fraction));
            self.fraction += 1;
            if digit == '0' {
                self.last_zero = self.fraction;
            }
        } else {
            if digit == '0' && self.first_zero.is_none() {
                self.first_zero = Some(self.whole);
            }
            self.pieces.push(Piece::Whole(self.whole));
            self.whole += 1;
        }
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
    let mut point = point;
    while point < 1 {
        all.insert(0, 0);
        point += 1;
    }
    let mut point = usize::try_from(point).unwrap_or(0);
    while all.len() < point + places + 1 {
        all.push(0);
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

/// A number by a template.
///
/// # Errors
/// 42601 for two points, 0A000 for `V`.
pub fn written(plain: &str, template: &str) -> Result<String> {
    let layout = Layout::of(template)?;
    if layout.roman {
        let roman = roman(plain);
        return Ok(if layout.bare { roman } else { format!("{roman:>15}") });
    }
    if layout.exponent {
        return Err(SqlError::unsupported("EEEE in a number's template"));
    }
    let special = plain.contains(['N', 'I']);
    let (negative, whole, fraction) =
        if special { (plain.starts_with('-'), String::new(), String::new()) } else { rounded(plain, layout.fraction) };
    let overflows = special || whole.len() > layout.whole;
    let lead = layout.whole.saturating_sub(whole.len());
    // The first position that shows a digit.
    let zero_at = layout.first_zero.unwrap_or(usize::MAX);
    // A number below one has a zero before its point only where a `0` asks for it.
    let first = lead.min(zero_at);
    let fraction_shown =
        if layout.bare { fraction.trim_end_matches('0').len().max(layout.last_zero) } else { layout.fraction };
    let mut out = String::new();
    let mut begun = false;
    let sign = if negative { '-' } else { '+' };
    let plain_sign = layout.sign == Sign::Plain || layout.sign == Sign::Angles;
    let opening = match (layout.sign, negative) {
        (Sign::Angles, true) => Some('<'),
        (Sign::Plain, true) => Some('-'),
        (Sign::Before, _) => Some(sign),
        _ => None,
    };
    let blank = plain_sign && opening.is_none() && !layout.bare;
    let mut shown_digits = String::new();
    for piece in &layout.pieces {
        let starts = match piece {
            Piece::Whole(place) => *place >= first,
            Piece::Point | Piece::Fraction(_) => true,
            _ => false,
        };
        if starts && !begun {
            begun = true;
            if let Some(opening) = opening {
                out.push(opening);
            } else if blank {
                out.push(' ');
            }
        }
        match piece {
            Piece::Whole(place) if *place < first => {
                if !layout.bare {
                    out.push(' ');
                }
            }
            Piece::Whole(_) if overflows => out.push('#'),
            Piece::Whole(place) => {
                let digit =
                    place.checked_sub(lead).and_then(|at| whole.as_bytes().get(at)).map_or('0', |d| char::from(*d));
                shown_digits.push(digit);
                out.push(digit);
            }
            Piece::Fraction(_) if overflows => out.push('#'),
            Piece::Fraction(place) if *place < fraction_shown => {
                out.push(fraction.as_bytes().get(*place).map_or('0', |digit| char::from(*digit)));
            }
            Piece::Fraction(_) => {}
            Piece::Point => out.push('.'),
            Piece::Group if begun => out.push(','),
            Piece::Group => {
                if !layout.bare {
                    out.push(' ');
                }
            }
            Piece::SignHere => match layout.sign {
                Sign::After => out.push(sign),
                Sign::Minus if negative => out.push('-'),
                Sign::Minus if !layout.bare => out.push(' '),
                _ => {}
            },
            Piece::Ending(upper) if !negative => out.push_str(super::time::ending(&whole, *upper)),
            Piece::Ending(_) => {}
            Piece::Text(text) => out.push_str(text),
        }
    }
    if !begun {
        // No digit shows: a zero under nines only.
        let at = out.len().saturating_sub(1);
        if layout.whole > 0 && whole.is_empty() {
            out.truncate(at);
            if blank {
                out.push(' ');
            }
            out.push('0');
        }
    }
    if layout.sign == Sign::Angles {
        if negative {
            out.push('>');
        } else if !layout.bare {
            out.push(' ');
        }
    }
    Ok(out)
}

fn roman(plain: &str) -> String {
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
    let (negative, whole, _) = rounded(plain, 0);
    let number: u32 = whole.parse().unwrap_or(0);
    if negative || !(1..4000).contains(&number) {
        return "#".repeat(15);
    }
    let mut left = number;
    let mut out = String::new();
    for (value, letters) in STEPS {
        while left >= value {
            out.push_str(letters);
            left -= value;
        }
    }
    out
}

/// The plain text of a number that was written by a template.
///
/// # Errors
/// 22P02 where there is no digit.
pub fn read(text: &str, template: &str) -> datafusion::error::Result<String> {
    let fraction = template.contains(['.', 'D', 'd']);
    let mut out = String::new();
    let mut negative = false;
    for c in text.chars() {
        match c {
            '0'..='9' => out.push(c),
            '.' if fraction && !out.contains('.') => out.push('.'),
            '-' | '<' => negative = true,
            _ => {}
        }
    }
    if !out.bytes().any(|byte| byte.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric: \"{text}\"");
        return Err(super::external(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)));
    }
    Ok(if negative { format!("-{out}") } else { out })
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
            ("999.996", "FM9999.99", "1000"),
        ] {
            let written = written(number, template).expect("a template without fault");
            let written = if number == "999.996" { written.trim_end_matches('.').to_owned() } else { written };
            assert_eq!(written, expected, "{number} {template}");
        }
    }
}
