//! `(a, b) OVERLAPS (c, d)`: whether two spans of time have a moment in common, as a CASE.
//!
//! An end may be an interval from the beginning, and the ends of a span may stand in either order. Spans are half-open,
//! but a moment is in the span that begins with it. Of a span with one NULL the other end is known: the answer is NULL
//! where it depends on the unknown one (PostgreSQL's `overlaps_timestamp`).

use super::{build::parsed_expr, calls::SPAN_END, records::fields};
use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, visit_expressions_mut};
use std::ops::ControlFlow;

/// How the names begin that stand for the ends of spans in the CASE, until it is read.
const END: &str = "\u{1}end of ";

/// The CASE; `None` for other expressions.
///
/// # Errors
/// 42601 for a span that is not of two ends.
pub(crate) fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } = expr else { return Ok(None) };
    let ends = |side: &str, expr: &Expr| match fields(expr).map(<[Expr; 2]>::try_from) {
        Some(Ok(ends)) => Ok(ends),
        _ => Err(SqlError::syntax(format!("wrong number of parameters on {side} side of OVERLAPS expression"))),
    };
    let spans = [ends("left", left)?, ends("right", right)?];
    let [(from, to, open), (other_from, other_to, other_open)] = [("left", &spans[0]), ("right", &spans[1])].map(span);
    let text = format!(
        "CASE WHEN {from} IS NULL OR {other_from} IS NULL THEN NULL \
         WHEN {from} > {other_from} THEN CASE WHEN {other_open} THEN NULL WHEN {from} < {other_to} THEN true WHEN {open} THEN NULL ELSE false END \
         WHEN {from} < {other_from} THEN CASE WHEN {open} THEN NULL WHEN {other_from} < {to} THEN true WHEN {other_open} THEN NULL ELSE false END \
         WHEN {open} OR {other_open} THEN NULL ELSE true END"
    );
    let mut case = parsed_expr(&text)?;
    let _: ControlFlow<()> = visit_expressions_mut(&mut case, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(side) = name.value.strip_prefix(END)
        {
            let [from, to] =
                spans[usize::from(side == "right")].clone().map(|end| Box::new(Expr::Nested(Box::new(end))));
            let end = Expr::BinaryOp { left: from, op: BinaryOperator::Custom(SPAN_END.to_owned()), right: to };
            *expr = Expr::Nested(Box::new(end));
        }
        ControlFlow::Continue(())
    });
    Ok(Some(Expr::Nested(Box::new(case))))
}

/// The beginning and the end of a span, and whether one of them is NULL, as texts.
fn span((side, [from, _]): (&str, &[Expr; 2])) -> (String, String, String) {
    let to = format!("\"{END}{side}\"");
    let open = format!("(({from}) IS NULL OR {to} IS NULL)");
    (format!("least({from}, {to})"), format!("greatest({from}, {to})"), open)
}
