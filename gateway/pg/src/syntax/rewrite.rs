//! A query's syntax tree as DataFusion can plan it with PostgreSQL's meaning.
//!
//! Names of select items ([`column_names`]), `pg_catalog.f(…)` as `f(…)`, `OPERATOR(pg_catalog.~)` as `~`, collations that are the order of
//! bytes dropped, `AT TIME ZONE` as `timezone(…)`, keywords that are functions without parentheses, and whole numbers where their
//! type shows as `integer`.

use super::{build::call, column_names};
use crate::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    UnaryOperator, Value, VisitMut, VisitorMut, visit_expressions,
};
use std::ops::ControlFlow;

/// The schema of PostgreSQL's own functions.
const PG_CATALOG: &str = "pg_catalog";
/// Functions whose arguments show their type in the result.
const TYPED_BY_ARGUMENTS: [&str; 10] =
    ["pg_typeof", "to_hex", "sum", "avg", "min", "max", "coalesce", "nullif", "greatest", "least"];
/// Functions that stand without parentheses and that the parser takes for columns.
pub(crate) const KEYWORDS: [&str; 3] = ["current_schema", "current_role", "current_database"];

/// Rewrites a statement.
///
/// # Errors
/// 42883 for an operator that there is not.
pub fn rewrite(statement: &mut Statement) -> Result<()> {
    match statement.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Rewrites the functions that give rows ([`rows`](super::set_returning)), [comparisons of rows](super::row_comparison), [columns that joins merge](super::using_columns), and what stands in another form for DataFusion ([`calls`](super::calls)).
///
/// # Errors
/// 0A000 for a use that has no other form.
pub fn rows(statement: &mut Statement) -> Result<()> {
    if let Statement::Query(query) = statement {
        order_by_hidden(query, true);
    }
    match statement.visit(&mut Rows) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        if let Err(error) = super::using_columns::order_by(query) {
            return ControlFlow::Break(Box::new(error));
        }
        if let SetExpr::Values(values) = query.body.as_mut() {
            super::values::rewrite(values);
        }
        order_by_hidden(query, false);
        order_by_labels(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        if let Err(error) = super::using_columns::rewrite(select) {
            return ControlFlow::Break(Box::new(error));
        }
        // Names come of what was written.
        column_names::label(select);
        super::whole_row::rewrite(select);
        match super::set_returning::rewrite(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        match super::row_comparison::rewritten(expr) {
            Ok(Some(new)) => *expr = new,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        match super::calls::rewritten(expr) {
            Ok(Some(new)) => *expr = new,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

struct Rewriter;

type Flow = ControlFlow<Box<SqlError>>;

impl VisitorMut for Rewriter {
    type Break = Box<SqlError>;

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        column_names::label(select);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                as_integer(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
            unqualify(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        match expr {
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(path) = op {
                    match operator(path) {
                        Some(known) => *op = known,
                        None => return unknown_operator(path),
                    }
                }
            }
            Expr::Function(function) => {
                unqualify(&mut function.name);
                typed_arguments(function);
            }
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter_mut().for_each(|when| as_integer(&mut when.result));
                if let Some(value) = else_result {
                    as_integer(value);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        let placeholder = || Expr::Identifier(Ident::new(""));
        match expr {
            Expr::Collate { expr: inner, .. } => *expr = std::mem::replace(inner, placeholder()),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let zone = std::mem::replace(time_zone.as_mut(), placeholder());
                let stamp = std::mem::replace(timestamp.as_mut(), placeholder());
                *expr = call("timezone", [zone, stamp]);
            }
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && KEYWORDS.contains(&ident.value.to_lowercase().as_str()) =>
            {
                *expr = call(&ident.value.to_lowercase(), []);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `SELECT DISTINCT f(a) … ORDER BY f(a)` orders by the item of the list, which DataFusion does not see once it has a name.
fn order_by_labels(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    // Of DISTINCT ON, both are expressions over what is read, and have to be the same.
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    let written = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expr) => expr.to_string(),
        _ => String::new(),
    });
    let written: Vec<_> = written.collect();
    column_names::label(select);
    for order in orders {
        let wanted = order.expr.to_string();
        let found = written.iter().position(|written| *written == wanted);
        if let Some(SelectItem::ExprWithAlias { alias, .. }) = found.and_then(|index| select.projection.get(index)) {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// `SELECT f(t.a) AS a … ORDER BY t.a` orders by the column that the item hides, which DataFusion cannot tell from it. The item of what a client
/// sees gets another name, which is shown as it was; of a subquery, where somebody else may name it, the order goes, unless it says which rows
/// there are.
fn order_by_hidden(query: &mut Query, is_shown: bool) {
    if let SetExpr::Query(inner) = query.body.as_mut() {
        if is_shown {
            order_by_hidden(inner, true);
        }
        return;
    }
    let is_cut = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    let mut hides = false;
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = column_names::folded(alias);
        let hides_here = |one: &Expr| match one {
            Expr::CompoundIdentifier(path) => {
                path.last().is_some_and(|last| column_names::folded(last) == name) && *one != *expr
            }
            _ => false,
        };
        let found = |one: &Expr| if hides_here(one) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        if !orders.iter().any(|order| visit_expressions(&order.expr, found).is_break()) {
            continue;
        }
        hides = true;
        if is_shown {
            *alias = column_names::other(&name);
            let shown = |order: &&mut OrderByExpr| matches!(&order.expr, Expr::Identifier(one) if column_names::folded(one) == name);
            orders.iter_mut().filter(shown).for_each(|order| order.expr = Expr::Identifier(alias.clone()));
        }
    }
    if hides && !is_shown && !is_cut {
        query.order_by = None;
    }
}

fn unqualify(name: &mut ObjectName) {
    let of_system = name.0.first().and_then(|part| part.as_ident());
    if name.0.len() == 2 && of_system.is_some_and(|ident| ident.value.eq_ignore_ascii_case(PG_CATALOG)) {
        name.0.remove(0);
    }
}

fn typed_arguments(function: &mut Function) {
    let last = function.name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
    if !last.is_some_and(|name| TYPED_BY_ARGUMENTS.contains(&name.as_str())) {
        return;
    }
    if let FunctionArguments::List(list) = &mut function.args {
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                as_integer(expr);
            }
        }
    }
}

/// A whole number that fits as `integer`.
fn as_integer(expr: &mut Expr) {
    let number = match &*expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => whole(expr).and_then(i64::checked_neg),
        other => whole(other),
    };
    if number.is_some_and(|number| i32::try_from(number).is_ok()) {
        let inner = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        *expr = Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(inner),
            data_type: DataType::Integer(None),
            array: false,
            format: None,
        };
    }
}

fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The operator that `OPERATOR(pg_catalog.…)` names.
fn operator(path: &[String]) -> Option<BinaryOperator> {
    let (name, schema) = path.split_last()?;
    if schema.iter().any(|schema| schema != PG_CATALOG) {
        return None;
    }
    Some(match name.as_str() {
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "%" => BinaryOperator::Modulo,
        "||" => BinaryOperator::StringConcat,
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        _ => return None,
    })
}

fn unknown_operator(path: &[String]) -> Flow {
    let message = format!("operator does not exist: {}", path.join("."));
    ControlFlow::Break(Box::new(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)))
}
