//! The node of the physical plan: for each row of its input it puts the row's values into the subquery's plan and runs
//! it.
//!
//! A subquery that reads relations of the system only is optimised once, with placeholders; one that reads tables for
//! each row anew, so that the values become key ranges. Subqueries have one value for rows of the same values, unless
//! they are volatile: the last [`MEMO_ROWS`] are remembered. Rows go through in pieces of [`PIECE_ROWS`], so that a
//! LIMIT above ends it early.

mod together;

use super::apply_value;
use crate::{
    error::{SqlError, SqlState},
    exec::node,
    plan::{
        apply::{
            node::{Apply, Kind},
            outer_columns,
            unnest::with_values,
        },
        constant_rows, materialized,
    },
    workarounds::grouping_set_order,
};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, UInt64Array, new_null_array},
    compute::{BatchCoalescer, take},
    datatypes::{DataType, SchemaRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{Result, exec_err, tree_node::TreeNodeRecursion},
    datasource::{MemTable, source_as_provider},
    error::DataFusionError,
    execution::{SendableRecordBatchStream, SessionState, TaskContext, context::QueryPlanner},
    logical_expr::{
        Expr, LogicalPlan, UserDefinedLogicalNode, expr::Placeholder,
        physical_planning_context::PhysicalPlanningContext,
    },
    optimizer::AnalyzerRule,
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
        ReplaceChildrenOptions, execute_stream,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
    scalar::ScalarValue,
};
use futures::{StreamExt, TryStreamExt, stream};
use std::{collections::HashMap, fmt, ops::Range, sync::Arc};
use together::Together;

/// Rows whose values are remembered.
const MEMO_ROWS: usize = 4096;
/// Bytes of a value that is remembered.
const MEMO_VALUE_BYTES: usize = 1024;
/// Rows whose subqueries run before the next node sees them; twice as many each time, where they run together.
const PIECE_ROWS: usize = 64;
/// How often running together may fail before each row runs by itself.
const FAILURES_MAX: usize = 3;

/// DataFusion's planner, which knows [`Apply`] too, what [grouping sets](crate::workarounds::grouping_set_order) need,
/// [queries that are computed once](materialized), and [rows that are constants](constant_rows).
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let extensions: Vec<Arc<dyn ExtensionPlanner + Send + Sync>> = vec![
            Arc::new(ApplyPlanner),
            Arc::new(grouping_set_order::UnorderedPlanner),
            Arc::new(materialized::MaterializedPlanner),
            Arc::new(constant_rows::ConstantRowsPlanner),
        ];
        let planner = DefaultPhysicalPlanner::with_extension_planners(extensions);
        planner.create_physical_plan(&grouping_set_order::below_grouping_sets(plan)?, session).await
    }
}

struct ApplyPlanner;

#[async_trait]
impl ExtensionPlanner for ApplyPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(apply) = node.as_any().downcast_ref::<Apply>() else { return Ok(None) };
        let ([logical], [child]) = (logical_inputs, physical_inputs) else { return Ok(None) };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return exec_err!("a subquery is planned in a session of another kind");
        };
        let bindings = apply.bindings.iter().map(|(id, expr)| {
            Ok((id.clone(), planner.create_physical_expr(expr, logical.schema(), session, planning)?))
        });
        let bindings: Vec<_> = bindings.collect::<Result<_>>()?;
        let mut state = state.clone();
        state.config_mut().options_mut().execution.target_partitions = 1;
        let plan = crate::plan::apply::Correlated::default().analyze(apply.plan.clone(), state.config_options())?;
        let plan = with_values(plan)?;
        let by_ranges = reads_tables(&plan)?;
        let names = apply.bindings.iter().map(|(id, _)| id.as_str());
        let together = if by_ranges { None } else { Together::of(&plan, apply.kind, names, &state)? };
        let plan = if by_ranges { plan } else { state.optimizer().optimize(plan, &state, |_, _| {})? };
        let remembers = bindings.is_empty() || !outer_columns::is_volatile(&plan)?;
        let subquery = Subquery { plan, together, by_ranges, remembers, bindings, kind: apply.kind, state };
        let schema = Arc::clone(UserDefinedLogicalNode::schema(apply).inner());
        Ok(Some(Arc::new(ApplyExec::new(Arc::clone(child), Arc::new(subquery), schema))))
    }
}

/// Whether a plan reads anything but relations that are in memory.
fn reads_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            reads |= !source_as_provider(&scan.source)?.is::<MemTable>();
        }
        if let LogicalPlan::Extension(extension) = node
            && let Some(apply) = extension.node.as_any().downcast_ref::<Apply>()
        {
            reads |= reads_tables(&apply.plan)?;
        }
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// What runs for each row.
#[derive(Debug)]
struct Subquery {
    plan: LogicalPlan,
    /// Its form for many rows.
    together: Option<Together>,
    /// Whether the plan is optimised with the values in it.
    by_ranges: bool,
    /// Whether rows of the same values have the same value.
    remembers: bool,
    bindings: Vec<(String, Arc<dyn PhysicalExpr>)>,
    kind: Kind,
    state: SessionState,
}

