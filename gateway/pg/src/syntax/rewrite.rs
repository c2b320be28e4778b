//! The two walks that bring a query's syntax tree into a form that DataFusion plans with PostgreSQL's meaning, as
//! tables of rules.
//!
//! [`EXPAND`] writes out what DataFusion lacks; its rules stand in files of their own. [`RESOLVE`] comes after it and
//! meets the nodes that it made: names and operators of `pg_catalog` (`pg_catalog.f(…)` as `f(…)`,
//! `OPERATOR(pg_catalog.~)` as `~`), keywords that are functions without parentheses, collations (only the order of
//! bytes is left by now), `AT TIME ZONE` as `timezone(…)`, and whole numbers where their type shows as `integer`.

use super::{
    aggregate_calls,
    build::{call, parsed_query},
    calls, column_names, composite_sets, counted_rows, counted_sets, documents, group_places, named_windows, order_by,
    ordered_sets, overlaps, records, recursion, referenced_names, row_comparison, row_in_query, samples, set_returning,
    using_columns, values,
    walk::{Rule, Walk},
};
use crate::{
    error::{Result, SqlError, SqlState},
    plan::json_paths::JSONPATH_OF as JSONPATH,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, ObjectName, Select, SelectItem, SetExpr, TableFactor,
    UnaryOperator, Value,
};
use keyspan_catalog::value::exact::Exact;
use std::collections::HashSet;

/// Digits that Arrow's decimals have, at most.
pub(crate) const DECIMAL_DIGITS: usize = 76;
/// The schema of PostgreSQL's own functions.
const PG_CATALOG: &str = "pg_catalog";
/// The schema of the SQL standard's relations, and of a few functions for them.
const INFORMATION_SCHEMA: &str = "information_schema";
/// Functions that stand without parentheses and that the parser takes for columns.
pub(crate) const KEYWORDS: [&str; 3] = ["current_schema", "current_role", "current_database"];

/// Writes out in SQL what DataFusion lacks. 0A000 for a use that has no other form, 42601 for rows of unequal length.
pub static EXPAND: Walk = Walk {
    queries: &[
        Rule::new("tables", |query| tables(&mut query.body)),
        // Names follow from what the user wrote, so before all that rewrites items, in the queries around too.
        Rule::new("referenced names", |query| {
            referenced_names::keep(query);
            Ok(())
        }),
        Rule::new("counted sets", counted_sets::rewrite),
        // Needs items as the user wrote them.
        Rule::new("sets in ORDER BY", ordered_sets::rewrite),
        Rule::new("named windows in ORDER BY", named_windows::order_by),
        // Before `using_columns`, which rewrites the select list that decides what a name in ORDER BY means.
        Rule::new("using_columns in ORDER BY", using_columns::order_by),
        Rule::new("values", |query| {
            values::rows_apart(query)?;
            if let SetExpr::Values(values) = query.body.as_mut() {
                values::rewrite(values);
            }
            Ok(())
        }),
        Rule::new("recursion", recursion::rewrite),
        Rule::new("hidden order", |query| {
            order_by::hidden_in(query, false);
            Ok(())
        }),
        // Labels the select list, as `labels` would do below.
        Rule::new("order by labels", |query| {
            order_by::order_by_labels(query);
            Ok(())
        }),
    ],
    selects: &[
        Rule::new("named windows", named_windows::rewrite),
        Rule::new("composite sets", composite_sets::rewrite),
        // Before `labels`: items are grouped by as they were written.
        Rule::new("places in grouping sets", group_places::rewrite),
        // Before `labels`: it writes `*` out, whose columns have names.
        Rule::new("using_columns", using_columns::rewrite),
        // Names follow from what the user wrote, so before all that rewrites items.
        Rule::new("labels", |select| {
            column_names::label(select);
            Ok(())
        }),
        // Makes one group of all rows, of which counting says nothing.
        Rule::new("having of all rows", |select| {
            aggregate_calls::having_of_all(select);
            Ok(())
        }),
        Rule::new("counted rows", counted_rows::rewrite),
        Rule::new("set_returning", set_returning::rewrite),
        // Before the rule of that name of expressions, which has a longer form.
        Rule::new("row_in_query", row_in_query::in_conditions),
    ],
    relations: &[Rule::new("samples", samples::rewrite)],
    exprs_down: &[
        // Before `calls`, which has the form of comparisons with a subquery.
        Rule::new("row_comparison", |expr| replace(expr, row_comparison::rewritten)),
        Rule::new("overlaps", |expr| replace(expr, overlaps::rewritten)),
        Rule::new("row_in_query", |expr| replace(expr, row_in_query::rewritten)),
        Rule::new("rows that are NULL", |expr| replace(expr, |expr| Ok(records::tested(expr)))),
        Rule::new("calls", |expr| replace(expr, calls::rewritten)),
    ],
    ..Walk::EMPTY
};

