//! The log: numbered files, allocated ahead, to which one frame is appended and synced at a time.
//!
//! `wal/<number>.log` are filled in the order of their numbers; the format is in module `frame`. The next file is
//! allocated early ([`Log::prepare`]), so that its cost, and a full disk, are met while there is still room for frames.
//! A file is created in these steps, so that a crash cannot remove a file with frames: allocate, write the header, sync
//! the file, sync the folder.
//!
//! No space at allocation is [`Error::NoSpace`]: nothing was written, and a later append tries again. After any other
//! error of an append the content of the disk is unknown: the caller must stop and never retry.

use super::frame;
use crate::{
    Error, Result,
    fs::{File, Fs, is_no_space},
};
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// The folder of the log within the store's folder.
pub(crate) const FOLDER: &str = "wal";
/// The file on which the sync time is measured.
const PROBE: &str = "sync.probe";
/// Writes whose sync is timed at start-up; the median counts.
const PROBE_SYNCS: usize = 5;
/// Bytes of each of them.
const PROBE_BYTES: usize = 4 << 10;

/// A file of the log.
#[derive(Debug)]
pub(crate) struct LogFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The file.
    pub(crate) file: Box<dyn File>,
    /// The seed of its frames' checksums.
    pub(crate) seed: u32,
    /// Its length.
    pub(crate) size: u64,
    /// The offset of the next frame.
    pub(crate) end: u64,
}

/// A file of the log that takes no more frames.
#[derive(Clone, Debug)]
pub(crate) struct OlderFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its length.
    pub(crate) size: u64,
    /// The sequence of its last frame.
    pub(crate) last: u64,
}

/// The end of a log, where appending continues.
#[derive(Debug, Default)]
pub(crate) struct LogEnd {
    /// Full files, the oldest first.
    pub(crate) older: VecDeque<OlderFile>,
    /// The file to append to; `None` if no file has a frame.
    pub(crate) current: Option<LogFile>,
    /// The number of the newest file.
    pub(crate) newest: u64,
    /// The sequence of the last frame.
    pub(crate) sequence: u64,
}

/// The log, open for appending.
#[derive(Debug)]
pub(crate) struct Log {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    file_bytes: u64,
    /// Full files, the oldest first.
    older: VecDeque<OlderFile>,
    current: Option<LogFile>,
    next: Option<LogFile>,
    /// The number of the newest file ever created.
    newest: u64,
    sequence: u64,
    /// Whether the last early allocation found no space; logged once.
    starved: bool,
}

impl Log {
    /// Opens a log at its end.
    pub(crate) fn new(fs: Arc<dyn Fs>, folder: PathBuf, file_bytes: u64, end: LogEnd) -> Self {
        let LogEnd { older, current, newest, sequence } = end;
        Self { fs, folder, file_bytes, older, current, next: None, newest, sequence, starved: false }
    }

    /// The sequence of the last frame.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Bytes of the files.
    pub(crate) fn bytes(&self) -> u64 {
        let (current, next) = (self.current.iter(), self.next.iter());
        self.older.iter().map(|file| file.size).sum::<u64>() + current.chain(next).map(|file| file.size).sum::<u64>()
    }

    /// Lets the next frame begin a new file, so that [`release`](Self::release) can remove the current one.
    pub(crate) fn roll(&mut self) {
        if let Some(current) = self.current.take_if(|current| current.end > frame::HEADER_BYTES as u64) {
            self.older.push_back(OlderFile { path: current.path, size: current.size, last: self.sequence });
        }
    }

