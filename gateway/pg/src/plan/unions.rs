//! Quoted texts in the queries of a UNION: a literal takes the type of the column beside it, as PostgreSQL resolves it.
//!
//! DataFusion settles the types of a union by what text can be made of, when all is planned. So literals are cast right after planning, and the schemas
//! above follow.

use super::operators::type_of;
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::{Cast, Expr, LogicalPlan, Projection, Union},
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The plan whose unions have literals of the types beside them.
///
/// # Errors
/// What DataFusion finds.
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
    let wanted: Vec<Option<Arc<Field>>> = (0..union.schema.fields().len()).map(|at| beside(&union, at)).collect();
    if wanted.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| cast(input, &wanted)).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The type that the literals of a column are to have: that of all others, if it is one and none of texts.
fn beside(union: &Union, at: usize) -> Option<Arc<Field>> {
    let is_open = |input: &&Arc<LogicalPlan>| item(input, at).is_some_and(|item| literal(item).is_some());
    if !union.inputs.iter().any(|input| is_open(&input)) {
        return None;
    }
    let is_null = |field: &&Arc<Field>| field.data_type().is_null();
    let mut others =
        union.inputs.iter().filter(|input| !is_open(input)).filter_map(|input| input.schema().fields().get(at));
    let first = others.find(|field| !is_null(field))?;
    let is_text = matches!(first.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let alike = others.filter(|field| !is_null(field)).all(|field| field.data_type() == first.data_type());
    (alike && !is_text).then(|| Arc::clone(first))
}

/// An item of the select list of a query.
fn item(input: &LogicalPlan, at: usize) -> Option<&Expr> {
    match input {
        LogicalPlan::Projection(projection) => projection.expr.get(at),
        _ => None,
    }
}

/// The quoted text that an item is.
fn literal(item: &Expr) -> Option<&Expr> {
    match item {
        Expr::Alias(alias) => literal(&alias.expr),
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => Some(item),
        _ => None,
    }
}

fn cast(input: &Arc<LogicalPlan>, wanted: &[Option<Arc<Field>>]) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(Arc::clone(input)) };
    let mut items = projection.expr.clone();
    for (item, wanted) in items.iter_mut().zip(wanted) {
        if let (Some(text), Some(field)) = (literal(item).cloned(), wanted) {
            let name = item.qualified_name();
            let data = type_of(&text, field.data_type());
            let field = field.as_ref().clone().with_name("cast").with_data_type(data).with_nullable(true);
            *item = Expr::Cast(Cast::new_from_field(Box::new(text), Arc::new(field))).alias_qualified(name.0, name.1);
        }
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, Arc::clone(&projection.input))?)))
}
