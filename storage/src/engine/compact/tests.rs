//! Compactions, compared with a map of rows.

use super::*;
use crate::{
    Cell, FamilyName, GcRule,
    engine::{
        cells,
        deletion_vector::DeletionVector,
        descriptor::{Descriptor, LoggedDescriptor},
        garbage::Garbage,
        manifest::{PastRule, SegmentId},
    },
    row,
};
use proptest::prelude::*;
use std::{cell::RefCell, collections::BTreeMap, ops::Range, rc::Rc, sync::Arc};

type Rows = Vec<(RowKey, Bytes)>;

/// Segments in memory.
#[derive(Clone, Default)]
pub(in crate::engine) struct Heap {
    /// The rows of each finished segment.
    pub(in crate::engine) segments: Rc<RefCell<BTreeMap<u64, Rows>>>,
    /// Number of segments begun.
    pub(in crate::engine) begun: Rc<RefCell<u64>>,
    /// Bytes that may be written before writing fails.
    pub(in crate::engine) room: Option<u64>,
}

pub(in crate::engine) struct HeapWriter {
    heap: Heap,
    id: u64,
    rows: Rows,
}

impl Outputs for Heap {
    type Writer = HeapWriter;

    fn begin(&mut self, sample: &[(&[u8], &[u8])]) -> Result<HeapWriter> {
        assert!(!sample.is_empty());
        let id = self.begun.replace_with(|begun| *begun + 1);
        Ok(HeapWriter { heap: self.clone(), id, rows: Vec::new() })
    }
}

impl Output for HeapWriter {
    fn push(&mut self, key: &RowKey, row: &[u8]) -> Result<Option<Position>> {
        if self.heap.room.is_some_and(|room| self.bytes() >= room) {
            return Err(crate::Error::NoSpace { path: "heap".into() });
        }
        assert!(self.rows.last().is_none_or(|(last, _)| last < key), "rows come in the order of keys");
        self.rows.push((key.clone(), Bytes::copy_from_slice(row)));
        Ok(Some(self.rows.len() as u32 - 1))
    }

    fn bytes(&self) -> u64 {
        self.rows.iter().map(|(key, row)| (key.len() + row.len()) as u64).sum()
    }

    fn finish(self) -> Result<Option<SegmentMeta>> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else { return Ok(None) };
        let meta =
            SegmentMeta { bytes: self.bytes(), base: true, ..meta(self.id, &first.0, &last.0, self.rows.len() as u32) };
        self.heap.segments.borrow_mut().insert(self.id, self.rows);
        Ok(Some(meta))
    }
}

/// A delta of one byte and stamp 0.
pub(in crate::engine) fn meta(id: u64, first: &RowKey, last: &RowKey, rows: u32) -> SegmentMeta {
    let (first, last) = (first.clone(), last.clone());
    SegmentMeta {
        id: SegmentId(id),
        rows,
        bytes: 1,
        side_bytes: 0,
        tail_bytes: 0,
        tail_crc: 0,
        first,
        last,
        stamp: 0,
        base: false,
    }
}

/// Families `a` (number 2) and `b` (number 0); number 1 was dropped.
pub(in crate::engine) fn descriptor(a: &GcRule, b: &GcRule) -> Arc<Descriptor> {
    let family =
        |number: u32, gc: &GcRule| serde_json::json!({"number": number, "family": {"gc": gc, "aggregate": null}});
    let logged = serde_json::json!({
        "table": 7, "name": "t", "next_family": 3,
        "families": {"a": family(2, a), "b": family(0, b)},
    });
    Arc::new(serde_json::from_value::<LoggedDescriptor>(logged).unwrap().into_descriptor().unwrap().1)
}

pub(in crate::engine) fn encoded(cells: &[Cell]) -> Bytes {
    cells::encode(cells, |name| match name.as_str() {
        "a" => 2,
        "b" => 0,
        _ => 1,
    })
}

pub(in crate::engine) fn rule() -> impl Strategy<Value = GcRule> {
    let limit = prop_oneof![
        3 => Just(GcRule::KeepAll),
        1 => (1u32..3).prop_map(GcRule::MaxVersions),
        1 => (1i64..60).prop_map(GcRule::MaxAgeMicros),
    ];
    limit.prop_recursive(1, 3, 2, |inner| {
        let rules = prop::collection::vec(inner, 1..3);
        (rules, any::<bool>()).prop_map(|(rules, all)| match all {
            true => GcRule::Intersection(rules),
            false => GcRule::Union(rules),
        })
    })
}

/// The cells of a row, in order.
pub(in crate::engine) fn row_of_cells() -> impl Strategy<Value = Vec<Cell>> {
    let cell = ("[abc]", 0u8..3, 0i64..100).prop_map(|(family, qualifier, timestamp)| Cell {
        family: FamilyName::new(&family).unwrap(),
        qualifier: vec![qualifier].into(),
        timestamp,
        value: vec![timestamp as u8].into(),
    });
    prop::collection::vec(cell, 1..6).prop_map(|mut cells| {
        cells.sort_by(Cell::order);
        cells.dedup_by(|a, b| a.order(b).is_eq());
        cells
    })
}

