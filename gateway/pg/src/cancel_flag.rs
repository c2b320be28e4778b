//! Whether anybody still waits for the rows of a query: what computes for long between two reads looks here.

use crate::error::{SqlError, SqlState};
use datafusion::{
    config::ConfigOptions,
    error::{DataFusionError, Result},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that is set once nobody waits for rows any more. A statement's configuration carries one, for functions that
/// are called row by row. Nothing of it can be set by name.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// The flag of a configuration, if it has one.
    pub fn within(options: &ConfigOptions) -> Option<&Self> {
        options.extensions.get::<Self>()
    }

    /// Sets it.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Fails once it is set.
    ///
    /// # Errors
    /// 57014, which nobody reads.
    pub fn check(&self) -> Result<()> {
        if !self.0.load(Ordering::Relaxed) {
            return Ok(());
        }
        let error = SqlError::new(SqlState::QUERY_CANCELED, "nobody waits for the rows of this query");
        Err(DataFusionError::External(Box::new(error)))
    }
}

crate::extension::carried!(CancelFlag, "keyspan_cancel");
