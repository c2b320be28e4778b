//! Queries: a DataFusion session for each statement, over the tables that its [`View`] sees.
//!
//! [`Query::new`] copies the shared [`state`](mod@state) (functions, rules, planners: built once), gives it the
//! statement's [`StatementContext`] and the [`schemas`] of its snapshot. [`Query::plan`] refuses what DataFusion would
//! drop silently ([`unsupported`](crate::pg::syntax::unsupported)), rewrites what it plans differently from PostgreSQL
//! ([`rewrite`](crate::pg::syntax::rewrite)) and plans; [`Query::run`] optimises and starts the stream, on threads of
//! the query [`runtime`]. Prepared statements keep their optimised plans ([`plan_cache`]); [`joins`] that exceed the
//! memory are planned again; correlated subqueries that cannot become joins run for each row
//! ([`apply`](crate::pg::plan::apply)). PostgreSQL's semantics are the room [`pg`](crate::pg).
//!
//! Typing of literals, where PostgreSQL and DataFusion differ: a whole number is `integer` where it fits (in
//! comparisons DataFusion's bigint, which compares the same). A number with a point or an exponent is a numeric. A
//! quoted text beside a value of another type takes that type.

use crate::{
    context::StatementContext,
    pg::{
        error::Result,
        numeric,
        plan::{constant_rows, numbers, parameters::parameters},
        syntax::natural_join,
        types::ParameterType,
    },
    provider,
    view::View,
};
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::TableReference,
    datasource::provider_as_source,
    error::{DataFusionError, Result as PlanResult},
    execution::{SendableRecordBatchStream, SessionState, context::SQLOptions},
    logical_expr::{LogicalPlan, LogicalPlanBuilder},
    physical_plan::{ExecutionPlan, stream::RecordBatchStreamAdapter},
    prelude::SessionContext,
    scalar::ScalarValue,
    sql::sqlparser::ast,
};
use futures::{StreamExt, TryStreamExt, future::BoxFuture};
use keyspan_catalog::{Privileges, SqlView, Table};
use std::sync::{Arc, Weak};

pub mod as_of;
mod cell_time;
mod contexts;
pub(crate) mod domains;
pub mod explain;
pub(crate) mod inline;
pub(crate) mod joins;
pub mod parameter_values;
mod passes;
pub(crate) mod plan_cache;
pub(crate) mod planning;
mod row_types;
pub mod runtime;
pub mod schemas;
pub mod state;
pub mod views;
pub(crate) mod whole_scans;

pub(crate) use contexts::{bare_options, options_of, over};
use contexts::{nested_context, task_context};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

/// A DataFusion session in which one statement is planned and run.
pub struct Query {
    /// DataFusion's.
    pub context: SessionContext,
    /// What it sees.
    pub view: View,
    /// Where INSERT looks for keys that are taken, if other parts of the statement have written.
    keys: Option<View>,
    statement: Arc<StatementContext>,
    /// The values of `$1`, `$2`, …; none while the statement is only analysed.
    parameters: Vec<ScalarValue>,
    /// Their types, where they are known.
    types: Vec<Option<ParameterType>>,
}

impl Query {
    /// What the statement knows.
    pub(crate) fn statement_context(&self) -> &Arc<StatementContext> {
        &self.statement
    }

    /// Notes a right that the statement needs on a table.
    pub(crate) fn needs(&self, table: &Table, privileges: Privileges) {
        self.statement.needs.add(&self.view.snapshot, table.id.0, privileges, None);
    }

    /// Makes the session for one statement: tables of the view's snapshot (with a leading `tenant` column for the
    /// operator), `pg_catalog`, `information_schema`, functions, PostgreSQL's semantics.
    ///
    /// # Errors
    /// What a definition contradicts.
    pub fn new(statement: Arc<StatementContext>, view: View) -> Result<Self> {
        let context = over(statement.clone(), &view);
        Ok(Self { context, view, keys: None, statement, parameters: Vec::new(), types: Vec::new() })
    }