/// Resolves names, operators and the types of whole numbers. 42883 for an operator that does not exist.
pub static RESOLVE: Walk = Walk {
    queries: &[Rule::new("integer cells", |query| {
        integer_cells(&mut query.body);
        Ok(())
    })],
    selects: &[
        // The selects that `EXPAND` made have none yet.
        Rule::new("labels", |select| {
            column_names::label(select);
            Ok(())
        }),
        Rule::new("integer items", |select| {
            integer_items(select);
            Ok(())
        }),
    ],
    relations: &[Rule::new("functions of pg_catalog", |relation| {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = relation {
            unqualify(name);
        }
        Ok(())
    })],
    exprs_down: &[Rule::new("names and integers", names_and_integers)],
    exprs_up: &[Rule::new("keywords, collations, time zones", |expr| {
        keywords_and_zones(expr);
        Ok(())
    })],
};

/// Replaces an expression if it has another form.
fn replace(expr: &mut Expr, rule: fn(&Expr) -> Result<Option<Expr>>) -> Result<()> {
    if let Some(new) = rule(expr)? {
        *expr = new;
    }
    Ok(())
}

/// `TABLE t`, which is `SELECT * FROM t`.
fn tables(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Table(table) => {
            let parts = [&table.schema_name, &table.table_name].into_iter().flatten();
            let name = ObjectName::from(parts.map(|part| Ident::new(part.as_str())).collect::<Vec<_>>());
            *body = *parsed_query(&format!("SELECT * FROM {name}"))?.body;
        }
        SetExpr::SetOperation { left, right, .. } => {
            tables(left)?;
            tables(right)?;
        }
        _ => {}
    }
    Ok(())
}

/// Whole numbers in rows of VALUES.
fn integer_cells(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => values.rows.iter_mut().flat_map(|row| &mut row.content).for_each(as_integer),
        SetExpr::SetOperation { left, right, .. } => {
            integer_cells(left);
            integer_cells(right);
        }
        _ => {}
    }
}

/// Whole numbers that are items of a select list.
fn integer_items(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            as_integer(expr);
        }
    }
}

