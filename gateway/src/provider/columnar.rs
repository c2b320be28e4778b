//! The fast path of scans: DataFusion's own Parquet source over row groups, memtables read where they lie, and the scan by rows over the rest.
//!
//! ```text
//! ColumnarExec                         the columns of SQL, in no order
//!   UnionExec
//!     DataSourceExec                   row groups that hold just what SQL reads, split over the partitions (module `parts`), below a
//!                                      node that leaves dead rows out where there are many (module `living`), and one that makes values
//!                                      of bytes where columns are not typed (module `decoded`)
//!     MemoryExec                       rows of memtables, split over the partitions (module `memory`)
//!     ScanExec                         all other rows
//! ```
//!
//! [`plan`] says whether a scan goes this way. What it may not change is an answer: the store gives exact selections of rows, parts and
//! rest have none in common, and what the store calls clean has one value in each column, as it is wanted. A scan of few rows, of single
//! keys, or over own uncommitted writes goes by rows. Whoever wants the order of keys gets the scan by rows in place of all this (`exec`).
//!
//! Cells that are no values as they stand (numbers of any precision, texts of numbers, JSON) have columns of their bytes, as have all cells of
//! private tables, which share their segments: these are decoded batch by batch, column by column.
//!
//! Where a join turns out to ask for a few keys only, these are read by rows in place of all this, when the first row is asked for (module `lookup`).
//!
//! Statistics of files and row groups stay with the Parquet source: the planner sees none, since a row group may hold the rows of
//! several tenants. Row groups and pages are skipped by them nevertheless, by predicates that stay in force for each row; and counts and extremes
//! of row groups whose rows are all wanted are taken of them (module `known`).

mod decoded;
mod exec;
mod file_groups;
mod key_lookup;
mod live_rows;
mod memory;
mod metadata_aggregates;
mod reader;

use super::{exec::ScanExec, table::is_operator};
use crate::view::View;
use datafusion::{
    common::Result,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, union::UnionExec},
};
pub use exec::{ColumnarExec, Counts};
pub(super) use key_lookup::rows_about;
use keyspan_catalog::{
    Table,
    layouts::{column_accepts, column_kind, key_columns},
    table::{ColumnPlace, OnBadKey},
};
use keyspan_storage::{
    ColumnKind, Columnar, ColumnarRequest, KeyDecoder, MemoryPart, ParquetPart, RequestedColumn, RowSet,
};
pub(crate) use memory::MemoryExec;
pub use metadata_aggregates::KnownAggregates;
use std::sync::Arc;

/// A scan of so many rows in row groups and memory goes by row groups.
pub const ROWS_MIN: u64 = 4_096;
/// One of fewer rows goes by rows, most of the time: opening files costs more than it saves. Not where there are so many values to be read,
/// and at least so many rows, of each row group too. A value of a row takes some 0.3 µs, a row group one to three milliseconds.
const VALUES_MIN: u64 = 8_192;
/// See [`VALUES_MIN`]; fewer are read on the thread that asks for them.
const ROWS_OF_MANY_VALUES_MIN: u64 = 1_024;
/// See [`VALUES_MIN`].
const ROWS_OF_GROUP_MIN: u64 = 256;
/// A scan of more ranges goes by rows: each of them is looked up in each file.
pub const RANGES_MAX: usize = 256;

/// Where a column of a batch comes from in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The wanted column of this number.
    Cell(usize),
    /// The decoder's column of this number.
    Key(usize),
    /// The column of row keys.
    RowKey,
}

/// Where a column of SQL comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// A column of a file as it stands.
    Typed(Source),
    /// The bytes of the wanted column of this number.
    Bytes(usize),
    /// The part of this number of the row's key.
    Part(usize),
}

/// What is asked of the store for some columns of a table.
struct Wanted {
    columns: Vec<RequestedColumn>,
    key: Option<String>,
    /// Where each column of SQL comes from.
    from: Vec<From>,
}

