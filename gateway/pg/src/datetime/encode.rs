//! Dates, timestamps and intervals as text in the styles of `DateStyle` and `IntervalStyle`: PostgreSQL's
//! `EncodeDateTime` and `EncodeInterval`.
//!
//! Units: days and microseconds since 1970-01-01; the least and the greatest number are the infinities.

use super::style::{DateOrder, DateStyle, IntervalStyle, Style};
use crate::codec::time::{two, write_day, write_era, write_fraction, write_interval, write_time, write_timestamp};
use bytes::{BufMut, BytesMut};
use keyspan_catalog::value::calendar::{MICROS_PER_DAY, civil_from_days};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MICROS: i64 = 1_000_000;

/// Writes a date.
pub fn date(days: i32, style: &Style, out: &mut BytesMut) {
    let days = match days {
        i32::MIN => return out.put_slice(b"-infinity"),
        i32::MAX => return out.put_slice(b"infinity"),
        days => i64::from(days),
    };
    if matches!(style.dates, DateStyle::Iso | DateStyle::Xsd) {
        let before_christ = write_day(days, out);
        return write_era(before_christ, out);
    }
    let day = Day::of(days);
    match style.dates {
        DateStyle::Iso | DateStyle::Xsd => {}
        DateStyle::Sql => day.numbers(style.order, b'/', out),
        DateStyle::Postgres => day.numbers(style.order, b'-', out),
        DateStyle::German => day.numbers(DateOrder::Dmy, b'.', out),
    }
    write_era(day.before_christ, out);
}

/// Writes a timestamp, in the session's zone if `zoned`.
pub fn timestamp(micros: i64, zoned: bool, style: &Style, out: &mut BytesMut) {
    if matches!(micros, i64::MIN | i64::MAX) {
        return write_timestamp(micros, "", out);
    }
    let is_iso = style.dates == DateStyle::Iso;
    if is_iso && (!zoned || style.zone.is_utc()) {
        return write_timestamp(micros, if zoned { "+00" } else { "" }, out);
    }
    let seconds = micros.div_euclid(MICROS);
    let offset = if zoned { style.zone.offset_at(seconds) } else { 0 };
    let local = micros.saturating_add(offset * MICROS);
    let (days, clock) = (local.div_euclid(MICROS_PER_DAY), local.rem_euclid(MICROS_PER_DAY));
    let day = Day::of(days);
    match style.dates {
        DateStyle::Iso | DateStyle::Xsd => {
            write_day(days, out);
            out.put_u8(if is_iso { b' ' } else { b'T' });
            write_time(clock, out);
        }
        DateStyle::Sql | DateStyle::German => {
            let (order, delimiter) =
                if style.dates == DateStyle::Sql { (style.order, b'/') } else { (DateOrder::Dmy, b'.') };
            day.numbers(order, delimiter, out);
            out.put_u8(b' ');
            write_time(clock, out);
        }
        DateStyle::Postgres => {
            out.put_slice(WEEKDAYS[usize::try_from((days + 4).rem_euclid(7)).unwrap_or(0)].as_bytes());
            out.put_u8(b' ');
            let month = MONTHS[usize::try_from(day.month - 1).unwrap_or(0)].as_bytes();
            if style.order == DateOrder::Dmy {
                two(day.day, out);
                out.put_u8(b' ');
                out.put_slice(month);
            } else {
                out.put_slice(month);
                out.put_u8(b' ');
                two(day.day, out);
            }
            out.put_u8(b' ');
            write_time(clock, out);
            out.put_u8(b' ');
            day.year(out);
        }
    }
    if zoned {
        if is_iso {
            write_offset(offset, false, out);
        } else if style.dates == DateStyle::Xsd {
            write_offset(offset, true, out);
        } else {
            out.put_u8(b' ');
            out.put_slice(style.zone.moment(seconds).abbreviation.as_bytes());
        }
    }
    write_era(day.before_christ, out);
}

