//! Deletion vectors: which positions of a segment are dead, because their rows were rewritten, deleted or dropped since
//! the segment was written. Pure.
//!
//! A [`DeletionVector`] is persistent: a copy is free and shares unchanged parts, so that a pin keeps one by copying
//! it. Positions are grouped in chunks of [`CHUNK_POSITIONS`]. A chunk without a dead position is absent, and one
//! without a live position is a single mark, so that dropping a long range touches few bytes. The on-disk format is in
//! `encoding`.

mod encoding;

use arrow::array::BooleanBufferBuilder;
use imbl::{OrdMap, ordmap::DiffItem};
use std::{ops::Range, sync::Arc};

/// The index of a row in its segment, from 0, in the order of keys.
pub(crate) type Position = u32;

/// Positions of a chunk.
const CHUNK_POSITIONS: u32 = 4_096;
const CHUNK_WORDS: usize = CHUNK_POSITIONS as usize / 64;

/// The dead positions of one segment.
#[derive(Clone, Default, Debug, PartialEq)]
pub(crate) struct DeletionVector {
    /// By number; each has at least one dead position.
    chunks: OrdMap<u32, Chunk>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunk {
    /// All positions are dead.
    Full,
    /// Some positions are dead, not all.
    Some(Arc<Words>),
}

type Words = [u64; CHUNK_WORDS];

impl Chunk {
    /// The chunk of these bits; `None` when no position is dead.
    fn new(words: Words) -> Option<Self> {
        match count(&words) {
            0 => None,
            CHUNK_POSITIONS => Some(Self::Full),
            _ => Some(Self::Some(Arc::new(words))),
        }
    }

    fn words(&self) -> &Words {
        match self {
            Self::Full => &[u64::MAX; CHUNK_WORDS],
            Self::Some(words) => words,
        }
    }
}

fn count(words: &Words) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

/// The bits of a chunk in `from..to`.
fn mask(from: u32, to: u32) -> Words {
    // The lowest `bits` bits.
    let low = |bits: u32| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    std::array::from_fn(|word| {
        let first = word as u32 * 64;
        low(to.saturating_sub(first)) & !low(from.saturating_sub(first))
    })
}

/// The set positions, in order.
fn positions(words: Words) -> impl Iterator<Item = u32> {
    words.into_iter().enumerate().flat_map(|(word, bits)| {
        let each = std::iter::successors(Some(bits), |bits| Some(bits & bits.wrapping_sub(1)));
        each.take_while(|&bits| bits != 0).map(move |bits| word as u32 * 64 + bits.trailing_zeros())
    })
}

impl DeletionVector {
    /// Whether the position is dead.
    pub(crate) fn contains(&self, position: Position) -> bool {
        let within = position % CHUNK_POSITIONS;
        match self.chunks.get(&(position / CHUNK_POSITIONS)) {
            None => false,
            Some(Chunk::Full) => true,
            Some(Chunk::Some(words)) => words[within as usize / 64] & (1 << (within % 64)) != 0,
        }
    }

    /// Marks the position dead; returns whether it was live.
    pub(crate) fn insert(&mut self, position: Position) -> bool {
        if self.contains(position) {
            return false;
        }
        let (number, within) = (position / CHUNK_POSITIONS, position % CHUNK_POSITIONS);
        let (word, bit) = (within as usize / 64, 1 << (within % 64));
        let full = match self.chunks.get_mut(&number) {
            Some(Chunk::Some(words)) => {
                let words = Arc::make_mut(words);
                words[word] |= bit;
                words[word] == u64::MAX && count(words) == CHUNK_POSITIONS
            }
            _ => {
                let mut words = [0; CHUNK_WORDS];
                words[word] = bit;
                self.chunks.insert(number, Chunk::Some(Arc::new(words)));
                false
            }
        };
        if full {
            self.chunks.insert(number, Chunk::Full);
        }
        self.count += 1;
        true
    }

    /// Marks the positions dead. The cost is proportional to the chunks, not to the positions.
    pub(crate) fn insert_range(&mut self, range: Range<Position>) {
        for (number, from, to) in chunks_of(range) {
            let chunk = self.chunks.get(&number);
            let before = chunk.map_or(0, |chunk| count(chunk.words()));
            let after = if (from, to) == (0, CHUNK_POSITIONS) {
                Some(Chunk::Full)
            } else {
                let (added, mut words) = (mask(from, to), chunk.map_or([0; CHUNK_WORDS], |chunk| *chunk.words()));
                words.iter_mut().zip(added).for_each(|(word, added)| *word |= added);
                Chunk::new(words)
            };
            let after = after.expect("a part of a chunk has a position");
            self.count += u64::from(count(after.words()) - before);
            self.chunks.insert(number, after);
        }
    }

