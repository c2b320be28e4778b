//! Segments in a remote location, where each read has high latency.

use super::*;
use crate::{
    Result,
    engine::blobs::{Blob, BlobWriter},
};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Files in memory that count requests.
#[derive(Debug, Default)]
struct Far {
    files: Memory,
    requests: Arc<AtomicUsize>,
}

impl Far {
    /// Requests since the last call.
    fn take_requests(&self) -> usize {
        self.requests.swap(0, Ordering::SeqCst)
    }
}

impl Blobs for Far {
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        self.files.create(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        Ok(Arc::new(FarBlob { blob: self.files.open(name)?, requests: self.requests.clone() }))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.files.delete(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.files.list()
    }

    fn describe(&self) -> String {
        "far away".into()
    }
}

#[derive(Debug)]
struct FarBlob {
    blob: Arc<dyn Blob>,
    requests: Arc<AtomicUsize>,
}

impl Blob for FarBlob {
    fn size(&self) -> u64 {
        self.blob.size()
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.blob.read_at(offset, bytes)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "parts that meet are one: {ranges:?}");
        self.requests.fetch_add(1, Ordering::SeqCst);
        self.blob.read_ranges(ranges)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn path(&self) -> PathBuf {
        self.blob.path()
    }
}

/// Writes rows locally, and opens the result remotely.
fn far(rows: &ModelRows, options: SegmentOptions, caches: Arc<Caches>) -> (Arc<Far>, Arc<Segment>) {
    let near = Memory::new();
    let meta = write(&near, &shape(rows, true), options, rows).meta().clone();
    let far = Arc::new(Far { files: Memory(near.0.clone()), requests: Arc::default() });
    (far.clone(), Segment::open(far, 5, meta, caches))
}

/// Rows of a few columns; values do not repeat.
fn plain(rows: u16) -> ModelRows {
    let row = |row: u16| {
        let number = u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        let text = format!("{number:?}").repeat(20).into_bytes();
        let cells =
            vec![(0, b"i8".to_vec(), 9, number), (0, b"text".to_vec(), 9, text), (1, b"x".to_vec(), 9, vec![7])];
        (row.to_be_bytes().to_vec(), cells)
    };
    (0..rows).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn rows_far_away_are_the_same(rows in rows(60), marks in prop::collection::vec(0u32..1_000, 0..8), reversed: bool) {
        let (_, segment) = far(&rows, small(true), caches());
        prop_assert_eq!(whole(&segment), encode(&rows));
        for (position, (key, row)) in encode(&rows).into_iter().enumerate() {
            prop_assert_eq!(segment.key_at(position as Position).unwrap().to_vec(), key);
            prop_assert_eq!(segment.row(position as Position).unwrap(), row);
        }
        let near = write(&Memory::new(), &shape(&rows, true), small(true), &rows);
        let ranges = ranges_of(&marks, segment.meta().rows);
        let (dead, decoded_bytes) = (DeletionVector::default(), DECODED_BYTES_TARGET);
        let request = RowsRequest { ranges, dead, wanted: everything(), older: true, reversed, rows_soon: 7, decoded_bytes };
        let of = |segment: &Arc<Segment>| -> Vec<(RowKey, Vec<StoredCell>)> {
            let rows = segment.rows(request.clone()).unwrap().flat_map(Result::unwrap);
            rows.map(|row| (row.key, cells_of(&row.row))).collect()
        };
        prop_assert_eq!(of(&segment), of(&near));
    }
}

#[test]
fn what_a_row_needs_is_asked_for_at_once() {
    let rows = plain(2_000);
    let options = SegmentOptions { limits: Limits { page_rows_max: 100, ..Limits::default() }, ..small(true) };
    let (far, segment) = far(&rows, options, caches());
    let expected = encode(&rows);
    let read = |row: Position| {
        assert_eq!(segment.find(&expected[row as usize].0).unwrap(), Some(row));
        assert_eq!(segment.row(row).unwrap(), expected[row as usize].1);
    };
    read(1_234);
    assert_eq!(far.take_requests(), 3, "the tail, the page of keys, the row");
    read(1_235);
    assert_eq!(far.take_requests(), 0, "its pages are those of its neighbour");
    read(1_600);
    assert_eq!(far.take_requests(), 2, "the page of keys, the row");
    assert_eq!(whole(&segment).len(), 2_000);
    assert_eq!(far.take_requests(), 1);
}

#[test]
fn few_rows_go_through_the_cache_and_many_past_it() {
    let rows = plain(2_000);
    let options = SegmentOptions { limits: Limits { page_rows_max: 100, ..Limits::default() }, ..small(true) };
    let caches = caches();
    let (far, segment) = far(&rows, options, caches.clone());
    let request = |rows_soon| RowsRequest {
        ranges: vec![500..520],
        dead: DeletionVector::default(),
        wanted: everything(),
        older: true,
        reversed: false,
        rows_soon,
        decoded_bytes: DECODED_BYTES_TARGET,
    };
    let many = read(&segment, request(usize::MAX));
    let before = caches.bytes().1;
    far.take_requests();
    assert_eq!(read(&segment, request(20)), many);
    assert_eq!(far.take_requests(), 1);
    assert!(caches.bytes().1 > before, "many rows left their pages in the cache");
    assert_eq!(read(&segment, request(20)), many);
    assert_eq!(far.take_requests(), 0);
    caches.forget(segment.meta().id);
    assert_eq!(caches.bytes().1, 0);
}

#[test]
fn a_tail_that_is_too_large_for_the_cache_is_read_once_by_those_who_use_it() {
    let caches = Arc::new(Caches::new(1, 1 << 26));
    let (far, segment) = far(&plain(50), small(true), caches.clone());
    segment.row(1).unwrap();
    far.take_requests();
    segment.row(2).unwrap();
    assert_eq!(far.take_requests(), 0);
    // Another tail replaces it in the cache, but not for its current users.
    let other = SegmentOptions { id: SegmentId(0xdef), ..small(true) };
    let (_, other) = self::far(&plain(60), other, caches.clone());
    let tail = segment.load().unwrap();
    other.row(1).unwrap();
    segment.row(2).unwrap();
    assert_eq!(far.take_requests(), 0);
    drop(tail);
    other.row(1).unwrap();
    segment.row(2).unwrap();
    assert_eq!(far.take_requests(), 1, "the tail again");
    caches.forget(segment.meta().id);
    assert_eq!(caches.bytes().0, 0);
}
