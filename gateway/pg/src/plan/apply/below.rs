//! The input of a node, to which values of subqueries are added as columns: by joins where they become joins, else by a
//! run for each row.

use super::{
    Joins, OUTER, is_drawn,
    node::{Apply, Kind},
    outer_columns,
    unnest::{self, Unnesting},
};
use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode},
    },
    functions_aggregate::expr_fn::{bool_or, count},
    logical_expr::{
        Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery,
        expr::{Exists, InSubquery, Placeholder},
        lit,
        utils::split_conjunction,
    },
    scalar::ScalarValue,
};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// What is made of the subqueries of a node.
pub(super) struct Made {
    /// How many became columns, in the whole plan.
    pub(super) columns: usize,
    pub(super) joins: Joins,
    /// Whether one became a join.
    pub(super) joined: bool,
}

impl Made {
    /// How a subquery over `input` becomes a join, if it does.
    pub(super) fn unnesting(&self, input: &LogicalPlan, subquery: &LogicalPlan) -> Result<Option<Unnesting>> {
        match self.joins {
            Joins::None => Ok(None),
            joins => unnest::domain(input, subquery, joins == Joins::All),
        }
    }
}

/// An input to which values of subqueries are added.
pub(super) struct Below<'a> {
    pub(super) input: LogicalPlan,
    /// The input before anything was added.
    base: LogicalPlan,
    known: HashMap<Expr, Expr>,
    /// Whether the expression at hand may leave its subqueries out for some rows.
    conditional: bool,
    made: &'a mut Made,
}

impl<'a> Below<'a> {
    pub(super) fn over(input: LogicalPlan, made: &'a mut Made) -> Self {
        Self { base: input.clone(), input, known: HashMap::new(), conditional: false, made }
    }

    /// An expression above the input, with values for its subqueries that `wanted` names.
    pub(super) fn rewritten(&mut self, expr: Expr, wanted: impl Fn(&Expr) -> bool) -> Result<Expr> {
        self.conditional = false;
        for part in split_conjunction(&expr) {
            self.conditional |= unnest::is_conditional(part)?;
        }
        let rewritten = expr.transform_up(|expr| match wanted(&expr) {
            true => self.replaced(expr),
            false => Ok(Transformed::no(expr)),
        })?;
        Ok(rewritten.data)
    }

    /// A subquery that has become a join; `None` if it is evaluated for each row.
    pub(super) fn joined(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        let (Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })) = expr
        else {
            return Ok(None);
        };
        let subquery = subquery.subquery.as_ref();
        if self.conditional && unnest::can_fail(subquery)? {
            return Ok(None);
        }
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

    pub(super) fn add(&mut self, kind: Kind, plan: LogicalPlan, bound: Option<(String, Expr)>) -> Result<Expr> {
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
pub(super) fn placeholder() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{OUTER}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A subquery with placeholders where it names what is outside, and what these are of a row of `schema`. What that row
/// does not have either is further outside, and stays a reference, or the placeholder that it is already.
pub(super) fn closed(plan: LogicalPlan, schema: &DFSchema) -> Result<(LogicalPlan, Vec<(String, Expr)>)> {
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
pub(super) fn among(wanted: Expr, query: &LogicalPlan) -> Result<LogicalPlan> {
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
