//! Literals beside values of other types, before DataFusion settles types: an analyzer rule.
//!
//! Quoted texts in comparisons, IN, BETWEEN, CASE and functions take the type beside them ([`common_type`]), texts that
//! are compared with a `char(n)` lose the blanks at their end ([`char_blanks`]).

use super::{
    char_blanks::{self, trim_beside_char},
    documents,
    each_expr::{EachExpr, Order},
    regexps,
};
use crate::{
    common_type::{self, SAME_TYPE, cast_unknown, is_unknown, needs_cast},
    error::SqlError,
    functions::{self, lists::TEXT_BESIDE, scalar_function},
    numeric, types,
    workarounds::canonical_comparisons::compares,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    error::{DataFusionError, Result},
    logical_expr::{
        Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, Operator, WindowFrame, WindowFrameBound,
        WindowFrameUnits, binary_expr,
        expr::{Exists, InList, InSubquery, ScalarFunction, WindowFunction},
    },
    optimizer::AnalyzerRule,
    prelude::lit,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The rule.
pub fn untyped() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr {
        name: "untyped_literals",
        order: Order::LeavesFirst,
        rewrite: |expr, schema, _| type_literals(expr, schema),
    })
}

fn type_literals(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let typed = match expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => comparison(binary, schema),
        Expr::BinaryExpr(binary) if regexps::operator(binary.op).is_some() => return Ok(regexps::of_operator(binary)),
        Expr::ScalarFunction(call) if regexps::FUNCTIONS.contains(&call.func.name()) => {
            return Ok(regexps::of_call(call));
        }
        Expr::ScalarFunction(call) if call.func.name() == TEXT_BESIDE => cell_of_values(call, schema)?,
        Expr::ScalarFunction(call) if SAME_TYPE.contains(&call.func.name()) => {
            documents::marked(same_type(call, schema), schema)
        }
        Expr::ScalarFunction(call) if documents::is_mark(&call) => documents::once(call),
        Expr::ScalarSubquery(subquery) => documents::marked(Expr::ScalarSubquery(subquery), schema),
        Expr::ScalarFunction(call) if is_length_of_bytes(&call, schema) => {
            Expr::ScalarFunction(ScalarFunction::new_udf(functions::bytes_length(), call.args))
        }
        Expr::InSubquery(within) => in_subquery(within),
        Expr::InList(list) if is_unknown(&list.expr) && !list.list.iter().all(is_unknown) => {
            literal_in_list(list, schema)
        }
        Expr::InList(list) => in_list(list, schema),
        Expr::Between(between) if is_unknown(&between.expr) => literal_between(between, schema),
        Expr::Between(between) => value_between(between, schema),
        Expr::WindowFunction(call) => window(call, schema)?,
        Expr::Case(case) => documents::marked(of_case(case, schema), schema),
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(typed))
}

fn comparison(mut binary: BinaryExpr, schema: &DFSchema) -> Expr {
    if let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) {
        if needs_cast(&left) {
            cast_unknown(&mut binary.right, &left);
        }
        if needs_cast(&right) {
            cast_unknown(&mut binary.left, &right);
        }
    }
    documents::compared(&mut binary.left, &mut binary.right, schema);
    trim_beside_char([binary.left.as_mut(), binary.right.as_mut()], schema);
    Expr::BinaryExpr(binary)
}

/// A quoted text in a cell of VALUES, which [`values`](crate::syntax::values) put beside the first cell that has a
/// type.
pub(super) fn cell_of_values(call: ScalarFunction, schema: &DFSchema) -> Result<Expr> {
    let [text, beside] = <[Expr; 2]>::try_from(call.args)
        .map_err(|_| DataFusionError::Internal(format!("{TEXT_BESIDE} has two arguments")))?;
    let (_, field) = beside.to_field(schema)?;
    Ok(if field.data_type().is_null() { text } else { common_type::cast_without_digits(text, &field) })
}

