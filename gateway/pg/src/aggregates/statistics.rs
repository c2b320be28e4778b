//! Statistics of double precision as PostgreSQL computes them: `stddev`, `variance`, `corr`, `covar_pop`, `regr_slope`
//! and their kin. Deviations and variances of integers and numerics are [`exact`].
//!
//! DataFusion's differ in the last digits, take for NULL what is NaN, know no overflow, and those of a window's frame
//! take from a running state what left the frame. Here all of them come of the same six [`Moments`], in the order of
//! rows; those of a frame are joined of what it holds.
//!
//! Source of the algorithm: Youngs and Cramer, "Some results relevant to choice of sum and sum-of-product algorithms",
//! Technometrics 13, 1971, as in PostgreSQL's `float.c` since version 12.

use super::{
    exact::{self, ExactAggregate},
    floats::{self, Sliding},
    passes,
};
use crate::{functions::scalar_function::external, numeric};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array},
    datatypes::{DataType, Field, FieldRef, Float64Type},
};
use datafusion::{
    error::Result,
    functions_aggregate::{correlation, covariance, regr, stddev, variance},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// How many values there were, their sums, and the sums of products of how far they are from their averages. Of a
/// function of one argument the state has only those of `x`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}

impl Moments {
    fn of((x, y): (f64, Option<f64>)) -> Self {
        let mut one = Self::default();
        one.add((x, y));
        one
    }

    /// Takes a row.
    fn add(&mut self, (x, y): (f64, Option<f64>)) {
        let before = self.n;
        self.n += 1.0;
        self.sx += x;
        let Some(y) = y else {
            if before > 0.0 {
                let far = x * self.n - self.sx;
                self.sxx += far * far / (self.n * before);
            } else if !x.is_finite() {
                self.sxx = f64::NAN;
            }
            return;
        };
        self.sy += y;
        if before > 0.0 {
            let (far_x, far_y) = (x * self.n - self.sx, y * self.n - self.sy);
            let scale = 1.0 / (self.n * before);
            self.sxx += far_x * far_x * scale;
            self.syy += far_y * far_y * scale;
            self.sxy += far_x * far_y * scale;
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
    }

    /// Those of both together.
    fn and(self, other: Self) -> Self {
        if self.n == 0.0 {
            return other;
        }
        if other.n == 0.0 {
            return self;
        }
        let n = self.n + other.n;
        let (far_x, far_y) = (self.sx / self.n - other.sx / other.n, self.sy / self.n - other.sy / other.n);
        let product = |own: f64, others: f64, a: f64, b: f64| own + others + self.n * other.n * a * b / n;
        Self {
            n,
            sx: self.sx + other.sx,
            sxx: product(self.sxx, other.sxx, far_x, far_x),
            sy: self.sy + other.sy,
            syy: product(self.syy, other.syy, far_y, far_y),
            sxy: product(self.sxy, other.sxy, far_x, far_y),
        }
    }

    fn columns(&mut self) -> [&mut f64; 6] {
        [&mut self.n, &mut self.sx, &mut self.sxx, &mut self.sy, &mut self.syy, &mut self.sxy]
    }
}

/// Moments with averages in place of sums: those of parts whose values are all the same are joined without rounding.
#[derive(Clone, Copy, Debug)]
struct Averaged(Moments);

impl Averaged {
    fn of(row: (f64, Option<f64>)) -> Self {
        // Of one row they are the same.
        Self(Moments::of(row))
    }

    /// Those of both together. Source: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for
    /// computing sample variances", 1979.
    fn and(Self(a): Self, Self(b): Self) -> Self {
        let n = a.n + b.n;
        let (far_x, far_y) = (b.sx - a.sx, b.sy - a.sy);
        let weight = a.n * b.n / n;
        Self(Moments {
            n,
            sx: a.sx + far_x * (b.n / n),
            sxx: a.sxx + b.sxx + far_x * far_x * weight,
            sy: a.sy + far_y * (b.n / n),
            syy: a.syy + b.syy + far_y * far_y * weight,
            sxy: a.sxy + b.sxy + far_x * far_y * weight,
        })
    }

    fn moments(self) -> Moments {
        Moments { sx: self.0.sx * self.0.n, sy: self.0.sy * self.0.n, ..self.0 }
    }
}

/// The functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    StddevSamp,
    StddevPop,
    VarSamp,
    VarPop,
    Corr,
    CovarSamp,
    CovarPop,
    RegrSlope,
    RegrIntercept,
    RegrR2,
    RegrAvgX,
    RegrAvgY,
    RegrCount,
    RegrSxx,
    RegrSyy,
    RegrSxy,
}

impl Kind {
    /// Columns of a state.
    fn state_columns(self) -> usize {
        match self {
            Self::StddevSamp | Self::StddevPop | Self::VarSamp | Self::VarPop => 3,
            _ => 6,
        }
    }

    /// What the function says of rows; `None` for NULL.
    ///
    /// # Errors
    /// When squares have overflowed: infinities among the values make NaNs.
    fn result(self, moments: Moments) -> Result<Option<f64>> {
        let Moments { n, sx, sxx, sy, syy, sxy } = moments;
        // What it is made of must be no infinity; `least` rows make a result.
        let made = |least: f64, of: &[f64], value: f64| {
            if n < least {
                return Ok(None);
            }
            for part in of {
                floats::checked(*part, false)?;
            }
            floats::checked(value, true).map(Some)
        };
        // Where one side never changes there is no line.
        let unless = |none: bool, value: Result<Option<f64>>| if none { value.map(|_| None) } else { value };
        match self {
            Self::StddevSamp => made(2.0, &[sxx], (sxx / (n - 1.0)).sqrt()),
            Self::StddevPop => made(1.0, &[sxx], (sxx / n).sqrt()),
            Self::VarSamp => made(2.0, &[sxx], sxx / (n - 1.0)),
            Self::VarPop => made(1.0, &[sxx], sxx / n),
            Self::Corr => unless(sxx == 0.0 || syy == 0.0, made(1.0, &[sxx, syy, sxy], sxy / (sxx * syy).sqrt())),
            Self::CovarSamp => made(2.0, &[sxy], sxy / (n - 1.0)),
            Self::CovarPop => made(1.0, &[sxy], sxy / n),
            Self::RegrSlope => unless(sxx == 0.0, made(1.0, &[sxx, sxy], sxy / sxx)),
            Self::RegrIntercept => unless(sxx == 0.0, made(1.0, &[sxx, sxy], (sy - sx * sxy / sxx) / n)),
            Self::RegrR2 if syy == 0.0 => unless(sxx == 0.0, made(1.0, &[sxx], 1.0)),
            Self::RegrR2 => unless(sxx == 0.0, made(1.0, &[sxx, syy, sxy], (sxy * sxy) / (sxx * syy))),
            Self::RegrAvgX => made(1.0, &[], sx / n),
            Self::RegrAvgY => made(1.0, &[], sy / n),
            Self::RegrCount => Ok(Some(n)),
            Self::RegrSxx => made(1.0, &[sxx], sxx),
            Self::RegrSyy => made(1.0, &[syy], syy),
            Self::RegrSxy => made(1.0, &[sxy], sxy),
        }
    }

    /// The aggregate of integers and numerics, which is exact; `None` for those that are of doubles alone.
    fn exact(self) -> Option<exact::Kind> {
        let (sample, root) = match self {
            Self::StddevSamp => (true, true),
            Self::StddevPop => (false, true),
            Self::VarSamp => (true, false),
            Self::VarPop => (false, false),
            _ => return None,
        };
        Some(exact::Kind::Spread { sample, root })
    }

    fn returns(self) -> DataType {
        if self == Self::RegrCount { DataType::Int64 } else { DataType::Float64 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a count of rows")]
    fn scalar(self, result: Option<f64>) -> ScalarValue {
        match self {
            Self::RegrCount => ScalarValue::Int64(result.map(|count| count as i64)),
            _ => ScalarValue::Float64(result),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "counts of rows")]
    fn array(self, results: impl Iterator<Item = Result<Option<f64>>>) -> Result<ArrayRef> {
        let results = results.collect::<Result<Float64Array>>()?;
        Ok(match self {
            Self::RegrCount => {
                Arc::new(results.iter().map(|count| count.map(|count| count as i64)).collect::<Int64Array>())
            }
            _ => Arc::new(results),
        })
    }
}

/// The functions, which replace DataFusion's.
pub(crate) fn functions() -> [AggregateUDF; 16] {
    [
        (Kind::StddevSamp, stddev::stddev_udaf()),
        (Kind::StddevPop, stddev::stddev_pop_udaf()),
        (Kind::VarSamp, variance::var_samp_udaf()),
        (Kind::VarPop, variance::var_pop_udaf()),
        (Kind::Corr, correlation::corr_udaf()),
        (Kind::CovarSamp, covariance::covar_samp_udaf()),
        (Kind::CovarPop, covariance::covar_pop_udaf()),
        (Kind::RegrSlope, regr::regr_slope_udaf()),
        (Kind::RegrIntercept, regr::regr_intercept_udaf()),
        (Kind::RegrR2, regr::regr_r2_udaf()),
        (Kind::RegrAvgX, regr::regr_avgx_udaf()),
        (Kind::RegrAvgY, regr::regr_avgy_udaf()),
        (Kind::RegrCount, regr::regr_count_udaf()),
        (Kind::RegrSxx, regr::regr_sxx_udaf()),
        (Kind::RegrSyy, regr::regr_syy_udaf()),
        (Kind::RegrSxy, regr::regr_sxy_udaf()),
    ]
    .map(|(kind, inner)| AggregateUDF::from(Statistic { kind, inner, signature: super::open() }))
}

/// One of the functions, with the names and arguments of DataFusion's, which has those of distinct values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    kind: Kind,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Statistic {
    fn exact(&self, arguments: &[FieldRef], distinct: bool) -> Option<ExactAggregate> {
        let [argument] = arguments else { return None };
        let kind = self.kind.exact().filter(|kind| kind.takes(argument.data_type()))?;
        Some(ExactAggregate::new(kind, distinct, argument.data_type()))
    }
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let exact = self.kind.exact();
        if let ([argument], Some(kind)) = (arguments, exact)
            && kind.takes(argument)
        {
            return Ok(arguments.to_vec());
        }
        let takes = |data: &DataType| numeric::is_number(data) || data.is_null() || *data == DataType::Utf8;
        let count = if exact.is_some() { 1 } else { 2 };
        if arguments.len() != count || !arguments.iter().all(takes) {
            return Err(external(crate::functions::undefined(self.name(), arguments)));
        }
        // Arrow casts no numeric of the exact form: a rule does.
        let typed = |data: &DataType| if numeric::is_exact(data) { data.clone() } else { DataType::Float64 };
        Ok(arguments.iter().map(typed).collect())
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let exact = self.kind.exact().zip(arguments.first());
        let is_exact = exact.is_some_and(|(kind, argument)| kind.takes(argument));
        Ok(if is_exact { numeric::EXACT } else { self.kind.returns() })
    }
    fn is_nullable(&self) -> bool {
        self.kind != Kind::RegrCount
    }
    fn default_value(&self, data: &DataType) -> Result<ScalarValue> {
        if numeric::is_exact(data) {
            return ScalarValue::try_from(data);
        }
        self.kind.result(Moments::default()).map(|result| self.kind.scalar(result))
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return Ok(exact.one());
        }
        if arguments.is_distinct {
            return self.inner.accumulator(arguments);
        }
        Ok(Box::new(One { kind: self.kind, moments: Moments::default() }))
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if let Some(exact) = self.exact(arguments.input_fields, arguments.is_distinct) {
            return Ok(exact.state_fields(arguments.name));
        }
        if arguments.is_distinct {
            return self.inner.state_fields(arguments);
        }
        let names = ["n", "sx", "sxx", "sy", "syy", "sxy"].into_iter().take(self.kind.state_columns());
        let field = |name| Arc::new(Field::new(format!("{}[{name}]", arguments.name), DataType::Float64, true));
        Ok(names.map(field).collect())
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        !arguments.is_distinct
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return Ok(exact.many());
        }
        Ok(Box::new(Many { kind: self.kind, moments: Vec::new() }))
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return Ok(exact.one());
        }
        if arguments.is_distinct {
            return self.inner.create_sliding_accumulator(arguments);
        }
        Ok(Box::new(Frame { kind: self.kind, rows: Sliding::new(Averaged::and) }))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Rows that count: those without a NULL argument. PostgreSQL's functions of two arguments have the dependent variable,
