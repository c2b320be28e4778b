//! Subqueries that name columns of the query around them, where DataFusion cannot turn them into joins.
//!
//! DataFusion makes joins of some: of those that aggregate, of `EXISTS` and `IN` in a WHERE. The others (a value that
//! may be of several rows, a LIMIT, a UNION, a join's condition, two levels of names, LATERAL) it refuses. So where a
//! node of the analysed plan has a subquery, the rule [`Correlated`] lets DataFusion's optimizer try it; if a reference
//! to the outside is left, [`unnest`] tries a join of more general form. What that leaves is evaluated as the standard
//! defines it: once for each row ([`Apply`], [`exec`](crate::exec::apply)). The node then reads the value as a column of
//! its input:
//!
//! ```text
//! Projection: a, (SELECT max(b) FROM u WHERE u.a = t.a LIMIT 1)      Projection: a, subquery_value(__value_1, __error_1)
//!   t                                                          →       Apply: value of (… u.a = $outer_7 …), with $outer_7 = t.a
//!                                                                        t
//! ```
//!
//! What a row's subquery fails with stands beside its value ([`apply_value`](crate::exec::apply_value)), and is raised
//! where the value is used: a CASE that does not come to it does not fail, as in PostgreSQL. Names are resolved in
//! [`outer_columns`].

use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{
        DFSchema, ExprSchema, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter},
    },
    config::ConfigOptions,
    functions_aggregate::expr_fn::{bool_or, count},
    logical_expr::{
        BinaryExpr, Case, Expr, ExprSchemable, FetchType, Filter, InvariantLevel, Join, JoinType, LogicalPlan,
        LogicalPlanBuilder, Operator, Projection, SkipType, Sort, Subquery,
        expr::{Exists, InSubquery, Placeholder},
        expr_rewriter::NamePreserver,
        lit,
        utils::{conjunction, split_conjunction},
    },
    optimizer::{AnalyzerRule, Optimizer, OptimizerContext},
    scalar::ScalarValue,
};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

pub mod node;
pub mod outer_columns;
mod unnest;

use node::{Apply, Kind};
use unnest::Unnesting;

/// What the names of placeholders for values of the row outside begin with: no client's begins so.
const OUTER: &str = "$outer_";

/// The rule.
#[derive(Debug, Default)]
pub struct Correlated {
    /// Which subqueries become joins.
    pub joins: Joins,
}

/// Which subqueries become joins: so that tests can compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joins {
    /// All that can and that read tables.
    #[default]
    OfTables,
    /// All that can.
    All,
    /// None: all run for each row.
    None,
}

impl AnalyzerRule for Correlated {
    fn name(&self) -> &str {
        "correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let mut walk = Walk { rule: self, options, made: 0, few: vec![false] };
        Ok(plan.rewrite(&mut walk)?.data)
    }
}

/// Rows of a LIMIT, of which each runs the subqueries of its select list by itself: a join would do so for all rows.
const FEW_ROWS: usize = 1_000;

/// One walk over a plan, from its leaves up.
struct Walk<'a> {
    rule: &'a Correlated,
    options: &'a ConfigOptions,
    /// How many subqueries became columns.
    made: usize,
    /// For each node on the way to the present one, whether a few of its rows are wanted; for the next one last.
    few: Vec<bool>,
}

impl TreeNodeRewriter for Walk<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let few = self.few.last().is_some_and(|few| *few);
        self.few.push(match &node {
            LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
                (_, FetchType::Literal(None)) => false,
                (SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => skip.saturating_add(fetch) <= FEW_ROWS,
                _ => true,
            },
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => few,
            _ => false,
        });
        Ok(Transformed::no(node))
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.few.pop();
        let few = self.few.last().is_some_and(|few| *few);
        let node = self.rule.within(node, self.options)?;
        if !is_open(&node)? || self.rule.is_left(&node, self.options)? {
            return Ok(Transformed::no(node));
        }
        let node = match &node {
            LogicalPlan::Filter(filter) if self.rule.joins != Joins::None => {
                match self.rule.apart(filter, self.options)? {
                    Apart::Nothing(whole) => return Ok(Transformed::yes(whole)),
                    Apart::Open(open) => open,
                }
            }
            _ => node,
        };
        let joins = if few { Joins::None } else { self.rule.joins };
        let mut made = Made { columns: self.made, joins, joined: false };
        let applied = applied(&node, &mut made)?;
        self.made = made.columns;
        Ok(match applied {
            // What has become a join may have subqueries of its own, which name its columns now.
            Some(applied) if made.joined => {
                let mut within = Walk { rule: self.rule, options: self.options, made: self.made, few: vec![false] };
                let walked = applied.rewrite(&mut within)?;
                self.made = within.made;
                Transformed::yes(walked.data)
            }
            Some(applied) => Transformed::yes(applied),
            None => Transformed::no(node),
        })
    }
}

