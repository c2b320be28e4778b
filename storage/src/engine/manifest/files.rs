//! The manifest on disk: read at start-up, replaced by each flush and compaction.
//!
//! A commit takes these steps; each is durable before the next begins:
//!
//! 1. Write the deletion vectors that changed ([`Manifests::write_deletion_vectors`]); segments were written before.
//! 2. Write `manifest/<version>`.
//! 3. Write `CURRENT.tmp`, which names it.
//! 4. Rename `CURRENT.tmp` to `CURRENT`, and sync the folder. From here on the new version is in force.
//!
//! No space up to step 3 leaves the old version in force, and nothing of the new one. After any other error it is
//! unknown which of them the next start finds: the caller must stop.
//!
//! The very first commit begins with a `CURRENT` that names no manifest. So manifests without a `CURRENT` are never a
//! new store after a crash, but a store that lost it: [`Manifests::load`] refuses it, rather than take it for empty.
//!
//! Manifests and segments hold keys: [`Manifests::clean`] and [`Manifests::clean_segments`] remove files that the
//! manifest in force does not name, without delay.

use super::{
    DeletionVectorMeta, Manifest, SegmentId,
    envelope::{self, Kind},
};
use crate::{
    Error, Result,
    engine::{
        blobs::{Blobs, missing, no_space_or},
        log::failed,
    },
    fs::Fs,
};
use bytes::Bytes;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file that names the version in force.
pub(crate) const CURRENT: &str = "CURRENT";
/// Its name before it replaces the old one.
const CURRENT_NEW: &str = "CURRENT.tmp";
/// The folder of the manifests within the store's folder.
pub(crate) const MANIFEST_FOLDER: &str = "manifest";
/// The folder of the deletion vectors within the store's folder.
pub(crate) const DELETION_VECTOR_FOLDER: &str = "dead";

/// The manifests of a store.
#[derive(Debug)]
pub(crate) struct Manifests {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
    /// The version in force.
    version: u64,
    /// Whether there is a `CURRENT`.
    pointed: bool,
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cleanup {
    /// Files that were removed.
    pub(crate) files: u64,
    /// Bytes of segments that were removed.
    pub(crate) segment_bytes: u64,
}

impl Manifests {
    /// Reads the manifest in force of the store in `folder`. Writes nothing, so that a damaged store can be inspected.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a file is damaged or missing; [`Error::Unsupported`] for a format that this program does
    /// not know; [`Error::Io`].
    pub(crate) fn load(fs: Arc<dyn Fs>, folder: PathBuf) -> Result<(Self, Manifest)> {
        let path = folder.join(CURRENT);
        let Some(bytes) = read(fs.as_ref(), &path)? else {
            let manifests = names(fs.as_ref(), &folder.join(MANIFEST_FOLDER))?;
            if manifests.iter().any(|name| manifest_version(name).is_some()) {
                let detail = "the file is missing, and there are manifests that it may have named".to_owned();
                return Err(Error::Corrupt { path, offset: 0, detail });
            }
            return Ok((Self { fs, folder, version: 0, pointed: false }, Manifest::default()));
        };
        let (version, body) = envelope::open(Kind::Current, &path, &bytes)?;
        if !body.is_empty() {
            return Err(Error::Corrupt { path, offset: 0, detail: "it holds more than a version".into() });
        }
        let manifests = Self { fs, folder, version, pointed: true };
        let manifest = if version == 0 { Manifest::default() } else { manifests.read(version)? };
        Ok((manifests, manifest))
    }

    /// Claims an empty folder for a copy of a store: until the [copy's manifest](Self::commit_copy) is in force, nobody
    /// can open it.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`].
    pub(crate) fn claim(fs: Arc<dyn Fs>, folder: PathBuf) -> Result<Self> {
        let manifests = Self { fs, folder, version: 0, pointed: true };
        manifests.write(&manifests.folder.join(CURRENT), &[])?;
        let synced = manifests.fs.sync_folder(&manifests.folder);
        synced.map_err(|source| no_space_or("sync", &manifests.folder, source))?;
        Ok(manifests)
    }

    /// Puts the manifest of a store in force in its copy, even an empty one.
    ///
    /// # Errors
    /// Errors of [`commit`](Self::commit).
    pub(crate) fn commit_copy(&mut self, manifest: &Manifest) -> Result<()> {
        if manifest.version == 0 { self.point_to(0) } else { self.commit(manifest) }
    }

    fn read(&self, version: u64) -> Result<Manifest> {
        let path = self.manifest_path(version);
        let bytes = read(self.fs.as_ref(), &path)?.ok_or_else(|| missing(&path))?;
        decode(version, &path, &bytes)
    }

