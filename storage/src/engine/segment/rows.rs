//! Rows in the order of their keys, either way: some cells of each ([`Rows`], for scans), or whole rows encoded ([`EncodedRows`], for compaction).

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

/// What is read of a segment.
#[derive(Clone, Debug)]
pub(crate) struct RowsRequest {
    /// Which positions, ascending and disjoint.
    pub(crate) ranges: Vec<Range<Position>>,
    /// Except for these.
    pub(crate) dead: DeletionVector,
    /// Which cells, each family at most once.
    pub(crate) wanted: Vec<SelectedFamily>,
    /// Whether older versions are wanted too. Without, the newest cell of each wanted column is given, older ones perhaps.
    pub(crate) older: bool,
    /// From the greatest key down.
    pub(crate) reversed: bool,
    /// How many rows are wanted soon.
    pub(crate) rows_soon: usize,
    /// Bytes of decoded columns that are held, roughly; those of one row may be more.
    pub(crate) decoded_bytes: usize,
}

/// What is wanted of a family.
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
    /// Whether the column is wanted.
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

/// A row of a segment, as far as it was wanted.
#[derive(Debug)]
pub(crate) struct SegmentRow {
    pub(crate) key: RowKey,
    /// The wanted cells, in order; perhaps none.
    pub(crate) cells: Body<Vec<StoredCell>>,
}

/// What a row holds. Rows that stand in the side file are large, and are read when they are asked for: whoever has the next rows of several
/// segments at hand does not hold all of these.
#[derive(Debug)]
pub(crate) enum Body<T> {
    /// It was read.
    Here(T),
    /// A part of it stands in the side file.
    InSideFile(SideRow),
}

/// The place of a row among others that were decoded.
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
    /// The cells, from the side file if they are there.
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
    /// The row, from the side file if it is there.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn read(self) -> Result<Bytes> {
        match self {
            Self::Here(row) => Ok(row),
            Self::InSideFile(SideRow { segment, decoded, row }) => {
                // What stands in the Parquet file, too: a large row that outgrows its room is there twice while it is copied.
                encoded(&segment, &decoded, row, decoded.side_bytes(row) + ROW_VALUES_BYTES_MAX)
            }
        }
    }
}

/// The cells of a decoded row, with their bytes. `expected` are as many as there may be.
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

/// A decoded row, encoded. `expected` are as many bytes as it may have.
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
    /// Its cells (`engine::cells`).
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
    /// Those of [`rows`](Self::rows).
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

/// Batches of [`BATCH_ROWS_MAX`] rows and about [`BATCH_BYTES_TARGET`], at most.
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
                return Ok((SegmentRow { key, cells: beside(walk, decoded, row) }, key_bytes));
            }
            // Rows of a table are alike: the next one has room at once.
            let (cells, bytes) = stored(&walk.segment, decoded, row, expected)?;
            expected = cells.len();
            Ok((SegmentRow { key, cells: cells.into() }, key_bytes + bytes))
        })
    }
}

fn beside<T>(walk: &Walk, decoded: &Arc<Decoded>, row: usize) -> Body<T> {
    Body::InSideFile(SideRow { segment: Arc::clone(&walk.segment), decoded: Arc::clone(decoded), row })
}

/// Batches of [`BATCH_ROWS_MAX`] rows and about [`BATCH_BYTES_TARGET`], at most.
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
                return Ok((EncodedRow { position, key, row: beside(walk, decoded, row) }, key_bytes));
            }
            let row = encoded(&walk.segment, decoded, row, expected)?;
            expected = row.len();
            let bytes = key_bytes + row.len();
            Ok((EncodedRow { position, key, row: row.into() }, bytes))
        })
    }
}

/// Rows on their way from decoded columns to batches.
#[derive(Debug)]
struct Batches {
    walk: Walk,
    /// Decoded rows with their positions, in the order in which they are given, and how many of them were.
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
            // What is there is given before more is decoded.
            if !batch.is_empty() {
                return Ok(batch);
            }
        }
    }
}
