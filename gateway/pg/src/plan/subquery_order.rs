//! `ORDER BY` of a subquery, where something above it depends on the order of its rows.
//!
//! SQL leaves the order of a subquery's rows open; PostgreSQL keeps it, and people rely on that: BI tools put a user's
//! query into parentheses and LIMIT around it, and `array_agg` and `row_number() OVER ()` are asked of a subquery in
//! order. So the rows of a result, and those that LIMIT cuts, come in the subquery's order; aggregates that depend on
//! it, and window functions without an order of their own, get the subquery's as theirs. Where nothing asks for it —
//! below a join, in `IN (SELECT …)`, below `count` — the order goes, and nobody sorts.

use arrow::datatypes::FieldRef;
use datafusion::{
    common::{
        Column, DFSchemaRef, TableReference,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{
        Aggregate, Distinct, Expr, Filter, Limit, LogicalPlan, Projection, Sort, SortExpr, SubqueryAlias, Window,
        WindowFrame, WindowFrameUnits, WindowFunctionDefinition,
        expr::{AggregateFunction, WindowFunction},
    },
};
use std::{ops::Range, sync::Arc};

/// Aggregates whose result depends on the order of the rows.
const IN_ORDER: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];
/// What items of `jsonb_agg` and `json_agg` are written by.
const JSON_ITEMS: [&str; 2] = ["json_item", "json_line_item"];
/// Window functions whose result follows from which rows are peers, not from their places.
const OF_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// The plan of a query with the orders that are asked for.
///
/// # Errors
/// What DataFusion finds wrong with what it planned.
pub fn kept(plan: LogicalPlan) -> Result<LogicalPlan> {
    if has_inner_order(&plan)? { walk(plan, true) } else { Ok(plan) }
}

