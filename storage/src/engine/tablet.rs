//! *Tablets*: the partition of a table's keys and segments. Pure.
//!
//! A tablet is a range of keys and the segments that hold its rows: at most one *base*, which a compaction wrote, and
//! *deltas*, which flushes wrote. Ranges are disjoint and together cover every key. A row is live in at most one
//! segment of its key's tablet.
//!
//! ```text
//! flush       with_deltas           a delta joins every tablet that its keys reach into
//! load        with_loaded           bases get tablets of their own, other segments join like deltas
//! compaction  with_compacted        segments of one tablet become bases, each with a tablet, split at their first keys
//! purge       without_boundaries_in boundaries move
//! ```
//!
//! A delta may be in several tablets: if it was flushed while a tablet was compacted into several, or was too small to
//! be split. So a segment counts only *within a tablet's range*: its other keys belong to other tablets, or to rows
//! that were moved long ago.
//!
//! [`choose`](choose::choose) picks the next tablet to compact.

pub(crate) mod choose;
#[cfg(test)]
mod tests;

use super::{
    manifest::{SegmentId, SegmentMeta},
    segment::Segment,
};
use crate::{KeyRange, Result, RowKey};
use std::{fmt, sync::Arc};

/// The element of tablets: a segment, or in tests its description.
pub(crate) trait Stored {
    /// The segment's description.
    fn meta(&self) -> &SegmentMeta;
}

impl Stored for Segment {
    fn meta(&self) -> &SegmentMeta {
        self.meta()
    }
}

impl Stored for SegmentMeta {
    fn meta(&self) -> &SegmentMeta {
        self
    }
}

/// A range of keys, and its segments.
pub(crate) struct Tablet<S = Segment> {
    /// The keys that belong to it.
    pub(crate) range: KeyRange,
    /// The base first, if there is one; then the deltas, oldest first.
    pub(crate) segments: Vec<Arc<S>>,
}

/// The tablets of a table, in the order of keys: empty if the table has no segment, else every key has one. A copy is
/// free.
pub(crate) struct Tablets<S = Segment>(Arc<Vec<Tablet<S>>>);

impl<S> Clone for Tablet<S> {
    fn clone(&self) -> Self {
        Self { range: self.range.clone(), segments: self.segments.clone() }
    }
}

impl<S> Clone for Tablets<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Default for Tablets<S> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<S: Stored> fmt::Debug for Tablet<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self.segments.iter().map(|segment| segment.meta().id);
        write!(f, "{:?} ", self.range)?;
        f.debug_list().entries(ids).finish()
    }
}

impl<S: Stored> fmt::Debug for Tablets<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

/// Whether the segment's bounds overlap the range.
pub(crate) fn reaches_into(meta: &SegmentMeta, range: &KeyRange) -> bool {
    !range.is_empty()
        && meta.last[..] >= range.start[..]
        && range.end.as_ref().is_none_or(|end| meta.first[..] < end[..])
}

impl<S: Stored> Tablets<S> {
    /// The tablets of a manifest; `None` if they overlap, are out of order, or do not cover all keys.
    pub(crate) fn new(tablets: Vec<Tablet<S>>) -> Option<Self> {
        let meet = tablets.windows(2).all(|pair| pair[0].range.end.as_ref() == Some(&pair[1].range.start));
        let begin = tablets.first().is_none_or(|first| first.range.start.is_empty());
        let end = tablets.last().is_none_or(|last| last.range.end.is_none());
        let hold = tablets.iter().all(|tablet| !tablet.range.is_empty());
        (meet && begin && end && hold).then(|| Self(Arc::new(tablets)))
    }

