//! Entry points of fuzzers ([`testing::fuzz`](crate::testing::fuzz)): everything that the engine decodes from disk,
//! with arbitrary bytes.
//!
//! Each function panics only for a bug of this crate. Checksummed bytes come in two kinds: as they are, where the
//! checksum must detect the damage, and behind a valid checksum, where the decoder itself must be robust.

use super::{
    cells,
    deletion_vector::DeletionVector,
    frame::{self, FRAME_BYTES, HEADER_BYTES, Header},
    log, manifest, segment,
};
use std::path::{Path, PathBuf};

/// The first log file of a store.
pub(crate) fn first_log(store: &Path) -> PathBuf {
    log::file_path(&store.join(log::FOLDER), 1)
}

/// The log file with one more frame of this payload and a valid checksum; unchanged if it is not a log file.
pub(crate) fn with_frame(mut file: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let Header::Sound { seed, .. } = frame::read_header(&file) else { return file };
    let (mut end, mut sequence) = (HEADER_BYTES, 0);
    while let Some(found) = frame::frame_at(&file, end, seed) {
        (end, sequence) = (found.end, found.sequence);
    }
    let mut buffer = vec![0; FRAME_BYTES];
    buffer.extend_from_slice(payload);
    frame::seal(&mut buffer, seed, sequence + 1);
    file.truncate(end);
    file.extend_from_slice(&buffer);
    file
}

/// A deletion vector's file: the decoded value encodes to the same bytes.
pub(crate) fn deletion_vector(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
    for bytes in [bytes, &sealed] {
        if let Some(dead) = DeletionVector::decode(bytes) {
            assert_eq!(DeletionVector::decode(&dead.encode()), Some(dead.clone()), "dead positions do not come back");
            assert_eq!(dead.count(), dead.count_in(0..u32::MAX) + u64::from(dead.contains(u32::MAX)));
        }
    }
}

/// The file of a manifest, and a manifest's body behind a valid checksum: a decoded manifest is consistent, and
/// round-trips.
pub(crate) fn manifest(bytes: &[u8]) {
    for bytes in [bytes, &manifest::sealed(1, bytes)] {
        if let Ok(taken) = manifest::decode(1, Path::new("manifest"), bytes) {
            let again = manifest::decode(1, Path::new("manifest"), &manifest::encode(&taken));
            assert_eq!(again.expect("what was taken is read back"), taken);
        }
    }
}

/// An encoded row: one that decodes can be re-encoded.
pub(crate) fn row(bytes: &[u8]) {
    if !cells::is_sound(bytes) {
        return;
    }
    let mut encoder = cells::Encoder::with_capacity(bytes.len());
    for cell in cells::decode(bytes) {
        encoder.push(cell.family, cell.qualifier, cell.timestamp, cell.value);
    }
    let again = encoder.finish();
    let parts = |row| cells::decode(row).map(|cell| (cell.family, cell.qualifier, cell.timestamp, cell.value));
    assert!(cells::is_sound(&again) && parts(&again).eq(parts(bytes)), "a row does not come back");
}

/// The own part of a segment's tail with `rows` rows, and the footer in it.
pub(crate) fn segment(rows: u32, bytes: &[u8]) {
    segment::fuzz_tail(rows, bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        segment::fuzz_footer(text);
    }
}
