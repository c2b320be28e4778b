//! The time of day: microseconds since midnight, from 0 to 24:00:00, which PostgreSQL distinguishes from 00:00:00.
//! Pure.

use super::calendar::MICROS_PER_DAY;
use std::fmt::Write;

const MICROS: i64 = 1_000_000;

/// Why a text is not a valid time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// The syntax is wrong.
    Syntax,
    /// A field is out of range.
    Field,
}

/// Whether the microseconds are a valid `time`.
pub fn is_time(micros: i64) -> bool {
    (0..=MICROS_PER_DAY).contains(&micros)
}

/// Parses `04:05`, `04:05:06.789`, `040506`, `04:05 PM`; a trailing zone is ignored, as PostgreSQL's `time` does.
///
/// # Errors
/// [`TimeError`].
pub fn parse_time(text: &str) -> Result<i64, TimeError> {
    const HOUR: i64 = 3_600 * MICROS;
    let lower = text.trim().to_ascii_lowercase();
    if lower == "allballs" {
        return Ok(0);
    }
    let half = |suffix| lower.strip_suffix(suffix).map(str::trim_end);
    let (clock, noon) = match (half("am"), half("pm")) {
        (Some(rest), _) => (rest, Some(0)),
        (_, Some(rest)) => (rest, Some(12)),
        _ => (lower.as_str(), None),
    };
    let micros = parse_clock(without_zone(clock))?;
    match (noon, micros / HOUR) {
        (None, _) => Ok(micros),
        (Some(noon), hour @ 0..=12) => Ok(micros + (noon - if hour == 12 { 12 } else { 0 }) * HOUR),
        _ => Err(TimeError::Field),
    }
}

/// The text before a zone: `z`, `utc`, `+02`, `-03:30`.
fn without_zone(text: &str) -> &str {
    let Some(end) = text.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.') else { return text };
    let (clock, zone) = (text[..end].trim_end(), text[end..].trim_start());
    let offset = |zone: &str| {
        let digits = zone.strip_prefix(['+', '-']).unwrap_or_default();
        let fields: Vec<&str> = digits.split(':').collect();
        fields.len() <= 3
            && fields.iter().all(|field| (1..=4).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit()))
    };
    if matches!(zone, "z" | "utc" | "gmt") || offset(zone) { clock } else { text }
}

/// Parses `HH:MM[:SS[.ffffff]]`, `HHMMSS`, `HHMM`.
fn parse_clock(text: &str) -> Result<i64, TimeError> {
    let (main, fraction) = text.split_once('.').unwrap_or((text, ""));
    let field = |text: &str| -> Result<i64, TimeError> {
        let plain = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse().map_err(|_| TimeError::Syntax) } else { Err(TimeError::Syntax) }
    };
    let fields: Vec<&str> = main.split(':').collect();
    let (hour, minute, second) = match fields.as_slice() {
        [hour, minute] if fraction.is_empty() => (field(hour)?, field(minute)?, 0),
        [hour, minute, second] => (field(hour)?, field(minute)?, field(second)?),
        [packed] if packed.len() == 6 && packed.is_ascii() => {
            (field(&packed[..2])?, field(&packed[2..4])?, field(&packed[4..])?)
        }
        [packed] if packed.len() == 4 && packed.is_ascii() && fraction.is_empty() => {
            (field(&packed[..2])?, field(&packed[2..])?, 0)
        }
        _ => return Err(TimeError::Syntax),
    };
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TimeError::Syntax);
    }
    // Six digits are kept; the seventh rounds.
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).map(|byte| i64::from(byte - b'0'));
    let tenths = digits.take(7).fold(0, |sum, digit| sum * 10 + digit);
    let micros = ((hour * 60 + minute) * 60 + second) * MICROS + (tenths + 5) / 10;
    if hour > 24 || minute > 59 || second > 60 || !is_time(micros) {
        return Err(TimeError::Field);
    }
    Ok(micros)
}

/// Writes `04:05:06.789`.
pub fn write_time(micros: i64, out: &mut String) {
    let seconds = micros / MICROS;
    // Writing to a String cannot fail.
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    write_fraction(micros.unsigned_abs() % MICROS.unsigned_abs(), out);
}

/// Writes a fraction of a second as a point and digits, without trailing zeros; nothing for 0.
pub(super) fn write_fraction(micros: u64, out: &mut String) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_postgres_reads_them() {
        const HOUR: i64 = 3_600 * MICROS;
        for (text, expected) in [
            ("04:05", Ok(4 * HOUR + HOUR / 12)),
            (" 04:05:06.7891234 ", Ok(4 * HOUR + 306_789_123)),
            ("23:59:59.9999996", Ok(24 * HOUR)),
            ("24:00", Ok(24 * HOUR)),
            ("24:00:00.000001", Err(TimeError::Field)),
            ("12:30 AM", Ok(HOUR / 2)),
            ("12:30pm", Ok(12 * HOUR + HOUR / 2)),
            ("13:00 pm", Err(TimeError::Field)),
            ("040506", Ok(4 * HOUR + 306 * MICROS)),
            ("0405", Ok(4 * HOUR + HOUR / 12)),
            ("04:05:06+02", Ok(4 * HOUR + 306 * MICROS)),
            ("04:05 -03:30", Ok(4 * HOUR + HOUR / 12)),
            ("04:05:60", Ok(4 * HOUR + HOUR / 10)),
            ("allballs", Ok(0)),
            ("25:00", Err(TimeError::Field)),
            ("04:60", Err(TimeError::Field)),
            ("4", Err(TimeError::Syntax)),
            ("04:05 x", Err(TimeError::Syntax)),
            ("", Err(TimeError::Syntax)),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
