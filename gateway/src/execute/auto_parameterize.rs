//! Queries that differ in their values alone: each of them a text of its own, with a time or a name that is compared
//! with a column. Dashboards send such texts all day, and would pay for a plan each time.
//!
//! ```text
//! SELECT … WHERE host = 'a' AND ts >= '2026-01-01' ──▶ SELECT … WHERE host = $1 AND ts >= $2,  'a', '2026-01-01'
//! ```
//!
//! Values that WHERE compares with a column are [lifted](lift) out of the syntax tree. What is left is prepared when it
//! comes again, and each text of its kind runs as that prepared statement with its values: what such a value means,
//! PostgreSQL takes from the column in either case. A text whose values are none of their columns' types, or whose plan
//! may not be kept, is planned as it stands. So is each that came first, unless it needs no plan
//! ([`point`]) with values that have the types of their columns.

use super::Runs;
use crate::pg::datetime::Input;
use crate::{
    pg::{
        codec::{format::Format, parameter},
        error::Result,
        types,
    },
    point,
    session::{
        Prepared, Session,
        plan_cache::{Parameterized, TreeEntry},
    },
    sql::ast::Statement,
    view::View,
};
use arrow::datatypes::DataType;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Expr, SetExpr, Value, visit_expressions},
};
use std::{ops::ControlFlow, sync::Arc};

/// Values that are lifted out of a text, at most; one with more is planned as it stands.
const VALUES_MAX: usize = 256;

/// A query that has no parameters, prepared as others of its kind were; `None` when it is to be planned as it stands.
pub(crate) async fn prepare(session: &mut Session, statement: &ast::Statement, view: &View) -> Option<Prepared> {
    let (kind, values) = lift(statement)?;
    let key = session.cache_key();
    let prepared = match session.plan_cache.trees.take(&kind, &key) {
        Some(prepared) => prepared?,
        None => {
            let came_before = session.plan_cache.trees.once.occurred(&kind);
            let again = Statement::Query(Box::new(kind.clone()));
            let needs_no_plan = || session.takes_fast_path() && point::compile(&again, &[], view).is_some();
            if !came_before && !needs_no_plan() {
                return None;
            }
            // Errors are those of the statement as it was written.
            let prepared = Box::pin(super::prepare(session, again, &[], Runs::Later)).await.ok();
            let is_kept = |one: &Prepared| one.kept.is_compiled() || one.plans.may_be_kept();
            let prepared = prepared.filter(|one| one.parameters.len() == values.len() && is_kept(one));
            if came_before {
                session.plan_cache.trees.store(TreeEntry {
                    tree: kind,
                    key: session.cache_key(),
                    prepared: prepared.clone(),
                });
            }
            prepared?
        }
    };
    let input = session.input();
    let values =
        values.iter().zip(&prepared.parameters).map(|(value, wanted)| value.of_type(&wanted.data, input.input()));
    let values = values.collect::<Result<Option<Vec<_>>>>().ok()??;
    let columns = prepared.columns.clone();
    let parameterized = Parameterized { key: Arc::new(key), prepared: Arc::new(prepared), values };
    let statement = Statement::Query(Box::new(statement.clone()));
    Some(Prepared { parameterized: Some(parameterized), ..Prepared::new(statement, Vec::new(), columns) })
}

/// A value of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Literal {
    /// In quotes: it takes the type of the column.
    Quoted(String),
    /// Digits: a number, whatever the column.
    Whole(String),
}

impl Literal {
    /// As a value of a type; `None` when the text says that it is of another.
    fn of_type(&self, wanted: &DataType, input: Input<'_>) -> Result<Option<ScalarValue>> {
        let text = match self {
            _ if wanted.is_nested() => return Ok(None),
            Self::Whole(_) if !wanted.is_numeric() => return Ok(None),
            Self::Quoted(text) | Self::Whole(text) => text,
        };
        // A numeric is compared with all digits of a text, which a value of the column's type would not have.
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let is_beyond = |scale: i8| fraction.len() > usize::try_from(scale).unwrap_or(0) || text.contains(['e', 'E']);
        if matches!(wanted, DataType::Decimal128(_, scale) if is_beyond(*scale)) {
            return Ok(None);
        }
        let kind = types::parameter_pg_type(wanted);
        parameter::decode(Some(text.as_bytes()), &kind, Format::Text, wanted, input).map(Some)
    }
}

/// The statement with placeholders where its WHERE compares columns with values, and these; `None` when it has none, or
/// placeholders of its own.
fn lift(statement: &ast::Statement) -> Option<(ast::Statement, Vec<Literal>)> {
    let filter = |query: &ast::Query| match query.body.as_ref() {
        SetExpr::Select(select) => select.selection.is_some(),
        _ => false,
    };
    let ast::Statement::Query(query) = statement else { return None };
    if !filter(query) || has_placeholder(statement) {
        return None;
    }
    let mut query = query.clone();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let mut values = Vec::new();
    lift_from(select.selection.as_mut()?, &mut values);
    (1..=VALUES_MAX).contains(&values.len()).then_some((ast::Statement::Query(query), values))
}

fn has_placeholder(statement: &ast::Statement) -> bool {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Lifts values out of a condition, in their order.
fn lift_from(condition: &mut Expr, values: &mut Vec<Literal>) {
    use ast::BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    match condition {
        Expr::Nested(inner) => lift_from(inner, values),
        Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } => lift_from(expr, values),
        Expr::BinaryOp { left, op: And | Or, right } => {
            lift_from(left, values);
            lift_from(right, values);
        }
        Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
            if is_column(left) {
                lift_value(right, values);
            } else if is_column(right) {
                lift_value(left, values);
            }
        }
        Expr::Between { expr, low, high, .. } if is_column(expr) => {
            lift_value(low, values);
            lift_value(high, values);
        }
        Expr::InList { expr, list, .. } if is_column(expr) => {
            for value in list {
                lift_value(value, values);
            }
        }
        _ => {}
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn lift_value(expr: &mut Expr, values: &mut Vec<Literal>) {
    let Expr::Value(value) = expr else { return };
    let given = match &value.value {
        // Blanks at the end are none of a `char(n)`, but of a text.
        Value::SingleQuotedString(text) if !text.ends_with(' ') => Literal::Quoted(text.clone()),
        Value::Number(digits, false) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Literal::Whole(digits.clone())
        }
        _ => return,
    };
    values.push(given);
    value.value = Value::Placeholder(format!("${}", values.len()));
}

#[cfg(test)]
mod tests;
