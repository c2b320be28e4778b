//! Columns of bytes made values: what segments hold untyped.
//!
//! A file's column of a cell's bytes, or of row keys, is read as it stands, under a name that no column of SQL has, so that no filter on the
//! values is taken for one on the bytes. [`DecodeExec`] makes the columns of SQL of a batch, each by itself; columns that are typed go
//! through, and filters on these go below, to be held against statistics.
//!
//! Bytes that are no value of the column are rare, and what is said of them names the row, which is not at hand here: the [scan by
//! rows](ScanExec) is asked then, which comes upon them too.

use super::{
    super::{
        decode::{ColumnBuilder, RowLayout, bad_value},
        exec::ScanExec,
    },
    From, Source,
};
use crate::pg::{
    error::{Result as SqlResult, SqlError, SqlState},
    exec::node,
};
use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
        UInt32Array,
    },
    compute::take,
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
        execution_plan::{Boundedness, CardinalityEffect, EmissionType},
        filter_pushdown::{
            ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;
use keyspan_catalog::{Encoding, SortedKeys, SqlType, ValueRef, table::OnBadValue};
use std::{fmt, sync::Arc};

/// Before the names of columns of bytes.
const BYTES: &str = "bytes:";

/// What is read of files for the columns of SQL.
pub(super) struct Columns {
    /// Where the columns of files come from.
    pub(super) sources: Vec<Source>,
    /// These columns, named.
    pub(super) schema: SchemaRef,
    /// How SQL's are made of them; `None` where they are the same.
    pub(super) decode: Option<Arc<[Decode]>>,
}

/// Where a column of SQL comes from in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decode {
    /// The column of this place as it stands.
    Through(usize),
    /// The bytes in the column of this place, which are those of the layout's column of cells of this number.
    Cell { place: usize, number: usize },
    /// The part of this number of the keys in the column of this place.
    Part { place: usize, part: usize },
}