/// `coalesce` and its kin, to whose arguments DataFusion casts no text.
fn same_type(mut call: ScalarFunction, schema: &DFSchema) -> Expr {
    if let Some(data) = common_type::of_exprs(&call.args, schema) {
        call.args.iter_mut().for_each(|side| cast_unknown(side, &data));
    }
    // They compare their arguments; `coalesce` does not.
    if call.func.name() != "coalesce" {
        trim_beside_char(&mut call.args, schema);
    }
    Expr::ScalarFunction(call)
}

/// Whether it is the length of a `bytea`: DataFusion would take that of the text that bytes print as.
fn is_length_of_bytes(call: &ScalarFunction, schema: &DFSchema) -> bool {
    let [bytes] = call.args.as_slice() else { return false };
    call.func.name() == "character_length" && bytes.get_type(schema).is_ok_and(|data| data.is_binary())
}

fn in_subquery(mut within: InSubquery) -> Expr {
    if let Some(field) = within.subquery.subquery.schema().fields().first() {
        if needs_cast(field.data_type()) {
            cast_unknown(&mut within.expr, field.data_type());
        }
        if types::char_length(field).is_some() {
            char_blanks::trim(&mut within.expr);
        }
    }
    constant_in(within)
}

/// NULL is in no rows, and unknown to be in some. DataFusion's join finds a constant NULL in none, so that
/// `NULL NOT IN (…)` would hold of all rows.
fn constant_in(within: InSubquery) -> Expr {
    let mut constant = within.expr.as_ref();
    while let Expr::Cast(cast) = constant {
        constant = &cast.expr;
    }
    let is_null = matches!(constant, Expr::Literal(value, _) if value.is_null());
    let is_open = matches!(constant, Expr::Placeholder(_)) && within.negated;
    if !is_null && !is_open {
        return Expr::InSubquery(within);
    }
    let unknown = || Expr::Literal(ScalarValue::Boolean(None), None);
    let there = |negated| Expr::Exists(Exists { subquery: within.subquery.clone(), negated });
    match (is_null, within.negated) {
        (true, false) => Expr::and(there(false), unknown()),
        (true, true) => Expr::or(there(true), unknown()),
        (false, _) => {
            let known = Expr::or(within.expr.clone().is_not_null(), unknown());
            Expr::or(there(true), Expr::and(known, Expr::InSubquery(within.clone())))
        }
    }
}

/// A quoted text that is compared with a value.
fn compared(literal: &Expr, op: Operator, mut value: Expr, schema: &DFSchema) -> Expr {
    let mut literal = literal.clone();
    if let Some(data) = common_type::of_exprs([&value], schema) {
        cast_unknown(&mut literal, &data);
    }
    trim_beside_char([&mut literal, &mut value], schema);
    binary_expr(literal, op, value)
}

/// `'1' IN (a, b)`: PostgreSQL compares a quoted text with each by itself.
fn literal_in_list(list: InList, schema: &DFSchema) -> Expr {
    let each = list.list.into_iter().map(|item| compared(&list.expr, Operator::Eq, item, schema));
    let any = each.reduce(Expr::or).unwrap_or_else(|| lit(false));
    if list.negated { Expr::Not(Box::new(any)) } else { any }
}

/// `'1' BETWEEN a AND b`, in the same way.
fn literal_between(between: Between, schema: &DFSchema) -> Expr {
    let low = compared(&between.expr, Operator::GtEq, *between.low, schema);
    let within = low.and(compared(&between.expr, Operator::LtEq, *between.high, schema));
    if between.negated { Expr::Not(Box::new(within)) } else { within }
}

fn in_list(mut list: InList, schema: &DFSchema) -> Expr {
    trim_beside_char(std::iter::once(list.expr.as_mut()).chain(&mut list.list), schema);
    beside_value(&list.expr, &mut list.list, schema);
    Expr::InList(list)
}

