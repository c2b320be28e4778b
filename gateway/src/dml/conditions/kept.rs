//! Conditions as a session keeps them ([`RowConditions`]): what their physical plan computes above the rows, where
//! nothing but the table's definition and the session's settings made it what it is.

use super::{refused, violated_by};
use crate::{
    context::{StatementContext, row_conditions::RowConditions},
    dml::{returning::batch, target::Target},
    pg::error::{Result, SqlError},
    query::{Query, bare_options, options_of, plan_cache::is_the_same_whenever_made},
};
use arrow::array::ArrayRef;
use datafusion::{
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, projection::ProjectionExec},
};
use keyspan_catalog::Value;
use std::sync::Arc;

/// What can be kept of a SELECT of conditions over rows of a table.
pub(super) fn conditions_of(
    query: &Query,
    target: &Target,
    plan: &LogicalPlan,
    physical: &Arc<dyn ExecutionPlan>,
) -> Option<RowConditions> {
    if !is_the_same_whenever_made(plan).ok()? {
        return None;
    }
    let (mut steps, mut node) = (Vec::new(), physical);
    while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        steps.push((projection.expr().iter().map(|item| item.expr.clone()).collect(), node.schema()));
        node = projection.input();
    }
    // Rows come from one place, as they are.
    if steps.is_empty() || !node.children().is_empty() {
        return None;
    }
    steps.reverse();
    let schema = node.schema();
    let places = schema.fields().iter().map(|field| target.position(field.name()).ok());
    let places: Vec<usize> = places.collect::<Option<_>>()?;
    let planned = (!places.is_empty()).then_some(RowConditions { schema, places, steps })?;
    planned.of_no_statement(&bare_options(query.statement_context())).ok()
}

/// What [`check`](super::check) says of the rows, by what was kept: the first that is refused, and why.
pub(super) fn refusal(
    kept: &RowConditions,
    context: &Arc<StatementContext>,
    target: &Target,
    rows: &[&[Value]],
) -> Option<(usize, SqlError)> {
    let computed = || -> Result<Vec<ArrayRef>> {
        let rows = batch(target, &kept.places, &kept.schema, rows)?;
        Ok(kept.of_rows(rows, &options_of(context))?)
    };
    let computed = match computed() {
        Ok(computed) => computed,
        Err(error) => return Some((0, error)),
    };
    let (row, at) = (0..rows.len()).find_map(|row| Some((row, violated_by(&computed, row)?)))?;
    let error = match target.conditions() {
        Ok(conditions) => refused(target, &conditions[at], rows[row], false),
        Err(error) => error,
    };
    Some((row, error))
}
