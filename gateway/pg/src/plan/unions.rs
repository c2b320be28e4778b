//! Quoted texts in the queries of a UNION: a literal takes the type of the column beside it, as PostgreSQL resolves it.
//!
//! DataFusion settles the types of a union when all is planned, and takes text for whatever can become text. So
//! literals are cast right after planning, and the schemas above follow.

use crate::common_type;
use arrow::datatypes::Field;
use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::{Expr, LogicalPlan, Projection, Union},
};
use std::sync::Arc;

/// The plan with literals of unions cast to the type of the other queries.
///
/// # Errors
/// DataFusion's: a schema that cannot be recomputed.
pub fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let found = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Union(union) => of_union(union),
        other => Ok(Transformed::no(other)),
    })?;
    if !found.transformed {
        return Ok(found.data);
    }
    Ok(found.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let wanted: Vec<Option<Arc<Field>>> = (0..union.schema.fields().len()).map(|at| literal_type(&union, at)).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| cast(input, &wanted)).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The type for the literals of a column: that of the other queries, if they have one and it is no text.
fn literal_type(union: &Union, at: usize) -> Option<Arc<Field>> {
    let is_open = |input: &&Arc<LogicalPlan>| item(input, at).is_some_and(|item| literal(item).is_some());
    if !union.inputs.iter().any(|input| is_open(&input)) {
        return None;
    }
    let others = union.inputs.iter().filter(|input| !is_open(input));
    common_type::of_columns(others.filter_map(|input| input.schema().fields().get(at))).map(Arc::clone)
}

/// An item of the select list of a query.
fn item(input: &LogicalPlan, at: usize) -> Option<&Expr> {
    match input {
        LogicalPlan::Projection(projection) => projection.expr.get(at),
        _ => None,
    }
}

/// The quoted text of an item, if it is one.
fn literal(item: &Expr) -> Option<&Expr> {
    match item {
        Expr::Alias(alias) => literal(&alias.expr),
        other => common_type::is_unknown(other).then_some(item),
    }
}

fn cast(input: &Arc<LogicalPlan>, wanted: &[Option<Arc<Field>>]) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(Arc::clone(input)) };
    let mut items = projection.expr.clone();
    for (item, wanted) in items.iter_mut().zip(wanted) {
        if let (Some(text), Some(field)) = (literal(item).cloned(), wanted) {
            let name = item.qualified_name();
            *item = common_type::cast_to_field(text, field).alias_qualified(name.0, name.1);
        }
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, Arc::clone(&projection.input))?)))
}
