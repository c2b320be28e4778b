//! Sums and averages of integers and of Arrow's decimals: values of one scale, without NaN and infinities.
//!
//! A group is a number and a count, in columns of their own: with a million groups most of the time goes into reaching
//! them. 128 bits hold the sums of [`SAFE_DIGITS`] digits for ten milliards of rows, 256 bits those of
//! [`WIDE_SAFE_DIGITS`]; what has more digits is a [`Tally`](super::Tally)'s. A sum that does not fit is an error.

use super::{Kind, SAFE_DIGITS, scalar};
use crate::{
    aggregates::passes,
    error::{SqlError, SqlState},
    functions::scalar_function::external,
    numeric::{
        column,
        number::{Decimal, Number},
    },
};
use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal256Array, PrimitiveArray, UInt64Array},
    datatypes::{
        DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
    },
};
use datafusion::{
    error::Result,
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
    scalar::ScalarValue,
};
use num_bigint::BigInt;
use std::sync::Arc;

/// Digits of a decimal whose sums 256 bits hold, for ten milliards of rows.
const WIDE_SAFE_DIGITS: u8 = 66;
/// Digits of the sums of a state.
const STATE_DIGITS: u8 = 76;

/// The values that are summed here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    kind: Kind,
    scale: u8,
    wide: bool,
}

impl Plain {
    /// `None` for values that are not summed here.
    pub(super) fn of(kind: Kind, data: &DataType) -> Option<Self> {
        if kind.squares() {
            return None;
        }
        let (scale, wide) = match data {
            data if data.is_integer() => (0, false),
            DataType::Decimal128(digits, scale) => (*scale, *digits > SAFE_DIGITS),
            DataType::Decimal256(digits, scale) if *digits <= WIDE_SAFE_DIGITS => (*scale, true),
            _ => return None,
        };
        Some(Self { kind, scale: u8::try_from(scale).ok()?, wide })
    }

    pub(super) fn state_fields(self, name: &str) -> Vec<FieldRef> {
        let sum = DataType::Decimal256(STATE_DIGITS, self.scale.cast_signed());
        vec![
            Arc::new(Field::new(format!("{name}[numbers]"), DataType::UInt64, true)),
            Arc::new(Field::new(format!("{name}[sum]"), sum, true)),
        ]
    }

    pub(super) fn one(self) -> Box<dyn Accumulator> {
        if self.wide { Box::new(One::<i256>::new(self)) } else { Box::new(One::<i128>::new(self)) }
    }

    pub(super) fn many(self) -> Box<dyn GroupsAccumulator> {
        if self.wide { Box::new(Many::<i256>::new(self)) } else { Box::new(Many::<i128>::new(self)) }
    }

    /// The result of a group; `None` for NULL.
    fn result(self, sum: BigInt, count: u64) -> crate::error::Result<Option<keyspan_catalog::value::exact::Exact>> {
        if count == 0 {
            return Ok(None);
        }
        let number = self.kind.of_sum(Decimal::new(sum, self.scale.into()), count);
        Number::Finite(number).to_exact().map(Some)
    }

    fn state<S: Sum>(self, sums: &[S], counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
        let sums = Decimal256Array::from_iter_values(sums.iter().map(|sum| sum.widened()));
        let sums = sums.with_precision_and_scale(STATE_DIGITS, self.scale.cast_signed())?;
        Ok(vec![Arc::new(UInt64Array::from(counts)), Arc::new(sums)])
    }
}

/// A sum that may not fit.
trait Sum: Copy + Default + std::fmt::Debug + Send + Sync + 'static {
    fn plus(self, other: Self) -> Option<Self>;
    fn minus(self, other: Self) -> Option<Self>;
    fn widened(self) -> i256;
    fn of(small: i128) -> Self;
    fn narrowed(wide: i256) -> Option<Self>;
    fn to_big(self) -> BigInt;
}

