//! What is compared otherwise than Arrow compares it has a key, which stands in its place.
//!
//! An interval has its length ([`interval_micros`]), as in PostgreSQL: `1 mon` equals `30 days`, where Arrow compares
//! months, then days, then the time. A numeric of the exact form has the key that numbers of other digits have too
//! ([`key`](numeric::key)): `1.1` equals `1.10`. A jsonb, which is text to Arrow, has [`jsonb_key`]. Arrays of
//! intervals and numerics have those of their items.
//!
//! The key stands in comparisons and lists, ORDER BY, PARTITION BY, DISTINCT ON and conditions of joins. What groups by
//! such a value groups by its key, and shows the first value of each group; `DISTINCT` is such a grouping; `min` and
//! `max` are the first by key. The bytes of numerics have an order, so that some of it is left out for them; documents
//! without digits are equal where their texts are. The rule runs when types are settled. Beside that it orders arrays
//! ([`array_order`]).

use crate::{
    error::{SqlError, SqlState},
    functions::{
        arrays::{array_order, has_length},
        interval_micros,
        json::{self, key::jsonb_key},
        numeric::trim,
        records::{RECORD, record_key},
    },
    numeric,
    plan::{documents, each_expr::under_its_name, subquery_order::item},
    workarounds::canonical_comparisons::compares,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        Column, DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    functions_aggregate::{first_last::first_value_udaf, min_max::max_udaf},
    logical_expr::{
        Aggregate, BinaryExpr, Distinct, DistinctOn, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan,
        LogicalPlanBuilder, Operator, Sort, SortExpr, Subquery, Union,
        expr::{AggregateFunction, AggregateFunctionParams, InSubquery, WindowFunctionDefinition},
        expr_rewriter::NamePreserver,
        utils::merge_schema,
        when,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use std::{collections::HashSet, sync::Arc};

/// The rule.
#[derive(Debug)]
pub struct OrderKeys;

impl AnalyzerRule for OrderKeys {
    fn name(&self) -> &str {
        "order_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _options: &ConfigOptions) -> Result<LogicalPlan> {
        let found = plan.transform_up_with_subqueries(rewritten)?;
        if !found.transformed {
            return Ok(found.data);
        }
        // The first interval of a group may be NULL to DataFusion, where what was grouped by was not.
        Ok(found.data.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
    }
}

/// Whether it is compared by a key.
fn has_key(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data| has_length(&data)) || is_document(expr, schema)
}

fn is_document(expr: &Expr, schema: &DFSchema) -> bool {
    documents::kind(expr, schema) == Some("jsonb")
}

/// The key of a document, or of a text that stands beside one.
fn document(expr: Expr) -> Expr {
    jsonb_key().call(vec![expr])
}

/// Whether it is a document that is given, and equal to those of the same text alone: it has no number.
fn has_own_text(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => has_own_text(&cast.expr),
        Expr::Literal(value, _) => {
            value.try_as_str().flatten().is_some_and(|text| !text.contains(|any: char| any.is_ascii_digit()))
        }
        _ => false,
    }
}

/// What an expression is compared by: a key, or itself.
fn compared_by(expr: Expr, schema: &DFSchema) -> Expr {
    if is_document(&expr, schema) {
        return document(expr);
    }
    match expr.get_type(schema) {
        Ok(data) if numeric::is_exact(&data) => numeric::key::key().call(vec![expr]),
        Ok(data) if has_length(&data) => interval_micros().call(vec![expr]),
        _ => expr,
    }
}

/// Whether it is a numeric of the exact form, whose bytes have an order.
fn is_exact(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data| numeric::is_exact(&data))
}

/// Functions that look for items of an array: for one, or for those of another.
const SEARCHED: [&str; 3] = ["array_has", "array_has_all", "array_has_any"];

/// What one side of a comparison is compared by. That of the least or the greatest item of an array, which `> ANY` is
/// compared with, is the least or the greatest of the lengths.
fn extreme(expr: Expr, schema: &DFSchema) -> Expr {
    match expr {
        Expr::ScalarFunction(mut call) if matches!(call.func.name(), "array_min" | "array_max") => {
            keys(&mut call.args, schema);
            Expr::ScalarFunction(call)
        }
        other => compared_by(other, schema),
    }
}