/// What is made of the subqueries of a node.
struct Made {
    /// How many became columns, in the whole plan.
    columns: usize,
    joins: Joins,
    /// Whether one became a join.
    joined: bool,
}

impl Made {
    /// How a subquery over `input` becomes a join, if it does.
    fn unnesting(&self, input: &LogicalPlan, subquery: &LogicalPlan) -> Result<Option<Unnesting>> {
        match self.joins {
            Joins::None => Ok(None),
            joins => unnest::domain(input, subquery, joins == Joins::All),
        }
    }
}

/// A filter whose conjuncts are filters of their own.
enum Apart {
    /// All are left to DataFusion.
    Nothing(LogicalPlan),
    /// The topmost filter has conjuncts that are not.
    Open(LogicalPlan),
}

impl Correlated {
    /// Whether a node is left to DataFusion, which makes joins of its subqueries.
    fn is_left(&self, node: &LogicalPlan, options: &ConfigOptions) -> Result<bool> {
        Ok(self.joins != Joins::None && !draws(node)? && runs(node, options))
    }

    /// A filter cut in three: conditions without subqueries, over them those that DataFusion makes joins of, one by
    /// one, and the others above, where the fewest rows are left: one that it cannot run must not keep it from joins.
    fn apart(&self, filter: &Filter, options: &ConfigOptions) -> Result<Apart> {
        let conjuncts = split_conjunction(&filter.predicate).into_iter().cloned();
        let (mut plain, mut open) = (Vec::new(), Vec::new());
        for conjunct in conjuncts {
            let alone = LogicalPlan::Filter(Filter::try_new(conjunct.clone(), Arc::clone(&filter.input))?);
            if is_open(&alone)? { open.push((conjunct, alone)) } else { plain.push(conjunct) }
        }
        let (mut joined, mut rest) = (Vec::new(), Vec::new());
        for (conjunct, alone) in open {
            if self.is_left(&alone, options)? { joined.push(conjunct) } else { rest.push(conjunct) }
        }
        let over = |input: LogicalPlan, conditions: Option<Expr>| -> Result<LogicalPlan> {
            Ok(match conditions {
                Some(conditions) => LogicalPlan::Filter(Filter::try_new(conditions, Arc::new(input))?),
                None => input,
            })
        };
        let mut plan = over(filter.input.as_ref().clone(), conjunction(plain))?;
        for conjunct in joined {
            plan = over(plan, Some(conjunct))?;
        }
        Ok(match conjunction(rest) {
            None => Apart::Nothing(plan),
            rest => Apart::Open(over(plan, rest)?),
        })
    }

    /// The subqueries of a node that name nothing outside are queries of their own.
    fn within(&self, node: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let names = NamePreserver::new(&node);
        let own = |subquery: Subquery| -> Result<Subquery> {
            if !outer_columns::free(&subquery.subquery).is_empty() {
                return Ok(subquery);
            }
            let plan = self.analyze(subquery.subquery.as_ref().clone(), options)?;
            Ok(Subquery { subquery: Arc::new(plan), ..subquery })
        };
        let within = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| {
                Ok(match expr {
                    Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(own(subquery)?)),
                    Expr::Exists(Exists { subquery, negated }) => {
                        Transformed::yes(Expr::Exists(Exists { subquery: own(subquery)?, negated }))
                    }
                    Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                        Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery: own(subquery)?, negated }))
                    }
                    other => Transformed::no(other),
                })
            })?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        Ok(within.data)
    }
}

