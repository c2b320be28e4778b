//! Merges the rows of a load from several sorted sources, in the order of their keys.

use super::{buffer::Sorted, runs::RunReader};
use crate::{
    Error, Result, RowKey,
    engine::segment::{EncodedRow, EncodedRows},
};
use bytes::Bytes;
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Range,
    sync::Arc,
    vec,
};

/// Number of keys of rows in memory that are sampled to find the median.
const MEMORY_MARKS: usize = 64;
/// The number of a row whose number is no longer known.
pub(super) const UNNUMBERED: u64 = u64::MAX;

/// A row on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Bytes,
    /// Its cells, encoded.
    pub(super) row: Bytes,
    /// The number of the row, for errors.
    pub(super) number: u64,
}

/// A source of sorted rows.
#[derive(Debug)]
pub(super) enum Source {
    /// In memory; the range of the remaining rows.
    Memory(Arc<Sorted>, Range<usize>),
    /// In a file of their own.
    Run(RunReader),
    /// In a segment that was written too early.
    Segment(Box<EncodedRows>, vec::IntoIter<EncodedRow>),
}

impl Source {
    /// Rows in memory.
    pub(super) fn memory(sorted: Sorted) -> Self {
        let all = 0..sorted.len();
        Self::Memory(Arc::new(sorted), all)
    }

    /// Bytes of its rows, and some keys, each with the approximate bytes that it stands for; `None` for a segment.
    fn marks(&self) -> Option<(u64, Vec<(Bytes, u64)>)> {
        match self {
            Self::Memory(sorted, left) => {
                let step = left.len().div_ceil(MEMORY_MARKS).max(1);
                let (bytes, keys) = (sorted.bytes(), left.clone().step_by(step));
                let each = bytes / (keys.len() as u64).max(1);
                Some((bytes, keys.map(|at| (Bytes::copy_from_slice(sorted.key(at)), each)).collect()))
            }
            Self::Run(run) => Some((run.bytes(), run.marks().map(|(key, bytes)| (key.clone(), bytes)).collect())),
            Self::Segment(..) => None,
        }
    }

    /// Splits it into the rows before a key and the others. The source must be unread, and not a segment.
    fn split(self, key: &Bytes) -> [Self; 2] {
        match self {
            Self::Memory(sorted, Range { start, end }) => {
                let at = start + sorted.count_before(start..end, key);
                [Self::Memory(Arc::clone(&sorted), start..at), Self::Memory(sorted, at..end)]
            }
            Self::Run(run) => run.split(key).map(Self::Run),
            Self::Segment(..) => unreachable!("segments are not split"),
        }
    }

    fn next(&mut self) -> Result<Option<Item>> {
        match self {
            Self::Memory(sorted, left) => Ok(left.next().map(|at| sorted.item(at))),
            Self::Run(run) => run.next(),
            Self::Segment(batches, batch) => loop {
                if let Some(EncodedRow { key, row, .. }) = batch.next() {
                    return Ok(Some(Item { key: key.into_bytes(), row: row.read()?, number: UNNUMBERED }));
                }
                match batches.next() {
                    Some(next) => *batch = next?.into_iter(),
                    None => return Ok(None),
                }
            },
        }
    }
}

/// Splits sources of at least `bytes_min` bytes into two halves of about equal size, before a key and from it on.
/// Returns them as one if they are smaller, or a segment is among them.
pub(super) fn halved(sources: Vec<Source>, bytes_min: u64) -> (Vec<Source>, Option<Vec<Source>>) {
    let Some(marks) = sources.iter().map(Source::marks).collect::<Option<Vec<_>>>() else { return (sources, None) };
    if marks.iter().map(|(bytes, _)| bytes).sum::<u64>() < bytes_min {
        return (sources, None);
    }
    let mut marks: Vec<(Bytes, u64)> = marks.into_iter().flat_map(|(_, marks)| marks).collect();
    marks.sort_unstable();
    let half = marks.iter().map(|(_, bytes)| bytes).sum::<u64>() / 2;
    let mut before = 0;
    let middle = marks.into_iter().find(|(_, bytes)| {
        before += bytes;
        before > half
    });
    let Some((key, _)) = middle else { return (sources, None) };
    let (first, second) = sources.into_iter().map(|source| source.split(&key).into()).unzip();
    (first, Some(second))
}

/// See the module.
#[derive(Debug)]
pub(super) struct Merge {
    heads: BinaryHeap<Head>,
    /// The key of the last row and its number.
    last: Option<(Bytes, u64)>,
}

