//! Reads all of a segment and verifies it: checksums, order, counts.

use super::{
    DECODED_BYTES_TARGET,
    checked::CheckedFile,
    footer::GroupFooter,
    open::{Loaded, Segment},
};
use crate::{
    Result,
    engine::{
        cells,
        deletion_vector::{DeletionVector, Position},
    },
};
use std::sync::Arc;

/// Bytes read at a time.
const STEP_BYTES: u64 = 1 << 20;

impl Segment {
    /// Reads everything, bypassing the caches.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) for inconsistencies, [`Io`](crate::ErrorKind::Io).
    pub(crate) fn verify(self: &Arc<Self>) -> Result<()> {
        let loaded = Arc::new(self.read()?);
        check_blocks(&loaded.file)?;
        if self.meta.side_bytes > 0 {
            let side = loaded.side(self.blobs.as_ref())?;
            if side.size() != self.meta.side_bytes {
                let (path, offset) = (side.path(), side.size().min(self.meta.side_bytes));
                let detail = format!("the file has {} bytes, {} were written", side.size(), self.meta.side_bytes);
                return Err(crate::Error::Corrupt { path, offset, detail });
            }
        }
        self.check_rows(&loaded)
    }

    /// Reads all rows, recomputes their counts, and looks up the first key of every page.
    fn check_rows(self: &Arc<Self>, loaded: &Arc<Loaded>) -> Result<()> {
        let footer = &loaded.footer;
        let mut last = None;
        let mut rows: Position = 0;
        for (at, group) in footer.groups.iter().enumerate() {
            let mut counted = GroupFooter::new(group.first, footer.families.len(), footer.columns.len());
            for batch in self.encoded(vec![group.positions()], DeletionVector::default(), DECODED_BYTES_TARGET)? {
                for row in batch? {
                    if row.position != rows || last.as_ref().is_some_and(|last| *last >= row.key) {
                        return Err(loaded.damaged(at, format!("key {:?} is out of order", row.key)));
                    }
                    let cells = row.row.read()?;
                    if cells.is_empty() {
                        return Err(loaded.damaged(at, format!("row {:?} has no cell", row.key)));
                    }
                    count(loaded, &mut counted, &cells);
                    rows += 1;
                    last = Some(row.key);
                }
            }
            let same = counted.rows == group.rows
                && counted.least == group.least
                && counted.newest_least == group.newest_least
                && counted.older == group.older
                && counted
                    .values
                    .iter()
                    .enumerate()
                    .all(|(column, &cells)| cells == group.values[column] + group.residual[column]);
            if !same {
                return Err(loaded.damaged(at, "the footer counts other cells than there are".into()));
            }
        }
        let ends = (self.key_at(0)?, self.key_at(self.meta.rows - 1)?);
        if ends != (self.meta.first.clone(), self.meta.last.clone()) {
            return Err(loaded
                .file
                .damaged(loaded.file.tail_offset(), "it has other keys than the manifest says".into()));
        }
        for page in &loaded.pages {
            if self.find(&page.key)? != Some(page.first) {
                let detail = format!("key \"{}\" is not found", page.key.escape_ascii());
                return Err(loaded.file.damaged(loaded.file.tail_offset(), detail));
            }
        }
        Ok(())
    }
}

fn check_blocks(file: &CheckedFile) -> Result<()> {
    let mut offset = 0;
    while offset < file.tail_offset() {
        let bytes = STEP_BYTES.min(file.tail_offset() - offset);
        file.read(offset, bytes as usize)?;
        offset += bytes;
    }
    Ok(())
}

/// Counts the cells of a row: shredded columns in `values`, whether they are residual or not.
fn count(loaded: &Loaded, counted: &mut GroupFooter, row: &[u8]) {
    counted.rows += 1;
    let mut column = None;
    for cell in cells::decode(row) {
        let Some(family) = loaded.footer.family(cell.family) else { continue };
        let least =
            |least: &mut Option<i64>| *least = Some(least.map_or(cell.timestamp, |so_far| so_far.min(cell.timestamp)));
        least(&mut counted.least[family]);
        if cell.new_column {
            least(&mut counted.newest_least[family]);
            column = loaded.footer.column(cell.family, cell.qualifier).map(|column| (column, false));
            if let Some((column, _)) = column {
                counted.values[column] += 1;
            }
        } else if let Some((column, seen @ false)) = &mut column {
            *seen = true;
            counted.older[*column] += 1;
        }
    }
}
