//! A page of a column: the unit of the page cache.
//!
//! Parquet's own reader decodes it, as if it were a column chunk of its own. At the first use for few rows, the page is
//! kept encoded, and only these rows are decoded; at the next use all of it is decoded. Decoded values are stored
//! without gaps, after a bitmap of the rows that have one, so that a sparse column takes little memory; values of a
//! dictionary are stored once.

use super::{
    checked::Pages,
    open::{Caches, ColumnIndexes, Loaded},
};
use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, UInt32Array, new_null_array},
    buffer::NullBuffer,
    compute::{filter, take},
    datatypes::{DataType, Field, Fields},
    error::ArrowError,
};
use parquet::{
    arrow::{
        FieldLevels, ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection},
        parquet_to_arrow_field_levels,
    },
    basic::{Encoding, PageType},
    column::page::{Page as Encoded, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData},
        page_index::offset_index::PageLocation,
        serialized_reader::SerializedPageReader,
    },
    schema::types::{SchemaDescriptor, Type},
};
use std::{collections::VecDeque, iter, mem::size_of, ops::Range, sync::Arc};

/// Identifies a page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageId {
    /// The row group.
    pub(super) group: usize,
    /// The index of the column in the file.
    pub(super) column: usize,
    /// The index of the page among those of values of the column.
    pub(super) page: usize,
}

/// A page in the cache.
#[derive(Clone, Debug)]
pub(super) enum CachedPage {
    /// Decompressed, without its dictionary.
    Encoded(Encoded),
    /// Decoded.
    Decoded(Arc<Page>),
}

impl CachedPage {
    /// Memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        match self {
            Self::Encoded(page) => (page.buffer().len() + size_of::<Encoded>()) as u64,
            Self::Decoded(page) => page.weight(),
        }
    }
}

/// The values of a column in the rows of a page.
#[derive(Debug)]
pub(super) struct Page {
    /// Rows with a value; `None` if all have one.
    valid: Option<NullBuffer>,
    /// For a page with a dictionary: the index in `values` of each row with a value.
    keys: Option<ArrayRef>,
    /// The values of the rows with one, or the dictionary's.
    values: ArrayRef,
}

impl Page {
    /// Decodes a page that follows its dictionary.
    pub(super) fn decode(loaded: &Loaded, page_id: PageId, encoded: VecDeque<Encoded>) -> Result<Self> {
        let kept = loaded.metadata.schema().field(page_id.column).data_type();
        let data_type = match encoded.front() {
            // Texts of a dictionary can be many times as long as the page.
            Some(Encoded::DictionaryPage { num_values, .. }) if is_bytes(kept) => {
                let keys = if *num_values <= u16::MAX.into() { DataType::UInt16 } else { DataType::UInt32 };
                DataType::Dictionary(Box::new(keys), Box::new(kept.clone()))
            }
            _ => kept.clone(),
        };
        let rows = loaded.rows_of(page_id).len();
        let page = Self::new(decoded(loaded, page_id, encoded, data_type, None, rows)?)?;
        if page_id.column == ColumnIndexes::KEY && !page.is_of_tail(loaded, page_id) {
            return Err(wrong("a page of keys is not what the tail says"));
        }
        Ok(page)
    }

    /// Whether it has the keys that the tail says.
    fn is_of_tail(&self, loaded: &Loaded, page_id: PageId) -> bool {
        let (rows, group) = (loaded.rows_of(page_id), &loaded.footer.groups[page_id.group]);
        let Ok(at) = loaded.pages.binary_search_by_key(&(group.first + rows.start), |page| page.first) else {
            return false;
        };
        let end = loaded.pages.get(at + 1).map_or(loaded.footer.rows(), |next| next.first);
        let keys = self.keys().filter(|_| end == group.first + rows.end);
        keys.is_some_and(|keys| keys.iter().next().flatten() == Some(&loaded.pages[at].key[..]))
    }

    /// The values of an array, copied to memory of their own.
    fn new(array: ArrayRef) -> Result<Self> {
        let valid = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let mut dense = match &valid {
            Some(valid) => filter(&array, &BooleanArray::new(valid.inner().clone(), None))?,
            None => Arc::clone(&array),
        };
        // Drop the other reference, so that its buffers can shrink.
        drop(array);
        dense.shrink_to_fit();
        let (keys, values) = match dense.as_any_dictionary_opt() {
            Some(dictionary) => {
                let keys = dictionary.keys();
                (Some(keys.slice(0, keys.len())), Arc::clone(dictionary.values()))
            }
            None => (None, dense),
        };
        Ok(Self { valid, keys, values })
    }

