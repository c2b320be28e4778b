//! Items and slices: of arrays as PostgreSQL counts them, and of jsonb.

use crate::{
    error::{SqlError, SqlState},
    functions::{self, planned},
    numeric, types,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::DFSchema,
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable, GetFieldAccess, Operator, binary_expr,
        expr::Placeholder,
        planner::{PlannerResult, RawFieldAccessExpr},
    },
    prelude::lit,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// Plans `a[1]`, `a[2:3]` and `doc['key']`. The items of `int2vector` and `oidvector` are counted from 0.
pub(super) fn planned_access(
    access: RawFieldAccessExpr,
    schema: &DFSchema,
) -> Result<PlannerResult<RawFieldAccessExpr>> {
    let (_, field) = access.expr.to_field(schema)?;
    if functions::json::kind(&field) == Some("jsonb") {
        // `props['a']` is `props->'a'`.
        let key = match access.field_access {
            // A text that is a number is a place in an array, which `->` does not know.
            GetFieldAccess::NamedStructField { name } if is_place(&name) => {
                let path = datafusion::functions_nested::expr_fn::make_array(vec![lit(name)]);
                return Ok(PlannerResult::Planned(planned::json_get_path().call(vec![access.expr, path])));
            }
            GetFieldAccess::NamedStructField { name } => lit(name),
            GetFieldAccess::ListIndex { key } if numeric::is_number(&key.get_type(schema)?) => {
                let kind = key.get_type(schema)?;
                if !kind.is_integer() {
                    let message = format!("subscript type {} is not supported", functions::shown_type(&kind));
                    let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                    return Err(functions::scalar_function::external(
                        error.with_hint("jsonb subscript must be coercible to either integer or text."),
                    ));
                }
                *key
            }
            GetFieldAccess::ListIndex { key } => *key,
            GetFieldAccess::ListRange { .. } => {
                let message = "jsonb subscript does not support slices";
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                return Err(crate::functions::scalar_function::external(error));
            }
        };
        return Ok(PlannerResult::Planned(planned::json_get().call(vec![access.expr, key])));
    }
    let access = match access {
        RawFieldAccessExpr { field_access: GetFieldAccess::ListIndex { key }, expr } => {
            let key = match *key {
                Expr::Placeholder(Placeholder { id, field: None }) => super::parameter_of(id, &DataType::Int32),
                key => key,
            };
            RawFieldAccessExpr { field_access: GetFieldAccess::ListIndex { key: Box::new(key) }, expr }
        }
        access => access,
    };
    let access = match subscripted(access, &field)? {
        PlannerResult::Planned(planned) => return Ok(PlannerResult::Planned(planned)),
        PlannerResult::Original(access) => access,
    };
    if let (GetFieldAccess::ListIndex { key }, Some(item)) = (&access.field_access, types::item_field(&field))
        && item.metadata().contains_key(types::TYPE_KEY)
    {
        // The array's field says the type of its items, which DataFusion's function drops.
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

/// Whether a text is a place in an array of jsonb.
fn is_place(text: &ScalarValue) -> bool {
    functions::text_of(text).is_some_and(|text| text.parse::<i32>().is_ok())
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
