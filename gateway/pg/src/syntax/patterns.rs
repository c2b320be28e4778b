//! Patterns on the syntax tree: `substring(a FROM 'pattern')`, `SIMILAR TO`, `LIKE` with an escape character of its own
//! and over the items of an array.

use super::{
    build::{call, is_quoted},
    calls::{name_of, text},
};
use crate::functions::texts::{LIKE_ALL, LIKE_ANY, SUBSTRING_SIMILAR};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value, ValueWithSpan,
};

/// A pattern with another escape character, rewritten to escape by the backslash; `None` if it does so already, or has
/// no escape character.
fn escaped(pattern: &Expr, escape: &Value) -> Option<Expr> {
    let Value::SingleQuotedString(escape) = escape else { return None };
    let mut characters = escape.chars();
    let (character, None) = (characters.next()?, characters.next()) else { return None };
    if character == '\\' {
        return None;
    }
    let literal = |text: String| Expr::Value(Value::SingleQuotedString(text).into());
    let special = matches!(character, '%' | '_');
    // An escaped escape character stands for itself; U+0001, which no text has, marks it meanwhile.
    let itself = if special { format!("\\{character}") } else { character.to_string() };
    let steps = [
        ("\\".to_owned(), "\\\\".to_owned()),
        (escape.repeat(2), "\u{1}".to_owned()),
        (escape.clone(), "\\".to_owned()),
        ("\u{1}".to_owned(), itself),
    ];
    let replaced = |pattern, (from, to)| call("replace", [pattern, literal(from), literal(to)]);
    Some(steps.into_iter().fold(pattern.clone(), replaced))
}

/// Whether it is a parameter that is a text: one without a type, or of that type.
fn is_parameter_of_text(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Cast { expr, data_type: DataType::Text, .. } => is_parameter_of_text(expr),
        _ => false,
    }
}

/// `substring(a FROM 'pattern')`: a text is a pattern there, not a position.
/// `substring(a FROM 'pattern' FOR '#')`: one of the standard, with its escape character.
pub(super) fn substring_of_pattern(expr: &Expr, pattern: &Expr, escape: Option<&Expr>) -> Option<Expr> {
    match escape {
        None => (is_quoted(pattern) || is_parameter_of_text(pattern))
            .then(|| call("substring_of_pattern", [expr.clone(), pattern.clone()])),
        Some(escape) => (is_quoted(pattern) && is_quoted(escape))
            .then(|| call(SUBSTRING_SIMILAR, [expr.clone(), pattern.clone(), escape.clone()])),
    }
}

pub(super) fn similar_to(negated: bool, expr: &Expr, pattern: &Expr, escape: Option<&ValueWithSpan>) -> Expr {
    let escape = escape.map(|escape| Expr::Value(escape.clone()));
    let similar = call("similar_to", [expr.clone(), pattern.clone()].into_iter().chain(escape));
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(similar) } } else { similar }
}

/// LIKE and ILIKE whose pattern escapes by another character than the backslash.
pub(super) fn like(expr: &Expr) -> Option<Expr> {
    if let Some(compared) = like_items(expr) {
        return Some(compared);
    }
    let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr else {
        return None;
    };
    let with_backslashes = escaped(pattern, &escape_char.as_ref()?.value)?;
    let mut new = expr.clone();
    if let Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } = &mut new {
        **pattern = with_backslashes;
        *escape_char = None;
    }
    Some(new)
}

/// `text LIKE ANY (array)` and `LIKE ALL (array)`.
fn like_items(expr: &Expr) -> Option<Expr> {
    let (negated, any, left, pattern, escape, insensitive) = match expr {
        Expr::Like { negated, any, expr, pattern, escape_char } => (*negated, *any, expr, pattern, escape_char, false),
        Expr::ILike { negated, any, expr, pattern, escape_char } => (*negated, *any, expr, pattern, escape_char, true),
        _ => return None,
    };
    if escape.is_some() {
        return None;
    }
    let operator = match (insensitive, negated) {
        (false, false) => "~~",
        (false, true) => "!~~",
        (true, false) => "~~*",
        (true, true) => "!~~*",
    };
    let compared =
        |function: &str, items: &Expr| Some(call(function, [left.as_ref().clone(), items.clone(), text(operator)]));
    if any {
        return compared(LIKE_ANY, pattern);
    }
    // The parser takes ALL for a function.
    let Expr::Function(all) = pattern.as_ref() else { return None };
    let FunctionArguments::List(list) = &all.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(right))] = list.args.as_slice() else { return None };
    if name_of(all) == "all" { compared(LIKE_ALL, right) } else { None }
}
