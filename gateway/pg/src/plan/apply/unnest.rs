//! A correlated subquery as a join, where DataFusion finds none: the subquery is evaluated once for all rows outside.
//!
//! The *domain* is the set of values that the columns outside have ([`domain`]). The subquery is rewritten so that each
//! of its rows stands beside the values of the domain for which it is a row ([`Unnesting::push`]), and its result is
//! joined with the rows outside by these values, NULLs being equal ([`same`]; [`value`], [`exists`], [`is_in`],
//! [`rows`]):
//!
//! ```text
//! t, EXISTS (SELECT 1 FROM u WHERE u.a < t.a)  →  LeftMark Join: t.a = d.c0, or both NULL
//!                                                   t
//!                                                   Join: u.a < d.c0
//!                                                     d: SELECT DISTINCT a AS c0 FROM t
//!                                                     u
//! ```
//!
//! After T. Neumann, A. Kemper, "Unnesting Arbitrary Queries", BTW 2015, whose rules for operators are those below.
//! What stays [`Apply`](super::node::Apply): subqueries without tables, which it runs for many rows by the same rules
//! ([`numbered`](mod@numbered)), with functions that are volatile, with sides
//! that name their own left side; those that may fail, where a CASE may not come to them ([`can_fail`]); a LIMIT where
//! each row reads one range of keys ([`reads_ranges`]); rows outside that may be others when they are read twice
//! ([`is_repeatable`]).

mod numbered;
mod operators;

pub(crate) use numbered::{ROW, numbered, with_values};

use super::outer_columns;
use crate::error::SqlState;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        Column, Constraint, DFSchema, ExprSchema, Result, TableReference,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    datasource::{MemTable, source_as_provider},
    functions::expr_fn::coalesce,
    functions_aggregate::{expr_fn::count, first_last::first_value},
    logical_expr::{
        BinaryExpr, Case, Distinct, Expr, ExprSchemable, FetchType, Filter, JoinType, LogicalPlan, LogicalPlanBuilder,
        Operator, Projection, SkipType, Sort, lit,
        utils::{conjunction, split_conjunction},
    },
    scalar::ScalarValue,
};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Nodes of the rows outside that are read twice at most: each LATERAL of a chain doubles them.
const NODES_MAX: usize = 200;
/// Aggregates whose value does not depend on the order of their rows, if it is no floating-point number.
const REPEATABLE: [&str; 7] = ["count", "min", "max", "sum", "avg", "bool_and", "bool_or"];
/// Aggregates that have a value for all rows.
const INFALLIBLE: [&str; 5] = ["count", "min", "max", "bool_and", "bool_or"];

/// What stands for the columns outside within a rewritten subquery.
pub(super) struct Unnesting {
    /// The distinct values of the columns outside.
    domain: LogicalPlan,
    /// A column outside, its field, and its name in the domain.
    columns: Vec<(Column, FieldRef, Column)>,
    /// Whether the first column tells all values of the domain apart.
    numbered: bool,
}

/// A rewritten subquery: its first column is `value`, the values of the domain follow.
struct Unnested {
    plan: LogicalPlan,
    name: String,
    outside: Vec<Column>,
}

fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The domain of a subquery over the rows of `input`; `None` if it has to run for each row. `all` takes subqueries that
/// read no table as well.
pub(super) fn domain(input: &LogicalPlan, subquery: &LogicalPlan, all: bool) -> Result<Option<Unnesting>> {
    let outside = outer_columns::free(subquery);
    let known = outside.iter().all(|(_, column)| input.schema().has_column(column));
    let apart = !outer_columns::is_volatile(subquery)? && (all || reads_tables(subquery)?);
    if !known || !apart || !is_repeatable(input)? || reads_ranges(subquery)? {
        return Ok(None);
    }
    let name = format!("__outer_{}", number());
    let columns = outside.into_iter().enumerate().map(|(at, (_, column))| {
        // A name of its own: subqueries stand in subqueries, whose columns are carried along.
        let here = Column::new(Some(TableReference::bare(name.clone())), format!("{name}_{at}"));
        let field = FieldRef::clone(input.schema().field_from_column(&column)?);
        Ok((column, field, here))
    });
    let columns: Vec<_> = columns.collect::<Result<_>>()?;
    if !columns.iter().all(|(_, field, _)| is_plain(field.data_type())) {
        return Ok(None);
    }
    let domain = if columns.is_empty() {
        LogicalPlanBuilder::empty(true).build()?
    } else {
        let values = columns.iter().map(|(column, _, here)| Expr::Column(column.clone()).alias(here.name.clone()));
        LogicalPlanBuilder::from(input.clone()).project(values)?.distinct()?.alias(name)?.build()?
    };
    Ok(Some(Unnesting { domain, columns, numbered: false }))
}

