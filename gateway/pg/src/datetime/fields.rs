//! The pieces of a date, a time or an interval as text: PostgreSQL's `ParseDateTime`, and the words that it knows.

use super::moments::Fault;

/// Pieces of a text, at most: PostgreSQL's `MAXDATEFIELDS`.
const FIELDS_MAX: usize = 25;
/// Bytes of a text's pieces, at most: PostgreSQL's `MAXDATELEN + MAXDATEFIELDS`.
const BYTES_MAX: usize = 128 + FIELDS_MAX;
/// Letters of a word that count: PostgreSQL's `TOKMAXLEN`.
const WORD_LETTERS: usize = 10;

/// What a piece looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Digits, with a point maybe.
    Number,
    /// Digits or words with delimiters between; a zone's name too.
    Date,
    /// Digits with colons.
    Time,
    /// A sign and digits: a zone's offset, or a number.
    Signed,
    /// A word.
    Word,
    /// A sign and a word.
    SignedWord,
}

/// A piece of a text, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) shape: Shape,
}

/// Cuts a text into its pieces.
pub(super) fn fields(text: &str) -> Result<Vec<Field>, Fault> {
    let bytes = text.as_bytes();
    let is = |at: usize, wanted: fn(&u8) -> bool| bytes.get(at).is_some_and(wanted);
    let digit: fn(&u8) -> bool = u8::is_ascii_digit;
    let letter: fn(&u8) -> bool = |byte| byte.is_ascii_alphabetic() || *byte >= 0x80;
    let mut found: Vec<Field> = Vec::new();
    let mut at = 0;
    let mut size = 0;
    while at < bytes.len() {
        let start = at;
        let mut text = String::new();
        let run = |at: &mut usize, more: &dyn Fn(u8) -> bool| {
            while bytes.get(*at).is_some_and(|byte| more(*byte)) {
                *at += 1;
            }
        };
        let shape = match bytes[at] {
            byte if byte.is_ascii_whitespace() || byte == 0x0b => {
                at += 1;
                continue;
            }
            byte if byte.is_ascii_digit() => {
                run(&mut at, &|byte| byte.is_ascii_digit());
                match bytes.get(at).copied() {
                    Some(b':') => {
                        run(&mut at, &|byte| byte.is_ascii_digit() || byte == b':' || byte == b'.');
                        Shape::Time
                    }
                    Some(delimiter @ (b'-' | b'/' | b'.')) => {
                        at += 1;
                        if is(at, digit) {
                            run(&mut at, &|byte| byte.is_ascii_digit());
                            // Three numbers are a date if the delimiters are alike.
                            if bytes.get(at) == Some(&delimiter) {
                                run(&mut at, &|byte| byte.is_ascii_digit() || byte == delimiter);
                                Shape::Date
                            } else if delimiter == b'.' {
                                Shape::Number
                            } else {
                                Shape::Date
                            }
                        } else {
                            run(&mut at, &|byte| byte.is_ascii_alphanumeric() || byte == delimiter);
                            Shape::Date
                        }
                    }
                    _ => Shape::Number,
                }
            }
            b'.' => {
                at += 1;
                run(&mut at, &|byte| byte.is_ascii_digit());
                Shape::Number
            }
            byte if letter(&byte) => {
                run(&mut at, &|byte| letter(&byte));
                // A date with a month's name in it, or the name of a zone.
                let goes_on = match bytes.get(at) {
                    Some(b'-' | b'/' | b'.') => true,
                    Some(b'+' | b'0'..=b'9') => word(&lower(&bytes[start..at])).is_none(),
                    _ => false,
                };
                if goes_on {
                    run(&mut at, &|byte| b"+-/_.:".contains(&byte) || byte.is_ascii_digit() || letter(&byte));
                    Shape::Date
                } else {
                    Shape::Word
                }
            }
            sign @ (b'+' | b'-') => {
                at += 1;
                run(&mut at, &|byte| byte.is_ascii_whitespace() || byte == 0x0b);
                let rest = at;
                let shape = if is(at, digit) {
                    run(&mut at, &|byte| byte.is_ascii_digit() || b":.-".contains(&byte));
                    Shape::Signed
                } else if is(at, letter) {
                    run(&mut at, &|byte| letter(&byte));
                    Shape::SignedWord
                } else {
                    return Err(Fault::Format);
                };
                text.push(char::from(sign));
                text.push_str(&lower(&bytes[rest..at]));
                shape
            }
            byte if byte.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return Err(Fault::Format),
        };
        if text.is_empty() {
            text = lower(&bytes[start..at]);
        }
        size += text.len() + 1;
        if found.len() == FIELDS_MAX || size > BYTES_MAX {
            return Err(Fault::Format);
        }
        found.push(Field { text, shape });
    }
    Ok(found)
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

/// What a word of a date or a time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Of no meaning: `at`, `on`.
    Ignored,
    Month(i64),
    Weekday,
    Afternoon(bool),
    BeforeChrist(bool),
    Summer,
    /// `t`, before a time.
    Time,
    /// What the number after it is.
    Unit(Unit),
    Epoch,
    Infinity,
    MinusInfinity,
    Now,
    Yesterday,
    Today,
    Tomorrow,
    /// Midnight of UTC.
    AllBalls,
}

