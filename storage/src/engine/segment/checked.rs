//! Reads bytes of a segment's file, and verifies their checksums before use.
//!
//! For a remote file, the parts that a read will need are fetched at once beforehand ([`CheckedFile::read_ahead`]).

use super::tail::BLOCK_BYTES;
use crate::{Error, Result, engine::blobs::Blob};
use bytes::Bytes;
use parquet::{
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use std::{
    io,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

/// A file with the checksums of its blocks.
#[derive(Debug)]
pub(super) struct CheckedFile {
    blob: Arc<dyn Blob>,
    /// CRC-32C of each block before the tail.
    blocks: Vec<u32>,
    /// Where the tail begins.
    tail_offset: u64,
    tail_crc: u32,
}

impl CheckedFile {
    /// A file with these checksums; an error text if they do not fit it.
    pub(super) fn new(blob: Arc<dyn Blob>, blocks: Vec<u32>, tail_offset: u64, tail_crc: u32) -> Result<Self> {
        let file = Self { blob, blocks, tail_offset, tail_crc };
        if file.blocks.len() as u64 != tail_offset.div_ceil(BLOCK_BYTES as u64) {
            return Err(file.damaged(tail_offset, "the tail has checksums of another number of blocks".into()));
        }
        Ok(file)
    }

    pub(super) fn size(&self) -> u64 {
        self.blob.size()
    }

    /// Memory of the checksums, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.blocks.len() * size_of::<u32>()
    }

    /// Where the tail begins.
    pub(super) fn tail_offset(&self) -> u64 {
        self.tail_offset
    }

    pub(super) fn damaged(&self, offset: u64, detail: String) -> Error {
        Error::Corrupt { path: self.blob.path(), offset, detail }
    }

    /// Reads bytes, and the rest of their blocks for the check.
    pub(super) fn read(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        let end = offset.saturating_add(bytes as u64);
        if end > self.tail_offset {
            return self.read_with_tail(offset, end);
        }
        let block = BLOCK_BYTES as u64;
        let from = offset / block * block;
        let to = end.next_multiple_of(block).min(self.tail_offset);
        let read = self.blob.read_at(from, (to - from) as usize)?;
        self.check(from, &read)?;
        Ok(read.slice((offset - from) as usize..(end - from) as usize))
    }

    /// Reads parts of the file before the tail at once, given as ascending and disjoint ranges, and the rest of their
    /// blocks for the check.
    pub(super) fn read_ahead(&self, ranges: &[Range<u64>]) -> Result<Ahead> {
        let block = BLOCK_BYTES as u64;
        let mut wanted: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let from = range.start / block * block;
            let to = range.end.next_multiple_of(block).min(self.tail_offset);
            match wanted.last_mut() {
                Some(last) if last.end >= from => last.end = last.end.max(to),
                _ => wanted.push(from..to),
            }
        }
        if wanted.is_empty() {
            return Ok(Ahead::default());
        }
        let read = self.blob.read_ranges(&wanted)?;
        for (range, bytes) in wanted.iter().zip(&read) {
            self.check(range.start, bytes)?;
        }
        Ok(Ahead(wanted.into_iter().map(|range| range.start).zip(read).collect()))
    }

    /// Verifies the checksums of whole blocks.
    fn check(&self, from: u64, read: &[u8]) -> Result<()> {
        let block = BLOCK_BYTES as u64;
        for (at, bytes) in (0..).zip(read.chunks(BLOCK_BYTES)) {
            if crc32c::crc32c(bytes) != self.blocks[(from / block) as usize + at] {
                let offset = from + at as u64 * block;
                return Err(self.damaged(offset, format!("the checksum of {} bytes does not match", bytes.len())));
            }
        }
        Ok(())
    }

    /// Whether each read of it has high latency.
    pub(super) fn is_remote(&self) -> bool {
        self.blob.is_remote()
    }

    /// Reads bytes that reach into the tail. Rare, since the tail is in memory once the file is open.
    fn read_with_tail(&self, offset: u64, end: u64) -> Result<Bytes> {
        if end > self.size() {
            return Err(self.damaged(self.size(), format!("the file ends here, bytes up to {end} were expected")));
        }
        let tail = read_tail(self.blob.as_ref(), self.tail_offset, self.tail_crc)?;
        let to = (end - self.tail_offset) as usize;
        if offset >= self.tail_offset {
            return Ok(tail.slice((offset - self.tail_offset) as usize..to));
        }
        let before = self.read(offset, (self.tail_offset - offset) as usize)?;
        Ok([&before, &tail[..to]].concat().into())
    }
}

/// Reads a file's tail.
pub(super) fn read_tail(blob: &dyn Blob, offset: u64, crc: u32) -> Result<Bytes> {
    let damaged = |offset, detail: &str| Error::Corrupt { path: blob.path(), offset, detail: detail.into() };
    let bytes = blob.size().checked_sub(offset).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| damaged(blob.size(), "the file ends before its tail begins"))?;
    let tail = blob.read_at(offset, bytes)?;
    match crc32c::crc32c(&tail) == crc {
        true => Ok(tail),
        false => Err(damaged(offset, "the checksum of the tail does not match")),
    }
}

/// Checked parts of a file, each with its offset, ascending.
#[derive(Debug, Default)]
pub(super) struct Ahead(Vec<(u64, Bytes)>);

impl Ahead {
    /// The bytes, if they were read.
    fn get(&self, offset: u64, length: usize) -> Option<Bytes> {
        let at = self.0.partition_point(|(start, _)| *start <= offset).checked_sub(1)?;
        let (start, bytes) = &self.0[at];
        let from = usize::try_from(offset - start).ok()?;
        let range = from..from.checked_add(length)?;
        (range.end <= bytes.len()).then(|| bytes.slice(range))
    }
}

/// A file as Parquet's reader needs it. Keeps our errors, which say more than those that the reader makes of them.
#[derive(Debug)]
pub(super) struct Pages {
    file: Arc<CheckedFile>,
    ahead: Ahead,
    failed: Arc<Mutex<Option<Error>>>,
}

impl Pages {
    /// A file, some parts of which were read already.
    pub(super) fn new(file: Arc<CheckedFile>, ahead: Ahead) -> Self {
        Self { file, ahead, failed: Arc::default() }
    }

    /// The error of the last failed read.
    pub(super) fn failed(&self) -> Failed {
        Failed(self.failed.clone())
    }
}

/// The error of a failed read.
#[derive(Debug)]
pub(super) struct Failed(Arc<Mutex<Option<Error>>>);

impl Failed {
    pub(super) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.file.size()
    }
}

impl ChunkReader for Pages {
    type T = PagesFrom;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(PagesFrom { file: self.file.clone(), offset: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if let Some(bytes) = self.ahead.get(start, length) {
            return Ok(bytes);
        }
        self.file.read(start, length).map_err(|error| {
            let shown = ParquetError::General(error.to_string());
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            shown
        })
    }
}

/// A file from an offset on. Parquet's reader does not ask for it if there is a page index.
#[derive(Debug)]
pub(super) struct PagesFrom {
    file: Arc<CheckedFile>,
    offset: u64,
}

impl io::Read for PagesFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.size().saturating_sub(self.offset);
        let bytes = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read(self.offset, bytes).map_err(io::Error::other)?;
        buffer[..bytes].copy_from_slice(&read);
        self.offset += bytes as u64;
        Ok(bytes)
    }
}
