//! Casts from and to numerics, as PostgreSQL rounds and refuses them.

use super::{
    column,
    number::{Decimal, Number, count_digits},
};
use crate::error::{Result, SqlError, SqlState};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, Float32Array, Float64Array, Int16Array, Int32Array,
        Int64Array, UInt32Array,
    },
    datatypes::{DataType, Decimal128Type},
};
use keyspan_catalog::value::exact::Digits;
use num_bigint::BigInt;
use std::sync::Arc;

/// Whether [`convert`] does a cast: from one of its types to another.
pub fn converts(from: &DataType, to: &DataType) -> bool {
    let wide = |data: &DataType| super::is_exact(data) || matches!(data, DataType::Decimal256(..));
    let is_target = |data: &DataType| {
        use DataType::{Float32, Float64, Int16, Int32, Int64, UInt32};
        matches!(data, Int16 | Int32 | Int64 | UInt32 | Float32 | Float64)
            || matches!(data, DataType::Decimal128(..))
            || wide(data)
    };
    if !super::is_number(from) || !is_target(to) {
        return false;
    }
    // Arrow rescales its own forms as PostgreSQL does.
    match from {
        from if from.is_floating() => super::is_numeric(to),
        DataType::Decimal128(..) => super::is_exact(to) || to.is_floating(),
        from if from.is_integer() => super::is_exact(to),
        DataType::Decimal256(..) => !matches!(to, DataType::Decimal256(..)),
        _ => true,
    }
}

/// Numbers of any type as those of another; `digits` are those of a type in the exact form, if it has any.
///
/// # Errors
/// 22003 for what does not fit, 0A000 for NaN and infinities as integers.
pub fn convert(array: &ArrayRef, target: &DataType, digits: Option<Digits>) -> Result<ArrayRef> {
    if let (DataType::Decimal128(..), DataType::Decimal128(..)) = (array.data_type(), target) {
        let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
        // What does not fit is told below.
        if let Ok(rescaled) = arrow::compute::cast_with_options(array, target, &options) {
            return Ok(rescaled);
        }
    }
    let numbers = || (0..array.len()).map(|row| column::number(array, row));
    Ok(match target {
        DataType::LargeBinary => match digits {
            Some(digits) => {
                let fitted = |row| Ok(column::exact(array, row)?.map(|exact| exact.fit(digits)).transpose()?);
                column::collect((0..array.len()).map(fitted))?
            }
            None => column::to_exact(array)?,
        },
        DataType::Decimal128(precision, scale) => {
            let fitted = |number: Number| {
                let unscaled = fit(&number, *precision, *scale)?;
                i128::try_from(unscaled).map_err(|_| overflow(*precision, *scale))
            };
            let values = numbers().map(|number| number.map(fitted).transpose());
            Arc::new(values.collect::<Result<Decimal128Array>>()?.with_data_type(target.clone()))
        }
        DataType::Decimal256(precision, scale) => {
            let fitted = |number: Number| {
                let unscaled = fit(&number, *precision, *scale)?;
                column::to_i256(&unscaled).ok_or_else(|| overflow(*precision, *scale))
            };
            let values = numbers().map(|number| number.map(fitted).transpose()).collect::<Result<Vec<_>>>()?;
            Arc::new(Decimal256Array::from_iter(values).with_data_type(target.clone()))
        }
        DataType::Int16 => Arc::new(integers::<i16>(numbers(), "smallint").collect::<Result<Int16Array>>()?),
        DataType::Int32 => Arc::new(integers::<i32>(numbers(), "integer").collect::<Result<Int32Array>>()?),
        DataType::Int64 => Arc::new(integers::<i64>(numbers(), "bigint").collect::<Result<Int64Array>>()?),
        DataType::UInt32 => Arc::new(integers::<u32>(numbers(), "oid").collect::<Result<UInt32Array>>()?),
        DataType::Float64 => Arc::new(doubles(array).collect::<Result<Float64Array>>()?),
        DataType::Float32 => {
            #[expect(clippy::cast_possible_truncation, reason = "checked below")]
            let real = |double: f64| {
                let real = double as f32;
                let lost = (real.is_infinite() && double.is_finite()) || (real == 0.0 && double != 0.0);
                if lost { Err(beyond(double, "real")) } else { Ok(real) }
            };
            Arc::new(doubles(array).map(|double| double?.map(real).transpose()).collect::<Result<Float32Array>>()?)
        }
        other => return Err(SqlError::unsupported(format!("a cast of numeric to {other}"))),
    })
}

