//! Functions of numbers that DataFusion lacks, or that answer NaN where PostgreSQL fails.

use super::scalar_function::{
    self, Call, RowFunction, external, items, nullable, returns_float, returns_integer, strict,
};
use crate::{
    error::{SqlError, SqlState},
    types,
};
use arrow::datatypes::{DataType, FieldRef, i256};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

/// Digits after the point of a quotient: PostgreSQL gives at least 16 that count.
const QUOTIENT_SCALE: u8 = 16;

fn float(call: &Call, at: usize) -> Result<f64> {
    match call.values[at].cast_to(&DataType::Float64)? {
        ScalarValue::Float64(Some(float)) => Ok(float),
        _ => Ok(f64::NAN),
    }
}

fn given(value: f64) -> Result<ScalarValue> {
    Ok(ScalarValue::Float64(Some(value)))
}

fn fails(state: SqlState, message: &str) -> datafusion::error::DataFusionError {
    external(SqlError::new(state, message))
}

fn logarithm(value: f64) -> Result<f64> {
    match value {
        0.0 => Err(fails(SqlState::INVALID_LOGARITHM, "cannot take logarithm of zero")),
        value if value < 0.0 => Err(fails(SqlState::INVALID_LOGARITHM, "cannot take logarithm of a negative number")),
        value => Ok(value),
    }
}

