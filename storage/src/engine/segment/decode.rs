//! Reads the columns of a row group, and makes rows of them.

use super::{
    cached::CachedRows,
    checked::{Ahead, Failed, Pages},
    kind::Slices,
    open::{Caches, Loaded},
    projection::Projection,
    rows::SelectedColumns,
    side,
};
use crate::{
    Result, RowKey,
    engine::{blobs::Blobs, cells, deletion_vector::Position},
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::Int64Type,
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection},
    },
    errors::ParquetError,
};
use std::{iter::Peekable, ops::Range, sync::Arc};

/// Bytes of a remote file that are read ahead, plus at most one page.
pub(super) const AHEAD_BYTES_MAX: u64 = 16 << 20;

/// Shredded columns of a family from which on rows may be sparse.
const SPARSE_COLUMNS_MIN: usize = 8;
/// Rows are sparse that have no more than one in so many of the columns.
const SPARSE_ONE_IN: usize = 4;

/// A row group being read.
pub(super) enum Reading {
    /// Many rows, or whole columns: with Parquet's reader.
    Many(Box<ManyRows>),
    /// Few rows: from cached pages.
    Few(CachedRows),
}

/// Rows from Parquet's reader.
pub(super) struct ManyRows {
    reader: ParquetRecordBatchReader,
    failed: Failed,
    loaded: Arc<Loaded>,
    group: usize,
}

/// Rows that were read.
pub(super) struct Batch {
    /// The columns of the projection.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

/// Reads rows of a row group, given as ascending runs of positions of the segment, in batches of at most `batch_rows`;
/// through the page cache if one is passed.
pub(super) fn read(
    loaded: &Arc<Loaded>,
    group: usize,
    projection: &Projection,
    runs: &[Range<Position>],
    batch_rows: usize,
    cache: Option<&Arc<Caches>>,
) -> Result<Reading> {
    let of_group = loaded.footer.groups[group].positions();
    if let Some(caches) = cache {
        let runs = runs.iter().map(|run| run.start - of_group.start..run.end - of_group.start);
        return CachedRows::new((loaded, caches), group, &projection.columns, runs, batch_rows).map(Reading::Few);
    }
    let relative = |position: Position| (position - of_group.start) as usize;
    let runs = runs.iter().map(|run| relative(run.start)..relative(run.end));
    let selection = RowSelection::from_consecutive_ranges(runs, of_group.len());
    let ahead = match loaded.file.is_remote() {
        true => loaded.file.read_ahead(&byte_ranges(loaded, group, projection, &selection))?,
        false => Ahead::default(),
    };
    let pages = Pages::new(loaded.file.clone(), ahead);
    let failed = pages.failed();
    let wrong = |error: ParquetError| failed.take().unwrap_or_else(|| loaded.damaged(group, error.to_string()));
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, loaded.metadata.clone());
    let mask = ProjectionMask::roots(builder.parquet_schema(), projection.columns.iter().copied());
    let reader = builder
        .with_row_groups(vec![group])
        .with_projection(mask)
        .with_row_selection(selection)
        .with_batch_size(batch_rows)
        .build()
        .map_err(wrong)?;
    Ok(Reading::Many(Box::new(ManyRows { reader, failed, loaded: loaded.clone(), group })))
}

/// The byte ranges of the pages that a selection of a row group needs, including dictionaries.
fn byte_ranges(loaded: &Loaded, group: usize, projection: &Projection, selection: &RowSelection) -> Vec<Range<u64>> {
    let metadata = loaded.metadata.metadata();
    let Some(index) = metadata.offset_index().and_then(|groups| groups.get(group)) else { return Vec::new() };
    let of_column = |&column: &usize| {
        let pages = index[column].page_locations();
        let chunk = metadata.row_group(group).column(column).byte_range().0;
        let dictionary = pages.first().map(|first| chunk..u64::try_from(first.offset).unwrap_or(chunk));
        let dictionary = dictionary.filter(|dictionary| !dictionary.is_empty());
        dictionary.into_iter().chain(selection.scan_ranges(pages))
    };
    ahead_bounded(projection.columns.iter().flat_map(of_column).collect())
}

/// The prefix of ranges to read ahead, ascending and disjoint: those that begin within the first [`AHEAD_BYTES_MAX`]
/// bytes of all of them. Each range is a page.
pub(super) fn ahead_bounded(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup();
    let mut bytes = 0;
    ranges.retain(|range| {
        let fits = bytes < AHEAD_BYTES_MAX;
        bytes += range.end - range.start;
        fits
    });
    ranges
}

