//! What `DROP COLUMN` and `DROP FAMILY` erase: counted before, for the certificate and for the dry run.

use crate::{pg::error::Result, session::Session};
use keyspan_catalog::{
    ColumnPlace, Erasure, ErasureKind, SpanSize, Table, TenantStore,
    erasure::Target,
    table::{Column, TableFamily},
};
use keyspan_storage::{Columns, FamilyName, HistorySize, KeyRange, Pin, Scan, scan::FamilyColumns};

/// A column or family that a change of a table drops, and what it holds. The history of the whole table begins anew
/// with a change of a shared table, and is counted with the first.
pub(super) struct Dropped {
    pub(super) kind: ErasureKind,
    pub(super) name: String,
    pub(super) family: FamilyName,
    /// `None` for a family.
    pub(super) qualifier: Option<String>,
    pub(super) size: SpanSize,
}

/// Counts what the change from one definition to the other drops, in the rows that the session may see.
///
/// # Errors
/// The store's.
pub(super) async fn count(rows: &TenantStore, pin: &Pin, (before, after): (&Table, &Table)) -> Result<Vec<Dropped>> {
    let columns = after.dropped_columns(before).filter_map(of_column);
    let families = after.dropped_families(before).map(of_family);
    let mut dropped: Vec<Dropped> = columns.chain(families).collect();
    for one in &mut dropped {
        let qualifiers = one.qualifier.clone().map(|qualifier| vec![qualifier.into()]);
        let columns = Columns::Of(vec![FamilyColumns { family: one.family.clone(), qualifiers }]);
        one.size = rows.size_of(before, Scan { columns, pin: Some(pin.clone()), ..Scan::all() }).await?;
    }
    if let Some(first) = dropped.first_mut() {
        let HistorySize { versions, bytes } = rows.history_size(before, &KeyRange::all(), pin).await?;
        (first.size.history_rows, first.size.history_bytes) = (versions, bytes);
    }
    Ok(dropped)
}

fn of_column(column: &Column) -> Option<Dropped> {
    let ColumnPlace::Cell { family, qualifier, .. } = &column.place else { return None };
    Some(Dropped {
        kind: ErasureKind::Column,
        name: column.name.clone(),
        family: family.clone(),
        qualifier: Some(qualifier.clone()),
        size: SpanSize::default(),
    })
}

fn of_family(family: &TableFamily) -> Dropped {
    Dropped {
        kind: ErasureKind::Family,
        name: family.name.to_string(),
        family: family.name.clone(),
        qualifier: None,
        size: SpanSize::default(),
    }
}

/// The orders to erase them, of which a target is made for each.
pub(super) fn orders(
    session: &Session,
    table: &Table,
    dropped: &[Dropped],
    requested_micros: i64,
    target: impl Fn(&Dropped) -> Target,
) -> Vec<Erasure> {
    let order =
        |one: &Dropped| session.erasure((one.kind, target(one)), table, one.name.clone(), one.size, requested_micros);
    dropped.iter().map(order).collect()
}

/// The target in a shared table.
pub(super) fn shared_target(table: &Table, dropped: &Dropped) -> Target {
    let columns = dropped.qualifier.iter().map(|qualifier| (dropped.family.clone(), qualifier.clone())).collect();
    Target::Cells { physical: table.physical.clone(), columns }
}
