//! The time of a statement, as functions of time read it from DataFusion's configuration.

use datafusion::{common::exec_err, config::ConfigOptions, error::Result};
use keyspan_storage::Clock;
use std::sync::Arc;

/// When a statement and its transaction began, and the clock that goes on meanwhile. Nothing of it can be set by name.
#[derive(Clone, Debug)]
pub struct StatementTime {
    /// When the statement began, in microseconds since 1970: `statement_timestamp()`.
    pub now_micros: i64,
    /// When its transaction began: `now()`.
    pub transaction_micros: i64,
    /// The wall clock: `clock_timestamp()`, `pg_sleep_until()`. Without a server, in tests, time stands still.
    pub clock: Option<Arc<dyn Clock>>,
}

impl StatementTime {
    /// The time that a statement's configuration carries.
    ///
    /// # Errors
    /// Internal: the configuration was not made for a statement.
    pub fn within(options: &ConfigOptions) -> Result<&Self> {
        match options.extensions.get::<Self>() {
            Some(time) => Ok(time),
            None => exec_err!("this function needs a session"),
        }
    }

    /// The wall clock's time, in microseconds since 1970.
    pub fn clock_micros(&self) -> i64 {
        self.clock.as_ref().map_or(self.now_micros, |clock| clock.now_micros())
    }
}

crate::extension::carried!(StatementTime, "keyspan_time");
