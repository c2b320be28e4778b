//! From filters to ranges of keys. Pure; both the promise to DataFusion and the scan come from here.
//!
//! 1. Each filter becomes a set of keys (`predicate`): a union of boxes, each with one slot for each key part.
//! 2. The sets are intersected. If no box is left, no row is read.
//! 3. A box becomes ranges, from its first part on. Parts that are restricted to values multiply into prefixes. The
//!    first part that is restricted to intervals makes one range of each prefix and interval. Later parts, and parts
//!    after an unrestricted one, are left to the residual filter. With salted keys each of these is a range in every
//!    bucket, unless all parts have a value, which gives the bucket.
//! 4. There are at most [`RANGES_MAX`] ranges: the intervals of a part that would make more are coalesced with their
//!    neighbours, and later parts are left to the residual. The plan says so.
//!
//! Ranges may hold too many keys, never too few. A filter is *exact* if the ranges need no filter above for it: its set
//! is exact, and so are the ranges of all parts that it names.

use super::{
    interval::{Interval, Slot},
    keys::Keys,
    literal::Edge,
    predicate::{KeyBox, KeySet, keys_of},
};
use datafusion::{
    logical_expr::{Expr, Operator, TableProviderFilterPushDown},
    scalar::ScalarValue,
};
use keyspan_catalog::{PartBounds, Value};
use keyspan_storage::{KeyRange, RowSet};
use std::fmt;

/// The most ranges of one scan.
pub const RANGES_MAX: usize = 10_000;

/// How a scan reaches its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The filters contradict each other or the key: nothing is read.
    Nothing,
    /// Single keys, with their number.
    PointLookup(usize),
    /// One range.
    RangeScan,
    /// Several ranges, with their number.
    SkipScan(usize),
    /// Every row.
    FullScan,
}

impl Shape {
    pub(crate) fn of(rows: &RowSet) -> Self {
        match rows.ranges() {
            [] => Self::Nothing,
            [only] if only.start.is_empty() && only.end.is_none() => Self::FullScan,
            ranges if ranges.iter().all(|range| range.as_point().is_some()) => Self::PointLookup(ranges.len()),
            [_] => Self::RangeScan,
            ranges => Self::SkipScan(ranges.len()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing to read"),
            Self::PointLookup(1) => f.write_str("point lookup on 1 key"),
            Self::PointLookup(keys) => write!(f, "point lookup on {} keys", with_commas(*keys)),
            Self::RangeScan => f.write_str("range scan"),
            Self::SkipScan(ranges) => write!(f, "skip scan on {} ranges", with_commas(*ranges)),
            Self::FullScan => f.write_str("full scan"),
        }
    }
}

/// A number with commas between thousands.
pub(crate) fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The plan of the filters of one scan.
#[derive(Clone, Debug)]
pub struct Pushdown {
    /// All keys that may satisfy the filters.
    pub rows: RowSet,
    /// How the scan reaches them.
    pub shape: Shape,
    /// Filters that narrowed the ranges.
    pub pushed: Vec<Expr>,
    /// Filters that must still be evaluated for each row.
    pub residual: Vec<Expr>,
    /// Whether there would have been more than [`RANGES_MAX`] ranges.
    pub coalesced: bool,
    /// Key parts, by index, that have one value in all rows.
    pub constants: Vec<(usize, Value)>,
    /// What DataFusion is promised about each filter, in their order.
    pub promises: Vec<TableProviderFilterPushDown>,
}

impl Pushdown {
    /// A full scan that leaves all filters to DataFusion.
    pub fn none(filters: &[Expr]) -> Self {
        Self {
            rows: RowSet::all(),
            shape: Shape::FullScan,
            pushed: Vec::new(),
            residual: filters.to_vec(),
            coalesced: false,
            constants: Vec::new(),
            promises: vec![TableProviderFilterPushDown::Unsupported; filters.len()],
        }
    }

    /// Plans the conjunction of the filters.
    pub fn plan(filters: &[Expr], keys: &Keys) -> Self {
        Self::plan_within(filters, keys, RANGES_MAX)
    }

