//! Rows in the order of their keys, ascending or descending: selected cells of each ([`Rows`], for scans), or whole
//! encoded rows ([`EncodedRows`], for compaction).

use super::{ROW_VALUES_BYTES_MAX, decode::Decoded, footer::Footer, open::Segment, walk::Walk};
use crate::{
    Result, RowKey,
    engine::{
        cells::Encoder,
        deletion_vector::{DeletionVector, Position},
    },
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX},
};
use bytes::Bytes;
use std::{ops::Range, sync::Arc};

/// The parameters of a read.
#[derive(Clone, Debug)]
pub(crate) struct RowsRequest {
    /// The positions to read, ascending and disjoint.
    pub(crate) ranges: Vec<Range<Position>>,
    /// Dead positions, which are skipped.
    pub(crate) dead: DeletionVector,
    /// The cells to read, each family at most once.
    pub(crate) wanted: Vec<SelectedFamily>,
    /// Whether older versions are needed. If not, only the newest cell of each selected column is guaranteed; older
    /// ones may be included.
    pub(crate) older: bool,
    /// Descending from the greatest key.
    pub(crate) reversed: bool,
    /// Number of rows that are needed soon.
    pub(crate) rows_soon: usize,
    /// Approximate bytes of decoded columns that are held; those of one row may exceed it.
    pub(crate) decoded_bytes: usize,
}

/// The selected columns of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SelectedFamily {
    /// Its number.
    pub(crate) family: u32,
    pub(crate) columns: SelectedColumns,
}

/// Columns of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectedColumns {
    All,
    /// Qualifiers, ascending.
    These(Vec<Bytes>),
}

impl SelectedColumns {
    /// Whether the column is selected.
    pub(super) fn contains(&self, qualifier: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::These(qualifiers) => qualifiers.binary_search_by(|one| one.as_ref().cmp(qualifier)).is_ok(),
        }
    }
}

impl SelectedFamily {
    /// Every cell of a segment.
    pub(super) fn everything(footer: &Footer) -> Vec<Self> {
        let families = footer.families.iter();
        families.map(|family| Self { family: family.number, columns: SelectedColumns::All }).collect()
    }
}

/// The selected cells of a row.
#[derive(Debug)]
pub(crate) struct SegmentRow {
    pub(crate) key: RowKey,
    /// The selected cells, in order; may be empty.
    pub(crate) cells: Body<Vec<StoredCell>>,
}

/// The content of a row. Rows in the side file are large, and are read on demand: a merge holds the next rows of
/// several segments, but not their large content.
#[derive(Debug)]
pub(crate) enum Body<T> {
    /// The content, already read.
    Here(T),
    /// A part of it is in the side file.
    InSideFile(SideRow),
}

/// A decoded row whose overflow is in the side file.
#[derive(Debug)]
pub(crate) struct SideRow {
    segment: Arc<Segment>,
    decoded: Arc<Decoded>,
    row: usize,
}

impl<T> From<T> for Body<T> {
    fn from(body: T) -> Self {
        Self::Here(body)
    }
}

impl Body<Vec<StoredCell>> {
    /// The cells; reads the side file if needed.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn read(self) -> Result<Vec<StoredCell>> {
        match self {
            Self::Here(cells) => Ok(cells),
            Self::InSideFile(SideRow { segment, decoded, row }) => {
                stored(&segment, &decoded, row, 0).map(|(cells, _)| cells)
            }
        }
    }
}

impl Body<Bytes> {
    /// The row; reads the side file if needed.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn read(self) -> Result<Bytes> {
        match self {
            Self::Here(row) => Ok(row),
            Self::InSideFile(SideRow { segment, decoded, row }) => {
                // Including the shredded values, since growing would hold a large row twice while it is copied.
                encoded(&segment, &decoded, row, decoded.side_bytes(row) + ROW_VALUES_BYTES_MAX)
            }
        }
    }
}

/// The cells of a decoded row, with their bytes. `expected` is an upper bound of their number.
fn stored(segment: &Segment, decoded: &Decoded, row: usize, expected: usize) -> Result<(Vec<StoredCell>, usize)> {
    let (mut cells, mut bytes) = (Vec::with_capacity(expected), 0);
    decoded.cells(row, segment.blobs.as_ref(), |cell| {
        bytes += size_of::<StoredCell>() + cell.value.1.len();
        cells.push(StoredCell {
            family: cell.family,
            qualifier: cell.qualifier.0.slice_ref(cell.qualifier.1),
            timestamp: cell.timestamp,
            value: cell.value.0.slice_ref(cell.value.1),
        });
    })?;
    Ok((cells, bytes))
}

/// Encodes a decoded row. `expected` is an upper bound of its bytes.
fn encoded(segment: &Segment, decoded: &Decoded, row: usize, expected: usize) -> Result<Bytes> {
    let mut encoder = Encoder::with_capacity(expected);
    decoded.cells(row, segment.blobs.as_ref(), |cell| {
        encoder.push(cell.family, cell.qualifier.1, cell.timestamp, cell.value.1);
    })?;
    Ok(encoder.finish())
}

/// A cell, its family by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredCell {
    pub(crate) family: u32,
    pub(crate) qualifier: Bytes,
    /// In microseconds.
    pub(crate) timestamp: i64,
    pub(crate) value: Bytes,
}

