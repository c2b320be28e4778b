//! How each operator of a subquery is rewritten so that its rows stand beside the values outside.

use super::{Unnesting, columns_of, number, unaliased};
use crate::plan::apply::{is_lateral, outer_columns};
use datafusion::{
    common::{
        Column, DFSchema, Result, TableReference,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    functions_window::expr_fn::row_number,
    logical_expr::{
        Aggregate, Case, Distinct, Expr, ExprFunctionExt, FetchType, Filter, Join, JoinType, Limit, LogicalPlan,
        LogicalPlanBuilder, Projection, SkipType, Sort, SortExpr, Window, expr_rewriter::NamePreserver, lit,
        utils::conjunction,
    },
};
use std::sync::Arc;

impl Unnesting {
    /// The node with columns of the domain for those outside, without its inputs. Its schema is as it was.
    pub(super) fn rewritten(&self, node: &LogicalPlan) -> Result<LogicalPlan> {
        let names = NamePreserver::new(node);
        let direct = |column: &Column| self.here_of(column).map(|(here, _)| Expr::Column(here));
        let nested =
            |column: &Column| self.here_of(column).map(|(here, field)| Expr::OuterReferenceColumn(field, here));
        let rewritten = node.clone().map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = outer_columns::replaced_within(expr, node, &direct, &nested)?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        Ok(rewritten.data)
    }

    /// A plan with the columns of `plan`, then those of the domain: for each value of it the rows that the plan has for
    /// this value. `None` where no rule says how.
    pub(super) fn push(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if outer_columns::free(plan).iter().all(|(_, column)| self.here_of(column).is_none()) {
            return self.beside(plan).map(Some);
        }
        if let LogicalPlan::Subquery(subquery) = plan {
            return self.push(&subquery.subquery);
        }
        if let LogicalPlan::Join(join) = plan {
            return self.join(join);
        }
        if let LogicalPlan::Limit(limit) = plan {
            return self.limit(limit);
        }
        if let Some(listed) = self.listed(plan)? {
            return Ok(Some(listed));
        }
        if let LogicalPlan::Union(union) = plan {
            return self.union(union.inputs.as_slice(), &union.schema);
        }
        let [input] = plan.inputs()[..] else { return Ok(None) };
        let rewritten = self.rewritten(plan)?;
        let Some(input) = self.push(input)? else { return Ok(None) };
        Ok(Some(match rewritten {
            LogicalPlan::Filter(filter) => LogicalPlan::Filter(Filter::try_new(filter.predicate, input.into())?),
            LogicalPlan::Projection(projection) => {
                let exprs = projection.expr.into_iter().chain(self.here()).collect();
                LogicalPlan::Projection(Projection::try_new(exprs, input.into())?)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let inner = alias.input.schema().columns().into_iter().zip(alias.schema.columns());
                let shown = inner.map(|(inner, shown)| Expr::Column(inner).alias_qualified(shown.relation, shown.name));
                let exprs = shown.chain(self.here()).collect();
                LogicalPlan::Projection(Projection::try_new(exprs, input.into())?)
            }
            LogicalPlan::Distinct(Distinct::All(_)) => LogicalPlanBuilder::from(input).distinct()?.build()?,
            LogicalPlan::Aggregate(aggregate) => return self.aggregate(aggregate, input),
            LogicalPlan::Window(window) => return self.window(window, input),
            LogicalPlan::Unnest(unnest) => return self.unnest(&unnest, input),
            _ => return Ok(None),
        }))
    }

    /// Groups of the domain's values as well. Without groups there is a row for each of these, also if no row is.
    fn aggregate(&self, aggregate: Aggregate, input: LogicalPlan) -> Result<Option<LogicalPlan>> {
        let Aggregate { group_expr, aggr_expr, schema, .. } = aggregate;
        if group_expr.iter().any(|expr| matches!(unaliased(expr), Expr::GroupingSet(_))) {
            return Ok(None);
        }
        let alone = group_expr.is_empty();
        let groups = group_expr.into_iter().chain(self.here()).collect::<Vec<_>>();
        let grouped = LogicalPlanBuilder::from(input).aggregate(groups, aggr_expr.clone())?.build()?;
        let inner = columns_of(grouped.schema());
        let own = schema.fields().len();
        let plain = own - aggr_expr.len();
        let ours = inner[..plain].iter().chain(&inner[plain + self.columns.len()..]).cloned().collect::<Vec<_>>();
        let shown = |exprs: Vec<Expr>| {
            let named = exprs.into_iter().zip(schema.columns()).map(|(expr, shown)| match &expr {
                Expr::Column(column) if *column == shown => expr,
                _ => expr.alias_qualified(shown.relation, shown.name),
            });
            named.collect::<Vec<_>>()
        };
        if !alone {
            let exprs = shown(ours).into_iter().chain(self.here());
            return LogicalPlanBuilder::from(grouped).project(exprs)?.build().map(Some);
        }
        let (grouped, condition) =
            self.renamed(LogicalPlanBuilder::from(grouped).project(ours.into_iter().chain(self.here()))?.build()?)?;
        let mut values = Vec::with_capacity(own);
        for ((expr, column), field) in aggr_expr.iter().zip(grouped.schema().columns()).zip(schema.fields()) {
            let Expr::AggregateFunction(call) = unaliased(expr) else { return Ok(None) };
            let of_none = call.func.default_value(field.data_type())?;
            let value = Expr::Column(column);
            values.push(match of_none.is_null() {
                true => value,
                false => {
                    let of_none = lit(of_none.cast_to(field.data_type())?);
                    let missing = (Box::new(value.clone().is_null()), Box::new(of_none));
                    Expr::Case(Case::new(None, vec![missing], Some(Box::new(value))))
                }
            });
        }
        let exprs = shown(values).into_iter().chain(self.here());
        LogicalPlanBuilder::from(self.domain.clone())
            .join_on(grouped, JoinType::Left, [condition])?
            .project(exprs)?
            .build()
            .map(Some)
    }

    /// Windows within the rows of one value.
    fn window(&self, window: Window, input: LogicalPlan) -> Result<Option<LogicalPlan>> {
        let is_ordered =
            |expr: &Expr| matches!(unaliased(expr), Expr::WindowFunction(call) if !call.params.order_by.is_empty());
        // The sort by values of the domain does not keep the order in which rows come.
        if self.numbered && !window.window_expr.iter().all(is_ordered) {
            return Ok(None);
        }
        let names = window.window_expr.iter().map(|expr| expr.schema_name().to_string()).collect::<Vec<_>>();
        let windows = window.window_expr.into_iter().map(|expr| {
            expr.transform(|expr| match expr {
                Expr::WindowFunction(mut call) => {
                    call.params.partition_by.extend(self.here());
                    Ok(Transformed::new(Expr::WindowFunction(call), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })
        });
        let windows = windows.map(|expr| Ok(expr?.data)).collect::<Result<Vec<_>>>()?;
        let own = window.input.schema().fields().len();
        let computed = windows
            .iter()
            .zip(names)
            .map(|(expr, name)| Expr::Column(Column::new_unqualified(expr.schema_name().to_string())).alias(name));
        let mut shown = columns_of(input.schema());
        shown.truncate(own);
        let exprs = shown.into_iter().chain(computed).chain(self.here()).collect::<Vec<_>>();
        LogicalPlanBuilder::from(input).window(windows)?.project(exprs)?.build().map(Some)
    }

    /// The first rows of each value.
    fn limit(&self, limit: &Limit) -> Result<Option<LogicalPlan>> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        // What is computed of the sorted rows, one by one, is computed of the first ones.
        if let LogicalPlan::Projection(projection) = limit.input.as_ref()
            && let LogicalPlan::Sort(_) = projection.input.as_ref()
        {
            let first = LogicalPlan::Limit(Limit { input: Arc::clone(&projection.input), ..limit.clone() });
            let computed = Projection::try_new_with_schema(
                projection.expr.clone(),
                Arc::new(first),
                Arc::clone(&projection.schema),
            )?;
            return self.push(&LogicalPlan::Projection(computed));
        }
        let (orders, input): (Vec<SortExpr>, &LogicalPlan) = match limit.input.as_ref() {
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => match self.rewritten(&limit.input)? {
                LogicalPlan::Sort(sort) => (sort.expr, input),
                _ => return Ok(None),
            },
            // Which rows are the first is for the order in which they come to say, and no sort keeps that.
            _ if self.numbered => return Ok(None),
            other => (Vec::new(), other),
        };
        let Some(input) = self.push(input)? else { return Ok(None) };
        let place = row_number().partition_by(self.here()).order_by(orders).build()?;
        let number = Expr::Column(Column::new_unqualified(place.schema_name().to_string()));
        let last = fetch.map(|fetch| number.clone().lt_eq(lit(skip.saturating_add(fetch) as u64)));
        let wanted = conjunction([number.gt(lit(skip as u64))].into_iter().chain(last)).unwrap_or(lit(true));
        let shown = columns_of(input.schema());
        LogicalPlanBuilder::from(input).window([place])?.filter(wanted)?.project(shown)?.build().map(Some)
    }

    /// All inputs, by position.
    fn union(&self, inputs: &[Arc<LogicalPlan>], schema: &DFSchema) -> Result<Option<LogicalPlan>> {
        let relation = TableReference::bare(format!("__union_{}", number()));
        let mut whole: Option<LogicalPlan> = None;
        for input in inputs {
            let Some(input) = self.push(input)? else { return Ok(None) };
            let exprs = columns_of(input.schema()).into_iter().enumerate();
            let exprs = exprs.map(|(at, expr)| expr.alias(format!("c{at}"))).collect::<Vec<_>>();
            let input = LogicalPlanBuilder::from(input).project(exprs)?.build()?;
            whole = Some(match whole {
                Some(before) => LogicalPlanBuilder::from(before).union(input)?.build()?,
                None => input,
            });
        }
        let Some(whole) = whole else { return Ok(None) };
        let whole = LogicalPlanBuilder::from(whole).alias(relation)?.build()?;
        let here = self.columns.iter().map(|(_, _, here)| here.clone());
        let names = schema.columns().into_iter().chain(here);
        let exprs = columns_of(whole.schema()).into_iter().zip(names);
        let exprs = exprs.map(|(expr, name)| expr.alias_qualified(name.relation, name.name));
        LogicalPlanBuilder::from(whole).project(exprs.collect::<Vec<_>>())?.build().map(Some)
    }

    /// The domain beside the side of a join whose rows all stay, and beside the other where that names it.
    fn join(&self, join: &Join) -> Result<Option<LogicalPlan>> {
        if is_lateral(join) || join.null_aware {
            return Ok(None);
        }
        let LogicalPlan::Join(rewritten) = self.rewritten(&LogicalPlan::Join(join.clone()))? else { return Ok(None) };
        let names =
            |plan: &LogicalPlan| outer_columns::free(plan).iter().any(|(_, column)| self.here_of(column).is_some());
        let keys = |left, right, filter: Option<Expr>| -> Result<LogicalPlan> {
            Ok(LogicalPlan::Join(Join::try_new(
                Arc::new(left),
                Arc::new(right),
                rewritten.on.clone(),
                filter,
                join.join_type,
                join.join_constraint,
                join.null_equality,
                false,
            )?))
        };
        let own = columns_of(&join.schema);
        let shown = |joined: LogicalPlan| {
            let exprs = own.iter().cloned().chain(self.here()).collect::<Vec<_>>();
            LogicalPlanBuilder::from(joined).project(exprs)?.build().map(Some)
        };
        let of_right = names(&join.right);
        match join.join_type {
            JoinType::Inner if !names(&join.left) && of_right => {
                let Some(right) = self.push(&join.right)? else { return Ok(None) };
                shown(keys(join.left.as_ref().clone(), right, rewritten.filter.clone())?)
            }
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
                let Some(left) = self.push(&join.left)? else { return Ok(None) };
                if !of_right {
                    return shown(keys(left, join.right.as_ref().clone(), rewritten.filter.clone())?);
                }
                let Some(right) = self.push(&join.right)? else { return Ok(None) };
                let (right, condition) = self.renamed(right)?;
                let filter = conjunction(rewritten.filter.clone().into_iter().chain([condition]));
                shown(keys(left, right, filter)?)
            }
            _ => Ok(None),
        }
    }
}
