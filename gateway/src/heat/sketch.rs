//! The ranges of a table's keys in which the running minute is counted.
//!
//! They are sorted and cover all keys: each ends where the next begins. [`cut`](Sketch::cut) gives a tenant's span
//! borders of its own, [`split`](Sketch::split) halves what is hot at a key that was seen there, and
//! [`merge`](Sketch::merge) joins neighbours. None of them loses a count.
//!
//! Counting takes the lock that readers share, once for a batch of rows, and adds to atomic numbers.

use super::cells::{Cell, Counts};
use crate::lock::Mutex;
use bytes::Bytes;
use keyspan_storage::KeyRange;
use std::{
    cmp::Ordering,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Keys of a range that are remembered, to split it in the middle of them.
const SAMPLES_MAX: usize = 16;
/// One batch of this number gives a key to remember.
const SAMPLE_EVERY: u64 = 4;
/// The bytes of a border within a span: a longer key is cut off.
const BORDER_BYTES_MAX: usize = 128;

/// A range of keys and what was done to it in the running minute.
#[derive(Debug)]
struct Range {
    from: Bytes,
    /// See [`Cell::tenant`].
    tenant: Option<u32>,
    counts: [AtomicU64; 4],
    /// The rows of the minutes before, each minute half of what it was.
    before: u64,
    /// Batches that were counted.
    batches: AtomicU64,
    samples: Mutex<Vec<Bytes>>,
}

impl Range {
    fn new(from: Bytes, tenant: Option<u32>) -> Self {
        let (counts, samples) = (Default::default(), Mutex::default());
        Self { from, tenant, counts, before: 0, batches: AtomicU64::new(0), samples }
    }

    fn counts(&self) -> Counts {
        Counts::of_array(self.counts.each_ref().map(|count| count.load(Relaxed)))
    }

    fn add(&self, more: Counts) {
        for (count, more) in self.counts.iter().zip(more.array()) {
            if more > 0 {
                count.fetch_add(more, Relaxed);
            }
        }
    }

    fn heat(&self) -> u64 {
        self.before.saturating_add(self.counts().rows())
    }

    /// Remembers a key of some batches.
    fn sample(&self, key: impl FnOnce() -> Bytes) {
        let number = self.batches.fetch_add(1, Relaxed);
        if !number.is_multiple_of(SAMPLE_EVERY) {
            return;
        }
        let mut key = key();
        if key.len() > self.from.len() + BORDER_BYTES_MAX {
            key = Bytes::copy_from_slice(&key[..self.from.len() + BORDER_BYTES_MAX]);
        }
        let mut samples = self.samples.lock();
        if samples.len() < SAMPLES_MAX {
            samples.push(key);
        } else {
            samples[(number / SAMPLE_EVERY) as usize % SAMPLES_MAX] = key;
        }
    }

    /// A range of the same tenant from a border within it on, with the keys that were seen there.
    fn above(&self, border: &Bytes) -> Self {
        let upper = Self::new(border.clone(), self.tenant);
        let mut samples = self.samples.lock();
        *upper.samples.lock() = samples.extract_if(.., |sample| *sample >= *border).collect();
        drop(samples);
        upper
    }

    /// Takes over what another has counted.
    fn take(&mut self, other: Self) {
        self.add(other.counts());
        self.before = self.before.saturating_add(other.before);
    }
}

/// The keys of a batch of rows, compared with borders.
pub(crate) trait Keys {
    /// How many keys there are; they ascend.
    fn len(&self) -> usize;

    /// Compares a key with one of the store.
    fn compare(&self, at: usize, stored: &[u8]) -> Ordering;

    /// The key as the store has it.
    fn stored(&self, at: usize) -> Bytes;
}

/// The ranges of a table.
#[derive(Debug)]
pub(crate) struct Sketch {
    table: u32,
    ranges: RwLock<Vec<Range>>,
}

impl Sketch {
    /// One range of all keys.
    pub(crate) fn new(table: u32) -> Self {
        Self { table, ranges: RwLock::new(vec![Range::new(Bytes::new(), None)]) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Range>> {
        self.ranges.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Range>> {
        self.ranges.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether the first of the keys lies in a range that is no tenant's.
    pub(crate) fn is_of_nobody(&self, keys: &impl Keys) -> bool {
        let ranges = self.read();
        keys.len() > 0 && ranges[place(&ranges, |from| keys.compare(0, from))].tenant.is_none()
    }

    /// Counts a batch of rows: each range gets its share of `counts`, by its rows.
    pub(crate) fn count(&self, keys: &impl Keys, counts: Counts) {
        self.count_unless(keys, counts, |_| false);
    }

    /// Counts a batch of rows whose first lies in a tenant's range; returns false, and counts nothing, of another.
    pub(crate) fn count_of_tenant(&self, keys: &impl Keys, counts: Counts) -> bool {
        self.count_unless(keys, counts, |first| first.tenant.is_none())
    }

    fn count_unless(&self, keys: &impl Keys, counts: Counts, is_refused: impl Fn(&Range) -> bool) -> bool {
        let (ranges, all) = (self.read(), keys.len());
        let mut row = 0;
        while row < all {
            let at = place(&ranges, |from| keys.compare(row, from));
            if row == 0 && is_refused(&ranges[at]) {
                return false;
            }
            let end = match ranges.get(at + 1) {
                Some(next) => first_from(row + 1, all, |row| keys.compare(row, &next.from).is_ge()),
                None => all,
            };
            ranges[at].add(counts.share(row, end, all));
            ranges[at].sample(|| keys.stored(row + (end - row) / 2));
            row = end;
        }
        true
    }

    /// Counts what was done to ranges of keys as a whole: each range of the sketch that they touch gets the same.
    pub(crate) fn spread(&self, over: &[KeyRange], counts: Counts) {
        let ranges = self.read();
        let mut touched: Vec<usize> = Vec::new();
        for over in over.iter().filter(|over| !over.is_empty()) {
            let first = place(&ranges, |from| over.start.as_ref().cmp(from));
            let end = over.end.as_ref().map_or(ranges.len(), |end| ranges.partition_point(|range| range.from < *end));
            touched.extend(first..end);
        }
        touched.sort_unstable();
        touched.dedup();
        for (number, at) in touched.iter().enumerate() {
            ranges[*at].add(counts.share(number, number + 1, touched.len()));
        }
    }

    /// Makes the borders of a tenant's span borders of ranges. Adds two ranges at most; gives how many it has added.
    pub(crate) fn cut(&self, span: &KeyRange, tenant: u32) -> usize {
        let mut ranges = self.write();
        let before = ranges.len();
        for border in [Some(&span.start), span.end.as_ref()].into_iter().flatten() {
            let at = place(&ranges, |from| border.as_ref().cmp(from));
            if ranges[at].from != *border {
                let upper = ranges[at].above(border);
                ranges.insert(at + 1, upper);
            }
        }
        for range in ranges.iter_mut().filter(|range| span.contains(&range.from)) {
            range.tenant = Some(tenant);
        }
        ranges.len() - before
    }

    /// Splits ranges of more than `heat` rows, at most `most` of them, the hottest first; gives how many.
    pub(crate) fn split(&self, heat: u64, most: usize) -> usize {
        let mut hot: Vec<(u64, Bytes)> = {
            let ranges = self.read();
            // A range of several tenants is split at their spans only.
            let hot = ranges.iter().filter(|range| range.tenant.is_some() && range.heat() > heat);
            hot.map(|range| (range.heat(), range.from.clone())).collect()
        };
        if hot.is_empty() || most == 0 {
            return 0;
        }
        hot.sort();
        let (mut ranges, mut done) = (self.write(), 0);
        for (_, from) in hot.into_iter().rev() {
            if done == most {
                break;
            }
            let at = place(&ranges, |border| from.as_ref().cmp(border));
            if let Some(upper) = halve(&mut ranges[at]) {
                ranges.insert(at + 1, upper);
                done += 1;
            }
        }
        done
    }

    /// The heat of each pair of neighbours, and whether a merge of them would join tenants.
    pub(crate) fn pairs(&self) -> Vec<(bool, u64, Bytes)> {
        let ranges = self.read();
        let pair = |at: usize| {
            let (one, other) = (&ranges[at], &ranges[at + 1]);
            (one.tenant != other.tenant, one.heat().saturating_add(other.heat()), other.from.clone())
        };
        (0..ranges.len() - 1).filter(|at| may_merge(&ranges, *at)).map(pair).collect()
    }

    /// Joins the range that begins at this border and the one before it; whether there was one.
    pub(crate) fn merge(&self, border: &[u8]) -> bool {
        let mut ranges = self.write();
        let at = place(&ranges, |from| border.cmp(from));
        if at == 0 || ranges[at].from != border || !may_merge(&ranges, at - 1) {
            return false;
        }
        let upper = ranges.remove(at);
        let lower = &mut ranges[at - 1];
        lower.tenant = lower.tenant.filter(|tenant| Some(*tenant) == upper.tenant);
        lower.take(upper);
        true
    }

    /// Rows that were read and written lately.
    pub(crate) fn heat(&self) -> u64 {
        self.read().iter().map(Range::heat).fold(0, u64::saturating_add)
    }

    /// What was counted in the running minute; ranges without a count have no cell.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let ranges = self.read();
        let counts: Vec<Counts> = ranges.iter().map(Range::counts).collect();
        cells(self.table, &ranges, &counts)
    }

    /// Ends the minute: the same as [`cells`](Self::cells), and counts from 0.
    pub(crate) fn take(&self) -> Vec<Cell> {
        let mut ranges = self.write();
        let mut taken = Vec::with_capacity(ranges.len());
        for range in ranges.iter_mut() {
            let counts = Counts::of_array(range.counts.each_mut().map(|count| std::mem::take(count.get_mut())));
            range.before = range.before / 2 + counts.rows();
            taken.push(counts);
        }
        cells(self.table, &ranges, &taken)
    }

    /// Forgets what is remembered of tenants that are gone: their keys, and their counts.
    pub(crate) fn forget_tenants(&self, is_there: impl Fn(u32) -> bool) {
        let is_gone = |range: &Range| range.tenant.is_some_and(|tenant| !is_there(tenant));
        if !self.read().iter().any(is_gone) {
            return;
        }
        let mut ranges = self.write();
        let mut kept: Vec<Range> = Vec::with_capacity(ranges.len());
        for range in ranges.drain(..) {
            let range = if is_gone(&range) { Range::new(range.from, None) } else { range };
            let goes_on = |last: &Range| range.tenant.is_none() && last.tenant.is_none();
            match kept.last_mut() {
                Some(last) if goes_on(last) => last.take(range),
                _ => kept.push(range),
            }
        }
        *ranges = kept;
    }
}

/// Whether a range and the next may become one: of several tenants only whole spans, so that the borders of what is no
/// tenant's tell no key.
fn may_merge(ranges: &[Range], at: usize) -> bool {
    let (one, other) = (ranges[at].tenant, ranges[at + 1].tenant);
    let is_first = at == 0 || one.is_none() || ranges[at - 1].tenant != one;
    let is_last = other.is_none() || ranges.get(at + 2).is_none_or(|next| next.tenant != other);
    one == other || is_first && is_last
}

fn cells(table: u32, ranges: &[Range], counts: &[Counts]) -> Vec<Cell> {
    let one = |(at, (range, counts)): (usize, (&Range, &Counts))| {
        let to = ranges.get(at + 1).map(|next| next.from.clone());
        (!counts.is_none()).then(|| Cell { table, tenant: range.tenant, from: range.from.clone(), to, counts: *counts })
    };
    ranges.iter().zip(counts).enumerate().filter_map(one).collect()
}

/// The range that holds a key, which is compared with borders.
fn place(ranges: &[Range], compare: impl Fn(&[u8]) -> Ordering) -> usize {
    // The first begins before every key.
    ranges.partition_point(|range| compare(&range.from).is_ge()).saturating_sub(1)
}

/// The first of `from..to` for which `holds`, which holds for all that follow; `to` without one.
fn first_from(mut from: usize, mut to: usize, holds: impl Fn(usize) -> bool) -> usize {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

/// Takes the upper half away from a range, at the middle of the keys that were seen; `None` if they are all one.
fn halve(range: &mut Range) -> Option<Range> {
    let mut samples = range.samples.lock().clone();
    samples.sort();
    let middle = samples.len() / 2;
    let is_border = |key: &&Bytes| **key > range.from && **key > samples[0];
    let border = samples[middle..].iter().find(is_border).or_else(|| samples.iter().rev().find(is_border)).cloned()?;
    let mut upper = range.above(&border);
    let counts = range.counts();
    range.counts = Default::default();
    range.add(counts.share(0, 1, 2));
    upper.add(counts.share(1, 2, 2));
    upper.before = range.before - range.before / 2;
    range.before /= 2;
    Some(upper)
}

#[cfg(test)]
mod tests {
    use super::{
        super::cells::tests::{are_sorted_and_disjoint, text, total},
        *,
    };
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    struct Stored(Vec<Bytes>);

    impl Keys for Stored {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn compare(&self, at: usize, stored: &[u8]) -> Ordering {
            self.0[at].as_ref().cmp(stored)
        }

        fn stored(&self, at: usize) -> Bytes {
            self.0[at].clone()
        }
    }

    fn keys(keys: &[&'static str]) -> Stored {
        Stored(keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect())
    }

    fn reads(reads: u64) -> Counts {
        Counts { reads, ..Counts::default() }
    }

    fn check(sketch: &Sketch, expected: Expect) {
        expected.assert_eq(&text(&sketch.cells()));
    }

    #[test]
    fn a_batch_is_shared_among_the_ranges_of_its_rows() {
        let sketch = Sketch::new(1);
        assert_eq!(sketch.cut(&KeyRange::prefix("b#"), 7), 2);
        assert_eq!(sketch.cut(&KeyRange::prefix("b#"), 7), 0);
        assert_eq!(sketch.cut(&KeyRange::prefix("c#"), 8), 2);
        sketch.count(&keys(&["a#1", "b#1", "b#2", "c#5"]), reads(4));
        sketch.spread(&[KeyRange::prefix("b#2"), KeyRange::prefix("c#")], reads(11));
        check(
            &sketch,
            expect![[r#"
            1/- [..b#) 1 0 0 0
            1/7 [b#..b$) 7 0 0 0
            1/8 [c#..c$) 7 0 0 0"#]],
        );
        assert!(sketch.is_of_nobody(&keys(&["b"])) && !sketch.is_of_nobody(&keys(&["b#9"])));
    }

    #[test]
    fn what_is_hot_is_split_at_a_key_that_was_seen() {
        let sketch = Sketch::new(1);
        sketch.cut(&KeyRange::prefix("b#"), 7);
        for number in 0..200 {
            let key = Bytes::from(format!("b#{:03}", number % 100));
            sketch.count(&Stored(vec![key]), reads(1));
        }
        assert_eq!((sketch.split(200, 9), sketch.split(100, 9)), (0, 1));
        let cells = sketch.cells();
        assert_eq!((cells.len(), total(&cells), cells[1].counts), (2, reads(200), reads(100)));
        assert!(cells[1].from.starts_with(b"b#") && cells[1].from.len() == 5, "{}", text(&cells));
        assert!(sketch.merge(&cells[1].from.clone()) && !sketch.merge(b"x"));
        check(&sketch, expect!["1/7 [b#..b$) 200 0 0 0"]);
        // One key alone cannot be split.
        let one = Sketch::new(1);
        one.cut(&KeyRange::all(), 7);
        (0..50).for_each(|_| one.count(&keys(&["k"]), reads(1)));
        assert_eq!(one.split(1, 9), 0);
    }

    #[test]
    fn a_minute_begins_at_nothing_and_a_tenant_is_forgotten() {
        let sketch = Sketch::new(1);
        sketch.cut(&KeyRange::prefix("b#"), 7);
        sketch.count(&keys(&["a", "b#1"]), reads(2));
        assert_eq!((total(&sketch.take()), sketch.cells().len(), sketch.heat()), (reads(2), 0, 2));
        sketch.count(&keys(&["a", "b#1"]), reads(4));
        sketch.forget_tenants(|tenant| tenant != 7);
        assert_eq!(sketch.len(), 1);
        check(&sketch, expect!["1/- [..end) 2 0 0 0"]);
        let long = Bytes::from(vec![b'k'; 4_000]);
        sketch.count(&Stored(vec![long]), reads(1));
        assert!(sketch.read().iter().flat_map(|range| range.samples.lock().clone()).all(|key| key.len() < 200));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Count(Vec<u8>),
        Cut(u8),
        Split,
        Merge(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => prop::collection::vec(0..8_u8, 1..6).prop_map(Step::Count),
            1 => (0..8_u8).prop_map(Step::Cut),
            2 => Just(Step::Split),
            1 => (0..8_usize).prop_map(Step::Merge),
        ]
    }

    proptest! {
        #[test]
        fn ranges_cover_all_keys_and_keep_totals(steps in prop::collection::vec(step(), 1..60)) {
            let (sketch, mut expected) = (Sketch::new(1), Counts::default());
            for step in steps {
                match step {
                    Step::Count(mut places) => {
                        places.sort();
                        let keys = places.iter().map(|place| Bytes::from(vec![*place, *place])).collect();
                        let counts = Counts { reads: places.len() as u64, bytes_read: 7, ..Counts::default() };
                        sketch.count(&Stored(keys), counts);
                        expected = expected.and(counts);
                    }
                    Step::Cut(place) => drop(sketch.cut(&KeyRange::prefix(vec![place]), 7)),
                    Step::Split => drop(sketch.split(3, 2)),
                    Step::Merge(at) => {
                        let pairs = sketch.pairs();
                        if let Some((_, _, border)) = pairs.get(at) {
                            prop_assert!(sketch.merge(border));
                        }
                    }
                }
                prop_assert_eq!(total(&sketch.cells()), expected);
                prop_assert!(are_sorted_and_disjoint(&sketch.cells()));
                let ranges = sketch.read();
                prop_assert!(ranges[0].from.is_empty() && ranges.windows(2).all(|pair| pair[0].from < pair[1].from));
            }
            let taken = sketch.take();
            prop_assert_eq!(total(&taken), expected);
            prop_assert!(sketch.cells().is_empty());
        }
    }
}
