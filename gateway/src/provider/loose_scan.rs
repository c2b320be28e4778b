//! The loose scan: of each group of rows that begin with the same key parts, the first row, the last, or both, found by seeking.
//!
//! ```text
//! AggregateExec       DISTINCT ON (device) … ORDER BY device, at DESC; GROUP BY device with min(at), max(at); DISTINCT device
//!   LooseScanExec     one or two rows of each device, or all rows
//!     the scan        of all rows
//! ```
//!
//! Where an aggregation asks nothing of a group but what stands at its edges in the order of keys, [`rule`] puts this node between
//! it and its scan. The aggregation stays, so that the node may give more rows than it has to: all of them are a right answer too. It
//! seeks from group to group, a read of a few rows for each. When the first groups turn out to be small, a scan of row groups
//! is faster than so many seeks, and takes its place.
//!
//! PostgreSQL answers `max` so from an index, and MySQL calls it a loose index scan.

mod rule;

pub use rule::LooseScans;

use super::{
    columnar::{self, ColumnarExec},
    decode::{BatchBuilder, Layout, RowLayout},
    exec::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX, Read, ScanExec, bytes_of},
};
use crate::{
    pg::{error::SqlError, exec::node},
    view::View,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::make_cooperative,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
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

/// Rows that are read from where a seek has led: groups of fewer rows are read through.
const SEEK_ROWS: u64 = 16;
/// Groups after which it is looked at how large they are.
const PROBED_GROUPS: usize = 16;
/// Rows of a group, in the mean of those probed, from which on seeking is faster than scanning row groups.
///
/// Tests have too few rows for it, and would never go on from the first groups.
pub const GROUP_ROWS_MIN: u64 = if cfg!(test) { 64 } else { 8_192 };
/// A scan of more ranges is not made loose: what is left of them is cut anew for each group.
pub const RANGES_MAX: usize = 256;

/// Which rows of a group are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edges {
    /// The first in the order of keys.
    First,
    /// The last.
    Last,
    /// Both.
    Both,
}

impl Edges {
    /// These and those.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Both }
    }
}

/// See the module.
#[derive(Debug)]
pub struct LooseScanExec {
    /// All rows.
    child: Arc<dyn ExecutionPlan>,
    groups: Groups,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What the first of the partitions found that looked.
    probed: Arc<OnceCell<Probed>>,
}

/// The groups of a scan.
#[derive(Clone, Debug)]
struct Groups {
    view: View,
    table: Arc<Table>,
    layout: Arc<RowLayout>,
    counts: Arc<ScanMetrics>,
    read: Read,
    /// Key parts that the rows of a group have in common.
    parts: usize,
    /// Names of those that differ from group to group.
    names: Vec<String>,
    edges: Edges,
}

/// What is known when the first groups were read.
#[derive(Clone, Debug)]
enum Probed {
    /// They are small: all rows are to be scanned.
    Small,
    /// Their rows, and where the others are.
    Large(Option<RecordBatch>, RowSet),
}

impl LooseScanExec {
    /// The edges of groups of rows that have the first `parts` parts of the key in common, of which those of `names` differ from group to
    /// group; `None` for scans that cannot be made loose.
    fn over_scan(child: Arc<dyn ExecutionPlan>, (parts, names): (usize, Vec<String>), edges: Edges) -> Option<Self> {
        let scan = scan_of(&child)?;
        let (view, table) = scan.door();
        let groups = Groups {
            view: view.clone(),
            table: Arc::clone(table),
            layout: Arc::clone(scan.row_layout()?),
            counts: Arc::clone(scan.shared_counts()),
            read: scan.read().clone(),
            parts,
            names,
            edges,
        };
        Some(Self::new(child, groups))
    }

    fn new(child: Arc<dyn ExecutionPlan>, groups: Groups) -> Self {
        let of = child.properties();
        let equivalence = EquivalenceProperties::new(child.schema());
        let properties =
            PlanProperties::new(equivalence, of.partitioning.clone(), EmissionType::Incremental, Boundedness::Bounded);
        let properties = Arc::new(properties.with_scheduling_type(of.scheduling_type));
        Self { child, groups, properties, metrics: ExecutionPlanMetricsSet::new(), probed: Arc::default() }
    }

    /// About how many rows it gives: groups are as large as they have to be to be sought.
    fn about_rows(&self) -> Option<u64> {
        let edges = if self.groups.edges == Edges::Both { 2 } else { 1 };
        if self.groups.names.is_empty() {
            return Some(edges);
        }
        let groups = match self.child.downcast_ref::<ColumnarExec>().map(ColumnarExec::counts) {
            Some(counts) => (counts.rows + counts.memory) / GROUP_ROWS_MIN,
            None => scan_of(&self.child)?.about().rows? / SEEK_ROWS,
        };
        Some((groups + 1) * edges)
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, self.groups.clone())
    }
}

