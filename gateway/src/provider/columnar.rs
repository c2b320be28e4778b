//! The fast path of scans: DataFusion's own Parquet source over row groups, rows of memtables in place, and the scan by
//! rows for the rest.
//!
//! ```text
//! ColumnarExec            the columns of SQL, in no order
//!   UnionExec
//!     DecodeExec          if some columns are stored as bytes: makes values of them (module `decode_exec`)
//!       BorderRowsExec    over row groups that hold other tenants' rows too: counts (module `border_rows`)
//!       LiveRowsExec      if many single rows are deleted: drops them (module `live_rows`)
//!         DataSourceExec  row groups of exactly what SQL reads, split over the partitions (module `file_groups`)
//!     MemoryExec          rows of memtables, split over the partitions (module `memory`)
//!     ScanExec            all other rows
//! ```
//!
//! [`plan`] decides whether a scan goes this way. It never changes an answer: the store returns exact selections of
//! rows, no row is in two of the parts, and a row that the store calls clean has exactly one value in each requested
//! column. A scan of few rows, of single keys, or over the transaction's own writes goes by rows. A plan that needs key
//! order gets the scan by rows in place of all this (`exec`).
//!
//! Cells whose bytes are not a typed value of Parquet (arrays, numbers as text, JSON) have columns of bytes, which are
//! decoded batch by batch. So have some columns that are typed elsewhere, in some files: in those of a time before the
//! column had its type, and where private tables of other types share a segment
//! ([`layouts`](keyspan_catalog::layouts)). Keys of private tables are decoded where a row group has others' rows, too.
//!
//! Where memory is scarce, the texts of a batch get buffers of their own ([`compact`](crate::pg::exec::compact)).
//!
//! If a join asks for a few keys only, these are read by rows in place of all this, decided at the first row (module
//! `key_lookup`).
//!
//! Tables on a server have no row groups: their scans are cut at sampled keys (module `split`).
//!
//! Statistics of files and row groups stay inside the Parquet source. The planner does not see them, since a row group
//! may hold rows of several tenants. They still skip row groups and pages, by predicates that are also evaluated for
//! each row; and they give counts and extremes of row groups that are read whole (module `metadata_aggregates`).
//!
//! A tenant must not learn its neighbours' values from what is skipped: by EXPLAIN ANALYZE, the scan budget or time, 40
//! statements would find a maximum. So the statistics of a row group are used only if all its rows lie in the tenant's
//! span. The store hands out no others (`storage/src/columnar.rs`). A border row group, the first or the last of a
//! tenant in a file, is read without: at most 128Ki rows. What is counted and shown of it depends on the tenant's own
//! rows only (module `border_rows`). What remains: whether a border row group is clean depends on neighbours' cells as
//! well, which tells whether some of these are of another type than the column's, or past the family's GC rule; whether
//! a column of a private table is typed in a file, and so whether its statistics are used, depends on the types of
//! columns that neighbours have by the same name; and the time of reading depends on how well shared pages are
//! compressed.

mod border_rows;
mod decode_exec;
mod exec;
mod file_groups;
mod key_lookup;
mod live_rows;
mod memory;
mod metadata_aggregates;
mod needed;
mod reader;
pub(super) mod split;

use super::{decode::RowLayout, exec::ScanExec, table::is_operator};
use crate::view::View;
pub(crate) use border_rows::BorderRowsExec;
use datafusion::{
    common::Result,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, union::UnionExec},
};
pub(crate) use exec::ByRows;
pub use exec::{ColumnarExec, ColumnarStats};
pub(super) use key_lookup::rows_estimate;
use keyspan_catalog::{
    Table,
    layouts::{column_accepts, column_kind, key_columns_id},
    table::{ColumnPlace, OnBadKey},
};
use keyspan_storage::{
    ColumnKind, Columnar, ColumnarRequest, KeyRange, MemoryPart, ParquetPart, RequestedColumn, RowSet,
};
pub(crate) use memory::MemoryExec;
pub use metadata_aggregates::MetadataAggregates;
use std::{collections::BTreeSet, sync::Arc};

