//! Which form a numeric has, and what is computed with it.
//!
//! | form | Arrow type | values |
//! |---|---|---|
//! | small | `Decimal128(p, s)` | `numeric(p, s)` of up to 38 digits, and what sums, differences, products and remainders of such fit in |
//! | wide | `Decimal256(p, s)` | the same of up to 76 digits |
//! | exact | `LargeBinary` | every other numeric: each value has its own digits after the point, NaN and infinities |
//!
//! The first two are Arrow's, whose kernels compute them; a type says how many digits there are, so that no result
//! overflows ([`arithmetic`]). The exact form is that of [`Exact`]: no other values are `LargeBinary` here, so that the
//! type alone tells it. Its bytes have the value's order, and equal values may differ in the scale at their end: what
//! tells whether values are equal looks at their [`key`](key::key) ([`plan::numbers`](crate::plan::numbers)).
//! [`number`] computes with it.
//!
//! Literals, operators, functions, casts, aggregates and codecs ask here which form a numeric has.

use arrow::datatypes::DataType;
use datafusion::{logical_expr::Operator, scalar::ScalarValue};
use keyspan_catalog::value::exact::Exact;

pub mod cast;
pub mod column;
pub mod key;
pub(crate) mod number;
pub(crate) mod power;

/// The Arrow type of the exact form.
pub const EXACT: DataType = DataType::LargeBinary;
/// Digits of the small form.
pub const SMALL_DIGITS: i32 = 38;
/// Digits of the wide form.
pub const WIDE_DIGITS: i32 = 76;

/// Whether values of a type have the exact form.
pub fn is_exact(data: &DataType) -> bool {
    *data == EXACT
}

/// Whether values of a type are numerics of any form.
pub fn is_numeric(data: &DataType) -> bool {
    is_exact(data) || is_decimal(data)
}

/// Whether values of a type are numerics in one of Arrow's forms.
pub fn is_decimal(data: &DataType) -> bool {
    matches!(
        data,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}

/// A literal number with a minus before it. Whole numbers and numerics have no negative zero, so that `-0` is zero
/// where a column makes a float of it, too.
pub fn negated(digits: &str) -> String {
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    match digits.strip_prefix('-') {
        Some(digits) => digits.to_owned(),
        None if mantissa.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') => format!("-{digits}"),
        None => digits.to_owned(),
    }
}

/// Whether values of a type are numbers, floating point ones included.
pub fn is_number(data: &DataType) -> bool {
    data.is_numeric() || is_exact(data)
}

/// The digits before and after the point of a type whose values have a known number of them.
pub fn digits(data: &DataType) -> Option<(i32, i32)> {
    Some(match data {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (i32::from(*precision) - i32::from(*scale), i32::from(*scale)),
        _ => return None,
    })
}

/// The type of numerics of so many digits before and after the point.
pub fn with_digits(whole: i32, scale: i32) -> DataType {
    let all = (whole.max(0) + scale).max(1);
    match (u8::try_from(all), i8::try_from(scale)) {
        (Ok(all), Ok(scale)) if scale >= 0 && i32::from(all) <= SMALL_DIGITS => DataType::Decimal128(all, scale),
        (Ok(all), Ok(scale)) if scale >= 0 && i32::from(all) <= WIDE_DIGITS => DataType::Decimal256(all, scale),
        _ => EXACT,
    }
}

/// The type that has all values of two types of numbers that are no floats.
pub fn wider(left: &DataType, right: &DataType) -> DataType {
    match (digits(left), digits(right)) {
        (Some((a, x)), Some((b, y))) => with_digits(a.max(b), x.max(y)),
        _ => EXACT,
    }
}

/// The type of a column that has values of two such types, each with its own digits after the point.
pub fn united(left: &DataType, right: &DataType) -> DataType {
    match (digits(left), digits(right)) {
        (Some((a, x)), Some((b, y))) if x == y => with_digits(a.max(b), x),
        _ => EXACT,
    }
}

/// The type of a result of two such types; `None` where its digits depend on the values, or the operator is none of
/// arithmetic.
pub fn arithmetic(operator: Operator, left: &DataType, right: &DataType) -> Option<DataType> {
    let ((a, x), (b, y)) = (digits(left)?, digits(right)?);
    Some(match operator {
        Operator::Plus | Operator::Minus => with_digits(a.max(b) + 1, x.max(y)),
        // Arrow counts one more.
        Operator::Multiply => with_digits(a + b + 1, x + y),
        Operator::Modulo => with_digits(a.max(b), x.max(y)),
        _ => return None,
    })
}

/// A float as PostgreSQL casts it to numeric: 15 digits of it, or 6 of a real.
///
/// # Errors
/// None that occurs: a float has few digits.
pub fn of_float(value: f64, is_real: bool) -> crate::error::Result<Exact> {
    number::Number::of_f64(value, if is_real { column::REAL_DIGITS } else { column::DOUBLE_DIGITS }).to_exact()
}

/// The sum of two numbers of which one is a numeric, or their difference: of the exact form, NULL where one is.
///
/// # Errors
/// 22003
pub fn sum(left: &ScalarValue, right: &ScalarValue, off: bool) -> crate::error::Result<ScalarValue> {
    let (left, right) = (column::number_of_scalar(left)?, column::number_of_scalar(right)?);
    match left.zip(right) {
        None => Ok(ScalarValue::LargeBinary(None)),
        Some((left, right)) if off => column::scalar(&left.minus(&right)),
        Some((left, right)) => column::scalar(&left.plus(&right)),
    }
}

/// The text of a value of the exact form.
pub fn text(bytes: &[u8]) -> String {
    Exact::trusted(bytes).to_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn zero_has_no_sign() {
        for (digits, expected) in [
            ("0", "0"),
            ("0.00", "0.00"),
            ("0e5", "0e5"),
            ("0.01", "-0.01"),
            ("10", "-10"),
            ("-5", "5"),
            ("1e0", "-1e0"),
        ] {
            assert_eq!(negated(digits), expected);
        }
    }

    #[test]
    fn digits_decide_on_the_form() {
        let check = |operator, left: (u8, i8), right: (u8, i8), expected: Expect| {
            let (left, right) = (DataType::Decimal128(left.0, left.1), DataType::Decimal128(right.0, right.1));
            expected.assert_eq(&format!("{:?}", arithmetic(operator, &left, &right)));
        };
        check(Operator::Plus, (10, 2), (3, 1), expect!["Some(Decimal128(11, 2))"]);
        check(Operator::Multiply, (15, 2), (16, 2), expect!["Some(Decimal128(32, 4))"]);
        check(Operator::Multiply, (32, 4), (16, 2), expect!["Some(Decimal256(49, 6))"]);
        check(Operator::Multiply, (38, 10), (38, 10), expect!["Some(LargeBinary)"]);
        check(Operator::Modulo, (38, 0), (10, 10), expect!["Some(Decimal256(48, 10))"]);
        check(Operator::Divide, (10, 2), (3, 1), expect!["None"]);
        assert_eq!(wider(&DataType::Int64, &DataType::Decimal128(2, 1)), DataType::Decimal128(20, 1));
        assert_eq!(united(&DataType::Int32, &DataType::Decimal128(2, 1)), EXACT);
        assert_eq!(united(&DataType::Decimal128(4, 2), &DataType::Decimal128(3, 2)), DataType::Decimal128(4, 2));
    }
}