impl Subquery {
    async fn run(&self, values: &[ScalarValue], context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let value = |placeholder: &Placeholder| {
            let at = self.bindings.iter().position(|(known, _)| *known == placeholder.id)?;
            Some(Expr::Literal(values[at].clone(), None))
        };
        let mut plan = outer_columns::bound(&self.plan, &value)?;
        if self.by_ranges {
            plan = self.state.optimizer().optimize(plan, &self.state, |_, _| {})?;
        }
        let plan = self.state.query_planner().create_physical_plan(&plan, &self.state).await?;
        execute_stream(plan, Arc::clone(context))
    }

    /// The one value of a row, or what its subquery failed with.
    async fn value(&self, values: &[ScalarValue], context: &Arc<TaskContext>) -> Result<(ScalarValue, Option<String>)> {
        match self.value_or_error(values, context).await {
            Ok(value) => Ok((value, None)),
            Err(error) => Ok((ScalarValue::Null, Some(apply_value::kept(error)?))),
        }
    }

    async fn value_or_error(&self, values: &[ScalarValue], context: &Arc<TaskContext>) -> Result<ScalarValue> {
        let mut rows = self.run(values, context).await?;
        let mut found = None;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if self.kind == Kind::Exists {
                if batch.num_rows() > 0 {
                    return Ok(ScalarValue::Boolean(Some(true)));
                }
                continue;
            }
            if batch.num_rows() + usize::from(found.is_some()) > 1 {
                let message = "more than one row returned by a subquery used as an expression";
                let error = SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
                return Err(DataFusionError::External(Box::new(error)));
            }
            if batch.num_rows() == 1 {
                found = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
            }
        }
        Ok(match self.kind {
            Kind::Exists => ScalarValue::Boolean(Some(false)),
            _ => found.unwrap_or(ScalarValue::Null),
        })
    }
}

/// A subquery for each row of the child.
#[derive(Clone, Debug)]
struct ApplyExec {
    child: Arc<dyn ExecutionPlan>,
    subquery: Arc<Subquery>,
    properties: Arc<PlanProperties>,
}

impl ApplyExec {
    fn new(child: Arc<dyn ExecutionPlan>, subquery: Arc<Subquery>, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { child, subquery, properties: Arc::new(properties) }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self { child, ..self.clone() }
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outer: Vec<String> = self.subquery.bindings.iter().map(|(_, expr)| expr.to_string()).collect();
        let rows = if self.subquery.together.is_some() { "many rows at once, of their" } else { "each" };
        write!(f, "Apply: a subquery for {rows} [{}]", outer.join(", "))
    }
}

impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &'static str {
        "Apply"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    node::over_child!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let running = Running {
            input: self.child.execute(partition, Arc::clone(&context))?,
            subquery: Arc::clone(&self.subquery),
            schema: Arc::clone(&schema),
            memo: HashMap::new(),
            piece: None,
            rows: None,
            many: None,
            size: PIECE_ROWS,
            failures: 0,
            out: BatchCoalescer::new(Arc::clone(&schema), context.session_config().batch_size()),
            context,
        };
        let batches: SendableRecordBatchStream = match self.subquery.kind {
            Kind::Rows { .. } => Box::pin(RecordBatchStreamAdapter::new(
                schema,
                stream::try_unfold(running, |mut running| async move {
                    Ok(running.next_rows().await?.map(|batch| (batch, running)))
                }),
            )),
            _ => Box::pin(RecordBatchStreamAdapter::new(
                schema,
                stream::try_unfold(running, |mut running| async move {
                    Ok(running.next_values().await?.map(|batch| (batch, running)))
                }),
            )),
        };
        Ok(batches)
    }
}

/// The rows of an input as far as they were read.
struct Piece {
    batch: RecordBatch,
    outer: Vec<ArrayRef>,
    next: usize,
    /// The rows before this one run each by itself.
    alone: usize,
}

impl Piece {
    fn values(&self, row: usize) -> Result<Vec<ScalarValue>> {
        self.outer.iter().map(|column| ScalarValue::try_from_array(column, row)).collect()
    }
}

/// The rows of a subquery that are being joined with a row.
struct Joined {
    rows: SendableRecordBatchStream,
    row: usize,
    any: bool,
}

/// The rows of a subquery that are being joined with many rows.
struct Many {
    rows: SendableRecordBatchStream,
    /// The rows of the piece that they are of.
    of: Range<usize>,
    /// The first that none was of so far.
    next: usize,
    any: bool,
}

