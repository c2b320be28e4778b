//! `(a, b) OVERLAPS (c, d)`: whether two spans of time have a moment in common, as a CASE.
//!
//! An end may be an interval from the beginning, and the ends of a span may stand in either order. Spans are half-open,
//! but a moment is in the span that begins with it. Of a span with one NULL the other end is known: the answer is NULL
//! where it depends on the unknown one (PostgreSQL's `overlaps_timestamp`).

use super::{build::parsed_expr, records::fields};
use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr};

/// The CASE; `None` for other expressions.
///
/// # Errors
/// 42601 for a span that is not of two ends.
pub(crate) fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = expr else { return Ok(None) };
    let wrong =
        |side: &str| SqlError::syntax(format!("wrong number of parameters on {side} side of OVERLAPS expression"));
    let left = span(left).ok_or_else(|| wrong("left"))?;
    let right = span(right).ok_or_else(|| wrong("right"))?;
    let (from, to, open) = &left;
    let (other_from, other_to, other_open) = &right;
    let text = format!(
        "CASE WHEN {from} IS NULL OR {other_from} IS NULL THEN NULL \
         WHEN {from} > {other_from} THEN CASE WHEN {other_open} THEN NULL WHEN {from} < {other_to} THEN true WHEN {open} THEN NULL ELSE false END \
         WHEN {from} < {other_from} THEN CASE WHEN {open} THEN NULL WHEN {other_from} < {to} THEN true WHEN {other_open} THEN NULL ELSE false END \
         WHEN {open} OR {other_open} THEN NULL ELSE true END"
    );
    Ok(Some(Expr::Nested(Box::new(parsed_expr(&text)?))))
}

/// The beginning and the end of a span, and whether one of them is NULL, as texts.
fn span(expr: &Expr) -> Option<(String, String, String)> {
    let ends = fields(expr)?;
    let [from, to] = ends.as_slice() else { return None };
    let to = if is_interval(to) { format!("({from} + {to})") } else { format!("({to})") };
    let open = format!("(({from}) IS NULL OR {to} IS NULL)");
    Some((format!("least({from}, {to})"), format!("greatest({from}, {to})"), open))
}

fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Cast { data_type, .. }
        | Expr::TypedString(datafusion::sql::sqlparser::ast::TypedString { data_type, .. }) => {
            matches!(data_type, DataType::Interval { .. })
        }
        Expr::Nested(inner) => is_interval(inner),
        _ => false,
    }
}
