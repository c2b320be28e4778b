//! Calls of functions on the syntax tree: PostgreSQL's names for DataFusion's, aggregates that make JSON as aggregates
//! of text, and comparisons with all or any rows of a subquery.

use super::{
    between,
    build::{call, is_quoted, parsed_expr},
    cast_calls, hypothetical, patterns, times, values,
};
use crate::{
    error::{Result, SqlError, SqlState},
    functions::spread::{MARK, spread},
    ident::fold,
};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Subscript, UnaryOperator, Value,
    visit_expressions,
};
use std::ops::ControlFlow;

// Operators that no user can write: `plan::operators` plans them, when it knows types.

/// `= ANY` of a parameter or of a quoted text.
pub(crate) const EQUALS_ANY: &str = "= ANY";
/// `~` before a value; the other side means nothing.
pub(crate) const COMPLEMENT: &str = "complement";
/// Unary minus of what is no literal, in the same way.
pub(crate) const NEGATIVE: &str = "unary minus";
/// The operator that makes an array of the items of its right side ([`array_of`]).
pub(crate) const ARRAY_OF: &str = "array of";
/// Unary plus, in the same way.
pub(crate) const POSITIVE: &str = "unary plus";
/// `= ANY` of an array with items that may be NULL.
pub(crate) const EQUALS_ANY_OR_NULL: &str = "= ANY or NULL";
/// `<> ANY` of an array with items that may be NULL, and the others.
pub(crate) const UNEQUAL_TO_ANY: &str = "<> ANY";
pub(crate) const GREATER_THAN_ANY: &str = "> ANY";
pub(crate) const AT_LEAST_ANY: &str = ">= ANY";
pub(crate) const LESS_THAN_ANY: &str = "< ANY";
pub(crate) const AT_MOST_ANY: &str = "<= ANY";
/// `<> ALL` of an array.
pub(crate) const UNEQUAL_TO_ALL: &str = "<> ALL";
/// `IS DISTINCT FROM`
pub(crate) const DISTINCT_FROM: &str = "IS DISTINCT FROM";
/// The end of a span of time that begins at the left side: the right one, or where that is an interval their sum.
pub(crate) const SPAN_END: &str = "end of span";
/// `IS NOT DISTINCT FROM`
pub(crate) const NOT_DISTINCT_FROM: &str = "IS NOT DISTINCT FROM";

/// PostgreSQL's names of functions that DataFusion has under another.
const RENAMED: [(&str, &str); 5] = [
    ("variance", "var_samp"),
    ("every", "bool_and"),
    ("ceiling", "ceil"),
    ("sign", "signum"),
    ("datepart", "date_part"),
];

pub(super) fn name_of(function: &Function) -> String {
    function.name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase()).unwrap_or_default()
}

fn named(name: &str) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))])
}

pub(super) fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

fn join(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::StringConcat, right: Box::new(right) }
}

/// Another form of an expression; `None` where it stays as it is. Each kind of expression has one rule.
///
/// # Errors
/// 0A000 for what has no other form.
pub fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::Function(function) => of_function(function),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Ok(minus(expr)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(not_equal_to_any(expr)),
        Expr::AllOp { left, compare_op, right } => compared_with_all(left, compare_op, right),
        Expr::AnyOp { left, compare_op, right, .. } => compared_with_any(left, compare_op, right),
        Expr::InSubquery { expr, subquery, negated } if matches!(subquery.body.as_ref(), SetExpr::Values(_)) => {
            values::within(expr, subquery, *negated).map(Some)
        }
        Expr::CompoundFieldAccess { root, access_chain } => field_access(root, access_chain),
        Expr::Case { .. } => Ok(typed_first(expr)),
        Expr::IsDistinctFrom(left, right) => Ok(distinct(left, right, DISTINCT_FROM)),
        Expr::IsNotDistinctFrom(left, right) => Ok(distinct(left, right, NOT_DISTINCT_FROM)),
        Expr::Between { .. } => Ok(between::symmetric(expr)),
        Expr::Interval(interval) => times::of_interval(interval),
        // `substr` has places alone.
        Expr::Substring { expr, substring_from: Some(pattern), substring_for, shorthand: false, .. } => {
            Ok(patterns::substring_of_pattern(expr, pattern, substring_for.as_deref()))
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            Ok(Some(patterns::similar_to(*negated, expr, pattern, escape_char.as_ref())))
        }
        Expr::Like { .. } | Expr::ILike { .. } => Ok(patterns::like(expr)),
        Expr::Cast { data_type, .. } => Ok(times::rounded_cast(expr, data_type)),
        Expr::TypedString(typed) => Ok(times::of_typed_string(typed)),
        _ => Ok(None),
    }
}

