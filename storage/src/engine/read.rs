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
    /// What is wanted of each family, by number; `None` where no family has the number.
    wanted: Vec<Option<Wanted>>,
    /// What is left, in the scan's order.
    ranges: VecDeque<KeyRange>,
    /// The last row looked at in the first of the ranges.
    last: Option<RowKey>,
    reversed: bool,
    /// Rows still to be given.
    left: u64,
}

/// What is wanted of a family.
struct Wanted {
    name: FamilyName,
    columns: WantedColumns,
    /// What its cells of other columns are to the row's existence.
    other: Witness,
}

enum WantedColumns {
    None,
    All,
    These(Vec<Bytes>),
}

/// What an unwanted cell says of the existence of its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Witness {
    /// Nothing that is asked for.
    Unneeded,
    /// That the row exists, unless the cell is condemned.
    Doubtful,
    /// That the row exists, if it is the newest of its column.
    Sure,
}

impl Reading {
    /// Begins a scan of a table, to judge what is condemned at `now_micros`.
    pub(crate) fn new(table: Table, scan: Scan, now_micros: i64) -> Result<Self> {
        let reader = RowReader::new(&table.descriptor.schema, &scan, now_micros)?;
        let wanted = table.descriptor.names().map(|name| Some(Wanted::new(name?, &scan, &reader))).collect();
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

    /// The wanted cells of a row: whole columns. Where rows of unwanted cells count, also as many of these as it takes to see that the
    /// row exists.
    fn cells(&self, row: &Bytes, expected: usize) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(expected);
        let mut chosen = None;
        let mut exists = false;
        // Columns come in order, wanted ones too: a step forward in the one list is never a step back in the other.
        let (mut family, mut passed) = (None, 0);
        for cell in cells::decode(row) {
            let Some(Some(wanted)) = self.wanted.get(cell.family as usize) else { continue };
            if cell.new_column {
                if family != Some(cell.family) {
                    (family, passed) = (Some(cell.family), 0);
                }
                let is_wanted = match &wanted.columns {
                    WantedColumns::None => false,
                    WantedColumns::All => true,
                    WantedColumns::These(qualifiers) => {
                        passed += qualifiers[passed..].iter().take_while(|wanted| ***wanted < *cell.qualifier).count();
                        qualifiers.get(passed).is_some_and(|wanted| **wanted == *cell.qualifier)
                    }
                };
                let is_witness = !exists && wanted.other != Witness::Unneeded;
                chosen = (is_wanted || is_witness).then(|| (&wanted.name, row.slice_ref(cell.qualifier)));
                exists |= wanted.other == Witness::Sure;
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
    fn new(name: &FamilyName, scan: &Scan, reader: &RowReader) -> Self {
        let columns = match &scan.columns {
            Columns::All => WantedColumns::All,
            Columns::Of(columns) => match columns.iter().find(|of| of.family == *name) {
                None => WantedColumns::None,
                Some(of) => of.qualifiers.clone().map_or(WantedColumns::All, WantedColumns::These),
            },
        };
        let other = match scan.keep_empty {
            false => Witness::Unneeded,
            true if reader.newest_always_lives(name) => Witness::Sure,
            true => Witness::Doubtful,
        };
        Self { name: name.clone(), columns, other }
    }
}
