//! Sums, averages, variances and deviations of integers and numerics, exact to the last digit: PostgreSQL's
//! `numeric_sum`, `numeric_avg` and `numeric_stddev_internal`.
//!
//! A [`Tally`] has the sum of values, for some that of their squares, how many there were, and the most digits after
//! the point. While a sum fits in 128 bits it is added there. Values that all have the same digits after the point need
//! no more than a sum and a count: [`plain`].

use super::passes;
use crate::{
    functions::scalar_function::external,
    numeric::{
        EXACT, column, is_exact,
        number::{Decimal, Number, ten},
        power,
    },
};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, UInt64Array},
    datatypes::{DataType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type},
};
use datafusion::{
    error::Result,
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator},
    scalar::ScalarValue,
};
use keyspan_catalog::value::exact::Exact;
use num_bigint::BigInt;
use std::{collections::HashMap, sync::Arc};

mod plain;

use plain::Plain;

/// Digits of a decimal whose sums DataFusion's own accumulators hold, for ten milliards of rows.
const SAFE_DIGITS: u8 = 28;
/// Counts in a state.
const COUNTS: usize = 5;

/// What is made of a tally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Sum,
    Avg,
    /// A variance, or its root.
    Spread {
        sample: bool,
        root: bool,
    },
}

impl Kind {
    /// Whether values of a type are aggregated here.
    pub(crate) fn takes(self, data: &DataType) -> bool {
        match data {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => self != Self::Sum,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => self != Self::Sum,
            DataType::Decimal128(digits, _) => self != Self::Sum || *digits > SAFE_DIGITS,
            DataType::Decimal256(..) => true,
            data => is_exact(data),
        }
    }

    fn squares(self) -> bool {
        matches!(self, Self::Spread { .. })
    }

    /// The result; `None` for NULL.
    ///
    /// # Errors
    /// 22003
    fn result(self, tally: &Tally) -> crate::error::Result<Option<Exact>> {
        let count = tally.count();
        if count == 0 || (count == 1 && matches!(self, Self::Spread { sample: true, .. })) {
            return Ok(None);
        }
        let special = match tally {
            _ if tally.nans > 0 || (tally.infinities > 0 && tally.minus_infinities > 0) => Some(Number::NaN),
            Tally { infinities: 0, minus_infinities: 0, .. } => None,
            _ if self.squares() => Some(Number::NaN),
            Tally { infinities, .. } => Some(Number::Infinity { negative: *infinities == 0 }),
        };
        let number = match special {
            Some(special) => special,
            None => Number::Finite(self.of(tally, count)),
        };
        number.to_exact().map(Some)
    }

    fn of(self, tally: &Tally, count: u64) -> Decimal {
        let sum = tally.sum.decimal();
        match self {
            Self::Sum | Self::Avg => self.of_sum(sum, count),
            Self::Spread { sample, root } => {
                let count = Decimal::new(count, 0);
                // (n Σx² − (Σx)²) / (n (n − 1)), or / n².
                let squares = tally.squares.as_ref().map(|squares| squares.decimal());
                let spread = count.times(&squares.unwrap_or_else(|| Decimal::new(0, 0))).minus(&sum.times(&sum));
                if spread.is_zero() || spread.is_negative() {
                    return Decimal::new(0, 0);
                }
                let less = if sample { count.minus(&Decimal::new(1, 0)) } else { count.clone() };
                let rows = count.times(&less);
                let scale = spread.quotient_scale(&rows);
                let variance = spread.over(&rows, scale);
                if root { power::root(&variance, scale) } else { variance }
            }
        }
    }
}

impl Kind {
    /// The sum itself, or the average.
    fn of_sum(self, sum: Decimal, count: u64) -> Decimal {
        if self == Self::Sum {
            return sum;
        }
        let count = Decimal::new(count, 0);
        sum.over(&count, sum.quotient_scale(&count))
    }
}

