//! Scans: rows of one published state, batch by batch.
//!
//! A scan holds its table as it was, so that nothing that is written meanwhile concerns it, and it takes no lock. Between
//! batches it keeps a key, not a place in the tree. Only the cells of wanted columns are taken out of a row; what they hold are slices
//! of it. A scan that finds little gives way to other tasks after [`STEP_ROWS_MAX`] rows.

use super::{apply::bounds, cells, memtable::Table};
use crate::{
    Cell, Columns, FamilyName, KeyRange, Result, Row, RowKey, Scan,
    row::RowReader,
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, RowStream},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use std::{collections::VecDeque, ops::Bound};

/// Rows looked at before other tasks have their turn.
const STEP_ROWS_MAX: usize = 4 * BATCH_ROWS_MAX;

/// A scan under way.
pub(crate) struct Reading {
    table: Table,
    reader: RowReader,
    /// What is wanted of each family, by number.
    wanted: Vec<Wanted>,
    /// What is left, in the scan's order.
    ranges: VecDeque<KeyRange>,
    /// The last row looked at in the first of the ranges.
    last: Option<RowKey>,
    reversed: bool,
    /// Rows still to be given.
    left: u64,
}

/// What is wanted of a family.
enum Wanted {
    Nothing,
    Everything(FamilyName),
    Columns(FamilyName, Vec<Bytes>),
}

impl Reading {
    /// Begins a scan of a table, to judge what is condemned at `now_micros`.
    pub(crate) fn new(table: Table, scan: Scan, now_micros: i64) -> Result<Self> {
        let reader = RowReader::new(&table.descriptor.schema, &scan, now_micros)?;
        let wanted = table.descriptor.names().map(|name| Wanted::new(name, &scan)).collect();
        let mut ranges: VecDeque<KeyRange> = scan.rows.ranges().iter().cloned().collect();
        if scan.reversed {
            ranges.make_contiguous().reverse();
        }
        let left = scan.rows_max.unwrap_or(u64::MAX);
        Ok(Self { table, reader, wanted, ranges, last: None, reversed: scan.reversed, left })
    }

    /// The rows.
    pub(crate) fn stream(self) -> RowStream {
        let batches = stream::unfold(self, |mut reading| async move {
            while !reading.is_done() {
                let batch = reading.step();
                if !batch.is_empty() {
                    return Some((Ok(batch), reading));
                }
                tokio::task::yield_now().await;
            }
            None
        });
        batches.boxed()
    }

    fn is_done(&self) -> bool {
        self.left == 0 || self.ranges.is_empty()
    }

    /// The next rows; possibly none, though there are more.
    fn step(&mut self) -> Vec<Row> {
        let (mut batch, mut bytes, mut seen, mut expected) = (Vec::new(), 0, 0, 0);
        while let Some(range) = self.ranges.front() {
            let (mut start, mut end) = bounds(range);
            if let Some(last) = &self.last {
                *(if self.reversed { &mut end } else { &mut start }) = Bound::Excluded(last);
            }
            let mut rows = self.table.rows.range::<_, [u8]>((start, end));
            while let Some((key, row)) = if self.reversed { rows.next_back() } else { rows.next() } {
                seen += 1;
                let cells = self.cells(row.bytes(), expected);
                // Rows of a table are alike: the next one has room at once.
                expected = cells.len();
                if let Some(row) = self.reader.read(key.clone(), cells) {
                    bytes += row.size();
                    batch.push(row);
                    self.left -= 1;
                }
                if self.left == 0
                    || batch.len() == BATCH_ROWS_MAX
                    || bytes >= BATCH_BYTES_TARGET
                    || seen == STEP_ROWS_MAX
                {
                    self.last = Some(key.clone());
                    return batch;
                }
            }
            drop(rows);
            self.ranges.pop_front();
            self.last = None;
        }
        batch
    }

    /// The wanted cells of a row: whole columns.
    fn cells(&self, row: &Bytes, expected: usize) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(expected);
        let mut chosen = None;
        // Columns come in order, wanted ones too: a step forward in the one list is never a step back in the other.
        let (mut family, mut passed) = (None, 0);
        for cell in cells::decode(row) {
            if cell.new_column {
                if family != Some(cell.family) {
                    (family, passed) = (Some(cell.family), 0);
                }
                chosen = match self.wanted.get(cell.family as usize) {
                    Some(Wanted::Everything(name)) => Some(name),
                    Some(Wanted::Columns(name, qualifiers)) => {
                        passed += qualifiers[passed..].iter().take_while(|wanted| ***wanted < *cell.qualifier).count();
                        qualifiers.get(passed).filter(|wanted| ***wanted == *cell.qualifier).map(|_| name)
                    }
                    _ => None,
                }
                .map(|name| (name, row.slice_ref(cell.qualifier)));
            }
            if let Some((name, qualifier)) = &chosen {
                cells.push(Cell {
                    family: FamilyName::clone(name),
                    qualifier: qualifier.clone(),
                    timestamp: cell.timestamp,
                    value: row.slice_ref(cell.value),
                });
            }
        }
        cells
    }
}

impl Wanted {
    fn new(name: Option<&FamilyName>, scan: &Scan) -> Self {
        let Some(name) = name.cloned() else { return Self::Nothing };
        let columns = match &scan.columns {
            // Any living cell makes the row exist.
            _ if scan.keep_empty => return Self::Everything(name),
            Columns::All => return Self::Everything(name),
            Columns::Of(columns) => columns,
        };
        match columns.iter().find(|of| of.family == name) {
            None => Self::Nothing,
            Some(of) => match &of.qualifiers {
                None => Self::Everything(name),
                Some(qualifiers) => Self::Columns(name, qualifiers.clone()),
            },
        }
    }
}
