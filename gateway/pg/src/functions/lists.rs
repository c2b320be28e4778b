//! Functions of arrays, and those that return the lists for functions that return sets
//! ([`set_returning`](crate::syntax::set_returning)).

use super::{
    bounded::ResultBytes,
    scalar_function::{
        self, Call, RowFunction, RunOnColumns, external, item_of, items, nullable, returns_integer, strict,
    },
    series::{series, series_type},
};
use crate::{
    datetime::Input,
    error::{SqlError, SqlState},
};
use arrow::{
    array::{Array, AsArray, BooleanArray, ListArray, StructArray},
    buffer::{BooleanBuffer, OffsetBuffer},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    error::Result,
    logical_expr::{ColumnarValue, ScalarUDF},
    scalar::ScalarValue,
};
use keyspan_catalog::value::array::ARRAY_ITEMS_MAX;
use std::{cmp::Ordering, sync::Arc};

/// A quoted text, and a value whose type it takes: `VALUES (time '10:00'), ('11:00')`.
pub(crate) const TEXT_BESIDE: &str = "text_beside";

/// A number written out, and a value: a number of the value's type where that is of floating point.
pub(crate) const NUMBER_BESIDE: &str = "number_beside";

/// A nullable array.
fn list_of(item: DataType) -> Result<FieldRef> {
    nullable(crate::types::list_of(item))
}

/// The first and the last subscript of an array; `None` without items, and for another dimension than the first.
fn bounds(call: &Call) -> Option<(i32, i32)> {
    let length = i32::try_from(items(&call.values[0])?.len()).ok().filter(|length| *length > 0)?;
    let first = first_place(call);
    (super::values::int_of(&call.values[1]) == Some(1)).then_some((first, first + length - 1))
}

/// The subscript of the first item of the first argument.
fn first_place(call: &Call) -> i32 {
    i32::from(!crate::types::is_vector(&call.fields[0]))
}

fn item_type(fields: &[FieldRef]) -> Result<FieldRef> {
    match item_of(&fields[0]) {
        Some(item) => Ok(Arc::new(item.as_ref().clone().with_name("").with_nullable(true))),
        None => nullable(DataType::Null),
    }
}

/// The items of the first argument in order, without NULLs.
pub(super) fn sorted(call: &Call) -> Vec<ScalarValue> {
    let mut all = items(&call.values[0]).unwrap_or_default();
    all.retain(|value| !value.is_null());
    all.sort_by(order);
    all
}

/// PostgreSQL's order of two values of one type: intervals by their lengths.
fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    let span = |value: &ScalarValue| match value {
        ScalarValue::IntervalMonthDayNano(Some(_)) => match crate::types::value_of_scalar(value) {
            Ok(keyspan_catalog::Value::Interval(span)) => Some(span),
            _ => None,
        },
        _ => None,
    };
    match (span(a), span(b)) {
        (Some(a), Some(b)) => a.compare(b),
        _ => a.partial_cmp(b).unwrap_or(Ordering::Equal),
    }
}

/// Whether two values of one type are the same, or both NULL.
fn same(a: &ScalarValue, b: &ScalarValue) -> bool {
    match (a.is_null(), b.is_null()) {
        (false, false) => a == b || matches!(a, ScalarValue::IntervalMonthDayNano(_)) && order(a, b).is_eq(),
        (a, b) => a && b,
    }
}

/// The type of a function whose first argument has to be an array: 42883 for other types.
fn of_array(name: &str, fields: &[FieldRef], returns: FieldRef) -> Result<FieldRef> {
    match fields[0].data_type() {
        DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_) | DataType::Null => Ok(returns),
        _ => {
            let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
            Err(external(super::values::undefined(name, &types)))
        }
    }
}

/// An argument cast to the type of the items of the first one.
fn as_item(call: &Call, at: usize) -> Result<ScalarValue> {
    let (item, value) = (item_data(&call.fields[0]), &call.values[at]);
    match value {
        null if null.is_null() => ScalarValue::try_from(&item),
        same if same.data_type() == item => Ok(same.clone()),
        ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) => {
            let read = crate::plan::casts::convert(
                &value.to_array()?,
                &Field::new("", item, true),
                Input::within(call.options),
            )?;
            ScalarValue::try_from_array(&read, 0)
        }
        other => other.cast_to(&item),
    }
}

