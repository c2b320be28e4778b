//! The tenant's scan budget: how many bytes one statement may read from the store.
//!
//! All that a statement scans is counted: rows by the bytes that the store looked at, row groups by the bytes of their
//! pages, rows in memory and in row groups that other tenants have rows in by their values. A statement that exceeds
//! the budget fails with 53400. If it is certain to read more row groups than the budget allows, it fails before it
//! reads the first ([`check`](ScanBudget::check)).

use crate::{
    pg::error::{SqlError, SqlState},
    resources::Size,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The budget of one statement.
#[derive(Debug)]
pub struct ScanBudget {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl ScanBudget {
    /// A budget of `bytes_max`, all of it left.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: AtomicU64::new(0) }
    }

    /// Counts bytes that were read.
    ///
    /// # Errors
    /// 53400 when the budget is exceeded, with the hint.
    pub fn charge(&self, bytes: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let used = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.bytes_max { Err(self.exceeded(hint)) } else { Ok(()) }
    }

    /// Checks that `bytes` could be read, without counting them.
    ///
    /// # Errors
    /// 53400 when they exceed what is left, with the hint.
    pub fn check(&self, bytes: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let left = self.bytes_max.saturating_sub(self.bytes.load(Ordering::Relaxed));
        if bytes > left { Err(self.exceeded(hint)) } else { Ok(()) }
    }

    fn exceeded(&self, hint: Option<&str>) -> SqlError {
        let message = "the statement reads more than the database's scan budget";
        let error = SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
            .with_detail(format!("A statement may read {}.", Size(self.bytes_max)));
        error.with_hint(hint.unwrap_or("Conditions on the first parts of the key make a query read less."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_charged_to_the_budget() {
        let budget = ScanBudget::new(100);
        assert!(budget.check(100, None).is_ok() && budget.check(101, None).is_err());
        assert!(budget.charge(60, None).is_ok());
        assert!(budget.check(40, None).is_ok() && budget.check(41, None).is_err());
        assert!(budget.charge(40, None).is_ok());
        let error = budget.charge(1, Some("Look.")).unwrap_err();
        assert_eq!((error.state.0, error.hint.as_deref()), ("53400", Some("Look.")));
        assert!(budget.charge(u64::MAX, None).is_err());
    }
}
