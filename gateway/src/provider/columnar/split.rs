//! Scans by rows, cut into several that run side by side, each a stream of its own.
//!
//! A stream of one server carries some tens of megabytes a second, and a table lies on many; and one thread makes some
//! hundred thousand rows a second of what lies in files. So rows that are asked for in no order come by several
//! streams; a plan that needs key order gets the one scan, as of row groups. A table on a server is cut at sampled
//! keys, which also tell how much there is: what lies between two of them that a tenant's span has. No sample of
//! another span is seen here. One in files is cut at the keys with which pages begin.

use super::{ColumnarExec, ColumnarStats, is_candidate};
use crate::{provider::exec::ScanExec, view::View};
use bytes::Bytes;
use datafusion::{
    common::Result,
    error::DataFusionError,
    physical_plan::{ExecutionPlan, union::UnionExec},
};
use keyspan_catalog::{Table, tenant_store::Samples};
use keyspan_storage::{ColumnarRequest, Cuts, KeyRange, RowSet};
use std::sync::Arc;

/// Streams of one scan.
const STREAMS_MAX: usize = 8;
/// Less is read by one stream: another costs a round trip, in which a stream carries as much.
const BYTES_MIN: u64 = 256 << 10;
/// Bytes that a stream carries in a microsecond, as an estimate: what such services say of themselves, some tens of
/// megabytes a second.
const STREAM_BYTES_PER_MICRO: u64 = 16;
/// Bytes of a row where only the bytes of all of them are known.
const ROW_BYTES_GUESS: u64 = 256;
/// Rows that a scan is said to read beside what lies between samples.
const ROWS_BESIDE: u64 = 1_000;

/// Fewer rows of files are read by one stream.
pub(super) const ROWS_OF_FILES_MIN: u64 = 16 << 10;

/// Streams side by side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    pub(crate) count: usize,
    /// Of a table on a server, the bytes that all of them carry in the time of a round trip: what a seek costs beside
    /// them.
    pub(crate) seek_bytes: Option<u64>,
}

/// What becomes of a scan.
pub(crate) enum Split {
    /// Several scans.
    Streams(Arc<ColumnarExec>),
    /// It stays one, of about so many rows, if that is known.
    Whole(Option<u64>),
}

/// Cuts a scan of a table on a server.
///
/// # Errors
/// The store's; of the samples none, without which the scan stays one.
pub(crate) async fn plan((view, table): (&View, &Arc<Table>), scan: &Arc<ScanExec>) -> Result<Split> {
    let read = scan.read();
    // What a commit may rely on is remembered with the rows of the one scan.
    if !is_candidate(view, table, scan) || view.relies_on(table.id) || view.isolated || view.as_of.is_some() {
        return Ok(Split::Whole(super::point_count(&read.rows)));
    }
    let Ok(samples) = view.rows.samples(table).await else { return Ok(Split::Whole(None)) };
    let bytes = bytes_within(&read.rows, &samples);
    let rows = bytes / ROW_BYTES_GUESS + ROWS_BESIDE;
    let parts = cut(&read.rows, &samples);
    if bytes < BYTES_MIN || parts.len() < 2 {
        return Ok(Split::Whole(Some(rows)));
    }
    let request = ColumnarRequest {
        rows: read.rows.clone(),
        span: KeyRange::all(),
        columns: Vec::new(),
        key: None,
        or_row_key: false,
        pin: Some(view.pin.clone()),
    };
    let Some(found) = view.rows.columnar(table, request) else { return Ok(Split::Whole(Some(rows))) };
    let found = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let all = scan.of_rest(found.rest)?;
    let parts: Vec<Arc<dyn ExecutionPlan>> =
        parts.into_iter().map(|rows| Ok(Arc::new(all.narrowed(rows)?) as _)).collect::<Result<_>>()?;
    let stats = ColumnarStats { files: 0, row_groups: 0, rows: 0, bytes, memory: 0, rest: Some(rows) };
    let (count, round_trip) = (parts.len(), view.rows.round_trip_micros(table));
    let seek_bytes = STREAM_BYTES_PER_MICRO.saturating_mul(round_trip.max(1)).saturating_mul(count as u64);
    let streams = Streams { count, seek_bytes: Some(seek_bytes) };
    let streams = ColumnarExec::of_streams((UnionExec::try_new(parts)?, streams), scan, all, stats);
    Ok(Split::Streams(Arc::new(streams)))
}

/// Cuts a scan by rows of what lies in files into `parts`, if it pays.
///
/// # Errors
/// The store's.
pub(crate) async fn of_files((view, table): (&View, &Arc<Table>), scan: &Arc<ScanExec>, parts: usize) -> Result<Split> {
    if !is_candidate(view, table, scan) {
        return Ok(Split::Whole(None));
    }
    let (rows, sets) = cut_at_pages((view, table), &scan.read().rows, parts).await?;
    if sets.len() < 2 {
        return Ok(Split::Whole(None));
    }
    let all = scan.as_part()?;
    let count = sets.len();
    let parts = sets.into_iter().map(|rows| Ok(Arc::new(all.narrowed(rows)?) as _));
    let parts: Vec<Arc<dyn ExecutionPlan>> = parts.collect::<Result<_>>()?;
    let stats = ColumnarStats { files: 0, row_groups: 0, rows: 0, bytes: 0, memory: 0, rest: Some(rows) };
    let streams = Streams { count, seek_bytes: None };
    let streams = ColumnarExec::of_streams((UnionExec::try_new(parts)?, streams), scan, all, stats);
    Ok(Split::Streams(Arc::new(streams)))
}

