//! A segment opened for reading. Its tail is loaded at first use and kept in a bounded cache.

use super::{
    SegmentId, SegmentMeta,
    checked::{CheckedFile, read_tail},
    footer::{FOOTER_KEY, Footer},
    page::CachedPage,
    projection::{ValueBytes, value_bytes_max},
    shape::{self, ColumnFrequency},
    side,
    tail::{self, PageStart},
};
use crate::{
    Error, ErrorKind, Result,
    engine::{
        blobs::{Blob, Blobs},
        deletion_vector::Position,
        sections::Mark,
        writer::same,
    },
    inspect::CacheUse,
};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    bloom_filter::Sbbf,
    column::page::Page as Encoded,
    errors::ParquetError,
    file::{
        metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData},
        reader::{ChunkReader, Length},
    },
};
use quick_cache::{OptionsBuilder, Weighter, sync::Cache};
use std::{
    collections::BTreeMap,
    io::Cursor,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// Caches of segments. A file is open as long as its tail is cached or in use.
#[derive(Debug)]
pub(crate) struct Caches {
    loaded: Cache<SegmentId, Arc<Loaded>, Weights>,
    /// The tail that was read last, even if it does not fit into the cache: otherwise it would be read for every row.
    last: Mutex<Option<Arc<Loaded>>>,
    /// By the offset of the page in the file.
    pages: Cache<(SegmentId, u64), Part, Weights>,
    /// Whether the log is being replayed: see [`Segment::or_refused`].
    replaying: AtomicBool,
}

/// A cached page.
#[derive(Clone, Debug)]
enum Part {
    /// A page of values.
    Values(CachedPage),
    /// The dictionary of a column chunk, decompressed: each page of the chunk is decoded with it.
    Dictionary(Arc<Encoded>),
}

/// Estimated bytes of a tail, for the cache's first allocation.
const TAIL_BYTES_GUESS: u64 = 256 << 10;
/// Estimated bytes of a page, for the cache's first allocation.
const PAGE_BYTES_GUESS: u64 = 32 << 10;

impl Caches {
    /// Caches of at most these bytes, for tails and for pages.
    pub(crate) fn new(tail_bytes: u64, page_bytes: u64) -> Self {
        let (loaded, pages) = (cache(tail_bytes, TAIL_BYTES_GUESS), cache(page_bytes, PAGE_BYTES_GUESS));
        Self { loaded, last: Mutex::default(), pages, replaying: AtomicBool::new(false) }
    }

    /// Sets whether the log is being replayed.
    pub(crate) fn set_replaying(&self, replaying: bool) {
        self.replaying.store(replaying, Ordering::SeqCst);
    }

    /// The tail of a segment.
    fn get(&self, id: SegmentId) -> Option<Arc<Loaded>> {
        self.loaded.get(&id).or_else(|| self.last().as_ref().filter(|last| last.id == id).cloned())
    }

    /// Caches a tail.
    fn put(&self, loaded: &Arc<Loaded>) {
        self.loaded.insert(loaded.id, loaded.clone());
        let before = self.last().replace(loaded.clone());
        // Dropped outside of the lock: it may be the last reference to the tail.
        drop(before);
    }

    fn last(&self) -> MutexGuard<'_, Option<Arc<Loaded>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a deleted segment.
    pub(crate) fn forget(&self, id: SegmentId) {
        self.loaded.remove(&id);
        drop(self.last().take_if(|last| last.id == id));
        self.pages.retain(|(segment, _), _| *segment != id);
    }

    /// How often it was asked for tails and for pages.
    pub(crate) fn usage(&self) -> (CacheUse, CacheUse) {
        (
            CacheUse { hits: self.loaded.hits(), misses: self.loaded.misses() },
            CacheUse { hits: self.pages.hits(), misses: self.pages.misses() },
        )
    }

    /// Bytes in use, for tails and for pages.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.loaded.weight(), self.pages.weight())
    }

    /// A page of values, by its offset in the file.
    pub(super) fn page(&self, id: SegmentId, offset: u64) -> Option<CachedPage> {
        match self.pages.get(&(id, offset))? {
            Part::Values(page) => Some(page),
            Part::Dictionary(_) => unreachable!("pages of values begin behind the dictionary, which only they ask for"),
        }
    }

    /// Caches a page of values, replacing an earlier form of it.
    pub(super) fn put_page(&self, id: SegmentId, offset: u64, page: CachedPage) {
        self.pages.insert((id, offset), Part::Values(page));
    }

    /// A dictionary, by its offset in the file.
    pub(super) fn dictionary(
        &self,
        id: SegmentId,
        offset: u64,
        read: impl FnOnce() -> Result<Encoded, ParquetError>,
    ) -> Result<Arc<Encoded>, ParquetError> {
        match self.pages.get_or_insert_with(&(id, offset), || read().map(Arc::new).map(Part::Dictionary))? {
            Part::Dictionary(dictionary) => Ok(dictionary),
            // A page of values and a dictionary at the same offset: the file's metadata is wrong.
            Part::Values(_) => Err(ParquetError::General("a page is not of the kind that the page index says".into())),
        }
    }

    /// Whether a page is cached.
    pub(super) fn has_page(&self, id: SegmentId, offset: u64) -> bool {
        self.pages.contains_key(&(id, offset))
    }
}