    /// Puts a manifest of a later version in force. The files that it names are durable already.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the old one is still in force, as before the call; any other error is final.
    /// [`Error::Unavailable`] for an inconsistent manifest, which is a bug of this program, and is not written.
    pub(crate) fn commit(&mut self, manifest: &Manifest) -> Result<()> {
        if manifest.version <= self.version {
            return Err(Error::Unavailable(format!("manifest {} follows {}", manifest.version, self.version)));
        }
        if let Err(detail) = manifest.check() {
            return Err(Error::Unavailable(format!("manifest {} makes no sense: {detail}", manifest.version)));
        }
        if !self.pointed {
            self.point_to(0)?;
            self.pointed = true;
        }
        self.make_folder(MANIFEST_FOLDER)?;
        self.write(&self.manifest_path(manifest.version), &encode(manifest))?;
        self.sync_folder(MANIFEST_FOLDER)?;
        if let Err(error) = self.point_to(manifest.version) {
            if matches!(error, Error::NoSpace { .. }) {
                self.remove_unfinished(&self.manifest_path(manifest.version));
            }
            return Err(error);
        }
        self.version = manifest.version;
        Ok(())
    }

    /// Replaces `CURRENT`.
    fn point_to(&self, version: u64) -> Result<()> {
        let (new, path) = (self.folder.join(CURRENT_NEW), self.folder.join(CURRENT));
        self.write(&new, &envelope::seal(Kind::Current, version, &[]))?;
        // After a failed rename, it is unknown which of them is there after a crash: never `NoSpace`, which may be
        // retried.
        self.fs.rename(&new, &path).map_err(|source| failed("replace", &path, source))?;
        self.fs.sync_folder(&self.folder).map_err(|source| failed("sync", &self.folder, source))
    }

    /// Writes deletion vectors, for a manifest of this version that is not committed yet.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if nothing was changed, any other error is final.
    pub(crate) fn write_deletion_vectors<'a>(
        &self,
        version: u64,
        files: impl IntoIterator<Item = (SegmentId, &'a [u8])>,
    ) -> Result<()> {
        debug_assert!(version > self.version, "version {version} after {}", self.version);
        self.make_folder(DELETION_VECTOR_FOLDER)?;
        for (segment, bytes) in files {
            let sealed = envelope::seal(Kind::DeletionVector(segment, version), version, bytes);
            self.write(&self.deletion_vector_path(segment, version), &sealed)?;
        }
        self.sync_folder(DELETION_VECTOR_FOLDER)
    }

    /// Reads the deletion vector of a segment.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file is damaged or missing; [`Error::Unsupported`]; [`Error::Io`].
    pub(crate) fn read_deletion_vector(&self, segment: SegmentId, dead: &DeletionVectorMeta) -> Result<Bytes> {
        let path = self.deletion_vector_path(segment, dead.version);
        let bytes = Bytes::from(read(self.fs.as_ref(), &path)?.ok_or_else(|| missing(&path))?);
        let (_, body) = envelope::open(Kind::DeletionVector(segment, dead.version), &path, &bytes)?;
        Ok(bytes.slice_ref(body))
    }

    /// Removes the manifests and the deletion vectors that this manifest, the one in force, does not name. Files of
    /// later versions belong to a commit in progress, unless `later` says that there is none.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn clean(&self, manifest: &Manifest, later: bool) -> Result<Cleanup> {
        let goes = |version: u64| later || version < self.version;
        let mut cleaned = self.remove(MANIFEST_FOLDER, |name| {
            manifest_version(name).is_some_and(|version| version != manifest.version && goes(version))
        })?;
        cleaned.files += self
            .remove(DELETION_VECTOR_FOLDER, |name| {
                let is_named = |segment, version| {
                    manifest
                        .deletion_vectors
                        .get(&segment)
                        .is_some_and(|dead: &DeletionVectorMeta| dead.version == version)
                };
                deletion_vector_name(name)
                    .is_some_and(|(segment, version)| !is_named(segment, version) && goes(version))
            })?
            .files;
        Ok(cleaned)
    }

