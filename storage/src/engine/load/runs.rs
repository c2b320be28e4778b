//! Runs: sorted rows of a load in temporary files, until all of them are merged into segments.
//!
//! ```text
//! load/<number>.run     blocks of about BLOCK_BYTES:
//!   4 bytes   length of what follows the checksum
//!   4 bytes   CRC-32C of it
//!   rows      length of the key 4, length of the row 4, number 8, key, row
//! ```
//!
//! Runs need not survive: a start removes them. Runs have *levels*: when a level has as many runs as are merged at a
//! time, they become one run of the next level. So a load of any size is read from few files at the end, and each row
//! is written few times.

use super::merge::{Item, Merge, Source};
use crate::{
    Error, Result,
    engine::{blobs::no_space_or, log::failed},
    fs::{File, Fs},
};
use bytes::{Buf, Bytes};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The folder of runs within the store's folder.
pub(crate) const FOLDER: &str = "load";
/// Bytes of a block, plus at most one row.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
/// Bytes of a block's head.
const HEAD_BYTES: usize = 8;
/// Bytes of a row's head in a block.
const ROW_HEAD_BYTES: usize = 16;
/// Maximum number of blocks of a run whose first keys are kept.
const MARKS_MAX: usize = 64;

/// The folder of runs.
#[derive(Debug)]
pub(crate) struct Scratch {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    /// See [`BLOCK_BYTES`].
    block_bytes: usize,
    next: AtomicU64,
}

impl Scratch {
    /// Opens the folder of runs in a store's folder, and removes runs of earlier starts.
    ///
    /// # Errors
    /// Errors of removing files.
    pub(crate) fn clear(fs: Arc<dyn Fs>, store: &Path, block_bytes: usize) -> Result<Self> {
        let folder = store.join(FOLDER);
        fs.create_folder(&folder).map_err(|source| failed("create", &folder, source))?;
        for name in fs.list(&folder).map_err(|source| failed("list", &folder, source))? {
            let path = folder.join(name);
            fs.unlink(&path).map_err(|source| failed("unlink", &path, source))?;
        }
        Ok(Self { fs, folder, block_bytes, next: AtomicU64::new(0) })
    }

    fn begin(self: &Arc<Self>) -> Result<RunWriter> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{number:010}.run"));
        let made = self.fs.create(&path, 0);
        let file = made.map_err(|source| no_space_or("create", &path, source))?;
        let run = RunFile { file, path, scratch: Arc::clone(self) };
        let block = Vec::with_capacity(self.block_bytes + self.block_bytes / 8);
        Ok(RunWriter { run, end: 0, block, marks: Marks::default(), last: Vec::new() })
    }
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
struct RunFile {
    file: Box<dyn File>,
    path: PathBuf,
    scratch: Arc<Scratch>,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if let Err(error) = self.scratch.fs.unlink(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a file of a load was not removed; the next start does it");
        }
    }
}

/// The first keys of some evenly spaced blocks of a run, with the offsets of these blocks.
#[derive(Clone, Debug, Default)]
struct Marks {
    keys: Vec<(Bytes, u64)>,
    /// One block in 2^stride is kept.
    stride: u32,
    blocks: u64,
}

impl Marks {
    /// Records a block that begins with this key.
    fn begin(&mut self, key: &[u8], at: u64) {
        if self.keys.len() == MARKS_MAX {
            let mut is_kept = false;
            self.keys.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.stride += 1;
        }
        if self.blocks.trailing_zeros() >= self.stride {
            self.keys.push((Bytes::copy_from_slice(key), at));
        }
        self.blocks += 1;
    }

    /// An offset at or before the block of the first key that is not less than `key`.
    fn before(&self, key: &[u8]) -> u64 {
        let before = self.keys.partition_point(|(first, _)| first[..] <= *key);
        before.checked_sub(1).map_or(0, |at| self.keys[at].1)
    }
}

/// A run being written.
#[derive(Debug)]
struct RunWriter {
    run: RunFile,
    end: u64,
    block: Vec<u8>,
    marks: Marks,
    last: Vec<u8>,
}

