//! The owner of a location of segments.
//!
//! Start-up removes segments that no manifest names. A store that is started with the segments of another store, or
//! without its own folder, would remove them all. So a location that a URL names has an owner, and so has the store:
//! both have the same number in a file `STORE`.
//!
//! ```text
//! STORE    the envelope of module `manifest::envelope`, with the owner's number as its version and no body
//! ```
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

/// The file's name, in the store's folder and in the location.
const STORE: &str = "STORE";

/// Claims a location for the store in a folder, which is locked, or verifies that it belongs to the store.
///
/// # Errors
/// [`Error::Invalid`] for another store's location; [`Error::Corrupt`], [`Error::NoSpace`], [`Error::Io`].
pub(crate) fn claim(blobs: &dyn Blobs, fs: &dyn Fs, store: &Path, now_micros: i64) -> Result<()> {
    let number = number_of(fs, store, now_micros)?;
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

fn foreign(blobs: &dyn Blobs, store: &Path) -> Error {
    let (place, store) = (blobs.describe(), store.display());
    Error::Invalid(format!("{place} holds the segments of another store than {store}"))
}

/// The store's number; created if there is none.
fn number_of(fs: &dyn Fs, store: &Path, now_micros: i64) -> Result<u64> {
    let path = store.join(STORE);
    match fs.open(&path) {
        Ok(file) => {
            let size = file.size().map_err(|source| failed("read", &path, source))?;
            let bytes = file.read_at(0, usize::try_from(size).unwrap_or(usize::MAX));
            let bytes = bytes.map_err(|source| failed("read", &path, source))?;
            // A killed program may have left a name that is visible but not durable; the location is about to get its
            // number.
            fs.sync_folder(store).map_err(|source| failed("sync", store, source))?;
            return open_envelope(Kind::Store, &path, &bytes).map(|(number, _)| number);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(failed("open", &path, source)),
    }
    let number = now_micros.unsigned_abs();
    // Under another name first: a crash leaves the whole file or none.
    let new = store.join("STORE.tmp");
    let file = fs.create(&new, 0).map_err(|source| no_space_or("create", &new, source))?;
    let bytes = seal_envelope(Kind::Store, number, &[]);
    file.write_at(0, &bytes).map_err(|source| no_space_or("write", &new, source))?;
    file.sync().map_err(|source| no_space_or("sync", &new, source))?;
    fs.rename(&new, &path).map_err(|source| failed("rename", &new, source))?;
    fs.sync_folder(store).map_err(|source| failed("sync", store, source))?;
    Ok(number)
}
