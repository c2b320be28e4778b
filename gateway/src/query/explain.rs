//! What EXPLAIN prints: DataFusion's physical plan as PostgreSQL would lay it out, and every scan with its ranges,
//! columns and predicates; with ANALYZE, what the store saw and gave.
//!
//! Of a scan by row groups ([`columnar`](crate::provider::columnar)) the row groups and rows are counted that it
//! selects, no others: a row group may hold rows of several tenants. Of such a row group the bytes of the tenant's
//! values are counted, not those that are read, which depend on the others' values.
//!
//! Ranges print without the tenant's prefix: the scan does not know it. Where a scan covers all keys it says "tenant
//! span".

mod formats;
mod outline;

pub(crate) use outline::outline;

use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        exec::compact::CompactExec,
        types,
    },
    provider::{
        FirstRowsExec,
        columnar::{BorderRowsExec, ColumnarExec, ColumnarStats, MemoryExec},
        exec::ScanExec,
        pushdown::{Shape, with_commas},
    },
    query::joins,
    sql::ast::ExplainFormat,
};
use arrow::{
    array::{RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    datasource::source::DataSourceExec,
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    physical_expr::PhysicalExpr,
    physical_plan::{
        ExecutionPlan,
        coop::CooperativeExec,
        displayable,
        filter::FilterExec,
        joins::HashJoinExec,
        metrics::MetricValue,
        projection::{ProjectionExec, all_alias_free_columns},
        stream::RecordBatchStreamAdapter,
    },
    prelude::SessionContext,
};
use keyspan_catalog::{SqlType, Value};
use keyspan_storage::{Columns, KeyRange, TimestampRange};
use std::{
    fmt::Write,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

/// Ranges that are printed one by one.
const RANGES_SHOWN: usize = 5;
/// Characters of a line; long lists of values are cut.
const LINE_CHARS_MAX: usize = 600;

/// What EXPLAIN was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExplainOptions {
    /// Whether the query is run.
    pub analyze: bool,
    /// Whether DataFusion's logical plan is printed too.
    pub verbose: bool,
    /// The form.
    pub format: ExplainFormat,
}

/// The column of EXPLAIN's rows.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8View, false)]))
}

/// The same for a format: of JSON it is a document.
pub fn schema_of(format: ExplainFormat) -> SchemaRef {
    if format != ExplainFormat::Json {
        return schema();
    }
    let field = Field::new("QUERY PLAN", DataType::Utf8View, false);
    Arc::new(Schema::new(vec![types::named(field, "json")]))
}

/// Plans a query, runs it when that was asked for, and gives the lines of its plan, or one text in another format.
///
/// # Errors
/// What planning and running find.
pub async fn explain(
    context: &SessionContext,
    plan: &LogicalPlan,
    options: ExplainOptions,
) -> Result<SendableRecordBatchStream, DataFusionError> {
    let optimized = super::optimize(context, plan).await?;
    let mut physical = super::physical(context, &optimized).await?;
    let mut took = None;
    if options.analyze {
        let began = Instant::now();
        physical = joins::run_to_end(context, plan, physical).await?;
        took = Some(began.elapsed());
    }
    if options.format != ExplainFormat::Text {
        let schema = schema_of(options.format);
        let text = formats::text(&physical, options.format, took);
        let column = StringViewArray::from_iter_values([text]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)])?;
        return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)]))));
    }
    let mut lines = Lines { out: Vec::new(), analyze: options.analyze };
    lines.node(&physical, 0, None);
    if options.verbose {
        lines.out.push("Logical plan:".into());
        lines.out.extend(optimized.display_indent().to_string().lines().map(|line| format!("  {line}")));
    }
    let batch = batch(&lines.out).map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), futures::stream::iter([Ok(batch)]))))
}

