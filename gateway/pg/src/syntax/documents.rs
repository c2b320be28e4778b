//! Quoted texts and parameters that functions of json and jsonb take: `jsonb_each_text('{…}')` reads a jsonb, in its
//! one form.

use super::build::is_quoted;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value,
};

/// Functions of jsonb that take its text as it is written, if it is quoted.
const OF_JSONB: [&str; 16] = [
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_array_length",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_insert",
    "jsonb_object_keys",
    "jsonb_pretty",
    "jsonb_set",
    "jsonb_set_lax",
    "jsonb_strip_nulls",
    "jsonb_to_record",
    "jsonb_to_recordset",
    "jsonb_typeof",
];

/// A quoted text or a parameter as the first argument of a function of jsonb is one; what `jsonb_set` sets is, too, if
/// it is a parameter, whose path is an array of texts.
pub(super) fn typed(function: &mut Function) {
    let last = function.name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
    let (Some(name), FunctionArguments::List(list)) = (last, &mut function.args) else { return };
    let exprs = list.args.iter_mut().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let sets = ["jsonb_set", "jsonb_set_lax", "jsonb_insert"].contains(&name.as_str());
    for (at, expr) in exprs.enumerate() {
        let data_type = match at {
            0 => document_of(&name, expr),
            1 if sets && is_parameter(expr) => {
                Some(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None)))
            }
            2 if sets && is_parameter(expr) => Some(DataType::JSONB),
            _ => None,
        };
        if let Some(data_type) = data_type {
            *expr = read_as(std::mem::replace(expr, Expr::Identifier(Ident::new(""))), data_type);
        }
    }
}

/// The type as which a function reads the document that is its first argument, if that has no type of its own.
pub(super) fn document_of(function: &str, first: &Expr) -> Option<DataType> {
    let of_json = || function.strip_prefix("json_").is_some_and(|rest| OF_JSONB.contains(&&*format!("jsonb_{rest}")));
    match () {
        () if OF_JSONB.contains(&function) => (is_quoted(first) || is_parameter(first)).then_some(DataType::JSONB),
        () if is_parameter(first) && of_json() => Some(DataType::JSON),
        () => None,
    }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

/// A text read as a value of a type.
pub(super) fn read_as(text: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(text), data_type, array: false, format: None }
}