/// How a scan reaches its rows.
pub(super) enum Way {
    /// By row groups.
    Groups(Arc<dyn ExecutionPlan>),
    /// By rows: about so many, where that is known.
    Rows(Option<u64>),
}

/// The plan of a scan, by row groups where they serve. `scan` is the one by rows, whose batches have the columns
/// `projection` of the table. `spread` is over how many partitions, and in batches of how many rows at most.
///
/// # Errors
/// What the store says.
pub(super) async fn plan(
    (view, table): (&View, &Arc<Table>),
    projection: &[usize],
    scan: &Arc<ScanExec>,
    spread: (usize, usize),
) -> Result<Way> {
    if !is_candidate(view, table, scan) {
        return Ok(Way::Rows(keys(&scan.read().rows)));
    }
    let Some(wanted) = wanted(table, is_operator(view), projection) else { return Ok(Way::Rows(None)) };
    let request = ColumnarRequest {
        rows: scan.read().rows.clone(),
        columns: wanted.columns,
        key: wanted.key,
        pin: Some(view.pin.clone()),
    };
    let found = if view.rows.runs_inline(table, &request) {
        view.rows.columnar(table, request)
    } else {
        let (rows, asked) = (view.rows.clone(), Arc::clone(table));
        // The store may have to read what its files hold.
        let found = tokio::task::spawn_blocking(move || rows.columnar(&asked, request)).await;
        found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    };
    let Some(found) = found.transpose().map_err(|error| DataFusionError::External(Box::new(error)))? else {
        return Ok(Way::Rows(None));
    };
    let memory: u64 = found.memory.iter().map(MemoryPart::rows_estimate).sum();
    let rows = memory + found.parts.iter().map(|part| part.rows).sum::<u64>();
    let row_groups = found.parts.iter().map(|part| part.row_groups.len() as u64).sum();
    if !pays(rows, row_groups, projection.len() as u64) {
        return Ok(Way::Rows(Some(rows + if found.rest.is_empty() { 0 } else { found.rest.rows_estimate() })));
    }
    let plan = Found::new(found, wanted.from, scan, spread)?.plan()?;
    Ok(Way::Groups(Arc::new(plan)))
}

/// Whether row groups are faster than rows.
fn pays(rows: u64, row_groups: u64, columns: u64) -> bool {
    let many_values = rows * columns >= VALUES_MIN && rows >= ROWS_OF_MANY_VALUES_MIN;
    rows >= ROWS_MIN || many_values && rows >= row_groups * ROWS_OF_GROUP_MIN
}

/// How many rows there may be, where all ranges are single keys.
fn keys(rows: &RowSet) -> Option<u64> {
    rows.ranges().iter().all(|range| range.as_point().is_some()).then_some(rows.ranges().len() as u64)
}

/// Whether nothing speaks against row groups before the store is asked.
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

/// What has to be asked for; `None` when the parts of the table's keys have no columns.
fn wanted(table: &Table, operator: bool, projection: &[usize]) -> Option<Wanted> {
    let tenant = usize::from(operator);
    // The segments of private tables know nothing of any one's columns. Keys of theirs conform: nobody else writes them.
    let typed = !table.is_private();
    let (mut from, mut columns) = (vec![From::Typed(Source::Key(0)); projection.len()], Vec::new());
    let mut key = typed && table.on_bad_key != OnBadKey::Null;
    for (place, at) in projection.iter().enumerate() {
        let Some(column) = at.checked_sub(tenant).map(|at| &table.columns[at]) else {
            key = true;
            continue;
        };
        match &column.place {
            ColumnPlace::Key(part) if !typed => from[place] = From::Part(*part),
            ColumnPlace::Key(part) => {
                key = true;
                // The store's keys begin with the tenant, whoever looks.
                from[place] = From::Typed(Source::Key(part + 1));
            }
            ColumnPlace::Cell { family, qualifier, .. } => {
                let kind = column_kind(table, column).filter(|_| typed);
                let accepts = kind.and_then(|_| column_accepts(column)).map(|accepts| accepts.name);
                let (family, qualifier) = (family.clone(), qualifier.clone().into());
                let column = RequestedColumn { family, qualifier, kind: kind.unwrap_or(ColumnKind::Binary), accepts };
                columns.push((column, place, kind.is_some()));
            }
        }
    }
    // The order of a layout's columns, in which values of memory come.
    columns.sort_by(|(a, ..), (b, ..)| (&a.family, &a.qualifier).cmp(&(&b.family, &b.qualifier)));
    for (number, (_, place, typed)) in columns.iter().enumerate() {
        from[*place] = if *typed { From::Typed(Source::Cell(number)) } else { From::Bytes(number) };
    }
    let columns = columns.into_iter().map(|(column, ..)| column).collect();
    let mut wanted = Wanted { columns, key: None, from };
    if key {
        // Rows whose keys do not conform have to be told from the others even when no part is read.
        wanted.key = Some(key_columns(table)?.id());
    }
    Some(wanted)
}

