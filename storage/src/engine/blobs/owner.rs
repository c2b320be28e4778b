//! The owner of a location of segments.
//!
//! Start-up removes segments that no manifest names. A store that is started with the segments of another store, or
//! without its own folder, would remove them all. So a location that a URL names has an owner, and so has the store:
//! both have the same number in a file `STORE`.
//!
//! ```text
//! STORE     the envelope of module `manifest::envelope`, with the owner's number as its version; in the store's folder
//!           the body is the location's URL, so that a start without it can say what is missing
//! NEWEST    in the location: the envelope with the version of the newest manifest that was in force, and no body
//! ```
//!
//! A folder whose manifest is older than `NEWEST` is a copy of earlier days beside the segments of today: it would
//! remove those that it does not know.
//!
//! The number is the time at which the store's file was created, in microseconds. The store's file is written first,
//! then the location's, then segments: a location with segments and without an owner belongs to another store. In a
//! location without segments, a damaged file is one that was not completely written, and is rewritten.

use super::Blobs;
use crate::{
    Error, Result,
    engine::{
        blobs::no_space_or,
        log::failed,
        manifest::{Kind, SegmentId, open_envelope, seal_envelope},
    },
    fs::Fs,
};
use std::{io, path::Path};
use url::Url;

/// The file's name, in the store's folder and in the location.
const STORE: &str = "STORE";
/// The name of the file of the newest manifest, in the location.
const NEWEST: &str = "NEWEST";
/// The longest file of either name, in bytes: an envelope and a URL.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Claims a location for the store in a folder, which is locked, or verifies that it belongs to the store. `url` is
/// remembered.
///
/// # Errors
/// [`Error::Invalid`] for another store's location; [`Error::Corrupt`], [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn claim(
    blobs: &dyn Blobs,
    fs: &dyn Fs,
    (store, url): (&Path, Option<&Url>),
    now_micros: i64,
) -> Result<()> {
    let number = number_of(fs, (store, url), now_micros)?;
    let listed = blobs.list()?;
    let has_segments = listed.iter().any(|(name, _)| SegmentId::of_name(name).is_some());
    if listed.iter().any(|(name, _)| name == STORE) {
        let blob = blobs.open(STORE)?;
        let bytes = blob.read_at(0, usize::try_from(blob.size()).unwrap_or(usize::MAX))?;
        match open_envelope(Kind::Store, &blob.path(), &bytes) {
            Ok((owner, _)) if owner == number => return Ok(()),
            Ok(_) => return Err(foreign(blobs, store)),
            // A crash cut it short: there are no segments yet.
            Err(Error::Corrupt { .. }) if !has_segments => {}
            Err(error) => return Err(error),
        }
    } else if has_segments {
        return Err(foreign(blobs, store));
    }
    let mut writer = blobs.create(STORE)?;
    writer.write(&seal_envelope(Kind::Store, number, &[]))?;
    writer.finish().map(drop)
}

/// Fails if segments in the location were named by a newer manifest than the store's.
///
/// # Errors
/// [`Error::Invalid`] for an older copy of the store's folder; [`Error::Io`].
pub(crate) fn check_age(blobs: &dyn Blobs, store: &Path, manifest: u64) -> Result<()> {
    let blob = match blobs.open(NEWEST) {
        Ok(blob) => blob,
        // There is none: nothing was flushed yet, or not since versions that note it.
        Err(Error::Corrupt { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let bytes = blob.read_at(0, usize::try_from(blob.size().min(FILE_BYTES_MAX)).unwrap_or(usize::MAX))?;
    match open_envelope(Kind::Store, &blob.path(), &bytes) {
        Ok((newest, _)) if newest > manifest => {
            let (place, store) = (blobs.describe(), store.display());
            Err(Error::Invalid(format!(
                "{store} is an older copy of the store: its manifest has version {manifest}, and {place} has segments of \
                 version {newest}, which a start would remove. Nothing was changed. Use the newest folder, or restore \
                 a backup into a new location"
            )))
        }
        // A crash cut it short, which says nothing.
        Ok(_) | Err(Error::Corrupt { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Notes in the location that a manifest is in force.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Io`]: what was noted before holds.
pub(crate) fn note_newest(blobs: &dyn Blobs, manifest: u64) -> Result<()> {
    let mut writer = blobs.create(NEWEST)?;
    writer.write(&seal_envelope(Kind::Store, manifest, &[]))?;
    writer.finish().map(drop)
}

/// Fails for a store whose segments are elsewhere.
///
/// # Errors
/// [`Error::Invalid`] with the place.
pub(crate) fn check_is_local(fs: &dyn Fs, store: &Path) -> Result<()> {
    let Some((_, url)) = remembered(fs, store)? else { return Ok(()) };
    let (store, place) = (store.display(), if url.is_empty() { "another place" } else { &url });
    Err(Error::Invalid(format!("the segments of {store} are at {place}: say so with --segments")))
}

fn foreign(blobs: &dyn Blobs, store: &Path) -> Error {
    let (place, store) = (blobs.describe(), store.display());
    Error::Invalid(format!("{place} holds the segments of another store than {store}"))
}

/// The number and the URL in the store's folder, if there are any; the URL is empty in folders of earlier versions.
fn remembered(fs: &dyn Fs, store: &Path) -> Result<Option<(u64, String)>> {
    let path = store.join(STORE);
    let file = match fs.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(failed("open", &path, source)),
    };
    let size = file.size().map_err(|source| failed("read", &path, source))?.min(FILE_BYTES_MAX);
    let bytes = file.read_at(0, usize::try_from(size).unwrap_or(usize::MAX));
    let bytes = bytes.map_err(|source| failed("read", &path, source))?;
    let (number, url) = open_envelope(Kind::Store, &path, &bytes)?;
    Ok(Some((number, String::from_utf8_lossy(url).into_owned())))
}

/// The store's number; created if there is none.
fn number_of(fs: &dyn Fs, (store, url): (&Path, Option<&Url>), now_micros: i64) -> Result<u64> {
    let path = store.join(STORE);
    let url = url.map(Url::as_str).unwrap_or_default();
    let number = match remembered(fs, store)? {
        Some((number, there)) if there == url => {
            // A killed program may have left a name that is visible but not durable; the location is about to get its
            // number.
            fs.sync_folder(store).map_err(|source| failed("sync", store, source))?;
            return Ok(number);
        }
        Some((number, _)) => number,
        None => now_micros.unsigned_abs(),
    };
    // Under another name first: a crash leaves the whole file, the one before, or none.
    let new = store.join("STORE.tmp");
    let file = fs.create(&new, 0).map_err(|source| no_space_or("create", &new, source))?;
    let bytes = seal_envelope(Kind::Store, number, url.as_bytes());
    file.write_at(0, &bytes).map_err(|source| no_space_or("write", &new, source))?;
    file.sync().map_err(|source| no_space_or("sync", &new, source))?;
    fs.rename(&new, &path).map_err(|source| failed("rename", &new, source))?;
    fs.sync_folder(store).map_err(|source| failed("sync", store, source))?;
    Ok(number)
}
