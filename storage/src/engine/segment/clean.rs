//! Which row groups a query engine may read by itself, and which of their rows. Pure, but for loading the footer.
//!
//! A row group is *clean* for a request if its columns hold, in every row, what a scan would return:
//! - each requested column is shredded with the requested kind, its values have passed the requested check, and it is
//!   residual nowhere; or no row of the row group has a cell of it; or its family was dropped;
//! - no newest cell of a requested column can have been condemned. Older versions do not matter: only the newest cell
//!   is requested, and no rule by number of versions condemns it;
//! - every row exists: no family with cells here was dropped or can have lost one, or a family that cannot lose cells
//!   has a column with a value in every row;
//! - the parts of the key are there, if they are requested.

use super::{
    footer::{ColumnFooter, Footer, GroupFooter},
    open::{Loaded, Segment},
    shape::KEY,
};
use crate::{
    ColumnKind, GcRule, KeyRange, ParquetPart, PartFile, Result,
    engine::deletion_vector::{DeletionVector, Position},
};
use arrow::array::BooleanBufferBuilder;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use parquet::arrow::arrow_reader::RowSelection;
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Runs of selected rows of a row group, beyond which a selection becomes a bitmap: skipping row by row takes a reader
/// longer than reading everything.
const RUNS_MAX: usize = 128;

/// A request for the clean row groups of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CleanRequest<'a> {
    /// The requested positions, ascending and disjoint.
    pub(crate) ranges: &'a [Range<Position>],
    /// The keys that the caller may read: a row group with others is a border row group.
    pub(crate) span: &'a KeyRange,
    /// Dead positions, which are excluded.
    pub(crate) dead: &'a DeletionVector,
    /// Columns whose newest cells are read.
    pub(crate) columns: &'a [CleanColumn],
    /// The id of the decoder whose columns are requested.
    pub(crate) key: Option<&'a str>,
    /// Whether row groups without these columns will do too.
    pub(crate) or_row_key: bool,
    /// The table's families by number, each with every rule that may have condemned cells of this segment and the time
    /// at which it is evaluated: the current rule at the pin's time, and past ones.
    pub(crate) families: &'a BTreeMap<u32, Vec<(GcRule, i64)>>,
}

/// A column, and the requirements on its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CleanColumn {
    /// The family's number.
    pub(crate) family: u32,
    pub(crate) qualifier: Bytes,
    pub(crate) kind: ColumnKind,
    /// The name of the check that its values must have passed.
    pub(crate) accepts: Option<&'static str>,
    /// Whether a column of bytes will do too.
    pub(crate) or_bytes: bool,
}

impl CleanColumn {
    /// Whether the shredded column meets the requirements.
    fn is(&self, column: &ColumnFooter) -> bool {
        let holds = match (column.kind, self.kind) {
            // Fewer digits are of the kind with more, too.
            (
                ColumnKind::Decimal { precision, scale },
                ColumnKind::Decimal { precision: requested, scale: requested_scale },
            ) => precision <= requested && scale == requested_scale,
            (kind, requested) => kind == requested,
        };
        holds && self.accepts.is_none_or(|name| column.accepts.as_deref() == Some(name))
    }

    /// Whether the shredded column holds the values as bytes, which will do.
    fn is_bytes(&self, column: &ColumnFooter) -> bool {
        self.or_bytes && column.kind == ColumnKind::Binary && !self.is(column)
    }
}

/// The clean parts of a segment, and the rest.
#[derive(Debug, Default)]
pub(crate) struct CleanParts {
    /// Clean row groups with live rows: those in the span, and border row groups.
    pub(crate) parts: Vec<ParquetPart>,
    /// Positions of the other row groups, including dead ones.
    pub(crate) rest: Vec<Range<Position>>,
    /// Number of live rows among them.
    pub(crate) rest_rows: u64,
}

