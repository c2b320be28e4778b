//! The envelope of `CURRENT`, of a manifest, of a deletion vector's file, and of `STORE` (module
//! [`blobs`](crate::engine::blobs)). Pure.
//!
//! Integers are little-endian.
//!
//! ```text
//!  0   8  magic             "KSCURR\r\n", "KSMANI\r\n", "KSDEAD\r\n" or "KSSTOR\r\n"
//!  8   4  format version    2
//! 12   4  CRC-32C of bytes 0 to 12 and of all from byte 16 on
//! 16   8  version           of the manifest; in a deletion vector, that of the manifest it was written for; in `STORE`
//!                           its number
//! 24   8  segment           of the deletion vector; else 0
//! 32   8  length of the body
//! 40      body              CURRENT, STORE: none.  manifest: JSON.  deletion vector: the bitmap, in its own format
//! ```
//!
//! Version and segment repeat those of the file's name, which detects a file under another file's name.

use super::SegmentId;
use crate::{Error, Result};
use std::path::Path;

/// Bytes before the body.
const HEADER_BYTES: usize = 40;
/// The format of a store that this program writes, and the only one that it reads. Log files, segments and deletion
/// vectors have numbers of their own.
pub const FORMAT_VERSION: u32 = 2;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `CURRENT`.
    Current,
    /// A manifest of this version.
    Manifest(u64),
    /// The deletion vector of a segment, written for the manifest of this version.
    DeletionVector(SegmentId, u64),
    /// `STORE`.
    Store,
}

impl Kind {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Current => b"KSCURR\r\n",
            Self::Manifest(_) => b"KSMANI\r\n",
            Self::DeletionVector(..) => b"KSDEAD\r\n",
            Self::Store => b"KSSTOR\r\n",
        }
    }
}

/// The bytes of a file. `version` is that of the kind, or for `CURRENT` the version to name.
pub(crate) fn seal(kind: Kind, version: u64, body: &[u8]) -> Vec<u8> {
    let segment = match kind {
        Kind::DeletionVector(segment, _) => segment.0,
        Kind::Current | Kind::Manifest(_) | Kind::Store => 0,
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(kind.magic());
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&segment.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    let checksum = checksum(&bytes);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The version in a file's header, and the body. The path is for errors.
///
/// # Errors
/// [`Error::Corrupt`] for anything but a result of [`seal`] for this kind, [`Error::Unsupported`] for a sound file in a
/// format that this program does not know.
pub(crate) fn open<'a>(kind: Kind, path: &Path, bytes: &'a [u8]) -> Result<(u64, &'a [u8])> {
    let corrupt =
        |offset: usize, detail: String| Err(Error::Corrupt { path: path.to_owned(), offset: offset as u64, detail });
    if bytes.len() < HEADER_BYTES {
        return corrupt(bytes.len(), "the file is cut short".into());
    }
    if !bytes.starts_with(kind.magic()) {
        return corrupt(0, "it does not begin as such a file does".into());
    }
    let length = u64_at(bytes, 32);
    let body = &bytes[HEADER_BYTES..];
    if (body.len() as u64) < length {
        return corrupt(bytes.len(), format!("the file is cut short: {length} bytes were to follow the header"));
    }
    if checksum(bytes) != u32_at(bytes, 12) {
        return corrupt(12, "the checksum is another than that of the file".into());
    }
    let format = u32_at(bytes, 8);
    if format != FORMAT_VERSION {
        return Err(Error::Unsupported(format!(
            "{} is in format {format}; this program reads format {FORMAT_VERSION}",
            path.display()
        )));
    }
    if body.len() as u64 > length {
        return corrupt(HEADER_BYTES + body.len(), "the file is too long".into());
    }
    let (version, segment) = (u64_at(bytes, 16), u64_at(bytes, 24));
    let expected = match kind {
        Kind::Current | Kind::Store => (version, 0),
        Kind::Manifest(version) => (version, 0),
        Kind::DeletionVector(segment, version) => (version, segment.0),
    };
    if (version, segment) != expected {
        let segment = SegmentId(segment);
        return corrupt(16, format!("by its header it is of version {version} and segment {segment}"));
    }
    Ok((version, body))
}

fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}
