//! PreparedPlan that prepared statements keep, so that only what is new is planned anew.
//!
//! ```text
//! Parse     statement ──planned──▶ a plan with placeholders
//! Execute   ──optimised, once──▶ kept, with placeholders ──values, and the rows that the statement sees──▶ the physical plan
//! ```
//!
//! A plan is kept if nothing but the statement, the catalog and the session's settings made it what it is
//! ([`may_be_kept`]): no function such as `now()` and no text such as `'today'`, which become values, no relation of
//! the system, no moment of the past, no subquery that runs for each row. It serves as long as catalog and settings are
//! what they were ([`CacheKey`]). The optimizer has to know the numbers of LIMIT and OFFSET: a plan serves those that
//! it was made with.
//!
//! Filters with placeholders are promised to DataFusion whatever they are, so that they come to the scan, and are given
//! to it with values: it makes ranges of keys of them, and filters for what is no range (`provider::table`). A filter
//! with a value is simplified once more. Of a short query's physical plan all but the scan is kept too ([`rebind`]).

use super::{Query, parameter_values::ParameterValues};
use crate::lock::Mutex;
use crate::pg::plan::placeholders::has_placeholder;
use crate::{
    pg::{
        datetime::moments::depends_on_now,
        error::Result,
        plan::{apply::outer_columns, casts::reads_time, constant_rows},
        types::ParameterType,
    },
    provider::KeyspanTable,
    rights::Needs,
    view::View,
};
use arrow::datatypes::Field;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    datasource::{provider_as_source, source_as_provider},
    error::Result as PlanResult,
    logical_expr::{Expr, LogicalPlan, TableScan, Volatility, expr::Placeholder, simplify::SimplifyContext},
    optimizer::simplify_expressions::ExprSimplifier,
    physical_plan::ExecutionPlan,
    scalar::ScalarValue,
    sql::sqlparser::ast,
};
use keyspan_catalog::Snapshot;
use rebind::Template;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};
use tokio::sync::OwnedSemaphorePermit;

mod rebind;
#[cfg(test)]
mod tests;

/// What a plan depends on: the catalog's snapshot and the session's settings.
#[derive(Debug)]
pub(crate) struct CacheKey {
    snapshot: Arc<Snapshot>,
    settings: BTreeMap<String, String>,
}

impl PartialEq for CacheKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot) && self.settings == other.settings
    }
}

impl CacheKey {
    /// The key for a snapshot and settings.
    pub(crate) fn new(snapshot: Arc<Snapshot>, settings: BTreeMap<String, String>) -> Self {
        Self { snapshot, settings }
    }

    fn of(query: &Query) -> Self {
        Self::new(Arc::clone(&query.view.snapshot), query.statement.settings.clone())
    }

    fn is(&self, query: &Query) -> bool {
        Arc::ptr_eq(&self.snapshot, &query.view.snapshot) && self.settings == query.statement.settings
    }
}

/// What is kept of a statement.
#[derive(Default)]
enum Entry {
    /// Nothing yet.
    #[default]
    None,
    /// The whole query and its plan, for a statement that runs at once and once.
    Ready(Box<(Query, LogicalPlan)>),
    /// Its plan, with placeholders.
    Planned(Arc<Plan>),
    /// Its optimised plan, with placeholders, and the values that some of them have to have: their numbers from 0.
    Optimized(Arc<Plan>, Vec<(usize, ScalarValue)>),
    /// That nothing may be kept.
    Never(CacheKey),
}

struct Plan {
    key: CacheKey,
    plan: LogicalPlan,
    /// The rights that it needs.
    needs: Arc<Needs>,
    permit: Option<Arc<OwnedSemaphorePermit>>,
    /// What is kept of its physical plan, once it was a short one.
    physical: OnceLock<Template>,
}

/// The plan of a prepared query.
#[derive(Default)]
pub(crate) struct PreparedPlan(Mutex<Entry>);

impl fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreparedPlan")
    }
}

impl PreparedPlan {
    /// Of a query that was planned with placeholders, whose types are `types`.
    pub(crate) fn of(query: &Query, plan: &LogicalPlan, types: &[ParameterType]) -> Self {
        Self(Mutex::new(planned(query, plan, types)))
    }

