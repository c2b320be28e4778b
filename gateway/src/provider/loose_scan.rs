//! The loose index scan: seeks the first row, the last, or both, of each group of rows whose keys begin with the same
//! parts.
//!
//! ```text
//! AggregateExec       DISTINCT ON (device) … ORDER BY device, at DESC; GROUP BY device with min(at), max(at);
//!                     DISTINCT device
//!   LooseScanExec     one or two rows of each device, or all rows
//!     the scan        of all rows
//! ```
//!
//! If an aggregation needs only the edges of each group in key order, [`rule`] puts this node between it and its scan.
//! The aggregation stays, so this node may yield more rows than the edges: the answer is right even if it yields all
//! rows. It seeks from group to group, and reads a few rows for each. If the first groups turn out to be small, a scan
//! by row groups is faster than that many seeks, and replaces them.
//!
//! Of a table on a server each seek is a request. They are sent as long as they take less than half of the time in
//! which all rows would come; where samples of keys say that they will take more, or once they have, the rest is
//! scanned.
//!
//! PostgreSQL answers `max` from an index in this way, and MySQL calls it a loose index scan.

mod rule;

pub use rule::LooseScans;

use super::{
    batches::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Read, batch_bytes_max},
    columnar::{self, ColumnarExec},
    decode::{BatchBuilder, Layout, RowLayout},
    exec::ScanExec,
    node,
};
use crate::{pg::error::SqlError, view::View};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::make_cooperative,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryFutureExt, TryStreamExt};
use keyspan_catalog::Table;
use keyspan_storage::{KeyRange, Row, RowSet, Scan, ScanMetrics};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};
use tokio::sync::OnceCell;

/// Rows that are read after each seek: smaller groups are read through without another seek.
const SEEK_ROWS: u64 = 16;
/// Groups that are read before the choice between seeks and a scan by row groups.
const PROBED_GROUPS: usize = 16;
/// Seeks are faster than a scan by row groups if the probed groups have at least this many rows on average.
pub const GROUP_ROWS_MIN: u64 = 8_192;
/// Fewer requests to a server are not worth a probe.
pub const REQUESTS_MIN: u64 = PROBED_GROUPS as u64;
/// A scan of more ranges is not made loose, since the remaining ranges are computed anew for each group.
pub const RANGES_MAX: usize = 256;

/// The rows of a group that the aggregation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// The first in key order.
    First,
    /// The last.
    Last,
    /// Both.
    Both,
}

impl Edges {
    /// The edges that are in either.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Both }
    }
}

/// Yields the edges of groups, or all rows.
#[derive(Debug)]
pub struct LooseScanExec {
    /// Reads all rows.
    child: Arc<dyn ExecutionPlan>,
    groups: Groups,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The result of the first partition that runs.
    probe: Arc<OnceCell<Probe>>,
}

/// The groups of a scan.
#[derive(Clone, Debug)]
struct Groups {
    view: View,
    table: Arc<Table>,
    layout: Arc<RowLayout>,
    store_metrics: Arc<ScanMetrics>,
    read: Read,
    /// The number of leading key parts that are equal within a group.
    parts: usize,
    /// Names of those of them that differ from group to group.
    names: Vec<String>,
    edges: Edges,
    /// See [`GROUP_ROWS_MIN`].
    group_rows_min: u64,
    /// For a table on a server, the requests after which the rest is scanned, and what scans it.
    requests_max: Option<(u64, Arc<ScanExec>)>,
}

/// What the first groups tell.
#[derive(Clone, Debug)]
enum Probe {
    /// Groups are small: scan all rows.
    Small,
    /// Groups are large: the edges of the first groups, and the ranges of the other groups.
    Large(Option<RecordBatch>, RowSet),
}

