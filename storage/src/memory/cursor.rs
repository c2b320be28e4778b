//! A scan in progress over a pinned map of rows. It holds one batch, and the remaining key ranges.

use super::state::{Rows, within};
use crate::{
    KeyRange, Row, Scan,
    row::RowReader,
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX},
};
use bytes::Bytes;
use std::collections::VecDeque;

/// Returns the batches of a scan.
#[derive(Debug)]
pub(super) struct Cursor {
    rows: Rows,
    reader: RowReader,
    /// Remaining ranges, in key order.
    ranges: VecDeque<KeyRange>,
    /// Rows that may still be returned.
    rows_left: u64,
    reversed: bool,
}

impl Cursor {
    pub(super) fn new(rows: Rows, reader: RowReader, scan: &Scan) -> Self {
        let ranges = scan.rows.ranges().iter().cloned().collect();
        Self { rows, reader, ranges, rows_left: scan.rows_max.unwrap_or(u64::MAX), reversed: scan.reversed }
    }

    /// Reads in one range until the batch is full, and puts the rest of the range back.
    fn fill(&mut self, range: KeyRange, batch: &mut Vec<Row>, bytes: &mut usize) {
        let full = |batch: &[Row], bytes: usize| batch.len() == BATCH_ROWS_MAX || bytes >= BATCH_BYTES_TARGET;
        let mut rows = within(&self.rows, &range);
        while self.rows_left > 0 {
            let next = if self.reversed { rows.next_back() } else { rows.next() };
            let Some((key, cells)) = next else { return };
            let Some(row) = self.reader.read(key.clone(), cells.as_ref().clone()) else { continue };
            *bytes += row.size();
            batch.push(row);
            self.rows_left -= 1;
            if full(batch, *bytes) {
                let rest = if self.reversed {
                    KeyRange::new(range.start.clone(), Some(key.bytes().clone()))
                } else {
                    KeyRange::new(Bytes::from([key, &[0][..]].concat()), range.end.clone())
                };
                if self.reversed {
                    self.ranges.push_back(rest)
                } else {
                    self.ranges.push_front(rest)
                }
                return;
            }
        }
    }
}

impl Iterator for Cursor {
    type Item = Vec<Row>;

    fn next(&mut self) -> Option<Vec<Row>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while self.rows_left > 0 && batch.len() < BATCH_ROWS_MAX && bytes < BATCH_BYTES_TARGET {
            let range = if self.reversed { self.ranges.pop_back() } else { self.ranges.pop_front() };
            let Some(range) = range else { break };
            self.fill(range, &mut batch, &mut bytes);
        }
        (!batch.is_empty()).then_some(batch)
    }
}
