//! Aggregates of a run at a time: its values lie next to each other, so they are folded as a slice, with nothing to
//! look up for each.
//!
//! For `count`, and for `sum`, `avg`, `min` and `max` of double precision; they give the states that DataFusion's own
//! accumulators of groups give, in the order of rows, so that sums are rounded as there. Other aggregates are given
//! each row with the number of its run ([`Fold::Rows`]).

use crate::aggregates::floats;
use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt64Array},
    datatypes::{DataType, Float64Type, SchemaRef},
};
use datafusion::{
    common::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_expr::aggregate::AggregateFunctionExpr,
};
use std::{mem, ops::Range, sync::Arc};

/// States of runs.
pub(crate) enum Fold {
    /// Of how many rows have a value.
    Count(Vec<i64>),
    /// Of values, as the function says.
    Doubles(Doubles),
    /// DataFusion's.
    Rows(Box<dyn GroupsAccumulator>),
}

/// States of doubles.
pub(crate) struct Doubles {
    of: Of,
    /// Of each run, how many values there were.
    counts: Vec<u64>,
    folded: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Of {
    Sum,
    Avg,
    Min,
    Max,
}

impl Fold {
    /// That of an aggregate over these rows.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) fn new(aggregate: &AggregateFunctionExpr, has_filter: bool, input: &SchemaRef) -> Result<Self> {
        let arguments = aggregate.expressions();
        let [argument] = &arguments[..] else { return Ok(Self::Rows(aggregate.create_groups_accumulator()?)) };
        let is_double = argument.data_type(input)? == DataType::Float64;
        let of = |of| Self::Doubles(Doubles { of, counts: Vec::new(), folded: Vec::new() });
        Ok(match aggregate.fun().name() {
            "count" if !has_filter => Self::Count(Vec::new()),
            "sum" if !has_filter && is_double => of(Of::Sum),
            "avg" if !has_filter && is_double => of(Of::Avg),
            "min" if !has_filter && is_double => of(Of::Min),
            "max" if !has_filter && is_double => of(Of::Max),
            _ => Self::Rows(aggregate.create_groups_accumulator()?),
        })
    }

    /// Adds a state for each run of these values.
    ///
    /// # Errors
    /// When a sum of numbers is infinite.
    pub(crate) fn add(&mut self, values: &ArrayRef, runs: &[Range<usize>]) -> Result<()> {
        match self {
            Self::Count(counts) => {
                let nulls = values.logical_nulls();
                counts.extend(runs.iter().map(|run| {
                    let missing = nulls.as_ref().map_or(0, |nulls| nulls.slice(run.start, run.len()).null_count());
                    (run.len() - missing) as i64
                }));
            }
            Self::Doubles(doubles) => doubles.add(values.as_primitive(), runs)?,
            Self::Rows(_) => {}
        }
        Ok(())
    }

    /// The states so far, as columns.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(match self {
            Self::Count(counts) => vec![Arc::new(Int64Array::from(mem::take(counts)))],
            Self::Doubles(doubles) => doubles.take(),
            Self::Rows(accumulator) => accumulator.state(EmitTo::All)?,
        })
    }

    /// Bytes of the states.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Count(counts) => counts.capacity() * size_of::<i64>(),
            Self::Doubles(Doubles { counts, folded, .. }) => {
                counts.capacity() * size_of::<u64>() + folded.capacity() * size_of::<f64>()
            }
            Self::Rows(accumulator) => accumulator.size(),
        }
    }
}

