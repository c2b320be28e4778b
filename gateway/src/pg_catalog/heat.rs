//! `keyspan.heat`: which keys were read and written, and when.
//!
//! A tenant sees the ranges within its own span, without the span. The operator sees all, with keys as the store has
//! them.

use super::{
    columns::{Cell, Row},
    objects::count,
};
use crate::{
    context::StatementContext,
    heat::{cells, history::Period},
    pg_catalog::columns::row,
};
use keyspan_catalog::{Snapshot, Table, TableId, TenantState, key::key_text};
use keyspan_storage::KeyRange;
use std::{collections::HashMap, sync::Arc};

/// The rows of `keyspan.heat`.
pub(super) fn rows(statement: &StatementContext) -> Vec<Row> {
    let (Some(instance), Some(store)) = (&statement.instance, &statement.rows) else { return Vec::new() };
    let own = store.oid();
    if !statement.operator && own.is_none() {
        return Vec::new();
    }
    let active = statement.snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
    let names: HashMap<u32, &str> = active.map(|tenant| (tenant.oid, tenant.id.as_str())).collect();
    let now = Period::minute_of(instance.clock.now_micros());
    // What is dropped is shown to nobody, even if it is about to be forgotten only.
    let is_shown = |cell: &cells::Cell| match cell.tenant {
        Some(tenant) => names.contains_key(&tenant) && (statement.operator || own == Some(tenant)),
        None => statement.operator,
    };
    let found = instance.heat.cells(now, |_, cell| is_shown(cell));
    let mut tables: HashMap<(u32, Option<u32>), Option<Arc<Table>>> = HashMap::new();
    let one = |(period, cell): (Period, cells::Cell)| {
        let known = tables.entry((cell.table, cell.tenant));
        let table =
            known.or_insert_with(|| table(&statement.snapshot, &cell, cell.tenant.and_then(|oid| names.get(&oid))));
        let table = table.as_ref()?;
        let stored = KeyRange { start: cell.from.clone(), end: cell.to.clone() };
        let range = if statement.operator { stored } else { store.stored_keys(table).without_span(&stored)? };
        let tenant = cell.tenant.and_then(|oid| names.get(&oid)).map(|name| (*name).to_owned());
        let end = range.end.as_ref();
        Some(row! {
            "oid" => cell.tenant, "tenant" => tenant, "table_oid" => cell.table, "table_name" => table.name.as_str(),
            "from_key" => key_text(&range.start), "to_key" => end.map(|end| key_text(end)),
            "from_bytes" => Cell::Bytes(range.start.to_vec()),
            "to_bytes" => end.map_or(Cell::Null, |end| Cell::Bytes(end.to_vec())),
            "from_time" => Cell::Micros(period.start_micros()), "to_time" => Cell::Micros(period.end_micros()),
            "reads" => count(cell.counts.reads), "writes" => count(cell.counts.writes),
            "bytes_read" => count(cell.counts.bytes_read), "bytes_written" => count(cell.counts.bytes_written),
        })
    };
    found.into_iter().filter_map(one).collect()
}

/// The table of a cell: a shared one, or one of the tenant's own.
fn table(snapshot: &Snapshot, cell: &cells::Cell, tenant: Option<&&str>) -> Option<Arc<Table>> {
    let id = TableId(cell.table);
    let private = || {
        let own = snapshot.private.iter().find(|(id, _)| tenant.is_some_and(|name| id.as_str() == *name))?.1;
        own.tables.get(&id).cloned().or_else(|| own.views.get(&id.0)?.table().map(Arc::new))
    };
    snapshot.tables.get(&id).cloned().or_else(private)
}
