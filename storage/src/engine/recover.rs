//! Start-up: replays the log.
//!
//! 1. List the files; their numbers must be consecutive.
//! 2. Read each file whole, in order, one at a time, up to its last sound frame. Sequences must be consecutive, across
//!    files too. Module `frame` classifies the content after the last sound frame.
//! 3. A bad frame anywhere but at the very end of the log is [`Error::Corrupt`], and so is a record that contradicts
//!    earlier ones. Nothing is changed then.
//! 4. A torn frame at the end is zeroed, synced and logged: it was never acknowledged. Files without frames (allocated
//!    early, or partially created) are removed.
//! 5. The last sound frame is rewritten and synced. A program that was killed, or whose sync failed, may have left it
//!    only in the operating system's cache; from now on everything that is read must be on disk.
//!
//! Replay starts after the sequence up to which segments hold everything. Files that end before it may still exist:
//! their frames are checked and skipped. If there is nothing after it, all of them are removed. At the end the older
//! versions of replayed rows are marked dead in segments, all at once.

use super::{
    apply::{self, Superseded},
    codec::Cursor,
    frame::{self, Frame, HEADER_BYTES, Header, Tail},
    log::{self, LogEnd, LogFile, OlderFile, failed},
    record,
    state::State,
};
use crate::{Error, Result, fs::Fs};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

/// The result of a replay.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The tables.
    pub(crate) state: State,
    /// The end of the log, for appending.
    pub(crate) end: LogEnd,
}

/// Replays the log in `folder` on top of `state`, which includes everything up to the frame `after`.
///
/// # Errors
/// [`Error::Corrupt`], with nothing changed; [`Error::Unsupported`] for a format that this program does not know;
/// [`Error::Io`].
pub(crate) fn recover(fs: &dyn Fs, folder: &Path, state: State, after: u64) -> Result<Recovered> {
    let Files { replay, unused, newest } = replay_files(fs, folder, state, after)?;
    let Replay { mut state, sequence, superseded, last, mut older, .. } = replay;
    apply::settle(&mut state, superseded)?;
    let sequence = sequence.unwrap_or(after).max(after);
    let current = last.map(LastFile::settle).transpose()?;
    // Segments hold all frames of the log; appending to its file would leave a gap in the sequences.
    let current = match current {
        Some(file) if sequence == after => {
            older.push_back(OlderFile { path: file.path, size: file.size, last: after });
            None
        }
        current => current,
    };
    for path in &unused {
        fs.unlink(path).map_err(|source| failed("unlink", path, source))?;
    }
    if !unused.is_empty() {
        fs.sync_folder(folder).map_err(|source| failed("sync", folder, source))?;
    }
    Ok(Recovered { state, end: LogEnd { older, current, newest, sequence } })
}

/// Replays the log in `folder` on top of `state`, as [`recover`] does, and changes no file: for a store that is only
/// read, and that another process may be writing.
///
/// # Errors
/// As [`recover`].
pub(crate) fn replay(fs: &dyn Fs, folder: &Path, state: State, after: u64) -> Result<State> {
    let Replay { mut state, superseded, .. } = replay_files(fs, folder, state, after)?.replay;
    apply::settle(&mut state, superseded)?;
    Ok(state)
}

/// The files of a log after a replay.
struct Files {
    replay: Replay,
    /// Files without frames.
    unused: Vec<PathBuf>,
    /// The number of the newest file with frames.
    newest: u64,
}

fn replay_files(fs: &dyn Fs, folder: &Path, state: State, after: u64) -> Result<Files> {
    let superseded = Superseded::new();
    let mut replay = Replay { state, after, sequence: None, superseded, last: None, older: VecDeque::new() };
    let mut unused = Vec::new();
    let (mut before, mut newest) = (None, 0);
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
        let (size, last_before) = (bytes.len() as u64, replay.sequence);
        match replay.file(&path, number, &bytes)? {
            Some(end) => {
                // The numbers of files without frames are reused, since numbers must be consecutive.
                newest = number;
                let last_frame = end.last.map(|last| bytes[last..end.end].to_vec());
                if let Some(full) = replay.last.replace(LastFile { path, file, size, last_frame, end }) {
                    let last = last_before.expect("a file before it has frames");
                    replay.older.push_back(OlderFile { path: full.path, size: full.size, last });
                }
            }
            None => unused.push(path),
        }
    }
    Ok(Files { replay, unused, newest })
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
    /// The frame up to which the initial state includes everything.
    after: u64,
    /// The last frame met.
    sequence: Option<u64>,
    superseded: Superseded,
    /// The last file with frames.
    last: Option<LastFile>,
    /// The files before it.
    older: VecDeque<OlderFile>,
}

