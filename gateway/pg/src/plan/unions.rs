//! Quoted texts and parameters in the queries of UNION, INTERSECT and EXCEPT: one without a type takes the type of the
//! column beside it, as PostgreSQL resolves it.
//!
//! DataFusion settles the types of a union when all is planned, and of the others never: theirs are those of the first.
//! Until then a column has the type of the first query; then text is taken for whatever can become text. So literals
//! are cast right after planning, and the schemas above follow. So are numbers of several types, which would be
//! integers to all above, or decimals with the digits of all, and dates beside timestamps, which would lose their zone.

use crate::{
    common_type,
    error::{SqlError, SqlState},
    numeric, types,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        Column, JoinType, NullEquality,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    logical_expr::{
        Cast, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Projection, RecursiveQuery, Subquery, SubqueryAlias,
        Union,
        expr::{Exists, InSubquery, Placeholder},
    },
};
use std::{collections::HashMap, sync::Arc};

/// The plan with literals of unions cast to the type of the other queries.
///
/// # Errors
/// DataFusion's: a schema that cannot be recomputed.
pub fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let found = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Union(union) => of_union(union),
        LogicalPlan::Join(join) if is_of_sets(&join) => of_sets(join),
        LogicalPlan::RecursiveQuery(query) => {
            refuse_cut(&query)?;
            Ok(Transformed::no(LogicalPlan::RecursiveQuery(query)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    if !found.transformed {
        return Ok(found.data);
    }
    let outer = outer_columns_typed(recomputed(found.data)?)?;
    if outer.transformed { recomputed(outer.data) } else { Ok(outer.data) }
}

/// The plan with schemas that follow from its expressions. DataFusion keeps that of a union whose inputs have as many
/// columns as before.
pub(super) fn recomputed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let recomputed = plan.transform_up_with_subqueries(|plan| {
        let plan = match plan {
            LogicalPlan::Union(union) if has_other_types(&union) => {
                LogicalPlan::Union(Union::try_new_with_loose_types(union.inputs)?)
            }
            other => other.recompute_schema()?,
        };
        Ok(Transformed::yes(plan))
    })?;
    Ok(recomputed.data)
}

/// Whether the types of a union's columns are not those of its first input.
fn has_other_types(union: &Union) -> bool {
    let Some(first) = union.inputs.first() else { return false };
    let mut columns = union.schema.fields().iter().zip(first.schema().fields());
    columns.any(|(ours, theirs)| ours.data_type() != theirs.data_type())
}

/// Gives columns of outer queries, which bear the type that they were planned with, the type that they have by now.
fn outer_columns_typed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut types: HashMap<Column, Vec<FieldRef>> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        for (qualifier, field) in node.schema().iter().filter(|(qualifier, _)| qualifier.is_some()) {
            let known = types.entry(Column::new(qualifier.cloned(), field.name())).or_default();
            if known.iter().all(|known| known.data_type() != field.data_type()) {
                known.push(Arc::clone(field));
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let retyped = |expr: Expr| {
        expr.transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => Ok(match types.get(&column).map(Vec::as_slice) {
                // Where several relations have the name, it is not known here which one it is of.
                Some([only]) if only.data_type() != field.data_type() => {
                    Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(only), column))
                }
                _ => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            other => Ok(Transformed::no(other)),
        })
    };
    let listed = |mut subquery: Subquery| -> Result<Subquery> {
        let columns = subquery.outer_ref_columns.into_iter().map(|column| Ok(retyped(column)?.data));
        subquery.outer_ref_columns = columns.collect::<Result<_>>()?;
        Ok(subquery)
    };
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Subquery(subquery) => Ok(Transformed::no(LogicalPlan::Subquery(listed(subquery)?))),
        other => other.map_expressions(|expr| {
            let expr = retyped(expr)?;
            expr.transform_data(|expr| {
                expr.transform_up(|expr| {
                    Ok(Transformed::no(match expr {
                        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(listed(subquery)?),
                        Expr::Exists(exists) => {
                            Expr::Exists(Exists { subquery: listed(exists.subquery)?, negated: exists.negated })
                        }
                        Expr::InSubquery(within) => {
                            Expr::InSubquery(InSubquery { subquery: listed(within.subquery)?, ..within })
                        }
                        other => other,
                    }))
                })
            })
        }),
    })
}

/// Refuses a recursive query whose numerics, doubles or times DataFusion would cut to the type of the first query.
fn refuse_cut(query: &RecursiveQuery) -> Result<()> {
    let LogicalPlan::Projection(projection) = query.recursive_term.as_ref() else { return Ok(()) };
    for (at, (item, field)) in projection.expr.iter().zip(query.static_term.schema().fields()).enumerate() {
        let mut item = item;
        while let Expr::Alias(alias) = item {
            item = &alias.expr;
        }
        let Expr::Cast(cast) = item else { continue };
        let from = cast.expr.get_type(projection.input.schema())?;
        let cut = match (field.data_type(), &from) {
            (first, _) if numeric::is_decimal(first) => numeric::is_number(&from) && from != *first,
            (DataType::Float32, DataType::Float64) | (DataType::Date32, DataType::Timestamp(..)) => true,
            _ => false,
        };
        if cut {
            let name = |field: &Field| types::sql_type(field).map(types::type_name).unwrap_or_default();
            let overall = match numeric::is_decimal(field.data_type()) {
                true => "numeric".to_owned(),
                false => name(&Field::new("", from, true)),
            };
            let message = format!(
                "recursive query \"{}\" column {} has type {} in non-recursive term but type {overall} overall",
                query.name,
                at + 1,
                name(field)
            );
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                .with_hint("Cast the output of the non-recursive term to the correct type.");
            return Err(DataFusionError::External(Box::new(error)));
        }
    }
    Ok(())
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    Ok(match with_one_type(&union.inputs, "UNION")? {
        Some(inputs) => Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)),
        None => Transformed::no(LogicalPlan::Union(union)),
    })
}