impl LooseScanExec {
    /// The edges of groups whose rows have equal values in the first `parts` key parts; those of `names` differ from
    /// group to group. `None` if the child is not a scan of rows.
    fn over_scan(
        child: Arc<dyn ExecutionPlan>,
        (parts, names): (usize, Vec<String>),
        edges: Edges,
        (group_rows_min, requests_max): (u64, Option<u64>),
    ) -> Option<Self> {
        let scan = scan_of(&child)?;
        let (view, table) = scan.view_and_table();
        let scan_rest = |most| Some((most, Arc::new(scan.narrowed(scan.read().rows.clone()).ok()?)));
        let requests_max = match requests_max {
            Some(most) => Some(scan_rest(most)?),
            None => None,
        };
        let groups = Groups {
            view: view.clone(),
            table: Arc::clone(table),
            layout: Arc::clone(scan.row_layout()?),
            store_metrics: Arc::clone(scan.store_metrics()),
            read: scan.read().clone(),
            parts,
            names,
            edges,
            group_rows_min,
            requests_max,
        };
        Some(Self::new(child, groups))
    }

    fn new(child: Arc<dyn ExecutionPlan>, groups: Groups) -> Self {
        let properties = node::properties_over(&child, EquivalenceProperties::new(child.schema()));
        Self { child, groups, properties, metrics: ExecutionPlanMetricsSet::new(), probe: Arc::default() }
    }

    /// An estimate of the rows that it yields, if groups are just large enough for seeks.
    fn rows_estimate(&self) -> Option<u64> {
        let edges = if self.groups.edges == Edges::Both { 2 } else { 1 };
        if self.groups.names.is_empty() {
            return Some(edges);
        }
        if let Some((requests, _)) = &self.groups.requests_max {
            return Some(requests * edges);
        }
        let groups = match self.child.downcast_ref::<ColumnarExec>().map(ColumnarExec::stats) {
            Some(stats) => stats.rows_estimate() / self.groups.group_rows_min,
            None => scan_of(&self.child)?.description().rows? / SEEK_ROWS,
        };
        Some((groups + 1) * edges)
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, self.groups.clone())
    }
}

/// The scan by rows that is equivalent to a node; `None` for other nodes, and scans that evaluate filters.
fn scan_of(node: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    match node.downcast_ref::<ColumnarExec>() {
        Some(fast) => fast.filters().is_empty().then(|| fast.scan()),
        None => node.downcast_ref::<ScanExec>(),
    }
}

impl DisplayAs for LooseScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = match self.groups.edges {
            Edges::First => "first row",
            Edges::Last => "last row",
            Edges::Both => "first and last row",
        };
        write!(f, "KeyspanLooseScan: {edges}")?;
        if !self.groups.names.is_empty() {
            write!(f, " of each {}", self.groups.names.join(", "))?;
        }
        if self.child.is::<ColumnarExec>() && !self.groups.names.is_empty() {
            write!(f, "; all rows where groups are small")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for LooseScanExec {
    node::fields!("KeyspanLooseScan");
    node::over_child!();
    node::about_rows!(|loose| loose.rows_estimate());

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (child, groups, probe) = (Arc::clone(&self.child), self.groups.clone(), Arc::clone(&self.probe));
        let by_row_groups = child.is::<ColumnarExec>();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = child.schema();
        let stream = async move {
            match probe.get_or_try_init(|| groups.probe(by_row_groups)).await? {
                Probe::Small => child.execute(partition, context),
                Probe::Large(first, rest) if partition == 0 => {
                    let batch_rows = context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX);
                    Ok(groups.stream(first.clone(), rest.clone(), batch_rows, context))
                }
                Probe::Large(..) => Ok(Box::pin(EmptyRecordBatchStream::new(child.schema())) as _),
            }
        };
        let counted = move |batch: RecordBatch| {
            metrics.record_output(batch.num_rows());
            batch
        };
        let batches = stream.try_flatten_stream().map_ok(counted).boxed();
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches))))
    }
}

impl Groups {
    /// Reads the first groups. They count as small only if the scan of all rows is `by_row_groups`.
    async fn probe(&self, by_row_groups: bool) -> Result<Probe> {
        let mut walk = Walk { groups: self, left: self.read.rows.clone(), requests: 0 };
        let first = walk.next(PROBED_GROUPS, BATCH_ROWS_MAX).await;
        let first = first.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let (left, requests) = (walk.left, walk.requests);
        if left.is_empty() {
            return Ok(Probe::Large(first, left));
        }
        if let Some((most, _)) = &self.requests_max {
            let is_small = self.requests_at_least(&left, requests).await > *most;
            return Ok(if is_small { Probe::Small } else { Probe::Large(first, left) });
        }
        if by_row_groups {
            let probed = self.read.rows.intersect(&RowSet::from(range_before(&left, self.edges == Edges::Last)));
            let rows = columnar::rows_estimate(&self.view, &self.table, probed).await?;
            if rows < PROBED_GROUPS as u64 * self.group_rows_min {
                return Ok(Probe::Small);
            }
        }
        Ok(Probe::Large(first, left))
    }

