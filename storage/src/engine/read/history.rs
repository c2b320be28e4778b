//! Rows as they were at a moment: those of a table, with what they held until they changed since laid over them.
//!
//! Both come in the order of rows ([`past`] says why), so that this is a merge of two. A row that changed several
//! times after the moment has as many versions in the past: the oldest of them is what it held then.

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

/// The past of a table, and the moment that is asked for.
#[derive(Clone)]
pub(crate) struct HistoryReader {
    name: TableName,
    table: Table,
    wanted: Arc<CellSelection>,
    as_of_micros: i64,
}

/// What a row held until a change.
struct Change {
    row: RowKey,
    stamp: i64,
    value: Bytes,
}

/// What a row held: nothing, if it was absent.
type OldRow = Option<Bytes>;

impl HistoryReader {
    /// The past, a table of this name, as of a moment to which its history reaches back.
    pub(crate) fn new(name: TableName, table: Table, as_of_micros: i64) -> Result<Self> {
        // Whether the cells are too old for new readers does not matter: they are there.
        let reader = RowReader::new(&table.descriptor.schema, &Scan::all(), i64::MIN)?;
        let wanted = Arc::new(CellSelection::new(&table, &Scan::all(), &reader));
        Ok(Self { name, table, wanted, as_of_micros })
    }

    /// What a row held, if it changed since.
    pub(super) fn of_row(&self, row: &[u8]) -> Result<Option<OldRow>> {
        let mut merge = self.merge(&history::after(row, self.as_of_micros), (false, 1));
        self.next_of(&mut merge)?.map(|change| self.held(change.value)).transpose()
    }

    fn merge(&self, range: &KeyRange, order: (bool, usize)) -> Merge {
        Merge::new(&self.table, range, &Parts::All, &self.wanted, order)
    }

    /// The next change of a merge over the past.
    fn next_of(&self, merge: &mut Merge) -> Result<Option<Change>> {
        while let Some((key, body)) = merge.next()? {
            // One that was too old when history was made to last longer has no cell any more.
            let Some(cell) = self.wanted.cells(&self.table, body).into_iter().next() else { continue };
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

/// The rows of a range as they were.
pub(super) struct RowsAsOf {
    now: Merge,
    changes: Changes,
    reversed: bool,
    /// Of both the next one.
    heads: Option<Heads>,
}

/// The next row as it is, and the next one that changed.
type Heads = (Option<(RowKey, Body)>, Option<(RowKey, OldRow)>);

impl RowsAsOf {
    /// Of these rows, of a range, and the past of the range.
    pub(super) fn new(now: Merge, history: &HistoryReader, range: &KeyRange, reversed: bool) -> Self {
        let merge = history.merge(&history::range(range), (reversed, BATCH_ROWS_MAX));
        let changes = Changes { history: history.clone(), merge, reversed, ahead: None };
        Self { now, changes, reversed, heads: None }
    }

    /// The next row that is or was there; `None` in the place of what it held, if it was absent.
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

/// What the rows of a range held, of those that changed since.
struct Changes {
    history: HistoryReader,
    merge: Merge,
    reversed: bool,
    /// Of the next row.
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
