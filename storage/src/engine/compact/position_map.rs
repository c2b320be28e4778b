//! Maps positions of a compaction's inputs to positions of its outputs.
//!
//! Each written row has a *rank*, in the order of keys over all outputs. The map takes four bytes for each position of
//! an input.

use crate::engine::deletion_vector::{DeletionVector, Position};
use std::ops::Range;

/// The rank of a row that was not written.
const GONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PositionMap {
    inputs: Vec<InputPositions>,
    /// The rank of the first row of each output.
    starts: Vec<u32>,
    /// Rows written.
    rows: u32,
}

#[derive(Debug)]
struct InputPositions {
    /// The first position.
    first: Position,
    /// Ranks of it and the following positions.
    ranks: Vec<u32>,
}

impl PositionMap {
    /// A map for inputs with these positions, with no rows moved yet.
    pub(super) fn new(inputs: impl Iterator<Item = Range<Position>>) -> Self {
        let input =
            |positions: Range<Position>| InputPositions { first: positions.start, ranks: vec![GONE; positions.len()] };
        Self { inputs: inputs.map(input).collect(), starts: Vec::new(), rows: 0 }
    }

    /// Begins the next output.
    pub(super) fn begin_output(&mut self) {
        self.starts.push(self.rows);
    }

    /// Removes the last output, which has no row.
    pub(super) fn drop_output(&mut self) {
        debug_assert_eq!(self.starts.last(), Some(&self.rows));
        self.starts.pop();
    }

    /// Maps a position of an input to a position of the last output.
    pub(super) fn set(&mut self, input: usize, position: Position, new: Position) {
        let start = self.starts.last().expect("an output was begun");
        let rank =
            start.checked_add(new).filter(|rank| *rank != GONE).expect("segments of a tablet have below 2^32 rows");
        let InputPositions { first, ranks } = &mut self.inputs[input];
        ranks[(position - *first) as usize] = rank;
        self.rows = rank + 1;
    }

    /// The output that the row of an input's position was written to, and its position there; `None` if it was not
    /// written.
    #[cfg(test)]
    pub(crate) fn get(&self, input: usize, position: Position) -> Option<(usize, Position)> {
        let InputPositions { first, ranks } = self.inputs.get(input)?;
        let rank = *ranks.get(position.checked_sub(*first)? as usize)?;
        (rank != GONE).then(|| self.of_rank(rank))
    }

    fn of_rank(&self, rank: u32) -> (usize, Position) {
        let output = self.starts.partition_point(|start| *start <= rank) - 1;
        (output, rank - self.starts[output])
    }

    /// Marks rows dead in the outputs whose input positions died since: those in `now` and not in `then`. `dead` has
    /// one deletion vector for each output.
    pub(crate) fn remap(&self, input: usize, then: &DeletionVector, now: &DeletionVector, dead: &mut [DeletionVector]) {
        let Some(InputPositions { first, ranks }) = self.inputs.get(input) else { return };
        // Ranks ascend within an input: adjacent ones form a run.
        let mut run = 0..0;
        for position in now.difference(then) {
            let rank = position.checked_sub(*first).and_then(|at| ranks.get(at as usize).copied()).unwrap_or(GONE);
            if rank == GONE {
                continue;
            }
            if rank != run.end {
                self.insert(dead, std::mem::replace(&mut run, rank..rank));
            }
            run.end = rank + 1;
        }
        self.insert(dead, run);
    }

    /// Marks the rows of these ranks dead.
    fn insert(&self, dead: &mut [DeletionVector], mut ranks: Range<u32>) {
        while !ranks.is_empty() {
            let (output, from) = self.of_rank(ranks.start);
            let end = self.starts.get(output + 1).map_or(ranks.end, |next| ranks.end.min(*next));
            dead[output].insert_range(from..from + (end - ranks.start));
            ranks.start = end;
        }
    }
}