    /// How many requests all groups take at least, if these many have left `left`: as many for each part between two
    /// samples as for those that they have read, or begun to.
    async fn requests_at_least(&self, left: &RowSet, requests: u64) -> u64 {
        let Ok(samples) = self.view.rows.samples(&self.table).await else { return requests };
        let count = |rows: &RowSet| {
            let holds = |key: &[u8]| rows.ranges().iter().any(|range| range.contains(key));
            samples.keys.iter().filter(|(key, _)| holds(key)).count() as u64
        };
        let (all, left) = (count(&self.read.rows), count(left));
        requests.saturating_mul(all) / (all.saturating_sub(left) + 1)
    }

    /// The batch `first`, then the edges of the groups in `left`; all rows of these once there were too many requests.
    fn stream(
        &self,
        first: Option<RecordBatch>,
        left: RowSet,
        batch_rows: usize,
        context: Arc<TaskContext>,
    ) -> SendableRecordBatchStream {
        let schema: SchemaRef = Arc::clone(&self.layout.schema);
        let others = futures::stream::try_unfold((self.clone(), Rest::Walk(left, 0)), move |(groups, rest)| {
            let context = Arc::clone(&context);
            async move {
                let mut rest = rest;
                let batch = loop {
                    rest = match (rest, &groups.requests_max) {
                        (Rest::Walk(left, requests), Some((most, scan))) if requests >= *most && !left.is_empty() => {
                            Rest::Scan(scan.narrowed(left)?.execute(0, Arc::clone(&context))?)
                        }
                        (Rest::Walk(left, requests), _) => {
                            let mut walk = Walk { groups: &groups, left, requests };
                            let batch = walk.next(usize::MAX, batch_rows).await;
                            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)))?;
                            let is_done = batch.is_some() || walk.left.is_empty();
                            rest = Rest::Walk(walk.left, walk.requests);
                            if is_done {
                                break batch;
                            }
                            rest
                        }
                        (Rest::Scan(mut rows), _) => {
                            let batch = rows.try_next().await?;
                            rest = Rest::Scan(rows);
                            break batch;
                        }
                    };
                };
                Ok(batch.map(|batch| (batch, (groups, rest))))
            }
        });
        let batches = futures::stream::iter(first.map(Ok)).chain(others);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// Whether these are too many requests to a server.
    fn is_too_many(&self, requests: u64) -> bool {
        self.requests_max.as_ref().is_some_and(|(most, _)| requests >= *most)
    }

    /// The range of the group of a row; for salted keys, of its part in the row's bucket. `None` for a key that does
    /// not conform, which is in no group.
    fn group_of(&self, row: &Row) -> Option<KeyRange> {
        let keys = &self.layout.keys;
        let values = keys.decode(&row.key).ok()?;
        let prefix = values.get(..self.parts)?;
        let range = keys.ranges(prefix, None).into_iter().find(|range| range.contains(&row.key));
        range.filter(|_| keys.range_is_exact(prefix, None))
    }
}

/// What is left of the groups: to be walked, after so many requests, or to be scanned.
enum Rest {
    Walk(RowSet, u64),
    Scan(SendableRecordBatchStream),
}

/// A walk from group to group.
struct Walk<'a> {
    groups: &'a Groups,
    /// The ranges that are not read yet.
    left: RowSet,
    requests: u64,
}