    /// Number of dead positions.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Number of dead positions in the range.
    pub(crate) fn count_in(&self, range: Range<Position>) -> u64 {
        let Some(last) = range.end.checked_sub(1).filter(|&last| range.start <= last) else { return 0 };
        let (first, last) = (range.start / CHUNK_POSITIONS, last / CHUNK_POSITIONS);
        let counts = self.chunks.range(first..=last).map(|(&number, chunk)| {
            let (from, to) = within_chunk(&range, number);
            match chunk {
                Chunk::Full => to - from,
                Chunk::Some(words) => {
                    words.iter().zip(mask(from, to)).map(|(word, mask)| (word & mask).count_ones()).sum()
                }
            }
        });
        counts.map(u64::from).sum()
    }

    /// The longest runs of live positions in the range, in order.
    pub(crate) fn live_runs(&self, range: Range<Position>) -> impl Iterator<Item = Range<Position>> + use<'_> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let start = self.next(false, at, range.end)?;
            at = self.next(true, start, range.end).unwrap_or(range.end);
            Some(start..at)
        })
    }

    /// Appends a bit for each position of the range: whether it is live.
    pub(crate) fn append_live(&self, range: Range<Position>, bits: &mut BooleanBufferBuilder) {
        for (number, from, to) in chunks_of(range) {
            match self.chunks.get(&number) {
                None => bits.append_n((to - from) as usize, true),
                Some(Chunk::Full) => bits.append_n((to - from) as usize, false),
                Some(Chunk::Some(words)) => {
                    let mut live_runs = [0; CHUNK_WORDS * size_of::<u64>()];
                    for (bytes, word) in live_runs.chunks_exact_mut(size_of::<u64>()).zip(words.iter()) {
                        bytes.copy_from_slice(&(!word).to_le_bytes());
                    }
                    bits.append_packed_range(from as usize..to as usize, &live_runs);
                }
            }
        }
    }

    /// The first dead or live position in `from..end`, as `dead` says.
    fn next(&self, dead: bool, from: Position, end: Position) -> Option<Position> {
        let mut at = from;
        while at < end {
            let number = at / CHUNK_POSITIONS;
            let found = match self.chunks.get(&number) {
                Some(Chunk::Full) => dead.then_some(at),
                Some(Chunk::Some(words)) => {
                    next_in(words, dead, at % CHUNK_POSITIONS).map(|within| number * CHUNK_POSITIONS + within)
                }
                None if !dead => Some(at),
                None => {
                    // No position is dead before the next chunk.
                    at = self.chunks.get_next(&number)?.0 * CHUNK_POSITIONS;
                    continue;
                }
            };
            if found.is_some() {
                return found.filter(|&found| found < end);
            }
            at = (number + 1).checked_mul(CHUNK_POSITIONS)?;
        }
        None
    }

    /// The positions that are dead in `self` and not in `older`, in order. Shared parts cost nothing.
    pub(crate) fn difference<'a>(&'a self, older: &'a Self) -> impl Iterator<Item = Position> + use<'a> {
        let changed = older.chunks.diff(&self.chunks).filter_map(|item| match item {
            DiffItem::Add(&number, new) => Some((number, *new.words())),
            DiffItem::Update { old: (_, old), new: (&number, new) } => {
                Some((number, std::array::from_fn(|word| new.words()[word] & !old.words()[word])))
            }
            DiffItem::Remove(..) => None,
        });
        changed.flat_map(|(number, words): (u32, Words)| {
            positions(words).map(move |within| number * CHUNK_POSITIONS + within)
        })
    }
}

/// The chunks that a range touches, each with its number, the first position within it and the end.
fn chunks_of(range: Range<Position>) -> impl Iterator<Item = (u32, u32, u32)> {
    let numbers = match range.end.checked_sub(1).filter(|&last| range.start <= last) {
        Some(last) => range.start / CHUNK_POSITIONS..last / CHUNK_POSITIONS + 1,
        None => 0..0,
    };
    numbers.map(move |number| {
        let (from, to) = within_chunk(&range, number);
        (number, from, to)
    })
}

/// The part of a range in a chunk: the first position within the chunk, and the end.
fn within_chunk(range: &Range<Position>, number: u32) -> (u32, u32) {
    let first = number * CHUNK_POSITIONS;
    (range.start.saturating_sub(first), (range.end - first).min(CHUNK_POSITIONS))
}

/// The first dead or live position of a chunk from `from` on, as `dead` says.
fn next_in(words: &Words, dead: bool, from: u32) -> Option<u32> {
    let wanted = |word: usize| if dead { words[word] } else { !words[word] };
    let first = from as usize / 64;
    let here = wanted(first) & (u64::MAX << (from % 64));
    let rest = (first + 1..CHUNK_WORDS).map(|word| (word, wanted(word)));
    let (word, bits) = std::iter::once((first, here)).chain(rest).find(|&(_, bits)| bits != 0)?;
    Some(word as u32 * 64 + bits.trailing_zeros())
}

#[cfg(test)]
mod tests;