/// A scan of at least this many rows in row groups and memory goes by row groups.
pub const ROWS_MIN: u64 = 4_096;
/// A scan of fewer than [`ROWS_MIN`] rows goes by row groups too if it reads at least this many values,
/// [`ROWS_OF_MANY_VALUES_MIN`] rows, and [`ROWS_OF_GROUP_MIN`] rows of each row group on average. A value read by rows
/// takes some 0.3 µs; to open a row group takes one to three milliseconds.
const VALUES_MIN: u64 = 8_192;
/// See [`VALUES_MIN`]; fewer rows are read on the thread that asks for them.
const ROWS_OF_MANY_VALUES_MIN: u64 = 1_024;
/// See [`VALUES_MIN`].
const ROWS_OF_GROUP_MIN: u64 = 256;
/// A scan that wants more qualifiers of an open family goes by rows.
const QUALIFIERS_MAX: usize = 16;
/// A scan of more ranges goes by rows, since each range is looked up in each file.
pub const RANGES_MAX: usize = 256;

/// A column of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileColumn {
    /// The requested column of this index.
    Cell(usize),
    /// The key column of this index.
    Key(usize),
    /// The row keys.
    RowKey,
}

/// What a column of SQL is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A column of a file, as it is.
    Typed(FileColumn),
    /// The bytes in the requested column of this index.
    Bytes { requested: usize, cell: usize },
    /// The key part of this index, decoded from the row key.
    Part(usize),
    /// The map of this index, made of the bytes of its columns.
    Map(usize),
}

/// What is made of a requested column.
enum Made {
    /// The column of SQL, as it is.
    Typed,
    /// The column of SQL, decoded.
    Bytes,
    /// Members of the map of this index.
    Map(usize),
}

/// The columns that are requested from the store for some columns of a table.
struct ColumnRequests {
    columns: Vec<RequestedColumn>,
    /// The id of the key's columns, if any is needed.
    key: Option<String>,
    /// Of each column of SQL.
    origins: Vec<Origin>,
    /// Of each column of SQL that is typed: what it is made of in a file that does not have it typed.
    untyped: Vec<Option<Origin>>,
    /// Of each map of an open family, its requested columns.
    maps: Vec<Vec<usize>>,
}

/// The path of a scan.
pub(super) enum Access {
    /// By row groups.
    RowGroups(Arc<dyn ExecutionPlan>),
    /// By rows, with an estimate of how many, if there is one.
    Rows(Option<u64>),
}