/// A whole row of a segment.
#[derive(Debug)]
pub(crate) struct EncodedRow {
    pub(crate) position: Position,
    pub(crate) key: RowKey,
    /// Its cells, encoded (`engine::cells`).
    pub(crate) row: Body<Bytes>,
}

impl Segment {
    /// Reads rows.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io), also from the iterator, which then ends.
    pub(crate) fn rows(self: &Arc<Self>, request: RowsRequest) -> Result<Rows> {
        Ok(Rows(Batches::new(Walk::new(self.clone(), self.load()?, request))))
    }

    /// Reads whole rows, and holds about `decoded_bytes` of decoded columns.
    ///
    /// # Errors
    /// Errors of [`rows`](Self::rows).
    pub(crate) fn encoded(
        self: &Arc<Self>,
        ranges: Vec<Range<Position>>,
        dead: DeletionVector,
        decoded_bytes: usize,
    ) -> Result<EncodedRows> {
        let loaded = self.load()?;
        let wanted = SelectedFamily::everything(&loaded.footer);
        let rows_soon = usize::MAX;
        let request = RowsRequest { ranges, dead, wanted, older: true, reversed: false, rows_soon, decoded_bytes };
        Ok(EncodedRows(Batches::new(Walk::new(self.clone(), loaded, request))))
    }
}

/// Batches of at most [`BATCH_ROWS_MAX`] rows and about [`BATCH_BYTES_TARGET`].
#[derive(Debug)]
pub(crate) struct Rows(Batches);

impl Iterator for Rows {
    type Item = Result<Vec<SegmentRow>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut expected = 0;
        self.0.next_batch(|walk, decoded, row, _| {
            let key = decoded.key(row)?;
            let key_bytes = key.len();
            if decoded.side_bytes(row) > 0 {
                return Ok((SegmentRow { key, cells: in_side_file(walk, decoded, row) }, key_bytes));
            }
            // Rows of a table are alike: allocate for as many cells as the previous one had.
            let (cells, bytes) = stored(&walk.segment, decoded, row, expected)?;
            expected = cells.len();
            Ok((SegmentRow { key, cells: cells.into() }, key_bytes + bytes))
        })
    }
}

fn in_side_file<T>(walk: &Walk, decoded: &Arc<Decoded>, row: usize) -> Body<T> {
    Body::InSideFile(SideRow { segment: Arc::clone(&walk.segment), decoded: Arc::clone(decoded), row })
}

/// Batches of at most [`BATCH_ROWS_MAX`] rows and about [`BATCH_BYTES_TARGET`].
#[derive(Debug)]
pub(crate) struct EncodedRows(Batches);

impl Iterator for EncodedRows {
    type Item = Result<Vec<EncodedRow>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut expected = 0;
        self.0.next_batch(|walk, decoded, row, position| {
            let key = decoded.key(row)?;
            let key_bytes = key.len();
            if decoded.side_bytes(row) > 0 {
                return Ok((EncodedRow { position, key, row: in_side_file(walk, decoded, row) }, key_bytes));
            }
            let row = encoded(&walk.segment, decoded, row, expected)?;
            expected = row.len();
            let bytes = key_bytes + row.len();
            Ok((EncodedRow { position, key, row: row.into() }, bytes))
        })
    }
}

/// Makes batches of decoded rows.
#[derive(Debug)]
struct Batches {
    walk: Walk,
    /// The current decoded rows with their positions, in the order of output, and how many of them were returned.
    at_hand: Option<(Arc<Decoded>, Vec<Position>, usize)>,
    failed: bool,
}

impl Batches {
    fn new(walk: Walk) -> Self {
        Self { walk, at_hand: None, failed: false }
    }

    fn next_batch<T>(
        &mut self,
        row: impl FnMut(&Walk, &Arc<Decoded>, usize, Position) -> Result<(T, usize)>,
    ) -> Option<Result<Vec<T>>> {
        if self.failed {
            return None;
        }
        let batch = self.gather(row);
        self.failed = batch.is_err();
        batch.map(|batch| (!batch.is_empty()).then_some(batch)).transpose()
    }

    fn gather<T>(
        &mut self,
        mut row: impl FnMut(&Walk, &Arc<Decoded>, usize, Position) -> Result<(T, usize)>,
    ) -> Result<Vec<T>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        loop {
            let Some((decoded, positions, next)) = &mut self.at_hand else {
                match self.walk.next_decoded()? {
                    Some((decoded, positions)) => self.at_hand = Some((Arc::new(decoded), positions, 0)),
                    None => return Ok(batch),
                }
                continue;
            };
            while let Some(&position) = positions.get(*next) {
                let at = if self.walk.reversed { positions.len() - 1 - *next } else { *next };
                let position = if self.walk.reversed { positions[at] } else { position };
                *next += 1;
                if self.walk.dead.contains(position) {
                    continue;
                }
                let (made, size) = row(&self.walk, decoded, at, position)?;
                batch.push(made);
                bytes += size;
                if batch.len() == BATCH_ROWS_MAX || bytes >= BATCH_BYTES_TARGET {
                    return Ok(batch);
                }
            }
            self.at_hand = None;
            // Return the current batch before decoding more.
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }
}
