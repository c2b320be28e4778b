//! Scans.

use super::{
    Inner,
    guard::{Guard, Place},
    pin::{Relied, Seen, passed},
    schema::Known,
    superset::{merged, superset},
};
use crate::{ApiRow, ReadRows, store::convert};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use keyspan_storage::{
    Cell, Columns, Error, KeyRange, Result, Row, RowKey, RowSet, RowStream, Scan, TableName,
    row::RowReader,
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX},
};
use std::{pin::Pin as Pinned, sync::Arc};

/// Rows that are asked for at least, when a scan with a limit has to go on: the server counted rows that it does not
/// return.
const MORE_ROWS_MIN: u64 = 100;

/// Times that a scan asks for the families of its table anew.
const SCHEMAS_MAX: u32 = 8;

type Stream = Pinned<Box<dyn futures::Stream<Item = crate::Result<Vec<ApiRow>>> + Send>>;

/// The rows of a scan.
pub(super) fn scan(store: Arc<Inner>, table: TableName, scan: Scan) -> RowStream {
    let scanning = async move { Scanning::new(store, table, scan).await };
    stream::once(scanning)
        .map_ok(|scanning| {
            stream::try_unfold(scanning, async |mut scanning| Ok(scanning.next().await?.map(|batch| (batch, scanning))))
        })
        .try_flatten()
        .boxed()
}

/// A scan in progress.
struct Scanning {
    store: Arc<Inner>,
    table: TableName,
    known: Arc<Known>,
    scan: Scan,
    reader: RowReader,
    /// What of the rows has not been asked for.
    rest: RowSet,
    /// The rows that may still be returned.
    rows_max: Option<u64>,
    /// The stream, the rows that it may bring, and the rows that it brought.
    current: Option<(Stream, Option<u64>, u64)>,
    last: Option<RowKey>,
    /// Rows that came, and are not looked at yet.
    came: std::vec::IntoIter<ApiRow>,
    /// How often the scan has asked for the families anew.
    learned: u32,
}

impl Scanning {
    async fn new(store: Arc<Inner>, table: TableName, scan: Scan) -> Result<Self> {
        scan.check()?;
        let mut known = store.known(&table).await?;
        // A family that is asked for by its name may be new.
        if let Columns::Of(wanted) = &scan.columns
            && wanted.iter().any(|of| !known.schema.families.contains_key(&of.family))
        {
            known = store.refreshed(&table).await?;
        }
        if scan.as_of.is_some() {
            return Err(Error::NoHistory);
        }
        if let Some(pin) = &scan.pin {
            Relied::of(pin)?;
        }
        let reader = RowReader::new(&known.schema, &scan, store.now())?;
        let (rest, rows_max) = (scan.rows.clone(), scan.rows_max);
        let came = Vec::new().into_iter();
        Ok(Self { store, table, known, scan, reader, rest, rows_max, current: None, last: None, came, learned: 0 })
    }

    async fn next(&mut self) -> Result<Option<Vec<Row>>> {
        self.store.check_open()?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_ROWS_MAX && bytes < BATCH_BYTES_TARGET && self.rows_max != Some(0) {
            let Some(row) = self.came.next() else {
                // What is there is given before something is waited for.
                if !batch.is_empty() || !self.more().await? {
                    break;
                }
                continue;
            };
            if self.known.may_be_new(&row) {
                self.learn().await?;
                continue;
            }
            self.last = Some(row.key.clone());
            if let Some(row) = self.read(row)? {
                bytes += row.size();
                batch.push(row);
                self.rows_max = self.rows_max.map(|most| most.saturating_sub(1));
            }
        }
        let is_done = batch.is_empty() || self.rows_max == Some(0);
        if is_done {
            self.cover()?;
        }
        Ok((!batch.is_empty()).then_some(batch))
    }

    /// Asks the server for the table's families, and for the rows behind the last one anew: of a row in a family that
    /// was not known, only that has come.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a server that goes on sending cells of families which it says that it does not have.
    async fn learn(&mut self) -> Result<()> {
        self.learned += 1;
        if self.learned > SCHEMAS_MAX {
            let message = format!("table {:?}: cells of a family that the table does not have", self.table.as_str());
            return Err(Error::Protocol(message));
        }
        self.known = self.store.refreshed(&self.table).await?;
        self.reader = RowReader::new(&self.known.schema, &self.scan, self.store.now())?;
        if let Some(last) = &self.last {
            self.rest = behind(&self.rest, last, self.scan.reversed);
        }
        (self.current, self.came) = (None, Vec::new().into_iter());
        Ok(())
    }

