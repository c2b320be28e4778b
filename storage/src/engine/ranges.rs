//! Finds keys and ranges of keys in a table's segments. Reads files.
//!
//! Replay uses it to find the rows that the log has changed. A damaged segment does not stop replay
//! ([`Segment::or_refused`]).

use super::{deletion_vector::Position, manifest::SegmentId, segment::Segment, state::Table, tablet::Tablet};
use crate::{KeyRange, Result, RowKey};
use std::{collections::BTreeSet, ops::Range};

/// The positions of a segment that lie in both ranges of keys.
///
/// # Errors
/// Errors of reading files.
pub(crate) fn positions_in(segment: &Segment, tablet: &KeyRange, range: &KeyRange) -> Result<Range<Position>> {
    segment.positions(&tablet.intersect(range))
}

/// The positions of a range, by segment; none is empty.
///
/// # Errors
/// Errors of reading files.
pub(crate) fn positions_of(table: &Table, range: &KeyRange) -> Result<Vec<(SegmentId, Range<Position>)>> {
    let mut found = Vec::new();
    for tablet in table.tablets.of_range(range) {
        for segment in &tablet.segments {
            let positions = segment.or_refused(positions_in(segment, &tablet.range, range))?.unwrap_or_default();
            if !positions.is_empty() {
                found.push((segment.meta().id, positions));
            }
        }
    }
    Ok(found)
}

/// The positions of keys, by segment, live or dead.
///
/// # Errors
/// Errors of reading files.
pub(crate) fn locate_all(table: &Table, keys: &BTreeSet<RowKey>) -> Result<Vec<(SegmentId, Position)>> {
    let mut found = Vec::new();
    for tablet in table.tablets.iter() {
        let keys = keys_in(keys, tablet);
        for segment in &tablet.segments {
            let meta = segment.meta();
            let from = keys.partition_point(|key| **key < meta.first[..]);
            let to = keys.partition_point(|key| **key <= meta.last[..]);
            if from < to {
                let positions =
                    segment.or_refused(segment.resolve(keys[from..to].iter().copied()))?.unwrap_or_default();
                found.extend(positions.into_iter().flatten().map(|position| (meta.id, position)));
            }
        }
    }
    Ok(found)
}

fn keys_in<'a>(keys: &'a BTreeSet<RowKey>, tablet: &Tablet<Segment>) -> Vec<&'a [u8]> {
    let range = &tablet.range;
    let bounds = super::memtable::bounds(range);
    if range.is_empty() { Vec::new() } else { keys.range::<[u8], _>(bounds).map(|key| &key[..]).collect() }
}