fn keys(exprs: &mut [Expr], schema: &DFSchema) -> bool {
    let mut any = false;
    for expr in exprs.iter_mut().filter(|expr| has_key(expr, schema)) {
        *expr = compared_by(std::mem::take(expr), schema);
        any = true;
    }
    any
}

fn sort_keys(orders: &mut [SortExpr], schema: &DFSchema) -> bool {
    let mut any = false;
    for order in orders.iter_mut().filter(|order| has_key(&order.expr, schema)) {
        order.expr = compared_by(std::mem::take(&mut order.expr), schema);
        any = true;
    }
    any
}

/// Arrow puts NULL items of arrays where the order puts NULLs, PostgreSQL above all others: where that differs, whether
/// an array is NULL is an order of its own.
fn items_last(orders: &mut Vec<SortExpr>, schema: &DFSchema) -> bool {
    let is_other = |order: &SortExpr| {
        order.nulls_first == order.asc && matches!(order.expr.get_type(schema), Ok(DataType::List(_)))
    };
    let mut any = false;
    for mut order in std::mem::take(orders) {
        if is_other(&order) {
            orders.push(SortExpr { expr: order.expr.clone().is_null(), asc: !order.nulls_first, nulls_first: false });
            order.nulls_first = !order.asc;
            any = true;
        }
        orders.push(order);
    }
    any
}

fn rewritten(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        under_its_name(expr, &names, |expr| expr.transform_up(|expr| compared(expr, &schema)))
    })?;
    let was = plan.transformed;
    let plan = if was { plan.data.recompute_schema()? } else { plan.data };
    let (plan, is) = match plan {
        LogicalPlan::Sort(Sort { mut expr, input, fetch }) => {
            // Which of equal values is first does not matter where nothing is ordered after them.
            let last = usize::from(expr.last().is_some_and(|order| is_exact(&order.expr, &schema)));
            let ordered = expr.len() - last;
            let is = sort_keys(&mut expr[..ordered], &schema) | items_last(&mut expr, &schema);
            (LogicalPlan::Sort(Sort { expr, input, fetch }), is)
        }
        LogicalPlan::Join(Join {
            left,
            right,
            mut on,
            filter,
            join_type,
            join_constraint,
            schema,
            null_equality,
            null_aware,
        }) => {
            let mut is = false;
            for (ours, theirs) in &mut on {
                if has_key(ours, left.schema()) && has_key(theirs, right.schema()) {
                    *ours = compared_by(std::mem::take(ours), left.schema());
                    *theirs = compared_by(std::mem::take(theirs), right.schema());
                    is = true;
                }
            }
            let join = Join { left, right, on, filter, join_type, join_constraint, schema, null_equality, null_aware };
            (LogicalPlan::Join(join), is)
        }
        LogicalPlan::Distinct(Distinct::On(DistinctOn {
            mut on_expr,
            select_expr,
            mut sort_expr,
            input,
            schema: of,
        })) => {
            let mut is = keys(&mut on_expr, &schema);
            is |= sort_expr.as_mut().is_some_and(|orders| sort_keys(orders, &schema));
            let node = DistinctOn { on_expr, select_expr, sort_expr, input, schema: of };
            (LogicalPlan::Distinct(Distinct::On(node)), is)
        }
        LogicalPlan::Distinct(Distinct::All(input)) if any_has_key(input.schema()) => {
            let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
            let grouped = LogicalPlanBuilder::from(input).aggregate(columns, Vec::<Expr>::new())?.build()?;
            let LogicalPlan::Aggregate(aggregate) = grouped else { return Ok(Transformed::yes(grouped)) };
            (grouped_by_keys(aggregate)?, true)
        }
        // A distinct query below may be grouped by now, and what is shown of a group may be NULL as far as is known.
        LogicalPlan::Union(union) if any_has_key(&union.schema) => {
            let union = Union::try_new_with_loose_types(union.inputs)?;
            (LogicalPlan::Union(union), true)
        }
        LogicalPlan::Aggregate(aggregate) if groups_by_keys(&aggregate) => (grouped_by_keys(aggregate)?, true),
        other => (other, false),
    };
    Ok(if was || is { Transformed::yes(plan) } else { Transformed::no(plan) })
}