/// Chooses the path of a scan. `scan` reads the same by rows, with the columns `projection` of the table. `spread` is
/// the number of partitions and the most rows of a batch.
///
/// # Errors
/// The store's.
pub(super) async fn plan(
    (view, table): (&View, &Arc<Table>),
    projection: &[usize],
    scan: &Arc<ScanExec>,
    spread: (usize, usize),
) -> Result<Access> {
    if !is_candidate(view, table, scan) {
        return Ok(Access::Rows(point_count(&scan.read().rows)));
    }
    // Fewer than are ever read by row groups.
    if let Some(rows) = view.rows.few_rows(table, &scan.read().rows) {
        return Ok(Access::Rows(Some(rows)));
    }
    let Some(layout) = scan.row_layout() else { return Ok(Access::Rows(None)) };
    let Some(requests) = column_requests(table, layout, is_operator(view), projection) else {
        return Ok(Access::Rows(None));
    };
    let request = ColumnarRequest {
        rows: scan.read().rows.clone(),
        // The tenant's store narrows it.
        span: KeyRange::all(),
        columns: requests.columns,
        key: requests.key,
        or_row_key: table.is_private(),
        pin: Some(view.pin.clone()),
    };
    let found = if view.rows.runs_inline(table, &request) {
        view.rows.columnar(table, request)
    } else {
        let (rows, table) = (view.rows.clone(), Arc::clone(table));
        // The store may have to read metadata of its files.
        let found = tokio::task::spawn_blocking(move || rows.columnar(&table, request)).await;
        found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    };
    let Some(found) = found.transpose().map_err(|error| DataFusionError::External(Box::new(error)))? else {
        return Ok(Access::Rows(None));
    };
    let memory: u64 = found.memory.iter().map(MemoryPart::rows_estimate).sum();
    let rows = memory + found.parts.iter().map(|part| part.rows).sum::<u64>();
    let row_groups = found.parts.iter().map(|part| part.row_groups.len() as u64).sum();
    if !pays(rows, row_groups, projection.len() as u64) {
        return Ok(Access::Rows(Some(rows + if found.rest.is_empty() { 0 } else { found.rest.rows_estimate() })));
    }
    let cut = match found.rest.rows_estimate() {
        0..split::ROWS_OF_FILES_MIN => Vec::new(),
        _ => split::cut_at_pages((view, table), &scan.read().rows, spread.0).await?.1,
    };
    let made = (requests.origins, requests.untyped, requests.maps);
    let plan = ScanParts { cut, ..ScanParts::new(found, made, scan, spread)? }.plan()?;
    Ok(Access::RowGroups(Arc::new(plan)))
}

/// Whether a scan by row groups is faster than one by rows.
fn pays(rows: u64, row_groups: u64, columns: u64) -> bool {
    let many_values = rows * columns >= VALUES_MIN && rows >= ROWS_OF_MANY_VALUES_MIN;
    rows >= ROWS_MIN || many_values && rows >= row_groups * ROWS_OF_GROUP_MIN
}

/// The number of keys, if all ranges are single keys.
fn point_count(rows: &RowSet) -> Option<u64> {
    rows.ranges().iter().all(|range| range.as_point().is_some()).then_some(rows.ranges().len() as u64)
}

/// Whether a scan may go by row groups, as far as is known without the store.
fn is_candidate(view: &View, table: &Table, scan: &ScanExec) -> bool {
    let read = scan.read();
    let few = read.limit.is_some_and(|limit| (limit as u64) < ROWS_MIN);
    let own = view.buffered.get(&table.id).is_some_and(|own| !own.is_empty());
    view.columnar && view.pushdown && !few && !own && reads_many(&read.rows)
}

/// Whether the ranges are few and not all of them single keys.
fn reads_many(rows: &RowSet) -> bool {
    rows.ranges().len() <= RANGES_MAX && rows.ranges().iter().any(|range| range.as_point().is_none())
}