/// The last file with frames, sound or torn.
struct LastFile {
    path: PathBuf,
    file: Box<dyn crate::fs::File>,
    size: u64,
    /// The bytes of the last sound frame, if there is one.
    last_frame: Option<Vec<u8>>,
    end: FramesEnd,
}

/// How the frames of a file end.
#[derive(Clone, Copy)]
struct FramesEnd {
    seed: u32,
    /// The beginning of the last sound frame, if there is one.
    last: Option<usize>,
    /// The offset of the next frame.
    end: usize,
    /// The end of a torn frame there.
    torn: Option<usize>,
}

impl Replay {
    /// Replays one file; `None` if it has no frames.
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
            // The first remaining frame may be any that segments hold, or the one after these.
            let follows = self.sequence.map_or(found.sequence <= self.after + 1, |last| found.sequence == last + 1);
            if !follows {
                let last = self.sequence.unwrap_or(self.after);
                return Err(corrupt(ends.end, format!("frame {} follows frame {last}", found.sequence)));
            }
            self.check_before_is_whole()?;
            if found.sequence > self.after {
                self.frame(bytes, &found)?.ok_or_else(|| {
                    corrupt(ends.end, format!("frame {} holds a record that makes no sense", found.sequence))
                })?;
            }
            self.sequence = Some(found.sequence);
            ends.last = Some(ends.end);
            ends.end = found.end;
        }
        match frame::read_tail(bytes, ends.end, seed, self.next()) {
            Tail::Clean => {}
            Tail::Torn { end } => {
                self.check_before_is_whole()?;
                ends.torn = Some(end);
            }
            Tail::Damaged { sound } => {
                let detail = format!(
                    "frame {} is bad, and a later one at byte {sound} is sound; nothing was changed",
                    self.next()
                );
                return Err(corrupt(ends.end, detail));
            }
        }
        Ok((ends.last.is_some() || ends.torn.is_some()).then_some(ends))
    }

    /// The sequence of the next frame.
    fn next(&self) -> u64 {
        self.sequence.unwrap_or(self.after) + 1
    }

    /// A frame in a later file was written after the sync of all earlier ones: none of them can be torn.
    fn check_before_is_whole(&self) -> Result<()> {
        match &self.last {
            Some(LastFile { path, end: FramesEnd { end, torn: Some(_), .. }, .. }) => Err(Error::Corrupt {
                path: path.clone(),
                offset: *end as u64,
                detail: format!("frame {} is bad, and later files hold frames; nothing was changed", self.next()),
            }),
            _ => Ok(()),
        }
    }

    fn frame(&mut self, file: &Bytes, frame: &Frame<'_>) -> Result<Option<()>> {
        let payload = file.slice_ref(frame.payload);
        let mut cursor = Cursor::new(&payload);
        while !cursor.is_empty() {
            let Some(record) = record::take(&mut cursor, &payload, &self.state) else { return Ok(None) };
            if apply::replay(&mut self.state, &mut self.superseded, record)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }
}

impl LastFile {
    /// Prepares the file for the next frame.
    fn settle(self) -> Result<LogFile> {
        let Self { path, file, size, last_frame, end: FramesEnd { seed, last, end, torn } } = self;
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
        if let Some((last, frame)) = last.zip(last_frame) {
            write(last, &frame)?;
        }
        file.sync().map_err(|source| failed("sync", &path, source))?;
        Ok(LogFile { size, path, file, seed, end: end as u64 })
    }
}