impl Sum for i128 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
    fn minus(self, other: Self) -> Option<Self> {
        self.checked_sub(other)
    }
    fn widened(self) -> i256 {
        i256::from_i128(self)
    }
    fn of(small: i128) -> Self {
        small
    }
    fn narrowed(wide: i256) -> Option<Self> {
        wide.to_i128()
    }
    fn to_big(self) -> BigInt {
        self.into()
    }
}

impl Sum for i256 {
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
    fn minus(self, other: Self) -> Option<Self> {
        self.checked_sub(other)
    }
    fn widened(self) -> i256 {
        self
    }
    fn of(small: i128) -> Self {
        Self::from_i128(small)
    }
    fn narrowed(wide: i256) -> Option<Self> {
        Some(wide)
    }
    fn to_big(self) -> BigInt {
        match self.to_i128() {
            Some(small) => small.into(),
            None => BigInt::from_signed_bytes_le(&self.to_le_bytes()),
        }
    }
}

fn too_large() -> datafusion::error::DataFusionError {
    external(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "a sum of these numerics is out of range"))
}

/// Calls a function for each value that is not NULL, with its row.
///
/// # Errors
/// The function's.
fn each<S: Sum>(values: &ArrayRef, mut take: impl FnMut(usize, S) -> Result<()>) -> Result<()> {
    fn of<T: ArrowPrimitiveType, S: Sum>(
        values: &PrimitiveArray<T>,
        read: impl Fn(T::Native) -> Option<S>,
        take: &mut impl FnMut(usize, S) -> Result<()>,
    ) -> Result<()> {
        if values.null_count() == 0 {
            for (row, value) in values.values().iter().enumerate() {
                take(row, read(*value).ok_or_else(too_large)?)?;
            }
            return Ok(());
        }
        for (row, value) in values.iter().enumerate() {
            if let Some(value) = value {
                take(row, read(value).ok_or_else(too_large)?)?;
            }
        }
        Ok(())
    }
    macro_rules! integers {
        ($kind:ty) => {
            of(values.as_primitive::<$kind>(), |value| Some(S::of(value.into())), &mut take)
        };
    }
    match values.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Decimal128(..) => of(values.as_primitive::<Decimal128Type>(), |value| Some(S::of(value)), &mut take),
        DataType::Decimal256(..) => of(values.as_primitive::<Decimal256Type>(), S::narrowed, &mut take),
        other => Err(datafusion::error::DataFusionError::Internal(format!("a sum of {other}"))),
    }
}

/// One group, or a window's frame.
#[derive(Debug)]
struct One<S> {
    of: Plain,
    sum: S,
    count: u64,
}

impl<S: Sum> One<S> {
    fn new(of: Plain) -> Self {
        Self { of, sum: S::default(), count: 0 }
    }

    fn merge(&mut self, counts: &UInt64Array, sums: &Decimal256Array) -> Result<()> {
        for row in (0..counts.len()).filter(|row| counts.is_valid(*row)) {
            self.count += counts.value(row);
            let sum = S::narrowed(sums.value(row)).ok_or_else(too_large)?;
            self.sum = self.sum.plus(sum).ok_or_else(too_large)?;
        }
        Ok(())
    }
}

impl<S: Sum> Accumulator for One<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count += (values[0].len() - values[0].null_count()) as u64;
        let mut sum = self.sum;
        each(&values[0], |_, value: S| {
            sum = sum.plus(value).ok_or_else(too_large)?;
            Ok(())
        })?;
        self.sum = sum;
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.count -= (values[0].len() - values[0].null_count()) as u64;
        let mut sum = self.sum;
        each(&values[0], |_, value: S| {
            sum = sum.minus(value).ok_or_else(too_large)?;
            Ok(())
        })?;
        self.sum = sum;
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.merge(columns[0].as_primitive(), columns[1].as_primitive())
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.of.state(&[self.sum], vec![self.count])?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let exact = self.of.result(self.sum.to_big(), self.count).map_err(external)?;
        Ok(scalar(exact))
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Many groups.
#[derive(Debug)]
struct Many<S> {
    of: Plain,
    sums: Vec<S>,
    counts: Vec<u64>,
}

