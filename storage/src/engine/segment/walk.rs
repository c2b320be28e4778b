//! The order in which a scan reads the positions of a segment.
//!
//! A scan goes from row group to row group, in each through the live positions of its ranges. Forward, one Parquet
//! reader returns batch after batch. Backward, a piece of at most a page's rows is read at a time, and the caller
//! reverses it. The first piece is small if few rows are needed soon, later ones grow.

use super::{
    PAGE_ROWS_MAX,
    cached::CACHED_ROWS_MAX,
    decode::{self, Decoded, Reading},
    open::{Loaded, Segment},
    projection::Projection,
    rows::{RowsRequest, SelectedFamily},
};
use crate::{
    Result,
    engine::deletion_vector::{DeletionVector, Position},
};
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// Up to this number of dead rows between live ones are decoded too: skipping them costs more.
const GAP_ROWS_MAX: u32 = 128;
/// Growth factor of pieces.
const GROWTH: usize = 8;

/// The state of a scan over row groups.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) segment: Arc<Segment>,
    loaded: Arc<Loaded>,
    /// Remaining ranges, ascending.
    ranges: VecDeque<Range<Position>>,
    /// Positions that are not returned, though they may be decoded.
    pub(super) dead: DeletionVector,
    wanted: Vec<SelectedFamily>,
    older: bool,
    pub(super) reversed: bool,
    /// Approximate bytes of decoded columns that are held.
    decoded_bytes: usize,
    /// Maximum rows of the next piece.
    piece_rows: usize,
    open: Option<Open>,
    /// The rest of a piece that is read backward, the next batch last.
    turned: Vec<(Decoded, Vec<Position>)>,
}

/// A piece being read.
struct Open {
    group: usize,
    projection: Projection,
    reading: Reading,
    runs: Vec<Range<Position>>,
    /// Rows already read of the first run.
    passed: u32,
    /// Number of runs that were completely read.
    runs_passed: usize,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("group", &self.group).field("projection", &self.projection).finish_non_exhaustive()
    }
}

impl Walk {
    pub(super) fn new(segment: Arc<Segment>, loaded: Arc<Loaded>, request: RowsRequest) -> Self {
        let rows = loaded.footer.rows();
        let ranges = request.ranges.into_iter().map(|range| range.start..range.end.min(rows));
        Self {
            segment,
            ranges: ranges.filter(|range| !range.is_empty()).collect(),
            loaded,
            dead: request.dead,
            wanted: request.wanted,
            older: request.older,
            reversed: request.reversed,
            decoded_bytes: request.decoded_bytes,
            piece_rows: request.rows_soon.max(1),
            open: None,
            turned: Vec::new(),
        }
    }

    /// The next decoded rows with their positions, ascending even in a backward scan.
    pub(super) fn next_decoded(&mut self) -> Result<Option<(Decoded, Vec<Position>)>> {
        loop {
            if let Some(turned) = self.turned.pop() {
                return Ok(Some(turned));
            }
            if let Some(open) = &mut self.open {
                if let Some(decoded) = open.next_decoded(&self.loaded)? {
                    if !self.reversed {
                        return Ok(Some(decoded));
                    }
                    self.turned.push(decoded);
                    while let Some(decoded) = open.next_decoded(&self.loaded)? {
                        self.turned.push(decoded);
                    }
                }
                self.open = None;
                continue;
            }
            let next = if self.reversed { self.ranges.back() } else { self.ranges.front() };
            let Some(next) = next else { return Ok(None) };
            let group = self.loaded.footer.group_of(if self.reversed { next.end - 1 } else { next.start });
            self.open = self.open_piece(group)?;
        }
    }

