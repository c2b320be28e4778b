//! Reads the frames of the log without replaying them.
//!
//! Start-up stops at the first damage (module [`recover`](crate::engine::recover)); this continues to the end of the
//! log.

use crate::{
    Error, Result,
    engine::{
        frame::{self, Header, Tail},
        log::{self, failed},
    },
    fs::Fs,
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The log files in a folder, ascending; none if the folder is missing.
pub(super) fn log_files(fs: &dyn Fs, folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let names = match fs.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|source| failed("list", folder, source))?,
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| log::file_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| (number, log::file_path(folder, number))).collect())
}

/// Reads one file after the other.
#[derive(Debug)]
pub(super) struct Frames {
    /// The number of the previous file.
    number: Option<u64>,
    /// The previous frame, or the one up to which segments hold everything.
    sequence: u64,
    /// Whether any frame was read.
    met: bool,
    /// A frame that was not completely written, which must be the last.
    torn: Option<Error>,
    /// Number of frames read.
    pub(super) count: u64,
}

impl Frames {
    /// Segments hold everything up to the frame `after`.
    pub(super) fn after(after: u64) -> Self {
        Self { number: None, sequence: after, met: false, torn: None, count: 0 }
    }

    /// Reads the next file; returns where its last sound frame ends, 0 if it has none, and reports damages.
    pub(super) fn file(&mut self, number: u64, path: &Path, bytes: &[u8], found: &mut dyn FnMut(Error)) -> usize {
        let corrupt =
            |offset: usize, detail: String| Error::Corrupt { path: path.to_owned(), offset: offset as u64, detail };
        if self.number.is_some_and(|before| before + 1 != number) {
            found(corrupt(0, "the log files before it are missing".into()));
        }
        self.number = Some(number);
        let seed = match frame::read_header(bytes) {
            Header::Sound { number: said, seed } if said == number => seed,
            Header::Sound { number: said, .. } => {
                found(corrupt(16, format!("it is the log file {said} by its header")));
                return 0;
            }
            Header::Version(version) => {
                let (path, known) = (path.display(), frame::FORMAT_VERSION);
                let text = format!("{path} is in log format {version}; this program reads format {known}");
                found(Error::Unsupported(text));
                return 0;
            }
            Header::Unfinished => return 0,
            Header::Damaged => {
                found(corrupt(0, "the header of the log file is bad".into()));
                return 0;
            }
        };
        let (mut end, mut last) = (frame::HEADER_BYTES, 0);
        loop {
            while let Some(frame) = frame::frame_at(bytes, end, seed) {
                if let Some(torn) = self.torn.take() {
                    found(torn);
                }
                let follows = frame.sequence == self.sequence + 1 || !self.met && frame.sequence <= self.sequence;
                if !follows {
                    found(corrupt(end, format!("frame {} follows frame {}", frame.sequence, self.sequence)));
                }
                (self.sequence, self.met) = (frame.sequence, true);
                self.count += 1;
                (end, last) = (frame.end, frame.end);
            }
            let expected = self.sequence + 1;
            match frame::read_tail(bytes, end, seed, expected) {
                Tail::Clean => return last,
                Tail::Torn { .. } => {
                    let detail = format!("frame {expected} is bad, and later files hold frames");
                    self.torn = Some(corrupt(end, detail));
                    return last;
                }
                Tail::Damaged { sound } => {
                    let detail = format!("frame {expected} is bad, and a later one at byte {sound} is sound");
                    found(corrupt(end, detail));
                    // The gap is reported; frames after it are checked as if there were none.
                    self.sequence = frame::frame_at(bytes, sound, seed).map_or(expected, |frame| frame.sequence - 1);
                    end = sound;
                }
            }
        }
    }
}
