//! Operators as PostgreSQL plans them: a quoted text takes the type beside it, whole numbers are integers where they fit, dates
//! and times subtract to days and intervals, intervals compare by their length.

use crate::{
    functions::{self, planned},
    types,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::DFSchema,
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF, binary_expr,
        expr::Placeholder,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr},
        when,
    },
    prelude::lit,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator as Sql,
};
use std::sync::Arc;

/// `= ANY` of a parameter or of a quoted text.
pub(crate) const EQUALS_ANY: &str = "= ANY";

/// `= ANY` of an array with items that may be NULL.
pub(crate) const EQUALS_ANY_OR_NULL: &str = "= ANY or NULL";
/// `<> ALL` of an array.
pub(crate) const UNEQUAL_TO_ALL: &str = "<> ALL";
/// `IS [NOT] DISTINCT FROM` with a quoted text at one side.
pub(crate) const DISTINCT_FROM: &str = "IS DISTINCT FROM";
pub(crate) const NOT_DISTINCT_FROM: &str = "IS NOT DISTINCT FROM";

/// The planner of binary operators.
#[derive(Debug)]
pub struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = expr;
        if matches!(&op, Sql::Custom(name) if name == EQUALS_ANY) {
            return Ok(PlannerResult::Planned(equals_any(left, right, schema)?));
        }
        match &op {
            Sql::Custom(name) if name == EQUALS_ANY_OR_NULL => {
                return Ok(PlannerResult::Planned(or_open(equals_any(left, right, schema)?, true)?));
            }
            Sql::Custom(name) if name == UNEQUAL_TO_ALL => {
                return Ok(PlannerResult::Planned(unequal_to_all(equals_any(left, right, schema)?)?));
            }
            _ => {}
        }
        if let Sql::Custom(name) = &op
            && let Some(compared) = distinct(name)
        {
            let left = typed(left, &right, schema);
            let right = typed(right, &left, schema);
            return Ok(PlannerResult::Planned(binary_expr(left, compared, right)));
        }
        if let Some(planned) = arrays(&op, &left, &right, schema) {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = documents(&op, &left, &right, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        // Beside an array a quoted text is one, and no item of it.
        let is_list = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::List(_)));
        let joins = matches!(op, Sql::StringConcat);
        // So is NULL, and nothing is put behind the array.
        let is_null = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Null, _));
        match (&left, &right) {
            (list, null) | (null, list) if joins && is_list(list) && is_null(null) => {
                return Ok(PlannerResult::Planned(list.clone()));
            }
            _ => {}
        }
        let left = if joins && is_list(&right) { typed(left, &right, schema) } else { left };
        let right = if joins && is_list(&left) { typed(right, &left, schema) } else { right };
        let compares = matches!(op, Sql::Eq | Sql::NotEq | Sql::Lt | Sql::LtEq | Sql::Gt | Sql::GtEq);
        let counts = matches!(op, Sql::Plus | Sql::Minus | Sql::Multiply | Sql::Divide | Sql::Modulo);
        let (left, right) = if compares { (typed(left, &right, schema), right) } else { (left, right) };
        let (left, right) = if compares {
            let right = typed(right, &left, schema);
            (left, right)
        } else {
            (left, right)
        };
        if matches!(op, Sql::PGExp) {
            let float = |side| Expr::Cast(Cast::new(Box::new(side), DataType::Float64));
            let power = datafusion::functions::math::power();
            return Ok(PlannerResult::Planned(power.call(vec![float(left), float(right)])));
        }
        let (left, right) = if counts { narrowed(left, right, schema) } else { (left, right) };
        let adds = matches!(op, Sql::Plus | Sql::Minus);
        let (left, right) = if adds { (spanned(left, &right, &op, schema), right) } else { (left, right) };
        let right = if adds { spanned(right, &left, &op, schema) } else { right };
        let (left, right) = if adds { clocks(left, right, &op, schema)? } else { (left, right) };
        let left = as_interval(left, &right, &op, schema);
        let right = as_interval(right, &left, &op, schema);
        if let (Ok(a), Ok(b)) = (left.get_type(schema), right.get_type(schema)) {
            if compares && is_span(&a) && is_span(&b) && (a != b || matches!(a, DataType::Interval(_))) {
                let length = |side| functions::interval_micros().call(vec![side]);
                let (left, right) = (length(left), length(right));
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
            }
            if let Some(planned) = spans(&op, &left, &a, &right, &b) {
                return Ok(PlannerResult::Planned(planned));
            }
            if let Some(planned) = dates(&op, &left, &a, &right, &b) {
                return Ok(PlannerResult::Planned(planned));
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }

    /// `indkey[0]`: `int2vector` and `oidvector` are counted from 0.
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let (_, field) = access.expr.to_field(schema)?;
        let access = match subscripted(access, &field)? {
            PlannerResult::Planned(planned) => return Ok(PlannerResult::Planned(planned)),
            PlannerResult::Original(access) => access,
        };
        if let (GetFieldAccess::ListIndex { key }, Some(item)) = (&access.field_access, types::item_field(&field))
            && item.metadata().contains_key(types::TYPE_KEY)
        {
            // The type of the items stands beside the array's, which is lost on the way.
            let found = datafusion::functions_nested::expr_fn::array_element(access.expr, key.as_ref().clone());
            let item = Arc::new(item.with_name("cast").with_nullable(true));
            return Ok(PlannerResult::Planned(Expr::Cast(Cast::new_from_field(Box::new(found), item))));
        }
        if !types::is_vector(&field) {
            return Ok(PlannerResult::Original(access));
        }
        let next = |place: Expr| binary_expr(place, Operator::Plus, lit(1_i64));
        let field_access = match access.field_access {
            GetFieldAccess::ListIndex { key } => GetFieldAccess::ListIndex { key: Box::new(next(*key)) },
            GetFieldAccess::ListRange { start, stop, stride } => {
                GetFieldAccess::ListRange { start: Box::new(next(*start)), stop: Box::new(next(*stop)), stride }
            }
            other => other,
        };
        Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr: access.expr }))
    }

    /// `extract(field FROM value)`, with as many digits after the point as the field has.
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let field = match args.first() {
            Some(Expr::Literal(ScalarValue::Utf8(Some(name)), _)) => name.to_lowercase(),
            _ => String::new(),
        };
        let function = match field.as_str() {
            "second" | "seconds" | "epoch" => planned::extract_seconds(),
            "millisecond" | "milliseconds" => planned::extract_milliseconds(),
            _ => planned::extract_whole(),
        };
        Ok(PlannerResult::Planned(function.call(args)))
    }
}

