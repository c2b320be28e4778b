//! Start-up: what the log says, read back.
//!
//! 1. The files are listed; their numbers must follow each other.
//! 2. Each is read whole, in order. Frames are taken as long as they are sound; their sequences follow each other, across files
//!    too. Module `frame` says how what comes after the last sound one is judged.
//! 3. A bad frame anywhere but at the very end of the log is [`Error::Corrupt`], and so is a record that contradicts what came
//!    before. Nothing is changed then.
//! 4. A torn frame at the end is zeroed, synced and logged: it was never acknowledged. Files in which no frame was ever written
//!    (allocated early, or not made to the end) are removed.
//! 5. The last sound frame is written once more and synced. A program that was killed, or whose sync failed, may have left it in
//!    the cache of the operating system alone; what is read from now on must be on the disk.
//!
//! Replay starts after the sequence that is given: 0 as long as the log is all there is. With segments it is the one up to
//! which they hold everything, and files that end before it are gone.

use super::{
    apply,
    codec::Cursor,
    frame::{self, Frame, HEADER_BYTES, Header, Tail},
    log::{self, LogFile, failed},
    memtable::State,
    record,
};
use crate::{Error, Result, fs::Fs};
use bytes::Bytes;
use std::path::{Path, PathBuf};

/// What the log came to.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The tables.
    pub(crate) state: State,
    /// The file to append to; `None` when none has a frame.
    pub(crate) current: Option<LogFile>,
    /// The sequence of the last frame.
    pub(crate) sequence: u64,
}

/// Replays the log in `folder` on top of `state`, which holds everything up to the frame `after`.
///
/// # Errors
/// [`Error::Corrupt`], with nothing changed; [`Error::Unsupported`] for a format that this program does not know;
/// [`Error::Io`].
pub(crate) fn recover(fs: &dyn Fs, folder: &Path, state: State, after: u64) -> Result<Recovered> {
    let mut replay = Replay { state, sequence: after, last: None };
    let mut unused = Vec::new();
    let mut before = None;
    for number in numbers(fs, folder)? {
        let path = log::file_path(folder, number);
        if before.is_some_and(|before| before + 1 != number) {
            let detail = "the log files before it are missing".to_owned();
            return Err(Error::Corrupt { path, offset: 0, detail });
        }
        before = Some(number);
        let file = fs.open(&path).map_err(|source| failed("open", &path, source))?;
        let size = file.size().map_err(|source| failed("read", &path, source))?;
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        let bytes = Bytes::from(file.read_at(0, length).map_err(|source| failed("read", &path, source))?);
        match replay.file(&path, number, &bytes)? {
            Some(end) => replay.last = Some(Last { number, path, file, bytes, end }),
            None => unused.push(path),
        }
    }
    let Replay { state, sequence, last } = replay;
    let current = last.map(Last::settle).transpose()?;
    for path in &unused {
        fs.unlink(path).map_err(|source| failed("unlink", path, source))?;
    }
    if !unused.is_empty() {
        fs.sync_folder(folder).map_err(|source| failed("sync", folder, source))?;
    }
    Ok(Recovered { state, current, sequence })
}

