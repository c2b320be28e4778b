//! `ALTER SEQUENCE … OWNED BY`: the column with which a sequence is dropped.

use super::{private, skipped};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::{Found, Session},
    sql::ast::definition::AlterSequence,
};
use keyspan_catalog::{PrivateEdit, Sequence, Snapshot, Table, TableId};
use std::sync::Arc;

pub(super) async fn alter(session: &mut Session, alter: &AlterSequence) -> Result<()> {
    let Some(sequence) = find(session, &alter.name)? else {
        if alter.if_exists {
            skipped(session, &format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(session.missing(&alter.name, "relation"));
    };
    session.check_owner(sequence.id, false)?;
    if is_of_identity(&session.catalog_snapshot(), session, &sequence)? {
        let message = "cannot change ownership of identity sequence";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let owner = match &alter.owner {
        None => None,
        Some((name, column)) => Some(owner(session, &sequence, name, column)?),
    };
    private::change(session, |_| Ok(vec![PrivateEdit::OwnSequence(sequence.id, owner)])).await
}

/// The sequence of a name.
fn find(session: &Session, name: &RelationName) -> Result<Option<Arc<Sequence>>> {
    match session.find_sequence(name) {
        Some(sequence) => Ok(Some(sequence)),
        None if session.find(name).is_some() => {
            let message = format!("cannot open relation \"{}\"", name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_detail("It is not a sequence."))
        }
        None => Ok(None),
    }
}

/// Whether a sequence is a part of an identity column.
fn is_of_identity(snapshot: &Snapshot, session: &Session, sequence: &Sequence) -> Result<bool> {
    let (tenant, Some((table, number))) = (private::tenant(session)?.0, sequence.owner) else { return Ok(false) };
    let table = snapshot.table_of(Some(&tenant), table);
    let column = table.and_then(|table| table.columns.iter().find(|column| column.id == number));
    Ok(column.is_some_and(|column| column.identity.is_some()))
}

/// The column that shall own a sequence.
fn owner(session: &Session, sequence: &Sequence, name: &RelationName, column: &str) -> Result<(TableId, u16)> {
    let wrong = |message: &str| Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    let table: Arc<Table> = match session.find(name) {
        Some((place, Found::Table(table))) if place != Schema::Temporary && table.schema == sequence.schema => table,
        Some((_, Found::Table(_))) => return wrong("sequence must be in same schema as table it is linked to"),
        Some((_, Found::View(_))) => {
            let message = format!("sequence cannot be owned by relation \"{}\"", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        None => return Err(name.missing("relation")),
    };
    private::check_owner(session, &table, false)?;
    let (tenant, snapshot) = (private::tenant(session)?.0, session.catalog_snapshot());
    if snapshot.owner_of(Some(&tenant), table.id.0) != snapshot.owner_of(Some(&tenant), sequence.id) {
        return wrong("sequence must have same owner as table it is linked to");
    }
    let found = table.column(column).ok_or_else(|| SqlError::undefined_column_of(&table.name, column))?;
    Ok((table.id, found.id))
}
