//! The bytes by which numerics of any form are compared: equal numbers have one key, whatever their scales.
//!
//! [`key`] is a function of plans. What compares it with a constant becomes bounds of the decimal or the integer below
//! it, by its preimage, so that key ranges and statistics are asked as ever.

use super::{
    column::{self, returned},
    number::{Decimal, Number},
};
use arrow::{
    array::{Array, ArrayBuilder, ArrayRef, AsArray, BinaryBuilder, StringViewArray},
    datatypes::DataType,
};
use datafusion::{
    common::internal_err,
    error::{DataFusionError, Result as PlanResult},
    logical_expr::{
        ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        interval_arithmetic::Interval, preimage::PreimageResult, simplify::SimplifyContext,
    },
    scalar::ScalarValue,
};
use keyspan_catalog::value::exact::Exact;
use std::sync::{Arc, LazyLock};

/// Bytes by which numbers are compared: those of the exact form without the scale.
pub fn key() -> Arc<ScalarUDF> {
    static KEY: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Key { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&KEY)
}

/// The same as text, for the frames of windows, which have no order of bytes.
pub fn key_text() -> Arc<ScalarUDF> {
    static KEY: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(KeyText { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&KEY)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct KeyText {
    signature: Signature,
}

impl ScalarUDFImpl for KeyText {
    fn name(&self) -> &str {
        "numeric_key_text"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Utf8View)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let Some(argument) = arguments.args.into_iter().next() else { return internal_err!("one argument") };
        let keys = keys(&argument.into_array(if constant { 1 } else { arguments.number_rows })?)?;
        // Digits of sixteen keep the order of bytes.
        let text = |key: &[u8]| {
            key.iter().fold(String::with_capacity(2 * key.len()), |text, byte| text + &format!("{byte:02x}"))
        };
        let texts: StringViewArray = keys.as_binary::<i32>().iter().map(|key| key.map(text)).collect();
        returned(Arc::new(texts), constant)
    }
}

/// The name of [`key`].
pub const KEY: &str = "numeric_key";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    signature: Signature,
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        KEY
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Binary)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let (array, constant) = match &arguments.args[0] {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
        };
        returned(keys(&array)?, constant)
    }
    /// A comparison of a decimal or an integer with a constant, which is one of its own values or lies between two.
    fn preimage(&self, arguments: &[Expr], literal: &Expr, info: &SimplifyContext) -> PlanResult<PreimageResult> {
        let ([of], Expr::Literal(ScalarValue::Binary(Some(key)), _)) = (arguments, literal) else {
            return Ok(PreimageResult::None);
        };
        let bounds = bounds_of(&info.get_data_type(of)?, key);
        Ok(match bounds {
            Some((low, high)) => {
                let interval = Box::new(Interval::try_new(low, high)?);
                PreimageResult::Range { expr: of.clone(), interval }
            }
            None => PreimageResult::None,
        })
    }
}

/// The least value of a type that is not below the number of a key, and the least above it; `None` where the type has
/// no such value.
fn bounds_of(data: &DataType, key: &[u8]) -> Option<(ScalarValue, ScalarValue)> {
    let number = number_of_key(key)?;
    let Number::Finite(decimal) = number else { return None };
    let scale = match data {
        DataType::Decimal128(_, scale) => u32::try_from(*scale).ok()?,
        DataType::Int16 | DataType::Int32 | DataType::Int64 => 0,
        _ => return None,
    };
    // Rounded down, and up where it is no value of the type.
    let unit = Decimal { unscaled: decimal.unscaled.clone(), scale: decimal.scale };
    let shifted = if unit.scale > scale {
        Decimal { unscaled: unit.unscaled, scale: unit.scale - scale }
    } else {
        Decimal { unscaled: unit.rescaled(scale).unscaled, scale: 0 }
    };
    let low = i128::try_from(&shifted.whole(true).unscaled).ok()?;
    let is_value = shifted.whole(true).compare(&shifted).is_eq();
    let high = if is_value { low.checked_add(1)? } else { low };
    let value = |bound: i128| {
        Some(match data {
            DataType::Decimal128(precision, scale) => {
                let fits = bound.unsigned_abs() <= 10_u128.pow((*precision).into());
                ScalarValue::Decimal128(fits.then_some(Some(bound))?, *precision, *scale)
            }
            DataType::Int16 => ScalarValue::Int16(Some(bound.try_into().ok()?)),
            DataType::Int32 => ScalarValue::Int32(Some(bound.try_into().ok()?)),
            _ => ScalarValue::Int64(Some(bound.try_into().ok()?)),
        })
    };
    Some((value(low)?, value(high)?))
}

/// The number of a key that [`key`] gave.
fn number_of_key(key: &[u8]) -> Option<Number> {
    Exact::of_key(key).map(|exact| Number::of(&exact))
}

/// The keys of an array's numbers.
///
/// # Errors
/// 22003
pub fn keys(array: &ArrayRef) -> PlanResult<ArrayRef> {
    let mut keys = BinaryBuilder::with_capacity(array.len(), (array.len() - array.null_count()) * 8);
    let mut push = |row: usize| {
        let exact = column::exact(array, row).map_err(|error| DataFusionError::External(Box::new(error)))?;
        if let Some(exact) = exact {
            keys.append_nulls(row - keys.len());
            keys.append_value(exact.key());
        }
        Ok::<(), DataFusionError>(())
    };
    match array.logical_nulls() {
        Some(nulls) => nulls.valid_indices().try_for_each(&mut push)?,
        None => (0..array.len()).try_for_each(&mut push)?,
    }
    keys.append_nulls(array.len() - keys.len());
    Ok(Arc::new(keys.finish()))
}
