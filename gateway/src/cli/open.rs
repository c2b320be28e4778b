//! Opens a store and its catalog.

use crate::session::Shared;
use anyhow::{Context, Result, bail};
use keyspan_catalog::Catalog;
use keyspan_storage::{
    Clock, SystemClock,
    engine::{Engine, EngineOptions},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Who finishes a drop that was interrupted, in its certificate: who began it is not known any more.
const RESUMED: &str = "(resumed at start)";

/// An open store.
#[derive(Debug)]
pub struct Opened {
    /// What sessions share.
    pub shared: Arc<Shared>,
    /// How long a sync of the log takes, measured at the start; `None` where none is needed.
    pub sync_micros: Option<u64>,
}

/// Opens the store in `folder`; operators may copy into `copy_folder`.
///
/// # Errors
/// A store that another process has open, a damaged one, and what the system refuses.
pub async fn open(folder: &Path, copy_folder: PathBuf) -> Result<Opened> {
    if folder.to_str().is_some_and(|folder| folder.contains("://")) {
        bail!("--store {} is no folder: other stores are not supported yet", folder.display());
    }
    let context = || format!("cannot open the store {}", folder.display());
    let engine = Engine::open(EngineOptions::new(folder)).await.with_context(context)?;
    let sync_micros = engine.sync_micros();
    let catalog = Catalog::open(engine).await.with_context(context)?;
    // Before anyone connects: a tenant whose drop a crash interrupted goes first.
    catalog.finish_drops(RESUMED, SystemClock.now_micros()).await.with_context(context)?;
    let shared = Shared { catalog: Arc::new(catalog), clock: Arc::new(SystemClock), copy_folder: Some(copy_folder) };
    Ok(Opened { shared: Arc::new(shared), sync_micros })
}
