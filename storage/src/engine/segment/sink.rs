//! Passes the Parquet writer's bytes to the file, and checksums them.

use super::tail::BLOCK_BYTES;
use crate::{Error, Result, engine::blobs::BlobWriter};
use std::io;

/// A file being written, with a checksum for each block until [`begin_tail`](Sink::begin_tail), and one for the tail.
pub(super) struct Sink {
    file: Option<Box<dyn BlobWriter>>,
    /// The error of a failed write, which says more than the Parquet writer's.
    failed: Option<Error>,
    bytes: u64,
    blocks: Vec<u32>,
    /// Checksum and bytes of the current block.
    block: (u32, usize),
    /// Checksum and offset of the tail.
    tail: Option<(u32, u64)>,
}

/// Sizes and checksum of a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinishedFile {
    pub(super) bytes: u64,
    pub(super) tail_bytes: u64,
    pub(super) tail_crc: u32,
}

impl Sink {
    pub(super) fn new(file: Box<dyn BlobWriter>) -> Self {
        Self { file: Some(file), failed: None, bytes: 0, blocks: Vec::new(), block: (0, 0), tail: None }
    }

    /// Begins the tail; returns the checksums of the blocks before it.
    pub(super) fn begin_tail(&mut self) -> &[u32] {
        if self.block.1 > 0 {
            self.blocks.push(self.block.0);
        }
        self.tail = Some((0, self.bytes));
        &self.blocks
    }

    /// The error of a failed write, if any.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Makes the file durable.
    pub(super) fn finish(&mut self) -> Result<FinishedFile> {
        let file = self.file.take().expect("a file is finished once");
        let (tail_crc, tail_offset) = self.tail.expect("a tail was begun");
        Ok(FinishedFile { bytes: file.finish()?, tail_bytes: self.bytes - tail_offset, tail_crc })
    }

    fn count(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some((crc, _)) = &mut self.tail {
            *crc = crc32c::crc32c_append(*crc, bytes);
            return;
        }
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.1));
            self.block = (crc32c::crc32c_append(self.block.0, part), self.block.1 + part.len());
            if self.block.1 == BLOCK_BYTES {
                self.blocks.push(self.block.0);
                self.block = (0, 0);
            }
            bytes = rest;
        }
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        if let Err(error) = file.write(bytes) {
            self.failed.get_or_insert(error);
            return Err(io::Error::other("the file cannot be written"));
        }
        self.count(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
