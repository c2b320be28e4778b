//! A subquery for many rows at once ([`numbered`](fn@numbered)): their values become a relation in memory.
//!
//! It is optimised once, over a relation without rows, and planned anew for each piece of the input.

use crate::plan::apply::{
    Correlated,
    node::Kind,
    outer_columns,
    unnest::{ROW, numbered},
};
use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array},
    compute::{concat, take},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type},
};
use datafusion::{
    common::{Result, TableReference, exec_err, tree_node::Transformed},
    datasource::{MemTable, provider_as_source},
    execution::{SendableRecordBatchStream, SessionState, TaskContext},
    logical_expr::{LogicalPlan, LogicalPlanBuilder, TableScan},
    optimizer::AnalyzerRule,
    physical_plan::execute_stream,
};
use futures::TryStreamExt;
use std::{ops::Range, sync::Arc};

/// Rows whose subqueries run together, at most.
pub(super) const ROWS_MAX: usize = 4096;
/// Rows from which on they do.
pub(super) const ROWS_MIN: usize = 4;
/// What the relation of their values is called.
const RELATION: &str = "__rows_outside";

/// The subquery of many rows.
#[derive(Debug)]
pub(super) struct Together {
    plan: LogicalPlan,
    /// The relation's columns: the number of a row, and its values.
    schema: SchemaRef,
    /// Which of the values of a row these are.
    values: Vec<usize>,
}

impl Together {
    /// The form of a subquery with placeholders, whose names are given, for many rows; `None` if it runs for each.
    pub(super) fn of<'a>(
        plan: &LogicalPlan,
        kind: Kind,
        names: impl Iterator<Item = &'a str>,
        state: &SessionState,
    ) -> Result<Option<Self>> {
        if outer_columns::is_volatile(plan)? {
            return Ok(None);
        }
        let outside = outer_columns::placeholders(plan)?;
        let names: Vec<&str> = names.collect();
        let values = outside.iter().map(|one| names.iter().position(|name| *name == one.id));
        let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut fields = vec![Field::new(ROW, DataType::UInt64, false)];
        for one in &outside {
            let Some(field) = &one.field else { return Ok(None) };
            fields.push(field.as_ref().clone().with_name(one.id.clone()).with_nullable(true));
        }
        let schema = Arc::new(Schema::new(fields));
        let source = provider_as_source(Arc::new(MemTable::try_new(Arc::clone(&schema), vec![Vec::new()])?));
        let relation = LogicalPlanBuilder::scan(RELATION, source, None)?.build()?;
        let Some(together) = numbered(plan, kind, &outside, relation)? else { return Ok(None) };
        // Subqueries within it name columns of the relation now. What cannot be planned so runs for each row.
        let together = Correlated::default().analyze(together, state.config_options());
        let together = together.and_then(|plan| state.optimizer().optimize(plan, state, |_, _| {}));
        let Ok(together) = together else { return Ok(None) };
        let mut types = plan.schema().fields().iter().zip(together.schema().fields());
        let alike = types.all(|(one, other)| one.data_type() == other.data_type());
        Ok(alike.then_some(Self { plan: together, schema, values }))
    }

    /// Runs the subqueries of rows, whose values these are. The last column of the result is the number of a row,
    /// from 0, and ascends.
    pub(super) async fn run(
        &self,
        outer: &[ArrayRef],
        rows: Range<usize>,
        (state, context): (&SessionState, &Arc<TaskContext>),
    ) -> Result<SendableRecordBatchStream> {
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows.len() as u64));
        let values = self.values.iter().map(|at| outer[*at].slice(rows.start, rows.len()));
        let columns = [numbers].into_iter().chain(values).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let table = Arc::new(MemTable::try_new(Arc::clone(&self.schema), vec![vec![batch]])?);
        let relation = TableReference::bare(RELATION);
        let plan = self.plan.clone().transform_up_with_subqueries(|node| match node {
            LogicalPlan::TableScan(scan) if scan.table_name == relation => {
                let source = provider_as_source(Arc::clone(&table) as Arc<_>);
                Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let plan = state.query_planner().create_physical_plan(&plan.data, state).await?;
        execute_stream(plan, Arc::clone(context))
    }
}

/// The numbers of the rows that rows of a result belong to.
pub(super) fn numbers(batch: &RecordBatch) -> Result<&[u64]> {
    match batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>()) {
        Some(numbers) => Ok(numbers.values()),
        None => exec_err!("rows of a subquery without the numbers of the rows outside"),
    }
}

/// The values of `count` rows of the input, or whether they have any.
///
/// # Errors
/// Those of the subquery, and one for several rows where one is asked for: which row of the input it is of is for a run
/// for each to say.
pub(super) async fn values(
    mut rows: SendableRecordBatchStream,
    kind: Kind,
    (count, data): (usize, &DataType),
) -> Result<ArrayRef> {
    let (mut found, mut before) = (vec![None; count], 0_u64);
    let mut values: Vec<ArrayRef> = Vec::new();
    while let Some(batch) = rows.try_next().await? {
        for (number, at) in numbers(&batch)?.iter().zip(before..) {
            let Some(place) = usize::try_from(*number).ok().and_then(|number| found.get_mut(number)) else {
                return exec_err!("a row of a subquery is of no row outside");
            };
            if place.replace(at).is_some() && kind != Kind::Exists {
                return exec_err!("several rows of a subquery of one value");
            }
        }
        before += batch.num_rows() as u64;
        if kind != Kind::Exists {
            values.push(Arc::clone(batch.column(0)));
        }
    }
    if kind == Kind::Exists {
        return Ok(Arc::new(found.iter().map(|place| Some(place.is_some())).collect::<BooleanArray>()));
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    if values.is_empty() {
        return Ok(new_null_array(data, count));
    }
    let found = take(&concat(&values)?, &UInt64Array::from(found), None)?;
    if found.data_type() != data { exec_err!("a value of another type") } else { Ok(found) }
}
