//! The work of a load: rows in, segments out.
//!
//! Rows gather in a [`Buffer`]; a full one is sorted and its keys are [looked up](super::probe). As long as each buffer
//! comes after the previous one, buffers go straight into segments, one buffer late: nothing is written before the next
//! buffer is known. From the first buffer that does not ascend, buffers become [`Runs`], and at the end one merge makes
//! segments of everything that overlaps.

use super::{
    buffer::{Buffer, Sorted},
    merge::{Item, Merge, Source, halved},
    output::{Output, STEP_BYTES, check_disjoint},
    probe::Probe,
    runs::Runs,
};
use crate::{
    Error, LoadColumn, NewRows, Result, TableName,
    engine::{
        cells,
        deletion_vector::DeletionVector,
        descriptor::Descriptor,
        maintain::Maintenance,
        manifest::SegmentMeta,
        segment::{DECODED_BYTES_TARGET, Segment},
    },
    load::{self, NEW_ROWS_BYTES_TARGET},
};
use bytes::Bytes;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread, vec,
};

/// Bytes after which a buffer is full as long as buffers ascend: they become segments while later rows come, so that
/// little is left to be written at the end. No more than a batch of the client's, so that the client, the splitting of
/// rows and their encoding work side by side: of larger ones it waits for the one, and they for it.
const ASCENDING_BYTES_MAX: usize = NEW_ROWS_BYTES_TARGET;

/// The state of a load; used by one thread at a time.
#[derive(Debug)]
pub(super) struct Loader {
    pub(super) maintenance: Arc<Maintenance>,
    pub(super) name: TableName,
    /// The descriptor at the beginning of the load.
    pub(super) descriptor: Arc<Descriptor>,
    columns: Vec<Column>,
    /// In the order of their names.
    families: Vec<WholeFamily>,
    /// Stamp of the cells, in microseconds.
    stamp: i64,
    buffer: Buffer,
    /// Bytes after which a buffer that becomes a run is full: there may be two.
    buffer_bytes: usize,
    /// Rows after everything that was written, until the following rows are known.
    pending: Option<Sorted>,
    runs: Runs,
    pub(super) output: Output,
    /// Segments whose rows were written to others, and which can be removed.
    consumed: Vec<SegmentMeta>,
    pub(super) probe: Probe,
    pub(super) control: LoadControl,
    /// Whether the segments are in the manifest.
    pub(super) done: bool,
}

/// Whether a load may go on, and its step size.
#[derive(Debug)]
pub(super) struct LoadControl {
    /// Set when the rows are being purged.
    cancelled: Arc<AtomicBool>,
    maintenance: Arc<Maintenance>,
}

impl LoadControl {
    /// # Errors
    /// [`Error::Conflict`] when the rows are being purged; [`Error::Unavailable`] when the store is closed, or has
    /// stopped.
    pub(super) fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::SeqCst) {
            return Err(Error::Conflict);
        }
        if self.maintenance.shared.coordination.is_closed() {
            return Err(Error::Unavailable("it was closed".into()));
        }
        self.maintenance.shared.check_writing()
    }

    /// Rows written in a step; a segment can only end between two steps.
    fn step_rows(&self) -> usize {
        self.maintenance.options.granularity.step_rows_max
    }
}

/// The destination of a row's value.
#[derive(Debug)]
struct Column {
    /// Its index among the values.
    at: usize,
    head: Vec<u8>,
}

/// A family of which rows may have any cells.
#[derive(Debug)]
struct WholeFamily {
    /// Its index among the values.
    at: usize,
    number: u32,
    /// The columns that its cells lie between, by their index in the loader's: those of earlier families come before,
    /// and its own are merged with its cells.
    own: Range<usize>,
    /// The qualifiers of its own columns.
    qualifiers: Vec<Bytes>,
}

