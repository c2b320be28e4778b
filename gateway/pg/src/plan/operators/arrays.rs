//! Operators of arrays, and `ARRAY[…]`.

use super::{Operators, is_list, is_open_parameter, literal, parameter_of};
use crate::{
    common_type::{beside, is_unknown},
    functions::{self, planned, same_type},
    numeric,
    types::{self, is_text},
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{DFSchema, exec_err},
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable, Operator, binary_expr,
        expr::Placeholder,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr},
        when,
    },
    prelude::lit,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator as Sql,
};
use std::sync::Arc;

/// `ARRAY[…]`: whole numbers that fit are integers; numerics with different digits after the point keep them.
pub(super) fn array_literal(items: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
    let items: Vec<Expr> = items.into_iter().map(|item| literal(&item).unwrap_or(item)).collect();
    // A parameter is what the first item is that has a type.
    let known = items.iter().filter(|item| !is_unknown(item) && !is_open_parameter(item));
    let known = known.filter_map(|item| item.get_type(schema).ok()).find(|data| !data.is_null());
    let typed = |item| match (item, &known) {
        (Expr::Placeholder(Placeholder { id, field: None }), Some(data)) => {
            parameter_of(id, &types::without_digits(data))
        }
        (item, _) => item,
    };
    let items: Vec<Expr> = items.into_iter().map(typed).collect();
    if let Some(array) = named_array(&items, schema)? {
        return Ok(PlannerResult::Planned(array));
    }
    let types: Option<Vec<DataType>> = items.iter().map(|item| item.get_type(schema).ok()).collect();
    let common = types.as_ref().and_then(crate::common_type::of_numbers);
    let (Some(types), Some(common)) = (types, common) else { return Ok(PlannerResult::Original(items)) };
    if !types.iter().any(numeric::is_numeric) {
        return Ok(PlannerResult::Original(items));
    }
    let cast = items.into_iter().zip(&types);
    let cast = cast.map(|(item, from)| crate::common_type::as_number(item, from, &common));
    Ok(PlannerResult::Original(cast.collect()))
}

/// `ARRAY[…]` of values whose type Arrow has no name for, under that name; `None` where it has, or where they differ.
fn named_array(items: &[Expr], schema: &DFSchema) -> Result<Option<Expr>> {
    let open = |item: &&Expr| !is_unknown(item) && !matches!(item, Expr::Literal(ScalarValue::Null, _));
    let fields = items.iter().filter(open).map(|item| Ok(item.to_field(schema)?.1)).collect::<Result<Vec<_>>>()?;
    let Some(first) = fields.first() else { return Ok(None) };
    let name = |field: &Field| field.metadata().get(types::TYPE_KEY).cloned();
    let list = Field::new("", types::list_of(first.data_type().clone()), true);
    let Some(array) = types::array_named_after(&list, first) else { return Ok(None) };
    if fields.iter().any(|field| name(field) != name(first) || field.data_type() != first.data_type()) {
        return Ok(None);
    }
    let typed = items.iter().map(|item| match open(&item) {
        true => item.clone(),
        false => crate::common_type::cast_without_digits(item.clone(), first),
    });
    let made = datafusion::functions_nested::expr_fn::make_array(typed.collect());
    let array = Arc::new(array.with_name("array"));
    Ok(Some(Expr::Cast(Cast::new_from_field(Box::new(made), array))))
}

/// The same of items that a call of `make_array` has planned.
pub(super) fn array_of(items: Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::ScalarFunction(call) = items else { return Ok(items) };
    Ok(match array_literal(call.args, schema)? {
        PlannerResult::Planned(array) => array,
        PlannerResult::Original(items) => datafusion::functions_nested::expr_fn::make_array(items),
    })
}

