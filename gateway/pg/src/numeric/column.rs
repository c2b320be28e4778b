//! Numbers of any type out of Arrow's arrays, and arrays of the exact form.

use super::number::{Decimal, Number};
use crate::error::{Result, SqlError};
use arrow::{
    array::{Array, ArrayRef, AsArray, LargeBinaryArray, LargeBinaryBuilder},
    datatypes::{
        DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
    },
};
use datafusion::scalar::ScalarValue;
use keyspan_catalog::value::exact::Exact;
use num_bigint::BigInt;
use std::sync::Arc;

/// Digits of a double that are a numeric's.
pub(super) const DOUBLE_DIGITS: usize = 15;
/// Digits of a real.
pub(super) const REAL_DIGITS: usize = 6;

/// The integer of 256 bits.
pub(crate) fn integer_of(value: i256) -> BigInt {
    BigInt::from_signed_bytes_be(&value.to_be_bytes())
}

/// An integer as one of 256 bits, if it fits.
pub(crate) fn to_i256(value: &BigInt) -> Option<i256> {
    let bytes = value.to_signed_bytes_be();
    let fill = if value.sign() == num_bigint::Sign::Minus { 0xff } else { 0 };
    let mut all = [fill; 32];
    let from = all.len().checked_sub(bytes.len())?;
    all[from..].copy_from_slice(&bytes);
    Some(i256::from_be_bytes(all))
}

fn decimal(unscaled: impl Into<BigInt>, scale: i8) -> Number {
    match u32::try_from(scale) {
        Ok(scale) => Number::Finite(Decimal::new(unscaled, scale)),
        Err(_) => Number::integer(unscaled.into() * super::number::ten(u32::from(scale.unsigned_abs()))),
    }
}

/// The number of a row; `None` for NULL and for an array of another type.
pub(crate) fn number(array: &dyn Array, row: usize) -> Option<Number> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::LargeBinary => Number::of(&Exact::trusted(array.as_binary::<i64>().value(row))),
        DataType::Decimal128(_, scale) => decimal(array.as_primitive::<Decimal128Type>().value(row), *scale),
        DataType::Decimal256(_, scale) => {
            decimal(integer_of(array.as_primitive::<Decimal256Type>().value(row)), *scale)
        }
        DataType::Decimal64(_, scale) => decimal(array.as_primitive::<Decimal64Type>().value(row), *scale),
        DataType::Decimal32(_, scale) => decimal(array.as_primitive::<Decimal32Type>().value(row), *scale),
        DataType::Int8 => Number::integer(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => Number::integer(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => Number::integer(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Number::integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Number::integer(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => Number::integer(array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => Number::integer(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => Number::integer(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float16 => Number::of_f64(array.as_primitive::<Float16Type>().value(row).to_f64(), REAL_DIGITS),
        DataType::Float32 => Number::of_f64(array.as_primitive::<Float32Type>().value(row).into(), REAL_DIGITS),
        DataType::Float64 => Number::of_f64(array.as_primitive::<Float64Type>().value(row), DOUBLE_DIGITS),
        _ => return None,
    })
}

/// The number of a single value; `None` for NULL and for a value of another type.
///
/// # Errors
/// An array that cannot be made.
pub(crate) fn number_of_scalar(value: &ScalarValue) -> datafusion::error::Result<Option<Number>> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(number(&value.to_array()?, 0))
}

/// A number as a value of the exact form.
///
/// # Errors
/// 22003
pub(crate) fn scalar(number: &Number) -> Result<ScalarValue> {
    Ok(ScalarValue::LargeBinary(Some(number.to_exact()?.as_bytes().to_vec())))
}

/// The bytes of the exact form of a row, for values without another form that is faster; `None` for NULL.
///
/// # Errors
/// 22003
pub(crate) fn exact(array: &dyn Array, row: usize) -> Result<Option<Exact>> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(match array.data_type() {
        DataType::LargeBinary => Some(Exact::trusted(array.as_binary::<i64>().value(row))),
        DataType::Decimal128(_, scale) if *scale >= 0 => {
            Some(Exact::of_i128(array.as_primitive::<Decimal128Type>().value(row), scale.unsigned_abs()))
        }
        DataType::Int32 => Some(Exact::of_i128(array.as_primitive::<Int32Type>().value(row).into(), 0)),
        DataType::Int64 => Some(Exact::of_i128(array.as_primitive::<Int64Type>().value(row).into(), 0)),
        _ => number(array, row).map(|number| number.to_exact()).transpose()?,
    })
}

/// Numbers of any type in the exact form.
///
/// # Errors
/// 22003; 0A000 for values that are no numbers.
pub fn to_exact(array: &ArrayRef) -> Result<ArrayRef> {
    if super::is_exact(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    if !super::is_number(array.data_type()) && !array.data_type().is_null() {
        return Err(SqlError::unsupported(format!("a cast of {} to numeric", array.data_type())));
    }
    collect((0..array.len()).map(|row| exact(array, row)))
}

/// An array of the exact form.
///
/// # Errors
/// The first of the values.
pub(crate) fn collect(values: impl Iterator<Item = Result<Option<Exact>>>) -> Result<ArrayRef> {
    let mut out = LargeBinaryBuilder::with_capacity(values.size_hint().0, 0);
    // Of a column of a map most may be NULL.
    let mut nulls = 0;
    for value in values {
        let Some(exact) = value? else {
            nulls += 1;
            continue;
        };
        out.append_nulls(std::mem::take(&mut nulls));
        out.append_value(exact.as_bytes());
    }
    out.append_nulls(nulls);
    let array: LargeBinaryArray = out.finish();
    Ok(Arc::new(array))
}

pub(crate) fn returned(
    array: ArrayRef,
    constant: bool,
) -> datafusion::error::Result<datafusion::logical_expr::ColumnarValue> {
    Ok(match constant {
        true => datafusion::logical_expr::ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => datafusion::logical_expr::ColumnarValue::Array(array),
    })
}
