//! Descriptors as objects of the catalog: their names and bounds, and the tables that use them.

use super::{DESCRIPTORS_MAX, ProtoDescriptor, ProtoMessage};
use crate::{ColumnPlace, Encoding, Error, ErrorKind, Result, Table, TableId};
use std::{collections::BTreeMap, sync::Arc};

type Descriptors = BTreeMap<u32, Arc<ProtoDescriptor>>;

/// Checks a new descriptor against those that its owner has.
pub(crate) fn check_new(there: &Descriptors, new: &ProtoDescriptor) -> Result<()> {
    if there.values().any(|other| other.name == new.name) {
        let message = format!("protobuf descriptor \"{}\" already exists", new.name);
        return Err(Error::new(ErrorKind::Duplicate, message).with_hint("CREATE OR REPLACE takes its place."));
    }
    if there.len() >= DESCRIPTORS_MAX {
        let message = format!("there are at most {DESCRIPTORS_MAX} protobuf descriptors");
        return Err(Error::new(ErrorKind::TooMuch, message).with_hint("One descriptor may have many messages."));
    }
    Ok(())
}

/// Puts a descriptor in the place of one with its OID.
pub(crate) fn replace(there: &mut Descriptors, new: &ProtoDescriptor) -> Result<()> {
    let found = there.get_mut(&new.id).filter(|old| old.name == new.name).ok_or_else(|| missing(&new.name))?;
    *found = Arc::new(new.clone());
    Ok(())
}

/// Takes a descriptor away.
pub(crate) fn remove(there: &mut Descriptors, id: u32) -> Result<Arc<ProtoDescriptor>> {
    there.remove(&id).ok_or_else(|| missing(&id.to_string()))
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NoObject, format!("protobuf descriptor \"{name}\" does not exist"))
}

/// The message of a column, if it is of the descriptor: one of the operator's if `shared`.
fn used<'a>(encoding: &'a Encoding, descriptor: &ProtoDescriptor, shared: bool) -> Option<&'a ProtoMessage> {
    encoding.message().filter(|message| message.is_shared() == shared && message.descriptor() == descriptor.name)
}

/// The first column that uses the descriptor.
fn user<'a>(table: &'a Table, descriptor: &ProtoDescriptor, shared: bool) -> Option<&'a str> {
    let uses = |place: &ColumnPlace| match place {
        ColumnPlace::Cell { encoding, .. } => used(encoding, descriptor, shared).is_some(),
        ColumnPlace::Key(_) | ColumnPlace::Open { .. } => false,
    };
    table.columns.iter().find(|column| uses(&column.place)).map(|column| column.name.as_str())
}

/// Whether a column of the tables uses the descriptor.
pub(crate) fn is_used<'a>(
    mut tables: impl Iterator<Item = &'a Arc<Table>>,
    descriptor: &ProtoDescriptor,
    shared: bool,
) -> bool {
    tables.any(|table| user(table, descriptor, shared).is_some())
}

/// Checks that no column of the tables uses a descriptor that is dropped.
///
/// # Errors
/// [`InUse`](ErrorKind::InUse), with the first of them; a tenant's own tables are not named to others.
pub(crate) fn check_unused<'a>(
    tables: impl Iterator<Item = &'a Arc<Table>>,
    descriptor: &ProtoDescriptor,
    shared: bool,
) -> Result<()> {
    for table in tables {
        let Some(column) = user(table, descriptor, shared) else { continue };
        let message = format!("cannot drop protobuf descriptor {} because other objects depend on it", descriptor.name);
        let detail = format!("Column {column} of table {} depends on it.", table.name);
        return Err(Error::new(ErrorKind::InUse, message)
            .with_detail(detail)
            .with_hint("Drop the columns that use it first."));
    }
    Ok(())
}

/// Gives the columns of the tables that use a descriptor the files of the new one.
///
/// # Errors
/// [`InUse`](ErrorKind::InUse) if what is stored in one would read in another way.
pub(crate) fn replace_in(
    tables: &mut BTreeMap<TableId, Arc<Table>>,
    descriptor: &ProtoDescriptor,
    shared: bool,
) -> Result<()> {
    for table in tables.values_mut() {
        if user(table, descriptor, shared).is_none() {
            continue;
        }
        let in_table = |error: Error, column: &str, table: &str| {
            let detail = error.detail.clone().unwrap_or_default();
            error.with_detail(format!("{detail} Column {column} of table {table} uses it."))
        };
        let table = Arc::make_mut(table);
        for column in &mut table.columns {
            if let ColumnPlace::Cell { encoding, .. } = &mut column.place
                && let Some(message) = used(encoding, descriptor, shared)
            {
                let replaced = message.replaced(descriptor);
                *encoding = Encoding::Protobuf(replaced.map_err(|error| in_table(error, &column.name, &table.name))?);
            }
        }
    }
    Ok(())
}

/// The message that `message` or `descriptor:message` names among descriptors, each with whether it is the operator's;
/// `take` takes it of one.
pub(crate) fn find<'a>(
    descriptors: impl Iterator<Item = (&'a Arc<ProtoDescriptor>, bool)>,
    named: &str,
    take: fn(&ProtoDescriptor, &str, bool) -> Option<ProtoMessage>,
) -> Result<ProtoMessage> {
    let (of, message) = match named.split_once(':') {
        Some((of, message)) => (Some(of), message),
        None => (None, named),
    };
    let (mut found, mut others): (Option<ProtoMessage>, Vec<String>) = (None, Vec::new());
    let mut is_there = false;
    for (descriptor, shared) in descriptors.filter(|(descriptor, _)| of.is_none_or(|of| of == descriptor.name)) {
        is_there = true;
        let Some(next) = take(descriptor, message, shared) else { continue };
        // The tenant's own come first: by its name, one of them hides the operator's.
        match &found {
            None => found = Some(next),
            Some(_) if of.is_some() => {}
            Some(_) => others.push(next.sql_name()),
        }
    }
    match (found, of) {
        (Some(found), _) if others.is_empty() => Ok(found),
        (Some(found), _) => {
            let all: Vec<String> = std::iter::once(found.sql_name()).chain(others).collect();
            Err(Error::new(ErrorKind::Ambiguous, format!("protobuf message \"{message}\" is ambiguous"))
                .with_detail(format!("Several descriptors have it: {}.", all.join(", ")))
                .with_hint("Name one: 'descriptor:message'."))
        }
        (None, Some(of)) if !is_there => Err(missing(of)),
        (None, _) => Err(Error::new(ErrorKind::NoObject, format!("protobuf message \"{message}\" does not exist"))
            .with_hint("Name it with its package, as in 'pkg.Message'. CREATE PROTO DESCRIPTOR makes messages known.")),
    }
}