/// What a number is whose label stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Julian,
    /// Labels that no number can follow: `dow`.
    Other,
    /// After `t`.
    Time,
}

/// The meaning of a word in lower case; PostgreSQL's `datetktbl`.
pub(super) fn word(text: &str) -> Option<Word> {
    let text = text.get(..WORD_LETTERS).unwrap_or(text);
    Some(match text {
        "-infinity" => Word::MinusInfinity,
        "ad" => Word::BeforeChrist(false),
        "allballs" => Word::AllBalls,
        "am" => Word::Afternoon(false),
        "at" | "on" => Word::Ignored,
        "bc" => Word::BeforeChrist(true),
        "pm" => Word::Afternoon(true),
        "dst" => Word::Summer,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "t" => Word::Time,
        "d" => Word::Unit(Unit::Day),
        "h" => Word::Unit(Unit::Hour),
        "j" | "jd" | "julian" => Word::Unit(Unit::Julian),
        "m" => Word::Unit(Unit::Month),
        "mm" => Word::Unit(Unit::Minute),
        "s" => Word::Unit(Unit::Second),
        "y" => Word::Unit(Unit::Year),
        "dow" | "doy" | "isodow" | "isoyear" => Word::Unit(Unit::Other),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        _ => return None,
    })
}

/// A number at the beginning of a text with its sign, and what follows; 0 and the whole text where there is none. As
/// C's `strtol`.
pub(super) fn leading_int(text: &str) -> Result<(i64, &str), Fault> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let end = text.len() - unsigned.len() + digits;
    text[..end].parse().map(|number| (number, &text[end..])).map_err(|_| Fault::Field)
}

/// [`leading_int`] of 32 bits.
pub(super) fn leading_int4(text: &str) -> Result<(i64, &str), Fault> {
    let (number, rest) = leading_int(text)?;
    if i32::try_from(number).is_err() { Err(Fault::Field) } else { Ok((number, rest)) }
}

/// A fraction with its point: `.5`; a point alone is 0.
pub(super) fn fraction(text: &str) -> Result<f64, Fault> {
    let digits = text.strip_prefix('.').ok_or(Fault::Format)?;
    match digits {
        "" => Ok(0.0),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().map_err(|_| Fault::Format),
        _ => Err(Fault::Format),
    }
}

/// Microseconds of a fraction of a second.
pub(super) fn fraction_micros(text: &str) -> Result<i64, Fault> {
    #[expect(clippy::cast_possible_truncation, reason = "at most a million")]
    fraction(text).map(|fraction| (fraction * 1e6).round_ties_even() as i64)
}
