//! Functions of `information_schema` that say what the modifier of a type means, as its views compute it and clients
//! ask by themselves: `_pg_char_max_length(atttypid, atttypmod)` and its kin.

use super::row_function::row_function;
use crate::pg::functions::{RowFunction, int_of};
use arrow::datatypes::DataType;
use datafusion::{error::Result, scalar::ScalarValue};

/// What PostgreSQL adds to the modifiers of varchar and numeric (`VARHDRSZ`).
const HEADER: i64 = 4;
/// Bytes of a character in UTF-8, at most.
const CHARACTER_BYTES: i64 = 4;
/// The most bytes of a text.
const TEXT_BYTES: i64 = 1 << 30;

/// What a function says of a type by its OID and a modifier.
type Says = fn(i64, i64) -> Option<i64>;

const INTS: [(&str, Says); 6] = [
    ("_pg_char_max_length", char_max_length),
    ("_pg_char_octet_length", |kind, modifier| match kind {
        25 | 1042 | 1043 if modifier == -1 => Some(TEXT_BYTES),
        25 | 1042 | 1043 => char_max_length(kind, modifier).map(|length| length * CHARACTER_BYTES),
        _ => None,
    }),
    ("_pg_numeric_precision", |kind, modifier| match kind {
        21 => Some(16),
        23 => Some(32),
        20 => Some(64),
        1700 if modifier != -1 => Some(((modifier - HEADER) >> 16) & 65_535),
        700 => Some(24),
        701 => Some(53),
        _ => None,
    }),
    ("_pg_numeric_precision_radix", |kind, _| match kind {
        20 | 21 | 23 | 700 | 701 => Some(2),
        1700 => Some(10),
        _ => None,
    }),
    ("_pg_numeric_scale", |kind, modifier| match kind {
        20 | 21 | 23 => Some(0),
        1700 if modifier != -1 => Some((modifier - HEADER) & 65_535),
        _ => None,
    }),
    ("_pg_datetime_precision", |kind, modifier| match kind {
        1082 => Some(0),
        1083 | 1114 | 1184 | 1266 => Some(if modifier < 0 { 6 } else { modifier }),
        1186 => Some(if modifier < 0 || modifier & 65_535 == 65_535 { 6 } else { modifier & 65_535 }),
        _ => None,
    }),
];

fn char_max_length(kind: i64, modifier: i64) -> Option<i64> {
    match kind {
        _ if modifier == -1 => None,
        1042 | 1043 => Some(modifier - HEADER),
        1560 | 1562 => Some(modifier),
        _ => None,
    }
}

/// The functions.
pub(super) fn functions() -> Vec<RowFunction> {
    macro_rules! int {
        ($at:literal) => {
            row_function(INTS[$at].0, 2..=2, DataType::Int32, |values, _| said(INTS[$at].1, values))
        };
    }
    // No interval of a column is bound to some of its fields.
    let fields = row_function("_pg_interval_type", 2..=2, DataType::Utf8View, |_, _| Ok(ScalarValue::Utf8View(None)));
    vec![int!(0), int!(1), int!(2), int!(3), int!(4), int!(5), fields]
}

fn said(says: Says, values: &[ScalarValue]) -> Result<ScalarValue> {
    let said = int_of(&values[0]).zip(int_of(&values[1])).and_then(|(kind, modifier)| says(kind, modifier));
    Ok(ScalarValue::Int32(said.and_then(|number| i32::try_from(number).ok())))
}
