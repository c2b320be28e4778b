//! Functions that know the statement.

use crate::{
    context::StatementContext,
    pg::functions::{self, RowFunction},
};
use arrow::datatypes::DataType;
use datafusion::{error::Result, scalar::ScalarValue};
use std::ops::RangeInclusive;

/// The values of a function's arguments.
pub(super) type Values<'a> = &'a [ScalarValue];

/// A function of `arity` arguments that knows the statement: [`row_function`](functions::row_function) with its
/// statement.
pub(super) fn row_function(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: DataType,
    run: fn(Values<'_>, &StatementContext) -> Result<ScalarValue>,
) -> RowFunction {
    functions::row_function(name, arity, returns, move |values, options| {
        run(values, StatementContext::within(options)?)
    })
}