/// The positions of an item in the first argument, from a position on.
fn places(call: &Call, from: usize) -> Result<Vec<i32>> {
    let wanted = as_item(call, 1)?;
    let found = items(&call.values[0]).unwrap_or_default().into_iter().zip(1_i32..).skip(from);
    Ok(found.filter(|(item, _)| same(item, &wanted)).map(|(_, place)| place).collect())
}

/// The lengths of an array along its dimensions; none of one without items.
fn dimensions(value: &ScalarValue) -> Vec<usize> {
    let mut all = Vec::new();
    let mut here = items(value);
    while let Some(items) = here.filter(|items| !items.is_empty()) {
        all.push(items.len());
        here = items.first().and_then(scalar_function::items);
    }
    all
}

/// Items of an array as one text; NULLs as the third argument, or not at all.
fn joined(call: &Call) -> Result<ScalarValue> {
    let (Some(all), Some(between)) = (items(&call.values[0]), super::values::text_of(&call.values[1])) else {
        return Ok(ScalarValue::Utf8View(None));
    };
    let item = crate::types::item_field(&call.fields[0]).unwrap_or_else(|| Field::new("", DataType::Null, true));
    let null = call.values.get(2).and_then(super::values::text_of);
    let mut texts = Vec::with_capacity(all.len());
    for value in &all {
        texts.extend(scalar_function::text_output(value, &item, call.options)?.or_else(|| null.clone()));
    }
    Ok(super::values::text(texts.join(&between)))
}

/// The items from a position to another. There is nothing before the first one.
fn sliced(call: &Call) -> Result<ScalarValue> {
    let ScalarValue::List(list) = &call.values[0] else { return Ok(call.values[0].clone()) };
    let (all, DataType::List(item)) = (list.value(0), list.data_type()) else { return Ok(call.values[0].clone()) };
    let bound = |at: usize| super::values::int_of(&call.values[at]).unwrap_or(0);
    let length = i64::try_from(all.len()).unwrap_or(i64::MAX);
    let (from, to) = (bound(1).max(1), bound(2).min(length));
    let range = (usize::try_from(from - 1), usize::try_from(to - from + 1));
    let (from, count) = if let (true, (Ok(from), Ok(count))) = (from <= to, range) { (from, count) } else { (0, 0) };
    let offsets = OffsetBuffer::from_lengths([count]);
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(Arc::clone(item), offsets, all.slice(from, count), None)?)))
}

fn same_as_first(fields: &[FieldRef]) -> Result<FieldRef> {
    Ok(Arc::new(fields[0].as_ref().clone().with_name("").with_nullable(true)))
}

fn item_data(list: &FieldRef) -> DataType {
    item_of(list).map_or(DataType::Null, |item| item.data_type().clone())
}

fn like_first(call: &Call, items: &[ScalarValue]) -> ScalarValue {
    ScalarValue::List(ScalarValue::new_list_nullable(items, &item_data(&call.fields[0])))
}

/// Rows of `x`, an item, and `n`, its position.
fn expanded_type(fields: &[FieldRef]) -> Result<FieldRef> {
    let row = [Field::new("x", item_data(&fields[0]), true), Field::new("n", DataType::Int32, true)];
    list_of(DataType::Struct(row.into_iter().collect()))
}

/// The length along a dimension; NULL where it has no items.
fn array_length(call: &Call) -> Result<ScalarValue> {
    let mut dimension = super::values::int_of(&call.values[1]).unwrap_or(0);
    let mut here = items(&call.values[0]);
    while dimension > 1 {
        here = here.and_then(|items| items.first().and_then(scalar_function::items));
        dimension -= 1;
    }
    let length = here.map(|items| items.len()).filter(|length| *length > 0 && dimension == 1);
    Ok(ScalarValue::Int32(length.and_then(|length| i32::try_from(length).ok())))
}

/// How many items an array has along all of its dimensions.
fn cardinality(call: &Call) -> Result<ScalarValue> {
    fn count(list: &ScalarValue) -> usize {
        items(list).unwrap_or_default().iter().map(|item| if items(item).is_some() { count(item) } else { 1 }).sum()
    }
    Ok(ScalarValue::Int32(i32::try_from(count(&call.values[0])).ok()))
}