/// A sum: in 128 bits while it fits, and what went beyond.
#[derive(Clone, Debug, Default)]
struct Total {
    small: i128,
    big: BigInt,
    scale: u32,
}

impl Total {
    fn spill(&mut self) {
        self.big += std::mem::take(&mut self.small);
    }

    /// Takes more digits after the point.
    fn raise_to(&mut self, scale: u32) {
        if scale <= self.scale {
            return;
        }
        let more = scale - self.scale;
        if self.big.sign() != num_bigint::Sign::NoSign {
            self.big *= ten(more);
        }
        match 10_i128.checked_pow(more).and_then(|factor| self.small.checked_mul(factor)) {
            Some(small) => self.small = small,
            None => self.big += BigInt::from(std::mem::take(&mut self.small)) * ten(more),
        }
        self.scale = scale;
    }

    fn add(&mut self, value: i128, scale: u32) {
        self.raise_to(scale);
        let raised = 10_i128.checked_pow(self.scale - scale).and_then(|factor| value.checked_mul(factor));
        match raised {
            Some(value) => match self.small.checked_add(value) {
                Some(sum) => self.small = sum,
                None => {
                    self.spill();
                    self.small = value;
                }
            },
            None => self.big += BigInt::from(value) * ten(self.scale - scale),
        }
    }

    fn add_big(&mut self, value: &BigInt, scale: u32) {
        match i128::try_from(value) {
            Ok(small) => self.add(small, scale),
            Err(_) => {
                self.raise_to(scale);
                self.big += value * ten(self.scale - scale);
            }
        }
    }

    fn decimal(&self) -> Decimal {
        Decimal { unscaled: &self.big + self.small, scale: self.scale }
    }
}

/// What is known of values.
#[derive(Clone, Debug, Default)]
struct Tally {
    numbers: u64,
    nans: u64,
    infinities: u64,
    minus_infinities: u64,
    sum: Total,
    squares: Option<Box<Total>>,
}

impl Tally {
    fn new(kind: Kind) -> Self {
        Self { squares: kind.squares().then(Box::default), ..Self::default() }
    }

    fn count(&self) -> u64 {
        self.numbers + self.nans + self.infinities + self.minus_infinities
    }

    fn add_small(&mut self, value: i128, scale: u32) {
        self.numbers += 1;
        self.sum.add(value, scale);
        if let Some(squares) = &mut self.squares {
            match value.checked_mul(value) {
                Some(square) => squares.add(square, 2 * scale),
                None => squares.add_big(&(BigInt::from(value) * value), 2 * scale),
            }
        }
    }