    /// Removes files whose frames all are up to `sequence`, the oldest first and one by one, so that a crash leaves no
    /// gap.
    ///
    /// # Errors
    /// [`Error::Io`]; remaining files are removed at the next call.
    pub(crate) fn release(&mut self, sequence: u64) -> Result<()> {
        while let Some(file) = self.older.front().filter(|file| file.last <= sequence) {
            match self.fs.unlink(&file.path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("unlink", &file.path, source));
                }
                _ => {}
            }
            self.fs.sync_folder(&self.folder).map_err(|source| failed("sync", &self.folder, source))?;
            self.older.pop_front();
        }
        Ok(())
    }

    /// Writes and syncs one frame. The buffer begins with [`FRAME_BYTES`](frame::FRAME_BYTES) bytes of any content,
    /// followed by the payload.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if nothing was written; any other error is final.
    pub(crate) fn append(&mut self, buffer: &mut Vec<u8>, now_micros: i64) -> Result<()> {
        let bytes = frame::padded(buffer.len()) as u64;
        self.make_room(bytes, now_micros)?;
        let current = self.current.as_mut().expect("there is room in it");
        frame::seal(buffer, current.seed, self.sequence + 1);
        current.file.write_at(current.end, buffer).map_err(|source| failed("write", &current.path, source))?;
        current.file.sync().map_err(|source| failed("sync", &current.path, source))?;
        current.end += bytes;
        self.sequence += 1;
        Ok(())
    }

    /// Allocates the next file if the current one is half full. No space is not an error here: the append that needs
    /// the room reports it.
    ///
    /// # Errors
    /// All are final.
    pub(crate) fn prepare(&mut self, now_micros: i64) -> Result<()> {
        if self.is_prepared() {
            return Ok(());
        }
        match self.create(self.file_bytes, now_micros) {
            Ok(next) => {
                self.next = Some(next);
                self.starved = false;
            }
            Err(error @ Error::NoSpace { .. }) => {
                if !self.starved {
                    tracing::warn!(%error, "the next file of the log cannot be allocated; writes stop when this one is full");
                }
                self.starved = true;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether the next file is there, or needs not be yet.
    pub(crate) fn is_prepared(&self) -> bool {
        self.next.is_some() || self.current.as_ref().is_some_and(|current| current.end <= current.size / 2)
    }

    /// Makes sure that the current file has room for a frame of `bytes` bytes.
    fn make_room(&mut self, bytes: u64, now_micros: i64) -> Result<()> {
        if self.current.as_ref().is_some_and(|current| current.end + bytes <= current.size) {
            return Ok(());
        }
        let wanted = self.file_bytes.max(frame::HEADER_BYTES as u64 + bytes);
        let mut next = match self.next.take() {
            Some(next) => next,
            None => self.create(wanted, now_micros)?,
        };
        if let Err(error) = grow(&mut next, wanted) {
            self.next = Some(next);
            return Err(error);
        }
        if let Some(full) = self.current.replace(next) {
            self.older.push_back(OlderFile { path: full.path, size: full.size, last: self.sequence });
        }
        Ok(())
    }

    /// Creates the file after the current one.
    fn create(&mut self, bytes: u64, now_micros: i64) -> Result<LogFile> {
        let number = self.newest + 1;
        let path = file_path(&self.folder, number);
        let file = match self.fs.create(&path, bytes) {
            Ok(file) => file,
            Err(error) if is_no_space(&error) => {
                // The partial file may take space. If it remains, the next attempt replaces it.
                if let Err(error) = self.fs.unlink(&path) {
                    tracing::debug!(path = %path.display(), %error, "a file that could not be allocated was not removed");
                }
                return Err(Error::NoSpace { path });
            }
            Err(source) => return Err(failed("create", &path, source)),
        };
        let header = frame::header(number, now_micros);
        file.write_at(0, &header).map_err(|source| failed("write", &path, source))?;
        file.sync().map_err(|source| failed("sync", &path, source))?;
        self.fs.sync_folder(&self.folder).map_err(|source| failed("sync", &self.folder, source))?;
        let frame::Header::Sound { seed, .. } = frame::read_header(&header) else {
            unreachable!("a header that was just made is sound");
        };
        self.newest = number;
        Ok(LogFile { path, file, seed, size: bytes, end: frame::HEADER_BYTES as u64 })
    }
}

/// Extends an empty file for a frame larger than the usual file size.
fn grow(file: &mut LogFile, bytes: u64) -> Result<()> {
    if file.size >= bytes {
        return Ok(());
    }
    match file.file.allocate(bytes) {
        Ok(()) => file.size = bytes,
        Err(error) if is_no_space(&error) => return Err(Error::NoSpace { path: file.path.clone() }),
        Err(source) => return Err(failed("allocate", &file.path, source)),
    }
    Ok(())
}

/// The path of the file with a number. Numbers are padded so that names sort in their order.
pub(crate) fn file_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// Parses the number from a file's name.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    name.strip_suffix(".log")?.parse().ok()
}

/// Measures how long one sync of the log takes, in microseconds; `None` on a full disk.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn measure_sync(fs: &dyn Fs, folder: &Path) -> Result<Option<u64>> {
    let path = folder.join(PROBE);
    let took = (|| {
        let file = fs.create(&path, (PROBE_SYNCS * PROBE_BYTES) as u64)?;
        let mut took = [0; PROBE_SYNCS];
        for (at, took) in took.iter_mut().enumerate() {
            file.write_at((at * PROBE_BYTES) as u64, &[0xff; PROBE_BYTES])?;
            let began = Instant::now();
            file.sync()?;
            *took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        }
        took.sort_unstable();
        Ok::<_, io::Error>(took[PROBE_SYNCS / 2])
    })();
    match fs.unlink(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed("unlink", &path, source)),
        _ => {}
    }
    match took {
        Ok(micros) => Ok(Some(micros)),
        Err(error) if is_no_space(&error) => Ok(None),
        Err(source) => Err(failed("write", &path, source)),
    }
}

/// The error of a file call.
pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, path: path.to_owned(), source }
}
