//! The deletion filter of row groups with many scattered dead rows: they are decoded whole, and dead rows are dropped
//! afterwards, by position. A row is *live* if the scan reads it, and *dead* if it is deleted, overwritten, or another
//! tenant's.
//!
//! To skip single rows while decoding costs more than to decode them. So files are read with two additional columns,
//! the index of the file and the position of the row in it. [`LiveRowsExec`] looks up each row's bit, drops the dead
//! rows, and drops the two columns.
//!
//! If few rows are dead and all columns have values of fixed width, the last live rows of a batch are moved over the
//! dead ones: the batch is changed in place and not copied. The rows have no order.
//!
//! No expression may see the values of dead rows: a division by one of them would fail. Filters that are pushed below
//! this node are only tested against statistics there, never against rows.

use super::super::{decode::record_batch, node};
use arrow::{
    array::{ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, make_array},
    buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer},
    compute::FilterBuilder,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt32Type},
    util::bit_util,
};
use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr, expressions::Column, projection::ProjectionExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::CardinalityEffect,
        filter_pushdown::{ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::RowNumber;
use std::{fmt, sync::Arc};

/// The column with the index of the file. It is never the name of a file's own column: those begin with a number, `key`
/// or `_`.
const FILE: &str = "living:file";
/// The column with the position of the row in its file.
const POSITION: &str = "living:position";

/// A batch is compacted in place if at most 1 in `DEAD_ROWS_ONE_IN` rows is dead; else its live rows are copied.
const DEAD_ROWS_ONE_IN: usize = 8;

/// The two columns, as the source of files makes them.
pub(super) fn position_columns() -> [Field; 2] {
    let position = Field::new(POSITION, DataType::Int64, false).with_extension_type(RowNumber);
    [Field::new(FILE, DataType::UInt32, false), position]
}

/// Drops dead rows by their positions.
#[derive(Clone, Debug)]
pub(super) struct LiveRowsExec {
    /// Reads all rows of the row groups, with the two columns at the end.
    child: Arc<dyn ExecutionPlan>,
    /// For each file the live rows by position; `None` if all rows that are read are live.
    live: Arc<[Option<BooleanBuffer>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LiveRowsExec {
    /// The live rows of `child`, which evaluates no filter.
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, live: Arc<[Option<BooleanBuffer>]>) -> Self {
        let equivalence = EquivalenceProperties::new(without_positions(&child.schema()));
        let properties = node::properties_over(&child, equivalence);
        Self { child, live, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, Arc::clone(&self.live))
    }
}

/// The schema without the two columns.
fn without_positions(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields();
    Arc::new(Schema::new(fields[..fields.len() - 2].to_vec()))
}

impl DisplayAs for LiveRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanLivingRows")
    }
}