/// `||` of an array: a quoted text or a parameter beside it is an array, not an item, and so is NULL, which adds
/// nothing.
pub(super) fn concatenation(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, left, right } = expr;
    if !matches!(op, Sql::StringConcat) {
        return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
    }
    let is_null = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Null, _));
    if is_null(&right) && is_list(&left, schema) {
        return Ok(PlannerResult::Planned(left));
    }
    if is_null(&left) && is_list(&right, schema) {
        return Ok(PlannerResult::Planned(right));
    }
    let like = |side: Expr, other: &Expr| match (side, other.get_type(schema)) {
        (Expr::Placeholder(Placeholder { id, field: None }), Ok(list @ DataType::List(_))) => parameter_of(id, &list),
        (side, _) => side,
    };
    let left = like(left, &right);
    let right = like(right, &left);
    // A whole number that is written out is an integer where it fits: `'{1}'::int[] || 2` is of integers.
    let written = |item: Expr| literal(&item).unwrap_or(item);
    let left = if is_list(&right, schema) { written(beside(left, &right, schema)) } else { left };
    let right = if is_list(&left, schema) { written(beside(right, &left, schema)) } else { right };
    // A parameter beside what is neither an array nor a document is a text. A numeric of the exact form is not the
    // bytes that Arrow takes it for.
    let is_text_beside = |other: &Expr| match other.get_type(schema) {
        Ok(data) => numeric::is_number(&data) || data.is_temporal() || is_text(&data) || data.is_null(),
        Err(_) => is_open_parameter(other),
    };
    let of_text = |side: Expr, is: bool| match side {
        Expr::Placeholder(Placeholder { id, field: None }) if is => parameter_of(id, &DataType::Utf8View),
        side => side,
    };
    let (left_is, right_is) = (is_text_beside(&right), is_text_beside(&left));
    let (left, right) = (of_text(left, left_is), of_text(right, right_is));
    let shown = |side: Expr| match side.get_type(schema) {
        Ok(data) if numeric::is_exact(&data) => Expr::Cast(Cast::new(Box::new(side), DataType::Utf8View)),
        _ => side,
    };
    Ok(match (is_list(&left, schema), is_list(&right, schema)) {
        (true, true) => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        (true, false) => PlannerResult::Planned(same_type::array_append().call(vec![left, right])),
        (false, true) => PlannerResult::Planned(same_type::array_prepend().call(vec![left, right])),
        (false, false) => PlannerResult::Original(RawBinaryExpr { op, left: shown(left), right: shown(right) }),
    })
}

/// `&&`, `@>` and `<@` of two arrays, which DataFusion has otherwise or not at all.
pub(super) fn arrays(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    use datafusion::functions_nested::expr_fn::{array_has_all, array_has_any};
    let is_of_arrays = matches!(expr.op, Sql::PGOverlap | Sql::AtArrow | Sql::ArrowAt)
        && (is_list(&expr.left, schema) || is_list(&expr.right, schema));
    if !is_of_arrays {
        return Ok(PlannerResult::Original(expr));
    }
    let (left, right) = (as_list(&expr.left, &expr.right, schema), as_list(&expr.right, &expr.left, schema));
    // A NULL in an array equals no item of another.
    let without_nulls = |side: Expr| functions::arrays::array_without_nulls().call(vec![side]);
    let contains = |whole: Expr, part: Expr| {
        let (is_there, is_null) = (whole.clone().is_not_null(), whole.clone().is_null());
        let all = array_has_all(whole, part.clone());
        let has = Expr::and(all, Expr::Not(Box::new(planned::list_has_nulls().call(vec![part]))));
        // NULL in the place of an array is open, whatever the part is.
        Expr::and(Expr::or(has, is_null), Expr::or(is_there, Expr::Literal(ScalarValue::Boolean(None), None)))
    };
    let overlaps = |left: Expr, right: Expr| {
        let may_be_null = |side: &&Expr| side.nullable(schema).unwrap_or(true);
        let open: Vec<Expr> = [&left, &right].into_iter().filter(may_be_null).cloned().collect();
        let any = array_has_any(without_nulls(left), right);
        // An array without items has nothing in common with another, but for NULL in its place.
        let Some(is_null) = open.into_iter().map(Expr::is_null).reduce(Expr::or) else { return any };
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        Expr::and(Expr::or(any, is_null.clone()), Expr::or(Expr::Not(Box::new(is_null)), unknown))
    };
    Ok(PlannerResult::Planned(match expr.op {
        Sql::PGOverlap => overlaps(left, right),
        Sql::AtArrow => contains(left, right),
        _ => contains(right, left),
    }))
}

/// A side of an operator of arrays: a quoted text, or a parameter without a type, as an array like the other side.
fn as_list(side: &Expr, other: &Expr, schema: &DFSchema) -> Expr {
    match (side, other.get_type(schema)) {
        (Expr::Placeholder(Placeholder { id, field: None }), Ok(list @ DataType::List(_))) => {
            parameter_of(id.clone(), &list)
        }
        _ => beside(side.clone(), other, schema),
    }
}

/// `= ANY` where NULL is told from false; it does not hold for an array without items, whatever the value.
pub(super) fn equal_to_any(has: Expr) -> Result<Expr> {
    unless_empty(has, true)
}

/// `<> ALL` from `= ANY`; it holds for an array without items.
pub(super) fn unequal_to_all(has: Expr) -> Result<Expr> {
    unless_empty(has, false)
}

fn unless_empty(has: Expr, found: bool) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &has else { return or_open(has, found) };
    let is_empty = datafusion::functions_nested::expr_fn::cardinality(call.args[0].clone()).eq(lit(0_u64));
    when(is_empty, lit(!found)).otherwise(or_open(has, found)?)
}

