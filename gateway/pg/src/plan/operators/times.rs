//! Operators of dates, times of day, timestamps and intervals.

use super::is_comparison;
use crate::{
    common_type::is_unknown,
    functions::{self, planned},
    numeric, types,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::DFSchema,
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable, Operator, ScalarUDF, binary_expr,
        planner::{PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator as Sql,
};
use std::sync::Arc;

/// Sides that are times of day or intervals, or become so beside one.
pub(super) fn clocks_and_spans(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, mut left, mut right } = expr;
    if matches!(op, Sql::Plus | Sql::Minus) {
        left = spanned(left, &right, &op, schema);
        right = spanned(right, &left, &op, schema);
        (left, right) = clocks(left, right, &op, schema)?;
    }
    let left = as_interval(left, &right, &op, schema);
    let right = as_interval(right, &left, &op, schema);
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

/// Sides of a sum or a difference with a time of day: beside one a quoted text that is subtracted, or subtracted from,
/// is one too, and beside a timestamp a time is an interval.
fn clocks(left: Expr, right: Expr, op: &Sql, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let is_time = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Time64(_)));
    let is_stamp = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Timestamp(..)));
    let interval = |side: Expr| Expr::Cast(Cast::new(Box::new(side), types::INTERVAL));
    let time = |side: Expr| Expr::Cast(Cast::new(Box::new(side), types::TIME));
    let minus = matches!(op, Sql::Minus);
    Ok(match (is_time(&left), is_time(&right)) {
        (true, true) if !minus => {
            let name = types::type_name(keyspan_catalog::SqlType::Time(None));
            let message = format!("operator is not unique: {name} + {name}");
            let error = crate::error::SqlError::new(crate::error::SqlState::AMBIGUOUS_FUNCTION, message)
                .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.");
            return Err(datafusion::error::DataFusionError::External(Box::new(error)));
        }
        (true, false) if minus && is_unknown(&right) => (left, time(right)),
        (false, true) if minus && is_unknown(&left) => (time(left), right),
        (true, false) if !minus && is_stamp(&right) => (interval(left), right),
        (false, true) if is_stamp(&left) => (left, interval(right)),
        // A date and a time are a timestamp.
        (false, true) if minus && matches!(left.get_type(schema), Ok(DataType::Date32 | DataType::Interval(_))) => {
            (left, interval(right))
        }
        _ => (left, right),
    })
}

/// A time of day as the interval since midnight, where an operator takes no time beside the other side: a number, or an
/// interval that it is compared with.
fn as_interval(side: Expr, other: &Expr, op: &Sql, schema: &DFSchema) -> Expr {
    let compares = is_comparison(op);
    let counts = matches!(op, Sql::Multiply | Sql::Divide);
    let becomes = match (side.get_type(schema), other.get_type(schema)) {
        (Ok(DataType::Time64(_)), Ok(DataType::Interval(_))) => compares,
        (Ok(DataType::Time64(_)), Ok(other)) => counts && numeric::is_number(&other),
        _ => false,
    };
    if becomes { Expr::Cast(Cast::new(Box::new(side), types::INTERVAL)) } else { side }
}

/// A quoted text that is added to an interval or a time, or taken from an interval, as an interval.
fn spanned(side: Expr, other: &Expr, op: &Sql, schema: &DFSchema) -> Expr {
    let beside = match other.get_type(schema) {
        Ok(DataType::Interval(_)) => true,
        Ok(DataType::Time64(_) | DataType::Timestamp(..)) => matches!(op, Sql::Plus),
        _ => false,
    };
    if beside && is_unknown(&side) { Expr::Cast(Cast::new(Box::new(side), types::INTERVAL)) } else { side }
}

/// Arithmetic of intervals with numbers.
pub(super) fn spans(op: &Sql, left: &Expr, a: &DataType, right: &Expr, b: &DataType) -> Option<Expr> {
    let call =
        |function: Arc<ScalarUDF>, left: &Expr, right: &Expr| Some(function.call(vec![left.clone(), right.clone()]));
    match (op, a, b) {
        (Sql::Multiply, DataType::Interval(_), b) if numeric::is_number(b) => {
            call(planned::interval_times(), left, right)
        }
        (Sql::Multiply, a, DataType::Interval(_)) if numeric::is_number(a) => {
            call(planned::interval_times(), right, left)
        }
        (Sql::Divide, DataType::Interval(_), b) if numeric::is_number(b) => call(planned::interval_over(), left, right),
        _ => None,
    }
}

pub(super) fn is_span(data: &DataType) -> bool {
    matches!(data, DataType::Interval(_) | DataType::Duration(_))
}

/// Arithmetic of dates and times that Arrow has otherwise.
pub(super) fn dates(op: &Sql, left: &Expr, a: &DataType, right: &Expr, b: &DataType) -> Option<Expr> {
    let days = |expr: &Expr| Expr::Cast(Cast::new(Box::new(expr.clone()), DataType::Int32));
    let date = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Date32));
    match (op, a, b) {
        (Sql::Minus, DataType::Date32, DataType::Date32) => Some(binary_expr(days(left), Operator::Minus, days(right))),
        (Sql::Plus, DataType::Date32, b) if b.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Plus, days(right))))
        }
        (Sql::Minus, DataType::Date32, b) if b.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Minus, days(right))))
        }
        (Sql::Plus, a, DataType::Date32) if a.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Plus, days(right))))
        }
        (Sql::Plus | Sql::Minus, DataType::Date32, DataType::Interval(_)) => {
            let operator = if matches!(op, Sql::Plus) { Operator::Plus } else { Operator::Minus };
            let start = Expr::Cast(Cast::new(Box::new(left.clone()), types::TIMESTAMP));
            Some(binary_expr(start, operator, right.clone()))
        }
        (Sql::Minus, DataType::Timestamp(..) | DataType::Date32, DataType::Timestamp(..) | DataType::Date32) => {
            // Local time beside a `timestamptz` is one, too.
            let zoned = [a, b].iter().any(|data| matches!(data, DataType::Timestamp(_, Some(_))));
            let target = if zoned { types::timestamptz() } else { types::TIMESTAMP };
            let micros = |expr: &Expr| {
                let stamp = Expr::Cast(Cast::new(Box::new(expr.clone()), target.clone()));
                Expr::Cast(Cast::new(Box::new(stamp), DataType::Int64))
            };
            Some(functions::span_between().call(vec![micros(left), micros(right)]))
        }
        _ => None,
    }
}
