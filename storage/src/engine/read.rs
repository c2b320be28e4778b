//! Scans: rows of one state, batch by batch.
//!
//! A scan holds the table of its state, so that later writes do not concern it, and it takes no lock. Rows come from
//! the memtables and from segments ([`merge`]), in the order of keys; only the cells of selected columns are read. A
//! scan that finds few rows yields to other tasks after [`STEP_ROWS_MAX`] rows. A scan that reads files runs on tokio's
//! blocking threads. The exception are a few rows of local segments ([`inline`](super::inline)): they mostly come from
//! cached pages, which takes less time than switching threads.

mod cells;
mod history;
mod merge;

pub(crate) use history::HistoryReader;

use self::{
    cells::CellSelection,
    history::RowsAsOf,
    merge::{Body, Merge},
};
use super::{
    deletion_vector::Position,
    inline::{FEW_ROWS, RANGES_MAX, runs_inline},
    manifest::SegmentId,
    memtable::bounds,
    pins::PinnedState,
    state::{MemtableLookup, Table},
    writer::Shared,
};
use crate::{
    Error, KeyRange, Result, Row, RowKey, Scan,
    row::RowReader,
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, RowStream},
};
use futures::{StreamExt, stream};
use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
};

/// Rows examined before the scan yields to other tasks.
const STEP_ROWS_MAX: usize = 4 * BATCH_ROWS_MAX;

/// The part of a table that a scan reads.
#[derive(Clone, Debug)]
pub(crate) enum Parts {
    /// Everything.
    All,
    /// Only these positions of segments.
    Segments(Arc<HashMap<SegmentId, Vec<Range<Position>>>>),
}

impl Parts {
    /// Whether it includes memtables.
    fn have_memory(&self) -> bool {
        matches!(self, Self::All)
    }

    /// The part of a segment's positions that it includes.
    fn of(&self, segment: SegmentId, positions: Range<Position>) -> Vec<Range<Position>> {
        match self {
            Self::All => vec![positions],
            Self::Segments(these) => {
                let ranges = these.get(&segment).into_iter().flatten();
                let both = ranges.map(|range| range.start.max(positions.start)..range.end.min(positions.end));
                both.filter(|both| !both.is_empty()).collect()
            }
        }
    }
}

/// A scan in progress.
pub(crate) struct Reading {
    held: Arc<PinnedState>,
    table: Table,
    shared: Arc<Shared>,
    reader: RowReader,
    wanted: Arc<CellSelection>,
    /// Remaining ranges, in the scan's order.
    ranges: VecDeque<KeyRange>,
    /// The current range.
    source: Option<Source>,
    /// Set for a scan of history.
    history: Option<HistoryReader>,
    parts: Parts,
    reversed: bool,
    /// Rows that may still be returned.
    left: u64,
    /// Rows that may still be examined on the caller's thread.
    inline_rows: usize,
}

/// The source of a range's rows.
enum Source {
    Now(Box<Merge>),
    RowsAsOf(Box<RowsAsOf>),
}

impl Source {
    /// The next row, as stored; without a body if it was absent.
    fn next(&mut self) -> Result<Option<(RowKey, Option<Body>)>> {
        match self {
            Self::Now(merge) => Ok(merge.next()?.map(|(key, body)| (key, Some(body)))),
            Self::RowsAsOf(then) => then.next(),
        }
    }
}

impl Reading {
    /// Begins a scan of a table; rules are evaluated at `now_micros`.
    pub(crate) fn new(
        (held, shared): (Arc<PinnedState>, Arc<Shared>),
        (table, parts): (Table, Parts),
        scan: Scan,
        now_micros: i64,
        is_local: bool,
    ) -> Result<Self> {
        let reader = RowReader::new(&table.descriptor.schema, &scan, now_micros)?;
        let wanted = Arc::new(CellSelection::new(&table, &scan, &reader));
        let mut ranges: VecDeque<KeyRange> = scan.rows.ranges().iter().cloned().collect();
        if scan.reversed {
            ranges.make_contiguous().reverse();
        }
        let left = scan.rows_max.unwrap_or(u64::MAX);
        let inline_rows = match left <= FEW_ROWS as u64 && ranges.len() <= RANGES_MAX {
            _ if table.tablets.is_empty() => usize::MAX,
            true if is_local => FEW_ROWS,
            _ if is_local && runs_inline(&table, &scan.rows) => usize::MAX,
            _ => 0,
        };
        let reversed = scan.reversed;
        Ok(Self {
            held,
            table,
            shared,
            reader,
            wanted,
            ranges,
            source: None,
            history: None,
            parts,
            reversed,
            left,
            inline_rows,
        })
    }

    /// Reads rows as of the time of `history`.
    pub(crate) fn with_history(mut self, history: Option<HistoryReader>) -> Self {
        self.inline_rows = if history.is_none() { self.inline_rows } else { 0 };
        self.history = history;
        self
    }