impl Doubles {
    fn add(&mut self, values: &Float64Array, runs: &[Range<usize>]) -> Result<()> {
        let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
        for run in runs {
            let slice = &values.values()[run.clone()];
            let (count, folded) = match nulls {
                None => (slice.len() as u64, self.of.folded(slice.iter().copied())),
                Some(nulls) => {
                    let there = || run.clone().filter(|row| nulls.is_valid(*row));
                    let folded = self.of.folded(there().map(|row| values.value(row)));
                    (there().count() as u64, folded)
                }
            };
            let is_sum = matches!(self.of, Of::Sum | Of::Avg);
            if is_sum && folded.is_infinite() && !run.clone().any(|row| values.value(row).is_infinite()) {
                return Err(floats::overflow());
            }
            self.counts.push(count);
            self.folded.push(folded);
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<ArrayRef> {
        let (counts, folded) = (mem::take(&mut self.counts), mem::take(&mut self.folded));
        // What had no value has no state.
        let some = |count: &u64| *count > 0;
        let folded = folded.into_iter().zip(&counts).map(|(folded, count)| some(count).then_some(folded));
        let folded: ArrayRef = Arc::new(folded.collect::<arrow::array::PrimitiveArray<Float64Type>>());
        match self.of {
            Of::Avg => {
                let counts = counts.into_iter().map(|count| Some(count).filter(some)).collect::<UInt64Array>();
                vec![Arc::new(counts), folded]
            }
            Of::Sum | Of::Min | Of::Max => vec![folded],
        }
    }
}

impl Of {
    /// Values as one; any number if there are none. NaN is greater than all others, as in PostgreSQL.
    fn folded(self, values: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Sum | Self::Avg => values.fold(0.0, |sum, value| sum + value),
            Self::Min => {
                let (least, all_nan) = values.fold((f64::INFINITY, true), |(least, all_nan), value| {
                    (if value < least { value } else { least }, all_nan && value.is_nan())
                });
                if all_nan { f64::NAN } else { least }
            }
            Self::Max => {
                let (greatest, nan) = values.fold((f64::NEG_INFINITY, false), |(greatest, nan), value| {
                    (if value > greatest { value } else { greatest }, nan || value.is_nan())
                });
                if nan { f64::NAN } else { greatest }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of these runs of doubles.
    fn states(of: Of, runs: &[&[Option<f64>]]) -> Vec<ArrayRef> {
        tried(of, runs).unwrap()
    }

    fn tried(of: Of, runs: &[&[Option<f64>]]) -> Result<Vec<ArrayRef>> {
        let values: ArrayRef = Arc::new(runs.concat().into_iter().collect::<Float64Array>());
        let ends = runs.iter().scan(0, |end, run| {
            *end += run.len();
            Some(*end - run.len()..*end)
        });
        let mut fold = Fold::Doubles(Doubles { of, counts: Vec::new(), folded: Vec::new() });
        fold.add(&values, &ends.collect::<Vec<_>>())?;
        fold.take()
    }

    /// What stands in a column of doubles; NaN as text, which equals itself.
    fn shown(state: &ArrayRef) -> Vec<String> {
        state.as_primitive::<Float64Type>().iter().map(|value| format!("{value:?}")).collect()
    }

    const NAN: Option<f64> = Some(f64::NAN);

    #[test]
    fn nan_is_the_greatest_number_and_the_least_where_there_is_no_other() {
        let infinite = Some(f64::INFINITY);
        let runs: [&[_]; 5] = [&[NAN, NAN], &[NAN, None], &[Some(1.0), NAN, Some(2.0)], &[NAN, infinite], &[infinite]];
        assert_eq!(
            shown(&states(Of::Min, &runs)[0]),
            ["Some(NaN)", "Some(NaN)", "Some(1.0)", "Some(inf)", "Some(inf)"]
        );
        assert_eq!(
            shown(&states(Of::Max, &runs)[0]),
            ["Some(NaN)", "Some(NaN)", "Some(NaN)", "Some(NaN)", "Some(inf)"]
        );
    }

    /// As of DataFusion's accumulators: neither a sum nor a count is 0 of no values.
    #[test]
    fn a_run_without_values_has_no_state() {
        let runs: [&[_]; 3] = [&[None, None], &[Some(1.0), None, Some(2.0)], &[None]];
        for of in [Of::Sum, Of::Avg, Of::Min, Of::Max] {
            let states = states(of, &runs);
            for state in &states {
                assert_eq!([0, 1, 2].map(|run| state.is_null(run)), [true, false, true]);
            }
            if matches!(of, Of::Avg) {
                assert_eq!(states[0].as_primitive::<arrow::datatypes::UInt64Type>().value(1), 2);
                assert_eq!(shown(&states[1])[1], "Some(3.0)");
            }
        }
    }

    #[test]
    fn a_sum_of_numbers_is_not_infinite() {
        let (much, infinite) = (Some(1e308), Some(f64::INFINITY));
        for of in [Of::Sum, Of::Avg] {
            assert!(tried(of, &[&[much], &[much, None, much]]).is_err());
            assert_eq!(shown(states(of, &[&[much, much, infinite], &[None]]).last().unwrap()), ["Some(inf)", "None"]);
        }
        assert_eq!(shown(&states(Of::Min, &[&[None, None], &[infinite]])[0]), ["None", "Some(inf)"]);
    }
}