fn any_has_key(schema: &DFSchema) -> bool {
    schema.fields().iter().any(|field| has_length(field.data_type()) || json::kind(field) == Some("jsonb"))
}

/// Whether documents are equal where their texts are, since one of the sides is given and has no number: statistics
/// know of texts, and not of keys.
fn by_text(op: Operator, left: &Expr, right: &Expr) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq) && (has_own_text(left) || has_own_text(right))
}

/// Comparisons, and what functions sort or tell apart by.
fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        // Arrow takes a NULL in an array for the least of items.
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
                && matches!(left.get_type(schema), Ok(DataType::List(_)))
                && left.get_type(schema)? == right.get_type(schema)? =>
        {
            let order = Box::new(array_order().call(vec![*left, *right]));
            let zero = Box::new(Expr::Literal(ScalarValue::Int32(Some(0)), None));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: order, op, right: zero }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && (is_document(&left, schema) || is_document(&right, schema)) =>
        {
            if by_text(op, &left, &right) {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            let (left, right) = (Box::new(document(*left)), Box::new(document(*right)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if compares(op) && has_key(&left, schema) && has_key(&right, schema) =>
        {
            let (left, right) = (Box::new(extreme(*left, schema)), Box::new(extreme(*right, schema)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::ScalarFunction(mut call)
            if SEARCHED.contains(&call.func.name()) && call.args.iter().take(2).all(|arg| has_key(arg, schema)) =>
        {
            keys(&mut call.args[..2], schema);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        Expr::InList(mut list) if is_document(&list.expr, schema) => {
            if list.list.iter().all(has_own_text) {
                return Ok(Transformed::no(Expr::InList(list)));
            }
            for side in list.list.iter_mut().chain([list.expr.as_mut()]) {
                *side = document(std::mem::take(side));
            }
            Transformed::yes(Expr::InList(list))
        }
        Expr::InList(mut list) if has_key(&list.expr, schema) => {
            list.expr = Box::new(compared_by(*list.expr, schema));
            keys(&mut list.list, schema);
            Transformed::yes(Expr::InList(list))
        }
        Expr::Between(mut between) if has_key(&between.expr, schema) => {
            let is_document = is_document(&between.expr, schema);
            for side in [&mut between.expr, &mut between.low, &mut between.high] {
                let of = std::mem::take(side.as_mut());
                **side = if is_document { document(of) } else { compared_by(of, schema) };
            }
            Transformed::yes(Expr::Between(between))
        }
        Expr::Case(mut case) if case.expr.as_ref().is_some_and(|of| has_key(of, schema)) => {
            let is_document = case.expr.as_ref().is_some_and(|of| is_document(of, schema));
            let compared = |of: Expr| if is_document { document(of) } else { compared_by(of, schema) };
            case.expr = case.expr.map(|of| Box::new(compared(*of)));
            for (when, _) in &mut case.when_then_expr {
                **when = compared(std::mem::take(when));
            }
            Transformed::yes(Expr::Case(case))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) if has_key(&expr, schema) => {
            let item = subquery.subquery.schema().columns().into_iter().next().map(Expr::Column);
            let item = item.map(|item| compared_by(item, subquery.subquery.schema()));
            let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project(item)?.build()?;
            let subquery = Subquery { subquery: Arc::new(plan), ..subquery };
            let expr = Box::new(compared_by(*expr, schema));
            Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        Expr::AggregateFunction(call) => aggregated(call, schema)?,
        Expr::WindowFunction(mut call) => {
            let mut is = keys(&mut call.params.partition_by, schema);
            is |= sort_keys(&mut call.params.order_by, schema);
            if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun
                && matches!(function.name(), "min" | "max")
                && call.params.args.iter().any(|arg| {
                    arg.get_type(schema).is_ok_and(|data| has_length(&data) && matches!(data, DataType::List(_)))
                })
            {
                let what = format!("{} of arrays of this type as a window function", function.name());
                let error = SqlError::unsupported(what);
                return Err(datafusion::error::DataFusionError::External(Box::new(error)));
            }
            if is { Transformed::yes(Expr::WindowFunction(call)) } else { Transformed::no(Expr::WindowFunction(call)) }
        }
        other => Transformed::no(other),
    })
}

/// `min`, `max` and `count(DISTINCT …)` of intervals; of others, their ORDER BY.
fn aggregated(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    // Their accumulator tells equal values by what they are sorted by.
    let lists = matches!(call.func.name(), "array_agg" | "string_agg") && call.params.order_by.len() == 1;
    if lists && call.params.distinct && !is_by_values(&call.params, schema) {
        let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
        let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
        return Err(datafusion::error::DataFusionError::External(Box::new(error)));
    }
    let mut is = sort_keys(&mut call.params.order_by, schema);
    let is_extreme = matches!(call.func.name(), "min" | "max");
    match call.params.args.as_mut_slice() {
        [of] if is_exact(of, schema) && (is_extreme || EXACT_DISTINCT.contains(&call.func.name())) => {}
        _ if lists => {}
        // Items that are shown: each without zeros at its end.
        [of] if is_exact(of, schema) && call.params.distinct && call.func.name() == "array_agg" => {
            *of = trim().call(vec![std::mem::take(of)]);
            is = true;
        }
        [of] if is_extreme && has_key(of, schema) && !is_document(of, schema) => {
            let least = call.func.name() != max_udaf().name();
            let by = SortExpr { expr: compared_by(of.clone(), schema), asc: least, nulls_first: false };
            let AggregateFunctionParams { args, filter, .. } = call.params;
            let params =
                AggregateFunctionParams { args, distinct: false, filter, order_by: vec![by], null_treatment: None };
            call = AggregateFunction { func: first_value_udaf(), params };
            is = true;
        }
        [of] if call.params.distinct && call.func.name() == "count" && has_key(of, schema) => {
            *of = compared_by(std::mem::take(of), schema);
            is = true;
        }
        // DataFusion's set of composite values keeps the whole batch of each.
        [of] if call.params.distinct && call.func.name() == "count" && is_record(of, schema) => {
            *of = record_key().call(vec![with_keys(std::mem::take(of), schema)]);
            is = true;
        }
        all if call.params.distinct && all.iter().any(|of| has_key(of, schema) && !is_document(of, schema)) => {
            let error = SqlError::unsupported(format!("{} of DISTINCT intervals", call.func.name()));
            return Err(datafusion::error::DataFusionError::External(Box::new(error)));
        }
        _ => {}
    }
    let call = Expr::AggregateFunction(call);
    Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
}

/// Whether the order of an aggregate is that of its values, or of those that its items of JSON are texts of.
fn is_by_values(params: &AggregateFunctionParams, schema: &DFSchema) -> bool {
    let is_text = |of: &Expr| of.get_type(schema).is_ok_and(|data| data.is_string());
    let value = match params.args.first() {
        // Texts of another of Arrow's forms.
        Some(Expr::Cast(cast)) if is_text(&cast.expr) => Some(cast.expr.as_ref()),
        value => value,
    };
    let order = params.order_by.first().map(|order| &order.expr);
    order.is_some() && (order == params.args.first() || order == value || order == value.map(item))
}

fn is_record(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Struct(_)))
}

/// A composite value that is made here, of keys where its values have them.
fn with_keys(record: Expr, schema: &DFSchema) -> Expr {
    match record {
        Expr::ScalarFunction(mut call) if call.func.name() == RECORD => {
            for value in call.args.iter_mut().skip(1).step_by(2).filter(|value| has_key(value, schema)) {
                *value = compared_by(std::mem::take(value), schema);
            }
            Expr::ScalarFunction(call)
        }
        other => other,
    }
}

/// Aggregates that tell equal numerics themselves.
const EXACT_DISTINCT: [&str; 6] = ["sum", "avg", "stddev", "stddev_pop", "var", "var_pop"];

fn groups_by_keys(aggregate: &Aggregate) -> bool {
    let schema = aggregate.input.schema();
    let determined = determined(&aggregate.group_expr, schema);
    aggregate.group_expr.iter().any(|by| match by {
        Expr::GroupingSet(set) => set.distinct_expr().into_iter().any(|by| has_key(by, schema)),
        by => has_key(by, schema) && !determined.contains(by),
    })
}

/// What is grouped by, but is determined by the rest of it: it is the same in all rows of a group, and needs no key.
/// GROUP BY of a table's key is filled up with all columns of the table, most of which are left out again.
fn determined(group_expr: &[Expr], schema: &DFSchema) -> Vec<Expr> {
    let names = schema.field_names();
    let place = |by: &Expr| match by {
        Expr::Column(column) => names.iter().position(|name| *name == column.flat_name()),
        _ => None,
    };
    let places: Vec<Option<usize>> = group_expr.iter().map(place).collect();
    let keys: Vec<_> = schema
        .functional_dependencies()
        .iter()
        .filter(|key| !key.nullable && key.source_indices.iter().all(|source| places.contains(&Some(*source))))
        .collect();
    let is_determined = |place: usize| {
        keys.iter().any(|key| key.target_indices.contains(&place) && !key.source_indices.contains(&place))
    };
    let pairs = group_expr.iter().zip(&places);
    pairs.filter(|(_, place)| place.is_some_and(is_determined)).map(|(by, _)| by.clone()).collect()
}

/// The aggregation by keys, below a projection of what it had.
fn grouped_by_keys(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, mut aggr_expr, schema, .. } = aggregate;
    // The schema has each of them once.
    let mut seen = HashSet::new();
    let mut group_expr: Vec<Expr> = group_expr.into_iter().filter(|by| seen.insert(by.clone())).collect();
    let aggregates = aggr_expr.len();
    // What is grouped by, each once: of grouping sets it is what all of them have, and the set's number comes behind.
    let sets = group_expr.iter().find_map(|by| if let Expr::GroupingSet(set) = by { Some(set.clone()) } else { None });
    let (keys, groups): (Vec<Expr>, usize) = match &sets {
        Some(set) => {
            let keys: Vec<Expr> = set.distinct_expr().into_iter().cloned().collect();
            let groups = keys.len() + 1;
            (keys, groups)
        }
        None => (group_expr.clone(), group_expr.len()),
    };
    let mut places: Vec<usize> = (0..groups + aggregates).collect();
    let mut lengths: Vec<(Expr, Expr)> = Vec::new();
    let determined = if sets.is_some() { Vec::new() } else { determined(&group_expr, input.schema()) };
    let compared = |by: &Expr| has_key(by, input.schema()) && !determined.contains(by);
    for (at, of) in keys.iter().enumerate().filter(|(_, by)| compared(by)) {
        let params = AggregateFunctionParams {
            args: vec![of.clone()],
            distinct: false,
            filter: None,
            order_by: Vec::new(),
            null_treatment: None,
        };
        let first = Expr::AggregateFunction(AggregateFunction { func: first_value_udaf(), params });
        places[at] = groups + aggr_expr.len();
        aggr_expr.push(first.alias(format!("\u{1}first{at}")));
        lengths.push((of.clone(), compared_by(of.clone(), input.schema()).alias(format!("\u{1}length{at}"))));
    }
    let by_key = |by: &mut Expr| {
        if let Some((_, length)) = lengths.iter().find(|(of, _)| of == by) {
            *by = length.clone();
        }
    };
    for by in &mut group_expr {
        match by {
            Expr::GroupingSet(GroupingSet::Rollup(all) | GroupingSet::Cube(all)) => all.iter_mut().for_each(by_key),
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter_mut().flatten().for_each(by_key),
            by => by_key(by),
        }
    }
    let grouped = Aggregate::try_new(input, group_expr, aggr_expr)?;
    let columns = grouped.schema.columns();
    let shown = places.iter().enumerate().zip(schema.iter()).map(|((at, place), (qualifier, field))| {
        let column = columns[*place].clone();
        if sets.is_some() && *place != at {
            // A set without it has NULL in the place of its length, as a value that is NULL has.
            let length = Expr::Column(columns[at].clone());
            let first = when(length.is_not_null(), Expr::Column(column)).end()?;
            return Ok(documents::marked(first, &grouped.schema).alias_qualified(qualifier.cloned(), field.name()));
        }
        let same = column.relation.as_ref() == qualifier && column.name == *field.name();
        let column = Expr::Column(Column::new(column.relation, column.name));
        Ok(if same { column } else { column.alias_qualified(qualifier.cloned(), field.name()) })
    });
    let shown = shown.collect::<Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped)).project(shown)?.build()
}
