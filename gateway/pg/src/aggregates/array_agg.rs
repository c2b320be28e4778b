//! `array_agg` of values whose type Arrow has no name for: an array of them bears the name, as `name[]`, which clients
//! tell from `text[]`; and in an order ([`ordered`]). All else is DataFusion's.

use super::ordered::{self, Form, One, Ordered};
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

/// The accumulator of values in an order; `None` for others.
fn in_order(arguments: &AccumulatorArgs) -> Result<Option<Ordered>> {
    if !ordered::takes(arguments.is_distinct, &ordered::ordering(arguments)?) {
        return Ok(None);
    }
    let DataType::List(item) = arguments.return_field.data_type() else { return Ok(None) };
    Ordered::new(arguments, Form::List(Arc::clone(item))).map(Some)
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
        if let Some(ordered) = in_order(&arguments)? {
            return Ok(Box::new(One(ordered)));
        }
        self.inner.accumulator(arguments)
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if ordered::takes_state(&arguments) {
            return Ok(ordered::state(&arguments));
        }
        self.inner.state_fields(arguments)
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        in_order(&arguments).is_ok_and(|ordered| ordered.is_some())
            || self.inner.groups_accumulator_supported(arguments)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(ordered) = in_order(&arguments)? {
            return Ok(Box::new(ordered));
        }
        self.inner.create_groups_accumulator(arguments)
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(arguments)
    }
    /// The values are sorted here, however they come.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }
    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}
