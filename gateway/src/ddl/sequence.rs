//! `ALTER SEQUENCE`: its options, its name, and `OWNED BY`, the column with which it is dropped.
//!
//! A new definition is seen as any: with the commit of a transaction. `RESTART` sets the number at once, as `setval`
//! does: a rollback leaves it.

use super::private;
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::{Found, Session},
    sql::ast::definition::{AlterAction, AlterSequence},
};
use keyspan_catalog::{Column, PrivateEdit, Sequence, SequenceOptions, Snapshot, Table, TableId, table::DefaultValue};
use std::sync::Arc;

pub(super) async fn alter(session: &mut Session, alter: &AlterSequence) -> Result<()> {
    let Some(sequence) = find(session, &alter.name)? else {
        if alter.if_exists {
            session.skipped(&format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(session.missing(&alter.name, "relation"));
    };
    session.check_owner(sequence.id, false)?;
    if let Some(name) = &alter.rename {
        return rename(session, &sequence, name).await;
    }
    if let Some(owner) = &alter.owner {
        if is_of_identity(&session.catalog_snapshot(), session, &sequence)? {
            let message = "cannot change ownership of identity sequence";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let owner = match owner {
            None => None,
            Some((name, column)) => Some(owner_of(session, &sequence, name, column)?),
        };
        let place = private::place_of_sequence(session, &sequence);
        private::change_in(session, &place, |_| Ok(vec![PrivateEdit::OwnSequence(sequence.id, owner)])).await?;
    }
    change(session, &sequence, &alter.options).await
}

/// Gives a sequence another name. Defaults have its number, and show the new one.
pub(super) async fn rename(session: &mut Session, sequence: &Sequence, name: &str) -> Result<()> {
    let place = private::place_of_sequence(session, sequence);
    let (id, name) = (sequence.id, name.to_owned());
    private::change_in(session, &place, |_| Ok(vec![PrivateEdit::RenameSequence(id, name.clone())])).await
}

/// Gives a sequence other options.
async fn change(session: &mut Session, sequence: &Sequence, options: &SequenceOptions) -> Result<()> {
    if *options == SequenceOptions::default() {
        return Ok(());
    }
    let changed = sequence.alter(options)?;
    let (instance, rows) = (session.instance.clone(), session.identity.rows.clone());
    let before = instance.sequences.give_back(&rows, sequence)?;
    let state = changed.restarted(options, before)?;
    if changed != *sequence {
        let place = private::place_of_sequence(session, sequence);
        private::change_in(session, &place, |_| Ok(vec![PrivateEdit::AlterSequence(changed.clone())])).await?;
    }
    if options.restart.is_some() {
        instance.sequences.set(&rows, &changed, state.last, state.called)?;
    }
    Ok(())
}

/// Gives the sequences of identity columns the options that actions of ALTER TABLE have for them.
pub(super) async fn of_columns(session: &mut Session, table: &RelationName, actions: &[AlterAction]) -> Result<()> {
    for action in actions {
        let AlterAction::AlterIdentity { column, options, .. } = action else { continue };
        let Some((_, Found::Table(table))) = session.find(table) else { continue };
        let oid = of_identity(&table, column)?;
        let tenant = private::tenant(session)?.0;
        let sequence = session.catalog_snapshot().sequence_of(Some(&tenant), oid).cloned();
        if let Some(sequence) = sequence {
            change(session, &sequence, options).await?;
        }
    }
    Ok(())
}

/// The OID of the sequence of an identity column.
///
/// # Errors
/// 42703; 55000 for another column.
pub(super) fn of_identity(table: &Table, column: &str) -> Result<u32> {
    let found = table.column(column).ok_or_else(|| SqlError::undefined_column_of(&table.name, column))?;
    let next = |column: &Column| match column.default.as_ref()?.value {
        DefaultValue::Next(oid) => Some(oid),
        _ => None,
    };
    found.identity.and_then(|_| next(found)).ok_or_else(|| {
        let message = format!("column \"{column}\" of relation \"{}\" is not an identity column", table.name);
        SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
    })
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
fn owner_of(session: &Session, sequence: &Sequence, name: &RelationName, column: &str) -> Result<(TableId, u16)> {
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
