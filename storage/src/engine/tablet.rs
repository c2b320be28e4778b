//! A table's segments in memory: *tablets*, which divide the keys among them. Pure.
//!
//! A tablet is a range of keys and the segments that hold its rows: at most one *base*, which a compaction wrote, and *deltas*, which
//! flushes wrote. Ranges are disjoint and together hold every key. A row lives in one segment of its key's tablet at most.
//!
//! ```text
//! flush       with_deltas      a delta joins every tablet that its keys reach into
//! load        with_loaded      bases among them have tablets of their own, the others join like deltas
//! compaction  with_compacted   the segments of one tablet become new bases; each has a tablet, and the ranges meet at their first keys
//! purge       without_boundaries  the ranges meet elsewhere
//! ```
//!
//! A delta may be in several tablets: one that came while a tablet was compacted into several, or that was too small to be divided. So
//! a segment counts only *within a tablet's range*: its other keys belong to other tablets, or to rows that were long moved.
//!
//! [`choose`](choose::choose) says which tablet to compact next.

pub(crate) mod choose;
#[cfg(test)]
mod tests;

use super::{
    manifest::{SegmentId, SegmentMeta},
    segment::Segment,
};
use crate::{KeyRange, Result, RowKey};
use std::{fmt, sync::Arc};

/// What tablets are made of: segments, or in tests what describes them.
pub(crate) trait Stored {
    /// Describes the segment.
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

/// A range of keys, and where its rows are.
pub(crate) struct Tablet<S = Segment> {
    /// The keys that belong to it.
    pub(crate) range: KeyRange,
    /// The base first, if there is one; then the deltas, oldest first.
    pub(crate) segments: Vec<Arc<S>>,
}

/// The tablets of a table, in the order of keys: none as long as the table has no segment, else every key has one. A copy costs nothing.
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

/// Whether the segment's first and last key leave room for keys of the range.
pub(crate) fn reaches_into(meta: &SegmentMeta, range: &KeyRange) -> bool {
    !range.is_empty()
        && meta.last[..] >= range.start[..]
        && range.end.as_ref().is_none_or(|end| meta.first[..] < end[..])
}

impl<S: Stored> Tablets<S> {
    /// The tablets of a manifest; `None` when there are some that overlap, are out of order, or leave keys out.
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

    /// How many there are.
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

    /// Whether the segment is one of those of the key's tablet.
    pub(crate) fn has_segment(&self, key: &[u8], segment: SegmentId) -> bool {
        self.of_key(key).is_some_and(|tablet| tablet.segments.iter().any(|one| one.meta().id == segment))
    }

    /// Whether the segment is one of any tablet.
    pub(crate) fn names(&self, segment: SegmentId) -> bool {
        self.0.iter().any(|tablet| tablet.segments.iter().any(|one| one.meta().id == segment))
    }

    /// With deltas that a flush wrote: each in every tablet that its keys reach into.
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

    /// Whether a segment can be one more base: it lies in one tablet, and reaches into no base there.
    pub(crate) fn has_room_for_base(&self, meta: &SegmentMeta) -> bool {
        let Some(tablet) = self.of_key(&meta.first) else { return self.is_empty() };
        let bases = || tablet.segments.iter().map(|segment| segment.meta()).filter(|one| one.base);
        tablet.range.contains(&meta.last) && bases().all(|base| base.last < meta.first || base.first > meta.last)
    }

    /// With the segments of a load, in the order of keys and disjoint. Those that are bases, for which there [is
    /// room](Self::has_room_for_base), divide their tablets: each base has one of its own then, and deltas are in every one that their keys reach
    /// into. The others join as [deltas](Self::with_deltas) do.
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

    /// With the bases that a compaction made of the inputs, all of them segments of the tablet of this range: each base has a tablet of
    /// its own. Deltas that came to the tablet meanwhile stay, in every new tablet that their keys reach into. A tablet without
    /// any is joined to a neighbour. `None` when there is no tablet of this range any more, or a load has given it a base: it would have two.
    ///
    /// The bases are in the order of keys. Joining changes a neighbour's range, so that two tablets of one table cannot be under
    /// compaction at a time.
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

    /// With those boundaries moved up that are keys of the ranges, which are disjoint and not adjacent: each to the next key that a
    /// segment of its two tablets has, or to the end of the range. So no key of a segment changes its tablet. A tablet that would hold
    /// nothing is joined to the one before. `None` when there is no boundary to move.
    ///
    /// `next` gives the least key of a segment that is not less than another.
    ///
    /// # Errors
    /// Those of `next`.
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

    /// Without the segments of which this is said. The tablets stay.
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

/// The ranges into which the bases' first keys divide a range, and the base of each; the range itself when there is no base.
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

/// Joins a tablet without segments to the one before or after it. A neighbour with a segment whose keys reach into the range will not
/// do: these are keys of rows that were moved or removed, and would be there again.
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