/// `y`, first.
fn rows(values: &[ArrayRef], mut row: impl FnMut(usize, (f64, Option<f64>))) {
    let (x, y) = match values {
        [y, x, ..] => (x.as_primitive::<Float64Type>(), Some(y.as_primitive::<Float64Type>())),
        values => (values[0].as_primitive::<Float64Type>(), None),
    };
    for at in 0..x.len() {
        if x.is_valid(at) && y.is_none_or(|y| y.is_valid(at)) {
            row(at, (x.value(at), y.map(|y| y.value(at))));
        }
    }
}

/// Moments out of columns of states; the default where one is NULL.
fn states(columns: &[ArrayRef]) -> impl Iterator<Item = Moments> {
    let columns: Vec<_> = columns.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
    (0..columns.first().map_or(0, |column| column.len())).map(move |row| {
        let mut moments = Moments::default();
        for (place, column) in moments.columns().into_iter().zip(&columns) {
            *place = if column.is_valid(row) { column.value(row) } else { 0.0 };
        }
        moments
    })
}

/// Columns of states.
fn columns(kind: Kind, mut moments: Vec<Moments>) -> Vec<ArrayRef> {
    let column = |at: usize| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(moments.iter_mut().map(|moments| *moments.columns()[at])))
    };
    (0..kind.state_columns()).map(column).collect()
}

