//! Verifies every file of a store against its checksums.
//!
//! Checks `CURRENT` and the manifest, the deletion vectors, each frame of the log, and each segment with its rows, in
//! this order. A damage hides only what depends on it: without a manifest there are no segments to check, but the log
//! still is.

use super::{Checked, Step, StoreFiles, frames, segments, verify};
use crate::{
    Error, Result,
    engine::{
        deletion_vector::DeletionVector,
        log::failed,
        manifest::{CURRENT, Manifest, Manifests, SegmentId},
    },
};
use std::{collections::BTreeSet, path::PathBuf};

struct Check<'a> {
    checked: Checked,
    watch: &'a mut dyn FnMut(Step<'_>),
}

impl Check<'_> {
    fn file(&mut self, name: &str) {
        self.checked.files += 1;
        (self.watch)(Step::File(name));
    }

    fn done(&mut self, bytes: u64) {
        self.checked.bytes += bytes;
        (self.watch)(Step::Done(bytes));
    }

    /// Reports an error of a file, and goes on.
    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.found(error)).ok()
    }

    fn found(&mut self, error: &Error) {
        self.checked.found += 1;
        (self.watch)(Step::Found(error));
    }
}

impl StoreFiles {
    /// Reads every file of a store that nobody has open, and reports damages. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Locked`] for a store in use; [`Error::Invalid`] for a folder without a store; [`Error::Io`] for one
    /// that cannot be listed. Damages of single files are not errors here: see [`Checked::found`].
    pub fn check(&self, watch: &mut dyn FnMut(Step<'_>)) -> Result<Checked> {
        let folder = self.fs.list(&self.path).map_err(|source| failed("list", &self.path, source))?;
        let wal = self.wal();
        let log = frames::log_files(self.fs.as_ref(), &wal)?;
        if log.is_empty() && !folder.iter().any(|name| name == CURRENT) {
            return Err(Error::Invalid(format!("there is no store in {}", self.path.display())));
        }
        let _lock = self.lock()?;
        let blobs = self.blobs()?;
        let mut check = Check { checked: Checked::default(), watch };

        check.file(CURRENT);
        let loaded = check.take(Manifests::load(self.fs.clone(), self.path.clone()));
        let (manifests, manifest) = loaded.map_or((None, Manifest::default()), |(all, one)| (Some(all), one));
        let segments = segments(&manifest);
        let of_segments: u64 = segments.values().flat_map(|(_, meta)| meta.files()).map(|(_, bytes)| bytes).sum();
        // A file that cannot be opened is reported below.
        let size = |path: &PathBuf| self.fs.open(path).and_then(|file| file.size()).unwrap_or_default();
        let of_log: u64 = log.iter().map(|(_, path)| size(path)).sum();
        (check.watch)(Step::Ahead(of_segments + of_log));

        for (id, meta) in &manifest.deletion_vectors {
            let Some(manifests) = &manifests else { break };
            check.file(&format!("dead positions of {id}"));
            let decoded = manifests.read_deletion_vector(*id, meta).and_then(|bytes| {
                let dead = DeletionVector::decode(&bytes).filter(|dead| dead.count() == meta.count);
                let detail = format!("it does not hold {} dead positions", meta.count);
                let damaged =
                    Error::Corrupt { path: manifests.deletion_vector_path(*id, meta.version), offset: 0, detail };
                dead.map(|_| bytes.len() as u64).ok_or(damaged)
            });
            if let Some(bytes) = check.take(decoded) {
                check.done(bytes);
            }
        }

        let mut frames = frames::Frames::after(manifest.sequence);
        if manifests.is_none() {
            // The manifest's sequence is unknown: accept any first frame.
            frames = frames::Frames::after(u64::MAX - 1);
        }
        for (number, path) in log {
            check.file(&path.display().to_string());
            let read = self.read(&path);
            if let Some(bytes) = check.take(read) {
                frames.file(number, &path, &bytes, &mut |error| check.found(&error));
                check.done(bytes.len() as u64);
            }
        }
        check.checked.frames = frames.count;

        let mut named = BTreeSet::new();
        for (id, (table, meta)) in &segments {
            check.file(&format!("segment {id}"));
            named.extend(meta.files().map(|(name, _)| name));
            if check.take(verify(&blobs, *table, meta)).is_some() {
                check.checked.segment_rows += u64::from(meta.rows);
            }
            check.done(meta.bytes + meta.side_bytes);
        }
        let listed = check.take(blobs.list()).unwrap_or_default();
        let unnamed = listed.iter().filter(|(name, _)| SegmentId::of_name(name).is_some() && !named.contains(name));
        // Without a readable manifest, the named files are unknown.
        check.checked.unnamed = if manifests.is_some() { unnamed.count() as u64 } else { 0 };
        Ok(check.checked)
    }
}
