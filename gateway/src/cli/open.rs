//! Opens a store and its catalog.

use super::options::ServeOptions;
use crate::{
    purge::RESUMED,
    resources::{Resources, Size, clear_folder},
    session::Shared,
};
use anyhow::{Context, Result};
use keyspan_catalog::Catalog;
use keyspan_storage::{Clock, SystemClock, engine::Engine};
use std::sync::Arc;

/// An open store.
#[derive(Debug)]
pub struct Opened {
    /// What sessions share.
    pub shared: Arc<Shared>,
    /// How long a sync of the log takes, measured at the start; `None` where none is needed.
    pub sync_micros: Option<u64>,
}

/// Opens the store that the options name.
///
/// # Errors
/// A store that another process has open, a damaged one, folders that cannot be made, and what the system refuses.
pub async fn open(options: &ServeOptions) -> Result<Opened> {
    let context = || format!("cannot open the store {}", options.store.display());
    let memory = options.storage.memory()?;
    let engine = Engine::open(options.engine(&memory)?).await.with_context(context)?;
    let sync_micros = engine.sync_micros();
    let catalog = Catalog::open(engine).await.with_context(context)?;
    // Before anyone connects: a tenant whose drop a crash interrupted goes first. It is invisible in any case, and a full disk or a
    // damaged segment of its is no reason for others to wait: the background tries again.
    if let Err(error) = catalog.finish_drops(RESUMED, SystemClock.now_micros()).await {
        tracing::warn!(%error, "a drop that was interrupted could not be finished yet");
    }
    let copy_folder = Some(options.copy_folder()?);
    let temp = options.temp_folder()?;
    let failed = || format!("cannot use the folder {} for temporary files", temp.display());
    // The store is held from here on, and the folder with it.
    clear_folder(&temp).with_context(failed)?;
    let resources = Resources::new(memory, Some(temp.clone()), options.storage.temp_max.0).with_context(failed)?;
    let shared = Shared { copy_folder, resources, ..Shared::new(Arc::new(catalog)) };
    Ok(Opened { shared: Arc::new(shared), sync_micros })
}

impl Opened {
    /// What is said of it at the start.
    pub fn notice(&self, options: &ServeOptions) -> String {
        let memory = &self.shared.resources.memory;
        let (all, queries, engine) = (Size(memory.all_bytes), Size(memory.query_bytes), Size(memory.engine_bytes));
        let store = options.store.display();
        let waits = self.sync_micros.map(|micros| format!("store {store}: a write waits {micros} µs for the disk\n"));
        format!("{}memory {all}: {queries} for queries, {engine} for the store\n", waits.unwrap_or_default())
    }
}