fn cache<K: std::hash::Hash + Eq, V: Clone>(bytes: u64, guess: u64) -> Cache<K, V, Weights>
where
    Weights: Weighter<K, V>,
{
    // One shard: a shard that is smaller than an entry would hold nothing.
    let items = usize::try_from(bytes / guess).unwrap_or(usize::MAX).max(1);
    let options = OptionsBuilder::new()
        .estimated_items_capacity(items)
        .weight_capacity(bytes)
        .shards(1)
        .build()
        .expect("capacities are given");
    Cache::with_options(options, Weights, Default::default(), Default::default())
}

#[derive(Clone, Copy, Debug)]
struct Weights;

impl Weighter<SegmentId, Arc<Loaded>> for Weights {
    fn weight(&self, _: &SegmentId, loaded: &Arc<Loaded>) -> u64 {
        loaded.weight
    }
}

impl Weighter<(SegmentId, u64), Part> for Weights {
    fn weight(&self, _: &(SegmentId, u64), part: &Part) -> u64 {
        match part {
            Part::Values(held) => held.weight(),
            Part::Dictionary(dictionary) => (dictionary.buffer().len() + size_of::<Encoded>()) as u64,
        }
    }
}

/// A segment. Opening it touches no file.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(super) blobs: Arc<dyn Blobs>,
    /// The number of its table.
    pub(super) table: u32,
    pub(super) meta: SegmentMeta,
    pub(super) caches: Arc<Caches>,
    /// The tail as long as somebody uses it. The lock is held while it is read, so that others wait instead of reading
    /// it too.
    in_use: Mutex<Weak<Loaded>>,
    /// Caches [`least_timestamps`](Self::least_timestamps), which are needed repeatedly, of all segments.
    least: OnceLock<BTreeMap<u32, i64>>,
    /// Why nothing of it may be read.
    refused: OnceLock<Error>,
}

impl Segment {
    /// A segment of a table, as described by the manifest.
    pub(crate) fn open(blobs: Arc<dyn Blobs>, table: u32, meta: SegmentMeta, caches: Arc<Caches>) -> Arc<Self> {
        let (in_use, least, refused) = (Mutex::default(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { blobs, table, meta, caches, in_use, least, refused })
    }

    /// Unwraps a result of reading the segment; `None` if the segment is damaged and refused from now on.
    ///
    /// During replay, the log has later changes of rows, whose positions in a damaged segment cannot be found. The
    /// start continues, but refuses the whole segment: a reader of a sound part of it would see outdated rows.
    ///
    /// # Errors
    /// The error, unless it is a damage and the log is being replayed.
    pub(crate) fn or_refused<T>(&self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Err(error) if error.kind() == ErrorKind::Corrupt && self.caches.replaying.load(Ordering::SeqCst) => {
                let _ = self.refused.set(error);
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Why the segment is refused, if it is.
    pub(crate) fn refused(&self) -> Option<&Error> {
        self.refused.get()
    }

    /// Its description in the manifest.
    pub(crate) fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// A shredded column of one of the families with a value in every row, the smallest of several: reading it proves
    /// that rows exist.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn witness(&self, families: &[u32]) -> Result<Option<(u32, Bytes)>> {
        let loaded = self.load()?;
        let (footer, indexes) = (&loaded.footer, loaded.column_indexes());
        let is_full = |column: &usize| {
            families.contains(&footer.columns[*column].family)
                && footer.groups.iter().all(|group| group.values[*column] == group.rows)
        };
        let bytes = |column: &usize| -> i64 {
            let groups = loaded.metadata.metadata().row_groups().iter();
            groups.map(|group| group.column(indexes.values(*column)).compressed_size()).sum()
        };
        let least = (0..footer.columns.len()).filter(is_full).min_by_key(bytes);
        Ok(least.map(|column| (footer.columns[column].family, footer.columns[column].qualifier.0.clone())))
    }

    /// The least timestamp of each family that has cells, by number, in microseconds.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn least_timestamps(&self) -> Result<&BTreeMap<u32, i64>> {
        if let Some(least) = self.least.get() {
            return Ok(least);
        }
        let loaded = self.load()?;
        let footer = &loaded.footer;
        let least = |at: usize| footer.groups.iter().filter_map(|group| group.least[at]).min();
        let families = footer.families.iter().enumerate();
        let least = families.filter_map(|(at, family)| Some((family.number, least(at)?))).collect();
        Ok(self.least.get_or_init(|| least))
    }

    /// Columns that most of its rows have, or some neighbouring ones, with their frequencies.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn column_frequencies(&self) -> Result<Vec<ColumnFrequency>> {
        let loaded = self.load()?;
        let groups = loaded.metadata.metadata().row_groups();
        let chunks = groups.iter().flat_map(RowGroupMetaData::columns);
        let with_dictionary = chunks.filter(|chunk| chunk.dictionary_page_offset().is_some());
        let names = with_dictionary.filter_map(|chunk| chunk.column_path().parts().first().map(String::as_str));
        Ok(shape::frequencies(&loaded.footer, &names.collect()))
    }