impl Reading {
    /// The next rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>> {
        let many = match self {
            Self::Few(rows) => return rows.next_batch(),
            Self::Many(many) => many,
        };
        let batch = many.reader.next().transpose().map_err(|error| {
            many.failed.take().unwrap_or_else(|| many.loaded.damaged(many.group, error.to_string()))
        })?;
        Ok(batch.map(|batch| {
            let (_, columns, rows) = batch.into_parts();
            Batch { columns, rows }
        }))
    }
}

/// A row key from a row group.
pub(super) fn row_key(loaded: &Loaded, group: usize, key: &[u8]) -> Result<RowKey> {
    checked_key(loaded, group, Bytes::copy_from_slice(key))
}

fn checked_key(loaded: &Loaded, group: usize, key: Bytes) -> Result<RowKey> {
    RowKey::stored(key).map_err(|error| loaded.damaged(group, error.to_string()))
}

/// Decoded rows of a row group.
#[derive(Debug)]
pub(super) struct Decoded {
    loaded: Arc<Loaded>,
    group: usize,
    rows: usize,
    keys: Option<Slices>,
    timestamps: ScalarBuffer<i64>,
    families: Vec<DecodedFamily>,
    side: Option<Slices>,
}

#[derive(Debug)]
struct DecodedFamily {
    number: u32,
    shredded: Vec<DecodedColumn>,
    present: Option<Present>,
    overflow: Option<Slices>,
    wanted: SelectedColumns,
}

#[derive(Debug)]
struct DecodedColumn {
    qualifier: Bytes,
    values: Slices,
    timestamps: Option<(ScalarBuffer<i64>, Option<NullBuffer>)>,
}

/// Which of a family's shredded columns each row has, where most rows lack most of them: looking into each column for
/// each row would take longer than all else.
#[derive(Debug)]
struct Present {
    /// Where the columns of each row end.
    ends: Vec<u32>,
    /// The columns of the rows, each row's in order.
    columns: Vec<u16>,
}

impl Present {
    /// `None` where rows have many of the columns, or these are few.
    fn new(rows: usize, columns: &[DecodedColumn]) -> Option<Self> {
        if columns.len() < SPARSE_COLUMNS_MIN {
            return None;
        }
        let given: usize = columns.iter().map(|column| column.values.count(rows)).sum();
        if given * SPARSE_ONE_IN > rows * columns.len() {
            return None;
        }
        let mut ends = vec![0_u32; rows];
        columns.iter().for_each(|column| column.values.each_row(rows, |row| ends[row] += 1));
        let mut before = 0;
        for end in &mut ends {
            // Where the next column of the row goes.
            before += std::mem::replace(end, before);
        }
        let mut of_rows = vec![0; given];
        for (at, column) in (0_u16..).zip(columns) {
            column.values.each_row(rows, |row| {
                of_rows[ends[row] as usize] = at;
                ends[row] += 1;
            });
        }
        Some(Self { ends, columns: of_rows })
    }

    fn of_row(&self, row: usize) -> &[u16] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.columns[start as usize..self.ends[row] as usize]
    }
}

/// A cell, its family by number, each part with the memory that it lies in.
pub(crate) struct Found<'a> {
    pub(crate) family: u32,
    pub(super) qualifier: (&'a Bytes, &'a [u8]),
    /// In microseconds.
    pub(crate) timestamp: i64,
    pub(super) value: (&'a Bytes, &'a [u8]),
}

impl Found<'_> {
    /// The qualifier, which keeps the memory that it lies in.
    pub(crate) fn qualifier(&self) -> Bytes {
        let (memory, qualifier) = self.qualifier;
        memory.slice_ref(qualifier)
    }

    /// The value, which keeps the memory that it lies in.
    pub(crate) fn value(&self) -> Bytes {
        let (memory, value) = self.value;
        memory.slice_ref(value)
    }
}

