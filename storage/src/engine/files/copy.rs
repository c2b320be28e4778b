//! Copies a store, which may be in use.
//!
//! 1. Claim the target: a `CURRENT` that names no manifest yet, so that an interrupted copy is never taken for a store.
//! 2. Read the source's manifest, and copy the segments that it names and that are not there yet; read and verify every
//!    copy.
//! 3. Copy the deletion vectors, then the sound frames of the log.
//! 4. If another manifest is in force by now, its files may have replaced what was copied: repeat from 2. Segments
//!    never change, so that a turn copies only new ones.
//! 5. Remove what the last manifest does not name from the target, and put the manifest in force there.
//!
//! The copy is the source as it was at one time during step 3: log files are removed only when a later manifest is in
//! force, and each frame must follow the previous one, or the turn is repeated.

use super::{Copied, Step, StoreFiles, frames, frames::Frames, segments, verify};
use crate::{
    Clock, Error, Result, SystemClock,
    engine::{
        blobs::{self, Blobs, no_space_or},
        log::{self, failed},
        manifest::{Manifest, Manifests, SegmentId},
    },
};
use std::{collections::BTreeSet, io, path::Path, sync::Arc};

/// Maximum number of turns while the source changes.
const TURNS_MAX: usize = 64;
/// How often the log is read before an error in it counts as damage.
const LOOKS_MAX: usize = 8;
/// Bytes of a segment that are copied at a time.
const PIECE_BYTES: u64 = 4 << 20;

struct Copy<'a> {
    source: &'a StoreFiles,
    from: Arc<dyn Blobs>,
    target: &'a StoreFiles,
    to: Arc<dyn Blobs>,
    manifests: Manifests,
    /// Segments that are copied and verified.
    there: BTreeSet<SegmentId>,
    watch: &'a mut dyn FnMut(Step<'_>),
}

impl StoreFiles {
    /// Copies this store, which may be in use, to `target`, which is empty: everything acknowledged before the call,
    /// and some of what is acknowledged meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a target that is not empty, or a source without a store; [`Error::Corrupt`] for a damaged
    /// source or copy; [`Error::NoSpace`]; [`Error::Io`]; [`Error::Unavailable`] if the source changes faster than it
    /// can be copied. The target is not a store then.
    pub fn copy_to(&self, target: &Self, watch: &mut dyn FnMut(Step<'_>)) -> Result<Copied> {
        self.check_is_store()?;
        let path = &target.path;
        target.fs.create_folder(path).map_err(|source| no_space_or("create", path, source))?;
        if !target.fs.list(path).map_err(|source| failed("list", path, source))?.is_empty() {
            return Err(Error::Invalid(format!("the folder {} is not empty", path.display())));
        }
        let _lock = target.lock()?;
        let to = target.blobs()?;
        if !to.list()?.is_empty() {
            return Err(Error::Invalid(format!("{} is not empty", to.describe())));
        }
        let manifests = Manifests::claim(target.fs.clone(), path.clone())?;
        if target.segments.is_some() {
            let place = (path.as_path(), target.segments.as_ref());
            blobs::claim(to.as_ref(), target.fs.as_ref(), place, SystemClock.now_micros())?;
        }
        let wal = target.wal();
        target.fs.create_folder(&wal).map_err(|source| no_space_or("create", &wal, source))?;
        let (source, there) = (self, BTreeSet::new());
        Copy { source, from: self.blobs()?, target, to, manifests, there, watch }.run()
    }

    /// The manifest in force. A commit between the reads of its two files is not a damage.
    pub(in crate::engine) fn load(&self) -> Result<(Manifests, Manifest)> {
        let mut loaded = Manifests::load(self.fs.clone(), self.path.clone());
        for _ in 0..TURNS_MAX {
            if !matches!(loaded, Err(Error::Corrupt { .. })) {
                break;
            }
            loaded = Manifests::load(self.fs.clone(), self.path.clone());
        }
        loaded
    }

    /// A whole file.
    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.fs.open(path).map_err(|source| failed("open", path, source))?;
        let size = file.size().map_err(|source| failed("read", path, source))?;
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        file.read_at(0, bytes).map_err(|source| failed("read", path, source))
    }
}