fn array_ndims(call: &Call) -> Result<ScalarValue> {
    let count = Some(dimensions(&call.values[0]).len()).filter(|count| *count > 0);
    Ok(ScalarValue::Int32(count.and_then(|count| i32::try_from(count).ok())))
}

fn array_dims(call: &Call) -> Result<ScalarValue> {
    let text: String = dimensions(&call.values[0]).iter().map(|length| format!("[1:{length}]")).collect();
    Ok(ScalarValue::Utf8View(Some(text).filter(|text| !text.is_empty())))
}

fn array_positions(call: &Call) -> Result<ScalarValue> {
    if call.values[0].is_null() {
        return ScalarValue::try_from(call.returns.data_type());
    }
    Ok(integers(places(call, 0)?))
}

fn array_position(call: &Call) -> Result<ScalarValue> {
    let from = call.values.get(2).map_or(Some(1), super::values::int_of).ok_or_else(|| {
        let message = "initial position must not be null";
        external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
    })?;
    let before = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
    Ok(ScalarValue::Int32(places(call, before)?.first().copied()))
}

fn array_remove(call: &Call) -> Result<ScalarValue> {
    let (Some(mut rest), removed) = (items(&call.values[0]), as_item(call, 1)?) else {
        return Ok(call.values[0].clone());
    };
    rest.retain(|item| !same(item, &removed));
    Ok(like_first(call, &rest))
}

fn array_replace(call: &Call) -> Result<ScalarValue> {
    let Some(mut all) = items(&call.values[0]) else { return Ok(call.values[0].clone()) };
    let (replaced, other) = (as_item(call, 1)?, as_item(call, 2)?);
    all.iter_mut().filter(|item| same(item, &replaced)).for_each(|item| *item = other.clone());
    Ok(like_first(call, &all))
}

/// # Errors
/// 42804 for a quoted text, whose type nobody knows.
fn filled_type(fields: &[FieldRef]) -> Result<FieldRef> {
    if fields[0].data_type().is_null() {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
    }
    let list = Field::new("", crate::types::list_of(fields[0].data_type().clone()), true);
    Ok(Arc::new(crate::types::array_named_after(&list, &fields[0]).unwrap_or(list)))
}

/// `array_fill(value, ARRAY[3])`: an array of one dimension, from 1 on.
fn array_fill(call: &Call) -> Result<ScalarValue> {
    fn refused<T>(state: SqlState, message: &str) -> Result<T> {
        Err(external(SqlError::new(state, message)))
    }
    let numbers = |at: usize| match call.values.get(at).map(items) {
        None => Ok(None),
        Some(None) => refused(SqlState::NULL_VALUE_NOT_ALLOWED, "dimension array or low bound array cannot be null"),
        Some(Some(all)) => match all.iter().map(super::values::int_of).collect::<Option<Vec<_>>>() {
            Some(all) => Ok(Some(all)),
            None => refused(SqlState::NULL_VALUE_NOT_ALLOWED, "dimension values cannot be null"),
        },
    };
    let (lengths, lower) = (numbers(1)?.unwrap_or_default(), numbers(2)?);
    let length = match lengths.as_slice() {
        [] => 0,
        [length] => *length,
        _ => return refused(SqlState::FEATURE_NOT_SUPPORTED, "arrays of several dimensions are not supported"),
    };
    if lower.as_ref().is_some_and(|lower| lower.len() != lengths.len()) {
        return refused(SqlState::ARRAY_SUBSCRIPT_ERROR, "wrong number of array subscripts");
    }
    if lower.is_some_and(|lower| lower.iter().any(|first| *first != 1)) {
        return refused(SqlState::FEATURE_NOT_SUPPORTED, "arrays that do not begin at 1 are not supported");
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= ARRAY_ITEMS_MAX);
    let Some(length) = length else {
        let message = format!("array size exceeds the maximum allowed ({ARRAY_ITEMS_MAX})");
        return refused(SqlState::PROGRAM_LIMIT_EXCEEDED, &message);
    };
    let value = &call.values[0];
    ResultBytes::within(call.options).check("array_fill", (value.size() as u64).saturating_mul(length as u64))?;
    let all = vec![value.clone(); length];
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&all, &value.data_type())))
}

