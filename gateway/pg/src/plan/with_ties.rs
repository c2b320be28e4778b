//! `FETCH FIRST n ROWS WITH TIES`: the rows that are no later in the order than the last of the first `n`.
//!
//! The parser writes the number as a call of [`WITH_TIES`] in LIMIT. The rule makes a filter of it, by the rank of each
//! row in the order of the query:
//!
//! ```text
//! Limit: skip=m, fetch=with_ties(n)        Limit: skip=m
//!   Sort: a                           →      Sort: a
//!                                              Filter: rank() OVER (ORDER BY a) <= m + n
//! ```

use crate::functions::scalar_function::{self, nullable, strict};
use arrow::datatypes::DataType;
use datafusion::{
    common::{plan_err, tree_node::Transformed},
    config::ConfigOptions,
    error::Result,
    functions_window::rank::rank_udwf,
    logical_expr::{
        Cast, Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Sort,
        expr::{ScalarFunction, WindowFunction},
    },
    optimizer::AnalyzerRule,
    prelude::lit,
};
use std::sync::Arc;

/// The function around a number of rows with ties.
pub const WITH_TIES: &str = "keyspan_with_ties";

/// The function, which only the rule sees.
pub fn function() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions([strict(
        WITH_TIES,
        1..=1,
        |_| nullable(DataType::Int64),
        |call| call.values[0].cast_to(&DataType::Int64),
    )])
}

/// The rule.
#[derive(Debug)]
pub struct WithTies;

impl AnalyzerRule for WithTies {
    fn name(&self) -> &str {
        "with_ties"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Limit(limit) => match number(limit.fetch.as_deref()) {
                Some(rows) => ranked(limit, rows).map(Transformed::yes),
                None => Ok(Transformed::no(node)),
            },
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(rewritten.data)
    }
}

/// The number within the call, if there is one.
fn number(fetch: Option<&Expr>) -> Option<Expr> {
    match fetch? {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == WITH_TIES => args.first().cloned(),
        Expr::Cast(Cast { expr, .. }) => number(Some(expr)),
        _ => None,
    }
}

fn ranked(limit: &Limit, rows: Expr) -> Result<LogicalPlan> {
    // Columns of the order that the select list does not have are dropped above the sort.
    let (sort, shown) = match limit.input.as_ref() {
        LogicalPlan::Sort(sort) => (sort, None),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) => (sort, Some(projection.expr.clone())),
            _ => return plan_err!("WITH TIES cannot be specified without ORDER BY clause"),
        },
        _ => return plan_err!("WITH TIES cannot be specified without ORDER BY clause"),
    };
    let Sort { expr: orders, input, .. } = sort;
    let columns = input.schema().columns();
    let rank = Expr::from(WindowFunction::new(rank_udwf(), Vec::new())).order_by(orders.clone()).build()?;
    let with_rank = LogicalPlanBuilder::from(input.as_ref().clone()).window([rank])?;
    let Some(rank) = with_rank.schema().columns().into_iter().find(|column| !columns.contains(column)) else {
        return plan_err!("WITH TIES has no rank");
    };
    let int = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Int64));
    let before = limit.skip.as_deref().cloned().unwrap_or_else(|| lit(0_i64));
    let sorted = with_rank.filter(int(Expr::Column(rank)).lt_eq(int(before) + int(rows)))?.sort(orders.clone())?;
    let skipped = match &limit.skip {
        Some(skip) => sorted.limit_by_expr(Some(skip.as_ref().clone()), None)?,
        None => sorted,
    };
    skipped.project(shown.unwrap_or_else(|| columns.into_iter().map(Expr::Column).collect()))?.build()
}
