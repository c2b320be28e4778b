//! `bit_and`, `bit_or` and `bit_xor` of bit strings; those of whole numbers are DataFusion's.

use crate::{
    common_type::arguments::taken_by,
    functions::bits::Joins,
    types::{BITS, bit_field, is_bits},
};
use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::not_impl_err,
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The aggregates that bit strings have, and how they join two of them.
pub(crate) const AGGREGATES: [(&str, Joins); 3] =
    [("bit_and", Joins::And), ("bit_or", Joins::Or), ("bit_xor", Joins::Xor)];

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfBits {
    joins: Joins,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl OfBits {
    pub(crate) fn new(joins: Joins, inner: Arc<AggregateUDF>) -> Self {
        Self { joins, inner, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

fn of_bits(fields: &[FieldRef]) -> bool {
    matches!(fields, [field] if is_bits(field.data_type()))
}

impl AggregateUDFImpl for OfBits {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if matches!(types, [data] if is_bits(data)) { Ok(types.to_vec()) } else { taken_by(self.inner.as_ref(), types) }
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if matches!(types, [data] if is_bits(data)) { Ok(BITS) } else { self.inner.return_type(types) }
    }
    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        if of_bits(fields) { Ok(Arc::new(bit_field(self.name()))) } else { self.inner.return_field(fields) }
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !of_bits(arguments.expr_fields) {
            return self.inner.accumulator(arguments);
        }
        if arguments.is_distinct && self.joins == Joins::Xor {
            return not_impl_err!("bit_xor(DISTINCT) of bit strings");
        }
        Ok(Box::new(Joined { joins: self.joins, bits: None }))
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if of_bits(arguments.input_fields) {
            return Ok(vec![Arc::new(Field::new(format!("{}[joined]", arguments.name), BITS, true))]);
        }
        self.inner.state_fields(arguments)
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !of_bits(arguments.expr_fields) && self.inner.groups_accumulator_supported(arguments)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(arguments)
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The bit strings of a group, joined.
#[derive(Debug)]
struct Joined {
    joins: Joins,
    bits: Option<String>,
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_string::<i64>().iter().flatten() {
            self.bits = Some(match self.bits.take() {
                Some(bits) => self.joins.of(&bits, value)?,
                None => value.to_owned(),
            });
        }
        Ok(())
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::LargeUtf8(self.bits.clone()))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.bits.as_ref().map_or(0, String::capacity)
    }
}
