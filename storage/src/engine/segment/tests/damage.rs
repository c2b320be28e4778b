//! Damaged files give errors that name them, never wrong rows.

use super::*;
use crate::Error;

/// Reads all of a segment in every way; returns the errors.
fn read(blobs: &Arc<Memory>, meta: &SegmentMeta, rows: &ModelRows) -> Vec<Error> {
    let segment = Segment::open(blobs.clone(), 5, meta.clone(), caches());
    let mut errors = Vec::new();
    let expected = encode(rows);
    match segment.encoded(vec![0..meta.rows], DeletionVector::default(), DECODED_BYTES_TARGET) {
        Ok(batches) => {
            let mut next = 0;
            for batch in batches {
                let read = |row: EncodedRow| Ok((row.key.to_vec(), row.row.read()?));
                match batch.and_then(|batch| batch.into_iter().map(read).collect::<Result<Vec<_>, Error>>()) {
                    Ok(batch) => {
                        for row in batch {
                            assert_eq!(row, expected[next]);
                            next += 1;
                        }
                    }
                    Err(error) => {
                        errors.push(error);
                        break;
                    }
                }
            }
            assert_eq!(next == expected.len(), errors.is_empty());
        }
        Err(error) => errors.push(error),
    }
    for (at, (key, row)) in expected.iter().enumerate() {
        match segment.find(key) {
            Ok(found) => assert_eq!(found, Some(at as Position)),
            Err(error) => errors.push(error),
        }
        match segment.row(at as Position) {
            Ok(found) => assert_eq!(&found, row),
            Err(error) => errors.push(error),
        }
    }
    if let Err(error) = segment.verify() {
        errors.push(error);
    } else {
        assert!(errors.is_empty(), "verify sees what others see: {errors:?}");
    }
    errors
}

fn sample() -> ModelRows {
    let row = |row: u8| {
        let mut cells = vec![(0, b"i8".to_vec(), 9, vec![row; 8]), (1, b"".to_vec(), 9, vec![row; 20])];
        if row == 9 {
            cells.push((2, b"x".to_vec(), 1, vec![7; OVERFLOW_BYTES_MAX + 1]));
        }
        (vec![b'k', row], cells)
    };
    (0..40).map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_flipped_bit_is_found(at in any::<prop::sample::Index>(), bit in 0u8..8, in_side in prop::bool::weighted(0.2)) {
        let rows = sample();
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, true), small(false), &rows);
        let meta = segment.meta().clone();
        prop_assert_eq!(read(&blobs, &meta, &rows).len(), 0);
        let name = if in_side { meta.id.side_name() } else { meta.id.parquet_name() };
        let mut bytes = blobs.0.lock().unwrap()[&name].to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        blobs.0.lock().unwrap().insert(name.clone(), bytes.into());
        let errors = read(&blobs, &meta, &rows);
        prop_assert!(!errors.is_empty());
        for error in errors {
            match error {
                Error::Corrupt { path, .. } => prop_assert!(path.ends_with(&name), "{:?}", path),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_is_found(at in any::<prop::sample::Index>(), in_side: bool) {
        let rows = sample();
        let blobs = Memory::new();
        let segment = write(&blobs, &shape(&rows, true), small(true), &rows);
        let meta = segment.meta().clone();
        let name = if in_side { meta.id.side_name() } else { meta.id.parquet_name() };
        let bytes = blobs.0.lock().unwrap()[&name].clone();
        blobs.0.lock().unwrap().insert(name.clone(), bytes.slice(..at.index(bytes.len())));
        let errors = read(&blobs, &meta, &rows);
        prop_assert!(!errors.is_empty());
        prop_assert!(errors.iter().all(|error| error.to_string().contains(&name)), "{:?}", errors);
    }
}

#[test]
fn another_segments_file_is_refused() {
    let rows = sample();
    let blobs = Memory::new();
    let segment = write(&blobs, &shape(&rows, true), small(false), &rows);
    let meta = SegmentMeta { id: SegmentId(0xdef), ..segment.meta().clone() };
    let bytes = blobs.0.lock().unwrap()[&segment.meta().id.parquet_name()].clone();
    blobs.0.lock().unwrap().insert(meta.id.parquet_name(), bytes);
    let error = Segment::open(blobs.clone(), 5, meta, caches()).row(0).unwrap_err();
    assert!(error.to_string().contains("it is segment 0000000000000abc of table 5"), "{error}");
    let error = Segment::open(blobs, 6, segment.meta().clone(), caches()).row(0).unwrap_err();
    assert!(error.to_string().contains("it is segment 0000000000000abc of table 5"), "{error}");
}

#[test]
fn damage_says_where() {
    let rows = sample();
    let blobs = Memory::new();
    let segment = write(&blobs, &shape(&rows, true), small(false), &rows);
    let name = segment.meta().id.parquet_name();
    let mut bytes = blobs.0.lock().unwrap()[&name].to_vec();
    bytes[100] ^= 1;
    blobs.0.lock().unwrap().insert(name.clone(), bytes.into());
    let segment = Segment::open(blobs, 5, segment.meta().clone(), caches());
    let error = segment.row(0).unwrap_err().to_string();
    let expected = format!("/memory/{name} is damaged at byte 0: the checksum of ");
    assert!(error.starts_with(&expected), "{error}");
}
