//! The catalog in the store: load, commit, and the newest snapshot.

use crate::{Edit, Result, Snapshot};
use keyspan_storage::Store;
use std::sync::Arc;

/// The name of the catalog's table in the store.
pub const CATALOG_TABLE: &str = "catalog";

/// The catalog of a store.
#[derive(Debug)]
pub struct Catalog {
    store: Arc<dyn Store>,
}

impl Catalog {
    /// Loads the catalog; makes its table in an empty store.
    ///
    /// # Errors
    /// The store's, and [`Corrupt`](crate::ErrorKind::Corrupt).
    pub async fn open(store: Arc<dyn Store>) -> Result<Self> {
        Ok(Self { store })
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        todo!()
    }

    /// Derives an edit from the newest snapshot and commits it; tries again when another commits first. Tables are made, changed
    /// and dropped in the store with it: a crash between leaves nothing half visible.
    ///
    /// # Errors
    /// What `edit` says, what the edit contradicts, and the store's.
    pub async fn commit(&self, edit: impl Fn(&Snapshot) -> Result<Edit> + Send + Sync) -> Result<Arc<Snapshot>> {
        let _ = edit;
        todo!()
    }
}