impl Segment {
    /// Divides the rows of a request into those of clean row groups and the rest.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn clean(&self, request: &CleanRequest<'_>) -> Result<CleanParts> {
        if request.ranges.is_empty() {
            return Ok(CleanParts::default());
        }
        let loaded = self.load()?;
        let found = choose(&loaded.footer, request);
        if found.groups.is_empty() {
            return Ok(CleanParts { parts: Vec::new(), rest: found.rest, rest_rows: found.rest_rows });
        }
        let own = self.own_positions(request, &loaded.footer, &found.groups)?;
        let part = ParquetPart {
            metadata: loaded.metadata.metadata().clone(),
            is_border: false,
            row_groups: found.groups,
            rows: found.rows,
            columns: names(&loaded.footer, request),
            bytes: bytes(&loaded.footer, request),
            key_columns: Vec::new(),
            row_key: KEY.to_owned(),
            span: Bytes::new(),
            file: Arc::new(SegmentFile(Arc::clone(&loaded))),
        };
        let key = loaded.footer.key.as_ref().map(|key| key.columns.clone()).unwrap_or_default();
        let parts = part.with_key(key, |at| has_key(&loaded.footer, at, request)).into_iter();
        let parts =
            parts.flat_map(|part| part.divided(|at| holds(&own, &loaded.footer.groups[at].positions()))).collect();
        Ok(CleanParts { parts, rest: found.rest, rest_rows: found.rest_rows })
    }

    /// Positions of rows in the span, dead ones too: enough of them to tell which of the row groups are border row
    /// groups. Most requests are for whole row groups, and then no key is looked up.
    fn own_positions(
        &self,
        request: &CleanRequest<'_>,
        footer: &Footer,
        groups: &[(usize, Option<RowSelection>)],
    ) -> Result<Vec<Range<Position>>> {
        let is_asked_for = |(at, _): &(usize, _)| holds(request.ranges, &footer.groups[*at].positions());
        match groups.iter().all(is_asked_for) {
            true => Ok(request.ranges.to_vec()),
            false => Ok(vec![self.positions(request.span)?]),
        }
    }
}

/// Whether one of the ranges holds all of these positions.
fn holds(ranges: &[Range<Position>], positions: &Range<Position>) -> bool {
    ranges.iter().any(|range| range.start <= positions.start && positions.end <= range.end)
}

/// The result of [`choose`].
#[derive(Debug, Default, PartialEq)]
struct CleanSelection {
    groups: Vec<(usize, Option<RowSelection>)>,
    /// Live rows of the selected row groups.
    rows: u64,
    rest: Vec<Range<Position>>,
    rest_rows: u64,
}

fn choose(footer: &Footer, request: &CleanRequest<'_>) -> CleanSelection {
    let mut chosen = CleanSelection::default();
    for (at, group) in footer.groups.iter().enumerate() {
        let positions = group.positions();
        let within: Vec<Range<Position>> = within(request.ranges, &positions).collect();
        let live = |range: &Range<Position>| u64::from(range.end - range.start) - request.dead.count_in(range.clone());
        let rows: u64 = within.iter().map(live).sum();
        if rows == 0 {
            continue;
        }
        if !is_clean(footer, at, request) {
            chosen.rest.extend(within);
            chosen.rest_rows += rows;
            continue;
        }
        let selection = (rows < u64::from(group.rows)).then(|| selection(request.dead, &within, &positions));
        chosen.groups.push((at, selection));
        chosen.rows += rows;
    }
    chosen
}

/// The live positions in the ranges, which lie in the row group; as a bitmap if they form many runs.
fn selection(dead: &DeletionVector, within: &[Range<Position>], positions: &Range<Position>) -> RowSelection {
    let runs = || within.iter().flat_map(|range| dead.live_runs(range.clone()));
    if runs().nth(RUNS_MAX).is_none() {
        let runs = runs().map(|run| (run.start - positions.start) as usize..(run.end - positions.start) as usize);
        return RowSelection::from_consecutive_ranges(runs, positions.len());
    }
    let mut bits = BooleanBufferBuilder::new(positions.len());
    let mut at = positions.start;
    for range in within {
        bits.append_n((range.start - at) as usize, false);
        dead.append_live(range.clone(), &mut bits);
        at = range.end;
    }
    bits.append_n((positions.end - at) as usize, false);
    RowSelection::from_boolean_buffer(bits.finish())
}

/// The intersections of ascending ranges with `bounds`.
fn within<'a>(
    ranges: &'a [Range<Position>],
    bounds: &Range<Position>,
) -> impl Iterator<Item = Range<Position>> + use<'a> {
    let (start, end) = (bounds.start, bounds.end);
    let first = ranges.partition_point(|range| range.end <= start);
    let touching = ranges[first..].iter().take_while(move |range| range.start < end);
    touching.map(move |range| range.start.max(start)..range.end.min(end)).filter(|range| !range.is_empty())
}

