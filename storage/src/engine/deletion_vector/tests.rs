//! A [`DeletionVector`], compared with a set of positions.

use super::encoding::{FORMAT_VERSION, MAGIC};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Positions in the tests: some chunks, and a part of one.
const END: u32 = 3 * CHUNK_POSITIONS + 100;

#[derive(Clone, Debug)]
enum Step {
    Insert(Position),
    InsertRange(Range<Position>),
}

fn position() -> impl Strategy<Value = Position> {
    // More often around the boundaries of words and chunks than elsewhere.
    prop_oneof![
        0..END,
        (0..4u32, -2i64..3).prop_map(|(chunk, off)| edge(chunk * CHUNK_POSITIONS, off)),
        (0..6u32, -2i64..3).prop_map(|(word, off)| edge(word * 64, off))
    ]
}

fn edge(at: u32, off: i64) -> u32 {
    (i64::from(at) + off).clamp(0, i64::from(END) - 1) as u32
}

fn range() -> impl Strategy<Value = Range<Position>> {
    (position(), position())
        // One range in two is empty or reversed, and adds nothing.
        .prop_map(|(from, to)| from..to)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![4 => position().prop_map(Step::Insert), 1 => range().prop_map(Step::InsertRange)];
    prop::collection::vec(step, 0..30)
}

fn apply(dead: &mut DeletionVector, model: &mut BTreeSet<Position>, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Insert(position) => assert_eq!(dead.insert(position), model.insert(position)),
            Step::InsertRange(range) => {
                dead.insert_range(range.clone());
                model.extend(range);
            }
        }
        assert_eq!(dead.count(), model.len() as u64);
    }
}

/// The runs of positions of the range that are not in the model.
fn runs(model: &BTreeSet<Position>, range: Range<Position>) -> Vec<Range<Position>> {
    let mut runs: Vec<Range<Position>> = Vec::new();
    for position in range.filter(|position| !model.contains(position)) {
        match runs.last_mut() {
            Some(last) if last.end == position => last.end += 1,
            _ => runs.push(position..position + 1),
        }
    }
    runs
}

proptest! {
    // Each case goes through thousands of positions.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_is_a_set_of_positions(first in steps(), second in steps(), range in range(), probe in prop::collection::vec(position(), 20)) {
        let (mut dead, mut model) = (DeletionVector::default(), BTreeSet::new());
        apply(&mut dead, &mut model, first);
        let (older, older_model) = (dead.clone(), model.clone());
        apply(&mut dead, &mut model, second);

        for position in probe {
            prop_assert_eq!(dead.contains(position), model.contains(&position));
            prop_assert_eq!(older.contains(position), older_model.contains(&position));
        }
        let count = range.clone().filter(|position| model.contains(position)).count();
        prop_assert_eq!(dead.count_in(range.clone()), count as u64);
        let mut bits = BooleanBufferBuilder::new(0);
        dead.append_live(range.clone(), &mut bits);
        let live_runs: Vec<bool> = bits.finish().iter().collect();
        prop_assert_eq!(live_runs, range.clone().map(|position| !model.contains(&position)).collect::<Vec<_>>());
        prop_assert_eq!(dead.live_runs(range.clone()).collect::<Vec<_>>(), runs(&model, range));
        prop_assert_eq!(dead.live_runs(0..END).collect::<Vec<_>>(), runs(&model, 0..END));
        let added: Vec<Position> = model.difference(&older_model).copied().collect();
        prop_assert_eq!(dead.difference(&older).collect::<Vec<_>>(), added);
        prop_assert_eq!(older.difference(&dead).count(), 0);
        // A set has one encoding, however it was built.
        let mut anew = DeletionVector::default();
        anew.extend_from(model);
        prop_assert_eq!(&anew, &dead);
        prop_assert_eq!(anew.encode(), dead.encode());
    }
}

proptest! {
    #[test]
    fn it_is_read_back(steps in steps()) {
        let (mut dead, mut model) = (DeletionVector::default(), BTreeSet::new());
        apply(&mut dead, &mut model, steps);
        prop_assert_eq!(DeletionVector::decode(&dead.encode()), Some(dead));
    }

    #[test]
    fn damage_is_refused(steps in steps(), at: prop::sample::Index, flip in 1u8..) {
        let (mut dead, mut model) = (DeletionVector::default(), BTreeSet::new());
        apply(&mut dead, &mut model, steps);
        let sound = dead.encode();
        let mut flipped = sound.clone();
        *at.get_mut(&mut flipped) ^= flip;
        prop_assert_eq!(DeletionVector::decode(&flipped), None);
        prop_assert_eq!(DeletionVector::decode(&sound[..at.index(sound.len())]), None);
    }

    /// Arbitrary content behind a valid checksum is refused, or is the encoding of the decoded value.
    #[test]
    fn only_what_was_encoded_is_decoded(content in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..12)) {
        let mut bytes = MAGIC.to_vec();
        bytes.push(FORMAT_VERSION);
        bytes.extend_from_slice(&content);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        if let Some(dead) = DeletionVector::decode(&bytes) {
            prop_assert_eq!(DeletionVector::decode(&dead.encode()), Some(dead));
        }
    }
}

impl DeletionVector {
    fn extend_from(&mut self, positions: impl IntoIterator<Item = Position>) {
        positions.into_iter().for_each(|position| assert!(self.insert(position)));
    }
}

#[test]
fn the_drop_of_a_whole_segment_is_small() {
    let mut dead = DeletionVector::default();
    let first = u32::MAX - 10_000_000;
    dead.insert_range(first..u32::MAX);
    assert_eq!(dead.count(), 10_000_000);
    assert_eq!(dead.live_runs(first - 1..u32::MAX).collect::<Vec<_>>(), vec![first - 1..first]);
    assert!(dead.encode().len() < 10_000);
    assert!(!dead.contains(u32::MAX) && dead.insert(u32::MAX) && dead.contains(u32::MAX));
    assert_eq!(DeletionVector::decode(&dead.encode()), Some(dead));
}

#[test]
fn other_files_are_refused() {
    let sealed = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        DeletionVector::decode(&bytes)
    };
    assert_eq!(sealed(b"KSDEAD\r\n\x01\x00"), Some(DeletionVector::default()));
    for (what, bytes) in [
        ("another magic", &b"KSDEAD\n\n\x01\x00"[..]),
        ("a later version", b"KSDEAD\r\n\x02\x00"),
        ("bytes behind the end", b"KSDEAD\r\n\x01\x00\x00"),
        ("an unknown form", b"KSDEAD\r\n\x01\x01\x00\x03"),
        ("a chunk without a dead position", b"KSDEAD\r\n\x01\x01\x00\x02\x00"),
        ("a position beyond its chunk", b"KSDEAD\r\n\x01\x01\x00\x02\x01\x80\x20"),
        ("a chunk beyond the last position", b"KSDEAD\r\n\x01\x01\x80\x80\x40\x00"),
    ] {
        assert_eq!(sealed(bytes), None, "{what}");
    }
}
