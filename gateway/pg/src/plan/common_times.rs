//! Dates, timestamps and `timestamptz` beside each other, before DataFusion settles types: an analyzer rule.
//!
//! PostgreSQL casts local time to `timestamptz`, and a date to either. DataFusion would take nanoseconds without a
//! zone, which end in 2262, and from which no range of keys follows. [`zoned`](super::zoned) then makes these casts go
//! by the session's zone.

use super::each_expr::{EachExpr, Order};
use crate::{
    common_type::{SAME_TYPE, cast_unknown},
    types,
    workarounds::canonical_comparisons::compares,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, tree_node::Transformed},
    logical_expr::{Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, expr::InList},
    optimizer::AnalyzerRule,
};
use std::sync::Arc;

/// The rule.
pub fn common_times() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr {
        name: "common_times",
        order: Order::LeavesFirst,
        rewrite: |mut expr, schema, _| {
            let changed = settle(&mut expr, schema);
            Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
        },
    })
}

/// Casts what an expression compares or chooses from; returns whether anything changed.
fn settle(expr: &mut Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            together(&mut [left.as_mut(), right.as_mut()], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => {
            together(&mut [expr.as_mut(), low.as_mut(), high.as_mut()], schema)
        }
        Expr::InList(InList { expr, list, .. }) => {
            let mut all: Vec<&mut Expr> = std::iter::once(expr.as_mut()).chain(list).collect();
            together(&mut all, schema)
        }
        Expr::ScalarFunction(call) if is_of_one_type(call.func.name()) => {
            let mut all: Vec<&mut Expr> = call.args.iter_mut().collect();
            together(&mut all, schema)
        }
        Expr::ScalarFunction(call) if call.func.name() == "date_bin" => bins(&mut call.args, schema),
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut whens, mut thens): (Vec<_>, Vec<_>) =
                when_then_expr.iter_mut().map(|(when, then)| (when.as_mut(), then.as_mut())).unzip();
            thens.extend(else_expr.as_deref_mut());
            let results = together(&mut thens, schema);
            let Some(value) = expr.as_deref_mut() else { return results };
            whens.push(value);
            together(&mut whens, schema) | results
        }
        _ => false,
    }
}

/// Whether the arguments of a function are of one type.
fn is_of_one_type(name: &str) -> bool {
    SAME_TYPE.contains(&name) || name == "make_array"
}

/// `date_bin(stride, time, origin)`, of which two are quoted texts often.
fn bins(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let [stride, times @ ..] = arguments else { return false };
    let is =
        |wanted: fn(&DataType) -> bool| times.iter().any(|time| time.get_type(schema).is_ok_and(|data| wanted(&data)));
    let is_local = is(|data| matches!(data, DataType::Timestamp(_, None)))
        && !is(|data| matches!(data, DataType::Timestamp(_, Some(_))));
    let kind = if is_local { types::TIMESTAMP } else { types::timestamptz() };
    cast_unknown(stride, &types::INTERVAL);
    for time in times {
        cast_unknown(time, &kind);
        if time.get_type(schema).is_ok_and(|data| data.is_temporal() && data != kind) {
            let inner = Box::new(std::mem::take(time));
            *time = Expr::Cast(Cast::new(inner, kind.clone()));
        }
    }
    true
}

/// How much a type holds of a time; `None` for what is none.
fn rank(data: &DataType) -> Option<u8> {
    match data {
        DataType::Date32 => Some(0),
        DataType::Timestamp(_, None) => Some(1),
        DataType::Timestamp(_, Some(_)) => Some(2),
        _ => None,
    }
}

/// The type that dates and timestamps of several types are cast to; `None` where they are of one, or others are among
/// them.
pub(crate) fn of_types<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let ranks: Vec<u8> = types.into_iter().filter(|data| !data.is_null()).map(rank).collect::<Option<_>>()?;
    let (least, most) = (ranks.iter().min()?, ranks.iter().max()?);
    (least < most).then(|| if *most == 2 { types::timestamptz() } else { types::TIMESTAMP })
}

/// Casts those that hold less than others to the type of these. Quoted texts and NULLs take any type, and stay.
fn together(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let ranks: Vec<Option<u8>> = sides.iter().map(|side| side.get_type(schema).ok().as_ref().and_then(rank)).collect();
    let known = || ranks.iter().flatten();
    let (Some(least), Some(most)) = (known().min(), known().max()) else { return false };
    if least == most {
        return false;
    }
    let kind = if *most == 2 { types::timestamptz() } else { types::TIMESTAMP };
    for (side, rank) in sides.iter_mut().zip(&ranks) {
        if rank.is_some_and(|rank| rank < *most) {
            let inner = Box::new(std::mem::take(*side));
            **side = Expr::Cast(Cast::new(inner, kind.clone()));
        }
    }
    true
}