/// Of the comparison with any, that with all; of an array without items it holds.
fn unequal_to_all(has: Expr) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &has else { return Ok(Expr::Not(Box::new(has))) };
    let is_empty = datafusion::functions_nested::expr_fn::cardinality(call.args[0].clone()).eq(lit(0_u64));
    when(is_empty, lit(true)).otherwise(or_open(has, false)?)
}

/// What becomes of a comparison with the items of a list: `found` if there is one that equals, NULL if not, but one that is NULL.
fn or_open(has: Expr, found: bool) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &has else { return Ok(if found { has } else { Expr::Not(Box::new(has)) }) };
    let list = call.args[0].clone();
    let otherwise = if found { has.clone() } else { Expr::Not(Box::new(has.clone())) };
    let open = Expr::Literal(ScalarValue::Boolean(None), None);
    when(has, lit(found)).when(planned::list_has_nulls().call(vec![list]), open).otherwise(otherwise)
}

fn distinct(name: &str) -> Option<Operator> {
    match name {
        DISTINCT_FROM => Some(Operator::IsDistinctFrom),
        NOT_DISTINCT_FROM => Some(Operator::IsNotDistinctFrom),
        _ => None,
    }
}

/// Whether a value is one of a list that a client will send, or that is written as a text.
fn equals_any(value: Expr, list: Expr, schema: &DFSchema) -> Result<Expr> {
    let list = match list {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let item = Field::new_list_field(value.get_type(schema)?, true);
            let field = Field::new(&id, DataType::List(Arc::new(item)), true);
            Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(field))))
        }
        Expr::Literal(ref text, _) if is_text(&text.data_type()) => {
            let item = Field::new_list_field(value.get_type(schema)?, true);
            Expr::Cast(Cast::new(Box::new(list), DataType::List(Arc::new(item))))
        }
        other => return Ok(datafusion::functions_nested::expr_fn::array_has(other, value)),
    };
    // Blanks at the ends of what is compared with a `char(n)` say nothing.
    let is_char = value.to_field(schema).is_ok_and(|(_, field)| types::char_length(&field).is_some());
    let list = if is_char { functions::arrays::array_without_blanks().call(vec![list]) } else { list };
    Ok(datafusion::functions_nested::expr_fn::array_has(list, value))
}