/// Writes a zone's offset: `+02`, `-03:30`; with minutes in any case if it is wanted.
pub fn write_offset(offset: i64, with_minutes: bool, out: &mut BytesMut) {
    out.put_u8(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.abs();
    two_or_more(seconds / 3_600, out);
    if seconds % 3_600 != 0 || with_minutes {
        out.put_u8(b':');
        two(seconds / 60 % 60, out);
    }
    if seconds % 60 != 0 {
        out.put_u8(b':');
        two(seconds % 60, out);
    }
}

fn two_or_more(number: i64, out: &mut BytesMut) {
    if number < 100 { two(number, out) } else { out.put_slice(itoa::Buffer::new().format(number).as_bytes()) }
}

/// A day of the calendar, its year counted from the era's beginning.
struct Day {
    year: i64,
    month: i64,
    day: i64,
    before_christ: bool,
}

impl Day {
    fn of(days: i64) -> Self {
        let (year, month, day) = civil_from_days(days);
        let (year, before_christ) = if year > 0 { (year, false) } else { (1 - year, true) };
        Self { year, month: i64::from(month), day: i64::from(day), before_christ }
    }

    fn year(&self, out: &mut BytesMut) {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(self.year);
        out.put_bytes(b'0', 4_usize.saturating_sub(text.len()));
        out.put_slice(text.as_bytes());
    }

    /// Day and month in their order, then the year.
    fn numbers(&self, order: DateOrder, delimiter: u8, out: &mut BytesMut) {
        let (first, second) = if order == DateOrder::Dmy { (self.day, self.month) } else { (self.month, self.day) };
        two(first, out);
        out.put_u8(delimiter);
        two(second, out);
        out.put_u8(delimiter);
        self.year(out);
    }
}

/// Writes an interval of months, days and microseconds.
pub fn interval(months: i32, days: i32, micros: i64, style: &Style, out: &mut BytesMut) {
    match style.intervals {
        IntervalStyle::Postgres => write_interval(months, days, micros, out),
        IntervalStyle::PostgresVerbose => verbose(months, days, micros, out),
        IntervalStyle::SqlStandard => sql_standard(months, days, micros, out),
        IntervalStyle::Iso8601 => iso_8601(months, days, micros, out),
    }
}

fn put_number(number: impl itoa::Integer, out: &mut BytesMut) {
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Hours, minutes, seconds and microseconds, each with the sign of the whole.
fn clock(micros: i64) -> (i64, i64, i64, i64) {
    (micros / (3_600 * MICROS), micros / (60 * MICROS) % 60, micros / MICROS % 60, micros % MICROS)
}

/// Writes bytes with escapes: those that are no letters as `\\000`.
pub fn escaped(bytes: &[u8], out: &mut BytesMut) {
    for byte in bytes {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            0x20..=0x7e => out.put_u8(*byte),
            byte => out.put_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
        }
    }
}

/// `P1Y2M3DT4H5M6S`
fn iso_8601(months: i32, days: i32, micros: i64, out: &mut BytesMut) {
    if months == 0 && days == 0 && micros == 0 {
        return out.put_slice(b"PT0S");
    }
    let (hours, minutes, seconds, fraction) = clock(micros);
    out.put_u8(b'P');
    let part = |number: i64, unit: u8, out: &mut BytesMut| {
        if number != 0 {
            put_number(number, out);
            out.put_u8(unit);
        }
    };
    part(i64::from(months / 12), b'Y', out);
    part(i64::from(months % 12), b'M', out);
    part(i64::from(days), b'D', out);
    if micros != 0 {
        out.put_u8(b'T');
    }
    part(hours, b'H', out);
    part(minutes, b'M', out);
    if seconds != 0 || fraction != 0 {
        if seconds < 0 || fraction < 0 {
            out.put_u8(b'-');
        }
        put_number(seconds.abs(), out);
        write_fraction(fraction.abs(), out);
        out.put_u8(b'S');
    }
}

/// `+1-2 +3 +4:05:06`
fn sql_standard(months: i32, days: i32, micros: i64, out: &mut BytesMut) {
    let (year, month) = (months / 12, months % 12);
    let (hours, minutes, seconds, fraction) = clock(micros);
    let has_negative = months < 0 || days < 0 || micros < 0;
    let has_positive = months > 0 || days > 0 || micros > 0;
    let (has_months, has_days, has_clock) = (months != 0, days != 0, micros != 0);
    let is_standard = !(has_negative && has_positive) && !(has_months && (has_days || has_clock));
    let put_clock = |out: &mut BytesMut| {
        put_number(hours.unsigned_abs(), out);
        out.put_u8(b':');
        two(minutes.abs(), out);
        out.put_u8(b':');
        two(seconds.abs(), out);
        write_fraction(fraction.abs(), out);
    };
    match () {
        () if !has_negative && !has_positive => out.put_u8(b'0'),
        () if !is_standard => {
            // Each part has its sign, so that it is read as it was.
            let sign = |negative: bool| if negative { b'-' } else { b'+' };
            out.put_u8(sign(months < 0));
            put_number(year.unsigned_abs(), out);
            out.put_u8(b'-');
            put_number(month.unsigned_abs(), out);
            out.put_u8(b' ');
            out.put_u8(sign(days < 0));
            put_number(days.unsigned_abs(), out);
            out.put_u8(b' ');
            out.put_u8(sign(micros < 0));
            put_clock(out);
        }
        () => {
            if has_negative {
                out.put_u8(b'-');
            }
            if has_months {
                put_number(year.unsigned_abs(), out);
                out.put_u8(b'-');
                put_number(month.unsigned_abs(), out);
            } else {
                if has_days {
                    put_number(days.unsigned_abs(), out);
                    out.put_u8(b' ');
                }
                put_clock(out);
            }
        }
    }
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
fn verbose(months: i32, days: i32, micros: i64, out: &mut BytesMut) {
    out.put_u8(b'@');
    let (hours, minutes, seconds, fraction) = clock(micros);
    let (mut is_zero, mut is_before) = (true, false);
    let parts = [
        (i64::from(months / 12), "year"),
        (i64::from(months % 12), "mon"),
        (i64::from(days), "day"),
        (hours, "hour"),
        (minutes, "min"),
    ];
    for (number, unit) in parts.into_iter().filter(|(number, _)| *number != 0) {
        // The first part says whether all is before; another sign is shown.
        let shown = if is_zero {
            is_before = number < 0;
            number.abs()
        } else if is_before {
            -number
        } else {
            number
        };
        out.put_u8(b' ');
        put_number(shown, out);
        out.put_u8(b' ');
        out.put_slice(unit.as_bytes());
        if shown != 1 {
            out.put_u8(b's');
        }
        is_zero = false;
    }
    if seconds != 0 || fraction != 0 {
        out.put_u8(b' ');
        let is_negative = seconds < 0 || fraction < 0;
        if is_negative {
            if is_zero {
                is_before = true;
            } else if !is_before {
                out.put_u8(b'-');
            }
        } else if is_before {
            out.put_u8(b'-');
        }
        put_number(seconds.abs(), out);
        write_fraction(fraction.abs(), out);
        out.put_slice(if seconds.abs() != 1 || fraction != 0 { b" secs" } else { b" sec" });
        is_zero = false;
    }
    if is_zero {
        out.put_slice(b" 0");
    }
    if is_before {
        out.put_slice(b" ago");
    }
}
