//! The node of the logical plan: a subquery for each row of its input.

use super::{error_field, nullable};
use crate::exec::apply_value;
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{Column, DFSchema, DFSchemaRef, Result, TableReference},
    logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore},
};
use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

/// What becomes of the rows of a subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// One value, NULL of no row, an error (21000) of several.
    Value,
    /// Whether there are any.
    Exists,
    /// Each is joined with the row outside.
    Rows {
        /// Whether a row without matches stays.
        outer: bool,
    },
}

/// A subquery for each row of an input: its columns follow those of the input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Apply {
    pub(crate) input: LogicalPlan,
    pub(crate) kind: Kind,
    number: usize,
    /// The subquery, with placeholders.
    pub(crate) plan: LogicalPlan,
    /// What the placeholders are of a row of the input.
    pub(crate) bindings: Vec<(String, Expr)>,
    schema: DFSchemaRef,
}

impl Apply {
    pub(crate) fn new(
        input: LogicalPlan,
        kind: Kind,
        number: usize,
        plan: LogicalPlan,
        bindings: Vec<(String, Expr)>,
    ) -> Result<Self> {
        let (name, error) = (format!("__value_{number}"), format!("__error_{number}"));
        let value = match kind {
            Kind::Value => Some(nullable(name, plan.schema().field(0))),
            Kind::Exists => Some(Field::new(name, DataType::Boolean, true)),
            Kind::Rows { .. } => None,
        };
        let own: Vec<(Option<TableReference>, Arc<Field>)> = match value {
            Some(value) => vec![(None, Arc::new(value)), (None, Arc::new(error_field(error)))],
            None => {
                let fields = plan.schema().iter();
                let outer = kind == Kind::Rows { outer: true };
                let shown = |field: &Arc<Field>| match outer {
                    true => Arc::new(nullable(field.name().clone(), field)),
                    false => Arc::clone(field),
                };
                fields.map(|(relation, field)| (relation.cloned(), shown(field))).collect()
            }
        };
        let input_fields = input.schema().iter().map(|(relation, field)| (relation.cloned(), Arc::clone(field)));
        let fields = input_fields.chain(own).collect();
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, kind, number, plan, bindings, schema: Arc::new(schema) })
    }

    /// The value, for the node above.
    pub(crate) fn value(&self) -> Expr {
        let column = |name: &str| Expr::Column(Column::new_unqualified(format!("__{name}_{}", self.number)));
        apply_value::checked(column("value"), column("error"))
    }

    pub(crate) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for Apply {
    fn partial_cmp(&self, _: &Self) -> Option<Ordering> {
        None
    }
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &str {
        "Apply"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.bindings.iter().map(|(_, expr)| expr.clone()).collect()
    }

    /// Rows of the input may be left out before the subquery runs for them, by what is known without it.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let input = self.input.schema().fields().len();
        self.schema.fields().iter().skip(input).map(|field| field.name().clone()).collect()
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let input = self.input.schema().fields().len();
        Some(vec![output.iter().copied().filter(|index| *index < input).collect()])
    }

    fn supports_limit_pushdown(&self) -> bool {
        !matches!(self.kind, Kind::Rows { .. })
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Value => "value",
            Kind::Exists => "existence",
            Kind::Rows { .. } => "rows",
        };
        let outer: Vec<String> = self.bindings.iter().map(|(_, expr)| expr.to_string()).collect();
        write!(f, "Apply: {kind} of a subquery for each [{}]", outer.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let bindings = self.bindings.iter().zip(exprs).map(|((id, _), expr)| (id.clone(), expr)).collect();
        let input = inputs.pop().unwrap_or_else(|| self.input.clone());
        Self::new(input, self.kind, self.number, self.plan.clone(), bindings)
    }
}
