//! Segment files in an object store: S3 and compatible ones, Google Cloud Storage, Azure.
//!
//! The URL names the bucket and a prefix of keys: `s3://bucket/some/prefix`. Credentials, endpoints and the like come
//! from the environment, by the names that each cloud's tools use (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`,
//! `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`, …).
//!
//! A small file is one put. A larger file is uploaded in parts while it is written, a few at once, and exists only
//! after the last request has named them all. The client retries failed requests, for a bounded time. An object is
//! durable when the store has acknowledged it.
//!
//! Requests run on a small runtime of this module; the caller's thread waits for the answer, and may be a thread of any
//! runtime or of none.

use super::{
    Blob, BlobWriter, Blobs, missing,
    requests::{Counted, Requests},
    too_short,
};
use crate::{Error, Result, engine::log::failed, inspect::RequestInfo};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{
    BackoffConfig, MultipartUpload, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig, aws::AmazonS3Builder,
    azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder, path::Path as Key,
};
use std::{
    collections::VecDeque,
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};
use url::Url;

/// Threads on which requests run.
const THREADS: usize = 2;
/// Bytes of a part of a large file. S3 takes 10,000 parts of at least 5 MiB, all but the last of one size.
const PART_BYTES: usize = 8 << 20;
/// Parts of one file that are uploaded at once.
const PARTS_MAX: usize = 4;
/// Retries of a failed request.
const RETRIES_MAX: usize = 8;
/// No retry after this time since the first attempt.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay before a retry: initial and maximum.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Growth factor of the delay.
const BACKOFF_FACTOR: f64 = 2.0;

/// Segment files under a prefix of a bucket.
#[derive(Clone, Debug)]
pub(crate) struct RemoteBlobs(Arc<Bucket>);

struct Bucket {
    store: Arc<dyn ObjectStore>,
    requests: Arc<Requests>,
    prefix: Key,
    /// Redacted, for messages.
    url: String,
    /// Taken only when this is dropped.
    runtime: Option<Runtime>,
}

impl RemoteBlobs {
    /// Connects to the location that the URL names, with the options in the process's environment. Sends no request
    /// yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL or options that the client refuses; [`Error::Io`] if threads cannot be started.
    pub(crate) fn connect(url: &Url) -> Result<Self> {
        let redacted = redacted(url);
        let refused = |error: &dyn fmt::Display| Error::Invalid(format!("segments at {redacted}: {error}"));
        let (scheme, prefix) = ObjectStoreScheme::parse(url).map_err(|error| refused(&error))?;
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: BACKOFF.0, max_backoff: BACKOFF.1, base: BACKOFF_FACTOR },
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_TIMEOUT,
        };
        let store: Result<Arc<dyn ObjectStore>, object_store::Error> = match scheme {
            ObjectStoreScheme::AmazonS3 => {
                let builder = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let builder = MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retry);
                builder.build().map(|store| Arc::new(store) as _)
            }
            _ => return Err(refused(&"segments are kept in s3://, gs:// and az:// buckets, or in file:// folders")),
        };
        Self::new(store.map_err(|error| refused(&error))?, prefix, redacted)
    }

    /// Files in an object store, under a prefix.
    pub(super) fn new(store: Arc<dyn ObjectStore>, prefix: Key, url: String) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("keyspan-segments")
            .enable_all()
            .build()
            .map_err(|source| failed("start the threads for", Path::new(&url), source))?;
        let requests = Arc::<Requests>::default();
        let store = Arc::new(Counted { store, requests: Arc::clone(&requests) });
        Ok(Self(Arc::new(Bucket { store, requests, prefix, url, runtime: Some(runtime) })))
    }
}

/// The URL without user, password and query.
fn redacted(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}{}", url.scheme(), url.path().trim_end_matches('/'))
}

impl Bucket {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken by drop alone")
    }

    /// Runs a request and waits for its result.
    fn wait<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> object_store::Result<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.runtime().spawn(async move {
            // The receiver is gone if the caller's thread has panicked.
            let _ = answer.send(request.await);
        });
        answered.recv().unwrap_or_else(|_| Err(ended("the request ended without an answer".into())))
    }

    fn key(&self, name: &str) -> Key {
        self.prefix.clone().join(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("{}/{name}", self.url))
    }
}

fn ended(source: Box<dyn std::error::Error + Send + Sync>) -> object_store::Error {
    object_store::Error::Generic { store: "segments", source }
}

