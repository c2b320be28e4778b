//! `lag` and `lead` whose offset or default differs from row to row, or whose default has another type than the value.
//!
//! DataFusion takes literals alone, and casts the default to the value's type, which cuts `-1.4` of integers. So the
//! value and the default are cast to their common type first, and what are no literals is computed here over the whole
//! partition. All else is DataFusion's, which holds a few rows at a time.

use crate::{common_type, numeric, types};
use arrow::{
    array::{Array, ArrayRef, AsArray, new_null_array},
    compute::{cast, interleave},
    datatypes::{DataType, FieldRef, Int64Type},
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{FunctionRegistry, SessionState},
    functions_window::lead_lag::{lag_udwf, lead_udwf},
    logical_expr::{
        LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
        type_coercion::binary::type_union_resolution,
    },
    physical_expr::{PhysicalExpr, expressions::Literal},
};
use std::sync::Arc;

pub mod excluding;
mod numbered;

/// Registers `lag`, `lead` and the functions that number rows, which replace DataFusion's.
pub fn register(state: &mut SessionState) {
    for (inner, is_lead) in [(lag_udwf(), false), (lead_udwf(), true)] {
        let shift = Shift { inner, is_lead, signature: Signature::user_defined(Volatility::Immutable) };
        let registered = state.register_udwf(Arc::new(WindowUDF::from(shift)));
        debug_assert!(registered.is_ok(), "a session's state takes functions");
    }
    for function in numbered::functions() {
        let registered = state.register_udwf(function);
        debug_assert!(registered.is_ok(), "a session's state takes functions");
    }
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Shift {
    inner: Arc<WindowUDF>,
    is_lead: bool,
    signature: Signature,
}

/// Whether an offset and a default are such as DataFusion takes.
fn are_literals(arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
    arguments.iter().skip(1).enumerate().all(|(at, argument)| {
        argument.downcast_ref::<Literal>().is_some_and(|literal| at > 0 || !literal.value().is_null())
    })
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let unknown = || DataFusionError::External(Box::new(crate::functions::undefined(self.name(), arguments)));
        match arguments {
            [value] => Ok(vec![value.clone()]),
            [value, _] => Ok(vec![value.clone(), DataType::Int64]),
            [value, _, default] => {
                // A quoted text takes the value's type.
                let common = match (types::is_text(value), types::is_text(default)) {
                    (false, true) => Some(value.clone()),
                    // The rule of numbers casts both, to a form that Arrow does not know.
                    _ if common_type::of_numbers([value, default]).is_some_and(|to| numeric::is_exact(&to)) => {
                        return Ok(vec![value.clone(), DataType::Int64, default.clone()]);
                    }
                    _ => type_union_resolution(&[value.clone(), default.clone()]),
                };
                let common = common.ok_or_else(unknown)?;
                Ok(vec![common.clone(), DataType::Int64, common])
            }
            _ => Err(unknown()),
        }
    }

    fn expressions(&self, arguments: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        if are_literals(arguments.input_exprs()) {
            return self.inner.expressions(arguments);
        }
        arguments.input_exprs().to_vec()
    }

    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        if are_literals(arguments.input_exprs()) {
            return self.inner.partition_evaluator_factory(arguments);
        }
        Ok(Box::new(Shifted { forwards: self.is_lead != arguments.is_reversed() }))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(arguments)?;
        Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::Reversed(Arc::new(WindowUDF::from(self.clone())))
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        if are_literals(arguments) { self.inner.inner().limit_effect(arguments) } else { LimitEffect::Unknown }
    }
}

/// Values of rows at offsets that each row has of its own.
#[derive(Debug)]
struct Shifted {
    forwards: bool,
}

impl PartitionEvaluator for Shifted {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let (value, offsets) = (&values[0], cast(&values[1], &DataType::Int64)?);
        let offsets = offsets.as_primitive::<Int64Type>();
        let none = new_null_array(value.data_type(), 1);
        let default = match values.get(2) {
            Some(default) => cast(default, value.data_type())?,
            None => Arc::clone(&none),
        };
        let place = |row: usize| {
            if offsets.is_null(row) {
                return (2, 0);
            }
            let offset = i128::from(offsets.value(row));
            let offset = if self.forwards { offset } else { -offset };
            let at = i128::try_from(row).unwrap_or(i128::MAX).saturating_add(offset);
            match usize::try_from(at) {
                Ok(at) if at < rows => (0, at),
                _ => (1, if values.len() > 2 { row } else { 0 }),
            }
        };
        let places: Vec<(usize, usize)> = (0..rows).map(place).collect();
        Ok(interleave(&[value.as_ref(), default.as_ref(), none.as_ref()], &places)?)
    }
}
