//! The values of a statement's parameters.

use crate::pg::{error::Result, types::ParameterType};
use datafusion::{logical_expr::LogicalPlan, scalar::ScalarValue};
use std::ops::Deref;

/// The values of `$1`, `$2`, …, with the types that the statement was analysed with: a value alone does not say whether
/// it is a jsonb or a text.
#[derive(Clone, Debug)]
pub struct ParameterValues {
    values: Vec<ScalarValue>,
    types: Vec<ParameterType>,
}

impl ParameterValues {
    /// Values and their types.
    pub fn new(values: Vec<ScalarValue>, types: &[ParameterType]) -> Self {
        Self { values, types: types.to_vec() }
    }

    /// Their types.
    pub(super) fn types(&self) -> &[ParameterType] {
        &self.types
    }

    /// The plan with values in the place of its parameters.
    ///
    /// # Errors
    /// What DataFusion finds.
    pub(crate) fn put(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if self.values.is_empty() { Ok(plan) } else { Ok(plan.with_param_values(self.values.clone())?) }
    }
}

impl Deref for ParameterValues {
    type Target = [ScalarValue];

    fn deref(&self) -> &[ScalarValue] {
        &self.values
    }
}