    /// Of a query that runs at once, and once: its plan is [analysed](Query::settle).
    pub(crate) fn ready(query: Query, plan: LogicalPlan) -> Self {
        Self(Mutex::new(Entry::Ready(Box::new((query, plan)))))
    }

    /// The query that runs at once.
    pub(crate) fn take_ready(&self) -> Option<(Query, LogicalPlan)> {
        let mut kept = self.0.lock();
        match std::mem::take(&mut *kept) {
            Entry::Ready(ready) => Some(*ready),
            other => {
                *kept = other;
                None
            }
        }
    }

    /// Whether something is kept of the plan, as far as is known.
    pub(crate) fn may_be_kept(&self) -> bool {
        let kept = self.0.lock();
        matches!(&*kept, Entry::Planned(_) | Entry::Optimized(..))
    }

    fn keep(&self, kept: Entry) {
        *self.0.lock() = kept;
    }

    /// The optimised plan that is kept for these values, if there is one.
    fn optimized_for(&self, query: &Query, parameters: &[ScalarValue]) -> Option<Arc<Plan>> {
        let kept = self.0.lock();
        match &*kept {
            Entry::Optimized(plan, fixed)
                if plan.key.is(query) && fixed.iter().all(|(at, value)| parameters.get(*at) == Some(value)) =>
            {
                query.statement.needs.adopt(&plan.needs);
                Some(Arc::clone(plan))
            }
            _ => None,
        }
    }

    /// The physical plan of a statement with the values of its parameters, if that is kept.
    ///
    /// # Errors
    /// What is wrong with the values.
    pub(crate) async fn physical(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(plan) = self.optimized_for(query, parameters) else { return Ok(None) };
        query.statement.authorize()?;
        match plan.physical.get() {
            Some(template) => template.rebound(query, parameters).await,
            None => Ok(None),
        }
    }

    /// Keeps what may be kept of the physical plan that an optimised one became.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) fn keep_physical(
        &self,
        query: &Query,
        parameters: &[ScalarValue],
        physical: &Arc<dyn ExecutionPlan>,
    ) -> Result<()> {
        let Some(plan) = self.optimized_for(query, parameters) else { return Ok(()) };
        if plan.physical.get().is_none()
            && let Some(template) = Template::of(&plan.plan, physical)?
        {
            // Somebody else may have been faster.
            let _ = plan.physical.set(template);
        }
        Ok(())
    }

    /// The optimised plan of a statement with the values of its parameters, and the query that runs it. `query` may be
    /// one [of a kept plan](Query::of_cached).
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub(crate) async fn optimized(
        &self,
        query: Query,
        statement: &ast::Statement,
        parameters: &ParameterValues,
    ) -> Result<(Query, LogicalPlan)> {
        let options = query.context.state_ref().read().config_options().clone();
        if let Some(plan) = self.optimized_for(&query, parameters) {
            let plan = bound(&plan.plan, parameters, &query.view, &options)?;
            return Ok((query, plan));
        }
        let known = {
            let kept = self.0.lock();
            match &*kept {
                Entry::Planned(plan) if plan.key.is(&query) => {
                    query.statement.needs.adopt(&plan.needs);
                    Found::Planned(Arc::clone(plan))
                }
                Entry::Never(key) if key.is(&query) => Found::Never,
                _ => Found::Nothing,
            }
        };
        let is_new = matches!(known, Found::Nothing);
        let plan = match known {
            Found::Planned(plan) => Some(plan),
            Found::Never | Found::Nothing => None,
        };
        let query = query.for_texts();
        let plan = if is_new {
            let plan = query.plan(statement).await?;
            match planned(&query, &plan, parameters.types()) {
                Entry::Planned(plan) => Some(plan),
                kept => {
                    self.keep(kept);
                    let plan = query.optimize(&parameters.put(plan)?).await?;
                    return Ok((query, plan));
                }
            }
        } else {
            plan
        };
        if let Some(plan) = plan {
            let (with_numbers, fixed) = fixed(&plan.plan, parameters)?;
            match query.optimize(&with_numbers).await {
                Ok(optimized) if may_be_kept(&optimized)? => {
                    let bound = bound(&optimized, parameters, &query.view, &options)?;
                    let (key, permit) = (CacheKey::of(&query), plan.permit.clone());
                    let needs = plan.needs.clone();
                    let kept = Plan { key, plan: optimized, needs, permit, physical: OnceLock::new() };
                    self.keep(Entry::Optimized(Arc::new(kept), fixed));
                    return Ok((query, bound));
                }
                // These numbers may be at fault: a LIMIT below zero.
                Err(_) if !fixed.is_empty() => {}
                _ => self.keep(Entry::Never(CacheKey::of(&query))),
            }
        }
        // The error, if there is one, is that of the statement with its values.
        let plan = query.plan(statement).await?;
        let plan = query.optimize(&parameters.put(plan)?).await?;
        Ok((query, plan))
    }
}

