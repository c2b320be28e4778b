//! Tables on servers: the routes of the store follow the snapshot, and what an interrupted statement left on a server
//! is finished when the server can be reached.
//!
//! The catalog is opened without asking any server. What is pending there stays so until
//! [`Catalog::finish_servers`], which the background calls and tries again.

use super::{Catalog, load, rows};
use crate::{Edit, Error, ErrorKind, RemoteTable, Result, Server, Snapshot, Table, server, table::marker_family};
use keyspan_storage::{FamilyChange, RoutedStore, Store, TableName, TableSchema, routed::Down};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

/// The store that routes, and how a server becomes a store.
pub(super) struct Servers {
    routed: Arc<RoutedStore>,
    connect: Box<Connect>,
    /// The servers of the store, by OID, as they were defined.
    known: Mutex<BTreeMap<u32, Arc<Server>>>,
}

/// Makes the store of a server, without asking the server anything.
type Connect = dyn Fn(&Server) -> keyspan_storage::Result<Arc<dyn Store>> + Send + Sync;

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("routed", &self.routed).finish_non_exhaustive()
    }
}

impl Servers {
    /// Makes servers and routes of the store those of the snapshot.
    fn follow(&self, snapshot: &Snapshot) -> Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, server) in &snapshot.servers {
            if known.get(id) != Some(server) {
                let store = match (self.connect)(server) {
                    Ok(store) => {
                        known.insert(*id, Arc::clone(server));
                        store
                    }
                    // The next edit tries again.
                    Err(error) => {
                        tracing::warn!(server = server.name, %error, "a server cannot be used");
                        Arc::new(Down::new(&error)) as Arc<dyn Store>
                    }
                };
                self.routed.add_server(&server.route(), store)?;
            }
        }
        let gone: Vec<u32> = known.keys().filter(|id| !snapshot.servers.contains_key(id)).copied().collect();
        for id in gone {
            self.routed.remove_server(&server::route(id));
            known.remove(&id);
        }
        let mut wanted = BTreeSet::new();
        for (physical, remote) in remote_tables(snapshot) {
            self.routed.route(physical, &server::route(remote.server), &remote.name)?;
            wanted.insert(physical);
        }
        for physical in self.routed.routed().iter().filter(|physical| !wanted.contains(physical)) {
            self.routed.forget(physical);
        }
        Ok(())
    }
}

fn remote_tables(snapshot: &Snapshot) -> impl Iterator<Item = (&TableName, &RemoteTable)> {
    snapshot.tables.values().filter_map(|table| Some((&table.physical, table.remote.as_ref()?)))
}

