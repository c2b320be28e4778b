//! Row groups as DataFusion's source of Parquet files.
//!
//! Files that have the same names for the columns are read by one `DataSourceExec`; these are nearly always all files.
//! Its table has the file's names and SQL's types, its projection SQL's names. The row groups of a file are divided
//! into chunks, each a file to DataFusion with its own access plan; a partition that ends early takes chunks from
//! others.
//!
//! A selection that is a bitmap has many short runs. Its rows are decoded, except for long gaps, and dead rows are
//! dropped afterwards ([`live_rows`]).
//!
//! Border row groups, in which other tenants have rows too, have sources of their own: without statistics, with no row
//! decoded beyond the first and the last one that is selected, and counted by their rows
//! ([`border_rows`](super::border_rows)). Whatever is estimated of them before they are read depends on the number of
//! rows that are selected, and on the types of columns; except for the rows of a batch, which depend on the length of
//! texts in the row group as well.
//!
//! Filters are tested against statistics of row groups and pages, not against rows while these are decoded. That took
//! twice as long as a filter above when one row in two passed, and was not faster when one in a hundred passed
//! (`keyspan bench scan`).

use super::{
    super::batches::batch_bytes_max,
    FileColumn,
    border_rows::BorderRowsExec,
    live_rows::{self, LiveRowsExec},
    reader::{Budget, OpenFile, ReaderFactory, Reads},
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
use parquet::{arrow::arrow_reader::RowSelection, basic::Type as PhysicalType, file::metadata::ColumnChunkMetaData};
use std::{ops::Range, sync::Arc};

/// Chunks of row groups for each partition, if there are enough row groups.
const CHUNKS_PER_PARTITION: usize = 4;
/// A gap of at least this many dead rows is skipped; a shorter one is decoded and dropped.
const GAP_ROWS_MIN: usize = 1_024;

/// The fewest rows of a full batch, however wide they are.
const BATCH_ROWS_MIN: usize = 16;

/// Files that have the same names for the columns: their border row groups, or the others.
struct Group {
    names: Vec<String>,
    is_border: bool,
    parts: Vec<ParquetPart>,
}

/// The plans that read the parts, one for each group of files: `columns` of the files, under the names of `schema`.
pub(super) fn sources(
    parts: Vec<ParquetPart>,
    columns: &[FileColumn],
    schema: &SchemaRef,
    limit: Option<usize>,
    (partitions, batch_rows): (usize, usize),
    budget: &Budget,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let groups = group_by_names(parts, columns).into_iter();
    groups.map(|group| source(group, schema, limit, (partitions, batch_rows), budget)).collect()
}

/// Compressed bytes of the columns in a part, in proportion to the rows selected in each row group. Of border row
/// groups the bytes of values of fixed width, which is the least that [`border_rows`](super::border_rows) counts.
pub(super) fn column_bytes(part: &ParquetPart, columns: &[FileColumn]) -> u64 {
    let names: Vec<String> = names(part, columns).into_iter().flatten().collect();
    if part.is_border {
        let Some((group, _)) = part.row_groups.first() else { return 0 };
        let chunks = part.metadata.row_group(*group).columns().iter();
        let widths = chunks.filter(|chunk| is_of(chunk, &names)).filter_map(fixed_width);
        return part.rows * widths.map(|width| width as u64).sum::<u64>();
    }
    let of_group = |(group, selection): &(usize, Option<RowSelection>)| {
        let group = part.metadata.row_group(*group);
        let columns = group.columns().iter().filter(|chunk| is_of(chunk, &names));
        let bytes: i64 = columns.map(ColumnChunkMetaData::compressed_size).sum();
        let rows = u128::try_from(group.num_rows()).unwrap_or_default().max(1);
        let selected = selection.as_ref().map_or(rows, |selection| selection.row_count() as u128);
        u64::try_from(u128::try_from(bytes).unwrap_or_default() * selected / rows).unwrap_or(u64::MAX)
    };
    part.row_groups.iter().map(of_group).sum()
}

/// Whether the chunk is of a column with one of these names.
fn is_of(chunk: &ColumnChunkMetaData, names: &[String]) -> bool {
    chunk.column_path().parts().first().is_some_and(|name| names.contains(name))
}

/// Bytes of each value of a chunk, as far as its type in the file tells.
fn fixed_width(chunk: &ColumnChunkMetaData) -> Option<usize> {
    match chunk.column_type() {
        PhysicalType::BOOLEAN => Some(1),
        // Narrower integers have this type too.
        PhysicalType::INT32 => Some(2),
        PhysicalType::FLOAT => Some(4),
        PhysicalType::INT64 | PhysicalType::DOUBLE => Some(8),
        PhysicalType::FIXED_LEN_BYTE_ARRAY => usize::try_from(chunk.column_descr().type_length()).ok(),
        PhysicalType::INT96 | PhysicalType::BYTE_ARRAY => None,
    }
}

/// Rows of a batch: `rows`, or fewer if they are wide.
fn batch_rows(parts: &[ParquetPart], names: &[String], rows: usize) -> usize {
    let row_bytes = parts.iter().map(|part| row_bytes(part, names)).max().unwrap_or_default();
    (batch_bytes_max(rows) / row_bytes.max(1)).clamp(BATCH_ROWS_MIN.min(rows), rows)
}

/// Average bytes of a row in the columns of these names, in the row group with the widest rows.
fn row_bytes(part: &ParquetPart, names: &[String]) -> usize {
    let bytes = part.row_groups.iter().map(|(group, _)| {
        let group = part.metadata.row_group(*group);
        let rows = usize::try_from(group.num_rows()).unwrap_or_default().max(1);
        // The length of texts, which an encoding or a dictionary may make smaller in the file.
        let of_texts = |chunk: &ColumnChunkMetaData| {
            let bytes = chunk.unencoded_byte_array_data_bytes().unwrap_or_else(|| chunk.uncompressed_size());
            usize::try_from(bytes).unwrap_or_default() / rows
        };
        let chunks = group.columns().iter().filter(|chunk| is_of(chunk, names));
        chunks.map(|chunk| fixed_width(chunk).unwrap_or_else(|| of_texts(chunk))).sum()
    });
    bytes.max().unwrap_or_default()
}

/// A name that no column of a file has, which reads as NULL.
fn absent(index: usize) -> String {
    format!("absent:{index}")
}

/// The name of each column in the file; `None` if the file does not have it.
fn names(part: &ParquetPart, columns: &[FileColumn]) -> Vec<Option<String>> {
    columns.iter().map(|column| name(part, *column)).collect()
}

/// The name of a column in the file; `None` if the file does not have it.
pub(super) fn name(part: &ParquetPart, column: FileColumn) -> Option<String> {
    match column {
        FileColumn::Cell(at) => part.columns[at].clone(),
        FileColumn::Key(at) => Some(part.key_columns[at].clone()),
        FileColumn::RowKey => Some(part.row_key.clone()),
    }
}

fn group_by_names(parts: Vec<ParquetPart>, columns: &[FileColumn]) -> Vec<Group> {
    let named: Vec<Vec<Option<String>>> = parts.iter().map(|part| names(part, columns)).collect();
    // The name of a column in the first file that has it.
    let usual = |index: usize| named.iter().find_map(|names| names[index].clone());
    let usual: Vec<Option<String>> = (0..columns.len()).map(usual).collect();
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
        let names = names.iter().enumerate().map(|(index, name)| match (name, &usual[index]) {
            (Some(name), _) => name.clone(),
            // In a file without the column this name reads as NULL, so that the file needs no group of its own.
            (None, Some(usual)) if !has(usual) => usual.clone(),
            (None, _) => absent(index),
        });
        let names: Vec<String> = names.collect();
        match groups.iter_mut().find(|group| group.names == names && group.is_border == part.is_border) {
            Some(group) => group.parts.push(part),
            None => groups.push(Group { names, is_border: part.is_border, parts: vec![part] }),
        }
    }
    groups
}