/// `-a ^ b`: PostgreSQL's unary minus binds more tightly than its power.
fn minus(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } = expr else { return None };
    let left = Expr::UnaryOp { op: UnaryOperator::Minus, expr: left.clone() };
    Some(custom(&left, BinaryOperator::PGExp, right))
}

/// `NOT value = ANY (array)`, which a NULL in the array leaves open.
fn not_equal_to_any(expr: &Expr) -> Option<Expr> {
    let mut inner = expr;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    match inner {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if !is_subquery(right) => {
            Some(unequal_to_all(left, right))
        }
        _ => None,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_))
}

fn compared_with_all(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Expr>> {
    match right {
        Expr::Subquery(query) => over_rows(left, op, query, true).map(Some),
        _ if *op == BinaryOperator::NotEq => Ok(Some(unequal_to_all(left, right))),
        _ => Ok(None),
    }
}

fn compared_with_any(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Expr>> {
    if let Expr::Subquery(query) = right {
        return over_rows(left, op, query, false).map(Some);
    }
    if *op != BinaryOperator::Eq {
        // A list that is written without NULLs has the form that key ranges are made of.
        let is_open = !is_list_without_nulls(right) || matches!(right, Expr::Value(_));
        return Ok(of_any(op).filter(|_| is_open).map(|op| custom(left, named_operator(op), right)));
    }
    let operator = match right {
        _ if is_list_without_nulls(right) => EQUALS_ANY,
        // Neither a list nor a text of one, which is refused.
        Expr::Value(value) if !matches!(value.value, Value::SingleQuotedString(_)) => return Ok(None),
        _ => EQUALS_ANY_OR_NULL,
    };
    Ok(Some(custom(left, named_operator(operator), right)))
}

/// The operator that compares with the items of a list, of which one may be NULL.
fn of_any(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::NotEq => UNEQUAL_TO_ANY,
        BinaryOperator::Gt => GREATER_THAN_ANY,
        BinaryOperator::GtEq => AT_LEAST_ANY,
        BinaryOperator::Lt => LESS_THAN_ANY,
        BinaryOperator::LtEq => AT_MOST_ANY,
        _ => return None,
    })
}

/// Whether a list has no NULLs as far as its text tells, so that a value is one of its items or not: such lists, and
/// parameters, have the form that key ranges are made of. Of others it may stay open.
fn is_list_without_nulls(list: &Expr) -> bool {
    match list {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(_) => true,
            // The text of an array with a NULL says so, as may a text within it.
            Value::SingleQuotedString(text) => !text.to_lowercase().contains("null"),
            _ => false,
        },
        Expr::Array(array) => array.elem.iter().all(is_value),
        Expr::Cast { expr, .. } => is_list_without_nulls(expr),
        _ => false,
    }
}

/// `ARRAY[…]` of what stands in a relation, or in a subquery: DataFusion (55.2, `sql_array_literal`) plans items where
/// neither the relations of an outer query nor the queries of WITH are known. Arguments of a call are planned where
/// they are.
pub(super) fn array_of(expr: &mut Expr) {
    let Expr::Array(array) = expr else { return };
    let found = visit_expressions(&array.elem, |item| match item {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) | Expr::Exists { .. } => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if found.is_break() {
        let items = call("make_array", std::mem::take(&mut array.elem));
        *expr = custom(&Expr::Value(Value::Null.into()), named_operator(ARRAY_OF), &items);
    }
}

/// An operator that [`operators`](crate::plan::operators) plans.
fn named_operator(name: &str) -> BinaryOperator {
    BinaryOperator::Custom(name.to_owned())
}

fn custom(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right.clone()) }
}

/// `IS [NOT] DISTINCT FROM`, of whose sides a quoted text has the type of the other, and numbers have one type.
fn distinct(left: &Expr, right: &Expr, operator: &str) -> Option<Expr> {
    Some(custom(left, named_operator(operator), right))
}

/// A slice of an array, or a field of a row.
fn field_access(root: &Expr, access_chain: &[AccessExpr]) -> Result<Option<Expr>> {
    if access_chain.iter().any(is_slice) {
        return with_bounds(root, access_chain);
    }
    let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain else { return Ok(None) };
    Ok(Some(call("get_field", [root.clone(), text(&fold(field))])))
}

