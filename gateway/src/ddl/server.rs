//! `CREATE SERVER`, `DROP SERVER`: the operator's.

use crate::{
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    sql::ast::definition::{CreateServer, DropServers},
};
use keyspan_catalog::{Edit, Error, ErrorKind, Server, Snapshot, server::BIGTABLE, snapshot::FIRST_OID};

pub(super) async fn create(session: &mut Session, create: &CreateServer) -> Result<()> {
    if create.wrapper != BIGTABLE {
        let message = format!("foreign-data wrapper \"{}\" does not exist", create.wrapper);
        return Err(
            SqlError::new(SqlState::UNDEFINED_OBJECT, message).with_hint(format!("There is one, \"{BIGTABLE}\"."))
        );
    }
    let catalog = session.instance.catalog.clone();
    if create.if_not_exists && catalog.snapshot().server(&create.name).is_some() {
        session.skipped(&format!("server \"{}\" already exists", create.name));
        return Ok(());
    }
    let edit = |snapshot: &Snapshot| {
        let id = snapshot.next_oid.max(FIRST_OID);
        Ok(Edit::CreateServer(Server::define(id, &create.name, &create.options)?))
    };
    catalog.commit(edit).await?;
    Ok(())
}

pub(super) async fn drop(session: &mut Session, drop: &DropServers) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    let snapshot = catalog.snapshot();
    let mut found = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match snapshot.server(name) {
            Some(server) if found.contains(&server.id) => {}
            Some(server) => found.push(server.id),
            None if drop.if_exists => session.skipped(&format!("server \"{name}\" does not exist")),
            None => return Err(no_server(name).into()),
        }
    }
    if !found.is_empty()
        && let Err(error) = catalog.finish_servers().await
    {
        tracing::warn!(%error, "a dropped table is still on its server");
    }
    for id in found {
        catalog.commit(|_| Ok(Edit::DropServer(id))).await?;
    }
    Ok(())
}

pub(super) fn no_server(name: &str) -> Error {
    Error::new(ErrorKind::NoObject, format!("server \"{name}\" does not exist"))
}
