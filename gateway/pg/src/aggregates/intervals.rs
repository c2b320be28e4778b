//! `sum` and `avg` of intervals: months, days and time by themselves, as PostgreSQL adds them. DataFusion has no
//! average of intervals, and its sum counts time in nanoseconds, which turn over after 292 years.
//!
//! `min` and `max` of intervals in windows, by their lengths ([`Extreme`]); of groups, `plan::order_keys` has them.

use crate::functions::times::Span;
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        Time64MicrosecondType,
    },
};
use datafusion::{common::exec_datafusion_err, error::Result, logical_expr::Accumulator, scalar::ScalarValue};
use keyspan_catalog::value::interval::Interval;
use std::{collections::BTreeMap, sync::Arc};

/// The type of a sum of microseconds.
const MICROS: DataType = DataType::Decimal128(38, 0);

/// A sum of intervals.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    averages: bool,
    months: i64,
    days: i64,
    micros: i128,
    count: i64,
}

/// The state of a sum.
pub(crate) fn state(name: &str) -> Vec<FieldRef> {
    let parts =
        [("months", DataType::Int64), ("days", DataType::Int64), ("micros", MICROS), ("count", DataType::Int64)];
    parts.into_iter().map(|(part, data)| Arc::new(Field::new(format!("{name}[{part}]"), data, true))).collect()
}

impl Intervals {
    pub(crate) fn new(averages: bool) -> Self {
        Self { averages, ..Self::default() }
    }

    /// Adds intervals, or takes them away again.
    fn add(&mut self, values: &[ArrayRef], sign: i64) -> Result<()> {
        let [values] = values else { return Err(exec_datafusion_err!("a sum of intervals has one argument")) };
        if values.data_type().is_null() {
            return Ok(());
        }
        if let Some(times) = values.as_primitive_opt::<Time64MicrosecondType>() {
            for time in times.iter().flatten() {
                self.micros += i128::from(sign) * i128::from(time);
                self.count += sign;
            }
            return Ok(());
        }
        let spans = values.as_primitive_opt::<IntervalMonthDayNanoType>();
        let spans = spans.ok_or_else(|| exec_datafusion_err!("a sum of intervals is given {}", values.data_type()))?;
        for IntervalMonthDayNano { months, days, nanoseconds } in spans.iter().flatten() {
            self.months += sign * i64::from(months);
            self.days += sign * i64::from(days);
            self.micros += i128::from(sign) * i128::from(nanoseconds / 1_000);
            self.count += sign;
        }
        Ok(())
    }
}

/// The intervals of an argument.
fn spans(values: &[ArrayRef]) -> Result<impl Iterator<Item = IntervalMonthDayNano> + '_> {
    let spans = values.first().and_then(|values| values.as_primitive_opt::<IntervalMonthDayNanoType>());
    let spans = spans.ok_or_else(|| exec_datafusion_err!("an extreme of intervals is given something else"))?;
    Ok(spans.iter().flatten())
}

/// An interval's place among others: its length in microseconds, then its parts.
type Place = (i128, IntervalMonthDayNano);

fn place(span: IntervalMonthDayNano) -> Place {
    let IntervalMonthDayNano { months, days, nanoseconds } = span;
    (Interval { months, days, micros: nanoseconds / 1_000 }.length(), span)
}

/// The shortest or the longest interval of a window's frame, where `1 mon` is as long as `30 days`.
#[derive(Debug)]
pub(crate) struct Extreme {
    is_max: bool,
    /// Whether rows leave the frame: else the extreme alone is kept.
    slides: bool,
    /// The different intervals of the frame, and how often each is there.
    frame: BTreeMap<Place, u64>,
}

impl Extreme {
    pub(crate) fn new(is_max: bool, slides: bool) -> Self {
        Self { is_max, slides, frame: BTreeMap::new() }
    }

    fn found(&self) -> Option<IntervalMonthDayNano> {
        let found = if self.is_max { self.frame.last_key_value() } else { self.frame.first_key_value() };
        found.map(|((_, span), _)| *span)
    }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for span in spans(values)? {
            *self.frame.entry(place(span)).or_default() += 1;
            if !self.slides && self.frame.len() > 1 {
                let _worse = if self.is_max { self.frame.pop_first() } else { self.frame.pop_last() };
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for span in spans(values)? {
            let place = place(span);
            match self.frame.get_mut(&place) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.frame.remove(&place)),
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.slides
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.found()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.len() * size_of::<(Place, u64)>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}

impl Accumulator for Intervals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        Span::sum(self.months, self.days, self.micros, if self.averages { self.count } else { 1 })
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Int64(Some(self.months)),
            ScalarValue::Int64(Some(self.days)),
            ScalarValue::Decimal128(Some(self.micros), 38, 0),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [months, days, micros, count] = states else {
            return Err(exec_datafusion_err!("a sum of intervals has four parts"));
        };
        let sum = |part: &ArrayRef| part.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        self.months += sum(months);
        self.days += sum(days);
        self.count += sum(count);
        self.micros += micros.as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}
