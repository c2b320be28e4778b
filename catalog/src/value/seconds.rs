//! The digits of a second that a type of times keeps: `timestamp(3)` has milliseconds. Pure.
//!
//! A type without them keeps all six, and is stored in the catalog as it was before there were any: by its name alone.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;

/// Digits after the point of a second, 0 to 6; `None` where the type names none, which keeps six.
pub type SecondDigits = Option<u8>;

/// Maximum digits after the point of a second: microseconds.
pub const SECOND_DIGITS_MAX: u8 = 6;

/// 2000-01-01 in microseconds of the Unix epoch: where PostgreSQL's timestamps count from, and so where rounding
/// changes its direction.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A span in microseconds, rounded to digits of its seconds: half away from zero.
pub(super) fn rounded(micros: i64, digits: SecondDigits) -> i64 {
    let places = SECOND_DIGITS_MAX.saturating_sub(digits.unwrap_or(SECOND_DIGITS_MAX));
    let unit = 10_i64.pow(places.into());
    let half = unit / 2 * micros.signum();
    // What is within half a second of the ends of an i64 is no time of day, timestamp or interval.
    micros.saturating_add(half) / unit * unit
}

/// A timestamp in microseconds of the Unix epoch, rounded as PostgreSQL's `AdjustTimestampForTypmod` does. Infinities
/// stay.
pub(super) fn rounded_timestamp(micros: i64, digits: SecondDigits) -> i64 {
    match micros.checked_sub(POSTGRES_EPOCH) {
        Some(since) if micros != i64::MAX => rounded(since, digits).saturating_add(POSTGRES_EPOCH),
        _ => micros,
    }
}

/// The digits in parentheses, as a type's name has them; nothing where there are none.
pub(super) fn suffix(digits: SecondDigits) -> String {
    digits.map(|digits| format!("({digits})")).unwrap_or_default()
}

/// `"timestamp"` or `{"timestamp": 3}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Name(String),
    WithDigits(BTreeMap<String, u8>),
}

fn write<S: Serializer>(name: &str, digits: SecondDigits, serializer: S) -> Result<S::Ok, S::Error> {
    match digits {
        None => name.serialize(serializer),
        Some(digits) => BTreeMap::from([(name, digits)]).serialize(serializer),
    }
}

fn read<'de, D: Deserializer<'de>>(name: &str, deserializer: D) -> Result<SecondDigits, D::Error> {
    match Stored::deserialize(deserializer)? {
        Stored::Name(found) if found == name => Ok(None),
        Stored::WithDigits(found) if found.len() == 1 => match found.get(name) {
            Some(digits) if *digits <= SECOND_DIGITS_MAX => Ok(Some(*digits)),
            _ => Err(de::Error::custom("another type")),
        },
        _ => Err(de::Error::custom("another type")),
    }
}

/// One module for each of the types, for serde's `with`.
macro_rules! stored_as {
    ($($name:ident),*) => {$(
        pub(super) mod $name {
            use super::{Deserializer, SecondDigits, Serializer};

            pub(in crate::value) fn serialize<S: Serializer>(digits: &SecondDigits, serializer: S) -> Result<S::Ok, S::Error> {
                super::write(stringify!($name), *digits, serializer)
            }

            pub(in crate::value) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecondDigits, D::Error> {
                super::read(stringify!($name), deserializer)
            }
        }
    )*};
}

stored_as!(time, timestamp, timestamptz, interval);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{SqlType, array::ItemType};

    #[test]
    fn a_type_without_digits_is_stored_as_it_always_was() {
        let json = |kind: SqlType| serde_json::to_string(&kind).unwrap();
        assert_eq!(json(SqlType::Timestamp(None)), "\"timestamp\"");
        assert_eq!(json(SqlType::Timestamptz(Some(3))), "{\"timestamptz\":3}");
        assert_eq!(json(SqlType::Array(ItemType::Time(Some(0)))), "{\"array\":{\"time\":0}}");
        assert_eq!(json(SqlType::Text), "\"text\"");
        for kind in [
            SqlType::Time(None),
            SqlType::Timestamp(None),
            SqlType::Timestamptz(None),
            SqlType::Interval(None),
            SqlType::Interval(Some(6)),
            SqlType::Timestamp(Some(0)),
            SqlType::Varchar(Some(3)),
            SqlType::Array(ItemType::Timestamptz(Some(3))),
            SqlType::Array(ItemType::Interval(None)),
        ] {
            assert_eq!(serde_json::from_str::<SqlType>(&json(kind)).unwrap(), kind);
        }
        for wrong in ["\"timestamps\"", "{\"timestamp\":7}", "{\"timestamp\":1,\"time\":1}", "{\"text\":1}"] {
            assert!(serde_json::from_str::<SqlType>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rounding_is_away_from_the_year_2000() {
        let check = |micros: i64, digits, expected| assert_eq!(rounded_timestamp(micros, Some(digits)), expected);
        check(POSTGRES_EPOCH + 1_500, 3, POSTGRES_EPOCH + 2_000);
        check(POSTGRES_EPOCH + 1_499, 3, POSTGRES_EPOCH + 1_000);
        check(POSTGRES_EPOCH - 1_500, 3, POSTGRES_EPOCH - 2_000);
        check(POSTGRES_EPOCH - 1_499, 3, POSTGRES_EPOCH - 1_000);
        check(POSTGRES_EPOCH + 500_000, 0, POSTGRES_EPOCH + 1_000_000);
        check(1, 6, 1);
        check(i64::MAX, 0, i64::MAX);
        check(i64::MIN, 0, i64::MIN);
        assert_eq!(rounded(-1_500_000, Some(0)), -2_000_000);
        assert_eq!(rounded(123_456, None), 123_456);
    }
}