    /// The tablets, in the order of keys.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Tablet<S>> {
        self.0.iter()
    }

    /// Number of tablets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the table has no segment yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tablet that the key belongs to.
    pub(crate) fn of_key(&self, key: &[u8]) -> Option<&Tablet<S>> {
        let after = self.0.partition_point(|tablet| tablet.range.start[..] <= *key);
        self.0.get(after.checked_sub(1)?)
    }

    /// The tablets that keys of the range belong to.
    pub(crate) fn of_range(&self, range: &KeyRange) -> &[Tablet<S>] {
        if range.is_empty() {
            return &[];
        }
        let from = self.0.partition_point(|tablet| tablet.range.end.as_ref().is_some_and(|end| *end <= range.start));
        let to = match &range.end {
            Some(end) => self.0.partition_point(|tablet| tablet.range.start < *end),
            None => self.0.len(),
        };
        &self.0[from..to]
    }

    /// Whether the segment is in the key's tablet.
    pub(crate) fn has_segment(&self, key: &[u8], segment: SegmentId) -> bool {
        self.of_key(key).is_some_and(|tablet| tablet.segments.iter().any(|one| one.meta().id == segment))
    }

    /// Whether the segment is in any tablet.
    pub(crate) fn names(&self, segment: SegmentId) -> bool {
        self.0.iter().any(|tablet| tablet.segments.iter().any(|one| one.meta().id == segment))
    }

    /// Adds flushed deltas, each to every tablet that its keys reach into.
    pub(crate) fn with_deltas(&self, deltas: Vec<Arc<S>>) -> Self {
        if deltas.is_empty() {
            return self.clone();
        }
        let mut tablets = match self.is_empty() {
            true => vec![Tablet { range: KeyRange::all(), segments: Vec::new() }],
            false => self.0.to_vec(),
        };
        for tablet in &mut tablets {
            let new = deltas.iter().filter(|delta| reaches_into(delta.meta(), &tablet.range));
            tablet.segments.extend(new.cloned());
        }
        Self(Arc::new(tablets))
    }

    /// Whether a segment can become an additional base: it lies in one tablet, and overlaps no base there.
    pub(crate) fn has_room_for_base(&self, meta: &SegmentMeta) -> bool {
        let Some(tablet) = self.of_key(&meta.first) else { return self.is_empty() };
        let bases = || tablet.segments.iter().map(|segment| segment.meta()).filter(|one| one.base);
        tablet.range.contains(&meta.last) && bases().all(|base| base.last < meta.first || base.first > meta.last)
    }

    /// Adds the segments of a load, which are disjoint and in the order of keys. Bases, for which there [is
    /// room](Self::has_room_for_base), split their tablets: each base has its own tablet then, and deltas are in every
    /// tablet that their keys reach into. Other segments join like [deltas](Self::with_deltas).
    pub(crate) fn with_loaded(&self, segments: &[Arc<S>]) -> Self {
        let deltas: Vec<_> = segments.iter().filter(|segment| !segment.meta().base).cloned().collect();
        let mut tablets = match self.is_empty() && !segments.is_empty() {
            true => vec![Tablet { range: KeyRange::all(), segments: Vec::new() }],
            false => self.0.to_vec(),
        };
        tablets = tablets
            .into_iter()
            .flat_map(|tablet| {
                let lies_in = |segment: &&Arc<S>| segment.meta().base && tablet.range.contains(&segment.meta().first);
                let mut bases: Vec<Arc<S>> = segments.iter().filter(lies_in).cloned().collect();
                if bases.is_empty() {
                    return vec![tablet];
                }
                let (before, others): (Vec<_>, Vec<_>) =
                    tablet.segments.into_iter().partition(|segment| segment.meta().base);
                bases.extend(before);
                bases.sort_by(|a, b| a.meta().first.cmp(&b.meta().first));
                let parts = divided(&tablet.range, &bases).into_iter().map(|(range, base)| {
                    let reaching = others.iter().filter(|segment| reaches_into(segment.meta(), &range)).cloned();
                    let segments = base.into_iter().chain(reaching).collect();
                    Tablet { range, segments }
                });
                parts.collect()
            })
            .collect();
        Self(Arc::new(tablets)).with_deltas(deltas)
    }

    /// Replaces the inputs of a compaction by its bases. All inputs are segments of the tablet of this range; each base
    /// gets its own tablet. Deltas that joined the tablet meanwhile stay, in every new tablet that their keys reach
    /// into. A tablet without segments is joined to a neighbour. `None` if there is no tablet of this range any more,
    /// or a load has given it a base: it would have two.
    ///
    /// The bases are in the order of keys. Joining changes a neighbour's range, so two tablets of one table must not be
    /// compacted at the same time.
    pub(crate) fn with_compacted(&self, range: &KeyRange, inputs: &[SegmentId], bases: Vec<Arc<S>>) -> Option<Self> {
        let at = self.0.iter().position(|tablet| tablet.range == *range)?;
        let (before, rest) = self.0.split_at(at);
        let (compacted, after) = rest.split_first().expect("`at` is a tablet");
        let stay = || compacted.segments.iter().filter(|segment| !inputs.contains(&segment.meta().id));
        if stay().any(|segment| segment.meta().base) {
            return None;
        }
        let mut tablets = before.to_vec();
        for (range, base) in divided(range, &bases) {
            let deltas = stay().filter(|segment| reaches_into(segment.meta(), &range)).cloned().collect::<Vec<_>>();
            let segments = base.into_iter().chain(deltas).collect();
            tablets.push(Tablet { range, segments });
        }
        tablets.extend_from_slice(after);
        if tablets[at].segments.is_empty() {
            join(&mut tablets, at);
        }
        Some(Self(Arc::new(tablets)))
    }

    /// Moves boundaries that are keys of the ranges up, each to the next key in a segment of its two tablets, or to the
    /// end of the range. The ranges are disjoint and not adjacent. So no key of a segment changes its tablet. A tablet
    /// whose range becomes empty is joined to the previous one. `None` if no boundary moves.
    ///
    /// `next` returns the least key of a segment that is not less than another.
    ///
    /// # Errors
    /// Errors of `next`.
    pub(crate) fn without_boundaries_in(
        &self,
        ranges: &[KeyRange],
        next: impl Fn(&S, &[u8]) -> Result<Option<RowKey>>,
    ) -> Result<Option<Self>> {
        let mut moved = false;
        let mut tablets: Vec<Tablet<S>> = Vec::with_capacity(self.0.len());
        for tablet in self.iter() {
            let mut tablet = tablet.clone();
            let boundary = tablet.range.start.clone();
            let range = ranges.iter().find(|range| range.contains(&boundary));
            if let (Some(before), Some(range)) = (tablets.last_mut(), range) {
                let mut to = range.end.clone();
                for segment in before.segments.iter().chain(&tablet.segments) {
                    let key = next(segment, &boundary)?.map(RowKey::into_bytes);
                    to = match (to, key) {
                        (Some(to), Some(key)) => Some(to.min(key)),
                        (to, key) => to.or(key),
                    };
                }
                moved |= to.as_ref() != Some(&boundary);
                match to.filter(|to| tablet.range.end.as_ref().is_none_or(|end| to < end)) {
                    Some(to) => {
                        before.range.end = Some(to.clone());
                        tablet.range.start = to;
                    }
                    None => {
                        before.range.end = tablet.range.end;
                        continue;
                    }
                }
            }
            tablets.push(tablet);
        }
        Ok(moved.then(|| Self(Arc::new(tablets))))
    }

    /// Without the segments for which `leaves` is true. The tablets stay.
    #[cfg(test)]
    pub(crate) fn without(&self, leaves: impl Fn(&S) -> bool) -> Self {
        if !self.0.iter().any(|tablet| tablet.segments.iter().any(|segment| leaves(segment))) {
            return self.clone();
        }
        let stay = |segments: &[Arc<S>]| segments.iter().filter(|segment| !leaves(segment)).cloned().collect();
        let tablets =
            self.0.iter().map(|tablet| Tablet { range: tablet.range.clone(), segments: stay(&tablet.segments) });
        Self(Arc::new(tablets.collect()))
    }
}