    /// Memory, in bytes.
    pub(super) fn weight(&self) -> u64 {
        let valid = self.valid.as_ref().map_or(0, |valid| valid.buffer().capacity());
        let keys = self.keys.as_ref().map_or(0, |keys| keys.get_array_memory_size());
        (size_of::<Self>() + valid + keys + self.values.get_array_memory_size()) as u64
    }

    /// The values of rows of the page, ascending, copied to memory of their own.
    pub(super) fn take(&self, rows: impl ExactSizeIterator<Item = u32> + Clone) -> Result<ArrayRef, ArrowError> {
        let places = match &self.valid {
            None => UInt32Array::from_iter_values(rows),
            // Of a wide row most columns have no value.
            Some(valid) if rows.clone().all(|row| valid.is_null(row as usize)) => {
                return Ok(new_null_array(self.values.data_type(), rows.len()));
            }
            Some(valid) => {
                let (mut passed, mut page_id) = (0, 0);
                let places = rows.map(|row| {
                    let row = row as usize;
                    page_id += valid.inner().slice(passed, row - passed).count_set_bits();
                    passed = row;
                    valid.is_valid(row).then_some(page_id as u32)
                });
                places.collect()
            }
        };
        match &self.keys {
            Some(keys) => take(&self.values, &take(keys, &places, None)?, None),
            None => take(&self.values, &places, None),
        }
    }

    /// The values of a page of keys, one for each row.
    pub(super) fn keys(&self) -> Option<&BinaryArray> {
        let is_plain = self.valid.is_none() && self.keys.is_none();
        self.values.as_binary_opt().filter(|_| is_plain)
    }
}

/// How many of the first pages of a column chunk need its dictionary; an upper bound if unknown.
pub(super) fn pages_with_dictionary(chunk: &ColumnChunkMetaData) -> usize {
    let Some(counts) = chunk.page_encoding_stats() else { return usize::MAX };
    let of_values = counts.iter().filter(|count| count.page_type != PageType::DICTIONARY_PAGE);
    let with_dictionary = of_values.filter(|count| has_dictionary(count.encoding));
    with_dictionary.map(|count| usize::try_from(count.count).unwrap_or_default()).sum()
}

fn has_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::Utf8)
}

fn wrong(detail: &str) -> ParquetError {
    ParquetError::General(detail.into())
}

/// The values of few rows of a page that follows its dictionary, ascending, without decoding other rows.
pub(super) fn decode_few(
    loaded: &Loaded,
    page_id: PageId,
    encoded: VecDeque<Encoded>,
    rows: &[u32],
) -> Result<ArrayRef> {
    let data_type = loaded.metadata.schema().field(page_id.column).data_type().clone();
    let wanted = rows.iter().map(|row| *row as usize..*row as usize + 1);
    let selection = RowSelection::from_consecutive_ranges(wanted, loaded.rows_of(page_id).len());
    decoded(loaded, page_id, encoded, data_type, Some(selection), rows.len())
}

/// Decodes the selected rows, `count` in all, as an array of the type.
fn decoded(
    loaded: &Loaded,
    page_id: PageId,
    encoded: VecDeque<Encoded>,
    data_type: DataType,
    selection: Option<RowSelection>,
    count: usize,
) -> Result<ArrayRef> {
    let field = loaded.metadata.schema().field(page_id.column);
    let levels = levels(loaded, page_id.column, Field::new(field.name(), data_type, field.is_nullable()))?;
    let rows = loaded.rows_of(page_id).len();
    let chunk = OnePage { metadata: loaded.metadata.metadata(), group: page_id.group, rows, encoded };
    let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunk, rows.max(1), selection)?;
    let array = reader.next().transpose()?.and_then(|batch| batch.into_parts().1.pop());
    let array = array.filter(|array| array.len() == count);
    array.ok_or_else(|| wrong("a page has other rows than the page index says"))
}

