//! An object store in memory that fails like real ones.
//!
//! [`FaultyBlobs`] keeps finished files, and fails requests that a seed picks: some without effect (an error, a
//! timeout), some with effect, but with a lost acknowledgement. Requests of one kind can be held. The content survives
//! a crash of the program: clones are the same store.

use crate::{
    Error, Result,
    engine::blobs::{Blob, BlobWriter, Blobs, missing, too_short},
};
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// An object store in memory.
#[derive(Clone, Debug)]
pub(crate) struct FaultyBlobs(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bucket: Mutex<Bucket>,
    released: Condvar,
}

/// Releases requests when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldRequests(FaultyBlobs);

impl HeldRequests {
    /// Whether a request waits, or has waited.
    pub(crate) fn has_met(&self) -> bool {
        self.0.bucket().has_waited
    }
}

impl Drop for HeldRequests {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[derive(Debug)]
struct Bucket {
    files: BTreeMap<String, Bytes>,
    random: StdRng,
    /// How many of a thousand requests fail.
    failing: u32,
    /// Number of failed requests.
    failed: usize,
    /// Requests of this action wait.
    waits: Option<&'static str>,
    /// Whether one has waited since.
    has_waited: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    /// Without effect, and with an error.
    Refused(io::ErrorKind),
    /// With effect, and with an error.
    AcknowledgementLost,
}

impl FaultyBlobs {
    /// An empty store without failures.
    pub(crate) fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let files = BTreeMap::new();
        let bucket = Bucket { files, random, failing: 0, failed: 0, waits: None, has_waited: false };
        Self(Arc::new(Shared { bucket: Mutex::new(bucket), released: Condvar::new() }))
    }

    /// Makes this number of a thousand requests fail from now on; returns the previous number.
    pub(crate) fn fail(&self, per_thousand: u32) -> u32 {
        std::mem::replace(&mut self.bucket().failing, per_thousand)
    }

    /// Makes requests of an action (`open`, `read`, `write`, `finish`, `delete`, `list`) wait until the guard is
    /// dropped.
    pub(crate) fn hold(&self, action: &'static str) -> HeldRequests {
        let mut bucket = self.bucket();
        (bucket.waits, bucket.has_waited) = (Some(action), false);
        drop(bucket);
        HeldRequests(self.clone())
    }

    /// Releases waiting requests.
    pub(crate) fn release(&self) {
        self.bucket().waits = None;
        self.0.released.notify_all();
    }

    /// Number of failed requests so far.
    pub(crate) fn failed(&self) -> usize {
        self.bucket().failed
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs a request that changes something.
    fn request<T>(
        &self,
        action: &'static str,
        name: &str,
        request: impl FnOnce(&mut BTreeMap<String, Bytes>) -> Result<T>,
    ) -> Result<T> {
        let mut bucket = self.bucket();
        while bucket.waits == Some(action) {
            bucket.has_waited = true;
            bucket = self.0.released.wait(bucket).unwrap_or_else(PoisonError::into_inner);
        }
        let kind = match bucket.fate() {
            Fate::Done => return request(&mut bucket.files),
            Fate::Refused(kind) => kind,
            Fate::AcknowledgementLost => {
                request(&mut bucket.files)?;
                io::ErrorKind::TimedOut
            }
        };
        Err(Error::Io { action, path: path(name), source: io::Error::new(kind, "a simulated fault") })
    }
}

impl Bucket {
    fn fate(&mut self) -> Fate {
        if self.random.random_range(0..1_000) >= self.failing {
            return Fate::Done;
        }
        self.failed += 1;
        match self.random.random_range(0..3) {
            0 => Fate::Refused(io::ErrorKind::Other),
            1 => Fate::Refused(io::ErrorKind::TimedOut),
            _ => Fate::AcknowledgementLost,
        }
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("memory:").join(name)
}

impl Blobs for FaultyBlobs {
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        Ok(Box::new(FaultyWriter { blobs: self.clone(), name: name.to_owned(), bytes: Vec::new() }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        let found = self.request("open", name, |files| Ok(files.get(name).map(Bytes::len)))?;
        let size = found.ok_or_else(|| missing(&path(name)))? as u64;
        Ok(Arc::new(FaultyBlob { blobs: self.clone(), name: name.to_owned(), size }))
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.request("delete", name, |files| {
            files.remove(name);
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.request("list", "", |files| {
            Ok(files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
        })
    }

    fn describe(&self) -> String {
        "memory:".into()
    }
}

struct FaultyWriter {
    blobs: FaultyBlobs,
    name: String,
    bytes: Vec<u8>,
}

impl BlobWriter for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        // A part of an upload, invisible until the end.
        self.blobs.request("write", &self.name, |_| Ok(()))?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let Self { blobs, name, bytes } = *self;
        let size = bytes.len() as u64;
        blobs.request("finish", &name, |files| {
            files.insert(name.clone(), bytes.into());
            Ok(size)
        })
    }
}

#[derive(Debug)]
struct FaultyBlob {
    blobs: FaultyBlobs,
    name: String,
    size: u64,
}

impl Blob for FaultyBlob {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        self.blobs.request("read", &self.name, |files| {
            let file = files.get(&self.name).ok_or_else(|| missing(&path(&self.name)))?;
            let start = usize::try_from(offset).expect("files in memory are small");
            let wanted = start.checked_add(bytes).filter(|&end| end <= file.len());
            let end = wanted.ok_or_else(|| too_short(&self.path(), self.size, offset.saturating_add(bytes as u64)))?;
            Ok(file.slice(start..end))
        })
    }

    fn path(&self) -> PathBuf {
        path(&self.name)
    }
}