/// What an operator of two arrays stands for, where DataFusion has it otherwise or not at all; `None` for others.
fn arrays(op: &Sql, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
    use datafusion::functions_nested::expr_fn::{array_has_all, array_has_any};
    if !matches!(op, Sql::PGOverlap | Sql::AtArrow | Sql::ArrowAt) {
        return None;
    }
    let is_list = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::List(_)));
    if !is_list(left) && !is_list(right) {
        return None;
    }
    let (left, right) = (as_list(left, right, schema), as_list(right, left, schema));
    // A NULL in an array is none of another, as to PostgreSQL.
    let without_nulls = |side: Expr| functions::arrays::array_without_nulls().call(vec![side]);
    let contains = |whole: Expr, part: Expr| {
        let all = array_has_all(whole, part.clone());
        Expr::and(all, Expr::Not(Box::new(planned::list_has_nulls().call(vec![part]))))
    };
    match op {
        Sql::PGOverlap => Some(array_has_any(without_nulls(left), right)),
        Sql::AtArrow => Some(contains(left, right)),
        _ => Some(contains(right, left)),
    }
}

/// A side of an operator of arrays: a quoted text, or a parameter of which nothing is known, as an array like the other.
fn as_list(side: &Expr, other: &Expr, schema: &DFSchema) -> Expr {
    match (side, other.get_type(schema)) {
        (Expr::Placeholder(Placeholder { id, field: None }), Ok(list @ DataType::List(_))) => {
            let field = Arc::new(Field::new(id, list, true));
            Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(field)))
        }
        _ => typed(side.clone(), other, schema),
    }
}

/// An item or a slice of an array, as PostgreSQL counts: there is nothing before the first item.
fn subscripted(access: RawFieldAccessExpr, field: &Field) -> Result<PlannerResult<RawFieldAccessExpr>> {
    if !matches!(field.data_type(), DataType::List(_)) || types::is_vector(field) {
        return Ok(PlannerResult::Original(access));
    }
    let RawFieldAccessExpr { expr, field_access } = access;
    let field_access = match field_access {
        GetFieldAccess::ListRange { start, stop, .. } => {
            return Ok(PlannerResult::Planned(planned::list_slice_of().call(vec![expr, *start, *stop])));
        }
        // `(array_agg(…))[n]` is an aggregate of its own to DataFusion.
        GetFieldAccess::ListIndex { key }
            if !matches!(*key, Expr::Literal(ScalarValue::Int64(Some(1..)), _))
                && !matches!(expr, Expr::AggregateFunction(_)) =>
        {
            GetFieldAccess::ListIndex { key: Box::new(planned::list_place().call(vec![*key])) }
        }
        other => other,
    };
    Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }))
}

/// Sides of a sum or a difference with a time of day: beside one a quoted text that is subtracted, or subtracted from, is one too, and beside a
/// timestamp a time is an interval.
fn clocks(left: Expr, right: Expr, op: &Sql, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let is_time = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Time64(_)));
    let is_stamp = |side: &Expr| matches!(side.get_type(schema), Ok(DataType::Timestamp(..)));
    let interval = |side: Expr| Expr::Cast(Cast::new(Box::new(side), types::INTERVAL));
    let time = |side: Expr| Expr::Cast(Cast::new(Box::new(side), types::TIME));
    let minus = matches!(op, Sql::Minus);
    Ok(match (is_time(&left), is_time(&right)) {
        (true, true) if !minus => {
            let name = types::type_name(keyspan_catalog::SqlType::Time);
            let message = format!("operator is not unique: {name} + {name}");
            let error = crate::error::SqlError::new(crate::error::SqlState::AMBIGUOUS_FUNCTION, message)
                .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts.");
            return Err(datafusion::error::DataFusionError::External(Box::new(error)));
        }
        (true, false) if minus && open_text(&right) => (left, time(right)),
        (false, true) if minus && open_text(&left) => (time(left), right),
        (true, false) if !minus && is_stamp(&right) => (interval(left), right),
        (false, true) if is_stamp(&left) => (left, interval(right)),
        // A date and a time are a timestamp.
        (false, true) if minus && matches!(left.get_type(schema), Ok(DataType::Date32 | DataType::Interval(_))) => {
            (left, interval(right))
        }
        _ => (left, right),
    })
}

