//! What an UPDATE adds to a column, or takes off it: sums of the types that PostgreSQL gives them.

use super::{names::Parameters, shape::Operand};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    numeric,
};
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{SqlType, value::exact::Exact};

/// Whether values of a type are summed here.
pub(super) fn has(kind: SqlType) -> bool {
    is_whole(kind) || is_numeric(kind) || kind == SqlType::Float8
}

fn is_whole(kind: SqlType) -> bool {
    matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

fn is_numeric(kind: SqlType) -> bool {
    matches!(kind, SqlType::Numeric { .. } | SqlType::Exact(_))
}

/// What is added to a column of a type: a parameter of the type, or a number as it is written. `None` where the general
/// way is to decide.
pub(super) fn operand(operand: Operand, kind: SqlType, parameters: &mut Parameters) -> Option<Operand> {
    let exact = |digits: &str| {
        let exact = Exact::parse(digits)?.ok()?;
        Some(ScalarValue::LargeBinary(Some(exact.as_bytes().to_vec())))
    };
    let literal = match operand {
        Operand::Parameter(_) if is_numeric(kind) => return parameters.compared(&operand, kind).map(|()| operand),
        Operand::Parameter(_) => return parameters.beside(&operand, kind).map(|()| operand),
        // integer where it fits, else bigint.
        Operand::Literal(ScalarValue::Int64(Some(number))) if is_whole(kind) => match i32::try_from(number) {
            Ok(number) => ScalarValue::Int32(Some(number)),
            Err(_) => ScalarValue::Int64(Some(number)),
        },
        Operand::Literal(ScalarValue::Int64(Some(number))) if is_numeric(kind) => exact(&number.to_string())?,
        Operand::Literal(ScalarValue::Int64(Some(number))) => {
            ScalarValue::Float64(Some(number.to_string().parse().ok()?))
        }
        Operand::Digits(digits) if is_numeric(kind) => exact(&digits)?,
        Operand::Digits(digits) if kind == SqlType::Float8 => ScalarValue::Float64(Some(digits.parse().ok()?)),
        _ => return None,
    };
    Some(Operand::Literal(literal))
}

/// The sum of a column's value and another number, or their difference: of whole numbers of the wider type of both, as
/// in PostgreSQL.
///
/// # Errors
/// 22003.
pub(super) fn sum(old: &ScalarValue, given: &ScalarValue, off: bool) -> Result<ScalarValue> {
    match (old, given) {
        (ScalarValue::Float64(old), ScalarValue::Float64(given)) => Ok(ScalarValue::Float64(match (old, given) {
            (Some(old), Some(given)) => Some(of_floats(*old, *given, off)?),
            _ => None,
        })),
        (old, given) if numeric::is_numeric(&old.data_type()) => numeric::sum(old, given, off),
        (old, given) => of_whole(old, given, off),
    }
}

fn of_floats(old: f64, given: f64, off: bool) -> Result<f64> {
    let sum = if off { old - given } else { old + given };
    if sum.is_infinite() && old.is_finite() && given.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(sum)
}

fn of_whole(old: &ScalarValue, given: &ScalarValue, off: bool) -> Result<ScalarValue> {
    let whole = |scalar: &ScalarValue| match scalar {
        ScalarValue::Int16(number) => (2, number.map(i64::from)),
        ScalarValue::Int32(number) => (4, number.map(i64::from)),
        ScalarValue::Int64(number) => (8, *number),
        _ => (2, None),
    };
    let ((old_bytes, old), (given_bytes, given)) = (whole(old), whole(given));
    let Some((old, given)) = old.zip(given) else { return Ok(ScalarValue::Int64(None)) };
    let sum = if off { old.checked_sub(given) } else { old.checked_add(given) };
    let (fits, name) = match old_bytes.max(given_bytes) {
        2 => (sum.is_some_and(|sum| i16::try_from(sum).is_ok()), "smallint"),
        4 => (sum.is_some_and(|sum| i32::try_from(sum).is_ok()), "integer"),
        _ => (sum.is_some(), "bigint"),
    };
    if !fits {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range")));
    }
    Ok(ScalarValue::Int64(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &ScalarValue, given: &ScalarValue, off: bool) -> String {
        match sum(old, given, off) {
            Ok(ScalarValue::LargeBinary(Some(bytes))) => numeric::text(&bytes),
            Ok(sum) => sum.to_string(),
            Err(error) => error.message,
        }
    }

    #[test]
    fn whole_numbers_are_of_the_wider_type() {
        let sum = |old: ScalarValue, given: ScalarValue, off| shown(&old, &given, off);
        let (two, four, eight) = (ScalarValue::Int16, ScalarValue::Int32, ScalarValue::Int64);
        assert_eq!(sum(two(Some(i16::MAX)), two(Some(1)), false), "smallint out of range");
        assert_eq!(sum(two(Some(i16::MAX)), four(Some(1)), false), "32768");
        assert_eq!(sum(two(Some(1)), four(Some(i32::MAX)), false), "integer out of range");
        assert_eq!(sum(four(Some(i32::MIN)), four(Some(1)), true), "integer out of range");
        assert_eq!(sum(four(Some(i32::MIN)), eight(Some(1)), true), "-2147483649");
        assert_eq!(sum(eight(Some(i64::MIN)), two(Some(-1)), false), "bigint out of range");
        assert_eq!(sum(eight(Some(i64::MIN)), two(Some(-1)), true), "-9223372036854775807");
        assert_eq!([sum(four(None), four(Some(1)), true), sum(eight(Some(1)), eight(None), false)], ["NULL", "NULL"]);
    }

    #[test]
    fn numerics_are_exact_and_floats_bounded() {
        let exact =
            |text: &str| ScalarValue::LargeBinary(Some(Exact::parse(text).unwrap().unwrap().as_bytes().to_vec()));
        let cents = ScalarValue::Decimal128(Some(-125), 12, 2);
        assert_eq!(shown(&cents, &exact("0.255"), false), "-0.995");
        assert_eq!(shown(&cents, &exact("0.75"), true), "-2.00");
        assert_eq!(shown(&exact("NaN"), &exact("1"), true), "NaN");
        assert_eq!(shown(&cents, &ScalarValue::LargeBinary(None), true), "NULL");
        let float = |value| ScalarValue::Float64(Some(value));
        assert_eq!(shown(&float(f64::MAX), &float(f64::MAX), false), "value out of range: overflow");
        assert_eq!(shown(&float(f64::INFINITY), &float(1.0), true), "inf");
        assert_eq!(shown(&float(0.1), &float(0.2), false), "0.30000000000000004");
    }
}