/// One group.
#[derive(Debug)]
struct One {
    kind: Kind,
    moments: Moments,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values, |_, row| self.moments.add(row));
        Ok(())
    }
    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.moments = states(columns).fold(self.moments, Moments::and);
        Ok(())
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.moments.columns().into_iter().take(self.kind.state_columns());
        Ok(columns.map(|column| ScalarValue::Float64(Some(*column))).collect())
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.kind.result(self.moments).map(|result| self.kind.scalar(result))
    }
    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Many groups.
struct Many {
    kind: Kind,
    moments: Vec<Moments>,
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.moments.resize(count, Moments::default());
        rows(values, |at, row| {
            if passes(filter, at) {
                self.moments[groups[at]].add(row);
            }
        });
        Ok(())
    }
    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.moments.resize(count, Moments::default());
        for (state, group) in states(columns).zip(groups) {
            self.moments[*group] = self.moments[*group].and(state);
        }
        Ok(())
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let moments = emit_to.take_needed(&mut self.moments);
        self.kind.array(moments.into_iter().map(|moments| self.kind.result(moments)))
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(columns(self.kind, emit_to.take_needed(&mut self.moments)))
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut moments = vec![Moments::default(); values[0].len()];
        rows(values, |at, row| {
            if passes(filter, at) {
                moments[at] = Moments::of(row);
            }
        });
        Ok(columns(self.kind, moments))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.moments.capacity() * size_of::<Moments>()
    }
}

