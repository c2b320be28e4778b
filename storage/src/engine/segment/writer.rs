//! Writes a segment, row by row.
//!
//! Rows gather in a batch (`columns`); batches go to the column writers of a row group (`encoder`), which encode them
//! into pages in memory; a finished row group goes to the file. So memory is bounded by
//! [`GROUP_BYTES_TARGET`](super::GROUP_BYTES_TARGET) plus two batches and a row, whatever the segment's size.

use super::{
    SegmentId, SegmentMeta,
    batch::Batch,
    columns::{Columns, Counters},
    encoder::{Beside, Encoded, Encoder, Job},
    footer::{FOOTER_KEY, FORMAT_VERSION, Footer, GroupFooter},
    open::ColumnIndexes,
    options::{SegmentOptions, properties},
    shape::Shape,
    side::SideWriter,
    sink::Sink,
    tail::{self, PageStart},
};
use crate::{
    Error, Result, RowKey,
    engine::{blobs::Blobs, deletion_vector::Position},
};
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory},
    },
    bloom_filter::Sbbf,
    column::writer::ColumnCloseResult,
    errors::ParquetError,
    file::{metadata::KeyValue, writer::SerializedFileWriter},
};
use std::{io, path::PathBuf, sync::Arc};

/// Rows of a batch.
const BATCH_ROWS_MAX: usize = 4_096;
/// Bytes of keys and encoded rows of a batch, plus at most one row.
const BATCH_BYTES_TARGET: usize = 1 << 20;
/// Keys that a bloom filter is sized for; with more keys its error rate rises.
const BLOOM_KEYS_MAX: u64 = 1 << 20;
/// The error rate of a bloom filter: absent keys taken for present ones.
const BLOOM_ERRORS: f64 = 0.01;

/// A segment being written. Dropped before [`finish`](Self::finish), it leaves no valid segment.
pub(crate) struct SegmentWriter {
    options: SegmentOptions,
    /// See [`Shape::section`](super::shape::Shape), and whether the last key was in it.
    section: (Bytes, bool),
    file: SerializedFileWriter<Sink>,
    groups: ArrowRowGroupWriterFactory,
    /// Column writers of the current row group; empty between row groups, and while a batch is on its way.
    writers: Vec<ArrowColumnWriter>,
    columns: Columns,
    encoder: Arc<Encoder>,
    /// The thread that encodes, once there is one.
    beside: Option<Beside>,
    /// Bytes of the rows of the batch that is on its way there.
    on_its_way: Option<usize>,
    /// An empty batch whose memory is used again.
    spare: Option<Batch>,
    /// By shredded column: whether the row group has a NaN.
    nan: Vec<bool>,
    side: SideWriter,
    footer: Footer,
    group: GroupFooter,
    group_bytes: usize,
    group_keys: GroupKeys,
    /// Encoded bytes of the current row group, as of its last batch.
    encoded_bytes: usize,
    pages: Vec<PageStart>,
    bloom: Option<Sbbf>,
    /// The first key and the last.
    ends: Option<(RowKey, Vec<u8>)>,
}

impl SegmentWriter {
    /// Begins a segment.
    ///
    /// # Errors
    /// Errors of [`Blobs::create`].
    pub(crate) fn new(blobs: Arc<dyn Blobs>, shape: Shape, options: SegmentOptions) -> Result<Self> {
        let schema = shape.schema();
        let sink = Sink::new(blobs.create(&options.id.parquet_name())?);
        let properties = properties(&shape, &schema, &options);
        let made = ArrowWriter::try_new(sink, schema.clone(), Some(properties));
        let (file, groups) =
            made.and_then(ArrowWriter::into_serialized_writer).map_err(|error| failed(options.id, error))?;
        let footer = Footer {
            version: FORMAT_VERSION,
            segment: options.id.0,
            table: options.table,
            key: shape.key_footer(),
            families: shape.family_footers(),
            columns: shape.column_footers(),
            groups: Vec::new(),
        };
        let section = (shape.section.clone(), true);
        Ok(Self {
            encoder: Arc::new(Encoder::new(shape.clone(), schema)),
            beside: None,
            on_its_way: None,
            spare: None,
            nan: vec![false; footer.columns.len()],
            section,
            file,
            groups,
            writers: Vec::new(),
            side: SideWriter::new(blobs, options.id),
            group: GroupFooter::new(0, footer.families.len(), footer.columns.len()),
            footer,
            columns: Columns::new(shape),
            group_bytes: 0,
            group_keys: GroupKeys::default(),
            encoded_bytes: 0,
            pages: Vec::new(),
            bloom: options.bloom.then(|| {
                Sbbf::new_with_ndv_fpp(BLOOM_KEYS_MAX, BLOOM_ERRORS).expect("the rate of errors is between 0 and 1")
            }),
            ends: None,
            options,
        })
    }