    /// The session for a plan that was kept: without functions, which only texts name. A copy of all of them takes as
    /// long as a short query.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub(crate) fn of_cached(statement: Arc<StatementContext>, view: View) -> Result<Self> {
        let context = contexts::of_plans(Arc::clone(&statement), &view);
        Ok(Self { context, view, keys: None, statement, parameters: Vec::new(), types: Vec::new() })
    }

    /// The same with functions, for texts.
    pub(crate) fn for_texts(self) -> Self {
        Self { context: over(Arc::clone(&self.statement), &self.view), ..self }
    }

    /// The same with the values of parameters: what `FOR SYSTEM_TIME AS OF` needs before anything is planned.
    #[must_use]
    pub fn with_parameters(self, parameters: &parameter_values::ParameterValues) -> Self {
        let types = parameters.types().iter().cloned().map(Some).collect();
        Self { parameters: parameters.to_vec(), types, ..self }
    }

    /// The same where keys that are taken are looked for elsewhere than in the view.
    #[must_use]
    pub(crate) fn with_keys(self, keys: View) -> Self {
        Self { keys: Some(keys), ..self }
    }

    /// Where INSERT looks for keys that are taken.
    pub(crate) fn keys(&self) -> &View {
        self.keys.as_ref().unwrap_or(&self.view)
    }

    /// The same with the types of parameters that the client declares.
    #[must_use]
    pub fn with_types(self, types: &[Option<ParameterType>]) -> Self {
        Self { types: types.to_vec(), ..self }
    }

    /// Plans a parsed query, with types of parameters inferred where they can be.
    ///
    /// # Errors
    /// What is wrong with the query, with its SQLSTATE.
    pub async fn plan(&self, query: &ast::Statement) -> Result<LogicalPlan> {
        let mut query = match self.timestamps(query).await? {
            None => query.clone(),
            Some(timestamps) => as_of::at_timestamps(query, &timestamps, &self.view)?,
        };
        crate::pg::plan::parameters::declare(&mut query, &self.types);
        plan(&self.context, query).await
    }

    /// Plans the query of a view as the view's owner reads it, also of one that keeps rows.
    ///
    /// # Errors
    /// 54000 beyond the bounds of views; a fault of ours.
    pub(crate) async fn plan_of_view(&self, view: &SqlView) -> Result<LogicalPlan> {
        let rows = schemas::Rows::of(&self.view);
        let opened = views::open(view, &self.statement, &rows, &views::Nesting::default()).await?;
        let name = TableReference::bare(view.name.as_str());
        Ok(LogicalPlanBuilder::scan(name, provider_as_source(opened), None)?.build()?)
    }

    /// Writes out what NATURAL and USING merge, by the columns that there are now: for a query that is kept.
    ///
    /// # Errors
    /// 42702.
    pub async fn write_out(&self, query: &mut ast::Statement) -> Result<()> {
        natural_join::resolve(query, &columns_of(&self.context)).await
    }

    /// The timestamps of a query, in order: `None` when it has none. While parameters have no values none is known.
    async fn timestamps(&self, query: &ast::Statement) -> Result<Option<Vec<Option<i64>>>> {
        let Some((timestamps_query, count)) = as_of::timestamps_query(query)? else { return Ok(None) };
        let asked = plan(&self.context, timestamps_query).await?;
        if self.parameters.is_empty() && !asked.get_parameter_names()?.is_empty() {
            return Ok(Some(vec![None; count]));
        }
        let asked =
            if self.parameters.is_empty() { asked } else { asked.with_param_values(self.parameters.clone())? };
        let answer: Vec<RecordBatch> = run(&self.context, asked).await?.try_collect().await?;
        as_of::answer(&answer, self.statement.now_micros, self.view.pin.now_micros).map(Some)
    }

    /// The types of the parameters of a query and its plan: those that `hints` declare, else those inferred, else text.
    ///
    /// # Errors
    /// Those of [`parameters()`].
    pub async fn parameters(
        &self,
        query: &ast::Statement,
        plan: &LogicalPlan,
        hints: &[Option<ParameterType>],
    ) -> Result<Vec<ParameterType>> {
        let mut hints = hints.to_vec();
        if let Some((timestamps_query, _)) = as_of::timestamps_query(query)? {
            crate::pg::plan::parameters::hint(&self::plan(&self.context, timestamps_query).await?, &mut hints)?;
        }
        parameters(plan, &hints)
    }

    /// The columns of a plan as the client receives them: those of the plan whose types are settled, since a
    /// CASE or a UNION of an integer and a float is an integer before. With parameters of open types the plan is taken
    /// as it is.
    pub async fn columns(plan: &LogicalPlan) -> SchemaRef {
        if planning::is_short_plan(plan) {
            return Self::columns_of(plan);
        }
        let plan = plan.clone();
        planning::away(async move { Self::columns_of(&plan) }).await
    }

    fn columns_of(plan: &LogicalPlan) -> SchemaRef {
        let state = state::state();
        let settled = state.analyzer().execute_and_check(plan.clone(), state.config_options(), |_, _| {});
        let raw = plan.schema().as_arrow();
        match settled {
            Ok(settled) => settled_columns(raw, &settled),
            Err(_) => crate::pg::syntax::column_names::client_schema(raw),
        }
    }

    /// A plan without parameters that runs at once, analysed, and its [columns](Self::columns).
    ///
    /// # Errors
    /// 42501; what the analyzer finds.
    pub(crate) async fn settle(&self, plan: LogicalPlan) -> Result<(SchemaRef, LogicalPlan)> {
        authorize(&self.context)?;
        let raw = Arc::clone(plan.schema());
        let settled = if planning::is_short_plan(&plan) {
            let state = self.context.state_ref();
            let state = state.read();
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?
        } else {
            let state = contexts::for_plans(&self.context, &self.statement);
            planning::away(async move { state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}) })
                .await?
        };
        Ok((settled_columns(raw.as_arrow(), &settled), settled))
    }

    /// Runs a plan that was [analysed](Self::settle).
    ///
    /// # Errors
    /// What planning further finds.
    pub(crate) async fn run_settled(&self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        authorize(&self.context)?;
        let optimized = if planning::is_short_plan(&plan) {
            let state = self.context.state_ref();
            let state = state.read();
            state.optimizer().optimize(plan, &*state, |_, _| {})?
        } else {
            let state = self.context.state();
            planning::away(async move { state.optimizer().optimize(plan, &state, |_, _| {}) }).await?
        };
        let physical = self.physical(&optimized).await?;
        self.run_physical(&optimized, physical)
    }

    /// Runs a plan whose parameters were replaced by values.
    ///
    /// # Errors
    /// What planning further finds.
    pub async fn run(&self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        let optimized = self.optimize(&plan).await?;
        let physical = self.physical(&optimized).await?;
        self.run_physical(&optimized, physical)
    }

    /// Optimises a plan.
    ///
    /// # Errors
    /// What DataFusion finds.
    pub(crate) async fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        Ok(optimize(&self.context, plan).await?)
    }

    /// The physical plan of one that was optimised.
    ///
    /// # Errors
    /// What planning further finds.
    pub(crate) async fn physical(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        authorize(&self.context)?;
        Ok(physical_in(contexts::for_plans(&self.context, &self.statement), plan).await?)
    }

    /// Runs a physical plan, which the optimised one became.
    ///
    /// # Errors
    /// 53400.
    pub(crate) fn run_physical(
        &self,
        plan: &LogicalPlan,
        physical: Arc<dyn ExecutionPlan>,
    ) -> Result<SendableRecordBatchStream> {
        self.statement.authorize()?;
        note_plan(&self.statement, &physical);
        provider::within_budget(&physical)?;
        Ok(for_client(joins::run(&self.context, plan, physical)?))
    }

    /// Runs a [short](inline::is_short) physical plan.
    ///
    /// # Errors
    /// 53400.
    pub(crate) fn run_short(&self, physical: Arc<dyn ExecutionPlan>) -> Result<SendableRecordBatchStream> {
        self.statement.authorize()?;
        note_plan(&self.statement, &physical);
        provider::within_budget(&physical)?;
        Ok(for_client(runtime::run(physical, task_context(&self.context))?))
    }
}

