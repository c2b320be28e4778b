//! Rows for tests, and locations to write them to.

use crate::{
    Accepts, ColumnKind, Error, FamilyName, KeyDecoder, Layout, LayoutColumn, Result, RowKey,
    engine::{
        blobs::{Blob, BlobWriter, Blobs},
        cells::Encoder,
        deletion_vector::DeletionVector,
        segment::{Caches, Limits, Segment, SegmentId, SegmentOptions, SegmentWriter, Shape},
    },
};
use arrow::{
    array::{Array, ArrayRef, BinaryArray, Int32Array},
    datatypes::{DataType, Field},
};
use bytes::Bytes;
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// Numbers and names of the families, in the order of names.
pub(super) const FAMILIES: [(u32, &str); 3] = [(7, "a"), (0, "b"), (3, "c")];

/// Cells (index of the family, qualifier, timestamp, value) by key.
pub(super) type Rows = BTreeMap<Vec<u8>, Vec<(usize, Vec<u8>, i64, Vec<u8>)>>;

/// Files in memory.
#[derive(Debug, Default)]
pub(super) struct Memory(pub(super) Arc<Mutex<BTreeMap<String, Bytes>>>);

impl Memory {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }
}

struct MemoryWriter {
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
    name: String,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct MemoryBlob(PathBuf, Bytes);

impl Blobs for Memory {
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        Ok(Box::new(MemoryWriter { files: self.0.clone(), name: name.to_owned(), bytes: Vec::new() }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        let path = PathBuf::from(format!("/memory/{name}"));
        let found = self.0.lock().unwrap().get(name).cloned();
        let missing = Error::Corrupt { path: path.clone(), offset: 0, detail: "the file is missing".into() };
        Ok(Arc::new(MemoryBlob(path, found.ok_or(missing)?)))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.0.lock().unwrap().remove(name);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        Ok(self.0.lock().unwrap().iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}

impl BlobWriter for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let bytes = self.bytes.len() as u64;
        self.files.lock().unwrap().insert(self.name, self.bytes.into());
        Ok(bytes)
    }
}

impl Blob for MemoryBlob {
    fn size(&self) -> u64 {
        self.1.len() as u64
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        let end = offset.checked_add(bytes as u64).filter(|&end| end <= self.size());
        let short = Error::Corrupt { path: self.0.clone(), offset: self.size(), detail: "the file ends here".into() };
        Ok(self.1.slice(offset as usize..end.ok_or(short)? as usize))
    }

    fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

/// Decodes the second byte of a key as a number.
#[derive(Debug)]
struct SecondByte;

impl KeyDecoder for SecondByte {
    fn id(&self) -> String {
        "second byte".into()
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::new("second", DataType::Int32, false)]
    }

