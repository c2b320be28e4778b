//! Functions of notifications: `pg_notify()`, `pg_listening_channels()`, `pg_notification_queue_usage()`.

use crate::{
    notifications::Notification,
    pg::functions::{RowFunction, scalar_function::text_list, text, text_of},
    pg_catalog::row_function::row_function,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{error::DataFusionError, logical_expr::Volatility, scalar::ScalarValue};
use std::sync::Arc;

/// The functions; that which gives rows as a list.
pub(super) fn functions() -> [RowFunction; 3] {
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
    [
        row_function("pg_notify", 2..=2, DataType::Utf8View, |values, statement| {
            let told = |at: usize| text_of(&values[at]).unwrap_or_default();
            let pending = || statement.pending.lock();
            Notification::new(statement.process_id, &told(0), &told(1))
                .and_then(|notification| pending().tell(notification))
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(text(""))
        })
        .with_volatility(Volatility::Volatile)
        .returning("void"),
        row_function("listening_channels", 0..=0, list, |_, statement| {
            Ok(text_list(statement.ear.channels().into_iter().map(Some)))
        }),
        row_function("pg_notification_queue_usage", 0..=0, DataType::Float64, |_, statement| {
            Ok(ScalarValue::Float64(Some(statement.ear.usage())))
        })
        .with_volatility(Volatility::Volatile),
    ]
}