/// A window's frame.
#[derive(Debug)]
struct Frame {
    kind: Kind,
    rows: Sliding<Averaged>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values, |_, row| self.rows.push(Averaged::of(row)));
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        rows(values, |_, _| self.rows.pop());
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.kind
            .result(self.rows.all().map(Averaged::moments).unwrap_or_default())
            .map(|result| self.kind.scalar(result))
    }
    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size()
    }
    // Of a frame there are no states: windows are computed whole.
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        datafusion::common::internal_err!("a frame's statistics have no state")
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("a frame's statistics have no state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option::weighted, prelude::*};

    const ALL: [Kind; 16] = [
        Kind::StddevSamp,
        Kind::StddevPop,
        Kind::VarSamp,
        Kind::VarPop,
        Kind::Corr,
        Kind::CovarSamp,
        Kind::CovarPop,
        Kind::RegrSlope,
        Kind::RegrIntercept,
        Kind::RegrR2,
        Kind::RegrAvgX,
        Kind::RegrAvgY,
        Kind::RegrCount,
        Kind::RegrSxx,
        Kind::RegrSyy,
        Kind::RegrSxy,
    ];

    /// `y`, `x`, and whether FILTER lets the row pass.
    type Row = (Option<i8>, Option<i8>, Option<bool>);

    fn arguments(kind: Kind, rows: &[Row]) -> Vec<ArrayRef> {
        let column = |value: fn(&Row) -> Option<i8>| -> ArrayRef {
            Arc::new(rows.iter().map(|row| value(row).map(f64::from)).collect::<Float64Array>())
        };
        let both = vec![column(|row| row.0), column(|row| row.1)];
        if kind.state_columns() == 3 { both[1..].to_vec() } else { both }
    }

    fn filter(rows: &[Row]) -> BooleanArray {
        rows.iter().map(|row| row.2).collect()
    }

    fn one(kind: Kind, rows: &[Row]) -> ScalarValue {
        let mut one = One { kind, moments: Moments::default() };
        one.update_batch(&arguments(kind, rows)).unwrap();
        one.evaluate().unwrap()
    }

    fn frame(kind: Kind) -> Frame {
        Frame { kind, rows: Sliding::new(Averaged::and) }
    }

    fn close(found: &ScalarValue, expected: &ScalarValue) -> bool {
        match (found, expected) {
            (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => {
                (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs())) || (a.is_nan() && b.is_nan())
            }
            (a, b) => a == b,
        }
    }

    proptest! {
        /// By groups, by states of parts, by states of single rows, and as a frame: as one after the other.
        #[test]
        fn parts_make_what_rows_make(
            parts in vec(vec((weighted(0.9, -9..9i8), weighted(0.9, -9..9i8), weighted(0.9, prop::bool::weighted(0.8))), 0..12), 1..5),
            first in 0..20usize,
        ) {
            let rows = parts.concat();
            let passing: Vec<Row> = rows.iter().filter(|row| row.2 == Some(true)).copied().collect();
            for kind in ALL {
                let (expected, none) = (one(kind, &passing), one(kind, &[]));
                let mut many = Many { kind, moments: Vec::new() };
                let mut merged = One { kind, moments: Moments::default() };
                for (number, part) in parts.iter().enumerate() {
                    let (values, filter, groups) = (arguments(kind, part), filter(part), vec![1; part.len()]);
                    let (states, groups) = if number % 2 == 0 {
                        let mut other = Many { kind, moments: Vec::new() };
                        other.update_batch(&values, &groups, Some(&filter), 3).unwrap();
                        (other.state(EmitTo::All).unwrap(), vec![0, 1, 2])
                    } else {
                        (many.convert_to_state(&values, Some(&filter)).unwrap(), groups)
                    };
                    many.merge_batch(&states, &groups, 3).unwrap();
                    merged.merge_batch(&states).unwrap();
                }
                let found = many.evaluate(EmitTo::All).unwrap();
                for (group, expected) in [(0, &none), (1, &expected), (2, &none)] {
                    let found = ScalarValue::try_from_array(&found, group).unwrap();
                    prop_assert!(close(&found, expected), "{kind:?}: {found:?}, {expected:?}");
                }
                prop_assert!(close(&merged.evaluate().unwrap(), &expected), "{:?}", kind);

                let (mut frame, first) = (frame(kind), first.min(rows.len()));
                frame.update_batch(&arguments(kind, &rows)).unwrap();
                frame.retract_batch(&arguments(kind, &rows[..first])).unwrap();
                let (found, expected) = (frame.evaluate().unwrap(), one(kind, &rows[first..]));
                prop_assert!(close(&found, &expected), "{kind:?}: {found:?}, {expected:?}");
            }
        }
    }

    /// Sums of a tenth are no multiples of it: by them it would be as if the values differed.
    #[test]
    fn a_frame_of_one_value_does_not_vary() {
        let tenths: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(vec![0.1; 10]))];
        let mut frame = frame(Kind::StddevSamp);
        frame.update_batch(&tenths).unwrap();
        frame.retract_batch(&[tenths[0].slice(0, 3)]).unwrap();
        frame.update_batch(&[tenths[0].slice(0, 5)]).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(0.0)));
    }
}
