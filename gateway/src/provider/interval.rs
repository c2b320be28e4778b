//! Intervals of one key part, and sets of them. Pure.
//!
//! A [`Slot`] is the set of values of one key part that a predicate allows: sorted intervals with gaps between them.
//! Comparisons become slots, conjunctions intersect them, disjunctions unite them, and [`pushdown`](super::pushdown)
//! makes ranges of keys of the slots of all parts.

use keyspan_catalog::Value;
use std::{cmp::Ordering, ops::Bound};

/// The values between two bounds, by the type's own order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) low: Bound<Value>,
    pub(super) high: Bound<Value>,
}

/// Sorted, nonempty intervals with gaps between them. Without an interval it has no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot(Vec<Interval>);

/// The order of two values of one type: text and bytes as bytes, −0 as 0, NaN last.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b))
        | (Value::Timestamp(a), Value::Timestamp(b))
        | (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Value::Numeric { unscaled: a, .. }, Value::Numeric { unscaled: b, .. }) => a.cmp(b),
        (Value::Exact(a), Value::Exact(b)) => a.compare(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        // Literals have the part's type, and numerics its scale.
        _ => unreachable!("values of one key part have one type: {a:?} and {b:?}"),
    }
}

/// The bound of the values on the other side: an upper bound becomes the lower bound of all greater values, and the
/// reverse.
pub(super) fn opposite(bound: &Bound<Value>) -> Bound<Value> {
    match bound {
        Bound::Included(value) => Bound::Excluded(value.clone()),
        Bound::Excluded(value) => Bound::Included(value.clone()),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn compare_low(a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let excluded = |bound: &Bound<Value>| matches!(bound, Bound::Excluded(_));
            compare(x, y).then(excluded(a).cmp(&excluded(b)))
        }
    }
}

fn compare_high(a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let included = |bound: &Bound<Value>| matches!(bound, Bound::Included(_));
            compare(x, y).then(included(a).cmp(&included(b)))
        }
    }
}

/// Whether nothing lies between the end of one interval and the start of a later one.
fn touches(high: &Bound<Value>, low: &Bound<Value>) -> bool {
    match (high, low) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(x), Bound::Excluded(y)) => compare(x, y).is_gt(),
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => compare(x, y).is_ge(),
    }
}

impl Interval {
    pub(super) fn new(low: Bound<Value>, high: Bound<Value>) -> Self {
        Self { low, high }
    }

    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) => compare(low, high).is_gt(),
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                compare(low, high).is_ge()
            }
            _ => false,
        }
    }

    /// The value, if it holds exactly one.
    pub(super) fn as_point(&self) -> Option<&Value> {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) if compare(low, high).is_eq() => Some(low),
            // Up to the next number of the part's type.
            (Bound::Included(low @ Value::Int(n)), Bound::Excluded(Value::Int(next))) => {
                (n.checked_add(1) == Some(*next)).then_some(low)
            }
            (
                Bound::Included(low @ Value::Numeric { unscaled, scale }),
                Bound::Excluded(Value::Numeric { unscaled: next, scale: of }),
            ) => (scale == of && unscaled.checked_add(1) == Some(*next)).then_some(low),
            _ => None,
        }
    }

    /// The prefix, if it holds exactly the texts that start with it.
    pub(super) fn as_text_prefix(&self) -> Option<&str> {
        match (&self.low, &self.high) {
            (Bound::Included(Value::Text(prefix)), high) if !prefix.is_empty() => {
                (*high == after_prefix(prefix)).then_some(prefix.as_str())
            }
            _ => None,
        }
    }
}

/// The upper bound of the texts that start with the prefix.
fn after_prefix(prefix: &str) -> Bound<Value> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // A range of characters skips surrogates, as the order of UTF-8 does.
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Bound::Excluded(Value::Text(chars.into_iter().collect()));
        }
    }
    Bound::Unbounded
}

impl Slot {
    /// No value.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// The union of intervals.
    pub(super) fn new(mut intervals: Vec<Interval>) -> Self {
        intervals.retain(|interval| !interval.is_empty());
        intervals.sort_by(|a, b| compare_low(&a.low, &b.low));
        let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
        for next in intervals {
            match joined.last_mut() {
                Some(last) if touches(&last.high, &next.low) => {
                    if compare_high(&next.high, &last.high).is_gt() {
                        last.high = next.high;
                    }
                }
                _ => joined.push(next),
            }
        }
        Self(joined)
    }

