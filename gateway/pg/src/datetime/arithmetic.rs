//! Sums of times and intervals by the calendar of a zone: a day is one of the calendar, whether it has 23, 24 or 25
//! hours.
//!
//! Units: microseconds since 1970-01-01; the least and the greatest number are the infinities.

use super::zone::Zone;
use keyspan_catalog::value::{
    calendar::{MICROS_PER_DAY, civil_from_days, days_from_civil, is_timestamp},
    interval::Interval,
};

/// A local time and an interval: months first, of which the day is one that the month has, then days, then time. `None`
/// out of range.
pub fn plus_local(local: i64, span: Interval) -> Option<i64> {
    if matches!(local, i64::MAX | i64::MIN) {
        return Some(local);
    }
    let moved = moved_days(local, span)?;
    held(moved.checked_add(span.micros)?)
}

/// A `timestamptz` and an interval in a zone. `None` out of range.
pub fn plus(utc: i64, span: Interval, zone: &Zone) -> Option<i64> {
    if matches!(utc, i64::MAX | i64::MIN) {
        return Some(utc);
    }
    let mut utc = utc;
    // One after the other, as PostgreSQL does: each ends at a time that there is.
    if span.months != 0 {
        utc = zone.to_utc(moved_days(zone.to_local(utc)?, Interval { days: 0, ..span })?)?;
    }
    if span.days != 0 {
        utc = zone.to_utc(moved_days(zone.to_local(utc)?, Interval { months: 0, ..span })?)?;
    }
    held(utc.checked_add(span.micros)?)
}

/// The opposite of an interval; `None` out of range.
pub fn opposite(span: Interval) -> Option<Interval> {
    Some(Interval {
        months: span.months.checked_neg()?,
        days: span.days.checked_neg()?,
        micros: span.micros.checked_neg()?,
    })
}

/// A local time, moved by an interval's months and days.
fn moved_days(local: i64, span: Interval) -> Option<i64> {
    let mut days = local.div_euclid(MICROS_PER_DAY);
    if span.months != 0 {
        let (year, month, day) = civil_from_days(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(span.months);
        let (year, month) = (months.div_euclid(12), u32::try_from(months.rem_euclid(12) + 1).ok()?);
        // The last day of a month that is shorter.
        days = (0..4).find_map(|shorter| days_from_civil(year, month, day.checked_sub(shorter)?))?;
    }
    days.checked_add(i64::from(span.days))?.checked_mul(MICROS_PER_DAY)?.checked_add(local.rem_euclid(MICROS_PER_DAY))
}

fn held(micros: i64) -> Option<i64> {
    Some(micros).filter(|micros| is_timestamp(*micros) && !matches!(*micros, i64::MIN | i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{Input, moments::timestamp, spans, style::Style};

    #[test]
    fn days_are_those_of_the_calendar() {
        let style = Style { zone: Zone::named("Europe/Berlin").unwrap(), ..Style::default() };
        let input = Input { style: &style, now_micros: 0 };
        let at = |text: &str| timestamp(text, true, input).unwrap();
        for (start, span, end) in [
            ("2026-03-28 02:30", "1 day", "2026-03-29 03:30"),
            ("2026-03-28 02:30", "24 hours", "2026-03-29 03:30"),
            ("2026-03-28 12:00", "1 day", "2026-03-29 12:00"),
            ("2026-03-28 12:00", "24 hours", "2026-03-29 13:00"),
            ("2026-10-25 12:00", "-1 day", "2026-10-24 12:00"),
            ("2026-01-31 12:00", "1 month", "2026-02-28 12:00"),
            ("2024-02-29 12:00", "1 year", "2025-02-28 12:00"),
        ] {
            let span = spans::parse(span, &style).unwrap();
            assert_eq!(plus(at(start), span, &style.zone), Some(at(end)), "{start}");
        }
        assert_eq!(plus_local(i64::MAX, spans::parse("1 day", &style).unwrap()), Some(i64::MAX));
    }
}
