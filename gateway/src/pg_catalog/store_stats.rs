//! The inside of the store, for the operator: `keyspan.segments`, `keyspan.tablets`, `keyspan.compactions`,
//! `keyspan.memory`, `keyspan.object_store`, `keyspan.clock`.
//!
//! Each is read when a statement names it: what the store tells then
//! ([`Store::inspect`](keyspan_storage::Store::inspect)), not what the statement's pin sees. A store that shows nothing
//! of itself gives no rows. The schema `keyspan` is not there for a tenant, so keys of others are shown to nobody.

use super::{
    columns::{Cell, Row},
    objects::count,
};
use crate::pg_catalog::columns::row;
use crate::{context::StatementContext, resources::Area};
use keyspan_catalog::key::key_text;
use keyspan_storage::{
    ClockInfo, TableName,
    inspect::{CompactionInfo, Inspection, RequestInfo, SegmentInfo, TabletInfo},
};

/// What the store shows of itself; `None` when it shows nothing, or to a tenant.
fn inspection(statement: &StatementContext) -> Option<Inspection> {
    statement.instance.as_ref().filter(|_| statement.operator)?.catalog.store().inspect()
}

/// The rows of `keyspan.segments`.
pub fn segments(statement: &StatementContext) -> Vec<Row> {
    let inside = inspection(statement);
    inside.iter().flat_map(|inside| &inside.segments).map(|info| segment(statement, info)).collect()
}

/// The rows of `keyspan.tablets`.
pub fn tablets(statement: &StatementContext) -> Vec<Row> {
    let inside = inspection(statement);
    inside.iter().flat_map(|inside| &inside.tablets).map(|info| tablet(statement, info)).collect()
}

/// The rows of `keyspan.compactions`.
pub fn compactions(statement: &StatementContext) -> Vec<Row> {
    let inside = inspection(statement);
    inside.iter().flat_map(|inside| &inside.compactions).map(|info| compaction(statement, info)).collect()
}

/// The rows of `keyspan.memory`.
pub fn memory(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = statement.instance.as_ref().filter(|_| statement.operator) else { return Vec::new() };
    let one = |area: Area| {
        row! { "area" => area.name, "bytes" => count(area.bytes), "limit_bytes" => area.limit_bytes.map(count) }
    };
    instance.resources.areas(instance.catalog.store().inspect().as_ref()).into_iter().map(one).collect()
}

/// The rows of `keyspan.object_store`: one for each kind of requests; none if segments are in a folder.
pub fn object_store(statement: &StatementContext) -> Vec<Row> {
    let one = |info: &RequestInfo| {
        row! {
            "kind" => info.kind.name(), "requests" => count(info.requests), "failures" => count(info.failures),
            "bytes" => count(info.bytes),
        }
    };
    inspection(statement).iter().flat_map(|inside| &inside.requests).map(one).collect()
}

/// The row of `keyspan.clock`.
pub fn clock(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = statement.instance.as_ref().filter(|_| statement.operator) else { return Vec::new() };
    let one = |info: ClockInfo| {
        row! {
            "store_time" => Cell::Micros(info.store_micros), "wall_time" => Cell::Micros(info.wall_micros),
            "held" => info.is_held,
        }
    };
    instance.catalog.store().clock().map(one).into_iter().collect()
}

/// The name that SQL has for a table of the store: its own for the catalog's, and for one that is being made or
/// dropped. A table's past has that of the table.
fn table_name(statement: &StatementContext, stored: &TableName) -> String {
    let past_of = stored.of_history();
    let stored = past_of.as_ref().unwrap_or(stored);
    let found = statement.snapshot.tables.values().find(|table| table.physical == *stored);
    found.map_or_else(|| stored.to_string(), |table| table.name.clone())
}

fn segment(statement: &StatementContext, info: &SegmentInfo) -> Row {
    row! {
        "table_name" => table_name(statement, &info.table), "stored_as" => info.table.to_string(),
        "segment" => format!("{:016x}", info.id), "tablet" => key_text(&info.tablet), "kind" => info.kind.name(),
        "rows" => count(info.rows), "dead_rows" => count(info.dead_rows), "bytes" => count(info.bytes),
        "side_bytes" => count(info.side_bytes), "first_key" => key_text(&info.first_key),
        "last_key" => key_text(&info.last_key), "written_at" => Cell::Micros(info.stamp_micros),
    }
}

fn tablet(statement: &StatementContext, info: &TabletInfo) -> Row {
    row! {
        "table_name" => table_name(statement, &info.table), "stored_as" => info.table.to_string(),
        "tablet" => key_text(&info.start), "until" => info.end.as_ref().map(|end| key_text(end)),
        "segments" => count(info.segments), "deltas" => count(info.deltas), "rows" => count(info.rows),
        "dead_rows" => count(info.dead_rows), "bytes" => count(info.bytes),
    }
}

fn compaction(statement: &StatementContext, info: &CompactionInfo) -> Row {
    row! {
        "id" => count(info.id), "table_name" => table_name(statement, &info.table), "stored_as" => info.table.to_string(),
        "tablet" => key_text(&info.tablet), "reason" => info.reason, "state" => info.state.name(),
        "started_at" => Cell::Micros(info.started_micros),
        "finished_at" => info.finished_micros.map_or(Cell::Null, Cell::Micros),
        "bytes_read" => count(info.bytes_read), "bytes_written" => count(info.bytes_written),
        "rows_read" => count(info.rows_in), "rows_written" => count(info.rows_out), "error" => info.error.clone(),
    }
}
