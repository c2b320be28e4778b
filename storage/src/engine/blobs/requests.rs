//! An object store that counts what it is asked: requests, bytes and failures by kind.
//!
//! The client below retries by itself, so that a request counts once, however often it was sent; a failure is one that
//! outlived all retries. That an object is missing is an answer, not a failure.

use crate::inspect::{RequestInfo, RequestKind};
use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart, path::Path,
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Counts of all kinds of requests.
#[derive(Debug, Default)]
pub(super) struct Requests([Counts; RequestKind::ALL.len()]);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

impl Requests {
    /// The counts of each kind.
    pub(super) fn infos(&self) -> Vec<RequestInfo> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let info = |kind: RequestKind| {
            let Counts { requests, failures, bytes } = &self.0[kind as usize];
            RequestInfo { kind, requests: of(requests), failures: of(failures), bytes: of(bytes) }
        };
        RequestKind::ALL.into_iter().map(info).collect()
    }

    fn bytes(&self, kind: RequestKind, bytes: usize) {
        self.0[kind as usize].bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn failed(&self, kind: RequestKind, error: &Error) {
        if !matches!(error, Error::NotFound { .. }) {
            self.0[kind as usize].failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request, and the bytes that it sends once it has succeeded.
    fn begin(&self, kind: RequestKind) {
        self.0[kind as usize].requests.fetch_add(1, Ordering::Relaxed);
    }

    fn ended<T>(&self, kind: RequestKind, sent: usize, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => self.bytes(kind, sent),
            Err(error) => self.failed(kind, error),
        }
        result
    }
}

/// A store whose requests are counted.
pub(super) struct Counted {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) requests: Arc<Requests>,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let bytes = payload.content_length();
        self.requests.begin(RequestKind::Put);
        let put = self.store.put_opts(location, payload, options).await;
        self.requests.ended(RequestKind::Put, bytes, put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.requests.begin(RequestKind::Upload);
        let begun = self.store.put_multipart_opts(location, options).await;
        let upload = self.requests.ended(RequestKind::Upload, 0, begun)?;
        Ok(Box::new(CountedUpload { upload, requests: Arc::clone(&self.requests) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let kind = if options.head { RequestKind::Head } else { RequestKind::Get };
        self.requests.begin(kind);
        let got = self.store.get_opts(location, options).await;
        let mut got = self.requests.ended(kind, 0, got)?;
        if let (RequestKind::Get, GetResultPayload::Stream(body)) = (kind, &mut got.payload) {
            let requests = Arc::clone(&self.requests);
            let whole = std::mem::replace(body, futures::stream::empty().boxed());
            let counted = whole.inspect(move |part| match part {
                Ok(bytes) => requests.bytes(kind, bytes.len()),
                Err(error) => requests.failed(kind, error),
            });
            *body = counted.boxed();
        }
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (asked, answered) = (Arc::clone(&self.requests), Arc::clone(&self.requests));
        let locations = locations.inspect(move |location| {
            if location.is_ok() {
                asked.begin(RequestKind::Delete);
            }
        });
        let deleted = self.store.delete_stream(locations.boxed());
        deleted
            .inspect(move |deleted| {
                if let Err(error) = deleted {
                    answered.failed(RequestKind::Delete, error);
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.requests.begin(RequestKind::List);
        let requests = Arc::clone(&self.requests);
        let listed = self.store.list(prefix).inspect(move |object| {
            if let Err(error) = object {
                requests.failed(RequestKind::List, error);
            }
        });
        listed.boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.requests.begin(RequestKind::List);
        let listed = self.store.list_with_delimiter(prefix).await;
        self.requests.ended(RequestKind::List, 0, listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.requests.begin(RequestKind::Put);
        let copied = self.store.copy_opts(from, to, options).await;
        self.requests.ended(RequestKind::Put, 0, copied)
    }
}

/// An upload in parts: each part counts as a request, the last one, which makes the object, too.
#[derive(Debug)]
struct CountedUpload {
    upload: Box<dyn MultipartUpload>,
    requests: Arc<Requests>,
}

#[async_trait]
impl MultipartUpload for CountedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (bytes, requests) = (data.content_length(), Arc::clone(&self.requests));
        requests.begin(RequestKind::Upload);
        let part = self.upload.put_part(data);
        Box::pin(async move { requests.ended(RequestKind::Upload, bytes, part.await) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.requests.begin(RequestKind::Upload);
        let completed = self.upload.complete().await;
        self.requests.ended(RequestKind::Upload, 0, completed)
    }

    async fn abort(&mut self) -> Result<()> {
        self.requests.begin(RequestKind::Upload);
        let aborted = self.upload.abort().await;
        self.requests.ended(RequestKind::Upload, 0, aborted)
    }
}