/// The error of a request about a file.
fn refused(action: &'static str, path: &Path, error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { .. } => missing(path),
        error => failed(action, path, io::Error::other(error)),
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for Bucket {
    /// Does not wait for requests: a runtime's own drop would, and it panics in asynchronous code.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Blobs for RemoteBlobs {
    fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        Ok(Box::new(RemoteWriter {
            bucket: self.0.clone(),
            key: self.0.key(name),
            path: self.0.path(name),
            buffer: Vec::new(),
            upload: None,
            parts: VecDeque::new(),
            written: 0,
        }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Blob>> {
        let (bucket, path, key) = (self.0.clone(), self.0.path(name), self.0.key(name));
        let store = bucket.store.clone();
        let asked = key.clone();
        let found = bucket.wait(async move { store.head(&asked).await });
        let size = found.map_err(|error| refused("open", &path, error))?.size;
        Ok(Arc::new(RemoteBlob { bucket, key, path, size }))
    }

    fn delete(&self, name: &str) -> Result<()> {
        let (store, key) = (self.0.store.clone(), self.0.key(name));
        match self.0.wait(async move { store.delete(&key).await }) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(refused("delete", &self.0.path(name), error)),
        }
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        let (store, prefix) = (self.0.store.clone(), self.0.prefix.clone());
        let listed = self.0.wait(async move { store.list(Some(&prefix)).try_collect::<Vec<_>>().await });
        let listed = listed.map_err(|error| refused("list", Path::new(&self.0.url), error))?;
        let depth = self.0.prefix.parts().count() + 1;
        // Deeper objects have another prefix, and may belong to another store.
        let ours = listed.into_iter().filter(|object| object.location.parts().count() == depth);
        let mut names: Vec<(String, u64)> =
            ours.filter_map(|object| Some((object.location.filename()?.to_owned(), object.size))).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn describe(&self) -> String {
        self.0.url.clone()
    }

    fn requests(&self) -> Vec<RequestInfo> {
        self.0.requests.infos()
    }
}

struct RemoteWriter {
    bucket: Arc<Bucket>,
    key: Key,
    path: PathBuf,
    /// Bytes that are not uploaded yet, less than a part.
    buffer: Vec<u8>,
    /// Begun when there is more than a part.
    upload: Option<Box<dyn MultipartUpload>>,
    /// Parts being uploaded, oldest first.
    parts: VecDeque<JoinHandle<object_store::Result<()>>>,
    written: u64,
}

impl RemoteWriter {
    /// Uploads the buffer as a part.
    fn send(&mut self) -> object_store::Result<()> {
        if self.upload.is_none() {
            let (store, key) = (self.bucket.store.clone(), self.key.clone());
            self.upload = Some(self.bucket.wait(async move { store.put_multipart(&key).await })?);
        }
        if self.parts.len() >= PARTS_MAX {
            self.settle_part()?;
        }
        let upload = self.upload.as_mut().expect("it was begun just now");
        let part = upload.put_part(Bytes::from(std::mem::take(&mut self.buffer)).into());
        self.parts.push_back(self.bucket.runtime().spawn(part));
        Ok(())
    }

    /// Waits for the oldest part being uploaded.
    fn settle_part(&mut self) -> object_store::Result<()> {
        let Some(part) = self.parts.pop_front() else { return Ok(()) };
        self.bucket.wait(async move { part.await.unwrap_or_else(|error| Err(ended(error.into()))) })
    }

    fn complete(&mut self) -> object_store::Result<()> {
        if self.upload.is_none() {
            let (store, key) = (self.bucket.store.clone(), self.key.clone());
            let bytes = Bytes::from(std::mem::take(&mut self.buffer));
            return self.bucket.wait(async move { store.put(&key, bytes.into()).await.map(drop) });
        }
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while !self.parts.is_empty() {
            self.settle_part()?;
        }
        // From here on the object may exist: the upload is not aborted.
        let mut upload = self.upload.take().expect("looked at above");
        self.bucket.wait(async move { upload.complete().await.map(drop) })
    }
}

impl BlobWriter for RemoteWriter {
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PART_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == PART_BYTES {
                self.send().map_err(|error| refused("write", &self.path, error))?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.complete().map_err(|error| refused("write", &self.path, error))?;
        Ok(self.written)
    }
}

impl Drop for RemoteWriter {
    /// Frees the space of uploaded parts, without waiting for it.
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else { return };
        self.parts.drain(..).for_each(|part| part.abort());
        let path = self.path.clone();
        self.bucket.runtime().spawn(async move {
            if let Err(error) = upload.abort().await {
                tracing::debug!(path = %path.display(), %error, "the parts of an unfinished file were not removed");
            }
        });
    }
}

#[derive(Debug)]
struct RemoteBlob {
    bucket: Arc<Bucket>,
    key: Key,
    path: PathBuf,
    size: u64,
}

impl Blob for RemoteBlob {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Bytes> {
        let end = offset.saturating_add(bytes as u64);
        if end > self.size {
            return Err(too_short(&self.path, self.size, end));
        }
        if bytes == 0 {
            return Ok(Bytes::new());
        }
        let (store, key) = (self.bucket.store.clone(), self.key.clone());
        let read = self.bucket.wait(async move { store.get_range(&key, offset..end).await });
        let read = read.map_err(|error| refused("read", &self.path, error))?;
        if read.len() != bytes {
            return Err(too_short(&self.path, offset + read.len() as u64, end));
        }
        Ok(read)
    }

    /// Ranges that are close together are one request; a few requests run at a time.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|range| range.end > self.size) {
            return Err(too_short(&self.path, self.size, range.end));
        }
        let (store, key, wanted) = (self.bucket.store.clone(), self.key.clone(), ranges.to_vec());
        let read = self.bucket.wait(async move { store.get_ranges(&key, &wanted).await });
        let read = read.map_err(|error| refused("read", &self.path, error))?;
        let short = ranges.iter().zip(&read).find(|(range, bytes)| range.end - range.start != bytes.len() as u64);
        match short {
            Some((range, bytes)) => Err(too_short(&self.path, range.start + bytes.len() as u64, range.end)),
            None => Ok(read),
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}
