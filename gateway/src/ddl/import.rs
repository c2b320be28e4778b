//! `IMPORT FOREIGN SCHEMA bigtable FROM SERVER …`: foreign tables for what a server has.
//!
//! Of each table some rows are read, from its beginning and from keys that divide it ([`sample`]). Columns and their
//! encodings are guessed of them ([`guess`]), and the table is made as `CREATE FOREIGN TABLE` makes it: only read until
//! it is said to be writable, and forgotten by DROP. A notice says what was guessed. Either all tables are made or none.

mod guess;
mod sample;

use super::{foreign::FAMILY_ENCODING, server::no_server, table};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        ident::quote_ident,
        names::RelationName,
    },
    session::Session,
    shield::shielded,
    sql::ast::definition::{
        CellsClause, ColumnClause, CreateTable, DropTables, FamilyClause, ImportForeignSchema, ImportedTables,
        KeyClause,
    },
};
use guess::{Guess, Guessed};
use keyspan_catalog::{Encoding, PartOrder, Server, server::BIGTABLE};
use keyspan_storage::TableName;
use std::{collections::BTreeSet, sync::Arc};

/// Tables that one statement imports.
const TABLES_MAX: usize = 1_000;

/// Options of the statement, which every table gets.
const OPTIONS: [&str; 4] = ["writable", "on_drop", "on_bad_key", "on_bad_value"];

pub(super) async fn import(session: &mut Session, said: &ImportForeignSchema) -> Result<()> {
    let server = server_of(session, said)?;
    let names = names(session, said, &server).await?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let sample = sample::of(session, &server, &name).await?;
        let guess = guess::guess(&sample);
        found.push((definition(said, &name, &guess), guess));
    }
    let taken =
        found.iter().find(|(create, _)| table::shared(&session.instance.catalog.snapshot(), &create.name).is_some());
    if let Some((create, _)) = taken {
        let message = format!("relation \"{}\" already exists", create.name);
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message)
            .with_hint("Leave it out: IMPORT FOREIGN SCHEMA … EXCEPT (…)."));
    }
    shielded(Box::pin(make(session, &found))).await
}

/// Makes the tables; drops those that were made when one cannot be.
async fn make(session: &mut Session, found: &[(CreateTable, Guess)]) -> Result<()> {
    for (at, (create, _)) in found.iter().enumerate() {
        let Err(error) = table::create(session, create).await else { continue };
        let names = found[..at].iter().map(|(made, _)| made.name.clone()).collect();
        let made = DropTables { names, if_exists: true, cascade: false };
        if let Err(left) = table::drop(session, &made).await {
            tracing::warn!(error = %left.message, "tables of an import that failed are left");
        }
        return Err(error);
    }
    for (create, guess) in found {
        for message in guess.told(&create.name.name) {
            session.notice(
                SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message)
                    .with_hint(format!("SHOW CREATE TABLE {} says it whole.", quote_ident(&create.name.name))),
            );
        }
    }
    Ok(())
}

/// The server, once what the statement says besides is checked.
fn server_of(session: &Session, said: &ImportForeignSchema) -> Result<Arc<Server>> {
    let invalid = |name: &str, hint: &str| {
        let message = format!("schema \"{name}\" does not exist");
        Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).with_hint(hint))
    };
    if said.schema != BIGTABLE {
        return invalid(&said.schema, "All tables of a server are in its one schema, bigtable.");
    }
    if said.into != "public" {
        return invalid(&said.into, "Tables on servers are shared ones, in schema public.");
    }
    if let Some((option, _)) = said.options.iter().find(|(option, _)| !OPTIONS.contains(&option.as_str())) {
        return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, format!("invalid option \"{option}\""))
            .with_hint(format!("There are {}.", OPTIONS.join(", "))));
    }
    let snapshot = session.instance.catalog.snapshot();
    Ok(snapshot.server(&said.server).cloned().ok_or_else(|| no_server(&said.server))?)
}

/// The tables to import, in order: those of the server that the statement wants, without those made from here.
async fn names(session: &Session, said: &ImportForeignSchema, server: &Server) -> Result<Vec<TableName>> {
    let store = session.instance.catalog.remote_store(server)?;
    let there = store.tables().await.map_err(keyspan_catalog::Error::from)?;
    let there: BTreeSet<TableName> = there.into_iter().map(|(name, _)| name).collect();
    let snapshot = session.instance.catalog.snapshot();
    let ours: BTreeSet<&TableName> = snapshot
        .tables
        .values()
        .filter_map(|table| table.remote.as_ref())
        .filter(|remote| remote.server == server.id && remote.found.is_none())
        .map(|remote| &remote.name)
        .collect();
    let named = |names: &[String]| -> Result<BTreeSet<TableName>> {
        let one = |name: &String| {
            let found = there.iter().find(|table| table.as_str() == name).cloned();
            found.ok_or_else(|| {
                let message = format!("server \"{}\" has no table \"{name}\"", server.name);
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            })
        };
        names.iter().map(one).collect()
    };
    let wanted: Vec<TableName> = match &said.tables {
        ImportedTables::All => there.iter().filter(|name| !ours.contains(name)).cloned().collect(),
        ImportedTables::LimitTo(names) => named(names)?.into_iter().collect(),
        ImportedTables::Except(names) => {
            let left_out = named(names)?;
            there.iter().filter(|name| !ours.contains(name) && !left_out.contains(name)).cloned().collect()
        }
    };
    if wanted.len() > TABLES_MAX {
        let message = format!("the server has {} tables, more than {TABLES_MAX}", wanted.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("Name them: LIMIT TO (…)."));
    }
    Ok(wanted)
}

/// The `CREATE FOREIGN TABLE` of a guess.
fn definition(said: &ImportForeignSchema, name: &TableName, guess: &Guess) -> CreateTable {
    let column = |name: &str, kind, cells| ColumnClause {
        name: name.to_owned(),
        kind,
        own_type: None,
        not_null: false,
        default: None,
        protobuf: None,
        cells,
    };
    let cell = |guessed: &Guessed| {
        let cells = CellsClause {
            family: Some(guessed.family.clone()),
            qualifier: Some(guessed.qualifier.clone()),
            encoding: Some(guessed.encoding.clone()),
        };
        column(&guessed.name, guessed.kind, Some(cells))
    };
    let parts = guess.key.iter().map(|(name, kind)| column(name, *kind, None));
    let family =
        |(family, _): &(String, Encoding)| FamilyClause { name: family.clone(), columns: Vec::new(), open: true };
    let encodings =
        guess.open.iter().map(|(family, encoding)| (format!("{family}{FAMILY_ENCODING}"), encoding.name().to_owned()));
    let own =
        [("table", name.as_str()), ("escape", "none")].map(|(option, value)| (option.to_owned(), value.to_owned()));
    CreateTable {
        name: RelationName { schema: None, name: name.as_str().to_owned() },
        columns: parts.chain(guess.columns.iter().map(cell)).collect(),
        primary_key: guess
            .key
            .iter()
            .map(|(name, _)| KeyClause { column: name.clone(), order: PartOrder::Ascending })
            .collect(),
        families: guess.open.iter().map(family).collect(),
        server: Some(said.server.clone()),
        found: Some(own.into_iter().chain(encodings).chain(said.options.iter().cloned()).collect()),
        ..CreateTable::default()
    }
}
