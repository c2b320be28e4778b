//! What operators of arrays and intervals need and DataFusion's functions do not give: the order of two arrays, an
//! array without its NULLs or the blanks at its items' ends, the lengths of intervals and the keys of numerics.
//!
//! None is a function of PostgreSQL; [`operators`](crate::plan::operators) and [`lengths`](crate::plan::order_keys)
//! put them into plans.

use crate::{
    numeric,
    types::{self, INTERVAL, NUMERIC_PRECISION},
};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, Decimal128Array, Int32Array, ListArray, StringViewArray, UInt32Array, make_comparator,
    },
    buffer::OffsetBuffer,
    compute::{SortOptions, cast, take},
    datatypes::{DataType, Field, IntervalMonthDayNanoType},
};
use datafusion::{
    common::cast::as_string_view_array,
    error::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
    scalar::ScalarValue,
};
use std::{
    cmp::Ordering,
    sync::{Arc, LazyLock},
};

/// The type of the length of an interval, whose longest have 22 digits.
const LENGTH: DataType = DataType::Decimal128(NUMERIC_PRECISION, 0);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Of two arrays of one type: −1, 0 or 1. A NULL in an array is above all else, and equals another.
    Order,
    WithoutNulls,
    /// Of texts.
    WithoutBlanks,
    /// Of intervals, or of arrays of them, in microseconds.
    Micros,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfArrays {
    kind: Kind,
    signature: Signature,
}

fn function(kind: Kind) -> Arc<ScalarUDF> {
    let arguments = if kind == Kind::Order { 2 } else { 1 };
    let signature = Signature::new(TypeSignature::Any(arguments), Volatility::Immutable);
    Arc::new(ScalarUDF::from(OfArrays { kind, signature }))
}

/// The order of two arrays of one type: −1, 0 or 1.
pub fn array_order() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Order));
    Arc::clone(&FUNCTION)
}

/// An array without its NULLs.
pub fn array_without_nulls() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::WithoutNulls));
    Arc::clone(&FUNCTION)
}

/// An array of texts whose items have no blanks at their ends.
pub fn array_without_blanks() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::WithoutBlanks));
    Arc::clone(&FUNCTION)
}

/// The length of an interval in microseconds, months as 30 days: what PostgreSQL compares. Of an array of intervals,
/// their lengths.
pub fn interval_micros() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(Kind::Micros));
    Arc::clone(&FUNCTION)
}

impl ScalarUDFImpl for OfArrays {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Order => "array_order",
            Kind::WithoutNulls => "array_without_nulls",
            Kind::WithoutBlanks => "array_without_blanks",
            Kind::Micros => "interval_micros",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Order => DataType::Int32,
            Kind::WithoutNulls | Kind::WithoutBlanks => arguments[0].clone(),
            Kind::Micros => match &arguments[0] {
                DataType::List(item) if numeric::is_exact(item.data_type()) => types::list_of(DataType::Binary),
                DataType::List(_) => types::list_of(LENGTH),
                data if numeric::is_exact(data) => DataType::Binary,
                _ => LENGTH,
            },
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let done: ArrayRef = match self.kind {
            Kind::Order => Arc::new(orders(&arrays[0], &arrays[1])?),
            Kind::Micros => lengths(&arrays[0])?,
            Kind::WithoutBlanks => match arrays[0].as_list_opt::<i32>() {
                Some(list) => Arc::new(without_blanks(list)?),
                None => Arc::clone(&arrays[0]),
            },
            Kind::WithoutNulls => match arrays[0].as_list_opt::<i32>() {
                Some(list) => Arc::new(without_nulls(list)?),
                None => Arc::clone(&arrays[0]),
            },
        };
        if constant && done.len() == 1 {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&done, 0)?));
        }
        Ok(ColumnarValue::Array(done))
    }
}

/// Whether values of a type are compared by their lengths, as intervals, or by their keys, as numerics of the exact
/// form are; so are arrays of them.
pub fn has_length(data: &DataType) -> bool {
    match data {
        DataType::Interval(_) => true,
        DataType::List(item) => has_length(item.data_type()) && !item.data_type().is_nested(),
        data => numeric::is_exact(data),
    }
}

/// Intervals, or arrays of them, as their lengths, numerics as their keys; others as they are.
fn lengths(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(list) = array.as_list_opt::<i32>() {
        if !has_length(array.data_type()) {
            return Ok(Arc::clone(array));
        }
        let values = lengths(list.values())?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        return Ok(Arc::new(ListArray::try_new(item, list.offsets().clone(), values, list.nulls().cloned())?));
    }
    if numeric::is_exact(array.data_type()) {
        return crate::numeric::key::keys(array);
    }
    if !matches!(array.data_type(), DataType::Interval(_) | DataType::Duration(_) | DataType::Null) {
        return Ok(Arc::clone(array));
    }
    let spans = cast(array, &INTERVAL)?;
    let spans = spans.as_primitive::<IntervalMonthDayNanoType>();
    let length = |span: arrow::datatypes::IntervalMonthDayNano| {
        keyspan_catalog::value::interval::Interval {
            months: span.months,
            days: span.days,
            micros: span.nanoseconds / 1_000,
        }
        .length()
    };
    let lengths: Decimal128Array = spans.iter().map(|span| span.map(length)).collect();
    Ok(Arc::new(lengths.with_precision_and_scale(NUMERIC_PRECISION, 0)?))
}