fn value_between(mut between: Between, schema: &DFSchema) -> Expr {
    if documents::kind(&between.expr, schema) == Some("jsonb") {
        // Its order is a function's.
        let side =
            |op, bound: Box<Expr>| comparison(BinaryExpr { left: between.expr.clone(), op, right: bound }, schema);
        let within = side(Operator::GtEq, between.low).and(side(Operator::LtEq, between.high));
        return if between.negated { Expr::Not(Box::new(within)) } else { within };
    }
    trim_beside_char([between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()], schema);
    beside_value(&between.expr, [between.low.as_mut(), between.high.as_mut()], schema);
    Expr::Between(between)
}

/// Gives literals that are compared with a value its type.
fn beside_value<'a>(value: &Expr, literals: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) {
    if documents::kind(value, schema) == Some("jsonb") {
        return literals.into_iter().for_each(|literal| documents::read(literal, "jsonb"));
    }
    if let Ok(data) = value.get_type(schema)
        && needs_cast(&data)
    {
        for literal in literals {
            cast_unknown(literal, &data);
        }
    }
}

/// Arrow's frames know neither times of day, which are ordered by their microseconds, nor intervals, by their length,
/// nor numerics of the exact form, by their key.
fn window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Expr> {
    for order in &mut call.params.order_by {
        match order.expr.get_type(schema) {
            Ok(DataType::Time64(_)) => {
                let time = Box::new(std::mem::take(&mut order.expr));
                order.expr = Expr::Cast(Cast::new(time, DataType::Int64));
            }
            Ok(data) if numeric::is_exact(&data) => {
                let frame = &call.params.window_frame;
                if frame.units == WindowFrameUnits::Range && !is_open(frame) {
                    let what = "RANGE with an offset over a numeric without digits";
                    return Err(scalar_function::external(SqlError::unsupported(what)));
                }
                order.expr = crate::numeric::key::key_text().call(vec![std::mem::take(&mut order.expr)]);
            }
            // DataFusion computes ends of ranges of these, even where there is nothing to compute: ranges without
            // offsets are groups of peers.
            Ok(DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) | DataType::Struct(_)) => {
                let frame = &mut call.params.window_frame;
                if frame.units == WindowFrameUnits::Range {
                    if !is_open(frame) {
                        let what = "RANGE with an offset over a column of this type";
                        return Err(scalar_function::external(SqlError::unsupported(what)));
                    }
                    frame.units = WindowFrameUnits::Groups;
                }
            }
            Ok(DataType::Interval(_)) => {
                order.expr = functions::interval_micros().call(vec![std::mem::take(&mut order.expr)]);
            }
            _ => {}
        }
    }
    Ok(Expr::WindowFunction(call))
}

/// Whether the bounds of a frame have no offsets.
fn is_open(frame: &WindowFrame) -> bool {
    [&frame.start_bound, &frame.end_bound].into_iter().all(|bound| match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => value.is_null(),
        WindowFrameBound::CurrentRow => true,
    })
}

/// Both the values that CASE compares and its results.
fn of_case(mut case: Case, schema: &DFSchema) -> Expr {
    if let Some(of) = &mut case.expr {
        let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
        trim_beside_char(std::iter::once(of.as_mut()).chain(whens), schema);
        let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
        if let Some(data) = common_type::of_exprs(std::iter::once(of.as_ref()).chain(whens), schema) {
            cast_unknown(of, &data);
            case.when_then_expr.iter_mut().for_each(|(when, _)| cast_unknown(when, &data));
        }
    }
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    if let Some(data) = common_type::of_exprs(results.map(AsRef::as_ref), schema) {
        case.when_then_expr.iter_mut().for_each(|(_, then)| cast_unknown(then, &data));
        case.else_expr.iter_mut().for_each(|result| cast_unknown(result, &data));
    }
    Expr::Case(case)
}