/// A source and its next row: the greatest has the least key.
#[derive(Debug)]
struct Head {
    item: Item,
    source: Source,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.item.key, other.item.number).cmp(&(&self.item.key, self.item.number))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    /// The least and the greatest key of the sources, none of which is a segment; `None` if there are none.
    pub(super) fn bounds(sources: &[Source]) -> Option<(Bytes, Bytes)> {
        let bounds = sources.iter().filter_map(|source| match source {
            Source::Memory(sorted, _) => {
                Some((Bytes::copy_from_slice(sorted.first()), Bytes::copy_from_slice(sorted.last())))
            }
            Source::Run(run) => Some(run.bounds()),
            Source::Segment(..) => None,
        });
        bounds.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
    }

    /// Begins a merge.
    ///
    /// # Errors
    /// Errors of reading files.
    pub(super) fn new(sources: impl IntoIterator<Item = Source>) -> Result<Self> {
        let mut heads = BinaryHeap::new();
        for mut source in sources {
            if let Some(item) = source.next()? {
                heads.push(Head { item, source });
            }
        }
        Ok(Self { heads, last: None })
    }

    /// The next row.
    ///
    /// # Errors
    /// [`Error::RowExists`] for a key that occurs twice; errors of reading files.
    pub(super) fn next(&mut self) -> Result<Option<Item>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let item = match head.source.next()? {
            Some(next) => std::mem::replace(&mut head.item, next),
            None => PeekMut::pop(head).item,
        };
        if let Some((last, number)) = &self.last
            && *last == item.key
        {
            let known = [*number, item.number].into_iter().filter(|number| *number != UNNUMBERED).max();
            return Err(Error::RowExists { key: RowKey::new(item.key)?, number: known });
        }
        self.last = Some((item.key.clone(), item.number));
        Ok(Some(item))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::buffer::Buffer, *};
    use proptest::{collection::vec, prelude::*};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn halves_have_what_the_whole_has(runs in vec(vec(any::<u8>(), 0..200), 0..4), least in 0..40u64) {
            let sources = || -> Vec<Source> {
                let runs = runs.iter().zip(1u8..).filter_map(|(keys, run)| {
                    let mut buffer = Buffer::default();
                    for key in keys.iter().collect::<std::collections::BTreeSet<_>>() {
                        buffer.push(u64::from(run), &[*key, run], |out| out.push(run)).unwrap();
                    }
                    buffer.sort().unwrap().map(Source::memory)
                });
                runs.collect()
            };
            let all = |sources| {
                let mut merge = Merge::new(sources).unwrap();
                std::iter::from_fn(move || merge.next().unwrap()).collect::<Vec<_>>()
            };
            let whole = all(sources());
            let (first, second) = halved(sources(), least);
            let bytes = 3 * whole.len() as u64;
            prop_assert_eq!(second.is_some(), bytes >= least && bytes > 0);
            let (first, second) = (all(first), second.map(all).unwrap_or_default());
            if bytes > 300 && bytes >= least {
                prop_assert!(first.len().abs_diff(second.len()) < whole.len() / 3);
            }
            prop_assert_eq!([first, second].concat(), whole);
        }

        #[test]
        fn rows_come_in_order_and_twins_are_found(runs in vec(vec((0u8..60, any::<u8>()), 0..10), 0..6)) {
            let (mut expected, mut numbers, mut twins) = (BTreeMap::new(), 0, false);
            let mut sources = Vec::new();
            for run in runs {
                let mut buffer = Buffer::default();
                let run: BTreeMap<u8, u8> = run.into_iter().collect();
                for (key, row) in run {
                    buffer.push(numbers, &[key], |out| out.push(row)).unwrap();
                    twins |= expected.insert(vec![key], (vec![row], numbers)).is_some();
                    numbers += 1;
                }
                sources.extend(buffer.sort().unwrap().map(Source::memory));
            }
            let mut merge = Merge::new(sources).unwrap();
            let mut found = Vec::new();
            let end = loop {
                match merge.next() {
                    Ok(Some(item)) => found.push((item.key.to_vec(), (item.row.to_vec(), item.number))),
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            match end {
                None => {
                    prop_assert!(!twins);
                    prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
                }
                Some(error) => {
                    let Error::RowExists { key, number } = error else { panic!("{error:?}") };
                    prop_assert!(twins && found.last().is_some_and(|(last, (_, before))| last[..] == key[..] && number > Some(*before)));
                }
            }
        }
    }
}