    /// Takes more rows from the server; false if there are none.
    async fn more(&mut self) -> Result<bool> {
        loop {
            if self.current.is_none() && !self.begin() {
                return Ok(false);
            }
            let Some((stream, asked, came)) = &mut self.current else { return Ok(false) };
            match stream.try_next().await.map_err(|error| self.store.error(&self.table, error))? {
                Some(rows) => {
                    *came += rows.len() as u64;
                    self.came = rows.into_iter();
                    return Ok(true);
                }
                None => {
                    let is_cut = asked.is_some_and(|asked| *came >= asked);
                    self.current = None;
                    self.rest = match (&self.last, is_cut) {
                        (Some(last), true) => behind(&self.rest, last, self.scan.reversed),
                        _ => RowSet::none(),
                    };
                }
            }
        }
    }

    /// Asks for the rest, if there is any.
    fn begin(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let Some(filter) = superset(&self.known, &self.scan, self.store.now()) else { return false };
        let goes_on = self.last.is_some();
        let rows_max = self.rows_max.map(|most| if goes_on { most.max(MORE_ROWS_MIN) } else { most });
        let read = ReadRows { rows: self.rest.clone(), filter: Some(filter), rows_max, reversed: self.scan.reversed };
        let stream = self.store.client.read_rows(self.table.as_str(), read);
        self.current = Some((Box::pin(stream), rows_max, 0));
        true
    }

    /// The row as it is returned, if it is.
    fn read(&self, row: ApiRow) -> Result<Option<Row>> {
        let ApiRow { key, cells } = row;
        let (cells, guard) = opened(&self.known, cells.into_iter().map(convert::cell).collect());
        if let Some(pin) = self.scan.pin.as_ref().filter(|_| self.scan.relied) {
            let newest_micros = cells.iter().map(|cell| cell.timestamp).max().unwrap_or(i64::MIN);
            Relied::of(pin)?.add(&self.table, &key, Seen { guard, newest_micros })?;
        }
        Ok(self.reader.read(key, cells))
    }

    /// Remembers which rows were looked at, where a commit may rely on them.
    fn cover(&mut self) -> Result<()> {
        let Some(pin) = self.scan.pin.as_ref().filter(|_| self.scan.relied) else { return Ok(()) };
        let is_cut = self.rows_max == Some(0);
        let rows = match &self.last {
            Some(last) if is_cut => passed(&self.scan.rows, last, self.scan.reversed),
            None if is_cut => RowSet::none(),
            _ => self.scan.rows.clone(),
        };
        // Once.
        self.scan.relied = false;
        Relied::of(pin)?.cover(&self.table, rows)
    }
}

/// The cells of a row in order, without its guard, and the guard. Where it is shown, it is an empty value.
pub(super) fn opened(known: &Known, cells: Vec<Cell>) -> (Vec<Cell>, Guard) {
    let mut cells = merged(cells);
    let mut guard = if cells.is_empty() { Guard::Absent } else { Guard::None };
    let at = cells.iter().position(|cell| known.guard.is(&cell.family, &cell.qualifier));
    if let Some(at) = at {
        // A marker of others has no token.
        if !cells[at].value.is_empty() {
            guard = Guard::Token(cells[at].value.clone());
        }
        if known.guard == Place::Hidden {
            cells.retain(|cell| !known.guard.is(&cell.family, &cell.qualifier));
        } else {
            let markers = cells.iter_mut().filter(|cell| known.guard.is(&cell.family, &cell.qualifier));
            markers.for_each(|cell| cell.value = Bytes::new());
        }
    }
    (cells, guard)
}

/// The part of the rows behind a key.
fn behind(rows: &RowSet, last: &RowKey, reversed: bool) -> RowSet {
    let rest = if reversed {
        KeyRange::new(Bytes::new(), Some(last.bytes().clone()))
    } else {
        KeyRange::new([&last[..], &[0]].concat(), None)
    };
    rows.intersect(&rest.into())
}
