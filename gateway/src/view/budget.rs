//! What a statement may read of the store: the tenant's scan budget.
//!
//! Everything that a statement reads in scans is counted, whichever way it is read: rows by what the store looked at, row groups by the
//! bytes of their pages, rows in memory by their values. When it is more than the budget, the statement ends with 53400. A statement
//! whose row groups alone are more, and that reads all of them, ends before it reads any ([`check`](ScanBudget::check)).

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
    /// A budget of which nothing is used.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: AtomicU64::new(0) }
    }

    /// Takes bytes that were read.
    ///
    /// # Errors
    /// 53400 when that is more than there were, with the hint.
    pub fn take(&self, bytes: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let used = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.bytes_max { Err(self.exceeded(hint)) } else { Ok(()) }
    }

    /// Holds bytes that are going to be read against the budget, without taking them.
    ///
    /// # Errors
    /// 53400 when they are more than there are, with the hint.
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
    fn what_is_read_is_taken_of_the_budget() {
        let budget = ScanBudget::new(100);
        assert!(budget.check(100, None).is_ok() && budget.check(101, None).is_err());
        assert!(budget.take(60, None).is_ok());
        assert!(budget.check(40, None).is_ok() && budget.check(41, None).is_err());
        assert!(budget.take(40, None).is_ok());
        let error = budget.take(1, Some("Look.")).unwrap_err();
        assert_eq!((error.state.0, error.hint.as_deref()), ("53400", Some("Look.")));
        assert!(budget.take(u64::MAX, None).is_err());
    }
}
