//! Writes a segment, row by row.
//!
//! Rows gather in a batch (`columns`), batches go to the column writers of a row group, which encode them into pages in memory; a
//! finished row group goes to the file. So what is held is bounded by [`GROUP_BYTES_TARGET`](super::GROUP_BYTES_TARGET) and a row, whatever the segment's size.

use super::{
    SegmentId, SegmentMeta,
    columns::{Columns, Counters},
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
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves},
    },
    bloom_filter::Sbbf,
    column::writer::ColumnCloseResult,
    errors::ParquetError,
    file::{metadata::KeyValue, writer::SerializedFileWriter},
};
use std::{io, path::PathBuf, sync::Arc};

/// Rows that gather before they are encoded.
const BATCH_ROWS_MAX: usize = 1_024;
/// Bytes of keys and encoded rows that gather before they are encoded; one row more may.
const BATCH_BYTES_TARGET: usize = 1 << 20;
/// Keys for which a bloom filter is made; with more it errs more often.
const BLOOM_KEYS_MAX: u64 = 1 << 20;
/// How often a bloom filter takes an absent key for a present one.
const BLOOM_ERRORS: f64 = 0.01;

/// A segment being written. Dropped before [`finish`](Self::finish), it leaves nothing that counts.
pub(crate) struct SegmentWriter {
    options: SegmentOptions,
    schema: SchemaRef,
    file: SerializedFileWriter<Sink>,
    groups: ArrowRowGroupWriterFactory,
    /// Of the row group at hand; empty between row groups.
    writers: Vec<ArrowColumnWriter>,
    columns: Columns,
    side: SideWriter,
    footer: Footer,
    group: GroupFooter,
    group_bytes: usize,
    group_keys: GroupKeys,
    /// Bytes of the row group at hand, encoded, as of its last batch.
    encoded_bytes: usize,
    pages: Vec<PageStart>,
    bloom: Option<Sbbf>,
    /// The first key, and the last.
    ends: Option<(RowKey, Vec<u8>)>,
}

impl SegmentWriter {
    /// Begins a segment.
    ///
    /// # Errors
    /// Those of [`Blobs::create`].
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
        Ok(Self {
            schema,
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

    /// Adds a row, whose key is greater than those before. Gives its position; `None` for one that has no cell in the shape's families, which
    /// is not written.
    ///
    /// # Errors
    /// Those of [`BlobWriter::write`](crate::engine::blobs::BlobWriter::write): the segment is not going to be.
    ///
    /// # Panics
    /// If the key is not greater.
    pub(crate) fn push(&mut self, key: &[u8], row: &[u8]) -> Result<Option<Position>> {
        assert!(self.ends.as_ref().is_none_or(|(_, last)| last[..] < *key), "keys ascend");
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
        // Parquet's writer looks whether a page is full after each batch.
        let batch_bytes = BATCH_BYTES_TARGET.min(limits.page_bytes_target);
        if self.columns.rows() == BATCH_ROWS_MAX || self.columns.bytes() >= batch_bytes {
            self.end_batch()?;
        }
        if self.group.rows >= limits.group_rows_max || self.group_bytes >= limits.group_bytes_target {
            self.end_group()?;
        }
        Ok(Some(position))
    }

    /// Bytes of the files so far, roughly, with what is about to be written.
    pub(crate) fn bytes(&self) -> u64 {
        (self.file.bytes_written() + self.encoded_bytes) as u64 + self.side.bytes()
    }

    /// Makes the segment last. `None` for one without rows: there is no file.
    ///
    /// # Errors
    /// Those of [`BlobWriter`](crate::engine::blobs::BlobWriter): the files may be there.
    pub(crate) fn finish(mut self) -> Result<Option<SegmentMeta>> {
        self.end_group()?;
        let Some((first, last)) = self.ends.take() else { return Ok(None) };
        let rows = self.footer.rows();
        // What the sink holds of the file must be all before the tail.
        self.file.flush().map_err(|error| self.failed(error.into()))?;
        let mut bloom = self.bloom.take();
        if let Some(bloom) = &mut bloom {
            bloom.fold_to_target_fpp(BLOOM_ERRORS);
        }
        let own = tail::encode(self.file.inner_mut().begin_tail(), &self.pages, rows, bloom.as_ref());
        self.file.write_all(&own).map_err(|error| self.failed(error.into()))?;
        self.file.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), self.footer.to_json()));
        self.file.finish().map_err(|error| self.failed(error))?;
        // The side file first: the segment's file says that it is there.
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

    /// Encodes the rows that gathered.
    fn end_batch(&mut self) -> Result<()> {
        if self.columns.rows() == 0 {
            return Ok(());
        }
        if self.writers.is_empty() {
            let writers = self.groups.create_column_writers(self.footer.groups.len());
            self.writers = writers.map_err(|error| self.failed(error))?;
        }
        let arrays = self.columns.finish(&mut self.group);
        let mut written = Ok(());
        for ((writer, field), array) in self.writers.iter_mut().zip(self.schema.fields()).zip(&arrays) {
            written =
                written.and_then(|()| compute_leaves(field, array)?.iter().try_for_each(|leaf| writer.write(leaf)));
        }
        written.map_err(|error| self.failed(error))?;
        self.encoded_bytes = self.writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum();
        Ok(())
    }

    /// Writes the row group at hand to the file.
    fn end_group(&mut self) -> Result<()> {
        self.end_batch()?;
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
        let nan: Vec<usize> = self.columns.take_nan().into_iter().map(|column| indexes.values(column)).collect();
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

    /// What went wrong: what the file said, if it did.
    fn failed(&mut self, error: ParquetError) -> Error {
        self.file.inner_mut().take_error().unwrap_or_else(|| failed(self.options.id, error))
    }
}

/// The keys of a row group, one behind the other.
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

/// A copy of a key: a slice would keep more alive.
fn owned(key: &[u8]) -> RowKey {
    RowKey::stored(Bytes::copy_from_slice(key)).expect("the key was one before")
}

/// Leaves the bounds of a column's values out: some values are not within, since they are no numbers, and a query engine that compares them
/// all the same must not skip them.
fn forget_statistics(column: &mut ColumnCloseResult) -> Result<(), ParquetError> {
    column.metadata = column.metadata.clone().into_builder().clear_statistics().build()?;
    column.column_index = None;
    Ok(())
}

fn failed(id: SegmentId, error: ParquetError) -> Error {
    Error::Io { action: "encode", path: PathBuf::from(id.parquet_name()), source: io::Error::other(error) }
}