/// Lines of text as rows of EXPLAIN.
///
/// # Errors
/// A fault of ours.
pub fn batch(lines: &[String]) -> Result<RecordBatch> {
    let column = StringViewArray::from_iter_values(lines);
    RecordBatch::try_new(schema(), vec![Arc::new(column)])
        .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// Lines as the answer of an EXPLAIN.
///
/// # Errors
/// None that is known.
pub fn lines(lines: &[String]) -> Result<SendableRecordBatchStream> {
    let rows = futures::stream::iter([Ok(batch(lines)?)]);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
}

struct Lines {
    out: Vec<String>,
    analyze: bool,
}

impl Lines {
    /// Prints a node and those below it. `residual` is the predicate of the filter right above.
    fn node(&mut self, node: &Arc<dyn ExecutionPlan>, depth: usize, residual: Option<String>) {
        // Nodes that only hand on: what they hand on is printed in their place.
        if is_unseen(node) {
            return node.children().into_iter().for_each(|child| self.node(child, depth, residual.clone()));
        }
        let indent = if depth == 0 { String::new() } else { format!("{}->  ", " ".repeat(depth * 6 - 4)) };
        let actual = match node.metrics().and_then(|metrics| metrics.output_rows()).filter(|_| self.analyze) {
            Some(rows) => format!("  (actual rows={rows})"),
            None => String::new(),
        };
        if let Some(scan) = node.downcast_ref::<ScanExec>() {
            self.out.push(format!("{indent}KeyspanScan: {}{actual}", scan.description().name));
            return self.scan(scan, &" ".repeat(depth * 6 + 4), residual, None);
        }
        if let Some(fast) = node.downcast_ref::<ColumnarExec>() {
            self.out.push(format!("{indent}KeyspanScan: {}{actual}", fast.scan().description().name));
            let taken = fast.filters().iter().map(|filter| filter_text(filter.as_ref()));
            let residual: Vec<String> = residual.into_iter().chain(taken).collect();
            let residual = (!residual.is_empty()).then(|| joined(&residual));
            return self.scan(fast.scan(), &" ".repeat(depth * 6 + 4), residual, Some(fast));
        }
        let line = displayable(node.as_ref()).one_line().to_string();
        self.out.push(format!("{indent}{}{actual}", cut(line.trim_end())));
        if !self.analyze && node.downcast_ref::<HashJoinExec>().is_some_and(joins::has_other) {
            self.out.push(format!("{}Without memory for it: SortMergeJoinExec", " ".repeat(depth * 6 + 4)));
        }
        if let Some(page) = node.downcast_ref::<FirstRowsExec>().filter(|_| self.analyze) {
            self.out.push(format!("{}Read in key order: {} rows", " ".repeat(depth * 6 + 4), page.rows_tried()));
        }
        let hands_on =
            matches!(node.name(), "RepartitionExec" | "CoalescePartitionsExec" | "CoalesceBatchesExec" | "BufferExec");
        let narrows = node.downcast_ref::<ProjectionExec>().is_some_and(|node| all_alias_free_columns(node.expr()));
        let residual = residual.filter(|_| hands_on || narrows);
        let predicate = node.downcast_ref::<FilterExec>().map(|filter| filter_text(filter.predicate().as_ref()));
        let residual = predicate.or(residual);
        node.children().into_iter().for_each(|child| self.node(child, depth + 1, residual.clone()));
    }

    /// Prints a scan; `fast` when it reads row groups.
    fn scan(&mut self, scan: &ScanExec, indent: &str, residual: Option<String>, fast: Option<&ColumnarExec>) {
        let (read, about) = (scan.read(), scan.description());
        let mut line = |label: &str, text: String| self.out.push(format!("{indent}{label}: {}", cut(&text)));
        let coalesced = if about.coalesced { ", coalesced to stay within bounds" } else { "" };
        if let Some(as_of) = scan.as_of() {
            line("As of", Value::Timestamp(as_of).to_text(SqlType::Timestamptz(None)));
        }
        line("Access", format!("{}{coalesced}", about.shape));
        line("Ranges", ranges(read.rows.ranges(), scan.in_span()));
        if let Some(part) = scan.first_part().filter(|_| residual.is_some() && is_whole(read.rows.ranges())) {
            line("Whole span", format!("no condition became a range of {part}, the first part of the key"));
        }
        line("Families", families(&read.columns));
        line("Columns", listed(&about.columns));
        if !about.qualifiers.is_empty() {
            line("Qualifiers", about.qualifiers.join("; "));
        }
        if !about.fields.is_empty() {
            line("Fields", about.fields.join("; "));
        }
        line("Pushed", joined(&about.pushed));
        line("Residual", residual.unwrap_or_else(|| "none".into()));
        line("Versions", read.versions_max.map_or_else(|| "all".into(), |versions| versions.to_string()));
        if read.timestamps != TimestampRange::all() {
            let end = read.timestamps.end.map_or_else(|| "∞".into(), |end| end.to_string());
            line("Timestamps", format!("[{}, {end})", read.timestamps.start));
        }
        if let Some(limit) = read.limit {
            line("Limit", limit.to_string());
        }
        let order = if read.reversed { "key descending" } else { "key" };
        line(
            "Order",
            match scan.buckets_merged() {
                _ if fast.is_some() => "none".into(),
                Some(None) => "none (salted keys, read bucket after bucket)".into(),
                Some(Some(buckets)) => format!("{order}, of {buckets} buckets that are merged"),
                None => order.into(),
            },
        );
        if let Some(fast) = fast {
            match fast.streams() {
                Some(streams) => {
                    let places = if streams.seek_bytes.is_some() { "sampled keys" } else { "pages of files" };
                    line("Streams", format!("{}, cut at {places}", streams.count));
                }
                None => line("Row groups", row_groups(fast.stats())),
            }
            if fast.leaves_out() {
                line("Left out", "rows of files without a member of a map that the residual needs".to_owned());
            }
            match fast.looked_up().filter(|_| self.analyze) {
                Some(rows) => line("Looked up", Shape::of(rows).to_string()),
                None if self.analyze && fast.streams().is_none() => line("Files", files(fast)),
                None => {}
            }
        }
        // Of a scan by row groups, the rest alone is read by rows, or what is looked up.
        let by_rows = match fast {
            Some(fast) if fast.looked_up().is_none() => fast.rest(),
            _ => Some(scan),
        };
        if let Some(scan) = by_rows.filter(|_| self.analyze) {
            let counts = scan.store_metrics();
            let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let (seen, returned) = (read(&counts.rows_seen), read(&counts.rows_returned));
            line("Rows", format!("seen={seen} returned={returned}"));
            let (seen, returned) = (read(&counts.cells_seen), read(&counts.cells_returned));
            line("Cells", format!("seen={seen} returned={returned}"));
            line("Bytes", format!("seen={}", read(&counts.bytes_seen)));
        }
    }
}

/// Whether a node only hands on the rows of another, which is shown in its place.
pub(crate) fn is_unseen(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CooperativeExec>() || node.is::<CompactExec>()
}

fn filter_text(filter: &dyn PhysicalExpr) -> String {
    datafusion::physical_expr_common::physical_expr::fmt_sql(filter).to_string()
}

/// How much of a scan is read as row groups, and how much by rows.
fn row_groups(counts: &ColumnarStats) -> String {
    let number = |number: u64| with_commas(usize::try_from(number).unwrap_or(usize::MAX));
    let ColumnarStats { files, row_groups, rows, memory, rest, .. } = counts;
    let (groups, files) = (with_commas(*row_groups), with_commas(*files));
    let memory = if *memory == 0 { "none".into() } else { format!("about {} rows", number(*memory)) };
    let rest = rest.map_or_else(|| "none".into(), |rest| format!("about {} rows", number(rest)));
    format!("clean={groups} files={files} rows={}, memory={memory}, rest={rest}", number(*rows))
}

/// What a scan by row groups has read that has run: as far as it tells nothing of what other tenants have.
#[derive(Default)]
pub(crate) struct FilesRead {
    /// Bytes of files; of row groups with rows of several tenants, those of the tenant's values.
    pub(crate) bytes: usize,
    rows: usize,
    skipped: usize,
    pub(crate) memory_rows: usize,
    pub(crate) memory_bytes: usize,
}

impl FilesRead {
    pub(crate) fn of(fast: &ColumnarExec) -> Self {
        let mut read = Self::default();
        let mut nodes: Vec<Arc<dyn ExecutionPlan>> = fast.children().into_iter().cloned().collect();
        while let Some(node) = nodes.pop() {
            nodes.extend(node.children().into_iter().cloned());
            let Some(metrics) = node.metrics() else { continue };
            if let Some(border) = node.downcast_ref::<BorderRowsExec>() {
                read.bytes += border.value_bytes();
            }
            if let Some(memory) = node.downcast_ref::<MemoryExec>() {
                read.memory_rows += metrics.output_rows().unwrap_or_default();
                read.memory_bytes += memory.value_bytes();
            }
            if !node.is::<DataSourceExec>() {
                continue;
            }
            read.rows += metrics.output_rows().unwrap_or_default();
            for metric in metrics.iter() {
                match metric.value() {
                    MetricValue::Count { name, count } if name == "bytes_scanned" => read.bytes += count.value(),
                    MetricValue::PruningMetrics { name, pruning_metrics } if name == "row_groups_pruned_statistics" => {
                        read.skipped += pruning_metrics.pruned();
                    }
                    _ => {}
                }
            }
        }
        read
    }
}

/// What was read of the files, and of memory, by a scan that has run.
fn files(fast: &ColumnarExec) -> String {
    let FilesRead { bytes, rows, skipped, memory_rows, .. } = FilesRead::of(fast);
    format!("row groups skipped={skipped} rows={rows} bytes={bytes}, memory rows={memory_rows}")
}

/// The text, or its beginning and how much was left out.
fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} more characters)", &text[..at], with_commas(text[at..].chars().count())),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn joined(filters: &[String]) -> String {
    match filters {
        [] => "none".into(),
        [only] => only.clone(),
        several => {
            let one = |filter: &String| if filter.contains(" OR ") { format!("({filter})") } else { filter.clone() };
            several.iter().map(one).collect::<Vec<_>>().join(" AND ")
        }
    }
}