/// The columns of an analysed plan as the client receives them; `raw` are those that were planned.
fn settled_columns(raw: &Schema, settled: &LogicalPlan) -> SchemaRef {
    let fields = raw.fields().iter().zip(settled.schema().fields()).map(|(raw, settled)| {
        let named = crate::pg::functions::json::kind(settled) != crate::pg::functions::json::kind(raw)
            || crate::pg::types::enums::of(settled) != crate::pg::types::enums::of(raw);
        if named || counts(raw.data_type(), settled.data_type()) { settled.clone() } else { raw.clone() }
    });
    crate::pg::syntax::column_names::client_schema(&Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether a column's type is the settled one, where it differs from the one that was planned: it holds values that the
/// other would cut, or cannot hold at all. Elsewhere types as they were planned are PostgreSQL's: a sum of integers is
/// a bigint, however it is computed.
fn counts(raw: &DataType, settled: &DataType) -> bool {
    match (raw, settled) {
        (DataType::Null, settled) => !settled.is_null(),
        (raw, DataType::Decimal128(_, scale)) if raw.is_integer() => *scale > 0,
        // The form of a numeric that has the digits of all.
        (raw, settled) if numeric::is_exact(settled) => numeric::is_number(raw),
        (raw, settled) if raw.is_integer() && settled.is_integer() => raw.primitive_width() < settled.primitive_width(),
        (raw, settled) if raw.is_integer() || matches!(raw, DataType::Decimal128(..)) => settled.is_floating(),
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Date32, DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, raw), DataType::Timestamp(_, settled)) => raw.is_none() && settled.is_some(),
        (DataType::List(raw), DataType::List(settled)) => counts(raw.data_type(), settled.data_type()),
        (DataType::Utf8, settled) => settled.is_temporal() || matches!(settled, DataType::List(_)),
        _ => false,
    }
}

