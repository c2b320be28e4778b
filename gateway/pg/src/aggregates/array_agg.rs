//! `array_agg` of values whose type Arrow has no name for: an array of them bears the name, as `name[]`, which clients
//! tell from `text[]`. All else is DataFusion's.

use crate::types::array_named_after;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use std::sync::Arc;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ArrayAgg {
    pub(crate) inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for ArrayAgg {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }
    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let returned = self.inner.return_field(arguments)?;
        Ok(match arguments.first().and_then(|argument| array_named_after(&returned, argument)) {
            Some(named) => Arc::new(named),
            None => returned,
        })
    }
    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(arguments)
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(arguments)
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(arguments)
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }
    fn with_beneficial_ordering(self: Arc<Self>, beneficial: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(beneficial)?;
        Ok(inner.map(|inner| Arc::new(Self { inner: Arc::new(inner) }) as Arc<dyn AggregateUDFImpl>))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(Self { inner: Arc::clone(&self.inner) })))
    }
    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}
