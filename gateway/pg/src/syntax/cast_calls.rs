//! Casts in the form of calls: `date(created_at)`, `text(id)`.

use super::{build::parsed_expr, calls::only};
use crate::error::Result;
use datafusion::sql::sqlparser::ast::{Expr, Function};

/// Types whose names can be called: those that are key words of SQL, such as `timestamp`, cannot.
const CALLED_TYPES: [&str; 20] = [
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "json",
    "jsonb",
    "jsonpath",
    "name",
    "oid",
    "regclass",
    "regrole",
    "regtype",
    "text",
    "timestamptz",
    "uuid",
];

/// `date(expr)`: a cast in the form of a call.
pub(super) fn rewritten(name: &str, function: &Function) -> Result<Option<Expr>> {
    let plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
    if !plain || !CALLED_TYPES.contains(&name) {
        return Ok(None);
    }
    let Some((expr, None)) = only(function) else { return Ok(None) };
    parsed_expr(&format!("CAST({expr} AS {name})")).map(Some)
}
