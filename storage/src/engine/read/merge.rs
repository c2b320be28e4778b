//! Merges the rows of a range from memtables and segments, in the order of keys.
//!
//! A key has one live location, so that a merge only takes the least of the next keys (the greatest, if keys descend).
//! Keys of the active memtable hide those of the frozen one; positions of segments whose row is elsewhere are dead.
//! Tablets are opened one after the other.

use super::{Parts, bounds, cells::CellSelection};
use crate::{
    KeyRange, Result, RowKey,
    engine::{
        memtable::Slot,
        ranges::positions_in,
        segment::{self, DecodedRow, RowsRequest, Segment, SegmentRow},
        state::Table,
        tablet::Tablet,
    },
};
use bytes::Bytes;
use imbl::OrdMap;
use std::{collections::VecDeque, ops::Bound, sync::Arc, vec};

/// Maximum slots taken out of a memtable at once: at first as many as rows are needed soon, then twice as many each
/// time.
const SLOTS_BUFFERED: usize = 256;

/// The stored content of a row.
#[derive(Debug)]
pub(super) enum Body {
    /// All of it, encoded, and the stamp that it is as of; `None` for a row that is up to date.
    Encoded(Bytes, Option<i64>),
    /// The columns of a segment that have its selected cells, and the stamp that it is as of.
    Decoded(DecodedRow, i64),
    /// One column that it has, by family and qualifier, of which only that counts, and the stamp.
    Witness(u32, Bytes, i64),
}

/// A merge in progress.
pub(super) struct Merge {
    table: Table,
    parts: Parts,
    range: KeyRange,
    wanted: Arc<CellSelection>,
    reversed: bool,
    batch_rows: usize,
    memory: Vec<Slots>,
    /// Tablets to be opened, in the scan's order.
    tablets: VecDeque<Tablet<Segment>>,
    /// Segments of the open tablet.
    segments: Vec<Rows>,
}

