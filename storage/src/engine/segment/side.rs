//! The side file: the overflow of rows in which it is too large for a page.
//!
//! ```text
//!   0   8  magic             "KSSIDE\r\n"
//!   8   4  format version    1, little-endian
//!  12   4  zero
//!  16   8  segment, little-endian
//!  24      records, one after the other:
//!            for each family with overflow, in the order of a row:
//!              varint        number of the family
//!              byte string   its cells (`engine::cells`)
//!
//! pointer to a record, in column `_side`, 16 bytes, little-endian
//!   0   8  its offset
//!   8   4  its length
//!  12   4  its CRC-32C, seeded with that of the header
//! ```
//!
//! The side file is created with its first record.

use super::SegmentId;
use crate::{
    Error, Result,
    engine::{
        blobs::{Blob, BlobWriter, Blobs},
        codec::{Cursor, put_varint},
    },
};
use bytes::Bytes;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"KSSIDE\r\n";
const FORMAT_VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
/// Bytes of a varint, at most.
const VARINT_BYTES_MAX: usize = 10;
/// Bytes of a pointer to a record.
pub(super) const POINTER_BYTES: usize = 16;

fn header(id: SegmentId) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[16..].copy_from_slice(&id.0.to_le_bytes());
    header
}

/// Writes a side file once there is a record for it.
pub(super) struct SideWriter {
    blobs: Arc<dyn Blobs>,
    id: SegmentId,
    file: Option<Box<dyn BlobWriter>>,
    offset: u64,
}

impl SideWriter {
    pub(super) fn new(blobs: Arc<dyn Blobs>, id: SegmentId) -> Self {
        Self { blobs, id, file: None, offset: 0 }
    }

    /// Adds the record of a row's overflow: cells by family number. Returns a pointer to it. The record is streamed,
    /// and never in memory as a whole.
    pub(super) fn append<'a>(
        &mut self,
        families: impl Iterator<Item = (u32, &'a Bytes)>,
    ) -> Result<[u8; POINTER_BYTES]> {
        let header = header(self.id);
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(self.blobs.create(&self.id.side_name())?);
                file.write(&header)?;
                self.offset = HEADER_BYTES as u64;
                file
            }
        };
        let (mut length, mut crc) = (0, crc32c::crc32c(&header));
        let mut write = |bytes: &[u8]| {
            length += bytes.len();
            crc = crc32c::crc32c_append(crc, bytes);
            file.write(bytes)
        };
        for (number, cells) in families {
            let mut head = Vec::with_capacity(2 * VARINT_BYTES_MAX);
            put_varint(&mut head, number.into());
            put_varint(&mut head, cells.len() as u64);
            write(&head)?;
            write(cells)?;
        }
        let length = u32::try_from(length).expect("a row is bounded far below 4 GiB");
        let mut pointer = [0; POINTER_BYTES];
        pointer[..8].copy_from_slice(&self.offset.to_le_bytes());
        pointer[8..12].copy_from_slice(&length.to_le_bytes());
        pointer[12..].copy_from_slice(&crc.to_le_bytes());
        self.offset += u64::from(length);
        Ok(pointer)
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.offset
    }

    /// Makes the file durable, if there is one; returns its bytes.
    pub(super) fn finish(self) -> Result<u64> {
        self.file.map_or(Ok(0), |file| file.finish())
    }
}

fn checksum(id: SegmentId, record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header(id)), record)
}

/// Bytes of the record of a pointer, without reading it; 0 for a malformed pointer.
pub(super) fn record_bytes(pointer: &[u8]) -> usize {
    pointer.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
}

/// The overflow of a row, by family number, from its record.
pub(super) fn read(file: &dyn Blob, id: SegmentId, pointer: &[u8]) -> Result<Vec<(u32, Bytes)>> {
    let damaged = |offset: u64, detail: &str| Error::Corrupt { path: file.path(), offset, detail: detail.into() };
    let (Some(offset), Some(length), Some(crc)) = (
        pointer.first_chunk().copied().map(u64::from_le_bytes),
        pointer.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes),
        pointer.get(12..POINTER_BYTES).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes),
    ) else {
        return Err(damaged(0, "the place of a row's overflow is no place"));
    };
    let record = file.read_at(offset, length as usize)?;
    if checksum(id, &record) != crc {
        return Err(damaged(offset, "the checksum of a row's overflow does not match"));
    }
    let mut cursor = Cursor::new(&record);
    let mut families = Vec::new();
    while !cursor.is_empty() {
        let number = cursor.varint().and_then(|number| u32::try_from(number).ok());
        let (Some(number), Some(cells)) = (number, cursor.bytes()) else {
            return Err(damaged(offset, "a row's overflow ends too early"));
        };
        families.push((number, record.slice_ref(cells)));
    }
    Ok(families)
}

/// Checks the file's header.
pub(super) fn check_header(file: &dyn Blob, id: SegmentId) -> Result<()> {
    let damaged = |detail: String| Err(Error::Corrupt { path: file.path(), offset: 0, detail });
    let found = file.read_at(0, HEADER_BYTES)?;
    let version = u32::from_le_bytes(found[8..12].try_into().expect("4 bytes"));
    if found.starts_with(MAGIC) && version != FORMAT_VERSION {
        return damaged(format!("the format version is {version}, this program reads {FORMAT_VERSION}"));
    }
    if found[..] != header(id) {
        return damaged("it does not begin as the segment's side file does".into());
    }
    Ok(())
}
