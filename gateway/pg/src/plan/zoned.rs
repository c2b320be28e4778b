//! Casts and arithmetic of `timestamptz` in a session whose zone is not UTC: an analyzer rule.
//!
//! Arrow takes local time for UTC, which it is in a session that has set nothing: there the rule does nothing, so that
//! plans are as they were. In another zone, a cast between `timestamptz` and `timestamp`, `date` or `time` goes by the
//! zone's offset at that time, and an interval's days and months are those of its calendar. A plan is kept for one
//! setting of the zone only.

use super::each_expr::{EachExpr, Order};
use crate::{
    datetime::{
        Style,
        casts::{crosses, in_zone},
    },
    error::SqlError,
    functions::{planned, scalar_function::external},
};
use arrow::{
    array::ArrayRef,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, SortExpr, TypeSignature, Volatility, WindowFrameBound, WindowFrameUnits,
        expr::{ScalarFunction, WindowFunction},
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The rule.
pub fn zoned() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr { name: "session_time_zone", order: Order::LeavesFirst, rewrite })
}

fn rewrite(expr: Expr, schema: &DFSchema, options: &ConfigOptions) -> Result<Transformed<Expr>> {
    if Style::within(options).zone.is_utc() {
        return Ok(Transformed::no(expr));
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
            let sides = (left.get_type(schema), right.get_type(schema));
            let (time, span) = match sides {
                (Ok(DataType::Timestamp(_, Some(_))), Ok(DataType::Interval(_))) => (left, right),
                (Ok(DataType::Interval(_)), Ok(DataType::Timestamp(_, Some(_)))) if op == Operator::Plus => {
                    (right, left)
                }
                _ => return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
            };
            let moved = if op == Operator::Plus { planned::timestamptz_plus() } else { planned::timestamptz_minus() };
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(moved, vec![*time, *span]))))
        }
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema)?;
            if !crosses(&from, cast.field.data_type()) {
                return Ok(Transformed::no(Expr::Cast(cast)));
            }
            let function = ScalarUDF::from(InZone::new(cast.field.clone()));
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![*cast.expr]))))
        }
        Expr::WindowFunction(call) => {
            check_frame(&call, schema, options)?;
            Ok(Transformed::no(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// 0A000 for a frame of days or months over a `timestamptz`, which DataFusion would count by UTC, in a zone that has
/// days of other lengths.
fn check_frame(call: &WindowFunction, schema: &DFSchema, options: &ConfigOptions) -> Result<()> {
    let (frame, order) = (&call.params.window_frame, call.params.order_by.first());
    let is_zoned = |order: &SortExpr| matches!(order.expr.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
    let has_days = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => match value {
            ScalarValue::IntervalMonthDayNano(Some(span)) => span.months != 0 || span.days != 0,
            value => !value.is_null(),
        },
        WindowFrameBound::CurrentRow => false,
    };
    if frame.units == WindowFrameUnits::Range
        && (has_days(&frame.start_bound) || has_days(&frame.end_bound))
        && Style::within(options).zone.fixed_offset().is_none()
        && order.is_some_and(is_zoned)
    {
        let what = "RANGE of days over timestamptz in a time zone with summer time";
        return Err(external(SqlError::unsupported(what)));
    }
    Ok(())
}

/// A cast by the session's zone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InZone {
    target: FieldRef,
    signature: Signature,
}

impl InZone {
    fn new(target: FieldRef) -> Self {
        Self { target, signature: Signature::new(TypeSignature::Any(1), Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        "pg_cast_in_zone"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.target.data_type().clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields[0].is_nullable();
        let metadata = self.target.metadata().clone();
        Ok(Arc::new(Field::new("cast", self.target.data_type().clone(), nullable).with_metadata(metadata)))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let style = Style::within(&arguments.config_options);
        let cast = |array: &ArrayRef| in_zone(array, self.target.data_type(), style);
        match &arguments.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(cast(array)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = cast(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}
