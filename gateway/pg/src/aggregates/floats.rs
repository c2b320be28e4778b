//! What sums of floating point numbers say, and how they slide.
//!
//! The sum of infinities of both signs is a NaN to which a processor gives a sign, by which Arrow takes it for less
//! than all numbers: what is said is the NaN of `'NaN'`. A sum that became infinite though no value was is 22003, as in
//! PostgreSQL. DataFusion's sum of a window's frame takes from a running total what left the frame, which brings
//! nothing back of an infinity, nor of small numbers beside a large one: a frame is summed of what it holds here
//! ([`Sum`]).

use crate::{
    error::{SqlError, SqlState},
    functions::scalar_function::external,
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Float32Type, Float64Type},
};
use datafusion::{error::Result, logical_expr::Accumulator, scalar::ScalarValue};
use std::sync::Arc;

/// 22003, as of all operators.
pub(crate) fn overflow() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"))
}

/// Whether a column of doubles has an infinity; the value under a NULL counts, too.
pub(crate) fn has_infinity(columns: &[ArrayRef]) -> bool {
    let of = |column: &ArrayRef| {
        // To the end, without a branch: many at a time.
        let values = column.as_primitive_opt::<Float64Type>().map(|values| values.values().iter());
        values.is_some_and(|values| values.fold(false, |found, value| found | value.is_infinite()))
    };
    columns.iter().any(of)
}

/// A result of doubles.
///
/// # Errors
/// When it is infinite, and may not be.
pub(crate) fn checked(result: f64, may_be_infinite: bool) -> Result<f64> {
    match result {
        result if result.is_nan() => Ok(f64::NAN),
        result if result.is_infinite() && !may_be_infinite => Err(overflow()),
        result => Ok(result),
    }
}

/// Results; others than floating point numbers are left alone.
///
/// # Errors
/// When one is infinite, and may not be.
pub(crate) fn all_checked(results: ArrayRef, may_be_infinite: bool) -> Result<ArrayRef> {
    macro_rules! checked {
        ($type:ty) => {{
            let values = results.as_primitive::<$type>();
            if values.values().iter().all(|value| value.is_finite()) {
                return Ok(results);
            }
            if !may_be_infinite && values.iter().flatten().any(|value| value.is_infinite()) {
                return Err(overflow());
            }
            let nan = <$type as arrow::datatypes::ArrowPrimitiveType>::Native::NAN;
            Ok(Arc::new(values.unary::<_, $type>(|value| if value.is_nan() { nan } else { value })))
        }};
    }
    match results.data_type() {
        DataType::Float64 => checked!(Float64Type),
        DataType::Float32 => checked!(Float32Type),
        _ => Ok(results),
    }
}

/// A queue whose aggregate is known at any time; each value is combined with others three times at most.
///
/// Two stacks; the older one holds for each value its aggregate with all that came after it there. Source: Tangwongsan,
/// Hirzel, Schneider and Wu, "General incremental sliding-window aggregation", VLDB 2015, section 3.
#[derive(Debug)]
pub(crate) struct Sliding<T> {
    and: fn(T, T) -> T,
    older: Vec<T>,
    newer: Vec<T>,
    /// The newer ones as one.
    joined: Option<T>,
}

impl<T: Copy> Sliding<T> {
    pub(crate) fn new(and: fn(T, T) -> T) -> Self {
        Self { and, older: Vec::new(), newer: Vec::new(), joined: None }
    }

    fn join(&self, before: Option<T>, after: T) -> T {
        before.map_or(after, |before| (self.and)(before, after))
    }

    pub(crate) fn push(&mut self, value: T) {
        self.joined = Some(self.join(self.joined, value));
        self.newer.push(value);
    }

    /// Lets the oldest go.
    pub(crate) fn pop(&mut self) {
        if self.older.is_empty() {
            self.joined = None;
            let mut after = None;
            while let Some(value) = self.newer.pop() {
                let joined = after.map_or(value, |after| (self.and)(value, after));
                self.older.push(joined);
                after = Some(joined);
            }
        }
        self.older.pop();
    }

    /// All as one; `None` of nothing.
    pub(crate) fn all(&self) -> Option<T> {
        match (self.older.last().copied(), self.joined) {
            (older, Some(newer)) => Some(self.join(older, newer)),
            (older, None) => older,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.older.len() + self.newer.len()
    }

    /// Bytes of the values.
    pub(crate) fn size(&self) -> usize {
        (self.older.capacity() + self.newer.capacity()) * size_of::<T>()
    }
}

/// The sum or the average of the doubles in a window's frame.
#[derive(Debug)]
pub(crate) struct Sum {
    averages: bool,
    values: Sliding<f64>,
    infinities: usize,
}

impl Sum {
    pub(crate) fn new(averages: bool) -> Self {
        Self { averages, values: Sliding::new(|a, b| a + b), infinities: 0 }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.values.push(value);
            self.infinities += usize::from(value.is_infinite());
        }
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.values.pop();
            self.infinities -= usize::from(value.is_infinite());
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(sum) = self.values.all() else { return Ok(ScalarValue::Float64(None)) };
        let sum = checked(sum, self.infinities > 0)?;
        Ok(ScalarValue::Float64(Some(if self.averages { sum / self.values.len() as f64 } else { sum })))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
    // Of a frame there are no states: windows are computed whole.
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        datafusion::common::internal_err!("a frame's sum has no state")
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("a frame's sum has no state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_slides_is_all_that_was_pushed_and_not_popped(steps in proptest::collection::vec(proptest::option::weighted(0.6, 0..100u64), 0..60)) {
            // Not commutative: in order.
            let mut sliding = Sliding::<(u64, u64)>::new(|(a, a_power), (b, b_power)| {
                (a.wrapping_mul(b_power).wrapping_add(b), a_power.wrapping_mul(b_power))
            });
            let mut model = std::collections::VecDeque::new();
            for step in steps {
                match step {
                    Some(value) => {
                        sliding.push((value, 101));
                        model.push_back(value);
                    }
                    None if model.is_empty() => {}
                    None => {
                        sliding.pop();
                        model.pop_front();
                    }
                }
                let expected = model.iter().fold(0u64, |all, value| all.wrapping_mul(101).wrapping_add(*value));
                prop_assert_eq!(sliding.all().map(|(all, _)| all), (!model.is_empty()).then_some(expected));
                prop_assert_eq!(sliding.len(), model.len());
            }
        }
    }
}