/// Whether they are all keys of the tenant, or of the table.
fn is_whole(ranges: &[KeyRange]) -> bool {
    matches!(ranges, [only] if only.start.is_empty() && only.end.is_none())
}

fn ranges(ranges: &[KeyRange], in_span: bool) -> String {
    let whole = if in_span { "tenant span" } else { "whole table" };
    match ranges {
        [] => return "none".into(),
        _ if is_whole(ranges) => return whole.into(),
        _ => {}
    }
    let mut text = String::new();
    for (at, range) in ranges.iter().take(RANGES_SHOWN).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let (first, last) = if in_span { ("start of tenant span", "end of tenant span") } else { ("start", "end") };
        let start = if range.start.is_empty() { first.to_owned() } else { range.start.escape_ascii().to_string() };
        let end = range.end.as_ref().map_or_else(|| last.to_owned(), |end| end.escape_ascii().to_string());
        match range.as_point() {
            Some(key) => write!(text, "{separator}[{}]", key.escape_ascii()),
            None => write!(text, "{separator}[{start}, {end})"),
        }
        .expect("a string takes all text");
    }
    if ranges.len() > RANGES_SHOWN {
        write!(text, ", … {} more", with_commas(ranges.len() - RANGES_SHOWN)).expect("a string takes all text");
    }
    text
}

fn families(columns: &Columns) -> String {
    match columns {
        Columns::All => "all".into(),
        Columns::Of(families) if families.is_empty() => "none (existence only)".into(),
        Columns::Of(families) => {
            let one = |of: &keyspan_storage::scan::FamilyColumns| match &of.qualifiers {
                None => format!("{}(*)", of.family),
                Some(qualifiers) => {
                    let names: Vec<String> = qualifiers.iter().map(|name| name.escape_ascii().to_string()).collect();
                    format!("{}({})", of.family, names.join(", "))
                }
            };
            families.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}
