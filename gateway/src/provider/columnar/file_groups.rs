//! Row groups as DataFusion's source of Parquet files.
//!
//! Files in which the wanted columns have the same names are read by one `DataSourceExec`; that is nearly always all of them. Its table
//! has the file's names and SQL's types, its projection SQL's names. A file's row groups are cut into chunks, each a file of its own to
//! DataFusion with an access plan of its own; a partition that is done early takes chunks from others.
//!
//! A selection that is a bitmap has many short runs. Its rows are decoded, but for long stretches without any, and dropped afterwards
//! ([`live_rows`]).
//!
//! Filters are held against statistics of row groups and pages, and not against rows while they are decoded: that took twice as long
//! as a filter above for one row in two, and no less for one in a hundred (`keyspan bench scan`).

use super::{
    super::exec::bytes_of,
    Source,
    live_rows::{self, LivingExec},
    reader::{Opened, Readers, Spent},
};
use arrow::{
    array::BooleanBufferBuilder,
    buffer::BooleanBuffer,
    datatypes::{Field, FieldRef, Schema, SchemaRef},
};
use datafusion::{
    common::Result,
    config::TableParquetOptions,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileGroup, FileScanConfigBuilder, FileSource, ParquetSource,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    execution::object_store::ObjectStoreUrl,
    physical_expr::{
        expressions::Column,
        projection::{ProjectionExpr, ProjectionExprs},
    },
    physical_plan::ExecutionPlan,
    scalar::ScalarValue,
};
use keyspan_storage::ParquetPart;
use parquet::{arrow::arrow_reader::RowSelection, file::metadata::ColumnChunkMetaData};
use std::{ops::Range, sync::Arc};

/// Chunks of row groups for each partition, where there are so many row groups.
const CHUNKS_PER_PARTITION: usize = 4;
/// Rows, none of them wanted, that are skipped rather than decoded and dropped.
const GAP_ROWS_MIN: usize = 1_024;

/// Rows of a batch, at least, however wide they are.
const BATCH_ROWS_MIN: usize = 16;

/// Files whose wanted columns have the same names.
struct Group {
    names: Vec<String>,
    parts: Vec<ParquetPart>,
}

/// The plans that read the parts, with the columns of `schema`, which come from `sources`.
pub(super) fn sources(
    parts: Vec<ParquetPart>,
    sources: &[Source],
    schema: &SchemaRef,
    limit: Option<usize>,
    (partitions, batch_rows): (usize, usize),
    spent: &Spent,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let groups = grouped(parts, sources).into_iter();
    groups.map(|group| source(group, schema, limit, (partitions, batch_rows), spent)).collect()
}

/// Bytes in the files of the columns that are read, by the share of rows that are wanted of each row group.
pub(super) fn bytes(part: &ParquetPart, sources: &[Source]) -> u64 {
    let names: Vec<String> = names(part, sources).into_iter().flatten().collect();
    let of_group = |(group, selection): &(usize, Option<RowSelection>)| {
        let group = part.metadata.row_group(*group);
        let is_read = |column: &&ColumnChunkMetaData| {
            column.column_path().parts().first().is_some_and(|name| names.contains(name))
        };
        let columns = group.columns().iter().filter(is_read);
        let bytes: i64 = columns.map(ColumnChunkMetaData::compressed_size).sum();
        let rows = u128::try_from(group.num_rows()).unwrap_or_default().max(1);
        let wanted = selection.as_ref().map_or(rows, |selection| selection.row_count() as u128);
        u64::try_from(u128::try_from(bytes).unwrap_or_default() * wanted / rows).unwrap_or(u64::MAX)
    };
    part.row_groups.iter().map(of_group).sum()
}

/// Rows of a batch: as many as `rows`, fewer where their columns are wide.
fn batch_rows(parts: &[ParquetPart], names: &[String], rows: usize) -> usize {
    let row_bytes = parts.iter().map(|part| row_bytes(part, names)).max().unwrap_or_default();
    (bytes_of(rows) / row_bytes.max(1)).clamp(BATCH_ROWS_MIN.min(rows), rows)
}

/// Bytes of a row in the columns of these names, on average, in the row group where they are the most.
fn row_bytes(part: &ParquetPart, names: &[String]) -> usize {
    let bytes = part.row_groups.iter().map(|(group, _)| {
        let group = part.metadata.row_group(*group);
        let columns = group.columns().iter().filter(|column| {
            let path = column.column_path().parts();
            path.first().is_some_and(|name| names.contains(name))
        });
        // What a dictionary makes small is large again when it is read.
        let bytes =
            columns.map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)));
        bytes.sum::<i64>() / group.num_rows().max(1)
    });
    usize::try_from(bytes.max().unwrap_or_default()).unwrap_or_default()
}

