//! Entry points of fuzzers, for arbitrary bytes: the targets of the folder `tests/fuzz`, and the tests here with random
//! and with damaged bytes.
//!
//! Every function panics only for a bug of this crate: damaged bytes are refused, and bytes that are not refused decode
//! to what was written.

mod damage;
mod store;

use super::{
    notation::{family, table},
    sim::SimFs,
};
use crate::{
    ErrorKind, KeyRange, RowKey, Scan, Store, StoreExt,
    clock::ManualClock,
    engine::{Engine, EngineOptions, Granularity, fuzz},
    fs::Fs,
};
use std::{path::Path, sync::Arc};

pub use store::damaged_store;

/// Rows of a row group of these stores.
const GROUP_ROWS_MAX: u32 = 4;
/// The folder of the stores.
const STORE: &str = "/store";

/// A whole log file.
pub fn log_file(bytes: &[u8]) {
    open_with_log(bytes);
}

/// A log file with the damage that the bytes describe.
pub fn damaged_log(edits: &[u8]) {
    open_with_log(&damage::damaged(store::log(), edits));
}

/// The footer of a segment with the damage that the bytes describe.
pub fn damaged_footer(edits: &[u8]) {
    fuzz::segment(0, &damage::damaged(store::footer(), edits));
}

/// The payload of a frame with a valid checksum, after the frames of a log.
pub fn log_records(payload: &[u8]) {
    open_with_log(&fuzz::with_frame(store::log().to_vec(), payload));
}

/// The file of a deletion vector.
pub fn deletion_vector(bytes: &[u8]) {
    fuzz::deletion_vector(bytes);
}

/// A manifest.
pub fn manifest(bytes: &[u8]) {
    fuzz::manifest(bytes);
}

/// The cells of a row, as encoded in the log and in segments.
pub fn row(bytes: &[u8]) {
    fuzz::row(bytes);
}

/// The own part of a segment's tail, behind a valid checksum; the first byte is the number of rows.
pub fn segment(bytes: &[u8]) {
    if let Some((rows, bytes)) = bytes.split_first() {
        fuzz::segment((*rows).into(), bytes);
    }
}

/// A row key, and ranges made from it.
pub fn row_key(bytes: &[u8]) {
    let (key, other) = bytes.split_at(bytes.len() / 2);
    let Ok(key) = RowKey::new(key.to_vec()) else {
        assert!(key.is_empty() || key.len() > crate::model::limits::ROW_KEY_BYTES_MAX);
        return;
    };
    let point = KeyRange::point(&key);
    assert!(point.contains(&key) && point.contains(other) == (*other == *key));
    let prefix = KeyRange::prefix(key.clone().into_bytes());
    assert_eq!(prefix.contains(other), other.starts_with(&key));
}

/// Opens a store with this log file; if that succeeds, the next opening must find the same content.
fn open_with_log(bytes: &[u8]) {
    let fs = SimFs::new();
    let path = fuzz::first_log(Path::new(STORE));
    fs.create_folder(path.parent().expect("it is in a folder")).unwrap();
    let file = fs.create(&path, bytes.len() as u64).unwrap();
    file.write_at(0, bytes).unwrap();
    block_on(async {
        let engine = match open(&fs).await {
            Ok(engine) => engine,
            Err(kind) => return assert!(is_refusal(kind), "{kind:?}"),
        };
        let tables = engine.tables().await.unwrap();
        let mut rows = Vec::new();
        for (name, _) in &tables {
            rows.push(engine.read_rows(name, Scan::all()).await.unwrap());
        }
        engine.close().await.unwrap();
        drop(engine);
        let engine = open(&fs).await.expect("what was opened once is opened again");
        assert_eq!(engine.tables().await.unwrap(), tables);
        for ((name, _), rows) in tables.iter().zip(rows) {
            assert_eq!(engine.read_rows(name, Scan::all()).await.unwrap(), rows);
        }
    });
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corrupt | ErrorKind::Unsupported)
}

async fn open(fs: &SimFs) -> Result<Arc<Engine>, ErrorKind> {
    let clock = Box::new(ManualClock::new(super::notation::START_MICROS));
    // Small pieces, so that a few rows make several.
    let granularity =
        Granularity { group_rows_max: GROUP_ROWS_MAX, page_rows_max: 2, step_rows_max: 8, ..Granularity::default() };
    let options = EngineOptions {
        fs: Arc::new(fs.clone()),
        clock,
        granularity,
        base_bytes: 1 << 10,
        compacts: false,
        log_file_bytes: 2 << 10,
        ..EngineOptions::new(STORE)
    };
    Engine::open(options).await.map_err(|error| error.kind())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers").block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
            row_key(&bytes);
            deletion_vector(&bytes);
            deletion_vector(&[b"KSDEAD\r\n\x01", &bytes[..]].concat());
            manifest(&bytes);
            log_file(&bytes);
            log_records(&bytes);
            row(&bytes);
            segment(&bytes);
        }

        /// Records have small numbers: most of these bytes are meaningful.
        #[test]
        fn small_bytes(bytes in vec(0u8..8, 0..80)) {
            deletion_vector(&[b"KSDEAD\r\n\x01", &bytes[..]].concat());
            log_records(&bytes);
            row(&[&[0; 8], &bytes[..]].concat());
            segment(&bytes);
        }

        #[test]
        fn a_damaged_footer_is_refused_or_makes_sense(edits in vec(any::<u8>(), 0..24)) {
            damaged_footer(&edits);
        }

        #[test]
        fn a_damaged_log_is_refused_or_stays_what_it_is(edits in vec(any::<u8>(), 0..40)) {
            damaged_log(&edits);
        }

        #[test]
        fn a_damaged_store_is_refused_or_right(edits in vec(any::<u8>(), 1..30)) {
            damaged_store(&edits);
        }
    }
}
