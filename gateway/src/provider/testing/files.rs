//! A store with row groups: for each request it makes real Parquet files in memory, of the rows of the memory store.
//!
//! It is as adverse as the contract allows. Rows of all tenants share row groups; between live rows are dead copies
//! with other rows' values; every tenth row is in the rest, another tenth in memory, in two parts; selections alternate
//! between lists and bitmaps; files differ in the names of columns, and lack columns without values; one
//! has some columns as bytes.

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
        Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    },
    datatypes::{Field, Schema},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, TryStreamExt, executor::block_on, future::BoxFuture};
use keyspan_catalog::{Encoding, SqlType, Value, mapping};
use keyspan_storage::{
    CheckAndMutate, ColumnKind, Columnar, ColumnarRequest, ColumnarScan, Commit, FamilyChange, KeyDecoder, KeyRange,
    Layout, Layouts, MemoryPart, MemoryRows, ParquetPart, PartFile, Pin, ReadModifyWrite, RequestedColumn, Rest,
    Result, Row, RowKey, RowMutation, RowSample, RowSet, RowStream, Scan, Store, TableName, TableSchema, TakeRow,
    memory::MemoryStore, store::Promises,
};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_reader::{RowSelection, RowSelector},
    },
    file::{
        metadata::{PageIndexPolicy, ParquetMetaDataReader},
        properties::WriterProperties,
    },
};
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

/// Rows of a row group, with the dead ones.
const ROW_GROUP_ROWS: usize = 1_000;
/// Rows of a page.
const PAGE_ROWS: usize = 100;
/// Files of a table.
const FILES: usize = 3;
/// One row in this many is in the rest.
const REST_EVERY: usize = 10;
/// One row in this many is in memory.
const MEMORY_EVERY: usize = 10;
/// A dead row stands before one row in this many.
const DEAD_EVERY: usize = 7;

/// The store.
#[derive(Debug)]
pub(crate) struct FileStore {
    rows: Arc<MemoryStore>,
    layouts: Mutex<Option<Arc<dyn Layouts>>>,
}

impl FileStore {
    pub(crate) fn new(rows: MemoryStore) -> Self {
        Self { rows: Arc::new(rows), layouts: Mutex::default() }
    }
}

#[async_trait]
impl Store for FileStore {
    async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        self.rows.create_table(table, schema).await
    }
    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.rows.drop_table(table).await
    }
    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        self.rows.tables().await
    }
    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        self.rows.modify_families(table, changes).await
    }
    async fn pin(&self) -> Result<Pin> {
        self.rows.pin().await
    }
    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        self.rows.scan(table, scan)
    }
    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.rows.sample_row_keys(table).await
    }
    async fn commit(&self, commit: Commit) -> Result<i64> {
        self.rows.commit(commit).await
    }
    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        self.rows.mutate_rows(table, rows).await
    }
    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        self.rows.check_and_mutate(table, request).await
    }
    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        self.rows.read_modify_write(table, key, rules).await
    }
    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        self.rows.drop_row_range(table, prefix).await
    }
    fn promises(&self) -> Promises {
        self.rows.promises()
    }
    async fn close(&self) -> Result<()> {
        self.rows.close().await
    }
    fn set_layouts(&self, layouts: Arc<dyn Layouts>) {
        *self.layouts.lock().unwrap() = Some(layouts);
    }
    fn columnar(&self) -> Option<&dyn ColumnarScan> {
        Some(self)
    }
}

