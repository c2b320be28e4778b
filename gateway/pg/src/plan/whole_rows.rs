//! Functions that see whole rows, whose columns the passes over the syntax tree do not know: an analyzer rule writes
//! them out.
//!
//! - [`OCCURRENCE`], an item of a select list, numbers the rows that are equal: `A INTERSECT ALL B` is the INTERSECT of
//!   rows with these numbers.
//! - [`ROW_SHARE`], in a filter, is a number from 0 to 1 made of a row's values and a seed, for
//!   `TABLESAMPLE … REPEATABLE`.

use crate::{
    error::{SqlError, SqlState},
    functions::scalar_function::{self, external, nullable, strict, variadic},
};
use arrow::datatypes::DataType;
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    config::ConfigOptions,
    error::Result,
    functions_window::row_number::row_number_udwf,
    logical_expr::{
        Expr, ExprFunctionExt, Filter, LogicalPlan, LogicalPlanBuilder, Projection, ScalarUDF,
        expr::{ScalarFunction, WindowFunction},
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Numbers rows that are equal.
pub(crate) const OCCURRENCE: &str = "keyspan_occurrence";
/// A number from 0 to 1 of a seed and a row.
pub(crate) const ROW_SHARE: &str = "keyspan_row_share";
/// Whether a number from 0 to 1 lies below a percentage.
pub(crate) const SAMPLED: &str = "keyspan_sampled";

/// The functions, most of which only the rule sees.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions([
        scalar_function::row_function(OCCURRENCE, 0..=0, DataType::Int64, |_, _| Ok(ScalarValue::Int64(None))),
        variadic(
            ROW_SHARE,
            1,
            |_| nullable(DataType::Float64),
            |call| {
                let mut hasher = DefaultHasher::new();
                call.values.hash(&mut hasher);
                // As many bits as a double holds.
                Ok(ScalarValue::Float64(Some((hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64)))
            },
        ),
        strict(
            SAMPLED,
            2..=2,
            |_| nullable(DataType::Boolean),
            |call| {
                let float = |at: usize| crate::numeric::cast::float(&call.values[at]);
                let refused = |message: &str| external(SqlError::new(SqlState::INVALID_TABLESAMPLE_ARGUMENT, message));
                match float(0)? {
                    None => Err(refused("TABLESAMPLE parameter cannot be null")),
                    Some(part) if (0.0..=100.0).contains(&part) => {
                        Ok(ScalarValue::Boolean(float(1)?.map(|share| share * 100.0 < part)))
                    }
                    Some(_) => Err(refused("sample percentage must be between 0 and 100")),
                }
            },
        )
        .with_nulls(),
    ])
}

/// The rule.
#[derive(Debug)]
pub struct WholeRows;

impl AnalyzerRule for WholeRows {
    fn name(&self) -> &str {
        "whole_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Projection(projection) if projection.expr.iter().any(|expr| calls(expr, OCCURRENCE)) => {
                numbered(projection).map(Transformed::yes)
            }
            LogicalPlan::Filter(filter) if calls(&filter.predicate, ROW_SHARE) => shared(filter).map(Transformed::yes),
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(rewritten.data)
    }
}

fn calls(expr: &Expr, name: &str) -> bool {
    expr.exists(|expr| Ok(is_call(expr, name))).unwrap_or(false)
}

fn is_call(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == name)
}

/// The call as `row_number()` over rows that are equal.
fn numbered(projection: &Projection) -> Result<LogicalPlan> {
    let input = projection.input.as_ref().clone();
    let columns = input.schema().columns();
    let equal = columns.iter().cloned().map(Expr::Column).collect();
    let number = Expr::from(WindowFunction::new(row_number_udwf(), Vec::new())).partition_by(equal).build()?;
    let with_number = LogicalPlanBuilder::from(input).window([number])?;
    let number = with_number.schema().columns().into_iter().find(|column| !columns.contains(column));
    let items = projection.expr.iter().map(|item| {
        let replaced = item.clone().transform_up(|expr| match &number {
            Some(number) if is_call(&expr, OCCURRENCE) => Ok(Transformed::yes(Expr::Column(number.clone()))),
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(replaced.data)
    });
    with_number.project(items.collect::<Result<Vec<_>>>()?)?.build()
}

/// The call with all columns of the row.
fn shared(filter: &Filter) -> Result<LogicalPlan> {
    let columns = filter.input.schema().columns();
    let predicate = filter.predicate.clone().transform_up(|expr| match expr {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == ROW_SHARE && args.len() == 1 => {
            args.extend(columns.iter().cloned().map(Expr::Column));
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(LogicalPlan::Filter(Filter::new(predicate.data, Arc::clone(&filter.input))))
}