    /// Adds a row, whose key must be greater than all before; returns its position. A row without cells in the shape's
    /// families is not written, and gives `None`.
    ///
    /// # Errors
    /// Errors of [`BlobWriter::write`](crate::engine::blobs::BlobWriter::write): the segment will not be finished.
    ///
    /// # Panics
    /// If the key is not greater.
    pub(crate) fn push(&mut self, key: &[u8], row: &[u8]) -> Result<Option<Position>> {
        assert!(self.ends.as_ref().is_none_or(|(_, last)| last[..] < *key), "keys ascend");
        let (section, in_section) = &mut self.section;
        let was_in_section = std::mem::replace(in_section, key.starts_with(section));
        if was_in_section != *in_section {
            // Beside other owners' rows the columns of the key would be lost, and rows residual.
            self.end_group()?;
        }
        let counters = Counters { group: &mut self.group, families: &mut self.footer.families };
        if !self.columns.push(key, row, counters, &mut self.side)? {
            return Ok(None);
        }
        let position = self.group.positions().end - 1;
        match &mut self.ends {
            Some((_, last)) => {
                last.clear();
                last.extend_from_slice(key);
            }
            none => *none = Some((owned(key), key.to_vec())),
        }
        if let Some(bloom) = &mut self.bloom {
            bloom.insert(key);
        }
        self.group_keys.push(key);
        self.group_bytes += key.len() + row.len();
        let limits = self.options.limits;
        if self.columns.rows() == BATCH_ROWS_MAX || self.columns.bytes() >= BATCH_BYTES_TARGET {
            self.end_batch(self.options.beside)?;
        }
        if self.group.rows >= limits.group_rows_max || self.group_bytes >= limits.group_bytes_target {
            self.end_group()?;
        }
        Ok(Some(position))
    }

    /// Approximate bytes of the files so far, but for the rows of the current batch.
    pub(crate) fn bytes(&self) -> u64 {
        let on_its_way = self.on_its_way.unwrap_or_default();
        (self.file.bytes_written() + self.encoded_bytes + on_its_way) as u64 + self.side.bytes()
    }