impl Copy<'_> {
    fn run(mut self) -> Result<Copied> {
        for _ in 0..TURNS_MAX {
            let (manifests, manifest) = self.source.load()?;
            let turn = self.turn(&manifests, &manifest);
            // The error may be that a file was removed because it is no longer needed.
            if self.source.load()?.1.version != manifest.version {
                continue;
            }
            return self.settle(&manifest, turn?);
        }
        Err(Error::Unavailable(format!("{} changes faster than it can be copied", self.source.path.display())))
    }

    /// Copies what a manifest names, and the log.
    fn turn(&mut self, manifests: &Manifests, manifest: &Manifest) -> Result<Copied> {
        let segments = segments(manifest);
        let missing = segments.iter().filter(|(id, _)| !self.there.contains(id));
        (self.watch)(Step::Ahead(missing.map(|(_, (_, meta))| meta.bytes + meta.side_bytes).sum()));
        let mut copied = Copied { segments: segments.len() as u64, ..Copied::default() };
        for (id, (table, meta)) in &segments {
            copied.segment_bytes += meta.bytes + meta.side_bytes;
            if self.there.contains(id) {
                continue;
            }
            (self.watch)(Step::File(&format!("segment {id}")));
            for (name, bytes) in meta.files() {
                self.segment(&name, bytes)?;
            }
            verify(&self.to, *table, meta)?;
            self.there.insert(*id);
        }
        for (id, meta) in &manifest.deletion_vectors {
            let bytes = manifests.read_deletion_vector(*id, meta)?;
            self.manifests.write_deletion_vectors(meta.version, [(*id, &bytes[..])])?;
        }
        // A writer may be between two log files, or in the middle of a frame: look again later.
        for _ in 0..LOOKS_MAX - 1 {
            let mut sound = true;
            (copied.frames, copied.log_bytes) = self.log(manifest.sequence, &mut |_| sound = false)?;
            if sound {
                return Ok(copied);
            }
        }
        let mut found = None;
        (copied.frames, copied.log_bytes) = self.log(manifest.sequence, &mut |error| _ = found.get_or_insert(error))?;
        found.map_or(Ok(copied), Err)
    }

    fn segment(&mut self, name: &str, bytes: u64) -> Result<()> {
        let blob = self.from.open(name)?;
        let mut writer = self.to.create(name)?;
        let mut offset = 0;
        while offset < bytes {
            let piece = usize::try_from((bytes - offset).min(PIECE_BYTES)).expect("a piece is small");
            writer.write(&blob.read_at(offset, piece)?)?;
            offset += piece as u64;
            (self.watch)(Step::Done(piece as u64));
        }
        writer.finish().map(drop)
    }

    /// Copies the sound frames of the log, replacing earlier copies; returns their number and bytes.
    fn log(&mut self, after: u64, found: &mut dyn FnMut(Error)) -> Result<(u64, u64)> {
        let wal = self.target.wal();
        for (_, path) in frames::log_files(self.target.fs.as_ref(), &wal)? {
            self.target.fs.unlink(&path).map_err(|source| failed("unlink", &path, source))?;
        }
        let (mut frames, mut log_bytes) = (Frames::after(after), 0);
        for (number, path) in frames::log_files(self.source.fs.as_ref(), &self.source.wal())? {
            (self.watch)(Step::File(&path.display().to_string()));
            let bytes = match self.source.read(&path) {
                // It was removed since it was listed: segments hold its frames.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                bytes => bytes?,
            };
            let end = frames.file(number, &path, &bytes, found);
            if end > 0 {
                self.write(&log::file_path(&wal, number), &bytes[..end])?;
                log_bytes += end as u64;
            }
        }
        self.target.fs.sync_folder(&wal).map_err(|source| failed("sync", &wal, source))?;
        Ok((frames.count, log_bytes))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let fs = self.target.fs.as_ref();
        let file = fs.create(path, 0).map_err(|source| no_space_or("create", path, source))?;
        file.write_at(0, bytes).map_err(|source| no_space_or("write", path, source))?;
        file.sync().map_err(|source| no_space_or("sync", path, source))
    }

    /// Makes the target a store.
    fn settle(mut self, manifest: &Manifest, copied: Copied) -> Result<Copied> {
        self.manifests.commit_copy(manifest)?;
        // Copies of earlier turns.
        self.manifests.clean_segments(manifest, self.to.as_ref())?;
        Ok(copied)
    }
}