fn source(
    group: Group,
    schema: &SchemaRef,
    limit: Option<usize>,
    (partitions, batch_rows_max): (usize, usize),
    budget: &Budget,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Group { names, is_border, parts } = group;
    let batch_rows = batch_rows(&parts, &names, batch_rows_max);
    let live: Vec<Option<BooleanBuffer>> = parts.iter().map(live_rows_of).collect();
    let exact = live.iter().all(Option::is_none);
    let reads = if is_border { Reads::CountedAbove } else { Reads::Counted(budget.clone()) };
    let chunks = distribute(&parts, partitions.max(1), !exact, &reads);
    let rows = if exact {
        files(&names, schema, chunks, (limit, batch_rows), &[])?
    } else {
        // A limit below would count dead rows.
        let all = files(&names, schema, chunks, (None, batch_rows), &live_rows::position_columns())?;
        Arc::new(LiveRowsExec::new(all, live.into()))
    };
    Ok(if is_border { Arc::new(BorderRowsExec::new(rows, budget.clone())) } else { rows })
}

/// A source of files, with additional columns: the first of `own` is the index of the file, the others are made by the
/// reader.
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
    let (file_index, virtual_columns) = own.split_at(own.len().min(1));
    let table = TableSchema::builder(Arc::new(Schema::new(fields)))
        .with_table_partition_cols(file_index.to_vec())
        .with_virtual_columns(virtual_columns.to_vec())
        .build();
    let options = TableParquetOptions::default();
    let parquet = ParquetSource::new(table)
        .with_table_parquet_options(options)
        .with_parquet_file_reader_factory(Arc::new(ReaderFactory))
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(false);
    let column =
        |(at, (name, alias)): (usize, (&String, &String))| ProjectionExpr::new(Arc::new(Column::new(name, at)), alias);
    let aliases = schema.fields().iter().map(|field| field.name());
    let named = names.iter().zip(aliases).chain(own.iter().map(|field| (field.name(), field.name())));
    let projection = ProjectionExprs::new(named.enumerate().map(column));
    let renamed = parquet.try_pushdown_projection(&projection)?;
    let parquet = renamed.unwrap_or_else(|| Arc::new(parquet));
    // Files carry their own readers: the URL is not used.
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), parquet)
        .with_file_groups(files)
        .with_limit(limit)
        .with_batch_size(Some(batch_rows))
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// The live rows of a file, if some selection is a bitmap. Rows that the source skips count as live.
fn live_rows_of(part: &ParquetPart) -> Option<BooleanBuffer> {
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

/// The access to a row group whose selection is a bitmap: all rows except for long gaps. Of a border row group, no row
/// before the first and behind the last one that is selected: it may be another tenant's. Between them are the tenant's
/// own, since its keys are one range.
fn access_without_gaps(mask: &BooleanBuffer, is_border: bool) -> RowGroupAccess {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    for (start, end) in mask.set_slices() {
        match stretches.last_mut() {
            Some(last) if start - last.end < GAP_ROWS_MIN => last.end = end,
            _ => stretches.push(start..end),
        }
    }
    match stretches.as_slice() {
        [one] if !is_border && one.start < GAP_ROWS_MIN && mask.len() - one.end < GAP_ROWS_MIN => RowGroupAccess::Scan,
        _ => {
            let stretches = stretches.into_iter();
            RowGroupAccess::Selection(RowSelection::from_consecutive_ranges(stretches, mask.len()))
        }
    }
}

/// Divides the parts into chunks and distributes these over partitions: neighbours stay together, and partitions have
/// about the same number of rows. `numbered` files carry their index.
fn distribute(parts: &[ParquetPart], partitions: usize, numbered: bool, reads: &Reads) -> Vec<FileGroup> {
    let row_groups: usize = parts.iter().map(|part| part.row_groups.len()).sum();
    let chunk_row_groups = row_groups.div_ceil(partitions * CHUNKS_PER_PARTITION).max(1);
    let share = parts.iter().map(|part| part.rows).sum::<u64>().div_ceil(partitions as u64).max(1);
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); partitions];
    let mut rows_before = 0;
    for (number, part) in parts.iter().enumerate() {
        for chosen in part.row_groups.chunks(chunk_row_groups) {
            let group = usize::try_from(rows_before / share).unwrap_or(usize::MAX).min(partitions - 1);
            let (mut chunk, rows) = chunk(part, chosen, reads);
            if numbered {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                chunk = chunk.with_partition_values(vec![ScalarValue::UInt32(Some(number))]);
            }
            groups[group].push(chunk);
            rows_before += rows;
        }
    }
    groups.into_iter().filter(|group| !group.is_empty()).map(FileGroup::new).collect()
}

/// Some row groups of a part as a file, and the number of rows that are selected in them.
fn chunk(part: &ParquetPart, chosen: &[(usize, Option<RowSelection>)], reads: &Reads) -> (PartitionedFile, u64) {
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
        plan.set(*at, mask.map_or_else(exact, |mask| access_without_gaps(mask, part.is_border)));
    }
    let (file, metadata) = (Arc::clone(&part.file), Arc::clone(&part.metadata));
    let opened = OpenFile { file, metadata, reads: reads.clone() };
    let size = part.file.size();
    let file = PartitionedFile::new(part.file.name(), size).with_extension(opened).with_extension(plan);
    (file, rows)
}
