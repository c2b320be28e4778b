//! Reads one row.

use super::{
    decode::{self, Decoded},
    open::Segment,
    projection::Projection,
    rows::SelectedFamily,
};
use crate::{
    Result,
    engine::{cells::Encoder, deletion_vector::Position},
};
use bytes::Bytes;

/// Estimated bytes of an encoded row, for the first allocation.
const ROW_BYTES_GUESS: usize = 512;

impl Segment {
    /// The row at a position: all of its cells, encoded.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    ///
    /// # Panics
    /// If there is no row at the position.
    pub(crate) fn row(&self, position: Position) -> Result<Bytes> {
        assert!(position < self.meta.rows, "a position is that of a row");
        let loaded = self.load()?;
        let group = loaded.footer.group_of(position);
        let wanted = SelectedFamily::everything(&loaded.footer);
        let projection = Projection::new(&loaded, group, &wanted, true, false);
        let mut encoder = Encoder::with_capacity(ROW_BYTES_GUESS);
        if !projection.is_empty() {
            let run = position..position + 1;
            let batch = decode::read(&loaded, group, &projection, &[run], 1, Some(&self.caches))?.next_batch()?;
            let batch = batch.ok_or_else(|| loaded.damaged(group, "it ends before the row".into()))?;
            let decoded = Decoded::new(&loaded, group, &projection, &batch)?;
            decoded.cells(0, self.blobs.as_ref(), |cell| {
                encoder.push(cell.family, cell.qualifier.1, cell.timestamp, cell.value.1);
            })?;
        }
        Ok(encoder.finish())
    }
}
