//! Rows in the order of their keys, ascending or descending: with selected cells ([`Rows`], for scans), or whole and
//! encoded ([`EncodedRows`], for compaction).

use super::{
    ROW_VALUES_BYTES_MAX,
    decode::{Decoded, Found},
    footer::Footer,
    open::Segment,
    walk::Walk,
};
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

/// A row of a segment.
#[derive(Debug)]
pub(crate) struct SegmentRow {
    pub(crate) key: RowKey,
    pub(crate) row: DecodedRow,
}

/// A row of decoded columns, whose cells are made when they are asked for: a merge holds the next rows of several
/// segments, but not their cells, which may be large where they are in the side file.
#[derive(Debug)]
pub(crate) struct DecodedRow {
    segment: Arc<Segment>,
    decoded: Arc<Decoded>,
    row: usize,
}

impl DecodedRow {
    /// Gives the selected cells, in order; reads the side file if needed.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn cells(&self, give: impl FnMut(Found<'_>)) -> Result<()> {
        self.decoded.cells(self.row, self.segment.blobs.as_ref(), give)
    }

    /// Columns of the segment that were read for it, each of which it may have a cell of.
    pub(crate) fn columns(&self) -> usize {
        self.decoded.columns()
    }
}

/// The content of a whole row. Rows in the side file are large, and are read on demand.
#[derive(Debug)]
pub(crate) enum Body {
    /// The content, already read.
    Here(Bytes),
    /// A part of it is in the side file.
    InSideFile(DecodedRow),
}

impl From<Bytes> for Body {
    fn from(row: Bytes) -> Self {
        Self::Here(row)
    }
}

impl Body {
    /// The row; reads the side file if needed.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn read(self) -> Result<Bytes> {
        match self {
            Self::Here(row) => Ok(row),
            Self::InSideFile(DecodedRow { segment, decoded, row }) => {
                // Including the shredded values, since growing would hold a large row twice while it is copied.
                encoded(&segment, &decoded, row, decoded.side_bytes(row) + ROW_VALUES_BYTES_MAX)
            }
        }
    }
}

/// Encodes a decoded row. `expected` is an upper bound of its bytes.
fn encoded(segment: &Segment, decoded: &Decoded, row: usize, expected: usize) -> Result<Bytes> {
    let mut encoder = Encoder::with_capacity(expected);
    decoded.cells(row, segment.blobs.as_ref(), |cell| {
        encoder.push(cell.family, cell.qualifier.1, cell.timestamp, cell.value.1);
    })?;
    Ok(encoder.finish())
}

/// A whole row of a segment.
#[derive(Debug)]
pub(crate) struct EncodedRow {
    pub(crate) position: Position,
    pub(crate) key: RowKey,
    /// Its cells, encoded (`engine::cells`).
    pub(crate) row: Body,
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
        self.0.next_batch(|walk, decoded, row, _| {
            let key = decoded.key(row)?;
            let bytes = size_of::<SegmentRow>() + key.len();
            Ok((SegmentRow { key, row: decoded_row(walk, decoded, row) }, bytes))
        })
    }
}

fn decoded_row(walk: &Walk, decoded: &Arc<Decoded>, row: usize) -> DecodedRow {
    DecodedRow { segment: Arc::clone(&walk.segment), decoded: Arc::clone(decoded), row }
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
                return Ok((
                    EncodedRow { position, key, row: Body::InSideFile(decoded_row(walk, decoded, row)) },
                    key_bytes,
                ));
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