    fn decode(&self, keys: &BinaryArray) -> Option<Vec<ArrayRef>> {
        let seconds = (0..keys.len()).map(|row| keys.value(row).get(1).map(|&byte| i32::from(byte)));
        let seconds: Vec<i32> = seconds.collect::<Option<_>>()?;
        Some(vec![Arc::new(Int32Array::from(seconds))])
    }
}

/// The name of a declared column, and its kind.
pub(super) const DECLARED: [(&str, ColumnKind); 14] = [
    ("any", ColumnKind::Binary),
    ("text", ColumnKind::Utf8),
    ("flag", ColumnKind::Bool),
    ("i2", ColumnKind::Int16),
    ("i4", ColumnKind::Int32),
    ("i8", ColumnKind::Int64),
    ("f4", ColumnKind::Float32),
    ("f8", ColumnKind::Float64),
    ("day", ColumnKind::Date32),
    ("at", ColumnKind::Timestamp),
    ("at utc", ColumnKind::TimestampUtc),
    ("uuid", ColumnKind::Uuid),
    ("price", ColumnKind::Decimal { precision: 12, scale: 2 }),
    ("wide", ColumnKind::Decimal { precision: 38, scale: 2 }),
];

/// Declares every kind in family `a`, and odd names in `b`.
pub(super) fn layout() -> Layout {
    let column = |family: &str, qualifier: &[u8], kind, accepts| LayoutColumn {
        family: FamilyName::new(family).unwrap(),
        qualifier: Bytes::copy_from_slice(qualifier),
        kind,
        accepts,
    };
    let even = Accepts { name: "even", holds: |value| value.last().is_some_and(|byte| byte % 2 == 0) };
    let mut columns: Vec<LayoutColumn> =
        DECLARED.iter().map(|(name, kind)| column("a", name.as_bytes(), *kind, None)).collect();
    columns.push(column("b", b"", ColumnKind::Binary, None));
    columns.push(column("b", b"\0*", ColumnKind::Int32, Some(even)));
    columns.push(column("gone", b"x", ColumnKind::Int32, None));
    Layout { columns, key: Some(Arc::new(SecondByte)), section: Bytes::new() }
}

/// The shape of rows, with declared columns or those of the sample alone.
pub(super) fn shape(rows: &Rows, declared: bool) -> Shape {
    let families: Vec<(u32, FamilyName)> =
        FAMILIES.iter().rev().map(|(number, name)| (*number, FamilyName::new(name).unwrap())).collect();
    let sample = encode(rows);
    let layout = declared.then(layout);
    Shape::new(
        families.iter().map(|(number, name)| (*number, name)),
        layout.as_ref(),
        &[],
        sample.iter().map(|(_, row)| row.as_ref()),
    )
}

/// A segment with small pages and row groups.
pub(super) fn small(base: bool) -> SegmentOptions {
    let id = SegmentId(0xabc);
    let options = if base { SegmentOptions::base(id, 5, 1_000) } else { SegmentOptions::delta(id, 5, 1_000) };
    SegmentOptions { limits: Limits { group_rows_max: 23, page_rows_max: 5, ..Limits::default() }, ..options }
}

/// Caches that hold everything.
pub(super) fn caches() -> Arc<Caches> {
    Arc::new(Caches::new(1 << 26, 1 << 26))
}

/// Writes at least one row.
pub(super) fn write(blobs: &Arc<Memory>, shape: &Shape, options: SegmentOptions, rows: &Rows) -> Arc<Segment> {
    let blobs: Arc<dyn Blobs> = blobs.clone();
    let mut writer = SegmentWriter::new(blobs.clone(), shape.clone(), options).unwrap();
    for (at, (key, row)) in encode(rows).into_iter().enumerate() {
        let position = writer.push(&RowKey::new(key).unwrap(), &row).unwrap();
        assert_eq!(position, Some(at as u32));
    }
    let meta = writer.finish().unwrap().unwrap();
    Segment::open(blobs, 5, meta, caches())
}

/// Keys and encoded rows.
pub(super) fn encode(rows: &Rows) -> Vec<(Vec<u8>, Bytes)> {
    let encoded = rows.iter().map(|(key, cells)| {
        let mut encoder = Encoder::default();
        for (family, qualifier, timestamp, value) in cells {
            encoder.push(FAMILIES[*family].0, qualifier, *timestamp, value);
        }
        (key.clone(), encoder.finish())
    });
    encoded.collect()
}

pub(super) fn deletion_vectors_of(positions: &[u32]) -> DeletionVector {
    let mut dead = DeletionVector::default();
    for &position in positions {
        dead.insert(position);
    }
    dead
}

/// Keys, many of them close to each other.
pub(super) fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = || prop::sample::select(vec![0u8, 1, b'#', b'k', 0xff]);
    prop_oneof![
        4 => prop::collection::vec(byte(), 2..5),
        1 => prop::collection::vec(byte(), 1..2),
        1 => (prop::collection::vec(byte(), 1..4), 60usize..300).prop_map(|(start, bytes)| [start, vec![b'x'; bytes]].concat()),
    ]
}

/// Declared and odd qualifiers.
pub(super) fn qualifier() -> impl Strategy<Value = Vec<u8>> {
    let names = DECLARED.iter().map(|(name, _)| name.as_bytes().to_vec());
    let odd: [&[u8]; 8] = [b"", b"\0*", b"*", b"x@ts", b"a:b", b"%2A", b"\xff\xfe", b"x"];
    prop::sample::select(names.chain(odd.iter().map(|name| name.to_vec())).collect::<Vec<_>>())
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![1],
        vec![2],
        "grüße".into(),
        vec![0xc3],
        f64::NAN.to_be_bytes().to_vec(),
        0xfff8_0000_dead_beef_u64.to_be_bytes().to_vec(),
        (-0.0f64).to_be_bytes().to_vec(),
        0.0f64.to_be_bytes().to_vec(),
        0x7fa0_0001_u32.to_be_bytes().to_vec(),
        (-0.0f32).to_be_bytes().to_vec(),
        0.0f32.to_be_bytes().to_vec(),
        i64::MIN.to_be_bytes().to_vec(),
        i64::MAX.to_be_bytes().to_vec(),
        i32::MIN.to_be_bytes().to_vec(),
        i16::MIN.to_be_bytes().to_vec(),
        vec![0xee; 16],
        vec![b'v'; 3_000],
        // Decimals of two digits after the point: with a redundant byte, of 12 and of 38 digits, and too large.
        vec![0, 0, 0, 2, 0],
        vec![0, 0, 0, 2, 0, 7],
        vec![0, 0, 0, 2, 0xff, 0x17],
        [&[0, 0, 0, 2][..], &999_999_999_999_i64.to_be_bytes()[3..]].concat(),
        [&[0, 0, 0, 2][..], &1_000_000_000_000_i64.to_be_bytes()[3..]].concat(),
        [&[0, 0, 0, 2][..], &(1 - 10_i128.pow(38)).to_be_bytes()].concat(),
        [&[0, 0, 0, 2][..], &i128::MIN.to_be_bytes()].concat(),
    ];
    let widths = prop::sample::select(vec![1usize, 2, 4, 8, 16]);
    prop_oneof![
        2 => prop::sample::select(known),
        2 => widths.prop_flat_map(|bytes| prop::collection::vec(any::<u8>(), bytes)),
        2 => prop::collection::vec(any::<u8>(), 0..18).prop_map(|digits| [vec![0, 0, 0, 2], digits].concat()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

/// Rows, at least one, each with at least one cell.
pub(super) fn rows(most: usize) -> impl Strategy<Value = Rows> {
    let timestamp = prop_oneof![
        6 => Just(1_000i64),
        3 => 990i64..1_010,
        1 => prop::sample::select(vec![i64::MIN, -1, 0, i64::MAX]),
    ];
    let cell = (0..FAMILIES.len(), qualifier(), timestamp, value());
    let row = prop::collection::vec(cell, 1..24).prop_map(|mut cells| {
        let place = |(family, qualifier, timestamp, _): &(usize, Vec<u8>, i64, Vec<u8>)| {
            (*family, qualifier.clone(), std::cmp::Reverse(*timestamp))
        };
        cells.sort_by_key(place);
        cells.dedup_by_key(|cell| place(cell));
        cells
    });
    prop::collection::btree_map(key(), row, 1..most)
}