    /// The rows as a stream. A single row is read at once, if it is read on the caller's thread.
    pub(crate) fn stream(mut self) -> RowStream {
        if self.inline_rows > 0 && self.ranges.len() == 1 && self.ranges[0].as_point().is_some() {
            let batch = if self.left > 0 { self.step() } else { Ok(Vec::new()) };
            let found = batch.map(|batch| (!batch.is_empty()).then_some(batch)).transpose();
            return stream::iter(found).boxed();
        }
        let batches = stream::try_unfold(self, |mut reading| async move {
            while !reading.is_done() {
                let batch;
                (batch, reading) = reading.stepped().await?;
                if !batch.is_empty() {
                    return Ok(Some((batch, reading)));
                }
                tokio::task::yield_now().await;
            }
            Ok(None)
        });
        batches.boxed()
    }

    async fn stepped(mut self) -> Result<(Vec<Row>, Self)> {
        if self.inline_rows > 0 {
            let batch = self.step()?;
            return Ok((batch, self));
        }
        let step = move || self.step().map(|batch| (batch, self));
        let ended = tokio::task::spawn_blocking(step).await;
        ended.map_err(|error| Error::Unavailable(format!("a read ended early: {error}")))?
    }

    fn is_done(&self) -> bool {
        self.left == 0 || self.ranges.is_empty()
    }

    /// The next rows; possibly none, though there are more.
    fn step(&mut self) -> Result<Vec<Row>> {
        // An expired pin ends the scans that read by it.
        self.held.state()?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let most = if self.inline_rows > 0 { self.inline_rows.min(STEP_ROWS_MAX) } else { STEP_ROWS_MAX };
        for _ in 0..most {
            self.inline_rows = self.inline_rows.saturating_sub(1);
            let Some((key, body)) = self.next()? else { break };
            let Some(body) = body else { continue };
            let cells = self.wanted.cells(&self.table, body)?;
            if let Some(row) = self.reader.read(key, cells) {
                bytes += row.size();
                batch.push(row);
                self.left -= 1;
            }
            if self.left == 0 || batch.len() == BATCH_ROWS_MAX || bytes >= BATCH_BYTES_TARGET {
                break;
            }
        }
        Ok(batch)
    }

    /// The next row, as stored; without a body if it was absent.
    fn next(&mut self) -> Result<Option<(RowKey, Option<Body>)>> {
        while let Some(range) = self.ranges.front() {
            let found = match (&mut self.source, range.as_point()) {
                (Some(source), _) => source.next()?,
                (None, Some(_)) => {
                    let range = self.ranges.pop_front().expect("there is a first");
                    match self.point(range.as_point().expect("it is one"))? {
                        Some((key, body)) => return Ok(Some((key, Some(body)))),
                        None => continue,
                    }
                }
                (None, None) => {
                    let mut source = self.open(range);
                    let found = source.next()?;
                    self.source = Some(source);
                    found
                }
            };
            if found.is_some() {
                return Ok(found);
            }
            self.source = None;
            self.ranges.pop_front();
        }
        Ok(None)
    }

    /// Opens a range.
    fn open(&self, range: &KeyRange) -> Source {
        let hint = usize::try_from(self.left).unwrap_or(usize::MAX).min(BATCH_ROWS_MAX);
        let merge = Merge::new(&self.table, range, &self.parts, &self.wanted, (self.reversed, hint));
        match &self.history {
            None => Source::Now(Box::new(merge)),
            Some(history) => Source::RowsAsOf(Box::new(RowsAsOf::new(merge, history, range, self.reversed))),
        }
    }

    /// Reads one row.
    fn point(&self, key: &[u8]) -> Result<Option<(RowKey, Body)>> {
        let own = || RowKey::new(bytes::Bytes::copy_from_slice(key));
        if let Some(held) = self.history.as_ref().map(|history| history.of_row(key)).transpose()?.flatten() {
            return held.map(|row| Ok((own()?, Body::Encoded(row, None)))).transpose();
        }
        Ok(match self.table.look_up_memtables(key) {
            MemtableLookup::Row(..) if !self.parts.have_memory() => None,
            MemtableLookup::Row(row, as_of) => Some((own()?, Body::Encoded(row, as_of))),
            MemtableLookup::Deleted => None,
            MemtableLookup::Absent => match self.table.locate(key)? {
                None => None,
                Some(location)
                    if self
                        .parts
                        .of(location.segment.meta().id, location.position..location.position + 1)
                        .is_empty() =>
                {
                    None
                }
                Some(location) => {
                    let meta = location.segment.meta();
                    if self.wanted.is_existence()
                        && let Some((family, qualifier)) = location.segment.witness(&self.wanted.sure_families())?
                    {
                        // Every row of the segment has this column, and nothing condemns it: its value need not be
                        // read.
                        return Ok(Some((own()?, Body::Witness(family, qualifier, meta.stamp))));
                    }
                    let row = self.shared.rows.read(&location)?;
                    Some((own()?, Body::Encoded(row, Some(location.segment.meta().stamp))))
                }
            },
        })
    }
}
