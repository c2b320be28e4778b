//! Quoted texts that functions of jsonb take: `jsonb_each_text('{…}')` reads a jsonb, in its one form.

use super::build::is_quoted;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
};

/// Functions of jsonb that take its text as it is written, if it is quoted.
pub(super) const OF_JSONB: [&str; 16] = [
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

/// A quoted text as the first argument of a function of jsonb is one.
pub(super) fn typed(function: &mut Function) {
    let last = function.name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
    if !last.is_some_and(|name| OF_JSONB.contains(&name.as_str())) {
        return;
    }
    if let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) = list.args.first_mut()
        && is_quoted(expr)
    {
        *expr = as_jsonb(std::mem::replace(expr, Expr::Identifier(Ident::new(""))));
    }
}

/// A text read as jsonb.
pub(super) fn as_jsonb(text: Expr) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(text), data_type: DataType::JSONB, array: false, format: None }
}