/// Splits a range at the bases' first keys: the ranges with their bases, or the whole range if there is no base.
fn divided<S: Stored>(range: &KeyRange, bases: &[Arc<S>]) -> Vec<(KeyRange, Option<Arc<S>>)> {
    let first = |base: &Arc<S>| RowKey::bytes(&base.meta().first).clone();
    debug_assert!(bases.iter().all(|base| range.contains(&base.meta().first) && range.contains(&base.meta().last)));
    let Some((least, others)) = bases.split_first() else { return vec![(range.clone(), None)] };
    let mut divided = vec![(range.clone(), Some(Arc::clone(least)))];
    for base in others {
        let boundary = first(base);
        divided.last_mut().expect("it begins with one").0.end = Some(boundary.clone());
        divided.push((KeyRange::new(boundary, range.end.clone()), Some(Arc::clone(base))));
    }
    divided
}

/// Joins a tablet without segments to the previous or next one. A neighbour with a segment that overlaps the range is
/// not eligible: its keys there belong to rows that were moved or removed, and would reappear.
fn join<S: Stored>(tablets: &mut Vec<Tablet<S>>, at: usize) {
    let empty = tablets[at].range.clone();
    let fits = |tablet: &Tablet<S>| !tablet.segments.iter().any(|segment| reaches_into(segment.meta(), &empty));
    if at > 0 && fits(&tablets[at - 1]) {
        tablets[at - 1].range.end = empty.end;
        tablets.remove(at);
    } else if tablets.get(at + 1).is_some_and(fits) {
        tablets[at + 1].range.start = empty.start;
        tablets.remove(at);
    }
}