struct Running {
    input: SendableRecordBatchStream,
    subquery: Arc<Subquery>,
    schema: SchemaRef,
    memo: HashMap<Vec<ScalarValue>, (ScalarValue, Option<String>)>,
    piece: Option<Piece>,
    rows: Option<Joined>,
    many: Option<Many>,
    /// How many rows the next piece has, at most.
    size: usize,
    /// How often running together failed.
    failures: usize,
    out: BatchCoalescer,
    context: Arc<TaskContext>,
}

impl Running {
    /// Makes the next rows of the input the piece; `false` at the end.
    async fn advance(&mut self) -> Result<bool> {
        if self.piece.as_ref().is_some_and(|piece| piece.next < piece.batch.num_rows()) {
            return Ok(true);
        }
        while let Some(batch) = self.input.try_next().await? {
            if batch.num_rows() > 0 {
                let outer =
                    self.subquery.bindings.iter().map(|(_, expr)| expr.evaluate(&batch)?.into_array(batch.num_rows()));
                let outer = outer.collect::<Result<Vec<_>>>()?;
                self.piece = Some(Piece { batch, outer, next: 0, alone: 0 });
                return Ok(true);
            }
        }
        self.piece = None;
        Ok(false)
    }

    async fn next_values(&mut self) -> Result<Option<RecordBatch>> {
        if !self.advance().await? {
            return Ok(None);
        }
        let Some(mut piece) = self.piece.take() else { return Ok(None) };
        let from = piece.next;
        piece.next = piece.batch.num_rows().min(from + self.size);
        let kind = self.schema.field(self.schema.fields().len() - 2).data_type().clone();
        if let Some(found) = self.values_together(&piece, from..piece.next, &kind).await {
            let mut columns = piece.batch.slice(from, piece.next - from).columns().to_vec();
            columns.push(found);
            columns.push(new_null_array(&DataType::Utf8, piece.next - from));
            self.piece = Some(piece);
            return Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?));
        }
        // A LIMIT above may end before a row that fails, or that takes long.
        self.size = PIECE_ROWS;
        piece.next = piece.next.min(from + PIECE_ROWS);
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for row in from..piece.next {
            let (value, error) = self.remembered(piece.values(row)?).await?;
            found.push(if value.is_null() { ScalarValue::try_from(&kind)? } else { value });
            errors.push(error);
        }
        let mut columns = piece.batch.slice(from, piece.next - from).columns().to_vec();
        columns.push(ScalarValue::iter_to_array(found)?);
        columns.push(Arc::new(StringArray::from(errors)));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.piece = Some(piece);
        Ok(Some(batch))
    }

    /// The subquery for many rows, if it has such a form, and where these are some.
    fn together(&mut self, rows: usize) -> Option<&Together> {
        let together = self.subquery.together.as_ref().filter(|_| self.failures < FAILURES_MAX)?;
        (rows >= together::ROWS_MIN).then(|| {
            self.size = (2 * self.size).min(together::ROWS_MAX);
            together
        })
    }

    /// The values of rows of a piece; `None` if each is to run by itself.
    async fn values_together(&mut self, piece: &Piece, rows: Range<usize>, data: &DataType) -> Option<ArrayRef> {
        let (subquery, context) = (Arc::clone(&self.subquery), Arc::clone(&self.context));
        self.together(rows.len())?;
        let found = async {
            let Some(together) = &subquery.together else { return exec_err!("no form for many rows") };
            let found = together.run(&piece.outer, rows.clone(), (&subquery.state, &context)).await?;
            together::values(found, subquery.kind, (rows.len(), data)).await
        };
        let found = found.await;
        self.failures += usize::from(found.is_err());
        found.ok()
    }

    /// Begins to join the next rows of the piece with those of their subqueries.
    async fn many(&mut self) -> Result<Option<Many>> {
        let Some(piece) = self.piece.take() else { return Ok(None) };
        let of = piece.next..piece.batch.num_rows().min(piece.next + self.size);
        let (subquery, context) = (Arc::clone(&self.subquery), Arc::clone(&self.context));
        let runs = piece.next >= piece.alone && self.together(of.len()).is_some();
        let rows = match &subquery.together {
            Some(together) if runs => together.run(&piece.outer, of.clone(), (&subquery.state, &context)).await.ok(),
            _ => None,
        };
        self.failures += usize::from(runs && rows.is_none());
        let next = if rows.is_some() { of.end } else { piece.next };
        self.piece = Some(Piece { next, ..piece });
        Ok(rows.map(|rows| Many { rows, next: of.start, of, any: false }))
    }

    /// Rows of the input beside rows of their subqueries.
    fn push_many(&mut self, many: &mut Many, rows: Option<&RecordBatch>) -> Result<()> {
        let Some(piece) = &self.piece else { return Ok(()) };
        let outer = self.subquery.kind == (Kind::Rows { outer: true });
        let numbers = rows.map_or(Ok(&[][..]), together::numbers)?;
        // Rows of the input, each with a row of the subqueries, or with none.
        let mut pairs: Vec<(usize, Option<u64>)> = Vec::with_capacity(numbers.len());
        for (number, at) in numbers.iter().zip(0_u64..) {
            let row = usize::try_from(*number).map_or(usize::MAX, |number| many.of.start.saturating_add(number));
            if row >= many.of.end || row.saturating_add(1) < many.next {
                return exec_err!("rows of a subquery are not in the order of the rows outside");
            }
            if outer {
                pairs.extend((many.next..row).map(|row| (row, None)));
            }
            many.next = row + 1;
            pairs.push((row, Some(at)));
        }
        if outer && rows.is_none() {
            pairs.extend((many.next..many.of.end).map(|row| (row, None)));
        }
        let left = UInt64Array::from_iter_values(pairs.iter().map(|(row, _)| *row as u64));
        let right: UInt64Array = pairs.iter().map(|(_, at)| *at).collect();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in piece.batch.columns() {
            columns.push(take(column, &left, None)?);
        }
        for at in columns.len()..self.schema.fields().len() {
            let own = at - piece.batch.num_columns();
            columns.push(match rows {
                Some(rows) => take(rows.column(own), &right, None)?,
                None => new_null_array(self.schema.field(at).data_type(), left.len()),
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(left.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(self.out.push_batch(batch)?)
    }

    async fn remembered(&mut self, values: Vec<ScalarValue>) -> Result<(ScalarValue, Option<String>)> {
        if let Some(known) = self.memo.get(&values) {
            return Ok(known.clone());
        }
        let found = self.subquery.value(&values, &self.context).await?;
        let bytes = values.iter().chain([&found.0]).map(ScalarValue::size).sum::<usize>();
        if self.subquery.remembers && bytes <= MEMO_VALUE_BYTES {
            if self.memo.len() >= MEMO_ROWS {
                self.memo.clear();
            }
            self.memo.insert(values, found.clone());
        }
        Ok(found)
    }

    async fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.out.next_completed_batch() {
                return Ok(Some(batch));
            }
            if let Some(mut joined) = self.rows.take() {
                match joined.rows.try_next().await? {
                    Some(batch) => {
                        joined.any |= batch.num_rows() > 0;
                        self.push(joined.row, Some(&batch))?;
                        self.rows = Some(joined);
                    }
                    None if !joined.any && self.subquery.kind == (Kind::Rows { outer: true }) => {
                        self.push(joined.row, None)?;
                    }
                    None => {}
                }
                continue;
            }
            if let Some(mut many) = self.many.take() {
                match many.rows.try_next().await {
                    Ok(Some(batch)) => {
                        many.any |= batch.num_rows() > 0;
                        self.push_many(&mut many, Some(&batch))?;
                        self.many = Some(many);
                    }
                    Ok(None) => self.push_many(&mut many, None)?,
                    Err(error) if many.any => return Err(error),
                    // A LIMIT may end before the row that fails.
                    Err(_) => {
                        self.failures += 1;
                        self.size = PIECE_ROWS;
                        if let Some(piece) = &mut self.piece {
                            (piece.next, piece.alone) = (many.of.start, many.of.end);
                        }
                    }
                }
                continue;
            }
            if !self.advance().await? {
                self.out.finish_buffered_batch()?;
                return Ok(self.out.next_completed_batch());
            }
            self.many = self.many().await?;
            if self.many.is_some() {
                continue;
            }
            if let Some(piece) = &mut self.piece {
                let row = piece.next;
                piece.next += 1;
                let values = piece.values(row)?;
                let rows = self.subquery.run(&values, &self.context).await?;
                self.rows = Some(Joined { rows, row, any: false });
            }
        }
    }

    /// A row of the input beside rows of its subquery, or beside NULLs.
    fn push(&mut self, row: usize, rows: Option<&RecordBatch>) -> Result<()> {
        let Some(piece) = &self.piece else { return Ok(()) };
        let count = rows.map_or(1, RecordBatch::num_rows);
        let at = UInt64Array::from_value(u64::try_from(row).unwrap_or(u64::MAX), count);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in piece.batch.columns() {
            columns.push(take(column, &at, None)?);
        }
        match rows {
            Some(rows) => columns.extend(rows.columns().iter().cloned()),
            None => {
                let own = self.schema.fields().iter().skip(columns.len());
                columns.extend(own.map(|field| new_null_array(field.data_type(), 1)).collect::<Vec<_>>());
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        Ok(self.out.push_batch(batch)?)
    }
}
