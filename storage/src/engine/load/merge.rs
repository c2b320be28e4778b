//! Rows of a load out of several sorted sources, in the order of their keys.

use super::{buffer::Sorted, runs::RunReader};
use crate::{
    Error, Result, RowKey,
    engine::segment::{EncodedRow, EncodedRows},
};
use bytes::Bytes;
use std::{
    cmp::Ordering,
    collections::{BinaryHeap, binary_heap::PeekMut},
    vec,
};

/// The number of a row of which it is no longer known.
pub(super) const UNNUMBERED: u64 = u64::MAX;

/// A row on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Bytes,
    /// Its cells, encoded.
    pub(super) row: Bytes,
    /// What errors call it.
    pub(super) number: u64,
}

/// Sorted rows.
#[derive(Debug)]
pub(super) enum Source {
    /// In memory; the place of the next.
    Memory(Sorted, usize),
    /// In a file of their own.
    Run(RunReader),
    /// In a segment that was written too early.
    Segment(Box<EncodedRows>, vec::IntoIter<EncodedRow>),
}

impl Source {
    fn next(&mut self) -> Result<Option<Item>> {
        match self {
            Self::Memory(sorted, at) => Ok((*at < sorted.len()).then(|| {
                *at += 1;
                sorted.item(*at - 1)
            })),
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
    /// The least and the greatest key of the sources, of which none is a segment; `None` when there are none.
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

    /// Begins.
    ///
    /// # Errors
    /// Those of reading.
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
    /// [`Error::RowExists`] for a key that is there twice; those of reading.
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
                sources.extend(buffer.sort().unwrap().map(|sorted| Source::Memory(sorted, 0)));
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