/// A name that no column of a file has: read as NULL.
fn absent(place: usize) -> String {
    format!("absent:{place}")
}

/// The name of each column in the file; `None` for one that is NULL.
fn names(part: &ParquetPart, sources: &[Source]) -> Vec<Option<String>> {
    sources.iter().map(|source| name(part, *source)).collect()
}

/// The name of a column in the file; `None` for one that is NULL.
pub(super) fn name(part: &ParquetPart, source: Source) -> Option<String> {
    match source {
        Source::Cell(at) => part.columns[at].clone(),
        Source::Key(at) => Some(part.key_columns[at].clone()),
        Source::RowKey => Some(part.row_key.clone()),
    }
}

fn grouped(parts: Vec<ParquetPart>, sources: &[Source]) -> Vec<Group> {
    let named: Vec<Vec<Option<String>>> = parts.iter().map(|part| names(part, sources)).collect();
    // What a column is called where it is there at all.
    let usual = |place: usize| named.iter().find_map(|names| names[place].clone());
    let usual: Vec<Option<String>> = (0..sources.len()).map(usual).collect();
    let mut groups: Vec<Group> = Vec::new();
    for (part, names) in parts.into_iter().zip(&named) {
        let has = |name: &str| {
            part.metadata
                .file_metadata()
                .schema_descr()
                .root_schema()
                .get_fields()
                .iter()
                .any(|field| field.name() == name)
        };
        let names = names.iter().enumerate().map(|(place, name)| match (name, &usual[place]) {
            (Some(name), _) => name.clone(),
            // A file without the column may be read as if it had it: NULL.
            (None, Some(usual)) if !has(usual) => usual.clone(),
            (None, _) => absent(place),
        });
        let names: Vec<String> = names.collect();
        match groups.iter_mut().find(|group| group.names == names) {
            Some(group) => group.parts.push(part),
            None => groups.push(Group { names, parts: vec![part] }),
        }
    }
    groups
}

fn source(
    group: Group,
    schema: &SchemaRef,
    limit: Option<usize>,
    (partitions, batch_rows_max): (usize, usize),
    spent: &Spent,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Group { names, parts } = group;
    let batch_rows = batch_rows(&parts, &names, batch_rows_max);
    let wanted: Vec<Option<BooleanBuffer>> = parts.iter().map(wanted).collect();
    let exact = wanted.iter().all(Option::is_none);
    let dealt = spread(&parts, partitions.max(1), !exact, spent);
    if exact {
        return files(&names, schema, dealt, (limit, batch_rows), &[]);
    }
    // A limit would count rows that are dropped.
    let all = files(&names, schema, dealt, (None, batch_rows), &live_rows::columns())?;
    Ok(Arc::new(LivingExec::new(all, wanted.into())))
}

/// A source of files. Of the columns in `own` the first is the file's number, the others are made by the reader.
fn files(
    names: &[String],
    schema: &SchemaRef,
    files: Vec<FileGroup>,
    (limit, batch_rows): (Option<usize>, usize),
    own: &[Field],
) -> Result<Arc<dyn ExecutionPlan>> {
    let fields = schema.fields().iter().zip(names);
    let fields: Vec<_> = fields.map(|(field, name)| field.as_ref().clone().with_name(name)).collect();
    let own: Vec<FieldRef> = own.iter().cloned().map(Arc::new).collect();
    let (number, made) = own.split_at(own.len().min(1));
    let table = TableSchema::builder(Arc::new(Schema::new(fields)))
        .with_table_partition_cols(number.to_vec())
        .with_virtual_columns(made.to_vec())
        .build();
    let options = TableParquetOptions::default();
    let parquet = ParquetSource::new(table)
        .with_table_parquet_options(options)
        .with_parquet_file_reader_factory(Arc::new(Readers))
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(false);
    let column =
        |(at, (name, shown)): (usize, (&String, &String))| ProjectionExpr::new(Arc::new(Column::new(name, at)), shown);
    let shown = schema.fields().iter().map(|field| field.name());
    let named = names.iter().zip(shown).chain(own.iter().map(|field| (field.name(), field.name())));
    let projection = ProjectionExprs::new(named.enumerate().map(column));
    let renamed = parquet.try_pushdown_projection(&projection)?;
    let parquet = renamed.unwrap_or_else(|| Arc::new(parquet));
    // Files bring their own readers: the place is never asked.
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), parquet)
        .with_file_groups(files)
        .with_limit(limit)
        .with_batch_size(Some(batch_rows))
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Which rows of the file are wanted, where a selection is a bitmap; rows that the source leaves out anyway count as wanted.
fn wanted(part: &ParquetPart) -> Option<BooleanBuffer> {
    let mask = |selection: &Option<RowSelection>| selection.as_ref().and_then(RowSelection::as_mask).cloned();
    if part.row_groups.iter().all(|(_, selection)| mask(selection).is_none()) {
        return None;
    }
    let all = part.metadata.row_groups();
    let rows = |at: usize| usize::try_from(all[at].num_rows()).unwrap_or_default();
    let mut bits = BooleanBufferBuilder::new((0..all.len()).map(rows).sum());
    let mut selections = part.row_groups.iter().peekable();
    for at in 0..all.len() {
        match selections.next_if(|(chosen, _)| *chosen == at).and_then(|(_, selection)| mask(selection)) {
            Some(mask) => bits.append_buffer(&mask),
            None => bits.append_n(rows(at), true),
        }
    }
    Some(bits.finish())
}