    /// Removes the segments that this manifest, the one in force, does not name, and the files that
    /// [`clean`](Self::clean) removes. Only at start-up, when nobody writes segments and no pin holds old ones.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn clean_segments(&self, manifest: &Manifest, blobs: &dyn Blobs) -> Result<Cleanup> {
        // A program that was killed within a commit may have left a `CURRENT` that is visible but not durable. It must
        // be durable before any file is removed that the previous one names, including files of the log.
        self.fs.sync_folder(&self.folder).map_err(|source| failed("sync", &self.folder, source))?;
        let mut cleaned = self.clean(manifest, true)?;
        let named: BTreeSet<String> =
            manifest.segments().into_values().flat_map(super::SegmentMeta::files).map(|(name, _)| name).collect();
        for (name, bytes) in blobs.list()? {
            // Other files are not ours.
            if SegmentId::of_name(&name).is_some() && !named.contains(&name) {
                blobs.delete(&name)?;
                cleaned.files += 1;
                cleaned.segment_bytes += bytes;
            }
        }
        Ok(cleaned)
    }

    /// The path of a manifest.
    pub(crate) fn manifest_path(&self, version: u64) -> PathBuf {
        self.folder.join(MANIFEST_FOLDER).join(format!("{version:010}"))
    }

    /// The path of a segment's deletion vector.
    pub(crate) fn deletion_vector_path(&self, segment: SegmentId, version: u64) -> PathBuf {
        self.folder.join(DELETION_VECTOR_FOLDER).join(format!("{segment}-{version:010}"))
    }

    fn remove(&self, folder: &str, goes: impl Fn(&str) -> bool) -> Result<Cleanup> {
        let folder = self.folder.join(folder);
        let mut cleaned = Cleanup::default();
        for name in names(self.fs.as_ref(), &folder)?.iter().filter(|name| goes(name)) {
            let path = folder.join(name);
            self.fs.unlink(&path).map_err(|source| failed("unlink", &path, source))?;
            cleaned.files += 1;
        }
        if cleaned.files > 0 {
            self.fs.sync_folder(&folder).map_err(|source| failed("sync", &folder, source))?;
        }
        Ok(cleaned)
    }

    /// Writes and syncs a file. Its name is durable only after a sync of the folder.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let written = self.fs.create(path, 0).map_err(|source| no_space_or("create", path, source)).and_then(|file| {
            file.write_at(0, bytes).map_err(|source| no_space_or("write", path, source))?;
            file.sync().map_err(|source| no_space_or("sync", path, source))
        });
        if matches!(written, Err(Error::NoSpace { .. })) {
            self.remove_unfinished(path);
        }
        written
    }

    fn remove_unfinished(&self, path: &Path) {
        if let Err(error) = self.fs.unlink(path) {
            tracing::debug!(path = %path.display(), %error, "an unfinished file was not removed; the next start does it");
        }
    }

    fn make_folder(&self, name: &str) -> Result<()> {
        let folder = self.folder.join(name);
        self.fs.create_folder(&folder).map_err(|source| no_space_or("create", &folder, source))
    }

    fn sync_folder(&self, name: &str) -> Result<()> {
        let folder = self.folder.join(name);
        self.fs.sync_folder(&folder).map_err(|source| no_space_or("sync", &folder, source))
    }
}

/// The bytes of a manifest's file.
pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let body = serde_json::to_vec(manifest).expect("a manifest is made of what JSON can hold");
    envelope::seal(Kind::Manifest(manifest.version), manifest.version, &body)
}

/// The file of a manifest with an arbitrary body: for fuzzers.
#[cfg(feature = "testing")]
pub(crate) fn sealed(version: u64, body: &[u8]) -> Vec<u8> {
    envelope::seal(Kind::Manifest(version), version, body)
}

/// Decodes a manifest's file.
pub(crate) fn decode(version: u64, path: &Path, bytes: &[u8]) -> Result<Manifest> {
    let (_, body) = envelope::open(Kind::Manifest(version), path, bytes)?;
    let senseless = |detail: String| Error::Corrupt {
        path: path.to_owned(),
        offset: (bytes.len() - body.len()) as u64,
        detail: format!("the manifest makes no sense: {detail}"),
    };
    let manifest: Manifest = serde_json::from_slice(body).map_err(|error| senseless(error.to_string()))?;
    if manifest.version != version {
        return Err(senseless(format!("it is of version {}", manifest.version)));
    }
    manifest.check().map_err(senseless)?;
    Ok(manifest)
}

fn manifest_version(name: &str) -> Option<u64> {
    name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse().ok())?
}

fn deletion_vector_name(name: &str) -> Option<(SegmentId, u64)> {
    let (segment, version) = name.split_once('-')?;
    Some((segment.parse().ok()?, manifest_version(version)?))
}

/// The names in a folder; none if it is missing.
fn names(fs: &dyn Fs, folder: &Path) -> Result<Vec<String>> {
    match fs.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|source| failed("list", folder, source)),
    }
}

/// A whole file; `None` if it is missing.
fn read(fs: &dyn Fs, path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match fs.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|source| failed("open", path, source))?,
    };
    let size = file.size().map_err(|source| failed("read", path, source))?;
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    file.read_at(0, bytes).map(Some).map_err(|source| failed("read", path, source))
}