/// The scan by rows that reads what a node reads; `None` for nodes that are no scan of ours, or do more than to read.
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
    fn name(&self) -> &'static str {
        "KeyspanLooseScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::over_child!();

    node::about_rows!(|loose| loose.about_rows());

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (child, groups, probed) = (Arc::clone(&self.child), self.groups.clone(), Arc::clone(&self.probed));
        let small_ones_scanned = child.is::<ColumnarExec>();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = child.schema();
        let stream = async move {
            let found: Result<SendableRecordBatchStream> =
                match probed.get_or_try_init(|| groups.probe(small_ones_scanned)).await? {
                    Probed::Small => child.execute(partition, context),
                    Probed::Large(first, rest) if partition == 0 => {
                        let batch_rows = context.session_config().batch_size().clamp(1, BATCH_ROWS_MAX);
                        Ok(groups.stream(first.clone(), rest.clone(), batch_rows))
                    }
                    Probed::Large(..) => {
                        let none = futures::stream::empty();
                        Ok(Box::pin(RecordBatchStreamAdapter::new(child.schema(), none)))
                    }
                };
            found
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
    /// Reads the first groups. What it finds small is to be scanned whole, if that is `scanned` by row groups.
    async fn probe(&self, scanned: bool) -> Result<Probed> {
        let mut walk = Walk { groups: self, left: self.read.rows.clone() };
        let found = walk.next(PROBED_GROUPS, BATCH_ROWS_MAX).await;
        let first = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let left = walk.left;
        if scanned && !left.is_empty() {
            let passed = self.read.rows.intersect(&RowSet::from(passed(&left, self.edges == Edges::Last)));
            if columnar::rows_about(&self.view, &self.table, passed).await? < PROBED_GROUPS as u64 * GROUP_ROWS_MIN {
                return Ok(Probed::Small);
            }
        }
        Ok(Probed::Large(first, left))
    }

    /// The rows of the groups of `left`, after a batch that was read before.
    fn stream(&self, first: Option<RecordBatch>, left: RowSet, batch_rows: usize) -> SendableRecordBatchStream {
        let schema: SchemaRef = Arc::clone(&self.layout.schema);
        let begun = (self.clone(), left);
        let others = futures::stream::try_unfold(begun, move |(groups, left)| async move {
            let mut walk = Walk { groups: &groups, left };
            let batch = walk.next(usize::MAX, batch_rows).await;
            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)))?;
            let left = walk.left;
            Ok(batch.map(|batch| (batch, (groups, left))))
        });
        let batches = futures::stream::iter(first.map(Ok)).chain(others);
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }

    /// The keys of the group of a row, of salted keys in its bucket; `None` for a key that does not conform, which is in no group.
    fn group_of(&self, row: &Row) -> Option<KeyRange> {
        let keys = &self.layout.keys;
        let values = keys.decode(&row.key).ok()?;
        let of = values.get(..self.parts)?;
        let range = keys.ranges(of, None).into_iter().find(|range| range.contains(&row.key));
        range.filter(|_| keys.range_is_exact(of, None))
    }
}

/// A walk from group to group.
struct Walk<'a> {
    groups: &'a Groups,
    /// The keys ahead.
    left: RowSet,
}

impl Walk<'_> {
    /// The wanted rows of the next groups, `groups_max` of them at most; `None` when there are no more.
    async fn next(&mut self, groups_max: usize, batch_rows: usize) -> Result<Option<RecordBatch>, SqlError> {
        let Groups { edges, names, layout, .. } = self.groups;
        let mut batch = layout.start();
        let backwards = *edges == Edges::Last;
        // A single group is not read through.
        let rows_max = if names.is_empty() { 1 } else { SEEK_ROWS };
        let mut groups = 0;
        while groups < groups_max && batch.rows() < batch_rows && batch.bytes() < bytes_of(batch_rows) {
            if self.left.is_empty() {
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
                self.left = self.left.intersect(&RowSet::from(beyond(&range, backwards)));
                group = Some(range);
                groups += 1;
            }
            if exhausted {
                self.left = RowSet::none();
            }
        }
        finished(batch)
    }

    /// The last row of a group that has a key that conforms.
    async fn last_of(&self, group: &KeyRange) -> Result<Option<Row>, SqlError> {
        let mut rows = self.left.intersect(&RowSet::from(group.clone()));
        while let Some(last) = self.read(rows.clone(), 1, true).await?.0.pop() {
            if self.groups.group_of(&last).is_some() {
                return Ok(Some(last));
            }
            rows = rows.intersect(&RowSet::from(beyond(&KeyRange::point(&last.key), true)));
        }
        Ok(None)
    }

    /// Reads the next rows, fewer where they are large, and says whether there are no others.
    async fn read(&self, rows: RowSet, rows_max: u64, reversed: bool) -> Result<(Vec<Row>, bool), SqlError> {
        let Groups { view, table, read, counts, .. } = self.groups;
        let scan = Scan {
            columns: read.columns.clone(),
            timestamps: read.timestamps,
            versions_max: read.versions_max,
            keep_empty: read.keep_empty,
            rows_max: Some(rows_max),
            reversed,
            metrics: Some(Arc::clone(counts)),
            ..Scan::of(rows)
        };
        let before = counts.bytes_seen.load(Ordering::Relaxed);
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
            budget.take(counts.bytes_seen.load(Ordering::Relaxed).saturating_sub(before), None)?;
        }
        let exhausted = exhausted && (found.len() as u64) < rows_max;
        Ok((found, exhausted))
    }
}

fn finished(batch: Box<dyn BatchBuilder>) -> Result<Option<RecordBatch>, SqlError> {
    if batch.rows() == 0 { Ok(None) } else { batch.finish().map(Some) }
}

/// The keys that a walk has met before those that are left, which are not none.
fn passed(left: &RowSet, backwards: bool) -> KeyRange {
    let ranges = left.ranges();
    if backwards {
        let end = ranges.last().and_then(|range| range.end.clone());
        return end.map_or_else(KeyRange::all, |end| KeyRange::new(end, None));
    }
    KeyRange::new(bytes::Bytes::new(), ranges.first().map(|range| range.start.clone()))
}

/// The keys that a walk meets after a range.
fn beyond(range: &KeyRange, backwards: bool) -> KeyRange {
    match (&range.end, backwards) {
        (_, true) => KeyRange::new(bytes::Bytes::new(), Some(range.start.clone())),
        (Some(end), false) => KeyRange::new(end.clone(), None),
        // The last group of all: there is nothing behind it.
        (None, false) => KeyRange::new(range.start.clone(), Some(range.start.clone())),
    }
}