/// Whether a plan reads a table, not only relations in memory.
fn reads_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            reads |= !source_as_provider(&scan.source)?.is::<MemTable>();
        }
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// Whether a plan gives the same rows each time it runs, on the same tables.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let (mut repeatable, mut nodes) = (!outer_columns::is_volatile(plan)?, 0);
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        repeatable &= match node {
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().all(|expr| {
                let exact = !aggregate.schema.fields().iter().any(|field| field.data_type().is_floating());
                matches!(unaliased(expr), Expr::AggregateFunction(call) if REPEATABLE.contains(&call.func.name()))
                    && exact
            }),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => true,
            LogicalPlan::Sort(sort) => sort.fetch.is_none(),
            _ => false,
        } && nodes <= NODES_MAX;
        Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(repeatable)
}

/// Whether a subquery takes the first of its rows from one range of keys: the first column of a table's key equals what
/// is outside. A run for each row then reads a few rows only, where a join would read and sort them all.
fn reads_ranges(subquery: &LogicalPlan) -> Result<bool> {
    let (mut limited, mut ranged) = (false, false);
    let mut first_columns = Vec::new();
    subquery.apply(|node| {
        limited |= matches!(node, LogicalPlan::Limit(_));
        if let LogicalPlan::TableScan(scan) = node {
            let key =
                scan.source.constraints().into_iter().flat_map(|constraints| constraints.iter()).find_map(|one| {
                    match one {
                        Constraint::PrimaryKey(columns) => columns.first().copied(),
                        Constraint::Unique(_) => None,
                    }
                });
            first_columns.extend(key.map(|at| scan.source.schema().field(at).name().clone()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    conjuncts(subquery, |expr| {
        if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr {
            let is_first = |expr: &Expr| matches!(expr, Expr::Column(column) if first_columns.contains(&column.name));
            ranged |= is_first(left) && right.contains_outer() || is_first(right) && left.contains_outer();
        }
    })?;
    Ok(limited && ranged)
}

/// Whether an expression may leave a part of itself out for some rows: a subquery there must not fail for these.
pub(super) fn is_conditional(expr: &Expr) -> Result<bool> {
    expr.exists(|expr| {
        Ok(match expr {
            Expr::Case(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => true,
            Expr::ScalarFunction(call) => call.func.short_circuits() || call.name() == "coalesce",
            _ => false,
        })
    })
}

/// Whether an expression in a plan may fail: what is not known to give a value for all rows may.
pub(super) fn can_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut fails = false;
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                fails |= match expr {
                    Expr::BinaryExpr(BinaryExpr { op, .. }) => !matches!(
                        op,
                        Operator::And
                            | Operator::Or
                            | Operator::Eq
                            | Operator::NotEq
                            | Operator::Lt
                            | Operator::LtEq
                            | Operator::Gt
                            | Operator::GtEq
                            | Operator::IsDistinctFrom
                            | Operator::IsNotDistinctFrom
                    ),
                    Expr::Cast(cast) => {
                        let from = inputs.iter().find_map(|input| cast.expr.get_type(input.schema()).ok());
                        !from.is_some_and(|from| is_widening(&from, cast.field.data_type()))
                    }
                    Expr::AggregateFunction(call) => !INFALLIBLE.contains(&call.func.name()),
                    Expr::Alias(_)
                    | Expr::Column(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Literal(..)
                    | Expr::Placeholder(_)
                    | Expr::Not(_)
                    | Expr::IsNull(_)
                    | Expr::IsNotNull(_)
                    | Expr::IsTrue(_)
                    | Expr::IsFalse(_)
                    | Expr::IsUnknown(_)
                    | Expr::IsNotTrue(_)
                    | Expr::IsNotFalse(_)
                    | Expr::IsNotUnknown(_)
                    | Expr::Between(_)
                    | Expr::InList(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_) => false,
                    _ => true,
                };
                Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails)
}

/// Whether a cast keeps every value.
fn is_widening(from: &DataType, to: &DataType) -> bool {
    let wider = |from: &DataType, to: &DataType| from.primitive_width() <= to.primitive_width();
    (from.is_signed_integer() && to.is_signed_integer() && wider(from, to)) || (from.is_string() && to.is_string())
}

/// Visits the conjuncts of all filters of a plan.
fn conjuncts(plan: &LogicalPlan, mut visit: impl FnMut(&Expr)) -> Result<()> {
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            split_conjunction(&filter.predicate).into_iter().for_each(&mut visit);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

fn columns_of(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// Whether two values of a column are equal, or both NULL. Not `IS NOT DISTINCT FROM`: once DataFusion 55 has made it a
/// key of a join, it takes NULLs for equal in keys that other rules find later, too.
fn same(left: Expr, right: Expr, field: &Field) -> Result<Expr> {
    if !field.is_nullable() {
        return Ok(left.eq(right));
    }
    let other = lit(ScalarValue::new_default(field.data_type())?);
    let value = |of: &Expr| coalesce(vec![of.clone(), other.clone()]);
    Ok(value(&left).eq(value(&right)).and(left.is_null().eq(right.is_null())))
}

/// Whether equal values of a type are the same bytes, so that the values of a domain are distinct by `=`.
fn is_plain(data: &DataType) -> bool {
    match data {
        DataType::FixedSizeBinary(_) | DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Boolean => true,
        other => {
            other.is_integer()
                || other.is_string()
                || (other.is_temporal() && !matches!(other, DataType::Interval(_) | DataType::Duration(_)))
        }
    }
}

impl Unnesting {
    /// Whether the subquery names nothing outside.
    pub(super) fn is_constant(&self) -> bool {
        self.columns.is_empty()
    }

    fn here(&self) -> Vec<Expr> {
        self.columns.iter().map(|(_, _, here)| Expr::Column(here.clone())).collect()
    }

    fn here_of(&self, column: &Column) -> Option<(Column, FieldRef)> {
        let found = self.columns.iter().find(|(outside, ..)| outside == column)?;
        Some((found.2.clone(), FieldRef::clone(&found.1)))
    }

    /// A plan beside each value of the domain.
    fn beside(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if self.columns.is_empty() {
            return Ok(plan.clone());
        }
        let shown = columns_of(plan.schema()).into_iter().chain(self.here());
        LogicalPlanBuilder::from(self.domain.clone()).cross_join(plan.clone())?.project(shown)?.build()
    }

    /// A plan whose values of the domain have another relation's name, and a condition that both are the same.
    fn renamed(&self, plan: LogicalPlan) -> Result<(LogicalPlan, Expr)> {
        let own = plan.schema().fields().len() - self.columns.len();
        let relation = TableReference::bare(format!("__outer_{}", number()));
        let (mut shown, mut conditions) = (columns_of(plan.schema()), Vec::new());
        shown.truncate(own);
        for (at, (_, field, here)) in self.columns.iter().enumerate() {
            let there = Column::new(Some(relation.clone()), here.name.clone());
            shown.push(Expr::Column(here.clone()).alias_qualified(Some(relation.clone()), here.name.clone()));
            if at == 0 || !self.numbered {
                conditions.push(same(Expr::Column(here.clone()), Expr::Column(there), field)?);
            }
        }
        let plan = LogicalPlan::Projection(Projection::try_new(shown, plan.into())?);
        Ok((plan, conjunction(conditions).unwrap_or(lit(true))))
    }

    /// The subquery as a relation of `value` and the domain's values.
    fn relation(&self, subquery: &LogicalPlan) -> Result<Option<Unnested>> {
        let Some(plan) = self.push(subquery)? else { return Ok(None) };
        let columns = columns_of(plan.schema());
        let first = columns[..1].iter().map(|value| value.clone().alias("value"));
        let own = columns.len() - self.columns.len();
        let values = columns[own..].iter().zip(self.names()).map(|(value, name)| value.clone().alias(name));
        self.named(LogicalPlanBuilder::from(plan).project(first.chain(values).collect::<Vec<_>>())?).map(Some)
    }

    /// The names of the domain's columns.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(.., here)| here.name.as_str())
    }

    fn named(&self, plan: LogicalPlanBuilder) -> Result<Unnested> {
        let name = format!("__unnested_{}", number());
        let plan = plan.alias(name.clone())?.build()?;
        let relation = Some(TableReference::bare(name.clone()));
        let outside = self.names().map(|name| Column::new(relation.clone(), name)).collect();
        Ok(Unnested { plan, name, outside })
    }

    /// The condition that a row outside has the values of the domain beside a row of a subquery.
    fn condition(&self, unnested: &Unnested) -> Result<Expr> {
        self.condition_with(&unnested.outside)
    }

    fn condition_with(&self, values: &[Column]) -> Result<Expr> {
        let pairs = self.columns.iter().zip(values);
        let pairs = pairs.map(|((outside, field, _), value)| {
            same(Expr::Column(outside.clone()), Expr::Column(value.clone()), field)
        });
        Ok(conjunction(pairs.collect::<Result<Vec<_>>>()?).unwrap_or(lit(true)))
    }
}

impl Unnested {
    fn column(&self, name: &str) -> Expr {
        Expr::Column(Column::new(Some(TableReference::bare(self.name.clone())), name))
    }

    fn values(&self) -> Vec<Expr> {
        self.outside.iter().cloned().map(Expr::Column).collect()
    }
}

/// A subquery without what does not matter for its set of rows: an order, and for existence a LIMIT that is not zero.
fn unordered(plan: &LogicalPlan, only_existence: bool) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Sort(Sort { input, fetch: None, .. }) => unordered(input, only_existence)?,
        LogicalPlan::Projection(Projection { expr, input, schema, .. }) => {
            let input = Arc::new(unordered(input, false)?);
            LogicalPlan::Projection(Projection::try_new_with_schema(expr.clone(), input, Arc::clone(schema))?)
        }
        LogicalPlan::Limit(limit) if only_existence => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(0), FetchType::Literal(fetch)) if fetch != Some(0) => {
                unordered(&limit.input, only_existence)?
            }
            _ => plan.clone(),
        },
        _ => plan.clone(),
    })
}

/// Whether a plan has one row at most, for each value of the domain.
fn is_single(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0 | 1))) || is_single(&limit.input)?
        }
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::Sort(Sort { input, .. }) => is_single(input)?,
        LogicalPlan::SubqueryAlias(alias) => is_single(&alias.input)?,
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    })
}