/// Whether it is INTERSECT or EXCEPT, of which DataFusion plans a join: no other is by keys where NULL equals NULL so
/// early.
fn is_of_sets(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
}

/// INTERSECT or EXCEPT, whose columns DataFusion would give the types of the first query.
fn of_sets(join: Join) -> Result<Transformed<LogicalPlan>> {
    let word = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
    let queries = [Arc::clone(bare(&join.left)), Arc::clone(bare(&join.right))];
    let Some(typed) = with_one_type(&queries, word)? else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let [left, right] = typed.as_slice() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let (left, right) = (around(&join.left, left)?, around(&join.right, right)?);
    let Join { on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    let join = Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)?;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// A query of INTERSECT or EXCEPT without the name and the DISTINCT that are put around it.
fn bare(query: &Arc<LogicalPlan>) -> &Arc<LogicalPlan> {
    match query.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => bare(&alias.input),
        LogicalPlan::Distinct(Distinct::All(input)) => bare(input),
        _ => query,
    }
}

/// Another query with the name and the DISTINCT that are around this one.
fn around(query: &Arc<LogicalPlan>, inner: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    Ok(match query.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => {
            let alias = SubqueryAlias::try_new(around(&alias.input, inner)?, alias.alias.clone())?;
            Arc::new(LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            Arc::new(LogicalPlan::Distinct(Distinct::All(around(input, inner)?)))
        }
        _ => Arc::clone(inner),
    })
}

/// The queries of a set operation with columns of one type each; `None` where they are.
fn with_one_type(inputs: &[Arc<LogicalPlan>], word: &str) -> Result<Option<Vec<Arc<LogicalPlan>>>> {
    let columns = inputs.first().map_or(0, |first| first.schema().fields().len());
    (0..columns).try_for_each(|at| check_matched(inputs, at, word))?;
    let wanted: Vec<Option<Arc<Field>>> = (0..columns).map(|at| literal_type(inputs, at)).collect();
    let numbers: Vec<Option<DataType>> = (0..columns).map(|at| mixed_type(inputs, at)).collect();
    if wanted.iter().all(Option::is_none) && numbers.iter().all(Option::is_none) {
        return Ok(None);
    }
    let typed = |input| numbered(cast(input, &wanted)?, &numbers);
    inputs.iter().map(typed).collect::<Result<_>>().map(Some)
}

/// 42804 for a column of numbers, texts, truth values or times together, of which DataFusion would make texts.
fn check_matched(inputs: &[Arc<LogicalPlan>], at: usize, word: &str) -> Result<()> {
    // An oid, whose name is a text here, may be either (`regclass`).
    let is_oid = |field: &Field| field.metadata().get(types::TYPE_KEY).is_some_and(|name| name.starts_with("reg"));
    let kind = |field: &Field| match field.data_type() {
        DataType::UInt32 => None,
        data if numeric::is_number(data) => Some(0),
        DataType::Utf8View if !is_oid(field) => Some(1),
        DataType::Boolean => Some(2),
        DataType::Date32 | DataType::Timestamp(..) => Some(3),
        _ => None,
    };
    let typed = inputs.iter().filter(|input| item(input, at).is_none_or(|item| literal(item).is_none()));
    let mut fields = typed.filter_map(|input| input.schema().fields().get(at));
    let Some((first, of_first)) = fields.find_map(|field| Some((field, kind(field)?))) else { return Ok(()) };
    let Some(other) = fields.find(|field| kind(field).is_some_and(|kind| kind != of_first)) else { return Ok(()) };
    let name = |field: &Field| types::sql_type(field).map(types::type_name).unwrap_or_default();
    let message = format!("{word} types {} and {} cannot be matched", name(first), name(other));
    Err(DataFusionError::External(Box::new(SqlError::new(SqlState::DATATYPE_MISMATCH, message))))
}

/// The type for the literals of a column: that of the other queries, if they have one and it is no text.
fn literal_type(inputs: &[Arc<LogicalPlan>], at: usize) -> Option<Arc<Field>> {
    let is_open = |input: &&Arc<LogicalPlan>| item(input, at).is_some_and(|item| literal(item).is_some());
    if !inputs.iter().any(|input| is_open(&input)) {
        return None;
    }
    let others = inputs.iter().filter(|input| !is_open(input));
    common_type::of_columns(others.filter_map(|input| input.schema().fields().get(at))).map(Arc::clone)
}

/// The type of a column with numbers of several types, or with dates and timestamps.
fn mixed_type(inputs: &[Arc<LogicalPlan>], at: usize) -> Option<DataType> {
    let types: Vec<&DataType> =
        inputs.iter().filter_map(|input| Some(input.schema().fields().get(at)?.data_type())).collect();
    if let Some(time) = super::common_times::of_types(types.iter().copied()) {
        return Some(time);
    }
    common_type::of_numbers(types)
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

/// An item that has no type of its own, if it is one: a quoted text, or a parameter.
fn literal(item: &Expr) -> Option<&Expr> {
    match item {
        Expr::Alias(alias) => literal(&alias.expr),
        Expr::Placeholder(Placeholder { field: None, .. }) => Some(item),
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