/// A time of day as the interval since midnight, where an operator takes no time beside the other side: a number, or an interval that it is compared
/// with.
fn as_interval(side: Expr, other: &Expr, op: &Sql, schema: &DFSchema) -> Expr {
    let compares = matches!(op, Sql::Eq | Sql::NotEq | Sql::Lt | Sql::LtEq | Sql::Gt | Sql::GtEq);
    let counts = matches!(op, Sql::Multiply | Sql::Divide);
    let becomes = match (side.get_type(schema), other.get_type(schema)) {
        (Ok(DataType::Time64(_)), Ok(DataType::Interval(_))) => compares,
        (Ok(DataType::Time64(_)), Ok(other)) => counts && other.is_numeric(),
        _ => false,
    };
    if becomes { Expr::Cast(Cast::new(Box::new(side), types::INTERVAL)) } else { side }
}

/// A quoted text that is added to an interval or a time, or taken from an interval, as an interval.
fn spanned(side: Expr, other: &Expr, op: &Sql, schema: &DFSchema) -> Expr {
    let beside = match other.get_type(schema) {
        Ok(DataType::Interval(_)) => true,
        Ok(DataType::Time64(_)) => matches!(op, Sql::Plus),
        _ => false,
    };
    if beside && open_text(&side) { Expr::Cast(Cast::new(Box::new(side), types::INTERVAL)) } else { side }
}

/// What an operator of json and jsonb stands for; `None` for others.
fn documents(op: &Sql, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let function = match op {
        Sql::Arrow => planned::json_get(),
        Sql::LongArrow => planned::json_get_text(),
        Sql::HashArrow => planned::json_get_path(),
        Sql::HashLongArrow => planned::json_get_path_text(),
        Sql::Question => planned::jsonb_exists(),
        Sql::QuestionPipe => planned::jsonb_exists_any(),
        Sql::QuestionAnd => planned::jsonb_exists_all(),
        Sql::HashMinus => planned::jsonb_delete_path(),
        Sql::AtArrow | Sql::ArrowAt if is_document(left, schema) || is_document(right, schema) => {
            planned::jsonb_contains()
        }
        Sql::StringConcat if is_jsonb(left, schema) || is_jsonb(right, schema) => planned::jsonb_concat(),
        Sql::Minus if is_jsonb(left, schema) => planned::jsonb_delete(),
        _ => return Ok(None),
    };
    // A quoted text beside jsonb is jsonb, where the operator takes two of them.
    let both = matches!(op, Sql::AtArrow | Sql::ArrowAt | Sql::StringConcat);
    let read = |side: &Expr| {
        if both && open_text(side) {
            let jsonb = types::named(arrow::datatypes::Field::new("cast", DataType::Utf8View, true), "jsonb");
            return Expr::Cast(Cast::new_from_field(Box::new(side.clone()), std::sync::Arc::new(jsonb)));
        }
        side.clone()
    };
    let (left, right) = (read(left), read(right));
    let sides = if matches!(op, Sql::ArrowAt) { vec![right, left] } else { vec![left, right] };
    Ok(Some(function.call(sides)))
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| functions::json::kind(&field) == Some("jsonb"))
}

fn is_document(expr: &Expr, schema: &DFSchema) -> bool {
    is_jsonb(expr, schema) || expr.get_type(schema).is_ok_and(|data| is_text(&data) && !open_text(expr))
}

/// Arithmetic of intervals with numbers.
fn spans(op: &Sql, left: &Expr, a: &DataType, right: &Expr, b: &DataType) -> Option<Expr> {
    let call =
        |function: Arc<ScalarUDF>, left: &Expr, right: &Expr| Some(function.call(vec![left.clone(), right.clone()]));
    match (op, a, b) {
        (Sql::Multiply, DataType::Interval(_), b) if b.is_numeric() => call(planned::interval_times(), left, right),
        (Sql::Multiply, a, DataType::Interval(_)) if a.is_numeric() => call(planned::interval_times(), right, left),
        (Sql::Divide, DataType::Interval(_), b) if b.is_numeric() => call(planned::interval_over(), left, right),
        // What is divided exactly keeps 16 digits after the point.
        (Sql::Divide, DataType::Decimal128(..), b) if matches!(b, DataType::Decimal128(..)) || b.is_integer() => {
            call(planned::numeric_divide(), left, right)
        }
        (Sql::Divide, a, DataType::Decimal128(..)) if a.is_integer() => call(planned::numeric_divide(), left, right),
        _ => None,
    }
}