/// `input` with the value of a scalar subquery, and that value.
pub(super) fn value(
    input: &LogicalPlan,
    unnesting: &Unnesting,
    subquery: &LogicalPlan,
) -> Result<Option<(LogicalPlan, Expr)>> {
    let subquery = &unordered(subquery, false)?;
    let Some(found) = unnesting.relation(subquery)? else { return Ok(None) };
    if is_single(subquery)? {
        let joined = LogicalPlanBuilder::from(input.clone()).join_on(
            found.plan.clone(),
            JoinType::Left,
            [unnesting.condition(&found)?],
        )?;
        return Ok(Some((joined.build()?, found.column("value"))));
    }
    let first = first_value(found.column("value"), Vec::new()).alias("value");
    let rows = count(lit(1_i64)).alias("rows");
    let values = found.values();
    let names = values.iter().zip(unnesting.names()).map(|(value, name)| value.clone().alias(name)).collect::<Vec<_>>();
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let grouped = LogicalPlanBuilder::from(found.plan)
        .aggregate(values, vec![first, rows])?
        .project([column("value"), column("rows")].into_iter().chain(names).collect::<Vec<_>>())?;
    let grouped = unnesting.named(grouped)?;
    let message = "more than one row returned by a subquery used as an expression";
    let told = crate::error::SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
    let told = crate::exec::apply_value::kept(datafusion::error::DataFusionError::External(Box::new(told)))?;
    let several = (Box::new(grouped.column("rows").gt(lit(1_i64))), Box::new(lit(told)));
    let error = Expr::Case(Case::new(None, vec![several], None));
    let value = crate::exec::apply_value::checked(grouped.column("value"), error);
    let joined = LogicalPlanBuilder::from(input.clone()).join_on(
        grouped.plan.clone(),
        JoinType::Left,
        [unnesting.condition(&grouped)?],
    )?;
    Ok(Some((joined.build()?, value)))
}

