//! An S3 server on a loopback port, over a folder of its own.

use anyhow::Result;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::{Mutex, OwnedMutexGuard},
    task::JoinHandle,
};

/// The bucket that is there.
const BUCKET: &str = "segments";
const KEY: &str = "a key";
const SECRET: &str = "a secret";

/// A server. It ends with this value, what is stored too.
pub struct S3 {
    folder: TempDir,
    address: SocketAddr,
    accepting: JoinHandle<()>,
    /// Taken for each new connection.
    gate: Arc<Mutex<()>>,
}

impl S3 {
    /// Starts one, with an empty bucket.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join(BUCKET))?;
        let store = FileSystem::new(folder.path()).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let mut builder = S3ServiceBuilder::new(store);
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let gate = Arc::new(Mutex::new(()));
        let passed = Arc::clone(&gate);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(passed.lock().await);
                // A client that goes away in the middle is its own affair.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone()));
            }
        });
        Ok(Self { folder, address, accepting, gate })
    }

    /// Lets clients that come from now on wait, until the guard is dropped.
    pub async fn hold(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.gate).lock_owned().await
    }

    /// What `--segments` takes, for keys that begin with a prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// What a client needs in its environment to find the server and be let in.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.into()),
        ]
    }

    /// Where all of it is kept.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The objects under a prefix: their files.
    pub fn objects(&self, prefix: &str) -> Result<Vec<PathBuf>> {
        files(&self.folder.path().join(BUCKET).join(prefix))
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            files.push(entry?.path());
        }
    }
    files.sort();
    Ok(files)
}
