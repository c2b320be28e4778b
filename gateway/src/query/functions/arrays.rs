//! What operators of arrays need and DataFusion's functions do not give: the order of two arrays, and an array without its NULLs.
//!
//! Neither is a function of PostgreSQL; [`operators`](crate::query::operators) and [`lengths`](crate::query::lengths) put them into plans.

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array, ListArray, UInt32Array, make_comparator},
    buffer::OffsetBuffer,
    compute::{SortOptions, take},
    datatypes::DataType,
};
use datafusion::{
    error::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};
use std::{
    cmp::Ordering,
    sync::{Arc, LazyLock},
};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// Of two arrays of one type: −1, 0 or 1. A NULL in an array is above all else, and equals another.
    Order,
    WithoutNulls,
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

impl ScalarUDFImpl for OfArrays {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Order => "array_order",
            Kind::WithoutNulls => "array_without_nulls",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Order => DataType::Int32,
            Kind::WithoutNulls => arguments[0].clone(),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let done: ArrayRef = match self.kind {
            Kind::Order => Arc::new(orders(arrays[0].as_list(), arrays[1].as_list())?),
            Kind::WithoutNulls => match arrays[0].as_list_opt::<i32>() {
                Some(list) => Arc::new(without_nulls(list)?),
                None => Arc::clone(&arrays[0]),
            },
        };
        Ok(ColumnarValue::Array(done))
    }
}

fn orders(left: &ListArray, right: &ListArray) -> Result<Int32Array> {
    let compared =
        make_comparator(left.values(), right.values(), SortOptions { descending: false, nulls_first: false })?;
    let range =
        |list: &ListArray, row: usize| list.value_offsets()[row] as usize..list.value_offsets()[row + 1] as usize;
    let order = |row: usize| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let (ours, theirs) = (range(left, row), range(right, row));
        let lengths = ours.len().cmp(&theirs.len());
        let differs = ours.zip(theirs).map(|(a, b)| compared(a, b)).find(|order| order.is_ne());
        Some(match differs.unwrap_or(lengths) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        })
    };
    Ok((0..left.len()).map(order).collect())
}

fn without_nulls(list: &ListArray) -> Result<ListArray> {
    let values = list.values();
    let DataType::List(item) = list.data_type() else { return Ok(list.clone()) };
    let (mut kept, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    for row in 0..list.len() {
        let before = kept.len();
        let range = list.value_offsets()[row]..list.value_offsets()[row + 1];
        if list.is_valid(row) {
            kept.extend(range.filter(|at| values.is_valid(*at as usize)).map(|at| at as u32));
        }
        lengths.push(kept.len() - before);
    }
    let values = take(values, &UInt32Array::from(kept), None)?;
    Ok(ListArray::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), values, list.nulls().cloned())?)
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
