//! Segments, compared with the rows written into them.

mod clean;
mod damage;
mod far;
mod few;
mod large;
mod model;

use super::*;
use crate::{
    KeyRange, RowKey,
    engine::{
        blobs::Blobs,
        cells,
        deletion_vector::{DeletionVector, Position},
    },
};
use bytes::Bytes;
use model::{FAMILIES, Memory, Rows as ModelRows, caches, deletion_vectors_of, encode, rows, shape, small, write};
use proptest::prelude::*;
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// Whole rows, in order.
fn whole(segment: &Arc<Segment>) -> Vec<(Vec<u8>, Bytes)> {
    let batches =
        segment.encoded(vec![0..segment.meta().rows], DeletionVector::default(), DECODED_BYTES_TARGET).unwrap();
    batches.flat_map(Result::unwrap).map(|row| (row.key.to_vec(), row.row.read().unwrap())).collect()
}

/// Keys and selected cells, in the order of the read.
fn read(segment: &Arc<Segment>, request: RowsRequest) -> Vec<(RowKey, Vec<StoredCell>)> {
    let rows = segment.rows(request).unwrap().flat_map(Result::unwrap);
    rows.map(|row| (row.key, cells_of(&row.row))).collect()
}

/// The cells of a row, their families by number.
fn cells_of(row: &DecodedRow) -> Vec<StoredCell> {
    let mut cells = Vec::new();
    row.cells(|cell| {
        let (qualifier, value) = (cell.qualifier(), cell.value());
        cells.push(StoredCell { family: cell.family, qualifier, timestamp: cell.timestamp, value });
    })
    .unwrap();
    cells
}

/// A cell, its family by number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoredCell {
    family: u32,
    qualifier: Bytes,
    timestamp: i64,
    value: Bytes,
}

fn everything() -> Vec<SelectedFamily> {
    FAMILIES.iter().map(|&(family, _)| SelectedFamily { family, columns: SelectedColumns::All }).collect()
}

/// A row's cells as [`Segment::rows`] gives them.
fn stored(row: &Bytes) -> Vec<StoredCell> {
    let cells = cells::decode(row).map(|cell| StoredCell {
        family: cell.family,
        qualifier: row.slice_ref(cell.qualifier),
        timestamp: cell.timestamp,
        value: row.slice_ref(cell.value),
    });
    cells.collect()
}

/// The ranges between pairs of marks, within `rows` positions.
fn ranges_of(marks: &[u32], rows: Position) -> Vec<Range<Position>> {
    let mut marks: Vec<Position> = marks.iter().map(|mark| mark % (rows + 1)).collect();
    marks.sort_unstable();
    marks.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect()
}

