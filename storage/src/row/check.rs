//! Checks a request against the data model, before anything of it is applied.

use crate::{
    Aggregate, Error, FamilyName, LoadColumn, Mutation, Result, RowMutation, TableName, TableSchema, aggregate,
    model::limits::{
        CELL_BYTES_MAX, CELL_BYTES_SOFT, MUTATIONS_MAX, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, TIMESTAMP_AHEAD_MAX_MICROS,
    },
};
use bytes::Bytes;

/// Checks the mutations of one row against the table and the limits.
///
/// # Errors
/// [`NoFamily`](Error::NoFamily); [`TooLarge`](Error::TooLarge) for a qualifier, a value, or the total size;
/// [`TooMany`](Error::TooMany) mutations; [`Invalid`](Error::Invalid) for no mutations, a mutation that the family's
/// kind does not take, an invalid state, and a timestamp that is negative or more than [`TIMESTAMP_AHEAD_MAX_MICROS`]
/// after `now_micros`.
pub fn check(table: &TableName, schema: &TableSchema, row: &RowMutation, now_micros: i64) -> Result<()> {
    if row.mutations.is_empty() {
        return Err(Error::Invalid("a row is given without mutations".into()));
    }
    check_count(row.mutations.len())?;
    // More than the limit of a row would also exceed what a log takes at once.
    let size = row.mutations.iter().map(Mutation::size).sum::<usize>();
    if size > ROW_BYTES_MAX {
        return Err(Error::TooLarge { what: "a row", size, limit: ROW_BYTES_MAX });
    }
    row.mutations.iter().try_for_each(|mutation| check_mutation(table, schema, mutation, now_micros))
}

/// Checks the number of mutations in one request, over all its rows.
///
/// # Errors
/// [`TooMany`](Error::TooMany) above [`MUTATIONS_MAX`].
pub fn check_count(count: usize) -> Result<()> {
    if count > MUTATIONS_MAX {
        return Err(Error::TooMany { what: "mutations", count, limit: MUTATIONS_MAX });
    }
    Ok(())
}

/// Checks the columns of a load.
///
/// # Errors
/// [`NoFamily`](Error::NoFamily); [`Invalid`](Error::Invalid) for an aggregate family and a column that is named twice;
/// [`TooLarge`](Error::TooLarge) for a qualifier.
pub fn check_load(table: &TableName, schema: &TableSchema, columns: &[LoadColumn]) -> Result<()> {
    for (at, LoadColumn { family, qualifier }) in columns.iter().enumerate() {
        check_family(table, schema, family)?;
        check_plain(schema, family)?;
        qualifier.as_ref().map_or(Ok(()), check_column)?;
        if let Some(qualifier) = qualifier
            && schema.is_erased(family, qualifier)
        {
            return Err(erased_column(family, qualifier));
        }
        if qualifier.is_some() && columns[..at].last().is_some_and(|before| before.qualifier.is_none()) {
            return Err(Error::Invalid("a column of a load comes after a whole family".into()));
        }
        if columns[..at].contains(&columns[at]) {
            return Err(Error::Invalid(format!("a column of family {family:?} is named twice")));
        }
    }
    Ok(())
}

/// The aggregate of a family.
///
/// # Errors
/// [`Invalid`](Error::Invalid) for a missing family, or one that is not an aggregate.
pub(super) fn aggregate_of(schema: &TableSchema, family: &FamilyName) -> Result<Aggregate> {
    let found = schema.families.get(family).and_then(|family| family.aggregate);
    found.ok_or_else(|| Error::Invalid(format!("family {family:?} is not an aggregate family")))
}

/// # Errors
/// [`NoFamily`](Error::NoFamily).
pub(super) fn check_family(table: &TableName, schema: &TableSchema, family: &FamilyName) -> Result<()> {
    if !schema.families.contains_key(family) {
        return Err(Error::NoFamily { table: table.to_string(), family: family.to_string() });
    }
    Ok(())
}

