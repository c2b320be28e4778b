//! What the console shows of the store: tables with their tablets and segments, compactions, memory, requests to the
//! object store. The same as `keyspan.tablets`, `keyspan.segments`, `keyspan.compactions`, `keyspan.memory` and
//! `keyspan.object_store` have, of which lists show a bounded part.

use crate::instance::Instance;
use keyspan_catalog::{Snapshot, key::key_text};
use keyspan_storage::{
    TableName,
    inspect::{CompactionInfo, CompactionState, Inspection, RequestInfo, TabletInfo},
};
use serde_json::{Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

/// Tables that are listed, the largest first.
const TABLES_MAX: usize = 100;
/// Tablets that are listed, those with most deltas first.
const TABLETS_MAX: usize = 100;
/// Compactions that are listed, the running ones and then the latest.
const COMPACTIONS_MAX: usize = 50;

/// The inside of the store.
pub(crate) fn store(instance: &Instance) -> Value {
    let inside = instance.catalog.store().inspect();
    let areas = instance.resources.areas(inside.as_ref());
    let memory: Vec<Value> =
        areas.iter().map(|area| json!({"area": area.name, "bytes": area.bytes, "limit": area.limit_bytes})).collect();
    let Some(inside) = inside else { return json!({ "memory": memory }) };
    let snapshot = instance.catalog.snapshot();
    let names = Names::of(&snapshot);
    let (work, mut tablets) = (&inside.work, inside.tablets.iter().collect::<Vec<_>>());
    tablets.sort_by_key(|tablet| (Reverse(tablet.deltas), Reverse(tablet.bytes)));
    let mut compactions: Vec<_> = inside.compactions.iter().rev().collect();
    compactions.sort_by_key(|compaction| compaction.state != CompactionState::Running);
    json!({
        "memory": memory,
        "tables": tables(&inside, &names),
        "tablets": tablets.iter().take(TABLETS_MAX).map(|one| tablet(one, &names)).collect::<Vec<_>>(),
        "tablets_count": tablets.len(),
        "segments_count": inside.segments.len(),
        "compactions": compactions.iter().take(COMPACTIONS_MAX).map(|one| compaction(one, &names)).collect::<Vec<_>>(),
        "compactions_count": work.compactions,
        "requests": inside.requests.iter().map(request).collect::<Vec<_>>(),
        "commits": work.commits, "log_writes": work.log_writes, "log_bytes": work.log_bytes,
        "log_millis": work.log_nanos / 1_000_000, "flushes": work.flushes, "pins": inside.pins,
        "stopped": inside.stopped,
    })
}

/// The names that SQL has for tables of the store.
struct Names<'a>(HashMap<&'a TableName, &'a str>);

impl<'a> Names<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        Self(snapshot.tables.values().map(|table| (&table.physical, table.name.as_str())).collect())
    }

    /// The catalog's tables, and those that are being made or dropped, have none: theirs is the store's.
    fn name(&self, stored: &TableName) -> String {
        let past_of = stored.of_history();
        let of = past_of.as_ref().unwrap_or(stored);
        let name = self.0.get(of).map_or_else(|| of.to_string(), |name| (*name).to_owned());
        if past_of.is_some() { format!("{name} (history)") } else { name }
    }
}

#[derive(Default)]
struct Sum {
    tablets: u64,
    segments: u64,
    deltas: u64,
    rows: u64,
    dead_rows: u64,
    bytes: u64,
}

fn tables(inside: &Inspection, names: &Names<'_>) -> Vec<Value> {
    let mut sums: BTreeMap<&TableName, Sum> = BTreeMap::new();
    for tablet in &inside.tablets {
        let sum = sums.entry(&tablet.table).or_default();
        sum.tablets += 1;
        sum.segments += tablet.segments;
        sum.deltas += tablet.deltas;
        sum.rows += tablet.rows;
        sum.dead_rows += tablet.dead_rows;
        sum.bytes += tablet.bytes;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| Reverse(sum.bytes));
    let one = |(table, sum): &(&TableName, Sum)| {
        json!({
            "table": names.name(table), "tablets": sum.tablets, "segments": sum.segments, "deltas": sum.deltas,
            "rows": sum.rows, "dead_rows": sum.dead_rows, "bytes": sum.bytes,
        })
    };
    sums.iter().take(TABLES_MAX).map(one).collect()
}

fn tablet(tablet: &TabletInfo, names: &Names<'_>) -> Value {
    json!({
        "table": names.name(&tablet.table), "start": key_text(&tablet.start),
        "until": tablet.end.as_ref().map(|end| key_text(end)), "segments": tablet.segments, "deltas": tablet.deltas,
        "rows": tablet.rows, "dead_rows": tablet.dead_rows, "bytes": tablet.bytes,
    })
}

fn compaction(compaction: &CompactionInfo, names: &Names<'_>) -> Value {
    json!({
        "table": names.name(&compaction.table), "tablet": key_text(&compaction.tablet), "reason": compaction.reason,
        "state": compaction.state.name(), "started_at": compaction.started_micros / 1_000,
        "finished_at": compaction.finished_micros.map(|micros| micros / 1_000),
        "bytes_read": compaction.bytes_read, "bytes_written": compaction.bytes_written,
        "rows_in": compaction.rows_in, "rows_out": compaction.rows_out, "error": compaction.error,
    })
}

fn request(info: &RequestInfo) -> Value {
    json!({"kind": info.kind.name(), "requests": info.requests, "failures": info.failures, "bytes": info.bytes})
}