/// Operators and functions of `pg_catalog`, and whole numbers that show their type in CASE or as an argument.
fn names_and_integers(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { op, .. } => {
            if let BinaryOperator::PGCustomBinaryOperator(path) = op {
                *op = operator(path).ok_or_else(|| unknown_operator(path))?;
            }
        }
        Expr::Function(function) => {
            unqualify(&mut function.name);
            form_of_normalize(function);
            typed_arguments(function);
            constants_in_order(function);
            documents::typed(function);
            if let Some(values) = records::values_of_row(function) {
                *expr = records::of(values);
            }
        }
        Expr::Value(value) if matches!(&value.value, Value::UnicodeStringLiteral(_)) => {
            if let Value::UnicodeStringLiteral(text) = &mut value.value {
                value.value = Value::SingleQuotedString(std::mem::take(text));
            }
        }
        Expr::IsNormalized { expr: of, form, negated } => {
            let of = std::mem::replace(of.as_mut(), Expr::Identifier(Ident::new("")));
            let form = form.as_ref().map_or_else(|| "NFC".to_owned(), ToString::to_string);
            let is = call("is_normalized", [of, Expr::Value(Value::SingleQuotedString(form).into())]);
            *expr = if *negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(is) } } else { is };
        }
        Expr::Value(value) if bit_string(&value.value).is_some() => {
            let bits = bit_string(&value.value).unwrap_or_default();
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::Value(Value::SingleQuotedString(bits).into())),
                data_type: DataType::Custom(ObjectName::from(vec![Ident::with_quote('"', "bit")]), Vec::new()),
                array: false,
                format: None,
            };
        }
        Expr::Value(value) => {
            if let Value::Number(digits, _) = &value.value
                && let Some(number) = numeric_literal(digits)
            {
                *expr = number?;
            }
        }
        Expr::Cast { expr: of, data_type, .. } if is_jsonpath(data_type) => {
            let of = std::mem::replace(of.as_mut(), Expr::Identifier(Ident::new("")));
            *expr = call(JSONPATH, [of]);
        }
        Expr::TypedString(typed) if is_jsonpath(&typed.data_type) => {
            *expr = call(JSONPATH, [Expr::Value(typed.value.clone())]);
        }
        // The least bigint is one, though its digits alone are not.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } if is_least(of) => {
            *expr = Expr::Value(Value::Number(i64::MIN.to_string(), false).into());
        }
        Expr::UnaryOp { op: sign, expr: of } if signs(*sign, of).is_some() => {
            let name = signs(*sign, of).unwrap_or_default();
            let left = Box::new(std::mem::replace(of.as_mut(), Expr::Identifier(Ident::new(""))));
            let op = BinaryOperator::Custom(name.to_owned());
            *expr = Expr::BinaryOp { left, op, right: Box::new(Expr::Value(Value::Null.into())) };
        }
        Expr::UnaryOp { op, expr: of } if function_of(*op).is_some() => {
            let mut of = std::mem::replace(of.as_mut(), Expr::Identifier(Ident::new("")));
            as_integer(&mut of);
            *expr = function_of(*op).map_or(Expr::Identifier(Ident::new("")), |make| make(of));
        }
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter_mut().for_each(|when| as_integer(&mut when.result));
            if let Some(value) = else_result {
                as_integer(value);
            }
        }
        _ => {}
    }
    Ok(())
}

/// The operator of our own for one before a value.
fn signs(op: UnaryOperator, of: &Expr) -> Option<&'static str> {
    match op {
        UnaryOperator::Minus if !is_literal(of) => Some(calls::NEGATIVE),
        UnaryOperator::Plus if !is_literal(of) => Some(calls::POSITIVE),
        UnaryOperator::BitwiseNot => Some(calls::COMPLEMENT),
        _ => None,
    }
}

/// Operators before a value that DataFusion does not plan, as what they stand for.
fn function_of(op: UnaryOperator) -> Option<fn(Expr) -> Expr> {
    Some(match op {
        UnaryOperator::PGAbs => |of| call("abs", [of]),
        UnaryOperator::PGSquareRoot => |of| call("sqrt", [double(of)]),
        UnaryOperator::PGCubeRoot => |of| call("cbrt", [double(of)]),
        _ => return None,
    })
}

fn double(of: Expr) -> Expr {
    let data_type = DataType::DoublePrecision;
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(of), data_type, array: false, format: None }
}

/// `B'101'` and `X'1F'`, as the quoted text that means the same as a `bit`.
fn bit_string(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedByteStringLiteral(digits) => Some(format!("b{digits}")),
        Value::HexStringLiteral(digits) => Some(format!("x{digits}")),
        _ => None,
    }
}