/// Plans a query for the names of its columns alone.
fn columns_of<'a>(
    context: &'a SessionContext,
) -> impl Fn(ast::Query) -> BoxFuture<'a, Option<Vec<String>>> + Send + Sync + 'a {
    move |query| {
        Box::pin(async move {
            let plan = plan(context, ast::Statement::Query(Box::new(query))).await.ok()?;
            Some(plan.schema().fields().iter().map(|field| field.name().clone()).collect())
        })
    }
}

/// Plans a query in a session; one that may take long on the threads of [`planning`].
pub(crate) async fn plan(context: &SessionContext, query: ast::Statement) -> Result<LogicalPlan> {
    crate::pg::syntax::expansion::check(&query)?;
    if planning::is_short_query(&query) {
        return Box::pin(plan_here(context, query)).await;
    }
    let context = context.clone();
    planning::away(async move { plan_here(&context, query).await }).await
}

async fn plan_here(context: &SessionContext, mut query: ast::Statement) -> Result<LogicalPlan> {
    let known = Arc::clone(StatementContext::within(context.state_ref().read().config_options())?);
    row_types::expand(&known, &mut query)?;
    known.type_names().resolve(&mut query);
    passes::run(&mut query, &columns_of(context)).await?;
    domains::expand(context, &known, &mut query).await?;
    // Of whatever casts there are by now.
    crate::pg::plan::cast_names::mark(&mut query);
    let relations = crate::pg::syntax::missing_from::Relations::of(&query);
    let names = crate::pg::plan::outer_names::Names::of(&query);
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(query));
    let plan = statement_to_plan(context, statement).await;
    let typed = plan.and_then(constant_rows::in_columns).and_then(|plan| {
        SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false)
            .verify_plan(&plan)?;
        names.check(&plan)?;
        let plan = crate::pg::plan::subquery_order::kept(crate::pg::plan::materialized::shared(plan)?)?;
        // A query of a UNION may have a CASE, and a CASE a column of one.
        let plan = crate::pg::plan::unions::typed(numbers::typed_cases(plan)?)?;
        let plan = crate::pg::plan::unions::typed(numbers::typed_cases(plan)?)?;
        crate::pg::workarounds::grouping_set_values::as_columns(crate::pg::plan::parameters::infer(plan)?)
    });
    Ok(typed.map_err(|error| relations.told(error))?)
}

