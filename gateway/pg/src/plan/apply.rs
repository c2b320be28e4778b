//! Subqueries that name columns of the query around them, where DataFusion cannot turn them into joins.
//!
//! DataFusion makes joins of some: of those that aggregate, of `EXISTS` and `IN` in a WHERE. The others (a value that
//! may be of several rows, a LIMIT, a UNION, a join's condition, two levels of names, LATERAL) it refuses. So where a
//! node of the analysed plan has a subquery, the rule [`Correlated`] lets DataFusion's optimizer try it; if a reference
//! to the outside is left, [`unnest`] tries a join of more general form. What that leaves is evaluated as the standard
//! defines it: once for each row ([`Apply`](node::Apply), [`exec`](crate::exec::apply)), or for many rows at once where
//! it reads nothing but them ([`numbered`](fn@unnest::numbered)). The node then reads the value as a column of its
//! input:
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
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter},
    },
    config::ConfigOptions,
    logical_expr::{
        BinaryExpr, Expr, FetchType, Filter, InvariantLevel, Join, LogicalPlan, LogicalPlanBuilder, Operator,
        Projection, SkipType, Sort, Subquery,
        expr::{Exists, InSubquery, Placeholder},
        expr_rewriter::NamePreserver,
        utils::{conjunction, split_conjunction},
    },
    optimizer::{AnalyzerRule, Optimizer, OptimizerContext},
};
use std::sync::Arc;

mod below;
mod in_joins;
mod mistaken;
pub mod node;
pub mod outer_columns;
mod same_names;
pub(crate) mod unnest;

use super::each_expr::under_its_name;
use below::{Below, Made, placeholder};
use in_joins::{above_or_right, in_sides, lateral, of_pairs};

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
        Ok(self.joins != Joins::None
            && !draws(node)?
            && !same_names::has_same_names(node)?
            && !mistaken::has_mistaken(node)?
            && runs(node, options))
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

    /// The subqueries of a node that name nothing outside are queries of their own. EXISTS has no list of columns.
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
                        let subquery = own(same_names::without_list(subquery)?)?;
                        Transformed::yes(Expr::Exists(Exists { subquery, negated }))
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
/// of NULLs. They know the difference for a `NOT IN` that stands alone and names nothing outside, where its left side
/// names a column: a constant (`9 NOT IN (SELECT a …)`) becomes a condition of the right side.
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
            !has_in(expr) && expr.any_column_refs() && outer_columns::free(&subquery.subquery).is_empty()
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
    let conditions = match plan {
        LogicalPlan::Filter(filter) => Some(&filter.predicate),
        LogicalPlan::Join(join) => join.filter.as_ref(),
        _ => None,
    };
    if conditions.is_some_and(|conditions| !knows_unknown(conditions)) {
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
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            // The nodes above name the columns as they were.
            under_its_name(expr, &names, |expr| {
                expr.transform_up(|expr| match expr {
                    Expr::ScalarSubquery(subquery) if outer_columns::free(&subquery.subquery).is_empty() => {
                        let field = Arc::clone(&subquery.subquery.schema().fields()[0]);
                        Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(placeholder(), Some(field)))))
                    }
                    other => Ok(Transformed::no(other)),
                })
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
            None => match in_sides(join, made)? {
                Some(sides) => Ok(Some(sides)),
                None => of_pairs(join, made),
            },
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
        Ok(name.restore(below.rewritten(expr, |_| true)?))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let over = node.with_new_exprs(exprs, vec![below.input])?;
    // What hands its input's columns on must not hand on these.
    if over.schema().fields().len() == node.schema().fields().len() {
        return Ok(over);
    }
    LogicalPlanBuilder::from(over).project(node.schema().columns().into_iter().map(Expr::Column))?.build()
}

/// The field of a value that may be NULL.
fn nullable(name: String, of: &Field) -> Field {
    of.clone().with_name(name).with_nullable(true)
}

/// The field of what a subquery failed with.
fn error_field(name: String) -> Field {
    Field::new(name, DataType::Utf8, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit, scalar_subquery};

    /// Found by sqlsmith: DataFusion 55.2 panics where a node names a column that its input no longer has.
    #[test]
    fn columns_keep_their_names_without_constants() {
        let values = |value: i32| LogicalPlanBuilder::values(vec![vec![lit(value)]]);
        let constant = scalar_subquery(Arc::new(values(1).unwrap().build().unwrap()));
        let inner = values(2).unwrap().project([col("column1") + constant]).unwrap().build().unwrap();
        let column = Expr::Column(inner.schema().columns().remove(0));
        let plan = LogicalPlanBuilder::from(inner).project([column]).unwrap().build().unwrap();
        let replaced = without_constants(&plan).unwrap();
        let inputs: Vec<_> = replaced.inputs().into_iter().cloned().collect();
        let [input] = &inputs[..] else { panic!("{replaced}") };
        let input = input.clone().recompute_schema().unwrap();
        assert!(
            input
                .expressions()
                .iter()
                .all(|expr| !expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_)))).unwrap())
        );
        assert_eq!(input.schema().columns(), plan.inputs()[0].schema().columns());
    }
}