/// The columns to request; `None` if key parts are needed that have no columns in files, or a map of an open family of
/// which more than some qualifiers are wanted.
fn column_requests(table: &Table, layout: &RowLayout, operator: bool, projection: &[usize]) -> Option<ColumnRequests> {
    let tenant = usize::from(operator);
    // Keys of private tables conform, since only the server writes them: any file will do, if its columns are there or
    // not. In the files of shared tables the tenant is the first key column, for tenants too.
    let private = table.is_private();
    let (key_id, first_part) = (key_columns_id(table), usize::from(!private));
    let (mut origins, mut columns) = (vec![Origin::Typed(FileColumn::Key(0)); projection.len()], Vec::new());
    let mut untyped = vec![None; projection.len()];
    let mut key = !private && table.on_bad_key != OnBadKey::Null;
    for (place, at) in projection.iter().enumerate() {
        let Some(column) = at.checked_sub(tenant).map(|at| &table.columns[at]) else {
            key = true;
            continue;
        };
        match &column.place {
            ColumnPlace::Key(part) if private && key_id.is_none() => origins[place] = Origin::Part(*part),
            ColumnPlace::Key(part) => {
                key = true;
                origins[place] = Origin::Typed(FileColumn::Key(part + first_part));
                untyped[place] = private.then_some(Origin::Part(*part));
            }
            ColumnPlace::Cell { family, qualifier, .. } => {
                let kind = column_kind(table, column);
                let accepts = kind.and_then(|_| column_accepts(column)).map(|accepts| accepts.name);
                let (family, qualifier) = (family.clone(), qualifier.clone().into());
                let column = RequestedColumn {
                    family,
                    qualifier,
                    kind: kind.unwrap_or(ColumnKind::Binary),
                    accepts,
                    or_bytes: true,
                };
                let of = if kind.is_some() { Made::Typed } else { Made::Bytes };
                columns.push((column, place, of));
            }
            ColumnPlace::Open { .. } => {
                let map = layout.maps.iter().position(|(_, at)| *at == place)?;
                origins[place] = Origin::Map(map);
                for qualifier in layout.maps[map].0.single_qualifiers(QUALIFIERS_MAX)? {
                    let (family, kind) = (layout.maps[map].0.family.clone(), ColumnKind::Binary);
                    let column = RequestedColumn { family, qualifier, kind, accepts: None, or_bytes: false };
                    columns.push((column, place, Made::Map(map)));
                }
            }
        }
    }
    // Sorted as a layout's columns are, which is the order of values from memory.
    columns.sort_by(|(a, ..), (b, ..)| (&a.family, &a.qualifier).cmp(&(&b.family, &b.qualifier)));
    let mut maps = vec![Vec::new(); layout.maps.len()];
    // The layout's columns are those that are not members of maps.
    let mut cells = 0..;
    for (requested, (_, place, of)) in columns.iter().enumerate() {
        let cell = if matches!(of, Made::Map(_)) { None } else { cells.next() };
        match of {
            Made::Typed => {
                origins[*place] = Origin::Typed(FileColumn::Cell(requested));
                untyped[*place] = Some(Origin::Bytes { requested, cell: cell.unwrap_or_default() });
            }
            Made::Bytes => origins[*place] = Origin::Bytes { requested, cell: cell.unwrap_or_default() },
            Made::Map(map) => maps[*map].push(requested),
        }
    }
    let columns = columns.into_iter().map(|(column, ..)| column).collect();
    let mut requests = ColumnRequests { columns, key: None, origins, untyped, maps };
    if key {
        // Even when no part is read, the store must know which keys conform.
        requests.key = Some(key_id?);
    }
    Some(requests)
}

/// The parts of a scan by row groups, as the store found them.
#[derive(Clone, Debug)]
struct ScanParts {
    parts: Vec<ParquetPart>,
    memory: Vec<MemoryPart>,
    /// The scan of all other rows, and an estimate of how many.
    rest: Option<(Arc<ScanExec>, u64)>,
    /// The rows in parts whose rest is read side by side; none for all of it.
    cut: Vec<RowSet>,
    /// Of each column of SQL, what it is made of in files that have it typed, and in others.
    origins: Vec<Origin>,
    untyped: Vec<Option<Origin>>,
    /// The requested columns of each map.
    maps: Vec<Vec<usize>>,
    /// The same rows by rows, in key order.
    scan: Arc<ScanExec>,
    /// The number of partitions, and the most rows of a batch.
    spread: (usize, usize),
}

impl ScanParts {
    fn new(
        found: Columnar,
        (origins, untyped, maps): (Vec<Origin>, Vec<Option<Origin>>, Vec<Vec<usize>>),
        scan: &Arc<ScanExec>,
        spread: (usize, usize),
    ) -> Result<Self> {
        let Columnar { parts, memory, rest } = found;
        let rows = rest.rows_estimate();
        let rest = if rest.is_empty() { None } else { Some((Arc::new(scan.of_rest(rest)?), rows)) };
        let cut = Vec::new();
        Ok(Self { parts, memory, rest, cut, origins, untyped, maps, scan: Arc::clone(scan), spread })
    }