/// The numbers of the log files, ascending.
fn numbers(fs: &dyn Fs, folder: &Path) -> Result<Vec<u64>> {
    let names = fs.list(folder).map_err(|source| failed("list", folder, source))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| log::file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

struct Replay {
    state: State,
    sequence: u64,
    /// The last file with frames.
    last: Option<Last>,
}

/// The last file with frames, sound or torn.
struct Last {
    number: u64,
    path: PathBuf,
    file: Box<dyn crate::fs::File>,
    bytes: Bytes,
    end: FramesEnd,
}

/// How the frames of a file end.
#[derive(Clone, Copy)]
struct FramesEnd {
    seed: u32,
    /// Where the last sound frame begins, if there is one.
    last: Option<usize>,
    /// Where the next frame goes.
    end: usize,
    /// Where a torn frame there ends.
    torn: Option<usize>,
}

impl Replay {
    /// Replays one file; `None` when no frame was ever written to it.
    fn file(&mut self, path: &Path, number: u64, bytes: &Bytes) -> Result<Option<FramesEnd>> {
        let corrupt =
            |offset: usize, detail: String| Error::Corrupt { path: path.to_owned(), offset: offset as u64, detail };
        let seed = match frame::read_header(bytes) {
            Header::Sound { number: found, seed } if found == number => seed,
            Header::Sound { number: found, .. } => {
                return Err(corrupt(16, format!("it is the log file {found} by its header")));
            }
            Header::Version(version) => {
                return Err(Error::Unsupported(format!(
                    "{} is in log format {version}; this program reads format {}",
                    path.display(),
                    frame::FORMAT_VERSION
                )));
            }
            Header::Unfinished => return Ok(None),
            Header::Damaged => return Err(corrupt(0, "the header of the log file is bad".into())),
        };
        let mut ends = FramesEnd { seed, last: None, end: HEADER_BYTES, torn: None };
        while let Some(found) = frame::frame_at(bytes, ends.end, seed) {
            if found.sequence != self.sequence + 1 && !(self.is_first(&ends) && found.sequence <= self.sequence) {
                let detail = format!("frame {} follows frame {}", found.sequence, self.sequence);
                return Err(corrupt(ends.end, detail));
            }
            self.check_before_is_whole()?;
            if found.sequence > self.sequence {
                self.frame(bytes, &found).ok_or_else(|| {
                    corrupt(ends.end, format!("frame {} holds a record that makes no sense", found.sequence))
                })?;
                self.sequence = found.sequence;
            }
            ends.last = Some(ends.end);
            ends.end = found.end;
        }
        match frame::read_tail(bytes, ends.end, seed, self.sequence + 1) {
            Tail::Clean => {}
            Tail::Torn { end } => {
                self.check_before_is_whole()?;
                ends.torn = Some(end);
            }
            Tail::Damaged { sound } => {
                let detail = format!(
                    "frame {} is bad, and a later one at byte {sound} is sound; nothing was changed",
                    self.sequence + 1
                );
                return Err(corrupt(ends.end, detail));
            }
        }
        Ok((ends.last.is_some() || ends.torn.is_some()).then_some(ends))
    }

    /// Whether no frame was met yet: the first ones may be older than where replay starts.
    fn is_first(&self, ends: &FramesEnd) -> bool {
        self.last.is_none() && ends.last.is_none()
    }

    /// A frame in a later file was written after the sync of all before it: none of them can be torn.
    fn check_before_is_whole(&self) -> Result<()> {
        match &self.last {
            Some(Last { path, end: FramesEnd { end, torn: Some(_), .. }, .. }) => Err(Error::Corrupt {
                path: path.clone(),
                offset: *end as u64,
                detail: format!("frame {} is bad, and later files hold frames; nothing was changed", self.sequence + 1),
            }),
            _ => Ok(()),
        }
    }

    fn frame(&mut self, file: &Bytes, frame: &Frame<'_>) -> Option<()> {
        let payload = file.slice_ref(frame.payload);
        let mut cursor = Cursor::new(&payload);
        while !cursor.is_empty() {
            let record = record::take(&mut cursor, &payload, &self.state)?;
            apply::replay(&mut self.state, record)?;
        }
        Some(())
    }
}

impl Last {
    /// Makes the file ready for the next frame.
    fn settle(self) -> Result<LogFile> {
        let Self { number, path, file, bytes, end: FramesEnd { seed, last, end, torn } } = self;
        let write =
            |at: usize, bytes: &[u8]| file.write_at(at as u64, bytes).map_err(|source| failed("write", &path, source));
        if let Some(torn) = torn {
            tracing::warn!(
                path = %path.display(),
                offset = end,
                bytes = torn - end,
                "the log ends in a frame that was not written whole; it was never acknowledged and is removed"
            );
            write(end, &vec![0; torn - end])?;
        }
        if let Some(last) = last {
            write(last, &bytes[last..end])?;
        }
        file.sync().map_err(|source| failed("sync", &path, source))?;
        Ok(LogFile { number, size: bytes.len() as u64, path, file, seed, end: end as u64 })
    }
}
