//! Types of parameters that are arguments of functions, where DataFusion's signatures leave them open.

use super::parameters::placeholder;
use crate::{numeric, types};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::DFSchema,
    logical_expr::{Expr, ExprSchemable, expr::Placeholder},
};
use std::sync::Arc;

/// What PostgreSQL's functions take in a place, where DataFusion's signature does not say it.
#[derive(Clone, Copy)]
enum Taken {
    Integer,
    /// A `numeric` where another argument is one, else `double precision`.
    Real,
    /// A `numeric` where there are digits to round to, else as [`Taken::Real`].
    Rounded,
    /// A number of the other argument's type.
    Number,
    /// An array as the other argument.
    Array,
    /// An item of the array that another argument is.
    Item,
    /// The type of the first argument that has one.
    Other,
    Bytes,
    Interval,
    /// `double precision` where it is the only argument.
    Epoch,
}

/// Arguments of functions (`pg_proc` of PostgreSQL 15) that a parameter without a type may be: the name, the place.
const KNOWN_ARGUMENTS: [(&str, usize, Taken); 80] = [
    ("age", 0, Taken::Other),
    ("age", 1, Taken::Other),
    ("array_append", 1, Taken::Item),
    ("array_concat", 0, Taken::Array),
    ("array_concat", 1, Taken::Array),
    ("array_element", 1, Taken::Integer),
    ("array_length", 1, Taken::Integer),
    ("array_lower", 1, Taken::Integer),
    ("array_position", 1, Taken::Item),
    ("array_positions", 1, Taken::Item),
    ("array_prepend", 0, Taken::Item),
    ("array_remove", 1, Taken::Item),
    ("array_upper", 1, Taken::Integer),
    ("ceil", 0, Taken::Real),
    ("chr", 0, Taken::Integer),
    ("encode", 0, Taken::Bytes),
    ("exp", 0, Taken::Real),
    ("floor", 0, Taken::Real),
    ("justify_days", 0, Taken::Interval),
    ("justify_hours", 0, Taken::Interval),
    ("justify_interval", 0, Taken::Interval),
    ("lag", 1, Taken::Integer),
    ("lag", 2, Taken::Other),
    ("lead", 1, Taken::Integer),
    ("lead", 2, Taken::Other),
    ("left", 1, Taken::Integer),
    ("list_percentile", 1, Taken::Real),
    ("list_percentile_cont", 1, Taken::Real),
    ("ln", 0, Taken::Real),
    ("log", 0, Taken::Real),
    ("lpad", 1, Taken::Integer),
    ("make_date", 0, Taken::Integer),
    ("make_date", 1, Taken::Integer),
    ("make_date", 2, Taken::Integer),
    ("make_interval", 0, Taken::Integer),
    ("make_interval", 1, Taken::Integer),
    ("make_interval", 2, Taken::Integer),
    ("make_interval", 3, Taken::Integer),
    ("make_interval", 4, Taken::Integer),
    ("make_interval", 5, Taken::Integer),
    ("make_time", 0, Taken::Integer),
    ("make_time", 1, Taken::Integer),
    ("make_time", 2, Taken::Real),
    ("make_timestamp", 0, Taken::Integer),
    ("make_timestamp", 1, Taken::Integer),
    ("make_timestamp", 2, Taken::Integer),
    ("make_timestamp", 3, Taken::Integer),
    ("make_timestamp", 4, Taken::Integer),
    ("make_timestamp", 5, Taken::Real),
    ("make_timestamptz", 0, Taken::Integer),
    ("make_timestamptz", 1, Taken::Integer),
    ("make_timestamptz", 2, Taken::Integer),
    ("make_timestamptz", 3, Taken::Integer),
    ("make_timestamptz", 4, Taken::Integer),
    ("make_timestamptz", 5, Taken::Real),
    ("mod", 0, Taken::Number),
    ("mod", 1, Taken::Number),
    ("nth_value", 1, Taken::Integer),
    ("ntile", 0, Taken::Integer),
    ("overlay", 2, Taken::Integer),
    ("overlay", 3, Taken::Integer),
    ("power", 0, Taken::Real),
    ("power", 1, Taken::Real),
    ("repeat", 1, Taken::Integer),
    ("right", 1, Taken::Integer),
    ("round", 0, Taken::Rounded),
    ("round", 1, Taken::Integer),
    ("rpad", 1, Taken::Integer),
    ("sha256", 0, Taken::Bytes),
    ("split_part", 2, Taken::Integer),
    ("sqrt", 0, Taken::Real),
    ("substr", 1, Taken::Integer),
    ("substr", 2, Taken::Integer),
    ("to_timestamp", 0, Taken::Epoch),
    ("trunc", 0, Taken::Rounded),
    ("trunc", 1, Taken::Integer),
    ("width_bucket", 0, Taken::Real),
    ("width_bucket", 1, Taken::Real),
    ("width_bucket", 2, Taken::Real),
    ("width_bucket", 3, Taken::Integer),
];

/// Gives parameters without a type the one that PostgreSQL's function takes in their place.
pub(super) fn give(name: &str, arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let is_open = |argument: &Expr| matches!(argument, Expr::Placeholder(Placeholder { field: None, .. }));
    if !arguments.iter().any(is_open) {
        return false;
    }
    let types: Vec<Option<DataType>> =
        arguments.iter().map(|argument| argument.get_type(schema).ok().filter(|_| !is_open(argument))).collect();
    let other = |is: fn(&DataType) -> bool| types.iter().flatten().find(|data| is(data)).cloned();
    let two = arguments.len() == 2;
    let mut any = false;
    for (_, at, taken) in KNOWN_ARGUMENTS.iter().filter(|(of, ..)| *of == name) {
        let Some(argument) = arguments.get_mut(*at).filter(|argument| is_open(argument)) else { continue };
        let data = match taken {
            Taken::Integer => Some(DataType::Int32),
            Taken::Rounded if two => Some(numeric::EXACT),
            Taken::Real | Taken::Rounded => {
                Some(other(numeric::is_numeric).map_or(DataType::Float64, |_| numeric::EXACT))
            }
            Taken::Number => other(numeric::is_number).map(|data| types::without_digits(&data)),
            Taken::Array => other(|data| matches!(data, DataType::List(_))),
            Taken::Item => match other(|data| matches!(data, DataType::List(_))) {
                Some(DataType::List(item)) => Some(item.data_type().clone()),
                _ => None,
            },
            Taken::Other => other(|data| !data.is_null()),
            Taken::Bytes => Some(DataType::Binary),
            Taken::Interval => Some(types::INTERVAL),
            Taken::Epoch => (!two).then_some(DataType::Float64),
        };
        if let (Some(data), Expr::Placeholder(Placeholder { id, .. })) = (data, &*argument) {
            *argument = placeholder(id.clone(), Arc::new(Field::new("", data, true)));
            any = true;
        }
    }
    any
}
