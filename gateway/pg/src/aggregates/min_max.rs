//! `min` and `max` of floating point numbers by groups, as PostgreSQL has them: NaN is greater than all others,
//! infinities are what they are.
//!
//! DataFusion's accumulators of groups, in 55.2 (apache/datafusion#24432), begin with the greatest finite number and
//! take whatever comes after a NaN: the greatest of `-Infinity` alone is -1.8e308 there, and that of NaN and 1 is 1.
//! Those of one group are right. Intervals are compared by their lengths, which DataFusion's do not. All else is its
//! own.

use super::intervals::Extreme;
use crate::types::INTERVAL;
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type};
use datafusion::{
    common::ScalarValue,
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
        Signature, StatisticsArgs,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use std::sync::Arc;

/// DataFusion's `min` or `max`, but for intervals, and floating point numbers by groups.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MinMax {
    pub(crate) inner: Arc<AggregateUDF>,
    pub(crate) is_max: bool,
}

impl MinMax {
    fn of_groups<T: ArrowPrimitiveType + Send>(
        &self,
        (least, nan): (T::Native, T::Native),
    ) -> Box<dyn GroupsAccumulator>
    where
        T::Native: PartialOrd,
    {
        // What is not even equal to itself.
        let is_nan = |value: &T::Native| value.partial_cmp(value).is_none();
        if self.is_max {
            let keep = move |greatest: &mut T::Native, value: T::Native| {
                if value > *greatest || is_nan(&value) {
                    *greatest = value;
                }
            };
            Box::new(PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, keep).with_starting_value(least))
        } else {
            let keep = move |least: &mut T::Native, value: T::Native| {
                if value < *least || is_nan(least) {
                    *least = value;
                }
            };
            Box::new(PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, keep).with_starting_value(nan))
        }
    }
}

impl AggregateUDFImpl for MinMax {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }
    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *arguments.return_field.data_type() == INTERVAL {
            return Ok(Box::new(Extreme::new(self.is_max, false)));
        }
        self.inner.accumulator(arguments)
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        *arguments.return_field.data_type() != INTERVAL && self.inner.groups_accumulator_supported(arguments)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match arguments.return_field.data_type() {
            DataType::Float32 => self.of_groups::<Float32Type>((f32::NEG_INFINITY, f32::NAN)),
            DataType::Float64 => self.of_groups::<Float64Type>((f64::NEG_INFINITY, f64::NAN)),
            _ => self.inner.create_groups_accumulator(arguments)?,
        })
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if *arguments.return_field.data_type() == INTERVAL {
            return Ok(Box::new(Extreme::new(self.is_max, true)));
        }
        self.inner.create_sliding_accumulator(arguments)
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }
    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
    fn set_monotonicity(&self, data: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data)
    }
}