fn trim_array(call: &Call) -> Result<ScalarValue> {
    let mut rest = items(&call.values[0]).unwrap_or_default();
    let count = super::values::int_of(&call.values[1]).and_then(|count| usize::try_from(count).ok());
    let Some(count) = count.filter(|count| *count <= rest.len()) else {
        let message = format!("number of elements to trim must be between 0 and {}", rest.len());
        return Err(external(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)));
    };
    rest.truncate(rest.len() - count);
    Ok(like_first(call, &rest))
}

fn list_or_empty(call: &Call) -> Result<ScalarValue> {
    match items(&call.values[0]) {
        Some(_) => Ok(call.values[0].clone()),
        None => Ok(like_first(call, &[])),
    }
}

fn list_has_nulls(call: &Call) -> Result<ScalarValue> {
    let has_nulls = items(&call.values[0]).is_some_and(|items| items.iter().any(ScalarValue::is_null));
    Ok(ScalarValue::Boolean(Some(has_nulls)))
}

/// The same of a column of lists.
const COLUMN_HAS_NULLS: RunOnColumns = |arguments, _, _| {
    let [ColumnarValue::Array(lists)] = arguments else { return Ok(None) };
    let Some(lists) = lists.as_list_opt::<i32>() else { return Ok(None) };
    let Some(nulls) = lists.values().logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Some(Arc::new(BooleanArray::new(BooleanBuffer::new_unset(lists.len()), lists.nulls().cloned()))));
    };
    let places = lists.value_offsets().windows(2);
    let has_nulls = places.map(|place| (place[0]..place[1]).any(|at| nulls.is_null(at as usize)));
    Ok(Some(Arc::new(BooleanArray::new(has_nulls.collect(), lists.nulls().cloned()))))
};

fn list_length(call: &Call) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(items(&call.values[0]).and_then(|items| i64::try_from(items.len()).ok())))
}

/// A subscript; NULL for one before the first item.
fn list_position(call: &Call) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(super::values::int_of(&call.values[0]).filter(|position| *position > 0)))
}

/// The value that is there most often, the least of several.
fn list_mode(call: &Call) -> Result<ScalarValue> {
    let sorted = sorted(call);
    let (mut most, mut best, mut run) = (0, None, 0);
    for (at, value) in sorted.iter().enumerate() {
        run = if at > 0 && same(&sorted[at - 1], value) { run + 1 } else { 1 };
        if run > most {
            (most, best) = (run, sorted.get(at + 1 - run).cloned());
        }
    }
    best.map_or_else(|| ScalarValue::try_from(call.returns.data_type()), Ok)
}

/// The subscripts along a dimension, backwards where the third argument is true.
fn subscripts(call: &Call) -> Result<ScalarValue> {
    let mut all: Vec<i32> = bounds(call).into_iter().flat_map(|(lower, upper)| lower..=upper).collect();
    if call.values.get(2).and_then(super::values::bool_of) == Some(true) {
        all.reverse();
    }
    Ok(integers(all))
}

fn type_of_second(fields: &[FieldRef]) -> Result<FieldRef> {
    let data = crate::types::without_digits(fields[1].data_type());
    Ok(Arc::new(fields[1].as_ref().clone().with_name("").with_data_type(data).with_nullable(true)))
}

fn read_as_second(call: &Call) -> Result<ScalarValue> {
    let read = crate::plan::casts::convert(&call.values[0].to_array()?, call.returns, Input::within(call.options))?;
    ScalarValue::try_from_array(&read, 0)
}

fn number_beside(fields: &[FieldRef]) -> Result<FieldRef> {
    let beside = if fields[1].data_type().is_floating() { &fields[1] } else { &fields[0] };
    nullable(beside.data_type().clone())
}

fn expanded_rows(call: &Call) -> Result<ScalarValue> {
    let DataType::List(row) = call.returns.data_type() else { return Ok(ScalarValue::Null) };
    let rows = items(&call.values[0]).unwrap_or_default().into_iter().zip(1_i32..).map(|(item, position)| {
        let (item, position) = (item.to_array()?, ScalarValue::Int32(Some(position)).to_array()?);
        let DataType::Struct(fields) = row.data_type() else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), vec![item, position], None)?)))
    });
    let rows = rows.collect::<Result<Vec<_>>>()?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&rows, row.data_type())))
}

