//! Servers, and the tables that are on them.

use super::Snapshot;
use crate::{Error, ErrorKind, Result, Server, Table};
use keyspan_storage::{Aggregate, routed::SERVERS_MAX};
use std::sync::Arc;

impl Snapshot {
    /// The server of this name.
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.values().find(|server| server.name == name)
    }

    /// The server that a table is on; `None` for a table here.
    pub fn server_of(&self, table: &Table) -> Option<&Arc<Server>> {
        self.servers.get(&table.remote.as_ref()?.server)
    }

    pub(super) fn create_server(&mut self, server: &Server) -> Result<()> {
        if self.server(&server.name).is_some() {
            return Err(Error::new(ErrorKind::Duplicate, format!("server \"{}\" already exists", server.name)));
        }
        if self.servers.len() >= SERVERS_MAX {
            return Err(Error::new(ErrorKind::TooMuch, format!("there are at most {SERVERS_MAX} servers")));
        }
        self.take_oid(server.id)?;
        self.servers.insert(server.id, Arc::new(server.clone()));
        Ok(())
    }

    pub(super) fn drop_server(&mut self, id: u32) -> Result<()> {
        let server = self.servers.remove(&id).ok_or_else(|| no_server(id))?;
        let mut on_it = self.tables.values().filter(|table| is_on(table, id));
        if let Some(table) = on_it.next() {
            let message = format!("cannot drop server \"{}\" because other objects depend on it", server.name);
            return Err(Error::new(ErrorKind::InUse, message)
                .with_detail(format!("table \"{}\" depends on server \"{}\"", table.name, server.name))
                .with_hint("Drop its tables first."));
        }
        Ok(())
    }

    /// Checks that a table on a server asks for nothing that servers do not have.
    pub(super) fn check_place(&self, table: &Table) -> Result<()> {
        let Some(remote) = &table.remote else { return Ok(()) };
        self.servers.get(&remote.server).ok_or_else(|| no_server(remote.server))?;
        if table.is_private() {
            return Err(Error::new(ErrorKind::Unsupported, "a private table on a server"));
        }
        if table.history_micros.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, format!("history of table \"{}\"", table.name))
                .with_detail("Its rows are on a server, which keeps no history."));
        }
        if let Some(family) = table.families.iter().find(|family| family.aggregate == Some(Aggregate::Hll)) {
            let message = format!("family \"{}\" with distinct counts on a server", family.name);
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_detail("Bigtable counts distinct inputs in a form of its own."));
        }
        Ok(())
    }
}

/// Refuses to forget columns or families of a table on a server.
pub(super) fn check_altered(old: &Table, new: &Table) -> Result<()> {
    let lost_column = old.columns.iter().any(|old| new.columns.iter().all(|new| new.id != old.id));
    let lost_family = old.families.iter().any(|old| new.families.iter().all(|new| new.id != old.id));
    if new.is_found() && old.families != new.families {
        let message = format!("changing the families of table \"{}\"", new.name);
        return Err(Error::new(ErrorKind::Unsupported, message)
            .with_detail("It was found on a server, and is not ours: its families are as they are there.")
            .with_hint("DROP TABLE forgets it; then CREATE FOREIGN TABLE reads its families again."));
    }
    if new.remote.is_none() || !(lost_column || lost_family) {
        return Ok(());
    }
    let message = format!("dropping columns or families of table \"{}\"", new.name);
    Err(Error::new(ErrorKind::Unsupported, message)
        .with_detail("Its rows are on a server, which does not say when the bytes of cells are gone.")
        .with_hint("Create another table and copy the rows."))
}

fn is_on(table: &Table, server: u32) -> bool {
    table.remote.as_ref().is_some_and(|remote| remote.server == server)
}

fn no_server(id: u32) -> Error {
    Error::new(ErrorKind::NoObject, format!("server with OID {id} does not exist"))
}
