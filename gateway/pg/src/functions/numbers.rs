//! Functions of numbers that DataFusion lacks, or that answer NaN where PostgreSQL fails.

use super::scalar_function::{
    self, Call, RowFunction, external, items, nullable, returns_float, returns_integer, strict,
};
use crate::{
    error::{SqlError, SqlState},
    numeric::{self, column::number_of_scalar, number::Number},
};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

fn float(call: &Call, at: usize) -> Result<f64> {
    Ok(numeric::cast::float(&call.values[at])?.unwrap_or(f64::NAN))
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

fn floats() -> [RowFunction; 9] {
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
    ]
}

/// `integer`, or `bigint` where an argument is one.
fn widest(name: &str, fields: &[FieldRef]) -> Result<FieldRef> {
    let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
    if types.iter().any(|data| !data.is_integer() && !data.is_null()) {
        return Err(external(super::values::undefined(name, &types)));
    }
    let is_wide = fields.iter().any(|field| matches!(field.data_type(), DataType::Int64));
    nullable(if is_wide { DataType::Int64 } else { DataType::Int32 })
}

/// A whole number as the function returns it.
///
/// # Errors
/// 22003
fn whole(call: &Call, number: i128) -> Result<ScalarValue> {
    if *call.returns.data_type() == DataType::Int64 {
        let number = i64::try_from(number);
        return number
            .map(|number| ScalarValue::Int64(Some(number)))
            .map_err(|_| fails(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range"));
    }
    i32::try_from(number)
        .map(|number| ScalarValue::Int32(Some(number)))
        .map_err(|_| fails(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))
}

/// The greatest common divisor and the least common multiple of the arguments, by Euclid.
fn divisor_and_multiple(call: &Call) -> (i128, i128) {
    let int = |at: usize| i128::from(super::values::int_of(&call.values[at]).unwrap_or(0)).abs();
    let (mut a, mut b) = (int(0), int(1));
    let product = a * b;
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (a, if a == 0 { 0 } else { product / a })
}

fn integers() -> [RowFunction; 2] {
    [
        strict("gcd", 2..=2, |fields| widest("gcd", fields), |call| whole(call, divisor_and_multiple(call).0)),
        strict("lcm", 2..=2, |fields| widest("lcm", fields), |call| whole(call, divisor_and_multiple(call).1)),
    ]
}

fn others() -> [RowFunction; 2] {
    [
        strict("width_bucket", 2..=4, returns_integer, |call| {
            let is_exact = |field: &FieldRef| numeric::is_numeric(field.data_type());
            let is_double = |field: &FieldRef| field.data_type().is_floating();
            if call.values.len() == 4 && call.fields.iter().any(is_exact) && !call.fields.iter().any(is_double) {
                let number =
                    |at: usize| -> Result<Number> { Ok(number_of_scalar(&call.values[at])?.unwrap_or(Number::NaN)) };
                let count =
                    super::values::int_of(&call.values[3]).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
                let bucket = super::numeric::bucket(&number(0)?, &number(1)?, &number(2)?, count);
                return Ok(ScalarValue::Int32(Some(bucket.map_err(external)?)));
            }
            let operand = float(call, 0)?;
            if let Some(bounds) = items(&call.values[1]) {
                let bounds = bounds.iter().map(numeric::cast::float).collect::<Result<Vec<_>>>()?;
                let below = bounds.into_iter().flatten().filter(|bound| *bound <= operand);
                return Ok(ScalarValue::Int32(i32::try_from(below.count()).ok()));
            }
            if call.values.len() != 4 {
                return Err(external(super::values::undefined("width_bucket", &[DataType::Float64])));
            }
            let (low, high) = (float(call, 1)?, float(call, 2)?);
            let count = super::values::int_of(&call.values[3]).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
            let wrong = |message: &str| fails(SqlState::INVALID_WIDTH_BUCKET, message);
            if count <= 0 {
                return Err(wrong("count must be greater than zero"));
            }
            if operand.is_nan() || low.is_nan() || high.is_nan() {
                return Err(wrong("operand, lower bound, and upper bound cannot be NaN"));
            }
            if !low.is_finite() || !high.is_finite() {
                return Err(wrong("lower and upper bounds must be finite"));
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
    scalar_function::functions(floats().into_iter().chain(integers()).chain(others()))
}