/// `value <> ALL (array)`, which `NOT value = ANY (array)` is too.
fn unequal_to_all(left: &Expr, right: &Expr) -> Expr {
    custom(left, named_operator(UNEQUAL_TO_ALL), right)
}

fn is_slice(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }))
}

/// A slice with both its bounds: `a[2:]` ends where arrays end.
fn with_bounds(root: &Expr, access_chain: &[AccessExpr]) -> Result<Option<Expr>> {
    let subscripts = access_chain.iter().filter(|access| matches!(access, AccessExpr::Subscript(_))).count();
    if subscripts > 1 {
        return Err(SqlError::unsupported("a slice of more than one dimension"));
    }
    let bound = |written: &Option<Expr>, open: i32| match written {
        Some(bound) => Ok(Some(bound.clone())),
        None => parsed_expr(&format!("({open})")).map(Some),
    };
    let mut access_chain = access_chain.to_vec();
    for access in &mut access_chain {
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access {
            (*lower_bound, *upper_bound) = (bound(lower_bound, i32::MIN)?, bound(upper_bound, i32::MAX)?);
        }
    }
    Ok(Some(Expr::CompoundFieldAccess { root: Box::new(root.clone()), access_chain }))
}

/// `CASE WHEN a THEN 'text' ELSE b END` with a result first that has a type, from which DataFusion takes that of the
/// whole: `CASE WHEN (a) IS NOT TRUE THEN b ELSE 'text' END`. `None` where that changes nothing, or would compute the
/// operand twice.
fn typed_first(expr: &Expr) -> Option<Expr> {
    let Expr::Case { operand, conditions, else_result, case_token, end_token } = expr else { return None };
    let (first, rest) = conditions.split_first()?;
    let is_open = |expr: &Expr| is_quoted(expr) || matches!(expr, Expr::Value(value) if value.value == Value::Null);
    let mut others = rest.iter().map(|when| &when.result).chain(else_result.as_deref());
    if !is_quoted(&first.result) || others.all(is_open) {
        return None;
    }
    let condition = match operand.as_deref() {
        None => first.condition.clone(),
        Some(of @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) => Expr::BinaryOp {
            left: Box::new(of.clone()),
            op: BinaryOperator::Eq,
            right: Box::new(first.condition.clone()),
        },
        Some(_) => return None,
    };
    let case = |operand, conditions, else_result| Expr::Case {
        case_token: case_token.clone(),
        end_token: end_token.clone(),
        operand,
        conditions,
        else_result,
    };
    let other = match (rest.is_empty(), else_result) {
        (true, Some(other)) => other.as_ref().clone(),
        _ => case(operand.clone(), rest.to_vec(), else_result.clone()),
    };
    let condition = Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(condition))));
    let when = CaseWhen { condition, result: other };
    Some(case(None, vec![when], Some(Box::new(first.result.clone()))))
}

/// Whether an expression is a literal or a parameter, and not NULL.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => value.value != Value::Null,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Cast { expr, .. } => {
            is_value(expr)
        }
        Expr::TypedString(_) | Expr::Interval(_) => true,
        _ => false,
    }
}

/// `value > ALL (query)`: by the greatest of its rows, and by whether some are NULL.
fn over_rows(left: &Expr, op: &BinaryOperator, query: &Query, all: bool) -> Result<Expr> {
    let extreme = match (op, all) {
        (BinaryOperator::NotEq, true) => return values::within(left, query, true),
        (BinaryOperator::Eq, false) => return values::within(left, query, false),
        (BinaryOperator::Gt | BinaryOperator::GtEq, true) | (BinaryOperator::Lt | BinaryOperator::LtEq, false) => "max",
        (BinaryOperator::Lt | BinaryOperator::LtEq, true) | (BinaryOperator::Gt | BinaryOperator::GtEq, false) => "min",
        _ => {
            let which = if all { "ALL" } else { "ANY" };
            return Err(SqlError::unsupported(format!("{op} {which} with a subquery")));
        }
    };
    let of = |what: &str| format!("(SELECT {what} FROM ({query}) AS compared(c))");
    let compared = format!("({left} {op} {})", of(&format!("{extreme}(c)")));
    // Without rows ALL holds and ANY does not; one row that decides is enough; else a NULL leaves it open.
    let (none, decided) = if all { ("true", format!("NOT {compared}")) } else { ("false", compared.clone()) };
    let outcome = if all { "false" } else { "true" };
    parsed_expr(&format!(
        "CASE WHEN {} = 0 THEN {none} WHEN {decided} THEN {outcome} WHEN {} > 0 THEN NULL ELSE {compared} END",
        of("count(*)"),
        of("count(*) - count(c)"),
    ))
}

