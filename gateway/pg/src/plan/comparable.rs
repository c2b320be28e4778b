//! Types that PostgreSQL does not compare and DataFusion does: text and numbers, which would be compared by what the
//! texts read as; an analyzer rule. Also `concat` of booleans, which are `t` and `f` there.
//!
//! A quoted text takes the type beside it, so that only what has the type `text` is refused.

use super::each_expr::{EachExpr, Order};
use crate::{
    common_type::is_unknown,
    error::{SqlError, SqlState},
    functions::scalar_function::external,
    types::{self, is_text},
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    error::{DataFusionError, Result},
    functions::unicode::expr_fn::left,
    logical_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, expr::InList},
    optimizer::AnalyzerRule,
    prelude::lit,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The rule.
pub fn comparable() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr { name: "comparable", order: Order::LeavesFirst, rewrite: |expr, schema, _| check(expr, schema) })
}

fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => pair(left, *op, right, schema)?,
        Expr::InList(InList { expr: value, list, .. }) => {
            list.iter().try_for_each(|item| pair(value, Operator::Eq, item, schema))?;
        }
        Expr::Between(Between { expr: value, low, high, .. }) => {
            pair(value, Operator::GtEq, low, schema)?;
            pair(value, Operator::LtEq, high, schema)?;
        }
        Expr::Case(Case { expr: Some(value), when_then_expr, .. }) => {
            when_then_expr.iter().try_for_each(|(when, _)| pair(value, Operator::Eq, when, schema))?;
        }
        Expr::ScalarFunction(call) if matches!(call.func.name(), "concat" | "concat_ws") => {
            return Ok(short_booleans(expr, schema));
        }
        _ => {}
    }
    Ok(Transformed::no(expr))
}

fn is_comparison(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// 42883 for a text and a number.
fn pair(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<()> {
    // The type of a parameter without one follows from the other side.
    let is_open =
        |expr: &Expr| is_unknown(expr) || matches!(expr, Expr::Placeholder(_) | Expr::Literal(ScalarValue::Null, _));
    if is_open(left) || is_open(right) {
        return Ok(());
    }
    let (Ok((_, a)), Ok((_, b))) = (left.to_field(schema), right.to_field(schema)) else { return Ok(()) };
    // Not OIDs: what is one in PostgreSQL's catalog is a name here in some columns.
    let numbers = |data: &DataType| {
        data.is_signed_integer()
            || data.is_floating()
            || matches!(data, DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::LargeBinary)
    };
    let of_bits = |data: &DataType| types::is_bits(data) && !data.is_null();
    let refused = of_bits(a.data_type()) != of_bits(b.data_type())
        || (is_text(a.data_type()) && numbers(b.data_type()))
        || (numbers(a.data_type()) && is_text(b.data_type()));
    if !refused {
        return Ok(());
    }
    Err(undefined((left, &a), op, (right, &b)))
}

/// 42883 for an operator that nobody defines for its sides' types.
pub(super) fn undefined(
    (left, a): (&Expr, &Field),
    op: impl std::fmt::Display,
    (right, b): (&Expr, &Field),
) -> DataFusionError {
    let name = |expr: &Expr, field: &Field| match expr {
        // A whole number that is written out is an integer where it fits.
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok() => "integer".to_owned(),
        _ => match types::sql_type(field) {
            Some(keyspan_catalog::SqlType::Numeric { .. }) => "numeric".to_owned(),
            Some(keyspan_catalog::SqlType::Varchar(_)) => "character varying".to_owned(),
            Some(kind) => types::type_name(kind),
            None => types::pg_type(field).name().to_owned(),
        },
    };
    let message = format!("operator does not exist: {} {op} {}", name(left, a), name(right, b));
    external(
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        ),
    )
}

/// Booleans that are joined to a text.
fn short_booleans(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut call) = expr else { return Transformed::no(expr) };
    let mut any = false;
    for argument in &mut call.args {
        if argument.get_type(schema).is_ok_and(|data| data == DataType::Boolean) {
            let word = Expr::Cast(Cast::new(Box::new(std::mem::take(argument)), DataType::Utf8));
            *argument = left(word, lit(1_i64));
            any = true;
        }
    }
    let call = Expr::ScalarFunction(call);
    if any { Transformed::yes(call) } else { Transformed::no(call) }
}