/// A row of a segment: its cells, and whether it is dead.
type Stored = (Vec<Cell>, bool);

#[derive(Clone, Debug)]
struct Case {
    rules: [GcRule; 2],
    past: Vec<PastRule>,
    now: i64,
    /// Stamp and rows of each segment; if several have a live row of one key, the first keeps it.
    segments: Vec<(i64, BTreeMap<u8, Stored>)>,
    /// The keys of the tablet.
    keys: Range<u8>,
    /// Live positions of each segment that die while the compaction runs.
    dying: Vec<Vec<prop::sample::Index>>,
    target: u64,
    step_rows: usize,
    batch_rows: usize,
}

fn case() -> impl Strategy<Value = Case> {
    let past = (0u32..3, rule(), 0i64..100).prop_map(|(family, rule, at_micros)| PastRule { family, rule, at_micros });
    let past = prop::collection::vec(past, 0..3).prop_map(|mut past| {
        past.sort_by_key(|past| past.at_micros);
        past
    });
    let stored = (row_of_cells(), prop::bool::weighted(0.2));
    let segment = (0i64..100, prop::collection::btree_map(0u8..60, stored, 1..30));
    let segments = prop::collection::vec(segment, 0..5);
    let dying = prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..6), 5);
    let keys = prop_oneof![Just(0u8..60), (0u8..30, 30u8..60).prop_map(|(from, to)| from..to)];
    (([rule(), rule()], past, 0i64..120, segments), (keys, dying, 20u64..600, 1usize..10, 1usize..8)).prop_map(
        |((rules, past, now, mut segments), (keys, dying, target, step_rows, batch_rows))| {
            let mut taken = std::collections::BTreeSet::new();
            for (key, (_, dead)) in segments.iter_mut().flat_map(|(_, rows)| rows) {
                *dead |= !taken.insert(*key);
            }
            Case { rules, past, now, segments, keys, dying, target, step_rows, batch_rows }
        },
    )
}

fn key(key: u8) -> RowKey {
    RowKey::new(vec![b'k', key]).unwrap()
}

impl Case {
    /// The live cells of a row, by the definition of the rules.
    fn left(&self, stamp: i64, cells: &[Cell]) -> Vec<Cell> {
        let descriptor = descriptor(&self.rules[0], &self.rules[1]);
        let mut cells = cells.to_vec();
        for past in self.past.iter().filter(|past| past.at_micros > stamp) {
            let Some(name) = descriptor.family(past.family) else { continue };
            let mut schema = descriptor.schema.clone();
            for (family, of) in &mut schema.families {
                of.gc = if family == name { past.rule.clone() } else { GcRule::KeepAll };
            }
            cells = row::live(&schema, cells, past.at_micros);
        }
        row::live(&descriptor.schema, cells, self.now)
    }

    fn positions(&self, rows: &BTreeMap<u8, Stored>) -> Range<Position> {
        rows.range(..self.keys.start).count() as u32..rows.range(..self.keys.end).count() as u32
    }

    fn input(&self, stamp: i64, rows: &BTreeMap<u8, Stored>) -> Input<impl Iterator<Item = Result<Vec<EncodedRow>>>> {
        let positions = self.positions(rows);
        let live = rows.iter().zip(0u32..).filter(|((_, (_, dead)), at)| !dead && positions.contains(at));
        let live: Vec<_> = live.map(|((of, (cells, _)), at)| (at, key(*of), encoded(cells))).collect();
        let bytes = live.iter().map(|(_, key, row)| (key.len() + row.len()) as u64).sum();
        let row = |(position, key, row): &(u32, RowKey, Bytes)| EncodedRow {
            position: *position,
            key: key.clone(),
            row: row.clone().into(),
        };
        let batches = live.chunks(self.batch_rows).map(|batch| Ok(batch.iter().map(row).collect()));
        let batches: Vec<Result<Vec<EncodedRow>>> = batches.collect();
        Input { stamp, positions, bytes, batches: batches.into_iter() }
    }

    fn compaction(&self, heap: Heap) -> Compaction<impl Iterator<Item = Result<Vec<EncodedRow>>>, Heap> {
        let inputs = self.segments.iter().map(|(stamp, rows)| self.input(*stamp, rows)).collect();
        let garbage = Garbage::new(descriptor(&self.rules[0], &self.rules[1]), &self.past, self.now);
        Compaction::new(inputs, &garbage, heap, self.target).with_step_rows(self.step_rows)
    }
}