impl Merge {
    pub(super) fn new(
        table: &Table,
        range: &KeyRange,
        parts: &Parts,
        wanted: &Arc<CellSelection>,
        (reversed, batch_rows): (bool, usize),
    ) -> Self {
        let memory = if parts.have_memory() { Slots::of(table, (range, reversed), batch_rows) } else { Vec::new() };
        let mut tablets: VecDeque<Tablet<Segment>> = table.tablets.of_range(range).iter().cloned().collect();
        if reversed {
            tablets.make_contiguous().reverse();
        }
        let (table, parts) = (table.clone(), parts.clone());
        let (range, wanted) = (range.clone(), Arc::clone(wanted));
        Self { table, parts, range, wanted, reversed, batch_rows, memory, tablets, segments: Vec::new() }
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Option<(RowKey, Body)>> {
        self.refill()?;
        // A linear search: there are only a few parts.
        let mut next: Option<(usize, &RowKey)> = None;
        let memory = self.memory.iter().map(|slots| slots.buffer.front().map(|(key, _)| key));
        let segments = self.segments.iter().map(|rows| rows.batch.as_slice().first().map(|row| &row.key));
        for (part, key) in memory.chain(segments).enumerate() {
            let Some(key) = key else { continue };
            let is_before = |other: &RowKey| if self.reversed { key > other } else { key < other };
            if next.is_none_or(|(_, other)| is_before(other)) {
                next = Some((part, key));
            }
        }
        let Some((part, _)) = next else { return Ok(None) };
        if let Some(slots) = self.memory.get_mut(part) {
            let (key, row) = slots.buffer.pop_front().expect("it has the next key");
            return Ok(Some((key, Body::Encoded(row, slots.as_of))));
        }
        let rows = &mut self.segments[part - self.memory.len()];
        let SegmentRow { key, row } = rows.batch.next().expect("it has the next key");
        Ok(Some((key, Body::Decoded(row, rows.stamp))))
    }

    /// Fetches the next row of every part that is not at its end.
    fn refill(&mut self) -> Result<()> {
        self.memory.iter_mut().for_each(Slots::refill);
        loop {
            let mut at = 0;
            while at < self.segments.len() {
                if self.segments[at].refill()? {
                    at += 1;
                } else {
                    self.segments.swap_remove(at);
                }
            }
            if !self.segments.is_empty() {
                return Ok(());
            }
            let Some(tablet) = self.tablets.pop_front() else { return Ok(()) };
            for segment in &tablet.segments {
                self.segments.extend(self.open(
                    segment,
                    &tablet.range,
                    segment::decoded_bytes(tablet.segments.len()),
                )?);
            }
        }
    }

    fn open(&self, segment: &Arc<Segment>, tablet: &KeyRange, decoded_bytes: usize) -> Result<Option<Rows>> {
        let positions = positions_in(segment, tablet, &self.range)?;
        let meta = segment.meta();
        let dead = self.table.deletion_vectors.get(&meta.id).cloned().unwrap_or_default();
        let ranges = self.parts.of(meta.id, positions);
        if ranges.iter().all(|range| dead.count_in(range.clone()) == u64::from(range.end - range.start)) {
            return Ok(None);
        }
        let sure = match self.wanted.needs_witness() {
            true => segment.witness(&self.wanted.sure_families())?,
            false => None,
        };
        let request = RowsRequest {
            ranges,
            dead,
            wanted: self.wanted.of_segment(sure),
            older: self.wanted.older,
            reversed: self.reversed,
            rows_soon: self.batch_rows,
            decoded_bytes,
        };
        Ok(Some(Rows { rows: segment.rows(request)?, batch: Vec::new().into_iter(), stamp: meta.stamp }))
    }
}

/// Rows of a segment, batch by batch.
struct Rows {
    rows: segment::Rows,
    batch: vec::IntoIter<SegmentRow>,
    stamp: i64,
}

impl Rows {
    /// Fetches rows if none is buffered; `false` at the end.
    fn refill(&mut self) -> Result<bool> {
        while self.batch.as_slice().is_empty() {
            match self.rows.next() {
                Some(batch) => self.batch = batch?.into_iter(),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Rows of a memtable, a few at a time.
struct Slots {
    slots: OrdMap<RowKey, Slot>,
    /// Keys to skip.
    hidden: OrdMap<RowKey, Slot>,
    as_of: Option<i64>,
    range: KeyRange,
    reversed: bool,
    buffer: VecDeque<(RowKey, Bytes)>,
    /// Number of slots to take next.
    soon: usize,
    /// The last key taken out.
    last: Option<RowKey>,
    is_done: bool,
}

impl Slots {
    /// The slots of a table's memtables; about `rows_soon` rows are needed soon.
    fn of(table: &Table, what: (&KeyRange, bool), rows_soon: usize) -> Vec<Self> {
        let slots = table.active.slots.clone();
        let active = Self::new(slots, OrdMap::new(), None, what, rows_soon);
        let frozen = table.frozen.as_ref().map(|frozen| {
            let slots = frozen.memtable.slots.clone();
            Self::new(slots, table.active.slots.clone(), Some(frozen.stamp), what, rows_soon)
        });
        [active].into_iter().chain(frozen).collect()
    }

    fn new(
        slots: OrdMap<RowKey, Slot>,
        hidden: OrdMap<RowKey, Slot>,
        as_of: Option<i64>,
        (range, reversed): (&KeyRange, bool),
        rows_soon: usize,
    ) -> Self {
        let (is_done, range) = (slots.is_empty() || range.is_empty(), range.clone());
        let soon = rows_soon.clamp(1, SLOTS_BUFFERED);
        Self { slots, hidden, as_of, range, reversed, buffer: VecDeque::new(), soon, last: None, is_done }
    }

    fn refill(&mut self) {
        while self.buffer.is_empty() && !self.is_done {
            let (mut start, mut end) = bounds(&self.range);
            if let Some(last) = &self.last {
                *(if self.reversed { &mut end } else { &mut start }) = Bound::Excluded(last);
            }
            let mut slots = self.slots.range::<_, [u8]>((start, end));
            let mut last = None;
            for _ in 0..self.soon {
                let Some((key, slot)) = (if self.reversed { slots.next_back() } else { slots.next() }) else {
                    self.is_done = true;
                    break;
                };
                last = Some(key.clone());
                if let Some(row) = &slot.row
                    && !self.hidden.contains_key(key)
                {
                    self.buffer.push_back((key.clone(), row.clone()));
                }
            }
            drop(slots);
            self.last = last.or(self.last.take());
            self.soon = SLOTS_BUFFERED.min(self.soon * 2);
        }
    }
}
