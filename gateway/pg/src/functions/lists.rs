//! Functions of arrays, and those that stand behind functions that give rows ([`rows`](crate::syntax::set_returning)).

use super::scalar_function::{self, Call, RowFunction, a, an_integer, item_of, items, told, typed};
use crate::{
    error::{SqlError, SqlState},
    types::{TIMESTAMP, timestamptz},
};
use arrow::{
    array::{Array, ListArray, StructArray},
    buffer::OffsetBuffer,
    datatypes::{DataType, Field, FieldRef},
};
use chrono::{DateTime, Months};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use std::{cmp::Ordering, sync::Arc};

/// A quoted text as what stands beside it: `VALUES (time '10:00'), ('11:00')`.
pub(crate) const BESIDE: &str = "text_beside";
/// The most items of a series that is held as a list.
const SERIES_ITEMS_MAX: usize = 1_000_000;

fn list_of(item: DataType) -> Result<FieldRef> {
    a(DataType::List(Arc::new(Field::new_list_field(item, true))))
}

/// The type of a series: what both ends have in common.
fn series_type(fields: &[FieldRef]) -> Result<FieldRef> {
    let ends = [fields[0].data_type(), fields[1].data_type()];
    let has = |wanted: fn(&DataType) -> bool| ends.iter().any(|data| wanted(data));
    list_of(match () {
        () if has(|data| matches!(data, DataType::Timestamp(_, Some(_)) | DataType::Date32)) => timestamptz(),
        () if has(|data| matches!(data, DataType::Timestamp(..))) => TIMESTAMP,
        () if has(|data| matches!(data, DataType::Int64 | DataType::UInt64)) => DataType::Int64,
        () if has(DataType::is_integer) => DataType::Int32,
        () => {
            let names: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
            return Err(told(super::undefined("generate_series", &names)));
        }
    })
}

/// The first and the last place of a list of one dimension; `None` for one without items and for another dimension.
fn bounds(call: &Call) -> Option<(i32, i32)> {
    let length = i32::try_from(items(&call.values[0])?.len()).ok().filter(|length| *length > 0)?;
    let first = first_place(call);
    (super::int_of(&call.values[1]) == Some(1)).then_some((first, first + length - 1))
}

/// Where counting begins in the first argument.
fn first_place(call: &Call) -> i32 {
    i32::from(!crate::types::is_vector(&call.fields[0]))
}

fn too_long() -> datafusion::error::DataFusionError {
    let message = format!("a series of more than {SERIES_ITEMS_MAX} items is not supported here");
    told(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

fn no_step() -> datafusion::error::DataFusionError {
    told(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"))
}

fn series(call: &Call) -> Result<ScalarValue> {
    let DataType::List(item) = call.returns.data_type() else { return Ok(ScalarValue::Null) };
    let item = item.data_type();
    let values = if item.is_integer() {
        let end = |at: usize| super::int_of(&call.values[at]).unwrap_or(0);
        let (start, stop, step) = (end(0), end(1), call.values.get(2).map_or(Some(1), super::int_of).unwrap_or(1));
        whole(start, stop, step)?.into_iter().map(|int| ScalarValue::Int64(Some(int)).cast_to(item)).collect()
    } else {
        moments(call, item)
    };
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values?, item)))
}

fn whole(start: i64, stop: i64, step: i64) -> Result<Vec<i64>> {
    if step == 0 {
        return Err(no_step());
    }
    let mut all = Vec::new();
    let mut next = Some(start);
    while let Some(int) = next.filter(|int| if step > 0 { *int <= stop } else { *int >= stop }) {
        if all.len() == SERIES_ITEMS_MAX {
            return Err(too_long());
        }
        all.push(int);
        next = int.checked_add(step);
    }
    Ok(all)
}

