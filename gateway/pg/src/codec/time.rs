//! Dates, times and intervals, as PostgreSQL prints them in the style ISO (and intervals in the style postgres).
//!
//! Units: days and microseconds since 1970-01-01. PostgreSQL's binary forms count from 2000-01-01.

use bytes::{BufMut, BytesMut};
use keyspan_catalog::value::calendar::MICROS_PER_DAY;

/// Days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * MICROS_PER_DAY;

/// Writes a date; the least and the greatest number are the infinities.
pub fn write_date(days: i32, out: &mut BytesMut) {
    match days {
        i32::MIN => out.put_slice(b"-infinity"),
        i32::MAX => out.put_slice(b"infinity"),
        days => {
            let before_christ = write_day(i64::from(days), out);
            write_era(before_christ, out);
        }
    }
}

/// Writes a timestamp; the least and the greatest number are the infinities. `zone` is written after the time.
pub fn write_timestamp(micros: i64, zone: &str, out: &mut BytesMut) {
    match micros {
        i64::MIN => out.put_slice(b"-infinity"),
        i64::MAX => out.put_slice(b"infinity"),
        micros => {
            let before_christ = write_day(micros.div_euclid(MICROS_PER_DAY), out);
            out.put_u8(b' ');
            write_time(micros.rem_euclid(MICROS_PER_DAY), out);
            out.put_slice(zone.as_bytes());
            write_era(before_christ, out);
        }
    }
}

/// Writes a time of day.
pub fn write_time(micros: i64, out: &mut BytesMut) {
    let seconds = micros / 1_000_000;
    two(seconds / 3_600, out);
    out.put_u8(b':');
    two(seconds / 60 % 60, out);
    out.put_u8(b':');
    two(seconds % 60, out);
    write_fraction(micros % 1_000_000, out);
}

/// Writes an interval of months, days and microseconds.
pub fn write_interval(months: i32, days: i32, micros: i64, out: &mut BytesMut) {
    let (mut first, mut after_negative) = (true, false);
    let parts = [(months / 12, "year"), (months % 12, "mon"), (days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        if !first {
            out.put_u8(b' ');
        }
        if after_negative && value > 0 {
            out.put_u8(b'+');
        }
        out.put_slice(itoa::Buffer::new().format(value).as_bytes());
        out.put_u8(b' ');
        out.put_slice(unit.as_bytes());
        if value != 1 {
            out.put_u8(b's');
        }
        (first, after_negative) = (false, value < 0);
    }
    if first || micros != 0 {
        if !first {
            out.put_u8(b' ');
        }
        if micros < 0 {
            out.put_u8(b'-');
        } else if after_negative {
            out.put_u8(b'+');
        }
        // The least number has no opposite of its type.
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        let hours = seconds / 3_600;
        if hours < 10 {
            out.put_u8(b'0');
        }
        out.put_slice(itoa::Buffer::new().format(hours).as_bytes());
        out.put_u8(b':');
        two((seconds / 60 % 60) as i64, out);
        out.put_u8(b':');
        two((seconds % 60) as i64, out);
        write_fraction((micros % 1_000_000) as i64, out);
    }
}

pub(crate) fn two(value: i64, out: &mut BytesMut) {
    out.put_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
}

pub(crate) fn write_fraction(micros: i64, out: &mut BytesMut) {
    if micros == 0 {
        return;
    }
    let mut digits = [b'0'; 6];
    let mut rest = micros;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    out.put_u8(b'.');
    out.put_slice(&digits[..end]);
}

pub(crate) fn write_era(before_christ: bool, out: &mut BytesMut) {
    if before_christ {
        out.put_slice(b" BC");
    }
}

/// Writes year, month and day; whether the year is one before Christ.
pub(crate) fn write_day(days: i64, out: &mut BytesMut) -> bool {
    let (year, month, day) = civil(days);
    // There is no year 0: the one before 1 is 1 BC.
    let (shown, before_christ) = if year > 0 { (year, false) } else { (1 - year, true) };
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(shown);
    out.put_bytes(b'0', 4usize.saturating_sub(text.len()));
    out.put_slice(text.as_bytes());
    out.put_u8(b'-');
    two(month, out);
    out.put_u8(b'-');
    two(day, out);
    before_christ
}

/// Year, month and day of the proleptic Gregorian calendar: `civil_from_days` of Howard Hinnant's
/// <https://howardhinnant.github.io/date_algorithms.html>.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn dates_are_printed_as_postgres_does() {
        for (days, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (EPOCH_DAYS, "2000-01-01"),
            (11_016, "2000-02-29"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "10000-01-01"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (-735_234, "0045-12-31 BC"),
            (i32::MAX, "infinity"),
            (i32::MIN, "-infinity"),
        ] {
            assert_eq!(written(|out| write_date(days, out)), text);
        }
    }

    #[test]
    fn timestamps_are_printed_as_postgres_does() {
        for (micros, text) in [
            (0, "1970-01-01 00:00:00+00"),
            (-1, "1969-12-31 23:59:59.999999+00"),
            (1_357_016_400_000_000, "2013-01-01 05:00:00+00"),
            (1_357_016_400_120_000, "2013-01-01 05:00:00.12+00"),
            (-719_163 * MICROS_PER_DAY + 3_600_000_001, "0001-12-31 01:00:00.000001+00 BC"),
            (i64::MAX, "infinity"),
            (i64::MIN, "-infinity"),
        ] {
            assert_eq!(written(|out| write_timestamp(micros, "+00", out)), text);
        }
        assert_eq!(written(|out| write_timestamp(1, "", out)), "1970-01-01 00:00:00.000001");
    }

    #[test]
    fn intervals_are_printed_as_postgres_does() {
        let second = 1_000_000;
        for (months, days, micros, text) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706 * second, "1 year 2 mons 3 days 04:05:06"),
            (0, -1, 0, "-1 days"),
            (0, 1, 0, "1 day"),
            (-1, 3, 0, "-1 mons +3 days"),
            (-1, 0, second, "-1 mons +00:00:01"),
            (0, 1, -second / 2, "1 day -00:00:00.5"),
            (0, 0, 360_000 * second, "100:00:00"),
            (0, 0, i64::MIN, "-2562047788:00:54.775808"),
        ] {
            assert_eq!(written(|out| write_interval(months, days, micros, out)), text);
        }
    }

    proptest! {
        #[test]
        fn days_are_those_of_another_calendar(days in -700_000i32..2_900_000) {
            let epoch = chrono::NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
            let other = epoch + chrono::TimeDelta::days(i64::from(days));
            prop_assert_eq!(written(|out| write_date(days, out)), other.format("%Y-%m-%d").to_string());
        }
    }
}
