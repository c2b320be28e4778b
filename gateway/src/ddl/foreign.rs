//! The server of a `CREATE TABLE`, and what `CREATE FOREIGN TABLE` finds there. A table that is found is not ours: its
//! families and their rules are read from the server, and nothing is changed there, but that one which is to be written
//! gets the family of markers.

use super::server::no_server;
use crate::{
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    sql::ast::definition::CreateTable,
};
use keyspan_catalog::{Error, ErrorKind, Found, FoundDefinition, RemoteDefinition, Server, Snapshot, Table, TenantId};
use keyspan_storage::TableName;

/// The end of the name of an open family's encoding.
pub(super) const FAMILY_ENCODING: &str = ".encoding";

/// Options that are those of any table.
const TABLE_OPTIONS: [&str; 3] = ["key_encoding", "on_bad_key", "on_bad_value"];

/// The table that a `CREATE FOREIGN TABLE` names, as the server has it now; `None` for `CREATE TABLE`.
///
/// # Errors
/// HV00D, 22023, 0A000 for `escape 'none'`; 42704, 42P01, the server's.
pub(super) async fn found(session: &Session, create: &CreateTable) -> Result<Option<FoundDefinition>> {
    let Some(options) = &create.found else {
        if let Some(server) = &create.server {
            let snapshot = session.instance.catalog.snapshot();
            let server = snapshot.server(server).ok_or_else(|| no_server(server))?;
            probe(session, server).await?;
        }
        return Ok(None);
    };
    let (mut name, mut found) = (create.name.name.clone(), Found::default());
    for (at, (option, value)) in options.iter().enumerate() {
        if options[..at].iter().any(|(other, _)| other == option) {
            let message = format!("option \"{option}\" provided more than once");
            return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, message));
        }
        match option.as_str() {
            "table" => name.clone_from(value),
            "writable" => found.writable = boolean(option, value)?,
            "on_drop" => found.on_drop_delete = word(option, value, ("keep", "delete"))?,
            "escape" => {
                let ordered = options.iter().any(|(name, value)| name == "key_encoding" && value == "ordered");
                if word(option, value, ("dollar", "none"))? && ordered {
                    let message = "escape 'none' of keys that are ordered";
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_hint("key_encoding 'delimited' has parts with \"#\" between them."));
                }
            }
            option if is_table_option(option) => {}
            _ => {
                return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, format!("invalid option \"{option}\""))
                    .with_hint(
                        "There are table, key_encoding, escape, on_bad_key, on_bad_value, writable and on_drop, and \"f.encoding\" of an open family f.",
                    ));
            }
        }
    }
    if found.on_drop_delete && !found.writable {
        let message = "on_drop 'delete' of a foreign table that is only read";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint("Add writable 'true'."));
    }
    let name = TableName::new(&name).map_err(|error| SqlError::new(SqlState::UNDEFINED_TABLE, error.to_string()))?;
    let snapshot = session.instance.catalog.snapshot();
    let server = create.server.as_deref().unwrap_or_default();
    let server = snapshot.server(server).ok_or_else(|| no_server(server))?;
    let schema = session.instance.catalog.remote_schema(server, &name).await?;
    Ok(Some(FoundDefinition { name, found, families: schema.families }))
}

/// Checks that the server of a table can be reached, before an edit begins for which others wait.
pub(super) async fn reach(session: &Session, table: &Table) -> Result<()> {
    let snapshot = session.instance.catalog.snapshot();
    match snapshot.server_of(table) {
        Some(server) => probe(session, server).await,
        None => Ok(()),
    }
}

async fn probe(session: &Session, server: &Server) -> Result<()> {
    // No table has this name.
    let name = TableName::new("keyspan-probe").map_err(Error::from)?;
    match session.instance.catalog.remote_schema(server, &name).await {
        Err(error) if error.kind() != ErrorKind::NoTable => Err(error.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Where the rows of a table are to be, if not here.
///
/// # Errors
/// For a server that does not exist, and in the database of a tenant.
pub(super) fn remote(
    create: &CreateTable,
    snapshot: &Snapshot,
    found: Option<&FoundDefinition>,
) -> keyspan_catalog::Result<Option<RemoteDefinition>> {
    let Some(name) = &create.server else { return Ok(None) };
    let server = snapshot.server(name).ok_or_else(|| no_server(name))?;
    Ok(Some(RemoteDefinition { server: server.id, found: found.cloned() }))
}

/// Refuses a table on a server in the database of a tenant.
pub(super) fn refuse(create: &CreateTable, tenant: Option<&TenantId>) -> keyspan_catalog::Result<()> {
    if create.server.is_none() || tenant.is_none() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "a private table on a server")
        .with_detail("Tables on servers are shared ones: an operator makes them in database \"keyspan\"."))
}

/// The options that `CREATE TABLE` would have in `WITH`.
pub(super) fn table_options(create: &CreateTable) -> impl Iterator<Item = (String, String)> {
    let options = create.found.iter().flatten();
    let plain = options.clone().any(|(name, value)| name == "escape" && value.eq_ignore_ascii_case("none"));
    let own = options.filter(move |(name, _)| is_table_option(name) && !(plain && name == "key_encoding"));
    own.cloned().chain(plain.then(|| ("key_encoding".to_owned(), "plain".to_owned())))
}

/// Whether an option is one that `CREATE TABLE` has, too.
fn is_table_option(name: &str) -> bool {
    TABLE_OPTIONS.contains(&name) || name.ends_with(FAMILY_ENCODING)
}

fn boolean(option: &str, value: &str) -> Result<bool> {
    word(option, value, ("false", "true"))
}

/// Whether the value is the second of two words.
fn word(option: &str, value: &str, (no, yes): (&str, &str)) -> Result<bool> {
    if value.eq_ignore_ascii_case(yes) || value.eq_ignore_ascii_case(no) {
        return Ok(value.eq_ignore_ascii_case(yes));
    }
    let message = format!("invalid value for option \"{option}\": \"{value}\"");
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_hint(format!("It takes {no} and {yes}.")))
}
