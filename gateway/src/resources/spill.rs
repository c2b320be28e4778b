//! Temporary files of queries, counted for the tenant that writes them.
//!
//! DataFusion's own manager makes the files and bounds all of them together; this factory stands before it. A thread
//! that makes a file works for a tenant ([`current`]), whose bytes it is until the file is dropped.

use crate::{
    pg::error::SqlError,
    shares::{
        Share, errors,
        parts::{Parts, Refused},
        turns::current,
    },
};
use bytes::Bytes;
use datafusion::{
    error::Result,
    execution::{
        disk_manager::DiskManager,
        spill_file::{SpillFile, SpillWriter, TempFileFactory},
    },
};
use futures::Stream;
use std::{
    io::{self, Write},
    path::Path,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Makes files by DataFusion's manager.
pub(super) struct CountedFiles {
    pub(super) files: Arc<DiskManager>,
    pub(super) parts: Arc<Parts>,
}

impl TempFileFactory for CountedFiles {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = self.files.create_tmp_file(description)?;
        let Some(share) = current() else { return Ok(file) };
        self.parts.enter(&share);
        let taken = Arc::new(Taken { share, parts: Arc::clone(&self.parts), bytes: AtomicU64::new(0) });
        Ok(Arc::new(CountedFile { file, taken }))
    }
}

/// What a file takes, given back when it is dropped.
struct Taken {
    share: Arc<Share>,
    parts: Arc<Parts>,
    bytes: AtomicU64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.parts.shrink(&self.share, self.bytes.load(Ordering::Relaxed));
        self.parts.leave(&self.share);
    }
}

struct CountedFile {
    file: Arc<dyn SpillFile>,
    taken: Arc<Taken>,
}

impl SpillFile for CountedFile {
    fn path(&self) -> Option<&Path> {
        self.file.path()
    }

    fn size(&self) -> Option<u64> {
        self.file.size()
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        self.file.read_stream()
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let writer = self.file.open_writer()?;
        Ok(Box::new(CountedWriter { writer, taken: Arc::clone(&self.taken) }))
    }
}

struct CountedWriter {
    writer: Box<dyn SpillWriter>,
    taken: Arc<Taken>,
}

impl Write for CountedWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let Taken { share, parts, bytes } = &*self.taken;
        let wanted = buffer.len() as u64;
        parts.grow(share, wanted).map_err(|refused| io::Error::other(refusal(refused)))?;
        let written = self.writer.write(buffer);
        let kept = written.as_ref().map_or(0, |written| *written as u64);
        parts.shrink(share, wanted - kept);
        bytes.fetch_add(kept, Ordering::Relaxed);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl SpillWriter for CountedWriter {
    fn finish(&mut self) -> Result<()> {
        self.writer.finish()
    }
}

fn refusal(refused: Refused) -> SqlError {
    match refused {
        Refused::Quota(most) => errors::temporary(most),
        Refused::Part(most) => errors::part_of_temporary(most),
    }
}