    fn add(&mut self, number: &Number) {
        match number {
            Number::NaN => self.nans += 1,
            Number::Infinity { negative: true } => self.minus_infinities += 1,
            Number::Infinity { negative: false } => self.infinities += 1,
            Number::Finite(Decimal { unscaled, scale }) => {
                if let Ok(small) = i128::try_from(unscaled) {
                    return self.add_small(small, *scale);
                }
                self.numbers += 1;
                self.sum.add_big(unscaled, *scale);
                if let Some(squares) = &mut self.squares {
                    squares.add_big(&(unscaled * unscaled), 2 * scale);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.numbers += other.numbers;
        self.nans += other.nans;
        self.infinities += other.infinities;
        self.minus_infinities += other.minus_infinities;
        let sum = other.sum.decimal();
        self.sum.add_big(&sum.unscaled, sum.scale);
        if let (Some(own), Some(squares)) = (&mut self.squares, &other.squares) {
            let squares = squares.decimal();
            own.add_big(&squares.unscaled, squares.scale);
        }
    }

    fn size(&self) -> usize {
        let of = |total: &Total| usize::try_from(total.big.bits() / 8).unwrap_or(0);
        size_of_val(self) + of(&self.sum) + self.squares.as_ref().map_or(0, |squares| size_of::<Total>() + of(squares))
    }
}

/// Calls a function for each value that is not NULL: its row, and what adds it to a tally.
fn each(values: &ArrayRef, mut take: impl FnMut(usize, &dyn Fn(&mut Tally))) {
    macro_rules! small {
        ($kind:ty, $scale:expr) => {
            for (row, value) in values.as_primitive::<$kind>().iter().enumerate() {
                if let Some(value) = value {
                    take(row, &|tally| tally.add_small(value.into(), $scale));
                }
            }
        };
    }
    match values.data_type() {
        DataType::Int16 => small!(Int16Type, 0),
        DataType::Int32 => small!(Int32Type, 0),
        DataType::Int64 => small!(Int64Type, 0),
        DataType::Decimal128(_, scale) if *scale >= 0 => small!(Decimal128Type, u32::from(scale.unsigned_abs())),
        _ => {
            for row in 0..values.len() {
                if let Some(number) = column::number(values, row) {
                    take(row, &|tally| tally.add(&number));
                }
            }
        }
    }
}

/// An aggregate of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExactAggregate {
    kind: Kind,
    distinct: bool,
    plain: Option<Plain>,
}

impl ExactAggregate {
    /// That of values of a type.
    pub(crate) fn new(kind: Kind, distinct: bool, data: &DataType) -> Self {
        Self { kind, distinct, plain: if distinct { None } else { Plain::of(kind, data) } }
    }

    pub(crate) fn is_distinct(self) -> bool {
        self.distinct
    }

    /// The columns of a state.
    pub(crate) fn state_fields(self, name: &str) -> Vec<FieldRef> {
        if let Some(plain) = self.plain {
            return plain.state_fields(name);
        }
        if self.distinct {
            let list = DataType::List(Arc::new(Field::new_list_field(EXACT, true)));
            return vec![Arc::new(Field::new(format!("{name}[values]"), list, true))];
        }
        let counts = ["numbers", "nans", "infinities", "minus_infinities", "scale"];
        let count = |column: &str| Arc::new(Field::new(format!("{name}[{column}]"), DataType::UInt64, true));
        let sums = ["sum", "squares"].into_iter().take(if self.kind.squares() { 2 } else { 1 });
        let sum = |column: &str| Arc::new(Field::new(format!("{name}[{column}]"), EXACT, true));
        counts.into_iter().map(count).chain(sums.map(sum)).collect()
    }

    pub(crate) fn one(self) -> Box<dyn Accumulator> {
        if let Some(plain) = self.plain {
            return plain.one();
        }
        if self.distinct {
            return Box::new(Distinct { kind: self.kind, seen: HashMap::new(), bytes: 0 });
        }
        Box::new(One { to: self, tally: Tally::new(self.kind), scales: HashMap::new() })
    }

    pub(crate) fn many(self) -> Box<dyn GroupsAccumulator> {
        if let Some(plain) = self.plain {
            return plain.many();
        }
        Box::new(Many { to: self, tallies: Vec::new() })
    }

    fn states(self, tallies: &[Tally]) -> Result<Vec<ArrayRef>> {
        let column =
            |of: fn(&Tally) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(tallies.iter().map(of))) };
        let exact = |total: &Total| {
            let decimal = total.decimal();
            Number::Finite(decimal).to_exact().map(Some)
        };
        let mut columns = vec![
            column(|tally| tally.numbers),
            column(|tally| tally.nans),
            column(|tally| tally.infinities),
            column(|tally| tally.minus_infinities),
            column(|tally| tally.sum.scale.into()),
        ];
        columns.push(column::collect(tallies.iter().map(|tally| exact(&tally.sum))).map_err(external)?);
        if self.kind.squares() {
            let squares = tallies.iter().map(|tally| tally.squares.as_deref().map_or(Ok(None), exact));
            columns.push(column::collect(squares).map_err(external)?);
        }
        Ok(columns)
    }