/// The first argument and the second, if all are plain expressions.
pub(super) fn only(function: &Function) -> Option<(&Expr, Option<&Expr>)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let expr = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(_)));
    if !list.args.iter().all(expr) {
        return None;
    }
    let mut all = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    Some((all.next()?, all.next()))
}

/// Another form of a call; `None` where it stays as it is.
type FunctionRule = fn(&Function) -> Result<Option<Expr>>;

/// Functions that are called in another form.
const FUNCTIONS: [(&str, FunctionRule); 15] = [
    ("array", of_array_query),
    ("cume_dist", hypothetical::rewritten),
    ("date_trunc", of_date_trunc),
    ("dense_rank", hypothetical::rewritten),
    ("json_agg", |function| of_json_array_agg(function, DataType::JSON)),
    ("json_object_agg", |function| of_json_object_agg(function, DataType::JSON)),
    ("jsonb_agg", |function| of_json_array_agg(function, DataType::JSONB)),
    ("jsonb_object_agg", |function| of_json_object_agg(function, DataType::JSONB)),
    ("mod", of_mod),
    ("mode", of_ordered_set),
    ("percent_rank", hypothetical::rewritten),
    ("percentile_cont", of_ordered_set),
    ("percentile_disc", of_ordered_set),
    ("rank", hypothetical::rewritten),
    ("regexp_replace", of_regexp_replace),
];

fn of_function(function: &Function) -> Result<Option<Expr>> {
    let name = name_of(function);
    if let Some(spread) = spread_over_items(&name, function)? {
        return Ok(Some(spread));
    }
    if let Some((_, known)) = RENAMED.iter().find(|(written, _)| *written == name) {
        return Ok(Some(call_with(known, function)));
    }
    match FUNCTIONS.iter().find(|(written, _)| *written == name) {
        Some((_, rule)) => rule(function),
        None => cast_calls::rewritten(&name, function),
    }
}

/// `regexp_replace(text, pattern, replacement, start [, n [, flags]])`, which DataFusion's function does not know.
fn of_regexp_replace(function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let is_number = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => matches!(value.value, Value::Number(..)),
        _ => false,
    };
    let by_place = list.args.len() > 4 || list.args.get(3).is_some_and(is_number);
    Ok(by_place.then(|| call_with("keyspan_regexp_replace", function)))
}

/// `f(a, VARIADIC array)`, whose last argument is marked.
///
/// # Errors
/// 42883 for a function that does not take any number of arguments; 42601 for another place than the last.
fn spread_over_items(name: &str, function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(last)))) = list.args.last() else {
        return Ok(None);
    };
    let (MARK, FunctionArguments::List(marked)) = (name_of(last).as_str(), &last.args) else { return Ok(None) };
    if marked.args.len() != 1 {
        return Err(SqlError::syntax("VARIADIC is for the last argument alone"));
    }
    let Some(spread) = spread(name, list.args.len() - 1) else {
        let message = format!("function {name} with VARIADIC does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
    };
    let mut list = list.clone();
    list.args.pop();
    list.args.extend(marked.args.iter().cloned());
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', spread))]);
    Ok(Some(Expr::Function(Function { name, args: FunctionArguments::List(list), ..function.clone() })))
}

/// `mod(a, b)`
fn of_mod(function: &Function) -> Result<Option<Expr>> {
    let Some((left, Some(right))) = only(function) else { return Ok(None) };
    parsed_expr(&format!("(({left}) % ({right}))")).map(Some)
}

/// `date_trunc(unit, time, zone)`
fn of_date_trunc(function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let [unit, time, zone] = list.args.as_slice() else { return Ok(None) };
    parsed_expr(&format!("date_trunc_in({unit}, CAST({time} AS timestamptz), {zone})")).map(Some)
}

