//! Few rows of a row group, out of pages that the cache holds decoded, or that are read into it.
//!
//! For each column the page at hand is kept, so that rows that follow each other decode it once even where the cache has no room for it.

use super::{
    checked::{Ahead, Pages},
    decode::{Batch, ahead_bounded},
    open::{Caches, Loaded},
    page::{Page, PagePlace, pages_with_dictionary},
};
use crate::Result;
use arrow::{
    array::{Array, ArrayRef},
    compute::concat,
};
use parquet::errors::ParquetError;
use std::{ops::Range, sync::Arc};

/// Rows up to which a read goes through the cache; more rows would drive out what small reads want again.
pub(super) const CACHED_ROWS_MAX: usize = 1_024;

/// Rows of a row group on their way out of pages.
pub(super) struct CachedRows {
    loaded: Arc<Loaded>,
    caches: Arc<Caches>,
    file: Arc<Pages>,
    group: usize,
    columns: Vec<Column>,
    /// Places of the wanted rows in the row group, ascending, and how many of them were given.
    rows: Vec<u32>,
    given: usize,
    batch_rows: usize,
}

/// A column, by its place in the file.
struct Column {
    place: usize,
    at_hand: Option<(Range<u32>, Arc<Page>)>,
}

impl CachedRows {
    /// Rows of a row group, given as runs of their places in it, ascending, in batches.
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
        let columns = columns.iter().map(|&place| Column { place, at_hand: None }).collect();
        let (loaded, caches) = (Arc::clone(loaded), Arc::clone(caches));
        Ok(Self { loaded, caches, file, group, columns, rows, given: 0, batch_rows: batch_rows.max(1) })
    }

    /// The next rows.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>> {
        let rows = &self.rows[self.given..];
        let rows = &rows[..rows.len().min(self.batch_rows)];
        if rows.is_empty() {
            return Ok(None);
        }
        self.given += rows.len();
        let (loaded, caches, file) = (&self.loaded, &self.caches, &self.file);
        let mut gather = |column: &mut Column| {
            let mut left = rows;
            let mut parts: Vec<ArrayRef> = Vec::with_capacity(1);
            while let Some(&row) = left.first() {
                let (of_page, page) = column.page(loaded, caches, (self.group, row), file)?;
                let taken;
                (taken, left) = left.split_at(left.partition_point(|row| *row < of_page.end).max(1));
                let part = page.take(taken.iter().map(|row| row - of_page.start));
                parts.push(part.map_err(|error| loaded.damaged(self.group, error.to_string()))?);
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
    /// The page in which a row of a row group is, and which rows it has.
    fn page(
        &mut self,
        loaded: &Loaded,
        caches: &Caches,
        (group, row): (usize, u32),
        file: &Arc<Pages>,
    ) -> Result<(Range<u32>, &Page)> {
        if !self.at_hand.as_ref().is_some_and(|(rows, _)| rows.contains(&row)) {
            // Let go of before the next one is decoded.
            self.at_hand = None;
            let place = loaded.page_of_row(group, self.place, row);
            let page = loaded.page(caches, place, || Arc::clone(file))?;
            self.at_hand = Some((loaded.rows_of(place), page));
        }
        let (rows, page) = self.at_hand.as_ref().expect("it was set");
        Ok((rows.clone(), page))
    }
}

impl Loaded {
    /// A page, from the cache or else from the file.
    pub(super) fn page(
        &self,
        caches: &Caches,
        place: PagePlace,
        file: impl FnOnce() -> Arc<Pages>,
    ) -> Result<Arc<Page>> {
        let offset = self.locations(place.group, place.column).get(place.page).map(|page| page.offset);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        let offset = offset.ok_or_else(|| self.damaged(place.group, "a column has no page index".into()))?;
        caches.page(self.id, offset, || {
            let file = file();
            let failed = |error: ParquetError| {
                file.failed().take().unwrap_or_else(|| self.damaged(place.group, error.to_string()))
            };
            Page::read(self, caches, place, &file).map(Arc::new).map_err(failed)
        })
    }
}

/// The bytes of the pages of some rows that are not in the cache, and of the dictionaries that these need.
fn missing(loaded: &Loaded, caches: &Caches, group: usize, columns: &[usize], rows: &[u32]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &column in columns {
        let locations = loaded.locations(group, column);
        let chunk = loaded.metadata.metadata().row_group(group).column(column);
        let byte = |offset: i64| u64::try_from(offset).unwrap_or_default();
        let mut left = rows;
        while let Some(&row) = left.first() {
            let place = loaded.page_of_row(group, column, row);
            let of_page = loaded.rows_of(place);
            left = &left[left.partition_point(|row| *row < of_page.end).max(1)..];
            let Some(location) = locations.get(place.page) else { break };
            let start = byte(location.offset);
            if caches.has_page(loaded.id, start) {
                continue;
            }
            ranges.push(start..start + u64::try_from(location.compressed_page_size).unwrap_or_default());
            let dictionary = chunk.byte_range().0..byte(locations[0].offset);
            let is_missing = !dictionary.is_empty() && !caches.has_page(loaded.id, dictionary.start);
            if is_missing && place.page < pages_with_dictionary(chunk) {
                ranges.push(dictionary);
            }
        }
    }
    ahead_bounded(ranges)
}
