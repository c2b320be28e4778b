//! Sums of numerics with many digits, which may overflow: those of DataFusion 55.2 wrap around without an error, where
//! its averages do not.
//!
//! A sum has 256 bits here until the end; a result with more digits than a numeric is 22003.

use crate::{functions::scalar_function::external, plan::checked_arithmetic};
use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, UInt64Array},
    datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, UInt64Type, i256},
};
use datafusion::{
    error::Result,
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
    scalar::ScalarValue,
};
use std::sync::Arc;

/// Digits with which ten milliards of rows stay within 128 bits: of these, and fewer, DataFusion's sums are right.
const SAFE_DIGITS: u8 = 28;
/// Digits of 256 bits.
const SUM_DIGITS: u8 = 76;

/// The types of a sum.
#[derive(Clone, Debug)]
pub(crate) struct DecimalSum {
    /// Digits after the point of what is summed.
    scale: i8,
    /// The result's type.
    returns: DataType,
}

impl DecimalSum {
    /// The sum for arguments of these types; `None` for those that DataFusion sums right.
    pub(crate) fn of(arguments: &[FieldRef], returns: &DataType) -> Option<Self> {
        let [argument] = arguments else { return None };
        match argument.data_type() {
            DataType::Decimal128(digits, scale) if *digits > SAFE_DIGITS => {
                Some(Self { scale: *scale, returns: returns.clone() })
            }
            _ => None,
        }
    }

    /// The columns of a state.
    pub(crate) fn state_fields(&self, name: &str) -> Vec<FieldRef> {
        let sum = DataType::Decimal256(SUM_DIGITS, self.scale);
        vec![
            Arc::new(Field::new(format!("{name}[count]"), DataType::UInt64, true)),
            Arc::new(Field::new(format!("{name}[sum]"), sum, true)),
        ]
    }

    /// The result; `None` for NULL.
    ///
    /// # Errors
    /// 22003 for more digits than its type has.
    fn result(&self, Sum { count, sum }: Sum) -> Result<Option<i128>> {
        let DataType::Decimal128(digits, _) = self.returns else {
            return datafusion::common::internal_err!("a sum of numerics is a numeric");
        };
        if count == 0 {
            return Ok(None);
        }
        let fits = |result: &i128| result.unsigned_abs() < 10_u128.pow(u32::from(digits));
        let result = sum.to_i128().filter(fits);
        result.map(Some).ok_or_else(|| external(checked_arithmetic::out_of_range(&self.returns)))
    }

    fn states(&self, sums: &[Sum]) -> Result<Vec<ArrayRef>> {
        let counts = UInt64Array::from_iter_values(sums.iter().map(|sum| sum.count));
        let sums = Decimal256Array::from_iter_values(sums.iter().map(|sum| sum.sum))
            .with_precision_and_scale(SUM_DIGITS, self.scale)?;
        Ok(vec![Arc::new(counts), Arc::new(sums)])
    }

    pub(crate) fn one(self) -> Box<dyn Accumulator> {
        Box::new(One { to: self, sum: Sum::default() })
    }

    pub(crate) fn many(self) -> Box<dyn GroupsAccumulator> {
        Box::new(Many { to: self, sums: Vec::new() })
    }
}

/// How many numbers there were, and their sum.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    sum: i256,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

fn one_of(value: i128) -> Sum {
    Sum { count: 1, sum: i256::from_i128(value) }
}

fn all_of(values: &ArrayRef) -> Sum {
    values.as_primitive::<Decimal128Type>().iter().flatten().fold(Sum::default(), |mut sum, value| {
        sum.add(one_of(value));
        sum
    })
}

/// Sums out of columns of states.
fn sums(columns: &[ArrayRef]) -> impl Iterator<Item = Sum> {
    let (counts, sums) = (columns[0].as_primitive::<UInt64Type>(), columns[1].as_primitive::<Decimal256Type>());
    counts.iter().zip(sums).map(|(count, sum)| match (count, sum) {
        (Some(count), Some(sum)) => Sum { count, sum },
        _ => Sum::default(),
    })
}

/// One group, or a window's frame: whole numbers go as they came.
#[derive(Debug)]
struct One {
    to: DecimalSum,
    sum: Sum,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.add(all_of(&values[0]));
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = all_of(&values[0]);
        self.sum = Sum { count: self.sum.count - gone.count, sum: self.sum.sum.wrapping_sub(gone.sum) };
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        sums(columns).for_each(|sum| self.sum.add(sum));
        Ok(())
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.to.states(&[self.sum])?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.to.returns {
            DataType::Decimal128(digits, scale) => {
                Ok(ScalarValue::Decimal128(self.to.result(self.sum)?, digits, scale))
            }
            _ => datafusion::common::internal_err!("a sum of numerics is a numeric"),
        }
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Many groups.
struct Many {
    to: DecimalSum,
    sums: Vec<Sum>,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.sums.resize(count, Sum::default());
        for ((at, value), group) in values[0].as_primitive::<Decimal128Type>().iter().enumerate().zip(groups) {
            if let Some(value) = value.filter(|_| super::passes(filter, at)) {
                self.sums[*group].add(one_of(value));
            }
        }
        Ok(())
    }
    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.sums.resize(count, Sum::default());
        for (sum, group) in sums(columns).zip(groups) {
            self.sums[*group].add(sum);
        }
        Ok(())
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let results = sums.into_iter().map(|sum| self.to.result(sum)).collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(results.with_data_type(self.to.returns.clone())))
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        self.to.states(&sums)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Decimal128Type>().iter().enumerate();
        let sums =
            values.map(|(at, value)| value.filter(|_| super::passes(filter, at)).map(one_of).unwrap_or_default());
        self.to.states(&sums.collect::<Vec<_>>())
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<Sum>()
    }
}