impl Columns {
    /// What is read for the columns of `schema`, which come `from` there.
    pub(super) fn new(from: &[From], schema: &SchemaRef) -> Self {
        let (mut sources, mut fields): (Vec<Source>, Vec<Field>) = Default::default();
        let mut keys = None;
        let mut bytes = |source, name: &str, nullable, sources: &mut Vec<Source>| {
            sources.push(source);
            fields.push(Field::new(format!("{BYTES}{name}"), DataType::BinaryView, nullable));
            sources.len() - 1
        };
        let mut decode = vec![Decode::Through(0); from.len()];
        for (at, field) in schema.fields().iter().enumerate() {
            match from[at] {
                From::Typed(_) => {}
                From::Bytes(number) => {
                    let place = bytes(Source::Cell(number), field.name(), true, &mut sources);
                    decode[at] = Decode::Cell { place, number };
                }
                From::Part(part) => {
                    let place = *keys.get_or_insert_with(|| bytes(Source::RowKey, "key", false, &mut sources));
                    decode[at] = Decode::Part { place, part };
                }
            }
        }
        if sources.is_empty() {
            let typed =
                from.iter().filter_map(|from| if let From::Typed(source) = from { Some(*source) } else { None });
            return Self { sources: typed.collect(), schema: Arc::clone(schema), decode: None };
        }
        for (at, field) in schema.fields().iter().enumerate() {
            if let From::Typed(source) = from[at] {
                decode[at] = Decode::Through(sources.len());
                sources.push(source);
                fields.push(field.as_ref().clone());
            }
        }
        Self { sources, schema: Arc::new(Schema::new(fields)), decode: Some(decode.into()) }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct DecodeExec {
    child: Arc<dyn ExecutionPlan>,
    columns: Arc<[Decode]>,
    /// The same rows by rows.
    scan: Arc<ScanExec>,
    /// What every key begins with, and is decoded without.
    span: Bytes,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DecodeExec {
    /// The columns of `scan`, made of those of `child`. Keys begin with the span.
    pub(super) fn new(
        child: Arc<dyn ExecutionPlan>,
        columns: &Arc<[Decode]>,
        scan: &Arc<ScanExec>,
        span: &Bytes,
    ) -> Self {
        let equivalence = EquivalenceProperties::new(scan.schema());
        let partitioning = child.properties().partitioning.clone();
        let properties =
            PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        let properties = Arc::new(properties.with_scheduling_type(child.properties().scheduling_type));
        let (columns, scan, span) = (Arc::clone(columns), Arc::clone(scan), span.clone());
        Self { child, columns, scan, span, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, &self.columns, &self.scan, &self.span)
    }
}

impl DisplayAs for DecodeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanDecode")
    }
}

impl ExecutionPlan for DecodeExec {
    fn name(&self) -> &'static str {
        "KeyspanDecode"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::over_child!();

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // A filter below would change which of the bytes are looked at, and so what fails.
        let taken = result.parent_filters.iter().any(|filter| matches!(filter.any(), PushedDown::Yes));
        if taken {
            return Err(DataFusionError::Internal("a filter is held against rows before they are decoded".into()));
        }
        Ok(FilterPushdownPropagation::if_all(result))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let layout = self.scan.row_layout().map(Arc::clone);
        let layout = layout.ok_or_else(|| DataFusionError::Internal("a scan of no rows".into()))?;
        let rows = self.child.execute(partition, Arc::clone(&context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let node = self.clone();
        let rows = rows.and_then(move |batch| {
            let timer = metrics.elapsed_compute().timer();
            let made = decoded(&batch, &node.columns, &node.span, &layout);
            timer.done();
            metrics.record_output(batch.num_rows());
            let (scan, context) = (Arc::clone(&node.scan), Arc::clone(&context));
            async move {
                match made {
                    Ok(batch) => Ok(batch),
                    Err(error) => Err(told(&scan, context, error).await),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// What the scan by rows says of what does not decode.
async fn told(scan: &ScanExec, context: Arc<TaskContext>, error: SqlError) -> DataFusionError {
    let rows = async {
        let mut rows = scan.execute(0, context)?;
        while rows.try_next().await?.is_some() {}
        Ok(())
    };
    rows.await.err().unwrap_or_else(|| DataFusionError::External(Box::new(error)))
}

/// The columns of SQL.
fn decoded(batch: &RecordBatch, columns: &[Decode], span: &[u8], layout: &RowLayout) -> SqlResult<RecordBatch> {
    let mut made: Vec<Option<ArrayRef>> = vec![None; columns.len()];
    let mut parts: Vec<(usize, usize)> = Vec::new();
    let mut keys = None;
    for (at, column) in columns.iter().enumerate() {
        match column {
            Decode::Through(place) => made[at] = Some(Arc::clone(batch.column(*place))),
            Decode::Cell { place, number } => made[at] = Some(cells(bytes(batch, *place)?, *number, layout)?),
            Decode::Part { place, part } => {
                keys = Some(bytes(batch, *place)?);
                parts.push((*part, at));
            }
        }
    }
    if let Some(keys) = keys {
        for (column, (_, at)) in of_keys(keys, &parts, span, layout)?.into_iter().zip(&parts) {
            made[*at] = Some(column);
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let made = made.into_iter().flatten().collect();
    RecordBatch::try_new_with_options(Arc::clone(&layout.schema), made, &options)
        .map_err(|error| fault(&error.to_string()))
}

fn fault(what: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, what.to_owned())
}

fn bytes(batch: &RecordBatch, place: usize) -> SqlResult<&BinaryViewArray> {
    batch.column(place).as_binary_view_opt().ok_or_else(|| fault("a column of bytes is none"))
}

/// A column of cells.
fn cells(bytes: &BinaryViewArray, number: usize, layout: &RowLayout) -> SqlResult<ArrayRef> {
    let (column, _) = &layout.cells[number];
    let is_text = matches!(column.kind, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_));
    if is_text
        && column.aggregate.is_none()
        && column.encoding == Encoding::Binary
        && let Ok(texts) = bytes.clone().to_string_view()
    {
        // The bytes are the text: nothing is copied.
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

/// Columns of parts of keys, by their numbers.
///
/// Values that neighbours share are made once for each run of them: rows of a table are in the order of their keys.
fn of_keys(
    keys: &BinaryViewArray,
    wanted: &[(usize, usize)],
    span: &[u8],
    layout: &RowLayout,
) -> SqlResult<Vec<ArrayRef>> {
    let last = layout.keys.column_count() - 1;
    let wants = |wanted_part: fn(usize, usize) -> bool| wanted.iter().any(|(part, _)| wanted_part(*part, last));
    let by_number = layout.keys.ends_with_integer();
    let rows_of = |wanted| if wanted { keys.len() } else { 0 };
    let mut numbers: Vec<i64> = Vec::with_capacity(rows_of(by_number && wants(|part, last| part == last)));
    let column = |(part, at): &(usize, usize)| {
        ColumnBuilder::with_capacity(layout.kinds[*at], rows_of(*part == last && !by_number))
    };
    let mut columns: Vec<ColumnBuilder> = wanted.iter().map(column).collect();
    // The run of each row, from 0.
    let mut runs = 0;
    let mut run_of: Vec<u32> = Vec::with_capacity(rows_of(wants(|part, last| part < last)));
    let mut sorted = SortedKeys::new(&layout.keys, span);
    for key in keys.iter().flatten() {
        let mut pushed = Ok(());
        let push = |part, value: ValueRef<'_>| {
            for (column, (wanted, _)) in columns.iter_mut().zip(wanted) {
                if *wanted == part
                    && let Err(error) = column.push(&value)
                {
                    pushed = Err(error);
                }
            }
        };
        let same = if by_number {
            let (same, number) = sorted.next_integer(key, push)?;
            if numbers.capacity() > 0 {
                numbers.push(number);
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
        if *part == last && by_number {
            return integers(&numbers, layout.schema.field(*at).data_type());
        }
        let values = column.finish();
        if *part == last || values.len() == keys.len() {
            return Ok(values);
        }
        take(&values, &run_of, None).map_err(|error| fault(&error.to_string()))
    };
    columns.into_iter().zip(wanted).map(finished).collect()
}

/// Numbers, days or microseconds as a column of the type.
fn integers(numbers: &[i64], data: &DataType) -> SqlResult<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(numbers: &[i64], data: &DataType, narrow: fn(i64) -> T::Native) -> ArrayRef {
        let values: Vec<T::Native> = numbers.iter().map(|number| narrow(*number)).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data.clone()))
    }
    // A key of these types has no number that is wider than they are.
    Ok(match data {
        DataType::Int16 => of::<Int16Type>(numbers, data, |number| number as i16),
        DataType::Int32 => of::<Int32Type>(numbers, data, |number| number as i32),
        DataType::Int64 => of::<Int64Type>(numbers, data, |number| number),
        DataType::Date32 => of::<Date32Type>(numbers, data, |number| number as i32),
        DataType::Time64(TimeUnit::Microsecond) => of::<Time64MicrosecondType>(numbers, data, |number| number),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(numbers, data, |number| number),
        other => return Err(fault(&format!("a part of a key is no {other}"))),
    })
}
