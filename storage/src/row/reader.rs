//! The part of a row that a scan returns: one [`RowReader`] for each scan, one call for each row.

use super::live;
use crate::{
    Cell, Columns, FamilyName, Result, Row, RowKey, Scan, ScanMetrics, TableSchema, TimestampRange,
    filter::CompiledFilter, scan::FamilyColumns,
};
use bytes::Bytes;
use std::sync::Arc;

/// A scan's columns, timestamps, versions and filter, compiled once and applied to each row.
#[derive(Debug)]
pub struct RowReader {
    schema: TableSchema,
    columns: Columns,
    timestamps: TimestampRange,
    versions_max: Option<u32>,
    filter: Option<CompiledFilter>,
    keep_empty: bool,
    /// Whether the newest cell of each of `columns` is asked for, whatever its age, and no rule or filter can take it
    /// away: nothing but its place decides about a cell then.
    newest_of_columns: bool,
    metrics: Option<Arc<ScanMetrics>>,
    now_micros: i64,
}

impl RowReader {
    /// Checks and compiles a scan of a state at the time `now_micros`. Rules are evaluated at that time, or at that of
    /// [`as_of`](Scan::as_of): the caller passes the rows as of then.
    ///
    /// # Errors
    /// Errors of [`Scan::check`] and [`Scan::gc_micros`].
    pub fn new(schema: &TableSchema, scan: &Scan, now_micros: i64) -> Result<Self> {
        scan.check()?;
        let now_micros = scan.gc_micros(schema, now_micros)?;
        let newest = scan.versions_max == Some(1) && scan.timestamps == TimestampRange::all() && scan.filter.is_none();
        let named = match &scan.columns {
            Columns::All => false,
            Columns::Of(columns) => columns.iter().all(|of| of.qualifiers.is_some()),
        };
        Ok(Self {
            newest_of_columns: newest && named && schema.families.keys().all(|name| always_lives(schema, name)),
            schema: schema.clone(),
            columns: scan.columns.clone(),
            timestamps: scan.timestamps,
            versions_max: scan.versions_max,
            filter: scan.filter.as_ref().map(CompiledFilter::new).transpose()?,
            keep_empty: scan.keep_empty,
            metrics: scan.metrics.clone(),
            now_micros,
        })
    }

    /// Whether the cells of a column can matter to [`read`](Self::read). A backend may leave out the cells of other
    /// columns; columns must be complete, so that versions are counted correctly.
    pub fn wants(&self, family: &FamilyName, qualifier: &[u8]) -> bool {
        // Any live cell makes the row exist, in a selected column or not.
        self.schema.families.contains_key(family) && (self.keep_empty || self.chooses(family, qualifier))
    }

    /// Whether the newest cell of a column of this family is live at any time. With [`keep_empty`](Scan::keep_empty) a
    /// backend may leave out the unselected cells of a row once it has kept one such cell.
    pub fn newest_always_lives(&self, family: &FamilyName) -> bool {
        always_lives(&self.schema, family)
    }

    /// The scan's result for a row with these cells, in [order](Cell::order); `None` if the row is not returned.
    pub fn read(&self, key: RowKey, cells: Vec<Cell>) -> Option<Row> {
        let Some(metrics) = &self.metrics else { return self.choose(key, cells) };
        let seen = (cells.len() as u64, (key.len() + cells.iter().map(Cell::size).sum::<usize>()) as u64);
        let row = self.choose(key, cells);
        let returned = row.as_ref().map_or((0, 0), |row| (1, row.cells.len() as u64));
        metrics.add((1, seen.0), seen.1, returned);
        row
    }

    fn choose(&self, key: RowKey, cells: Vec<Cell>) -> Option<Row> {
        if self.newest_of_columns
            && let Columns::Of(wanted) = &self.columns
        {
            return self.choose_newest(key, cells, wanted);
        }
        let mut cells = live(&self.schema, cells, self.now_micros);
        if cells.is_empty() {
            return None;
        }
        if let Columns::Of(wanted) = &self.columns {
            let mut walk = Walk { wanted, family: None, qualifiers: None };
            cells.retain(|cell| walk.chooses(&cell.family, &cell.qualifier));
        }
        cells.retain(|cell| self.timestamps.contains(cell.timestamp));
        if let Some(versions) = self.versions_max {
            cells = newest(cells, versions as usize);
        }
        if let Some(filter) = &self.filter {
            cells = filter.apply(&key, cells);
        }
        (self.keep_empty || !cells.is_empty()).then_some(Row { key, cells })
    }