impl ColumnarScan for FileStore {
    fn columnar(&self, table: &TableName, request: ColumnarRequest) -> Result<Columnar> {
        let layouts = self.layouts.lock().unwrap().clone().unwrap();
        let pin = request.pin.clone();
        let all = self.rows.scan(table, Scan { pin: pin.clone(), ..Scan::all() });
        let all: Vec<Row> = block_on(all.try_concat())?;
        let sample: Vec<&[u8]> = all.iter().map(|row| &row.key[..]).collect();
        let layout = layouts.layout(table, &sample, None).unwrap_or_default();
        let (mut files, mut memory, mut rest): ([Vec<Row>; FILES], Vec<Row>, Vec<KeyRange>) = Default::default();
        let of_file = all.len().div_ceil(FILES).max(1);
        let keys = BinaryArray::from_iter_values(all.iter().map(|row| &row.key[..]));
        let conform = layout.key.as_ref().is_some_and(|key| key.decode(&keys).is_some());
        for (at, row) in all.into_iter().enumerate() {
            if at % MEMORY_EVERY == 6 {
                // Unchecked: rows in memory need not be clean.
                memory.push(row);
            } else if at % REST_EVERY == 3 || !is_clean(&row, &layout, &request, conform) {
                rest.push(KeyRange::point(&row.key));
            } else {
                files[at / of_file].push(row);
            }
        }
        let decoder = layout.key.as_ref().filter(|key| request.key.as_ref() == Some(&key.id()));
        assert_eq!(decoder.is_some(), request.key.is_some(), "the reader has another decoder");
        let parts = files.iter().enumerate();
        let parts = parts.flat_map(|(file, rows)| parts_of(file, rows, &request, decoder.map(AsRef::as_ref))).collect();
        let (store, table, rest) = (Arc::clone(&self.rows), table.clone(), RowSet::new(rest));
        let within = rest.intersect(&request.rows);
        let asked = request.rows.clone();
        let read = move |scan: Scan| {
            assert_eq!(scan.rows.intersect(&asked), scan.rows, "the rest is asked for rows of the request");
            let rows = scan.rows.intersect(&rest);
            store.scan(&table, Scan { rows, pin: pin.clone(), ..scan })
        };
        let rest = if within.is_empty() { Rest::none() } else { Rest::new(within.ranges().len() as u64, read) };
        memory.retain(|row| request.rows.ranges().iter().any(|range| range.contains(&row.key)));
        let behind = memory.split_off(memory.len() / 3);
        let pieces = [memory, behind].into_iter().filter(|rows| !rows.is_empty());
        let piece = |rows: Vec<Row>| {
            MemoryPart::new(rows.len() as u64, Arc::new(Slots { rows, columns: request.columns.clone() }))
        };
        Ok(Columnar { parts, memory: pieces.map(piece).collect(), rest })
    }
}

/// Rows in memory.
#[derive(Debug)]
struct Slots {
    rows: Vec<Row>,
    columns: Vec<RequestedColumn>,
}

impl MemoryRows for Slots {
    fn read(&self, after: Option<&[u8]>, take: &mut TakeRow<'_>) -> Result<()> {
        for row in self.rows.iter().filter(|row| after.is_none_or(|after| &row.key[..] > after)) {
            let values: Vec<_> =
                self.columns.iter().map(|column| newest(row, column).map(|value| &value[..])).collect();
            if take(&row.key, &values).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The value of a column's newest cell.
fn newest<'a>(row: &'a Row, column: &RequestedColumn) -> Option<&'a Bytes> {
    let cell = |cell: &&keyspan_storage::Cell| cell.family == column.family && cell.qualifier == column.qualifier;
    row.cells.iter().find(cell).map(|cell| &cell.value)
}

/// The unscaled integer of a cell, if the kind has it.
fn decimal(value: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let kind = SqlType::Numeric { precision, scale };
    let decoded = mapping::decode(&Bytes::copy_from_slice(value), kind, Encoding::Binary).ok()?;
    let written = mapping::encode(&decoded, kind, Encoding::Binary).ok()?;
    match decoded {
        Value::Numeric { unscaled, .. } if written == value => Some(unscaled),
        _ => None,
    }
}

fn fits(kind: ColumnKind, value: &[u8]) -> bool {
    match kind {
        ColumnKind::Binary => true,
        ColumnKind::Utf8 => std::str::from_utf8(value).is_ok(),
        ColumnKind::Bool => matches!(value, [0 | 1]),
        ColumnKind::Int16 => value.len() == 2,
        ColumnKind::Int32 | ColumnKind::Float32 | ColumnKind::Date32 => value.len() == 4,
        ColumnKind::Int64 | ColumnKind::Float64 | ColumnKind::Timestamp | ColumnKind::TimestampUtc => value.len() == 8,
        ColumnKind::Uuid => value.len() == 16,
        ColumnKind::Decimal { precision, scale } => decimal(value, precision, scale).is_some(),
    }
}

/// Whether a row may be in a file. If `conform`, all keys of the table conform.
fn is_clean(row: &Row, layout: &Layout, request: &ColumnarRequest, conform: bool) -> bool {
    let cells = request.columns.iter().all(|column| {
        let mut laid_out = layout.columns.iter();
        let laid_out = laid_out.find(|other| other.family == column.family && other.qualifier == column.qualifier);
        let laid_out = laid_out
            .filter(|other| other.kind == column.kind && other.accepts.map(|accepts| accepts.name) == column.accepts)
            .expect("a column that is laid out as it is read");
        let accepts = |value: &[u8]| laid_out.accepts.is_none_or(|accepts| (accepts.holds)(value));
        newest(row, column).is_none_or(|value| fits(column.kind, value) && accepts(value))
    });
    let keys = || BinaryArray::from_iter_values([&row.key[..]]);
    let decodes = || layout.key.as_ref().is_some_and(|key| key.decode(&keys()).is_some());
    cells && (conform || request.key.is_none() || decodes())
}

/// A row of a file, which is live or dead.
struct Position<'a> {
    row: &'a Row,
    is_live: bool,
}