impl WholeFamily {
    /// Adds the cells of a row, with those of the family's own columns: heads and values, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cell of one of these columns, and for what is malformed.
    fn put<'a>(&self, columns: &'a [Column], values: &[Option<&'a [u8]>], out: &mut Cells<'a>) -> Result<()> {
        let mut own = columns[self.own.clone()].iter().zip(&self.qualifiers).peekable();
        let put_own = |column: &'a Column, out: &mut Cells<'a>| {
            out.all.extend(values[column.at].map(|value| (Head::Known(&column.head), value)));
        };
        for (qualifier, value) in load::cells_of(values[self.at].unwrap_or_default())? {
            while let Some((column, _)) = own.next_if(|(_, before)| before.as_ref() < qualifier) {
                put_own(column, out);
            }
            if own.peek().is_some_and(|(_, next)| next.as_ref() == qualifier) {
                return Err(Error::Invalid("a cell of a family is one of a column of its own, too".into()));
            }
            let start = out.heads.len();
            cells::put_column_head(&mut out.heads, self.number, qualifier);
            out.all.push((Head::Made(start..out.heads.len()), value));
        }
        own.for_each(|(column, _)| put_own(column, out));
        Ok(())
    }
}

/// The cells of a row with these values; `None` if the load has no whole families, and they are those of its columns.
fn cells_of_row<'a>(
    columns: &'a [Column],
    families: &[WholeFamily],
    values: &[Option<&'a [u8]>],
) -> Result<Option<Cells<'a>>> {
    if families.is_empty() {
        return Ok(None);
    }
    let (mut cells, mut next) = (Cells::default(), 0);
    let put = |columns: &'a [Column], cells: &mut Cells<'a>| {
        cells.all.extend(columns.iter().filter_map(|column| Some((Head::Known(&column.head), values[column.at]?))));
    };
    for family in families {
        put(&columns[next..family.own.start], &mut cells);
        family.put(columns, values, &mut cells)?;
        next = family.own.end;
    }
    put(&columns[next..], &mut cells);
    Ok(Some(cells))
}

/// The cells of a row: heads and values, in order.
#[derive(Default)]
struct Cells<'a> {
    all: Vec<(Head<'a>, &'a [u8])>,
    /// The heads that were made for this row.
    heads: Vec<u8>,
}

/// The head of a cell.
enum Head<'a> {
    Known(&'a [u8]),
    /// Where it lies among those that were made.
    Made(Range<usize>),
}

impl Cells<'_> {
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all.iter().map(|(head, value)| match head {
            Head::Known(head) => (*head, *value),
            Head::Made(range) => (&self.heads[range.clone()], *value),
        })
    }
}

