//! `string_agg` of `bytea`, whose values are collected as `array_agg` collects them and joined at the end; of texts in
//! an order ([`ordered`]). That of other texts is DataFusion's.

use super::{
    ordered::{self, Form, One, Ordered},
    wrapped,
};
use crate::{
    codec::parse,
    common_type::arguments::taken_by,
    error::SqlError,
    functions::{scalar_function::external, text_of},
    types::is_bytea,
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::internal_err,
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
    physical_expr::expressions::Literal,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct StringAgg {
    texts: Arc<AggregateUDF>,
    listed: Arc<AggregateUDF>,
    signature: Signature,
}

impl StringAgg {
    pub(crate) fn new(texts: Arc<AggregateUDF>, listed: Arc<AggregateUDF>) -> Self {
        Self { texts, listed, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// DataFusion's has another type of texts, which are bit strings here.
fn texts() -> wrapped::Types {
    wrapped::Types { output: Some(DataType::Utf8View), ..Default::default() }
}

fn of_bytes(fields: &[FieldRef]) -> bool {
    fields.first().is_some_and(|field| is_bytea(field.data_type()))
}

/// What stands between the values.
fn delimiter(arguments: &AccumulatorArgs) -> Result<Vec<u8>> {
    match arguments.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>()).map(Literal::value) {
        Some(ScalarValue::Binary(bytes) | ScalarValue::BinaryView(bytes)) => Ok(bytes.clone().unwrap_or_default()),
        Some(value) => parse::bytea(&text_of(value).unwrap_or_default()).map_err(external),
        None => Err(external(SqlError::unsupported("string_agg of bytea with a delimiter that is no constant"))),
    }
}

/// The accumulator of texts in an order; `None` for others.
fn in_order(arguments: &AccumulatorArgs) -> Result<Option<Ordered>> {
    if of_bytes(arguments.expr_fields) || !ordered::takes(arguments.is_distinct, &ordered::ordering(arguments)?) {
        return Ok(None);
    }
    let constant = arguments.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>()).map(Literal::value);
    let delimiter = match constant {
        Some(value) if value.is_null() => String::new(),
        Some(value) => match value.try_as_str() {
            Some(text) => text.unwrap_or_default().to_owned(),
            None => return Ok(None),
        },
        None => return Err(external(SqlError::unsupported("string_agg with a delimiter that is no constant"))),
    };
    Ordered::new(arguments, Form::Text(delimiter)).map(Some)
}

impl AggregateUDFImpl for StringAgg {
    fn name(&self) -> &str {
        self.texts.name()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if let [first, second] = types
            && is_bytea(first)
        {
            let fits = is_bytea(second) || second.is_null() || matches!(second, DataType::Utf8);
            return if fits {
                Ok(types.to_vec())
            } else {
                Err(external(crate::functions::undefined("string_agg", types)))
            };
        }
        taken_by(self.texts.as_ref(), types)
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(if types.first().is_some_and(is_bytea) { DataType::Binary } else { DataType::Utf8View })
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if let Some(ordered) = in_order(&arguments)? {
            return Ok(Box::new(One(ordered)));
        }
        if !of_bytes(arguments.expr_fields) {
            return Ok(Box::new(wrapped::One::new(self.texts.accumulator(arguments)?, texts())));
        }
        let delimiter = delimiter(&arguments)?;
        let list = DataType::new_list(arguments.expr_fields[0].data_type().clone(), true);
        let listed = self.listed.accumulator(AccumulatorArgs {
            return_field: Arc::new(Field::new("", list, true)),
            exprs: &arguments.exprs[..1],
            expr_fields: &arguments.expr_fields[..1],
            ..arguments
        })?;
        Ok(Box::new(Joined { listed, delimiter }))
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !of_bytes(arguments.input_fields) && ordered::takes_state(&arguments) {
            return Ok(ordered::state(&arguments));
        }
        if !of_bytes(arguments.input_fields) {
            return self.texts.state_fields(arguments);
        }
        self.listed.state_fields(StateFieldsArgs { input_fields: &arguments.input_fields[..1], ..arguments })
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        if in_order(&arguments).is_ok_and(|ordered| ordered.is_some()) {
            return true;
        }
        !of_bytes(arguments.expr_fields) && self.texts.groups_accumulator_supported(arguments)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(ordered) = in_order(&arguments)? {
            return Ok(Box::new(ordered));
        }
        Ok(Box::new(wrapped::Many::new(self.texts.create_groups_accumulator(arguments)?, texts())))
    }
    /// The values are sorted here, however they come: two calls of one query may have two orders.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }
    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
}

/// The values, joined.
#[derive(Debug)]
struct Joined {
    listed: Box<dyn Accumulator>,
    delimiter: Vec<u8>,
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // The delimiter is the second; behind it are values of ORDER BY.
        let kept = values.iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, values)| Arc::clone(values));
        self.listed.update_batch(&kept.collect::<Vec<_>>())
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.listed.merge_batch(states)
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.listed.state()
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(list) = self.listed.evaluate()? else { return internal_err!("array_agg gives a list") };
        if list.is_null(0) {
            return Ok(ScalarValue::Binary(None));
        }
        let values = arrow::compute::cast(&list.value(0), &DataType::Binary)?;
        let values: Vec<&[u8]> = values.as_binary::<i32>().iter().flatten().collect();
        Ok(ScalarValue::Binary((!values.is_empty()).then(|| values.join(&self.delimiter[..]))))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.listed.size() + self.delimiter.capacity()
    }
}
