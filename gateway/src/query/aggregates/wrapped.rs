//! Accumulators of DataFusion's that are given arguments of another type, or whose result becomes one: [`Types`] says which.
//!
//! Integers are widened where they are summed, which is what a bigint's sum is made of; averages are computed with a digit more than they show, and
//! rounded to it.

use arrow::{
    array::{ArrayRef, BooleanArray},
    compute::cast,
    datatypes::DataType,
};
use datafusion::{
    error::Result,
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
    scalar::ScalarValue,
};

/// As what a value is summed: an integer as a bigint.
pub(super) fn summed(data: &DataType) -> DataType {
    match data {
        DataType::Int32 => DataType::Int64,
        other => other.clone(),
    }
}

/// The type that is shown for a result: one digit after the point less.
pub(super) fn shown(inner: &DataType) -> DataType {
    match inner {
        DataType::Decimal128(precision, scale) if *scale > 0 && *precision > 1 => {
            DataType::Decimal128(precision - 1, scale - 1)
        }
        other => other.clone(),
    }
}

/// What goes in and comes out as another type.
#[derive(Clone, Debug, Default)]
pub(super) struct Types {
    /// Of arguments; `None` as they are.
    pub(super) given: Option<DataType>,
    /// Of the result; `None` as it is.
    pub(super) shown: Option<DataType>,
}

impl Types {
    /// Whether both stay as they are.
    pub(super) fn is_none(&self) -> bool {
        self.given.is_none() && self.shown.is_none()
    }

    fn given(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let Some(given) = &self.given else { return Ok(values.to_vec()) };
        values.iter().map(|values| Ok(cast(values, given)?)).collect()
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct One {
    pub(super) inner: Box<dyn Accumulator>,
    pub(super) types: Types,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&self.types.given(values)?)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.inner.evaluate()?;
        match &self.types.shown {
            Some(shown) => result.cast_to(shown),
            None => Ok(result),
        }
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&self.types.given(values)?)
    }
    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Many groups.
pub(super) struct Many {
    pub(super) inner: Box<dyn GroupsAccumulator>,
    pub(super) types: Types,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.update_batch(&self.types.given(values)?, groups, filter, count)
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let results = self.inner.evaluate(emit_to)?;
        Ok(match &self.types.shown {
            Some(shown) => cast(&results, shown)?,
            None => results,
        })
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, count)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.types.given(values)?, filter)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}
