//! Strict functions: a constant NULL among the arguments makes NULL of a call before anything is computed, as
//! PostgreSQL folds them (`evaluate_function` in its `clauses.c`), so that what would fail beside it is no error:
//! `a / 0 * NULL` is NULL.

use arrow::datatypes::FieldRef;
use datafusion::{
    common::metadata::FieldMetadata,
    error::Result,
    logical_expr::{
        Expr, ExprSchemable,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};

/// What a call of a strict function with a constant NULL is, by the type of its result; any other stays.
///
/// # Errors
/// Those of `returns`.
pub(crate) fn folded(
    arguments: Vec<Expr>,
    context: &SimplifyContext,
    returns: impl FnOnce(&[FieldRef]) -> Result<FieldRef>,
) -> Result<ExprSimplifyResult> {
    let is_null = |argument: &Expr| matches!(argument, Expr::Literal(value, _) if value.is_null());
    if !arguments.iter().any(is_null) {
        return Ok(ExprSimplifyResult::Original(arguments));
    }
    let fields = arguments.iter().map(|argument| Ok(argument.to_field(context.schema())?.1));
    let field = returns(&fields.collect::<Result<Vec<_>>>()?)?;
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::new_from_field(&field));
    Ok(ExprSimplifyResult::Simplified(Expr::Literal(ScalarValue::try_from(field.data_type())?, metadata)))
}
