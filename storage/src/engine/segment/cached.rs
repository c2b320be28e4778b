//! Reads few rows of a row group from cached pages, or from pages that are read into the cache.
//!
//! A page is not decoded for a few rows at its first use: rows that are far apart are mostly the only ones of their
//! pages, and of a wide row most columns have no value, which the page tells before it is decoded. It is decoded at its
//! second use. Each column keeps its current page, so that consecutive rows decode it once even if the cache has no
//! room for it.

use super::{
    checked::{Ahead, Pages},
    decode::{Batch, ahead_bounded},
    levels,
    open::{Caches, Loaded},
    page::{CachedPage, Page, PageId, decode_few, pages_with_dictionary, values, with_dictionary},
};
use crate::{Error, Result};
use arrow::{
    array::{Array, ArrayRef, new_null_array},
    compute::concat,
};
use parquet::{column::page::Page as Encoded, errors::ParquetError};
use std::{ops::Range, sync::Arc};

/// Maximum rows of a read that goes through the cache; more rows would evict pages that small reads need.
pub(super) const CACHED_ROWS_MAX: usize = 1_024;
/// Rows of a page that are read without decoding all of it, at its first use.
const FEW_ROWS_MAX: usize = 16;

/// Reads the rows of a row group from pages.
pub(super) struct CachedRows {
    loaded: Arc<Loaded>,
    caches: Arc<Caches>,
    file: Arc<Pages>,
    group: usize,
    columns: Vec<Column>,
    /// Indexes of the rows in the row group, ascending, and how many of them were returned.
    rows: Vec<u32>,
    returned: usize,
    batch_rows: usize,
}

/// A column, by its index in the file.
struct Column {
    index: usize,
    at_hand: Option<(PageId, CachedPage)>,
}

impl CachedRows {
    /// Reads rows of a row group, given as ascending runs of row indexes, in batches.
    pub(super) fn new(
        (loaded, caches): (&Arc<Loaded>, &Arc<Caches>),
        group: usize,
        columns: &[usize],
        runs: impl Iterator<Item = Range<u32>>,
        batch_rows: usize,
    ) -> Result<Self> {
        let rows: Vec<u32> = runs.flatten().collect();
        let ahead = match loaded.file.is_remote() {
            true => loaded.file.read_ahead(&missing(loaded, caches, group, columns, &rows))?,
            false => Ahead::default(),
        };
        let file = Arc::new(Pages::new(Arc::clone(&loaded.file), ahead));
        let columns = columns.iter().map(|&index| Column { index, at_hand: None }).collect();
        let (loaded, caches) = (Arc::clone(loaded), Arc::clone(caches));
        Ok(Self { loaded, caches, file, group, columns, rows, returned: 0, batch_rows: batch_rows.max(1) })
    }

    /// The next rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>> {
        let rows = &self.rows[self.returned..];
        let rows = &rows[..rows.len().min(self.batch_rows)];
        if rows.is_empty() {
            return Ok(None);
        }
        self.returned += rows.len();
        let (loaded, caches, file) = (&self.loaded, &self.caches, &self.file);
        let mut gather = |column: &mut Column| {
            let mut left = rows;
            let mut parts: Vec<ArrayRef> = Vec::with_capacity(1);
            while let Some(&row) = left.first() {
                let page_id = loaded.page_of_row(self.group, column.index, row);
                let of_page = loaded.rows_of(page_id);
                let taken;
                (taken, left) = left.split_at(left.partition_point(|row| *row < of_page.end).max(1));
                parts.push(column.take(loaded, caches, page_id, taken, file)?);
            }
            if let [_] = parts[..] {
                return Ok(parts.remove(0));
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            concat(&parts).map_err(|error| loaded.damaged(self.group, error.to_string()))
        };
        let columns = self.columns.iter_mut().map(&mut gather).collect::<Result<Vec<_>>>()?;
        Ok(Some(Batch { columns, rows: rows.len() }))
    }
}