fn parts_of(
    number: usize,
    rows: &[Row],
    request: &ColumnarRequest,
    decoder: Option<&dyn KeyDecoder>,
) -> Vec<ParquetPart> {
    let mut positions = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        if at % DEAD_EVERY == 0 {
            // It has another row's values, like an overwritten row.
            positions.push(Position { row: &rows[(at * 31 + 7) % rows.len()], is_live: false });
        }
        positions.push(Position { row, is_live: true });
    }
    let prefix = if number == FILES - 1 { "8" } else { "1" };
    let has = |column: &RequestedColumn| positions.iter().any(|position| newest(position.row, column).is_some());
    let name = |column: &RequestedColumn| {
        has(column).then(|| format!("{prefix}:{}:{}", column.family, column.qualifier.escape_ascii()))
    };
    let columns: Vec<Option<String>> = request.columns.iter().map(name).collect();
    let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = Default::default();
    let keys = BinaryArray::from_iter_values(positions.iter().map(|position| &position.row.key[..]));
    let mut key_columns = Vec::new();
    if let Some(decoder) = decoder {
        for (field, array) in decoder.fields().into_iter().zip(decoder.decode(&keys).unwrap()) {
            key_columns.push(format!("key:{}", field.name()));
            fields.push(field.with_name(key_columns.last().unwrap()));
            arrays.push(array);
        }
    }
    fields.push(Field::new("_key", arrow::datatypes::DataType::Binary, false));
    arrays.push(Arc::new(keys));
    // One file has some columns as bytes.
    let of_columns = request.columns.iter().enumerate();
    let bytes =
        of_columns.map(|(at, column)| column.or_bytes && number == 1 && at.is_multiple_of(2)).collect::<Vec<_>>();
    for ((column, name), bytes) in request.columns.iter().zip(&columns).zip(&bytes) {
        let Some(name) = name else { continue };
        let values: Vec<Option<&[u8]>> =
            positions.iter().map(|position| newest(position.row, column).map(|value| &value[..])).collect();
        let array = array(if *bytes { ColumnKind::Binary } else { column.kind }, &values);
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let contents = file_of(&RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap());
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    reader.try_parse(&contents).unwrap();
    let metadata = Arc::new(reader.finish().unwrap());
    let (row_groups, count) = selections(&positions, request);
    if count == 0 {
        return Vec::new();
    }
    let file: Arc<dyn PartFile> = Arc::new(InMemory { number, bytes: contents });
    let (row_key, span) = ("_key".to_owned(), Bytes::new());
    let (is_border, rows) = (false, count);
    let part = ParquetPart { file, metadata, is_border, row_groups, rows, columns, bytes, key_columns, row_key, span };
    let groups: Vec<&[Position<'_>]> = positions.chunks(ROW_GROUP_ROWS).collect();
    part.divided(|at| groups[at].iter().all(|position| request.span.contains(&position.row.key)))
}

/// The bytes of a Parquet file with small row groups and pages.
fn file_of(batch: &RecordBatch) -> Bytes {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    Bytes::from(bytes)
}

/// The row groups that have live rows of the request, with the selection of these, and how many rows they are.
fn selections(positions: &[Position<'_>], request: &ColumnarRequest) -> (Vec<(usize, Option<RowSelection>)>, u64) {
    let selected = |position: &Position<'_>| {
        position.is_live && request.rows.ranges().iter().any(|range| range.contains(&position.row.key))
    };
    let (mut row_groups, mut count) = (Vec::new(), 0);
    for (at, positions) in positions.chunks(ROW_GROUP_ROWS).enumerate() {
        let selectors = positions.iter().map(|position| match selected(position) {
            true => RowSelector::select(1),
            false => RowSelector::skip(1),
        });
        let selection: RowSelection = match at % 2 {
            0 => selectors.collect(),
            _ => RowSelection::from_boolean_buffer(positions.iter().map(selected).collect()),
        };
        count += selection.row_count() as u64;
        if selection.row_count() == positions.len() {
            row_groups.push((at, None));
        } else if selection.row_count() > 0 {
            row_groups.push((at, Some(selection)));
        }
    }
    (row_groups, count)
}

fn array(kind: ColumnKind, values: &[Option<&[u8]>]) -> ArrayRef {
    fn wide<const N: usize, T>(values: &[Option<&[u8]>], read: fn([u8; N]) -> T) -> Vec<Option<T>> {
        // A dead row may have a value that does not fit, which is not read.
        values.iter().map(|value| value.and_then(|value| value.try_into().ok()).map(read)).collect()
    }
    match kind {
        ColumnKind::Binary => Arc::new(BinaryArray::from_iter(values)),
        ColumnKind::Utf8 => {
            let text = |value: &Option<&[u8]>| value.and_then(|value| String::from_utf8(value.to_vec()).ok());
            Arc::new(StringArray::from_iter(values.iter().map(text)))
        }
        ColumnKind::Bool => Arc::new(BooleanArray::from(wide(values, |[byte]| byte == 1))),
        ColumnKind::Int16 => Arc::new(Int16Array::from(wide(values, i16::from_be_bytes))),
        ColumnKind::Int32 => Arc::new(Int32Array::from(wide(values, i32::from_be_bytes))),
        ColumnKind::Int64 => Arc::new(Int64Array::from(wide(values, i64::from_be_bytes))),
        ColumnKind::Float32 => Arc::new(Float32Array::from(wide(values, f32::from_be_bytes))),
        ColumnKind::Float64 => Arc::new(Float64Array::from(wide(values, f64::from_be_bytes))),
        ColumnKind::Date32 => Arc::new(Date32Array::from(wide(values, i32::from_be_bytes))),
        ColumnKind::Timestamp => Arc::new(TimestampMicrosecondArray::from(wide(values, i64::from_be_bytes))),
        ColumnKind::TimestampUtc => {
            let times = TimestampMicrosecondArray::from(wide(values, i64::from_be_bytes));
            Arc::new(times.with_timezone("+00:00"))
        }
        ColumnKind::Uuid => {
            let bytes = wide::<16, _>(values, |bytes| bytes);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16).unwrap())
        }
        ColumnKind::Decimal { precision, scale } => {
            let values = values.iter().map(|value| value.and_then(|value| decimal(value, precision, scale)));
            let values = Decimal128Array::from_iter(values);
            Arc::new(values.with_precision_and_scale(precision, i8::try_from(scale).unwrap()).unwrap())
        }
    }
}

#[derive(Debug)]
struct InMemory {
    number: usize,
    bytes: Bytes,
}

impl PartFile for InMemory {
    fn name(&self) -> String {
        format!("{}.parquet", self.number)
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read(&self, ranges: &[Range<u64>]) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let slice = |range: &Range<u64>| self.bytes.slice(range.start as usize..range.end as usize);
        let bytes = ranges.iter().map(slice).collect();
        futures::future::ready(Ok(bytes)).boxed()
    }
}
