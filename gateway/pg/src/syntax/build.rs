//! Syntax trees that rewrites put into queries, out of names, expressions and text of our own.

use crate::{
    error::{Result, SqlError, SqlState},
    ident::quoted,
    names::RelationName,
    syntax::dialect::parse_text,
};
use datafusion::sql::sqlparser::{
    ast::{
        Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
        ObjectNamePart, Query, Value, VisitMut,
    },
    parser::{Parser, ParserError},
};

/// An expression out of text that we wrote.
///
/// # Errors
/// Internal: the text is no expression.
pub fn parsed_expr(sql: &str) -> Result<Expr> {
    parsed(sql, |parser| parser.parse_expr())
}

/// A query out of text that we wrote.
///
/// # Errors
/// Internal: the text is no query.
pub fn parsed_query(sql: &str) -> Result<Box<Query>> {
    parsed(sql, |parser| parser.parse_query())
}

fn parsed<T: VisitMut>(
    sql: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> std::result::Result<T, ParserError>,
) -> Result<T> {
    parse_text(sql, parse).map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// Whether an expression is a quoted text.
pub(crate) fn is_quoted(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
        ),
        _ => false,
    }
}

/// A call of a function.
pub fn call(name: &str, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    let arguments = arguments.into_iter().map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `SELECT columns FROM table`; `*` when no column is named.
///
/// # Errors
/// Never fails: names are quoted.
pub fn select_from(table: &RelationName, columns: &[String]) -> Result<Box<Query>> {
    let columns: Vec<String> = columns.iter().map(|name| quoted(name).to_string()).collect();
    let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
    parsed_query(&format!("SELECT {columns} FROM {}", table.sql()))
}