#[test]
fn rows_with_few_of_many_columns_come_back() {
    let row = |row: u32| {
        let columns: BTreeSet<u32> = [row % 97, row * 7 % 97, 5].into_iter().take(row as usize % 4).collect();
        let cell = |column: &u32| (0, format!("c{column:02}").into_bytes(), 1_000, vec![row as u8; 3]);
        let mut cells: Vec<_> = columns.iter().map(cell).collect();
        cells.push((1, b"x".to_vec(), 1_000, Vec::new()));
        (row.to_be_bytes().to_vec(), cells)
    };
    let rows: ModelRows = (0..900).map(row).collect();
    let segment = write(&Memory::new(), &shape(&rows, false), small(true), &rows);
    assert!(segment.load().unwrap().footer.columns.len() > 90);
    assert_eq!(whole(&segment), encode(&rows));
    let wanted: Vec<Bytes> = ["c05", "c31"].map(Bytes::from).into();
    let request = RowsRequest {
        ranges: vec![0..segment.meta().rows],
        dead: DeletionVector::default(),
        wanted: vec![SelectedFamily { family: FAMILIES[0].0, columns: SelectedColumns::These(wanted.clone()) }],
        older: true,
        reversed: false,
        rows_soon: 1_000,
        decoded_bytes: DECODED_BYTES_TARGET,
    };
    for (found, (_, encoded)) in read(&segment, request).iter().zip(encode(&rows)) {
        let expected = stored(&encoded).into_iter().filter(|cell| wanted.contains(&cell.qualifier));
        assert_eq!(found.1, expected.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows_come_back_byte_for_byte(rows in rows(60), declared: bool, base: bool) {
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, declared), small(base), &rows);
        prop_assert_eq!(segment.meta().rows as usize, rows.len());
        prop_assert_eq!(whole(&segment), encode(&rows));
        for (position, (key, row)) in encode(&rows).into_iter().enumerate() {
            prop_assert_eq!(segment.key_at(position as Position).unwrap().to_vec(), key);
            prop_assert_eq!(segment.row(position as Position).unwrap(), row);
        }
        segment.verify().unwrap();
    }

    #[test]
    fn keys_have_their_positions(rows in rows(80), looked_for in prop::collection::vec(model::key(), 0..40), base: bool) {
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, true), small(base), &rows);
        let keys: Vec<&Vec<u8>> = rows.keys().collect();
        let mut looked_for: Vec<&Vec<u8>> = looked_for.iter().chain(keys.iter().copied()).collect();
        looked_for.sort();
        for key in &looked_for {
            let found = keys.binary_search(key).ok().map(|at| at as Position);
            prop_assert_eq!(segment.find(key).unwrap(), found);
            let bound = keys.partition_point(|one| one < key) as Position;
            prop_assert_eq!(segment.lower_bound(key).unwrap(), bound);
            if let Some(found) = found {
                prop_assert_eq!(&segment.key_at(found).unwrap().to_vec(), *key);
            }
        }
        let resolved = segment.resolve(looked_for.iter().map(|key| key.as_slice())).unwrap();
        let expected: Vec<_> = looked_for.iter().map(|key| keys.binary_search(key).ok().map(|at| at as Position)).collect();
        prop_assert_eq!(resolved, expected);
        if let [first, .., last] = looked_for[..] {
            let range = KeyRange::new(first.clone(), Some(last.clone().into()));
            let within = keys.iter().filter(|key| range.contains(key)).count();
            prop_assert_eq!(segment.positions(&range).unwrap().len(), within);
        }
    }

    #[test]
    fn living_rows_of_the_ranges_come_either_way(
        rows in rows(80),
        marks in prop::collection::vec(0u32..1_000, 0..8),
        dead in prop::collection::vec(0u32..80, 0..60),
        rows_soon in prop::sample::select(vec![1usize, 3, 1_000]),
    ) {
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, true), small(false), &rows);
        let (ranges, dead) = (ranges_of(&marks, segment.meta().rows), deletion_vectors_of(&dead));
        let expected: Vec<_> = encode(&rows)
            .into_iter()
            .enumerate()
            .filter(|(at, _)| {
                let position = *at as Position;
                ranges.iter().any(|range| range.contains(&position)) && !dead.contains(position)
            })
            .map(|(_, (key, row))| (RowKey::new(key).unwrap(), stored(&row)))
            .collect();
        let request = RowsRequest {
            ranges,
            dead,
            wanted: everything(),
            older: true,
            reversed: false,
            rows_soon,
            decoded_bytes: DECODED_BYTES_TARGET,
        };
        prop_assert_eq!(&read(&segment, request.clone()), &expected);
        let mut backward = read(&segment, RowsRequest { reversed: true, ..request });
        backward.reverse();
        prop_assert_eq!(&backward, &expected);
    }

    #[test]
    fn wanted_columns_come_whole_and_no_others(
        rows in rows(40),
        chosen in prop::collection::btree_set((0..FAMILIES.len(), model::qualifier()), 0..6),
        whole_family in prop::option::of(0..FAMILIES.len()),
        older: bool,
    ) {
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, true), small(false), &rows);
        let mut wanted: Vec<SelectedFamily> = Vec::new();
        for (at, &(family, _)) in FAMILIES.iter().enumerate() {
            let of_family = chosen.iter().filter(|(family, _)| *family == at).map(|(_, qualifier)| Bytes::from(qualifier.clone()));
            let qualifiers: Vec<Bytes> = of_family.collect();
            if whole_family == Some(at) {
                wanted.push(SelectedFamily { family, columns: SelectedColumns::All });
            } else if !qualifiers.is_empty() {
                wanted.push(SelectedFamily { family, columns: SelectedColumns::These(qualifiers) });
            }
        }
        let is_wanted = |cell: &StoredCell| {
            wanted.iter().any(|of| of.family == cell.family && of.columns.contains(&cell.qualifier))
        };
        let request = RowsRequest {
            ranges: vec![0..segment.meta().rows],
            dead: DeletionVector::default(),
            wanted: wanted.clone(),
            older,
            reversed: false,
            rows_soon: usize::MAX,
            decoded_bytes: DECODED_BYTES_TARGET,
        };
        let found = read(&segment, request);
        prop_assert_eq!(found.len(), rows.len());
        for ((found_key, cells), (key, encoded)) in found.iter().zip(encode(&rows)) {
            prop_assert_eq!(found_key.to_vec(), key);
            let all: Vec<StoredCell> = stored(&encoded).into_iter().filter(is_wanted).collect();
            if older {
                prop_assert_eq!(cells, &all);
                continue;
            }
            let newest = |cells: &[StoredCell]| {
                let mut cells = cells.to_vec();
                cells.dedup_by(|cell, before| (cell.family, &cell.qualifier) == (before.family, &before.qualifier));
                cells
            };
            prop_assert_eq!(newest(cells), newest(&all));
            prop_assert!(cells.iter().all(|cell| all.contains(cell)));
        }
    }
}