    /// Tallies out of columns of states.
    fn tallies(self, columns: &[ArrayRef]) -> impl Iterator<Item = Tally> {
        let counts: Vec<&UInt64Array> = columns[..COUNTS].iter().map(|column| column.as_primitive()).collect();
        let kind = self.kind;
        (0..columns[0].len()).map(move |row| {
            let mut tally = Tally::new(kind);
            if counts[0].is_null(row) {
                return tally;
            }
            tally.numbers = counts[0].value(row);
            tally.nans = counts[1].value(row);
            tally.infinities = counts[2].value(row);
            tally.minus_infinities = counts[3].value(row);
            let read = |column: &ArrayRef, total: &mut Total| {
                if let Some(Number::Finite(decimal)) = column::number(column, row) {
                    total.add_big(&decimal.unscaled, decimal.scale);
                }
            };
            read(&columns[COUNTS], &mut tally.sum);
            if let Some(squares) = &mut tally.squares {
                read(&columns[COUNTS + 1], squares);
            }
            tally
        })
    }
}

/// One group, or a window's frame.
#[derive(Debug)]
struct One {
    to: ExactAggregate,
    tally: Tally,
    /// How many values of each scale a frame holds, once something left it.
    scales: HashMap<u32, u64>,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let tally = &mut self.tally;
        each(&values[0], |_, add| add(tally));
        if is_exact(values[0].data_type()) {
            count_scales(&values[0], |scale| *self.scales.entry(scale).or_default() += 1);
        }
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = Tally::new(self.to.kind);
        each(&values[0], |_, add| add(&mut gone));
        let own = &mut self.tally;
        own.numbers -= gone.numbers;
        own.nans -= gone.nans;
        own.infinities -= gone.infinities;
        own.minus_infinities -= gone.minus_infinities;
        let less = |own: &mut Total, gone: &Total| {
            let gone = gone.decimal();
            own.add_big(&-gone.unscaled, gone.scale);
        };
        less(&mut own.sum, &gone.sum);
        if let (Some(own), Some(gone)) = (&mut own.squares, &gone.squares) {
            less(own, gone);
        }
        if is_exact(values[0].data_type()) {
            count_scales(&values[0], |scale| {
                if let Some(count) = self.scales.get_mut(&scale) {
                    *count -= 1;
                }
            });
            self.scales.retain(|_, count| *count > 0);
            // The digits of what left are zeros by now.
            let most = self.scales.keys().copied().max().unwrap_or(0);
            let narrow = |total: &mut Total, scale: u32| {
                let decimal = total.decimal().rescaled(scale);
                *total = Total { scale, ..Total::default() };
                total.add_big(&decimal.unscaled, scale);
            };
            narrow(&mut self.tally.sum, most);
            if let Some(squares) = &mut self.tally.squares {
                narrow(squares, 2 * most);
            }
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.to.tallies(columns).for_each(|tally| self.tally.merge(&tally));
        Ok(())
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.to.states(std::slice::from_ref(&self.tally))?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        result(self.to.kind, &self.tally)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.tally.size()
    }
}

fn count_scales(values: &ArrayRef, mut count: impl FnMut(u32)) {
    for row in 0..values.len() {
        if let Some(Number::Finite(decimal)) = column::number(values, row) {
            count(decimal.scale);
        }
    }
}

fn result(kind: Kind, tally: &Tally) -> Result<ScalarValue> {
    kind.result(tally).map(scalar).map_err(external)
}

fn scalar(exact: Option<Exact>) -> ScalarValue {
    ScalarValue::LargeBinary(exact.map(|exact| exact.as_bytes().to_vec()))
}

/// Many groups.
struct Many {
    to: ExactAggregate,
    tallies: Vec<Tally>,
}

