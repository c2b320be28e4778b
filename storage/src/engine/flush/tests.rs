//! Flushes into tablets.

use super::*;
use crate::{
    KeyRange,
    engine::{
        compact::tests::{Heap, encoded, row_of_cells},
        tablet::Tablet,
    },
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn key(key: u8) -> RowKey {
    RowKey::new(vec![key]).unwrap()
}

/// Tablets without segments, with these boundaries.
fn tablets(boundaries: &BTreeSet<u8>) -> Tablets<SegmentMeta> {
    let starts = [Bytes::new()].into_iter().chain(boundaries.iter().map(|boundary| vec![*boundary].into()));
    let ends = boundaries.iter().map(|boundary| Some(vec![*boundary].into())).chain([None]);
    let tablet = |(start, end)| Tablet { range: KeyRange { start, end }, segments: Vec::new() };
    Tablets::new(starts.zip(ends).map(tablet).collect()).unwrap()
}

proptest! {
    #[test]
    fn every_row_is_in_one_delta_at_its_position(
        rows in prop::collection::btree_map(1u8..60, row_of_cells(), 0..40),
        boundaries in prop::option::of(prop::collection::btree_set(1u8..60, 0..6)),
        delta_bytes_min in prop_oneof![Just(0), 1u64..2_000],
    ) {
        let tablets = boundaries.as_ref().map_or_else(Tablets::default, tablets);
        let rows: BTreeMap<RowKey, Bytes> = rows.into_iter().map(|(of, cells)| (key(of), encoded(&cells))).collect();
        let (mut heap, mut written) = (Heap::default(), Vec::new());
        flush(rows.iter(), &tablets, &mut heap, delta_bytes_min, &mut written).unwrap();

        let found: Vec<_> = written.iter().flat_map(|delta| heap.segments.borrow()[&delta.meta.id.0].clone()).collect();
        prop_assert_eq!(found, rows.clone().into_iter().collect::<Vec<_>>());
        for delta in &written {
            for (at, (key, _)) in heap.segments.borrow()[&delta.meta.id.0].iter().enumerate() {
                prop_assert_eq!(delta.position(key), Some(at as u32));
            }
            prop_assert_eq!(delta.keys.len(), delta.meta.rows as usize);
            prop_assert_eq!(delta.position(b"not one"), None);
        }
        // A delta ends at the first end of a tablet at which it is large enough, and nowhere else.
        let (mut expected, mut bytes): (Vec<Vec<&RowKey>>, u64) = (Vec::new(), 0);
        let mut last = None;
        for (key, row) in &rows {
            let tablet = tablets.of_key(key).map(|tablet| &tablet.range.start);
            let ends = last.replace(tablet).is_none_or(|last| last != tablet && bytes >= delta_bytes_min);
            if ends {
                expected.push(Vec::new());
                bytes = 0;
            }
            expected.last_mut().unwrap().push(key);
            bytes += (key.len() + row.len()) as u64;
        }
        let keys: Vec<Vec<&RowKey>> = written.iter().map(|delta| delta.keys.iter().collect()).collect();
        prop_assert_eq!(keys, expected);
    }

    #[test]
    fn what_was_written_before_the_disk_was_full_is_known(rows in prop::collection::btree_map(1u8..60, row_of_cells(), 10..40), room in 0u64..400) {
        let rows: BTreeMap<RowKey, Bytes> = rows.into_iter().map(|(of, cells)| (key(of), encoded(&cells))).collect();
        let (mut heap, mut written) = (Heap { room: Some(room), ..Heap::default() }, Vec::new());
        let flushed = flush(rows.iter(), &tablets(&(1..60).step_by(9).collect()), &mut heap, 0, &mut written);
        prop_assert_eq!(written.len(), heap.segments.borrow().len());
        prop_assert!(flushed.is_err() || written.iter().map(|delta| delta.keys.len()).sum::<usize>() == rows.len());
    }
}