/// Whether a plan has an order below that of its result, or an aggregate that is to get one: most have none.
fn has_inner_order(plan: &LogicalPlan) -> Result<bool> {
    let mut top = plan;
    while let LogicalPlan::Limit(Limit { input, .. }) | LogicalPlan::Projection(Projection { input, .. }) = top {
        top = input;
    }
    let mut sorts = 0;
    let is_of_result = usize::from(matches!(top, LogicalPlan::Sort(_)));
    let found = plan.apply_with_subqueries(|node| {
        sorts += usize::from(matches!(node, LogicalPlan::Sort(_)));
        let distinct =
            matches!(node, LogicalPlan::Aggregate(of) if of.aggr_expr.iter().any(|expr| depends(expr, true)));
        Ok(if sorts > is_of_result || distinct { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found == TreeNodeRecursion::Stop)
}

/// Goes down a plan, which views may make deep; `asked` says whether something above depends on the order of its rows.
fn walk(plan: LogicalPlan, asked: bool) -> Result<LogicalPlan> {
    with_stack(|| step(plan, asked))
}

/// Runs a step of a recursion where there is stack for it.
fn with_stack<T>(run: impl FnOnce() -> T) -> T {
    /// Bytes that a step may take, with those of DataFusion between two of them.
    const STEP: usize = 256 << 10;
    stacker::maybe_grow(STEP, 8 * STEP, run)
}

fn step(plan: LogicalPlan, asked: bool) -> Result<LogicalPlan> {
    let (plan, below) = match plan {
        LogicalPlan::Sort(sort) if !asked && sort.fetch.is_none() => {
            return walk(Arc::unwrap_or_clone(sort.input), false);
        }
        LogicalPlan::Sort(sort) => (LogicalPlan::Sort(sort), false),
        LogicalPlan::Limit(limit) => (LogicalPlan::Limit(limit), true),
        // An order that cannot be handed on, as one by `random()`, is left where it is.
        LogicalPlan::Aggregate(aggregate) => {
            let plan = aggregated(aggregate)?;
            let unmet =
                matches!(&plan, LogicalPlan::Aggregate(left) if left.aggr_expr.iter().any(|expr| depends(expr, false)));
            (plan, unmet)
        }
        LogicalPlan::Window(window) => {
            let plan = windowed(window)?;
            let unmet = matches!(&plan, LogicalPlan::Window(left)
                if left.window_expr.iter().any(depends_on_places));
            (plan, asked || unmet)
        }
        LogicalPlan::Join(join) => (LogicalPlan::Join(join), false),
        LogicalPlan::Distinct(Distinct::All(input)) => (LogicalPlan::Distinct(Distinct::All(input)), false),
        other => (other, asked),
    };
    // What stands above an aggregate or a window that got an order only names its columns.
    let mut plan = plan.map_children(|child| Ok(Transformed::yes(walk(child, below)?)))?.data;
    plan = plan.map_subqueries(|subquery| Ok(Transformed::yes(inner(subquery)?)))?.data;
    Ok(plan)
}

/// A subquery of an expression.
fn inner(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(mut subquery) => {
            subquery.subquery = Arc::new(walk(Arc::unwrap_or_clone(subquery.subquery), false)?);
            Ok(LogicalPlan::Subquery(subquery))
        }
        other => walk(other, false),
    }
}

/// Aggregates that depend on an order: in that of their input, and with DISTINCT in that of their values, as PostgreSQL
/// sorts these.
fn aggregated(aggregate: Aggregate) -> Result<LogicalPlan> {
    let of_input = aggregate.aggr_expr.iter().any(|expr| depends(expr, false));
    let of_values = aggregate.aggr_expr.iter().any(|expr| depends(expr, true));
    let found = if of_input { order_of(&aggregate.input)? } else { None };
    if found.is_none() && !of_values {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let (input, order) = match found {
        Some((input, order)) => (Arc::new(input), order),
        None => (Arc::clone(&aggregate.input), Vec::new()),
    };
    let put = |expr: Expr| match expr {
        Expr::AggregateFunction(mut call) if depends_on_order(&call) => {
            let values =
                || call.params.args.first().map(|value| item(value).clone().sort(true, false)).into_iter().collect();
            call.params.order_by = if call.params.distinct { values() } else { order.clone() };
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    };
    let in_order = |expr: Expr| expr.transform_down(put).map(|new| new.data);
    let aggregates = aggregate.aggr_expr.into_iter().map(in_order).collect::<Result<Vec<_>>>()?;
    let ordered = Aggregate::try_new(input, aggregate.group_expr, aggregates)?;
    named(LogicalPlan::Aggregate(ordered), &aggregate.schema, 0..0)
}

/// Whether an expression is an aggregate without an order that depends on one, and has DISTINCT or not.
fn depends(expr: &Expr, distinct: bool) -> bool {
    match bare(expr) {
        Expr::AggregateFunction(call) => depends_on_order(call) && call.params.distinct == distinct,
        _ => false,
    }
}

/// An expression without its names.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        other => other,
    }
}

/// Whether an aggregate without an order depends on one.
fn depends_on_order(call: &AggregateFunction) -> bool {
    IN_ORDER.contains(&call.func.name()) && call.params.order_by.is_empty()
}

/// The value that an item of JSON is the text of; another value is its own.
pub(crate) fn item(value: &Expr) -> &Expr {
    match value {
        Expr::ScalarFunction(call) if JSON_ITEMS.contains(&call.func.name()) => call.args.first().unwrap_or(value),
        value => value,
    }
}

/// Window functions that depend on an order and have none, in that of their input.
fn windowed(window: Window) -> Result<LogicalPlan> {
    if !window.window_expr.iter().any(depends_on_places) {
        return Ok(LogicalPlan::Window(window));
    }
    let Some((input, order)) = order_of(&window.input)? else { return Ok(LogicalPlan::Window(window)) };
    let put = |expr: Expr| match expr {
        Expr::WindowFunction(mut call) if is_of_places(&call) => {
            call.params.order_by = order.clone();
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    };
    let calls = window.window_expr.into_iter().map(|expr| expr.transform_down(put).map(|new| new.data));
    let (columns, all) = (window.input.schema().fields().len(), input.schema().fields().len());
    let ordered = Window::try_new(calls.collect::<Result<Vec<_>>>()?, Arc::new(input))?;
    named(LogicalPlan::Window(ordered), &window.schema, columns..all)
}

/// Whether a window function without an order depends on the places of rows.
fn depends_on_places(expr: &Expr) -> bool {
    matches!(bare(expr), Expr::WindowFunction(call) if is_of_places(call))
}

fn is_of_places(WindowFunction { fun, params }: &WindowFunction) -> bool {
    if !params.order_by.is_empty() || OF_PEERS.contains(&fun.name()) {
        return false;
    }
    match fun {
        WindowFunctionDefinition::WindowUDF(_) => true,
        WindowFunctionDefinition::AggregateUDF(function) => {
            let whole = WindowFrame::new(None);
            let cut = params.window_frame.units == WindowFrameUnits::Rows && params.window_frame != whole;
            cut || IN_ORDER.contains(&function.name())
        }
    }
}

/// The columns of a plan, without those at the places that were `added`, under the names that they had.
fn named(plan: LogicalPlan, schema: &DFSchemaRef, added: Range<usize>) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().enumerate();
    let kept = columns.filter(|(at, _)| !added.contains(at));
    let renamed = kept.map(|(_, column)| Column::from(column)).zip(schema.iter()).map(renamed).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(renamed, Arc::new(plan))?))
}