/// The order of two values of one type, neither of them NULL, by the number of their row.
pub(crate) type Comparator = Box<dyn Fn(usize) -> Ordering>;

/// PostgreSQL's order of the values of two arrays of one type, row by row: intervals by their lengths, and a NULL in an
/// array above all else.
pub(crate) fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<Comparator> {
    let (left, right) = (lengths(left)?, lengths(right)?);
    let options = SortOptions { descending: false, nulls_first: false };
    let (Some(ours), Some(theirs)) = (left.as_list_opt::<i32>(), right.as_list_opt::<i32>()) else {
        let compared = make_comparator(&left, &right, options)?;
        return Ok(Box::new(move |row| compared(row, row)));
    };
    let compared = make_comparator(ours.values(), theirs.values(), options)?;
    let (ours, theirs) = (ours.offsets().clone(), theirs.offsets().clone());
    let range = |offsets: &OffsetBuffer<i32>, row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    Ok(Box::new(move |row| {
        let (ours, theirs) = (range(&ours, row), range(&theirs, row));
        let lengths = ours.len().cmp(&theirs.len());
        ours.zip(theirs).map(|(a, b)| compared(a, b)).find(|order| order.is_ne()).unwrap_or(lengths)
    }))
}

fn orders(left: &ArrayRef, right: &ArrayRef) -> Result<Int32Array> {
    let compared = comparator(left, right)?;
    let order = |row: usize| {
        (left.is_valid(row) && right.is_valid(row)).then(|| match compared(row) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })
    };
    Ok((0..left.len()).map(order).collect())
}

fn without_blanks(list: &ListArray) -> Result<ListArray> {
    let DataType::List(item) = list.data_type() else { return Ok(list.clone()) };
    let texts = cast(list.values(), &DataType::Utf8View)?;
    let bare = as_string_view_array(&texts)?.iter().map(|text| text.map(|text| text.trim_end_matches(' ')));
    let values = cast(&bare.collect::<StringViewArray>(), item.data_type())?;
    Ok(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())?)
}

fn without_nulls(list: &ListArray) -> Result<ListArray> {
    if list.values().logical_null_count() == 0 && has_empty_nulls(list) {
        return Ok(list.clone());
    }
    with_items(list, |at| list.values().is_valid(at))
}

/// The lists with those of their items whose places in the values are chosen; a list that is NULL has none.
fn with_items(list: &ListArray, is_chosen: impl Fn(usize) -> bool) -> Result<ListArray> {
    let DataType::List(item) = list.data_type() else { return Ok(list.clone()) };
    let (mut kept, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    for row in 0..list.len() {
        let before = kept.len();
        let range = list.value_offsets()[row]..list.value_offsets()[row + 1];
        if list.is_valid(row) {
            kept.extend(range.filter(|at| is_chosen(*at as usize)).map(|at| at as u32));
        }
        lengths.push(kept.len() - before);
    }
    let values = take(list.values(), &UInt32Array::from(kept), None)?;
    Ok(ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, list.nulls().cloned())?)
}

/// Whether lists that are NULL have no items below.
fn has_empty_nulls(list: &ListArray) -> bool {
    list.null_count() == 0 || (0..list.len()).all(|row| list.is_valid(row) || list.value_length(row) == 0)
}

/// Lists whose NULLs are empty below: those that CASE and `nullif` make still have items there, which DataFusion's
/// `array_append` and `array_prepend` (55.2) take for the list.
pub(crate) fn with_empty_nulls(lists: ColumnarValue) -> Result<ColumnarValue> {
    let ColumnarValue::Array(array) = &lists else { return Ok(lists) };
    let Some(list) = array.as_list_opt::<i32>().filter(|list| list.null_count() > 0) else { return Ok(lists) };
    if has_empty_nulls(list) {
        return Ok(lists);
    }
    Ok(ColumnarValue::Array(Arc::new(with_items(list, |_| true)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Int32Type;

    fn lists(lists: &[Option<&[Option<i32>]>]) -> ListArray {
        ListArray::from_iter_primitive::<Int32Type, _, _>(lists.iter().map(|list| list.map(|items| items.to_vec())))
    }

    #[test]
    fn arrays_have_postgres_order() {
        let left = lists(&[
            Some(&[Some(1)]),
            Some(&[Some(4), None]),
            Some(&[None]),
            Some(&[]),
            None,
            Some(&[Some(1), Some(2)]),
        ]);
        let right =
            lists(&[Some(&[Some(2)]), Some(&[Some(4), Some(5)]), Some(&[None]), None, Some(&[]), Some(&[Some(1)])]);
        let expected = [Some(-1), Some(1), Some(0), None, None, Some(1)];
        let (left, right): (ArrayRef, ArrayRef) = (Arc::new(left), Arc::new(right));
        assert_eq!(orders(&left, &right).unwrap(), Int32Array::from(expected.to_vec()));
        let sliced = orders(&left.slice(1, 2), &right.slice(1, 2)).unwrap();
        assert_eq!(sliced, Int32Array::from(expected[1..3].to_vec()));
    }

    #[test]
    fn nulls_are_left_out() {
        let list = lists(&[Some(&[Some(1), None, Some(2)]), None, Some(&[]), Some(&[None])]);
        let expected = lists(&[Some(&[Some(1), Some(2)]), None, Some(&[]), Some(&[])]);
        assert_eq!(without_nulls(&list).unwrap(), expected);
        assert_eq!(without_nulls(&list.slice(1, 2)).unwrap(), expected.slice(1, 2));
    }
}
