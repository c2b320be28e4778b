//! Pages of columns, decompressed, from the cache or else from the file: what reads of few rows decode.
//!
//! Parquet's reader asks a row group for its columns, and a column for one page after another; whole columns and compressed bytes it knows
//! only from a file. Here it gets pages that others have decompressed already, and those that it passes over are never looked at.

use super::{
    checked::Pages,
    open::{Caches, Loaded},
    projection::Projection,
};
use parquet::{
    arrow::{
        FieldLevels, ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection},
        parquet_to_arrow_field_levels,
    },
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        page_index::offset_index::PageLocation,
        serialized_reader::SerializedPageReader,
    },
};
use std::{iter, mem::size_of, sync::Arc};

/// Rows up to which a read goes through the cache; more rows would drive out what small reads want again.
pub(super) const CACHED_ROWS_MAX: usize = 1_024;

/// Bytes that a page takes in memory.
pub(super) fn weight(page: &Page) -> u64 {
    (page.buffer().len() + size_of::<Page>()) as u64
}

/// A reader of the selected rows of a row group, in batches.
pub(super) fn reader(
    group: &CachedGroup,
    projection: &Projection,
    selection: RowSelection,
    batch_rows: usize,
) -> Result<ParquetRecordBatchReader> {
    let levels = group.loaded.levels(&projection.columns)?;
    ParquetRecordBatchReader::try_new_with_row_groups(&levels, group, batch_rows, Some(selection))
}

/// The levels of some columns of a file, by their places.
pub(super) fn levels(loaded: &Loaded, columns: &[usize]) -> Result<FieldLevels> {
    let schema = loaded.metadata.metadata().file_metadata().schema_descr();
    let mask = ProjectionMask::roots(schema, columns.iter().copied());
    parquet_to_arrow_field_levels(schema, mask, Some(loaded.metadata.schema().fields()))
}

/// A row group whose pages come through the cache.
pub(super) struct CachedGroup {
    loaded: Arc<Loaded>,
    caches: Arc<Caches>,
    group: usize,
    file: Arc<Pages>,
}

impl CachedGroup {
    /// The row group of a file; what is not in the cache is read from `file`.
    pub(super) fn new(loaded: &Arc<Loaded>, caches: &Arc<Caches>, group: usize, file: Pages) -> Self {
        Self { loaded: Arc::clone(loaded), caches: Arc::clone(caches), group, file: Arc::new(file) }
    }

    fn row_group(&self) -> &RowGroupMetaData {
        self.loaded.metadata.metadata().row_group(self.group)
    }
}

impl RowGroups for CachedGroup {
    fn num_rows(&self) -> usize {
        usize::try_from(self.row_group().num_rows()).unwrap_or_default()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let (loaded, caches, file) = (Arc::clone(&self.loaded), Arc::clone(&self.caches), Arc::clone(&self.file));
        let mut pages = CachedPages { loaded, caches, file, group: self.group, column, dictionary: None, next: 0 };
        let chunk = self.row_group().column(column).byte_range().0;
        pages.dictionary = pages.locations()?.first().map(|first| first.offset as u64).filter(|first| *first != chunk);
        pages.dictionary = pages.dictionary.map(|_| chunk);
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(iter::once(self.row_group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.loaded.metadata.metadata()
    }
}

/// The one chunk that a column has in a row group.
struct OneChunk(Option<CachedPages>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

/// The pages of a column of a row group, one after the other.
struct CachedPages {
    loaded: Arc<Loaded>,
    caches: Arc<Caches>,
    file: Arc<Pages>,
    group: usize,
    column: usize,
    /// Where the dictionary begins, as long as it comes next.
    dictionary: Option<u64>,
    /// Which of the pages of values comes next.
    next: usize,
}

impl CachedPages {
    fn locations(&self) -> Result<&Vec<PageLocation>> {
        let index = self.loaded.metadata.metadata().offset_index();
        let of_column = index.and_then(|groups| groups.get(self.group)?.get(self.column));
        let missing = || ParquetError::General("a column has no page index".into());
        of_column.map(|index| index.page_locations()).ok_or_else(missing)
    }

    /// The dictionary, or the page of values at a location. The reader is one for this page alone: what comes before it in the chunk, it
    /// takes for the dictionary.
    fn read(&self, location: &PageLocation, dictionary: bool) -> Result<Page> {
        let group = self.loaded.metadata.metadata().row_group(self.group);
        let (chunk, rows) = (group.column(self.column), usize::try_from(group.num_rows()).unwrap_or_default());
        let mut reader = SerializedPageReader::new(Arc::clone(&self.file), chunk, rows, Some(vec![location.clone()]))?;
        if !dictionary && chunk.byte_range().0 != location.offset as u64 {
            reader.skip_next_page()?;
        }
        let page = reader.get_next_page()?;
        let page = page.filter(|page| page.is_dictionary_page() == dictionary);
        page.ok_or_else(|| ParquetError::General("a page is not of the kind that the page index says".into()))
    }
}

impl Iterator for CachedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CachedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let locations = self.locations()?;
        let Some(location) = locations.get(self.next) else { return Ok(None) };
        let page = match self.dictionary {
            Some(start) => self.caches.page(self.loaded.id, start, || self.read(location, true))?,
            None => self.caches.page(self.loaded.id, location.offset as u64, || self.read(location, false))?,
        };
        self.skip_next_page()?;
        Ok(Some(Page::clone(&page)))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if self.dictionary.is_some() {
            return Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true }));
        }
        let locations = self.locations()?;
        let Some(page) = locations.get(self.next) else { return Ok(None) };
        let rows = self.loaded.metadata.metadata().row_group(self.group).num_rows();
        let end = locations.get(self.next + 1).map_or(rows, |next| next.first_row_index);
        let num_rows = usize::try_from(end - page.first_row_index)?;
        Ok(Some(PageMetadata { num_rows: Some(num_rows), num_levels: None, is_dict: false }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if self.dictionary.take().is_none() {
            self.next += 1;
        }
        Ok(())
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(true)
    }
}
