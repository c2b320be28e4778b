//! A join with the lists of its own left side's rows: `FROM t, unnest(t.items)`.
//!
//! DataFusion plans it as a join with a correlated subquery and has no way to run that. The subquery has no table of
//! its own: it computes lists of the outer row and unnests them. So the lists are computed beside the left side's
//! columns, and unnested there.

use datafusion::{
    common::{
        Column, DFSchema, NullHandling, TableReference,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Unnest, expr::Alias},
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};

/// The rule.
#[derive(Debug)]
pub struct Lateral;

impl AnalyzerRule for Lateral {
    fn name(&self) -> &str {
        "lateral_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _options: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan
            .transform_up_with_subqueries(|plan| match plan {
                LogicalPlan::Join(join) => match unnested(&join)? {
                    Some(plan) => Ok(Transformed::yes(plan)),
                    None => Ok(Transformed::no(LogicalPlan::Join(join))),
                },
                other => Ok(Transformed::no(other)),
            })?
            .data)
    }
}

/// What a correlated subquery of lists is made of.
struct Lists {
    alias: Option<TableReference>,
    /// The names that its alias gives its columns, and what each is of the unnested columns, from outside in.
    projections: Vec<Projection>,
    unnest: Unnest,
    computed: Projection,
}

fn lists(plan: &LogicalPlan) -> Option<Lists> {
    let mut alias = None;
    let mut projections = Vec::new();
    let mut plan = plan;
    let mut correlated = false;
    loop {
        match plan {
            LogicalPlan::SubqueryAlias(inner) => {
                alias = alias.or_else(|| Some(inner.alias.clone()));
                plan = &inner.input;
            }
            LogicalPlan::Subquery(inner) => {
                correlated |= !inner.outer_ref_columns.is_empty();
                plan = &inner.subquery;
            }
            LogicalPlan::Projection(inner) => {
                projections.push(inner.clone());
                plan = &inner.input;
            }
            LogicalPlan::Unnest(unnest) => {
                let LogicalPlan::Projection(computed) = unnest.input.as_ref() else { return None };
                let alone =
                    matches!(computed.input.as_ref(), LogicalPlan::EmptyRelation(empty) if empty.produce_one_row);
                let found = Lists { alias, projections, unnest: unnest.clone(), computed: computed.clone() };
                return (alone && correlated).then_some(found);
            }
            _ => return None,
        }
    }
}

fn unnested(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(lists) = lists(&join.right) else { return Ok(None) };
    let always = |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let keeps = match join.join_type {
        JoinType::Inner if join.on.is_empty() => false,
        JoinType::Left if join.on.is_empty() && join.filter.as_ref().is_none_or(always) => true,
        _ => return Ok(None),
    };
    let left: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed = left.clone();
    for expr in &lists.computed.expr {
        computed.push(expr.clone().transform_up(|expr| Ok(here(expr, join.left.schema())))?.data);
    }
    let mut options = lists.unnest.options.clone();
    options.null_handling = if keeps { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
    let mut plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(computed)?
        .unnest_columns_with_options(lists.unnest.exec_columns.clone(), options)?;
    // The subquery's own projections, from inside out, with the left side's columns carried along. Their columns have
    // names that none of the left side has.
    let mut names: Vec<String> = Vec::new();
    for (level, projection) in lists.projections.iter().rev().enumerate() {
        let columns = projection.schema.columns();
        let items = projection.expr.iter().zip(&columns).map(|(expr, column)| {
            let expr = inner(unaliased(expr), (level, &names), join.left.schema())?;
            Ok(Expr::Alias(Alias::new(expr, None::<TableReference>, inner_name(level, &column.name))))
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        plan = plan.project(left.iter().cloned().chain(items).collect::<Vec<_>>())?;
        names = columns.into_iter().map(|column| column.name).collect();
    }
    let shown = join.right.schema().columns();
    let computed: Vec<Column> = match lists.projections.len().checked_sub(1) {
        Some(level) => names.iter().map(|name| Column::new_unqualified(inner_name(level, name))).collect(),
        None => lists.unnest.schema.columns(),
    };
    let shown = computed.into_iter().zip(shown).map(|(computed, shown)| {
        Expr::Alias(Alias::new(Expr::Column(computed), lists.alias.clone().or(shown.relation), shown.name))
    });
    let mut plan = plan.project(left.into_iter().chain(shown).collect::<Vec<_>>())?;
    if let (Some(filter), false) = (&join.filter, keeps) {
        plan = plan.filter(filter.clone())?;
    }
    plan.build().map(Some)
}

/// The name of a column of the subquery's projection of a level, from inside out.
fn inner_name(level: usize, name: &str) -> String {
    format!("\u{1}lateral {level} {name}")
}

/// A column of the row before is one of the left side, but for those of a row further out, where all of this is a
/// subquery.
fn here(expr: Expr, left: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::OuterReferenceColumn(_, column) if left.has_column(&column) => Transformed::yes(Expr::Column(column)),
        other => Transformed::no(other),
    }
}

/// An expression of the projection of a level: columns of the outer row are those of the left side, and those of the
/// projection below, which are called `names`, have their inner names.
fn inner(expr: Expr, (level, names): (usize, &[String]), left: &DFSchema) -> Result<Expr> {
    let renamed = expr.transform_up(|expr| {
        Ok(match (expr, level.checked_sub(1)) {
            (Expr::Column(column), Some(below)) if names.contains(&column.name) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(inner_name(below, &column.name))))
            }
            (other, _) => here(other, left),
        })
    });
    Ok(renamed?.data)
}

fn unaliased(expr: &Expr) -> Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other.clone(),
    }
}