/// The type `jsonpath`, which DataFusion does not know: a cast to it is a function.
fn is_jsonpath(data_type: &DataType) -> bool {
    let DataType::Custom(name, arguments) = data_type else { return false };
    let last = name.0.last().and_then(|part| part.as_ident());
    arguments.is_empty() && last.is_some_and(|name| name.value.eq_ignore_ascii_case("jsonpath"))
}

fn is_least(expr: &Expr) -> bool {
    let is = |digits: &str| digits.parse() == Ok(i64::MIN.unsigned_abs());
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if is(digits)))
}

/// What DataFusion takes a minus before for a part of a literal.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits.len() <= DECIMAL_DIGITS && !digits.contains(['e', 'E']))
        }
        Expr::Interval(_) => true,
        _ => false,
    }
}

/// A number written out that DataFusion does not read as PostgreSQL: with an exponent, beyond a bigint, of more digits
/// than Arrow's decimals have.
fn numeric_literal(digits: &str) -> Option<Result<Expr>> {
    if digits.parse::<i64>().is_ok() {
        return None;
    }
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let whole = plain && !digits.contains('.');
    if digits.len() <= DECIMAL_DIGITS && plain && !whole {
        return None;
    }
    let exact = match Exact::parse(digits)? {
        Ok(exact) => exact.to_text(),
        Err(error) => return Some(Err(error.into())),
    };
    if exact.len() <= DECIMAL_DIGITS {
        let digits = if exact.contains('.') { exact } else { format!("{exact}.") };
        return Some(Ok(Expr::Value(Value::Number(digits, false).into())));
    }
    Some(Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(exact).into())),
        data_type: DataType::Numeric(ExactNumberInfo::None),
        array: false,
        format: None,
    }))
}

/// Collations, `AT TIME ZONE`, and keywords that are functions, once their parts are rewritten.
fn keywords_and_zones(expr: &mut Expr) {
    let placeholder = || Expr::Identifier(Ident::new(""));
    match expr {
        Expr::Collate { expr: inner, .. } => *expr = std::mem::replace(inner, placeholder()),
        // An integer, of which DataFusion makes a number without a sign.
        Expr::Function(Function { name, over: Some(_), .. }) if name.to_string().eq_ignore_ascii_case("ntile") => {
            let tile = Box::new(std::mem::replace(expr, placeholder()));
            let data_type = DataType::Int(None);
            *expr = Expr::Cast { kind: CastKind::Cast, expr: tile, data_type, array: false, format: None };
        }
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
        Expr::Array(_) => calls::array_of(expr),
        _ => {}
    }
}

fn unqualify(name: &mut ObjectName) {
    let of_system = name.0.first().and_then(|part| part.as_ident());
    let is = |schema: &str| of_system.is_some_and(|ident| ident.value.eq_ignore_ascii_case(schema));
    // The functions of `information_schema` have names that no others have.
    let own = name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value.starts_with("_pg_"));
    if name.0.len() == 2 && (is(PG_CATALOG) || (own && is(INFORMATION_SCHEMA))) {
        name.0.remove(0);
    }
}

/// `normalize(a, NFD)`, whose form is a word.
fn form_of_normalize(function: &mut Function) {
    let is_it = function.name.to_string().eq_ignore_ascii_case("normalize");
    if let FunctionArguments::List(list) = &mut function.args
        && let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(form))] = list.args.as_mut_slice()
        && let Expr::Identifier(word) = form
        && is_it
        && word.quote_style.is_none()
    {
        *form = Expr::Value(Value::SingleQuotedString(word.value.to_uppercase()).into());
    }
}

fn typed_arguments(function: &mut Function) {
    let is = |name: &str| function.name.to_string().eq_ignore_ascii_case(name);
    // Whatever the type of a number is, it is counted: `count(1)` and `count(*)` are the same call.
    let (is_series, is_count) = (is("generate_series"), is("count"));
    if let FunctionArguments::List(list) = &mut function.args {
        let arguments = || {
            list.args.iter().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
        };
        // A parameter beside whole numbers is one.
        let of_whole = is_series && arguments().any(|expr| whole(expr).is_some());
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                match &*expr {
                    Expr::Value(value) if of_whole && matches!(value.value, Value::Placeholder(_)) => {
                        let of = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
                        *expr = documents::read_as(of, DataType::Integer(None));
                    }
                    _ if is_count && whole(expr).is_some() => {}
                    _ => as_integer(expr),
                }
            }
        }
    }
}

