//! Scalar functions of PostgreSQL that DataFusion lacks or has otherwise: the statement's time, time zones, intervals,
//! uuids.
//!
//! Functions that know the session or the catalog are in the gateway's `pg_catalog::functions`.

use crate::{
    datetime::{Input, Style, Zone},
    error::{SqlError, SqlState},
    statement_time::StatementTime,
    types::{self, TIME, TIMESTAMP, UUID},
};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNano, IntervalUnit};
use datafusion::{
    config::ConfigOptions,
    error::{DataFusionError, Result},
    execution::{FunctionRegistry, SessionState},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
    scalar::ScalarValue,
};
use keyspan_catalog::value::{calendar::MICROS_PER_DAY, interval::Interval};
use std::{
    hash::Hash,
    sync::{Arc, LazyLock},
};

pub mod arrays;
pub(crate) mod bits;
pub mod bounded;
pub(crate) mod bytes;
mod date_bin;
mod date_trunc;
pub mod domains;
mod escapes;
pub(crate) mod float_errors;
pub mod formatting;
pub mod json;
pub mod lists;
mod normal_forms;
pub mod numbers;
pub mod numeric;
mod percentiles;
pub mod planned;
pub(crate) mod records;
pub(crate) mod same_type;
pub mod scalar_function;
mod series;
mod sleep;
pub mod spread;
pub(crate) mod strictness;
pub mod subscript_assignment;
pub mod texts;
pub mod times;
mod values;

pub use arrays::interval_micros;
pub use scalar_function::{RowFunction, row_function};
use scalar_function::{returns_integer, strict};
pub use values::{bool_of, int_of, shown_type, text, text_of, undefined};

/// Functions that are volatile to PostgreSQL and to us, those of sessions and sequences too. A test of the gateway
/// holds the list against the functions that a session has.
pub const VOLATILE: &[&str] = &[
    "currval",
    "gen_random_uuid",
    "has_table_privilege",
    "lastval",
    "nextval",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_blocking_pids",
    "pg_cancel_backend",
    "pg_database_size",
    "pg_indexes_size",
    "pg_notification_queue_usage",
    "pg_notify",
    "pg_relation_size",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_stat_clear_snapshot",
    "pg_stat_reset",
    "pg_stat_statements_reset",
    "pg_table_size",
    "pg_terminate_backend",
    "pg_total_relation_size",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "rand",
    "random",
    "set_config",
    "setval",
    "uuid",
    "uuid_generate_v4",
];