/// Whether a node has subqueries that DataFusion may not be able to run.
fn is_open(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && is_lateral(join)
    {
        return Ok(true);
    }
    let mut open = false;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            open |= match expr {
                Expr::ScalarSubquery(subquery) => !outer_columns::free(&subquery.subquery).is_empty(),
                Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => match node {
                    LogicalPlan::Filter(filter) => {
                        !knows_unknown(&filter.predicate) || !outer_columns::free(&subquery.subquery).is_empty()
                    }
                    _ => true,
                },
                _ => false,
            };
            Ok(if open { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(open)
}

/// Whether it makes no difference for a filter that DataFusion's joins take `IN` for false where it is unknown, because
/// of NULLs. They know the difference for a `NOT IN` that stands alone and names nothing outside.
fn knows_unknown(predicate: &Expr) -> bool {
    fn has_in(expr: &Expr) -> bool {
        expr.exists(|expr| Ok(matches!(expr, Expr::InSubquery(_)))).unwrap_or(true)
    }
    fn rises(expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                rises(left) && rises(right)
            }
            Expr::InSubquery(InSubquery { expr, negated: false, .. }) => !has_in(expr),
            other => !has_in(other),
        }
    }
    split_conjunction(predicate).into_iter().all(|part| match part {
        Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => {
            !has_in(expr) && outer_columns::free(&subquery.subquery).is_empty()
        }
        other => rises(other),
    })
}

/// Whether the right side of a join names columns of its left side.
fn is_lateral(join: &Join) -> bool {
    outer_columns::free(&join.right).iter().any(|(_, column)| join.left.schema().has_column(column))
}

/// Whether a node has a subquery that [is drawn](is_drawn) for each row: a join would evaluate it once for all.
fn draws(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && is_lateral(join)
        && outer_columns::is_volatile(&join.right)?
    {
        return Ok(true);
    }
    let mut draws = false;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            draws |= is_drawn(expr)?;
            Ok(if draws { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(draws)
}

/// Whether an expression is a correlated subquery whose value may be another for each row that is otherwise the same,
/// as `random()` and `nextval()` make it.
fn is_drawn(expr: &Expr) -> Result<bool> {
    Ok(match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) => {
            outer_columns::is_volatile(&subquery.subquery)? && !outer_columns::free(&subquery.subquery).is_empty()
        }
        _ => false,
    })
}

/// Whether DataFusion finds joins for all subqueries of a plan.
fn runs(plan: &LogicalPlan, options: &ConfigOptions) -> bool {
    if let LogicalPlan::Filter(filter) = plan
        && !knows_unknown(&filter.predicate)
    {
        return false;
    }
    if plan.check_invariants(InvariantLevel::Executable).is_err() {
        return false;
    }
    let context = OptimizerContext::new_with_config_options(Arc::new(options.clone()));
    let Ok(plan) = without_constants(plan) else { return false };
    let Ok(optimized) = Optimizer::new().optimize(plan, &context, |_, _| {}) else { return false };
    let mut left = false;
    let walked = optimized.apply_with_subqueries(|node| {
        left |= matches!(node, LogicalPlan::Subquery(_)) || names_nothing(node);
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                left |= matches!(
                    expr,
                    Expr::OuterReferenceColumn(..) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
                );
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    walked.is_ok() && !left
}

/// Whether a node names a column that no input has: DataFusion takes conditions of a subquery within a subquery to the
/// inner join, where the outermost columns are not.
fn names_nothing(node: &LogicalPlan) -> bool {
    let inputs = node.inputs();
    !inputs.is_empty()
        && node.expressions().iter().any(|expr| {
            let mut columns = expr.column_refs().into_iter();
            columns.any(|column| !inputs.iter().any(|input| input.schema().has_column(column)))
        })
}

/// A plan with placeholders for scalar subqueries that name nothing outside: they are run once, before the plan, and
/// stay where they are.
fn without_constants(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let replaced = plan.clone().transform_up(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::ScalarSubquery(subquery) if outer_columns::free(&subquery.subquery).is_empty() => {
                    let field = Arc::clone(&subquery.subquery.schema().fields()[0]);
                    Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(placeholder(), Some(field)))))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(replaced.data)
}

/// The node with its subqueries evaluated row by row beneath it; `None` where they cannot be.
fn applied(node: &LogicalPlan, made: &mut Made) -> Result<Option<LogicalPlan>> {
    match node {
        LogicalPlan::Join(join) if is_lateral(join) => lateral(join, made).map(Some),
        LogicalPlan::Join(join) => match above_or_right(join)? {
            Some(moved) => moved
                .transform_up(|node| {
                    let applied = match &node {
                        LogicalPlan::Filter(_) if is_open(&node)? => applied(&node, made)?,
                        _ => None,
                    };
                    Ok(applied.map_or_else(|| Transformed::no(node), Transformed::yes))
                })
                .map(|moved| Some(moved.data)),
            None => in_sides(join, made),
        },
        LogicalPlan::Sort(sort) if let Some(moved) = before_projection(sort)? => moved
            .transform_up(|node| {
                let applied = match &node {
                    LogicalPlan::Projection(_) if is_open(&node)? => applied(&node, made)?,
                    _ => None,
                };
                Ok(applied.map_or_else(|| Transformed::no(node), Transformed::yes))
            })
            .map(|moved| Some(moved.data)),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => beneath(node, made).map(Some),
        _ => Ok(None),
    }
}

/// `ORDER BY (subquery)` may name columns that the select list does not hand on: its value becomes an item of the list.
fn before_projection(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(None) };
    let below = projection.input.schema();
    let hidden =
        |expr: &Expr| !outer_columns::needs_only(expr, sort.input.schema()) && outer_columns::needs_only(expr, below);
    if !sort.expr.iter().any(|order| hidden(&order.expr)) {
        return Ok(None);
    }
    let (mut items, mut orders) = (projection.expr.clone(), sort.expr.clone());
    for (at, order) in orders.iter_mut().enumerate().filter(|(_, order)| hidden(&order.expr)) {
        let name = format!("__order_{at}");
        items.push(order.expr.clone().alias(name.clone()));
        order.expr = Expr::Column(datafusion::common::Column::new_unqualified(name));
    }
    let items = LogicalPlan::Projection(Projection::try_new(items, Arc::clone(&projection.input))?);
    let sorted = LogicalPlan::Sort(Sort { expr: orders, input: Arc::new(items), fetch: sort.fetch });
    let shown = sort.input.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(sorted).project(shown)?.build().map(Some)
}