impl Walk<'_> {
    /// The edges of the next groups, at most `groups_max` of them; `None` at the end.
    async fn next(&mut self, groups_max: usize, batch_rows: usize) -> Result<Option<RecordBatch>, SqlError> {
        let Groups { edges, names, layout, .. } = self.groups;
        let mut batch = layout.start(0);
        let backwards = *edges == Edges::Last;
        // Of a single group only the edge is read.
        let rows_max = if names.is_empty() { 1 } else { SEEK_ROWS };
        let mut groups = 0;
        while groups < groups_max && batch.size().rows < batch_rows && batch.size().bytes < batch_bytes_max(batch_rows)
        {
            if self.left.is_empty() || self.groups.is_too_many(self.requests) {
                break;
            }
            let (rows, exhausted) = self.read(self.left.clone(), rows_max, backwards).await?;
            let mut group: Option<KeyRange> = None;
            for row in &rows {
                if group.as_ref().is_some_and(|group| group.contains(&row.key)) {
                    continue;
                }
                if groups == groups_max {
                    return finished(batch);
                }
                batch.push(row)?;
                let found = self.groups.group_of(row);
                let range = found.clone().unwrap_or_else(|| KeyRange::point(&row.key));
                if let Some(range) = found.filter(|_| *edges == Edges::Both)
                    && let Some(last) = self.last_of(&range).await?.filter(|last| last.key != row.key)
                {
                    batch.push(&last)?;
                }
                self.left = self.left.intersect(&RowSet::from(range_after(&range, backwards)));
                group = Some(range);
                groups += 1;
            }
            if exhausted {
                self.left = RowSet::none();
            }
        }
        finished(batch)
    }

    /// The last row of a group whose key conforms.
    async fn last_of(&mut self, group: &KeyRange) -> Result<Option<Row>, SqlError> {
        let mut rows = self.left.intersect(&RowSet::from(group.clone()));
        while let Some(last) = self.read(rows.clone(), 1, true).await?.0.pop() {
            if self.groups.group_of(&last).is_some() {
                return Ok(Some(last));
            }
            rows = rows.intersect(&RowSet::from(range_after(&KeyRange::point(&last.key), true)));
        }
        Ok(None)
    }

    /// Reads the next rows, fewer if they are large; returns true if there are no others.
    async fn read(&mut self, rows: RowSet, rows_max: u64, reversed: bool) -> Result<(Vec<Row>, bool), SqlError> {
        self.requests += 1;
        let Groups { view, table, read, store_metrics, .. } = self.groups;
        let scan = Scan {
            columns: read.columns.clone(),
            timestamps: read.timestamps,
            versions_max: read.versions_max,
            keep_empty: read.keep_empty,
            rows_max: Some(rows_max),
            reversed,
            metrics: Some(Arc::clone(store_metrics)),
            ..Scan::of(rows)
        };
        let before = store_metrics.bytes_seen.load(Ordering::Relaxed);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut rows = view.scan(table, scan);
        let mut exhausted = true;
        while let Some(batch) = rows.try_next().await? {
            bytes += batch.iter().map(Row::size).sum::<usize>();
            found.extend(batch);
            if bytes >= BATCH_BYTES_TARGET {
                exhausted = false;
                break;
            }
        }
        if let Some(budget) = &view.budget {
            let bytes = store_metrics.bytes_seen.load(Ordering::Relaxed).saturating_sub(before);
            if let Some(counter) = view.counter(table) {
                counter.read(&found, bytes);
            }
            budget.charge(0, bytes, None)?;
        }
        let exhausted = exhausted && (found.len() as u64) < rows_max;
        Ok((found, exhausted))
    }
}

fn finished(batch: Box<dyn BatchBuilder>) -> Result<Option<RecordBatch>, SqlError> {
    if batch.size().rows == 0 { Ok(None) } else { batch.finish().map(Some) }
}

/// The range that a walk has read before `left`, which is not empty.
fn range_before(left: &RowSet, backwards: bool) -> KeyRange {
    let ranges = left.ranges();
    if backwards {
        let end = ranges.last().and_then(|range| range.end.clone());
        return end.map_or_else(KeyRange::all, |end| KeyRange::new(end, None));
    }
    KeyRange::new(bytes::Bytes::new(), ranges.first().map(|range| range.start.clone()))
}

/// The range that a walk reads after another.
fn range_after(range: &KeyRange, backwards: bool) -> KeyRange {
    match (&range.end, backwards) {
        (_, true) => KeyRange::new(bytes::Bytes::new(), Some(range.start.clone())),
        (Some(end), false) => KeyRange::new(end.clone(), None),
        // The last group of all: an empty range.
        (None, false) => KeyRange::new(range.start.clone(), Some(range.start.clone())),
    }
}