    /// Makes the segment durable. `None` for one without rows: there is no file.
    ///
    /// # Errors
    /// Errors of [`BlobWriter`](crate::engine::blobs::BlobWriter): the files may exist.
    pub(crate) fn finish(mut self) -> Result<Option<SegmentMeta>> {
        self.end_group()?;
        let Some((first, last)) = self.ends.take() else { return Ok(None) };
        let rows = self.footer.rows();
        // The sink must have all bytes before the tail.
        self.file.flush().map_err(|error| self.failed(error.into()))?;
        let mut bloom = self.bloom.take();
        if let Some(bloom) = &mut bloom {
            bloom.fold_to_target_fpp(BLOOM_ERRORS);
        }
        let own = tail::encode(self.file.inner_mut().begin_tail(), &self.pages, rows, bloom.as_ref());
        self.file.write_all(&own).map_err(|error| self.failed(error.into()))?;
        self.file.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), self.footer.to_json()));
        self.file.finish().map_err(|error| self.failed(error))?;
        // The side file first: the segment's file refers to it.
        let side_bytes = self.side.finish()?;
        let written = self.file.inner_mut().finish()?;
        let too_large = |_| Error::TooLarge {
            what: "the tail of a segment",
            size: usize::try_from(written.tail_bytes).unwrap_or(usize::MAX),
            limit: u32::MAX as usize,
        };
        Ok(Some(SegmentMeta {
            id: self.options.id,
            rows,
            bytes: written.bytes,
            side_bytes,
            tail_bytes: u32::try_from(written.tail_bytes).map_err(too_large)?,
            tail_crc: written.tail_crc,
            first,
            last: owned(&last),
            stamp: self.options.stamp,
            base: self.options.base,
        }))
    }

    /// Encodes the current batch: beside the rows that follow, if many do.
    fn end_batch(&mut self, beside: bool) -> Result<()> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        self.settle()?;
        if self.writers.is_empty() {
            let writers = self.groups.create_column_writers(self.footer.groups.len());
            self.writers = writers.map_err(|error| self.failed(error))?;
        }
        let (bytes, empty) = (self.columns.bytes(), self.spare.take().unwrap_or_else(|| self.columns.empty()));
        let job = Job {
            batch: self.columns.exchange(empty),
            writers: std::mem::take(&mut self.writers),
            decodes_keys: self.group.key,
        };
        if beside && self.beside.is_none() {
            self.beside = Beside::start(Arc::clone(&self.encoder));
        }
        match &self.beside {
            Some(thread) => {
                thread.put(job).map_err(|error| failed(self.options.id, error))?;
                self.on_its_way = Some(bytes);
            }
            None => {
                let encoded = self.encoder.encode(job).map_err(|error| self.failed(error))?;
                self.absorb(encoded);
            }
        }
        Ok(())
    }

    /// Waits for the batch that is on its way.
    fn settle(&mut self) -> Result<()> {
        if let (Some(thread), Some(_)) = (&self.beside, self.on_its_way.take()) {
            let encoded = thread.take().map_err(|error| failed(self.options.id, error))?;
            self.absorb(encoded);
        }
        Ok(())
    }

    fn absorb(&mut self, encoded: Encoded) {
        self.writers = encoded.writers;
        self.spare = Some(encoded.batch);
        self.encoded_bytes = encoded.bytes;
        self.group.key &= encoded.keys_decoded;
        encoded.nan.into_iter().for_each(|column| self.nan[column] = true);
    }

    /// Writes the current row group to the file.
    fn end_group(&mut self) -> Result<()> {
        self.end_batch(false)?;
        self.settle()?;
        if self.group.rows == 0 {
            return Ok(());
        }
        let next = GroupFooter::new(self.group.positions().end, self.footer.families.len(), self.footer.columns.len());
        let group = std::mem::replace(&mut self.group, next);
        let keys = std::mem::take(&mut self.group_keys);
        let writers = std::mem::take(&mut self.writers);
        self.write_group(writers, &group, &keys).map_err(|error| self.failed(error))?;
        self.footer.groups.push(group);
        self.group_bytes = 0;
        self.encoded_bytes = 0;
        Ok(())
    }

    fn write_group(
        &mut self,
        writers: Vec<ArrowColumnWriter>,
        group: &GroupFooter,
        keys: &GroupKeys,
    ) -> Result<(), ParquetError> {
        let indexes = ColumnIndexes::of(&self.footer);
        let nan = self.nan.iter_mut().enumerate().filter_map(|(column, nan)| std::mem::take(nan).then_some(column));
        let nan: Vec<usize> = nan.map(|column| indexes.values(column)).collect();
        let mut file = self.file.next_row_group()?;
        for (at, writer) in writers.into_iter().enumerate() {
            let mut chunk = writer.close()?;
            if nan.contains(&at) {
                forget_statistics(chunk.close_mut())?;
            }
            if at == ColumnIndexes::KEY {
                let index = chunk.close().offset_index.as_ref().expect("the offset index is on");
                self.pages.extend(index.page_locations().iter().map(|page| {
                    let row = usize::try_from(page.first_row_index).expect("rows are counters from 0");
                    let key = Bytes::copy_from_slice(keys.get(row));
                    PageStart { first: group.first + row as Position, key }
                }));
            }
            chunk.append_to_row_group(&mut file)?;
        }
        file.close()?;
        Ok(())
    }

    /// The error: the file's own, if it had one.
    fn failed(&mut self, error: ParquetError) -> Error {
        self.file.inner_mut().take_error().unwrap_or_else(|| failed(self.options.id, error))
    }
}

/// The keys of a row group, concatenated.
#[derive(Default)]
struct GroupKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl GroupKeys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// A copy of a key: a slice would keep a larger buffer alive.
fn owned(key: &[u8]) -> RowKey {
    RowKey::stored(Bytes::copy_from_slice(key)).expect("the key was one before")
}

/// Removes the bounds of a column with NaNs: they do not bound NaNs, and a query engine that does compare NaNs must not
/// skip them.
fn forget_statistics(column: &mut ColumnCloseResult) -> Result<(), ParquetError> {
    column.metadata = column.metadata.clone().into_builder().clear_statistics().build()?;
    column.column_index = None;
    Ok(())
}

fn failed(id: SegmentId, error: ParquetError) -> Error {
    Error::Io { action: "encode", path: PathBuf::from(id.parquet_name()), source: io::Error::other(error) }
}