    /// Begins the next piece of a row group; `None` if all of it is dead.
    fn open_piece(&mut self, group: usize) -> Result<Option<Open>> {
        let projection = Projection::new(&self.loaded, group, &self.wanted, self.older, true);
        let batch_rows = projection.rows_of_bytes(&self.loaded, group, self.decoded_bytes).min(PAGE_ROWS_MAX);
        let most = if self.reversed { self.piece_rows.min(batch_rows) } else { self.piece_rows };
        let most = match self.loaded.file.is_remote() {
            true => most.min(projection.rows_of_file_bytes(&self.loaded, group, decode::AHEAD_BYTES_MAX)),
            false => most,
        };
        let positions = self.loaded.footer.groups[group].positions();
        let runs = match self.reversed {
            true => self.take_back(positions.start, most),
            false => self.take_front(positions.end, most),
        };
        self.piece_rows = self.piece_rows.saturating_mul(GROWTH);
        let runs = self.live_runs(&runs);
        if runs.is_empty() {
            return Ok(None);
        }
        let cache = (most <= CACHED_ROWS_MAX).then_some(&self.segment.caches);
        let reading = decode::read(&self.loaded, group, &projection, &runs, batch_rows.min(most), cache)?;
        Ok(Some(Open { group, projection, reading, runs, passed: 0, runs_passed: 0 }))
    }

    /// Takes about `most` positions below `end` off the front.
    fn take_front(&mut self, end: Position, most: usize) -> Vec<Range<Position>> {
        let (mut taken, mut left) = (Vec::new(), u32::try_from(most).unwrap_or(u32::MAX));
        while let Some(range) = self.ranges.front_mut().filter(|range| range.start < end && left > 0) {
            let to = range.end.min(end).min(range.start.saturating_add(left));
            left -= to - range.start;
            taken.push(range.start..to);
            range.start = to;
            if range.start == range.end {
                self.ranges.pop_front();
            }
        }
        taken
    }

    /// Takes the last positions, down to the nearest multiple of `most` positions after `start`, the row group's first:
    /// pages tend to begin there.
    fn take_back(&mut self, start: Position, most: usize) -> Vec<Range<Position>> {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let last = self.ranges.back().map_or(start, |range| range.end - 1);
        let from = start + (last - start) / most * most;
        let mut taken = Vec::new();
        while let Some(range) = self.ranges.back_mut().filter(|range| range.end > from) {
            taken.push(range.start.max(from)..range.end);
            range.end = range.start.max(from);
            if range.start == range.end {
                self.ranges.pop_back();
            }
        }
        taken.reverse();
        taken
    }

    /// The runs of live positions, with short gaps closed.
    fn live_runs(&self, ranges: &[Range<Position>]) -> Vec<Range<Position>> {
        let mut runs: Vec<Range<Position>> = Vec::new();
        for range in ranges {
            let first = runs.len();
            for run in self.dead.live_runs(range.clone()) {
                match runs.get_mut(first..).and_then(<[_]>::last_mut) {
                    Some(last) if run.start - last.end <= GAP_ROWS_MAX => last.end = run.end,
                    _ => runs.push(run),
                }
            }
        }
        runs
    }
}

impl Open {
    fn next_decoded(&mut self, loaded: &Arc<Loaded>) -> Result<Option<(Decoded, Vec<Position>)>> {
        let Some(batch) = self.reading.next_batch()? else {
            return match self.runs_passed == self.runs.len() {
                true => Ok(None),
                false => Err(loaded.damaged(self.group, "it ends before its last row".into())),
            };
        };
        let decoded = Decoded::new(loaded, self.group, &self.projection, &batch)?;
        let positions = self.take_positions(decoded.rows());
        if positions.len() != decoded.rows() {
            return Err(loaded.damaged(self.group, "it has more rows than the footer says".into()));
        }
        Ok(Some((decoded, positions)))
    }

    fn take_positions(&mut self, rows: usize) -> Vec<Position> {
        let mut positions = Vec::with_capacity(rows);
        while let Some(run) = self.runs.get(self.runs_passed).filter(|_| positions.len() < rows) {
            let from = run.start + self.passed;
            let to = run.end.min(from + (rows - positions.len()) as u32);
            positions.extend(from..to);
            self.passed += to - from;
            if to == run.end {
                (self.runs_passed, self.passed) = (self.runs_passed + 1, 0);
            }
        }
        positions
    }
}
