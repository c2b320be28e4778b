//! Row keys, ranges of row keys, and sets of ranges.

use super::limits;
use crate::{Error, Result};
use bytes::Bytes;
use std::{borrow::Borrow, fmt, ops::Deref};

/// Maximum bytes of a key that a store derives from a row key.
const STORED_KEY_BYTES_MAX: usize = 2 * limits::ROW_KEY_BYTES_MAX + 16;

/// The key of a row: 1 to [`ROW_KEY_BYTES_MAX`](limits::ROW_KEY_BYTES_MAX) bytes, ordered as bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(Bytes);

impl RowKey {
    /// Checks the length.
    ///
    /// # Errors
    /// [`Error::Invalid`] when empty, [`Error::TooLarge`] when too long.
    pub fn new(key: impl Into<Bytes>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() {
            return Err(Error::Invalid("a row key is empty".into()));
        }
        if key.len() > limits::ROW_KEY_BYTES_MAX {
            return Err(Error::TooLarge { what: "a row key", size: key.len(), limit: limits::ROW_KEY_BYTES_MAX });
        }
        Ok(Self(key))
    }

    /// A key that a store derives: it may hold a row key with every byte escaped, and a stamp.
    ///
    /// # Errors
    /// Errors of [`new`](Self::new), with the larger limit.
    pub(crate) fn stored(key: impl Into<Bytes>) -> Result<Self> {
        let key = key.into();
        match key.len() {
            0 => Self::new(key),
            size if size > STORED_KEY_BYTES_MAX => {
                Err(Error::TooLarge { what: "a stored key", size, limit: STORED_KEY_BYTES_MAX })
            }
            _ => Ok(Self(key)),
        }
    }

    /// The bytes, shared.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The bytes, shared.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for RowKey {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Keys compare and hash like their bytes, so that maps can be searched by bytes.
impl Borrow<[u8]> for RowKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// The least byte string above every one that starts with `prefix`; `None` if there is none (a prefix of `0xff` bytes).
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

/// The keys in `start..end`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Inclusive; empty for the first key of all.
    pub start: Bytes,
    /// Exclusive; `None` for no end.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// Every key.
    pub const fn all() -> Self {
        Self { start: Bytes::new(), end: None }
    }

    /// From `start`, inclusive, to `end`, exclusive.
    pub fn new(start: impl Into<Bytes>, end: Option<Bytes>) -> Self {
        Self { start: start.into(), end }
    }

    /// The one key.
    pub fn point(key: &[u8]) -> Self {
        let mut end = Vec::with_capacity(key.len() + 1);
        end.extend_from_slice(key);
        end.push(0);
        Self { start: Bytes::copy_from_slice(key), end: Some(end.into()) }
    }

    /// The keys that start with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end }
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// The key, when exactly one can be in it.
    pub fn as_point(&self) -> Option<&[u8]> {
        let end = self.end.as_ref()?;
        (end.len() == self.start.len() + 1 && end.ends_with(&[0]) && end.starts_with(&self.start))
            .then_some(self.start.as_ref())
    }

    /// Whether the key lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// The keys in both; possibly [empty](Self::is_empty).
    pub fn intersect(&self, other: &Self) -> Self {
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        Self { start: self.start.clone().max(other.start.clone()), end }
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.as_point(), &self.end) {
            (Some(key), _) => write!(f, "[{}]", key.escape_ascii()),
            (None, Some(end)) => write!(f, "[{}, {})", self.start.escape_ascii(), end.escape_ascii()),
            (None, None) => write!(f, "[{}, ∞)", self.start.escape_ascii()),
        }
    }
}

/// Ranges of keys: sorted, disjoint, not adjacent, and not empty. Without ranges it has no rows, as opposed to all
/// rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSet(Vec<KeyRange>);

impl RowSet {
    /// Every row.
    pub fn all() -> Self {
        Self(vec![KeyRange::all()])
    }

    /// No row.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Sorts the ranges, drops empty ones and joins those that touch.
    pub fn new(ranges: impl IntoIterator<Item = KeyRange>) -> Self {
        let mut sorted: Vec<KeyRange> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by(|a, b| a.start.cmp(&b.start));
        let mut joined: Vec<KeyRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match joined.last_mut() {
                Some(last) if last.end.as_ref().is_none_or(|end| range.start <= *end) => {
                    last.end = match (last.end.take(), range.end) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        _ => None,
                    };
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[KeyRange] {
        &self.0
    }

    /// Whether no row can be in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rows in both.
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut a, mut b, mut out) = (0, 0, Vec::new());
        while let (Some(left), Some(right)) = (self.0.get(a), other.0.get(b)) {
            let both = left.intersect(right);
            if !both.is_empty() {
                out.push(both);
            }
            match (&left.end, &right.end) {
                (Some(x), Some(y)) if x <= y => a += 1,
                (Some(_), None) => a += 1,
                (None, None) => break,
                _ => b += 1,
            }
        }
        Self(out)
    }
}

impl From<KeyRange> for RowSet {
    fn from(range: KeyRange) -> Self {
        Self::new([range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range() -> impl Strategy<Value = KeyRange> {
        let key = || prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x23, 0xff]), 0..3);
        (key(), prop::option::of(key())).prop_map(|(start, end)| KeyRange::new(start, end.map(Bytes::from)))
    }

    fn keys() -> Vec<Vec<u8>> {
        let bytes = [0u8, 1, 0x23, 0x24, 0xff];
        let mut keys: Vec<Vec<u8>> = bytes.iter().map(|&a| vec![a]).collect();
        keys.extend(bytes.iter().flat_map(|&a| bytes.iter().map(move |&b| vec![a, b])));
        keys.extend(bytes.iter().map(|&a| vec![a, 0, 0]));
        keys
    }

    proptest! {
        #[test]
        fn sets_hold_what_their_ranges_hold(a in prop::collection::vec(range(), 0..6), b in prop::collection::vec(range(), 0..6)) {
            let (left, right) = (RowSet::new(a.clone()), RowSet::new(b.clone()));
            let both = left.intersect(&right);
            let holds = |set: &RowSet, key: &[u8]| set.ranges().iter().any(|range| range.contains(key));
            for key in keys() {
                let (in_a, in_b) = (a.iter().any(|r| r.contains(&key)), b.iter().any(|r| r.contains(&key)));
                prop_assert_eq!(holds(&left, &key), in_a);
                prop_assert_eq!(holds(&both, &key), in_a && in_b);
            }
            for pair in left.ranges().windows(2) {
                prop_assert!(pair[0].end.as_ref().is_some_and(|end| *end < pair[1].start));
            }
        }

        #[test]
        fn a_prefix_range_holds_exactly_the_keys_with_the_prefix(prefix in prop::collection::vec(any::<u8>(), 0..3), key in prop::collection::vec(any::<u8>(), 1..4)) {
            prop_assert_eq!(KeyRange::prefix(prefix.clone()).contains(&key), key.starts_with(&prefix));
        }
    }

    #[test]
    fn keys_have_limits() {
        assert!(RowKey::new(vec![]).is_err());
        assert!(RowKey::new(vec![1; limits::ROW_KEY_BYTES_MAX]).is_ok());
        assert!(matches!(RowKey::new(vec![1; limits::ROW_KEY_BYTES_MAX + 1]), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_point_is_one_key() {
        let point = KeyRange::point(b"ab");
        assert_eq!(point.as_point(), Some(&b"ab"[..]));
        assert_eq!(KeyRange::prefix(&b"ab"[..]).as_point(), None);
        assert!(point.contains(b"ab") && !point.contains(b"ab\0") && !point.contains(b"aa"));
    }
}
