//! Opens a store and its catalog.

use super::{options::ServeOptions, permissions};
use anyhow::{Context, Result};
use keyspan_bigtable::{BigtableStore, Settings};
use keyspan_catalog::{Catalog, Server};
use keyspan_gateway::{
    certificates::{Certificates, exports_below},
    copy::remove_parts,
    instance::Instance,
    purge::RESUMED,
    resources::{Resources, Size, clear_folder},
};
use keyspan_storage::{Clock, Store, SystemClock, engine::Engine};
use std::sync::Arc;

/// An open store.
#[derive(Debug)]
pub struct OpenStore {
    /// What sessions share.
    pub instance: Arc<Instance>,
    /// The microseconds of a sync of the log, measured at the start; `None` if the engine does not sync.
    pub sync_micros: Option<u64>,
}

/// Opens the store that the options name.
///
/// # Errors
/// If another process has the store open, the store is damaged or open to everybody, a folder cannot be made, or the
/// system refuses access.
pub async fn open(options: &ServeOptions) -> Result<OpenStore> {
    let context = || format!("cannot open the store {}", options.store.display());
    let memory = options.storage.memory()?;
    permissions::close(&options.store).with_context(context)?;
    let engine = Engine::open(options.engine(&memory)?).await.with_context(context)?;
    let sync_micros = engine.sync_micros();
    let catalog = Catalog::open_with_servers(engine, connect).await.with_context(context)?;
    let copy_folder = options.copy_folder()?;
    catalog.set_exports(exports_below(copy_folder.clone()));
    // Before clients connect, finish the drops that a crash interrupted. Their tenants are invisible in any case; if a
    // disk is full or a segment damaged, the others need not wait: the background tries again.
    // With servers, one of which may be down, the background does all of it.
    if catalog.snapshot().servers.is_empty()
        && let Err(error) = catalog.finish_drops(RESUMED, SystemClock.now_micros()).await
    {
        tracing::warn!(%error, "a drop that was interrupted could not be finished yet");
    }
    if let Err(error) = remove_parts(&copy_folder) {
        tracing::warn!(%error, "files that a crash left in the folder for COPY could not be removed");
    }
    let copy_folder = Some(copy_folder);
    let temp = options.temp_folder()?;
    let failed = || format!("cannot use the folder {} for temporary files", temp.display());
    // This process has locked the store by now, and with it the folder.
    clear_folder(&temp).with_context(failed)?;
    let resources = Resources::new(memory, Some(temp.clone()), options.storage.temp_max.0).with_context(failed)?;
    let certificates = Certificates::of_store(&options.store);
    let audit = options.audit_log()?;
    let instance = Instance { audit, copy_folder, resources, certificates, ..Instance::new(Arc::new(catalog)) };
    if options.without_gate {
        instance.shares.remove_gate();
    }
    Ok(OpenStore { instance: Arc::new(instance), sync_micros })
}

/// The store of a server. Nothing is asked of the server yet.
fn connect(server: &Server) -> keyspan_storage::Result<Arc<dyn Store>> {
    let app_profile = server.app_profile.clone();
    let settings = Settings { app_profile, ..Settings::from_env(&server.project, &server.instance) };
    Ok(Arc::new(BigtableStore::new(settings, Box::new(SystemClock))?))
}

impl OpenStore {
    /// The notice at the start: memory, and the time of a sync.
    pub fn notice(&self, options: &ServeOptions) -> String {
        let memory = &self.instance.resources.memory;
        let (all, queries, engine) = (Size(memory.all_bytes), Size(memory.query_bytes), Size(memory.engine_bytes));
        let store = options.store.display();
        let waits = self.sync_micros.map(|micros| format!("store {store}: a write waits {micros} µs for the disk\n"));
        format!("{}memory {all}: {queries} for queries, {engine} for the store\n", waits.unwrap_or_default())
    }
}