/// DataFusion's plan of a statement. Where all of its relations are known at once, as they mostly are, the state with
/// its functions is not copied.
async fn statement_to_plan(
    context: &SessionContext,
    statement: datafusion::sql::parser::Statement,
) -> PlanResult<LogicalPlan> {
    let at_once = planning::at_once(context.state_ref().read().statement_to_plan(statement.clone()));
    match at_once {
        Some(plan) => plan,
        None => context.state().statement_to_plan(statement).await,
    }
}

/// Runs a plan in a session.
pub(crate) async fn run(context: &SessionContext, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
    let optimized = optimize(context, &plan).await?;
    let physical = physical(context, &optimized).await?;
    note_plan(StatementContext::within(context.state_ref().read().config_options())?, &physical);
    provider::within_budget(&physical)?;
    Ok(for_client(joins::run(context, &optimized, physical)?))
}

/// Notes a plan, for a statement that turns out to be slow: only then its outline is written.
fn note_plan(statement: &StatementContext, plan: &Arc<dyn ExecutionPlan>) {
    if let Some(ran) = statement.ran.as_ref().and_then(Weak::upgrade) {
        *ran.lock() = Some(Arc::clone(plan));
    }
}

/// Optimises a plan; one that may take long on the threads of [`planning`].
pub(crate) async fn optimize(context: &SessionContext, plan: &LogicalPlan) -> PlanResult<LogicalPlan> {
    authorize(context)?;
    if constant_rows::has_many_values(plan)? {
        // Parameters have values by now.
        let plan = constant_rows::in_columns(plan.clone())?;
        let state = context.state();
        return planning::away(async move { state.optimize(&plan) }).await;
    }
    if planning::is_short_plan(plan) {
        return context.state_ref().read().optimize(plan);
    }
    let (state, plan) = (context.state(), plan.clone());
    planning::away(async move { state.optimize(&plan) }).await
}

/// The physical plan of one that was optimised; one that may take long on the threads of [`planning`].
pub(crate) async fn physical(context: &SessionContext, plan: &LogicalPlan) -> PlanResult<Arc<dyn ExecutionPlan>> {
    authorize(context)?;
    physical_in(context.state(), plan).await
}

async fn physical_in(state: SessionState, plan: &LogicalPlan) -> PlanResult<Arc<dyn ExecutionPlan>> {
    // Parameters have values by now.
    let narrowed = crate::provider::narrowed_copy(plan)?;
    let plan = narrowed.as_ref().unwrap_or(plan);
    if planning::is_short_plan(plan) {
        return state.query_planner().create_physical_plan(plan, &state).await;
    }
    let plan = plan.clone();
    planning::away(async move { state.query_planner().create_physical_plan(&plan, &state).await }).await
}

/// Checks that the statement's role has the rights that its plan needs: before anything is read for it, statistics
/// included.
///
/// # Errors
/// 42501.
pub(crate) fn authorize(context: &SessionContext) -> PlanResult<()> {
    let state = context.state_ref();
    let authorized = StatementContext::within(state.read().config_options())?.authorize();
    authorized.map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The rows with the names and types of columns that the client receives.
fn for_client(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = crate::pg::syntax::column_names::client_schema(&rows.schema());
    let shown = schema.clone();
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(shown.clone(), batch.columns().to_vec(), &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Query").field("view", &self.view).finish_non_exhaustive()
    }
}