impl<S: Sum> Many<S> {
    fn new(of: Plain) -> Self {
        Self { of, sums: Vec::new(), counts: Vec::new() }
    }

    fn resize(&mut self, count: usize) {
        self.sums.resize(count, S::default());
        self.counts.resize(count, 0);
    }

    fn add(&mut self, group: usize, value: S, count: u64) -> Result<()> {
        self.sums[group] = self.sums[group].plus(value).ok_or_else(too_large)?;
        self.counts[group] += count;
        Ok(())
    }
}

impl<S: Sum> GroupsAccumulator for Many<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.resize(count);
        match filter {
            None => each(&values[0], |row, value| self.add(groups[row], value, 1)),
            filter => each(
                &values[0],
                |row, value| {
                    if passes(filter, row) { self.add(groups[row], value, 1) } else { Ok(()) }
                },
            ),
        }
    }
    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.resize(count);
        let (counts, sums) = (columns[0].as_primitive::<UInt64Type>(), columns[1].as_primitive::<Decimal256Type>());
        for (row, group) in groups.iter().enumerate().filter(|(row, _)| counts.is_valid(*row)) {
            let sum = S::narrowed(sums.value(row)).ok_or_else(too_large)?;
            self.add(*group, sum, counts.value(row))?;
        }
        Ok(())
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts));
        let groups = sums.into_iter().zip(counts);
        column::collect(groups.map(|(sum, count)| self.of.result(sum.to_big(), count))).map_err(external)
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = (emit_to.take_needed(&mut self.sums), emit_to.take_needed(&mut self.counts));
        self.of.state(&sums, counts)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each_alone = Self::new(self.of);
        let groups: Vec<usize> = (0..rows).collect();
        each_alone.update_batch(values, &groups, filter, rows)?;
        each_alone.state(EmitTo::All)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<S>() + self.counts.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array};
    use expect_test::{Expect, expect};

    /// The results of two groups, by way of states, as the texts of their values.
    fn check(kind: Kind, values: &ArrayRef, groups: &[usize], expected: Expect) {
        let plain = Plain::of(kind, values.data_type()).expect("summed here");
        let (mut first, mut last) = (plain.many(), plain.many());
        first.update_batch(std::slice::from_ref(values), groups, None, 2).expect("summed");
        let each_alone = first.convert_to_state(std::slice::from_ref(values), None).expect("states");
        let state = first.state(EmitTo::All).expect("a state");
        last.merge_batch(&state, &[0, 1], 2).expect("merged");
        let shown = |array: &ArrayRef, row| match column::exact(array, row).expect("a numeric") {
            Some(exact) => exact.to_text(),
            None => "NULL".to_owned(),
        };
        let result = last.evaluate(EmitTo::All).expect("results");
        let mut other = plain.many();
        other.merge_batch(&each_alone, groups, 2).expect("merged");
        let other = other.evaluate(EmitTo::All).expect("results");
        for row in 0..2 {
            assert_eq!(shown(&result, row), shown(&other, row));
        }
        expected.assert_eq(&format!("{} {}", shown(&result, 0), shown(&result, 1)));
    }

    #[test]
    fn groups_have_sums_and_averages() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX), Some(i64::MAX), Some(4)]));
        check(Kind::Avg, &ints, &[0, 0, 1, 1, 0], expect!["2.5000000000000000 9223372036854775807"]);
        let amounts = Decimal128Array::from(vec![Some(110), Some(-225), None, Some(5)]);
        let amounts: ArrayRef = Arc::new(amounts.with_precision_and_scale(15, 2).expect("digits"));
        check(Kind::Avg, &amounts, &[0, 0, 1, 0], expect!["-0.36666666666666666667 NULL"]);
        let most = 10_i128.pow(38) - 1;
        let wide = Decimal128Array::from(vec![most, most, most, -1]);
        let wide: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 2).expect("digits"));
        check(Kind::Sum, &wide, &[0, 0, 0, 1], expect!["2999999999999999999999999999999999999.97 -0.01"]);
    }
}