fn is_span(data: &DataType) -> bool {
    matches!(data, DataType::Interval(_) | DataType::Duration(_))
}

/// The text of a literal whose type is open.
fn open_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

fn is_text(data: &DataType) -> bool {
    matches!(data, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

/// A quoted text as a value of the type beside it.
fn typed(side: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    if !open_text(&side) || open_text(other) {
        return side;
    }
    match other.get_type(schema) {
        Ok(data) if !is_text(&data) && (!data.is_nested() || matches!(data, DataType::List(_))) => {
            let data = type_of(&side, &data);
            Expr::Cast(Cast::new(Box::new(side), data))
        }
        _ => side,
    }
}

/// The type of a quoted text beside one of a type: a `numeric` with all the digits that the text has.
pub(crate) fn type_of(side: &Expr, data: &DataType) -> DataType {
    let (DataType::Decimal128(precision, scale), Expr::Literal(ScalarValue::Utf8(Some(text)), _)) = (data, side) else {
        return data.clone();
    };
    let (whole, fraction) = text.trim().trim_start_matches(['-', '+']).split_once('.').unwrap_or((text.trim(), ""));
    let is_plain =
        whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+');
    let has = |count: usize| i8::try_from(count).unwrap_or(i8::MAX);
    let before = i8::try_from(*precision).unwrap_or(i8::MAX) - scale;
    match is_plain {
        true if has(fraction.len()) <= *scale && has(whole.len()) <= before => data.clone(),
        true => {
            let most = i8::try_from(types::NUMERIC_PRECISION).unwrap_or(i8::MAX);
            let scale = has(fraction.len()).max(*scale).min((most - has(whole.len()).max(before)).max(0));
            DataType::Decimal128(types::NUMERIC_PRECISION, scale)
        }
        false => types::without_digits(data),
    }
}

/// Whole numbers as `integer` where they fit, beside another or beside an `integer` or `smallint`.
fn narrowed(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let small = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Int16 | DataType::Int32));
    match (literal(&left), literal(&right)) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) if small(&right) => (a, right),
        (None, Some(b)) if small(&left) => (left, b),
        _ => (left, right),
    }
}

fn literal(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(int)), metadata) => {
            let int = i32::try_from(*int).ok()?;
            Some(Expr::Literal(ScalarValue::Int32(Some(int)), metadata.clone()))
        }
        _ => None,
    }
}

/// Arithmetic of dates and times that Arrow has otherwise.
fn dates(op: &Sql, left: &Expr, a: &DataType, right: &Expr, b: &DataType) -> Option<Expr> {
    let days = |expr: &Expr| Expr::Cast(Cast::new(Box::new(expr.clone()), DataType::Int32));
    let date = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Date32));
    match (op, a, b) {
        (Sql::Minus, DataType::Date32, DataType::Date32) => Some(binary_expr(days(left), Operator::Minus, days(right))),
        (Sql::Plus, DataType::Date32, b) if b.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Plus, days(right))))
        }
        (Sql::Minus, DataType::Date32, b) if b.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Minus, days(right))))
        }
        (Sql::Plus, a, DataType::Date32) if a.is_integer() => {
            Some(date(binary_expr(days(left), Operator::Plus, days(right))))
        }
        (Sql::Plus | Sql::Minus, DataType::Date32, DataType::Interval(_)) => {
            let operator = if matches!(op, Sql::Plus) { Operator::Plus } else { Operator::Minus };
            let start = Expr::Cast(Cast::new(Box::new(left.clone()), types::TIMESTAMP));
            Some(binary_expr(start, operator, right.clone()))
        }
        (Sql::Minus, DataType::Timestamp(..) | DataType::Date32, DataType::Timestamp(..) | DataType::Date32) => {
            let micros = |expr: &Expr, data: &DataType| {
                let zone = if let DataType::Timestamp(_, zone) = data { zone.clone() } else { None };
                let target = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, zone);
                let stamp = Expr::Cast(Cast::new(Box::new(expr.clone()), target));
                Expr::Cast(Cast::new(Box::new(stamp), DataType::Int64))
            };
            Some(functions::span_between().call(vec![micros(left, a), micros(right, b)]))
        }
        _ => None,
    }
}