fn check_mutation(table: &TableName, schema: &TableSchema, mutation: &Mutation, now_micros: i64) -> Result<()> {
    if let Some(family) = mutation.family() {
        check_family(table, schema, family)?;
    }
    check_erased(schema, mutation)?;
    match mutation {
        Mutation::SetCell { family, qualifier, timestamp, value } => {
            check_plain(schema, family)?;
            check_column(qualifier)?;
            check_timestamp(*timestamp, now_micros)?;
            check_value(value)
        }
        Mutation::AddToCell { family, qualifier, timestamp, .. } => {
            aggregate_of(schema, family)?;
            check_column(qualifier)?;
            check_timestamp(*timestamp, now_micros)
        }
        Mutation::MergeToCell { family, qualifier, timestamp, state } => {
            let kind = aggregate_of(schema, family)?;
            check_column(qualifier)?;
            check_timestamp(*timestamp, now_micros)?;
            aggregate::check(kind, state)
        }
        Mutation::DeleteFromColumn { qualifier, .. } => check_column(qualifier),
        Mutation::DeleteFromFamily { .. } | Mutation::DeleteFromRow => Ok(()),
    }
}

/// # Errors
/// [`ErasedColumn`](Error::ErasedColumn) for a write to a column whose old cells are not purged yet.
fn check_erased(schema: &TableSchema, mutation: &Mutation) -> Result<()> {
    if schema.erased.is_empty() {
        return Ok(());
    }
    match mutation {
        Mutation::SetCell { family, qualifier, .. }
        | Mutation::AddToCell { family, qualifier, .. }
        | Mutation::MergeToCell { family, qualifier, .. }
            if schema.is_erased(family, qualifier) =>
        {
            Err(erased_column(family, qualifier))
        }
        _ => Ok(()),
    }
}

fn erased_column(family: &FamilyName, qualifier: &[u8]) -> Error {
    Error::ErasedColumn { family: family.to_string(), qualifier: qualifier.escape_ascii().to_string() }
}

/// # Errors
/// [`Invalid`](Error::Invalid) for an aggregate family.
pub(super) fn check_plain(schema: &TableSchema, family: &FamilyName) -> Result<()> {
    if schema.families.get(family).is_some_and(|family| family.aggregate.is_some()) {
        return Err(Error::Invalid(format!("family {family:?} is an aggregate family: its cells cannot be set")));
    }
    Ok(())
}

/// # Errors
/// [`TooLarge`](Error::TooLarge) above [`QUALIFIER_BYTES_MAX`].
pub(super) fn check_column(qualifier: &Bytes) -> Result<()> {
    if qualifier.len() > QUALIFIER_BYTES_MAX {
        return Err(Error::TooLarge { what: "a qualifier", size: qualifier.len(), limit: QUALIFIER_BYTES_MAX });
    }
    Ok(())
}

/// # Errors
/// [`TooLarge`](Error::TooLarge) above [`CELL_BYTES_MAX`].
pub(super) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > CELL_BYTES_MAX {
        return Err(Error::TooLarge { what: "a cell", size: value.len(), limit: CELL_BYTES_MAX });
    }
    if value.len() > CELL_BYTES_SOFT {
        tracing::warn!(bytes = value.len(), advised = CELL_BYTES_SOFT, "a cell is larger than is advised");
    }
    Ok(())
}

fn check_timestamp(timestamp: Option<i64>, now_micros: i64) -> Result<()> {
    match timestamp {
        Some(timestamp) if timestamp < 0 => Err(Error::Invalid(format!("the timestamp {timestamp} is negative"))),
        Some(timestamp) if timestamp > now_micros.saturating_add(TIMESTAMP_AHEAD_MAX_MICROS) => {
            Err(Error::Invalid(format!("the timestamp {timestamp} lies more than a day ahead")))
        }
        _ => Ok(()),
    }
}
