//! Writes that depend on the current row: check-and-mutate and read-modify-write, as functions of the row.

use super::check::{check, check_column, check_family, check_plain, check_value};
use crate::{
    Cell, CheckAndMutate, Error, FamilyName, Filter, Mutation, ReadModifyWrite, Result, RowKey, RowMutation, TableName,
    TableSchema, filter::CompiledFilter,
};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Checks both branches of a check-and-mutate and its predicate.
///
/// # Errors
/// [`Invalid`](Error::Invalid) when both branches are empty; what [`check`] and [`Filter::check`] find.
pub fn check_decision(
    table: &TableName,
    schema: &TableSchema,
    request: &CheckAndMutate,
    now_micros: i64,
) -> Result<()> {
    if request.then.is_empty() && request.otherwise.is_empty() {
        return Err(Error::Invalid("a check-and-mutate has no mutations".into()));
    }
    for branch in [&request.then, &request.otherwise].into_iter().filter(|branch| !branch.is_empty()) {
        let row = RowMutation { key: request.key.clone(), mutations: branch.clone() };
        check(table, schema, &row, now_micros)?;
    }
    request.predicate.as_ref().map_or(Ok(()), Filter::check)
}

/// Whether the predicate returns a cell of the row; `None` asks for any cell. The cells are the [live](super::live)
/// ones.
///
/// # Errors
/// Errors of [`Filter::check`].
pub fn holds(predicate: Option<&Filter>, key: &RowKey, cells: Vec<Cell>) -> Result<bool> {
    let left = match predicate {
        Some(filter) => CompiledFilter::new(filter)?.apply(key, cells),
        None => cells,
    };
    Ok(!left.is_empty())
}

/// The mutations of a read-modify-write: one [`Mutation::SetCell`] for each column, in the order of columns, still
/// without timestamps. Rules on the same column apply in order. The cells are the [live](super::live) ones.
///
/// # Errors
/// [`Invalid`](Error::Invalid) for no rules, for an aggregate family, and for an increment of a value that is not 8
/// bytes long; [`NoFamily`](Error::NoFamily); [`TooLarge`](Error::TooLarge).
pub fn modify(
    table: &TableName,
    schema: &TableSchema,
    cells: &[Cell],
    rules: &[ReadModifyWrite],
) -> Result<Vec<Mutation>> {
    if rules.is_empty() {
        return Err(Error::Invalid("a read-modify-write has no rules".into()));
    }
    super::check_count(rules.len())?;
    let mut written: BTreeMap<(FamilyName, Bytes), Bytes> = BTreeMap::new();
    for rule in rules {
        let (ReadModifyWrite::Append { family, qualifier, .. } | ReadModifyWrite::Increment { family, qualifier, .. }) =
            rule;
        check_family(table, schema, family)?;
        check_plain(schema, family)?;
        check_column(qualifier)?;
        let column = (family.clone(), qualifier.clone());
        let newest = || cells.iter().find(|cell| cell.family == *family && cell.qualifier == *qualifier);
        let old = written.get(&column).cloned().or_else(|| newest().map(|cell| cell.value.clone()));
        let value = match rule {
            ReadModifyWrite::Append { value, .. } => {
                let appended: Bytes = [old.as_deref().unwrap_or_default(), value].concat().into();
                check_value(&appended)?;
                appended
            }
            ReadModifyWrite::Increment { by, .. } => incremented(old.as_deref(), *by)?,
        };
        written.insert(column, value);
    }
    let set = |((family, qualifier), value)| Mutation::SetCell { family, qualifier, timestamp: None, value };
    Ok(written.into_iter().map(set).collect())
}

fn incremented(old: Option<&[u8]>, by: i64) -> Result<Bytes> {
    let old = match old {
        None => 0,
        Some(value) => i64::from_be_bytes(value.try_into().map_err(|_| {
            Error::Invalid(format!("a value of {} bytes cannot be incremented: it must have 8", value.len()))
        })?),
    };
    Ok(Bytes::copy_from_slice(&old.wrapping_add(by).to_be_bytes()))
}

/// The cells that [resolved](super::resolve) [`Mutation::SetCell`]s write, in [order](Cell::order): the answer of a
/// read-modify-write.
pub fn written(mutations: Vec<Mutation>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = mutations
        .into_iter()
        .filter_map(|mutation| match mutation {
            Mutation::SetCell { family, qualifier, timestamp, value } => {
                Some(Cell { family, qualifier, timestamp: timestamp.unwrap_or_default(), value })
            }
            _ => None,
        })
        .collect();
    cells.sort_by(Cell::order);
    cells
}
