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
//! Filters are tested against statistics of row groups and pages, not against rows while these are decoded. That took
//! twice as long as a filter above when one row in two passed, and was not faster when one in a hundred passed
//! (`keyspan bench scan`).

use super::{
    super::exec::batch_bytes_max,
    FileColumn,
    live_rows::{self, LiveRowsExec},
    reader::{Budget, OpenFile, ReaderFactory},
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

/// Chunks of row groups for each partition, if there are enough row groups.
const CHUNKS_PER_PARTITION: usize = 4;
/// A gap of at least this many dead rows is skipped; a shorter one is decoded and dropped.
const GAP_ROWS_MIN: usize = 1_024;

/// The fewest rows of a full batch, however wide they are.
const BATCH_ROWS_MIN: usize = 16;

/// Files that have the same names for the columns.
struct Group {
    names: Vec<String>,
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

/// Compressed bytes of the columns in a part, in proportion to the rows selected in each row group.
pub(super) fn column_bytes(part: &ParquetPart, columns: &[FileColumn]) -> u64 {
    let names: Vec<String> = names(part, columns).into_iter().flatten().collect();
    let of_group = |(group, selection): &(usize, Option<RowSelection>)| {
        let group = part.metadata.row_group(*group);
        let is_read = |column: &&ColumnChunkMetaData| {
            column.column_path().parts().first().is_some_and(|name| names.contains(name))
        };
        let columns = group.columns().iter().filter(is_read);
        let bytes: i64 = columns.map(ColumnChunkMetaData::compressed_size).sum();
        let rows = u128::try_from(group.num_rows()).unwrap_or_default().max(1);
        let selected = selection.as_ref().map_or(rows, |selection| selection.row_count() as u128);
        u64::try_from(u128::try_from(bytes).unwrap_or_default() * selected / rows).unwrap_or(u64::MAX)
    };
    part.row_groups.iter().map(of_group).sum()
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
        let columns = group.columns().iter().filter(|column| {
            let path = column.column_path().parts();
            path.first().is_some_and(|name| names.contains(name))
        });
        // A dictionary makes a column small in the file only.
        let bytes =
            columns.map(|column| column.uncompressed_size().max(column.unencoded_byte_array_data_bytes().unwrap_or(0)));
        bytes.sum::<i64>() / group.num_rows().max(1)
    });
    usize::try_from(bytes.max().unwrap_or_default()).unwrap_or_default()
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
    budget: &Budget,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Group { names, parts } = group;
    let batch_rows = batch_rows(&parts, &names, batch_rows_max);
    let live: Vec<Option<BooleanBuffer>> = parts.iter().map(live_rows_of).collect();
    let exact = live.iter().all(Option::is_none);
    let chunks = distribute(&parts, partitions.max(1), !exact, budget);
    if exact {
        return files(&names, schema, chunks, (limit, batch_rows), &[]);
    }
    // A limit below would count dead rows.
    let all = files(&names, schema, chunks, (None, batch_rows), &live_rows::position_columns())?;
    Ok(Arc::new(LiveRowsExec::new(all, live.into())))
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

/// The access to a row group whose selection is a bitmap: all rows except for long gaps.
fn access_without_gaps(mask: &BooleanBuffer) -> RowGroupAccess {
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

/// Divides the parts into chunks and distributes these over partitions: neighbours stay together, and partitions have
/// about the same number of rows. `numbered` files carry their index.
fn distribute(parts: &[ParquetPart], partitions: usize, numbered: bool, budget: &Budget) -> Vec<FileGroup> {
    let row_groups: usize = parts.iter().map(|part| part.row_groups.len()).sum();
    let chunk_row_groups = row_groups.div_ceil(partitions * CHUNKS_PER_PARTITION).max(1);
    let share = parts.iter().map(|part| part.rows).sum::<u64>().div_ceil(partitions as u64).max(1);
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); partitions];
    let mut rows_before = 0;
    for (number, part) in parts.iter().enumerate() {
        for chosen in part.row_groups.chunks(chunk_row_groups) {
            let group = usize::try_from(rows_before / share).unwrap_or(usize::MAX).min(partitions - 1);
            let (mut chunk, rows) = chunk(part, chosen, budget);
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
fn chunk(part: &ParquetPart, chosen: &[(usize, Option<RowSelection>)], budget: &Budget) -> (PartitionedFile, u64) {
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
        plan.set(*at, mask.map_or_else(exact, access_without_gaps));
    }
    let (file, metadata) = (Arc::clone(&part.file), Arc::clone(&part.metadata));
    let opened = OpenFile { file, metadata, budget: budget.clone() };
    let size = part.file.size();
    let file = PartitionedFile::new(part.file.name(), size).with_extension(opened).with_extension(plan);
    (file, rows)
}