fn renamed((column, (qualifier, field)): (Column, (Option<&TableReference>, &FieldRef))) -> Expr {
    let same = column.relation.as_ref() == qualifier && column.name == *field.name();
    let expr = Expr::Column(column);
    if same { expr } else { expr.alias_qualified(qualifier.cloned(), field.name()) }
}

/// A plan with the order of its rows by its own columns, some of which were added at its end; `None` for a plan whose
/// rows have no order.
fn order_of(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    with_stack(|| order_below(plan))
}

fn order_below(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    Ok(match plan {
        LogicalPlan::Sort(sort) if sort.expr.iter().any(|order| order.expr.is_volatile()) => Some(by_columns(sort)?),
        LogicalPlan::Sort(Sort { expr, .. }) => Some((plan.clone(), expr.clone())),
        LogicalPlan::Limit(limit) => order_of(&limit.input)?
            .map(|(input, order)| (LogicalPlan::Limit(Limit { input: Arc::new(input), ..limit.clone() }), order)),
        LogicalPlan::Filter(filter) => match order_of(&filter.input)? {
            Some((input, order)) => {
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
                Some((LogicalPlan::Filter(filter), order))
            }
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match order_of(&alias.input)? {
            Some((input, order)) => {
                let named = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                let above = |expr: Expr| match &expr {
                    Expr::Column(column) => {
                        let at = named.input.schema().index_of_column(column)?;
                        let (qualifier, field) = named.schema.qualified_field(at);
                        Ok(Transformed::yes(Expr::Column(Column::from((qualifier, field)))))
                    }
                    _ => Ok(Transformed::no(expr)),
                };
                let moved = order.into_iter().map(|sort| {
                    let expr = sort.expr.transform_up(above)?.data;
                    Ok(SortExpr { expr, ..sort })
                });
                let order = moved.collect::<Result<Vec<_>>>()?;
                Some((LogicalPlan::SubqueryAlias(named), order))
            }
            None => None,
        },
        LogicalPlan::Projection(projection) => match order_of(&projection.input)? {
            Some((input, order)) => Some(projected(projection, input, order)?),
            None => None,
        },
        LogicalPlan::Window(window) => match order_of(&window.input)? {
            // The columns of the window would follow those that were added.
            Some((input, order)) if input.schema().fields().len() == window.input.schema().fields().len() => {
                Some((LogicalPlan::Window(Window::try_new(window.window_expr.clone(), Arc::new(input))?), order))
            }
            _ => None,
        },
        _ => None,
    })
}

/// An order by what has another value each time, as `random()`: by columns that have the values.
fn by_columns(sort: &Sort) -> Result<(LogicalPlan, Vec<SortExpr>)> {
    let columns = sort.input.schema().columns();
    let first = columns.len();
    let values = sort.expr.iter().enumerate();
    let values = values.map(|(at, order)| order.expr.clone().alias(format!("order {}", first + at)));
    let items = columns.into_iter().map(Expr::Column).chain(values).collect();
    let input = Projection::try_new(items, Arc::clone(&sort.input))?;
    let column = |at: usize| Expr::Column(Column::from(input.schema.qualified_field(first + at)));
    let order: Vec<SortExpr> =
        sort.expr.iter().enumerate().map(|(at, order)| SortExpr { expr: column(at), ..order.clone() }).collect();
    let sorted = Sort { expr: order.clone(), input: Arc::new(LogicalPlan::Projection(input)), fetch: sort.fetch };
    Ok((LogicalPlan::Sort(sorted), order))
}

/// A projection of rows in an order, with what the order needs.
fn projected(
    projection: &Projection,
    input: LogicalPlan,
    order: Vec<SortExpr>,
) -> Result<(LogicalPlan, Vec<SortExpr>)> {
    let mut items = projection.expr.clone();
    let mut places = Vec::with_capacity(order.len());
    for sort in &order {
        let at = items.iter().position(|item| *bare(item) == sort.expr);
        places.push(at.unwrap_or_else(|| {
            items.push(sort.expr.clone().alias(format!("order {}", items.len())));
            items.len() - 1
        }));
    }
    let projection = Projection::try_new(items, Arc::new(input))?;
    let column = |at: usize| Expr::Column(Column::from(projection.schema.qualified_field(at)));
    let order = order.into_iter().zip(places).map(|(sort, at)| SortExpr { expr: column(at), ..sort }).collect();
    Ok((LogicalPlan::Projection(projection), order))
}