/// What the store found for a scan.
#[derive(Clone, Debug)]
struct Found {
    parts: Vec<ParquetPart>,
    memory: Vec<MemoryPart>,
    /// The scan of all other rows by rows, and about how many they are.
    rest: Option<(Arc<ScanExec>, u64)>,
    /// Where each column of SQL comes from.
    from: Vec<From>,
    /// The same rows, in the order of keys.
    scan: Arc<ScanExec>,
    /// Over how many partitions, and in batches of how many rows at most.
    spread: (usize, usize),
}

impl Found {
    fn new(found: Columnar, from: Vec<From>, scan: &Arc<ScanExec>, spread: (usize, usize)) -> Result<Self> {
        let Columnar { parts, memory, rest } = found;
        let rows = rest.rows_estimate();
        let rest = if rest.is_empty() { None } else { Some((Arc::new(scan.of_rest(rest)?), rows)) };
        Ok(Self { parts, memory, rest, from, scan: Arc::clone(scan), spread })
    }

    /// Whether there are no rows at all, for certain.
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.memory.is_empty() && self.rest.is_none()
    }

    /// The plan that reads it.
    fn plan(self) -> Result<ColumnarExec> {
        let scan = &self.scan;
        let columns = decoded::Columns::new(&self.from, &scan.schema());
        let counts = Counts {
            files: self.parts.len(),
            row_groups: self.parts.iter().map(|part| part.row_groups.len()).sum(),
            rows: self.parts.iter().map(|part| part.rows).sum(),
            bytes: self.parts.iter().map(|part| file_groups::bytes(part, &columns.sources)).sum(),
            memory: self.memory.iter().map(MemoryPart::rows_estimate).sum(),
            rest: self.rest.as_ref().map(|(_, rows)| *rows),
        };
        let budget = scan.door().0.budget.clone();
        let spent = budget.map(|budget| (budget, scan.hint().map(Into::into)));
        let span = self.parts.first().map(|part| part.span.clone()).unwrap_or_default();
        let (parts, limit) = (self.parts.clone(), scan.read().limit);
        let mut children = file_groups::sources(parts, &columns.sources, &columns.schema, limit, self.spread, &spent)?;
        if let Some(decode) = columns.decode {
            let over =
                |child| Arc::new(decoded::DecodeExec::new(child, &decode, scan, &span)) as Arc<dyn ExecutionPlan>;
            children = children.into_iter().map(over).collect();
        }
        if !self.memory.is_empty() {
            let layout = scan.row_layout().ok_or_else(|| DataFusionError::Internal("a scan of no rows".into()))?;
            children.push(Arc::new(MemoryExec::new(self.memory.clone(), layout, self.spread.0, spent)));
        }
        children.extend(self.rest.iter().map(|(rest, _)| Arc::clone(rest) as Arc<dyn ExecutionPlan>));
        let child = if children.len() == 1 { children.remove(0) } else { UnionExec::try_new(children)? };
        Ok(ColumnarExec::new(child, self, counts))
    }
}