fn expanded_items(call: &Call) -> Result<ScalarValue> {
    Ok(like_first(call, &items(&call.values[0]).unwrap_or_default()))
}

fn expanded_positions(call: &Call) -> Result<ScalarValue> {
    let length = items(&call.values[0]).map_or(0, |items| items.len());
    Ok(integers((1..=length).filter_map(|position| i32::try_from(position).ok())))
}

fn integer_list() -> Result<FieldRef> {
    list_of(DataType::Int32)
}

/// An array of integers as a value.
fn integers(all: impl IntoIterator<Item = i32>) -> ScalarValue {
    let all: Vec<_> = all.into_iter().map(|int| ScalarValue::Int32(Some(int))).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&all, &DataType::Int32))
}

/// The functions. Those that are strict have no `with_nulls`.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all: [RowFunction; 26] = [
        strict("array_dims", 1..=1, |fields| of_array("array_dims", fields, nullable(DataType::Utf8View)?), array_dims),
        strict("array_fill", 2..=3, filled_type, array_fill).with_nulls(),
        strict("array_length", 2..=2, returns_integer, array_length),
        strict("array_lower", 2..=2, returns_integer, |call| {
            Ok(ScalarValue::Int32(bounds(call).map(|(lower, _)| lower)))
        }),
        strict("array_ndims", 1..=1, |fields| of_array("array_ndims", fields, nullable(DataType::Int32)?), array_ndims),
        strict("cardinality", 1..=1, |fields| of_array("cardinality", fields, nullable(DataType::Int32)?), cardinality),
        strict(
            "array_position",
            2..=3,
            |fields| of_array("array_position", fields, nullable(DataType::Int32)?),
            array_position,
        )
        .with_nulls(),
        strict(
            "array_positions",
            2..=2,
            |fields| of_array("array_positions", fields, integer_list()?),
            array_positions,
        )
        .with_nulls(),
        strict("array_remove", 2..=2, |fields| of_array("array_remove", fields, same_as_first(fields)?), array_remove)
            .with_nulls(),
        strict(
            "array_replace",
            3..=3,
            |fields| of_array("array_replace", fields, same_as_first(fields)?),
            array_replace,
        )
        .with_nulls(),
        strict(
            "array_to_string",
            2..=3,
            |fields| of_array("array_to_string", fields, nullable(DataType::Utf8View)?),
            joined,
        )
        .with_nulls(),
        strict("array_upper", 2..=2, returns_integer, |call| {
            Ok(ScalarValue::Int32(bounds(call).map(|(_, upper)| upper)))
        }),
        strict("trim_array", 2..=2, same_as_first, trim_array),
        // `information_schema._pg_expandarray`: items with their positions, as rows and column by column.
        strict("expanded_items", 1..=1, |fields| list_of(item_data(&fields[0])), expanded_items),
        strict("expanded_places", 1..=1, |_| integer_list(), expanded_positions),
        strict("expanded_rows", 1..=1, expanded_type, expanded_rows),
        // What the passes over the syntax tree and the planner of operators write.
        strict("list_has_nulls", 1..=1, scalar_function::returns_boolean, list_has_nulls)
            .with_columns(COLUMN_HAS_NULLS),
        strict("list_length", 1..=1, |_| nullable(DataType::Int64), list_length),
        strict("list_mode", 1..=1, item_type, list_mode),
        // `ARRAY(SELECT …)` of no rows, which an aggregate calls NULL.
        strict("list_or_empty", 1..=1, same_as_first, list_or_empty).with_nulls(),
        // `n` in `a[n]`, and `a[2:3]`.
        strict("list_place", 1..=1, |_| nullable(DataType::Int64), list_position),
        strict("list_slice_of", 3..=3, same_as_first, sliced),
        strict("series_list", 2..=3, series_type, series),
        strict("subscripts_list", 2..=3, |_| integer_list(), subscripts),
        // In VALUES; it is a cast once types are known.
        strict(TEXT_BESIDE, 2..=2, type_of_second, read_as_second).with_nulls(),
        strict(NUMBER_BESIDE, 2..=2, number_beside, read_as_second).with_nulls(),
    ];
    scalar_function::functions(all)
}
