//! What a read asks for.

use crate::{Error, FamilyName, Filter, Pin, Result, RowSet, TableSchema, TimestampRange, model::limits};
use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The columns that a read wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All of them.
    All,
    /// Whole families and single columns; sorted by family, each family at most once.
    Of(Vec<FamilyColumns>),
}

/// The columns wanted of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyColumns {
    /// The family.
    pub family: FamilyName,
    /// Sorted; `None` for all columns of the family.
    pub qualifiers: Option<Vec<Bytes>>,
}

impl Columns {
    /// Whether the column is wanted.
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
/// A row is given when, of the cells that GC rules leave it, at least one passes columns, timestamps, versions and filter; with
/// [`keep_empty`](Self::keep_empty) when it has any living cell at all.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Which rows.
    pub rows: RowSet,
    /// Which columns.
    pub columns: Columns,
    /// Which cells by timestamp.
    pub timestamps: TimestampRange,
    /// How many of the newest cells of each column, counted after [`timestamps`](Self::timestamps); `None` for all.
    pub versions_max: Option<u32>,
    /// Applied last.
    pub filter: Option<Filter>,
    /// Whether a living row of which no cell was chosen is given without cells.
    pub keep_empty: bool,
    /// How many rows at most; `None` for all.
    pub rows_max: Option<u64>,
    /// Whether keys descend.
    pub reversed: bool,
    /// The state to read; `None` for the newest.
    pub pin: Option<Pin>,
    /// Rows as they were after the last commit with this stamp or an earlier one, in microseconds, without what rules had condemned by
    /// then; `None` for as they are. The table must keep [`History`](crate::History) that reaches so far back from the state that is
    /// read. Families and their rules are those of that state.
    pub as_of: Option<i64>,
    /// Counts what the read sees and gives, for whoever asks.
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
            metrics: None,
        }
    }

    /// Everything of the given rows.
    pub fn of(rows: impl Into<RowSet>) -> Self {
        Self { rows: rows.into(), ..Self::all() }
    }

    /// Checks what the store would otherwise find half-way.
    ///
    /// # Errors
    /// [`Error::Invalid`] for columns out of order, and what [`Filter::check`] finds.
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

    /// The time by which the scan judges what is condemned: [`as_of`](Self::as_of), or the time of the state that it reads.
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

/// Counts of what one scan saw in the store, and of what it gave.
#[derive(Debug, Default)]
pub struct ScanMetrics {
    /// Rows looked at.
    pub rows_seen: AtomicU64,
    /// Cells looked at.
    pub cells_seen: AtomicU64,
    /// Rows given.
    pub rows_returned: AtomicU64,
    /// Cells given.
    pub cells_returned: AtomicU64,
    /// Bytes of the keys and cells looked at.
    pub bytes_seen: AtomicU64,
}

impl ScanMetrics {
    /// Adds what one row contributed.
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