/// Reads a single page of a chunk: its dictionary, or one of values.
fn read(
    loaded: &Loaded,
    page_id: PageId,
    location: &PageLocation,
    file: &Arc<Pages>,
    dictionary: bool,
) -> Result<Encoded> {
    let group = loaded.metadata.metadata().row_group(page_id.group);
    let (chunk, rows) = (group.column(page_id.column), usize::try_from(group.num_rows()).unwrap_or_default());
    // A reader for this page alone: it takes the bytes of the chunk before the page for the dictionary.
    let mut reader = SerializedPageReader::new(Arc::clone(file), chunk, rows, Some(vec![location.clone()]))?;
    if !dictionary && chunk.byte_range().0 != location.offset as u64 {
        reader.skip_next_page()?;
    }
    let page = reader.get_next_page()?.filter(|page| page.is_dictionary_page() == dictionary);
    page.ok_or_else(|| wrong("a page is not of the kind that the page index says"))
}

/// A page of values, decompressed.
pub(super) fn values(loaded: &Loaded, page_id: PageId, file: &Arc<Pages>) -> Result<Encoded> {
    let location = loaded.locations(page_id.group, page_id.column).get(page_id.page);
    read(loaded, page_id, location.ok_or_else(|| wrong("a column has no page index"))?, file, false)
}

/// The page of values, preceded by its dictionary if it has one.
pub(super) fn with_dictionary(
    loaded: &Loaded,
    caches: &Caches,
    page_id: PageId,
    values: Encoded,
    file: &Arc<Pages>,
) -> Result<VecDeque<Encoded>> {
    let mut pages = VecDeque::with_capacity(2);
    if has_dictionary(values.encoding()) {
        let first = loaded.locations(page_id.group, page_id.column).first();
        let first = first.ok_or_else(|| wrong("a column has no page index"))?;
        let chunk = loaded.metadata.metadata().row_group(page_id.group).column(page_id.column).byte_range().0;
        let dictionary = caches.dictionary(loaded.id, chunk, || read(loaded, page_id, first, file, true))?;
        pages.push_back(Encoded::clone(&dictionary));
    }
    pages.push_back(values);
    Ok(pages)
}

/// The levels of a column, read as `field`.
fn levels(loaded: &Loaded, column: usize, field: Field) -> Result<FieldLevels> {
    let schema = loaded.metadata.metadata().file_metadata().schema_descr();
    // Every column of a segment is a root.
    let root = Arc::clone(&schema.root_schema().get_fields()[column]);
    let schema = Type::group_type_builder("page").with_fields(vec![root]).build()?;
    let schema = SchemaDescriptor::new(Arc::new(schema));
    parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&Fields::from(vec![field])))
}

/// A row group of one page.
struct OnePage<'a> {
    metadata: &'a ParquetMetaData,
    group: usize,
    rows: usize,
    encoded: VecDeque<Encoded>,
}

impl RowGroups for OnePage<'_> {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, _: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(OneChunk(Some(EncodedPages(self.encoded.clone())))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// Its one column.
struct OneChunk(Option<EncodedPages>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

/// A sequence of pages.
struct EncodedPages(VecDeque<Encoded>);

impl Iterator for EncodedPages {
    type Item = Result<Encoded>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pop_front().map(Ok)
    }
}

impl PageReader for EncodedPages {
    fn get_next_page(&mut self) -> Result<Option<Encoded>> {
        Ok(self.0.pop_front())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let metadata = |page: &Encoded| PageMetadata {
            num_rows: None,
            num_levels: Some(page.num_values() as usize).filter(|_| page.is_data_page()),
            is_dict: page.is_dictionary_page(),
        };
        Ok(self.0.front().map(metadata))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.pop_front();
        Ok(())
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        Ok(true)
    }
}

impl Loaded {
    /// The locations of a column's pages; empty if the page index has none.
    pub(super) fn locations(&self, group: usize, column: usize) -> &[PageLocation] {
        let index = self.metadata.metadata().offset_index();
        let of_column = index.and_then(|groups| groups.get(group)?.get(column));
        of_column.map_or(&[], |index| index.page_locations())
    }

    /// The page of a column that has this row of a row group.
    pub(super) fn page_of_row(&self, group: usize, column: usize, row: u32) -> PageId {
        let locations = self.locations(group, column);
        let after = locations.partition_point(|page| page.first_row_index <= i64::from(row));
        PageId { group, column, page: after.saturating_sub(1) }
    }

    /// The rows of a page, by their indexes in the row group.
    pub(super) fn rows_of(&self, page_id: PageId) -> Range<u32> {
        let locations = self.locations(page_id.group, page_id.column);
        let first = |page: usize| locations.get(page).and_then(|page| u32::try_from(page.first_row_index).ok());
        let end = first(page_id.page + 1).unwrap_or(self.footer.groups[page_id.group].rows);
        first(page_id.page).unwrap_or_default().min(end)..end
    }
}