    /// The first key of each page of keys that has one of the positions, and the number of its rows.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn marks(&self, positions: &Range<Position>) -> Result<Vec<Mark>> {
        let loaded = self.load()?;
        let ends =
            loaded.pages[1.min(loaded.pages.len())..].iter().map(|page| page.first).chain([loaded.footer.rows()]);
        let pages = loaded.pages.iter().zip(ends);
        let asked = pages.filter(|(page, end)| page.first < positions.end && *end > positions.start);
        Ok(asked.map(|(page, end)| Mark { key: page.key.clone(), rows: u64::from(end - page.first) }).collect())
    }

    /// The tail: from the cache, from another user, or from the file.
    pub(super) fn load(&self) -> Result<Arc<Loaded>> {
        if let Some(error) = self.refused.get() {
            return Err(same(error));
        }
        if let Some(loaded) = self.caches.get(self.meta.id) {
            return Ok(loaded);
        }
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = match self.caches.get(self.meta.id).or_else(|| in_use.upgrade()) {
            Some(loaded) => loaded,
            None => Arc::new(self.read()?),
        };
        *in_use = Arc::downgrade(&loaded);
        self.caches.put(&loaded);
        Ok(loaded)
    }

    /// The tail, from the file.
    pub(super) fn read(&self) -> Result<Loaded> {
        Loaded::read(self.blobs.as_ref(), self.table, &self.meta)
    }
}

/// A segment's loaded tail.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) id: SegmentId,
    pub(super) file: Arc<CheckedFile>,
    pub(super) metadata: ArrowReaderMetadata,
    pub(super) footer: Footer,
    pub(super) pages: Vec<PageStart>,
    pub(super) bloom: Option<Sbbf>,
    side: OnceLock<Arc<dyn Blob>>,
    /// Sizes of values.
    pub(super) value_bytes: ValueBytes,
    weight: u64,
}

/// A tail at its offset in the file, as Parquet's reader needs it.
struct TailBytes {
    offset: u64,
    bytes: Bytes,
}

impl Length for TailBytes {
    fn len(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl ChunkReader for TailBytes {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.get_bytes(start, (self.len().saturating_sub(start)) as usize).map(Cursor::new)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let from = start.checked_sub(self.offset).and_then(|from| usize::try_from(from).ok());
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        let range = range.filter(|range| range.end <= self.bytes.len());
        let range = range.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} are not in the tail")))?;
        Ok(self.bytes.slice(range))
    }
}

impl Loaded {
    fn read(blobs: &dyn Blobs, table: u32, meta: &SegmentMeta) -> Result<Self> {
        let blob = blobs.open(&meta.id.parquet_name())?;
        let tail_offset = meta.bytes.saturating_sub(meta.tail_bytes.into());
        let path = blob.path();
        let damaged = |detail: String| Error::Corrupt { path: path.clone(), offset: tail_offset, detail };
        if blob.size() != meta.bytes {
            let (path, offset) = (path, blob.size().min(meta.bytes));
            let detail = format!("the file has {} bytes, {} were written", blob.size(), meta.bytes);
            return Err(Error::Corrupt { path, offset, detail });
        }
        let bytes = read_tail(blob.as_ref(), tail_offset, meta.tail_crc)?;
        let tail = tail::decode(&bytes, meta.rows).map_err(&damaged)?;

        let reader = TailBytes { offset: tail_offset, bytes };
        let policy = PageIndexPolicy::Required;
        // Count the pages with a dictionary, instead of only noting that there are some.
        let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
        let metadata = ParquetMetaDataReader::new().with_page_index_policy(policy).with_metadata_options(Some(options));
        let metadata = metadata.parse_and_finish(&reader);
        let metadata = Arc::new(metadata.map_err(|error| damaged(error.to_string()))?);
        let footer = footer(&metadata).map_err(&damaged)?;
        check(table, meta, &footer, &metadata).map_err(&damaged)?;
        let metadata = ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new().with_page_index_policy(policy));
        let metadata = metadata.map_err(|error| damaged(error.to_string()))?;

