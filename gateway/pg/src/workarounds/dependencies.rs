//! What determines what in the rows of an aggregation.
//!
//! DataFusion 55.2 lets a key of one relation of a join determine all columns of an aggregation over the join, also
//! those of other relations (`aggregate_functional_dependencies`). Then ORDER BY leaves out columns that it takes for
//! determined, DISTINCT is left out, and groups are put together: `SELECT DISTINCT o.id, l.n FROM o JOIN l … ORDER BY
//! 1, 2` came in no order of `n`. It also takes a key for one of the rows that `unnest` makes of a row. So the schemas
//! of a plan are put right ([`exact`]) before each rule that looks at dependencies ([`before`]), and while a text is
//! planned at each relation of FROM ([`Relations`]), since GROUP BY is filled up with what its columns determine.

use super::each_node::each_node;
use datafusion::{
    common::{
        DFSchema, Dependency, FunctionalDependence, FunctionalDependencies, Result,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{
        Aggregate, Distinct, Expr, LogicalPlan, Unnest,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    optimizer::{OptimizerConfig, OptimizerRule},
    sql::sqlparser::ast::TableFactor,
};
use std::{cell::Cell, sync::Arc};

/// The names of the optimizer's rules that look at dependencies.
const RULES: [&str; 4] = ["eliminate_join", REPLACE_DISTINCT, "eliminate_duplicated_expr", "optimize_projections"];

const REPLACE_DISTINCT: &str = "replace_distinct_aggregate";

/// The rules that run before one of the optimizer's, so that it sees dependencies as they are.
pub fn before(rule: &dyn OptimizerRule) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut before: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    if RULES.contains(&rule.name()) {
        before.push(Arc::new(Dependencies));
    }
    if rule.name() == REPLACE_DISTINCT {
        before.push(each_node("distincts", without_distinct));
    }
    before
}

/// Puts the dependencies of a plan right.
#[derive(Debug)]
struct Dependencies;

impl OptimizerRule for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        exact(plan)
    }
}

/// `DISTINCT` as an aggregation, the innermost first, each with the right dependencies: DataFusion's own rule, which
/// runs next, finds none left, and would take one for needless by what it makes of another.
fn without_distinct(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Distinct(Distinct::All(input)) = node else { return Ok(Transformed::no(node)) };
    let columns = input.schema().columns();
    if columns.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    }
    let is_distinct = input
        .schema()
        .functional_dependencies()
        .iter()
        .any(|key| key.mode == Dependency::Single && (0..columns.len()).eq(key.source_indices.iter().copied()));
    if is_distinct {
        return Ok(Transformed::yes(Arc::unwrap_or_clone(input)));
    }
    let groups = columns.into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregated(input, groups, Vec::new())?)))
}

/// An aggregation with the right dependencies.
fn aggregated(input: Arc<LogicalPlan>, groups: Vec<Expr>, aggregates: Vec<Expr>) -> Result<Aggregate> {
    let mut aggregate = Aggregate::try_new(input, groups, aggregates)?;
    let dependencies = of(&aggregate)?;
    aggregate.schema = with(&aggregate.schema, dependencies)?;
    Ok(aggregate)
}

/// Puts the dependencies of the relations of FROM right when they are planned.
#[derive(Debug)]
pub struct Relations;

thread_local! {
    /// Whether the relation that is planned next is one that [`Relations`] has asked for.
    static IS_ASKED: Cell<bool> = const { Cell::new(false) };
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        // Queries, and names of queries of WITH.
        let is_query = matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { .. });
        if IS_ASKED.take() || !is_query {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        IS_ASKED.set(true);
        let plan = context.plan(relation);
        IS_ASKED.set(false);
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(exact(plan?)?.data, None))))
    }
}

/// The plan with its dependencies put right.
///
/// # Errors
/// What DataFusion finds.
fn exact(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_wrong = false;
    plan.apply_with_subqueries(|node| {
        is_wrong |= match node {
            LogicalPlan::Aggregate(aggregate) => {
                let has_keys = !aggregate.input.schema().functional_dependencies().is_empty();
                has_keys && *aggregate.schema.functional_dependencies() != of(aggregate)?
            }
            LogicalPlan::Unnest(unnest) => !unnest.schema.functional_dependencies().is_empty(),
            _ => false,
        };
        Ok(if is_wrong { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_wrong {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| {
        Ok(Transformed::yes(match node {
            LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
                LogicalPlan::Aggregate(aggregated(input, group_expr, aggr_expr)?)
            }
            LogicalPlan::Unnest(unnest) => {
                let schema = with(&unnest.schema, FunctionalDependencies::empty())?;
                LogicalPlan::Unnest(Unnest { schema, ..unnest })
            }
            other => other.recompute_schema()?,
        }))
    })
}

fn with(schema: &DFSchema, dependencies: FunctionalDependencies) -> Result<Arc<DFSchema>> {
    Ok(Arc::new(schema.clone().with_functional_dependencies(dependencies)?))
}

/// What determines the columns of an aggregation: a key of its input that determines all that is grouped by, or else
/// all of that together.
fn of(aggregate: &Aggregate) -> Result<FunctionalDependencies> {
    let groups = aggregate.group_expr_len()?;
    let is_set = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
    if groups == 0 || is_set {
        return Ok(FunctionalDependencies::empty());
    }
    let all: Vec<usize> = (0..aggregate.schema.fields().len()).collect();
    let input = aggregate.input.schema();
    let names = input.field_names();
    let place = |by: &Expr| {
        let name = by.schema_name().to_string();
        names.iter().position(|field| *field == name)
    };
    let places: Vec<Option<usize>> = aggregate.group_expr.iter().map(place).collect();
    let keyed = input.functional_dependencies().iter().find_map(|key| {
        let determined = |place: &Option<usize>| {
            place.is_some_and(|place| key.source_indices.contains(&place) || key.target_indices.contains(&place))
        };
        if key.nullable || places.len() != groups || !places.iter().all(determined) {
            return None;
        }
        let source = |field: &usize| places.iter().position(|place| *place == Some(*field));
        let sources: Option<Vec<usize>> = key.source_indices.iter().map(source).collect();
        Some(FunctionalDependence::new(sources?, all.clone(), false).with_mode(Dependency::Single))
    });
    let together = || {
        let nullable = aggregate.schema.fields().iter().take(groups).any(|field| field.is_nullable());
        FunctionalDependence::new((0..groups).collect(), all.clone(), nullable).with_mode(Dependency::Single)
    };
    Ok(FunctionalDependencies::new(vec![keyed.unwrap_or_else(together)]))
}