/// What a statement finds.
enum Found {
    Planned(Arc<Plan>),
    Never,
    Nothing,
}

fn planned(query: &Query, plan: &LogicalPlan, types: &[ParameterType]) -> Entry {
    let keeps = query.statement.settings.get("plan_cache_mode").is_none_or(|mode| mode != "force_custom_plan");
    let plan = if keeps { typed(plan, types) } else { None };
    let Some(plan) = plan else { return Entry::Never(CacheKey::of(query)) };
    let permit = match &query.statement.instance {
        None => None,
        Some(instance) => match Arc::clone(&instance.resources.plans).try_acquire_owned() {
            Ok(permit) => Some(Arc::new(permit)),
            // Later there may be room.
            Err(_) => return Entry::None,
        },
    };
    let needs = query.statement.needs.clone();
    Entry::Planned(Arc::new(Plan { key: CacheKey::of(query), plan, needs, permit, physical: OnceLock::new() }))
}

/// The plan in which every placeholder has a type, and which holds nothing of the store: a pin would keep the files of
/// dropped tenants. `None` for one that may not be kept.
fn typed(plan: &LogicalPlan, types: &[ParameterType]) -> Option<LogicalPlan> {
    if !may_be_kept(plan).ok()? {
        return None;
    }
    let with_type = |placeholder: &Placeholder| {
        let kind = types.get(number(placeholder).filter(|_| placeholder.field.is_none())?)?;
        let field = Arc::new(Field::new("", kind.data.clone(), true));
        Some(Expr::Placeholder(Placeholder::new_with_field(placeholder.id.clone(), Some(field))))
    };
    released(outer_columns::bound(plan, &with_type).ok()?).ok()
}

fn released(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let released = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(Transformed::no(node)) };
        let Some(table) = table_of(&scan)? else { return Ok(Transformed::no(LogicalPlan::TableScan(scan))) };
        let source = provider_as_source(Arc::new(table.released()));
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
    })?;
    Ok(released.data)
}

