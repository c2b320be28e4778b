//! Which member of a map a row must have to pass a filter.
//!
//! Of an open family with millions of rows a few have any one of its columns. `(props->>'speed')::numeric > 99` is NULL
//! for all others, so that a scan that reads this column alone may leave them out before anything is made of them. The
//! filter above decides as before about those that are left.

use datafusion::{
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{
            BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr,
            TryCastExpr,
        },
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// Functions that give a member of their first argument by a key, or NULL.
const GIVE: [&str; 2] = ["json_get", "json_get_text"];
/// That says whether there is a member of a key.
const EXISTS: &str = "jsonb_exists";
/// Functions that are NULL where an argument is.
const STRICT: [&str; 13] = [
    "character_length",
    "checked_add",
    "checked_divide",
    "checked_multiply",
    "checked_negate",
    "checked_remainder",
    "checked_subtract",
    "jsonb_key",
    "lower",
    "numeric_key",
    "pg_cast",
    "pg_cast_in_zone",
    "upper",
];

/// A member of a map: the column's index, and the key.
pub(super) type Member<'a> = (usize, &'a str);

/// The member without which the filter is false or NULL for a row; `None` if there is none, or it cannot be told.
pub(super) fn by(filter: &Arc<dyn PhysicalExpr>) -> Option<Member<'_>> {
    if let Some(both) = filter.downcast_ref::<BinaryExpr>().filter(|both| *both.op() == Operator::And) {
        return by(both.left()).or_else(|| by(both.right()));
    }
    if let Some(not_null) = filter.downcast_ref::<IsNotNullExpr>() {
        return null_without(not_null.arg());
    }
    if let Some(call) = filter.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.fun().name() == EXISTS) {
        return named(call);
    }
    null_without(filter)
}

/// The member without which the expression is NULL.
fn null_without(expr: &Arc<dyn PhysicalExpr>) -> Option<Member<'_>> {
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return match call.fun().name() {
            name if GIVE.contains(&name) => named(call).or_else(|| null_without(&call.args()[0])),
            name if STRICT.contains(&name) => call.args().iter().find_map(null_without),
            _ => None,
        };
    }
    if let Some(both) = expr.downcast_ref::<BinaryExpr>() {
        if !is_strict(*both.op()) {
            return None;
        }
        return null_without(both.left()).or_else(|| null_without(both.right()));
    }
    let inner = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        cast.expr()
    } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        cast.expr()
    } else if let Some(not) = expr.downcast_ref::<NotExpr>() {
        not.arg()
    } else if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        negative.arg()
    } else if let Some(list) = expr.downcast_ref::<InListExpr>() {
        list.expr()
    } else {
        expr.downcast_ref::<LikeExpr>()?.expr()
    };
    null_without(inner)
}

/// Whether the operator gives NULL where a side is.
fn is_strict(operator: Operator) -> bool {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo)
}

/// The column and the key that a function is called with.
fn named(call: &ScalarFunctionExpr) -> Option<Member<'_>> {
    let [column, key] = call.args() else { return None };
    let key = match key.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(Some(key)) | ScalarValue::Utf8View(Some(key)) | ScalarValue::LargeUtf8(Some(key)) => key,
        _ => return None,
    };
    Some((column.downcast_ref::<Column>()?.index(), key))
}