impl Catalog {
    /// As [`open`](Self::open), with tables on servers. `connect` makes the store of a server without asking the server
    /// anything: one that is down fails what needs it, never the start.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_servers(
        here: Arc<dyn Store>,
        connect: impl Fn(&Server) -> keyspan_storage::Result<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let routed = Arc::new(RoutedStore::new(here, [rows::catalog_table()]));
        let servers = Servers { routed: Arc::clone(&routed), connect: Box::new(connect), known: Mutex::default() };
        Self::open_over(routed, Some(servers)).await
    }

    /// Makes the routes of the store those of the snapshot.
    pub(super) fn follow(&self, snapshot: &Snapshot) -> Result<()> {
        self.servers.as_ref().map_or(Ok(()), |servers| servers.follow(snapshot))
    }

    /// Refuses an edit that needs servers where there can be none; prepares the route of a new table.
    pub(super) fn before_edit(&self, edit: &Edit, after: &Snapshot) -> Result<()> {
        match edit {
            Edit::CreateServer(server) => {
                let servers = self.servers.as_ref().ok_or_else(no_servers)?;
                // One that cannot be connected to is never stored.
                (servers.connect)(server)?;
                Ok(())
            }
            Edit::CreateTable(Table { remote: Some(_), .. }) => {
                self.servers.as_ref().ok_or_else(no_servers)?;
                self.follow(after)
            }
            _ => Ok(()),
        }
    }

    /// The store of a server: its tables, whoever made them.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) by a program that connects to no servers.
    pub fn remote_store(&self, server: &Server) -> Result<Arc<dyn Store>> {
        let servers = self.servers.as_ref().ok_or_else(no_servers)?;
        servers.routed.server(&server.route()).ok_or_else(no_servers)
    }

    /// The families of a table on a server, the family of markers among them if it has that.
    ///
    /// # Errors
    /// The server's; [`NoTable`](ErrorKind::NoTable).
    pub async fn remote_schema(&self, server: &Server, table: &TableName) -> Result<TableSchema> {
        self.remote_store(server)?.table(table).await.map_err(|error| match error.kind() {
            keyspan_storage::ErrorKind::NotFound => {
                Error::new(ErrorKind::NoTable, format!("server \"{}\" has no table \"{table}\"", server.name))
            }
            _ => error.into(),
        })
    }

    /// Gives a found table that is to be written the family of markers, if it does not have it. Nothing else of it is
    /// changed.
    pub(super) async fn mark_found(&self, table: &Table) -> Result<()> {
        let writable = table.remote.as_ref().and_then(|remote| remote.found).is_some_and(|found| found.writable);
        if !writable {
            return Ok(());
        }
        let stored = self.store.table(&table.physical).await?;
        let marker = marker_family();
        if stored.families.contains_key(&marker) {
            return Ok(());
        }
        let family = table.storage_schema().families.remove(&marker).unwrap_or_default();
        match self.store.modify_families(&table.physical, vec![FamilyChange::Create(marker, family)]).await {
            // Another gateway was first.
            Err(error) if error.kind() == keyspan_storage::ErrorKind::AlreadyExists => Ok(()),
            done => Ok(done?),
        }
    }

    /// Drops the tables on servers that no snapshot shows: those of DROP TABLE, and what interrupted statements left.
    /// No edit waits for the servers meanwhile.
    ///
    /// # Errors
    /// Those of a server that cannot be reached, the first of several; the call can be repeated.
    pub async fn finish_servers(&self) -> Result<()> {
        let Some(servers) = &self.servers else { return Ok(()) };
        if !self.remote_pending.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let loaded = {
            // An edit under way is not one that was interrupted.
            let _editing = self.editing.lock().await;
            load(&self.store, &self.store.pin().await?).await
        };
        let loaded = loaded.inspect_err(|_| self.remote_pending.store(true, Ordering::SeqCst))?;
        let mut failed = None;
        for (physical, remote) in &loaded.pending_remote {
            if !is_never_made_again(physical, &loaded.snapshot) {
                // The next CREATE TABLE may make it, and drops it first.
                continue;
            }
            let shown = loaded.snapshot.tables.values().any(|table| table.physical == *physical);
            let store = servers.routed.server(&server::route(remote.server)).filter(|_| !shown);
            let dropped = match store {
                Some(store) => store.drop_table(&remote.name).await,
                None => Ok(()),
            };
            let done = match dropped {
                Err(error) if error.kind() != keyspan_storage::ErrorKind::NotFound => Err(error.into()),
                Ok(()) | Err(_) => self.write(rows::delete(rows::pending_key(physical))).await,
            };
            failed = failed.or(done.err());
        }
        self.remote_pending.fetch_or(failed.is_some(), Ordering::SeqCst);
        failed.map_or(Ok(()), Err)
    }

    /// Refuses to forget a server that has tables which are to be dropped there.
    pub(super) async fn check_nothing_pending(&self, server: u32) -> Result<()> {
        let loaded = load(&self.store, &self.store.pin().await?).await?;
        let of_server = |(physical, remote): &&(TableName, RemoteTable)| {
            remote.server == server && is_never_made_again(physical, &loaded.snapshot)
        };
        let Some((_, remote)) = loaded.pending_remote.iter().find(of_server) else { return Ok(()) };
        Err(Error::new(ErrorKind::InUse, "a table of the server was dropped, and is still there")
            .with_detail(format!("It is called \"{}\" there.", remote.name))
            .with_hint("The background drops it when the server can be reached."))
    }
}

/// Whether no table will have this name in the store: the OID in it was given to a table.
fn is_never_made_again(physical: &TableName, snapshot: &Snapshot) -> bool {
    let number = physical.as_str().rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| number < snapshot.next_oid)
}

fn no_servers() -> Error {
    Error::new(ErrorKind::Unsupported, "servers of tables").with_detail("This program has its store for itself.")
}

#[cfg(test)]
mod tests;
