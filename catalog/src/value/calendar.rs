//! The proleptic Gregorian calendar with PostgreSQL's limits: conversion of dates to days since 1970-01-01 and back.
//! Pure.
//!
//! The algorithms are Howard Hinnant's (<https://howardhinnant.github.io/date_algorithms.html>).

/// Microseconds in a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The first day of PostgreSQL's calendar: 4714-11-24 BC, day 0 of the Julian period.
pub const FIRST_DAY: i64 = -2_440_588;
/// The last day of a `date`: 5874897-12-31.
pub const LAST_DAY: i64 = 2_145_042_905;
/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// Whether the days are a valid `date`: within PostgreSQL's limits, or an infinity.
pub fn is_date(days: i32) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days.into()) || days == i32::MIN || days == i32::MAX
}

/// Whether the microseconds are a valid `timestamp`: from the first day on, or minus infinity. The upper limit is that
/// of 64 bits.
pub fn is_timestamp(micros: i64) -> bool {
    micros >= FIRST_DAY * MICROS_PER_DAY || micros == i64::MIN
}

/// Converts days to year, month and day. The year before year 1 is 0: 1 BC.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    // Here years begin in March, so that the leap day is the last day of its year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// Converts a date to days; `None` if the calendar has no such day.
pub fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > days_of_month(year, month) {
        return None;
    }
    let shifted = if month <= 2 { year.checked_sub(1)? } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month_from_march = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era.checked_mul(DAYS_PER_ERA)?.checked_add(day_of_era)? - 719_468)
}

fn days_of_month(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(days_from_civil(1970, 1, 1), Some(0));
        assert_eq!(days_from_civil(2000, 2, 29), Some(11_016));
        assert_eq!(days_from_civil(1, 1, 1), Some(-719_162));
        assert_eq!(days_from_civil(9999, 12, 31), Some(2_932_896));
        assert_eq!(days_from_civil(-4713, 11, 24), Some(FIRST_DAY));
        assert_eq!(days_from_civil(5_874_897, 12, 31), Some(LAST_DAY));
        assert_eq!(days_from_civil(1900, 2, 29), None);
        assert_eq!(days_from_civil(2013, 4, 31), None);
        assert_eq!(days_from_civil(2013, 13, 1), None);
    }

    #[test]
    fn dates_and_days_agree() {
        for days in (-2_500_000..110_000_000).step_by(997) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), Some(days));
        }
    }
}