fn is_clean(footer: &Footer, at: usize, request: &CleanRequest<'_>) -> bool {
    let group = &footer.groups[at];
    let column_is_clean = |column: &CleanColumn| {
        // A dropped family has no cells, whatever the file holds.
        let rules = request.families.get(&column.family);
        rules.is_none_or(|rules| is_plain(footer, at, column) && !may_condemn(footer, group, column.family, rules))
    };
    let key = request.key.is_none() || request.or_row_key || has_key(footer, at, request);
    key && request.columns.iter().all(column_is_clean) && every_row_exists(footer, group, request.families)
}

/// Whether the row group has the requested columns of the key.
fn has_key(footer: &Footer, at: usize, request: &CleanRequest<'_>) -> bool {
    let key = footer.key.as_ref().filter(|_| footer.groups[at].key);
    key.is_some_and(|key| request.key == Some(key.id.as_str()))
}

/// Whether the row group has the column as requested, or no cell of it.
fn is_plain(footer: &Footer, at: usize, wanted: &CleanColumn) -> bool {
    let group = &footer.groups[at];
    match footer.column(wanted.family, &wanted.qualifier) {
        Some(column) => {
            let found = &footer.columns[column];
            group.residual[column] == 0 && (group.values[column] == 0 || wanted.is(found) || wanted.is_bytes(found))
        }
        None => !footer.overflow_may_hold(at, wanted.family, &wanted.qualifier, true),
    }
}

/// Whether a rule may have condemned the newest cell of a column of the family.
fn may_condemn(footer: &Footer, group: &GroupFooter, family: u32, rules: &[(GcRule, i64)]) -> bool {
    let least = footer.family(family).and_then(|at| group.newest_least[at]);
    least.is_some_and(|least| rules.iter().any(|(rule, timestamp)| rule.condemns(0, least, *timestamp)))
}

fn every_row_exists(footer: &Footer, group: &GroupFooter, families: &BTreeMap<u32, Vec<(GcRule, i64)>>) -> bool {
    let keeps = |family: u32| families.get(&family).is_some_and(|rules| !may_condemn(footer, group, family, rules));
    let here = footer.families.iter().zip(&group.newest_least).filter(|(_, least)| least.is_some());
    let every_family_keeps = || here.clone().all(|(family, _)| keeps(family.number));
    let full = |(column, &values): (usize, &u32)| values == group.rows && keeps(footer.columns[column].family);
    every_family_keeps() || group.values.iter().enumerate().any(full)
}

/// The names in the file of the requested columns; `None` for one that is NULL in every clean row group.
fn names(footer: &Footer, request: &CleanRequest<'_>) -> Vec<Option<String>> {
    let name = |wanted: &CleanColumn| {
        request.families.get(&wanted.family)?;
        let column = &footer.columns[footer.column(wanted.family, &wanted.qualifier)?];
        (wanted.is(column) || wanted.is_bytes(column)).then(|| column.name.clone())
    };
    request.columns.iter().map(name).collect()
}

/// Which of the requested columns the file has as bytes.
fn bytes(footer: &Footer, request: &CleanRequest<'_>) -> Vec<bool> {
    let is_bytes = |wanted: &CleanColumn| {
        let column = footer.column(wanted.family, &wanted.qualifier);
        column.is_some_and(|column| wanted.is_bytes(&footer.columns[column]))
    };
    request.columns.iter().map(is_bytes).collect()
}

/// The file of a part.
#[derive(Debug)]
struct SegmentFile(Arc<Loaded>);

impl PartFile for SegmentFile {
    fn name(&self) -> String {
        self.0.id.parquet_name()
    }

    fn size(&self) -> u64 {
        self.0.file.size()
    }

    fn read(&self, ranges: &[Range<u64>]) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let (loaded, ranges) = (self.0.clone(), ranges.to_vec());
        let read = move || {
            let read = |range: Range<u64>| loaded.file.read(range.start, (range.end - range.start) as usize);
            ranges.into_iter().map(read).collect()
        };
        async move {
            let done = tokio::task::spawn_blocking(read).await;
            done.unwrap_or_else(|error| Err(crate::Error::Unavailable(format!("a read was given up: {error}"))))
        }
        .boxed()
    }
}
