//! Times of day and offsets from UTC as text. Pure.

use super::{
    super::{
        fields::{self, fraction_micros, leading_int4},
        zone::Zone,
    },
    Fault, MICROS,
};
use crate::error::{SqlError, SqlState};

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
pub(super) fn offset_seconds(text: &str) -> Result<i64, Fault> {
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
pub(in crate::datetime) struct Clock {
    pub(in crate::datetime) hour: i64,
    pub(in crate::datetime) minute: i64,
    pub(in crate::datetime) second: i64,
    pub(in crate::datetime) micros: i64,
}

/// `04:05`, `04:05:06.7`; `05:06.7` is minutes and seconds, and so are two numbers if `minutes_first`. The hours may be
/// any number. PostgreSQL's `DecodeTimeCommon`.
pub(in crate::datetime) fn clock(text: &str, minutes_first: bool) -> Result<Clock, Fault> {
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