proptest! {
    #[test]
    fn what_lives_is_in_the_bases_once_and_where_it_is_said_to_be(case in case()) {
        let heap = Heap::default();
        let mut compaction = case.compaction(heap.clone());
        while !compaction.step().unwrap() {}
        let output = compaction.finish();
        let bases: Vec<Rows> =
            output.segments.iter().map(|meta| heap.segments.borrow()[&meta.id.0].clone()).collect();

        // The rows.
        let mut expected = BTreeMap::new();
        for (stamp, rows) in &case.segments {
            for (of, (cells, _)) in rows.iter().filter(|(of, (_, dead))| !dead && case.keys.contains(of)) {
                let left = case.left(*stamp, cells);
                if !left.is_empty() {
                    expected.insert(key(*of), encoded(&left));
                }
            }
        }
        prop_assert_eq!(bases.concat(), expected.clone().into_iter().collect::<Vec<_>>());
        prop_assert_eq!(output.progress.rows_written, expected.len() as u64);
        prop_assert_eq!(heap.segments.borrow().len(), bases.len());

        // No base exceeds the target by more than the rows of a step.
        let row_bytes_max = 2 + 6 * 12 + 8;
        for base in &bases {
            let bytes: usize = base.iter().map(|(key, row)| key.len() + row.len()).sum();
            prop_assert!(bytes as u64 <= case.target + (case.step_rows * row_bytes_max) as u64);
        }

        // Positions, and rows that died meanwhile.
        let (mut remapped, mut dead) = (vec![DeletionVector::default(); bases.len()], vec![DeletionVector::default(); bases.len()]);
        for (input, (_, rows)) in case.segments.iter().enumerate() {
            let mut then = DeletionVector::default();
            let mut now = DeletionVector::default();
            for ((of, (_, is_dead)), at) in rows.iter().zip(0u32..) {
                let new_position = output.position_map.get(input, at);
                let found = new_position.map(|(output, position)| bases[output][position as usize].0.clone());
                let moves = !is_dead && case.keys.contains(of);
                prop_assert_eq!(found, Some(key(*of)).filter(|key| moves && expected.contains_key(key)));
                if *is_dead {
                    then.insert(at);
                    now.insert(at);
                }
                if case.dying[input].iter().any(|index| index.index(rows.len()) as u32 == at) {
                    now.insert(at);
                    if let Some((output, position)) = new_position {
                        dead[output].insert(position);
                    }
                }
            }
            prop_assert_eq!(output.position_map.get(input, rows.len() as u32), None);
            output.position_map.remap(input, &then, &now, &mut remapped);
        }
        prop_assert_eq!(remapped, dead);
    }

    #[test]
    fn a_disk_that_is_full_ends_it(case in case(), room in 0u64..400) {
        let heap = Heap { room: Some(room), ..Heap::default() };
        let mut compaction = case.compaction(heap.clone());
        let ended = loop {
            match compaction.step() {
                Ok(false) => {}
                Ok(true) => break false,
                Err(error) => {
                    prop_assert_eq!(error.kind(), crate::ErrorKind::NoSpace);
                    break true;
                }
            }
        };
        let left = if ended { compaction.abandon() } else { compaction.finish().segments };
        // Finished segments are returned, so that they can be deleted.
        prop_assert_eq!(left.len(), heap.segments.borrow().len());
    }
}

#[test]
fn bases_are_about_equal() {
    let check = |bytes, bases| assert_eq!(u64::div_ceil(bytes, cut_bytes(bytes, 256)), bases, "{bytes}");
    check(10, 1);
    check(256, 1);
    check(257, 2);
    check(512, 2);
    check(513, 3);
    assert_eq!(cut_bytes(300, 256), 159);
    assert_eq!(cut_bytes(0, 0), 1);
}

#[test]
fn an_input_has_the_bytes_of_what_lives_in_its_tablet() {
    let segment = SegmentMeta { bytes: 900, side_bytes: 100, ..meta(1, &key(1), &key(9), 100) };
    let mut dead = DeletionVector::default();
    dead.insert_range(0..10);
    dead.insert_range(50..55);
    let bytes = |positions| Input::new(&segment, positions, &dead, ()).bytes;
    assert_eq!(bytes(0..100), 850);
    assert_eq!(bytes(0..10), 0);
    assert_eq!(bytes(40..60), 150);
    assert_eq!(bytes(60..100), 400);
}

#[test]
#[should_panic(expected = "a row lives in one segment")]
fn a_row_that_lives_twice_is_our_mistake() {
    let row =
        || vec![Ok(vec![EncodedRow { position: 0, key: key(1), row: Bytes::from_static(b"row").into() }])].into_iter();
    let input = || Input { stamp: 0, positions: 0..1, bytes: 1, batches: row() };
    let mut merge = Merge::new(vec![input(), input()]);
    let _ = merge.next();
}

#[test]
fn a_range_that_died_is_brought_along_at_once() {
    let mut position_map = PositionMap::new(std::iter::once(0..1_000_000));
    position_map.begin_output();
    (0..600_000).for_each(|at| position_map.set(0, at, at));
    position_map.begin_output();
    (600_000..1_000_000).for_each(|at| position_map.set(0, at, at - 600_000));
    let mut now = DeletionVector::default();
    now.insert_range(500_000..900_000);
    let mut dead = vec![DeletionVector::default(); 2];
    position_map.remap(0, &DeletionVector::default(), &now, &mut dead);
    assert_eq!(dead.iter().map(DeletionVector::count).collect::<Vec<_>>(), [100_000, 300_000]);
    assert_eq!(dead[1].live_runs(0..400_000).collect::<Vec<_>>(), vec![300_000..400_000]);
}
