//! Makes values of columns of bytes.
//!
//! Cells whose bytes are not a typed value of Parquet, and the row keys of private tables, are read as bytes, under a
//! name that no column of SQL has, so that no filter on values is applied to the bytes. [`DecodeExec`] makes the
//! columns of SQL of each batch, column by column. Typed columns pass through, and filters on them are pushed below, to
//! be tested against statistics.
//!
//! Of a map whose cells are in few rows, rows without the member that a filter above [needs](super::needed) are left
//! out before maps are made.
//!
//! Bytes that do not decode are rare, and their error message names the row, which is not known here: then the [scan by
//! rows](ScanExec) runs, which fails at the same row.

use super::{
    super::{
        decode::{self, ColumnBuilder, RowLayout, bad_value},
        exec::ScanExec,
        node,
    },
    FileColumn, Origin, needed,
};
use crate::pg::error::{Result as SqlResult, SqlError, SqlState};
use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, PrimitiveArray, RecordBatch,
        UInt32Array,
    },
    buffer::BooleanBuffer,
    compute::{filter_record_batch, take},
    datatypes::{
        DataType, Date32Type, Field, Int16Type, Int32Type, Int64Type, Schema, SchemaRef, Time64MicrosecondType,
        TimeUnit, TimestampMicrosecondType,
    },
};
use bytes::Bytes;
use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::CardinalityEffect,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;
use keyspan_catalog::{
    Encoding, SortedKeys, SqlType, ValueRef,
    open_map::{self, MapWriter},
    table::OnBadValue,
};
use std::{collections::BTreeSet, fmt, sync::Arc};

/// The prefix of the names of columns of bytes.
const BYTES: &str = "bytes:";

/// The columns that are read of files.
pub(super) struct FileColumns {
    pub(super) sources: Vec<FileColumn>,
    /// Their names and types.
    pub(super) schema: SchemaRef,
    /// How SQL's columns are made of them; `None` if they are the same.
    pub(super) decode: Option<Arc<[Decode]>>,
}

/// How one column of SQL is made of a batch. Columns of the batch by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decode {
    /// A typed column, as it is.
    Typed(usize),
    /// Decodes the bytes of a cell: `cell` is its index in the layout.
    Cell { column: usize, cell: usize },
    /// Decodes one part of the row key.
    Part { column: usize, part: usize },
    /// Makes a map of cells: `map` is its index in the layout; the columns are those of its single qualifiers, in
    /// order.
    Map { columns: Vec<usize>, map: usize },
}

impl FileColumns {
    /// What to read for the columns of `schema`, given the origin of each, and the requested columns of each map.
    pub(super) fn new((origins, maps): (&[Origin], &[Vec<usize>]), schema: &SchemaRef) -> Self {
        let (mut sources, mut fields): (Vec<FileColumn>, Vec<Field>) = Default::default();
        let mut keys = None;
        let mut bytes = |source, name: &str, nullable, sources: &mut Vec<FileColumn>| {
            sources.push(source);
            fields.push(Field::new(format!("{BYTES}{name}"), DataType::BinaryView, nullable));
            sources.len() - 1
        };
        let mut decode = vec![Decode::Typed(0); origins.len()];
        for (at, field) in schema.fields().iter().enumerate() {
            match origins[at] {
                Origin::Typed(_) => {}
                Origin::Bytes { requested, cell } => {
                    let column = bytes(FileColumn::Cell(requested), field.name(), true, &mut sources);
                    decode[at] = Decode::Cell { column, cell };
                }
                Origin::Part(part) => {
                    let column = *keys.get_or_insert_with(|| bytes(FileColumn::RowKey, "key", false, &mut sources));
                    decode[at] = Decode::Part { column, part };
                }
                Origin::Map(map) => {
                    let named = |(number, cell): (usize, &usize)| {
                        let name = format!("{}:{number}", field.name());
                        bytes(FileColumn::Cell(*cell), &name, true, &mut sources)
                    };
                    let columns = maps[map].iter().enumerate().map(named).collect();
                    decode[at] = Decode::Map { columns, map };
                }
            }
        }
        if sources.is_empty() && maps.is_empty() {
            let typed = origins
                .iter()
                .filter_map(|origin| if let Origin::Typed(source) = origin { Some(*source) } else { None });
            return Self { sources: typed.collect(), schema: Arc::clone(schema), decode: None };
        }
        for (at, field) in schema.fields().iter().enumerate() {
            if let Origin::Typed(source) = origins[at] {
                decode[at] = Decode::Typed(sources.len());
                sources.push(source);
                fields.push(field.as_ref().clone());
            }
        }
        Self { sources, schema: Arc::new(Schema::new(fields)), decode: Some(decode.into()) }
    }
}