/// A node over its input with the values of subqueries as further columns.
fn beneath(node: &LogicalPlan, made: &mut Made) -> Result<LogicalPlan> {
    let names = NamePreserver::new(node);
    let mut below = Below::over(node.inputs()[0].clone(), made);
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| below.replaced(expr))?;
        Ok(name.restore(rewritten.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let over = node.with_new_exprs(exprs, vec![below.input])?;
    // What hands its input's columns on must not hand on these.
    if over.schema().fields().len() == node.schema().fields().len() {
        return Ok(over);
    }
    LogicalPlanBuilder::from(over).project(node.schema().columns().into_iter().map(Expr::Column))?.build()
}

/// An input to which values of subqueries are added.
struct Below<'a> {
    input: LogicalPlan,
    /// The input before anything was added.
    base: LogicalPlan,
    known: HashMap<Expr, Expr>,
    made: &'a mut Made,
}

impl<'a> Below<'a> {
    fn over(input: LogicalPlan, made: &'a mut Made) -> Self {
        Self { base: input.clone(), input, known: HashMap::new(), made }
    }

    /// A subquery that has become a join; `None` if it is evaluated for each row.
    fn joined(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        let (Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })) = expr
        else {
            return Ok(None);
        };
        let subquery = subquery.subquery.as_ref();
        let Some(unnesting) = self.made.unnesting(&self.base, subquery)? else { return Ok(None) };
        let found = match expr {
            Expr::ScalarSubquery(_) => unnest::value(&self.input, &unnesting, subquery)?,
            Expr::InSubquery(InSubquery { expr, .. }) => unnest::is_in(&self.input, &unnesting, expr, subquery)?,
            // One run tells all rows whether a subquery that names nothing outside has any.
            _ if unnesting.is_constant() => None,
            _ => unnest::exists(&self.input, &unnesting, subquery)?,
        };
        Ok(found.map(|(input, value)| {
            self.input = input;
            self.made.joined = true;
            value
        }))
    }
    /// What stands for a subquery above the input.
    fn replaced(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        if let Some(known) = self.known.get(&expr) {
            return Ok(Transformed::yes(known.clone()));
        }
        let is_constant = |subquery: &Subquery| outer_columns::free(&subquery.subquery).is_empty();
        let joined = match &expr {
            Expr::ScalarSubquery(subquery) if is_constant(subquery) => None,
            expr => self.joined(expr)?,
        };
        if let Some(value) = joined {
            let negated = matches!(
                &expr,
                Expr::Exists(Exists { negated: true, .. }) | Expr::InSubquery(InSubquery { negated: true, .. })
            );
            let value = if negated { Expr::Not(Box::new(value)) } else { value };
            self.known.insert(expr, value.clone());
            return Ok(Transformed::yes(value));
        }
        let value = match &expr {
            Expr::ScalarSubquery(subquery) if !is_constant(subquery) => {
                self.add(Kind::Value, subquery.subquery.as_ref().clone(), None)?
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let found = self.add(Kind::Exists, subquery.subquery.as_ref().clone(), None)?;
                if *negated { Expr::Not(Box::new(found)) } else { found }
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let id = placeholder();
                let field = expr.to_field(self.input.schema())?.1;
                let wanted = Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(field)));
                let plan = among(wanted, subquery.subquery.as_ref())?;
                let found = self.add(Kind::Value, plan, Some((id, expr.as_ref().clone())))?;
                if *negated { Expr::Not(Box::new(found)) } else { found }
            }
            _ => return Ok(Transformed::no(expr)),
        };
        if !is_drawn(&expr)? {
            self.known.insert(expr, value.clone());
        }
        Ok(Transformed::yes(value))
    }

    fn add(&mut self, kind: Kind, plan: LogicalPlan, bound: Option<(String, Expr)>) -> Result<Expr> {
        self.made.columns += 1;
        let (plan, mut bindings) = closed(plan, self.input.schema())?;
        if let Some((id, expr)) = bound {
            bindings.retain(|(known, _)| *known != id);
            bindings.push((id, expr));
        }
        let input = std::mem::take(&mut self.input);
        let apply = Apply::new(input, kind, self.made.columns, plan, bindings)?;
        let value = apply.value();
        self.input = apply.into_plan();
        Ok(value)
    }
}