/// Whether a plan is the same whenever it is made, and takes values and rows only when it runs.
fn may_be_kept(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut may = true;
    plan.apply_with_subqueries(|node| {
        may &= match node {
            LogicalPlan::TableScan(scan) => table_of(scan)?.is_some_and(|table| table.reads_newest()),
            // Its types are those of its values.
            LogicalPlan::Values(_) => !has_placeholder_in(node)?,
            _ if constant_rows::is_node(node) => true,
            LogicalPlan::Extension(_)
            | LogicalPlan::RecursiveQuery(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_) => false,
            _ => true,
        };
        may &= computes_the_same(node)?;
        Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(may)
}

/// Whether the expressions of a node are the same whenever they are planned.
fn computes_the_same(node: &LogicalPlan) -> PlanResult<bool> {
    let mut may = true;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            may &= match expr {
                Expr::ScalarFunction(call) => {
                    call.func.signature().volatility != Volatility::Stable && !reads_time(call)
                }
                // It may become a time: that of another moment.
                Expr::Literal(value, _) => !value.try_as_str().flatten().is_some_and(depends_on_now),
                _ => true,
            };
            Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(may)
}

/// Whether a plan of one relation, with nothing but items of its rows, is the same whenever it is made, but for the
/// rows.
pub(crate) fn is_the_same_whenever_made(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut may = true;
    plan.apply_with_subqueries(|node| {
        let is_plain =
            matches!(node, LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_));
        may &= is_plain && computes_the_same(node)?;
        Ok(if may { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(may)
}

fn has_placeholder_in(node: &LogicalPlan) -> PlanResult<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= has_placeholder(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The table that a scan reads; `None` for a relation of another kind.
pub(super) fn table_of(scan: &TableScan) -> PlanResult<Option<Arc<KeyspanTable>>> {
    let provider = source_as_provider(&scan.source)?;
    Ok((provider as Arc<dyn std::any::Any + Send + Sync>).downcast::<KeyspanTable>().ok())
}

/// The plan with values where LIMIT and OFFSET have placeholders, and which these are.
fn fixed(plan: &LogicalPlan, parameters: &[ScalarValue]) -> PlanResult<(LogicalPlan, Vec<(usize, ScalarValue)>)> {
    let mut wanted = Vec::new();
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Limit(_)) {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Placeholder(placeholder) = expr {
                        wanted.extend(number(placeholder));
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if wanted.is_empty() {
        return Ok((plan.clone(), Vec::new()));
    }
    let value = |placeholder: &Placeholder| {
        let at = number(placeholder).filter(|at| wanted.contains(at))?;
        parameters.get(at).map(|value| literal(placeholder, value))
    };
    let bound = outer_columns::bound(plan, &value)?;
    let fixed = wanted.iter().filter_map(|at| Some((*at, parameters.get(*at)?.clone()))).collect();
    Ok((bound, fixed))
}

/// The number of a parameter, from 0.
fn number(placeholder: &Placeholder) -> Option<usize> {
    placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// A value in the place of a placeholder: of its type, also when it is NULL.
fn literal(placeholder: &Placeholder, value: &ScalarValue) -> Expr {
    let typed = placeholder.field.as_ref().and_then(|field| value.cast_to(field.data_type()).ok());
    Expr::Literal(typed.unwrap_or_else(|| value.clone()), None)
}

/// An optimised plan with the values of its parameters, over the rows that a view sees.
fn bound(
    plan: &LogicalPlan,
    parameters: &[ScalarValue],
    view: &View,
    options: &Arc<ConfigOptions>,
) -> PlanResult<LogicalPlan> {
    let value = value_of(parameters);
    let bound = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(scan) => {
            let Some((table, filters)) = with_values_in(&scan, parameters, view, options)? else {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            };
            let source = provider_as_source(table);
            Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, filters, ..scan })))
        }
        LogicalPlan::Filter(mut filter) => {
            let with_values = outer_columns::with_values(filter.predicate, &value)?;
            filter.predicate = if with_values.transformed {
                simplified(with_values.data, filter.input.schema().as_ref().clone(), options)?
            } else {
                with_values.data
            };
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        other => outer_columns::bound_node(other, &value),
    })?;
    Ok(bound.data)
}

/// The value of a placeholder.
fn value_of(parameters: &[ScalarValue]) -> impl Fn(&Placeholder) -> Option<Expr> + '_ {
    |placeholder| number(placeholder).and_then(|at| parameters.get(at)).map(|value| literal(placeholder, value))
}

fn simplified(filter: Expr, schema: DFSchema, options: &Arc<ConfigOptions>) -> PlanResult<Expr> {
    let context = SimplifyContext::builder().with_schema(Arc::new(schema)).with_config_options(Arc::clone(options));
    ExprSimplifier::new(context.build()).simplify(filter)
}

/// The table of a scan over the rows that a view sees, and the scan's filters with values; `None` for a relation of
/// another kind.
fn with_values_in(
    scan: &TableScan,
    parameters: &[ScalarValue],
    view: &View,
    options: &Arc<ConfigOptions>,
) -> PlanResult<Option<(Arc<KeyspanTable>, Vec<Expr>)>> {
    let Some(table) = table_of(scan)? else { return Ok(None) };
    let value = value_of(parameters);
    let mut filters = Vec::with_capacity(scan.filters.len());
    for filter in &scan.filters {
        let with_values = outer_columns::with_values(filter.clone(), &value)?;
        filters.push(if with_values.transformed {
            let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
            simplified(with_values.data, schema, options)?
        } else {
            with_values.data
        });
    }
    let table = table.with_view(view, scan.filters.iter().zip(&filters));
    Ok(Some((Arc::new(table), filters)))
}