impl Many {
    fn resize(&mut self, count: usize) {
        self.tallies.resize_with(count, || Tally::new(self.to.kind));
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.resize(count);
        let tallies = &mut self.tallies;
        each(&values[0], |row, add| {
            if passes(filter, row) {
                add(&mut tallies[groups[row]]);
            }
        });
        Ok(())
    }
    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.resize(count);
        for (tally, group) in self.to.tallies(columns).zip(groups) {
            self.tallies[*group].merge(&tally);
        }
        Ok(())
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let tallies = emit_to.take_needed(&mut self.tallies);
        column::collect(tallies.iter().map(|tally| self.to.kind.result(tally))).map_err(external)
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let tallies = emit_to.take_needed(&mut self.tallies);
        self.to.states(&tallies)
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut tallies = vec![Tally::new(self.to.kind); values[0].len()];
        each(&values[0], |row, add| {
            if passes(filter, row) {
                add(&mut tallies[row]);
            }
        });
        self.to.states(&tallies)
    }
    fn size(&self) -> usize {
        let squares = if self.to.kind.squares() { size_of::<Total>() } else { 0 };
        size_of_val(self) + self.tallies.capacity() * (size_of::<Tally>() + squares)
    }
}

/// Distinct values of one group.
#[derive(Debug)]
struct Distinct {
    kind: Kind,
    /// By their keys; of equal ones the first.
    seen: HashMap<Box<[u8]>, Exact>,
    bytes: usize,
}

impl Distinct {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        for row in 0..values.len() {
            let Some(exact) = column::exact(values, row).map_err(external)? else { continue };
            if !self.seen.contains_key(exact.key()) {
                self.bytes += 2 * exact.as_bytes().len() + size_of::<(Box<[u8]>, Exact)>();
                self.seen.insert(exact.key().into(), exact);
            }
        }
        Ok(())
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }
    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let lists = columns[0].as_list::<i32>();
        (0..lists.len()).filter(|row| lists.is_valid(*row)).try_for_each(|row| self.add(&lists.value(row)))
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: LargeBinaryArray = self.seen.values().map(|exact| Some(exact.as_bytes())).collect();
        let list = datafusion::common::utils::SingleRowListArrayBuilder::new(Arc::new(values)).build_list_scalar();
        Ok(vec![list])
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut tally = Tally::new(self.kind);
        self.seen.values().for_each(|exact| tally.add(&Number::of(exact)));
        result(self.kind, &tally)
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array};
    use expect_test::{Expect, expect};

    fn check(kind: Kind, values: &ArrayRef, expected: Expect) {
        let mut one = ExactAggregate::new(kind, false, values.data_type()).one();
        one.update_batch(&[Arc::clone(values)]).unwrap();
        // By way of a state too.
        let mut other = ExactAggregate::new(kind, false, values.data_type()).one();
        let state: Vec<_> = one.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
        other.merge_batch(&state).unwrap();
        let shown = |value: ScalarValue| match value {
            ScalarValue::LargeBinary(Some(bytes)) => crate::numeric::text(&bytes),
            _ => "NULL".to_owned(),
        };
        let first = shown(one.evaluate().unwrap());
        assert_eq!(shown(other.evaluate().unwrap()), first);
        expected.assert_eq(&first);
    }

    #[test]
    fn results_have_the_digits_of_postgres() {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(2), Some(4)]));
        check(Kind::Avg, &ints, expect!["2.3333333333333333"]);
        check(Kind::Spread { sample: true, root: false }, &ints, expect!["2.3333333333333333"]);
        check(Kind::Spread { sample: true, root: true }, &ints, expect!["1.5275252316519467"]);
        check(Kind::Spread { sample: false, root: true }, &ints, expect!["1.2472191289246471"]);
        let most = 10_i128.pow(38) - 1;
        let wide = Decimal128Array::from(vec![most, most, most]).with_precision_and_scale(38, 2).unwrap();
        check(Kind::Sum, &(Arc::new(wide) as ArrayRef), expect!["2999999999999999999999999999999999999.97"]);
    }
}
