//! Queries that differ in their values alone: each of them a text of its own, with a time or a name that is compared with a column. Dashboards send
//! such texts all day, and would pay for a plan each time.
//!
//! ```text
//! SELECT … WHERE host = 'a' AND ts >= '2026-01-01' ──▶ SELECT … WHERE host = $1 AND ts >= $2,  'a', '2026-01-01'
//! ```
//!
//! Values that WHERE compares with a column are [lifted](lift) out of the syntax tree. What is left is prepared when it comes again, and each text of
//! its kind runs as that prepared statement with its values: what such a value means, PostgreSQL takes from the column in either case. A text whose
//! values are none of their columns' types, or whose plan may not be kept, is planned as it stands, and so is each that came first.

use super::{Prepared, Session, statement_cache::Once};
use crate::{
    execute,
    pg::{
        codec::{format::Format, parameter},
        error::Result,
        types,
    },
    query::plan_cache::Seen,
    sql::ast::Statement,
};
use arrow::datatypes::DataType;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Expr, SetExpr, Value, visit_expressions},
};
use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

/// Kinds of texts that are kept, at most.
const KEPT_MAX: usize = 32;
/// Values that are lifted out of a text, at most; one with more is planned as it stands.
const VALUES_MAX: usize = 256;

/// The kinds.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The latest first.
    kept: VecDeque<Kind>,
    once: Once,
}

#[derive(Debug)]
struct Kind {
    statement: ast::Statement,
    seen: Seen,
    /// `None` when its plan may not be kept.
    prepared: Option<Prepared>,
}

/// A statement that runs as another one, with values.
#[derive(Clone, Debug)]
pub(crate) struct Lifted {
    seen: Arc<Seen>,
    prepared: Arc<Prepared>,
    values: Vec<ScalarValue>,
}

impl Lifted {
    /// The statement that runs, and its values; `None` when the catalog or a setting is another one by now.
    pub(crate) fn of(&self, session: &Session) -> Option<(&Prepared, Vec<ScalarValue>)> {
        (*self.seen == session.seen()).then(|| (&*self.prepared, self.values.clone()))
    }
}

impl Kinds {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What is kept of a kind that was seen before, if it is of what is seen now.
    fn take(&mut self, statement: &ast::Statement, seen: &Seen) -> Option<Option<Prepared>> {
        let at = self.kept.iter().position(|kind| kind.statement == *statement)?;
        let kind = self.kept.remove(at).filter(|kind| kind.seen == *seen)?;
        let prepared = kind.prepared.clone();
        self.kept.push_front(kind);
        Some(prepared)
    }

    fn keep(&mut self, kind: Kind) {
        self.kept.truncate(KEPT_MAX - 1);
        self.kept.push_front(kind);
    }
}

/// A query that has no parameters, prepared as others of its kind were; `None` when it is to be planned as it stands.
pub(crate) async fn prepare(session: &mut Session, statement: &ast::Statement) -> Option<Prepared> {
    let (kind, values) = lift(statement)?;
    let seen = session.seen();
    let prepared = match session.kinds.take(&kind, &seen) {
        Some(prepared) => prepared?,
        None if session.kinds.once.came(&kind) => {
            let again = Statement::Query(Box::new(kind.clone()));
            // Whatever is wrong is told of the statement as it stands.
            let prepared = Box::pin(execute::prepare(session, again, &[], execute::Runs::Later)).await.ok();
            let prepared = prepared.filter(|one| one.parameters.len() == values.len() && one.plans.may_be_kept());
            session.kinds.keep(Kind { statement: kind, seen: session.seen(), prepared: prepared.clone() });
            prepared?
        }
        None => return None,
    };
    let values = values.iter().zip(&prepared.parameters).map(|(value, wanted)| value.of_type(wanted));
    let values = values.collect::<Result<Option<Vec<_>>>>().ok()??;
    let columns = prepared.columns.clone();
    let lifted = Lifted { seen: Arc::new(seen), prepared: Arc::new(prepared), values };
    let statement = Statement::Query(Box::new(statement.clone()));
    Some(Prepared { lifted: Some(lifted), ..Prepared::new(statement, Vec::new(), columns) })
}

/// A value of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// In quotes: it takes the type of the column.
    Quoted(String),
    /// Digits: a number, whatever the column.
    Whole(String),
}

impl Given {
    /// As a value of a type; `None` when the text says that it is of another.
    fn of_type(&self, wanted: &DataType) -> Result<Option<ScalarValue>> {
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
        parameter::decode(Some(text.as_bytes()), &kind, Format::Text, wanted).map(Some)
    }
}

/// The statement with placeholders where its WHERE compares columns with values, and these; `None` when it has none, or placeholders of its own.
fn lift(statement: &ast::Statement) -> Option<(ast::Statement, Vec<Given>)> {
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
fn lift_from(condition: &mut Expr, values: &mut Vec<Given>) {
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

fn lift_value(expr: &mut Expr, values: &mut Vec<Given>) {
    let Expr::Value(value) = expr else { return };
    let given = match &value.value {
        // Blanks at the end are none of a `char(n)`, but of a text.
        Value::SingleQuotedString(text) if !text.ends_with(' ') => Given::Quoted(text.clone()),
        Value::Number(digits, false) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Given::Whole(digits.clone())
        }
        _ => return,
    };
    values.push(given);
    value.value = Value::Placeholder(format!("${}", values.len()));
}

#[cfg(test)]
mod tests;
