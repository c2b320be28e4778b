//! The page of metrics, in the text form that Prometheus reads
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>): [`page`].
//!
//! It is made of counters and of what the store tells of itself; no row is read for it, and it holds no key and no
//! value. Names follow Prometheus' conventions: a unit at the end, `_total` behind what only grows. Of tenants only the
//! [`TENANTS_MAX`] that have read and written most are named, so that the page stays of one size.

use crate::{
    activity::Activity,
    instance::Instance,
    resources,
    shares::{Share, usage::Amounts},
    statistics::{BOUNDS_MICROS, Kind},
};
use keyspan_storage::inspect::{CompactionState, Inspection, RequestInfo, SegmentKind};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

/// Tenants whose usage is told.
pub const TENANTS_MAX: usize = 50;

/// Tables whose size is told.
pub const TABLES_MAX: usize = 50;

/// The value of the label `tenant` for what operators do: no tenant is called so.
const OPERATOR: &str = "(operator)";

/// How a value may change.
#[derive(Clone, Copy)]
enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// The text of a page under way.
struct Page(String);

impl Page {
    /// Begins a metric.
    fn metric(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A value with labels.
    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            for character in text.chars() {
                match character {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A metric of one value.
    fn single(&mut self, name: &str, kind: Type, help: &str, value: impl std::fmt::Display) {
        self.metric(name, kind, help);
        self.value(name, &[], value);
    }

    /// A metric of values that one label tells apart.
    fn labelled<'a, V: std::fmt::Display>(
        &mut self,
        (name, label): (&str, &str),
        kind: Type,
        help: &str,
        values: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        self.metric(name, kind, help);
        for (text, value) in values {
            self.value(name, &[(label, text)], value);
        }
    }
}

/// Seconds of microseconds, without loss.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The page of an instance as it is now; `connections_max` is how many connections there may be.
pub fn page(instance: &Instance, connections_max: usize) -> String {
    let mut page = Page(String::with_capacity(16 << 10));
    page.labelled(
        ("keyspan_info", "version"),
        Type::Gauge,
        "The version of the server; always 1.",
        [(env!("CARGO_PKG_VERSION"), 1)],
    );
    connections(&mut page, instance, connections_max);
    statements(&mut page, instance);
    memory(&mut page, instance);
    if let Some(inside) = instance.catalog.store().inspect() {
        store(&mut page, instance, &inside);
    }
    tenants(&mut page, instance);
    page.0
}

fn connections(page: &mut Page, instance: &Instance, connections_max: usize) {
    let (statistics, traces) = (&instance.statistics, &instance.traces);
    let mut states: BTreeMap<&str, usize> =
        ["active", "idle", "idle in transaction", "idle in transaction (aborted)"].map(|state| (state, 0)).into();
    let all = instance.activities.all();
    all.iter().for_each(|activity| *states.entry(activity.state).or_default() += 1);
    page.labelled(("keyspan_connections", "state"), Type::Gauge, "Sessions by what they do.", states);
    let help = "Connections that may be open, those that log in included.";
    page.single("keyspan_connections_max", Type::Gauge, help, connections_max);
    let oldest = |began: fn(&Activity) -> Option<i64>| {
        let now = instance.clock.now_micros();
        let micros = all.iter().filter_map(began).map(|began| now.saturating_sub(began)).max().unwrap_or_default();
        seconds(u64::try_from(micros).unwrap_or_default())
    };
    let help = "Age of the oldest transaction that is open.";
    let age = oldest(|activity| activity.transaction_micros);
    page.single("keyspan_oldest_transaction_seconds", Type::Gauge, help, age);
    for (name, help, counter) in [
        ("keyspan_connections_accepted_total", "Connections that were accepted.", &statistics.accepted),
        ("keyspan_connections_refused_total", "Connections that found no place.", &statistics.refused),
        ("keyspan_log_ins_refused_total", "Log-ins that were refused.", &statistics.log_ins_refused),
        ("keyspan_http_refused_total", "Requests by HTTP with a wrong password or token.", &statistics.http_refused),
        ("keyspan_received_bytes_total", "Bytes that clients have sent.", &statistics.bytes_received),
        ("keyspan_sent_bytes_total", "Bytes that clients were sent.", &statistics.bytes_sent),
        ("keyspan_sent_rows_total", "Rows that clients were sent.", &statistics.rows_sent),
    ] {
        page.single(name, Type::Counter, help, counter.get());
    }
    let help = "Spans that the collector of traces has taken.";
    page.single("keyspan_spans_sent_total", Type::Counter, help, traces.sent());
    let help = "Spans that it did not take, or that found no place in the queue.";
    page.single("keyspan_spans_dropped_total", Type::Counter, help, traces.dropped());
}

fn statements(page: &mut Page, instance: &Instance) {
    const TIMES: &str = "keyspan_statement_seconds";
    let statistics = &instance.statistics;
    page.metric(TIMES, Type::Histogram, "Statements by kind and the time from their start to their last row.");
    let (bucket, sum, count) = (format!("{TIMES}_bucket"), format!("{TIMES}_sum"), format!("{TIMES}_count"));
    for kind in Kind::ALL {
        let (counts, micros) = statistics.statements(kind).0.read();
        let mut all = 0;
        for (of, bound) in counts.iter().zip(BOUNDS_MICROS) {
            all += of;
            page.value(&bucket, &[("kind", kind.name()), ("le", &seconds(bound))], all);
        }
        all += counts[BOUNDS_MICROS.len()];
        page.value(&bucket, &[("kind", kind.name()), ("le", "+Inf")], all);
        page.value(&sum, &[("kind", kind.name())], seconds(micros));
        page.value(&count, &[("kind", kind.name())], all);
    }
    let failed = Kind::ALL.map(|kind| (kind.name(), statistics.statements(kind).1));
    let help = "Statements that failed, by kind.";
    page.labelled(("keyspan_statements_failed_total", "kind"), Type::Counter, help, failed);
    let help = "Errors that clients were told, by the class of the SQLSTATE.";
    page.labelled(("keyspan_errors_total", "class"), Type::Counter, help, statistics.errors());
}

fn memory(page: &mut Page, instance: &Instance) {
    let resources = &instance.resources;
    if let Some((now, _)) = resources::process_bytes() {
        page.single("process_resident_memory_bytes", Type::Gauge, "Memory of the process.", now);
    }
    let (temporary, temporary_max) = resources.temp_bytes();
    for (name, help, value) in [
        ("keyspan_query_memory_bytes", "Memory that running queries have reserved.", resources.query_bytes()),
        ("keyspan_query_memory_max_bytes", "Memory that queries may take.", resources.memory.query_bytes),
        ("keyspan_temporary_bytes", "Temporary files of running queries.", temporary),
        ("keyspan_temporary_max_bytes", "What temporary files may take.", temporary_max),
    ] {
        page.single(name, Type::Gauge, help, value);
    }
}

fn store(page: &mut Page, instance: &Instance, inside: &Inspection) {
    let (memory, work, budget) = (&inside.memory, &inside.work, instance.resources.memory.budget());
    let writable = u8::from(inside.stopped.is_none());
    let help = "Whether the store takes writes; 0 after a failed write of the log.";
    page.single("keyspan_store_writable", Type::Gauge, help, writable);
    let help = "Rows of commits that no segment has yet: those that are written to, and those that are being flushed.";
    let memtables = [("active", memory.memtable_bytes), ("flushing", memory.frozen_bytes)];
    page.labelled(("keyspan_memtable_bytes", "state"), Type::Gauge, help, memtables);
    page.single("keyspan_memtable_max_bytes", Type::Gauge, "Size at which it is flushed.", budget.memtable_bytes);
    page.single("keyspan_log_bytes", Type::Gauge, "Files of the log.", memory.log_bytes);
    for (name, help, value) in [
        ("keyspan_commits_total", "Commits that the log took.", work.commits),
        ("keyspan_log_writes_total", "Writes of the log, each synced, of one or more commits.", work.log_writes),
        ("keyspan_log_written_bytes_total", "Bytes that were written to the log.", work.log_bytes),
        ("keyspan_flushes_total", "Memtables that were written to segments.", work.flushes),
        ("keyspan_compactions_total", "Compactions that have begun.", work.compactions),
        ("keyspan_compaction_written_bytes_total", "Bytes that compactions have written.", work.compaction_bytes),
    ] {
        page.single(name, Type::Counter, help, value);
    }
    let help = "Time that writing and syncing the log took.";
    page.single("keyspan_log_write_seconds_total", Type::Counter, help, seconds(work.log_nanos / 1_000));
    let running = inside.compactions.iter().filter(|info| info.state == CompactionState::Running).count();
    page.single("keyspan_compactions_running", Type::Gauge, "Compactions under way.", running);
    let failed = inside.compactions.iter().filter(|info| info.state == CompactionState::Failed).count();
    let help = "Compactions that failed, among the last 256.";
    page.single("keyspan_compactions_failed", Type::Gauge, help, failed);
    page.single("keyspan_pins", Type::Gauge, "States of the store that statements hold.", inside.pins);

    let caches = [
        ("rows", work.row_cache, memory.row_cache_bytes, budget.row_cache_bytes),
        ("pages", work.page_cache, memory.page_cache_bytes, budget.page_cache_bytes),
        ("footers", work.footer_cache, memory.footer_cache_bytes, budget.footer_cache_bytes),
    ];
    let of = |which: fn(&(&'static str, keyspan_storage::inspect::CacheUse, u64, u64)) -> u64| {
        caches.map(move |cache| (cache.0, which(&cache)))
    };
    let label = |name: &'static str| (name, "cache");
    page.labelled(label("keyspan_cache_hits_total"), Type::Counter, "What a cache had.", of(|cache| cache.1.hits));
    let help = "What a cache did not have.";
    page.labelled(label("keyspan_cache_misses_total"), Type::Counter, help, of(|cache| cache.1.misses));
    page.labelled(label("keyspan_cache_bytes"), Type::Gauge, "Bytes in a cache.", of(|cache| cache.2));
    page.labelled(label("keyspan_cache_max_bytes"), Type::Gauge, "Bytes that may be.", of(|cache| cache.3));
    requests(page, inside);
    segments(page, instance, inside);
}

fn requests(page: &mut Page, inside: &Inspection) {
    if inside.requests.is_empty() {
        return;
    }
    type Of = fn(&RequestInfo) -> u64;
    let metrics: [(&str, &str, Of); 3] = [
        ("requests", "Requests to the object store of the segments, retries not counted.", |info| info.requests),
        ("failures", "Those that failed after all retries.", |info| info.failures),
        ("bytes", "Bytes of objects that were read or written.", |info| info.bytes),
    ];
    for (what, help, of) in metrics {
        let name = format!("keyspan_object_store_{what}_total");
        let values = inside.requests.iter().map(|info| (info.kind.name(), of(info)));
        page.labelled((&name, "kind"), Type::Counter, help, values);
    }
}

fn segments(page: &mut Page, instance: &Instance, inside: &Inspection) {
    let sum = |of: fn(&keyspan_storage::inspect::SegmentInfo) -> u64| {
        [SegmentKind::Base, SegmentKind::Delta].map(move |kind| {
            let segments = inside.segments.iter().filter(move |segment| segment.kind == kind);
            (kind.name(), segments.map(of).sum::<u64>())
        })
    };
    let label = |name: &'static str| (name, "kind");
    page.labelled(label("keyspan_segments"), Type::Gauge, "Files of rows, by kind.", sum(|_| 1));
    let help = "Bytes of segments and of what lies beside them.";
    let bytes = sum(|segment| segment.bytes + segment.side_bytes);
    page.labelled(label("keyspan_segment_bytes"), Type::Gauge, help, bytes);
    let help = "Rows in segments, dead ones included.";
    page.labelled(label("keyspan_segment_rows"), Type::Gauge, help, sum(|segment| segment.rows));
    let help = "Rows in segments that are deleted, or newer elsewhere.";
    page.labelled(label("keyspan_segment_dead_rows"), Type::Gauge, help, sum(|segment| segment.dead_rows));
    page.single("keyspan_tablets", Type::Gauge, "Parts of tables that are compacted alone.", inside.tablets.len());

    let mut tables: BTreeMap<String, u64> = BTreeMap::new();
    let snapshot = instance.catalog.snapshot();
    let shared: BTreeMap<&str, &str> =
        snapshot.tables.values().map(|table| (table.physical.as_str(), table.name.as_str())).collect();
    for tablet in &inside.tablets {
        // A table's past counts to the table.
        let past_of = tablet.table.of_history();
        let stored = past_of.as_ref().unwrap_or(&tablet.table).as_str();
        *tables.entry((*shared.get(stored).unwrap_or(&stored)).to_owned()).or_default() += tablet.bytes;
    }
    let mut tables: Vec<_> = tables.into_iter().collect();
    tables.sort_by(|(a, a_bytes), (b, b_bytes)| b_bytes.cmp(a_bytes).then(a.cmp(b)));
    tables.truncate(TABLES_MAX);
    let help = "Bytes of the segments of the largest tables; `private` holds the tenants' own.";
    let tables = tables.iter().map(|(name, bytes)| (name.as_str(), *bytes));
    page.labelled(("keyspan_table_bytes", "table"), Type::Gauge, help, tables);
}

/// A tenant on the page: its name, what it has used, what is stored of it, its sessions.
struct Line {
    name: String,
    amounts: Amounts,
    stored_bytes: Option<u64>,
    connections: u32,
}

fn tenants(page: &mut Page, instance: &Instance) {
    let snapshot = instance.catalog.snapshot();
    let names: BTreeMap<u32, &str> = snapshot.tenants.values().map(|tenant| (tenant.oid, tenant.id.as_str())).collect();
    page.single("keyspan_tenants", Type::Gauge, "Tenants.", names.len());
    let total = instance.shares.total();
    for (name, help, value) in [
        ("keyspan_read_rows_total", "Rows that were read from the store.", total.rows_read),
        ("keyspan_read_bytes_total", "Bytes that were read from the store.", total.bytes_read),
        ("keyspan_written_rows_total", "Rows that were written to the store.", total.rows_written),
        ("keyspan_written_bytes_total", "Bytes that were written to the store.", total.bytes_written),
        ("keyspan_quota_refusals_total", "What quotas have refused.", total.refusals),
    ] {
        page.single(name, Type::Counter, help, value);
    }
    let line = |share: Arc<Share>| {
        let name = match share.tenant() {
            None => OPERATOR.to_owned(),
            Some(oid) => (*names.get(&oid)?).to_owned(),
        };
        let (amounts, stored_bytes) = (share.counters.amounts(), share.minutes.lock().stored_bytes);
        Some(Line { name, amounts, stored_bytes, connections: share.connections() })
    };
    let mut lines: Vec<Line> = instance.shares.all().into_iter().filter_map(line).collect();
    let moved = |line: &Line| line.amounts.bytes_read.saturating_add(line.amounts.bytes_written);
    lines.sort_by(|a, b| moved(b).cmp(&moved(a)).then_with(|| a.name.cmp(&b.name)));
    lines.truncate(TENANTS_MAX);
    let mut each = |name: &str, kind, help: &str, value: &dyn Fn(&Line) -> Option<String>| {
        let values = lines.iter().filter_map(|line| Some((line.name.as_str(), value(line)?)));
        page.labelled((name, "tenant"), kind, help, values);
    };
    type Of = fn(&Amounts) -> u64;
    let counters: [(&str, &str, Of); 6] = [
        ("keyspan_tenant_statements_total", "Statements of a tenant.", |of| of.statements),
        ("keyspan_tenant_read_rows_total", "Rows that its statements have read.", |of| of.rows_read),
        ("keyspan_tenant_read_bytes_total", "Bytes that its statements have read.", |of| of.bytes_read),
        ("keyspan_tenant_written_rows_total", "Rows that its statements have written.", |of| of.rows_written),
        ("keyspan_tenant_written_bytes_total", "Bytes that its statements have written.", |of| of.bytes_written),
        ("keyspan_tenant_refusals_total", "What its quotas have refused.", |of| of.refusals),
    ];
    for (name, help, of) in counters {
        each(name, Type::Counter, help, &|line| Some(of(&line.amounts).to_string()));
    }
    let help = "Time that threads have worked for its statements.";
    each("keyspan_tenant_busy_seconds_total", Type::Counter, help, &|line| {
        Some(seconds(line.amounts.busy_nanos / 1_000))
    });
    each("keyspan_tenant_connections", Type::Gauge, "Its sessions.", &|line| Some(line.connections.to_string()));
    let help = "Bytes of its rows as they were last measured; for tenants with a quota of stored bytes.";
    each("keyspan_tenant_stored_bytes", Type::Gauge, help, &|line| line.stored_bytes.map(|bytes| bytes.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn labels_are_escaped_and_seconds_are_exact() {
        let mut page = Page(String::new());
        page.labelled(("a_total", "l"), Type::Counter, "Help.", [("x\"\\\n", 1_u64)]);
        page.value("b", &[("k", "v"), ("le", "+Inf")], 2);
        expect![[r#"
            # HELP a_total Help.
            # TYPE a_total counter
            a_total{l="x\"\\\n"} 1
            b{k="v",le="+Inf"} 2
        "#]]
        .assert_eq(&page.0);
        assert_eq!([250, 1_000_000, 2_500_000, 0].map(seconds), ["0.00025", "1", "2.5", "0"]);
    }
}