/// Registers the functions.
pub fn register(state: &mut SessionState) {
    let functions = [
        row_function("now", 0..=0, types::timestamptz(), |_, options| {
            Ok(stamp(StatementTime::within(options)?.transaction_micros, true))
        })
        .with_aliases(&["current_timestamp", "transaction_timestamp"]),
        row_function("statement_timestamp", 0..=0, types::timestamptz(), |_, options| {
            Ok(stamp(StatementTime::within(options)?.now_micros, true))
        }),
        // Once for a statement, so that it may be a default.
        row_function("clock_timestamp", 0..=0, types::timestamptz(), |_, options| {
            Ok(stamp(StatementTime::within(options)?.clock_micros(), true))
        }),
        row_function("localtimestamp", 0..=0, TIMESTAMP, |_, options| Ok(stamp(local_micros(options)?, false))),
        row_function("current_date", 0..=0, DataType::Date32, |_, options| {
            let days = local_micros(options)?.div_euclid(MICROS_PER_DAY);
            Ok(ScalarValue::Date32(i32::try_from(days).ok()))
        })
        .with_aliases(&["today"]),
        row_function("current_time", 0..=0, TIME, |_, options| {
            let micros = local_micros(options)?.rem_euclid(MICROS_PER_DAY);
            Ok(ScalarValue::Time64Microsecond(Some(micros)))
        })
        .with_aliases(&["localtime"]),
        row_function("gen_random_uuid", 0..=0, UUID, |_, _| {
            Ok(ScalarValue::FixedSizeBinary(16, Some(uuid::Uuid::new_v4().into_bytes().to_vec())))
        })
        .with_volatility(Volatility::Volatile)
        .with_aliases(&["uuid_generate_v4"])
        .returning("uuid"),
        strict("octet_length", 1..=1, returns_integer, |call| {
            let value = &call.values[0];
            // A `char(n)` is stored without the blanks at its end.
            let blanks = types::char_length(&call.fields[0]).map_or(0, |length| {
                let characters = text_of(value).map_or(0, |text| text.chars().count());
                i32::try_from(length).unwrap_or(i32::MAX).saturating_sub(i32::try_from(characters).unwrap_or(i32::MAX))
            });
            Ok(ScalarValue::Int32(octets(value).map(|octets| octets.saturating_add(blanks.max(0)))))
        }),
    ];
    let functions = functions.into_iter().map(|function| Arc::new(ScalarUDF::from(function)));
    replace(
        state,
        functions.chain([interval_micros(), span_between(), timezone(), records::record()]).chain(sleep::functions()),
    );
    replace(state, numbers::functions().chain(texts::functions()).chain(times::functions()));
    replace(state, formatting::functions().chain(lists::functions()).chain(json::functions()));
    replace(state, date_trunc::functions().chain(subscript_assignment::functions()));
    replace(state, percentiles::functions().chain(escapes::functions()).chain(bytes::functions()));
    replace(state, normal_forms::functions());
    let checked = float_errors::functions(state);
    replace(state, checked);
    let overloaded = numeric::functions(state);
    replace(state, overloaded);
    let bounded = bounded::functions(state);
    replace(state, bounded);
    let wrapped = same_type::functions(state);
    replace(state, wrapped);
    replace(state, [date_bin::function()]);
    let of_bits = bits::functions(state);
    replace(state, of_bits);
    let spread = spread::functions(state);
    replace(state, spread);
}

/// Registers functions; each replaces those that had one of its names. (DataFusion's own must go with all its aliases,
/// or a copy of the state would bring it back by one of them.)
pub fn replace(state: &mut SessionState, functions: impl IntoIterator<Item = Arc<ScalarUDF>>) {
    for function in functions {
        for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
            let removed = state.deregister_udf(name);
            debug_assert!(removed.is_ok(), "a session's state gives functions up");
        }
        let registered = state.register_udf(function);
        debug_assert!(registered.is_ok(), "a session's state takes functions");
    }
}

/// When the transaction began, in the session's zone.
fn local_micros(options: &ConfigOptions) -> Result<i64> {
    let micros = StatementTime::within(options)?.transaction_micros;
    Ok(Style::within(options).zone.to_local(micros).unwrap_or(micros))
}

fn stamp(micros: i64, zoned: bool) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(Some(micros), zoned.then(|| types::UTC.into()))
}

fn shared(cell: &'static LazyLock<Arc<ScalarUDF>>) -> Arc<ScalarUDF> {
    Arc::clone(cell)
}

/// The number of bytes of a `bytea` or a text; `None` for NULL.
fn octets(value: &ScalarValue) -> Option<i32> {
    let length = match value {
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref().map(Vec::len)
        }
        other => text_of(other).map(|text| text.len()),
    };
    length.and_then(|length| i32::try_from(length).ok())
}

/// The number of bytes of a `bytea`.
pub fn bytes_length() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let function = row_function("bytes_length", 1..=1, DataType::Int32, |values, _| {
            Ok(ScalarValue::Int32(octets(&values[0])))
        });
        Arc::new(ScalarUDF::from(function.with_volatility(Volatility::Immutable)))
    });
    shared(&FUNCTION)
}

