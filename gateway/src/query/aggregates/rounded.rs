//! Accumulators whose result is rounded to one digit less.

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

/// The type that is shown for a result: one digit after the point less.
pub(super) fn shown(inner: &DataType) -> DataType {
    match inner {
        DataType::Decimal128(precision, scale) if *scale > 0 && *precision > 1 => {
            DataType::Decimal128(precision - 1, scale - 1)
        }
        other => other.clone(),
    }
}

/// One group.
#[derive(Debug)]
pub(super) struct One {
    pub(super) inner: Box<dyn Accumulator>,
    pub(super) shown: DataType,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()?.cast_to(&self.shown)
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
        self.inner.retract_batch(values)
    }
    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Many groups.
pub(super) struct Many {
    pub(super) inner: Box<dyn GroupsAccumulator>,
    pub(super) shown: DataType,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, count)
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit_to)?, &self.shown)?)
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, count)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}