    /// Whether there is certainly no row.
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.memory.is_empty() && self.rest.is_none()
    }

    /// What the columns of SQL are made of in a part.
    fn origins_in(&self, part: &ParquetPart) -> Vec<Origin> {
        let origins = self.origins.iter().zip(&self.untyped);
        let origin = |(origin, untyped): (&Origin, &Option<Origin>)| {
            let is_typed = match origin {
                Origin::Typed(FileColumn::Cell(at)) => !part.bytes[*at],
                Origin::Typed(FileColumn::Key(_)) => !part.key_columns.is_empty(),
                _ => true,
            };
            if is_typed { *origin } else { untyped.unwrap_or(*origin) }
        };
        origins.map(origin).collect()
    }

    /// The parts, by what the columns are made of in them. Mostly all are alike.
    fn parts_by_origins(&self) -> Vec<(decode_exec::FileColumns, Vec<ParquetPart>)> {
        let mut found: Vec<(Vec<Origin>, Vec<ParquetPart>)> = Vec::new();
        for part in &self.parts {
            let origins = self.origins_in(part);
            match found.iter_mut().find(|(other, _)| *other == origins) {
                Some((_, parts)) => parts.push(part.clone()),
                None => found.push((origins, vec![part.clone()])),
            }
        }
        let schema = self.scan.schema();
        let columns = |origins: &[Origin]| decode_exec::FileColumns::new((origins, &self.maps), &schema);
        found.into_iter().map(|(origins, parts)| (columns(&origins), parts)).collect()
    }

    /// The plan that reads the parts.
    fn plan(self) -> Result<ColumnarExec> {
        let scan = &self.scan;
        let by_origins = self.parts_by_origins();
        let bytes_of = |(columns, parts): &(decode_exec::FileColumns, Vec<ParquetPart>)| -> u64 {
            parts.iter().map(|part| file_groups::column_bytes(part, &columns.sources)).sum()
        };
        let stats = ColumnarStats {
            files: self.parts.iter().map(|part| part.file.name()).collect::<BTreeSet<_>>().len(),
            row_groups: self.parts.iter().map(|part| part.row_groups.len()).sum(),
            rows: self.parts.iter().map(|part| part.rows).sum(),
            bytes: by_origins.iter().map(bytes_of).sum(),
            memory: self.memory.iter().map(MemoryPart::rows_estimate).sum(),
            rest: self.rest.as_ref().map(|(_, rows)| *rows),
        };
        let budget = scan.view_and_table().0.budget.clone();
        let budget = budget.map(|budget| {
            let hint = if budget.is_bounded() { scan.hint().map(Into::into) } else { None };
            (budget, hint)
        });
        let span = self.parts.first().map(|part| part.span.clone()).unwrap_or_default();
        let mut children: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for (columns, parts) in by_origins {
            let (sources, limit) = (&columns.sources, scan.read().limit);
            let read = file_groups::sources(parts, sources, &columns.schema, limit, self.spread, &budget)?;
            let over = |child: Arc<dyn ExecutionPlan>| match &columns.decode {
                Some(decode) => Arc::new(decode_exec::DecodeExec::new(child, decode, scan, &span)),
                None => child,
            };
            children.extend(read.into_iter().map(over));
        }
        if !self.memory.is_empty() {
            let layout = scan.row_layout().ok_or_else(|| DataFusionError::Internal("a scan of no rows".into()))?;
            children.push(Arc::new(MemoryExec::new(self.memory.clone(), layout, self.spread.0, budget)));
        }
        if let Some((rest, _)) = &self.rest {
            match self.cut.as_slice() {
                [] | [_] => children.push(Arc::clone(rest) as _),
                cut => {
                    for rows in cut {
                        children.push(Arc::new(rest.narrowed(rows.clone())?));
                    }
                }
            }
        }
        let child = if children.len() == 1 { children.remove(0) } else { UnionExec::try_new(children)? };
        Ok(ColumnarExec::new(child, self, stats))
    }
}