/// The interval between two times in microseconds, as days and the rest.
pub fn span_between() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let returns = DataType::Interval(IntervalUnit::MonthDayNano);
        let function = row_function("span_between", 2..=2, returns, |values, _| {
            let (Some(end), Some(start)) = (int_of(&values[0]), int_of(&values[1])) else {
                return Ok(ScalarValue::IntervalMonthDayNano(None));
            };
            let infinite = |micros: i64| micros == i64::MAX || micros == i64::MIN;
            let micros = end.checked_sub(start).filter(|_| !infinite(end) && !infinite(start));
            let micros = micros.ok_or_else(|| {
                let message = "cannot subtract infinite timestamps";
                DataFusionError::External(Box::new(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)))
            })?;
            let days = i32::try_from(micros / MICROS_PER_DAY).unwrap_or(i32::MAX);
            let span = IntervalMonthDayNano::new(0, days, micros % MICROS_PER_DAY * 1_000);
            Ok(ScalarValue::IntervalMonthDayNano(Some(span)))
        });
        Arc::new(ScalarUDF::from(function.with_volatility(Volatility::Immutable)))
    });
    shared(&FUNCTION)
}

/// `timezone(zone, time)`, which is `time AT TIME ZONE zone`: a `timestamptz` as local time, a `timestamp` as UTC.
fn timezone() -> Arc<ScalarUDF> {
    let signature = Signature::new(TypeSignature::Any(2), Volatility::Immutable);
    Arc::new(ScalarUDF::from(AtTimeZone { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtTimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        "timezone"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match &arguments[1] {
            DataType::Timestamp(_, None) => Ok(types::timestamptz()),
            DataType::Timestamp(_, Some(_))
            | DataType::Date32
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::Null => Ok(TIMESTAMP),
            _ => Err(DataFusionError::External(Box::new(undefined("timezone", arguments)))),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let zones = arguments.args[0].clone().into_array(rows)?;
        let times = arguments.args[1].clone().into_array(rows)?;
        let plain = matches!(times.data_type(), DataType::Timestamp(_, None));
        let target = Field::new("", if plain { TIMESTAMP } else { types::timestamptz() }, true);
        let times = super::plan::casts::convert(&times, &target, Input::within(&arguments.config_options))?;
        let returns = arguments.return_type().clone();
        let mut results = Vec::with_capacity(rows);
        let mut known: Option<(ScalarValue, Zone)> = None;
        for row in 0..rows {
            let zone = ScalarValue::try_from_array(&zones, row)?;
            let time = ScalarValue::try_from_array(&times, row)?;
            let (false, ScalarValue::TimestampMicrosecond(Some(micros), _)) = (zone.is_null(), time) else {
                results.push(ScalarValue::try_from(&returns)?);
                continue;
            };
            let parsed = match &known {
                Some((name, parsed)) if *name == zone => parsed.clone(),
                _ => zone_of(&zone)?,
            };
            let moved = if plain { parsed.to_utc(micros) } else { parsed.to_local(micros) };
            known = Some((zone, parsed));
            results.push(stamp(moved.ok_or_else(timestamp_out_of_range)?, plain));
        }
        if constant && rows > 0 {
            return Ok(ColumnarValue::Scalar(results.swap_remove(0)));
        }
        if results.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(&returns)));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
    }
}

/// 22008 for a timestamp.
fn timestamp_out_of_range() -> DataFusionError {
    let error = SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    DataFusionError::External(Box::new(error))
}

/// The zone of `AT TIME ZONE`: its name or abbreviation, or an interval east of Greenwich.
///
/// # Errors
/// 22023.
fn zone_of(value: &ScalarValue) -> Result<Zone> {
    if let ScalarValue::IntervalMonthDayNano(Some(span)) = value {
        let zone = Zone::fixed(span.nanoseconds / 1_000_000_000).filter(|_| span.months == 0 && span.days == 0);
        return zone.ok_or_else(|| {
            let shown = Interval { months: span.months, days: span.days, micros: span.nanoseconds / 1_000 };
            let shown = keyspan_catalog::Value::Interval(shown).to_text(keyspan_catalog::SqlType::Interval(None));
            let message = format!("interval time zone \"{shown}\" must not include months or days");
            DataFusionError::External(Box::new(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        });
    }
    parse_zone(&text_of(value).unwrap_or_default())
}

fn parse_zone(zone: &str) -> Result<Zone> {
    Zone::of_expression(zone).ok_or_else(|| {
        let message = format!("time zone \"{zone}\" not recognized");
        DataFusionError::External(Box::new(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)))
    })
}