fn in_range(value: f64) -> Result<f64> {
    if (-1.0..=1.0).contains(&value) || value.is_nan() {
        return Ok(value);
    }
    Err(fails(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"))
}

fn floats() -> [RowFunction; 11] {
    [
        strict("ln", 1..=1, returns_float, |call| given(logarithm(float(call, 0)?)?.ln())),
        strict("log10", 1..=1, returns_float, |call| given(logarithm(float(call, 0)?)?.log10())),
        strict("log", 1..=2, returns_float, |call| {
            let first = logarithm(float(call, 0)?)?;
            if call.values.len() == 1 {
                return given(first.log10());
            }
            given(logarithm(float(call, 1)?)?.log10() / first.log10())
        }),
        strict("sqrt", 1..=1, returns_float, |call| {
            let value = float(call, 0)?;
            if value < 0.0 {
                let message = "cannot take square root of a negative number";
                return Err(fails(SqlState::INVALID_POWER, message));
            }
            given(value.sqrt())
        }),
        strict("asin", 1..=1, returns_float, |call| given(in_range(float(call, 0)?)?.asin())),
        strict("acos", 1..=1, returns_float, |call| given(in_range(float(call, 0)?)?.acos())),
        strict("sind", 1..=1, returns_float, |call| {
            given(match float(call, 0)?.rem_euclid(360.0) {
                0.0 | 180.0 => 0.0,
                30.0 | 150.0 => 0.5,
                90.0 => 1.0,
                210.0 | 330.0 => -0.5,
                270.0 => -1.0,
                other => other.to_radians().sin(),
            })
        }),
        strict("cosd", 1..=1, returns_float, |call| {
            given(match float(call, 0)?.rem_euclid(360.0) {
                90.0 | 270.0 => 0.0,
                60.0 | 300.0 => 0.5,
                0.0 => 1.0,
                120.0 | 240.0 => -0.5,
                180.0 => -1.0,
                other => other.to_radians().cos(),
            })
        }),
        strict("tand", 1..=1, returns_float, |call| {
            given(match float(call, 0)?.rem_euclid(180.0) {
                0.0 => 0.0,
                45.0 => 1.0,
                135.0 => -1.0,
                other => other.to_radians().tan(),
            })
        }),
        strict("div", 2..=2, |fields| quotient(fields, 0), |call| divided(call, true)),
        // `numeric / numeric`, with 16 digits after the point.
        strict("numeric_divide", 2..=2, |fields| quotient(fields, QUOTIENT_SCALE), |call| divided(call, false)),
    ]
}

fn scale_of(field: &FieldRef) -> u8 {
    match field.data_type() {
        DataType::Decimal128(_, scale) => scale.unsigned_abs(),
        _ => 0,
    }
}

fn quotient(fields: &[FieldRef], least: u8) -> Result<FieldRef> {
    let scale = if least == 0 { 0 } else { fields.iter().map(scale_of).fold(least, u8::max) };
    nullable(DataType::Decimal128(types::NUMERIC_PRECISION, i8::try_from(scale).unwrap_or(i8::MAX)))
}

/// The unscaled number of a value and its scale.
fn unscaled(value: &ScalarValue) -> Result<(i128, u32)> {
    Ok(match value {
        ScalarValue::Decimal128(Some(unscaled), _, scale) => (*unscaled, u32::from(scale.unsigned_abs())),
        ScalarValue::Float64(_) | ScalarValue::Float32(_) => {
            match value.cast_to(&DataType::Decimal128(types::NUMERIC_PRECISION, types::NUMERIC_SCALE))? {
                ScalarValue::Decimal128(Some(unscaled), _, scale) => (unscaled, u32::from(scale.unsigned_abs())),
                _ => (0, 0),
            }
        }
        other => (super::int_of(other).map_or(0, i128::from), 0),
    })
}

fn divided(call: &Call, whole: bool) -> Result<ScalarValue> {
    let DataType::Decimal128(precision, scale) = *call.returns.data_type() else { return Ok(ScalarValue::Null) };
    let ((a, a_scale), (b, b_scale)) = (unscaled(&call.values[0])?, unscaled(&call.values[1])?);
    if b == 0 {
        return Err(fails(SqlState::DIVISION_BY_ZERO, "division by zero"));
    }
    let ten = |power: u32| (0..power).fold(i256::ONE, |product, _| product.wrapping_mul(i256::from(10)));
    // Scales are at most 38, numbers have at most 38 digits: 114 digits do not occur, since the scales of both sides
    // come off.
    let wanted = u32::from(scale.unsigned_abs());
    let overflow = || fails(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow");
    let up = (wanted + b_scale).saturating_sub(a_scale);
    let down = a_scale.saturating_sub(wanted + b_scale);
    let a = i256::from_i128(a).checked_mul(ten(up)).filter(|_| up <= 76).ok_or_else(overflow)?;
    let b = i256::from_i128(b).checked_mul(ten(down)).filter(|_| down <= 76).ok_or_else(overflow)?;
    let (quotient, rest) = (a.wrapping_div(b), a.wrapping_rem(b));
    let half_or_more = rest.wrapping_abs().wrapping_mul(i256::from(2)) >= b.wrapping_abs();
    let away = if (a < i256::ZERO) == (b < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
    let rounded = if half_or_more && !whole { quotient.wrapping_add(away) } else { quotient };
    let fits = rounded.to_i128().filter(|number| number.unsigned_abs() < 10_u128.pow(u32::from(precision)));
    Ok(ScalarValue::Decimal128(Some(fits.ok_or_else(overflow)?), precision, scale))
}

fn others() -> [RowFunction; 2] {
    [
        strict("width_bucket", 2..=4, returns_integer, |call| {
            let operand = float(call, 0)?;
            if let Some(bounds) = items(&call.values[1]) {
                let bounds =
                    bounds.iter().map(|bound| bound.cast_to(&DataType::Float64)).collect::<Result<Vec<_>>>()?;
                let below = bounds
                    .iter()
                    .filter(|bound| matches!(bound, ScalarValue::Float64(Some(bound)) if *bound <= operand));
                return Ok(ScalarValue::Int32(i32::try_from(below.count()).ok()));
            }
            if call.values.len() != 4 {
                return Err(external(super::undefined("width_bucket", &[DataType::Float64])));
            }
            let (low, high) = (float(call, 1)?, float(call, 2)?);
            let count = super::int_of(&call.values[3]).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
            let wrong = |message: &str| fails(SqlState::INVALID_WIDTH_BUCKET, message);
            if count <= 0 {
                return Err(wrong("count must be greater than zero"));
            }
            if low == high {
                return Err(wrong("lower bound cannot equal upper bound"));
            }
            let (operand, low, high) = if low < high { (operand, low, high) } else { (-operand, -low, -high) };
            #[expect(clippy::cast_possible_truncation, reason = "between 0 and count")]
            let bucket = match operand {
                operand if operand < low => 0,
                operand if operand >= high => count.saturating_add(1),
                operand => (f64::from(count) * ((operand - low) / (high - low))).floor() as i32 + 1,
            };
            Ok(ScalarValue::Int32(Some(bucket)))
        }),
        strict("setseed", 1..=1, returns_float, |_| Err(external(SqlError::unsupported("setseed()")))),
    ]
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(floats().into_iter().chain(others()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn quotients_have_sixteen_digits_after_the_point() {
        let check = |a: (i128, i8), b: (i128, i8), expected: i128| {
            let value = |(number, scale)| ScalarValue::Decimal128(Some(number), 38, scale);
            let field = |(_, scale)| Arc::new(Field::new("", DataType::Decimal128(38, scale), true));
            let fields = [field(a), field(b)];
            let returns = quotient(&fields, QUOTIENT_SCALE).expect("a type");
            let options = datafusion::config::ConfigOptions::new();
            let call = Call { values: &[value(a), value(b)], fields: &fields, returns: &returns, options: &options };
            let Ok(ScalarValue::Decimal128(Some(found), 38, 16)) = divided(&call, false) else {
                panic!("{a:?} / {b:?}")
            };
            assert_eq!(found, expected);
        };
        check((86254, 2), (9, 0), 958_377_777_777_777_778);
        check((-1, 0), (3, 0), -3_333_333_333_333_333);
        check((2, 0), (3, 0), 6_666_666_666_666_667);
    }
}
