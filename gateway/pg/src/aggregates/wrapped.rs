//! DataFusion's accumulators with arguments or results cast to another type: [`Types`] says to which.
//!
//! Integers are widened where they are summed, which is what a bigint's sum is made of. Of floating point numbers it is
//! seen whether one was infinite: if none was, no result may be ([`floats`]).

use super::floats;
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

/// As what a value is summed: an integer as a bigint, a real as a double.
pub(crate) fn summed(data: &DataType) -> DataType {
    match data {
        DataType::Int32 => DataType::Int64,
        DataType::Float32 => DataType::Float64,
        other => other.clone(),
    }
}

/// What goes in and comes out as another type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    /// Of arguments; `None` as they are.
    pub(crate) given: Option<DataType>,
    /// Of the result; `None` as it is.
    pub(crate) output: Option<DataType>,
    /// Whether results are floating point numbers.
    pub(crate) floats: bool,
}

impl Types {
    /// Whether both stay as they are.
    pub(crate) fn is_none(&self) -> bool {
        self.given.is_none() && self.output.is_none() && !self.floats
    }

    fn given(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let Some(given) = &self.given else { return Ok(values.to_vec()) };
        values.iter().map(|values| Ok(cast(values, given)?)).collect()
    }

    fn results(&self, results: ArrayRef, has_infinity: bool) -> Result<ArrayRef> {
        let results = if self.floats { floats::all_checked(results, has_infinity)? } else { results };
        match &self.output {
            Some(output) if output != results.data_type() => {
                let results = cast(&results, output)?;
                if self.floats { floats::all_checked(results, has_infinity) } else { Ok(results) }
            }
            _ => Ok(results),
        }
    }

    /// States, in which an infinity counts as an infinite argument.
    fn states<T>(&self, states: Vec<T>, has_infinity: bool, is_infinite: impl Fn(&[T]) -> bool) -> Result<Vec<T>> {
        if self.floats && !has_infinity && is_infinite(&states) { Err(floats::overflow()) } else { Ok(states) }
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct One {
    inner: Box<dyn Accumulator>,
    types: Types,
    has_infinity: bool,
}

impl One {
    pub(crate) fn new(inner: Box<dyn Accumulator>, types: Types) -> Self {
        Self { inner, types, has_infinity: false }
    }

    fn see(&mut self, values: &[ArrayRef]) {
        self.has_infinity |= self.types.floats && floats::has_infinity(values);
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = self.types.given(values)?;
        self.see(&values);
        self.inner.update_batch(&values)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = match self.inner.evaluate()? {
            ScalarValue::Float64(Some(sum)) => ScalarValue::Float64(Some(floats::checked(sum, self.has_infinity)?)),
            other => other,
        };
        let result = match &self.types.output {
            Some(output) => result.cast_to(output)?,
            None => result,
        };
        match result {
            ScalarValue::Float32(Some(sum)) if sum.is_infinite() && !self.has_infinity => Err(floats::overflow()),
            other => Ok(other),
        }
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let is_infinite = |states: &[ScalarValue]| {
            states.iter().any(|state| matches!(state, ScalarValue::Float64(Some(state)) if state.is_infinite()))
        };
        self.types.states(self.inner.state()?, self.has_infinity, is_infinite)
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.see(states);
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
pub(crate) struct Many {
    inner: Box<dyn GroupsAccumulator>,
    types: Types,
    has_infinity: bool,
}

impl Many {
    pub(crate) fn new(inner: Box<dyn GroupsAccumulator>, types: Types) -> Self {
        Self { inner, types, has_infinity: false }
    }

    fn see(&mut self, values: &[ArrayRef]) {
        self.has_infinity |= self.types.floats && floats::has_infinity(values);
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        let values = self.types.given(values)?;
        self.see(&values);
        self.inner.update_batch(&values, groups, filter, count)
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.types.results(self.inner.evaluate(emit_to)?, self.has_infinity)
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.types.states(self.inner.state(emit_to)?, self.has_infinity, floats::has_infinity)
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.see(values);
        self.inner.merge_batch(values, groups, count)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.types.given(values)?, filter)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}