impl Loader {
    /// Begins a load of a table.
    pub(super) fn new(
        maintenance: Arc<Maintenance>,
        name: TableName,
        descriptor: Arc<Descriptor>,
        columns: &[LoadColumn],
        (buffer_bytes, cancelled): (usize, Arc<AtomicBool>),
    ) -> Self {
        // After every commit that the descriptor includes.
        let stamp = maintenance.shared.clock.stamp();
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|&at| (&columns[at].family, &columns[at].qualifier));
        let number = |family| descriptor.number_of(family).expect("the columns were checked");
        let single = order.iter().filter_map(|&at| Some((at, &columns[at].family, columns[at].qualifier.as_ref()?)));
        let single: Vec<_> = single.collect();
        let family = |&at: &usize| {
            let LoadColumn { family, qualifier: None } = &columns[at] else { return None };
            let own = single.partition_point(|one| one.1 < family)..single.partition_point(|one| one.1 <= family);
            let qualifiers = single[own.clone()].iter().map(|(.., qualifier)| Bytes::clone(qualifier)).collect();
            Some(WholeFamily { at, number: number(family), own, qualifiers })
        };
        let families = order.iter().filter_map(family).collect();
        let column = |&(at, family, qualifier): &(usize, _, &Bytes)| Column {
            at,
            head: cells::column_head(number(family), qualifier),
        };
        let columns = single.iter().map(column).collect();
        let runs = Runs::new(Arc::clone(&maintenance.scratch), maintenance.options.granularity.load_runs_max);
        let output = Output::new(Arc::clone(&maintenance), name.clone(), Arc::clone(&descriptor), stamp);
        Self {
            probe: Probe::new(Arc::clone(&maintenance), name.clone(), Arc::clone(&descriptor)),
            control: LoadControl { cancelled, maintenance: Arc::clone(&maintenance) },
            maintenance,
            name,
            descriptor,
            columns,
            families,
            stamp,
            buffer: Buffer::with_room(buffer_bytes.min(ASCENDING_BYTES_MAX)),
            buffer_bytes,
            pending: None,
            runs,
            output,
            consumed: Vec::new(),
            done: false,
        }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`Error::RowExists`]; errors of [`check`](LoadControl::check), of reading and of writing.
    pub(super) fn add(&mut self, rows: &NewRows) -> Result<()> {
        self.control.check()?;
        let mut values = Vec::with_capacity(self.columns.len());
        for row in rows.iter() {
            values.clear();
            values.extend(row.values());
            let all = cells_of_row(&self.columns, &self.families, &values)?;
            self.buffer.push(row.number(), row.key(), |out| {
                if let Some(all) = &all {
                    cells::put_row(out, self.stamp, all.iter());
                    return;
                }
                let cells = self.columns.iter().filter_map(|column| Some((&column.head[..], values[column.at]?)));
                cells::put_row(out, self.stamp, cells);
            })?;
            if self.buffer.bytes() >= self.buffer.room() {
                self.turn()?;
            }
        }
        Ok(())
    }

    /// Looks up the rows of the buffer, and writes them to a segment or a run.
    fn turn(&mut self) -> Result<()> {
        let Some(sorted) = self.sort()? else { return Ok(()) };
        if !self.runs.is_empty() {
            return self.runs.add(&sorted);
        }
        let ascends = self.pending.as_ref().map_or(self.output.last(), Sorted::last) < sorted.first();
        match (self.pending.take(), ascends) {
            (before, true) => {
                self.pending = Some(sorted);
                before.map_or(Ok(()), |before| self.write(&before))
            }
            (before, false) => {
                // The open segment will not grow any more.
                self.output.cut()?;
                self.buffer.set_room(self.buffer_bytes);
                before.map_or(Ok(()), |before| self.runs.add(&before))?;
                self.runs.add(&sorted)
            }
        }
    }

    fn sort(&mut self) -> Result<Option<Sorted>> {
        let sorted = self.buffer.sort()?;
        if let Some(sorted) = &sorted {
            self.probe.look_up(sorted)?;
        }
        Ok(sorted)
    }

    fn write(&mut self, sorted: &Sorted) -> Result<()> {
        let mut at = 0;
        let step_rows = self.control.step_rows();
        let mut rows = Vec::with_capacity(step_rows.min(sorted.len()));
        while at < sorted.len() {
            self.control.check()?;
            rows.clear();
            let mut bytes = 0;
            while at < sorted.len() && rows.len() < step_rows && bytes < STEP_BYTES {
                rows.push((sorted.key(at), sorted.row(at)));
                bytes += sorted.key(at).len() + sorted.row(at).len();
                at += 1;
            }
            self.output.write(&rows)?;
        }
        Ok(())
    }

    /// Writes all remaining rows: the [output](Self::output) then has every row, in durable segments.
    ///
    /// # Errors
    /// Same as [`add`](Self::add).
    pub(super) fn seal(&mut self) -> Result<()> {
        self.control.check()?;
        let last = self.sort()?;
        let before = self.pending.take();
        let end = before.as_ref().map_or(self.output.last(), Sorted::last);
        let ascends = self.runs.is_empty() && last.as_ref().is_none_or(|last| end < last.first());
        if ascends {
            before.iter().chain(&last).try_for_each(|sorted| self.write(sorted))?;
            self.output.cut()?;
        } else {
            self.output.cut()?;
            let memory = before.into_iter().chain(last).map(Source::memory);
            let sources: Vec<Source> = self.runs.take().chain(memory).collect();
            self.merge(sources)?;
        }
        check_disjoint(self.output.segments())
    }

    fn merge(&mut self, mut sources: Vec<Source>) -> Result<()> {
        // A segment that was written while rows still ascended is a source too, unless it comes before all remaining
        // rows.
        let bounds = Merge::bounds(&sources);
        for meta in bounds.map_or_else(Vec::new, |(first, last)| self.output.take_reaching(&first, &last)) {
            self.consumed.push(meta.clone());
            let (blobs, caches) = (Arc::clone(&self.maintenance.blobs), Arc::clone(&self.maintenance.caches));
            let segment = Segment::open(blobs, self.descriptor.number, meta, caches);
            let positions = 0..segment.meta().rows;
            let batches = segment.encoded(vec![positions], DeletionVector::default(), DECODED_BYTES_TARGET / 4)?;
            sources.push(Source::Segment(Box::new(batches), vec::IntoIter::default()));
        }
        match halved(sources, self.maintenance.options.granularity.load_halves_bytes_min) {
            (all, None) => merged(all, &mut self.output, &self.control, &AtomicBool::new(false))?,
            (first, Some(second)) => self.merge_halves(first, second)?,
        }
        self.discard(true);
        Ok(())
    }

    /// Merges two halves of the keys in parallel. The output gets the segments of both, also after an error.
    fn merge_halves(&mut self, first: Vec<Source>, second: Vec<Source>) -> Result<()> {
        let descriptor = Arc::clone(&self.descriptor);
        let mut output = Output::new(Arc::clone(&self.maintenance), self.name.clone(), descriptor, self.stamp);
        let failed = AtomicBool::new(false);
        let Self { output: own, control, .. } = self;
        let (first, second) = thread::scope(|scope| {
            let work = || merged(second, &mut output, control, &failed);
            let other = thread::Builder::new().name("keyspan-load".into()).spawn_scoped(scope, work);
            let other = other.map_err(|error| Error::Unavailable(format!("no thread can be started: {error}")));
            let first = other.as_ref().map_or(Ok(()), |_| merged(first, own, control, &failed));
            let second = other.and_then(|other| {
                let ended = other.join();
                ended.unwrap_or_else(|_| Err(Error::Unavailable("a load ended early: a thread panicked".into())))
            });
            (first, second)
        });
        self.output.absorb(output);
        first.and(second)
    }

    /// Removes the segments that are not needed.
    fn discard(&mut self, only_consumed: bool) {
        let mut metas = std::mem::take(&mut self.consumed);
        if !only_consumed {
            metas.extend(self.output.take_segments());
        }
        metas.iter().for_each(|meta| self.maintenance.caches.forget(meta.id));
        self.maintenance.abandon(metas);
    }
}