#[test]
fn a_row_without_cells_of_the_shape_is_not_written() {
    let blobs = Memory::new();
    let mut encoder = cells::Encoder::default();
    encoder.push(99, b"q", 5, b"of a family that was dropped");
    let dropped = encoder.finish();
    let shape = shape(&ModelRows::new(), true);
    let mut writer = SegmentWriter::new(blobs.clone(), shape, small(false)).unwrap();
    let key = |key: &str| RowKey::new(key.as_bytes().to_vec()).unwrap();
    assert_eq!(writer.push(&key("a"), &dropped).unwrap(), None);
    let mut encoder = cells::Encoder::default();
    encoder.push(FAMILIES[0].0, b"q", 5, b"value");
    let kept = encoder.finish();
    assert_eq!(writer.push(&key("b"), &kept).unwrap(), Some(0));
    let meta = writer.finish().unwrap().unwrap();
    assert_eq!((meta.rows, meta.first.clone(), meta.last.clone()), (1, key("b"), key("b")));
    let segment = Segment::open(blobs, 5, meta, caches());
    assert_eq!(whole(&segment), [(b"b".to_vec(), kept)]);
}

#[test]
fn nothing_to_write_is_no_segment() {
    let blobs = Memory::new();
    let writer = SegmentWriter::new(blobs.clone(), shape(&ModelRows::new(), true), small(false)).unwrap();
    assert_eq!(writer.finish().unwrap(), None);
    assert_eq!(blobs.list().unwrap(), []);
}

#[test]
fn columns_that_are_frequent_get_one_of_their_own() {
    let rows: ModelRows = (0u8..100)
        .map(|row| {
            let mut cells = vec![(2, b"often".to_vec(), 7, vec![row % 3])];
            if row == 50 {
                cells.push((2, b"rare".to_vec(), 7, vec![row]));
            }
            (vec![b'k', row], cells)
        })
        .collect();
    let names: Vec<String> = shape(&rows, false).columns.iter().map(|column| column.name.clone()).collect();
    assert_eq!(names, ["3:c:often"]);
    let declared = shape(&rows, true);
    assert!(declared.columns.iter().any(|column| column.name == "3:c:often" && column.dictionary));
    assert!(declared.columns.iter().any(|column| column.name == "0:b:%00%2A"), "{declared:?}");
}

#[test]
fn a_witness_has_a_value_in_every_row() {
    let mut rows: ModelRows = (0u8..60)
        .map(|row| {
            let wide = (0, b"text".to_vec(), 9, vec![b'a' + row % 26; 99]);
            (vec![row], vec![(0, b"i8".to_vec(), 9, vec![row; 8]), wide, (1, vec![], 9, vec![row; 50])])
        })
        .collect();
    let witness = |rows: &ModelRows, families: &[u32]| {
        let segment = write(&Memory::new(), &shape(rows, true), small(false), rows);
        segment.witness(families).unwrap().map(|(family, qualifier)| (family, qualifier.to_vec()))
    };
    assert_eq!(witness(&rows, &[7, 0]), Some((7, b"i8".to_vec())));
    assert_eq!(witness(&rows, &[0]), Some((0, vec![])));
    assert_eq!(witness(&rows, &[3]), None);
    // A value that does not fit the kind goes to the overflow.
    rows.get_mut(&vec![59]).unwrap()[0].3 = vec![1];
    assert_eq!(witness(&rows, &[7]), Some((7, b"text".to_vec())));
}

#[test]
fn caches_are_bounded_and_forget() {
    let rows: ModelRows = (0u8..200).map(|row| (vec![row], vec![(0, b"i8".to_vec(), 1, vec![row; 8])])).collect();
    let (blobs, caches) = (Memory::new(), Arc::new(Caches::new(1 << 20, 1 << 10)));
    let meta = write(&blobs, &shape(&rows, true), small(false), &rows).meta().clone();
    let segment = Segment::open(blobs, 5, meta, caches.clone());
    for key in rows.keys() {
        assert!(segment.find(key).unwrap().is_some());
    }
    let (tails, keys) = caches.bytes();
    assert!((1..=1 << 20).contains(&tails) && keys <= 1 << 10, "{tails} {keys}");
    caches.forget(segment.meta().id);
    assert_eq!(caches.bytes(), (0, 0));
}