    /// [`plan`](Self::plan) with another bound, for tests.
    pub(super) fn plan_within(filters: &[Expr], keys: &Keys, ranges_max: usize) -> Self {
        let sets: Vec<Option<KeySet>> = filters.iter().map(|filter| keys_of(filter, false, keys)).collect();
        let (mut all, mut coalesced) = (KeySet::all(keys.columns().len()), false);
        // Whether the set of a filter is in the intersection.
        let mut intersected = vec![false; filters.len()];
        for (at, set) in sets.iter().enumerate() {
            let Some(set) = set else { continue };
            match all.intersect(set) {
                Some(both) => (all, intersected[at]) = (both, true),
                None => coalesced = true,
            }
        }
        let mut ranges = Ranges { keys, coalesced, out: Vec::new(), used: keys.columns().len() };
        let budget = (ranges_max / all.boxes.len().max(1)).max(1);
        for one in &all.boxes {
            ranges.add(one, budget);
        }
        let Ranges { coalesced, out, used, .. } = ranges;
        let out = RowSet::new(out);
        let exact = |at: usize| {
            !keys.nullable && intersected[at] && sets[at].as_ref().is_some_and(|set| set.exact && set.depth() <= used)
        };
        let promise = |at: usize| match &sets[at] {
            Some(_) if exact(at) => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        let promises: Vec<_> = (0..filters.len()).map(promise).collect();
        let select = |is_selected: &dyn Fn(usize) -> bool| -> Vec<Expr> {
            filters.iter().enumerate().filter(|(at, _)| is_selected(*at)).map(|(_, filter)| filter.clone()).collect()
        };
        let begins =
            |set: &KeySet| set.boxes.iter().all(|one| one[..used.max(1).min(one.len())].iter().any(Option::is_some));
        Self {
            pushed: select(&|at| intersected[at] && sets[at].as_ref().is_some_and(|set| exact(at) || begins(set))),
            residual: select(&|at| !exact(at)),
            constants: constants(&all, if keys.nullable { 0 } else { used }, keys),
            shape: Shape::of(&out),
            rows: out,
            coalesced,
            promises,
        }
    }

    /// Whether the rows are exactly those that satisfy the filters.
    pub fn is_exact(&self) -> bool {
        self.residual.is_empty()
    }

    /// The same of the rows of a set of keys alone.
    pub(super) fn within(self, only: &RowSet) -> Self {
        let rows = self.rows.intersect(only);
        Self { shape: Shape::of(&rows), rows, ..self }
    }

    /// Combines two plans of the same filters over different columns.
    pub(super) fn and(self, other: Self) -> Self {
        let better = |(a, b): (TableProviderFilterPushDown, TableProviderFilterPushDown)| match (&a, &b) {
            (TableProviderFilterPushDown::Exact, _) | (_, TableProviderFilterPushDown::Unsupported) => a,
            _ => b,
        };
        let promises: Vec<_> = self.promises.into_iter().zip(other.promises).map(better).collect();
        let rows = self.rows.intersect(&other.rows);
        let mut pushed = self.pushed;
        pushed.extend(other.pushed);
        Self {
            shape: Shape::of(&rows),
            rows,
            residual: self.residual.into_iter().filter(|filter| other.residual.contains(filter)).collect(),
            pushed,
            coalesced: self.coalesced || other.coalesced,
            constants: Vec::new(),
            promises,
        }
    }
}

/// Exactly the keys for which all comparisons hold, in one range, or in one range of each bucket. A comparison is
/// between a key part, by index, and a value. `None` if ranges cannot express them exactly.
pub fn exact_rows<'a>(
    keys: &Keys,
    comparisons: impl IntoIterator<Item = (usize, Operator, &'a ScalarValue)>,
) -> Option<RowSet> {
    if keys.nullable {
        return None;
    }
    let mut all: KeyBox = vec![None; keys.columns().len()];
    for (part, op, value) in comparisons {
        if value.is_null() {
            return Some(RowSet::none());
        }
        let slot = keys.slot(part, &Edge::of(keys.columns().get(part)?.kind, None, value)?, op)?;
        let both = all[part].take().map_or_else(|| slot.clone(), |before| before.intersect(&slot));
        if both.is_none() {
            return Some(RowSet::none());
        }
        all[part] = Some(both);
    }
    let point = |slot: &Option<Slot>| match slot.as_ref()?.intervals() {
        [only] => only.as_point().cloned(),
        _ => None,
    };
    if let Some(values) = all.iter().map(point).collect::<Option<Vec<Value>>>() {
        let (ranges, exact) = keys.exact_ranges(&values, None);
        return exact.then(|| RowSet::new(ranges));
    }
    let depth = all.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut ranges = Ranges { keys, coalesced: false, out: Vec::new(), used: keys.columns().len() };
    ranges.add(&all, keys.buckets());
    (!ranges.coalesced && depth <= ranges.used).then(|| RowSet::new(ranges.out))
}

/// The first `used` parts, as far as they have one value in all boxes.
fn constants(set: &KeySet, used: usize, keys: &Keys) -> Vec<(usize, Value)> {
    let value = |one: &KeyBox, part: usize| match one[part].as_ref().map(Slot::intervals) {
        Some([only]) => only.as_point().cloned(),
        _ => None,
    };
    let shared = |part: usize| {
        let (first, others) = set.boxes.split_first()?;
        let first = value(first, part)?;
        // A NaN does not equal itself, but one box has one value.
        others.iter().all(|one| value(one, part).as_ref() == Some(&first)).then_some((part, first))
    };
    let shown = |(part, value)| (part, keys.shown(part, value));
    (0..used).filter_map(shared).map(shown).collect()
}

/// Builds the ranges of boxes.
struct Ranges<'a> {
    keys: &'a Keys,
    out: Vec<KeyRange>,
    coalesced: bool,
    /// The number of leading parts that the ranges of all boxes express exactly.
    used: usize,
}

impl Ranges<'_> {
    /// Adds at most `budget` ranges for a box.
    fn add(&mut self, one: &KeyBox, budget: usize) {
        let buckets = if points(one).is_some_and(|points| points <= budget) { 1 } else { self.keys.buckets() };
        if budget < buckets && one.iter().any(Option::is_some) {
            self.coalesced = true;
            return self.close(&[Vec::new()], None, 0);
        }
        let budget = budget / buckets;
        let mut prefixes: Vec<Vec<Value>> = vec![Vec::new()];
        for (part, slot) in one.iter().enumerate() {
            let Some(slot) = slot else {
                return self.close(&prefixes, None, part);
            };
            let room = (budget / prefixes.len()).max(1);
            if slot.intervals().len() > room {
                self.coalesced = true;
                return self.close(&prefixes, Some(&slot.coarsen(room)), part);
            }
            let values: Option<Vec<&Value>> = slot.intervals().iter().map(Interval::as_point).collect();
            let Some(values) = values else {
                return self.close(&prefixes, Some(slot), part + 1);
            };
            let extend = |prefix: &Vec<Value>, value: &Value| {
                let mut longer = prefix.clone();
                longer.push(value.clone());
                longer
            };
            prefixes = prefixes.iter().flat_map(|prefix| values.iter().map(|value| extend(prefix, value))).collect();
        }
        self.close(&prefixes, None, one.len());
    }

