//! `sum` and `avg` of intervals: months, days and time by themselves, as PostgreSQL adds them. DataFusion has no
//! average of intervals, and its sum counts time in nanoseconds, which turn over after 292 years.

use crate::functions::times::Span;
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        Time64MicrosecondType,
    },
};
use datafusion::{common::exec_datafusion_err, error::Result, logical_expr::Accumulator, scalar::ScalarValue};
use std::sync::Arc;

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