impl Column {
    /// The values of rows of a page, by their indexes in the row group.
    fn take(
        &mut self,
        loaded: &Loaded,
        caches: &Caches,
        page_id: PageId,
        rows: &[u32],
        file: &Arc<Pages>,
    ) -> Result<ArrayRef> {
        let first = loaded.rows_of(page_id).start;
        // The old page is dropped before another is decoded.
        let held = self.at_hand.take().filter(|(at, _)| *at == page_id).map(|(_, held)| held);
        let held = held.map_or_else(|| loaded.cached(caches, page_id), |held| Ok(Some(held)))?;
        if held.is_none() && rows.len() <= FEW_ROWS_MAX {
            let page = loaded.encoded(page_id, file)?;
            let rows: Vec<u32> = rows.iter().map(|row| row - first).collect();
            let field = loaded.metadata.schema().field(page_id.column);
            let taken = if field.is_nullable() && levels::are_null(&page, &rows) {
                new_null_array(field.data_type(), rows.len())
            } else {
                let behind = with_dictionary(loaded, caches, page_id, page.clone(), file);
                let taken = behind.and_then(|pages| decode_few(loaded, page_id, pages, &rows));
                taken.map_err(|error| loaded.failed(page_id, file, &error))?
            };
            loaded.keep(caches, page_id, CachedPage::Encoded(page.clone()))?;
            self.at_hand = Some((page_id, CachedPage::Encoded(page)));
            return Ok(taken);
        }
        let page = loaded.decoded(caches, page_id, held, file)?;
        let taken = page.take(rows.iter().map(|row| row - first));
        self.at_hand = Some((page_id, CachedPage::Decoded(page)));
        taken.map_err(|error| loaded.damaged(page_id.group, error.to_string()))
    }
}

impl Loaded {
    /// A decoded page, from the cache or else from the file.
    pub(super) fn page(
        &self,
        caches: &Caches,
        page_id: PageId,
        file: impl FnOnce() -> Arc<Pages>,
    ) -> Result<Arc<Page>> {
        match self.cached(caches, page_id)? {
            Some(CachedPage::Decoded(page)) => Ok(page),
            held => self.decoded(caches, page_id, held, &file()),
        }
    }

    /// Decodes the page if it is not decoded yet.
    fn decoded(
        &self,
        caches: &Caches,
        page_id: PageId,
        held: Option<CachedPage>,
        file: &Arc<Pages>,
    ) -> Result<Arc<Page>> {
        let encoded = match held {
            Some(CachedPage::Decoded(page)) => return Ok(page),
            Some(CachedPage::Encoded(page)) => page,
            None => self.encoded(page_id, file)?,
        };
        let page =
            with_dictionary(self, caches, page_id, encoded, file).and_then(|pages| Page::decode(self, page_id, pages));
        let page = Arc::new(page.map_err(|error| self.failed(page_id, file, &error))?);
        self.keep(caches, page_id, CachedPage::Decoded(Arc::clone(&page)))?;
        Ok(page)
    }

    fn encoded(&self, page_id: PageId, file: &Arc<Pages>) -> Result<Encoded> {
        values(self, page_id, file).map_err(|error| self.failed(page_id, file, &error))
    }

    /// The cached form of a page.
    fn cached(&self, caches: &Caches, page_id: PageId) -> Result<Option<CachedPage>> {
        Ok(caches.page(self.id, self.offset_of(page_id)?))
    }

    fn keep(&self, caches: &Caches, page_id: PageId, held: CachedPage) -> Result<()> {
        caches.put_page(self.id, self.offset_of(page_id)?, held);
        Ok(())
    }

    fn offset_of(&self, page_id: PageId) -> Result<u64> {
        let offset = self.locations(page_id.group, page_id.column).get(page_id.page).map(|page| page.offset);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        offset.ok_or_else(|| self.damaged(page_id.group, "a column has no page index".into()))
    }

    fn failed(&self, page_id: PageId, file: &Pages, error: &ParquetError) -> Error {
        file.failed().take().unwrap_or_else(|| self.damaged(page_id.group, error.to_string()))
    }
}

/// The byte ranges of uncached pages of some rows, and of the dictionaries that these need.
fn missing(loaded: &Loaded, caches: &Caches, group: usize, columns: &[usize], rows: &[u32]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &column in columns {
        let locations = loaded.locations(group, column);
        let chunk = loaded.metadata.metadata().row_group(group).column(column);
        let byte = |offset: i64| u64::try_from(offset).unwrap_or_default();
        let mut left = rows;
        while let Some(&row) = left.first() {
            let page_id = loaded.page_of_row(group, column, row);
            let of_page = loaded.rows_of(page_id);
            left = &left[left.partition_point(|row| *row < of_page.end).max(1)..];
            let Some(location) = locations.get(page_id.page) else { break };
            let start = byte(location.offset);
            if caches.has_page(loaded.id, start) {
                continue;
            }
            ranges.push(start..start + u64::try_from(location.compressed_page_size).unwrap_or_default());
            let dictionary = chunk.byte_range().0..byte(locations[0].offset);
            let is_missing = !dictionary.is_empty() && !caches.has_page(loaded.id, dictionary.start);
            if is_missing && page_id.page < pages_with_dictionary(chunk) {
                ranges.push(dictionary);
            }
        }
    }
    ahead_bounded(ranges)
}