/// A name for a placeholder that no other has.
fn placeholder() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{OUTER}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A subquery with placeholders where it names what is outside, and what these are of a row of `schema`. What that row
/// does not have either is further outside, and stays a reference, or the placeholder that it is already.
fn closed(plan: LogicalPlan, schema: &DFSchema) -> Result<(LogicalPlan, Vec<(String, Expr)>)> {
    let mut bindings: Vec<(String, Expr)> = outer_columns::placeholders(&plan)?
        .into_iter()
        .map(|known| (known.id.clone(), Expr::Placeholder(known)))
        .collect();
    let mut replacements = HashMap::new();
    for (field, column) in outer_columns::free(&plan) {
        let id = placeholder();
        let outer = match schema.has_column(&column) {
            true => Expr::Column(column.clone()),
            false => Expr::OuterReferenceColumn(field.clone(), column.clone()),
        };
        replacements.insert(column, Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(field))));
        bindings.push((id, outer));
    }
    let plan = outer_columns::replaced(plan, &|column| replacements.get(column).cloned())?;
    Ok((outer_columns::unwrapped(plan)?, bindings))
}

/// `SELECT wanted IN (query)` as PostgreSQL decides it: true for an equal, else NULL for a NULL among what was
/// compared, else false.
fn among(wanted: Expr, query: &LogicalPlan) -> Result<LogicalPlan> {
    let item = Expr::Column(query.schema().columns().swap_remove(0));
    let equal = item.eq(wanted);
    let found = [bool_or(equal.clone()).alias("found"), count(lit(1)).alias("rows"), count(equal).alias("compared")];
    let column = |name: &str| Expr::Column(datafusion::common::Column::new_unqualified(name));
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    let decided = Expr::Case(Case::new(
        None,
        vec![
            (Box::new(column("found").is_true()), Box::new(lit(true))),
            (Box::new(column("rows").gt(column("compared"))), Box::new(unknown)),
        ],
        Some(Box::new(lit(false))),
    ));
    LogicalPlanBuilder::from(query.clone())
        .aggregate(Vec::<Expr>::new(), found)?
        .project([decided.alias("among")])?
        .build()
}

