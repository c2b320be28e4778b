//! The parameters of a read.

use crate::{Error, FamilyName, Filter, Pin, Result, RowSet, TableSchema, TimestampRange, model::limits};
use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The columns of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All of them.
    All,
    /// Whole families and single columns; sorted by family, each family at most once.
    Of(Vec<FamilyColumns>),
}

/// The selected columns of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyColumns {
    /// The family.
    pub family: FamilyName,
    /// Sorted; `None` for all columns of the family.
    pub qualifiers: Option<Vec<Bytes>>,
}

impl Columns {
    /// Whether the column is selected.
    pub fn contains(&self, family: &FamilyName, qualifier: &Bytes) -> bool {
        match self {
            Self::All => true,
            Self::Of(wanted) => wanted.binary_search_by(|of| of.family.cmp(family)).is_ok_and(|at| {
                wanted[at].qualifiers.as_ref().is_none_or(|qualifiers| qualifiers.binary_search(qualifier).is_ok())
            }),
        }
    }
}

/// A read of rows, in key order.
///
/// A row is returned if at least one of its live cells passes columns, timestamps, versions and filter; with
/// [`keep_empty`](Self::keep_empty), if it has any live cell at all.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The rows.
    pub rows: RowSet,
    /// The columns.
    pub columns: Columns,
    /// The timestamps of the cells.
    pub timestamps: TimestampRange,
    /// Maximum cells of each column, newest first, counted after [`timestamps`](Self::timestamps); `None` for all.
    pub versions_max: Option<u32>,
    /// Applied last.
    pub filter: Option<Filter>,
    /// Whether a live row without selected cells is returned without cells.
    pub keep_empty: bool,
    /// Maximum number of rows; `None` for all.
    pub rows_max: Option<u64>,
    /// Whether keys descend.
    pub reversed: bool,
    /// The state to read; `None` for the newest.
    pub pin: Option<Pin>,
    /// Rows as of the last commit with this stamp or an earlier one, in microseconds, without cells that were condemned
    /// by then; `None` for the current rows. The table must keep [`History`](crate::History) that reaches that far back
    /// from the state that is read. Families and their rules are those of that state.
    pub as_of: Option<i64>,
    /// Whether a commit may rely on these rows, those that are absent as well. A store without snapshots remembers at
    /// the [`pin`](Self::pin) in what state they were; others ignore it.
    pub relied: bool,
    /// Counters that the read adds to.
    pub metrics: Option<Arc<ScanMetrics>>,
}

impl Scan {
    /// Everything of every row, ascending.
    pub fn all() -> Self {
        Self {
            rows: RowSet::all(),
            columns: Columns::All,
            timestamps: TimestampRange::all(),
            versions_max: None,
            filter: None,
            keep_empty: false,
            rows_max: None,
            reversed: false,
            pin: None,
            as_of: None,
            relied: false,
            metrics: None,
        }
    }

    /// Everything of the given rows.
    pub fn of(rows: impl Into<RowSet>) -> Self {
        Self { rows: rows.into(), ..Self::all() }
    }

    /// Checks the scan before it begins.
    ///
    /// # Errors
    /// [`Error::Invalid`] for columns out of order, and errors of [`Filter::check`].
    pub fn check(&self) -> Result<()> {
        if let Columns::Of(wanted) = &self.columns {
            let sorted = wanted.is_sorted_by(|a, b| a.family < b.family)
                && wanted.iter().all(|of| of.qualifiers.as_ref().is_none_or(|q| q.is_sorted_by(|a, b| a < b)));
            if !sorted || wanted.len() > limits::FAMILIES_MAX {
                return Err(Error::Invalid("the wanted columns are not sorted, or too many".into()));
            }
        }
        self.filter.as_ref().map_or(Ok(()), Filter::check)
    }

    /// The time at which the scan evaluates GC rules: [`as_of`](Self::as_of), or the time of the state that it reads.
    ///
    /// # Errors
    /// [`Error::NoHistory`], [`Error::TooOld`], [`Error::Future`].
    pub fn gc_micros(&self, schema: &TableSchema, now_micros: i64) -> Result<i64> {
        let Some(as_of) = self.as_of else { return Ok(now_micros) };
        let oldest_micros = schema.history.as_ref().ok_or(Error::NoHistory)?.oldest_micros(now_micros);
        if as_of > now_micros {
            return Err(Error::Future);
        }
        if as_of < oldest_micros {
            return Err(Error::TooOld { oldest_micros });
        }
        Ok(as_of)
    }
}

/// Counters of one scan: what it examined, and what it returned.
#[derive(Debug, Default)]
pub struct ScanMetrics {
    /// Rows examined.
    pub rows_seen: AtomicU64,
    /// Cells examined.
    pub cells_seen: AtomicU64,
    /// Rows returned.
    pub rows_returned: AtomicU64,
    /// Cells returned.
    pub cells_returned: AtomicU64,
    /// Bytes of the keys and cells examined.
    pub bytes_seen: AtomicU64,
}

impl ScanMetrics {
    /// Adds the counts of one row.
    pub fn add(&self, seen: (u64, u64), bytes_seen: u64, returned: (u64, u64)) {
        for (counter, by) in [
            (&self.rows_seen, seen.0),
            (&self.cells_seen, seen.1),
            (&self.bytes_seen, bytes_seen),
            (&self.rows_returned, returned.0),
            (&self.cells_returned, returned.1),
        ] {
            counter.fetch_add(by, Ordering::Relaxed);
        }
    }
}