fn moments(call: &Call, item: &DataType) -> Result<Vec<ScalarValue>> {
    let zoned = matches!(item, DataType::Timestamp(_, Some(_)));
    let end = |at: usize| -> Result<i64> {
        let value = match super::text_of(&call.values[at]).filter(|_| !call.fields[at].data_type().is_temporal()) {
            Some(text) => return crate::codec::parse::timestamp(&text, zoned).map_err(told),
            None => call.values[at].cast_to(&TIMESTAMP)?,
        };
        let ScalarValue::TimestampMicrosecond(Some(micros), _) = value else { return Ok(0) };
        Ok(micros)
    };
    let step = match call.values.get(2) {
        Some(ScalarValue::IntervalMonthDayNano(Some(span))) => *span,
        Some(value) => {
            let text = super::text_of(value).unwrap_or_default();
            crate::codec::parse::interval(&text).map_err(told)?
        }
        None => return Err(told(super::undefined("generate_series", &[item.clone(), item.clone()]))),
    };
    let (start, stop) = (end(0)?, end(1)?);
    let micros = step.nanoseconds / 1_000 + i64::from(step.days) * super::formatting::time::DAY_MICROS;
    let forward = i64::from(step.months) * 30 * super::formatting::time::DAY_MICROS + micros;
    if forward == 0 {
        return Err(no_step());
    }
    let mut all = Vec::new();
    let mut next = Some(start);
    while let Some(moment) = next.filter(|moment| if forward > 0 { *moment <= stop } else { *moment >= stop }) {
        if all.len() == SERIES_ITEMS_MAX {
            return Err(too_long());
        }
        all.push(ScalarValue::TimestampMicrosecond(Some(moment), zoned.then(|| crate::types::UTC.into())));
        let time = DateTime::from_timestamp_micros(moment);
        let moved = time.and_then(|time| {
            let months = Months::new(step.months.unsigned_abs());
            if step.months >= 0 { time.checked_add_months(months) } else { time.checked_sub_months(months) }
        });
        next = moved.and_then(|time| time.timestamp_micros().checked_add(micros));
    }
    Ok(all)
}

fn item_type(fields: &[FieldRef]) -> Result<FieldRef> {
    match item_of(&fields[0]) {
        Some(item) => Ok(Arc::new(item.as_ref().clone().with_name("").with_nullable(true))),
        None => a(DataType::Null),
    }
}

/// The items of the first argument in order, without NULLs.
fn sorted(call: &Call) -> Vec<ScalarValue> {
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

/// A type of a function whose first argument is an array.
fn of_array(name: &str, fields: &[FieldRef], returns: FieldRef) -> Result<FieldRef> {
    match fields[0].data_type() {
        DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_) | DataType::Null => Ok(returns),
        _ => {
            let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
            Err(told(super::undefined(name, &types)))
        }
    }
}

/// An argument as the items of the first one are: a quoted text is read.
fn as_item(call: &Call, at: usize) -> Result<ScalarValue> {
    let (item, value) = (item_data(&call.fields[0]), &call.values[at]);
    match value {
        null if null.is_null() => ScalarValue::try_from(&item),
        same if same.data_type() == item => Ok(same.clone()),
        ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) => {
            let read = crate::plan::casts::convert(&value.to_array()?, &Field::new("", item, true))?;
            ScalarValue::try_from_array(&read, 0)
        }
        other => other.cast_to(&item),
    }
}

/// The places of an item in the first argument, from a place on.
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
    let (Some(all), Some(between)) = (items(&call.values[0]), super::text_of(&call.values[1])) else {
        return Ok(ScalarValue::Utf8View(None));
    };
    let item = crate::types::item_field(&call.fields[0]).unwrap_or_else(|| Field::new("", DataType::Null, true));
    let null = call.values.get(2).and_then(super::text_of);
    let mut texts = Vec::with_capacity(all.len());
    for value in &all {
        texts.extend(scalar_function::shown(value, &item)?.or_else(|| null.clone()));
    }
    Ok(super::text(texts.join(&between)))
}