    /// As [`choose`](Self::choose) where the newest cells of columns always live: in one walk.
    fn choose_newest(&self, key: RowKey, mut cells: Vec<Cell>, wanted: &[FamilyColumns]) -> Option<Row> {
        let (mut exists, mut is_known) = (false, false);
        let mut walk = Walk { wanted, family: None, qualifiers: None };
        cells.retain(|cell| {
            if !walk.is_in(&cell.family) {
                is_known = self.schema.families.contains_key(&cell.family);
                exists |= is_known;
            }
            let chosen = walk.chooses(&cell.family, &cell.qualifier) && is_known;
            if chosen {
                walk.pass_column();
            }
            chosen
        });
        (exists && (self.keep_empty || !cells.is_empty())).then_some(Row { key, cells })
    }

    fn chooses(&self, family: &FamilyName, qualifier: &[u8]) -> bool {
        match &self.columns {
            Columns::All => true,
            Columns::Of(wanted) => wanted.binary_search_by(|of| of.family.cmp(family)).is_ok_and(|at| {
                let qualifiers = wanted[at].qualifiers.as_ref();
                qualifiers.is_none_or(|all| all.binary_search_by(|one| one.as_ref().cmp(qualifier)).is_ok())
            }),
        }
    }
}

/// Whether the newest cell of each column of a family is live at any time.
fn always_lives(schema: &TableSchema, family: &FamilyName) -> bool {
    schema.erased_in(family).is_none()
        && schema.families.get(family).is_some_and(|family| !family.gc.condemns(0, i64::MIN, i64::MAX))
}

/// Chooses the cells of one row, which come in the order in which columns are wanted: most are of the column of the
/// cell before, or of the next that is wanted.
struct Walk<'a> {
    wanted: &'a [FamilyColumns],
    /// The family of the cell before.
    family: Option<FamilyName>,
    /// Its qualifiers that are wanted, from the one before on; `None` for all of them.
    qualifiers: Option<&'a [Bytes]>,
}

impl Walk<'_> {
    /// Whether the cell before was of this family.
    fn is_in(&self, family: &FamilyName) -> bool {
        self.family.as_ref() == Some(family)
    }

    /// Goes past the column of the cell that was chosen, so that its older cells are not.
    fn pass_column(&mut self) {
        self.qualifiers = self.qualifiers.and_then(|left| left.get(1..));
    }

    fn chooses(&mut self, family: &FamilyName, qualifier: &[u8]) -> bool {
        if !self.is_in(family) {
            self.qualifiers = match self.wanted.binary_search_by(|of| of.family.cmp(family)) {
                Ok(at) => self.wanted[at].qualifiers.as_deref(),
                Err(_) => Some(&[]),
            };
            self.family = Some(family.clone());
        }
        let Some(left) = self.qualifiers else { return true };
        let near = left.iter().take(2).position(|one| one[..] == *qualifier);
        let at = near.unwrap_or_else(|| left.partition_point(|one| one[..] < *qualifier));
        self.qualifiers = Some(&left[at..]);
        left.get(at).is_some_and(|one| one[..] == *qualifier)
    }
}

/// The first `versions` cells of each column; repeated cells count each time.
pub(crate) fn newest(mut cells: Vec<Cell>, versions: usize) -> Vec<Cell> {
    if versions == 0 {
        return Vec::new();
    }
    let mut kept = 1;
    cells.dedup_by(|cell, before| {
        let same = cell.same_column(before);
        let over = same && kept >= versions;
        kept = if !same {
            1
        } else if over {
            kept
        } else {
            kept + 1
        };
        over
    });
    cells
}
