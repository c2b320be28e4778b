//! Protobuf messages that are updated: what their descriptor does not know is kept.
//!
//! A statement gives such a column a jsonb, which has the fields that the descriptor knows. The message that is stored
//! may have others, of a newer descriptor. They are read, for the rows that are updated, and go into the new bytes. A
//! message that is given as bytes is whole, and takes the place of what is there.

use super::{
    insert::LOOKUP_ROWS,
    target::{Place, Target, TargetColumn},
};
use crate::{pg::error::Result, view::View, write_set::WriteSet};
use bytes::Bytes;
use futures::TryStreamExt;
use keyspan_catalog::Value;
use keyspan_storage::{Columns, FamilyName, KeyRange, Mutation, Row, RowKey, RowSet, Scan, scan::FamilyColumns};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a column's new value is to keep what its descriptor does not know of the old one.
pub(super) fn keeps_unknown(column: &TargetColumn, value: &Value) -> bool {
    column.message().is_some() && matches!(value, Value::Text(_))
}

/// Puts what is to be kept into the messages that a statement writes.
///
/// # Errors
/// The store's; 54000 for a message or a commit that is too large.
pub(super) async fn keep_unknown(view: &View, target: &Target, written: &mut WriteSet) -> Result<()> {
    let updated = std::mem::take(&mut written.messages);
    for chunk in updated.chunks(LOOKUP_ROWS) {
        let places: BTreeSet<usize> = chunk.iter().map(|(_, place)| *place).collect();
        let stored = stored(view, target, &places, chunk).await?;
        for (key, place) in chunk {
            let column = &target.columns[*place];
            let (Some(message), Some(cell)) = (column.message(), cell(column)) else { continue };
            let old = stored.get(key).and_then(|row| row.newest(cell.0.as_str(), cell.1));
            let new = written.value(&target.table, key, cell).cloned();
            let (Some(old), Some(new)) = (old, new) else { continue };
            let kept = message.keep_unknown(new.clone(), &old.value)?;
            if kept != new {
                written.set_value(&target.table, key, cell, kept)?;
            }
        }
    }
    Ok(())
}

/// The same for a column of one row: what is to be kept goes into the message that its mutations write.
///
/// # Errors
/// For a message that is too large.
pub(super) fn keep_unknown_of(column: &TargetColumn, stored: &Row, mutations: &mut [Mutation]) -> Result<()> {
    let (Some(message), Some(cell)) = (column.message(), cell(column)) else { return Ok(()) };
    let Some(old) = stored.newest(cell.0.as_str(), cell.1) else { return Ok(()) };
    let new = mutations.iter_mut().rev().find_map(|mutation| match mutation {
        Mutation::SetCell { family, qualifier, value, .. } if (&*family, &*qualifier) == cell => Some(value),
        _ => None,
    });
    if let Some(new) = new {
        *new = message.keep_unknown(new.clone(), &old.value)?;
    }
    Ok(())
}

/// The rows as they are, with the cells of some columns.
async fn stored(
    view: &View,
    target: &Target,
    places: &BTreeSet<usize>,
    rows: &[(RowKey, usize)],
) -> Result<BTreeMap<RowKey, Row>> {
    let mut families: BTreeMap<&FamilyName, BTreeSet<&Bytes>> = BTreeMap::new();
    for (family, qualifier) in places.iter().filter_map(|place| cell(&target.columns[*place])) {
        families.entry(family).or_default().insert(qualifier);
    }
    let of_family = |(family, qualifiers): (&FamilyName, BTreeSet<&Bytes>)| FamilyColumns {
        family: family.clone(),
        qualifiers: Some(qualifiers.into_iter().cloned().collect()),
    };
    let columns = Columns::Of(families.into_iter().map(of_family).collect());
    let points = RowSet::new(rows.iter().map(|(key, _)| KeyRange::point(key)));
    let scan = Scan { columns, versions_max: Some(1), ..Scan::of(points) };
    let found: Vec<Row> = view.scan(&target.table, scan).try_concat().await?;
    Ok(found.into_iter().map(|row| (row.key.clone(), row)).collect())
}

fn cell(column: &TargetColumn) -> Option<(&FamilyName, &Bytes)> {
    match &column.place {
        Place::Cell { family, qualifier, .. } => Some((family, qualifier)),
        Place::Key(_) | Place::Open { .. } => None,
    }
}