impl Decoded {
    /// The rows of a batch that was read with this projection.
    pub(super) fn new(loaded: &Arc<Loaded>, group: usize, projection: &Projection, batch: &Batch) -> Result<Self> {
        let mut columns = batch.columns.iter();
        let decoded = (|| {
            let keys = if projection.key { Some(Slices::new(columns.next()?)?) } else { None };
            let shredded = projection.families.iter().any(|family| !family.shredded.is_empty());
            let timestamps = match shredded {
                true => columns.next()?.as_primitive_opt::<Int64Type>()?.values().clone(),
                false => ScalarBuffer::default(),
            };
            let mut families = Vec::with_capacity(projection.families.len());
            for family in &projection.families {
                let mut shredded = Vec::with_capacity(family.shredded.len());
                for column in &family.shredded {
                    let values = Slices::new(columns.next()?)?;
                    let timestamps = match column.timestamps {
                        true => {
                            let array = columns.next()?.as_primitive_opt::<Int64Type>()?;
                            Some((array.values().clone(), array.nulls().cloned()))
                        }
                        false => None,
                    };
                    shredded.push(DecodedColumn { qualifier: column.qualifier.clone(), values, timestamps });
                }
                let (number, wanted) = (family.number, family.wanted.clone());
                let present = Present::new(batch.rows, &shredded);
                families.push(DecodedFamily { number, shredded, present, overflow: None, wanted });
            }
            for (family, projected) in families.iter_mut().zip(&projection.families) {
                if projected.overflow {
                    family.overflow = Some(Slices::new(columns.next()?)?);
                }
            }
            let side = if projection.side { Some(Slices::new(columns.next()?)?) } else { None };
            Some(Self { loaded: loaded.clone(), group, rows: batch.rows, keys, timestamps, families, side })
        })();
        decoded.ok_or_else(|| loaded.damaged(group, "a column is not of the type that the footer says".into()))
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The shredded columns that were read.
    pub(super) fn columns(&self) -> usize {
        self.families.iter().map(|family| family.shredded.len()).sum()
    }

    /// The key of a row.
    pub(super) fn key(&self, row: usize) -> Result<RowKey> {
        let key = self.keys.as_ref().and_then(|keys| keys.get(row));
        let (bytes, key) = key.ok_or_else(|| self.loaded.damaged(self.group, "a row has no key".into()))?;
        checked_key(&self.loaded, self.group, bytes.slice_ref(key))
    }

    /// Bytes of the row in the side file that must be read for its selected cells.
    pub(super) fn side_bytes(&self, row: usize) -> usize {
        let pointer = self.side.as_ref().and_then(|side| side.get(row));
        pointer.map_or(0, |(_, pointer)| side::record_bytes(pointer).max(1))
    }

    /// The selected cells of a row, in order.
    pub(super) fn cells(&self, row: usize, blobs: &dyn Blobs, mut give: impl FnMut(Found<'_>)) -> Result<()> {
        let pointer = self.side.as_ref().and_then(|side| side.get(row));
        let in_side_file = match pointer {
            Some((_, pointer)) => side::read(self.loaded.side(blobs)?, self.loaded.id, pointer)?,
            None => Vec::new(),
        };
        for family in &self.families {
            let overflow = match pointer {
                Some(_) => {
                    in_side_file.iter().find(|(number, _)| *number == family.number).map(|(_, bytes)| bytes.clone())
                }
                None => {
                    let found = family.overflow.as_ref().and_then(|overflow| overflow.get(row));
                    found.map(|(bytes, cells)| bytes.slice_ref(cells))
                }
            };
            let overflow = overflow.unwrap_or_default();
            self.merge(row, family, &overflow, &mut give);
        }
        Ok(())
    }

    /// Merges shredded cells with those of the overflow, in the order of cells.
    fn merge(&self, row: usize, family: &DecodedFamily, overflow: &Bytes, give: &mut impl FnMut(Found<'_>)) {
        let number = family.number;
        let mut rest: Peekable<_> =
            cells::decode(overflow).filter(|cell| family.wanted.contains(cell.qualifier)).peekable();
        let in_side_file = |cell: cells::CellRef<'_>, give: &mut dyn FnMut(Found<'_>)| {
            let (qualifier, value) = ((overflow, cell.qualifier), (overflow, cell.value));
            give(Found { family: number, qualifier, timestamp: cell.timestamp, value });
        };
        let present = family.present.as_ref().map(|present| present.of_row(row));
        let columns = present.map_or(family.shredded.len(), <[u16]>::len);
        for at in 0..columns {
            let column = &family.shredded[present.map_or(at, |present| present[at].into())];
            let Some(value) = column.values.get(row) else { continue };
            // Cells of the column itself are older versions.
            while let Some(cell) = rest.next_if(|cell| *cell.qualifier < *column.qualifier) {
                in_side_file(cell, give);
            }
            let own =
                column.timestamps.as_ref().filter(|(_, nulls)| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)));
            let timestamp = own.map_or_else(|| self.timestamps[row], |(timestamps, _)| timestamps[row]);
            give(Found { family: number, qualifier: (&column.qualifier, &column.qualifier), timestamp, value });
        }
        rest.for_each(|cell| in_side_file(cell, give));
    }
}
