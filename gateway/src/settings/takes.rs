//! Values of settings: what each takes, and how it is written.

use super::fixed;
use crate::pg::{
    datetime::settings,
    error::{Result, SqlError, SqlState},
};
use keyspan_catalog::{SqlType, Value};

/// Bytes of a value that is any text: each statement has a copy of all of them.
pub(super) const TEXT_BYTES_MAX: usize = 4 << 10;
/// Bytes of a name in PostgreSQL (`NAMEDATALEN` - 1).
pub(super) const NAME_BYTES_MAX: usize = 63;

/// What values a setting takes.
pub(super) enum Takes {
    /// `on`, `off` and their synonyms.
    Bool,
    /// Like [`Bool`](Self::Bool), but this is the only one that there is.
    OnlyBool(bool),
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, whatever their case; the first is how it is shown.
    Only(&'static [&'static str]),
    /// A whole number from and to.
    Int(i64, i64),
    /// A time in milliseconds, with a unit or without.
    Millis,
    /// A timestamptz from 1970 on, or nothing.
    Timestamp,
    /// A time zone.
    Zone,
    /// A style of dates and an order of their numbers.
    DateStyle,
    /// Any text.
    Text,
    /// The role of the session: it can only be the one that it has.
    OwnRole,
    /// Nothing: it is read-only.
    Nothing,
}

impl Takes {
    /// The value in its normal form.
    /// `current` is the value that it has.
    pub(super) fn read(&self, name: &str, value: &str, current: &str) -> Result<String> {
        let lower = value.to_lowercase();
        let wrong = || {
            let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        match self {
            Self::Nothing | Self::OwnRole => Err(fixed(name)),
            Self::Text if name == "application_name" => Ok(truncated(value).to_owned()),
            Self::Text if value.len() > TEXT_BYTES_MAX => {
                let message = format!("the value of parameter \"{name}\" has more than {TEXT_BYTES_MAX} bytes");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            Self::Text => Ok(value.to_owned()),
            Self::Timestamp if value.trim().is_empty() => Ok(String::new()),
            Self::Timestamp => match timestamp(value) {
                Some(micros) if micros >= 0 => Ok(Value::Timestamp(micros).to_text(SqlType::Timestamptz(None))),
                Some(_) => Err(wrong().with_hint("Cells have no timestamp before 1970.")),
                None => Err(wrong().with_hint("It takes a time such as \"2026-11-01 12:00+00\", or nothing.")),
            },
            Self::Zone => Ok(settings::time_zone(value)?.name().to_owned()),
            Self::DateStyle => {
                let initial = settings::date_style("iso, mdy", Default::default())?;
                let before = settings::date_style(current, initial).unwrap_or(initial);
                Ok(settings::date_style_shown(settings::date_style(value, before)?))
            }
            Self::Bool => read_bool(&lower).map(on_off).ok_or_else(wrong),
            Self::OnlyBool(only) => match read_bool(&lower) {
                Some(value) if value == *only => Ok(on_off(value)),
                Some(value) => Err(SqlError::unsupported(format!("{name} = {}", on_off(value)))),
                None => Err(wrong()),
            },
            Self::Word(words) if words.contains(&lower.as_str()) => Ok(lower),
            Self::Word(words) => Err(wrong().with_hint(format!("Available values: {}.", words.join(", ")))),
            Self::Only(words) if words.iter().any(|word| word.eq_ignore_ascii_case(&lower)) => Ok(words[0].to_owned()),
            Self::Only(words) => {
                Err(SqlError::unsupported(format!("{name} = {value}")).with_hint(format!("It is always {}.", words[0])))
            }
            Self::Int(from, to) => match value.trim().parse::<i64>() {
                Ok(number) if (*from..=*to).contains(&number) => Ok(number.to_string()),
                Ok(number) => {
                    let message =
                        format!("{number} is outside the valid range for parameter \"{name}\" ({from} .. {to})");
                    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
                }
                Err(_) => Err(wrong()),
            },
            Self::Millis => {
                let millis = millis(&lower).filter(|millis| (0..=i64::from(i32::MAX)).contains(millis));
                millis.map(shown_millis).ok_or_else(|| {
                    wrong().with_hint(
                        "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
                    )
                })
            }
        }
    }
}

/// A timestamptz in microseconds; `None` for a text that is none, and for the infinities.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    match Value::parse(text, SqlType::Timestamptz(None)) {
        Ok(Value::Timestamp(micros)) if micros != i64::MAX && micros != i64::MIN => Some(micros),
        _ => None,
    }
}

/// At most as many bytes as PostgreSQL keeps of `application_name`.
fn truncated(value: &str) -> &str {
    &value[..value.floor_char_boundary(NAME_BYTES_MAX)]
}

pub(super) fn read_bool(value: &str) -> Option<bool> {
    match value {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

pub(super) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

/// A time with a unit, in milliseconds.
pub(crate) fn millis(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let number: i64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "ms" => 1,
        "us" => return Some(number / 1_000),
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A time in its largest whole unit, as PostgreSQL shows it.
fn shown_millis(millis: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.into_iter().find(|(unit, _)| millis != 0 && millis % unit == 0) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None if millis == 0 => "0".to_owned(),
        None => format!("{millis}ms"),
    }
}