/// What is decoded of a row group whose selection is the bitmap: all but long stretches without a wanted row.
fn stretches(mask: &BooleanBuffer) -> RowGroupAccess {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    for (start, end) in mask.set_slices() {
        match stretches.last_mut() {
            Some(last) if start - last.end < GAP_ROWS_MIN => last.end = end,
            _ => stretches.push(start..end),
        }
    }
    match stretches.as_slice() {
        [one] if one.start < GAP_ROWS_MIN && mask.len() - one.end < GAP_ROWS_MIN => RowGroupAccess::Scan,
        _ => {
            let stretches = stretches.into_iter();
            RowGroupAccess::Selection(RowSelection::from_consecutive_ranges(stretches, mask.len()))
        }
    }
}

/// Cuts the parts into chunks and deals them out: neighbours stay together, partitions have about as many rows. Files
/// carry their numbers if they are to be `numbered`.
fn spread(parts: &[ParquetPart], partitions: usize, numbered: bool, spent: &Spent) -> Vec<FileGroup> {
    let row_groups: usize = parts.iter().map(|part| part.row_groups.len()).sum();
    let of_chunk = row_groups.div_ceil(partitions * CHUNKS_PER_PARTITION).max(1);
    let share = parts.iter().map(|part| part.rows).sum::<u64>().div_ceil(partitions as u64).max(1);
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); partitions];
    let mut dealt = 0;
    for (number, part) in parts.iter().enumerate() {
        for chosen in part.row_groups.chunks(of_chunk) {
            let group = usize::try_from(dealt / share).unwrap_or(usize::MAX).min(partitions - 1);
            let (mut chunk, rows) = chunk(part, chosen, spent);
            if numbered {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                chunk = chunk.with_partition_values(vec![ScalarValue::UInt32(Some(number))]);
            }
            groups[group].push(chunk);
            dealt += rows;
        }
    }
    groups.into_iter().filter(|group| !group.is_empty()).map(FileGroup::new).collect()
}

/// Some row groups of a part, and how many rows of them are wanted.
fn chunk(part: &ParquetPart, chosen: &[(usize, Option<RowSelection>)], spent: &Spent) -> (PartitionedFile, u64) {
    let all = part.metadata.row_groups();
    let mut plan = ParquetAccessPlan::new_none(all.len());
    let mut rows = 0;
    for (at, selection) in chosen {
        rows += match selection {
            Some(selection) => selection.row_count() as u64,
            None => u64::try_from(all[*at].num_rows()).unwrap_or_default(),
        };
        let mask = selection.as_ref().and_then(RowSelection::as_mask);
        let exact = || selection.clone().map_or(RowGroupAccess::Scan, RowGroupAccess::Selection);
        plan.set(*at, mask.map_or_else(exact, stretches));
    }
    let (file, metadata) = (Arc::clone(&part.file), Arc::clone(&part.metadata));
    let opened = Opened { file, metadata, spent: spent.clone() };
    let size = part.file.size();
    let file = PartitionedFile::new(part.file.name(), size).with_extension(opened).with_extension(plan);
    (file, rows)
}
