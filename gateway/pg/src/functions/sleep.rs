//! `pg_sleep()`, `pg_sleep_for()`, `pg_sleep_until()`: wait, for each row, without holding a thread; a statement that
//! waits is cancelled and timed out as any other.

use crate::{numeric, statement_time::StatementTime, types};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Field, FieldRef, Float64Type, IntervalMonthDayNanoType, IntervalUnit, TimestampMicrosecondType,
    },
};
use async_trait::async_trait;
use chrono::{DateTime, Months, TimeDelta};
use datafusion::{
    common::Result,
    error::DataFusionError,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl},
    },
    scalar::ScalarValue,
};
use std::{sync::Arc, time::Duration};

/// The argument of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Until {
    /// Seconds.
    Seconds,
    /// An interval.
    Interval,
    /// The timestamp at which it ends.
    Moment,
}

/// The functions.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    [Until::Seconds, Until::Interval, Until::Moment].into_iter().map(|until| {
        let signature = match until {
            Until::Seconds => Signature::any(1, Volatility::Volatile),
            _ => Signature::exact(vec![until.argument()], Volatility::Volatile),
        };
        Arc::new(AsyncScalarUDF::new(Arc::new(Sleep { until, signature })).into_scalar_udf())
    })
}

impl Until {
    fn name(self) -> &'static str {
        match self {
            Self::Seconds => "pg_sleep",
            Self::Interval => "pg_sleep_for",
            Self::Moment => "pg_sleep_until",
        }
    }

    fn argument(self) -> DataType {
        match self {
            Self::Seconds => DataType::Float64,
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Moment => types::timestamptz(),
        }
    }

    /// How long to wait from `now` on: zero for a negative time, and for ever beyond what clocks count.
    fn time(self, values: &ArrayRef, row: usize, now_micros: i64) -> Duration {
        match self {
            Self::Seconds => {
                let seconds = values.as_primitive::<Float64Type>().value(row);
                if seconds > 0.0 {
                    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
                } else {
                    Duration::ZERO
                }
            }
            Self::Interval => {
                let span = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let months = Months::new(span.months.unsigned_abs());
                let now = DateTime::from_timestamp_micros(now_micros);
                let then = now.and_then(|now| match span.months {
                    0.. => now.checked_add_months(months),
                    _ => now.checked_sub_months(months),
                });
                let days = TimeDelta::try_days(span.days.into()).unwrap_or_default();
                let then = then.and_then(|then| then.checked_add_signed(days));
                let then = then.and_then(|then| then.checked_add_signed(TimeDelta::nanoseconds(span.nanoseconds)));
                match (now, then) {
                    (Some(now), Some(then)) => (then - now).to_std().unwrap_or_default(),
                    _ => Duration::MAX,
                }
            }
            Self::Moment => {
                let left = values.as_primitive::<TimestampMicrosecondType>().value(row).saturating_sub(now_micros);
                Duration::from_micros(u64::try_from(left).unwrap_or(0))
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    until: Until,
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        self.until.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        // Seconds are numbers of any form.
        let data = arguments.arg_fields[0].data_type();
        if self.until == Until::Seconds && !numeric::is_number(data) && !types::is_text(data) && !data.is_null() {
            return Err(DataFusionError::External(Box::new(super::values::undefined(
                self.name(),
                std::slice::from_ref(data),
            ))));
        }
        Ok(Arc::new(types::named(Field::new(self.name(), DataType::Utf8View, true), "void")))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let message = format!("{} outside of a select list or a condition in WHERE", self.name());
        Err(DataFusionError::NotImplemented(message))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let time = StatementTime::within(&args.config_options)?.clone();
        let Some(values) = args.args.into_iter().next() else {
            return Err(DataFusionError::Internal(format!("{} without its argument", self.name())));
        };
        let values = values.into_array(rows)?;
        let values = if self.until == Until::Seconds { numeric::cast::floats(&values)? } else { values };
        let mut slept = Vec::with_capacity(rows);
        for row in 0..rows {
            if values.is_null(row) {
                slept.push(ScalarValue::Utf8View(None));
                continue;
            }
            tokio::time::sleep(self.until.time(&values, row, time.clock_micros())).await;
            slept.push(ScalarValue::Utf8View(Some(String::new())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(slept)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{
        array::{Float64Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray},
        datatypes::IntervalMonthDayNano,
    };

    /// From 2021-02-01 on.
    const NOW: i64 = 1_612_137_600_000_000;

    #[test]
    fn a_wait_is_as_long_as_is_said() {
        let seconds: ArrayRef = Arc::new(Float64Array::from(vec![1.5, -1.0, f64::INFINITY, f64::NAN]));
        let of = |row| Until::Seconds.time(&seconds, row, NOW);
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [Duration::from_millis(1500), Duration::ZERO, Duration::MAX, Duration::ZERO]
        );
        let span = |months, days, nanos| IntervalMonthDayNano::new(months, days, nanos);
        let spans = vec![span(1, 2, 3_000_000_000), span(0, -1, 0), span(-1, 40, 0), span(i32::MAX, 0, 0)];
        let spans: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from(spans));
        let of = |row| Until::Interval.time(&spans, row, NOW);
        let day = Duration::from_secs(86_400);
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [30 * day + Duration::from_secs(3), Duration::ZERO, 9 * day, Duration::MAX]
        );
        let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![NOW + 5, NOW - 5, i64::MIN]));
        let of = |row| Until::Moment.time(&moments, row, NOW);
        assert_eq!([of(0), of(1), of(2)], [Duration::from_micros(5), Duration::ZERO, Duration::ZERO]);
    }
}