impl RunWriter {
    fn push(&mut self, key: &[u8], row: &[u8], number: u64) -> Result<()> {
        if self.block.is_empty() {
            self.block.resize(HEAD_BYTES, 0);
            self.marks.begin(key, self.end);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        self.block.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.block.extend_from_slice(&(row.len() as u32).to_le_bytes());
        self.block.extend_from_slice(&number.to_le_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(row);
        if self.block.len() >= self.run.scratch.block_bytes { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (length, checksum) = ((self.block.len() - HEAD_BYTES) as u32, crc32c::crc32c(&self.block[HEAD_BYTES..]));
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.block[4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let written = self.run.file.write_at(self.end, &self.block);
        written.map_err(|source| no_space_or("write", &self.run.path, source))?;
        self.end += self.block.len() as u64;
        self.block.clear();
        // Frees the room of one large row.
        self.block.shrink_to(2 * self.run.scratch.block_bytes);
        Ok(())
    }

    fn finish(mut self) -> Result<RunReader> {
        self.end_block()?;
        let first = self.marks.keys.first().map(|(key, _)| key.clone()).unwrap_or_default();
        let (run, bounds) = (Arc::new(self.run), (first, self.last.into()));
        Ok(RunReader { run, at: 0, end: self.end, block: Bytes::new(), bounds, marks: self.marks, part: (None, None) })
    }
}

/// A run being read.
#[derive(Debug)]
pub(super) struct RunReader {
    run: Arc<RunFile>,
    at: u64,
    end: u64,
    /// The unread part of the current block.
    block: Bytes,
    bounds: (Bytes, Bytes),
    marks: Marks,
    /// Bounds of the keys that are read: from, inclusive, and until, exclusive.
    part: (Option<Bytes>, Option<Bytes>),
}

impl RunReader {
    /// Its least and its greatest key.
    pub(super) fn bounds(&self) -> (Bytes, Bytes) {
        self.bounds.clone()
    }

    /// Bytes of its rows.
    pub(super) fn bytes(&self) -> u64 {
        self.end
    }

    /// Some evenly spaced keys, each with the approximate bytes of rows that it stands for.
    pub(super) fn marks(&self) -> impl Iterator<Item = (&Bytes, u64)> {
        let each = self.bytes() / (self.marks.keys.len() as u64).max(1);
        self.marks.keys.iter().map(move |(key, _)| (key, each))
    }

    /// Splits it into the rows before a key and the others. The run must be unread.
    pub(super) fn split(self, key: &Bytes) -> [Self; 2] {
        let Self { run, at, end, block, bounds, marks, part: (from, until) } = self;
        let later = Self {
            run: Arc::clone(&run),
            at: at.max(marks.before(key)),
            end,
            block: block.clone(),
            bounds: bounds.clone(),
            marks: marks.clone(),
            part: (Some(key.clone()), until),
        };
        [Self { run, at, end, block, bounds, marks, part: (from, Some(key.clone())) }, later]
    }

    /// The next row.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the bytes are not those written; [`Error::Io`].
    pub(super) fn next(&mut self) -> Result<Option<Item>> {
        loop {
            let item = self.read()?;
            let (from, until) = &self.part;
            match item {
                Some(item) if from.as_ref().is_some_and(|from| item.key < *from) => {}
                Some(item) if until.as_ref().is_some_and(|until| item.key >= *until) => return Ok(None),
                item => {
                    // Keys ascend.
                    self.part.0 = None;
                    return Ok(item);
                }
            }
        }
    }

    fn read(&mut self) -> Result<Option<Item>> {
        if self.block.is_empty() {
            if self.at == self.end {
                return Ok(None);
            }
            self.block = self.read_block()?;
        }
        let (key, row, number) =
            (self.block.get_u32_le() as usize, self.block.get_u32_le() as usize, self.block.get_u64_le());
        let (key, row) = (self.block.split_to(key), self.block.split_to(row));
        Ok(Some(Item { key, row, number }))
    }

    fn read_block(&mut self) -> Result<Bytes> {
        let path = &self.run.path;
        let read = |at: u64, bytes: usize| {
            self.run.file.read_at(at, bytes).map(Bytes::from).map_err(|source| failed("read", path, source))
        };
        let damaged =
            || Error::Corrupt { path: path.clone(), offset: self.at, detail: "it is not what was written".into() };
        // Most blocks are of about this size, and take one read.
        let mut bytes = read(self.at, HEAD_BYTES + self.run.scratch.block_bytes)?;
        if bytes.len() < HEAD_BYTES {
            return Err(damaged());
        }
        let (length, checksum) = (bytes.get_u32_le() as usize, bytes.get_u32_le());
        if bytes.len() < length {
            bytes = read(self.at + HEAD_BYTES as u64, length)?;
        }
        bytes.truncate(length);
        if bytes.len() < length || length < ROW_HEAD_BYTES || crc32c::crc32c(&bytes) != checksum {
            return Err(damaged());
        }
        self.at += (HEAD_BYTES + length) as u64;
        Ok(bytes)
    }
}

/// The runs of a load.
#[derive(Debug)]
pub(super) struct Runs {
    scratch: Arc<Scratch>,
    /// How many are merged at a time.
    fan_in: usize,
    /// By level.
    levels: Vec<Vec<RunReader>>,
}

impl Runs {
    /// No runs yet; `fan_in` are merged at a time, at least two.
    pub(super) fn new(scratch: Arc<Scratch>, fan_in: usize) -> Self {
        Self { scratch, fan_in: fan_in.max(2), levels: Vec::new() }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Writes a run.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; errors of [`Merge`].
    pub(super) fn add(&mut self, sorted: &super::buffer::Sorted) -> Result<()> {
        let mut writer = self.scratch.begin()?;
        for at in 0..sorted.len() {
            writer.push(sorted.key(at), sorted.row(at), sorted.number(at))?;
        }
        self.put(0, writer.finish()?)
    }

    fn put(&mut self, level: usize, run: RunReader) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < self.fan_in {
            return Ok(());
        }
        let mut merge = Merge::new(self.levels[level].drain(..).map(Source::Run))?;
        let mut writer = self.scratch.begin()?;
        while let Some(Item { key, row, number }) = merge.next()? {
            writer.push(&key, &row, number)?;
        }
        self.put(level + 1, writer.finish()?)
    }

    /// Removes and returns all of them, to be read.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Source> + use<> {
        std::mem::take(&mut self.levels).into_iter().flatten().map(Source::Run)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{buffer::Buffer, merge::halved},
        *,
    };
    use crate::testing::sim::SimFs;
    use std::collections::BTreeMap;

    fn scratch(fs: &SimFs) -> Arc<Scratch> {
        Arc::new(Scratch::clear(Arc::new(fs.clone()), Path::new("/store"), 1 << 10).unwrap())
    }

    fn sorted(rows: &[(u32, usize)]) -> super::super::buffer::Sorted {
        let mut buffer = Buffer::default();
        for (key, size) in rows {
            buffer.push(u64::from(*key), &key.to_be_bytes(), |out| out.resize(out.len() + size, *key as u8)).unwrap();
        }
        buffer.sort().unwrap().unwrap()
    }

    #[test]
    fn runs_are_merged_in_levels_and_read_back() {
        let fs = SimFs::new();
        let mut runs = Runs::new(scratch(&fs), 3);
        let mut expected = BTreeMap::new();
        for run in 0..20u32 {
            // Now and then a row is larger than a block.
            let rows: Vec<_> = (0..30).map(|row| (row * 20 + run, if row == run { 300_000 } else { 10 })).collect();
            expected.extend(rows.iter().copied());
            runs.add(&sorted(&rows)).unwrap();
            assert!(fs.list(&Path::new("/store").join(FOLDER)).unwrap().len() <= 2 * 3 + 1);
        }
        let mut merge = Merge::new(runs.take()).unwrap();
        for (key, size) in expected {
            let item = merge.next().unwrap().unwrap();
            assert_eq!((&item.key[..], item.row.len(), item.number), (&key.to_be_bytes()[..], size, key.into()));
            assert!(item.row.iter().all(|byte| *byte == key as u8));
        }
        assert_eq!(merge.next().unwrap(), None);
        drop(merge);
        assert!(fs.list(&Path::new("/store").join(FOLDER)).unwrap().is_empty(), "files of runs that were read stay");
    }

    #[test]
    fn two_halves_have_all_rows_between_them() {
        let fs = SimFs::new();
        let mut runs = Runs::new(scratch(&fs), 300);
        // Only some blocks of the long runs are kept.
        for run in 0..3u32 {
            let rows: Vec<_> = (0..[400, 7, 1][run as usize]).map(|row| (row * 3 + run, 60_000)).collect();
            runs.add(&sorted(&rows)).unwrap();
        }
        let marks = &runs.levels[0][0].marks;
        assert!((MARKS_MAX / 2..=MARKS_MAX).contains(&marks.keys.len()) && marks.stride > 0, "{marks:?}");
        let run = &runs.levels[0][0];
        let key = |key: u32| Bytes::copy_from_slice(&key.to_be_bytes());
        for at in [0, 1, 2, 3, 20, 599, 600, 601, 1197, 1198, 5_000] {
            let again = || RunReader {
                run: Arc::clone(&run.run),
                block: Bytes::new(),
                bounds: run.bounds(),
                marks: marks.clone(),
                part: (None, None),
                ..*run
            };
            let [mut first, mut second] = again().split(&key(at));
            let all = |run: &mut RunReader| {
                std::iter::from_fn(|| run.next().unwrap()).map(|item| item.key).collect::<Vec<_>>()
            };
            let before: Vec<_> = (0..400).map(|row| row * 3).filter(|row| *row < at).map(key).collect();
            let from: Vec<_> = (0..400).map(|row| row * 3).filter(|row| *row >= at).map(key).collect();
            if at > 600 {
                assert!(second.at > 0, "what comes before is read");
            }
            assert_eq!((all(&mut first), all(&mut second)), (before, from), "at {at}");
        }
        let (first, second) = halved(runs.take().collect(), 1);
        let count = |sources| {
            let mut merge = Merge::new(sources).unwrap();
            std::iter::from_fn(|| merge.next().unwrap()).map(|item| item.key).collect::<Vec<_>>()
        };
        let (first, second) = (count(first), count(second.expect("two halves")));
        assert!(first.last() < second.first() && first.len() + second.len() == 408);
        assert!(first.len().abs_diff(second.len()) < 40, "{} and {}", first.len(), second.len());
    }

    #[test]
    fn damage_is_noticed_and_what_is_left_is_removed_by_the_next_start() {
        let fs = SimFs::new();
        let mut runs = Runs::new(scratch(&fs), 3);
        runs.add(&sorted(&[(1, 100), (2, 100)])).unwrap();
        let path = Path::new("/store").join(FOLDER).join("0000000000.run");
        fs.damage(&path, |bytes| bytes[60] ^= 1);
        let error = Merge::new(runs.take()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
        fs.create(&path, 10).unwrap();
        scratch(&fs);
        assert!(fs.list(&Path::new("/store").join(FOLDER)).unwrap().is_empty());
    }
}