fn beyond(shown: impl std::fmt::Display, name: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("\"{shown}\" is out of range for type {name}"))
}

fn doubles(array: &ArrayRef) -> impl Iterator<Item = Result<Option<f64>>> {
    /// Integers up to it, and powers of ten up to the 22nd, are doubles, so that their quotient is rounded once.
    const WHOLE_MAX: u128 = 1 << 53;
    (0..array.len()).map(|row| {
        if let (DataType::Decimal128(_, scale @ 0..=22), true) = (array.data_type(), array.is_valid(row)) {
            let unscaled = array.as_primitive::<Decimal128Type>().value(row);
            if unscaled.unsigned_abs() <= WHOLE_MAX {
                return Ok(Some(unscaled as f64 / 10_f64.powi((*scale).into())));
            }
        }
        let Some(number) = column::number(array, row) else { return Ok(None) };
        let double = number.to_f64();
        if let (true, Number::Finite(decimal)) = (double.is_infinite(), &number) {
            let shown = Number::Finite(decimal.clone()).to_exact()?.to_text();
            return Err(beyond(shown, "double precision"));
        }
        Ok(Some(double))
    })
}

fn integers<T: TryFrom<BigInt>>(
    numbers: impl Iterator<Item = Option<Number>>,
    name: &'static str,
) -> impl Iterator<Item = Result<Option<T>>> {
    numbers.map(move |number| {
        let Some(number) = number else { return Ok(None) };
        let decimal = match number {
            Number::Finite(decimal) => decimal,
            Number::NaN => return Err(no_integer("NaN", name)),
            Number::Infinity { .. } => return Err(no_integer("infinity", name)),
        };
        let whole = T::try_from(decimal.rounded(0).unscaled);
        let out_of_range = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"));
        whole.map(Some).map_err(|_| out_of_range())
    })
}

fn no_integer(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {name}"))
}

/// The unscaled integer of a number in a type of so many digits.
fn fit(number: &Number, precision: u8, scale: i8) -> Result<BigInt> {
    match number {
        Number::Finite(decimal) => {
            let Decimal { unscaled, .. } = decimal.rescaled(u32::try_from(scale).unwrap_or(0));
            if count_digits(&unscaled) > u32::from(precision) {
                return Err(overflow(precision, scale));
            }
            Ok(unscaled)
        }
        Number::NaN => Err(SqlError::unsupported(format!("NaN as numeric({precision},{scale})"))
            .with_hint("A numeric without digits holds it.")),
        // The type's error.
        Number::Infinity { .. } => {
            let digits = Digits { precision: precision.into(), scale: scale.into() };
            number.to_exact()?.fit(digits)?;
            Err(overflow(precision, scale))
        }
    }
}

fn overflow(precision: u8, scale: i8) -> SqlError {
    let whole = i16::from(precision) - i16::from(scale);
    let bound = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// Numbers of any form as floats; what is no number as Arrow casts it.
///
/// # Errors
/// Those of [`convert`] and of Arrow.
pub fn floats(array: &ArrayRef) -> datafusion::error::Result<ArrayRef> {
    if converts(array.data_type(), &DataType::Float64) {
        return convert(array, &DataType::Float64, None)
            .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)));
    }
    Ok(arrow::compute::cast(array, &DataType::Float64)?)
}

/// A value as a float; `None` for NULL.
///
/// # Errors
/// Those of [`floats`].
pub fn float(value: &datafusion::scalar::ScalarValue) -> datafusion::error::Result<Option<f64>> {
    let floats = floats(&value.to_array()?)?;
    let floats = floats.as_primitive::<arrow::datatypes::Float64Type>();
    Ok(floats.is_valid(0).then(|| floats.value(0)))
}

/// A single number as one of another type.
///
/// # Errors
/// Those of [`convert`].
pub fn convert_scalar(
    value: &datafusion::scalar::ScalarValue,
    target: &DataType,
) -> datafusion::error::Result<datafusion::scalar::ScalarValue> {
    let array = convert(&value.to_array()?, target, None)
        .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?;
    datafusion::scalar::ScalarValue::try_from_array(&array, 0)
}