        let file = Arc::new(CheckedFile::new(blob, tail.blocks, tail_offset, meta.tail_crc)?);
        let pages: usize = tail.pages.iter().map(|page| page.key.len() + size_of::<PageStart>()).sum();
        let bloom = tail.bloom.as_ref().map_or(0, |bloom| bloom.num_blocks() * 32);
        // The footer in memory is about as large as its JSON, which the metadata holds.
        let value_bytes = value_bytes_max(metadata.metadata());
        let sizes: usize = value_bytes.iter().map(|columns| size_of_val(&columns[..])).sum();
        let weight = file.weight() + 2 * metadata.metadata().memory_size() + pages + bloom + sizes;
        let (pages, bloom) = (tail.pages, tail.bloom);
        let (side, weight) = (OnceLock::new(), weight as u64);
        Ok(Self { id: meta.id, file, metadata, footer, pages, bloom, side, value_bytes, weight })
    }

    /// The side file.
    pub(super) fn side(&self, blobs: &dyn Blobs) -> Result<&dyn Blob> {
        if let Some(side) = self.side.get() {
            return Ok(side.as_ref());
        }
        let side = blobs.open(&self.id.side_name())?;
        side::check_header(side.as_ref(), self.id)?;
        Ok(self.side.get_or_init(|| side).as_ref())
    }

    /// The error for a damaged row group.
    pub(super) fn damaged(&self, group: usize, detail: String) -> Error {
        let columns = self.metadata.metadata().row_group(group).columns();
        let offset = columns.iter().map(|column| column.byte_range().0).min().unwrap_or_default();
        self.file.damaged(offset, detail)
    }

    /// Column indexes in the file.
    pub(super) fn column_indexes(&self) -> ColumnIndexes {
        ColumnIndexes::of(&self.footer)
    }
}

/// Column indexes in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnIndexes {
    shredded: usize,
    overflow: usize,
    /// Index of `_side`.
    pub(super) side: usize,
}

impl ColumnIndexes {
    /// Index of `_key`.
    pub(super) const KEY: usize = 0;
    /// Index of `_ts`.
    pub(super) const TIMESTAMP: usize = 1;

    pub(super) fn of(footer: &Footer) -> Self {
        let shredded = 2 + footer.key.as_ref().map_or(0, |key| key.columns.len());
        let overflow = shredded + 2 * footer.columns.len();
        Self { shredded, overflow, side: overflow + footer.families.len() }
    }

    /// Index of the values of a shredded column; its timestamps are next.
    pub(super) fn values(&self, column: usize) -> usize {
        self.shredded + 2 * column
    }

    /// Index of the overflow of a family.
    pub(super) fn overflow(&self, family: usize) -> usize {
        self.overflow + family
    }
}

fn footer(metadata: &ParquetMetaData) -> Result<Footer, String> {
    let pairs = metadata.file_metadata().key_value_metadata();
    let json = pairs.into_iter().flatten().find(|pair| pair.key == FOOTER_KEY).and_then(|pair| pair.value.as_deref());
    Footer::parse(json.ok_or("it has no footer of ours")?)
}

/// Checks that footer, Parquet's metadata and manifest describe the same segment.
fn check(table: u32, meta: &SegmentMeta, footer: &Footer, metadata: &ParquetMetaData) -> Result<(), String> {
    if (footer.segment, footer.table) != (meta.id.0, table) {
        return Err(format!("it is segment {} of table {}", SegmentId(footer.segment), footer.table));
    }
    let groups = metadata.row_groups();
    let same_groups = groups.len() == footer.groups.len()
        && groups.iter().zip(&footer.groups).all(|(group, ours)| group.num_rows() == i64::from(ours.rows));
    if !same_groups || footer.rows() != meta.rows {
        return Err("the footer counts other rows than the manifest, or Parquet's metadata".into());
    }
    let mut names = vec![shape::KEY.to_owned(), shape::TIMESTAMP.to_owned()];
    names.extend(footer.key.iter().flat_map(|key| key.columns.iter().cloned()));
    names.extend(footer.columns.iter().flat_map(|column| [column.name.clone(), shape::timestamps_of(&column.name)]));
    names.extend(footer.families.iter().map(|family| family.overflow.clone()));
    names.push(shape::SIDE.to_owned());
    let columns = metadata.file_metadata().schema_descr().columns();
    if !columns.iter().map(|column| column.path().string()).eq(names) {
        return Err("the footer has other columns than Parquet's metadata".into());
    }
    Ok(())
}
