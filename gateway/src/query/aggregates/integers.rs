//! Accumulators of bigints that are given integers.

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

fn widened(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    values.iter().map(|values| Ok(cast(values, &DataType::Int64)?)).collect()
}

/// One group.
#[derive(Debug)]
pub(super) struct One(pub(super) Box<dyn Accumulator>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&widened(values)?)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(&widened(values)?)
    }
    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

/// Many groups.
pub(super) struct Many(pub(super) Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.0.update_batch(&widened(values)?, groups, filter, count)
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.0.merge_batch(values, groups, count)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&widened(values)?, filter)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}
