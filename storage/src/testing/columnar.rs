//! Reads the [fast path](ColumnarScan) like a query engine: the selected rows of Parquet row groups, those in memory,
//! and the rest; then compares with a scan of rows.

use super::notation::{family, table};
use crate::{
    ColumnKind, Columnar, ColumnarRequest, ColumnarScan, Columns, KeyRange, Layout, LayoutColumn, Layouts, MemoryPart,
    ParquetPart, Pin, RequestedColumn, Result, Row, RowKey, RowSet, Scan, StoreExt, TableName, scan::FamilyColumns,
};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Int64Type},
};
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection},
};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// The column of the row keys in a segment.
const KEY: &str = "_key";

/// Rows of requested columns, by key: the newest value of each.
pub(super) type Values = BTreeMap<RowKey, Vec<Option<Bytes>>>;

/// The layout of the table of [`arbitrary`](super::arbitrary) operations: some columns are typed, and many of their
/// values are not of the type.
#[derive(Debug)]
pub struct Typed;

impl Layouts for Typed {
    fn layout(&self, name: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<Layout>> {
        let columns = columns().into_iter().filter(|column| column.kind != ColumnKind::Binary);
        let columns = columns.map(|RequestedColumn { family, qualifier, kind, .. }| LayoutColumn {
            family,
            qualifier,
            kind,
            accepts: None,
        });
        (*name == table()).then(|| Arc::new(Layout { columns: columns.collect(), ..Layout::default() }))
    }
}

/// Columns that are clean or not for different reasons, sorted.
fn columns() -> Vec<RequestedColumn> {
    let column = |name: &str, qualifier: &'static str, kind| RequestedColumn {
        family: family(name),
        qualifier: Bytes::from_static(qualifier.as_bytes()),
        kind,
        accepts: None,
        or_bytes: false,
    };
    vec![
        column("a", "p", ColumnKind::Int64),
        column("a", "q", ColumnKind::Utf8),
        column("b", "p", ColumnKind::Binary),
        column("c", "", ColumnKind::Binary),
        column("c", "p", ColumnKind::Binary),
        column("c", "q", ColumnKind::Binary),
        column("d", "", ColumnKind::Binary),
        column("max", "p", ColumnKind::Binary),
        column("sum", "p", ColumnKind::Int64),
    ]
}

/// Requests: rows, and columns of them. The first is that of `count(*)`.
pub(super) fn requests() -> Vec<(RowSet, Vec<RequestedColumn>)> {
    let some = |places: &[usize]| places.iter().map(|&place| columns()[place].clone()).collect();
    let range = |start: &'static [u8], end: &'static [u8]| KeyRange::new(start, Some(Bytes::from_static(end)));
    let ranges = RowSet::new([range(b"a\0", b"abc"), range(b"b", b"k05"), range(b"k20", b"k31")]);
    vec![
        (RowSet::all(), Vec::new()),
        (RowSet::all(), some(&[0])),
        (ranges.clone(), some(&[1, 2])),
        (RowSet::all(), some(&[3, 4, 5])),
        (ranges, some(&[7, 8])),
        (RowSet::all(), columns()),
    ]
}

/// The equivalent scan.
pub(super) fn scan_of((rows, wanted): &(RowSet, Vec<RequestedColumn>), pin: Option<Pin>) -> Scan {
    let mut families: Vec<FamilyColumns> = Vec::new();
    for RequestedColumn { family, qualifier, .. } in wanted {
        match families.last_mut().filter(|last| last.family == *family) {
            Some(last) => last.qualifiers.as_mut().expect("each has some").push(qualifier.clone()),
            None => families.push(FamilyColumns { family: family.clone(), qualifiers: Some(vec![qualifier.clone()]) }),
        }
    }
    let columns = Columns::Of(families);
    Scan { columns, versions_max: Some(1), keep_empty: true, pin, ..Scan::of(rows.clone()) }
}

/// The result of such a scan of rows.
pub(super) fn values_of(rows: Vec<Row>, wanted: &[RequestedColumn]) -> Values {
    let values = rows.into_iter().map(|Row { key, cells }| {
        let value = |column: &RequestedColumn| {
            let cell = cells.iter().find(|cell| cell.family == column.family && cell.qualifier == column.qualifier);
            cell.map(|cell| cell.value.clone())
        };
        let values = wanted.iter().map(value).collect();
        (key, values)
    });
    values.collect()
}