/// `input` with whether a subquery has rows, and that value.
pub(super) fn exists(
    input: &LogicalPlan,
    unnesting: &Unnesting,
    subquery: &LogicalPlan,
) -> Result<Option<(LogicalPlan, Expr)>> {
    let Some(found) = unnesting.relation(&unordered(subquery, true)?)? else { return Ok(None) };
    let condition = unnesting.condition(&found)?;
    let joined =
        LogicalPlanBuilder::from(input.clone()).join_on(found.plan.clone(), JoinType::LeftMark, [condition])?;
    Ok(Some((joined.build()?, found.column("mark"))))
}

/// `input` with whether `wanted` is among the rows of a subquery, and that value: true for an equal, else NULL for a
/// NULL on either side of a comparison, else false.
pub(super) fn is_in(
    input: &LogicalPlan,
    unnesting: &Unnesting,
    wanted: &Expr,
    subquery: &LogicalPlan,
) -> Result<Option<(LogicalPlan, Expr)>> {
    if !is_plain(&wanted.get_type(input.schema())?) {
        return Ok(None);
    }
    let subquery = &unordered(subquery, false)?;
    let (Some(found), Some(all)) = (unnesting.relation(subquery)?, unnesting.relation(subquery)?) else {
        return Ok(None);
    };
    let condition = unnesting.condition(&found)?.and(wanted.clone().eq(found.column("value")));
    let marked =
        LogicalPlanBuilder::from(input.clone()).join_on(found.plan.clone(), JoinType::LeftMark, [condition])?;
    let rows = count(lit(1_i64)).alias("rows");
    let compared = count(all.column("value")).alias("compared");
    let values = all.values();
    let names = values.iter().zip(unnesting.names()).map(|(value, name)| value.clone().alias(name)).collect::<Vec<_>>();
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let counted = LogicalPlanBuilder::from(all.plan)
        .aggregate(values, vec![rows, compared])?
        .project([column("rows"), column("compared")].into_iter().chain(names).collect::<Vec<_>>())?;
    let counted = unnesting.named(counted)?;
    let joined = marked.join_on(counted.plan.clone(), JoinType::Left, [unnesting.condition(&counted)?])?;
    let (rows, compared) = (counted.column("rows"), counted.column("compared"));
    let none = rows.clone().is_null().or(rows.clone().eq(lit(0_i64)));
    let unknown = wanted.clone().is_null().or(rows.gt(compared));
    let decided = Expr::Case(Case::new(
        None,
        vec![
            (Box::new(found.column("mark")), Box::new(lit(true))),
            (Box::new(none), Box::new(lit(false))),
            (Box::new(unknown), Box::new(Expr::Literal(ScalarValue::Boolean(None), None))),
        ],
        Some(Box::new(lit(false))),
    ));
    Ok(Some((joined.build()?, decided)))
}

/// `input` joined with the rows of a LATERAL subquery; `outer` keeps rows without any.
pub(super) fn rows(
    input: &LogicalPlan,
    unnesting: &Unnesting,
    subquery: &LogicalPlan,
    outer: bool,
) -> Result<Option<LogicalPlan>> {
    let Some(found) = unnesting.push(&unordered(subquery, false)?)? else { return Ok(None) };
    let here = unnesting.columns.iter().map(|(_, _, here)| here.clone()).collect::<Vec<_>>();
    let condition = unnesting.condition_with(&here)?;
    let shown = columns_of(input.schema()).into_iter().chain(columns_of(subquery.schema())).collect::<Vec<_>>();
    let kind = if outer { JoinType::Left } else { JoinType::Inner };
    LogicalPlanBuilder::from(input.clone()).join_on(found, kind, [condition])?.project(shown)?.build().map(Some)
}