/// Makes the columns of SQL of those of files.
#[derive(Clone, Debug)]
pub(super) struct DecodeExec {
    child: Arc<dyn ExecutionPlan>,
    columns: Arc<[Decode]>,
    /// The same rows by rows, for error messages that name the row.
    scan: Arc<ScanExec>,
    /// The tenant's prefix, which every key has and no key part is decoded from.
    span: Bytes,
    /// Columns of the child, of cells of maps, that a row must have values in.
    needed: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DecodeExec {
    /// The columns of `scan`, made of those of `child`.
    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        columns: &Arc<[Decode]>,
        scan: &Arc<ScanExec>,
        span: &Bytes,
    ) -> Self {
        let equivalence = EquivalenceProperties::new(scan.schema());
        let properties = node::properties_over(&child, equivalence);
        let (columns, scan, span) = (Arc::clone(columns), Arc::clone(scan), span.clone());
        Self { child, columns, scan, span, needed: Vec::new(), properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self { needed: self.needed.clone(), ..Self::new(child, &self.columns, &self.scan, &self.span) }
    }

    /// The column of the child with the cells of the map's member that the filter needs.
    fn needed_by(&self, filter: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let (at, key) = needed::by(filter)?;
        let Decode::Map { columns, map } = self.columns.get(at)? else { return None };
        let qualifiers = self.scan.row_layout()?.maps[*map].0.single_qualifiers(columns.len())?;
        let member = qualifiers.iter().position(|qualifier| open_map::key_of(qualifier) == key)?;
        columns.get(member).copied()
    }

    /// Whether rows without a member of a map are left out.
    pub(super) fn leaves_out(&self) -> bool {
        !self.needed.is_empty()
    }
}

impl DisplayAs for DecodeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanDecode")
    }
}

