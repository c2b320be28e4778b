//! Which part of a segment's files some of its rows take, without reading the rows.
//!
//! Each column's pages count by their compressed sizes; a page that has other rows, too, in proportion to rows. So what
//! neighbours in the file are like shows in the pages at both ends alone. A dictionary counts in proportion to the rows
//! of its row group, the side file to the rows that have something in it. The tail of a file is nobody's, unless all
//! rows are asked for.

use super::{Segment, open::Loaded, page::PageId};
use crate::{Result, engine::deletion_vector::Position};
use std::ops::Range;

impl Segment {
    /// Bytes of rows, given by their positions.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn bytes_of(&self, positions: &Range<Position>) -> Result<u64> {
        if positions.is_empty() {
            return Ok(0);
        }
        if *positions == (0..self.meta.rows) {
            // All of it is theirs, the tail included, which need not be read for that.
            return Ok(self.meta.bytes + self.meta.side_bytes);
        }
        let loaded = self.load()?;
        let (mut bytes, mut in_side) = (0, 0);
        let last = loaded.footer.group_of(positions.end - 1);
        for group in loaded.footer.group_of(positions.start)..=last {
            let own = loaded.footer.groups[group].positions();
            let rows = positions.start.max(own.start) - own.start..positions.end.min(own.end) - own.start;
            bytes += loaded.bytes_in(group, &rows);
            in_side += loaded.side_rows(group, &rows);
        }
        let side_rows: u64 = loaded.footer.groups.iter().map(|group| u64::from(group.side)).sum();
        Ok(bytes + part(self.meta.side_bytes, in_side, side_rows))
    }
}

impl Loaded {
    /// Bytes of rows of a row group in the file.
    fn bytes_in(&self, group: usize, rows: &Range<u32>) -> u64 {
        let of_group = u64::from(self.footer.groups[group].rows);
        let columns = self.metadata.metadata().row_group(group).columns();
        let column_bytes = |(column, chunk): (usize, &parquet::file::metadata::ColumnChunkMetaData)| {
            let (mut own, mut pages) = (0, 0);
            for (page, location) in self.locations(group, column).iter().enumerate() {
                let size = u64::try_from(location.compressed_page_size).unwrap_or_default();
                let of_page = self.rows_of(PageId { group, column, page });
                own += part(size, overlap(&of_page, rows), u64::from(of_page.end - of_page.start));
                pages += size;
            }
            let all = u64::try_from(chunk.compressed_size()).unwrap_or_default();
            own + part(all.saturating_sub(pages), u64::from(rows.end - rows.start), of_group)
        };
        columns.iter().enumerate().map(column_bytes).sum()
    }

    /// Rows among those of a row group that have something in the side file; of a page with other rows in proportion.
    fn side_rows(&self, group: usize, rows: &Range<u32>) -> u64 {
        if self.footer.groups[group].side == 0 {
            return 0;
        }
        let column = self.column_indexes().side;
        let index = self.metadata.metadata().column_index();
        let nulls = index.and_then(|groups| groups.get(group)?.get(column)?.null_counts());
        let in_page = |page: usize| {
            let of_page = self.rows_of(PageId { group, column, page });
            let count = u64::from(of_page.end - of_page.start);
            let null = nulls.and_then(|nulls| u64::try_from(*nulls.get(page)?).ok()).unwrap_or_default();
            part(count.saturating_sub(null), overlap(&of_page, rows), count)
        };
        (0..self.locations(group, column).len()).map(in_page).sum()
    }
}

fn overlap(page: &Range<u32>, rows: &Range<u32>) -> u64 {
    u64::from(page.end.min(rows.end).saturating_sub(page.start.max(rows.start)))
}

/// `whole * some / all`, rounded down; 0 of nothing.
fn part(whole: u64, some: u64, all: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(some) / u128::from(all.max(1))).unwrap_or(u64::MAX)
}