    /// The texts that start with the prefix.
    pub(super) fn text_prefix(prefix: &str) -> Self {
        if prefix.is_empty() {
            return Self::none().complement();
        }
        let low = Bound::Included(Value::Text(prefix.to_owned()));
        Self::new(vec![Interval::new(low, after_prefix(prefix))])
    }

    pub(super) fn intervals(&self) -> &[Interval] {
        &self.0
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        let point = Interval::new(Bound::Included(value.clone()), Bound::Included(value.clone()));
        !self.intersect(&Self(vec![point])).is_none()
    }

    /// The values in either.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).cloned().collect())
    }

    /// The values in both.
    pub(super) fn intersect(&self, other: &Self) -> Self {
        let (mut a, mut b, mut both) = (0, 0, Vec::new());
        while let (Some(left), Some(right)) = (self.0.get(a), other.0.get(b)) {
            let low = if compare_low(&left.low, &right.low).is_ge() { &left.low } else { &right.low };
            let left_ends_first = compare_high(&left.high, &right.high).is_le();
            let high = if left_ends_first { &left.high } else { &right.high };
            let shared = Interval::new(low.clone(), high.clone());
            if !shared.is_empty() {
                both.push(shared);
            }
            if left_ends_first { a += 1 } else { b += 1 }
        }
        Self(both)
    }

    /// All values that are not in it.
    pub(super) fn complement(&self) -> Self {
        let (mut low, mut gaps) = (Bound::Unbounded, Vec::with_capacity(self.0.len() + 1));
        for interval in &self.0 {
            if interval.low != Bound::Unbounded {
                gaps.push(Interval::new(low, opposite(&interval.low)));
            }
            if interval.high == Bound::Unbounded {
                return Self::new(gaps);
            }
            low = opposite(&interval.high);
        }
        gaps.push(Interval::new(low, Bound::Unbounded));
        Self::new(gaps)
    }

    /// A superset in at most `count` intervals, which is at least 1.
    pub(super) fn coarsen(&self, count: usize) -> Self {
        let size = self.0.len().div_ceil(count.max(1)).max(1);
        let hull = |group: &[Interval]| Interval::new(group[0].low.clone(), group[group.len() - 1].high.clone());
        Self(self.0.chunks(size).map(hull).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound() -> impl Strategy<Value = Bound<Value>> {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..8_i64).prop_map(|v| Bound::Included(Value::Int(v * 2))),
            (0..8_i64).prop_map(|v| Bound::Excluded(Value::Int(v * 2))),
        ]
    }

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((bound(), bound()).prop_map(|(low, high)| Interval::new(low, high)), 0..5)
    }

    fn holds(intervals: &[Interval], value: i64) -> bool {
        let value = Bound::Included(Value::Int(value));
        let inside = |i: &&Interval| compare_low(&i.low, &value).is_le() && compare_high(&value, &i.high).is_le();
        intervals.iter().any(|interval| inside(&interval))
    }

    proptest! {
        #[test]
        fn slots_hold_what_their_intervals_hold(a in intervals(), b in intervals(), count in 1..4_usize) {
            let (left, right) = (Slot::new(a.clone()), Slot::new(b.clone()));
            // Odd values lie between all bounds.
            for value in -1..17 {
                let (in_a, in_b) = (holds(&a, value), holds(&b, value));
                prop_assert_eq!(holds(left.intervals(), value), in_a);
                prop_assert_eq!(holds(left.union(&right).intervals(), value), in_a || in_b);
                prop_assert_eq!(holds(left.intersect(&right).intervals(), value), in_a && in_b);
                prop_assert_eq!(holds(left.complement().intervals(), value), !in_a);
                prop_assert!(!in_a || holds(left.coarsen(count).intervals(), value));
            }
            prop_assert!(left.coarsen(count).intervals().len() <= count);
        }

        #[test]
        fn texts_with_a_prefix_lie_in_its_interval(prefix in "\\PC{1,3}", text in "\\PC{0,5}") {
            let slot = Slot::text_prefix(&prefix);
            let point = Slot::new(vec![Interval::new(Bound::Included(Value::Text(text.clone())), Bound::Included(Value::Text(text.clone())))]);
            prop_assert_eq!(!slot.intersect(&point).is_none(), text.starts_with(&prefix));
            prop_assert_eq!(slot.intervals()[0].as_text_prefix(), Some(prefix.as_str()));
        }
    }

    #[test]
    fn the_last_character_has_no_successor() {
        assert!(Slot::text_prefix("\u{10ffff}").intervals()[0].high == Bound::Unbounded);
        assert!(Slot::text_prefix("\u{d7ff}").intervals()[0].high == Bound::Excluded(Value::Text("\u{e000}".into())));
    }
}