    /// Adds the ranges of all prefixes, each followed by the slot of the next part. If they are exact they express
    /// `used` parts.
    fn close(&mut self, prefixes: &[Vec<Value>], slot: Option<&Slot>, used: usize) {
        let bounds: Vec<Option<PartBounds>> = match slot {
            Some(slot) => slot.intervals().iter().map(|interval| Some(part_bounds(interval))).collect(),
            None => vec![None],
        };
        for prefix in prefixes {
            for next in &bounds {
                let next = next.as_ref();
                // No range means that no such key exists, which is exact.
                let (ranges, exact) = self.keys.exact_ranges(prefix, next);
                if ranges.is_empty() {
                    continue;
                }
                self.out.extend(ranges);
                if !exact {
                    let leading = if self.keys.range_is_exact(prefix, None) { prefix.len() } else { 0 };
                    self.used = self.used.min(leading);
                }
            }
        }
        self.used = self.used.min(used);
    }
}

/// The number of keys in a box, if every part is restricted to values.
fn points(one: &KeyBox) -> Option<usize> {
    one.iter().try_fold(1, |product: usize, slot| {
        let intervals = slot.as_ref()?.intervals();
        intervals.iter().all(|interval| interval.as_point().is_some()).then_some(())?;
        product.checked_mul(intervals.len())
    })
}

fn part_bounds(interval: &Interval) -> PartBounds {
    match interval.as_text_prefix() {
        Some(prefix) => PartBounds::TextPrefix(prefix.to_owned()),
        None => PartBounds::Between(interval.low.clone(), interval.high.clone()),
    }
}