/// The outcome of a comparison with the items of a list: `found` if an item equals; else NULL if an item is NULL.
fn or_open(has: Expr, found: bool) -> Result<Expr> {
    let Expr::ScalarFunction(call) = &has else { return Ok(if found { has } else { Expr::Not(Box::new(has)) }) };
    let list = call.args[0].clone();
    let otherwise = if found { has.clone() } else { Expr::Not(Box::new(has.clone())) };
    let open = Expr::Literal(ScalarValue::Boolean(None), None);
    when(has, lit(found)).when(planned::list_has_nulls().call(vec![list]), open).otherwise(otherwise)
}

/// `value op ANY (list)` of another operator than `=`: by the list's least or greatest item, and NULL where none
/// decides and one is NULL, for which DataFusion (55.2, `plan_any_op`) answers false.
pub(super) fn compared_with_any(op: Operator, value: Expr, list: Expr, schema: &DFSchema) -> Result<Expr> {
    use datafusion::functions_nested::expr_fn::{array_max, array_min, cardinality};
    // Both with their types.
    let Expr::ScalarFunction(call) = equals_any(value, list, schema)? else { return exec_err!("no list") };
    let [list, value] = call.args.as_slice() else { return exec_err!("no list") };
    let compared = |bound: Expr| -> Result<Expr> {
        let sql = match op {
            Operator::Gt => Sql::Gt,
            Operator::GtEq => Sql::GtEq,
            Operator::Lt => Sql::Lt,
            Operator::LtEq => Sql::LtEq,
            _ => Sql::NotEq,
        };
        let raw = RawBinaryExpr { op: sql, left: value.clone(), right: bound };
        Ok(match Operators.plan_binary_op(raw, schema)? {
            PlannerResult::Planned(compared) => compared,
            PlannerResult::Original(raw) => binary_expr(raw.left, op, raw.right),
        })
    };
    let (least, greatest) = (array_min(list.clone()), array_max(list.clone()));
    let has = match op {
        Operator::Gt | Operator::GtEq => compared(least)?,
        Operator::Lt | Operator::LtEq => compared(greatest)?,
        _ => compared(least)?.or(compared(greatest)?),
    };
    let open = Expr::Literal(ScalarValue::Boolean(None), None);
    when(cardinality(list.clone()).eq(lit(0_u64)), lit(false))
        .when(has.clone(), lit(true))
        .when(planned::list_has_nulls().call(vec![list.clone()]), open)
        .otherwise(has)
}

/// Whether a value is an item of a list; one that a client will send, or a quoted text, takes its type from the value.
pub(super) fn equals_any(value: Expr, list: Expr, schema: &DFSchema) -> Result<Expr> {
    let list = match list {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let item = Field::new_list_field(value.get_type(schema)?, true);
            let field = Field::new(&id, DataType::List(Arc::new(item)), true);
            Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(field))))
        }
        Expr::Literal(ref text, _) if is_text(&text.data_type()) || text.data_type().is_null() => {
            let item = Field::new_list_field(value.get_type(schema)?, true);
            Expr::Cast(Cast::new(Box::new(list), DataType::List(Arc::new(item))))
        }
        other => other,
    };
    let item = match list.get_type(schema) {
        Ok(DataType::List(item)) => Some(item.data_type().clone()),
        _ => None,
    };
    let value = match (value, &item) {
        (Expr::Placeholder(Placeholder { id, field: None }), Some(item)) => parameter_of(id, item),
        (value, _) => value,
    };
    if let Some((item, of)) = item.zip(value.get_type(schema).ok())
        && let Some(has) = has_number(&list, &item, &value, &of)
    {
        return Ok(has);
    }
    // `char(n)` compares without blanks at the end.
    let is_char = value.to_field(schema).is_ok_and(|(_, field)| types::char_length(&field).is_some());
    let list = if is_char { functions::arrays::array_without_blanks().call(vec![list]) } else { list };
    Ok(datafusion::functions_nested::expr_fn::array_has(list, value))
}

/// Whether a list has a number, where one of them or both are numerics of different forms.
fn has_number(list: &Expr, item: &DataType, value: &Expr, of: &DataType) -> Option<Expr> {
    let has_numeric = numeric::is_numeric(item) || numeric::is_numeric(of);
    if !numeric::is_number(item) || !numeric::is_number(of) || !has_numeric || item == of && !numeric::is_exact(of) {
        return None;
    }
    let of_type = |item: DataType| {
        Expr::Cast(Cast::new(Box::new(list.clone()), DataType::List(Arc::new(Field::new_list_field(item, true)))))
    };
    if item.is_floating() || of.is_floating() {
        let value = crate::common_type::as_number(value.clone(), of, &DataType::Float64);
        return Some(datafusion::functions_nested::expr_fn::array_has(of_type(DataType::Float64), value));
    }
    let keys = functions::interval_micros().call(vec![of_type(numeric::EXACT)]);
    Some(datafusion::functions_nested::expr_fn::array_has(keys, numeric::key::key().call(vec![value.clone()])))
}