impl ExecutionPlan for LiveRowsExec {
    node::fields!("KeyspanLivingRows");
    node::over_child!();
    node::filters_for_statistics!("a filter is held against rows that are not wanted");

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (exprs, columns) = (projection.expr().to_vec(), self.schema().fields().len());
        if exprs.len() >= columns || !exprs.iter().all(|one| one.expr.is::<Column>()) {
            return Ok(None);
        }
        let own = [(FILE, columns), (POSITION, columns + 1)]
            .map(|(name, at)| ProjectionExpr::new(Arc::new(Column::new(name, at)), name));
        let narrow = ProjectionExec::try_new([exprs, own.to_vec()].concat(), Arc::clone(&self.child))?;
        let child = self.child.try_swapping_with_projection(&narrow)?;
        Ok(child.map(|child| Arc::new(Self::new(child, Arc::clone(&self.live))) as Arc<dyn ExecutionPlan>))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, live) = (self.child.execute(partition, context)?, Arc::clone(&self.live));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (schema, batch_schema) = (self.schema(), self.schema());
        let rows = rows.map(move |batch| {
            let batch = live_rows(batch?, &live, &batch_schema)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The live rows of a batch, without the two columns.
fn live_rows(rows: RecordBatch, files: &[Option<BooleanBuffer>], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().len();
    let live = live_bits(&rows, columns, files)?;
    let (_, mut all, read) = rows.into_parts();
    all.truncate(columns);
    let Some(live) = live else { return Ok(record_batch(schema, all, read)?) };
    let live_count = live.count_set_bits();
    if live_count == read {
        return Ok(record_batch(schema, all, read)?);
    }
    let few_are_dead = read - live_count <= read / DEAD_ROWS_ONE_IN;
    let columns = if few_are_dead && all.iter().all(|column| column.data_type().primitive_width().is_some()) {
        let moves = moves(&live, live_count);
        all.into_iter().map(|column| moved(column, &moves).slice(0, live_count)).collect()
    } else {
        let live = BooleanArray::new(live, None);
        let filter = FilterBuilder::new(&live);
        let filter = if columns > 1 { filter.optimize().build() } else { filter.build() };
        all.iter().map(|column| filter.filter(column)).collect::<Result<_, _>>()?
    };
    Ok(record_batch(schema, columns, live_count)?)
}

/// Moves of rows, from position to position, after which the live rows are the first `rows`.
fn moves(live: &BooleanBuffer, rows: usize) -> Vec<(usize, usize)> {
    let last = live.slice(rows, live.len() - rows);
    let holes = &!&live.slice(0, rows);
    last.set_indices().map(|at| at + rows).zip(holes.set_indices()).collect()
}

/// A column of values of fixed width after moves; changed in place, or in a copy if its buffers are shared.
fn moved(column: ArrayRef, moves: &[(usize, usize)]) -> ArrayRef {
    let (data_type, len, nulls, offset, mut buffers, _) = column.to_data().into_parts();
    drop(column);
    let (Some(width), Some(values)) = (data_type.primitive_width(), buffers.pop()) else {
        unreachable!("a column of values of fixed width has a buffer of them");
    };
    let own = |buffer: Buffer| buffer.into_mutable().unwrap_or_else(|shared| copy(&shared));
    let mut values = own(values);
    for (from, to) in moves.iter().map(|(from, to)| (from + offset, to + offset)) {
        values.as_slice_mut().copy_within(from * width..(from + 1) * width, to * width);
    }
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0).map(|nulls| {
        let (start, len) = (nulls.offset(), nulls.len());
        let mut bits = own(nulls.into_inner().into_inner());
        for (from, to) in moves {
            match bit_util::get_bit(&bits, start + from) {
                true => bit_util::set_bit(&mut bits, start + to),
                false => bit_util::unset_bit(&mut bits, start + to),
            }
        }
        NullBuffer::new(BooleanBuffer::new(bits.into(), start, len))
    });
    let data = ArrayData::builder(data_type).len(len).offset(offset).nulls(nulls).add_buffer(values.into());
    make_array(data.build().expect("the array was valid before, and only rows have moved"))
}

fn copy(shared: &Buffer) -> MutableBuffer {
    let mut copy = MutableBuffer::new(shared.len());
    copy.extend_from_slice(shared.as_slice());
    copy
}

/// The bits of the rows of a batch; `None` if all are live. The two columns are behind the first `columns`.
fn live_bits(batch: &RecordBatch, columns: usize, files: &[Option<BooleanBuffer>]) -> Result<Option<BooleanBuffer>> {
    let fault = |what: &str| DataFusionError::Internal(format!("rows of files {what}"));
    let numbers = batch.column(columns).as_primitive_opt::<UInt32Type>().ok_or_else(|| fault("have no file"))?;
    let positions = batch.column(columns + 1).as_primitive_opt::<Int64Type>();
    let (numbers, positions) = (numbers.values(), positions.ok_or_else(|| fault("have no position"))?.values());
    let Some((&number, &first)) = numbers.first().zip(positions.first()) else { return Ok(None) };
    let bits_of = |number: u32| files.get(number as usize).ok_or_else(|| fault("are of no known file"));
    let outside = || fault("stand behind the end of their file");
    let position = |position: i64| usize::try_from(position).map_err(|_| outside());
    // Without an early exit, so that the loop is vectorized: nearly always all values are equal.
    if numbers.iter().fold(true, |same, one| same & (*one == number)) {
        let Some(bits) = bits_of(number)? else { return Ok(None) };
        let is_next = |(before, after): (&i64, &i64)| before.wrapping_add(1) == *after;
        if positions.iter().zip(&positions[1..]).fold(true, |next, pair| next & is_next(pair)) {
            let first = position(first)?;
            let within = bits.len().checked_sub(positions.len()).is_some_and(|last| first <= last);
            return within.then(|| Some(bits.slice(first, positions.len()))).ok_or_else(outside);
        }
    }
    let bit = |(number, at): (&u32, &i64)| match bits_of(*number)? {
        None => Ok(true),
        Some(bits) => {
            let at = position(*at)?;
            if at < bits.len() { Ok(bits.value(at)) } else { Err(outside()) }
        }
    };
    let bits: Vec<bool> = numbers.iter().zip(positions).map(bit).collect::<Result<_>>()?;
    Ok(Some(bits.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{
        array::{Array, Decimal128Array, Int16Array, Int64Array, UInt32Array},
        datatypes::{Decimal128Type, Int16Type},
    };

    fn check(rows: &[(u32, i64)], files: &[Option<&[bool]>]) -> Result<Vec<i64>, String> {
        let values: Int64Array = rows.iter().map(|(file, position)| i64::from(*file) * 100 + position).collect();
        let numbers: UInt32Array = rows.iter().map(|(file, _)| Some(*file)).collect();
        let positions: Int64Array = rows.iter().map(|(_, position)| Some(*position)).collect();
        let [file, position] = position_columns();
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true), file, position]));
        let batch =
            RecordBatch::try_new(schema.clone(), vec![Arc::new(values), Arc::new(numbers), Arc::new(positions)]);
        let files: Vec<_> = files.iter().map(|bits| bits.map(BooleanBuffer::from)).collect();
        let found =
            live_rows(batch.unwrap(), &files, &without_positions(&schema)).map_err(|error| error.to_string())?;
        Ok(found.column(0).as_primitive::<Int64Type>().values().to_vec())
    }

    /// Rows `0..rows` of one file, but for the dead ones: three columns, NULL where `is_null`, from `skipped` rows on.
    fn left(rows: usize, skipped: usize, dead: &[usize], is_null: fn(usize) -> bool, shared: bool) -> Vec<String> {
        let wide: Int64Array = (0..rows).map(|row| (!is_null(row)).then_some(row as i64 * 3)).collect();
        let narrow: Int16Array = (0..rows).map(|row| Some(row as i16)).collect();
        let exact = Decimal128Array::from_iter(wide.iter().map(|value| value.map(i128::from)))
            .with_precision_and_scale(20, 2)
            .unwrap();
        let (numbers, positions) = (UInt32Array::from(vec![0; rows]), Int64Array::from_iter_values(0..rows as i64));
        let [file, position] = position_columns();
        let fields = [("w", DataType::Int64), ("n", DataType::Int16), ("d", DataType::Decimal128(20, 2))];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new([&fields[..], &[file, position]].concat()));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(wide), Arc::new(narrow), Arc::new(exact), Arc::new(numbers), Arc::new(positions)];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap().slice(skipped, rows - skipped);
        let held = shared.then(|| batch.clone());
        let bits: BooleanBuffer = (0..rows).map(|row| !dead.contains(&row)).collect();
        let found = live_rows(batch, &[Some(bits)], &without_positions(&schema)).unwrap();
        if let Some(held) = held {
            assert!(held.column(1).as_primitive::<Int16Type>().values().is_sorted(), "another's batch was changed");
        }
        let mut lines: Vec<_> = (0..found.num_rows())
            .map(|row| {
                let (narrow, wide, exact) = (found.column(1), found.column(0), found.column(2));
                let narrow = narrow.as_primitive::<Int16Type>().value(row);
                let wide = wide.is_valid(row).then(|| wide.as_primitive::<Int64Type>().value(row));
                let exact = exact.is_valid(row).then(|| exact.as_primitive::<Decimal128Type>().value(row));
                format!("{narrow:05} {wide:?} {exact:?}")
            })
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_last_rows_move_over_dead_ones() {
        let none: fn(usize) -> bool = |_| false;
        for is_null in [none, |row| row % 3 == 0, |row| row > 90] {
            for dead in [&[0][..], &[99], &[5, 98, 99], &[0, 1, 2, 50, 90, 97], &[88, 89, 90, 91, 92, 93, 94, 95]] {
                for (skipped, shared) in [(0, false), (0, true), (3, false)] {
                    let expected: Vec<String> = (skipped..100)
                        .filter(|row| !dead.contains(row))
                        .map(|row| {
                            let value = (!is_null(row)).then_some(row * 3);
                            format!("{row:05} {value:?} {value:?}")
                        })
                        .collect();
                    assert_eq!(left(100, skipped, dead, is_null, shared), expected, "{dead:?} {skipped} {shared}");
                }
            }
        }
    }

    #[test]
    fn rows_are_found_by_their_positions() {
        let bits: &[bool] = &[true, false, true, true, false, true];
        for (rows, expected) in [
            (&[(0, 0), (0, 1), (0, 2)][..], &[0, 2][..]),
            (&[(0, 3), (0, 4), (0, 5)], &[3, 5]),
            (&[(0, 2), (0, 3)], &[2, 3]),
            (&[(0, 1), (0, 4)], &[]),
            // Some were left out before: by a selection, or by statistics of pages.
            (&[(0, 0), (0, 2), (0, 4), (0, 5)], &[0, 2, 5]),
            (&[(0, 5), (0, 1), (0, 3)], &[5, 3]),
            (&[(0, 4), (0, 5), (1, 1), (1, 4)], &[5, 101, 104]),
            (&[(1, 0), (1, 900)], &[100, 1_000]),
            (&[], &[]),
        ] {
            assert_eq!(check(rows, &[Some(bits), None]).unwrap(), expected, "{rows:?}");
        }
    }

    #[test]
    fn a_row_outside_of_its_file_is_a_fault() {
        for rows in [&[(0, 2)][..], &[(1, 0)], &[(0, -1)], &[(0, 0), (0, 2)], &[(0, 0), (1, 0)]] {
            let error = check(rows, &[Some(&[true, true])]).unwrap_err();
            assert!(error.contains("rows of files"), "{error}");
        }
    }
}
