//! Queries of WITH that are computed once, however often their name is read: what PostgreSQL does with each that is
//! read twice.
//!
//! DataFusion plans such a query wherever its name stands. That lets conditions there become key ranges, and the rows
//! are the same unless a function in it is volatile: `WITH x AS (SELECT nextval('s') AS n) SELECT * FROM x a, x b`. So
//! a query that is read twice and has a volatile function, or says `MATERIALIZED`, is [marked](mark) in the syntax
//! tree; in the plan each use becomes a [`Materialized`] node of the same number, whose physical nodes share the
//! [rows](crate::exec::materialized::Shared).

use crate::{error::Result, functions::VOLATILE};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DFSchemaRef, Result as PlanResult, tree_node::Transformed},
    logical_expr::{
        Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_plan::ExecutionPlan,
    physical_planner::{ExtensionPlanner, PhysicalPlanner},
    sql::sqlparser::ast::{
        self, CteAsMaterialized, ObjectName, Query, SetExpr, TableFactor, Visit, With, visit_expressions,
        visit_relations,
    },
};
use std::{
    collections::HashSet,
    fmt,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The prefix of the name of a marked query; a number follows that is unique in the process.
const MARK: &str = "keyspan materialized ";

/// Marks the queries of WITH that are computed once: of the outermost one, and of those in FROM and in other queries of
/// WITH. A subquery elsewhere, and one behind LATERAL, may be evaluated for each row.
///
/// # Errors
/// XX000 if the text of the marker is no query, which is a bug.
pub fn mark(statement: &mut ast::Statement) -> Result<()> {
    let ast::Statement::Query(query) = statement else { return Ok(()) };
    mark_query(query)
}

fn mark_query(query: &mut Query) -> Result<()> {
    query.with.iter_mut().flat_map(|with| &mut with.cte_tables).try_for_each(|cte| mark_query(&mut cte.query))?;
    mark_body(&mut query.body)?;
    mark_with(query)
}

fn mark_body(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => {
            for from in &mut select.from {
                let joined = from.joins.iter_mut().map(|join| &mut join.relation);
                for factor in std::iter::once(&mut from.relation).chain(joined) {
                    if let TableFactor::Derived { lateral: false, subquery, .. } = factor {
                        mark_query(subquery)?;
                    }
                }
            }
            Ok(())
        }
        SetExpr::Query(query) => mark_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            mark_body(left)?;
            mark_body(right)
        }
        _ => Ok(()),
    }
}

fn mark_with(query: &mut Query) -> Result<()> {
    let Some(with) = &query.with else { return Ok(()) };
    let volatile = volatile(with);
    let once = |cte: &ast::Cte| {
        let name = crate::ident::fold(&cte.alias.name);
        let wanted = cte.materialized == Some(CteAsMaterialized::Materialized) || volatile.contains(&name);
        wanted && count(&*query, &name) > 1 && count(&*cte.query, &name) == 0
    };
    let wanted: Vec<bool> = with.cte_tables.iter().map(once).collect();
    let ctes = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
    for (cte, _) in ctes.zip(wanted).filter(|(_, wanted)| *wanted) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{MARK}{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut outer = crate::syntax::build::parsed_query(&format!("SELECT * FROM (SELECT 1) AS \"{name}\""))?;
        if let SetExpr::Select(select) = outer.body.as_mut()
            && let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
        {
            std::mem::swap(subquery, &mut cte.query);
            cte.query = outer;
        }
    }
    Ok(())
}

/// The names of the queries of a WITH that are volatile.
pub fn volatile(with: &With) -> HashSet<String> {
    let mut found = HashSet::new();
    for cte in &with.cte_tables {
        let mut names = found.iter();
        if calls_volatile(&cte.query) || names.any(|name: &String| count(&*cte.query, name) > 0) {
            found.insert(crate::ident::fold(&cte.alias.name));
        }
    }
    found
}

/// How often a statement reads a relation by a name.
pub fn count<T: Visit>(tree: &T, name: &str) -> usize {
    let mut count = 0;
    let _ = visit_relations(tree, |relation: &ObjectName| {
        let is_name = matches!(relation.0.as_slice(), [part] if part.as_ident().is_some_and(|part| crate::ident::fold(part) == name));
        count += usize::from(is_name);
        ControlFlow::<()>::Continue(())
    });
    count
}

/// Whether a query calls a function that may give another value each time.
pub fn calls_volatile(query: &Query) -> bool {
    let found = visit_expressions(query, |expr| {
        let ast::Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(crate::ident::fold);
        let is_volatile = name.is_some_and(|name| {
            // `clock_timestamp()` is stable to the planner, so that it may be a default, but volatile to PostgreSQL.
            name == "clock_timestamp" || VOLATILE.contains(&name.as_str())
        });
        if is_volatile { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

/// The rows of a query that is computed once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
struct Materialized {
    number: usize,
    input: LogicalPlan,
}

/// The plan with nodes where marked queries are.
///
/// # Errors
/// DataFusion's.
pub fn shared(plan: LogicalPlan) -> PlanResult<LogicalPlan> {
    let shared = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::SubqueryAlias(mut alias) = node else { return Ok(Transformed::no(node)) };
        let number = alias.alias.table().strip_prefix(MARK).and_then(|number| number.parse().ok());
        // Those of a view have a node already.
        let (Some(number), false) = (number, is_materialized(&alias.input)) else {
            return Ok(Transformed::no(LogicalPlan::SubqueryAlias(alias)));
        };
        let node = Arc::new(Materialized { number, input: alias.input.as_ref().clone() });
        alias.input = Arc::new(LogicalPlan::Extension(Extension { node }));
        Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
    })?;
    Ok(shared.data)
}

fn is_materialized(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<Materialized>())
}

impl UserDefinedLogicalNodeCore for Materialized {
    fn name(&self) -> &str {
        "Materialized"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Materialized")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> PlanResult<Self> {
        Ok(Self { number: self.number, input: inputs.pop().unwrap_or_else(|| self.input.clone()) })
    }
}

/// Plans the node.
pub(crate) struct MaterializedPlanner;

#[async_trait]
impl ExtensionPlanner for MaterializedPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [child]) = (node.as_any().downcast_ref::<Materialized>(), inputs) else { return Ok(None) };
        Ok(Some(Arc::new(crate::exec::materialized::MaterializedExec::new(node.number, Arc::clone(child)))))
    }
}
