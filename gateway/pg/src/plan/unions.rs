//! Quoted texts in the queries of a UNION: a literal takes the type of the column beside it, as PostgreSQL resolves it.
//!
//! DataFusion settles the types of a union when all is planned, and takes text for whatever can become text. So
//! literals are cast right after planning, and the schemas above follow. So are numbers of several types, of which
//! DataFusion would make decimals with the digits of all, and dates beside timestamps, which would lose their zone.

use crate::{
    common_type,
    error::{SqlError, SqlState},
    numeric, types,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{Column, tree_node::Transformed},
    error::{DataFusionError, Result},
    logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Projection, RecursiveQuery, Union},
};
use std::sync::Arc;

/// The plan with literals of unions cast to the type of the other queries.
///
/// # Errors
/// DataFusion's: a schema that cannot be recomputed.
pub fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let found = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::RecursiveQuery(query) => {
            refuse_cut(&query)?;
            Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    if !found.transformed {
        return Ok(found.data);
    }
    Ok(found.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
}

/// Refuses a recursive query whose numerics DataFusion would cut to the digits of the first query.
fn refuse_cut(query: &RecursiveQuery) -> Result<()> {
    let LogicalPlan::Projection(projection) = query.recursive_term.as_ref() else { return Ok(()) };
    for (at, (item, field)) in projection.expr.iter().zip(query.static_term.schema().fields()).enumerate() {
        let mut item = item;
        while let Expr::Alias(alias) = item {
            item = &alias.expr;
        }
        let Expr::Cast(cast) = item else { continue };
        let from = cast.expr.get_type(projection.input.schema())?;
        if numeric::is_decimal(field.data_type()) && numeric::is_number(&from) && from != *field.data_type() {
            let kind = types::sql_type(field).map(types::type_name).unwrap_or_default();
            let message = format!(
                "recursive query \"{}\" column {} has type {kind} in non-recursive term but type numeric overall",
                query.name,
                at + 1
            );
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("Cast the output of the non-recursive term to the correct type.");
            return Err(DataFusionError::External(Box::new(error)));
        }
    }
    Ok(())
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let wanted: Vec<Option<Arc<Field>>> = (0..union.schema.fields().len()).map(|at| literal_type(&union, at)).collect();
    let numbers: Vec<Option<DataType>> = (0..wanted.len()).map(|at| mixed_type(&union, at)).collect();
    if wanted.iter().all(Option::is_none) && numbers.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let typed = |input| numbered(cast(input, &wanted)?, &numbers);
    let inputs = union.inputs.iter().map(typed).collect::<Result<Vec<_>>>()?;
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

/// The type of a column with numbers of several types, a numeric among them, or with dates and timestamps.
fn mixed_type(union: &Union, at: usize) -> Option<DataType> {
    let types: Vec<&DataType> =
        union.inputs.iter().filter_map(|input| Some(input.schema().fields().get(at)?.data_type())).collect();
    if let Some(time) = super::common_times::of_types(types.iter().copied()) {
        return Some(time);
    }
    let common = common_type::of_numbers(types.iter().copied())?;
    types.iter().any(|data| numeric::is_numeric(data)).then_some(common)
}

/// The query with columns of numbers and times cast to these types.
fn numbered(input: Arc<LogicalPlan>, numbers: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let differs = |(field, to): (&Arc<Field>, &Option<DataType>)| to.as_ref().is_some_and(|to| field.data_type() != to);
    if !schema.fields().iter().zip(numbers).any(differs) {
        return Ok(input);
    }
    let items = schema.iter().zip(numbers).map(|((qualifier, field), to)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match to {
            Some(to) if to.is_temporal() && to != field.data_type() => {
                Expr::Cast(Cast::new(Box::new(column), to.clone())).alias_qualified(qualifier.cloned(), field.name())
            }
            Some(to) if to != field.data_type() => {
                common_type::as_number(column, field.data_type(), to).alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    });
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items.collect(), input)?)))
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
