//! Percentiles of the values that an aggregate has collected: one, or one for each item of an array.
//!
//! `percentile_disc` gives one of the values, `percentile_cont` a number or an interval between two of them, by
//! PostgreSQL's arithmetic: DataFusion's own rounds the place between the two to six digits.

use super::{
    lists::sorted,
    scalar_function::{self, Call, external, item_of, items, nullable, strict},
    times::Span,
};
use crate::{
    error::{SqlError, SqlState},
    numeric::{
        self,
        cast::{float, floats},
    },
    types,
};
use arrow::{
    array::AsArray,
    datatypes::{DataType, FieldRef, Float64Type},
};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::sync::Arc;

/// The functions: of a list, of a part or an array of parts, and of whether the order descends.
pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions([
        strict("list_percentile", 3..=3, |fields| one_or_many(fields, item_data(fields)), discrete),
        strict("list_percentile_cont", 3..=3, |fields| one_or_many(fields, between(fields)?), continuous),
    ])
}

fn item_data(fields: &[FieldRef]) -> DataType {
    item_of(&fields[0]).map_or(DataType::Null, |item| item.data_type().clone())
}

/// The type of what lies between two items.
fn between(fields: &[FieldRef]) -> Result<DataType> {
    match item_data(fields) {
        DataType::Interval(_) => Ok(types::INTERVAL),
        data if numeric::is_number(&data) || data.is_numeric() || data.is_null() => Ok(DataType::Float64),
        other => Err(external(super::values::undefined("percentile_cont", &[other]))),
    }
}

/// A type, or the array of it if the parts are an array. One value of the list has the name of the item's type.
fn one_or_many(fields: &[FieldRef], data: DataType) -> Result<FieldRef> {
    if item_of(&fields[1]).is_some() {
        return nullable(types::list_of(data));
    }
    match item_of(&fields[0]) {
        Some(item) if *item.data_type() == data => {
            Ok(Arc::new(item.as_ref().clone().with_name("").with_nullable(true)))
        }
        _ => nullable(data),
    }
}

/// Computes the value at each part, which are one or many.
fn at_parts(call: &Call, value: impl Fn(f64) -> Result<ScalarValue>) -> Result<ScalarValue> {
    let one = |part: &ScalarValue, none: &DataType| match float(part)? {
        None => ScalarValue::try_from(none),
        Some(part) if (0.0..=1.0).contains(&part) => value(part),
        Some(other) => {
            let message = format!("percentile value {other} is not between 0 and 1");
            Err(external(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)))
        }
    };
    let returns = call.returns.data_type();
    let (Some(parts), DataType::List(item)) = (items(&call.values[1]), returns) else {
        return one(&call.values[1], returns);
    };
    let all = parts.iter().map(|part| one(part, item.data_type())).collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&all, item.data_type())))
}

fn descends(call: &Call) -> bool {
    super::values::bool_of(&call.values[2]) == Some(true)
}

/// The values in the order that is asked for.
fn ordered(call: &Call) -> Vec<ScalarValue> {
    let mut values = sorted(call);
    if descends(call) {
        values.reverse();
    }
    values
}

fn discrete(call: &Call) -> Result<ScalarValue> {
    let sorted = ordered(call);
    if sorted.is_empty() {
        return ScalarValue::try_from(call.returns.data_type());
    }
    at_parts(call, |part| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the list's length")]
        let position = (part * sorted.len() as f64).ceil() as usize;
        Ok(sorted[position.clamp(1, sorted.len()) - 1].clone())
    })
}

/// The places around a part of so many values, and how far it lies from the first to the second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the list")]
fn places(part: f64, length: usize) -> (usize, usize, f64) {
    let place = part * (length - 1) as f64;
    (place.floor() as usize, place.ceil() as usize, place - place.floor())
}

fn continuous(call: &Call) -> Result<ScalarValue> {
    if matches!(item_data(call.fields), DataType::Interval(_)) {
        return continuous_spans(call);
    }
    let ScalarValue::List(list) = &call.values[0] else { return ScalarValue::try_from(call.returns.data_type()) };
    let numbers = floats(&list.value(0))?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let mut numbers: Vec<f64> = numbers.iter().flatten().collect();
    // NaN is the greatest; its sign does not count.
    numbers.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
    if descends(call) {
        numbers.reverse();
    }
    if numbers.is_empty() {
        return ScalarValue::try_from(call.returns.data_type());
    }
    at_parts(call, |part| {
        let (first, second, share) = places(part, numbers.len());
        let (low, high) = (numbers[first], numbers[second]);
        Ok(ScalarValue::Float64(Some(if first == second { low } else { low + share * (high - low) })))
    })
}

fn continuous_spans(call: &Call) -> Result<ScalarValue> {
    let sorted = ordered(call);
    if sorted.is_empty() {
        return ScalarValue::try_from(call.returns.data_type());
    }
    at_parts(call, |part| {
        let (first, second, share) = places(part, sorted.len());
        if first == second {
            return Ok(sorted[first].clone());
        }
        Span::between(&sorted[first], &sorted[second], share)
    })
}