/// A join whose right side is evaluated for each row of its left side. Conditions of an outer join are the right side's
/// own.
fn lateral(join: &Join, made: &mut Made) -> Result<LogicalPlan> {
    let keys = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let condition = conjunction(keys.chain(join.filter.clone()));
    let outer = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        other => return datafusion::common::not_impl_err!("LATERAL on the right of a {other} join"),
    };
    let schema = join.left.schema();
    let mut right = join.right.as_ref().clone();
    if outer && let Some(condition) = &condition {
        let theirs = condition.clone().transform_up(|expr| match expr {
            Expr::Column(column) if schema.has_column(&column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        right = LogicalPlan::Filter(Filter::new(theirs.data, Arc::new(right)));
    }
    let joined = match made.unnesting(&join.left, &right)? {
        Some(unnesting) => unnest::rows(&join.left, &unnesting, &right, outer)?,
        None => None,
    };
    made.joined |= joined.is_some();
    let rows = match joined {
        Some(rows) => rows,
        None => {
            let (plan, bindings) = closed(right, schema)?;
            Apply::new(join.left.as_ref().clone(), Kind::Rows { outer }, 0, plan, bindings)?.into_plan()
        }
    };
    match condition {
        Some(condition) if !outer => LogicalPlanBuilder::from(rows).filter(condition)?.build(),
        _ => Ok(rows),
    }
}

/// A join's conditions with subqueries, where they are a filter as well: above an inner join, and on the right side
/// alone of a left join.
fn above_or_right(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(filter) = &join.filter else { return Ok(None) };
    let has_subquery = |expr: &Expr| {
        let mut found = false;
        let walked = expr.apply(|expr| {
            found |= matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
            Ok(TreeNodeRecursion::Continue)
        });
        walked.is_ok() && found
    };
    let (moved, kept): (Vec<_>, Vec<_>) = split_conjunction(filter).into_iter().cloned().partition(has_subquery);
    let (mut left, mut right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
    match join.join_type {
        JoinType::Inner => {}
        JoinType::Left if moved.iter().all(|expr| outer_columns::needs_only(expr, right.schema())) => {
            right = LogicalPlan::Filter(Filter::new(conjunction(moved.clone()).unwrap_or(lit(true)), Arc::new(right)));
        }
        JoinType::Right if moved.iter().all(|expr| outer_columns::needs_only(expr, left.schema())) => {
            left = LogicalPlan::Filter(Filter::new(conjunction(moved.clone()).unwrap_or(lit(true)), Arc::new(left)));
        }
        _ => return Ok(None),
    }
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        conjunction(kept),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = LogicalPlan::Join(joined);
    Ok(Some(match (join.join_type, conjunction(moved)) {
        (JoinType::Inner, Some(moved)) => LogicalPlan::Filter(Filter::new(moved, Arc::new(joined))),
        _ => joined,
    }))
}

/// A join whose conditions have subqueries that name columns of one side only: their values become columns of that
/// side. `None` where one names columns of both, or of neither.
fn in_sides(join: &Join, made: &mut Made) -> Result<Option<LogicalPlan>> {
    let Some(mut filter) = join.filter.clone() else { return Ok(None) };
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
        return Ok(None);
    }
    let names_only = |expr: &Expr, schema: &DFSchema| {
        let of = |plan: &LogicalPlan| outer_columns::free(plan).iter().all(|(_, column)| schema.has_column(column));
        match expr {
            Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => of(&subquery.subquery),
            Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
                of(&subquery.subquery) && outer_columns::needs_only(expr, schema)
            }
            _ => false,
        }
    };
    let mut sides = Vec::with_capacity(2);
    for side in [&join.left, &join.right] {
        let mut below = Below::over(side.as_ref().clone(), made);
        let replaced = filter.transform_up(|expr| match names_only(&expr, side.schema()) {
            true => below.replaced(expr),
            false => Ok(Transformed::no(expr)),
        })?;
        filter = replaced.data;
        sides.push(Arc::new(below.input));
    }
    let is_left = |expr: &Expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_)));
    if filter.exists(is_left)? {
        return Ok(None);
    }
    let [left, right] = <[Arc<LogicalPlan>; 2]>::try_from(sides)
        .map_err(|_| datafusion::common::internal_datafusion_err!("a join has two sides"))?;
    let joined = Join::try_new(
        left,
        right,
        join.on.clone(),
        Some(filter),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let shown = join.schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(shown)?.build().map(Some)
}

/// The field of a value that may be NULL.
fn nullable(name: String, of: &Field) -> Field {
    of.clone().with_name(name).with_nullable(true)
}

/// The field of what a subquery failed with.
fn error_field(name: String) -> Field {
    Field::new(name, DataType::Utf8, true)
}