fn of_json_array_agg(function: &Function, kind: DataType) -> Result<Option<Expr>> {
    let Some((value, None)) = only(function) else { return Ok(None) };
    // Composite values and arrays begin lines of their own, but for the first.
    let item = if kind == DataType::JSON { "json_line_item" } else { "json_item" };
    json_agg(function, ("[", "]"), call(item, [value.clone()]), kind)
}

fn of_json_object_agg(function: &Function, kind: DataType) -> Result<Option<Expr>> {
    let Some((key, Some(value))) = only(function) else { return Ok(None) };
    let item = join(join(call("json_key", [key.clone()]), text(" : ")), call("json_item", [value.clone()]));
    json_agg(function, ("{ ", " }"), item, kind)
}

/// An aggregate that makes JSON: the texts of its items, joined, between brackets.
fn json_agg(function: &Function, (open, close): (&str, &str), item: Expr, kind: DataType) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let mut list = list.clone();
    let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    list.args = vec![argument(item), argument(text(", "))];
    let joined = Function { name: named("string_agg"), args: FunctionArguments::List(list), ..function.clone() };
    let joined = Expr::Function(joined);
    let joined = if open == "[" { call("ltrim", [joined, text("\n ")]) } else { joined };
    let whole = join(join(text(open), joined), text(close));
    let cast = parsed_expr(&format!("CAST(NULL AS {kind})"))?;
    let Expr::Cast { kind, data_type, array, format, .. } = cast else { return Ok(None) };
    Ok(Some(Expr::Cast { kind, expr: Box::new(Expr::Nested(Box::new(whole))), data_type, array, format }))
}

/// `mode()`, `percentile_disc(part)` and `percentile_cont(part)`: of the values in order, which are collected.
fn of_ordered_set(function: &Function) -> Result<Option<Expr>> {
    if function.within_group.is_empty() {
        return Ok(None);
    }
    let name = name_of(function);
    let [order] = function.within_group.as_slice() else {
        return Err(SqlError::unsupported("WITHIN GROUP of more than one value"));
    };
    if function.over.is_some() {
        return Err(SqlError::unsupported(format!("{name} as a window function")));
    }
    let collected = Function {
        name: named("array_agg"),
        within_group: Vec::new(),
        args: call_arguments(order.expr.clone()),
        ..function.clone()
    };
    let collected = Expr::Function(collected);
    if name == "mode" {
        return Ok(Some(call("list_mode", [collected])));
    }
    let Some((part, None)) = only(function) else { return Ok(None) };
    let descending = Expr::Value(Value::Boolean(order.options.asc == Some(false)).into());
    let function = if name == "percentile_disc" { "list_percentile" } else { "list_percentile_cont" };
    Ok(Some(call(function, [collected, part.clone(), descending])))
}

/// `ARRAY(SELECT …)`: an aggregate of the query's only column, in the query's order, which is the aggregate's own or,
/// for what is not plain, handed to it ([`subquery_order`](crate::plan::subquery_order)).
fn of_array_query(function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::Subquery(query) = &function.args else { return Ok(None) };
    let orders = query.order_by.as_ref().map(ToString::to_string).unwrap_or_default();
    let collected =
        || parsed_expr(&format!("list_or_empty((SELECT array_agg(c) FROM ({query}) AS listed(c)))")).map(Some);
    let SetExpr::Select(select) = query.body.as_ref() else {
        return collected();
    };
    let plain = select.distinct.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
        && select.having.is_none()
        && query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = select.projection.as_slice()
    else {
        return Err(SqlError::unsupported("ARRAY of this query"));
    };
    // A series by itself is a list already.
    if let Expr::Function(function) = item
        && (plain && select.from.is_empty() && select.selection.is_none() && orders.is_empty())
        && name_of(function) == "generate_series"
    {
        return Ok(Some(call_with("series_list", function)));
    }
    if !plain || item.to_string().contains("unnest") || item.to_string().contains("count(") {
        return collected();
    }
    let mut select = select.clone();
    let inner = parsed_expr(&format!("array_agg({item} {orders})"))?;
    select.projection = vec![SelectItem::UnnamedExpr(inner)];
    parsed_expr(&format!("list_or_empty(({select}))")).map(Some)
}

/// A call of another function with the same arguments.
fn call_with(name: &str, function: &Function) -> Expr {
    Expr::Function(Function { name: named(name), ..function.clone() })
}

fn call_arguments(expr: Expr) -> FunctionArguments {
    match call("array_agg", [expr]) {
        Expr::Function(function) => function.args,
        _ => FunctionArguments::None,
    }
}