impl ExecutionPlan for DecodeExec {
    node::passes_filters!();
    node::fields!("KeyspanDecode");
    node::over_child!();

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A filter below would change which bytes are decoded, and so which rows fail.
        node::check_statistics_only(&result, "a filter is held against rows before they are decoded")?;
        let needed = result.parent_filters.iter().filter_map(|filter| self.needed_by(&filter.filter));
        let needed: BTreeSet<usize> = self.needed.iter().copied().chain(needed).collect();
        let answer = FilterPushdownPropagation::if_all(result);
        if phase != FilterPushdownPhase::Pre || needed.len() == self.needed.len() {
            return Ok(answer);
        }
        let node = Self { needed: needed.into_iter().collect(), ..self.over(Arc::clone(&self.child)) };
        Ok(answer.with_updated_node(Arc::new(node)))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        if self.leaves_out() { CardinalityEffect::LowerEqual } else { CardinalityEffect::Equal }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let layout = self.scan.row_layout().map(Arc::clone);
        let layout = layout.ok_or_else(|| DataFusionError::Internal("a scan of no rows".into()))?;
        let rows = self.child.execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let node = self.clone();
        let rows = rows.and_then(move |batch| {
            let timer = metrics.elapsed_compute().timer();
            let decoded = rows_with_all(batch, &node.needed)
                .and_then(|batch| decode_batch(&batch, &node.columns, &node.span, &layout));
            timer.done();
            metrics.record_output(decoded.as_ref().map_or(0, RecordBatch::num_rows));
            let (scan, context) = (Arc::clone(&node.scan), Arc::clone(&context));
            async move {
                match decoded {
                    Ok(batch) => Ok(batch),
                    Err(error) => Err(error_of_row(&scan, context, error).await),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The error with which the scan by rows fails, which names the row; `error` if it does not fail.
async fn error_of_row(scan: &ScanExec, context: Arc<TaskContext>, error: SqlError) -> DataFusionError {
    let rows = async {
        let mut rows = scan.execute(0, context)?;
        while rows.try_next().await?.is_some() {}
        Ok(())
    };
    rows.await.err().unwrap_or_else(|| DataFusionError::External(Box::new(error)))
}

fn decode_batch(batch: &RecordBatch, columns: &[Decode], span: &[u8], layout: &RowLayout) -> SqlResult<RecordBatch> {
    let mut decoded: Vec<Option<ArrayRef>> = vec![None; columns.len()];
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let mut keys = None;
    for (at, column) in columns.iter().enumerate() {
        match column {
            Decode::Typed(column) => decoded[at] = Some(Arc::clone(batch.column(*column))),
            Decode::Cell { column, cell } => decoded[at] = Some(cells(bytes(batch, *column)?, *cell, layout)?),
            Decode::Part { column, part } => {
                keys = Some(bytes(batch, *column)?);
                parts.push((*part, at));
            }
            Decode::Map { columns, map } => decoded[at] = Some(maps(batch, columns, *map, layout)?),
        }
    }
    if let Some(keys) = keys {
        for (column, (_, at)) in key_parts(keys, &parts, span, layout)?.into_iter().zip(&parts) {
            decoded[*at] = Some(column);
        }
    }
    decode::batch(&layout.schema, decoded.into_iter().flatten().collect(), batch.num_rows())
}

fn fault(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what.to_owned())
}

fn bytes(batch: &RecordBatch, column: usize) -> SqlResult<&BinaryViewArray> {
    batch.column(column).as_binary_view_opt().ok_or_else(|| fault("a column of bytes is none"))
}

/// Decodes a column of cells: `cell` is its index in the layout.
fn cells(bytes: &BinaryViewArray, cell: usize, layout: &RowLayout) -> SqlResult<ArrayRef> {
    let (column, _) = &layout.cells[cell];
    let is_text = matches!(column.kind, SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_));
    if is_text
        && column.aggregate.is_none()
        && column.encoding == Encoding::Binary
        && let Ok(texts) = bytes.clone().to_string_view()
    {
        // The bytes are the text: no copy.
        return Ok(Arc::new(texts));
    }
    let mut values = ColumnBuilder::with_capacity(column.kind, bytes.len());
    for value in bytes {
        match value.map(|value| values.push_cell(column, value)) {
            None => values.push_null(),
            Some(Ok(_)) => {}
            Some(Err(_)) if layout.on_bad_value == OnBadValue::Null => values.push_null(),
            Some(Err(error)) => return Err(bad_value(column, None, &error)),
        }
    }
    Ok(values.finish())
}

/// Makes the maps of an open family, whose index in the layout is `map`, of columns of its cells.
fn maps(batch: &RecordBatch, columns: &[usize], map: usize, layout: &RowLayout) -> SqlResult<ArrayRef> {
    let (map, _) = &layout.maps[map];
    let qualifiers = map.single_qualifiers(columns.len()).unwrap_or_default();
    let columns = columns.iter().map(|column| bytes(batch, *column)).collect::<SqlResult<Vec<_>>>()?;
    // Of few columns of many most rows have none: these share the map without members, which is the first value.
    let mut values = ColumnBuilder::new(SqlType::Jsonb);
    values.push(&ValueRef::Text(open_map::EMPTY.into()))?;
    let (mut writer, mut count) = (MapWriter::default(), 0);
    let mut value_of: Vec<u32> = vec![0; batch.num_rows()];
    for row in rows_with_any(&columns, batch.num_rows()).set_indices() {
        for (qualifier, column) in qualifiers.iter().zip(&columns) {
            if column.is_valid(row) {
                map.push(qualifier, column.value(row), (None, layout.on_bad_value), &mut writer)?;
            }
        }
        values.push(&ValueRef::Text(writer.take().into()))?;
        count += 1;
        value_of[row] = count;
    }
    take(&values.finish(), &UInt32Array::from(value_of), None).map_err(|error| fault(&error.to_string()))
}

/// The rows of a batch that have a value in each of the columns.
fn rows_with_all(batch: RecordBatch, columns: &[usize]) -> SqlResult<RecordBatch> {
    let nulls = columns.iter().filter_map(|column| batch.column(*column).nulls().map(|nulls| nulls.inner().clone()));
    let Some(all) = nulls.reduce(|a, b| &a & &b) else { return Ok(batch) };
    filter_record_batch(&batch, &BooleanArray::new(all, None)).map_err(|error| fault(&error.to_string()))
}

/// The rows in which any of the columns has a value.
fn rows_with_any(columns: &[&BinaryViewArray], rows: usize) -> BooleanBuffer {
    let valid = columns.iter().map(|column| match column.nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(rows),
    });
    valid.reduce(|a, b| &a | &b).unwrap_or_else(|| BooleanBuffer::new_unset(rows))
}

/// Decodes columns of key parts. `parts` has the index of each part, and that of its column in the layout.
///
/// Rows are mostly in key order, so that neighbours share leading parts: a value is decoded once for a run of equal
/// ones, and then copied by `take`.
fn key_parts(
    keys: &BinaryViewArray,
    parts: &[(usize, usize)],
    span: &[u8],
    layout: &RowLayout,
) -> SqlResult<Vec<ArrayRef>> {
    let last = layout.keys.column_count() - 1;
    let any_part = |is: fn(usize, usize) -> bool| parts.iter().any(|(part, _)| is(*part, last));
    let ends_with_integer = layout.keys.ends_with_integer();
    let rows_if = |needed| if needed { keys.len() } else { 0 };
    let mut integers: Vec<i64> = Vec::with_capacity(rows_if(ends_with_integer && any_part(|part, last| part == last)));
    let column = |(part, at): &(usize, usize)| {
        ColumnBuilder::with_capacity(layout.kinds[*at], rows_if(*part == last && !ends_with_integer))
    };
    let mut columns: Vec<ColumnBuilder> = parts.iter().map(column).collect();
    // The index of each row's run of equal leading parts.
    let mut runs = 0;
    let mut run_of: Vec<u32> = Vec::with_capacity(rows_if(any_part(|part, last| part < last)));
    let mut sorted = SortedKeys::new(&layout.keys, span);
    for key in keys.iter().flatten() {
        let mut pushed = Ok(());
        let push = |part, value: ValueRef<'_>| {
            for (column, (index, _)) in columns.iter_mut().zip(parts) {
                if *index == part
                    && let Err(error) = column.push(&value)
                {
                    pushed = Err(error);
                }
            }
        };
        let same = if ends_with_integer {
            let (same, integer) = sorted.next_integer(key, push)?;
            if integers.capacity() > 0 {
                integers.push(integer);
            }
            same
        } else {
            sorted.next(key, push)?
        };
        pushed?;
        runs += u32::from(!same);
        if run_of.capacity() > 0 {
            run_of.push(runs - 1);
        }
    }
    let run_of = UInt32Array::from(run_of);
    let finished = |(column, (part, at)): (ColumnBuilder, &(usize, usize))| {
        if *part == last && ends_with_integer {
            return integer_column(&integers, layout.schema.field(*at).data_type());
        }
        let values = column.finish();
        if *part == last || values.len() == keys.len() {
            return Ok(values);
        }
        take(&values, &run_of, None).map_err(|error| fault(&error.to_string()))
    };
    columns.into_iter().zip(parts).map(finished).collect()
}

/// Integers, days or microseconds as a column of the type.
fn integer_column(integers: &[i64], data: &DataType) -> SqlResult<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(integers: &[i64], data: &DataType, narrow: fn(i64) -> T::Native) -> ArrayRef {
        let values: Vec<T::Native> = integers.iter().map(|integer| narrow(*integer)).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data.clone()))
    }
    // A key part of such a type holds no integer that does not fit it.
    Ok(match data {
        DataType::Int16 => of::<Int16Type>(integers, data, |integer| integer as i16),
        DataType::Int32 => of::<Int32Type>(integers, data, |integer| integer as i32),
        DataType::Int64 => of::<Int64Type>(integers, data, |integer| integer),
        DataType::Date32 => of::<Date32Type>(integers, data, |integer| integer as i32),
        DataType::Time64(TimeUnit::Microsecond) => of::<Time64MicrosecondType>(integers, data, |integer| integer),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of::<TimestampMicrosecondType>(integers, data, |integer| integer)
        }
        other => return Err(fault(&format!("a part of a key is no {other}"))),
    })
}
