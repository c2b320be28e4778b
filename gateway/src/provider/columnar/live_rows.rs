//! Row groups with many dead rows here and there: they are decoded whole, and the dead rows left out afterwards, by position.
//!
//! To skip single rows while decoding costs more than to decode them. So files are read with two columns more, the number of the file and
//! the position of the row in it, and [`LivingExec`] drops the rows whose bits say that they are not wanted, with these two columns.
//!
//! Where few rows are dead and all columns have values of one width, the last rows of a batch are put into the places of the dead ones: the
//! batch is changed where it lies, and not copied. Rows are in no order here.
//!
//! Nothing may look at the values of rows that are not wanted: they are dead, or another tenant's, and what divides by one of them would
//! fail. Filters that go below this node are held against statistics there, which leave rows out, and never against rows.

use crate::pg::exec::node;
use arrow::{
    array::{ArrayData, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, make_array},
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
        execution_plan::{Boundedness, CardinalityEffect, EmissionType},
        filter_pushdown::{
            ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::RowNumber;
use std::{fmt, sync::Arc};

/// The number of the file. No column of a file is called so: theirs begin with a number, `key` or `_`.
const FILE: &str = "living:file";
/// The position of the row in its file.
const POSITION: &str = "living:position";

/// One row in so many may be dead for the last rows to take the places of the dead ones; where there are more, living ones are copied.
const HOLES_SHARE: usize = 8;

/// The two columns, as the source of files makes them.
pub(super) fn columns() -> [Field; 2] {
    let position = Field::new(POSITION, DataType::Int64, false).with_extension_type(RowNumber);
    [Field::new(FILE, DataType::UInt32, false), position]
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LivingExec {
    /// All rows of the row groups, with the two columns at the end.
    child: Arc<dyn ExecutionPlan>,
    /// By number of the file which of its rows are wanted; `None` for all that are read.
    files: Arc<[Option<BooleanBuffer>]>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl LivingExec {
    /// The wanted rows of `child`, which evaluates no filter.
    pub(super) fn new(child: Arc<dyn ExecutionPlan>, files: Arc<[Option<BooleanBuffer>]>) -> Self {
        let equivalence = EquivalenceProperties::new(shown(&child.schema()));
        let partitioning = child.properties().partitioning.clone();
        let properties =
            PlanProperties::new(equivalence, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        let properties = properties.with_scheduling_type(child.properties().scheduling_type);
        Self { child, files, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(child, Arc::clone(&self.files))
    }
}

/// The schema without the two columns.
fn shown(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields();
    Arc::new(Schema::new(fields[..fields.len() - 2].to_vec()))
}

impl DisplayAs for LivingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanLivingRows")
    }
}

impl ExecutionPlan for LivingExec {
    fn name(&self) -> &'static str {
        "KeyspanLivingRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    node::over_child!();

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
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
        // The child must not have taken one over.
        let taken = result.parent_filters.iter().any(|filter| matches!(filter.any(), PushedDown::Yes));
        if taken {
            return Err(DataFusionError::Internal("a filter is held against rows that are not wanted".into()));
        }
        Ok(FilterPushdownPropagation::if_all(result))
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
        Ok(child.map(|child| Arc::new(Self::new(child, Arc::clone(&self.files))) as Arc<dyn ExecutionPlan>))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, files) = (self.child.execute(partition, context)?, Arc::clone(&self.files));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let (schema, of_batches) = (self.schema(), self.schema());
        let rows = rows.map(move |batch| {
            let batch = living(batch?, &files, &of_batches)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        let rows = rows.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The wanted rows of a batch, without the two columns.
fn living(batch: RecordBatch, files: &[Option<BooleanBuffer>], schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().len();
    let made = |columns, rows| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    };
    let wanted = wanted(&batch, columns, files)?;
    let (_, mut all, read) = batch.into_parts();
    all.truncate(columns);
    let Some(wanted) = wanted else { return made(all, read) };
    let rows = wanted.count_set_bits();
    if rows == read {
        return made(all, rows);
    }
    let are_few = read - rows <= read / HOLES_SHARE;
    if are_few && all.iter().all(|column| column.data_type().primitive_width().is_some()) {
        let moves = moves(&wanted, rows);
        return made(all.into_iter().map(|column| moved(column, &moves).slice(0, rows)).collect(), rows);
    }
    let wanted = BooleanArray::new(wanted, None);
    let filter = FilterBuilder::new(&wanted);
    let filter = if columns > 1 { filter.optimize().build() } else { filter.build() };
    made(all.iter().map(|column| filter.filter(column)).collect::<Result<_, _>>()?, rows)
}

/// From where to where rows move, so that those that are wanted are the first `rows`.
fn moves(wanted: &BooleanBuffer, rows: usize) -> Vec<(usize, usize)> {
    let last = wanted.slice(rows, wanted.len() - rows);
    let holes = &!&wanted.slice(0, rows);
    last.set_indices().map(|at| at + rows).zip(holes.set_indices()).collect()
}

/// A column of values of one width after moves, changed where it lies unless somebody else holds it.
fn moved(column: ArrayRef, moves: &[(usize, usize)]) -> ArrayRef {
    let (data_type, len, nulls, offset, mut buffers, _) = column.to_data().into_parts();
    drop(column);
    let (Some(width), Some(values)) = (data_type.primitive_width(), buffers.pop()) else {
        unreachable!("a column of values of one width has a buffer of them");
    };
    let own = |buffer: Buffer| buffer.into_mutable().unwrap_or_else(|shared| copied(&shared));
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
    make_array(data.build().expect("it is as it was, but for the order of rows"))
}

fn copied(shared: &Buffer) -> MutableBuffer {
    let mut copy = MutableBuffer::new(shared.len());
    copy.extend_from_slice(shared.as_slice());
    copy
}

/// Which rows of a batch are wanted; `None` for all.
fn wanted(batch: &RecordBatch, columns: usize, files: &[Option<BooleanBuffer>]) -> Result<Option<BooleanBuffer>> {
    let fault = |what: &str| DataFusionError::Internal(format!("rows of files {what}"));
    let numbers = batch.column(columns).as_primitive_opt::<UInt32Type>().ok_or_else(|| fault("have no file"))?;
    let positions = batch.column(columns + 1).as_primitive_opt::<Int64Type>();
    let (numbers, positions) = (numbers.values(), positions.ok_or_else(|| fault("have no position"))?.values());
    let Some((&number, &first)) = numbers.first().zip(positions.first()) else { return Ok(None) };
    let bits_of = |number: u32| files.get(number as usize).ok_or_else(|| fault("are of no known file"));
    let outside = || fault("stand behind the end of their file");
    let position = |position: i64| usize::try_from(position).map_err(|_| outside());
    // All values are looked at, which a processor does many at a time; to stop at the first that differs is slower where none does.
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
        let [file, position] = columns();
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true), file, position]));
        let batch =
            RecordBatch::try_new(schema.clone(), vec![Arc::new(values), Arc::new(numbers), Arc::new(positions)]);
        let files: Vec<_> = files.iter().map(|bits| bits.map(BooleanBuffer::from)).collect();
        let found = living(batch.unwrap(), &files, &shown(&schema)).map_err(|error| error.to_string())?;
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
        let [file, position] = columns();
        let fields = [("w", DataType::Int64), ("n", DataType::Int16), ("d", DataType::Decimal128(20, 2))];
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new([&fields[..], &[file, position]].concat()));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(wide), Arc::new(narrow), Arc::new(exact), Arc::new(numbers), Arc::new(positions)];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap().slice(skipped, rows - skipped);
        let held = shared.then(|| batch.clone());
        let bits: BooleanBuffer = (0..rows).map(|row| !dead.contains(&row)).collect();
        let found = living(batch, &[Some(bits)], &shown(&schema)).unwrap();
        if let Some(held) = held {
            assert!(held.column(1).as_primitive::<Int16Type>().values().is_sorted(), "another's batch was changed");
        }
        let mut shown: Vec<_> = (0..found.num_rows())
            .map(|row| {
                let (narrow, wide, exact) = (found.column(1), found.column(0), found.column(2));
                let narrow = narrow.as_primitive::<Int16Type>().value(row);
                let wide = wide.is_valid(row).then(|| wide.as_primitive::<Int64Type>().value(row));
                let exact = exact.is_valid(row).then(|| exact.as_primitive::<Decimal128Type>().value(row));
                format!("{narrow:05} {wide:?} {exact:?}")
            })
            .collect();
        shown.sort();
        shown
    }

    #[test]
    fn the_last_rows_take_the_places_of_dead_ones() {
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
    fn a_row_of_which_nothing_is_known_is_a_fault() {
        for rows in [&[(0, 2)][..], &[(1, 0)], &[(0, -1)], &[(0, 0), (0, 2)], &[(0, 0), (1, 0)]] {
            let error = check(rows, &[Some(&[true, true])]).unwrap_err();
            assert!(error.contains("rows of files"), "{error}");
        }
    }
}