/// Writes the rows of sources in the order of their keys. Stops if another merge has set `failed`, and sets it on an
/// error.
fn merged(sources: Vec<Source>, output: &mut Output, control: &LoadControl, failed: &AtomicBool) -> Result<()> {
    let merged = merged_unless(sources, output, control, failed);
    if merged.is_err() {
        failed.store(true, Ordering::SeqCst);
    }
    merged
}

fn merged_unless(sources: Vec<Source>, output: &mut Output, control: &LoadControl, failed: &AtomicBool) -> Result<()> {
    let mut merge = Merge::new(sources)?;
    let step_rows = control.step_rows();
    let mut items: Vec<Item> = Vec::with_capacity(step_rows);
    let mut more = true;
    while more && !failed.load(Ordering::SeqCst) {
        control.check()?;
        items.clear();
        let mut bytes = 0;
        while more && items.len() < step_rows && bytes < STEP_BYTES {
            match merge.next()? {
                Some(item) => {
                    bytes += item.key.len() + item.row.len();
                    items.push(item);
                }
                None => more = false,
            }
        }
        if !items.is_empty() {
            output.write_items(&items)?;
        }
    }
    drop(merge);
    output.cut()
}

impl Drop for Loader {
    fn drop(&mut self) {
        self.probe.forget_own();
        if !self.done {
            self.discard(false);
        }
    }
}
