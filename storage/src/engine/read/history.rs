//! Rows as of a time: the current rows of a table, overlaid with their previous versions from its history.
//!
//! Both are in the order of rows (see [`history`]), so that this is a merge of two. A row that changed several times
//! after that time has several history rows: the oldest of them is its version at that time.

use super::{
    Parts,
    cells::CellSelection,
    merge::{Body, Merge},
};
use crate::{
    Error, KeyRange, Result, RowKey, Scan, TableName,
    engine::{history, state::Table},
    row::RowReader,
    store::BATCH_ROWS_MAX,
};
use bytes::Bytes;
use std::{cmp::Ordering, path::PathBuf, sync::Arc};

/// Reads the history of a table as of a time.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    name: TableName,
    table: Table,
    wanted: Arc<CellSelection>,
    as_of_micros: i64,
}

/// A history row: the version before a change.
struct Change {
    row: RowKey,
    stamp: i64,
    value: Bytes,
}

/// A previous version of a row: `None` if it was absent.
type OldRow = Option<Bytes>;

impl HistoryReader {
    /// Reads the history table of this name, as of a time that the history still covers.
    pub(crate) fn new(name: TableName, table: Table, as_of_micros: i64) -> Result<Self> {
        // The rule that condemns history by age does not matter here: cells that are still there count.
        let reader = RowReader::new(&table.descriptor.schema, &Scan::all(), i64::MIN)?;
        let wanted = Arc::new(CellSelection::new(&table, &Scan::all(), &reader));
        Ok(Self { name, table, wanted, as_of_micros })
    }

    /// The previous version of a row, if it changed since.
    pub(super) fn of_row(&self, row: &[u8]) -> Result<Option<OldRow>> {
        let mut merge = self.merge(&history::after(row, self.as_of_micros), (false, 1));
        self.next_of(&mut merge)?.map(|change| self.held(change.value)).transpose()
    }

    fn merge(&self, range: &KeyRange, order: (bool, usize)) -> Merge {
        Merge::new(&self.table, range, &Parts::All, &self.wanted, order)
    }

    /// The next history row of a merge.
    fn next_of(&self, merge: &mut Merge) -> Result<Option<Change>> {
        while let Some((key, body)) = merge.next()? {
            // Condemned before the history was extended: it has no cell any more.
            let Some(cell) = self.wanted.cells(&self.table, body)?.into_iter().next() else { continue };
            let (row, stamp) = history::of_key(&key).ok_or_else(|| self.damaged("a key is none"))?;
            return Ok(Some(Change { row, stamp, value: cell.value }));
        }
        Ok(None)
    }

    fn held(&self, value: Bytes) -> Result<OldRow> {
        history::held(value).ok_or_else(|| self.damaged("what a row held is no row"))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Corrupt {
            path: PathBuf::from(self.name.as_str()),
            offset: 0,
            detail: format!("in a table's past {what}"),
        }
    }
}

/// The rows of a range as of a time.
pub(super) struct RowsAsOf {
    now: Merge,
    changes: Changes,
    reversed: bool,
    /// The next row of each source.
    heads: Option<Heads>,
}

/// The next current row, and the next changed one.
type Heads = (Option<(RowKey, Body)>, Option<(RowKey, OldRow)>);

impl RowsAsOf {
    /// Merges the current rows of a range with its history.
    pub(super) fn new(now: Merge, history: &HistoryReader, range: &KeyRange, reversed: bool) -> Self {
        let merge = history.merge(&history::range(range), (reversed, BATCH_ROWS_MAX));
        let changes = Changes { history: history.clone(), merge, reversed, ahead: None };
        Self { now, changes, reversed, heads: None }
    }

    /// The next row that exists now or existed then; `None` as its body if it was absent then.
    pub(super) fn next(&mut self) -> Result<Option<(RowKey, Option<Body>)>> {
        let (now, then) = match self.heads.take() {
            Some(heads) => heads,
            None => (self.now.next()?, self.changes.next()?),
        };
        let order = match (&now, &then) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((now, _)), Some((then, _))) if self.reversed => then.cmp(now),
            (Some((now, _)), Some((then, _))) => now.cmp(then),
        };
        match (order, now, then) {
            (Ordering::Less, Some((key, body)), then) => {
                self.heads = Some((self.now.next()?, then));
                Ok(Some((key, Some(body))))
            }
            (order, now, then) => {
                let now = if order.is_eq() { self.now.next()? } else { now };
                self.heads = Some((now, self.changes.next()?));
                Ok(then.map(|(key, held)| (key, held.map(|row| Body::Encoded(row, None)))))
            }
        }
    }
}

/// The previous versions of the changed rows of a range.
struct Changes {
    history: HistoryReader,
    merge: Merge,
    reversed: bool,
    /// A change of the next row.
    ahead: Option<Change>,
}

impl Changes {
    fn next(&mut self) -> Result<Option<(RowKey, OldRow)>> {
        while let Some(first) = self.take()? {
            let (row, mut oldest, mut next) = (first.row.clone(), None, Some(first));
            while let Some(change) = next {
                if change.row != row {
                    self.ahead = Some(change);
                    break;
                }
                let counts = self.reversed || oldest.is_none();
                if counts && change.stamp > self.history.as_of_micros {
                    oldest = Some(change.value);
                }
                next = self.take()?;
            }
            if let Some(value) = oldest {
                return Ok(Some((row, self.history.held(value)?)));
            }
        }
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<Change>> {
        if let Some(change) = self.ahead.take() {
            return Ok(Some(change));
        }
        self.history.next_of(&mut self.merge)
    }
}