/// The fast path's result for the request, and how many of its rows did not have to be read one by one.
///
/// # Errors
/// Errors of the store.
///
/// # Panics
/// If a row occurs twice, or a part contradicts itself.
pub(super) async fn read(
    columnar: &dyn ColumnarScan,
    (rows, wanted): &(RowSet, Vec<RequestedColumn>),
    pin: Pin,
) -> Result<(Values, u64)> {
    let request = ColumnarRequest {
        rows: rows.clone(),
        span: KeyRange::all(),
        columns: wanted.clone(),
        key: None,
        or_row_key: false,
        pin: Some(pin),
    };
    let Columnar { parts, memory, rest } = columnar.columnar(&table(), request.clone())?;
    let mut found = Values::new();
    let mut clean = 0;
    for part in parts {
        let before = found.len() as u64;
        read_part(&part, wanted, &mut found).await?;
        assert_eq!(
            found.len() as u64 - before,
            part.rows,
            "{} has rows that were there, or counts wrong",
            part.file.name()
        );
        clean += part.rows;
    }
    for part in memory {
        clean += read_memory(&part, &mut found)?;
    }
    let batches: Vec<Vec<Row>> = rest.scan(scan_of(&(rows.clone(), wanted.clone()), None)).try_collect().await?;
    assert!(batches.is_empty() || !rest.is_empty());
    for (key, values) in values_of(batches.concat(), wanted) {
        assert!(found.insert(key.clone(), values).is_none(), "{key:?} is in a part and in the rest");
    }
    let inside = |key: &RowKey| rows.ranges().iter().any(|range| range.contains(key));
    assert!(found.keys().all(inside), "a row that was not asked for");
    Ok((found, clean))
}

/// Reads a piece of memory in steps of a few rows.
fn read_memory(part: &MemoryPart, found: &mut Values) -> Result<u64> {
    let (mut after, mut rows): (Option<RowKey>, u64) = (None, 0);
    loop {
        let mut step = 0;
        let last = after.clone();
        part.read(last.as_deref(), &mut |key, values| {
            let key = RowKey::new(Bytes::copy_from_slice(key)).unwrap();
            assert!(after.as_ref().is_none_or(|after| *after < key), "{key:?} comes behind {after:?}");
            let values = values.iter().map(|value| value.map(Bytes::copy_from_slice)).collect();
            assert!(found.insert(key.clone(), values).is_none(), "{key:?} is in memory and in a part");
            after = Some(key);
            step += 1;
            if step == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        rows += step;
        if step < 3 {
            return Ok(rows);
        }
    }
}

async fn read_part(part: &ParquetPart, wanted: &[RequestedColumn], found: &mut Values) -> Result<()> {
    let bytes = part.file.read(std::slice::from_ref(&(0..part.file.size()))).await?.concat();
    let metadata = ArrowReaderMetadata::try_new(part.metadata.clone(), ArrowReaderOptions::new()).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(Bytes::from(bytes), metadata);
    let names = part.columns.iter().flatten().map(String::as_str).chain([KEY]);
    let mask = ProjectionMask::columns(builder.parquet_schema(), names);
    let groups = part.row_groups.iter().map(|(group, _)| *group).collect();
    let selections = part.row_groups.iter().flat_map(|(group, selection)| {
        let rows = usize::try_from(part.metadata.row_group(*group).num_rows()).unwrap();
        let selection =
            selection.clone().unwrap_or_else(|| RowSelection::from_consecutive_ranges(std::iter::once(0..rows), rows));
        Vec::from(selection)
    });
    let selection: RowSelection = selections.collect::<Vec<_>>().into();
    let reader = builder.with_projection(mask).with_row_groups(groups).with_row_selection(selection).build().unwrap();
    for batch in reader {
        add(&batch.unwrap(), &part.columns, wanted, found);
    }
    Ok(())
}

fn add(batch: &RecordBatch, names: &[Option<String>], wanted: &[RequestedColumn], found: &mut Values) {
    let keys = bytes_of(batch.column_by_name(KEY).unwrap());
    let column = |(name, wanted): (&Option<String>, &RequestedColumn)| match name {
        Some(name) => {
            let array = batch.column_by_name(name).unwrap();
            let kind = match array.data_type() {
                DataType::Int64 => ColumnKind::Int64,
                DataType::Utf8 => ColumnKind::Utf8,
                _ => ColumnKind::Binary,
            };
            assert_eq!(kind, wanted.kind, "{name}");
            bytes_of(array)
        }
        None => vec![None; batch.num_rows()],
    };
    let columns: Vec<Vec<Option<Bytes>>> = names.iter().zip(wanted).map(column).collect();
    for (row, key) in keys.into_iter().enumerate() {
        let key = RowKey::new(key.unwrap()).unwrap();
        let values = columns.iter().map(|column| column[row].clone()).collect();
        assert!(found.insert(key.clone(), values).is_none(), "{key:?} is there twice");
    }
}

/// The values, encoded as in cells.
fn bytes_of(array: &ArrayRef) -> Vec<Option<Bytes>> {
    let own = |value: Option<&[u8]>| value.map(Bytes::copy_from_slice);
    match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().map(own).collect(),
        DataType::Utf8 => array.as_string::<i32>().iter().map(|text| own(text.map(str::as_bytes))).collect(),
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>();
            numbers.iter().map(|number| number.map(|number| Bytes::copy_from_slice(&number.to_be_bytes()))).collect()
        }
        other => panic!("no column is of {other}"),
    }
}

/// The oracle's result for the request.
///
/// # Errors
/// Errors of the store.
pub(super) async fn expected(
    oracle: &dyn crate::Store,
    request: &(RowSet, Vec<RequestedColumn>),
    pin: Option<Pin>,
) -> Result<Values> {
    Ok(values_of(oracle.read_rows(&table(), scan_of(request, pin)).await?, &request.1))
}