/// About how many rows there are in files, and the rows in parts; in one where they are few.
pub(super) async fn cut_at_pages(
    (view, table): (&View, &Arc<Table>),
    rows: &RowSet,
    parts: usize,
) -> Result<(u64, Vec<RowSet>)> {
    let (store, table, pin, all) = (view.rows.clone(), Arc::clone(table), view.pin.clone(), rows.clone());
    // The store may have to read metadata of its files.
    let found = tokio::task::spawn_blocking(move || store.cuts(&table, &all, &pin, parts)).await;
    let found = found.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    let Cuts { keys, rows: count } = found.map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(if count < ROWS_OF_FILES_MIN { (count, vec![rows.clone()]) } else { (count, cut_at(rows, &keys)) })
}

/// The rows in parts, in the order of keys, each but the first of which begins with one of the keys.
fn cut_at(rows: &RowSet, keys: &[Bytes]) -> Vec<RowSet> {
    let mut parts = Vec::with_capacity(keys.len() + 1);
    let mut from = Bytes::new();
    for to in keys {
        let before = std::mem::replace(&mut from, to.clone());
        parts.push(rows.intersect(&RowSet::from(KeyRange::new(before, Some(to.clone())))));
    }
    parts.push(rows.intersect(&RowSet::from(KeyRange::new(from, None))));
    parts.retain(|part| !part.is_empty());
    parts
}

/// The bytes between samples that lie in the rows with all that is between them.
fn bytes_within(rows: &RowSet, samples: &Samples) -> u64 {
    let between = samples.keys.windows(2).filter(|two| {
        let (from, to) = (&two[0], &two[1]);
        let holds = |range: &KeyRange| range.contains(&from.0) && range.contains(&to.0);
        rows.ranges().iter().any(holds)
    });
    between.map(|two| two[1].1.saturating_sub(two[0].1)).sum()
}

/// The rows in at most [`STREAMS_MAX`] parts, in the order of keys: each of about as many samples.
fn cut(rows: &RowSet, samples: &Samples) -> Vec<RowSet> {
    let within = |key: &&[u8]| rows.ranges().iter().any(|range| range.contains(key) && *range.start != **key);
    let within: Vec<&[u8]> = samples.keys.iter().map(|(key, _)| key.as_ref()).filter(within).collect();
    let every = (within.len() + 1).div_ceil(STREAMS_MAX);
    let keys = within.iter().skip(every - 1).step_by(every).map(|key| Bytes::copy_from_slice(key));
    cut_at(rows, &keys.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples(keys: &[(u8, u64)]) -> Samples {
        Samples { keys: keys.iter().map(|(key, offset)| (Bytes::copy_from_slice(&[*key]), *offset)).collect() }
    }

    fn range(from: u8, to: Option<u8>) -> KeyRange {
        let start = if from == 0 { Bytes::new() } else { Bytes::copy_from_slice(&[from]) };
        KeyRange::new(start, to.map(|to| Bytes::copy_from_slice(&[to])))
    }

    #[test]
    fn bytes_are_those_between_samples_that_are_read() {
        let samples = samples(&[(10, 100), (20, 300), (30, 700)]);
        let bytes = |ranges: &[KeyRange]| bytes_within(&RowSet::new(ranges.iter().cloned()), &samples);
        assert_eq!(bytes(&[KeyRange::all()]), 600);
        assert_eq!([bytes(&[range(10, Some(21))]), bytes(&[range(11, Some(25))])], [200, 0]);
        assert_eq!(bytes(&[range(5, Some(15)), range(16, None)]), 400);
    }

    proptest! {
        #[test]
        fn parts_are_all_rows_each_once(
            keys in prop::collection::btree_set(1_u8..250, 0..40),
            ranges in prop::collection::vec((0_u8..250, prop::option::of(1_u8..255)), 1..6),
        ) {
            let samples = samples(&keys.iter().map(|key| (*key, u64::from(*key))).collect::<Vec<_>>());
            let ranges = ranges.into_iter().filter(|(from, to)| to.is_none_or(|to| *from < to));
            let rows = RowSet::new(ranges.map(|(from, to)| range(from, to)));
            let parts = cut(&rows, &samples);
            prop_assert!(parts.len() <= STREAMS_MAX);
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
            for key in 0..=255_u8 {
                let holds = |rows: &RowSet| rows.ranges().iter().any(|range| range.contains(&[key]));
                let times = parts.iter().filter(|part| holds(part)).count();
                prop_assert_eq!(times, usize::from(holds(&rows)), "{}", key);
            }
        }
    }
}
