//! Operators of json and jsonb.

use super::{is_open_parameter, parameter_of};
use crate::{
    common_type::is_unknown,
    functions::{self, planned},
    plan::{documents, json_paths},
    types::{self, is_text},
};
use arrow::datatypes::DataType;
use datafusion::{
    common::DFSchema,
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable,
        expr::Placeholder,
        planner::{PlannerResult, RawBinaryExpr},
    },
    sql::sqlparser::ast::BinaryOperator as Sql,
};

/// An operator of json or jsonb, if it is one.
pub(super) fn planned_operator(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let (op, left, right) = (&expr.op, &expr.left, &expr.right);
    let function = match op {
        Sql::Arrow => planned::json_get(),
        Sql::LongArrow => planned::json_get_text(),
        Sql::HashArrow => planned::json_get_path(),
        Sql::HashLongArrow => planned::json_get_path_text(),
        Sql::Question => planned::jsonb_exists(),
        Sql::AtQuestion => json_paths::exists_operator(),
        Sql::AtAt if is_jsonb(left, schema) || left.get_type(schema).is_ok_and(|data| data.is_null()) => {
            json_paths::match_operator()
        }
        Sql::QuestionPipe => planned::jsonb_exists_any(),
        Sql::QuestionAnd => planned::jsonb_exists_all(),
        Sql::HashMinus => planned::jsonb_delete_path(),
        Sql::AtArrow | Sql::ArrowAt if is_document(left, schema) || is_document(right, schema) => {
            planned::jsonb_contains()
        }
        Sql::StringConcat if joins_documents(left, right, schema) => planned::jsonb_concat(),
        Sql::Minus if is_jsonb(left, schema) => planned::jsonb_delete(),
        _ => return Ok(PlannerResult::Original(expr)),
    };
    // A quoted text beside jsonb is jsonb, and so is a parameter, where the operator takes two of them.
    let both = matches!(op, Sql::AtArrow | Sql::ArrowAt | Sql::StringConcat);
    let read = |side: &Expr| {
        if both && (is_unknown(side) || is_open_parameter(side)) {
            let jsonb = types::named(arrow::datatypes::Field::new("cast", DataType::Utf8View, true), "jsonb");
            return Expr::Cast(Cast::new_from_field(Box::new(side.clone()), std::sync::Arc::new(jsonb)));
        }
        side.clone()
    };
    let of_texts =
        matches!(op, Sql::HashArrow | Sql::HashLongArrow | Sql::HashMinus | Sql::QuestionPipe | Sql::QuestionAnd);
    let right = match right {
        Expr::Placeholder(Placeholder { id, field: None }) if of_texts => {
            &parameter_of(id.clone(), &types::list_of(DataType::Utf8View))
        }
        right => right,
    };
    let (left, right) = (read(left), read(right));
    let sides = if matches!(op, Sql::ArrowAt) { vec![right, left] } else { vec![left, right] };
    Ok(PlannerResult::Planned(function.call(sides)))
}

/// Whether a value is jsonb; CASE and `coalesce` of jsonb are, whose fields do not say so yet.
fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    documents::kind(expr, schema) == Some("jsonb")
        || expr.to_field(schema).is_ok_and(|(_, field)| functions::json::kind(&field) == Some("jsonb"))
}

/// Whether `||` is that of jsonb: beside a text it is that of texts.
fn joins_documents(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    let is_open = |side: &Expr| {
        is_unknown(side)
            || matches!(side, Expr::Placeholder(_))
            || side.get_type(schema).is_ok_and(|data| data.is_null())
    };
    match (is_jsonb(left, schema), is_jsonb(right, schema)) {
        (true, true) => true,
        (true, false) => is_open(right),
        (false, true) => is_open(left),
        (false, false) => false,
    }
}

fn is_document(expr: &Expr, schema: &DFSchema) -> bool {
    is_jsonb(expr, schema)
        || expr.get_type(schema).is_ok_and(|data| (is_text(&data) || data.is_null()) && !is_unknown(expr))
}
