//! Merges the rows of several segments in the order of keys.
//!
//! Segments of a tablet mostly hold runs of neighbouring keys. So the segment that had the last row is asked first: its
//! next row follows as long as it comes before the next row of the runner-up. Most rows take one comparison, however
//! many segments there are.

use crate::{
    Result, RowKey,
    engine::{
        deletion_vector::{DeletionVector, Position},
        manifest::SegmentMeta,
        segment::EncodedRow,
    },
};
use std::{ops::Range, vec};

/// A segment to be compacted.
#[derive(Debug)]
pub(crate) struct Input<R> {
    /// Stamp that its rows are as of, in microseconds.
    pub(crate) stamp: i64,
    /// The positions that belong to the tablet.
    pub(crate) positions: Range<Position>,
    /// Approximate bytes of the live rows among them.
    pub(crate) bytes: u64,
    /// The live rows among them, in order.
    pub(crate) batches: R,
}

impl<R> Input<R> {
    /// The given positions of a segment, some of which are dead.
    pub(crate) fn new(meta: &SegmentMeta, positions: Range<Position>, dead: &DeletionVector, batches: R) -> Self {
        let live = u64::from(positions.end - positions.start) - dead.count_in(positions.clone());
        let bytes = u128::from(meta.bytes + meta.side_bytes) * u128::from(live) / u128::from(meta.rows.max(1));
        Self { stamp: meta.stamp, positions, bytes: u64::try_from(bytes).unwrap_or(u64::MAX), batches }
    }
}

/// See the module.
pub(super) struct Merge<R> {
    inputs: Vec<Head<R>>,
    /// The input with the least key, and the one with the least key among the others.
    leader: Option<(usize, Option<usize>)>,
    begun: bool,
}

/// An input, with its next row.
struct Head<R> {
    batches: R,
    batch: vec::IntoIter<EncodedRow>,
    next: Option<EncodedRow>,
}

impl<R: Iterator<Item = Result<Vec<EncodedRow>>>> Head<R> {
    /// Takes the next row, and reads the one after it.
    fn advance(&mut self) -> Result<Option<EncodedRow>> {
        let after = loop {
            match self.batch.next() {
                Some(row) => break Some(row),
                None => match self.batches.next() {
                    Some(batch) => self.batch = batch?.into_iter(),
                    None => break None,
                },
            }
        };
        debug_assert!(
            after.as_ref().zip(self.next.as_ref()).is_none_or(|(after, next)| after.key > next.key),
            "the rows of a segment are in order"
        );
        Ok(std::mem::replace(&mut self.next, after))
    }

    fn key(&self) -> Option<&RowKey> {
        self.next.as_ref().map(|row| &row.key)
    }
}

impl<R: Iterator<Item = Result<Vec<EncodedRow>>>> Merge<R> {
    pub(super) fn new(inputs: Vec<Input<R>>) -> Self {
        let head = |input: Input<R>| Head { batches: input.batches, batch: Vec::new().into_iter(), next: None };
        Self { inputs: inputs.into_iter().map(head).collect(), leader: None, begun: false }
    }

    /// The next row, and the index of its input.
    pub(super) fn next(&mut self) -> Result<Option<(usize, EncodedRow)>> {
        if !self.begun {
            self.inputs.iter_mut().try_for_each(|head| head.advance().map(drop))?;
            self.begun = true;
        }
        if !self.leads_still() {
            self.leader = self.find_leader();
        }
        let Some((leader, _)) = self.leader else { return Ok(None) };
        Ok(self.inputs[leader].advance()?.map(|row| (leader, row)))
    }

    fn leads_still(&self) -> bool {
        self.leader.is_some_and(|(leader, runner_up)| {
            let key = self.inputs[leader].key();
            key.is_some_and(|key| runner_up.and_then(|at| self.inputs[at].key()).is_none_or(|other| key < other))
        })
    }

    fn find_leader(&self) -> Option<(usize, Option<usize>)> {
        let keys = || self.inputs.iter().enumerate().filter_map(|(at, head)| Some((head.key()?, at)));
        let (least, leader) = keys().min()?;
        let second = keys().filter(|(_, at)| *at != leader).min();
        assert!(second.is_none_or(|(key, _)| key > least), "a row lives in one segment: {least:?}");
        Some((leader, second.map(|(_, at)| at)))
    }
}
