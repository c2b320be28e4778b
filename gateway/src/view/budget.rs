//! The tenant's scan budget: how many bytes one statement may read from the store.
//!
//! All that a statement scans is counted: rows by the bytes that the store looked at, row groups by the bytes of their
//! pages, rows in memory and in row groups that other tenants have rows in by their values. A statement that exceeds
//! the budget fails with 53400. If it is certain to read more row groups than the budget allows, it fails before it
//! reads the first ([`check`](ScanBudget::check)).

use crate::{
    heat::Heat,
    pg::error::{SqlError, SqlState},
    resources::Size,
    shares::{Share, work::TableWork},
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The budget of one statement, and where what it reads is counted.
#[derive(Debug)]
pub struct ScanBudget {
    /// `None` without a bound.
    bytes_max: Option<u64>,
    bytes: AtomicU64,
    share: Arc<Share>,
    /// Where keys are counted; `None` for nowhere.
    heat: Option<Arc<Heat>>,
}

impl ScanBudget {
    /// A budget of `bytes_max`, all of it left, of a tenant's statement.
    pub fn new(bytes_max: Option<u64>, share: Arc<Share>) -> Self {
        Self { bytes_max, bytes: AtomicU64::new(0), share, heat: None }
    }

    /// The same, which counts keys too.
    pub(crate) fn with_heat(self, heat: Arc<Heat>) -> Self {
        Self { heat: Some(heat), ..self }
    }

    /// Where keys are counted.
    pub(crate) fn heat(&self) -> Option<&Arc<Heat>> {
        self.heat.as_ref()
    }

    /// Whether there is a bound.
    pub fn is_bounded(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// What is counted of a table, given by its number.
    pub(crate) fn table(&self, id: u32) -> Arc<TableWork> {
        self.share.work.table(id)
    }

    /// Counts rows and bytes that were read.
    ///
    /// # Errors
    /// 53400 when the budget is exceeded, with the hint, or the tenant's rate.
    pub fn charge(&self, rows: u64, bytes: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let used = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.share.count_read(rows, bytes)?;
        match self.bytes_max.filter(|most| used > *most) {
            Some(most) => self.refuse(most, hint),
            None => Ok(()),
        }
    }

    /// Counts rows and bytes that no budget bounds: those that a write looks up.
    pub(crate) fn count(&self, rows: u64, bytes: u64) {
        // A rate that is exceeded refuses the next statement.
        let _ = self.share.count_read(rows, bytes);
    }

    /// Counts rows that a scan of row groups gives; their bytes are counted as they are read.
    pub(crate) fn count_rows(&self, rows: usize) {
        self.count(rows as u64, 0);
    }

    /// Checks that `bytes` could be read, without counting them.
    ///
    /// # Errors
    /// 53400 when they exceed what is left, with the hint.
    pub fn check(&self, bytes: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let Some(most) = self.bytes_max else { return Ok(()) };
        let left = most.saturating_sub(self.bytes.load(Ordering::Relaxed));
        if bytes > left { self.refuse(most, hint) } else { Ok(()) }
    }

    fn refuse(&self, most: u64, hint: Option<&str>) -> Result<(), SqlError> {
        let quotas = self.share.quotas();
        self.share.refuse(&quotas, || Self::exceeded(most, hint))
    }

    fn exceeded(bytes_max: u64, hint: Option<&str>) -> SqlError {
        let message = "the statement reads more than the database's scan budget";
        let error = SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
            .with_detail(format!("A statement may read {}.", Size(bytes_max)));
        error.with_hint(hint.unwrap_or("Conditions on the first parts of the key make a query read less."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Shares;

    #[test]
    fn reads_are_charged_to_the_budget() {
        let budget = ScanBudget::new(Some(100), Shares::default().of(Some(1)));
        assert!(budget.check(100, None).is_ok() && budget.check(101, None).is_err());
        assert!(budget.charge(1, 60, None).is_ok());
        assert!(budget.check(40, None).is_ok() && budget.check(41, None).is_err());
        assert!(budget.charge(1, 40, None).is_ok());
        let error = budget.charge(1, 1, Some("Look.")).unwrap_err();
        assert_eq!((error.state.0, error.hint.as_deref()), ("53400", Some("Look.")));
        assert!(budget.charge(1, u64::MAX, None).is_err());
    }
}