/// `array_agg(a ORDER BY 1, b, b)`: a number is a value here, which orders nothing, and to DataFusion the number of an
/// argument; nothing is ordered twice, of which DataFusion's accumulators lose count.
fn constants_in_order(function: &mut Function) {
    if let FunctionArguments::List(list) = &mut function.args {
        list.clauses.retain_mut(|clause| match clause {
            FunctionArgumentClause::OrderBy(order) => {
                let mut seen = HashSet::new();
                order.retain(|order| whole(&order.expr).is_none() && seen.insert(order.expr.clone()));
                !order.is_empty()
            }
            _ => true,
        });
    }
}

/// A whole number that fits as `integer`, and a row as a value.
fn as_integer(expr: &mut Expr) {
    if let Expr::Tuple(values) = expr {
        values.iter_mut().for_each(as_integer);
        *expr = records::of(std::mem::take(values));
    }
    if whole(expr).is_some_and(|number| i32::try_from(number).is_ok()) {
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

/// A whole number that is written out, with whatever signs and brackets stand around it.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => whole(expr).and_then(i64::checked_neg),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } | Expr::Nested(expr) => whole(expr),
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

fn unknown_operator(path: &[String]) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {}", path.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use expect_test::{Expect, expect};

    #[test]
    fn rules_run_in_the_order_of_their_tables() {
        let check = |walk: &Walk, expected: Expect| expected.assert_eq(&walk.names().join("\n"));
        check(
            &EXPAND,
            expect![[r#"
                query: tables
                query: referenced names
                query: counted sets
                query: sets in ORDER BY
                query: named windows in ORDER BY
                query: using_columns in ORDER BY
                query: values
                query: recursion
                query: hidden order
                query: order by labels
                select: named windows
                select: composite sets
                select: places in grouping sets
                select: using_columns
                select: labels
                select: having of all rows
                select: counted rows
                select: set_returning
                select: row_in_query
                relation: samples
                expr down: row_comparison
                expr down: overlaps
                expr down: row_in_query
                expr down: rows that are NULL
                expr down: calls"#]],
        );
        check(
            &RESOLVE,
            expect![[r#"
                query: integer cells
                select: labels
                select: integer items
                relation: functions of pg_catalog
                expr down: names and integers
                expr up: keywords, collations, time zones"#]],
        );
    }

    #[test]
    fn each_rule_has_a_name_of_its_own() {
        for walk in [&EXPAND, &RESOLVE] {
            let names = walk.names();
            assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        }
    }

    #[test]
    fn names_operators_and_integers_are_resolved() {
        let check = |sql: &str, expected: Expect| {
            let mut statement = parse(sql);
            let outcome = RESOLVE.run(&mut statement);
            expected.assert_eq(&outcome.map_or_else(|error| error.message, |()| statement.to_string()));
        };
        check(
            "SELECT pg_catalog.version(), 1 AS n FROM t WHERE a OPERATOR(pg_catalog.~) 'x'",
            expect![[r#"SELECT version() AS "version", CAST(1 AS INTEGER) AS "n" FROM t WHERE a ~ 'x'"#]],
        );
        check("SELECT 1 WHERE a OPERATOR(x.~) 'x'", expect!["operator does not exist: x.~"]);
        check(
            "SELECT a FROM t WHERE CURRENT_SCHEMA = b COLLATE \"C\" AND c AT TIME ZONE 'UTC' = d",
            expect!["SELECT a FROM t WHERE current_schema() = b AND timezone('UTC', c) = d"],
        );
    }
}