/// The items from a place to another. There is nothing before the first one.
fn sliced(call: &Call) -> Result<ScalarValue> {
    let ScalarValue::List(list) = &call.values[0] else { return Ok(call.values[0].clone()) };
    let (all, DataType::List(item)) = (list.value(0), list.data_type()) else { return Ok(call.values[0].clone()) };
    let bound = |at: usize| super::int_of(&call.values[at]).unwrap_or(0);
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

/// Rows of `x`, an item, and `n`, its place.
fn expanded_type(fields: &[FieldRef]) -> Result<FieldRef> {
    let row = [Field::new("x", item_data(&fields[0]), true), Field::new("n", DataType::Int32, true)];
    list_of(DataType::Struct(row.into_iter().collect()))
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let all: [RowFunction; 24] = [
        // NULL where there is nothing along a dimension.
        typed("array_length", 2..=2, an_integer, |call| {
            let mut dimension = super::int_of(&call.values[1]).unwrap_or(0);
            let mut here = items(&call.values[0]);
            while dimension > 1 {
                here = here.and_then(|items| items.first().and_then(scalar_function::items));
                dimension -= 1;
            }
            let length = here.map(|items| items.len()).filter(|length| *length > 0 && dimension == 1);
            Ok(ScalarValue::Int32(length.and_then(|length| i32::try_from(length).ok())))
        }),
        // `ARRAY(SELECT …)` of no rows, which an aggregate calls NULL.
        typed("list_or_empty", 1..=1, same_as_first, |call| match items(&call.values[0]) {
            Some(_) => Ok(call.values[0].clone()),
            None => Ok(like_first(call, &[])),
        })
        .with_nulls(),
        typed("list_has_nulls", 1..=1, scalar_function::a_boolean, |call| {
            let found = items(&call.values[0]).is_some_and(|items| items.iter().any(ScalarValue::is_null));
            Ok(ScalarValue::Boolean(Some(found)))
        }),
        typed("list_mode", 1..=1, item_type, |call| {
            let sorted = sorted(call);
            let (mut most, mut best, mut run) = (0, None, 0);
            for (at, value) in sorted.iter().enumerate() {
                run = if at > 0 && same(&sorted[at - 1], value) { run + 1 } else { 1 };
                if run > most {
                    (most, best) = (run, sorted.get(at + 1 - run).cloned());
                }
            }
            best.map_or_else(|| ScalarValue::try_from(call.returns.data_type()), Ok)
        }),
        typed("list_percentile", 3..=3, item_type, |call| {
            let part = match call.values[1].cast_to(&DataType::Float64)? {
                ScalarValue::Float64(Some(part)) if (0.0..=1.0).contains(&part) => part,
                other => {
                    let message = format!("percentile value {other} is not between 0 and 1");
                    return Err(told(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)));
                }
            };
            let mut sorted = sorted(call);
            if super::bool_of(&call.values[2]) == Some(true) {
                sorted.reverse();
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the list's length")]
            let place = (part * sorted.len() as f64).ceil() as usize;
            let found = sorted.get(place.max(1) - 1).cloned();
            found.map_or_else(|| ScalarValue::try_from(call.returns.data_type()), Ok)
        }),
        typed("series_list", 2..=3, series_type, series),
        typed(
            "subscripts_list",
            2..=3,
            |_| list_of(DataType::Int32),
            |call| {
                let places = bounds(call).into_iter().flat_map(|(lower, upper)| lower..=upper);
                let mut places: Vec<_> = places.map(|place| ScalarValue::Int32(Some(place))).collect();
                if call.values.get(2).and_then(super::bool_of) == Some(true) {
                    places.reverse();
                }
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&places, &DataType::Int32)))
            },
        ),
        typed(
            "list_length",
            1..=1,
            |_| a(DataType::Int64),
            |call| Ok(ScalarValue::Int64(items(&call.values[0]).and_then(|items| i64::try_from(items.len()).ok()))),
        ),
        typed(
            "array_positions",
            2..=2,
            |fields| of_array("array_positions", fields, list_of(DataType::Int32)?),
            |call| {
                if call.values[0].is_null() {
                    return ScalarValue::try_from(call.returns.data_type());
                }
                let found: Vec<_> = places(call, 0)?.into_iter().map(|place| ScalarValue::Int32(Some(place))).collect();
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&found, &DataType::Int32)))
            },
        )
        .with_nulls(),
        typed(
            "array_position",
            2..=3,
            |fields| of_array("array_position", fields, a(DataType::Int32)?),
            |call| {
                let from = call.values.get(2).map_or(Some(1), super::int_of).ok_or_else(|| {
                    let message = "initial position must not be null";
                    told(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
                })?;
                let before = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
                Ok(ScalarValue::Int32(places(call, before)?.first().copied()))
            },
        )
        .with_nulls(),
        typed(
            "array_remove",
            2..=2,
            |fields| of_array("array_remove", fields, same_as_first(fields)?),
            |call| {
                let (Some(mut kept), wanted) = (items(&call.values[0]), as_item(call, 1)?) else {
                    return Ok(call.values[0].clone());
                };
                kept.retain(|item| !same(item, &wanted));
                Ok(like_first(call, &kept))
            },
        )
        .with_nulls(),
        typed(
            "array_replace",
            3..=3,
            |fields| of_array("array_replace", fields, same_as_first(fields)?),
            |call| {
                let Some(mut all) = items(&call.values[0]) else { return Ok(call.values[0].clone()) };
                let (wanted, other) = (as_item(call, 1)?, as_item(call, 2)?);
                all.iter_mut().filter(|item| same(item, &wanted)).for_each(|item| *item = other.clone());
                Ok(like_first(call, &all))
            },
        )
        .with_nulls(),
        typed("array_to_string", 2..=3, |fields| of_array("array_to_string", fields, a(DataType::Utf8View)?), joined)
            .with_nulls(),
        typed(
            "array_ndims",
            1..=1,
            |fields| of_array("array_ndims", fields, a(DataType::Int32)?),
            |call| {
                let count = Some(dimensions(&call.values[0]).len()).filter(|count| *count > 0);
                Ok(ScalarValue::Int32(count.and_then(|count| i32::try_from(count).ok())))
            },
        ),
        typed(
            "array_dims",
            1..=1,
            |fields| of_array("array_dims", fields, a(DataType::Utf8View)?),
            |call| {
                let shown: String = dimensions(&call.values[0]).iter().map(|length| format!("[1:{length}]")).collect();
                Ok(ScalarValue::Utf8View(Some(shown).filter(|shown| !shown.is_empty())))
            },
        ),
        // `a[2:3]`, and the place in `a[n]`.
        typed("list_slice_of", 3..=3, same_as_first, sliced),
        typed(
            "list_place",
            1..=1,
            |_| a(DataType::Int64),
            |call| Ok(ScalarValue::Int64(super::int_of(&call.values[0]).filter(|place| *place > 0))),
        ),
        // What `VALUES` puts in the place of a quoted text; it is a cast once types are known.
        typed(
            BESIDE,
            2..=2,
            |fields| {
                let data = crate::types::without_digits(fields[1].data_type());
                Ok(Arc::new(fields[1].as_ref().clone().with_name("").with_data_type(data).with_nullable(true)))
            },
            |call| {
                let read = crate::plan::casts::convert(&call.values[0].to_array()?, call.returns)?;
                ScalarValue::try_from_array(&read, 0)
            },
        )
        .with_nulls(),
        typed("trim_array", 2..=2, same_as_first, |call| {
            let mut kept = items(&call.values[0]).unwrap_or_default();
            let count = super::int_of(&call.values[1]).and_then(|count| usize::try_from(count).ok());
            let Some(count) = count.filter(|count| *count <= kept.len()) else {
                let message = format!("number of elements to trim must be between 0 and {}", kept.len());
                return Err(told(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)));
            };
            kept.truncate(kept.len() - count);
            Ok(like_first(call, &kept))
        }),
        // `information_schema._pg_expandarray`: items with their places, as rows and column by column.
        typed("expanded_rows", 1..=1, expanded_type, |call| {
            let DataType::List(row) = call.returns.data_type() else { return Ok(ScalarValue::Null) };
            let rows = items(&call.values[0]).unwrap_or_default().into_iter().zip(1_i32..).map(|(item, place)| {
                let (item, place) = (item.to_array()?, ScalarValue::Int32(Some(place)).to_array()?);
                let DataType::Struct(fields) = row.data_type() else { return Ok(ScalarValue::Null) };
                Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), vec![item, place], None)?)))
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&rows, row.data_type())))
        }),
        typed(
            "expanded_items",
            1..=1,
            |fields| list_of(item_data(&fields[0])),
            |call| Ok(like_first(call, &items(&call.values[0]).unwrap_or_default())),
        ),
        typed(
            "expanded_places",
            1..=1,
            |_| list_of(DataType::Int32),
            |call| {
                let length = items(&call.values[0]).map_or(0, |items| items.len());
                let places: Vec<_> = (1..=length).map(|place| ScalarValue::Int32(i32::try_from(place).ok())).collect();
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&places, &DataType::Int32)))
            },
        ),
        typed("array_lower", 2..=2, an_integer, |call| Ok(ScalarValue::Int32(bounds(call).map(|(lower, _)| lower)))),
        typed("array_upper", 2..=2, an_integer, |call| Ok(ScalarValue::Int32(bounds(call).map(|(_, upper)| upper)))),
    ];
    scalar_function::functions(all)
}
